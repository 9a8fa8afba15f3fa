"""A catalog: its tables as a tree, what is known of each, one map of all, and one check of all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from geolake_nb.api.catalog_details import TableDetails, details_table, read_details
from geolake_nb.errors import GeolakeError, NotATableError
from geolake_nb.formats.catalog_sources import CatalogEntry, EntryKind, FolderSource, PyIcebergSource, configured_source
from geolake_nb.formats.iceberg.catalogs import configured_catalogs
from geolake_nb.model.box import Box
from geolake_nb.model.display import Displayable, LiveDisplayable
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    import pyarrow as pa

    from geolake_nb.api.table import Table
    from geolake_nb.checks.finding import Findings
    from geolake_nb.formats.catalog_sources import CatalogSource
    from geolake_nb.jupyter.catalog_map import ExtentMap
    from geolake_nb.text.messages import Progress

__all__ = ["Catalog", "CatalogReport", "catalog"]

KINDS = ("rest", "sql", "unity", "hive", "glue", "dynamodb", "bigquery")
_SHOWN = 40


def catalog(source: Any, *, storage_options: Mapping[str, str] | None = None, **properties: str) -> Catalog:
    """Connect to a catalog; its tables are listed as they are asked for.

    Args:
        source: the kind of a catalog (`rest`, `sql`, `unity`, `hive`, `glue`), with its `properties`; the name of one
            in `.pyiceberg.yaml` or the environment; a folder or the prefix of a bucket; a Spark session; or a catalog
            of PyIceberg.
        storage_options: options of the store where the tables are, named as in deltalake.
        properties: properties of the catalog, named as in PyIceberg: `uri`, `warehouse`, `token`, `credential`; those
            with dots in their names, such as `s3.endpoint`, from a dict.

    Returns:
        The catalog.

    Raises:
        OpenError: no such catalog is configured, or a property is missing.
        MissingFileError: nothing exists at the path.
        NotATableError: PyIceberg cannot connect.
        UnsupportedTableError: a kind of catalog that cannot be listed.
        MissingDependencyError: the catalog needs a package that is not installed.

    Example:
        >>> c = gl.catalog(".")
        >>> c.tables()
        ['parcels', 'places', 'roads', 'scenes']
        >>> c.open("roads").version
        1
    """
    return Catalog(_source_of(source, dict(storage_options or {}), properties), dict(storage_options or {}))


def _source_of(source: Any, options: dict[str, str], properties: Mapping[str, str]) -> CatalogSource:
    module = type(source).__module__
    if module.startswith("pyspark."):
        from geolake_nb.spark.catalog_source import SparkSource

        return SparkSource(source, options)
    if hasattr(source, "list_namespaces") and hasattr(source, "list_tables"):
        return PyIcebergSource(source, options)
    if not isinstance(source, str | os.PathLike):
        raise GeolakeError(
            f"expected a catalog, got a {type(source).__name__}",
            remedy="give a kind such as 'rest' with uri=, a configured name, a folder, or a Spark session",
        )
    name = os.fspath(source)
    configured = configured_catalogs()
    stated = {str(key): str(value) for key, value in properties.items()}
    if name.lower() in configured:
        return configured_source(name, {**configured[name.lower()], **stated}, options)
    if name in KINDS:
        return configured_source(stated.get("name", name), {"type": name, **stated}, options)
    if stated:
        raise GeolakeError(
            f"no catalog {printable(name, 60)!r} is configured, and it is not a kind of catalog",
            remedy=f"use one of: {', '.join(KINDS)}; configured: {', '.join(sorted(configured)) or 'none'}",
        )
    return FolderSource(name, options)


class Catalog(LiveDisplayable):
    """The tables of a catalog. In a notebook it is a tree with a search field, and a map of all extents.

    Example:
        >>> c = gl.catalog(".")
        >>> c.details().column("files").to_pylist()
        [3, 1, 3, 3]
    """

    def __init__(self, source: CatalogSource, options: Mapping[str, str]) -> None:
        self.source = source
        self._options = dict(options)
        self._details: dict[tuple[str, ...], TableDetails] | None = None
        """Those of all tables, once they were read to the end."""

    def __repr__(self) -> str:
        return f"Catalog({self.source.kind}, {printable(self.source.where)!r})"

    def __str__(self) -> str:
        entries = self.children()
        lines = [f"{self.source.kind} catalog {printable(self.source.where)}"]
        lines += [f"  {printable(entry.path[-1])}{_mark(entry)}" for entry in entries[:_SHOWN]]
        if len(entries) > _SHOWN:
            lines.append(f"  and {len(entries) - _SHOWN:,} more")
        if not entries:
            lines.append("  empty")
        return "\n".join(lines)

    def children(self, namespace: str | Sequence[str] = ()) -> list[CatalogEntry]:
        """The namespaces and tables right below a namespace; a folder that was not looked into is one of both.

        Args:
            namespace: a name such as `main.roads`, its levels as a sequence, or a folder; the top by default.

        Returns:
            The entries, in the order of the catalog.

        Raises:
            StorageError: the catalog does not respond, or does not permit it.

        Example:
            >>> [entry.name for entry in gl.catalog(".").children()]
            ['parcels', 'places', 'roads', 'scenes']
        """
        return self.source.children(self.path_of(namespace))

    def tables(self, pattern: str = "*") -> list[str]:
        """The names of all tables, found by walking every namespace.

        Args:
            pattern: only names that match it, in which `*` stands for any text.

        Returns:
            The names, sorted; `open` takes them.

        Raises:
            StorageError: the catalog does not respond, or does not permit it.

        Example:
            >>> gl.catalog(".").tables("s*")
            ['scenes']
        """
        names = (self.name_of(entry.path) for entry in self.walk())
        return sorted(name for name in names if fnmatchcase(name, pattern))

    def walk(self, namespace: str | Sequence[str] = ()) -> Iterator[CatalogEntry]:
        """The entries of all tables in and below a namespace.

        Args:
            namespace: where to begin; the top by default.

        Returns:
            An iterator of entries, which asks the catalog as it goes.

        Raises:
            StorageError: the catalog does not respond, or does not permit it.

        Example:
            >>> [(entry.name, entry.format) for entry in gl.catalog(".").walk()]
            [('parcels', 'parquet'), ('places', 'delta'), ('roads', 'delta'), ('scenes', 'iceberg')]
        """
        for entry in self.children(namespace):
            resolved = self.source.resolved(entry)
            if resolved.kind is EntryKind.TABLE:
                yield resolved
            else:
                yield from self.walk(resolved.path)

    def open(self, name: str | Sequence[str]) -> Table:
        """Open a table of the catalog.

        Args:
            name: the name of a table, as `tables` lists it, or its levels.

        Returns:
            The table at its newest version.

        Raises:
            NotATableError: the catalog has no such table.
            OpenError: the table cannot be opened.

        Example:
            >>> gl.catalog(".").open("roads")
            Table('/.../roads', delta, version 1)
        """
        from geolake_nb.api.opening import table_of

        path = self.path_of(name)
        if not path:
            raise NotATableError("expected the name of a table", where=self.source.where)
        return table_of(self.source.table(path))

    def details(
        self,
        namespace: str | Sequence[str] = (),
        *,
        on_progress: Progress | None = None,
        cancelled: threading.Event | None = None,
    ) -> pa.Table:
        """What is known of each table, from its metadata: files, rows, bytes, bounds, extent, findings.

        Tables are opened side by side, with at most 16 requests in flight; one that cannot be opened has the reason in
        the column `problem`.

        Args:
            namespace: only the tables in and below it.
            on_progress: called with the number of tables that are done and that of those that are known.
            cancelled: an event that ends the reading; what is known so far is returned.

        Returns:
            One row per table: `table, format, location, geo_columns, files, rows, bytes, coverage` (the share of files
            with usable bounds), `share_read` (of the bytes, by a query), `last_change, errors, warnings, xmin, ymin,
            xmax, ymax` (in degrees; xmin > xmax crosses the antimeridian) and `problem`.

        Raises:
            StorageError: the catalog does not respond, or does not permit it.

        Example:
            >>> gl.catalog(".").details().select(["table", "files", "coverage"]).to_pylist()[2]
            {'table': 'roads', 'files': 3, 'coverage': 0.0}
        """
        read = self.iter_details(namespace, on_progress=on_progress, cancelled=cancelled)
        return details_table(read, separator=self.source.separator)

    def iter_details(
        self,
        namespace: str | Sequence[str] = (),
        *,
        on_progress: Progress | None = None,
        cancelled: threading.Event | None = None,
    ) -> Iterator[TableDetails]:
        """The details of each table as soon as they are known.

        Args:
            namespace: only the tables in and below it.
            on_progress: as in `details`.
            cancelled: as in `details`.

        Returns:
            An iterator of details, in the order in which they are read.

        Raises:
            StorageError: the catalog does not respond, or does not permit it.

        Example:
            >>> sorted(entry.path for entry in gl.catalog(".").iter_details())
            [('parcels',), ('places',), ('roads',), ('scenes',)]
        """
        read = read_details(
            self.source, self.children(namespace), self.open, on_progress=on_progress, cancelled=cancelled
        )
        return read if self.path_of(namespace) else self._kept(read, cancelled)

    def to_pandas(self) -> pd.DataFrame:
        """The details of all tables as a data frame.

        Returns:
            A frame with the columns of `details`.

        Raises:
            StorageError: the catalog does not respond, or does not permit it.

        Example:
            >>> gl.catalog(".").to_pandas()["format"].tolist()
            ['parquet', 'delta', 'delta', 'havasu']
        """
        return self._known_details().to_pandas()

    def tables_in(self, window: Any) -> list[str]:
        """The tables whose extent overlaps a window; one without bounds may hold data anywhere, and is not listed.

        Args:
            window: xmin, ymin, xmax, ymax in degrees, a `Box`, or a shapely geometry; xmin > xmax crosses the
                antimeridian.

        Returns:
            The names of the tables, sorted.

        Raises:
            GeolakeError: not a window.

        Example:
            >>> gl.catalog(".").tables_in([5, 45, 12, 52])
            ['parcels']
        """
        wanted = _window(window)
        rows = self._known_details().select(["table", "xmin", "ymin", "xmax", "ymax"]).to_pylist()
        return [
            row["table"]
            for row in rows
            if row["xmin"] is not None and Box(row["xmin"], row["ymin"], row["xmax"], row["ymax"]).intersects(wanted)
        ]

    def map(self, *, color: str = "coverage", height: int = 420) -> ExtentMap:
        """One map of all tables: each has its extent, coloured by how much of it has bounds, or by format.

        Args:
            color: `coverage`, `format`, `files`, `rows`, `bytes` or `last_change`.
            height: of the map, in pixels.

        Returns:
            A map; a window that is drawn lists the tables that hold data there, `selected` has the chosen ones.

        Raises:
            StorageError: the catalog does not respond, or does not permit it.

        Example:
            >>> m = gl.catalog(".").map()
            >>> m.item_count, m.noun
            (4, 'tables')
        """
        from geolake_nb.jupyter.catalog_map import ExtentMap

        return ExtentMap(self, self._known_details(), color=color, height=height)

    def check(self, *, on_progress: Progress | None = None) -> CatalogReport:
        """Check the metadata of all tables: one report, the worst tables first.

        Args:
            on_progress: called with the number of tables that are done and that of those that are known.

        Returns:
            The report, with the findings of each table.

        Raises:
            StorageError: the catalog does not respond, or does not permit it.

        Example:
            >>> report = gl.catalog(".").check()
            >>> report.exit_code(), [table.path for table in report.tables if table.warnings]
            (1, [('roads',), ('scenes',)])
        """
        findings: dict[tuple[str, ...], Findings] = {}

        def keep(details: TableDetails, known: Findings | None) -> None:
            if known is not None:
                findings[details.path] = known

        read = read_details(self.source, self.children(), self.open, on_progress=on_progress, take=keep)
        tables = sorted(read, key=_worst_first)
        return CatalogReport(self.source.where, self.source.separator, tuple(tables), findings)

    def path_of(self, name: str | Sequence[str]) -> tuple[str, ...]:
        """The levels of a name.

        Args:
            name: a name, in which dots (in folders slashes) divide the levels, or the levels.

        Returns:
            The levels.

        Example:
            >>> gl.catalog(".").path_of("europe/roads")
            ('europe', 'roads')
        """
        if not isinstance(name, str):
            return tuple(name)
        return tuple(level for level in name.split(self.source.separator) if level)

    def name_of(self, path: Sequence[str]) -> str:
        """The name of levels, as `open` takes it.

        Args:
            path: the levels.

        Returns:
            The name.

        Example:
            >>> gl.catalog(".").name_of(("europe", "roads"))
            'europe/roads'
        """
        return self.source.separator.join(path)

    def close(self) -> None:
        """End the connections to the catalog.

        Example:
            >>> gl.catalog(".").close()
        """
        self.source.close()

    def _kept(self, read: Iterator[TableDetails], cancelled: threading.Event | None) -> Iterator[TableDetails]:
        """The same, kept for the map and for windows if they are read to the end."""
        details = {}
        for entry in read:
            details[entry.path] = entry
            yield entry
        if cancelled is None or not cancelled.is_set():
            self._details = details

    def _known_details(self) -> pa.Table:
        """The details of all tables, read once; `details` reads them again."""
        if self._details is None:
            return self.details()
        return details_table(self._details.values(), separator=self.source.separator)


@dataclass(frozen=True)
class CatalogReport(Displayable):
    """The findings of all tables of a catalog, the worst tables first.

    Example:
        >>> print(gl.catalog(".").check())
        4 tables below /...: 2 with warnings, 2 without findings
        warning  roads: bounds.missing
        warning  scenes: bounds.missing
    """

    where: str
    separator: str
    tables: tuple[TableDetails, ...]
    findings: Mapping[tuple[str, ...], Findings]

    def exit_code(self) -> int:
        """0 without findings, 1 for warnings, 2 where a table has errors or cannot be opened.

        Returns:
            The exit code of `geolake check`.

        Example:
            >>> gl.catalog(".").check().exit_code()
            1
        """
        return max((_rank(entry) for entry in self.tables), default=0)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values.

        Returns:
            `catalog`, `tables` (each with its details and the list `findings`).

        Example:
            >>> sorted(gl.catalog(".").check().to_dict())
            ['catalog', 'tables']
        """
        return {
            "catalog": self.where,
            "tables": [
                {
                    **entry.to_dict(separator=self.separator),
                    "findings": self.findings[entry.path].to_dict()["findings"] if entry.path in self.findings else [],
                }
                for entry in self.tables
            ],
        }

    def __str__(self) -> str:
        ranks = [_rank(entry) for entry in self.tables]
        failed = sum(entry.problem is not None for entry in self.tables)
        parts = [
            (failed, "cannot be opened"),
            (ranks.count(2) - failed, "with errors"),
            (ranks.count(1), "with warnings"),
            (ranks.count(0), "without findings"),
        ]
        verdict = ", ".join(f"{count:,} {what}" for count, what in parts if count) or "nothing to check"
        return "\n".join(
            [f"{plural(len(self.tables), 'table')} below {printable(self.where)}: {verdict}", *self._lines()]
        )

    def _lines(self) -> Iterator[str]:
        for entry in self.tables:
            name = printable(self.separator.join(entry.path), 200)
            if entry.problem is not None:
                yield printable(f"error    {name}: {entry.problem}")
            elif _rank(entry):
                worst = [finding for finding in self.findings[entry.path] if finding.severity.rank < 2]
                rules = dict.fromkeys(finding.rule for finding in worst)
                yield f"{worst[0].severity.value:<8} {name}: {', '.join(rules)}"


def _rank(entry: TableDetails) -> int:
    return 2 if entry.problem is not None or entry.errors else 1 if entry.warnings else 0


def _worst_first(entry: TableDetails) -> tuple[int, int, int, tuple[str, ...]]:
    return -_rank(entry), -(entry.errors or 0), -(entry.warnings or 0), entry.path


def _mark(entry: CatalogEntry) -> str:
    return f"  ({entry.format})" if entry.format else "" if entry.kind is EntryKind.TABLE else "/"


def _window(window: Any) -> Box:
    if isinstance(window, Box):
        return window
    sides = window.bounds if hasattr(window, "geom_type") else window
    try:
        xmin, ymin, xmax, ymax = map(float, sides)
        return Box(xmin, ymin, xmax, ymax)
    except (TypeError, ValueError):
        raise GeolakeError(
            "expected a window of four numbers", remedy="give xmin, ymin, xmax, ymax in degrees"
        ) from None
