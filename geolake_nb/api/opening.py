"""Opens a table from a path, a URL, a name in a catalog, or another library's object."""

from __future__ import annotations

import operator
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError, MissingFileError, NotATableError, OpenError
from geolake_nb.formats.base import TableSource, VersionChoice
from geolake_nb.formats.registry import ICEBERG, PARQUET
from geolake_nb.storage.storage import Storage
from geolake_nb.text.messages import printable, url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.api.table import Table
    from geolake_nb.formats.iceberg.catalogs import CatalogTable

__all__ = ["named_source", "new_source", "open", "placed", "whole_number"]

_METADATA_FILE = re.compile(r"metadata\.json(\.gz)?$")
_GLOB = re.compile(r"[*?\[]")
_NAME = re.compile(r"[\w-]+(\.[\w-]+){2,}")


def open(  # noqa: A001
    source: Any,
    *,
    version: int | None = None,
    timestamp: str | datetime | None = None,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str | os.PathLike[str]] = (),
    allow_unknown_features: bool = False,
) -> Table:
    """Open a table from its metadata alone, without a JVM.

    `source` is a path, a URL, a glob of Parquet files, an Iceberg `metadata.json`, the name of a table in an Iceberg
    catalog (`catalog.namespace.table`) or in the running Spark session, a deltalake or a pyiceberg table.
    `version` is Delta's, `snapshot_id`, `branch` and `tag` are Iceberg's, `timestamp` serves both.
    `storage_options` are named as in deltalake. A table reads files below its own folder alone, and below the
    `allowed_roots`: a shallow clone names those of its source. A Delta table with a reader feature that is not known
    here is refused, unless `allow_unknown_features`: its files and statistics may then mislead.

    >>> import tempfile
    >>> open(tempfile.mkdtemp())
    Traceback (most recent call last):
    geolake_nb.errors.NotATableError: /...: no table here: neither _delta_log/, nor Iceberg's metadata/, nor Parquet ...
    """
    from geolake_nb.api.table import Table

    if branch is not None and tag is not None:
        raise GeolakeError("both a branch and a tag are given", remedy="give one of them")
    located = replace(_find(source, dict(storage_options or {})), allow_unknown_features=allow_unknown_features)
    if allowed_roots:
        roots = [allowed_roots] if isinstance(allowed_roots, str | os.PathLike) else allowed_roots
        located = replace(located, storage=located.storage.allowing(*[os.fspath(root) for root in roots]))
    if version is None and type(source).__module__.startswith("deltalake"):
        version = source.version()
    choice = VersionChoice(
        version=whole_number("version", version),
        timestamp=_time(timestamp),
        snapshot_id=whole_number("snapshot_id", snapshot_id),
        ref=branch if branch is not None else tag,
    )
    snapshot = located.snapshot(choice)
    return Table(snapshot, replace(located, detected=None))


def whole_number(name: str, value: Any, *, remedy: str = "give one that the history of the table lists") -> int | None:
    """The number of a version, numpy's included; a string is refused, even one of digits.

    >>> whole_number("version", 2), whole_number("version", None)
    (2, None)
    >>> whole_number("version", "2")
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: expected a whole number for version, got '2'; give one that the ...
    """
    if value is None:
        return None
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise GeolakeError(f"expected a whole number for {name}, got {printable(repr(value), 60)}", remedy=remedy)


def _time(value: str | datetime | None) -> datetime | None:
    """The time of a string; without a zone it is UTC."""
    if value is None:
        return None
    try:
        when = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise GeolakeError(f"expected a timestamp, got {value!r}", remedy="write 2026-11-01T12:00:00Z") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _find(source: Any, options: dict[str, str]) -> TableSource:
    module = type(source).__module__
    if module.startswith("deltalake"):
        return _at(source.table_uri, options)
    if module.startswith("pyiceberg"):
        from geolake_nb.formats.iceberg.catalogs import from_pyiceberg

        return _in_catalog(from_pyiceberg(source), options)
    if not isinstance(source, str | os.PathLike):
        raise GeolakeError(
            f"expected a table, got a {type(source).__name__}",
            remedy="give a path, a URL, a table's name, a deltalake.DeltaTable or a pyiceberg table",
        )
    return _at(os.fspath(source), options)


