"""Multipliers of the checkpoints: subgradient steps towards a level (`raised`), then linear programs (`boxed`).

At multipliers u each node takes its best set (`knapsack.best_set`); the bound is L(u) = sum u - sum K_n(u), and
1 - (how often checkpoint j was taken) is a subgradient. A step is Polyak's towards the level best + delta, and delta
shrinks when the bound stops to rise (Brannlund 1995; Goffin and Kiwiel 1999).

The sets are the columns of Dantzig-Wolfe. Weighted by a running average they form a point near the optimum of the
master program (Barahona and Anbil 2000, the volume algorithm): what a linear program would say, without solving one.

Where the master program is small, it is solved as well. The sets known so far are its columns; it says where L(u) could
be largest. Far from u it knows nothing, so u[j] may change by at most `box` (the boxstep method: Marsten, Hogan and
Blankenship 1975). A step that brings half of what the program predicted widens the box, a step that loses narrows it.
It ends when the program predicts too little: then L(u) is within that of the bound of Dantzig-Wolfe. Floating point
decides where to look; L(u) is evaluated in whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.knapsack import best_set
from optimizer.checkpoint_allocation.params import DEFAULT, ColumnGenerationParameters
from optimizer.common.solvers import linear_program, sparse_matrix

_LARGE = 1e100


@dataclass(frozen=True)
class Part:
    """Some nodes and some checkpoints of a program: cost (n, j), load (n, j), room (n,), and their true indices.

    `nodes` (n,) and `items` (j,) are the true indices. Costs are whole numbers in float64, infinite where a pair is not
    allowed; loads and room are whole.
    """

    cost: FloatArray
    load: IntArray
    room: IntArray
    nodes: IntArray
    items: IntArray
    parameters: ColumnGenerationParameters = DEFAULT.columns

    def without(self, node: int, items: IntArray) -> Part:
        """Return the rest when a node takes some checkpoints; both are positions here."""
        nodes, rest = np.delete(np.arange(len(self.nodes)), node), np.delete(np.arange(len(self.items)), items)
        at = np.ix_(nodes, rest)
        return Part(
            self.cost[at], self.load[at], self.room[nodes], self.nodes[nodes], self.items[rest], self.parameters
        )


@dataclass
class Sets:
    """For each node (by true index) the sets it took, as bytes of true indices, with their weights.

    Weights are a running average: they grow by `growth` in place of fading, which costs one division for each step. A
    node keeps its heaviest sets only.
    """

    weights: dict[int, dict[bytes, float]] = field(default_factory=dict)
    growth: float = 1.0

    def add(self, part: Part, chosen: list[IntArray]) -> None:
        """Count the latest sets; older ones lose weight relative to them."""
        # Instead of fading all old weights the new ones grow: one division in place of a pass over every set.
        self.growth /= 1 - part.parameters.average
        most = part.parameters.sets_kept
        for node, at in zip(part.nodes.tolist(), chosen, strict=True):
            known = self.weights.setdefault(node, {})
            # Sorted, so that the same set has the same key whatever order it was found in.
            key = np.sort(part.items[at]).tobytes()
            known[key] = known.get(key, 0.0) + self.growth
            # Half of them at once: sorting for every single set too many would cost more.
            if len(known) > most:
                for light in sorted(known, key=known.__getitem__)[: most // 2]:
                    del known[light]
        # Growth is exponential: rescaled long before float64 overflows.
        if self.growth > _LARGE:
            self._rescale()

    def _rescale(self) -> None:
        for known in self.weights.values():
            for key in known:
                known[key] /= self.growth
        self.growth = 1.0

    def taken(self, node: int, items: IntArray) -> None:
        """Forget a node, and all sets that hold one of the items."""
        self.weights.pop(node, None)
        gone = set(items.tolist())
        for known in self.weights.values():
            # Keys are listed before any is deleted: a dictionary must not change while it is read.
            for key in [key for key in known if not gone.isdisjoint(members(key).tolist())]:
                del known[key]

    def copy(self) -> Sets:
        """Return a copy that may be changed without changing this one."""
        return Sets({node: dict(known) for node, known in self.weights.items()}, self.growth)


def members(key: bytes) -> IntArray:
    """Return the true indices of a set, ascending."""
    return np.frombuffer(key, dtype=np.int64)


@dataclass
class Multipliers:
    """u (j,) with the best bound so far, that bound, and the step towards it.

    u is in whole numbers, so `bound` is exact; both are in the units of the part.
    """

    u: FloatArray
    bound: float
    delta: float


def evaluated(part: Part, u: FloatArray, work: Budget | None = None) -> tuple[float, IntArray, list[IntArray]]:
    """Return L(u), how often each checkpoint was taken (j,), and the sets as positions, one for each node.

    L(u) is a lower bound of what the part costs at any u (j,). 1 - (how often j was taken) is a subgradient of it.
    """
    total, count = float(u.sum()), np.zeros(len(u), dtype=np.int64)
    chosen = []
    # Nodes are independent at fixed multipliers: L(u) separates into one knapsack problem for each.
    for node in range(len(part.nodes)):
        value, at = best_set(u - part.cost[node], part.load[node], int(part.room[node]), work, part.parameters)
        total -= value
        count[at] += 1
        chosen.append(at)
    return total, count, chosen


def raised(
    part: Part,
    u: FloatArray,
    *,
    steps: int,
    delta: float,
    patience: int,
    sets: Sets,
    work: Budget,
    enough: float = np.inf,
) -> Multipliers:
    """Return the best multipliers of at most `steps` steps; stops when the bound reaches `enough`.

    u (j,) is kept to whole numbers. `delta` is the first level above the bound, in its unit; `patience` is how many
    steps without a rise it survives. `sets` gets all sets that are met.
    """
    rise, shrink = part.parameters.rising, part.parameters.shrink
    # Whole multipliers keep all sums exact, so the bound carries no rounding error.
    u = np.rint(u)
    value, count, chosen = evaluated(part, u, work)
    sets.add(part, chosen)
    best = Multipliers(u, value, delta)
    best_count, idle, rising = count, 0, 0
    for _ in range(steps):
        # Checkpoints taken twice are too attractive, those not taken at all too little: their multipliers fall and
        # rise.
        slope = 1.0 - count
        square = float(slope @ slope)
        # A zero slope is an optimum of L(u): the sets are an allocation. Below one unit a level means nothing.
        if square == 0 or best.bound >= enough or best.delta < 1 or work.over:
            break
        # Polyak's step: the level takes the place of the unknown optimum.
        u = np.rint(u + (best.bound + best.delta - value) / square * slope)
        value, count, chosen = evaluated(part, u, work)
        sets.add(part, chosen)
        rises = value - best.bound
        idle = 0 if rises > 0.1 * best.delta else idle + 1
        rising = rising + 1 if rises > 0.5 * best.delta else 0
        if rises > 0:
            best.u, best.bound, best_count = u, value, count
        if rising >= rise:
            best.delta, rising = best.delta / shrink, 0
        # Back to the best point with a lower level: the present one has drifted without gain.
        if idle >= patience:
            best.delta, idle = best.delta * shrink, 0
            u, value, count = best.u, best.bound, best_count
    return best


_AT_BOX = 0.999  # share of the box from which on a multiplier is at the box


class _Columns:
    """Sets of the nodes, positions in the part, no set twice."""

    def __init__(self, part: Part, sets: Sets) -> None:
        self.part = part
        self.known: dict[tuple[int, bytes], IntArray] = {}
        # Sets are known by true indices, the program counts positions in its part.
        item = {true: at for at, true in enumerate(part.items.tolist())}
        node = {true: at for at, true in enumerate(part.nodes.tolist())}
        for true, weights in sets.weights.items():
            for key in weights:
                self.add(node[true], np.array([item[one] for one in members(key).tolist()], dtype=np.int64))

    def add(self, node: int, chosen: IntArray) -> bool:
        """Return whether the set is new."""
        ordered = np.sort(chosen)
        key = (node, ordered.tobytes())
        new = key not in self.known
        self.known[key] = ordered
        return new

    def program(self, u: FloatArray, box: float, until_s: float) -> tuple[FloatArray, float, int] | None:
        """Return what to add to u (j,), what the sum of the sets' reduced costs would be, and iterations."""
        chosen = list(self.known.values())
        node = np.array([key[0] for key in self.known])
        sizes = np.array([len(one) for one in chosen])
        rows, columns = np.concatenate(chosen), np.repeat(np.arange(len(chosen)), sizes)
        # Reduced costs at the present u: the program then decides only on the change of u.
        cost = np.bincount(columns, self.part.cost[node[columns], rows] - u[rows], len(chosen))
        j, n = self.part.cost.shape[1], len(self.part.nodes)
        more = np.arange(j)
        # Rows: one for each checkpoint, then one for each node. Columns: sets, then too little and too much of each
        # checkpoint.
        lines = np.concatenate([rows, more, more, j + node])
        places = np.concatenate([columns, len(chosen) + more, len(chosen) + j + more, np.arange(len(chosen))])
        ones = np.ones(len(rows) + len(chosen) + 2 * j)
        ones[len(rows) + j : len(rows) + 2 * j] = -1
        matrix = sparse_matrix(ones, lines, places, (j + n, len(chosen) + 2 * j))
        # Too little and too much of a checkpoint cost the box: the dual of that is |change of u| <= box.
        answer = linear_program(
            np.concatenate([cost / box, np.ones(2 * j)]),
            at_most=(matrix[j:], np.ones(n)),
            equal=(matrix[:j], np.ones(j)),
            method="highs-ds",
            limit_s=until_s,
            iterations=self.part.parameters.master_iterations,
        )
        return (answer.dual_equal * box, answer.objective * box, answer.iterations) if answer.is_optimal else None


