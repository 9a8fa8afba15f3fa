"""The words of a magic's line, as they were typed: quotes hold a word together, and nothing is expanded."""

from __future__ import annotations

import io
import re
import shlex

from geolake_nb.errors import GeolakeError

__all__ = ["Quoted", "quoted_word", "split_words"]

_NUMBERS = re.compile(r"-[\d.][\d.,eE+-]*")
# At the end of a line IPython reads a question mark, a semicolon and a backslash for itself.
_PLAIN = re.compile(r"[^\s'\"?;\\]+")
_FLAG = re.compile(r"--[a-z-]+")


class Quoted(str):
    """A word in quotes: a string, never the name of a variable."""

    __slots__ = ()


def split_words(line: str) -> list[str]:
    """The words of a line; a backslash, `$` and braces are literal.

    >>> split_words("explain t --where \\"name = 'a b'\\"")
    ['explain', 't', '--where', "name = 'a b'"]
    >>> split_words('open "{1/0}" $HOME C:\\\\data'), split_words("")
    (['open', '{1/0}', '$HOME', 'C:\\\\data'], [])
    >>> isinstance(split_words('open "t"')[1], Quoted)
    True
    >>> split_words("explain t --box -10,35,30,60")[-1]
    '--box=-10,35,30,60'
    """
    stream = io.StringIO(line)
    lexer = shlex.shlex(stream, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    words: list[str] = []
    start = 0
    try:
        while (word := lexer.get_token()) is not None:
            typed = line[start : stream.tell()].strip()
            start = stream.tell()
            if words and _NUMBERS.fullmatch(word) and _FLAG.fullmatch(words[-1]):
                # Else a number with a sign would look like a flag.
                words[-1] = f"{words[-1]}={word}"
            else:
                words.append(Quoted(word) if typed[:1] in ("'", '"') else word)
    except ValueError:
        raise GeolakeError("unclosed quote", remedy="close it, or put the text in the other kind") from None
    return words


def quoted_word(word: str) -> str:
    r"""The word as a line has to have it; `split_words` gives it back.

    >>> quoted_word("t"), quoted_word("id = 3"), quoted_word("name = 'a'"), quoted_word("")
    ('t', '"id = 3"', '"name = \'a\'"', '""')
    """
    if _PLAIN.fullmatch(word):
        return word
    return f'"{word}"' if '"' not in word else shlex.quote(word)
