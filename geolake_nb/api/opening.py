"""Opens a table from a path, a URL, a name in a catalog, or another library's object."""

from __future__ import annotations

import operator
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from geolake_nb.api.vector_files import is_vector_file, not_a_table
from geolake_nb.errors import GeolakeError, NotATableError, OpenError
from geolake_nb.formats.base import TableSource, VersionChoice
from geolake_nb.formats.open_source import catalog_source, catalog_table, source_at
from geolake_nb.formats.registry import ICEBERG
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.api.table import Table

__all__ = ["named_source", "new_source", "open", "placed", "table_of", "whole_number"]

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
    follow: bool = False,
) -> Table:
    """Open a table from its metadata alone, without a JVM.

    A table reads files below its own folder alone, and below the `allowed_roots`.

    Args:
        source: a path, a URL, a glob of Parquet files, an Iceberg `metadata.json`, the name of a table in an Iceberg
            catalog (`catalog.namespace.table`) or in the running Spark session, a deltalake or a pyiceberg table; or
            the list of all Parquet files of a folder.
        version: a version of a Delta table.
        timestamp: the newest version at that time, as a datetime or as ISO 8601 text; without a zone it is UTC.
        snapshot_id: a snapshot of an Iceberg or Havasu table.
        branch: a branch of an Iceberg or Havasu table.
        tag: a tag of an Iceberg or Havasu table.
        storage_options: options of the store, named as in deltalake.
        allowed_roots: other folders whose files may be read: a shallow clone names those of its source.
        allow_unknown_features: open a Delta table with a reader feature that is not known here; its files and
            statistics may then mislead.
        follow: move to the newest version before each call; else the table stays at its version until `refresh`.

    Returns:
        The table at that version, by default the newest.

    Raises:
        NotATableError: a readable location without a table of a supported format.
        MissingFileError: nothing exists at the path.
        VersionError: the table does not have the version, snapshot, branch, tag or time.
        UnsupportedTableError: the table requires a feature that is not known here.
        CorruptTableError: the metadata of the table is broken.
        GeolakeError: both a branch and a tag, or an object that is not a table.

    Example:
        >>> gl.open("roads")
        Table('/.../roads', delta, version 1)
        >>> gl.open("roads", version=0).version
        0
        >>> import tempfile
        >>> gl.open(tempfile.mkdtemp())
        Traceback (most recent call last):
        geolake_nb.errors.NotATableError: /...: no table here: neither _delta_log/, nor Iceberg's ...
    """
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
    if not follow:
        return table_of(located, choice)
    from geolake_nb.api.following import FollowingTable

    if any(given is not None for given in (version, timestamp, snapshot_id, branch, tag)):
        raise GeolakeError("a version and follow=True are given", remedy="leave one of them out")
    return FollowingTable(located.snapshot(choice), replace(located, detected=None))


def table_of(source: TableSource, choice: VersionChoice | None = None) -> Table:
    """The table of a source, by default at its newest version."""
    from geolake_nb.api.table import Table

    return Table(source.snapshot(choice), replace(source, detected=None))


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
        return source_at(source.table_uri, options, named=named_source)
    if module.startswith("pyiceberg"):
        from geolake_nb.formats.iceberg.catalogs import from_pyiceberg

        return catalog_source(from_pyiceberg(source), options)
    if module.startswith(("geopandas", "pandas", "pyarrow", "polars", "pyspark")) or is_vector_file(source):
        raise not_a_table(source)
    if isinstance(source, list | tuple) and source and all(isinstance(file, str | os.PathLike) for file in source):
        return source_at(_folder_of([os.fspath(file) for file in source]), options, named=named_source)
    if not isinstance(source, str | os.PathLike):
        raise GeolakeError(
            f"expected a table, got a {type(source).__name__}",
            remedy="give a path, a URL, a table's name, a deltalake.DeltaTable or a pyiceberg table",
        )
    return source_at(os.fspath(source), options, named=named_source)


def _folder_of(files: list[str]) -> str:
    """The folder whose Parquet files are exactly these."""
    import glob

    folders = {os.path.dirname(file) or "." for file in files}
    folder = folders.pop()
    listed = {os.path.abspath(file) for file in glob.glob(os.path.join(glob.escape(folder), "*.parquet"))}
    if folders or listed != {os.path.abspath(file) for file in files}:
        raise NotATableError(
            "a list of files is a table only where it is all Parquet files of a folder",
            remedy="give the folder, or a glob such as 'data/part-*.parquet'",
        )
    return folder


def named_source(name: str, options: dict[str, str]) -> TableSource | None:
    """The table of that name in a configured catalog or in the running Spark session; `None` for a path."""
    from geolake_nb.spark.tables import find_spark_table

    listed = catalog_table(name, options)
    if listed is not None or os.path.exists(name):
        return listed
    known = find_spark_table(name)
    if known is None:
        return None
    return (
        source_at(known.location, options, named=named_source)
        if known.iceberg is None
        else catalog_source(known.iceberg, options)
    )


def new_source(name: str, options: dict[str, str]) -> TableSource | None:
    """The table of that name that a configured catalog, or one of the running Spark session, will create.

    `None` for a path.
    """
    from geolake_nb.formats.iceberg.catalogs import new_in_catalog, split_table_name
    from geolake_nb.spark.tables import new_spark_table
    from geolake_nb.storage.storage import pending

    if os.path.exists(name) or not _NAME.fullmatch(name):
        return None
    named = split_table_name(name)
    table = new_spark_table(name) if named is None else new_in_catalog(*named)
    if table is None:
        catalog = name.partition(".")[0]
        remedy = f"name one that the Spark session or .pyiceberg.yaml has, or write ./{name} for a folder"
        raise OpenError(f"no catalog {catalog!r} is configured", where=name, remedy=remedy)
    return TableSource(ICEBERG, pending(name), name, options, catalog=replace(table, options=options))


def placed(source: TableSource) -> TableSource:
    """The same table where its catalog has put it, once it is created."""
    if source.catalog is None or source.catalog.has_location:
        return source
    return catalog_source(source.catalog.newest(), dict(source.options))
