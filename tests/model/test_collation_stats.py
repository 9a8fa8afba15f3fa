import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import CollationError
from geolake_nb.model.collation import Collation
from geolake_nb.model.collation_stats import (
    CollationHints,
    FilterRange,
    StringRange,
    WhyUnusable,
    collated_range,
    collations_in_stats,
    range_for_filter,
    with_collated_range,
    without_collation,
)

ENGLISH = Collation.parse("ICU.en_US.72")

# The shape that Delta's text on collations draws for a: struct<b: struct<c: long>>, d: struct<e: string>.
STATS = {
    "numRecords": 3,
    "tightBounds": True,
    "minValues": {"a": {"b": {"c": 1}}},
    "maxValues": {"a": {"b": {"c": 9}}},
    "statsWithCollation": {
        "ICU.en_US.72": {"minValues": {"d": {"e": "ant"}}, "maxValues": {"d": {"e": "Zoo"}}},
    },
}
BOTH = {**STATS, "minValues": {"d": {"e": "Zoo"}}, "maxValues": {"d": {"e": "ant"}}}
E = ("d", "e")


class TestHints:
    TEXT = '{"writeVersions": {"ICU.en_US": ["72", "73"]}}'

    def test_the_example_of_the_text(self):
        hints = CollationHints.parse(self.TEXT)
        assert [str(each) for each in hints.collations] == ["icu.en_US.72", "icu.en_US.73"]
        assert hints.versions_of(ENGLISH) == ("72", "73")
        assert json.loads(hints.to_json()) == json.loads(self.TEXT)

    def test_a_version_joins_under_the_spelling_that_is_there(self):
        hints = CollationHints.parse(self.TEXT).adding(Collation.parse("icu.en_US.76.1"))
        assert json.loads(hints.to_json()) == {"writeVersions": {"ICU.en_US": ["72", "73", "76.1"]}}
        assert hints.adding(ENGLISH) is hints

    def test_a_new_collation_is_spelled_as_spark_spells_it(self):
        hints = CollationHints().adding(Collation.parse("ICU.de.76.1"))
        assert hints.to_json() == '{"writeVersions":{"icu.de":["76.1"]}}'

    def test_a_version_leaves_and_with_the_last_one_the_collation(self):
        hints = CollationHints.parse(self.TEXT).removing(ENGLISH)
        assert hints.versions_of(ENGLISH) == ("73",)
        assert hints.removing(ENGLISH) is hints
        assert hints.removing(Collation.parse("ICU.en_US.73")).collations == ()

    def test_unknown_keys_and_identifiers_survive_every_change(self):
        text = '{"readVersions": {"x": 1}, "writeVersions": {"odd": ["1"], "ICU.da": ["72"], "icu.none": []}}'
        hints = CollationHints.parse(text)
        changed = hints.adding(ENGLISH).removing(Collation.parse("icu.da.72")).merged(CollationHints())
        assert json.loads(changed.to_json()) == {
            "readVersions": {"x": 1},
            "writeVersions": {"odd": ["1"], "icu.none": [], "icu.en_US": ["72"]},
        }
        assert CollationHints().merged(hints).configuration == {
            "readVersions": {"x": 1},
            "writeVersions": {"icu.da": ["72"], "odd": ["1"]},
        }

    def test_a_change_leaves_the_old_hints_alone(self):
        hints = CollationHints.parse(self.TEXT)
        before = copy.deepcopy(hints.configuration)
        hints.adding(Collation.parse("icu.en_US.99")).removing(ENGLISH)
        assert hints.configuration == before

    @pytest.mark.parametrize(
        "text",
        [
            "{",
            "[]",
            "7",
            "[" * 100000,
            '{"writeVersions": []}',
            '{"writeVersions": {"icu.de": "72"}}',
            '{"writeVersions": {"icu.de": [72]}}',
        ],
    )
    def test_what_is_no_hint_is_a_typed_error(self, text):
        with pytest.raises(CollationError, match="the domain metadata 'collations'"):
            CollationHints.parse(text)

    def test_a_hint_needs_a_version(self):
        with pytest.raises(CollationError, match="has no version"):
            CollationHints().adding(Collation.parse("icu.de"))


