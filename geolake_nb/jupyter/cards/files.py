"""The card of the files of a table: how many, and the first of them with their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from geolake_nb.jupyter.card_parts import card, grid, left_out, name, plural
from geolake_nb.jupyter.html import tag
from geolake_nb.model.file_table import plain_values
from geolake_nb.scan.explanation import bytes_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.jupyter.html import Child, Markup
    from geolake_nb.model.file_table import FileTable

__all__ = ["show"]

_SHOWN = 20
_SHOWN_COLUMNS = 8


def show(files: FileTable) -> Markup:
    """The card."""
    table = files.table
    rows = pc.sum(table["rows"], min_count=0, skip_nulls=False).as_py()
    row_count = "rows not known" if rows is None else plural(rows, "row")
    size = bytes_text(pc.sum(table["bytes"]).as_py() or 0)
    geo = files.geo_columns[:_SHOWN_COLUMNS]
    partitions = [column for column in table.column_names if column.startswith("partition.")][:_SHOWN_COLUMNS]
    headers = ["path", "rows", "size", *(column.removeprefix("partition.") for column in partitions)]
    shown = table.slice(0, _SHOWN)
    values = (
        zip(*[plain_values(shown[column]) for column in partitions], strict=True) if partitions else [()] * len(shown)
    )
    plain = shown.drop_columns([column for column in table.column_names if column.startswith("partition.")]).to_pylist()
    first = [_row(file, partition, geo) for file, partition in zip(plain, values, strict=True)]
    return card(
        "Files",
        tag("p", tag("strong", "Files "), f"{len(files):,}, {row_count}, {size}"),
        grid([*headers, *(f"bounds of {column}" for column in geo)], first, numbers=[1, 2]),
        left_out(_SHOWN, len(files), "t.files.to_pandas()"),
    )


def _row(file: Mapping[str, Any], partition: Sequence[Any], geo: tuple[str, ...]) -> list[Child]:
    values = ["null" if value is None else name(str(value), 60) for value in partition]
    size = "not known" if file["bytes"] is None else bytes_text(file["bytes"])
    rows = "not known" if file["rows"] is None else file["rows"]
    return [name(file["path"]), rows, size, *values, *(_bounds(file, column) for column in geo)]


def _bounds(file: Mapping[str, Any], column: str) -> Child:
    if file[f"{column}.problem"] is not None:
        return tag("span", f"not usable: {file[f'{column}.problem'][:200]}", class_="warning")
    sides = [file[f"{column}.{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
    if any(side is None for side in sides):
        return "none"
    return " ".join(f"{side:g}" for side in sides)
