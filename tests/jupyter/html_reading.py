"""What a browser would make of HTML, by Python's own parser."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"br"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data!r}")

    def handle_decl(self, decl):
        raise AssertionError(f"a declaration: {decl!r}")

    def unknown_decl(self, data):
        raise AssertionError(f"a declaration: {data!r}")

    def handle_pi(self, data):
        raise AssertionError(f"an instruction: {data!r}")


def read(markup: str) -> _Reader:
    """The elements with their attributes, and the text; every element is closed in its turn."""
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    assert not reader.open
    return reader


def text_of(markup: str) -> str:
    return "".join(read(markup).texts)


def shape_of(markup: str) -> list[tuple[str, tuple[str, ...], str | None]]:
    """Which elements there are with which attributes, and their classes; not what they say."""
    return [(tag, tuple(name for name, _ in attrs), dict(attrs).get("class")) for tag, attrs in read(markup).elements]
