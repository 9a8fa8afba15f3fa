"""Which collated minima and maxima a Delta file has, and which of them a filter may use.

The functions here take and give the statistics of one file as the JSON object in its `add` action. They
never change their argument, and keep every key that they do not know. A column is the path of its names in
the statistics: physical names under column mapping.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from geolake_nb.errors import CollationError
from geolake_nb.model.collation import Collation
from geolake_nb.text.json_text import load_json

__all__ = [
    "COLLATIONS_DOMAIN",
    "CollationHints",
    "FilterRange",
    "StringRange",
    "WhyUnusable",
    "collated_range",
    "collations_in_stats",
    "range_for_filter",
    "with_collated_range",
    "without_collation",
]

COLLATIONS_DOMAIN = "collations"
"""The name of the domain whose metadata holds the hints."""

_COLLATED = "statsWithCollation"
_WRITE_VERSIONS = "writeVersions"
_SIDES = ("minValues", "maxValues")

# Delta's writers cut a long string, and mark a maximum so cut with one of these characters.
_CUT_MARKS = ("\x7f", "\ufffd", "\U0010ffff")


@dataclass(frozen=True, slots=True)
class CollationHints:
    """For which versions of a collation writers should make statistics: the domain metadata `collations`.

    >>> hints = CollationHints.parse('{"writeVersions": {"ICU.en_US": ["72", "73"]}}')
    >>> hints.versions_of(Collation.parse("icu.en_US"))
    ('72', '73')
    >>> CollationHints().versions_of(Collation.parse("icu.en_US"))
    ()
    """

    configuration: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The object as read, unknown keys included."""

    @classmethod
    def parse(cls, text: str) -> CollationHints:
        """The hints in the `configuration` of a `domainMetadata` action; the removed domain has an empty one.

        >>> CollationHints.parse("") == CollationHints()
        True
        """
        if not text.strip():
            return cls()
        what = "the domain metadata 'collations'"
        configuration = load_json(text, what=what, error=CollationError)
        if not isinstance(configuration, dict):
            raise CollationError(f"expected {what} to be a JSON object")
        hints = configuration.get(_WRITE_VERSIONS, {})
        if not isinstance(hints, dict):
            raise CollationError(f"expected {_WRITE_VERSIONS} in {what} to be a JSON object")
        for name, versions in hints.items():
            if not isinstance(versions, list) or not all(isinstance(version, str) for version in versions):
                raise CollationError(f"expected the versions of {name!r} in {what} to be a list of strings")
        return cls(configuration)

    def to_json(self) -> str:
        """The text for the `configuration` of a `domainMetadata` action.

        >>> CollationHints().adding(Collation.parse("icu.de.76.1")).to_json()
        '{"writeVersions":{"icu.de":["76.1"]}}'
        """
        return json.dumps(self.configuration, ensure_ascii=False, separators=(",", ":"))

    @property
    def collations(self) -> tuple[Collation, ...]:
        """Every collation and version that is hinted at; a key that is not an identifier is skipped.

        >>> [str(each) for each in CollationHints.parse('{"writeVersions": {"ICU.da": ["72"]}}').collations]
        ['icu.da.72']
        """
        hinted = [(_read(name), versions) for name, versions in self._hints.items()]
        named = [(known, versions) for known, versions in hinted if known is not None]
        return tuple(Collation(known.provider, known.name, each) for known, versions in named for each in versions)

    def versions_of(self, collation: Collation) -> tuple[str, ...]:
        """The versions that are wanted of this collation, whatever its own version."""
        wanted = collation.unversioned()
        return tuple(str(each.version) for each in self.collations if each.unversioned() == wanted)

    def adding(self, collation: Collation) -> CollationHints:
        """The hints with this version too; nothing else changes."""
        version = _version_of(collation)
        if version in self.versions_of(collation):
            return self
        hints = dict(self._hints)
        wanted = collation.unversioned()
        key = next((name for name in hints if _read(name) == wanted), str(wanted))
        hints[key] = [*hints.get(key, []), version]
        return CollationHints({**self.configuration, _WRITE_VERSIONS: hints})

    def removing(self, collation: Collation) -> CollationHints:
        """The hints without this version; a collation that has none left goes too.

        >>> CollationHints.parse('{"writeVersions": {"ICU.da": ["72"]}}').removing(
        ...     Collation.parse("icu.da.72")
        ... ).to_json()
        '{"writeVersions":{}}'
        """
        version, wanted = _version_of(collation), collation.unversioned()
        hints = {
            name: [each for each in versions if each != version] if _read(name) == wanted else versions
            for name, versions in self._hints.items()
        }
        left = {name: versions for name, versions in hints.items() if versions or _read(name) != wanted}
        return self if left == self._hints else CollationHints({**self.configuration, _WRITE_VERSIONS: left})

    def merged(self, other: CollationHints) -> CollationHints:
        """The hints of both; of any other key the other's value wins.

        >>> ours = CollationHints.parse('{"writeVersions": {"ICU.da": ["72"]}}')
        >>> ours.merged(CollationHints.parse('{"writeVersions": {"icu.da": ["73"]}, "next": 1}')).to_json()
        '{"writeVersions":{"ICU.da":["72","73"]},"next":1}'
        """
        whole = CollationHints({**self.configuration, **_without(other.configuration, _WRITE_VERSIONS)})
        for collation in other.collations:
            whole = whole.adding(collation)
        unread = {name: versions for name, versions in other._hints.items() if _read(name) is None}
        if not unread:
            return whole
        return CollationHints({**whole.configuration, _WRITE_VERSIONS: {**whole._hints, **unread}})

    @property
    def _hints(self) -> Mapping[str, list[str]]:
        hints: Mapping[str, list[str]] = self.configuration.get(_WRITE_VERSIONS, {})
        return hints


