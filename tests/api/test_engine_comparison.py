from __future__ import annotations

import importlib.util
import json
import os
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api import engine_readers, engine_runs
from geolake_nb.errors import GeolakeError, MissingFileError, NoGeoColumnError, PredicateError
from geolake_nb.model.box import Box
from geolake_nb.model.table_format import AS_OF, Answer
from geolake_nb.parquet.schema import to_arrow_type
from tests import small_tables
from tests.api.lying_tables import IN_WINDOW, WINDOW, points, shrink_box, shrink_covering, write_covered, write_points
from tests.heavy.scan_answers import draw_filter
from tests.jupyter.html_reading import text_of
from tests.scan.row_oracle import to_predicate
from tests.scan.scan_tables import WRITERS, random_rows

WITHOUT_SPARK = ("geolake", "sedonadb", "duckdb", "deltalake", "pyiceberg", "geopandas")


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return write_points(tmp_path_factory.mktemp("right") / "t")


@pytest.fixture(scope="module")
def lying(tmp_path_factory):
    folder = write_points(tmp_path_factory.mktemp("lying") / "t")
    shrink_box(folder / "part-1.parquet", 2, Box(27.3, 0, 27.375, 9))  # of points from 25.125 on
    return folder


@pytest.fixture(scope="module")
def covered(tmp_path_factory):
    return write_covered(tmp_path_factory.mktemp("covered") / "t")


def ask(folder, where, **options):
    return gl.open(str(folder)).compare_engines(where, **{"engines": WITHOUT_SPARK, **options})


def counts_of(comparison, engine):
    """The rows, those lost and those too many of an engine, by whether it skipped."""
    runs = [run for run in comparison if run.engine.startswith(engine)]
    return {run.skipping: (run.rows, run.lost, run.extra) for run in runs}


def test_the_window_of_these_tests_holds_so_many_points():
    inside = [shapely.intersects(points(number), shapely.box(23.25, 0, 27.25, 10)).sum() for number in range(3)]
    assert inside == [0, IN_WINDOW, 0]


def test_engines_agree_on_good_files(right):
    answer = ask(right, WINDOW)
    assert answer.agree
    assert answer.rows == IN_WINDOW
    assert answer.rows_read == 120
    assert (answer.files, answer.row_groups) == (3, 12)
    for engine in ("geolake", "SedonaDB", "DuckDB"):
        right_answer = (IN_WINDOW, 0, 0)
        assert counts_of(answer, engine) == {True: right_answer, False: right_answer}
    assert answer.verdicts == (f"3 engines answered, and each returns the {IN_WINDOW} rows of the full read.",)


def test_every_engine_that_loses_a_row_by_a_box_that_is_too_small_is_named(lying):
    answer = ask(lying, WINDOW)
    names = {run.engine.split()[0]: run.engine for run in answer}
    for engine in ("geolake", "SedonaDB", "DuckDB"):
        # Nine of the ten points in the row group lie in the window.
        assert counts_of(answer, engine) == {True: (IN_WINDOW - 9, 9, 0), False: (IN_WINDOW, 0, 0)}
        assert f"{names[engine]} loses 9 of {IN_WINDOW} rows when it skips by bounds." in answer.faults
    assert not answer.agree
    command = f"geolake repair {lying} --verify"
    assert answer.verdicts[3] == f"Bounds are wrong: `{command}` corrects all but those of a bbox column."


def test_engines_that_skip_by_a_covering_are_named_and_the_others_are_not(covered, tmp_path):
    assert ask(covered, WINDOW).agree
    folder = write_covered(tmp_path / "t")
    shrink_covering(folder / "part-1.parquet", range(20, 30), Box(22, 0, 22.5, 10))
    answer = ask(folder, WINDOW)
    lost = {run.engine.split()[0] for run in answer if run.lost and run.skipping}
    assert {"GeoPandas", "SedonaDB", "geolake"} == lost
    assert counts_of(answer, "GeoPandas") == {True: (IN_WINDOW - 9, 9, 0), False: (IN_WINDOW, 0, 0)}
    assert counts_of(answer, "DuckDB") == {True: (IN_WINDOW, 0, 0), False: (IN_WINDOW, 0, 0)}


def test_an_engine_that_takes_a_geography_for_a_plane_is_named(tmp_path):
    # The great circle from 0 to 90 degrees east runs to the north of 59 degrees, far from the parallel.
    arc = shapely.LineString([(0, 50), (90, 50)])
    values = to_arrow_type(gl.geography()).wrap_array(pa.array([shapely.to_wkb(arc)], pa.binary()))
    pq.write_table(pa.table({"geog": values}), tmp_path / "a.parquet")
    answer = ask(tmp_path, (44, 57, 46, 60))
    assert answer.rows == 1
    assert counts_of(answer, "geolake") == counts_of(answer, "SedonaDB") == {True: (1, 0, 0), False: (1, 0, 0)}
    [duckdb] = {run.engine for run in answer if run.engine.startswith("DuckDB")}
    assert answer.faults == (f"{duckdb} loses 1 of 1 row, with its skipping and without.",)
    assert not answer.bounds_lie


