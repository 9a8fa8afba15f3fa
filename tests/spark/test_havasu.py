"""Havasu tables through the whole pipeline: written, rewritten, repaired, converted and undone on Spark."""

from __future__ import annotations

import json

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import JobError, SchemaError
from geolake_nb.geo.bounds import BadValueWarning
from geolake_nb.raster_data.arrow import rasters_from_arrow, rasters_to_arrow
from geolake_nb.spark.live_rows import LiveRows
from tests.formats.havasu_rows import bounds_of, entries_of
from tests.formats.havasu_tables import (
    GEOM,
    ID,
    encode,
    geometry_entry,
    make_havasu_table,
    point,
    raster_at,
    raster_entry,
)
from tests.formats.iceberg_tables import (
    EQUALITY_DELETES,
    HAVASU_FIELDS,
    POSITION_DELETES,
    FileEntry,
    column,
    make_iceberg_table,
)

pytestmark = pytest.mark.spark

COUNT = 400


def shapes(count=COUNT, seed=3):
    return shapely.points(np.random.default_rng(seed).uniform(-60, 60, (count, 2)))


def rows(encoding, count=COUNT):
    stored = {"id": pa.array(range(count), pa.int32()), "p": pa.array(["a", "b"] * (count // 2))}
    return pa.table({**stored, "geom": encode(shapes(count), encoding)})


def values(path):
    """All rows by their ids: what the files of the newest snapshot hold."""
    collected = {}
    table = gl.open(str(path))
    for file in table.files.table["path"].to_pylist():
        for row in pq.read_table(file, columns=["id", "geom"], arrow_extensions_enabled=False).to_pylist():
            collected[row["id"]] = row["geom"]
    return collected


def true_boxes(path, encoding):
    """The box of each file of the newest snapshot, by shapely; and those that the manifests have."""
    read = {"wkt": shapely.from_wkt, "geojson": shapely.from_geojson}.get(encoding, shapely.from_wkb)
    boxes, stored = [], []
    for entry in entries_of(path):
        if entry["status"] == 2:
            continue
        wkb = pq.read_table(entry["data_file"]["file_path"], columns=["geom"])["geom"].to_pylist()
        boxes.append(tuple(shapely.total_bounds(read(np.array(wkb, object)))))
        (id_,) = bounds_of(entry, "geom_lower_bounds")
        ends = [bounds_of(entry, name)[id_] for name in ("geom_lower_bounds", "geom_upper_bounds")]
        stored.append(tuple(np.concatenate([np.frombuffer(end[5:], "<f8") for end in ends])))
    return boxes, stored


@pytest.mark.parametrize(("encoding", "version"), [("ewkb", "2"), ("wkb", "1"), ("wkt", "1"), ("geojson", "2")])
def test_a_table_is_written_clustered_rewritten_and_taken_back(spark, tmp_path, encoding, version):
    path = str(tmp_path)
    given = rows(encoding)
    columns = {"geom": gl.geometry(encoding=encoding)}
    gl.write(
        spark.createDataFrame(given.to_pandas()) if encoding == "ewkb" else given,
        path, format="havasu", columns=columns, partition_by="p", properties={"format-version": version}, spark=spark,
    )  # fmt: skip
    expected = dict(zip(given["id"].to_pylist(), given["geom"].to_pylist(), strict=True))
    assert values(path) == expected
    before = gl.open(path)
    plan = before.plan_rewrite(cluster_by="geom", target_file_size="2KB", row_group_rows=40)
    report = plan.apply(spark=spark)
    assert values(path) == expected
    boxes, stored = true_boxes(path, encoding)
    assert len(boxes) > 4
    assert stored == boxes
    assert gl.open(path).files.table["partition.p"].to_pylist().count("a") > 2
    window = gl.open(path).explain("ST_Intersects(geom, 'POLYGON ((0 0, 5 0, 5 5, 0 5, 0 0))')")
    assert len(window.kept) < len(boxes)
    assert gl.open(path).plan_repair().is_empty
    assert gl.open(path).plan_repair(verify=True).apply(spark=spark).version is None
    assert plan.apply(spark=spark).version == report.version
    assert report.undo().version == before.version
    assert values(path) == expected
    assert gl.open(path).files.table["path"].to_pylist() == before.files.table["path"].to_pylist()


def test_a_repair_reads_the_values_of_all_files_and_of_rasters_their_metadata(spark, tmp_path):
    entries = [geometry_entry(f"f{n}", [shapely.Point(n, n), shapely.Point(n + 1, n)]) for n in range(5)]
    make_havasu_table(tmp_path / "g", entries, fault="missing")
    assert gl.open(str(tmp_path / "g")).plan_repair().apply(spark=spark).metrics["files_updated"] == 1
    assert bounds_of(entries_of(tmp_path / "g")[0], "geom_upper_bounds") == {2: point(1, 0)}

    files = [raster_entry("a", [raster_at(10, 20), None], None), raster_entry("b", [raster_at(179, 20)], None)]
    make_havasu_table(tmp_path / "r", files, encoding=None, rasters=True)
    gl.open(str(tmp_path / "r")).plan_repair().apply(spark=spark)
    listed = gl.open(str(tmp_path / "r")).files.table
    assert listed["rast.xmin"].to_pylist() == pytest.approx([10, 179], abs=1e-9)
    assert listed["rast.xmax"].to_pylist() == pytest.approx([12, -179], abs=1e-9)


def test_rasters_of_a_dataframe_are_added_and_rewritten(spark, tmp_path):
    path = str(tmp_path)
    rasters = [raster_at(10 * index, 20, bands=1 + index) for index in range(7)]
    table = pa.table({"id": pa.array(range(7), pa.int32()), "rast": rasters_to_arrow(rasters)})
    gl.write(spark.createDataFrame(table), path, format="havasu", spark=spark)
    gl.write(table, path, format="havasu", mode="append", spark=spark)
    gl.open(path).plan_rewrite(target_file_size="10MB").apply(spark=spark)
    opened = gl.open(path)
    (file,) = opened.files.table["path"].to_pylist()
    stored = pq.read_table(file).sort_by("id")
    assert rasters_from_arrow(stored["rast"]) == [raster for raster in rasters for _ in range(2)]
    assert opened.files.table["rast.xmin"].to_pylist() == pytest.approx([0], abs=1e-9)
    assert opened.files.table["rast.xmax"].to_pylist() == pytest.approx([62], abs=1e-9)


def test_bad_geometries_are_written_with_a_warning_and_bad_rasters_are_not(spark, tmp_path):
    good = [point(1, 2), point(3, 4)]
    table = pa.table({"id": pa.array(range(3), pa.int32()), "geom": pa.array([*good, b"\x01\x02"], pa.binary())})
    options = {"format": "havasu", "columns": {"geom": gl.geometry(encoding="ewkb")}, "spark": spark}
    frame = spark.createDataFrame(table).coalesce(1)
    with pytest.warns(BadValueWarning, match=r"data/part-.*: geom gets no bounds, first row 2: "):
        gl.write(frame, str(tmp_path / "g"), **options)
    # What can be read gets the SRID of the type's CRS, which is CRS84 where none is named.
    with_srid = [shapely.to_wkb(shapely.set_srid(shapely.from_wkb(wkb), 4326), include_srid=True) for wkb in good]
    assert values(tmp_path / "g") == {0: with_srid[0], 1: with_srid[1], 2: b"\x01\x02"}
    assert gl.open(str(tmp_path / "g")).files.table["geom.xmin"].to_pylist() == [None]
    # In an order, what cannot be read is put into a file of its own, and the others keep their bounds.
    with pytest.warns(BadValueWarning):
        gl.write(frame, str(tmp_path / "c"), cluster_by="geom", **options)
    assert sorted(gl.open(str(tmp_path / "c")).files.table["geom.xmax"].to_pylist(), key=str) == [3.0, None]

    column = rasters_to_arrow([raster_at(1, 2)])
    rasters = column.to_pylist()
    rasters[0]["num_bands"] = 2
    bad = pa.table({"id": [1], "rast": pa.array(rasters, column.type)})
    with pytest.raises(JobError, match=r"row 0: num_bands is 2 but there are band_1"):
        gl.write(bad, str(tmp_path / "r"), format="havasu", spark=spark)
    assert not (tmp_path / "r" / "metadata").exists()


def test_parquet_files_become_a_table_whose_shapes_keep_their_crs(spark, tmp_path):
    frame = geopandas.GeoDataFrame({"id": range(6)}, geometry=shapes(6), crs="EPSG:3857")
    (tmp_path / "in").mkdir()
    frame.rename_geometry("geom").to_parquet(tmp_path / "in" / "a.parquet")
    plan = gl.open(str(tmp_path / "in")).plan_convert(str(tmp_path / "out"), format="havasu")
    assert "The column 'geom' is stored as EWKB with the SRID 3857." in str(plan)
    plan.apply(spark=spark)
    stored = values(tmp_path / "out")
    assert set(shapely.get_srid(shapely.from_wkb(list(stored.values())))) == {3857}
    assert [shapely.from_wkb(stored[index]).x for index in range(6)] == frame.geometry.x.tolist()


def test_sparks_own_geometries_become_ewkb_and_text(spark, tmp_path):
    frame = spark.sql(
        "SELECT 1 AS id, st_setsrid(st_geomfromwkb(X'0101000000000000000000F03F0000000000000040'), 4326) AS geom"
    )
    gl.write(frame, str(tmp_path / "a"), format="havasu", spark=spark)
    assert values(tmp_path / "a") == {1: point(1, 2, srid=4326)}
    gl.write(frame, str(tmp_path / "b"), format="havasu", columns={"geom": gl.geometry(encoding="wkt")}, spark=spark)
    assert values(tmp_path / "b") == {1: "POINT (1 2)"}
    with pytest.raises(SchemaError, match="no geographies"):
        gl.write(frame, str(tmp_path / "c"), format="havasu", columns={"geom": gl.geography()}, spark=spark)


def test_shapes_are_refused_that_a_text_would_change(spark, tmp_path):
    shape = shapely.from_wkt("POINT ZM (0.37735211368763544 2 3 4)")
    stored = pa.table({"id": [1], "geom": [shapely.to_wkb(shape, flavor="iso", output_dimension=4)]})
    with pytest.raises(
        JobError, match=r"invalid values: geom: 1 value: GeoJSON cannot store M values: X'01.*; fix or remove"
    ):
        gl.write(
            stored, str(tmp_path / "a"), format="havasu", columns={"geom": gl.geometry(encoding="geojson")}, spark=spark
        )
    gl.write(stored, str(tmp_path / "b"), format="havasu", columns={"geom": gl.geometry(encoding="wkt")}, spark=spark)
    assert values(tmp_path / "b") == {1: "POINT ZM (0.37735211368763544 2.0 3.0 4.0)"}


def test_rows_that_are_deleted_are_not_written_again(spark, tmp_path):
    deleted = pa.table({"id": pa.array([1], pa.int64())})
    ids = deleted.cast(pa.schema([pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})]))
    deletes = FileEntry("data/d.parquet", rows=1, content=EQUALITY_DELETES, equality_ids=[1], table=ids)
    first = [geometry_entry("a", list(shapes(3))), geometry_entry("b", list(shapes(2)))]
    columns = [column(ID, "id", "long"), column(GEOM, "geom", "BINARY", **{"havasu.geometry-encoding": "EWKB"})]
    make_iceberg_table(tmp_path, columns, first, [deletes], extra_file_fields=HAVASU_FIELDS)
    gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom").apply(spark=spark)
    opened = gl.open(str(tmp_path))
    stored = [
        value for path in opened.files.table["path"].to_pylist() for value in pq.read_table(path)["id"].to_pylist()
    ]
    assert sorted(stored) == [0, 0, 2]
    assert opened.snapshot.details.delete_files.num_rows == 0


def position_deletes(folder, name, *places):
    """Those of rows of the data file `a`."""
    path = f"{folder}/data/a.parquet"
    fields = (("file_path", pa.string(), b"2147483546"), ("pos", pa.int64(), b"2147483545"))
    schema = pa.schema([pa.field(name, kind, False, {b"PARQUET:field_id": id_}) for name, kind, id_ in fields])
    table = pa.table([[path] * len(places), list(places)], schema=schema)
    return FileEntry(
        f"data/{name}.parquet", rows=len(places), content=POSITION_DELETES, referenced_data_file=path, table=table
    )


def test_delete_files_that_name_a_row_twice_are_rewritten_and_what_tasks_read_is_counted(spark, tmp_path, monkeypatch):
    deletes = [position_deletes(tmp_path, "x", 0), position_deletes(tmp_path, "y", 0, 1)]
    columns = [column(ID, "id", "long"), column(GEOM, "geom", "BINARY", **{"havasu.geometry-encoding": "EWKB"})]
    make_iceberg_table(
        tmp_path, columns, [geometry_entry("a", list(shapes(4)))], deletes, extra_file_fields=HAVASU_FIELDS
    )
    plan = gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom")
    assert plan.change.job.expected_rows is None
    with monkeypatch.context() as lost:
        lost.setattr(LiveRows, "total", lambda _: 3)
        with pytest.raises(JobError, match="2 rows were written, expected 3"):
            plan.apply(spark=spark)
    report = gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom").apply(spark=spark)
    assert report.metrics["rows_written"] == 2
    assert sorted(values(tmp_path)) == [2, 3]


def test_the_plan_is_the_commit(spark, tmp_path):
    path = str(tmp_path)
    gl.write(rows("ewkb", 20), path, format="havasu", columns={"geom": gl.geometry(encoding="ewkb")}, spark=spark)
    plan = gl.open(path).plan_rewrite(cluster_by="geom")
    assert plan.hash == gl.open(path).plan_rewrite(cluster_by="geom").hash
    assert [next(iter(json.loads(line))) for line in plan.to_dict()["actions"]] == [
        "base",
        *["remove"] * len(gl.open(path).files),
    ]
