"""The table at a location or of a name in a catalog, found without Spark."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from geolake_nb.errors import MissingFileError, NotATableError
from geolake_nb.formats.base import TableSource
from geolake_nb.formats.registry import ICEBERG, PARQUET
from geolake_nb.storage.storage import Storage
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.formats.iceberg.catalogs import CatalogTable

    NamedSource = Callable[[str, dict[str, str]], TableSource | None]

__all__ = ["catalog_source", "catalog_table", "source_at"]

_METADATA_FILE = re.compile(r"metadata\.json(\.gz)?$")
_GLOB = re.compile(r"[*?\[]")


def catalog_table(name: str, options: dict[str, str]) -> TableSource | None:
    """The table of that name in a configured catalog; `None` for a path, and for the name of another catalog."""
    from geolake_nb.formats.iceberg.catalogs import load_from_catalog, split_table_name

    named = None if os.path.exists(name) else split_table_name(name)
    return None if named is None else catalog_source(load_from_catalog(*named), options)


def source_at(location: str, options: dict[str, str], *, named: NamedSource = catalog_table) -> TableSource:
    """The table at a path, a URL or a glob pattern, or the one that `named` finds by its name.

    >>> source_at("/nowhere", {})
    Traceback (most recent call last):
    geolake_nb.errors.MissingFileError: /nowhere: there is nothing at this path; check the path
    """
    from geolake_nb.formats.iceberg.location import split_metadata_path

    if _METADATA_FILE.search(location):
        root, metadata = split_metadata_path(location)
        return TableSource(ICEBERG, Storage.at(root, options=options), location, options, metadata)
    # A file name may contain such a character.
    if _GLOB.search(location) and not os.path.exists(location):
        return TableSource(PARQUET, Storage.at("."), location, options)
    return named(location, options) or _look_into(location, options)


def catalog_source(table: CatalogTable, options: dict[str, str]) -> TableSource:
    """The table that a catalog lists."""
    merged = {**table.options, **options}
    storage = Storage.at(table.root, options=merged)
    return TableSource(ICEBERG, storage, table.metadata_location, merged, table.metadata, catalog=table)


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
