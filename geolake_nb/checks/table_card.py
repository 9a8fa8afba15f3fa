"""A table at a glance: format, protocol, columns, how much of it has bounds, and which engines can use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from geolake_nb.checks.rules.untyped_wkb import typing_command, typing_hint
from geolake_nb.scan.coverage import coverage
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.layout import cheap_layout
from geolake_nb.text.messages import part_of, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.wkb_sample import WkbColumn

__all__ = ["card_dict", "layout_sentence", "table_card"]


def table_card(snapshot: Snapshot, untyped: Sequence[WkbColumn] = ()) -> str:
    """The card as text in 100 columns; `untyped` are binary columns that hold WKB."""
    return "\n".join(_lines(snapshot, untyped))


def card_dict(snapshot: Snapshot, untyped: Sequence[WkbColumn] = ()) -> dict[str, Any]:
    """The card as plain values.

    `location, format, version, timestamp, protocol, features, files, rows, bytes, schema, partition_columns, coverage,
    engines, untyped_wkb, layout`.
    """
    table = snapshot.files.table
    layout = cheap_layout(snapshot)
    return {
        "location": snapshot.location,
        "format": snapshot.format.name,
        "version": snapshot.version,
        "timestamp": None if snapshot.timestamp is None else snapshot.timestamp.isoformat(),
        "protocol": snapshot.protocol.summary,
        "features": [
            {
                "name": feature.name,
                "meaning": feature.meaning,
                "needed_to_read": feature.needed_to_read,
                "needed_to_write": feature.needed_to_write,
                "known": feature.known,
            }
            for feature in snapshot.protocol.features
        ],
        "files": len(snapshot.files),
        "rows": pc.sum(table["rows"], min_count=0, skip_nulls=False).as_py(),
        "bytes": pc.sum(table["bytes"]).as_py() or 0,
        "schema": str(snapshot.schema).splitlines(),
        "partition_columns": list(snapshot.partition_columns),
        "coverage": [column_coverage.to_dict() for column_coverage in coverage(snapshot)],
        "engines": [fact.to_dict() for fact in engine_facts(snapshot)],
        "untyped_wkb": [{"column": column.path, "command": typing_command(snapshot, column)} for column in untyped],
        "layout": None if layout is None else layout.to_dict(),
    }


def layout_sentence(layout: Mapping[str, Any]) -> str:
    """How much a query reads, from the layout of the card."""
    decayed = "; decayed: geolake maintain has a plan" if layout["decayed"] else ""
    return f"a query reads {layout['share']:.1%} of the bytes, {layout['best']:.1%} if clustered anew{decayed}"


def _lines(snapshot: Snapshot, untyped: Sequence[WkbColumn]) -> Iterator[str]:
    card = card_dict(snapshot)
    version = "" if snapshot.version is None else f", version {snapshot.version}"
    when = "" if snapshot.timestamp is None else f" of {snapshot.timestamp:%Y-%m-%d %H:%M:%S} UTC"
    yield printable(snapshot.location)
    yield f"{snapshot.format.title}{version}{when}; {card['protocol']}"
    rows = "unknown rows" if card["rows"] is None else plural(card["rows"], "row")
    yield f"{plural(card['files'], 'file')}, {rows}, {bytes_text(card['bytes'])}"
    features = [feature for feature in snapshot.protocol.features if feature.needed_to_read or not feature.known]
    for feature in features:
        yield f"  needs {printable(feature.name)}: {feature.meaning}"
    yield ""
    yield from (f"  {printable(line)}" for line in str(snapshot.schema).splitlines())
    bounded = coverage(snapshot)
    if bounded:
        yield ""
    for bounds in bounded:
        share = "no files" if bounds.share is None else f"{bounds.share:.0%} of the bytes"
        counts = part_of(bounds.covered.files, bounds.total.files, "file")
        yield f"bounds of {printable(bounds.column)}: {counts}, {share}"
    if card["layout"] is not None:
        yield f"layout by {printable(card['layout']['column'])}: {layout_sentence(card['layout'])}"
    if untyped:
        yield ""
    for column in untyped:
        yield printable(typing_hint(snapshot, column))
    facts = engine_facts(snapshot)
    width = max([28, *(len(fact.engine) + 2 for fact in facts)])
    if facts:
        yield f"\n{'engine':{width}}{'reads':11}{'writes':11}skips on geometry, on geography"
    for fact in facts:
        skips = f"{fact.skips_geometry.value}, {fact.skips_geography.value}"
        yield f"{fact.engine:{width}}{fact.reads.value:11}{fact.writes.value:11}{skips}"