@dataclass(frozen=True, slots=True)
class StringRange:
    """The smallest and the largest string of a column in a file; a side that is not known is `None`."""

    low: str | None = None
    high: str | None = None


class WhyUnusable(enum.Enum):
    """Why the statistics of a file cannot be used for a comparison of strings: the file is kept."""

    NO_STATS = "the file has no minimum or maximum of this column"
    """Neither plain nor collated ones, or for a binary comparison no plain ones."""
    BINARY_ONLY = "the file has a binary minimum and maximum only"
    """They serve a comparison of the UTF-8 bytes and no other."""
    NO_COLLATED_STATS = "the file has collated statistics for other collations only"
    """The provider or the name is another one."""
    NO_VERSION = "the version of the filter's collation is not known"
    """There are statistics of that collation, but which of them the filter means is open."""
    VERSION_DIFFERS = "the file's statistics are of another version of the collation"
    """Two versions may order the same strings differently."""
    NO_COLLATOR = "no collator of that exact version is available"
    """The statistics are the right ones, yet nothing here can compare with them; Spark may."""
    MAYBE_CUT = "the file's collated minimum and maximum may be truncated"
    """A prefix is a valid bound in binary order only."""


@dataclass(frozen=True, slots=True)
class FilterRange:
    """What a comparison may use: a range, or the reason why there is none."""

    range: StringRange | None = None
    why: WhyUnusable | None = None


def collations_in_stats(stats: Mapping[str, Any], column: Sequence[str] | None = None) -> tuple[Collation, ...]:
    """The collations for which the file has statistics: any, or of one column.

    >>> stats = {"statsWithCollation": {"ICU.en_US.72": {"minValues": {"d": {"e": "a"}}}}}
    >>> collations_in_stats(stats, ("d", "e")), collations_in_stats(stats, ("d", "f"))
    ((Collation(provider='icu', name='en_US', version='72'),), ())
    """
    sections = _sections(stats)
    if column is not None:
        sections = ((known, section) for known, section in sections if _range(section, column) is not None)
    return tuple(dict.fromkeys(known for known, _ in sections))


def collated_range(stats: Mapping[str, Any], column: Sequence[str], collation: Collation) -> StringRange | None:
    """The minimum and maximum that the file holds under this very collation and version.

    >>> collated_range({"numRecords": 3}, ("name",), Collation.parse("icu.de.76.1")) is None
    True
    """
    ranges = (_range(section, column) for known, section in _sections(stats) if known == collation)
    return next((range_ for range_ in ranges if range_ is not None), None)


def with_collated_range(
    stats: Mapping[str, Any],
    column: Sequence[str],
    collation: Collation,
    range: StringRange,  # noqa: A002 - the field of FilterRange has the same name
    *,
    max_length: int | None = None,
) -> dict[str, Any]:
    """The statistics with this minimum and maximum under the collation; a side that is `None` is removed.

    The values are written whole. One that is longer than `max_length` is left out, never cut: a prefix of
    a string may sort after it.

    >>> names = StringRange("Ärger", "Zebra")
    >>> with_collated_range({"numRecords": 2}, ("name",), Collation.parse("icu.de.76.1"), names)
    ... # doctest: +NORMALIZE_WHITESPACE
    {'numRecords': 2, 'statsWithCollation': {'icu.de.76.1':
      {'minValues': {'name': 'Ärger'}, 'maxValues': {'name': 'Zebra'}}}}
    """
    if collation.is_default:
        raise CollationError(f"{collation} has no collated statistics", remedy="write minValues and maxValues")
    _version_of(collation)
    stored = stats.get(_COLLATED)
    sections = dict(stored) if isinstance(stored, Mapping) else {}
    key = next((name for name in sections if _read(name) == collation), str(collation))
    old = sections.get(key)
    section = dict(old) if isinstance(old, Mapping) else {}
    for side, value in zip(_SIDES, (range.low, range.high), strict=True):
        too_long = value is not None and max_length is not None and len(value) > max_length
        values = _placed(section.get(side), tuple(column), None if too_long else value)
        section = {**section, side: values} if values else _without(section, side)
    return _with_sections(stats, {**sections, key: section} if section else _without(sections, key))


