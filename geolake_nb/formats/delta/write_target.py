"""How the new files of a Delta table are laid out, and the `add` action of each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.formats.delta.collated_strings import measured_strings
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.delta.format import collation_hints
from geolake_nb.formats.delta.stats_coverage import indexed_columns
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import GeographyType, StructType
from geolake_nb.storage.hive_paths import partition_folder

if TYPE_CHECKING:
    from typing import Self

    from geolake_nb.changes.sampling import Partition
    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.model.collation_stats import CollationHints
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.parquet.writer import Layout, WrittenFile
    from geolake_nb.scan.string_scan import CollatedString

__all__ = ["DeltaTarget"]


@dataclass(frozen=True, slots=True, eq=False)
class DeltaTarget:
    """The requirements of a Delta table for its new files."""

    schema: Schema
    """The columns of the table, partition columns included."""
    partition_by: tuple[str, ...]
    indexed: frozenset[tuple[str, ...]]
    """The columns with statistics, by logical path."""
    data_change: bool
    """Whether the rows are new to the table."""
    mapping: ColumnMapping = ColumnMapping.NONE
    deletion_vectors: bool = False
    """Whether the table has that feature, with which statistics declare whether they are tight."""
    collated: tuple[CollatedString, ...] = ()
    """The strings for which the new files also have statistics by a collation."""
    hints: CollationHints | None = None
    """For which versions of collations the table has statistics."""

    @classmethod
    def of(cls, snapshot: Snapshot, *, data_change: bool) -> Self:
        """The target for the table as it is, or after a change."""
        mapping: ColumnMapping = snapshot.details.column_mapping
        partitions = snapshot.partition_columns
        indexed = indexed_columns(snapshot.schema, snapshot.properties, partitions)
        return cls(
            schema=snapshot.schema,
            partition_by=partitions,
            indexed=indexed,
            data_change=data_change,
            mapping=mapping,
            deletion_vectors=any(feature.name == "deletionVectors" for feature in snapshot.protocol.features),
            collated=measured_strings(snapshot.schema, mapping=mapping, indexed=indexed, partitions=partitions),
            hints=collation_hints(snapshot),
        )

    def layout(self, job: WriteJob) -> Layout:
        """The columns without those of partitions, by their physical names where they have some."""
        from geolake_nb.parquet.writer import Layout

        inside = Schema(StructType(tuple(field for field in self.schema.fields if field.name not in self.partition_by)))
        paths = {path for path, _ in self.schema.walk_parts()}
        return Layout(
            inside,
            physical_names=self.mapping is not ColumnMapping.NONE,
            row_group_rows=job.row_group_rows,
            measured=frozenset(path for path in self.indexed if path[0] not in self.partition_by and path in paths),
        )

    def folder(self, partition: Partition) -> str:
        """Folders by partition values, like Spark's; none where columns are mapped."""
        if self.mapping is not ColumnMapping.NONE:
            return ""
        return "/".join(partition_folder(name, text) for name, text in zip(self.partition_by, partition, strict=True))

    def entry(self, file: WrittenFile, partition: Partition) -> str:
        """The `add` action of a file."""
        from geolake_nb.formats.delta.bounds_tag import BOUNDS_TAG, stats_tag
        from geolake_nb.formats.delta.stats_writing import add_action, stats_text

        stats = stats_text(file, self.schema, self.mapping, self.indexed, deletion_vectors=self.deletion_vectors)
        geographies = {
            self.mapping.physical(self.schema, path): field.type
            for path, field in self.schema.walk_parts()
            if isinstance(field.type, GeographyType)
        }
        mark = stats_tag(stats, geographies) if geographies else None
        names = [self.mapping.physical(self.schema, (name,))[0] for name in self.partition_by]
        return add_action(
            file,
            stats=stats,
            partition_values=dict(zip(names, partition, strict=True)),
            modification_time=int(time.time() * 1000),
            data_change=self.data_change,
            tags=None if mark is None else {BOUNDS_TAG: mark},
        )

    def to_dict(self) -> dict[str, Any]:
        """`format, data_change`."""
        return {"format": "delta", "data_change": self.data_change}
