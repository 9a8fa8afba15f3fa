"""How the new files of a Delta table are laid out, and the `add` action of each with its statistics."""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from geolake_nb.errors import BoundError
from geolake_nb.formats.delta.collations import measured_strings
from geolake_nb.formats.delta.details import ColumnMapping, indexed_columns
from geolake_nb.formats.delta.format import collation_hints
from geolake_nb.geo.bound_codec import to_delta_wkt
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import GeographyType, GeometryType, PrimitiveType, StringType, StructType
from geolake_nb.storage.hive_paths import partition_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Self

    from geolake_nb.changes.sampling import Partition
    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.model.collation_stats import CollationHints
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.parquet.column_ranges import ColumnRange
    from geolake_nb.parquet.writer import Layout, WrittenFile
    from geolake_nb.scan.value_scan import CollatedString

__all__ = ["DeltaTarget", "add_action", "cut_maximum", "cut_minimum", "encoded_path", "stats_text"]

_Path = tuple[str, ...]

# Spark's types with minima and maxima: numbers, dates, timestamps, strings.
_ORDERED = frozenset(("int8", "int16", "int32", "int64", "float32", "float64", "date", "timestamp", "timestamptz"))
_PREFIX = 32
_LAST_ASCII, _LAST_CHARACTER = "\x7f", "\U0010ffff"
# RFC 2396, 3.3: the characters that need no escape in a path. A colon does, in the first segment of a relative path.
_PLAIN_IN_PATH = "/-_.!~*'()@&=+$,;"


def stats_text(
    file: WrittenFile,
    schema: Schema,
    mapping: ColumnMapping,
    indexed: Collection[tuple[str, ...]],
    *,
    deletion_vectors: bool = False,
) -> str:
    """The `stats` of a new file: row count, and the known bounds and null counts of the indexed columns.

    `schema` is the table's and `indexed` has logical paths, as from `indexed_columns`. `deletion_vectors`
    is whether the table has that feature, with which Spark writes `tightBounds`.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.parquet.column_ranges import ColumnRange
    >>> from geolake_nb.formats.delta.details import ColumnMapping
    >>> from geolake_nb.parquet.writer import WrittenFile
    >>> from geolake_nb.model.types import Field
    >>> schema = Schema(StructType((Field("id", PrimitiveType("int32")),)))
    >>> file = WrittenFile("a.parquet", 1, 2, {}, {("id",): ColumnRange(1, 5, 0, 2)})
    >>> stats_text(file, schema, ColumnMapping.NONE, {("id",)})
    '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":5},"nullCount":{"id":0}}'
    """
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path, field in _leaves(schema):
        if path not in indexed:
            continue
        known = file.geo.get(path) or file.scalars.get(path)
        if known is None:
            continue
        names = mapping.physical(schema, path)
        low, high = _ends(known, field.type)
        _put(lows, names, low)
        _put(highs, names, high)
        _put(nulls, names, str(known.null_count))
    parts = {"numRecords": str(file.rows)}
    if lows or highs:
        parts |= {"minValues": _object(lows), "maxValues": _object(highs)}
    if nulls:
        parts["nullCount"] = _object(nulls)
    if deletion_vectors:
        # Delta, Per-file statistics: tight bounds are those of the rows in the file.
        parts["tightBounds"] = "true"
    return _object(parts)


def add_action(
    file: WrittenFile,
    *,
    stats: str | None,
    partition_values: Mapping[str, str | None],
    modification_time: int,
    data_change: bool,
    tags: Mapping[str, str] | None = None,
) -> str:
    """The action that adds a file to the table; partition values have physical names.

    >>> from geolake_nb.parquet.writer import WrittenFile
    >>> file = WrittenFile("p=a b/a.parquet", 10, 0, {}, {})
    >>> json.loads(add_action(file, stats="{}", partition_values={"p": "a b"}, modification_time=0, data_change=True))
    {'add': {'path': 'p=a%20b/a.parquet', 'partitionValues': {'p': 'a b'}, ... 'stats': '{}'}}
    """
    action: dict[str, Any] = {
        "path": encoded_path(file.path),
        "partitionValues": dict(partition_values),
        "size": file.bytes,
        "modificationTime": modification_time,
        "dataChange": data_change,
    }
    if stats is not None:
        action["stats"] = stats
    if tags is not None:
        action["tags"] = dict(tags)
    return json.dumps({"add": action}, ensure_ascii=False, separators=(",", ":"))


