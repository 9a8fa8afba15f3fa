"""Good tables of every format for the tests of the check, and ways to spoil them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyproj

from geolake_nb.checks.check import check as run_check
from geolake_nb.formats.delta.details import ColumnMapping, DeltaDetails
from geolake_nb.formats.delta.file_stats import read_stats
from geolake_nb.formats.iceberg.snapshot import IcebergDetails
from geolake_nb.formats.registry import DELTA, HAVASU, ICEBERG, PARQUET
from geolake_nb.formats.rules import RULES
from geolake_nb.model.box import Box
from geolake_nb.model.collation import attach_collations
from geolake_nb.model.file_table import AXES, BoundSource, FileTable, GeoStatsColumns, sides_of
from geolake_nb.model.schema import Schema
from geolake_nb.model.snapshot import Feature, Protocol, Snapshot
from geolake_nb.model.types import (
    Field,
    StringType,
    StructType,
    geography,
    geometry,
    raster,
)
from geolake_nb.raster_data.arrow import raster_facts, rasters_to_arrow
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster

COUNT = 10
PATHS = [f"part-{index:03}.parquet" for index in range(COUNT)]
BOXES = [Box(10.0 * index, 0.0, 10.0 * index + 8.0, 8.0) for index in range(COUNT)]
WRAPPED = [Box(175.0, 0.0, -175.0, 8.0), *BOXES[1:]]
ROWS = 100


def paths_of(paths):
    return pa.table({"path": pa.array(paths, pa.string())})


@dataclass(frozen=True)
class Table:
    """A snapshot with what can be read beside it."""

    snapshot: Snapshot
    row_groups: pa.Table | None = None
    footers: pa.Table | None = None
    deep: pa.Table | None = None
    rasters: pa.Table | None = None
    missing: pa.Table = field(default_factory=lambda: paths_of([]))

    def check(self, **other):
        given = {name: getattr(self, name) for name in ("row_groups", "footers", "deep", "rasters", "missing")}
        return run_check(self.snapshot, RULES, **(given | other))

    def changed(self, **changes) -> Table:
        """The table whose snapshot has these fields instead."""
        return replace(self, snapshot=replace(self.snapshot, **changes))

    def with_files(self, **columns) -> Table:
        """The table with other columns in its file table, by name with `__` for the dot."""
        table = self.snapshot.files.table
        for key, values in columns.items():
            name = key.replace("__", ".")
            index = table.column_names.index(name)
            kind = table.schema.field(index).type
            table = table.set_column(index, name, pa.array(values, kind))
        return self.changed(files=FileTable(table, self.snapshot.files.geo_columns))

    def with_boxes(self, boxes, column="geom") -> Table:
        return self.with_files(
            **{f"{column}__{axis}": [None if box is None else getattr(box, axis) for box in boxes] for axis in AXES}
        )

    def with_fields(self, *fields: Field) -> Table:
        """The table with other columns in its schema; those of these names are replaced."""
        names = {field.name for field in fields}
        kept = [field for field in self.snapshot.schema.fields if field.name not in names]
        root = attach_collations(StructType((*fields, *kept)))
        return self.changed(schema=replace(self.snapshot.schema, root=root))


def geo_stats(boxes=BOXES, *, source=BoundSource.LOG, types=None, null_count=0):
    count = len(boxes)
    return GeoStatsColumns(
        sides_of(boxes),
        pa.array([null_count] * count, pa.int64()),
        None if types is None else pa.array([types] * count, pa.list_(pa.int32())),
        source,
    )


def files(geo, *, paths=PATHS, megabytes=200, extra=None, partitions=None):
    count = len(paths)
    return FileTable.of(
        path=pa.array(paths, pa.string()),
        bytes=pa.array([megabytes * 2**20] * count, pa.int64()),
        rows=pa.array([ROWS] * count, pa.int64()),
        extra=extra,
        partitions=partitions,
        geo=geo,
    )


def truth(boxes_by_column, *, paths=PATHS, types=(3,), **more):
    """The table of row groups or of a scan that says the same as the boxes."""
    count = len(paths)
    table: dict[str, Any] = {"path": pa.array(paths, pa.string()), "rows": pa.array([ROWS] * count, pa.int64())}
    for column, boxes in boxes_by_column.items():
        for axis, sides in sides_of(boxes).items():
            table[f"{column}.{axis}"] = sides
        table[f"{column}.null_count"] = pa.array([0] * count, pa.int64())
        table[f"{column}.empty_count"] = pa.array([0] * count, pa.int64())
        table[f"{column}.types"] = pa.array([list(types)] * count, pa.list_(pa.int32()))
        table[f"{column}.srids"] = pa.array([[0]] * count, pa.list_(pa.int64()))
    return pa.table(table | more)


def footers_of(**columns):
    """The footers of all files: a column's logical type, CRS and so on, each the same in all."""
    names = ("logical_type", "crs", "algorithm", "geoparquet_crs", "created_by")
    rows = [
        {"path": path, "column": column} | {name: facts.get(name) for name in names}
        for column, facts in columns.items()
        for path in PATHS
    ]
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in ("path", "column", *names)]))


