"""A folder served as a bucket of S3, slowly: `python -m tests.heavy.folder_store FOLDER --delay 0.05`.

It implements as much of S3 as reading needs (GET with ranges, HEAD, ListObjectsV2 in pages of a thousand), requires no
signature, and holds far more requests a second than an endpoint that knows everything. `/-/seen` returns, and forgets,
what was asked since the last time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import email.utils
import http.client
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.http_proxy import Answer, Exchange, Fate, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = 1000
_RANGE = re.compile(rb"\r\nrange: bytes=([0-9]*)-([0-9]*)\r\n", re.IGNORECASE)
_SEEN = "/-/seen"


class FolderStore(Proxy):
    """Answers from a folder what a proxy would ask a server; each bucket is a folder in it."""

    def __init__(self, folder: Path, *, delay: float = 0) -> None:
        super().__init__("http://127.0.0.1", delay=delay)
        self._folder = folder
        self._listed: dict[str, list[str]] = {}

    async def answer(self, method: str, path: str, request: bytes, upstream: list) -> Answer:
        """What a store says."""
        if path == _SEEN:
            body = json.dumps(
                [
                    [exchange.method, exchange.path, exchange.status, exchange.began, exchange.ended]
                    for exchange in self.seen
                ]
            ).encode()
            self.seen.clear()
            return _made(200, body)
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if query.get("list-type") == "2":
            return _made(200, self._page(unquote(parts.path).strip("/"), query))
        file = self._folder / unquote(parts.path).strip("/")
        if not file.is_file():
            return _made(404, b"<Error><Code>NoSuchKey</Code></Error>", method)
        return _part(file, _RANGE.search(request), method)

    def _page(self, bucket: str, query: dict[str, str]) -> bytes:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", query.get("start-after", ""))
        keys = self._keys(bucket, prefix, deep="delimiter" not in query)
        page = [key for key in keys if key > after][: _PAGE + 1]
        token = f"<NextContinuationToken>{escape(page[-2])}</NextContinuationToken>" if len(page) > _PAGE else ""
        entries = []
        for key in page[:_PAGE]:
            if key.endswith("/"):
                entries.append(f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>")
                continue
            stat = (self._folder / bucket / key).stat()
            entries.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{stat.st_size}</Size><ETag>&quot;{stat.st_mtime_ns}&quot;"
                "</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        more = "true" if token else "false"
        return (
            f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{token}{''.join(entries)}</ListBucketResult>"
        ).encode()

    def _keys(self, bucket: str, prefix: str, *, deep: bool) -> list[str]:
        """The keys below a prefix, which ends with a slash or is empty, in order; of folders only the names."""
        key = f"{bucket}|{prefix}|{deep}"
        if key not in self._listed:
            root = self._folder / bucket
            if deep:
                names = [str(path.relative_to(root)) for path in (root / prefix).rglob("*") if path.is_file()]
            elif (root / prefix).is_dir():
                names = [f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}" for entry in os.scandir(root / prefix)]
            else:
                names = []
            self._listed[key] = sorted(names)
        return self._listed[key]


def _part(file: Path, wanted: re.Match[bytes] | None, method: str) -> Answer:
    size = file.stat().st_size
    start, stop = 0, size
    if wanted and wanted[1]:
        start, stop = int(wanted[1]), min(size, int(wanted[2] or size) + 1)
    elif wanted:
        start = max(0, size - int(wanted[2]))
    more = f'etag: "{file.stat().st_mtime_ns}"\r\nlast-modified: {email.utils.formatdate(0, usegmt=True)}\r\n'
    if wanted:
        more += f"content-range: bytes {start}-{stop - 1}/{size}\r\n"
    if method == "HEAD":
        return _made(200, b"", method, more, size)
    with file.open("rb") as opened:
        opened.seek(start)
        return _made(206 if wanted else 200, opened.read(stop - start), method, more)


def _made(status: int, body: bytes, method: str = "GET", more: str = "", length: int | None = None) -> Answer:
    head = f"HTTP/1.1 {status} -\r\n{more}content-length: {len(body) if length is None else length}\r\n\r\n".encode()
    return Answer(head + (b"" if method == "HEAD" else body), status)


class Served:
    """The store in its process, seen from here."""

    def __init__(self, url: str) -> None:
        self.options = {
            "aws_access_key_id": "none",
            "aws_secret_access_key": "none",
            "aws_endpoint": url,
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
        }
        self._url = url

    def seconds(self, keys: list[str]) -> float:
        """How long a bare client takes for these files, one after the other, whether they are there or not."""
        url = urlsplit(self._url)
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        connection.connect()
        began = time.perf_counter()
        for key in keys:
            connection.request("GET", f"/{key}")
            connection.getresponse().read()
        seconds = time.perf_counter() - began
        connection.close()
        return seconds

    def seen(self) -> list[Exchange]:
        """What was asked since the last time."""
        with urllib.request.urlopen(self._url + _SEEN) as answer:
            rows = json.load(answer)
        exchanges = [Exchange(method, path, Fate.PASSES, *rest) for method, path, *rest in rows]
        return [exchange for exchange in exchanges if exchange.path != _SEEN]


@contextlib.contextmanager
def folder_store(folder: Path, *, delay: float) -> Iterator[Served]:
    """The folder as a store, in a process of its own, as long as the block lasts."""
    command = [sys.executable, "-m", "tests.heavy.folder_store", str(folder), "--delay", str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield Served(server.stdout.readline().strip())
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--delay", type=float, default=0)
    options = parser.parse_args()
    store = FolderStore(options.folder, delay=options.delay)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(store.serve(lambda: print(store.url, flush=True), asyncio.Event()))


if __name__ == "__main__":
    main()
