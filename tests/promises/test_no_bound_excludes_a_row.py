"""No bound excludes a row: every writer of every format, read back from the bytes, by two oracles that must agree.

The stress run is `python -m tests.heavy.no_bound_excludes --count 1000000`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import geolake_nb as gl
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, GeometryType, PrimitiveType, StructType
from geolake_nb.parquet.writer import Layout, ParquetWriter
from geolake_nb.storage.storage import Storage
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.geo.test_wkb import arc_samples
from tests.heavy.no_bound_excludes import check_all, check_raster_tables
from tests.oracle.arc_range import arc_range
from tests.oracle.wkb_write import point, polygon, write
from tests.promises.bound_verdict import Verdict
from tests.promises.bound_writers import Rows, with_spark, without_spark
from tests.promises.corpus_bounds import NO_SHAPES, check_corpus, has_shapes, is_geography
from tests.promises.geography_extents import (
    AGREE,
    SPHERICAL,
    Geographies,
    latitudes_differ,
    longitudes_differ,
    poles_differ,
)
from tests.promises.raster_rows import RasterRows
from tests.promises.row_extents import arc_oracles_differ
from tests.promises.shaped_tables import with_spark_shaped, without_spark_shaped
from tests.promises.written_bounds import NOTHING, bounds_of_files, delta_bounds, live_files

# Rows with infinities and arcs that are lost in rounding have no bound, which is said.
pytestmark = pytest.mark.filterwarnings("ignore::geolake_nb.geo.bounds.BadValueWarning")


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows(5, 1000)


@pytest.fixture(scope="module")
def tame_rows() -> Rows:
    return Rows(3, 1000)


def assert_sound(verdict: Verdict) -> None:
    """Nothing is left out, and every bound that the values allow is there, with its heights and measures."""
    assert not verdict.problems, "\n".join(verdict.problems[:5])
    assert not verdict.shortfalls, "\n".join(verdict.shortfalls)
    for where in verdict.compared:
        assert verdict.required[where] or ", covering, " in where, where
    for where in verdict.compared:
        if any(f", {level}, " in where for level in ("Delta log", "Iceberg manifest", "row group")):
            assert verdict.required[f"{where}, z"], where
            assert verdict.required[f"{where}, m"], where


def test_writers_that_need_no_spark(rows, tmp_path):
    verdict = Verdict()
    check_all(rows, without_spark(rows, tmp_path), verdict)
    tame = Rows(3, 200)
    check_all(tame, without_spark_shaped(tame, tmp_path), verdict)
    assert_sound(verdict)
    assert {where.partition(",")[0] for where in verdict.compared} == {
        "file writer with 32-bit coverings",
        "file writer with 64-bit coverings",
        "file writer of nested shapes",
        "repair Delta by footers",
        "repair Delta mapped by id",
        "repair Delta mapped by name",
        "repair Parquet",
        "repair Parquet in partitions",
    }
    # Of these some files have heights throughout.
    for writer in ("file writer with 32-bit coverings", "file writer with 64-bit coverings", "repair Parquet"):
        assert verdict.required[f"{writer}, geo property, sphere, z"]


@pytest.mark.spark
def test_writers_on_spark_give_every_file_its_bounds(tame_rows, tmp_path, spark):
    verdict = Verdict()
    check_all(tame_rows, with_spark(tame_rows, tmp_path, spark), verdict)
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


@pytest.mark.spark
def test_partitions_other_names_and_nested_shapes_on_spark(tmp_path, spark):
    verdict, rows = Verdict(), Rows(3, 200)
    check_all(rows, with_spark_shaped(rows, tmp_path, spark), verdict)
    assert_sound(verdict)
    assert {where.partition(",")[0] for where in verdict.compared} == {
        "append to Delta mapped by id",
        "append to Delta mapped by name",
        "convert nested shapes to delta",
        "convert nested shapes to iceberg",
        "rewrite Delta mapped by id",
        "write havasu in partitions",
        "write parquet in partitions",
    }


@pytest.mark.spark
def test_rasters_on_spark_lie_inside_of_their_bounds(tmp_path, spark):
    verdict, rasters = Verdict(), RasterRows.make(1, 60)
    assert np.any(rasters.poles, axis=0).all()
    check_raster_tables(rasters, tmp_path, spark, verdict)
    assert not verdict.problems, "\n".join(verdict.problems[:5])
    assert not verdict.shortfalls
    count = sum(raster is not None for raster in rasters.rasters)
    assert verdict.compared == dict.fromkeys(("write rasters", "rewrite rasters", "repair rasters"), count)


def test_real_files_that_were_repaired(corpus, tmp_path):
    verdict = Verdict()
    done = check_corpus(corpus, tmp_path, verdict)
    assert not verdict.problems, "\n".join(verdict.problems[:5])
    # Minima and maxima of x and y do not hold the edges of a geography: until it is rewritten it has no bound.
    geographies = {name for name, word in done.items() if word == "rewritten" and is_geography(corpus / name)}
    assert {re.search(r"corpus (\S+) as it is, row group", short)[1] for short in verdict.shortfalls} == geographies
    assert "geodata/from_fetch/natural-earth/natural-earth_countries-geography_native.parquet" in geographies
    files = [path for path in corpus.rglob("*.parquet") if "_delta_log" not in path.parts]
    paths = {str(path.relative_to(corpus)): path for path in files}
    assert done.pop("wkb/wkb_cases_dev.csv") == "438 values written; 103 broken, 1 on which readers differ"
    assert done.keys() == paths.keys()
    assert {name for name, word in done.items() if word != NO_SHAPES} == {n for n in paths if has_shapes(paths[n])}
    counts = Counter(done.values())
    assert counts["repaired"] >= 34
    assert counts["rewritten"] >= 10
    assert sum(verdict.compared.values()) > 6500


def test_a_side_that_is_one_bit_too_small_is_seen(rows, tmp_path):
    made = next(iter(without_spark(rows, tmp_path)))
    bounds = list(bounds_of_files(live_files(made.folder, made.form), made.columns))
    for level, column in (("row group", "geom"), ("row group", "sphere"), ("covering", "geom")):
        some = [
            bound
            for bound in bounds
            if (bound.level, bound.column) == (level, column) and np.isfinite(bound.sides[:4]).all()
        ]
        truth = rows.truth[column]
        for side in (1, 3):
            wrong = Verdict()
            for bound in some:
                low, high = truth.low[bound.ids], truth.high[bound.ids]
                ends = (low[:, 1], high[:, 1]) if column == "geom" else (low, high)
                if np.isnan(ends[0].astype(float)).all():
                    continue
                true = np.nanmin(ends[0]) if side == 1 else np.nanmax(ends[1])
                if not np.isfinite(true):
                    continue
                inside = np.nextafter(float(true), np.inf if side == 1 else -np.inf)
                sides = (*bound.sides[:side], inside, *bound.sides[side + 1 :])
                wrong.check("moved", [replace(bound, sides=sides)], {column: truth})
                assert any("leaves out" in problem for problem in wrong.problems), bound
                break
            assert wrong.problems


def test_oracles_that_differ_are_seen():
    geographies = Geographies.make(1, 200)
    low, high = np.zeros(len(geographies.starts)), np.zeros(len(geographies.starts))
    apart = low + 2 * AGREE[SPHERICAL]
    assert not latitudes_differ(
        SPHERICAL, geographies.starts, geographies.ends, [(low, high), (low, high)], geographies.over
    )
    assert latitudes_differ(
        SPHERICAL, geographies.starts, geographies.ends, [(low, high), (apart, high)], geographies.over
    )
    start, end = np.array([[170.0, 10.0]]), np.array([[-170.0, 20.0]])
    for edges in (SPHERICAL, "ellipsoid"):
        assert not longitudes_differ(edges, start, end, np.array([20.0]), np.array([False]))
        assert longitudes_differ(edges, start, end, np.array([19.99]), np.array([False]))
        assert longitudes_differ(edges, start, end, np.array([-340.0]), np.array([False]))
    around = polygon([(0, 60), (90, 60), (180, 60), (-90, 60), (0, 60)])
    assert not poles_differ(around, [(10.0, 80.0)])
    assert poles_differ(around, [(10.0, 10.0)])
    assert poles_differ(polygon([(0, 60), (90, 60), (45, 80), (0, 60)]), [(-100.0, 85.0)])


def test_an_arc_has_one_range_by_fractions_and_by_points():
    for arc in (
        ((0.0, 0.0), (1.0, 1.0), (2.0, 0.0)),
        ((0.0, 0.0), (1.0, -0.25), (2.0, 0.0)),
        ((3.0, 4.0), (-3.0, -4.0), (3.0, 4.0)),
    ):
        range_ = arc_range(arc)
        assert not arc_oracles_differ(arc, range_, arc_samples(*arc))
        for axis in range(2):
            for end in range(2):
                for by in (0.01, -0.01):
                    sides = [list(point) for point in range_]
                    sides[axis][end] += by
                    assert arc_oracles_differ(arc, tuple(map(tuple, sides)), arc_samples(*arc))
    assert arc_range(((0.0, 0.0), (1.0, 1.0), (2.0, 2.0))) is None


def test_bounds_that_are_not_there_are_seen(rows, tmp_path):
    *_, made = without_spark(rows, tmp_path)
    bounds = list(delta_bounds(made.folder, ("sphere",)))
    for gone, where in ((slice(0, 8), ""), (slice(4, 6), ", z"), (slice(6, 8), ", m")):
        verdict = Verdict()
        sides = [list(bound.sides) for bound in bounds]
        sides[0][gone] = [np.nan] * len(sides[0][gone])
        changed = [replace(bound, sides=tuple(some)) for bound, some in zip(bounds, sides, strict=True)]
        verdict.check("some writer", changed, rows.truth)
        assert not verdict.problems
        (short,) = [
            shortfall
            for shortfall in verdict.shortfalls
            if shortfall.startswith(f"some writer, Delta log, sphere{where}: ")
        ]
        count = 8 if where == ", m" else 10  # the last two files have no measures
        assert f": {count - 1} of {count} bounds that the values allow" in short
    low = [replace(bound, sides=(*bound.sides[:4], bound.sides[4] + 1, *bound.sides[5:])) for bound in bounds]
    verdict = Verdict()
    verdict.check("some writer", low, rows.truth)
    assert any("leaves out a height" in problem for problem in verdict.problems)


def test_half_a_box_and_rows_that_are_missing_are_seen(rows, tmp_path):
    *_, made = without_spark(rows, tmp_path)
    bounds = list(delta_bounds(made.folder, ("sphere",)))
    halved = [replace(bounds[0], sides=(bounds[0].sides[0], *NOTHING[1:])), *bounds[1:]]
    for wrong in (halved, bounds[1:]):
        verdict = Verdict()
        verdict.check("broken", wrong, rows.truth)
        assert verdict.problems


def test_an_infinite_side_leaves_one_file_without_a_bound_and_repairs_the_others(tmp_path):
    points = {"near.parquet": [(1.0, 2.0), (3.0, 4.0)], "far.parquet": [(1.0, 2.0), (float("inf"), 4.0)]}
    layout = Layout(Schema(StructType((Field("id", PrimitiveType("int64")), Field("geom", GeometryType())))))
    for name, values in points.items():
        with ParquetWriter(Storage.at(str(tmp_path)), name, layout) as writer:
            writer.write(pa.record_batch({"id": pa.array([0, 1]), "geom": [write(point(*xy)) for xy in values]}))
    schema = metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)"))
    adds = [add(name, {"numRecords": 2}, size=(tmp_path / name).stat().st_size) for name in points]
    LogMaker(tmp_path).commit(0, protocol("geospatial"), schema, *adds)
    gl.open(str(tmp_path)).plan_repair().apply()
    far, near = sorted(delta_bounds(tmp_path, ("geom",)), key=lambda bound: bound.sides[0] == 1.0)
    assert near.sides[:4] == (1.0, 2.0, 3.0, 4.0)
    assert np.isnan(far.sides).all()
