"""The boxes of one geo column over many files, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import BoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from geolake_nb.model.box import Box

__all__ = ["BoxColumn"]


@dataclass(frozen=True, slots=True, eq=False)
class BoxColumn:
    """One box per file or row group; where `known` is false the sides are undefined.

    `only_null_or_empty` marks files whose geometries are all null or empty. An invalid box
    (NaN, or ymin > ymax) becomes an unknown one; xmin > xmax crosses the antimeridian.

    >>> column = BoxColumn.from_boxes([None])
    >>> column.known.tolist(), len(column)
    ([False], 1)
    """

    xmin: NDArray[np.float64]
    ymin: NDArray[np.float64]
    xmax: NDArray[np.float64]
    ymax: NDArray[np.float64]
    known: NDArray[np.bool_]
    only_null_or_empty: NDArray[np.bool_]
    zmin: NDArray[np.float64] | None = None
    zmax: NDArray[np.float64] | None = None
    mmin: NDArray[np.float64] | None = None
    mmax: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            kind = np.bool_ if field.name in {"known", "only_null_or_empty"} else np.float64
            array: NDArray[Any] = np.asarray(value, dtype=kind)
            if array.shape != (len(self.xmin),):
                raise BoundError(f"{field.name} has the shape {array.shape}, not that of xmin")
            object.__setattr__(self, field.name, array)
        with np.errstate(invalid="ignore"):
            sane = (self.ymin <= self.ymax) & ~np.isnan(self.xmin) & ~np.isnan(self.xmax)
        object.__setattr__(self, "known", self.known & sane)

    @classmethod
    def from_sides(
        cls,
        xmin: ArrayLike,
        ymin: ArrayLike,
        xmax: ArrayLike,
        ymax: ArrayLike,
        *,
        only_null_or_empty: ArrayLike | None = None,
    ) -> BoxColumn:
        """The column of these sides, where NaN means a missing side.

        >>> BoxColumn.from_sides([0, np.nan], [0, 0], [1, 1], [1, 1]).known.tolist()
        [True, False]
        """
        west, south, east, north = (np.asarray(side, np.float64) for side in (xmin, ymin, xmax, ymax))
        blank = np.zeros(len(west), np.bool_) if only_null_or_empty is None else only_null_or_empty
        known = np.ones(len(west), np.bool_)
        return cls(west, south, east, north, known, np.asarray(blank, np.bool_))

    @classmethod
    def from_boxes(cls, boxes: Sequence[Box | None], *, only_null_or_empty: Sequence[bool] | None = None) -> BoxColumn:
        """The column of these boxes, `None` for one that is not known.

        >>> from geolake_nb.model.box import Box
        >>> BoxColumn.from_boxes([Box(0, 0, 1, 1), None]).xmax[0]
        np.float64(1.0)
        """
        blank = np.zeros(len(boxes), np.bool_) if only_null_or_empty is None else only_null_or_empty
        sides: dict[str, Any] = {}
        for name in ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax"):
            values = [None if box is None else getattr(box, name) for box in boxes]
            if name[0] in "xy" or any(value is not None for value in values):
                sides[name] = np.array([np.nan if value is None else value for value in values], np.float64)
        known = np.array([box is not None for box in boxes], np.bool_)
        return cls(known=known, only_null_or_empty=np.asarray(blank, np.bool_), **sides)

    def __len__(self) -> int:
        return len(self.xmin)
