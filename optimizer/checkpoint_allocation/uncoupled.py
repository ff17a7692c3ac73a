"""Load capacities alone couple the checkpoints: search, proof by a program, whole packings, and a program again.

1. A search at node prices (`large`) gives an answer. Above LARGEST_PAIRS it is all there is.
2. Up to MIXED_INTEGER_PAIRS a program with few branch-and-bound nodes: it ends at once where capacities hardly bind.
3. Whole packings (`packings`) give a higher bound, better answers, and the pairs that no better answer uses.
4. The program with what is left, when that is little enough.
"""

from __future__ import annotations

import time

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.checkpoint_allocation import CheckpointAllocation
from models.solution import is_proven
from optimizer.checkpoint_allocation.large import Priced, priced_search
from optimizer.checkpoint_allocation.mixed_integer import Known, Outcome, branch_and_bound
from optimizer.checkpoint_allocation.packings.search import LARGEST_PAIRS, Packings, packed_search
from optimizer.verify import constraint_violations

MIXED_INTEGER_PAIRS = 5_000  # J * N, or pairs that are left, up to which a proof by a program is attempted
_QUICK_WORK = 0.05  # of the search when more follows
_FIRST_NODES = 1_000  # of the program before packings
_FIRST_SHARE = 0.3  # of the time limit, for it
_PACKING_WORK = 0.6  # work of packings for each second of the limit; a rest is for the last program
_SMALL_WORK = 0.9  # the same where the program is small
_PACKING_SHARE = 0.8  # of the time limit, for all before the last program
_LAST_NODES = 2_000  # of the last program for each second of the limit


class _State:
    """The best answer and bound so far; `how` proved what."""

    def __init__(self, problem: CheckpointAllocation, searched: Priced, time_limit_s: float) -> None:
        self.problem, self.limit_s, self.began = problem, time_limit_s, time.perf_counter()
        self.best: IntArray | None = None
        self.value = np.inf
        self.prices, self.bound = searched.prices, searched.bound
        self.multipliers: FloatArray | None = None
        self.notes = ["node prices"]
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

    def program(self, packings: Packings | None, nodes: int, share: float) -> Outcome:
        """The mixed-integer program on what packings leave."""
        pairs = None if packings is None else packings.pairs
        known = Known(self.best, self.value, self.prices, self.bound, pairs)
        found = branch_and_bound(self.problem, known, time_limit_s=self.left_s(share), most_nodes=nodes)
        self.offer(found.assignment)
        if found.bound is not None and found.bound > self.bound:
            self.bound = found.bound
        return found

    def outcome(self) -> Outcome:
        """What is claimed."""
        note = "; ".join(dict.fromkeys(filter(None, self.notes)))
        return Outcome(self.best, self.bound, note=note, prices=self.prices, multipliers=self.multipliers)


def uncoupled(problem: CheckpointAllocation, *, time_limit_s: float, start: IntArray | None) -> Outcome | None:
    """The best answer with a proven bound; None when none of the steps finds a feasible one."""
    size = problem.cost.size
    began = time.perf_counter()
    work = None if size > LARGEST_PAIRS else _QUICK_WORK
    searched = priced_search(problem, time_limit_s=time_limit_s, start=start, work=work)
    state = _State(problem, searched, time_limit_s)
    state.began = began
    state.offer(start)
    if size > LARGEST_PAIRS:
        state.notes = ["node prices and large-neighbourhood search", "time limit struck" if searched.struck else ""]
        return None if state.best is None else state.outcome()
    if not np.isfinite(state.bound):
        return None
    if size <= MIXED_INTEGER_PAIRS:
        state.notes.append("mixed-integer program")
        first = state.program(None, _FIRST_NODES, _FIRST_SHARE)
        state.notes.append(first.note if "time" in first.note else "")
        if first.infeasible:
            return Outcome(None, None, infeasible=True, note="the mixed-integer program has no solution")
    if not state.proven:
        _by_packings(state)
    return None if state.best is None else state.outcome()


def _by_packings(state: _State) -> None:
    problem = state.problem
    share = _SMALL_WORK if problem.cost.size <= MIXED_INTEGER_PAIRS else _PACKING_WORK
    found = packed_search(
        problem, state.prices, state.best, work=share * state.limit_s, time_limit_s=state.left_s(_PACKING_SHARE)
    )
    state.notes.append("whole packings" + ("; time limit struck" if found.struck else ""))
    state.offer(found.assignment)
    if found.bound > state.bound:
        state.bound, state.multipliers = found.bound, found.multipliers
    few = int(found.pairs.sum()) <= MIXED_INTEGER_PAIRS
    if state.proven or not few or not state.knows(found.assignment):
        return
    before = state.bound
    last = state.program(found, int(_LAST_NODES * state.limit_s), 1.0)
    state.notes += ["mixed-integer program", last.note]
    if state.bound > before:
        state.multipliers = None
