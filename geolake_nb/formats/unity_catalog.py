"""Unity Catalog's REST interface: its catalogs, schemas and tables, and what opens the storage of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from geolake_nb.errors import CorruptTableError, OpenError
from geolake_nb.formats.catalog_server import CatalogServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["UnityCatalog"]

_API = "/api/2.1/unity-catalog"


class UnityCatalog:
    """A Unity Catalog server, of Databricks or the open-source one; it is safe to use from several threads."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        if not properties.get("uri"):
            raise OpenError("the Unity Catalog has no 'uri'", remedy="give the address of its server")
        address = properties["uri"].rstrip("/").removesuffix(_API)
        self._server = CatalogServer("Unity Catalog", address + _API)
        self.where = self._server.where
        if properties.get("token"):
            self._server.session.headers["Authorization"] = f"Bearer {properties['token']}"

    def close(self) -> None:
        """End the connections."""
        self._server.session.close()

    def catalogs(self) -> list[str]:
        """The names of its catalogs."""
        return [name for name, _ in self._listed("catalogs", {}, "the catalogs")]

    def schemas(self, catalog: str) -> list[str]:
        """The names of the schemas in a catalog."""
        return [name for name, _ in self._listed("schemas", {"catalog_name": catalog}, f"the schemas of {catalog}")]

    def tables(self, catalog: str, schema: str) -> list[tuple[str, str | None]]:
        """The names and formats of the tables in a schema; views have no files and are left out."""
        query = {"catalog_name": catalog, "schema_name": schema}
        listed = self._listed("tables", query, f"the tables of {catalog}.{schema}")
        return [
            (name, _format_of(entry))
            for name, entry in listed
            if "VIEW" not in str(entry.get("table_type", "")).upper()
        ]

    def load_table(self, path: Sequence[str]) -> tuple[str, dict[str, str]]:
        """The location of a table, and the options that open its storage, with credentials where it vends them."""
        name = ".".join(path)
        table = self._server.get(f"/tables/{quote(name, safe='')}", {}, f"the table {name}")
        location, identity = table.get("storage_location"), table.get("table_id")
        if not isinstance(location, str) or not location:
            raise CorruptTableError(f"the catalog's answer has no location of the table {name}", where=self.where)
        if location.startswith(("file:", "/")) or not isinstance(identity, str):
            return location, {}
        body = {"table_id": identity, "operation": "READ"}
        url = f"{self._server.uri}/temporary-table-credentials"
        return location, _credentials(self._server.send("POST", url, f"credentials for the table {name}", json=body))

    def _listed(self, what: str, query: Mapping[str, str], named: str) -> Iterator[tuple[str, dict[str, Any]]]:
        pages = self._server.pages(f"/{what}", query, named, ask="page_token", next_page="next_page_token")
        for page in pages:
            entries = page.get(what)
            for entry in entries if isinstance(entries, list) else []:
                name = entry.get("name") if isinstance(entry, dict) else None
                if isinstance(name, str) and name:
                    yield name, entry


def _format_of(entry: Mapping[str, Any]) -> str | None:
    stated = entry.get("data_source_format")
    return stated.lower() if isinstance(stated, str) else None


def _credentials(answer: Mapping[str, Any]) -> dict[str, str]:
    """The options of object_store for the credentials of an answer."""
    aws, azure = (
        value if isinstance(value := answer.get(key), dict) else {}
        for key in ("aws_temp_credentials", "azure_user_delegation_sas")
    )
    named = {
        "aws_access_key_id": aws.get("access_key_id"),
        "aws_secret_access_key": aws.get("secret_access_key"),
        "aws_session_token": aws.get("session_token"),
        "azure_storage_sas_token": azure.get("sas_token"),
    }
    return {key: value for key, value in named.items() if isinstance(value, str) and value}
