"""Rules about coordinate reference systems and Parquet's geo types: whether table, files and values agree."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.checks.check import flags
from geolake_nb.checks.finding import Scope, Severity
from geolake_nb.checks.rule import (
    DELTA_PARQUET,
    HAVASU_GEOMETRY_BOUNDS,
    PARQUET_CRS,
    PARQUET_CUSTOM_CRS,
    Fault,
    Needs,
    Rule,
    Skip,
)
from geolake_nb.errors import CrsError, SchemaError
from geolake_nb.model.crs import CRS84, Crs, CrsForm
from geolake_nb.model.file_table import has_column
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType, to_delta_text
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.checks.check import Evidence
    from geolake_nb.model.table_format import SpecReference

__all__ = ["CRS_RULES"]

_GeoType = GeometryType | GeographyType
_GEOPARQUET = "GeoParquet metadata"


def _geo_types(evidence: Evidence) -> Iterator[tuple[str, _GeoType]]:
    for path, field in evidence.snapshot.schema.geo_columns():
        if isinstance(field.type, GeometryType | GeographyType):
            yield path, field.type


def _property_missing(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in _geo_types(evidence):
        crs = type_.crs
        if crs.form is CrsForm.PROPERTY and crs.resolved is None:
            name = printable(crs.property_name or "")
            spec = evidence.snapshot.format.crs_property_spec
            what = f"the CRS is {printable(crs.text)}, and the table has no property {name!r}"
            yield Fault(what, Scope(column), spec)


def _unresolved(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in _geo_types(evidence):
        crs = type_.crs
        missing_property = crs.form is CrsForm.PROPERTY and crs.resolved is None
        if crs.is_unknown or missing_property:
            continue
        try:
            crs.to_pyproj()
        except CrsError as error:
            yield Fault(f"the CRS {_name(crs)} cannot be resolved: {error.what}", Scope(column))


def _projected_geography(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in _geo_types(evidence):
        if isinstance(type_, GeographyType) and type_.crs.is_projected:
            what = f"a geography needs longitudes and latitudes, but {_name(type_.crs)} is a projection"
            yield Fault(what, Scope(column), _type_source(evidence))


def _no_logical_type(evidence: Evidence) -> Iterator[Fault]:
    for column, type_, footers in _footers(evidence):
        wrong = flags(pc.is_null(_values(footers, "logical_type")))
        if wrong.any():
            kind = "GEOMETRY" if isinstance(type_, GeometryType) else "GEOGRAPHY"
            what = f"data files in which the column has no Parquet type {kind}: their readers see plain bytes"
            scope = evidence.scope_of_rows(footers, wrong, column)
            yield _with_rewrite(Fault(what, scope, _parquet_source(evidence)), evidence, column, type_)


def _logical_type_differs(evidence: Evidence) -> Iterator[Fault]:
    for column, type_, footers in _footers(evidence):
        wanted = "GEOMETRY" if isinstance(type_, GeometryType) else "GEOGRAPHY"
        logical = pc.utf8_upper(_values(footers, "logical_type"))
        wrong = flags(pc.not_equal(logical, wanted))
        if isinstance(type_, GeographyType):
            # Parquet, Logical Types: edges are spherical unless the type specifies another algorithm.
            algorithms = pc.fill_null(_values(footers, "algorithm"), EdgeAlgorithm.SPHERICAL.value)
            for text in algorithms.unique().to_pylist():
                if _algorithm(text) is not type_.algorithm:
                    wrong |= flags(pc.and_(pc.equal(algorithms, text), pc.equal(logical, wanted)))
        if wrong.any():
            edges = f" with {type_.algorithm.value} edges" if isinstance(type_, GeographyType) else ""
            what = f"data files whose Parquet type is not the schema's {wanted}{edges}"
            scope = evidence.scope_of_rows(footers, wrong, column)
            yield _with_rewrite(Fault(what, scope, _parquet_source(evidence)), evidence, column, type_)


def _algorithm(text: str) -> EdgeAlgorithm | None:
    try:
        return EdgeAlgorithm.parse(text)
    except SchemaError:
        return None


def _differs_in_parquet(evidence: Evidence) -> Iterator[Fault]:
    for column, type_, footers in _footers(evidence):
        # Parquet, Coordinate Reference System: OGC:CRS84 unless the type specifies another CRS.
        stored = pc.fill_null(_values(footers, "crs"), CRS84.text)
        typed = flags(pc.is_valid(_values(footers, "logical_type")))
        for text in stored.filter(pa.array(typed)).unique().to_pylist():
            wrong = typed & flags(pc.equal(stored, text))
            yield from _difference(evidence, column, type_, text, footers=footers, wrong=wrong, where="Parquet type")


def _differs_in_geoparquet(evidence: Evidence) -> Iterator[Fault]:
    for column, type_, footers in _footers(evidence, wkb_only=False):
        stored = _values(footers, "geoparquet_crs")
        for text in stored.drop_null().unique().to_pylist():
            wrong = flags(pc.equal(stored, text))
            yield from _difference(evidence, column, type_, text, footers=footers, wrong=wrong, where=_GEOPARQUET)


def _difference(
    evidence: Evidence,
    column: str,
    type_: _GeoType,
    text: str,
    *,
    footers: pa.Table,
    wrong: NDArray[np.bool_],
    where: str,
) -> Iterator[Fault]:
    ours, theirs = type_.crs, None
    try:
        theirs = Crs.parse(text, properties=evidence.snapshot.properties)
        same = ours.same_as(theirs)
        name = _name(theirs)
    except CrsError:
        same, name = False, printable(text[:60])
    if not same and wrong.any():
        what = f"the schema has {_name(ours)}, the {where} of these files {name}"
        # A writer without a CRS leaves Parquet's type at its default and writes null into GeoParquet.
        undeclared = theirs is not None and theirs.is_unknown and ours == CRS84
        severity = Severity.WARNING if undeclared and where == _GEOPARQUET else None
        fault = Fault(what, evidence.scope_of_rows(footers, wrong, column), severity=severity)
        yield _with_rewrite(fault, evidence, column, type_)


def _with_rewrite(fault: Fault, evidence: Evidence, column: str, type_: _GeoType) -> Fault:
    """The fault with the command that rewrites all files: by clustering, or in Parquet files by declaring the type."""
    if column in evidence.repeated:
        return fault
    if evidence.snapshot.format.has_versions:
        return replace(fault, fix_column=column)
    word = shlex.quote(f"{column}={to_delta_text(type_)}")
    return replace(fault, command=f"geolake rewrite {shlex.quote(evidence.snapshot.location)} --column {word}")


def _differs_in_values(evidence: Evidence) -> Iterator[Fault | Skip]:
    yield from _unscanned(evidence)
    for column, type_, numbers, file in _srids(evidence):
        if type_.crs.is_unknown:
            continue
        for number in np.unique(numbers):
            if not type_.crs.same_as(Crs(f"srid:{number}")):
                wrong = np.zeros(evidence.count, np.bool_)
                wrong[file[numbers == number]] = True
                what = f"the schema has {_name(type_.crs)}, values in these files have the SRID {number}"
                yield Fault(what, evidence.scope(wrong, column))


def _mixed_srids(evidence: Evidence) -> Iterator[Fault | Skip]:
    yield from _unscanned(evidence)
    for column, type_, numbers, file in _srids(evidence):
        distinct = np.unique(numbers)
        if not type_.crs.is_unknown or len(distinct) < 2:
            continue
        # Havasu, Geometry bounds: SRIDs are ignored when the boxes are computed.
        wrong = np.zeros(evidence.count, np.bool_)
        wrong[file] = True
        listed = ", ".join(str(number) for number in distinct[:5]) + (", …" if len(distinct) > 5 else "")
        what = f"values with different SRIDs ({listed}): boxes ignore them, so no query box fits all values"
        yield Fault(what, evidence.scope(wrong, column))


def _unscanned(evidence: Evidence) -> Iterator[Skip]:
    names = [] if evidence.deep is None else evidence.deep.column_names
    if evidence.count and not any(name.endswith(".srids") for name in names):
        yield Skip("the scan did not read the SRIDs of the values")


def _srids(evidence: Evidence) -> Iterator[tuple[str, _GeoType, NDArray[np.int64], NDArray[np.intp]]]:
    """The SRIDs that a scan found in the values of each column, with the positions of their files; 0 is none."""
    deep = evidence.deep
    if deep is None:
        return
    for column, type_ in _geo_types(evidence):
        if not has_column(deep, f"{column}.srids"):
            continue
        lists = (
            pa.concat_arrays(deep[f"{column}.srids"].chunks) if deep.num_rows else pa.array([], pa.list_(pa.int64()))
        )
        numbers = np.asarray(pc.list_flatten(lists).to_numpy(zero_copy_only=False), np.int64)
        parents = np.asarray(pc.list_parent_indices(lists).to_numpy(zero_copy_only=False), np.intp)
        real = numbers > 0
        yield column, type_, numbers[real], evidence.file_of(deep)[parents[real]]


def _footers(evidence: Evidence, *, wkb_only: bool = True) -> Iterator[tuple[str, _GeoType, pa.Table]]:
    """The footers of each column, with `wkb_only` of those whose values are WKB, which Parquet's geo types hold."""
    footers = evidence.footers
    if footers is None:
        return
    rows = _rows_by_column(footers)
    for column, type_ in _geo_types(evidence):
        if type_.encoding is GeometryEncoding.WKB or not wkb_only:
            yield column, type_, footers.take(rows.get(column, pa.array([], pa.int64())))


