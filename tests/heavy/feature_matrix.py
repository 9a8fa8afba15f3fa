"""Every writer feature and property of Delta 4.4 times every change of ours, with other engines asked about each.

python -m tests.heavy.feature_matrix [--table NAME ...] [--operation NAME ...] [--results FILE] [--page]

Prints the matrix, and ends with 1 where a cell is neither right nor refused with an unchanged log, or where it differs
from what the tables declare. With `--results`, cells that the file has are not tried again, so that a long run can be
interrupted. `--page` writes the reference page when every cell was tried and is right.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.no_row_lost.feature_matrix import BAD_APPENDS, OPERATIONS, UNDO_OF_SPARK, Matrix, faults_of
from tests.no_row_lost.feature_page import PAGE, feature_page
from tests.no_row_lost.feature_tables import NOT_BUILT, TABLES
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.no_row_lost.feature_matrix import Cell
    from tests.no_row_lost.feature_tables import FeatureTable

_NAMES = (*OPERATIONS, UNDO_OF_SPARK, BAD_APPENDS)


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen cells and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="append", metavar="NAME", help="a table by its name; all by default")
    parser.add_argument("--operation", action="append", choices=_NAMES)
    parser.add_argument("--results", type=Path, help="a JSON file that keeps the cells that were tried")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(arguments)
    unknown = set(options.table or ()) - set(TABLES)
    if unknown:
        parser.error(f"no table {sorted(unknown)[0]!r}; the tables are: {', '.join(TABLES)}")
    kept: dict[str, Any] = (
        json.loads(options.results.read_text()) if options.results and options.results.exists() else {}
    )
    wanted = list(_wanted(options.table, options.operation))
    home = Path(tempfile.mkdtemp(prefix="geolake-features-"))
    os.environ.setdefault("SPARK_DRIVER_MEMORY", "4g")  # Spark keeps something of each of the hundreds of tables
    spark = delta_session("local[2]", home)
    try:
        matrix = Matrix(spark, home)
        for feature_table, operation in wanted:
            key = f"{feature_table.name} | {operation}"
            if key not in kept:
                start = time.perf_counter()
                kept[key] = _tried(matrix, feature_table, operation)
                print(f"{key}: {kept[key]['shown']} ({time.perf_counter() - start:.0f} s)", flush=True)
                if options.results:
                    options.results.write_text(json.dumps(kept, indent=1))
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    faults = {
        key: kept[key]["faults"]
        for key in (f"{feature_table.name} | {name}" for feature_table, name in wanted)
        if kept[key]["faults"]
    }
    _print_matrix(wanted, kept)
    for key, problems in faults.items():
        for problem in problems:
            print(f"WRONG {key}: {problem[:500]}")
    if options.page and not faults and len(wanted) == len(list(_wanted(None, None))):
        PAGE.write_text(feature_page(), encoding="utf-8")
        print(f"{PAGE}: written")
    return int(bool(faults))


def _wanted(tables: list[str] | None, operations: list[str] | None) -> Iterator[tuple[FeatureTable, str]]:
    for name, table in TABLES.items():
        if tables and name not in tables:
            continue
        for label in operations or _NAMES:
            if label == BAD_APPENDS:
                possible = bool(table.bad)
            else:
                possible = label == UNDO_OF_SPARK or OPERATIONS[label].variant in table.variants
            if possible:
                yield table, label


def _tried(matrix: Matrix, table: FeatureTable, operation: str) -> dict[str, Any]:
    special = {BAD_APPENDS: matrix.bad_appends, UNDO_OF_SPARK: matrix.undo_of_spark}
    cell: Cell = special[operation](table) if operation in special else matrix.cell(table, OPERATIONS[operation])
    faults = list(faults_of(table, cell))
    return {
        "shown": f"WRONG: {faults[0][:200]}" if faults else str(cell),
        "engines": list(cell.engines),
        "messages": [cell.message, cell.undo_message],
        "faults": faults,
    }


def _print_matrix(wanted: list[tuple[FeatureTable, str]], kept: dict[str, Any]) -> None:
    names = _NAMES
    width = max(len(feature_table.name) for feature_table, _ in wanted) + 2
    print(" " * width + "".join(f"{index + 1:<24}" for index in range(len(names))))
    for table in dict.fromkeys(feature_table.name for feature_table, _ in wanted):
        cells = [kept.get(f"{table} | {name}", {}).get("shown", "")[:22] for name in names]
        print(f"{table:<{width}}" + "".join(f"{cell:<24}" for cell in cells))
    print("\n".join(f"{index + 1}: {name}" for index, name in enumerate(names)))
    for name, why in NOT_BUILT.items():
        print(f"not tried: {name}: {why}")


if __name__ == "__main__":
    sys.exit(main())
