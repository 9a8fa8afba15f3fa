"""Every writer of bounds, given the same rows: each makes a table, and says which of its columns have bounds."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Any

import geoarrow.pyarrow as ga
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import geolake_nb as gl
from geolake_nb.formats.parquet_folder.write_target import ParquetTarget
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, PrimitiveType, StructType
from geolake_nb.parquet.geo_property import CoveringColumn
from geolake_nb.parquet.writer import Layout, ParquetWriter
from geolake_nb.storage.storage import Storage
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.iceberg_tables import HAVASU_FIELDS, FileEntry, column, make_iceberg_table
from tests.oracle.wkb_write import Shape, write
from tests.promises.geography_extents import Geographies
from tests.promises.row_extents import Geometries, ranges_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["ELLIPSOIDS", "GEO", "Made", "Rows", "with_spark", "without_spark"]

ELLIPSOIDS = ("karney", "vincenty", "thomas", "andoyer")
GEO = ("geom", "sphere", "ellipsoid")
NOWHERE = (np.nan, np.nan)
TEXTS = ("ewkb", "wkb", "wkt", "geojson")
_TABLE_LEVEL = {"delta": "Delta log", "iceberg": "Iceberg manifest", "havasu": "Havasu manifest"}


@dataclass(frozen=True, slots=True)
class Made:
    """A table that a writer made."""

    writer: str
    form: str
    folder: Path
    columns: tuple[str, ...] = GEO
    in_files: bool = True
    """Whether the data files are the writer's too; a repair of a log leaves them as they are."""
    covered: bool = False
    """Whether rows have boxes of their own, in columns of the files."""
    repeated: tuple[str, ...] = ()
    """Columns of lists and maps of shapes, of which the table may say nothing."""
    leaves: Mapping[str, str] = dataclass_field(default_factory=dict)
    """The paths of columns in the files, where they have others."""

    @property
    def levels(self) -> set[str]:
        """Where bounds have to be: a table without one of these has lost them."""
        known = {_TABLE_LEVEL[self.form]} if self.form in _TABLE_LEVEL else set()
        if self.in_files and self.form != "havasu":  # whose shapes are plain bytes and text in the files
            known |= {"row group"} | ({"geo property"} if self.form == "parquet" else set())
        return known | ({"covering", "covering statistics"} if self.covered else set())


