"""Collations set, changed, dropped and kept up on tables that Spark wrote, read back by Spark and by Delta Kernel."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.errors import CollationError, RefusedError
from geolake_nb.formats.delta.commit import DeltaCommit, commit
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.model.collation import Collation
from geolake_nb.model.collation_stats import CollationHints
from geolake_nb.scan.value_scan import CollatedString
from geolake_nb.spark.applying import JobContext
from geolake_nb.spark.collations import collated_ranges, spark_collations, with_collated_stats
from geolake_nb.storage.storage import Storage
from tests.kernel_reader import kernel_rows, kernel_schema

pytestmark = pytest.mark.spark

SCHEMA = "id long, name string, place struct<name:string,code:string>, tags array<string>, m map<string,string>"
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}


def file_of(start, names):
    return [(start + index, name, (name, "x"), [name], {name or "": name}) for index, name in enumerate(names)]


@pytest.fixture(scope="module")
def names(corpus):
    with (corpus / "collation" / "city_names_multiscript.csv").open(encoding="utf-8") as lines:
        return [row["name"] for row in csv.DictReader(lines)]


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory, names):
    """Four files: names of many scripts, with deleted rows; apples in all cases; nulls; an empty string."""
    path = str(tmp_path_factory.mktemp("made") / "a b%41+é")
    files = [
        file_of(0, [*names[0:8000:100], "Äpfel", None]),
        file_of(1000, ["äpfel", "ZEBRA", "apfel"]),
        file_of(2000, [None, None]),
        file_of(3000, ["", "Birne" * 100, "Äpfel"]),
    ]
    for rows in files:
        frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
        frame.write.format("delta").mode("append").options(**PROPERTIES).save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (3, 5)")
    rows = Counter(map(repr, spark.read.format("delta").load(path).collect()))
    table = gl.open(path)
    plan = table.plan_collations(
        {
            "name": "icu.UNICODE_CI",
            "place.name": "icu.de_CI_AI",
            "place.code": "spark.UTF8_LCASE",
            "tags.element": "icu.UNICODE_CI",
            "m.value": "spark.UTF8_LCASE",
        }
    )
    return path, rows, plan


@pytest.fixture(scope="module")
def collated(made, spark):
    path, rows, plan = made
    report = plan.apply(spark=spark, consent="collations")
    return path, rows, report


def stats_of(path):
    storage = Storage.at(path)
    adds = raw_adds(storage, list_log(storage).segment()).to_pylist()
    return {row["path"]: json.loads(json.loads(row["add"])["stats"]) for row in adds}


def frame_of(spark, path):
    return spark.read.format("delta").load(path)


def test_the_plan_asks_for_consent_and_says_who_is_left(made):
    _, _, plan = made
    with pytest.raises(RefusedError, match="--consent collations"):
        plan.apply()
    text = str(plan)
    assert "name compares by icu.UNICODE_CI." in text
    assert "tags.element gets no statistics" in text
    assert "Spark 4.2 + Delta 4.4.0" in text
    assert plan.to_dict()["irreversible_steps"][0]["name"] == "collations"


def test_spark_compares_by_the_collation_afterwards(collated, spark):
    path, rows, report = collated
    assert report.metrics == {"collations_changed": 5, "files_updated": 4}
    frame = frame_of(spark, path)
    assert frame.schema["name"].dataType.collation == "UNICODE_CI"
    assert Counter(map(repr, frame.collect())) == rows
    matches = frame.where("name = 'äpfel'").select("id").collect()
    assert {row["id"] for row in matches} == {80, 1000, 3002}
    # German without case and accents: an umlaut is its base letter.
    matches = frame.where("place.name = 'APFEL'").select("id").collect()
    assert {row["id"] for row in matches} == {80, 1000, 1002, 3002}
    assert frame.where("array_contains(tags, 'ZEBRA')").count() == 1
    assert frame.where("array_contains(tags, 'zebra')").count() == 1


def test_delta_kernel_reads_the_table_with_its_collations(collated, spark):
    path, _, _ = collated
    assert "name=name,type=string collate UNICODE_CI" in kernel_schema(spark, path)
    result = sorted(kernel_rows(spark, path, ["id", "name"]))
    assert result == sorted((row["id"], row["name"]) for row in frame_of(spark, path).select("id", "name").collect())


def test_time_travel_to_before_still_works(collated, spark):
    path, rows, report = collated
    before = spark.read.format("delta").option("versionAsOf", report.version - 1).load(path)
    assert before.where("name = 'äpfel'").count() == 1
    assert Counter(map(repr, before.collect())) == rows


def test_the_statistics_are_spark_s_own_least_and_greatest(collated, spark):
    from pyspark.sql import functions as F  # noqa: N812

    path, _, _ = collated
    table = gl.open(path)
    version = spark_collations(spark)[Collation("icu", "UNICODE_CI")]
    physical = {name: table.schema.physical_path(name) for name in ("name", "place.name", "place.code")}
    pairs = []
    for file, stats in stats_of(path).items():
        data = spark.read.parquet(f"{path}/{file}")
        for column, collation in (("name", "UNICODE_CI"), ("place.name", "de_CI_AI"), ("place.code", "UTF8_LCASE")):
            way = ".".join(f"`{part}`" for part in physical[column])
            data.createOrReplaceTempView("data")
            text = f"{way} COLLATE {collation}"
            low, high = spark.sql(f"SELECT min({text}), max({text}) FROM data").first()
            provider = "spark" if collation.startswith("UTF8") else "icu"
            section = stats.get("statsWithCollation", {}).get(f"{provider}.{collation}.{version}", {})
            if low is None:
                assert physical[column][0] not in section.get("minValues", {})
                continue
            for side, wanted in (("minValues", low), ("maxValues", high)):
                value = section[side]
                for part in physical[column]:
                    value = value[part]
                pairs.append((collation, value, wanted))
    assert len(pairs) == 2 * (3 + 3 + 4)
    frame = spark.createDataFrame(pairs, "collation string, ours string, spark string")
    for collation in ("UNICODE_CI", "de_CI_AI", "UTF8_LCASE"):
        ours, theirs = (F.collate(F.col(name), collation) for name in ("ours", "spark"))
        assert frame.where((F.col("collation") == collation) & (ours != theirs)).count() == 0


def test_deleted_rows_make_the_bounds_wide(collated):
    path, _, _ = collated
    storage = Storage.at(path)
    for row in raw_adds(storage, list_log(storage).segment()).to_pylist():
        if row["vector"] is not None:
            assert json.loads(json.loads(row["add"])["stats"])["tightBounds"] is False


def test_long_strings_are_whole(collated):
    path, _, _ = collated
    sections = [stats["statsWithCollation"] for stats in stats_of(path).values()]
    assert "Birne" * 100 in json.dumps(sections)


def test_the_hints_name_spark_s_versions(collated, spark):
    path, _, _ = collated
    hints = CollationHints.parse(gl.open(path).snapshot.details.domains["collations"])
    version = spark_collations(spark)[Collation("icu", "de_CI_AI")]
    assert {str(collation) for collation in hints.collations} == {
        f"icu.UNICODE_CI.{version}",
        f"icu.de_CI_AI.{version}",
        f"spark.UTF8_LCASE.{version}",
    }
    listed = {column.path: column for column in gl.open(path).collations.columns}
    assert listed["name"].wanted == version
    assert not gl.open(path).collations.is_stale
    assert not listed["tags.element"].has_statistics


def test_doing_it_again_changes_nothing(collated, spark):
    path, _, _ = collated
    table = gl.open(path)
    assert table.plan_collations({"name": "icu.UNICODE_CI"}).is_empty
    assert table.plan_collations(refresh=True).is_empty
    assert table.plan_collations(upgrade=True).apply(spark=spark).version is None
    assert not [finding for finding in table.check() if finding.rule.startswith("collation.")]


def test_a_checkpoint_by_spark_keeps_the_statistics(collated, spark):
    path, _, _ = collated
    before = stats_of(path)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path).checkpoint()
    assert list_log(Storage.at(path)).segment().checkpoint is not None
    assert stats_of(path) == before
    assert gl.open(path).plan_collations(refresh=True).is_empty


@pytest.fixture
def small(spark, tmp_path):
    """A table of three files with a collation that is set, and its name in Spark's version."""
    path = str(tmp_path / "t")
    names = ["Äpfel", "zoo", "äpfel", None, "Birne", "nuß"]
    rows = [(index, name, name) for index, name in enumerate(names)]
    frame = spark.createDataFrame(rows, "id int, name string, other string").coalesce(1)
    frame.write.format("delta").option("maxRecordsPerFile", 2).save(path)
    changes = {"name": "icu.UNICODE_CI", "other": "icu.UNICODE_CI"}
    gl.open(path).plan_collations(changes).apply(spark=spark, consent="collations")
    return path, f"icu.UNICODE_CI.{spark_collations(spark)[Collation('icu', 'UNICODE_CI')]}"


