"""Parquet files become an Iceberg table where they lie: pages stay, metrics hold, and undo restores the folder."""

from __future__ import annotations

import datetime as dt
import json
import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyiceberg.conversions import from_bytes
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import ConflictError, GeolakeError, RefusedError, SchemaError
from geolake_nb.formats.iceberg.publish import promoted
from geolake_nb.model.table_format import AS_OF, Answer
from geolake_nb.model.types import PrimitiveType
from geolake_nb.pyiceberg.bridge import enabled
from tests.formats.parquet_sets import contents, make_set, points, seen
from tests.formats.published_folders import kill_while_publishing, kill_while_undoing, pages

FIRST = "metadata/v1.metadata.json"


def metadata(folder):
    """The first metadata file."""
    return json.loads((folder / FIRST).read_text())


def listed(folder):
    """The data files of the first version as PyIceberg reads them, by their paths below the folder."""
    with enabled():
        table = StaticTable.from_metadata(str(folder / FIRST))
        entries = [task.file for task in table.scan().plan_files()]
    return {file.file_path.removeprefix(f"{folder}/"): file for file in entries}


def rows_of(folder, *columns):
    """The rows as PyIceberg reads them."""
    with enabled():
        return StaticTable.from_metadata(str(folder / FIRST)).scan(selected_fields=columns or ("*",)).to_arrow()


def test_a_folder_becomes_a_table_with_its_pages_byte_for_byte_and_undo_restores_it(tmp_path):
    folder = make_set(tmp_path / "t")
    before, old_pages = contents(folder), {path.name: pages(path) for path in folder.glob("*.parquet")}
    plan = gl.open(str(folder)).plan_publish(format="iceberg")
    assert contents(folder) == before
    report = plan.apply()
    assert {path.name: pages(path) for path in folder.glob("*.parquet")} == old_pages
    assert contents(folder) != before
    files = listed(folder)
    for name, file in files.items():
        assert file.file_size_in_bytes == (folder / name).stat().st_size
        rows = pq.read_table(folder / name, arrow_extensions_enabled=False)
        box = shapely.bounds(shapely.multipoints(shapely.from_wkb(np.array(rows["geom"].to_pylist(), object))))
        # Iceberg, Bounds for Geometry and Geography: x and y as little-endian doubles.
        ends = [np.frombuffer(bounds[2], "<f8").tolist() for bounds in (file.lower_bounds, file.upper_bounds)]
        assert [*ends[0], *ends[1]] == list(box)
        ids = [from_bytes(LongType(), bounds[1]) for bounds in (file.lower_bounds, file.upper_bounds)]
        assert ids == [min(rows["id"].to_pylist()), max(rows["id"].to_pylist())]
        assert (file.value_counts, file.null_value_counts) == ({1: 10, 2: 10}, {1: 0, 2: 0})
        metadata_ = pq.read_metadata(folder / name)
        groups = [metadata_.row_group(number).column(0) for number in range(metadata_.num_row_groups)]
        assert file.column_sizes[1] == sum(group.total_compressed_size for group in groups)
    stored = metadata(folder)
    snapshot = stored["snapshots"][0]
    assert (stored["format-version"], stored["next-row-id"]) == (3, 30)
    assert (snapshot["first-row-id"], snapshot["added-rows"], snapshot["summary"]["total-records"]) == (0, 30, "30")
    table = gl.open(str(folder))
    assert table.version == report.version == snapshot["snapshot-id"]
    assert not list(table.check())
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == sorted(rows_of(folder, "id")["id"].to_pylist())
    assert plan.apply().already_applied
    report.undo()
    assert contents(folder) == before
    assert not (folder / "metadata").exists()
    gl.publish(folder, format="iceberg")
    assert {name: file.lower_bounds for name, file in listed(folder).items()} == {
        name: file.lower_bounds for name, file in files.items()
    }


def test_partition_folders_and_files_that_differ_in_columns_read_the_same_in_pyiceberg(tmp_path):
    expected = []
    for number, (day, place) in enumerate((("2024-05-01", "a b"), ("2024-05-02", "ä%/ü"), ("2024-05-03", None))):
        name = "__HIVE_DEFAULT_PARTITION__" if place is None else place.replace("%", "%25").replace("/", "%2F")
        inside = tmp_path / "t" / f"day={day}" / f"place={name}"
        inside.mkdir(parents=True)
        columns = {
            "n": pa.array([1, None, 3], pa.int32() if number else pa.int64()),
            "word": ["x" * 100, "y", None],
            "price": [1.5, 2.5, math.nan],
            "at": pa.array([dt.datetime(2024, 1, 1, 0, 0, 0, 123_456)] * 3, pa.timestamp("us", "UTC")),
        }
        if number != 1:  # a column may be missing, and others come in another order
            columns = dict(reversed(columns.items()))
            columns["cost"] = pa.array([None, 1, 2], pa.int64())
        pq.write_table(pa.table(columns), inside / "a.parquet")
        rows = [
            dict(zip(columns, row, strict=True)) for row in zip(*pa.table(columns).to_pydict().values(), strict=True)
        ]
        expected += [{"cost": None, **row, "day": dt.date.fromisoformat(day), "place": place} for row in rows]
    before = contents(tmp_path / "t")
    report = gl.publish(tmp_path / "t", format="iceberg")
    assert contents(tmp_path / "t") == before, "no footer lacks anything"

    def keyed(rows):
        return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)

    assert keyed(rows_of(tmp_path / "t").to_pylist()) == keyed(expected)
    assert keyed(gl.open(str(tmp_path / "t")).scan().to_arrow().to_pylist()) == keyed(expected)
    ids = {field["name"]: field["id"] for field in metadata(tmp_path / "t")["schemas"][0]["fields"]}
    for file in listed(tmp_path / "t").values():
        assert from_bytes(LongType(), file.upper_bounds[ids["n"]].ljust(8, b"\0")) == 3
        assert ids["price"] not in file.upper_bounds, "NaN is greater, and the footer leaves it out"
        assert file.upper_bounds[ids["word"]] >= b"y"
        assert file.null_value_counts[ids["n"]] == 1
        assert file.lower_bounds[ids["day"]] == file.upper_bounds[ids["day"]]
    report.undo()
    assert contents(tmp_path / "t") == before


