"""The rows of folders of Parquet files: hive partitions, files that lack columns, and foreign encodings."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import CorruptTableError, GeolakeError
from tests.formats.parquet_sets import make_set
from tests.small_tables import make_parquet


def ids(table, where=None):
    return sorted(table.scan(where, columns=["id"]).to_arrow()["id"].to_pylist())


def put(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def test_hive_partitions_are_columns_of_their_types(tmp_path):
    folders = {
        "n=1/p=a%2Fb%3A 1%25/d=2024-02-29": (1, "a/b: 1%", dt.date(2024, 2, 29)),
        "n=-7/p=%C3%BC/d=1969-12-31": (-7, "ü", dt.date(1969, 12, 31)),
        "n=__HIVE_DEFAULT_PARTITION__/p=k%3Dv/d=__HIVE_DEFAULT_PARTITION__": (None, "k=v", None),
        "n=10/p=__HIVE_DEFAULT_PARTITION__/d=2030-01-01": (10, None, dt.date(2030, 1, 1)),
    }
    for number, folder in enumerate(folders):
        put(tmp_path / "t" / folder / "a.parquet", id=[number])
    table = gl.open(str(tmp_path / "t"))
    answer = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["n"], row["p"], row["d"]) for row in answer] == list(folders.values())
    assert ids(table, "p = 'a/b: 1%'") == [0]
    assert ids(table, "n < 2") == [0, 1]
    assert ids(table, "NOT (n < 2)") == [3]
    assert ids(table, "d IS NULL OR p = 'ü'") == [1, 2]
    assert ids(table, "d > DATE '2024-01-01' AND p IS NULL") == [3]
    assert table.scan("n = 1", columns=["p"]).to_arrow().to_pylist() == [{"p": "a/b: 1%"}]
    assert table.scan("n = 1").count() == 1


def test_duckdb_reads_the_same_rows_of_partitions(tmp_path):
    import duckdb

    rows = pa.table(
        {"id": range(60), "a": [number % 4 for number in range(60)], "b": [f"x{number % 3}" for number in range(60)]}
    )
    with duckdb.connect() as connection:
        connection.register("held", rows)
        connection.sql(f"COPY (SELECT * FROM held) TO '{tmp_path}/t' (FORMAT parquet, PARTITION_BY (a, b))")
    table = gl.open(str(tmp_path / "t"))
    for where in ("a = 1", "b = 'x2' AND a > 1", "a IN (0, 3) OR b = 'x0'", "NOT (a = 1 AND b = 'x1')"):
        with duckdb.connect() as connection:
            expected = connection.sql(
                f"SELECT id FROM read_parquet('{tmp_path}/t/**/*.parquet', hive_partitioning = true) WHERE {where}"
            )
            assert ids(table, where) == sorted(row[0] for row in expected.fetchall())


def test_columns_that_some_files_lack_are_null_there(tmp_path):
    put(tmp_path / "t" / "a.parquet", id=[1, 2], s=["x", None])
    put(tmp_path / "t" / "b.parquet", id=[3], n=[5])
    put(tmp_path / "t" / "c.parquet", n=pa.array([6], pa.int64()), s=["y"], id=[4])
    table = gl.open(str(tmp_path / "t"))
    answer = sorted(table.scan(columns=["id", "s", "n"]).to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [tuple(row.values()) for row in answer] == [(1, "x", None), (2, None, None), (3, None, 5), (4, "y", 6)]
    assert ids(table, "s IS NULL") == [2, 3]
    assert ids(table, "n >= 5") == [3, 4]
    assert ids(table, "NOT (n = 5)") == [4]


POINTS = [(1.0, 1.0), (9.0, 9.0), (-3.0, 2.0)]


@pytest.mark.parametrize("coords", ["interleaved", "separated"])
def test_native_encodings_are_geometries(tmp_path, coords):
    import geoarrow.pyarrow as ga

    kinds = {
        "point": shapely.points(POINTS),
        "linestring": np.array(
            [shapely.LineString([(0, 0), (4, 4)]), shapely.LineString([(8, 8), (9, 9)]), None], object
        ),
        "polygon": np.array([shapely.box(0, 0, 4, 4), shapely.box(8, 8, 9, 9), None], object),
        "multipoint": np.array([shapely.MultiPoint(POINTS), shapely.MultiPoint([(9, 9)]), None], object),
        "multilinestring": np.array([shapely.MultiLineString([[(0, 0), (4, 4)]]), None, None], object),
        "multipolygon": np.array([shapely.MultiPolygon([shapely.box(0, 0, 4, 4)]), None, None], object),
    }
    for name, shapes in kinds.items():
        wkb = ga.array(pa.array(shapely.to_wkb(shapes), pa.binary()))
        kind = {"interleaved": ga.CoordType.INTERLEAVED, "separated": ga.CoordType.SEPARATED}[coords]
        native = ga.as_geoarrow(wkb, coord_type=kind)
        column = {"encoding": name, "geometry_types": []}
        geo = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": column}}
        table = pa.table({"id": range(3), "geom": native.storage}).replace_schema_metadata({"geo": json.dumps(geo)})
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "a.parquet")
        if coords == "interleaved":  # GeoParquet knows columns of x and y alone
            continue
        opened = gl.open(str(tmp_path / name))
        for window in ([0, 0, 2, 2], [8, 8, 20, 20], [-180, -90, 180, 90]):
            rows = np.flatnonzero(shapely.intersects(shapes, shapely.box(*window))).tolist()
            assert ids(opened, window) == rows, (name, window)
        frame = opened.scan("id = 0").to_geopandas()
        assert frame.geometry[0].equals(shapes[0])


def test_dates_of_the_legacy_calendar_are_those_that_spark_shows(spark, tmp_path):
    days = ["0001-01-01", "1000-03-01", "1582-10-04", "1582-10-15", "1970-01-01"]
    values = ", ".join(f"({number}, DATE '{text}')" for number, text in enumerate(days))
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, day)")
        frame.coalesce(1).write.parquet(str(tmp_path / "t"))
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    table = gl.open(str(tmp_path / "t"))
    answer = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [row["day"].isoformat() for row in answer] == days
    for number, text in enumerate(days):
        assert ids(table, f"day = DATE '{text}'") == [number]
    assert ids(table, "day < DATE '1582-10-10'") == [0, 1, 2]


def test_a_missing_file_is_named_in_one_sentence(tmp_path):
    table = gl.open(str(make_parquet(tmp_path / "t")))
    (tmp_path / "t" / "part-2.parquet").unlink()
    with pytest.raises(GeolakeError, match=r"part-2\.parquet") as caught:
        table.scan().to_arrow()
    assert "\n" not in str(caught.value)


def test_a_corrupt_page_is_named_in_one_sentence(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(
        pa.table({"id": range(5000), "s": [f"text {number}" for number in range(5000)]}),
        folder / "a.parquet",
        compression="zstd",
    )
    chunk = pq.read_metadata(folder / "a.parquet").row_group(0).column(1)
    table = gl.open(str(folder))
    with (folder / "a.parquet").open("r+b") as file:
        file.seek((chunk.dictionary_page_offset or chunk.data_page_offset) + 40)
        file.write(b"\xde\xad\xbe\xef" * 40)
    with pytest.raises(CorruptTableError, match=r"a\.parquet") as caught:
        table.scan().to_arrow()
    assert "\n" not in str(caught.value)
    # The other column is whole.
    assert ids(table, "id < 3") == [0, 1, 2]


def test_a_file_that_was_cut_off_is_named_in_one_sentence(tmp_path):
    folder = make_set(tmp_path / "t")
    table = gl.open(str(folder))
    data = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(data[:20])
    with pytest.raises(GeolakeError, match=r"1\.parquet") as caught:
        table.scan().to_arrow()
    assert "\n" not in str(caught.value)


def test_nested_columns_of_all_kinds_come_back(tmp_path):
    rows = pa.table({
        "id": [0, 1],
        "l": pa.array([[{"a": 1}, None], None], pa.list_(pa.struct({"a": pa.int8()}))),
        "m": pa.array([[("k", [1, None])], []], pa.map_(pa.string(), pa.list_(pa.int64()))),
        "s": pa.array([{"x": {"y": b"z"}}, None], pa.struct({"x": pa.struct({"y": pa.binary()})})),
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "f": pa.array([np.float16(0.5), None], pa.float16()),
        "t": pa.array([dt.time(1, 2, 3), None], pa.time64("us")),
        "e": pa.array(["x", "y"]).dictionary_encode(),
    })  # fmt: skip
    (tmp_path / "t").mkdir()
    pq.write_table(rows, tmp_path / "t" / "a.parquet", row_group_size=1)
    answer = gl.open(str(tmp_path / "t")).scan().to_arrow()
    assert sorted(answer.to_pylist(), key=lambda row: row["id"]) == rows.to_pylist()
    assert gl.open(str(tmp_path / "t")).scan("id = 1").to_arrow().to_pylist() == rows.to_pylist()[1:]
    assert ids(gl.open(str(tmp_path / "t")), "u > 1") == [0]
    assert ids(gl.open(str(tmp_path / "t")), "e = 'y'") == [1]
