"""Which files a filter by a collation reads: never fewer than hold a row that Spark finds, and as few as can be."""

from __future__ import annotations

import csv
import json
import operator
import random
from collections import Counter

import pyarrow as pa
import pytest

import geolake_nb as gl
from geolake_nb.expressions.predicate import Comparison, In, Not
from geolake_nb.formats.delta.commit import DeltaCommit, commit
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.model.collation import Collation
from geolake_nb.model.operators import ComparisonOp
from geolake_nb.scan.explain import explain
from geolake_nb.spark.collations import SparkCollator
from geolake_nb.storage.storage import Storage

pytestmark = pytest.mark.spark

COLLATIONS = {
    "a": "icu.UNICODE_CI",
    "b": "icu.de_CI",
    "c": "icu.UNICODE_CI_AI",
    "d": "spark.UTF8_LCASE",
    "p": "icu.UNICODE_CI",
}
FILES = 8
STALE, OLD, CUT = 2, 3, 4


class Once:
    """The answers of a collator to one question, put before all others."""

    def __init__(self, collator, texts):
        self._collator = collator
        self._ranks = {
            collation: dict(zip(texts.to_pylist(), ranks.to_pylist(), strict=True))
            for collation, ranks in collator.ranks(dict.fromkeys(self._collations(), texts)).items()
        }

    def _collations(self):
        return {
            Collation(field.provider, field.name, self.version_of(field))
            for field in map(Collation.parse, COLLATIONS.values())
        }

    def version_of(self, collation):
        return self._collator.version_of(collation)

    def ranks(self, texts):
        return {
            value: pa.array([self._ranks[value][text] for text in stored.to_pylist()])
            for value, stored in texts.items()
        }


