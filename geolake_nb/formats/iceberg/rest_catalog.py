"""An Iceberg REST catalog: its namespaces, its tables, where a table's metadata is and what opens its storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from geolake_nb.errors import CorruptTableError, OpenError, StorageError, UnsupportedTableError
from geolake_nb.formats.catalog_server import CatalogServer, shown_uri, text_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RestCatalog"]

# Iceberg, REST catalog: namespace levels are joined with the unit separator, unless the server specifies another.
_SEPARATOR_KEY = "namespace-separator"
_UNIT_SEPARATOR = "%1F"
_HEADER_PREFIX = "header."
_UNSUPPORTED = ("rest.sigv4-enabled", "auth.type")


class RestCatalog:
    """A connection to a REST catalog, with a token and its configuration; it is safe to use from several threads."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        if not properties.get("uri"):
            raise OpenError("the REST catalog has no 'uri'", remedy="give it in the properties of the catalog")
        for name in _UNSUPPORTED:
            if properties.get(name, "false").lower() not in ("false", "oauth2", "none"):
                raise UnsupportedTableError(
                    f"the catalog requires {name}, which is not supported",
                    remedy="open the table through a Spark session",
                )
        self._properties = dict(properties)
        self._server = CatalogServer("REST catalog", properties["uri"])
        headers = self._server.session.headers
        # Iceberg, REST catalog: requests credentials for the table's files.
        headers["X-Iceberg-Access-Delegation"] = "vended-credentials"
        for name, value in properties.items():
            if name.startswith(_HEADER_PREFIX):
                headers[name.removeprefix(_HEADER_PREFIX)] = value
        self._config: dict[str, str] = {}

    def __enter__(self) -> RestCatalog:
        self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def where(self) -> str:
        """Its address, without secrets."""
        return self._server.where

    def close(self) -> None:
        """End the connections."""
        self._server.session.close()

    def namespaces(self, parent: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """The namespaces right below one, or at the top."""
        self._connect()
        query = {"parent": unquote(self._separator).join(parent)} if parent else {}
        named = f"the namespaces of {'.'.join(parent)}" if parent else "the namespaces"
        pages = self._server.pages(self._path("namespaces"), query, named, ask="pageToken", next_page="next-page-token")
        listed = [entry for page in pages for entry in _list(page.get("namespaces"))]
        return [tuple(levels) for levels in listed if isinstance(levels, list) and _are_names(levels)]

    def tables(self, namespace: Sequence[str]) -> list[str]:
        """The names of the tables in a namespace."""
        self._connect()
        path = self._path("namespaces", namespace, "tables")
        named = f"the tables of {'.'.join(namespace)}"
        pages = self._server.pages(path, {}, named, ask="pageToken", next_page="next-page-token")
        listed = [entry for page in pages for entry in _list(page.get("identifiers"))]
        names = [entry.get("name") for entry in listed if isinstance(entry, dict)]
        return [name for name in names if isinstance(name, str) and name]

    def load_table(self, identifier: Sequence[str]) -> tuple[str, dict[str, str]]:
        """The path of the table's newest metadata file, and the configuration for reading it."""
        self._connect()
        path = self._path("namespaces", identifier[:-1], "tables", identifier[-1])
        table = self._server.get(path, {}, f"the table {'.'.join(identifier)}")
        location = table.get("metadata-location")
        if not isinstance(location, str):
            raise CorruptTableError("the catalog's answer has no metadata file of the table", where=self.where)
        return location, {**self._config, **text_values(table.get("config")), **_vended(table, location)}

    def _connect(self) -> None:
        if self._config:
            return
        self._authenticate()
        server, warehouse = self._server, self._properties.get("warehouse")
        config = server.get("/v1/config", {"warehouse": warehouse} if warehouse else {}, "the configuration")
        merged = {**text_values(config.get("defaults")), **self._properties, **text_values(config.get("overrides"))}
        if merged["uri"].rstrip("/") != server.uri:
            # The new URL gets the token only if it is on the same server.
            if urlsplit(merged["uri"]).netloc != urlsplit(server.uri).netloc:
                server.session.headers.pop("Authorization", None)
            server.uri = merged["uri"].rstrip("/")
        self._config = merged

    def _path(self, *parts: str | Sequence[str]) -> str:
        """A path of the API, in which a namespace is a sequence of its levels."""
        prefix = self._config.get("prefix", "").strip("/")
        levels = [[part] if isinstance(part, str) else part for part in parts]
        joined = [self._separator.join(quote(level, safe="") for level in part) for part in levels]
        return "/".join(["/v1", *([prefix] if prefix else []), *joined])

    @property
    def _separator(self) -> str:
        return quote(unquote(self._config.get(_SEPARATOR_KEY, _UNIT_SEPARATOR)), safe="")

    def _authenticate(self) -> None:
        token = self._properties.get("token")
        credential = self._properties.get("credential")
        if token is None and credential is not None:
            token = self._fetch_token(credential)
        if token is not None:
            self._server.session.headers["Authorization"] = f"Bearer {token}"

    def _fetch_token(self, credential: str) -> str:
        client, colon, secret = credential.partition(":")
        form = {
            "grant_type": "client_credentials",
            "client_id": client if colon else "",
            "client_secret": secret if colon else client,
            "scope": self._properties.get("scope", "catalog"),
        }
        form |= {name: self._properties[name] for name in ("audience", "resource") if name in self._properties}
        url = self._properties.get("oauth2-server-uri") or f"{self._server.uri}/v1/oauth/tokens"
        answer = self._server.send("POST", url, "a token", data={key: value for key, value in form.items() if value})
        token = answer.get("access_token")
        if not isinstance(token, str):
            raise StorageError("the catalog's answer has no token", where=shown_uri(url))
        return token


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _are_names(levels: list[Any]) -> bool:
    return bool(levels) and all(isinstance(level, str) and level for level in levels)


def _vended(table: Mapping[str, Any], location: str) -> dict[str, str]:
    """The credentials for the longest matching prefix of the location."""
    best, config = -1, dict[str, str]()
    for credential in _list(table.get("storage-credentials")):
        prefix = credential.get("prefix") if isinstance(credential, dict) else None
        if isinstance(prefix, str) and location.startswith(prefix) and len(prefix) > best:
            best, config = len(prefix), text_values(credential.get("config"))
    return config
