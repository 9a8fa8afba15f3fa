"""Names of cities as the people who live there write them, to see what a collation does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["names"]

# One line a name: the name, the place in English, the country, the script. They are chosen for what differs between
# collations: letters that languages put in different places (å ä ö ø, ch, ll, aa), ß and ss, i and İ, capitals,
# accents, and one umlaut that is written as a letter and a mark.
_NAMES = """
Zürich; Zurich; Switzerland; Latin
Zu\u0308rich; Zurich; Switzerland; Latin
ZÜRICH; Zurich; Switzerland; Latin
Zurich; Zurich; Switzerland; Latin
Zug; Zug; Switzerland; Latin
Genève; Geneva; Switzerland; Latin
Straßburg; Strasbourg; France; Latin
Strassburg; Strasbourg; France; Latin
Strasbourg; Strasbourg; France; Latin
Gießen; Giessen; Germany; Latin
Köln; Cologne; Germany; Latin
Koblenz; Koblenz; Germany; Latin
Öhringen; Öhringen; Germany; Latin
Offenburg; Offenburg; Germany; Latin
Ängelholm; Ängelholm; Sweden; Latin
Åmål; Åmål; Sweden; Latin
Örebro; Örebro; Sweden; Latin
Malmö; Malmö; Sweden; Latin
Ystad; Ystad; Sweden; Latin
Aalborg; Aalborg; Denmark; Latin
Aarhus; Aarhus; Denmark; Latin
Århus; Aarhus; Denmark; Latin
Ærøskøbing; Ærøskøbing; Denmark; Latin
København; Copenhagen; Denmark; Latin
Kolding; Kolding; Denmark; Latin
Ålesund; Ålesund; Norway; Latin
Ørsta; Ørsta; Norway; Latin
Oslo; Oslo; Norway; Latin
Jyväskylä; Jyväskylä; Finland; Latin
Reykjavík; Reykjavik; Iceland; Latin
Þorlákshöfn; Thorlakshofn; Iceland; Latin
Pärnu; Pärnu; Estonia; Latin
Võru; Võru; Estonia; Latin
Rīga; Riga; Latvia; Latin
Šiauliai; Šiauliai; Lithuania; Latin
Łódź; Lodz; Poland; Latin
Lublin; Lublin; Poland; Latin
Świdnica; Swidnica; Poland; Latin
Zamość; Zamosc; Poland; Latin
Żywiec; Zywiec; Poland; Latin
Cheb; Cheb; Czechia; Latin
Chrudim; Chrudim; Czechia; Latin
Hodonín; Hodonin; Czechia; Latin
Česká Lípa; Ceska Lipa; Czechia; Latin
Čakovec; Cakovec; Croatia; Latin
Đakovo; Djakovo; Croatia; Latin
Győr; Gyor; Hungary; Latin
Csongrád; Csongrad; Hungary; Latin
Cegléd; Cegled; Hungary; Latin
Iași; Iasi; Romania; Latin
İstanbul; Istanbul; Türkiye; Latin
İzmir; Izmir; Türkiye; Latin
Isparta; Isparta; Türkiye; Latin
Iğdır; Igdir; Türkiye; Latin
Çanakkale; Canakkale; Türkiye; Latin
Orléans; Orleans; France; Latin
Nîmes; Nimes; France; Latin
Évry; Evry; France; Latin
Besançon; Besancon; France; Latin
Llanes; Llanes; Spain; Latin
Lugo; Lugo; Spain; Latin
Chiclana de la Frontera; Chiclana; Spain; Latin
Cuenca; Cuenca; Spain; Latin
Cádiz; Cadiz; Spain; Latin
A Coruña; Corunna; Spain; Latin
Llandudno; Llandudno; Wales; Latin
Lampeter; Lampeter; Wales; Latin
São Paulo; Sao Paulo; Brazil; Latin
Belém; Belem; Brazil; Latin
Bogotá; Bogota; Colombia; Latin
Asunción; Asuncion; Paraguay; Latin
Québec; Quebec City; Canada; Latin
's-Hertogenbosch; Den Bosch; Netherlands; Latin
Hà Nội; Hanoi; Vietnam; Latin
Huế; Hue; Vietnam; Latin
Đà Nẵng; Da Nang; Vietnam; Latin
Москва; Moscow; Russia; Cyrillic
Орёл; Oryol; Russia; Cyrillic
Оренбург; Orenburg; Russia; Cyrillic
Київ; Kyiv; Ukraine; Cyrillic
Львів; Lviv; Ukraine; Cyrillic
Мінск; Minsk; Belarus; Cyrillic
София; Sofia; Bulgaria; Cyrillic
Београд; Belgrade; Serbia; Cyrillic
Скопје; Skopje; North Macedonia; Cyrillic
Алматы; Almaty; Kazakhstan; Cyrillic
Улаанбаатар; Ulaanbaatar; Mongolia; Cyrillic
Αθήνα; Athens; Greece; Greek
ΑΘΗΝΑ; Athens; Greece; Greek
Θεσσαλονίκη; Thessaloniki; Greece; Greek
Πάτρα; Patras; Greece; Greek
Երևան; Yerevan; Armenia; Armenian
თბილისი; Tbilisi; Georgia; Georgian
ბათუმი; Batumi; Georgia; Georgian
ירושלים; Jerusalem; Israel; Hebrew
חיפה; Haifa; Israel; Hebrew
القاهرة; Cairo; Egypt; Arabic
الرياض; Riyadh; Saudi Arabia; Arabic
بغداد; Baghdad; Iraq; Arabic
دمشق; Damascus; Syria; Arabic
بيروت; Beirut; Lebanon; Arabic
مراكش; Marrakesh; Morocco; Arabic
تهران; Tehran; Iran; Arabic
کراچی; Karachi; Pakistan; Arabic
މާލެ; Malé; Maldives; Thaana
मुंबई; Mumbai; India; Devanagari
दिल्ली; Delhi; India; Devanagari
काठमाडौं; Kathmandu; Nepal; Devanagari
ঢাকা; Dhaka; Bangladesh; Bengali
কলকাতা; Kolkata; India; Bengali
ਅੰਮ੍ਰਿਤਸਰ; Amritsar; India; Gurmukhi
અમદાવાદ; Ahmedabad; India; Gujarati
சென்னை; Chennai; India; Tamil
హైదరాబాద్; Hyderabad; India; Telugu
ಬೆಂಗಳೂರು; Bengaluru; India; Kannada
കൊച്ചി; Kochi; India; Malayalam
කොළඹ; Colombo; Sri Lanka; Sinhala
กรุงเทพมหานคร; Bangkok; Thailand; Thai
เชียงใหม่; Chiang Mai; Thailand; Thai
ชลบุรี; Chonburi; Thailand; Thai
ວຽງຈັນ; Vientiane; Laos; Lao
ភ្នំពេញ; Phnom Penh; Cambodia; Khmer
ရန်ကုန်; Yangon; Myanmar; Myanmar
ལྷ་ས; Lhasa; China; Tibetan
አዲስ አበባ; Addis Ababa; Ethiopia; Ethiopic
ᐃᖃᓗᐃᑦ; Iqaluit; Canada; Canadian Aboriginal
東京; Tokyo; Japan; Han
京都; Kyoto; Japan; Han
さいたま; Saitama; Japan; Hiragana
つくば; Tsukuba; Japan; Hiragana
北京; Beijing; China; Han
上海; Shanghai; China; Han
广州; Guangzhou; China; Han
台北; Taipei; Taiwan; Han
서울; Seoul; South Korea; Hangul
부산; Busan; South Korea; Hangul
평양; Pyongyang; North Korea; Hangul
"""  # noqa: RUF001 - a Turkish letter without its dot


def names() -> pa.Table:
    """Names of cities in 27 scripts, some in several spellings: `name`, `place` in English, `country`, `script`.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.names().schema.names
        ['name', 'place', 'country', 'script']
        >>> [row["name"] for row in gl.demo.names().to_pylist() if row["place"] == "Strasbourg"]
        ['Straßburg', 'Strassburg', 'Strasbourg']
    """
    import pyarrow as pa

    rows = [line.split("; ") for line in _NAMES.strip().splitlines()]
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("name", "place", "country", "script"), map(pa.array, columns), strict=True)))
