from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geolake_nb.errors import AlreadyThereError, MissingFileError, OutcomeUnknownError, StorageError
from geolake_nb.storage import writing as storage_writing
from geolake_nb.storage.storage import Storage
from geolake_nb.storage.writing import WriteStep, link_if_absent
from tests.storage.s3_endpoint import losing_answers


@pytest.fixture(params=["local", "s3"])
def storage(request, tmp_path):
    if request.param == "local":
        return Storage.at(str(tmp_path / "t"))
    s3 = request.getfixturevalue("s3")
    return Storage.at(f"s3://lake/writing/{tmp_path.name}", options=s3.options)


def test_a_new_file_is_written_once(storage):
    storage.put_if_absent("_delta_log/0.json", b"first")
    with pytest.raises(AlreadyThereError, match="already exists"):
        storage.put_if_absent("_delta_log/0.json", b"second")
    assert storage.read("_delta_log/0.json") == b"first"
    assert [entry.path for entry in storage.list(recursive=True)] == ["_delta_log/0.json"]


def test_an_empty_file_is_a_file(storage):
    storage.put_if_absent("a", b"")
    assert storage.read("a") == b""


def test_a_file_is_filled_in_place(storage):
    with storage.new_file("x=1/a b%20.bin") as path:
        Path(path).write_bytes(b"abc" * 1000)
    assert storage.read("x=1/a b%20.bin") == b"abc" * 1000


def test_a_failed_file_is_gone(storage):
    places = []

    def fail(path):
        places.append(Path(path))
        places[0].write_bytes(b"abc")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), storage.new_file("x=1/a.bin") as path:
        fail(path)
    assert storage.list(recursive=True) == []
    assert not places[0].exists()


def test_files_are_removed_and_missing_ones_are_fine(storage):
    storage.put_if_absent("a", b"1")
    storage.remove("a")
    storage.remove("a")
    storage.remove("no/such/folder/a")
    with pytest.raises(MissingFileError):
        storage.read("a")


def test_nothing_is_written_outside_the_table(storage, tmp_path):
    for path in ("../a", "/etc/a", "", "."):
        with pytest.raises(StorageError):
            storage.put_if_absent(path, b"")
        with pytest.raises(StorageError):
            storage.remove(path)


def test_other_roots_are_read_and_not_written(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    storage = Storage.at(str(tmp_path / "t"), allowed_roots=[str(other)])
    (other / "a").write_bytes(b"1")
    assert storage.read(str(other / "a")) == b"1"
    with pytest.raises(StorageError, match="is not written"):
        storage.put_if_absent(str(other / "b"), b"")
    with pytest.raises(StorageError, match="is not written"):
        storage.remove(str(other / "a"))


def test_a_link_does_not_lead_a_write_out_of_the_table(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "t" / "_delta_log").symlink_to(tmp_path / "outside")
    storage = Storage.at(str(tmp_path / "t"))
    for write in (lambda: storage.put_if_absent("_delta_log/a", b""), lambda: storage.new_file("_delta_log/a")):
        with pytest.raises(StorageError, match="is outside"):
            write()
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_web_server_is_only_read():
    storage = Storage.at("http://127.0.0.1:1/t")
    with pytest.raises(StorageError, match="read-only"):
        storage.put_if_absent("a", b"")


def test_a_new_local_file_must_not_be_there(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(AlreadyThereError), Storage.at(str(tmp_path)).new_file("a"):
        pass
    assert (tmp_path / "a").read_bytes() == b"old"


def test_the_steps_of_a_local_write_are_reported(tmp_path):
    seen = []

    def look(step):
        names = sorted(path.name for path in tmp_path.iterdir())
        seen.append((step, "0.json" in names, sum(name.startswith(".0.json.") for name in names)))

    link_if_absent(str(tmp_path / "0.json"), b"{}", look)
    assert seen == [(WriteStep.TEMP_WRITTEN, False, 1), (WriteStep.LINKED, True, 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["0.json"]


def test_the_rights_of_a_commit_are_those_of_any_new_file(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    link_if_absent(str(tmp_path / "0.json"), b"{}")
    assert (tmp_path / "0.json").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_disk_without_hard_links_is_a_clear_error(tmp_path, monkeypatch, code):
    monkeypatch.setattr(storage_writing.os, "link", raising(OSError(code, "no")))
    with pytest.raises(StorageError, match="has no hard links") as caught:
        link_if_absent(str(tmp_path / "0.json"), b"{}")
    assert not isinstance(caught.value, AlreadyThereError)
    assert list(tmp_path.iterdir()) == []


def test_a_link_whose_answer_was_lost_counts(tmp_path, monkeypatch):
    real = os.link

    def link(*names):
        real(*names)
        raise FileExistsError(errno.EEXIST, "seen twice")

    monkeypatch.setattr(storage_writing.os, "link", link)
    link_if_absent(str(tmp_path / "0.json"), b"{}")
    assert [path.name for path in tmp_path.iterdir()] == ["0.json"]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_writing.os, "fsync", raising(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(StorageError, match="No space left"):
        link_if_absent(str(tmp_path / "0.json"), b"{}")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_synced_leaves_the_outcome_open(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_writing, "_sync_folder", raising(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OutcomeUnknownError, match="check the table again"):
        link_if_absent(str(tmp_path / "0.json"), b"{}")
    assert (tmp_path / "0.json").read_bytes() == b"{}"


def test_a_place_that_may_not_be_written_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        link_if_absent(str(tmp_path / "file" / "0.json"), b"{}")


def test_one_of_many_processes_wins(tmp_path):
    code = (
        "import sys; from geolake_nb.storage.storage import Storage; from geolake_nb.errors import AlreadyThereError\n"
        "storage = Storage.at(sys.argv[1]); sys.stdin.readline()\n"
        "for n in range(50):\n"
        "    try: storage.put_if_absent(f'{n}.json', sys.argv[2].encode()); print(n)\n"
        "    except AlreadyThereError: pass\n"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    won = {name: run.communicate(timeout=60)[0].split() for name, run in zip("abc", runs, strict=True)}
    assert sorted(int(n) for numbers in won.values() for n in numbers) == list(range(50))
    for name, numbers in won.items():
        assert all((tmp_path / f"{n}.json").read_text() == name for n in numbers)
    assert len(list(tmp_path.iterdir())) == 50


def test_a_store_that_fails_for_good_says_so(s3):
    storage = Storage.at("s3://no-such-bucket/t", options=s3.options)
    with pytest.raises(MissingFileError):
        storage.put_if_absent("a", b"")


def test_an_answer_that_is_lost_leaves_the_outcome_open(s3, tmp_path):
    with losing_answers(s3.url) as proxy:
        storage = Storage.at(f"s3://lake/writing/{tmp_path.name}", options=s3.options | {"aws_endpoint": proxy})
        with pytest.raises(OutcomeUnknownError, match="may or may not have been written"):
            storage.put_if_absent("_delta_log/0.json", b"ours")
    assert Storage.at(f"s3://lake/writing/{tmp_path.name}", options=s3.options).read("_delta_log/0.json") == b"ours"


def raising(problem):
    def fail(*_):
        raise problem

    return fail
