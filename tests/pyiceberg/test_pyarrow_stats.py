"""Metrics of data files that PyIceberg writes: bounds of geo columns, and all others as before."""

from __future__ import annotations

import logging
import math
import struct
import uuid
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import geolake_nb as gl
import geolake_nb.pyiceberg as geo
from geolake_nb.errors import SchemaError
from geolake_nb.geo.bounds import BadValueWarning
from tests.pyiceberg.geo_rows import V3, make_table, rows, wkb


def doubles(*values):
    return struct.pack(f"<{len(values)}d", *values)


def written(catalog, schema, table, **properties):
    """The one data file that an append of the table makes."""
    made = catalog.create_table(f"ns.t{uuid.uuid4().hex[:8]}", schema=schema, properties={**V3, **properties})
    made.append(table)
    (listed,) = made.current_snapshot().manifests(made.io)
    (entry,) = listed.fetch_manifest_entry(made.io)
    return entry.data_file


def one_column(type_, *texts):
    schema = Schema(NestedField(1, "g", type_))
    return schema, pa.table({"g": pa.array([None if text is None else wkb(text) for text in texts], pa.binary())})


@pytest.mark.parametrize(
    ("texts", "bounds"),
    [
        (("POINT (1 2)", "MULTIPOINT (3 4, 5 -6)", None), ((1, -6), (5, 4))),
        (("POINT Z (1 2 3)", "POINT Z (5 6 -7)"), ((1, 2, -7), (5, 6, 3))),
        (("POINT M (1 2 3)", "POINT M (5 6 7)"), ((1, 2, math.nan, 3), (5, 6, math.nan, 7))),
        (("POINT ZM (1 2 3 4)", "POINT ZM (5 6 7 8)"), ((1, 2, 3, 4), (5, 6, 7, 8))),
    ],
    ids=["XY", "XYZ", "XYM", "XYZM"],
)
@pytest.mark.parametrize("type_", [GeometryType(), GeographyType()], ids=["geometry", "geography"])
def test_geo_columns_emit_spec_encoded_bounds(bridge, catalog, type_, texts, bounds):
    file = written(catalog, *one_column(type_, *texts))
    assert (file.lower_bounds, file.upper_bounds) == tuple({1: doubles(*bound)} for bound in bounds)
    assert file.value_counts == {1: len(texts)}
    assert file.null_value_counts == {1: texts.count(None)}


def test_geographies_over_the_antimeridian_have_wrapped_bounds(bridge, catalog):
    file = written(catalog, *one_column(GeographyType(), "POINT (179 1)", "POINT (-178 2)"))
    assert file.lower_bounds == {1: doubles(179, 1)}
    assert file.upper_bounds == {1: doubles(-178, 2)}


def test_geometries_never_wrap(bridge, catalog):
    file = written(catalog, *one_column(GeometryType(), "POINT (179 1)", "POINT (-178 2)"))
    assert (file.lower_bounds, file.upper_bounds) == ({1: doubles(-178, 1)}, {1: doubles(179, 2)})


@pytest.mark.parametrize("texts", [("POINT EMPTY",), (None, None), ("GEOMETRYCOLLECTION EMPTY", None)])
def test_columns_without_coordinates_have_no_bounds_and_no_warning(bridge, catalog, texts):
    file = written(catalog, *one_column(GeometryType(), *texts))
    assert file.lower_bounds == file.upper_bounds == {}
    assert file.null_value_counts == {1: texts.count(None)}


def test_malformed_values_leave_one_column_without_bounds_and_the_write_goes_on(bridge, catalog):
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "bad", GeometryType()), NestedField(3, "good", GeometryType())
    )
    table = pa.table({
        "id": [1, 2, 3], "bad": [wkb("POINT (1 2)"), b"no WKB", b""], "good": [wkb("POINT (1 2)")] * 3
    })  # fmt: skip
    with pytest.warns(BadValueWarning) as caught:
        file = written(catalog, schema, table)
    (warning,) = caught
    assert str(warning.message).startswith(f"{file.file_path}: column bad gets no bound: row 1: ")
    assert file.lower_bounds.keys() == file.upper_bounds.keys() == {1, 3}
    assert file.null_value_counts == {1: 0, 2: 0, 3: 0}
    stored = pq.read_table(file.file_path.removeprefix("file://"))
    assert stored["bad"].combine_chunks().storage.to_pylist()[1:] == [b"no WKB", b""]


def test_a_longitude_that_no_geography_has_is_named(bridge, catalog):
    with pytest.warns(BadValueWarning, match=r"row 0: a longitude is outside"):
        file = written(catalog, *one_column(GeographyType(), "POINT (190 1)"))
    assert file.lower_bounds == {}


def plain_schema(geo_type):
    return Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "name", StringType()),
        NestedField(3, "raw", BinaryType()),
        NestedField(4, "s", StructType(NestedField(6, "x", LongType()))),
        NestedField(5, "g", geo_type),
    )


