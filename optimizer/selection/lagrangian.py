"""The best price of weight for a query selection: its cuts bound the value of every set of queries."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from models.checked_arrays import BoolArray, FloatArray
from models.planning.selection import QuerySelection
from optimizer.selection.closure import Closures, Cut
from optimizer.selection.scaling import Scaled, scaled

_BITS = 52
_MOST_CUTS = 60


def whole_numbers(problem: QuerySelection, possible: BoolArray) -> Scaled:
    """Return the problem as whole numbers that relax it; queries that are not possible are worth nothing."""
    return scaled(np.where(possible, problem.value, 0.0), problem.weight, problem.limit, _BITS)


def best_cuts(closures: Closures) -> tuple[list[Cut], Cut]:
    """Return the cuts on the way to the best price, and the one of the lowest bound.

    The bound is convex in the price. From a set that is too heavy and one that fits, the next price is where both are
    worth the same (Newton's method on the lines of both), until that finds nothing new.
    """
    best = closures.cut(Fraction(0))
    cuts, heavy, light = [best], best.best, None
    if heavy.weight <= closures.room:
        return cuts, best
    value, weight = 0, 0
    for _ in range(_MOST_CUTS):
        price = Fraction(heavy.value - value, heavy.weight - weight)
        if price <= 0:
            break
        cut = closures.cut(price)
        cuts.append(cut)
        if cut.bound < best.bound:
            best = cut
        found = cut.best
        if found.weight > closures.room:
            if found.weight >= heavy.weight:
                break
            heavy = found
        else:
            if light is not None and found.weight <= light.weight:
                break
            light = found
            value, weight = found.value, found.weight
    return cuts, best


def real_split(closures: Closures, cut: Cut, numbers: Scaled) -> FloatArray:
    """Return the flow of a cut as shares (E,) of all pairs, in the unit of values, rounded down."""
    split = np.zeros(len(closures.pairs))
    split[closures.pairs] = np.nextafter(np.ldexp(cut.flow.astype(np.float64), -numbers.value_bits), 0.0)
    return split
