"""Siblings of line A: 0.0 and -0.0 are equal in SQL, but Spark's dictionary filter distinguishes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import geolake_nb as gl

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "d": pa.array([-0.0, -0.0, 0.0, None]),
        "low": pa.array([-0.0, -0.0, -0.0, None], pa.float32()),
        "high": pa.array([0.0, 0.0, 0.0, None]),
    }
)
# Spark: -0.0 = 0.0 (its documentation, "NaN Semantics": positive and negative zero are equal).
FILTERS = {
    "d = 0.0D": [1, 2, 3],
    "low = 0.0D": [1, 2, 3],
    "low >= 0.0D": [1, 2, 3],
    "low IN (0.0D, 5.0D)": [1, 2, 3],
    "high = -0.0D": [1, 2, 3],
    "high <= -0.0D": [1, 2, 3],
    "low <> 0.0D": [],
}


@pytest.mark.spark
@pytest.mark.parametrize("change", ["write", "rewrite"])
@pytest.mark.parametrize("format_", ["delta", "parquet"])
def test_spark_finds_zeros_of_either_sign_in_the_files_that_we_write(spark, tmp_path, format_, change):
    path = str(tmp_path / "t")
    gl.write(ROWS, path, format=format_, spark=spark)
    if change == "rewrite":
        gl.open(path).plan_rewrite(cluster_by="id").apply(spark=spark)
    frame = spark.read.format(format_).load(path)
    ids = {where: sorted(row.id for row in frame.where(where).select("id").collect()) for where in FILTERS}
    assert ids == FILTERS
