"""Histories of Delta tables: Spark as the other writer and the reader."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from geolake_nb.storage.storage import Storage
from tests.promises import row_model as rm
from tests.promises.row_history import RowHistory, acting_before

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.promises.row_model import Value

__all__ = ["DeltaHistory", "DeltaStart"]

_COLUMNS = [("id", "INT"), ("name", "STRING"), ("part", "STRING"), ("g", "GEOMETRY(4326)"), ("raw", "BINARY")]


@dataclass(frozen=True, slots=True)
class DeltaStart:
    """How a table is made."""

    mapping: str
    vectors: bool
    partitioned: bool
    checkpoints: int
    """After how many commits of Spark's there is one."""
    rows: tuple[rm.NewRow, ...]


starts = st.builds(
    DeltaStart,
    st.sampled_from(["none", "name", "id"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([10, 3]),
    rm.new_rows,
)
reference = st.one_of(
    rm.appends,
    rm.deletes,
    rm.updates,
    rm.schema_changes,
    st.sampled_from(["vectors on", "vectors off", "optimize", "checkpoint"]).map(rm.Maintain),
)
collations = st.sampled_from(["icu.UNICODE_CI", "spark.UTF8_LCASE", None]).map(rm.Collate)
ours = st.one_of(
    rm.our_appends, rm.repairs, rm.rewrites, rm.undos, st.one_of(collations, st.just(rm.Enable()), rm.undos)
)


class DeltaHistory(RowHistory):
    """A table of Spark's, in a folder."""

    format: ClassVar[str] = "delta"

    def __init__(self, spark: Any, folder: Path, happened: Counter[str], opening: rm.Opening | None = None) -> None:
        super().__init__(spark, happened, opening)
        self.location = str(folder / f"t{happened['histories']}")
        self._is_collated = self._is_mapped = False

    @initialize(start=starts, draw=st.integers(0, 255))
    def make(self, start: DeltaStart, draw: int) -> None:
        self.open(start, draw)

    def begin(self, start: DeltaStart) -> None:
        self._is_mapped = start.mapping != "none"
        first = self.start(_COLUMNS, start.rows)
        properties = {
            "delta.columnMapping.mode": start.mapping,
            "delta.enableDeletionVectors": str(start.vectors).lower(),
            "delta.checkpointInterval": str(start.checkpoints),
        }
        settings = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        columns = ", ".join(f"{column.name} {column.type}" for column in self.state.columns)
        parts = " PARTITIONED BY (part)" if start.partitioned else ""
        self._sql(f"CREATE TABLE {{t}} ({columns}) USING delta{parts} TBLPROPERTIES ({settings})")
        self.states[0] = self.state
        self.act(first)
        self.landed(first)

    @rule(change=rm.changes(reference, ours))
    def change(self, change: rm.Operation | rm.Race) -> None:
        self.happen(change)

    def version(self) -> int:
        names = os.listdir(os.path.join(self.location, "_delta_log"))
        return max(int(name[:20]) for name in names if name.endswith(".json") and len(name) == 25)

    def read(self, version: int | None = None) -> tuple[list[str], Counter[tuple[Value, ...]]]:
        reader = self.spark.read.format("delta")
        frame = (reader if version is None else reader.option("versionAsOf", version)).load(self.location)
        state = self.state if version is None else self.states[version]
        geo = {column.name for column in state.columns if column.is_geo}
        chosen = [f"st_asbinary(`{name}`)" if name in geo else f"`{name}`" for name in frame.columns]
        rows = frame.selectExpr(*chosen).collect()
        return frame.columns, Counter(tuple(_plain(value) for value in row) for row in rows)

    def can(self, operation: rm.Operation) -> bool:
        if not rm.is_ours(operation) and self._is_collated:
            return False  # Spark does not write tables with the feature
        match operation:
            case rm.DropColumn():
                return self._is_mapped
            case rm.RenameColumn(_, new):
                return self._is_mapped and not self.has(new)
            case rm.Enable():
                return self.named("raw").type == "BINARY"
            case rm.Undo(back):
                return len(self.states) > back + 1
            case rm.Collate():
                # The feature stays for good: a short history would be without Spark from then on.
                return len(self.states) > 5
        return True

    def undo_step(self, undo: rm.Undo) -> rm.Step:
        version = list(self.states)[-1 - undo.back]
        before, after = self.states[version - 1], self.states[version]
        return rm.Step(undo, lambda now: now.undone(before, after), version=version)

    def manner(self, operation: rm.Operation) -> str:
        with open(os.path.join(self.location, "_delta_log", f"{self.version():020}.json")) as file:
            actions = [json.loads(line) for line in file]
        adds, removes = ([action[kind] for action in actions if kind in action] for kind in ("add", "remove"))
        if any("deletionVector" in add for add in adds):
            return "with vectors"
        if any("deletionVector" in remove for remove in removes):
            return "of vectors"
        return "by copy" if adds and removes else "alone"

    def before_commit(self, act: Callable[[], None]) -> AbstractContextManager[None]:
        return acting_before(Storage, "put_if_absent", act)

    def landed(self, step: rm.Step) -> None:
        super().landed(step)
        self._is_collated |= isinstance(step.operation, rm.Collate)
        assert list(self.states) == list(range(self.version() + 1))

    def act(self, step: rm.Step) -> None:
        match step.operation:
            case rm.Append():
                self._insert(step)
            case rm.Maintain("optimize"):
                self._sql("OPTIMIZE {t}")
            case rm.Maintain("checkpoint"):
                log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
                log.forTable(self.spark._jsparkSession, self.location).checkpoint()
            case rm.Maintain("vectors on" | "vectors off" as how):
                value = str(how == "vectors on").lower()
                self._sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{value}')")
            case _:
                self._sql(rm.statement(step))

    def _insert(self, step: rm.Step) -> None:
        assert step.rows is not None
        columns = self.state.columns
        rows = [", ".join(rm.literal(column, row[column.key]) for column in columns) for row in step.rows.values()]
        named = ", ".join(f"`{column.name}`" for column in columns)
        self._sql(f"INSERT INTO {{t}} ({named}) VALUES {', '.join(f'({row})' for row in rows)}")

    def _sql(self, text: str) -> None:
        self.spark.sql(text.format(t=f"delta.`{self.location}`"))

    def clean_up(self) -> None:
        shutil.rmtree(self.location, ignore_errors=True)


def _plain(value: Any) -> Value:
    return bytes(value).hex() if isinstance(value, bytearray | bytes) else value
