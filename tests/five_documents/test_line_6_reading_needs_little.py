"""Line 6: reading needs only what reading needs: no known writer version, and no partition value of the right type."""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import RefusedError, UnsupportedTableError
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol

ZONES = protocol("timestampNtz")


def newer(folder, *, reader=1, writer=8, **lists):
    name = field("name", "string")
    geom = field("geom", "geometry(OGC:CRS84)")
    action = {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **lists}}
    LogMaker(folder).commit(0, action, metadata(name, geom), add("a.parquet", {"numRecords": 3}))
    return gl.open(str(folder))


@pytest.mark.parametrize("lists", [{}, {"writerFeatures": ["appendOnly", "fromTheFuture"]}])
def test_a_table_of_a_newer_writer_version_opens(tmp_path, lists):
    table = newer(tmp_path, **lists)
    assert table.protocol.summary == "reader 1, writer 8"
    assert table.files.table["rows"].to_pylist() == [3]
    assert table.explain("name = 'x'").read.files == 1
    assert "writer 8" in str(table)
    assert [feature.name for feature in table.protocol.features] == list(lists.get("writerFeatures", []))


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.plan_repair(),
        lambda table: table.plan_rewrite(),
        lambda table: table.plan_enable({}),
        lambda table: table.plan_collations({"name": "icu.de"}),
        lambda table: table.plan_undo(1),
    ],
    ids=["repair", "rewrite", "enable", "collations", "undo"],
)
def test_a_table_of_a_newer_writer_version_is_not_changed(tmp_path, change):
    newer(tmp_path)
    LogMaker(tmp_path).commit(1, add("b.parquet", {"numRecords": 1}))
    before = {path.name: path.read_bytes() for path in (tmp_path / "_delta_log").iterdir()}
    with pytest.raises(RefusedError, match="writer version 8"):
        change(gl.open(str(tmp_path)))
    assert {path.name: path.read_bytes() for path in (tmp_path / "_delta_log").iterdir()} == before


def test_a_newer_reader_version_is_refused(tmp_path):
    with pytest.raises(UnsupportedTableError, match="reader version 4"):
        newer(tmp_path, reader=4, readerFeatures=[], writerFeatures=[])


def test_deltalake_reads_such_a_table_as_well(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 8}}
    LogMaker(tmp_path).commit(0, action, metadata(), add("a.parquet", {"numRecords": 3}))
    try:
        read_version = deltalake.DeltaTable(str(tmp_path)).version()
    except Exception as problem:  # noqa: BLE001 - its errors differ from version to version
        pytest.skip(f"this deltalake does not: {problem}")
    assert gl.open(str(tmp_path)).version == read_version


def partitioned(folder, kind, *values):
    columns = (field("p", kind), field("id", "long"))
    adds = [add(f"{n}.parquet", {"numRecords": 1}, partition={"p": value}) for n, value in enumerate(values)]
    LogMaker(folder).commit(0, ZONES, metadata(*columns, partitions=("p",)), *adds)
    return gl.open(str(folder))


def kept(table, where):
    return table.explain(where).files["kept"].to_pylist()


TIMES = [
    "-9999-12-31 23:59:59.999999",
    "+10000-01-01 00:00:00",
    "10000-01-01T00:00:00.000000Z",
    "+294247-01-10T04:00:54.775807Z",  # the last microsecond of 64 bits
    "+294247-01-10T04:00:54.775808Z",
    "-290308-12-21T19:59:05.224191Z",  # one before the first
    "+999999-01-01 00:00:00",
    "2020-01-01 00:00:00 Europe/Berlin",
    "soon",
]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("text", TIMES)
def test_a_time_that_python_cannot_hold_is_shown_and_never_skips(tmp_path, kind, text, capsys):
    table = partitioned(tmp_path, kind, text, "2020-06-01 00:00:00")
    for where in ("p > TIMESTAMP '2019-01-01 00:00:00'", "p < TIMESTAMP '2021-01-01 00:00:00'"):
        assert kept(table, where) == [True, True]
    # The other file is skipped as before.
    assert kept(table, "p > TIMESTAMP '2021-01-01 00:00:00'") == [True, False]
    assert str(table)
    table.check(footers=False)
    year = text.lstrip("+").split("-01-")[0].split("-12-")[0]
    assert year in table.files._repr_html_()
    assert main(["files", str(tmp_path)]) == 0
    assert year in capsys.readouterr().out
    assert main(["files", str(tmp_path), "--json"]) == 0
    assert year in json.dumps(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("kind", "text", "where"),
    [
        ("integer", "two", "p = 5"),
        ("integer", "99999999999", "p = 5"),
        ("integer", "1_000", "p IS NULL"),  # 1000 in Python, null in Spark
        ("byte", "300", "p = 5"),
        ("decimal(5,2)", "12345.678", "p = 5"),
        ("decimal(5,2)", "NaN", "p = 5"),
        ("double", "abc", "p = 5"),
        ("boolean", "maybe", "p = true"),
        ("date", "2023-02-30", "p = DATE '2020-01-01'"),
        ("date", "10000000-01-01", "p = DATE '2020-01-01'"),
    ],
)
def test_a_partition_value_that_is_not_of_its_type_is_shown_as_text_and_never_skips(tmp_path, kind, text, where):
    right = {"integer": "7", "byte": "7", "decimal(5,2)": "7.00", "double": "7.0", "boolean": "false"}
    table = partitioned(tmp_path, kind, text, right.get(kind, "2021-01-01"))
    assert kept(table, where) == [True, False]
    assert kept(table, "p IS NULL")[0]
    assert kept(table, "p IS NOT NULL") == [True, True]
    assert table.files.table["partition.p"].to_pylist()[0] == text
    assert text in table.files._repr_html_()
    with pytest.raises(RefusedError, match="partition column 'p' has a value that is not of its type"):
        table.plan_rewrite()


@pytest.mark.parametrize(("kind", "text"), [("integer", "1_000"), ("integer", "two"), ("date", "soon")])
def test_spark_reads_null_where_we_read_no_value(tmp_path, spark, kind, text):
    columns = f"id long, p {kind}"
    spark.createDataFrame([(1, None)], columns).write.format("delta").partitionBy("p").save(str(tmp_path))
    log = tmp_path / "_delta_log/00000000000000000000.json"
    named = json.dumps({"partitionValues": {"p": text}}, separators=(",", ":"))[1:-1]
    changed = log.read_text().replace('"partitionValues":{"p":null}', named)
    assert named in changed
    log.write_text(changed)
    (log.parent / f".{log.name}.crc").unlink()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        nulls = spark.read.format("delta").load(str(tmp_path)).where("p IS NULL").count()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert nulls == 1
    assert kept(gl.open(str(tmp_path)), "p IS NULL") == [True]
