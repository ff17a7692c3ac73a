"""The estimate counts what is kept: pairs of partitions, and slices that are not acknowledged."""

from __future__ import annotations

from typing import Any

import pytest
from small_jobs import scenario

from models.errors import InputError
from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from models.steady_state.estimate import check_limits, estimate
from models.steady_state.flow import flows
from models.steady_state.kept_outputs import BYTES_PER_PAIR, kept_bytes, kept_pairs, open_slices
from sim import engine
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.plain.trimming import TrimmingProtocol


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


# A checkpoint covers slices only behind it; none comes in 4 s where the interval is longer.
SLICED = [
    {"slice": "2 ms", "every": "1 s"},
    {"slice": "5 ms", "every": "100 ms"},
    {"slice": "2 ms", "every": "300 ms", "levels": 3},
    {"slice": "2 ms", "every": "3.9 s"},
    {"slice": "1 s", "every": "1 s"},
]


def run_of(made: Scenario, plane: Any) -> Any:
    control = engine.build(made, None, 0, plane)
    control.run(4 * 10**9 - 1)
    return control.plane


@pytest.mark.parametrize("trimming", SLICED, ids=str)
def test_rings_are_as_large_as_in_the_run(trimming: dict[str, Any]) -> None:
    made = job(8, new_keys=False, **trimming)
    plane = run_of(made, CompiledPlane)
    at_most = kept_bytes(made, flows(made), "compiled") - kept_pairs(made, flows(made)) * (BYTES_PER_PAIR + 120)
    measured = plane.state.slice_marks.nbytes * (1.5 if plane.state.slicing["ring"] > 16 else 1)
    assert measured <= at_most <= 2 * measured


@pytest.mark.parametrize(
    "trimming", [SLICED[0], *(pytest.param(one, marks=pytest.mark.slow) for one in SLICED[1:])], ids=str
)
def test_slices_are_as_many_in_the_plain_engine(trimming: dict[str, Any]) -> None:
    made = job(8, new_keys=False, **trimming)
    protocol, most = run_of(made, PlainPlane).trimming, open_slices(made)
    assert isinstance(protocol, TrimmingProtocol)
    marked = max(len(own.marks) for own in protocol._slices.values())
    assert marked <= max(most.values()) + 1
    assert set(most) == {"first", "second"}


def test_slices_that_stay_open_are_refused_by_limits_of_memory_and_time() -> None:
    """4,000 key groups, 60,000 slices of each, none of which is acknowledged before 50 s."""
    rare = {"duration": "60 s", "fault_tolerance.interval": "50 s", "fault_tolerance.trimming.every": "50 s"}
    made = scenario_with(job(4000, new_keys=False, slice="1 ms"), rare)
    fits = estimate(made)
    assert 6e9 < fits.memory_bytes < 7e9  # of 8,002 rings of 65,536 marks, and those of half the size before
    with pytest.raises(InputError, match=r"limits\.memory"):
        check_limits(made, fits)
    closed = estimate(scenario_with(made, {"fault_tolerance.interval": "1 s", "fault_tolerance.trimming.every": "1 s"}))
    assert closed.memory_bytes < fits.memory_bytes / 10


def test_marks_of_the_plain_engine_take_more() -> None:
    made = scenario_with(job(100, new_keys=False, slice="1 ms", every="3.9 s"), {"fault_tolerance.interval": "3.9 s"})
    coarse = scenario_with(made, {"fault_tolerance.trimming.slice": "1 s"})
    marks = 2 * 100 * 4000
    for engine_, least_bytes, least_s in (("compiled", 8 * marks, 2e-8 * marks), ("plain", 250 * marks, 1e-5 * marks)):
        fine, few = (estimate(one, engine=engine_) for one in (made, coarse))
        assert fine.memory_bytes - few.memory_bytes > 0.99 * least_bytes
        assert fine.time_s - few.time_s > 0.99 * least_s
