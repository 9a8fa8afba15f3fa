"""Which task writes a row, so that tasks write files of about the target size."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.changes.clustering import NOWHERE, split_points

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.changes.clustering import Keying
    from geolake_nb.changes.sampling import Partition, Sample

__all__ = ["Placement", "Slot", "place_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The tasks of one partition: one for each file, or one that small partitions share."""

    first: int
    files: int
    placed: int
    """How many of the files are for rows with a location; 0 where rows have no keys."""
    splits: NDArray[np.int64]
    """The keys at which the next of those files starts."""

    def tasks_of(self, keys: NDArray[np.int64], turn: int) -> NDArray[np.int64]:
        """The task of each row by its key; null and empty geometries go to the other files, or to the last one."""
        files = np.searchsorted(self.splits, keys, side="right")
        others = self.files - self.placed
        files[keys >= NOWHERE] = self.placed + turn % others if others else self.placed - 1
        return self.first + files


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The task of each row; it is sent to other processes."""

    keying: Keying | None
    slots: Mapping[Partition, Slot]
    tasks: int

    def tasks_of(
        self, partitions: Sequence[Partition], codes: NDArray[np.int64], keys: NDArray[np.int64] | None, *, turn: int
    ) -> NDArray[np.int32]:
        """The task of each row, by its partition and its key.

        Null and empty geometries are spread over tasks by `turn`, the number of their part of the source, so that a
        part that has to be read again goes to the same tasks.
        """
        tasks = np.zeros(len(codes), np.int32)
        for code in np.unique(codes).tolist():
            mine = codes == code
            slot = self.slots.get(partitions[code])
            if slot is None:
                # An unexpected partition: another text for the same value.
                tasks[mine] = zlib.crc32(repr(partitions[code]).encode()) % max(1, self.tasks)
            elif keys is None:
                tasks[mine] = slot.first + turn % slot.files
            else:
                tasks[mine] = slot.tasks_of(keys[mine], turn)
        return tasks


def place_rows(
    sizes: Mapping[Partition, int], target: int, *, keying: Keying | None = None, sample: Sample | None = None
) -> Placement:
    """The tasks for partitions of these sizes in bytes.

    >>> placed = place_rows({("a",): 250, ("b",): 30, ("c",): 40, ("d",): 50}, 100)
    >>> [(slot.first, slot.files) for slot in placed.slots.values()], placed.tasks
    ([(0, 3), (3, 1), (3, 1), (4, 1)], 5)
    >>> place_rows({}, 100).tasks
    0
    """
    known = None
    if keying is not None and sample is not None:
        keys = keying.keys([sample.columns[path] for path in keying.ordering.columns])
        known = {partition: keys[sample.codes == code] for code, partition in enumerate(sample.partitions)}
    slots: dict[Partition, Slot] = {}
    tasks, room = 0, 0
    for partition, size in sizes.items():
        files = max(1, math.ceil(size / target))
        shared = files == 1 and room >= size
        first = tasks - 1 if shared else tasks
        slots[partition] = _slot(first, files, None if known is None else known.get(partition, _NONE))
        if shared:
            room -= size
            continue
        tasks += files
        room = target - size if files == 1 else 0
    return Placement(keying, slots, tasks)


_NONE: NDArray[np.int64] = np.array([], np.int64)


def _slot(first: int, files: int, keys: NDArray[np.int64] | None) -> Slot:
    """The tasks of a partition, of which some sampled rows have these keys."""
    if keys is None:
        return Slot(first, files, 0, _NONE)
    # Null and empty geometries get files of their own where they would fill some.
    share = float((keys < NOWHERE).mean()) if len(keys) else 1.0
    placed = min(files, max(1 if files == 1 or share else 0, round(files * share)))
    splits = split_points(keys, placed)
    return Slot(first, files, placed, splits)
