"""EWKB to ISO WKB against a writer of both, over trees whose every level has a dialect of its own."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.geo.encodings import to_iso_wkb
from tests.oracle.wkb_write import NAMES, Shape, collection, point, write
from tests.strategies import geometries


def iso(shape: Shape) -> Shape:
    """The same tree, byte orders included, without anything of EWKB."""
    return replace(shape, ewkb=False, srid=None, children=tuple(iso(child) for child in shape.children))


def srids(shape: Shape) -> set[int]:
    own = {shape.srid} if shape.srid else set()
    return own.union(*(srids(child) for child in shape.children))


@given(st.lists(st.one_of(st.none(), geometries(kinds=tuple(NAMES))), max_size=8), st.booleans(), st.integers(0, 3))
@settings(max_examples=300)
def test_flags_and_srids_go_at_every_depth(shapes, wide, cut):
    values = [None if shape is None else write(shape) for shape in shapes]
    column = pa.array(values, pa.large_binary() if wide else pa.binary())[cut:]
    iso_wkb = to_iso_wkb(column)
    assert iso_wkb.values.type == column.type
    assert iso_wkb.values.to_pylist() == [None if shape is None else write(iso(shape)) for shape in shapes[cut:]]
    for row, shape in enumerate(shapes[cut:]):
        named = set() if shape is None else srids(shape)
        stored = {srid for srid, rows in iso_wkb.srids.items() if row in rows}
        assert stored == ({None} if len(named) > 1 else named)


def test_a_column_of_iso_wkb_is_not_copied():
    column = pa.array([write(point(1.0, 2.0, 3.0, dims="XYZ")), None])
    assert to_iso_wkb(column).values is column


@pytest.mark.parametrize(
    "text", ["POINT ZM (1 2 3 4)", "MULTIPOLYGON Z (((0 0 1, 1 0 2, 1 1 3, 0 0 1)))", "POINT EMPTY"]
)
def test_geos_reads_the_same_shape(text):
    shape = shapely.set_srid(shapely.from_wkt(text), 25832)
    ewkb = shapely.to_wkb(shape, flavor="extended", include_srid=True, output_dimension=4)
    iso_wkb = to_iso_wkb(pa.array([ewkb]))
    assert list(iso_wkb.srids) == [25832]
    assert iso_wkb.values[0].as_py() == shapely.to_wkb(shape, flavor="iso", output_dimension=4)


def test_a_member_alone_may_have_the_flags():
    iso_wkb = to_iso_wkb(pa.array([write(collection(point(1.0, 2.0, srid=7, ewkb=True), point(3.0, 4.0)))]))
    assert list(iso_wkb.srids) == [7]
    assert iso_wkb.values[0].as_py() == write(collection(point(1.0, 2.0), point(3.0, 4.0)))
