from __future__ import annotations

import csv
import datetime as dt
import json
import math
import os
from decimal import Decimal

import duckdb
import geoarrow.pyarrow as ga
import geopandas as gpd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import CorruptTableError, MissingFileError, NotATableError, StorageError
from geolake_nb.formats.parquet_folder.snapshot import has_parquet_files, open_parquet
from geolake_nb.formats.registry import PARQUET
from geolake_nb.model.box import Box
from geolake_nb.model.schema import type_name
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.parquet.footer import row_groups
from geolake_nb.parquet.footer_boxes import MARGIN, usable_box, widened
from geolake_nb.scan.explain import explain
from geolake_nb.storage.storage import Storage
from tests.formats.parquet_sets import make_wide
from tests.growth import growth

SIDES = ("xmin", "ymin", "xmax", "ymax")


def write(path, columns, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)


def wkb(shapes, kind=None):
    values = pa.array([None if shape is None else shapely.to_wkb(shape, flavor="iso") for shape in shapes], pa.binary())
    return values if kind is None else kind.wrap_array(values)


def geo_file(path, columns, geo, **options):
    table = pa.table(columns)
    write(path, table.replace_schema_metadata({"geo": json.dumps(geo)}), **options)


def with_geo_changed(path, change, **options):
    """Write the file again with other GeoParquet metadata, its columns as plain as they were."""
    table = pq.read_table(path)
    plain = {name: getattr(table[name].combine_chunks(), "storage", table[name]) for name in table.column_names}
    geo = json.loads(table.schema.metadata[b"geo"])
    change(geo["columns"]["geometry"])
    geo_file(path, plain, geo, **options)


def geo_of(column="g", version="1.1.0", **entry):
    column_metadata = {"encoding": "WKB", "geometry_types": [], **entry}
    return {"version": version, "primary_column": column, "columns": {column: column_metadata}}


def values(snapshot, name):
    return snapshot.files.table[name].to_pylist()


def box_of(snapshot, column="g", row=0):
    return tuple(values(snapshot, f"{column}.{side}")[row] for side in SIDES)


def is_inside(box, x, y):
    xmin, ymin, xmax, ymax = box
    in_x = (xmin <= x) & (x <= xmax) if xmin <= xmax else (x >= xmin) | (x <= xmax)
    return in_x & (ymin <= y) & (y <= ymax)


def coordinates(path, column, row_group=None):
    """Every vertex of a WKB column, by GEOS."""
    file = pq.ParquetFile(path, arrow_extensions_enabled=False)
    table = file.read([column]) if row_group is None else file.read_row_group(row_group, [column])
    array = table[column].combine_chunks()
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    points = shapely.get_coordinates(shapely.from_wkb(storage.to_numpy(zero_copy_only=False)))
    return points[~np.isnan(points).any(axis=1)].T


# the corpus


def corpus_files(corpus):
    return sorted([*(corpus / "parquet_geo").rglob("*.parquet"), *(corpus / "geoparquet").rglob("*.parquet")])


def is_native(path, column):
    """Whether the file holds the column as lists of coordinates, by its GeoParquet metadata."""
    geo = json.loads((pq.read_metadata(path).metadata or {}).get(b"geo", b"{}"))
    return geo.get("columns", {}).get(column, {}).get("encoding", "WKB") != "WKB"


def test_every_box_of_the_corpus_holds_its_vertices(corpus):
    checked = 0
    for path in corpus_files(corpus):
        snapshot = open_parquet(path)
        groups = row_groups(snapshot.details.storage, values(snapshot, "path"), snapshot.schema)
        assert sum(groups["rows"].to_pylist()) == sum(values(snapshot, "rows")) == pq.read_metadata(path).num_rows
        for column in snapshot.files.geo_columns:
            if is_native(path, column):
                continue
            if (box := box_of(snapshot, column))[0] is not None:
                assert is_inside(box, *coordinates(path, column)).all(), path
                checked += 1
            for index, row in enumerate(groups.to_pylist()):
                if row[f"{column}.xmin"] is not None:
                    group_box = tuple(row[f"{column}.{side}"] for side in SIDES)
                    assert is_inside(group_box, *coordinates(path, column, index)).all(), (path, index)
                    checked += 1
    assert checked > 80


