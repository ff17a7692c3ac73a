"""Stream threads that poll: how many records a poll returns, what it takes of the thread, and what that does to a job.

Oracles: instants by hand, a closed formula for a thread that is always busy, both planes, guarantees in random jobs,
and mutants.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from seeds import parts
from test_changelogs import fixed, ran, with_changelogs
from test_changelogs import job as with_commits
from test_planes import differences
from test_recovery import check

from models.scenario.inputs import RunInputs
from models.scenario.rules import faults
from models.scenario.rules.int64_limits import whole_time_faults
from models.scenario.rules.support import not_simulated
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.choice import EVENT_LOOP, kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

MS = 1_000_000
PLANES = (PlainPlane, CompiledPlane)


def job(rate: str = "10 /s", service: str = "30 ms", **reading: Any) -> dict[str, Any]:
    """One stream thread; a record each 100 ms from 100 ms on."""
    raw = with_commits(events={}, duration="20 s")
    raw["workload"]["in"]["rate"] = rate
    raw["operators"]["count"] |= {"parallelism": 1, "key_groups": 1, "service": fixed(service)}
    raw["hosts"]["app"] = {"count": 1}
    if reading:
        raw["operators"]["in"]["reading"] = reading
    return raw


def services(raw: dict[str, Any]) -> list[tuple[float, float]]:
    """Begin and length of each service of the thread [ms], in both planes."""
    visits = ran(raw).tables["visits"]
    own = (visits["operator"] == 1) & (visits["end_ns"] > 0)
    begin, end = visits["start_ns"][own] / MS, visits["end_ns"][own] / MS
    return [(float(one), float(length)) for one, length in zip(begin, end - begin, strict=True)]


def test_a_poll_returns_what_waits_and_its_first_record_takes_its_time_as_well() -> None:
    found = services(job(poll=3, cost=fixed("100 ms")))
    # One at a time until two have come during a poll; 1000 and 1100 are there when the thread polls at 1070 and 1200.
    assert found[:6] == [(100, 130), (230, 130), (360, 130), (490, 130), (620, 130), (750, 30)]
    assert found[6:10] == [(780, 130), (910, 130), (1040, 30), (1070, 130)]


def check_limit() -> None:
    """A thread that is always busy takes `poll` records each time: so many in a poll and their services."""
    found = services(job(rate="100 /s", service="10 ms", poll=4, cost=fixed("50 ms")))[30:]
    lengths = [length for _, length in found]
    first = lengths.index(60)
    assert lengths[first : first + 12] == [60, 10, 10, 10] * 3
    begins = [begin for begin, length in found if length == 60]
    assert set(np.diff(begins).round(6)) == {90.0}


def test_a_busy_thread_polls_up_to_the_limit() -> None:
    check_limit()


def test_polls_without_a_cost_change_nothing() -> None:
    plain, polled = (ran(with_commits()), ran(_polling(with_commits(), poll=2)))
    assert differences(plain, polled) == []


def _polling(raw: dict[str, Any], **reading: Any) -> dict[str, Any]:
    raw["operators"]["in"]["reading"] = reading
    return raw


def caught_up_s(**reading: Any) -> float:
    """When the outage is over in which an instance of three is killed [s]."""
    raw = with_commits(duration="400 s")
    raw["operators"]["count"]["service"] = fixed("60 ms")
    if reading:
        _polling(raw, **reading)
    return float(ran(raw).tables["recoveries"]["caught_up_ns"].max() / 1e9)


def test_polls_of_few_records_make_a_catch_up_longer() -> None:
    large, small = (caught_up_s(poll=most, cost=fixed("40 ms")) for most in (1000, 2))
    assert caught_up_s() < large < small


# -- random jobs


def with_polls(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job with changelogs whose tasks poll."""
    raw = with_changelogs(draw, **more)
    reading: dict[str, Any] = {"poll": draw.choice([1, 3, 20])}
    cost = [fixed("2 ms"), {"distribution": "exponential", "mean": "5 ms"}]
    cost += [{"distribution": "gamma", "mean": "3 ms", "shape": 2.5}]
    reading["cost"] = draw.choice(cost)
    for operator in raw["operators"].values():
        if operator["kind"] == "source":
            operator["reading"] = reading
    return raw


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_whatever_dies(guarantee: str) -> None:
    assert sum(check(Random(f"polls {seed}"), guarantee, with_polls) for seed in range(5)) >= 2