def without_collation(stats: Mapping[str, Any], collation: Collation) -> dict[str, Any]:
    """The statistics without those of this collation and version.

    >>> stats = {"numRecords": 1, "statsWithCollation": {"ICU.de.72": {}}}
    >>> without_collation(stats, Collation.parse("icu.de.72"))
    {'numRecords': 1}
    """
    stored = stats.get(_COLLATED)
    if not isinstance(stored, Mapping):
        return dict(stats)
    return _with_sections(stats, {name: each for name, each in stored.items() if _read(name) != collation})


def range_for_filter(
    stats: Mapping[str, Any],
    column: Sequence[str],
    collation: Collation | None,
    *,
    collators: Collection[Collation] = (),
    prefix_length: int | None = None,
) -> FilterRange:
    """The minimum and maximum that a comparison under this collation may use, or why there are none.

    `None` or the default collation compares bytes. `collators` are the collations, with their versions,
    under which strings can be compared here. `prefix_length` is the length at which the writers of the file cut
    strings, 0 if they cut none: Delta writes 32 characters by default, and does not record it. A cut
    minimum looks like any other, so that without this length only the maximum is used, whose cut is marked.

    >>> stats = {"minValues": {"n": "A"}, "maxValues": {"n": "b"}}
    >>> range_for_filter(stats, ("n",), None).range
    StringRange(low='A', high='b')
    >>> range_for_filter(stats, ("n",), Collation.parse("icu.de.76.1")).why
    <WhyUnusable.BINARY_ONLY: 'the file has a binary minimum and maximum only'>
    """
    # Delta collations, Reader requirements: provider, name and version equal the filter's, or no skipping.
    plain = _range(stats, column)
    if collation is None or collation.is_default:
        return FilterRange(plain) if plain is not None else FilterRange(why=WhyUnusable.NO_STATS)
    present = collations_in_stats(stats, column)
    if not present:
        return FilterRange(why=WhyUnusable.NO_STATS if plain is None else WhyUnusable.BINARY_ONLY)
    if collation.unversioned() not in {each.unversioned() for each in present}:
        return FilterRange(why=WhyUnusable.NO_COLLATED_STATS)
    if collation.version is None:
        return FilterRange(why=WhyUnusable.NO_VERSION)
    if collation not in present:
        return FilterRange(why=WhyUnusable.VERSION_DIFFERS)
    if collation not in collators:
        return FilterRange(why=WhyUnusable.NO_COLLATOR)
    range_ = collated_range(stats, column, collation)
    whole = None if range_ is None else _surely_whole(range_, prefix_length)
    return FilterRange(whole) if whole is not None else FilterRange(why=WhyUnusable.MAYBE_CUT)


def _read(identifier: str) -> Collation | None:
    try:
        return Collation.parse(identifier)
    except CollationError:
        return None


def _version_of(collation: Collation) -> str:
    if collation.version is None:
        raise CollationError(
            f"{collation} has no version",
            remedy="statistics and hints name the version of the collator that made them",
        )
    return collation.version


def _sections(stats: Mapping[str, Any]) -> Iterator[tuple[Collation, Mapping[str, Any]]]:
    stored = stats.get(_COLLATED)
    for name, section in stored.items() if isinstance(stored, Mapping) else ():
        collation = _read(name)
        # Statistics without a version could be of any, so that no filter may use them.
        if collation is not None and collation.version is not None and isinstance(section, Mapping):
            yield collation, section


def _range(section: Mapping[str, Any], column: Sequence[str]) -> StringRange | None:
    low, high = (_value(section.get(side), column) for side in _SIDES)
    return None if low is None and high is None else StringRange(low, high)


def _value(values: Any, column: Sequence[str]) -> str | None:
    for name in column:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values if isinstance(values, str) else None


def _placed(values: Any, column: tuple[str, ...], value: str | None) -> dict[str, Any]:
    """The nested values with one of them set or taken out, and no empty objects on its way."""
    level = dict(values) if isinstance(values, Mapping) else {}
    name, *rest = column
    inner = _placed(level.get(name), tuple(rest), value) if rest else value
    return _without(level, name) if inner is None or inner == {} else {**level, name: inner}


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {each: value for each, value in mapping.items() if each != key}


def _with_sections(stats: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    return {**stats, _COLLATED: sections} if sections else _without(stats, _COLLATED)


def _surely_whole(range_: StringRange, prefix_length: int | None) -> StringRange | None:
    """The sides that cannot be truncated."""
    low = range_.low if range_.low is not None and _is_whole(range_.low, prefix_length) else None
    high = None if range_.high is not None and range_.high.endswith(_CUT_MARKS) else range_.high
    return None if low is None and high is None else StringRange(low, high)


def _is_whole(minimum: str, prefix_length: int | None) -> bool:
    # Writers count characters, UTF-16 units or bytes: by all of them the text is shorter than a prefix, or longer.
    if prefix_length is None:
        return minimum == ""
    return len(minimum.encode("utf-8", "surrogatepass")) < prefix_length or len(minimum) > prefix_length
