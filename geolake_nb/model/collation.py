"""Which collation a string has: identifiers, their place in a Delta schema, and the names that Spark has.

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
from functools import lru_cache
from typing import Any

from geolake_nb.errors import CollationError
from geolake_nb.model.types import DataType, Field, ListType, MapType, StringType, StructType

__all__ = [
    "COLLATIONS_KEY",
    "Collation",
    "attach_collations",
    "collation_names",
    "detach_collations",
    "similar_spark_name",
    "spark_name",
    "stored_collations",
    "stray_collations",
]

# Spark, ICU-collations-map: the locales of its ICU collations; the same on every machine.
_LOCALES = """
    af am ar ar_SAU as az be bg blo bn bo br bs bs_Cyrl ca ceb chr cs cy da de de_AUT dsb dz ee el en en_USA
    eo es et fa fa_AFG ff ff_Adlm fi fil fo fr fr_CAN fy ga gl gu ha haw he he_ISR hi hr hsb hu hy id id_IDN
    ig is it ja ka kk kk_Arab kl km kn ko kok ku ky lb lij lkt ln lo lt lv mk ml mn mr ms mt my nb nb_NOR ne
    nl nn no nso om or pa pa_Guru pa_Guru_IND pl ps pt ro ru sa se si sk sl smn sq sr sr_Cyrl sr_Cyrl_BIH
    sr_Cyrl_MNE sr_Cyrl_SRB sr_Latn sr_Latn_BIH sr_Latn_SRB st sv sw ta te th tk tn to tr ug uk ur uz vi wae
    wo xh yi yo zh zh_Hans zh_Hans_CHN zh_Hans_SGP zh_Hant zh_Hant_HKG zh_Hant_MAC zh_Hant_TWN zu
"""
_SENSITIVITIES = ("", "_AI", "_CI", "_CI_AI")
"""Nothing is case and accent sensitive."""
_BINARY = {"UTF8_BINARY": "UTF8_BINARY", "UTF8_LCASE": "UTF8_LCASE"}
_TRIM = "RTRIM"
# What may follow a locale, each group once and in any order; the first of a group is the default and is not written.
_SPECIFIERS = (("CS", "CI"), ("AS", "AI"), ("", _TRIM))


def collation_names() -> list[str]:
    """The identifiers, such as `icu.de_CI`, those of no language first, without those that ignore spaces at the end.

    >>> names = collation_names()
    >>> names[:3], "icu.de_CI_AI" in names
    (['spark.UTF8_LCASE', 'icu.UNICODE', 'icu.UNICODE_AI'], True)
    """
    return ["spark.UTF8_LCASE", *(f"icu.{name}{end}" for name in _locales().values() for end in _SENSITIVITIES)]


def spark_name(name: str) -> str | None:
    """A collation's name without its provider as Spark spells it; `None` where Spark 4.2 has no such collation.

    Spark takes a name in any case, and what follows the locale in any order.

    >>> spark_name("unicode_ci"), spark_name("de_RTRIM_AI_CI"), spark_name("en_USA_CS")
    ('UNICODE_CI', 'de_CI_AI_RTRIM', 'en_USA')
    >>> spark_name("en_US") is None, spark_name("de_CI_CI") is None
    (True, True)
    """
    locale, words = _split(name.upper().split("_"))
    if locale is None:
        return None
    chosen = []
    for group in _SPECIFIERS if locale not in _BINARY.values() else _SPECIFIERS[2:]:
        given = [word for word in words if word and word in group]
        if len(given) > 1:
            return None
        chosen += [word for word in given if word != group[0]]
        words = [word for word in words if word not in given]
    return None if words else "_".join([locale, *chosen])


def similar_spark_name(name: str) -> str | None:
    """The name in Spark of the same language and, where Spark has it, region; `None` where there is none.

    >>> similar_spark_name("en_US"), similar_spark_name("de_DE_CI"), similar_spark_name("tlh")
    ('en_USA', 'de_CI', None)
    """
    language, *rest = name.upper().split("_")
    specifiers = {word for group in _SPECIFIERS for word in group}
    ends = [word for word in rest if word in specifiers]
    regions = [word for word in rest if word not in specifiers]
    # ISO 3166 has two letters for a country, Spark writes its three: mostly the same two come first.
    longer = [key for key in _locales() if regions and key.startswith(f"{language}_{'_'.join(regions)}")]
    return spark_name("_".join([longer[0] if len(longer) == 1 else language, *ends]))


def _split(words: list[str]) -> tuple[str | None, list[str]]:
    """The locale at the start of a name, as Spark spells it, and what follows it."""
    for end in range(len(words), 0, -1):
        start = "_".join(words[:end])
        locale = _BINARY.get(start) or _locales().get(start)
        if locale is not None:
            return locale, words[end:]
    return None, words


@lru_cache(maxsize=1)
def _locales() -> dict[str, str]:
    return {name.upper(): name for name in ("UNICODE", *_LOCALES.split())}


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
