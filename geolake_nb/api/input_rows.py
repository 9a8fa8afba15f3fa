"""Input rows from Spark, pandas, geopandas or Arrow, with the schema that a table gets from them."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError, MissingDependencyError, SchemaError
from geolake_nb.model.crs import UNKNOWN_CRS
from geolake_nb.model.types import GeographyType, GeometryType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from geolake_nb.changes.write_job import InputRows
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import DataType

__all__ = ["arrow_table", "input_rows"]

_MIXED = re.compile(r"(geometry|geography)\(SRID:ANY\b", re.IGNORECASE)


def input_rows(rows: Any, columns: Mapping[str, Any], where: str) -> InputRows:
    """The rows with their schema; `columns` declares what the rows leave open, such as a CRS.

    >>> import pyarrow as pa
    >>> print(input_rows(pa.table({"id": [1]}), {}, "/t").schema)
    id: int64
    """
    if type(rows).__module__.startswith("pyspark.sql"):
        given = _frame_rows(rows, columns, where)
    else:
        given = _arrow_rows(arrow_table(rows, where=where), where)
    return replace(given, schema=_with_given_crs(given.schema, columns))


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
            f"expected rows to write, got a {type(rows).__name__}",
            remedy="give a DataFrame of Spark, pandas or geopandas, or an Arrow table",
        )
    # Through the C interface, so that shapes have their types whenever the table was made.
    reader = pa.RecordBatchReader.from_stream(rows)
    _require_one_of_each(reader.schema.names, where)
    return reader.read_all()


def _of_pandas(rows: Any, where: str | None) -> Any:
    """A frame of pandas or geopandas as an Arrow-compatible object."""
    import pyarrow as pa

    if not hasattr(rows, "columns"):
        raise GeolakeError(
            f"expected rows, got a single column ({type(rows).__name__})",
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
    # A filtered RangeIndex has gaps, but is still only row numbers.
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
    """Why Arrow cannot convert a frame: the column, and the fix."""
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
                    "it has shapely geometries in a plain pandas column",
                    where=there,
                    remedy="make it a GeoSeries with a CRS, in a GeoDataFrame",
                )
            kinds = ", ".join(sorted({type(value).__name__ for value in values if value is not None})[:5])
            return SchemaError(f"its values have mixed types ({kinds})", where=there, remedy="convert them to one type")
    return SchemaError(f"the rows cannot be written: {str(problem.args[0]).splitlines()[0]}", where=where)


def _frame_rows(frame: Any, columns: Mapping[str, Any], where: str) -> InputRows:
    """A DataFrame with the schema that its JVM knows: PySpark cannot express all of its geo types."""
    from geolake_nb.changes.write_job import InputRows
    from geolake_nb.formats.delta.schema import from_delta_schema
    from geolake_nb.model.schema import join_path, split_path

    text = frame._jdf.schema().json() if hasattr(frame, "_jdf") else frame.schema.json()
    value = json.loads(text)
    wanted = {join_path(split_path(name)).casefold() for name in columns}
    for field in value["fields"]:
        if isinstance(field["type"], str) and _MIXED.match(field["type"]):
            if field["name"].casefold() not in wanted:
                raise SchemaError(
                    "its values may have any SRID",
                    where=f"{where}, column {field['name']}",
                    remedy="declare its CRS with columns=; values with another SRID are then refused",
                )
            field["type"] = "binary"  # the SRID is stored next to it and checked
    return InputRows(frame, from_delta_schema(json.dumps(value)))


def _arrow_rows(table: pa.Table, where: str) -> InputRows:
    """An Arrow table with the schema that Parquet would have for it."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    from geolake_nb.changes.write_job import InputRows
    from geolake_nb.parquet.schema import from_parquet_schema

    file = io.BytesIO()
    try:
        pq.write_table(table.slice(0, 0).replace_schema_metadata(None), file, store_schema=False)
        schema = from_parquet_schema(pq.read_metadata(file))
    except pa.ArrowException as problem:
        raise SchemaError(f"the rows cannot be written: {str(problem).splitlines()[0]}", where=where) from None
    return InputRows(table, _with_open_crs(schema, table.schema))


def _with_open_crs(schema: Schema, arrow: pa.Schema) -> Schema:
    """The schema with an unknown CRS where the shapes in Arrow have none.

    Parquet's geo types mean OGC:CRS84 then; those of GeoArrow, which geopandas uses, mean an unknown CRS.
    """
    from geolake_nb.changes.column_types import with_types

    return with_types(
        schema,
        {
            path: replace(field.type, crs=UNKNOWN_CRS)
            for path, field in schema.walk_parts()
            if isinstance(field.type, GeometryType | GeographyType) and _lacks_crs(arrow, path)
        },
    )


def _lacks_crs(arrow: pa.Schema, path: tuple[str, ...]) -> bool:
    """Whether the GeoArrow type at a path of our schema has no CRS."""
    import pyarrow as pa

    type_ = arrow.field(path[0]).type
    for name in path[1:]:
        if pa.types.is_map(type_):
            type_ = type_.key_type if name == "key" else type_.item_type
        else:
            type_ = type_.field(name).type if pa.types.is_struct(type_) else type_.value_type
    return getattr(type_, "crs", None) is None


def _with_given_crs(schema: Schema, columns: Mapping[str, Any]) -> Schema:
    """The schema with the declared types for geo columns of unknown CRS."""
    from geolake_nb.changes.column_types import with_types
    from geolake_nb.model.schema import join_path, split_path

    given = {join_path(split_path(name)).casefold(): type_ for name, type_ in columns.items()}
    types: dict[tuple[str, ...], DataType] = {}
    for path, field in schema.walk_parts():
        new, current = given.get(join_path(path).casefold()), field.type
        if not isinstance(new, GeometryType | GeographyType) or not isinstance(current, GeometryType | GeographyType):
            continue
        if current.crs.is_unknown:
            types[path] = replace(new, encoding=current.encoding)
    return with_types(schema, types)