def test_rows_that_a_coarse_filter_returns_too_many_are_tested_before_they_are_compared(covered):
    triangle = shapely.Polygon([(23.25, 0), (27.25, 0), (23.25, 10)])
    answer = ask(covered, triangle)
    assert answer.agree
    for engine in ("GeoPandas", "DuckDB"):
        run = next(run for run in answer if run.engine.startswith(engine) and run.skipping)
        assert run.returned == IN_WINDOW > run.rows == answer.rows


@pytest.mark.parametrize("make", ["parquet", "delta", "iceberg", "havasu"])
@pytest.mark.parametrize("where", [(9, 49, 11.5, 52), None])
def test_all_engines_that_open_a_good_table_agree(tmp_path, make, where):
    folder = getattr(small_tables, f"make_{make}")(tmp_path / "t")
    answer = ask(folder, where)
    assert answer.rows == (12 if where is None else 2)
    assert answer.agree, answer.verdicts
    answered = {run.engine.split()[0] for run in answer if run.problem is None}
    assert answered == {"geolake", "SedonaDB"} | ({"DuckDB"} if make == "parquet" else set())
    silent = {who.split()[0]: why for who, why, _ in answer.unanswered}
    if make == "delta":
        assert "geometry" in silent["deltalake"]
        assert silent["DuckDB"] == "its extension delta is not installed"


@pytest.mark.parametrize(
    "where",
    [
        "id > 50 AND name = 'n3'",
        "id IN (3, 4, 77) OR ST_Within(geom, ST_MakeEnvelope(23.25, 0, 27.25, 10))",
        "NOT ST_Intersects(geom, ST_MakeEnvelope(23.25, 0, 27.25, 10)) AND name <> 'n3'",
        "geom IS NOT NULL AND NOT (id < 50 AND ST_Touches(geom, ST_MakeEnvelope(0, 0, 5, 5)))",
        "name < 'n2' AND name >= 'n1'",
    ],
)
def test_filters_of_all_kinds_agree(right, where):
    assert ask(right, where).agree


@pytest.mark.parametrize("form", WRITERS)
def test_random_filters_find_what_the_oracle_finds_and_no_engine_is_named_for_nothing(tmp_path, form, monkeypatch):
    monkeypatch.setattr(engine_runs, "_TWICE", 0.0)
    draw = random.Random(f"engines {form}")
    with np.errstate(invalid="ignore"):  # of vertices that are not a number
        made = WRITERS[form](draw, tmp_path / "t", random_rows(draw))
        queries = [draw_filter(draw, made) for _ in range(8)]
        answers = made.full.answers(queries)
        table = gl.open(made.location)
        for node, (expected, undecided) in zip(queries, answers, strict=True):
            if undecided:
                continue
            # SedonaDB's own reader panics on files that lack a column.
            engines = ["geolake", "duckdb"] if form == "parquet" else ["geolake", "sedonadb"]
            answer = table.compare_engines(to_predicate(node), engines=engines)
            assert answer.rows == len(expected)
            assert answer.faults == ()


def test_an_engine_that_returns_wrong_rows_is_named(right, monkeypatch):
    class Wrong(engine_readers.GeolakeReader):
        def rows(self, *, skip):
            rows = super().rows(skip=skip)
            return rows.set_column(0, "id", pa.array(range(len(rows)), pa.int64())) if skip else rows

    entry = engine_readers.Engine("geolake", "geolake", "geolake_nb", "geolake-nb", ("parquet",), Wrong)
    monkeypatch.setattr(engine_runs, "ENGINES", (entry,))
    answer = ask(right, WINDOW, engines=None)
    who = entry.title
    assert answer.faults == (
        f"{who} loses {IN_WINDOW} of {IN_WINDOW} rows when it skips by bounds.",
        f"{who} has {IN_WINDOW} rows that the full read does not have when it skips by bounds.",
    )


def test_an_engine_that_is_not_installed_or_fails_says_why(right, monkeypatch):
    def fails(question, spark):
        raise OSError("IO Error: no s3://me:secret@lake/a?sig=abc here. Try again.\nlong story")

    missing = engine_readers.Engine("a", "Missing", "no_such_module", "missing-db", ("parquet",), fails)
    failing = engine_readers.Engine("b", "Failing", "geolake_nb", "geolake-nb", ("parquet",), fails)
    monkeypatch.setattr(engine_runs, "ENGINES", (missing, failing))
    answer = ask(right, WINDOW, engines=None)
    assert [why for _, why, _ in answer.unanswered] == [
        "not installed: pip install missing-db",
        "IO Error: no s3://lake/a?... here.",
    ]
    assert answer.verdicts == ("No engine answered.",)


