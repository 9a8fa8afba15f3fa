"""Rewrites of tables that Spark wrote: the same rows for Spark and for Delta Kernel, boxes that miss none of them."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import JobError, MissingDependencyError
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.model.box import Box
from tests.changes.rewrite_tables import PointTable
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.kernel_reader import kernel_rows

pytestmark = pytest.mark.spark

SHAPES = [
    "POINT (10 20)",
    "POINT Z (-170 5 100)",
    "LINESTRING M (0 0 1, 5 7 2)",
    "POLYGON ((0 0, 4 0, 4 3, 0 0))",
    "MULTIPOINT ZM ((1 2 3 4), (-5 -6 -7 -8))",
    "GEOMETRYCOLLECTION (POINT (50 60), LINESTRING (51 61, 52 62))",
    "POINT EMPTY",
    None,
]
TYPES = {
    "id": "INT",
    "b": "BOOLEAN",
    "i1": "BYTE",
    "i2": "SHORT",
    "i8": "LONG",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "d1": "DECIMAL(5, 2)",
    "d2": "DECIMAL(38, 10)",
    "s": "STRING",
    "c": "CHAR(5)",
    "x": "BINARY",
    "dt": "DATE",
    "ts": "TIMESTAMP",
    "tn": "TIMESTAMP_NTZ",
    "a": "ARRAY<STRUCT<k: INT, g: GEOMETRY(4326)>>",
    "m": "MAP<STRING, DECIMAL(9, 2)>",
    "st": "STRUCT<n: STRUCT<v: INT>, `odd.name`: GEOMETRY(3857)>",
    "g": "GEOMETRY(4326)",
    "h": "GEOGRAPHY(4326)",
    "p": "STRING",
    "q": "DATE",
}
ROWS = 240


def wkb(text: str) -> str:
    """A literal of SQL."""
    return f"X'{shapely.to_wkb(shapely.from_wkt(text), flavor='iso', output_dimension=4).hex()}'"


def make_table(spark, folder, *, properties=""):
    """All types of Delta, shapes of all sorts, partitions with odd values, rows deleted by a deletion vector."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    table = f"delta.`{folder}`"
    spark.sql(
        f"CREATE TABLE {table} ({columns}) USING delta PARTITIONED BY (p, q)"
        f" TBLPROPERTIES ('delta.enableDeletionVectors' = 'true'{properties})"
    )
    shape = " ".join(f"WHEN {n} THEN {wkb(text)}" for n, text in enumerate(SHAPES) if text is not None)
    frame = spark.range(ROWS).selectExpr(
        "CAST(id AS INT) AS id", f"CASE id % {len(SHAPES)} {shape} ELSE NULL END AS w", "id % 7 = 3 AS nothing"
    )
    frame.createOrReplaceTempView("shapes")
    values = {
        "b": "id % 2 = 0",
        "i1": "CAST(id % 100 AS BYTE)",
        "i2": "CAST(id AS SHORT)",
        "i8": "CAST(id AS LONG) * 10000000000",
        "f4": "CAST(id / 3 AS FLOAT)",
        "f8": "IF(id % 5 = 0, DOUBLE('NaN'), id / 7)",
        "d1": "CAST(id / 10 AS DECIMAL(5, 2))",
        "d2": "CAST('1234567890123456789012345678.0123456789' AS DECIMAL(38, 10)) + id",
        "s": "concat('ü', id, repeat('z', 40))",
        "c": "'ab'",
        "x": "unhex(hex(id))",
        "dt": "date_add(DATE '1500-03-01', id * 300)",
        "ts": "timestamp_micros(CAST(id AS LONG) * 1000000007 - 3000000000000)",
        "tn": "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' + make_dt_interval(id)",
        "m": "map('k', CAST(id AS DECIMAL(9, 2)), 'n', NULL)",
        "st": "named_struct('n', named_struct('v', id), 'odd.name', st_setsrid(st_geomfromwkb(w), 3857))",
        "a": "array(named_struct('k', id, 'g', st_setsrid(st_geomfromwkb(w), 4326)), NULL)",
        "g": "st_setsrid(st_geomfromwkb(w), 4326)",
        "h": "st_geogfromwkb(w)",
    }
    odd = "element_at(array('a/b: 1%', 'ü\"=', NULL), CAST(id % 3 AS INT) + 1)"
    chosen = ", ".join(
        ["id", *(f"IF(nothing, NULL, {values[name]})" for name in list(TYPES)[1:-2]), odd, "DATE '2024-02-29'"]
    )
    spark.sql(f"INSERT INTO {table} SELECT /*+ REPARTITION(3) */ {chosen} FROM shapes")
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 1")
    return folder


