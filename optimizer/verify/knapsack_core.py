"""Looking for a better selection of operators without a solver: a dynamic program over deviations from a price.

At a price of capacity each operator takes its best level, its base level. A selection loses what its levels are worth
less than the base levels at that price, so a better selection only has levels that lose less than the distance between
the bound of the price and the value to be passed. The operators that have such levels beside their base are the core.

The states of the program are sums of deviations (weight, value) of the first operators of the core, in order of how
near the price their rates of value per weight are. With the rates that are left, no more than `up` is gained per weight
that is added and no less than `down` is lost per weight that is taken away. States that cannot reach the value under
these rates go, and so do states that are heavier than another and worth no more.

Values are rounded up and weights down to whole numbers of 60 bits, so nothing better is lost. What is found counts only
if the problem says that it fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.selection import OperatorSelection
from optimizer.common.enumeration import Tried

MOST_STATES = 5_000_000  # in all
_MOST_AT_ONCE = 400_000
_MOST_CORE = 20_000  # operators
_BITS = 60
_IN_FRACTIONS = 20_000  # operators up to which the bound of a price is computed in fractions
_ROUNDING = 1e-12  # relative: more than float64 adds to a sum of products
_MARGIN = 1e-12  # relative: what bounds of states may be off by
_NEVER = 1e30  # the rate at which nothing gives weight back: beyond all values
_MOST_FILLED = 10_000  # operators that are tried one by one


def price_of_capacity(problem: OperatorSelection, limit: float | None = None) -> float:
    """Return the least price, up to rounding, at which the base levels are within the capacity, or another limit."""
    limit = problem.limit if limit is None else limit
    weighty = problem.level_weights > 0
    with np.errstate(over="ignore", divide="ignore"):
        rates = problem.level_values[weighty] / problem.level_weights[weighty]
    low, high = 0.0, float(rates.max(initial=0.0))
    if not math.isfinite(high) or _weight_at(problem, low) <= limit:
        return 0.0
    # Bisection ends at two neighbouring floats, so the price depends on no tolerance.
    while low < (middle := low + (high - low) / 2) < high:
        if _weight_at(problem, middle) <= limit:
            high = middle
        else:
            low = middle
    return high


def _weight_at(problem: OperatorSelection, price: float) -> float:
    return float(problem.chosen_weights(base_levels(problem, price)).sum())


def base_levels(problem: OperatorSelection, price: float) -> IntArray:
    """Return the level (n,) of each operator that is worth most at a price; of equal ones the first."""
    with np.errstate(over="ignore", invalid="ignore"):
        reduced = np.where(problem.allowed, problem.level_values - price * problem.level_weights, -np.inf)
    return np.asarray(reduced.argmax(axis=1), dtype=np.int64)


def lagrangian_bound(problem: OperatorSelection, price: float) -> float:
    """Return the bound of a price of weight: price * limit + what every operator gains at it, rounded up.

    Of many operators in float64, with an allowance for rounding; of fewer in fractions.
    """
    price = max(price, 0.0)
    if problem.n_operators > _IN_FRACTIONS:
        paid = price * problem.level_weights
        gain = np.where(problem.allowed, problem.level_values - paid, 0.0)
        terms = [price * problem.limit, *np.maximum(gain.max(axis=1), 0.0).tolist()]
        size = math.fsum((problem.level_values + paid)[gain > 0].tolist()) + terms[0]
        return float(math.fsum(terms) + _ROUNDING * size)
    of_weight = Fraction(price)
    reduced = [
        max((Fraction(v) - of_weight * Fraction(w) for v, w, may in zip(vs, ws, ok, strict=True) if may), default=0)
        for vs, ws, ok in zip(
            problem.level_values.tolist(), problem.level_weights.tolist(), problem.allowed.tolist(), strict=True
        )
    ]
    return rounded_up(of_weight * Fraction(problem.limit) + sum(reduced, Fraction(0)))


def rounded_up(exact: Fraction) -> float:
    """Return the least float64 that is at least a fraction; infinity where float64 does not reach."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def filled_levels(problem: OperatorSelection, price: float) -> IntArray:
    """Return levels (n,) that fit: those of the base if they do, else 0, and then what else fits, best rates first."""
    level = base_levels(problem, price)
    if not problem.fits(level):
        level = np.zeros_like(level)
    here = np.arange(problem.n_operators)
    gain = np.where(problem.allowed, problem.level_values - problem.level_values[here, level][:, None], 0.0)
    more = problem.level_weights - problem.level_weights[here, level][:, None]
    with np.errstate(over="ignore"):
        rate = np.where(gain > 0, gain / np.maximum(more, np.finfo(np.float64).tiny), 0.0)
    first = np.argsort(-rate.max(axis=1), kind="stable")[:_MOST_FILLED]
    room = problem.limit - problem.used(level)
    filled = level.copy()
    for o in first.tolist():
        fitting = np.flatnonzero((gain[o] > 0) & (more[o] <= room))
        if len(fitting):
            best = int(fitting[gain[o, fitting].argmax()])
            filled[o], room = best, room - more[o, best]
    return filled if problem.fits(filled) else level


