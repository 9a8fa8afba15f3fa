"""An Iceberg catalog in a database: its tables, and where the metadata of each is."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import MissingDependencyError, NotATableError, OpenError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["list_sql_tables", "load_sql_table", "shown_database"]

_LIST = "SELECT table_namespace, table_name FROM iceberg_tables WHERE catalog_name = :catalog ORDER BY 1, 2"
_ONE = (
    "SELECT metadata_location FROM iceberg_tables"
    " WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)


def load_sql_table(catalog: str, properties: Mapping[str, str], identifier: Sequence[str]) -> str:
    """The path of the table's newest metadata file."""
    values = {"catalog": catalog, "namespace": ".".join(identifier[:-1]), "name": identifier[-1]}
    rows = _query(properties, _ONE, values)
    location = rows[0][0] if rows else None
    if not isinstance(location, str):
        raise NotATableError(
            f"the SQL catalog {catalog!r} has no table {'.'.join(identifier)}", where=shown_database(properties)
        )
    return location


def list_sql_tables(catalog: str, properties: Mapping[str, str]) -> list[tuple[tuple[str, ...], str]]:
    """The namespaces and names of all tables, in their order."""
    rows = _query(properties, _LIST, {"catalog": catalog})
    return [(tuple(str(namespace).split(".")), str(name)) for namespace, name in rows]


def shown_database(properties: Mapping[str, str]) -> str:
    """The address of the database, without its password and options."""
    where: str = _url(properties).render_as_string(hide_password=True)
    return where.partition("?")[0]


def _url(properties: Mapping[str, str]) -> Any:
    try:
        import sqlalchemy
    except ImportError:
        remedy = "run: pip install 'geolake-nb[sql]'"
        raise MissingDependencyError("SQL catalogs need SQLAlchemy", remedy=remedy) from None
    try:
        return sqlalchemy.make_url(properties.get("uri", ""))
    except sqlalchemy.exc.ArgumentError:
        raise OpenError("the 'uri' of the SQL catalog is not a valid database URL", remedy="see SQLAlchemy") from None


def _query(properties: Mapping[str, str], query: str, values: Mapping[str, str]) -> list[Any]:
    url, where = _url(properties), shown_database(properties)
    import sqlalchemy

    # SQLite would create a database that does not exist.
    if url.get_backend_name() == "sqlite" and not os.path.isfile((url.database or "").removeprefix("file:")):
        raise StorageError("the database does not exist", where=where)
    try:
        engine = sqlalchemy.create_engine(url)
        try:
            with engine.connect() as connection:
                return list(connection.execute(sqlalchemy.text(query), dict(values)).all())
        finally:
            engine.dispose()
    except sqlalchemy.exc.NoSuchModuleError:
        raise OpenError(f"SQLAlchemy has no dialect {url.drivername!r}", where=where) from None
    except ImportError as problem:
        raise MissingDependencyError(f"the database needs the package {problem.name!r}", where=where) from None
    except sqlalchemy.exc.SQLAlchemyError as problem:
        # The error text may contain the connection string.
        raise StorageError(f"the SQL catalog cannot be read: {type(problem).__name__}", where=where) from None
