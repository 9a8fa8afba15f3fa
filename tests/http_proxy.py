"""A proxy on loopback that passes HTTP on as it is, writes down what went through, and can be slow or lose things."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_BODILESS = (b"204", b"304")
_TOO_BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
_BUFFER = 1 << 20
_KEY = re.compile(rb"<Key>([^<]*)</Key>")


class Fate(enum.Enum):
    """What becomes of a request."""

    PASSES = "passes"
    ANSWER_LOST = "answer lost"
    """The server gets it and answers; the client finds its connection closed."""
    REQUEST_LOST = "request lost"
    """The server never sees it; the client finds its connection closed."""
    REFUSED = "refused"
    """The server never sees it; the client gets a busy response."""
    CALLED_REFUSED = "called refused"
    """The server gets it and answers; the client gets a busy response."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that came in, and when its answer was through; the times are those of one clock."""

    method: str
    path: str
    """With the query; after it, each behind a `#`, the keys that S3 is asked to remove."""
    fate: Fate
    status: int | None
    """What the server answered, whether the client saw it or not."""
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server says, as it came."""

    data: bytes
    status: int
    lasts: bool = True
    """Whether the connection goes on."""


class Proxy:
    """The running proxy; `seen` has the exchanges that are over, in the order of their ends."""

    def __init__(self, target: str, *, delay: float = 0, unheard: Sequence[bytes] = ()) -> None:
        parts = urlsplit(target)
        self._target = parts.hostname or "", parts.port or 80
        self._delay = delay
        self._unheard = unheard
        self.rule: Callable[[str, str], Fate] = lambda method, path: Fate.PASSES
        """Tells what becomes of a request from its method and its path with the query."""
        self.seen: list[Exchange] = []
        self.url = ""

    async def serve(self, ready: Callable[[], None], end: asyncio.Event) -> None:
        """Serve until the end; `ready` is called once the URL is known."""
        server = await asyncio.start_server(self._client, "127.0.0.1", 0, limit=_BUFFER, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready()
        await end.wait()
        server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: list[Connection] = []
        try:
            lasts = True
            while lasts:
                lasts = await self._exchange(reader, writer, upstream)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            return  # the end, or one of the two hung up
        finally:
            for _, connection in [*upstream, (reader, writer)]:
                connection.close()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: list[Connection]
    ) -> bool:
        """One request and its answer; whether the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        began = time.monotonic()
        method, path, _ = head.decode("latin-1").split(" ", 2)
        names = _headers(head)
        if b"expect" in names:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _body(reader, names, unbounded=False)
        if path.endswith("?delete"):  # for S3 the keys to remove are in the body
            path = "#".join([path, *(key.decode() for key in _KEY.findall(body))])
        fate = self.rule(method, path)
        given = None
        if fate not in (Fate.REQUEST_LOST, Fate.REFUSED):
            given = await self.answer(method, path, _without(head, self._unheard) + body, upstream)
        if self._delay:
            await asyncio.sleep(self._delay)
        self.seen.append(Exchange(method, path, fate, given and given.status, began, time.monotonic()))
        if fate in (Fate.ANSWER_LOST, Fate.REQUEST_LOST):
            return False
        writer.write(_TOO_BUSY if given is None or fate is Fate.CALLED_REFUSED else given.data)
        await writer.drain()
        return given is None or given.lasts

    async def answer(self, method: str, path: str, request: bytes, upstream: list[Connection]) -> Answer:
        """What the server says to a request; `upstream` holds the connection to it, once there is one."""
        if not upstream:
            upstream.append(await asyncio.open_connection(*self._target, limit=_BUFFER))
        upstream[0][1].write(request)
        response = await _answer(upstream[0][0], method)
        if not response.lasts:
            upstream.pop()[1].close()
        return response


@contextlib.contextmanager
def proxy_to(target: str, *, delay: float = 0, unheard: Sequence[bytes] = ()) -> Iterator[Proxy]:
    """A proxy to the server at a URL as long as the block lasts.

    Each answer comes so many seconds later; the server does not hear of `unheard`, names of headers in lower case.
    """
    with running(Proxy(target, delay=delay, unheard=unheard)) as proxy:
        yield proxy


@contextlib.contextmanager
def running(proxy: Proxy) -> Iterator[Proxy]:
    """Serve in a thread of its own, as long as the block lasts."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    end = asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(proxy.serve(started.set, end))
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(30)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def longest_chain(seen: list[Exchange]) -> int:
    """How many requests came one after the other: the most of which no two overlap in time."""
    chain, free = 0, float("-inf")
    for request in sorted(seen, key=lambda request: request.ended):
        if request.began >= free:
            chain, free = chain + 1, request.ended
    return chain


def most_in_flight(seen: list[Exchange]) -> int:
    """How many requests were under way at once."""
    now = most = 0
    for _, change in sorted([(request.began, 1) for request in seen] + [(request.ended, -1) for request in seen]):
        now += change
        most = max(most, now)
    return most


def _without(head: bytes, names: Sequence[bytes]) -> bytes:
    return b"\r\n".join(line for line in head.split(b"\r\n") if line.partition(b":")[0].lower() not in names)


def _headers(head: bytes) -> dict[bytes, bytes]:
    pairs = (line.partition(b":") for line in head.split(b"\r\n")[1:] if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, names: dict[bytes, bytes], *, unbounded: bool) -> bytes:
    """The body as it comes, chunk marks included."""
    if b"chunked" in names.get(b"transfer-encoding", b"").lower():
        parts = []
        while True:
            size = await reader.readuntil(b"\r\n")
            parts += [size, await reader.readexactly(int(size.split(b";")[0], 16) + 2)]
            if int(size.split(b";")[0], 16) == 0:
                return b"".join(parts)
    if b"content-length" in names:
        return await reader.readexactly(int(names[b"content-length"]))
    return await reader.read() if unbounded else b""


async def _answer(reader: asyncio.StreamReader, method: str) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    version, code = head.split(b" ", 2)[:2]
    if code == b"100":
        return await _answer(reader, method)
    names = _headers(head)
    bare = method == "HEAD" or code in _BODILESS
    body = b"" if bare else await _body(reader, names, unbounded=True)
    connection = names.get(b"connection", b"").lower()
    bounded = bare or b"content-length" in names or b"transfer-encoding" in names
    lasts = bounded and connection != b"close" and (version == b"HTTP/1.1" or connection == b"keep-alive")
    return Answer(head + body, int(code), lasts)
