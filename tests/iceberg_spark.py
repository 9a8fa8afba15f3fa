"""Spark 4.1.4 with Iceberg 1.12.0 in an environment of its own, asked line by line: the engine that others use.

One process serves all tests; its catalogs are `ice` (files alone), `jdbc` (SQLite) and, where a server runs,
`rest`.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.formats.iceberg.make_spark_fixtures import ICEBERG, IVY_SETTINGS, NoSparkError, locked, spark_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SQLITE = "org.xerial:sqlite-jdbc:3.49.1.0"
_MARK = "@answer "

# Runs in the other environment, so that it cannot import anything from here.
_SCRIPT = r"""
import json, sys
from pyspark.sql import SparkSession

settings = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def plain(value):
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


print("@answer " + json.dumps({"rows": []}), flush=True)
for line in sys.stdin:
    try:
        rows = [plain(row.asDict()) for row in spark.sql(json.loads(line)).collect()]
        answer = {"rows": rows}
    except Exception as problem:
        answer = {"error": str(problem)[:2000]}
    print("@answer " + json.dumps(answer), flush=True)
spark.stop()
"""


class IcebergSpark:
    """The running process."""

    def __init__(self, folder: Path, rest: str | None = None) -> None:
        self.rest = rest
        self.warehouse = folder
        self.database = folder / "catalog.db"
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK_"))}
        with locked():
            python = spark_python()
        environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
        ivy = folder / "ivysettings.xml"
        ivy.write_text(IVY_SETTINGS)
        with (folder / "spark.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(python), "-c", _SCRIPT, json.dumps(self._settings(ivy))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, text=True,
            )  # fmt: skip
        self._answer()

    def catalog_settings(self, name: str) -> dict[str, str]:
        """What sets up one of the catalogs in a session."""
        catalogs = {
            "ice": {"type": "hadoop", "warehouse": str(self.warehouse)},
            "jdbc": {
                "type": "jdbc",
                "uri": f"jdbc:sqlite:{self.database}",
                "warehouse": str(self.warehouse / "jdbc"),
                "jdbc.schema-version": "V1",
            },
        }
        if self.rest is not None:
            catalogs["rest"] = {"type": "rest", "uri": self.rest}
        # What others commit has to be seen at once.
        properties = {"cache-enabled": "false", **catalogs.get(name, {})}
        settings = {f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog"}
        return settings | {f"spark.sql.catalog.{name}.{key}": value for key, value in properties.items()}

    def _settings(self, ivy: Path) -> dict[str, str]:
        settings = {
            "spark.jars.packages": f"{ICEBERG},{SQLITE}",
            "spark.jars.ivySettings": str(ivy),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.geospatial.enabled": "true",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
        }
        for name in ("ice", "jdbc", *(() if self.rest is None else ("rest",))):
            settings |= self.catalog_settings(name)
        return settings

    def sql(self, text: str) -> list[dict[str, Any]]:
        """The rows of a statement; bytes as hexadecimal digits."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise AssertionError(answer["error"])
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_MARK):
                answer: dict[str, Any] = json.loads(line.removeprefix(_MARK))
                return answer
        raise NoSparkError((self.warehouse / "spark.log").read_text()[-2000:])

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="session")
def iceberg_spark(rest_server: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergSpark]:
    """The process, started once; the tests that ask for it make tables of their own."""
    try:
        process = IcebergSpark(tmp_path_factory.mktemp("iceberg"), rest_server[0])
    except (NoSparkError, OSError, subprocess.SubprocessError) as problem:
        pytest.skip(f"Spark 4.1.4 with Iceberg cannot be run here: {problem}")
    try:
        yield process
    finally:
        process.stop()
