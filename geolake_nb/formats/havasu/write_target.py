"""How the columns and the new files of a Havasu table are laid out, and the action that adds each file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.column_types import match_rows, through_structs, with_types
from geolake_nb.changes.write_job import GeoInput
from geolake_nb.errors import BoundError, CrsError, RefusedError, SchemaError
from geolake_nb.formats.iceberg.bounds import MetricsMode, bound_bytes
from geolake_nb.formats.iceberg.live_rows import PARTITION, carried_type
from geolake_nb.formats.iceberg.schema import iceberg_columns, with_fresh_ids
from geolake_nb.formats.iceberg.write_target import ManifestTarget, bytes_text, problem_text
from geolake_nb.geo.bound_codec import to_havasu_wkb
from geolake_nb.geo.encodings import srid_of
from geolake_nb.model.crs import UNKNOWN_CRS, Crs
from geolake_nb.model.schema import Schema, children, join_path, split_path, type_name
from geolake_nb.model.types import (
    DataType,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.parquet.geo_property import geo_template
from geolake_nb.raster_data.arrow import METADATA_FIELDS, RASTER_V1

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.changes.sampling import Partition
    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.model.box import Box
    from geolake_nb.parquet.geoparquet import GeoMetadata
    from geolake_nb.parquet.writer import Layout, WrittenFile

    GeoType = GeometryType | GeographyType | RasterType

__all__ = [
    "GEOPARQUET",
    "HavasuColumns",
    "HavasuTarget",
    "bound_texts",
    "crs_property",
    "fitting_inputs",
    "has_geoparquet",
    "havasu_sentences",
    "new_columns",
]

GEOPARQUET = "geolake.geoparquet-metadata"
"""The property of a table whose data files get GeoParquet metadata too, where it is `true`."""

_BYTES = (GeometryEncoding.EWKB, GeometryEncoding.WKB)


def has_geoparquet(properties: Mapping[str, str]) -> bool:
    """Whether the data files of a table with these properties get GeoParquet metadata.

    >>> has_geoparquet({GEOPARQUET: "TRUE"}), has_geoparquet({})
    (True, False)
    """
    return properties.get(GEOPARQUET, "").lower() == "true"


def crs_property(column: str) -> str:
    """The property of a table with the CRS for the GeoParquet metadata of a column whose values do not name it.

    >>> crs_property("geom")
    'geolake.geoparquet-crs.geom'
    """
    return f"geolake.geoparquet-crs.{column}"


@dataclass(frozen=True, slots=True, eq=False)
class HavasuTarget(ManifestTarget):
    """The requirements of a Havasu table for its new files."""

    def layout(self, job: WriteJob) -> Layout:
        """All columns, with their ids and without geo types."""
        from geolake_nb.parquet.writer import Layout

        return Layout(
            Schema(StructType(tuple(field for field in self.schema.fields if field.name != PARTITION.name))),
            row_group_rows=job.row_group_rows,
            measured=frozenset(path for path, _ in self.plain_columns()),
            geoparquet=self._geoparquet(),
            geo_types=False,
        )

    def entry(self, file: WrittenFile, partition: Partition) -> str:
        """The `add` of a file: bounds are base64 of the bytes that the manifest gets, by the ids of columns."""
        counts, nulls, nans = dict[str, int](), dict[str, int](), dict[str, int]()
        bounds: dict[str, dict[str, str]] = {"lower_bounds": {}, "upper_bounds": {}}
        for path, field in self.plain_columns():
            mode = MetricsMode.of(self.properties, join_path(path))
            range_ = file.scalars[path]
            if mode.counts:
                counts[str(field.id)], nulls[str(field.id)] = file.rows, range_.null_count
                if range_.nan_count is not None:
                    nans[str(field.id)] = range_.nan_count
            if mode.bounds:
                # Iceberg, Manifests: bounds are of the values that are numbers.
                ends = bound_bytes(*range_.numbers, field.type, length=mode.length)
                for name, packed in zip(bounds, ends, strict=True):
                    if packed is not None:
                        bounds[name][str(field.id)] = bytes_text(packed)
        geo: dict[str, dict[str, str]] = {"geom_lower_bounds": {}, "geom_upper_bounds": {}}
        problems: dict[str, str] = {}
        for path, stats in file.geo.items():
            field = self.schema.find(join_path(path))
            if self.in_structs(path):
                counts[str(field.id)], nulls[str(field.id)] = stats.rows, stats.null_count
            texts = None if stats.box is None else bound_texts(stats.box, field.type)
            if texts is not None:
                for name, text in zip(geo, texts, strict=True):
                    geo[name][str(field.id)] = text
            elif not stats.only_null_or_empty:
                problems[join_path(path)] = problem_text(stats)
        spec_id, values = self.partition_of(file, partition)
        add = {
            "path": file.path,
            "file_size_in_bytes": file.bytes,
            "record_count": file.rows,
            "spec_id": spec_id,
            "partition": values,
            "value_counts": counts,
            "null_value_counts": nulls,
            "nan_value_counts": nans,
            **bounds,
            **geo,
        }
        if problems:
            add["problems"] = problems
        return json.dumps({"add": add}, separators=(",", ":"), ensure_ascii=False)

    def _geoparquet(self) -> GeoMetadata | None:
        """The GeoParquet metadata of the files, where the table enables it."""
        # Havasu, Parquet data type mappings: of columns at the root in WKB and EWKB.
        tops = {
            field.name: GeometryType(self._crs(field.name))
            for field in self.schema.fields
            if isinstance(field.type, GeometryType) and field.type.encoding in _BYTES
        }
        return geo_template(tops) if has_geoparquet(self.properties) and tops else None

    def _crs(self, column: str) -> Crs:
        """The CRS of values that do not name one."""
        crs = Crs.parse(self.properties.get(crs_property(column), UNKNOWN_CRS))
        return crs if crs.is_resolvable else UNKNOWN_CRS

    def to_dict(self) -> dict[str, Any]:
        """`format, spec_id, partition_by`."""
        return {"format": "havasu", "spec_id": self.spec_id, "partition_by": list(self.partition_by)}


def bound_texts(box: Box, type_: DataType) -> tuple[str, str] | None:
    """The bounds of a box as base64, `None` where Havasu has none for it.

    >>> import base64
    >>> from geolake_nb.model.box import Box
    >>> base64.b64decode(bound_texts(Box(1, 2, 3, 4), GeometryType())[0]).hex()
    '0101000000000000000000f03f0000000000000040'
    >>> over_180 = Box(170, 0, -170, 1)
    >>> bound_texts(over_180, GeometryType()) is None, bound_texts(over_180, RasterType()) is None
    (True, False)
    """
    try:
        # Havasu, Raster bounds: only those may cross the antimeridian.
        low, high = to_havasu_wkb(box, circular=isinstance(type_, RasterType))
    except BoundError:
        return None
    return bytes_text(low), bytes_text(high)


_Path = tuple[str, ...]
_TEXTS = (GeometryEncoding.GEOJSON, GeometryEncoding.WKT)
_BINARY = PrimitiveType("binary")


@dataclass(frozen=True, slots=True, eq=False)
class HavasuColumns:
    """The columns of a new table."""

    schema: Schema
    """With the types of Havasu, and an id for every field."""
    inputs: Mapping[str, GeoInput]
    """How geometries are read that are not yet in the encoding of their column, by path."""
    notes: tuple[str, ...] = ()
    """Columns whose types Iceberg lacks, and CRSs that values cannot name, one sentence each."""
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Properties of the table that keep a CRS which values cannot name."""


