"""Havasu tables that this package writes, read by fastavro, pyarrow, shapely, geopandas, PyIceberg and itself."""

from __future__ import annotations

import base64
import json
import os
import struct
from decimal import Decimal

import fastavro
import geopandas
import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely
from pyiceberg.exceptions import ResolveError
from pyiceberg.table import StaticTable

import geolake_nb as gl
from geolake_nb.api.input_rows import input_rows
from geolake_nb.changes.new_table import NewTable
from geolake_nb.changes.write_job import Packing
from geolake_nb.errors import RasterError, RefusedError, SchemaError
from geolake_nb.formats.havasu.commit import HavasuCommit, commit
from geolake_nb.formats.havasu.write import plan_create
from geolake_nb.formats.havasu.write_target import GEOPARQUET
from geolake_nb.formats.iceberg.deleted_rows import data_file_rows
from geolake_nb.formats.iceberg.partitions import partition_groups
from geolake_nb.geo.bounds import BadValueWarning
from geolake_nb.parquet.writer import ParquetWriter
from geolake_nb.raster_data.arrow import rasters_from_arrow, rasters_to_arrow
from geolake_nb.raster_data.raster import Band, PixelType, Raster
from geolake_nb.storage.storage import Storage
from tests.formats.havasu_rows import (
    EWKB,
    append,
    bounds_of,
    create,
    entries_of,
    metadata_of,
    opened,
    points,
    updating_all_bounds,
)
from tests.formats.havasu_tables import encode, point, raster_at
from tests.formats.iceberg_tables import HAVASU_FIELDS, column, manifest_schema

PLAIN = {"py-io-impl": "geolake_nb.formats.havasu.pyiceberg_io.HavasuFileIO"}
ENCODINGS = ["ewkb", "wkb", "wkt", "geojson"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_new_table_has_the_types_of_the_spec_and_bounds_of_its_values(tmp_path, version, encoding):
    shapes = [shapely.Point(3, 4), None, shapely.LineString([(-1, 2), (5, 9)]), shapely.Point()]
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "geom": encode(shapes, encoding)})
    create(tmp_path, rows, columns={"geom": gl.geometry(encoding=encoding)}, version=version)
    metadata = metadata_of(tmp_path)
    assert metadata["format-version"] == version
    assert metadata["havasu.format-version"] == "0.1.0"
    geom = metadata["schemas"][0]["fields"][1]
    assert geom["type"] == ("binary" if encoding in ("ewkb", "wkb") else "string")
    assert geom["havasu.geometry-encoding"] == encoding
    (entry,) = entries_of(tmp_path)
    # Havasu, Single spatial value serialization: WKB points of the corners.
    assert bounds_of(entry, "geom_lower_bounds") == {geom["id"]: point(-1, 2)}
    assert bounds_of(entry, "geom_upper_bounds") == {geom["id"]: point(5, 9)}
    assert geom["id"] not in bounds_of(entry, "lower_bounds")
    assert bounds_of(entry, "lower_bounds")[1] == (0).to_bytes(8, "little")
    assert bounds_of(entry, "null_value_counts") == {1: 0, geom["id"]: 1}
    assert opened(tmp_path).details.havasu_version == "0.1.0"
    file = pq.ParquetFile(entry["data_file"]["file_path"], arrow_extensions_enabled=False)
    assert file.read()["geom"].to_pylist() == rows["geom"].to_pylist()
    column = file.metadata.schema.column(1)
    assert column.physical_type == "BYTE_ARRAY"
    assert str(column.logical_type) == ("None" if encoding in ("ewkb", "wkb") else "String")
    statistics = file.metadata.row_group(0).column(1).statistics
    assert statistics is None or not statistics.has_min_max
    assert [field.metadata[b"PARQUET:field_id"] for field in file.schema_arrow] == [b"1", b"2"]


def test_bounds_ignore_srids(tmp_path):
    shapes = [point(1, 2, srid=4326), point(500000, 4, srid=3857)]
    rows = pa.table({"id": [0, 1], "geom": pa.array(shapes, pa.binary())})
    create(tmp_path, rows, columns=EWKB)
    (entry,) = entries_of(tmp_path)
    assert bounds_of(entry, "geom_upper_bounds") == {2: point(500000, 4)}


