"""Manifests and manifest lists of version 3: read with their row ids, and written with them.

PyIceberg reads every manifest by the schema of version 2, which has no `first_row_id` and no place of a deletion
vector, and writes none of version 3.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg import manifest as pm
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.table.update import snapshot as producers

from geolake_nb.formats.iceberg.bounds import EDGES, edge_mark, marked_ids
from geolake_nb.pyiceberg.bridge import Patch
from geolake_nb.pyiceberg.type_text import with_java_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from pyiceberg.io import FileIO, InputFile, OutputFile

__all__ = ["RowIds", "common_edges", "covers_edges", "first_row_id", "mark_edges", "patches", "row_ids"]

_VERSION: Literal[3] = 3
_FIRST_ROW_ID = 16
"""The place of `first_row_id` in a data file of version 3; the places before it are those of version 2."""
_LIST_FIRST_ROW_ID = 15
"""The same in an entry of a manifest list."""
_FILE_WIDTH = len(pm.DATA_FILE_TYPE[_VERSION].fields)
_EDGE_IDS = "_geolake_edge_ids"


@dataclass(slots=True)
class RowIds:
    """The row ids that a manifest list gives to its manifests."""

    first: int
    next: int = field(init=False)

    def __post_init__(self) -> None:
        self.next = self.first


row_ids: ContextVar[RowIds] = ContextVar("row_ids")
"""Those of the snapshot that is being committed in this thread."""


def first_row_id(file: pm.DataFile) -> int | None:
    """The id of the first row of a data file; `None` where it has none yet."""
    return file._data[_FIRST_ROW_ID] if len(file._data) > _FIRST_ROW_ID else None


def mark_edges(file: pm.DataFile, ids: Iterable[int]) -> None:
    """Note that the bounds of these geographies cover their edges."""
    object.__setattr__(file, _EDGE_IDS, frozenset(ids))


def covers_edges(file: pm.DataFile) -> frozenset[int]:
    """The ids of the geographies whose bounds are known to cover their edges."""
    ids: frozenset[int] = getattr(file, _EDGE_IDS, frozenset())
    return ids


def common_edges(files: Iterable[pm.DataFile]) -> frozenset[int]:
    """The geographies whose bounds cover their edges in every file that has bounds of them."""
    listed = list(files)
    ids = frozenset[int]().union(*map(covers_edges, listed))
    return frozenset(
        id_ for id_ in ids if all(id_ in covers_edges(file) or id_ not in (file.lower_bounds or {}) for file in listed)
    )


class _ManifestFile(AvroFile[Any]):
    """A manifest or a list of them, read by the schema of its own version from 3 on."""

    __slots__ = ("schemas",)

    def __init__(self, input_file: InputFile, schemas: dict[int, Any], **types: Any) -> None:
        super().__init__(input_file, schemas[pm.DEFAULT_READ_VERSION], **types)
        self.schemas = schemas

    def _read_header(self) -> Any:
        header = super()._read_header()
        if header.meta.get("format-version") == str(_VERSION):
            self.read_schema = self.schemas[_VERSION]
        return header


def _fetch_manifest_entry(self: pm.ManifestFile, io: FileIO, discard_deleted: bool = True) -> list[pm.ManifestEntry]:
    file = _ManifestFile(
        io.new_input(self.manifest_path),
        pm.MANIFEST_ENTRY_SCHEMAS,
        read_types={-1: pm.ManifestEntry, 2: pm.DataFile},
        read_enums={0: pm.ManifestEntryStatus, 101: pm.FileFormat, 134: pm.DataFileContent},
    )
    with file as reader:
        entries = [pm._inherit_from_manifest(entry, self) for entry in reader]
    _number(self, entries)
    if EDGES in file.header.meta:
        ids = marked_ids(file.header.meta[EDGES])
        for entry in entries:
            mark_edges(entry.data_file, ids)
    return [entry for entry in entries if not discard_deleted or entry.status != pm.ManifestEntryStatus.DELETED]


def _number(manifest: pm.ManifestFile, entries: list[pm.ManifestEntry]) -> None:
    # Iceberg, First Row ID Inheritance: files without an id follow each other from the first id of the manifest.
    following = _manifest_first_row_id(manifest)
    if following is None:
        return
    for entry in entries:
        if entry.status == pm.ManifestEntryStatus.DELETED:
            continue
        data = entry.data_file._data
        data += [None] * (_FILE_WIDTH - len(data))  # of a manifest of version 2, from before an upgrade
        if data[_FIRST_ROW_ID] is None:
            data[_FIRST_ROW_ID] = following
            following += entry.data_file.record_count


def _manifest_first_row_id(manifest: pm.ManifestFile) -> int | None:
    return manifest._data[_LIST_FIRST_ROW_ID] if len(manifest._data) > _LIST_FIRST_ROW_ID else None


def _read_manifest_list(input_file: InputFile) -> Iterator[pm.ManifestFile]:
    with _ManifestFile(
        input_file,
        pm.MANIFEST_LIST_FILE_SCHEMAS,
        read_types={-1: pm.ManifestFile, 508: pm.PartitionFieldSummary},
        read_enums={517: pm.ManifestContent},
    ) as reader:
        yield from reader


_cached = pm._ManifestCache.get_or_cache


def _get_or_cache(self: pm._ManifestCache, manifest_file: pm.ManifestFile) -> pm.ManifestFile:
    """A manifest of a table that was upgraded gets its first row id only in a later list."""
    cached = _cached(self, manifest_file)
    if _manifest_first_row_id(cached) == _manifest_first_row_id(manifest_file) or self._cache is None:
        return cached
    with self._lock:
        self._cache[manifest_file.manifest_path] = manifest_file
    return manifest_file


class _Held:
    """Stands for the writer of a manifest until all entries are known, which its header describes."""

    def __init__(self, output_file: OutputFile) -> None:
        self.output_file = output_file
        self.entries: list[pm.ManifestEntry] = []

    def __enter__(self) -> _Held:
        return self

    def write_block(self, entries: list[pm.ManifestEntry]) -> None:
        """Take prepared entries."""
        self.entries += entries

    def tell(self) -> int:
        """Nothing is written yet."""
        return 0


class ManifestWriterV3(pm.ManifestWriterV2):
    """Writes a manifest of version 3."""

    _held: _Held

    @property
    def version(self) -> Any:
        """The format version."""
        return _VERSION

    @property
    def _meta(self) -> dict[str, str]:
        meta = super()._meta
        live = [entry for entry in self._held.entries if entry.status != pm.ManifestEntryStatus.DELETED]
        ids = common_edges(entry.data_file for entry in live)
        return {**meta, "schema": with_java_types(meta["schema"]), **({EDGES: edge_mark(ids)} if ids else {})}

    def new_writer(self) -> Any:
        """What takes the entries."""
        self._held = _Held(self._output_file)
        return self._held

    def prepare_entry(self, entry: pm.ManifestEntry) -> pm.ManifestEntry:
        """The entry with all fields of version 3."""
        file = super().prepare_entry(entry).data_file
        data = [*file._data, *([None] * (_FILE_WIDTH - len(file._data)))]
        if entry.status == pm.ManifestEntryStatus.ADDED:
            # Iceberg, First Row ID Inheritance: rows that are new get their ids from the list of manifests.
            data[_FIRST_ROW_ID] = None
        padded = pm.DataFile(*data)
        mark_edges(padded, covers_edges(file))
        return pm.ManifestEntry(*entry._data[:4], padded)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write the file, unless the caller has failed."""
        self.closed = True
        if exc_type is not None:
            return
        schema = self._with_partition(_VERSION)
        self._writer = AvroOutputFile[Any](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )
        self._writer.__enter__()
        if self._held.entries:
            self._writer.write_block(self._held.entries)
        super().__exit__(exc_type, exc_value, traceback)


