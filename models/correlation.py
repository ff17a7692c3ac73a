"""Pearson correlation of load series, the same bits on every machine where the series are counts.

r(x, y) = cov(x, y) / (sd(x) sd(y)). With n bins, n^2 cov(x, y) = n sum(x y) - sum(x) sum(y), which is a whole number
for counts; it is formed in integers where it fits into 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from models.checked_arrays import FloatArray
from models.errors import InputError

Array = npt.NDArray[Any]

_EXACT_FLOAT = 2**53  # whole numbers up to here are exact as float64
_EXACT_INT = 2**62


def pearson(rows: Array) -> FloatArray:
    """Return the correlation matrix (n, n) of `rows` (n, bins): symmetric, within [-1, 1].

    A constant series correlates with nothing: its row and column are 0, its diagonal too; every other
    diagonal entry is exactly 1. Sums of whole numbers are formed exactly where they fit, so that neither the
    order of summation nor the number of threads shows in the result. Raises InputError for an array that is
    not two-dimensional, has no bins, or holds values that are not finite.

    >>> pearson(np.array([[1, 2, 3], [2, 4, 6], [3, 2, 1], [5, 5, 5]])).tolist()
    [[1.0, 1.0, -1.0, 0.0], [1.0, 1.0, -1.0, 0.0], [-1.0, -1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.shape[1] < 1 or rows.dtype.kind not in "iufb":
        raise InputError.at("rows", rows.shape, "must be numbers of shape (series, bins) with at least one bin")
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise InputError.at("rows", "nan or inf", "must be finite")
    if rows.shape[0] == 0:
        return np.zeros((0, 0))
    covariance = _exact_covariance(rows) if rows.dtype.kind in "iub" else None
    return _scaled(_float_covariance(rows) if covariance is None else covariance)


def _exact_covariance(rows: Array) -> FloatArray | None:
    """Return bins^2 times the covariance from whole numbers, or None where they would not fit."""
    bins = rows.shape[1]
    largest = int(max(abs(int(rows.min())), abs(int(rows.max()))))
    # Both products and their differences have to be exact, or the sums would depend on their order.
    if largest * largest * bins >= _EXACT_FLOAT or 2 * (largest * bins) ** 2 >= _EXACT_INT:
        return None
    # As floats, since matrix products of floats use BLAS; threads may sum in any order, as no sum is rounded.
    values = rows.astype(np.float64)
    products = (values @ values.T).astype(np.int64)  # exact: every partial sum stays below 2^53
    sums = rows.sum(axis=1, dtype=np.int64)
    exact: FloatArray = (bins * products - np.outer(sums, sums)).astype(np.float64)
    return exact


def _float_covariance(rows: Array) -> FloatArray:
    """Return a multiple of the covariance of series (n, bins), each scaled to at most 1 in magnitude."""
    values = rows.astype(np.float64)
    constant = values.max(axis=1) == values.min(axis=1)
    scale = np.abs(values).max(axis=1, keepdims=True)
    values = values / np.where(scale > 0, scale, 1.0)  # so that no square overflows
    centred = values - values.mean(axis=1, keepdims=True)
    centred[constant] = 0.0
    covariance: FloatArray = centred @ centred.T
    return (covariance + covariance.T) / 2


def _scaled(covariance: FloatArray) -> FloatArray:
    """Return the correlation matrix of a covariance matrix (n, n); rows of constant series are 0."""
    deviation = np.sqrt(np.diag(covariance))
    varies = deviation > 0
    divisor = np.where(varies, deviation, 1.0)
    result = covariance / divisor[:, None] / divisor[None, :]
    # One division after the other rounds differently on either side of the diagonal.
    result = np.clip((result + result.T) / 2, -1.0, 1.0)
    result[~varies, :] = 0.0
    result[:, ~varies] = 0.0
    np.fill_diagonal(result, varies.astype(np.float64))
    return result
