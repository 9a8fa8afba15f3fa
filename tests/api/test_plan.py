"""A plan that is applied, and applied again."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.jupyter.cards import render
from tests import small_tables


def bare_parquet(folder):
    folder.mkdir()
    pq.write_table(pa.table({"geom": [shapely.to_wkb(shapely.Point(1, 2))]}), folder / "a.parquet")
    return gl.open(folder).plan_repair(columns={"geom": "geometry"})


def bare_delta(folder):
    return gl.open(small_tables.make_delta(folder, bounds=False)).plan_repair()


@pytest.mark.parametrize("planned", [bare_delta, bare_parquet])
def test_a_second_time_says_that_nothing_was_done(tmp_path, planned):
    plan = planned(tmp_path / "t")
    first = plan.apply()
    assert not first.already_applied
    assert any(first.metrics.values())
    again = plan.apply()
    assert (again.already_applied, again.version, dict(again.metrics)) == (True, first.version, {})
    assert str(again).endswith(f"version {first.version} already has the change, nothing was done")
    assert "nothing was done" in str(render(again))
    assert list(again.to_dict()) == list(first.to_dict())
    assert again.undo().version is not None
