"""Compares strings by a collation with Spark."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.spark.collation_check import spark_collations
from geolake_nb.spark.session import running_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from geolake_nb.model.collation import Collation

__all__ = ["SparkCollator", "collator_of"]


class SparkCollator:
    """Compares by the collations that a session has; no query runs before a filter needs it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @functools.cached_property
    def _versions(self) -> dict[Collation, str]:
        return spark_collations(self._spark)

    def version_of(self, collation: Collation) -> str | None:
        """Spark's version of the collation, `None` for one that it does not have by exactly this name."""
        return self._versions.get(collation.unversioned())

    def ranks(self, texts: Mapping[Collation, pa.Array]) -> dict[Collation, pa.Array]:
        """The ranks of the texts in Spark's order, in one query; equal texts share a rank."""
        rows = [self._ranked(index, collation, texts[collation]) for index, collation in enumerate(texts)]
        ranked = functools.reduce(lambda left, other: left.unionAll(other), rows).toArrow()
        ranks: dict[Collation, pa.Array] = {}
        for index, collation in enumerate(texts):
            own = ranked.filter(pc.equal(ranked["query"], index)).sort_by("number")
            ranks[collation] = own["rank"].combine_chunks().cast(pa.int64())
        return ranks

    def _ranked(self, index: int, collation: Collation, texts: pa.Array) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        # The texts go as data: none of them becomes part of a query.
        numbered = pa.table({"number": pa.array(range(len(texts)), pa.int64()), "text": texts})
        data = self._spark.createDataFrame(numbered)
        order = Window.orderBy(F.collate(F.col("text"), collation.name))
        return data.select(F.lit(index).alias("query"), "number", F.dense_rank().over(order).alias("rank"))


def collator_of(spark: SparkSession | None) -> SparkCollator | None:
    """The collator of the session that is given, else of the one that runs in this process; none is started.

    >>> import sys
    >>> collator_of(None) is None or "pyspark" in sys.modules
    True
    """
    session = running_session(spark)
    return None if session is None else SparkCollator(session)
