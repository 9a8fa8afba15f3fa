"""The Delta table of the airports as Spark writes it: what its log lacks, its footers have."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from geolake_nb import demo
from geolake_nb.errors import AlreadyThereError

pytestmark = pytest.mark.spark


def adds(folder):
    [log] = (folder / "_delta_log").glob("*.json")
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    return [entry["add"] for entry in entries if "add" in entry]


def test_the_log_has_no_boxes_and_the_footers_have_them(spark, tmp_path):
    folder = tmp_path / "airports"
    assert demo.airports_delta(folder, spark=spark, files=5) == str(folder)
    result = adds(folder)
    assert len(result) == 5
    rows = 0
    for add in result:
        stats = json.loads(add["stats"])
        assert "location" not in {**stats["minValues"], **stats["maxValues"]}
        footer = pq.read_metadata(folder / add["path"])
        box = footer.row_group(0).column(5).geo_statistics
        # No spatial order: each file holds airports of the far east and west, north and south.
        assert box.xmin < -150
        assert box.xmax > 150
        assert box.ymin < -40
        assert box.ymax > 70
        rows += stats["numRecords"]
    assert rows == demo.airports().num_rows

    # Made again, it is the same table and no second version.
    demo.airports_delta(folder, spark=spark, files=5)
    assert [json.loads(add["stats"]) for add in adds(folder)] == [json.loads(add["stats"]) for add in result]
    assert {add["path"] for add in adds(folder)}.isdisjoint(add["path"] for add in result)


def test_what_is_not_of_the_demo_is_not_removed(tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("mine")
    with pytest.raises(AlreadyThereError, match="choose an empty folder"):
        demo.airports_delta(tmp_path)
    assert kept.read_text() == "mine"