def test_native_encodings_get_their_box_from_their_coordinates(corpus):
    for path in (corpus / "geoparquet" / "test_data_1.1.0").glob("*-encoding_native.parquet"):
        with open(path.with_name(path.name.replace("encoding_native.parquet", "wkt.csv"))) as file:
            shapes = shapely.from_wkt([row["geometry"] or None for row in csv.DictReader(file)])
        snapshot = open_parquet(path)
        expected = shapely.total_bounds(shapes)
        assert box_of(snapshot, "geometry") == pytest.approx(tuple(expected), rel=1e-11)
        assert is_inside(box_of(snapshot, "geometry"), *shapely.get_coordinates(shapes).T).all()
        assert values(snapshot, "geometry.source") == ["footer"]


def test_the_types_and_systems_of_the_corpus_are_read(corpus):
    def column(*parts):
        path = corpus.joinpath("parquet_geo", *parts)
        (field_,) = [field for _, field in open_parquet(path).schema.geo_columns()]
        return type_name(field_.type)

    assert column("parquet-testing", "crs-default.parquet") == "geometry(OGC:CRS84)"
    assert column("parquet-testing", "crs-srid.parquet") == "geometry(srid:5070)"
    assert column("parquet-testing", "crs-geography.parquet") == "geography(OGC:CRS84, spherical)"
    assert column("parquet-testing", "crs-projjson.parquet").startswith("geometry(projjson:")


def test_a_float32_covering_is_rounded_outward(corpus):
    path = corpus / "geoparquet" / "sedona-testing" / "overture-bbox.parquet"
    snapshot = open_parquet(path)
    assert values(snapshot, "geometry.source") == ["covering"]
    stats = pq.read_metadata(path).row_group(0).column(2).statistics
    assert box_of(snapshot, "geometry")[0] < stats.min
    assert is_inside(box_of(snapshot, "geometry"), *coordinates(path, "geometry")).all()


def test_geographies_of_points_have_a_box_and_others_a_reason(corpus):
    points = open_parquet(corpus / "parquet_geo" / "parquet-testing" / "geography-points.parquet")
    groups = row_groups(points.details.storage, values(points, "path"), points.schema)
    assert groups["geometry.xmin"].null_count == 0
    assert any(row["geometry.xmin"] > row["geometry.xmax"] for row in groups.to_pylist())  # some wrap
    assert box_of(points, "geometry")[0] == -180.0


# GeoParquet of other tools


@pytest.fixture
def shapes():
    rng = np.random.default_rng(7)
    points = shapely.points(rng.uniform(-170, 170, 200), rng.uniform(-80, 80, 200))
    return [*shapely.buffer(points, 1.0, quad_segs=2), None, shapely.Point()]


@pytest.mark.parametrize(("version", "covering"), [("1.0.0", False), ("1.1.0", False), ("1.1.0", True)])
def test_geopandas_files_open(tmp_path, shapes, version, covering):
    frame = gpd.GeoDataFrame({"id": range(len(shapes))}, geometry=shapes, crs="EPSG:4326")
    frame.to_parquet(tmp_path / "a.parquet", schema_version=version, write_covering_bbox=covering, row_group_size=50)
    snapshot = open_parquet(tmp_path / "a.parquet")
    assert snapshot.protocol.summary == f"GeoParquet {version}"
    assert box_of(snapshot, "geometry") == pytest.approx(tuple(frame.total_bounds), rel=1e-11)
    assert values(snapshot, "geometry.null_count") == [1]
    assert values(snapshot, "geometry.source") == ["footer"]
    assert values(snapshot, "geometry.types")[0] == [1, 3]
    groups = row_groups(snapshot.details.storage, ["a.parquet"], snapshot.schema)
    assert groups.num_rows == math.ceil(len(shapes) / 50)
    for index, row in enumerate(groups.to_pylist()):
        if row["geometry.xmin"] is not None:
            box = tuple(row[f"geometry.{side}"] for side in SIDES)
            assert is_inside(box, *coordinates(tmp_path / "a.parquet", "geometry", index)).all()
            if covering and index < 4:
                exact = frame.iloc[50 * index : 50 * (index + 1)].total_bounds
                assert box == pytest.approx(tuple(exact), rel=1e-11)
                assert row["geometry.source"] == "covering"


