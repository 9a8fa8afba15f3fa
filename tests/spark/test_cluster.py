"""The jobs run on a real cluster, with executors in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark


def test_repair_and_rewrite_run_on_a_standalone_cluster(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from tests.spark.standalone_cluster import standalone_cluster

    with standalone_cluster(tmp_path) as url:
        command = [sys.executable, "-m", "tests.spark.standalone_cluster", url, str(tmp_path)]
        run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-3000:]
    output = json.loads(run.stdout.splitlines()[-1])
    assert output["executors"] == 2
    assert output["same_rows"]
    assert output["versions"] == [1, 2]
    assert output["bounded"]
    assert output["files"] > 1
