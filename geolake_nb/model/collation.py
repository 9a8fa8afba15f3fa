"""Which collation a string has: identifiers, and their place in a Delta schema.

Where the texts leave a choice:

- A provider that Spark knows (`icu`, `spark`) is stored in lower case, as Spark spells it: `ICU.en_US` and
  `icu.en_US` are one collation. Names and versions are compared as they are spelled; a name that differs
  in case costs a skipped file at most, never a row.
- The keys of `__COLLATIONS` hold logical names, also under column mapping: Spark and Delta Kernel make
  them from the name of the field. A key with the physical name is read as well, and written logical.
- An identifier in a schema that has no provider or no name (`UNICODE`) is kept as it is, with an empty provider: it is
  not a usable collation, and byte-order statistics do not describe the order of its strings.
- A key is matched as a whole, so a field name may contain dots.
- A key that matches no string stays where it is (Spark ignores it), unless it declares for another name what
  the field now declares for its own: a rename leaves that behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from geolake_nb.errors import CollationError
from geolake_nb.model.spark_collations import similar_spark_name, spark_name
from geolake_nb.model.types import DataType, Field, ListType, MapType, StringType, StructType

__all__ = [
    "COLLATIONS_KEY",
    "Collation",
    "attach_collations",
    "detach_collations",
    "stored_collations",
    "stray_collations",
]

COLLATIONS_KEY = "__COLLATIONS"
"""The key in a field's metadata that holds the collations of the strings below it."""

_SPARK_PROVIDERS = ("icu", "spark")


@dataclass(frozen=True, slots=True)
class Collation:
    """A rule for comparing strings, by its provider, its name there and, in statistics, its version.

    Two are the same rule only when all three parts are equal.

    >>> Collation.parse("ICU.en_US.72")
    Collation(provider='icu', name='en_US', version='72')
    >>> str(Collation("icu", "UNICODE_CI"))
    'icu.UNICODE_CI'
    """

    provider: str
    """Empty where a schema has an identifier that cannot be parsed, which is then the name."""
    name: str
    version: str | None = None

    def __post_init__(self) -> None:
        for part in (self.provider, self.name):
            if not part or "." in part:
                raise CollationError(
                    f"a collation has the provider {self.provider!r} and the name {self.name!r}",
                    remedy="both need a text without dots",
                )
        if self.version is not None and not self.version:
            raise CollationError("a collation has an empty version", remedy="give a version or None")
        if self.provider.lower() in _SPARK_PROVIDERS:
            object.__setattr__(self, "provider", self.provider.lower())

    @classmethod
    def parse(cls, text: str) -> Collation:
        """The collation that an identifier names; only the version may contain dots.

        >>> Collation.parse("spark.UTF8_LCASE.75.1")
        Collation(provider='spark', name='UTF8_LCASE', version='75.1')
        >>> Collation.parse("UNICODE")
        Traceback (most recent call last):
        geolake_nb.errors.CollationError: expected a collation identifier, got 'UNICODE'; write it like icu.UNICODE_CI
        """
        # Delta collations, Collation identifiers: dots are allowed in versions only.
        parts = text.split(".", 2)
        if len(parts) < 2 or not all(parts):
            raise CollationError(
                f"expected a collation identifier, got {text!r}",
                remedy="write it like icu.UNICODE_CI",
            )
        return cls(*parts)

    @classmethod
    def of_schema(cls, text: str) -> Collation:
        """The collation that a schema names; an invalid identifier is kept unchanged.

        >>> Collation.of_schema("UNICODE"), str(Collation.of_schema("UNICODE"))
        (Collation(provider='', name='UNICODE', version=None), 'UNICODE')
        >>> Collation.of_schema("UNICODE").opens_in_spark
        False
        """
        try:
            return cls.parse(text)
        except CollationError:
            collation = object.__new__(cls)
            for part, value in (("provider", ""), ("name", text), ("version", None)):
                object.__setattr__(collation, part, value)
            return collation

    def __str__(self) -> str:
        if not self.provider:
            return self.name
        return ".".join(part for part in (self.provider, self.name, self.version) if part is not None)

    @property
    def is_default(self) -> bool:
        """Whether this is the order of the UTF-8 bytes, which a schema never names and which has no versions.

        >>> Collation.parse("SPARK.UTF8_BINARY").is_default, Collation.parse("spark.UTF8_LCASE").is_default
        (True, False)
        """
        return self.provider == "spark" and self.name.upper() == "UTF8_BINARY"

    @property
    def opens_in_spark(self) -> bool:
        """Whether Spark 4.2 knows the provider and the name; it refuses the whole schema when it does not.

        A name counts in any case and under either provider, as in Spark.

        >>> Collation.parse("ICU.de").opens_in_spark, Collation.parse("glibc.de_DE").opens_in_spark
        (True, False)
        >>> Collation.parse("ICU.en_USA").opens_in_spark, Collation.parse("ICU.en_US").opens_in_spark
        (True, False)
        """
        return self.is_of_spark and spark_name(self.name) is not None

    @property
    def is_of_spark(self) -> bool:
        """Whether Spark knows the provider, whatever the name."""
        return self.provider in _SPARK_PROVIDERS

    @property
    def in_spark(self) -> str:
        """What to use instead of a collation that does not open in Spark, as the end of an error.

        >>> Collation.parse("ICU.en_US").in_spark, Collation.parse("glibc.de").in_spark
        ('use icu.en_USA', 'use one of the providers: icu, spark')
        """
        if not self.is_of_spark:
            return f"use one of the providers: {', '.join(_SPARK_PROVIDERS)}"
        similar = similar_spark_name(self.name)
        return "SELECT * FROM collations() lists Spark's names" if similar is None else f"use {self.provider}.{similar}"

    def unversioned(self) -> Collation:
        """The collation as a schema names it.

        >>> str(Collation.parse("icu.de.76.1").unversioned())
        'icu.de'
        """
        return self if self.version is None else Collation(self.provider, self.name)


