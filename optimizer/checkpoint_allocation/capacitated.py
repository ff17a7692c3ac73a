"""Load capacities alone couple the checkpoints: search, proof by a program, column generation, and a program again.

1. A Lagrangian heuristic (`lagrangian.heuristic`) gives an answer. Above `SizeParameters.columns` it is all there is.
2. Up to `SizeParameters.program`, where prices leave little, a program with few branch-and-bound nodes: it ends soon.
3. Column generation gives a higher bound. Up to `SizeParameters.program` its multipliers choose few pairs for a
   program on all nodes; where its answer is near the bound, the program with all that is left follows at once.
4. Column generation gives better answers, and the pairs that no better answer uses.
5. The program with what is left, when that is little enough.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import is_proven
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.search import ColumnGeneration, ColumnGenerationResult
from optimizer.checkpoint_allocation.infeasibility.irreducible_set import lp_is_feasible
from optimizer.checkpoint_allocation.lagrangian.heuristic import HeuristicAnswer, lagrangian_heuristic
from optimizer.checkpoint_allocation.mixed_integer import Known, Outcome, branch_and_bound, pairs_left
from optimizer.checkpoint_allocation.params import DEFAULT, Parameters
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.constraints import constraint_violations


class _State:
    """The best answer and bound so far, and what proves the bound: prices (N,) or multipliers (J,)."""

    def __init__(
        self, problem: CheckpointAllocation, searched: HeuristicAnswer, budget: Budget, parameters: Parameters
    ) -> None:
        self.problem, self.budget, self.parameters = problem, budget, parameters
        self.best: IntArray | None = None
        self.value = np.inf
        self.prices, self.bound = searched.prices, searched.bound
        # Prices of extreme units may overflow; those of zero always prove the sum of the cheapest nodes.
        if not np.isfinite(self.bound):
            self.prices = np.zeros(problem.n_nodes)
            self.bound = lagrangian_bound(problem, self.prices)
        self.multipliers: FloatArray | None = None
        self.notes = ["Lagrangian heuristic"]
        self.offer(searched.assignment)

    def offer(self, assignment: IntArray | None) -> None:
        """Take a better answer."""
        # Every answer passes here, so that no step can replace a feasible answer by one with a broken capacity.
        if assignment is None or constraint_violations(self.problem, assignment):
            return
        value = self.problem.objective(assignment)
        if value < self.value:
            self.best, self.value = assignment, value

    def knows(self, assignment: IntArray | None) -> bool:
        """Return whether the best answer is as good as one (that pairs were left out for)."""
        # Pairs were left out relative to a certain answer; a worse best answer may need one of them again.
        return assignment is not None and self.value <= self.problem.objective(assignment)

    @property
    def proven(self) -> bool:
        """Return whether the best answer is optimal."""
        return self.best is not None and is_proven(self.value, self.bound)

    def known(self, pairs: BoolArray | None = None) -> Known:
        """Return the knowledge before a program; `pairs` (J, N) are left."""
        return Known(self.best, self.value, self.prices, self.bound, pairs)

    def program(self, columns: ColumnGenerationResult | None, nodes: int, share: float) -> Outcome:
        """Return the outcome of the mixed-integer program on the pairs that column generation leaves.

        `nodes` limits branch and bound, `share` the time, counted from the beginning of the budget.
        """
        known = self.known(None if columns is None else columns.pairs)
        # A share of the time limit counts from the beginning, so a late step cannot take what a later one needs.
        budget = self.budget.part(self.budget.limit, share)
        found = branch_and_bound(self.problem, known, budget, self.parameters.program, most_nodes=nodes)
        self.offer(found.assignment)
        # The program's bound has no prices that prove it; it replaces the old one only where it is higher.
        if found.bound is not None and found.bound > self.bound:
            self.bound = found.bound
        return found

    def outcome(self) -> Outcome:
        """Return the claims: answer, bound, and their certificates."""
        note = "; ".join(dict.fromkeys(filter(None, self.notes)))
        return Outcome(self.best, self.bound, note=note, prices=self.prices, multipliers=self.multipliers)


def solve_capacitated(
    problem: CheckpointAllocation, budget: Budget, parameters: Parameters = DEFAULT, *, start: IntArray | None
) -> Outcome | None:
    """Return the best answer with a proven bound; None when no step finds a feasible one.

    `start` (J,) is a feasible assignment or None. The problem must have capacities, and neither anti-affinity pairs nor
    a limit on moves. The note names all methods that had a part in the answer. Status `infeasible` only with a proof by
    a program.
    """
    size, own = problem.cost.size, parameters.capacitated
    small, large = size <= parameters.sizes.program, size > parameters.sizes.columns
    # Where column generation follows, the heuristic only has to give a start, and searches less.
    searched = lagrangian_heuristic(problem, budget, parameters, start=start, alone=large)
    state = _State(problem, searched, budget, parameters)
    state.offer(start)
    if large:
        state.notes = ["Lagrangian heuristic and local search", "time limit struck" if searched.struck else ""]
        return None if state.best is None else state.outcome()
    # Not finite: some checkpoint fits on no node, and nothing below could say why.
    if not np.isfinite(state.bound):
        return None
    state.notes.append("time limit struck" if searched.struck else "")
    # Cheapest proof of infeasibility; skipped once any feasible answer is known.
    if state.best is None and lp_is_feasible(problem, parameters, time_limit_s=budget.left_s) is False:
        return Outcome(None, None, infeasible=True, note="the linear relaxation has no solution")
    if small and _program_first(state):
        state.notes.append("mixed-integer program")
        first = state.program(None, own.first_nodes, own.first_share)
        state.notes.append(first.note if "time" in first.note else "")
        if first.infeasible:
            return Outcome(None, None, infeasible=True, note="the mixed-integer program has no solution")
    if not state.proven:
        _by_column_generation(state)
    return None if state.best is None else state.outcome()


def _program_first(state: _State) -> bool:
    """Return whether prices leave little, or column generation cannot help: it knows no minima, nor infeasibility."""
    # Minimum loads: sets of column generation cannot carry them, so the program goes first.
    if state.best is None or state.problem.capacity_min is not None:
        return True
    if "program first" not in state.parameters.pieces:
        return False
    return len(pairs_left(state.problem, state.known())[0]) <= state.parameters.capacitated.first_pairs


def _by_column_generation(state: _State) -> None:
    """Improve answer and bound by column generation, and by programs on the pairs that it leaves open."""
    problem, parameters, own, budget = state.problem, state.parameters, state.parameters.capacitated, state.budget
    small = problem.cost.size <= parameters.sizes.program
    if "column generation" not in parameters.pieces:
        if small:
            # Without column generation the program inherits all of its work.
            state.program(None, int(own.last_nodes_per_s * budget.limit), 1.0)
        return
    work = (own.columns_work_small if small else own.columns_work) * budget.limit
    search = ColumnGeneration(problem, state.prices, state.best, budget.part(work, own.columns_share), parameters)
    # Multipliers are kept with the bound that they prove, never with another one.
    if search.bound > state.bound:
        state.bound, state.multipliers = search.bound, search.multipliers
    state.notes.append("column generation")
    few = parameters.sizes.program
    if small and not state.proven:
        # When few pairs gave an answer near the bound, the program on what is left mostly ends the search at once.
        if search.programmed():
            # Only a part of the work: the rest is for after the program, when the answer is better and fewer pairs are
            # left.
            search.improve(own.between)
            _left_over(state, search, own.program_share, few)
            search.offer(state.best)
        elif problem.capacity_min is None:
            # Programs do badly here, so the last one must be small; with minimum loads it is the only way.
            few = own.few_pairs
    if not state.proven:
        search.improve(1.0)
        # Column generation may go on only where the program did not run: both would want the rest of the time.
        if not _left_over(state, search, 1.0, few):  # nobody else uses the rest
            search.improve(own.rest_work, own.rest_share * budget.seconds)
            state.offer(search.best)
            state.notes.append("time limit struck" if search.struck else "")


def _left_over(state: _State, search: ColumnGeneration, share: float, few: int) -> bool:
    """Return whether the program ran, or nothing is left for it: at most `few` pairs, and a proven bound for the rest.

    The program may last until `share` of the time limit.
    """
    found = search.found()
    state.offer(found.assignment)
    state.notes.append("time limit struck" if found.struck else "")
    if state.proven:
        return True
    # Pairs are excluded against the answer of column generation: a state with a worse one must not use them.
    many = int(found.pairs.sum()) > few or not state.knows(found.assignment)
    if many or "program last" not in state.parameters.pieces:
        return False
    before = state.bound
    last = state.program(found, int(state.parameters.capacitated.last_nodes_per_s * state.budget.limit), share)
    state.notes += ["mixed-integer program", last.note]
    # The new bound comes from branch and bound; keeping the multipliers would claim that they prove it.
    if state.bound > before:
        state.multipliers = None
    return True
