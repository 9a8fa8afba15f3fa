"""Times in filters, which are compared to the microsecond."""

from __future__ import annotations

import datetime as dt
import re

from geolake_nb.errors import PredicateError

__all__ = ["read_time", "read_timestamp", "require_micros"]

_FINER = re.compile(r"[.,]\d{6}0*[1-9]")


def read_timestamp(text: str) -> dt.datetime:
    """The time of a text; `ValueError` for an invalid one.

    >>> read_timestamp("2024-01-31 12:30:00.250")
    datetime.datetime(2024, 1, 31, 12, 30, 0, 250000)
    >>> read_timestamp("2024-01-31 12:30:00.123456789")
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: '2024-01-31 12:30:00.123456789': times are compared to the microsecond; give ...
    """
    _require_six_digits(text)
    return dt.datetime.fromisoformat(text.strip())


def read_time(text: str) -> dt.time:
    """The time of day of a text; `ValueError` for an invalid one.

    >>> read_time("12:30:00.000001000")
    datetime.time(12, 30, 0, 1)
    """
    _require_six_digits(text)
    return dt.time.fromisoformat(text.strip())


def require_micros(value: dt.datetime) -> dt.datetime:
    """The time, unless it is one of pandas with nanoseconds, which Python's times leave out."""
    if getattr(value, "nanosecond", 0):
        raise _too_fine(str(value))
    return value


def _require_six_digits(text: str) -> None:
    # Python cuts off further digits, engines do that or round: a file with the very value could be left out.
    if _FINER.search(text):
        raise _too_fine(text)


def _too_fine(text: str) -> PredicateError:
    remedy = "give six digits at most after the point, and a range of times for finer ones"
    return PredicateError("times are compared to the microsecond", where=repr(text), remedy=remedy)
