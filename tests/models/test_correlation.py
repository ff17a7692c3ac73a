"""Pearson correlation of series against numpy's and against a slow loop."""

import math

import numpy as np
import pytest

from models.correlation import pearson
from models.errors import InputError


def slow_pearson(rows: list[list[float]]) -> list[list[float]]:
    """The textbook formula, pair by pair; 0 where a series is constant."""

    def one(x: list[float], y: list[float]) -> float:
        mx, my = math.fsum(x) / len(x), math.fsum(y) / len(y)
        dx, dy = [v - mx for v in x], [v - my for v in y]
        if len(set(x)) == 1 or len(set(y)) == 1:
            return 0.0
        top = math.fsum(a * b for a, b in zip(dx, dy, strict=True))
        return top / math.sqrt(math.fsum(a * a for a in dx) * math.fsum(b * b for b in dy))

    return [[one(x, y) for y in rows] for x in rows]


@pytest.mark.parametrize("kind", ["counts", "huge counts", "floats", "tiny floats"])
def test_equals_numpy_and_the_slow_loop(kind: str) -> None:
    rng = np.random.default_rng(5)
    rows = {
        "counts": rng.poisson(4, (12, 200)),
        "huge counts": rng.integers(0, 2**40, (12, 200)),
        "floats": rng.normal(3, 1, (12, 200)),
        "tiny floats": rng.normal(3, 1, (12, 200)) * 1e-200,
    }[kind]
    found = pearson(rows)
    scaled = rows / rows.max()
    assert np.allclose(found, np.corrcoef(scaled), rtol=0, atol=1e-12)
    assert np.allclose(found, slow_pearson(scaled.tolist()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_constant_series_have_zero_everywhere_and_others_one_on_the_diagonal(dtype: type) -> None:
    rows = np.array([[3, 3, 3], [0, 0, 0], [1, 2, 3], [3, 2, 1]], dtype=dtype)
    expected = [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]]
    assert pearson(rows).tolist() == expected


def test_a_constant_float_that_no_binary_fraction_hits_is_still_constant() -> None:
    assert pearson(np.array([[0.1] * 7, [1, 2, 3, 4, 5, 6, 7.0]]))[0].tolist() == [0.0, 0.0]


def test_matrix_is_exactly_symmetric_and_bounded() -> None:
    found = pearson(np.random.default_rng(1).normal(size=(40, 5)))
    assert np.array_equal(found, found.T)
    assert np.abs(found).max() == 1.0


def test_counts_give_the_same_bits_in_any_order_of_the_bins() -> None:
    rng = np.random.default_rng(2)
    rows = rng.poisson(2, (20, 999))
    assert np.array_equal(pearson(rows), pearson(rows[:, rng.permutation(999)]))


def test_no_series_give_an_empty_matrix() -> None:
    assert pearson(np.zeros((0, 4))).shape == (0, 0)


@pytest.mark.parametrize("rows", [np.zeros(3), np.zeros((2, 0)), np.array([[1.0, np.nan]]), np.array([["a"]])])
def test_what_is_no_table_of_finite_numbers_is_refused(rows: np.ndarray) -> None:
    with pytest.raises(InputError, match="rows"):
        pearson(rows)
