"""What a format has to offer: how its tables are found and opened, how changes are planned and committed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from geolake_nb.errors import GeolakeError, RefusedError
from geolake_nb.geo.bounds import BadValueWarning
from geolake_nb.model.table_format import TableFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.iceberg.catalogs import CatalogTable
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot, VersionInfo
    from geolake_nb.model.types import GeographyType, GeometryType
    from geolake_nb.scan.data_file import RowSource
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

    ColumnTypes = Mapping[str, GeometryType | GeographyType]

__all__ = ["Applied", "CommitContext", "Format", "TableSource", "VersionChoice", "warn_of_problems"]


@dataclass(frozen=True, slots=True)
class CommitContext:
    """The table that is changed, and by whom."""

    storage: Storage
    """The root of the table."""
    transaction: str
    """The id of the change: in the history of the table, and in the name of each new file."""
    spark: SparkSession | None = None
    """The session that a user gave."""
    session: Callable[[SparkSession | None], SparkSession] | None = None
    """Gives the session to commit through, starting one where none runs; only Iceberg commits through the JVM."""
    catalog: Any = None
    """The catalog that knows the table, where it was found in one or is to be made in one."""
    staged: Any = None
    """The transaction that creates a table in its catalog, which has chosen the location."""
    single_writer: bool = False
    """Whether nobody else writes to a store that has no atomic writes."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a change."""

    version: int | None
    rebased_over: tuple[int, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict, hash=False)
    already_applied: bool = False
    """Whether the change was already applied, so that nothing was done."""


def warn_of_problems(adds: Sequence[Mapping[str, Any]]) -> int:
    """Report the files that have values without bounds; returns their number."""
    count = 0
    for add in adds:
        for column, problem in add.get("problems", {}).items():
            message = f"{add['path']}: {column} gets no bounds, first {problem}"
            warnings.warn(message, BadValueWarning, stacklevel=5)
        count += bool(add.get("problems"))
    return count


