"""Edits the types, boxes and null counts of geo columns in a Parquet footer, and its properties; all else stays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import CorruptTableError, SchemaError, UnsupportedTableError
from geolake_nb.geo.bound_codec import to_parquet_fields
from geolake_nb.model.crs import CRS84
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType
from geolake_nb.parquet.thrift_compact import ListValue, Struct, Wire, double, read_struct, write_struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from geolake_nb.model.box import Box

__all__ = ["ChunkStats", "LeafEdit", "edit_footer", "footer_with_tail"]


@dataclass(frozen=True, slots=True)
class ChunkStats:
    """The statistics of a geo column in one row group of a footer; `None` for unknown ones."""

    box: Box | None = None
    types: tuple[int, ...] | None = None
    """ISO WKB type codes."""
    placed: int | None = None
    """How many values are not null. The other values of the column chunk are nulls, also those of parents."""


@dataclass(frozen=True, slots=True)
class LeafEdit:
    """The edit of one leaf column of geometries or geographies."""

    type: GeometryType | GeographyType
    groups: Sequence[ChunkStats] | None = None
    """One for each row group; `None` leaves the boxes unchanged."""


# parquet.thrift: the numbers of the fields.
_SCHEMA, _ROW_GROUPS, _PROPERTIES, _CREATED_BY, _ENCRYPTION = 2, 4, 5, 6, 8
_KEY, _KEY_VALUE = 1, 2
_TYPE, _NAME, _CHILDREN, _CONVERTED, _LOGICAL = 1, 4, 5, 6, 10
_GEOMETRY, _GEOGRAPHY = 17, 18
_CRS, _ALGORITHM = 1, 2
_COLUMNS = 1
_CHUNK_META, _COLUMN_INDEX_OFFSET, _COLUMN_INDEX_LENGTH = 3, 6, 7
_PATH, _VALUES, _STATISTICS, _ENCODING_STATS, _GEO_STATISTICS = 3, 5, 12, 13, 17
_MAX, _MIN, _NULL_COUNT, _MAX_VALUE, _MIN_VALUE, _MAX_EXACT, _MIN_EXACT = 1, 2, 3, 5, 6, 7, 8
_BOX, _GEO_TYPES = 1, 2
_SIDES = {
    side: number for number, side in enumerate(("xmin", "xmax", "ymin", "ymax", "zmin", "zmax", "mmin", "mmax"), 1)
}

_BYTE_ARRAY = 6
_ALGORITHMS = {
    EdgeAlgorithm.SPHERICAL: 0,
    EdgeAlgorithm.VINCENTY: 1,
    EdgeAlgorithm.THOMAS: 2,
    EdgeAlgorithm.ANDOYER: 3,
    EdgeAlgorithm.KARNEY: 4,
}

_Leaf = tuple[str, ...]


def edit_footer(
    footer: bytes,
    leaves: Mapping[tuple[str, ...], LeafEdit],
    *,
    unordered: Mapping[tuple[str, ...], Collection[int]] | None = None,
    without_encoding_stats: Collection[tuple[str, ...]] = (),
    properties: Mapping[str, str | None] | None = None,
    created_by: str | None = None,
    where: str | None = None,
) -> bytes:
    """The footer with these leaves edited, which are given by their names in the file from the top down.

    Binary minima and maxima of the leaves are removed, from the footer and, with its offset, the page index:
    the bytes of a geometry have no order. So are the minima and maxima of the leaves in `unordered`, in the row groups
    with these indexes. The leaves in `without_encoding_stats` lose the counts of pages by encoding, without which a
    reader cannot assume that the dictionary has all values of a column chunk. `properties` are set, or removed where
    they are `None`; others stay. `created_by` replaces the name of the writer.

    >>> edit_footer(b"", {})
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: the Thrift structure is truncated
    """
    tree = read_struct(footer, where=where)
    if tree.get(_ENCRYPTION) is not None:
        # Parquet, Modular encryption: a plaintext footer is signed.
        raise UnsupportedTableError("columns of the file are encrypted, and its footer is signed", where=where)
    tree = tree.with_field(_SCHEMA, Wire.LIST, _with_types(tree, leaves, where))
    groups = _structs(tree, _ROW_GROUPS, where)
    for path, edit in leaves.items():
        if edit.groups is not None and len(edit.groups) != len(groups):
            raise SchemaError(
                f"{len(edit.groups)} row groups for {join_path(path)}, the file has {len(groups)}",
                where=where,
            )
    dropped = unordered or {}
    edited = tuple(
        [
            _edit_group(group, index, leaves, dropped, where, without_encoding_stats=without_encoding_stats)
            for index, group in enumerate(groups)
        ]
    )
    tree = tree.with_field(_ROW_GROUPS, Wire.LIST, ListValue(Wire.STRUCT, edited))
    if properties:
        tree = _with_properties(tree, properties, where)
    if created_by is not None:
        tree = tree.with_field(_CREATED_BY, Wire.BINARY, created_by.encode())
    return write_struct(tree)


def footer_with_tail(footer: bytes) -> bytes:
    """The footer with the end of a file: its length and the magic bytes.

    >>> footer_with_tail(b"abc")
    b'abc\\x03\\x00\\x00\\x00PAR1'
    """
    return footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _with_properties(tree: Struct, properties: Mapping[str, str | None], where: str | None) -> Struct:
    wanted = dict(properties)
    kept: list[Struct] = []
    for pair in _structs(tree, _PROPERTIES, where) if tree.get(_PROPERTIES) is not None else ():
        key = pair.get(_KEY)
        name = key.decode(errors="replace") if isinstance(key, bytes) else ""
        if name not in properties:
            kept.append(pair)
        elif (text := wanted.pop(name, None)) is not None:
            kept.append(pair.with_field(_KEY_VALUE, Wire.BINARY, text.encode()))
    for name, text in wanted.items():
        if text is not None:
            pair = Struct().with_field(_KEY, Wire.BINARY, name.encode())
            kept.append(pair.with_field(_KEY_VALUE, Wire.BINARY, text.encode()))
    if not kept:
        return tree.without(_PROPERTIES)
    return tree.with_field(_PROPERTIES, Wire.LIST, ListValue(Wire.STRUCT, tuple(kept)))


def _with_types(tree: Struct, leaves: Mapping[_Leaf, LeafEdit], where: str | None) -> ListValue:
    elements = list(_structs(tree, _SCHEMA, where))
    wanted = dict(leaves)
    for index, path in _leaf_paths(elements, where):
        edit = wanted.pop(path, None)
        if edit is None:
            continue
        if elements[index].get(_TYPE) != _BYTE_ARRAY:
            raise SchemaError("the column is not binary, as a geo type requires", where=_column_location(where, path))
        # The converted type, such as UTF8, no longer applies.
        plain = elements[index].without(_CONVERTED)
        elements[index] = plain.with_field(
            _LOGICAL, Wire.STRUCT, _logical_type(edit.type, _column_location(where, path))
        )
    if wanted:
        names = ", ".join(sorted(map(join_path, wanted)))
        raise SchemaError(f"the file has no column {names}", where=where)
    return ListValue(Wire.STRUCT, tuple(elements))


def _logical_type(type_: GeometryType | GeographyType, where: str) -> Struct:
    if type_.encoding is not GeometryEncoding.WKB:
        raise SchemaError(f"Parquet's geo types store WKB, not {type_.encoding.value}", where=where)
    if not type_.crs.text:
        # Without a CRS, the type of the file would mean OGC:CRS84.
        what = "the type of the column in the table has no CRS"
        raise SchemaError(what, where=where, remedy="write the rows to a new table with columns={...}")
    struct = Struct()
    # Parquet, Coordinate Reference System: OGC:CRS84 unless the type specifies another.
    if type_.crs.text.upper() != CRS84.text:
        struct = struct.with_field(_CRS, Wire.BINARY, type_.crs.text.encode())
    if isinstance(type_, GeometryType):
        return Struct().with_field(_GEOMETRY, Wire.STRUCT, struct)
    struct = struct.with_field(_ALGORITHM, Wire.I32, _ALGORITHMS[type_.algorithm])
    return Struct().with_field(_GEOGRAPHY, Wire.STRUCT, struct)


def _leaf_paths(elements: Sequence[Struct], where: str | None) -> Iterator[tuple[int, _Leaf]]:
    """The index and the names of each leaf; the schema is a tree in preorder."""
    open_: list[tuple[_Leaf, int]] = []
    for index, element in enumerate(elements):
        name, count = element.get(_NAME), element.get(_CHILDREN)
        above: _Leaf = ()
        if index:
            if not open_:
                raise CorruptTableError("the Parquet schema has columns without a parent", where=where)
            above, left = open_.pop()
            if left > 1:
                open_.append((above, left - 1))
        path = (*above, _text(name, where)) if index else ()
        if isinstance(count, int) and count > 0:
            if len(open_) > 1000:
                raise CorruptTableError("the Parquet schema is nested too deeply", where=where)
            open_.append((path, count))
        elif index:
            yield index, path
    if open_:
        raise CorruptTableError("the Parquet schema has fewer columns than it declares", where=where)


def _edit_group(
    group: Struct,
    index: int,
    leaves: Mapping[_Leaf, LeafEdit],
    unordered: Mapping[_Leaf, Collection[int]],
    where: str | None,
    *,
    without_encoding_stats: Collection[_Leaf],
) -> Struct:
    chunks = list(_structs(group, _COLUMNS, where))
    for position, chunk in enumerate(chunks):
        meta = chunk.get(_CHUNK_META)
        if not isinstance(meta, Struct):
            raise CorruptTableError("a column chunk has no metadata, or it is encrypted", where=where)
        names = meta.get(_PATH)
        if not isinstance(names, ListValue):
            raise CorruptTableError("a column chunk has no path", where=where)
        path = tuple([_text(name, where) for name in names.items])
        edit = leaves.get(path)
        if path in without_encoding_stats:
            meta = meta.without(_ENCODING_STATS)
            chunks[position] = chunk.with_field(_CHUNK_META, Wire.STRUCT, meta)
        if edit is None and index not in unordered.get(path, ()):
            continue
        meta = _without_min_max(meta)
        if edit is not None:
            meta = _edit_chunk(meta, None if edit.groups is None else edit.groups[index], edit.type)
        plain = chunks[position].without(_COLUMN_INDEX_OFFSET, _COLUMN_INDEX_LENGTH)
        chunks[position] = plain.with_field(_CHUNK_META, Wire.STRUCT, meta)
    return group.with_field(_COLUMNS, Wire.LIST, ListValue(Wire.STRUCT, tuple(chunks)))


def _without_min_max(meta: Struct) -> Struct:
    statistics = meta.get(_STATISTICS)
    if not isinstance(statistics, Struct):
        return meta
    plain = statistics.without(_MAX, _MIN, _MAX_VALUE, _MIN_VALUE, _MAX_EXACT, _MIN_EXACT)
    return meta.with_field(_STATISTICS, Wire.STRUCT, plain) if plain.fields else meta.without(_STATISTICS)


def _edit_chunk(meta: Struct, stats: ChunkStats | None, type_: GeometryType | GeographyType) -> Struct:
    if stats is None:
        return meta
    values = meta.get(_VALUES)
    if stats.placed is not None and isinstance(values, int):
        statistics = meta.get(_STATISTICS)
        plain = statistics if isinstance(statistics, Struct) else Struct()
        plain = plain.with_field(_NULL_COUNT, Wire.I64, values - stats.placed)
        meta = meta.with_field(_STATISTICS, Wire.STRUCT, plain)
    geo = _geo_statistics(stats, circular=isinstance(type_, GeographyType))
    return meta.with_field(_GEO_STATISTICS, Wire.STRUCT, geo) if geo.fields else meta.without(_GEO_STATISTICS)


def _geo_statistics(stats: ChunkStats, *, circular: bool) -> Struct:
    geo = Struct()
    sides = {} if stats.box is None else to_parquet_fields(stats.box, circular=circular)
    # An infinite side is not a bound, and some readers interpret it as a dimension without values.
    endless = {side[0] for side, value in sides.items() if not math.isfinite(value)}
    sides = {side: value for side, value in sides.items() if side[0] not in endless and not endless & {"x", "y"}}
    if sides:
        box = Struct()
        for side, number in _SIDES.items():
            if side in sides:
                box = box.with_field(number, Wire.DOUBLE, double(sides[side]))
        geo = geo.with_field(_BOX, Wire.STRUCT, box)
    # Parquet, Geospatial Types: an empty list means that they are not known.
    if stats.types:
        geo = geo.with_field(_GEO_TYPES, Wire.LIST, ListValue(Wire.I32, stats.types))
    return geo


def _structs(tree: Struct, number: int, where: str | None) -> tuple[Struct, ...]:
    value = tree.get(number)
    items = value.items if isinstance(value, ListValue) else ()
    structs = tuple([item for item in items if isinstance(item, Struct)])
    if not isinstance(value, ListValue) or len(structs) != len(items):
        raise CorruptTableError("the Parquet footer lacks its schema or its row groups", where=where)
    return structs


def _text(name: object, where: str | None) -> str:
    try:
        return name.decode() if isinstance(name, bytes) else ""
    except UnicodeDecodeError:
        raise CorruptTableError(
            "a column of the Parquet schema has a name that is not valid UTF-8", where=where
        ) from None


def _column_location(where: str | None, path: _Leaf) -> str:
    return join_path(path) if where is None else f"{where}, column {join_path(path)}"
