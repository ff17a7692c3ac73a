"""Costs from correlations: mean of pairs, ties and noise as defined."""

import math

import numpy as np
import pytest

from models.errors import InputError
from models.planning.checkpoint_allocation import allocation_from_correlation, node_correlation

R = np.array([[1.0, -0.5, 0.1], [-0.5, 1.0, 0.3], [0.1, 0.3, 1.0]])


def test_the_mean_of_pairs_equals_a_slow_double_loop():
    random = np.random.default_rng(1)
    r = np.corrcoef(random.normal(size=(12, 30)))
    host = random.integers(0, 5, 12)
    slow = np.zeros((12, 6))
    for j in range(12):
        for n in range(6):
            there = [h for h in range(12) if host[h] == n]
            slow[j, n] = sum(r[j, h] for h in there) / len(there) if there else 0.0
    np.testing.assert_allclose(node_correlation(r, host, 6), slow, rtol=0, atol=1e-15)


def test_an_empty_node_has_correlation_zero():
    assert node_correlation(R, [0, 1, 1], 3)[:, 2].tolist() == [0, 0, 0]


def test_small_correlations_count_as_zero_on_request():
    assert node_correlation(R, [0, 1, 2], 3, zero_below=0.2)[0].tolist() == [1, -0.5, 0]


def test_a_tie_band_makes_near_best_nodes_equal_to_the_best_away_from_home():
    rho = node_correlation(R, [0, 1, 2], 3, tie_band=0.65)
    assert rho[0].tolist() == [1.0, -0.5, -0.5]
    assert rho[2].tolist() == [0.1, 0.1, 1.0]


def test_the_home_node_is_forbidden_and_copies_have_anti_affinity():
    problem = allocation_from_correlation(R, np.array([2.0, 1.0, 1.0]), [0, 1, 2], 3, copies=2, kappa=0.5)
    assert problem.n_checkpoints == 6
    assert problem.forbidden.tolist() == [[0, 0], [1, 0], [2, 1], [3, 1], [4, 2], [5, 2]]
    assert problem.anti_affinity.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert problem.capacity.tolist() == [1.5 * 8 / 3] * 3
    assert problem.cost[0].tolist() == [2.0, -1.0, 0.2]
    assert allocation_from_correlation(R, np.ones(3), [0, 1, 2], 3).capacity is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kappa": -1}, "kappa = -1"), ({"copies": 0}, "copies = 0"), ({"host": [0, 1, 3]}, "host[2] = 3"),
        ({"correlation": R[:2]}, "must be square"), ({"correlation": R * 2}, "between -1 and 1"),
        ({"tie_band": math.nan}, "tie_band"), ({"load": np.array([1.0, np.nan, 1.0])}, "load[1]"),
    ],
)  # fmt: skip
def test_bad_input_is_named(changes, message):
    given = {"correlation": R, "load": np.ones(3), "host": [0, 1, 2], "n_nodes": 3, **changes}
    if "correlation" in changes and len(changes["correlation"]) == 2:
        given["load"], given["host"] = np.ones(2), [0, 1]
    with pytest.raises(InputError) as caught:
        allocation_from_correlation(**given)
    assert message in str(caught.value)
