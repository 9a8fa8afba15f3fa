"""The fast way through a usual footer says what the careful one says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import geolake_nb as gl
from geolake_nb.changes.repair import bound_sources
from geolake_nb.model.file_table import AXES
from geolake_nb.parquet.schema import to_arrow_type
from geolake_nb.scan.value_scan import ScanColumn
from geolake_nb.storage.storage import Storage

NUMBERS = st.floats(-1e6, 1e6)
POINTS = st.lists(st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS, NUMBERS)), max_size=5)


def both_ways(folder, keys, column):
    storage = Storage.at(str(folder))
    _, fast = bound_sources.read_footer_bounds(storage, keys, [column])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound_sources, "_note_plain", lambda bounds, index, here: False)
        _, careful = bound_sources.read_footer_bounds(storage, keys, [column])
    return fast[column.path], careful[column.path]


@given(st.lists(POINTS, min_size=1, max_size=4))
@settings(max_examples=60)
def test_both_ways_through_a_footer_agree(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("footers")
    type_ = gl.geometry("EPSG:3857")
    keys = []
    for number, points in enumerate(files):
        values = [None if point is None else shapely.to_wkb(shapely.Point(*point), flavor="iso") for point in points]
        column = to_arrow_type(type_).wrap_array(pa.array(values, pa.binary()))
        keys.append(f"{number}.parquet")
        pq.write_table(pa.table({"geom": column}), folder / keys[-1], row_group_size=3)
    column = ScanColumn("geom", ("geom",), None, type_)
    fast, careful = both_ways(folder, keys, column)
    for axis in AXES:
        np.testing.assert_array_equal(fast.stated[axis], careful.stated[axis])
        np.testing.assert_array_equal(fast.usable[axis], careful.usable[axis])
    for name in ("null_count", "nowhere", "bytes"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(careful, name))
