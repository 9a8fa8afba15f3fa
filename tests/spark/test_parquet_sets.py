"""Sets of Parquet files that are rewritten, made and added to on Spark, as other readers see them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import shutil
import uuid

import duckdb
import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import ConflictError, RefusedError
from geolake_nb.geo.bounds import BadValueWarning
from geolake_nb.model.box import Box
from tests.formats.parquet_folder.test_repair import boxes, valid_geo
from tests.formats.parquet_sets import GEO, contents, make_set, points, seen

pytestmark = pytest.mark.spark

COUNT = 600


def many_types() -> pa.Table:
    """Points all over the Earth, and columns of types that Spark does not have."""
    draw = np.random.default_rng(3)
    shapes = shapely.points(draw.uniform(-179, 179, COUNT), draw.uniform(-85, 85, COUNT))
    ids = range(COUNT)
    moment = 1_700_000_000_000_000_001
    return pa.table(
        {
            "id": list(ids),
            "geom": pa.array(shapely.to_wkb(shapes), pa.binary()),
            "bits": pa.array([2**63 + n for n in ids], pa.uint64()),
            "small": pa.array([n % 256 for n in ids], pa.uint8()),
            "nano": pa.array([moment + n for n in ids], pa.timestamp("ns")),
            "milli": pa.array([None if n % 7 == 0 else n for n in ids], pa.timestamp("ms", "UTC")),
            "clock": pa.array([dt.time(1, 2, 3, n) for n in ids], pa.time64("us")),
            "half": pa.array(np.arange(COUNT).astype(np.float16)),
            "key": pa.array([uuid.UUID(int=n).bytes for n in ids], pa.binary(16)),
            "price": pa.array([decimal.Decimal(n) / 100 for n in ids], pa.decimal128(9, 2)),
            "inner": pa.array([{"t": moment + n, "l": [n % 9]} for n in ids],
                              pa.struct([("t", pa.timestamp("ns")), ("l", pa.list_(pa.uint16()))])),
            "part": pa.array([("a b", "c/d", None)[n % 3] for n in ids]),
        }
    )  # fmt: skip


def hive_set(folder):
    """Two files in each of three folders."""
    table = many_types()
    column = {"encoding": "WKB", "geometry_types": ["Point"], "epoch": 2020.5}
    geo = {"version": "1.0.0", "primary_column": "geom", "columns": {"geom": column}, "mine": 7}
    for value, name in (("a b", "a b"), ("c/d", "c%2Fd"), (None, "__HIVE_DEFAULT_PARTITION__")):
        there = folder / f"part={name}"
        there.mkdir(parents=True)
        chosen = pc.is_null(table["part"]) if value is None else pc.equal(table["part"], value)
        some = table.filter(chosen).drop_columns(["part"])
        some = some.replace_schema_metadata({"geo": json.dumps(geo), "who": "me"})
        for number in range(2):
            pq.write_table(some.slice(number * 100, 100), there / f"{number}.parquet")
    return folder


def late(first: int) -> pa.Table:
    """A few rows that another writer adds."""
    return points(first, 5).replace_schema_metadata({"geo": json.dumps(GEO)})


def plain(folder) -> pa.Table:
    table = pq.read_table(folder, arrow_extensions_enabled=False, partitioning="hive")
    if "part" in table.column_names:
        table = table.set_column(table.column_names.index("part"), "part", table["part"].cast(pa.string()))
    return table.sort_by("id")


def shapes_in_spark(spark, path) -> list[bytes]:
    frame = spark.read.parquet(str(path)).selectExpr("id", "st_asbinary(geom) AS wkb").orderBy("id")
    return [bytes(row.wkb) for row in frame.collect()]


def test_a_partitioned_set_is_clustered_and_put_back(spark, corpus, tmp_path):
    folder = hive_set(tmp_path / "set")
    old, rows = contents(folder), plain(folder)
    plan = gl.open(str(folder)).plan_rewrite(cluster_by="geom", covering=True, row_group_rows=32)
    assert plan.hash == gl.open(str(folder)).plan_rewrite(cluster_by="geom", covering=True, row_group_rows=32).hash
    report = plan.apply(spark=spark)
    assert (report.metrics["files_removed"], report.metrics["rows_written"]) == (6, COUNT)

    after = plain(folder)
    assert after.drop_columns(["bbox"]).cast(rows.schema).equals(rows)
    for path in sorted(folder.glob("part=*/*.parquet")):
        geo = valid_geo(corpus, path)
        assert (geo["version"], geo["mine"]) == ("1.1.0", 7)
        assert geo["columns"]["geom"]["epoch"] == 2020.5
        assert geo["columns"]["geom"]["covering"]["bbox"]["xmin"] == ["bbox", "xmin"]
        assert pq.read_metadata(path).metadata[b"who"] == b"me"
        here = pq.read_table(path, arrow_extensions_enabled=False, partitioning=None)
        bounds = shapely.bounds(shapely.from_wkb(here["geom"].to_pylist()))
        sides = [here["bbox"].combine_chunks().field(side).to_numpy() for side in ("xmin", "ymin", "xmax", "ymax")]
        # Rounded outward to 32 bits, by one step at most.
        for number, outward in enumerate((np.less_equal, np.less_equal, np.greater_equal, np.greater_equal)):
            assert outward(sides[number].astype(np.float64), bounds[:, number]).all()
            step = np.spacing(np.abs(sides[number]) + np.float32(1))
            assert (np.abs(sides[number] - bounds[:, number]) <= step).all()
        whole = shapely.total_bounds(shapely.from_wkb(here["geom"].to_pylist()))
        assert geo["columns"]["geom"]["bbox"] == whole.tolist()
    # pandas has no categories for the folder of nulls.
    frames = [geopandas.read_parquet(path, partitioning=None) for path in folder.glob("part=*/*.parquet")]
    assert sorted(x for frame in frames for x in frame.geometry.x) == sorted(
        shapely.get_x(shapely.from_wkb(rows["geom"].to_pylist())).tolist()
    )
    query = f"SELECT count(*), sum(id) FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    assert duckdb.sql(query).fetchall() == [(COUNT, COUNT * (COUNT - 1) // 2)]

    groups = gl.open(str(folder)).explain(Box(10, 10, 20, 20), row_groups=True).row_groups
    kept = groups.filter(groups["kept"])
    assert 0 < kept.num_rows < groups.num_rows / 2
    met = {(row["path"], row["row_group"]) for row in kept.to_pylist()}
    for path in folder.glob("part=*/*.parquet"):
        file = pq.ParquetFile(path, arrow_extensions_enabled=False)
        for number in range(file.num_row_groups):
            shapes = shapely.from_wkb(file.read_row_group(number, ["geom"])["geom"].to_pylist())
            if shapely.intersects(shapes, shapely.box(10, 10, 20, 20)).any():
                assert (str(path.relative_to(folder)), number) in met
    assert gl.open(str(folder)).plan_repair(verify=True).apply().version is None

    report.undo()
    assert contents(folder) == old
    assert plan.apply().version == 1  # it landed once, and is not made again


def test_a_single_file_is_replaced_by_one_of_its_name(spark, tmp_path):
    folder = make_set(tmp_path / "set")
    path = folder / "1.parquet"
    others = {name: data for name, data in contents(folder).items() if name != "1.parquet"}
    before = path.read_bytes()
    report = gl.open(str(path)).plan_rewrite(cluster_by="geom", row_group_rows=5).apply(spark=spark)
    assert pq.read_metadata(path).num_row_groups == 2
    assert seen(folder) == list(range(30))
    assert {name: data for name, data in contents(folder).items() if name != "1.parquet"} == others
    report.undo()
    assert path.read_bytes() == before


def test_small_files_come_together_and_a_change_of_others_is_a_conflict(spark, tmp_path):
    folder = make_set(tmp_path / "set", files=4)
    plan = gl.open(str(folder)).plan_rewrite()
    pq.write_table(late(100), folder / "late.parquet")
    assert plan.apply(spark=spark).metrics["files_added"] == 1
    assert seen(folder) == [*range(40), *range(100, 105)]
    (made,) = folder.glob("part-*.parquet")
    assert shapes_in_spark(spark, made) == points(0, 40)["geom"].to_pylist()
    plan = gl.open(str(folder)).plan_rewrite()
    pq.write_table(late(200), folder / "late.parquet")
    old = contents(folder)
    with pytest.raises(ConflictError, match=r"late\.parquet: the file was changed since the plan was made"):
        plan.apply(spark=spark)
    assert contents(folder) == old


def test_ewkb_and_coordinates_become_iso_wkb(spark, corpus, tmp_path):
    folder = tmp_path / "ewkb"
    folder.mkdir()
    shapes = shapely.set_srid(shapely.points([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]), 4326)
    geo = {"version": "1.1.0", "primary_column": "geom",
           "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point Z"]}}}  # fmt: skip
    values = pa.array(shapely.to_wkb(shapes, include_srid=True, flavor="extended"), pa.binary())
    table = pa.table({"id": [0, 1], "geom": values}).replace_schema_metadata({"geo": json.dumps(geo)})
    pq.write_table(table, folder / "a.parquet")
    gl.open(str(folder)).plan_rewrite(cluster_by="geom").apply(spark=spark)
    (path,) = folder.glob("*.parquet")
    made = plain(folder)["geom"].to_pylist()
    assert made == [shapely.to_wkb(shape, flavor="iso", output_dimension=3) for shape in shapes]
    assert valid_geo(corpus, path)["columns"]["geom"]["bbox"] == [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]
    assert boxes(path)[0]["zmax"] == 6.0

    native = tmp_path / "native.parquet"
    shutil.copy(corpus / "geoparquet/test_data_1.1.0/data-polygon-encoding_native.parquet", native)
    expected = geopandas.read_parquet(corpus / "geoparquet/test_data_1.1.0/data-polygon-encoding_wkb.parquet")
    report = gl.open(str(native)).plan_rewrite(cluster_by="geometry").apply(spark=spark)
    got = geopandas.read_parquet(native)
    assert sorted(got.geometry.to_wkt().fillna("")) == sorted(expected.geometry.to_wkt().fillna(""))
    report.undo()
    assert (
        native.read_bytes() == (corpus / "geoparquet/test_data_1.1.0/data-polygon-encoding_native.parquet").read_bytes()
    )


def test_a_value_that_cannot_be_read_stays_and_is_named(spark, tmp_path):
    folder = make_set(tmp_path / "set", files=1)
    bad = pa.table({"id": [100, 101], "geom": pa.array([b"no WKB", None], pa.binary())})
    pq.write_table(bad.replace_schema_metadata({"geo": json.dumps(GEO)}), folder / "bad.parquet")
    plan = gl.open(str(folder)).plan_rewrite(cluster_by="geom")
    with pytest.warns(BadValueWarning, match=r"part-\S+\.parquet: geom gets no bounds, first row \d+: "):
        report = plan.apply(spark=spark)
    assert report.metrics["files_without_bound"] == 1
    assert plain(folder)["geom"].to_pylist()[-2:] == [b"no WKB", None]
    assert seen(folder) == [*range(10), 100, 101]


def test_rows_make_a_set_and_are_added_to_it(spark, corpus, tmp_path):
    folder = tmp_path / "new"
    table = many_types()
    made = gl.write(
        table, folder, format="parquet", columns={"geom": gl.geography("OGC:CRS84")}, partition_by="part",
        cluster_by="geom", properties={"who": "me"}, spark=spark,
    )  # fmt: skip
    assert (made.version, made.metrics["rows_written"]) == (1, COUNT)
    types = {field.name: field.type for field in pq.read_schema(next(folder.glob("*/*.parquet")))}
    assert (types["nano"], types["bits"], types["half"]) == (pa.timestamp("ns"), pa.uint64(), pa.float16())
    geo = valid_geo(corpus, next(folder.glob("*/*.parquet")))
    assert geo["columns"]["geom"]["edges"] == "spherical"
    frame = spark.createDataFrame(table.select(["id", "geom", "part"]).slice(0, 10).to_pandas())
    added = gl.write(frame, folder, format="parquet", mode="append", spark=spark)
    assert added.version == 2
    after = plain(folder)
    assert after.num_rows == COUNT + 10
    assert after["part"].null_count == sum(value is None for value in table["part"].to_pylist()) + 3
    assert gl.open(str(folder)).plan_repair(verify=True).apply().version is None
    with pytest.raises(RefusedError, match="a Parquet table already exists here"):
        gl.write(table, folder, format="parquet", spark=spark)
    added.undo()
    assert plain(folder).num_rows == COUNT
    made.undo()
    assert seen(folder) == []


def test_a_set_that_spark_wrote_is_repaired_and_spark_reads_it(spark, tmp_path):
    folder = tmp_path / "set"
    rows = points(0, 20)
    spark.createDataFrame(rows.to_pandas()).repartition(2).write.parquet(str(folder))
    old = contents(folder)
    report = gl.open(str(folder)).plan_repair(columns={"geom": gl.geometry()}).apply()
    assert report.metrics["files_repaired"] == 2
    assert spark.read.parquet(str(folder)).count() == 20
    assert geopandas.read_parquet(folder).geometry.x.sum() == sum(range(20))
    report.undo()
    assert contents(folder) == old


def test_many_files_are_scanned_by_a_job(spark, tmp_path, monkeypatch):
    from geolake_nb.spark import scan_bounds

    here, there = make_set(tmp_path / "here"), make_set(tmp_path / "there")
    gl.open(str(here)).plan_repair().apply()
    monkeypatch.setattr(scan_bounds, "_WORTH_A_JOB", 0)
    gl.open(str(there)).plan_repair().apply(spark=spark)
    assert contents(there) == contents(here)