def planes_agree(seed: int) -> bool:
    """Compare the rows of a job; return whether tasks of it poll."""
    made = unchecked(with_polls(Random(f"polls {seed}")))
    assert differences(*(simulate(made, plane=plane) for plane in PLANES)) == [], seed
    return bool(made.polling)


@pytest.mark.parametrize("seeds", parts(2, 16))
def test_both_planes_give_equal_rows(seeds: range) -> None:
    assert sum(planes_agree(seed) for seed in seeds) > len(seeds) / 2


@pytest.mark.slow
def test_both_planes_give_equal_rows_in_many_random_jobs() -> None:
    assert sum(planes_agree(seed) for seed in range(16, 200)) > 92


def test_tasks_that_poll_run_in_the_event_loop() -> None:
    raw = job(poll=3, cost=fixed("100 ms"))
    raw["fault_tolerance"]["snapshots"] = {"mode": "synchronous"}
    kernel = kernel_for(RunPlan.of(unchecked(raw), RunInputs(), 0))
    assert (kernel.name, kernel.why) == (EVENT_LOOP, "count polls")


# -- mutants


def test_a_poll_without_a_limit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Task, first: int) -> int:
        self.polled = (self.polled or 10**9) - 1
        return self.operator.poll_ns(first) if self.polled == 10**9 - 1 and self.operator.poll_ns else 0

    monkeypatch.setattr(Task, "_poll_ns", broken)
    with pytest.raises(AssertionError):
        check_limit()


def test_a_poll_for_each_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Task, "_poll_ns", lambda self, first: self.operator.poll_ns(first) if self.operator.poll else 0)
    with pytest.raises(AssertionError):
        check_limit()


def test_a_poll_that_counts_what_is_beside_the_lanes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Task, "_in_lanes", lambda self: 0)
    with pytest.raises(AssertionError):
        check_limit()


# -- bad input


def said(raw: dict[str, Any]) -> list[str]:
    made = unchecked(raw)
    assert list(faults(made)) == []  # what follows is valid, and not simulated
    return [f"{fault.path}: {fault.rule} ({fault.hint})" for fault in not_simulated(made)]


def test_a_topic_without_an_engine_has_no_files() -> None:
    (text,) = said(job(file="200 ms"))
    assert text.startswith("operators.in.reading.file: ")
    assert "with the method changelog a poll is" in text


def test_polls_need_a_task_that_they_occupy() -> None:
    raw = job()
    raw["operators"]["in2"] = {"kind": "source", "reading": {"poll": 3}}
    raw["workload"]["in2"] = raw["workload"]["in"]
    raw["placement"]["operators"]["in2"] = "broker"
    raw["operators"]["out"]["inputs"]["in2"] = "shuffle"
    (text,) = said(raw)
    assert text.startswith("operators.in2.reading: ")
    assert "polls occupy its tasks" in text


def test_a_task_polls_all_its_sources_in_one_way() -> None:
    raw = job(poll=3)
    raw["operators"]["in2"] = {"kind": "source", "reading": {"poll": 4}}
    raw["workload"]["in2"] = raw["workload"]["in"]
    raw["placement"]["operators"]["in2"] = "broker"
    raw["operators"]["count"]["inputs"]["in2"] = "key"
    (text,) = said(raw)
    assert "with the same reading of all sources of count it is" in text
    raw["operators"]["in2"]["reading"] = {"poll": 3}
    assert said(raw) == []


def test_polls_of_more_than_the_run_can_count_are_refused() -> None:
    (fault,) = whole_time_faults(unchecked(job(poll=3, cost=fixed("10000000 s"))), RunInputs())
    assert fault.path == "operators.in.reading.cost.value"
    assert fault.rule.startswith("all polls of count may take")
