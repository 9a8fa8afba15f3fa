"""A proxy on loopback that lets nothing through and remembers what was asked of it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN = ("127.0.0.1", "localhost")


@dataclass
class CountingProxy:
    port: int
    seen: list[str] = field(default_factory=list)
    """Every request, as method and target: `CONNECT example.org:443`."""

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process, and a JVM that Spark starts in it, ask this proxy for all but this machine."""
        address = f"http://127.0.0.1:{self.port}"
        output = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "ALL_PROXY": address, "NO_PROXY": ",".join(_OWN)}
        output |= {name.lower(): value for name, value in output.items()}
        java = [
            f"-D{scheme}.{key}={value}"
            for scheme in ("http", "https")
            for key, value in (("proxyHost", "127.0.0.1"), ("proxyPort", self.port))
        ]
        # One setting of the JVM serves both schemes. Spark's launcher takes these without a word; JDK_JAVA_OPTIONS
        # makes every JVM say that it has picked them up.
        java.append(f"-Dhttp.nonProxyHosts={'|'.join(_OWN)}")
        return output | {"SPARK_SUBMIT_OPTS": " ".join(java)}


@contextmanager
def counting_proxy() -> Iterator[CountingProxy]:
    """Serve until the block ends."""

    class Refuse(BaseHTTPRequestHandler):
        def refuse(self) -> None:
            proxy.seen.append(f"{self.command} {self.path}")
            self.send_error(502, "no other host is asked here")

        do_CONNECT = do_DELETE = do_GET = do_HEAD = do_OPTIONS = do_PATCH = do_POST = do_PUT = refuse  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        proxy = CountingProxy(server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