def _rows_by_column(footers: pa.Table) -> dict[str, pa.Array]:
    """The rows of each column, in order, found in one pass over all rows."""
    row = pa.array(np.arange(footers.num_rows, dtype=np.int64))
    whole = pa.table({"column": footers["column"].cast(pa.string()), "row": row})
    grouped = whole.group_by("column", use_threads=False).aggregate([("row", "list")])
    lists = grouped["row_list"].combine_chunks()
    return {name: lists[at].values for at, name in enumerate(grouped["column"].to_pylist())}


def _values(footers: pa.Table, name: str) -> pa.Array:
    if not has_column(footers, name):
        return pa.nulls(footers.num_rows, pa.string())
    chunks = footers[name].cast(pa.string()).chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


def _name(crs: Crs) -> str:
    return printable(crs.text) if len(crs.text) <= 60 else printable(crs.name)


def _type_source(evidence: Evidence) -> SpecReference:
    return evidence.snapshot.format.types_spec


def _parquet_source(evidence: Evidence) -> SpecReference:
    return evidence.snapshot.format.parquet_spec


_REWRITE = "geolake rewrite {table} --cluster {column}"
_IN_A_LIST = (
    "the column is inside a list or a map, which cannot be clustered by: rewrite it with the engine that wrote it"
)
_REQUIRE_GEO_TYPES = frozenset({"delta", "iceberg"})
# Havasu keeps its geometries in plain columns, and its schema has no CRS.
_MAY_HAVE_GEO_TYPES = _REQUIRE_GEO_TYPES | {"parquet"}

