"""Whether this package may write to a Delta table: what its writer features require, for each kind of change."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, RefusedError
from geolake_nb.formats.delta.features import MAX_WRITER_VERSION
from geolake_nb.text.untrusted_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.formats.delta.details import DeltaMetadata
    from geolake_nb.model.snapshot import Protocol

__all__ = ["CHAR_VARCHAR", "VARCHAR", "Doing", "constraints", "require_writable"]

CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""In the metadata of a top-level field: its type as declared in Spark, including nested types."""


class Doing(enum.Enum):
    """What a commit does to a table; the value is for messages."""

    UPDATE_STATS = "update the statistics of files"
    """The same files with other statistics."""
    REWRITE = "rewrite files"
    """New files with the same rows."""
    APPEND = "add rows"
    """New files with new rows."""
    SCHEMA = "change the schema or the properties"
    """New metadata."""


_ELSEWHERE = "change it through its catalog"
_OTHER_ENGINE = "let Spark do it"
_IN_FILES = {Doing.REWRITE, Doing.APPEND}
_ALL = set(Doing)

# Features that need something that is not implemented here.
_REFUSED: tuple[tuple[re.Pattern[str], set[Doing], str], ...] = (
    (re.compile(r"catalogManaged|catalogOwned-preview|coordinatedCommits-preview"), _ALL, _ELSEWHERE),
    (re.compile(r"redirect(ReaderWriter|WriterOnly)-preview"), _ALL, "change the table that it redirects to"),
    # Delta, Row tracking: new files need row ids that no other commit assigns.
    (re.compile(r"rowTracking"), _IN_FILES, _OTHER_ENGINE),
    # Whoever commits also writes Iceberg metadata for these tables: types, ids and files must be compatible.
    (re.compile(r"iceberg(Writer)?CompatV\d+"), _IN_FILES | {Doing.SCHEMA}, _OTHER_ENGINE),
    (re.compile(r"materializePartitionColumns"), _IN_FILES, _OTHER_ENGINE),
)
# Features that many tables enable without using them: the key of the field metadata that shows the use.
_USED_IN_FIELD = {
    "allowColumnDefaults": "CURRENT_DEFAULT",
    "generatedColumns": "delta.generationExpression",
    "identityColumns": "delta.identity.start",
    "invariants": "delta.invariants",
}
_CONSTRAINT = "delta.constraints."
_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
VARCHAR = re.compile(r"varchar\((\d+)\)", re.IGNORECASE)
"""The declared type of a string of limited length."""


