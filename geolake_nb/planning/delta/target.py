"""How the new files of a Delta table are laid out, and the `add` action that tells of each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema import Schema
from geolake_nb.core.types import GeographyType, StructType
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.delta.stats_coverage import indexed_columns
from geolake_nb.formats.parquet.hive_paths import partition_folder
from geolake_nb.planning.delta.collated_strings import measured_strings
from geolake_nb.planning.format_facts import collation_hints

if TYPE_CHECKING:
    from typing import Self

    from geolake_nb.core.collation_stats import CollationHints
    from geolake_nb.formats.parquet.string_scan import CollatedString
    from geolake_nb.formats.parquet.writer import Layout, WrittenFile
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.writing.job import WriteJob
    from geolake_nb.planning.writing.sampling import Partition

__all__ = ["DeltaTarget"]


@dataclass(frozen=True, slots=True, eq=False)
class DeltaTarget:
    """What a Delta table asks of its new files."""

    schema: Schema
    """The columns of the table, partition columns included."""
    partition_by: tuple[str, ...]
    indexed: frozenset[tuple[str, ...]]
    """The columns of which statistics are kept, by logical path."""
    data_change: bool
    """Whether the rows are new to the table."""
    mapping: ColumnMapping = ColumnMapping.NONE
    deletion_vectors: bool = False
    """Whether the table has that feature, with which statistics say whether they are tight."""
    collated: tuple[CollatedString, ...] = ()
    """The strings of which the new files have statistics by a collation too."""
    hints: CollationHints | None = None
    """For which versions of collations the table has statistics."""

    @classmethod
    def of(cls, snapshot: Snapshot, *, data_change: bool) -> Self:
        """What the table asks for as it is, or as a change will have made it."""
        mapping: ColumnMapping = snapshot.details.column_mapping
        partitions = snapshot.partition_columns
        indexed = indexed_columns(snapshot.schema, snapshot.properties, partitions)
        return cls(
            schema=snapshot.schema,
            partition_by=partitions,
            indexed=indexed,
            data_change=data_change,
            mapping=mapping,
            deletion_vectors=any(one.name == "deletionVectors" for one in snapshot.protocol.features),
            collated=measured_strings(snapshot.schema, mapping=mapping, indexed=indexed, partitions=partitions),
            hints=collation_hints(snapshot),
        )

    def layout(self, job: WriteJob) -> Layout:
        """The columns without those of partitions, by their physical names where they have some."""
        from geolake_nb.formats.parquet.writer import Layout

        inside = Schema(StructType(tuple(one for one in self.schema.fields if one.name not in self.partition_by)))
        paths = {path for path, _ in self.schema.walk_parts()}
        return Layout(
            inside,
            physical_names=self.mapping is not ColumnMapping.NONE,
            row_group_rows=job.row_group_rows,
            measured=frozenset(path for path in self.indexed if path[0] not in self.partition_by and path in paths),
        )

    def folder(self, partition: Partition) -> str:
        """Folders by partition values, as Spark has them; none where columns are mapped."""
        if self.mapping is not ColumnMapping.NONE:
            return ""
        return "/".join(partition_folder(name, text) for name, text in zip(self.partition_by, partition, strict=True))

    def entry(self, file: WrittenFile, partition: Partition) -> str:
        """The `add` action of a file."""
        from geolake_nb.formats.delta.bounds_tag import BOUNDS_TAG, stats_tag
        from geolake_nb.formats.delta.stats_writing import add_action, stats_text

        stats = stats_text(file, self.schema, self.mapping, self.indexed, deletion_vectors=self.deletion_vectors)
        geographies = {
            self.mapping.physical(self.schema, path): one.type
            for path, one in self.schema.walk_parts()
            if isinstance(one.type, GeographyType)
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
