"""A rewrite as it would be asked for: the columns in their order, the curve, the sizes, the partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema import type_name
from geolake_nb.core.types import GeographyType, GeometryType
from geolake_nb.errors import GeolakeError
from geolake_nb.planning.writing.clustering import Ordering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.core.schema import Schema

__all__ = ["ClusterColumn", "RewriteDraft", "cluster_columns", "draft_for"]


@dataclass(frozen=True, slots=True)
class ClusterColumn:
    """A column that rows can be put in order by."""

    path: str
    kind: str
    """Its type in a few words."""
    is_geo: bool


@dataclass(frozen=True, slots=True)
class RewriteDraft:
    """What a rewrite is asked to do, as `t.plan_rewrite` takes it.

    >>> draft = RewriteDraft().adding("geom").adding("day").adding("geom")
    >>> draft.cluster_by, draft.moved("day", -1).cluster_by, draft.without("geom").cluster_by
    (('geom', 'day'), ('day', 'geom'), ('day',))
    >>> draft.moved("geom", -1) == draft
    True
    """

    cluster_by: tuple[str, ...] = ()
    curve: str = "hilbert"
    target_file_size: str = "128MB"
    row_group_rows: int | None = None
    where: str | None = None

    def adding(self, column: str) -> RewriteDraft:
        """With one column more, at the end."""
        return self if column in self.cluster_by else replace(self, cluster_by=(*self.cluster_by, column))

    def without(self, column: str) -> RewriteDraft:
        """With one column less."""
        return replace(self, cluster_by=tuple(one for one in self.cluster_by if one != column))

    def moved(self, column: str, by: int) -> RewriteDraft:
        """With a column in another place, as far as there are places."""
        if column not in self.cluster_by:
            return self
        others = [one for one in self.cluster_by if one != column]
        others.insert(max(0, self.cluster_by.index(column) + by), column)
        return replace(self, cluster_by=tuple(others))

    @property
    def options(self) -> dict[str, Any]:
        """What `t.plan_rewrite` is called with."""
        return {
            "cluster_by": list(self.cluster_by),
            "curve": self.curve,
            "target_file_size": self.target_file_size,
            "row_group_rows": self.row_group_rows,
            "where": self.where,
        }


def cluster_columns(schema: Schema, partition_by: Sequence[str] = ()) -> tuple[ClusterColumn, ...]:
    """The columns that a rewrite takes to put rows in order, geo columns first.

    >>> from geolake_nb.core.schema import Schema
    >>> from geolake_nb.core.types import Field, PrimitiveType, StructType
    >>> held = (Field("day", PrimitiveType("date")), Field("s", StructType()), Field("g", GeometryType()))
    >>> [one.path for one in cluster_columns(Schema(StructType(held)))]
    ['g', 'day']
    """
    found = []
    for path, field in schema.walk():
        try:
            Ordering.of([path], "hilbert", schema, partition_by=partition_by)
        except GeolakeError:
            continue
        is_geo = isinstance(field.type, GeometryType | GeographyType)
        found.append(ClusterColumn(path, type_name(field.type), is_geo))
    return tuple(sorted(found, key=lambda one: not one.is_geo))


def draft_for(columns: Sequence[ClusterColumn]) -> RewriteDraft:
    """What is most often meant: the rows near each other by the first geo column.

    >>> draft_for([]).cluster_by
    ()
    """
    return RewriteDraft(tuple(one.path for one in columns if one.is_geo)[:1])
