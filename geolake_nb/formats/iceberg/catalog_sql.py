"""Iceberg's SQL catalog: the table `iceberg_tables` of a database has the metadata location of each table."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from geolake_nb.errors import MissingDependencyError, NotATableError, OpenError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["load_sql_table"]

_QUERY = (
    "SELECT metadata_location FROM iceberg_tables"
    " WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)


def load_sql_table(catalog: str, properties: Mapping[str, str], identifier: Sequence[str]) -> str:
    """The path of the table's newest metadata file."""
    try:
        import sqlalchemy
    except ImportError:
        remedy = "run: pip install 'geolake-nb[sql]'"
        raise MissingDependencyError("SQL catalogs need SQLAlchemy", remedy=remedy) from None
    try:
        url = sqlalchemy.make_url(properties.get("uri", ""))
    except sqlalchemy.exc.ArgumentError:
        raise OpenError("the 'uri' of the SQL catalog is not a valid database URL", remedy="see SQLAlchemy") from None
    where = url.render_as_string(hide_password=True).partition("?")[0]
    # SQLite would create a database that does not exist.
    if url.get_backend_name() == "sqlite" and not os.path.isfile((url.database or "").removeprefix("file:")):
        raise StorageError("the database does not exist", where=where)
    values = {"catalog": catalog, "namespace": ".".join(identifier[:-1]), "name": identifier[-1]}
    try:
        engine = sqlalchemy.create_engine(url)
        try:
            with engine.connect() as connection:
                location = connection.execute(sqlalchemy.text(_QUERY), values).scalar()
        finally:
            engine.dispose()
    except sqlalchemy.exc.NoSuchModuleError:
        raise OpenError(f"SQLAlchemy has no dialect {url.drivername!r}", where=where) from None
    except ImportError as problem:
        raise MissingDependencyError(f"the database needs the package {problem.name!r}", where=where) from None
    except sqlalchemy.exc.SQLAlchemyError as problem:
        # The error text may contain the connection string.
        raise StorageError(f"the SQL catalog cannot be read: {type(problem).__name__}", where=where) from None
    if not isinstance(location, str):
        raise NotATableError(f"the SQL catalog {catalog!r} has no table {'.'.join(identifier)}", where=where)
    return location
