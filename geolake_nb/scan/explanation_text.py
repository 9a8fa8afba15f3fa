"""How an explanation reads in a terminal of 100 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from geolake_nb.model.crs import Crs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.scan.explanation import Amount, Explanation

__all__ = ["amount_text", "bytes_text", "complete_text", "explanation_text", "share_text", "wrapped"]

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
    yield from wrapped(f"{explanation.location} ({explanation.format.name}{version})")
    yield from wrapped(f"where {_clip(str(explanation.where), 400)}", after="      ")
    for column, crs in explanation.query_crs.items():
        yield from wrapped(f"      {_clip(column, 60)} is queried in {crs_text(crs)}", after="      ")
    yield ""
    yield f"reads {amount_text(explanation.read, explanation.total)}"
    for level in explanation.levels:
        # The line above counts files; the table itself is always read.
        if level.name != "file" and not (level.name == "table" and level.kept):
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
