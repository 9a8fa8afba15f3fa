"""A rule of the check: its name and source, the evidence that it needs, and how it finds a fault."""

from __future__ import annotations

import enum
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from geolake_nb.checks.finding import Finding, Scope, SkippedCheck
from geolake_nb.model.table_format import SpecReference
from geolake_nb.model.types import StringType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from geolake_nb.checks.check import Evidence
    from geolake_nb.checks.finding import Severity
    from geolake_nb.model.schema import Schema

__all__ = [
    "COLLATION_FEATURE",
    "COLLATION_IDENTIFIERS",
    "COLLATION_READERS",
    "COLLATION_SCHEMA",
    "COLLATION_VERSIONS",
    "COLLATION_WRITERS",
    "DELTA_FEATURE",
    "DELTA_PARQUET",
    "DELTA_STATISTICS",
    "DELTA_TYPES",
    "HAVASU_GEOMETRY_BOUNDS",
    "HAVASU_METADATA",
    "HAVASU_RASTER",
    "HAVASU_RASTER_BOUNDS",
    "HAVASU_RASTER_MODEL",
    "HAVASU_RATIONALE",
    "ICEBERG_BOUNDS",
    "ICEBERG_FILE_SIZE",
    "ICEBERG_TYPES",
    "PARQUET_BOX",
    "PARQUET_CRS",
    "PARQUET_CUSTOM_CRS",
    "PARQUET_LOGICAL",
    "PARQUET_TYPES",
    "Fault",
    "Needs",
    "Rule",
    "Skip",
    "collated_columns_scope",
    "columns_scope",
    "geo_columns_scope",
]


class Needs(enum.Enum):
    """The evidence that a rule needs beside the metadata of the table; the value is the reason when it is missing."""

    MISSING = "the existence of data files was not checked"
    ROW_GROUPS = "the row groups were not read"
    FOOTERS = "the Parquet footers were not read"
    DEEP = "the data was not scanned (--deep)"
    RASTERS = "the rasters were not read"
    WKB = "the binary columns were not sampled"

    @property
    def seen_in(self) -> str:
        """Where a check reads it.

        >>> Needs.DEEP.seen_in
        'the data, which a check reads with --deep'
        """
        return _SEEN_IN[self]


