"""The exact search of the sets of queries that shares leave open, by CP-SAT.

    maximise   sum v[q] z[q]   subject to   z[q] implies y[o] for each o in O[q],   sum w[o] y[o] <= W

over queries and operators that are not fixed. A query or an operator is fixed where the other choice loses more than
the distance between the bound and the best known value.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray
from models.planning.selection import QuerySelection
from models.planning.solution import Status
from optimizer.common.solvers import left_s, solve_cp
from optimizer.selection.closure import Cut
from optimizer.selection.scaling import scaled

_BITS = 40  # sums that CP-SAT handles with ease
_DETERMINISTIC_PER_S = 0.25  # units of CP-SAT's own clock per second of the time limit: less than a second each


@dataclass(frozen=True)
class Fixed:
    """Parts of every better set: queries in it or not, operators in it or not."""

    query_in: BoolArray
    query_out: BoolArray
    operator_in: BoolArray
    operator_out: BoolArray

    @property
    def n_open(self) -> int:
        """Return how many queries are not decided."""
        return int((~self.query_in & ~self.query_out).sum())


@dataclass(frozen=True)
class Found:
    """The best set of queries, None for none; the bound in the unit of values, None for none; whether time struck."""

    queries: BoolArray | None
    bound: float | None
    timed_out: bool


def fixed(problem: QuerySelection, root: Cut, possible: BoolArray, goal: int) -> Fixed:
    """Return what is fixed in every set that is worth at least `goal`, as the cut at the root proves."""
    slack = root.bound - goal
    query_in = possible & (root.query_loss > slack)
    operator_out = np.asarray(root.operator_loss > slack, dtype=np.bool_)
    query, operator = problem.uses[:, 0], problem.uses[:, 1]
    query_out = ~possible
    query_out[query[operator_out[operator]]] = True
    operator_in = problem.union(query_in)
    query_in |= ~query_out & problem.whole(operator_in)
    return Fixed(query_in & ~query_out, query_out, operator_in, operator_out)


def searched(
    problem: QuerySelection,
    possible: BoolArray,
    known: Fixed,
    start: BoolArray,
    *,
    time_limit_s: float,
    deadline: float,
    seed: int,
) -> Found:
    """Return the best set among those that keep what is fixed, with a bound for these sets.

    Numbers are rounded as in `scaling`, to fewer bits: the bound holds, the set is checked by who asks.
    """
    from ortools.sat.python import cp_model  # noqa: PLC0415 - slow to load

    numbers = scaled(np.where(possible, problem.value, 0.0), problem.weight, problem.limit, _BITS)
    value, weight = numbers.value // numbers.grain, numbers.weight
    unit = int(np.gcd.reduce(weight)) or 1
    model = cp_model.CpModel()
    needed = problem.union(~known.query_out)
    takes = {o: model.new_bool_var("") for o in np.flatnonzero(needed & ~known.operator_in).tolist()}
    whole = {q: model.new_bool_var("") for q in np.flatnonzero(~known.query_out & ~known.query_in).tolist()}
    for q, variable in whole.items():
        for o in problem.operators_of(q).tolist():
            if o in takes:
                model.add_implication(variable, takes[o])
    room = (numbers.capacity - int(weight[known.operator_in].sum())) // unit
    variables, weights = list(takes.values()), [int(weight[o]) // unit for o in takes]
    model.add(cp_model.LinearExpr.weighted_sum(variables, weights) <= room)
    model.maximize(cp_model.LinearExpr.weighted_sum(list(whole.values()), [int(value[q]) for q in whole]))
    union = problem.union(start)
    for q, variable in whole.items():
        model.add_hint(variable, bool(start[q]))
    for o, variable in takes.items():
        model.add_hint(variable, bool(union[o]))
    answer = solve_cp(model, deterministic_s=_DETERMINISTIC_PER_S * time_limit_s, limit_s=left_s(deadline), seed=seed)
    late = time.monotonic() >= deadline
    base = int(value[known.query_in].sum())
    if answer.status is Status.INFEASIBLE:  # nothing that keeps what is fixed: nothing is better
        return Found(None, 0.0, late)
    if not answer.found:
        return Found(None, None, late)
    chosen = known.query_in.copy()
    chosen[list(whole)] = answer.chosen(list(whole.values()))
    bound = (base + math.ceil(answer.bound - 1e-6)) * numbers.grain
    return Found(chosen, numbers.real(bound), late)
