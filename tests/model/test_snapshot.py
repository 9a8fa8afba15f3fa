"""Columns are found in data files as the format goes by: names, ids or a name mapping, never by another's."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.model.snapshot import file_field, geo_file_fields
from geolake_nb.parquet.schema import to_arrow_type
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.formats.parquet_sets import make_wide
from tests.growth import growth
from tests.oracle.wkb_write import point, write

GEO = to_arrow_type(gl.geometry())
NEAR, FAR = [(1.0, 1.0), (2.0, 2.0)], [(50.0, 50.0), (51.0, 51.0)]
NEAR_WINDOW, FAR_WINDOW = "ST_MakeEnvelope(0, 0, 3, 3)", "ST_MakeEnvelope(49, 49, 52, 52)"


def points(places) -> pa.Array:
    return GEO.wrap_array(pa.array([write(point(*position)) for position in places]))


def with_id(name: str, id_: int | None, kind: pa.DataType = GEO) -> pa.Field:
    return pa.field(name, kind, metadata=None if id_ is None else {"PARQUET:field_id": str(id_)})


def kept(table: gl.Table, where: str) -> tuple[int, list[bool]]:
    explanation = table.explain(where, row_groups=True)
    return explanation.read.files, [row["kept"] for row in explanation.row_groups.to_pylist()]


def delta_table(folder, mode: str) -> gl.Table:
    """The ids of the file are those of the other column in the log, as after CONVERT TO DELTA and a change of mode."""
    ids = (2, 1) if mode == "name" else (1, 2)
    file = pa.Table.from_arrays(
        [points(NEAR), points(FAR)], schema=pa.schema([with_id("depot", ids[0]), with_id("home", ids[1])])
    )
    folder.mkdir()
    pq.write_table(file, folder / "a.parquet")
    fields = [
        field(
            name,
            "geometry(OGC:CRS84)",
            **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name},
        )
        for number, name in ((1, "depot"), (2, "home"))
    ]
    mapped = metadata(*fields, **{"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"})
    stats = {"numRecords": 2, "nullCount": {"depot": 0, "home": 0}}
    action = add("a.parquet", stats, size=(folder / "a.parquet").stat().st_size)
    LogMaker(folder).commit(0, protocol("geospatial", "columnMapping"), mapped, action)
    return gl.open(str(folder))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_delta_goes_by_names_unless_its_mode_is_id(tmp_path, mode):
    table = delta_table(tmp_path / "t", mode)
    for _ in range(2):
        assert kept(table, f"ST_Intersects(depot, {NEAR_WINDOW})") == (1, [True])
        assert kept(table, f"ST_Intersects(home, {FAR_WINDOW})") == (1, [True])
        assert kept(table, f"ST_Intersects(depot, {FAR_WINDOW})")[1] in ([False], [])
        table.plan_repair().apply()
        table = gl.open(str(tmp_path / "t"))
    box = table.files.to_pandas().iloc[0]
    assert (round(box["depot.xmin"]), round(box["depot.xmax"])) == (1, 2)
    assert (round(box["home.xmin"]), round(box["home.xmax"])) == (50, 51)


MAPPINGS = {
    "one name each": [{"field-id": 1, "names": ["geom"]}, {"field-id": 2, "names": ["geom2"]}],
    "the names of old": [{"field-id": 1, "names": ["geom", "old_geom"]}, {"field-id": 2, "names": ["geom2"]}],
    "no text": None,
}


@pytest.mark.parametrize("mapping", MAPPINGS.values(), ids=MAPPINGS)
def test_iceberg_files_without_ids_go_by_the_name_mapping(tmp_path, mapping):
    """Column 1 was called geom, and column 2 is now."""
    file = pa.Table.from_arrays([points(NEAR), points(FAR)], names=["geom", "geom2"])
    columns = [column(1, "old_geom", "geometry"), column(2, "geom", "geometry")]
    text = "not a mapping" if mapping is None else json.dumps(mapping)
    make_iceberg_table(
        tmp_path,
        columns,
        [FileEntry("a.parquet", rows=2, nulls={1: 0, 2: 0}, table=file)],
        version=3,
        properties={"schema.name-mapping.default": text},
    )
    table = gl.open(str(tmp_path))
    assert kept(table, f"ST_Intersects(geom, {FAR_WINDOW})") == (1, [True])
    assert kept(table, f"ST_Intersects(old_geom, {NEAR_WINDOW})") == (1, [True])
    if mapping is None:
        assert kept(table, f"ST_Intersects(geom, {NEAR_WINDOW})") == (1, [True]), "nobody knows"
    else:
        assert kept(table, f"ST_Intersects(geom, {NEAR_WINDOW})") == (1, [False])


def test_sets_of_files_go_by_names_at_any_depth(tmp_path):
    for name, ids in (("a.parquet", (2, 3)), ("b.parquet", (3, 2))):
        fields = [with_id("g1", ids[0]), with_id("g2", ids[1])]
        inside = pa.StructArray.from_arrays([points(NEAR), points(FAR)], fields=fields)
        written = pa.Table.from_arrays([inside], schema=pa.schema([with_id("s", 1, inside.type)]))
        pq.write_table(written, tmp_path / name)
    table = gl.open(str(tmp_path))
    assert kept(table, f"ST_Intersects(s.g1, {NEAR_WINDOW})") == (2, [True, True])
    assert kept(table, f"ST_Intersects(s.g2, {NEAR_WINDOW})") == (0, [False, False])


def delta_of_many(folder, count: int) -> None:
    fields = [
        field(
            f"g{number}",
            "geometry(OGC:CRS84)",
            **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"},
        )
        for number in range(1, count + 1)
    ]
    mapped = metadata(*fields, **{"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": str(count)})
    LogMaker(folder).commit(0, protocol("geospatial", "columnMapping"), mapped)


def iceberg_of_many(folder, count: int) -> None:
    make_iceberg_table(folder, [column(number, f"g{number}", "geometry") for number in range(1, count + 1)], [])


def parquet_of_many(folder, count: int) -> None:
    folder.mkdir()
    make_wide(folder / "a.parquet", count)


MANY = {"delta": delta_of_many, "iceberg": iceberg_of_many, "parquet": parquet_of_many}


@pytest.mark.parametrize("make", MANY.values(), ids=MANY)
def test_many_columns_are_found_in_a_time_as_long_as_they_are_many(tmp_path, make):
    def finding(count):
        make(tmp_path / str(count), count)
        snapshot = gl.open(str(tmp_path / str(count))).snapshot
        assert geo_file_fields(snapshot)["g9"] == file_field(snapshot, "g9")
        return lambda: geo_file_fields(snapshot)

    assert growth(finding, 250, 2000) < 20
