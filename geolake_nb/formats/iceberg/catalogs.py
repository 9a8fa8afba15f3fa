"""Tables by their names in a catalog, REST or SQL: where the metadata is, and what opens their storage."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import (
    MissingDependencyError,
    NotATableError,
    OpenError,
    RefusedError,
    UnsupportedTableError,
)
from geolake_nb.formats.iceberg.location import split_metadata_path
from geolake_nb.formats.iceberg.rest_catalog import RestCatalog
from geolake_nb.formats.iceberg.sql_catalog import load_sql_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "CatalogTable",
    "catalog_kind",
    "configured_catalogs",
    "from_pyiceberg",
    "listed_table",
    "load_from_catalog",
    "new_in_catalog",
    "split_table_name",
    "storage_options",
    "table_exists_error",
]

_FILE = ".pyiceberg.yaml"
_PREFIX = "pyiceberg_catalog__"
_MAX_CONFIG_BYTES = 1024 * 1024


def configured_catalogs(environment: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """The properties of every catalog that is configured, by name in lower case.

    The file is the first of `$PYICEBERG_HOME`, the home folder and the working directory; the environment takes
    precedence.

    >>> configured_catalogs({"HOME": "/none", "PYICEBERG_CATALOG__PROD__S3__ACCESS_KEY_ID": "me"})["prod"]
    {'s3.access-key-id': 'me'}
    """
    variables = os.environ if environment is None else environment
    catalogs = _from_files(variables)
    for name, value in variables.items():
        if not name.lower().startswith(_PREFIX):
            continue
        # PyIceberg: two underscores become a dot in the property, one becomes a dash.
        catalog, _, key = name.lower().removeprefix(_PREFIX).partition("__")
        if catalog and key:
            spelled = key.replace("__", ".").replace("_", "-")
            catalogs.setdefault(catalog.replace("_", "-"), {})[spelled] = value
    return catalogs


def _from_files(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    folders = [environment.get("PYICEBERG_HOME"), environment.get("HOME") or str(Path.home()), str(Path.cwd())]
    for folder in folders:
        path = Path(folder, _FILE) if folder else None
        if path is not None and path.is_file():
            return _read(path)
    return {}


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise MissingDependencyError(
            "reading the configuration of catalogs needs PyYAML", where=str(path), remedy="run: pip install pyyaml"
        ) from None
    try:
        text = path.read_text("utf-8")
        if len(text) > _MAX_CONFIG_BYTES:
            raise OpenError("the configuration is too large", where=str(path))
        content = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        # The error may quote a line of the file, and that line may contain a secret.
        raise OpenError("the configuration of catalogs is not valid YAML", where=str(path)) from None
    catalogs = content.get("catalog") if isinstance(content, dict) else None
    if not isinstance(catalogs, dict):
        return {}
    return {str(name).lower(): _flat(values) for name, values in catalogs.items() if isinstance(values, dict)}


def _flat(settings: dict[Any, Any]) -> dict[str, str]:
    values = {str(key).lower(): value for key, value in settings.items() if value is not None}
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}


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
        with RestCatalog(properties) as connection:
            location, config = connection.load_table(parts)
    else:
        location, config = load_sql_table(name, properties, parts), dict(properties)
    return listed_table(name, properties, parts, location, config)


def listed_table(
    catalog: str, properties: Mapping[str, str], identifier: Sequence[str], location: str, config: Mapping[str, str]
) -> CatalogTable:
    """The table of a catalog whose metadata file is known; `config` is what opens its storage."""
    kind = _inferred(properties) or None
    return CatalogTable(".".join(identifier), location, storage_options(config), catalog, kind, properties)


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


def catalog_kind(properties: Mapping[str, str]) -> str | None:
    """The kind of a catalog, such as `rest`; `None` where nothing states it."""
    stated = _inferred(properties)
    return stated if stated in ("rest", "sql", *_OTHERS) else None


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