def rows(spark, folder, version=None):
    """The rows as Spark reads them, as a multiset of texts; shapes as bytes."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    frame = reader.load(str(folder))
    shown = {
        "g": "st_asbinary(g)",
        "h": "st_asbinary(h)",
        "a": "transform(a, one -> struct(one.k, st_asbinary(one.g)))",
        "st": "struct(st.n, st_asbinary(st.`odd.name`), st IS NULL)",
        "m": "to_json(m)",
    }
    collected = frame.selectExpr(*(shown.get(name, f"`{name}`") for name in frame.columns)).collect()
    return Counter(repr(tuple(row)) for row in collected)


@pytest.fixture(scope="module")
def everything(spark, tmp_path_factory):
    """A table with everything, the rows before its rewrite, and the report of it."""
    folder = make_table(spark, tmp_path_factory.mktemp("everything") / "t a+b%")
    before = rows(spark, folder)
    version = gl.open(str(folder)).version
    plan = gl.open(str(folder)).plan_rewrite(cluster_by=["g", "st.n.v"], target_file_size="20KB", row_group_rows=16)
    collected: list[tuple[int, int]] = []
    report = plan.apply(spark=spark, on_progress=lambda *at: collected.append(at))
    assert collected[-1][0] == collected[-1][1]
    return folder, before, version, report


def test_spark_reads_the_same_rows_and_those_of_before(spark, everything):
    folder, before, version, report = everything
    assert before.total() == ROWS - ROWS // 10
    assert rows(spark, folder) == before
    assert rows(spark, folder, version) == before
    assert report.metrics["rows_written"] == before.total()
    assert not list(folder.glob("_geolake*"))


def test_delta_kernel_reads_the_same_shapes(spark, everything):
    folder, _, version, _ = everything
    columns = ["id", "g", "h", "p", "ts", "d2"]
    assert Counter(map(repr, kernel_rows(spark, str(folder), columns))) == Counter(
        map(repr, kernel_rows(spark, str(folder), columns, version=version))
    )


def test_each_partition_keeps_its_values(everything):
    folder, *_ = everything
    files = gl.open(str(folder)).files.table
    assert set(files["partition.p"].to_pylist()) == {"a/b: 1%", 'ü"=', None}
    assert {str(day) for day in files["partition.q"].to_pylist()} == {"2024-02-29"}
    assert len(list(folder.glob("p=a%2Fb%3A 1%25/q=2024-02-29/part-*.zstd.parquet"))) > 1


def test_statistics_are_complete_and_kept_by_a_checkpoint_of_spark(spark, everything):
    folder, *_ = everything

    def stats():
        snapshot = gl.open(str(folder)).snapshot
        result = (snapshot.details.stats.object(row) for row in range(len(snapshot.files)))
        return sorted(json.dumps(stats_, sort_keys=True) for stats_ in result)

    stored = stats()
    for text in stored:
        parsed = json.loads(text)
        assert {"id", "i8", "d2", "s", "dt", "ts", "g", "h", "st"} <= set(parsed["minValues"])
        assert {"g", "h", "a", "st"} <= set(parsed["nullCount"])
        assert parsed["tightBounds"] is True
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    log.forTable(spark._jsparkSession, str(folder)).checkpoint()
    assert gl.open(str(folder)).snapshot.details.segment.checkpoint is not None
    assert stats() == stored
    assert not [finding for finding in gl.open(str(folder)).check(deep=True) if finding.rule.startswith("bounds")]


def test_row_groups_have_boxes_of_both_kinds_and_no_order_of_bytes(everything):
    folder, *_ = everything
    groups = gl.open(str(folder)).row_groups()
    assert groups.num_rows > len(gl.open(str(folder)).files)
    for column in ("g", "h"):
        assert groups[f"{column}.xmin"].null_count < groups.num_rows / 2  # some have nothing but nulls and empties
    for path in gl.open(str(folder)).files.table["path"].to_pylist():
        footer = pq.read_metadata(folder / decoded_path(path))
        assert footer.created_by.startswith("geolake_nb")
        for group in range(footer.num_row_groups):
            for index in range(footer.num_columns):
                chunk = footer.row_group(group).column(index)
                if chunk.path_in_schema in ("g", "h"):
                    assert not (chunk.statistics and chunk.statistics.has_min_max)


def test_an_undo_brings_the_old_files_back(spark, everything):
    folder, before, version, report = everything
    old = sorted(gl.open(str(folder), version=version).files.table["path"].to_pylist())
    undone = report.undo(spark=spark)
    assert sorted(gl.open(str(folder)).files.table["path"].to_pylist()) == old
    assert rows(spark, folder) == before
    assert undone.version > report.version


def test_columns_go_by_their_physical_names(spark, tmp_path):
    folder = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{folder}` (id INT, g GEOMETRY(4326), p INT) USING delta PARTITIONED BY (p)"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')"
    )
    spark.sql(
        f"INSERT INTO delta.`{folder}` SELECT CAST(id AS INT), st_setsrid(st_geomfromwkb({wkb('POINT (1 2)')}), 4326),"
        " CAST(id % 2 AS INT) FROM range(20)"
    )
    spark.sql(f"ALTER TABLE delta.`{folder}` RENAME COLUMN g TO `geo metry`")
    spark.sql(f"ALTER TABLE delta.`{folder}` RENAME COLUMN p TO part")
    spark.sql(f"ALTER TABLE delta.`{folder}` ALTER COLUMN id TYPE LONG")

    def current_rows(version=None):
        reader = spark.read.format("delta")
        frame = (reader if version is None else reader.option("versionAsOf", version)).load(str(folder))
        return Counter(map(repr, frame.selectExpr("id", "st_asbinary(`geo metry`)", "part").collect()))

    before = current_rows()
    table = gl.open(str(folder))
    report = table.plan_rewrite(cluster_by=["geo metry", "id"]).apply(spark=spark)
    assert current_rows() == current_rows(table.version) == before
    assert report.metrics["files_added"] == 2
    files = gl.open(str(folder)).files.table
    assert files["geo metry.xmin"].to_pylist() == [1.0, 1.0]
    assert sorted(files["partition.part"].to_pylist()) == [0, 1]
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id < 5")
    assert current_rows().total() == 15


@pytest.mark.parametrize(
    ("type_", "parsed", "middle"),
    [
        ("geometry(srid:5070)", gl.geometry("srid:5070"), 0.0),
        ("geography(OGC:CRS84, karney)", gl.geography(algorithm="karney"), 180.0),
    ],
)
def test_windows_find_every_row_on_types_that_spark_does_not_know(spark, tmp_path, type_, parsed, middle):
    draw = np.random.default_rng(11)
    x = (middle + draw.normal(0, 20, 3000) + 180) % 360 - 180
    y = np.clip(draw.normal(0, 20, 3000), -80, 80)
    shapes = shapely.points(x, y)
    lines = shapely.linestrings(np.stack([np.stack([x, y], 1), np.stack([np.clip(x + 0.5, -180, 180), y], 1)], 1))
    shapes[::2] = lines[::2]
    values = shapely.to_wkb(shapes).tolist()
    values[::50] = [None] * len(values[::50])
    values[7::50] = [shapely.Point().wkb] * len(values[7::50])
    made = LogMaker(tmp_path)
    actions = [protocol("geospatial"), metadata(field("id", "long"), field("geom", type_))]
    for start in range(0, 3000, 1000):
        part = pa.table({"id": pa.array(range(start, start + 1000)), "geom": pa.array(values[start : start + 1000])})
        pq.write_table(part, tmp_path / f"{start}.parquet")
        size = (tmp_path / f"{start}.parquet").stat().st_size
        actions.append(add(f"{start}.parquet", {"numRecords": 1000}, size=size))
    made.commit(0, *actions)
    plan = gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom", target_file_size="4KB", row_group_rows=50)
    plan.apply(spark=spark)
    table = gl.open(str(tmp_path))
    assert len(table.files) > 10
    assert table.schema.find("geom").type == parsed
    paths = table.files.table["path"].to_pylist()
    # As plain bytes: geoarrow's types, once another test has loaded them, cannot be made of every CRS.
    tables = {path: pq.read_table(tmp_path / path, arrow_extensions_enabled=False) for path in paths}
    written = pa.concat_tables(tables.values())
    assert Counter(zip(*written.to_pydict().values(), strict=True)) == Counter(enumerate(values))
    stored = {path: shapely.from_wkb(rows_["geom"].to_numpy(zero_copy_only=False)) for path, rows_ in tables.items()}
    read = []
    for _ in range(100):
        row = draw.integers(3000)
        west, south = max(-180.0, x[row] - 1), y[row] - 1
        window = Box(west, south, min(180.0, west + 2), south + 2)
        area = shapely.box(window.xmin, window.ymin, window.xmax, window.ymax)
        kept = table.explain(window).files
        kept_paths = set(kept.filter(kept["kept"])["path"].to_pylist())
        # A planar shape in the window is in it on the Earth too: the lines are short and run along a parallel.
        true = {path for path, some in stored.items() if shapely.intersects(some, area).any()}
        assert true <= kept_paths
        read.append(len(kept_paths) / len(tables))
    assert np.mean(read) < 0.4


def test_shapes_that_cannot_be_read_take_no_bounds_from_others(spark, tmp_path):
    table = PointTable(tmp_path).points("a.parquet", rows=400).points("b.parquet", rows=400).made()
    junk = pa.table({"id": pa.array([1, 2]), "geom": pa.array([b"\x01junk", shapely.Point().wkb], pa.binary())})
    pq.write_table(junk, tmp_path / "c.parquet")
    table.commit(1, add("c.parquet", {"numRecords": 2}, size=1000))
    gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom", target_file_size="5KB").apply(spark=spark)
    files = gl.open(str(tmp_path)).files.table
    assert files["geom.xmin"].null_count == 1
    assert sum(files["rows"].to_pylist()) == 802
    [(_, count)] = [
        value
        for value in zip(files["geom.xmin"].to_pylist(), files["rows"].to_pylist(), strict=True)
        if value[0] is None
    ]
    assert count == 1


def test_compaction_joins_small_files_and_leaves_others(spark, tmp_path):
    table = PointTable(tmp_path)
    for number in range(9):
        table.points(f"{number}.parquet", rows=100)
    table.points("large.parquet", rows=20_000).made()
    size = (tmp_path / "large.parquet").stat().st_size
    plan = gl.open(str(tmp_path)).plan_rewrite(target_file_size=size)
    report = plan.apply(spark=spark)
    assert (report.metrics["files_removed"], report.metrics["files_added"]) == (9, 1)
    assert "large.parquet" in gl.open(str(tmp_path)).files.table["path"].to_pylist()
    assert spark.read.format("delta").load(str(tmp_path)).count() == 20_900
    assert gl.open(str(tmp_path)).plan_rewrite(target_file_size=size).is_empty


def test_a_table_without_rows_is_left_without_files(spark, tmp_path):
    table = PointTable(tmp_path).points("a.parquet", rows=0, bounds=False).made()
    report = gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom").apply(spark=spark)
    assert report.metrics["files_added"] == 0
    assert len(table.open().files) == 0


def test_a_row_count_that_is_wrong_in_the_log_is_looked_up_in_the_files(spark, tmp_path):
    table = PointTable(tmp_path).points("a.parquet", rows=50).made()
    log = table.log / f"{0:020}.json"
    log.write_text(log.read_text().replace(r"\"numRecords\": 50", r"\"numRecords\": 49"))
    assert table.plan(cluster_by=["geom"]).job.expected_rows == 49
    report = gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom").apply(spark=spark)
    assert report.metrics["rows_written"] == 50


def test_a_job_that_fails_lists_its_files_and_leaves_the_table_as_it_was(spark, tmp_path):
    table = PointTable(tmp_path).points("a.parquet", rows=500).points("b.parquet", rows=500).made()
    data = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(data[:200] + b"\0" * 500 + data[700:])
    plan = gl.open(str(tmp_path)).plan_rewrite(target_file_size="5KB")
    with pytest.raises(JobError, match="the job failed") as caught:
        plan.apply(spark=spark)
    left = {path.name for path in tmp_path.glob("*.parquet")} - {"a.parquet", "b.parquet"}
    assert set(caught.value.orphans) == left
    assert all(plan.transaction in name for name in left)
    assert table.open().version == 0
    assert not list(tmp_path.glob("_geolake*"))


def test_a_cancelled_job_leaves_no_log_entry(spark, tmp_path):
    table = PointTable(tmp_path)
    for number in range(4):
        table.points(f"{number}.parquet", rows=20_000)
    table.made()
    plan = gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom", target_file_size="5KB", row_group_rows=100)

    def enough(done: int, total: int) -> None:
        if total > 10:
            raise KeyboardInterrupt

    with pytest.raises(JobError, match="the job was cancelled") as caught:
        plan.apply(spark=spark, on_progress=enough)
    assert table.open().version == 0
    left = {path.name for path in tmp_path.glob("part-*")}
    assert left <= set(caught.value.orphans) | left
    assert gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom").apply(spark=spark).version == 1


def test_decimals_survive_to_the_last_digit(everything):
    folder, *_ = everything
    low = gl.open(str(folder)).snapshot.scalars(("d2",)).minimum
    assert min(low.drop_null().to_pylist()) >= Decimal("1234567890123456789012345678.0123456789")


def test_windows_on_trips_read_little_and_find_all(spark, tmp_path):
    from tests.heavy import show_trips

    try:
        shown = show_trips.show(spark, tmp_path, scale=0.002, windows=200, files=12)
    except MissingDependencyError as missing:
        pytest.skip(str(missing))
    assert shown.before.min() == 1.0
    assert np.median(shown.by_row_groups) < np.median(shown.by_files) < 0.3
    assert shown.wrong == 0
    assert shown.rows_found >= 200
