"""Delta tables of Delta's own golden tests: the data source in Spark returns the rows that are stored beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import geolake_nb as gl
from tests.scan.test_expected_rows import expected_rows, rows

pytestmark = pytest.mark.spark

_FOLDER = os.environ.get("GEOLAKE_EXPECTED_ROWS")


@pytest.mark.skipif(not _FOLDER, reason="GEOLAKE_EXPECTED_ROWS is not set: the tables with their rows are not here")
def test_the_spark_source_returns_the_expected_rows(spark):
    folders = sorted(path.parent for path in Path(_FOLDER or "", "delta").glob("*/expected"))
    assert folders
    gl.spark_source.register(spark)
    wrong = {}
    for folder in folders:
        frame = spark.read.format("geolake").option("bbox", "false").load(str(folder / "delta"))
        returned, expected = frame.toArrow(), expected_rows(folder)
        assert returned.column_names == expected.column_names, folder.name
        if rows(returned) != rows(expected):
            wrong[folder.name] = (returned.slice(0, 3).to_pylist(), expected.slice(0, 3).to_pylist())
    assert wrong == {}
