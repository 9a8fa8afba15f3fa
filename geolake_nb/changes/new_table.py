"""A new table as a user asks for it: what the formats share when they plan one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.changes.cell_columns import cell_columns, cell_sentence
from geolake_nb.changes.write_job import IcebergRows, ParquetRows
from geolake_nb.model.change import Change, Reads, Verb

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from geolake_nb.changes.write_job import GeoInput, InputRows, Packing, Target, WriteJob
    from geolake_nb.model.cells import Cell
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.table_format import EngineFact, TableFormat
    from geolake_nb.model.types import GeoType
    from geolake_nb.storage.storage import Storage

__all__ = ["NewTable"]

_UNDO_OF_CREATION = "remove the folder of the new table: it has no earlier version"


@dataclass(frozen=True, slots=True, eq=False)
class NewTable:
    """The rows of a new table, where it will be, and how it is stored."""

    rows: InputRows | IcebergRows | ParquetRows
    schema: Schema
    """The columns of the rows as they are, and the `cells`."""
    target: Storage
    columns: Mapping[str, GeoType]
    """The types of geo columns that the user declared, by their paths."""
    partition_by: tuple[str, ...]
    packing: Packing
    properties: Mapping[str, str]
    source: str | None = None
    """The location of the files or of the table that is converted; `None` for rows in memory."""
    notes: tuple[str, ...] = ()
    """What becomes of the source, one sentence each."""
    cells: tuple[Cell, ...] = ()
    """The columns that are computed from geometries; the `properties` keep them."""

    @property
    def location(self) -> str:
        """The location of the new table."""
        return self.target.location

    @property
    def where(self) -> str:
        """The place that an error about a column names."""
        return self.location if self.source is None else self.source

    @property
    def verb(self) -> Verb:
        """A conversion of files, or a write of rows."""
        return Verb.WRITE if self.source is None else Verb.CONVERT

    @property
    def expected_rows(self) -> int | None:
        """How many rows have to be written, where that is known."""
        if isinstance(self.rows, ParquetRows):
            return self.rows.rows
        return self.rows.expected if isinstance(self.rows, IcebergRows) else None

    def _described(self) -> tuple[str, Reads]:
        """What is converted, in words, and how much of it is read."""
        if isinstance(self.rows, ParquetRows):
            files = self.rows.files
            reads = Reads(len(files), sum(file.bytes for file in files))
            return f"{self.rows.rows:,} rows of {len(files):,} Parquet files", reads
        if isinstance(self.rows, IcebergRows):
            table = self.rows.snapshot.files.table
            count = "live rows" if self.rows.expected is None else f"{self.rows.expected:,} live rows"
            name = self.rows.snapshot.format.title
            return f"{count} of a {name} table", Reads(len(table), sum(table["bytes"].to_pylist()))
        return "rows", Reads()

    def job(self, schema: Schema, target: Target, *, geo_input: Mapping[str, GeoInput]) -> WriteJob:
        """The job that writes the rows with the columns of the format."""
        return self.packing.job(
            self.rows,
            schema,
            target,
            partition_by=self.partition_by,
            geo_input=geo_input,
            expected_rows=self.expected_rows,
            cells=cell_columns(self.cells, schema, where=self.where),
        )

    def change(
        self,
        format_: TableFormat,
        job: WriteJob,
        *,
        title: str,
        actions: Sequence[str] = (),
        notes: Collection[str] = (),
        undo: str = _UNDO_OF_CREATION,
        engines: tuple[EngineFact, ...] = (),
        parameters: Mapping[str, str] | None = None,
        is_folder: bool = False,
    ) -> Change:
        """The change that creates the table; `title` names it in the first sentence.

        A table that `is_folder` consists of its files alone, and others may add some meanwhile.
        """
        which = {"mode": "create"} if self.source is None else {"source": self.source}
        rows, reads = self._described()
        return Change(
            self.verb,
            format_,
            self.location,
            None,
            actions=actions,
            job=None if self.expected_rows == 0 and not is_folder else job,
            notes=(f"{title} gets the {rows}.", *notes, *map(cell_sentence, self.cells), *self.notes),
            reads=reads,
            undo=undo,
            engines=engines,
            parameters={**which, "partitionBy": json.dumps(list(self.partition_by)), **(parameters or {})},
            tolerates_appends=is_folder,
            blind_append=is_folder,
        )
