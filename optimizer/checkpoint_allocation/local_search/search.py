"""Feasible answers without a proof: repair of a start at dual prices, then shifts and swaps.

A simple local search: it decides nothing about bounds, and its answers are checked like everybody else's.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.params import DEFAULT, LocalSearchParameters
from optimizer.verify.checkpoint_bounds import fitting


class Search:
    """An assignment that is being changed, with its node loads: the only local search that knows copies.

    `start` (J,) may break any rule, with -1 for a checkpoint on no node; `prices` (N,) [cost per load] rank moves and
    prove nothing. Once the clock of the budget has struck, the repair still ends, and nothing is improved.

    State: `node` (J,) and `loads` (N,), which `_move` keeps in step. Every move looks at all nodes of a checkpoint;
    `Exchange` looks at few of them, in bulk, and is for larger problems without copies.
    """

    def __init__(
        self,
        problem: CheckpointAllocation,
        start: IntArray,
        prices: FloatArray,
        parameters: LocalSearchParameters = DEFAULT.local_search,
        budget: Budget | None = None,
    ) -> None:
        self.problem, self.parameters = problem, parameters
        self.budget = Budget() if budget is None else budget
        self.prices = prices
        self.fits = fitting(problem)
        self.node = start.copy()
        self.loads = problem.node_loads(self.node)

    def run(self) -> IntArray | None:
        """Return a repaired and improved assignment (J,), or None when repair got stuck.

        Steps: everybody on an allowed node, overloaded nodes emptied, nodes filled up to their minimum, then moves and
        swaps that save cost. None proves nothing: the order of the moves may have been a bad one.
        """
        # The order matters: unloading and filling assume that everyone is on an allowed node.
        if not (self._settle() and self._unload() and self._fill()):
            return None
        self._descend()
        return self.node

    def _move(self, j: int, n: int) -> None:
        if self.node[j] >= 0:
            self.loads[self.node[j]] -= self.problem.weights[j, self.node[j]]
        self.node[j] = n
        self.loads[n] += self.problem.weights[j, n]

    def _room(self, rows: IntArray) -> BoolArray:
        """Return where checkpoints could go now without breaking capacity, anti-affinity or moves, (len(rows), N)."""
        p = self.problem
        room = self.fits[rows] & (self.loads + p.weights[rows] <= p.upper)
        stays = np.full(len(rows), False)
        # At the limit a checkpoint that still runs where it ran may not leave; one that has moved may move again.
        if p.max_moves is not None and p.current is not None and p.moves(self.node) >= p.max_moves:
            stays = self.node[rows] == p.current[rows]
        room[stays] = False
        if p.neighbours:
            for k, j in enumerate(rows.tolist()):
                for other in p.neighbours.get(j, ()):
                    if self.node[other] >= 0:
                        room[k, self.node[other]] = False
        # The own node is no move: its load is counted on it already.
        room[np.arange(len(rows)), self.node[rows]] = False
        return room

    def _priced(self, rows: IntArray) -> FloatArray:
        return self.problem.cost[rows] + self.prices * self.problem.weights[rows]

    def _settle(self) -> bool:
        """Place checkpoints that are on no node, on one that cannot take them, or beside an anti-affine one."""
        p = self.problem
        for j in range(p.n_checkpoints):
            here = int(self.node[j])
            # Neighbours are tested against the present state: of a clashing pair the first one leaves.
            clash = any(self.node[k] == here for k in p.neighbours.get(j, ()))
            if here >= 0 and self.fits[j, here] and not clash:
                continue
            one = np.array([j])
            priced = np.where(self._room(one), self._priced(one), np.inf)[0]
            if not np.isfinite(priced).any():
                return False
            self._move(j, int(priced.argmin()))
        return True

    def _unload(self) -> bool:
        """Empty overloaded nodes by the moves of least priced cost per useful load."""
        p = self.problem
        # Ends by count: moves between nearly full nodes could go on in circles.
        for _ in range(4 * p.n_checkpoints):
            over = np.flatnonzero(self.loads > p.upper)
            if not len(over):
                return True
            n = int(over[0])
            members = np.flatnonzero(self.node == n)
            members = members[p.weights[members, n] > 0]
            priced = self._priced(members)
            # Useful load only: the excess may be less than a checkpoint's load.
            useful = np.minimum(p.weights[members, n], self.loads[n] - p.upper[n])
            with np.errstate(over="ignore"):  # infinite where a load is next to nothing
                score = np.where(self._room(members), (priced - priced[:, [n]]) / useful[:, None], np.inf)
            if not np.isfinite(score).any():
                return False
            k, to = np.unravel_index(int(score.argmin()), score.shape)
            self._move(int(members[k]), int(to))
        return False

    def _fill(self) -> bool:
        """Bring nodes up to their minimum with the checkpoints that cost least per load and can be spared."""
        p = self.problem
        rows = np.arange(p.n_checkpoints)
        for _ in range(4 * p.n_checkpoints):
            low = np.flatnonzero(self.loads < p.lower)
            if not len(low):
                return True
            n = int(low[0])
            weight = p.weights[rows, n]
            useful = np.minimum(weight, p.lower[n] - self.loads[n])
            # Minima come after capacities: a checkpoint may leave only where it is not needed for another minimum.
            can = self._room(rows)[:, n] & self._can_leave(rows) & (useful > 0)
            extra = p.cost[:, n] - p.cost[rows, self.node]
            with np.errstate(over="ignore"):
                score = np.where(can, extra / np.where(useful > 0, useful, 1.0), np.inf)
            if not np.isfinite(score).any():
                return False
            self._move(int(score.argmin()), n)
        return False

    def _can_leave(self, rows: IntArray) -> BoolArray:
        here = self.node[rows]
        return self.loads[here] - self.problem.weights[rows, here] >= self.problem.lower[here]

    def _descend(self) -> None:
        """Move single checkpoints to cheaper nodes with room, and swap pairs, until nothing improves or passes end."""
        p = self.problem
        # A large problem gets one pass: a pass looks at every pair.
        for _ in range(self.parameters.plain_passes if p.cost.size <= self.parameters.plain_quick else 1):
            changed = False
            if self.budget.late:
                return
            for j in range(p.n_checkpoints):
                one = np.array([j])
                # A saving must not break a minimum that was just filled.
                if not self._can_leave(one)[0]:
                    continue
                cost = np.where(self._room(one)[0], p.cost[j], np.inf)
                best = int(cost.argmin())
                if cost[best] < p.cost[j, self.node[j]]:
                    self._move(j, best)
                    changed = True
            changed = self._swap() or changed
            if not changed:
                return

    def _swap(self) -> bool:
        """Return whether swaps of two checkpoints lowered the cost, the best one first."""
        p = self.problem
        # Swaps compare all pairs of checkpoints, and do not look at copies or moves.
        if p.n_checkpoints > self.parameters.plain_swap_rows or p.neighbours or p.max_moves is not None:
            return False
        rows = np.arange(p.n_checkpoints)
        for count in range(self.parameters.plain_swaps):
            here = self.node
            there = np.where(self.fits, p.cost, np.inf)[:, here]  # [a, b]: cost of a on b's node
            gain = there + there.T - p.cost[rows, here][:, None] - p.cost[rows, here]
            weight = p.weights[:, here]
            after = self.loads[here][:, None] - p.weights[rows, here][:, None] + weight.T  # node of a, with b for a
            fine = (after <= p.upper[here][:, None]) & (after >= p.lower[here][:, None])
            # Both ends have to fit: the transpose is the same test for the partner.
            gain = np.where(fine & fine.T, gain, np.inf)
            a, b = np.unravel_index(int(gain.argmin()), gain.shape)
            # Beyond rounding: otherwise a swap of equals would never end.
            if not gain[a, b] < -1e-12 * (1 + abs(there[a, b])):
                return count > 0
            na, nb = int(here[a]), int(here[b])
            self._move(int(a), nb)
            self._move(int(b), na)
        return True
