"""Bounds of shapes by the names that PyIceberg's plan gives them, over the core of this package.

Nothing here needs PyIceberg, and without numba values are read in plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import BoundError
from geolake_nb.geo.bound_codec import from_iceberg_bytes, to_iceberg_bytes
from geolake_nb.geo.wkb import WkbError, read_wkb
from geolake_nb.model.box import Box, union_all
from geolake_nb.model.statistics import ColumnStats, Problem, merge
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryType, from_iceberg_text
from geolake_nb.pyiceberg.plain_wkb import plain_box

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "GeometryEnvelope",
    "GeospatialBound",
    "GeospatialStatsAggregator",
    "deserialize_geospatial_bound",
    "extract_envelope_from_wkb",
    "merge_envelopes",
    "serialize_geospatial_bound",
]


@dataclass(frozen=True, slots=True)
class GeospatialBound:
    """One end of a box: the lower or the upper bound of a geo column.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.GeospatialBound(1.0, 2.0, m=5.0).has_m
        True
    """

    x: float
    y: float
    z: float | None = None
    m: float | None = None

    @property
    def has_z(self) -> bool:
        """Whether there is a Z."""
        return self.z is not None

    @property
    def has_m(self) -> bool:
        """Whether there is an M."""
        return self.m is not None


@dataclass(frozen=True, slots=True)
class GeometryEnvelope:
    """The box of a shape; of a geography `x_min > x_max` crosses the antimeridian.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.GeometryEnvelope(170, -1, None, None, -170, 1, None, None).to_max_bound().x
        -170
    """

    x_min: float
    y_min: float
    z_min: float | None
    m_min: float | None
    x_max: float
    y_max: float
    z_max: float | None
    m_max: float | None

    def to_min_bound(self) -> GeospatialBound:
        """The lower bound."""
        return GeospatialBound(self.x_min, self.y_min, self.z_min, self.m_min)

    def to_max_bound(self) -> GeospatialBound:
        """The upper bound."""
        return GeospatialBound(self.x_max, self.y_max, self.z_max, self.m_max)


def serialize_geospatial_bound(bound: GeospatialBound) -> bytes:
    """A bound as Iceberg stores it: 16 bytes for XY, 24 for XYZ, 32 for XYM (Z is NaN) and XYZM.

    Args:
        bound: what to store.

    Returns:
        Little-endian doubles.

    Raises:
        BoundError: X, Y or another side is NaN.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> len(geo.serialize_geospatial_bound(geo.GeospatialBound(1, 2, m=3)))
        32
    """
    return to_iceberg_bytes(Box(bound.x, bound.y, bound.x, bound.y, bound.z, bound.z, bound.m, bound.m))[0]


def deserialize_geospatial_bound(raw: bytes) -> GeospatialBound:
    """The bound in Iceberg's bytes.

    Args:
        raw: 16, 24 or 32 bytes.

    Returns:
        The bound; a Z or an M that is NaN is `None`.

    Raises:
        BoundError: another number of bytes, or a NaN for X or Y.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.deserialize_geospatial_bound(bytes(16))
        GeospatialBound(x=0.0, y=0.0, z=None, m=None)
    """
    box = from_iceberg_bytes(raw, raw)
    return GeospatialBound(box.xmin, box.ymin, box.zmin, box.mmin)


def extract_envelope_from_wkb(wkb: bytes, is_geography: bool = False) -> GeometryEnvelope | None:
    """The box of one shape; that of a geography holds its edges, which are great circles.

    Args:
        wkb: ISO WKB or EWKB.
        is_geography: whether x is a longitude on the Earth, so that the box may cross the antimeridian.

    Returns:
        The box, `None` for an empty shape.

    Raises:
        ValueError: bytes that are not WKB, or a type that is not supported.
        BoundError: a shape that cannot be bounded, such as a longitude of 190 degrees in a geography.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> import shapely
        >>> line = shapely.to_wkb(shapely.from_wkt("LINESTRING (170 0, -170 0)"))
        >>> envelope = geo.extract_envelope_from_wkb(line, is_geography=True)
        >>> envelope.x_min, envelope.x_max
        (170.0, -170.0)
    """
    box = _box(bytes(wkb), is_geography=is_geography)
    return None if box is None else _envelope(box)


def merge_envelopes(left: GeometryEnvelope, right: GeometryEnvelope, is_geography: bool = False) -> GeometryEnvelope:
    """The box around two boxes.

    Args:
        left: a box.
        right: another one.
        is_geography: whether the boxes may cross the antimeridian.

    Returns:
        The smallest box that holds both.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> east = geo.GeometryEnvelope(175, 0, None, None, 180, 1, None, None)
        >>> west = geo.GeometryEnvelope(-180, 0, None, None, -170, 1, None, None)
        >>> merged = geo.merge_envelopes(east, west, is_geography=True)
        >>> merged.x_min, merged.x_max
        (175.0, -170.0)
    """
    return _envelope(_to_box(left).union(_to_box(right), circular=is_geography))


class GeospatialStatsAggregator:
    """Collects the box of a geo column, value by value or column by column.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> aggregator = geo.GeospatialStatsAggregator(is_geography=False)
        >>> aggregator.add(bytes.fromhex("0101000000000000000000F03F0000000000000040"))
        >>> aggregator.max_bound()
        GeospatialBound(x=1.0, y=2.0, z=None, m=None)
    """

    def __init__(self, primitive_type: Any = None, *, is_geography: bool = False) -> None:
        self.primitive_type = primitive_type
        self._type = _core_type(primitive_type, is_geography=is_geography)
        self._parts: list[ColumnStats] = []
        self._values: list[bytes | None] = []

    def add(self, wkb: bytes | None) -> None:
        """Take in one value.

        Args:
            wkb: ISO WKB or EWKB, or `None`.
        """
        self._values.append(wkb)

    def update(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Take in a column.

        Args:
            column: binary WKB, or `geoarrow.wkb`.
        """
        self._flush()
        self._parts.append(_stats(column, self._type))

    @property
    def stats(self) -> ColumnStats:
        """What is known of all values."""
        self._flush()
        self._parts = [merge(self._parts, type=self._type or GeographyType())]
        return self._parts[0]

    @property
    def null_count(self) -> int:
        """How many values are null."""
        return self.stats.null_count

    @property
    def problem(self) -> str | None:
        """Why the geometries have no bound."""
        stats = self.stats
        if stats.bad or stats.unbounded:
            return str(stats.first_bad or stats.first_unbounded)
        return None

    def min_bound(self) -> GeospatialBound | None:
        """The lower bound; `None` where a geometry has none, and where there are no geometries."""
        box = self.stats.box
        return None if box is None else _envelope(box).to_min_bound()

    def max_bound(self) -> GeospatialBound | None:
        """The upper bound."""
        box = self.stats.box
        return None if box is None else _envelope(box).to_max_bound()

    def min_as_bytes(self) -> bytes | None:
        """The lower bound as Iceberg stores it."""
        return None if (ends := self._bytes()) is None else ends[0]

    def max_as_bytes(self) -> bytes | None:
        """The upper bound as Iceberg stores it."""
        return None if (ends := self._bytes()) is None else ends[1]

    def _bytes(self) -> tuple[bytes, bytes] | None:
        box = self.stats.box
        if box is None:
            return None
        try:
            return to_iceberg_bytes(box, circular=not isinstance(self._type, GeometryType))
        except BoundError:
            return None

    def _flush(self) -> None:
        if self._values:
            values, self._values = pa.array(self._values, pa.large_binary()), []
            self._parts.append(_stats(values, self._type))