@pytest.fixture(scope="module")
def names(corpus):
    with (corpus / "collation" / "city_names_multiscript.csv").open(encoding="utf-8") as lines:
        result = [row["name"] for row in csv.DictReader(lines)]
    drawn = random.Random(5).sample(result, 240)
    others = ["", " ", "Äpfel", "äpfel", "ÄPFEL", "apfel", "straße", "STRASSE", "ß", "Ⅻ", "𐐀", "i̇", "İ", "I", "\u0131"]
    return sorted([*drawn, *others], key=str.casefold)


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory, names):
    """Files in rough order: one all null, one without collated statistics, one with old and one with maybe cut ones."""
    path = str(tmp_path_factory.mktemp("explained") / "t")
    size = -(-len(names) // (FILES - 1))
    parts = [names[start : start + size] for start in range(0, len(names), size)] + [[None, None]]
    parts[1] = [*parts[1], None]
    rows = [(*[name] * 4, "ÄöXyZaäA"[number] if number else None) for number, part in enumerate(parts) for name in part]
    frame = spark.createDataFrame(rows, "a string, b string, c string, d string, p string").coalesce(1)
    frame.write.format("delta").partitionBy("p").save(path)
    gl.open(path).plan_collations(COLLATIONS).apply(spark=spark, consent="collations")
    storage = Storage.at(path)
    segment = list_log(storage).segment()
    actions = []
    adds = [json.loads(text) for text in raw_adds(storage, segment).sort_by("path")["add"].to_pylist()]
    for number in (STALE, OLD, CUT):
        stats = json.loads(adds[number]["stats"])
        stored = stats.pop("statsWithCollation")
        if number == OLD:
            # Another version may order everything differently: here the lies would lose rows.
            stats["statsWithCollation"] = {
                key.replace("78.3", "72.1"): {"minValues": {"a": "0"}, "maxValues": {"a": "0"}} for key in stored
            }
        if number == CUT:
            section = {"minValues": {"a": "z" * 32}, "maxValues": {"a": "0\x7f"}}
            stats["statsWithCollation"] = {next(key for key in stored if "UNICODE_CI." in key): section}
        actions.append(json.dumps({"add": adds[number] | {"stats": json.dumps(stats), "dataChange": False}}))
    commit(storage, DeltaCommit(segment.version, "TEST", {}, actions, "t"))
    return gl.open(path), [adds[number]["path"] for number in (STALE, OLD, CUT)]


def literals(names):
    drawn = random.Random(7).sample(names, 14)
    return [
        *drawn,
        *(name.upper() for name in drawn[:5]),
        "äPFEL",
        "strasse",
        "",
        "ZZZ",
        "\U0010ffff",
        "'; DROP TABLE t",
    ]


def filters(names):
    values = literals(names)
    for column in "abcd":
        for number, value in enumerate(values):
            yield Comparison.of(column, "=", value)
            yield Comparison.of(column, ("<", "<=", ">", ">=", "<>")[number % 5], value)
        yield In(column, values[:3])
        yield ~In(column, values[:3])
        yield ~Comparison.of(column, "<", values[0])
    for value in ("ä", "Ö", "x", "q"):
        yield Comparison.of("p", "=", value)
        yield Comparison.of("p", ">=", value)


def as_spark(predicate):
    """The same filter for Spark, with its values as literals and not as text."""
    from pyspark.sql import functions as F  # noqa: N812

    if isinstance(predicate, Not):
        return ~as_spark(predicate.operand)
    column = F.col(predicate.column[0])
    if isinstance(predicate, In):
        return column.isin(list(predicate.values))
    compare = {"=": "eq", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "!=": "ne"}[predicate.op.value]
    return getattr(operator, compare)(column, F.lit(predicate.value))


def truth(spark, path, predicates):
    """The files in which Spark finds a row for each filter."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.read.format("delta").load(path)
    hits = [F.max(as_spark(predicate).cast("int")).alias(f"h{number}") for number, predicate in enumerate(predicates)]
    rows = frame.groupBy(F.col("_metadata.file_name").alias("file")).agg(*hits).collect()
    return [{row["file"] for row in rows if row[f"h{number}"]} for number in range(len(predicates))]


def kept(explanation):
    files = explanation.files
    paths = files["path"].filter(files["kept"]).to_pylist()
    return {path.rpartition("/")[2] for path in paths}


def test_no_file_is_skipped_in_which_spark_finds_a_row(table, spark, names):
    opened, special = table
    predicates = list(filters(names))
    texts = pa.array(sorted({*names, *literals(names), *"ÄöXyZaäAÖxq"}))
    once = Once(SparkCollator(spark), texts)
    skipped = 0
    for predicate, holding in zip(predicates, truth(spark, opened.location, predicates), strict=True):
        explanation = explain(opened.snapshot, predicate, collator=once)
        assert holding <= kept(explanation), str(predicate)
        skipped += len(opened.files) - len(kept(explanation))
        if "p" not in str(predicate).split()[:1]:
            assert {path.rpartition("/")[2] for path in special[:2]} <= kept(explanation)
    assert skipped > len(predicates) * 2


def test_the_session_compares(table, spark):
    opened, (stale, old, cut) = table
    explanation = opened.explain("a = 'ÄPFEL'", spark=spark)
    reasons = dict(zip(explanation.files["path"].to_pylist(), explanation.files["reason"].to_pylist(), strict=True))
    assert reasons[stale] == "no_collated_statistics"
    assert reasons[old] == "collation_version_differs"
    assert reasons[cut] == "unusable_bounds"
    counts = Counter(reasons.values())
    assert counts["in_range"] >= 1
    assert counts["scalar_statistics"] >= 2
    # The session of this process is found without being named.
    assert opened.explain("a = 'ÄPFEL'").read.files == explanation.read.files


def test_without_a_collator_every_file_is_kept(table):
    opened, _ = table
    explanation = explain(opened.snapshot, "a = 'ÄPFEL'")
    assert explanation.read.files == len(opened.files)
    assert "no_collator" not in set(explanation.files["reason"].to_pylist())  # the filter names no version


def test_a_collation_that_the_filter_names(table, spark):
    opened, _ = table
    collator = SparkCollator(spark)
    version = collator.version_of(Collation("icu", "UNICODE_CI"))
    named = explain(opened.snapshot, "a = 'ÄPFEL' COLLATE UNICODE_CI", collator=collator)
    assert named.read.files < len(opened.files)
    # One file has nothing but nulls, and Spark says of which collations that it has them.
    for other, read in {
        f"icu.UNICODE_CI.{version}": named.read.files,
        "icu.UNICODE_CI.72.1.0.0": len(opened.files),
        "icu.en_US": len(opened.files),
        "icu.sv": len(opened.files) - 1,
    }.items():
        predicate = Comparison(ComparisonOp.EQ, ("a",), "ÄPFEL", Collation.parse(other))
        assert explain(opened.snapshot, predicate, collator=collator).read.files == read, other


def test_row_groups_of_kept_files_follow(table, spark):
    opened, _ = table
    explanation = opened.explain("a = 'ÄPFEL'", row_groups=True, spark=spark)
    assert explanation.row_groups["kept"].to_pylist().count(True) == explanation.read.files


def test_ranks_are_equal_for_texts_that_are_equal(spark):
    collator = SparkCollator(spark)
    texts = pa.array(["b", "A", "a", "ä", "", "B"])
    ranks = collator.ranks({Collation("icu", "UNICODE_CI_AI", "1"): texts, Collation("icu", "UNICODE", "1"): texts})
    loose, strict = (rank.to_pylist() for rank in ranks.values())
    assert loose == [3, 2, 2, 2, 1, 3]
    assert strict[4] < strict[2] < strict[1] < strict[3] < strict[0] < strict[5]
