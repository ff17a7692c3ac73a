"""One run on two kernels: wherever they hand it over, its rows are those of each of them alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scan_jobs import checkpointed_job, scan_job, writing_job
from test_planes import differences
from test_scan import made
from test_scan_checkpoints import KEYED, LARGE

from models.records.tables import BOTH, EVENT_LOOP, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records, simulate
from sim.kernel import choice
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over import to_loop
from sim.kernel.hand_over.at_rest import LoopAtRest
from sim.kernel.hand_over.plane import TwoKernels
from sim.kernel.hand_over.spells import failures, horizon_ns, spells
from sim.kernel.scan.plane import ScanPlane
from sim.plain.plane import PlainPlane
from sim.plane_values import NotCovered

PLANES: list[TwoKernels] = []


def cut(spells: list[tuple[int, int]], patience_ns: int = 10_000_000) -> PlaneFactory:
    def factory(*given: Any) -> TwoKernels:
        PLANES[:] = [TwoKernels(*given, turns=spells, patience_ns=patience_ns)]
        return PLANES[0]

    return factory


def random_spells(draw: Random, job: Scenario, most: int) -> list[tuple[int, int]]:
    """Instants in the run, some of them on a lattice, some very close."""
    end = to_ns(job.duration_s)
    lattice = lambda: draw.randrange(1 + end // 5_000_000) * 5_000_000  # noqa: E731
    instants = sorted(
        {draw.randrange(end) if draw.random() < 0.5 else lattice() for _ in range(2 * draw.randint(1, most))}
    )
    return list(zip(instants[::2], instants[1::2], strict=False))


def single(raw: dict[str, Any]) -> dict[str, Any]:
    """The same job without pools of threads, of which kept outputs are not handed over."""
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    return raw


def equal_rows(raw: dict[str, Any], draw: Random, most: int, reference: PlaneFactory = CompiledPlane) -> TwoKernels:
    job = made(raw)
    found = simulate(job, plane=cut(random_spells(draw, job, most)))
    assert differences(simulate(job, plane=reference), found) == []
    return PLANES[0]


Make = Callable[[Random], dict[str, Any]]
JOBS: dict[str, Make] = {
    "without checkpoints": scan_job,
    "checkpoints": lambda draw: single(checkpointed_job(draw)),
    "snapshots that take time": lambda draw: single(writing_job(draw)),
}


@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), most=st.sampled_from([1, 3, 20]))
def test_rows_do_not_depend_on_who_has_the_run(job: str, seed: int, most: int) -> None:
    draw = Random(seed)
    equal_rows(JOBS[job](draw), draw, most)


@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_rows_are_those_of_the_plain_plane(job: str, seed: int) -> None:
    draw = Random(seed)
    equal_rows(JOBS[job](draw), draw, 3, PlainPlane)


@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_histograms_do_not_depend_on_it_either(job: str, seed: int) -> None:
    draw = Random(seed)
    equal_rows(JOBS[job](draw) | {"recording": {"detail": "histograms"}}, draw, 3)


@pytest.mark.parametrize("detail", ["tuples", "histograms"])
def test_many_tuples_are_handed_over(detail: str) -> None:
    raw = LARGE | {"recording": {"detail": detail}}
    plane = equal_rows(raw, Random(4), 12)
    assert len(plane.hand_overs) > 3


def test_the_scan_gets_the_run_back_nearly_always_where_nothing_fails() -> None:
    tried = given_up = 0
    for seed in range(10):
        draw = Random(seed)
        plane = equal_rows(single(checkpointed_job(draw)), draw, 3, ScanPlane)
        tried, given_up = tried + len(plane.hand_overs), given_up + len(plane.hindrances)
    assert tried > 30
    assert given_up < tried / 4


# -- hosts fail


def failing(draw: Random, law: bool) -> dict[str, Any]:
    """A job whose hosts fail by events or by a law, with checkpoints often enough for the scan to get it back."""
    raw = single(checkpointed_job(draw) if draw.random() < 0.7 else writing_job(draw))
    raw["duration"] = "5 s"
    raw["fault_tolerance"]["interval"] = draw.choice(["20 ms", "50 ms", "100 ms", "123456789 ns"])
    raw["fault_tolerance"]["guarantee"] = "exactly-once"
    raw["detector"] = {"heartbeat": "50 ms", "timeout": draw.choice(["100 ms", "20 ms"])}
    hosts = [f"{name}-{k}" for name, group in raw["hosts"].items() for k in range(group.get("count", 1))]
    if law:
        some = draw.sample([*raw["hosts"]], draw.randint(1, len(raw["hosts"])))
        for name in some:
            repair = draw.choice(["5 ms", "200 ms", "1 s"])
            raw["hosts"][name]["failures"] = draw.choice(
                [
                    {"model": "exponential", "mtbf": draw.choice(["1 s", "3 s", "20 s"]), "repair": repair},
                    {"model": "schedule", "at": ["700 ms", "2500 ms"], "repair": repair},
                ]
            )
        return raw
    for k in range(draw.randint(1, 3)):
        at_ms = draw.choice([draw.randint(300, 4500), draw.randint(60, 900) * 5])
        crash = {"at": f"{at_ms} ms", "kind": "host-failure", "host": draw.choice(hosts)}
        if draw.random() < 0.8:
            crash["repair"] = draw.choice(["1 ms", "50 ms", "200 ms", "1 s"])
        raw["events"][f"crash{k}"] = crash
    return raw


def beside(raw: dict[str, Any], reference: PlaneFactory = CompiledPlane) -> TwoKernels | None:
    """The plane of a run that both kernels have in turns, with equal rows; None if the scan had it for too long."""
    job = made(raw)
    plan = RunPlan.of(job, RunInputs(), 0)
    try:
        found = simulate(job, plane=cut(spells(plan), max(10_000_000, horizon_ns(plan) // 5)))
    except NotCovered:
        return None
    assert differences(simulate(job, plane=reference), found) == []
    return PLANES[0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), law=st.booleans())
def test_the_event_loop_has_a_run_around_failures(seed: int, law: bool) -> None:
    beside(failing(Random(seed), law))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), law=st.booleans())
def test_failures_are_those_of_the_plain_plane(seed: int, law: bool) -> None:
    beside(failing(Random(seed), law), PlainPlane)


def test_duplicates_that_are_under_way_keep_the_scan_away() -> None:
    # A sink that has come back gets two tuples that it has: it is the event loop that knows.
    assert beside(failing(Random(1001462), True)) is not None


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), law=st.booleans())
def test_histograms_of_runs_with_failures_are_equal(seed: int, law: bool) -> None:
    beside(failing(Random(seed), law) | {"recording": {"detail": "histograms"}})


def test_the_scan_gets_runs_back_after_failures() -> None:
    planes = [beside(failing(Random(seed), seed % 2 == 0)) for seed in range(15)]
    done = [plane for plane in planes if plane is not None]
    assert len(done) > 6
    assert sum(len(plane.hand_overs) > 1 for plane in done) > 2  # the second one is back to the scan
    assert sum(plane.scan_share() > 0.3 for plane in done) > 2


def catching_up(draw: Random) -> dict[str, Any]:
    """A job of which a task gets so much more after a failure that it has a long queue, until fewer tuples come."""
    tasks = draw.randint(3, 5)
    rate, end_ms = draw.choice([500, 1000, 2000]), draw.choice([4000, 5000, 6123])
    busy = draw.uniform(0.55, 0.75)  # twice as much after the failure
    rates = [{"at": "0 s", "rate": f"{rate} /s"}, {"at": f"{end_ms} ms", "rate": f"{rate * draw.uniform(0.2, 0.5)} /s"}]
    operator = {"kind": "aggregate", "parallelism": tasks, "key_groups": tasks * draw.choice([1, 1, 2])}
    operator |= {"state": {"model": "fixed", "bytes": "1 kB"}}
    law = draw.choice([{"distribution": "exponential"}, {"distribution": "gamma", "shape": 2.0}])
    service = law | {"mean": f"{busy * tasks / rate * 1e3} ms"}
    operators: dict[str, Any] = {"in": {"kind": "source"}, "op": operator | {"inputs": {"in": "key"}}}
    if draw.random() < 0.5:
        operators["two"] = operator | {"inputs": {"op": "key"}, "service": service | {"mean": "0.1 ms"}}
    keys = {"distribution": "uniform", "count": 1000}
    last, arrivals = [*operators][-1], draw.choice(["poisson", "deterministic"])
    return {
        "seed": draw.randrange(1000),
        "duration": f"{2 * end_ms + 2000} ms",
        "workload": {"in": {"rate": {"steps": rates}, "keys": keys, "arrivals": arrivals}},
        "operators": operators
        | {
            "op": operators["op"] | {"service": service},
            "out": {"kind": "sink", "inputs": {last: "shuffle"}},
        },
        "hosts": {"worker": {"count": tasks, "cores": 4}},
        "placement": {
            "tasks": {f"{task}-0": "worker-0" for task in ("in", "out")}
            | {f"{one}-{k}": f"worker-{k}" for one in operators if one != "in" for k in range(tasks)}
        },
        "network": {"latency": draw.choice(["1 ms", "200 us"])},
        "fault_tolerance": {
            "method": "checkpoint",
            "interval": draw.choice(["200 ms", "300 ms", "123456789 ns"]),
            "store": draw.choice(["remote", "nodes"]),
            "guarantee": "exactly-once",
        },
        "events": {
            "crash": {
                "at": f"{draw.randint(1500, 2000)} ms",
                "kind": "host-failure",
                "host": f"worker-{draw.randint(1, tasks - 1)}",
                "repair": draw.choice(["1 s", "3 s", "20 s"]),
            }
        },
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
    }


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_a_catch_up_in_the_scan_has_the_rows_of_the_event_loop(seed: int) -> None:
    beside(catching_up(Random(seed)))


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_a_catch_up_in_the_scan_has_the_rows_of_the_plain_plane(seed: int) -> None:
    beside(catching_up(Random(seed)), PlainPlane)


def test_the_scan_has_the_run_while_a_job_catches_up() -> None:
    # After the failure a task has two of the four key groups, and until 20 s 1.2 times as many tuples as it can serve.
    rates = [{"at": "0 s", "rate": "2000 /s"}, {"at": "20 s", "rate": "1000 /s"}]
    operator = {"kind": "aggregate", "inputs": {"in": "key"}, "parallelism": 4, "key_groups": 4}
    operator |= {"state": {"model": "fixed", "bytes": "1 kB"}}
    raw: dict[str, Any] = {
        "duration": "40 s",
        "workload": {"in": {"rate": {"steps": rates}, "keys": {"distribution": "uniform", "count": 1000}}},
        "operators": {
            "in": {"kind": "source"},
            "op": operator | {"service": {"distribution": "exponential", "mean": "1.2 ms"}},
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"worker": {"count": 4}},
        "placement": {
            "tasks": {f"{task}-0": "worker-0" for task in ("in", "out")} | {f"op-{k}": f"worker-{k}" for k in range(4)}
        },
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s", "store": "remote", "guarantee": "exactly-once"},
        "events": {"crash": {"at": "10 s", "kind": "host-failure", "host": "worker-1", "repair": "10 s"}},
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
    }
    plane = beside(raw)
    assert plane is not None
    caught_up_ns = int(simulate(made(raw)).tables["recoveries"]["caught_up_ns"][0])
    to_the_loop, to_the_scan = plane.hand_overs[::2], plane.hand_overs[1::2]
    assert 27 * 10**9 < caught_up_ns < 28 * 10**9
    assert to_the_scan[0] < 12 * 10**9  # the wait is longer than the task has work at any instant
    assert [begin < caught_up_ns for begin in to_the_loop] == [True, True, True]  # failure, repair, nearly caught up
    assert to_the_loop[-1] > caught_up_ns - 10**8


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), law=st.booleans())
def test_failures_are_foreseen(seed: int, law: bool) -> None:
    job = made(failing(Random(seed), law))
    failed = simulate(job, plane=CompiledPlane).tables["failures"]["failed_ns"].tolist()
    assert {*failed} <= {failure.at_ns for failure in failures(RunPlan.of(job, RunInputs(), 0))}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_a_long_campaign_of_failures(part: int) -> None:
    for seed in range(part * 250, part * 250 + 250):
        beside(failing(Random(seed), seed % 3 == 0))


@pytest.mark.parametrize("seed", range(12))
def test_a_task_may_be_added_while_the_scan_has_the_run(seed: int) -> None:
    draw = Random(seed)
    raw = JOBS[[*JOBS][seed % 3]](draw)

    def rows(plane: PlaneFactory) -> RunRecords:
        control = Control(RunPlan.of(made(raw), RunInputs(), 0), plane)
        control.start()
        control.run(at_ns)
        control.plane.add_task(control.cluster.new_task(operator, host))
        control.run(end_ns)
        return records(control, end_ns)

    plan = RunPlan.of(made(raw), RunInputs(), 0)
    end_ns = to_ns(plan.scenario.duration_s)
    at_ns = draw.randrange(end_ns // 2, end_ns)
    operator, host = draw.randrange(1, len(plan.operators)), draw.randrange(len(plan.host_names))
    assert differences(rows(CompiledPlane), rows(cut([], 10_000_000))) == []
    assert PLANES[0].hand_overs[0] == at_ns


@pytest.mark.parametrize("at_ms", [26, 27, 29])
def test_a_source_that_has_come_back_keeps_the_place_of_its_next_arrival(at_ms: int) -> None:
    # Its arrival at 35 ms was set at 25 ms, in the place of its task before: a service that ends at 35 ms comes after.
    raw = {
        "duration": "50 ms",
        "workload": {"src": {"rate": "200 /s", "arrivals": "deterministic"}},
        "operators": {
            "src": {"kind": "source", "parallelism": 2},
            "op": {
                "kind": "map",
                "inputs": {"src": "forward"},
                "parallelism": 2,
                "service": {"distribution": "deterministic", "value": "5 ms"},
            },
            "out": {"kind": "sink", "inputs": {"op": "forward"}, "parallelism": 2},
        },
        "hosts": {"h": {"count": 4}},
        "placement": {
            "tasks": {"src-0": "h-0", "src-1": "h-1", "op-0": "h-1", "op-1": "h-2", "out-0": "h-2", "out-1": "h-2"}
        },
        "network": {"latency": "0 s"},
        "fault_tolerance": {"method": "checkpoint", "interval": "50 ms", "guarantee": "exactly-once"},
        "detector": {"heartbeat": "1 ms", "timeout": "1 ms"},
        "events": {"crash": {"at": f"{at_ms} ms", "kind": "host-failure", "host": "h-0"}},
    }
    turns = cut([tuple(one) for one in spells(RunPlan.of(made(raw), RunInputs(), 0))], 1_000_000)
    assert differences(simulate(made(raw), plane=CompiledPlane), simulate(made(raw), plane=turns)) == []
    assert any("set before it came to its task" in why for _, why in PLANES[0].hindrances)


NOT_COVERED: dict[str, Callable[[Control], object]] = {
    "replays": lambda control: control.plane.replay(0, 1),
    "tuples that are emitted again": lambda control: control.plane.emit_again(0, [2, 3]),
    "a second instance": lambda control: control.plane.add_instance(9, 1, 1),
    "the size of a checkpoint of before": lambda control: control.plane.checkpoint_bytes(1),
}


@pytest.mark.parametrize("what", NOT_COVERED)
def test_verbs_that_need_what_the_scan_has_forgotten_say_so(what: str) -> None:
    raw = {
        "duration": "200 ms",
        "workload": {"src": {"rate": "200 /s", "arrivals": "deterministic"}},
        "operators": {
            "src": {"kind": "source"},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "service": {"distribution": "deterministic", "value": "1 ms"},
                "state": {"model": "fixed", "bytes": "10 B"},
            },
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}},
        "placement": {"tasks": {"src-0": "h-0", "op-0": "h-1", "out-0": "h-2"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "50 ms", "guarantee": "exactly-once"},
        "events": {"far": {"kind": "host-failure", "at": "1000 s", "host": "h-3"}},
    }
    control = Control(RunPlan.of(made(raw), RunInputs(), 0), cut([], 1_000_000))
    control.start()
    control.clock.at(90_000_100, 0, lambda _: NOT_COVERED[what](control))
    with pytest.raises(NotCovered):
        control.run(200_000_000)


def test_what_tasks_keep_is_known_while_the_scan_has_the_run() -> None:
    plan, found = RunPlan.of(made(single(checkpointed_job(Random(1)))), RunInputs(), 0), []
    for plane in (CompiledPlane, cut([], 10_000_000)):
        control = Control(plan, plane)
        control.start()
        control.run(to_ns(plan.scenario.duration_s) // 2)
        found.append(np.array(control.plane.buffers()))
    assert np.array_equal(*found)
    assert found[0][:, 4].sum() > 0


def test_no_run_is_made_in_turns_that_needs_the_event_loop_at_all_times() -> None:
    plan = RunPlan.of(made(long_run(**ALONE["a rebalance of a window"])), RunInputs(), 0)
    with pytest.raises(ValueError, match="the state of two is a window"):
        Control(plan, cut([], 10_000_000))


# -- which runs are made in turns


def long_run(**changes: Any) -> dict[str, Any]:
    """More than 20 million steps, of which a failure concerns few."""
    crash = {"at": "300 s", "kind": "host-failure", "host": "worker-1", "repair": "5 s"}
    return LARGE | {"duration": "1200 s", "events": {"boom": crash}} | changes


def chosen(raw: dict[str, Any]) -> str:
    return kernel_for(RunPlan.of(made(raw), RunInputs(), 0)).name


def test_long_runs_in_which_hosts_fail_are_made_in_turns() -> None:
    assert chosen(long_run()) == BOTH
    law = {"worker": {"count": 8, "failures": {"model": "exponential", "mtbf": "6000 s", "repair": "5 s"}}}
    assert chosen(long_run(events={}, hosts=LARGE["hosts"] | law)) == BOTH


MOVED = {"at": "300 s", "kind": "rebalance", "hosts": ["worker"]}
MIGRATED = {"at": "300 s", "kind": "migrate", "operator": "one", "key_group": 0, "host": "worker-1"}
UNSAVED = {"method": "none"}


def test_long_runs_with_a_rebalance_are_made_in_turns() -> None:
    assert chosen(long_run(events={"move": MOVED})) == BOTH
    assert chosen(long_run(events={"move": MOVED}, fault_tolerance=UNSAVED)) == BOTH


SHARING = {"worker": {"count": 8, "cpu": "processor-sharing", "cores": 2}, "edge": {"count": 3}}
OFTEN = {"model": "schedule", "at": [f"{k} s" for k in range(1, 1200)], "repair": "1 s"}
WINDOW = {"model": "window", "bytes": "100 B", "length": "300 ms"}
OF_A_WINDOW = LARGE["operators"] | {"two": LARGE["operators"]["two"] | {"state": WINDOW}}
POOL = LARGE["operators"] | {"out": LARGE["operators"]["out"] | {"threads": 2, "service": KEYED["service"]}}
ALONE: dict[str, dict[str, Any]] = {
    "a short run": {"duration": "30 s", "events": {"boom": {"at": "9 s", "kind": "host-failure", "host": "worker-1"}}},
    "failures all the time": {"hosts": {"worker": {"count": 8, "failures": OFTEN}, "edge": {"count": 3}}},
    "shared cores": {"hosts": SHARING},
    "no checkpoints": {"fault_tolerance": UNSAVED},
    "a rebalance of a window": {"events": {"move": MOVED}, "fault_tolerance": UNSAVED, "operators": OF_A_WINDOW},
    "periodic waves": {"events": {"move": MOVED}, "waves": {"interval": "30 s"}},
    "a move of a key group": {"events": {"move": MIGRATED}},
    "at least once": {"fault_tolerance": LARGE["fault_tolerance"] | {"guarantee": "at-least-once"}},
    "at most once": {"fault_tolerance": LARGE["fault_tolerance"] | {"guarantee": "at-most-once"}},
    "late heartbeats": {"detector": {"heartbeat": "1 s", "timeout": "3 s", "loss": 0.01}},
    "a pool of threads": {"operators": POOL},
    "statistics": {"recording": {"statistics": True}},
}


@pytest.mark.parametrize("what", ALONE)
def test_the_event_loop_has_other_runs_alone(what: str) -> None:
    assert chosen(long_run(**ALONE[what])) == EVENT_LOOP


def test_a_run_is_made_again_where_checkpoints_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "WORTH", 0.0)
    crash = {"at": "4 s", "kind": "host-failure", "host": "worker-1", "repair": "100 ms"}
    slow = LARGE["fault_tolerance"] | {"store": "remote", "remote": "300 kB/s"}
    raw = LARGE | {"duration": "12 s", "events": {"boom": crash}, "fault_tolerance": slow}
    found = simulate(made(raw))
    assert differences(simulate(made(raw), plane=CompiledPlane), found) == []
    assert found.kernel is not None
    assert found.kernel.name == EVENT_LOOP
    assert "checkpoints take too long" in found.kernel.why


def test_the_summary_says_which_share_each_kernel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "WORTH", 0.0)
    crash = {"at": "4 s", "kind": "host-failure", "host": "worker-1", "repair": "100 ms"}
    raw = LARGE | {"duration": "12 s", "events": {"boom": crash}}
    found = simulate(made(raw))
    assert differences(simulate(made(raw), plane=CompiledPlane), found) == []
    assert found.kernel is not None
    assert found.kernel.name == BOTH
    share = re.search(r"([0-9.]+) % of the steps in the scan", found.kernel.why)
    assert share
    assert 20 < float(share[1]) < 95


# -- hand-overs that are broken on purpose


def differs(raws: Iterable[dict[str, Any]]) -> bool:
    """Whether a job has other rows, or its run ends with an error that says that something is wrong."""
    for raw in raws:
        try:
            beside(raw)
        except (AssertionError, RuntimeError, ValueError, IndexError):
            return True
    return False


def without_one_queue(fill: Callable[..., Any]) -> Callable[..., Any]:
    def broken(scan: Any, loop: Any, *given: Any) -> Any:
        busy = np.flatnonzero(scan.queues["n"][: int(scan.options["tasks"])])
        if busy.size:
            scan.queues["n"][busy[-1]] = 0
        return fill(scan, loop, *given)

    return broken


def one_instant_early(to_scan: Callable[..., Any]) -> Callable[..., Any]:
    """What the event loop was to do at the instant of the hand-over the scan takes for done."""
    return lambda plane, at_ns: to_scan(plane, at_ns + 1)


def before_all_is_over(hindrance: Callable[..., Any]) -> Callable[..., Any]:
    """The scan gets the run although control has begun something that is not over."""

    def broken(rest: LoopAtRest) -> None:
        hindrance(rest)

    return broken


def never_uncovered(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda plane, host: None


def never_idle(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda plane, scan: 1 << 62


def twice_as_long(busy_until_ns: Callable[..., Any]) -> Callable[..., Any]:
    def broken(scan: ScanPlane, task: int) -> int:
        now_ns = int(scan.state.span["end"])
        return now_ns + 2 * (int(busy_until_ns(scan, task)) - now_ns)

    return broken


BROKEN: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "a task is forgotten": (to_loop, "fill", without_one_queue),
    "the event loop stops one instant early": (TwoKernels, "_to_scan", one_instant_early),
    "ids that are missing are not missed": (TwoKernels, "_check_covered", never_uncovered),
    "control is not told of idle tasks": (TwoKernels, "_busy_until_ns", never_idle),
    "a task is idle before the scan thinks so": (ScanPlane, "busy_until_ns", twice_as_long),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_hand_over_is_caught(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, breaks = BROKEN[what]
    raws = [failing(Random(seed), seed % 2 == 0) for seed in (104, *range(60))]  # first one that is hard to find
    raws = [catching_up(Random(seed)) for seed in range(10)] + raws
    monkeypatch.setattr(where, name, breaks(getattr(where, name)))
    assert differs(raws)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_hand_overs(job: str, part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        draw = Random(seed)
        equal_rows(JOBS[job](draw), draw, draw.choice([1, 3, 20]))
