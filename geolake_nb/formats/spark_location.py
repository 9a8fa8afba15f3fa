"""Locations as Spark's file systems name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["hadoop_configuration", "spark_location"]


def spark_location(spark: SparkSession, location: str) -> str:
    """The location as Spark names it.

    >>> spark_location(None, "/data/t"), spark_location(None, "s3://lake/t")
    ('/data/t', 's3a://lake/t')
    """
    parsed = Location.of(location)
    return (
        parsed.text
        if parsed.scheme == "file"
        else f"{_scheme(spark, parsed)}://{parsed.host}/{parsed.path}".rstrip("/")
    )


def _scheme(spark: SparkSession, parsed: Location) -> str:
    # Spark's own file system for S3 goes by s3a; only where another one is set up does s3 mean anything.
    if parsed.scheme != "s3" or getattr(spark, "_jvm", None) is None:
        return {"s3": "s3a"}.get(parsed.scheme, parsed.scheme)
    return "s3" if hadoop_configuration(spark).get("fs.s3.impl") else "s3a"


def hadoop_configuration(spark: SparkSession) -> Any:
    """The Hadoop configuration of the session."""
    return spark._jsparkSession.sessionState().newHadoopConf()
