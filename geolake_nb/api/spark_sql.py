"""SQL over tables by Spark: spatial conditions with literals skip files and row groups, and Spark does the rest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError, PredicateError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.predicate import And, Not, Predicate, Spatial, st_intersects
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import GeometryType
from geolake_nb.text.messages import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from geolake_nb.api.scan import Scan
    from geolake_nb.api.table import Table

__all__ = ["run_on_spark"]

_WITH = re.compile(r"\s*WITH\b(?!\s+RECURSIVE\b)", re.IGNORECASE)


def run_on_spark(
    query: str, tables: Mapping[str, Table], session: SparkSession | None
) -> tuple[Callable[[], pa.Table], Mapping[str, Scan]]:
    """What runs the query, and the scan of each table by its name in the query."""
    from geolake_nb.spark import functions
    from geolake_nb.spark.data_source import marked_shapes
    from geolake_nb.spark.session import session_for

    spark = session_for(session)
    functions.register(spark)
    tree = _tree(query)
    scans = {name: _scan(name, table, tree) for name, table in tables.items()}
    frames: dict[str, Any] = {f"geolake_{number}": scan.to_spark(spark) for number, scan in enumerate(scans.values())}
    try:
        frame = spark.sql(_with_tables(query, dict(zip(scans, frames, strict=True))), **frames)
    except Exception as problem:  # noqa: BLE001 - of Spark, of Java or of a task
        raise _engine_error(problem, query) from None

    def run() -> pa.Table:
        try:
            return marked_shapes(frame.toArrow())
        except Exception as problem:  # noqa: BLE001 - as above
            raise _engine_error(problem, query) from None

    return run, scans


def _engine_error(problem: Exception, query: str) -> GeolakeError:
    from geolake_nb.spark.jobs import cause

    reason = cause(problem).partition("; line ")[0]
    return GeolakeError(f"Spark cannot run the query: {shortened(reason, 400)}", where=shortened(query, 80))


def _with_tables(query: str, frames: Mapping[str, str]) -> str:
    """The query with its tables as common table expressions, which hide views and tables of the session.

    >>> _with_tables("WITH a AS (SELECT 1) SELECT * FROM a, `b`", {"b": "geolake_0"})
    'WITH `b` AS (SELECT * FROM {geolake_0}), a AS (SELECT 1) SELECT * FROM a, `b`'
    """
    escaped = query.replace("{", "{{").replace("}", "}}")
    if not frames:
        return escaped
    named = ", ".join(f"`{name}` AS (SELECT * FROM {{{frame}}})" for name, frame in frames.items())
    head = _WITH.match(escaped)
    return f"WITH {named}, {escaped[head.end() :].lstrip()}" if head else f"WITH {named} {escaped}"


def _tree(query: str) -> Any:
    """The query as sqlglot reads it; `None` where it cannot, which skips nothing."""
    import sqlglot

    try:
        return sqlglot.parse_one(query, read="spark")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None


def _scan(name: str, table: Table, tree: Any) -> Scan:
    conditions = [] if tree is None else list(_conditions(name, table, tree))
    where = And(tuple(conditions)) if len(conditions) > 1 else (conditions[0] if conditions else None)
    return table.scan(where, columns=_columns(table, tree))


def _columns(table: Table, tree: Any) -> list[str] | None:
    """The columns that the query may need; `None` for all of them."""
    from sqlglot import exp

    if tree is None or any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return None
    if any(join.args.get("method") for join in tree.find_all(exp.Join)):  # NATURAL
        return None
    named = {identifier.name.lower() for identifier in tree.find_all(exp.Identifier)}
    fields = [field.name for field in table.schema.fields]
    return [field for field in fields if field.lower() in named] or fields[:1]


def _conditions(name: str, table: Table, tree: Any) -> Iterator[Predicate]:
    """What each row that the query takes of a table satisfies, as far as it relates a column to a literal geometry."""
    from sqlglot import exp

    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    sources = [source for source in tree.find_all(exp.Table) if source.name.lower() == name.lower()]
    if where is None or len(sources) != 1 or sources[0].find_ancestor(exp.Select) is not tree:
        return
    if any(join.side or join.kind in ("SEMI", "ANTI") for join in tree.args.get("joins") or ()):
        return
    alias = (sources[0].alias or name).lower()
    is_alone = sum(1 for _ in tree.find_all(exp.Table, exp.Subquery)) == 1
    for condition in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        columns = list(condition.find_all(exp.Column))
        if len(columns) != 1 or not (columns[0].table.lower() == alias or (is_alone and not columns[0].table)):
            continue
        predicate = _spatial(condition, columns[0], table)
        if predicate is not None:
            yield predicate


def _spatial(condition: Any, column: Any, table: Table) -> Predicate | None:
    """The condition as a predicate, or one that holds wherever it does."""
    from sqlglot import exp

    field = next((field for field in table.schema.fields if field.name.lower() == column.name.lower()), None)
    if field is None:
        return None
    plain = condition.copy()
    margin = _distance(plain)
    plain.find(exp.Column).replace(exp.column(exp.to_identifier(field.name, quoted=True)))
    if margin is not None:
        plain = exp.func("ST_Intersects", *plain.expressions[:2])
    try:
        predicate = parse_predicate(plain.sql(dialect=""))
        inner = predicate.operand if isinstance(predicate, Not) else predicate
        if not isinstance(inner, Spatial):
            return None
        bind(predicate, table.schema)
    except GeolakeError:
        return None
    if isinstance(field.type, GeometryType):
        given = None if inner.crs is None else Crs(inner.crs)
        if given is not None and not given.same_as(field.type.crs):
            raise PredicateError(
                f"the geometry is in {given.name}, and the column in {field.type.crs.name}",
                where=field.name,
                remedy="give it in the CRS of the column",
            )
    elif margin is not None:
        return None
    return predicate if margin is None else _near(inner, margin)


def _distance(condition: Any) -> float | None:
    """The distance of ST_DWithin(a, b, distance)."""
    from sqlglot import exp

    if not isinstance(condition, exp.Anonymous) or condition.name.upper() != "ST_DWITHIN":
        return None
    last = condition.expressions[-1] if len(condition.expressions) == 3 else None
    try:
        return float(last.this) if isinstance(last, exp.Literal) and not last.is_string else None
    except ValueError:
        return None


def _near(predicate: Spatial, distance: float) -> Predicate | None:
    """What holds for all geometries within a distance: their box meets a wider one."""
    import shapely

    xmin, ymin, xmax, ymax = shapely.from_wkb(predicate.geometry).bounds
    margin = distance + 1e-9 * max(1.0, *map(abs, (xmin, ymin, xmax, ymax)), distance)
    if not margin >= 0:
        return None
    return st_intersects(predicate.column, Box(xmin - margin, ymin - margin, xmax + margin, ymax + margin))