@dataclass(frozen=True)
class _Option:
    """One operator of the core: its levels other than the base, and what these add in whole numbers."""

    operator: int
    levels: IntArray
    value: IntArray
    weight: IntArray


def better_by_core(problem: OperatorSelection, than: float, price: float, most: int = MOST_STATES) -> Tried:
    """Return a selection (n,) that fits and is worth more than a value, where there is one.

    What is worth more by less than the value's last binary digit is not looked for. `decided` is False where the states
    are too many, or where rounding leaves open whether something is better.
    """
    bound, goal = lagrangian_bound(problem, price), _goal(problem, than)
    if not math.isfinite(bound):
        return Tried(None, False)
    if bound < goal:
        return Tried(None, True)
    base = base_levels(problem, price)
    kept = _kept(problem, base, price, math.nextafter(bound - goal, math.inf))
    core = np.flatnonzero(kept.any(axis=1))
    if len(core) > _MOST_CORE:
        return Tried(None, False)
    return _Program(problem, base, core, kept, price, goal).run(than, most)


def _goal(problem: OperatorSelection, than: float) -> float:
    """Return what a better selection is worth at least: of whole values the next multiple of their divisor."""
    values = problem.level_values
    if values.max(initial=0.0) < 2.0**53 and bool((values == np.rint(values)).all()):
        grain = int(np.gcd.reduce(values.astype(np.int64).ravel()))
        if grain:
            return float((math.floor(Fraction(than) / grain) + 1) * grain)
    return math.nextafter(than, math.inf)


def _kept(problem: OperatorSelection, base: IntArray, price: float, slack: float) -> BoolArray:
    """Return which levels (n, L + 1), other than those of the base, lose less than the slack at the price."""
    here = np.arange(len(base))
    paid = price * problem.level_weights
    reduced = problem.level_values - paid
    size = problem.level_values + paid
    loss = reduced[here, base][:, None] - reduced - _ROUNDING * (size + size[here, base][:, None])
    kept = problem.allowed & (loss <= slack)
    kept[here, base] = False
    return np.asarray(kept, dtype=np.bool_)


def _differences(left: FloatArray, right: FloatArray, towards: float) -> FloatArray:
    """Return left - right, rounded towards an infinity where it is not exact."""
    found = left - right
    again = found - left
    error = (left - (found - again)) - (right + again)
    wrong = error > 0 if towards > 0 else error < 0
    return np.where(wrong, np.nextafter(found, towards), found)


def _whole(deviations: list[FloatArray], beside: float, towards: float) -> tuple[list[IntArray], int]:
    """Return numbers, those of one operator each, as whole multiples of 2^exponent, and the exponent.

    The sums of the largest of each operator, and `beside`, stay below 2^60.
    """
    size = math.fsum([abs(beside), *(float(np.abs(each).max()) for each in deviations)])
    exponent = math.frexp(size)[1] - _BITS
    rounding = np.ceil if towards > 0 else np.floor
    least = math.copysign(1.0, towards)
    found = []
    for each in deviations:
        scaled = rounding(np.ldexp(each, -exponent))
        vanished = (scaled == 0) & (each * least > 0)
        found.append(np.where(vanished, least, scaled).astype(np.int64))
    return found, exponent


