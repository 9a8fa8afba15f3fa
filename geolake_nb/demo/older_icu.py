"""Collated statistics as an engine with an older ICU writes them."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from geolake_nb.model.collation import Collation

__all__ = ["older_icu"]

_SECTIONS = "statsWithCollation"


def older_icu(path: str | os.PathLike[str], *, version: str = "77.1.0.0") -> int:
    """Relabel the collated statistics of a Delta table under an older version of ICU, and commit that.

    It simulates an engine with an older ICU. The smallest and greatest strings stay as they are, so it is meant for
    the names of this package, which both versions sort alike.

    Args:
        path: a Delta table.
        version: the version of ICU that the statistics are labelled with.

    Returns:
        The version that was committed.

    Raises:
        OpenError: the path has no table.

    Example:
        >>> gl.demo.older_icu("roads")  # a table without collations: its files stay as they are
        2
    """
    from geolake_nb.api.opening import open as open_table
    from geolake_nb.formats.delta.collate import hints_action
    from geolake_nb.formats.delta.commit import DeltaCommit, commit
    from geolake_nb.formats.delta.format import collation_hints
    from geolake_nb.formats.delta.raw_actions import raw_adds
    from geolake_nb.model.collation_stats import CollationHints
    from geolake_nb.storage.storage import Storage

    snapshot = open_table(path).snapshot
    storage = Storage.at(snapshot.location)
    hints = CollationHints()
    for collation in collation_hints(snapshot).collations:
        hints = hints.adding(_at(collation, version))
    actions = [hints_action(hints)]
    for row in raw_adds(storage, snapshot.details.segment).to_pylist():
        add: dict[str, Any] = json.loads(row["add"])
        stats = json.loads(add["stats"])
        stats[_SECTIONS] = {_renamed(name, version): section for name, section in stats.get(_SECTIONS, {}).items()}
        text = json.dumps(stats, ensure_ascii=False)
        actions.append(json.dumps({"add": {**add, "stats": text, "dataChange": False}}, ensure_ascii=False))
    base = int(snapshot.version or 0)
    change = DeltaCommit(base, "COMPUTE STATS", {"icu": version}, actions, str(uuid.uuid4()))
    return commit(storage, change).version


def _renamed(identifier: str, version: str) -> str:
    from geolake_nb.model.collation import Collation

    return str(_at(Collation.parse(identifier), version))


def _at(collation: Collation, version: str) -> Collation:
    return type(collation)(collation.provider, collation.name, version)
