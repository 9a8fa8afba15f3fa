"""Every feature and property of Delta 4.4 times every change of ours: what happens, found out by other engines.

A cell is right where the change leaves the same rows for every engine that could read the table before and all rules
of the table hold, or where it is refused with a `GeolakeError` and the log is what it was, byte for byte. What was
changed is then undone, and the same is asked again.
"""

from __future__ import annotations

import contextlib
import enum
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import expr

import geolake_nb as gl
from geolake_nb.errors import GeolakeError
from tests.no_row_lost.feature_engines import ENGINES, Log, read_rows, rule_text
from tests.no_row_lost.feature_tables import GEO, PLAIN, ROWS, new_rows
from tests.promises.table_bytes import table_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from geolake_nb.api.plan import Report
    from tests.no_row_lost.feature_tables import FeatureTable

__all__ = ["BAD_APPENDS", "OPERATIONS", "UNDO_OF_SPARK", "Cell", "Matrix", "Operation", "Outcome", "faults_of"]

UNDO_OF_SPARK = "undo an INSERT of Spark"
BAD_APPENDS = "append what breaks the rule"
_LATER = [(21, "Oslo", 21, (10.7, 59.9))]
Row = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """A change of ours, and on which variant of a table it is tried."""

    name: str
    variant: str
    run: Callable[[SparkSession, Path, FeatureTable], Report]
    changes_rows: bool = False
    changes_schema: bool = False


def _repair(spark: SparkSession, path: Path, _: FeatureTable) -> Report:
    return gl.open(str(path)).plan_repair().apply(spark=spark)


def _rewrite(column: str) -> Callable[[SparkSession, Path, FeatureTable], Report]:
    return lambda spark, path, _: gl.open(str(path)).plan_rewrite(cluster_by=column).apply(spark=spark)


def _enable(spark: SparkSession, path: Path, _: FeatureTable) -> Report:
    return gl.open(str(path)).plan_enable({"shape": gl.geometry()}).apply(spark=spark, consent="geospatial")


def _collate(spark: SparkSession, path: Path, _: FeatureTable) -> Report:
    plan = gl.open(str(path)).plan_collations({"name": "spark.UTF8_LCASE"})
    return plan.apply(spark=spark, consent="collations")


def _append(variant: str) -> Callable[[SparkSession, Path, FeatureTable], Report]:
    return lambda spark, path, table: gl.write(
        new_rows(spark, table, variant, later=True), str(path), mode="append", spark=spark
    )


OPERATIONS = {
    candidate.name: candidate
    for candidate in (
        Operation("repair", GEO, _repair),
        Operation("rewrite", GEO, _rewrite("g")),
        Operation("rewrite by a number", PLAIN, _rewrite("id")),
        Operation("enable", PLAIN, _enable, changes_schema=True),
        Operation("collations", PLAIN, _collate, changes_schema=True),
        Operation("append", PLAIN, _append(PLAIN), changes_rows=True),
        Operation("append with a geometry", GEO, _append(GEO), changes_rows=True),
    )
}


class Outcome(enum.Enum):
    """What became of a change."""

    DONE = "yes"
    NOTHING = "nothing to do"
    REFUSED = "refused"
    WRONG = "WRONG"


@dataclass
class Cell:
    """One change of one table, and its undo."""

    table: str
    operation: str
    outcome: Outcome = Outcome.DONE
    message: str = ""
    undo: Outcome | None = None
    undo_message: str = ""
    problems: list[str] = field(default_factory=list)
    engines: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        undone = "" if self.undo is None else f", undo {self.undo.value}"
        return f"{'WRONG' if self.problems else self.outcome.value}{undone}"


@dataclass
class _Built:
    """A finished table that is copied for each cell."""

    folder: Path
    log: Log
    rows: list[Row]
    engines: tuple[str, ...]
    row_ids: list[tuple[int, int]]


@dataclass
class _After:
    """A table that was changed: the rows that it must have, and the version that the change made."""

    folder: Path
    base: _Built
    rows: list[Row]
    version: int