def require_writable(
    protocol: Protocol,
    metadata: DeltaMetadata,
    *,
    doing: Doing,
    removes_rows: bool = False,
    moves_files: bool = False,
    where: str | None = None,
) -> None:
    """Raise RefusedError, which names the feature, for a change that is not supported.

    `removes_rows` is for a commit that removes rows, such as undoing an append, `moves_files` for one that adds or
    removes data files without writing any, such as undoing a delete.

    >>> from geolake_nb.formats.delta.details import DeltaMetadata
    >>> from geolake_nb.formats.delta.features import read_protocol
    >>> metadata = DeltaMetadata.of({"schemaString": '{"type":"struct","fields":[]}'})
    >>> tracked = read_protocol(
    ...     {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]}
    ... )
    >>> require_writable(tracked, metadata, doing=Doing.UPDATE_STATS)
    >>> require_writable(tracked, metadata, doing=Doing.REWRITE)
    Traceback (most recent call last):
    geolake_nb.errors.RefusedError: the feature 'rowTracking' does not let us rewrite files; let Spark do it
    """
    # Delta, Protocol evolution: an engine that does not know the writer version may read but must not write.
    version = protocol.numbers.get("minWriterVersion", 0)
    if version > MAX_WRITER_VERSION:
        raise RefusedError(
            f"the table needs writer version {version}; versions up to {MAX_WRITER_VERSION} are known: it can be"
            " read, not changed",
            where=where,
            remedy="change it with an engine that knows the version",
        )
    names = [feature.name for feature in protocol.features]
    unknown = [feature.name for feature in protocol.features if not feature.known]
    if unknown:
        _refuse(unknown[0], doing, "use an engine that knows the feature", where, why="is not known here, and ")
    for name in names:
        for pattern, refused, remedy in _REFUSED:
            if doing in refused and pattern.fullmatch(name):
                _refuse(name, doing, remedy, where)
    if removes_rows and metadata.configuration.get("delta.appendOnly", "").lower() == "true":
        raise RefusedError(
            "the property delta.appendOnly does not allow rows to be removed",
            where=where,
            remedy="set it to false first if that is intended",
        )
    if (moves_files or doing in _IN_FILES) and metadata.configuration.get(_MANIFESTS, "").lower() == "true":
        # Whoever commits also writes the symlink manifest that Presto and Athena read; an outdated one hides rows.
        raise RefusedError(
            f"the property {_MANIFESTS} requires a new symlink manifest, which is not supported here",
            where=where,
            remedy="let Spark do it, or set the property to false first",
        )
    if doing not in _IN_FILES:
        return
    fields = list(_fields(_schema(metadata, where)))
    if any(field.get("type") == "variant" for field in fields):
        _refuse("variantType", doing, _OTHER_ENGINE, where)
    if doing is not Doing.APPEND:
        return
    if constraints(metadata.configuration):
        _refuse("checkConstraints", doing, _OTHER_ENGINE, where)
    for name, mark in _USED_IN_FIELD.items():
        for field in fields:
            field_metadata = field.get("metadata")
            if isinstance(field_metadata, dict) and mark in field_metadata:
                _refuse(name, doing, _OTHER_ENGINE, where, column=str(field.get("name")))
    for field in fields:
        field_metadata = field.get("metadata")
        declared = str(field_metadata.get(CHAR_VARCHAR, "")) if isinstance(field_metadata, dict) else ""
        # The length of a VARCHAR is checked when the rows are written; padding a CHAR is not supported.
        if declared and not VARCHAR.fullmatch(declared):
            raise RefusedError(
                f"the column {str(field.get('name'))[:60]!r} is of type {declared[:80]}, whose lengths are not enforced"
                " here",
                where=where,
                remedy=_OTHER_ENGINE,
            )


def constraints(configuration: Mapping[str, str]) -> dict[str, str]:
    """The CHECK constraints in the properties of a table: the SQL of each by its name.

    Spark accepts the prefix in upper or lower case.

    >>> constraints({"DELTA.CONSTRAINTS.pos": "id > 0", "delta.appendOnly": "true"})
    {'pos': 'id > 0'}
    """
    return {
        key[len(_CONSTRAINT) :].lower(): sql
        for key, sql in configuration.items()
        if key.lower().startswith(_CONSTRAINT)
    }


def _refuse(
    name: str, doing: Doing, remedy: str, where: str | None, *, why: str = "", column: str | None = None
) -> None:
    used = "" if column is None else f", used by the column {column[:60]!r},"
    raise RefusedError(f"the feature {name!r}{used} {why}does not let us {doing.value}", where=where, remedy=remedy)


def _schema(metadata: DeltaMetadata, where: str | None) -> Any:
    return load_json(metadata.schema_string, what="the schema", where=where, error=CorruptTableError)


def _fields(value: Any) -> Iterator[dict[str, Any]]:
    """Every field of a schema, and every element, key and value as if it were one; the depth was checked on loading."""
    waiting = [value]
    while waiting:
        type_ = waiting.pop()
        if not isinstance(type_, dict):
            continue
        for field in type_.get("fields") or []:
            if isinstance(field, dict):
                yield field
                waiting.append(field.get("type"))
        for key in ("elementType", "keyType", "valueType"):
            if key in type_:
                yield {"type": type_[key]}
                waiting.append(type_[key])
