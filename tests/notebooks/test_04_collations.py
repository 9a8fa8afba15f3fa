"""Notebook 04: what Spark finds, the order of names and the statistics, against ICU without Spark."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from geolake_nb import demo
from tests.notebooks.html_tables import rows_of
from tests.oracle.icu_ranks import icu_of_spark, icu_ranks

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

COLLATION = "icu.UNICODE_CI_AI"
OLDER = "77.1.0.0"


@pytest.fixture(scope="module")
def table(ran) -> Path:
    return ran.path.parent / "tables" / "names"


@pytest.fixture(scope="module")
def version() -> str:
    """The version of the ICU that Spark brings along, with four numbers as Spark writes it."""
    numbers = icu_of_spark().stem.removeprefix("icu4j-").split(".")
    return ".".join([*numbers, "0", "0"][:4])


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The places of all names, and of what is asked for, in the order of the collation."""
    queries = ["zurich", "strassburg", "lodz", "istanbul", "αθηνα", "da nang", "Bern"]
    names = demo.names()["name"].to_pylist()
    return icu_ranks([*names, *queries], "UNICODE_CI_AI", tmp_path_factory.mktemp("icu"))


def commit(table: Path, number: int) -> list[dict]:
    return [json.loads(line) for line in (table / "_delta_log" / f"{number:020}.json").read_text().splitlines()]


def added(table: Path, number: int) -> dict[str, dict]:
    """The statistics of each file that a commit names."""
    adds = [action["add"] for action in commit(table, number) if "add" in action]
    return {add["path"]: json.loads(add["stats"]) for add in adds}


def hints(table: Path, number: int) -> dict:
    (domain,) = [action["domainMetadata"] for action in commit(table, number) if "domainMetadata" in action]
    return json.loads(domain["configuration"])["writeVersions"]


def names_in(table: Path, file: str) -> list[str]:
    return pq.read_table(table / file, columns=["name"])["name"].to_pylist()


def shown(ran, cell: str) -> list[str]:
    """The first column that pandas shows, behind the index."""
    return [row[1] for row in rows_of(ran.html(cell))[1:]]


def test_by_bytes_nothing_is_found_and_accents_come_last(ran):
    assert shown(ran, "before") == []
    latin = [row["name"] for row in demo.names().to_pylist() if row["script"] == "Latin"]
    assert shown(ran, "order-before") == sorted(latin, key=str.encode, reverse=True)[:6]


def test_by_the_collation_all_spellings_are_found(ran, ranks):
    names = demo.names()["name"].to_pylist()
    wanted = sorted(name for name in names if ranks[name] == ranks["zurich"])
    assert sorted(shown(ran, "after")) == wanted
    assert len(wanted) == 4
    wanted_ranks = {ranks[spelling] for spelling in ("strassburg", "lodz", "istanbul", "αθηνα", "da nang")}
    assert sorted(shown(ran, "more")) == sorted(name for name in names if ranks[name] in wanted_ranks)


def test_by_the_collation_the_order_is_icu_s(ran, ranks):
    latin = [row["name"] for row in demo.names().to_pylist() if row["script"] == "Latin"]
    result = [ranks[name] for name in shown(ran, "order-after")]
    assert result == sorted((ranks[name] for name in latin), reverse=True)[:6]


def test_each_language_has_its_own_order(ran, tmp_path):
    head, *rows = rows_of(ran.html("languages"))
    collations = {"bytes": None, "Unicode": "UNICODE", "Swedish": "sv", "Danish": "da", "Czech": "cs", "Welsh": "cy"}
    assert head[1:] == list(collations)
    orders = set()
    for index, collation in enumerate(collations.values(), start=1):
        names = [row[index] for row in rows]
        places = icu_ranks(names, collation, tmp_path) if collation else {name: name.encode() for name in names}
        assert names == sorted(names, key=places.__getitem__), collation
        orders.add(tuple(names))
    assert len(orders) >= 5


def test_the_plan_says_who_is_locked_out_and_wants_consent(ran, table):
    plan = " ".join(ran.text("plan").split())
    assert "Spark 4.2 + Delta 4.4.0 yes no" in plan
    assert "Confirm with --consent collations" in plan
    assert "confirm with consent='collations'" in ran.text("refused")
    assert "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE" in ran.text("spark-refused")
    assert "collations." in ran.text("spark-refused")
    (protocol,) = [action["protocol"] for action in commit(table, 1) if "protocol" in action]
    assert {"collations", "domainMetadata"} <= set(protocol["writerFeatures"])


def test_the_editor_begins_with_the_change(ran):
    assert f"+ name: string collate {COLLATION}" in re.sub(r"<[^>]+>", "", ran.html("editor"))


def test_each_file_has_icu_s_least_and_greatest_name(ran, table, ranks, version):
    assert hints(table, 1) == {COLLATION: [version]}
    for number in (1, 4):
        result = added(table, number)
        assert len(result) == 14
        for path, stats in result.items():
            assert list(stats["statsWithCollation"]) == [f"{COLLATION}.{version}"]
            section = stats["statsWithCollation"][f"{COLLATION}.{version}"]
            places = [ranks[name] for name in names_in(table, path)]
            assert ranks[section["minValues"]["name"]] == min(places)
            assert ranks[section["maxValues"]["name"]] == max(places)
    assert version in ran.text("statistics")


def test_a_query_reads_the_files_whose_range_it_falls_into(ran, table, ranks):
    places = [[ranks[name] for name in names_in(table, path)] for path in added(table, 1)]
    reads = sum(min(ranks_) <= ranks["zurich"] <= max(ranks_) for ranks_ in places)
    assert f"reads {reads} of 14 files" in ran.text("explain")
    assert f"'zurich' reads {reads} of 15 files" in ran.text("explain-upgraded")
    assert reads == 1


def test_files_of_another_icu_lag_behind_and_are_all_read(ran, table, version):
    assert hints(table, 2) == {COLLATION: [OLDER]}
    older = added(table, 2)
    assert {key for stats in older.values() for key in stats["statsWithCollation"]} == {f"{COLLATION}.{OLDER}"}
    assert "none stale" in ran.text("older")
    assert hints(table, 3) == {COLLATION: [OLDER, version]}
    (new,) = added(table, 3).values()
    assert list(new["statsWithCollation"]) == [f"{COLLATION}.{version}"]
    assert f"wants {version}: 14 of 15 files have {OLDER}, 1 of 15 files have {version}; 14 stale" in ran.text("stale")
    assert all(path in ran.html("stale") for path in older)
    assert re.search(r"reads 14 of 15 files.*\n.*\n? *collation_version_differs +14 files", ran.text("explain-stale"))


def test_the_upgrade_leaves_one_version(ran, table, version):
    assert hints(table, 4) == {COLLATION: [version]}
    assert set(added(table, 4)) == set(added(table, 1)), "the new file had it already"
    assert f"15 of 15 files have {version}; none stale" in ran.text("explain-upgraded")
    assert not (table / "_delta_log" / f"{5:020}.json").exists(), "the last plan is only shown"
    assert "name compares by bytes again" in ran.text("back")


def test_it_looks_good(ran, looks_good):
    looks_good(ran)