def new_columns(
    given: Schema, given_types: Mapping[str, GeoType], *, where: str, properties: Mapping[str, str] | None = None
) -> HavasuColumns:
    """The columns of a new table; `given_types` declares which hold geometries or rasters, and in which encoding.

    Columns with a geo type of their own, or with a CRS and no encoding in `given_types`, become EWKB, which keeps the
    CRS as an SRID; structs with the fields of a raster become rasters. A CRS without an EPSG code is refused unless the
    `properties` of the table enable GeoParquet metadata, which can name it.

    >>> plain = Schema(StructType((Field("g", StringType()), Field("n", PrimitiveType("int8")))))
    >>> made = new_columns(plain, {"g": GeometryType(encoding=GeometryEncoding.WKT)}, where="/t")
    >>> print(made.schema)
    g: geometry(SRID:0, wkt), #1
    n: int32, #2
    >>> made.inputs, made.notes
    ({}, ("'n' is int8, which Havasu does not have, and becomes int32",))
    """
    wanted = {_spelled(given, name): type_ for name, type_ in given_types.items()}
    types: dict[_Path, DataType] = {}
    inputs: dict[str, GeoInput] = {}
    kept: dict[str, str] = {}
    crs_notes: list[str] = []
    for path, column in _outside_rasters(given, wanted):
        own_type = column.type
        type_ = wanted.get(path, own_type)
        there = f"{where}, column {join_path(path)}"
        if isinstance(type_, RasterType) or _is_raster(own_type):
            _require_raster(own_type, there)
            types[path] = RasterType()
        elif isinstance(type_, (GeometryType, GeographyType)):
            encoding = _encoding(type_) if path in wanted else GeometryEncoding.EWKB
            types[path] = _stored_type(encoding, there)
            geo_input = _input(type_, encoding, own_type, there)
            if geo_input is not None and not _is_left_alone(given, path, geo_input):
                inputs[join_path(path)] = _through(given, path, geo_input, there)
            if path not in wanted or _has_given_crs(type_):
                in_files = has_geoparquet(properties or {}) and len(path) == 1 and encoding in _BYTES
                note = _crs_note(type_.crs, encoding, path, in_inputs=join_path(path) in inputs, kept=in_files)
                if note is None:
                    continue
                _require_storable_crs(type_.crs, there, kept=in_files)
                crs_notes.append(note)
                if in_files:
                    kept[crs_property(path[0])] = type_.crs.resolved or type_.crs.text
    schema, sentences = iceberg_columns(with_types(given, types), format_name="Havasu", where=where)
    return HavasuColumns(with_fresh_ids(schema), inputs, (*sentences, *crs_notes), kept)


