"""Shared cores against closed forms on the compiled plane (`closed_forms` says how long, and when they agree).

Oracles: Cobham's priority queue, processor sharing (which does not see the law of the service), M/M/1 at another speed.
"""

from __future__ import annotations

from typing import Any

import pytest
from closed_forms import EXPONENTIAL, LENGTHS, MILLION, REPLICATIONS, inside
from queueing_formulas import mg1_priority, mm1
from small_jobs import queue, scenario
from summaries import document_of as summarise

from models.scenario.scenario import Scenario
from models.steady_state.queueing import SteadyState, processor_sharing_s
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane

TUPLES = MILLION // REPLICATIONS  # in each
MANY = 10_000  # threads

Means = dict[str, dict[str, float]]


def seen(made: Scenario, replication: int) -> Means:
    """Means of each operator in one replication: wait and sojourn [s], queue, utilisation."""
    operators = summarise(made, [simulate(made, replication=replication, plane=CompiledPlane)])["operators"]
    return {
        name: {
            "wait_s": one["wait_s"]["mean"],
            "sojourn_s": one["sojourn_s"]["mean"],
            "queue": one["queue_mean"],
            "utilisation": one["utilisation"],
        }
        for name, one in operators.items()
    }


@pytest.fixture(params=LENGTHS)
def millions(request: pytest.FixtureRequest) -> float:
    """How many million tuples arrive."""
    found: float = request.param
    return found


def agrees(millions: float, made: Scenario, expected: Means, width: float = 0.1) -> None:
    """Each expected mean lies in the interval of the replications of the scenario, made so many times longer."""
    longer = made.model_copy(update={"duration_s": made.warmup_s + millions * (made.duration_s - made.warmup_s)})
    runs = [seen(longer, replication) for replication in range(REPLICATIONS)]
    for name, means in expected.items():
        for what, exact in means.items():
            inside([run[name][what] for run in runs], exact, width / max(1, millions) ** 0.5, f"{name}.{what}")


def window(rate: float, tuples: int = TUPLES, **changed: Any) -> dict[str, Any]:
    """Keys of a run of about so many tuples after a warm-up."""
    return {
        "duration": f"{20 + round(tuples / rate)} s",
        "warmup": "20 s",
        "workload": {"src": {"rate": f"{rate} /s"}},
        **changed,
    }


def shared_evenly(law: dict[str, Any], rate: float, cores: int = 1, **changed: Any) -> Scenario:
    hosts = {"h": {"cpu": "processor-sharing", "cores": cores}}
    return queue(law, q={"threads": MANY}, **window(rate, hosts=hosts, **changed))


def of(state: SteadyState) -> dict[str, float]:
    return {"wait_s": state.wait_s, "queue": state.queue, "utilisation": state.utilisation}


LAWS: dict[str, dict[str, Any]] = {
    "exponential": EXPONENTIAL,
    "deterministic": {"distribution": "deterministic", "value": "10 ms"},
    "lognormal": {"distribution": "lognormal", "mean": "10 ms", "cv": 2.0},
    "gamma": {"distribution": "gamma", "mean": "10 ms", "shape": 0.3},
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_processor_sharing_does_not_see_the_law_of_the_service(millions: float, law: dict[str, Any]) -> None:
    expected = {"sojourn_s": processor_sharing_s(65, 0.01), "utilisation": 0.65}
    agrees(millions, shared_evenly(law, 65), {"q": expected})


def test_processor_sharing_on_three_cores(millions: float) -> None:
    expected = {"sojourn_s": processor_sharing_s(220, 0.01, 3), "utilisation": 2.2 / 3}
    agrees(millions, shared_evenly(LAWS["gamma"], 220, 3), {"q": expected})


def test_processor_sharing_takes_each_operator_in_proportion_to_its_service(millions: float) -> None:
    made = scenario(
        window(60, TUPLES // 2, hosts={"h": {"cpu": "processor-sharing"}})
        | {
            "workload": {"a": {"rate": "60 /s"}, "b": {"rate": "20 /s"}},
            "operators": {
                "a": {"kind": "source"},
                "b": {"kind": "source"},
                "short": {
                    "kind": "map",
                    "inputs": {"a": "shuffle"},
                    "threads": MANY,
                    "service": {"distribution": "deterministic", "value": "4 ms"},
                },
                "long": {
                    "kind": "map",
                    "inputs": {"b": "shuffle"},
                    "threads": MANY,
                    "service": {"distribution": "exponential", "mean": "20 ms"},
                },
                "out": {"kind": "sink", "inputs": {"short": "shuffle", "long": "shuffle"}},
            },
        }
    )
    mean = (60 * 0.004 + 20 * 0.02) / 80
    agrees(
        millions,
        made,
        {
            "short": {"sojourn_s": processor_sharing_s(80, mean, size_s=0.004), "utilisation": 0.24},
            "long": {"sojourn_s": processor_sharing_s(80, mean, size_s=0.02), "utilisation": 0.4},
        },
    )


def test_processor_sharing_at_half_the_pace(millions: float) -> None:
    load = {"steps": [{"at": "0 s", "share": 0.5}]}
    hosts = {"h": {"cpu": "processor-sharing", "load": load}}
    made = queue(EXPONENTIAL, q={"threads": MANY}, **window(30, TUPLES // 2, hosts=hosts))
    agrees(millions, made, {"q": {"sojourn_s": processor_sharing_s(30, 0.02), "utilisation": 0.3}})


def test_mm1_at_half_the_pace_is_mm1_with_twice_the_service(millions: float) -> None:
    load = {"steps": [{"at": "0 s", "share": 0.5}]}
    state = mm1(30, 0.02)
    used = SteadyState(state.utilisation / 2, state.wait_s, state.queue)  # others use the other half
    agrees(millions, queue(EXPONENTIAL, **window(30, hosts={"h": {"load": load}})), {"q": of(used)})


def priorities() -> Scenario:
    """A deterministic and an exponential service on one core; the second goes first."""
    return scenario(
        window(50, hosts={"h": {"cpu": "shared"}})
        | {
            "workload": {"a": {"rate": "30 /s"}, "b": {"rate": "20 /s"}},
            "operators": {
                "a": {"kind": "source"},
                "b": {"kind": "source"},
                "low": {
                    "kind": "map",
                    "inputs": {"a": "shuffle"},
                    "service": {"distribution": "deterministic", "value": "10 ms"},
                },
                "high": {
                    "kind": "map",
                    "inputs": {"b": "shuffle"},
                    "priority": 5,
                    "service": {"distribution": "exponential", "mean": "20 ms"},
                },
                "out": {"kind": "sink", "inputs": {"low": "shuffle", "high": "shuffle"}},
            },
        }
    )


def test_the_priority_queue_of_cobham(millions: float) -> None:
    high, low = mg1_priority([20, 30], [0.02, 0.01], [1.0, 0.0])
    agrees(millions, priorities(), {"high": of(high), "low": of(low)})
