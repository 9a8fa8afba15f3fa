"""Real files of other projects, repaired in a copy: no bound that is then in them leaves out a row."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.changes.write_job import GeoInput
from geolake_nb.errors import GeolakeError
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, GeographyType, GeometryEncoding, GeometryType, StructType
from geolake_nb.parquet.geoparquet import GeoEncoding
from geolake_nb.parquet.writer import Layout, ParquetWriter
from geolake_nb.spark.coerce import GeoReader
from geolake_nb.storage.storage import Storage
from tests.oracle.wkb_walk import BadError, walk
from tests.oracle.wkb_write import Shape, write
from tests.promises.geography_extents import Geographies
from tests.promises.row_extents import Geometries
from tests.promises.written_bounds import SIDES, Bound, bounds_of_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.promises.bound_verdict import Verdict

__all__ = ["NO_SHAPES", "check_corpus", "has_shapes", "is_geography"]


NO_SHAPES = "no geo column"


def check_corpus(corpus: Path, folder: Path, verdict: Verdict) -> dict[str, str]:
    """Check every Parquet file with geo columns; what was done with each file, by its path."""
    done = {}
    for path in sorted(corpus.rglob("*.parquet")):
        if "_delta_log" in path.parts:
            continue
        name = str(path.relative_to(corpus))
        copy = folder / f"{len(done)}.parquet"
        shutil.copy(path, copy)
        try:
            done[name] = _check_file(copy, f"corpus {name}", verdict)
        except GeolakeError as problem:
            done[name] = f"refused: {problem.what}"
        copy.unlink()
    done["wkb/wkb_cases_dev.csv"] = _check_cases(corpus / "wkb" / "wkb_cases_dev.csv", folder, verdict)
    return done


def has_shapes(path: Path) -> bool:
    """Whether a file says that it has geo columns, by pyarrow alone: in its types, or in its `geo` property."""
    metadata = pq.read_metadata(path)
    types = {metadata.schema.column(number).logical_type.type for number in range(metadata.num_columns)}
    return b"geo" in (metadata.metadata or {}) or not types.isdisjoint({"GEOMETRY", "GEOGRAPHY"})


def is_geography(path: Path) -> bool:
    """Whether a GeoParquet file says that its edges are geodesics."""
    geo = json.loads((pq.read_metadata(path).metadata or {}).get(b"geo", b"{}"))
    return any(column.get("edges", "planar") != "planar" for column in geo.get("columns", {}).values())


def _check_file(path: Path, name: str, verdict: Verdict) -> str:
    schema = gl.open(str(path)).schema
    types = {
        parts: field.type
        for parts, field in schema.walk_parts()
        if isinstance(field.type, GeometryType | GeographyType)
    }
    if not types:
        return NO_SHAPES
    deep = [parts for parts in types if len(parts) > 1]
    if deep:
        return f"passed over: {deep} are nested"
    table = pq.ParquetFile(path, arrow_extensions_enabled=False).read()
    columns = {parts[0]: _storage(table[parts[0]].combine_chunks()) for parts in types}
    if all(_is_bytes(column) for column in columns.values()):
        truth = {name: _truth(column.to_pylist(), types[name,]) for name, column in columns.items()}
        gl.open(str(path)).plan_repair(verify=True).apply()
        word = "repaired"
    else:
        truth = {name: _truth(_coordinates(path, name, column), types[name,]) for name, column in columns.items()}
        verdict.check(f"{name} as it is", list(_as_read(path, columns)), truth)
        _write_anew(path, columns, {name: types[name,] for name in columns})
        word = "rewritten"
    verdict.problems += [
        f"{name}: the oracles differ: {problem}" for column in truth.values() for problem in column.differ
    ]
    verdict.check(name, list(bounds_of_files([path], tuple(truth), by_row=True)), truth)
    return word


def _storage(column: pa.Array) -> pa.Array:
    # Once another test has loaded geoarrow's types.
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _is_bytes(column: pa.Array) -> bool:
    kind = column.type
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _truth(values: list[bytes | None], kind: GeometryType | GeographyType) -> Geometries | Geographies:
    if isinstance(kind, GeographyType):
        return Geographies.of(values, kind.algorithm.value)
    return Geometries(values, [None] * len(values))


# ---- native encodings: lists of coordinates, not bytes

_KINDS = ("point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon")
_PARTS = {4: 1, 5: 2, 6: 3}


def _encoding(path: Path, name: str) -> str:
    return json.loads(pq.read_metadata(path).metadata[b"geo"])["columns"][name]["encoding"]


def _coordinates(path: Path, name: str, column: pa.Array) -> list[bytes | None]:
    """The WKB of lists of coordinates, put together by the text of GeoParquet 1.1."""
    kind = 1 + _KINDS.index(_encoding(path, name))
    return [None if value is None else write(_shape(kind, value)) for value in column.to_pylist()]


def _shape(kind: int, value: Any) -> Shape:
    if kind == 1:
        return Shape(1, points=((value["x"], value["y"]),))
    if kind == 2:
        return Shape(2, points=tuple((vertex["x"], vertex["y"]) for vertex in value))
    if kind == 3:
        return Shape(3, rings=tuple(tuple((vertex["x"], vertex["y"]) for vertex in ring) for ring in value))
    return Shape(kind, children=tuple(_shape(_PARTS[kind], part) for part in value))


def _as_read(path: Path, columns: dict[str, pa.Array]) -> Iterator[Bound]:
    """What the table says of its row groups: the minima and maxima of x and y are bounds of shapes."""
    groups = gl.open(str(path)).row_groups()
    ends = np.cumsum([0, *groups["rows"].to_pylist()])
    for name in columns:
        sides = np.array([groups[f"{name}.{side}"].to_numpy() for side in SIDES], float).T
        for group in range(len(groups)):
            yield Bound("row group", name, np.arange(ends[group], ends[group + 1]), tuple(sides[group]))


def _write_anew(path: Path, columns: dict[str, pa.Array], types: dict[str, GeometryType | GeographyType]) -> None:
    """What a task of a rewrite does with the file."""
    native = {name: GeoEncoding(_encoding(path, name)) for name in columns}
    plain = {name: replace(kind, encoding=GeometryEncoding.WKB) for name, kind in types.items()}
    inputs = {name: GeoInput(plain[name], GeometryEncoding.GEOARROW) for name in columns}
    batch = GeoReader(inputs, native=native).read(pa.record_batch(columns))
    layout = Layout(Schema(StructType(tuple(Field(name, kind) for name, kind in plain.items()))), row_group_rows=50)
    path.unlink()
    with ParquetWriter(Storage.at(str(path.parent)), path.name, layout) as writer:
        writer.write(batch)


def _check_cases(path: Path, folder: Path, verdict: Verdict) -> str:
    """The values that can be read, in row groups of five."""
    values, left_out = [], Counter[str]()
    with path.open() as lines:
        for row in csv.DictReader(lines):
            value = bytes.fromhex(row["hex"])
            try:
                if walk(value).contested or not row["geos"].startswith("ok"):
                    left_out["on which readers differ"] += 1
                else:
                    values.append(value)
            except BadError:
                left_out["broken"] += 1
    layout = Layout(Schema(StructType((Field("geom", GeometryType()),))), row_group_rows=5)
    with ParquetWriter(Storage.at(str(folder)), "cases.parquet", layout) as writer:
        writer.write(pa.record_batch({"geom": pa.array(values, pa.binary())}))
    truth = {"geom": Geometries(values, [None] * len(values))}
    verdict.problems += truth["geom"].differ
    verdict.check("corpus of WKB", list(bounds_of_files([folder / "cases.parquet"], ("geom",), by_row=True)), truth)
    others = ", ".join(f"{count} {why}" for why, count in sorted(left_out.items()))
    return f"{len(values)} values written; {others}"
