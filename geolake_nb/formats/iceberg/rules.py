"""Rules about the metadata of an Iceberg table: what it must declare for the types that it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from geolake_nb.checks.finding import Severity
from geolake_nb.checks.rule import ICEBERG_TYPES, Fault, Rule, columns_scope, geo_columns_scope
from geolake_nb.formats.iceberg.snapshot import IcebergDetails
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import is_quoted_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.checks.check import Evidence
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["ICEBERG_PROTOCOL_RULES"]

_ICEBERG = frozenset({"iceberg"})
# The folder also has the files of older snapshots, whose rows would be duplicated.
_NEW_TABLE = (
    "create a new table from the data files; where none was ever replaced and no row deleted, geolake convert"
    " 'TABLE/data/*.parquet' NEW --format iceberg does that"
)


def _iceberg_version(evidence: Evidence) -> Iterator[Fault]:
    scope = geo_columns_scope(evidence.snapshot.schema)
    version = evidence.snapshot.protocol.numbers.get("format-version", 0)
    if scope.count and version < 3:
        yield Fault(f"geometry and geography need format version 3; the table has {version}", scope)


def _quoted_type(evidence: Evidence) -> Iterator[Fault]:
    columns = _quoted_type_columns(evidence.snapshot)
    if columns:
        what = "type texts with quotes around the CRS, as in geometry('EPSG:3857'): others read them as part of it"
        yield Fault(what, columns_scope(columns))


def _quoted_type_columns(snapshot: Snapshot) -> tuple[str, ...]:
    """The columns of an Iceberg table whose type text has PyIceberg's quotes."""
    if not isinstance(snapshot.details, IcebergDetails):
        return ()
    metadata = snapshot.details.metadata
    schema = metadata.schemas.get(_schema_id(snapshot, metadata.current_schema_id))
    return tuple(dict.fromkeys(join_path(path) for path in _quoted(schema, ())))


def _schema_id(snapshot: Snapshot, current: int) -> int:
    return current if snapshot.schema.schema_id is None else snapshot.schema.schema_id


def _quoted(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, str) and is_quoted_text(value):
        yield path
    elif isinstance(value, Mapping):
        for field in value.get("fields") or ():
            yield from _quoted(field.get("type"), (*path, str(field.get("name"))))
        for name in ("element", "key", "value"):
            yield from _quoted(value.get(name), (*path, name))


ICEBERG_PROTOCOL_RULES = (
    Rule(
        "protocol.iceberg_version",
        Severity.ERROR,
        "an Iceberg table with geo types below format version 3",
        "Engines expect no geo types in versions 1 and 2, and fail on the schema.",
        ICEBERG_TYPES,
        _iceberg_version,
        formats=_ICEBERG,
        no_command=f"Iceberg cannot read the schema to raise its version: {_NEW_TABLE}",
    ),
    Rule(
        "protocol.quoted_type",
        Severity.ERROR,
        "an Iceberg type text with quotes around the CRS, as PyIceberg writes it",
        "Other engines read the quotes as part of the CRS name, and cannot read the table or locate its data.",
        ICEBERG_TYPES,
        _quoted_type,
        formats=_ICEBERG,
        no_command="Iceberg for Java, which commits changes, cannot read the schema, and PyIceberg writes no other"
        f" form: {_NEW_TABLE}",
    ),
)
