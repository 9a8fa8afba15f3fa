"""Iceberg's own REST server, as long as the tests last; it binds all interfaces and serves tests only."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
import requests

from tests.formats.iceberg.make_spark_fixtures import locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What org.apache.iceberg.rest.RESTCatalogServer needs.
_PACKAGES = [
    "org.apache.iceberg:iceberg-open-api:1.11.0:test-fixtures",
    "org.apache.iceberg:iceberg-core:1.11.0",
    "org.apache.iceberg:iceberg-core:1.11.0:tests",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
    "org.eclipse.jetty.compression:jetty-compression-server:12.1.5",
    "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.5",
    "org.xerial:sqlite-jdbc:3.49.1.0",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.slf4j:slf4j-simple:2.0.13",
]


def _pom() -> str:
    dependencies = ""
    for package in _PACKAGES:
        group, artifact, version, *classifier = package.split(":")
        extra = f"<classifier>{classifier[0]}</classifier>" if classifier else ""
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{extra}</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>geolake</groupId><artifactId>rest-server</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _classpath() -> str:
    with locked() as cache:
        return _fetched(cache / "iceberg-rest")


def _fetched(folder: Path) -> str:
    classpath = folder / "cp.txt"
    if not classpath.exists():
        if shutil.which("mvn") is None:
            pytest.skip("mvn is not here: Iceberg's REST server cannot be fetched")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_pom())
        command = ["mvn", "-q", "dependency:build-classpath", f"-Dmdep.outputFile={classpath}"]
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        if made.returncode != 0 or not classpath.exists():
            pytest.skip(f"mvn cannot fetch Iceberg's REST server: {made.stdout[-300:]}")
    return classpath.read_text().strip()


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a server, and the folder where its tables lie."""
    folder = tmp_path_factory.mktemp("rest")
    with serve_rest(folder) as uri:
        yield uri, folder


@contextlib.contextmanager
def serve_rest(folder: Path) -> Iterator[str]:
    """A server whose tables lie in the folder, as long as the block lasts."""
    if shutil.which("java") is None:
        pytest.skip("java is not here: Iceberg's REST server cannot be started")
    classpath = _classpath()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Its database is in memory: a second connection to it would find no tables.
    given = {"CATALOG_REST_PORT": str(port), "CATALOG_WAREHOUSE": str(folder), "CATALOG_CLIENTS": "1"}
    environment = {**os.environ, **given}
    command = ["java", "-cp", classpath, "org.apache.iceberg.rest.RESTCatalogServer"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    uri = f"http://127.0.0.1:{port}"
    try:
        _wait(uri, server, folder / "server.log")
        yield uri
    finally:
        server.terminate()
        server.wait(30)


def _wait(uri: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(300):
        if server.poll() is not None:
            pytest.skip(f"Iceberg's REST server stopped: {log.read_text()[-500:]}")
        try:
            if requests.get(f"{uri}/v1/config", timeout=5).ok:
                return
        except requests.RequestException:
            time.sleep(0.2)
    pytest.skip("Iceberg's REST server did not answer within a minute")
