"""Gamma and lognormal times from polynomials, where that cannot make a difference.

The inverse of the distribution function takes half a microsecond for each tuple, twenty times as long as a step of the
scan. Here it is interpolated: cells halve towards both ends of (0, 1), each in equal parts, and in each part a
polynomial goes through the inverse at Chebyshev's nodes. It is not equal to the inverse. So what is too close to the
middle between two nanoseconds is `UNSURE`, as are the far ends, and the inverse is asked: the rounding test of Ziv, as
for exponential times (`draws`).

What is left out of such an interpolation swings between the nodes, so that its size shows at both ends and in the
middle of a part, where it is measured. The margin is eight times that, and 2^-40 of the time for the last digits of
the inverse, the products and the rounding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import GAMMA, LOGNORMAL, UNSURE, inverse_of, standard_quantile
from sim.kernel.tools.pointer import State

_HALVINGS = 10  # cells from 1/2 to 2^-11, and the same from 1/2 to 1 - 2^-11
_PARTS_BITS = 4
_PARTS = 1 << _PARTS_BITS  # of a cell
_DEGREE = 5
WIDTH = _DEGREE + 3  # coefficients, margin, and one to fill a line of the processor's cache
PIECES = 2 * _HALVINGS * _PARTS
_SAFETY = 8.0
_LAST_DIGITS = 2.0**-40
_MANTISSA = 52
_REST = (1 << (_MANTISSA - _PARTS_BITS)) - 1
_REST_UNIT = 2.0 / (_REST + 1)
_FIRST = 1021  # biased exponent of numbers from 1/4 to 1/2
_WHOLE = 1.5 * 2.0**52
_MOST = 2.0**50


@kernel
def quantile_ns(state: State, first: Any, scale_ns: Any, u: Any) -> Any:
    """Return the time [ns] at this uniform number, at least 1, or UNSURE.

    `first`: the row of `quantiles` at which the law begins. `scale_ns`: what its quantiles are multiplied by.
    """
    upper = u >= 0.5
    x = 1.0 - u if upper else u
    bits = np.float64(x).view(np.int64)
    cell = _FIRST - (bits >> _MANTISSA)
    if cell < 0 or cell >= _HALVINGS:
        return np.int64(UNSURE)
    part = (bits >> (_MANTISSA - _PARTS_BITS)) & (_PARTS - 1)
    t = np.float64(bits & _REST) * _REST_UNIT - 1.0
    place = (first + (upper * _HALVINGS + cell) * _PARTS + part) * WIDTH
    c = state.quantiles
    value = c[place] + t * (
        c[place + 1] + t * (c[place + 2] + t * (c[place + 3] + t * (c[place + 4] + t * c[place + 5])))
    )
    ns = value * scale_ns
    whole = (ns + _WHOLE) - _WHOLE
    margin = c[place + _DEGREE + 1] * scale_ns + ns * _LAST_DIGITS
    if not (0.0 < ns < _MOST) or not (abs(ns - whole) < 0.5 - margin):
        return np.int64(UNSURE)
    return max(np.int64(1), np.int64(whole))


@lru_cache(maxsize=64)
def quantiles(law: int, parameter: float) -> np.ndarray:
    """Return the polynomials of a law (PIECES * WIDTH,): GAMMA with its shape, or LOGNORMAL with its sigma, scale 1."""
    nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    looks = np.concatenate([nodes, [-1.0, 0.0, 1.0]])
    cell, part = np.divmod(np.arange(_HALVINGS * _PARTS), _PARTS)
    begin = 2.0 ** -(cell + 2.0) * (1 + part / _PARTS)
    length = 2.0 ** -(cell + 2.0) / _PARTS
    x = begin[:, None] + length[:, None] * (looks + 1) / 2
    numbers = np.concatenate([x, 1.0 - x])
    found = np.zeros(numbers.size)
    _fill(law, parameter, inverse_of(law), numbers.reshape(-1), found)
    values = found.reshape(numbers.shape)
    powers = np.vander(nodes, increasing=True)
    with np.errstate(all="ignore"):
        coefficients = np.linalg.solve(powers, values[:, : _DEGREE + 1].T).T
        there = coefficients @ np.vander(looks[_DEGREE + 1 :], _DEGREE + 1, increasing=True).T
        off = np.abs(there - values[:, _DEGREE + 1 :]).max(axis=1)
    made = np.zeros((PIECES, WIDTH))
    made[:, : _DEGREE + 1], made[:, _DEGREE + 1] = coefficients, _SAFETY * off
    made.setflags(write=False)
    return made.reshape(-1)


@kernel
def _fill(law: int, parameter: float, inverse: int, numbers: np.ndarray, found: np.ndarray) -> None:
    for k in range(numbers.shape[0]):
        found[k] = standard_quantile(law, parameter, inverse, numbers[k])


def has_quantiles(law: int) -> bool:
    """Return whether times of a law are interpolated."""
    return law in (GAMMA, LOGNORMAL)


def quantiles_of(draws: np.void) -> np.ndarray:
    """Return the polynomials of a record of OPERATOR_DRAWS, whose law has some."""
    return quantiles(int(draws["law"]), float(draws["a" if draws["law"] == GAMMA else "b"]))