_PLACEHOLDER = re.compile(r" [A-Z=]+$")
"""A placeholder that only a fault can fill in, such as COLUMN=TYPE."""
_FOOTERS = "the Parquet footers, which a check reads without --metadata-only"
_SEEN_IN = {
    Needs.MISSING: "the data files, which a check opens without --metadata-only",
    Needs.ROW_GROUPS: _FOOTERS,
    Needs.FOOTERS: _FOOTERS,
    Needs.DEEP: "the data, which a check reads with --deep",
    Needs.RASTERS: "the raster columns, which a check reads without --metadata-only; their bands with --deep",
    Needs.WKB: "a few values of one data file, which a check reads without --metadata-only",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that a rule found; the rule supplies the rest of the finding."""

    what: str
    scope: Scope = field(default_factory=Scope)
    spec: SpecReference | None = None
    """Set where the format has another document; default: that of the rule."""
    fix_column: str | None = None
    """The column that the command of the rule names, where it names one."""
    severity: Severity | None = None
    """Set where this case is less severe; default: that of the rule."""
    command: str | None = None
    """The whole command, where the rule's does not suit this fault."""
    no_command: str | None = None
    """Why no command fixes this fault, where one fixes others of the rule."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Why a rule cannot be checked."""

    why: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: an id such as `bounds.missing`, and a function that yields what breaks it."""

    id: str
    severity: Severity
    summary: str
    """What is wrong with a table that breaks it, in one line."""
    why: str
    """Why that matters, in a sentence for a data engineer who is new to maps."""
    spec: SpecReference
    find: Callable[[Evidence], Iterable[Fault | Skip]]
    fix: str | None = None
    """The command, with `{table}` where the table goes, and `{column}` where a column does."""
    formats: frozenset[str] | None = None
    """The formats that it is about; `None` for all."""
    needs: Needs | None = None
    no_command: str | None = None
    """Why no command fixes it, and what does, where there is none or it does not suit all faults."""

    @property
    def about(self) -> tuple[str, ...]:
        """What is wrong, why that matters, and where the evidence is: a sentence for each."""
        seen = "the metadata of the table" if self.needs is None else self.needs.seen_in
        kinds = sorted(name.capitalize() for name in self.formats or ())
        tables = f" of {' and '.join(kinds)} tables" if kinds else ""
        return f"{self.summary[0].upper()}{self.summary[1:]}.", self.why, f"A finding{tables} from {seen}."

    def check(self, evidence: Evidence) -> Iterator[Finding | SkippedCheck]:
        """The findings of the rule; nothing when all is well or the rule is for other formats."""
        if self.formats is not None and evidence.snapshot.format.name not in self.formats:
            return
        if self.needs is not None and not evidence.has(self.needs):
            # Without a geo column there is nothing to check.
            if evidence.concerns(self.needs):
                yield SkippedCheck(self.id, self.needs.value)
            return
        for fault in self.find(evidence):
            if isinstance(fault, Skip):
                yield SkippedCheck(self.id, fault.why)
            else:
                yield self._finding(fault, evidence.snapshot.location)
        if self.needs is not None and evidence.concerns(self.needs) and (why := evidence.unread(self.needs)):
            yield SkippedCheck(self.id, why)

    def _finding(self, fault: Fault, location: str) -> Finding:
        fix = self._command(fault, location)
        no_command = None if fix is not None else fault.no_command or self.no_command
        severity = fault.severity or self.severity
        return Finding(self.id, severity, fault.scope, fault.what, fault.spec or self.spec, fix, no_command)

    def _command(self, fault: Fault, location: str) -> str | None:
        fix = self.fix
        if fault.command is not None or fault.no_command is not None or fix is None or _PLACEHOLDER.search(fix):
            return fault.command
        if "{column}" in fix:
            if fault.fix_column is None:
                return None
            fix = fix.replace("{column}", shlex.quote(fault.fix_column))
        # Only the marker is replaced: braces in a location are part of it.
        return fix.replace("{table}", shlex.quote(location))


_DELTA = "Delta geospatial types"
_COLLATIONS = "Delta collations"
_HAVASU = "Havasu table spec"
_ICEBERG = "Iceberg table spec v3"
_PARQUET = "Parquet geospatial"

DELTA_FEATURE = SpecReference(_DELTA, "Geospatial table feature")
DELTA_TYPES = SpecReference(_DELTA, "Type definitions")
DELTA_STATISTICS = SpecReference(_DELTA, "Per-file statistics")
DELTA_PARQUET = SpecReference(_DELTA, "Geospatial data in Parquet")

COLLATION_FEATURE = SpecReference(_COLLATIONS, "Collations Table Feature")
COLLATION_READERS = SpecReference(_COLLATIONS, "Reader Requirements for Collations")
COLLATION_WRITERS = SpecReference(_COLLATIONS, "Writer Requirements for Collations")
COLLATION_IDENTIFIERS = SpecReference(_COLLATIONS, "Collation identifiers")
COLLATION_SCHEMA = SpecReference(_COLLATIONS, "Specifying collations in the table schema")
COLLATION_VERSIONS = SpecReference(_COLLATIONS, "Collation versions")

HAVASU_RATIONALE = SpecReference(_HAVASU, "Rationale")
HAVASU_METADATA = SpecReference(_HAVASU, "Table Metadata")
HAVASU_GEOMETRY_BOUNDS = SpecReference(_HAVASU, "Geometry bounds")
HAVASU_RASTER_BOUNDS = SpecReference(_HAVASU, "Raster bounds")
HAVASU_RASTER_MODEL = SpecReference(_HAVASU, "Raster data model")
HAVASU_RASTER = SpecReference(_HAVASU, "Parquet Data Type Mappings, Raster")

ICEBERG_BOUNDS = SpecReference(_ICEBERG, "Bounds for Geometry and Geography")
ICEBERG_FILE_SIZE = SpecReference("Iceberg configuration", "write.target-file-size-bytes")
ICEBERG_TYPES = SpecReference(_ICEBERG, "Primitive Types")

PARQUET_BOX = SpecReference(_PARQUET, "Bounding Box")
PARQUET_CUSTOM_CRS = SpecReference(_PARQUET, "CRS Customization")
PARQUET_CRS = SpecReference(_PARQUET, "Coordinate Reference System")
PARQUET_LOGICAL = SpecReference(_PARQUET, "Logical Types")
PARQUET_TYPES = SpecReference(_PARQUET, "Geospatial Types")


def geo_columns_scope(schema: Schema) -> Scope:
    """The columns with a geo type."""
    return columns_scope(tuple(path for path, _ in schema.geo_columns()))


def collated_columns_scope(schema: Schema) -> Scope:
    """The string columns with a collation."""
    strings = [(path, field.type) for path, field in schema.walk() if isinstance(field.type, StringType)]
    return columns_scope(tuple(path for path, type_ in strings if type_.collation is not None))


def columns_scope(columns: tuple[str, ...]) -> Scope:
    """These columns, of which the first few are named."""
    shown = ", ".join(columns[:3]) + (", …" if len(columns) > 3 else "")
    return Scope(shown or None, count=len(columns), unit="columns")
