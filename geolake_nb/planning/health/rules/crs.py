"""Rules about coordinate reference systems and Parquet's geo types: whether all places say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.crs import CRS84, Crs, CrsForm
from geolake_nb.core.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType
from geolake_nb.errors import CrsError, SchemaError
from geolake_nb.formats.file_table import has_column
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.health.evidence import flags
from geolake_nb.planning.health.finding import Place, Severity, printable
from geolake_nb.planning.health.rule import Fault, Needs, Rule, Unjudged
from geolake_nb.planning.health.rules.sources import (
    DELTA_PARQUET,
    DELTA_TYPES,
    HAVASU_GEOMETRY_BOUNDS,
    ICEBERG_TYPES,
    PARQUET_CRS,
    PARQUET_CUSTOM_CRS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.planning.health.evidence import Evidence
    from geolake_nb.planning.health.finding import SpecReference

__all__ = ["CRS_RULES"]

_GeoType = GeometryType | GeographyType


def _geo_types(evidence: Evidence) -> Iterator[tuple[str, _GeoType]]:
    for path, field in evidence.snapshot.schema.geo_columns():
        if isinstance(field.type, GeometryType | GeographyType):
            yield path, field.type


def _property_missing(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in _geo_types(evidence):
        crs = type_.crs
        if crs.form is CrsForm.PROPERTY and crs.resolved is None:
            name = printable(crs.property_name or "")
            spec = DELTA_TYPES if evidence.snapshot.format is TableFormat.DELTA else PARQUET_CUSTOM_CRS
            what = f"the CRS is {printable(crs.text)}, and the table has no property {name!r}"
            yield Fault(what, Place(column), spec)


def _unresolved(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in _geo_types(evidence):
        crs = type_.crs
        missing_property = crs.form is CrsForm.PROPERTY and crs.resolved is None
        if crs.is_unknown or missing_property:
            continue
        try:
            crs.to_pyproj()
        except CrsError as error:
            yield Fault(f"the CRS {_name(crs)} cannot be resolved: {error.what}", Place(column))


def _projected_geography(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in _geo_types(evidence):
        if isinstance(type_, GeographyType) and type_.crs.is_projected:
            what = f"a geography has longitudes and latitudes, and {_name(type_.crs)} is a projection"
            yield Fault(what, Place(column), _type_source(evidence))


def _no_logical_type(evidence: Evidence) -> Iterator[Fault]:
    for column, type_, footers in _footers(evidence):
        wrong = flags(pc.is_null(_values(footers, "logical_type")))
        if wrong.any():
            kind = "GEOMETRY" if isinstance(type_, GeometryType) else "GEOGRAPHY"
            what = f"data files in which the column has no Parquet type {kind}: their readers see plain bytes"
            yield Fault(what, evidence.place_of_rows(footers, wrong, column), _parquet_source(evidence))


def _logical_type_differs(evidence: Evidence) -> Iterator[Fault]:
    for column, type_, footers in _footers(evidence):
        wanted = "GEOMETRY" if isinstance(type_, GeometryType) else "GEOGRAPHY"
        logical = pc.utf8_upper(_values(footers, "logical_type"))
        wrong = flags(pc.not_equal(logical, wanted))
        if isinstance(type_, GeographyType):
            # Parquet, Logical Types: edges are spherical unless the type says otherwise.
            found = pc.fill_null(_values(footers, "algorithm"), EdgeAlgorithm.SPHERICAL.value)
            for text in found.unique().to_pylist():
                if _algorithm(text) is not type_.algorithm:
                    wrong |= flags(pc.and_(pc.equal(found, text), pc.equal(logical, wanted)))
        if wrong.any():
            edges = f" with {type_.algorithm.value} edges" if isinstance(type_, GeographyType) else ""
            what = f"data files whose Parquet type is not the schema's {wanted}{edges}"
            yield Fault(what, evidence.place_of_rows(footers, wrong, column), _parquet_source(evidence))


def _algorithm(text: str) -> EdgeAlgorithm | None:
    try:
        return EdgeAlgorithm.parse(text)
    except SchemaError:
        return None


def _differs_in_parquet(evidence: Evidence) -> Iterator[Fault]:
    for column, type_, footers in _footers(evidence):
        # Parquet, Coordinate Reference System: OGC:CRS84 unless the type says otherwise.
        stored = pc.fill_null(_values(footers, "crs"), CRS84.text)
        typed = flags(pc.is_valid(_values(footers, "logical_type")))
        for text in stored.filter(pa.array(typed)).unique().to_pylist():
            wrong = typed & flags(pc.equal(stored, text))
            yield from _difference(
                evidence, column, type_.crs, text, footers=footers, wrong=wrong, where="Parquet type"
            )


def _differs_in_geoparquet(evidence: Evidence) -> Iterator[Fault]:
    for column, type_, footers in _footers(evidence, wkb_only=False):
        stored = _values(footers, "geoparquet_crs")
        for text in stored.drop_null().unique().to_pylist():
            wrong = flags(pc.equal(stored, text))
            yield from _difference(
                evidence, column, type_.crs, text, footers=footers, wrong=wrong, where="GeoParquet metadata"
            )


def _difference(
    evidence: Evidence,
    column: str,
    ours: Crs,
    text: str,
    *,
    footers: pa.Table,
    wrong: NDArray[np.bool_],
    where: str,
) -> Iterator[Fault]:
    try:
        theirs = Crs.parse(text, properties=evidence.snapshot.properties)
        same = ours.same_as(theirs)
        name = _name(theirs)
    except CrsError:
        same, name = False, printable(text[:60])
    if not same and wrong.any():
        what = f"the schema has {_name(ours)}, the {where} of these files {name}"
        yield Fault(what, evidence.place_of_rows(footers, wrong, column))


def _differs_in_values(evidence: Evidence) -> Iterator[Fault | Unjudged]:
    yield from _unscanned(evidence)
    for column, type_, numbers, file in _srids(evidence):
        if type_.crs.is_unknown:
            continue
        for number in np.unique(numbers):
            if not type_.crs.same_as(Crs(f"EPSG:{number}")):
                wrong = np.zeros(evidence.count, np.bool_)
                wrong[file[numbers == number]] = True
                what = f"the schema has {_name(type_.crs)}, values in these files have the SRID {number}"
                yield Fault(what, evidence.place(wrong, column))


def _mixed_srids(evidence: Evidence) -> Iterator[Fault | Unjudged]:
    yield from _unscanned(evidence)
    for column, type_, numbers, file in _srids(evidence):
        found = np.unique(numbers)
        if not type_.crs.is_unknown or len(found) < 2:
            continue
        # Havasu, Geometry bounds: SRIDs are ignored when the boxes are made.
        wrong = np.zeros(evidence.count, np.bool_)
        wrong[file] = True
        listed = ", ".join(str(number) for number in found[:5]) + (", …" if len(found) > 5 else "")
        what = f"values with different SRIDs ({listed}): boxes ignore them, so that no window means the same in all"
        yield Fault(what, evidence.place(wrong, column))


def _unscanned(evidence: Evidence) -> Iterator[Unjudged]:
    names = [] if evidence.deep is None else evidence.deep.column_names
    if evidence.count and not any(name.endswith(".srids") for name in names):
        yield Unjudged("the scan did not look at the SRIDs of the values")


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
    """Which rows are those of a column, in their order: not found for each column among those of all."""
    place = pa.array(np.arange(footers.num_rows, dtype=np.int64))
    whole = pa.table({"column": footers["column"].cast(pa.string()), "place": place})
    grouped = whole.group_by("column", use_threads=False).aggregate([("place", "list")])
    lists = grouped["place_list"].combine_chunks()
    return {name: lists[at].values for at, name in enumerate(grouped["column"].to_pylist())}


def _values(footers: pa.Table, name: str) -> pa.Array:
    if not has_column(footers, name):
        return pa.nulls(footers.num_rows, pa.string())
    chunks = footers[name].cast(pa.string()).chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


def _name(crs: Crs) -> str:
    return printable(crs.text) if len(crs.text) <= 60 else printable(crs.name)


def _type_source(evidence: Evidence) -> SpecReference:
    return {TableFormat.DELTA: DELTA_TYPES, TableFormat.ICEBERG: ICEBERG_TYPES}.get(
        evidence.snapshot.format, PARQUET_CRS
    )


def _parquet_source(evidence: Evidence) -> SpecReference:
    return DELTA_PARQUET if evidence.snapshot.format is TableFormat.DELTA else ICEBERG_TYPES


_REWRITE = "geolake rewrite {table}"
_ASK_FOR_GEO_TYPES = frozenset({TableFormat.DELTA, TableFormat.ICEBERG})
# Havasu keeps its geometries in plain columns, and its schema has no CRS.
_MAY_HAVE_GEO_TYPES = _ASK_FOR_GEO_TYPES | {TableFormat.PARQUET}

CRS_RULES = (
    Rule(
        "crs.property_missing",
        Severity.ERROR,
        "a CRS that refers to a table property which is not there",
        "Nobody can tell what the coordinates mean: degrees or metres, and from where.",
        PARQUET_CUSTOM_CRS,
        _property_missing,
    ),
    Rule(
        "crs.unresolved",
        Severity.WARNING,
        "a CRS that cannot be resolved: nothing can be transformed to or from it",
        "The files cannot be put on a map, and a window in another CRS cannot be compared with them, so that all "
        "are read.",
        PARQUET_CRS,
        _unresolved,
    ),
    Rule(
        "crs.projected_geography",
        Severity.ERROR,
        "a geography whose CRS is a projection",
        "A geography is longitude and latitude: metres taken for degrees give wrong places and wrong bounds.",
        PARQUET_CRS,
        _projected_geography,
        "geolake convert {table}",
    ),
    Rule(
        "crs.no_logical_type",
        Severity.ERROR,
        "data files that store a geo column without Parquet's GEOMETRY or GEOGRAPHY",
        "Whoever reads the files sees plain bytes and uses no boxes of row groups, and strict engines refuse the "
        "table.",
        DELTA_PARQUET,
        _no_logical_type,
        _REWRITE,
        needs=Needs.FOOTERS,
        formats=_ASK_FOR_GEO_TYPES,
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
    ),
    Rule(
        "crs.differs_in_parquet",
        Severity.ERROR,
        "data files whose Parquet geo type has another CRS than the schema",
        "The same numbers mean two places: engines that trust the file put the data elsewhere than those that "
        "trust the table.",
        PARQUET_CRS,
        _differs_in_parquet,
        _REWRITE,
        needs=Needs.FOOTERS,
        formats=_MAY_HAVE_GEO_TYPES,
    ),
    Rule(
        "crs.differs_in_geoparquet",
        Severity.ERROR,
        "data files whose GeoParquet metadata has another CRS than the schema",
        "Readers of GeoParquet, such as GeoPandas, put the data elsewhere than engines that read the table.",
        PARQUET_CRS,
        _differs_in_geoparquet,
        _REWRITE,
        needs=Needs.FOOTERS,
        formats=_MAY_HAVE_GEO_TYPES,
    ),
    Rule(
        "crs.differs_in_values",
        Severity.ERROR,
        "values whose EWKB SRID is another CRS than that of the schema",
        "The values say that they lie elsewhere than the table says: a join may compare metres with degrees.",
        PARQUET_CRS,
        _differs_in_values,
        _REWRITE,
        needs=Needs.DEEP,
    ),
    Rule(
        "crs.mixed_srids",
        Severity.WARNING,
        "values of one column with different EWKB SRIDs, which bounds ignore",
        "A box over the numbers of several CRSs is no place on Earth, and a window finds the wrong files.",
        HAVASU_GEOMETRY_BOUNDS,
        _mixed_srids,
        _REWRITE,
        needs=Needs.DEEP,
    ),
)
