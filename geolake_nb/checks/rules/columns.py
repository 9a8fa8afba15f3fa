"""The columns that a rule about the whole table is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.checks.finding import Scope
from geolake_nb.model.types import StringType

if TYPE_CHECKING:
    from geolake_nb.model.schema import Schema

__all__ = ["collated_columns_scope", "columns_scope", "geo_columns_scope"]


def geo_columns_scope(schema: Schema) -> Scope:
    """The columns with a geo type."""
    return columns_scope(tuple(path for path, _ in schema.geo_columns()))


def collated_columns_scope(schema: Schema) -> Scope:
    """The string columns with a collation."""
    strings = [(path, field.type) for path, field in schema.walk() if isinstance(field.type, StringType)]
    return columns_scope(tuple(path for path, type_ in strings if type_.collation is not None))


def columns_scope(columns: tuple[str, ...]) -> Scope:
    """These columns, of which the first few are named."""
    shown = ", ".join(columns[:3]) + (", …" if len(columns) > 3 else "")
    return Scope(shown or None, count=len(columns), unit="columns")
