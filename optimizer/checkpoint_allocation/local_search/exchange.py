"""Feasible answers at any size: repair at dual prices, shifts and swaps in bulk, and a program on few pairs.

All looks at the kept pairs (`candidates`) in whole arrays. At prices lambda with bound L, an answer x is above it by

    c(x) - L = sum_j (priced cost of j's node - its least)  +  sum_n lambda[n] (capacity[n] - load[n])

so what is left to gain is in checkpoints that are not on their cheapest node, and in room where a price is paid. A step
applies all improving moves that touch different nodes, best first: none of them can spoil another. Ties go by index, so
the same problem gives the same answer.

`pack_all` packs all nodes again at once, by a program on the few pairs that are nearest to the cheapest. At good prices
few pairs matter: those whose priced cost is least above their checkpoint's cheapest. With one or two of them for each
node, and where each checkpoint is now, HiGHS mostly needs no or few branches. It finds exchanges over many nodes that
no group of a few has. An answer counts when it keeps the true capacities and costs less; it proves nothing. The limit
is a number of branch-and-bound nodes.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import Candidates, with_nodes
from optimizer.checkpoint_allocation.mixed_integer import at_most, rules_of_pairs
from optimizer.checkpoint_allocation.params import DEFAULT, LocalSearchParameters
from optimizer.common.solvers import mixed_integer_program


class Exchange:
    """An assignment that is being changed: `at` (J,) is the column of each checkpoint's node among its candidates.

    `loads` (N,) are those of the assignment, `priced` (J, K) the costs at `prices` (N,), `least` (J,) their minima.
    Only `accept`, `shift` and `swap` keep the capacities; `place` and `start_from` take anything. Anti-affinity pairs
    are unknown here.

    Invariant: `loads` is the exact sum of the present assignment, for it is counted anew after every change. Candidates
    are values that several states may share, so none of them is ever changed.
    """

    def __init__(
        self,
        problem: CheckpointAllocation,
        found: Candidates,
        prices: FloatArray,
        parameters: LocalSearchParameters = DEFAULT.local_search,
    ) -> None:
        self.problem, self.found, self.prices, self.parameters = problem, found, prices, parameters
        self.rows = np.arange(problem.n_checkpoints)
        self.priced = found.priced(prices)
        self.least = self.priced.min(axis=1)
        self.at = self.priced.argmin(axis=1)
        self._count()

    @property
    def assignment(self) -> IntArray:
        """Return the node of each checkpoint, (J,)."""
        here: IntArray = self.found.nodes[self.rows, self.at]
        return here

    def start_from(self, assignment: IntArray) -> None:
        """Take a given assignment (J,); a node that is no candidate replaces the dearest one."""
        found = with_nodes(self.problem, self.found, self.prices, assignment)
        lost = np.flatnonzero(found.nodes[self.rows, self.at] != self.assignment)
        if found is not self.found:
            self.found = found
            self.at_prices(self.prices)
        # A candidate with infinite cost is a forbidden pair: the checkpoint must not be there.
        finite = (found.nodes == assignment[:, None]) & np.isfinite(found.cost)
        known = finite.any(axis=1)
        self.at[known] = finite[known].argmax(axis=1)
        # One whose candidate was replaced, by a node that it may not have, goes where it is cheapest.
        lost = lost[~known[lost]]
        self.at[lost] = self.priced[lost].argmin(axis=1)
        self._count()

    def look_at(self, found: Candidates) -> None:
        """Look at other candidates, and stay: where a checkpoint is becomes a candidate if it is none."""
        here = self.assignment
        self.found = found
        self.at_prices(self.prices)
        self.start_from(here)

    def _count(self) -> None:
        here = self.assignment
        own = self.found.load[self.rows, self.at]
        self.loads = np.bincount(here, weights=own, minlength=self.problem.n_nodes).astype(np.float64)

    def _move(self, rows: IntArray, to: IntArray) -> None:
        """Move some checkpoints to the columns `to`; loads are counted again, so that nothing drifts."""
        # Counted anew rather than updated: differences of floats would drift over thousands of moves.
        self.at[rows] = to
        self._count()

    def place(self, at: IntArray) -> None:
        """Take the column `at` (J,) of each checkpoint, whatever the capacities; a copy is kept."""
        self.at = at.copy()
        self._count()

    def at_prices(self, prices: FloatArray) -> None:
        """Judge by other prices (N,) [cost per load]; the assignment stays."""
        self.prices = prices
        self.priced = self.found.priced(prices)
        self.least = self.priced.min(axis=1)

    def cost(self) -> float:
        """Return the cost of the assignment: a plain float64 sum, to compare states with."""
        return float(self.found.cost[self.rows, self.at].sum())

    def dear(self) -> FloatArray:
        """Return how much dearer each checkpoint is at the prices than where it is cheapest, (J,)."""
        above: FloatArray = self.priced[self.rows, self.at] - self.least
        return above

    def losses(self) -> FloatArray:
        """Return the loss of each node against the bound of the prices, (N,): dearer checkpoints, and priced room.

        Their sum is the objective less the Lagrangian bound of the candidates (see the module), so it is also the most
        that any search can still gain.
        """
        lost: FloatArray = np.bincount(self.assignment, self.dear(), self.problem.n_nodes).astype(np.float64)
        # Room without a price loses nothing; without this test infinite room would give a number that is none.
        priced = self.prices > 0
        lost[priced] += self.prices[priced] * np.maximum(self.problem.upper[priced] - self.loads[priced], 0.0)
        return lost

    def accept(self, rows: IntArray, to: IntArray, *, dearer: bool = False) -> bool:
        """Move checkpoints (k,) to columns (k,) if that keeps the limits and costs less (or may be dearer).

        Capacities, minima and the limit on moves are tested after all of them have moved, since a chain is feasible
        only as a whole. If the answer is False, nothing has changed.
        """
        cost = self.found.cost
        saved = (cost[rows, self.at[rows]] - cost[rows, to]).sum()
        # Compared relative to the costs: a saving within rounding could be undone and repeated for ever.
        if not dearer and not saved > 1e-12 * np.abs(cost[rows, to]).sum():
            return False
        before = self.at[rows].copy()
        self._move(rows, to)
        # Only touched nodes can have changed from within their limits to outside.
        touched = np.unique(np.concatenate([self.found.nodes[rows, before], self.found.nodes[rows, to]]))
        few = self.problem.max_moves is None or self.problem.moves(self.assignment) <= self.problem.max_moves
        if few and self._within(touched, self.loads[touched]).all():
            return True
        # Moves are undone as a whole: a chain is feasible only with all its moves.
        self._move(rows, before)
        return False

    def accept_relief(self, rows: IntArray, to: IntArray) -> bool:
        """Move checkpoints (k,) to columns (k,) when no node has too much after it that had not before; else False.

        An overloaded node may stay so, but may not get more. If the answer is False, nothing has changed.
        """
        before, loads = self.at[rows].copy(), self.loads
        self._move(rows, to)
        # Against the loads before, not the capacity: relief must not wait for all nodes to fit at once.
        fine = (self.loads <= np.maximum(self.problem.upper, loads)).all()
        if fine and (self.problem.max_moves is None or self.problem.moves(self.assignment) <= self.problem.max_moves):
            return True
        self._move(rows, before)
        return False

    def repair(self) -> bool:
        """Return whether no node is overloaded any more: moves of least priced cost per useful load, into room.

        False where no such move is left, or their rounds are used up; the state is then somewhere between. Minimum
        loads are not looked at.
        """
        upper = self.problem.upper
        # Ends by count: a repair that goes in circles has no other limit.
        for _ in range(self.parameters.repairs):
            over = self.loads - upper
            if not (over > 0).any():
                return True
            rows = np.flatnonzero(over[self.assignment] > 0)
            here, own = self.assignment[rows], self.at[rows]
            load = self.found.load[rows]
            # Load beyond the excess is no use: a heavy one must not win by load that need not leave.
            useful = np.minimum(load[np.arange(len(rows)), own], over[here])
            room = (self.loads - upper)[self.found.nodes[rows]] + load <= 0
            # Staying is no move.
            room[np.arange(len(rows)), own] = False
            extra = self.priced[rows] - self.priced[rows, own][:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                score = np.where(room & (useful > 0)[:, None], extra / useful[:, None], np.inf)
            best = score.argmin(axis=1)
            value = score[np.arange(len(rows)), best]
            # No node twice: each move is still right after all the others.
            chosen = _node_disjoint(value, here, self.found.nodes[rows, best], len(upper))
            chosen = chosen[self._affordable(self._more_moves(rows[chosen], best[chosen]))]
            if not len(chosen):
                return False
            self._move(rows[chosen], best[chosen])
        return False

    def shift(self) -> bool:
        """Return whether there were moves of single checkpoints to cheaper nodes with room.

        All moves of a call touch different nodes, so each is still right after the others. Every call that moves
        anything lowers the cost, so a loop of calls ends.
        """
        upper, lower = self.problem.upper, self.problem.lower
        own = self.found.cost[self.rows, self.at]
        weight = self.found.load[self.rows, self.at]
        cheaper = self.found.cost < own[:, None]
        # Room at the present loads; node-disjoint choice keeps that true for all moves together.
        rows, to = np.nonzero(cheaper & (self.loads[self.found.nodes] + self.found.load <= upper[self.found.nodes]))
        here = self.assignment[rows]
        spared = self.loads[here] - weight[rows] >= lower[here]
        # A node must not fall below its minimum by a move that only saves cost.
        rows, to, here = rows[spared], to[spared], here[spared]
        gain = self.found.cost[rows, to] - own[rows]
        chosen = _node_disjoint(gain, here, self.found.nodes[rows, to], len(upper))
        chosen = chosen[self._affordable(self._more_moves(rows[chosen], to[chosen]))]
        self._move(rows[chosen], to[chosen])
        return len(chosen) > 0

    def swap(self, margin: float) -> bool:
        """Return whether pairs of checkpoints were exchanged to save cost, among pairs within `margin` of the least.

        `margin` is in units of cost at the prices. Pairs that exchange places are found by a join on (from, to), of at
        most `swap_pairs` rows; the swaps that are made touch different nodes.
        """
        n, here = self.problem.n_nodes, self.assignment
        near = self.priced - self.least[:, None] <= margin
        near[self.rows, self.at] = False
        rows, to = np.nonzero(near & np.isfinite(self.priced))
        source, target = here[rows], self.found.nodes[rows, to]
        # Every swap has one move from a lower to a higher node and one back: pairs are looked for once.
        forth = source < target
        # A join on (from, to): the partner goes exactly the other way.
        first, second = _equi_join(
            source[forth] * n + target[forth], target[~forth] * n + source[~forth], self.parameters.swap_pairs
        )
        one, other = np.flatnonzero(forth)[first], np.flatnonzero(~forth)[second]
        return self._swap_best(rows, to, one, other)

    def _swap_best(self, rows: IntArray, to: IntArray, one: IntArray, other: IntArray) -> bool:
        """Return whether some swaps were made: the best ones that touch different nodes and keep the limits."""
        j, k = rows[one], rows[other]
        cost, load = self.found.cost, self.found.load
        gain = cost[j, to[one]] - cost[j, self.at[j]] + cost[k, to[other]] - cost[k, self.at[k]]
        # Beyond rounding: a swap with equal cost could be swapped back for ever.
        keep = gain < -1e-12 * (np.abs(cost[j, self.at[j]]) + np.abs(cost[k, self.at[k]]))
        one, other, j, k, gain = one[keep], other[keep], j[keep], k[keep], gain[keep]
        a, b = self.assignment[j], self.assignment[k]
        # Both leave before both arrive: only the loads after the swap count.
        after_a = self.loads[a] - load[j, self.at[j]] + load[k, to[other]]
        after_b = self.loads[b] - load[k, self.at[k]] + load[j, to[one]]
        fine = self._within(a, after_a) & self._within(b, after_b)
        one, other, j, k = one[fine], other[fine], j[fine], k[fine]
        chosen = _node_disjoint(gain[fine], a[fine], b[fine], self.problem.n_nodes)
        more = self._more_moves(j[chosen], to[one[chosen]]) + self._more_moves(k[chosen], to[other[chosen]])
        chosen = chosen[self._affordable(more)]
        self._move(np.concatenate([j[chosen], k[chosen]]), np.concatenate([to[one[chosen]], to[other[chosen]]]))
        return len(chosen) > 0

    def _more_moves(self, rows: IntArray, to: IntArray) -> IntArray:
        """Return how the number of moves grows when checkpoints go to columns: 1, 0, or -1 for one that returns."""
        current = self.problem.current
        if current is None or self.problem.max_moves is None:
            return np.zeros(len(rows), dtype=np.int64)
        away = self.found.nodes[rows, to] != current[rows]
        more: IntArray = away.astype(np.int64) - (self.assignment[rows] != current[rows])
        return more

    def _affordable(self, more: IntArray) -> BoolArray:
        """Return a mask of the first steps that the limit on moves allows together."""
        if self.problem.max_moves is None:
            return np.ones(len(more), dtype=np.bool_)
        left = self.problem.max_moves - self.problem.moves(self.assignment)
        # Returning moves give room only afterwards: they are not counted on, so the limit holds at every moment.
        return np.cumsum(np.maximum(more, 0)) <= left

    def _within(self, nodes: IntArray, loads: FloatArray) -> BoolArray:
        return (loads <= self.problem.upper[nodes]) & (loads >= self.problem.lower[nodes])


def _node_disjoint(value: FloatArray, a: IntArray, b: IntArray, n: int) -> IntArray:
    """Return indices of finite values, smallest first, so that no node is touched twice; not the most, but in bulk.

    Each round takes what is first at both of its nodes.
    """
    left = np.flatnonzero(np.isfinite(value))
    left = left[np.argsort(value[left], kind="stable")]
    taken = []
    # Eight rounds are most of what there is; what is left over comes in the next step.
    for _ in range(8):
        if not len(left):
            break
        rank = np.arange(len(left))
        first = np.full(n, len(left))
        np.minimum.at(first, a[left], rank)
        np.minimum.at(first, b[left], rank)
        best = (first[a[left]] == rank) & (first[b[left]] == rank)
        taken.append(left[best])
        used = np.zeros(n, dtype=np.bool_)
        used[a[left[best]]] = used[b[left[best]]] = True
        left = left[~(used[a[left]] | used[b[left]])]
    return np.concatenate(taken) if taken else left


def _equi_join(keys: IntArray, others: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Return all pairs of positions with equal keys, at most `most`."""
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    begin, end = np.searchsorted(ordered, keys, "left"), np.searchsorted(ordered, keys, "right")
    count = end - begin
    # Whole keys only: half of a group's pairs would depend on the order of rows.
    if count.sum() > most:
        count = np.where(np.cumsum(count) <= most, count, 0)
    first = np.repeat(np.arange(len(keys)), count)
    inside = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return first, order[begin[first] + inside]


