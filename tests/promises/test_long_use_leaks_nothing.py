"""Long use leaks nothing: memory stays flat, and no thread, file, socket, widget or value of ours stays behind.

`python -m tests.heavy.long_use --count 500` is the large dose.
"""

from __future__ import annotations

from tests.heavy.long_use import WARM_UP, use

# Before widgets were closed, a round kept half a MiB. What is counted below does not grow at all; the process itself
# grows by some tens of KiB a round, less with time.
MOST_BYTES = 4 << 20


def test_what_a_kernel_holds_does_not_grow(tmp_path):
    # The rounds between are a multiple of the four formats, so that both looks find the same table in hand.
    early, late = use(tmp_path, looks=(WARM_UP, WARM_UP + 28))
    assert late.objects == early.objects
    assert (late.widgets, late.comms) == (early.widgets, early.comms)
    assert (late.threads, late.files, late.sockets) == (early.threads, early.files, early.sockets)
    assert late.rss - early.rss < MOST_BYTES, f"{early}\n{late}"
