"""Allocations by column generation: dives into all nodes or groups of them, and small programs.

`dive` fixes the set that the average holds most of, corrects the multipliers, and so on. As a node gets its set for
good, the program shrinks by the node and the checkpoints, and a few steps make the multipliers right for the rest.
Whole sets fill their nodes as well as any, which no rounding of single pairs does. The last nodes are packed together
(`meet_in_the_middle`). Source: Sadykov, Vanderbeck, Pessoa, Tahiri and Uchoa 2019, pure diving.

`Improvement` keeps the best allocation and draws the groups. At multipliers u an allocation x is above the bound by the
sum over nodes of

    loss[n] = K_n(u) - sum_{j on n} (u[j] - c[j,n]),

so the nodes of a group can gain no more than their losses: nodes are drawn in proportion to what they lose.
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
    """The rest of the program with its multipliers, and what is fixed: nodes in order, their sets, and their cost.

    `part` and `u` (j,) shrink with every fixing; `nodes` and `sets` hold true indices; `cost` is in the units of the
    part.
    """

    part: Part
    u: FloatArray
    nodes: list[int] = field(default_factory=list)
    sets: list[IntArray] = field(default_factory=list)
    cost: float = 0.0


@dataclass(frozen=True)
class Depth:
    """The depth of a dive: steps after each fixing, the level of a step, nodes left at the end, nodes fixed at once.

    `noise` is the share by which the weight of a set may vary when the next one is chosen: 0 makes the dive
    deterministic.
    """

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
    """Return a dive that has fixed the sets of all nodes but a few; None when it cannot end below `target`.

    `u` (j,) are multipliers of the part, `sets` are used up. `fits` says whether true loads of a set keep the capacity
    of a node.
    """
    state = Dive(part, u)
    count = failed = 0
    # Ends: every round fixes a node, or counts a failure, and failures in a row are limited.
    while len(state.part.nodes) > depth.left and len(state.part.items):
        # Before the first set is fixed the multipliers are those that the caller has just raised.
        if count:
            left = target - state.cost
            better = raised(
                state.part, state.u, steps=depth.steps, delta=depth.delta, patience=8, sets=sets, enough=left, work=work
            )
            state.u = better.u
            # The rest alone costs as much as is left below the target: no completion of this dive can be better.
            if better.bound >= left or work.over:
                return None
        # Near the end one at a time: the last choices are the ones that a wrong set spoils.
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
    # Noise only lowers weights, so without it the dive is deterministic, and with it dives differ.
    found = [
        (weight * float(random.uniform(1 - noise, 1)), node, key)
        for node in state.part.nodes.tolist()
        for key, weight in sets.weights.get(node, {}).items()
    ]
    # Loads were rounded for the search; only a set that keeps the true capacity may be fixed.
    for _, node, key in sorted(found, reverse=True):
        chosen = members(key)
        if fits(node, chosen):
            _fix(state, node, chosen)
            sets.taken(node, chosen)
            return True
    return False


def _fix(state: Dive, node: int, chosen: IntArray) -> None:
    """Give a node its set for good: both leave the program, and the multipliers follow."""
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
    """The best allocation known, and what is known to make it better.

    Costs and multipliers `u` (J,) are in the units of `numbers`, `value` in those of the problem. `offer` is the only
    way in which `best` (J,) changes, so it is always feasible, and never gets worse.
    """

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
        # Coarse units shorten the tables of dynamic programming; the bound is proven with the fine ones.
        self.near = (
            numbers if numbers.exact_loads else whole_numbers(problem, search_room(problem, parameters), near=True)
        )
        if numbers.exact_loads:
            # Half a unit to spare: whole numbers in a program with tolerances must not break a capacity by rounding.
            self.true = TrueLoads(numbers.load.astype(np.float64), np.add(numbers.room, 0.5, dtype=np.float64))
        else:
            self.true = TrueLoads(problem.weights.T, np.asarray(problem.upper, dtype=np.float64))
        self.best = best
        self.value = np.inf if best is None else problem.objective(best)
        # K_n(u) does not change as allocations improve, since the multipliers stay: computed once.
        self.most = [best_set(u - c, w, int(r))[0] for c, w, r in zip(*_rows(numbers), strict=True)]
        self.bound = float(u.sum()) - sum(self.most)
        # A fixed seed: draws decide only where to look, and the same problem gives the same answer.
        self.random = np.random.default_rng(0)
        self.wanted, self.drawn = _wanted(numbers, u, own.alternatives), 0
        self.unions = int(np.clip(own.unions[0] * work.limit, own.unions[1], own.unions[2]))
        self.cut: dict[int, bool] = {}  # whether there were too many sets the last time, by the number of nodes
        self.margins: dict[int, float] = {}  # by the number of nodes, where there were too many sets

    def part(self, nodes: IntArray, items: IntArray, *, near: bool = False) -> Part:
        """Return the program of some nodes and checkpoints (true indices); `near`: in coarse units, for searching."""
        given = self.near if near else self.numbers
        at = np.ix_(nodes, items)
        return Part(given.cost[at], given.load[at], given.room[nodes], nodes, items, self.parameters)

    def losses(self) -> FloatArray:
        """Return the excess of each node above its share of the bound, (N,)."""
        assert self.best is not None
        gain = self.u - self.numbers.cost[self.best, np.arange(len(self.best))]
        # Rounding may put a node a hair above its share; a negative loss would be a negative chance below.
        return np.maximum(np.array(self.most) - np.bincount(self.best, gain, len(self.most)), 0.0)

    def offer(self, node: IntArray) -> bool:
        """Return whether an allocation is better than the best, and keeps all constraints: then it is the best."""
        value = self.problem.objective(node)
        # Compared in the problem's own floats: whole numbers of the search may tie where true costs differ.
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
            # Only what is on these nodes moves, so the target is the cost of that part.
            items = items[np.isin(self.best, nodes)]
            target = self._target(items)
        if not len(items):
            return False
        u = self.u[items]
        if np.isfinite(target):  # the group alone may already be as good as it can be
            # 0.3 of what the group loses: a level that the bound may reach in a few steps.
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
            # The bound of the group reaches its present cost: no packing of it is better, and a dive is saved.
            if proved.bound >= target:
                return False
        delta = max(self.parameters.dive_level * abs(self.bound) * len(nodes) / self.problem.n_nodes, 1.0)
        sets = Sets()
        # Dives use the coarse units, proofs above the fine ones.
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
        # Below the present cost by at least one unit where costs are whole: equal packings are not worth finding.
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
        # Cheap exit: subgradient steps cost far less than listing all sets.
        if better.bound >= target:
            return False
        found = meet_in_the_middle(
            part, better.u, better.bound, target, fits=self._sets_fit(part), most=self.unions, work=self.work,
            margin=self._margin(size),
        )  # fmt: skip
        # Remembered by size: a group where all sets were looked at makes dives into that many nodes unnecessary.
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
        """Return a margin a little wider than what was possible for as many nodes, or for fewer."""
        known = [self.margins[of] for of in sorted(self.margins) if of <= size]
        return known[-1] * self.parameters.margin_factors[1] if known else np.inf

    def _sets_fit(self, part: Part) -> Callable[[int, BoolArray], BoolArray]:
        """Return the test which sets (m, j) keep the true capacity of a node (position)."""

        def fit(at: int, sets: BoolArray) -> BoolArray:
            # Whole loads keep the capacities by construction; rounded ones are tested against the true loads.
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
        # Whole costs have steps of `scale`: one step better, plus one for a comparison with "less than".
        return now - self.numbers.scale + 1 if self.numbers.whole else now - 1e-10 * abs(now)

    def _fits(self, node: int, items: IntArray) -> bool:
        return bool(float(self.problem.weights[items, node].sum()) <= self.problem.upper[node])

    def _ended(self, found: Dive, items: IntArray, target: float) -> bool:
        """Return whether packing what a dive left made the allocation better; without success also its last nodes."""
        # Without a solution for the last nodes, more of the fixed ones are opened again, last fixed first.
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
            # With a target the nodes that were opened cost more than is to be gained; only a first answer is worth
            # that.
            if np.isfinite(target):
                return False
        return False

    def packed(
        self, nodes: IntArray, items: IntArray, target: float, *, pairs: int | None = None, limit: int | None = None
    ) -> IntArray | None:
        """Return the nodes of some checkpoints by a small program below `target`; None without one."""
        own = self.parameters
        delta = max(self.parameters.dive_level * abs(self.bound) * len(nodes) / self.problem.n_nodes, 1.0)
        found = pack(
            self.part(nodes, items), self.u[items], self.true, self.work, target=target, delta=delta,
            pairs=own.dive_pairs if pairs is None else pairs, nodes=own.dive_nodes if limit is None else limit,
        )  # fmt: skip
        return None if found is None else nodes[found]

    def group(self, size: int) -> IntArray:
        """Return a node that loses much, drawn at random, and others: every second time those that want its items."""
        assert self.best is not None
        # A small chance for every node: a loss of zero at these multipliers need not be one at better ones.
        chance = self.losses() + 1e-3 * max(self.losses().max(), 1e-9)
        size = min(size, len(chance))
        self.drawn += 1
        # Every second group is drawn without regard to neighbours, so that no combination is excluded for good.
        if self.drawn % 2:
            return np.sort(self.random.choice(len(chance), size, replace=False, p=chance / chance.sum()))
        wants = np.zeros((len(chance), len(chance)))
        np.add.at(wants, self.best, self.wanted.T)
        wants += wants.T
        chosen = [int(self.random.choice(len(chance), p=chance / chance.sum()))]
        for _ in range(size - 1):
            # Noise on the scores: else the same node would always bring the same group.
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
