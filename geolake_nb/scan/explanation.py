"""The answer to what a filter reads and why, as tables, as text and as plain values."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.expressions.filter_input import query_crs, spatial_parts
from geolake_nb.model.crs import Crs
from geolake_nb.model.display import LiveDisplayable
from geolake_nb.model.schema import join_path
from geolake_nb.scan.cell_filters import cell_filters
from geolake_nb.scan.prune import SCAN_REASONS, ScanReason
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.table_format import EngineFact, TableFormat
    from geolake_nb.scan.cell_filters import CellFilter
    from geolake_nb.scan.next_step import NextStep
    from geolake_nb.scan.prune import PruneResult

__all__ = [
    "Amount",
    "Explanation",
    "IfComplete",
    "Level",
    "amount_text",
    "amounts_by_reason",
    "bytes_text",
    "complete_text",
    "explanation_text",
    "file_sizes",
    "reason_column",
    "share_text",
    "wrapped",
]

WIDTH = 100
_SHOWN_DETAILS = 5
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def explanation_text(explanation: Explanation) -> str:
    """The explanation in lines of at most 100 characters."""
    return "\n".join(_lines(explanation))


def bytes_text(count: int) -> str:
    """A number of bytes for people.

    >>> bytes_text(999), bytes_text(1_500_000), bytes_text(0)
    ('999 B', '1.5 MB', '0 B')
    """
    size = float(count)
    for unit in _UNITS:
        if size < 999.95 or unit == _UNITS[-1]:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def amount_text(read: Amount, total: Amount | None = None) -> str:
    """Files, rows and bytes, against a total where it is given.

    >>> from geolake_nb.scan.explanation import Amount
    >>> amount_text(Amount(2, 1000, 5000), Amount(4, None, 20000))
    '2 of 4 files, 5.0 kB of 20.0 kB (25%)'
    >>> amount_text(Amount(1, 7, 0))
    '1 file, 7 rows, 0 B'
    """
    parts = [_of(read.files, None if total is None else total.files, "file")]
    if read.rows is not None and (total is None or total.rows is not None):
        parts.append(_of(read.rows, None if total is None else total.rows, "row"))
    size = bytes_text(read.bytes)
    if total is not None:
        share = f" ({share_text(read.bytes / total.bytes)})" if total.bytes else ""
        size = f"{size} of {bytes_text(total.bytes)}{share}"
    return ", ".join([*parts, size])


def share_text(share: float) -> str:
    """A share for people: a small one has more digits, and only zero is 0%.

    >>> share_text(0.25), share_text(0.0213), share_text(2e-5), share_text(0)
    ('25%', '2.1%', 'under 0.1%', '0%')
    """
    if 0 < share < 0.001:
        return "under 0.1%"
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"


def _of(count: int, total: int | None, noun: str) -> str:
    shown = f"{count:,}" if total is None else f"{count:,} of {total:,}"
    return f"{shown} {noun}{'' if (count if total is None else total) == 1 else 's'}"


def _lines(explanation: Explanation) -> Iterator[str]:
    version = "" if explanation.version is None else f", version {explanation.version}"
    yield explanation.verdict
    yield from wrapped(f"{explanation.location} ({explanation.format.name}{version})")
    yield from wrapped(f"where {_clip(str(explanation.where), 400)}", after="      ")
    for column, crs in explanation.query_crs.items():
        yield from wrapped(f"      {_clip(column, 60)} is queried in {crs_text(crs)}", after="      ")
    yield ""
    yield f"reads {amount_text(explanation.read, explanation.total)}"
    for level in explanation.levels:
        # The line above counts files, and a table is read or not.
        if level.name not in ("file", "table"):
            yield f"  {_of(level.kept, level.total, level.name)}"
    for heading, kept in (("kept", True), ("skipped", False)):
        amounts = {reason: amount for reason, amount in explanation.by_reason().items() if reason.kept is kept}
        if amounts:
            yield f"{heading}:"
        for reason, amount in amounts.items():
            counts = f"{_of(amount.files, None, 'file'):>16} {bytes_text(amount.bytes):>10}"
            yield f"  {reason.value:<26}{counts}  {reason.text}"
    yield from _details(explanation)
    complete = complete_text(explanation)
    if complete is not None:
        yield from wrapped(f"with complete bounds: {complete}", after="  ")
    for note in explanation.notes:
        yield from wrapped(f"note: {note}", after="      ")
    yield from _engines(explanation)
    if (step := explanation.next_step) is not None:
        # One line, whatever its length, to be copied.
        yield printable(f"next: {step.command}")


def crs_text(crs: str) -> str:
    """A CRS for people.

    >>> crs_text("EPSG:32633"), crs_text("my local grid")
    ('EPSG:32633 (WGS 84 / UTM zone 33N)', 'my local grid')
    """
    name, shown = Crs(crs).name, _clip(crs, 60)
    return shown if name in (crs, shown) else f"{shown} ({name})"


def _details(explanation: Explanation) -> Iterator[str]:
    details = list(explanation.details().items())
    for text, files in details[:_SHOWN_DETAILS]:
        yield from wrapped(f"  not usable in {_of(files, None, 'file')}: {_clip(text, 300)}", after="    ")
    if len(details) > _SHOWN_DETAILS:
        yield f"  and {len(details) - _SHOWN_DETAILS} more"


def complete_text(explanation: Explanation) -> str | None:
    """What the same filter would read if every file had bounds; `None` where that is the same."""
    complete = explanation.if_complete
    if complete.read is None:
        return complete.basis
    if complete.exact:
        same = complete.read == explanation.read
        return None if same else amount_text(complete.read, explanation.total)
    return f"about {amount_text(complete.read, explanation.total)}; {complete.basis}"


def _engines(explanation: Explanation) -> Iterator[str]:
    if not explanation.engines:
        return
    width = max(len(fact.engine) for fact in explanation.engines) + 2
    yield f"engines ({explanation.engines[0].as_of}):"
    answers = f"{'reads':<11}{'writes':<11}{'skips on geometry':<19}{'on geography':<12}"
    yield f"  {'':<{width}}{answers}".rstrip()
    for fact in explanation.engines:
        cells = f"{fact.reads.value:<11}{fact.writes.value:<11}{fact.skips_geometry.value:<19}"
        yield f"  {fact.engine:<{width}}{cells}{fact.skips_geography.value}"


def wrapped(text: str, *, after: str = "") -> list[str]:
    """The text in lines of at most 100 characters, the later ones indented with `after`."""
    # What comes from a table may hold control characters.
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return textwrap.wrap(shown, WIDTH, subsequent_indent=after, break_long_words=True) or [""]


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


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
    origin: object | None = None
    """The table that was asked, where it was an open one."""

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
    def cell_filters(self) -> tuple[CellFilter, ...]:
        """The cells that the query needs of a table partitioned by place: conditions for engines without bounds."""
        return tuple(cell_filters(self.where, self.snapshot, self.pruning.kept))

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

    @property
    def verdict(self) -> str:
        """How many files are read, and why not fewer."""
        from geolake_nb.scan.next_step import verdict_text

        return verdict_text(self)

    @property
    def next_step(self) -> NextStep | None:
        """The step after which the query would read less; `None` where there is none to suggest."""
        from geolake_nb.scan.next_step import explanation_step

        return explanation_step(self)

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
        | `verdict` | how many files are read, and why not fewer |
        | `next_step` | the command after which the query would read less, or null |
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
            "verdict": self.verdict,
            "next_step": None if (step := self.next_step) is None else step.command,
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
