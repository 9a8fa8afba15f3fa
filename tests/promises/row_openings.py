"""How the histories of the suite begin, and what all of them together must hold: the rest of each is drawn."""

from __future__ import annotations

from tests.promises.delta_history import DeltaStart
from tests.promises.row_model import (
    SHAPES,
    AddColumn,
    Append,
    Collate,
    Delete,
    DropColumn,
    Enable,
    Maintain,
    Move,
    NewRow,
    Opening,
    Overwrite,
    Race,
    RenameColumn,
    Repair,
    Rewrite,
    Undo,
    Update,
)
from tests.promises.snapshot_history import HavasuStart, IcebergStart

__all__ = ["DELTA", "HAVASU", "ICEBERG", "IN_DELTA", "IN_HAVASU", "IN_ICEBERG"]

_ROWS = tuple(NewRow(number, "aBé"[number % 3], "x", SHAPES[number % len(SHAPES)]) for number in range(6))
_MORE = tuple(NewRow(number, "B", part, SHAPES[number]) for number, part in enumerate(("x", "y z%2F", None)))


def _ids(*ids: int) -> frozenset[int]:
    return frozenset(ids)


DELTA = (
    Opening(
        DeltaStart("name", vectors=True, partitioned=False, checkpoints=3, rows=_ROWS),
        (
            Delete(_ids(1)),
            Repair(False),
            Race(Rewrite("g"), Delete(_ids(2)), "written"),
            Undo(0),
            RenameColumn("g", "geom"),
            Race(Rewrite(None), Append(_MORE), "committing"),
        ),
    ),
    Opening(
        DeltaStart("id", vectors=False, partitioned=True, checkpoints=10, rows=_ROWS),
        (
            Delete(_ids(3)),
            AddColumn("note"),
            Race(Repair(True), Append(_MORE, ours=True), "planned"),
            RenameColumn("name", "label"),
            DropColumn("note"),
            Race(Rewrite("g"), Rewrite("id"), "committing"),
        ),
    ),
    Opening(
        DeltaStart("none", vectors=True, partitioned=False, checkpoints=10, rows=_ROWS),
        (
            Update(_ids(0, 4), "é"),
            Append(_MORE, ours=True),
            Maintain("optimize"),
            Enable(),
            Move(_ids(5), SHAPES[0]),
            Collate("icu.UNICODE_CI"),
            Undo(0),
        ),
    ),
)
IN_DELTA = {
    "AddColumn", "Append", "Collate", "Delete by copy", "Delete with vectors", "DropColumn", "Enable",
    "Move with vectors", "RenameColumn", "Repair with vectors", "Rewrite by copy", "Rewrite of vectors",
    "Undo with vectors", "Update with vectors", "conflict with another", "conflict with this toolkit",
    "optimize of vectors", "rebased with another", "rebased with this toolkit",
}  # fmt: skip

ICEBERG = (
    Opening(
        IcebergStart(3, "ice", "merge-on-read", None, _ROWS),
        (
            Delete(_ids(1)),
            Repair(False),
            RenameColumn("g", "geom"),
            Race(Rewrite("g"), Delete(_ids(2)), "written"),
            Undo(0),
            Race(Rewrite("g"), Delete(_ids(3), by_equality=True), "committing"),
            AddColumn("note"),
            Race(Append(_MORE, ours=True), Rewrite("id"), "planned"),
        ),
    ),
    Opening(
        IcebergStart(2, "rest", "merge-on-read", "part", _ROWS),
        (
            Delete(_ids(1)),
            Race(Rewrite("id"), Rewrite("id"), "committing"),
            AddColumn("note"),
            Maintain("copy-on-write"),
            Delete(_ids(2)),
            DropColumn("note"),
        ),
    ),
)
IN_ICEBERG = {
    "AddColumn", "Append", "Delete by copy", "Delete with equality", "Delete with positions", "Delete with vectors",
    "DropColumn", "RenameColumn", "Repair over deletes", "Rewrite over deletes", "Undo", "conflict with another",
    "conflict with this toolkit", "copy-on-write", "rebased with another", "rebased with this toolkit",
}  # fmt: skip

HAVASU = tuple(
    Opening(
        HavasuStart(version, encoding, partitioned, _ROWS),
        (
            Maintain("strip"),
            Race(Repair(False), Append(_MORE, ours=True), moment),
            Maintain("tighten"),
            Race(Append(_MORE, ours=True), Repair(True), moment),
            Overwrite((*_ROWS, *_MORE)),
            Race(Rewrite("g"), Rewrite("id"), moment),
            Undo(0),
            Race(Overwrite(_ROWS), Maintain("loosen"), moment),
        ),
    )
    for version, encoding, partitioned, moment in ((2, "ewkb", True, "committing"), (1, "geojson", False, "written"))
)
IN_HAVASU = {
    "Append", "Overwrite", "Repair", "Rewrite", "Undo", "conflict with another", "conflict with this toolkit",
    "loosen", "rebased with this toolkit", "strip", "tighten",
}  # fmt: skip
