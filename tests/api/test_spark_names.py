"""A table by the name that the running Spark session knows it by."""

from __future__ import annotations

import pytest

import geolake_nb as gl
from geolake_nb.errors import MissingFileError

pytestmark = pytest.mark.spark


def test_a_table_of_the_session_is_opened_by_its_name(spark):
    spark.sql("CREATE TABLE named_roads (id INT, g GEOMETRY(4326)) USING delta")
    point = "X'0101000000000000000000F03F0000000000000040'"
    spark.sql(f"INSERT INTO named_roads VALUES (1, st_setsrid(st_geomfromwkb({point}), 4326))")
    table = gl.open("named_roads")
    assert table.files.table["rows"].to_pylist() == [1]
    assert str(table.schema.find("g").type.crs) == "OGC:CRS84"
    assert gl.open("default.named_roads").version == table.version


def test_a_name_that_the_session_does_not_know_is_a_missing_path(spark):
    with pytest.raises(MissingFileError):
        gl.open("no_such_table")
    with pytest.raises(MissingFileError):
        gl.open("x` UNION SELECT 1 --")
