"""Column generation from beginning to end: multipliers, bound, dives, and the pairs that no better answer uses.

`ColumnGeneration` proves its bound when it is made; `programmed` and `improve` then look for allocations, and `found`
tells the state at any time. The bound does not change after the beginning, so time is the only thing that they share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import is_proven
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.improve import Improvement, search_room
from optimizer.checkpoint_allocation.column_generation.meet_in_the_middle import pair_bounds
from optimizer.checkpoint_allocation.column_generation.multipliers import Part, Sets, boxed, raised
from optimizer.checkpoint_allocation.params import DEFAULT, ColumnGenerationParameters, Parameters
from optimizer.verify.checkpoint_bounds import (
    LARGEST_SUM,
    WholeNumbers,
    column_generation_bound,
    reduced_minima,
    whole_numbers,
)


@dataclass(frozen=True)
class ColumnGenerationResult:
    """The best allocation (None: not found), multipliers (J,), the bound that they prove, and what pairs are left.

    `pairs` (J, N) is False where no allocation better than the best one has the pair, so it is only valid beside an
    answer that is at least as good as `assignment`. `struck`: the clock ended the search.
    """

    assignment: IntArray | None
    multipliers: FloatArray
    bound: float
    pairs: BoolArray
    struck: bool


class ColumnGeneration:
    """Multipliers with their bound, then better and better allocations; no anti-affinity pairs, no limit on moves.

    `prices` (N,) are where the multipliers start, `start` (J,) is a feasible allocation or None. Making the object
    takes the subgradient steps and the master program, and counts them in the budget. With minimum loads nothing is
    improved, since the sets know no minima; the bound holds all the same.
    """

    def __init__(
        self,
        problem: CheckpointAllocation,
        prices: FloatArray,
        start: IntArray | None,
        budget: Budget,
        parameters: Parameters = DEFAULT,
    ) -> None:
        self._limit, self._parameters = budget.limit, parameters
        numbers = whole_numbers(problem, search_room(problem, parameters))
        u = _multipliers(problem, numbers, prices, budget, parameters)
        # The bound is proven anew from multipliers in the problem's unit: the plan carries them as its certificate.
        self.multipliers = u / numbers.scale
        self.bound = column_generation_bound(problem, self.multipliers)
        self._state = Improvement(problem, numbers, u, None, budget, parameters)
        self._start = start
        # A start far from the bound is a bad one to improve group by group: a dive into all nodes comes first.
        self._poor = start is None or problem.objective(start) - self.bound > parameters.columns.poor * abs(self.bound)
        self._able = problem.capacity_min is None  # sets know no minima

    def programmed(self) -> bool:
        """Return whether a program on few pairs of all nodes came near the bound: then others will do well."""
        if not self._able:
            return False
        state, count, own = self._state, self._state.problem.n_checkpoints, self._parameters.columns
        target = np.inf if self._start is None else state.problem.objective(self._start) * state.numbers.scale
        # All nodes and checkpoints at once: one program on two pairs or so for each checkpoint.
        node = state.packed(
            np.arange(state.problem.n_nodes),
            np.arange(count),
            target,
            pairs=own.program_pairs * count,
            limit=own.program_nodes,
        )
        if node is not None and state.offer(node):
            # Dives take the better start as their target, and it may be a poor one no longer.
            self._start, self._poor = node, self._poor and self._gap() > own.poor
        return node is not None and self._gap() <= own.trusted

    def _gap(self) -> float:
        return (self._state.value - self.bound) / max(abs(self.bound), 1e-300)

    def improve(self, share: float, seconds: float = math.inf) -> None:
        """Improve the allocation until a share of the work is done, or so many seconds [s] after the beginning."""
        work = self._state.work
        work.limit = share * self._limit
        if math.isfinite(seconds):
            # A later limit restarts the clock that had struck for the earlier share.
            work.until, work.struck = work.began + seconds, False
        if self._able:
            _improve(self._state, self.bound, self._start, self._parameters, poor=self._poor)
            self._poor = False

    @property
    def struck(self) -> bool:
        """Return whether the clock struck before the work was done."""
        return self._state.work.struck

    @property
    def best(self) -> IntArray | None:
        """Return the best allocation so far, (J,), or None."""
        return self._state.best

    def offer(self, node: IntArray | None) -> None:
        """Take another allocation, which the next step improves."""
        if node is not None:
            self._state.offer(node)

    def found(self) -> ColumnGenerationResult:
        """Return the state of the search."""
        # Without `improve` nobody has offered the start yet.
        if self._start is not None:
            self._state.offer(self._start)
        state = self._state
        return ColumnGenerationResult(state.best, self.multipliers, self.bound, _open_pairs(state), state.work.struck)


def _multipliers(
    problem: CheckpointAllocation, numbers: WholeNumbers, prices: FloatArray, budget: Budget, parameters: Parameters
) -> FloatArray:
    """Return multipliers (J,) in whole numbers: subgradient steps from the prices, then a small master program."""
    own = parameters.columns
    # The Lagrangian minima are multipliers that are already as good as the prices they come from.
    u, _ = reduced_minima(problem, prices)
    level = max(own.level * abs(float(u.sum())) * numbers.scale, 1.0)
    # A part of the budget: allocations need most of the work.
    share = budget.part(own.steps_share * budget.limit)
    sets = Sets()
    small = problem.n_checkpoints + problem.n_nodes <= own.master_rows
    found = raised(
        _whole(numbers, own),
        u * numbers.scale,
        steps=own.steps if small else own.steps_alone,
        delta=level,
        patience=own.patience,
        sets=sets,
        work=share,
    )
    if small and "master" in parameters.pieces:
        box = max(own.box * abs(found.bound) / problem.n_checkpoints, 1.0)
        close = max(own.master_close * abs(found.bound), 1.0)
        found = boxed(_whole(numbers, own), found, sets, box=box, close=close, work=share)
    budget.done += share.done
    return found.u


def _improve(state: Improvement, bound: float, start: IntArray | None, parameters: Parameters, *, poor: bool) -> None:
    """Pack groups of nodes again, from all sets or by dives; without a good start, dive into all before.

    Each size of group in each way gets the same share of the work, but work that made the answer better counts little,
    and that of a way that brought nothing for long counts more. Where all sets could be looked at, dives into as many
    nodes are not needed.
    """
    n, own, pieces = state.problem.n_nodes, parameters.columns, parameters.pieces
    if poor or (n > own.dive_many and state.best is None):
        _dive(state, np.arange(n), noise=0.0)  # before the start is known: a target would end it early
    if start is not None:
        state.offer(start)
    per_node = state.problem.n_checkpoints / n
    sizes = [size for size in own.group_sizes if size == own.group_sizes[0] or size * per_node <= own.group_items]
    ways = [("meet in the middle", size) for size in sorted({min(size, n) for size in sizes if n > 1})]
    dived = (
        own.dive_sizes if n <= own.dive_many else own.dive_sizes[1:]
    )  # with many checkpoints on a node, the last program takes seconds
    ways += [("dives", size) for size in sorted({min(size, n) for size in (*dived, n // 2, n) if size > 1})]
    ways = [way for way in ways if way[0] in pieces]
    # Larger groups begin later: they cost more, and small ones find the easy improvements.
    spent = {way: min(own.later * way[1] ** 2, own.latest * state.work.limit) for way in ways}
    idle = dict.fromkeys(ways, 0.0)
    noise = 0.0  # of the first dive
    # Ends: every turn costs some work, and the work is limited.
    while not state.work.over and not _closed(state, bound):
        useful = [way for way in ways if _useful(state, way, several="meet in the middle" in pieces)]
        if not useful:
            return
        # The way that has spent least: all ways get the same share, in the weighted count below.
        way = min(useful, key=spent.__getitem__)
        before, value = state.work.done, state.value
        state.work.linear(0, 0, 0)  # a try counts for something even when there is nothing to do
        if way[0] == "meet in the middle":
            state.repacked(way[1])
        else:
            _dive(state, np.arange(n) if state.best is None else state.group(way[1]), noise=noise)
            noise = own.dive_noise
        took = state.work.done - before
        # Idle work is counted relative to the whole: the same patience at every time limit.
        idle[way] = 0.0 if state.value < value else idle[way] + took / (own.patient * state.work.limit)
        spent[way] += took * (own.good if state.value < value else 1 + own.idle * min(idle[way], 1.0))


def _useful(state: Improvement, way: tuple[str, int], *, several: bool) -> bool:
    """Return whether a way can do what others do not; `several`: groups are packed from all sets, too."""
    kind, size = way
    if state.best is None or not several:
        return kind == "dives"
    # Dives into so many nodes are pointless where all sets of such groups could be listed: that decides them.
    return kind == "meet in the middle" or all(cut for of, cut in state.cut.items() if of >= size)


def _dive(state: Improvement, nodes: IntArray, *, noise: float) -> None:
    own = state.parameters
    many = len(nodes) > own.dive_many
    at_once = max(1, len(nodes) // own.dive_at_once) if many else 1
    state.again(nodes, noise=noise, steps=own.dive_steps_many if many else own.dive_steps, at_once=at_once)


def _closed(state: Improvement, bound: float) -> bool:
    return state.best is not None and is_proven(state.value, bound)


def _whole(numbers: WholeNumbers, parameters: ColumnGenerationParameters) -> Part:
    nodes, items = (np.arange(count) for count in numbers.cost.shape)
    return Part(numbers.cost, numbers.load, numbers.room, nodes, items, parameters)


def _open_pairs(state: Improvement) -> BoolArray:
    """Return the pairs (J, N) that an allocation better than the best may have, by the bounds of single pairs."""
    fine = state.numbers if state.numbers.exact_loads else whole_numbers(state.problem)
    # Sums beyond 2**53 are not exact: then no pair may be left out.
    if state.best is None or float(np.abs(state.u).sum()) > LARGEST_SUM:
        return np.isfinite(fine.cost.T)
    # Rounded so that only pairs which cannot be in a better allocation fall above it.
    target = fine.excluded(state.value)
    _, least = pair_bounds(_whole(fine, state.parameters), state.u, target, state.work)
    return np.less(least.T, target)