class TestStats:
    def test_the_example_of_the_text(self):
        assert collations_in_stats(STATS) == (ENGLISH,)
        assert collated_range(STATS, E, ENGLISH) == StringRange("ant", "Zoo")
        assert collated_range(STATS, E, Collation.parse("icu.en_US.69")) is None
        assert collated_range(STATS, ("d",), ENGLISH) is None
        assert collated_range(STATS, ("d", "e", "f"), ENGLISH) is None

    def test_writing_keeps_everything_else(self):
        before = copy.deepcopy(STATS)
        german = Collation.parse("icu.de.76.1")
        after = with_collated_range(STATS, ("d", "g"), ENGLISH, StringRange("a", "b"))
        after = with_collated_range(after, ("n",), german, StringRange("c", None))
        assert before == STATS
        assert after == {
            **STATS,
            "statsWithCollation": {
                "ICU.en_US.72": {
                    "minValues": {"d": {"e": "ant", "g": "a"}},
                    "maxValues": {"d": {"e": "Zoo", "g": "b"}},
                },
                "icu.de.76.1": {"minValues": {"n": "c"}},
            },
        }

    def test_taking_out_what_was_written_gives_the_old_statistics(self):
        after = with_collated_range(STATS, ("x", "y"), ENGLISH, StringRange("a", "b"))
        assert with_collated_range(after, ("x", "y"), ENGLISH, StringRange()) == STATS
        assert with_collated_range({"numRecords": 1}, ("x",), ENGLISH, StringRange()) == {"numRecords": 1}

    def test_a_collation_goes_as_a_whole(self):
        stripped = {key: value for key, value in STATS.items() if key != "statsWithCollation"}
        assert without_collation(STATS, ENGLISH) == stripped
        assert without_collation(stripped, ENGLISH) == stripped
        assert without_collation(STATS, Collation.parse("icu.en_US.73")) == STATS

    def test_a_long_value_is_left_out_and_never_cut(self):
        long = "x" * 100
        whole = with_collated_range({}, ("n",), ENGLISH, StringRange("a", long))
        assert collated_range(whole, ("n",), ENGLISH) == StringRange("a", long)
        short = with_collated_range({}, ("n",), ENGLISH, StringRange("a", long), max_length=32)
        assert short == {"statsWithCollation": {"icu.en_US.72": {"minValues": {"n": "a"}}}}

    @pytest.mark.parametrize("text", ["icu.de", "spark.UTF8_BINARY.75.1"])
    def test_statistics_need_a_version_and_a_collation_that_is_not_the_default(self, text):
        with pytest.raises(CollationError):
            with_collated_range({}, ("n",), Collation.parse(text), StringRange("a", "b"))

    @pytest.mark.parametrize(
        "stored",
        [
            None,
            [],
            "x",
            {"ICU.en_US.72": None},
            {"ICU.en_US.72": {"minValues": []}},
            {"odd": {"minValues": {}}},
            {"ICU.en_US.72": {"minValues": {"d": {"e": 7}}, "maxValues": {"d": None}}},
        ],
    )
    def test_odd_shapes_hold_nothing(self, stored):
        stats = {"statsWithCollation": stored}
        assert collations_in_stats(stats, E) == ()
        assert collated_range(stats, E, ENGLISH) is None
        written = with_collated_range(stats, E, ENGLISH, StringRange("a", "b"))
        assert collated_range(written, E, ENGLISH) == StringRange("a", "b")

    @given(st.lists(st.text(max_size=3), min_size=1, max_size=4), st.text(), st.text())
    @settings(max_examples=200)
    def test_what_is_written_is_read_through_json(self, column, low, high):
        stats = with_collated_range(STATS, column, ENGLISH, StringRange(low, high))
        stats = json.loads(json.dumps(stats))
        assert collated_range(stats, column, ENGLISH) == StringRange(low, high)
        assert {key: stats[key] for key in STATS if key != "statsWithCollation"} == {
            key: STATS[key] for key in STATS if key != "statsWithCollation"
        }


