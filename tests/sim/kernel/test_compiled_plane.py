"""The compiled plane by itself: nothing is lost between two events, and looking at it changes nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from lattices import lattice_job
from small_jobs import NS, digest, queue, random_job, scenario, storm
from watched import Watched, compiled, duration_ns, timers, tuples

from models.records.tables import RunRecords
from models.scenario.inputs import Engine
from models.scenario.scenario import Scenario
from sim.engine import build, records, simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.event_loop.state import LoopState
from sim.kernel.scan.plane import ScanPlane
from sim.kernel.scan.state import ScanState
from sim.plain.plane import PlainPlane

METHODS: list[dict[str, Any]] = [
    {},
    {"guarantee": "at-least-once"},
    {"guarantee": "at-most-once"},
    {"method": "none"},
]


def unchecked(raw: dict[str, Any]) -> Scenario:
    """Crashes may come after the last arrival: the rule that events lie within the duration is about files."""
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def whole_numbers(raw: dict[str, Any]) -> dict[str, Any]:
    """Each tuple has the same number of outputs, and each goes over every edge: then sendings can be counted."""
    operators = {
        name: {key: value for key, value in operator.items() if key != "takes"}
        | ({"selectivity": float(round(operator["selectivity"] + 0.1))} if "selectivity" in operator else {})
        for name, operator in raw["operators"].items()
    }
    return raw | {"operators": operators}


def run_with(made: Scenario, instants_ns: Sequence[int] = ()) -> RunRecords:
    """The rows of a run in which control also wakes up at these instants, and does nothing."""
    control = build(made, plane=CompiledPlane)
    timers(control, [*instants_ns])
    control.run(duration_ns(made))
    return records(control, duration_ns(made))


@pytest.mark.parametrize("engine", ["auto", "plain"])
def test_a_run_that_is_over_leaves_its_tuples_to_nobody(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[object]] = []
    kinds: tuple[type, ...] = (PlainPlane,) if engine == "plain" else (LoopState, ScanState)
    for kind in kinds:
        begin = kind.__init__

        def noted(self: object, *given: Any, begin: Any = begin, **named: Any) -> None:
            begin(self, *given, **named)
            made.append(weakref.ref(self))

        monkeypatch.setattr(kind, "__init__", noted)
    gc.collect()
    gc.disable()  # a run refers to itself
    try:
        found = simulate(queue({"distribution": "exponential", "mean": "10 ms"}, duration="3 s"), engine=engine)
        left = [one() for one in made]
    finally:
        gc.enable()
    assert len(left) == 1
    assert found.tables["visits"]["end_ns"].size > 100
    assert left == [None] if engine == "auto" else not vars(left[0])


@pytest.mark.parametrize("plane", [PlainPlane, CompiledPlane, ScanPlane])
def test_messages_are_all_that_were_sent_however_often_somebody_asks(plane: Any) -> None:
    made = queue({"distribution": "exponential", "mean": "10 ms"}, duration="3 s")
    once, often = build(made, plane=plane), build(made, plane=plane)
    for instant in (NS // 3, NS // 2, NS // 2, NS, 2 * NS - 1):
        often.run(instant)
        often.plane.messages()
    for control in (once, often):
        control.run(3 * NS)
    found = {key: list(numbers) for key, numbers in often.plane.messages().items()}
    assert found == {key: list(numbers) for key, numbers in once.plane.messages().items()}
    assert sum(count for count, _ in found.values()) > 300
    assert len(found) == 3


@pytest.mark.parametrize("make", [random_job, storm, lattice_job])
@pytest.mark.parametrize("seed", range(12))
def test_every_tuple_that_was_sent_is_somewhere_at_every_cut(seed: int, make: Any) -> None:
    draw = Random(seed)
    made = unchecked(whole_numbers(make(draw, fault_tolerance=METHODS[seed % 4])))
    watched = Watched.of(made)
    checked = []

    def check(now_ns: int) -> None:
        counts = watched.counts()[1:]  # without the source, which comes first
        assert [each.sent for each in counts] == [each.found for each in counts], now_ns
        checked.append(now_ns)

    lattice = [k * NS // 10 for k in range(1, 70)]  # crashes and checkpoints lie there, too
    timers(watched.control, lattice + [draw.randrange(1, 12 * NS) for _ in range(60)], check)
    watched.control.run(14 * NS)
    assert len(checked) == 129


def test_every_tuple_is_somewhere_in_jobs_that_meet_every_state() -> None:
    # Otherwise the test above could pass by looking away.
    most = dict.fromkeys(("queued", "wire", "serving", "held", "dropped"), 0)
    replayed = 0
    for make, seed in ((lattice_job, 3), (lattice_job, 13), (storm, 12)):
        watched = Watched.of(unchecked(whole_numbers(make(Random(seed)))))

        def check(now_ns: int, watched: Watched = watched) -> None:
            counts = watched.counts()[1:]
            assert [each.sent for each in counts] == [each.found for each in counts], now_ns
            for name in most:
                most[name] = max(most[name], *(getattr(each, name) for each in counts))

        timers(watched.control, [k * NS // 200 for k in range(1, 1200)], check)
        watched.control.run(6 * NS)
        replayed += sum(watched.replayed.values())
    assert min(most.values()) > 0, most
    assert replayed > 0


@pytest.mark.parametrize("load", [0.7, 1.2])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_mean_queue_is_the_rate_times_the_mean_wait(load: float, threads: int) -> None:
    # Little's law path by path, in whole nanoseconds: the integral of the queue that is seen between all instants at
    # which it can change is the sum of the waits, those that are not over counted up to the end.
    law = {"distribution": "exponential", "mean": "10 ms"}
    made = queue(
        law,
        duration="20 s",
        q={"threads": threads},
        workload={"src": {"rate": f"{100 * threads * load} /s", "batch": 2}},
    )
    end = duration_ns(made)
    rows = run_with(made).tables
    own = rows["visits"]["operator"] == 1
    arrival, start = rows["visits"]["arrival_ns"][own], rows["visits"]["start_ns"][own]
    left = rows["waiting"]["arrival_ns"][rows["waiting"]["operator"] == 1]
    changes = np.unique(np.concatenate([arrival, start, left, [end]]))
    control = build(made, plane=CompiledPlane)
    plane = compiled(control)
    area, before = 0, 0

    def check(now_ns: int) -> None:
        nonlocal area, before
        area += (now_ns - before) * len(tuples(plane, "queue_head", plane.state.tasks[1]))
        before = now_ns

    timers(control, [int(change) for change in changes if change < end], check)
    control.run(end)
    check(end)
    waits = int((start - arrival).sum()) + int((end - left).sum())
    assert area == waits
    assert waits > 10 * NS
    rate, mean_wait = (arrival.size + left.size) / end, waits / (arrival.size + left.size)
    assert area / end == pytest.approx(rate * mean_wait, rel=1e-12)


@pytest.mark.parametrize("seed", range(16))
def test_timers_that_do_nothing_change_no_row(seed: int) -> None:
    draw = Random(seed)
    make = storm if seed % 2 else random_job
    made = unchecked(make(draw, fault_tolerance=METHODS[seed // 2 % 4]))
    plain = run_with(made)
    end = duration_ns(made)
    visits = plain.tables["visits"]
    busy = [int(at) for name in ("arrival_ns", "start_ns", "end_ns") for at in visits[name] if 0 < at < end]
    at_events = draw.sample(busy, min(len(busy), 100)) if busy else []
    for instants in ([draw.randrange(1, end) for _ in range(100)], at_events, at_events + [at + 1 for at in at_events]):
        assert digest(run_with(made, instants)) == digest(plain)


def large() -> Scenario:
    """A minute of 8,000 tuples per second through two keyed operators on shared cores, with checkpoints and a crash."""
    return scenario(
        {
            "duration": "60 s",
            "warmup": "5 s",
            "workload": {"src": {"rate": "8000 /s", "keys": {"distribution": "zipf", "count": 5000, "exponent": 0.9}}},
            "operators": {
                "src": {"kind": "source", "parallelism": 4},
                "one": {
                    "kind": "aggregate",
                    "inputs": {"src": "key"},
                    "parallelism": 4,
                    "key_groups": 32,
                    "service": {"distribution": "exponential", "mean": "250 us"},
                    "serialise": "50 MB/s",
                    "state": {"model": "per-key", "bytes": "1 kB"},
                },
                "two": {
                    "kind": "aggregate",
                    "inputs": {"one": "key"},
                    "parallelism": 4,
                    "key_groups": 32,
                    "service": {"distribution": "lognormal", "mean": "150 us", "cv": 2.0},
                    "serialise": "50 MB/s",
                    "state": {"model": "per-key", "bytes": "1 kB"},
                },
                "out": {"kind": "sink", "inputs": {"two": "shuffle"}},
            },
            "hosts": {"h": {"count": 5, "cpu": "shared", "cores": 1, "network": "100 MB/s"}},
            "network": {"latency": "200 us"},
            "fault_tolerance": {"method": "checkpoint", "interval": "5 s", "staggered": True},
            "detector": {"heartbeat": "500 ms", "timeout": "2 s"},
            "events": {"crash": {"at": "31 s", "kind": "host-failure", "host": "h-3", "repair": "10 s"}},
            "recording": {"detail": "histograms"},
        }
    )


@pytest.mark.slow
def test_timers_that_do_nothing_change_no_row_at_full_size() -> None:
    made, draw = large(), Random(5)
    plain = run_with(made)
    assert plain.detail == "histograms"
    times = plain.tables["times"]
    assert times["count"][times["what"] == "latency"].sum() > 400_000
    assert plain.tables["checkpoints"]["taken_ns"].size > 600
    end = duration_ns(made)
    instants = [draw.randrange(1, end) for _ in range(2000)] + [k * NS // 8 for k in range(1, 480)]
    assert digest(run_with(made, instants)) == digest(plain)
