"""The answer to what a filter reads and why, as tables, as text and as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.expressions.filter_input import query_crs, spatial_parts
from geolake_nb.model.display import LiveDisplayable
from geolake_nb.model.schema import join_path
from geolake_nb.scan.explanation_text import explanation_text
from geolake_nb.scan.reason import SCAN_REASONS, ScanReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.engine_fact import EngineFact
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.table_format import TableFormat
    from geolake_nb.scan.prune import PruneResult

__all__ = ["Amount", "Explanation", "IfComplete", "Level", "amounts_by_reason", "file_sizes", "reason_column"]

_FILES_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Amount:
    """Files with their live rows and bytes; the rows are `None` where a file has no row count."""

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
        counted = [part.rows for part in parts if part.rows is not None]
        rows = sum(counted) if len(counted) == len(parts) else None
        return cls(sum(part.files for part in parts), rows, sum(part.bytes for part in parts))

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
    """What the same filter would read if every file had bounds; `read` is `None` where it is unknown."""

    read: Amount | None
    exact: bool
    """Whether it is counted; otherwise it is estimated, as `basis` describes."""
    basis: str


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(LiveDisplayable):
    """What a filter reads of a table, and why each file is kept or skipped.

    Example:
        >>> answer = t.explain((5, 45, 12, 52))
        >>> answer.read
        Amount(files=3, rows=12, bytes=3078)
    """

    where: Predicate
    """The filter, bound to the table."""
    snapshot: Snapshot
    """The version of the table that was queried."""
    pruning: PruneResult
    problems: tuple[str, ...]
    """The columns of `table` with the reason why a bound is not usable."""
    amounts: Mapping[ScanReason, Amount]
    """How many files have each reason, with their rows and bytes."""
    levels: tuple[Level, ...]
    if_complete: IfComplete
    engines: tuple[EngineFact, ...]
    notes: tuple[str, ...] = ()
    row_groups: pa.Table | None = None
    """`path, row_group, rows, bytes, kept, reason`, where row groups were given."""

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
        """The version that was queried; `None` for a format without versions."""
        return self.snapshot.version

    @property
    def query_crs(self) -> dict[str, str]:
        """The CRS of the query for each geo column: that of the filter, else that of the column.

        Where parts of the filter query one column in several CRSs, all are named, separated by commas.
        """
        schema = self.snapshot.schema
        by_column: dict[str, dict[str, None]] = {}
        for part in spatial_parts(self.where):
            by_column.setdefault(join_path(part.column), {})[query_crs(part, schema).text] = None
        return {column: ", ".join(texts) for column, texts in by_column.items()}

    @property
    def table(self) -> pa.Table:
        """The file table."""
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
        """`path, bytes, rows, kept, reason, detail`: every file; the detail is the reason why bounds are not usable."""
        columns = {name: self.table[name] for name in ("path", "bytes", "rows")}
        reasons = reason_column(self.pruning.reasons)
        return pa.table({**columns, "kept": self.pruning.kept, "reason": reasons, "detail": self._details()})

    def iter_files(self) -> Iterator[dict[str, Any]]:
        """The rows of `files` as plain values, some thousands at a time, so that a million of them fit.

        Returns:
            An iterator over dicts with the keys `path, bytes, rows, kept, reason, detail`.

        Example:
            >>> next(t.explain((5, 45, 12, 52)).iter_files())["reason"]
            'no_bounds'
        """
        for batch in self.files.to_batches(max_chunksize=_FILES_AT_ONCE):
            yield from batch.to_pylist()

    @property
    def kept(self) -> pa.Table:
        """The files that have to be read."""
        return self.files.filter(pa.array(self.pruning.kept))

    @property
    def skipped(self) -> pa.Table:
        """The files that hold no matching row."""
        return self.files.filter(pa.array(~self.pruning.kept))

    def by_reason(self) -> dict[ScanReason, Amount]:
        """How much each reason keeps or skips, those that keep first.

        Returns:
            The files, rows and bytes of each reason that occurs.

        Example:
            >>> amounts = t.explain((5, 45, 12, 52)).by_reason()
            >>> [(reason.text, amount.files) for reason, amount in amounts.items()]
            [('no bounds', 3)]
        """
        return dict(sorted(self.amounts.items(), key=lambda item: (not item[0].kept, -item[1].files)))

    def details(self) -> dict[str, int]:
        """The texts on bounds that are not usable, the most frequent first.

        Returns:
            The number of files of each text.

        Example:
            >>> t.explain((5, 45, 12, 52)).details()
            {}
        """
        counted = pc.value_counts(self._details().drop_null())
        pairs = [(count["values"], count["counts"]) for count in counted.to_pylist()]
        return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))

    def _details(self) -> pa.Array:
        unusable = self.pruning.among(ScanReason.UNUSABLE_BOUNDS)
        nothing = pa.nulls(len(unusable), pa.string())
        if not self.problems or not unusable.any():
            return nothing
        problem = pc.coalesce(
            *(self.table[name].combine_chunks() for name in self.problems), "not a valid box (NaN, or ymin > ymax)"
        )
        return pc.if_else(pa.array(unusable), problem, nothing)

    def to_dict(self, *, files: bool = False) -> dict[str, Any]:
        """The answer with plain values, ready for JSON.

        | key | value |
        |---|---|
        | `table`, `format`, `version` | where, what and which version; the version may be null |
        | `where` | the filter as SQL |
        | `query_crs` | the CRS of the query, by geo column |
        | `read`, `total` | `files`, `rows` (null when not known), `bytes` |
        | `levels` | a list of `level`, `kept`, `total` |
        | `reasons` | a list of `reason`, `kept`, `text`, `files`, `rows`, `bytes` |
        | `unusable` | a list of `text`, `files` |
        | `if_complete` | `read` (as above, or null), `exact`, `basis` |
        | `engines` | a list, see `EngineFact.to_dict` |
        | `notes` | a list of texts |
        | `files` | only with `files=True`: a list of `path`, `bytes`, `rows`, `kept`, `reason`, `detail` |

        Args:
            files: add the list of all files.

        Returns:
            A dict with the keys above.

        Example:
            >>> t.explain((5, 45, 12, 52)).to_dict()["read"]
            {'files': 3, 'rows': 12, 'bytes': 3078}
        """
        complete = self.if_complete
        answer: dict[str, Any] = {
            "table": self.location,
            "format": self.format.name,
            "version": self.version,
            "where": str(self.where),
            "query_crs": self.query_crs,
            "read": self.read.to_dict(),
            "total": self.total.to_dict(),
            "levels": [{"level": level.name, "kept": level.kept, "total": level.total} for level in self.levels],
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
            answer["files"] = list(self.iter_files())
        return answer

    def __str__(self) -> str:
        return explanation_text(self)


def amounts_by_reason(table: pa.Table, pruning: PruneResult) -> dict[ScanReason, Amount]:
    """How many files of the table have each reason that occurs, with their rows and bytes."""
    bytes_, rows = file_sizes(table)
    codes, size = pruning.reasons.astype(np.intp), len(SCAN_REASONS)
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
    """Bytes and live rows of each file; `None` for rows where a file has no row count."""
    sizes = pc.fill_null(table["bytes"], 0) if table["bytes"].null_count else table["bytes"]
    return sizes.to_numpy(), None if table["rows"].null_count else table["rows"].to_numpy()
