"""A small server that answers as the OpenAPI description of Unity Catalog says, two entries a page."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "dapi-0123456789abcdef"
_API = "/api/2.1/unity-catalog"


class _Handler(http.server.BaseHTTPRequestHandler):
    tables: ClassVar[dict[str, dict]] = {}

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = {key: values[0] for key, values in urllib.parse.parse_qs(url.query).items()}
        what = url.path.removeprefix(_API)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer(401, {"error_code": "UNAUTHENTICATED"})
        if what == "/catalogs":
            return self._page("catalogs", [{"name": name} for name in ("main", "system", "test")], query)
        if what == "/schemas":
            schemas = ["default", "geo"] if query["catalog_name"] == "main" else []
            return self._page("schemas", [{"name": name} for name in schemas], query)
        if what == "/tables":
            listed = self.tables.values() if query == {**query, "catalog_name": "main", "schema_name": "geo"} else []
            return self._page("tables", list(listed), query)
        known = self.tables.get(urllib.parse.unquote(what.removeprefix("/tables/main.geo.")))
        return self._answer(404, {"error_code": "TABLE_DOES_NOT_EXIST"}) if known is None else self._answer(200, known)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = {"access_key_id": asked["table_id"], "secret_access_key": "vended-secret", "session_token": "vended"}
        self._answer(200, {"aws_temp_credentials": key, "expiration_time": 0})

    def _page(self, what, entries, query):
        start = int(query.get("page_token", "0"))
        following = {"next_page_token": str(start + 2)} if start + 2 < len(entries) else {}
        self._answer(200, {what: entries[start : start + 2], **following})

    def _answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def serve_unity(tables: dict[str, dict]) -> Iterator[str]:
    """The address of a server with the tables in the schema `main.geo`, by their names."""
    _Handler.tables = {name: {"name": name, "table_id": f"id-of-{name}", **table} for name, table in tables.items()}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
