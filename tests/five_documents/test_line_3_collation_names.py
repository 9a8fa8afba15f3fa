"""Line 3: collations by their names, not only by their providers; collated statistics that only structs hold.

The oracle is Spark 4.2 itself: its parser of schemas, its list of collations and its order of strings.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

import geolake_nb as gl
from geolake_nb.errors import CollationError
from geolake_nb.model.collation import Collation, attach_collations, detach_collations, similar_spark_name, spark_name
from geolake_nb.model.types import Field, StringType, StructType
from geolake_nb.scan.engines import engine_facts
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, write_checkpoint

PROTOCOL = {
    "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["collations", "domainMetadata"]}
}
# Each kind of name that Spark's parser distinguishes.
NAMES = """
    en_US en_USA en EN en_usa UNICODE unicode_ci UNICODE_CI_AI UNICODE_AI_CI UNICODE_CS UNICODE_AS UNICODE_CS_AS
    UNICODE_CI_CI UNICODE_CI_CS UNICODE_AI_AS UNICODE_RTRIM UNICODE_RTRIM_CI UNICODE_LTRIM UNICODE_TRIM UTF8_LCASE
    utf8_lcase UTF8_LCASE_RTRIM UTF8_BINARY_RTRIM UTF8_LCASE_CI UTF8_BINARY_CI UTF8_LCASE_RTRIM_RTRIM UTF8 de_DE de_DEU
    DE_ci_ai sr_Cyrl_SRB sr_SRB sr_cyrl_srb_ci zh_Hans zh_CN en_USA_UPPER de_ _de de__CI de_POSIX de_AUT_CI_AI_RTRIM
    de-CI de_CI_RTRIM_RTRIM as_AS as_AI CI RTRIM
