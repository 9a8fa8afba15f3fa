"""The answer to what a filter reads and why, as tables, as text and as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.showing import Shown
from geolake_nb.planning.scan.explanation_text import explanation_text
from geolake_nb.planning.scan.reason import SCAN_REASONS, ScanReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from geolake_nb.core.predicate import Predicate
    from geolake_nb.formats.snapshot import Snapshot, TableFormat
    from geolake_nb.planning.engines import EngineFact
    from geolake_nb.planning.scan.file_pruning import Judgement

__all__ = ["Amount", "Explanation", "IfComplete", "Level", "amounts_by_reason", "file_sizes", "reason_column"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Files with their live rows and bytes; the rows are `None` where a file does not say how many it has."""

    files: int
    rows: int | None
    bytes: int

    @classmethod
    def of(
        cls,
        parts: NDArray[np.bool_],
        bytes: NDArray[np.int64],  # noqa: A002
        rows: NDArray[np.int64] | None,
    ) -> Amount:
        """The sum over these parts.

        >>> Amount.of(np.array([True, False]), np.array([10, 20]), None)
        Amount(files=1, rows=None, bytes=10)
        """
        return cls(
            int(np.count_nonzero(parts)),
            None if rows is None else int(np.sum(rows, where=parts)),
            int(np.sum(bytes, where=parts)),
        )

    @classmethod
    def sum(cls, amounts: Iterable[Amount]) -> Amount:
        """All together.

        >>> Amount.sum([])
        Amount(files=0, rows=0, bytes=0)
        """
        parts = list(amounts)
        counted = [one.rows for one in parts if one.rows is not None]
        rows = sum(counted) if len(counted) == len(parts) else None
        return cls(sum(one.files for one in parts), rows, sum(one.bytes for one in parts))

    def part(self, share: float) -> Amount:
        """That share of it, rounded.

        >>> Amount(10, None, 1000).part(0.25)
        Amount(files=2, rows=None, bytes=250)
        """
        return Amount(
            round(self.files * share),
            None if self.rows is None else round(self.rows * share),
            round(self.bytes * share),
        )

    def to_dict(self) -> dict[str, int | None]:
        """`files, rows, bytes`."""
        return {"files": self.files, "rows": self.rows, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class Level:
    """How many parts of one level have to be read."""

    name: str
    """`table`, `manifest`, `file` or `row group`."""
    kept: int
    total: int


@dataclass(frozen=True, slots=True)
class IfComplete:
    """What the same filter would read if every file had bounds; `read` is `None` where nothing tells."""

    read: Amount | None
    exact: bool
    """Whether it is counted; else it is estimated, as `basis` says."""
    basis: str


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(Shown):
    """What a filter reads of a table, and why each file is kept or skipped."""

    where: Predicate
    """The filter, bound to the table."""
    snapshot: Snapshot
    """The table as it was asked."""
    judgement: Judgement
    problems: tuple[str, ...]
    """The columns of `table` that say why a bound is not usable."""
    amounts: Mapping[ScanReason, Amount]
    """How many files have each reason, with their rows and bytes."""
    levels: tuple[Level, ...]
    if_complete: IfComplete
    engines: tuple[EngineFact, ...]
    notes: tuple[str, ...] = ()
    row_groups: pa.Table | None = None
    """`path, row_group, rows, bytes, kept, reason`, where row groups were given."""

    def _ipython_display_(self) -> None:
        # By its name only, as a card is found: imports point down.
        import_module("geolake_nb.jupyter.explanation_view").display_explanation(self)

    @property
    def location(self) -> str:
        """The root of the table."""
        return self.snapshot.location

    @property
    def format(self) -> TableFormat:
        """What kind of table it is."""
        return self.snapshot.format

    @property
    def version(self) -> int | None:
        """The version that was asked; `None` for a format without versions."""
        return self.snapshot.version

    @property
    def table(self) -> pa.Table:
        """The table's files as they were given."""
        return self.snapshot.files.table

    @property
    def read(self) -> Amount:
        """What is read."""
        return Amount.sum(amount for reason, amount in self.amounts.items() if reason.kept)

    @property
    def total(self) -> Amount:
        """What the table has."""
        return Amount.sum(self.amounts.values())

    @property
    def files(self) -> pa.Table:
        """`path, bytes, rows, kept, reason, detail`: every file; the detail says why bounds are not usable."""
        columns = {name: self.table[name] for name in ("path", "bytes", "rows")}
        reasons = reason_column(self.judgement.reasons)
        return pa.table({**columns, "kept": self.judgement.kept, "reason": reasons, "detail": self._details()})

    @property
    def kept(self) -> pa.Table:
        """The files that have to be read."""
        return self.files.filter(pa.array(self.judgement.kept))

    @property
    def skipped(self) -> pa.Table:
        """The files that hold no matching row."""
        return self.files.filter(pa.array(~self.judgement.kept))

    def by_reason(self) -> dict[ScanReason, Amount]:
        """How much each reason keeps or skips, those that keep first."""
        return dict(sorted(self.amounts.items(), key=lambda item: (not item[0].kept, -item[1].files)))

    def details(self) -> dict[str, int]:
        """The texts on bounds that are not usable, each with the number of files, the most frequent first."""
        counted = pc.value_counts(self._details().drop_null())
        pairs = [(one["values"], one["counts"]) for one in counted.to_pylist()]
        return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))

    def _details(self) -> pa.Array:
        unusable = self.judgement.among(ScanReason.UNUSABLE_BOUNDS)
        nothing = pa.nulls(len(unusable), pa.string())
        if not self.problems or not unusable.any():
            return nothing
        found = pc.coalesce(*(self.table[name].combine_chunks() for name in self.problems), "its sides make no box")
        return pc.if_else(pa.array(unusable), found, nothing)

    def to_dict(self, *, files: bool = False) -> dict[str, Any]:
        """The answer with plain values, for JSON.

        | key | value |
        |---|---|
        | `table`, `format`, `version` | where, what and which version; the version may be null |
        | `where` | the filter as SQL |
        | `read`, `total` | `files`, `rows` (null when not known), `bytes` |
        | `levels` | a list of `level`, `kept`, `total` |
        | `reasons` | a list of `reason`, `kept`, `text`, `files`, `rows`, `bytes` |
        | `unusable` | a list of `text`, `files` |
        | `if_complete` | `read` (as above, or null), `exact`, `basis` |
        | `engines` | a list, see `EngineFact.to_dict` |
        | `notes` | a list of texts |
        | `files` | only when asked for: a list of `path`, `bytes`, `rows`, `kept`, `reason`, `detail` |
        """
        complete = self.if_complete
        answer: dict[str, Any] = {
            "table": self.location,
            "format": self.format.value,
            "version": self.version,
            "where": str(self.where),
            "read": self.read.to_dict(),
            "total": self.total.to_dict(),
            "levels": [{"level": one.name, "kept": one.kept, "total": one.total} for one in self.levels],
            "reasons": [
                {"reason": reason.value, "kept": reason.kept, "text": reason.text, **amount.to_dict()}
                for reason, amount in self.by_reason().items()
            ],
            "unusable": [{"text": text, "files": count} for text, count in self.details().items()],
            "if_complete": {
                "read": None if complete.read is None else complete.read.to_dict(),
                "exact": complete.exact,
                "basis": complete.basis,
            },
            "engines": [fact.to_dict() for fact in self.engines],
            "notes": list(self.notes),
        }
        if files:
            answer["files"] = self.files.to_pylist()
        return answer

    def __str__(self) -> str:
        return explanation_text(self)


