"""Asks several engines for the rows of one query, and compares these with a full read that shapely tests."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.api.engine_comparison import EngineComparison, EngineRun, fact_of, recorded_text
from geolake_nb.api.engine_question import Question
from geolake_nb.api.engine_readers import ENGINES
from geolake_nb.errors import GeolakeError, MissingDependencyError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.filter_input import read_filter
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.file_statistics import with_versions_of
from geolake_nb.scan.row_comparison import row_difference
from geolake_nb.text.messages import SECRET_NAME, printable, shortened, url_without_secrets, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from geolake_nb.api.engine_readers import Engine, EngineReader
    from geolake_nb.api.table import Table
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.model.crs import Crs, CrsLike
    from geolake_nb.text.messages import Progress

__all__ = ["compare_engines"]

_TWICE = 30.0
"""A run that takes less is repeated, so that its time is not that of a start."""
_MAX_ROWS = 2_000_000
_MAX_REASON = 200
_MAX_FILTER = 4000
_SENTENCE = re.compile(r"(?<=[.!?])\s")


def compare_engines(
    table: Table,
    where: FilterInput | None,
    *,
    column: str | None = None,
    box_crs: str | Crs | CrsLike | None = None,
    engines: Sequence[str] | None = None,
    spark: SparkSession | None = None,
    on_progress: Progress | None = None,
) -> EngineComparison:
    """The comparison; see `Table.compare_engines`."""
    chosen = _chosen(engines)
    question = _question(table, where, column, box_crs, spark)
    asked = [engine for engine in chosen if question.format in engine.formats or engines is not None]
    step = _steps(on_progress, len(asked) + 1)
    started = time.perf_counter()
    expected, rows_read, truth = _full_read(question)
    seconds = time.perf_counter() - started
    step()
    facts = engine_facts(table.snapshot)
    runs: list[EngineRun] = []
    for engine in asked:
        fact = fact_of(engine.title, facts)
        runs += _runs(engine, question, expected, spark, None if fact is None else recorded_text(fact))
        step()
    known = [fact_of(engine.title, facts) for engine in asked]
    return EngineComparison(
        table.location,
        None if question.where is None else shortened(str(question.where), _MAX_FILTER),
        expected.num_rows,
        rows_read,
        seconds,
        truth.files,
        truth.row_groups,
        truth.unreadable,
        question.is_spatial,
        tuple(runs),
        tuple(fact for fact in known if fact is not None),
    )


@dataclass(slots=True)
class _Amounts:
    files: int = 0
    row_groups: int = 0
    unreadable: dict[str, int] = field(default_factory=dict)


def _chosen(names: Sequence[str] | None) -> list[Engine]:
    if names is None:
        return list(ENGINES)
    known = {engine.key: engine for engine in ENGINES}
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            raise GeolakeError(f"unknown engine {printable(str(name), 60)!r}", remedy=f"use: {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(wanted)]


def _question(
    table: Table,
    where: FilterInput | None,
    column: str | None,
    box_crs: str | Crs | CrsLike | None,
    spark: SparkSession | None,
) -> Question:
    from geolake_nb.spark.collations import collator_of

    schema = table.scan().schema
    if where is None:
        return Question(table, None, None, schema)
    with table._with_wkb_hint():
        predicate = read_filter(where, table.schema, column=column, box_crs=box_crs, location=table.location)
        bound = bind(predicate, table.schema)
    collator = collator_of(spark)
    return Question(
        table, predicate, bound if collator is None else with_versions_of(bound, collator), schema, collator
    )


def _full_read(question: Question) -> tuple[pa.Table, int, _Amounts]:
    """The rows of the answer without any statistics: every row of every file, tested by shapely."""
    scan = question.table.scan()
    exact = question.filter()
    kept: list[pa.RecordBatch] = []
    rows = matching = 0
    for batch in scan.to_batches():
        rows += len(batch)
        kept.append(batch if exact is None else batch.filter(pa.array(exact.keep(batch))))
        matching += len(kept[-1])
        if matching > _MAX_ROWS:
            raise GeolakeError(
                f"more than {_MAX_ROWS:,} rows match, too many to compare row by row",
                where=question.table.location,
                remedy="give a filter that matches fewer rows",
            )
    unreadable = {} if exact is None else exact.unreadable
    amounts = _Amounts(scan.metrics.files_total, scan.metrics.row_groups_total, unreadable)
    return pa.Table.from_batches(kept, scan.schema), rows, amounts


def _runs(
    engine: Engine, question: Question, expected: pa.Table, spark: SparkSession | None, recorded: str | None
) -> Iterator[EngineRun]:
    name = engine.title
    if not engine.is_installed:
        yield EngineRun(name, problem=f"not installed: pip install {engine.package}", recorded=recorded)
        return
    if question.format not in engine.formats:
        yield EngineRun(name, problem=f"it does not read {question.format} tables", recorded=recorded)
        return
    reader, problem = _attempt(lambda: engine.reader(question, spark), question)
    if reader is None:
        yield EngineRun(name, problem=problem, recorded=recorded)
        return
    name += f" ({reader.via})" if reader.via else ""
    can_skip = question.bound is not None and reader.switchable
    for skip in (True, False) if can_skip else (True,):
        shown = skip if can_skip else None
        run, problem = _attempt(lambda skip=skip: _run(name, reader, question, expected, skip=skip), question)  # type: ignore[misc]
        if run is None:
            yield EngineRun(name, shown, problem=problem, recorded=recorded)
            continue
        yield replace(run, skipping=shown, recorded=recorded)


def _run(name: str, reader: EngineReader, question: Question, expected: pa.Table, *, skip: bool) -> EngineRun:
    seconds: list[float] = []
    while not seconds or (len(seconds) < 2 and seconds[0] < _TWICE):
        started = time.perf_counter()
        returned = reader.rows(skip=skip)
        seconds.append(time.perf_counter() - started)
    rows = question.typed(returned)
    # Rows of the full read match: only the others have to be tested.
    lost, surplus = row_difference(expected, rows, shapes=question.shapes)
    extra = question.matching(rows.take(pa.array(surplus)))
    amount, _ = _attempt(lambda: reader.amount(skip=skip), question)
    files, row_groups = (None, None) if amount is None else amount
    return EngineRun(
        name,
        skip,
        rows.num_rows - len(surplus) + extra,
        returned.num_rows,
        lost,
        extra,
        min(seconds),
        files,
        row_groups,
        tuple(column for column in expected.column_names if column not in rows.column_names),
    )


def _attempt(ask: Callable[[], Any], question: Question) -> tuple[Any, str | None]:
    """What an engine answers, or its error in one sentence."""
    options = question.table._source.options
    known = [text for name, text in options.items() if SECRET_NAME.search(name)]
    try:
        return ask(), None
    except Exception as problem:  # noqa: BLE001 - each engine has errors of its own
        return None, _reason(problem, known)
    except BaseException as problem:
        # What Rust raises for a bug, for it is not an Exception.
        if type(problem).__name__ != "PanicException":
            raise
        return None, _reason(problem, known)


def _reason(problem: BaseException, known: Sequence[str] = ()) -> str:
    """The first sentence of an error.

    >>> _reason(ValueError("IO Error: no file s3://me:secret@lake/a. Try again.\\nmore"))
    'IO Error: no file s3://lake/a.'
    """
    if isinstance(problem, ModuleNotFoundError) and not isinstance(problem, MissingDependencyError):
        return f"not installed: it needs the package {problem.name}"
    lines = [line.strip().lstrip(": ") for line in str(problem).splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):  # by Java, which says why in the next line
        del lines[0]
    while "caused by" in lines[:-1]:  # by Rust, the cause last
        del lines[: lines.index("caused by") + 1]
    text = _SENTENCE.split(lines[0])[0] if lines else type(problem).__name__
    words = [url_without_secrets(word) if "://" in word else word for word in text.split()]
    return printable(without_secrets(" ".join(words), known), _MAX_REASON)


def _steps(on_progress: Progress | None, total: int) -> Callable[[], None]:
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(done, total)

    return step
