"""How many tasks a session runs at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["cores"]


def cores(spark: SparkSession) -> int:
    """The cores of the session; eight for a Spark Connect server, which does not report them."""
    remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return 8 if remote else int(spark.sparkContext.defaultParallelism)
