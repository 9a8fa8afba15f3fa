"""Which files of a folder are data, their names, and partition values in folders: `year=2024/part-0.parquet`."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "glob_pattern",
    "has_glob",
    "is_hidden",
    "is_job_file",
    "is_parquet_name",
    "job_file_name",
    "partition_arrays",
    "partition_bounds",
    "partition_folder",
    "partition_text",
    "partition_values",
]


def partition_text(value: pa.Scalar) -> str | None:
    """A partition value as the log stores it, `None` for null and for an empty string.

    >>> import datetime as dt
    >>> partition_text(pa.scalar(dt.datetime(2024, 1, 2, tzinfo=dt.UTC), pa.timestamp("us", "UTC")))
    '2024-01-02T00:00:00.000000Z'
    >>> partition_text(pa.scalar(True)), partition_text(pa.scalar("")), partition_text(pa.scalar(None, pa.int32()))
    ('true', None, None)
    """
    kind = value.type
    if not value.is_valid:
        return None
    # Delta, Partition value serialization.
    if pa.types.is_date32(kind):
        return _date_text(np.datetime64(value.cast(pa.int32()).as_py(), "D"))
    if pa.types.is_timestamp(kind):
        # Spark's form, with all six digits: in UTC for an instant, else without a zone.
        moment = np.datetime64(value.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).as_py(), "us")
        clock = str(moment).partition("T")[2]
        day = _date_text(moment.astype("datetime64[D]"))
        return f"{day} {clock}" if kind.tz is None else f"{day}T{clock}Z"
    plain = value.as_py()
    if plain in ("", b""):
        return None
    if pa.types.is_boolean(kind):
        return "true" if plain else "false"
    if pa.types.is_floating(kind):
        return _JAVA_NUMBERS.get(repr(plain), repr(plain))
    if pa.types.is_decimal(kind):
        return format(plain, "f")
    if isinstance(plain, bytes):
        return plain.decode("ascii") if plain.isascii() else _refuse_bytes()
    return str(plain)


def _date_text(day: np.datetime64) -> str:
    """A date as Java writes it: at least four digits of a year, with a sign where there are more or it is below 0."""
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{str(day)[-6:]}"


_JAVA_NUMBERS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _refuse_bytes() -> str:
    # Delta, Partition value serialization: engines disagree on how other bytes become strings.
    raise SchemaError("a partition value of bytes beyond ASCII cannot be written", remedy="partition by a string")


_NAME = re.compile(r"part-\d{5,}-.+-\d+-[0-9a-f]{8}-c\d{3,}\.\w+\.parquet")


def job_file_name(transaction: str, *, task: int, attempt: int) -> str:
    """The prefix of the file names of one task attempt.

    The attempt distinguishes the runs of a task, the last part those of a plan that is applied twice.

    >>> job_file_name("txn", task=3, attempt=7)
    'part-00003-txn-7-...'
    """
    return f"part-{task:05}-{transaction}-{attempt}-{uuid.uuid4().hex[:8]}"


def is_job_file(name: str) -> bool:
    """Whether a file has such a name, which no other writer uses.

    >>> is_job_file(f"{job_file_name('txn', task=3, attempt=7)}-c000.zstd.parquet")
    True
    >>> is_job_file("part-00000-5b3f2e1c-0000-4a54-9e6b-7ee9adf96721-c000.snappy.parquet")
    False
    """
    return _NAME.fullmatch(name) is not None


_NULL = "__HIVE_DEFAULT_PARTITION__"
_SUFFIXES = (".parquet", ".geoparquet", ".parq", ".pq")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# What Spark and Hive escape in the names of folders.
_SPECIAL = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_BEYOND_ASCII = re.compile(r"%[89A-Fa-f][0-9A-Fa-f]")
_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|[^*?\[]+|\[")


def is_hidden(path: str) -> bool:
    """Whether a file or one of its folders is not data, as in Spark: it starts with `.` or `_`.

    >>> is_hidden("_delta_log/0.json"), is_hidden("a/.b.parquet.crc"), is_hidden("_k=1/a.parquet")
    (True, True, False)
    """
    return any(part[:1] == "." or (part[:1] == "_" and "=" not in part) for part in path.split("/"))


def is_parquet_name(path: str) -> bool:
    """Whether the name has the extension of a Parquet file.

    >>> is_parquet_name("a.snappy.parquet"), is_parquet_name("a.csv")
    (True, False)
    """
    return path.lower().endswith(_SUFFIXES)


def has_glob(location: str) -> bool:
    """Whether the location is a pattern for many files.

    >>> has_glob("/data/*.parquet"), has_glob("/data")
    (True, False)
    """
    return any(mark in location for mark in "*?[")


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression for whole relative paths; `**` matches any number of folders.

    >>> bool(glob_pattern("**/*.parquet").fullmatch("a/b/c.parquet")), bool(glob_pattern("*.pq").fullmatch("a/b.pq"))
    (True, False)
    """
    pieces = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]", "[": r"\["}
    text = ""
    for piece in _GLOB.findall(pattern):
        if piece in pieces:
            text += pieces[piece]
        elif piece.startswith("["):
            inside = piece[1:-1].replace("\\", r"\\")
            text += f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
        else:
            text += re.escape(piece)
    return re.compile(text)


def partition_values(path: str, *, escapes: str = "utf-8") -> dict[str, str | None]:
    """The partition values of a path, escapes decoded; in values they are bytes of the encoding `escapes`.

    >>> partition_values("k=a%20b/x=__HIVE_DEFAULT_PARTITION__/f.parquet")
    {'k': 'a b', 'x': None}
    """
    values: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, mark, value = part.partition("=")
        if mark and name:
            values[unquote(name)] = None if value == _NULL else unquote(value, escapes)
    return values


def partition_folder(name: str, value: str | None) -> str:
    """The folder of a partition value, the inverse of `partition_values`.

    >>> partition_folder("day", "a/b: 1%"), partition_folder("day", None)
    ('day=a%2Fb%3A 1%25', 'day=__HIVE_DEFAULT_PARTITION__')
    """
    return f"{_escaped(name)}={_NULL if value is None else _escaped(value)}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)


def partition_arrays(paths: Sequence[str], *, texts: Sequence[str] = ()) -> tuple[dict[str, pa.Array], tuple[str, ...]]:
    """The partition columns of these files, and the names of those that only some of the files have.

    A name that only some have is not a column: in the others it may be in the file. Values are integers if all are,
    dates if all are, else strings; those named in `texts` are always strings.

    >>> arrays, _ = partition_arrays(["year=2023/a", "year=2024/b"])
    >>> arrays["year"].to_pylist(), partition_arrays([])
    ([2023, 2024], ({}, ()))
    """
    rows = [partition_values(path) for path in paths]
    names = list(dict.fromkeys(name for row in rows for name in row))
    shared = [name for name in names if all(name in row for row in rows)]
    values = {name: [row[name] for row in rows] for name in shared}
    arrays = {
        name: pa.array(column, pa.string()) if name in texts else _typed(column) for name, column in values.items()
    }
    return arrays, tuple(name for name in names if name not in arrays)


def partition_bounds(paths: Sequence[str], arrays: Mapping[str, pa.Array]) -> dict[str, tuple[pa.Array, pa.Array]]:
    """The minimum and maximum of each partition column that any engine reads for each of these files.

    >>> paths = ["k=%C3%BC/a", "k=b/b"]
    >>> [bound.to_pylist() for bound in partition_bounds(paths, partition_arrays(paths)[0])["k"]]
    [['Ã¼', 'b'], ['ü', 'b']]
    """
    bounds = {name: (values, values) for name, values in arrays.items()}
    if any(_BEYOND_ASCII.search(path) for path in paths):
        # Spark decodes each escape as a character, Arrow and DuckDB as a byte of UTF-8.
        rows = [partition_values(path, escapes="latin-1") for path in paths]
        for name, values in arrays.items():
            if pa.types.is_string(values.type):
                others = pa.array([row[name] for row in rows], pa.string())
                bounds[name] = pc.min_element_wise(values, others), pc.max_element_wise(values, others)
    return bounds


def _typed(values: list[str | None]) -> pa.Array:
    texts = {value for value in values if value is not None}
    if texts and _all_match(_INTEGER, texts):
        return pa.array([None if value is None else int(value) for value in values], pa.int64())
    if texts and _all_match(_DATE, texts):
        try:
            days = {value: dt.date.fromisoformat(value) for value in texts}
            return pa.array([None if value is None else days[value] for value in values], pa.date32())
        except ValueError:
            pass  # such as 2023-02-30
    return pa.array(values, pa.string())


def _all_match(pattern: re.Pattern[str], texts: Iterable[str]) -> bool:
    return all(pattern.fullmatch(text) for text in texts)
