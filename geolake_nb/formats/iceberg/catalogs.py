"""Tables by their names in a catalog, REST or SQL: where the metadata is, and what opens their storage."""

from __future__ import annotations

import os
import os.path
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from geolake_nb.errors import (
    CorruptTableError,
    MissingDependencyError,
    NotATableError,
    OpenError,
    RefusedError,
    StorageError,
    UnsupportedTableError,
)
from geolake_nb.formats.iceberg.location import split_metadata_path
from geolake_nb.text.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from requests import Response, Session

__all__ = [
    "CatalogTable",
    "configured_catalogs",
    "from_pyiceberg",
    "load_from_catalog",
    "load_rest_table",
    "load_sql_table",
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


_TIMEOUT = (10, 60)
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
# Iceberg, REST catalog: namespace levels are joined with the unit separator, unless the server specifies another.
_SEPARATOR_KEY = "namespace-separator"
_UNIT_SEPARATOR = "%1F"
_HEADER_PREFIX = "header."
_UNSUPPORTED = ("rest.sigv4-enabled", "auth.type")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,60}")


def load_rest_table(properties: Mapping[str, str], identifier: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The path of the table's newest metadata file, and the configuration for reading it."""
    import requests

    if not properties.get("uri"):
        raise OpenError("the REST catalog has no 'uri'", remedy="give it in the properties of the catalog")
    for name in _UNSUPPORTED:
        if properties.get(name, "false").lower() not in ("false", "oauth2", "none"):
            raise UnsupportedTableError(
                f"the catalog requires {name}, which is not supported",
                remedy="open the table through a Spark session",
            )
    with requests.Session() as session:
        return _Catalog(session, properties).load(identifier)


class _Catalog:
    def __init__(self, session: Session, properties: Mapping[str, str]) -> None:
        self._session = session
        self._properties = dict(properties)
        self._uri = properties["uri"].rstrip("/")
        self.where = _shown(self._uri)
        session.headers["Accept"] = "application/json"
        # Iceberg, REST catalog: requests credentials for the table's files.
        session.headers["X-Iceberg-Access-Delegation"] = "vended-credentials"
        for name, value in properties.items():
            if name.startswith(_HEADER_PREFIX):
                session.headers[name.removeprefix(_HEADER_PREFIX)] = value

    def load(self, identifier: Sequence[str]) -> tuple[str, dict[str, str]]:
        self._authenticate()
        warehouse = self._properties.get("warehouse")
        config = self._get("/v1/config", {"warehouse": warehouse} if warehouse else {}, "the configuration")
        merged = {**_texts(config.get("defaults")), **self._properties, **_texts(config.get("overrides"))}
        if merged["uri"].rstrip("/") != self._uri:
            # The new URL gets the token only if it is on the same server.
            if urlsplit(merged["uri"]).netloc != urlsplit(self._uri).netloc:
                self._session.headers.pop("Authorization", None)
            self._uri = merged["uri"].rstrip("/")
        separator = quote(unquote(merged.get(_SEPARATOR_KEY, _UNIT_SEPARATOR)), safe="")
        namespace = separator.join(quote(level, safe="") for level in identifier[:-1])
        prefix = merged.get("prefix", "").strip("/")
        path = f"/v1/{prefix + '/' if prefix else ''}namespaces/{namespace}/tables/{quote(identifier[-1], safe='')}"
        table = self._get(path, {}, f"the table {'.'.join(identifier)}")
        location = table.get("metadata-location")
        if not isinstance(location, str):
            raise CorruptTableError("the catalog's answer has no metadata file of the table", where=self.where)
        return location, {**merged, **_texts(table.get("config")), **_vended(table, location)}

    def _authenticate(self) -> None:
        token = self._properties.get("token")
        credential = self._properties.get("credential")
        if token is None and credential is not None:
            token = self._fetch_token(credential)
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def _fetch_token(self, credential: str) -> str:
        client, colon, secret = credential.partition(":")
        form = {
            "grant_type": "client_credentials",
            "client_id": client if colon else "",
            "client_secret": secret if colon else client,
            "scope": self._properties.get("scope", "catalog"),
        }
        form |= {name: self._properties[name] for name in ("audience", "resource") if name in self._properties}
        url = self._properties.get("oauth2-server-uri") or f"{self._uri}/v1/oauth/tokens"
        answer = self._send("POST", url, "a token", data={key: value for key, value in form.items() if value})
        token = answer.get("access_token")
        if not isinstance(token, str):
            raise StorageError("the catalog's answer has no token", where=_shown(url))
        return token

    def _get(self, path: str, query: Mapping[str, str], what: str) -> dict[str, Any]:
        return self._send("GET", self._uri + path, what, params=query)

    def _send(self, method: str, url: str, what: str, **parts: Any) -> dict[str, Any]:
        import requests

        try:
            answer = self._session.request(method, url, timeout=_TIMEOUT, stream=True, **parts)
            with answer:
                if not answer.ok:
                    raise self._refused(answer, what)
                content = answer.raw.read(_MAX_RESPONSE_BYTES + 1, decode_content=True)
        except (requests.RequestException, OSError, ValueError) as problem:
            if isinstance(problem, OpenError):
                raise
            # The error text may contain the URL with its credentials.
            raise StorageError(
                f"the REST catalog does not respond to the request for {what}: {type(problem).__name__}",
                where=self.where,
                remedy="check its uri",
            ) from None
        if len(content) > _MAX_RESPONSE_BYTES:
            raise CorruptTableError(f"the catalog's answer for {what} is too large", where=self.where)
        named = f"the catalog's answer for {what}"
        value = load_json(
            content, what=named, where=self.where, error=CorruptTableError, max_length=_MAX_RESPONSE_BYTES
        )
        if not isinstance(value, dict):
            raise CorruptTableError(f"{named} is not a JSON object", where=self.where)
        return value

    def _refused(self, answer: Response, what: str) -> OpenError:
        status = answer.status_code
        if status in (401, 403):
            remedy = "check its token or credential"
            return StorageError(f"the REST catalog does not permit {what} ({status})", where=self.where, remedy=remedy)
        if status == 404 and what.startswith("the table"):
            return NotATableError(f"the REST catalog has no {what.removeprefix('the ')}", where=self.where)
        kind = _error_kind(answer)
        return StorageError(f"the REST catalog refuses {what}: {status}{f' {kind}' if kind else ''}", where=self.where)


def _error_kind(answer: Response) -> str | None:
    """The error type in the server's answer, if it is a plain name."""
    try:
        error = load_json(answer.raw.read(65536, decode_content=True), what="the error", error=CorruptTableError)
        kind = error["error"]["type"]
    except (OpenError, KeyError, TypeError, OSError):
        return None
    return kind if isinstance(kind, str) and _PLAIN.fullmatch(kind) else None


def _vended(table: Mapping[str, Any], location: str) -> dict[str, str]:
    """The credentials for the longest matching prefix of the location."""
    stored = table.get("storage-credentials")
    best, config = -1, dict[str, str]()
    for credential in stored if isinstance(stored, list) else []:
        prefix = credential.get("prefix") if isinstance(credential, dict) else None
        if isinstance(prefix, str) and location.startswith(prefix) and len(prefix) > best:
            best, config = len(prefix), _texts(credential.get("config"))
    return config


def _texts(value: Any) -> dict[str, str]:
    mapping = value if isinstance(value, dict) else {}
    return {key: text for key, text in mapping.items() if isinstance(text, str)}


def _shown(uri: str) -> str:
    """The URI without user, password and query."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


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
        location, config = load_rest_table(properties, parts)
    else:
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
