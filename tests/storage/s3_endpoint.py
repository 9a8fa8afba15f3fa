"""An S3 endpoint on loopback: a real HTTP server for the S3 protocol, in a separate process."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import obstore
from obstore.store import S3Store

from tests.http_proxy import Fate, proxy_to

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
        obstore.put(self._store(bucket), key, data)

    def objects(self, bucket: str, prefix: str) -> dict[str, bytes]:
        """All that is stored below a prefix."""
        store = self._store(bucket)
        listed = [object_["path"] for batch in obstore.list(store, prefix) for object_ in batch]
        return {path: obstore.get(store, path).bytes().to_bytes() for path in listed}

    def _store(self, bucket: str) -> S3Store:
        config = {"endpoint": self.url, "access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1"}
        return S3Store(bucket, config=config, client_options={"allow_http": True})

    def upload(self, folder, bucket: str, prefix: str) -> str:
        """Copy a local folder into the bucket; returns its URL there."""
        store = self._store(bucket)
        files = [file for file in folder.rglob("*") if file.is_file()]
        keys = [f"{prefix}/{file.relative_to(folder).as_posix()}" for file in files]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key, file: obstore.put(store, key, file.read_bytes()), keys, files))
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
def losing_answers(target: str) -> Iterator[str]:
    """A proxy that passes every request on, and hangs up instead of passing back the answer to a PUT."""
    with proxy_to(target) as proxy:
        proxy.rule = lambda method, path: Fate.ANSWER_LOST if method == "PUT" else Fate.PASSES
        yield proxy.url


@contextmanager
def ignoring_conditions(target: str) -> Iterator[str]:
    """A store that knows no conditions: a PUT that must not overwrite does."""
    with proxy_to(target, unheard=(b"if-match", b"if-none-match")) as proxy:
        yield proxy.url
