"""What other engines read in a Delta table, and what its log says, found without any code of this toolkit."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from tests.kernel_reader import kernel_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["ENGINES", "Log", "Rows", "plain_value", "read_rows", "rule_text"]

Rows = list[tuple[Any, ...]]
_FILE_KEYS = ("path", "deletionVector")


@dataclass
class Log:
    """A log that is replayed from its JSON commits alone."""

    folder: Path
    version: int = -1
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    adds: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The live files by their path."""
    commits: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    """Paths that were added while they were live with the other deletion vector, and not removed."""

    @classmethod
    def of(cls, folder: Path) -> Log:
        log = cls(folder)
        for path in sorted((folder / "_delta_log").glob("*.json")):
            if not path.stem.isdigit():
                continue
            actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            log.version = int(path.stem)
            log.commits[log.version] = actions
            log._replay(actions)
        return log

    def _replay(self, actions: Sequence[dict[str, Any]]) -> None:
        removed = {_key(entry["remove"]) for entry in actions if "remove" in entry}
        for action in actions:
            self.protocol = action.get("protocol", self.protocol)
            self.metadata = action.get("metaData", self.metadata)
            domain = action.get("domainMetadata")
            if domain is not None:
                self.domains.pop(domain["domain"], None)
                if not domain.get("removed"):
                    self.domains[domain["domain"]] = domain["configuration"]
        for action in actions:
            if "remove" in action:
                old = self.adds.get(action["remove"]["path"])
                if old is not None and _key(old) == _key(action["remove"]):
                    del self.adds[action["remove"]["path"]]
        for action in actions:
            if "add" in action:
                add = action["add"]
                old = self.adds.get(add["path"])
                if old is not None and _key(old) != _key(add) and _key(old) not in removed:
                    self.doubled.append(add["path"])
                self.adds[add["path"]] = add

    @property
    def features(self) -> set[str]:
        return {*self.protocol.get("readerFeatures", ()), *self.protocol.get("writerFeatures", ())}

    @property
    def properties(self) -> dict[str, str]:
        configuration: dict[str, str] = self.metadata.get("configuration", {})
        return configuration

    @property
    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = json.loads(self.metadata["schemaString"])
        return schema

    def files(self) -> list[Path]:
        return [self.folder / unquote(path) for path in self.adds]

    def problems(self) -> Iterator[str]:
        """What breaks Delta's protocol in the live files and in the last commits."""
        yield from (f"{path} is live twice" for path in self.doubled)
        tracked = "rowTracking" in self.features
        mapped = self.properties.get("delta.columnMapping.mode", "none") != "none"
        fields = {field["name"]: field for field in self.schema["fields"]}
        partitions = [
            fields[name]["metadata"]["delta.columnMapping.physicalName"] if mapped else name
            for name in self.metadata["partitionColumns"]
        ]
        ranges: list[tuple[int, int]] = []
        for path, add in self.adds.items():
            file = self.folder / unquote(path)
            if not file.exists():
                yield f"{path} is not there"
                continue
            if file.stat().st_size != add["size"]:
                yield f"{path} has not the size that the log says"
            with pq.ParquetFile(file) as opened:
                rows, schema = opened.metadata.num_rows, opened.schema_arrow
            stats = json.loads(add.get("stats") or "{}")
            if "numRecords" in stats and stats["numRecords"] != rows:
                yield f"{path}: numRecords is {stats['numRecords']}, and the file has {rows}"
            if set(add["partitionValues"]) != set(partitions):
                yield f"{path}: partition values of {sorted(add['partitionValues'])}"
            if "materializePartitionColumns" in self.features and not set(partitions) <= set(schema.names):
                yield f"{path}: the partition columns are not in the file"
            if mapped:
                yield from self._unmapped(path, schema)
            if tracked:
                # Delta, Row tracking: every file has ids for its rows, which no other has.
                if "baseRowId" not in add or "defaultRowCommitVersion" not in add:
                    yield f"{path} has no row ids"
                else:
                    ranges.append((add["baseRowId"], add["baseRowId"] + rows))
        for (_, end), (start, _) in zip(sorted(ranges), sorted(ranges)[1:], strict=False):
            if start < end:
                yield f"two files share the row ids from {start}"
        if ranges:
            mark = json.loads(self.domains.get("delta.rowTracking", "{}")).get("rowIdHighWaterMark", -1)
            if mark < max(ranges)[1] - 1:
                yield f"row ids go to {max(ranges)[1] - 1}, and the high-water mark is {mark}"
        yield from self._bad_times()
        if self.properties.get("delta.compatibility.symlinkFormatManifest.enabled") == "true":
            listed = {
                line.strip().removeprefix("file:").removeprefix("//")
                for path in (self.folder / "_symlink_format_manifest").rglob("manifest")
                for line in path.read_text().splitlines()
            }
            if {path.rsplit("/", 1)[-1] for path in listed} != {path.name for path in self.files()}:
                yield "the symlink manifest names other files than the log"

    def _unmapped(self, path: str, schema: Any) -> Iterator[str]:
        """Delta, Column mapping: data files have the physical names, and the ids as field ids."""
        known = {
            field["metadata"]["delta.columnMapping.physicalName"]: field["metadata"]["delta.columnMapping.id"]
            for field in self.schema["fields"]
        }
        for column in schema:
            field_id = (column.metadata or {}).get(b"PARQUET:field_id")
            if column.name in known and (field_id is None or int(field_id) != known[column.name]):
                yield f"{path}: the column {column.name} has the field id {field_id}"
            if column.name in {field["name"] for field in self.schema["fields"]} - set(known):
                yield f"{path}: the column {column.name} has no physical name"

    def _bad_times(self) -> Iterator[str]:
        """Delta, In-commit timestamps: the commitInfo comes first and its time rises."""
        if self.properties.get("delta.enableInCommitTimestamps") != "true":
            return
        since = int(self.properties.get("delta.inCommitTimestampEnablementVersion", 0))
        last = -1
        for version, actions in self.commits.items():
            if version < since:
                continue
            time = actions[0].get("commitInfo", {}).get("inCommitTimestamp")
            if time is None or time <= last:
                yield f"version {version} has the in-commit timestamp {time} after {last}"
            last = time or last