def amounts_by_reason(table: pa.Table, judgement: Judgement) -> dict[ScanReason, Amount]:
    """How many files of the table have each reason that occurs, with their rows and bytes."""
    bytes_, rows = file_sizes(table)
    codes, size = judgement.reasons.astype(np.intp), len(SCAN_REASONS)
    files = np.bincount(codes, minlength=size)
    # Sums of doubles are exact up to 2**53 bytes, nine petabytes.
    of_bytes = np.bincount(codes, weights=bytes_, minlength=size)
    of_rows = None if rows is None else np.bincount(codes, weights=rows, minlength=size)
    return {
        reason: Amount(int(files[code]), None if of_rows is None else int(of_rows[code]), int(of_bytes[code]))
        for code, reason in enumerate(SCAN_REASONS)
        if files[code]
    }


def reason_column(reasons: NDArray[np.int8]) -> pa.Array:
    """Codes of reasons as texts: a dictionary, so that a million of them cost a million bytes.

    >>> reason_column(np.array([], np.int8)).to_pylist()
    []
    """
    names = pa.array([reason.value for reason in SCAN_REASONS])
    return pa.DictionaryArray.from_arrays(pa.array(reasons), names)


def file_sizes(table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Bytes and live rows of each file; `None` for rows where a file does not say how many it has."""
    sizes = pc.fill_null(table["bytes"], 0) if table["bytes"].null_count else table["bytes"]
    return sizes.to_numpy(), None if table["rows"].null_count else table["rows"].to_numpy()
