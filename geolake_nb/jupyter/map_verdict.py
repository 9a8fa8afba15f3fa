"""What the map says of a query: which files it reads and why, and what its rows cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from geolake_nb.scan.explanation import Explanation

__all__ = ["ReadSpeed", "file_marks", "reason_texts", "rows_estimate", "verdict_of"]

_MAX_SQL = 2000
"""A longer filter is not copied from the map."""
_DOUBTS = frozenset({"CRS_DIFFERS", "NO_BOUNDS", "NOT_INDEXED", "QUERY_UNBOUNDED", "UNUSABLE_BOUNDS"})


def file_marks(explanation: Explanation) -> tuple[bytes, list[str]]:
    """One byte a file: 1 for what is read, 2 and up for the reasons to skip it."""
    from geolake_nb.scan.prune import SCAN_REASONS

    skipped = [reason for reason in explanation.by_reason() if not reason.kept]
    codes = np.ones(len(SCAN_REASONS), np.uint8)
    for index, reason in enumerate(skipped):
        codes[reason.code] = 2 + index
    return codes[explanation.pruning.reasons].tobytes(), [reason.text for reason in skipped]


def verdict_of(explanation: Explanation) -> dict[str, Any]:
    """Files and bytes, read and in all, with what weakens the answer."""
    read, total = explanation.read, explanation.total
    doubts = [
        f"{plural(amount.files, 'file')}: {reason.text}"
        for reason, amount in explanation.by_reason().items()
        if reason.kept and reason.name in _DOUBTS
    ]
    return {
        "files": total.files,
        "files_read": read.files,
        "bytes": total.bytes,
        "bytes_read": read.bytes,
        "text": "; ".join([*doubts, *explanation.notes]),
        **({"sql": where} if len(where := str(explanation.where)) <= _MAX_SQL else {}),
    }


def reason_texts(explanation: Explanation) -> pa.Array:
    """Why each file is read or skipped, as a column of the table."""
    import pyarrow as pa

    from geolake_nb.scan.prune import SCAN_REASONS

    texts = pa.array([f"{'read' if reason.kept else 'skipped'}: {reason.text}" for reason in SCAN_REASONS])
    return pa.DictionaryArray.from_arrays(pa.array(explanation.pruning.reasons), texts)


class ReadSpeed:
    """How long a read takes: guessed from its bytes and files, and from the last read once there was one.

    >>> speed = ReadSpeed(is_local=True)
    >>> speed.seconds(10**9, 10) > 10 * speed.seconds(10**7, 1)
    True
    """

    def __init__(self, *, is_local: bool) -> None:
        self._start = 0.05 if is_local else 0.5
        self._per_file = 0.005 if is_local else 0.05
        self._per_byte = 1 / (20e6 if is_local else 15e6)
        self._factor = 1.0

    def seconds(self, size: int, files: int) -> float:
        """About how long a read takes."""
        return self._factor * (self._start + files * self._per_file + size * self._per_byte)

    def learn(self, size: int, files: int, seconds: float) -> None:
        """Take over what a read has taken.

        >>> speed = ReadSpeed(is_local=True)
        >>> speed.learn(10**7, 1, 3.0)
        >>> round(speed.seconds(10**7, 1), 2)
        3.0
        """
        self._factor = 1.0
        self._factor = min(20.0, max(0.05, seconds / self.seconds(size, files)))


def rows_estimate(
    explanation: Explanation, boxes: NDArray[np.float64], window: Sequence[float], speed: ReadSpeed
) -> dict[str, Any]:
    """What loading the rows in a window reads, before anything is read.

    `rows` is a guess that takes rows for evenly spread in the boxes of their files, `most` are all rows of the files
    that are read; both are `None` where they cannot be known.
    """
    kept, read = explanation.pruning.kept, explanation.read
    counts = explanation.snapshot.files.table["rows"]
    rows = None
    if not counts.null_count:
        shares = share_inside(boxes[kept], window)
        rows = _rounded(float(shares @ counts.to_numpy()[kept]), read.rows)
    seconds = speed.seconds(read.bytes, read.files)
    return {"files": read.files, "bytes": read.bytes, "most": read.rows, "rows": rows, "seconds": seconds}


def share_inside(boxes: NDArray[np.float64], window: Sequence[float]) -> NDArray[np.float64]:
    """Which part of each box in degrees lies in a window, 1 where it has no area there; either may cross 180 degrees.

    >>> boxes = np.array([[0.0, 0, 10, 10], [170, 0, -170, 10], [3, 3, 3, 3], [np.nan] * 4])
    >>> share_inside(boxes, (5, 0, 10, 10)).tolist(), share_inside(boxes, (175, 0, -175, 5)).tolist()
    ([0.5, 0.0, 1.0, 1.0], [0.0, 0.25, 1.0, 1.0])
    """
    west, south, east, north = boxes.T
    window_west, window_south, window_east, window_north = window
    wide = np.where(west > east, east + 360.0 - west, east - west)
    window_wide = window_east - window_west + (360.0 if window_west > window_east else 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = np.zeros(len(boxes))
        for turn in (-360.0, 0.0, 360.0):
            low = np.maximum(west + turn, window_west)
            inside += np.maximum(0.0, np.minimum(west + turn + wide, window_west + window_wide) - low)
        across = np.where(wide > 0, inside / wide, 1.0)
        down = np.maximum(0.0, np.minimum(north, window_north) - np.maximum(south, window_south))
        shares: NDArray[np.float64] = across * np.where(north > south, down / (north - south), 1.0)
    return np.nan_to_num(np.clip(shares, 0.0, 1.0), nan=1.0)


def _rounded(guess: float, most: int | None) -> int | None:
    """A guess with two digits, or all rows."""
    if most is None or not math.isfinite(guess):
        return None
    whole = round(guess)
    return most if whole >= most else round(whole, -max(0, len(str(whole)) - 2))
