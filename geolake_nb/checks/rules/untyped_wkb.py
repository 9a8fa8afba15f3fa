"""Rules about columns that lack a geo type, and what to do about plain binary columns with WKB."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from geolake_nb.checks.finding import Scope, Severity
from geolake_nb.checks.rule import PARQUET_CRS, PARQUET_LOGICAL, Fault, Needs, Rule, Skip
from geolake_nb.model.crs import CRS84
from geolake_nb.model.types import to_delta_text
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.checks.check import Evidence
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.wkb_sample import WkbColumn

__all__ = ["GEO_RULES", "crs_sentence", "typing_command", "typing_hint", "why_no_command"]


def typing_command(snapshot: Snapshot, column: WkbColumn) -> str | None:
    """The command that gives the column a type, `None` where there is none (see `why_no_command`)."""
    template = snapshot.format.type_command
    if not snapshot.format.has_versions and not column.is_iso:
        # Pages of EWKB have to be rewritten: Parquet's geo types hold ISO WKB.
        template = "geolake rewrite {table} --column {column}"
    if template is None or column.type is None:
        return None
    word = shlex.quote(f"{column.path}={to_delta_text(column.type)}")
    # Only the markers are replaced: braces in a location are part of it.
    before, _, after = template.partition("{table}")
    return f"{before}{shlex.quote(snapshot.location)}{after.replace('{column}', word)}"


def why_no_command(snapshot: Snapshot, column: WkbColumn) -> str:
    """Why no command gives the column a type, and what does."""
    if column.type is None:
        return "its values have several SRIDs: give them one CRS where they are made"
    # Iceberg, Schema Evolution: the promotions of types are listed, and binary to geometry is none of them.
    return (
        "Iceberg does not let a column change from binary to geometry: write the rows to a new table, with"
        f" gl.write(rows, path, format='iceberg', columns={{{column.path!r}: {to_delta_text(column.type)!r}}})"
    )


def crs_sentence(column: WkbColumn) -> str:
    """Where the CRS of the suggested type comes from."""
    if column.type is None:
        return f"SRIDs from {column.srids[0]} to {column.srids[-1]}"
    crs = column.type.crs
    if crs.is_unknown:
        return "no CRS is stored, and the coordinates are not degrees: replace SRID:0 by their CRS"
    if any(srid > 0 for srid in column.srids):
        return f"their SRID is {column.srids[0]}"
    return f"no CRS is stored; the coordinates could be degrees, so {CRS84} is suggested: name another if it is not"


def typing_hint(snapshot: Snapshot, column: WkbColumn) -> str:
    """What the card and the errors of explain and map say.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.formats.registry import DELTA
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> from geolake_nb.scan.wkb_sample import WkbColumn
    >>> table = Snapshot(DELTA, "/data/roads", 0, None, Schema(), Protocol(""), None)
    >>> typing_hint(table, WkbColumn("geom", 9, in_degrees=True))
    "geom holds WKB without a geo type; give it one with: geolake enable /data/roads 'geom=geometry(OGC:CRS84)'"
    """
    name = printable(column.path, 100)
    command = typing_command(snapshot, column)
    what = why_no_command(snapshot, column) if command is None else f"give it one with: {command}"
    return f"{name} holds WKB without a geo type; {what}"


def _untyped_wkb(evidence: Evidence) -> Iterator[Fault | Skip]:
    sample, snapshot = evidence.wkb, evidence.snapshot
    assert sample is not None
    for column in sample.columns:
        command = typing_command(snapshot, column)
        what = f"a plain binary column whose {column.values} sampled values are all valid WKB: {crs_sentence(column)}"
        yield Fault(
            what,
            Scope(column.path),
            None if snapshot.format.types_spec == PARQUET_CRS else snapshot.format.types_spec,
            command=command,
            no_command=None if command is not None else why_no_command(snapshot, column),
        )
    if sample.unread and evidence.count:
        yield Skip("no value of a binary column could be read")


GEO_RULES = (
    Rule(
        "geo.untyped_wkb",
        Severity.WARNING,
        "a plain binary column whose sampled values are all valid WKB",
        "No engine knows that the column holds geometries: no file is skipped, nothing is drawn, and the CRS is lost.",
        PARQUET_LOGICAL,
        _untyped_wkb,
        "geolake enable {table} COLUMN=TYPE",
        formats=frozenset({"delta", "iceberg", "parquet"}),
        needs=Needs.WKB,
        no_command="Iceberg does not let a column change from binary to geometry: write the rows to a new table",
    ),
)
