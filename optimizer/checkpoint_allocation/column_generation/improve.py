"""Allocations by column generation: a dive into all nodes, then dives into groups of nodes and small programs.

At multipliers u an allocation x is above the bound by the sum over nodes of

    loss[n] = K_n(u) - sum_{j on n} (u[j] - c[j,n]),

so the nodes of a group can gain no more than their losses: nodes are drawn in proportion to what they lose.

Allocations from sets: fix the set that the average holds most of, correct the multipliers, and so on; a dive.

As a node gets its set for good, the program shrinks by the node and the checkpoints, and a few steps make the
multipliers right for the rest. Whole sets fill their nodes as well as any, which no rounding of single pairs does. The
last nodes are packed together (`meet_in_the_middle`). Source: Sadykov, Vanderbeck, Pessoa, Tahiri and Uchoa 2019, pure diving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.knapsack import best_set, priced
from optimizer.checkpoint_allocation.column_generation.meet_in_the_middle import TrueLoads, meet_in_the_middle, pack
from optimizer.checkpoint_allocation.column_generation.multipliers import Part, Sets, members, raised
from optimizer.checkpoint_allocation.params import DEFAULT, Parameters
from optimizer.verify.checkpoint_bounds import LARGEST_ROOM, WholeNumbers, whole_numbers


@dataclass
class Dive:
    """The rest of the program with its multipliers, and what is fixed: nodes in order, their sets, and their cost."""

    part: Part
    u: FloatArray
    nodes: list[int] = field(default_factory=list)
    sets: list[IntArray] = field(default_factory=list)
    cost: float = 0.0


@dataclass(frozen=True)
class Depth:
    """The depth of a dive: steps after each fixing, the level of a step, nodes left at the end, nodes fixed at once."""

    steps: int
    delta: float
    left: int
    at_once: int = 1
    noise: float = 0.0


def dive(
    part: Part,
    u: FloatArray,
    sets: Sets,
    depth: Depth,
    *,
    target: float,
    fits: Callable[[int, IntArray], bool],
    random: np.random.Generator,
    work: Budget,
) -> Dive | None:
    """Fix the sets of all nodes but a few; None when that cannot end below `target`. `sets` are used up.

    `fits` says whether true loads of a set keep the capacity of a node.
    """
    state = Dive(part, u)
    count = failed = 0
    while len(state.part.nodes) > depth.left and len(state.part.items):
        if count:
            left = target - state.cost
            better = raised(
                state.part, state.u, steps=depth.steps, delta=depth.delta, patience=8, sets=sets, enough=left, work=work
            )
            state.u = better.u
            if better.bound >= left or work.over:
                return None
        many = len(state.part.nodes) > depth.left + 4 * depth.at_once
        before = count
        for _ in range(depth.at_once if many else 1):
            if not _fix_one(state, sets, depth.noise, fits, random):
                break
            count += 1
        failed = 0 if count > before else failed + 1
        if failed and (not count or failed > part.parameters.dive_failures):
            return None  # no set keeps the true capacities, and further steps bring none
    return state


def _fix_one(
    state: Dive, sets: Sets, noise: float, fits: Callable[[int, IntArray], bool], random: np.random.Generator
) -> bool:
    """Return whether there was a set to fix."""
    found = [
        (weight * float(random.uniform(1 - noise, 1)), node, key)
        for node in state.part.nodes.tolist()
        for key, weight in sets.weights.get(node, {}).items()
    ]
    for _, node, key in sorted(found, reverse=True):
        chosen = members(key)
        if fits(node, chosen):
            _fix(state, node, chosen)
            sets.taken(node, chosen)
            return True
    return False


def _fix(state: Dive, node: int, chosen: IntArray) -> None:
    at = int(np.flatnonzero(state.part.nodes == node)[0])
    gone = np.isin(state.part.items, chosen)
    state.cost += float(state.part.cost[at, gone].sum())
    state.nodes.append(node)
    state.sets.append(chosen)
    state.part = state.part.without(at, np.flatnonzero(gone))
    state.u = state.u[~gone]


def search_room(problem: CheckpointAllocation, parameters: Parameters = DEFAULT) -> int:
    """Return how finely loads are counted where nothing is proven: tables of that length are filled many times."""
    return LARGEST_ROOM if problem.cost.size <= parameters.sizes.program else parameters.columns.coarse_room


class Improvement:
    """The best allocation known, and what is known to make it better."""

    def __init__(
        self,
        problem: CheckpointAllocation,
        numbers: WholeNumbers,
        u: FloatArray,
        best: IntArray | None,
        work: Budget,
        parameters: Parameters = DEFAULT,
    ) -> None:
        self.problem, self.numbers, self.u, self.work = problem, numbers, u, work
        self.parameters = own = parameters.columns
        self.near = (
            numbers if numbers.exact_loads else whole_numbers(problem, search_room(problem, parameters), near=True)
        )
        if numbers.exact_loads:
            self.true = TrueLoads(numbers.load.astype(np.float64), np.add(numbers.room, 0.5, dtype=np.float64))
        else:
            self.true = TrueLoads(problem.weights.T, np.asarray(problem.upper, dtype=np.float64))
        self.best = best
        self.value = np.inf if best is None else problem.objective(best)
        self.most = [best_set(u - c, w, int(r))[0] for c, w, r in zip(*_rows(numbers), strict=True)]
        self.bound = float(u.sum()) - sum(self.most)
        self.random = np.random.default_rng(0)
        self.wanted, self.drawn = _wanted(numbers, u, own.alternatives), 0
        self.unions = int(np.clip(own.unions[0] * work.limit, own.unions[1], own.unions[2]))
        self.cut: dict[int, bool] = {}  # whether there were too many sets the last time, by the number of nodes
        self.margins: dict[int, float] = {}  # by the number of nodes, where there were too many sets

    def part(self, nodes: IntArray, items: IntArray, *, near: bool = False) -> Part:
        """Some nodes and checkpoints."""
        given = self.near if near else self.numbers
        at = np.ix_(nodes, items)
        return Part(given.cost[at], given.load[at], given.room[nodes], nodes, items, self.parameters)

    def losses(self) -> FloatArray:
        """Return the excess of each node above its share of the bound, (N,)."""
        assert self.best is not None
        gain = self.u - self.numbers.cost[self.best, np.arange(len(self.best))]
        return np.maximum(np.array(self.most) - np.bincount(self.best, gain, len(self.most)), 0.0)

    def offer(self, node: IntArray) -> bool:
        """Return whether an allocation is better than the best, and keeps all constraints: then it is the best."""
        value = self.problem.objective(node)
        if not value < self.value or not self._keeps(node):
            return False
        self.best, self.value = node, value
        return True

    def _keeps(self, node: IntArray) -> bool:
        loads = self.problem.node_loads(node)
        allowed = self.problem.allowed[np.arange(len(node)), node].all()
        return bool(allowed and (loads <= self.problem.upper).all() and (loads >= self.problem.lower).all())

    def again(self, nodes: IntArray, *, noise: float, steps: int, at_once: int = 1) -> bool:
        """Return whether a dive into some nodes made the allocation better."""
        items = np.arange(self.problem.n_checkpoints)
        target = np.inf
        if self.best is not None:
            items = items[np.isin(self.best, nodes)]
            target = self._target(items)
        if not len(items):
            return False
        u = self.u[items]
        if np.isfinite(target):  # the group alone may already be as good as it can be
            spread = max(0.3 * float(self.losses()[nodes].sum()), 1.0)
            proved = raised(
                self.part(nodes, items),
                u,
                steps=self.parameters.proof_steps,
                delta=spread,
                patience=6,
                sets=Sets(),
                enough=target,
                work=self.work,
            )
            u = proved.u
            if proved.bound >= target:
                return False
        delta = max(self.parameters.dive_level * abs(self.bound) * len(nodes) / self.problem.n_nodes, 1.0)
        sets = Sets()
        near = self.part(nodes, items, near=True)
        started = raised(near, u, steps=steps + 10, delta=delta, patience=8, sets=sets, work=self.work)
        depth = Depth(steps, delta, min(self.parameters.dive_left, len(nodes)), at_once, noise)
        found = dive(
            near, started.u, sets, depth, target=target, fits=self._fits, random=self.random, work=self.work
        )  # fmt: skip
        if found is None:
            return False
        return self._ended(found, items, target)

    def repacked(self, size: int) -> bool:
        """Return whether all sets of some nodes, that could be in a better packing, made the allocation better."""
        nodes = self.group(size)
        assert self.best is not None
        items = np.flatnonzero(np.isin(self.best, nodes))
        if not len(items):
            return False
        target = self._target(items)
        level = max(0.3 * float(self.losses()[nodes].sum()), 1.0)
        part = self.part(nodes, items)
        better = raised(
            part,
            self.u[items],
            steps=self.parameters.group_steps,
            delta=level,
            patience=6,
            sets=Sets(),
            enough=target,
            work=self.work,
        )
        if better.bound >= target:
            return False
        found = meet_in_the_middle(
            part, better.u, better.bound, target, fits=self._sets_fit(part), most=self.unions, work=self.work,
            margin=self._margin(size),
        )  # fmt: skip
        self.cut[size] = not found.whole
        if self.cut[size]:
            self.margins[size] = found.margin
        elif size in self.margins:
            self.margins[size] = max(self.margins[size], found.margin)
        if found.node is None:
            return False
        node = self.best.copy()
        node[items] = nodes[found.node]
        return self.offer(node)

    def _margin(self, size: int) -> float:
        """A little wider than what was possible for as many nodes, or for fewer."""
        known = [self.margins[of] for of in sorted(self.margins) if of <= size]
        return known[-1] * self.parameters.margin_factors[1] if known else np.inf

    def _sets_fit(self, part: Part) -> Callable[[int, BoolArray], BoolArray]:
        """Which sets (m, j) keep the true capacity of a node (position)."""

        def fit(at: int, sets: BoolArray) -> BoolArray:
            if self.numbers.exact_loads:
                return np.ones(len(sets), dtype=np.bool_)
            node = part.nodes[at]
            keeps: BoolArray = sets @ self.problem.weights[part.items, node] <= self.problem.upper[node]
            return keeps

        return fit

    def _target(self, items: IntArray) -> float:
        """Return the cost of the checkpoints now, less the least improvement."""
        assert self.best is not None
        now = float(self.numbers.cost[self.best[items], items].sum())
        return now - self.numbers.scale + 1 if self.numbers.whole else now - 1e-10 * abs(now)

    def _fits(self, node: int, items: IntArray) -> bool:
        return bool(float(self.problem.weights[items, node].sum()) <= self.problem.upper[node])

    def _ended(self, found: Dive, items: IntArray, target: float) -> bool:
        """Pack what a dive left; without success also its last nodes."""
        for more in (0, 1, 2, 4):
            if more > len(found.nodes):
                return False
            kept = len(found.nodes) - more
            nodes = np.sort(np.concatenate([found.part.nodes, np.array(found.nodes[kept:], dtype=np.int64)]))
            rest = np.sort(np.concatenate([found.part.items, *found.sets[kept:]])).astype(np.int64)
            cost = sum(
                float(self.numbers.cost[n, s].sum())
                for n, s in zip(found.nodes[:kept], found.sets[:kept], strict=True)
            )  # fmt: skip
            packed = self.packed(nodes, rest, target - cost)
            if packed is not None:
                node = np.zeros(self.problem.n_checkpoints, dtype=np.int64) if self.best is None else self.best.copy()
                for one, chosen in zip(found.nodes[:kept], found.sets[:kept], strict=True):
                    node[chosen] = one
                node[rest] = packed
                return self.offer(node)
            if np.isfinite(target):
                return False
        return False

    def packed(
        self, nodes: IntArray, items: IntArray, target: float, *, pairs: int | None = None, limit: int | None = None
    ) -> IntArray | None:
        """The nodes of some checkpoints by a small program below `target`; None without one."""
        own = self.parameters
        delta = max(self.parameters.dive_level * abs(self.bound) * len(nodes) / self.problem.n_nodes, 1.0)
        found = pack(
            self.part(nodes, items), self.u[items], self.true, self.work, target=target, delta=delta,
            pairs=own.dive_pairs if pairs is None else pairs, nodes=own.dive_nodes if limit is None else limit,
        )  # fmt: skip
        return None if found is None else nodes[found]

    def group(self, size: int) -> IntArray:
        """A node that loses much, drawn at random, and others: every second time those that want its checkpoints."""
        assert self.best is not None
        chance = self.losses() + 1e-3 * max(self.losses().max(), 1e-9)
        size = min(size, len(chance))
        self.drawn += 1
        if self.drawn % 2:
            return np.sort(self.random.choice(len(chance), size, replace=False, p=chance / chance.sum()))
        wants = np.zeros((len(chance), len(chance)))
        np.add.at(wants, self.best, self.wanted.T)
        wants += wants.T
        chosen = [int(self.random.choice(len(chance), p=chance / chance.sum()))]
        for _ in range(size - 1):
            score = wants[chosen].sum(axis=0) * self.random.uniform(0.5, 1.5, len(chance))
            score[chosen] = -1.0
            chosen.append(int(score.argmax()))
        return np.sort(np.array(chosen))


def _rows(numbers: WholeNumbers) -> tuple[FloatArray, IntArray, IntArray]:
    return numbers.cost, numbers.load, numbers.room


def _wanted(numbers: WholeNumbers, u: FloatArray, alternatives: int) -> FloatArray:
    """Return how near each node is to take each checkpoint, (N, J), 0 to 1, at its price of room."""
    gain: FloatArray = np.array([priced(u - c, w, int(r)) for c, w, r in zip(*_rows(numbers), strict=True)])
    best = gain.max(axis=0)
    behind = np.where(np.isfinite(gain), best - np.where(np.isfinite(gain), gain, 0.0), np.inf)
    near = np.sort(behind, axis=0)[min(alternatives, len(behind) - 1)]
    unit = max(float(np.median(near[np.isfinite(near)])) if np.isfinite(near).any() else 1.0, 1.0)
    return np.exp(-2 * behind / unit)
