"""Coordinate reference systems as tables name them, and when two of them are the same."""

from __future__ import annotations

import contextlib
import enum
import functools
import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from geolake_nb.errors import CrsError
from geolake_nb.model.box import Box
from geolake_nb.model.crs_danger import MAX_MEMBERS, ensemble_members, names_a_file
from geolake_nb.text.json_text import check_depth, load_json
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyproj

__all__ = ["CRS84", "UNKNOWN_CRS", "Crs", "CrsForm", "CrsLike"]

MAX_TEXT = 100_000
"""Characters of a definition; the longest one of PROJ's registries has some ten thousand, indented."""

_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,63}):([A-Za-z0-9_.-]{1,64})")
_SRID = re.compile(r"srid:([0-9]{1,10})", re.IGNORECASE)
_PROPERTY = re.compile(r"projjson:(\S(?:.*\S)?)", re.IGNORECASE)
_WKT = re.compile(r"[A-Za-z][A-Za-z0-9_]*\s*[\[(]")
_HALF_CHARACTER = re.compile("[\\ud800-\\udfff]")  # half a surrogate pair has no UTF-8
# OGC 07-092r3, URNs of definitions; OGC 09-048r5, their URLs.
_OGC_NAME = re.compile(
    r"urn:(?:x-)?ogc:def:crs:([A-Za-z0-9_]+):[A-Za-z0-9_.-]*:([A-Za-z0-9_.-]+)"
    r"|https?://(?:www\.)?opengis\.net/def/crs/([A-Za-z0-9_]+)/[A-Za-z0-9_.-]+/([A-Za-z0-9_.-]+)/?",
    re.IGNORECASE,
)
# GDAL, OGRSpatialReference::SetWellKnownGeogCS.
_WELL_KNOWN = {
    "CRS27": "OGC:CRS27",
    "CRS83": "OGC:CRS83",
    "CRS84": "OGC:CRS84",
    "NAD27": "EPSG:4267",
    "NAD83": "EPSG:4269",
    "WGS72": "EPSG:4322",
    "WGS84": "EPSG:4326",
}

# Stored coordinates are x, y = longitude, latitude whatever the axis order in the registry, so that
# each of these pairs names one system here.
_SAME_WITH_X_FIRST = {"EPSG:4326": "OGC:CRS84", "EPSG:4269": "OGC:CRS83", "EPSG:4267": "OGC:CRS27"}


class CrsForm(enum.Enum):
    """How a text names its coordinate reference system."""

    AUTHORITY = "authority"
    """A registry and a code in it: `EPSG:3857`."""
    SRID = "srid"
    """A number, of the EPSG registry where that has it: `srid:3857`."""
    ALIAS = "alias"
    """Another name for a code of a registry: `urn:ogc:def:crs:EPSG::3857`, an OGC URL, `WGS84`."""
    PROPERTY = "property"
    """A property of the table or file that holds PROJJSON: `projjson:my_crs`."""
    PROJJSON = "projjson"
    """The PROJJSON itself."""
    WKT = "wkt"
    """The well-known text of the system itself."""
    UNKNOWN = "unknown"
    """`SRID:0`: coordinates on an unspecified plane."""
    OTHER = "other"
    """Any other text. It is kept unchanged, and cannot be resolved: `my local grid`."""


