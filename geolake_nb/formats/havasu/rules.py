"""Rules about the metadata of a Havasu table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.checks.check import flags
from geolake_nb.checks.finding import Severity
from geolake_nb.checks.rule import HAVASU_METADATA, HAVASU_RATIONALE, Fault, Rule
from geolake_nb.formats.havasu.metadata import VERSION_KEY
from geolake_nb.formats.iceberg.snapshot import IcebergDetails
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.checks.check import Evidence
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["HAVASU_PROTOCOL_RULES"]

_HAVASU = frozenset({"havasu"})


def _havasu_version(evidence: Evidence) -> Iterator[Fault]:
    version = _stated_version(evidence.snapshot)
    if version is not None and version != "0.1.0":
        yield Fault(f"the table has Havasu version {printable(version)}; only 0.1.0 is defined")


def _havasu_file_format(evidence: Evidence) -> Iterator[Fault]:
    formats = _file_formats(evidence.snapshot)
    if formats is None:
        return
    wrong = flags(pc.not_equal(pc.utf8_upper(formats), "PARQUET"))
    if wrong.any():
        others = sorted(set(np.asarray(pc.utf8_upper(formats).to_numpy(zero_copy_only=False))[wrong].tolist()))
        what = f"data files in {', '.join(map(printable, others))}: Havasu defines its types for Parquet alone"
        yield Fault(what, evidence.scope(wrong))


def _stated_version(snapshot: Snapshot) -> str | None:
    """The Havasu version that the table declares, `None` where it declares none."""
    details = snapshot.details
    stated = details.havasu_version if isinstance(details, IcebergDetails) else None
    return stated or snapshot.properties.get(VERSION_KEY)


def _file_formats(snapshot: Snapshot) -> pa.Array | None:
    """The format of every data file as the manifest names it, `None` where it is not known."""
    table = snapshot.files.table
    if "format" not in table.column_names:
        return None
    chunks = table["format"].cast(pa.string()).chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


HAVASU_PROTOCOL_RULES = (
    Rule(
        "protocol.havasu_version",
        Severity.WARNING,
        "a Havasu table of a version that is not defined",
        "Other versions are not specified: their bounds may be read by the wrong rules.",
        HAVASU_METADATA,
        _havasu_version,
        formats=_HAVASU,
        no_command="only the engine that wrote the version knows what it means",
    ),
    Rule(
        "protocol.havasu_file_format",
        Severity.ERROR,
        "data files of a Havasu table that are not Parquet",
        "Havasu defines the layout of geometries and rasters for Parquet only: other formats are undefined.",
        HAVASU_RATIONALE,
        _havasu_file_format,
        formats=_HAVASU,
        no_command="data files other than Parquet are not supported: rewrite them with the engine that wrote them",
    ),
)
