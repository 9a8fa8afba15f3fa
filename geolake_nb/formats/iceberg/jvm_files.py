"""Data files of an Iceberg table as its Java classes have them: new ones of their actions, and live ones."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from geolake_nb.formats.iceberg.jvm_table import JvmTable

__all__ = ["NewFiles", "live_files"]

_EPOCH = dt.datetime(1970, 1, 1)
_EASY_SECONDS = 86_400
_MAPS = ("column-sizes", "value-counts", "null-value-counts", "nan-value-counts", "lower-bounds", "upper-bounds")


class NewFiles:
    """Makes a `DataFile` of each action that adds one."""

    def __init__(self, opened: JvmTable, table: Any = None) -> None:
        """`table` is the one of a transaction that makes it."""
        self._core = opened.core
        self._jvm = opened.jvm
        self._table = opened.table if table is None else table
        self._root = str(self._table.location()).rstrip("/")
        self._partitions: dict[str, Any] = {}

    def made(self, actions: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
        """The files, in order."""
        mapper, parser, specs = self._core.util.JsonUtil.mapper(), self._core.ContentFileParser, self._table.specs()
        for action in actions:
            yield parser.fromJson(mapper.readTree(json.dumps(self._content(action))), specs)

    def _content(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON that Iceberg's own parser takes."""
        file: dict[str, Any] = {
            "spec-id": action["spec-id"],
            "content": "DATA",
            "file-path": f"{self._root}/{action['path']}",
            "file-format": "PARQUET",
            "partition": self._partition(action["spec-id"], action["partition"]),
            "file-size-in-bytes": action["file-size-in-bytes"],
            "record-count": action["record-count"],
        }
        for name in _MAPS:
            metrics = action.get(name) or {}
            values = [value.upper() if isinstance(value, str) else value for value in metrics.values()]
            file[name] = {"keys": [int(key) for key in metrics], "values": values}
        if action.get("split-offsets"):
            file["split-offsets"] = action["split-offsets"]
        return file

    def _partition(self, spec_id: int, values: Mapping[str, str | None]) -> list[Any]:
        """The values of a partition as JSON; there are few, and many files in each."""
        key = json.dumps([spec_id, values])
        if key not in self._partitions:
            fields = self._table.specs().get(spec_id).partitionType().fields()
            self._partitions[key] = [self._json(field, values.get(str(field.fieldId()))) for field in fields]
        return list(self._partitions[key])

    def _json(self, field: Any, packed: str | None) -> Any:
        if packed is None:
            return None
        value = _json_number(str(field.type()), base64.b64decode(packed))
        if value is not None:
            return value
        buffer = self._jvm.java.nio.ByteBuffer.wrap(bytearray(base64.b64decode(packed)))
        # The value stays in the JVM: what py4j would make of it is not what Iceberg accepts.
        read = self._core.types.Conversions
        literal = self._jvm.java.util.ArrayList()
        literal.add(read.fromByteBuffer(field.type(), buffer))
        return json.loads(self._core.SingleValueParser.toJson(field.type(), literal.get(0)))


def _json_number(type_: str, packed: bytes) -> Any:
    """The JSON of a value that py4j would give back as a number of another size; `None` for all others.

    >>> _json_number("long", struct.pack("<q", 5)), _json_number("float", struct.pack("<f", 0.5))
    (5, 0.5)
    >>> _json_number("timestamptz", struct.pack("<q", -1)), _json_number("timestamp_ns", struct.pack("<q", 1))
    ('1969-12-31T23:59:59.999999+00:00', '1970-01-01T00:00:00.000000001')
    >>> _json_number("time", struct.pack("<q", 1_000_000)), _json_number("string", b"5") is None
    ('00:00:01.000000', True)
    """
    if type_ in ("float", "double"):
        (value,) = struct.unpack("<f" if type_ == "float" else "<d", packed)
        return value if math.isfinite(value) else None
    if type_ == "long":
        return struct.unpack("<q", packed)[0]
    if not type_.startswith("time"):
        return None
    (count,) = struct.unpack("<q", packed)
    digits = 9 if type_.endswith("_ns") else 6
    seconds, rest = divmod(count, 10**digits)
    if abs(seconds) > _EASY_SECONDS:
        return None  # py4j takes it for a long number, which it is
    moment = f"{_EPOCH + dt.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest:0{digits}}"
    return moment.partition("T")[2] if type_ == "time" else f"{moment}{'+00:00' if 'tz' in type_ else ''}"


def live_files(opened: JvmTable, snapshot: Any, paths: set[str], *, where: str) -> Iterator[Any]:
    """The `DataFile` of each path in a snapshot."""
    table, core = opened.table, opened.core
    left = set(paths)
    for manifest in snapshot.dataManifests(table.io()):
        if not left:
            return
        reader = core.ManifestFiles.read(manifest, table.io(), table.specs())
        try:
            entries = reader.iterator()
            while entries.hasNext():
                file = entries.next()
                if str(file.location()) in left:
                    left.discard(str(file.location()))
                    yield file.copy()
        finally:
            reader.close()
    if left:
        what = f"the file {min(left)!r} is not in the snapshot of the plan"
        raise ConflictError(what, where=where, remedy="plan again")
