"""Bounds and statistics of a demo column: storm tracks, ocean by ocean, as each format would store them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import pyarrow as pa

    from geolake_nb.core.box import Box
    from geolake_nb.core.statistics import ColumnStats

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake demo --basin SP"

_BASINS = {
    "EP": "Eastern Pacific",
    "NA": "North Atlantic",
    "NI": "North Indian",
    "SA": "South Atlantic",
    "SI": "South Indian",
    "SP": "South Pacific",
    "WP": "Western Pacific",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    parser.add_argument("--basin", default="SP", help="whose stored bounds to show: " + ", ".join(sorted(_BASINS)))


def run(options: argparse.Namespace) -> int:
    """Print the demo."""
    from geolake_nb.demo import storms

    if options.basin not in _BASINS:
        raise GeolakeError(
            f"no basin {options.basin!r}", where="demo", remedy=f"use one of: {', '.join(sorted(_BASINS))}"
        )
    table = storms()
    print(f"{table.num_rows:,} storm tracks of 2010 to 2024 (NOAA IBTrACS), WKB in a binary column\n")
    for line in _boxes(table):
        print(line)
    for line in _stored(table, options.basin):
        print(line)
    return 0


def _tracks(table: pa.Table, basin: str) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["basin"], basin))["track"]


def _statistics(table: pa.Table, basin: str) -> tuple[ColumnStats, ColumnStats]:
    """Of the same bytes on a plane, and over the Earth."""
    import geolake_nb as gl

    tracks = _tracks(table, basin)
    return gl.bounds(tracks, type=gl.geometry()), gl.bounds(tracks, type=gl.geography())


def _boxes(table: pa.Table) -> Iterator[str]:
    from geolake_nb.core.wkb import type_name

    yield f"{'basin':16}{'rows':>5}  {'types':22}{'x as geometry':>17}{'x as geography':>17}{'y':>16}"
    for basin, name in _BASINS.items():
        plane, globe = _statistics(table, basin)
        types = ", ".join(type_name(code) for code in plane.types or ())
        if plane.box is not None and globe.box is not None:
            y = f"{globe.box.ymin:.1f} … {globe.box.ymax:.1f}"
            yield f"{name:16}{plane.rows:>5}  {types:22}{_x(plane.box):>17}{_x(globe.box):>17}{y:>16}"
    yield "\nx that starts above where it ends runs over the antimeridian: the Pacific is not the whole Earth."


def _x(box: Box) -> str:
    return f"{box.xmin:.1f} … {box.xmax:.1f}"


def _stored(table: pa.Table, basin: str) -> Iterator[str]:
    from geolake_nb.core import bound_codec as codec

    plane, globe = _statistics(table, basin)
    if plane.box is None or globe.box is None:
        return
    yield f"\nThe bounds of the {_BASINS[basin]} as each format stores them"
    delta = codec.to_delta_wkt(globe.box)
    iceberg = [end.hex() for end in codec.to_iceberg_bytes(globe.box, circular=True)]
    havasu = [end.hex() for end in codec.to_havasu_wkb(plane.box)]
    parquet = codec.to_parquet_fields(globe.box, circular=True)
    for label, low, high in (
        ("Delta geography", *delta),
        ("Iceberg geography", *iceberg),
        ("Havasu geometry", *havasu),
        ("Parquet GEOGRAPHY", _fields(parquet, "min"), _fields(parquet, "max")),
    ):
        yield f"  {label:19}{low}\n  {'':19}{high}"
    yield "Delta's readers compare boxes as planes, so that its bound spans the Earth rather than lose a storm."


def _fields(fields: dict[str, float], end: str) -> str:
    return "  ".join(f"{name} {value:g}" for name, value in fields.items() if name.endswith(end))
