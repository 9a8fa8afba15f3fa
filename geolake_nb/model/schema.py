"""The schema tree of a table, one for all formats, and the ways to find a field in it.

Scalars other than geometry, geography, raster and string are `PrimitiveType`s by these names:

| name | what |
|---|---|
| `boolean` | true or false |
| `int8` `int16` `int32` `int64` | signed integers |
| `uint8` `uint16` `uint32` `uint64` | unsigned integers (Parquet) |
| `float16` `float32` `float64` | IEEE 754 numbers (half precision: Parquet) |
| `decimal(p, s)` | `p` digits, `s` of them after the point |
| `date` | days |
| `time` | a time of day in microseconds; `time_ms`, `time_ns` in other units (Parquet) |
| `timetz` | the same for an instant in UTC; `timetz_ms`, `timetz_ns` (Parquet) |
| `timestamp` | date and time of no time zone in microseconds; `timestamp_ms`, `timestamp_ns` |
| `timestamptz` | an instant, adjusted to UTC, in microseconds; `timestamptz_ms`, `timestamptz_ns` |
| `timestamp_int96` | an instant in the 12 bytes of old Parquet writers |
| `interval` | months, days and milliseconds (Parquet), or Spark's calendar interval |
| `interval year to month`, `interval day to second`, ... | Spark's other intervals |
| `binary` | bytes |
| `fixed(n)` | `n` bytes |
| `uuid` | 16 bytes |
| `bson` `enum` `json` | bytes or text that Parquet marks so |
| `variant` | semi-structured values |
| `unknown` | nothing but nulls (Delta's and Spark's `void`) |
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import SchemaError
from geolake_nb.model.display import Displayable
from geolake_nb.model.types import (
    DataType,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.text.messages import with_plain_urls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Schema", "children", "join_path", "split_path", "type_name"]

_PLAIN_NAME = re.compile(r"[^.`]+")
_PATH_PART = re.compile(r"`((?:[^`]|``)*)`(?:\.|$)|([^.`]+)(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Schema(Displayable):
    """The columns of a table, with the format's metadata of the schema.

    A path names a field by its parts joined with dots; lists have the part `element`, maps `key` and
    `value`, and a name that has a dot itself is in backticks.

    >>> schema = Schema(StructType((Field("id", PrimitiveType("int64"), nullable=False, id=1),
    ...     Field("tags", ListType(Field("element", StringType())), id=2))))
    >>> [path for path, _ in schema.walk()]
    ['id', 'tags', 'tags.element']
    >>> print(schema)
    id: int64, required, #1
    tags: list, #2
      element: string
    >>> str(Schema())
    ''
    """

    root: StructType = dataclasses.field(default_factory=StructType)
    schema_id: int | None = None
    identifier_field_ids: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    """Other metadata of the format, as read."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The top-level columns in order."""
        return self.root.fields

    def walk(self) -> Iterator[tuple[str, Field]]:
        """Every field of every nesting with its path, parents before their children."""
        for parts, field in self.walk_parts():
            yield join_path(parts), field

    def walk_parts(self) -> Iterator[tuple[tuple[str, ...], Field]]:
        """The same as `walk`, with paths as tuples of names."""
        stack: list[tuple[tuple[str, ...], Field]] = [((column.name,), column) for column in reversed(self.fields)]
        while stack:
            parts, field = stack.pop()
            yield parts, field
            stack += [((*parts, child.name), child) for child in reversed(children(field.type))]

    def find(self, path: str) -> Field:
        """The field of that path; case counts only where two names differ in nothing else.

        >>> Schema(StructType((Field("geom", GeometryType()),))).find("gem")
        Traceback (most recent call last):
        geolake_nb.errors.SchemaError: no column 'gem'; use one of: geom
        """
        return self._descend(path)[-1]

    def physical_path(self, path: str) -> tuple[str, ...]:
        """The names of that field and its parents in data files and statistics (column mapping).

        >>> Schema(StructType((Field("a", StringType(), physical_name="col-1"),))).physical_path("a")
        ('col-1',)
        """
        return tuple(part.physical_name or part.name for part in self._descend(path))

    def path_of_id(self, field_id: int) -> str:
        """The path of the field with that id.

        >>> Schema(StructType((Field("a", StringType(), id=7),))).path_of_id(7)
        'a'
        """
        paths = self.paths_by_id()
        if field_id not in paths:
            raise SchemaError(f"no field has the id {field_id}", remedy=_options(map(str, sorted(paths))))
        return paths[field_id]

    def paths_by_id(self) -> dict[int, str]:
        """The paths of all fields that have an id.

        >>> Schema().paths_by_id()
        {}
        """
        return {field.id: path for path, field in self.walk() if field.id is not None}

    def geo_columns(self) -> tuple[tuple[str, Field], ...]:
        """The fields that hold geometries, geographies or rasters, nested ones included, with their paths.

        >>> Schema().geo_columns()
        ()
        """
        geo = (GeometryType, GeographyType, RasterType)
        return tuple((path, field) for path, field in self.walk() if isinstance(field.type, geo))

    def _descend(self, path: str) -> list[Field]:
        parts = split_path(path)
        chain: list[Field] = []
        choices = self.fields
        for depth, name in enumerate(parts):
            match = _pick(choices, name)
            if match is None:
                parent = tuple(field.name for field in chain)
                names = [join_path((*parent, choice.name)) for choice in choices]
                wanted = join_path((*parent, *parts[depth:]))
                raise SchemaError(f"no column {wanted!r}", remedy=_options(_nearest(wanted, names)))
            chain.append(match)
            choices = children(match.type)
        return chain

    def __str__(self) -> str:
        return "\n".join(f"{'  ' * (len(parts) - 1)}{_describe(field)}" for parts, field in self.walk_parts())


