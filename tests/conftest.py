"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.formats.s3_endpoint import serve_s3
from tests.iceberg_rest import rest_server
from tests.iceberg_spark import iceberg_spark
from tests.spark_session import spark

__all__ = ["corpus", "iceberg_spark", "rest_server", "s3", "spark"]

# The suite draws the same examples on every machine and has no stopwatch; tests/heavy draws new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")


_COSTLY = (
    "tests/demo/",
    "tests/formats/iceberg/test_spark_tables.py",
    "tests/jupyter/lab/",
    "tests/notebooks/",
    "tests/promises/",
    "tests/spark/",
)


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares a costly thing, so that two workers do not make it twice.

    That is the other Spark for all that ask it, else the tables and servers of a module.
    """
    for item in items:
        if "iceberg_spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("iceberg_spark"))
        elif item.nodeid.startswith(_COSTLY) or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real files from other projects, outside this repository."""
    folder = os.environ.get("GEOLAKE_CORPUS")
    if not folder:
        pytest.skip("GEOLAKE_CORPUS is not set: the corpus of real files is not here")
    return Path(folder)


@pytest.fixture(scope="session")
def s3():
    """An S3 endpoint on loopback with the bucket `lake`."""
    with serve_s3() as endpoint:
        endpoint.make_bucket("lake")
        yield endpoint