def edit_log(path, edit, hints=None):
    """A commit of another writer: the statistics of each file through `edit`, and other hints."""
    storage = Storage.at(path)
    segment = list_log(storage).segment()
    actions = []
    for number, row in enumerate(raw_adds(storage, segment).sort_by("path").to_pylist()):
        add = json.loads(row["add"])
        stats = json.loads(add["stats"])
        before = json.dumps(stats)
        edit(number, stats)
        if json.dumps(stats) != before:
            actions.append(json.dumps({"add": {**add, "stats": json.dumps(stats), "dataChange": False}}))
    if hints is not None:
        domain = {"domain": "collations", "configuration": json.dumps({"writeVersions": hints}), "removed": False}
        actions.append(json.dumps({"domainMetadata": domain}))
    commit(storage, DeltaCommit(segment.version, "TEST", {}, actions, f"t{segment.version}"))


def sections_of(path):
    return [stats.get("statsWithCollation", {}) for stats in stats_of(path).values()]


def test_refresh_computes_what_files_lack(small, spark):
    path, collation = small
    whole = stats_of(path)

    def forget(number, stats):
        if number == 0:
            del stats["statsWithCollation"]
        if number == 1:
            del stats["statsWithCollation"][collation]["minValues"]["name"]
            del stats["statsWithCollation"][collation]["maxValues"]["name"]

    edit_log(path, forget)
    stale = {column.path: set(column.stale) for column in gl.open(path).collations.columns}
    first, second, _ = sorted(whole)
    assert stale == {"name": {first, second}, "other": {first}}
    plan = gl.open(path).plan_collations(refresh=True)
    assert plan.change.reads.files == 2
    assert plan.apply(spark=spark).metrics["files_updated"] == 2
    assert stats_of(path) == whole
    assert gl.open(path).plan_collations(refresh=True).is_empty


