"""The Maven package with Iceberg for Spark."""

from __future__ import annotations

__all__ = ["ICEBERG_PACKAGE"]

ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
"""Iceberg has no runtime for Spark 4.2; of this one only the core classes are used there, which know no Spark."""