def _core_type(type_: Any, *, is_geography: bool) -> GeometryType | GeographyType | None:
    """The type of the core; `None` for edges that no specification has, which nothing can bound."""
    if type_ is None:
        return GeographyType() if is_geography else GeometryType()
    if isinstance(type_, GeometryType | GeographyType):
        return type_
    algorithm = getattr(type_, "algorithm", None)
    if algorithm is None:
        return from_iceberg_text(f"geometry({type_.crs})")
    if algorithm not in {known.value for known in EdgeAlgorithm}:
        return None
    return from_iceberg_text(f"geography({type_.crs}, {algorithm})")


def _stats(column: Any, type_: GeometryType | GeographyType | None) -> ColumnStats:
    if type_ is None:
        rows, nulls = len(column), column.null_count
        reason = Problem(None, "the algorithm of its edges is not known")
        return ColumnStats(None, None, rows, nulls, 0, unbounded=rows - nulls, first_unbounded=reason)
    try:
        import geolake_nb.geo.wkb_scan  # noqa: F401 - needs numba
    except ImportError:
        return _plain_stats(column, type_)
    from geolake_nb.geo.bounds import column_stats

    return column_stats(column, type=type_)


def _plain_stats(column: Any, type_: GeometryType | GeographyType) -> ColumnStats:
    """The same without numba; edges on an ellipsoid and curves have no bound then."""
    boxes: list[Box] = []
    nulls = empty = bad = unbounded = 0
    first_bad = first_unbounded = None
    geography = isinstance(type_, GeographyType)
    known = type_ in (GeometryType(type_.crs), GeographyType())
    for row, value in enumerate(_values(column)):
        if value is None:
            nulls += 1
            continue
        try:
            box = plain_box(value, geography=geography)
            if box is None:
                empty += 1
            elif known:
                boxes.append(box)
            else:
                raise BoundError("bounds of this geography need numba")
        except WkbError as error:
            bad += 1
            first_bad = first_bad or Problem(row, error.fault.name.lower(), error.offset)
        except BoundError as error:
            unbounded += 1
            first_unbounded = first_unbounded or Problem(row, error.what)
    box = None if bad or unbounded else union_all(boxes, circular=geography)
    return ColumnStats(box, None, len(column), nulls, empty, bad, unbounded, first_bad, first_unbounded)


def _values(column: Any) -> Iterator[bytes | None]:
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        storage = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
        for value in storage:
            yield value.as_py()


def _box(wkb: bytes, *, is_geography: bool) -> Box | None:
    try:
        read_wkb(wkb)
    except ImportError:
        return plain_box(wkb, geography=is_geography)
    from geolake_nb.geo.bounds import column_stats

    type_ = GeographyType() if is_geography else GeometryType()
    stats = column_stats(pa.array([wkb], pa.large_binary()), type=type_)
    if stats.first_unbounded is not None:
        raise BoundError(stats.first_unbounded.reason)
    return stats.box


def _envelope(box: Box) -> GeometryEnvelope:
    return GeometryEnvelope(box.xmin, box.ymin, box.zmin, box.mmin, box.xmax, box.ymax, box.zmax, box.mmax)


def _to_box(envelope: GeometryEnvelope) -> Box:
    return Box(
        envelope.x_min, envelope.y_min, envelope.x_max, envelope.y_max,
        envelope.z_min, envelope.z_max, envelope.m_min, envelope.m_max,
    )  # fmt: skip