def attach_collations(struct: StructType) -> StructType:
    """The same tree with each string's collation on its type, taken from `__COLLATIONS`; metadata stays.

    >>> name = Field("name", StringType(), metadata={"__COLLATIONS": {"name": "icu.UNICODE_CI"}})
    >>> attach_collations(StructType((name,))).fields[0].type.collation
    Collation(provider='icu', name='UNICODE_CI', version=None)
    >>> attach_collations(StructType())
    StructType(fields=())
    """
    return StructType(tuple(_attach_field(field, field.name) for field in struct.fields))


def detach_collations(struct: StructType) -> StructType:
    """The same tree with `__COLLATIONS` written from the types and plain string types, as a schema stores it.

    A string without a collation, or with the default one, gets no key. An identifier of the
    same collation keeps its spelling. A provider or a name that Spark does not know is kept where it was read
    and refused where it is new.

    >>> tags = Field("tags", ListType(Field("element", StringType(Collation("icu", "de", "76.1")))))
    >>> detach_collations(StructType((tags,))).fields[0].metadata
    {'__COLLATIONS': {'tags.element': 'icu.de'}}
    >>> detach_collations(StructType((Field("name", StringType()),))).fields[0].metadata
    {}
    """
    return StructType(tuple(_detach_field(field, field.name) for field in struct.fields))


def stored_collations(field: Field) -> tuple[tuple[str, Collation], ...]:
    """The collations in a field's `__COLLATIONS` as they are stored, versions included, each with its key.

    >>> stored_collations(Field("age", StringType(), metadata={"__COLLATIONS": {"age": "ICU.de.72", "x": "?"}}))
    (('age', Collation(provider='icu', name='de', version='72')),)
    """
    collations = []
    for key, value in _stored(field).items():
        try:
            collations.append((str(key), Collation.parse(str(value))))
        except CollationError:
            continue
    return tuple(collations)


def stray_collations(struct: StructType) -> tuple[tuple[str, str], ...]:
    """The keys in `__COLLATIONS` that match no string, each with the path of its field.

    >>> age = Field("age", StringType(), metadata={"__COLLATIONS": {"age.key": "icu.de"}})
    >>> stray_collations(StructType((age,)))
    (('age', 'age.key'),)
    """
    return tuple(_strays(struct, ()))


_CHILDREN = {ListType: ("element",), MapType: ("key", "value")}


def _stored(field: Field) -> dict[str, Any]:
    """What the field's `__COLLATIONS` holds; anything but an object holds nothing, as in Spark."""
    stored = field.metadata.get(COLLATIONS_KEY)
    return dict(stored) if isinstance(stored, Mapping) else {}


