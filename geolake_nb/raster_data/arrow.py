"""Havasu's v1 raster group: Arrow columns from and to raster values, and one raster of user input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import RasterError
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster, RasterMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "METADATA_FIELDS",
    "RASTER_V1",
    "as_group",
    "metadata_columns",
    "metadata_from_arrow",
    "raster_facts",
    "raster_from",
    "rasters_from_arrow",
    "rasters_to_arrow",
]

_GEO_FIELDS = ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y")
_NUMBERED = ("band_1", "band_2", "band_3", "band_4")
_LONG = ("data", "no_data", "out_db_url")
"""The fields of a band that may take any room."""

METADATA_FIELDS = ("width", "height", "num_bands", "crs_wkt", "geo_reference")
"""The fields of the group that are not bands."""

_BAND = pa.struct(
    [
        pa.field("pixel_type", pa.int32(), nullable=False),
        pa.field("no_data", pa.binary()),
        pa.field("data", pa.binary()),
        pa.field("out_db_band_no", pa.int32()),
        pa.field("out_db_url", pa.string()),
    ]
)

RASTER_V1 = pa.struct(
    [
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        pa.field("num_bands", pa.int32(), nullable=False),
        pa.field("crs_wkt", pa.string()),
        pa.field(
            "geo_reference",
            pa.struct([pa.field(name, pa.float64(), nullable=False) for name in _GEO_FIELDS]),
            nullable=False,
        ),
        *(pa.field(name, _BAND) for name in _NUMBERED),
        # Havasu calls `bands` an optional repeated group, which Parquet cannot make null: a LIST can be.
        pa.field("bands", pa.list_(pa.field("element", _BAND, nullable=False))),
    ]
)
"""The Arrow type whose Parquet form is the group that Havasu calls raster encoding v1."""


def rasters_to_arrow(rasters: Iterable[Raster | None]) -> pa.StructArray:
    """A column of rasters; `None` becomes null.

    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> column = rasters_to_arrow([Raster(2, 1, (), None, here), None])
    >>> column.null_count, column.type == RASTER_V1
    (1, True)
    >>> len(rasters_to_arrow([]))
    0
    """
    try:
        column = pa.array([None if raster is None else _to_group(raster) for raster in rasters], RASTER_V1)
    except pa.ArrowCapacityError as error:
        raise RasterError(
            "the bands of these rasters exceed the 2 GiB that one Arrow array holds",
            remedy="convert fewer rasters at a time, or store them out-db",
        ) from error
    return column


def rasters_from_arrow(column: pa.Array | pa.ChunkedArray) -> list[Raster | None]:
    """The rasters of a column, null as `None`; an invalid group is an error with its row.

    The `bands` field may be a LIST or the bare repeated group, which has an empty list for null.

    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> raster = Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)
    >>> rasters_from_arrow(rasters_to_arrow([raster, None])) == [raster, None]
    True
    """
    _require(column.type, (*METADATA_FIELDS, *_NUMBERED, "bands"))
    rasters: list[Raster | None] = []
    for chunk in _chunks(column):
        # One row at a time: a whole chunk as Python objects would hold its pixels twice.
        for metadata, group in zip(_metadata(chunk, first=len(rasters)), chunk, strict=True):
            if metadata is None:
                rasters.append(None)
                continue
            try:
                rasters.append(_from_group(metadata, group))
            except RasterError as error:
                raise _at_row(error, len(rasters)) from None
            except UnicodeDecodeError:
                raise RasterError("an out_db_url is not valid UTF-8", where=f"row {len(rasters)}") from None
    return rasters


def as_group(column: pa.Array, kind: pa.DataType = RASTER_V1, *, absent: pa.Array | None = None) -> pa.Array:
    """The values of a raster's group as that type, whichever of its optional fields a writer left out.

    `absent` marks where a parent of the values is null.

    >>> bare = pa.array([{"width": 1, "height": 2, "num_bands": 0, "crs_wkt": None, "geo_reference": None}])
    >>> as_group(bare).type == RASTER_V1, as_group(bare)[0]["band_1"].as_py() is None
    (True, True)
    """
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        indices = [column.type.get_field_index(field.name) for field in fields]
        gone = column.is_null() if absent is None else pc.or_(column.is_null(), absent)
        children = [
            pa.nulls(len(column), field.type) if index < 0 else as_group(column.field(index), field.type, absent=gone)
            for field, index in zip(fields, indices, strict=True)
        ]
        # Spark has nulls in all fields of a null; Parquet takes none in a field that is required.
        children = [
            child
            if field.nullable or pa.types.is_nested(field.type)
            else pc.if_else(gone, pa.scalar(0, field.type), child)
            for field, child in zip(fields, children, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(column.type):
        values = as_group(column.values, kind.value_type)
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], -1, column.offset, [values])
    return column.cast(kind)


def raster_facts(column: pa.Array) -> pa.Array:
    """A raster's group with no bytes of its bands, but how many they are, and each CRS once for all that have it.

    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> raster = Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)
    >>> raster_facts(rasters_to_arrow([raster, None])).to_pylist()[0]["band_1"]
    {'pixel_type': 4, 'no_data': None, 'data': 2, 'out_db_band_no': None, 'out_db_url': None}
    """
    return _facts(column, "")


def _facts(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    if name in _LONG and not pa.types.is_nested(kind):
        return pc.binary_length(column).cast(pa.int64())
    if name == "crs_wkt" and not pa.types.is_nested(kind):
        return column.dictionary_encode()
    if pa.types.is_struct(kind):
        children = [_facts(column.field(index), kind.field(index).name) for index in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, [field.name for field in kind], mask=column.is_null())
    if pa.types.is_nested(kind):  # whichever kind of list a writer chose
        column = column.cast(pa.large_list(kind.value_type))
        values = _facts(column.values, "")
        listed = pa.large_list(values.type)
        return pa.Array.from_buffers(listed, len(column), column.buffers()[:2], -1, column.offset, [values])
    return column


def metadata_columns(*path: str) -> list[str]:
    """The leaf columns of a Parquet file that a metadata read needs: none of them belongs to a band.

    `path` is the path of the raster column; the answer fits `ParquetFile.read(columns=...)`.

    >>> metadata_columns("rast")[:5]
    ['rast.width', 'rast.height', 'rast.num_bands', 'rast.crs_wkt', 'rast.geo_reference.scale_x']
    >>> metadata_columns("scene", "rast")[-1]
    'scene.rast.geo_reference.upperleft_y'
    """
    # Havasu, Raster: metadata access does not need to read the band_N fields nor the bands field.
    prefix = ".".join(path)
    plain = [f"{prefix}.{name}" for name in METADATA_FIELDS if name != "geo_reference"]
    return [*plain, *(f"{prefix}.geo_reference.{name}" for name in _GEO_FIELDS)]


def metadata_from_arrow(column: pa.Array | pa.ChunkedArray) -> list[RasterMetadata | None]:
    """The metadata of a column that may have no band fields at all, null as `None`.

    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> column = rasters_to_arrow([Raster(2, 1, (), None, here), None])
    >>> [None if row is None else row.width for row in metadata_from_arrow(column)]
    [2, None]
    """
    _require(column.type, METADATA_FIELDS)
    rows: list[RasterMetadata | None] = []
    for chunk in _chunks(column):
        rows.extend(_metadata(chunk, first=len(rows)))
    return rows


def _metadata(chunk: pa.Array, *, first: int) -> Iterator[RasterMetadata | None]:
    geo = pc.struct_field(chunk, "geo_reference")
    georeferences = [pc.struct_field(geo, name).to_pylist() for name in _GEO_FIELDS]
    plain = [pc.struct_field(chunk, name).to_pylist() for name in ("width", "height", "num_bands")]
    plain.append(_texts(pc.struct_field(chunk, "crs_wkt"), first=first))
    rows = zip(chunk.is_valid().to_pylist(), zip(*plain, strict=True), zip(*georeferences, strict=True), strict=True)
    for row, (valid, (width, height, num_bands, crs_wkt), georeference) in enumerate(rows, start=first):
        if not valid:
            yield None
            continue
        required = zip(
            ("width", "height", "num_bands", *_GEO_FIELDS), (width, height, num_bands, *georeference), strict=True
        )
        missing = [name for name, value in required if value is None]
        if missing:
            what = f"a raster has no {', '.join(missing)}"
            raise RasterError(what, where=f"row {row}", remedy="Havasu requires these fields")
        try:
            yield RasterMetadata(width, height, num_bands, crs_wkt, GeoReference(*georeference))
        except RasterError as error:
            raise _at_row(error, row) from None


def _texts(column: pa.Array, *, first: int) -> list[str | None]:
    try:
        if pa.types.is_dictionary(column.type):
            known = column.dictionary.to_pylist()
            return [None if index is None else known[index] for index in column.indices.to_pylist()]
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        pass
    texts: list[str | None] = []
    for text in column:
        try:
            texts.append(text.as_py())
        except UnicodeDecodeError:
            raise RasterError("crs_wkt is not valid UTF-8", where=f"row {first + len(texts)}") from None
    return texts


def _to_group(raster: Raster) -> dict[str, Any]:
    geo = raster.geo_reference
    bands = [_to_band(band) for band in raster.bands]
    first = [*bands[:4], None, None, None, None]
    return {
        "width": raster.width,
        "height": raster.height,
        "num_bands": raster.num_bands,
        "crs_wkt": raster.crs_wkt,
        "geo_reference": {name: getattr(geo, name) for name in _GEO_FIELDS},
        **dict(zip(_NUMBERED, first, strict=False)),
        # Havasu, Raster: without a fifth band the `bands` field is null.
        "bands": bands[4:] or None,
    }


def _to_band(band: Band) -> dict[str, Any]:
    return {
        "pixel_type": band.pixel_type.value,
        "no_data": band.no_data,
        "data": band.data,
        "out_db_band_no": band.out_db_band_no,
        "out_db_url": band.out_db_url,
    }


def _from_group(metadata: RasterMetadata, group: pa.StructScalar) -> Raster:
    numbered = [group[name].as_py() for name in _NUMBERED]
    rest = group["bands"].as_py() or []
    stored = [band is not None for band in (*numbered, *rest)]
    # Havasu, Raster: the first four bands fill band_1 to band_4 in order, the others follow in `bands`.
    count = metadata.num_bands
    if sum(stored) != count or not all(stored[:count]):
        filled = [name for name, band in zip(_NUMBERED, numbered, strict=True) if band is not None]
        there = f"{', '.join(filled) or 'no band_N'} and {len(rest)} in bands"
        raise RasterError(
            f"num_bands is {count} but there are {there}",
            remedy="fill band_1 to band_4 in order, then bands",
        )
    groups = (*numbered, *rest)[:count]
    bands = tuple(_from_band(index, band) for index, band in enumerate(groups) if band is not None)
    return Raster(metadata.width, metadata.height, bands, metadata.crs_wkt, metadata.geo_reference)


def _from_band(index: int, band: dict[str, Any]) -> Band:
    try:
        return Band(
            PixelType.parse(band["pixel_type"]),
            band.get("no_data"),
            band.get("data"),
            band.get("out_db_band_no"),
            band.get("out_db_url"),
        )
    except RasterError as error:
        raise RasterError(error.what, where=f"band {index}", remedy=error.remedy) from None


def _require(group: pa.DataType, names: tuple[str, ...]) -> None:
    """Fail unless the group has these fields; others are left alone, as a later version may add some."""
    if not pa.types.is_struct(group):
        raise RasterError(f"a raster column has the type {group}", remedy="give a struct as in RASTER_V1")
    wanted = {name: RASTER_V1.field(name).type for name in names}
    for name, expected in wanted.items():
        index = group.get_field_index(name)
        if index < 0:
            known = ", ".join(sorted(field.name for field in group)) or "none"
            raise RasterError(f"a raster group has no field {name!r}", remedy=f"its fields are: {known}")
        actual = group.field(index).type
        if not _fits(actual, expected):
            raise RasterError(f"the raster field {name!r} has the type {actual}", remedy=f"it must be {expected}")


def _fits(actual: pa.DataType, expected: pa.DataType) -> bool:
    """Whether a reader's Arrow type holds the values of ours, be it with large offsets or as views."""
    is_type = pa.types
    if is_type.is_struct(expected):
        return bool(is_type.is_struct(actual)) and all(
            actual.get_field_index(field.name) >= 0 and _fits(actual.field(field.name).type, field.type)
            for field in expected
        )
    if is_type.is_list(expected):
        kinds = [is_type.is_list, is_type.is_large_list, is_type.is_list_view, is_type.is_large_list_view]
        return any(is_kind(actual) for is_kind in kinds) and _fits(actual.value_type, expected.value_type)
    if is_type.is_binary(expected):
        kinds = [is_type.is_binary, is_type.is_large_binary, is_type.is_binary_view]
        return any(is_kind(actual) for is_kind in kinds)
    if is_type.is_string(expected):
        actual = actual.value_type if is_type.is_dictionary(actual) else actual
        kinds = [is_type.is_string, is_type.is_large_string, is_type.is_string_view]
        return any(is_kind(actual) for is_kind in kinds)
    return bool(actual == expected)


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _at_row(error: RasterError, row: int) -> RasterError:
    where = f"row {row}" if error.where is None else f"row {row}, {error.where}"
    return RasterError(error.what, where=where, remedy=error.remedy)


