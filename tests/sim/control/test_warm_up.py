"""Hosts that are slower after tasks have started on them again.

Oracles: instants by hand, both planes in random jobs, and mutants that the instants must catch.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from scripts import unchecked
from test_barriers import job, with_barriers
from test_cluster_view import column, dies
from test_planes import differences
from test_recovery import random_job
from test_region_restart import NOTICED

from models.errors import InputError
from models.records.tables import EVENT_LOOP, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from sim.control.cluster import RunPlan
from sim.control.paces import Paces
from sim.engine import simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

COLD = {"duration": "300 ms", "slowdown": 2.0}


def restarted(plane: Any = PlainPlane, load: dict[str, Any] | None = None, **recovery: Any) -> RunRecords:
    """All tasks of the job start again at 2.2 s or later, on the other host; `late` takes 40 ms for a record."""
    raw = job(events={"dies": dies(0, 2180)}, detector=NOTICED, recovery=recovery)
    raw["hosts"]["h"] |= {"load": load} if load else {}
    return simulate(unchecked(raw), plane=plane)


def services(found: RunRecords, operator: int = 3) -> tuple[float, list[tuple[float, float]]]:
    """Return when the operator goes on [ms], and (start, time) of each of its services after that [ms]."""
    at = max(at for one, at in column(found, "recoveries", "operator", "restored_ns") if one == operator)
    rows = column(found, "visits", "operator", "start_ns", "end_ns")
    return at, [(start, end - start) for one, start, end in rows if one == operator and start >= at and end > 0]


def is_slower_for_its_time(found: RunRecords) -> None:
    """Each service takes twice as long before the end of the cold time, which begins with the last state there."""
    begin, found_services = services(found)
    last = max(at for (at,) in column(found, "recoveries", "restored_ns"))
    assert begin <= last
    cold = [took for start, took in found_services if start + 80 <= last + 300]
    warm = [took for start, took in found_services if start >= last + 300]
    across = [(start, took) for start, took in found_services if start < last + 300 < start + took]
    assert len(cold) >= 2
    assert len(warm) >= 2
    assert cold == [80.0] * len(cold)
    assert warm == [40.0] * len(warm)
    for start, took in across:  # what is left at the end of the cold time takes half as long
        assert took == pytest.approx((last + 300 - start) / 2 + 40, abs=0.01)


def test_services_take_longer_for_a_time_after_a_restart() -> None:
    found = restarted(warm_up=COLD)
    is_slower_for_its_time(found)
    usual = restarted()
    assert {took for _, took in services(usual)[1]} == {40.0}
    caught_up = [max(at for (at,) in column(one, "recoveries", "caught_up_ns")) for one in (usual, found)]
    assert caught_up[0] < caught_up[1]


def test_before_the_failure_nothing_is_slower() -> None:
    rows = column(restarted(warm_up=COLD), "visits", "operator", "start_ns", "end_ns")
    assert {round(end - start, 6) for one, start, end in rows if one == 3 and 0 < end < 2180} == {40.0}


def test_what_others_take_is_taken_of_what_is_left() -> None:
    # Others have half of the CPU from 2.3 s on: a quarter is left while the host is cold, and then half.
    found = restarted(load={"steps": [{"at": "2300 ms", "share": 0.5}]}, warm_up={"duration": "1 s", "slowdown": 2.0})
    last = max(at for (at,) in column(found, "recoveries", "restored_ns"))
    _, rows = services(found)
    assert {took for start, took in rows if 2300 <= start < last + 1000 - 160} == {160.0}
    assert {took for start, took in rows if start >= last + 1000} == {80.0}


def never_warm(patch: pytest.MonkeyPatch) -> None:
    def waits(self: Paces, host: int, until: int) -> Any:
        yield self.state.clock.sleep(until)

    patch.setattr(Paces, "_warm", waits)


def warm_after_the_first(patch: pytest.MonkeyPatch) -> None:
    """A second task does not make the cold time of its host longer."""
    restarted = Paces.restarted
    patch.setattr(Paces, "restarted", lambda self, host: None if self._cold_until[host] else restarted(self, host))


def cold_everywhere_else(patch: pytest.MonkeyPatch) -> None:
    restarted = Paces.restarted
    patch.setattr(Paces, "restarted", lambda self, host: restarted(self, 1 - host))


@pytest.mark.parametrize("mutant", [never_warm, warm_after_the_first, cold_everywhere_else])
def test_instants_catch_a_wrong_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        is_slower_for_its_time(restarted(warm_up=COLD))


def cold(make: Callable[[Random], dict[str, Any]], seed: int) -> dict[str, Any]:
    draw = Random(f"warm up {seed}")
    raw = make(draw)
    warm_up = {"duration": draw.choice(["50 ms", "400 ms", "2 s"]), "slowdown": draw.choice([1.5, 3.0])}
    raw["recovery"] = raw.get("recovery", {}) | {"warm_up": warm_up}
    return raw


def test_both_planes_give_equal_rows() -> None:
    for make in (with_barriers, random_job):
        for seed in range(4):
            made = unchecked(cold(make, seed))
            assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


@pytest.mark.slow
def test_both_planes_give_equal_rows_in_many_random_jobs() -> None:
    for make in (with_barriers, random_job):
        for seed in range(100):
            made = unchecked(cold(make, seed))
            assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


def test_a_run_that_warms_up_has_the_event_loop() -> None:
    raw = {**job(), "fault_tolerance": {"method": "checkpoint", "interval": "1 s"}, "recovery": {"warm_up": COLD}}
    assert kernel_for(RunPlan.of(unchecked(raw), RunInputs(), 0)).name == EVENT_LOOP


@pytest.mark.parametrize(
    ("warm_up", "path"),
    [
        ({"duration": "1 s", "slowdown": 1.0}, "recovery.warm_up.slowdown"),
        ({"duration": "0 s", "slowdown": 2.0}, "recovery.warm_up.duration"),
        ({"duration": "1 s"}, "recovery.warm_up.slowdown"),
    ],
)
def test_a_warm_up_that_is_none_is_refused(warm_up: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(job(recovery={"warm_up": warm_up}))
    assert path in {fault.path for fault in caught.value.faults}
