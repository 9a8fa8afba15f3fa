"""Spatial predicates as PyIceberg expressions, and what they become when they are bound to a schema."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_serializer
from pyiceberg import expressions as pe

from geolake_nb.errors import PredicateError
from geolake_nb.expressions.predicate import Spatial
from geolake_nb.expressions.query_shape import read_shape
from geolake_nb.model.operators import SpatialOp
from geolake_nb.pyiceberg.type_text import is_geo

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

__all__ = [
    "PREDICATES",
    "BoundNotST",
    "BoundSTContains",
    "BoundSTCoveredBy",
    "BoundSTCovers",
    "BoundSTCrosses",
    "BoundSTEquals",
    "BoundSTIntersects",
    "BoundSTOverlaps",
    "BoundSTPredicate",
    "BoundSTTouches",
    "BoundSTWithin",
    "NotST",
    "STContains",
    "STCoveredBy",
    "STCovers",
    "STCrosses",
    "STEquals",
    "STIntersects",
    "STOverlaps",
    "STPredicate",
    "STTouches",
    "STWithin",
]


class STPredicate(pe.UnboundPredicate):
    """A geo column against a geometry: the base of `STIntersects` and its siblings.

    The geometry is a shapely geometry, WKB, WKT or a `Box`, and is kept as little-endian ISO WKB. Without `crs` it is
    in the CRS of the column.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True, populate_by_name=True)

    value: bytes
    crs: str | None = Field(default=None)

    op: ClassVar[SpatialOp]

    def __init__(self, term: Any, geometry: Any = None, *, crs: str | None = None, **kwargs: Any) -> None:
        if geometry is None:
            geometry = _from_json(kwargs.get("value"))
        spatial = Spatial(self.op, ("geom",), *read_shape(geometry, crs))
        super().__init__(term=term, value=spatial.geometry, crs=spatial.crs)

    @property
    def geometry(self) -> bytes:
        """The geometry as little-endian ISO WKB."""
        return self.value

    @field_serializer("value")
    def _value_as_hex(self, value: bytes) -> str:
        # Iceberg, JSON single-value serialization: binary values are hexadecimal digits.
        return value.hex().upper()

    def bind(self, schema: Schema, case_sensitive: bool = True) -> BoundSTPredicate:
        """The predicate on a field of the schema.

        Args:
            schema: a PyIceberg schema.
            case_sensitive: whether the name of the column must have the same case.

        Returns:
            The bound counterpart.

        Raises:
            PredicateError: the field is neither a geometry nor a geography.
        """
        term = self.term.bind(schema, case_sensitive)
        field = term.ref().field
        if not is_geo(field.field_type):
            raise PredicateError(
                f"{self.op.sql} needs a geometry or geography column, and this one is of type {field.field_type}",
                where=f"column {field.name}",
            )
        return self.as_bound(term, self.value, self.crs)

    def __invert__(self) -> NotST:
        return _negated(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self.__class__):
            return False
        return (self.term, self.value, self.crs) == (other.term, other.value, other.crs)

    def __hash__(self) -> int:
        return hash((type(self), str(self.term), self.value, self.crs))

    def __repr__(self) -> str:
        crs = "" if self.crs is None else f", crs={self.crs!r}"
        return f"{type(self).__name__}(term={self.term!r}, geometry={self.value!r}{crs})"

    __str__ = __repr__

    def __getnewargs__(self) -> tuple[Any, bytes]:
        return self.term, self.value

    @property
    def as_bound(self) -> type[BoundSTPredicate]:
        """The bound counterpart."""
        return _BOUND[self.op]


class BoundSTPredicate(pe.BoundPredicate):
    """A spatial predicate on a field of a schema."""

    geometry: bytes
    crs: str | None = None

    op: ClassVar[SpatialOp]

    def __init__(self, term: pe.BoundTerm, geometry: bytes, crs: str | None = None) -> None:
        super().__init__(term=term, geometry=geometry, crs=crs)

    def __invert__(self) -> BoundNotST:
        return BoundNotST(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self.__class__):
            return False
        return bool((self.term, self.geometry, self.crs) == (other.term, other.geometry, other.crs))

    def __hash__(self) -> int:
        return hash((type(self), self.term, self.geometry, self.crs))

    def __repr__(self) -> str:
        crs = "" if self.crs is None else f", crs={self.crs!r}"
        return f"{type(self).__name__}(term={self.term!r}, geometry={self.geometry!r}{crs})"

    __str__ = __repr__

    @property
    def as_unbound(self) -> type[STPredicate]:
        """The unbound counterpart."""
        return _UNBOUND[self.op]

    def unbound(self, name: str) -> STPredicate:
        """The predicate on a column of that name."""
        return self.as_unbound(name, self.geometry, crs=self.crs)


class NotST(pe.Not):
    """The negation of a spatial predicate: an end of the tree, so that NOT can be pushed down to it."""

    def bind(self, schema: Schema, case_sensitive: bool = True) -> BoundNotST:
        """The negation of the bound predicate."""
        child: Any = self.child
        return BoundNotST(child.bind(schema, case_sensitive))


class BoundNotST(pe.BoundPredicate):
    """The negation of a bound spatial predicate."""

    child: Any

    def __init__(self, child: BoundSTPredicate) -> None:
        super().__init__(term=child.term, child=child)

    def __invert__(self) -> BoundSTPredicate:
        child: BoundSTPredicate = self.child
        return child

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundNotST) and bool(self.child == other.child)

    def __hash__(self) -> int:
        return hash((BoundNotST, self.child))

    def __repr__(self) -> str:
        return f"BoundNotST({self.child!r})"

    __str__ = __repr__

    @property
    def as_unbound(self) -> Any:
        """The unbound counterpart."""
        return NotST

    def unbound(self, name: str) -> NotST:
        """The predicate on a column of that name."""
        return _negated(self.child.unbound(name))


