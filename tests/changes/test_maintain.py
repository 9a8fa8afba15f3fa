"""Which files maintenance takes: the fewest that help, within the budget, and none the second time."""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.api.plan import Plan
from geolake_nb.cli import main
from geolake_nb.errors import ConflictError, RefusedError
from geolake_nb.model.box import Box
from tests.changes.rewrite_tables import PointTable
from tests.formats.delta.log_maker import LogMaker, field
from tests.small_tables import make_delta

SIZE = 10_000
SQUARE = Box(0, 0, 80, 80)
REPAIR_ONLY = {"budget": 1}


def tiles(table: PointTable, count: int = 64, **more) -> PointTable:
    """A table in a square grid."""
    for number in range(count):
        x, y = number % 8 * 10.0, number // 8 * 10.0
        table.points(f"tile-{number}.parquet", rows=50, span=Box(x, y, x + 10, y + 10), size=SIZE, **more)
    return table


def heaps(table: PointTable, count: int = 8, span: Box = SQUARE) -> PointTable:
    """Files of rows from a whole area."""
    for number in range(count):
        table.points(f"heap-{number}.parquet", rows=50, span=span, size=SIZE)
    return table


def plan(table: PointTable, **options) -> Plan:
    return gl.open(str(table.made().folder)).plan_maintain(target_file_size=SIZE, **options)


def taken(plan: Plan) -> set[str]:
    """The files that a plan removes."""
    return {json.loads(action)["remove"]["path"] for action in plan.change.actions}


def test_a_clustered_table_is_left_alone(tmp_path):
    made = plan(tiles(PointTable(tmp_path)))
    assert made.is_empty
    assert "There is nothing to maintain" in made.change.notes[-1]


def test_new_files_of_scattered_rows_are_clustered_and_the_rest_stays(tmp_path):
    made = plan(heaps(tiles(PointTable(tmp_path))), target=2.0)
    assert 6 <= len(taken(made)) <= 8
    assert all(name.startswith("heap") for name in taken(made))
    assert any("their rows lie far apart" in note for note in made.change.notes)
    assert any(f"{72 - len(taken(made))} files stay" in note for note in made.change.notes)


def test_new_files_of_a_corner_take_only_neighbours_with_them(tmp_path):
    made = plan(heaps(tiles(PointTable(tmp_path)), count=24, span=Box(0, 0, 20, 20)), target=1.1)
    assert taken(made) >= {f"heap-{number}.parquet" for number in range(24)}
    tiles_taken = {int(name[5:].split(".")[0]) for name in taken(made) if name.startswith("tile")}
    assert tiles_taken <= {8 * y + x for x in range(4) for y in range(4)}


def test_the_budget_holds_and_the_plan_is_the_same_each_time(tmp_path):
    table = heaps(tiles(PointTable(tmp_path)))
    first = plan(table, budget=4 * SIZE)
    assert first.hash == gl.open(str(tmp_path)).plan_maintain(target_file_size=SIZE, budget=4 * SIZE).hash
    assert 0 < first.change.reads.bytes <= 4 * SIZE


def test_small_files_are_packed_within_their_partition(tmp_path):
    fields = (field("id", "long"), field("geom", "geometry(OGC:CRS84)"), field("day", "string"))
    table = PointTable(tmp_path, fields=fields, partitions=("day",))
    for number, day in enumerate(["a", "a", "a", "b"]):
        table.points(f"{day}-{number}.parquet", rows=50, size=1000, partitionValues={"day": day})
    assert taken(plan(table)) == {"a-0.parquet", "a-1.parquet", "a-2.parquet"}


def test_files_with_many_deletes_are_rewritten(tmp_path):
    table = tiles(PointTable(tmp_path, features=("deletionVectors",)), count=8)
    vector = {"storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "offset": 1, "sizeInBytes": 36}
    table.points("gone.parquet", rows=50, size=SIZE, deletionVector={**vector, "cardinality": 20})
    made = plan(table)
    assert taken(made) == {"gone.parquet"}
    assert any("of the rows are deleted" in note for note in made.change.notes)


def test_a_table_without_geometries_is_packed(tmp_path):
    table = PointTable(tmp_path, fields=(field("id", "long"),))
    for number in range(4):
        table.bare(f"{number}.parquet", 1000)
    assert len(taken(plan(table))) == 4


def test_bounds_are_repaired_first(tmp_path):
    table = heaps(PointTable(tmp_path))
    made = plan(table.points("bare.parquet", rows=10, bounds=False, size=SIZE))
    assert made.change.verb.value == "repair"
    assert made.change.notes[0].startswith("Bounds are repaired first")


def test_a_target_below_the_best_is_refused(tmp_path):
    with pytest.raises(RefusedError, match=r"a target of 0\.5 cannot be reached"):
        plan(tiles(PointTable(tmp_path), count=8), target=0.5)


@pytest.fixture
def raced(tmp_path, monkeypatch):
    """A table whose bounds a plan repairs, and a writer that removes one of its files once the plan is made."""
    folder = make_delta(tmp_path / "t", bounds=False)
    left = {"races": 0, "version": 2}
    apply = Plan.apply

    def late(self, **options):
        if left["races"]:
            left["races"] -= 1
            path = f"part-{left['version'] - 2}.parquet"
            remove = {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1}}
            LogMaker(folder).commit(left["version"], remove)
            left["version"] += 1
        return apply(self, **options)

    monkeypatch.setattr(Plan, "apply", late)
    return str(folder), left


def test_a_lost_race_is_planned_anew(raced):
    folder, left = raced
    left["races"] = 2
    report = gl.open(folder).maintain(**REPAIR_ONLY)
    assert (report.attempts, report.version) == (3, 4)
    assert [step.metrics["files_updated"] for step in report.steps] == [1]
    assert gl.open(folder).maintain(**REPAIR_ONLY).steps == ()


def test_races_that_are_lost_each_time_change_nothing(raced, capsys):
    folder, left = raced
    left["races"] = 2
    with pytest.raises(ConflictError):
        gl.open(folder).maintain(attempts=1, **REPAIR_ONLY)
    assert gl.open(folder).version == 2
    assert main(["maintain", folder, "--apply", "--attempts", "1"]) == 4
    assert capsys.readouterr().err.startswith("geolake: ")
    assert main(["maintain", folder, "--apply", "--budget", "1B"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.startswith(f"maintain {folder}: version 4; repair")


def test_the_command_prints_a_plan_and_changes_nothing(tmp_path, capsys):
    heaps(tiles(PointTable(tmp_path))).made()
    assert main(["maintain", str(tmp_path), "--file-size", str(SIZE), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verb"] == "rewrite"
    assert main(["maintain", str(tmp_path), "--apply", "--budget", "1B", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == []
    assert gl.open(str(tmp_path)).version == 0
