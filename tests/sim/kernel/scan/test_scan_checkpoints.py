"""Checkpoints in the scan: equal rows, in every table, to those of the event loop and of their specification.

Oracle: `sim.plain`, by equality of all columns; no tolerance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scan_jobs import checkpointed_job, writing_job
from test_planes import differences
from test_scan import WIDE, cut_up, kernel, made

from models.records.tables import NEVER, SCAN
from models.scenario.inputs import RunInputs
from models.steady_state.checkpoint_traffic import link_sharing
from sim.control.cluster import Cluster, RunPlan
from sim.engine import build, simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.scan.entities import LOG_CHUNK
from sim.kernel.scan.plane import ScanPlane
from sim.plain.plane import PlainPlane


def checkpoint_hosts(raw: dict[str, Any], draw: Random) -> RunInputs:
    """A planned checkpoint host for some key groups, which may be the owner."""
    cluster = Cluster(RunPlan.of(made(raw), RunInputs(), 0))
    hosts = cluster.plan.host_names
    found = {
        (cluster.plan.operators[operator].name, index): draw.choice(hosts)
        for operator, index in zip(cluster.partition_operator, cluster.partition_index, strict=True)
        if draw.random() < 0.5
    }
    return RunInputs(checkpoint_hosts=found)


def equal_checkpoints(seed: int) -> None:
    draw = Random(seed)
    raw = checkpointed_job(draw)
    inputs = checkpoint_hosts(raw, draw)
    job = made(raw)
    assert kernel(raw).name == SCAN
    found = simulate(job, inputs, plane=ScanPlane)
    assert differences(simulate(job, inputs, plane=PlainPlane), found) == []
    assert differences(simulate(job, inputs, plane=CompiledPlane), found) == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_three_planes_take_equal_checkpoints(seed: int) -> None:
    equal_checkpoints(seed)


@pytest.mark.slow
def test_three_planes_take_equal_checkpoints_in_many_jobs() -> None:
    for seed in range(1000):
        equal_checkpoints(seed)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_snapshots_take_time_on_all_planes(seed: int) -> None:
    raw = writing_job(Random(seed))
    job = made(raw)
    assert kernel(raw).name == SCAN
    found = simulate(job, plane=ScanPlane)
    assert differences(simulate(job, plane=PlainPlane), found) == []
    assert differences(simulate(job, plane=CompiledPlane), found) == []


def test_these_jobs_have_checkpoints_at_the_instants_of_other_events() -> None:
    found: Counter[str] = Counter()
    for seed in range(60):
        records = simulate(made(checkpointed_job(Random(seed))), plane=ScanPlane)
        visits, taken = records.tables["visits"], records.tables["checkpoints"]["taken_ns"]
        served = visits["end_ns"] > visits["start_ns"]
        found["end"] += int(np.isin(visits["end_ns"][served], taken).sum())
        found["start"] += int(np.isin(visits["start_ns"][served], taken).sum())
        found["arrival"] += int(np.isin(visits["arrival_ns"], taken).sum())
        found["sample"] += int(np.isin(records.tables["samples"]["at_ns"], taken).sum())
        found["stored"] += int(np.isin(records.tables["checkpoints"]["stored_ns"], taken).sum())
    assert min(found[kind] for kind in ("end", "start", "arrival", "sample", "stored")) > 20, found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_cuts_change_no_checkpoint(seed: int) -> None:
    draw = Random(seed)
    job = made(checkpointed_job(draw))
    assert differences(simulate(job, plane=ScanPlane), cut_up(job, draw, draw.choice([1, 10, 300]))) == []


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_checkpoints_are_the_same_beside_histograms(seed: int) -> None:
    job = made(checkpointed_job(Random(seed)) | {"recording": {"detail": "histograms"}})
    assert differences(simulate(job, plane=CompiledPlane), simulate(job, plane=ScanPlane)) == []


KEYED = {"parallelism": 8, "key_groups": 24, "service": {"distribution": "exponential", "mean": "0.7 ms"}}
KEYS = {"distribution": "uniform", "count": 900}

LARGE: dict[str, Any] = {
    "duration": "3 s",
    "workload": {"in": {"rate": "6000 /s", "keys": KEYS}},
    "operators": {
        "in": {"kind": "source", "parallelism": 3},
        "one": KEYED
        | {
            "kind": "aggregate",
            "inputs": {"in": "key"},
            "state": {"model": "per-key", "bytes": "1 kB"},
            "output": {"tuple": "80 B", "keys": KEYS},
        },
        "two": KEYED
        | {"kind": "map", "inputs": {"one": "key"}, "state": {"model": "per-tuple", "bytes": "10 B"}}
        | {"selectivity": 1.5},
        "out": {"kind": "sink", "parallelism": 3, "inputs": {"two": "shuffle", "in": "shuffle"}},
    },
    "hosts": {"worker": {"count": 8}, "edge": {"count": 3}},
    "placement": {"operators": {"in": "edge", "one": "worker", "two": "worker", "out": "edge"}},
    "network": {"latency": "0.5 ms"},
    "fault_tolerance": {"method": "checkpoint", "interval": "300 ms", "staggered": True},
}


@pytest.mark.parametrize(
    ("detail", "tolerance"),
    [
        ("histograms", {}),
        ("tuples", {"kind": "full"}),
        ("histograms", {"store": "remote", "remote": "300 kB/s"}),
        ("tuples", {"staggered": False}),
    ],
)
def test_many_tuples_between_checkpoints(detail: str, tolerance: dict[str, Any]) -> None:
    job = made(LARGE | {"recording": {"detail": detail}, "fault_tolerance": LARGE["fault_tolerance"] | tolerance})
    found = simulate(job, plane=ScanPlane)
    assert found.tables["checkpoints"]["bytes"].size > 50
    assert differences(simulate(job, plane=CompiledPlane), found) == []
    assert differences(cut_up(job, Random(1), 40), found) == []


@pytest.mark.parametrize("staggered", [True, False])
def test_many_tuples_between_snapshots_that_take_time(staggered: bool) -> None:
    tolerance = LARGE["fault_tolerance"] | {"staggered": staggered}
    job = made(changed("one", serialise="5 MB/s") | {"duration": "1 s", "fault_tolerance": tolerance})
    found = simulate(job, plane=ScanPlane)
    assert differences(simulate(job, plane=CompiledPlane), found) == []
    assert differences(cut_up(job, Random(1), 40), found) == []


POOLS: dict[str, Any] = WIDE | {
    "hosts": {"near": {"count": 6}, "far": {"count": 2}},
    "fault_tolerance": {"method": "checkpoint", "interval": "70 ms", "staggered": True, "kind": "full"},
}


@pytest.mark.parametrize("latency", ["3 ms", "100 ms"])
def test_pools_of_threads_apply_tuples_out_of_order(latency: str) -> None:
    """What is not saved yet stays with its sender, and all that the sender sent after it; acknowledgements overlap."""
    operators = POOLS["operators"]
    busy = operators["out"] | {"threads": 40, "service": {"distribution": "lognormal", "mean": "1 ms", "cv": 6.0}}
    job = made(POOLS | {"network": {"latency": latency}, "operators": operators | {"out": busy}})
    assert kernel_for(RunPlan.of(job, RunInputs(), 0)).name == SCAN
    found = simulate(job, plane=ScanPlane)
    assert differences(simulate(job, plane=CompiledPlane), found) == []
    assert differences(cut_up(job, Random(1), 7), found) == []


def test_a_remote_store_that_is_too_slow_makes_partitions_wait_for_their_turn() -> None:
    """So the job above has partitions that are passed over, and checkpoints that are not stored at the end."""
    slow = LARGE["fault_tolerance"] | {"store": "remote", "remote": "300 kB/s"}
    found = simulate(made(LARGE | {"fault_tolerance": slow}), plane=ScanPlane).tables["checkpoints"]
    usual = simulate(made(LARGE), plane=ScanPlane).tables["checkpoints"]
    assert found["bytes"].size < usual["bytes"].size
    assert np.sum(found["stored_ns"] == NEVER) > 10


def test_staggered_checkpoints_cut_no_span() -> None:
    """160 checkpoints a second: a span still ends where a sample is taken, or after an interval."""
    control = build(made(LARGE), plane=ScanPlane)
    control.run(2_900_000_000)
    state = control.plane.state  # type: ignore[attr-defined]
    assert state.span["length"] > 100_000_000


def test_what_upstream_has_forgotten_is_not_logged_any_more() -> None:
    control = build(made(LARGE), plane=ScanPlane)
    control.run(2_900_000_000)
    state = control.plane.state  # type: ignore[attr-defined]
    used = state.log_next.shape[0] - int(state.log_pool["left"])
    waiting = int(np.sum(state.saved["arrived"] - state.saved["trimmed"]))
    assert used * LOG_CHUNK < 2 * waiting + 2 * LOG_CHUNK * state.saved.shape[0]
    assert waiting < int(np.sum(state.saved["arrived"])) // 3


def why(raw: dict[str, Any]) -> str:
    found = kernel(raw)
    return "" if found.name == SCAN else str(found.why)


@pytest.mark.parametrize("seed", range(20))
def test_links_that_are_fair_by_default_take_no_run_away_from_the_scan(seed: int) -> None:
    draw = Random(seed)
    raw = checkpointed_job(draw)
    groups = {name: {"count": draw.randint(1, 2)} for name in raw["operators"]}
    bandwidth = {"network": "1 MB/s"}
    raw["hosts"] = {name: group | (bandwidth if draw.random() < 0.3 else {}) for name, group in groups.items()}
    raw["placement"] = {"operators": {name: draw.choice([*groups]) for name in groups}}
    raw["network"].pop("sharing", None)
    chosen = link_sharing(made(raw)).sharing
    before = kernel(raw | {"network": raw["network"] | {"sharing": "fifo"}})
    assert (kernel(raw).name == SCAN) == (before.name == SCAN)
    assert chosen == "fifo" or before.name != SCAN


def changed(operator: str, **changes: Any) -> dict[str, Any]:
    operators = LARGE["operators"]
    return LARGE | {"operators": operators | {operator: operators[operator] | changes}}


def test_the_scan_leaves_to_the_event_loop_what_would_go_against_the_dataflow() -> None:
    assert why(LARGE) == ""
    assert why(changed("one", serialise="1 MB/s")) == ""
    links = {"worker": {"count": 8, "network": "1 MB/s"}, "edge": {"count": 3}}
    assert why(LARGE | {"hosts": links}) == "the link of worker-0 is shared evenly"
    fifo = {"network": {**LARGE["network"], "sharing": "fifo"}}
    assert why(LARGE | fifo | {"hosts": links}) == "one and two share the link of worker-0"
    pool = {"distribution": "exponential", "mean": "1 ms"}
    plain = {"kind": "map", "inputs": {"two": "shuffle"}, "threads": 3, "service": pool, "serialise": "1 MB/s"}
    operators = LARGE["operators"] | {"thin": plain, "out": {"kind": "sink", "inputs": {"thin": "shuffle"}}}
    pools = LARGE | {"operators": operators, "placement": {"operators": dict.fromkeys(operators, "worker")}}
    assert why(pools) == ""
    assert "no latency" in why(pools | {"network": {"latency": "0 s"}})
    slow_edge = {"worker": {"count": 8}, "edge": {"count": 3, "network": "1 MB/s"}}
    assert why(LARGE | {"hosts": slow_edge}) == "checkpoints are taken, and the link of edge-0 has a bandwidth"
    crash = {"at": "1 s", "kind": "host-failure", "host": "worker-0", "repair": "1 s"}
    assert "events" in why(LARGE | {"events": {"boom": crash}})


def test_a_job_on_one_host_has_nobody_to_hold_a_checkpoint() -> None:
    everywhere = dict.fromkeys(LARGE["operators"], "all")
    job = made(LARGE | {"hosts": {"all": {"count": 1}}, "placement": {"operators": everywhere}})
    found = simulate(job, plane=ScanPlane)
    assert found.tables["checkpoints"]["bytes"].size == 0
    assert differences(simulate(job, plane=CompiledPlane), found) == []


@pytest.mark.slow
@pytest.mark.parametrize("job", [checkpointed_job, writing_job])
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_checkpoints(part: int, job: Callable[[Random], dict[str, Any]]) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        job = made(job(Random(seed)))
        assert differences(simulate(job, plane=PlainPlane), simulate(job, plane=ScanPlane)) == [], seed