def children(type_: DataType) -> tuple[Field, ...]:
    """The fields inside a type: of a struct, the element of a list, key and value of a map.

    >>> children(StringType())
    ()
    """
    if isinstance(type_, StructType):
        return type_.fields
    if isinstance(type_, ListType):
        return (type_.element,)
    if isinstance(type_, MapType):
        return (type_.key, type_.value)
    return ()


def join_path(parts: Iterable[str]) -> str:
    """The names joined with dots; one that has a dot or a backtick itself is in backticks.

    >>> join_path(["a", "b.c"])
    'a.`b.c`'
    """
    return ".".join(part if _PLAIN_NAME.fullmatch(part) else "`" + part.replace("`", "``") + "`" for part in parts)


def split_path(path: str) -> tuple[str, ...]:
    """The names of a path, the other way round from `join_path`.

    >>> split_path("a.`b.c`")
    ('a', 'b.c')
    """
    parts: list[str] = []
    position = 0
    while position < len(path):
        match = _PATH_PART.match(path, position)
        if match is None:
            break
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        position = match.end()
    if not parts or position < len(path) or path.endswith("."):
        raise SchemaError(f"expected the path of a column, got {path!r}", remedy="write one such as a.b or a.`b.c`")
    return tuple(parts)


def type_name(type_: DataType) -> str:
    """A type in a few words; what is inside a struct, list or map is not shown.

    >>> type_name(GeographyType()), type_name(StructType())
    ('geography(OGC:CRS84, spherical)', 'struct')
    """
    if isinstance(type_, PrimitiveType):
        return type_.name
    if isinstance(type_, StringType):
        return "string" if type_.collation is None else f"string collate {_printable(str(type_.collation))}"
    if isinstance(type_, RasterType):
        return "raster"
    if isinstance(type_, StructType):
        return "struct"
    if isinstance(type_, ListType):
        return "list"
    if isinstance(type_, MapType):
        return "map"
    crs = type_.crs
    marks = [crs.text if len(crs.text) <= 60 and crs.text.isprintable() else _printable(crs.name)]
    if isinstance(type_, GeographyType):
        marks.append(type_.algorithm.value)
    if type_.encoding is not GeometryEncoding.WKB:
        marks.append(type_.encoding.value)
    return f"{'geometry' if isinstance(type_, GeometryType) else 'geography'}({', '.join(marks)})"


def _describe(field: Field) -> str:
    words = [f"{_printable(field.name)}: {type_name(field.type)}"]
    if not field.nullable:
        words.append("required")
    if field.id is not None:
        words.append(f"#{field.id}")
    line = ", ".join(words)
    return line if not field.doc else f"{line}  -- {_printable(with_plain_urls(field.doc))}"


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _pick(choices: tuple[Field, ...], name: str) -> Field | None:
    for choice in choices:
        if choice.name == name:
            return choice
    folded = name.casefold()
    alike = [choice for choice in choices if choice.name.casefold() == folded]
    return alike[0] if len(alike) == 1 else None


def _nearest(wanted: str, names: list[str]) -> list[str]:
    if len(names) <= 20:
        return sorted(names)
    return sorted(difflib.get_close_matches(wanted, names[:10_000], n=5) or names)


def _options(names: Iterable[str]) -> str:
    shown = list(names)
    if not shown:
        return "there are none"
    return f"use one of: {', '.join(shown[:20])}{', ...' if len(shown) > 20 else ''}"
