"""SQL on SedonaDB and on Spark gives the rows of a full read: `python -m tests.heavy.sql_answers --count 2000`.

The random tables of `scan_answers`, of four formats and with deleted rows, are asked by `gl.sql` on both engines, with
spatial relations, ids, AND, OR and NOT; what they return has to be the rows that shapely and DuckDB find.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

import geolake_nb as gl
from geolake_nb.model.operators import SpatialOp
from tests.heavy.scan_answers import Tally, is_broken, shape_near_rows
from tests.scan.row_oracle import Geo, area
from tests.scan.scan_tables import WRITERS, random_rows
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.scan.scan_tables import Made

__all__ = ["check_sql", "draw_filter"]


def draw_filter(draw: random.Random, made: Made, depth: int = 0) -> Any:
    """A filter on the geometry and the id that both engines take."""
    if depth < 2 and draw.random() < 0.45:
        word = draw.choice(("AND", "AND", "OR", "NOT"))
        return word, [draw_filter(draw, made, depth + 1) for _ in range(1 if word == "NOT" else 2)]
    if draw.random() < 0.2:
        return "id", draw.choice((">=", "<", "<>")), [draw.choice(made.full.ids.tolist() or [0])]
    op = draw.choice((SpatialOp.INTERSECTS, SpatialOp.INTERSECTS, *SpatialOp))
    return Geo("geom", op, shape_near_rows(draw, made, op))


def to_sql(node: Any, srid: int) -> str:
    """The filter as a WHERE clause of both engines."""
    if isinstance(node, Geo):
        shape = node.shape if isinstance(node.shape, shapely.Geometry) else area(node.shape)
        wkt = shapely.to_wkt(shapely.force_2d(shape), rounding_precision=-1, trim=True)
        return f"{node.op.sql}(geom, ST_SetSRID(ST_GeomFromText('{wkt}'), {srid}))"
    if len(node) == 3:
        return f"id {node[1]} {node[2][0]}"
    word, parts = node
    texts = [f"({to_sql(part, srid)})" for part in parts]
    return f"NOT {texts[0]}" if word == "NOT" else f" {word} ".join(texts)


def check_sql(form: str, folder: Path, *, seed: int, filters: int, tally: Tally, spark: SparkSession | None) -> None:
    """Write a table, ask both engines, and compare."""
    draw = random.Random(f"sql {form} {seed}")
    with np.errstate(invalid="ignore"):  # of vertices that are not a number
        made = WRITERS[form](draw, folder, random_rows(draw))
        queries = [draw_filter(draw, made) for _ in range(filters)]
        answers = made.full.answers(queries)
    # SedonaDB finds points whose x alone is NaN in any shape that has their y.
    nowhere = {
        row for row, shape in zip(made.full.ids.tolist(), made.full.shapes["geom"], strict=True) if is_broken(shape)
    }
    table = gl.open(made.location)
    srid = 0 if made.full.crs["geom"] is None else 4326
    tally.tables[form] += 1
    engines: list[dict[str, Any]] = [{}, *([{"engine": "spark", "spark": spark}] if spark is not None else [])]
    for node, (decided, unsettled) in zip(queries, answers, strict=True):
        expected, undecided = decided - nowhere, unsettled | nowhere
        where = to_sql(node, srid)
        tally.filters[form] += 1
        tally.rows[form] += len(expected)
        tally.undecided[form] += len(undecided)
        for engine in engines:
            name = engine.get("engine", "sedonadb")
            try:
                result = gl.sql(f"SELECT id FROM t WHERE {where}", **engine, t=table)
                answer = result.to_arrow()["id"].to_pylist()
            except Exception as error:  # noqa: BLE001 - of an engine, or a wrong answer
                if not undecided:
                    tally.wrong.append(f"WRONG {name}, {form}, seed {seed}: {where[:500]}: {error}"[:1200])
                tally.refused[form] += 1
                continue
            tally.files_read[form] += result.reads[0].metrics.files or result.reads[0].metrics.files_planned
            tally.files[form] += len(table.files)
            if len(set(answer)) != len(answer) or set(answer) - undecided != expected:
                lost, added = sorted(expected - set(answer))[:9], sorted(set(answer) - expected - undecided)[:9]
                tally.wrong.append(f"WRONG {name}, {form}, seed {seed}: {where[:500]}: lacks {lost}, has {added}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="filters in all")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--per-table", type=int, default=25, help="filters of each table")
    parser.add_argument("--formats", nargs="+", default=list(WRITERS), choices=list(WRITERS))
    options = parser.parse_args(arguments)
    tally = Tally()
    with tempfile.TemporaryDirectory() as root:
        spark = delta_session("local[2]", Path(root))
        for number in range(-(-options.count // options.per_table)):
            form = options.formats[number % len(options.formats)]
            seed = options.seed + number // len(options.formats)
            folder = Path(root, f"t{number}")
            check_sql(form, folder, seed=seed, filters=options.per_table, tally=tally, spark=spark)
        spark.stop()
    print(*tally.lines(), sep="\n")
    print(f"{sum(tally.filters.values()):,} filters on two engines, {len(tally.wrong)} wrong")
    return int(bool(tally.wrong))


if __name__ == "__main__":
    raise SystemExit(main())
