"""Answers with a proven gap where a whole program is too large: prices, linear program on a core, repair, search.

1. Prices of a smoothed problem choose the pairs that matter (`candidates`).
2. Checkpoints whose second node is dearer by more than a margin stay on their best one; the linear program of the
   others has duals, the best prices there are when nothing that was left out is cheaper. It also says where checkpoints
   go: all but at most N of them to one node.
3. That is repaired and improved (`exchange`), from the smoothed prices as well, and the better one goes on.
4. Where heavy checkpoints are, dives that decide these first (`linear_core`) begin anew from the best prices.
5. All nodes are packed again with few pairs (`exchange`); ejection chains, forced moves and iterated local search go on
   from there (`ejection_chains`).

The bound is L of the best prices, over all pairs in float64 (`optimizer.verify.checkpoint_bounds`). The heuristics
above cannot affect it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import Candidates, candidates, scale_of, with_nodes
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices, first_prices, smoothed_dual_prices
from optimizer.checkpoint_allocation.linear_core import dived, relaxed
from optimizer.checkpoint_allocation.local_search.ejection_chains import (
    EjectionChains,
    apply_chains,
    forced_moves,
    iterated_local_search,
)
from optimizer.checkpoint_allocation.local_search.exchange import Exchange, pack_all
from optimizer.checkpoint_allocation.params import DEFAULT, Parameters
from optimizer.verify.checkpoint_bounds import fits_somewhere, lagrangian_bound

_CHAIN_ROUNDS = 2


@dataclass(frozen=True)
class HeuristicAnswer:
    """An answer (None: not found), the prices whose bound is the best, that bound, and whether the clock struck.

    `bound` is the Lagrangian bound of the `prices` (N,) over all pairs, -inf where some checkpoint fits on no node.
    """

    assignment: IntArray | None
    prices: FloatArray
    bound: float
    struck: bool = False


def lagrangian_heuristic(
    problem: CheckpointAllocation,
    budget: Budget,
    parameters: Parameters = DEFAULT,
    *,
    start: IntArray | None = None,
    alone: bool = True,
) -> HeuristicAnswer:
    """Return the best answer of the steps above; no anti-affinity, no limit on moves.

    `start` (J,) is improved as well. Not `alone` when column generation follows: then less is searched.
    """
    # A checkpoint without any node: no prices could mend that, and the bound would be infinite.
    if not fits_somewhere(problem):
        return HeuristicAnswer(None, np.zeros(problem.n_nodes), -math.inf)
    search = _Search(problem, budget, parameters)
    bound = lagrangian_bound(problem, search.prices)
    linear = None
    if "linear core" in parameters.pieces:
        linear = relaxed(problem, search.found, search.prices, budget, parameters.lagrangian)
    states = [search.improved(search.prices)]
    if linear is not None:
        better, at = linear
        value = lagrangian_bound(problem, better)
        # Duals of the core are the best prices only if nothing left out is cheaper: the full bound decides.
        if value > bound:
            search.prices, bound = better, value
        states.append(search.improved(better, at=at))
    # A given start is improved as well, so the answer is never worse than it.
    if start is not None:
        search.found = with_nodes(problem, search.found, search.prices, start)
        states.append(search.improved(search.prices, start=start))
    # Repair failed from every start: prices for smaller capacities leave room for it.
    if not any(states):
        states += [search.squeezed()]
    kept = [state for state in states if state is not None]
    if not kept:
        return HeuristicAnswer(None, search.prices, bound, budget.late)
    state = min(kept, key=lambda one: problem.objective(one.assignment))
    # Judged by the best prices from here on, whatever prices the state was made with.
    if state.found is not search.found:
        state.look_at(search.found)
    state.at_prices(search.prices)
    if problem.cost.size <= parameters.sizes.search:
        target = parameters.lagrangian.close * abs(bound)
        if alone:
            state = search.dives(state, bound)
            search.in_turns(state, target)
        # Column generation follows: it needs a start, and finds the last per cent itself.
        else:
            search.quickly(state, target, small=problem.cost.size <= parameters.sizes.program)
    return HeuristicAnswer(state.assignment, search.prices, bound, budget.late)


class _Search:
    """Candidates and prices of a problem, and what is made of them within a budget."""

    def __init__(self, problem: CheckpointAllocation, budget: Budget, parameters: Parameters) -> None:
        self.problem, self.budget = problem, budget
        self.own, self.local, self.pieces = parameters.lagrangian, parameters.local_search, parameters.pieces
        self.scale = scale_of(problem)
        # Large problems get fewer rounds, in proportion: a round costs time in proportion to its rows.
        self.rows = min(1.0, self.own.round_rows / problem.n_checkpoints)
        if "smoothed dual" in self.pieces:
            self.found, self.prices = self._settled()
        else:
            self.prices = dual_prices(problem, self.own)
            self.found = candidates(problem, self.prices, self.own.kept)

    def _settled(self) -> tuple[Candidates, FloatArray]:
        """Return candidates, and prices that they lead to: at falling temperatures, each with other candidates.

        The first candidates follow from a sample. Where rows are alike, other pairs are the best at better prices.
        """
        # Candidates follow prices and prices candidates: at each temperature both are renewed.
        prices = first_prices(self.problem, self.scale, self.own)
        for temperature, steps in self.own.temperatures:
            found = candidates(self.problem, prices, self.own.kept)
            prices = smoothed_dual_prices(
                self.problem, found, prices, temperature * self.scale, steps=steps, parameters=self.own
            )
        return found, prices

    def dives(self, state: Exchange, bound: float) -> Exchange:
        """Return the best of a state and of what dives lead to, improved by ejection chains and forced moves."""
        if "core dives" not in self.pieces:
            return state
        problem, found, prices = state.problem, state.found, state.prices
        for share in self.own.dives[: int(self.own.dives_per_s * self.rows * self.budget.limit)]:
            if self.budget.late:
                break
            # What is to be gained decides how far from their minimum heavy checkpoints may go.
            gain = state.cost() - bound
            at = dived(problem, found, prices, self.budget, self.own, gain=gain, share=share)
            other = None if at is None else self.improved(prices, at=at, found=found)
            if other is not None:
                self._forced(self._with_chains(other, rounds=1), 0.0)
                # `min` keeps the first of equals: a dive replaces the state only where it is better.
                state = min(state, other, key=lambda one: one.cost())
        return state

    def in_turns(self, state: Exchange, target: float) -> None:
        """Improve a state by programs on all nodes, ejection chains, forced moves and iterated search in turn."""
        for turn, (size, branches, rounds) in enumerate(self.own.turns):
            if "few pairs" in self.pieces:
                most = math.ceil(branches * self.budget.limit)
                pack_all(state, self.budget, size=size, branches=most, target=target)
            chains = self._with_chains(state, rounds=1)
            self._forced(chains, target)
            if "iterated search" in self.pieces:
                most = math.ceil(rounds * self.rows * self.budget.limit)
                iterated_local_search(chains, most, self.budget, target=target, seed=turn)
            if self.budget.late:
                return

    def quickly(self, state: Exchange, target: float, *, small: bool) -> None:
        """Improve a state a little where other methods follow; of a small problem those say more."""
        if not small and "few pairs" in self.pieces:
            pack_all(state, self.budget, size=self.own.turns[0][0], branches=1, target=target)
        chains = self._with_chains(state)
        if not small:
            self._forced(chains, target)

    def _forced(self, chains: EjectionChains, target: float) -> None:
        if "forced moves" in self.pieces:
            forced_moves(chains, self.local.forced, self.budget, target=target)

    def _with_chains(self, state: Exchange, rounds: int = _CHAIN_ROUNDS) -> EjectionChains:
        """Return the chains of a state after those that save cost were made; none are made once the clock struck."""
        pairs = max(self.local.chain_pairs, self.local.chain_pairs_per_node * state.problem.n_nodes)
        # Zero toll: moves are not counted here.
        chains = EjectionChains(state, pairs, 0.0)
        most = min(self.local.chains, self.local.chain_work // max(1, len(chains.rows)))
        for _ in range(rounds if "chains" in self.pieces else 0):
            if self.budget.late or apply_chains(chains, most) == 0:
                break
        return chains

    def improved(
        self,
        prices: FloatArray,
        *,
        at: IntArray | None = None,
        start: IntArray | None = None,
        found: Candidates | None = None,
    ) -> Exchange | None:
        """Return a repaired and improved state, from the cheapest nodes at prices, given columns, or a given answer.

        `at` (J,) are columns of `found`; without a value these are the candidates of the search.
        """
        state = Exchange(self.problem, self.found if found is None else found, prices, self.local)
        if at is not None:
            state.place(at)
        if start is not None:
            state.start_from(start)
        # Minimum loads are no part of the repair: a state that misses one is no answer.
        if not state.repair() or (state.loads < self.problem.lower).any():
            return None
        unit = self.scale * float(self.problem.load.mean())
        for attempt in range(self.own.swaps if "swaps" in self.pieces else 1):
            if self.budget.late:
                break
            # Shifts end by themselves: each one lowers the cost.
            while state.shift():
                pass
            # The margin of swaps grows: only when wider ones find nothing either it is over.
            if "swaps" in self.pieces and not state.swap(0.05 * unit * (1 + attempt)) and attempt > 3:
                break
        return state

    def squeezed(self) -> Exchange | None:
        """Return a state from prices for smaller capacities, which leave room for the repair."""
        temperature, steps = self.own.slacker_step
        for share in self.own.slacker:
            if self.budget.late:
                break
            dearer = smoothed_dual_prices(
                self.problem, self.found, self.prices, temperature * self.scale,
                steps=steps, share=share, parameters=self.own,
            )  # fmt: skip
            state = Exchange(self.problem, self.found, dearer, self.local)
            if state.repair() and not (state.loads < self.problem.lower).any():
                return state
        return None
