"""Costs and loads in units that bring them to about 1: some of what is searched keeps them in 32 bits.

Units are powers of two, so that nothing is rounded. A unit is nearer to 1 where the smallest number would lose digits
else: no other answer may become the cheapest, and nothing may fit that did not. Prices are in costs for each load.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.checkpoint_allocation import CheckpointAllocation

LARGEST_PRICE = 1e210
"""Of a former plan: costs and loads are at most 1e100, and what loads are above zero may be small."""

_COMMON_EXPONENT = 60  # of two: numbers of such sizes are taken as they are
_MOST_ROOM = 1e50  # and not less than twice all loads together: more room is not told apart
_MOST_PAID = 1e30  # what loads at prices of a former plan may cost, in units: more is no price, and 32 bits end there


@dataclass(frozen=True)
class Units:
    """Factors of costs and loads, powers of two.

    Numbers of the problem times these are those in units; dividing by them is exact, too.
    """

    cost: float
    load: float

    @property
    def common(self) -> bool:
        """Return whether both factors are 1: then nothing has to be converted."""
        return self.cost == self.load == 1.0

    def scaled(self, problem: CheckpointAllocation) -> CheckpointAllocation:
        """Return the problem in these units; capacities for more than all loads are cut to twice that sum."""
        # Powers of two change the exponent alone, so these products are exact.
        fields: dict[str, FloatArray] = {"cost": problem.cost * self.cost, "load": problem.load * self.load}
        most = max(_MOST_ROOM, 2 * float(fields["load"].sum()))
        for name in ("capacity", "capacity_min"):
            amount = getattr(problem, name)
            # Only where loads change: an untouched capacity must stay the very same number.
            if amount is not None and self.load != 1.0:
                fields[name] = np.minimum(amount * self.load, most)
        return replace(problem, **fields)  # type: ignore[arg-type]

    def prices(self, prices: FloatArray) -> FloatArray:
        """Return prices (N,), cost per load, in these units."""
        # A price is cost per load: its exponent changes by the difference of both (`frexp` is one too high for each).
        return np.ldexp(prices, math.frexp(self.cost)[1] - math.frexp(self.load)[1])

    def prices_back(self, prices: FloatArray | None) -> FloatArray | None:
        """Return prices (N,) of these units in those of the problem; None where they are too large there."""
        if prices is None:
            return None
        with np.errstate(over="ignore"):
            found = np.ldexp(prices, math.frexp(self.load)[1] - math.frexp(self.cost)[1])
        # A price that overflows could not be checked again from the plan: no prices are better than such ones.
        return found if (np.abs(found) <= LARGEST_PRICE).all() else None

    def bound_back(self, bound: float) -> float:
        """Return a bound in the units of the problem, rounded down where it is too small for all its digits."""
        found = bound / self.cost
        # Division may round up to more than was proven: the next smaller float restores the bound.
        return found if found * self.cost <= bound else math.nextafter(found, -math.inf)


def units_of(problem: CheckpointAllocation) -> Units:
    """Return the units of a problem, 1 for numbers of common sizes.

    A factor other than 1 is chosen only where the largest number is outside of 2**-60 to 2**60.
    """
    return Units(_unit(problem.cost), _unit(problem.load))


def are_prices(problem: CheckpointAllocation, prices: FloatArray, units: Units) -> bool:
    """Return whether prices (N,) of a former plan, in units, are usable: loads at them cost what 32 bits hold."""
    dearest = float(np.abs(prices).max())
    return dearest * max(1.0, float(problem.load.max()) * units.load) <= _MOST_PAID


def _unit(numbers: FloatArray) -> float:
    """Return the power of two that brings the largest number to about 1, as far as the smallest keeps its digits."""
    size = np.abs(numbers)
    largest = float(size.max(initial=0.0))
    exponent = math.frexp(largest)[1]
    # Common sizes stay untouched, so ordinary problems give the same digits with or without this module.
    if largest == 0.0 or abs(exponent) <= _COMMON_EXPONENT:
        return 1.0
    single = numbers.dtype == np.float32  # a scale must be a number of that kind itself
    if exponent < 0:
        return math.ldexp(1.0, min(100 if single else 1000, -exponent))
    # The smallest number must stay normal, or it would lose digits and ties would appear.
    smallest = math.frexp(float(size.min(where=size > 0, initial=np.inf)))[1]
    least = -126 if single else -1022
    return math.ldexp(1.0, min(0, max(-exponent, least + 1 - smallest, least)))