def test_manifests_have_the_fields_and_ids_of_the_specs(tmp_path):
    create(tmp_path, points(3), columns=EWKB)
    (entry,) = entries_of(tmp_path)
    with open(entry["listed"]["manifest_path"], "rb") as file:
        stored = fastavro.reader(file).writer_schema
    ours = {member["field-id"]: member for member in stored["fields"][-1]["type"]["fields"]}
    theirs = manifest_schema(2, (), HAVASU_FIELDS)["fields"][-1]["type"]["fields"]
    for field in theirs:
        if field["field-id"] in ours:
            assert ours[field["field-id"]]["type"] == field["type"], field["name"]
    assert {1250, 1280} <= ours.keys()
    assert ours[1250]["type"][1]["items"]["fields"][1]["field-id"] == 1270


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_are_typed_and_a_null_differs_from_an_empty_string(tmp_path, version):
    day = pa.table({"id": pa.array([1], pa.int64()), "p": [""], "d": pa.array([19724], pa.int32()).cast(pa.date32())})
    none = day.set_column(1, "p", pa.nulls(1, pa.string()))
    create(tmp_path, day, none, partition_by=["p", "d"], version=version)
    partitions = [entry["data_file"]["partition"] for entry in entries_of(tmp_path)]
    assert [partition["p"] for partition in partitions] == ["", None]
    assert {str(partition["d"]) for partition in partitions} == {"2024-01-02"}
    listed = entries_of(tmp_path)[0]["listed"]["partitions"]
    assert listed[0] == {"contains_null": True, "contains_nan": None, "lower_bound": b"", "upper_bound": b""}
    mixed = pa.concat_tables([day, none])
    with pytest.raises(SchemaError, match="both empty and null values"):
        append(tmp_path, mixed)


def committed(folder, version, type_, *packed):
    """A table partitioned by columns of one type, with one file that has these single values."""
    partition = [
        {"name": f"p{index}", "source-id": 10 + index, "transform": "identity", "field-id": 1000 + index}
        for index in range(len(packed))
    ]
    columns = [column(1, "id", "long"), *(column(10 + index, f"p{index}", type_) for index in range(len(packed)))]
    schema = {"type": "struct", "schema-id": 0, "fields": columns}
    made = {
        "format-version": version,
        "last-column-id": 20,
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": partition}],
        "default-spec-id": 0,
        "last-partition-id": 999 + len(packed),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {"havasu.format-version": "0.1.0"},
        **({"schema": schema, "partition-spec": partition} if version == 1 else {"last-sequence-number": 0}),
    }
    add = {
        "path": "data/a.parquet",
        "record_count": 1,
        "file_size_in_bytes": 10,
        "spec_id": 0,
        "partition": {str(1000 + index): base64.b64encode(data).decode() for index, data in enumerate(packed)},
    }
    actions = [json.dumps({"create": made}), json.dumps({"add": add})]
    commit(Storage.at(str(folder)), HavasuCommit(None, "append", actions, "first"))
    return opened(folder).files.table


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("type_", "packed", "values"),
    [
        ("uuid", [b"\0" * 15 + b"\1", b"\0" * 15 + b"\2"], [b"\0" * 15 + b"\1", b"\0" * 15 + b"\2"]),
        ("decimal(9, 2)", [b"\x80", b"\1", b"\2"], [Decimal("-1.28"), Decimal("0.01"), Decimal("0.02")]),
    ],
)
def test_several_partition_fields_may_have_one_named_type(tmp_path, version, type_, packed, values):
    table = committed(tmp_path, version, type_, *packed)
    assert [table[f"partition.p{index}"][0].as_py() for index in range(len(values))] == values
    # The schema is read and written again by others, and by us.
    storage = Storage.at(str(tmp_path))
    commit(storage, updating_all_bounds(storage))
    again = opened(tmp_path).files.table
    assert [again[f"partition.p{index}"][0].as_py() for index in range(len(values))] == values
    partition = entries_of(tmp_path)[0]["data_file"]["partition"]
    assert list(partition) == [f"p{index}" for index in range(len(values))]
    if type_ != "uuid":  # fastavro has other names for those
        assert list(partition.values()) == values


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("type_", "kind", "numbers"),
    [("date", "<i", (-800_000, 2_932_897)), ("timestamptz", "<q", (2**62, -(2**62))), ("timestamp", "<q", (2**62, 0))],
)
def test_partitions_outside_of_the_years_of_python_are_kept(tmp_path, version, type_, kind, numbers):
    packed = [struct.pack(kind, number) for number in numbers]
    table = committed(tmp_path, version, type_, *packed)
    whole = pa.int32() if type_ == "date" else pa.int64()
    assert [table[f"partition.p{index}"].cast(whole)[0].as_py() for index in range(2)] == list(numbers)
    storage = Storage.at(str(tmp_path))
    commit(storage, updating_all_bounds(storage))
    snapshot = opened(tmp_path)
    listed = manifests_of(tmp_path)[0]["partitions"]
    assert [manifest["lower_bound"] for manifest in listed] == packed
    # A rewrite keeps rows where they are, and its deletes are found by the same values.
    ((group,), _) = partition_groups(snapshot, np.array([0]))
    assert [base64.b64decode(value) for value in group.values.values()] == packed
    assert data_file_rows(snapshot)[0].partition == numbers
    assert len(snapshot.files.to_pandas()) == 1


