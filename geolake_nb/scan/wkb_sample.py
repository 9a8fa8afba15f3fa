"""Which binary columns contain WKB, from a few values of one data file, whatever the size of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import CrsError, GeolakeError
from geolake_nb.geo.wkb_scan import Scan
from geolake_nb.model.box import Box
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, Crs
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import GeometryType, ListType, MapType, PrimitiveType
from geolake_nb.parquet.opening import column_leaves, first_values, open_parquet_file
from geolake_nb.scan.data_files import data_key, leaf_values, parts_in_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["WkbColumn", "WkbSample", "binary_columns", "sample_wkb"]

_MAX_FILES = 3
_MAX_ROWS = 256
_MAX_COLUMNS = 20
_DEGREES = Box(-180.0, -90.0, 180.0, 90.0)


@dataclass(frozen=True, slots=True)
class WkbColumn:
    """A binary column whose sampled values are all valid WKB."""

    path: str
    values: int
    """How many values were sampled."""
    srids: tuple[int, ...] = ()
    """The minimum and maximum SRID of EWKB values; one if they are the same, none if no value has one."""
    in_degrees: bool = False
    """Whether all coordinates could be longitudes and latitudes."""
    is_iso: bool = True
    """Whether the values are ISO WKB, which Parquet's geo types require, and not EWKB."""

    @property
    def type(self) -> GeometryType | None:
        """The type that fits the sample: its SRID is stored, degrees are a guess; `None` for several SRIDs.

        >>> WkbColumn("geom", 9, in_degrees=True).type.crs, WkbColumn("geom", 9, (25832,)).type.crs
        (Crs('OGC:CRS84'), Crs('EPSG:25832'))
        >>> WkbColumn("geom", 9).type.crs, WkbColumn("geom", 9, (4326, 25832)).type
        (Crs('SRID:0'), None)
        """
        srids = [number for number in self.srids if number > 0]
        if len(self.srids) > 1:
            return None
        if srids:
            return GeometryType(_crs_of(srids[0]))
        return GeometryType(CRS84 if self.in_degrees else UNKNOWN_CRS)


@dataclass(frozen=True, slots=True)
class WkbSample:
    """The result of sampling the binary columns of a table."""

    columns: tuple[WkbColumn, ...] = ()
    unread: tuple[str, ...] = ()
    """The binary columns without a value, or whose values could not be read."""


def binary_columns(snapshot: Snapshot) -> list[str]:
    """The paths of binary columns with one value per row."""
    paths: list[str] = []
    repeated: set[tuple[str, ...]] = set()
    for parts, field in snapshot.schema.walk_parts():
        if parts[:-1] in repeated or isinstance(field.type, ListType | MapType):
            repeated.add(parts)
        elif field.type == PrimitiveType("binary") and parts[0] not in snapshot.partition_columns:
            paths.append(join_path(parts))
    return paths


def sample_wkb(storage: Storage, snapshot: Snapshot) -> WkbSample:
    """Which binary columns contain WKB, from a few values of one data file, or of three if it has none.

    A file that cannot be read is skipped: this is a hint, and never a reason to fail.
    """
    # Havasu stores its geometries in binary columns, which its schema declares.
    wanted = binary_columns(snapshot)[:_MAX_COLUMNS] if snapshot.format.infers_binary_geometry else []
    columns: list[WkbColumn] = []
    files = len(snapshot.files)
    for position in sorted({number * files // _MAX_FILES for number in range(_MAX_FILES)} if files else ()):
        if not wanted:
            break
        try:
            scans = _scan_file(storage, snapshot, position, wanted)
        except GeolakeError:
            continue
        columns += [_column(path, values, scan) for path, (values, scan) in scans.items() if not scan.bad_count]
        wanted = [path for path in wanted if path not in scans]
    return WkbSample(tuple(columns), tuple(wanted))


def _scan_file(
    storage: Storage, snapshot: Snapshot, position: int, columns: Sequence[str]
) -> dict[str, tuple[pa.Array, Scan]]:
    """The columns with values in the file, and the scan of these."""
    key = data_key(snapshot, position)
    scans: dict[str, tuple[pa.Array, Scan]] = {}
    # Pages are fetched in small chunks: a column chunk may be as large as its file.
    with open_parquet_file(storage, key, buffer_size=1 << 18, pre_buffer=False) as file:
        for column in columns:
            parts = parts_in_file(file, snapshot, column, where=f"{storage.location}/{key}")
            values = None if parts is None else _values(file, ".".join(parts))
            if values is not None and len(values):
                scan = Scan()
                scan.add(values)
                scans[column] = values, scan
    return scans


def _values(file: pq.ParquetFile, path: str) -> pa.Array | None:
    leaves = column_leaves(file, [path])
    if len(leaves) != 1 or file.metadata.schema.column(leaves[0]).physical_type != "BYTE_ARRAY":
        return None
    read = first_values(file, path, rows=_MAX_ROWS)
    if not read:
        return None
    there = leaf_values(pa.chunked_array(read)).drop_null()
    return pa.concat_arrays([chunk.cast(pa.large_binary()) for chunk in there.chunks])


def _column(path: str, values: pa.Array, scan: Scan) -> WkbColumn:
    box = scan.box
    in_degrees = box is not None and _DEGREES.contains(Box(box.xmin, box.ymin, box.xmax, box.ymax))
    return WkbColumn(path, scan.rows, scan.srids, in_degrees, not any(map(_is_ewkb, values.to_pylist())))


def _is_ewkb(value: bytes) -> bool:
    """Whether the type of a geometry has EWKB's flags for Z, M or an SRID."""
    return bool(int.from_bytes(value[1:5], "little" if value[0] else "big") & 0xE0000000)


def _crs_of(srid: int) -> Crs:
    try:
        code = Crs(f"EPSG:{srid}")
        code.to_pyproj()
    except CrsError:
        return Crs(f"srid:{srid}")
    return code
