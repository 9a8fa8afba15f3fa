"""Delta tables that Spark makes, each with one writer feature or property of Delta 4.4, and what their rules ask for.

Each has the columns of `BASE` and, in its geo variant, a geometry `g`; the rule sits on a column that our changes
touch (`name`, `shape`) wherever it can.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import geolake_nb as gl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FEATURES", "GEO", "NOT_BUILT", "PLAIN", "PROPERTIES", "TABLES", "FeatureTable", "new_rows", "wkb"]

PLAIN, GEO = "plain", "geo"
ROWS = [
    (1, "Aarau", 10, (8.0, 47.4)),
    (2, "Bern", 20, (7.4, 46.9)),
    (3, "Chur", 30, (9.5, 46.8)),
    (4, "Davos", 40, (9.8, 46.8)),
    (5, "Suva", 50, (178.4, -18.1)),
    (6, "Nadi", 60, (177.4, -17.8)),
]
APPENDED = [(11, "Lima", 11, (-77.0, -12.0)), (12, "Cusco", 12, (-72.0, -13.5))]
BASE = {"id": "BIGINT", "name": "STRING", "n": "INT", "shape": "BINARY"}


_REASONS = {
    "symlink": "the list of files that Presto and Athena read is not written here",
    "lengths are not enforced": "a CHAR is padded and lengths in arrays, maps and structs are tested: not done here",
    "uses it": "a constraint or a generated column uses the column",
    "delta.appendOnly": "the property lets nobody take rows away",
    "of type variant": "values of the type variant are not written here",
}


def wkb(x: float, y: float) -> bytes:
    return struct.pack("<BIdd", 1, 1, x, y)


@dataclass(frozen=True)
class FeatureTable:
    """How a table is made, which rows break its rule, and what the rule says to Spark."""

    name: str
    """The feature or the property, as Delta spells it, and what is special."""
    properties: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    """More columns, or other types of those in `BASE`."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The SQL of the values of the columns that whoever writes gives; other added columns are computed."""
    given_later: Mapping[str, str] | None = None
    """The same for the finished table, where its columns are others."""
    clause: str = ""
    """PARTITIONED BY or CLUSTER BY."""
    first: Sequence[str] = ()
    """Statements between the creation and the rows; `{t}` is the table."""
    between: Sequence[str] = ()
    """Statements between the first half of the rows and the second."""
    last: Sequence[str] = ()
    made: Callable[[SparkSession, Path], None] | None = None
    """What is done to the finished table by other means than SQL."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session while the table is made."""
    bad: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Rows that the table must not take: a name for each, and the SQL of the values that break the rule."""
    refused_by_spark: Mapping[str, str] = field(default_factory=dict)
    """Statements that Spark has to refuse as long as the rule holds, and a part of its message."""
    holds: str = ""
    """What is true of every row as long as the rule holds, as SQL."""
    is_asked_more: bool = False
    """Whether Spark deletes and makes a checkpoint afterwards too."""
    variants: tuple[str, ...] = (PLAIN, GEO)
    refuses: Mapping[str, str] = field(default_factory=dict)
    """The operations that we refuse, with a part of the message; `undo ...` for what cannot be undone."""

    @property
    def notes(self) -> dict[str, str]:
        """Why a change is refused, for the reference page."""
        return {
            verb: _REASONS.get(part, f"the feature {part} asks for what is not done here")
            for verb, part in self.refuses.items()
        }

    @property
    def types(self) -> dict[str, str]:
        return {**BASE, **self.columns}

    def build(self, spark: SparkSession, path: Path, variant: str) -> None:
        """Make the table with its rows in two files or more."""
        before = {key: spark.conf.get(key, None) for key in self.spark}
        for key, value in self.spark.items():
            spark.conf.set(key, value)
        try:
            self._build(spark, path, variant)
        finally:
            for key, old in before.items():
                spark.conf.unset(key) if old is None else spark.conf.set(key, old)

    def _build(self, spark: SparkSession, path: Path, variant: str) -> None:
        t = f"delta.`{path}`"
        types = self.types | ({"g": "GEOMETRY(4326)"} if variant == GEO else {})
        columns = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        properties = f"TBLPROPERTIES ({pairs})" if pairs else ""
        spark.sql(f"CREATE TABLE {t} ({columns}) USING delta {self.clause} {properties}")
        for statement in self.first:
            spark.sql(statement.format(t=t))
        half = len(ROWS) // 2
        for number, rows in enumerate((ROWS[:half], ROWS[half:])):
            self.insert(spark, path, rows, variant)
            for statement in self.between if number == 0 else self.last:
                spark.sql(statement.format(t=t))
        if self.made is not None:
            self.made(spark, path)

    def insert_later(self, spark: SparkSession, path: Path, rows: Sequence[tuple]) -> None:
        """Rows by Spark for the finished table."""
        self.insert(spark, path, rows, PLAIN, later=True)

    def insert(
        self, spark: SparkSession, path: Path, rows: Sequence[tuple], variant: str, *, later: bool = False
    ) -> None:
        """Rows by Spark, through the rules of the table."""
        frame = new_rows(spark, self, variant, rows, later=later)
        frame.coalesce(1).createOrReplaceTempView("matrix_rows")
        names = ", ".join(frame.columns)
        spark.sql(f"INSERT INTO delta.`{path}` ({names}) SELECT {names} FROM matrix_rows")


def new_rows(
    spark: SparkSession,
    table: FeatureTable,
    variant: str,
    rows: Sequence[tuple] = tuple(APPENDED),
    broken: Mapping[str, str] | None = None,
    *,
    later: bool = False,
) -> DataFrame:
    """Rows for a table, with the columns that a writer has to give; `broken` is SQL for values that break a rule."""
    raw = [(number, name, n, bytearray(wkb(*position))) for number, name, n, position in rows]
    frame = spark.createDataFrame(raw, "id long, name string, n int, shape binary")
    values = {name: name for name in BASE} | dict((table.given_later if later else None) or table.given)
    if variant == GEO:
        values["g"] = "st_setsrid(st_geomfromwkb(shape), 4326)"
    values |= dict(broken or {})
    return frame.selectExpr(*[f"{sql} AS {name}" for name, sql in values.items()])


def _checkpoint(spark: SparkSession, path: Path) -> None:
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(path)).checkpoint()  # type: ignore[union-attr]


def _user_domain(_: SparkSession, path: Path) -> None:
    """A named piece of metadata of another application, by a commit of its own."""
    log = path / "_delta_log"
    version = max(int(commit.stem) for commit in log.glob("*.json")) + 1
    domain = {"domain": "user.team", "configuration": '{"owner":"roads"}', "removed": False}
    actions = [{"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "SET DOMAIN", "operationParameters": {}}}]
    text = "\n".join(map(json.dumps, [*actions, {"domainMetadata": domain}]))
    (log / f"{version:020}.json").write_text(text, encoding="utf-8")


def _collated(spark: SparkSession, path: Path) -> None:
    gl.open(str(path)).plan_collations({"name": "icu.UNICODE_CI"}).apply(spark=spark, consent="collations")


def _supported(feature: str) -> dict[str, str]:
    return {f"delta.feature.{feature}": "supported"}


_NAME_MODE = {"delta.columnMapping.mode": "name"}
_CDF = {"delta.enableChangeDataFeed": "true"}
_VECTORS = {"delta.enableDeletionVectors": "true"}
_DELETE = "DELETE FROM {t} WHERE id = 3"

_VARIANT = {"v": "parse_json(to_json(named_struct('a', n)))"}
_APPEND_ONLY = "delta.appendOnly"
_UNDO_OF_SPARK = "undo an INSERT of Spark"


def _in_files(feature: str) -> dict[str, str]:
    """Changes that write data files are refused for a feature."""
    return dict.fromkeys(("rewrite", "enable", "append"), feature)


_PRODUCTION = {**_NAME_MODE, **_CDF, **_VECTORS, "delta.enableTypeWidening": "true"}


def _production(
    name: str, properties: Mapping[str, str], refuses: Mapping[str, str], *, computed: bool = True
) -> FeatureTable:
    """NOT NULL, CHECK, VARCHAR, change data feed, deletion vectors, column mapping and type widening in one table.

    With `computed` it has generated and identity columns too.
    """
    columns = {"id": "BIGINT NOT NULL", "name": "VARCHAR(8)", "w": "SMALLINT"}
    more = {
        "upper_name": "STRING GENERATED ALWAYS AS (upper(name))",
        "seq": "BIGINT GENERATED ALWAYS AS IDENTITY",
    }
    return FeatureTable(
        name,
        properties,
        columns={**columns, **(more if computed else {})},
        given={"w": "CAST(n AS SMALLINT)"},
        first=["ALTER TABLE {t} ADD CONSTRAINT positive CHECK (n > 0)"],
        between=["ALTER TABLE {t} ALTER COLUMN w TYPE BIGINT"],
        last=[_DELETE],
        bad={
            "a null": {"id": "CAST(NULL AS BIGINT)"},
            "a negative number": {"n": "-1"},
            "a long VARCHAR": {"name": "'Winterthur-Seen'"},
        },
        refused_by_spark={
            "UPDATE {t} SET id = NULL WHERE id = 1": "NOT NULL",
            "UPDATE {t} SET n = -1 WHERE id = 1": "CHECK constraint",
            "UPDATE {t} SET name = 'Winterthur-Seen' WHERE id = 1": "LENGTH",
        },
        refuses=refuses,
        holds="n > 0 AND length(name) <= 8" + (" AND upper_name <=> upper(name)" if computed else ""),
    )


_NO_VARIANT = {**_in_files("variantType"), "enable": "of type variant"}  # it looks at the schema first

FEATURES: tuple[FeatureTable, ...] = (
    FeatureTable("no feature", {"delta.enableDeletionVectors": "false"}, is_asked_more=True),
    FeatureTable(
        "appendOnly",
        {"delta.appendOnly": "true"},
        refuses={"undo append": _APPEND_ONLY, _UNDO_OF_SPARK: _APPEND_ONLY},
        refused_by_spark={"DELETE FROM {t} WHERE id = 1": "only allow appends"},
    ),
    FeatureTable(
        "invariants: NOT NULL",
        columns={"name": "STRING NOT NULL", "shape": "BINARY NOT NULL"},
        bad={"a null": {"name": "CAST(NULL AS STRING)"}, "a null shape": {"shape": "CAST(NULL AS BINARY)"}},
        refused_by_spark={"UPDATE {t} SET name = NULL WHERE id = 1": "NOT NULL"},
    ),
    FeatureTable(
        "invariants: NOT NULL in a struct",
        columns={"s": "STRUCT<a: INT NOT NULL, b: STRING>"},
        given={"s": "named_struct('a', n, 'b', name)"},
        bad={"a null": {"s": "named_struct('a', CAST(NULL AS INT), 'b', name)"}},
        refused_by_spark={"UPDATE {t} SET s = named_struct('a', CAST(NULL AS INT), 'b', 'x') WHERE id = 1": "NOT NULL"},
    ),
    FeatureTable(
        "checkConstraints",
        first=["ALTER TABLE {t} ADD CONSTRAINT positive CHECK (n > 0 AND length(name) > 0)"],
        bad={"a negative number": {"n": "-1"}},
        refuses={"collations": "uses it", "append": "checkConstraints"},
        refused_by_spark={"UPDATE {t} SET n = -1 WHERE id = 1": "CHECK constraint"},
    ),
    FeatureTable(
        "checkConstraints on the bytes of a shape",
        first=["ALTER TABLE {t} ADD CONSTRAINT shaped CHECK (length(shape) > 5)"],
        bad={"no shape": {"shape": "X'01'"}},
        refuses={"enable": "uses it", "append": "checkConstraints"},
        refused_by_spark={"UPDATE {t} SET shape = X'00' WHERE id = 1": "CHECK constraint"},
    ),
    FeatureTable(
        "generatedColumns",
        columns={"upper_name": "STRING GENERATED ALWAYS AS (upper(name))"},
        holds="upper_name <=> upper(name)",
        refuses={"collations": "uses it", "append": "generatedColumns"},
        refused_by_spark={
            "INSERT INTO {t} (id, name, upper_name) VALUES (50, 'a', 'b')": "Generated Column",
        },
    ),
    FeatureTable(
        "generatedColumns, partitioned by one",
        columns={"part": "INT GENERATED ALWAYS AS (CAST(n / 30 AS INT))"},
        holds="part <=> CAST(n / 30 AS INT)",
        refuses={"append": "generatedColumns"},
        clause="PARTITIONED BY (part)",
        refused_by_spark={"INSERT INTO {t} (id, n, part) VALUES (50, 1, 9)": "Generated Column"},
    ),
    FeatureTable(
        "generatedColumns of a shape",
        columns={"size": "INT GENERATED ALWAYS AS (length(shape))"},
        refuses={"enable": "uses it", "append": "generatedColumns"},
        refused_by_spark={"INSERT INTO {t} (id, shape, size) VALUES (50, X'00', 9)": "Generated Column"},
    ),
    FeatureTable(
        "identityColumns",
        columns={"seq": "BIGINT GENERATED ALWAYS AS IDENTITY"},
        refuses={"append": "identityColumns"},
        refused_by_spark={"INSERT INTO {t} (id, seq) VALUES (50, 1)": "IDENTITY"},
    ),
    FeatureTable(
        "identityColumns, by default",
        columns={"seq": "BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY 3)"},
        refuses={"append": "identityColumns"},
    ),
    FeatureTable("changeDataFeed", _CDF, last=["UPDATE {t} SET n = n + 1 WHERE id = 2"], is_asked_more=True),
    FeatureTable(
        "columnMapping: name",
        {**_NAME_MODE},
        columns={"gone": "INT", "old": "STRING"},
        given={"gone": "n", "old": "name"},
        given_later={"new": "name"},
        last=["ALTER TABLE {t} RENAME COLUMN old TO new", "ALTER TABLE {t} DROP COLUMN gone"],
    ),
    FeatureTable("columnMapping: id", {"delta.columnMapping.mode": "id"}, is_asked_more=True),
    FeatureTable("deletionVectors", {**_VECTORS}, last=[_DELETE], is_asked_more=True),
    FeatureTable(
        "rowTracking", {"delta.enableRowTracking": "true"}, is_asked_more=True, refuses=_in_files("rowTracking")
    ),
    FeatureTable("rowTracking, not enabled", _supported("rowTracking"), refuses=_in_files("rowTracking")),
    FeatureTable("domainMetadata", _supported("domainMetadata"), made=_user_domain),
    FeatureTable(
        "timestampNtz",
        columns={"t": "TIMESTAMP_NTZ"},
        given={"t": "make_timestamp_ntz(2026, 1, CAST(id AS INT), 1, 2, 3.5)"},
    ),
    FeatureTable(
        "typeWidening",
        {"delta.enableTypeWidening": "true"},
        columns={"w": "SMALLINT"},
        given={"w": "CAST(n AS SMALLINT)"},
        given_later={"n": "CAST(n AS BIGINT)", "w": "CAST(n AS BIGINT)"},
        between=["ALTER TABLE {t} ALTER COLUMN w TYPE BIGINT", "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT"],
    ),
    FeatureTable(
        "typeWidening-preview",
        {"delta.enableTypeWidening": "true", "delta.feature.typeWidening-preview": "supported"},
        given_later={"n": "CAST(n AS BIGINT)"},
        between=["ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT"],
    ),
    FeatureTable("v2Checkpoint", {"delta.checkpointPolicy": "v2"}, made=_checkpoint, is_asked_more=True),
    FeatureTable("inCommitTimestamp", {"delta.enableInCommitTimestamps": "true"}, is_asked_more=True),
    FeatureTable(
        "inCommitTimestamp, enabled later",
        last=["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"],
    ),
    FeatureTable("clustering", clause="CLUSTER BY (n, name)", is_asked_more=True),
    FeatureTable(
        "allowColumnDefaults",
        _supported("allowColumnDefaults"),
        columns={"d": "INT DEFAULT 7"},
        refuses={"append": "allowColumnDefaults"},
    ),
    FeatureTable("vacuumProtocolCheck", _supported("vacuumProtocolCheck")),
    FeatureTable(
        "icebergCompatV1",
        {**_NAME_MODE, "delta.enableIcebergCompatV1": "true"},
        variants=(PLAIN,),
        refuses={**_in_files("icebergCompatV1"), "collations": "icebergCompatV1"},
    ),
    FeatureTable(
        "icebergCompatV2",
        {**_NAME_MODE, "delta.enableIcebergCompatV2": "true"},
        variants=(PLAIN,),
        refuses={**_in_files("icebergCompatV2"), "collations": "icebergCompatV2"},
    ),
    FeatureTable(
        "icebergCompatV3",
        {**_NAME_MODE, "delta.enableIcebergCompatV3": "true"},
        refuses={**_in_files("icebergCompatV3"), "collations": "icebergCompatV3"},
    ),
    FeatureTable("variantType", columns={"v": "VARIANT"}, given=_VARIANT, refuses=_NO_VARIANT),
    FeatureTable(
        "variantType-preview",
        _supported("variantType-preview"),
        columns={"v": "VARIANT"},
        given=_VARIANT,
        refuses=_NO_VARIANT,
    ),
    FeatureTable(
        "variantShredding",
        {"delta.enableVariantShredding": "true"},
        columns={"v": "VARIANT"},
        given=_VARIANT,
        refuses=_NO_VARIANT,
    ),
    FeatureTable(
        "variantShredding-preview",
        _supported("variantShredding-preview"),
        columns={"v": "VARIANT"},
        given=_VARIANT,
        refuses=_NO_VARIANT,
    ),
    FeatureTable("collations", made=_collated),
    FeatureTable("geospatial", _supported("geospatial")),
    FeatureTable("geospatial-dev", _supported("geospatial-dev")),
    FeatureTable("checkpointProtection", _supported("checkpointProtection")),
    FeatureTable(
        "checkpointProtection, after DROP FEATURE",
        {**_VECTORS},
        last=[
            _DELETE,
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
            "REORG TABLE {t} APPLY (PURGE)",
            "ALTER TABLE {t} DROP FEATURE deletionVectors",
        ],
    ),
    FeatureTable(
        "materializePartitionColumns",
        {"delta.enableMaterializePartitionColumnsFeature": "true"},
        refuses=_in_files("materializePartitionColumns"),
        clause="PARTITIONED BY (n)",
    ),
    FeatureTable(
        "writePartitionColumnsToParquet", {"delta.writePartitionColumnsToParquet": "true"}, clause="PARTITIONED BY (n)"
    ),
    FeatureTable(
        "coordinatedCommits-preview",
        _supported("coordinatedCommits-preview"),
        refuses=dict.fromkeys(
            ("repair", "rewrite", "enable", "collations", "append", _UNDO_OF_SPARK), "coordinatedCommits-preview"
        ),
    ),
    FeatureTable(
        "CHAR and VARCHAR",
        columns={"name": "VARCHAR(8)", "c": "CHAR(6)"},
        given={"c": "left(name, 3)"},
        refuses={"append": "lengths are not enforced"},
        bad={"a long VARCHAR": {"name": "'Winterthur-Seen'"}, "a long CHAR": {"c": "'abcdefg'"}},
        refused_by_spark={"UPDATE {t} SET name = 'Winterthur-Seen' WHERE id = 1": "LENGTH"},
    ),
    FeatureTable(
        "VARCHAR in arrays and structs",
        columns={"tags": "ARRAY<VARCHAR(8)>", "s": "STRUCT<v: VARCHAR(8)>"},
        given={"tags": "array(name)", "s": "named_struct('v', name)"},
        refuses={"append": "lengths are not enforced"},
        bad={"in an array": {"tags": "array('123456789')"}, "in a struct": {"s": "named_struct('v', '123456789')"}},
        refused_by_spark={"UPDATE {t} SET tags = array('123456789') WHERE id = 1": "LENGTH"},
    ),
    FeatureTable(
        "VARCHAR",
        columns={"name": "VARCHAR(8)"},
        bad={"a long VARCHAR": {"name": "'Winterthur-Seen'"}},
        refused_by_spark={"UPDATE {t} SET name = 'Winterthur-Seen' WHERE id = 1": "LENGTH"},
    ),
    FeatureTable("partitioned by a number", clause="PARTITIONED BY (n)"),
    FeatureTable("partitioned by a string", clause="PARTITIONED BY (name)"),
    FeatureTable(
        "partitioned by a date and a text with spaces",
        columns={"day": "DATE", "txt": "STRING"},
        given={"day": "IF(id % 2 = 0, NULL, DATE '2026-01-01' + n)", "txt": "concat('a b/=%', name)"},
        clause="PARTITIONED BY (day, txt)",
    ),
    FeatureTable(
        "deletionVectors, columnMapping and partitions",
        {**_VECTORS, **_NAME_MODE},
        columns={"part": "INT"},
        given={"part": "n % 20"},
        clause="PARTITIONED BY (part)",
        last=[_DELETE],
    ),
    FeatureTable("changeDataFeed and deletionVectors", {**_CDF, **_VECTORS}, last=[_DELETE]),
    _production(
        "all at once",
        {**_PRODUCTION, "delta.enableRowTracking": "true"},
        {"collations": "uses it", **_in_files("rowTracking")},
    ),
    _production(
        "all at once, without rowTracking", _PRODUCTION, {"collations": "uses it", "append": "checkConstraints"}
    ),
    _production("all that a rewrite may meet at once", _PRODUCTION, {"append": "checkConstraints"}, computed=False),
    FeatureTable(
        "protocol 1, 2",
        {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2", "delta.enableDeletionVectors": "false"},
    ),
    FeatureTable(
        "protocol 1, 4",
        {"delta.minReaderVersion": "1", "delta.minWriterVersion": "4", "delta.enableDeletionVectors": "false"},
    ),
    FeatureTable(
        "protocol 2, 5",
        {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5", "delta.enableDeletionVectors": "false"},
    ),
    FeatureTable(
        "protocol 1, 6",
        {"delta.minReaderVersion": "1", "delta.minWriterVersion": "6", "delta.enableDeletionVectors": "false"},
    ),
)

PROPERTIES: dict[str, str] = {
    "delta.autoOptimize.autoCompact": "true",
    "delta.autoOptimize.optimizeWrite": "true",
    "delta.checkpoint.writeStatsAsJson": "false",
    "delta.checkpoint.writeStatsAsStruct": "false",
    "delta.checkpointInterval": "1",
    "delta.checkpointRetentionDuration": "interval 1 days",
    "delta.compatibility.symlinkFormatManifest.enabled": "true",
    "delta.dataSkippingNumIndexedCols": "0",
    "delta.dataSkippingStatsColumns": "n",
    "delta.dataSkippingStringPrefixLength": "2",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.enableExpiredLogCleanup": "false",
    "delta.enableFullRetentionRollback": "false",
    "delta.isolationLevel": "Serializable",
    "delta.logRetentionDuration": "interval 8 days",
    "delta.parquet.format.version": "2.12.0",
    "delta.randomizeFilePrefixes": "true",
    "delta.rowTrackingSuspended": "true",
    "delta.sampleRetentionDuration": "interval 1 days",
    "delta.setTransactionRetentionDuration": "interval 1 days",
}

_REFUSED_WITH = {
    "delta.compatibility.symlinkFormatManifest.enabled": {**_in_files("symlink"), _UNDO_OF_SPARK: "symlink"}
}
TABLES: dict[str, FeatureTable] = {item.name: item for item in FEATURES} | {
    name: FeatureTable(name, {name: value}, refuses=_REFUSED_WITH.get(name, {})) for name, value in PROPERTIES.items()
}
"""Every table by its name."""

NOT_BUILT = {
    "catalogManaged": "Spark refuses to create one without a catalog that commits",
    "adaptiveMetadata-preview": "implies catalogManaged; a table with it is refused when it is opened",
    "redirectReaderWriter-preview": "not among the features that Delta 4.4 supports",
    "redirectWriterOnly-preview": "not among the features that Delta 4.4 supports",
    "delta.autoOptimize": "the old name of delta.autoOptimize.optimizeWrite",
    "delta.castIcebergTimeType": "for CONVERT TO DELTA of Iceberg tables only",
    "delta.columnMapping.maxColumnId": "kept by Delta itself, with columnMapping",
    "delta.dropFeatureTruncateHistory.retentionDuration": "read by DROP FEATURE only",
    "delta.enableChangeDataCapture": "the old name of delta.enableChangeDataFeed",
    "delta.ignoreIcebergBucketPartition": "for CONVERT TO DELTA of Iceberg tables only",
    "delta.ignoreProtocolDefaults": "read by CREATE TABLE only",
    "delta.inCommitTimestampEnablementTimestamp": "kept by Delta itself, with inCommitTimestamp",
    "delta.inCommitTimestampEnablementVersion": "kept by Delta itself, with inCommitTimestamp",
    "delta.randomPrefixLength": "with delta.randomizeFilePrefixes",
    "delta.requireCheckpointProtectionBeforeVersion": "with checkpointProtection",
    "delta.universalFormat.enabledFormats": "asks for the classes of delta-iceberg, which are not among the jars here",
    "delta.universalFormat.iceberg.atomicConversion.supported": "with delta.universalFormat.enabledFormats",
}
"""What Spark makes no table for here, and why."""
