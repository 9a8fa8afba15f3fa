"""A small table for every rule of the check that breaks it, and some of other formats.

The keys of `BROKEN` are the ids of rules; a word in brackets after one distinguishes its tables.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import shapely

import geolake_nb as gl
from geolake_nb.model.box import Box
from geolake_nb.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail
from geolake_nb.parquet.schema import to_arrow_type
from geolake_nb.raster_data.arrow import rasters_to_arrow
from tests.api.lying_tables import shrink_box, write_points
from tests.formats.havasu_tables import encode, geometry_entry, make_havasu_table, raster_at, raster_entry
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table, xy
from tests.oracle.thrift_tree import read_tree, write_tree
from tests.small_tables import PLACES, data, make_delta, make_parquet, shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ["BROKEN", "Broken", "repeat_types"]

ICU = "78.3"
"""The version of ICU in Spark 4.2."""


@dataclass(frozen=True)
class Broken:
    """How to make a table with the finding, and how to check for it."""

    make: Callable[[Path], object]
    options: tuple[str, ...] = ()
    """Of `geolake check`."""


def edit_log(folder: Path, change: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
    """Put other actions in the place of those in a Delta log; `change` takes the name of an action and the action."""
    for path in sorted((folder / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        after = [{name: change(name, value) for name, value in action.items()} for action in actions]
        path.write_text("\n".join(map(json.dumps, after)))


def with_protocol(*features: str, reader: int = 3, writer: int = 7, readers: Iterable[str] | None = None):
    def change(name: str, action: dict[str, Any]) -> dict[str, Any]:
        if name != "protocol":
            return action
        protocol: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
        if writer == 7:
            protocol["writerFeatures"] = list(features)
        if reader == 3:
            protocol["readerFeatures"] = list(features if readers is None else readers)
        return protocol

    return change


def with_type(text: str):
    def change(name: str, action: dict[str, Any]) -> dict[str, Any]:
        if name == "metaData":
            action["schemaString"] = action["schemaString"].replace("geometry(OGC:CRS84)", text)
        return action

    return change


def with_points(move: Callable[[Box], tuple[str, str]]):
    """Other WKT points in the statistics of the first file."""

    def change(name: str, action: dict[str, Any]) -> dict[str, Any]:
        if name == "add" and action["path"] == "part-0.parquet":
            stats = json.loads(action["stats"])
            x, y = PLACES[0]
            stats["minValues"]["geom"], stats["maxValues"]["geom"] = move(Box(x, y, x + 3, y + 3))
            action["stats"] = json.dumps(stats)
        return action

    return change


def delta(*changes: Callable[[str, dict[str, Any]], dict[str, Any]], file: pa.Table | None = None):
    """The small Delta table with these changes of its log, and this data in the place of its first file."""

    def make(folder: Path) -> None:
        make_delta(folder)
        if file is not None:
            pq.write_table(file, folder / "part-0.parquet")
        for change in changes:
            edit_log(folder, change)

    return Broken(make)


def deep(broken: Broken) -> Broken:
    return replace(broken, options=("--deep",))


def typed(wkb: Iterable[bytes | None], type_: Any = None) -> pa.Table:
    """Four rows whose geometries are of a type, or plain bytes."""
    values = pa.array(list(wkb), pa.binary())
    array = values if type_ is None else to_arrow_type(type_).wrap_array(values)
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "geom": array})


def first_wkb(**options: Any) -> list[bytes]:
    values: list[bytes] = shapely.to_wkb(shapes(PLACES[0]), **options).tolist()
    return values


def with_geoparquet(table: pa.Table, crs: str) -> pa.Table:
    entry = {"encoding": "WKB", "geometry_types": ["Point"], "crs": json.loads(pyproj.CRS(crs).to_json())}
    geo = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": entry}}
    return table.replace_schema_metadata({"geo": json.dumps(geo)})


def points(low: tuple[float, float], high: tuple[float, float]) -> tuple[str, str]:
    return f"POINT({low[0]!r} {low[1]!r})", f"POINT({high[0]!r} {high[1]!r})"


# Delta tables of names with collations.


def named(
    identifier: str | None = "icu.UNICODE_CI",
    *,
    key: str = "name",
    features: tuple[str, ...] = ("collations", "domainMetadata"),
    hints: tuple[str, ...] = (),
    stats: tuple[str, ...] = (),
) -> Broken:
    """A Delta table of names: `hints` are versions that it requests, `stats` those of which its file has statistics."""

    def make(folder: Path) -> None:
        folder.mkdir()
        pq.write_table(pa.table({"id": [1, 2], "name": ["a", "B"]}), folder / "part-0.parquet")
        collations = {} if identifier is None else {"__COLLATIONS": {key: identifier}}
        fields = [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "name", "type": "string", "nullable": True, "metadata": collations},
        ]
        ends = {"minValues": {"name": "a"}, "maxValues": {"name": "B"}}
        statistics: dict[str, Any] = {"numRecords": 2, "nullCount": {"id": 0, "name": 0}}
        statistics |= {"minValues": {"id": 1, "name": "B"}, "maxValues": {"id": 2, "name": "a"}}
        statistics |= {"statsWithCollation": {f"icu.UNICODE_CI.{version}": ends for version in stats}} if stats else {}
        actions: list[dict[str, Any]] = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(features)}},
            {
                "metaData": {
                    "id": "t",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps({"type": "struct", "fields": fields}),
                    "partitionColumns": [],
                    "configuration": {},
                }
            },
            {
                "add": {
                    "path": "part-0.parquet",
                    "partitionValues": {},
                    "size": (folder / "part-0.parquet").stat().st_size,
                    "modificationTime": 1_700_000_000_000,
                    "dataChange": True,
                    "stats": json.dumps(statistics),
                }
            },
        ]
        if hints:
            wanted = json.dumps({"writeVersions": {"icu.UNICODE_CI": list(hints)}})
            actions.append({"domainMetadata": {"domain": "collations", "configuration": wanted, "removed": False}})
        (folder / "_delta_log").mkdir()
        (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))

    return Broken(make)


# Iceberg and Havasu.


def iceberg_of(type_: str, version: int) -> Broken:
    def make(folder: Path) -> None:
        entry = FileEntry("part-0.parquet", rows=4, nulls={1: 0, 2: 0}, table=data(PLACES[0]))
        make_iceberg_table(folder, [column(1, "id", "long"), column(2, "geom", type_)], [entry], version=version)

    return Broken(make, ("--metadata-only",))


def _iceberg_of_bytes(folder: Path) -> None:
    """Its data files have no geo type, and bounds that are right."""
    (x, y), ids = PLACES[0], [{b"PARQUET:field_id": b"1"}, {b"PARQUET:field_id": b"2"}]
    table = typed(first_wkb())
    schema = pa.schema([field.with_metadata(id_) for field, id_ in zip(table.schema, ids, strict=True)])
    entry = FileEntry(
        "part-0.parquet",
        rows=4,
        nulls={1: 0, 2: 0},
        lower={2: xy(x, y)},
        upper={2: xy(x + 3, y + 3)},
        table=table.cast(schema),
    )
    make_iceberg_table(folder, [column(1, "id", "long"), column(2, "geom", "geometry")], [entry], version=3)


def havasu(*options: str, **more: Any) -> Broken:
    def make(folder: Path) -> None:
        make_havasu_table(folder, [geometry_entry("f0", shapes(PLACES[0]))], **more)

    return Broken(make, options)


def _mixed_srids(folder: Path) -> None:
    entry = geometry_entry("f0", shapes(PLACES[0]))
    assert entry.table is not None
    some = [encode(shapes(PLACES[0])[:2], "ewkb", srid=srid) for srid in (4326, 3857)]
    table = entry.table.set_column(1, entry.table.schema.field(1), pa.concat_arrays(some))
    make_havasu_table(folder, [replace(entry, table=table)])


def raster(change: Callable[[dict[str, Any]], object], *, bands: int = 1) -> Broken:
    """A Havasu table with one raster that is not as it should be."""

    def make(folder: Path) -> None:
        entry = raster_entry("r0", [raster_at(*PLACES[0], bands=bands)], None)
        assert entry.table is not None
        kind = rasters_to_arrow([]).type
        value = entry.table["rast"].to_pylist()[0]
        change(value)
        # What is declared as not null may be null in a file that breaks the rules.
        loose = pa.struct([field.with_nullable(True) for field in kind])
        raster_field = entry.table.schema.field("rast").with_type(loose)
        table = entry.table.set_column(1, raster_field, pa.array([value], loose))
        make_havasu_table(folder, [replace(entry, table=table)], encoding=None, rasters=True)

    return Broken(make, ("--deep",))


def band(**values: Any) -> Broken:
    return raster(lambda value: value["band_1"].update(values))


# Sets of Parquet files.


def footer(stats: ChunkStats) -> Broken:
    """A folder of one file whose footer has this of its geometries."""

    def make(folder: Path) -> None:
        folder.mkdir()
        path = folder / "part-0.parquet"
        pq.write_table(data(PLACES[0]), path)
        whole = path.read_bytes()
        size = int.from_bytes(whole[-8:-4], "little")
        pages, old = whole[: -8 - size], whole[-8 - size : -8]
        path.write_bytes(pages + footer_with_tail(edit_footer(old, {("geom",): LeafEdit(gl.geometry(), [stats])})))

    return Broken(make)


def parquet(*files: pa.Table) -> Broken:
    """A folder of these files."""

    def make(folder: Path) -> None:
        folder.mkdir()
        for number, table in enumerate(files):
            pq.write_table(table, folder / f"part-{number}.parquet")

    return Broken(make)


def _files_differ(folder: Path) -> None:
    make_parquet(folder)
    pq.write_table(typed(first_wkb(), gl.geometry("EPSG:3857")), folder / "part-0.parquet")


def _compacted_log(folder: Path) -> None:
    make_delta(folder)
    log = folder / "_delta_log"
    commits = [(log / f"{version:020}.json").read_text().splitlines() for version in (0, 1)]
    actions = [line for commit in commits for line in commit if "commitInfo" not in line]
    adds = [line for line in actions if '"add"' in line]
    (log / f"{0:020}.{1:020}.compacted.json").write_text("\n".join([*actions, adds[0]]))


def _missing(folder: Path) -> None:
    make_delta(folder)
    (folder / "part-1.parquet").unlink()


def _hidden_nan(folder: Path) -> None:
    folder.mkdir()
    table = data(PLACES[0]).append_column("d", pa.array([1.0, math.nan, 2.0, 3.0]))
    pq.write_table(table, folder / "part-0.parquet")


def _row_group_smaller(folder: Path) -> None:
    write_points(folder)
    shrink_box(folder / "part-1.parquet", 1, Box(23, 0, 23.5, 1))


def _untyped(folder: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(folder), typed(first_wkb()))


# Layouts.


def many(count: int, rows: int, spread: float, **properties: str) -> Broken:
    """A Delta table of so many files of random points, each as wide as `spread` degrees."""

    def make(folder: Path) -> None:
        make_delta(folder)
        draw = np.random.default_rng(7)
        template: dict[str, Any] = {}

        def keep(name: str, action: dict[str, Any]) -> dict[str, Any]:
            if name == "add":
                template.update(action)
            if name == "metaData":
                action["configuration"] = properties
            return action

        edit_log(folder, keep)
        lines = []
        for number in range(count):
            x = (number % 12) * 30.0 - 170.0 if spread < 30 else -100.0
            xy = np.array([x, -40.0]) + draw.random((rows, 2)) * spread
            table = typed(shapely.to_wkb(shapely.points(xy)), gl.geometry())
            path = f"many-{number}.parquet"
            pq.write_table(table, folder / path, use_dictionary=False, compression="none")
            low, high = points(tuple(xy.min(axis=0).tolist()), tuple(xy.max(axis=0).tolist()))
            stats = {"numRecords": rows, "nullCount": {"id": 0, "geom": 0}}
            stats |= {"minValues": {"geom": low}, "maxValues": {"geom": high}}
            size = (folder / path).stat().st_size
            lines.append(json.dumps({"add": {**template, "path": path, "size": size, "stats": json.dumps(stats)}}))
        (folder / "_delta_log" / f"{2:020}.json").write_text("\n".join(lines))

    return Broken(make)


def _geography_without_mark(folder: Path) -> None:
    make_delta(folder)
    for number, corner in enumerate(PLACES):
        wkb = shapely.to_wkb(shapes(corner)).tolist()
        pq.write_table(typed(wkb, gl.geography()), folder / f"part-{number}.parquet")
    edit_log(folder, with_type("geography(OGC:CRS84, spherical)"))


def _bounds_missing(folder: Path) -> None:
    make_delta(folder, bounds=False)


def repeat_types(path: Path) -> None:
    """List the type codes of each chunk's geospatial statistics twice, by the specification of Parquet's Thrift."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    tree = read_tree(data[-8 - length : -8])

    def changed(fields, number, change):
        return [(id_, kind, change(value) if id_ == number else value) for id_, kind, value in fields]

    def over(change):
        return lambda items: (items[0], [change(item) for item in items[1]])

    # FileMetaData 4 row_groups, RowGroup 1 columns, ColumnChunk 3 meta_data, ColumnMetaData 17 geospatial_statistics,
    # GeospatialStatistics 2 geospatial_types.
    def twice(statistics):
        return changed(statistics, 2, lambda items: (items[0], [*items[1], *items[1]]))

    def of_chunk(chunk):
        return changed(chunk, 3, lambda meta: changed(meta, 17, twice))

    tree = changed(tree, 4, over(lambda group: changed(group, 1, over(of_chunk))))
    footer = write_tree(tree)
    path.write_bytes(data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def _types_repeated(folder: Path) -> None:
    make_parquet(folder)
    repeat_types(min(folder.glob("*.parquet")))


HALF = Box(10, 50, 11, 51)
WHOLE = Box(10, 50, 13, 53)
ULP = math.nextafter(13.0, 0.0)

BROKEN: dict[str, Broken] = {
    "bounds.row_group_smaller": deep(Broken(_row_group_smaller)),
    "protocol.geo_version": delta(with_protocol(reader=1, writer=2)),
    "protocol.geo_feature": delta(with_protocol()),
    "protocol.geo_preview": delta(with_protocol("geospatial-dev")),
    "protocol.collations_feature": named(features=("domainMetadata",)),
    "protocol.collations_preview": named(features=("collations-preview", "domainMetadata")),
    "protocol.domain_metadata": named(features=("collations",)),
    "protocol.compacted_log": Broken(_compacted_log),
    "protocol.iceberg_version": iceberg_of("geometry", 2),
    "protocol.quoted_type": iceberg_of("geometry('EPSG:4326')", 3),
    "protocol.havasu_version": havasu(properties={"havasu.format-version": "0.1.9"}),
    "protocol.havasu_file_format": havasu(fault="not parquet"),
    "protocol.files_differ": Broken(_files_differ),
    "files.missing": Broken(_missing),
    "files.nan_outside_range": deep(Broken(_hidden_nan)),
    "geo.untyped_wkb": Broken(_untyped),
    "crs.property_missing": delta(with_type("geometry(projjson:local)")),
    "crs.unresolved": delta(with_type("geometry(EPSG:999999)")),
    "crs.projected_geography": delta(with_type("geography(EPSG:3857, spherical)")),
    "crs.no_logical_type": delta(file=typed(first_wkb())),
    "crs.logical_type_differs": delta(file=typed(first_wkb(), gl.geography())),
    "crs.differs_in_parquet": delta(file=typed(first_wkb(), gl.geometry("EPSG:3857"))),
    "crs.differs_in_geoparquet": delta(file=with_geoparquet(typed(first_wkb(), gl.geometry()), "EPSG:3857")),
    "crs.differs_in_values": deep(
        delta(
            file=typed(shapely.to_wkb(shapely.set_srid(shapes(PLACES[0]), 3857), include_srid=True), gl.geometry()),
        )
    ),
    "crs.mixed_srids": deep(Broken(_mixed_srids)),
    "bounds.missing": Broken(_bounds_missing),
    "bounds.malformed": delta(with_points(lambda _: ("POINT(10 50", "POINT(13 53)"))),
    "bounds.untrusted": Broken(_geography_without_mark),
    "bounds.wrapped": delta(with_points(lambda box: points((box.xmax, box.ymin), (box.xmin, box.ymax)))),
    "bounds.phantom": delta(with_points(lambda _: points((0.0, 0.0), (0.0, 0.0)))),
    "bounds.outside_crs": delta(with_points(lambda _: points((10.0, 50.0), (500.0, 500.0)))),
    "bounds.types_invalid": footer(ChunkStats(WHOLE, (1, 99), placed=4)),
    "bounds.types_repeated": Broken(_types_repeated),
    "bounds.smaller_than_footer": delta(with_points(lambda _: points((10.0, 50.0), (11.0, 51.0)))),
    "bounds.smaller_than_data": deep(footer(ChunkStats(HALF, (1,), placed=4))),
    "bounds.values_unreadable": deep(delta(file=typed([b"\x01\x01", *first_wkb()[1:]], gl.geometry()))),
    "bounds.looser_than_footer": delta(with_points(lambda _: points((0.0, 40.0), (23.0, 63.0)))),
    "bounds.rounding": deep(delta(with_points(lambda _: points((10.0, 50.0), (ULP, 53.0))))),
    "bounds.types_differ": deep(footer(ChunkStats(WHOLE, (3,), placed=4))),
    "collation.default_stored": named("spark.UTF8_BINARY"),
    "collation.version_in_schema": named(f"icu.UNICODE_CI.{ICU}"),
    "collation.unknown_provider": named("acme.LATIN"),
    "collation.unknown_name": named("ICU.en_US"),
    "collation.unknown_name (no similar name)": named("icu.KLINGON"),
    "collation.stray_key": named(key="other"),
    "collation.stale_statistics": named(hints=("77.1",)),
    "collation.version_not_hinted": named(stats=("77.1",)),
    "raster.georeference": raster(lambda value: value["geo_reference"].update(scale_x=0.0)),
    "raster.size": raster(lambda value: value.update(width=-4)),
    "raster.crs_missing": raster(lambda value: value.update(crs_wkt=None)),
    "raster.crs_unresolved": raster(lambda value: value.update(crs_wkt="my local grid")),
    "raster.pixel_type": band(pixel_type=9),
    "raster.data_size": band(data=b"abc"),
    "raster.no_data_size": band(no_data=b"abc"),
    "raster.band_count": raster(lambda value: value.update(num_bands=3)),
    "raster.out_db": band(data=None),
    "raster.mixed_pixel_types": raster(lambda value: value["band_2"].update(pixel_type=3), bands=2),
    "layout.small_files": many(12, 4, 10.0),
    "layout.large_files": many(1, 40_000, 10.0, **{"delta.targetFileSize": "100kb"}),
    "layout.overlap": many(12, 20, 80.0),
    "layout.decayed": many(24, 40, 80.0, **{"delta.targetFileSize": "2kb"}),
    "geo.untyped_wkb (parquet)": parquet(typed(first_wkb())),
    "geo.untyped_wkb (ewkb)": parquet(
        typed(shapely.to_wkb(shapely.set_srid(shapes(PLACES[0]), 4326), include_srid=True))
    ),
    "crs.differs_in_geoparquet (parquet)": parquet(with_geoparquet(typed(first_wkb(), gl.geometry()), "EPSG:3857")),
    "crs.no_logical_type (iceberg)": Broken(_iceberg_of_bytes),
}
