"""Long histories of tables of two writers, none of whose rows may be lost, doubled or come back.

python -m tests.heavy.row_histories [--examples 20] [--steps 30] [--format delta] [--seed 0]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.iceberg_rest import serve_rest
from tests.iceberg_spark import IcebergSpark
from tests.promises.delta_history import DeltaHistory
from tests.promises.row_history import run_histories
from tests.promises.snapshot_history import HavasuHistory, IcebergHistory
from tests.spark_session import delta_session

SNAPSHOTS = {"havasu": HavasuHistory, "iceberg": IcebergHistory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20, help="histories")
    parser.add_argument("--steps", type=int, default=30, help="of each history")
    parser.add_argument("--format", choices=["delta", *SNAPSHOTS], default="delta")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    happened: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        theirs = None
        if options.format in SNAPSHOTS:
            uri = stack.enter_context(serve_rest(folder))
            os.environ["PYICEBERG_CATALOG__REST__URI"] = uri
            theirs = IcebergSpark(folder, uri)
            stack.callback(theirs.stop)
        spark = delta_session("local[2]", folder)
        stack.callback(spark.stop)
        start = time.perf_counter()
        try:
            run_histories(
                lambda: (
                    DeltaHistory(spark, folder, happened)
                    if theirs is None
                    else SNAPSHOTS[options.format](spark, theirs, happened)
                ),
                examples=options.examples,
                steps=options.steps,
                number=options.seed,
            )
        finally:
            print(f"{options.format}: {time.perf_counter() - start:.0f} s, {dict(sorted(happened.items()))}")


if __name__ == "__main__":
    main()
