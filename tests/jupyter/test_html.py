"""The one renderer: whatever text it is given stays text."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from geolake_nb.jupyter.card_parts import card_style
from geolake_nb.jupyter.html import Markup, join, tag, visible
from geolake_nb.jupyter.magic_words import quoted_word, split_words
from tests.jupyter.html_reading import read, text_of

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!-- --><![CDATA[x]]><?php ?>",
    "</code></td></table><iframe src=javascript:alert(1)>",
    "&lt;b&gt; &amp; &#60;",
    "**bold** [link](javascript:alert(1)) `code` $x^2$",
    "{1/0} ${1/0} $(x) {{ 6 * 7 }} {% for %} {# x %s javascript:alert(1)",
    "\x1b[31mred\x1b]8;;http://x\x07",
    "two\nlines\r\n\tand a tab\0",
    "right \u202eto left\u2066",
    "\ud800 half",
    "",
]
TEXTS = st.text(st.characters(), max_size=40) | st.sampled_from(HOSTILE)


@settings(max_examples=200)
@given(TEXTS, TEXTS)
@example("</style><script>", "\x00")
def test_a_text_comes_out_as_the_same_text_and_adds_no_element(text, other):
    markup = tag("p", text, tag("b", other), class_="path", title=text, aria_label=other)
    parsed = read(markup)
    attributes = (("class", "path"), ("title", visible(text)), ("aria-label", visible(other)))
    assert parsed.elements == [("p", attributes), ("b", ())]
    assert "".join(parsed.texts) == visible(text) + visible(other)


@settings(max_examples=100)
@given(st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3), max_leaves=8))
def test_any_nesting_of_texts_makes_only_the_elements_that_were_asked_for(children):
    def build(node, depth=0):
        return (
            node if isinstance(node, str) else tag(("ul", "li", "div")[depth % 3], [build(x, depth + 1) for x in node])
        )

    def count(node):
        return 0 if isinstance(node, str) else 1 + sum(map(count, node))

    assert len(read(tag("div", build(children))).elements) == 1 + count(children)


@given(TEXTS)
def test_what_is_visible_has_a_shape_and_is_idempotent(text):
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    assert not text.isprintable() or shown == text


def test_markup_that_is_taken_apart_is_text_again():
    made = tag("b", "x")
    assert isinstance(made, Markup)
    for taken in (made + "", made[:3], made.upper(), f"{made}", made.replace("x", "y")):
        assert "&lt;" in join(taken)


@pytest.mark.parametrize("name", ["script", "iframe", "a", "img", "form", "input", "object", "p onclick=x", ""])
def test_an_element_of_no_list_is_refused(name):
    with pytest.raises(ValueError, match="unknown element"):
        tag(name)


@pytest.mark.parametrize("attribute", ["onclick", "href", "src", "style", "id", "srcdoc", "formaction"])
def test_an_attribute_of_no_list_is_refused(attribute):
    with pytest.raises(ValueError, match="unknown attribute"):
        tag("p", **{attribute: "x"})


@pytest.mark.parametrize("attribute", ["class_", "role", "scope", "colspan"])
@pytest.mark.parametrize("value", ['x" onclick="', "A B;", ""])
def test_an_attribute_of_our_own_words_takes_no_other(attribute, value):
    with pytest.raises(ValueError, match=r"unknown (class|role|scope|colspan)"):
        tag("p", **{attribute: value})


@given(st.floats(allow_nan=False))
def test_a_share_is_a_width_and_nothing_else(share):
    ((_, attributes),) = read(tag("span", share=share)).elements
    name, value = attributes[0]
    assert name == "style"
    assert value.startswith("width:")
    assert value.endswith("%")
    assert 0 <= float(value[6:-1]) <= 100


def test_the_style_sheet_touches_nothing_but_cards():
    css = text_of(card_style().replace("style>", "pre>"))
    selectors = [line.split("{")[0] for line in css.splitlines() if "{" in line and not line.startswith("@")]
    assert selectors
    for selector in selectors:
        assert all(part.strip().startswith(".geolake-card") for part in selector.split(","))
    assert "url(" not in css
    assert "@import" not in css


@pytest.mark.parametrize("css", ["</style>", "a > b", "a & b"])
def test_a_style_sheet_cannot_end_its_element(css):
    with pytest.raises(ValueError, match="style sheet"):
        tag("style", css)


@settings(max_examples=200)
@given(
    st.lists(st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=15).filter(bool), max_size=5)
)
def test_words_that_are_quoted_come_back(words):
    plain = [word for word in words if not word.startswith("-")]
    assert split_words(" ".join(map(quoted_word, plain))) == plain
