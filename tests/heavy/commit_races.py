"""Spark as a second writer at every phase of our commit, each time for real.

python -m tests.heavy.commit_races [--only append ...]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tests.spark.second_writer import AFTER, BEFORE, WRITERS, Table, meet, new_table
from tests.spark_session import delta_session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=sorted(WRITERS), default=sorted(WRITERS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    (folder / "session").mkdir()
    with delta_session("local[2]", folder / "session") as spark:
        template = new_table(spark, folder / "template")
        for name in options.only:
            for phase in [*BEFORE, *AFTER]:
                copy = folder / f"{name}-{phase.name}"
                shutil.copytree(template.path, copy)
                meet(Table(spark, copy), name, phase)
                print(f"{name} at {phase.value}: as it should be", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