def test_upgrade_from_an_older_version(small, spark):
    path, collation = small
    old = "icu.UNICODE_CI.77.1.0.0"

    def age(number, stats):
        if number != 2:
            stats["statsWithCollation"] = {old: stats["statsWithCollation"].pop(collation)}

    edit_log(path, age, {"icu.UNICODE_CI": ["77.1.0.0"], "icu.sv": ["77.1.0.0"]})
    with pytest.raises(RefusedError, match=r"requests statistics of icu.UNICODE_CI.77.1.0.0.*upgrade"):
        gl.open(path).plan_collations(refresh=True).apply(spark=spark)
    report = gl.open(path).plan_collations(upgrade=True).apply(spark=spark)
    assert report.metrics["files_updated"] == 2
    assert [set(section) for section in sections_of(path)] == [{collation}] * 3
    hints = CollationHints.parse(gl.open(path).snapshot.details.domains["collations"])
    # A collation that no column has is somebody else's.
    assert {str(hinted) for hinted in hints.collations} == {collation, "icu.sv.77.1.0.0"}
    assert gl.open(path).plan_collations(upgrade=True).apply(spark=spark).version is None


def test_change_and_drop_take_their_statistics_along(small, spark):
    path, collation = small
    plan = gl.open(path).plan_collations({"name": "spark.UTF8_LCASE"})
    assert not plan.change.irreversible_steps
    plan.apply(spark=spark)
    lower = collation.replace("icu.UNICODE_CI", "spark.UTF8_LCASE")
    for sections in sections_of(path):
        assert {key: list(section["minValues"]) for key, section in sections.items()} == {
            collation: ["other"],
            lower: ["name"],
        }
    assert frame_of(spark, path).where("name = 'ÄPFEL'").count() == 2
    # No session is needed to drop: nothing is computed.
    plan = gl.open(path).plan_collations({"name": "spark.UTF8_BINARY", "other": None})
    assert plan.change.job is None
    plan.apply()
    assert sections_of(path) == [{}] * 3
    table = gl.open(path)
    assert not table.collations.columns
    assert "collations" not in table.snapshot.details.domains
    assert "__COLLATIONS" not in table.snapshot.details.metadata.schema_string
    assert frame_of(spark, path).where("name = 'äpfel'").count() == 1
    assert len(kernel_rows(spark, path)) == 6


