"""Read a hostile table in every way, and the error or finding that it has to end in."""

from __future__ import annotations

from tests.promises.bombs import WKB

# What reading each has to end in, among other things: an error of some step, or a finding. Those that only claim
# much beside what is there are read as if they did not.
_READ = r"finding: bounds\.missing  geom, 1 file"
_FOOTER = "open: CorruptTableError: .*a.parquet: the Parquet footer "
_MANIFEST = "open: CorruptTableError: .*-m0.avro: "
_DEEP_GEO = r"finding: protocol\.files_differ(.|\n)*geo: the value is nested too deeply"
_UNREADABLE = r"finding: bounds\.values_unreadable  geom, 1 file"
ENDS = {
    "delta: deep JSON in an action": "open: CorruptTableError: .*1.json, line 1: the action is not JSON: depth limit",
    "delta: deep JSON in an unknown action": "open: CorruptTableError: .*1.json, line 1: the action is not JSON: depth",
    "delta: deep JSON in an add": "preview: CorruptTableError: .*1.json: the JSON text is nested too deeply",
    "delta: deep JSON in statistics": r"finding: bounds\.malformed  geom, 1 file",
    "delta: deep JSON in a CRS": r"finding: crs\.unresolved  geom(.|\n)*nested too deeply",
    "delta: a deep schema": "open: CorruptTableError: .*the Delta schema is nested too deeply",
    "delta: numbers without end": "open: CorruptTableError: .*line 1: the action is not JSON: number is infinity",
    "delta: a version beyond all": "open: CorruptTableError: .*the log has a gap: versions 1 to 9{19}8 are missing",
    "delta: a checkpoint of a trillion rows": "open: CorruptTableError: .*the checkpoint has 1,000,000,000,000 rows",
    "delta: a checkpoint of billions of parts": _READ,
    "delta: a hint of billions of parts": _READ,
    "delta: a long text in every row of a checkpoint": (
        r"open: UnsupportedTableError: .*1.checkpoint.parquet: .* bytes of add.* decompress to "
        r"1,2\d\d,\d{3},\d{3}, over"
    ),
    "delta: a checkpoint of equal transactions": (
        "open: UnsupportedTableError: .*1.checkpoint.parquet: the small actions of the checkpoint take more than 536,8"
    ),
    "delta: a checkpoint without files": _READ,
    "delta: a checkpoint of nothing again and again": (
        "open: CorruptTableError: .*2.parquet: the checkpoint has 60,000,000 rows in"
    ),
    "delta: a checkpoint of row groups that share their bytes": (
        "open: CorruptTableError: .*2.parquet: two column chunks of its footer share bytes"
    ),
    "delta: a pipe as a hint": "open: StorageError: .*_last_checkpoint: this is a pipe",
    "delta: a pipe as a data file": "check: StorageError: .*part-0.parquet: this is a pipe",
    "parquet: two billion columns": _FOOTER + "claims more values than it has bytes",
    "parquet: two billion row groups": _FOOTER + "claims more values than it has bytes",
    "parquet: four gigabytes of text": _FOOTER + "claims more values than it has bytes",
    "parquet: a deep schema": _FOOTER + "is nested too deeply",
    "parquet: a trillion rows": _READ,
    "parquet: pages of two gigabytes": (
        "geometries: UnsupportedTableError: .*a page decompresses to 2,147,483,647 bytes"
    ),
    "parquet: a long value in every row": _READ,
    "parquet: a long beginning in every row": _READ,
    "parquet: deep JSON in the geo property": _DEEP_GEO,
    "parquet: deep JSON in a CRS": _DEEP_GEO,
    "parquet: many datums in a CRS": r"finding: crs\.unresolved  geom(.|\n)*more than 100 datums in its ensembles",
    "parquet: a long CRS": r"finding: crs\.unresolved  geom(.|\n)*a\s+CRS\s+is\s+longer\s+than\s+100000",
    **{f"wkb: {name}": _UNREADABLE for name in WKB},
    "iceberg: metadata that inflates": "open: CorruptTableError: .*the gzip metadata decompresses "
    "to more than 67108864",
    "iceberg: deep JSON in the metadata": "open: CorruptTableError: .*the table metadata is nested too deeply",
    "iceberg: a block of many records": _MANIFEST + "an Avro block of 99 bytes claims 4611686018427387904 records",
    "iceberg: a block of many bytes": _MANIFEST + "the Avro file is truncated",
    "iceberg: text of many bytes": _MANIFEST + "entry 0 has a length beyond its block",
    "iceberg: records of a byte": _MANIFEST + "an Avro block has 262144000 records of 1 values",
    "iceberg: values without bytes": _MANIFEST + "an Avro block has 100000 records of 10001 values",
    "iceberg: a list without end": _MANIFEST + "entry 0 has more counts, bounds or ids than are read",
    "iceberg: a list of many records": "open: CorruptTableError: .*a block of 99 bytes claims 1099511627776 records",
    "iceberg: a deep Avro schema": _MANIFEST + "the Avro schema is nested too deeply",
    "iceberg: a header of many pairs": _MANIFEST + "the Avro file is truncated",
    "iceberg: a block that inflates": _MANIFEST + "an Avro block of .* decompresses to more than 268435456",
    "iceberg: a block of zstandard that inflates": _MANIFEST
    + "an Avro block of .* decompresses to more than 268435456",
    "delta: a schema of many values": "open: CorruptTableError: .*the Delta schema has more than 4,000,000 values",
    "delta: statistics of many values": "repair: JsonError: the JSON text has more than 4,000,000 values",
    "iceberg: metadata of many values": (
        "open: CorruptTableError: .*v1.gz.metadata.json: the table metadata has more than 4,000,000 values"
    ),
    "iceberg: a deletion vector of many rows": (
        "preview: CorruptTableError: .*a.puffin: the deletion vector deletes rows beyond the 4 of its data file"
    ),
    "havasu: deep WKT": _UNREADABLE,
    "havasu: deep GeoJSON": _UNREADABLE,
    "havasu: a raster of a quintillion cells": r"finding: raster\.data_size  rast, 1 raster",
    "havasu: long cells in every raster": r"finding: bounds\.missing  rast, 1 file",
    "havasu: many long bands in a raster": (
        "raster: UnsupportedTableError: .*bands.list.element.data decompress to 1,34"
    ),
    "havasu: a long CRS in every raster": r"finding: raster\.crs_unresolved  rast, 1,984 rasters",
    "havasu: a long URL in every raster": "bands: UnsupportedTableError: .*the bands of the file take more than 268",
    "havasu: many rasters": "rasters: UnsupportedTableError: .*the rasters of the table take more than 1,073,741,824",
}

