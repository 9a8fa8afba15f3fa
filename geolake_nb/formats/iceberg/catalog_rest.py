"""Iceberg's REST catalog: loads the metadata location of a table and the credentials for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from geolake_nb.errors import CorruptTableError, NotATableError, OpenError, StorageError, UnsupportedTableError
from geolake_nb.text.untrusted_json import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from requests import Response, Session

__all__ = ["load_rest_table"]

_TIMEOUT = (10, 60)
_LARGEST = 256 * 1024 * 1024
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
                content = answer.raw.read(_LARGEST + 1, decode_content=True)
        except (requests.RequestException, OSError, ValueError) as problem:
            if isinstance(problem, OpenError):
                raise
            # The error text may contain the URL with its credentials.
            raise StorageError(
                f"the REST catalog does not respond to the request for {what}: {type(problem).__name__}",
                where=self.where,
                remedy="check its uri",
            ) from None
        if len(content) > _LARGEST:
            raise CorruptTableError(f"the catalog's answer for {what} is too large", where=self.where)
        named = f"the catalog's answer for {what}"
        value = load_json(content, what=named, where=self.where, error=CorruptTableError, max_length=_LARGEST)
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
