"""The settings of a rewrite: columns in their order, curve, sizes, partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.clustering import Ordering
from geolake_nb.errors import GeolakeError
from geolake_nb.model.schema import type_name
from geolake_nb.model.types import GeographyType, GeometryType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.model.schema import Schema

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
    """The settings of a rewrite, as arguments of `t.plan_rewrite`.

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
        return replace(self, cluster_by=tuple(path for path in self.cluster_by if path != column))

    def moved(self, column: str, by: int) -> RewriteDraft:
        """With a column moved by some positions, within the list."""
        if column not in self.cluster_by:
            return self
        others = [path for path in self.cluster_by if path != column]
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

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, PrimitiveType, StructType
    >>> fields = (Field("day", PrimitiveType("date")), Field("s", StructType()), Field("g", GeometryType()))
    >>> [column.path for column in cluster_columns(Schema(StructType(fields)))]
    ['g', 'day']
    """
    columns = []
    for path, field in schema.walk():
        try:
            Ordering.of([path], "hilbert", schema, partition_by=partition_by)
        except GeolakeError:
            continue
        is_geo = isinstance(field.type, GeometryType | GeographyType)
        columns.append(ClusterColumn(path, type_name(field.type), is_geo))
    return tuple(sorted(columns, key=lambda column: not column.is_geo))


def draft_for(columns: Sequence[ClusterColumn]) -> RewriteDraft:
    """The default: rows clustered by the first geo column.

    >>> draft_for([]).cluster_by
    ()
    """
    return RewriteDraft(tuple(column.path for column in columns if column.is_geo)[:1])