def test_the_covering_is_used_where_the_file_has_no_bbox(tmp_path, shapes):
    frame = gpd.GeoDataFrame(geometry=shapes[:-2], crs="EPSG:4326")
    frame.to_parquet(tmp_path / "a.parquet", schema_version="1.1.0", write_covering_bbox=True, row_group_size=50)
    with_geo_changed(tmp_path / "a.parquet", lambda column: column.pop("bbox"), row_group_size=50)
    snapshot = open_parquet(tmp_path)
    assert values(snapshot, "geometry.source") == ["covering"]
    # Minima and maxima do not show whether a row crosses the antimeridian, with xmin > xmax.
    _, south, _, north = frame.total_bounds
    assert box_of(snapshot, "geometry") == pytest.approx((-180, south, 180, north), rel=1e-11)


@pytest.mark.parametrize("version", ["V1", "V2", "NONE", "BOTH"])
def test_duckdb_files_open(tmp_path, version):
    rng = np.random.default_rng(3)
    xy = pa.table({"x": rng.uniform(-180, 180, 500), "y": rng.uniform(-90, 90, 500)})
    with duckdb.connect() as engine:
        engine.register("xy", xy)
        engine.execute(
            "COPY (SELECT CASE WHEN x <= 170 THEN ('POINT(' || x || ' ' || y || ')')::GEOMETRY END AS g FROM xy)"
            f" TO '{tmp_path}/a.parquet' (FORMAT parquet, GEOPARQUET_VERSION '{version}')"
        )
    snapshot = open_parquet(tmp_path)
    x, y = coordinates(tmp_path / "a.parquet", "g")
    assert is_inside(box_of(snapshot), x, y).all()
    assert box_of(snapshot) == pytest.approx((x.min(), y.min(), x.max(), y.max()), rel=1e-11)
    assert values(snapshot, "g.types") == [[1]]
    assert values(snapshot, "g.null_count") == [500 - len(x)]


# boxes that do not hold


def covering_file(path, rows, shapes, nulls=(), narrow=False):
    kind = pa.float32() if narrow else pa.float64()
    sides = [pa.array([row[axis] for row in rows], kind) for axis in range(4)]
    mask = pa.array([index in nulls for index in range(len(rows))])
    bbox = pa.StructArray.from_arrays(sides, names=list(SIDES), mask=mask)
    covering = {"bbox": {side: ["bbox", side] for side in SIDES}}
    geo_file(path, {"g": wkb(shapes), "bbox": bbox}, geo_of(covering=covering))


def test_a_row_without_its_covering_takes_the_box_away(tmp_path):
    points = [shapely.Point(1, 1), shapely.Point(50, 50)]
    rows = [(1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.0)]
    covering_file(tmp_path / "a.parquet", rows, points, nulls={1})
    assert box_of(open_parquet(tmp_path))[0] is None
    covering_file(tmp_path / "a.parquet", rows, [points[0], None], nulls={1})
    assert box_of(open_parquet(tmp_path)) == pytest.approx((1, 1, 1, 1))


def test_a_covering_with_a_wrapped_row_spans_all_longitudes(tmp_path):
    line = shapely.MultiLineString([[(175, 0), (180, 0)], [(-180, 0), (-175, 0)]])
    covering_file(
        tmp_path / "a.parquet", [(175.0, 0.0, -175.0, 0.0), (0.0, 0.0, 5.0, 0.0)], [line, shapely.Point(1, 0)]
    )
    box = box_of(open_parquet(tmp_path))
    assert box[0] <= -180
    assert box[2] >= 180