def test_metrics_of_other_columns_are_as_before(catalog):
    table = pa.table({
        "id": [3, None, 1], "name": ["é" * 20, "zz", None], "raw": [b"\xff" * 20, b"\0", None],
        "s": [{"x": 1}, None, {"x": 3}], "g": [wkb("POINT (1 2)"), None, wkb("POINT (3 4)")],
    })  # fmt: skip
    maps = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")

    def metrics(file):
        return {name: {id_: value for id_, value in getattr(file, name).items() if id_ != 5} for name in maps}

    alone = catalog.create_table("ns.alone", schema=plain_schema(BinaryType()))
    alone.append(table)
    (listed,) = alone.current_snapshot().manifests(alone.io)
    before = metrics(listed.fetch_manifest_entry(alone.io)[0].data_file)
    geo.enable()
    try:
        assert metrics(written(catalog, plain_schema(GeometryType()), table)) == before
    finally:
        geo.disable()


def test_parquet_files_have_the_logical_types_and_no_binary_minima(bridge, catalog, caplog):
    schema = Schema(
        NestedField(1, "g", GeometryType()),
        NestedField(2, "p", GeometryType("EPSG:3857")),
        NestedField(3, "h", GeographyType()),
    )
    point = wkb("POINT (1 2)")
    with caplog.at_level(logging.WARNING):
        file = written(catalog, schema, pa.table({"g": [point], "p": [point], "h": [point]}))
    assert caplog.records == []
    footer = pq.read_metadata(file.file_path.removeprefix("file://"))
    assert [str(footer.schema.column(index).logical_type) for index in range(3)] == [
        "Geometry(crs=)", "Geometry(crs=EPSG:3857)", "Geography(crs=, algorithm=spherical)"
    ]  # fmt: skip
    chunks = [footer.row_group(0).column(index) for index in range(3)]
    assert [chunk.statistics is not None and chunk.statistics.has_min_max for chunk in chunks] == [False] * 3


def test_ewkb_is_stored_as_iso_wkb(bridge, catalog):
    schema = Schema(NestedField(1, "g", GeometryType()))
    value = shapely.to_wkb(shapely.set_srid(shapely.Point(1, 2, 3), 4326), include_srid=True, flavor="extended")
    file = written(catalog, schema, pa.table({"g": [value]}))
    stored = pq.read_table(file.file_path.removeprefix("file://"))["g"].combine_chunks().storage
    assert stored.to_pylist() == [wkb("POINT Z (1 2 3)")]


