"""Rules that compare the bounds of files with the Parquet footers and the data."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.checks.check import flags
from geolake_nb.checks.finding import Severity
from geolake_nb.checks.rule import PARQUET_BOX, PARQUET_TYPES, Fault, Needs, Rule
from geolake_nb.geo.box_comparison import EDGE_SLACK, BoxSides, Misses, excess, misses, union_by
from geolake_nb.model.file_table import BoundSource, has_column
from geolake_nb.model.types import DataType, GeographyType, RasterType
from geolake_nb.parquet.footer_boxes import MARGIN as FOREIGN_MARGIN
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.checks.check import Evidence

__all__ = ["BOUNDS_TRUTH_RULES"]

# A scan rounds the bounds of rasters outward, too: by a part of the extent, and what a projection rounds.
_RASTER_SLACK = 2e-4, 2e-9

# Row groups have the boxes of other writers with a margin (see `foreign_boxes`), and boxes of a covering of
# 32-bit floats one step wider: neither means that the table's own box is too small.
_FLOAT32_MARGIN = 2.0**-21


def _smaller_than_footer(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in evidence.columns:
        wrong = _against_footers(evidence, column).smaller & ~_proven_by_scan(evidence, column, type_)
        if wrong.any():
            what = "boxes smaller than those in the footers: queries skip these files and lose rows"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _smaller_than_data(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in evidence.columns:
        wrong = _against_data(evidence, column, type_).smaller
        if wrong.any():
            what = "boxes smaller than the data: queries skip these files and lose rows"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _row_group_smaller(evidence: Evidence) -> Iterator[Fault]:
    narrow = evidence.narrow_groups
    if narrow is None or not narrow.num_rows:
        return
    columns = np.asarray(narrow["column"].to_pylist(), object)
    edits_footers = evidence.snapshot.format.name == "parquet"
    for column, type_ in evidence.columns:
        wrong = columns == column
        if not wrong.any():
            continue
        what = (
            f"{plural(int(wrong.sum()), 'row group')} with a box smaller than the values: queries skip rows that match"
        )
        location = shlex.quote(evidence.snapshot.location)
        # A box in a footer can be replaced; files of other formats are immutable.
        command = f"geolake repair {location} --verify" if edits_footers else None
        scope = evidence.scope_of_rows(narrow, wrong, column)
        fix_column = None if column in evidence.repeated else column
        yield Fault(what, scope, evidence.snapshot.format.bounds_spec(type_), command=command, fix_column=fix_column)


def _values_unreadable(evidence: Evidence) -> Iterator[Fault]:
    deep = evidence.deep
    for column, type_ in evidence.columns:
        if deep is None or not has_column(deep, f"{column}.bad"):
            continue
        counts = np.asarray(pc.fill_null(deep[f"{column}.bad"], 0).to_numpy(), np.int64)
        wrong = _marked(evidence.file_of(deep), counts > 0, evidence.count)
        if wrong.any():
            what = f"{int(counts.sum()):,} values that cannot be read: their files can have no bounds"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _rounding(evidence: Evidence) -> Iterator[Fault]:
    for column, type_ in evidence.columns:
        footers, data = _against_footers(evidence, column), _against_data(evidence, column, type_)
        wrong = (footers.rounded | data.rounded) & ~footers.smaller & ~data.smaller
        if wrong.any():
            what = "boxes smaller than the footers or the data by a rounding error"
            # Where the footers do not show it, a repair has to read the values.
            verify = f"geolake repair {shlex.quote(evidence.snapshot.location)} --verify"
            command = verify if (wrong & ~footers.rounded).any() else None
            source = evidence.snapshot.format.bounds_spec(type_)
            yield Fault(what, evidence.scope(wrong, column), source, command=command)


def _against_footers(evidence: Evidence, column: str) -> Misses:
    """Which files have a box that misses one of their row groups'."""
    groups = evidence.row_groups
    if groups is None:
        return _nothing(evidence)
    return evidence.once("against footers", column, lambda: _missed_groups(evidence, groups, column))


