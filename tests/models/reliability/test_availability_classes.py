"""Hosts of several kinds that share crews: against the chains of equal hosts and of all sets of hosts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from models.errors import InputError
from models.reliability.description import availability_from
from models.reliability.repair import class_law, down_law, stationary
from scenarios.reliability.availability import answer

TIMES = {"mttf": "20 h", "mttr": "2 h", "crews": 1}
MIXED: dict[str, Any] = {
    "hosts": {"a": {}, "b": {"mttf": "5 h", "mttr": "4 h"}, "c": {}, "d": {"mttf": "5 h", "mttr": "4 h"}},
    "operators": {"x": ["a", "b"], "y": ["b", "d"], "z": ["c"]},
    "queries": {"q": ["x", "y"], "r": ["z", "y"]},
    "times": TIMES,
}


def by_all_states(raw: dict[str, Any], crews: int) -> list[float]:
    """P(broken) of each query, and of some, by the chain on every set of failed hosts."""
    hosts = list(raw["hosts"])
    times = [(5.0, 4.0) if raw["hosts"][name] else (20.0, 2.0) for name in hosts]
    states = sorted(itertools.product((0, 1), repeat=len(hosts)), key=lambda state: (sum(state), state))
    place = {state: index for index, state in enumerate(states)}
    rates = {}
    for state in states:
        failed = sum(state)
        for k, (up, repair) in enumerate(times):
            other = (*state[:k], 1 - state[k], *state[k + 1 :])
            rates[place[state], place[other]] = min(1, crews / failed) / repair if state[k] else 1 / up
    law = stationary(len(states), rates)
    found = np.zeros(len(raw["queries"]) + 1)
    for state, index in place.items():
        down = {name for name, one in zip(hosts, state, strict=True) if one}
        broken = [
            any(set(raw["operators"][operator]) <= down for operator in needed) for needed in raw["queries"].values()
        ]
        found += law[index] * np.array([*broken, any(broken)])
    return found.tolist()


@pytest.mark.parametrize("crews", [1, 2, 4])
def test_classes_of_hosts_equal_the_chain_of_all_sets_of_hosts(crews: int) -> None:
    line = answer(availability_from({**MIXED, "times": {**TIMES, "crews": crews}})).lines[0]
    assert line.some is not None
    assert [*(one.value for one in line.queries), line.some.value] == pytest.approx(
        by_all_states(MIXED, crews), rel=1e-12
    )


def test_a_crew_for_each_host_is_independence() -> None:
    raw = {**MIXED, "times": {**TIMES, "crews": 4}}
    free = {**MIXED, "times": {"mttf": "20 h", "mttr": "2 h"}}
    one, other = (
        answer(availability_from(description), method="exact").lines[0].mean.value for description in (raw, free)
    )
    assert one == pytest.approx(other, rel=1e-12)


def test_classes_with_equal_times_are_one_kind_of_host() -> None:
    law = class_law((3, 2), (50.0, 50.0), (4.0, 4.0), 2)
    together = [sum(law[k, n - k] for k in range(4) if 0 <= n - k <= 2) for n in range(6)]
    assert together == pytest.approx(down_law(5, 50.0, 4.0, 2), rel=1e-12)


def test_too_many_states_are_refused() -> None:
    with pytest.raises(InputError, match="make 10201 states of hosts with times of their own, 2500 at most"):
        class_law((100, 100), (1.0, 1.0), (1.0, 1.0), 3)


@pytest.mark.parametrize(
    "change",
    [{"hosts": {"a": {"p": 0.1}, "b": {}, "c": {}, "d": {}}}, {"domains": {"r": {"hosts": ["a"]}}},
     {"upgrades": {"every": "1 d", "lasts": "1 h"}}],
)  # fmt: skip
def test_other_differences_between_hosts_are_refused_beside_crews(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is solved for equal hosts"):
        availability_from({**MIXED, **change})
