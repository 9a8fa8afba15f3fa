"""The bridge in effect for one test, and catalogs to try it on."""

from __future__ import annotations

import pytest

import geolake_nb.pyiceberg as geo


@pytest.fixture
def bridge():
    geo.enable()
    yield geo
    geo.disable()


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    """A SQL catalog on SQLite, also configured by the name `lake`."""
    from pyiceberg.catalog import load_catalog

    uri = f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/warehouse")
    made = load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    made.create_namespace("ns")
    yield made
    made.engine.dispose()