def _negated(predicate: STPredicate) -> NotST:
    make: Any = NotST  # its base class makes itself of a child in `__new__`
    negation: NotST = make(predicate)
    return negation


def _from_json(value: Any) -> Any:
    """The geometry of a JSON value: digits, base64 or WKT."""
    if not isinstance(value, str):
        return value
    try:
        return bytes.fromhex(value)
    except ValueError:
        pass
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return value


class STContains(STPredicate):
    """The shape of a row contains the geometry.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STContains("geom", "POINT (1 2)").model_dump()["type"]
        'st-contains'
    """

    type: Literal["st-contains"] = Field(default="st-contains", alias="type")
    op = SpatialOp.CONTAINS


class BoundSTContains(BoundSTPredicate):
    """The bound counterpart of `STContains`."""

    op = SpatialOp.CONTAINS


class STCoveredBy(STPredicate):
    """The shape of a row has no point outside of the geometry.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STCoveredBy("geom", "POINT (1 2)").model_dump()["type"]
        'st-covered-by'
    """

    type: Literal["st-covered-by"] = Field(default="st-covered-by", alias="type")
    op = SpatialOp.COVERED_BY


class BoundSTCoveredBy(BoundSTPredicate):
    """The bound counterpart of `STCoveredBy`."""

    op = SpatialOp.COVERED_BY


class STCovers(STPredicate):
    """The shape of a row leaves no point of the geometry outside.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STCovers("geom", "POINT (1 2)").model_dump()["type"]
        'st-covers'
    """

    type: Literal["st-covers"] = Field(default="st-covers", alias="type")
    op = SpatialOp.COVERS


class BoundSTCovers(BoundSTPredicate):
    """The bound counterpart of `STCovers`."""

    op = SpatialOp.COVERS


class STCrosses(STPredicate):
    """The shape of a row crosses the geometry.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STCrosses("geom", "POINT (1 2)").model_dump()["type"]
        'st-crosses'
    """

    type: Literal["st-crosses"] = Field(default="st-crosses", alias="type")
    op = SpatialOp.CROSSES


class BoundSTCrosses(BoundSTPredicate):
    """The bound counterpart of `STCrosses`."""

    op = SpatialOp.CROSSES


class STEquals(STPredicate):
    """The shape of a row has the same points as the geometry.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STEquals("geom", "POINT (1 2)").model_dump()["type"]
        'st-equals'
    """

    type: Literal["st-equals"] = Field(default="st-equals", alias="type")
    op = SpatialOp.EQUALS


class BoundSTEquals(BoundSTPredicate):
    """The bound counterpart of `STEquals`."""

    op = SpatialOp.EQUALS


class STIntersects(STPredicate):
    """The shape of a row shares a point with the geometry.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STIntersects("geom", "POINT (1 2)").model_dump()["type"]
        'st-intersects'
    """

    type: Literal["st-intersects"] = Field(default="st-intersects", alias="type")
    op = SpatialOp.INTERSECTS


class BoundSTIntersects(BoundSTPredicate):
    """The bound counterpart of `STIntersects`."""

    op = SpatialOp.INTERSECTS


class STOverlaps(STPredicate):
    """The shape of a row overlaps the geometry, and neither covers the other.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STOverlaps("geom", "POINT (1 2)").model_dump()["type"]
        'st-overlaps'
    """

    type: Literal["st-overlaps"] = Field(default="st-overlaps", alias="type")
    op = SpatialOp.OVERLAPS


class BoundSTOverlaps(BoundSTPredicate):
    """The bound counterpart of `STOverlaps`."""

    op = SpatialOp.OVERLAPS


class STTouches(STPredicate):
    """The shape of a row meets the geometry at its boundary alone.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STTouches("geom", "POINT (1 2)").model_dump()["type"]
        'st-touches'
    """

    type: Literal["st-touches"] = Field(default="st-touches", alias="type")
    op = SpatialOp.TOUCHES


class BoundSTTouches(BoundSTPredicate):
    """The bound counterpart of `STTouches`."""

    op = SpatialOp.TOUCHES


class STWithin(STPredicate):
    """The shape of a row lies within the geometry.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.STWithin("geom", "POINT (1 2)").model_dump()["type"]
        'st-within'
    """

    type: Literal["st-within"] = Field(default="st-within", alias="type")
    op = SpatialOp.WITHIN


class BoundSTWithin(BoundSTPredicate):
    """The bound counterpart of `STWithin`."""

    op = SpatialOp.WITHIN


_UNBOUND: dict[SpatialOp, type[STPredicate]] = {
    predicate.op: predicate
    for predicate in (
        STContains, STCoveredBy, STCovers, STCrosses, STEquals, STIntersects, STOverlaps, STTouches, STWithin
    )
}  # fmt: skip
_BOUND: dict[SpatialOp, type[BoundSTPredicate]] = {
    predicate.op: predicate
    for predicate in (
        BoundSTContains, BoundSTCoveredBy, BoundSTCovers, BoundSTCrosses, BoundSTEquals, BoundSTIntersects,
        BoundSTOverlaps, BoundSTTouches, BoundSTWithin,
    )
}  # fmt: skip

PREDICATES: dict[str, type[STPredicate]] = {op.value: predicate for op, predicate in _UNBOUND.items()}
"""By the names that they have in JSON."""
