"""The `add` action of a file with other collated statistics, everything else byte for byte."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import JsonError
from geolake_nb.model.collation_stats import StringRange, collated_range, collations_in_stats, with_collated_range
from geolake_nb.text.json_splice import edited, member

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from geolake_nb.model.collation import Collation
    from geolake_nb.scan.string_scan import CollatedString
    from geolake_nb.text.json_splice import JsonPath

__all__ = ["Ranges", "StatsEdit", "collated_add", "lacks"]

Ranges = dict[tuple[str, ...], tuple[str | None, str | None]]
"""Of a file: the minimum and maximum string of columns, by their logical path."""

_COLLATED = "statsWithCollation"
_Physical = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatsEdit:
    """The changes to the collated statistics of every file."""

    columns: tuple[CollatedString, ...] = ()
    """Those to compute statistics for."""
    versions: tuple[tuple[Collation, str], ...] = ()
    """The version that they are computed by, for each collation of the columns."""
    unused: frozenset[Collation] = frozenset()
    """Collations that no column has any more: their statistics are removed, of every version."""
    dropped: frozenset[tuple[Collation, _Physical]] = frozenset()
    """Columns that no longer have a collation which others have: its statistics of the column are removed."""
    only_newest: bool = False
    """Whether statistics of other versions of the columns' collations are removed."""

    def version_of(self, collation: Collation) -> Collation:
        """The collation with the version that statistics are computed by."""
        version = next(version for known, version in self.versions if known == collation)
        return type(collation)(collation.provider, collation.name, version)


def collated_add(add: str, edit: StatsEdit, ranges: Ranges, *, data_change: bool = False) -> str | None:
    """The updated `add` action of a file, `None` if nothing changes or its statistics cannot be edited.

    `add` is the JSON of the object inside the action, `ranges` what was found in the file: a range that it has
    already under the same version is left as it is.

    >>> from geolake_nb.model.collation import Collation
    >>> from geolake_nb.scan.string_scan import CollatedString
    >>> de = Collation("icu", "de")
    >>> edit = StatsEdit((CollatedString(("n",), ("n",), None, de),), ((de, "78.3"),))
    >>> made = collated_add('{"path":"a","dataChange":true,"stats":"{}"}', edit, {("n",): ("ä", "Z")})
    >>> json.loads(json.loads(made)["add"]["stats"])
    {'statsWithCollation': {'icu.de.78.3': {'minValues': {'n': 'ä'}, 'maxValues': {'n': 'Z'}}}}
    >>> collated_add('{"path":"a","dataChange":true}', edit, {}) is None
    True
    """
    before = _stats(add)
    try:
        stored = _stored(before)
        after = _edited(before, stored, _sections(stored, edit, ranges), wide=_has_vector(add) and bool(ranges))
    except JsonError:
        # What is not a JSON object, or has a duplicate key, is ambiguous: it is left alone.
        return None
    if after == before:
        return None
    new = edited(add, {("stats",): _text(after), ("dataChange",): json.dumps(data_change)})
    return f'{{"add":{new}}}'


def lacks(add: str, edit: StatsEdit) -> bool:
    """Whether the file lacks the range of one of the columns under the wanted version.

    >>> lacks('{"path":"a"}', StatsEdit())
    False
    """
    try:
        stats = {_COLLATED: _stored(_stats(add))}
    except JsonError:
        return False
    return any(
        collated_range(stats, column.physical, edit.version_of(column.collation)) is None for column in edit.columns
    )


def _stats(add: str) -> str:
    text = member(add, ("stats",))
    stored = None if text is None else json.loads(text)
    return stored if isinstance(stored, str) and stored.strip() else "{}"


def _stored(stats: str) -> Mapping[str, Any]:
    text = member(stats, (_COLLATED,)) if _COLLATED in stats else None
    value = None if text is None else json.loads(text)
    return value if isinstance(value, dict) else {}


def _sections(stored: Mapping[str, Any], edit: StatsEdit, ranges: Ranges) -> Mapping[str, Any]:
    """The updated collated statistics."""
    stats: dict[str, Any] = {_COLLATED: stored}
    wanted = {edit.version_of(string.collation) for string in edit.columns}
    for present in collations_in_stats(stats):
        plain = present.unversioned()
        old = edit.only_newest and present not in wanted and plain in {version.unversioned() for version in wanted}
        if plain in edit.unused or old:
            stats[_COLLATED] = _without(stats[_COLLATED], {present})
        for collation, column in edit.dropped:
            if plain == collation:
                stats = with_collated_range(stats, column, present, StringRange())
                stats.setdefault(_COLLATED, {})
    for string in edit.columns:
        collation = edit.version_of(string.collation)
        range_ = ranges.get(string.path)
        if range_ is not None and range_ != (None, None) and collated_range(stats, string.physical, collation) is None:
            stats = with_collated_range(stats, string.physical, collation, StringRange(*range_))
    sections: Mapping[str, Any] = stats.get(_COLLATED, {})
    return sections


def _without(sections: Mapping[str, Any], gone: Collection[Collation]) -> dict[str, Any]:
    return {
        name: section
        for name, section in sections.items()
        if not set(collations_in_stats({_COLLATED: {name: section}})) & set(gone)
    }


def _edited(before: str, stored: Mapping[str, Any], wanted: Mapping[str, Any], *, wide: bool) -> str:
    """The statistics with those sections; the ones that are as before keep their text."""
    if wanted == stored:
        return before
    changes: dict[JsonPath, str | None] = {}
    if wanted:
        changes = {(_COLLATED, name): None for name in stored if name not in wanted}
        changes |= {
            (_COLLATED, name): json.dumps(section, ensure_ascii=False, separators=(",", ":"))
            for name, section in wanted.items()
            if stored.get(name) != section
        }
    else:
        changes[_COLLATED,] = None
    if wide:
        # Delta, Per-file statistics: a range that counts deleted rows too is not tight.
        changes["tightBounds",] = "false"
    return edited(before, changes)


def _has_vector(add: str) -> bool:
    return member(add, ("deletionVector",)) not in (None, "null")


def _text(stats: str) -> str:
    try:
        stats.encode()
    except UnicodeEncodeError:  # half of a surrogate pair can be in a log as an escape only
        return json.dumps(stats)
    return json.dumps(stats, ensure_ascii=False)
