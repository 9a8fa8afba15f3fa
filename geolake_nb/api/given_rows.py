"""The rows that a user holds, of Spark, pandas, geopandas or Arrow, with the schema that a table gets from them."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.core.crs import UNKNOWN_CRS
from geolake_nb.core.types import GeographyType, GeometryType
from geolake_nb.errors import GeolakeError, MissingDependencyError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from geolake_nb.core.schema import Schema
    from geolake_nb.core.types import DataType
    from geolake_nb.planning.writing.row_sources import GivenRows

__all__ = ["arrow_table", "given_rows"]

_MIXED = re.compile(r"(geometry|geography)\(SRID:ANY\b", re.IGNORECASE)


def given_rows(rows: Any, columns: Mapping[str, Any], where: str) -> GivenRows:
    """The rows with their schema; `columns` says of geo columns what the rows leave open, such as a CRS.

    >>> import pyarrow as pa
    >>> print(given_rows(pa.table({"id": [1]}), {}, "/t").schema)
    id: int64
    """
    if type(rows).__module__.startswith("pyspark.sql"):
        given = _given_frame(rows, columns, where)
    else:
        given = _given_arrow(arrow_table(rows, where=where), where)
    return replace(given, schema=_with_said_crs(given.schema, columns))


def arrow_table(rows: Any, *, where: str | None = None) -> pa.Table:
    """The rows as Arrow; an index with a name becomes the first column, as in `reset_index`.

    >>> import pandas as pd
    >>> arrow_table(pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="k"))).column_names
    ['k', 'a']
    >>> arrow_table(pd.DataFrame({"a": [1]}, index=["x"]))
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: the index of the rows has no name; keep it with rows.rename_axis('name'), or ...
    """
    import pyarrow as pa

    try:
        import geoarrow.pyarrow  # noqa: F401 - registers the types of shapes
    except ImportError:
        raise MissingDependencyError("shapes in Arrow need geoarrow-pyarrow", remedy="install it") from None
    if type(rows).__module__.startswith(("geopandas", "pandas")):
        rows = _of_pandas(rows, where)
    if not hasattr(rows, "__arrow_c_stream__"):
        raise GeolakeError(
            f"a {type(rows).__name__} holds no rows to write",
            remedy="give a DataFrame of Spark, pandas or geopandas, or an Arrow table",
        )
    # Through the C interface, so that shapes have their types whenever the table was made.
    reader = pa.RecordBatchReader.from_stream(rows)
    _require_one_of_each(reader.schema.names, where)
    return reader.read_all()


def _of_pandas(rows: Any, where: str | None) -> Any:
    """A frame of pandas or geopandas as something that speaks Arrow."""
    import pyarrow as pa

    if not hasattr(rows, "columns"):
        raise GeolakeError(
            f"a {type(rows).__name__} is one column and no rows",
            remedy="make a frame of it with to_frame('geometry')",
        )
    rows = _with_index(rows, where)
    _require_one_of_each(map(str, rows.columns), where)
    try:
        if type(rows).__module__.startswith("geopandas"):
            return rows.to_arrow(index=False)
        return pa.Table.from_pandas(rows, preserve_index=False)
    except pa.ArrowException as problem:
        raise _not_arrow(rows, problem, where) from None


def _with_index(rows: Any, where: str | None) -> Any:
    """The frame with its index as columns; one without a name is left out where it only counts the rows."""
    import pandas as pd

    names = list(rows.index.names)
    # A filter leaves holes in the numbers of rows, and numbers they are all the same.
    if names == [None] and pd.api.types.is_integer_dtype(rows.index.dtype):
        return rows
    if None in names:
        what = "the index of the rows has no name" if len(names) == 1 else "a level of the rows' index has no name"
        raise SchemaError(
            what,
            where=where,
            remedy="keep it with rows.rename_axis('name'), or leave it out with rows.reset_index(drop=True)",
        )
    _require_one_of_each([*map(str, names), *map(str, rows.columns)], where)
    return rows.reset_index()


def _require_one_of_each(names: Iterable[str], where: str | None) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise SchemaError(f"two columns of the rows are named {twice[0]!r}", where=where, remedy="rename one")


def _not_arrow(rows: Any, problem: pa.ArrowException, where: str | None) -> SchemaError:
    """What is wrong with a frame that Arrow does not take: the column, and what to do with it."""
    import pyarrow as pa

    of_geopandas = type(rows).__module__.startswith("geopandas")
    for name in rows.columns:
        values = rows[name]
        if of_geopandas and str(values.dtype) == "geometry":
            continue
        try:
            pa.Array.from_pandas(values)
        except (pa.ArrowException, TypeError, ValueError):
            there = f"column {name}" if where is None else f"{where}, column {name}"
            if any(type(value).__module__.startswith("shapely") for value in values):
                return SchemaError(
                    "it holds shapes of shapely outside of geopandas",
                    where=there,
                    remedy="make it a GeoSeries with a CRS, in a GeoDataFrame",
                )
            kinds = ", ".join(sorted({type(value).__name__ for value in values if value is not None})[:5])
            return SchemaError(f"its values ({kinds}) have no one type", where=there, remedy="give all one type")
    return SchemaError(f"the rows cannot be written: {str(problem.args[0]).splitlines()[0]}", where=where)


def _given_frame(frame: Any, columns: Mapping[str, Any], where: str) -> GivenRows:
    """A DataFrame with the schema that its JVM knows: Python's Spark cannot say all of its geo types."""
    from geolake_nb.core.schema import join_path, split_path
    from geolake_nb.core.schema_delta import from_delta_schema
    from geolake_nb.planning.writing.row_sources import GivenRows

    text = frame._jdf.schema().json() if hasattr(frame, "_jdf") else frame.schema.json()
    value = json.loads(text)
    asked = {join_path(split_path(name)).casefold() for name in columns}
    for field in value["fields"]:
        if isinstance(field["type"], str) and _MIXED.match(field["type"]):
            if field["name"].casefold() not in asked:
                raise SchemaError(
                    "its values may have any SRID",
                    where=f"{where}, column {field['name']}",
                    remedy="say with columns= which CRS it has: values of others are then refused",
                )
            field["type"] = "binary"  # with the SRID beside it, which is checked
    return GivenRows(frame, from_delta_schema(json.dumps(value)))


