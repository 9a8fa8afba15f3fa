from __future__ import annotations

import datetime as dt

import pytest

from geolake_nb.errors import VersionError
from geolake_nb.formats.delta import delta_history
from tests.formats.delta.log_maker import LogMaker, add, metadata, protocol

START = (protocol(), metadata())


def at(seconds: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)


def info(operation="WRITE", **more):
    return {"commitInfo": {"operation": operation, "timestamp": 5_000_000} | more}


@pytest.fixture
def made(tmp_path):
    return LogMaker(tmp_path / "t")


def test_history_is_newest_first_with_who_and_when(made):
    made.commit(0, info("CREATE TABLE"), *START, seconds=100).commit(1, info(engineInfo="x"), add("a"), seconds=200)
    newest, oldest = delta_history(made.storage)
    assert (newest.version, newest.operation, newest.timestamp, newest.parent) == (1, "WRITE", at(200), 0)
    assert newest.details["engineInfo"] == "x"
    assert (oldest.version, oldest.operation, oldest.timestamp, oldest.parent) == (0, "CREATE TABLE", at(100), None)


def test_history_after_a_clean_up_starts_where_the_log_does(made):
    made.checkpoint(7, *START).commit(7, seconds=10).commit(8, info(), seconds=20)
    assert [(entry.version, entry.operation) for entry in delta_history(made.storage)] == [(8, "WRITE"), (7, None)]


def test_commit_info_is_found_behind_many_files(made):
    made.commit(0, *START, *(add(f"{number:0200}") for number in range(1000)), info("LATE"))
    assert delta_history(made.storage)[0].operation == "LATE"


def test_the_time_of_a_copied_log_is_made_to_rise(made):
    for version in range(3):
        made.commit(version, *(START if version == 0 else ()), seconds=100)
    assert [entry.timestamp for entry in delta_history(made.storage)] == [at(100.002), at(100.001), at(100)]


def test_in_commit_timestamps_win_over_those_of_files(made):
    made.commit(0, info(inCommitTimestamp=1_000), *START, seconds=900)
    made.commit(1, info(inCommitTimestamp=2_000), add("a"), seconds=800)
    assert [entry.timestamp for entry in delta_history(made.storage)] == [at(2), at(1)]
    assert made.open().timestamp == at(2)
    assert made.paths(timestamp=at(1.5)) == []
    assert made.paths(timestamp=at(2)) == ["a"]


@pytest.mark.parametrize(("seconds", "version"), [(100, 0), (150, 0), (200, 1), (10_000, 2)])
def test_time_travel_takes_the_newest_version_that_is_not_younger(made, seconds, version):
    for number in range(3):
        made.commit(number, *(START if number == 0 else ()), add(f"f{number}"), seconds=100 * (number + 1))
    assert made.open(timestamp=at(seconds)).version == version
    assert made.open(timestamp=at(seconds).replace(tzinfo=None)).version == version
    assert made.open(timestamp=at(seconds).astimezone(dt.timezone(dt.timedelta(hours=5)))).version == version


def test_time_travel_before_the_first_version_says_which_it_is(made):
    made.commit(0, *START, seconds=100)
    with pytest.raises(VersionError, match=r"there was no version yet at 1970-01-01T00:00:50.*is version 0 of 1970"):
        made.open(timestamp=at(50))


def test_time_travel_reaches_no_version_that_was_cleaned_up(made):
    made.commit(3, seconds=10).commit(4, seconds=20).checkpoint(4, *START, add("a")).commit(5, add("b"), seconds=30)
    assert made.paths(timestamp=at(25)) == ["a"]
    with pytest.raises(VersionError, match="the oldest available is version 4"):
        made.open(timestamp=at(15))


def test_version_and_timestamp_are_not_given_together(made):
    made.commit(0, *START)
    with pytest.raises(VersionError, match="version and timestamp are both given"):
        made.open(version=0, timestamp=at(0))
