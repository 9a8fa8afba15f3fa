"""The actions of a version byte for byte as in its log, or rebuilt from its checkpoint."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, JsonError
from geolake_nb.formats.delta.checkpoint import add_keys, open_checkpoint, whole_adds
from geolake_nb.formats.delta.details import ColumnMapping, DeltaMetadata
from geolake_nb.formats.delta.log_actions import (
    CommitFile,
    actions_table,
    add_row,
    descriptor_ids,
    file_actions,
    file_keys,
    file_lines,
)
from geolake_nb.formats.delta.log_replay import SmallActions, live_files, read_deltas, small_actions
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.model.types import PrimitiveType
from geolake_nb.text.json_text import member

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from geolake_nb.formats.delta.log_segment import LogSegment
    from geolake_nb.storage.storage import Storage

__all__ = [
    "RawSmallActions",
    "Zones",
    "add_texts",
    "plain",
    "pre_images",
    "raw_adds",
    "raw_small_actions",
    "same_file",
    "same_key",
    "stats_object",
    "stats_objects",
    "vector_of",
]

Zones = Mapping[tuple[str, ...], bool]
"""Whether each timestamp column, by its name in the statistics, holds instants."""

_PARSED = "stats_parsed"
_EPOCH = dt.datetime(1970, 1, 1)


def add_texts(adds: pa.StructArray, *, where: str, zones: Zones | None = None) -> list[str]:
    """The JSON object of each `add`; a file without `stats` gets them from its `stats_parsed`.

    `zones` specifies which timestamps are written with a zone; for others the Parquet type decides.

    >>> add = {"path": "a", "size": 3, "tags": None, "stats_parsed": {"numRecords": 2}}
    >>> add_texts(pa.array([add]), where="checkpoint")
    ['{"path":"a","partitionValues":{},"size":3,"stats":"{\\\\"numRecords\\\\":2}"}']
    """
    names = [child.name for child in adds.type]
    columns: dict[str, list[Any]] = {}
    try:
        for name in names:
            if name != _PARSED:
                columns[name] = _plain(adds.field(name))
        columns["stats"] = _stats(adds, columns.get("stats"), zones or {})
    except (pa.ArrowException, UnicodeDecodeError, TypeError, ValueError) as problem:
        raise CorruptTableError(f"a file of the checkpoint cannot be read: {problem}", where=where) from None
    if adds.null_count or None in columns["path"]:
        raise CorruptTableError("a file of the checkpoint has no path", where=where)
    # Delta, Add file: the map of partition values is required even if it is empty.
    columns["partitionValues"] = [values or {} for values in columns.get("partitionValues", [None] * len(adds))]
    order = ["path", "partitionValues", *(name for name in columns if name not in ("path", "partitionValues"))]
    rows = zip(*(columns[name] for name in order), strict=True)
    return [
        orjson.dumps({name: value for name, value in zip(order, row, strict=True) if value is not None}).decode()
        for row in rows
    ]


def stats_object(parsed: pa.Scalar) -> Mapping[str, Any] | None:
    """The statistics of one file, a struct in a checkpoint, as a JSON object.

    >>> stats_object(pa.scalar({"numRecords": 2, "minValues": {"day": dt.date(2000, 1, 1)}}))
    {'numRecords': 2, 'minValues': {'day': '2000-01-01'}}
    """
    return stats_objects(pa.chunked_array([pa.array([parsed], parsed.type)]))[0]


def stats_objects(parsed: pa.ChunkedArray) -> list[Mapping[str, Any] | None]:
    """The statistics of many files, or a part of them, structs in a checkpoint, as JSON objects.

    >>> stats_objects(pa.chunked_array([[{"numRecords": 2}, None]]))
    [{'numRecords': 2}, None]
    """
    return [value for chunk in parsed.chunks for value in _stat_values(chunk, (), {})]


def _stats(adds: pa.StructArray, texts: list[Any] | None, zones: Zones) -> list[Any]:
    stats = [None] * len(adds) if texts is None else texts
    if None not in stats or adds.type.get_field_index(_PARSED) < 0:
        return stats
    parsed = _stat_values(adds.field(_PARSED), (), zones)
    return [
        orjson.dumps(struct).decode() if text is None and struct else text
        for text, struct in zip(stats, parsed, strict=True)
    ]


def _plain(column: pa.Array) -> list[Any]:
    """The values as in JSON: maps as objects, and no member for a null in a struct."""
    kind = column.type
    if pa.types.is_map(kind):
        # The children of a map array span all rows; each row has those between its offsets.
        keys, items = column.keys.to_pylist(), _plain(column.items)
        offsets = column.offsets.to_pylist()
        return [
            dict(zip(keys[start:end], items[start:end], strict=True)) if valid else None
            for start, end, valid in zip(offsets, offsets[1:], pc.is_valid(column).to_pylist(), strict=False)
        ]
    if pa.types.is_struct(kind):
        if column.null_count == len(column):
            return [None] * len(column)
        return _objects(column, [_plain(column.field(index)) for index in range(kind.num_fields)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values, offsets = _plain(column.values), column.offsets.to_pylist()
        return [
            values[start:end] if valid else None
            for start, end, valid in zip(offsets, offsets[1:], pc.is_valid(column).to_pylist(), strict=False)
        ]
    if pa.types.is_decimal(kind):
        return [None if value is None else orjson.Fragment(format(value, "f")) for value in column.to_pylist()]
    if pa.types.is_null(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(column.to_pylist())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return list(column.to_pylist())
    raise TypeError(f"a field of type {kind} cannot be written as JSON")


def _objects(column: pa.StructArray, children: Sequence[list[Any]]) -> list[Any]:
    names = [child.name for child in column.type]
    made = [
        {name: value for name, value in zip(names, row, strict=True) if value is not None} if valid else None
        for row, valid in zip(zip(*children, strict=True), pc.is_valid(column).to_pylist(), strict=True)
    ]
    # Some writers write a struct of nulls for a missing value.
    return [object_ or None for object_ in made]


def _stat_values(column: pa.Array, path: tuple[str, ...], zones: Zones) -> list[Any]:
    """Statistics as in JSON; values that JSON cannot represent are left out, which is always sound."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _objects(column, [_stat_values(column.field(child.name), (*path, child.name), zones) for child in kind])
    if pa.types.is_floating(kind):
        return [_number(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        # Delta, Per-file statistics: truncated to milliseconds, which readers of a maximum expect. Some writers keep no
        # zone in Parquet, and readers interpret an instant without one in their own zone: the column's type decides.
        mark = "Z" if zones.get(path[1:], kind.tz is not None) else ""
        ticks = {"s": 1_000, "ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
        counts = column.cast(pa.int64()).to_pylist()
        millis = [None if n is None else n * ticks if kind.unit == "s" else n // ticks for n in counts]
        return [_instant(value, mark) for value in millis]
    if pa.types.is_date(kind):
        return [_date(value) for value in column.cast(pa.date32()).cast(pa.int32()).to_pylist()]
    if any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_nested)):
        return [None] * len(column)
    return _plain(column)


def _number(value: float | None) -> float | str | None:
    # As Spark writes them; a bare NaN is not valid JSON.
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _instant(millis: int | None, mark: str) -> str | None:
    if millis is None:
        return None
    try:
        return (_EPOCH + dt.timedelta(milliseconds=millis)).isoformat(timespec="milliseconds") + mark
    except OverflowError:
        return None


def _date(days: int | None) -> str | None:
    if days is None:
        return None
    try:
        return (_EPOCH + dt.timedelta(days=days)).date().isoformat()
    except OverflowError:
        return None


_SCHEMA = pa.schema([("path", pa.string()), ("vector", pa.string()), ("add", pa.large_string())])
_CHUNK = 65_536
_HEAD = b'{"add":'


def raw_adds(storage: Storage, segment: LogSegment, wanted: Collection[str] | None = None) -> pa.Table:
    """The live files of a version: `path` as stored, `vector` (the id of the deletion vector or null), `add`.

    `add` is the JSON object inside the action. `wanted` are stored paths; without it all files are returned.

    >>> import tempfile, pathlib
    >>> from geolake_nb.formats.delta.log_segment import list_log
    >>> from geolake_nb.storage.storage import Storage
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "_delta_log")
    >>> folder.mkdir()
    >>> _ = folder.joinpath(f"{0:020}.json").write_text('{"add":{"path":"a", "new":1.50}}\\n{"add":{"path":"b"}}\\n')
    >>> storage = Storage.at(str(folder.parent))
    >>> raw_adds(storage, list_log(storage).segment(), ["a"]).to_pylist()
    [{'path': 'a', 'vector': None, 'add': '{"path":"a", "new":1.50}'}]
    """
    selected = None if wanted is None else pa.array(sorted(set(wanted)), pa.string())
    base = None if segment.checkpoint is None else open_checkpoint(storage, segment.checkpoint)
    texts = () if base is None else tuple(top for top in base.tops if isinstance(top, CommitFile))
    lines = _Lines([*texts, *read_deltas(storage, segment)])
    chunks: list[pa.Table] = []
    if base is not None:
        newer = file_keys(lines.actions).combine_chunks().unique() if lines.actions.num_rows else None

        def kept(files: pa.Table) -> pa.ChunkedArray:
            rows = _is_selected(files, selected)
            return rows if newer is None else pc.and_(rows, pc.invert(pc.is_in(file_keys(files), value_set=newer)))

        zones = _zones([*base.actions, *(action for commit in lines.commits for action in commit.actions)])
        for adds, where in whole_adds(storage, base, kept):
            chunks += [_rebuilt(part, where, zones) for part in _parts(adds)]
    live = live_files(lines.actions.slice(0, 0).drop_columns(["added"]), lines.actions)
    live = live.filter(_is_selected(live, selected))
    for start in range(0, live.num_rows, _CHUNK):
        some = live.slice(start, _CHUNK)
        chunks.append(_table(some, list(lines.texts(some))))
    return pa.concat_tables(chunks) if chunks else _SCHEMA.empty_table()


class _Lines:
    """The lines with an `add` or a `remove` of several commits, oldest first, as columns with their line numbers."""

    def __init__(self, commits: Sequence[CommitFile]) -> None:
        self.commits = commits
        ranges: list[np.ndarray[Any, Any]] = []
        for number, commit in enumerate(commits):
            starts, ends = file_lines(commit)
            ranges.append(np.stack([np.full(len(starts), number), starts, ends], axis=1))
        lines = np.concatenate(ranges) if ranges else np.empty((0, 3), np.int64)
        rows = file_actions(commits, []) if all(commit.plain for commit in commits) else None
        if rows is not None and rows.num_rows == len(lines):
            actions = rows.append_column("line", pa.array(np.arange(len(lines))))
        else:
            # Some line does not have exactly one action at its start: each line is parsed by itself.
            actions = self._parse_lines(lines)
        self._ranges = lines
        self.actions = actions.select(["path", "deletionVector", "added", "line"])

    def texts(self, rows: pa.Table) -> Iterator[str]:
        """The object of each `add`."""
        ranges = self._ranges[rows["line"].to_numpy()].tolist()
        for path, (commit, start, end) in zip(rows["path"].to_pylist(), ranges, strict=True):
            line = self.commits[commit].data[start:end].strip()
            text = line[len(_HEAD) : -1].strip() if line.startswith(_HEAD) else b""
            if _path_of(text) == path:
                yield text.decode()
                continue
            # The line has something beside the object, or before it.
            try:
                object_ = member(line.decode(), ("add",))
            except JsonError as problem:
                raise CorruptTableError(str(problem), where=self.commits[commit].path) from None
            if object_ is None or _path_of(object_.encode()) != path:
                raise CorruptTableError(
                    f"the add action of {path!r} cannot be distinguished from others in its line",
                    where=self.commits[commit].path,
                )
            yield object_

    def _parse_lines(self, ranges: np.ndarray[Any, Any]) -> pa.Table:
        rows: list[dict[str, Any]] = []
        added: list[bool] = []
        lines: list[int] = []
        for number, (commit, start, end) in enumerate(ranges.tolist()):
            where = self.commits[commit].path
            line = self.commits[commit].data[start:end].strip()
            action = orjson.loads(line) if line else {}
            for kind in ("add", "remove"):
                if action.get(kind) is not None:
                    rows.append(add_row(action[kind], [], where))
                    added.append(kind == "add")
                    lines.append(number)
        table = actions_table(rows, [], self.commits[0].path if self.commits else "the log")
        return table.append_column("added", pa.array(added, pa.bool_())).append_column(
            "line", pa.array(lines, pa.int64())
        )


def _path_of(text: bytes) -> str | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    path = value.get("path") if isinstance(value, dict) else None
    return path if isinstance(path, str) else None


def _is_selected(files: pa.Table, selected: pa.Array | None) -> pa.ChunkedArray:
    if selected is None:
        return pa.chunked_array([pa.array(np.ones(files.num_rows, np.bool_))])
    return pc.is_in(files["path"], value_set=selected)


def _parts(adds: pa.ChunkedArray) -> Iterator[pa.StructArray]:
    for chunk in adds.chunks:
        # Copied, not sliced: the children of a slice are still those of the whole array.
        for start in range(0, len(chunk), _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, len(chunk)))
            yield chunk if len(rows) == len(chunk) else chunk.take(pa.array(rows))


def _rebuilt(adds: pa.StructArray, where: str, zones: Zones) -> pa.Table:
    return _table(add_keys(pa.chunked_array([adds]), where), add_texts(adds, where=where, zones=zones))


def _zones(actions: Sequence[Mapping[str, Any]]) -> Zones:
    """Whether each timestamp column holds instants."""
    stored = SmallActions.reconciled(actions).metadata
    if stored is None:
        return {}
    metadata = DeltaMetadata.of(stored)
    schema = from_delta_schema(metadata.schema_string, properties=metadata.configuration)
    mapping = ColumnMapping.of(metadata.configuration)
    names = {PrimitiveType("timestamptz"): True, PrimitiveType("timestamp"): False}
    return {
        mapping.physical(schema, path): names[field.type]
        for path, field in schema.walk_parts()
        if isinstance(field.type, PrimitiveType) and field.type in names
    }


def _table(files: pa.Table, texts: list[str]) -> pa.Table:
    vectors = files["deletionVector"]
    ids = pa.nulls(len(vectors), pa.string()) if vectors.null_count == len(vectors) else descriptor_ids(vectors)
    return pa.table({"path": files["path"], "vector": ids, "add": pa.array(texts, pa.large_string())}, schema=_SCHEMA)


_FILES = (b'{"add":', b'{"remove":', b'{"cdc":')


@dataclass(frozen=True, slots=True, eq=False)
class RawSmallActions:
    """The JSON of the objects inside the newest of these actions; what only a checkpoint has is serialized again."""

    metadata: str | None = None
    domains: Mapping[str, str] = field(default_factory=dict)
    """By domain, without those that were removed."""


def raw_small_actions(storage: Storage, segment: LogSegment) -> RawSmallActions:
    """The metadata and the domains of the version of the segment."""
    known = small_actions(storage, segment)
    metadata = None if known.metadata is None else orjson.dumps(known.metadata).decode()
    domains: dict[str, str] = {}
    for domain, configuration in known.domains.items():
        spelled = {"domain": domain, "configuration": configuration, "removed": False}
        domains[domain] = orjson.dumps(spelled).decode()
    for commit in read_deltas(storage, segment):
        for line in commit.data.split(b"\n"):
            if line.startswith(_FILES) or not line.strip():
                continue
            action = orjson.loads(line)
            if "metaData" in action:
                metadata = _inside(line, "metaData", commit.path) or metadata
            fields: Any = action.get("domainMetadata")
            named = fields.get("domain") if isinstance(fields, dict) else None
            if isinstance(named, str) and named in known.domains:
                domains[named] = _inside(line, "domainMetadata", commit.path) or domains[named]
    return RawSmallActions(metadata, domains)


def _inside(line: bytes, kind: str, where: str) -> str | None:
    try:
        return member(line.decode(), (kind,))
    except JsonError as problem:
        raise CorruptTableError(str(problem), where=where) from None


def pre_images(storage: Storage, segment: LogSegment, paths: Collection[str]) -> dict[str, str]:
    """The JSON of the object inside the `add` of each of these files that is live, by its path as stored."""
    if not paths:
        return {}
    adds = raw_adds(storage, segment, paths)
    texts = dict(zip(adds["path"].to_pylist(), adds["add"].to_pylist(), strict=True))
    if len(texts) < adds.num_rows:
        # Delta, Add file: a path is unique in a version, whatever the deletion vectors.
        raise CorruptTableError(
            "a data file is in the table twice, with two deletion vectors", where=f"{storage.location}"
        )
    return texts


def same_file(left: str | None, right: str | None) -> bool:
    """Whether two `add`s describe the same file with the same statistics; a checkpoint may format them differently.

    >>> same_file('{"path":"a","dataChange":true}', '{"dataChange": false, "path": "a", "tags": null}')
    True
    >>> same_file(None, '{"path":"a"}'), same_file(None, None)
    (False, True)
    """
    if left is None or right is None or left == right:
        return left == right
    return bool(_meaning(left) == _meaning(right))


def _meaning(add: str) -> Any:
    fields = plain(orjson.loads(add))
    fields.pop("dataChange", None)
    stats = fields.get("stats")
    if isinstance(stats, str):
        try:
            fields["stats"] = orjson.loads(stats)
        except orjson.JSONDecodeError:
            fields["stats"] = stats
    return fields


def same_key(left: str | None, right: str | None) -> bool:
    """Whether one `add` replaces the other: Delta identifies a file by its path and its deletion vector."""
    if left is None or right is None:
        return False
    return bool(_key(vector_of(left)) == _key(vector_of(right)))


def vector_of(add: str) -> Mapping[str, Any] | None:
    """The descriptor of the deletion vector in an `add`.

    >>> vector_of('{"path":"a"}') is None
    True
    """
    vector = orjson.loads(add).get("deletionVector")
    return vector if isinstance(vector, dict) else None


def _key(vector: Mapping[str, Any] | None) -> Any:
    return None if vector is None else tuple(vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))


def plain(action: Any) -> Any:
    """An action without empty members.

    >>> plain({"name": None, "configuration": {}, "id": "1"})
    {'id': '1'}
    """
    if isinstance(action, Mapping):
        return {key: plain(value) for key, value in action.items() if value is not None and value != {}}
    return action