CRS_RULES = (
    Rule(
        "crs.property_missing",
        Severity.ERROR,
        "a CRS that refers to a missing table property",
        "The coordinates have no defined meaning: degrees or metres, and from which origin.",
        PARQUET_CUSTOM_CRS,
        _property_missing,
        no_command="only the owner of the table has the definition: set the property to the PROJJSON of the CRS",
    ),
    Rule(
        "crs.unresolved",
        Severity.WARNING,
        "a CRS that cannot be resolved: nothing can be transformed to or from it",
        "The files cannot be drawn on a map, and a query in another CRS cannot be compared with them, so all are read.",
        PARQUET_CRS,
        _unresolved,
        no_command="only the owner of the table knows its CRS: name one that PROJ knows where the table is made",
    ),
    Rule(
        "crs.projected_geography",
        Severity.ERROR,
        "a geography whose CRS is a projection",
        "A geography is longitude and latitude: metres read as degrees give wrong locations and wrong bounds.",
        PARQUET_CRS,
        _projected_geography,
        no_command="no command changes coordinates: transform them to longitude and latitude where the rows are made",
    ),
    Rule(
        "crs.no_logical_type",
        Severity.ERROR,
        "data files that store a geo column without Parquet's GEOMETRY or GEOGRAPHY",
        "Readers of the files see plain bytes and use no row-group boxes, and strict engines reject the table.",
        DELTA_PARQUET,
        _no_logical_type,
        _REWRITE,
        needs=Needs.FOOTERS,
        formats=_REQUIRE_GEO_TYPES,
        no_command=_IN_A_LIST,
    ),
    Rule(
        "crs.logical_type_differs",
        Severity.ERROR,
        "data files whose Parquet geo type or edge algorithm is not that of the schema",
        "Engines that trust the file and engines that trust the table draw other lines between the same points, "
        "and return other rows.",
        DELTA_PARQUET,
        _logical_type_differs,
        _REWRITE,
        needs=Needs.FOOTERS,
        formats=_MAY_HAVE_GEO_TYPES,
        no_command=_IN_A_LIST,
    ),
    Rule(
        "crs.differs_in_parquet",
        Severity.ERROR,
        "data files whose Parquet geo type has another CRS than the schema",
        "The same numbers mean two locations: engines that trust the file place the data elsewhere than those that "
        "trust the table.",
        PARQUET_CRS,
        _differs_in_parquet,
        _REWRITE,
        needs=Needs.FOOTERS,
        formats=_MAY_HAVE_GEO_TYPES,
        no_command=_IN_A_LIST,
    ),
    Rule(
        "crs.differs_in_geoparquet",
        Severity.ERROR,
        "data files whose GeoParquet metadata has another CRS than the schema",
        "Readers of GeoParquet, such as GeoPandas, place the data elsewhere than engines that read the table.",
        PARQUET_CRS,
        _differs_in_geoparquet,
        _REWRITE,
        needs=Needs.FOOTERS,
        formats=_MAY_HAVE_GEO_TYPES,
        no_command=_IN_A_LIST,
    ),
    Rule(
        "crs.differs_in_values",
        Severity.ERROR,
        "values whose EWKB SRID is another CRS than that of the schema",
        "The values declare another CRS than the table: a join may compare metres with degrees.",
        PARQUET_CRS,
        _differs_in_values,
        needs=Needs.DEEP,
        no_command="no command changes coordinates, and only their owner knows which of the CRSs is right",
    ),
    Rule(
        "crs.mixed_srids",
        Severity.WARNING,
        "values of one column with different EWKB SRIDs, which bounds ignore",
        "A box over coordinates of several CRSs is meaningless, and a query finds the wrong files.",
        HAVASU_GEOMETRY_BOUNDS,
        _mixed_srids,
        needs=Needs.DEEP,
        no_command="no command changes coordinates, and only their owner knows which of the CRSs is right",
    ),
)