def feature(name, *, read=False, write=True):
    return Feature(name, "", needed_to_read=read, needed_to_write=write)


def delta_details(*, hints=("77.1", "78.3"), versions=("78.3",) * COUNT, mapping=ColumnMapping.NONE, name="name"):
    """The parts of a Delta table's details that the check needs; a file of no version has binary statistics."""
    texts = [json.dumps(_stats(version, name)) for version in versions]
    stats = read_stats(pa.chunked_array([texts]), None, pa.array([0] * len(texts), pa.int64()), [])
    wanted = json.dumps({"writeVersions": {"ICU.UNICODE_CI": list(hints)}})
    return DeltaDetails(
        metadata=None,
        protocol={},
        column_mapping=mapping,
        domains={"collations": wanted},
        transactions={},
        commit_info=None,
        segment=None,
        checkpoint_hint=None,
        stats=stats,
        deletion_vectors=None,
        indexed=frozenset(),
    )


def _stats(version, name):
    both = {"minValues": {name: "a"}, "maxValues": {name: "Z"}}
    # As the specification spells it, which is not as Spark does.
    collated = {} if version is None else {"statsWithCollation": {f"ICU.UNICODE_CI.{version}": both}}
    return {"numRecords": ROWS, "nullCount": {name: 0}, **both, **collated}


def collated_field(identifier="icu.UNICODE_CI", key="name", name="name"):
    return Field(name, StringType(), metadata={"__COLLATIONS": {key: identifier}})


def delta() -> Table:
    schema = Schema(
        attach_collations(StructType((Field("geom", geometry()), Field("track", geography()), collated_field())))
    )
    features = (
        feature("geospatial", read=True),
        feature("collations"),
        feature("domainMetadata"),
    )
    numbers = {"minReaderVersion": 3, "minWriterVersion": 7}
    snapshot = Snapshot(
        DELTA,
        "/data/roads",
        5,
        None,
        schema,
        Protocol("reader 3, writer 7", features, numbers),
        files({"geom": geo_stats(), "track": geo_stats()}),
        details=delta_details(),
    )
    same = {"geom": BOXES, "track": BOXES}
    logical = footers_of(
        geom={"logical_type": "GEOMETRY"}, track={"logical_type": "GEOGRAPHY", "algorithm": "SPHERICAL"}
    )
    return Table(snapshot, truth(same), logical, truth(same))


def iceberg_details(schema, *, schema_id=0):
    """The parts of an Iceberg table's details that the check needs."""
    metadata = SimpleNamespace(schemas={schema_id: schema}, current_schema_id=schema_id)
    return IcebergDetails(metadata, "", None, None, None, None, quoted_types=False, havasu_version=None)


