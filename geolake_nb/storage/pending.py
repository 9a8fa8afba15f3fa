"""The storage of a table without a location yet: it is empty, and nothing can be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.errors import StorageError
from geolake_nb.storage.location import Location
from geolake_nb.storage.storage import Storage

if TYPE_CHECKING:
    import builtins

    from geolake_nb.storage.location import Entry

__all__ = ["pending"]


def pending(name: str) -> Storage:
    """A storage with the name of the table; its catalog assigns the location when the table is created.

    >>> pending("rest.ns.roads"), pending("rest.ns.roads").list("metadata")
    (Storage.at('rest.ns.roads'), [])
    >>> pending("rest.ns.roads").read("metadata/v1.metadata.json")
    Traceback (most recent call last):
    geolake_nb.errors.StorageError: rest.ns.roads: the catalog has not assigned a location to the table yet
    """
    return Storage(Location("catalog", "", name), _Pending(name))


class _Pending:
    """A backend without a location."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise StorageError("the catalog has not assigned a location to the table yet", where=self._name)

    def list(self, _prefix: str, _recursive: bool, _after: str = "") -> builtins.list[Entry]:
        return []

    def list_first(self, _prefix: str, _recursive: bool) -> tuple[builtins.list[Entry], bool]:
        return [], True

    def folders(self, _prefix: str) -> builtins.list[str]:
        return []

    link = new_file = iter_chunks = put_if_absent = read = read_range = remove = _refuse
    rename = atomic_replace = size = stat = tail = _refuse
