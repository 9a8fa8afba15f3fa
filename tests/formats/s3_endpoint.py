"""An S3 endpoint on loopback: a real HTTP server that speaks S3, in a process of its own."""

from __future__ import annotations

import http.client
import http.server
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.store import S3Store

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY, SECRET = "AKIATESTTESTTEST", "wJalrXUtnFEMItestSECRETtestEXAMPLEKEY"


@dataclass(frozen=True)
class S3Endpoint:
    url: str

    @property
    def options(self) -> dict[str, str]:
        """What a user passes as `storage_options`."""
        return {
            "aws_access_key_id": KEY,
            "aws_secret_access_key": SECRET,
            "aws_endpoint": self.url,
            "aws_allow_http": "true",
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self, bucket: str) -> None:
        import requests

        requests.put(f"{self.url}/{bucket}", timeout=10).raise_for_status()

    def put(self, bucket: str, key: str, data: bytes) -> None:
        config = {"endpoint": self.url, "access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1"}
        store = S3Store(bucket, config=config, client_options={"allow_http": True})
        obstore.put(store, key, data)

    def upload(self, folder, bucket: str, prefix: str) -> str:
        """Copy a local folder into the bucket; returns its URL there."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(bucket, f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())
        return f"s3://{bucket}/{prefix}"


@contextmanager
def serve_s3() -> Iterator[S3Endpoint]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if server.poll() is not None:
                    raise RuntimeError("the S3 endpoint did not start") from None
                time.sleep(0.1)
        yield S3Endpoint(f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait(10)


@contextmanager
def losing_answers(target: str, *, count: int | None = None) -> Iterator[str]:
    """A proxy that passes every request on, and hangs up instead of passing back the first answers to a PUT."""
    lost: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            place = urlsplit(target)
            connection = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
            connection.request(self.command, self.path, body, dict(self.headers))
            response = connection.getresponse()
            data = response.read()
            connection.close()
            if self.command == "PUT" and (count is None or len(lost) < count):
                lost.append(self.path)
                self.close_connection = True
                return
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in ("connection", "content-length", "date", "server", "transfer-encoding"):
                    self.send_header(name, value)
            # The answer to a HEAD tells the length of what it leaves out.
            self.send_header("content-length", response.getheader("content-length") or str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    for verb in ("DELETE", "GET", "HEAD", "PUT"):
        setattr(Handler, f"do_{verb}", Handler.answer)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