def fitting_inputs(
    given: Schema,
    table: Schema,
    given_types: Mapping[str, GeoType],
    *,
    where: str,
    properties: Mapping[str, str] | None = None,
) -> dict[str, GeoInput]:
    """How the geometries of new rows are read for an existing table; raises where the rows do not fit it.

    `properties` are the table's, which may keep the CRS of a column.

    >>> table = Schema(StructType((Field("g", GeometryType(UNKNOWN_CRS, GeometryEncoding.EWKB)),)))
    >>> fitting_inputs(Schema(StructType((Field("g", PrimitiveType("binary")),))), table, {}, where="/t")
    {}
    >>> fitting_inputs(Schema(StructType((Field("g", PrimitiveType("int32")),))), table, {}, where="/t")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: /t, column g: a column of type int32 cannot hold geometries; ...
    """
    known = {tuple(part.casefold() for part in path): column.type for path, column in table.walk_parts()}
    crs = {_spelled(given, name): type_ for name, type_ in given_types.items()}
    types: dict[_Path, DataType] = {}
    inputs: dict[str, GeoInput] = {}
    for path, column in _outside_rasters(given, {}):
        there = f"{where}, column {join_path(path)}"
        type_ = known.get(tuple(part.casefold() for part in path))
        if isinstance(type_, RasterType):
            _require_raster(column.type, there)
            types[path] = carried_type(type_)
        elif isinstance(type_, GeometryType):
            wanted = crs.get(path, column.type)
            meant = wanted if isinstance(wanted, (GeometryType, GeographyType)) else type_
            geo_input = _input(meant, type_.encoding, column.type, there)
            if path not in crs or _has_given_crs(meant):
                _require_same_crs(meant.crs, type_.encoding, _table_path(table, path), properties or {}, there)
            types[path] = carried_type(type_)
            if geo_input is not None and not _is_left_alone(given, path, geo_input):
                inputs[_table_path(table, path)] = _through(given, path, geo_input, there)
    schema, _ = iceberg_columns(with_types(given, types), format_name="Havasu", where=where)
    plain = {path: carried_type(column.type) for path, column in table.walk_parts() if _is_geo(column.type)}
    match_rows(schema, with_types(table, plain), where=where)
    return inputs


