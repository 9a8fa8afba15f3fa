"""What the protocol of a Delta table requires, and whether this package may write to the table."""

from __future__ import annotations

import enum
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, RefusedError, UnsupportedTableError
from geolake_nb.model.snapshot import Feature, Protocol
from geolake_nb.text.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.formats.delta.details import DeltaMetadata

__all__ = [
    "CHAR_VARCHAR",
    "COLLATIONS_PREVIEWS",
    "GEOSPATIAL_PREVIEWS",
    "MAX_READER_VERSION",
    "MAX_WRITER_VERSION",
    "VARCHAR",
    "Doing",
    "constraints",
    "feature",
    "read_protocol",
    "refuse_unreadable",
    "require_writable",
]

GEOSPATIAL_PREVIEWS = ("geospatial-dev", "geospatial-preview")
"""The names of the feature `geospatial` before its final one."""
COLLATIONS_PREVIEWS = ("collations-preview",)
"""The same of `collations`."""

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7

_WRITERS = {
    "allowColumnDefaults": "Columns may have a default value for rows that omit them.",
    "appendOnly": "Rows cannot be changed or removed while the property delta.appendOnly is true.",
    "changeDataFeed": "Writers store the changed rows of an update or delete in separate files.",
    "checkConstraints": "Every row satisfies the SQL conditions in the properties delta.constraints.*.",
    "checkpointProtection": "Log files before a version may be cleaned up only by engines that support its features.",
    "clustering": "Rows with similar values in the clustering columns are in the same files.",
    "collations": "Strings may compare by a collation, and files may have statistics for it.",
    **dict.fromkeys(COLLATIONS_PREVIEWS, "The preview of collations: strings may compare by a collation."),
    "coordinatedCommits-preview": "Commits go through a coordinator, which may know versions that the log lacks.",
    "domainMetadata": "The log may contain named metadata for other features and for users.",
    "generatedColumns": "Columns may be computed from others by a SQL expression.",
    "icebergCompatV1": "Files and statistics are written so that Iceberg metadata can be generated from them.",
    "icebergCompatV2": "As icebergCompatV1, with ids for elements, keys and values too.",
    "icebergCompatV3": "As icebergCompatV2 for Iceberg v3, with deletion vectors and row tracking.",
    "icebergWriterCompatV1": "Field ids and names are also those that an Iceberg writer would choose.",
    "icebergWriterCompatV3": "As icebergWriterCompatV1 for Iceberg v3.",
    "identityColumns": "Columns may get unique numbers that the writer assigns.",
    "inCommitTimestamp": "Each commit stores its own timestamp, which increases from version to version.",
    "inCommitTimestamp-preview": "The preview of inCommitTimestamp: each commit stores its own timestamp.",
    "invariants": "Columns may have SQL conditions in their metadata that every row satisfies.",
    "materializePartitionColumns": "Data files hold the partition columns too.",
    "redirectWriterOnly-preview": "Writers may be redirected to another table that the properties name.",
    "rowTracking": "Every row has an id and the version of its last change, kept through rewrites.",
}
_READERS = {
    "catalogManaged": "A catalog decides which commits count; the newest may be known to the catalog alone.",
    "catalogOwned-preview": "The preview of catalogManaged: a catalog decides which commits count.",
    "columnMapping": "Files and statistics name columns by physical names or ids, so that columns can be renamed.",
    "deletionVectors": "Files may have rows that a bitmap marks as deleted.",
    "geospatial": "Columns may have the types geometry and geography, with boxes in the statistics.",
    **dict.fromkeys(
        GEOSPATIAL_PREVIEWS, "The preview of geospatial: columns may have the types geometry and geography."
    ),
    "redirectReaderWriter-preview": "Readers and writers may be redirected to another table that the properties name.",
    "timestampNtz": "Columns may hold timestamps without time zone.",
    "typeWidening": "Columns may have changed to a wider type, so that old files have the narrow one.",
    "typeWidening-preview": "The preview of typeWidening: columns may have changed to a wider type.",
    "v2Checkpoint": "Checkpoints may be in files named by UUIDs and in sidecar files.",
    "vacuumProtocolCheck": "VACUUM must check the protocol before it removes files.",
    "variantShredding": "Variant values may be stored in part as separate columns.",
    "variantShredding-preview": "The preview of variantShredding.",
    "variantType": "Columns may hold semi-structured values.",
    "variantType-preview": "The preview of variantType: columns may hold semi-structured values.",
}
# Delta, Table features: the features that older protocol versions imply.
_IMPLIED_BY_WRITER = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}


