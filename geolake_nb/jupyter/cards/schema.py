"""The card of a schema: a tree that folds, with geo types, CRS names and collations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, grid, left_out, name, plural
from geolake_nb.jupyter.html import tag
from geolake_nb.model.crs import CrsForm
from geolake_nb.model.schema import children, join_path, type_name
from geolake_nb.model.types import GeographyType, GeometryType, RasterType, StringType
from geolake_nb.text.messages import with_plain_urls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.jupyter.html import Markup
    from geolake_nb.model.crs import Crs
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import Field

__all__ = ["collated_strings", "geo_columns", "show", "tree"]

_SHOWN = 200
_DEEPEST = 40
_UNFOLDED = 12


def show(schema: Schema) -> Markup:
    """The card."""
    head = tag("p", tag("strong", "Schema "), plural(len(schema.fields), "column"))
    return card("Schema", head, geo_columns(schema), tree(schema))


def tree(schema: Schema) -> Markup:
    """All fields; what is inside a struct, a list or a map opens."""
    return tag("ul", _fields(schema.fields, 1), class_="tree")


def geo_columns(schema: Schema) -> Markup | None:
    """The geometries, geographies and rasters with the names of their CRSs; `None` where there are none."""
    columns = schema.geo_columns()
    if not columns:
        return None
    rows = [[name(path), *_geo(field)] for path, field in columns[:_SHOWN]]
    return grid(["geo column", "type", "CRS", "CRS name"], rows)


def collated_strings(schema: Schema) -> Markup | None:
    """The strings that compare by a collation; `None` where there are none."""
    strings = [(path, field.type.collation) for path, field in schema.walk() if isinstance(field.type, StringType)]
    rows = [[name(path), name(str(collation))] for path, collation in strings if collation is not None]
    return grid(["string", "collation"], rows[:_SHOWN]) if rows else None


def _geo(field: Field) -> list[str | Markup]:
    type_ = field.type
    if isinstance(type_, RasterType):
        return [f"raster {type_.encoding}", "", "each raster has its own"]
    if isinstance(type_, GeographyType):
        return [f"geography, {type_.algorithm.value} edges", _crs(type_.crs), type_.crs.name]
    if isinstance(type_, GeometryType):
        return ["geometry", _crs(type_.crs), type_.crs.name]
    raise AssertionError


def _crs(crs: Crs) -> str | Markup:
    # A whole definition is long, and its first words are not informative.
    whole = {CrsForm.PROJJSON: "defined by PROJJSON", CrsForm.WKT: "defined by WKT"}
    return whole.get(crs.form) or name(crs.text, 60)


def _fields(fields: Sequence[Field], depth: int) -> list[Markup | None]:
    items: list[Markup | None] = [tag("li", _field(field, depth)) for field in fields[:_SHOWN]]
    more = left_out(_SHOWN, len(fields), "use schema.walk()")
    return items if more is None else [*items, tag("li", more)]


def _field(field: Field, depth: int) -> Markup:
    words = [type_name(field.type)]
    if not field.nullable:
        words.append("required")
    if field.id is not None:
        words.append(f"#{field.id}")
    about = [name(join_path([field.name]), 120), " ", tag("span", ", ".join(words), class_="faint")]
    if field.doc:
        about += [" ", tag("em", with_plain_urls(field.doc)[:200])]
    inside = children(field.type)
    if not inside:
        return tag("span", about)
    if depth >= _DEEPEST:
        return tag("span", about, f" with {plural(len(inside), 'field')} inside")
    below = tag("ul", _fields(inside, depth + 1))
    return tag("details", tag("summary", about), below, open=depth == 1 and len(inside) <= _UNFOLDED)