@given(st.lists(st.tuples(st.floats(-180, 180), st.floats(-90, 90)), min_size=1, max_size=8))
@settings(max_examples=40)
def test_float32_coverings_hold_doubles_however_they_were_rounded(tmp_path_factory, xy):
    path = tmp_path_factory.mktemp("narrow") / "a.parquet"
    rows = [(np.float32(x), np.float32(y), np.float32(x), np.float32(y)) for x, y in xy]
    covering_file(path, rows, [shapely.Point(x, y) for x, y in xy], narrow=True)
    x, y = np.array(xy).T
    assert is_inside(box_of(open_parquet(path)), x, y).all()


@pytest.mark.parametrize(
    ("bbox", "reason"),
    [
        ([0, 5, 1, 4], "a box has ymin 5.0 > ymax 4.0"),
        ([0.0, 0.0, 1.0, 1.0], None),
        ([170, 0, -170, 1], None),
    ],
)
def test_a_stored_box_that_cannot_be_true_gives_the_reason(tmp_path, bbox, reason):
    geo_file(tmp_path / "a.parquet", {"g": wkb([shapely.Point(0.5, 0.5)])}, geo_of(bbox=bbox))
    snapshot = open_parquet(tmp_path)
    assert (box_of(snapshot)[0] is None) == (reason is not None)
    assert values(snapshot, "g.problem") == [reason]
    assert values(snapshot, "g.source") == [None if reason else "footer"]


def test_a_wrapped_box_in_a_projected_system_is_not_used(tmp_path):
    frame = gpd.GeoDataFrame(geometry=[shapely.Point(5e5, 5e6)], crs="EPSG:32633")
    frame.to_parquet(tmp_path / "a.parquet")
    with_geo_changed(tmp_path / "a.parquet", lambda column: column.update(bbox=[6e5, 4e6, 4e5, 6e6]))
    snapshot = open_parquet(tmp_path)
    assert box_of(snapshot, "geometry")[0] is None
    assert "only longitudes wrap" in values(snapshot, "geometry.problem")[0]


def test_a_geography_box_of_another_writer_is_not_used(tmp_path):
    arc = shapely.LineString([(0, 60), (90, 60)])  # its great circle reaches above 67 degrees
    entry = geo_of(edges="spherical", bbox=[0, 60, 90, 60], geometry_types=["LineString"])
    geo_file(tmp_path / "a.parquet", {"g": wkb([arc])}, entry)
    snapshot = open_parquet(tmp_path)
    assert isinstance(snapshot.schema.find("g").type, GeographyType)
    assert box_of(snapshot)[0] is None
    assert values(snapshot, "g.problem") == [
        "a geography box of another writer may cover only the vertices, not the edges"
    ]
    assert values(snapshot, "g.types") == [[2]]


def test_what_this_package_wrote_is_taken_as_it_is():
    box = Box(0, 60, 90, 68)
    assert usable_box(box, GeographyType(), types=(2,), own=True) == (box, None)
    assert usable_box(box, GeometryType(), types=None, own=True) == (box, None)


def test_points_at_a_pole_have_every_longitude():
    box, _ = usable_box(Box(10, 80, 20, 90), GeographyType(), types=(1,), own=False)
    assert (box.xmin, box.xmax, box.ymax) == (-180, 180, 90)


@pytest.mark.parametrize("box", [Box(0, 0, math.inf, 1), Box(-math.inf, 0, 1, 1), Box(0, -math.inf, 1, 1)])
def test_infinite_boxes_bound_nothing(box):
    assert usable_box(box, GeometryType(), types=None, own=False) == (None, "the box has an infinite side")