def _missed_groups(evidence: Evidence, groups: pa.Table, column: str) -> Misses:
    file, inner = evidence.file_of(groups), BoxSides.of(groups, column)
    margin = np.full(len(file), FOREIGN_MARGIN)
    if has_column(groups, f"{column}.source"):
        margin[flags(pc.equal(groups[f"{column}.source"], BoundSource.COVERING.value))] = _FLOAT32_MARGIN
    missed = misses(evidence.boxes(column).take(file), inner, margin=margin)
    return Misses(_marked(file, missed.smaller, evidence.count), _marked(file, missed.rounded, evidence.count))


def _against_data(evidence: Evidence, column: str, type_: DataType) -> Misses:
    """Which files have a box that misses a part of what the scan found in them."""
    deep = evidence.deep
    if deep is None:
        return _nothing(evidence)
    return evidence.once("against data", column, lambda: _missed_values(evidence, deep, column, type_))


def _missed_values(evidence: Evidence, deep: pa.Table, column: str, type_: DataType) -> Misses:
    file, inner = evidence.file_of(deep), BoxSides.of(deep, column)
    missed = misses(evidence.boxes(column).take(file), inner, slack=_scan_slack(type_, inner))
    return Misses(_marked(file, missed.smaller, evidence.count), _marked(file, missed.rounded, evidence.count))


def _proven_by_scan(evidence: Evidence, column: str, type_: DataType) -> NDArray[np.bool_]:
    """The files whose box holds all of the data: where the footer differs, the footer is the loose one."""
    if evidence.deep is None:
        return np.zeros(evidence.count, np.bool_)
    scanned = BoxSides.of(evidence.deep, column).known
    return (
        _marked(evidence.file_of(evidence.deep), scanned, evidence.count)
        & ~_against_data(evidence, column, type_).smaller
    )


def _nothing(evidence: Evidence) -> Misses:
    return Misses(np.zeros(evidence.count, np.bool_), np.zeros(evidence.count, np.bool_))