def test_with_leave_files_nothing_changes_and_the_plan_says_which_engines_fail(tmp_path):
    folder = make_set(tmp_path / "t")
    before = contents(folder)
    plan = gl.open(str(folder)).plan_publish(format="iceberg", leave_files=True)
    text = " ".join(str(plan).split())
    assert "Iceberg requires the geo type in files" in text
    assert f"fails on a geo column in files that do not declare the geo type, and reads the others ({AS_OF})" in text
    report = plan.apply()
    assert contents(folder) == before
    assert gl.open(str(folder)).scan(
        "id BETWEEN 5 AND 7 AND ST_Intersects(geom, 'POLYGON((4 -90, 8 -90, 8 0, 4 0, 4 -90))')"
    ).to_arrow()["id"].to_pylist() == [5, 6, 7]
    report.undo()
    assert contents(folder) == before
    repaired = gl.open(str(folder)).plan_publish(format="iceberg").change.engines
    assert {fact.engine: fact.reads for fact in repaired}["Spark 4.1 + Iceberg 1.12"] is Answer.YES


def test_what_cannot_be_a_table_as_it_is_is_refused_with_the_name_of_the_file(tmp_path):
    def folder(name, *tables):
        inside = tmp_path / name
        inside.mkdir()
        for number, table in enumerate(tables):
            pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), inside / f"{number}.parquet")
        return str(inside)

    def refused(kind, match, where, **options):
        with pytest.raises(kind, match=match):
            gl.publish(where, format="iceberg", **options)

    refused(SchemaError, r"1\.parquet, column n: the type is string, not int32",
            folder("other", {"n": pa.array([1], pa.int32())}, {"n": ["a"]}))  # fmt: skip
    refused(SchemaError, "timestamp_ns", folder("nanos", {"t": pa.array([1], pa.timestamp("ns"))}))
    refused(SchemaError, "uint8", folder("unsigned", {"n": pa.array([1], pa.uint8())}))
    ewkb = bytes.fromhex("0101000020E6100000000000000000F03F0000000000000040")
    refused(RefusedError, r"0\.parquet, column g: values are EWKB", folder("ewkb", {"g": [ewkb]}),
            columns={"g": "geometry(OGC:CRS84)"})  # fmt: skip

    def numbered(**ids):
        fields = [pa.field(name, pa.int32(), metadata=id_ and {b"PARQUET:field_id": id_}) for name, id_ in ids.items()]
        return pa.table({name: [1] for name in ids}, schema=pa.schema(fields))

    refused(SchemaError, r"1\.parquet: the column 'a' has the field id 2, and 1 in another file",
            folder("ids", numbered(a="1"), numbered(a="2")))  # fmt: skip
    refused(SchemaError, r"0\.parquet: the file has field ids, and none for the column 'b'",
            folder("half", numbered(a="1", b=None)))  # fmt: skip
    refused(SchemaError, r"1\.parquet: a field id is that of another column",
            folder("swapped", numbered(a="1"), numbered(b="1")))  # fmt: skip
    with_docs = make_set(tmp_path / "docs", files=1)
    (with_docs / "metadata").mkdir()
    (with_docs / "metadata" / "readme.txt").write_text("hello")
    refused(RefusedError, "the folder 'metadata' has files", str(with_docs))
    assert not list(tmp_path.rglob("_geolake/changes/*.json"))


@pytest.mark.parametrize(
    ("left", "right", "wider"),
    [
        ("int8", "int16", "int32"),
        ("int32", "int64", "int64"),
        ("float64", "float32", "float64"),
        ("decimal(9, 2)", "decimal(12, 2)", "decimal(12, 2)"),
        ("decimal(9, 2)", "decimal(12, 3)", None),
        ("int32", "float64", None),
        ("date", "timestamp", None),
    ],
)
def test_types_widen_as_iceberg_promotes_them(left, right, wider):
    expected = None if wider is None else PrimitiveType(wider)
    assert promoted(PrimitiveType(left), PrimitiveType(right)) == expected
    assert promoted(PrimitiveType(right), PrimitiveType(left)) == expected


