"""The jobs and the data source run on a real cluster, with executors in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import shapely

from tests.spark.point_table import points_of

pytestmark = pytest.mark.spark


def test_repair_rewrite_and_the_data_source_run_on_a_standalone_cluster(tmp_path):
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
    assert output["tasks"] > 1
    assert output["read_rows"] == 2000
    window = shapely.box(-20, -20, 20, 20)
    inside = [row for row, point in enumerate(points_of(2000)) if point is not None and window.intersects(point)]
    assert output["ids_in_window"] == inside
    assert 0 < len(inside) < 2000
