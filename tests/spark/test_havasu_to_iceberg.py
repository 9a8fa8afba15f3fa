"""Havasu tables become Iceberg tables of version 3: by new files of Spark, or by new metadata over the same files."""

from __future__ import annotations

import io
import struct
from dataclasses import replace

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import GeolakeError, JobError, RefusedError
from geolake_nb.model.table_format import Answer
from tests.formats.havasu_tables import GEOM, ID, encode, geometry_entry, make_havasu_table, raster_at, raster_entry
from tests.formats.iceberg_tables import (
    EQUALITY_DELETES,
    HAVASU_FIELDS,
    POSITION_DELETES,
    FileEntry,
    PartitionFieldSpec,
    column,
    make_iceberg_table,
)

pytestmark = pytest.mark.spark

PLACE = 5
SHAPES = [
    *(shapely.Point(n, -n) for n in range(4)),
    shapely.LineString([(10, 1.5), (12, 3)]),
    None,
    shapely.Polygon([(0, 0), (1, 0), (1, 1)]),
    shapely.Point(0.1, 1e-9),
]
LIVE = {n: SHAPES[n] for n in range(8) if n not in (0, 6)}
"""The rows that no delete file deletes, by their ids."""


def _sized(entry):
    """The entry with the size that its file will have: Iceberg for Java reads the footer by it."""
    out = io.BytesIO()
    pq.write_table(entry.table, out)
    return replace(entry, bytes=len(out.getvalue()))


def _file(name, ids, encoding, place, *, called):
    """A data file; its column of places may have had another name."""
    fields = {"id": ID, "geom": GEOM, called: PLACE}
    arrays = [pa.array(ids, pa.int64()), encode([SHAPES[n] for n in ids], encoding, srid=3857), [place] * len(ids)]
    schema = [
        pa.field(field, pa.array(values).type, metadata={"PARQUET:field_id": str(id_)})
        for (field, id_), values in zip(fields.items(), arrays, strict=True)
    ]
    rows = pa.table([pa.array(values) for values in arrays], schema=pa.schema(schema))
    return FileEntry(f"data/{name}.parquet", rows=len(ids), partition={"place": place}, table=rows)


def make_table(folder, encoding, *, version=2):
    """Two files in two partitions, one of an older schema; a position delete and an equality delete if it is of v2."""
    kind = "string" if encoding in ("wkt", "geojson") else "binary"
    columns = [
        column(ID, "id", "long"),
        column(GEOM, "geom", kind, **{"havasu.geometry-encoding": encoding}),
        column(PLACE, "place", "string"),
    ]
    by_place = PartitionFieldSpec("place", PLACE, "identity", "string")
    first = [
        _file("a", range(4), encoding, "x", called="town"),
        _file("b", range(4, 8), encoding, "y ä", called="place"),
    ]
    commits = [first]
    if version > 1:
        schema = pa.schema([
            pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
        ])  # fmt: skip
        places = pa.table([[f"{folder}/data/a.parquet"], [0]], schema=schema)
        ids = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(ID)})])
        commits.append([
            FileEntry("data/p.parquet", rows=1, content=POSITION_DELETES, partition={"place": "x"}, table=places),
            FileEntry("data/e.parquet", rows=1, content=EQUALITY_DELETES, equality_ids=[ID],
                      partition={"place": "y ä"}, table=pa.table([[6]], schema=ids)),
        ])  # fmt: skip
    commits = [[_sized(entry) for entry in commit] for commit in commits]
    make_iceberg_table(
        folder, columns, *commits, version=version, partition=[by_place], extra_file_fields=HAVASU_FIELDS
    )
    return folder


