"""What lists the tables of a catalog: Iceberg's REST and SQL catalogs, Unity Catalog, PyIceberg, and folders."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import (
    GeolakeError,
    MissingDependencyError,
    MissingFileError,
    NotATableError,
    OpenError,
    UnsupportedTableError,
)
from geolake_nb.formats.detect import table_in_folder
from geolake_nb.formats.iceberg.catalogs import catalog_kind, from_pyiceberg, listed_table
from geolake_nb.formats.iceberg.rest_catalog import RestCatalog
from geolake_nb.formats.iceberg.sql_catalog import list_sql_tables, load_sql_table, shown_database
from geolake_nb.formats.open_source import catalog_source, source_at
from geolake_nb.formats.registry import PARQUET
from geolake_nb.formats.unity_catalog import UnityCatalog
from geolake_nb.storage.storage import Storage
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.base import TableSource

__all__ = ["CatalogEntry", "CatalogSource", "EntryKind", "FolderSource", "PyIcebergSource", "configured_source"]


class EntryKind(enum.Enum):
    """What an entry of a catalog is."""

    NAMESPACE = "namespace"
    TABLE = "table"
    FOLDER = "folder"
    """A folder that was not looked into: a table or a namespace."""


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A namespace or a table of a catalog.

    >>> CatalogEntry(("main", "roads"), EntryKind.TABLE).name
    'main.roads'
    """

    path: tuple[str, ...]
    """The levels of its namespace, and its own name."""
    kind: EntryKind
    format: str | None = None
    """The name of the format, where the catalog says it."""

    @property
    def name(self) -> str:
        """The path as it is written in a name."""
        return ".".join(self.path)


class CatalogSource(ABC):
    """A catalog as a tree of entries; it is used from several threads."""

    kind: str
    """Such as `rest`, `sql`, `unity`, `folder`."""
    name: str
    """What users call it."""
    where: str
    """Its address without secrets."""
    separator = "."

    @abstractmethod
    def children(self, path: Sequence[str] = ()) -> list[CatalogEntry]:
        """The entries right below a namespace, or at the top."""

    @abstractmethod
    def table(self, path: Sequence[str]) -> TableSource:
        """What opens the table of that path."""

    def resolved(self, entry: CatalogEntry) -> CatalogEntry:
        """The entry, where a folder was looked into."""
        return entry

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """End its connections."""


def configured_source(name: str, properties: Mapping[str, str], options: Mapping[str, str]) -> CatalogSource:
    """The catalog of properties that have a `type` or a `uri`, named as in PyIceberg.

    >>> configured_source("x", {"type": "nessie"}, {})
    Traceback (most recent call last):
    geolake_nb.errors.UnsupportedTableError: x: a catalog of type 'nessie' cannot be listed; use one of: ...
    """
    stated = properties.get("type", "").lower()
    kind = stated if stated == "unity" else catalog_kind(properties)
    if kind == "unity":
        return _UnitySource(name, properties, options)
    if kind == "rest":
        return _RestSource(name, properties, options)
    if kind == "sql":
        return _SqlSource(name, properties, options)
    if kind in ("hive", "glue", "dynamodb", "bigquery"):
        return PyIcebergSource(_load_catalog(name, properties), options)
    raise UnsupportedTableError(
        f"a catalog of type {printable(stated, 40)!r} cannot be listed",
        where=name,
        remedy="use one of: rest, sql, unity, hive, glue, dynamodb, bigquery",
    )


class _RestSource(CatalogSource):
    kind = "rest"

    def __init__(self, name: str, properties: Mapping[str, str], options: Mapping[str, str]) -> None:
        self.name, self._properties, self._options = name, dict(properties), dict(options)
        self._catalog = RestCatalog(properties)
        self.where = self._catalog.where

    def children(self, path: Sequence[str] = ()) -> list[CatalogEntry]:
        below = [CatalogEntry(levels, EntryKind.NAMESPACE) for levels in self._catalog.namespaces(path)]
        tables = self._catalog.tables(path) if path else []
        return below + [CatalogEntry((*path, table), EntryKind.TABLE) for table in tables]

    def table(self, path: Sequence[str]) -> TableSource:
        location, config = self._catalog.load_table(path)
        return catalog_source(listed_table(self.name, self._properties, path, location, config), self._options)

    def close(self) -> None:
        self._catalog.close()


class _SqlSource(CatalogSource):
    kind = "sql"

    def __init__(self, name: str, properties: Mapping[str, str], options: Mapping[str, str]) -> None:
        self.name, self._properties, self._options = name, dict(properties), dict(options)
        self.where = shown_database(properties)

    def children(self, path: Sequence[str] = ()) -> list[CatalogEntry]:
        depth, above = len(path), tuple(path)
        listed = [entry for entry in list_sql_tables(self.name, self._properties) if entry[0][:depth] == above]
        below = sorted({namespace[: depth + 1] for namespace, _ in listed if len(namespace) > depth})
        tables = [CatalogEntry((*above, name), EntryKind.TABLE) for namespace, name in listed if namespace == above]
        return [CatalogEntry(levels, EntryKind.NAMESPACE) for levels in below] + tables

    def table(self, path: Sequence[str]) -> TableSource:
        location = load_sql_table(self.name, self._properties, path)
        table = listed_table(self.name, self._properties, path, location, self._properties)
        return catalog_source(table, self._options)


