"""The operators of filters: how values compare, and how shapes lie to each other."""

from __future__ import annotations

import datetime as dt
import enum
import re
from decimal import Decimal

from geolake_nb.errors import PredicateError

__all__ = ["ComparisonOp", "Literal", "SpatialOp"]

Literal = bool | int | float | Decimal | str | bytes | dt.date | dt.datetime | dt.time
"""A value that a column is compared with."""


class ComparisonOp(enum.Enum):
    """How a column is compared with a value."""

    EQ = "="
    """Equal."""
    NE = "!="
    """Different."""
    LT = "<"
    """Less."""
    LE = "<="
    """Less or equal."""
    GT = ">"
    """Greater."""
    GE = ">="
    """Greater or equal."""

    @classmethod
    def parse(cls, text: str) -> ComparisonOp:
        """The operator of that sign.

        >>> ComparisonOp.parse("<>")
        <ComparisonOp.NE: '!='>
        """
        try:
            return cls({"<>": "!=", "==": "="}.get(text, text))
        except ValueError:
            known = ", ".join(sorted(member.value for member in cls))
            raise PredicateError(f"unknown comparison {text!r}", remedy=f"use one of: {known}") from None

    @property
    def converse(self) -> ComparisonOp:
        """The operator with its sides exchanged: `5 < x` is `x > 5`."""
        return ComparisonOp(self.value.translate(str.maketrans("<>", "><")))

    @property
    def negation(self) -> ComparisonOp:
        """The operator that holds for a value exactly where this one does not."""
        return _NEGATIONS[self]


_NEGATIONS = {
    ComparisonOp.EQ: ComparisonOp.NE,
    ComparisonOp.NE: ComparisonOp.EQ,
    ComparisonOp.LT: ComparisonOp.GE,
    ComparisonOp.GE: ComparisonOp.LT,
    ComparisonOp.GT: ComparisonOp.LE,
    ComparisonOp.LE: ComparisonOp.GT,
}


class SpatialOp(enum.Enum):
    """How the geometry of a row has to lie to that of the query; the value is the name in JSON."""

    CONTAINS = "st-contains"
    """The row holds the query, and their interiors meet."""
    INTERSECTS = "st-intersects"
    """They share a point."""
    WITHIN = "st-within"
    """The query holds the row, and their interiors meet."""
    OVERLAPS = "st-overlaps"
    """They share some, not all, and what they share has their dimension."""
    COVERS = "st-covers"
    """No point of the query is outside the row."""
    COVERED_BY = "st-covered-by"
    """No point of the row is outside the query."""
    EQUALS = "st-equals"
    """They are the same set of points."""
    TOUCHES = "st-touches"
    """They share boundary points only."""
    CROSSES = "st-crosses"
    """They share interior points, and what they share has a lower dimension."""

    @classmethod
    def parse(cls, text: str) -> SpatialOp:
        """The relation of that name, as SQL or JSON spells it.

        >>> SpatialOp.parse("ST_CoveredBy") is SpatialOp.parse("st-covered-by")
        True
        """
        wanted = re.sub(r"[^a-z]", "", text.lower())
        for member in cls:
            if member.value.replace("-", "") == wanted:
                return member
        known = ", ".join(sorted(member.sql for member in cls))
        raise PredicateError(f"unknown spatial predicate {text!r}", remedy=f"use one of: {known}")

    @property
    def sql(self) -> str:
        """The name of the SQL function."""
        return "ST_" + "".join(word.capitalize() for word in self.value.split("-")[1:])

    @property
    def converse(self) -> SpatialOp:
        """The relation with its sides exchanged: a contains b where b is within a."""
        return _CONVERSES.get(self, self)


_CONVERSES = {
    SpatialOp.CONTAINS: SpatialOp.WITHIN,
    SpatialOp.WITHIN: SpatialOp.CONTAINS,
    SpatialOp.COVERS: SpatialOp.COVERED_BY,
    SpatialOp.COVERED_BY: SpatialOp.COVERS,
}
