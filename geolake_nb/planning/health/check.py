"""Judge a table by every rule: what is wrong, where, by which specification, and which command mends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from geolake_nb.planning.format_facts import footers_at_hand
from geolake_nb.planning.health.evidence import Evidence, deep_table
from geolake_nb.planning.health.finding import Finding, Findings, NotJudged
from geolake_nb.planning.health.rules import RULES

if TYPE_CHECKING:
    import pyarrow as pa

    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["check"]


def check(
    snapshot: Snapshot,
    *,
    row_groups: pa.Table | None = None,
    footers: pa.Table | None = None,
    deep: pa.Table | Mapping[str, Mapping[str, ColumnStats]] | None = None,
    rasters: pa.Table | None = None,
    missing: pa.Table | None = None,
    hidden_nan: pa.Table | None = None,
) -> Findings:
    """The findings about a table, from its metadata and whatever else was read of it.

    The tables beside the snapshot are those that `planning/health/evidence.py` describes; `deep` may also be the
    statistics of a scan by path and column. A rule that needs what is not given is listed as not judged. The footers
    of a Parquet set are at hand already.

    >>> import pyarrow as pa
    >>> from geolake_nb.core.schema import Schema
    >>> from geolake_nb.formats.file_table import FileTable
    >>> from geolake_nb.formats.snapshot import Protocol, Snapshot, TableFormat
    >>> no_files = FileTable.of(path=pa.array([], pa.string()), bytes=pa.array([]), rows=pa.array([]))
    >>> print(check(Snapshot(TableFormat.PARQUET, "/data/roads", None, None, Schema(), Protocol("Parquet"), no_files)))
    /data/roads: no findings
    """
    scanned = deep_table(deep) if isinstance(deep, Mapping) else deep
    stated = footers_at_hand(snapshot) if footers is None else footers
    evidence = Evidence(snapshot, row_groups, stated, scanned, rasters, missing, hidden_nan)
    said = [one for rule in RULES for one in rule.judge(evidence)]
    return Findings(
        snapshot.location,
        tuple(one for one in said if isinstance(one, Finding)),
        tuple(dict.fromkeys(one for one in said if isinstance(one, NotJudged))),
    )