class _UnitySource(CatalogSource):
    kind = "unity"

    def __init__(self, name: str, properties: Mapping[str, str], options: Mapping[str, str]) -> None:
        self.name, self._options = name, dict(options)
        self._catalog = UnityCatalog(properties)
        self.where = self._catalog.where

    def children(self, path: Sequence[str] = ()) -> list[CatalogEntry]:
        if len(path) < 2:  # two levels of namespaces, then tables
            names = self._catalog.schemas(path[0]) if path else self._catalog.catalogs()
            return [CatalogEntry((*path, name), EntryKind.NAMESPACE) for name in names]
        tables = self._catalog.tables(*path[:2])
        return [CatalogEntry((*path, name), EntryKind.TABLE, format_) for name, format_ in tables]

    def table(self, path: Sequence[str]) -> TableSource:
        location, config = self._catalog.load_table(path)
        return source_at(location, {**config, **self._options}, named=_no_name)

    def close(self) -> None:
        self._catalog.close()


class PyIcebergSource(CatalogSource):
    """A catalog of PyIceberg, which knows kinds that have no client here."""

    kind = "pyiceberg"

    def __init__(self, catalog: Any, options: Mapping[str, str]) -> None:
        self._catalog, self._options = catalog, dict(options)
        self.name = str(catalog.name)
        self.where = type(catalog).__name__

    def children(self, path: Sequence[str] = ()) -> list[CatalogEntry]:
        below = [tuple(levels) for levels in self._catalog.list_namespaces(tuple(path))]
        # Some catalogs list a namespace below itself.
        namespaces = [levels for levels in below if len(levels) == len(path) + 1]
        tables = [tuple(levels) for levels in self._catalog.list_tables(tuple(path))] if path else []
        return [CatalogEntry(levels, EntryKind.NAMESPACE) for levels in namespaces] + [
            CatalogEntry(levels, EntryKind.TABLE, "iceberg") for levels in tables
        ]

    def table(self, path: Sequence[str]) -> TableSource:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self._catalog.load_table(tuple(path))
        except NoSuchTableError:
            raise NotATableError(f"the catalog has no table {'.'.join(path)}", where=self.name) from None
        except GeolakeError:
            raise
        except Exception as problem:  # noqa: BLE001 - catalogs and parsers raise what they like
            # PyIceberg fails on types that it does not know; its texts may contain properties of the catalog.
            raise UnsupportedTableError(
                f"PyIceberg cannot load the table {'.'.join(path)}: {type(problem).__name__}",
                where=self.name,
                remedy="if it has geo columns, call geolake_nb.pyiceberg.enable() first",
            ) from None
        return catalog_source(from_pyiceberg(table), self._options)


class FolderSource(CatalogSource):
    """The tables below a folder or a prefix of a bucket; its folders are the namespaces."""

    kind = "folder"
    separator = "/"

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._root, self._options = location.rstrip("/") or "/", dict(options)
        self._storage = Storage.at(location, options=options)
        self.where = self._storage.location
        self.name = self.where

    def children(self, path: Sequence[str] = ()) -> list[CatalogEntry]:
        names = sorted(folder.rstrip("/").rpartition("/")[2] for folder in self._storage.folders("/".join(path)))
        # As in Spark and Hive, a name that begins with a dot or an underscore is hidden.
        shown = [name for name in names if name and not name.startswith((".", "_"))]
        if not path:
            self._require_catalog(shown)
        return [CatalogEntry((*path, name), EntryKind.FOLDER) for name in shown]

    def _require_catalog(self, folders: Sequence[str]) -> None:
        if self._storage.is_local and not self._storage.is_folder():
            raise MissingFileError("the folder does not exist", where=self.where, remedy="check the path")
        format_ = table_in_folder(self._storage, "")
        # Parquet files may lie beside the folders of tables.
        if format_ is not None and (format_ != PARQUET.name or not folders):
            what = "this is a table, not a folder of tables"
            raise OpenError(what, where=self.where, remedy="give it to geolake open")

    def resolved(self, entry: CatalogEntry) -> CatalogEntry:
        if entry.kind is not EntryKind.FOLDER:
            return entry
        format_ = table_in_folder(self._storage, "/".join(entry.path))
        return CatalogEntry(entry.path, EntryKind.NAMESPACE if format_ is None else EntryKind.TABLE, format_)

    def table(self, path: Sequence[str]) -> TableSource:
        return source_at("/".join([self._root.rstrip("/"), *path]), self._options, named=_no_name)


def _no_name(_: str, __: dict[str, str]) -> None:
    """A location is never looked up as the name of a table."""


def _load_catalog(name: str, properties: Mapping[str, str]) -> Any:
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError
    except ImportError:
        remedy = "run: pip install 'geolake-nb[pyiceberg]'"
        raise MissingDependencyError(f"a {properties['type']} catalog needs PyIceberg", remedy=remedy) from None
    try:
        return load_catalog(name, **properties)
    except NotInstalledError:
        kind = properties["type"]
        remedy = f"run: pip install 'pyiceberg[{kind}]'"
        raise MissingDependencyError(f"PyIceberg needs more packages for a {kind} catalog", remedy=remedy) from None
    except Exception as problem:  # noqa: BLE001 - its clients raise what they like, with the address in the text
        raise NotATableError(
            f"PyIceberg cannot connect to the catalog: {type(problem).__name__}", where=name, remedy="check its uri"
        ) from None