@given(st.tuples(*[st.floats(-1e9, 1e9)] * 4))
@settings(max_examples=100)
def test_widening_holds_the_box_with_a_margin_and_no_more(sides):
    x, y = sorted(sides[:2]), sorted(sides[2:])
    box = Box(x[0], y[0], x[1], y[1])
    wide = widened(box)
    assert wide.contains(box)
    assert wide.xmin < box.xmin
    assert wide.ymax > box.ymax
    assert wide.xmax - box.xmax <= 2 * MARGIN * max(map(abs, x)) + 1e-300


def test_widening_a_box_that_nearly_closes_the_circle_gives_the_circle():
    wide = widened(Box(10.0, 0, math.nextafter(10.0, 0), 1))
    assert (wide.xmin, wide.xmax) == (-180, 180)


def test_a_row_group_without_a_box_takes_that_of_the_file_away(tmp_path):
    kind = ga.wkb()
    good, empty = [shapely.Point(1, 2), shapely.Point(3, 4)], [shapely.Point(), shapely.Point()]
    write(tmp_path / "good.parquet", {"g": wkb(good + good, kind)}, row_group_size=2)
    write(tmp_path / "empty.parquet", {"g": wkb(good + empty, kind)}, row_group_size=2)
    snapshot = open_parquet(tmp_path)
    # Empty values cannot be distinguished from a writer that omitted the box.
    assert values(snapshot, "path") == ["empty.parquet", "good.parquet"]
    assert box_of(snapshot, row=0)[0] is None
    assert box_of(snapshot, row=1) == pytest.approx((1, 2, 3, 4))


def test_z_and_m_come_along(tmp_path):
    line = shapely.from_wkt(["LINESTRING ZM (0 0 1 10, 1 1 2 20)"])
    write(tmp_path / "a.parquet", {"g": wkb(line, ga.wkb())})
    snapshot = open_parquet(tmp_path)
    ends = [values(snapshot, f"g.{side}")[0] for side in ("zmin", "zmax", "mmin", "mmax")]
    assert ends == pytest.approx([1, 2, 10, 20])
    assert values(snapshot, "g.types") == [[3002]]


# sets of files


def point_file(path, x, y, **columns):
    write(path, {"id": pa.array([1], pa.int64()), "g": wkb([shapely.Point(x, y)], ga.wkb()), **columns})


@pytest.fixture
def hive(tmp_path):
    root = tmp_path / "roads"
    for year, region, x in ((2023, "a b", 1), (2024, "c/d", 2), (2024, None, 3)):
        folder = "__HIVE_DEFAULT_PARTITION__" if region is None else region.replace(" ", "%20").replace("/", "%2F")
        point_file(root / f"year={year}" / f"region={folder}" / "part-0.parquet", x, x)
    (root / "_SUCCESS").write_bytes(b"")
    (root / ".part.crc").write_bytes(b"x")
    point_file(root / "_temporary" / "0.parquet", 9, 9)
    (root / "README.md").write_text("notes")
    return root


def test_a_partitioned_set_has_typed_partition_columns(hive):
    snapshot = open_parquet(f"{hive}/")
    assert snapshot.format is PARQUET
    assert snapshot.location == str(hive)
    assert snapshot.partition_columns == ("year", "region")
    assert values(snapshot, "partition.year") == [2023, 2024, 2024]
    assert values(snapshot, "partition.region") == ["a b", None, "c/d"]
    assert [type_name(field.type) for field in snapshot.schema.fields] == [
        "int64",
        "geometry(OGC:CRS84)",
        "int64",
        "string",
    ]
    assert snapshot.timestamp is not None
    years = snapshot.scalars(("year",))
    assert years.minimum.to_pylist() == years.maximum.to_pylist() == [2023, 2024, 2024]
    regions = snapshot.scalars(("region",))
    assert regions.null_count.to_pylist() == [0, 1, 0]


