"""Every feature and property of Delta 4.4 times every change of ours: a part of the matrix.

`python -m tests.heavy.feature_matrix` tries all cells.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.no_row_lost.feature_matrix import BAD_APPENDS, OPERATIONS, UNDO_OF_SPARK, Matrix, Outcome, faults_of
from tests.no_row_lost.feature_tables import NOT_BUILT, TABLES

# What a table of production has, one cell for each rule that a change could break, and the refusals, which cost little.
CELLS = [
    ("invariants: NOT NULL", "enable"),
    ("invariants: NOT NULL", BAD_APPENDS),
    ("checkConstraints", "append"),
    ("generatedColumns", "append"),
    ("identityColumns", "append"),
    ("identityColumns", UNDO_OF_SPARK),
    ("changeDataFeed", "append"),
    ("rowTracking", "rewrite by a number"),
    ("rowTracking", "append"),
    ("icebergCompatV2", "rewrite by a number"),
    ("CHAR and VARCHAR", BAD_APPENDS),
    ("delta.compatibility.symlinkFormatManifest.enabled", "append"),
    ("all at once", "repair"),
    ("all at once", "append"),
    ("all that a rewrite may meet at once", "rewrite by a number"),
]


@pytest.fixture(scope="module")
def matrix(spark, tmp_path_factory) -> Matrix:
    return Matrix(spark, tmp_path_factory.mktemp("features"))


@pytest.mark.spark
@pytest.mark.parametrize(("table", "operation"), CELLS, ids=lambda name: name)
def test_the_change_keeps_all_rows_and_rules_or_is_refused_as_declared(matrix, table, operation):
    feature_table = TABLES[table]
    special = {BAD_APPENDS: matrix.bad_appends, UNDO_OF_SPARK: matrix.undo_of_spark}
    cell = (
        special[operation](feature_table) if operation in special else matrix.cell(feature_table, OPERATIONS[operation])
    )
    assert list(faults_of(feature_table, cell)) == []
    assert cell.outcome is Outcome.REFUSED or {"Spark", "Kernel"} <= set(cell.engines)


@pytest.mark.spark
def test_every_feature_and_property_that_delta_knows_is_in_the_matrix(spark):
    jvm: Any = spark._jvm
    delta, java = jvm.org.apache.spark.sql.delta, jvm.scala.jdk.javaapi.CollectionConverters.asJava
    features = {feature.name() for feature in java(delta.TableFeature.allSupportedFeaturesMap()).values()}
    built = {name.partition(":")[0].partition(",")[0] for name in TABLES}
    assert features - built - set(NOT_BUILT) == set()
    properties = {property_.key() for property_ in java(delta.DeltaConfigs.getAllConfigs()).values()}
    set_here = {key for table in TABLES.values() for key in table.properties}
    assert {property_name for property_name in properties if not property_name.endswith("-preview")} - set_here - set(
        NOT_BUILT
    ) == set()