def boxed(
    part: Part,
    start: Multipliers,
    sets: Sets,
    *,
    box: float,
    close: float,
    work: Budget,
) -> Multipliers:
    """Return multipliers whose bound is within `close` of the best there are, unless the work ends.

    They are never worse than the start; `sets` have been met before.
    """
    best, own = start, part.parameters
    wider, narrower, much_wider = own.box_factors
    columns = _Columns(part, sets)
    # Ends by count; most often because the prediction is close, or the work is over.
    for _ in range(own.master_steps):
        if work.over or not columns.known:
            break
        found = columns.program(best.u, box, work.left_s)
        # Duals that are no numbers: the program was degenerate beyond the solver's tolerances.
        if found is None or not np.isfinite(found[0]).all():
            break
        step, change, iterations = found
        work.linear(len(step) + len(part.nodes), len(columns.known) + 2 * len(step), iterations)
        u = np.rint(best.u + step)
        # The evaluation in whole numbers decides what was gained; the program only proposed.
        value, _, chosen = evaluated(part, u, work)
        new = [columns.add(node, at) for node, at in enumerate(chosen)]
        predicted, got = float(best.u.sum()) + change - best.bound, value - best.bound
        stopped = float((np.abs(step) > _AT_BOX * box).mean())
        if got > 0:
            best = Multipliers(u, value, best.delta)
        # A close prediction counts only where the box holds few multipliers back: else a larger box may predict more.
        if predicted < close and stopped < own.box_felt:
            break
        # No new set: the program would give the same answer again in the same box.
        if predicted < close or not any(new):
            box *= much_wider
        elif got > 0.5 * predicted and stopped > own.box_felt:
            box *= wider
        elif got < -predicted:
            box = max(box * narrower, 1.0)
    return best
