"""Iceberg tables that Spark 4.1 makes and reads back, opened here by their names or paths."""

from __future__ import annotations

import struct

import pytest
import shapely

import geolake_nb as gl


def doubles(*values):
    return struct.pack(f"<{len(values)}d", *values).hex()


def shape(geometry, function="st_geomfromwkb"):
    return f"{function}(X'{shapely.to_wkb(geometry, output_dimension=4, flavor='iso').hex()}')"


def row(id_, g, h):
    first = "NULL" if g is None else f"st_setsrid({shape(g)}, 4326)"
    second = "NULL" if h is None else shape(h, "st_geogfromwkb")
    return f"({id_}, 'n{id_}', {first}, {second})"


@pytest.fixture
def named(iceberg_spark, monkeypatch, tmp_path):
    """Makes tables in a catalog, and opens them by their names or paths."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_CATALOG__JDBC__URI", f"sqlite:///{iceberg_spark.database}")
    monkeypatch.setenv("PYICEBERG_CATALOG__REST__URI", iceberg_spark.rest)

    class Named:
        sql = staticmethod(iceberg_spark.sql)
        warehouse = iceberg_spark.warehouse

        @staticmethod
        def make(table, *, properties="'format-version'='3', 'write.delete.mode'='merge-on-read'"):
            iceberg_spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}")
            iceberg_spark.sql(
                f"CREATE TABLE {table} (id INT, name STRING, g GEOMETRY(4326), h GEOGRAPHY(4326)) USING iceberg"
                f" TBLPROPERTIES({properties})"
            )
            return table

        @staticmethod
        def insert(table, *rows):
            iceberg_spark.sql(f"INSERT INTO {table} VALUES {', '.join(rows)}")

        @staticmethod
        def open(table):
            catalog, _, rest = table.partition(".")
            return gl.open(str(iceberg_spark.warehouse / rest.replace(".", "/")) if catalog == "ice" else table)

    return Named


def points(start, *, count=4):
    return [row(start + i, shapely.Point(start + i, i), shapely.Point(start + i, -i)) for i in range(count)]
