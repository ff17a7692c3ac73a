"""Load capacities alone couple the checkpoints: search, proof by a program, column generation, and a program again.

1. A Lagrangian heuristic (`lagrangian.heuristic`) gives an answer. Above LARGEST_PAIRS it is all there is.
2. Up to MIXED_INTEGER_PAIRS, where prices leave little, a program with few branch-and-bound nodes: it ends soon.
3. Column generation gives a higher bound. Up to MIXED_INTEGER_PAIRS its multipliers choose few pairs for a
   program on all nodes; where its answer is near the bound, the program with all that is left follows at once.
4. Column generation gives better answers, and the pairs that no better answer uses.
5. The program with what is left, when that is little enough.
"""

from __future__ import annotations

import time

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import is_proven
from optimizer.checkpoint_allocation.column_generation.search import (
    LARGEST_PAIRS,
    ColumnGeneration,
    ColumnGenerationResult,
)
from optimizer.checkpoint_allocation.infeasibility.irreducible_set import lp_is_feasible
from optimizer.checkpoint_allocation.lagrangian.heuristic import HeuristicAnswer, lagrangian_heuristic
from optimizer.checkpoint_allocation.mixed_integer import Known, Outcome, branch_and_bound, pairs_left
from optimizer.verify.constraints import constraint_violations

MIXED_INTEGER_PAIRS = 5_000  # J * N, or pairs that are left, up to which a proof by a program is attempted
_QUICK_WORK = 0.05  # of the search when more follows; none where that is a program
_FIRST_PAIRS, _FIRST_NODES = 1_600, 1_000  # left by prices, and of branch and bound, of the first program
_FIRST_SHARE = 0.3  # of the time limit, for it
_COLUMN_WORK = 0.6  # work of column generation for each second of the limit; a rest is for the last program
_SMALL_WORK = 0.9  # the same where the program is small
_COLUMN_SHARE = 0.8  # of the time limit, for all before the last program
_BETWEEN = 0.1  # of the work of column generation, before a program where programs do well,
_PROGRAM_SHARE = 0.7  # which may last until this share of the time limit
_FEW_PAIRS = 800  # left, up to which a program is made where programs do not do well
_REST, _REST_SHARE = 1.25, 0.95  # of the work of column generation, and of the limit, where no program follows
_LAST_NODES = 2_000  # of the last program for each second of the limit


class _State:
    """The best answer and bound so far; `how` proved what."""

    def __init__(self, problem: CheckpointAllocation, searched: HeuristicAnswer, time_limit_s: float) -> None:
        self.problem, self.limit_s, self.began = problem, time_limit_s, time.perf_counter()
        self.best: IntArray | None = None
        self.value = np.inf
        self.prices, self.bound = searched.prices, searched.bound
        self.multipliers: FloatArray | None = None
        self.notes = ["Lagrangian heuristic"]
        self.offer(searched.assignment)

    def offer(self, assignment: IntArray | None) -> None:
        """Take a better answer."""
        if assignment is None or constraint_violations(self.problem, assignment):
            return
        value = self.problem.objective(assignment)
        if value < self.value:
            self.best, self.value = assignment, value

    def knows(self, assignment: IntArray | None) -> bool:
        """Whether the best answer is as good as one (that pairs were left out for)."""
        return assignment is not None and self.value <= self.problem.objective(assignment)

    def left_s(self, share: float) -> float:
        """Seconds until a share of the limit is used."""
        return max(share * self.limit_s - (time.perf_counter() - self.began), 1e-3)

    @property
    def proven(self) -> bool:
        """True when the best answer is optimal."""
        return self.best is not None and is_proven(self.value, self.bound)

    def known(self, pairs: BoolArray | None = None) -> Known:
        """What is known before a program; `pairs` (J, N) are left."""
        return Known(self.best, self.value, self.prices, self.bound, pairs)

    def program(self, columns: ColumnGenerationResult | None, nodes: int, share: float) -> Outcome:
        """The mixed-integer program on what column generation leaves."""
        known = self.known(None if columns is None else columns.pairs)
        found = branch_and_bound(self.problem, known, time_limit_s=self.left_s(share), most_nodes=nodes)
        self.offer(found.assignment)
        if found.bound is not None and found.bound > self.bound:
            self.bound = found.bound
        return found

    def outcome(self) -> Outcome:
        """What is claimed."""
        note = "; ".join(dict.fromkeys(filter(None, self.notes)))
        return Outcome(self.best, self.bound, note=note, prices=self.prices, multipliers=self.multipliers)