def havasu_sentences(schema: Schema, inputs: Mapping[str, GeoInput]) -> Iterator[str]:
    """Sentences about the geo columns of a new table, for a plan.

    >>> list(havasu_sentences(Schema(StructType((Field("r", RasterType()),))), {}))
    ["The column 'r' holds rasters; its bounds are in WGS84."]
    """
    for path, column in schema.geo_columns():
        if isinstance(column.type, RasterType):
            yield f"The column {path!r} holds rasters; its bounds are in WGS84."
        elif isinstance(column.type, GeometryType):
            name = column.type.encoding.value.upper()
            made = " as it is" if path not in inputs else ""
            srid = None
            if path in inputs and column.type.encoding is GeometryEncoding.EWKB:
                srid = srid_of(inputs[path].type.crs)
            more = f" with the SRID {srid}" if srid is not None else ""
            yield f"The column {path!r} is stored as {name}{made}{more}."


def _input(
    wanted: GeometryType | GeographyType, encoding: GeometryEncoding, stored: DataType, where: str
) -> GeoInput | None:
    """How values are turned into the encoding, `None` where they are written as they are."""
    if isinstance(wanted, GeographyType) or isinstance(stored, GeographyType):
        raise SchemaError("Havasu has no geographies", where=where, remedy="make it a geometry")
    target = replace(wanted, encoding=encoding)
    if isinstance(stored, GeometryType):
        if stored.encoding is encoding and encoding in _TEXTS:
            return None
        if stored.encoding in _BYTES and encoding in _BYTES:
            return _with_srid(target) if encoding is GeometryEncoding.EWKB else None
        return GeoInput(target, GeometryEncoding.WKB if stored.encoding in _BYTES else stored.encoding)
    if stored == _BINARY:
        if encoding in _BYTES:
            # Havasu, Geometry: EWKB names the CRS by its SRID. Values that have one keep it.
            return _with_srid(target) if encoding is GeometryEncoding.EWKB else None
        return GeoInput(target, GeometryEncoding.WKB)
    if isinstance(stored, StringType):
        return None if encoding in _TEXTS else GeoInput(target, GeometryEncoding.WKT)
    raise SchemaError(
        f"a column of type {type_name(stored)} cannot hold geometries",
        where=where,
        remedy="use one of: binary (WKB, EWKB), string (WKT, GeoJSON)",
    )


def _with_srid(target: GeometryType) -> GeoInput | None:
    return GeoInput(target, GeometryEncoding.WKB, keeps_own=True) if _has_srid(target.crs) else None


def _has_srid(crs: Crs) -> bool:
    try:
        return srid_of(crs) is not None
    except CrsError:
        return False


def _encoding(type_: GeometryType | GeographyType) -> GeometryEncoding:
    """The encoding that a user requests: a CRS without one requires an encoding that can name it."""
    if isinstance(type_, GeographyType) or type_.encoding_given or type_.encoding is not GeometryEncoding.WKB:
        return type_.encoding
    return GeometryEncoding.EWKB if _has_given_crs(type_) else GeometryEncoding.WKB


def _has_given_crs(type_: GeometryType | GeographyType) -> bool:
    """Whether a user named a CRS; `SRID:0` means unknown."""
    return isinstance(type_, GeometryType) and type_.crs_given and not type_.crs.is_unknown


def _crs_note(crs: Crs, encoding: GeometryEncoding, path: _Path, *, in_inputs: bool, kept: bool) -> str | None:
    """A note about a CRS that the values of a column do not name, `None` where they do or there is none."""
    if crs.is_unknown or (encoding is GeometryEncoding.EWKB and in_inputs and _has_srid(crs)):
        return None
    name = f"{join_path(path)!r}"
    if kept and crs.is_resolvable:
        return f"{name} has the CRS {crs} in the GeoParquet metadata of the files, and not in its values"
    return f"{name} does not store its CRS {crs}: its values are written without an SRID"


