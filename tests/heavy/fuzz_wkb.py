"""Mutated WKB against the reader: `python -m tests.heavy.fuzz_wkb --count 1000000 --seed 1`.

Every value ends at a page that may not be read, so that a read beyond it ends the process. A sample is
compared with the independent walk. Memory and the time of each batch are watched.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import struct
import sys
import time
import warnings
from dataclasses import dataclass, field
from unittest import mock

import pyarrow as pa

import geolake_nb as gl
from geolake_nb.geo.bounds import BadValueWarning
from geolake_nb.geo.wkb import WkbError, read_wkb
from tests.oracle import wkb_walk
from tests.oracle.guard_page import GuardedMemory
from tests.oracle.wkb_write import NAMES, collection, point, write
from tests.strategies import make_geometries

__all__ = ["Report", "difference", "fuzz", "mutate", "seeds"]

BATCH = 10_000
BATCH_SECONDS = 120
FLAT_MEGABYTES = 48
COUNTS = (0, 1, 2, 3, 0xFF, 0xFFFF, 0x0FFFFFFF, 0x10000000, 0x1FFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
TYPES = tuple(
    (kind + iso) | flags
    for kind in (0, *range(1, 20), 255)
    for iso in (0, 1000, 2000, 3000, 4000)
    for flags in (0, 0x20000000, 0x40000000, 0x80000000, 0xE0000000, 0x10000000)
)


def seeds(seed: int, count: int = 3000) -> list[bytes]:
    """Valid values of every kind, and some that are nested deep."""
    values = [write(shape) for shape in make_geometries(seed, count, kinds=tuple(NAMES))]
    for levels in (2, 5, 50, 120, 140, 1000):
        shape = write(collection(point(1, 2)))
        for _ in range(levels):
            shape = b"\x01\x07\x00\x00\x00\x01\x00\x00\x00" + shape
        values.append(shape)
    return [value for value in values if len(value) < 20_000]


def mutate(rng: random.Random, values: list[bytes]) -> bytes:
    """One value with one to three faults put in."""
    value = bytearray(rng.choice(values))
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not value:
            break
        way = rng.randrange(9)
        index = rng.randrange(len(value))
        if way == 0:
            for _ in range(rng.randint(1, 4)):
                value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
        elif way == 1:
            del value[index:]
        elif way == 2:
            value += rng.randbytes(rng.choice((1, 4, 8, 9, 16)))
        elif way == 3:
            other = rng.choice(values)
            value[index:] = other[rng.randrange(len(other)) :]
        elif way == 4:
            value[index : index + 4] = struct.pack(rng.choice("<>") + "I", rng.choice(COUNTS))
        elif way == 5:
            # The first count of a value without SRID stands at 5.
            value[5:9] = struct.pack(rng.choice("<>") + "I", rng.choice(COUNTS))
        elif way == 6:
            order = "<" if value[0] == 1 else ">"
            value[1:5] = struct.pack(order + "I", rng.choice(TYPES))
        elif way == 7:
            headers = [i for i in range(len(value) - 5) if value[i] in (0, 1) and _looks_like(value, i)]
            start = rng.choice(headers or [0])
            if rng.random() < 0.3:
                value[start] = rng.choice((0, 1, 2, 0x80, 0xFF))
            else:
                order = "<" if value[start] == 1 else ">"
                value[start + 1 : start + 5] = struct.pack(order + "I", rng.choice(TYPES))
        else:
            other = rng.choice(values)
            value[index:index] = other[: rng.randint(1, 64)]
    return bytes(value)


def _looks_like(value: bytearray, start: int) -> bool:
    code = struct.unpack_from("<I" if value[start] else ">I", value, start + 1)[0]
    return 0 < (code & 0x1FFFFFFF) % 1000 < 20 and (code & 0x1FFFFFFF) < 4000


def expected(value: bytes) -> tuple[wkb_walk.Walk | None, bool]:
    """What the independent walk says (None: a bad value), and whether the other answer is right too."""
    try:
        result = wkb_walk.walk(value)
    except wkb_walk.TooDeepError:
        # Whether the outermost level counts is not said: one or two levels more or less are open.
        with mock.patch.object(wkb_walk, "MAX_DEPTH", wkb_walk.MAX_DEPTH + 2):
            try:
                wkb_walk.walk(value)
            except wkb_walk.BadError:
                return None, False
        return None, True
    except wkb_walk.BadError:
        return None, False
    return result, bool(result.contested) or result.depth > wkb_walk.MAX_DEPTH - 2


def difference(value: bytes, info: object | None) -> str | None:
    """How the reader's answer (None: a typed error) differs from the independent walk's, if it does."""
    walked, open_question = expected(value)
    if info is None or walked is None:
        if (info is None) == (walked is None) or open_question:
            return None
        return f"{value.hex()}: read as {info}, walked as {walked}"
    problems = []
    if info.type_code != walked.code:
        problems.append(f"type {info.type_code} for {walked.code}")
    if (info.srid is None) != (walked.srid is None) or (
        info.srid is not None and (info.srid - walked.srid) & 0xFFFFFFFF
    ):
        problems.append(f"SRID {info.srid} for {walked.srid}")
    if info.empty != walked.empty:
        problems.append(f"empty {info.empty} for {walked.empty}")
    sides = None if info.box is None else _sides(info.box)
    if not walked.arcs and "an arc without its three points" not in walked.contested:
        if sides != walked.sides:
            problems.append(f"box {sides} for {walked.sides}")
    elif sides is not None and walked.sides is not None and not _holds(sides, walked.sides):
        problems.append(f"box {sides} leaves out vertices {walked.sides}")
    return f"{value.hex()}: {', '.join(problems)}" if problems else None


def _sides(box) -> tuple[float | None, ...]:
    return box.xmin, box.ymin, box.xmax, box.ymax, box.zmin, box.zmax, box.mmin, box.mmax


def _holds(outer, inner) -> bool:
    for low, high in ((0, 2), (1, 3), (4, 5), (6, 7)):
        if inner[low] is not None and not (outer[low] <= inner[low] and outer[high] >= inner[high]):
            return False
    return True


@dataclass
class Report:
    """What a run found."""

    values: int = 0
    good: int = 0
    bad: int = 0
    compared: int = 0
    seconds: float = 0.0
    megabytes_grown: float = 0.0
    peak_grown: float = 0.0
    column_rows_per_second: float = 0.0
    differences: list[str] = field(default_factory=list)


def _resident_megabytes() -> float:
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _guarded_column(memory: GuardedMemory, values: list[bytes]) -> pa.Array:
    """A binary column whose last value ends at the forbidden page."""
    data = b"".join(values)
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value))
    address = memory.place_address(data)
    buffers = [
        None,
        pa.array(offsets, pa.int32()).buffers()[1],
        pa.foreign_buffer(address, len(data), memory),
    ]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def fuzz(count: int, seed: int, compare_every: int = 10, progress: bool = False) -> Report:
    """Read that many mutated values; any error that is not a typed one ends the run."""
    rng = random.Random(seed)
    values = seeds(seed)
    memory = GuardedMemory(1 << 16)
    column_memory = GuardedMemory(1 << 25)
    report = Report()
    start = time.perf_counter()
    column_rows, column_seconds = 0, 0.0
    settled = peak = None
    while report.values < count:
        faulthandler.dump_traceback_later(BATCH_SECONDS, exit=True)
        batch = [mutate(rng, values) for _ in range(min(BATCH, count - report.values))]
        wrong = 0
        for index, value in enumerate(batch):
            if len(value) > memory.size:
                memory = GuardedMemory(len(value))
            try:
                info = read_wkb(memory.place(value))
            except WkbError as error:
                info = None
                wrong += 1
                if not 0 <= error.offset <= len(value):
                    report.differences.append(f"{value.hex()}: offset {error.offset} of {len(value)}")
            if index % compare_every == 0:
                report.compared += 1
                problem = difference(value, info)
                if problem:
                    report.differences.append(problem)
        report.bad += wrong
        report.good += len(batch) - wrong
        column = _guarded_column(column_memory, batch)
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BadValueWarning)
            stats = gl.bounds(column)
        column_seconds += time.perf_counter() - begun
        column_rows += len(batch)
        if stats.bad != wrong:
            report.differences.append(f"column of {len(batch)}: {stats.bad} bad, one by one {wrong}")
        report.values += len(batch)
        faulthandler.cancel_dump_traceback_later()
        if settled is None:  # the first batch compiles and loads
            settled, peak = _resident_megabytes(), _peak_megabytes()
        if progress and report.values % (10 * BATCH) == 0:
            print(f"{report.values:,} values, {_resident_megabytes():.0f} MB", flush=True)
        if len(report.differences) > 20:
            break
    report.seconds = time.perf_counter() - start
    report.megabytes_grown = _resident_megabytes() - (settled or 0)
    report.peak_grown = _peak_megabytes() - (peak or 0)
    report.column_rows_per_second = column_rows / max(column_seconds, 1e-9)
    return report


def main(arguments: list[str] | None = None) -> int:
    """Run, print the report, and fail on any difference or on growing memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare-every", type=int, default=10)
    options = parser.parse_args(arguments)
    faulthandler.enable()
    report = fuzz(options.count, options.seed, options.compare_every, progress=True)
    for problem in report.differences[:20]:
        print("DIFFERENT", problem[:2000])
    print(
        f"{report.values:,} values in {report.seconds:.1f} s: {report.good:,} read, {report.bad:,} typed "
        f"errors, {report.compared:,} compared; memory +{report.megabytes_grown:.1f} MB, peak "
        f"+{report.peak_grown:.1f} MB; columns {report.column_rows_per_second:,.0f} rows/s"
    )
    if report.differences:
        return 1
    if max(report.megabytes_grown, report.peak_grown) > FLAT_MEGABYTES:
        print(f"memory is not flat: more than {FLAT_MEGABYTES} MB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
