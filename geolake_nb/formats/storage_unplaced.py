"""The storage of a table that its catalog has not placed yet: there is nothing, and nothing can be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.errors import StorageError
from geolake_nb.formats.storage import Storage
from geolake_nb.formats.storage_place import Place

if TYPE_CHECKING:
    import builtins

    from geolake_nb.formats.storage_place import Entry

__all__ = ["unplaced"]


def unplaced(name: str) -> Storage:
    """A storage that goes by the name of the table; its catalog says where it is when the table is made.

    >>> unplaced("rest.ns.roads"), unplaced("rest.ns.roads").list("metadata")
    (Storage.at('rest.ns.roads'), [])
    >>> unplaced("rest.ns.roads").read("metadata/v1.metadata.json")
    Traceback (most recent call last):
    geolake_nb.errors.StorageError: rest.ns.roads: the catalog has not yet said where the table lies
    """
    return Storage(Place("catalog", "", name), _Unplaced(name))


class _Unplaced:
    """A backend without a place."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise StorageError("the catalog has not yet said where the table lies", where=self._name)

    def list(self, _prefix: str, _recursive: bool, _after: str = "") -> builtins.list[Entry]:
        return []

    def list_first(self, _prefix: str, _recursive: bool) -> tuple[builtins.list[Entry], bool]:
        return [], True

    def folders(self, _prefix: str) -> builtins.list[str]:
        return []

    link = new_file = pieces = put_if_absent = read = read_range = remove = _refuse
    rename = replaced_file = size = stat = tail = _refuse
