"""Line 11: plain WKB is recognised, in Parquet, Delta and Iceberg, from a few values of one data file."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import NoGeoColumnError
from geolake_nb.model.box import Box
from geolake_nb.storage.storage import Storage

DEGREES = [shapely.Point(7, 47), shapely.LineString([(8, 48), (9, 49)]), shapely.Point(10, 50)]
METRES = [shapely.Point(4e5, 5.2e6), shapely.Point(5e5, 5.3e6)]


def rows(shapes, **options) -> pa.Table:
    values = [None if shape is None else shapely.to_wkb(shape, **options) for shape in shapes]
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "shape": pa.array(values, pa.binary())})


def parquet(folder, *files):
    folder.mkdir()
    for number, table in enumerate(files):
        pq.write_table(table, folder / f"{number}.parquet")
    return str(folder)


def delta(folder, *files):
    from deltalake import write_deltalake

    for table in files:
        write_deltalake(str(folder), table, mode="append")
    return str(folder)


def iceberg(folder, *files):
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir()
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", files[0].schema)
    for table in files:
        made.append(table)
    catalog.engine.dispose()
    return made.metadata_location.removeprefix("file://")


WRITERS = {"parquet": parquet, "delta": delta, "iceberg": iceberg}


@pytest.fixture(params=WRITERS)
def plain(request, tmp_path):
    return WRITERS[request.param](tmp_path / "roads", rows(DEGREES))


def the_finding(table):
    (finding,) = table.check().of("geo.untyped_wkb")
    return finding


def test_check_finds_plain_wkb_in_every_format(plain):
    finding = the_finding(gl.open(plain))
    assert finding.scope.column == "shape"
    assert finding.severity.value == "warning"
    assert "3 sampled values are all valid WKB" in finding.what


def test_the_finding_has_a_command_or_says_why_there_is_none(tmp_path):
    made = {name: gl.open(write(tmp_path / name, rows(DEGREES))) for name, write in WRITERS.items()}
    commands = {name: the_finding(table).fix for name, table in made.items()}
    assert commands == {
        "parquet": f"geolake repair {made['parquet'].location} --column 'shape=geometry(OGC:CRS84)'",
        "delta": f"geolake enable {made['delta'].location} 'shape=geometry(OGC:CRS84)'",
        "iceberg": None,
    }
    assert "Iceberg does not let a column change from binary to geometry" in the_finding(made["iceberg"]).no_command
    assert "no command: Iceberg does not let" in str(made["iceberg"].check())


def test_the_command_for_parquet_files_makes_the_finding_go_away(tmp_path, capsys):
    import shlex

    where = parquet(tmp_path / "roads", rows(DEGREES), rows(DEGREES))
    words = shlex.split(the_finding(gl.open(where)).fix)
    assert main([*words[1:], "--apply"]) == 0
    capsys.readouterr()
    assert not gl.open(where).check().of("geo.untyped_wkb")
    assert gl.open(where).explain(Box(0, 0, 8, 48)).read.files == 2


def test_the_command_for_ewkb_in_parquet_files_writes_iso_wkb(tmp_path, spark, capsys):
    import shlex

    shapes = shapely.set_srid([shapely.Point(7, 47, 3), shapely.Point(8, 48, 4)], 4326)
    where = parquet(tmp_path / "roads", rows(shapes, include_srid=True))
    command = the_finding(gl.open(where)).fix
    assert command == f"geolake rewrite {where} --column 'shape=geometry(EPSG:4326)'"
    assert main([*shlex.split(command)[1:], "--apply"]) == 0
    capsys.readouterr()
    assert not gl.open(where).check().of("geo.untyped_wkb")
    (written,) = (tmp_path / "roads").glob("*.parquet")
    values = pq.read_table(written, arrow_extensions_enabled=False)["shape"].to_pylist()
    assert sorted(values) == sorted(shapely.to_wkb(shapes, flavor="iso").tolist())


def test_the_card_has_a_line_about_it(plain, capsys):
    line = next(line for line in str(gl.open(plain)).splitlines() if "WKB" in line)
    assert line.startswith("shape holds WKB without a geo type; ")
    assert main(["open", plain, "--json"]) == 0
    assert [column["column"] for column in json.loads(capsys.readouterr().out)["untyped_wkb"]] == ["shape"]


def test_the_card_in_a_notebook_has_a_line_about_it(plain):
    from geolake_nb.jupyter.cards import render

    assert "shape holds WKB without a geo type" in render(gl.open(plain))


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.explain(Box(0, 0, 1, 1)),
        lambda table: table.explain("ST_Intersects(shape, 'POINT(1 2)')"),
        lambda table: table.explain(Box(0, 0, 1, 1), column="shape"),
        lambda table: table.map(),
        lambda table: table.map(column="shape"),
        lambda table: table.to_geojson(),
        lambda table: table.to_folium(),
    ],
)
def test_errors_of_explain_and_map_have_a_hint(plain, ask):
    with pytest.raises(NoGeoColumnError, match="shape holds WKB without a geo type"):
        ask(gl.open(plain))


def test_the_shell_has_the_hint_too(plain, capsys):
    assert main(["explain", plain, "--box=0,0,1,1"]) == 3
    assert "shape holds WKB without a geo type" in capsys.readouterr().err


def test_an_srid_in_the_values_gives_the_crs(tmp_path):
    shapes = shapely.set_srid(METRES, 25832)
    where = delta(tmp_path / "t", rows(shapes, include_srid=True))
    assert the_finding(gl.open(where)).fix.endswith("'shape=geometry(EPSG:25832)'")


def test_coordinates_that_are_not_degrees_get_the_unknown_crs_and_a_word_about_it(tmp_path):
    finding = the_finding(gl.open(delta(tmp_path / "t", rows(METRES))))
    assert finding.fix.endswith("'shape=geometry(SRID:0)'")
    assert "replace SRID:0 by their CRS" in finding.what


def test_values_with_several_srids_have_no_command(tmp_path):
    shapes = [shapely.set_srid(METRES[0], 25832), shapely.set_srid(METRES[1], 25833)]
    finding = the_finding(gl.open(parquet(tmp_path / "t", rows(shapes, include_srid=True))))
    assert finding.fix is None
    assert "several SRIDs" in finding.no_command


@pytest.mark.parametrize(
    "values",
    [[b"\x89PNG\r\n", b"abc"], [b""], [shapely.Point(1, 2).wkb, shapely.Point(1, 2).wkb + b"\x00"], [None, None]],
    ids=["bytes", "empty bytes", "bytes after a point", "nulls"],
)
def test_other_bytes_are_not_taken_for_wkb(tmp_path, values):
    table = pa.table({"id": pa.array(range(len(values))), "shape": pa.array(values, pa.binary())})
    opened_table = gl.open(parquet(tmp_path / "t", table))
    assert not opened_table.check().of("geo")
    assert "WKB" not in str(opened_table)
    with pytest.raises(NoGeoColumnError) as error:
        opened_table.explain(Box(0, 0, 1, 1))
    assert "WKB" not in str(error.value)


def test_a_file_of_nulls_does_not_hide_the_wkb_in_others(tmp_path):
    where = parquet(tmp_path / "t", rows([None, None]), rows(DEGREES), rows([None]))
    assert the_finding(gl.open(where)).scope.column == "shape"


def test_columns_inside_structs_are_found_and_those_in_lists_are_not(tmp_path):
    wkb = [point.wkb for point in DEGREES]
    structs = pa.array([{"geom": value} for value in wkb], pa.struct([("geom", pa.binary())]))
    table = pa.table({"place": structs, "many": pa.array([[value] for value in wkb], pa.list_(pa.binary()))})
    finding = the_finding(gl.open(parquet(tmp_path / "t", table)))
    assert finding.scope.column == "place.geom"


def test_metadata_alone_does_not_sample_and_says_so(plain):
    findings = gl.open(plain).check(footers=False)
    assert not findings.of("geo")
    assert ("geo.untyped_wkb", "the binary columns were not sampled") in [
        (check.rule, check.why) for check in findings.skipped_checks
    ]


def test_a_damaged_file_does_not_spoil_the_card(tmp_path):
    where = delta(tmp_path / "t", rows(DEGREES))
    for file in (tmp_path / "t").glob("*.parquet"):
        file.write_bytes(b"PAR1 no footer PAR1")
    assert "WKB" not in str(gl.open(where))


@pytest.fixture
def reads(monkeypatch):
    """The bytes that a storage hands out of data files, by path; the real storage does the work."""
    seen: dict[str, int] = {}
    ranged, ended = Storage.read_range, Storage.tail

    def read_range(self, path, start, length):
        data = ranged(self, path, start, length)
        if path.endswith(".parquet"):
            seen[path] = seen.get(path, 0) + len(data)
        return data

    def tail(self, path, length):
        data, size = ended(self, path, length)
        seen[path] = seen.get(path, 0) + len(data)
        return data, size

    monkeypatch.setattr(Storage, "read_range", read_range)
    monkeypatch.setattr(Storage, "tail", tail)
    return seen


def test_a_sample_reads_one_file_of_many_and_a_small_part_of_it(s3, tmp_path, reads):
    shapes = shapely.points([(number % 180, number % 90) for number in range(200_000)])
    table = rows(shapes)
    where = delta(tmp_path / "t", *([table.slice(0, 10)] * 5))
    names = sorted(path.name for path in (tmp_path / "t").glob("*.parquet"))
    for name in names:  # what the log says of sizes is not used here
        pq.write_table(table, tmp_path / "t" / name, compression="none", use_dictionary=False)
    s3.upload(tmp_path / "t", "lake", "line-11")
    opened = gl.open("s3://lake/line-11", storage_options=s3.options)
    assert not reads, "gl.open reads no data file"
    assert "shape holds WKB" in str(opened)
    assert len(reads) == 1
    (count,) = reads.values()
    size = (tmp_path / "t" / names[0]).stat().st_size
    assert count < size / 4, f"{count:,} of {size:,} bytes of {where}"
