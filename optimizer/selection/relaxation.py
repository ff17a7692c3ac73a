"""Prices of the knapsack: what each operator would choose alone, and the bound that follows.

For a price lambda >= 0 of weight, and mu of each chosen operator, with r[o, l] = v[o, l] - lambda w[o, l] - mu [l > 0],

    sum v <= lambda W + mu k + sum_o max_l r[o, l]

for every selection within the capacity, if mu = 0, or mu > 0 and at most k operators are chosen, or mu < 0 and at least
k are. Choosing level l of operator o lowers that by its loss, max r[o] - r[o, l]. At the best lambda this is the bound
of Dantzig (1957), for levels that of Sinha and Zoltners (1979); mu is the price of Martello and Toth (1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from optimizer.selection.scaling import Scaled

_ROUNDING = 2.0**-50  # relative: more than a difference of three products of float64 loses
_STEP_BITS = 38  # 2^-38: 4e-12
_MOST_HALVINGS = 200
_MOST_PRICES = 60
_SHRINK_EVERY = 6
_FORBIDDEN = -math.inf


@dataclass(frozen=True)
class Options:
    """Levels of operators as whole numbers: value, weight and allowed (n, L + 1), level 0 is nothing.

    No selection that weighs more than `capacity` fits, all that weigh at most `safe` do, and of those between `fits`
    knows. Values differ by multiples of `grain`; only what is better by `step` is looked for, which is the grain where
    numbers are exact.
    """

    value: IntArray
    weight: IntArray
    allowed: BoolArray
    capacity: int
    safe: int
    grain: int
    step: int
    fits: Callable[[IntArray], bool]
    exact: bool

    @classmethod
    def of(cls, numbers: Scaled, allowed: BoolArray, fits: Callable[[IntArray], bool]) -> Options:
        """Return the options of scaled numbers."""
        grain = numbers.grain
        return cls(
            numbers.value, numbers.weight, allowed, numbers.capacity, numbers.safe, grain, grain, fits, numbers.exact
        )

    def with_step(self, bound: int) -> Options:
        """Return the same options; where numbers are not exact, less than a tiny share of a bound is not looked for."""
        return self if self.exact else replace(self, step=max(self.grain, bound >> _STEP_BITS))

    def total(self, level: IntArray) -> tuple[int, int]:
        """Return the exact value and weight of levels (n,)."""
        rows = np.arange(len(level))
        return int(self.value[rows, level].sum()), int(self.weight[rows, level].sum())


@dataclass(frozen=True)
class Relaxation:
    """The relaxation at given prices: the base, a selection that fits; the bound; and the loss of leaving the base.

    base (n,) level of each operator, of value and weight `value` and `weight`; bound: no selection
    (for mu: none that is better than the one k was made for) is worth more. A deviation from the base takes operator
    `row` to `level` and changes value and weight by `more` and `heavier`; the bound falls by at least `loss`.
    """

    base: IntArray
    value: int
    weight: int
    bound: int
    price: float
    row: IntArray
    level: IntArray
    more: IntArray
    heavier: IntArray
    loss: FloatArray


@dataclass(frozen=True)
class _Choices:
    """The choices of operators alone at a price just too low, which do not fit, and at the next, which do."""

    price: float
    low: IntArray
    high: IntArray


def relax(options: Options) -> Relaxation:
    """Return the relaxation at the best price of weight, without a price of being chosen."""
    found = _choices(options)
    return _relaxation(options, found.price, _filled(options, found), 0.0, 0)


def _choices(options: Options, mu: float = 0.0) -> _Choices:
    """Return the choices on both sides of the best price of weight for `mu`: neighbours in float64."""
    value, weight = options.value.astype(np.float64), options.weight.astype(np.float64)
    value[:, 1:] -= mu
    value[~options.allowed] = _FORBIDDEN
    low, high = 0.0, _dearest(value, weight)
    at_low, at_high = _choice(value, weight, low), _choice(value, weight, high)
    if _weight(options, at_low) <= options.capacity:
        return _Choices(low, at_low, at_low)
    active, fixed = np.arange(len(value)), 0.0
    for halving in range(_MOST_HALVINGS):
        if halving % _SHRINK_EVERY == 0:
            # Who chooses the same at both prices does so at all prices between: a maximum of lines is convex.
            same = at_low[active] == at_high[active]
            fixed += float(weight[active[same], at_low[active[same]]].sum())
            active = active[~same]
            v, w, every = value[active], weight[active], np.arange(len(active))
        middle = low + (high - low) / 2
        if not (low < middle < high) or not len(active):
            break
        chosen = _choice(v, w, middle)
        if fixed + float(w[every, chosen].sum()) > options.capacity:
            low, at_low[active] = middle, chosen
        else:
            high, at_high[active] = middle, chosen
    return _Choices(high, at_low, at_high)


def _weight(options: Options, level: IntArray) -> int:
    return int(options.weight[np.arange(len(level)), level].sum())


def _dearest(value: FloatArray, weight: FloatArray) -> float:
    """Return a price at which nothing that weighs anything is chosen."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((weight > 0) & (value > 0), value / weight, 0.0)
    return 2.0 * float(ratio.max()) + 1e-300


