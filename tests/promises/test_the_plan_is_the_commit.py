"""The plan is the commit: what was printed is what the table gets, or it gets nothing."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.cli import main
from geolake_nb.errors import ConflictError, RefusedError
from tests import small_tables
from tests.changes.repair_tables import GEOMETRY, wkb
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, remove
from tests.formats.havasu_rows import append, create, entries_of, metadata_of
from tests.formats.havasu_rows import points as havasu_points
from tests.formats.havasu_tables import geometry_entry, make_havasu_table
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.formats.parquet_sets import make_set, points
from tests.promises.foreign_fields import iceberg_entries
from tests.promises.table_bytes import table_bytes
from tests.promises.test_what_we_do_not_own_is_unchanged import split

if TYPE_CHECKING:
    from collections.abc import Callable

POINT = small_tables.data((1, 2))
ROWS = POINT.append_column("raw", wkb(*["POINT (1 2)"] * 4)).append_column("name", [["a", "b", "c", "d"]])
FIELDS = (field("id", "long"), field("geom", GEOMETRY), field("raw", "binary"), field("name", "string"))


# ---- tables with work for every verb


def delta_table(folder: Path, *, logical: bool = True, table_id: str = "t", collation: str | None = None) -> Path:
    """Two files without bounds; without logical types only the values give them."""
    made = LogMaker(folder)
    marks = {} if collation is None else {"__COLLATIONS": {"name": collation}}
    fields = (*FIELDS[:3], field("name", "string", **marks))
    action = metadata(*fields)
    action["metaData"]["id"] = table_id
    made.commit(0, protocol("geospatial", "collations", "domainMetadata", reader=("geospatial",)), action)
    rows = ROWS if logical else ROWS.set_column(1, "geom", wkb(*["POINT (1 2)", "POINT (3 4)"] * 2))
    adds = []
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(rows, folder / name)
        adds.append(add(name, {"numRecords": 4, "own": 1.50}, size=(folder / name).stat().st_size))
    made.commit(1, {"commitInfo": {"operation": "WRITE"}}, *adds)
    return folder


def iceberg_table(folder: Path) -> Path:
    files = [FileEntry(f"{name}.parquet", rows=4, table=POINT) for name in "ab"]
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    make_iceberg_table(folder, columns, files[:1], files[1:], version=3)
    return folder


def havasu_table(folder: Path) -> Path:
    entries = [geometry_entry(name, small_tables.shapes((1, 2))) for name in "ab"]
    make_havasu_table(folder, entries, fault="missing")
    return folder


def havasu_history(folder: Path) -> Path:
    create(folder, havasu_points(2), columns={"geom": gl.geometry(encoding="ewkb")})
    append(folder, havasu_points(1, first=9))
    return folder


def repaired(folder: Path) -> Path:
    """The table after a change of ours."""
    gl.open(str(folder)).plan_repair().apply()
    return folder


PLANS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], gl.Plan]]] = {
    "delta repair": (delta_table, lambda folder: gl.open(folder).plan_repair()),
    "delta repair by a scan": (
        lambda folder: delta_table(folder, logical=False),
        lambda folder: gl.open(folder).plan_repair(),
    ),
    "delta rewrite": (delta_table, lambda folder: gl.open(folder).plan_rewrite(cluster_by="geom")),
    "delta enable": (delta_table, lambda folder: gl.open(folder).plan_enable({"raw": gl.geometry()})),
    "delta enable the feature": (
        lambda folder: LogMaker(folder).commit(0, protocol(), metadata()).folder,
        lambda folder: gl.open(folder).plan_enable({}),
    ),
    "delta collations": (delta_table, lambda folder: gl.open(folder).plan_collations({"name": "icu.UNICODE_CI"})),
    "delta collations dropped": (
        lambda folder: delta_table(folder, collation="icu.de_CI"),
        lambda folder: gl.open(folder).plan_collations({"name": None}),
    ),
    "delta undo": (lambda folder: repaired(delta_table(folder)), lambda folder: gl.open(folder).plan_undo()),
    "delta append": (delta_table, lambda folder: plan_write(ROWS, folder, mode="append")),
    "delta create": (lambda folder: folder, lambda folder: plan_write(ROWS, folder)),
    "iceberg repair": (iceberg_table, lambda folder: gl.open(folder).plan_repair()),
    "iceberg rewrite": (iceberg_table, lambda folder: gl.open(folder).plan_rewrite(cluster_by="geom")),
    "iceberg undo": (iceberg_table, lambda folder: gl.open(folder).plan_undo(1002)),
    "iceberg append": (iceberg_table, lambda folder: plan_write(POINT, folder, mode="append", format="iceberg")),
    "havasu repair": (havasu_table, lambda folder: gl.open(folder).plan_repair()),
    "havasu rewrite": (havasu_table, lambda folder: gl.open(folder).plan_rewrite(cluster_by="geom")),
    "havasu undo": (havasu_history, lambda folder: gl.open(folder).plan_undo()),
    "havasu append": (
        havasu_table,
        lambda folder: plan_write(havasu_points(3), folder, mode="append", format="havasu"),
    ),
    "parquet repair": (make_set, lambda folder: gl.open(str(folder)).plan_repair()),
    "parquet repair of properties": (
        small_tables.make_parquet,
        lambda folder: gl.open(str(folder)).plan_repair(columns=["geom"]),
    ),
    "parquet rewrite": (make_set, lambda folder: gl.open(str(folder)).plan_rewrite(cluster_by="geom")),
    "parquet undo": (lambda folder: repaired(make_set(folder)), lambda folder: gl.open(str(folder)).plan_undo()),
    "iceberg create": (lambda folder: folder, lambda folder: plan_write(POINT, folder, format="iceberg")),
    "havasu create": (
        lambda folder: folder,
        lambda folder: plan_write(
            havasu_points(3), folder, format="havasu", columns={"geom": gl.geometry(encoding="ewkb")}
        ),
    ),
    "havasu overwrite": (
        havasu_history,
        lambda folder: plan_write(havasu_points(2), folder, mode="overwrite", format="havasu"),
    ),
    "parquet create": (lambda folder: folder, lambda folder: plan_write(points(50, 3), folder, format="parquet")),
    "parquet append": (make_set, lambda folder: plan_write(points(50, 3), folder, mode="append", format="parquet")),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANS)
def test_another_plan_than_the_one_that_was_read_is_refused(tmp_path, what):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    before = table_bytes(folder) if folder.exists() else {}
    shown = plan(folder)
    assert not shown.is_empty
    # Planning again gives the same plan; the hash identifies what is done.
    assert plan(folder).hash == shown.hash == shown.to_dict()["hash"]
    with pytest.raises(RefusedError, match=f"expected the plan 000000000000, got {shown.hash}"):
        shown.apply(expect="0" * 12, consent={"geospatial", "collations"})
    assert (table_bytes(folder) if folder.exists() else {}) == before


def check_text(plan: gl.Plan) -> None:
    """What a person reads is what the plan holds: nothing else, and of its actions each of the first five."""
    plain = plan.to_dict()
    lines = str(plan).splitlines()
    base = "a new table" if plain["base_version"] is None else f"version {plain['base_version']}"
    on = "a set of files" if plain["format"] == "parquet" else base
    assert lines[0] == f"{plain['verb']} {plain['location']}: plan {plain['hash']} on {on}"
    words = " ".join(" ".join(lines).split())
    for sentence in (*plain["notes"], *(step["why"] for step in plain["irreversible_steps"]), plain["undo"]):
        assert " ".join(sentence.split()) in words
    for step in plain["irreversible_steps"]:
        assert f"Confirm with --consent {step['name']}." in words
    (read,) = [line.removeprefix("reads").split() for line in lines if line.startswith("reads ")]
    assert read[:2] == (["no", "data"] if plain["reads"]["files"] == 0 else [f"{plain['reads']['files']}", read[1]])
    for fact in plain["engines"]:
        assert any(line.startswith(f"  {fact['engine']} ") for line in lines), fact
    count = len(plain["actions"])
    starts = [number for number, line in enumerate(lines) if line.startswith("actions ")]
    if count == 0:
        assert starts == []
        return
    assert lines[starts[0]] == f"actions    {count}" + (", the first 5:" if count > 5 else ":")
    shown = lines[starts[0] + 1 :]
    assert len(shown) == min(count, 5)
    for line, action in zip(shown, plain["actions"], strict=False):
        if line.endswith("..."):
            assert len(line) == 400
            assert action.startswith(line.removesuffix("...")[2:])
        else:
            assert line == f"  {action}"


@pytest.mark.parametrize("what", PLANS)
def test_the_text_is_that_of_the_plan(tmp_path, what):
    make, plan = PLANS[what]
    check_text(plan(make(tmp_path / "t")))


@pytest.mark.parametrize("files", [5, 6])
def test_the_text_counts_the_actions_that_it_leaves_out(tmp_path, files):
    made = LogMaker(tmp_path / "t")
    names = [f"{number}.parquet" for number in range(files)]
    for name in names:
        pq.write_table(ROWS, tmp_path / "t" / name)
    adds = [add(name, {"numRecords": 4}, size=(tmp_path / "t" / name).stat().st_size) for name in names]
    made.commit(0, protocol("geospatial", reader=("geospatial",)), metadata(*FIELDS), *adds)
    shown = gl.open(tmp_path / "t").plan_repair()
    check_text(shown)
    assert f"{files} files without a bound; {files} repaired from Parquet footers." in str(shown)
    assert [name in str(shown) for name in names] == [True] * 5 + [False] * (files - 5)
    assert len(committed(tmp_path / "t", shown.apply().version)) == files


def test_only_the_plan_that_was_printed_is_applied(tmp_path, capsys):
    folder = delta_table(tmp_path / "t")
    assert main(["repair", str(folder), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    LogMaker(folder).commit(2, {"commitInfo": {"operation": "DELETE"}}, remove("a.parquet"))
    before = table_bytes(folder)
    assert main(["repair", str(folder), "--apply", "--expect", printed["hash"]]) == 3
    message = capsys.readouterr().err
    assert f"expected the plan {printed['hash']}, got " in message
    assert "the table has changed since it was shown" in message
    assert table_bytes(folder) == before
    assert main(["repair", str(folder), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["repair", str(folder), "--apply", "--expect", printed["hash"]]) == 0
    assert committed(folder, 3) == printed["actions"]


# ---- what is committed


def committed(folder: Path, version: int) -> list[str]:
    """The actions of a version but for `commitInfo`, without times."""
    lines = (folder / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    assert json.loads(lines[0]).keys() == {"commitInfo"}
    return [timeless(line) for line in lines[1:]]


def timeless(action: str) -> str:
    """The action without when it was made and, for a new table, what it was called."""
    action = re.sub(r'("deletionTimestamp"|"createdTime"):\d+', r"\1:0", action)
    return re.sub(r'(\{"metaData":\{"id"):"[0-9a-f-]{36}"', r"\1:0", action)


def info(folder: Path, version: int) -> dict[str, Any]:
    path = folder / "_delta_log" / f"{version:020}.json"
    return json.loads(path.read_text().splitlines()[0])["commitInfo"]


@pytest.mark.parametrize("what", ["delta repair", "delta enable the feature", "delta collations dropped", "delta undo"])
def test_a_log_entry_is_the_printed_actions(tmp_path, what):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    before = table_bytes(folder)
    shown = plan(folder)
    printed = shown.to_dict()
    assert printed["job"] is None
    report = shown.apply(consent="geospatial", expect=printed["hash"])
    assert committed(folder, report.version) == [timeless(action) for action in printed["actions"]]
    made = info(folder, report.version)
    assert made["operationParameters"] == printed["parameters"]
    assert made["readVersion"] == printed["base_version"]
    after = table_bytes(folder)
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("what", ["havasu undo"])
def test_a_snapshot_goes_back_to_the_printed_one(tmp_path, what):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    shown = plan(folder)
    (back,) = [json.loads(action)["rollback"] for action in shown.to_dict()["actions"] if "rollback" in action]
    assert metadata_of(folder)["current-snapshot-id"] == back["from"]
    assert shown.apply().version == back["to"]
    assert metadata_of(folder)["current-snapshot-id"] == back["to"]


def test_the_properties_of_a_footer_are_the_printed_ones(tmp_path):
    folder = small_tables.make_parquet(tmp_path / "t")
    shown = gl.open(str(folder)).plan_repair(columns=["geom"])
    printed = [json.loads(action)["footer"] for action in shown.to_dict()["actions"]]
    assert sorted(footer["path"] for footer in printed) == sorted(path.name for path in folder.iterdir())
    for footer in printed:
        stored = split((folder / footer["path"]).read_bytes())[1]
        assert footer["footer"] == hashlib.sha256(stored).hexdigest()
    shown.apply()
    for footer in printed:
        properties = pq.read_metadata(folder / footer["path"]).metadata
        assert {key: properties[key.encode()].decode() for key in footer["properties"]} == footer["properties"]
        assert footer["columns"] == []


def test_the_files_whose_footers_change_are_the_printed_ones(tmp_path):
    folder = make_set(tmp_path / "t")
    shutil.copy(folder / "0.parquet", folder / "good.parquet")
    gl.open(str(folder / "good.parquet")).plan_repair().apply()
    before = table_bytes(folder)
    shown = gl.open(str(folder)).plan_repair()
    printed = shown.to_dict()["job"]["scan"]
    assert {footer["path"] for footer in printed} == {"0.parquet", "1.parquet", "2.parquet"}
    shown.apply()
    changed = {name for name, digest in table_bytes(folder).items() if before.get(name, digest) != digest}
    assert changed == {footer["path"] for footer in printed}
    for footer in printed:
        column_ = pq.read_metadata(folder / footer["path"]).schema.column(1)
        assert (footer["columns"], column_.logical_type.type) == ({"geom": "geometry(OGC:CRS84)"}, "GEOMETRY")


@pytest.mark.spark
@pytest.mark.parametrize(
    "what",
    ["delta repair by a scan", "delta rewrite", "delta enable", "delta collations", "delta append", "delta create"],
)
def test_a_log_entry_after_a_job_is_the_printed_actions_and_the_files_of_the_job(tmp_path, spark, what):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    shown = plan(folder)
    printed = shown.to_dict()
    report = shown.apply(spark=spark, expect=printed["hash"], consent={"geospatial", "collations"})
    lines = committed(folder, report.version)
    expected = [timeless(action) for action in printed["actions"]]
    assert lines[: len(expected)] == expected
    assert info(folder, report.version)["operationParameters"] == printed["parameters"]
    rest = [json.loads(line) for line in lines[len(expected) :]]
    added = [action["add"]["path"] for action in rest if "add" in action]
    if what in ("delta repair by a scan", "delta collations"):
        assert set(added) == {"a.parquet", "b.parquet"}
        assert all(action["add"]["dataChange"] is False for action in rest if "add" in action)
        if "scan" in printed["job"]:
            assert [file["path"] for file in printed["job"]["scan"]] == ["a.parquet", "b.parquet"]
    else:
        assert added
        assert all(shown.transaction in path for path in added)
        assert {path.name for path in folder.glob("*.parquet")} - {"a.parquet", "b.parquet"} == set(added)
    kinds = {kind for action in rest for kind in action}
    assert kinds <= {"add", "domainMetadata"}


def bounds(entries: list[dict[str, Any]], low: str, high: str) -> dict[str, dict[str, list[str]]]:
    """The bounds of each file by the ids of columns, in hexadecimal digits."""
    bounds_of: dict[str, dict[str, list[str]]] = {}
    for entry in entries:
        if entry["status"] == 2:
            continue
        ends = [{pair["key"]: pair["value"].hex() for pair in entry["data_file"][name] or ()} for name in (low, high)]
        path = Path(entry["data_file"]["file_path"].removeprefix("file:")).name
        bounds_of[path] = {str(key): [end.get(key, "") for end in ends] for key in ends[0]}
    return bounds_of


@pytest.mark.spark
def test_manifests_of_iceberg_have_the_printed_bounds(tmp_path, spark):
    folder = iceberg_table(tmp_path / "t")
    before = bounds(iceberg_entries(folder), "lower_bounds", "upper_bounds")
    shown = gl.open(folder).plan_repair()
    printed = [json.loads(action)["update_bounds"] for action in shown.to_dict()["actions"]]
    expected = {Path(update["path"]).name: update["bounds"] for update in printed}
    assert expected.keys() == {"a.parquet", "b.parquet"}
    shown.apply(spark=spark)
    after = bounds(iceberg_entries(folder), "lower_bounds", "upper_bounds")
    assert after == {path: before[path] | expected[path] for path in before}
    (back,) = [json.loads(action)["rollback"] for action in gl.open(folder).plan_undo().to_dict()["actions"]]
    assert gl.open(folder).plan_undo().apply(spark=spark).version == back["to"]
    assert bounds(iceberg_entries(folder), "lower_bounds", "upper_bounds") == before


@pytest.mark.spark
def test_manifests_of_havasu_change_for_the_printed_files_alone(tmp_path, spark):
    folder = havasu_table(tmp_path / "t")
    before = bounds(entries_of(folder), "geom_lower_bounds", "geom_upper_bounds")
    shown = gl.open(folder).plan_repair()
    printed = shown.to_dict()["job"]["scan"]
    assert [(Path(file["path"]).name, file["columns"]) for file in printed] == [("a.parquet", ["geom"])]
    shown.apply(spark=spark)
    after = bounds(entries_of(folder), "geom_lower_bounds", "geom_upper_bounds")
    assert {path for path in before if before[path] != after[path]} == {"a.parquet"}


@pytest.mark.spark
@pytest.mark.parametrize(
    "what", ["iceberg rewrite", "iceberg append", "havasu rewrite", "havasu append", "havasu overwrite"]
)
def test_snapshots_lose_the_printed_files_and_get_those_of_the_job(tmp_path, spark, what):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    read = iceberg_entries if what.startswith("iceberg") else entries_of
    before = {entry["data_file"]["file_path"] for entry in read(folder) if entry["status"] != 2}
    shown = plan(folder)
    printed = [json.loads(action) for action in shown.to_dict()["actions"]]
    gone = {action["remove"]["path"] for action in printed if "remove" in action}
    assert gone == (set() if "append" in what else before)
    shown.apply(spark=spark)
    after = {entry["data_file"]["file_path"] for entry in read(folder) if entry["status"] != 2}
    assert after & before == before - gone
    assert after - before
    assert all(shown.transaction in path for path in after - before)


@pytest.mark.spark
@pytest.mark.parametrize("what", ["iceberg create", "havasu create"])
def test_a_new_table_has_the_printed_schema_and_the_files_of_the_job(tmp_path, spark, what):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    shown = plan(folder)
    (printed,) = [json.loads(action)["create"] for action in shown.to_dict()["actions"]]
    shown.apply(spark=spark, expect=shown.hash)
    newest = max((folder / "metadata").glob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    metadata = json.loads(newest.read_text())
    (schema,) = metadata["schemas"]
    (spec,) = metadata["partition-specs"]
    if what == "iceberg create":
        # Iceberg writes no CRS where it is the one that holds without.
        fields = [{**field, "type": field["type"].replace("(OGC:CRS84)", "")} for field in schema["fields"]]
        expected = [
            {**field, "type": field["type"].replace("(OGC:CRS84)", "")} for field in printed["schema"]["fields"]
        ]
        assert (fields, spec["fields"]) == (expected, printed["spec"]["fields"])
        assert metadata["format-version"] == int(printed["properties"]["format-version"])
    else:
        changing = {"current-snapshot-id", "last-sequence-number", "metadata-log", "refs", "snapshot-log", "snapshots"}
        assert {key: metadata[key] for key in printed.keys() - changing} == {
            key: printed[key] for key in printed.keys() - changing
        }
    read = iceberg_entries if what.startswith("iceberg") else entries_of
    files = [entry["data_file"]["file_path"] for entry in read(folder)]
    assert files
    assert all(shown.transaction in path for path in files)


@pytest.mark.spark
@pytest.mark.parametrize("what", ["parquet rewrite", "parquet append", "parquet create"])
def test_a_set_loses_the_printed_files_and_gets_those_of_the_job(tmp_path, spark, what):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    before = {path.name for path in folder.glob("*.parquet")}
    shown = plan(folder)
    gone = {json.loads(action)["take"]["path"] for action in shown.to_dict()["actions"] if "take" in json.loads(action)}
    assert gone == (before if "rewrite" in what else set())
    shown.apply(spark=spark)
    after = {path.name for path in folder.glob("*.parquet")}
    assert after & before == before - gone
    assert after - before
    assert all(shown.transaction in name for name in after - before)


# ---- what others do between the plan and the commit

MEANWHILE: dict[str, tuple[Callable[[LogMaker, int], Any], str | None]] = {
    "rows were added": (lambda made, version: made.commit(version, add("c.parquet", {"numRecords": 1})), None),
    "our file was removed": (lambda made, version: made.commit(version, remove("a.parquet")), "the file 'a.parquet'"),
    "our file was stated anew": (
        lambda made, version: made.commit(version, add("a.parquet", {"numRecords": 4, "n": 1}, dataChange=False)),
        "the file 'a.parquet'",
    ),
    "a property was set": (
        lambda made, version: made.commit(version, metadata(*FIELDS, owner="me")),
        "changed the schema or the properties",
    ),
    "a feature was added": (
        lambda made, version: made.commit(version, protocol("geospatial", "deletionVectors")),
        "changed the protocol",
    ),
    "another table replaced it": (lambda made, version: replaced(made.folder), "the table was replaced by another one"),
}  # fmt: skip


def replaced(folder: Path) -> None:
    """The table is dropped and another one made, with as many versions and files of the same names."""
    versions = len(list((folder / "_delta_log").iterdir()))
    shutil.rmtree(folder)
    delta_table(folder, table_id="another")
    for version in range(2, versions):
        LogMaker(folder).commit(version, {"commitInfo": {}})


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("what", ["delta repair", "delta undo"])
def test_a_plan_of_delta_tolerates_new_rows_and_nothing_else(tmp_path, what, meanwhile):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    shown = plan(folder)
    act, problem = MEANWHILE[meanwhile]
    act(LogMaker(folder), shown.change.base_version + 1)
    before = table_bytes(folder)
    if problem is None:
        report = shown.apply()
        assert report.rebased_over == (shown.change.base_version + 1,)
        assert committed(folder, report.version) == [timeless(action) for action in shown.to_dict()["actions"]]
        return
    with pytest.raises(ConflictError, match=problem):
        shown.apply()
    assert table_bytes(folder) == before


@pytest.mark.spark
@pytest.mark.parametrize("meanwhile", ["rows were added", "our file was removed"])
def test_a_job_tolerates_new_rows_and_nothing_else(tmp_path, spark, meanwhile):
    folder = delta_table(tmp_path / "t")
    shown = gl.open(folder).plan_rewrite(cluster_by="geom")
    act, problem = MEANWHILE[meanwhile]
    act(LogMaker(folder), 2)
    logged = table_bytes(folder / "_delta_log")
    if problem is None:
        report = shown.apply(spark=spark)
        expected = [timeless(action) for action in shown.to_dict()["actions"]]
        assert committed(folder, report.version)[: len(expected)] == expected
        return
    with pytest.raises(ConflictError, match=problem):
        shown.apply(spark=spark)
    assert table_bytes(folder / "_delta_log") == logged


def test_a_plan_of_havasu_is_not_applied_to_what_others_built_on(tmp_path):
    folder = havasu_history(tmp_path / "t")
    shown = gl.open(folder).plan_undo()
    append(folder, havasu_points(1, first=20))
    before = table_bytes(folder)
    with pytest.raises(ConflictError, match="is based on the snapshot to undo"):
        shown.apply()
    assert table_bytes(folder) == before


@pytest.mark.parametrize("what", ["parquet repair", "parquet undo"])
def test_a_set_whose_file_was_changed_is_left_alone(tmp_path, what):
    make, plan = PLANS[what]
    folder = make(tmp_path / "t")
    shown = plan(folder)
    shutil.copy(folder / "0.parquet", folder / "new.parquet")
    pq.write_table(points(70, 3), folder / "1.parquet")
    before = table_bytes(folder)
    with pytest.raises(ConflictError, match=r"1\.parquet.*changed since"):
        shown.apply()
    assert table_bytes(folder) == before
