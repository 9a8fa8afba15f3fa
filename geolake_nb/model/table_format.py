"""The questions that engines ask about the format of a table, with the answers of a format without any."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ScalarColumn
    from geolake_nb.model.types import DataType, Field

    FieldNaming = Callable[[tuple[str, ...], Field], "FileField"]

__all__ = ["AS_OF", "Answer", "CollatedFiles", "EngineFact", "FileField", "SpecReference", "TableFormat", "TableKind"]


@dataclass(frozen=True, slots=True)
class SpecReference:
    """The section of a document that has the rule.

    >>> print(SpecReference("Parquet geospatial", "Bounding Box"))
    Parquet geospatial, Bounding Box
    """

    document: str
    section: str

    def __str__(self) -> str:
        return f"{self.document}, {self.section}"


AS_OF = "2026-11"
"""The month in which the facts were gathered."""


class Answer(enum.Enum):
    """Whether an engine supports something."""

    YES = "yes"
    """It does."""
    NO = "no"
    """It does not."""
    UNKNOWN = "not known"
    """No source documents it, and it was not tested."""


class TableKind(enum.Enum):
    """The kinds of tables that engines differ on."""

    DELTA_GEO = "Delta with geospatial types"
    """The feature `geospatial`, or a preview of it."""
    DELTA_COLLATED = "Delta with collations"
    """The feature `collations`, or a preview of it."""
    ICEBERG_GEO = "Iceberg v3 with geo types"
    """`geometry` and `geography` columns of format version 3."""
    DELTA_PUBLISHED = "Delta over existing files"
    """A Delta table whose first files were there before it."""
    ICEBERG_PUBLISHED = "Iceberg v3 over existing files"
    """An Iceberg table whose first files were there before it, and mostly have no field ids."""
    HAVASU = "Havasu"
    """Geometry and raster columns on Iceberg v1 or v2."""
    PARQUET_GEO = "Parquet with geo types"
    """GEOMETRY or GEOGRAPHY logical types, or GeoParquet metadata."""


@dataclass(frozen=True, slots=True)
class EngineFact:
    """What one engine does with one kind of table; `note` adds what yes and no leave out."""

    engine: str
    kind: TableKind
    reads: Answer
    writes: Answer
    skips_geometry: Answer
    """Whether a spatial filter on a geometry leaves files or row groups unread by their boxes."""
    skips_geography: Answer
    note: str
    source: str
    as_of: str = AS_OF

    def to_dict(self) -> dict[str, Any]:
        """The fact with plain values: `engine, kind, reads, writes, skips_geometry, skips_geography, note,
        source, as_of`.

        >>> from geolake_nb.scan.engines import ENGINE_FACTS
        >>> ENGINE_FACTS[0].to_dict()["reads"]
        'yes'
        """
        return {
            "engine": self.engine,
            "kind": self.kind.value,
            "reads": self.reads.value,
            "writes": self.writes.value,
            "skips_geometry": self.skips_geometry.value,
            "skips_geography": self.skips_geography.value,
            "note": self.note,
            "source": self.source,
            "as_of": self.as_of,
        }


@dataclass(frozen=True, slots=True)
class FileField:
    """How data files identify a column."""

    parts: tuple[str, ...]
    """Its names, from the outermost in; empty where they are not known."""
    id: int | None = None
    """Its id, `None` where only names count, whatever ids a file has."""


@dataclass(frozen=True, slots=True, eq=False)
class CollatedFiles:
    """The files that have statistics of a string column under one version of a collation."""

    column: tuple[str, ...]
    """Its path in the schema."""
    collation: Collation
    has: NDArray[np.bool_]


class TableFormat:
    """A table format: its name, and what differs between formats when a table is read, checked or changed.

    Engines ask these questions instead of comparing names. Each format answers them in its own folder, and
    `geolake_nb.formats.FORMATS` lists all formats. There is one instance of each.
    """

    name: ClassVar[str]
    """As users write it: `delta`."""
    engine_format: ClassVar[str]
    """As other engines call it, such as Spark in `spark.read.format(...)`."""
    has_versions: ClassVar[bool] = True
    """Whether older versions can be opened."""
    version_option: ClassVar[str] = "--snapshot-id"
    """The option of the commands that opens an older version."""
    counts_versions: ClassVar[bool] = False
    """Whether versions are 0, 1, 2, ...; otherwise they are random ids."""
    wraps_longitude: ClassVar[bool] = True
    """Whether the box of a geography or raster may have xmin > xmax, which crosses the antimeridian."""
    infers_binary_geometry: ClassVar[bool] = True
    """Whether a plain binary column may hold geometries that the schema does not declare."""
    type_command: ClassVar[str | None] = None
    """The command that gives a binary column a geo type, `None` where the format does not allow that."""
    geo_kind: ClassVar[TableKind]
    """What engines call a table of this format with geo types."""
    published_kind: ClassVar[TableKind | None] = None
    """What engines call a table of files that were there before it."""
    types_spec: ClassVar[SpecReference]
    """Where geo types are specified."""
    crs_property_spec: ClassVar[SpecReference] = SpecReference("Parquet geospatial", "CRS Customization")
    """Where a CRS in a property is specified."""
    parquet_spec: ClassVar[SpecReference]
    """Where the geo types of data files are specified."""
    files_spec: ClassVar[SpecReference]
    """Where the list of data files is specified."""
    file_size_spec: ClassVar[SpecReference]
    """Where the recommended size of data files is documented."""

    _only: ClassVar[TableFormat | None] = None

    def __new__(cls) -> Self:
        """The one instance of the format."""
        if "_only" not in vars(cls):
            cls._only = super().__new__(cls)
        return cast("Self", cls._only)

    @property
    def title(self) -> str:
        """The name at the beginning of a sentence."""
        return self.name.capitalize()

    def __repr__(self) -> str:
        return f"<format {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def table_kinds(self, snapshot: Snapshot) -> frozenset[TableKind]:
        """What engines distinguish about the table; empty for one without geo types and collations."""
        return frozenset({self.geo_kind} if any(snapshot.schema.geo_columns()) else ())

    def stable_action(self, action: str) -> str:
        """The JSON of an action without what depends on the time of the plan."""
        return action

    def bounds_spec(self, type_: DataType) -> SpecReference:
        """Where the bounds of a column of this type are specified."""
        raise NotImplementedError

    def file_key(self, snapshot: Snapshot) -> Callable[[str], str]:
        """Turns the path of a data file as stored into one that the storage reads."""
        return str

    def field_naming(self, snapshot: Snapshot) -> FieldNaming:
        """How the data files call the columns of the table: takes the path of a column and the column."""
        return lambda parts, _: FileField(parts)

    def footer_views(self, snapshot: Snapshot) -> Sequence[Any] | None:
        """The footers of the data files (`FileView`), where opening the table has read them."""
        return None

    def has_statistics(self, snapshot: Snapshot, path: tuple[str, ...]) -> bool:
        """Whether writers keep statistics of the column; other columns lack them on purpose."""
        return True

    def collated_files(self, snapshot: Snapshot) -> tuple[CollatedFiles, ...]:
        """Which files have statistics under a collation, for every collated string column and collation."""
        return ()

    def collated_column(
        self, snapshot: Snapshot, path: tuple[str, ...], collation: Collation, *, prefix_length: int
    ) -> ScalarColumn | None:
        """The minimum and maximum of each file under a collation; `prefix_length` is where strings may be truncated."""
        return None

    def manifest_count(self, snapshot: Snapshot) -> int | None:
        """How many manifests list data files, `None` where that is not known."""
        return None
