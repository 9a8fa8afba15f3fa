from __future__ import annotations

import os

import pytest

from geolake_nb.errors import NotATableError, StorageError
from geolake_nb.formats.iceberg.location import PathMap, find_metadata, require_metadata, split_metadata_path
from geolake_nb.storage.storage import Storage


def newest(folder, names, hint=None):
    (folder / "metadata").mkdir()
    for index, name in enumerate(names):
        (folder / "metadata" / name).write_text("{}")
        os.utime(folder / "metadata" / name, (1000 - index, 1000 - index))
    if hint is not None:
        (folder / "metadata" / "version-hint.text").write_text(hint)
    return find_metadata(Storage.at(str(folder)))


@pytest.mark.parametrize(
    ("names", "hint", "expected"),
    [
        (["v1.metadata.json", "v2.metadata.json"], "1", "v2.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json", "v4.metadata.json"], "1", "v2.metadata.json"),
        (["v9.metadata.json", "v10.metadata.json"], None, "v10.metadata.json"),
        (["v1.gz.metadata.json", "v2.gz.metadata.json"], "2\n", "v2.gz.metadata.json"),
        (["v2.metadata.json.gz", "v1.metadata.json"], None, "v2.metadata.json.gz"),
        (["00002-b.metadata.json", "00010-a.metadata.json"], None, "00010-a.metadata.json"),
        (["00002-b.metadata.json", "00010-a.metadata.json"], "00002-b", "00002-b.metadata.json"),
        (["v1.metadata.json"], "99", "v1.metadata.json"),
        (["v1.metadata.json"], "../../secret", "v1.metadata.json"),
        (["v1.metadata.json"], "", "v1.metadata.json"),
        # Of two files of one number the one that was written last counts; here the first was.
        (["00003-a.metadata.json", "00003-b.metadata.json"], None, "00003-a.metadata.json"),
        ([".v2.metadata.json.crc", "v1.metadata.json"], None, "v1.metadata.json"),
    ],
)
def test_the_newest_metadata_file_is_found(tmp_path, names, hint, expected):
    assert newest(tmp_path, names, hint) == f"metadata/{expected}"


def test_a_folder_without_metadata_is_not_a_table(tmp_path):
    assert find_metadata(Storage.at(str(tmp_path))) is None
    with pytest.raises(NotATableError, match="not an Iceberg table"):
        require_metadata(Storage.at(str(tmp_path)))


@pytest.mark.parametrize(
    ("stored", "path", "key"),
    [
        ("/old/t", "/old/t/data/a", "data/a"),
        ("/old/t/", "file:///old/t/data/a", "data/a"),
        ("file:/old/t", "/old/t/data/a", "data/a"),
        ("hdfs://n:1/old/t", "hdfs://n:1/old/t/data/a", "data/a"),
        ("s3://b/t", "s3n://b/t/data/a", "data/a"),
        ("s3://b/t", "s3://b/t2/data/a", "s3://b/t2/data/a"),
        ("file://data/t", "file://data/t/metadata/m", "metadata/m"),
        ("./t", "t/metadata/m", "metadata/m"),
        ("data/t", "data/t/metadata/m", "metadata/m"),
        ("s3://b/t", "/new/t/data/a", "data/a"),
    ],
)
def test_paths_of_a_moved_table_are_found_below_its_root(stored, path, key):
    assert PathMap(stored, "/new/t").key(path) == key


def test_a_path_that_climbs_out_of_the_table_is_refused():
    with pytest.raises(StorageError, match="outside"):
        PathMap("s3://b/t", "/new/t").key("s3://b/t/../../etc/passwd")


@pytest.mark.parametrize(
    ("path", "root"),
    [("s3://b/t/metadata/v1.metadata.json", "s3://b/t"), ("/t/x.json", "/t"), ("metadata/v1.metadata.json", ".")],
)
def test_the_root_of_a_table_follows_from_its_metadata_file(path, root):
    assert split_metadata_path(path)[0] == root