class TestSkipping:
    @pytest.mark.parametrize("collation", [None, Collation("spark", "UTF8_BINARY"), Collation("spark", "utf8_binary")])
    def test_a_binary_comparison_uses_the_plain_values(self, collation):
        usable_range = range_for_filter(BOTH, E, collation, collators=[ENGLISH])
        assert usable_range == FilterRange(StringRange("Zoo", "ant"))

    def test_a_binary_comparison_never_uses_collated_values(self):
        assert range_for_filter(STATS, E, None) == FilterRange(why=WhyUnusable.NO_STATS)

    def test_the_very_collation_with_its_collator_uses_its_values(self):
        usable_range = range_for_filter(BOTH, E, ENGLISH, collators={ENGLISH}, prefix_length=32)
        assert usable_range == FilterRange(StringRange("ant", "Zoo"))

    # Delta collations, Reader requirements: ICU.en_US.72 uses neither spark.UTF8_LCASE.75.1 nor ICU.en_US.69.
    @pytest.mark.parametrize(
        ("collation", "why"),
        [
            ("icu.en_US.69", WhyUnusable.VERSION_DIFFERS),
            ("spark.UTF8_LCASE.75.1", WhyUnusable.NO_COLLATED_STATS),
            ("icu.en_us.72", WhyUnusable.NO_COLLATED_STATS),
            ("glibc.en_US.72", WhyUnusable.NO_COLLATED_STATS),
            ("icu.en_US", WhyUnusable.NO_VERSION),
        ],
    )
    def test_any_difference_keeps_the_file(self, collation, why):
        other = Collation.parse(collation)
        assert range_for_filter(BOTH, E, other, collators=[other, ENGLISH]) == FilterRange(why=why)

    def test_without_a_collator_of_that_version_the_file_is_kept(self):
        near = [Collation.parse("icu.en_US.73"), Collation.parse("icu.en_US")]
        usable_range = range_for_filter(BOTH, E, ENGLISH, collators=near)
        assert usable_range == FilterRange(why=WhyUnusable.NO_COLLATOR)

    def test_plain_values_serve_no_collation(self):
        stats = {"minValues": {"n": "a"}, "maxValues": {"n": "b"}}
        usable_range = range_for_filter(stats, ("n",), ENGLISH, collators=[ENGLISH])
        assert usable_range == FilterRange(why=WhyUnusable.BINARY_ONLY)

    @pytest.mark.parametrize("collation", [None, ENGLISH])
    @pytest.mark.parametrize("stats", [{}, {"minValues": {"n": None}, "maxValues": {}}, {"minValues": None}])
    def test_a_file_without_values_is_kept(self, stats, collation):
        usable_range = range_for_filter(stats, ("n",), collation, collators=[ENGLISH])
        assert usable_range == FilterRange(why=WhyUnusable.NO_STATS)

    def test_statistics_without_a_version_are_used_by_no_filter(self):
        stats = {"statsWithCollation": {"icu.en_US": {"minValues": {"n": "a"}}}}
        for text in ("icu.en_US", "icu.en_US.72"):
            other = Collation.parse(text)
            assert range_for_filter(stats, ("n",), other, collators=[other]).range is None

    # Delta's writers cut at 32 characters unless told otherwise, and mark a cut maximum: sound in binary order only.
    @pytest.mark.parametrize(
        ("low", "high", "usable"),
        [
            ("a" * 32, "b", StringRange(None, "b")),
            ("a" * 31, "b" * 32, StringRange("a" * 31, "b" * 32)),
            ("a" * 33, "b" * 200, StringRange("a" * 33, "b" * 200)),
            ("a", "b" * 32 + "\x7f", StringRange("a", None)),
            ("a", "b" * 40 + "\U0010ffff", StringRange("a", None)),
            ("a" * 32, "b" * 32 + "\ufffd", None),
            (None, "b", StringRange(None, "b")),
        ],
    )
    def test_values_that_may_have_been_cut_are_not_used(self, low, high, usable):
        stats = with_collated_range({}, ("n",), ENGLISH, StringRange(low, high))
        usable_range = range_for_filter(stats, ("n",), ENGLISH, collators=[ENGLISH], prefix_length=32)
        assert usable_range == (FilterRange(usable) if usable else FilterRange(why=WhyUnusable.MAYBE_CUT))

    @pytest.mark.parametrize(
        ("low", "prefix_length", "trusted"),
        [
            ("a" * 8, 8, False),
            ("a" * 7, 8, True),
            ("a" * 9, 8, True),
            ("a" * 32, 8, True),
            ("a" * 100, 0, True),
            # Four characters of two UTF-16 units each, and of four bytes.
            ("\U0001f600" * 4, 8, False),
            ("\U0001f600" * 2, 8, False),
            ("\U0001f600", 8, True),
            ("a", None, False),
            ("a" * 40, None, False),
            ("", None, True),
        ],
    )
    def test_a_minimum_is_trusted_only_where_no_prefix_can_look_like_it(self, low, prefix_length, trusted):
        stats = with_collated_range({}, ("n",), ENGLISH, StringRange(low, "z"))
        usable_range = range_for_filter(stats, ("n",), ENGLISH, collators=[ENGLISH], prefix_length=prefix_length)
        assert usable_range == FilterRange(StringRange(low if trusted else None, "z"))
