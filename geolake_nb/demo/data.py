"""The data sets as Arrow tables, names of cities, and tables as engines write them, made on the spot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import AlreadyThereError, GeolakeError, MissingDependencyError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from geolake_nb.model.collation import Collation

__all__ = ["airports", "airports_delta", "countries", "earthquakes", "names", "older_icu", "storms", "trips"]


def airports() -> pa.Table:
    """Airports and airfields of the whole world: ICAO code, elevation in feet, WKB points of longitude and latitude.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.airports().schema.names
        ['code', 'name', 'city', 'country', 'elevation', 'location']
    """
    return _shipped("airports")


def countries() -> pa.Table:
    """Countries with their outlines, coarse: WKB polygons that are cut at the antimeridian.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.countries().schema.names
        ['name', 'continent', 'population', 'shape']
    """
    return _shipped("countries")


def earthquakes() -> pa.Table:
    """Earthquakes of one week, 31 January to 7 February 2018: depth in kilometres, WKB points.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.earthquakes().schema.names
        ['place', 'magnitude', 'time', 'depth', 'location']
    """
    return _shipped("earthquakes")


def storms() -> pa.Table:
    """Tracks of the tropical storms of 2010 to 2024: WKB lines with M, the hours since the storm began.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.storms().schema.names
        ['storm', 'season', 'basin', 'began', 'wind', 'track']
    """
    return _shipped("storms")


def _shipped(name: str) -> pa.Table:
    import pyarrow.parquet as pq

    with resources.as_file(resources.files("geolake_nb.demo") / f"{name}.parquet") as path:
        return pq.read_table(path)


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


_TOOL = "spatialbench-cli"


def trips(folder: str | os.PathLike[str], *, scale: float = 0.1) -> str:
    """Four Parquet files of made-up taxi trips, 6 million for a scale of 1, without geo metadata.

    Pick-up and drop-off are WKB points in plain binary columns. The same scale gives the same trips.

    Args:
        folder: where a folder for the trips is created; existing trips are not generated again.
        scale: how many trips, in units of 6 million.

    Returns:
        The folder of the files.

    Raises:
        MissingDependencyError: spatialbench-cli is not installed.
        GeolakeError: a scale that is not above 0, or the tool has failed.

    Example:
        >>> gl.demo.trips("/tmp", scale=0)
        Traceback (most recent call last):
        geolake_nb.errors.GeolakeError: scale is 0; give a number above it, such as 0.1 for 600,000 trips
    """
    if not scale > 0:
        raise GeolakeError(f"scale is {scale}", remedy="give a number above it, such as 0.1 for 600,000 trips")
    made = Path(folder) / f"trips-{scale:g}"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        # A run that is broken off leaves nothing that a later one would take for all of it.
        with tempfile.TemporaryDirectory(dir=made.parent, prefix=".trips-") as unfinished:
            _make(unfinished, scale)
            (Path(unfinished) / "trip").rename(made)
    return str(made)


def _make(folder: str, scale: float) -> None:
    tool = shutil.which(_TOOL) or shutil.which(_TOOL, path=str(Path(sys.executable).parent))
    if tool is None:
        raise MissingDependencyError(f"{_TOOL} is not installed", remedy=f"run pip install {_TOOL}")
    command = [tool, "--scale-factor", str(scale), "--tables", "trip", "--parts", "4", "--output-dir", folder]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        reason = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
        raise GeolakeError(f"the trips could not be generated: {reason[:300]}", where=folder)


# Marks the first commit, so that only tables of this function are replaced.
_MARK = "demo table of geolake_nb"


def airports_delta(folder: str | os.PathLike[str], *, spark: SparkSession | None = None, files: int = 96) -> str:
    """A Delta table of the airports that Spark writes: a geometry column, no geo bounds, files in no spatial order.

    Each file holds airports of the whole world, as a load by key leaves them.

    Args:
        folder: where the table is written; an earlier table of this function there is replaced.
        spark: the session that writes; by default the running one, else a new local one.
        files: how many files the table has.

    Returns:
        The folder.

    Raises:
        AlreadyThereError: the folder has other files.

    Example:
        >>> gl.demo.airports_delta("parcels")
        Traceback (most recent call last):
        geolake_nb.errors.AlreadyThereError: /.../parcels: the folder has other files; ...
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

    from geolake_nb.spark.session import session_for

    path = Path(folder).absolute()
    _make_room(path)
    frame = session_for(spark).createDataFrame(airports())
    frame = frame.withColumn("location", F.st_setsrid(F.st_geomfromwkb("location"), 4326))
    # By the hash of the code: the same files on every machine, whatever its cores.
    frame.repartition(files, "code").write.format("delta").option("userMetadata", _MARK).save(str(path))
    return os.fspath(folder)


def _make_room(path: Path) -> None:
    if not path.exists() or not any(path.iterdir()):
        return
    first = path / "_delta_log" / "00000000000000000000.json"
    if not first.exists() or _MARK not in first.read_text():
        raise AlreadyThereError("the folder has other files", where=str(path), remedy="choose an empty folder")
    shutil.rmtree(path)


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
