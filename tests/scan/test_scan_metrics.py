"""What a scan reads is what its metrics and its plan say, measured at the files."""

from __future__ import annotations

import builtins
import io
import os
import random
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import JobError
from geolake_nb.storage.storage import Storage
from tests.scan.scan_tables import arrow_column
from tests.small_tables import make_delta, make_iceberg, make_parquet

ROWS, GROUP = 20_000, 1_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four files along the equator, clustered, with a wide column that no filter asks about."""
    where = tmp_path_factory.mktemp("metrics") / "t"
    where.mkdir()
    rng = random.Random(1)
    for number in range(4):
        points = [shapely.Point(number * 40 + place * 40 / ROWS, rng.uniform(-1, 1)).wkb for place in range(ROWS)]
        table = pa.table({
            "id": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64()),
            "geom": arrow_column(pa.array(points, pa.binary())),
            "wide": pa.array([rng.randbytes(100) for _ in range(ROWS)], pa.binary()),
        })  # fmt: skip
        pq.write_table(table, where / f"{number}.parquet", row_group_size=GROUP, compression="none")
    return where


class CountingFile:
    """A file that notes which of its bytes are read."""

    def __init__(self, file, spans):
        self._file, self._spans = file, spans

    def read(self, count=-1):
        return self._noted(self._file.read, count)

    def read_buffer(self, count=None):
        return self._noted(self._file.read_buffer, count)

    def _noted(self, read, count):
        start = self._file.tell()
        data = read(None if count is None or count < 0 else count)
        self._spans.append((start, start + len(data)))
        return data

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.fixture
def read_spans(monkeypatch):
    """The parts of each data file that are read; Arrow reads some again that were checked before, from memory."""
    spans: dict[str, list[tuple[int, int]]] = {}
    original = Storage.open

    def open_file(self, path, *rest, **options):
        file = original(self, path, *rest, **options)
        return pa.PythonFile(CountingFile(file, spans.setdefault(os.path.basename(path), [])), mode="r")

    monkeypatch.setattr(Storage, "open", open_file)
    return spans


def covered(spans):
    """How many bytes some parts cover."""
    total = end = 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def planned(table, where):
    explanation = table.scan(where).explain()
    groups = explanation.row_groups
    return groups.filter(groups["kept"])


WINDOWS = [[10, -2, 11, 2], [39, -2, 42, 2], [0, -2, 160, 2], [75, 0.5, 80, 0.7]]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_row_groups_and_files_are_those_of_the_plan(folder, window):
    table = gl.open(str(folder))
    kept = planned(table, window)
    scan = table.scan(window)
    rows = scan.to_arrow()
    metrics = scan.metrics
    assert metrics.row_groups == metrics.row_groups_planned == len(kept)
    assert metrics.files == metrics.files_planned == len(set(kept["path"].to_pylist()))
    assert metrics.files_total == 4
    assert metrics.rows == len(rows)
    assert metrics.rows_scanned == sum(kept["rows"].to_pylist())


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_bytes_are_those_of_the_column_chunks_that_have_to_be_read(folder, window):
    table = gl.open(str(folder))
    kept = planned(table, window).to_pylist()
    scan = table.scan(window)
    scan.to_arrow()
    expected = 0
    for group in kept:
        footer = pq.read_metadata(folder / group["path"]).row_group(group["row_group"])
        expected += sum(footer.column(place).total_compressed_size for place in range(footer.num_columns))
    assert expected * 0.5 <= scan.metrics.bytes <= expected * 1.05


def test_other_columns_are_read_only_where_a_row_matches(folder):
    table = gl.open(str(folder))
    # Inside of the box of a row group, and beside all of its points.
    scan = table.scan("id = 5 AND ST_Intersects(geom, ST_MakeEnvelope(0.5, -2, 0.7, 2))")
    assert len(scan.to_arrow()) == 0
    footer = pq.read_metadata(folder / "0.parquet").row_group(0)
    filters = sum(footer.column(place).total_compressed_size for place in (0, 1))
    assert scan.metrics.bytes <= filters * 1.05 * scan.metrics.row_groups
    narrow = table.scan([0, -2, 20, 2], columns=["id"])
    narrow.to_arrow()
    wide = table.scan([0, -2, 20, 2])
    wide.to_arrow()
    assert narrow.metrics.bytes < wide.metrics.bytes / 3


def test_a_counting_file_system_sees_the_bytes_of_the_metrics(folder, read_spans):
    table = gl.open(str(folder))
    planned(table, [39, -2, 42, 2])
    read_spans.clear()
    scan = table.scan([39, -2, 42, 2])
    scan.to_arrow()
    assert set(read_spans) == {"0.parquet", "1.parquet"}
    read = sum(map(covered, read_spans.values()))
    assert scan.metrics.bytes * 0.95 <= read <= scan.metrics.bytes * 1.05


def test_files_outside_of_the_window_are_not_opened(folder, tmp_path):
    import shutil

    copy = tmp_path / "t"
    shutil.copytree(folder, copy)
    table = gl.open(str(copy))
    expected = len(table.scan([41, -2, 42, 2]).to_arrow())
    for number in (0, 2, 3):
        (copy / f"{number}.parquet").unlink()
    assert len(table.scan([41, -2, 42, 2]).to_arrow()) == expected > 0


def test_a_limit_ends_the_read_early(folder):
    table = gl.open(str(folder))
    scan = table.scan(limit=10)
    assert len(scan.to_arrow()) == 10
    assert scan.metrics.row_groups < 20
    assert scan.metrics.rows == 10


@pytest.mark.parametrize("maker", [make_delta, make_iceberg, make_parquet])
def test_counting_all_rows_opens_no_data_file(tmp_path, maker):
    table = gl.open(str(maker(tmp_path / "t")))
    for path in (tmp_path / "t").glob("*.parquet"):
        path.unlink()
    assert table.scan().count() == 12
    assert table.scan(limit=5).count() == 5


def test_counting_the_rows_of_a_filter_reads_the_columns_of_the_filter_alone(folder):
    table = gl.open(str(folder))
    scan = table.scan([0, -2, 10, 2])
    expected = len(scan.to_arrow())
    assert scan.count() == expected
    footer = pq.read_metadata(folder / "0.parquet").row_group(0)
    assert scan.metrics.bytes <= footer.column(1).total_compressed_size * 1.1 * scan.metrics.row_groups


def test_a_scan_without_a_match_can_be_cancelled(folder):
    table = gl.open(str(folder))
    cancelled = threading.Event()
    seen = []

    def on_progress(done, known):
        seen.append(done)
        cancelled.set()

    # Each row group has to be read for that, and none has a row.
    scan = table.scan("NOT ST_Intersects(geom, ST_MakeEnvelope(-1000, -1000, 1000, 1000))")
    with pytest.raises(JobError, match="the scan was cancelled"):
        scan.to_arrow(on_progress=on_progress, cancelled=cancelled)
    assert seen == [1]


def test_making_and_printing_a_scan_reads_no_data_file(folder, monkeypatch):
    table = gl.open(str(folder))
    opened = []

    def watch(real):
        def open_file(file, *rest, **options):
            if str(file).endswith(".parquet"):
                opened.append(str(file))
            return real(file, *rest, **options)

        return open_file

    monkeypatch.setattr(builtins, "open", watch(builtins.open))
    monkeypatch.setattr(io, "open", watch(io.open))
    scan = table.scan([0, -2, 1, 2])
    assert "1 of 4 files" in str(scan)
    assert "geolake" not in repr(scan)
    assert scan.schema.names == ["id", "geom", "wide"]
    assert opened == []
    assert scan.metrics.bytes == 0
