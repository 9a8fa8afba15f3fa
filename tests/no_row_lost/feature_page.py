"""The reference page about Delta's features, made of the cells of the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.reference import FOLDER
from geolake_nb.reference.markdown import page, table
from tests.no_row_lost.feature_tables import FEATURES, GEO, NOT_BUILT, PROPERTIES, TABLES

if TYPE_CHECKING:
    from tests.no_row_lost.feature_tables import FeatureTable

__all__ = ["PAGE", "VERBS", "feature_page"]

PAGE = FOLDER / "delta-features.md"
VERBS = ("repair", "rewrite", "enable", "collations", "append")

_HEAD = """\
Which changes work on a Delta table with each writer feature and table property of Delta 4.4. A cell is `yes` where
Spark, Delta Kernel, deltalake and DuckDB, as far as they can open such a table, read the same rows afterwards and the
rule still holds; `no` means that the change is refused and the log stays as it was, byte for byte."""
_COLUMNS = """\
*repair* adds missing bounds, *rewrite* clusters the rows into new files, *enable* turns a column of WKB into a
geometry, *collations* sets the collation of a string, *append* is `gl.write(..., mode="append")`. *undo* reverts each
of them."""
_MADE = (
    "`python -m tests.heavy.feature_matrix --page` tries every cell on tables that Spark writes, and writes this page."
)


def feature_page() -> str:
    """The page as the tables declare it; the command that writes it has tried every cell."""
    free = [key for key in PROPERTIES if not TABLES[key].refuses]
    refusing = [*FEATURES, *(TABLES[key] for key in PROPERTIES if TABLES[key].refuses)]
    notes = [(refuser.name, verb, why) for refuser in refusing for verb, why in refuser.notes.items()]
    return page(
        "# Delta features",
        _HEAD,
        _COLUMNS,
        table(["table", *VERBS, "undo"], map(feature_row, refusing)),
        "Why a change is refused:",
        table(["table", "change", "reason"], notes),
        f"All changes and their undo work with each of these properties: {', '.join(f'`{key}`' for key in free)}.",
        "Not tried, because Spark makes no such table here:",
        table(["feature or property", "reason"], NOT_BUILT.items()),
        _MADE,
    )


def feature_row(table: FeatureTable) -> list[str]:
    """The cells of one table.

    >>> feature_row(FEATURES[0])
    ['no feature', 'yes', 'yes', 'yes', 'yes', 'yes', 'yes']
    """
    cells = ["no" if verb in table.refuses else "yes" for verb in VERBS]
    if GEO not in table.variants:
        cells[0] = "-"  # has no geometry to repair
    kept = [verb for verb in VERBS if f"undo {verb}" in table.refuses]
    none = all(cell != "yes" for cell in cells)
    undo = "-" if none else f"all but {', '.join(kept)}" if kept else "yes"
    return [table.name, *cells, undo]