def faults_of(table: FeatureTable, cell: Cell) -> Iterator[str]:
    """What is wrong with a cell, or other than the table declares."""
    yield from cell.problems
    verb = cell.operation.split()[0]
    if cell.operation == BAD_APPENDS or cell.problems:
        return
    if cell.operation == UNDO_OF_SPARK:
        verb = UNDO_OF_SPARK
    wanted = table.refuses.get(verb)
    if (cell.outcome is Outcome.REFUSED) != (wanted is not None):
        yield f"declared as {'refused' if wanted else 'done'}, and it is {cell.outcome.value} {cell.message}"
    elif wanted is not None and wanted not in cell.message:
        yield f"refused for another reason than {wanted!r}: {cell.message}"
    if cell.undo is None:
        return
    wanted = table.refuses.get(f"undo {verb}")
    if (cell.undo is Outcome.REFUSED) != (wanted is not None):
        yield f"undo declared as {'refused' if wanted else 'done'}, and it is {cell.undo.value} {cell.undo_message}"
    elif wanted is not None and wanted not in cell.undo_message:
        yield f"undo refused for another reason than {wanted!r}: {cell.undo_message}"


class Matrix:
    """The cells over one Spark session; `home` takes the tables."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self._home = home
        self._built: dict[tuple[str, str], _Built] = {}
        self._count = 0

    @contextlib.contextmanager
    def quick(self) -> Iterator[None]:
        """Settings for tiny tables: to compile a query takes longer than to run it."""
        settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "1"}
        settings |= {"spark.databricks.delta.snapshotPartitions": "1", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
        before = {key: self._spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            self._spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                self._spark.conf.unset(key) if old is None else self._spark.conf.set(key, old)

    def cell(self, table: FeatureTable, operation: Operation) -> Cell:
        """Try the change on a copy of the table."""
        with self.quick():
            return self._cell(table, operation)

    def undo_of_spark(self, table: FeatureTable) -> Cell:
        """Undo an append of Spark, and a DELETE where the table is checked further."""
        cell = Cell(table.name, UNDO_OF_SPARK)
        with self.quick():
            base = self.built(table, PLAIN)
            cell.engines = base.engines
            if "collations" in base.log.features:  # Spark writes no such table
                cell.outcome = Outcome.NOTHING
                return cell
            folder = self._copy(base.folder)
            self._take_back(cell, table, base, folder, lambda: table.insert_later(self._spark, folder, _LATER))
            if table.is_asked_more:
                delete = f"DELETE FROM delta.`{folder}` WHERE id = 2"
                self._take_back(cell, table, base, folder, lambda: self._spark.sql(delete))
        return cell

    def _take_back(
        self, cell: Cell, table: FeatureTable, base: _Built, folder: Path, change: Callable[[], object]
    ) -> None:
        change()
        before = table_bytes(folder)
        try:
            gl.open(str(folder)).plan_undo(Log.of(folder).version).apply(spark=self._spark)
        except GeolakeError as error:
            cell.outcome, cell.message = Outcome.REFUSED, f"{type(error).__name__}: {error}"
            cell.problems += _changed_bytes(before, table_bytes(folder))
            return
        log = Log.of(folder)
        cell.problems += [*log.problems(), *self._wrong_rows(folder, log, base, base.rows)]
        if self._row_ids(folder, log) != base.row_ids:
            cell.problems.append("the row ids are others")
        if log.domains.keys() != base.log.domains.keys():
            cell.problems.append(f"the domains are {sorted(log.domains)}")
        cell.problems += self._not_refused(folder, table)
        marks = [_highest_identity(Log.of(base.folder)), _highest_identity(log)]
        if table.columns.get("seq") and marks[0] == marks[1]:
            cell.problems.append(f"the identity column will give out a number again: its high-water mark is {marks[1]}")

    def _cell(self, table: FeatureTable, operation: Operation) -> Cell:
        base = self.built(table, operation.variant)
        cell = Cell(table.name, operation.name, engines=base.engines)
        folder = self._copy(base.folder)
        before = table_bytes(folder)
        report = None
        try:
            report = operation.run(self._spark, folder, table)
        except GeolakeError as error:
            cell.outcome, cell.message = Outcome.REFUSED, f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001
            cell.outcome, cell.problems = Outcome.WRONG, [f"{type(error).__name__}: {str(error)[:300]}"]
        if report is None or report.version is None:
            if report is not None:
                cell.outcome = Outcome.NOTHING
            cell.problems += _changed_bytes(before, table_bytes(folder))
            return cell
        expected = self._after(base, table, operation)
        cell.problems += self._problems(_After(folder, base, expected, report.version), table, operation)
        cell.problems += self._goes_on(folder, table, operation, expected)
        self._undo(cell, report, _After(folder, base, expected, report.version), table)
        return cell

    def bad_appends(self, table: FeatureTable) -> Cell:
        """Try to add each row that breaks the rule, once Spark has refused it too."""
        with self.quick():
            return self._bad_appends(table)

    def _bad_appends(self, table: FeatureTable) -> Cell:
        base = self.built(table, PLAIN)
        cell = Cell(table.name, BAD_APPENDS, Outcome.REFUSED)
        for label, broken in table.bad.items():
            folder = self._copy(base.folder)
            frame = new_rows(self._spark, table, PLAIN, broken=broken, later=True)
            if self._inserted(folder, frame) is None:
                cell.problems.append(f"{label}: Spark itself takes the row")
            before = table_bytes(folder)
            try:
                gl.write(frame, str(folder), mode="append", spark=self._spark)
                cell.problems.append(f"{label} was added")
            except GeolakeError as error:
                cell.message = f"{type(error).__name__}: {error}"
            except Exception as error:  # noqa: BLE001
                cell.problems.append(f"{label}: {type(error).__name__}: {str(error)[:300]}")
            cell.problems += _changed_bytes(before, table_bytes(folder))
        return cell

    def built(self, table: FeatureTable, variant: str) -> _Built:
        """The table, made once, and what each engine reads in it."""
        key = table.name, variant
        if key not in self._built:
            folder = self._home / f"{re.sub(r'[^A-Za-z0-9]+', '_', table.name)}_{variant}"
            table.build(self._spark, folder, variant)
            log = Log.of(folder)
            rows = self._by_name(folder, log)
            assert len(rows) >= len(ROWS) - 1
            engines = ["Spark"]
            for engine in ENGINES:
                if engine != "Spark":
                    with contextlib.suppress(Exception):
                        if self._rows(engine, folder, log) == _projected(rows, _columns(engine, log)):
                            engines.append(engine)
            self._built[key] = _Built(folder, log, rows, tuple(engines), self._row_ids(folder, log))
        return self._built[key]

    def _after(self, base: _Built, table: FeatureTable, operation: Operation) -> list[Row]:
        """The rows that the table must have: those that Spark's own INSERT of the same rows leads to."""
        if not operation.changes_rows:
            return base.rows
        folder = self._copy(base.folder)
        if "collations" in base.log.features:  # nobody else can write these
            frame = new_rows(self._spark, table, operation.variant, later=True)
            shown = frame.withColumn("g", frame["shape"]) if operation.variant == GEO else frame
            return [*base.rows, *_plain_rows(shown.toArrow().to_pylist())]
        error = self._inserted(folder, new_rows(self._spark, table, operation.variant, later=True))
        assert error is None, error
        return self._by_name(folder, Log.of(folder))

    def _inserted(self, folder: Path, frame: Any) -> str | None:
        """Why Spark refuses the rows, `None` where it has added them."""
        names = ", ".join(frame.columns)
        frame.coalesce(1).createOrReplaceTempView("matrix_rows")
        try:
            self._spark.sql(f"INSERT INTO delta.`{folder}` ({names}) SELECT {names} FROM matrix_rows")
        except Exception as error:  # noqa: BLE001
            return str(error)
        return None

    def _problems(self, after: _After, table: FeatureTable, operation: Operation) -> Iterator[str]:
        """What is wrong after a change."""
        folder, base, expected, version = after.folder, after.base, after.rows, after.version
        log = Log.of(folder)
        yield from log.problems()
        yield from self._wrong_rows(folder, log, base, expected, operation)
        if not base.log.features <= log.features | _implied(log):
            yield f"the features {sorted(base.log.features - log.features)} are gone"
        old, new = rule_text(base.log), rule_text(log)
        if operation.name == "enable":  # says that the statistics reach the geo column
            new["configuration"].pop("delta.dataSkippingNumIndexedCols", None)
            old["configuration"].pop("delta.dataSkippingNumIndexedCols", None)
        yield from (f"{key} was {old[key]} and is {new[key]}" for key in old if old[key] != new[key])
        changes = {
            action[kind]["dataChange"]
            for action in log.commits[version]
            for kind in ("add", "remove")
            if kind in action
        }
        if changes - {operation.changes_rows}:
            yield f"dataChange is {changes}"
        added = {row["id"] for row in expected} - {row["id"] for row in base.rows}
        yield from self._wrong_feed(folder, log, version, {"insert": added} if added else {})
        if not operation.changes_rows and self._row_ids(folder, log) != base.row_ids:
            yield "the row ids are others"
        yield from self._lost_by_filters(folder, expected)
        if table.holds:
            frame = self._spark.read.format("delta").load(str(folder))
            try:
                if frame.where(f"NOT ({table.holds})").count():
                    yield f"rows break the rule {table.holds}"
            except Exception as error:  # noqa: BLE001
                yield f"the rule {table.holds} cannot be asked any more: {str(error)[:200]}"

    def _wrong_rows(
        self, folder: Path, log: Log, base: _Built, expected: list[Row], operation: Operation | None = None
    ) -> Iterator[str]:
        opens_less = log.features - base.log.features  # an irreversible step that was confirmed
        for engine in base.engines:
            try:
                actual = self._rows(engine, folder, log)
            except Exception as error:  # noqa: BLE001
                if engine != "Spark" and opens_less and operation is not None and operation.changes_schema:
                    continue
                if engine == "deltalake" and "geospatial" in opens_less:
                    continue
                yield f"{engine} cannot read it any more: {str(error)[:200]}"
                continue
            wanted = _projected(expected, _columns(engine, log))
            if actual != wanted:
                missing = [row for row in wanted if row not in actual]
                more = [row for row in actual if row not in wanted]
                yield f"{engine} lacks {str(missing[:2])[:300]} and has {str(more[:2])[:300]}"

    def _wrong_feed(self, folder: Path, log: Log, version: int, wanted: dict[str, set[int]]) -> Iterator[str]:
        """Whether the change data feed of a version has other rows than those that changed."""
        if log.properties.get("delta.enableChangeDataFeed") != "true":
            return
        reader = self._spark.read.format("delta").option("readChangeFeed", "true")
        frame = reader.option("startingVersion", version).option("endingVersion", version).load(str(folder))
        changes: dict[str, set[int]] = {}
        for row in frame.select("_change_type", "id").collect():
            changes.setdefault(row[0], set()).add(row[1])
        if changes != wanted:
            yield f"the change data feed of version {version} has {changes} instead of {wanted}"

    def _lost_by_filters(self, folder: Path, rows: list[Row]) -> Iterator[str]:
        """Whether Spark finds rows by values of their own, with the statistics as they are now."""
        frame = self._spark.read.format("delta").load(str(folder))
        for row in rows[-1:]:
            matches = frame.where(f"id = {row['id']} AND name = '{row['name'].strip()}' AND n >= {row['n']}").count()
            if matches != 1:
                yield f"a filter for the row {row['id']} finds {matches}"

    def _goes_on(self, folder: Path, table: FeatureTable, operation: Operation, expected: list[Row]) -> Iterator[str]:
        """Whether Spark enforces the rule and writes as before: on a copy, of which it makes a checkpoint too."""
        if "collations" in Log.of(folder).features:  # Spark writes no such table
            return
        copy = self._copy(folder)
        t = f"delta.`{copy}`"
        yield from self._not_refused(copy, table)
        frame = new_rows(self._spark, table, operation.variant, _LATER, later=True)
        if operation.name == "enable":
            frame = frame.withColumn("shape", expr("st_setsrid(st_geomfromwkb(shape), 4326)"))
        error = self._inserted(copy, frame)
        if error is not None:
            yield f"Spark cannot add rows: {error[:300]}"
            return
        gone: set[int] = set()
        if table.is_asked_more:
            self._spark.sql(f"DELETE FROM {t} WHERE id = 1")
            gone = {1}
            jvm: Any = self._spark._jvm
            jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._spark._jsparkSession, str(copy)).checkpoint()
        after = Log.of(copy)
        yield from (f"after Spark's writes: {problem}" for problem in after.problems())
        rows = self._by_name(copy, after)
        ids = sorted(row["id"] for row in rows)
        wanted = sorted({row["id"] for row in expected} - gone | {row_[0] for row_ in _LATER})
        if ids != wanted:
            yield f"after Spark's writes the ids are {ids} and not {wanted}"
        if sum(gl.open(str(copy)).files.table["rows"].to_pylist()) != len(wanted):
            yield "after Spark's writes we count other rows"
        if "seq" in table.columns and len({row["seq"] for row in rows}) != len(rows):
            yield f"identity values are there twice: {sorted(row['seq'] for row in rows)}"

    def _not_refused(self, folder: Path, table: FeatureTable) -> Iterator[str]:
        for statement, message in table.refused_by_spark.items():
            try:
                self._spark.sql(statement.format(t=f"delta.`{folder}`"))
                yield f"Spark no longer refuses: {statement}"
            except Exception as error:  # noqa: BLE001
                if message.lower() not in str(error).lower():
                    yield f"{statement}: {str(error)[:200]}"

    def _undo(self, cell: Cell, report: Report, after: _After, table: FeatureTable) -> None:
        folder, base = after.folder, after.base
        before = table_bytes(folder)
        cell.undo = Outcome.DONE
        try:
            undone = report.undo(spark=self._spark)
        except GeolakeError as error:
            cell.undo, cell.undo_message = Outcome.REFUSED, f"{type(error).__name__}: {error}"
            cell.problems += [f"undo: {problem}" for problem in _changed_bytes(before, table_bytes(folder))]
            return
        except Exception as error:  # noqa: BLE001
            cell.undo = Outcome.WRONG
            cell.problems.append(f"undo: {type(error).__name__}: {str(error)[:300]}")
            return
        log = Log.of(folder)
        problems = [*log.problems(), *self._wrong_rows(folder, log, base, base.rows)]
        old, new = rule_text(base.log), rule_text(log)
        problems += [f"{key} was {old[key]} and is {new[key]}" for key in old if old[key] != new[key]]
        if log.schema != base.log.schema:
            problems.append("the schema is another")
        if log.adds.keys() != base.log.adds.keys():
            problems.append("the files are others")
        gone = {row["id"] for row in after.rows} - {row["id"] for row in base.rows}
        assert undone.version is not None
        problems += self._wrong_feed(folder, log, undone.version, {"delete": gone} if gone else {})
        if self._row_ids(folder, log) != base.row_ids:
            problems.append("the row ids are others")
        if "collations" not in log.features:
            problems += self._not_refused(folder, table)
        cell.problems += [f"undo: {problem}" for problem in problems]

    def _rows(self, engine: str, folder: Path, log: Log) -> list[tuple[Any, ...]]:
        return read_rows(engine, self._spark, folder, _columns(engine, log))

    def _by_name(self, folder: Path, log: Log) -> list[Row]:
        """The rows that Spark reads, by the names of the columns."""
        return [dict(zip(_columns("Spark", log), row, strict=True)) for row in self._rows("Spark", folder, log)]

    def _row_ids(self, folder: Path, log: Log) -> list[tuple[int, int]]:
        if log.properties.get("delta.enableRowTracking") != "true":
            return []
        frame = self._spark.read.format("delta").load(str(folder)).selectExpr("id", "_metadata.row_id AS r")
        return sorted((row["id"], row["r"]) for row in frame.collect())

    def _copy(self, folder: Path) -> Path:
        self._count += 1
        copy = self._home / f"cell_{self._count}"
        shutil.copytree(folder, copy)
        return copy