def _marked(file: NDArray[np.intp], rows: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    marked = np.zeros(count, np.bool_)
    marked[file[rows]] = True
    return marked


def _scan_slack(type_: DataType, inner: BoxSides) -> NDArray[np.float64]:
    if isinstance(type_, GeographyType):
        return np.full(len(inner["xmin"]), EDGE_SLACK[type_.algorithm])
    if isinstance(type_, RasterType):
        part, rounding = _RASTER_SLACK
        width = np.where(inner.wraps, 360.0, 0.0) + inner["xmax"] - inner["xmin"]
        return rounding + part * np.nan_to_num(np.fmax(width, inner["ymax"] - inner["ymin"]))
    return np.zeros(len(inner["xmin"]))


def _looser_than_footer(evidence: Evidence) -> Iterator[Fault]:
    if evidence.row_groups is None:
        return
    groups = evidence.row_groups
    for column, type_ in evidence.columns:
        # Other writers' footers bound the vertices of a geography; a correct bound includes its edges.
        if isinstance(type_, GeographyType):
            continue
        file = evidence.file_of(groups)
        inner = BoxSides.of(groups, column)
        whole = union_by(file, inner, evidence.count)
        # A row group without a box is unbounded, and so is its file.
        unknown = _marked(file, ~inner.known & ~_only_null_groups(groups, column), evidence.count)
        # One that is too small elsewhere is the wrong box, not a loose one.
        wrong = excess(evidence.boxes(column), whole) & ~unknown & ~_against_footers(evidence, column).smaller
        if not evidence.snapshot.format.wraps_longitude:
            # Delta has no wraparound: a box across the antimeridian has to span all longitudes.
            wrong &= ~_marked(file, inner.wraps, evidence.count)
        if wrong.any():
            what = "boxes larger than those in the footers: queries read files that they could skip"
            yield Fault(what, evidence.scope(wrong, column), evidence.snapshot.format.bounds_spec(type_))


def _only_null_groups(groups: pa.Table, column: str) -> NDArray[np.bool_]:
    name = f"{column}.null_count"
    if not has_column(groups, name):
        return np.zeros(groups.num_rows, np.bool_)
    return flags(pc.equal(groups[name], groups["rows"]))


def _types_differ(evidence: Evidence) -> Iterator[Fault]:
    for column, _ in evidence.columns:
        stated, known = type_sets(evidence.values(column, "types"))
        wrong = np.zeros(evidence.count, np.bool_)
        for truth in (evidence.row_groups, evidence.deep):
            if truth is None or not has_column(truth, f"{column}.types"):
                continue
            present, present_known = type_sets(pa.chunked_array(truth[f"{column}.types"]).combine_chunks())
            file = evidence.file_of(truth)
            wrong |= _marked(file, present_known & known[file] & (present & ~stated[file] != 0), evidence.count)
        if wrong.any():
            what = "lists of type codes that lack types of the footers or the data"
            yield Fault(what, evidence.scope(wrong, column))


def type_sets(types: pa.ListArray) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Each list of valid type codes as a set of bits, and which lists are known.

    >>> sets, known = type_sets(pa.array([[1, 3], [], None], pa.list_(pa.int32())))
    >>> sets.tolist(), known.tolist()
    ([5, 0, 0], [True, False, False])
    """
    codes = np.asarray(pc.list_flatten(types).to_numpy(zero_copy_only=False), np.int64)
    parents = np.asarray(pc.list_parent_indices(types).to_numpy(zero_copy_only=False), np.intp)
    dimension, kind = np.divmod(codes, 1000)
    valid = (dimension >= 0) & (dimension <= 3) & (kind >= 1) & (kind <= 7)
    bits = np.left_shift(np.uint32(1), (dimension * 7 + kind - 1)[valid].astype(np.uint32))
    sets = np.zeros(len(types), np.uint32)
    np.bitwise_or.at(sets, parents[valid], bits)
    # Parquet, Geospatial Types: an empty list signals that the types are not known.
    return sets, sets != 0


_REPAIR = "geolake repair {table}"

BOUNDS_TRUTH_RULES = (
    Rule(
        "bounds.smaller_than_footer",
        Severity.ERROR,
        "boxes smaller than those in the footers: queries lose rows",
        "A query in the missing part skips the file: rows are silently missing from the result.",
        PARQUET_BOX,
        _smaller_than_footer,
        _REPAIR,
        needs=Needs.ROW_GROUPS,
    ),
    Rule(
        "bounds.smaller_than_data",
        Severity.ERROR,
        "boxes smaller than the data: queries lose rows",
        "Rows lie outside the box of their file: a query there skips it and silently loses them.",
        PARQUET_BOX,
        _smaller_than_data,
        f"{_REPAIR} --verify",
        needs=Needs.DEEP,
    ),
    Rule(
        "bounds.row_group_smaller",
        Severity.ERROR,
        "row groups with a box in the data file that is smaller than their values: queries lose rows",
        "The box of a row group, in the footer or in a bbox column, leaves out rows: engines lose them.",
        PARQUET_BOX,
        _row_group_smaller,
        "geolake rewrite {table} --cluster {column}",
        needs=Needs.DEEP,
        no_command="the column is inside a list or a map, which cannot be clustered by: rewrite it with the engine that"
        " wrote it",
    ),
    Rule(
        "bounds.values_unreadable",
        Severity.ERROR,
        "values of a geo column that cannot be read, so that their files can have no bounds",
        "The location of these rows is unknown, so every query reads their files, and spatial functions fail on them.",
        PARQUET_BOX,
        _values_unreadable,
        needs=Needs.DEEP,
        no_command="no command can restore a geometry: rewrite the values as WKB at their source, or drop them",
    ),
    Rule(
        "bounds.looser_than_footer",
        Severity.WARNING,
        "boxes larger than those in the footers by more than 1%: queries read files needlessly",
        "Results are correct, but a query reads files without matching rows.",
        PARQUET_BOX,
        _looser_than_footer,
        _REPAIR,
        needs=Needs.ROW_GROUPS,
    ),
    Rule(
        "bounds.rounding",
        Severity.INFO,
        "boxes smaller than the footers or the data by a few ULPs",
        "A point on the edge of a box could be missed; a repair rounds outward.",
        PARQUET_BOX,
        _rounding,
        _REPAIR,
    ),
    Rule(
        "bounds.types_differ",
        Severity.WARNING,
        "lists of type codes that lack types of the footers or the data",
        "A query for a missing type skips the file and loses rows.",
        PARQUET_TYPES,
        _types_differ,
        f"{_REPAIR} --verify",
    ),
)
