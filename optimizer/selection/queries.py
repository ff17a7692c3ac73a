"""Query selection: a set-union knapsack, solved by minimum cuts, branching on operators, filling, and CP-SAT.

    maximise   sum v[q] z[q]   subject to   z[q] <= y[o] for each q and o in O[q],   sum w[o] y[o] <= W,   z, y binary

The best price of weight gives a bound and the shares that prove it (`closure`). Queries that fit are
filled in (`filling`); branch and bound, large neighbourhoods, and CP-SAT among the sets that the shares leave open
improve them (`query_tree`). Source: Goldschmidt, Nehme and Yu (1994) for the
problem, Picard (1976) for the cuts.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from models.checked_arrays import BoolArray
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan, limit_of
from models.planning.solution import Status, is_proven
from optimizer.common.enumeration import better_queries, exact_sum
from optimizer.selection import query_tree
from optimizer.selection.closure import Closures, Cut, best_cuts, real_split, whole_numbers
from optimizer.selection.filling import Filling
from optimizer.selection.operators import real_price, select_operators
from optimizer.selection.query_tree import Fixed, Found, Tree, fixed, searched
from optimizer.selection.scaling import Scaled

_STEP_BITS = 38  # as for operators: only what is better by 2^-38 of the bound is looked for, if numbers are not exact
_WORK_BEFORE_PER_S, _WORK_AFTER_PER_S = 700_000, 800_000  # of branching, before and after local searches
_WORK_AROUND_PER_S = 700_000  # of branching in neighbourhoods of the best set
_NEARLY_CLOSED = 10  # a bound within 2^-10 of the best set: branching goes on without local searches
_FILLING_PER_S, _MOST_FILLING = 400_000, 5_000_000  # marginal weights changed by the local search, in all at most
_MOST_STARTS = 6
_MOST_TRIED, _MOST_STEPS = 40, 20_000  # queries, and steps, for which all that is better is tried
_PROGRAM_USES = 15_000  # pairs of undecided query and operator up to which CP-SAT is asked


@dataclass(frozen=True)
class _Search:
    """The state that all parts of one search share."""

    problem: QuerySelection
    possible: BoolArray
    numbers: Scaled
    root: Cut
    filling: Filling
    tree: Tree


@dataclass
class _Best:
    """The best set so far, the bound in the unit of values, and what proved it."""

    queries: BoolArray
    bound: float
    note: str = ""


def select_queries(
    problem: QuerySelection,
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    start: BoolArray | None = None,
    clock_s: float | None = None,
) -> QueryPlan:
    """Return the best queries with a bound, and the best single operators for what they leave of the capacity.

    `start` (m,) is improved as well, what is too much of it left out. `time_limit_s` [s] says how much work is done,
    and the clock ends it after as long, or after `clock_s` [s]: with math.inf nothing depends on how busy the machine
    is. The plan's `price` and `split` (E,) are those of the root, and prove its bound unless branching passed it.
    """
    began = time.perf_counter()
    deadline = time.monotonic() + (time_limit_s if clock_s is None else clock_s)
    possible = _possible(problem)
    numbers = whole_numbers(problem, possible)
    closures = Closures(problem, numbers, possible)
    cuts, root = best_cuts(closures)
    bound = numbers.real(root.bound - root.bound % numbers.grain)
    starts = [cut.best.queries for cut in cuts if cut.best.weight <= numbers.capacity][-1:]
    if start is not None and start.shape == (problem.n_queries,):
        starts.append(start & possible)
    filling = Filling(problem, possible)
    best = _Best(_filled(problem, filling, starts), bound)
    tree = Tree(problem, numbers, possible, filling, root.bound, _step(numbers, root.bound))
    search = _Search(problem, possible, numbers, root, filling, tree)
    # Branching comes first: where it closes the bound, no local search is needed; else that starts from a better set.
    best = _branched(search, best, _WORK_BEFORE_PER_S * time_limit_s, deadline)
    work = (_WORK_AROUND_PER_S + _WORK_AFTER_PER_S) * time_limit_s
    if not best.note and problem.objective(best.queries) < best.bound * (1 - 2.0**-_NEARLY_CLOSED):
        best = _improved(search, best, time_limit_s, seed)
        best = _varied(search, best, _WORK_AROUND_PER_S * time_limit_s, deadline, seed)
        work = _WORK_AFTER_PER_S * time_limit_s
    best = _branched(search, best, work, deadline)
    best = _proven(search, best, time_limit_s, deadline, seed)
    # Whole numbers of 60 bits may leave a hair between set and bound; trying all in exact numbers closes it.
    if problem.n_queries <= _MOST_TRIED and not is_proven(problem.objective(best.queries), best.bound):
        best = _all_tried(problem, best)
    single = _left_over(problem, best.queries, max(0.01, deadline - time.monotonic()))
    plan = _plan(problem, best, single, began)
    return replace(plan, price=real_price(float(root.price), numbers), split=real_split(closures, root, numbers))


def _all_tried(problem: QuerySelection, best: _Best) -> _Best:
    """Return the best set and bound after all that is better was tried, where that ends soon."""
    objective = problem.objective(best.queries)
    tried = better_queries(problem, objective, _MOST_STEPS)
    queries = best.queries if tried.best is None else np.asarray(tried.best, dtype=np.bool_)
    if not tried.decided:
        return _Best(queries, best.bound, best.note)
    exact, objective = exact_sum(problem.value[queries].tolist()), problem.objective(queries)
    return _Best(queries, objective if exact <= objective else math.nextafter(objective, math.inf))


def select_by_lagrangian(problem: QuerySelection) -> tuple[BoolArray, float]:
    """Return good queries (m,), and an upper bound of the best value: minimum cuts and filling, without any search.

    Takes a small part of the time of `select_queries`, and no limit decides what comes out.
    """
    possible = _possible(problem)
    numbers = whole_numbers(problem, possible)
    cuts, root = best_cuts(Closures(problem, numbers, possible))
    chosen = _filled(problem, Filling(problem, possible), [cut.best.queries for cut in cuts])
    return chosen, max(numbers.real(root.bound), problem.objective(chosen))


def _possible(problem: QuerySelection) -> BoolArray:
    """Return the queries that fit alone, up to rounding that only lets more in."""
    total = np.bincount(problem.uses[:, 0], problem.weight[problem.uses[:, 1]], minlength=problem.n_queries)
    return np.asarray(total <= problem.limit * (1 + 1e-9), dtype=np.bool_)


def _filled(problem: QuerySelection, filling: Filling, starts: list[BoolArray]) -> BoolArray:
    """Return the best set that comes of the sets of the cuts, made lighter where they are too heavy, and filled."""
    best, most = np.zeros(problem.n_queries, dtype=np.bool_), -1
    unique = list({start.tobytes(): start for start in starts[-_MOST_STARTS:]}.values())
    for start in [np.zeros_like(best), *unique]:
        for shared in (False,) if problem.fits(problem.union(start)) else (False, True):
            filling.lighten(np.flatnonzero(start).tolist(), shared=shared)
            filling.fill()
            if filling.value > most:
                best, most = _as_array(filling, problem), filling.value
    return best


def _as_array(filling: Filling, problem: QuerySelection) -> BoolArray:
    chosen = np.zeros(problem.n_queries, dtype=np.bool_)
    chosen[filling.chosen] = True
    return chosen


def _step(numbers: Scaled, bound: int) -> int:
    return numbers.grain if numbers.exact else max(numbers.grain, bound >> _STEP_BITS)


def _goal(search: _Search, queries: BoolArray) -> int:
    """Return the value, in whole numbers, that a better set must have."""
    return int(search.numbers.value[queries].sum()) + _step(search.numbers, search.root.bound)


def _improved(search: _Search, best: _Best, time_limit_s: float, seed: int) -> _Best:
    """Return the best set after a local search among the queries that the cut at the root leaves undecided."""
    known = _still_open(search, best)
    if known is None:
        return best
    undecided = np.flatnonzero(~known.query_in & ~known.query_out).tolist()
    search.filling.reset(np.flatnonzero(best.queries).tolist())
    work = min(_FILLING_PER_S * time_limit_s, _MOST_FILLING)
    search.filling.improve(work, np.random.default_rng(seed), undecided)
    return _Best(_as_array(search.filling, search.problem), best.bound, best.note)


def _varied(search: _Search, best: _Best, work: float, deadline: float, seed: int) -> _Best:
    """Return the best set after so much branching in its neighbourhoods."""
    if _still_open(search, best) is None:
        return best

    def tree(taken: BoolArray, left_out: BoolArray) -> Tree:
        step = _step(search.numbers, search.root.bound)
        return Tree(
            search.problem, search.numbers, search.possible, search.filling, search.root.bound, step, taken, left_out
        )

    draw = np.random.default_rng([seed, 1])
    queries, timed_out = query_tree.improved(search.problem, best.queries, tree, work, draw, deadline)
    return _Best(queries, best.bound, "the time limit struck" if timed_out else best.note)


def _branched(search: _Search, best: _Best, work: float, deadline: float) -> _Best:
    """Return the best set and bound after so much more branching on operators."""
    if _still_open(search, best) is None:
        return best
    search.tree.start_from(best.queries)
    found = search.tree.search(work, deadline)
    bound = min(best.bound, search.numbers.real(found.bound))
    return _Best(found.queries, bound, "the time limit struck" if found.timed_out else best.note)


def _proven(search: _Search, best: _Best, time_limit_s: float, deadline: float, seed: int) -> _Best:
    """Return the best set and bound after CP-SAT has searched what is still open, if it is small enough."""
    known = _still_open(search, best)
    if known is None or best.note:
        return best
    is_open = ~known.query_in & ~known.query_out
    if int(is_open[search.problem.uses[:, 0]].sum()) > _PROGRAM_USES:
        return _Best(best.queries, best.bound, f"{known.n_open} queries stay open: too many for an exact search")
    rest = searched(
        search.problem,
        search.possible,
        known,
        best.queries,
        time_limit_s=0.4 * time_limit_s,
        deadline=deadline,
        seed=seed,
    )
    best = _taken(search, best, rest)
    note = "the time limit struck" if rest.timed_out else "the exact search ended undecided"
    return _Best(best.queries, best.bound, note)


def _still_open(search: _Search, best: _Best) -> Fixed | None:
    """Return what is fixed in every better set; None where there is none: then the bound is closed."""
    goal = _goal(search, best.queries)
    closed = search.numbers.real(goal - search.numbers.grain)
    if search.root.bound < goal or best.bound <= closed:
        best.bound = min(best.bound, closed)
        return None
    return fixed(search.problem, search.root, search.possible, goal)


def _taken(search: _Search, best: _Best, found: Found) -> _Best:
    """Return the better of what is known and what was found, once it is filled up; and the lower bound."""
    goal = _goal(search, best.queries)
    closed = search.numbers.real(goal - search.numbers.grain)
    bound = best.bound if found.bound is None else min(best.bound, max(closed, found.bound))
    queries = best.queries
    if found.queries is not None:
        search.filling.lighten(np.flatnonzero(found.queries).tolist())
        search.filling.fill()
        queries = max(queries, _as_array(search.filling, search.problem), key=search.problem.objective)
    return _Best(queries, bound, best.note)


def _left_over(problem: QuerySelection, queries: BoolArray, time_limit_s: float) -> SelectionPlan | None:
    """Return the best single operators for the room that the queries leave; None where these have no value."""
    if problem.operator_value is None:
        return None
    taken = problem.union(queries)
    least, most = _room_left(problem, taken)
    deadline = time.monotonic() + time_limit_s
    found = select_operators(_rest(problem, taken, most), time_limit_s=time_limit_s)
    if found.level is not None and problem.fits(taken | (found.level > 0)):
        return found
    # The larger capacity let in too much by rounding: its bound holds, its operators do not.
    fitting = select_operators(_rest(problem, taken, least), time_limit_s=max(0.01, deadline - time.monotonic()))
    return replace(fitting, bound=found.bound, note=found.note or fitting.note)


def _rest(problem: QuerySelection, taken: BoolArray, capacity: float) -> OperatorSelection:
    """Return the selection of operators that are not taken."""
    worth = np.zeros(problem.n_operators) if problem.operator_value is None else problem.operator_value
    return OperatorSelection(
        np.where(taken, 0.0, worth),
        np.where(taken, 0.0, problem.weight),
        capacity,
        (~taken).astype(int),
    )


def _room_left(problem: QuerySelection, taken: BoolArray) -> tuple[float, float]:
    """Return two neighbouring capacities: the limit of the first is within the rest, that of the second not below it.

    What is left is `limit` less the exact sum of what is taken. No float64 needs to be that, and sums that fill it to
    the last bit count as within it.
    """
    terms = [problem.limit, *(-problem.weight[taken]).tolist()]

    def holds_all(capacity: float) -> bool:
        return math.fsum([*terms, -limit_of(capacity)]) <= 0.0

    most = max(0.0, math.fsum(terms))
    # The float nearest to the exact rest may be on either side of it: step to the two neighbours that enclose it.
    while not holds_all(most):
        most = math.nextafter(most, math.inf)
    least = most
    while least > 0 and holds_all(least):
        most, least = least, math.nextafter(least, 0.0)
    return least, most


def _plan(problem: QuerySelection, best: _Best, single: SelectionPlan | None, began: float) -> QueryPlan:
    operators = problem.union(best.queries)
    if single is not None and single.level is not None:
        operators = operators | (single.level > 0)
    whole = problem.whole(operators)  # what was taken for others may complete more
    objective = problem.objective(whole)
    bound = max(best.bound, objective)
    proven = is_proven(objective, bound)
    notes = [] if proven else [best.note]
    notes += [f"single operators: {single.note}"] if single is not None and single.note else []
    return QueryPlan(
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        objective=objective,
        bound=bound,
        wall_s=time.perf_counter() - began,
        note="; ".join(filter(None, notes)),
        queries=whole,
        operators=operators,
        used=math.fsum(problem.weight[operators].tolist()),
        single_value=0.0 if single is None or single.objective is None else single.objective,
        single_bound=0.0 if single is None or single.bound is None else single.bound,
    )
