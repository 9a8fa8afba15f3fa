"""`t.scan`: its arguments, the ways to the rows, and what is wrong in one sentence each."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, JobError, PredicateError, SchemaError
from tests.small_tables import PLACES, make_delta, make_havasu, make_iceberg, make_parquet, shapes

MAKERS = [make_parquet, make_delta, make_iceberg, make_havasu]
WINDOW = [10, 50, 11, 51]


@pytest.fixture(params=MAKERS, ids=["parquet", "delta", "iceberg", "havasu"])
def table(request, tmp_path):
    return gl.open(str(request.param(tmp_path / "t")))


@pytest.fixture
def delta(tmp_path):
    return gl.open(str(make_delta(tmp_path / "t")))


def points(rows):
    return sorted(shape.wkt for shape in shapely.from_wkb(rows["geom"].to_pylist()))


EVERYTHING = sorted(shape.wkt for place in PLACES for shape in shapes(place))
INSIDE = ["POINT (10 50)", "POINT (11 51)"]


# ---- the rows


def test_all_rows_and_those_of_a_window(table):
    assert points(table.scan().to_arrow()) == EVERYTHING
    assert points(table.scan(WINDOW).to_arrow()) == INSIDE
    assert table.scan().count() == 12
    assert table.scan(WINDOW).count() == 2
    assert table.scan([0, 0, 1, 1]).count() == 0
    assert len(table.scan([0, 0, 1, 1]).to_arrow()) == 0


def test_columns_come_in_the_order_in_which_they_are_asked_for(table):
    assert table.scan(columns=["geom", "id"]).to_arrow().column_names == ["geom", "id"]
    assert table.scan(WINDOW, columns=["id"]).to_arrow().to_pydict() == {"id": [0, 1]}
    assert table.scan(columns=["id"]).schema.names == ["id"]
    assert table.scan("id > 1", columns=["geom"]).to_arrow().column_names == ["geom"]


def test_no_columns_still_have_a_number_of_rows(table):
    answer = table.scan(WINDOW, columns=[]).to_arrow()
    assert answer.column_names == []
    assert sum(len(batch) for batch in table.scan(WINDOW, columns=[]).to_batches()) == 2


@pytest.mark.parametrize("limit", [0, 1, 5, 12, 100])
def test_a_limit_is_the_most_rows_there_are(table, limit):
    answer = table.scan(limit=limit).to_arrow()
    assert len(answer) == table.scan(limit=limit).count() == min(limit, 12)
    assert set(points(answer)) <= set(EVERYTHING)
    assert len(table.scan(WINDOW, limit=limit).to_arrow()) == min(limit, 2)
    assert table.scan(WINDOW, limit=limit).count() == min(limit, 2)


def test_batches_hold_the_rows_of_the_table(table):
    reader = table.scan().to_batches()
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == table.scan().schema
    assert points(reader.read_all()) == EVERYTHING
    # A scan is a description: it can be read twice.
    scan = table.scan(WINDOW)
    assert points(scan.to_arrow()) == points(scan.to_arrow()) == INSIDE


def test_an_empty_answer_has_the_schema(table):
    for answer in (
        table.scan([0, 0, 1, 1]).to_arrow(),
        table.scan("id > 99").to_arrow(),
        table.scan(limit=0).to_arrow(),
    ):
        assert answer.schema == table.scan().schema
        assert answer.num_rows == 0


def test_older_versions_have_their_rows(delta):
    assert len(delta.scan(version=0).to_arrow()) == 4
    assert len(delta.scan(version=1).to_arrow()) == 12
    assert len(delta.scan(WINDOW, version=0).to_arrow()) == 2


def test_a_table_without_files_has_no_rows(tmp_path):
    from tests.formats.delta.log_maker import LogMaker, metadata, protocol

    LogMaker(tmp_path).commit(0, protocol(), metadata())
    scan = gl.open(str(tmp_path)).scan()
    assert scan.to_arrow().to_pydict() == {"id": []}
    assert scan.count() == 0
    assert gl.open(str(tmp_path)).scan("id = 1").count() == 0


# ---- other libraries


def test_pandas_has_the_wkb_and_geopandas_the_shapes(table):
    frame = table.scan(WINDOW).to_pandas()
    assert sorted(frame["id"]) == [0, 1]
    assert sorted(shapely.from_wkb(frame["geom"].to_numpy()).tolist(), key=str) == shapes(PLACES[0])[:2]
    geo = table.scan(WINDOW).to_geopandas()
    assert geo.geometry.name == "geom"
    assert sorted(geo.geometry.to_wkt()) == INSIDE


def test_geopandas_has_the_crs_of_the_column(delta, tmp_path):
    from tests.scan.scan_tables import arrow_column

    assert delta.scan().to_geopandas().crs == "OGC:CRS84"
    (tmp_path / "p").mkdir()
    geom = arrow_column(pa.array([shapely.Point(5e5, 5e6).wkb], pa.binary()), "EPSG:32633")
    pq.write_table(pa.table({"id": [1], "geom": geom}), tmp_path / "p" / "a.parquet")
    assert gl.open(str(tmp_path / "p")).scan().to_geopandas().crs == "EPSG:32633"


def test_geopandas_needs_a_geo_column(delta):
    with pytest.raises(SchemaError, match=r"no column of the scan holds geometries; use to_pandas\(\)"):
        delta.scan(columns=["id"]).to_geopandas()


def test_geometries_of_arrow_are_marked_for_other_libraries(delta):
    field = delta.scan().schema.field("geom")
    name = (
        getattr(field.type, "extension_name", None) or (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    )
    assert name == "geoarrow.wkb"


def test_any_reader_of_the_arrow_stream_takes_a_scan(table):
    assert points(pa.table(table.scan(WINDOW))) == INSIDE
    assert points(pa.RecordBatchReader.from_stream(table.scan()).read_all()) == EVERYTHING


def test_duckdb_queries_a_view_of_the_scan(table):
    import duckdb

    with duckdb.connect() as connection:
        relation = table.scan(WINDOW).to_duckdb(connection, "window_rows")
        assert sorted(row[0] for row in relation.project("id").fetchall()) == [0, 1]
        for _ in range(2):  # a view is read again
            assert connection.sql("SELECT count(*), max(id) FROM window_rows").fetchall() == [(2, 1)]
        assert connection.sql("SELECT id FROM window_rows WHERE id = 1").fetchall() == [(1,)]


def test_sedonadb_queries_a_view_of_the_scan(delta):
    sedona = pytest.importorskip("sedonadb").connect()
    delta.scan().to_sedona(sedona, "t")
    query = "SELECT count(*) AS n FROM t WHERE ST_Intersects(geom, ST_SetSRID(ST_GeomFromText('POINT (10 50)'), 4326))"
    assert sedona.sql(query).to_arrow_table()["n"].to_pylist() == [1]
    assert delta.scan(WINDOW).to_sedona(sedona).to_arrow_table().num_rows == 2


def test_head_and_to_geopandas_are_short_forms(table):
    assert len(table.head()) == 5
    assert len(table.head(2)) == 2
    assert sorted(table.to_geopandas(WINDOW).geometry.to_wkt()) == INSIDE
    assert list(table.to_geopandas(WINDOW, columns=["geom"]).columns) == ["geom"]


def test_dates_beyond_those_of_python_come_to_pandas(tmp_path):
    (tmp_path / "t").mkdir()
    rows = pa.table(
        {
            "d": pa.array([-800_000, 3_000_000], pa.int32()).cast(pa.date32()),
            "t": pa.array([-(2**60), 2**60], pa.int64()).cast(pa.timestamp("us")),
        }
    )
    pq.write_table(rows, tmp_path / "t" / "a.parquet")
    frame = gl.open(str(tmp_path / "t")).scan().to_pandas()
    assert frame["d"].to_numpy().astype("datetime64[D]").astype(int).tolist() == [-800_000, 3_000_000]
    assert frame["t"].to_numpy().astype("datetime64[us]").astype(int).tolist() == [-(2**60), 2**60]


def test_curves_and_vertices_that_are_not_numbers_on_the_way_to_geopandas(tmp_path):
    from tests.oracle.wkb_write import linestring, write
    from tests.scan.scan_tables import arrow_column

    line = write(linestring((0.0, 0.0), (float("nan"), 1.0)))
    arc = write(linestring((0.0, 0.0), (1.0, 1.0), (2.0, 0.0), kind=8))
    (tmp_path / "t").mkdir()
    geom = arrow_column(pa.array([line, arc], pa.binary()))
    pq.write_table(pa.table({"id": [0, 1], "geom": geom}), tmp_path / "t" / "a.parquet")
    table = gl.open(str(tmp_path / "t"))
    assert table.scan("id = 0").to_geopandas().geometry[0].geom_type == "LineString"
    with pytest.raises(GeolakeError, match="geom holds curves") as caught:
        table.to_geopandas()
    one_sentence(caught.value)


# ---- what it prints


def test_a_scan_prints_what_it_will_read(delta):
    text = str(delta.scan(WINDOW, columns=["id"], limit=7))
    assert "1 of 3 files" in text
    assert "ST_Intersects(geom, ST_MakeEnvelope(10, 50, 11, 51))" in text
    assert "id" in text
    assert "7" in text
    assert "3 of 3 files" in str(delta.scan())
    assert "\n" not in repr(delta.scan(WINDOW))


def test_explain_shows_the_files_and_row_groups(delta):
    explanation = delta.scan(WINDOW).explain()
    assert sum(explanation.files["kept"].to_pylist()) == 1
    assert sum(explanation.row_groups["kept"].to_pylist()) == 1


# ---- what is wrong


def one_sentence(error):
    text = str(error)
    assert "\n" not in text
    assert "Traceback" not in text
    assert len(text) < 500
    return text


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("idd > 3", "idd.*id"),
        ("ST_Intersects(goem, 'POINT (1 2)')", "goem.*geom"),
        ("SELECT * FROM t WHERE id > 3", "(?i)select|condition"),
        ("SELECT id FROM t", "(?i)select|condition"),
        ("WHERE id > 3", "(?i)where|not SQL"),
        ("id >", "not SQL"),
        ("", "the filter is empty"),
        ("name LIKE 'a%'", "LIKE"),
        ("id = 'text'", "id"),
        ("id > geom", "(?i)literal|column"),
        ("ST_Intersects(id, 'POINT (1 2)')", "id"),
        ("ST_Intersects(geom, 'POINT (1')", "WKT"),
        ("id = NULL", "IS NULL"),
        ([1, 2, 3], "four numbers"),
        ([1, 2, 3, float("nan")], "finite"),
        ([0, 5, 1, 4], "ymin"),
        (7, "int"),
    ],
)  # fmt: skip
def test_a_filter_that_is_none_is_refused_when_the_scan_is_made(delta, where, message):
    with pytest.raises(GeolakeError, match=message) as caught:
        delta.scan(where)
    one_sentence(caught.value)


def test_a_column_that_is_not_there_names_the_nearest(delta):
    with pytest.raises(GeolakeError, match=r"geo.*geom") as caught:
        delta.scan(columns=["geo"])
    one_sentence(caught.value)
    with pytest.raises(GeolakeError, match=r"goem.*geom") as caught:
        delta.scan(column="goem", where=WINDOW)
    one_sentence(caught.value)


def test_columns_are_a_list_and_not_a_text(delta):
    with pytest.raises(SchemaError, match=r"expected a list of columns, got the text 'id'; pass \['id'\]"):
        delta.scan(columns="id")


@pytest.mark.parametrize("columns", [[1], [None], [b"id"], 5])
def test_columns_of_other_kinds_are_refused(delta, columns):
    with pytest.raises(GeolakeError) as caught:
        delta.scan(columns=columns)
    one_sentence(caught.value)


@pytest.mark.parametrize("limit", [-1, 1.5, "ten", True])
def test_a_limit_is_a_number_from_0_on(delta, limit):
    with pytest.raises(GeolakeError, match="limit") as caught:
        delta.scan(limit=limit)
    one_sentence(caught.value)


def test_limits_of_numpy_are_numbers(delta):
    assert len(delta.scan(limit=np.int64(3)).to_arrow()) == 3


def test_an_unknown_on_error_names_the_known_ones(delta):
    with pytest.raises(GeolakeError, match="unknown on_error 'skip'; use one of: warn, raise, ignore"):
        delta.scan(on_error="skip")


def test_a_version_that_is_not_there_is_named(delta):
    for version in (99, -1):
        with pytest.raises(GeolakeError, match=str(version)) as caught:
            delta.scan(version=version)
        one_sentence(caught.value)


def test_a_whole_filter_and_a_column_do_not_go_together(delta):
    with pytest.raises(PredicateError, match="column"):
        delta.scan("id > 3", column="geom")


def test_rows_beyond_a_size_are_refused_with_the_remedy(delta):
    with pytest.raises(GeolakeError, match=r"more than 10 bytes of memory.*to_batches\(\)") as caught:
        delta.scan().to_arrow(max_bytes=10)
    one_sentence(caught.value)
    assert len(delta.scan().to_arrow(max_bytes=10_000_000)) == 12
    for method in ("to_pandas", "to_geopandas"):
        with pytest.raises(GeolakeError, match="more than 10 bytes"):
            getattr(delta.scan(), method)(max_bytes=10)


def test_a_corrupt_file_of_statistics_that_lie_is_not_trusted_further_than_its_box(tmp_path):
    folder = make_parquet(tmp_path / "t")
    (folder / "part-1.parquet").write_bytes(b"PAR1 no file PAR1")
    with pytest.raises(GeolakeError, match=r"part-1\.parquet") as caught:
        gl.open(str(folder)).scan().to_arrow()
    one_sentence(caught.value)


def test_explain_of_all_rows_says_that_a_filter_is_missing(delta):
    with pytest.raises(GeolakeError, match="filter") as caught:
        delta.scan().explain()
    one_sentence(caught.value)


# ---- progress and cancel


def test_progress_reaches_its_end(delta):
    seen = []
    delta.scan().to_arrow(on_progress=lambda done, known: seen.append((done, known)))
    assert seen[-1][0] == seen[-1][1] == 3
    assert all(done <= known for done, known in seen)


def test_a_scan_that_is_cancelled_does_not_end_as_if_it_had_all_rows(delta):
    cancelled = threading.Event()
    reader = delta.scan().to_batches(cancelled=cancelled)
    assert len(reader.read_next_batch()) > 0
    cancelled.set()
    with pytest.raises(JobError, match="the scan was cancelled"):
        for _ in reader:
            pass


def test_a_reader_that_is_dropped_half_read_leaves_no_thread(delta):
    before = set(threading.enumerate())
    reader = delta.scan().to_batches()
    reader.read_next_batch()
    reader.close()
    del reader
    left = [thread for thread in set(threading.enumerate()) - before if not thread.daemon]
    for thread in left:
        thread.join(2)
    assert not [thread for thread in left if thread.is_alive()]


def test_no_warning_is_raised_where_all_is_well(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.scan(WINDOW).to_geopandas()


def test_many_threads_may_read_one_scan(delta):
    scan = delta.scan(WINDOW)
    answer = []
    threads = [threading.Thread(target=lambda: answer.append(points(scan.to_arrow()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answer == [INSIDE] * 8
