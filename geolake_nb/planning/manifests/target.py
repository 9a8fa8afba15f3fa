"""What tables with manifests, Iceberg's and Havasu's, ask of their new files alike."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from geolake_nb.core.schema import Schema, join_path
from geolake_nb.core.types import PrimitiveType, StringType, StructType
from geolake_nb.errors import SchemaError
from geolake_nb.formats.iceberg.single_values import to_single_value
from geolake_nb.formats.iceberg.transforms import partition_of_key
from geolake_nb.formats.parquet.hive_paths import partition_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.core.types import DataType, Field
    from geolake_nb.formats.parquet.writer import ColumnRange, WrittenFile
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.manifests.partition_groups import PartitionTuple
    from geolake_nb.planning.writing.sampling import Partition

__all__ = ["ManifestTarget", "bytes_text", "problem_text"]

_Path = tuple[str, ...]
_FOLDER = "data"


@dataclass(frozen=True, slots=True, eq=False)
class ManifestTarget:
    """The columns and partitions of a table; the formats add how files are laid out and what manifests say."""

    schema: Schema
    """The columns of the table with their ids."""
    partition_by: Mapping[str, int] = field(default_factory=dict)
    """The columns that partition new rows, with the ids of their partition fields."""
    spec_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    tuples: tuple[PartitionTuple, ...] | None = None
    """For rows that stay in their partitions: the partition of each number that the rows have in `PARTITION`."""
    computed: frozenset[str] = frozenset()
    """Those of `partition_by` that are keys, as `transforms.partition_keys` makes them, and no columns."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        partition_by: Mapping[str, int],
        *,
        tuples: tuple[PartitionTuple, ...] | None = None,
        computed: Iterable[str] = (),
    ) -> Self:
        """What a table asks for as it is."""
        spec_id = snapshot.details.metadata.default_spec_id
        return cls(snapshot.schema, partition_by, spec_id, snapshot.properties, tuples, frozenset(computed))

    def folder(self, partition: Partition) -> str:
        """Folders by partition values, as other writers of Iceberg have them."""
        if self.tuples is not None:
            return _FOLDER
        names = zip(self.partition_by, partition, strict=True)
        return "/".join([_FOLDER, *(partition_folder(name, text) for name, text in names if name not in self.computed)])

    def plain_columns(self) -> list[tuple[_Path, Field]]:
        """The columns with minima and maxima: one plain value a row."""
        return [
            (path, one)
            for path, one in self.schema.walk_parts()
            if isinstance(one.type, (PrimitiveType, StringType)) and one.id is not None and self.in_structs(path)
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


def _common_value(found: ColumnRange, text: str | None, type_: DataType, name: str) -> bytes | None:
    """The one value that a partition column has in a file."""
    if found.only_nulls:
        return None
    if found.null_count == 0 and found.low is not None and found.low == found.high:
        return to_single_value(found.low, type_)
    if text == "NaN":
        return to_single_value(float("nan"), type_)
    if found.null_count == 0 and found.low is None:
        what = "its values are outside of the years 1 to 9999, or no text, and are not written as a partition here"
        raise SchemaError(what, where=f"partition column {name}", remedy="partition by a transform of it")
    # Elsewhere an empty text is a null; Iceberg tells them apart.
    what = "some of its values are empty and others are null, which cannot be told apart in one write"
    raise SchemaError(what, where=f"partition column {name}", remedy="write them in two")


def problem_text(stats: ColumnStats) -> str:
    """Why values have no bounds, in words."""
    first = stats.first_bad or stats.first_unbounded
    return "its values have no bounds" if first is None else str(first)


def bytes_text(packed: bytes) -> str:
    """Bytes as a plan holds them.

    >>> bytes_text(b"a")
    'YQ=='
    """
    return base64.b64encode(packed).decode()
