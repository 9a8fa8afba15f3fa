"""No bound excludes a row: every writer of every format, read back from the bytes, by two oracles that must agree.

The heavy dose is `python -m tests.heavy.no_bound_excludes --count 1000000`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import geolake_nb as gl
from geolake_nb.core.schema import Schema
from geolake_nb.core.types import Field, GeometryType, PrimitiveType, StructType
from geolake_nb.formats.parquet.writer import Layout, ParquetWriter
from geolake_nb.formats.storage import Storage
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.heavy.no_bound_excludes import judge_all
from tests.oracle.wkb_write import point, write
from tests.promises.bound_writers import Rows, with_spark, without_spark
from tests.promises.corpus_bounds import judge_corpus
from tests.promises.row_extents import AGREE, SPHERICAL, Geographies, latitudes_differ
from tests.promises.written_bounds import NOTHING, Verdict, bounds_of_files, delta_bounds, live_files

# Rows with infinities and arcs that are lost in rounding have no bound, which is said.
pytestmark = pytest.mark.filterwarnings("ignore::geolake_nb.core.bounds.BadValueWarning")


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows(5, 1000)


@pytest.fixture(scope="module")
def tame_rows() -> Rows:
    return Rows(3, 1000)


def assert_sound(verdict: Verdict) -> None:
    """Nothing is left out, and bounds are there: of geometries, whose infinities take some away, on every level."""
    assert not verdict.problems, "\n".join(verdict.problems[:5])
    for level in {where.split(", ", 1)[1] for where in verdict.compared}:
        assert sum(count for where, count in verdict.compared.items() if where.endswith(f", {level}")), level
    for where, count in verdict.unbounded.items():
        assert count == 0 or where.endswith((", geom", ", ewkb", ", wkb")), where


def test_writers_that_need_no_spark(rows, tmp_path):
    verdict = Verdict()
    judge_all(rows, without_spark(rows, tmp_path), verdict)
    assert_sound(verdict)
    assert len({where.partition(",")[0] for where in verdict.compared}) == 3


@pytest.mark.spark
def test_writers_on_spark_give_every_file_its_bounds(tame_rows, tmp_path, spark):
    verdict = Verdict()
    judge_all(tame_rows, with_spark(tame_rows, tmp_path, spark), verdict)
    assert_sound(verdict)
    assert not any(verdict.unbounded.values()), verdict.unbounded
    assert all(verdict.compared.values()), verdict.compared
    assert {where.partition(",")[0] for where in verdict.compared} == {
        *(f"{verb} {form}" for verb in ("write", "rewrite") for form in ("delta", "havasu", "iceberg", "parquet")),
        *(f"convert to {form}" for form in ("delta", "havasu", "iceberg")),
        "enable Delta",
        "repair Delta by values",
        "repair Delta over boxes of pyarrow",
        "repair Delta over boxes of this package",
        "repair Havasu",
        "repair Iceberg",
    }


def test_real_files_that_were_mended(corpus, tmp_path):
    verdict = Verdict()
    done = judge_corpus(corpus, tmp_path, verdict)
    assert not verdict.problems, "\n".join(verdict.problems[:5])
    assert sum(word == "repaired" for word in done.values()) >= 34
    assert sum(verdict.compared.values()) > 5000
    assert sum(verdict.unbounded.values()) == 0


def test_a_side_that_is_one_bit_too_small_is_seen(rows, tmp_path):
    made = next(iter(without_spark(rows, tmp_path)))
    bounds = list(bounds_of_files(live_files(made.folder, made.form), made.columns))
    for level, column in (("row group", "geom"), ("row group", "sphere"), ("covering", "geom")):
        some = [
            one for one in bounds if (one.level, one.column) == (level, column) and np.isfinite(one.sides[:4]).all()
        ]
        truth = rows.truth[column]
        for side in (1, 3):
            wrong = Verdict()
            for one in some:
                low, high = truth.low[one.ids], truth.high[one.ids]
                ends = (low[:, 1], high[:, 1]) if column == "geom" else (low, high)
                if np.isnan(ends[0].astype(float)).all():
                    continue
                true = np.nanmin(ends[0]) if side == 1 else np.nanmax(ends[1])
                if not np.isfinite(true):
                    continue
                inside = np.nextafter(float(true), np.inf if side == 1 else -np.inf)
                sides = (*one.sides[:side], inside, *one.sides[side + 1 :])
                wrong.judge("moved", [replace(one, sides=sides)], {column: truth})
                assert any("leaves out" in problem for problem in wrong.problems), one
                break
            assert wrong.problems


def test_oracles_that_differ_are_seen():
    held = Geographies.make(1, 50)
    low, high = np.zeros(len(held.starts)), np.zeros(len(held.starts))
    apart = low + 2 * AGREE[SPHERICAL]
    assert not latitudes_differ(SPHERICAL, held.starts, held.ends, [(low, high), (low, high)], held.over)
    assert latitudes_differ(SPHERICAL, held.starts, held.ends, [(low, high), (apart, high)], held.over)


def test_half_a_box_and_rows_that_are_missing_are_seen(rows, tmp_path):
    *_, made = without_spark(rows, tmp_path)
    bounds = list(delta_bounds(made.folder, ("sphere",)))
    halved = [replace(bounds[0], sides=(bounds[0].sides[0], *NOTHING[1:])), *bounds[1:]]
    for wrong in (halved, bounds[1:]):
        verdict = Verdict()
        verdict.judge("broken", wrong, rows.truth)
        assert verdict.problems


def test_an_infinite_side_leaves_one_file_without_a_bound_and_mends_the_others(tmp_path):
    points = {"near.parquet": [(1.0, 2.0), (3.0, 4.0)], "far.parquet": [(1.0, 2.0), (float("inf"), 4.0)]}
    layout = Layout(Schema(StructType((Field("id", PrimitiveType("int64")), Field("geom", GeometryType())))))
    for name, held in points.items():
        with ParquetWriter(Storage.at(str(tmp_path)), name, layout) as writer:
            writer.write(pa.record_batch({"id": pa.array([0, 1]), "geom": [write(point(*one)) for one in held]}))
    schema = metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)"))
    adds = [add(name, {"numRecords": 2}, size=(tmp_path / name).stat().st_size) for name in points]
    LogMaker(tmp_path).commit(0, protocol("geospatial"), schema, *adds)
    gl.open(str(tmp_path)).plan_repair().apply()
    far, near = sorted(delta_bounds(tmp_path, ("geom",)), key=lambda one: one.sides[0] == 1.0)
    assert near.sides[:4] == (1.0, 2.0, 3.0, 4.0)
    assert np.isnan(far.sides).all()