def iceberg() -> Table:
    schema = Schema(
        StructType((Field("geom", geometry("EPSG:3857"), id=1), Field("track", geography(), id=2))), schema_id=0
    )
    metres = [Box(1e5 * index, 0.0, 1e5 * index + 8e4, 8e4) for index in range(COUNT)]
    raw = {"fields": [{"name": "geom", "type": "geometry(EPSG:3857)"}, {"name": "track", "type": "geography"}]}
    snapshot = Snapshot(
        ICEBERG,
        "/data/ways",
        77,
        None,
        schema,
        Protocol("format version 3", (), {"format-version": 3}),
        files(
            {
                "geom": geo_stats(metres, source=BoundSource.MANIFEST),
                "track": geo_stats(WRAPPED, source=BoundSource.MANIFEST),
            },
            extra={"format": pa.array(["PARQUET"] * COUNT)},
        ),
        details=iceberg_details(raw),
    )
    same = {"geom": metres, "track": WRAPPED}
    logical = footers_of(
        geom={"logical_type": "GEOMETRY", "crs": "EPSG:3857"},
        track={"logical_type": "GEOGRAPHY", "algorithm": "spherical"},
    )
    return Table(snapshot, truth(same), logical, truth(same))


HERE = GeoReference.from_affine((0.1, 0.0, 5.0, 0.0, -0.1, 8.0))
WGS84 = pyproj.CRS("EPSG:4326").to_wkt()


def good_raster(bands=2) -> Raster:
    cells = [Band(PixelType.PT_8BUI, data=bytes(6)) for _ in range(bands - 1)]
    outside = Band(PixelType.PT_8BUI, no_data=b"\x00", out_db_band_no=0, out_db_url="s3://bucket/scene.tif")
    return Raster(3, 2, (*cells, outside), WGS84, HERE)


def raster_table(rasters, *, paths=PATHS):
    return pa.table({"path": pa.array(paths), "rast": raster_facts(rasters)})


def havasu() -> Table:
    schema = Schema(
        StructType(
            (Field("geom", geometry("SRID:0", encoding="ewkb"), id=1), Field("rast", raster(), id=2)),
        ),
        schema_id=0,
    )
    snapshot = Snapshot(
        HAVASU,
        "/data/scenes",
        3,
        None,
        schema,
        Protocol("Havasu 0.1.0 on Iceberg 2", (), {"format-version": 2}),
        files(
            {
                "geom": geo_stats(source=BoundSource.MANIFEST),
                "rast": geo_stats(WRAPPED, source=BoundSource.MANIFEST),
            },
            extra={"format": pa.array(["parquet"] * COUNT)},
        ),
        properties={"havasu.format-version": "0.1.0"},
    )
    srids = pa.array([[4326]] * COUNT, pa.list_(pa.int64()))
    deep = truth({"geom": BOXES, "rast": WRAPPED}, **{"geom.srids": srids})
    rasters = rasters_to_arrow([good_raster(1 + index % 7) for index in range(COUNT - 1)] + [None])
    return Table(snapshot, truth({"geom": [None] * COUNT}), footers_of(geom={}), deep, raster_table(rasters))


def parquet() -> Table:
    schema = Schema(StructType((Field("geom", geometry()), Field("track", geography()))))
    geo = {
        "geom": geo_stats(source=BoundSource.FOOTER, types=[3, 1006]),
        "track": geo_stats(WRAPPED, source=BoundSource.COVERING),
    }
    same = {"geom": BOXES, "track": WRAPPED}
    snapshot = Snapshot(PARQUET, "/data/lakes", None, None, schema, Protocol("GeoParquet 1.1.0"), files(geo))
    crs84 = pyproj.CRS("OGC:CRS84").to_json()
    logical = footers_of(geom={"geoparquet_crs": crs84}, track={"logical_type": "GEOGRAPHY", "geoparquet_crs": crs84})
    return Table(snapshot, truth(same), logical, truth(same))


GOOD = {"delta": delta, "havasu": havasu, "iceberg": iceberg, "parquet": parquet}


def mask(*positions):
    marked = np.zeros(COUNT, np.bool_)
    marked[list(positions)] = True
    return marked


def the_finding(findings, rule):
    """The only finding there is; the fault that a test makes must not set off other rules."""
    assert [finding.rule for finding in findings] == [rule], str(findings)
    return findings[0]
