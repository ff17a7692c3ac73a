"""Hosts that die while the whole job stops for a move of key groups: it goes back to its last checkpoint and goes on.

Oracle: the outputs and states of the same job in which nothing moves and nothing dies; rows of the compiled plane
against those of the plain one. No tolerance. Rules that are broken on purpose are noticed.
"""

from __future__ import annotations

from typing import Any

import pytest
from crashing_steps import stopping_job
from seeds import sample
from test_crashes_in_steps import dies, faults, faults_of, ran, steps, undisturbed
from test_megaphone import MS, rows_of
from test_planes import differences
from test_windows_in_steps import got
from timed_steps import WINDOWS

from models.records.tables import NEVER
from models.scenario.reading import scenario_from
from models.scenario.rules import faults as wrong
from models.scenario.rules import not_simulated
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.pausing import PausingContext
from sim.migration.reconfigurations import Reconfigurations
from sim.plain.plane import PlainPlane

PLANES = (PlainPlane, CompiledPlane)


def stopped(**changes: Any) -> dict[str, Any]:
    """Four key groups go from a task to another while the job stops, for 100 ms besides what it takes."""
    raw = steps(**changes)
    event = {"kind": "reconfigure", "at": "750 ms", "operator": "op", "protocol": "stop-and-restart"}
    store = {"request": "0.2 ms", "bandwidth": "2 MB/s", "concurrency": 2}
    return raw | {"events": {"move": event | {"restart": "100 ms", "owners": [1] * 8}}, "state_store": store}


def test_what_it_moves_beside_hosts_that_die_is_accepted() -> None:
    for seed in range(20):
        scenario = scenario_from(stopping_job(seed))
        assert [*wrong(scenario), *not_simulated(scenario)] == []


@pytest.mark.parametrize("part", range(2))
def test_nothing_is_lost_or_applied_twice_whatever_dies(part: int) -> None:
    cancelled = 0
    for seed in range(part, 24, 2):
        raw = stopping_job(seed, crashes=1 + seed % 2)
        control, found = ran(raw)
        assert faults_of(control, found, *ran(undisturbed(raw))) == [], seed
        cancelled += sum(run.cancelled_ns != NEVER for run in control.reconfigurations.runs)
    assert cancelled > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_jobs(part: int) -> None:
    for seed in range(100 + part, 1_000, 4):
        assert faults(stopping_job(seed, crashes=1 + seed % 3)) == [], seed


@pytest.mark.parametrize("seed", sample(6, 100))
def test_both_planes_have_equal_rows_whatever_dies(seed: int) -> None:
    raw = stopping_job(seed, crashes=1 + seed % 2)
    assert differences(*(rows_of(raw, plane) for plane in PLANES)) == []


@pytest.mark.parametrize("host", range(4))
def test_a_host_may_die_in_each_phase(host: int) -> None:
    """Sources stop at 751 ms, states are written, all wait for the restart, states are read, and sources go on."""
    raw = stopped()
    right = ran(undisturbed(raw))
    control, _ = ran(raw)
    (one,) = control.reconfigurations.runs[0].times
    assert one.installed_ns > 900 * MS
    ends = set()
    for at_ns in range(745 * MS, one.installed_ns + 20 * MS, 17 * MS):
        control, found = ran(dies(raw, at_ns, host))
        assert faults_of(control, found, *right) == [], at_ns
        ends.add(control.reconfigurations.runs[0].cancelled_ns != NEVER)
    assert ends == {False, True}


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_come_back_where_the_job_has_stopped(window: dict[str, str]) -> None:
    raw = stopped() | {"duration": "5 s"}
    raw["operators"]["op"]["window"] = window
    load = {"steps": [{"at": "0 s", "rate": "200 /s"}, {"at": "1.5 s", "rate": "0 /s"}]}
    raw["workload"]["src"] |= {"watermark": "20 ms", "rate": load}
    expected = got(ran(undisturbed(raw))[0])
    for host in range(4):
        control, _ = ran(dies(raw, 800 * MS, host))
        assert control.reconfigurations.runs[0].cancelled_ns != NEVER
        assert isinstance(control.plane, PlainPlane)
        assert control.plane.watermarks.late == [], host  # type: ignore[attr-defined]
        assert got(control) == expected, host


def later() -> dict[str, Any]:
    """The job stops once more after a host has died in the first stop."""
    raw = dies(stopped(), 800 * MS, 2)
    again = raw["events"]["move"] | {"at": "1.4 s"}
    return raw | {"events": raw["events"] | {"again": again}}


def test_a_later_stop_is_one_of_the_tasks_that_live() -> None:
    control, found = ran(later())
    assert faults_of(control, found, *ran(undisturbed(later()))) == []
    first, second = control.reconfigurations.runs
    assert first.cancelled_ns != NEVER
    assert second.completed_ns is not None


def test_dead_tasks_that_are_waited_for_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = property(lambda self: range(len(self._cluster.task_operator)))
    monkeypatch.setattr(PausingContext, "tasks", everybody)
    assert "a move never ends" in faults(later())


def test_a_stop_that_goes_on_after_a_crash_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reconfigurations, "can_be_cancelled", lambda *_: False)
    with pytest.raises((AssertionError, ValueError, KeyError, IndexError)):
        assert faults(dies(stopped(), 800 * MS, 2)) == []