def solve_capacitated(problem: CheckpointAllocation, *, time_limit_s: float, start: IntArray | None) -> Outcome | None:
    """The best answer with a proven bound; None when none of the steps finds a feasible one."""
    size = problem.cost.size
    began = time.perf_counter()
    small = size <= MIXED_INTEGER_PAIRS
    work = None if size > LARGEST_PAIRS else 0.0 if small else _QUICK_WORK
    searched = lagrangian_heuristic(problem, time_limit_s=time_limit_s, start=start, work=work)
    state = _State(problem, searched, time_limit_s)
    state.began = began
    state.offer(start)
    if size > LARGEST_PAIRS:
        state.notes = ["Lagrangian heuristic and local search", "time limit struck" if searched.struck else ""]
        return None if state.best is None else state.outcome()
    if not np.isfinite(state.bound):
        return None
    state.notes.append("time limit struck" if searched.struck else "")
    if state.best is None and lp_is_feasible(problem, time_limit_s=state.left_s(1.0)) is False:
        return Outcome(None, None, infeasible=True, note="the linear relaxation has no solution")
    if small and _program_first(state):
        state.notes.append("mixed-integer program")
        first = state.program(None, _FIRST_NODES, _FIRST_SHARE)
        state.notes.append(first.note if "time" in first.note else "")
        if first.infeasible:
            return Outcome(None, None, infeasible=True, note="the mixed-integer program has no solution")
    if not state.proven:
        _by_column_generation(state)
    return None if state.best is None else state.outcome()


def _program_first(state: _State) -> bool:
    """Whether prices leave little, or column generation cannot help: it knows no minima, nor infeasibility."""
    if state.best is None or state.problem.capacity_min is not None:
        return True
    return len(pairs_left(state.problem, state.known())[0]) <= _FIRST_PAIRS


def _by_column_generation(state: _State) -> None:
    small = state.problem.cost.size <= MIXED_INTEGER_PAIRS
    share = _SMALL_WORK if small else _COLUMN_WORK
    search = ColumnGeneration(
        state.problem,
        state.prices,
        state.best,
        work=share * state.limit_s,
        time_limit_s=state.left_s(_COLUMN_SHARE),
    )
    if search.bound > state.bound:
        state.bound, state.multipliers = search.bound, search.multipliers
    state.notes.append("column generation")
    few = MIXED_INTEGER_PAIRS
    if small and not state.proven:
        if search.programmed():
            search.improve(_BETWEEN)
            _left_over(state, search, _PROGRAM_SHARE, few)
            search.offer(state.best)
        elif state.problem.capacity_min is None:
            few = _FEW_PAIRS
    if not state.proven:
        search.improve(1.0)
        if not _left_over(state, search, 1.0, few):  # nobody else uses the rest
            search.improve(_REST, state.left_s(_REST_SHARE))
            state.offer(search.best)
            state.notes.append("time limit struck" if search.struck else "")


def _left_over(state: _State, search: ColumnGeneration, share: float, few: int) -> bool:
    """Whether so few pairs are left for the program, which may last until a share of the limit."""
    found = search.found()
    state.offer(found.assignment)
    state.notes.append("time limit struck" if found.struck else "")
    if state.proven:
        return True
    if int(found.pairs.sum()) > few or not state.knows(found.assignment):
        return False
    before = state.bound
    last = state.program(found, int(_LAST_NODES * state.limit_s), share)
    state.notes += ["mixed-integer program", last.note]
    if state.bound > before:
        state.multipliers = None
    return True
