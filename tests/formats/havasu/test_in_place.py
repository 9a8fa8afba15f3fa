"""Metadata of Iceberg over the files of a Havasu table: what a kill leaves, and what is kept of the old metadata."""

from __future__ import annotations

import json

import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import ConflictError, RefusedError
from tests.formats.havasu_tables import geometry_entry, make_havasu_table
from tests.formats.published_folders import visible
from tests.promises.dying import die_at, points_of


def make(folder, **more):
    """A Havasu table of three points as WKB."""
    shapes = [shapely.Point(n, -n) for n in range(3)]
    make_havasu_table(folder / "old", [geometry_entry("a", shapes, encoding="wkb")], encoding="wkb", **more)
    return folder


def convert(folder):
    """An Iceberg table beside it, of the same files."""
    gl.open(str(folder / "old")).plan_convert(str(folder / "new"), format="iceberg", in_place=True).apply()


def contents(folder):
    """The bytes of all files of the old table."""
    return {path.name: path.read_bytes() for path in (folder / "old").rglob("*") if path.is_file()}


def test_a_kill_anywhere_leaves_no_table_or_the_whole_one(tmp_path):
    states = set()
    for number in visible(points_of(convert, make(tmp_path / "counted"))):
        folder = make(tmp_path / f"p{number}")
        before = contents(folder)
        die_at(convert, folder, number)
        whole = (folder / "new/metadata/v1.metadata.json").exists()
        states.add(whole)
        if not whole:
            convert(folder)
        table = gl.open(str(folder / "new"), allowed_roots=[str(folder / "old")])
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2], number
        assert contents(folder) == before
    assert states == {False, True}


def test_the_new_table_keeps_ids_and_properties_and_never_deletes_the_files(tmp_path):
    folder = make(tmp_path, properties={"owner": "me", "havasu.format-version": "0.1.0"})
    convert(folder)
    made = json.loads((folder / "new/metadata/v1.metadata.json").read_text())
    assert [(field["id"], field["name"], field["type"]) for field in made["schemas"][0]["fields"]] == [
        (1, "id", "long"),
        (2, "geom", "geometry(SRID:0)"),
    ]
    assert made["properties"]["owner"] == "me"
    # Iceberg, Table behavior properties: without it, no file is deleted when snapshots expire.
    assert made["properties"]["gc.enabled"] == "false"
    assert not any(name.startswith("havasu.") for name in made["properties"])
    assert (made["format-version"], made["next-row-id"]) == (3, 3)


def test_a_second_table_at_the_same_place_is_a_conflict(tmp_path):
    folder = make(tmp_path)
    table = gl.open(str(folder / "old"))
    plans = [table.plan_convert(str(folder / "new"), format="iceberg", in_place=True) for _ in range(2)]
    plans[0].apply()
    with pytest.raises(ConflictError, match="a table was created here meanwhile"):
        plans[1].apply()
    assert len(list((folder / "new/metadata").glob("*.avro"))) == 2
    with pytest.raises(RefusedError, match="already exists"):
        table.plan_convert(str(folder / "new"), format="iceberg", in_place=True)
    for options, words in (({"format": "delta"}, "become an Iceberg table"), ({"cluster_by": "geom"}, "as they are")):
        with pytest.raises(RefusedError, match=words):
            table.plan_convert(str(folder / "more"), in_place=True, **{"format": "iceberg", **options})
