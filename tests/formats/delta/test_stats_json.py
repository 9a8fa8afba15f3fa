from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import BoundError
from geolake_nb.formats.delta.stats_json import SIDES, point_boxes
from geolake_nb.geo.bound_codec import from_delta_wkt

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=64).map(repr),
    st.integers(-200, 200).map(str),
    st.sampled_from(["nan", "NaN", "inf", "1e999", "+1", ".5", "5.", "-0.0", "0x1", "1_0", "", "abc", "1,5"]),
)
HEADS = st.sampled_from(
    [
        "POINT(",
        "POINT (",
        "POINT Z(",
        "POINT Z (",
        "POINT M(",
        "POINT ZM (",
        "POINTZ(",
        "POINTZM(",
        "point(",
        "POINT  (",
        "POINT EMPTY",
        "LINESTRING(",
        "",
    ]
)
TEXTS = st.one_of(
    st.none(),
    st.builds(
        lambda head, words, gap, tail: head + gap.join(words) + tail,
        HEADS,
        st.lists(NUMBERS, min_size=0, max_size=5),
        st.sampled_from([" ", " ", " ", "  ", ", ", "\t"]),
        st.sampled_from([")", ")", ")", " )", "", "))"]),
    ),
    st.text(max_size=20),
)
PLAIN = st.builds(lambda x, y: f"POINT({x!r} {y!r})", st.floats(-190, 190), st.floats(-95, 95))


def one_by_one(low: str | None, high: str | None) -> tuple[list[float | None], bool]:
    if low is None or high is None:
        return [None] * 8, low is not high
    try:
        box = from_delta_wkt(low, high)
    except BoundError:
        return [None] * 8, True
    return [getattr(box, side) for side in SIDES], False


@given(st.lists(st.tuples(st.one_of(TEXTS, PLAIN), st.one_of(TEXTS, PLAIN)), max_size=8))
@settings(max_examples=400)
def test_columns_give_what_pairs_give(pairs):
    boxes = point_boxes(
        *(pa.array(list(ends), pa.string()) for ends in (zip(*pairs, strict=True) if pairs else ((), ())))
    )
    nothing = [None] * len(pairs)
    columns = [boxes.sides[side].to_pylist() if side in boxes.sides else nothing for side in SIDES]
    actual = [[column[row] for column in columns] for row in range(len(pairs))]
    has_problem = [problem is not None for problem in boxes.problem.to_pylist()]
    assert list(zip(actual, has_problem, strict=True)) == [one_by_one(*pair) for pair in pairs]


@given(st.lists(st.tuples(PLAIN, PLAIN), min_size=1, max_size=20))
@settings(max_examples=50)
def test_doubles_survive_bit_for_bit(pairs):
    lows, highs = (pa.array(list(ends)) for ends in zip(*pairs, strict=True))
    sides = point_boxes(lows, highs).sides
    for row, (low, high) in enumerate(pairs):
        expected, has_problem = one_by_one(low, high)
        if not has_problem:
            assert [sides[side][row].as_py().hex() for side in SIDES[:4]] == [value.hex() for value in expected[:4]]


def test_one_odd_text_among_many_is_read_and_spoils_no_other():
    count = 40_000
    lows = [f"POINT({row % 180} 1)" for row in range(count)]
    highs = [f"POINT({row % 180} 2)" for row in range(count)]
    lows[7], highs[20_000], highs[30_000] = "POINT(  7  1 )", "POINT(x 2)", None
    boxes = point_boxes(pa.array(lows), pa.array(highs))
    assert boxes.sides["xmin"][7].as_py() == 7
    assert boxes.sides["xmin"].null_count == 2
    problems = {row: text for row, text in enumerate(boxes.problem.to_pylist()) if text}
    assert problems == {
        20_000: "the max 'POINT(x 2)' has 'x', expected a number",
        30_000: "there is a min but no max",
    }


@pytest.mark.parametrize(
    ("low", "high", "problem"),
    [
        ("POINT(5 1)", "POINT(1 2)", None),  # across the antimeridian
        ("POINT(500 1)", "POINT(1 2)", "has a larger x than the max"),
        ("POINT(1 5)", "POINT(2 1)", "ymin"),
        ("POINT Z(1 1 5)", "POINT Z(2 2 1)", "zmin"),
        ("POINT(1 1)", "POINT Z(2 2 1)", "has XY, its upper end XYZ"),
        ("POINT(nan 1)", "POINT(2 2)", "'nan', expected a number"),
        ("POINT(1e999 1)", "POINT(2e999 2)", "a number outside the range of a double"),
        ("0101000000000000000000f03f0000000000000040", "x", "is not a WKT point"),
    ],
)
def test_an_invalid_box_has_a_reason(low, high, problem):
    boxes = point_boxes(pa.array([low]), pa.array([high]))
    reason = boxes.problem[0].as_py()
    assert (reason is None) if problem is None else (problem in reason)
    assert boxes.sides["xmin"].null_count == (problem is not None)
