"""The non-spatial columns of a Havasu table for PyIceberg, as a custom FileIO.

PyIceberg ignores an unknown number or string in a manifest, but fails on an unknown map, such as the bounds of
geometries. This FileIO gives it manifests without them:

    StaticTable.from_metadata(location, {"py-io-impl": "geolake_nb.formats.havasu.pyiceberg_io.HavasuFileIO"})
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from geolake_nb.formats.havasu.avro import read_records, without_geo_bounds, write_container
from geolake_nb.formats.iceberg.avro import read_header

if TYPE_CHECKING:
    from pyiceberg.io import InputStream

__all__ = ["HavasuFileIO"]


class HavasuFileIO(PyArrowFileIO):
    """Reads as PyIceberg does, except the manifests of Havasu."""

    def new_input(self, location: str) -> InputFile:  # type: ignore[override]  # as FileIO has it
        """The file at a location."""
        file = super().new_input(location)
        return _Manifest(file) if location.endswith(".avro") else file


class _Manifest(InputFile):
    """A manifest or manifest list without the fields of Havasu."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return len(self._plain())

    def exists(self) -> bool:
        return bool(self._file.exists())

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._plain())

    def _plain(self) -> bytes:
        with self._file.open() as stream:
            data = stream.read()
        schema = read_header(data, where=self.location).schema
        plain = without_geo_bounds(schema)
        if plain == schema:
            return bytes(data)
        header, records = read_records(data, where=self.location)
        return write_container(plain, header.metadata, records)