def _at(location: str, options: dict[str, str]) -> TableSource:
    from geolake_nb.formats.iceberg.location import split_metadata_path

    if _METADATA_FILE.search(location):
        root, metadata = split_metadata_path(location)
        return TableSource(ICEBERG, Storage.at(root, options=options), location, options, metadata)
    # A file name may contain such a character.
    if _GLOB.search(location) and not os.path.exists(location):
        return TableSource(PARQUET, Storage.at("."), location, options)
    return named_source(location, options) or _look_into(location, options)


def named_source(name: str, options: dict[str, str]) -> TableSource | None:
    """The table of that name in a configured catalog or in the running Spark session; `None` for a path."""
    from geolake_nb.formats.iceberg.catalogs import load_from_catalog, split_table_name
    from geolake_nb.spark.tables import find_spark_table

    if os.path.exists(name):
        return None
    named = split_table_name(name)
    if named is not None:
        return _in_catalog(load_from_catalog(*named), options)
    known = find_spark_table(name)
    if known is None:
        return None
    return _at(known.location, options) if known.iceberg is None else _in_catalog(known.iceberg, options)


def new_source(name: str, options: dict[str, str]) -> TableSource | None:
    """The table of that name that a configured catalog, or one of the running Spark session, will create.

    `None` for a path.
    """
    from geolake_nb.formats.iceberg.catalogs import new_in_catalog, split_table_name
    from geolake_nb.spark.tables import new_spark_table
    from geolake_nb.storage.pending import pending

    if os.path.exists(name) or not _NAME.fullmatch(name):
        return None
    named = split_table_name(name)
    table = new_spark_table(name) if named is None else new_in_catalog(*named)
    if table is None:
        catalog = name.partition(".")[0]
        remedy = f"name one that the Spark session or .pyiceberg.yaml has, or write ./{name} for a folder"
        raise OpenError(f"no catalog {catalog!r} is configured", where=name, remedy=remedy)
    return TableSource(ICEBERG, pending(name), name, options, catalog=replace(table, options=options))


def _in_catalog(table: CatalogTable, options: dict[str, str]) -> TableSource:
    merged = {**table.options, **options}
    storage = Storage.at(table.root, options=merged)
    return TableSource(ICEBERG, storage, table.metadata_location, merged, table.metadata, catalog=table)


def placed(source: TableSource) -> TableSource:
    """The same table where its catalog has put it, once it is created."""
    if source.catalog is None or source.catalog.has_location:
        return source
    return _in_catalog(source.catalog.newest(), dict(source.options))


def _look_into(location: str, options: dict[str, str]) -> TableSource:
    from geolake_nb.formats.detect import DetectedTable, table_at

    storage = Storage.at(location, options=options)
    detected = table_at(storage)
    if detected is None and _is_parquet_file(location, options):
        detected = DetectedTable(PARQUET)
    if detected is not None:
        return TableSource(detected.format, storage, location, options, detected=detected.detected)
    if storage.is_local and not os.path.exists(storage.location):
        raise MissingFileError(
            "there is nothing at this path", where=url_without_secrets(storage.location), remedy="check the path"
        )
    raise NotATableError(
        "no table here: neither _delta_log/, nor Iceberg's metadata/, nor Parquet files",
        where=url_without_secrets(storage.location),
        remedy="give the root folder of a table",
    )


def _is_parquet_file(location: str, options: dict[str, str]) -> bool:
    """Whether it is a Parquet file, by its content or its name; reading a bad one raises the error."""
    from geolake_nb.formats.parquet_folder.snapshot import has_parquet_files
    from geolake_nb.storage.hive_paths import is_parquet_name

    storage, name = Storage.with_file(location, options=options)
    return storage.exists(name) and (is_parquet_name(name) or has_parquet_files(storage, name))
