"""Query selection: set-union knapsack, by minimum cuts, filling, and CP-SAT on what they leave open."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray
from models.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan
from models.solution import Status, is_proven
from optimizer.selection.closure import Closure, Shares, best_cuts, real_split
from optimizer.selection.filling import Filling
from optimizer.selection.operators import select_operators
from optimizer.selection.query_program import fixed, searched

_STEP_BITS = 38  # as for operators: only what is better by 2^-38 of all values is looked for, if numbers are not exact
_ROUND_PAIRS = 400_000  # rounds times undecided queries of the local search
_MOST_ROUNDS = 2_000
_MOST_STARTS = 6
_PROGRAM_USES = 60_000  # pairs of undecided query and operator up to which CP-SAT is asked


@dataclass
class _Best:
    """The best set so far, the bound in the unit of values, and what proved it."""

    queries: BoolArray
    bound: float
    note: str = ""


def select_queries(problem: QuerySelection, *, time_limit_s: float = 60.0, seed: int = 0) -> QueryPlan:
    """The best queries with a bound, and the best single operators for what they leave of the capacity."""
    began = time.perf_counter()
    deadline = time.monotonic() + time_limit_s
    possible = _possible(problem)
    closure = Closure(problem, possible)
    cuts, shares = best_cuts(closure)
    bound = closure.numbers.real(shares.bound - shares.bound % closure.numbers.grain)
    filling = Filling(problem, possible)
    best = _Best(_filled(problem, filling, [cut.queries for cut in cuts]), bound)
    best = _improved(problem, closure, filling, shares, possible, best, seed)
    best = _proven(problem, closure, shares, possible, best, time_limit_s, deadline, seed)
    single = _left_over(problem, best.queries, max(0.01, deadline - time.monotonic()))
    return _plan(problem, closure, shares, best, single, began)


def _possible(problem: QuerySelection) -> BoolArray:
    """The queries that fit alone, up to rounding that only lets more in."""
    total = np.bincount(problem.uses[:, 0], problem.weight[problem.uses[:, 1]], minlength=problem.n_queries)
    return np.asarray(total <= problem.limit * (1 + 1e-9), dtype=np.bool_)


def _filled(problem: QuerySelection, filling: Filling, starts: list[BoolArray]) -> BoolArray:
    """The best set that comes of the sets of the cuts, made lighter where they are too heavy, and filled."""
    best, most = np.zeros(problem.n_queries, dtype=np.bool_), -1
    unique = list({start.tobytes(): start for start in starts[-_MOST_STARTS:]}.values())
    for start in [np.zeros_like(best), *unique]:
        filling.lighten(np.flatnonzero(start).tolist())
        filling.fill()
        if filling.value > most:
            best, most = _as_array(filling, problem), filling.value
    return best


def _as_array(filling: Filling, problem: QuerySelection) -> BoolArray:
    chosen = np.zeros(problem.n_queries, dtype=np.bool_)
    chosen[filling.chosen] = True
    return chosen


def _step(closure: Closure) -> int:
    numbers = closure.numbers
    return numbers.grain if numbers.exact else max(numbers.grain, int(numbers.value.sum()) >> _STEP_BITS)


def _goal(closure: Closure, queries: BoolArray) -> int:
    """What a better set must be worth, in whole numbers."""
    return int(closure.numbers.value[queries].sum()) + _step(closure)


def _improved(
    problem: QuerySelection,
    closure: Closure,
    filling: Filling,
    shares: Shares,
    possible: BoolArray,
    best: _Best,
    seed: int,
) -> _Best:
    """The best set after a local search among the queries that the shares leave undecided."""
    goal = _goal(closure, best.queries)
    if shares.bound < goal:
        return best
    known = fixed(problem, shares, possible, goal)
    undecided = np.flatnonzero(~known.query_in & ~known.query_out).tolist()
    filling.reset(np.flatnonzero(best.queries).tolist())
    rounds = min(_MOST_ROUNDS, _ROUND_PAIRS // max(1, len(undecided)))
    filling.improve(rounds, np.random.default_rng(seed), undecided)
    return _Best(_as_array(filling, problem), best.bound)


def _proven(
    problem: QuerySelection,
    closure: Closure,
    shares: Shares,
    possible: BoolArray,
    best: _Best,
    time_limit_s: float,
    deadline: float,
    seed: int,
) -> _Best:
    """The best set and bound after CP-SAT has searched what is still open, if it is small enough."""
    goal = _goal(closure, best.queries)
    closed = closure.numbers.real(goal - closure.numbers.grain)
    if shares.bound < goal:
        return _Best(best.queries, min(best.bound, closed), best.note)
    known = fixed(problem, shares, possible, goal)
    is_open = ~known.query_in & ~known.query_out
    if int(is_open[problem.uses[:, 0]].sum()) > _PROGRAM_USES:
        return _Best(best.queries, best.bound, f"{known.n_open} queries stay open: too many for an exact search")
    found = searched(
        problem,
        possible,
        known,
        best.queries,
        time_limit_s=time_limit_s,
        deadline=deadline,
        seed=seed,
    )
    queries = best.queries
    if found.queries is not None and problem.fits(problem.union(found.queries)):
        queries = max(queries, found.queries, key=problem.objective)
    bound = best.bound if found.bound is None else min(best.bound, max(closed, found.bound))
    note = "the time limit struck" if found.timed_out else ""
    return _Best(queries, bound, note)


def _left_over(problem: QuerySelection, queries: BoolArray, time_limit_s: float) -> SelectionPlan | None:
    """The best single operators for the room that the queries leave; None where these have no value."""
    if problem.operator_value is None:
        return None
    taken = problem.union(queries)
    room = math.fsum([problem.limit, *(-problem.weight[taken]).tolist()])
    capacity = max(0.0, room * (1 - 2.0**-50))  # so that the limit of this capacity is not above the room
    rest = OperatorSelection(
        np.where(taken, 0.0, problem.operator_value),
        np.where(taken, 0.0, problem.weight),
        capacity,
        (~taken).astype(int),
    )
    return select_operators(rest, time_limit_s=time_limit_s)


def _plan(
    problem: QuerySelection,
    closure: Closure,
    shares: Shares,
    best: _Best,
    single: SelectionPlan | None,
    began: float,
) -> QueryPlan:
    operators = problem.union(best.queries)
    if single is not None and single.level is not None:
        operators = operators | (single.level > 0)
    whole = problem.whole(operators)  # what was taken for others may complete more
    objective = problem.objective(whole)
    bound = max(best.bound, objective)
    proven = is_proven(objective, bound)
    return QueryPlan(
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        objective=objective,
        bound=bound,
        wall_s=time.perf_counter() - began,
        note="" if proven else best.note,
        queries=whole,
        operators=operators,
        used=math.fsum(problem.weight[operators].tolist()),
        price=math.ldexp(float(shares.price), closure.numbers.weight_bits - closure.numbers.value_bits),
        single_value=0.0 if single is None or single.objective is None else single.objective,
        single_bound=0.0 if single is None or single.bound is None else single.bound,
        split=real_split(shares, closure.numbers),
    )
