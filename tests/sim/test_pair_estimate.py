"""The estimate counts the pairs of partitions of which one keeps outputs for the other, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest
from small_jobs import scenario

from models.scenario.scenario import Scenario
from models.steady_state.estimate import BYTES_PER_PAIR, estimate, kept_pairs
from models.steady_state.flow import flows
from sim import engine
from sim.kernel.event_loop.plane import CompiledPlane


def job(groups: int, *, new_keys: bool, method: str = "elastic-upstream-backup", **trimming: str) -> Scenario:
    keys = {"distribution": "uniform", "count": 5000}
    service = {"distribution": "deterministic", "value": "10 us"}
    state = {"model": "fixed", "bytes": "1 kB"}
    inner = {"kind": "aggregate", "key_groups": groups, "parallelism": 2, "service": service, "state": state}
    first: dict[str, Any] = inner | {"inputs": {"in": "key"}}
    if new_keys:
        first["output"] = {"keys": keys}
    tolerance: dict[str, Any] = {"method": method, "interval": "1 s", "store": "remote"}
    if method == "elastic-upstream-backup":
        tolerance["trimming"] = {"slice": "1 s", "every": "1 s"} | trimming
    raw = {
        "format": 1,
        "name": "pairs",
        "seed": 7,
        "duration": "4 s",
        "workload": {"in": {"rate": "2000 /s", "keys": keys}},
        "operators": {
            "in": {"kind": "source"},
            "first": first,
            "second": inner | {"inputs": {"first": "key"}},
            "out": {"kind": "sink", "inputs": {"second": "shuffle"}},
        },
        "hosts": {"h": {"count": 4, "cores": 16, "failures": {"model": "exponential", "mtbf": "9 d", "repair": "1 s"}}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": tolerance,
    }
    return scenario(raw)


@pytest.mark.parametrize("new_keys", [False, True])
@pytest.mark.parametrize("groups", [8, 60, 400])
def test_pairs_are_as_many_as_in_the_run(groups: int, new_keys: bool) -> None:
    made = job(groups, new_keys=new_keys)
    control = engine.build(made, None, 0, CompiledPlane)
    control.run(4 * 10**9)
    assert isinstance(control.plane, CompiledPlane)
    assert kept_pairs(made, flows(made)) == pytest.approx(int(control.plane.state.tables["pairs"]), rel=0.2)


def test_memory_and_time_count_pairs_and_rounds() -> None:
    few, many = (estimate(job(groups, new_keys=True)) for groups in (8, 2000))
    pairs = kept_pairs(job(2000, new_keys=True), {**flows(job(2000, new_keys=True))})
    assert many.memory_bytes - few.memory_bytes > pairs * BYTES_PER_PAIR
    rarely, often = (estimate(job(2000, new_keys=True, every=every)).time_s for every in ("3 s", "100 ms"))
    assert often - rarely > 36 * pairs * 1e-7
    coarse, fine = (estimate(job(2000, new_keys=True, slice=slice_)).time_s for slice_ in ("1 s", "10 ms"))
    assert fine > coarse + 0.01
    by_checkpoints = estimate(job(2000, new_keys=True, method="checkpoint"))
    assert few.memory_bytes < by_checkpoints.memory_bytes < many.memory_bytes


def test_without_failures_no_output_is_kept() -> None:
    made = job(400, new_keys=True)
    calm = made.model_copy(
        update={"hosts": {name: one.model_copy(update={"failures": None}) for name, one in made.hosts.items()}}
    )
    assert kept_pairs(calm, flows(calm)) == 0
