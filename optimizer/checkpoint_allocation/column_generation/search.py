"""Column generation from beginning to end: multipliers, bound, dives, and the pairs that no better answer uses."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import is_proven
from optimizer.checkpoint_allocation.column_generation.groups import pair_bounds
from optimizer.checkpoint_allocation.column_generation.improve import Improvement
from optimizer.checkpoint_allocation.column_generation.master import boxed
from optimizer.checkpoint_allocation.column_generation.multipliers import Part, Sets, raised
from optimizer.checkpoint_allocation.column_generation.work import Work
from optimizer.verify.checkpoint_bounds import reduced_minima
from optimizer.verify.multiplier_bound import LARGEST_SUM, column_generation_bound
from optimizer.verify.whole_numbers import WholeNumbers, search_room, whole_numbers

LARGEST_PAIRS = 200_000
_LEVEL = 1e-3  # of the first steps, relative to the bound
_STEPS = 60  # before linear programs
_MORE_STEPS = 300  # where they would be too large
_MASTER_ROWS = 450  # checkpoints and nodes up to which they are made
_BOX = 0.03  # of the first linear program, relative to the mean share of a checkpoint in the bound
_CLOSE = 1e-5  # relative to the bound, where linear programs end
_STEPS_SHARE = 0.35  # of the work
_PATIENCE = 10
_NOISE = 0.5
_MEETING = (3, 4, 6, 8, 10, 12)  # nodes that are packed from all sets,
_MEETING_ITEMS = 64  # while about so many checkpoints are on them
_DIVED = (4, 6, 10)  # nodes that are dived into, beside half of them and all
_GOOD, _IDLE, _PATIENT = 0.25, 3.0, 0.05  # how work counts that brought something, and after a share that did not
_POOR = 0.01  # gap of a start from which a dive into all nodes comes first
_CORE_PAIRS, _CORE_NODES = 2, 1  # pairs for each checkpoint, and nodes of branch and bound, of a program on all nodes
_TRUSTED = 3e-3  # gap of its answer up to which programs are better than dives
_LATER, _LATEST = 3e-4, 0.25  # work that many nodes begin later than few: about that of a dive; at most this share
_DIVE_STEPS = 20
_MANY_STEPS = 10  # for more than _MANY nodes, of which several are fixed at once
_MANY = 30
_NODES_AT_ONCE = 20  # one in so many of the nodes of a large dive


@dataclass(frozen=True)
class ColumnGenerationResult:
    """The best allocation (None: not found), multipliers (J,), the bound that they prove, and what pairs are left.

    `pairs` (J, N) is False where no allocation better than the best one has the pair.
    """

    assignment: IntArray | None
    multipliers: FloatArray
    bound: float
    pairs: BoolArray
    struck: bool


class ColumnGeneration:
    """Multipliers with their bound, then better and better allocations; no anti-affinity pairs, no limit on moves.

    `prices` (N,) are where the multipliers start, `start` is a feasible allocation. The limit is `work`; the clock is
    the last resort.
    """

    def __init__(
        self,
        problem: CheckpointAllocation,
        prices: FloatArray,
        start: IntArray | None,
        *,
        work: float,
        time_limit_s: float,
    ) -> None:
        self._limit = work
        effort = Work(work, time.perf_counter() + time_limit_s)
        numbers = whole_numbers(problem, search_room(problem))
        u = _multipliers(problem, numbers, prices, effort)
        self.multipliers = u / numbers.scale
        self.bound = column_generation_bound(problem, self.multipliers)
        self._state = Improvement(problem, numbers, u, None, effort)
        self._start = start
        self._poor = start is None or problem.objective(start) - self.bound > _POOR * abs(self.bound)
        self._able = problem.capacity_min is None  # sets know no minima

    def programmed(self) -> bool:
        """Whether a program on few pairs of all nodes came near the bound: then other programs will do well, too."""
        if not self._able:
            return False
        state, count = self._state, self._state.problem.n_checkpoints
        target = np.inf if self._start is None else state.problem.objective(self._start) * state.numbers.scale
        node = state.packed(
            np.arange(state.problem.n_nodes), np.arange(count), target, pairs=_CORE_PAIRS * count, limit=_CORE_NODES
        )
        if node is not None and state.offer(node):
            self._start, self._poor = node, self._poor and self._gap() > _POOR
        return node is not None and self._gap() <= _TRUSTED

    def _gap(self) -> float:
        return (self._state.value - self.bound) / max(abs(self.bound), 1e-300)

    def improve(self, share: float, time_limit_s: float = math.inf) -> None:
        """Improve the allocation until a share of the work is done, from now on for so long at most."""
        work = self._state.work
        work.limit = share * self._limit
        if math.isfinite(time_limit_s):
            work.until, work.struck = time.perf_counter() + time_limit_s, False
        if self._able:
            _improve(self._state, self.bound, self._start, poor=self._poor)
            self._poor = False

    @property
    def struck(self) -> bool:
        """Whether the clock struck before the work was done."""
        return self._state.work.struck

    @property
    def best(self) -> IntArray | None:
        """The best allocation so far."""
        return self._state.best

    def offer(self, node: IntArray | None) -> None:
        """Another allocation, which the next step improves."""
        if node is not None:
            self._state.offer(node)

    def found(self) -> ColumnGenerationResult:
        """What is known now."""
        if self._start is not None:
            self._state.offer(self._start)
        state = self._state
        return ColumnGenerationResult(state.best, self.multipliers, self.bound, _open_pairs(state), state.work.struck)


def generate_columns(
    problem: CheckpointAllocation, prices: FloatArray, start: IntArray | None, *, work: float, time_limit_s: float
) -> ColumnGenerationResult:
    """The bound of column generation, and allocations from them, without any program on all nodes."""
    search = ColumnGeneration(problem, prices, start, work=work, time_limit_s=time_limit_s)
    search.improve(1.0)
    return search.found()


def _multipliers(problem: CheckpointAllocation, numbers: WholeNumbers, prices: FloatArray, effort: Work) -> FloatArray:
    u, _ = reduced_minima(problem, prices)
    level = max(_LEVEL * abs(float(u.sum())) * numbers.scale, 1.0)
    share = Work(_STEPS_SHARE * effort.limit, effort.until)
    sets = Sets()
    small = problem.n_checkpoints + problem.n_nodes <= _MASTER_ROWS
    found = raised(
        _whole(numbers),
        u * numbers.scale,
        steps=_STEPS if small else _MORE_STEPS,
        delta=level,
        patience=_PATIENCE,
        sets=sets,
        work=share,
    )
    if small:
        box = max(_BOX * abs(found.bound) / problem.n_checkpoints, 1.0)
        close = max(_CLOSE * abs(found.bound), 1.0)
        found = boxed(_whole(numbers), found, sets, box=box, close=close, work=share)
    effort.done += share.done
    return found.u


def _improve(state: Improvement, bound: float, start: IntArray | None, *, poor: bool) -> None:
    """Groups of nodes, packed again from all sets or by dives; without a good start, a dive into all before.

    Each size of group in each way gets the same share of the work, but work that made the answer better counts little,
    and that of a way that brought nothing for long counts more. Where all sets could be looked at, dives into as many
    nodes are not needed.
    """
    n = state.problem.n_nodes
    if poor or (n > _MANY and state.best is None):
        _dive(state, np.arange(n), noise=0.0)  # before the start is known: a target would end it early
    if start is not None:
        state.offer(start)
    per_node = state.problem.n_checkpoints / n
    sizes = [size for size in _MEETING if size == _MEETING[0] or size * per_node <= _MEETING_ITEMS]
    ways = [("meet_in_the_middle", size) for size in sorted({min(size, n) for size in sizes if n > 1})]
    dived = _DIVED if n <= _MANY else _DIVED[1:]  # with many checkpoints on a node, the last program takes seconds
    ways += [("dive", size) for size in sorted({min(size, n) for size in (*dived, n // 2, n) if size > 1})]
    spent = {way: min(_LATER * way[1] ** 2, _LATEST * state.work.limit) for way in ways}
    idle = dict.fromkeys(ways, 0.0)
    noise = 0.0  # of the first dive
    while not state.work.over and not _closed(state, bound):
        way = min((way for way in ways if _useful(state, way)), key=spent.__getitem__)
        before, value = state.work.done, state.value
        state.work.linear(0, 0, 0)  # a try counts for something even when there is nothing to do
        if way[0] == "meet_in_the_middle":
            state.repacked(way[1])
        else:
            _dive(state, np.arange(n) if state.best is None else state.group(way[1]), noise=noise)
            noise = _NOISE
        took = state.work.done - before
        idle[way] = 0.0 if state.value < value else idle[way] + took / (_PATIENT * state.work.limit)
        spent[way] += took * (_GOOD if state.value < value else 1 + _IDLE * min(idle[way], 1.0))


def _useful(state: Improvement, way: tuple[str, int]) -> bool:
    """Whether a way can do what others do not."""
    kind, size = way
    if state.best is None:
        return kind == "dive"
    return kind == "meet_in_the_middle" or all(cut for of, cut in state.cut.items() if of >= size)


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
