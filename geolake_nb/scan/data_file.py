"""What a format knows of the rows of its data files: which columns they hold, and which rows are deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.model.types import Field

__all__ = [
    "DataFile",
    "DeletedRows",
    "EqualityDelete",
    "RecentlyDeleted",
    "RowSource",
    "child_by_id",
    "child_by_name",
    "child_by_physical_name",
]

FIELD_ID = b"PARQUET:field_id"
_MAX_FILES = 64


class DeletedRows(Protocol):
    """The positions of deleted rows in a data file."""

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """Those from `start` to before `end`, sorted."""
        ...


class EqualityDelete(Protocol):
    """Rows that are deleted by their values."""

    @property
    def fields(self) -> Sequence[Field]:
        """The columns that are compared, by their ids: they may be nested, and the table may have dropped them."""
        ...

    def matches(self, columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
        """Which rows are deleted; `columns` are those of `fields`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """A data file of a table."""

    path: str
    """As the table lists it."""
    key: str
    """As the storage reads it."""
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """The values of top-level columns that are the same in all of its rows and are not read from the file."""
    details: Any = None
    """What its format needs to find its deleted rows."""


class RowSource(Protocol):
    """The rows of a table at one version; it is asked for one file after another, and may keep what they share."""

    def files(self, positions: Sequence[int]) -> list[DataFile]:
        """The data files at these rows of the file table."""
        ...

    def arrow_schema(self, schema: pa.Schema, file: DataFile, *, where: str) -> pa.Schema:
        """The schema of a data file with what `child` needs, such as ids."""
        ...

    def child(self, fields: Sequence[pa.Field], wanted: Field) -> int | None:
        """Which of the fields at one level of a data file holds a column of the table; `None` if none does."""
        ...

    def absent(self, wanted: Field, file: DataFile) -> pa.Scalar | None:
        """The value of a column in the rows of a file that lacks it; `None` for null."""
        ...

    def deleted(self, file: DataFile, metadata: pq.FileMetaData) -> Sequence[DeletedRows]:
        """The rows that are deleted by position."""
        ...

    def equality_deletes(self, file: DataFile) -> Sequence[EqualityDelete]:
        """The rows that are deleted by value."""
        ...


class RecentlyDeleted:
    """The deleted rows of the files that are being read: one row group after another asks for them."""

    def __init__(self) -> None:
        self._known: dict[str, Sequence[DeletedRows]] = {}

    def of(self, file: DataFile, read: Callable[[], Sequence[DeletedRows]]) -> Sequence[DeletedRows]:
        """Those of a file, from memory if they are there."""
        known = self._known.get(file.path)
        if known is None:
            known = read()
            if len(self._known) >= _MAX_FILES:
                self._known = {}
            self._known[file.path] = known
        return known


def child_by_name(fields: Sequence[pa.Field], wanted: Field) -> int | None:
    """The field of the same name.

    >>> import pyarrow as pa
    >>> from geolake_nb.model.types import Field, PrimitiveType
    >>> child_by_name([pa.field("a", pa.int8()), pa.field("b", pa.int8())], Field("b", PrimitiveType("int8")))
    1
    """
    return _named(fields, wanted.name)


def child_by_physical_name(fields: Sequence[pa.Field], wanted: Field) -> int | None:
    """The field of the column's physical name, else the only one that differs from it in case alone."""
    name = wanted.physical_name or wanted.name
    index = _named(fields, name)
    if index is not None:
        return index
    folded = [index for index, here in enumerate(fields) if here.name.casefold() == name.casefold()]
    return folded[0] if len(folded) == 1 else None


def child_by_id(fields: Sequence[pa.Field], wanted: Field) -> int | None:
    """The field of the column's id."""
    if wanted.id is None:
        return None
    text = str(wanted.id).encode()
    return next((index for index, here in enumerate(fields) if (here.metadata or {}).get(FIELD_ID) == text), None)


def _named(fields: Sequence[pa.Field], name: str) -> int | None:
    return next((index for index, here in enumerate(fields) if here.name == name), None)
