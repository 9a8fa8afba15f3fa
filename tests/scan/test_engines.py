from __future__ import annotations

import json

import pytest

from geolake_nb.formats.registry import DELTA, FORMATS, HAVASU, ICEBERG, PARQUET
from geolake_nb.model.collation import Collation
from geolake_nb.model.snapshot import Feature, Protocol
from geolake_nb.model.table_format import AS_OF, Answer, TableKind
from geolake_nb.model.types import Field, GeometryType, PrimitiveType, StringType
from geolake_nb.scan.engines import ENGINE_FACTS, engine_facts, facts_by_kind, published_facts
from tests.scan.snapshots import GEOM, files, snapshot

PLAIN = (Field("n", PrimitiveType("int64")),)


def facts(*, of=engine_facts, **options):
    return of(snapshot(files([]), **options))


def test_every_fact_is_dated_and_has_a_source():
    for fact in ENGINE_FACTS:
        assert fact.as_of == AS_OF
        assert fact.note
        unknown = {fact.reads, fact.writes, fact.skips_geometry, fact.skips_geography} == {Answer.UNKNOWN}
        assert (fact.source == "none") is unknown
        assert json.loads(json.dumps(fact.to_dict()))["kind"] == fact.kind.value


def test_every_engine_says_one_thing_about_a_kind_of_table():
    keys = [(fact.engine, fact.kind) for fact in ENGINE_FACTS]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("format", "kind"),
    [
        (DELTA, TableKind.DELTA_GEO),
        (ICEBERG, TableKind.ICEBERG_GEO),
        (HAVASU, TableKind.HAVASU),
        (PARQUET, TableKind.PARQUET_GEO),
    ],
)
def test_the_facts_are_those_of_the_tables_kind(format, kind):  # noqa: A002
    assert {fact.kind for fact in facts(fields=GEOM, format=format)} == {kind}


@pytest.mark.parametrize("format", FORMATS.values())
def test_a_plain_table_has_none(format):  # noqa: A002
    assert facts(fields=PLAIN, format=format) == ()


def test_a_feature_counts_without_a_column_of_its_type():
    protocol = Protocol("reader 3, writer 7", (Feature("geospatial-dev", "preview"), Feature("collations", "")))
    kinds = {fact.kind for fact in facts(fields=PLAIN, protocol=protocol, of=facts_by_kind)}
    assert kinds == {TableKind.DELTA_GEO, TableKind.DELTA_COLLATED}


def test_an_engine_is_listed_once_with_the_worst_answer_of_all_kinds():
    protocol = Protocol("reader 3, writer 7", (Feature("geospatial", ""), Feature("collations", "")))
    by_kind = facts(fields=GEOM, protocol=protocol, of=facts_by_kind)
    merged = facts(fields=GEOM, protocol=protocol)
    assert len(merged) == len({fact.engine for fact in by_kind}) < len(by_kind)
    for fact in merged:
        same = [other for other in by_kind if other.engine == fact.engine]
        for answer in ("reads", "writes"):
            answers = {getattr(other, answer) for other in same}
            worst = next(known for known in (Answer.NO, Answer.UNKNOWN, Answer.YES) if known in answers)
            assert getattr(fact, answer) is worst
        assert all(other.note in fact.note for other in same)


def test_spark_skips_on_neither_and_delta_kernel_on_geometry_only():
    by_name = {fact.engine: fact for fact in facts(fields=GEOM)}
    spark, kernel = by_name["Spark 4.2 + Delta 4.4.0"], by_name["Delta Kernel (Java) 4.4"]
    assert (spark.skips_geometry, spark.skips_geography) == (Answer.NO, Answer.NO)
    assert (kernel.skips_geometry, kernel.skips_geography) == (Answer.YES, Answer.NO)
    assert by_name["deltalake 1.6"].reads is Answer.NO


def test_spark_refuses_a_provider_that_it_does_not_know():
    def of_spark(provider):
        string = StringType(Collation(provider, "de_AUT"))
        spark_facts = facts(fields=(Field("name", string), Field("geom", GeometryType())))
        return {fact.reads for fact in spark_facts if fact.engine.startswith("Spark")}

    assert of_spark("icu") == {Answer.YES}
    assert of_spark("glibc") == {Answer.NO}


def test_an_engine_reads_files_that_became_a_table_if_it_takes_both_their_types_and_their_columns():
    def reads(fields, **options):
        published = published_facts(snapshot(files([]), fields=fields, format=ICEBERG), **options)
        return {fact.engine: fact.reads for fact in published}

    plain, typed, bare = reads(PLAIN), reads(GEOM), reads(GEOM, typed=False)
    assert plain["PyIceberg 0.12"] is Answer.YES
    assert typed["PyIceberg 0.12"] is Answer.NO, "it cannot parse the types"
    assert plain["Snowflake"] is typed["Snowflake"] is Answer.UNKNOWN
    assert typed["Spark 4.1 + Iceberg 1.12"] is Answer.YES
    assert bare["Spark 4.1 + Iceberg 1.12"] is Answer.NO
    assert Answer.YES not in bare.values(), "none was tried with geo columns that files do not declare"
