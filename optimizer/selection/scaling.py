"""Real values and weights as whole numbers: a relaxation, so that what bounds it bounds the problem."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray

_BITS = 60  # all values together, and all weights with the capacity, stay below 2^61: no sum overflows int64


@dataclass(frozen=True)
class Scaled:
    """Whole numbers: value (..) in units of 2^-value_bits, weight (..) and capacity in units of 2^-weight_bits.

    Values were rounded up, weights and the capacity down: what fits still fits and is worth no less. What weighs at
    most `safe` fits for certain: as each of n weights lost less than a unit, that is n units less. Values are
    multiples of `grain`, so a better selection is better by that at least. `exact` where nothing was rounded.
    """

    value: IntArray
    weight: IntArray
    capacity: int
    safe: int
    grain: int
    value_bits: int
    weight_bits: int
    exact: bool

    def real(self, value: int) -> float:
        """Return a sum of values in the unit of the problem, rounded up."""
        found = math.ldexp(float(value), -self.value_bits)
        return math.nextafter(found, math.inf) if math.ldexp(found, self.value_bits) < value else found


def scaled(value: FloatArray, weight: FloatArray, limit: float, bits: int = _BITS) -> Scaled:
    """Return the whole numbers for values and weights of one shape, and the largest sum of weights that counts.

    Scales are powers of two, so whole numbers (and halves, ..) stay exact while their sum has less than `bits` bits.
    """
    value_bits = bits - _exponent(math.fsum(value.max(axis=-1).tolist() if value.ndim > 1 else value.tolist()))
    heaviest = math.fsum((weight.max(axis=-1) if weight.ndim > 1 else weight).tolist())
    weight_bits = bits - _exponent(heaviest)
    values = np.maximum(np.ceil(np.ldexp(value, value_bits)), value > 0).astype(np.int64)
    weights = np.floor(np.ldexp(weight, weight_bits)).astype(np.int64)
    room = math.floor(
        math.ldexp(min(limit, 2 * heaviest), weight_bits)
    )  # twice: not less than all, whatever was rounded
    step = int(np.gcd.reduce(weights, axis=None)) or 1
    exact_weight = bool((np.ldexp(weights.astype(np.float64), -weight_bits) == weight).all())
    exact_value = bool((np.ldexp(values.astype(np.float64), -value_bits) == value).all())
    grain = int(np.gcd.reduce(values, axis=None)) or 1
    capacity = room - room % step
    safe = capacity if exact_weight else min(capacity, room - len(weights))
    return Scaled(values, weights, capacity, safe, grain, value_bits, weight_bits, exact_weight and exact_value)


def _exponent(size: float) -> int:
    """Return the least e with size <= 2^e (0 for nothing)."""
    return math.frexp(size)[1] if size > 0 else 0
