"""Input rows, a DataFrame of Spark or an Arrow table, as the DataFrame that a job writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.changes.sampling import SAMPLE_ROWS, sample_of
from geolake_nb.model.schema import Schema, split_path
from geolake_nb.model.types import GeographyType, GeometryType, PrimitiveType
from geolake_nb.spark.coerce import RowFitter, refuse_bad, spark_schema
from geolake_nb.storage.hive_paths import partition_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType

    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.changes.write_job import GeoInput, InputRows
    from geolake_nb.model.types import Field

__all__ = ["input_frame", "sample_frame", "size_frame"]

_SEED = 20_240_607
_DRAW = "__geolake_draw"
_WEIGHED_ROWS = 1000
_NOTHING = PrimitiveType("unknown")


def input_frame(
    spark: SparkSession, rows: InputRows, schema: Schema, inputs: Mapping[str, GeoInput], *, where: str
) -> tuple[DataFrame, Mapping[str, GeoInput]]:
    """The rows with the columns of the schema, and how those are read that are not yet ISO WKB."""
    if isinstance(rows.frame, pa.Table):
        fitter = RowFitter(schema, inputs)
        renamed = rows.frame.rename_columns(_names(rows.frame.column_names, schema))
        batches = [fitter.fit(batch) for batch in renamed.to_batches()]
        refuse_bad(fitter.bad, where=where)  # it is all here: no job has to start for it
        # With its schema: on its own Spark takes a time without a zone for an instant of the session's zone.
        return spark.createDataFrame(pa.Table.from_batches(batches, fitter.arrow), spark_schema(schema)), {}
    given = dict(zip(_names_of(rows.schema, schema), rows.schema.fields, strict=True))
    types = {field.name: field.dataType for field in spark_schema(schema)}
    columns = [_column(field.name, given.get(field.name), types[field.name]) for field in schema.fields]
    return rows.frame.select(*columns), inputs


def sample_frame(frame: DataFrame, columns: Sequence[str], partition_by: Sequence[str]) -> Sample:
    """About 100,000 rows of these columns, each as likely as any other, in one pass over the DataFrame."""
    from pyspark.sql import functions as f

    tops = dict.fromkeys([*(split_path(column)[0] for column in columns), *partition_by])
    narrow = frame.select(*[f.col(_quoted(name)) for name in tops])
    drawn = narrow.withColumn(_DRAW, f.rand(_SEED)).orderBy(_DRAW).limit(SAMPLE_ROWS).drop(_DRAW)
    return sample_of(drawn.toArrow(), columns, partition_by)


def size_frame(frame: DataFrame, partition_by: Sequence[str]) -> dict[Partition, int]:
    """About how many bytes of a file the rows of each partition take: their number, and the size of some of them."""
    some = frame.limit(_WEIGHED_ROWS).toArrow()
    if not some.num_rows:
        return {}
    # In Parquet, values take about half of what they do in memory.
    each = max(1, some.nbytes // (2 * some.num_rows))
    if not partition_by:
        return {(): frame.count() * each}
    counted = frame.groupBy(*[_quoted(name) for name in partition_by]).count().toArrow()
    names = zip(*[[partition_text(value) for value in counted[name]] for name in partition_by], strict=True)
    return {name: count * each for name, count in zip(names, counted.column(-1).to_pylist(), strict=True)}


def _names_of(given: Schema, schema: Schema) -> list[str]:
    return _names([field.name for field in given.fields], schema)


def _names(given: Sequence[str], schema: Schema) -> list[str]:
    """The names as the table spells them."""
    spelled = {field.name.casefold(): field.name for field in schema.fields}
    return [spelled.get(name.casefold(), name) for name in given]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column(name: str, given: Field | None, kind: SparkType) -> Column:
    from pyspark.sql import functions as f

    if given is None or given.type == _NOTHING:
        return f.lit(None).cast(kind).alias(name)
    if isinstance(given.type, (GeometryType, GeographyType)):
        # Python's Spark knows few of the CRSs that the JVM does, and cannot pass on columns of others.
        return f.expr(f"st_asbinary({_quoted(given.name)})").alias(name)
    return f.col(_quoted(given.name)).alias(name)
