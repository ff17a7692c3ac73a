"""Operator selection: a knapsack with 0-1 or multiple-choice levels, solved by its core.

    maximise   sum v[o, l] x[o, l]   subject to   sum_l x[o, l] = 1 for each o,   sum w[o, l] x[o, l] <= W,   x binary

A price of weight fixes most operators (`relaxation`). Exchanges improve a first selection (`exchange`). A dynamic
program decides the core, the operators whose level the price leaves open (`core`). Where that does not end soon, a
second price of being chosen splits the selections into those of few and of many operators. Source: Pisinger (1995,
1997); Martello and Toth (1997).
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from models.checked_arrays import IntArray
from models.planning.selection import OperatorSelection, SelectionPlan
from models.planning.solution import Status, is_proven
from optimizer.common.enumeration import better_levels, exact_sum
from optimizer.selection.core import Searched, search_core
from optimizer.selection.exchange import exchanged
from optimizer.selection.relaxation import Options, Relaxation, branched, counted, relax
from optimizer.selection.scaling import Scaled, scaled

_FIRST_STATES, _MOST_STATES = 400_000, 20_000_000
_MOST_TRIED, _MOST_STEPS = 200, 200_000  # numbers of a problem, and steps, for which all is tried
_MOST_COUNTED, _MOST_BRANCHED = 3_000_000, 300_000  # operators with a price of being chosen, and with one a branch


@dataclass
class _Answer:
    """The best levels so far with their value and bound as whole numbers, and what is to be said of them."""

    level: IntArray
    value: int
    bound: int
    price: float
    note: str = ""


def select_operators(
    problem: OperatorSelection, *, time_limit_s: float, start: IntArray | None = None
) -> SelectionPlan:
    """Return the best levels, with a bound; `start` (n,) is improved as well where it fits."""
    began = time.perf_counter()
    deadline = time.monotonic() + time_limit_s
    numbers, options = whole_numbers(problem)
    answer = _searched(options, deadline, _kept(problem, options, start))
    level = answer.level
    objective, bound = problem.objective(level), numbers.real(answer.bound - answer.bound % options.grain)
    bound = max(bound, objective)  # of whole numbers both are exact, of others the objective may be rounded up
    if not is_proven(objective, bound) and problem.level_values.size <= _MOST_TRIED:
        level, objective, bound = _all_tried(problem, level, objective, bound)
    return SelectionPlan(
        status=Status.OPTIMAL if is_proven(objective, bound) else Status.FEASIBLE,
        objective=objective,
        bound=bound,
        wall_s=time.perf_counter() - began,
        note="" if is_proven(objective, bound) else answer.note,
        level=level,
        used=problem.used(level),
        price=real_price(answer.price, numbers),
    )


def real_price(price: float, numbers: Scaled) -> float:
    """Return a price in the unit of the problem: the largest number where it is beyond that."""
    try:
        return math.ldexp(price, numbers.weight_bits - numbers.value_bits)
    except OverflowError:
        return sys.float_info.max


def _all_tried(
    problem: OperatorSelection, level: IntArray, objective: float, bound: float
) -> tuple[IntArray, float, float]:
    """Return levels, objective and bound after all better levels were tried, where that ends soon."""
    tried = better_levels(problem, objective, _MOST_STEPS)
    if tried.best is not None:
        level, objective = tried.best, problem.objective(tried.best)
    if not tried.decided:
        return level, objective, max(bound, objective)
    exact = exact_sum(problem.level_values[np.arange(len(level)), level].tolist())
    return level, objective, objective if exact <= objective else math.nextafter(objective, math.inf)


def whole_numbers(problem: OperatorSelection) -> tuple[Scaled, Options]:
    """Return the problem as whole numbers that relax it."""
    allowed = problem.allowed & (problem.level_values > 0)  # what is worth nothing is no better than level 0
    allowed[:, 0] = True
    value = np.where(allowed, problem.level_values, 0.0)
    weight = np.where(allowed, problem.level_weights, 0.0)
    numbers = scaled(value, weight, problem.limit)
    return numbers, Options.of(numbers, allowed, problem.fits)


def _kept(problem: OperatorSelection, options: Options, start: IntArray | None) -> IntArray | None:
    """Return a start with what is worth nothing left out, None where it does not fit this problem."""
    if start is None or start.shape != (problem.n_operators,) or ((start < 0) | (start > problem.n_levels)).any():
        return None
    level = np.where(options.allowed[np.arange(len(start)), start], start, 0)
    return level if problem.fits(level) else None


def _searched(given: Options, deadline: float, start: IntArray | None) -> _Answer:
    """Search by prices, exchanges and the core; where that does not end soon, again with a price of being chosen."""
    relaxation = relax(given)
    options = given.with_step(relaxation.bound)
    level = exchanged(options, relaxation.base, relaxation)
    if start is not None:
        level = max(level, exchanged(options, start, relaxation), key=lambda one: options.total(one)[0])
    found = search_core(options, relaxation, level, most_states=_FIRST_STATES, deadline=deadline)
    answer = _Answer(found.level, found.value, found.bound, relaxation.price)
    if _open(options, found) and options.value.shape[1] == 2 and len(level) <= _MOST_COUNTED:
        priced = counted(options, found.value)
        if priced is not None:
            answer = _with(options, priced, answer, deadline)
    if _open(options, answer) and options.value.shape[1] == 2 and len(level) <= _MOST_BRANCHED:
        answer = _of_both_branches(options, answer, deadline)
    if _open(options, answer):
        answer = _with(options, relaxation, answer, deadline)
    if _open(options, answer):
        late = time.monotonic() > deadline
        answer.note = (
            "the time limit struck" if late else "the search ended undecided: too many states, or numbers too far apart"
        )
    return answer


def _of_both_branches(options: Options, answer: _Answer, deadline: float) -> _Answer:
    """Return the answer after separate searches among selections of few and of many operators.

    Each has prices of its own.
    """
    bounds = []
    for relaxation in branched(options):
        found = _with(options, relaxation, replace(answer, bound=relaxation.bound), deadline)
        answer.level, answer.value = found.level, found.value
        bounds.append(found.bound)
    answer.bound = min(answer.bound, max(bounds))
    return answer


def _open(options: Options, found: _Answer | Searched) -> bool:
    return found.bound >= found.value + options.step


def _with(options: Options, relaxation: Relaxation, answer: _Answer, deadline: float) -> _Answer:
    """Return the answer after a long search with these prices."""
    tried = exchanged(options, relaxation.base, relaxation)
    level = tried if options.total(tried)[0] > answer.value else answer.level
    found = search_core(options, relaxation, level, most_states=_MOST_STATES, deadline=deadline)
    return _Answer(found.level, found.value, min(answer.bound, found.bound), answer.price)