def _require_storable_crs(crs: Crs, where: str, *, kept: bool) -> None:
    """Raise where neither an SRID nor GeoParquet metadata can name a CRS."""
    if _has_srid(crs) or (kept and crs.is_resolvable):
        return
    keep = f"set the property {GEOPARQUET}=true to keep it in the files, " if crs.is_resolvable and not kept else ""
    raise RefusedError(
        f"Havasu names a CRS by its SRID, and {crs} has no EPSG code",
        where=where,
        remedy=f"{keep}transform to a CRS with an EPSG code, or give geometry(SRID:0) to write without a CRS",
    )


def _require_same_crs(
    crs: Crs, encoding: GeometryEncoding, path: str, properties: Mapping[str, str], where: str
) -> None:
    """Raise where new values are in a CRS that they cannot name and that is not the one kept for their column."""
    if crs.is_unknown or (encoding is GeometryEncoding.EWKB and _has_srid(crs)):
        return
    crs_text = properties.get(crs_property(path)) if has_geoparquet(properties) else None
    if crs_text is None:
        _require_storable_crs(crs, where, kept=False)
    elif not Crs.parse(crs_text).same_as(crs):
        what = f"the rows are in {crs}, and the column is in {Crs.parse(crs_text)}"
        raise RefusedError(what, where=where, remedy="transform the rows first")


def _stored_type(encoding: GeometryEncoding, where: str) -> GeometryType:
    if encoding not in (*_BYTES, *_TEXTS):
        options = ", ".join(sorted(known.value for known in (*_BYTES, *_TEXTS)))
        raise SchemaError(f"Havasu has no encoding {encoding.value!r}", where=where, remedy=f"use one of: {options}")
    return GeometryType(UNKNOWN_CRS, encoding)


def _is_left_alone(schema: Schema, path: _Path, geo_input: GeoInput) -> bool:
    """Whether bytes are in a list or a map, where they get no SRID and are written unchanged."""
    return geo_input.keeps_own and schema.find(join_path(path)).type == _BINARY and not through_structs(schema, path)


def _through(schema: Schema, path: _Path, geo_input: GeoInput, where: str) -> GeoInput:
    if not through_structs(schema, path):
        what = "in lists and maps only values in the encoding of the column are accepted"
        raise SchemaError(what, where=where, remedy="convert them")
    return geo_input


def _is_geo(type_: DataType) -> bool:
    return isinstance(type_, (GeometryType, GeographyType, RasterType))


def _is_raster(type_: DataType) -> bool:
    """Whether a struct has the fields of a raster and no others."""
    if not isinstance(type_, StructType):
        return False
    names = {field.name for field in type_.fields}
    return names >= set(METADATA_FIELDS) and names <= {field.name for field in RASTER_V1}


def _require_raster(type_: DataType, where: str) -> None:
    if not _is_raster(type_) and not isinstance(type_, RasterType):
        known = ", ".join(METADATA_FIELDS)
        raise SchemaError(
            f"a column of type {type_name(type_)} cannot hold rasters",
            where=where,
            remedy=f"give structs with the fields of Havasu's raster: {known} and the bands",
        )


def _outside_rasters(schema: Schema, wanted: Mapping[_Path, DataType]) -> Iterator[tuple[_Path, Field]]:
    """Every field except those inside rasters."""
    stack: list[tuple[_Path, Field]] = [((field.name,), field) for field in reversed(schema.fields)]
    while stack:
        path, field = stack.pop()
        yield path, field
        if not _is_raster(field.type) and not isinstance(wanted.get(path), RasterType):
            stack += [((*path, child.name), child) for child in reversed(children(field.type))]


def _spelled(schema: Schema, name: str) -> _Path:
    parts = split_path(name)
    return tuple(schema.find(join_path(parts[: depth + 1])).name for depth in range(len(parts)))


def _table_path(table: Schema, path: _Path) -> str:
    return join_path(_spelled(table, join_path(path)))
