"""A Parquet file, a folder of them, a glob pattern or a partitioned dataset as a table."""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import MissingFileError, NotATableError, StorageError
from geolake_nb.formats.parquet_folder.format import PARQUET
from geolake_nb.model.cells import cell_column_names
from geolake_nb.model.file_table import FileTable, GeoStatsColumns
from geolake_nb.model.schema import Schema, split_path, type_name
from geolake_nb.model.snapshot import Feature, Protocol, Snapshot
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.model.types import (
    DataType,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    PrimitiveType,
    StringType,
    StructType,
)
from geolake_nb.parquet.column_ranges import footer_scalars
from geolake_nb.parquet.footer import MAGIC, FileView, FooterReader, read_metadata
from geolake_nb.parquet.footer_boxes import BOX_MARK, GeoEvidence, evidence_columns, locate, without_column
from geolake_nb.storage.hive_paths import (
    glob_pattern,
    has_glob,
    is_hidden,
    is_parquet_name,
    partition_arrays,
    partition_bounds,
)
from geolake_nb.storage.location import require_utf8, without_query
from geolake_nb.storage.storage import Entry, Storage
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.expressions.predicate import ColumnPath
    from geolake_nb.parquet.geoparquet import GeoMetadata

__all__ = ["FileProblem", "ParquetDetails", "has_parquet_files", "open_parquet", "read_parquet_set"]

_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class FileProblem:
    """An inconsistency of a file, though the dataset can be read; `path` is `None` for the whole dataset."""

    path: str | None
    column: str | None
    what: str
    blocks: bool = True
    """Whether the rows cannot be rewritten before a user resolves the problem."""


@dataclass(frozen=True, slots=True, eq=False)
class ParquetDetails:
    """Details specific to Parquet datasets; tuples are in the order of the files."""

    storage: Storage
    """Reads the paths of the file table."""
    views: tuple[FileView, ...]
    problems: tuple[FileProblem, ...] = ()

    @property
    def metadata(self) -> tuple[pq.FileMetaData, ...]:
        """The footers."""
        return tuple(view.metadata for view in self.views)

    @property
    def geo(self) -> tuple[GeoMetadata | None, ...]:
        """The GeoParquet metadata, `None` where there is none that can be used."""
        return tuple(view.geo for view in self.views)

    @property
    def created_by(self) -> tuple[str | None, ...]:
        """The writer of each file, from its footer."""
        return tuple(view.metadata.created_by for view in self.views)

    def parquet_types(self, column: str) -> tuple[DataType | None, ...]:
        """The type of a column by Parquet's own schema, without GeoParquet."""
        parts = split_path(column)
        fields = [view.parquet_fields.get(parts) for view in self.views]
        return tuple(None if field is None else field.type for field in fields)


def has_parquet_files(storage: Storage, path: str = "", *, passing_over: Callable[[str], bool] | None = None) -> bool:
    """Whether a file is Parquet, or a folder contains some: one listing, then level by level until one is found.

    Files for whose names `passing_over` is true do not count.
    """
    if path and storage.exists(path):
        return storage.size(path) >= 12 and storage.read_range(path, storage.size(path) - 4, 4) == MAGIC

    def is_data(file: str) -> bool:
        below = file[len(path) :].lstrip("/")
        return is_parquet_name(file) and not is_hidden(below) and not (passing_over and passing_over(_name(file)))

    first, whole = storage.list_first(path, recursive=True)
    has_data = any(is_data(entry.path) for entry in first)
    if has_data or whole:
        return has_data
    folder = path
    for _ in range(_DEEPEST):
        if any(is_data(entry.path) for entry in storage.list(folder)):
            return True
        below = [name for name in storage.folders(folder) if not is_hidden(_name(name))]
        if not below:
            return False
        folder = below[0]
    return False


