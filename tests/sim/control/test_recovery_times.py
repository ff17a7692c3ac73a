"""Slots are allocated to what is lost, and its tasks start, in their time: instants by hand; guarantees hold."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from decided import said
from scripts import unchecked
from seeds import parts
from small_jobs import random_job, scenario
from test_cluster_view import DETECTED, MS, column, dies, job
from test_planes import differences
from test_recovery import check

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

INSTANTS = ("detected_ns", "allocated_ns", "started_ns", "restored_ns")
TIMES = {name: {"distribution": "deterministic", "value": f"{time} ms"} for name, time in
         (("allocate", 300), ("restart", 500))}  # fmt: skip


def rows(raw: dict[str, Any]) -> RunRecords:
    """The rows, which both planes make; h-3 holds the checkpoints."""
    inputs = RunInputs(checkpoint_hosts={("sum", 0): "h-3", ("sum", 1): "h-3"})
    found = simulate(scenario(raw), inputs, plane=CompiledPlane)
    assert differences(simulate(scenario(raw), inputs, plane=PlainPlane), found) == []
    return found


@pytest.mark.parametrize("given", [["allocate"], ["restart"], ["allocate", "restart"]], ids="+".join)
def test_a_restore_begins_when_slots_are_allocated_and_tasks_are_up(given: list[str]) -> None:
    found = rows(job({"dies": dies(1, 2050)}) | {"recovery": {name: TIMES[name] for name in given}})
    allocated = DETECTED + 300 * ("allocate" in given)
    started = allocated + 500 * ("restart" in given)
    (recovery,) = column(found, "recoveries", *INSTANTS, "target")
    # h-3 has the checkpoint: it is installed as soon as the task is up.
    assert recovery == (DETECTED, allocated, started, started, 3)
    assert [at / MS for at, what, _ in said(found) if "restored" in what or "resumes" in what] in ([started], [])
    assert found.tables["ledger"]["lost"].tolist() == [0, 0]


def test_without_times_both_phases_have_no_length() -> None:
    (recovery,) = column(rows(job({"dies": dies(1, 2050)})), "recoveries", *INSTANTS)
    assert recovery == (DETECTED,) * 4


def test_a_host_that_dies_meanwhile_is_not_chosen() -> None:
    # h-3 dies before the restart is over, and that is detected: the group goes to another host, without a state: to
    # h-2, with one group, and not to h-0, with two tasks.
    events = {"dies": dies(1, 2050), "too": dies(3, 2250)}
    late = {"distribution": "deterministic", "value": "2 s"}
    found = rows(job(events) | {"recovery": {"restart": late}})
    assert column(found, "recoveries", "detected_ns", "started_ns", "target")[0] == (DETECTED, DETECTED + 2000, 2)


def test_who_waits_for_a_host_allocates_it_when_one_is_there() -> None:
    # All hosts die at once; h-0 is back at 5.05 s. The allocation has waited for it, and the restart follows.
    events = {f"dies-{host}": dies(host, 2050, repair=3000 if host == 0 else None) for host in range(4)}
    found = rows(job(events) | {"recovery": TIMES})
    instants = set(column(found, "recoveries", *INSTANTS[:3]))
    assert {started - allocated for _, allocated, started in instants} == {500}
    assert {allocated for _, allocated, _ in instants} == {5050}
    assert {detected for detected, *_ in instants} == {DETECTED}


def test_a_failure_is_not_over_while_a_task_starts() -> None:
    late = {"distribution": "deterministic", "value": "20 s"}
    found = rows(job({"dies": dies(1, 2050)}) | {"recovery": {"restart": late}})
    assert found.tables["recoveries"]["host"].size == 0
    assert found.tables["failures"]["caught_up_ns"].tolist() == [NEVER]


def with_times(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job whose recoveries take their time."""
    laws = [{"distribution": "uniform", "low": "1 ms", "high": "900 ms"}, TIMES["allocate"]]
    return random_job(draw, **more) | {"recovery": {"allocate": draw.choice(laws), "restart": draw.choice(laws)}}


@pytest.mark.parametrize("seeds", parts(4, 8))
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "at-most-once"])
def test_guarantees_hold_whatever_crashes_meanwhile(guarantee: str, seeds: range) -> None:
    assert sum(check(Random(f"times {seed}"), guarantee, with_times) for seed in seeds) >= 0.75 * len(seeds)


def test_both_planes_give_equal_rows() -> None:
    for seed in range(15):
        made = unchecked(with_times(Random(f"planes {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed
