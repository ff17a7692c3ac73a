"""Whole packings from beginning to end: multipliers, their bound, dives, and the pairs that no better answer uses."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.checkpoint_allocation import CheckpointAllocation
from models.solution import is_proven
from optimizer.checkpoint_allocation.packings.bound import LARGEST_SUM, packing_bound
from optimizer.checkpoint_allocation.packings.groups import pair_bounds
from optimizer.checkpoint_allocation.packings.improve import Improvement
from optimizer.checkpoint_allocation.packings.multipliers import Part, Sets, raised
from optimizer.checkpoint_allocation.packings.numbers import WholeNumbers, search_room, whole_numbers
from optimizer.checkpoint_allocation.packings.work import Work
from optimizer.checkpoint_allocation.prices import reduced_minima

LARGEST_PAIRS = 200_000
_LEVEL = 1e-3  # of the first steps, relative to the bound
_STEPS = 300
_STEPS_SHARE = 0.3  # of the work
_PATIENCE = 10
_NOISE = 0.5
_DIVE_STEPS = 20
_MANY_STEPS = 10  # for more than _MANY nodes, of which several are fixed at once
_MANY = 30
_NODES_AT_ONCE = 20  # one in so many of the nodes of a large dive


@dataclass(frozen=True)
class Packings:
    """The best allocation (None: not found), multipliers (J,), the bound that they prove, and what pairs are left.

    `pairs` (J, N) is False where no allocation better than the best one has the pair.
    """

    assignment: IntArray | None
    multipliers: FloatArray
    bound: float
    pairs: BoolArray
    struck: bool


def packed_search(
    problem: CheckpointAllocation, prices: FloatArray, start: IntArray | None, *, work: float, time_limit_s: float
) -> Packings:
    """The bound of whole packings, and allocations from them; no apart pairs, no limit on moves.

    `prices` (N,) are where the multipliers start, `start` is a feasible allocation. The limit is `work`; the clock is
    the last resort.
    """
    effort = Work(work, time.perf_counter() + time_limit_s)
    numbers = whole_numbers(problem, search_room(problem))
    u = _multipliers(problem, numbers, prices, effort)
    multipliers = u / numbers.scale
    bound = packing_bound(problem, multipliers)
    state = Improvement(problem, numbers, u, None, effort)
    if problem.capacity_min is None:
        _improve(state, bound, start)
    if start is not None:
        state.offer(start)
    return Packings(state.best, multipliers, bound, _open_pairs(state), effort.struck)


def _multipliers(problem: CheckpointAllocation, numbers: WholeNumbers, prices: FloatArray, effort: Work) -> FloatArray:
    u, _ = reduced_minima(problem, prices)
    level = max(_LEVEL * abs(float(u.sum())) * numbers.scale, 1.0)
    share = Work(_STEPS_SHARE * effort.limit, effort.until)
    found = raised(
        _whole(numbers), u * numbers.scale, steps=_STEPS, delta=level, patience=_PATIENCE, sets=Sets(), work=share
    )
    effort.done += share.done
    return found.u


def _improve(state: Improvement, bound: float, start: IntArray | None) -> None:
    """Dives into all nodes and into groups of them; each size of group gets the same share of the work."""
    n = state.problem.n_nodes
    _dive(state, np.arange(n), noise=0.0)
    if start is not None:
        state.offer(start)
    sizes = sorted({min(size, n) for size in (4, 6, 10, n // 2, n) if size > 1})
    spent = dict.fromkeys(sizes, 0.0)
    while not state.work.over and not _closed(state, bound):
        size = min(sizes, key=spent.__getitem__)
        before = state.work.done
        nodes = np.arange(n) if state.best is None else state.group(size)
        state.work.program(0, 0)  # a dive counts for something even when there is nothing to do
        _dive(state, nodes, noise=_NOISE)
        spent[size] += state.work.done - before


def _dive(state: Improvement, nodes: IntArray, *, noise: float) -> None:
    many = len(nodes) > _MANY
    at_once = max(1, len(nodes) // _NODES_AT_ONCE) if many else 1
    state.again(nodes, noise=noise, steps=_MANY_STEPS if many else _DIVE_STEPS, at_once=at_once)


def _closed(state: Improvement, bound: float) -> bool:
    return state.best is not None and is_proven(state.value, bound)


def _whole(numbers: WholeNumbers) -> Part:
    nodes, items = (np.arange(count) for count in numbers.cost.shape)
    return Part(numbers.cost, numbers.load, numbers.room, nodes, items)


def _open_pairs(state: Improvement) -> BoolArray:
    """The pairs that an allocation better than the best may have, by the bounds of single pairs."""
    fine = state.numbers if state.numbers.exact_loads else whole_numbers(state.problem)
    if state.best is None or float(np.abs(state.u).sum()) > LARGEST_SUM:
        return np.isfinite(fine.cost.T)
    target = fine.excluded(state.value)
    _, least = pair_bounds(_whole(fine), state.u, target, state.work)
    return np.less(least.T, target)
