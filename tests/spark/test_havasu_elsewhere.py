"""The plain columns of Havasu tables in Spark 4.1.4 with Iceberg 1.12.0, which knows nothing of Havasu."""

from __future__ import annotations

import pyarrow as pa
import pytest

from geolake_nb.formats.havasu.commit import commit
from geolake_nb.raster_data.arrow import rasters_to_arrow
from geolake_nb.storage.storage import Storage
from tests.formats.havasu_rows import EWKB, append, create, points, updating_all_bounds
from tests.formats.havasu_tables import raster_at

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("version", [1, 2])
def test_sparks_iceberg_reads_the_plain_columns(iceberg_spark, version):
    name = f"havasu{version}"
    folder = iceberg_spark.warehouse / "db" / name
    rows = points(6).append_column("rast", rasters_to_arrow([raster_at(1, 2, bands=7)] * 6))
    rows = rows.append_column("p", pa.array(["x"] * 6))
    create(folder, rows, columns=EWKB, partition_by=["p"], version=version)
    append(folder, rows.set_column(0, "id", pa.array(range(6, 12), pa.int64())))
    commit(Storage.at(str(folder)), updating_all_bounds(Storage.at(str(folder))))
    result = iceberg_spark.sql(f"SELECT id, geom, p FROM ice.db.{name} WHERE id > 2 AND p = 'x' ORDER BY id")
    assert [row["id"] for row in result] == list(range(3, 12))
    assert [row["geom"] for row in result[:3]] == [value.hex() for value in rows["geom"].to_pylist()[3:]]
    assert iceberg_spark.sql(f"SELECT count(*) AS n FROM ice.db.{name}") == [{"n": 12}]
    entries = iceberg_spark.sql(f"SELECT status, sequence_number FROM ice.db.{name}.entries ORDER BY 2")
    assert [entry["status"] for entry in entries] == [0, 0]
    assert [entry["sequence_number"] for entry in entries] == ([1, 2] if version == 2 else [0, 0])
    files = iceberg_spark.sql(f"SELECT record_count, null_value_counts FROM ice.db.{name}.files")
    assert files == [{"record_count": 6, "null_value_counts": {"1": 0, "2": 0, "3": 0, "4": 0}}] * 2
    other = rows.slice(0, 1).set_column(0, "id", pa.array([50], pa.int64())).set_column(3, "p", pa.array(["y"]))
    append(folder, other, overwrite=True)
    assert iceberg_spark.sql(f"SELECT id, p FROM ice.db.{name}") == [{"id": 50, "p": "y"}]
    operations = iceberg_spark.sql(f"SELECT operation FROM ice.db.{name}.snapshots ORDER BY committed_at")
    assert [operation["operation"] for operation in operations] == ["append", "append", "replace", "overwrite"]
