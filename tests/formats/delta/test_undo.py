"""Versions are undone from the log before them, or the error says what prevents it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import ConflictError, RefusedError, VersionError
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.delta.log_replay import small_actions
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.formats.delta.undo import plan_undo
from geolake_nb.spark.applying import apply_change
from tests.changes.repair_tables import GeoTable, typed, wkb
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, remove, vector
from tests.formats.delta.test_repair import POINTS, ids

if TYPE_CHECKING:
    from geolake_nb.model.change import Change


@dataclass(frozen=True)
class State:
    """What a version holds once reconciled, without the protocol."""

    files: dict[tuple[str, str | None], str]
    metadata: Any
    domains: dict[str, str]


def state(table: LogMaker, version: int | None = None) -> State:
    segment = list_log(table.storage).segment(version)
    rows = raw_adds(table.storage, segment, None).to_pylist()
    # An updated `add` does not change data.
    flag = re.compile(r'"dataChange": ?(true|false)')
    files = {(row["path"], row["vector"]): flag.sub('"dataChange":_', row["add"]) for row in rows}
    small = small_actions(table.storage, segment)
    return State(files, small.metadata, dict(small.domains))


def undo(table: LogMaker, version: int | None = None) -> Change:
    change = plan_undo(table.storage, table.open(), version)
    apply_change(change, CommitContext(table.storage, f"undo {table.open().version}"))
    return change


@pytest.fixture
def table(tmp_path):
    made = GeoTable(tmp_path, features=("deletionVectors", "domainMetadata"))
    stats = '{ "numRecords":2,  "x":1.50 }'
    made.file("a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, stats, tags={"t": "1"})
    made.file("b.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, {"numRecords": 2}, deletionVector=vector(1))
    made.file("c.parquet", {"id": ids(2), "geom": wkb(*POINTS)})
    return made


def next_version(table: LogMaker) -> int:
    return table.open().version + 1


def test_a_repair_is_undone_to_the_byte(table):
    before = state(table)
    table.repair()
    assert state(table) != before
    change = undo(table)
    assert state(table) == before
    assert change.metrics == {"files_restored": 0, "files_removed": 0, "files_updated": 3}
    assert all(json.loads(action)["add"]["dataChange"] is False for action in change.actions)
    assert change.parameters["version"] == "4"


def test_an_undo_is_undone_by_its_version(table):
    table.repair()
    after = state(table)
    undo(table)
    with pytest.raises(RefusedError, match="the log has no version by geolake_nb that is not undone"):
        plan_undo(table.storage, table.open())
    with pytest.raises(RefusedError, match="already undone by version 5; undo version 5"):
        plan_undo(table.storage, table.open(), 4)
    undo(table, 5)
    assert state(table) == after
    # An undo that is undone restores the change.
    assert plan_undo(table.storage, table.open()).parameters["version"] == "4"


def test_appends_of_others_survive(table):
    before = state(table)
    table.repair()
    table.file("d.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, {"numRecords": 2})
    undo(table)
    after = state(table)
    assert {path for path, _ in after.files} - {path for path, _ in before.files} == {"d.parquet"}
    assert {key: text for key, text in after.files.items() if key[0] != "d.parquet"} == before.files


@pytest.mark.parametrize(
    "later",
    [
        lambda: remove("a.parquet"),
        lambda: add("a.parquet", {"numRecords": 2, "more": 1}),
        lambda: add("a.parquet", {"numRecords": 2}, deletionVector=vector(2)),
    ],
)
def test_a_file_that_was_changed_since_is_a_conflict(table, later):
    table.repair()
    version = next_version(table)
    more = [remove("a.parquet")] if "deletionVector" in str(later()) else []
    table.commit(version, {"commitInfo": {"operation": "DELETE"}}, *more, later())
    with pytest.raises(ConflictError, match=rf"'a.parquet' was changed since then; undo version {version} \(DELETE\)"):
        plan_undo(table.storage, table.open())


def test_later_changes_are_undone_first(table):
    before = state(table)
    table.repair()
    table.file("d.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, {"numRecords": 2})
    added = table.open().version
    table.repair()
    undo(table)
    undo(table, added)
    undo(table)
    assert state(table) == before


def test_an_append_is_undone_with_its_rows(table):
    before = state(table, 2)
    change = undo(table, 3)
    (action,) = map(json.loads, change.actions)
    assert action["remove"]["path"] == "c.parquet"
    assert action["remove"]["dataChange"] is True
    assert action["remove"]["size"] == (table.folder / "c.parquet").stat().st_size
    assert state(table) == before
    assert any("rows" in sentence for sentence in change.notes)


def test_the_time_of_a_tombstone_is_not_in_the_hash(table):
    first = plan_undo(table.storage, table.open(), 3)
    assert "deletionTimestamp" in first.actions[0]
    assert first.hash == plan_undo(table.storage, table.open(), 3).hash


def test_an_append_to_a_table_for_appends_only_stays(tmp_path):
    table = GeoTable(tmp_path, **{"delta.appendOnly": "true"})
    table.file("a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, {"numRecords": 2})
    with pytest.raises(RefusedError, match=r"delta\.appendOnly"):
        plan_undo(table.storage, table.open(), 1)
    table.repair()
    undo(table)


def test_the_creation_is_not_undone(table):
    with pytest.raises(RefusedError, match=r"version 0 created the table.*delete its folder"):
        plan_undo(table.storage, table.open(), 0)
    with pytest.raises(VersionError, match="no version 9"):
        plan_undo(table.storage, table.open(), 9)


def test_removed_files_come_back_if_they_are_still_there(table):
    before = state(table)
    version = next_version(table)
    table.commit(version, {"commitInfo": {}}, remove("a.parquet"), remove("b.parquet", deletionVector=vector(1)))
    with pytest.raises(RefusedError, match=r"deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin.* is missing"):
        plan_undo(table.storage, table.open(), version)
    (table.folder / "ab").mkdir()
    (table.folder / "ab" / "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin").write_bytes(b"")
    (table.folder / "a.parquet").rename(table.folder / "kept")
    with pytest.raises(RefusedError, match=r"'a.parquet'.* is missing, most likely deleted by VACUUM"):
        plan_undo(table.storage, table.open(), version)
    (table.folder / "kept").rename(table.folder / "a.parquet")
    change = undo(table, version)
    assert [json.loads(action)["add"]["dataChange"] for action in change.actions] == [True, True]
    assert state(table) == before


def test_a_deletion_vector_is_undone(table):
    before = state(table)
    version = next_version(table)
    marked = add("a.parquet", {"numRecords": 2, "tightBounds": False}, deletionVector=vector(1))
    table.commit(version, {"commitInfo": {}}, remove("a.parquet"), marked)
    undo(table, version)
    assert state(table) == before


def test_metadata_and_domains_are_restored_and_the_protocol_stays(table):
    before = state(table)
    version = next_version(table)
    text = table.open().details.metadata.raw | {"configuration": {"a": "b"}, "name": "new"}
    domain = {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
    upgraded = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
    upgraded["protocol"] |= {
        "readerFeatures": ["deletionVectors", "geospatial"],
        "writerFeatures": ["deletionVectors", "domainMetadata", "geospatial"],
    }
    table.commit(version, {"commitInfo": {}}, upgraded, {"metaData": text}, domain)
    assert state(table) != before
    change = undo(table, version)
    assert state(table) == before
    assert any("protocol stays" in sentence for sentence in change.notes)
    assert table.open().details.protocol["writerFeatures"] == ["deletionVectors", "domainMetadata", "geospatial"]
    # And forward again.
    undo(table, version + 1)
    assert state(table).domains == {"d": "{}"}


def test_metadata_that_was_changed_since_is_a_conflict(table):
    version = next_version(table)
    raw = table.open().details.metadata.raw
    table.commit(version, {"metaData": raw | {"name": "one"}})
    table.commit(version + 1, {"commitInfo": {"operation": "ALTER"}}, {"metaData": raw | {"name": "two"}})
    with pytest.raises(ConflictError, match=rf"schema or the properties.*undo version {version + 1} \(ALTER\) first"):
        plan_undo(table.storage, table.open(), version)


def test_properties_that_others_set_do_not_prevent_the_undo_of_a_repair(table):
    table.repair()
    raw = table.open().details.metadata.raw
    table.commit(next_version(table), {"metaData": raw | {"configuration": {"owner": "me"}}})
    undo(table)
    assert table.open().properties == {"owner": "me"}


def test_files_of_new_types_keep_the_types(table):
    version = next_version(table)
    wider = metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)"), field("more", "string"))
    table.commit(version, wider)
    assert plan_undo(table.storage, table.open(), version).tolerates_appends is False
    table.commit(version + 1, {"commitInfo": {"operation": "WRITE"}}, add("e.parquet"))
    with pytest.raises(ConflictError, match=rf"types that would be reverted; undo version {version + 1}"):
        plan_undo(table.storage, table.open(), version)


def test_a_checkpoint_in_between_changes_nothing(tmp_path):
    table = GeoTable(tmp_path, features=("deletionVectors",))
    table.file("a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, {"numRecords": 2})
    table.file("b.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, {"numRecords": 2}, deletionVector=vector(1))
    before = state(table)
    table.repair()
    snapshot = table.open()
    live = raw_adds(table.storage, snapshot.details.segment, None)["add"].to_pylist()
    small = small_actions(table.storage, snapshot.details.segment)
    actions = [{"protocol": small.protocol}, {"metaData": small.metadata}]
    table.checkpoint(snapshot.version, *actions, *({"add": json.loads(text)} for text in live))
    table.commit(next_version(table), {"commitInfo": {}})
    undo(table, snapshot.version)
    assert state(table) == before


def test_a_commit_that_was_cleaned_up_cannot_be_undone(table):
    table.repair()
    snapshot = table.open()
    small = small_actions(table.storage, snapshot.details.segment)
    table.checkpoint(snapshot.version, {"protocol": small.protocol}, {"metaData": small.metadata}, add("a.parquet"))
    (table.log / f"{snapshot.version:020}.json").unlink()
    with pytest.raises(RefusedError, match="cleaned up"):
        plan_undo(table.storage, table.open(), snapshot.version)


def test_row_ids_are_never_drawn_again(table):
    version = next_version(table)
    domain = {"domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}'}}
    table.commit(version, {"commitInfo": {}}, domain, add("e.parquet", baseRowId=0, defaultRowCommitVersion=version))
    undo(table, version)
    assert state(table).domains == {"delta.rowTracking": '{"rowIdHighWaterMark":9}'}


@settings(max_examples=30)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["append", "delete", "update_bounds", "property"]), st.sampled_from("abcd")),
        min_size=1,
        max_size=6,
    )
)
def test_doing_and_undoing_every_version_leads_back(tmp_path_factory, steps):
    table = GeoTable(tmp_path_factory.mktemp("t"))
    states = [state(table)]
    for number, (what, name) in enumerate(steps, 1):
        path = f"{name}.parquet"
        (table.folder / path).touch()
        live = {path for path, _ in states[-1].files}
        if what == "property":
            raw = table.open().details.metadata.raw
            actions = [{"metaData": raw | {"configuration": {"n": str(number)}}}]
        elif path not in live:
            actions = [add(path, {"numRecords": number})]
        elif what == "update_bounds":
            actions = [add(path, {"numRecords": 1, "n": number}, dataChange=False)]
        else:
            actions = [remove(path)]
        table.commit(number, {"commitInfo": {"operation": what}}, *actions)
        states.append(state(table))
    for version in range(len(steps), 0, -1):
        undo(table, version)
        assert state(table) == states[version - 1]
