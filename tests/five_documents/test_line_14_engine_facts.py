"""Line 14: the engine table says what the engines that are installed here do."""

from __future__ import annotations

from geolake_nb.model.table_format import Answer, TableKind
from geolake_nb.scan.engines import ENGINE_FACTS
from tests.heavy.engine_facts import Measured, differences, measure_with_spark


def test_the_engine_table_is_as_measured(spark, tmp_path):
    measured = list(measure_with_spark(spark, tmp_path))
    assert [line for facts in measured for line in differences(facts)] == []
    skipping = {fact.engine for fact in measured if fact.skips_geometry}
    assert skipping == {"DuckDB 2.0", "SedonaDB 0.5"}


def test_an_answer_that_changed_is_named():
    changed = Measured("PyIceberg 0.12", TableKind.ICEBERG_GEO, reads=True)
    assert list(differences(changed)) == ["PyIceberg 0.12, Iceberg v3 with geo types, reads: recorded no, measured yes"]
    assert list(differences(Measured("Impala", TableKind.PARQUET_GEO))) == [
        "Impala, Parquet with geo types: no such row"
    ]


def test_engines_of_vendors_have_a_row_with_the_address_of_their_documentation():
    for name in ("Snowflake", "Databricks", "Wherobots", "iceberg-go"):
        facts = [fact for fact in ENGINE_FACTS if fact.engine.startswith(name)]
        assert facts, name
        assert all(fact.source.startswith("https://") for fact in facts), name
        assert all(fact.skips_geography is not Answer.YES for fact in facts), name
