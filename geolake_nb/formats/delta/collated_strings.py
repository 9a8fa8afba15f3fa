"""Which strings of a Delta table compare by a collation, and which of them have statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.model.types import ListType, MapType, StringType
from geolake_nb.scan.string_scan import CollatedString

if TYPE_CHECKING:
    from collections.abc import Collection

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.schema import Schema

__all__ = ["collations_of", "measured_strings"]

_Path = tuple[str, ...]


def collations_of(schema: Schema) -> dict[_Path, Collation]:
    """The collation of every string that has one, those in lists and maps included.

    >>> from geolake_nb.model.schema import Schema
    >>> collations_of(Schema())
    {}
    """
    return {
        parts: field.type.collation
        for parts, field in schema.walk_parts()
        if isinstance(field.type, StringType) and field.type.collation is not None
    }


def measured_strings(
    schema: Schema, *, mapping: ColumnMapping, indexed: Collection[_Path], partitions: Collection[str]
) -> tuple[CollatedString, ...]:
    """The collated strings with statistics: indexed, not in a list or map, not a partition column.

    >>> from geolake_nb.model.collation import Collation
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, StringType, StructType
    >>> from geolake_nb.formats.delta.details import ColumnMapping
    >>> schema = Schema(StructType((Field("a", StringType(Collation("icu", "de"))), Field("b", StringType()))))
    >>> strings = measured_strings(schema, mapping=ColumnMapping.NONE, indexed={("a",), ("b",)}, partitions=[])
    >>> [(string.physical, str(string.collation)) for string in strings]
    [(('a',), 'icu.de')]
    """
    strings: list[CollatedString] = []
    repeated: set[_Path] = set()
    for parts, field in schema.walk_parts():
        if parts[:-1] in repeated or isinstance(field.type, ListType | MapType):
            repeated.add(parts)
        collation = field.type.collation if isinstance(field.type, StringType) else None
        # Delta, Per-file statistics: they mirror the schema, and lists and maps have no minimum in it.
        if collation is None or parts in repeated or parts not in indexed or parts[0] in partitions:
            continue
        id_ = field.id if mapping is ColumnMapping.ID else None
        strings.append(CollatedString(parts, mapping.physical(schema, parts), id_, collation))
    return tuple(strings)
