"""Our committer against Spark: races, times in commits, checkpoints, the log store of the session."""

from __future__ import annotations

import shutil

import pytest

from geolake_nb.errors import AlreadyThereError, OutcomeUnknownError, RefusedError
from geolake_nb.formats.delta import concurrency
from geolake_nb.formats.delta.commit import Phase, commit, log_path
from geolake_nb.formats.delta.log_segment import list_log
from tests.spark.second_writer import BEFORE, ROWS, WRITERS, Table, meet, new_table, replaying

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    return new_table(spark, tmp_path_factory.mktemp("races") / "t")


@pytest.fixture
def copied(spark, template, tmp_path):
    def copy(name):
        shutil.copytree(template.path, tmp_path / name)
        return Table(spark, tmp_path / name)

    return copy


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_second_writer_at_every_phase(copied, name):
    """Spark acts at the last moment; at the other phases its own commit is put there as it wrote it.

    `python -m tests.heavy.commit_races` lets Spark act at every phase.
    """
    live = copied("live")
    base = meet(live, name, Phase.TEMP_WRITTEN)
    for phase in BEFORE:
        table = copied(phase.name)
        meet(table, name, phase, replaying(table, live, base))


def test_a_second_writer_comes_after_our_commit(copied):
    meet(copied("after"), "delete", Phase.LINKED)


def test_spark_shows_our_commits_in_its_history_and_writes_on(copied):
    table = copied("history")
    made = commit(table.storage, table.updating_stats(metrics={"numFiles": "3"}))
    newest = table.sql("DESCRIBE HISTORY {t}").collect()[0]
    assert (newest["version"], newest["operation"]) == (made.version, "GEOLAKE REPAIR")
    assert newest["operationParameters"] == {"columns": '["x"]'}
    assert newest["operationMetrics"] == {"numFiles": "3"}
    assert (newest["readVersion"], newest["isBlindAppend"]) == (made.version - 1, False)
    assert newest["engineInfo"].startswith("geolake_nb/")
    table.sql("INSERT INTO {t} (id) VALUES (4)")
    table.sql("DELETE FROM {t} WHERE id = 2")
    table.sql("OPTIMIZE {t}")
    assert table.ids() == [1, 3, 4]


def test_times_in_commits_rise_between_our_commits_and_those_of_spark(spark, tmp_path):
    table = new_table(spark, tmp_path / "t", properties={"delta.enableInCommitTimestamps": "true"}, rows=[[0]])
    made = commit(table.storage, table.updating_stats())
    table.sql(f"INSERT INTO {{t}} VALUES {ROWS[1]}")
    once_more = table.updating_stats()
    last = commit(
        table.storage,
        once_more,
        on_phase=lambda phase, version: (
            phase is Phase.TEMP_WRITTEN
            and version == once_more.base_version + 1
            and table.sql(f"INSERT INTO {{t}} VALUES {ROWS[2]}")
        ),
    )
    times = [table.info(version)["inCommitTimestamp"] for version in range(last.version + 1)]
    assert len(times) == 6
    assert times == sorted(set(times))
    assert int(made.timestamp.timestamp() * 1000) == times[made.version]
    assert table.ids() == [1, 2, 3]
    shown = {row["version"]: row["timestamp"].timestamp() for row in table.sql("DESCRIBE HISTORY {t}").collect()}
    assert shown[made.version] * 1000 == pytest.approx(times[made.version], abs=1)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delta.checkpointPolicy": "v2"},
        {
            "delta.checkpointPolicy": "v2",
            "delta.checkpoint.writeStatsAsJson": "false",
            "delta.checkpoint.writeStatsAsStruct": "true",
            "delta.columnMapping.mode": "name",
        },
    ],
    ids=["classic", "v2", "v2 with structs and physical names"],
)
def test_files_of_a_checkpoint_are_stated_as_they_were(spark, tmp_path, properties):
    wanted = properties | {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    table = new_table(spark, tmp_path / "t", properties=wanted, rows=[[0, 1], [2, 0]])
    table.sql("DELETE FROM {t} WHERE id = 2")
    table.checkpoint()
    segment = list_log(table.storage).segment()
    assert segment.checkpoint is not None
    assert segment.deltas == ()
    sidecars = table.storage.list("_delta_log/_sidecars")
    assert bool(sidecars) == ("delta.checkpointPolicy" in properties)
    before = table.state()
    assert any("deletionVector" in file for file in before)
    assert all("baseRowId" in file and "stats" in file for file in before)
    made = commit(table.storage, table.updating_stats())
    after = table.state()
    assert after == before
    assert made.version == segment.version + 1
    assert table.ids() == [1, 1, 3]
    table.checkpoint()
    assert table.state() == before


def test_the_store_of_the_session_is_used_where_it_excludes_other_writers(spark):
    assert concurrency.session_put(spark, "/data/t") is None
    assert concurrency.session_put(spark, "gs://bucket/t") is not None
    assert concurrency.session_put(spark, "abfss://container@account.dfs.core.windows.net/t") is not None
    with pytest.raises(RefusedError) as caught:
        concurrency.session_put(spark, "s3://bucket/t")
    text = str(caught.value)
    assert text.startswith(
        "s3://bucket/t: the log store io.delta.storage.S3SingleDriverLogStore does not prevent concurrent"
    )
    assert "spark.delta.logStore.s3a.impl=io.delta.storage.S3DynamoDBLogStore" in text
    assert "single_writer=True" in text
    assert concurrency.session_put(spark, "s3://bucket/t", single_writer=True) is not None


def test_the_store_of_the_session_writes_the_same_bytes_once(spark, tmp_path):
    # A local path, which commits never send through the session, shows what the call does in a place like any other.
    store = concurrency._store(spark, f"file:{tmp_path}/_delta_log", "t")
    (tmp_path / "_delta_log").mkdir()
    path, data = f"file:{tmp_path}/{log_path(0)}", '{"commitInfo":{"ü":"😀"}}\n{"add":{"path":"a"}}\n'.encode()
    concurrency._write(spark, store, path, data)
    assert (tmp_path / log_path(0)).read_bytes() == data
    with pytest.raises(AlreadyThereError):
        concurrency._write(spark, store, path, b"{}\n")
    assert (tmp_path / log_path(0)).read_bytes() == data


def test_a_store_that_cannot_be_reached_leaves_the_outcome_open(spark):
    # Nothing on the class path speaks to S3.
    put = concurrency.session_put(spark, "s3://bucket/t", single_writer=True)
    with pytest.raises(OutcomeUnknownError, match="the state of the file is unknown"):
        put(log_path(0), b"{}\n")


def test_a_session_without_a_jvm_is_refused():
    with pytest.raises(RefusedError, match="Spark Connect"):
        concurrency.session_put(object(), "s3://bucket/t")
