"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.iceberg_rest import rest_server
from tests.iceberg_spark import iceberg_spark
from tests.spark_session import spark
from tests.storage.s3_endpoint import serve_s3

__all__ = ["corpus", "iceberg_spark", "rest_server", "s3", "spark"]

# The suite draws the same examples on every machine and has no stopwatch; tests/heavy draws new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")


# A shell that starts the tests in the background has them ignore SIGINT, and `nohup` has them ignore SIGHUP. Whatever
# they start would ignore these too, so that they are handled instead; a hangup still does nothing to the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

_COSTLY = (
    "tests/demo/",
    "tests/formats/iceberg/test_spark_tables.py",
    "tests/jupyter/lab/",
    "tests/notebooks/",
    "tests/promises/",
    "tests/spark/",
)


_SPARK_FIXTURES = {"iceberg_spark", "rest_server", "spark"}
# What `python3 -m tests --quick` leaves to the whole suite, beside Spark and browsers.
_SLOW = ("tests/demo/", "tests/heavy/", "tests/promises/", "tests/test_binder.py", "tests/test_packaging.py")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares a costly thing, so that two workers do not make it twice.

    That is the other Spark for all that ask it, else the tables and servers of a module.
    """
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & _SPARK_FIXTURES:
            item.add_marker(pytest.mark.spark)
        if "browser" in fixtures or item.nodeid.startswith(("tests/jupyter/lab/", "tests/notebooks/")):
            item.add_marker(pytest.mark.browser)
        if item.nodeid.startswith(_SLOW):
            item.add_marker(pytest.mark.slow)
        if "iceberg_spark" in fixtures:
            item.add_marker(pytest.mark.xdist_group("iceberg_spark"))
        elif item.nodeid.startswith(_COSTLY) or "spark" in fixtures:
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
