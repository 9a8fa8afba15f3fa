"""The names of cities: facts about their letters by Unicode's own tables, and about their order by ICU."""

from __future__ import annotations

import unicodedata

import pytest

from geolake_nb import demo
from tests.formats.iceberg.make_spark_fixtures import NoSparkError, locked, spark_python
from tests.oracle.icu_ranks import icu_ranks

# How the names of letters begin where Unicode calls the script otherwise.
LETTERS = {"Han": "CJK UNIFIED IDEOGRAPH", "Canadian Aboriginal": "CANADIAN SYLLABICS"}


@pytest.fixture(scope="module")
def rows():
    return demo.names().to_pylist()


def test_there_are_enough_of_them_and_none_twice(rows):
    names = [row["name"] for row in rows]
    assert 80 <= len(names) == len(set(names)) <= 150
    assert all(value.strip() == value != "" for row in rows for value in row.values())
    assert len({row["script"] for row in rows}) == 27


def test_letters_are_of_the_script(rows):
    for row in rows:
        letters = [letter for letter in row["name"] if unicodedata.category(letter)[0] == "L"]
        wanted = LETTERS.get(row["script"], row["script"].upper())
        assert {unicodedata.name(letter).startswith(wanted) for letter in letters} == {True}, row


def test_one_is_decomposed(rows):
    other = [row["name"] for row in rows if not unicodedata.is_normalized("NFC", row["name"])]
    assert other == ["Zu\N{COMBINING DIAERESIS}rich"]


def test_collations_differ_on_them(rows, tmp_path):
    names = [row["name"] for row in rows]
    orders = {name: icu_ranks(names, name, tmp_path) for name in ("UNICODE", "UNICODE_CI", "UNICODE_CI_AI")}
    assert len(set(orders["UNICODE"].values())) == len(names) - 1, "one name is there in two forms of the same letters"
    assert len(set(orders["UNICODE_CI"].values())) < len(set(orders["UNICODE"].values()))
    groups = [{name for name, rank in orders["UNICODE_CI_AI"].items() if rank == at} for at in range(len(names))]
    assert {frozenset(group) for group in groups if len(group) > 1} == {
        frozenset({"Zürich", "Zu\N{COMBINING DIAERESIS}rich", "ZÜRICH", "Zurich"}),
        frozenset({"Straßburg", "Strassburg"}),
        frozenset({"Αθήνα", "ΑΘΗΝΑ"}),
    }
    ranks = [icu_ranks(names, language, tmp_path) for language in ("sv", "da", "cs", "cy")]
    assert len({tuple(sorted(names, key=order.__getitem__)) for order in ranks}) == 4


def test_the_older_icu_of_the_demo_sorts_them_alike(rows, tmp_path):
    """So that statistics of the one may be stated as those of the other."""
    try:
        with locked():
            older = spark_python()
    except NoSparkError as problem:
        pytest.skip(str(problem))
    (jar,) = older.parents[1].rglob("icu4j-77.1.jar")
    names = [row["name"] for row in rows]
    for collation in ("UNICODE", "UNICODE_CI_AI"):
        assert icu_ranks(names, collation, tmp_path, jar) == icu_ranks(names, collation, tmp_path)
