"""Shared cores against closed forms on the compiled plane: a million tuples in ten replications, at 99.9 %.

Oracles: Cobham's priority queue, processor sharing (which does not see the law of the service), M/M/1 at another speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from small_jobs import queue, scenario

from analysis.summary import summarise
from models.queueing import SteadyState, mg1_priority, mm1, processor_sharing_s
from models.scenario import Scenario
from sim.compiled.plane import CompiledPlane
from sim.engine import simulate

CONFIDENCE = 0.999
REPLICATIONS = 10
TUPLES = 100_000  # in each replication
EXPONENTIAL = {"distribution": "exponential", "mean": "10 ms"}
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


def agrees(made: Scenario, expected: Means, width: float = 0.1) -> None:
    """Each expected mean lies in the interval of the replications, which is narrow enough to say something."""
    runs = [seen(made, replication) for replication in range(REPLICATIONS)]
    factor = stats.t.ppf((1 + CONFIDENCE) / 2, REPLICATIONS - 1) / REPLICATIONS**0.5
    for name, means in expected.items():
        for what, exact in means.items():
            values = np.array([run[name][what] for run in runs])
            half = factor * values.std(ddof=1)
            assert abs(values.mean() - exact) <= half, (name, what, values.mean(), exact, half)
            assert half <= width * exact, f"{name}.{what}: +-{half} around {exact} says too little"


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
def test_processor_sharing_does_not_see_the_law_of_the_service(law: dict[str, Any]) -> None:
    expected = {"sojourn_s": processor_sharing_s(65, 0.01), "utilisation": 0.65}
    agrees(shared_evenly(law, 65), {"q": expected})


def test_processor_sharing_on_three_cores() -> None:
    expected = {"sojourn_s": processor_sharing_s(220, 0.01, 3), "utilisation": 2.2 / 3}
    agrees(shared_evenly(LAWS["gamma"], 220, 3), {"q": expected})


def test_processor_sharing_takes_each_operator_in_proportion_to_its_service() -> None:
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
        made,
        {
            "short": {"sojourn_s": processor_sharing_s(80, mean, size_s=0.004), "utilisation": 0.24},
            "long": {"sojourn_s": processor_sharing_s(80, mean, size_s=0.02), "utilisation": 0.4},
        },
    )


def test_processor_sharing_at_half_the_pace() -> None:
    load = {"steps": [{"at": "0 s", "share": 0.5}]}
    hosts = {"h": {"cpu": "processor-sharing", "load": load}}
    made = queue(EXPONENTIAL, q={"threads": MANY}, **window(30, TUPLES // 2, hosts=hosts))
    agrees(made, {"q": {"sojourn_s": processor_sharing_s(30, 0.02), "utilisation": 0.3}})


def test_mm1_at_half_the_pace_is_mm1_with_twice_the_service() -> None:
    load = {"steps": [{"at": "0 s", "share": 0.5}]}
    state = mm1(30, 0.02)
    used = SteadyState(state.utilisation / 2, state.wait_s, state.queue)  # others use the other half
    agrees(queue(EXPONENTIAL, **window(30, hosts={"h": {"load": load}})), {"q": of(used)})


def priorities(tuples: int) -> Scenario:
    """A deterministic and an exponential service on one core; the second goes first."""
    return scenario(
        window(50, tuples, hosts={"h": {"cpu": "shared"}})
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


def test_the_priority_queue_of_cobham() -> None:
    high, low = mg1_priority([20, 30], [0.02, 0.01], [1.0, 0.0])
    agrees(priorities(TUPLES), {"high": of(high), "low": of(low)})


@pytest.mark.slow
def test_ten_million_tuples_agree_as_well() -> None:
    high, low = mg1_priority([20, 30], [0.02, 0.01], [1.0, 0.0])
    agrees(priorities(10 * TUPLES), {"high": of(high), "low": of(low)}, width=0.03)
    sojourn = {"sojourn_s": processor_sharing_s(65, 0.01), "utilisation": 0.65}
    made = queue(
        LAWS["lognormal"],
        q={"threads": MANY},
        **window(65, 10 * TUPLES, hosts={"h": {"cpu": "processor-sharing"}}),
    )
    agrees(made, {"q": sojourn}, width=0.03)