@dataclass(frozen=True, slots=True)
class VersionChoice:
    """Which version of a table to open; the newest one where nothing is given."""

    version: int | None = None
    timestamp: datetime | None = None
    snapshot_id: int | None = None
    ref: str | None = None
    """A branch or a tag."""

    def options(self) -> dict[str, Any]:
        """What is chosen, by the names of the options of `open`."""
        return {
            "version": self.version,
            "timestamp": self.timestamp,
            "snapshot_id": self.snapshot_id,
            "branch or tag": self.ref,
        }


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where a table lies, and how to read it again at another version."""

    format: Format
    """Iceberg for Havasu too: only the metadata tells them apart."""
    storage: Storage
    """The root of the table."""
    location: str = field(repr=False)
    """What the user named; it may hold a secret."""
    options: Mapping[str, str] = field(repr=False, default_factory=dict)
    metadata: str | None = None
    """The metadata file of an Iceberg table, where it is known already."""
    allow_unknown_features: bool = False
    catalog: CatalogTable | None = field(repr=False, default=None)
    """The catalog that lists the table: changes are committed through it."""
    detected: Any = field(repr=False, default=None)
    """What `Format.detect` has read: good for opening the table at once, and not later."""

    def snapshot(self, choice: VersionChoice | None = None) -> Snapshot:
        """The table at that version, the newest one by default."""
        chosen = choice or VersionChoice()
        for name, value in chosen.options().items():
            if value is not None and name not in self.format.time_travel:
                known = ", ".join(self.format.time_travel)
                raise GeolakeError(
                    f"{name} does not apply to a {self.format.name} table",
                    where=self.storage.location,
                    remedy=f"use one of: {known}" if known else "a set of files has no versions",
                )
        return self.format.open(self, chosen)


class Format(TableFormat):
    """A format whose tables can be opened and changed. Heavy modules are imported inside the methods."""

    time_travel: ClassVar[tuple[str, ...]] = ()
    """The options of `open` that choose a version."""
    named_in_catalogs: ClassVar[bool] = False
    """Whether a new table may be created by name in a catalog."""

    def detect(self, storage: Storage) -> Callable[[], Any | None]:
        """Start to look for a table of this format; the result waits for the answer, which is `None` for no table."""
        return lambda: None

    def open(self, source: TableSource, choice: VersionChoice) -> Snapshot:
        """The table at that version."""
        raise NotImplementedError

    def history(self, source: TableSource, snapshot: Snapshot, *, newest: int | None = None) -> Sequence[VersionInfo]:
        """The versions of an open table, or so many of them, newest first."""
        raise NotImplementedError

    def added_versions(self, storage: Storage, snapshot: Snapshot) -> pa.Array | None:
        """The version that added each file, `None` where that is not known."""
        return None

    def storage_of(self, source: TableSource, snapshot: Snapshot) -> Storage:
        """What reads the data files of an open table."""
        return source.storage

    def row_source(self, storage: Storage, snapshot: Snapshot) -> RowSource:
        """The live rows of an open table, file by file."""
        raise NotImplementedError

    def require_changeable(self, source: TableSource) -> None:
        """Raise where the tables of this source can only be read."""

    def at(self, version: int) -> VersionChoice:
        """The choice of a version that the history lists."""
        return VersionChoice(snapshot_id=version)

    def plan_repair(
        self,
        storage: Storage,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | ColumnTypes | None,
        verify: bool,
        on_progress: Progress | None,
    ) -> Change:
        """Correct bounds for the files that lack them."""
        raise NotImplementedError

    def plan_rewrite(
        self,
        storage: Storage,
        snapshot: Snapshot,
        *,
        packing: Packing,
        where: Predicate | None,
        covering: bool = False,
        columns: ColumnTypes | None = None,
        files: Sequence[int] | None = None,
    ) -> Change:
        """The same rows in new files; `files` are the rows of the file table to rewrite, whatever their size."""
        raise NotImplementedError

    def plan_undo(self, storage: Storage, snapshot: Snapshot, version: int | None) -> Change:
        """Revert an earlier change."""
        raise NotImplementedError

    def plan_create(self, new: NewTable) -> Change:
        """A new table."""
        raise NotImplementedError

    def plan_publish(
        self,
        snapshot: Snapshot,
        *,
        columns: ColumnTypes,
        leave_files: bool,
        on_progress: Progress | None,
    ) -> Change:
        """A table of Parquet files where they lie."""
        what = f"files cannot become a table of {self.title} in place"
        raise RefusedError(what, where=snapshot.location, remedy="use 'delta' or 'iceberg', or convert them")

    def plan_append(self, snapshot: Snapshot, rows: InputRows, *, columns: ColumnTypes, packing: Packing) -> Change:
        """More rows."""
        raise NotImplementedError

    def plan_overwrite(self, snapshot: Snapshot, rows: InputRows, *, columns: ColumnTypes, packing: Packing) -> Change:
        """These rows in place of all others."""
        what = f"overwrite is not supported for {self.name} tables"
        raise RefusedError(what, remedy="use mode='create' or mode='append'")

    def plan_enable(self, storage: Storage, snapshot: Snapshot, columns: ColumnTypes) -> Change:
        """Geo types for columns of WKB, EWKB or WKT."""
        raise self.not_offered("enable", snapshot, only="delta")

    def plan_collations(
        self,
        storage: Storage,
        snapshot: Snapshot,
        changes: Mapping[str, str | None],
        *,
        refresh: bool,
        upgrade: bool,
    ) -> Change:
        """Other collations for string columns."""
        raise self.not_offered("collations", snapshot, only="delta")

    def plan_forget(self, storage: Storage, snapshot: Snapshot, version: int | None) -> Change:
        """Remove what is kept for undo."""
        raise self.not_offered("forget", snapshot, only="parquet")

    def find_transaction(self, change: Change, context: CommitContext) -> int | None:
        """The version that already has the transaction, `None` if there is none."""
        raise NotImplementedError

    def require_atomic_put(self, change: Change, context: CommitContext) -> None:
        """Raise if the store of the table has no atomic put."""
        raise NotImplementedError

    def commit(self, change: Change, context: CommitContext) -> Applied:
        """Commit a change whose actions are all known, in a store that `require_atomic_put` accepts."""
        raise NotImplementedError

    def column_names(self, columns: Sequence[str] | ColumnTypes | None, snapshot: Snapshot) -> Sequence[str] | None:
        """The columns to repair; raises for types, which only Parquet files take."""
        if isinstance(columns, Mapping):
            raise self.not_offered("repair with types", snapshot, only="parquet")
        return columns

    def refuse_types(self, snapshot: Snapshot, *, covering: bool, columns: ColumnTypes | None) -> None:
        """Raise for the options of a rewrite that only Parquet files have."""
        if covering:
            raise self.not_offered("a bbox covering", snapshot, only="parquet")
        if columns:
            raise self.not_offered("rewrite with types", snapshot, only="parquet")

    def not_offered(self, verb: str, snapshot: Snapshot, *, only: str) -> RefusedError:
        """The error for a change that another format has."""
        what = f"{verb} supports {only} tables, and this one is {self.name}"
        return RefusedError(what, where=snapshot.location)
