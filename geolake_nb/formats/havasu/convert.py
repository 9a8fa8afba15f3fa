"""The rows of a Havasu table for a new table of another format: its geo columns, their CRSs, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from geolake_nb.changes.column_types import through_structs
from geolake_nb.changes.new_table import NewTable
from geolake_nb.changes.write_job import IcebergRows
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.havasu.write_target import crs_property
from geolake_nb.formats.iceberg.deleted_rows import data_file_rows
from geolake_nb.formats.iceberg.live_rows import RowReader
from geolake_nb.formats.iceberg.schema import name_mapping
from geolake_nb.formats.parquet_folder.write import require_apart
from geolake_nb.geo.encodings import srid_of, to_iso_wkb
from geolake_nb.geo.wkb_scan import Scan
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, Crs
from geolake_nb.model.schema import Schema, join_path, split_path
from geolake_nb.model.types import GeometryEncoding, GeometryType, RasterType, StructType

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from geolake_nb.changes.write_job import Packing
    from geolake_nb.formats.iceberg.snapshot import IcebergDetails
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import GeoType
    from geolake_nb.storage.storage import Storage

__all__ = ["kept_columns", "known_columns", "new_table_of"]

_LOOKED_AT = 50
"""How many files are looked into for the SRID of their values; the job compares it with that of every value."""


def new_table_of(
    snapshot: Snapshot,
    storage: Storage,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
    leave_out: Collection[str] = (),
) -> NewTable:
    """A new table with the live rows of a Havasu table, which stays unchanged; `storage` reads its files.

    Without `partition_by`, the columns that partition it by their values partition the new one too.
    """
    require_apart(snapshot.location, target.location)
    schema = kept_columns(snapshot, leave_out)
    for path, column in schema.walk_parts():
        if isinstance(column.type, GeometryType) and not through_structs(schema, path):
            what = "geometries inside lists and maps are not converted"
            raise SchemaError(what, where=f"{snapshot.location}, column {join_path(path)}", remedy="leave it out")
    types, notes = known_columns(snapshot, storage, schema, columns)
    details: IcebergDetails = snapshot.details
    fields = details.specs[details.metadata.default_spec_id].fields
    names = {column.id: join_path(path) for path, column in schema.walk_parts() if len(path) == 1}
    identity = [
        names[field.source_id] for field in fields if field.transform == "identity" and field.source_id in names
    ]
    other = [field.describe(names.get(field.source_id, "?")) for field in fields if field.transform != "identity"]
    if other and not partition_by:
        notes.append(f"The new table is not partitioned by {', '.join(other)}: only --in-place keeps transforms.")
    return NewTable(
        IcebergRows(snapshot, storage=storage, expected=_live_rows(snapshot)),
        schema,
        target,
        types,
        tuple(partition_by) or tuple(identity),
        packing,
        properties,
        source=snapshot.location,
        notes=(*notes, f"The table {snapshot.location} stays as it is; its history stays there."),
    )


def _live_rows(snapshot: Snapshot) -> int | None:
    """How many rows are written; `None` where only the delete files determine it."""
    if snapshot.details.uncounted_deletes:
        return None
    return int(pc.sum(snapshot.files.table["rows"], min_count=0).as_py())


def kept_columns(snapshot: Snapshot, leave_out: Collection[str]) -> Schema:
    """The columns without those that are left out; rasters have to be."""
    names = [field.name for field in snapshot.schema.fields]
    for name in leave_out:
        if name not in names:
            known = ", ".join(names)
            raise SchemaError(f"no column {name!r} to leave out", where=snapshot.location, remedy=f"columns: {known}")
    fields = tuple(field for field in snapshot.schema.fields if field.name not in set(leave_out))
    schema = replace(snapshot.schema, root=StructType(fields))
    rasters = [path for path, field in schema.geo_columns() if isinstance(field.type, RasterType)]
    if rasters:
        tops = " ".join(f"--leave-out {split_path(path)[0]}" for path in rasters)
        raise RefusedError(
            f"the column {rasters[0]!r} holds rasters, and no other format has them",
            where=snapshot.location,
            remedy=f"leave it out with {tops}",
        )
    return schema


def known_columns(
    snapshot: Snapshot, storage: Storage, schema: Schema, given: Mapping[str, GeoType]
) -> tuple[dict[str, GeoType], list[str]]:
    """The type of each geometry: the user's, else by the SRIDs of its values; a sentence on each of unknown CRS."""
    types: dict[str, GeoType] = dict(given)
    notes: list[str] = []
    unknown = [
        (path, field)
        for path, field in schema.geo_columns()
        if path not in types and isinstance(field.type, GeometryType)
    ]
    srids = _srids(snapshot, storage, schema, [path for path, field in unknown if _has_srids(field.type)])
    for path, field in unknown:
        assert isinstance(field.type, GeometryType)
        numbers = srids.get(path, set())
        if len(numbers) > 1:
            listed = ", ".join(str(number) for number in sorted(numbers))
            raise RefusedError(
                f"values have the SRIDs {listed}, and a column of Iceberg has one CRS",
                where=f"{snapshot.location}, column {path}",
                remedy="rewrite the values in one CRS first",
            )
        crs = Crs.parse(snapshot.properties.get(crs_property(path), UNKNOWN_CRS))
        if numbers:
            (number,) = numbers
            crs = CRS84 if number == srid_of(CRS84) else Crs(f"srid:{number}")
        elif crs.is_unknown:
            declare = f"--column '{path}=geometry(OGC:CRS84)'"
            notes.append(
                f"The column {path!r} has no CRS: its values name none. Declare it with {declare} if you know."
            )
        types[path] = GeometryType(crs, field.type.encoding)
    return types, notes


def _has_srids(type_: object) -> bool:
    return isinstance(type_, GeometryType) and type_.encoding is GeometryEncoding.EWKB


def _srids(snapshot: Snapshot, storage: Storage, schema: Schema, columns: Sequence[str]) -> dict[str, set[int]]:
    """The SRIDs of the first values in some of the files; 0 is none."""
    numbers: dict[str, set[int]] = {path: set() for path in columns}
    tops = {split_path(path)[0] for path in columns}
    if not tops:
        return numbers
    narrow = Schema(StructType(tuple(field for field in schema.fields if field.name in tops)))
    files = data_file_rows(snapshot, None)
    reader = RowReader(storage, narrow, name_mapping(snapshot))
    for index in np.unique(np.linspace(0, max(0, len(files) - 1), _LOOKED_AT).astype(int)).tolist() if files else []:
        batch = next(reader.read(files[index]), None)
        if batch is None:
            continue
        for path in columns:
            values = batch.column(split_path(path)[0])
            for name in split_path(path)[1:]:
                values = values.flatten()[values.type.get_field_index(name)]
            scan = Scan()
            _, readable = scan.add_with_boxes(values)
            iso = to_iso_wkb(pc.if_else(readable, values, None) if scan.bad_count else values)
            numbers[path] |= {number for number in iso.srids if number}
    return numbers