class _Program:
    """The dynamic program over the core."""

    def __init__(
        self, problem: OperatorSelection, base: IntArray, core: IntArray, kept: BoolArray, price: float, goal: float
    ) -> None:
        self._problem, self._base = problem, base
        here = np.arange(len(base))
        missing = math.nextafter(math.fsum([goal, *(-problem.level_values[here, base]).tolist()]), -math.inf)
        left = math.nextafter(math.fsum([problem.limit, *(-problem.chosen_weights(base)).tolist()]), math.inf)
        levels = [np.flatnonzero(kept[o]) for o in core.tolist()]
        values, weights = (
            [
                _differences(table[o, each], np.full(len(each), table[o, base[o]]), towards)
                for o, each in zip(core.tolist(), levels, strict=True)
            ]
            for table, towards in ((problem.level_values, math.inf), (problem.level_weights, -math.inf))
        )
        whole_values, value_exponent = _whole(values, missing, math.inf)
        whole_weights, weight_exponent = _whole(weights, left, -math.inf)
        options = [_Option(*row) for row in zip(core.tolist(), levels, whole_values, whole_weights, strict=True)]
        self._price = math.ldexp(price, weight_exponent - value_exponent)
        self._options = sorted(options, key=lambda one: _distance(one, self._price))
        self._need = _multiple(math.ceil(_in_units(missing, value_exponent)), whole_values)
        self._room = math.floor(_in_units(left, weight_exponent))

    def run(self, than: float, most: int) -> Tried:
        """Return what is better, or that nothing is."""
        value, weight = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        parents: list[tuple[IntArray, IntArray]] = []
        limits = self._limits()
        unsure, states = False, 0
        for at in range(len(self._options) + 1):
            done = np.flatnonzero((weight <= self._room) & (value >= self._need))
            if len(done):
                best = self._levels(parents, int(done[value[done].argmax()]))
                if self._problem.fits(best) and self._problem.objective(best) > than:
                    return Tried(best, True)
                # It fits in rounded numbers but not exactly: something better may hide behind it, so nothing is
                # decided.
                unsure = True
            if at == len(self._options):
                break
            value, weight, parent = self._next(self._options[at], value, weight, limits[at])
            parents.append(parent)
            states += len(value)
            if states > most or len(value) > _MOST_AT_ONCE:
                return Tried(None, False)
        return Tried(None, not unsure)

    def _next(
        self, option: _Option, value: IntArray, weight: IntArray, limits: tuple[float, float, float]
    ) -> tuple[IntArray, IntArray, tuple[IntArray, IntArray]]:
        """Return the states after one more operator, and of each the state that it comes from and the level."""
        values = np.concatenate([value, *(value + more for more in option.value)])
        weights = np.concatenate([weight, *(weight + more for more in option.weight)])
        origin = np.tile(np.arange(len(value)), 1 + len(option.levels))
        level = np.repeat([self._base[option.operator], *option.levels], len(value))
        alive = self._may_reach(values, weights, limits)
        values, weights, origin, level = values[alive], weights[alive], origin[alive], level[alive]
        order = np.lexsort((-values, weights))
        values = values[order]
        before = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], values[:-1]]))
        order = order[values > before]
        return values[values > before], weights[order], (origin[order], level[order])

    def _may_reach(self, value: IntArray, weight: IntArray, limits: tuple[float, float, float]) -> BoolArray:
        up, down, bonus = limits
        room = (self._room - weight).astype(np.float64)
        gain = np.where(room >= 0, up * room, down * room)
        size = np.abs(value) + np.abs(gain) + bonus + abs(self._need)
        return np.asarray(value + gain + bonus + _MARGIN * size >= self._need, dtype=np.bool_)

    def _limits(self) -> list[tuple[float, float, float]]:
        """Return for each operator of the core the rates `up` and `down` of those after it, and a bonus beside these.

        With `up` <= price <= `down`, what a level adds is at most its rate times its weight; what rounding, or a level
        without weight, adds at the price is the bonus.
        """
        found = []
        up, down, bonus = 0.0, max(_NEVER, self._price), 0.0
        for one in reversed(self._options):
            found.append((up, down, bonus))
            adds, frees = one.weight > 0, one.weight < 0
            up = max([up, *np.minimum(one.value[adds] / one.weight[adds], self._price).tolist()])
            down = min([down, *np.maximum(one.value[frees] / one.weight[frees], self._price).tolist()])
            bonus += max(0.0, float((one.value - self._price * one.weight).max()))
        return found[::-1]

    def _levels(self, parents: list[tuple[IntArray, IntArray]], state: int) -> IntArray:
        """Return the levels (n,) that a state after the last of the parents stands for."""
        level = self._base.copy()
        for at in range(len(parents) - 1, -1, -1):
            origin, chosen = parents[at]
            level[self._options[at].operator], state = chosen[state], int(origin[state])
        return level


def _in_units(number: float, exponent: int) -> Fraction:
    return Fraction(number) / Fraction(2) ** exponent


def _multiple(number: int, deviations: list[IntArray]) -> int:
    """Return the least multiple of the greatest common divisor of all deviations that is at least a number."""
    grain = math.gcd(*(int(np.gcd.reduce(each)) for each in deviations))
    return number if not grain else -(-number // grain) * grain


def _distance(option: _Option, price: float) -> float:
    """Return how far the rates of an operator's levels are from the price, the nearest of them."""
    some = option.weight != 0
    return float(np.abs(option.value[some] / option.weight[some] - price).min(initial=math.inf))
