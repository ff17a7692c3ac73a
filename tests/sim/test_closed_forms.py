"""The engine against closed forms: mean wait, mean number that wait, and utilisation.

Every case runs independent replications with fixed seeds; the closed form must lie in Student's t interval of the
replications' means at 99.9 %, and the interval must be narrow enough to say something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats
from small_jobs import NS, queue, scenario, simulate

from models.queueing import SteadyState, batch_mg1, drain, jackson, md1, mg1, mm1, mmc
from models.records import NEVER, RunRecords
from models.scenario import Scenario

CONFIDENCE = 0.999
EXPONENTIAL = {"distribution": "exponential", "mean": "10 ms"}


@dataclass(frozen=True)
class Seen:
    """Means of one operator in one replication."""

    wait_s: float
    queue: float
    utilisation: float


def seen(records: RunRecords, operator: str) -> Seen:
    """Means over the window after warm-up, by areas: waiting times and services are cut at its ends."""
    low, high = records.warmup_ns, records.duration_ns
    index = records.operators.index(operator)
    rows = {
        name: column[records.tables["visits"]["operator"] == index] for name, column in records.tables["visits"].items()
    }
    end = np.where(rows["end_ns"] == NEVER, high, rows["end_ns"])
    left = records.tables["waiting"]["arrival_ns"][records.tables["waiting"]["operator"] == index]

    def area(begin: np.ndarray, stop: np.ndarray) -> float:
        return float(np.maximum(np.minimum(stop, high) - np.maximum(begin, low), 0).sum()) / (high - low)

    counts = rows["arrival_ns"] >= low
    return Seen(
        float((rows["start_ns"] - rows["arrival_ns"])[counts].mean()) / NS,
        area(rows["arrival_ns"], rows["start_ns"]) + area(left, np.full(left.shape, high)),
        area(rows["start_ns"], end) / records.servers[index],
    )


def agrees(made: Scenario, expected: Mapping[str, SteadyState], replications: int = 10, width: float = 0.2) -> None:
    """The closed form of each operator lies in the interval of the replications."""
    runs = [simulate(made, replication=k) for k in range(replications)]
    factor = stats.t.ppf((1 + CONFIDENCE) / 2, replications - 1) / replications**0.5
    for name, state in expected.items():
        found = [seen(run, name) for run in runs]
        for what in ("wait_s", "queue", "utilisation"):
            values = np.array([getattr(one, what) for one in found])
            half, exact = factor * values.std(ddof=1), getattr(state, what)
            assert abs(values.mean() - exact) <= half, (name, what, values.mean(), exact, half)
            assert half <= width * exact, f"{name}.{what}: +-{half} around {exact} says too little"


def window(seconds: int, **changes: Any) -> dict[str, Any]:
    return {"duration": f"{seconds} s", "warmup": "10 s", **changes}


def test_mm1() -> None:
    agrees(queue(EXPONENTIAL, **window(200, workload={"src": {"rate": "60 /s"}})), {"q": mm1(60, 0.01)})


def test_md1() -> None:
    law = {"distribution": "deterministic", "value": "10 ms"}
    agrees(queue(law, **window(120)), {"q": md1(70, 0.01)})


@pytest.mark.parametrize(
    ("law", "scv"),
    [
        ({"distribution": "gamma", "mean": "10 ms", "shape": 0.5}, 2.0),
        ({"distribution": "erlang", "mean": "10 ms", "shape": 3}, 1 / 3),
        ({"distribution": "uniform", "low": "2 ms", "high": "18 ms"}, 0.64 / 3),
        ({"distribution": "lognormal", "mean": "10 ms", "cv": 0.8}, 0.64),
    ],
    ids=["gamma", "erlang", "uniform", "lognormal"],
)
def test_mg1(law: dict[str, Any], scv: float) -> None:
    made = queue(law, **window(100, workload={"src": {"rate": "50 /s"}}))
    agrees(made, {"q": mg1(50, 0.01, scv)}, width=0.3)


def test_mmc_as_a_pool_of_threads() -> None:
    made = queue(EXPONENTIAL, q={"threads": 3}, **window(80, workload={"src": {"rate": "210 /s"}}))
    agrees(made, {"q": mmc(210, 0.01, 3)}, width=0.25)


def test_mmc_as_shared_cores_with_more_threads_than_cores() -> None:
    raw = window(80, workload={"src": {"rate": "140 /s"}}, hosts={"h": {"cpu": "shared", "cores": 2}})
    runs = queue(EXPONENTIAL, q={"threads": 5}, **raw)
    state = mmc(140, 0.01, 2)
    per_thread = SteadyState(state.utilisation * 2 / 5, state.wait_s, state.queue)
    agrees(runs, {"q": per_thread}, width=0.25)


def test_two_operators_on_one_shared_core_wait_for_each_other() -> None:
    # Fed by one Poisson process each, both are one M/G/1 queue with a mixture of services: first come, first served.
    made = scenario(
        window(150)
        | {
            "workload": {"a": {"rate": "30 /s"}, "b": {"rate": "20 /s"}},
            "operators": {
                "a": {"kind": "source"},
                "b": {"kind": "source"},
                "p": {"kind": "map", "inputs": {"a": "shuffle"}, "service": EXPONENTIAL},
                "q": {
                    "kind": "map",
                    "inputs": {"b": "shuffle"},
                    "service": {"distribution": "deterministic", "value": "15 ms"},
                },
                "out": {"kind": "sink", "inputs": {"p": "shuffle", "q": "shuffle"}},
            },
            "hosts": {"h": {"cpu": "shared"}},
        }
    )
    mean = (30 * 0.01 + 20 * 0.015) / 50
    second = (30 * 2 * 0.01**2 + 20 * 0.015**2) / 50
    wait = mg1(50, mean, second / mean**2 - 1).wait_s
    agrees(made, {"p": SteadyState(0.3, wait, 30 * wait), "q": SteadyState(0.3, wait, 20 * wait)}, width=0.25)


def test_a_fast_host_serves_in_less_time() -> None:
    law = {"distribution": "exponential", "mean": "20 ms"}
    made = queue(law, **window(100, workload={"src": {"rate": "50 /s"}}, hosts={"h": {"speed": 2.0}}))
    agrees(made, {"q": mm1(50, 0.01)}, width=0.25)


@pytest.mark.parametrize(
    ("batch", "mean", "second"),
    [(4, 4.0, 16.0), ({"distribution": "geometric", "mean": 3.0}, 3.0, 15.0)],
    ids=["fixed", "geometric"],
)
def test_batch_arrivals(batch: Any, mean: float, second: float) -> None:
    made = queue(EXPONENTIAL, **window(200, workload={"src": {"rate": "50 /s", "batch": batch}}))
    agrees(made, {"q": batch_mg1(50, mean, second, 0.01, 1.0)}, width=0.35)


def test_tandem() -> None:
    made = scenario(
        window(200)
        | {
            "workload": {"src": {"rate": "50 /s"}},
            "operators": {
                "src": {"kind": "source"},
                "one": {"kind": "map", "inputs": {"src": "shuffle"}, "service": EXPONENTIAL},
                "two": {
                    "kind": "map",
                    "inputs": {"one": "shuffle"},
                    "service": {"distribution": "exponential", "mean": "12 ms"},
                },
                "out": {"kind": "sink", "inputs": {"two": "shuffle"}},
            },
            "hosts": {"h": {"count": 2}},
            "network": {"latency": "1 ms"},
        }
    )
    one, two = jackson([50, 0], [[0, 1], [0, 0]], [0.01, 0.012])
    agrees(made, {"one": one, "two": two}, width=0.25)


def test_split_thinning_and_merge_are_a_jackson_network() -> None:
    # 80 /s over two tasks, half of what they make goes on to a third station together with 20 /s from outside.
    made = scenario(
        window(120)
        | {
            "workload": {"src": {"rate": "80 /s"}, "more": {"rate": "20 /s"}},
            "operators": {
                "src": {"kind": "source", "parallelism": 2},
                "more": {"kind": "source"},
                "half": {
                    "kind": "filter",
                    "inputs": {"src": "shuffle"},
                    "parallelism": 2,
                    "service": EXPONENTIAL,
                    "selectivity": 0.5,
                },
                "merge": {"kind": "map", "inputs": {"half": "shuffle", "more": "shuffle"}, "service": EXPONENTIAL},
                "out": {"kind": "sink", "inputs": {"merge": "shuffle"}},
            },
            "hosts": {"h": {"count": 2}},
        }
    )
    half, _, merge = jackson([40, 40, 20], [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]], [0.01] * 3)
    both = SteadyState(half.utilisation, half.wait_s, 2 * half.queue)
    agrees(made, {"half": both, "merge": merge}, width=0.25)


def test_samples_see_the_queue_that_the_rows_tell() -> None:
    # Little's law path by path: the queue at an instant = tuples with arrival < instant <= start, without exception.
    made = queue(EXPONENTIAL, **window(60, workload={"src": {"rate": "95 /s"}}))
    records = simulate(made)
    visits, samples = records.tables["visits"], records.tables["samples"]
    operator = records.operators.index("q")
    own = visits["operator"] == operator
    arrival, start, end = (visits[name][own] for name in ("arrival_ns", "start_ns", "end_ns"))
    left = records.tables["waiting"]["arrival_ns"]
    task = records.tasks.index("q-0")
    looked = samples["task"] == task
    assert looked.sum() > 50
    for at, waiting, busy in zip(
        samples["at_ns"][looked], samples["queue"][looked], samples["busy_ns"][looked], strict=True
    ):
        assert waiting == ((arrival < at) & (at <= start)).sum() + (left < at).sum()
        done = (end != NEVER) & (end < at)
        assert busy == (end - start)[done].sum()


@pytest.mark.parametrize(("crash_ms", "interval_ms"), [(5050, 1000), (7130, 3000)])
def test_an_outage_is_worked_off_as_a_deterministic_queue(crash_ms: int, interval_ms: int) -> None:
    # D/D/1 every 10 ms with 6 ms of service, no latency. The worker dies; the group resumes on the other host from
    # the last checkpoint when the failure is noticed, and the queue is what came since that checkpoint was taken.
    made = scenario(
        {
            "duration": "20 s",
            "workload": {"src": {"rate": "100 /s", "arrivals": "deterministic"}},
            "operators": {
                "src": {"kind": "source"},
                "q": {
                    "kind": "aggregate",
                    "inputs": {"src": "key"},
                    "service": {"distribution": "deterministic", "value": "6 ms"},
                },
                "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
            },
            "hosts": {"h": {"count": 2}},
            "network": {"latency": "0 s"},
            "placement": {"tasks": {"src-0": "h-0", "q-0": "h-1", "out-0": "h-0"}},
            "fault_tolerance": {"method": "checkpoint", "interval": f"{interval_ms} ms"},
            "detector": {"heartbeat": "1 s", "timeout": "3 s"},
            "events": {"crash": {"at": f"{crash_ms} ms", "kind": "host-failure", "host": "h-1"}},
        }
    )
    records = simulate(made)
    recovery = {name: column.tolist() for name, column in records.tables["recoveries"].items()}
    detected = (crash_ms - 1) // 1000 * 1000 + 3000
    covered = (crash_ms // interval_ms * interval_ms - 1) // 10  # the tuple of that instant comes after the checkpoint
    # What is served at the checkpoint's instant is not in it: 10 ms steps, 6 ms services, so none is.
    backlog = (detected - 1) // 10 - covered  # the tuple of the detection's instant comes after the replay
    served, busy_s = drain(backlog, 6, 10, 10 - (detected - 1) % 10 - 1)
    assert recovery["detected_ns"] == recovery["restored_ns"] == [detected * 10**6]
    assert recovery["replayed"] == [backlog]
    assert recovery["caught_up_ns"] == [(detected + int(busy_s)) * 10**6]
    visits = records.tables["visits"]
    redone = (visits["task"] >= 3) & (visits["start_ns"] < recovery["caught_up_ns"][0])
    assert redone.sum() == served
