"""What the rules ask of one format's own details: the one place that knows where each format keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.collation_stats import COLLATIONS_DOMAIN, CollationHints, collations_in_stats
from geolake_nb.core.schema import join_path
from geolake_nb.core.type_text import is_quoted_text
from geolake_nb.core.types import StringType
from geolake_nb.errors import CollationError
from geolake_nb.formats.delta.details import DeltaDetails
from geolake_nb.formats.file_fields import geo_file_fields
from geolake_nb.formats.havasu.version import VERSION_KEY
from geolake_nb.formats.iceberg.details import IcebergDetails
from geolake_nb.formats.parquet.files import ParquetDetails
from geolake_nb.formats.parquet.footer_facts import footer_facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.core.collation import Collation
    from geolake_nb.core.types import DataType
    from geolake_nb.formats.delta.file_stats import FileStats
    from geolake_nb.formats.parquet.files import FileProblem
    from geolake_nb.formats.snapshot import Snapshot

__all__ = [
    "CollatedFiles",
    "collated_files",
    "collation_hints",
    "data_file_formats",
    "footers_at_hand",
    "havasu_version",
    "parquet_problems",
    "quoted_type_columns",
]


@dataclass(frozen=True, slots=True, eq=False)
class CollatedFiles:
    """The files that have statistics of a string column under one version of a collation."""

    column: tuple[str, ...]
    """Its path in the schema."""
    collation: Collation
    has: NDArray[np.bool_]


def collated_files(snapshot: Snapshot) -> tuple[CollatedFiles, ...]:
    """For every collated string of the schema and every collation in `statsWithCollation`, which files have it."""
    details = snapshot.details
    if not isinstance(details, DeltaDetails):
        return ()
    walk = snapshot.schema.walk_parts()
    columns = {
        parts: details.column_mapping.physical(snapshot.schema, parts)
        for parts, field in walk
        if _is_collated(field.type)
    }
    found: dict[tuple[tuple[str, ...], Collation], list[int]] = {}
    for row in _collated_rows(details.stats) if columns else ():
        stored = details.stats.object(row) or {}
        for column, physical in columns.items():
            for collation in collations_in_stats(stored, physical):
                found.setdefault((column, collation), []).append(row)
    count = len(details.stats)
    return tuple(CollatedFiles(column, collation, _marked(rows, count)) for (column, collation), rows in found.items())


def _collated_rows(stats: FileStats) -> list[int]:
    """The files that have collated statistics at all, so that no others are read one by one."""
    marked = pc.fill_null(pc.match_substring(stats.raw, "statsWithCollation"), fill_value=False).to_numpy()
    parsed = stats.parsed
    if parsed is not None and parsed.type.get_field_index("statsWithCollation") >= 0:
        held = pc.is_valid(pc.struct_field(parsed, "statsWithCollation"))
        marked = marked | pc.and_(pc.is_null(stats.raw), held).to_numpy()
    rows: list[int] = np.flatnonzero(marked).tolist()
    return rows


def _is_collated(type_: DataType) -> bool:
    return isinstance(type_, StringType) and type_.collation is not None


def _marked(rows: list[int], count: int) -> NDArray[np.bool_]:
    marked = np.zeros(count, np.bool_)
    marked[rows] = True
    return marked


def collation_hints(snapshot: Snapshot) -> CollationHints:
    """Which versions of collations the table wants statistics of; none where it does not say or cannot be read."""
    if not isinstance(snapshot.details, DeltaDetails):
        return CollationHints()
    try:
        return CollationHints.parse(snapshot.details.domains.get(COLLATIONS_DOMAIN, ""))
    except CollationError:
        return CollationHints()


def data_file_formats(snapshot: Snapshot) -> pa.Array | None:
    """The format of every data file as the manifest names it, `None` where it is not known."""
    table = snapshot.files.table
    if "format" not in table.column_names:
        return None
    chunks = table["format"].cast(pa.string()).chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


def havasu_version(snapshot: Snapshot) -> str | None:
    """The version of Havasu that the table states, `None` where it states none."""
    details = snapshot.details
    stated = details.havasu_version if isinstance(details, IcebergDetails) else None
    return stated or snapshot.properties.get(VERSION_KEY)


def footers_at_hand(snapshot: Snapshot) -> pa.Table | None:
    """What the footers of a Parquet set say of its geo columns; other formats are opened without their footers."""
    details = snapshot.details
    if not isinstance(details, ParquetDetails) or len(details.views) != len(snapshot.files):
        return None
    paths = snapshot.files.table["path"].to_pylist()
    return footer_facts(zip(paths, details.views, strict=True), snapshot.schema, geo_file_fields(snapshot))


def parquet_problems(snapshot: Snapshot) -> tuple[FileProblem, ...]:
    """What did not fit when a Parquet set was read."""
    return snapshot.details.problems if isinstance(snapshot.details, ParquetDetails) else ()


def quoted_type_columns(snapshot: Snapshot) -> tuple[str, ...]:
    """The columns of an Iceberg table whose type text has PyIceberg's quotes."""
    if not isinstance(snapshot.details, IcebergDetails):
        return ()
    metadata = snapshot.details.metadata
    schema = metadata.schemas.get(_schema_id(snapshot, metadata.current_schema_id))
    return tuple(dict.fromkeys(join_path(path) for path in _quoted(schema, ())))


def _schema_id(snapshot: Snapshot, current: int) -> int:
    return current if snapshot.schema.schema_id is None else snapshot.schema.schema_id


def _quoted(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, str) and is_quoted_text(value):
        yield path
    elif isinstance(value, Mapping):
        for field in value.get("fields") or ():
            yield from _quoted(field.get("type"), (*path, str(field.get("name"))))
        for name in ("element", "key", "value"):
            yield from _quoted(value.get(name), (*path, name))
