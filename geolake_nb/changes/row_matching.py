"""Whether new rows fit an existing table, and how each of their columns is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.changes.geo_columns import geo_encoding
from geolake_nb.changes.write_job import GeoInput
from geolake_nb.errors import SchemaError
from geolake_nb.model.schema import Schema, children, join_path, split_path, type_name
from geolake_nb.model.types import (
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.model.types import DataType, GeoType

__all__ = ["match_rows", "require_same"]

_NOTHING = PrimitiveType("unknown")
_UNKNOWN = "set the CRS of the rows, or declare it with columns="


def match_rows(given: Schema, table: Schema, *, where: str) -> dict[str, GeoInput]:
    """How the geo columns of new rows are read; raises where the rows do not fit the table.

    Names may come in any order and case, types have to be the same. A nullable column may be missing, a field of a
    struct may not.

    >>> table = Schema(StructType((Field("id", PrimitiveType("int32")), Field("g", GeometryType()))))
    >>> match_rows(Schema(StructType((Field("G", StringType()),))), table, where="/t")
    {'g': GeoInput(type=GeometryType(crs=Crs('OGC:CRS84'), ...), encoding=<GeometryEncoding.WKT: 'wkt'>, ...)}
    >>> match_rows(Schema(StructType((Field("id", StringType()),))), table, where="/t")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: /t, column id: the rows have string, and the table has int32; cast it
    """
    inputs: dict[str, GeoInput] = {}
    _match_fields(given.fields, table.fields, (), inputs, where)
    return inputs


def _match_fields(
    given: tuple[Field, ...], table: tuple[Field, ...], above: tuple[str, ...], inputs: dict[str, GeoInput], where: str
) -> None:
    known = {field.name.casefold(): field for field in table}
    here = {field.name.casefold(): field for field in given}
    for name, given_field in here.items():
        if name not in known:
            names = ", ".join(sorted(join_path((*above, field.name)) for field in table))
            what = f"the table has no column {join_path((*above, given_field.name))!r}"
            raise SchemaError(what, where=where, remedy=f"use one of: {names}")
    if len(here) < len(given):
        raise SchemaError("two columns of the rows have the same name", where=where, remedy="rename one")
    for field in table:
        path = (*above, field.name)
        row_field = here.get(field.name.casefold())
        there = f"{where}, column {join_path(path)}"
        if above and (row_field is None or row_field.name != field.name):
            raise SchemaError("the rows do not have this field of a struct", where=there)
        if row_field is None or row_field.type == _NOTHING:
            if not field.nullable:
                raise SchemaError("the column is required, and the rows do not have it", where=there)
            continue
        _match_types(row_field.type, field.type, path, inputs, where, in_structs=True)


def _match_types(
    given: DataType,
    table: DataType,
    path: tuple[str, ...],
    inputs: dict[str, GeoInput],
    where: str,
    *,
    in_structs: bool,
) -> None:
    there = f"{where}, column {join_path(path)}"
    if isinstance(table, (GeometryType, GeographyType)):
        _match_geo(given, table, path, inputs, where, in_structs=in_structs)
    elif isinstance(table, StructType) and isinstance(given, StructType):
        if in_structs:
            _match_fields(given.fields, table.fields, path, inputs, where)
        elif [field.name for field in given.fields] != [field.name for field in table.fields]:
            raise SchemaError("the fields of the structs in it are not those of the table", where=there)
        else:
            _match_inside(given, table, path, inputs, where)
    elif isinstance(table, (ListType, MapType)) and type(given) is type(table):
        _match_inside(given, table, path, inputs, where)
    elif isinstance(table, StringType) and isinstance(given, StringType):
        return  # collated or not, the values are the same
    elif given != table or isinstance(table, (StructType, ListType, MapType)):
        what = f"the rows have {type_name(given)}, and the table has {type_name(table)}"
        raise SchemaError(what, where=there, remedy="cast it")


def _match_inside(
    given: DataType, table: DataType, path: tuple[str, ...], inputs: dict[str, GeoInput], where: str
) -> None:
    for given_child, table_child in zip(children(given), children(table), strict=True):
        _match_types(given_child.type, table_child.type, (*path, table_child.name), inputs, where, in_structs=False)


def _match_geo(
    given: DataType, table: GeoType, path: tuple[str, ...], inputs: dict[str, GeoInput], where: str, *, in_structs: bool
) -> None:
    there = f"{where}, column {join_path(path)}"
    if not in_structs:
        if given != PrimitiveType("binary"):
            raise SchemaError("in lists and maps only WKB bytes are accepted", where=there, remedy="convert the values")
        return
    if isinstance(given, (GeometryType, GeographyType)):
        if not _same_geo(given, table):
            what = f"the rows have {type_name(given)}, and the table has {type_name(table)}"
            raise SchemaError(what, where=there, remedy=_UNKNOWN if given.crs.is_unknown else None)
        inputs[join_path(path)] = GeoInput(table, given.encoding)
        return
    inputs[join_path(path)] = GeoInput(table, geo_encoding(table, given, where=there))


def require_same(schema: Schema, columns: Mapping[str, GeoType], where: str) -> None:
    """Raise if the geo types that a user declares are not those of the table."""
    for name, type_ in columns.items():
        stored = schema.find(name).type
        if not isinstance(stored, (GeometryType, GeographyType)) or not _same_geo(stored, type_):
            raise SchemaError(
                f"the table has {type_name(stored)}, not {type_name(type_)}",
                where=f"{where}, column {join_path(split_path(name))}",
                remedy="leave it out of columns=: the table declares its type",
            )


def _same_geo(left: GeoType, right: GeoType) -> bool:
    edges = [getattr(type_, "algorithm", None) for type_ in (left, right)]
    return type(left) is type(right) and edges[0] is edges[1] and left.crs.same_as(right.crs)