def test_a_file_that_changes_after_the_plan_is_a_conflict_and_makes_no_table(tmp_path):
    folder = make_set(tmp_path / "t", files=1)
    plan = gl.open(str(folder)).plan_publish(format="iceberg")
    pq.write_table(points(5, 3), folder / "0.parquet")
    with pytest.raises(ConflictError, match="changed"):
        plan.apply()
    assert not (folder / "metadata").exists()
    first, second = (
        gl.open(str(folder)).plan_publish(format="iceberg", columns={"geom": "geometry(OGC:CRS84)"}) for _ in range(2)
    )
    assert first.hash == second.hash
    pq.write_table(pa.table({"n": [3]}), folder / "new.parquet")
    with pytest.raises(ConflictError, match=r"new\.parquet: the file was added"):
        first.apply()
    (folder / "new.parquet").unlink()
    first.apply()
    with pytest.raises(ConflictError):
        second.apply()
    assert gl.open(str(folder)).scan().count() == 3


def test_an_undo_is_undone_and_a_table_with_later_versions_stays(tmp_path):
    folder = make_set(tmp_path / "t", files=2)
    report = gl.publish(folder, format="iceberg")
    made = contents(folder), {path.name: path.read_bytes() for path in (folder / "metadata").iterdir()}
    done = gl.open(str(folder)).plan_undo().apply()
    gl.open(str(folder)).plan_undo(done.version).apply()
    assert (contents(folder), {path.name: path.read_bytes() for path in (folder / "metadata").iterdir()}) == made
    undo = gl.open(str(folder)).plan_undo(report.version)
    later = metadata(folder)
    later["snapshots"].append({**later["snapshots"][0], "snapshot-id": 5, "sequence-number": 2})
    (folder / "metadata" / "v2.metadata.json").write_text(json.dumps(later))
    with pytest.raises(ConflictError, match="later versions"):
        undo.apply()
    with pytest.raises(RefusedError, match="snapshots came after"):
        report.undo()
    assert gl.open(str(folder)).scan().count() == 20


def test_the_shell_plans_applies_and_undoes_it(tmp_path, capsys):
    folder = str(make_set(tmp_path / "t"))
    assert main(["convert", folder, "--in-place", "--format", "iceberg"]) == 0
    assert "become an Iceberg table where they lie" in capsys.readouterr().out
    assert main(["convert", folder, "--in-place", "--format", "iceberg", "--apply"]) == 0
    assert "3 files published" in capsys.readouterr().out
    assert main(["undo", folder, "--apply"]) == 0
    assert "1 table removed" in capsys.readouterr().out


def publish(folder):
    gl.publish(folder, format="iceberg")


def ids(folder):
    """The rows by the metadata alone where there is some; each listed file has to have the size that it states."""
    if not (folder / FIRST).exists():
        assert not any((folder / "metadata").glob("*.json"))
        return "files", seen(folder)
    rows = []
    for name, file in listed(folder).items():
        assert (folder / name).stat().st_size == file.file_size_in_bytes
        rows += pq.read_table(folder / name, columns=["id"])["id"].to_pylist()
    return "table", sorted(rows)


def test_a_kill_anywhere_leaves_the_files_or_the_whole_table(tmp_path):
    kill_while_publishing(tmp_path, publish, ids)


def test_a_kill_of_an_undo_leaves_the_whole_table_or_the_files(tmp_path):
    kill_while_undoing(tmp_path, publish, ids)


def test_a_folder_in_a_bucket_is_published_and_restored(s3, tmp_path):
    url = s3.upload(make_set(tmp_path / "t"), "lake", "published-iceberg")
    before = s3.objects("lake", "published-iceberg")
    report = gl.publish(url, format="iceberg", storage_options=s3.options)
    table = gl.open(url, storage_options=s3.options)
    assert (table.scan().count(), len(table.check())) == (30, 0)
    report.undo()
    after = s3.objects("lake", "published-iceberg")
    assert {name: data for name, data in after.items() if "_geolake" not in name} == before


@pytest.mark.parametrize(
    "path", ["0.parquet", f"x/{FIRST}", "metadata/v2.metadata.json", f"../{FIRST}", "metadata/../0.avro"]
)
def test_a_journal_creates_nothing_but_the_files_of_a_first_version(tmp_path, path):
    folder = make_set(tmp_path / "t", files=1)
    gl.open(str(folder)).plan_repair().apply()
    old = contents(folder)
    entry = folder / "_geolake" / "changes" / "00000001.json"
    step = {"create": {"path": path, "from": "_geolake/x/log.json", "bytes": 1}}
    entry.write_text(re.sub(r'"steps":\[.*\]\}$', f'"steps":[{json.dumps(step)}]}}', entry.read_text()))
    entry.with_name("00000001.end.json").unlink()
    with pytest.raises(GeolakeError):
        gl.open(str(folder)).plan_repair()
    assert contents(folder) == old
    assert not (folder / "metadata").exists()
