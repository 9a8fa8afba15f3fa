"""A REST catalog of one Iceberg table that hands out credentials with each of its answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.http_proxy import Answer, Proxy
from tests.promises.canaries import CANARIES

if TYPE_CHECKING:
    from pathlib import Path


class VendingCatalog(Proxy):
    """Answers every request with its configuration, or the one table."""

    def __init__(self, metadata: Path) -> None:
        super().__init__("http://127.0.0.1")
        self._metadata = metadata

    async def answer(self, method: str, path: str, request: bytes, upstream: list) -> Answer:
        """What the catalog says."""
        reply = self._configuration() if path.startswith("/v1/config") else self._table()
        body = json.dumps(reply).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        return Answer(head.encode() + (b"" if method == "HEAD" else body), 200)

    def _configuration(self) -> dict[str, object]:
        return {
            "defaults": {"s3.secret-access-key": CANARIES["secretKey"]},
            "overrides": {"adls.account-key": CANARIES["accountKey"]},
        }

    def _table(self) -> dict[str, object]:
        shared = {"s3.access-key-id": CANARIES["accessKeyId"], "adls.sas-token.me": CANARIES["sasToken"]}
        return {
            "metadata-location": str(self._metadata),
            "metadata": json.loads(self._metadata.read_text()),
            "config": {
                "s3.session-token": CANARIES["sessionToken"],
                "token": CANARIES["bearerToken"],
                "io.secret": CANARIES["headerSecret"],
            },
            "storage-credentials": [{"prefix": "/", "config": shared}],
        }
