"""Which files are worth rewriting: those of many deletes, small ones, and those whose rows lie far apart.

Files are taken in the order of what a query reads of them in excess of the best, together with the neighbours that they
overlap, until the table is near its best or the budget is spent. The rest stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.model.file_table import physical_rows
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.layout import measured
from geolake_nb.scan.layout_model import partition_numbers
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.layout_model import LayoutModel

__all__ = ["NEAR_BEST", "MaintenanceChoice", "choose_files"]

NEAR_BEST = 1.25
"""How near to its best a table is brought: a query reads at most so many times as much."""
_DELETED = 0.05
_SMALL = 0.5
_GAIN = 0.05
"""A rewrite that saves less than this share of what a query reads is not made: it is within the error of estimates."""
_MOST_OF = 0.9
"""Where the budget does not reach the target, this share of what it can save is enough."""
_EXCESS = 1.1
"""A file that so many times the queries read of the best is clustered."""
_STEPS = 14


@dataclass(frozen=True, slots=True, eq=False)
class MaintenanceChoice:
    """The files to rewrite, and why."""

    files: tuple[int, ...]
    """Their rows in the file table, sorted."""
    notes: tuple[str, ...]


def choose_files(
    snapshot: Snapshot, model: LayoutModel | None, *, budget: int, target_bytes: int, near: float = NEAR_BEST
) -> MaintenanceChoice:
    """The smallest set of files that brings a table near its best, in so many bytes.

    Without a `model` of the layout, files are chosen for their deletes and sizes alone.
    """
    size = snapshot.files.table["bytes"].to_numpy().astype(np.float64)
    reasons: list[tuple[str, NDArray[np.bool_]]] = []
    chosen = np.zeros(len(size), np.bool_)
    for reason, wanted in (("deletes", _with_deletes(snapshot)), ("small", _small(snapshot, size, target_bytes))):
        fitting = _within(wanted & ~chosen, size, budget - float(size[chosen].sum()))
        if reason == "small" and fitting.sum() < 2 and not chosen.any():
            continue  # the budget has no room for another one to merge it with
        if reason == "small" and model is not None and _is_worse(model, chosen | fitting, near):
            continue  # they are few, and far from each other: each query would read all of them
        chosen |= fitting
        reasons.append((reason, fitting))
    measurable = model is not None and model.can_measure
    scores: list[str] = []
    if model is not None and measurable:
        spread = _spread(model, chosen, budget=budget, near=near)
        wide = spread & model.is_spread
        chosen |= spread
        reasons += [("wide", wide), ("overlapped", spread & ~wide)]
        score = measured(model)
        assert score.share is not None
        assert score.best is not None
        after = model.share_after(chosen) if chosen.any() else score.share
        scores.append(
            f"A query reads {score.share:.1%} of the bytes now, and would read {score.best:.1%} if all files were"
            f" clustered anew." + (f" After this it reads about {after:.1%}." if chosen.any() else "")
        )
    notes = [_sentence(reason, mask, size, model) for reason, mask in reasons if mask.any()]
    if not chosen.any():
        scores.append("There is nothing to maintain: no rewrite within the budget is worth its bytes.")
    else:
        used = bytes_text(int(size[chosen].sum()))
        notes.append(
            f"{plural(int((~chosen).sum()), 'file')} stay. The budget is {bytes_text(budget)}, used are {used}."
        )
    return MaintenanceChoice(tuple(np.flatnonzero(chosen).tolist()), (*scores, *notes))


def _is_worse(model: LayoutModel, chosen: NDArray[np.bool_], near: float) -> bool:
    """Whether queries would read much more after a rewrite of these files."""
    return model.can_measure and bool(chosen.any()) and model.share_after(chosen) > near * float(model.shares.mean())


def _sentence(reason: str, mask: NDArray[np.bool_], size: NDArray[np.float64], model: LayoutModel | None) -> str:
    """Why these files are rewritten."""
    which = f"{plural(int(mask.sum()), 'file')} ({bytes_text(int(size[mask].sum()))})"
    if reason == "deletes":
        return f"{which}: more than {_DELETED:.0%} of the rows are deleted."
    if reason == "small":
        return f"{which}: small, and merged with others of their partition."
    assert model is not None
    now, best = (
        float(np.average(values[mask], weights=size[mask])) for values in (model.read_by, model.ideally_read_by)
    )
    read = f"{now:.1%} of the queries read such a file, {best:.1%} would read a clustered one"
    if reason == "wide":
        return f"{which}: their rows lie far apart; {read}."
    return f"{which}: neighbours that overlap others; {read}."


def _with_deletes(snapshot: Snapshot) -> NDArray[np.bool_]:
    table = snapshot.files.table
    deleted = np.nan_to_num(table["deleted_rows"].to_numpy().astype(np.float64))
    rows = np.nan_to_num(physical_rows(table).to_numpy().astype(np.float64))
    return np.asarray(deleted > _DELETED * np.maximum(rows, deleted), np.bool_)


def _small(snapshot: Snapshot, size: NDArray[np.float64], target: int) -> NDArray[np.bool_]:
    """The small files of partitions where at most half as many could hold them: then the next run finds none."""
    partition = partition_numbers(snapshot.files.table)
    small = size < _SMALL * target
    files = np.bincount(partition[small], minlength=int(partition.max(initial=0)) + 1)
    bytes_ = np.bincount(partition[small], weights=size[small], minlength=len(files))
    return np.asarray(small & (np.ceil(bytes_ / target) * 2 <= files)[partition], np.bool_)


def _within(wanted: NDArray[np.bool_], size: NDArray[np.float64], budget: float) -> NDArray[np.bool_]:
    """Those of the files, in their order, that the budget has room for."""
    index = np.flatnonzero(wanted)
    fitting = np.zeros(len(size), np.bool_)
    fitting[index[np.cumsum(size[index]) <= budget]] = True
    return fitting


def _spread(model: LayoutModel, chosen: NDArray[np.bool_], *, budget: int, near: float) -> NDArray[np.bool_]:
    """The files to cluster beside those that are rewritten anyway."""
    nothing = np.zeros(len(model.size), np.bool_)
    share, best = float(model.shares.mean()), float(model.best.mean())
    if share <= near * best:
        return nothing
    excess = model.read_by - model.ideally_read_by
    candidates = np.flatnonzero((model.read_by > _EXCESS * model.ideally_read_by) & ~chosen)
    order = candidates[np.argsort(-excess[candidates], kind="stable")]
    spent = np.cumsum(model.size[order])
    order = order[spent <= budget - float(model.size[chosen].sum())]
    if not len(order):
        return nothing
    spent = spent[: len(order)]
    # More files of less excess each time: the steps grow by a factor.
    ends = np.searchsorted(spent, spent[-1] * 2.0 ** (-np.arange(_STEPS)[::-1] / 2), side="left") + 1
    base = model.share_after(chosen) if chosen.any() else share
    shares: dict[int, float] = {}
    for end in np.unique(np.clip(ends, 1, len(order))).tolist():
        tried = chosen.copy()
        tried[order[:end]] = True
        shares[end] = model.share_after(tried)
        if shares[end] <= near * best:
            break
    least = min(shares.values())
    if base - least < _GAIN * share:
        return nothing
    enough = max(near * best, base - _MOST_OF * (base - least)) if least > near * best else near * best
    taken = order[: min(end for end, after in shares.items() if after <= enough)]
    nothing[taken] = True
    return nothing
