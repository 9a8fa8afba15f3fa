"""From what a user names (a path, a URL, a catalog's table, another library's object) to an open table."""

from __future__ import annotations

import operator
import os
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from geolake_nb.core.message_text import printable, url_without_secrets
from geolake_nb.errors import GeolakeError, MissingFileError, NotATableError, OpenError
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.formats.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.api.table import Table
    from geolake_nb.formats.iceberg.catalogs import CatalogTable
    from geolake_nb.formats.snapshot import Snapshot, VersionInfo
    from geolake_nb.formats.table_places import Found

__all__ = ["Source", "named_source", "new_source", "open", "whole_number"]

_METADATA_FILE = re.compile(r"metadata\.json(\.gz)?$")
_GLOB = re.compile(r"[*?\[]")
_NAME = re.compile(r"[\w-]+(\.[\w-]+){2,}")

_CHOICES = {
    TableFormat.DELTA: ("timestamp", "version"),
    TableFormat.ICEBERG: ("branch or tag", "snapshot_id", "timestamp"),
    TableFormat.PARQUET: (),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A place that holds a table, and how to read it there again at another version."""

    format: TableFormat
    """Iceberg for Havasu too: only its metadata tells them apart."""
    storage: Storage
    place: str = field(repr=False)
    """What the user named; it may hold a secret."""
    options: Mapping[str, str] = field(repr=False, default_factory=dict)
    metadata: str | None = None
    """The metadata file of an Iceberg table, where it is not to be looked for."""
    allow_unknown_features: bool = False
    catalog: CatalogTable | None = field(repr=False, default=None)
    """The catalog that knows the table, where it was found in one: changes are committed through it."""
    found: Found | None = field(repr=False, default=None)
    """What was seen when the table was looked for: good for opening it there and then, and not later."""

    def snapshot(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | None = None,
        snapshot_id: int | None = None,
        ref: str | None = None,
    ) -> Snapshot:
        """The table at the version that is asked for, or the newest one."""
        version, snapshot_id = whole_number("version", version), whole_number("snapshot_id", snapshot_id)
        asked = {"version": version, "timestamp": timestamp, "snapshot_id": snapshot_id, "branch or tag": ref}
        for name, value in asked.items():
            if value is not None and name not in _CHOICES[self.format]:
                known = ", ".join(_CHOICES[self.format])
                remedy = f"use one of: {known}" if known else "a set of files has no versions"
                raise GeolakeError(
                    f"{name} means nothing for a {self.format.value} table", where=self.storage.location, remedy=remedy
                )
        if self.format is TableFormat.DELTA:
            from geolake_nb.formats.delta.snapshot import open_delta

            return open_delta(
                self.storage,
                version=version,
                timestamp=timestamp,
                allow_unknown_features=self.allow_unknown_features,
                log=self.found.log if self.found else None,
            )
        if self.format is TableFormat.PARQUET:
            from geolake_nb.formats.parquet.files import open_parquet

            return open_parquet(self.place, options=self.options)
        from geolake_nb.formats.iceberg.snapshot import open_iceberg

        return open_iceberg(
            self.storage, metadata=self._newest_metadata(), snapshot_id=snapshot_id, timestamp=timestamp, ref=ref
        )

    def history(self, *, newest: int | None = None) -> Sequence[VersionInfo]:
        """The versions of the table, or so many of them, newest first."""
        if self.format is TableFormat.DELTA:
            from geolake_nb.formats.delta.history import delta_history

            return delta_history(self.storage, newest=newest)
        if self.format is TableFormat.PARQUET:
            return []
        from geolake_nb.formats.iceberg.snapshot import iceberg_history

        return iceberg_history(self.storage, metadata=self._newest_metadata())[::-1][:newest]

    def placed(self) -> Source:
        """The same table where its catalog has placed it, once it has been made."""
        if self.catalog is None or self.catalog.is_placed:
            return self
        return _in_catalog(self.catalog.newest(), dict(self.options))

    def _newest_metadata(self) -> str | None:
        """The metadata file, as a catalog has it now: each commit makes a new one."""
        if self.found is not None:
            return self.found.metadata
        return self.metadata if self.catalog is None else self.catalog.newest().metadata


def open(  # noqa: A001
    source: Any,
    *,
    version: int | None = None,
    timestamp: str | datetime | None = None,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_unknown_features: bool = False,
) -> Table:
    """Open a table from its metadata alone, without a JVM.

    `source` is a path, a URL, a glob of Parquet files, an Iceberg `metadata.json`, the name of a table in an Iceberg
    catalog (`catalog.namespace.table`) or in the running Spark session, a deltalake or a pyiceberg table.
    `version` is Delta's, `snapshot_id`, `branch` and `tag` are Iceberg's, `timestamp` serves both.
    `storage_options` are named as in deltalake. A Delta table with a reader feature that is not known here is refused,
    unless `allow_unknown_features`: its files and statistics may then mislead.

    >>> import tempfile
    >>> open(tempfile.mkdtemp())
    Traceback (most recent call last):
    geolake_nb.errors.NotATableError: /...: no table here: neither _delta_log/, nor Iceberg's metadata/, nor Parquet ...
    """
    from geolake_nb.api.table import Table

    if branch is not None and tag is not None:
        raise GeolakeError("both a branch and a tag are named", remedy="give one of them")
    found = replace(_find(source, dict(storage_options or {})), allow_unknown_features=allow_unknown_features)
    if version is None and type(source).__module__.startswith("deltalake"):
        version = source.version()
    snapshot = found.snapshot(
        version=version, timestamp=_time(timestamp), snapshot_id=snapshot_id, ref=branch if branch is not None else tag
    )
    return Table(snapshot, replace(found, found=None))


def whole_number(name: str, value: Any, *, remedy: str = "give one that the history of the table lists") -> int | None:
    """The number of a version, numpy's included; a text is no number, not even one of digits.

    >>> whole_number("version", 2), whole_number("version", None)
    (2, None)
    >>> whole_number("version", "2")
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: version '2' is no whole number; give one that the history of the table lists
    """
    if value is None:
        return None
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise GeolakeError(f"{name} {printable(repr(value), 60)} is no whole number", remedy=remedy)


def _time(value: str | datetime | None) -> datetime | None:
    """The time that a text means; without a zone it is UTC."""
    if value is None:
        return None
    try:
        when = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise GeolakeError(f"timestamp {value!r} is no time", remedy="write 2026-11-01T12:00:00Z") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _find(source: Any, options: dict[str, str]) -> Source:
    module = type(source).__module__
    if module.startswith("deltalake"):
        return _at(source.table_uri, options)
    if module.startswith("pyiceberg"):
        from geolake_nb.formats.iceberg.catalogs import from_pyiceberg

        return _in_catalog(from_pyiceberg(source), options)
    if not isinstance(source, str | os.PathLike):
        raise GeolakeError(
            f"a {type(source).__name__} names no table",
            remedy="give a path, a URL, a table's name, a deltalake.DeltaTable or a pyiceberg table",
        )
    return _at(os.fspath(source), options)


def _at(place: str, options: dict[str, str]) -> Source:
    from geolake_nb.formats.iceberg.location import split_metadata_path

    if _METADATA_FILE.search(place):
        root, metadata = split_metadata_path(place)
        return Source(TableFormat.ICEBERG, Storage.at(root, options=options), place, options, metadata)
    # A name may hold such a mark itself.
    if _GLOB.search(place) and not os.path.exists(place):
        return Source(TableFormat.PARQUET, Storage.at("."), place, options)
    return named_source(place, options) or _look_into(place, options)


def named_source(place: str, options: dict[str, str]) -> Source | None:
    """The table of that name in a configured catalog or in the running Spark session; `None` for a path."""
    from geolake_nb.formats.iceberg.catalogs import load_from_catalog, split_table_name
    from geolake_nb.spark.tables import find_spark_table

    if os.path.exists(place):
        return None
    named = split_table_name(place)
    if named is not None:
        return _in_catalog(load_from_catalog(*named), options)
    known = find_spark_table(place)
    if known is None:
        return None
    return _at(known.location, options) if known.iceberg is None else _in_catalog(known.iceberg, options)


def new_source(place: str, options: dict[str, str]) -> Source | None:
    """The table of that name that a configured catalog, or one of the running Spark session, is to make and to place.

    `None` for a path.
    """
    from geolake_nb.formats.iceberg.catalogs import new_in_catalog, split_table_name
    from geolake_nb.formats.storage_unplaced import unplaced
    from geolake_nb.spark.tables import new_spark_table

    if os.path.exists(place) or not _NAME.fullmatch(place):
        return None
    named = split_table_name(place)
    table = new_spark_table(place) if named is None else new_in_catalog(*named)
    if table is None:
        catalog = place.partition(".")[0]
        remedy = f"name one that the Spark session or .pyiceberg.yaml has, or write ./{place} for a folder"
        raise OpenError(f"no catalog {catalog!r} is configured", where=place, remedy=remedy)
    return Source(TableFormat.ICEBERG, unplaced(place), place, options, catalog=replace(table, options=options))


def _in_catalog(table: CatalogTable, options: dict[str, str]) -> Source:
    merged = {**table.options, **options}
    storage = Storage.at(table.root, options=merged)
    return Source(TableFormat.ICEBERG, storage, table.metadata_location, merged, table.metadata, catalog=table)


def _look_into(place: str, options: dict[str, str]) -> Source:
    from geolake_nb.formats.table_places import Found, table_at

    storage = Storage.at(place, options=options)
    found = table_at(storage)
    if found is None and _is_parquet_file(place, options):
        found = Found(TableFormat.PARQUET)
    if found is not None:
        return Source(found.format, storage, place, options, found=found)
    if storage.is_local and not os.path.exists(storage.location):
        raise MissingFileError(
            "there is nothing at this path", where=url_without_secrets(storage.location), remedy="check the path"
        )
    raise NotATableError(
        "no table here: neither _delta_log/, nor Iceberg's metadata/, nor Parquet files",
        where=url_without_secrets(storage.location),
        remedy="give the root folder of a table",
    )


def _is_parquet_file(place: str, options: dict[str, str]) -> bool:
    """Whether it is a file that is Parquet, or says so by its name: reading it tells what is wrong with it."""
    from geolake_nb.formats.parquet.files import is_parquet_place
    from geolake_nb.formats.parquet.hive_paths import is_parquet_name

    storage, name = Storage.with_file(place, options=options)
    return storage.exists(name) and (is_parquet_name(name) or is_parquet_place(storage, name))
