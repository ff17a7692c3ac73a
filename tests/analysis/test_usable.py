"""Usable checkpoints and assisted moves against a slow reference written from the definition, by equality."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.usable import usable_shares
from models.errors import InputError


def slow_window(
    load: list[float],
    host: list[int],
    cp: list[int],
    *,
    outside: list[float],
    speed: list[float],
    theta: float,
    most: int,
) -> tuple[int, int, int, int, int]:
    nodes = range(len(speed))
    util = [outside[n] + sum((load[g] for g in range(len(load)) if host[g] == n), 0.0) / speed[n] for n in nodes]
    risk = [g for g in range(len(load)) if util[host[g]] > theta]
    usable = [g for g in risk if cp[g] >= 0 and util[cp[g]] + load[g] / speed[cp[g]] <= theta]
    assisted = direct = stuck = 0
    moved: set[int] = set()
    for n in sorted((n for n in nodes if util[n] > theta), key=lambda n: (-util[n], n)):
        for _ in range(most):
            if util[n] <= theta:
                break
            excess = (util[n] - theta) * speed[n]
            here = [g for g in range(len(load)) if host[g] == n and g not in moved]
            enough = sorted((g for g in here if load[g] >= excess), key=lambda g: (load[g], g))
            rest = sorted((g for g in here if load[g] < excess), key=lambda g: (-load[g], g))
            least = min(nodes, key=lambda n: (util[n], n))
            chosen = None
            for g in enough + rest:
                if cp[g] >= 0 and util[cp[g]] + load[g] / speed[cp[g]] <= theta:
                    chosen = g, cp[g]
                elif least != n and util[least] + load[g] / speed[least] <= theta:
                    chosen = g, least
                if chosen:
                    break
            if not chosen:
                stuck += 1
                break
            g, target = chosen
            assisted, direct = assisted + (target == cp[g]), direct + (target != cp[g])
            util[n] -= load[g] / speed[n]
            util[target] += load[g] / speed[target]
            moved.add(g)
    return len(risk), len(usable), assisted, direct, stuck


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_slow_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, nodes, windows = rng.integers(1, 25), rng.integers(2, 7), 12
    load = rng.gamma(1.0, 0.9 * nodes / groups, (groups, windows)).round(int(rng.integers(1, 9)))
    host = rng.integers(0, nodes, groups)
    cp = (host + rng.integers(1, nodes, groups)) % nodes
    cp[rng.random(groups) < 0.1] = -1
    outside = rng.choice([0.0, 0.1, 0.4], nodes)
    speed = rng.choice([1.0, 0.7, 1.3], nodes)
    most = int(rng.integers(1, 5))
    found = usable_shares(load, host, cp, outside=outside, speed=speed, theta=0.85, moves_per_node=most)
    for window in range(windows):
        expected = slow_window(
            load[:, window].tolist(), host.tolist(), cp.tolist(), outside=outside.tolist(),
            speed=speed.tolist(), theta=0.85, most=most,
        )  # fmt: skip
        columns = (found.at_risk, found.usable, found.assisted, found.direct, found.stuck)
        assert tuple(int(column[window]) for column in columns) == expected
    assert found.at_risk.sum() > 0 or groups < 3


def test_averages_weigh_windows_by_their_groups_at_risk() -> None:
    # Node 0 is over in both windows; group 0's checkpoint has room, group 1's node is full in the second.
    load = [[0.5, 0.5], [0.5, 0.6], [0.1, 0.8], [0.1, 0.1]]
    found = usable_shares(load, [0, 0, 1, 2], [2, 1, 0, 0], outside=[0, 0, 0], speed=[1, 1, 1], theta=0.85)
    assert found.at_risk.tolist() == [2, 2]
    assert found.usable.tolist() == [2, 1]
    assert found.usable_share == 0.75


def test_nothing_overloaded_has_no_share() -> None:
    found = usable_shares([[0.1]], [0], [1], outside=[0, 0], speed=[1, 1])
    assert (found.usable_share, found.assisted_share) == (None, None)


def test_anti_correlated_example_gives_all_half_and_none() -> None:
    """An exact case: theta equals the outside load, so only node 1 has room."""
    outside, speed = [0.7, 0.0, 0.7], [1.0, 1.0, 1.0]
    load = np.concatenate([np.full((10, 1), 0.01), np.full((10, 1), 0.03)])
    host = np.repeat([1, 2], 10)
    for where, share in (([1] * 10, 1.0), ([0, 1] * 5, 0.5), ([0] * 10, 0.0)):
        found = usable_shares(load, host, [0] * 10 + where, outside=outside, speed=speed, theta=0.7)
        assert found.usable_share == share


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"load": [[-1.0], [0.0]]}, "load"),
        ({"load": [[float("nan")], [0.0]]}, "load"),
        ({"host": [0, 5]}, "host"),
        ({"checkpoint_host": [0, 0]}, r"checkpoint_host\[0\]"),
        ({"checkpoint_host": [7, 0]}, "checkpoint_host"),
        ({"checkpoint_host": [1]}, "checkpoint_host"),
        ({"outside": [0.0]}, "outside"),
        ({"speed": [0.0, 1.0]}, "speed"),
        ({"theta": 0.0}, "theta"),
        ({"moves_per_node": -1}, "moves_per_node"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], path: str) -> None:
    good: dict[str, Any] = {
        "load": [[0.5], [0.5]], "host": [0, 1], "checkpoint_host": [1, 0], "outside": [0.0, 0.0],
        "speed": [1.0, 1.0], "theta": 0.85, "moves_per_node": 4,
    }  # fmt: skip
    with pytest.raises(InputError, match=path):
        usable_shares(**{**good, **change})
