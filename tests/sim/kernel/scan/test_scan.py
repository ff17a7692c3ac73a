"""The scan against the event loop and their specification: equal rows, in every table, for the same scenario.

Oracle: `sim.plain`, by equality of all columns; no tolerance.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scan_jobs import scan_job
from small_jobs import queue, random_job
from test_planes import differences

from models.records.tables import EVENT_LOOP, SCAN, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim import recording
from sim.control.cluster import Cluster, RunPlan
from sim.engine import build, records, simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.scan import setup
from sim.kernel.scan.entities import CHUNK, QUEUED
from sim.kernel.scan.order import bits_of, cells_for, fits, order_by_keys, put_in_order
from sim.kernel.scan.plane import ScanPlane
from sim.plain.plane import PlainPlane
from sim.recording import HistogramRecording, TupleRecording


def made(raw: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def kernel(raw: dict[str, Any]) -> Any:
    return kernel_for(RunPlan.of(made(raw), RunInputs(), 0))


def cut_up(job: Scenario, draw: Random, cuts: int) -> RunRecords:
    """A run of the scan that stops at random instants, some on a lattice, and for a moment with one at a time."""
    control = build(job, plane=ScanPlane)
    end = to_ns(job.duration_s)
    instants = [draw.randrange(end) for _ in range(cuts)]
    instants += [draw.randrange(1 + end // 5_000_000) * 5_000_000 for _ in range(cuts)]
    for instant in sorted(instants):
        control.run(min(instant, end))
    control.run(end)
    return records(control, end)


def equal_on_three_planes(seed: int) -> None:
    raw = scan_job(Random(seed))
    assert kernel(raw).name == SCAN
    found = simulate(made(raw), plane=ScanPlane)
    assert differences(simulate(made(raw), plane=PlainPlane), found) == []
    assert differences(simulate(made(raw), plane=CompiledPlane), found) == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_three_planes_give_equal_rows(seed: int) -> None:
    equal_on_three_planes(seed)


@pytest.mark.slow
def test_three_planes_give_equal_rows_in_many_jobs() -> None:
    for seed in range(1000):
        equal_on_three_planes(seed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_cuts_change_nothing(seed: int) -> None:
    draw = Random(seed)
    job = made(scan_job(draw))
    assert differences(simulate(job, plane=ScanPlane), cut_up(job, draw, draw.choice([1, 10, 300]))) == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_histograms_are_equal_too(seed: int) -> None:
    job = made(scan_job(Random(seed)) | {"recording": {"detail": "histograms"}})
    assert differences(simulate(job, plane=CompiledPlane), simulate(job, plane=ScanPlane)) == []


WIDE: dict[str, Any] = {
    "duration": "1 s",
    "workload": {
        "in": {
            "rate": "300 /s",
            "batch": 40,
            "keys": {"distribution": "zipf", "count": 50, "exponent": 1.1},
        }
    },
    "operators": {
        "in": {"kind": "source", "parallelism": 3},
        "a": {
            "kind": "map",
            "inputs": {"in": "shuffle"},
            "parallelism": 4,
            "threads": 7,
            "service": {"distribution": "lognormal", "mean": "20 ms", "cv": 2.0},
            "selectivity": 7.5,
        },
        "b": {
            "kind": "map",
            "inputs": {"a": "broadcast"},
            "takes": {"a": 0.4},
            "parallelism": 30,
            "service": {"distribution": "gamma", "mean": "0.4 ms", "shape": 2.0},
            "selectivity": 0.3,
        },
        "c": {
            "kind": "aggregate",
            "inputs": {"a": "key", "b": "key"},
            "parallelism": 5,
            "key_groups": 17,
            "service": {"distribution": "uniform", "low": "0.01 ms", "high": "0.2 ms"},
            "state": {"model": "fixed", "bytes": "1 kB"},
        },
        "d": {
            "kind": "map",
            "inputs": {"b": "broadcast"},
            "parallelism": 2,
            "threads": 1500,
            "service": {"distribution": "exponential", "mean": "1 ms"},
        },
        "out": {"kind": "sink", "parallelism": 3, "inputs": {"c": "shuffle", "d": "broadcast"}},
    },
    "hosts": {"near": {"count": 6}, "far": {"count": 2, "network": "2 MB/s"}},
    "placement": {"operators": {"in": "near", "a": "far", "b": "near", "c": "near", "d": "near", "out": "near"}},
    "network": {"latency": "3 ms"},
}


@pytest.mark.parametrize("detail", ["tuples", "histograms"])
def test_many_tuples_in_a_span_fill_batches_and_boxes(detail: str) -> None:
    job = made(WIDE | {"recording": {"detail": detail}})
    assert kernel(WIDE).name == SCAN
    found = simulate(job, plane=ScanPlane)
    assert differences(simulate(job, plane=CompiledPlane), found) == []
    assert differences(cut_up(job, Random(1), 7), found) == []


def test_backlogs_that_outgrow_their_room_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    job = made(WIDE)
    roomy, grown, longer = simulate(job, plane=ScanPlane), set(), setup._longer

    def noted(array: np.ndarray, room: int) -> np.ndarray:
        if array.dtype == QUEUED:
            grown.add(room // CHUNK)
        return longer(array, room)

    monkeypatch.setattr(setup, "_PIECES", (1, 5, 16))
    monkeypatch.setattr(setup, "_longer", noted)
    assert differences(roomy, simulate(job, plane=ScanPlane)) == []
    assert grown >= {1, 5, 20, 40}  # first steps of four times, then of two


@pytest.mark.parametrize("of_links", [False, True])
def test_the_audit_fails_where_a_tuple_that_waits_was_changed(of_links: bool) -> None:
    control = build(made(WIDE), plane=ScanPlane)
    control.run(to_ns(1))
    s = control.plane.state
    assert control.plane.ledger()
    tasks = int(s.options["tasks"])
    queues = s.queues[tasks:] if of_links else s.queues[:tasks]
    q = queues[queues["n"] > 0][0]
    s.chunks["id"][int(q["head"]) * CHUNK + int(q["head_place"])] += np.uint64(1)
    with pytest.raises(RuntimeError, match="the audit failed"):
        control.plane.ledger()


SLOW = {"rate": {"steps": [{"at": "0 s", "rate": "0.05 /s"}, {"at": "1 h", "rate": "300 /s"}]}}


@pytest.mark.parametrize(
    "changed",
    [
        {"warmup": "500.5 ms"},
        {"duration": "3601.5 s", "warmup": "30.5 s", "network": {"latency": "7 s"}},
        {"duration": "3601.5 s", "warmup": "3600.9 s"},
    ],
    ids=["warm-up", "spans of several intervals", "a long warm-up"],
)
def test_histograms_are_equal_where_a_warm_up_ends_or_a_span_has_several_intervals(changed: dict[str, Any]) -> None:
    raw = WIDE | {"recording": {"detail": "histograms"}} | changed
    if "duration" in changed:
        raw["workload"] = {"in": WIDE["workload"]["in"] | SLOW | {"batch": 2}}
    found = simulate(made(raw), plane=ScanPlane)
    assert differences(simulate(made(raw), plane=CompiledPlane), found) == []
    assert found.tables["times"]["count"].sum() > 1000


def test_histograms_that_outgrow_the_room_they_had_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    job = made(WIDE | {"recording": {"detail": "histograms"}})
    roomy = simulate(job, plane=ScanPlane)
    grown, more = [], HistogramRecording.make_room

    def noted(kept: HistogramRecording, pages: int) -> None:
        before = kept.shared()["pages"]
        more(kept, pages)
        grown.append(kept.shared()["pages"].size - before.size)

    monkeypatch.setattr(recording, "_FIRST_PAGES", 2)
    monkeypatch.setattr(recording, "_PAGES_EACH", 0)
    monkeypatch.setattr(HistogramRecording, "make_room", noted)
    assert differences(roomy, simulate(job, plane=ScanPlane)) == []
    assert max(grown) > 0


@pytest.mark.parametrize("crowded", [0, 1])
def test_tuples_that_crowd_into_one_instant_are_put_in_order(crowded: int) -> None:
    """More than insertion would take, in one cell of a span that is long because nothing else happens."""
    n = 5000
    state = crowd(n, crowded)
    times, ranks = state.times[:n].copy(), state.ranks[:n].copy()
    put_in_order(state, n, 0, 10**12)
    assert state.order[:n].tolist() == np.lexsort((np.arange(n), ranks, times)).tolist()


@pytest.mark.parametrize("bits", [13, 20, 40, 62])
@pytest.mark.parametrize("n", [0, 1, 2, 17, 5000])
@pytest.mark.parametrize("few", [False, True])
def test_keys_are_put_in_order_however_they_crowd(bits: int, n: int, few: bool) -> None:
    state = crowd(n, 0)
    upper = 2 ** (bits - 13)
    above = np.random.default_rng(n).integers(0, min(3, upper) if few else upper, n)
    state.times[:] = above << 13 | np.arange(n)
    if few and n and bits > 13:
        state.times[0] |= (upper - 1) << 13
    expected = np.argsort(state.times).tolist()
    cells = cells_for(state, n, bits)
    np.add.at(state.counts, state.times >> (bits - cells), 1)
    order_by_keys(state, n, bits - cells, cells, 13)
    assert state.order[:n].tolist() == expected


def test_what_does_not_fit_into_a_key_is_said_to_do_so() -> None:
    assert [bits_of(n) for n in (0, 1, 2, 3, 4, 5, 2**40, 2**40 + 1)] == [0, 0, 1, 2, 2, 3, 40, 41]
    assert fits(2**40, 2**10, 2**12)
    assert not fits(2**40 + 1, 2**10, 2**12)


def crowd(n: int, crowded: int) -> Any:
    plan = RunPlan.of(queue({"distribution": "exponential", "mean": "1 ms"}), RunInputs(), 0)
    state = setup.state(plan, Cluster(plan), 256, TupleRecording())
    for name in ("times", "ranks", "refs", "kept", "order", "spare"):
        setattr(state, name, np.zeros(n, getattr(state, name).dtype))
    rng = np.random.default_rng(5)
    state.times[:] = 7 if crowded else rng.integers(0, 3000, n)
    state.ranks[:] = rng.permutation(n) if crowded else rng.integers(0, 9, n)
    return state


def test_the_kernel_is_chosen_by_what_the_scenario_asks_for() -> None:
    fast = {"distribution": "exponential", "mean": "1 ms"}
    assert kernel_for(RunPlan.of(queue(fast), RunInputs(), 0)).name == SCAN

    def why(**changes: Any) -> str:
        found = kernel_for(RunPlan.of(queue(fast, **changes), RunInputs(), 0))
        assert found.name == EVENT_LOOP
        return found.why

    shared = {"h": {"count": 1, "cpu": "shared", "cores": 2}}
    assert kernel_for(RunPlan.of(queue(fast, hosts=shared, q={"threads": 2}), RunInputs(), 0)).name == SCAN
    assert why(hosts=shared, q={"threads": 3}) == "tasks share the cores of h-0"
    assert "events" in why(events={"boom": {"at": "1 s", "kind": "host-failure", "host": "h-0", "repair": "1 s"}})
    links = {"h": {"count": 2, "network": "1 MB/s"}}
    assert "share the link of h-" in why(hosts=links, operators=THREE_ON_TWO_HOSTS)


THREE_ON_TWO_HOSTS = {
    "src": {"kind": "source", "parallelism": 2},
    "q": {
        "kind": "map",
        "inputs": {"src": "shuffle"},
        "parallelism": 2,
        "service": {"distribution": "deterministic", "value": "1 ms"},
    },
    "out": {"kind": "sink", "inputs": {"q": "shuffle"}, "parallelism": 2},
}


def test_the_engine_takes_the_scan_where_it_can_and_says_so() -> None:
    found = simulate(queue({"distribution": "exponential", "mean": "1 ms"}, duration="2 s"))
    assert found.kernel is not None
    assert found.kernel.name == SCAN


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_what_the_scan_is_chosen_for_is_done_alike_by_the_event_loop(seed: int) -> None:
    job = made(random_job(Random(seed), fault_tolerance={"method": "none"}) | {"events": {}})
    found = simulate(job)
    assert found.kernel is not None
    if found.kernel.name == SCAN:
        assert differences(simulate(job, plane=CompiledPlane), found) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_the_scan(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        job = made(scan_job(Random(seed)))
        assert differences(simulate(job, plane=PlainPlane), simulate(job, plane=ScanPlane)) == [], seed
