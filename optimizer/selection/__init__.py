"""Selection: which operators get replicas when capacity is short.

Operators o at levels l, x[o, l] = 1 when operator o has level l:

    maximise   sum v[o, l] x[o, l]
    subject to sum_l x[o, l] = 1                for each o; level 0 is worth nothing and weighs nothing
               sum w[o, l] x[o, l] <= W

Queries q with operators O[q], z[q] = 1 when all of them have a replica, y[o] = 1 when operator o has one:

    maximise   sum v[q] z[q]
    subject to z[q] <= y[o]                     for each q and o in O[q]
               sum w[o] y[o] <= W

Source: Grüneberger, Heinze and Felber, VLDB PhD workshop 2013 (the step of selection). What is left over by the queries
goes to single operators, by the first program.
"""

from __future__ import annotations

from typing import overload

from models.errors import raise_if_any
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan
from optimizer.common.solvers import checked_limits
from optimizer.selection.operators import select_operators
from optimizer.selection.queries import select_queries

__all__ = ["select_operators", "select_queries", "solve"]


@overload
def solve(
    problem: OperatorSelection,
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    hint: SelectionPlan | None = None,
) -> SelectionPlan: ...
@overload
def solve(
    problem: QuerySelection,
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    hint: QueryPlan | None = None,
) -> QueryPlan: ...
def solve(
    problem: OperatorSelection | QuerySelection,
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    hint: SelectionPlan | QueryPlan | None = None,
) -> SelectionPlan | QueryPlan:
    """Return the best selection of operators or queries, with objective, proven bound and price.

    `seed` decides the draws of the local search of queries; operators need none. Everything runs on one process:
    `workers` never changes an answer. A `hint` is a former plan to start from: one that does not fit this problem is
    not used, and the answer is never worse than one that does. The time limit [s] is a last resort; the note says when
    it struck. Raises InputError for a bad argument.
    """
    check = checked_limits(time_limit_s, seed, workers)
    kind = SelectionPlan if isinstance(problem, OperatorSelection) else QueryPlan
    if hint is not None and not isinstance(hint, kind):
        check.add("hint", type(hint).__name__, f"must be a {kind.__name__}")
    raise_if_any(check.faults)
    if isinstance(problem, OperatorSelection):
        level = hint.level if isinstance(hint, SelectionPlan) else None
        return select_operators(problem, time_limit_s=time_limit_s, start=level)
    queries = hint.queries if isinstance(hint, QueryPlan) else None
    return select_queries(problem, time_limit_s=time_limit_s, seed=seed, start=queries)
