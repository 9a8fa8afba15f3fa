"""The columns that rows are cut into partitions by, computed by Iceberg's transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from geolake_nb.changes.write_job import KeyColumn

__all__ = ["keyed_frame"]


def keyed_frame(frame: DataFrame, keys: Mapping[str, KeyColumn]) -> DataFrame:
    """The rows with these additional columns."""
    from pyspark.sql import functions as sf

    sources = {name: sf.col("`" + key.source.replace("`", "``") + "`") for name, key in keys.items()}
    return frame.select("*", *[_function(key)(sources[name]).alias(name) for name, key in keys.items()])


def _function(key: KeyColumn) -> Callable[..., Column]:
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def keys(values: Any) -> Any:
        from geolake_nb.formats.iceberg.partitions import partition_keys

        return partition_keys(key.transform, key.type, values)

    # Spark looks at the types themselves to tell what kind of function it is.
    keys.__annotations__ = {"values": pa.Array, "return": pa.Array}
    make: Any = arrow_udf
    function: Callable[..., Column] = make(keys, "string")
    return function