def contents(folder):
    """The bytes of all files."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wkb(shape):
    """Little-endian ISO WKB."""
    return None if shape is None else shapely.to_wkb(shape, flavor="iso", byte_order=1)


def expected(live=LIVE):
    """The rows `id, place, WKB`."""
    return {(n, "x" if n < 4 else "y ä", wkb(shape)) for n, shape in live.items()}


@pytest.mark.parametrize("encoding", ["ewkb", "wkb", "wkt", "geojson"])
def test_rows_of_every_encoding_are_the_same_in_spark_with_iceberg(encoding, spark, iceberg_spark, tmp_path):
    old = make_table(tmp_path / "old", encoding)
    before = contents(old)
    new = iceberg_spark.warehouse / "moved" / encoding
    plan = gl.open(str(old)).plan_convert(str(new), format="iceberg", cluster_by="geom")
    plan.apply(spark=spark)
    assert contents(old) == before
    rows = iceberg_spark.sql(f"SELECT id, place, ST_AsBinary(geom) w, ST_Srid(geom) srid FROM ice.moved.{encoding}")
    assert {(row["id"], row["place"], row["w"] and bytes.fromhex(row["w"])) for row in rows} == expected()
    srid = 3857 if encoding == "ewkb" else 0
    assert {row["srid"] for row in rows if row["w"] is not None} == {srid}
    assert gl.open(str(new)).snapshot.partition_columns == ("place",)
    assert not gl.open(str(new)).check()
    assert ("has no CRS" in " ".join(str(plan).split())) == (encoding != "ewkb")


@pytest.mark.parametrize("version", [1, 2])
def test_metadata_over_the_same_files_gives_the_same_rows_and_exact_bounds(version, iceberg_spark, tmp_path):
    old = make_table(iceberg_spark.warehouse / "source" / f"v{version}", "wkb", version=version)
    before = contents(old)
    new = iceberg_spark.warehouse / "over" / f"v{version}"
    types = {"geom": "geometry(EPSG:3857)"}
    plan = gl.open(str(old)).plan_convert(str(new), format="iceberg", in_place=True, columns=types)
    engines = {fact.engine: fact.reads for fact in plan.change.engines}
    assert engines["Spark 4.1 + Iceberg 1.12"] is Answer.NO, "the files do not declare the geo type"
    plan.apply()
    assert plan.apply().already_applied
    assert contents(old) == before
    assert not list(new.rglob("*.parquet"))
    live = LIVE if version > 1 else dict(enumerate(SHAPES))
    with pytest.raises(GeolakeError, match="allow-root"):
        gl.open(str(new)).scan().to_arrow()
    table = gl.open(str(new), allowed_roots=[str(old)])
    rows = table.scan().to_arrow().to_pylist()
    assert {(row["id"], row["place"], row["geom"] and bytes(row["geom"])) for row in rows} == expected(live)
    assert str(table.schema.find("geom").type.crs) == "EPSG:3857"
    plain = iceberg_spark.sql(f"SELECT id, place FROM ice.over.v{version}")
    assert {(row["id"], row["place"]) for row in plain} == {row[:2] for row in expected(live)}
    lineage = iceberg_spark.sql(f"SELECT count(DISTINCT _row_id) n FROM ice.over.v{version}")
    assert lineage == [{"n": len(live)}]
    bounds = {}
    for path in (new / "metadata").glob("*-m*.avro"):
        with path.open("rb") as file:
            for entry in fastavro.reader(file):
                listed = entry["data_file"]
                ends = [
                    {pair["key"]: pair["value"] for pair in listed[name] or ()}.get(GEOM)
                    for name in ("lower_bounds", "upper_bounds")
                ]
                if listed["content"] == 0:
                    bounds[listed["file_path"].rpartition("/")[2]] = ends
    for name, shapes in (("a.parquet", SHAPES[:4]), ("b.parquet", SHAPES[4:])):
        box = shapely.total_bounds(np.array([shape for shape in shapes if shape is not None], object))
        # Iceberg, Bounds for Geometry and Geography: x and y as little-endian doubles.
        assert bounds[name] == [struct.pack("<dd", *box[:2]), struct.pack("<dd", *box[2:])]
    report = gl.open(str(new), allowed_roots=[str(old)]).check()
    assert not [finding for finding in report if "bound" in finding.rule], list(report)


def test_what_cannot_move_is_refused_by_name(spark, tmp_path, capsys):
    ewkb = make_table(tmp_path / "ewkb", "ewkb")
    with pytest.raises(RefusedError, match=r"column geom: the column holds EWKB values.*without --in-place"):
        gl.open(str(ewkb)).plan_convert(str(tmp_path / "n1"), format="iceberg", in_place=True)
    hidden = tmp_path / "hidden"
    make_havasu_table(hidden, [geometry_entry("a", [shapely.Point(1, 2)], encoding="ewkb")], encoding="wkb")
    with pytest.raises(RefusedError, match="values are EWKB"):
        gl.open(str(hidden)).plan_convert(str(tmp_path / "n2"), format="iceberg", in_place=True).apply()
    assert not (tmp_path / "n2").exists()
    mixed = tmp_path / "mixed"
    files = [geometry_entry(name, [shapely.Point(1, 2)]) for name in "ab"]
    other = encode([shapely.Point(1, 2)], "ewkb", srid=3857)
    position = files[1].table.schema.get_field_index("geom")
    files[1] = FileEntry(
        "data/b.parquet", rows=1, table=files[1].table.set_column(position, files[1].table.schema.field("geom"), other)
    )
    make_havasu_table(mixed, files)
    with pytest.raises(RefusedError, match="the SRIDs 3857, 4326"):
        gl.open(str(mixed)).plan_convert(str(tmp_path / "n3"), format="iceberg")
    plan = gl.open(str(mixed)).plan_convert(str(tmp_path / "n3"), format="iceberg",
                                            columns={"geom": "geometry(EPSG:3857)"})  # fmt: skip
    with pytest.raises(JobError, match="SRID 4326 is not the column's EPSG:3857"):
        plan.apply(spark=spark)
    rasters = tmp_path / "rasters"
    make_havasu_table(rasters, [raster_entry("a", [raster_at(0, 0)], None)], encoding=None, rasters=True)
    with pytest.raises(RefusedError, match=r"'rast' holds rasters.*--leave-out rast"):
        gl.open(str(rasters)).plan_convert(str(tmp_path / "n4"), format="iceberg")
    for more in ([], ["--in-place"]):
        target = str(tmp_path / f"n5{len(more)}")
        command = ["convert", str(rasters), target, "--format", "iceberg", "--leave-out", "rast", *more, "--apply"]
        assert main(command) == 0, capsys.readouterr().err
        table = gl.open(target, allowed_roots=[str(rasters)])
        assert table.scan().to_arrow().to_pylist() == [{"id": 0}]
