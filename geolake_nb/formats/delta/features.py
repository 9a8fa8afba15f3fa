"""What the protocol of a Delta table requires of its readers and writers, and what each table feature means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.model.snapshot import Feature, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "COLLATIONS_PREVIEWS",
    "GEOSPATIAL_PREVIEWS",
    "MAX_READER_VERSION",
    "MAX_WRITER_VERSION",
    "feature",
    "read_protocol",
    "refuse_unreadable",
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
