"""A server that refuses everything and says back all that it was sent, keys and tokens included."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from tests.http_proxy import Answer, Proxy, running

if TYPE_CHECKING:
    from collections.abc import Iterator


class EchoServer(Proxy):
    """Passes on to the target until `status` is set, which is what it answers from then on."""

    status: int | None = None

    async def answer(self, method: str, path: str, request: bytes, upstream: list) -> Answer:
        """What the server says."""
        if self.status is None:
            return await super().answer(method, path, request, upstream)
        text = request.decode("latin-1")
        # Of the shape that Iceberg's REST catalogs answer in; stores are read as text.
        body = json.dumps({"error": {"message": text, "type": f"No{text[:40]}", "code": self.status}}).encode()
        head = f"HTTP/1.1 {self.status} {path}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        return Answer(head.encode() + (b"" if method == "HEAD" else body), self.status)


@contextlib.contextmanager
def echo_server(status: int | None = None, *, target: str = "http://127.0.0.1:1") -> Iterator[EchoServer]:
    """The server, as long as the block lasts."""
    server = EchoServer(target)
    server.status = status
    with running(server):
        yield server
