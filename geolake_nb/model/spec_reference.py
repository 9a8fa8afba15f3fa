"""The section of a document that has a rule."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SpecReference"]


@dataclass(frozen=True, slots=True)
class SpecReference:
    """The section of a document that has the rule.

    >>> print(SpecReference("Parquet geospatial", "Bounding Box"))
    Parquet geospatial, Bounding Box
    """

    document: str
    section: str

    def __str__(self) -> str:
        return f"{self.document}, {self.section}"
