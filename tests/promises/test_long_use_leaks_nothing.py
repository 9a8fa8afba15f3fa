"""Long use leaks nothing: memory stays flat, and no thread, file, socket, widget or value of ours stays behind.

`python -m tests.heavy.long_use --count 500` is the stress run.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.heavy.long_use import TABLES, WARM_UP, Usage, faults, use

# Before widgets were closed, a round kept half a MiB. What is counted does not grow at all; the process itself grows
# by some tens of KiB a round, less with time.
MAX_GROWTH = 0.015


def test_what_a_kernel_holds_does_not_grow(tmp_path):
    # On a busy machine threads meet that do not elsewhere, and the allocator grows once; a leak grows every round.
    _, early, late = use(tmp_path, looks=(WARM_UP, WARM_UP + 5 * TABLES, WARM_UP + 10 * TABLES))
    assert list(faults(early, late, most_growth=MAX_GROWTH)) == [], f"{early}\n{late}"


USAGE = Usage(
    50, rss=300 << 20, threads=20, files=70, sockets=20, widgets=41, comms=41, live=500_000, objects={"Table": 1}
)
LATER = replace(USAGE, rounds=500)


@pytest.mark.parametrize(
    ("late", "fault"),
    [
        (LATER, None),
        (replace(LATER, rss=315 << 20), None),
        (replace(LATER, rss=316 << 20), "MiB of memory: 300 after 50 rounds, 316 after 500"),
        (replace(LATER, live=500_449), None),
        (replace(LATER, live=500_450), "values of any kind: 500,000 after 50 rounds, 500,450 after 500"),
        (replace(LATER, threads=21), "threads: 20 after 50 rounds, 21 after 500"),
        (replace(LATER, files=71), "files: 70 after 50 rounds, 71 after 500"),
        (replace(LATER, sockets=21), "sockets: 20 after 50 rounds, 21 after 500"),
        (replace(LATER, widgets=42), "widgets: 41 after 50 rounds, 42 after 500"),
        (replace(LATER, comms=42), "comms: 41 after 50 rounds, 42 after 500"),
        (replace(LATER, objects={"Table": 2}), "values of Table: 1 after 50 rounds, 2 after 500"),
        (replace(LATER, objects={"Table": 1, "Box": 3}), "values of Box: 0 after 50 rounds, 3 after 500"),
    ],
    ids=lambda value: "" if isinstance(value, Usage) else str(value).partition(":")[0],
)
def test_what_grows_is_reported(late, fault):
    assert list(faults(USAGE, late)) == ([] if fault is None else [fault])
