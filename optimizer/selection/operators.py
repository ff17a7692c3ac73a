"""Operator selection: a knapsack with 0-1 or multiple-choice levels, solved by its core.

    maximise   sum v[o, l] x[o, l]   subject to   sum_l x[o, l] = 1 for each o,   sum w[o, l] x[o, l] <= W,   x binary

A price of weight fixes most operators (`relaxation`). Exchanges improve a first selection (`exchange`). A dynamic
program decides the core, the operators whose level the price leaves open (`core`). Where that does not end soon, a
second price of being chosen splits the selections into those of few and of many operators. Source: Pisinger (1995,
1997); Martello and Toth (1997).

An exchange changes the level of up to four operators near the price at once.
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
from optimizer.selection.relaxation import Options, Relaxation, branched, counted, relax
from optimizer.selection.scaling import Scaled, scaled

_NEAR = 240  # changes in each direction and half: pairs of them are what is searched
_MOST_ROUNDS = 30


@dataclass(frozen=True)
class _Half:
    """None, one or two changes of different operators, by weight; best[i] is the most valuable of 0 .. i."""

    heavier: IntArray
    more: IntArray
    first: IntArray
    second: IntArray
    best: IntArray


def exchanged(options: Options, level: IntArray, relaxation: Relaxation) -> IntArray:
    """Return the levels (n,) after exchanges, each the best among four changes of operators that lose least.

    Operators near the price are dealt to two halves; two sorted lists of pairs are merged, so that each round looks at
    all combinations of a pair of one half with a pair of the other. Deterministic; never worse, always within capacity.
    """
    n_levels = options.value.shape[1]
    sides = _near(relaxation, max(1, _NEAR // (n_levels - 1)))
    level = level.copy()
    for turn in range(_MOST_ROUNDS):
        weight = options.total(level)[1]
        halves = [_half(options, level, rows) for rows in sides]
        gain, changes = _best(halves[0], halves[1], options.safe - weight)
        if gain <= 0:
            break
        changes = changes[changes >= 0]
        level[changes // n_levels] = changes % n_levels
        if turn % 2:
            sides = _dealt_again(sides)
    return level


def _near(relaxation: Relaxation, wanted: int) -> list[IntArray]:
    """Return the operators of the deviations, up and down, that lose least per weight, dealt to two halves."""
    rows = []
    for sign in (1, -1):
        which = np.flatnonzero(np.sign(relaxation.heavier) == sign)
        rate = relaxation.loss[which] / np.abs(relaxation.heavier[which])
        count = min(4 * wanted, len(which))
        part = which[np.argpartition(rate, count - 1)[:count]] if count < len(which) else which
        order = part[np.argsort(relaxation.loss[part] / np.abs(relaxation.heavier[part]), kind="stable")]
        rows.append(_distinct(relaxation.row[order])[: 2 * wanted])
    both = _distinct(np.concatenate(rows))
    inside = np.zeros(len(relaxation.base), dtype=np.bool_)
    inside[rows[0]] = True
    up, down = both[inside[both]], both[~inside[both]]
    return [np.concatenate([up[half::2], down[half::2]]) for half in (0, 1)]


def _dealt_again(sides: list[IntArray]) -> list[IntArray]:
    """Return two other halves of the same operators."""
    a, b = sides
    return [np.concatenate([a[::2], b[::2]]), np.concatenate([a[1::2], b[1::2]])]


def _distinct(rows: IntArray) -> IntArray:
    """Return the rows without repetitions, in the order of first appearance."""
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)]


def _half(options: Options, level: IntArray, rows: IntArray) -> _Half:
    """Return all sets of at most two changes within these operators; changes are numbered row * levels + level."""
    n_levels = options.value.shape[1]
    operator = np.repeat(rows, n_levels)
    to = np.tile(np.arange(n_levels), len(rows))
    change = options.allowed[operator, to] & (to != level[operator])
    operator, to = operator[change], to[change]
    heavier = options.weight[operator, to] - options.weight[operator, level[operator]]
    more = options.value[operator, to] - options.value[operator, level[operator]]
    code = operator * n_levels + to
    one, two = np.triu_indices(len(code), 1)
    differ = operator[one] != operator[two]
    one, two = one[differ], two[differ]
    none = np.full(len(code), -1)
    weights = np.concatenate([[0], heavier, heavier[one] + heavier[two]])
    values = np.concatenate([[0], more, more[one] + more[two]])
    first = np.concatenate([[-1], code, code[one]])
    second = np.concatenate([[-1], none, code[two]])
    order = np.argsort(weights, kind="stable")
    weights, values, first, second = weights[order], values[order], first[order], second[order]
    top = np.maximum.accumulate(values)
    best = np.maximum.accumulate(np.where(values == top, np.arange(len(values)), 0))
    return _Half(weights, values, first, second, best)


def _best(one: _Half, two: _Half, room: int) -> tuple[int, IntArray]:
    """Return the gain of the best combination that fits, and its changes (-1 for none)."""
    at = np.searchsorted(two.heavier, room - one.heavier, side="right") - 1
    possible = np.flatnonzero(at >= 0)
    if not len(possible):
        return 0, np.zeros(0, dtype=np.int64)
    partner = two.best[at[possible]]
    gains = one.more[possible] + two.more[partner]
    top = int(np.argmax(gains))
    i, j = possible[top], partner[top]
    return int(gains[top]), np.array([one.first[i], one.second[i], two.first[j], two.second[j]])


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
    """Return the best levels (n,), with an upper bound; `start` (n,) is improved as well where it fits.

    `time_limit_s` [s] ends long searches; the note says so. Numbers are rounded to 60 bits so that the rounded problem
    is a relaxation; `price` [value per weight] is that of its linear relaxation.
    """
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
    """Return the problem as whole numbers that relax it.

    Values are rounded up and weights down, so a bound of these holds for the problem.
    """
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