def encoded_path(path: str) -> str:
    """A path relative to the table as the log stores it, the inverse of `decoded_path`.

    >>> encoded_path("p=ä b%3A/a.parquet")
    'p=ä%20b%253A/a.parquet'
    """
    # Delta, Add file: the path is a URI as of RFC 2396. Letters beyond ASCII stay, as in Spark's.
    return "".join(letter if _stays(letter) else quote(letter, safe="") for letter in path)


def cut_minimum(text: str) -> str:
    """A string truncated to 32 characters as Java counts them, which is not greater than it.

    >>> cut_minimum("a" * 40) == "a" * 32, cut_minimum("")
    (True, '')
    """
    return text[: _characters(text, _PREFIX)]


def cut_maximum(text: str) -> str | None:
    """A truncated string with a last character that makes it greater, or `None` if it would be too long.

    >>> cut_maximum("a" * 40) == "a" * 32 + "\\x7f", cut_maximum("short")
    (True, 'short')
    >>> cut_maximum("\\U0010ffff" * 80) is None
    True
    """
    # As in Spark: what is cut off must be less than the character that replaces it.
    end = _characters(text, _PREFIX)
    while _java_length(text[:end]) <= 2 * _PREFIX:
        if end == len(text):
            return text
        if text[end] < _LAST_ASCII:
            return text[:end] + _LAST_ASCII
        if text[end] < _LAST_CHARACTER:
            return text[:end] + _LAST_CHARACTER
        end += 1
    return None


def _leaves(schema: Schema) -> Iterator[tuple[_Path, Field]]:
    """Every column that is not a struct and not in a list or map."""
    stack: list[tuple[_Path, Field]] = [((child.name,), child) for child in reversed(schema.fields)]
    while stack:
        path, field = stack.pop()
        if isinstance(field.type, StructType):
            stack += [((*path, child.name), child) for child in reversed(field.type.fields)]
        else:
            yield path, field


def _ends(known: ColumnStats | ColumnRange, type_: DataType) -> tuple[str | None, str | None]:
    """The JSON texts of the least and the greatest value, `None` for what must not be written."""
    if isinstance(type_, (GeometryType, GeographyType)):
        box = getattr(known, "box", None)
        if box is None:
            return None, None
        try:
            corners = to_delta_wkt(box)
        except BoundError:
            return None, None
        return _quoted(corners[0]), _quoted(corners[1])
    low, high = getattr(known, "low", None), getattr(known, "high", None)
    if isinstance(type_, StringType):
        cut = None if high is None else cut_maximum(high)
        return None if low is None else _quoted(cut_minimum(low)), None if cut is None else _quoted(cut)
    if isinstance(type_, PrimitiveType) and (type_.name in _ORDERED or type_.name.startswith("decimal(")):
        return _value_text(low, lower=True), _value_text(high, lower=False)
    return None, None


def _value_text(value: Any, *, lower: bool) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # JSON has no infinities, and 0.0 and -0.0 differ for readers that compare bits.
        if not math.isfinite(value):
            return None
        return repr(value or (-0.0 if lower else 0.0))
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC)
        # Delta, Per-file statistics: timestamps are truncated down to milliseconds.
        zone = "" if value.tzinfo is None else "Z"
        return _quoted(f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}{zone}")
    return _quoted(value.isoformat()) if isinstance(value, dt.date) else None


def _put(tree: dict[str, Any], names: _Path, text: str | None) -> None:
    if text is None:
        return
    for name in names[:-1]:
        tree = tree.setdefault(name, {})
    tree[names[-1]] = text


def _object(tree: Mapping[str, Any]) -> str:
    """A JSON object whose leaves are JSON texts."""
    members = [
        f"{_quoted(name)}:{_object(value) if isinstance(value, dict) else value}" for name, value in tree.items()
    ]
    return "{" + ",".join(members) + "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _characters(text: str, limit: int) -> int:
    """How many characters of a string make `limit` of Java's, where one beyond U+FFFF counts as two."""
    if len(text) <= limit // 2:
        return len(text)
    count = 0
    for index, letter in enumerate(text):
        if count >= limit:
            return index
        count += 1 + (letter > "\uffff")
    return len(text)


def _java_length(text: str) -> int:
    return len(text) + sum(letter > "\uffff" for letter in text)


def _stays(letter: str) -> bool:
    if letter.isascii():
        return letter.isalnum() or letter in _PLAIN_IN_PATH
    return letter.isprintable() and not letter.isspace()


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
        from geolake_nb.formats.delta.add_action import BOUNDS_TAG, stats_tag

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