def test_years_beyond_the_range_of_python_are_refused_as_partitions_of_new_rows(tmp_path):
    early = pa.table({"id": pa.array([1], pa.int64()), "d": pa.array([-800_000], pa.int32()).cast(pa.date32())})
    storage = Storage.at(str(tmp_path))
    given = input_rows(early, {}, "rows")
    job = plan_create(NewTable(given, given.schema, storage, {}, ("d",), Packing(), {})).job
    with ParquetWriter(storage, "data/a.parquet", job.target.layout(job)) as writer:
        writer.write(early.to_batches()[0])
    with pytest.raises(SchemaError, match="partition column d: its values are outside the years 1 to 9999"):
        job.target.entry(writer.close(), ("early",))


def manifests_of(folder):
    """The records of the newest manifest list, by fastavro."""
    metadata = metadata_of(folder)
    current = next(
        snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] == metadata["current-snapshot-id"]
    )
    with open(current["manifest-list"], "rb") as file:
        return list(fastavro.reader(file))


def test_text_bounds_are_cut_and_hold_every_value(tmp_path):
    rows = points(2).append_column("s", pa.array(["a" * 40, "\U0010ffff" * 3 + "z" * 20]))
    create(tmp_path, rows, columns=EWKB)
    (entry,) = entries_of(tmp_path)
    assert bounds_of(entry, "lower_bounds")[3] == b"a" * 16
    assert bounds_of(entry, "upper_bounds")[3].decode() == "\U0010ffff" * 3 + "z" * 12 + "{"


def test_a_malformed_geometry_takes_the_bounds_of_its_column_away_and_is_written(tmp_path):
    bad = pa.array([point(1, 2), point(3, 4), b"\x01\x01"], pa.binary())
    rows = pa.table({"id": [0, 1, 2], "geom": bad, "other": encode([shapely.Point(7, 8)] * 3, "wkb")})
    with pytest.warns(BadValueWarning, match=r"data/part-.*\.parquet: geom gets no bounds, first row 2: "):
        create(tmp_path, rows, columns={"geom": gl.geometry(encoding="ewkb"), "other": gl.geometry()})
    (entry,) = entries_of(tmp_path)
    assert bounds_of(entry, "geom_lower_bounds") == {3: point(7, 8)}
    assert pq.read_table(entry["data_file"]["file_path"])["geom"].to_pylist() == bad.to_pylist()


def scene(x: float, bands: int, *, crs: bool = True) -> Raster:
    """In-db bands and out-db ones in turn."""
    made = raster_at(x, 20)
    out = Band(PixelType.PT_16BSI, no_data=b"\x01\x00", out_db_band_no=2, out_db_url="s3://b/a.tif")
    all_bands = tuple(made.bands[0] if index % 2 == 0 else out for index in range(bands))
    return Raster(made.width, made.height, all_bands, made.crs_wkt if crs else None, made.geo_reference)


def corners(entry, column=2):
    """The bounds of a column as shapely reads them."""
    ends = (bounds_of(entry, name)[column] for name in ("geom_lower_bounds", "geom_upper_bounds"))
    return tuple((shapely.from_wkb(end).x, shapely.from_wkb(end).y) for end in ends)


@pytest.mark.parametrize("bands", range(1, 8))
def test_rasters_of_one_to_seven_bands_in_db_and_out_db_come_back(tmp_path, bands):
    rasters = [scene(10, bands), None, scene(12, bands)]
    create(tmp_path, pa.table({"id": [1, 2, 3], "rast": rasters_to_arrow(rasters)}))
    metadata = metadata_of(tmp_path)
    assert metadata["schemas"][0]["fields"][1] == {
        "id": 2, "name": "rast", "required": False, "type": {"type": "struct", "fields": []},
        "havasu.raster-encoding": "v1",
    }  # fmt: skip
    (entry,) = entries_of(tmp_path)
    # Rasters of two degrees each from 10 and 12, both from latitude 20 down to 18.
    low, high = corners(entry)
    assert low == pytest.approx((10, 18), abs=1e-9)
    assert high == pytest.approx((14, 20), abs=1e-9)
    assert (low[0] <= 10, low[1] <= 18, high[0] >= 14, high[1] >= 20) == (True,) * 4
    file = pq.ParquetFile(entry["data_file"]["file_path"])
    assert rasters_from_arrow(file.read()["rast"]) == rasters
    chunks = [file.metadata.row_group(0).column(index) for index in range(file.metadata.num_columns)]
    assert [
        chunk.path_in_schema for chunk in chunks if chunk.statistics is not None and chunk.statistics.has_min_max
    ] == ["id"]


