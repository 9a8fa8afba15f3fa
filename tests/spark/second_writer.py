"""A real second writer that acts while our committer stands still at one of its phases."""

from __future__ import annotations

import json
import os
import shutil
import uuid

import pytest

from geolake_nb.errors import ConflictError
from geolake_nb.formats.delta.commit import DeltaCommit, Phase, commit, find_commit, log_path
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.storage.storage import Storage

BEFORE = [Phase.START, Phase.READ_LOG, Phase.BEFORE_PUT, Phase.TEMP_WRITTEN]
"""The phases at which another writer can still win."""
AFTER = [Phase.LINKED, Phase.COMMITTED]
COLUMNS = (
    "id INT, name STRING, x DOUBLE, d DECIMAL(20, 3), t TIMESTAMP, ntz TIMESTAMP_NTZ, day DATE, deep STRUCT<y: INT>"
)
ROWS = [
    "(1, 'ä\"b', 0.1, 1.500, TIMESTAMP '2024-01-02 03:04:05.678901Z', TIMESTAMP_NTZ '2024-01-02 03:04:05',"
    " DATE '2024-01-02', named_struct('y', 1))",
    "(2, NULL, double('NaN'), -2.000, NULL, NULL, NULL, NULL)",
    "(3, 'c', double('inf'), 99999999999999999.999, TIMESTAMP '1969-12-31 23:59:59Z',"
    " TIMESTAMP_NTZ '9999-12-31 23:59:59.999', DATE '0001-01-01', named_struct('y', 3))",
]
# What the second writer does, and what of our change and of the rows is left.
WRITERS = {
    "append": ("INSERT INTO {t} VALUES " + ROWS[0].replace("(1,", "(4,"), None, [1, 2, 3, 4]),
    "delete": ("DELETE FROM {t} WHERE id = 1", "removed or replaced", [2, 3]),
    "update": ("UPDATE {t} SET id = 7 WHERE id = 1", "removed or replaced", [2, 3, 7]),
    "optimize": ("OPTIMIZE {t}", "removed or replaced", [1, 2, 3]),
    "schema": ("ALTER TABLE {t} ADD COLUMN more INT", "schema or the properties", [1, 2, 3]),
    "protocol": (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.domainMetadata' = 'supported')",
        "changed the protocol",
        [1, 2, 3],
    ),
}


class Table:
    def __init__(self, spark, path):
        self.spark = spark
        self.path = str(path)
        self.storage = Storage.at(self.path)

    def sql(self, text):
        return self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def ids(self):
        return sorted(row["id"] for row in self.sql("SELECT id FROM {t}").collect())

    def log_files(self):
        """Commits and whatever is hidden beside them, but for the check sums of Spark's file system."""
        result = os.listdir(os.path.join(self.path, "_delta_log"))
        return sorted(name for name in result if name.endswith((".json", ".tmp")))

    def updating_stats(self, **more):
        """A change that states every file anew."""
        segment = list_log(self.storage).segment()
        texts = raw_adds(self.storage, segment)["add"].to_pylist()
        actions = [json.dumps({"add": json.loads(text) | {"dataChange": False}}) for text in texts]
        return DeltaCommit(segment.version, "GEOLAKE REPAIR", {"columns": '["x"]'}, actions, str(uuid.uuid4()), **more)

    def info(self, version):
        return json.loads(self.storage.read(log_path(version)).split(b"\n")[0])["commitInfo"]

    def state(self):
        """The live files as Spark has them, but for whether they changed data."""
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.clearCache()
        rows = log.forTable(self.spark._jsparkSession, self.path).unsafeVolatileSnapshot().allFiles().toJSON()
        files = [json.loads(text) for text in rows.collectAsList()]
        for file in files:
            file.pop("dataChange", None)
            if "stats" in file:
                file["stats"] = json.loads(file["stats"], parse_float=str)
        return sorted(files, key=lambda file: file["path"])

    def checkpoint(self):
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.clearCache()
        log.forTable(self.spark._jsparkSession, self.path).checkpoint()


def new_table(spark, folder, *, properties=None, rows=((0,), (1, 2))):
    """A table with some of the rows in one commit, some in the next."""
    table = Table(spark, folder)
    stored = ", ".join(f"'{name}' = '{value}'" for name, value in (properties or {}).items())
    table.sql(f"CREATE TABLE {{t}} ({COLUMNS}) USING delta" + (f" TBLPROPERTIES ({stored})" if stored else ""))
    for some in rows:
        table.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {', '.join(ROWS[row] for row in some)}")
    return table


def meet(table, name, phase, act=None):
    """Let Spark, or `act` in its place, do its work while we commit, and check what comes of it."""
    statement, problem, ids = WRITERS[name]
    ours = table.updating_stats()
    base = ours.base_version
    done = []

    def hook(now, version):
        if now is phase and not done:
            done.append(now)
            (act or (lambda: table.sql(statement)))()

    if phase in AFTER or problem is None:
        made = commit(table.storage, ours, on_phase=hook)
        lost = problem is None and phase in BEFORE
        assert made.version == base + 1 + lost, (name, phase)
        assert made.rebased_over == ((base + 1,) if lost else ()), (name, phase)
    else:
        with pytest.raises(ConflictError, match=problem):
            commit(table.storage, ours, on_phase=hook)
        assert find_commit(table.storage, ours.transaction, since=base) is None, (name, phase)
    assert done, (name, phase)
    assert not [file for file in table.log_files() if file.endswith(".tmp")], (name, phase)
    if act is None:
        assert table.ids() == ids, (name, phase)
    return base


def replaying(table, played, base):
    """Do again what Spark did in a copy of the table: first its files, then its commit."""
    theirs = played.storage.read(log_path(base + 1))

    def act():
        for entry in played.storage.list(recursive=True):
            if not entry.path.startswith("_delta_log/") and not table.storage.exists(entry.path):
                shutil.copy(os.path.join(played.path, entry.path), os.path.join(table.path, entry.path))
        table.storage.put_if_absent(log_path(base + 1), theirs)

    return act
