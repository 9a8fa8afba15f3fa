"""Real files of other projects, mended in a copy: no bound that is then in them leaves out a row."""

from __future__ import annotations

import csv
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.core.schema import Schema
from geolake_nb.core.types import Field, GeographyType, GeometryType, StructType
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.parquet.writer import Layout, ParquetWriter
from geolake_nb.formats.storage import Storage
from tests.oracle.wkb_walk import BadError, walk
from tests.promises.row_extents import Geographies, Geometries
from tests.promises.written_bounds import bounds_of_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.promises.written_bounds import Verdict

__all__ = ["judge_corpus"]


def judge_corpus(corpus: Path, folder: Path, verdict: Verdict) -> dict[str, str]:
    """Judge every Parquet file with geo columns; what was done with each, by its path."""
    done = {}
    for path in sorted(corpus.rglob("*.parquet")):
        if "_delta_log" in path.parts:
            continue
        copy = folder / f"{len(done)}.parquet"
        shutil.copy(path, copy)
        name = str(path.relative_to(corpus))
        try:
            table = gl.open(str(copy))
            truth = _truth(copy, table.schema)
            if not truth:
                continue
            gl.open(str(copy)).plan_repair(verify=True).apply()
            done[name] = "repaired"
        except GeolakeError as problem:
            done[name] = f"refused: {problem}"
        if done[name] == "repaired":
            verdict.problems += [f"{name}: the oracles differ: {one}" for held in truth.values() for one in held.differ]
            bounds = list(bounds_of_files([copy], tuple(truth), by_row=True))
            verdict.judge(f"corpus {name}", bounds, truth)
        copy.unlink()
    done["wkb/wkb_cases_dev.csv"] = _judge_cases(corpus / "wkb" / "wkb_cases_dev.csv", folder, verdict)
    return done


def _truth(path: Path, schema: Schema) -> dict[str, Geometries | Geographies]:
    """Where the rows lie, for the columns of WKB at the top."""
    held = pq.ParquetFile(path, arrow_extensions_enabled=False).read()
    truth: dict[str, Geometries | Geographies] = {}
    for one in schema.fields:
        kind = one.type
        column = held[one.name].combine_chunks()
        if isinstance(column, pa.ExtensionArray):  # once another test has loaded geoarrow's types
            column = column.storage
        if isinstance(kind, GeometryType | GeographyType) and pa.types.is_binary(column.type):
            values = column.to_pylist()
            if isinstance(kind, GeographyType):
                truth[one.name] = Geographies.of(values, kind.algorithm.value)
            else:
                truth[one.name] = Geometries(values, [None] * len(values))
    return truth


def _judge_cases(path: Path, folder: Path, verdict: Verdict) -> str:
    """The values that can be read, in row groups of five."""
    values = []
    with path.open() as lines:
        for row in csv.DictReader(lines):
            value = bytes.fromhex(row["hex"])
            try:
                if not walk(value).contested and row["geos"].startswith("ok"):
                    values.append(value)
            except BadError:
                continue
    layout = Layout(Schema(StructType((Field("geom", GeometryType()),))), row_group_rows=5)
    with ParquetWriter(Storage.at(str(folder)), "cases.parquet", layout) as writer:
        writer.write(pa.record_batch({"geom": pa.array(values, pa.binary())}))
    truth = {"geom": Geometries(values, [None] * len(values))}
    verdict.problems += truth["geom"].differ
    verdict.judge("corpus of WKB", list(bounds_of_files([folder / "cases.parquet"], ("geom",), by_row=True)), truth)
    return f"{len(values)} values written"
