"""What tables with manifests, Iceberg's and Havasu's, both require of new files."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from geolake_nb.errors import SchemaError
from geolake_nb.formats.iceberg.single_values import to_single_value
from geolake_nb.formats.iceberg.transforms import partition_of_key
from geolake_nb.model.schema import Schema, join_path
from geolake_nb.model.types import PrimitiveType, StringType, StructType
from geolake_nb.storage.hive_paths import partition_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from geolake_nb.changes.sampling import Partition
    from geolake_nb.formats.iceberg.partition_groups import PartitionTuple
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.parquet.writer import ColumnRange, WrittenFile

__all__ = ["ManifestTarget", "bytes_text", "problem_text"]

_Path = tuple[str, ...]
_FOLDER = "data"


@dataclass(frozen=True, slots=True, eq=False)
class ManifestTarget:
    """The columns and partitions of a table; the formats add how files are laid out and what manifests contain."""

    schema: Schema
    """The columns of the table with their ids."""
    partition_by: Mapping[str, int] = field(default_factory=dict)
    """The columns that partition new rows, with the ids of their partition fields."""
    spec_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    tuples: tuple[PartitionTuple, ...] | None = None
    """For rows that stay in their partitions: the partition of each number that the rows have in `PARTITION`."""
    computed: frozenset[str] = frozenset()
    """Those of `partition_by` that are keys, as `transforms.partition_keys` computes them, and not columns."""

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