def _choice(value: FloatArray, weight: FloatArray, price: float) -> IntArray:
    """Return the level with the highest reduced value of each operator, the lowest of equal ones."""
    if value.shape[1] == 2:
        return (value[:, 1] - price * weight[:, 1] > 0).astype(np.int64)
    return np.asarray(np.argmax(value - price * weight, axis=1), dtype=np.int64)


def _filled(options: Options, choices: _Choices) -> IntArray:
    """Return the choice at the high price, then that at the low one for as many operators as fit."""
    base = choices.high.copy()
    while _weight(options, base) > options.safe and base.any():  # a sum of float64 was too low, or numbers not exact
        base[np.flatnonzero(base)[-1]] = 0
    rows = np.flatnonzero(choices.low != base)
    heavier = options.weight[rows, choices.low[rows]] - options.weight[rows, base[rows]]
    taken = rows[np.cumsum(np.maximum(heavier, 0)) <= options.safe - _weight(options, base)]
    base[taken] = choices.low[taken]
    return base


def _relaxation(options: Options, price: float, base: IntArray, mu: float, k: int) -> Relaxation:
    rows = np.arange(len(base))
    reduced = options.value - price * options.weight
    reduced[:, 1:] -= mu
    size = options.value + price * options.weight
    size[:, 1:] += abs(mu)
    error = _ROUNDING * (size + size[rows, base][:, None])
    loss = (reduced[rows, base][:, None] - reduced) - error
    loss[~options.allowed] = math.inf
    loss[rows, base] = math.inf
    chosen_value, chosen_weight = options.total(base)
    # Where rounding leaves open whether the base is the best, the bound is raised by what that may be.
    unsure = math.fsum(np.maximum(-loss.min(axis=1), 0.0).tolist())
    count = int((base > 0).sum())
    room = Fraction(price) * (options.capacity - chosen_weight) + Fraction(mu) * (k - count)
    bound = chosen_value + math.ceil(room + Fraction(unsure))
    row, level = np.nonzero(np.isfinite(loss))
    return Relaxation(
        base,
        chosen_value,
        chosen_weight,
        bound,
        price,
        row,
        level,
        options.value[row, level] - options.value[row, base[row]],
        options.weight[row, level] - options.weight[row, base[row]],
        np.maximum(loss[row, level], 0.0),
    )


def counted(options: Options, lower: int) -> Relaxation | None:
    """Return the relaxation with a price of being chosen, for 0-1 problems; `lower` is the value of a known selection.

    At most k operators fit: the lightest ones. At least k are needed for more than `lower`: the most valuable ones.
    None where a price of either kind would not help: the bound is convex in mu, and then it is lowest at 0.
    """
    within = options.allowed[:, 1]
    most = int(np.searchsorted(np.cumsum(np.sort(options.weight[within, 1])), options.capacity, side="right"))
    best = np.cumsum(np.sort(options.value[within, 1])[::-1])
    least = int(np.searchsorted(best, lower + options.step, side="left")) + 1
    start = _line(options, 0.0, 0)
    if -start.slope > most:
        return _best_count(options, most, 1.0)
    return _best_count(options, least, -1.0) if -start.slope < least else None


def branched(options: Options) -> tuple[Relaxation, Relaxation]:
    """Return two relaxations of a 0-1 problem, of at most k and of at least k + 1 operators; each selection is in one.

    k is the number that the linear relaxation chooses, rounded down. Each bound holds for the selections of its branch,
    so the higher one holds for all.
    """
    at_most = math.floor(-_line(options, 0.0, 0).slope)
    return _best_count(options, at_most, 1.0), _best_count(options, at_most + 1, -1.0)


@dataclass(frozen=True)
class _Line:
    """The bound as a function of mu, at most: at + slope * mu, which touches it at `mu`; and the choices there."""

    mu: float
    at: Fraction
    slope: Fraction
    choices: _Choices


def _line(options: Options, mu: float, k: int) -> _Line:
    """Return the line of the linear relaxation at mu: of the mixture of both choices that weighs just the capacity."""
    found = _choices(options, mu)
    (value, weight), (less, lighter) = options.total(found.low), options.total(found.high)
    share = Fraction(options.capacity - lighter, weight - lighter) if weight > lighter else Fraction(0)
    count, fewer = int((found.low > 0).sum()), int((found.high > 0).sum())
    return _Line(mu, less + share * (value - less), k - fewer - share * (count - fewer), found)


def _best_count(options: Options, k: int, sign: float) -> Relaxation:
    """Return the relaxation at the best mu of a sign: where a falling and a rising line meet, until none is below."""
    falls = _line(options, 0.0, k)
    rises = _line(options, sign * float(options.value.max()), k)
    found, mu = falls, 0.0
    for _ in range(_MOST_PRICES):
        if falls.slope == rises.slope:
            break
        between = float((falls.at - rises.at) / (rises.slope - falls.slope))
        mu = sign * max(0.0, sign * between)  # of the other sign it would prove nothing
        found = _line(options, mu, k)
        if mu in (falls.mu, rises.mu):
            break
        if sign * found.slope <= 0:
            falls = found
        else:
            rises = found
    # Where all reduced values are alike the choices on both sides differ in much, and one is nearer to k.
    tried = [
        _relaxation(options, found.choices.price, _filled(options, other.choices), mu, k)
        for other in (falls, found, rises)
    ]
    return min(tried, key=lambda one: one.bound)