def test_rasters_over_the_antimeridian_wrap_and_one_without_crs_has_no_bounds(tmp_path):
    over = pa.table({"id": [1], "rast": rasters_to_arrow([raster_at(179, 20)])})
    create(tmp_path / "a", over)
    (entry,) = entries_of(tmp_path / "a")
    assert corners(entry) == (pytest.approx((179, 18), abs=1e-9), pytest.approx((-179, 20), abs=1e-9))
    lost = pa.table({"id": [1, 2], "rast": rasters_to_arrow([raster_at(1, 20), scene(5, 1, crs=False)])})
    with pytest.warns(BadValueWarning, match="row 1: crs_wkt is absent"):
        create(tmp_path / "b", lost)
    (entry,) = entries_of(tmp_path / "b")
    assert bounds_of(entry, "geom_lower_bounds") == {}


def test_a_malformed_raster_is_an_error_that_names_it(tmp_path):
    column = rasters_to_arrow([raster_at(1, 2), raster_at(1, 2)])
    rasters = column.to_pylist()
    rasters[1]["band_1"]["data"] = b"short"
    rows = pa.table({"id": [1, 2], "rast": pa.array(rasters, column.type)})
    with pytest.raises(RasterError, match=r"column rast, row 1, .*data has 5 bytes"):
        create(tmp_path, rows)
    assert not os.path.exists(tmp_path / "metadata")
    assert not [name for _, _, names in os.walk(tmp_path) for name in names]


def test_what_havasu_has_not_is_refused(tmp_path):
    with pytest.raises(RefusedError, match="versions 1 and 2"):
        create(tmp_path / "c", points(1), version=3)
    with pytest.raises(SchemaError, match="no geographies"):
        create(tmp_path / "c", points(1), columns={"geom": gl.geography()})


def test_files_can_have_geoparquet_metadata_of_columns_at_the_root(tmp_path, corpus):
    rows = points(3).append_column("text", encode([shapely.Point(1, 2)] * 3, "wkt"))
    columns = {**EWKB, "text": gl.geometry(encoding="wkt")}
    create(tmp_path, rows, columns=columns, properties={GEOPARQUET: "true"})
    (entry,) = entries_of(tmp_path)
    path = entry["data_file"]["file_path"]
    geo = json.loads(pq.read_metadata(path).metadata[b"geo"])
    schema = json.loads((corpus / "geoparquet" / "schema" / "1.1.0" / "schema.json").read_text())
    # All SRIDs are 4326. The CRS goes out, so that the schema of CRSs, which is elsewhere, says nothing.
    assert pyproj.CRS.from_json_dict(geo["columns"]["geom"].pop("crs")).to_epsg() == 4326
    jsonschema.Draft7Validator(schema).validate(geo)
    assert list(geo["columns"]) == ["geom"]
    assert geo["columns"]["geom"]["bbox"] == [0, -2, 2, 0]
    assert geopandas.read_parquet(path).geometry.x.tolist() == [0, 1, 2]
    assert bounds_of(entry, "geom_lower_bounds")[2] == point(0, -2)


def test_pyiceberg_stops_at_maps_that_it_does_not_know(tmp_path):
    create(tmp_path, points(3), columns=EWKB)
    table = StaticTable.from_metadata(str(tmp_path))
    assert [str(field.field_type) for field in table.schema().fields] == ["long", "binary"]
    with pytest.raises(ResolveError, match="not aligned for map"):
        table.scan().to_arrow()


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_reads_the_plain_columns(tmp_path, version):
    rows = points(50).append_column("rast", rasters_to_arrow([raster_at(1, 2)] * 50))
    rows = rows.append_column("p", pa.array(["x"] * 50))
    create(tmp_path, rows, columns=EWKB, partition_by=["p"], version=version)
    append(tmp_path, rows.set_column(0, "id", pa.array(range(50, 100), pa.int64())))
    storage = Storage.at(str(tmp_path))
    commit(storage, updating_all_bounds(storage))
    table = StaticTable.from_metadata(str(tmp_path), PLAIN)
    selected = table.scan(row_filter="id >= 40 and p == 'x'", selected_fields=("id", "geom", "p")).to_arrow()
    assert sorted(selected["id"].to_pylist()) == list(range(40, 100))
    by_id = dict(zip(selected["id"].to_pylist(), selected["geom"].to_pylist(), strict=True))
    assert by_id[41] == rows["geom"][41].as_py()
    assert len(table.inspect.files()) == 2
    assert table.scan(row_filter="id >= 500").to_arrow().num_rows == 0
