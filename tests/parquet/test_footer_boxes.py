"""The box of a file, joined from those of its row groups."""

from __future__ import annotations

import math

import geoarrow.pyarrow as ga
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, StructType, geometry
from geolake_nb.parquet.footer import FooterReader
from geolake_nb.parquet.footer_boxes import locate
from geolake_nb.parquet.writer import Layout, ParquetWriter
from geolake_nb.storage.storage import Storage
from tests.oracle.wkb_write import point, write


def by_this_package(folder, values):
    layout = Layout(Schema(StructType((Field("g", geometry()),))), row_group_rows=2)
    with ParquetWriter(Storage.at(str(folder)), "a.parquet", layout) as writer:
        writer.write(pa.record_batch({"g": pa.array(values, pa.binary())}))


def by_pyarrow(folder, values):
    table = pa.table({"g": ga.wkb().wrap_array(pa.array(values, pa.binary()))})
    pq.write_table(table, folder / "a.parquet", row_group_size=2)


def whole_box(folder):
    view = FooterReader().view(pq.read_metadata(folder / "a.parquet"), where="a")
    assert view.metadata.num_row_groups == 2
    return locate(view, view.find(("g",)), geometry()).whole().box


@pytest.mark.parametrize("make", [by_this_package, by_pyarrow])
@pytest.mark.parametrize("dims", ["XYZ", "XYM", "XYZM"])
@pytest.mark.parametrize("odd", [-math.inf, math.inf])
def test_a_group_that_cannot_tell_its_z_or_m_leaves_the_file_without(tmp_path, make, dims, odd):
    last = [(5.0,), (odd,), (3.0,), (4.0,)]
    more = (7.0,) * (len(dims) - 3)
    make(tmp_path, [write(point(1.0, 2.0, *more, *values, dims=dims)) for values in last])
    box = whole_box(tmp_path)
    axis = dims[-1].lower()
    # A range from the second group alone would leave out the 5 of the first.
    assert (getattr(box, f"{axis}min"), getattr(box, f"{axis}max")) == (None, None)
    if more:
        assert box.zmin <= 7.0 <= box.zmax
    assert box.xmin <= 1.0 <= box.xmax


@pytest.mark.parametrize("make", [by_this_package, by_pyarrow])
def test_a_group_without_z_values_takes_none_away(tmp_path, make):
    flat, high = [write(point(1.0, 2.0))] * 2, [write(point(1.0, 2.0, 5.0, dims="XYZ"))] * 2
    make(tmp_path, flat + high)
    box = whole_box(tmp_path)
    assert box.zmin <= 5.0 <= box.zmax
    assert box.zmax - box.zmin < 1e-9
