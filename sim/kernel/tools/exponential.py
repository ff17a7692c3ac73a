"""Exponential times without the library's logarithm, where that cannot make a difference.

A time is -mean * log1p(-u), rounded to whole nanoseconds; the logarithm is all it costs. Here it is a series, several
times in a loop at once. It is about as good as the library's but not equal to it. So what is too close to the middle
between two nanoseconds, where a last digit would decide, is left to the library: the rounding test of Ziv (ACM TOMS
1991).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.tools.compiling import kernel

UNSURE = 0
"""In place of a time that only the library's logarithm can tell."""

# u is known to 2^-54 and the logarithm is below 37: its own error, that of the library and those of the products are
# together below 2^-45 of the mean. What is kept apart leaves room for a library that is wrong in its last six bits.
_MARGIN = 2.0**-42
_LONGEST_MEAN_NS = 2.0**38  # of a longer one too many would be unsure; shorter ones stay below 2^51 ns

_LN_2 = 0.6931471805599453
_TO_ROOT = 0x95F619980C433  # from the bits of the root of one half to those of one: mantissas come to lie between roots
_C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8 = (2 / n for n in range(3, 18, 2))
_WHOLE = 1.5 * 2.0**52  # added to a number below 2^51 it leaves no fraction, and the number in the last bits
_WHOLE_BITS = int(np.float64(_WHOLE).view(np.int64))


@kernel
def minus_log(x: Any) -> Any:
    """-log(x) for x from 2^-53 to 1, with an error below 2^-45.

    x = 2^exponent m with m between the roots of 1/2 and 2, and log m = 2 artanh(s) with s = (m - 1) / (m + 1) and
    s^2 < 0.0295: what is left out of the series is below 2^-51.
    """
    bits = np.float64(x).view(np.int64)
    exponent = ((bits + _TO_ROOT) >> 52) - 1023
    f = np.int64(bits - (exponent << 52)).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (_C2 + w * (_C4 + w * (_C6 + w * _C8)))
    odd = z * (_C1 + w * (_C3 + w * (_C5 + w * _C7)))
    exponent_as_float = np.int64(exponent + _WHOLE_BITS).view(np.float64) - _WHOLE
    return -(2.0 * s + s * (even + odd)) - exponent_as_float * _LN_2


@kernel
def exponential_ns(mean_ns: Any, u: Any) -> Any:
    """Return the time [ns] at this uniform number, at least 1, or UNSURE."""
    ns = mean_ns * minus_log(1.0 - u)
    shifted = ns + _WHOLE
    # No branch: several are drawn at once.
    unsure = (mean_ns > _LONGEST_MEAN_NS) | (abs(ns - (shifted - _WHOLE)) > 0.5 - mean_ns * _MARGIN)
    drawn = max(np.int64(1), np.float64(shifted).view(np.int64) - _WHOLE_BITS)
    return np.int64(UNSURE) if unsure else drawn
