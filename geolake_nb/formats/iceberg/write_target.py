"""How the new files of an Iceberg table are laid out, and the action that adds each to a manifest."""

from __future__ import annotations

import base64
import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import BoundError, SchemaError
from geolake_nb.formats.iceberg.bounds import MetricsMode, bound_bytes, to_single_value
from geolake_nb.formats.iceberg.live_rows import PARTITION
from geolake_nb.formats.iceberg.partitions import partition_of_key
from geolake_nb.geo.bound_codec import to_iceberg_bytes
from geolake_nb.model.schema import Schema, join_path
from geolake_nb.model.types import GeographyType, GeometryType, PrimitiveType, StringType, StructType
from geolake_nb.storage.hive_paths import partition_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from geolake_nb.changes.sampling import Partition
    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.formats.iceberg.partitions import PartitionTuple
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.parquet.writer import ColumnRange, Layout, WrittenFile

__all__ = ["IcebergTarget", "ManifestTarget", "bytes_text", "problem_text"]

_Path = tuple[str, ...]
_FOLDER = "data"


@dataclass(frozen=True, slots=True, eq=False)
class ManifestTarget:
    """The columns and partitions of a table; the formats add how files are laid out and what manifests contain."""

    schema: Schema
    """The columns of the table with their ids."""
    partition_by: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The columns that partition new rows, with the ids of their partition fields."""
    spec_id: int = 0
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tuples: tuple[PartitionTuple, ...] | None = None
    """For rows that stay in their partitions: the partition of each number that the rows have in `PARTITION`."""
    computed: frozenset[str] = frozenset()
    """Those of `partition_by` that are keys, as `partitions.partition_keys` computes them, and not columns."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        partition_by: Mapping[str, int],
        *,
        tuples: tuple[PartitionTuple, ...] | None = None,
        computed: Iterable[str] = (),
    ) -> Self:
        """The target for new files of an existing table."""
        spec_id = snapshot.details.metadata.default_spec_id
        return cls(snapshot.schema, partition_by, spec_id, snapshot.properties, tuples, frozenset(computed))

    def folder(self, partition: Partition) -> str:
        """Folders by partition values, like those of other Iceberg writers."""
        if self.tuples is not None:
            return _FOLDER
        names = zip(self.partition_by, partition, strict=True)
        return "/".join([_FOLDER, *(partition_folder(name, text) for name, text in names if name not in self.computed)])

    def plain_columns(self) -> list[tuple[_Path, Field]]:
        """The columns with minima and maxima: one plain value a row."""
        return [
            (path, field)
            for path, field in self.schema.walk_parts()
            if isinstance(field.type, (PrimitiveType, StringType)) and field.id is not None and self.in_structs(path)
        ]

    def in_structs(self, path: _Path) -> bool:
        """Whether a path leads through structs alone."""
        above = (self.schema.find(join_path(path[:depth])).type for depth in range(1, len(path)))
        return all(isinstance(type_, StructType) for type_ in above)

    def partition_of(self, file: WrittenFile, partition: Partition) -> tuple[int, Mapping[str, str | None]]:
        """The spec of a file and by the ids of its fields the values, Iceberg's single values as base64."""
        if self.tuples is not None:
            number = int(partition[0] or 0) if partition else 0
            return self.tuples[number].spec_id, self.tuples[number].values
        values: dict[str, str | None] = {}
        for (name, id_), text in zip(self.partition_by.items(), partition, strict=True):
            if name in self.computed:
                values[str(id_)] = partition_of_key(text)
                continue
            packed = _common_value(file.scalars[name,], text, self.schema.find(join_path((name,))).type, name)
            values[str(id_)] = None if packed is None else bytes_text(packed)
        return self.spec_id, values


def _common_value(range_: ColumnRange, text: str | None, type_: DataType, name: str) -> bytes | None:
    """The one value that a partition column has in a file."""
    if range_.only_nulls:
        return None
    if range_.null_count == 0 and range_.low is not None and range_.low == range_.high:
        return to_single_value(range_.low, type_)
    if text == "NaN":
        return to_single_value(float("nan"), type_)
    if range_.null_count == 0 and range_.low is None:
        what = "its values are outside the years 1 to 9999 or not valid text, and cannot be written as a partition"
        raise SchemaError(what, where=f"partition column {name}", remedy="partition by a transform of it")
    # Elsewhere an empty text is a null; Iceberg distinguishes them.
    what = "it has both empty and null values, which one write cannot distinguish"
    raise SchemaError(what, where=f"partition column {name}", remedy="write them separately")


def problem_text(stats: ColumnStats) -> str:
    """Why values have no bounds, in words."""
    first = stats.first_bad or stats.first_unbounded
    return "its values have no bounds" if first is None else str(first)


def bytes_text(packed: bytes) -> str:
    """Bytes as base64, as in a plan.

    >>> bytes_text(b"a")
    'YQ=='
    """
    return base64.b64encode(packed).decode()


