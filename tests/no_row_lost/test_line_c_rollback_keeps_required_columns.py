"""A rollback of an Iceberg table does not bring back rows that lack a column which is required now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from geolake_nb.formats.iceberg.undo import newly_required
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, ListType, PrimitiveType, StructType

NUMBER = PrimitiveType("int64")
FREE = Field("a", NUMBER, id=1)
BOUND = Field("a", NUMBER, id=1, nullable=False)


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ((FREE,), (BOUND,), "a"),
        ((BOUND,), (FREE,), None),
        ((BOUND,), (BOUND, Field("b", NUMBER, id=2)), None),
        ((BOUND,), (BOUND, Field("b", NUMBER, id=2, nullable=False)), "b"),
        ((BOUND,), (BOUND, Field("b", NUMBER, id=2, nullable=False, metadata={"initial-default": 7})), None),
        (
            (Field("l", ListType(replace(FREE, name="element")), id=3),),
            (Field("l", ListType(replace(BOUND, name="element")), id=3),),
            "l.element",
        ),
        ((), (Field("s", StructType((BOUND,)), id=3),), None),
    ],
    ids=["tightened", "loosened", "optional", "required", "with a default", "in a list", "in a new optional struct"],
)
def test_a_column_that_was_made_required_is_named(old, new, column):
    assert newly_required(Schema(StructType(old)), Schema(StructType(new))) == column
