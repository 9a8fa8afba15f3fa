"""What `enable` puts into PyIceberg, and what `disable` takes out again."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import MissingDependencyError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TESTED_VERSIONS", "Patch", "disable", "enable", "enabled", "is_enabled", "require_pyiceberg"]

TESTED_VERSIONS = ("0.12.0",)
"""The releases of PyIceberg that the bridge was tested with."""

_ABSENT = object()
_lock = threading.Lock()
_undo: list[Callable[[], None]] = []


@dataclass(frozen=True, slots=True)
class Patch:
    """A new value for an attribute of a module or a class of PyIceberg."""

    owner: Any
    name: str
    value: Any

    def apply(self) -> Callable[[], None]:
        """Set the attribute; the answer sets it back."""
        before = vars(self.owner).get(self.name, _ABSENT)
        setattr(self.owner, self.name, self.value)

        def undo() -> None:
            if before is _ABSENT:
                delattr(self.owner, self.name)
            else:
                setattr(self.owner, self.name, before)

        return undo


def enable() -> None:
    """Teach PyIceberg the geo types, predicates, bounds and tables of version 3, in this process.

    Tables of versions 1 and 2 are read and written as before. Calling it again does nothing.

    Raises:
        MissingDependencyError: PyIceberg is not installed.
        UnsupportedTableError: a release of PyIceberg that this was not tested with.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.enable()
        >>> geo.is_enabled()
        True
        >>> geo.disable()
        >>> geo.is_enabled()
        False
    """
    require_pyiceberg()
    with _lock:
        if _undo:
            return
        try:
            _undo.extend(patch() for patch in _patches())
        except BaseException:
            _take_back()
            raise


def disable() -> None:
    """Take out what `enable` put into PyIceberg. Calling it again does nothing.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.disable()
    """
    with _lock:
        _take_back()


def is_enabled() -> bool:
    """Whether `enable` is in effect.

    Returns:
        True between `enable` and `disable`.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> geo.is_enabled()
        False
    """
    return bool(_undo)


@contextlib.contextmanager
def enabled() -> Iterator[None]:
    """The bridge for the length of a block; one that is in effect stays so afterwards."""
    before = is_enabled()
    enable()
    try:
        yield
    finally:
        if not before:
            disable()


def require_pyiceberg() -> None:
    """Raise unless a release of PyIceberg is installed that the bridge was tested with."""
    try:
        version = metadata.version("pyiceberg")
    except metadata.PackageNotFoundError:
        raise MissingDependencyError(
            "PyIceberg is not installed", remedy="run: pip install 'geolake-nb[pyiceberg]'"
        ) from None
    if version not in TESTED_VERSIONS:
        raise UnsupportedTableError(
            f"the bridge was not tested with PyIceberg {version}",
            remedy=f"install one of: {', '.join(TESTED_VERSIONS)}",
        )


def _take_back() -> None:
    while _undo:
        _undo.pop()()


def _patches() -> Iterator[Callable[[], Callable[[], None]]]:
    """What applies each change, and returns what reverts it."""
    from geolake_nb.pyiceberg import arrow_columns, lineage, manifests, type_text, visitors, write_metrics

    for module in (type_text, arrow_columns, visitors, write_metrics, manifests, lineage):
        for patch in module.patches():
            yield patch.apply if isinstance(patch, Patch) else patch
