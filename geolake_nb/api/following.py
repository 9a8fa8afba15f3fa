"""A table that moves to its newest version before each call: `gl.open(..., follow=True)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.api.table import Table
from geolake_nb.api.table_plans import TablePlans
from geolake_nb.api.table_views import TableViews

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.formats.base import TableSource
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["FollowingTable"]


class FollowingTable(Table):
    """A table at its newest version: each call first looks whether another writer has committed one.

    What a call returns stays at the version that it has read, such as an explanation or a plan.

    >>> import geolake_nb as gl
    >>> t = gl.open("roads", follow=True)
    >>> report = gl.open("roads").plan_repair().apply()
    >>> t.version, t.explain((5, 45, 12, 52)).version, t.newer_version
    (2, 2, None)
    """

    def __init__(self, snapshot: Snapshot, source: TableSource) -> None:
        self._at_hand = Table(snapshot, source)
        self._source = source

    @property
    def snapshot(self) -> Snapshot:  # type: ignore[override]
        """The newest version."""
        return self.now().snapshot

    def now(self) -> Table:
        """The newest version as a table that stays there: one call sees one version."""
        self._at_hand = self._at_hand.newest()
        return self._at_hand

    def __repr__(self) -> str:
        return f"{repr(self.now()).removesuffix(')')}, follow=True)"

    def __str__(self) -> str:
        return str(self.now())

    def refresh(self) -> Table:
        """Nothing has to be done: the table follows by itself."""
        return self


def _method(name: str) -> Callable[..., Any]:
    def call(self: FollowingTable, *given: Any, **options: Any) -> Any:
        return getattr(self.now(), name)(*given, **options)

    call.__name__, call.__doc__ = name, getattr(Table, name).__doc__
    return call


def _property(name: str) -> property:
    return property(lambda self: getattr(self.now(), name), doc=getattr(Table, name).__doc__)


for _class in (Table, TablePlans, TableViews):
    for _name, _member in vars(_class).items():
        # `newest` of a table that does not follow is what this class is made of.
        if not _name.startswith("_") and _name not in vars(FollowingTable):
            _is_call = callable(_member) and not hasattr(_member, "attrname")
            setattr(FollowingTable, _name, _method(_name) if _is_call else _property(_name))
