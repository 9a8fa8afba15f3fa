"""Tables partitioned by place, in four formats: which rows a window finds, and what other engines filter by."""

from __future__ import annotations

from pathlib import Path

import duckdb
import h3
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.model.cells import cells_of_properties
from tests.geo.test_cells import geohash, quadkey

FORMATS = ["delta", "iceberg", "havasu", "parquet"]
SYSTEMS = {"delta": "quadkey:2", "iceberg": "geohash:1", "havasu": "h3:0", "parquet": "quadkey:3"}
COUNT = 300


def polygons(count: int, *, seed: int) -> pa.Table:
    """Squares of up to 12 degrees, so that most cross the border of a cell; a few are null or empty."""
    draw = np.random.default_rng(seed)
    x, y = draw.uniform(-80, 80, count), draw.uniform(-75, 75, count)
    half = draw.uniform(0.1, 6, count)
    shapes = shapely.to_wkb(shapely.box(x - half, y - half, x + half, y + half)).tolist()
    shapes[0], shapes[1] = None, shapely.Polygon().wkb
    return pa.table({"id": np.arange(count) + seed * count, "geom": pa.array(shapes, pa.binary())})


@pytest.fixture(scope="module", params=FORMATS)
def table(request, spark, tmp_path_factory):
    """A table that was written, and got more rows from Arrow and from a DataFrame."""
    path = str(tmp_path_factory.mktemp("cells") / request.param)
    columns = {"geom": gl.geometry("OGC:CRS84")}
    cell = gl.cell("geom", SYSTEMS[request.param], name="cell")
    options = {"format": request.param, "spark": spark}
    gl.write(polygons(COUNT, seed=0), path, columns=columns, partition_by=cell, cluster_by="geom", **options)
    gl.write(polygons(COUNT, seed=1), path, mode="append", **options)
    frame = spark.createDataFrame(polygons(COUNT, seed=2))
    gl.write(frame, path, mode="append", **options)
    return gl.open(path)


@pytest.fixture(scope="module")
def rows(table):
    return table.scan(columns=["id", "geom", "cell"]).to_arrow()


def test_every_row_has_the_cell_of_its_centre_and_rows_without_a_place_have_none(table, rows):
    name = {"h3": lambda x, y, level: h3.latlng_to_cell(y, x, level), "geohash": geohash, "quadkey": quadkey}
    (cell,) = cells_of_properties(table.snapshot.properties, where="")
    shapes = shapely.from_wkb(rows["geom"].to_pylist())
    expected = [
        None if shape is None or shape.is_empty else name[cell.system.value](
            (shape.bounds[0] + shape.bounds[2]) / 2, (shape.bounds[1] + shape.bounds[3]) / 2, cell.level
        )
        for shape in shapes
    ]  # fmt: skip
    assert rows["cell"].to_pylist() == expected
    assert rows.num_rows == 3 * COUNT
    assert rows["cell"].null_count == 6
    assert len(table.snapshot.files) > 20


def test_a_thousand_windows_give_the_rows_of_a_full_scan(table, rows):
    shapes = np.array(shapely.from_wkb(rows["geom"].to_pylist()))
    ids = rows["id"].to_numpy()
    tree = shapely.STRtree(shapes)
    draw = np.random.default_rng(5)
    file_of = dict(zip(rows["id"].to_pylist(), rows["cell"].to_pylist(), strict=True))
    cells = table.snapshot.files.table["partition.cell"].to_pylist()
    for number in range(1000):
        x, y = draw.uniform(-90, 80), draw.uniform(-80, 75)
        window = (x, y, x + draw.uniform(0.01, 10), y + draw.uniform(0.01, 5))
        expected = set(ids[tree.query(shapely.box(*window), predicate="intersects")].tolist())
        answer = table.explain(window)
        read = {cell for cell, kept in zip(cells, answer.pruning.kept, strict=True) if kept}
        (needed,) = answer.cell_filters
        assert {*needed.cells, *([None] if needed.with_null else [])} == read
        # Each row that matches is in a file that is read.
        assert {file_of[id_] for id_ in expected} <= read
        if number % 50 == 0:
            assert set(table.scan(window, columns=["id"]).to_arrow()["id"].to_pylist()) == expected
    assert len(read) < len(set(cells))
    assert f"of {len(set(cells) - {None})} cells of cell, by their bounds" in answer.notes[0]
    # What is found with the condition on the plain column is what is found without it.
    both = table.scan(f"({needed.predicate}) AND ({answer.where})", columns=["id"]).to_arrow()
    assert set(both["id"].to_pylist()) == expected


def test_other_engines_filter_by_the_plain_column(table, rows, spark):
    wanted = sorted(set(rows["cell"].drop_null().to_pylist()))[3]
    expected = sorted(
        id_ for id_, cell in zip(rows["id"].to_pylist(), rows["cell"].to_pylist(), strict=True) if cell == wanted
    )
    kind = table.snapshot.format.name
    answer = table.explain(f"cell = '{wanted}'")
    assert answer.read.rows == len(expected)
    if kind == "delta":
        frame = spark.read.format("delta").load(table.location)
        read = frame.where(f"cell = '{wanted}'").select("id").toArrow()["id"]
        assert sorted(read.to_pylist()) == expected
    if kind in ("delta", "parquet"):
        files = f"{table.location}/**/*.parquet"
        options = "hive_partitioning = true, hive_types_autocast = false"
        query = f"SELECT id FROM read_parquet('{files}', {options}) WHERE cell = '{wanted}' ORDER BY id"
        assert [id_ for (id_,) in duckdb.sql(query).fetchall()] == expected
    if kind in ("iceberg", "havasu"):
        # The column is in the files of these formats.
        paths = [str(Path(table.location, path)) for path in table.snapshot.files.table["path"].to_pylist()]
        read = ds.dataset(paths).to_table(["id"], filter=ds.field("cell") == wanted)["id"]
        assert sorted(read.to_pylist()) == expected