@pytest.mark.parametrize("arrow", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_wkb_may_come_in_any_binary_layout(bridge, catalog, arrow):
    schema = Schema(NestedField(1, "g", GeometryType()))
    file = written(catalog, schema, pa.table({"g": pa.array([wkb("POINT (1 2)")], arrow)}))
    assert file.lower_bounds == {1: doubles(1, 2)}


def test_a_geodataframe_is_written_and_read_back(bridge, catalog):
    gpd = pytest.importorskip("geopandas")
    frame = gpd.GeoDataFrame({"id": [1]}, geometry=[shapely.Point(1, 2)], crs="EPSG:3857")
    arrow = pa.table(frame.to_arrow(index=False))
    table = catalog.create_table("ns.frame", schema=arrow.schema, properties=dict(V3))
    assert table.schema().find_type("geometry") == GeometryType("EPSG:3857")
    table.append(arrow)
    back = geo.scan(table).to_geopandas()
    assert back.crs == frame.crs
    assert back.geometry.tolist() == frame.geometry.tolist()


def test_rows_in_another_crs_are_refused(bridge, catalog):
    gpd = pytest.importorskip("geopandas")
    frame = gpd.GeoDataFrame({"g": gpd.GeoSeries([shapely.Point(1, 2)], crs="EPSG:3857")}, geometry="g")
    table = catalog.create_table("ns.t", schema=Schema(NestedField(1, "g", GeometryType())), properties=dict(V3))
    with pytest.raises(SchemaError, match=r"column g: the column is in WGS 84 .*, and the rows are in .*Mercator"):
        table.append(pa.table(frame.to_arrow(index=False)))
    assert table.refresh().current_snapshot() is None


def test_edges_that_parquet_cannot_be_given_are_refused(bridge, catalog):
    schema = Schema(NestedField(1, "g", GeographyType("OGC:CRS84", "karney")))
    table = catalog.create_table("ns.t", schema=schema, properties=dict(V3))
    with pytest.raises(SchemaError, match="cannot write GEOGRAPHY with karney edges"):
        table.append(pa.table({"g": [wkb("POINT (1 2)")]}))


def test_values_that_are_no_bytes_are_refused(bridge, catalog):
    table = catalog.create_table("ns.t", schema=Schema(NestedField(1, "g", GeometryType())), properties=dict(V3))
    with pytest.raises(SchemaError, match="column g: expected WKB, got values of type int64"):
        table.append(pa.table({"g": [7]}))


@pytest.mark.parametrize(
    ("mode", "counts", "bounds"),
    [("none", {}, {}), ("counts", {1: 1}, {}), ("truncate(1)", {1: 1}, {1: doubles(1, 2)})],
)
def test_the_metrics_mode_of_a_column_is_respected(bridge, catalog, mode, counts, bounds):
    schema, table = one_column(GeometryType(), "POINT (1 2)")
    file = written(catalog, schema, table, **{"write.metadata.metrics.column.g": mode})
    assert (file.value_counts, file.lower_bounds) == (counts, bounds)


@pytest.mark.parametrize("given", ["GeoArrow", "WKB"])
def test_shapes_in_structs_have_bounds_and_those_in_lists_have_none(bridge, catalog, given):
    schema = Schema(
        NestedField(1, "s", StructType(NestedField(3, "g", GeometryType()))),
        NestedField(2, "l", ListType(4, GeometryType(), element_required=False)),
    )
    point = wkb("POINT (1 2)")
    column = geo_array if given == "GeoArrow" else pa.array
    table = pa.table({
        "s": pa.StructArray.from_arrays([column([point, None, None])], ["g"], mask=pa.array([False, False, True])),
        "l": pa.ListArray.from_arrays(pa.array([0, 1, None, 2], pa.int32()), column([point, point])),
    })  # fmt: skip
    file = written(catalog, schema, table)
    assert (file.lower_bounds, file.upper_bounds) == ({3: doubles(1, 2)}, {3: doubles(1, 2)})
    assert file.null_value_counts[3] == 2


def geo_array(values):
    import geoarrow.pyarrow as ga

    return ga.wkb().with_crs("OGC:CRS84").wrap_array(pa.array(values, pa.binary()))


def test_a_file_without_shapes_does_not_unmark_the_others(bridge, catalog):
    """Readers prune by the bounds of geographies where these are marked to hold the edges."""
    table = make_table(catalog)
    with table.transaction() as transaction:
        transaction.update_spec().add_identity("name").commit()
    some = rows(0).to_pydict()
    table.append(pa.table({**some, "geog": pa.array([*some["geog"][:2], None], pa.binary())}))
    assert table.current_snapshot().summary["geolake_nb.geography-bounds"] == "4"
    assert gl.open(table).explain(gl.st_intersects("geog", "POINT (1 -1)")).read.files == 1


def test_a_stream_of_batches_is_written(bridge, catalog):
    table = make_table(catalog)
    table.append(rows(0).to_reader(max_chunksize=1))
    (listed,) = table.current_snapshot().manifests(table.io)
    files = [entry.data_file for entry in listed.fetch_manifest_entry(table.io)]
    assert sum(file.record_count for file in files) == 3
    assert all(file.lower_bounds.keys() == {1, 2, 3, 4} for file in files)


def test_partitions_have_bounds_of_their_own(bridge, catalog):
    table = make_table(catalog)
    with table.update_spec() as update:
        update.add_identity("name")
    table.append(rows(0))
    (listed,) = table.current_snapshot().manifests(table.io)
    files = {entry.data_file.partition[0]: entry.data_file for entry in listed.fetch_manifest_entry(table.io)}
    assert {name: file.lower_bounds[3] for name, file in files.items()} == {
        f"n{id_}": doubles(id_, id_) for id_ in range(3)
    }


def test_the_bounds_are_those_of_this_package(bridge, catalog):
    """A geography's bounds hold its edges, and say so to whoever prunes by them."""
    line = "LINESTRING (-45 45, 45 45)"
    schema, given = one_column(GeographyType(), line)
    table = catalog.create_table("ns.t", schema=schema, properties=dict(V3))
    table.append(given)
    (listed,) = table.current_snapshot().manifests(table.io)
    (entry,) = listed.fetch_manifest_entry(table.io)
    box = gl.bounds(pa.array([wkb(line)]), type="geography").box
    assert entry.data_file.upper_bounds == {1: doubles(box.xmax, box.ymax)}
    opened = gl.open(table)
    for y, files in ((50, 1), (40, 0)):
        query = gl.st_intersects("g", f"POINT (0 {y})")
        assert opened.explain(query).read.files == files
        assert len(list(table.scan(row_filter=geo.STIntersects("g", f"POINT (0 {y})")).plan_files())) == files


def test_the_aggregates_of_a_table_are_keyed_by_field_id():
    schema = Schema(NestedField(7, "g", GeometryType()), NestedField(8, "id", LongType()))
    table = pa.table({"g": [wkb("POINT (1 2)"), None], "id": [1, 2]})
    collected = geo.geospatial_column_aggregates_from_arrow_table(table, schema)
    assert list(collected) == [7]
    assert (collected[7].min_as_bytes(), collected[7].null_count) == (doubles(1, 2), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = geo.geospatial_column_aggregates_from_arrow_table(table.slice(0, 1), schema, aggregates=collected)
    assert again[7].stats.rows == 3
