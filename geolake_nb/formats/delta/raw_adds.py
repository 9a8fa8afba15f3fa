"""The `add` actions of live files as JSON: byte for byte from a commit, or rebuilt from a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, JsonError
from geolake_nb.formats.delta.checkpoint_adds import Zones, add_texts
from geolake_nb.formats.delta.checkpoint_reading import add_keys, open_checkpoint, whole_adds
from geolake_nb.formats.delta.commit_reading import CommitFile, file_actions, file_lines
from geolake_nb.formats.delta.deletion_vectors import descriptor_ids
from geolake_nb.formats.delta.details import ColumnMapping, DeltaMetadata
from geolake_nb.formats.delta.file_actions import actions_table, add_row, file_keys
from geolake_nb.formats.delta.log_replay import SmallActions, live_files, read_deltas
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.model.types import PrimitiveType
from geolake_nb.text.json_splice import member

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from geolake_nb.formats.delta.log_segment import LogSegment
    from geolake_nb.storage.storage import Storage

__all__ = ["raw_adds"]

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