def _given_arrow(table: pa.Table, where: str) -> GivenRows:
    """An Arrow table with the schema that Parquet would have for it."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    from geolake_nb.core.schema_parquet import from_parquet_schema
    from geolake_nb.planning.writing.row_sources import GivenRows

    file = io.BytesIO()
    try:
        pq.write_table(table.slice(0, 0).replace_schema_metadata(None), file, store_schema=False)
        schema = from_parquet_schema(pq.read_metadata(file))
    except pa.ArrowException as problem:
        raise SchemaError(f"the rows cannot be written: {str(problem).splitlines()[0]}", where=where) from None
    return GivenRows(table, _with_open_crs(schema, table.schema))


def _with_open_crs(schema: Schema, arrow: pa.Schema) -> Schema:
    """The schema with an unknown CRS where the shapes in Arrow have none.

    Parquet's geo types mean OGC:CRS84 then; those of GeoArrow, which geopandas speaks, mean that nobody knows.
    """
    from geolake_nb.planning.writing.column_types import with_types

    return with_types(
        schema,
        {
            path: replace(one.type, crs=UNKNOWN_CRS)
            for path, one in schema.walk_parts()
            if isinstance(one.type, GeometryType | GeographyType) and _lacks_crs(arrow, path)
        },
    )


def _lacks_crs(arrow: pa.Schema, path: tuple[str, ...]) -> bool:
    """Whether the GeoArrow type at a path of our schema says nothing of a CRS."""
    import pyarrow as pa

    held = arrow.field(path[0]).type
    for name in path[1:]:
        if pa.types.is_map(held):
            held = held.key_type if name == "key" else held.item_type
        else:
            held = held.field(name).type if pa.types.is_struct(held) else held.value_type
    return getattr(held, "crs", None) is None


def _with_said_crs(schema: Schema, columns: Mapping[str, Any]) -> Schema:
    """The schema with what is said of geo columns whose CRS nobody knows else."""
    from geolake_nb.core.schema import join_path, split_path
    from geolake_nb.planning.writing.column_types import with_types

    said = {join_path(split_path(name)).casefold(): type_ for name, type_ in columns.items()}
    types: dict[tuple[str, ...], DataType] = {}
    for path, one in schema.walk_parts():
        told, held = said.get(join_path(path).casefold()), one.type
        if not isinstance(told, GeometryType | GeographyType) or not isinstance(held, GeometryType | GeographyType):
            continue
        if held.crs.is_unknown:
            types[path] = replace(told, encoding=held.encoding)
    return with_types(schema, types)