def test_the_same_set_opens_from_a_bucket(hive, s3):
    local = open_parquet(hive)
    seen = []
    remote = open_parquet(
        s3.upload(hive, "lake", "roads"), options=s3.options, on_progress=lambda *step: seen.append(step)
    )
    shared = [name for name in local.files.table.column_names if name != "modified"]
    assert remote.files.table.select(shared).equals(local.files.table.select(shared))
    assert remote.schema == local.schema
    assert remote.location == "s3://lake/roads"
    assert seen[-1] == (3, 3)
    snapshot = open_parquet("s3://lake/roads/year=2023/region=a%20b/part-0.parquet", options=s3.options)
    assert values(snapshot, "path") == ["part-0.parquet"]
    some = open_parquet("s3://lake/roads/year=2024/*/*.parquet", options=s3.options)
    assert len(some.files) == 2


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("*/*/*.parquet", 3), ("year=2024/**/*.parquet", 2), ("**", 3), ("year=202[3]/*/part-?.parquet", 1)],
)
def test_patterns_pick_files(hive, pattern, count):
    snapshot = open_parquet(f"{hive}/{pattern}") if pattern != "**" else open_parquet(f"{hive}/**/*.parquet")
    assert len(snapshot.files) == count


def test_a_pattern_without_a_match_and_a_broken_one_say_so(hive):
    with pytest.raises(MissingFileError, match=r"no file matches 'x\*.parquet'"):
        open_parquet(f"{hive}/x*.parquet")
    with pytest.raises(StorageError, match="is not valid"):
        open_parquet(f"{hive}/[z-a].parquet")


def test_a_name_with_brackets_is_a_file_before_it_is_a_pattern(tmp_path):
    point_file(tmp_path / "a[1].parquet", 1, 1)
    assert len(open_parquet(tmp_path / "a[1].parquet").files) == 1


def test_a_name_with_a_star_is_a_file_before_it_is_a_pattern(tmp_path):
    point_file(tmp_path / "b*c.parquet", 1, 1)
    point_file(tmp_path / "bxc.parquet", 2, 2)
    assert values(open_parquet(tmp_path / "b*c.parquet"), "path") == ["b*c.parquet"]
    assert values(open_parquet(tmp_path / "b*.parquet"), "path") == ["b*c.parquet", "bxc.parquet"]


def test_folders_that_only_some_files_are_in_make_no_column(tmp_path):
    point_file(tmp_path / "k=1" / "a.parquet", 1, 1)
    point_file(tmp_path / "b.parquet", 1, 1, k=pa.array([7], pa.int64()))
    snapshot = open_parquet(tmp_path)
    assert snapshot.partition_columns == ()
    assert any(problem.column == "k" for problem in snapshot.details.problems)
    # The file below k=1 may read as k = 1 or as null, the other one has its own.
    assert snapshot.scalars(("k",)) is None


def test_a_partition_column_that_is_in_the_files_too_is_bounded_by_both(tmp_path):
    point_file(tmp_path / "k=1" / "a.parquet", 1, 1, k=pa.array([1], pa.int64()))
    point_file(tmp_path / "k=2" / "a.parquet", 1, 1, k=pa.array([7], pa.int64()))
    column = open_parquet(tmp_path).scalars(("k",))
    assert column.minimum.to_pylist() == [1, 2]
    assert column.maximum.to_pylist() == [1, 7]


def test_a_partition_column_that_is_in_the_files_with_another_type_skips_nothing(tmp_path):
    for value in (1, 2):
        point_file(tmp_path / f"k={value}" / "a.parquet", 1, 1, k=pa.array([7], pa.int32()))
    assert explain(open_parquet(tmp_path), "k = 7").read.files == 2


def test_escapes_beyond_ascii_are_bounded_as_utf8_and_as_spark_reads_them(tmp_path):
    for value in ("%C3%BC", "b%3A", "__HIVE_DEFAULT_PARTITION__"):
        point_file(tmp_path / f"k={value}" / "a.parquet", 1, 1)
    snapshot = open_parquet(tmp_path)
    assert values(snapshot, "partition.k") == ["ü", None, "b:"]
    paths = {sql: explain(snapshot, sql).kept["path"].to_pylist() for sql in ("k = 'ü'", "k = 'Ã¼'", "k = 'b:'")}
    first, other = "k=%C3%BC/a.parquet", "k=b%3A/a.parquet"
    assert paths == {"k = 'ü'": [first], "k = 'Ã¼'": [first], "k = 'b:'": [other]}


