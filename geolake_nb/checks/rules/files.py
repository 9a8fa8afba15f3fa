"""Rules about the data files themselves: missing files, declared columns, sizes and overlapping boxes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.checks.finding import Scope, Severity
from geolake_nb.checks.rule import ICEBERG_FILE_SIZE, PARQUET_BOX, Fault, Needs, Rule, Skip
from geolake_nb.model.table_format import SpecReference
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.scan.coverage import FEWEST_FILES, overlap_depth
from geolake_nb.scan.layout import TARGET_BYTES, cheap_layout
from geolake_nb.scan.layout_model import partition_numbers
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from geolake_nb.checks.check import Evidence
    from geolake_nb.model.types import DataType

__all__ = ["FILES_RULES", "LAYOUT_RULES", "MAX_OVERLAP"]

_ICEBERG = SpecReference("Iceberg table spec v3", "Manifests")
_PARQUET = SpecReference("Parquet format", "ColumnOrder, TYPE_ORDER of FLOAT and DOUBLE")


def _missing(evidence: Evidence) -> Iterator[Fault]:
    assert evidence.missing is not None
    gone = np.zeros(evidence.count, np.bool_)
    gone[evidence.file_of(evidence.missing)] = True
    if gone.any():
        source = evidence.snapshot.format.files_spec
        yield Fault("referenced by the table but missing: their contents are not checked", evidence.scope(gone), source)


def _nan_outside_range(evidence: Evidence) -> Iterator[Fault]:
    hidden = evidence.hidden_nan
    if hidden is None or not hidden.num_rows:
        return
    names = np.asarray(hidden["column"].to_pylist(), object)
    repeated = evidence.repeated
    # Clustering by a column rewrites every file.
    cluster = next((path for path, kind in evidence.columns if _is_shape(kind) and path not in repeated), None)
    for name in dict.fromkeys(names.tolist()):
        what = "NaN outside the min and max in the footer: Spark and others that use them lose these rows"
        scope = evidence.scope_of_rows(hidden, names == name, name)
        yield Fault(what, scope, fix_column=cluster or (None if name in repeated else name))


def _is_shape(kind: DataType) -> bool:
    return isinstance(kind, (GeometryType, GeographyType))


FILES_RULES = (
    Rule(
        "files.missing",
        Severity.ERROR,
        "a data file that the table references but that is missing",
        "A query that needs it fails: restore it from a backup, or go back to a version without it.",
        SpecReference("Delta protocol", "Add File and Remove File"),
        _missing,
        formats=frozenset({"delta", "iceberg", "havasu"}),
        needs=Needs.MISSING,
        no_command="restore the file from a backup, or go back to a version without it",
    ),
    Rule(
        "files.nan_outside_range",
        Severity.ERROR,
        "a data file whose footer has a min and max without its NaN values",
        "For Spark NaN is greater than any number, and it skips by footers: a filter such as d > 5 loses the rows.",
        _PARQUET,
        _nan_outside_range,
        "geolake rewrite {table} --cluster {column}",
        needs=Needs.DEEP,
        no_command="its only columns are inside lists and maps, which cannot be clustered by: rewrite it with the"
        " engine that wrote it",
    ),
)


MAX_OVERLAP = 4.0
"""In a clustered table few boxes overlap; at this depth a query reads several files for each that it needs."""

_TARGET = 512 * 2**20
_TARGET_PROPERTIES = ("delta.targetFileSize", "write.target-file-size-bytes")
_UNITS = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}
# A sixteenth of the target is small, four times it is large: 32 MB and 2 GB unless the table sets a target.
_SMALL, _LARGE = 1 / 16, 4


def _small_files(evidence: Evidence) -> Iterator[Fault]:
    if evidence.count < FEWEST_FILES:
        return
    target = target_size(evidence.snapshot.properties)
    sizes = _sizes(evidence)
    small = sizes < target * _SMALL
    partition = partition_numbers(evidence.snapshot.files.table)
    # Files of different partitions cannot be merged.
    bytes_in = np.bincount(partition, weights=np.where(small, sizes, 0.0))
    after = np.ceil(bytes_in / target).sum()
    if small.sum() >= FEWEST_FILES and after <= small.sum() / 2:
        what = f"files under {_megabytes(target * _SMALL)}, which {int(after):,} of {_megabytes(target)} could hold"
        source = evidence.snapshot.format.file_size_spec
        yield Fault(what, evidence.scope(small), source, command=_rewrite_to(evidence, target))


def _large_files(evidence: Evidence) -> Iterator[Fault]:
    target = target_size(evidence.snapshot.properties)
    large = _sizes(evidence) > target * _LARGE
    if large.any():
        what = f"files over {_megabytes(target * _LARGE)}: a query for one row plans for the whole file"
        source = evidence.snapshot.format.file_size_spec
        yield Fault(what, evidence.scope(large), source, command=_rewrite_to(evidence, target))


def _overlap(evidence: Evidence) -> Iterator[Fault | Skip]:
    for column, type_ in evidence.columns:
        boxes = evidence.snapshot.files.boxes(column)
        depth = overlap_depth(boxes)
        if depth is None:
            known = int(boxes.known.sum())
            some = f"{known:,} of {evidence.count:,} files have a box of {printable(column)}"
            yield Skip(f"{some}; the overlap check needs at least {FEWEST_FILES}")
        elif depth.mean > MAX_OVERLAP:
            what = f"overlap depth {depth.mean:.1f} at the centre of a file: a query there reads that many files"
            can_cluster = isinstance(type_, GeometryType | GeographyType) and column not in evidence.repeated
            yield Fault(
                what,
                Scope(column),
                evidence.snapshot.format.bounds_spec(type_),
                fix_column=column if can_cluster else None,
            )


def _decayed(evidence: Evidence) -> Iterator[Fault]:
    size = target_size(evidence.snapshot.properties, TARGET_BYTES)
    layout = cheap_layout(evidence.snapshot, target_bytes=size)
    if layout is not None and layout.decayed:
        what = f"a query reads {layout.share:.1%} of the bytes, and {layout.best:.1%} of files clustered anew"
        table = shlex.quote(evidence.snapshot.location)
        command = None if size == TARGET_BYTES else f"geolake maintain {table} --file-size {size}B"
        yield Fault(what, Scope(layout.column), command=command)


def _rewrite_to(evidence: Evidence, target: int) -> str:
    """The command with the target file size of the table, which may differ from the default of a rewrite."""
    size = f"{target // 2**20}MiB" if target % 2**20 == 0 else f"{target}B"
    return f"geolake rewrite {shlex.quote(evidence.snapshot.location)} --file-size {size}"


def target_size(properties: Mapping[str, str], otherwise: int = _TARGET) -> int:
    """The target file size of the table, or 512 MB.

    >>> target_size({"delta.targetFileSize": "128mb"}), target_size({}) == 512 * 2**20
    (134217728, True)
    """
    for name in _TARGET_PROPERTIES:
        text = properties.get(name, "").strip().lower()
        digits = text.rstrip("bgkm")
        unit = text[len(digits) :]
        if digits.isdecimal() and len(digits) < 16 and unit in _UNITS and int(digits) > 0:
            return int(digits) * _UNITS[unit]
    return otherwise


def _sizes(evidence: Evidence) -> NDArray[np.float64]:
    sizes = evidence.snapshot.files.table["bytes"].cast(pa.float64()).to_numpy()
    return np.asarray(sizes, np.float64)


def _megabytes(size: float) -> str:
    return f"{size / 2**30:.3g} GB" if size >= 2**30 else f"{size / 2**20:.3g} MB"


_REWRITE = "geolake rewrite {table} --file-size SIZE"
_CLUSTER = "geolake rewrite {table} --cluster {column}"

LAYOUT_RULES = (
    Rule(
        "layout.small_files",
        Severity.WARNING,
        "many files under a sixteenth of the target size, which fewer could hold",
        "Opening a file costs more than reading so little of it: planning is slow, and so are queries.",
        ICEBERG_FILE_SIZE,
        _small_files,
        _REWRITE,
    ),
    Rule(
        "layout.large_files",
        Severity.WARNING,
        "files over four times the target size",
        "A query that needs one row plans for the whole file, and few tasks can share the work.",
        ICEBERG_FILE_SIZE,
        _large_files,
        _REWRITE,
    ),
    Rule(
        "layout.overlap",
        Severity.WARNING,
        "overlapping boxes, so that a query of one location reads many files",
        "Bounds only help if files are separate: where many boxes overlap, a query reads all of their files.",
        PARQUET_BOX,
        _overlap,
        _CLUSTER,
        no_command="rows can only be clustered by a geometry or geography with one value per row",
    ),
    Rule(
        "layout.decayed",
        Severity.WARNING,
        "a layout in which a query reads more than twice of what it would after clustering",
        "Each append adds files that overlap others: skipping decays until these are merged into their neighbours.",
        PARQUET_BOX,
        _decayed,
        "geolake maintain {table}",
    ),
)