def raster_from(value: Any) -> Raster:
    """The one raster of a value; a row may have other columns.

    >>> from geolake_nb.raster_data.raster import GeoReference
    >>> from geolake_nb.raster_data.arrow import rasters_to_arrow
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> raster = Raster(2, 1, (), None, here)
    >>> group = rasters_to_arrow([raster])[0]
    >>> raster_from(raster) == raster_from(group) == raster_from({"path": "a", "raster": group.as_py()}) == raster
    True
    >>> raster_from({"path": "a"})
    Traceback (most recent call last):
    geolake_nb.errors.RasterError: there is no raster in the row; its fields are: path
    """
    if isinstance(value, Raster):
        return value
    plain = _plain(value)
    if not isinstance(plain, dict):
        raise RasterError(
            f"expected a raster, got a {type(value).__name__}", remedy="give a raster, or a row that has one"
        )
    groups = [plain] if _is_group(plain) else [member for member in plain.values() if _is_group(member)]
    if len(groups) != 1:
        how_many = "no raster" if not groups else f"{len(groups)} rasters"
        names = ", ".join(sorted(map(str, plain)))
        raise RasterError(f"there is {how_many} in the row", remedy=f"its fields are: {names}")
    try:
        column = pa.array(groups, RASTER_V1)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise RasterError(f"the raster has fields of other types than Havasu's ({problem})") from None
    raster = rasters_from_arrow(column)[0]
    assert raster is not None
    return raster


def _is_group(value: Any) -> bool:
    return isinstance(value, dict) and all(name in value for name in METADATA_FIELDS)


def _plain(value: Any) -> Any:
    """Dictionaries all through, with bytes in them."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if hasattr(value, "asDict"):  # a row of Spark
        value = value.asDict()
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value