def test_files_of_different_schemas_are_merged_and_the_difference_is_reported(tmp_path):
    write(tmp_path / "a.parquet", {"id": pa.array([1], pa.int64()), "g": wkb([shapely.Point(1, 1)], ga.wkb())})
    write(tmp_path / "b.parquet", {"id": pa.array(["x"]), "name": pa.array(["n"])})
    kind = ga.wkb().with_crs("EPSG:3857")
    write(tmp_path / "c.parquet", {"id": pa.array([3], pa.int64()), "g": wkb([shapely.Point(1e6, 1e6)], kind)})
    snapshot = open_parquet(tmp_path)
    assert [field.name for field in snapshot.schema.fields] == ["id", "g", "name"]
    reported = {(problem.path, problem.column) for problem in snapshot.details.problems}
    assert reported == {("b.parquet", "id"), ("c.parquet", "g")}
    # The file without the column has only nulls; the one in metres has a box that cannot be compared.
    assert values(snapshot, "g.null_count")[1] == 1
    assert [value is None for value in values(snapshot, "g.xmin")] == [False, True, True]
    assert "EPSG:3857" in values(snapshot, "g.problem")[2]
    ids = snapshot.scalars(("id",))
    assert ids.minimum.to_pylist() == [1, None, 3]
    assert snapshot.scalars(("name",)).null_count.to_pylist() == [1, 0, 1]


def test_bad_geoparquet_metadata_is_reported_and_the_rest_is_read(tmp_path):
    geo_file(tmp_path / "a.parquet", {"id": [1], "g": wkb([shapely.Point(1, 1)])}, {"version": "1.1.0"})
    snapshot = open_parquet(tmp_path)
    assert snapshot.files.geo_columns == ()
    (problem,) = snapshot.details.problems
    assert problem.path == "a.parquet"
    assert "'primary_column' is missing" in problem.what


# scalars


def test_scalars_are_the_minima_and_maxima_of_the_data(tmp_path):
    table = pa.table(
        {
            "i": pa.array([3, 1, None, 2], pa.int32()),
            "u": pa.array([2**32 - 1, 1, 5, 7], pa.uint32()),
            "b": pa.array([2**64 - 1, 1, 5, 7], pa.uint64()),
            "f": pa.array([1.5, float("nan"), -2.0, 0.0]),
            "d": pa.array([dt.date(2020, 1, day) for day in (4, 2, 3, 1)]),
            "t": pa.array([10**18 + 1, 10**18 + 7, 5, 6]).cast(pa.timestamp("ns")),
            "z": pa.array([4, 3, 2, 1]).cast(pa.timestamp("us", "UTC")),
            "n": pa.array([Decimal("1.25"), Decimal("-3.50"), None, Decimal(0)], pa.decimal128(9, 2)),
            "s": pa.array(["b", "ä", None, ""]),
            "y": pa.array([b"\xff", b"a", b"b", None]),
            "c": pa.array([True, False, None, True]),
            "o": pa.array([{"x": 1}, {"x": None}, None, {"x": 5}], pa.struct([("x", pa.int16())])),
        }
    )
    write(tmp_path / "a.parquet", table, row_group_size=2)
    snapshot = open_parquet(tmp_path)
    for path in [*[(name,) for name in table.column_names if name != "o"], ("o", "x")]:
        column = snapshot.scalars(path)
        data = table[path[0]].combine_chunks()
        data = data.field(0).filter(data.is_valid()) if len(path) == 2 else data
        present = [
            value
            for value in data.to_pylist()
            if value is not None and not (isinstance(value, float) and math.isnan(value))
        ]
        shown = data.type
        assert column.minimum.type.equals(shown)
        assert column.minimum.to_pylist() == pa.array([min(present)], shown).to_pylist(), path
        assert column.maximum.to_pylist() == pa.array([max(present)], shown).to_pylist(), path
        assert column.row_count.to_pylist() == [4]
    assert snapshot.scalars(("i",)).null_count.to_pylist() == [1]
    assert snapshot.scalars(("o", "x")).null_count.to_pylist() == [2]


