"""Files of `holdfast fleet`: every fault with its path, and numbers as the file means them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fleet_systems import tables

from models.errors import InputError
from models.fleet.rules import fleet_from
from models.fleet.system import Renewal, system_of

GOOD: dict[str, Any] = {
    "hosts": ["a", "b", "c"],
    "times": {"mttf": "30 d", "mttr": "1 d"},
    "operators": {"x": ["a", "b"], "y": {"hosts": ["b"], "cost": {"in": "2 ms"}, "load": 0.5}},
    "queries": {"q": ["x", "y"], "r": {"operators": ["x"], "weight": 2.0}},
    "sources": {"in": {"rate": "100 /s"}},
}
LAW = {"distribution": "exponential", "mean": "1 d"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hosts": []}, "hosts"),
        ({"hosts": ["a", "b", "b", "c"]}, "hosts[2] = b: is there twice"),
        ({"hosts": {"a": {"spare": True}}, "operators": {"x": {}}, "queries": {"q": ["x"]}}, "must not all be spare"),
        ({"hosts": {"a": {"capacity": 0.0}}}, "hosts.a.capacity = 0.0: must be more than 0"),
        ({"hosts": {"a": {"mttf": "1 d"}, "b": {}, "c": {}}}, "hosts.a: must have both mttf and mttr, or neither"),
        ({"operators": {"x": ["a", "a"]}, "queries": {"q": ["x"]}}, "operators.x[1] = a: has an instance"),
        ({"operators": {"x": ["a", "z"]}, "queries": {"q": ["x"]}}, "operators.x[1] = z: is not a host"),
        ({"operators": {"x": {"hosts": []}}, "queries": {"q": ["x"]}}, "operators.x: needs hosts"),
        ({"operators": {"x": {"hosts": ["a"], "cost": {"im": "1 s"}}}, "queries": {"q": ["x"]}}, "is not a source"),
        ({"queries": {}}, "queries: must have an entry at least"),
        ({"queries": {"q": []}}, "queries.q"),
        ({"queries": {"q": {}}}, "queries.q.operators: must have an entry at least"),
        ({"queries": {"q": ["z"]}}, "queries.q[0] = z: is not an operator"),
        ({"queries": {"q": {"operators": ["x"], "slo": 1.5}}}, "queries.q.slo = 1.5: must be at most 1"),
        ({"queries": {"q": {"operators": ["x"], "arrives": "3 d", "leaves": "2 d"}}}, "must be after it arrives"),
        ({"queries": {"q": {"operators": ["x"], "arrives": "366 d"}}}, "must be before the end"),
        ({"p": 1.5}, "p = 1.5: must be at most 1"),
        ({"p": 0.1}, "p = 0.1: must not be given beside times.mttf"),
        ({"times": {}}, "times.mttf: is missing"),
        ({"times": {"mttf": "1 d"}}, "times.mttr: is missing"),
        ({"times": {"mttf": "1 d", "mttr": "1 h", "up": LAW}}, "times.mttf = 86400.0: must not be given"),
        ({"times": {"mttf": "1 d", "mttr": "1 h", "day": "1 d"}}, "times.mttr: must not be given beside times.day"),
        ({"times": {"mttf": "1 d", "day": "1 d"}, "beta": 0.1}, "times.day"),
        ({"domains": {"r": {"hosts": ["a"], "mttf": "1 d"}}}, "domains.r: must have both mttf and mttr, or neither"),
        ({"domains": {"r": {"hosts": ["a", "d"], "p": 0.1}}}, "domains.r.hosts[1] = d: is not a host"),
        ({"beta": 0.1, "domains": {"r": {"hosts": ["a"]}, "s": {"hosts": ["a"]}}}, "needs domains that share no host"),
        ({"warmup": "365 d"}, "must be shorter than duration"),
        ({"manager": {"budget": -1.0}}, "manager.budget = -1.0: must be at least 0"),
        ({"manager": {"low": 0.9, "high": 0.5}}, "manager.low = 0.9: must be below manager.high = 0.5"),
        ({"manager": {"importance": "gane"}}, "manager.importance = gane: must be"),
        ({"sources": {"in": {"rate": "1 /s", "steps": [{"at": "2 d", "rate": "1 /s"}, {"at": "1 d", "rate": "2 /s"}]}}},
         "sources.in.steps: must be in the order of their instants"),
        ({"downtimes": [{"host": "z", "down": "1 d", "up": "2 d"}]}, "downtimes[0].host = z: is not a host"),
        ({"downtimes": [{"host": "a", "down": "3 d", "up": "2 d"}]}, "downtimes[0].up = 172800.0: must be after"),
        ({"downtimes": [{"host": "a", "down": "1 d", "up": "3 d"}, {"host": "a", "down": "2 d", "up": "4 d"}]},
         "downtimes[1] = a: was down already, by downtimes[0]"),
        ({"times": {"mttf": "1 s", "mttr": "1 s"}},
         "times: makes about 47,000,000 events in all replications: at most 20,000,000"),
        ({"manager": {"period": "1 s"}}, "manager.period: makes about 32,000,000 events"),
        ({"churn": {"stay": "1 s", "away": "1 s"}}, "churn: makes about 32,000,000 events"),
        ({"replications": 10**6}, "times: makes about 35,000,000 events in all replications"),
        ({"query_set": "queries.toml"}, "query_set = queries.toml: is a file"),
        ({"duraton": "1 d"}, "duraton: unknown key (did you mean duration?)"),
    ],
)  # fmt: skip
def test_bad_input_names_path_value_and_rule(changes: dict[str, Any], says: str) -> None:
    assert system_of(fleet_from(GOOD)).queries == ("q", "r")
    with pytest.raises(InputError) as error:
        fleet_from({**GOOD, **changes})
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"times": {"up": LAW, "down": LAW, "crews": 1}}, "crews are solved for exponential times"),
        ({"times": {"mttf": "9 d", "down": LAW}, "standby": {}}, "take-overs are solved for exponential repairs"),
        ({"times": {}, "downtimes": [{"host": "h0", "down": "1 d", "up": "2 d"}]}, "nothing says how often"),
        ({"times": {"mttf": "9 d", "mttr": "1 d", "crews": 1}, "beta": 0.5}, "is solved for equal hosts"),
    ],
)
def test_an_slo_that_nothing_exact_can_judge_is_refused(changes: dict[str, Any], says: str) -> None:
    given = tables(3, 2, **changes)
    assert system_of(fleet_from(given)).unavailability is None
    given["queries"] = {"q": {"operators": ["o0"], "slo": 0.5}}
    with pytest.raises(InputError, match=r"queries\.q\.slo = 0\.5: cannot be judged: ") as error:
        system_of(fleet_from(given))
    assert says in str(error.value)


def test_loads_are_linear_in_the_rates() -> None:
    system = system_of(fleet_from(GOOD))
    assert (system.base + system.costs @ np.array([100.0])).tolist() == [0.0, 0.7]
    assert system.weights.tolist() == [1.0, 2.0]
    assert system.placed == ((0, 1), (1,))


def test_an_element_is_down_for_the_share_that_the_file_says() -> None:
    given = tables(3, 2, p=0.2, times={"mttr": "1 d"}, domains={"r": {"hosts": ["h0"], "p": 0.5}})
    system = system_of(fleet_from(given))

    def share(law: Renewal) -> float:
        assert law.up is not None and law.down is not None
        return law.down.mean_s / (law.up.mean_s + law.down.mean_s)

    assert [round(share(law), 12) for law in (*system.own, *system.shocks)] == [0.2, 0.2, 0.2, 0.5]