@dataclass(frozen=True, slots=True, eq=False)
class IcebergTarget(ManifestTarget):
    """The requirements of an Iceberg table for its new files."""

    def layout(self, job: WriteJob) -> Layout:
        """All columns with their ids and geo types; rows of version 3 that move have their own ids beside them."""
        from geolake_nb.parquet.writer import Layout

        beside = {PARTITION.name, *self.computed}
        inside = Schema(StructType(tuple(field for field in job.schema.fields if field.name not in beside)))
        return Layout(
            inside,
            row_group_rows=job.row_group_rows,
            measured=frozenset(path for path, _ in self.plain_columns()),
        )

    def entry(self, file: WrittenFile, partition: Partition, *, leaf_ids: Mapping[int, str] | None = None) -> str:
        """The `add` of a file: metrics by the ids of columns, bounds in hexadecimal digits.

        `leaf_ids` has the ids of the leaves of a file of another writer. What is not known of its columns is left out.
        """
        metrics = _Metrics()
        for path, field in self.plain_columns():
            if leaf_ids is not None and path not in file.scalars:
                continue
            mode = MetricsMode.of(self.properties, ".".join(path))
            metrics.add_plain(str(field.id), file.rows, file.scalars[path], mode, field.type)
        problems: dict[str, str] = {}
        for path, stats in file.geo.items():
            field = self.schema.find(join_path(path))
            mode = MetricsMode.of(self.properties, ".".join(path))
            bounded = metrics.add_geo(str(field.id), stats, mode, field.type, in_structs=self.in_structs(path))
            if not bounded and mode.bounds and not stats.only_null_or_empty:
                problems[join_path(path)] = problem_text(stats)
        if file.metadata is not None:
            metrics.add_sizes(self._leaf_ids() if leaf_ids is None else leaf_ids, file)
        spec_id, values = self.partition_of(file, partition)
        add: dict[str, Any] = {
            "path": file.path,
            "file-size-in-bytes": file.bytes,
            "record-count": file.rows,
            "spec-id": spec_id,
            "partition": values,
            **metrics.to_dict(),
        }
        if file.metadata is not None:
            add["split-offsets"] = _offsets(file)
        if problems:
            add["problems"] = problems
        return json.dumps({"add": add}, separators=(",", ":"), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """`format, spec_id, partition_by`."""
        return {"format": "iceberg", "spec_id": self.spec_id, "partition_by": list(self.partition_by)}

    def _leaf_ids(self) -> dict[int, str]:
        """The ids of the leaves of a file by their indices, of those with metrics."""
        from geolake_nb.parquet.file_columns import FileColumns

        # Row ids of version 3 come after the columns of the table.
        leaves = FileColumns.of(self.schema).leaves
        kept = {index: self.schema.find(join_path(leaf.parts)) for index, leaf in enumerate(leaves)}
        modes = {index: MetricsMode.of(self.properties, ".".join(leaves[index].parts)) for index in kept}
        return {index: str(field.id) for index, field in kept.items() if modes[index].counts}


class _Metrics:
    """The metrics of a file, by the ids of columns."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._nulls: dict[str, int] = {}
        self._nans: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._lower: dict[str, str] = {}
        self._upper: dict[str, str] = {}

    def add_plain(self, id_: str, rows: int, range_: ColumnRange, mode: MetricsMode, type_: DataType) -> None:
        if mode.counts:
            self._counts[id_], self._nulls[id_] = rows, range_.null_count
            if range_.nan_count is not None:
                self._nans[id_] = range_.nan_count
        if mode.bounds:
            # Iceberg, Manifests: bounds are of the values that are numbers.
            low, high = range_.numbers
            self._put(id_, *bound_bytes(low, high, type_, length=mode.length))

    def add_geo(self, id_: str, stats: ColumnStats, mode: MetricsMode, type_: DataType, *, in_structs: bool) -> bool:
        """Whether there is a bound."""
        assert isinstance(type_, GeometryType | GeographyType)
        if not in_structs:
            return stats.box is not None  # Iceberg has no metrics for values in lists and maps
        if mode.counts:
            self._counts[id_], self._nulls[id_] = stats.rows, stats.null_count
        if stats.box is None or not mode.bounds:
            return stats.box is not None
        try:
            low, high = to_iceberg_bytes(stats.box, circular=isinstance(type_, GeographyType))
        except BoundError:
            return False
        self._put(id_, low, high)
        return True

    def add_sizes(self, ids: Mapping[int, str], file: WrittenFile) -> None:
        """Sizes of all leaves, as the footer has them."""
        metadata = file.metadata
        assert metadata is not None
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        for index, id_ in ids.items():
            self._sizes[id_] = sum(group.column(index).total_compressed_size for group in groups)

    def to_dict(self) -> dict[str, Any]:
        return {
            "column-sizes": self._sizes,
            "value-counts": self._counts,
            "null-value-counts": self._nulls,
            "nan-value-counts": self._nans,
            "lower-bounds": self._lower,
            "upper-bounds": self._upper,
        }

    def _put(self, id_: str, low: bytes | None, high: bytes | None) -> None:
        if low is not None:
            self._lower[id_] = low.hex()
        if high is not None:
            self._upper[id_] = high.hex()


def _offsets(file: WrittenFile) -> list[int]:
    """Where the row groups start."""
    assert file.metadata is not None
    offsets: list[int] = []
    for number in range(file.metadata.num_row_groups):
        chunk = file.metadata.row_group(number).column(0)
        pages = [chunk.data_page_offset, *([chunk.dictionary_page_offset] if chunk.has_dictionary_page else [])]
        offsets.append(min(pages))
    return offsets
