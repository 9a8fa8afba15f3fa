from __future__ import annotations

from dataclasses import replace

import geoarrow.pyarrow as ga
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb.errors import CorruptTableError, MissingFileError
from geolake_nb.model.schema import Schema
from geolake_nb.model.table_format import FileField
from geolake_nb.model.types import Field, StructType, geography, geometry
from geolake_nb.parquet.footer import row_groups
from geolake_nb.storage.storage import Storage


def points(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-170, 170, count), rng.uniform(-80, 80, count)


def wkb(x, y):
    return ga.wkb().wrap_array(pa.array(list(shapely.to_wkb(shapely.points(x, y))), pa.binary()))


def schema_of(*fields):
    return Schema(StructType(fields))


G = schema_of(Field("g", geometry()))


@pytest.fixture
def files(tmp_path):
    for number in range(3):
        table = pa.table({"id": range(100), "g": wkb(*points(100, number))})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=40)
    return Storage.at(str(tmp_path)), [f"{number}.parquet" for number in range(3)]


def test_every_row_group_has_a_row_with_the_box_of_its_values(files):
    storage, paths = files
    table = row_groups(storage, paths, G)
    assert table.column_names[:4] == ["path", "row_group", "rows", "bytes"]
    assert table["path"].to_pylist() == [path for path in paths for _ in range(3)]
    assert table["row_group"].to_pylist() == [0, 1, 2] * 3
    assert table["rows"].to_pylist() == [40, 40, 20] * 3
    for index, row in enumerate(table.to_pylist()):
        x, y = points(100, index // 3)
        part = slice(40 * (index % 3), 40 * (index % 3) + 40)
        exact = (x[part].min(), y[part].min(), x[part].max(), y[part].max())
        box = tuple(row[f"g.{side}"] for side in ("xmin", "ymin", "xmax", "ymax"))
        assert box == pytest.approx(exact, rel=1e-11)
        assert box[0] < exact[0]
        assert box[3] > exact[3]
        assert row["g.types"] == [1]
        assert row["g.source"] == "footer"
        assert row["g.problem"] is None
    compressed = pq.read_metadata(storage.open(paths[0])).row_group(0)
    assert table["bytes"][0].as_py() == sum(compressed.column(i).total_compressed_size for i in range(2))


def test_progress_is_reported_for_every_file(files):
    seen = []
    row_groups(*files, G, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_row_groups_come_from_a_bucket_too(files, s3, tmp_path):
    url = s3.upload(tmp_path, "lake", "row_groups")
    remote = Storage.at(url, options=s3.options)
    assert row_groups(remote, files[1], G).equals(row_groups(*files, G))


def test_columns_are_found_by_field_id_and_by_physical_name(tmp_path):
    x, y = points(10)
    with_id = pa.schema([pa.field("old", ga.wkb(), metadata={"PARQUET:field_id": "7"})])
    pq.write_table(pa.table([wkb(x, y)], schema=with_id), tmp_path / "id.parquet")
    pq.write_table(pa.table({"col-1": wkb(x, y)}), tmp_path / "name.parquet")
    storage = Storage.at(str(tmp_path))
    by_id = row_groups(storage, ["id.parquet"], schema_of(Field("geom", geometry())), fields={"geom": FileField((), 7)})
    by_name = row_groups(
        storage, ["name.parquet"], schema_of(Field("geom", geometry())), fields={"geom": FileField(("col-1",))}
    )
    for table in (by_id, by_name):
        assert table["geom.xmin"][0].as_py() == pytest.approx(x.min())


def test_a_column_is_null_only_where_the_file_is_sure_to_lack_it(tmp_path):
    with_id = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table([[1, 2]], schema=with_id), tmp_path / "id.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "plain.parquet")
    storage, paths = Storage.at(str(tmp_path)), ["id.parquet", "plain.parquet"]
    with_ids = row_groups(storage, paths, schema_of(Field("g", geometry())), fields={"g": FileField((), 2)})
    # A file without ids may know the column by an older name.
    assert with_ids["g.null_count"].to_pylist() == [2, None]
    without = row_groups(storage, paths, G)
    assert without["g.null_count"].to_pylist() == [2, 2]
    other_case = row_groups(storage, paths, schema_of(Field("A", geometry())))
    assert other_case["A.null_count"].to_pylist() == [None, None]


def test_a_box_counts_only_in_the_system_and_on_the_edges_of_the_table(files):
    storage, paths = files
    metres = row_groups(storage, paths, schema_of(Field("g", geometry("EPSG:3857"))))
    assert metres["g.xmin"].null_count == len(metres)
    assert "EPSG:3857" in metres["g.problem"][0].as_py()
    renamed = row_groups(storage, paths, schema_of(Field("g", geometry("EPSG:4326"))))
    assert renamed["g.xmin"].null_count == 0
    on_earth = row_groups(storage, paths, schema_of(Field("g", geography())))
    assert on_earth["g.xmin"].null_count == 0  # points have no edges


def test_a_table_of_geographies_does_not_take_the_boxes_of_plane_edges(tmp_path):
    arc = ga.wkb().wrap_array(pa.array([shapely.to_wkb(shapely.LineString([(0, 60), (90, 60)]))], pa.binary()))
    pq.write_table(pa.table({"g": arc}), tmp_path / "a.parquet")
    table = row_groups(Storage.at(str(tmp_path)), ["a.parquet"], schema_of(Field("g", geography())))
    assert table["g.xmin"].to_pylist() == [None]
    assert "not the edges" in table["g.problem"][0].as_py()


def test_only_the_requested_columns_are_there(files):
    two = replace(G, root=StructType((*G.fields, Field("h", geometry()))))
    assert "g.xmin" not in row_groups(*files, two, columns=["h"]).column_names


def test_no_files_and_no_geo_columns_make_a_table_too(files):
    storage, paths = files
    assert row_groups(storage, [], G).num_rows == 0
    assert row_groups(storage, paths, Schema()).column_names == ["path", "row_group", "rows", "bytes"]


def test_missing_and_broken_files_are_named(files, tmp_path):
    storage, paths = files
    with pytest.raises(MissingFileError, match=r"none\.parquet: there is no such file"):
        row_groups(storage, [*paths, "none.parquet"], G)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more PAR1")
    with pytest.raises(CorruptTableError, match=r"bad\.parquet"):
        row_groups(storage, [*paths, "bad.parquet"], G)
