"""The collations that Spark offers, by the names that a table stores: for completion where no session runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["collation_names", "found_names"]

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


def collation_names() -> list[str]:
    """The identifiers, such as `icu.de_CI`, those of no language first.

    >>> names = collation_names()
    >>> names[:3], "icu.de_CI_AI" in names
    (['spark.UTF8_LCASE', 'icu.UNICODE', 'icu.UNICODE_AI'], True)
    """
    return [
        "spark.UTF8_LCASE",
        *(f"icu.{name}{end}" for name in ("UNICODE", *_LOCALES.split()) for end in _SENSITIVITIES),
    ]


def found_names(names: Iterable[str], text: str) -> list[str]:
    """The names that have all words of a text, those first in which a part begins with the first word.

    >>> found_names(collation_names(), "de ci")[:2], found_names(["icu.de"], "fr")
    (['icu.de_CI', 'icu.de_CI_AI'], [])
    >>> found_names(collation_names(), "de_ci")[-1]
    'icu.UNICODE_CI_AI'
    """
    words = text.casefold().split()
    found = [name for name in names if all(word in name.casefold() for word in words)]
    if not words:
        return found
    return sorted(found, key=lambda name: f"_{words[0]}" not in f"_{name.casefold().replace('.', '_')}")