def test_spark_is_asked_only_in_a_session_that_runs(right, monkeypatch):
    monkeypatch.setattr("geolake_nb.spark.session.running_session", lambda spark: None)
    [run] = ask(right, WINDOW, engines=["spark"])
    assert run.problem == "no Spark session is running; pass spark=gl.session()"


def test_odd_tables(tmp_path):
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 2, None, 4]), "x": [1.0, np.nan, 2.0, None]}), path)
    assert ask(path, "id > 1").rows == 2
    assert ask(path, "x > 1.5").agree  # NaN is above all numbers
    with pytest.raises(NoGeoColumnError):
        ask(path, (0, 0, 1, 1))
    with pytest.raises(PredicateError, match="no column 'idd'"):
        ask(path, "idd > 1")
    with pytest.raises(GeolakeError, match="unknown engine 'duk'"):
        ask(path, "id > 1", engines=["duk"])
    with pytest.raises(MissingFileError):
        gl.open(str(tmp_path / "nowhere"))
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), path)
    answer = ask(path, "id > 1")
    assert (answer.rows, answer.rows_read, answer.agree) == (0, 0, True)


def test_values_that_cannot_be_read_are_counted_and_in_no_answer(tmp_path):
    folder = write_covered(tmp_path / "t", files=1)
    shrink_covering(folder / "part-0.parquet", [0], Box(0, 0, 1, 1))
    table = pq.read_table(folder / "part-0.parquet", arrow_extensions_enabled=False)
    broken = pa.array([b"\x01\x02", *table["geometry"].to_pylist()[1:]], pa.binary())
    pq.write_table(table.set_column(1, "geometry", broken), folder / "part-0.parquet")
    answer = ask(folder, (0, 0, 1, 10), engines=["geolake"])
    assert (answer.rows, answer.unreadable, answer.agree) == (3, {"geometry": 1}, True)
    assert "1 geometry cannot be read" in " ".join(str(answer).split())


def test_the_text_fits_and_the_card_escapes_what_the_table_says(lying, tmp_path):
    folder = write_points(tmp_path / "<b>t & $x$", files=1)
    answer = ask(folder, "name = '<script>alert(1)</script>'")
    html = answer._repr_html_()
    assert "<script>" not in html
    assert "<b>t" not in html
    assert "<script>alert(1)</script>" in text_of(html)
    lines = str(ask(lying, WINDOW)).splitlines()
    extra = len(os.fspath(lying))
    assert max(map(len, lines)) <= 100 + extra
    assert lines[1].split() == ["where", "ST_Intersects(geom,", "ST_MakeEnvelope(23.25,", "0,", "27.25,", "10))"]
    duckdb = [line.split() for line in lines if line.strip().startswith("DuckDB") and " off " in line]
    assert [words[2:7] for words in duckdb] == [["off", "16", "16", "0", "0"]]


def test_the_comparison_is_plain_data(right):
    answer = ask(right, WINDOW)
    data = json.loads(json.dumps(answer.to_dict()))
    assert [run["engine"] for run in data["engines"]] == [run.engine for run in answer]
    assert {run["agrees"] for run in data["engines"]} == {True, None}
    frame = answer.to_pandas()
    assert len(frame) == len(answer) == len(data["engines"])
    assert frame["lost"].dropna().eq(0).all()


def test_what_is_recorded_stands_beside_what_was_measured(right, monkeypatch):
    answer = ask(right, WINDOW)
    recorded = {run.engine.split()[0]: run.recorded for run in answer}
    assert recorded["DuckDB"] == recorded["SedonaDB"] == "reads, skips by bounds"
    assert {fact.engine for fact in answer.facts} == {"DuckDB 2.0", "SedonaDB 0.5"}
    facts = tuple(replace(fact, reads=Answer.NO) for fact in answer.facts if fact.engine.startswith("DuckDB"))
    monkeypatch.setattr(engine_runs, "engine_facts", lambda snapshot: facts)
    [duckdb] = {run.engine for run in answer if run.engine.startswith("DuckDB")}
    statement = f"The engine table of {AS_OF} says that DuckDB 2.0 cannot read the table, and {duckdb} reads it."
    assert statement in ask(right, WINDOW).notes


def test_every_engine_has_a_module_that_could_be_installed():
    assert all(importlib.util.find_spec(engine.module) for engine in engine_readers.ENGINES)
    assert [engine.key for engine in engine_readers.ENGINES] == [*WITHOUT_SPARK, "spark"]
