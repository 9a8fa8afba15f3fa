"""Check a table against every rule: what is wrong, where, by which specification, and which command fixes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from geolake_nb.checks.evidence import Evidence, deep_table
from geolake_nb.checks.finding import Finding, Findings, SkippedCheck
from geolake_nb.model.snapshot import geo_file_fields
from geolake_nb.parquet.schema import footer_facts

if TYPE_CHECKING:
    import pyarrow as pa

    from geolake_nb.checks.rule import Rule
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.scan.data_files import OtherFiles
    from geolake_nb.scan.wkb_sample import WkbSample

__all__ = ["check"]


def check(
    snapshot: Snapshot,
    rules: Sequence[Rule],
    *,
    row_groups: pa.Table | None = None,
    footers: pa.Table | None = None,
    deep: pa.Table | Mapping[str, Mapping[str, ColumnStats]] | None = None,
    rasters: pa.Table | None = None,
    missing: pa.Table | None = None,
    hidden_nan: pa.Table | None = None,
    wkb: WkbSample | None = None,
    others: OtherFiles | None = None,
) -> Findings:
    """The findings about a table, from its metadata and what else was read of it.

    `checks/evidence.py` describes the tables beside the snapshot; `deep` may also be the
    statistics of a scan by path and column. A rule whose evidence is missing is listed as not checked. The footers
    of a Parquet set are already loaded. `others` are Avro or ORC files, which cannot be read: rules that need to read
    files are listed as not checked for them.

    >>> import pyarrow as pa
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.file_table import FileTable
    >>> from geolake_nb.formats.registry import PARQUET
    >>> from geolake_nb.formats.rules import RULES
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> no_files = FileTable.of(path=pa.array([], pa.string()), bytes=pa.array([]), rows=pa.array([]))
    >>> table = Snapshot(PARQUET, "/data/roads", None, None, Schema(), Protocol("Parquet"), no_files)
    >>> print(check(table, RULES))
    /data/roads: no findings
    """
    scanned = deep_table(deep) if isinstance(deep, Mapping) else deep
    stated = _footers_at_hand(snapshot) if footers is None else footers
    evidence = Evidence(snapshot, row_groups, stated, scanned, rasters, missing, hidden_nan, wkb, others)
    results = [result for rule in rules for result in rule.check(evidence)]
    return Findings(
        snapshot.location,
        tuple(result for result in results if isinstance(result, Finding)),
        tuple(dict.fromkeys(result for result in results if isinstance(result, SkippedCheck))),
    )


def _footers_at_hand(snapshot: Snapshot) -> pa.Table | None:
    """What the footers declare about geo columns, where opening the table has read them."""
    views = snapshot.format.footer_views(snapshot)
    if views is None or len(views) != len(snapshot.files):
        return None
    paths = snapshot.files.table["path"].to_pylist()
    return footer_facts(zip(paths, views, strict=True), snapshot.schema, geo_file_fields(snapshot))
