from __future__ import annotations

import pytest

from geolake_nb.errors import RefusedError
from geolake_nb.formats.delta.details import DeltaMetadata
from geolake_nb.formats.delta.protocol import Doing, read_protocol, require_writable
from tests.formats.delta import log_maker
from tests.formats.delta.log_maker import field, metadata

ALL = set(Doing)
IN_FILES = {Doing.REWRITE, Doing.APPEND}


def refused(features=(), *fields, writer=7, removes_rows=False, **configuration):
    """What may not be done to such a table."""
    action = log_maker.protocol(*features)["protocol"] if writer == 7 else {"minReaderVersion": 1}
    protocol = read_protocol(action | {"minWriterVersion": writer})
    table_metadata = DeltaMetadata.of(metadata(*fields, **configuration)["metaData"])
    refusals = {}
    for doing in Doing:
        try:
            require_writable(protocol, table_metadata, doing=doing, removes_rows=removes_rows, where="roads")
        except RefusedError as problem:
            refusals[doing] = str(problem)
    return refusals


@pytest.mark.parametrize("writer", [2, 3, 4, 5, 6])
def test_old_writer_versions_imply_features_that_are_not_used(writer):
    assert refused(writer=writer) == {}


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("allowColumnDefaults", {"CURRENT_DEFAULT": "1"}),
        ("generatedColumns", {"delta.generationExpression": "a + 1"}),
        ("identityColumns", {"delta.identity.start": 1, "delta.identity.step": 1}),
        ("invariants", {"delta.invariants": '{"expression":{"expression":"a > 1"}}'}),
    ],
)
def test_what_new_rows_would_have_to_satisfy_refuses_new_rows(name, mark):
    inner = {"type": "struct", "fields": [field("deep", "long", **mark)]}
    for column in (field("a", "long", **mark), field("a", {"type": "array", "elementType": inner})):
        refusals = refused([name], column)
        assert set(refusals) == {Doing.APPEND}
        assert repr(name) in refusals[Doing.APPEND]
        assert "used by the column" in refusals[Doing.APPEND]


def test_constraints_refuse_new_rows():
    refusals = refused(["checkConstraints"], **{"delta.constraints.positive": "id > 0"})
    assert set(refusals) == {Doing.APPEND}
    assert "'checkConstraints'" in refusals[Doing.APPEND]


@pytest.mark.parametrize("type_", ["variant", {"type": "array", "elementType": "variant", "containsNull": True}])
def test_variants_are_not_written(type_):
    assert set(refused(["variantType"], field("v", type_))) == IN_FILES


def test_rows_stay_where_only_appends_are_allowed():
    assert refused(["appendOnly"], **{"delta.appendOnly": "true"}) == {}
    refusals = refused(["appendOnly"], removes_rows=True, **{"delta.appendOnly": "true"})
    assert set(refusals) == ALL
    assert "delta.appendOnly" in refusals[Doing.REWRITE]
    assert refused(["appendOnly"], removes_rows=True) == {}