def _key(action: dict[str, Any]) -> tuple[str, str]:
    """A logical file: its path and its deletion vector."""
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}"


def rule_text(log: Log) -> dict[str, Any]:
    """All that a table asks of its writers, without geo types and collations, which our changes set by intent."""

    def plain(node: Any) -> Any:
        if isinstance(node, dict):
            kept = {key: plain(value) for key, value in node.items() if key != "__COLLATIONS"}
            if str(kept.get("type", "")).startswith("geometry") or kept.get("type") == "binary":
                kept["type"] = "binary or geometry"
            return kept
        return [plain(child) for child in node] if isinstance(node, list) else node

    return {
        "schema": plain(log.schema),
        "partitionColumns": log.metadata["partitionColumns"],
        "id": log.metadata["id"],
        "configuration": dict(log.properties),
        "domains": {name: text for name, text in log.domains.items() if name not in ("collations",)},
    }


def _of_spark(spark: SparkSession, folder: Path, columns: Sequence[str]) -> Rows:
    frame = spark.read.format("delta").load(str(folder))
    chosen = []
    for name in columns:
        kind = frame.schema[name].dataType.typeName()
        shown = {"geometry": f"st_asbinary({name})", "variant": f"to_json({name})"}.get(kind, name)
        chosen.append(f"{shown} AS {name}")
    return [tuple(row.values()) for row in frame.selectExpr(*chosen).toArrow().to_pylist()]


def _of_kernel(spark: SparkSession, folder: Path, columns: Sequence[str]) -> Rows:
    return kernel_rows(spark, str(folder), columns)


def _of_deltalake(_: SparkSession, folder: Path, columns: Sequence[str]) -> Rows:
    from deltalake import DeltaTable, QueryBuilder

    names = ", ".join(f'"{name}"' for name in columns)
    batches = QueryBuilder().register("t", DeltaTable(str(folder))).execute(f"SELECT {names} FROM t").read_all()
    import pyarrow as pa

    return [tuple(row.values()) for row in pa.table(batches).to_pylist()]


def _of_duckdb(_: SparkSession, folder: Path, columns: Sequence[str]) -> Rows:
    """The live Parquet files themselves, where nothing in the log says how to read them."""
    import duckdb

    log = Log.of(folder)
    mapped = log.properties.get("delta.columnMapping.mode", "none") != "none"
    if mapped or any("deletionVector" in add for add in log.adds.values()):
        raise ValueError("the rows cannot be read from the files alone")
    names = ", ".join(f'"{name}"' for name in columns)
    files = ", ".join(f"'{path}'" for path in log.files())
    with duckdb.connect() as connection:
        return connection.execute(f"SELECT {names} FROM read_parquet([{files}], union_by_name=true)").fetchall()


ENGINES: dict[str, Callable[[SparkSession, Path, Sequence[str]], Rows]] = {
    "Spark": _of_spark,
    "Kernel": _of_kernel,
    "deltalake": _of_deltalake,
    "DuckDB": _of_duckdb,
}


def read_rows(engine: str, spark: SparkSession, folder: Path, columns: Sequence[str]) -> Rows:
    """The rows in the order of their ids, with values that compare across engines; `columns` begin with the id."""
    rows = ENGINES[engine](spark, folder, columns)
    return sorted((tuple(plain_value(value) for value in row) for row in rows), key=repr)


def plain_value(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, dict):
        return tuple(plain_value(item) for item in value.values())
    if isinstance(value, list | tuple):
        return tuple(plain_value(item) for item in value)
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, decimal.Decimal):
        return str(value)
    return value
