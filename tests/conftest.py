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
