"""Rules about the bounds of files, from the table's own metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.checks.check import flags
from geolake_nb.checks.finding import Severity
from geolake_nb.checks.rule import PARQUET_BOX, PARQUET_CRS, PARQUET_TYPES, Fault, Needs, Rule
from geolake_nb.geo.box_comparison import VERTICES_ONLY
from geolake_nb.model.crs import CRS84, Crs
from geolake_nb.model.file_table import has_column
from geolake_nb.model.types import DataType, GeographyType, GeometryType
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.checks.check import Evidence
    from geolake_nb.geo.box_comparison import BoxSides
    from geolake_nb.model.box import Box

__all__ = ["BOUNDS_RULES"]

_SHOWN_REASONS = 3
_DEGREES_SLACK = 1e-9
_ALMOST_ZERO = 1e-300
_PROJECTED_MARGIN = 0.1
"""A projected CRS is commonly used somewhat beyond its area: by this part of the area."""


def _missing(evidence: Evidence) -> Iterator[Fault]:
    repeated = evidence.repeated
    for column, type_ in evidence.columns:
        # No format has statistics for values inside a list or a map.
        if column in repeated:
            continue
        boxes, problems = evidence.boxes(column), evidence.values(column, "problem")
        bare = ~boxes.known & flags(pc.is_null(problems))
        wrong = bare & ~evidence.only_null(column) & ~evidence.nowhere(column)
        if wrong.any():
            them = "it" if evidence.count == 1 else "them"
            what = f"{_share(wrong, evidence.count)} no bounds, so that every spatial query reads {them}"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _malformed(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in evidence.columns:
        problems = evidence.values(column, "problem")
        wrong = flags(pc.is_valid(problems)) & ~_untrusted_problems(problems)
        if wrong.any():
            what = f"bounds that cannot be read: {_reasons(problems, wrong)}"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _untrusted(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in evidence.columns:
        problems = evidence.values(column, "problem")
        wrong = _untrusted_problems(problems)
        if wrong.any():
            what = f"bounds that a scan cannot trust: {_reasons(problems, wrong)}"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _untrusted_problems(problems: pa.Array) -> NDArray[np.bool_]:
    """The problems of boxes that are well-formed and may still be the wrong ones."""
    untrusted = np.zeros(len(problems), np.bool_)
    for words in (VERTICES_ONLY, "the file's type is"):
        untrusted |= flags(pc.match_substring(problems, words))
    return untrusted


def _reasons(problems: pa.Array, wrong: NDArray[np.bool_]) -> str:
    reasons = problems.filter(pa.array(wrong)).unique()
    shown = "; ".join(printable(reason) for reason in reasons[:_SHOWN_REASONS].to_pylist())
    return f"{shown}{'; …' if len(reasons) > _SHOWN_REASONS else ''}"


def _wrapped(evidence: Evidence) -> Iterator[Fault]:
    planar = not evidence.snapshot.format.wraps_longitude
    for column, type_ in evidence.columns:
        # Parquet, Iceberg and Havasu let a geography or a raster cross the antimeridian; Delta defines no wraparound.
        if not planar and not isinstance(type_, GeometryType):
            continue
        boxes = evidence.boxes(column)
        wrong = boxes.wraps & boxes.known
        if wrong.any():
            reader = (
                "Delta's readers compare boxes on a plane" if planar else "the box of a geometry is compared on a plane"
            )
            what = f"boxes with xmin > xmax: {reader}, skip these files and lose rows"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _phantom(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in evidence.columns:
        boxes = evidence.boxes(column)
        wrong = boxes.known & _all_zero(boxes) & ~_data_is_at_zero(evidence, column)
        if wrong.any():
            what = "boxes of [0, 0, 0, 0]: probably a writer without values or without bounds"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _all_zero(boxes: BoxSides) -> NDArray[np.bool_]:
    # The box of another writer is widened by one ULP, which from zero is the smallest number.
    sides = [np.abs(boxes[axis]) < _ALMOST_ZERO for axis in ("xmin", "ymin", "xmax", "ymax")]
    zero: NDArray[np.bool_] = np.all(sides, axis=0)
    return zero


def _data_is_at_zero(evidence: Evidence, column: str) -> NDArray[np.bool_]:
    """The files whose values lie at (0, 0), as a scan has shown."""
    shown = np.zeros(evidence.count, np.bool_)
    if evidence.deep is not None:
        from geolake_nb.geo.box_comparison import BoxSides

        shown[evidence.file_of(evidence.deep)] = _all_zero(BoxSides.of(evidence.deep, column))
    return shown


def _outside_crs(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in evidence.columns:
        crs = _crs_of_bounds(type_)
        area = crs.coordinate_range()
        if area is None:
            continue
        projected = not crs.is_geographic
        boxes = evidence.boxes(column)
        wrong = boxes.known & _beyond(boxes, area, margin=_PROJECTED_MARGIN if projected else 0.0)
        if wrong.any():
            sides = f"x from {area.xmin:.10g} to {area.xmax:.10g}, y from {area.ymin:.10g} to {area.ymax:.10g}"
            more = ", with a tolerance of 10%" if projected else ""
            what = f"boxes beyond the range of {printable(crs.name)} ({sides}{more})"
            yield Fault(what, evidence.scope(wrong, column), PARQUET_BOX if _on_earth(type_) else PARQUET_CRS)


def _crs_of_bounds(type_: DataType) -> Crs:
    # Havasu, Raster bounds: the boxes of rasters are in WGS84 whatever the CRS of the raster.
    return type_.crs if isinstance(type_, GeometryType | GeographyType) else CRS84


def _on_earth(type_: DataType) -> bool:
    return not isinstance(type_, GeometryType)


def _beyond(boxes: BoxSides, area: Box, *, margin: float) -> NDArray[np.bool_]:
    beyond = np.zeros(len(boxes["xmin"]), np.bool_)
    with np.errstate(invalid="ignore"):
        for axis, low, high in (("x", area.xmin, area.xmax), ("y", area.ymin, area.ymax)):
            slack = margin * (high - low) + _DEGREES_SLACK
            for side in ("min", "max"):
                values = boxes[f"{axis}{side}"]
                beyond |= (values < low - slack) | (values > high + slack)
    return beyond


def _types_invalid(evidence: Evidence) -> Iterator[Fault]:
    for column, _ in evidence.columns:
        types = evidence.values(column, "types")
        wrong, codes = invalid_types(types)
        if wrong.any():
            listed = ", ".join(map(str, codes[:5]))
            what = f"type codes that are not valid: {listed}" if codes else "type codes that are listed twice"
            yield Fault(what, evidence.scope(wrong, column))


def _types_repeated(evidence: Evidence) -> Iterator[Fault]:
    footers = evidence.footers
    if footers is None or not has_column(footers, "repeated_types"):
        return
    listed = footers["repeated_types"].cast(pa.string())
    for column, _ in evidence.columns:
        here = pc.and_(pc.equal(footers["column"], column), pc.is_valid(listed))
        wrong = flags(pa.chunked_array(here).combine_chunks())
        if wrong.any():
            codes = sorted(
                {int(code) for text in listed.filter(here).unique().to_pylist() for code in text.split(", ")}
            )
            what = f"type codes that the statistics of a row group list twice: {', '.join(map(str, codes[:5]))}"
            yield Fault(what, evidence.scope_of_rows(footers, wrong, column), fix_column=column)


def invalid_types(types: pa.ListArray) -> tuple[NDArray[np.bool_], list[int]]:
    """Which lists of type codes break the rules, and the invalid codes.

    >>> wrong, codes = invalid_types(pa.array([[1, 3006], [1, 1], [99], None, []], pa.list_(pa.int32())))
    >>> wrong.tolist(), codes
    ([False, True, True, False, False], [99])
    """
    wrong = np.zeros(len(types), np.bool_)
    codes = np.asarray(pc.list_flatten(types).to_numpy(zero_copy_only=False), np.int64)
    parents = np.asarray(pc.list_parent_indices(types).to_numpy(zero_copy_only=False), np.intp)
    # Parquet, Geospatial Types: ISO codes 1 to 7, plus 1000 for Z, 2000 for M, 3000 for both; each once.
    dimension, kind = np.divmod(codes, 1000)
    bad = (dimension < 0) | (dimension > 3) | (kind < 1) | (kind > 7)
    wrong[parents[bad]] = True
    order = np.lexsort((codes, parents))
    again = (np.diff(codes[order]) == 0) & (np.diff(parents[order]) == 0)
    wrong[parents[order][1:][again]] = True
    return wrong, sorted({int(code) for code in np.unique(codes[bad])})


def _share(wrong: NDArray[np.bool_], count: int) -> str:
    number = int(wrong.sum())
    if number < count:
        return f"{number:,} of {count:,} files have"
    return "all files have" if count > 1 else "the file has"


_REPAIR = "geolake repair {table}"

BOUNDS_RULES = (
    Rule(
        "bounds.missing",
        Severity.WARNING,
        "files without bounds of a geo or raster column: every spatial query reads them",
        "A query about one town reads the whole table, because no file can be skipped.",
        PARQUET_BOX,
        _missing,
        _REPAIR,
    ),
    Rule(
        "bounds.malformed",
        Severity.ERROR,
        "bounds that cannot be read: wrong length, WKB where points belong, NaN, minimum above maximum",
        "Some engines fail on such a bound, others compare wrong values and skip files that they need.",
        PARQUET_BOX,
        _malformed,
        _REPAIR,
    ),
    Rule(
        "bounds.untrusted",
        Severity.WARNING,
        "well-formed boxes that may not hold the values: a geography's vertices without edges, another CRS",
        "A query that trusts such a box could skip a file with matching rows, so careful readers always read the "
        "file always.",
        PARQUET_BOX,
        _untrusted,
        _REPAIR,
    ),
    Rule(
        "bounds.wrapped",
        Severity.ERROR,
        "boxes with xmin > xmax in a Delta table or of a geometry, which readers skip and so lose rows",
        "A reader without wraparound treats the box as empty and skips the file: its rows are missing from the result.",
        PARQUET_BOX,
        _wrapped,
        _REPAIR,
    ),
    Rule(
        "bounds.phantom",
        Severity.WARNING,
        "boxes of [0, 0, 0, 0], which more often mean missing bounds than data at that point",
        "Where the data lies elsewhere, queries skip the file and lose its rows; others near (0, 0) read it in vain.",
        PARQUET_BOX,
        _phantom,
        _REPAIR,
    ),
    Rule(
        "bounds.outside_crs",
        Severity.WARNING,
        "boxes beyond the range of the column's CRS: the CRS, the axis order or the data is wrong",
        "Queries at the right coordinates find nothing: most often x and y are swapped, or metres are labelled "
        "degrees.",
        PARQUET_CRS,
        _outside_crs,
        no_command="only the owner of the data knows what is wrong: the CRS, the order of the axes or the coordinates",
    ),
    Rule(
        "bounds.types_invalid",
        Severity.WARNING,
        "geometry type codes that ISO WKB does not have, or that are listed twice",
        "A reader that picks files by type, such as points alone, cannot use the list or rejects it.",
        PARQUET_TYPES,
        _types_invalid,
        _REPAIR,
    ),
    Rule(
        "bounds.types_repeated",
        Severity.WARNING,
        "geometry type codes that the statistics in a Parquet footer list twice",
        "Parquet requires each code once: a strict reader rejects the statistics or the file.",
        PARQUET_TYPES,
        _types_repeated,
        "geolake rewrite {table} --cluster {column}",
        needs=Needs.FOOTERS,
    ),
)
