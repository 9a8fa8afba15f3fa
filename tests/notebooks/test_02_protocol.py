"""Notebook 02: the bounds in each format, and what is read by them, against the rows themselves."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb import demo

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

WINDOW = (6, 46, 10.5, 48)
NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"


@pytest.fixture(scope="module")
def tables(ran) -> Path:
    return ran.path.parent / "tables" / "inside"


@cache
def boxes(file: Path) -> list[tuple[float, ...]]:
    """The box around the shapes of each row group of a data file."""
    collected = []
    parquet = pq.ParquetFile(file)
    for group in range(parquet.num_row_groups):
        column = parquet.read_row_group(group, columns=["shape"])["shape"].combine_chunks()
        bytes_ = column.storage if isinstance(column, pa.ExtensionArray) else column
        collected.append(tuple(shapely.total_bounds(shapely.from_wkb(bytes_.to_numpy(zero_copy_only=False)))))
    return collected


def around(parts: list[tuple[float, ...]]) -> tuple[float, ...]:
    xmin, ymin, xmax, ymax = zip(*parts, strict=True)
    return min(xmin), min(ymin), max(xmax), max(ymax)


def meets(box: tuple[float, ...]) -> bool:
    return box[0] <= WINDOW[2] and box[1] <= WINDOW[3] and box[2] >= WINDOW[0] and box[3] >= WINDOW[1]


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("part-*.parquet"))


def numbers(text: str) -> list[float]:
    return [float(digits) for digits in re.findall(NUMBER, text)]


def test_the_error_stream_is_empty(ran):
    assert ran.stderr() == {}


def test_the_protocols_are_those_of_the_metadata(ran, tables):
    lines = (tables / "delta" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    protocol = next(json.loads(line)["protocol"] for line in lines if line.startswith('{"protocol"'))
    output = ran.text("protocol-delta")
    assert f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}" in output
    for feature in protocol["writerFeatures"]:
        assert feature in output
    newest = max((tables / "iceberg" / "metadata").glob("v*.metadata.json"))
    metadata = json.loads(newest.read_text())
    assert f"format version {metadata['format-version']}" in ran.text("protocol-iceberg")
    for field in metadata["schemas"][-1]["fields"]:
        assert f"{field['name']}: " in ran.text("schema")
        assert f"#{field['id']}" in ran.text("schema")
    footer = pq.read_metadata(files_of(tables / "parquet")[0])
    assert json.loads(footer.metadata[b"geo"])["version"] in ran.text("protocol-parquet")


def test_each_format_holds_the_box_of_the_rows(ran, tables):
    delta = re.findall(rf"POINT\(({NUMBER}) ({NUMBER})\)", ran.text("bounds-delta"))
    iceberg = re.findall(rf"\(({NUMBER}), ({NUMBER})\)", ran.text("bounds-iceberg"))
    for form, corners in (("delta", delta), ("iceberg", iceberg)):
        message = tuple(float(number) for corner in corners for number in corner)
        assert message in {around(boxes(file)) for file in files_of(tables / form)}
    message = numbers(ran.text("bounds-parquet").partition("xmin")[2])[:4]
    first = next(file for file in files_of(tables / "parquet") if len(boxes(file)) > 1)
    xmin, ymin, xmax, ymax = boxes(first)[0]
    assert message == pytest.approx([xmin, xmax, ymin, ymax])


def test_the_boxes_of_all_formats_agree(ran, tables):
    stored = [
        sorted(around(boxes(file)) for file in files_of(tables / form)) for form in ("delta", "iceberg", "parquet")
    ]
    assert stored[0] == stored[1] == stored[2]
    lines = [numbers(line)[-5:] for line in ran.text("files").splitlines()[2:]]
    output = [tuple(line[1:]) for line in lines if len(line) == 5]
    wanted = sorted(tuple(round(side, 1) for side in box) for box in stored[0])
    assert len(output) == 3 * len(wanted)
    assert sorted(output) == sorted(3 * wanted)


def test_three_files_span_the_map(tables):
    sides = {file: around(boxes(file)) for file in files_of(tables / "parquet")}
    wide = [file for file, box in sides.items() if box[2] - box[0] > 359.9]
    stored = [set(pq.read_table(file, columns=["name"])["name"].to_pylist()) for file in wide]
    assert len(stored) == 3
    for name in ("Fiji", "Russia", "Antarctica"):
        assert sum(name in names for names in stored) == 1


def test_what_is_read_is_what_meets_the_window(ran, tables):
    files = files_of(tables / "parquet")
    read = [file for file in files if meets(around(boxes(file)))]
    groups = [box for file in files for box in boxes(file)]
    rows = sum(pq.read_metadata(file).num_rows for file in read)
    output = ran.text("explain-groups")
    all_rows = demo.countries().num_rows
    assert f"reads {len(read)} of {len(files)} files, {rows} of {all_rows} rows" in output
    assert f"{sum(map(meets, groups))} of {len(groups)} row groups" in output
    assert sum(map(meets, groups)) < len(groups) / 4, "the story needs row groups that tell more than files"


def test_the_second_commit_brings_antarctica(ran, tables):
    assert len([line for line in ran.text("history-delta").splitlines() if "GEOLAKE WRITE" in line]) == 2
    newest = max((tables / "iceberg" / "metadata").glob("v*.metadata.json"))
    for snapshot in json.loads(newest.read_text())["snapshots"]:
        assert str(snapshot["snapshot-id"]) in ran.text("history-iceberg")
    south = demo.countries()["continent"].to_pylist().count("Antarctica")
    assert re.search(rf"added +1 file, {south} row", ran.text("diff"))
    assert re.search(r"unchanged +4 files", ran.text("diff"))


def test_it_looks_good(ran, looks_good):
    looks_good(ran)
