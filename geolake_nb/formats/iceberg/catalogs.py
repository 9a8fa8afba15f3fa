"""Tables by their names in a catalog: where the metadata is, and the options that open its storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import NotATableError, OpenError, RefusedError, UnsupportedTableError
from geolake_nb.formats.iceberg.catalog_config import configured_catalogs
from geolake_nb.formats.iceberg.location import split_metadata_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "CatalogTable",
    "from_pyiceberg",
    "load_from_catalog",
    "new_in_catalog",
    "split_table_name",
    "storage_options",
    "table_exists_error",
]

_KINDS = {"http": "rest", "https": "rest", "postgresql": "sql", "sqlite": "sql", "thrift": "hive"}
_OTHERS = ("bigquery", "dynamodb", "glue", "hive", "in-memory")


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """The location of a table in a catalog; the options contain secrets and are not shown."""

    name: str
    metadata_location: str
    """Empty for a new table: the catalog chooses its location."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """For `Storage.at`, named as in deltalake."""
    catalog: str = "default"
    """The name of the catalog."""
    kind: str | None = None
    """Such as `rest`, `sql`, `hive`; `None` where the properties name a class."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """The connection properties of the catalog; they contain secrets."""
    reload: Callable[[], CatalogTable] | None = field(default=None, repr=False, hash=False, compare=False)
    """Loads the table again where only a Spark session can."""

    @property
    def identifier(self) -> tuple[str, ...]:
        """The namespace and the name."""
        return tuple(self.name.split("."))

    @property
    def has_location(self) -> bool:
        """Whether the table exists and its location is known."""
        return bool(self.metadata_location)

    def newest(self) -> CatalogTable:
        """The current state of the table in the catalog; unchanged for a catalog that cannot be queried here."""
        if self.reload is not None:
            return self.reload()
        if self.kind not in ("rest", "sql"):
            return self
        return load_from_catalog({**self.properties, "name": self.catalog}, self.identifier)

    @property
    def root(self) -> str:
        """The folder of the table: give it to `Storage.at`."""
        return split_metadata_path(self.metadata_location)[0]

    @property
    def metadata(self) -> str:
        """The metadata file below the root: give it to `open_iceberg`."""
        return split_metadata_path(self.metadata_location)[1]


def split_table_name(text: str) -> tuple[str, tuple[str, ...]] | None:
    """The catalog and the identifier of `catalog.namespace.table`, `None` if no such catalog is configured."""
    first, _, rest = text.partition(".")
    parts = tuple(rest.split("."))
    if len(parts) < 2 or not all(parts) or first.lower() not in configured_catalogs():
        return None
    return first, parts


def load_from_catalog(catalog: str | Mapping[str, str], identifier: str | Sequence[str]) -> CatalogTable:
    """Load a table such as `ns.roads` from a REST or SQL catalog, given by its configured name or its properties.

    >>> load_from_catalog({"type": "hive", "uri": "thrift://h"}, "ns.roads")
    Traceback (most recent call last):
    geolake_nb.errors.UnsupportedTableError: a hive catalog cannot be read without a JVM; ...
    """
    parts = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    if len(parts) < 2 or not all(parts):
        raise NotATableError(f"expected namespace.table, got {'.'.join(parts)!r}")
    name, properties = _properties(catalog)
    kind = _kind(properties)
    if kind == "rest":
        from geolake_nb.formats.iceberg.catalog_rest import load_rest_table

        location, config = load_rest_table(properties, parts)
    else:
        from geolake_nb.formats.iceberg.catalog_sql import load_sql_table

        location, config = load_sql_table(name, properties, parts), dict(properties)
    return CatalogTable(".".join(parts), location, storage_options(config), name, kind, properties)


def new_in_catalog(catalog: str, identifier: Sequence[str]) -> CatalogTable:
    """A new table for a configured REST or SQL catalog; an existing one is refused."""
    try:
        load_from_catalog(catalog, identifier)
    except NotATableError:
        name, properties = _properties(catalog)
        return CatalogTable(".".join(identifier), "", {}, name, _kind(properties), properties)
    raise table_exists_error(".".join((catalog, *identifier)))


def table_exists_error(name: str) -> RefusedError:
    """The error for a table that should be new, by its name with the catalog."""
    remedy = "give another name, or add rows with mode='append'"
    return RefusedError("the table already exists", where=name, remedy=remedy)


def from_pyiceberg(table: Any) -> CatalogTable:
    """The location of a `pyiceberg.table.Table`, with the options of its FileIO."""
    name = ".".join(table.name())
    # A table that was opened by its metadata file alone has a no-op catalog.
    properties = {str(key): str(value) for key, value in getattr(table.catalog, "properties", {}).items()}
    return CatalogTable(
        name,
        str(table.metadata_location),
        storage_options(table.io.properties),
        str(getattr(table.catalog, "name", "default")),
        _inferred(properties) or None,
        properties,
    )


def _properties(catalog: str | Mapping[str, str]) -> tuple[str, dict[str, str]]:
    if not isinstance(catalog, str):
        return str(catalog.get("name", "default")), {str(key): str(value) for key, value in catalog.items()}
    known = configured_catalogs()
    if catalog.lower() not in known:
        options = ", ".join(sorted(known)) or "none"
        raise OpenError(
            f"no catalog {catalog!r} is configured",
            remedy=f"configured: {options}; add it to .pyiceberg.yaml or set PYICEBERG_CATALOG__{catalog.upper()}__URI",
        )
    return catalog, known[catalog.lower()]


def _inferred(properties: Mapping[str, str]) -> str:
    """The kind in the properties, or the one that PyIceberg infers from the URI; empty if there is none."""
    scheme = properties.get("uri", "").partition(":")[0].partition("+")[0].lower()
    return properties.get("type", "").lower() or _KINDS.get(scheme, "")


def _kind(properties: Mapping[str, str]) -> str:
    stated = _inferred(properties)
    if stated in ("rest", "sql"):
        return stated
    shown = stated if stated in _OTHERS else "catalog of an unknown kind"
    raise UnsupportedTableError(
        f"a {shown}{' catalog' if stated in _OTHERS else ''} cannot be read without a JVM",
        remedy="open the table through a Spark session, or give 'type' as one of: rest, sql",
    )


# Iceberg's property names for object stores, with the option names of object_store and deltalake.
_OPTIONS = {
    "adls.account-host": "azure_storage_endpoint",
    "adls.account-key": "azure_storage_account_key",
    "adls.account-name": "azure_storage_account_name",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
    "adls.sas-token": "azure_storage_sas_token",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.token": "azure_storage_token",
    "client.access-key-id": "aws_access_key_id",
    "client.region": "aws_region",
    "client.secret-access-key": "aws_secret_access_key",
    "client.session-token": "aws_session_token",
    "s3.access-key-id": "aws_access_key_id",
    "s3.endpoint": "aws_endpoint",
    "s3.region": "aws_region",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
}
_SAS_TOKEN = "adls.sas-token."


def storage_options(config: Mapping[str, str]) -> dict[str, str]:
    """The properties of Iceberg's FileIO as options of `Storage.at`; all others are left out.

    >>> storage_options({"s3.endpoint": "http://localhost:9000", "uri": "http://catalog"})
    {'aws_endpoint': 'http://localhost:9000', 'aws_allow_http': 'true'}
    """
    options: dict[str, str] = {}
    # The more general `client.` comes first, so that `s3.` takes precedence.
    for key, name in sorted(_OPTIONS.items()):
        if config.get(key):
            options[name] = str(config[key])
    for key, value in config.items():
        if key.startswith(_SAS_TOKEN):
            options.setdefault("azure_storage_sas_token", str(value))
    if options.get("aws_endpoint", "").startswith("http://"):
        options["aws_allow_http"] = "true"
    if str(config.get("s3.anonymous", "false")).lower() == "true":
        options["aws_skip_signature"] = "true"
    return options
