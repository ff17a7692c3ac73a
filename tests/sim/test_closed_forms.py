"""The engine against closed forms: mean wait, mean number that wait, and utilisation (`closed_forms`)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from closed_forms import EXPONENTIAL, PLAIN, PLANES, Sized, agrees, window
from queueing_formulas import batch_mg1, drain, jackson, md1, mg1, mm1, mm1_flushed
from small_jobs import queue, scenario, simulate

from models.records.tables import NEVER
from models.steady_state.queueing import SteadyState, mmc


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Sized:
    """What a closed form is held against."""
    found: Sized = request.param
    return found


def test_mm1(plane: Sized) -> None:
    agrees(plane, queue(EXPONENTIAL, **window(200, workload={"src": {"rate": "60 /s"}})), {"q": mm1(60, 0.01)})


def test_mm1_on_the_plain_plane() -> None:
    agrees(PLAIN, queue(EXPONENTIAL, **window(60, workload={"src": {"rate": "60 /s"}})), {"q": mm1(60, 0.01)}, 0.4)


def test_md1(plane: Sized) -> None:
    law = {"distribution": "deterministic", "value": "10 ms"}
    agrees(plane, queue(law, **window(120)), {"q": md1(70, 0.01)})


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
def test_mg1(plane: Sized, law: dict[str, Any], scv: float) -> None:
    made = queue(law, **window(100, workload={"src": {"rate": "50 /s"}}))
    agrees(plane, made, {"q": mg1(50, 0.01, scv)}, width=0.3)


def test_mmc_as_a_pool_of_threads(plane: Sized) -> None:
    made = queue(EXPONENTIAL, q={"threads": 3}, **window(80, workload={"src": {"rate": "210 /s"}}))
    agrees(plane, made, {"q": mmc(210, 0.01, 3)}, width=0.25)


def test_mmc_as_shared_cores_with_more_threads_than_cores(plane: Sized) -> None:
    raw = window(80, workload={"src": {"rate": "140 /s"}}, hosts={"h": {"cpu": "shared", "cores": 2}})
    runs = queue(EXPONENTIAL, q={"threads": 5}, **raw)
    state = mmc(140, 0.01, 2)
    per_thread = SteadyState(state.utilisation * 2 / 5, state.wait_s, state.queue)
    agrees(plane, runs, {"q": per_thread}, width=0.25)


def test_two_operators_on_one_shared_core_wait_for_each_other(plane: Sized) -> None:
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
    agrees(plane, made, {"p": SteadyState(0.3, wait, 30 * wait), "q": SteadyState(0.3, wait, 20 * wait)}, width=0.25)


def test_a_fast_host_serves_in_less_time(plane: Sized) -> None:
    law = {"distribution": "exponential", "mean": "20 ms"}
    made = queue(law, **window(100, workload={"src": {"rate": "50 /s"}}, hosts={"h": {"speed": 2.0}}))
    agrees(plane, made, {"q": mm1(50, 0.01)}, width=0.25)


@pytest.mark.parametrize(
    ("batch", "mean", "second"),
    [(4, 4.0, 16.0), ({"distribution": "geometric", "mean": 3.0}, 3.0, 15.0)],
    ids=["fixed", "geometric"],
)
def test_batch_arrivals(plane: Sized, batch: Any, mean: float, second: float) -> None:
    made = queue(EXPONENTIAL, **window(200, workload={"src": {"rate": "50 /s", "batch": batch}}))
    agrees(plane, made, {"q": batch_mg1(50, mean, second, 0.01, 1.0)}, width=0.35)


def test_tandem(plane: Sized) -> None:
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
    agrees(plane, made, {"one": one, "two": two}, width=0.25)


def test_split_thinning_and_merge_are_a_jackson_network(plane: Sized) -> None:
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
    agrees(plane, made, {"half": both, "merge": merge}, width=0.25)


def test_a_task_that_is_flushed_when_its_host_dies(plane: Sized) -> None:
    # The task goes to a host without any partition: never to that of the sources, as long as another one is alive. The
    # time since the last heartbeat is an exponential time modulo the heartbeat.
    mtbf, timeout, beat = 30.0, 5.0, 0.1
    made = scenario(
        window(200)
        | {
            "workload": {"src": {"rate": "70 /s"}},
            "operators": {
                "src": {"kind": "source", "parallelism": 3},
                "q": {"kind": "map", "inputs": {"src": "shuffle"}, "service": EXPONENTIAL},
                "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
            },
            "hosts": {
                "w": {"count": 9, "failures": {"model": "exponential", "mtbf": f"{mtbf} s", "repair": "6 s"}},
                "e": {"count": 1},
            },
            "placement": {"operators": {"src": "e", "q": "w", "out": "e"}},
            "fault_tolerance": {"method": "none"},
            "detector": {"heartbeat": f"{beat} s", "timeout": f"{timeout} s"},
            "recording": {"detail": "tuples"},
        }
    )
    down = timeout - (mtbf - beat / math.expm1(beat / mtbf))
    agrees(plane, made, {"q": mm1_flushed(70, 0.01, mtbf, down)}, width=0.9)


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
    # the last checkpoint when the failure is detected, and the queue is what came since that checkpoint was taken.
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