class ManifestListWriterV3(pm.ManifestListWriterV2):
    """Writes the list of the manifests of a snapshot, and gives row ids to those that have none."""

    def __init__(self, *args: Any, ids: RowIds) -> None:
        super().__init__(*args)
        self._format_version = _VERSION
        self._ids = ids
        self._meta = {**self._meta, "first-row-id": str(ids.first), "format-version": str(_VERSION)}

    def __enter__(self) -> ManifestListWriterV3:
        """Open the file."""
        schema = pm.MANIFEST_LIST_FILE_SCHEMAS[_VERSION]
        self._writer = AvroOutputFile[Any](
            output_file=self._output_file,
            record_schema=schema,
            file_schema=schema,
            schema_name="manifest_file",
            metadata=self._meta,
        )
        self._writer.__enter__()
        return self

    def prepare_manifest(self, manifest_file: pm.ManifestFile) -> pm.ManifestFile:
        first = _manifest_first_row_id(manifest_file)
        # The values are copied: those of a manifest in the cache must not change.
        own = super().prepare_manifest(pm.ManifestFile(*manifest_file._data[:_LIST_FIRST_ROW_ID]))
        if first is None and own.content == pm.ManifestContent.DATA:
            first = self._ids.next
            # Existing rows count too: those of a table that was upgraded have no ids yet.
            self._ids.next += (own.existing_rows_count or 0) + (own.added_rows_count or 0)
        return pm.ManifestFile(*own._data, first)


_write_manifest, _write_manifest_list = pm.write_manifest, pm.write_manifest_list


def _any_manifest(format_version: Any, *args: Any, **kwargs: Any) -> pm.ManifestWriter:
    if format_version == _VERSION:
        return ManifestWriterV3(*args, **kwargs)
    return _write_manifest(format_version, *args, **kwargs)


def _any_manifest_list(
    format_version: Any, output_file: OutputFile, snapshot_id: int, *args: Any, **kwargs: Any
) -> pm.ManifestListWriter:
    if format_version != _VERSION:
        return _write_manifest_list(format_version, output_file, snapshot_id, *args, **kwargs)
    given = dict(zip(("parent_snapshot_id", "sequence_number", "avro_compression"), args, strict=False)) | kwargs
    ids = row_ids.get(None)
    if ids is None:
        raise ValueError("a manifest list of version 3 needs the first row id of its snapshot")
    sequence_number = given["sequence_number"]
    return ManifestListWriterV3(
        output_file, snapshot_id, given["parent_snapshot_id"], sequence_number, given["avro_compression"], ids=ids
    )


def patches() -> Iterator[Patch | Callable[[], Callable[[], None]]]:
    """Readers and writers by version."""
    yield Patch(pm.ManifestFile, "fetch_manifest_entry", _fetch_manifest_entry)
    yield Patch(pm, "read_manifest_list", _read_manifest_list)
    yield Patch(pm._ManifestCache, "get_or_cache", _get_or_cache)
    for module in (pm, producers):
        yield Patch(module, "write_manifest", _any_manifest)
        yield Patch(module, "write_manifest_list", _any_manifest_list)
    yield _forget_manifests


def _forget_manifests() -> Callable[[], None]:
    """What was read by another schema is read again."""
    pm.clear_manifest_cache()
    return pm.clear_manifest_cache