def feature(name: str) -> Feature:
    """The feature of that name, in the lists that its definition requires.

    >>> feature("geospatial").needed_to_read, feature("collations").needed_to_read
    (True, False)
    >>> feature("fromTheFuture").known
    False
    """
    if name in _READERS:
        return Feature(name, _READERS[name], needed_to_read=True)
    if name in _WRITERS:
        return Feature(name, _WRITERS[name])
    return Feature(name, "Unknown feature.", known=False)


def read_protocol(action: Mapping[str, Any], *, where: str | None = None) -> Protocol:
    """The protocol of a `protocol` action, with the features that old version numbers imply.

    Each feature is needed to read if `readerFeatures` names it, and needed to write if `writerFeatures` does, whatever
    its definition requires: `check` compares the two.

    >>> protocol = read_protocol({"minReaderVersion": 1, "minWriterVersion": 3})
    >>> protocol.summary, [feature.name for feature in protocol.features]
    ('reader 1, writer 3', ['appendOnly', 'checkConstraints', 'invariants'])
    >>> names = [{item.name for item in read_protocol({"minReaderVersion": reader, "minWriterVersion": 5}).features}
    ...     for reader in (1, 2)]
    >>> names[1] - names[0]
    {'columnMapping'}
    >>> read_protocol({"minReaderVersion": 9, "minWriterVersion": 7})
    Traceback (most recent call last):
    geolake_nb.errors.UnsupportedTableError: the table needs reader version 9; versions up to 3 are known
    """
    reader = _version(action, "minReaderVersion", where)
    writer = _version(action, "minWriterVersion", where)
    if reader > MAX_READER_VERSION:  # readers need not know the writer version, which `require_writable` checks
        raise UnsupportedTableError(
            f"the table needs reader version {reader}; versions up to {MAX_READER_VERSION} are known", where=where
        )
    to_read = set(_names(action, "readerFeatures", where, needed=reader == MAX_READER_VERSION))
    to_write = set(_names(action, "writerFeatures", where, needed=writer == MAX_WRITER_VERSION))
    if writer < MAX_WRITER_VERSION:
        to_write |= {name for since, names in _IMPLIED_BY_WRITER.items() if writer >= since for name in names}
        if reader < 2:  # Delta, Column mapping: also needs reader 2, so that writer 5 alone does not imply it
            to_write.discard("columnMapping")
    if reader == 2:  # the only feature that reader version 2 implies
        to_read.add("columnMapping")
    features = tuple(
        replace(feature(name), needed_to_read=name in to_read, needed_to_write=name in to_write)
        for name in sorted(to_read | to_write)
    )
    numbers = {"minReaderVersion": reader, "minWriterVersion": writer}
    return Protocol(f"reader {reader}, writer {writer}", features, numbers)


def refuse_unreadable(protocol: Protocol, *, where: str | None = None) -> None:
    """Raise for an unknown reader feature.

    >>> refuse_unreadable(Protocol("reader 3, writer 7", (feature("columnMapping"),)))
    >>> refuse_unreadable(Protocol("reader 3, writer 7", (Feature("nextGen", "", True, known=False),)))
    Traceback (most recent call last):
    geolake_nb.errors.UnsupportedTableError: the table needs the unknown reader feature 'nextGen'; ...
    """
    # Delta, Table features: a reader must not read a table with an unknown reader feature: it may change what files and
    # statistics mean.
    unknown = [feature.name for feature in protocol.features if feature.needed_to_read and not feature.known]
    if unknown:
        named = ", ".join(repr(name) for name in unknown)
        raise UnsupportedTableError(
            f"the table needs the unknown reader feature{'s' if len(unknown) > 1 else ''} {named}",
            where=where,
            remedy="allow unknown features to read its log anyway; files and statistics may then be misinterpreted",
        )


def _version(action: Mapping[str, Any], key: str, where: str | None) -> int:
    number = action.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise CorruptTableError(f"the protocol has no {key}", where=where)
    return number


def _names(action: Mapping[str, Any], key: str, where: str | None, *, needed: bool) -> list[str]:
    names = action.get(key)
    if names is None and not needed:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CorruptTableError(f"the protocol has no list of {key}, which its version requires", where=where)
    return names


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
    >>> from geolake_nb.formats.delta.protocol import read_protocol
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