def test_names_that_spark_does_not_have(collated, spark):
    path, _, _ = collated
    before = gl.open(path).version
    for identifier, message in {
        "icu.de_Ci": "name: Spark has no collation icu.de_Ci; use one of: icu.de_CI$",
        "icu.de_AI_CI": "name: Spark has no collation icu.de_AI_CI; use one of: icu.de_CI_AI$",
        "spark.UNICODE": "name: Spark has no collation spark.UNICODE; use one of: icu.UNICODE$",
        "icu.en_US": "name: Spark cannot open a schema with the collation icu.en_US; use icu.en_USA$",
        "icu.'; DROP": "Spark cannot open a schema with the collation icu.'; DROP; SELECT",
    }.items():
        with pytest.raises(CollationError, match=message):
            gl.open(path).plan_collations({"name": identifier}).apply(spark=spark)
    assert gl.open(path).version == before


def test_the_versions_are_those_that_spark_gives_its_collations(spark):
    result = spark_collations(spark)
    factory = spark._jvm.org.apache.spark.sql.catalyst.util.CollationFactory
    for text in ("icu.de_CI", "icu.UNICODE", "spark.UTF8_LCASE", "spark.UTF8_BINARY_RTRIM"):
        collation = Collation.parse(text)
        identifier = factory.fetchCollation(collation.name).identifier()
        assert identifier.toStringWithoutVersion() == text
        # There it has no more numbers than the release of ICU has.
        assert result[collation] in (identifier.getVersion().get(), identifier.getVersion().get() + ".0.0")
    assert len(result) == factory.listCollations().size()


def test_keys_of_a_map(spark, tmp_path):
    from pyspark.errors import IllegalArgumentException

    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, m MAP<STRING, STRING>) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, map('Äpfel', 'x'))")
    plan = gl.open(path).plan_collations({"m.key": "icu.UNICODE_CI"})
    assert "Delta Kernel (Java) 4.4 cannot read the table" in str(plan).replace("\n", " ")
    plan.apply(spark=spark, consent="collations")
    assert frame_of(spark, path).selectExpr("m['äpfel']").first()[0] == "x"
    with pytest.raises(IllegalArgumentException, match="does not support collated string types as keys"):
        kernel_rows(spark, path)


def test_appended_files_get_statistics(small, spark):
    path, collation = small
    table = gl.open(path)
    pq.write_table(pa.table({"id": [7], "name": ["ÖL"], "other": pa.nulls(1, pa.string())}), f"{path}/new file.parquet")
    add = {"path": "new%20file.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    columns = [CollatedString((name,), (name,), None, Collation("icu", "UNICODE_CI")) for name in ("name", "other")]
    context = JobContext(spark, Storage.at(path), "t")
    adds = [json.dumps({"add": add | {"stats": '{"numRecords":1}'}})]
    hints = CollationHints.parse(table.snapshot.details.domains["collations"])
    (made,) = with_collated_stats(context, adds, columns, hints)
    whole = json.loads(made)["add"]
    assert whole["dataChange"] is True
    section = json.loads(whole["stats"])["statsWithCollation"]
    assert section == {collation: {"minValues": {"name": "ÖL"}, "maxValues": {"name": "ÖL"}}}
    assert json.loads(with_collated_stats(context, adds, columns, CollationHints())[0])["domainMetadata"]


def test_least_and_greatest_are_those_of_icu(spark, tmp_path, corpus, names):
    """The cases were computed with icu4j itself, of the release that Spark 4.2 has."""
    with (corpus / "collation" / "minmax_cases_dev.csv").open(encoding="utf-8") as lines:
        cases = list(csv.DictReader(lines))
    version = spark_collations(spark)[Collation("icu", "UNICODE")]
    assert version.startswith("78.3.")
    known = {spark_collation.name for spark_collation in spark_collations(spark)}
    cases = [case for case in cases if case["locale"] in known or case["locale"] == "root"]
    assert len(cases) > 20
    for case in cases:
        values = [names[int(row)] for row in case["rows"].split()]
        pq.write_table(pa.table({"name": values}), tmp_path / f"{case['case']}.parquet")
    locales = sorted({case["locale"] for case in cases})
    columns = [
        CollatedString((locale,), ("name",), None, Collation("icu", "UNICODE" if locale == "root" else locale))
        for locale in locales
    ]
    paths = [f"{case['case']}.parquet" for case in cases]
    result = collated_ranges(JobContext(spark, Storage.at(str(tmp_path)), "t"), paths, columns)
    for case, path in zip(cases, paths, strict=True):
        wanted = names[int(case["icu78.3_min"])], names[int(case["icu78.3_max"])]
        assert result[path][case["locale"],] == wanted, case
