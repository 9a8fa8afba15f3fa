"""What tasks report to the driver besides their rows, by keys: a task that runs again reports the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

__all__ = ["keyed_accumulator"]


def keyed_accumulator(spark: SparkSession) -> Accumulator[dict[int, Any]] | None:
    """An accumulator to which tasks add dicts; `None` where the driver is another process than this one."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    from pyspark.accumulators import AccumulatorParam

    class ByKey(AccumulatorParam[dict[int, Any]]):
        def zero(self, value: dict[int, Any]) -> dict[int, Any]:
            return {}

        def addInPlace(self, value1: dict[int, Any], value2: dict[int, Any]) -> dict[int, Any]:  # noqa: N802
            value1.update(value2)
            return value1

    return spark.sparkContext.accumulator({}, ByKey())
