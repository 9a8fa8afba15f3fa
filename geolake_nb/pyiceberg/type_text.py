"""Geo types in PyIceberg: Java's type strings are read, and written into metadata, requests and manifests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyiceberg import types
from pyiceberg.catalog import rest
from pyiceberg.exceptions import ValidationError
from pyiceberg.table import CommitTableRequest

from geolake_nb.errors import GeolakeError
from geolake_nb.model.types import GeographyType, GeometryType, from_iceberg_text
from geolake_nb.pyiceberg.bridge import Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.typedef import IcebergBaseModel

__all__ = ["core_type", "is_geo", "java_text", "patches", "with_java_types"]

_GEO = (types.GeometryType, types.GeographyType)
_NAMES = ('"geometry', '"geography')


def is_geo(type_: types.IcebergType) -> bool:
    """Whether this is a geometry or a geography.

    >>> is_geo(types.GeometryType()), is_geo(types.BinaryType())
    (True, False)
    """
    return isinstance(type_, _GEO)


def java_text(type_: types.GeometryType | types.GeographyType) -> str:
    """The type string that Iceberg Java writes.

    >>> java_text(types.GeometryType("EPSG:3857")), java_text(types.GeographyType())
    ('geometry(EPSG:3857)', 'geography(OGC:CRS84, spherical)')
    """
    if isinstance(type_, types.GeometryType):
        return f"geometry({type_.crs})"
    return f"geography({type_.crs}, {type_.algorithm})"


def core_type(type_: types.IcebergType) -> GeometryType | GeographyType | None:
    """The same type in this package; `None` for other types and for an algorithm that no specification has.

    >>> core_type(types.GeographyType("EPSG:4326")).crs
    Crs('EPSG:4326')
    >>> core_type(types.GeographyType("EPSG:4326", "planar")) is None
    True
    """
    if not isinstance(type_, _GEO):
        return None
    try:
        return from_iceberg_text(java_text(type_))
    except GeolakeError:
        return None


def with_java_types(text: str) -> str:
    """JSON of PyIceberg with the types of columns as Iceberg Java writes them.

    >>> with_java_types('{"type":"struct","fields":[{"id":1,"name":"g","type":"geometry","required":false}]}')
    '{"type":"struct","fields":[{"id":1,"name":"g","type":"geometry(OGC:CRS84)","required":false}]}'
    """
    if not any(name in text for name in _NAMES):
        return text
    value = json.loads(text)
    _rewrite(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _rewrite(value: Any) -> None:
    if isinstance(value, list):
        for part in value:
            _rewrite(part)
    elif isinstance(value, dict):
        kind = value.get("type")
        if kind == "struct" and isinstance(value.get("fields"), list):
            for field in value["fields"]:
                _rewrite_type(field, "type")
        elif kind == "list":
            _rewrite_type(value, "element")
        elif kind == "map":
            _rewrite_type(value, "key")
            _rewrite_type(value, "value")
        for part in value.values():
            _rewrite(part)


def _rewrite_type(holder: Any, key: str) -> None:
    text = holder.get(key) if isinstance(holder, dict) else None
    if isinstance(text, str) and text.startswith(("geometry", "geography")):
        type_ = types.IcebergType.model_validate(text)
        if isinstance(type_, _GEO):
            holder[key] = java_text(type_)


_quoted_geometry = types._parse_geometry_type
_quoted_geography = types._parse_geography_type


def _geometry(value: Any) -> Any:
    try:
        return _quoted_geometry(value)
    except ValidationError as error:
        type_ = _of_java(value)
        if not isinstance(type_, GeometryType):
            raise error from None
        return type_.crs.text


def _geography(value: Any) -> Any:
    try:
        return _quoted_geography(value)
    except ValidationError as error:
        type_ = _of_java(value)
        if not isinstance(type_, GeographyType):
            raise error from None
        return type_.crs.text, type_.algorithm.value


def _of_java(text: Any) -> GeometryType | GeographyType | None:
    # PyIceberg's own parser has seen the quoted form.
    if not isinstance(text, str) or any(quote in text for quote in "'\""):
        return None
    try:
        type_ = from_iceberg_text(text)
    except GeolakeError:
        return None
    return type_ if type_.crs.text else None


def _writing_java_types(model: type[IcebergBaseModel]) -> Patch:
    original = model.model_dump_json

    def model_dump_json(self: Any, *args: Any, **kwargs: Any) -> str:
        return with_java_types(original(self, *args, **kwargs))

    return Patch(model, "model_dump_json", model_dump_json)


def patches() -> Iterator[Patch | Callable[[], Callable[[], None]]]:
    """Both forms are read; what leaves this process is Java's."""
    yield Patch(types, "_parse_geometry_type", _geometry)
    yield Patch(types, "_parse_geography_type", _geography)
    yield _writing_java_types(CommitTableRequest)
    yield _writing_java_types(rest.CreateTableRequest)
