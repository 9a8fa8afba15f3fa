"""Places that notice when they are looked at: a web server, and a folder that the kernel watches."""

from __future__ import annotations

import ctypes
import http.server
import os
import sys
import threading
from contextlib import contextmanager

import pytest

__all__ = ["Watch", "Web", "serving", "watch"]

IN_OPEN = 0x20


class Web:
    """A web server on loopback that notes what it is asked for."""

    def __init__(self, server, requests):
        self.url, self.requests = f"http://127.0.0.1:{server.server_port}", requests


@contextmanager
def serving(folder=None, *, sends_to=None):
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            if sends_to is not None:
                self.send_response(302)
                self.send_header("Location", f"{sends_to}{self.path}")
                self.end_headers()
                return
            path = None if folder is None else folder / self.path.lstrip("/")
            if path is None or not path.is_file():
                self.send_error(404)
                return
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            data = path.read_bytes()
            part = data[int(first) : int(last) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        def do_HEAD(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Web(server, requests)
        finally:
            server.shutdown()
            thread.join()


class Watch:
    """The names in a folder that any code of any process opens, as the kernel reports them."""

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self._events, os.fsencode(folder), IN_OPEN) > 0

    def opened(self):
        """What was opened since the last time."""
        names = []
        try:
            while data := os.read(self._events, 65536):
                while data:
                    length = int.from_bytes(data[12:16], sys.byteorder)
                    names.append(data[16 : 16 + length].rstrip(b"\0").decode())
                    data = data[16 + length :]
        except BlockingIOError:
            return {name for name in names if name}

    def close(self):
        os.close(self._events)


@pytest.fixture
def watch():
    made = []

    def start(folder):
        made.append(Watch(folder))
        return made[-1]

    yield start
    for item in made:
        item.close()