"""


def collated(folder, identifier, *actions):
    name = field("name", "string", __COLLATIONS={"name": identifier})
    return LogMaker(folder).commit(0, PROTOCOL, metadata(name), *actions)


def engine(table):
    return next(fact.to_dict() for fact in engine_facts(table.snapshot) if fact.engine.startswith("Spark 4"))


def opens_in(spark, identifier):
    column = {"name": "a", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"a": identifier}}}
    try:
        return spark._jvm.org.apache.spark.sql.types.DataType.fromJson(
            json.dumps({"type": "struct", "fields": [column]})
        ).json()
    except Py4JJavaError as problem:
        if "COLLATION_INVALID" not in str(problem):
            raise
        return None


def test_spark_opens_the_names_that_we_say_it_opens(spark):
    for name in NAMES.split():
        for provider in ("icu", "spark", "ICU", "glibc"):
            identifier = f"{provider}.{name}"
            read = opens_in(spark, identifier)
            assert Collation.parse(identifier).opens_in_spark == (read is not None), identifier
            if read is not None:
                (kept,) = json.loads(read)["fields"][0]["metadata"]["__COLLATIONS"].values()
                assert kept.partition(".")[2] == spark_name(name), identifier


def test_every_collation_that_spark_lists_is_known(spark):
    rows = spark.sql("SELECT NAME FROM collations()").collect()
    assert [row["NAME"] for row in rows if spark_name(row["NAME"]) != row["NAME"]] == []
    assert len(rows) > 1000


def test_similar_names_are_names_of_spark():
    assert similar_spark_name("en_US") == "en_USA"
    assert similar_spark_name("fr_CA_CI") == "fr_CAN_CI"
    assert similar_spark_name("de_DE") == "de"
    assert similar_spark_name("xx_YY") is None


@pytest.mark.parametrize("identifier", ["ICU.en_US", "icu.de_DE_CI", "icu.klingon", "spark.UTF8_LCASE_CI"])
def test_a_name_that_spark_does_not_have_is_an_error_and_the_engine_table_says_so(tmp_path, identifier, spark):
    table = gl.open(str(collated(tmp_path, identifier).folder))
    finding = next(result for result in table.check() if result.rule == "collation.unknown_name")
    assert finding.severity.name == "ERROR"
    assert finding.scope.column == "name"
    assert engine(table)["reads"] == "no"
    assert identifier.partition(".")[2] in engine(table)["note"]
    with pytest.raises(Exception, match="COLLATION_INVALID_NAME"):
        spark.read.format("delta").load(str(tmp_path)).schema  # noqa: B018


def test_the_command_of_the_finding_gives_the_column_a_name_that_spark_has(tmp_path, spark):
    table = gl.open(str(collated(tmp_path, "ICU.en_US").folder))
    finding = next(result for result in table.check() if result.rule == "collation.unknown_name")
    assert finding.fix == f"geolake collations {tmp_path} name=icu.en_USA"
    table.plan_collations({"name": "icu.en_USA"}).apply(spark=spark)
    again = gl.open(str(tmp_path))
    assert not [finding for finding in again.check() if finding.rule.startswith("collation.")]
    assert engine(again)["reads"] == "yes"
    assert "en_USA" in str(spark.read.format("delta").load(str(tmp_path)).schema["name"].dataType)


def test_a_version_in_the_schema_does_not_open_in_the_engine_table_either(tmp_path, spark):
    for index, identifier in enumerate(["icu.UNICODE_CI.78.3", "spark.UTF8_BINARY.1"]):
        table = gl.open(str(collated(tmp_path / str(index), identifier).folder))
        assert opens_in(spark, identifier) is None
        assert "collation.version_in_schema" in {finding.rule for finding in table.check()}
        assert engine(table)["reads"] == "no"


def test_names_that_spark_has_give_no_finding(tmp_path):
    for index, identifier in enumerate(["ICU.en_USA", "icu.unicode_ci", "spark.UTF8_LCASE_RTRIM", "spark.de"]):
        table = gl.open(str(collated(tmp_path / str(index), identifier).folder))
        assert not [finding for finding in table.check() if finding.rule.startswith("collation.")]
        assert engine(table)["reads"] == "yes"


def test_a_new_collation_must_be_one_that_spark_has(tmp_path):
    table = gl.open(str(collated(tmp_path, "icu.de").folder))
    with pytest.raises(
        CollationError, match=r"Spark cannot open a schema with the collation icu.en_US; use icu.en_USA"
    ):
        table.plan_collations({"name": "ICU.en_US"})


def checkpointed(folder, identifier, ranges, *, text):
    """A table whose files are known from a checkpoint: statistics as texts, or as structs and nothing else."""
    ends = pa.struct([("name", pa.string())])
    both = pa.struct([("minValues", ends), ("maxValues", ends)])
    kind = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", ends),
            ("maxValues", ends),
            ("nullCount", pa.struct([("name", pa.int64())])),
            ("statsWithCollation", pa.struct([(identifier, both)])),
        ]
    )
    name = field("name", "string", __COLLATIONS={"name": identifier.rsplit(".", 4)[0]})
    actions = [PROTOCOL, metadata(name)]
    for number, (low, high) in enumerate(ranges):
        sides = {"minValues": {"name": low}, "maxValues": {"name": high}}
        stats = {"numRecords": 2, **sides, "nullCount": {"name": 0}, "statsWithCollation": {identifier: sides}}
        if low is None:
            del stats["statsWithCollation"]
        action = add(f"{number}.parquet", stats if text else None)
        if not text:
            action["add"]["stats_parsed"] = stats
        actions.append(action)
    made = LogMaker(folder).commit(1, {"commitInfo": {"operation": "WRITE"}})
    write_checkpoint(made.log / f"{1:020}.checkpoint.parquet", actions, None if text else kind, stats=text)
    made.hint(json.dumps({"version": 1, "size": len(actions)}))
    return gl.open(str(folder))


def test_collated_statistics_in_structs_skip_as_those_in_texts_do(tmp_path, spark):
    version = spark.sql("SELECT max(ICU_VERSION) AS v FROM collations()").first()["v"]
    identifier = f"icu.UNICODE_CI.{version}"
    ranges = [("Apfel", "birne"), ("Quitte", "zwetschge"), (None, None), ("äpfel", "Äpfel")]
    answers = {}
    for text in (True, False):
        table = checkpointed(tmp_path / str(text), identifier, ranges, text=text)
        explanation = table.explain("name = 'BIRNE'", spark=spark)
        assert explanation.files["path"].to_pylist() == [f"{number}.parquet" for number in range(4)]
        answers[text] = (
            explanation.files["kept"].to_pylist(),
            [str(collation) for collation in table.snapshot.details.stats.collations()],
            table.collations.to_dict()["columns"][0]["files"],
        )
    assert answers[True] == answers[False]
    assert answers[False] == ([True, False, True, False], [identifier], {version: 3})


@pytest.mark.parametrize("identifier", ["UNICODE", "UTF8_LCASE", "UTF8_BINARY", "", ".de", "icu.", "no such"])
def test_an_identifier_without_a_provider_or_name_does_not_close_the_table(tmp_path, identifier):
    table = gl.open(str(collated(tmp_path / "t", identifier).folder))
    # Delta collations, Collation identifiers: the provider and the name are required.
    (finding,) = [result for result in table.check() if result.rule.startswith("collation.")]
    assert finding.rule == "collation.unknown_provider"
    known = {"UNICODE": "name=icu.UNICODE", "UTF8_LCASE": "name=spark.UTF8_LCASE", "UTF8_BINARY": "name=none"}
    assert (finding.fix or "none at all").endswith(known.get(identifier, "none at all"))
    assert str(table.schema.find("name").type.collation) == identifier
    assert "no" in str(engine(table)["reads"])
    change = None if finding.fix is None else finding.fix.rpartition("=")[2]
    if change is not None:
        plan = table.plan_collations({"name": None if change == "none" else change})
        (schema,) = [
            json.loads(action)["metaData"]["schemaString"] for action in plan.change.actions if "metaData" in action
        ]
        expected = {} if change == "none" else {"__COLLATIONS": {"name": change}}
        assert json.loads(schema)["fields"][0]["metadata"] == expected


def test_no_file_is_skipped_by_a_collation_without_a_provider(tmp_path):
    stats = {"numRecords": 1, "minValues": {"name": "b"}, "maxValues": {"name": "c"}, "nullCount": {"name": 0}}
    stats["statsWithCollation"] = {"icu.UNICODE_CI.75.1": {"minValues": {"name": "b"}, "maxValues": {"name": "c"}}}
    log = collated(tmp_path / "t", "UNICODE_CI", add("a.parquet", stats=stats))
    table = gl.open(str(log.folder))
    assert [table.explain(f"name = '{text}'").read.files for text in ("B", "x")] == [1, 1]


def test_a_schema_with_such_an_identifier_is_written_back_unchanged():
    name = Field("name", StringType(), metadata={"__COLLATIONS": {"name": "UNICODE"}})
    attached = attach_collations(StructType((name,)))
    assert detach_collations(attached) == StructType((name,))
    assert detach_collations(attached).fields[0].metadata == {"__COLLATIONS": {"name": "UNICODE"}}


@pytest.mark.parametrize("identifier", ["UNICODE", "UTF8_LCASE", "", "no such"])
def test_spark_does_not_open_an_identifier_without_a_provider(spark, identifier):
    # Spark takes it apart into two, and there is no second.
    with pytest.raises(Py4JJavaError, match="MatchError"):
        opens_in(spark, identifier)