def _strings(data_type: DataType, suffix: str = "") -> Iterator[tuple[str, StringType]]:
    """The strings that have this field as their nearest one, with what follows its name in their key."""
    if isinstance(data_type, StringType):
        yield suffix, data_type
    # Delta collations: nested maps and arrays are encoded like the ids of IcebergCompatV2.
    for child in _CHILDREN.get(type(data_type), ()):
        yield from _strings(getattr(data_type, child).type, f"{suffix}.{child}")


def _identifier(stored: Mapping[str, Any], field: Field, suffix: str) -> str | None:
    for name in (field.name, field.physical_name):
        identifier = None if name is None else stored.get(name + suffix)
        if isinstance(identifier, str):
            return identifier
    return None


def _attach_field(field: Field, where: str) -> Field:
    stored = _stored(field)

    def collated(suffix: str, string: StringType) -> StringType:
        identifier = _identifier(stored, field, suffix)
        if identifier is None:
            return string
        collation = Collation.of_schema(identifier)
        # Delta collations: a schema forces no version on its readers, so a version found here means nothing.
        return StringType(None if collation.is_default else collation.unversioned())

    return replace(field, type=_rebuilt(field.type, "", where, collated, _attach_field))


def _detach_field(field: Field, where: str) -> Field:
    stored = _stored(field)
    spellings = _spellings(stored)
    written: dict[str, Any] = {}
    own: set[str] = set()
    for suffix, string in _strings(field.type):
        own |= {name + suffix for name in (field.name, field.physical_name) if name is not None}
        collation = None if string.collation is None else string.collation.unversioned()
        if collation is None or collation.is_default:
            continue
        if collation not in spellings and not collation.opens_in_spark:
            raise CollationError(
                f"Spark cannot open a schema with the collation {collation}",
                where=where + suffix,
                remedy=collation.in_spark,
            )
        written[field.name + suffix] = spellings.get(collation, str(collation))
    new = [(key.removeprefix(field.name), value) for key, value in written.items() if key not in stored]
    kept = {
        key: value
        for key, value in stored.items()
        if not (isinstance(value, str) and key in own)
        and not any(key.endswith(suffix) and value == renamed for suffix, renamed in new)
    }
    metadata = dict(field.metadata)
    if written or kept:
        metadata[COLLATIONS_KEY] = _in_order_of(stored, kept | written)
    elif stored:
        del metadata[COLLATIONS_KEY]
    plain = _rebuilt(field.type, "", where, lambda _suffix, _string: StringType(), _detach_field)
    return replace(field, type=plain, metadata=metadata)


def _spellings(stored: Mapping[str, Any]) -> dict[Collation, str]:
    """How the field spells each collation that it names."""
    spellings: dict[Collation, str] = {}
    for value in stored.values():
        collation = Collation.of_schema(str(value))
        plain = collation.unversioned()
        spellings.setdefault(plain, str(plain) if collation.version else str(value))
    return spellings


def _in_order_of(stored: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    ordered = {key: written[key] for key in stored if key in written}
    return ordered | dict(written)


def _rebuilt(
    data_type: DataType,
    suffix: str,
    where: str,
    on_string: Callable[[str, StringType], StringType],
    on_field: Callable[[Field, str], Field],
) -> DataType:
    """The type with its own strings and the fields of its nearest structs replaced."""
    if isinstance(data_type, StringType):
        return on_string(suffix, data_type)
    if isinstance(data_type, StructType):
        path = where + suffix
        return StructType(tuple(on_field(field, f"{path}.{field.name}") for field in data_type.fields))

    def child(field: Field, name: str) -> Field:
        return replace(field, type=_rebuilt(field.type, f"{suffix}.{name}", where, on_string, on_field))

    if isinstance(data_type, ListType):
        return ListType(child(data_type.element, "element"))
    if isinstance(data_type, MapType):
        return MapType(child(data_type.key, "key"), child(data_type.value, "value"))
    return data_type


def _strays(data_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            here = (*path, field.name)
            names = [name for name in (field.name, field.physical_name) if name is not None]
            matched = {name + suffix for suffix, _ in _strings(field.type) for name in names}
            yield from ((".".join(here), key) for key in _stored(field) if key not in matched)
            yield from _strays(field.type, here)
    for name in _CHILDREN.get(type(data_type), ()):
        yield from _strays(getattr(data_type, name).type, (*path, name))
