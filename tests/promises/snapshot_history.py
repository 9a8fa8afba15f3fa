"""Histories of tables of snapshots: Iceberg, where Spark 4.1 writes too, and Havasu, which it reads."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow.parquet as pq
import requests
import shapely
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import geolake_nb as gl
from geolake_nb.formats.iceberg import commit as iceberg_commit
from geolake_nb.storage.storage import Storage
from tests.formats.havasu_rows import entries_of, metadata_of
from tests.formats.havasu_tables import encode
from tests.promises import row_model as rm
from tests.promises.foreign_boxes import give_boxes
from tests.promises.row_history import RowHistory, acting_before
from tests.spark.test_equality_deletes import Deleter

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.iceberg_spark import IcebergSpark
    from tests.promises.row_model import Column, State, Value

__all__ = ["HavasuHistory", "HavasuStart", "IcebergHistory", "IcebergStart"]

_PLAIN = [("id", "INT"), ("name", "STRING"), ("part", "STRING")]

# Iceberg, Appendix F: what a snapshot's summary counts; a vector is a file of positions as well.
_MANNERS = {
    "added-dvs": "with vectors",
    "added-position-delete-files": "with positions",
    "added-equality-delete-files": "with equality",
    "deleted-data-files": "by copy",
}


class SnapshotHistory(RowHistory):
    """A table whose metadata lists its snapshots, read by Spark 4.1 with Iceberg 1.12."""

    def __init__(
        self, spark: Any, theirs: IcebergSpark, happened: Counter[str], opening: rm.Opening | None = None
    ) -> None:
        super().__init__(spark, happened, opening)
        self.theirs = theirs
        self.name = f"db.{self.format}_history_{happened['histories']}"
        self.catalog = "ice"

    @property
    def table(self) -> str:
        return f"{self.catalog}.{self.name}"

    @property
    def folder(self) -> Path:
        """Where a table of files alone lies."""
        return self.theirs.warehouse / self.name.replace(".", "/")

    def metadata(self) -> dict[str, Any]:
        if self.catalog == "ice":
            return metadata_of(self.folder)
        space, name = self.name.split(".")
        answer: dict[str, Any] = requests.get(
            f"{self.theirs.rest}/v1/namespaces/{space}/tables/{name}", timeout=60
        ).json()["metadata"]
        return answer

    def version(self) -> int | None:
        current: int | None = self.metadata().get("current-snapshot-id")
        return current

    def parents(self) -> dict[int, int | None]:
        return {entry["snapshot-id"]: entry.get("parent-snapshot-id") for entry in self.metadata()["snapshots"]}

    def ancestors(self, version: int | None) -> list[int]:
        """A snapshot and those that it was built on."""
        parents, chain = self.parents(), []
        while version is not None:
            chain.append(version)
            version = parents[version]
        return chain

    def read(self, version: int | None = None) -> tuple[list[str], Counter[tuple[Value, ...]]]:
        state = self.state if version is None else self.states[version]
        columns = [f"st_asbinary(`{column.name}`)" if column.is_geo else f"`{column.name}`" for column in state.columns]
        chosen = ", ".join(f"{text} AS c{index}" for index, text in enumerate(columns))
        at = "" if version is None else f" VERSION AS OF {version}"
        rows = self.theirs.sql(f"SELECT {chosen} FROM {self.table}{at}")
        return self._columns(version), Counter(tuple(row.values()) for row in rows)

    def _columns(self, version: int | None) -> list[str]:
        metadata = self.metadata()
        wanted = metadata["current-schema-id"]
        if version is not None:
            wanted = next(entry["schema-id"] for entry in metadata["snapshots"] if entry["snapshot-id"] == version)
        fields = next(schema["fields"] for schema in metadata["schemas"] if schema["schema-id"] == wanted)
        return [field["name"] for field in fields]

    def can(self, operation: rm.Operation) -> bool:
        match operation:
            case rm.RenameColumn(_, new):
                return not self.has(new)
            case rm.Undo(back):
                return len(self.ancestors(self.current)) > back + 1
        return True

    def undo_step(self, undo: rm.Undo) -> rm.Step:
        version, parent = self.ancestors(self.current)[undo.back :][:2]

        def effect(now: State) -> State | None:
            if version not in self.ancestors(self.current):
                return now  # another writer has undone it
            # The schema of a table is not that of a snapshot: it stays.
            return rm.State(now.columns, self.states[parent].rows) if version == self.current else None

        return rm.Step(undo, effect, version=version)

    def manner(self, operation: rm.Operation) -> str:
        snapshots = {entry["snapshot-id"]: entry for entry in self.metadata()["snapshots"]}
        newest = snapshots[self.version()]
        if rm.is_ours(operation):
            before = snapshots.get(newest.get("parent-snapshot-id"), {"summary": {}})["summary"]
            return "over deletes" if int(before.get("total-delete-files", 0)) else "alone"
        for word, known_manner in _MANNERS.items():
            if int(newest["summary"].get(word, 0)):
                return known_manner
        return "alone"

    def landed(self, step: rm.Step) -> None:
        super().landed(step)
        assert set(self.ancestors(self.current)) <= self.states.keys()


@dataclass(frozen=True, slots=True)
class IcebergStart:
    """How a table is made."""

    version: int
    """2 has no geo types, and files of deleted positions in the place of vectors."""
    catalog: str
    mode: str
    partition: str | None
    rows: tuple[rm.NewRow, ...]


iceberg_starts = st.builds(
    IcebergStart,
    st.sampled_from([3, 3, 2]),
    st.sampled_from(["ice", "rest"]),
    st.sampled_from(["merge-on-read", "copy-on-write"]),
    st.sampled_from([None, "part", "bucket(2, id)"]),
    rm.new_rows,
)
iceberg_theirs = st.one_of(
    rm.appends,
    rm.deletes,
    st.builds(rm.Delete, rm.some_ids, st.just(True)),
    rm.updates,
    rm.schema_changes,
    st.sampled_from(["merge-on-read", "copy-on-write", "files", "manifests", "spec"]).map(rm.Maintain),
)
iceberg_ours = st.one_of(rm.our_appends, rm.repairs, rm.rewrites, rm.undos)


class IcebergHistory(SnapshotHistory):
    """A table that Spark 4.1 makes and changes."""

    format: ClassVar[str] = "iceberg"

    def __init__(
        self, spark: Any, theirs: IcebergSpark, happened: Counter[str], opening: rm.Opening | None = None
    ) -> None:
        super().__init__(spark, theirs, happened, opening)
        self._start = IcebergStart(3, "ice", "", None, ())
        self._parts: set[str | None] = set()
        self._has_equality = False

    @initialize(start=iceberg_starts, draw=st.integers(0, 255))
    def make(self, start: IcebergStart, draw: int) -> None:
        self.open(start, draw)

    def begin(self, start: IcebergStart) -> None:
        self._start, self.catalog, self._parts = start, start.catalog, {start.partition}
        first = self.start([*_PLAIN, ("g", "GEOMETRY(4326)" if start.version == 3 else "BINARY")], start.rows)
        self.location = str(self.folder) if start.catalog == "ice" else self.table
        columns = ", ".join(f"{column.name} {column.type}" for column in self.state.columns)
        parts = "" if start.partition is None else f" PARTITIONED BY ({start.partition})"
        self._sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.db")
        self._sql(
            f"CREATE TABLE {{t}} ({columns}) USING iceberg{parts} TBLPROPERTIES ('format-version'='{start.version}',"
            f" 'commit.manifest.min-count-to-merge'='3', {_modes(start.mode)})"
        )
        self.act(first)
        self.landed(first)

    @rule(change=rm.changes(iceberg_theirs, iceberg_ours))
    def change(self, change: rm.Operation | rm.Race) -> None:
        self.happen(change)

    def fitting(self, operation: rm.Operation) -> rm.Operation:
        match operation:
            case rm.Delete(ids, True) if self.catalog != "ice" or self._parts != {None}:
                return rm.Delete(ids)
            case rm.Repair() | rm.Rewrite("g") if self._start.version == 2:
                return rm.Rewrite("id")
            case rm.Maintain("spec") if "bucket(4, id)" in self._parts:
                return rm.Maintain("files")
        return super().fitting(operation)

    def before_commit(self, act: Callable[[], None]) -> AbstractContextManager[None]:
        return acting_before(iceberg_commit, "committing", act)

    def counts_rows(self) -> bool:
        return self._start.version == 3 and not self._has_equality

    def act(self, step: rm.Step) -> None:
        match step.operation:
            case rm.Append():
                assert step.rows is not None
                columns = self.state.columns
                rows = [
                    ", ".join(rm.literal(column, row[column.key]) for column in columns) for row in step.rows.values()
                ]
                self._sql(f"INSERT INTO {{t}} VALUES {', '.join(f'({row})' for row in rows)}")
            case rm.Delete(ids, True):
                self._has_equality = True
                Deleter(self.spark, self.folder).delete(*[{"id": id_} for id_ in sorted(ids)])
            case rm.Maintain("files"):
                options = "options => map('rewrite-all', 'true')"
                self._sql(f"CALL {self.catalog}.system.rewrite_data_files(table => '{self.name}', {options})")
            case rm.Maintain("manifests"):
                self._sql(f"CALL {self.catalog}.system.rewrite_manifests('{self.name}')")
            case rm.Maintain("spec"):
                self._parts.add("bucket(4, id)")
                self._sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)")
            case rm.Maintain(mode):
                self._sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({_modes(mode)})")
            case _:
                self._sql(rm.statement(step))

    def _sql(self, text: str) -> None:
        self.theirs.sql(text.format(t=self.table))

    def clean_up(self) -> None:
        if self.happened["histories"]:
            self._sql("DROP TABLE IF EXISTS {t}")


def _modes(mode: str) -> str:
    return f"'write.delete.mode'='{mode}', 'write.update.mode'='{mode}'"


@dataclass(frozen=True, slots=True)
class HavasuStart:
    """How a table is made."""

    version: int
    encoding: str
    partitioned: bool
    rows: tuple[rm.NewRow, ...]


havasu_starts = st.builds(
    HavasuStart,
    st.sampled_from([2, 1]),
    st.sampled_from(["ewkb", "wkb", "wkt", "geojson"]),
    st.booleans(),
    rm.new_rows,
)
havasu_theirs = st.sampled_from(["strip", "loosen", "tighten"]).map(rm.Maintain)
havasu_ours = st.one_of(rm.our_appends, st.builds(rm.Overwrite, rm.new_rows), rm.repairs, rm.rewrites, rm.undos)


class HavasuHistory(SnapshotHistory):
    """A table whose rows only this toolkit writes, by two writers; Spark's Iceberg and pyarrow read it.

    Another tool gives its files other boxes.
    """

    format: ClassVar[str] = "havasu"

    def __init__(
        self, spark: Any, theirs: IcebergSpark, happened: Counter[str], opening: rm.Opening | None = None
    ) -> None:
        super().__init__(spark, theirs, happened, opening)
        self._encoding = ""

    @initialize(start=havasu_starts, draw=st.integers(0, 255))
    def make(self, start: HavasuStart, draw: int) -> None:
        self.open(start, draw)

    def begin(self, start: HavasuStart) -> None:
        self._encoding = start.encoding
        self.location = str(self.folder)
        self.theirs.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
        kind = "BINARY" if start.encoding.endswith("wkb") else "STRING"
        first = self.start([*_PLAIN, ("g", kind)], start.rows)
        gl.write(
            self.arrow(first),
            self.location,
            format="havasu",
            columns={"g": gl.geometry(encoding=start.encoding)},
            partition_by=["part"] if start.partitioned else [],
            properties={"format-version": str(start.version)},
            spark=self.spark,
        )
        self.landed(first)

    @rule(change=rm.changes(st.one_of(havasu_ours, havasu_theirs), havasu_ours))
    def change(self, change: rm.Operation | rm.Race) -> None:
        self.happen(change)

    def before_commit(self, act: Callable[[], None]) -> AbstractContextManager[None]:
        return acting_before(Storage, "put_if_absent", act)

    def act(self, step: rm.Step) -> None:
        assert isinstance(step.operation, rm.Maintain)
        give_boxes(self.folder, step.operation.how)

    def value(self, column: Column, row: rm.NewRow, number: int) -> Value:
        if column.name != "g" or row.shape is None:
            return super().value(column, row, number)
        (encoded,) = encode([shapely.from_wkb(row.shape)], self._encoding).to_pylist()
        return encoded.hex() if isinstance(encoded, bytes) else encoded

    def read(self, version: int | None = None) -> tuple[list[str], Counter[tuple[Value, ...]]]:
        columns, rows = super().read(version)
        assert self._stored_rows(version) == rows
        return columns, rows

    def _stored_rows(self, version: int | None) -> Counter[tuple[Value, ...]]:
        """The rows by the live files of the manifests, read apart from the toolkit."""
        counts: Counter[tuple[Value, ...]] = Counter()
        for entry in entries_of(self.folder, version):
            if entry["status"] < 2:
                table = pq.ParquetFile(entry["data_file"]["file_path"], arrow_extensions_enabled=False).read()
                for row in table.to_pylist():
                    counts[tuple(value.hex() if isinstance(value, bytes) else value for value in row.values())] += 1
        return counts

    def clean_up(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
