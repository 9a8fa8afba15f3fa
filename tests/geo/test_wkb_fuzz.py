from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_read_beyond_guarded_memory_ends_the_process():
    code = """
import ctypes
from tests.oracle.guard_page import GuardedMemory
memory = GuardedMemory(100)
address = memory.place_address(b"abc")
assert ctypes.string_at(address, 3) == b"abc"
ctypes.string_at(address, 4)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == -signal.SIGSEGV, done.stderr


def test_mutated_values_give_results_of_the_walk_or_typed_errors_and_nothing_is_read_beyond_the_end():
    # A process of its own: a read beyond the end would end this one.
    command = [
        sys.executable,
        "-m",
        "tests.heavy.fuzz_wkb",
        "--count",
        "20000",
        "--seed",
        "7",
        "--compare-every",
        "1",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "20,000 values" in done.stdout
