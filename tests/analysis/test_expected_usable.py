"""Expected usable checkpoints. Oracles: futures judged one by one in plain Python, and cases that are plain to see."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.usable import Cluster, _futures, chances, expected_allocation
from models.errors import InputError
from optimizer.checkpoint_allocation import solve
from optimizer.checkpoint_allocation.ties import level_ties


def common_mode(groups: int, nodes: int, windows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Loads that rise and fall together, on nodes in turn."""
    rng = np.random.default_rng(seed)
    level = 1 + 0.3 * rng.standard_normal(windows)
    load = np.abs(rng.uniform(0.05, 0.2, groups)[:, None] * level + 0.01 * rng.standard_normal((groups, windows)))
    return load, np.arange(groups) % nodes


@pytest.mark.parametrize("seed", range(5))
def test_chances_count_futures_one_by_one(seed: int) -> None:
    load, host = common_mode(12, 4, 30, seed)
    speed, outside = np.array([1.0, 0.5, 2.0, 1.0]), np.array([0.0, 0.1, 0.2, 0.0])
    need, usable = chances(load, Cluster(host, speed, outside, 0.8), np.random.default_rng(seed), 40)
    made = _futures(load, Cluster(host, speed, outside, 0.8), np.random.default_rng(seed), 40)
    for group in range(12):
        counted, fits = 0, [0] * 4
        for future in made.T.tolist():
            share = [
                outside[node] + sum(future[g] for g in range(12) if host[g] == node) / speed[node] for node in range(4)
            ]
            over = share[host[group]] > 0.8
            counted += over
            for node in range(4):
                fits[node] += over and node != host[group] and share[node] + future[group] / speed[node] <= 0.8
        assert need[group] == counted
        assert usable[group].tolist() == fits


def test_futures_go_from_below_the_first_overload_to_beyond_the_last() -> None:
    load, host = common_mode(8, 4, 50, 1)
    made = _futures(load, Cluster(host, np.ones(4), np.zeros(4), 0.5), np.random.default_rng(0), 100)
    share = np.array([np.bincount(host, weights=future, minlength=4) for future in made.T])
    over = (share > 0.5).sum(axis=1)
    assert over[:5].max() <= 2
    assert over[-5:].min() >= 3
    assert (made >= 0).all()


@pytest.mark.parametrize("taken", [0.5, 0.9, 0.99])
def test_a_host_that_others_overload_does_not_let_the_total_fall_below_what_was_measured(taken: float) -> None:
    load, host = common_mode(9, 3, 60, 4)
    total = load.sum(axis=0)
    small = 0.02 + 0.002 * (total - total.mean())  # follows the total a little: its host would need a huge step
    load, host = np.vstack([load, small]), np.append(host, 3)
    made = _futures(load, Cluster(host, np.ones(4), np.array([0, 0, 0, taken]), 0.8), np.random.default_rng(0), 200)
    assert made.sum(axis=0).min() >= 0.9 * load.sum(axis=0).min()
    assert (made[:9].sum(axis=0) > 0).all()


def test_a_checkpoint_goes_where_there_is_room_when_all_others_rise_together() -> None:
    load, host = common_mode(20, 4, 60, 2)
    load, host = np.vstack([load, np.full((2, 60), 0.01)]), np.concatenate([host, [4, 4]])  # node 4 is idle
    problem = expected_allocation(load, host, speed=np.ones(5), outside=np.zeros(5), theta=0.8)
    plan = solve(problem, method="exact")
    assert plan.status == "optimal"
    assert plan.assignment is not None
    assert set(plan.assignment[:20].tolist()) == {4}


def test_other_load_that_fills_a_host_keeps_checkpoints_away() -> None:
    load, host = common_mode(20, 4, 60, 3)
    load, host = np.vstack([load, np.full((4, 60), 0.01)]), np.concatenate([host, [4, 4, 5, 5]])
    outside = np.array([0, 0, 0, 0, 0.75, 0.0])
    problem = expected_allocation(load, host, speed=np.ones(6), outside=outside, theta=0.8)
    plan = solve(problem, method="exact")
    assert plan.assignment is not None
    assert set(plan.assignment[:20].tolist()) == {5}


def test_nodes_that_are_equally_good_cost_the_same_and_share_the_load() -> None:
    load, host = common_mode(24, 4, 60, 4)
    load, host = np.vstack([load, np.full((4, 60), 1e-6)]), np.concatenate([host, [4, 5, 6, 7]])
    problem = expected_allocation(load, host, speed=np.ones(8), outside=np.zeros(8), theta=0.8)
    plan = solve(problem, method="exact")
    assert plan.assignment is not None
    leveled = level_ties(problem, plan.assignment)
    assert problem.objective(leveled) == plan.objective
    held = problem.node_loads(leveled)
    assert held[4:].max() < 1.3 * held[4:].min()
    assert problem.node_loads(plan.assignment).max() > 2 * held.max()


@pytest.mark.parametrize("total", ["constant", "zero"])
def test_loads_without_any_movement_are_no_fault(total: str) -> None:
    load = np.full((4, 5), 0.3 if total == "constant" else 0.0)
    problem = expected_allocation(load, [0, 0, 1, 1], speed=[1, 1, 1], outside=[0, 0, 0], theta=0.85)
    assert np.isfinite(problem.cost).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"theta": 0}, "theta = 0: must be positive"),
        ({"futures": 0}, "futures = 0: must be at least 1"),
        ({"speed": [1, 0]}, "speed = 0.0: must be positive"),
        ({"outside": [0]}, "outside"),
        ({"host": [0, 2]}, "host"),
        ({"load": [[1.0], [1.0]]}, "at least two windows"),
        ({"load": [[1.0, -1.0], [1.0, 1.0]]}, "load"),
    ],
)
def test_bad_input_is_said(changed: dict[str, object], message: str) -> None:
    given: dict[str, object] = {
        "load": [[0.1, 0.2], [0.2, 0.3]],
        "host": [0, 1],
        "speed": [1, 1],
        "outside": [0, 0],
        "theta": 0.8,
    }
    with pytest.raises(InputError, match=message):
        expected_allocation(**(given | changed))  # type: ignore[arg-type]