def test_columns_without_an_order_have_no_scalars(tmp_path):
    table = pa.table({"l": pa.array([[1, 2], None]), "g": wkb([shapely.Point(1, 1), None])})
    write(tmp_path / "a.parquet", table)
    snapshot = open_parquet(tmp_path)
    assert snapshot.scalars(("l",)) is None
    assert snapshot.scalars(("l", "element")) is None
    assert snapshot.scalars(("nothing",)) is None


def test_a_row_group_without_statistics_leaves_no_bound(tmp_path):
    write(tmp_path / "a.parquet", {"i": [1, 2]}, write_statistics=False)
    column = open_parquet(tmp_path).scalars(("i",))
    assert column.minimum.to_pylist() == column.null_count.to_pylist() == [None]


# places


def test_bad_places_are_one_clear_error_each(tmp_path):
    with pytest.raises(MissingFileError, match=f"{tmp_path}/none: there is no such file or folder"):
        open_parquet(tmp_path / "none")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.csv").write_text("id\n1\n")
    with pytest.raises(NotATableError, match="there is no Parquet file in this folder"):
        open_parquet(tmp_path / "notes")
    with pytest.raises(CorruptTableError, match=r"a\.csv: the file is not Parquet"):
        open_parquet(tmp_path / "notes" / "a.csv")
    (tmp_path / "cut").mkdir()
    point_file(tmp_path / "cut" / "a.parquet", 1, 1)
    point_file(tmp_path / "cut" / "b.parquet", 1, 1)
    os.truncate(tmp_path / "cut" / "b.parquet", 100)
    with pytest.raises(CorruptTableError, match=r"cut/b\.parquet: the file is not Parquet, or it is truncated"):
        open_parquet(tmp_path / "cut")
    (tmp_path / "cut" / "b.parquet").write_bytes(b"")
    with pytest.raises(CorruptTableError, match=r"b\.parquet: the file is empty, not a Parquet file"):
        open_parquet(tmp_path / "cut")


def test_files_without_an_ending_are_found_by_their_bytes(tmp_path):
    point_file(tmp_path / "part-0", 1, 1)
    (tmp_path / "other").write_text("not parquet at all")
    assert values(open_parquet(tmp_path), "path") == ["part-0"]


def test_parquet_locations_are_distinguished_from_others(hive, tmp_path):
    storage = Storage.at(str(tmp_path))
    assert has_parquet_files(storage, "roads")
    assert has_parquet_files(Storage.at(str(hive)))
    assert has_parquet_files(storage, "roads/year=2023/region=a%20b/part-0.parquet")
    assert not has_parquet_files(storage, "roads/README.md")
    assert not has_parquet_files(storage, "roads/none")
    assert not has_parquet_files(storage, "roads/_temporary/none")


def test_a_file_without_rows_opens(tmp_path):
    write(tmp_path / "a.parquet", {"g": wkb([], ga.wkb())})
    snapshot = open_parquet(tmp_path)
    assert values(snapshot, "rows") == [0]
    assert box_of(snapshot)[0] is None
    assert snapshot.files.boxes("g").only_null_or_empty.tolist() == [True]


@pytest.mark.parametrize("encoding", ["WKB", "point"])
def test_many_geo_columns_open_in_a_time_as_long_as_they_are_many(tmp_path, encoding):
    def opening(count):
        path = make_wide(tmp_path / f"{count}.parquet", count, encoding=encoding)
        return lambda: open_parquet(str(path))

    assert growth(opening, 500, 4000) < 20