class Rows:
    """The rows that all writers get, and the truth about them by column."""

    def __init__(self, seed: int, count: int) -> None:
        self.algorithm = ELLIPSOIDS[seed % len(ELLIPSOIDS)]
        self.non_finite = seed // len(ELLIPSOIDS) % 2 == 1
        """Whether values with NaN and infinities, which take bounds away, are among them."""
        plain = Geometries.make(seed * 7919, count, non_finite=self.non_finite)
        self.truth: dict[str, Geometries | Geographies] = {
            "geom": plain,
            "sphere": Geographies.make(seed * 7919 + 1, count),
            "ellipsoid": Geographies.make(seed * 7919 + 2, count, self.algorithm),
        }
        self.types = {
            "geom": gl.geometry(),
            "sphere": gl.geography(),
            "ellipsoid": gl.geography(algorithm=self.algorithm),
        }
        ids = pa.array(range(count), pa.int64())
        self.table = pa.table({"id": ids, **{name: pa.array(self.truth[name].values, pa.binary()) for name in GEO}})
        # Footers alone cannot be repaired where values are EWKB: Parquet's geo types hold ISO WKB.
        iso = [None if shape is None else write(_iso(shape)) for shape in plain.shapes]
        self.iso = self.table.set_column(1, "geom", pa.array(iso, pa.binary()))
        # Havasu has no geographies, and encodings of its own; texts are read back by GEOS and by another reader.
        texts = {"wkt": plain.text("wkt"), "geojson": plain.text("geojson")}
        binary = dict.fromkeys(("ewkb", "wkb"), self.table["geom"])
        self.havasu = pa.table(
            {"id": ids, **binary, **{name: pa.array(column_texts) for name, column_texts in texts.items()}}
        )
        self.havasu_types = {name: gl.geometry(encoding=name) for name in TEXTS}
        self.truth |= {
            "ewkb": plain,
            "wkb": plain,
            "wkt": _of_text(texts["wkt"], shapely.from_wkt, _in_wkt),
            "geojson": _of_text(texts["geojson"], shapely.from_geojson, _in_geojson),
        }
        self.file_size, self.group_rows = max(16_384, count * 4), max(50, count // 100)

    @property
    def differ(self) -> list[str]:
        return [problem for column in self.truth.values() for problem in column.differ]


def _iso(shape: Shape) -> Shape:
    return replace(shape, ewkb=False, srid=None, children=tuple(_iso(child) for child in shape.children))


def _of_text(texts: list[str | None], read: Callable[..., Any], numbers: Callable[[str], Any]) -> Geometries:
    """The truth of a column of text: what GEOS reads in it, and what Python makes of its numbers."""
    made = Geometries.__new__(Geometries)
    made.values, made.shapes, made.differ = texts, texts, []
    made.low, made.high = ranges_of(read(np.array(texts, object)))
    made.low[:, 2:] = made.high[:, 2:] = np.nan  # Havasu bounds x and y alone
    made.unclear = np.zeros(len(texts), bool)
    for row, text in enumerate(texts):
        coordinates = np.array([] if text is None else numbers(text), float).reshape(-1, 2)
        ends = (coordinates.min(axis=0), coordinates.max(axis=0)) if len(coordinates) else (NOWHERE, NOWHERE)
        sides = made.low[row, :2], made.high[row, :2]
        if not all(np.array_equal(end, other, equal_nan=True) for end, other in zip(ends, sides, strict=True)):
            made.differ.append(f"row {row}: GEOS reads {sides} and Python {ends} in {text}")
    return made


def _in_wkt(text: str) -> list[list[float]]:
    tag = re.match(r"[A-Z]+ (ZM|Z|M) ", text)
    axes = 2 + (len(tag[1]) if tag else 0)
    numbers = [float(number) for number in re.findall(r"NaN|[-+.0-9][-+.0-9e]*", text)]
    return [numbers[start : start + 2] for start in range(0, len(numbers), axes)]


def _in_geojson(text: str) -> list[list[float]]:
    return list(_positions(json.loads(text)))


def _positions(value: Any) -> Iterator[list[float]]:
    if isinstance(value, dict):
        yield from _positions(value.get("coordinates", value.get("geometries", [])))
    elif value and isinstance(value[0], int | float):
        yield value[:2]
    else:
        for member in value:
            yield from _positions(member)


# ---- without Spark


def without_spark(rows: Rows, folder: Path) -> Iterator[Made]:
    """The writer of files, the repair of footers, and the repair of a Delta log by footers."""
    yield from _files(rows, folder / "files")
    # Footers: files of pyarrow with undeclared bytes.
    plain = folder / "footers"
    _plain_files(rows.iso, plain, rows)
    gl.open(str(plain)).plan_repair(columns=rows.types).apply()
    yield Made("repair Parquet", "parquet", plain)
    # A log over files whose footers have every box, as those with odd geometries have not.
    typed_folder = folder / "told"
    _plain_files(rows.iso.select(["id", *GEO[1:]]), typed_folder, rows)
    gl.open(str(typed_folder)).plan_repair(columns={name: rows.types[name] for name in GEO[1:]}).apply()
    _plain_log(rows, typed_folder, GEO[1:])
    plan = gl.open(str(typed_folder)).plan_repair()
    assert plan.change.job is None, str(plan)
    plan.apply()
    yield Made("repair Delta by footers", "delta", typed_folder, GEO[1:], in_files=False)


def _files(rows: Rows, folder: Path) -> Iterator[Made]:
    folder.mkdir()
    fields = (Field("id", PrimitiveType("int64")), *[Field(name, kind) for name, kind in rows.types.items()])
    schema = Schema(StructType(fields))
    for narrow in (True, False):
        where = folder / ("narrow" if narrow else "wide")
        coverings = (CoveringColumn("geom", narrow=narrow), CoveringColumn("sphere", "bbox_sphere", narrow=narrow))
        geo = ParquetTarget.of(schema, (), coverings=coverings).geo
        layout = Layout(schema, row_group_rows=rows.group_rows, coverings=coverings, geoparquet=geo)
        for number, part in enumerate(_parts(rows.table, rows)):
            with ParquetWriter(Storage.at(str(where)), f"part-{number:03}.parquet", layout) as writer:
                for batch in part.to_batches():
                    writer.write(batch)
        yield Made(f"file writer with {'32' if narrow else '64'}-bit coverings", "parquet", where, covered=True)


def _parts(table: pa.Table, rows: Rows) -> list[pa.Table]:
    size = rows.group_rows * 2
    return [table.slice(start, size) for start in range(0, len(table), size)]


def _plain_files(table: pa.Table, folder: Path, rows: Rows) -> None:
    folder.mkdir()
    for number, part in enumerate(_parts(table, rows)):
        pq.write_table(part, folder / f"part-{number:03}.parquet", row_group_size=rows.group_rows)


def _plain_log(rows: Rows, folder: Path, columns: tuple[str, ...] = GEO) -> None:
    """A Delta log over the files of the folder, without a box."""
    types = {
        "geom": "geometry(OGC:CRS84)",
        "sphere": "geography(OGC:CRS84, spherical)",
        "ellipsoid": f"geography(OGC:CRS84, {rows.algorithm})",
    }
    adds = [
        add(path.name, {"numRecords": pq.read_metadata(path).num_rows}, size=path.stat().st_size)
        for path in sorted(folder.glob("*.parquet"))
    ]
    fields = [field("id", "long"), *[field(name, types[name]) for name in columns]]
    LogMaker(folder).commit(0, protocol("geospatial"), metadata(*fields), *adds)


# ---- with Spark


def with_spark(rows: Rows, folder: Path, spark: SparkSession) -> Iterator[Made]:
    """Rows that are written, added and clustered in four formats, and repairs and conversions that read values."""
    for form in ("delta", "iceberg", "parquet", "havasu"):
        yield from _written(form, rows, folder / form, spark)
    yield from _repaired(rows, folder, spark)
    source = folder / "source"
    _plain_files(rows.table, source, rows)
    for form in ("delta", "iceberg", "havasu"):
        columns = ("geom",) if form == "havasu" else GEO
        opened = gl.open(str(source))
        target = folder / f"converted-{form}"
        if form == "havasu":
            (folder / "one").mkdir()
            for path in sorted(source.glob("*.parquet")):
                pq.write_table(pq.read_table(path, columns=["id", "geom"]), folder / "one" / path.name)
            opened = gl.open(str(folder / "one"))
        plan = opened.plan_convert(
            str(target),
            format=form,
            columns={name: rows.types[name] for name in columns},
            cluster_by="geom",
            target_file_size=rows.file_size,
            row_group_rows=rows.group_rows,
        )
        plan.apply(spark=spark)
        yield Made(f"convert to {form}", form, target, columns)
    yield from _enabled(rows, folder / "enabled", spark)


def _written(form: str, rows: Rows, folder: Path, spark: SparkSession) -> Iterator[Made]:
    table, types = (rows.havasu, rows.havasu_types) if form == "havasu" else (rows.table, rows.types)
    columns = tuple(types)
    packing = {"target_file_size": rows.file_size, "row_group_rows": rows.group_rows, "spark": spark}
    half = len(table) // 2
    gl.write(table.slice(0, half), folder, format=form, columns=types, **packing)
    gl.write(table.slice(half), folder, format=form, mode="append", **packing)
    yield Made(f"write {form}", form, folder, columns)
    packing.pop("spark")
    more = {"covering": True} if form == "parquet" else {}
    by = "sphere" if form == "iceberg" else columns[0]
    gl.open(str(folder)).plan_rewrite(cluster_by=by, **packing, **more).apply(spark=spark)
    yield Made(f"rewrite {form}", form, folder, columns, covered=bool(more))


def _repaired(rows: Rows, folder: Path, spark: SparkSession) -> Iterator[Made]:
    theirs = folder / "theirs"
    theirs.mkdir()
    typed = pa.table({"id": rows.table["id"], "geom": ga.as_wkb(rows.iso["geom"])})
    for number, part in enumerate(_parts(typed, rows)):
        pq.write_table(part, theirs / f"part-{number:03}.parquet", row_group_size=rows.group_rows)
    _plain_log(rows, theirs, ("geom",))
    gl.open(str(theirs)).plan_repair().apply(spark=spark)
    yield Made("repair Delta over boxes of pyarrow", "delta", theirs, ("geom",), in_files=False)

    ours = folder / "ours"
    _plain_files(rows.iso.select(["id", "geom"]), ours, rows)
    gl.open(str(ours)).plan_repair(columns={"geom": rows.types["geom"]}).apply()
    shutil.rmtree(ours / "_geolake")
    _plain_log(rows, ours, ("geom",))
    gl.open(str(ours)).plan_repair().apply(spark=spark)
    yield Made("repair Delta over boxes of this package", "delta", ours, ("geom",), in_files=False)

    delta = folder / "repaired-delta"
    _plain_files(rows.iso, delta, rows)
    _plain_log(rows, delta)
    gl.open(str(delta)).plan_repair().apply(spark=spark)
    yield Made("repair Delta by values", "delta", delta, in_files=False)

    iceberg = folder / "repaired-iceberg"
    types = ("geometry", "geography", f"geography(OGC:CRS84, {rows.algorithm})")
    columns = [column(1, "id", "long"), *[column(2 + n, GEO[n], types[n]) for n in range(3)]]
    make_iceberg_table(iceberg, columns, _entries(rows.iso, rows), version=3)
    gl.open(str(iceberg)).plan_repair().apply(spark=spark)
    yield Made("repair Iceberg", "iceberg", iceberg, in_files=False)

    havasu = folder / "repaired-havasu"
    physical = {"ewkb": "binary", "wkb": "binary", "wkt": "string", "geojson": "string"}
    columns = [column(1, "id", "long")]
    columns += [
        column(2 + n, name, physical[name], **{"havasu.geometry-encoding": name.upper()})
        for n, name in enumerate(TEXTS)
    ]
    make_iceberg_table(havasu, columns, _entries(rows.havasu, rows), version=2, extra_file_fields=HAVASU_FIELDS)
    gl.open(str(havasu)).plan_repair().apply(spark=spark)
    yield Made("repair Havasu", "havasu", havasu, TEXTS, in_files=False)


def _entries(table: pa.Table, rows: Rows) -> list[FileEntry]:
    """Files with the ids of their columns, and nothing else that is known of them."""
    fields = [field.with_metadata({"PARQUET:field_id": str(1 + n)}) for n, field in enumerate(table.schema)]
    typed = table.cast(pa.schema(fields))
    return [
        FileEntry(f"data/part-{number:03}.parquet", rows=len(part), table=part)
        for number, part in enumerate(_parts(typed, rows))
    ]


def _enabled(rows: Rows, folder: Path, spark: SparkSession) -> Iterator[Made]:
    """A table of bytes that Spark itself wrote."""
    source = folder.with_name("bytes")
    _plain_files(rows.table, source, rows)
    spark.read.parquet(str(source)).write.format("delta").save(str(folder))
    gl.open(str(folder)).plan_enable(rows.types).apply(spark=spark, consent="geospatial")
    yield Made("enable Delta", "delta", folder)