# Runs in a process of its own, which has loaded all there is, and forks one with little room for each table.
LOOK = r"""
import json, os, resource, signal, sys, time, traceback
import geolake_nb as gl
from geolake_nb.geo import wkb_kernel
from geolake_nb.parquet import footer_shape
from geolake_nb.formats.iceberg import avro_kernel
from geolake_nb.errors import GeolakeError
import importlib, pkgutil, pandas, pyarrow.parquet, pyarrow.json, shapely, pyproj

# Loaded before anything is split off, so that each table is measured alone.
PACKAGES = "api changes checks expressions formats geo jupyter model parquet raster_data scan storage text"
for package in PACKAGES.split():
    root = importlib.import_module(f"geolake_nb.{package}")
    for module in pkgutil.walk_packages(root.__path__, f"geolake_nb.{package}."):
        importlib.import_module(module.name)
footer_shape._compiled()
ROOM, SECONDS = int(sys.argv[2]), int(sys.argv[3])


def looks(path):
    table = gl.open(path)
    yield "print", lambda: str(table)
    yield "files", lambda: table.files.to_pandas()
    yield "check", lambda: table.check(deep=True)
    yield "row groups", lambda: table.row_groups()
    yield "explain", lambda: table.explain("ST_Intersects(geom, ST_MakeEnvelope(0, 0, 1, 1))", row_groups=True)
    yield "repair", lambda: table.plan_repair()
    yield "preview", lambda: table.plan_rewrite(cluster_by="geom").preview()
    yield "geometries", lambda: table.geometries(table.files.table["path"][0].as_py())
    yield "map", lambda: table.map().show_geometries(table.files.table["path"][0].as_py())
    yield "rasters", lambda: table.rasters()
    yield "bands", lambda: table.raster_bands(table.files.table["path"][0].as_py())
    yield "raster", lambda: gl.rasters.read(table, table.files.table["path"][0].as_py(), 40)
    yield "out-db", lambda: gl.rasters.check(table)
    yield "geojson", lambda: table.to_geojson()


def look(path, out):
    report = {"ends": [], "kinds": [], "untyped": []}
    began = time.perf_counter()

    def attempt(step, work):
        try:
            return work()
        except GeolakeError as problem:
            report["ends"].append(f"{step}: {type(problem).__name__}: {problem}"[:400])
            report["kinds"].append(type(problem).__name__)
        except Exception as problem:
            lines = traceback.format_exc().splitlines()
            report["untyped"].append(f"{step}: {problem!r}"[:200] + " | " + " ".join(lines[-8:])[:900])

    steps = looks(path)
    while True:
        name, step = attempt("open", lambda: next(steps, None)) or (None, None)
        if step is None:
            break
        result = attempt(name, step)
        if name == "check" and result is not None:
            report["ends"] += [f"finding: {finding}"[:400] for finding in result]
    report["seconds"] = time.perf_counter() - began
    os.write(out, json.dumps(report).encode())


for path in json.loads(sys.argv[1]):
    source, out = os.pipe()
    child = os.fork()
    if not child:
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, now + ROOM))
        signal.alarm(SECONDS)
        look(path, out)
        os._exit(0)
    os.close(out)
    written = b""
    while part := os.read(source, 65536):
        written += part
    os.close(source)
    _, ended, used = os.wait4(child, 0)
    report = json.loads(written) if written else {"ends": [], "kinds": [], "untyped": []}
    print(json.dumps({"path": path, "ended": ended, "peak": used.ru_maxrss * 1024, **report}), flush=True)
"""
