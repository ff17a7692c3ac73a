"""Named designs: sets of values at dotted paths, of which a scenario takes one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from models.errors import InputError
from models.scenario.reading import design_points, raw_of, scenario_from, scenario_with, scenario_with_settings

JOB: dict[str, Any] = {
    "duration": "10 s",
    "workload": {"src": {"rate": "5 /s"}},
    "operators": {
        "src": {"kind": "source"},
        "map": {
            "kind": "map",
            "inputs": {"src": "shuffle"},
            "service": {"distribution": "deterministic", "value": "1 ms"},
        },
        "out": {"kind": "sink", "inputs": {"map": "shuffle"}},
    },
    "hosts": {"h": {"count": 2}},
    "designs": {
        "as-it-is": {},
        "wide": {"operators.map.parallelism": 2, "hosts.h.count": 3},
        "other": {"operators.map.service": {"distribution": "exponential", "mean": "2 ms"}, "network.latency": "1 ms"},
    },
}


def job(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(JOB) | changes


def test_a_design_puts_its_values_in_place_of_others() -> None:
    scenario = scenario_from(job(design="wide"))
    assert (scenario.operators["map"].parallelism, scenario.hosts["h"].count) == (2, 3)
    assert scenario.network.latency_s == scenario_from(job()).network.latency_s


def test_without_a_choice_no_design_counts() -> None:
    without = job()
    del without["designs"]
    plain, base = scenario_from(job()), scenario_from(without)
    assert plain.operators == base.operators
    assert plain.hosts == base.hosts


def test_what_was_chosen_is_read_again_as_the_same() -> None:
    scenario = scenario_from(job(design="other"))
    assert scenario_from(raw_of(scenario)) == scenario
    with pytest.raises(InputError, match="design = wide: is no design of this scenario"):
        # Its values would come on top of those of the other one.
        scenario_with(scenario, {"design": "wide"})


def test_a_sweep_of_designs_tries_each_from_the_same_start() -> None:
    swept = scenario_from(job(sweep={"design": ["wide", "other", "as-it-is"], "network.sharing": ["fifo", "fair"]}))
    found = [point.of(swept) for point in design_points(swept)]
    assert [one.operators["map"].parallelism for one in found] == [2, 2, 1, 1, 1, 1]
    assert [one.hosts["h"].count for one in found] == [3, 3, 2, 2, 2, 2]
    assert [one.network.sharing for one in found] == ["fifo", "fair"] * 3


def test_a_choice_leaves_the_other_designs_of_the_sweep_out() -> None:
    scenario = scenario_from(job(design="wide", sweep={"design": ["wide", "other"], "network.sharing": ["fifo"]}))
    assert [*scenario.sweep] == ["network.sharing"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"design": "wid"}, "design = wid: is no design of this scenario (did you mean wide?)"),
        ({"design": "wide", "designs": {}}, "design = wide: is no design: there is no table designs"),
        ({"design": "a", "designs": {"a": {"network.latenc": "1 s"}}}, "network.latenc: no such key"),
        (
            {"design": "a", "designs": {"a": {"": "1 s"}}},
            'designs.a."": no such key (a key has a name, as in duration)',
        ),
        ({"design": "a", "designs": {"a": {"network.latency": 1}}}, "network.latency = 1"),
        ({"design": "a", "designs": {"a": {"seed": 4}}}, "designs.a.seed: is the same for all designs"),
        (
            {
                "sweep": {"design": ["a"], "network.latency": ["1 ms"]},
                "designs": {"a": {"network": {"latency": "2 ms"}}},
            },
            "is varied by sweep, too: network.latency",
        ),
        ({"sweep": {"design": ["wide", "narrow"]}}, "narrow"),
        ({"designs": {"a": 4}}, "designs.a = 4"),
        ({"design": 4}, "design = 4"),
    ],
)
def test_a_design_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(job(**changes))
    assert words in str(caught.value)


@pytest.mark.parametrize("path", ["hosts.h.count", "hosts.h", "operators.map.parallelism"])
def test_a_change_of_what_the_chosen_design_sets_is_refused_and_not_dropped(path: str) -> None:
    words = r"is set by the design wide, too: .* \(change designs\.wide"
    with pytest.raises(InputError, match=words):
        scenario_with_settings(job(), {"design": "wide", path: "{}" if path == "hosts.h" else "5"})
    with pytest.raises(InputError, match=words):
        scenario_with(scenario_from(job(design="wide")), {path: {} if path == "hosts.h" else 5})


def test_a_setting_can_change_a_design_and_what_it_leaves() -> None:
    settings = {"design": "wide", 'designs.wide."hosts.h.count"': "7", "network.latency": "2 ms"}
    scenario = scenario_with_settings(job(), settings)
    assert (scenario.hosts["h"].count, scenario.network.latency_s) == (7, 2e-3)
    assert scenario_with_settings(job(), {"design": "as-it-is", "hosts.h.count": "5"}).hosts["h"].count == 5