@runtime_checkable
class CrsLike(Protocol):
    """The interface of a CRS of another package, such as `pyproj.CRS`."""

    def to_json_dict(self) -> dict[str, Any]:
        """The definition as PROJJSON."""

    def to_wkt(self) -> str:
        """The definition as well-known text."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Crs:
    """A coordinate reference system by the text that names it; `text` is written back unchanged.

    `==` compares names: the case of an authority, `srid:4326` for `EPSG:4326`, and the order of the axes
    (`EPSG:4326` and `OGC:CRS84` both store x, y here) make no difference. `same_as` compares what they mean. Any text
    is taken, because formats allow any; what cannot be resolved is an error when coordinates are to be transformed.

    >>> Crs("EPSG:4326") == Crs("srid:4326") == Crs("OGC:CRS84") == Crs("urn:ogc:def:crs:EPSG::4326") == Crs("WGS84")
    True
    >>> Crs("my local grid").text, Crs("srid:999999") == Crs("EPSG:999999")
    ('my local grid', False)
    >>> Crs("epsg:3857").text
    'epsg:3857'
    >>> Crs("")
    Traceback (most recent call last):
    geolake_nb.errors.CrsError: a CRS is empty; give one such as OGC:CRS84
    """

    text: str
    resolved: str | None = None
    """What the property of a `projjson:<property>` text holds, when it was found."""
    form: CrsForm = field(init=False)
    _key: str = field(init=False)

    def __post_init__(self) -> None:
        text = self.text.strip()
        if not text:
            raise CrsError("a CRS is empty", remedy="give one such as OGC:CRS84")
        if not text.isascii() and _HALF_CHARACTER.search(text):
            raise CrsError("a CRS contains a lone surrogate", where=_short(text))
        form, key = _read(text)
        if self.resolved is not None:
            if form is not CrsForm.PROPERTY:
                raise CrsError("only projjson:<property> has something to resolve", where=_short(text))
            with contextlib.suppress(CrsError):
                key = _canonical(_projjson(self.resolved, where=_short(text)))
        # Nothing is known about what a text means that has no known form, its spaces included.
        object.__setattr__(self, "text", self.text if form is CrsForm.OTHER else text)
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "_key", key)

    @classmethod
    def parse(
        cls,
        value: str | Mapping[str, Any] | Crs | CrsLike,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> Crs:
        """The CRS of a text, a PROJJSON object, or an object of another package such as `pyproj.CRS`.

        `properties` are those of the table or file, where `projjson:<property>` is looked up. A property
        that is missing is not an error yet: the reference stays, and `to_pyproj` names what is missing.

        >>> Crs.parse("OGC:CRS84")
        Crs('OGC:CRS84')
        >>> Crs.parse("projjson:local", properties={}).resolved is None
        True
        """
        if isinstance(value, str):
            crs = cls(value)
        elif isinstance(value, Crs):
            crs = value
        elif isinstance(value, CrsLike):
            crs = _from_object(value)
        elif isinstance(value, dict):
            check_depth(value, what="PROJJSON", error=CrsError)
            crs = cls(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        else:
            kinds = "Crs, dict (PROJJSON), pyproj.CRS, str"
            raise CrsError(f"expected a CRS, got a {type(value).__name__}", remedy=f"give one of: {kinds}")
        if crs.form is CrsForm.PROPERTY and crs.resolved is None and properties is not None:
            definition = properties.get(crs.property_name or "")
            if definition is not None:
                return cls(crs.text, definition)
        return crs

    @classmethod
    def of_table(cls, text: str, *, properties: Mapping[str, str] | None = None) -> Crs:
        """The CRS that a table names; an empty text, which names none, is kept and cannot be resolved.

        >>> Crs.of_table("").is_resolvable, Crs.of_table("").is_unknown, Crs.of_table("EPSG:3857").is_resolvable
        (False, False, True)
        """
        if text.strip():
            return cls.parse(text, properties=properties)
        crs = object.__new__(cls)
        for name, value in (("text", text), ("resolved", None), ("form", CrsForm.OTHER), ("_key", text)):
            object.__setattr__(crs, name, value)
        return crs

    @property
    def property_name(self) -> str | None:
        """The property that holds the definition, `None` when the text names no property.

        >>> Crs("projjson:local").property_name
        'local'
        """
        match = _PROPERTY.fullmatch(self.text)
        return match.group(1) if match else None

    @property
    def is_unknown(self) -> bool:
        """Whether the CRS is unknown (`SRID:0`)."""
        return self.form is CrsForm.UNKNOWN

    def to_pyproj(self) -> pyproj.CRS:
        """The system as PROJ knows it; only registry codes, PROJJSON and WKT are ever given to PROJ.

        >>> Crs("EPSG:3857").to_pyproj().to_epsg()
        3857
        >>> Crs("SRID:0").to_pyproj()
        Traceback (most recent call last):
        geolake_nb.errors.CrsError: SRID:0: the CRS is unknown; set the column's CRS to use it
        """
        if self.is_unknown:
            raise CrsError("the CRS is unknown", where=self.text, remedy="set the column's CRS to use it")
        if self.form is CrsForm.PROPERTY and self.resolved is None:
            raise CrsError(
                f"the property {_short(self.property_name or '')!r} is missing",
                where=_short(self.text),
                remedy="set that property of the table or file to the PROJJSON",
            )
        return _to_pyproj(self.form, self.code or (self.text if self.resolved is None else self.resolved))

    @property
    def code(self) -> str | None:
        """The registry and the code that the text names, `None` for a text of another form.

        >>> Crs("urn:ogc:def:crs:EPSG::3857").code, Crs("srid:3857").code, Crs("epsg:3857").code
        ('EPSG:3857', 'EPSG:3857', 'EPSG:3857')
        >>> Crs("my local grid").code is None
        True
        """
        if self.form is CrsForm.SRID:
            return f"EPSG:{int(self.text.partition(':')[2])}"
        if self.form is CrsForm.AUTHORITY:
            return self.text.upper()
        return _alias(self.text) if self.form is CrsForm.ALIAS else None

    def to_projjson(self) -> dict[str, Any]:
        """The definition as PROJJSON, as stored where it is PROJJSON already.

        >>> Crs("OGC:CRS84").to_projjson()["name"]
        'WGS 84 (CRS84)'
        """
        stored = self.text if self.form is CrsForm.PROJJSON else self.resolved
        if stored is not None:
            return _projjson(stored, where=_short(self.text))
        return self.to_pyproj().to_json_dict()

    @property
    def is_resolvable(self) -> bool:
        """Whether coordinates can be transformed to and from it.

        >>> Crs("EPSG:3857").is_resolvable, Crs("srid:999999").is_resolvable, Crs("my local grid").is_resolvable
        (True, False, False)
        """
        try:
            self.to_pyproj()
        except CrsError:
            return False
        return True

    @property
    def name(self) -> str:
        """The name of the CRS; the text when it cannot be resolved.

        >>> Crs("EPSG:3857").name, Crs("SRID:0").name, Crs("NOBODY:1").name
        ('WGS 84 / Pseudo-Mercator', 'unknown', 'NOBODY:1')
        """
        if self.is_unknown:
            return "unknown"
        try:
            return str(self.to_pyproj().name)
        except CrsError:
            return _short(self.text)

    @property
    def is_geographic(self) -> bool:
        """Whether x is a longitude and y a latitude; a CRS that cannot be resolved is not known to be.

        >>> CRS84.is_geographic, Crs("EPSG:3857").is_geographic, Crs("SRID:0").is_geographic
        (True, False, False)
        """
        if self._key == CRS84._key:
            return True
        try:
            return bool(self.to_pyproj().is_geographic)
        except CrsError:
            return False

    @property
    def is_in_degrees(self) -> bool:
        """Whether x is a longitude in degrees; some registries have longitudes in grads.

        >>> CRS84.is_in_degrees, Crs("EPSG:4807").is_in_degrees, Crs("EPSG:3857").is_in_degrees
        (True, False, False)
        """
        if self._key == CRS84._key:
            return True
        axes = self.to_pyproj().axis_info[:2] if self.is_geographic else []
        return bool(axes) and all(math.isclose(axis.unit_conversion_factor, math.radians(1.0)) for axis in axes)

    @property
    def is_projected(self) -> bool:
        """Whether x and y are known to be distances on a map, not angles.

        >>> Crs("EPSG:3857").is_projected, CRS84.is_projected, Crs("SRID:0").is_projected
        (True, False, False)
        """
        if self._key == CRS84._key:
            return False
        try:
            return bool(self.to_pyproj().is_projected)
        except CrsError:
            return False

    def same_as(self, other: Crs) -> bool:
        """Whether coordinates of one can be compared with those of the other, however they are named.

        Axis order does not matter, because x is always the easting or longitude here. What cannot be
        resolved is the same as its equal only, and an unknown CRS is the same as an unknown one.

        >>> CRS84.same_as(Crs.parse(CRS84.to_projjson()))
        True
        >>> CRS84.same_as(Crs("EPSG:3857")), CRS84.same_as(Crs("SRID:0"))
        (False, False)
        """
        if self == other:
            return True
        try:
            left, two = self.to_pyproj(), other.to_pyproj()
        except CrsError:
            return False
        return bool(left.equals(two, ignore_axis_order=True))

    def coordinate_range(self) -> Box | None:
        """The box of its coordinates over the area that it is made for, `None` when PROJ knows none.

        >>> CRS84.coordinate_range().values
        (-180.0, -90.0, 180.0, 90.0)
        >>> Crs("SRID:0").coordinate_range() is None
        True
        """
        if self._key == CRS84._key:
            return Box(-180.0, -90.0, 180.0, 90.0)
        try:
            return _coordinate_range(self.to_pyproj())
        except CrsError:
            return None

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Crs) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Crs({_short(self.text)!r})"


def _read(text: str) -> tuple[CrsForm, str]:
    """The form of a text, and the key that equal systems share."""
    if len(text) > MAX_TEXT:  # every raster of a table may have such a text, which is not parsed
        return CrsForm.OTHER, text
    if match := _SRID.fullmatch(text):
        number = int(match.group(1))
        if number == 0:
            return CrsForm.UNKNOWN, "SRID:0"
        # An SRID is a custom definition, and a code of EPSG only where that has it.
        return CrsForm.SRID, _same_with_x_first(f"EPSG:{number}") if _is_epsg(number) else f"SRID:{number}"
    if match := _PROPERTY.fullmatch(text):
        return CrsForm.PROPERTY, f"projjson:{match.group(1)}"
    match = _AUTHORITY.fullmatch(text)
    if match and match.group(1).lower() not in ("projjson", "srid"):
        return CrsForm.AUTHORITY, _same_with_x_first(text.upper())
    if code := _alias(text):
        return CrsForm.ALIAS, _same_with_x_first(code)
    if text.startswith("{"):
        with contextlib.suppress(CrsError):
            return CrsForm.PROJJSON, _canonical(_projjson(text, where=None))
    if _WKT.match(text) and "\0" not in text:  # C ends a text at NUL
        return CrsForm.WKT, text
    return CrsForm.OTHER, text


def _alias(text: str) -> str | None:
    """The registry and the code of a name of OGC or of GDAL, `None` for other texts.

    >>> _alias("http://www.opengis.net/def/crs/OGC/1.3/CRS84"), _alias("WGS 84"), _alias("https://example.org/4326")
    ('OGC:CRS84', 'EPSG:4326', None)
    """
    if match := _OGC_NAME.fullmatch(text):
        authority, code = (part for part in match.groups() if part is not None)
        return f"{authority}:{code}".upper()
    return _WELL_KNOWN.get(text.upper().replace(" ", "", 1))


@functools.lru_cache(maxsize=1024)
def _is_epsg(number: int) -> bool:
    import pyproj
    from pyproj.exceptions import CRSError

    try:
        pyproj.CRS.from_authority("EPSG", number)
    except CRSError:
        return False
    return True


def _same_with_x_first(code: str) -> str:
    return _SAME_WITH_X_FIRST.get(code, code)


def _projjson(text: str, *, where: str | None) -> dict[str, Any]:
    value = load_json(text, what="PROJJSON", where=where, error=CrsError, max_length=MAX_TEXT)
    if not isinstance(value, dict):
        raise CrsError("PROJJSON must be an object", where=where)
    if not isinstance(value.get("type"), str):
        raise CrsError("PROJJSON has no type", where=where)
    return value


def _canonical(definition: dict[str, Any]) -> str:
    return json.dumps(definition, sort_keys=True)


def _from_object(value: CrsLike) -> Crs:
    import pyproj

    if isinstance(value, pyproj.CRS):
        # Type strings of Delta and Iceberg have room for a code, hardly for a definition.
        code = value.to_authority(min_confidence=100)
        if code is not None:
            return Crs(":".join(code))
    return Crs.parse(value.to_json_dict())


@functools.lru_cache(maxsize=64)
def _to_pyproj(form: CrsForm, text: str) -> pyproj.CRS:
    import pyproj
    from pyproj.database import get_authorities
    from pyproj.exceptions import CRSError

    # PROJ also takes pipelines, names, URLs and files of definitions; nothing of that comes from a table.
    try:
        if form in (CrsForm.ALIAS, CrsForm.AUTHORITY, CrsForm.SRID):
            authority, code = text.split(":")
            if authority not in get_authorities():
                known = ", ".join(sorted(get_authorities()))
                raise CrsError(f"unknown authority {authority}", where=text, remedy=f"use one of: {known}")
            return pyproj.CRS.from_authority(authority, code)
        if form is CrsForm.OTHER:
            if not text.strip():
                raise CrsError("its name is empty", remedy="name a CRS such as OGC:CRS84")
            if len(text) > MAX_TEXT:
                raise CrsError(f"a CRS is longer than {MAX_TEXT} characters", where=_short(text))
            forms = "authority:code, PROJJSON, projjson:<property>, srid:<number>, WKT"
            raise CrsError(f"{_short(text)!r} is not a known form of a CRS", remedy=f"use one of: {forms}")
        if form is CrsForm.PROPERTY:
            _projjson(text, where=None)
        if ensemble_members(text) > MAX_MEMBERS:
            what = f"the CRS has more than {MAX_MEMBERS} datums in its ensembles"
            raise CrsError(what, where=_short(text), remedy="name a system of a registry")
        crs = pyproj.CRS.from_wkt(text) if form is CrsForm.WKT else pyproj.CRS.from_json(text)
        definition = crs.to_json_dict()
        _touch(crs)
    except CRSError:
        raise CrsError("PROJ does not know this CRS", where=_short(text)) from None
    # PROJ keeps an EXTENSION of the WKT, but leaves it out of the PROJJSON.
    if names_a_file(definition) or names_a_file({"name": text}):
        raise CrsError("the CRS names a file by its path", where=_short(text), remedy="name the grid alone")
    return crs


def _touch(crs: pyproj.CRS) -> None:
    """Access what is read of a CRS later, because PROJ parses the parts of a compound one lazily."""
    for name in ("area_of_use", "axis_info", "ellipsoid", "is_geographic", "is_projected", "name"):
        getattr(crs, name)
    crs.equals(crs, ignore_axis_order=True)


def _coordinate_range(crs: pyproj.CRS) -> Box | None:
    import pyproj

    if crs.is_geographic:
        return Box(-180.0, -90.0, 180.0, 90.0)
    area = crs.area_of_use
    if area is None:
        return None
    try:
        to_crs = pyproj.Transformer.from_crs("OGC:CRS84", crs, always_xy=True)
        sides = to_crs.transform_bounds(area.west, area.south, area.east, area.north, densify_pts=21)
    except pyproj.exceptions.ProjError:
        return None
    return Box(*sides) if all(math.isfinite(side) for side in sides) else None


def _short(text: str) -> str:
    return printable(text, 60)


CRS84 = Crs("OGC:CRS84")
"""Longitude and latitude on WGS 84, in that order: the default of every format here."""

UNKNOWN_CRS = Crs("SRID:0")
"""Coordinates of which no CRS is known."""
