"""A scan returns what a full read says: `python -m tests.heavy.scan_answers --count 10000 --seed 1`.

Tables of four formats with deleted rows hold shapes on a grid and extreme values of every plain type. Random filters,
spatial, plain and mixed, are answered by `t.scan`; what it returns has to be the rows that shapely and DuckDB find
when they test all of them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

import geolake_nb as gl
from geolake_nb.errors import PredicateError
from geolake_nb.model.box import Box
from geolake_nb.model.operators import SpatialOp
from tests.no_row_lost.extreme_values import random_filter
from tests.scan.row_oracle import Geo, to_predicate
from tests.scan.scan_tables import CRS, PARTS, WRITERS, random_rows, random_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scan.scan_tables import Made

__all__ = ["Tally", "check_table", "draw_filter", "is_broken", "shape_near_rows"]


@dataclass
class Tally:
    """What was asked, and which answers were wrong."""

    tables: Counter[str] = field(default_factory=Counter)
    filters: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    files_read: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    """Rows of broken shapes, of which shapely says this or that."""
    refused: Counter[str] = field(default_factory=Counter)
    """Filters of which GEOS raises an error for a broken shape."""
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """A line for each format, and one for each wrong answer."""
        for form in self.tables:
            share = 1 - self.files_read[form] / max(1, self.files[form])
            yield (
                f"{form:8} {self.tables[form]:,} tables, {self.filters[form]:,} filters, {self.rows[form]:,} rows, "
                f"{self.undecided[form]:,} undecided, {self.refused[form]:,} refused, {share:.0%} of the files skipped"
            )
        yield from self.wrong


def check_table(form: str, folder: Path, *, seed: int, filters: int, tally: Tally) -> None:
    """Write a table, ask random filters, and compare."""
    draw = random.Random(f"{form} {seed}")
    with np.errstate(invalid="ignore"):  # of vertices that are not a number
        made = WRITERS[form](draw, folder, random_rows(draw))
        queries = [draw_filter(draw, made) for _ in range(filters)]
        answers = made.full.answers(queries)
    table = gl.open(made.location)
    tally.tables[form] += 1
    for node, (expected, undecided) in zip(queries, answers, strict=True):
        predicate = to_predicate(node)
        tally.filters[form] += 1
        tally.rows[form] += len(expected)
        tally.undecided[form] += len(undecided)
        where = f"WRONG {form}, seed {seed}: {str(predicate)[:600]}"
        try:
            scan = table.scan(predicate, columns=["id"])
            answer = scan.to_arrow()["id"].to_pylist()
            counted = table.scan(predicate).count()
        except PredicateError as error:
            if not undecided:
                tally.wrong.append(f"{where}: {error}"[:1500])
            tally.refused[form] += 1
            continue
        except Exception as error:  # noqa: BLE001 - any error is a wrong answer here
            tally.wrong.append(f"{where}: {type(error).__name__}: {error}"[:1500])
            continue
        tally.files_read[form] += scan.metrics.files
        tally.files[form] += len(table.files)
        if len(set(answer)) != len(answer) or set(answer) - undecided != expected:
            lost, added = sorted(expected - set(answer))[:9], sorted(set(answer) - expected - undecided)[:9]
            tally.wrong.append(f"{where}: lacks {lost}, has {added} beside the right ones")
        elif counted != len(answer):
            tally.wrong.append(f"{where}: counts {counted}, returns {len(answer)}")


def draw_filter(draw: random.Random, made: Made, depth: int = 0) -> Any:
    """A spatial, plain or mixed filter."""
    if depth < 3 and draw.random() < 0.4:
        word = draw.choice(("AND", "AND", "OR", "NOT"))
        return word, [draw_filter(draw, made, depth + 1) for _ in range(1 if word == "NOT" else draw.choice((2, 2, 3)))]
    if draw.random() < 0.3:
        return _plain(draw, made)
    return _spatial(draw, made)


def _plain(draw: random.Random, made: Made) -> Any:
    way = draw.random()
    if way < 0.1:
        return draw.choice(list(made.full.crs)), draw.choice(("IS NULL", "IS NOT NULL")), []
    if way < 0.25 and "part" in made.names:
        op = draw.choice(("=", "<>", "<", ">=", "IN", "NOT IN", "IS NULL", "IS NOT NULL"))
        texts = [part for part in (*PARTS, "nowhere", "b") if part is not None]
        values = draw.sample(texts, 2 if op.endswith("IN") else 1)
        return "part", op, [] if op.startswith("IS") else values
    return random_filter(draw, [name for name in made.names if name != "part"])


def _spatial(draw: random.Random, made: Made) -> Geo:
    column = draw.choice(("geom", "geom", *made.full.crs))
    op = draw.choice((SpatialOp.INTERSECTS, SpatialOp.INTERSECTS, *SpatialOp))
    if column == "geom":
        # What the manifests of Havasu say of a column names no system.
        return Geo(column, op, shape_near_rows(draw, made, op), draw.choice((None, None, made.full.crs["geom"])))
    system = draw.choice((None, "OGC:CRS84", CRS[column]))
    if system == "OGC:CRS84":
        # A query far from the zone of UTM is refused.
        return Geo(column, op, _window(draw) if column == "merc" else _window_in_europe(draw), system)
    # A window around some row, in metres.
    some = [shape for shape in made.full.shapes[column] if shape is not None]
    x, y = shapely.get_coordinates(draw.choice(some))[0] if some else (0.0, 0.0)
    width, height = (draw.choice((1e3, 1e5, 4e6)) * draw.random() for _ in range(2))
    return Geo(column, op, Box(x - width, y - height, x + width, y + height), system)


def shape_near_rows(draw: random.Random, made: Made, op: SpatialOp) -> Any:
    shapes = [shape for shape in made.full.shapes["geom"] if shape is not None and not shape.is_empty]
    way = draw.random()
    if way < 0.1 or not shapes:
        return _window(draw)
    row = draw.choice(shapes)
    if way < 0.2 and not is_broken(row):
        return row
    # A place of the row, on the grid.
    x, y = (round(side) if abs(side) < 180 else 0 for side in shapely.get_coordinates(row)[0])
    if way < 0.6:
        # A box without an area is a polygon that is not valid, of which GEOS says this or that.
        width, height = (draw.randint(int(op is not SpatialOp.INTERSECTS), 5) for _ in range(2))
        west = max(-180, x - draw.randint(0, width))
        low = max(-90, y - draw.randint(0, height))
        return Box(min(west, 175), low, min(180, min(west, 175) + width), min(90, low + height))
    if way < 0.7:
        # Over 180 degrees, from the place of the row to the other side.
        return Box(abs(x) if abs(x) > 100 else 170, y - 10, -170, y + 10)
    while (shape := random_shape(draw, x, y)) is None or is_broken(shape):
        pass
    return shapely.force_2d(shape)


def is_broken(shape: Any) -> bool:
    """Whether a coordinate is NaN."""
    places = shapely.get_coordinates(shape)
    return bool(np.isnan(places).any())


def _window(draw: random.Random) -> Box:
    west, low = draw.uniform(-180, 180), draw.uniform(-80, 80)
    east = west + draw.choice((1, 20, 100)) * draw.random()
    return Box(west, low, east - 360 if east > 180 else east, min(84.0, low + draw.choice((1, 20, 80)) * draw.random()))


def _window_in_europe(draw: random.Random) -> Box:
    west, low = draw.uniform(0, 25), draw.uniform(0, 80)
    return Box(west, low, west + 5 * draw.random(), low + 4 * draw.random())


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="filters in all")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--per-table", type=int, default=50, help="filters of each table")
    parser.add_argument("--formats", nargs="+", default=list(WRITERS), choices=list(WRITERS))
    options = parser.parse_args(arguments)
    tally = Tally()
    asked, number = 0, 0
    while asked < options.count:
        form = options.formats[number % len(options.formats)]
        filters = min(options.per_table, options.count - asked)
        with tempfile.TemporaryDirectory() as folder:
            seed = options.seed + number // len(options.formats)
            check_table(form, Path(folder, "t"), seed=seed, filters=filters, tally=tally)
        asked, number = asked + filters, number + 1
    print(*tally.lines(), sep="\n")
    print(f"{asked:,} filters, {len(tally.wrong)} wrong")
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