_NARROWER = 1e-7  # relative: what HiGHS takes for room; the true capacities are looked at afterwards


def pack_all(state: Exchange, budget: Budget, *, size: float, branches: int, target: float, toll: float = 0.0) -> bool:
    """Improve the state by a program with `size` pairs for each node; False when the clock struck.

    `branches` are its nodes of branch and bound at most. Nothing is done where the answer is within `target` of the
    bound that the state's prices prove. Where moves are counted `toll` is what one must save to be worth it.
    """
    # Within the target nothing is worth the program; the clock still says whether it has struck.
    if state.losses().sum() > target:
        if budget.late:
            return False
        pairs = min(state.parameters.program_pairs, int(size * state.problem.n_nodes))
        _pack(state, pairs, branches, budget, toll)
    return not budget.late


def _pack(state: Exchange, pairs: int, branches: int, budget: Budget, toll: float) -> None:
    """Take the cheaper answer, if any, of a program on `pairs` pairs and the present place of each checkpoint."""
    problem, found = state.problem, state.found
    moves: BoolArray = np.zeros(found.nodes.shape, np.bool_)
    if problem.max_moves is not None and problem.current is not None:
        moves = found.nodes != problem.current[:, None]
    priced = state.priced + toll * moves
    extra = priced - priced.min(axis=1, keepdims=True)
    # Where it is, a checkpoint may always stay: so the program has a solution, the present one.
    extra[state.rows, state.at] = 0.0
    others = extra[np.isfinite(extra) & (extra > 0)]
    # A limit on extra cost rather than on pairs for each checkpoint: pairs go where they are cheap.
    limit = float(np.partition(others, pairs - 1)[pairs - 1]) if len(others) > pairs else np.inf
    j, k = np.nonzero((extra <= limit) & np.isfinite(extra))
    # Checkpoints with one pair stay: they are capacity used, and no column of the program.
    fixed = np.bincount(j, minlength=problem.n_checkpoints)[j] == 1
    stays = j[fixed], k[fixed]
    held = np.zeros(problem.n_nodes)
    np.add.at(held, found.nodes[stays], found.load[stays])
    made = int(moves[stays].sum())
    j, k = j[~fixed], k[~fixed]
    if not len(j):
        return
    cost = found.cost[j, k] - found.cost[j, state.at[j]]
    upper, lower = problem.upper, problem.lower
    size = np.where(np.isfinite(upper) & (upper > 0), upper, 1.0)
    # Narrower than the truth: the tolerance of HiGHS must not break a capacity.
    least = np.where(lower > 0, (lower - held) / size + _NARROWER, -np.inf)
    most = (upper - held) / size - _NARROWER
    rules = rules_of_pairs(j, found.nodes[j, k], found.load[j, k] / size[found.nodes[j, k]], most, least)
    if problem.max_moves is not None:
        rules.append(at_most(moves[j, k], problem.max_moves - made))
    unit = max(float(np.abs(cost).max()), 1e-300)
    gap = state.parameters.program_gap
    answer = mixed_integer_program(cost / unit, rules, nodes=branches, gap=gap, limit_s=budget.left_s)
    if answer.x is not None:
        chosen = np.flatnonzero(answer.x > 0.5)
        # `accept` tests true capacities and cost: the program's word is not taken.
        state.accept(j[chosen], k[chosen])