def open_parquet(
    location: str,
    *,
    options: Mapping[str, str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Snapshot:
    """The table of a file, a folder or a pattern such as `s3://bucket/roads/*/part-*.parquet`.

    >>> import pyarrow.parquet as pq, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2]}), f"{folder}/a.parquet")
    >>> table = open_parquet(folder)
    >>> table.files.table["rows"].to_pylist(), str(table.schema)
    ([2], 'id: int64')
    """
    location = os.fspath(location)
    storage, entries, shown = _find_files(location, options)
    return read_parquet_set(storage, entries, location=shown, on_progress=on_progress)


def read_parquet_set(
    storage: Storage,
    entries: Sequence[Entry],
    *,
    location: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Snapshot:
    """The table of these files, from their footers only."""
    paths = [entry.path for entry in entries]
    for path in paths:
        require_utf8(path, where=storage.location)
    reader = FooterReader()
    footers = read_metadata(storage, paths, on_progress=on_progress)
    views = tuple(
        reader.view(footer, where=f"{storage.location}/{path}") for path, footer in zip(paths, footers, strict=True)
    )
    problems = [
        _geo_problem(path, view.geo_problem, usable=view.geo is not None)
        for path, view in zip(paths, views, strict=True)
        if view.geo_problem is not None
    ]
    schema = _union(paths, views, problems)
    properties = _shared_properties(views)
    # A quadkey such as 0231 is a text, though all of its characters are digits.
    partitions, partial = partition_arrays(paths, texts=cell_column_names(properties))
    problems += [FileProblem(None, name, f"only some files are in a folder {name}=") for name in partial]
    schema = _with_partitions(schema, partitions)
    files = FileTable.of(
        path=pa.array(paths, pa.string()),
        bytes=pa.array([entry.bytes for entry in entries], pa.int64()),
        rows=pa.array([view.metadata.num_rows for view in views], pa.int64()),
        partitions=partitions,
        extra={"modified": pa.array([entry.modified for entry in entries], pa.timestamp("us", "UTC"))},
        geo=_geo_columns(schema, views),
    )
    times = [entry.modified for entry in entries if entry.modified is not None]
    return Snapshot(
        PARQUET,
        storage.location if location is None else location,
        None,
        max(times, default=None),
        schema,
        _protocol(views, schema),
        files,
        properties,
        tuple(partitions),
        ParquetDetails(storage, views, tuple(problems)),
        _Scalars(views, schema, partition_bounds(paths, partitions), frozenset(partial)),
    )


def _geo_problem(path: str, what: str, *, usable: bool) -> FileProblem:
    verdict = "violates a rule" if usable else "is not usable"
    return FileProblem(path, None, f"the GeoParquet metadata {verdict}: {what}", blocks=not usable)


def _find_files(location: str, options: Mapping[str, str] | None) -> tuple[Storage, list[Entry], str]:
    storage, name = Storage.with_file(location, options=options)
    # A name may contain brackets and stars; a store is not queried for one with a star, which hardly ever exists.
    if name and (storage.is_local or "*" not in name) and storage.exists(name):
        modified = next((entry.modified for entry in _listed(storage) if entry.path == name), None)
        return storage, [Entry(name, storage.size(name), modified)], f"{storage.location}/{name}"
    pattern = without_query(location)
    if has_glob(pattern) and not (storage.is_local and os.path.exists(location)):
        return _match_files(pattern, options)
    storage = Storage.at(location, options=options)
    if not storage.is_folder():
        raise MissingFileError("there is no such file or folder", where=url_without_secrets(storage.location))
    entries = [entry for entry in storage.list(recursive=True) if not is_hidden(entry.path) and entry.bytes >= 0]
    named = [entry for entry in entries if is_parquet_name(entry.path)]
    if not named:
        # Some writers use no file extension.
        bare = [entry for entry in entries if "." not in _name(entry.path)]
        named = [entry for entry in bare if has_parquet_files(storage, entry.path)]
    if not named:
        raise NotATableError("there is no Parquet file in this folder", where=storage.location)
    return storage, named, storage.location


def _match_files(location: str, options: Mapping[str, str] | None) -> tuple[Storage, list[Entry], str]:
    parts = location.split("/")
    first = next(index for index, part in enumerate(parts) if has_glob(part))
    storage = Storage.at("/".join(parts[:first]) or ("/" if location.startswith("/") else "."), options=options)
    text = "/".join(parts[first:])
    try:
        pattern = glob_pattern(text)
    except re.error:
        raise StorageError(f"the pattern {url_without_secrets(text)!r} is not valid", where=storage.location) from None
    listed = storage.list(recursive="/" in text or "**" in text)
    entries = [entry for entry in listed if pattern.fullmatch(entry.path) and not is_hidden(entry.path)]
    if not entries:
        raise MissingFileError(f"no file matches {url_without_secrets(text)!r}", where=storage.location)
    return storage, entries, f"{storage.location}/{text}"


def _listed(storage: Storage) -> list[Entry]:
    # Only for the modification time of a single file; a web server has no listings, and a bucket may be huge.
    return storage.list() if storage.is_local else []


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _union(paths: Sequence[str], views: Sequence[FileView], problems: list[FileProblem]) -> Schema:
    """The columns of all files in order of appearance; where types differ, that of the first file counts."""
    columns: dict[str, Field] = {}
    missing: set[str] = set()
    seen: set[int] = set()
    for path, view in zip(paths, views, strict=True):
        if id(view.schema) in seen:
            continue
        here = {column.name: column for column in view.schema.fields}
        missing |= (columns.keys() - here.keys()) | ((here.keys() - columns.keys()) if seen else set())
        seen.add(id(view.schema))
        for name, column in here.items():
            known = columns.setdefault(name, column)
            if known.id != column.id:
                columns[name] = known = replace(known, id=None)
            if not column.nullable and known.nullable:
                continue
            if column.nullable and not known.nullable:
                columns[name] = replace(known, nullable=True)
        problems += [
            FileProblem(path, name, f"the type is {type_name(column.type)}, not {type_name(columns[name].type)}")
            for name, column in here.items()
            if not _same_type(column.type, columns[name].type)
        ]
    whole = [replace(field, nullable=True) if field.name in missing else field for field in columns.values()]
    if any(field.id is None for field in whole):
        whole = [replace(field, id=None) for field in whole]
    return Schema(StructType(tuple(whole)))


def _same_type(left: DataType, other: DataType) -> bool:
    if isinstance(left, (GeometryType, GeographyType)) and isinstance(other, (GeometryType, GeographyType)):
        edges = getattr(left, "algorithm", None) == getattr(other, "algorithm", None)
        return type(left) is type(other) and edges and left.encoding == other.encoding and left.crs.same_as(other.crs)
    return left == other


def _with_partitions(schema: Schema, partitions: Mapping[str, pa.Array]) -> Schema:
    known = {column.name for column in schema.fields}
    types: dict[str, DataType] = {"int64": PrimitiveType("int64"), "date32[day]": PrimitiveType("date")}
    added = [
        Field(name, types.get(str(values.type), StringType()))
        for name, values in partitions.items()
        if name not in known
    ]
    return replace(schema, root=StructType((*schema.fields, *added)))


def _geo_columns(schema: Schema, views: Sequence[FileView]) -> dict[str, GeoStatsColumns]:
    columns: dict[str, GeoStatsColumns] = {}
    for path, column in schema.geo_columns():
        if not isinstance(column.type, (GeometryType, GeographyType)):
            continue
        parts = split_path(path)
        evidence: list[GeoEvidence] = []
        for view in views:
            here = locate(view, view.find(parts), column.type)
            missing = without_column(view.metadata.num_rows, lacks=view.lacks(parts))
            evidence.append(missing if here is None else here.whole())
        columns[path] = evidence_columns(evidence)
    return columns


def _protocol(views: Sequence[FileView], schema: Schema) -> Protocol:
    versions = sorted({view.geo.version for view in views if view.geo is not None})
    features: list[Feature] = []
    if versions:
        features.append(Feature("geoparquet", f"GeoParquet metadata {', '.join(versions)} names the geometry columns"))
    native = {
        type(type_)
        for view in views[:1]
        for _, field_ in view.parquet_schema.geo_columns()
        for type_ in [field_.type]
        if isinstance(type_, (GeometryType, GeographyType))
    }
    if GeometryType in native:
        features.append(Feature("GEOMETRY", "a Parquet logical type: geometries with planar edges"))
    if GeographyType in native:
        features.append(Feature("GEOGRAPHY", "a Parquet logical type: geometries with geodesic edges"))
    if any(column.covering is not None for view in views if view.geo for column in view.geo.columns.values()):
        features.append(Feature("bbox covering", "columns with the box of each row", needed_to_write=False))
    if any(
        isinstance(column.type, GeometryType) and column.type.encoding is GeometryEncoding.GEOARROW
        for _, column in schema.geo_columns()
    ):
        features.append(Feature("native encoding", "geometries as lists of coordinates", needed_to_read=True))
    summary = f"GeoParquet {', '.join(versions)}" if versions else "Parquet"
    return Protocol(summary, tuple(features))


def _shared_properties(views: Sequence[FileView]) -> dict[str, str]:
    """The key-value metadata that is the same in all files, without keys that are read elsewhere."""
    shared: dict[bytes, bytes] | None = None
    for view in views:
        here = view.metadata.metadata or {}
        shared = dict(here) if shared is None else {k: v for k, v in shared.items() if here.get(k) == v}
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (shared or {}).items()
        if key not in (b"ARROW:schema", b"geo", b"pandas", BOX_MARK.encode())
    }


class _Scalars:
    """Statistics of primitive columns, computed on demand."""

    def __init__(
        self,
        views: Sequence[FileView],
        schema: Schema,
        partitions: Mapping[str, tuple[pa.Array, pa.Array]],
        ambiguous: frozenset[str],
    ) -> None:
        self._views = views
        self._fields = dict(schema.walk_parts())
        self._partitions = partitions
        self._ambiguous = ambiguous
        self._known: dict[ColumnPath, ScalarColumn | None] = {}

    def __call__(self, path: ColumnPath) -> ScalarColumn | None:
        if path not in self._known:
            self._known[path] = self._find(tuple(path))
        return self._known[path]

    def _find(self, path: ColumnPath) -> ScalarColumn | None:
        column = self._fields.get(path)
        # A partition folder of only some files gives those a value that their footers do not have.
        if column is None or path[0] in self._ambiguous:
            return None
        in_files = any(view.find(path) is not None for view in self._views)
        stored = footer_scalars(self._views, path, column.type) if in_files else None
        if len(path) > 1 or path[0] not in self._partitions:
            return stored
        low, high = self._partitions[path[0]]
        rows = pa.array([view.metadata.num_rows for view in self._views], pa.int64())
        if not in_files:
            nulls = pc.if_else(pc.is_null(low), rows, pa.scalar(0, pa.int64()))
            return ScalarColumn(low, high, nulls, rows)
        if stored is None or stored.minimum.type != low.type:
            # Without a column the folder values would count for the rows.
            nothing = pa.nulls(len(rows), low.type)
            return ScalarColumn(nothing, nothing)
        # Engines differ on which of the two counts, so bounds must cover both.
        low = pc.min_element_wise(low, stored.minimum, skip_nulls=False)
        high = pc.max_element_wise(high, stored.maximum, skip_nulls=False)
        return ScalarColumn(low, high, None, rows)
