"""The collations that Spark 4.2 has, by the names that a table stores; a schema with any other name does not open."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["collation_names", "similar_spark_name", "spark_name"]

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