def _columns(engine: str, log: Log) -> list[str]:
    """The columns that an engine can be asked for, the id first."""
    partitions = log.metadata["partitionColumns"]
    chosen = []
    for column in log.schema["fields"]:
        kind = str(column["type"])
        if engine != "Spark" and kind == "variant":
            continue
        if engine == "DuckDB" and (column["name"] in partitions or kind.startswith("geo")):
            continue
        chosen.append(column["name"])
    return chosen


def _projected(rows: Any, columns: list[str]) -> Any:
    """Spark's rows as another engine should have them."""
    return sorted((tuple(row[name] for name in columns) for row in rows), key=repr)


def _plain_rows(rows: list[Row]) -> list[Row]:
    from tests.no_row_lost.feature_engines import plain_value

    return [{name: plain_value(value) for name, value in row.items()} for row in rows]


def _highest_identity(log: Log) -> int | None:
    marks = [field["metadata"].get("delta.identity.highWaterMark") for field in log.schema["fields"]]
    return next((mark for mark in marks if mark is not None), None)


def _implied(log: Log) -> set[str]:
    return set() if log.protocol.get("minWriterVersion") == 7 else {"appendOnly", "invariants"}


def _changed_bytes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What a refusal must not touch: the log, the data, and no hidden folder of ours stays behind."""
    changed = sorted(path for path, digest in before.items() if after.get(path) != digest)
    more = sorted(path for path in after.keys() - before.keys() if "_delta_log/" in path or path.startswith("_geolake"))
    return [f"refused, and {path} has changed" for path in (*changed, *more)]
