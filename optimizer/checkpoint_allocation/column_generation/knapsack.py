"""The best set of checkpoints for one node, and what it costs to insist on a checkpoint, or to do without it.

    maximise sum_j v[j] x[j]   subject to   sum_j l[j] x[j] <= room,   x binary

Sorted by v / l, the linear relaxation takes a head of the list and a part of the next one, at the price p of room. A
checkpoint whose |v - p l| exceeds what the relaxation is above a feasible answer is decided: in when v > p l. The
others, the core, are decided by dynamic programming over whole loads; first a small core, whose answer may show that it
was enough. Values are whole numbers in float64, so that sums are exact; only v - p l is rounded, and the comparison
allows for that. `penalties` uses the same price to bound each checkpoint's loss when it is put in or left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.params import DEFAULT, ColumnGenerationParameters

_ROUNDING = 1e-12  # relative to the largest value, of v - p l


@dataclass(frozen=True)
class _Relaxed:
    """The linear relaxation: positions sorted by v / l, length of the head, price of room, value, a feasible value."""

    order: IntArray
    head: int
    price: float
    value: float
    filled: float


def best_set(
    value: FloatArray,
    load: IntArray,
    room: int,
    work: Budget | None = None,
    parameters: ColumnGenerationParameters = DEFAULT.columns,
) -> tuple[float, IntArray]:
    """Return the largest value, and the positions of a set that has it; the work is counted in the budget.

    `value` (J,) are whole numbers in float64, negative or -inf where a checkpoint is not wanted; `load` (J,) and `room`
    are whole. Sums of values must stay below 2^53.
    """
    work, few = work or Budget(), parameters.knapsack_core
    # What has no value, or does not fit alone, is in no best set.
    can = np.flatnonzero((value > 0) & (load <= room))
    v, w = value[can], load[can]
    if w.sum() <= room:
        work.knapsack(len(value), 0)
        return float(v.sum()), can
    relaxed = _relaxed(v, w, room, parameters.knapsack_tried)
    gain = v - relaxed.price * w
    size = np.abs(gain)
    rounding = _ROUNDING * float(v.max())
    # An item whose gain exceeds the distance to a feasible value is decided: changing it would cost more than that.
    margin = relaxed.value - relaxed.filled + rounding
    if int((size <= margin).sum()) > few:  # the nearest items alone mostly reach the relaxation, or come close
        near = np.argsort(size, kind="stable")[:few]
        core = np.zeros(len(v), dtype=np.bool_)
        core[near] = True
        best, chosen = _with_core(v, w, room, gain, core, work)
        margin = relaxed.value - best + rounding
        # Values are whole, so a distance below 1 is none; else the items outside the core must be decided by the new
        # margin.
        if margin < 1 or float(size[~core].min()) > margin:
            return best, can[chosen]
    # The larger core has every undecided item, so its answer is the best one without a further test.
    core = size <= margin
    best, chosen = _with_core(v, w, room, gain, core, work)
    return best, can[chosen]


def priced(value: FloatArray, load: IntArray, room: int) -> FloatArray:
    """Return v - p l of each checkpoint (J,), p the price of room in the relaxation; -inf where it does not fit."""
    fits = np.isfinite(value) & (load <= room)
    can = np.flatnonzero(fits & (value > 0))
    price = _relaxed(value[can], load[can], room, 0).price if load[can].sum() > room else 0.0
    return np.where(fits, np.where(fits, value, 0.0) - price * load, -np.inf)


def _with_core(
    v: FloatArray, w: IntArray, room: int, gain: FloatArray, core: BoolArray, work: Budget
) -> tuple[float, IntArray]:
    """Return the best value, and its positions, when items of positive gain outside the core are in, and others not."""
    sure = (gain > 0) & ~core
    if w[sure].sum() > room:  # values too far apart for gains to be told apart: all is open
        core, sure = np.ones_like(core), np.zeros_like(sure)
    core_load = w[core]
    # More room than the core can fill would only lengthen the table.
    left = min(room - int(w[sure].sum()), int(core_load.sum()))
    work.knapsack(len(v), len(core_load) * left)
    best, chosen = _filled(v[core], core_load, left)
    return float(v[sure].sum()) + best, np.concatenate([np.flatnonzero(sure), np.flatnonzero(core)[chosen]])


def _relaxed(v: FloatArray, w: IntArray, room: int, tried: int) -> _Relaxed:
    """Return the linear relaxation, with a feasible value: the head and the next `tried` items that still fit."""
    rate = v / np.maximum(w, 1e-9)
    order = np.argsort(-rate, kind="stable")
    loads = np.cumsum(w[order])
    # "right": an item that fills the room exactly still belongs to the head.
    head = int(np.searchsorted(loads, room, side="right"))
    left = room - int(loads[head - 1]) if head else room
    got = float(v[order[:head]].sum())
    price = float(rate[order[head]])
    filled = got
    rest = left
    # A few of the next items fill the rest: the better this answer, the smaller the core.
    for k in order[head : head + tried].tolist():
        if w[k] <= rest:
            filled += float(v[k])
            rest -= int(w[k])
    return _Relaxed(order, head, price, got + left * price, filled)


def _filled(v: FloatArray, w: IntArray, room: int) -> tuple[float, IntArray]:
    """Return the best value and its positions, by dynamic programming over the load."""
    best = np.zeros(room + 1)
    take = np.zeros((len(v), room + 1), dtype=np.bool_)
    # Items one by one, loads as one array operation: the inner loop is the room.
    for k, (value, load) in enumerate(zip(v.tolist(), w.tolist(), strict=True)):
        if load > room:
            continue
        with_it = best[: room + 1 - load] + value
        # `take` remembers each decision; without it the set could not be read back from the values.
        better = np.greater(with_it, best[load:], out=take[k, load:])
        np.copyto(best[load:], with_it, where=better)
    chosen = []
    left = room
    # Backwards: the decision for the last item at full room says what room was left for the others.
    for k in range(len(v) - 1, -1, -1):
        if take[k, left]:
            chosen.append(k)
            left -= int(w[k])
    return float(best[room]), np.array(chosen[::-1], dtype=np.int64)


def penalties(
    value: FloatArray,
    load: IntArray,
    room: int,
    margin: float,
    work: Budget | None = None,
    parameters: ColumnGenerationParameters = DEFAULT.columns,
) -> tuple[float, FloatArray, FloatArray]:
    """Return the largest value, and how much less it is at least with j in, and with j out, (J,) each, up to `margin`.

    The first of both is infinite for a checkpoint that is not allowed or does not fit.
    """
    fits = np.isfinite(value) & (load <= room)
    can = np.flatnonzero(fits & (value > 0))
    within, without = np.full(len(value), np.inf), np.zeros(len(value))
    v, w = value[can], load[can]
    if not len(can) or w.sum() <= room:
        # Without competition for room its price is 0, and a checkpoint costs exactly its value.
        price, above, best = 0.0, 0.0, float(v.sum())
    else:
        relaxed = _relaxed(v, w, room, parameters.knapsack_tried)
        best, _ = best_set(value, load, room, parameters=parameters)
        price, above = relaxed.price, relaxed.value - best
    gain = np.where(fits, value - price * load, 0.0)
    # `above` and the rounding are deducted, so that penalties stay lower bounds of the true losses.
    slack = above + _ROUNDING * float(np.abs(gain).max(initial=0.0) + np.abs(v).max(initial=0.0))
    within[fits] = np.clip(-gain[fits] - slack, 0.0, margin)
    sure = fits & (value > 0) & (gain > margin + slack)
    without[sure] = margin
    core = np.flatnonzero(fits & (np.abs(gain) <= margin + slack))
    left = min(room - int(load[sure].sum()), int(load[core].sum()))
    # Where the exact tables would be too large the bounds by the price stay; they are weaker, not wrong.
    if len(core) and len(core) * left <= parameters.knapsack_table:
        # Tables before and after each item are filled in both directions, with values only: about four times one table.
        (work or Budget()).knapsack(len(value), 4 * len(core) * left)
        changes = _core_penalties(value[core], load[core], left, best - float(value[sure].sum()))
        within[core], without[core] = np.clip(changes[0], 0.0, margin), np.clip(changes[1], 0.0, margin)
    return best, within, without


def _core_penalties(v: FloatArray, w: IntArray, room: int, best: float) -> tuple[FloatArray, FloatArray]:
    """Return the loss by each item of the core being in, and out, by tables of the items before and after it."""
    count = len(v)
    before, after = np.zeros((count + 1, room + 1)), np.zeros((count + 1, room + 1))
    for k in range(count):
        _added(before[k], before[k + 1], float(v[k]), int(w[k]))
    for k in range(count - 1, -1, -1):
        _added(after[k + 1], after[k], float(v[k]), int(w[k]))
    within, without = np.full(count, np.inf), np.empty(count)
    for k in range(count):
        load = int(w[k])
        # The room is split between the items before and after k in every way: one table is read backwards.
        without[k] = best - float((before[k] + after[k + 1][::-1]).max())
        if load <= room:
            rest = room + 1 - load
            within[k] = best - float(v[k] + (before[k][:rest] + after[k + 1][:rest][::-1]).max())
    return within, without


def _added(old: FloatArray, new: FloatArray, value: float, load: int) -> None:
    new[:] = old
    if value > 0 and load < len(old):
        np.maximum(old[load:], old[: len(old) - load] + value, out=new[load:])
