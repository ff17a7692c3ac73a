"""Restores from the remote store that all tasks make at once, with equal shares of its rate.

Oracles: instants by hand, both planes, guarantees in random jobs, and mutants that these tests must catch.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from scripts import unchecked
from test_barriers import run, with_barriers
from test_cluster_view import column, dies
from test_local_recovery import job as with_copies
from test_local_recovery import read
from test_planes import differences
from test_recovery import check

from models.scenario.rules import faults
from sim.control.restores import Restores
from sim.control.shared_reads import SharedReads
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.plane_values import REMOTE


def job(**changes: Any) -> dict[str, Any]:
    """Three tasks of a sum with four key groups of 100 kB: 100 ms of the store each; key groups 0 and 3 are at task 0.

    h-1 dies at 2.7 s, which is noticed 10 ms later; its task starts on h-3, a spare host.
    """
    raw = with_copies(**changes)
    del raw["fault_tolerance"]["local_recovery"]
    raw["fault_tolerance"]["restores"] = "shared"
    raw["operators"]["sum"]["key_groups"] = 4
    return raw


def test_tasks_share_the_store_evenly_and_each_goes_on_with_all_of_its_state() -> None:
    # Each gets a third: tasks 1 and 2 have their 100 kB after 300 ms; task 0 has 100 kB left, and the store to itself.
    found = run(job())
    assert read(found) == {1: 301, 2: 301, 0: 401, 3: 401}
    assert not found.tables["ledger"]["lost"].any()


def test_without_it_one_key_group_after_the_other_goes_on() -> None:
    raw = job()
    raw["fault_tolerance"]["restores"] = "in-turn"
    assert sorted(read(run(raw)).values()) == [101, 201, 301, 401]


def with_disks(**changes: Any) -> dict[str, Any]:
    """Six key groups of 100 kB, each 10 ms of a disk; two are at each task, and what stays has copies."""
    raw = job(**changes)
    raw["fault_tolerance"]["local_recovery"] = {"disk": "10 MB/s"}
    raw["operators"]["sum"]["key_groups"] = 6
    return raw


def test_a_task_with_copies_goes_on_with_all_of_its_state() -> None:
    assert read(run(with_disks())) == {0: 20, 3: 20, 2: 20, 5: 20, 1: 201, 4: 201}


def test_tasks_of_a_host_share_its_disk() -> None:
    raw = with_disks(hosts={"h": {"count": 4, "slots": 2}})
    raw["placement"]["tasks"]["sum-2"] = "h-0"
    raw["operators"]["sum"]["key_groups"] = 5
    # Task 2 has 10 ms to read, at half of the rate; task 0 has 10 of its 20 ms left then, and the disk to itself.
    assert read(run(raw)) == {2: 20, 0: 30, 3: 30, 1: 201, 4: 201}


def test_disks_that_share_one_rate_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Restores.begin
    monkeypatch.setattr(Restores, "begin", lambda self, host, *more: begin(self, min(host, 1), *more))
    with pytest.raises(AssertionError):
        test_a_task_with_copies_goes_on_with_all_of_its_state()


def test_copies_that_go_on_alone_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all = SharedReads.read

    def alone(self: Any, task: int, place: int, size: int, ended: Any) -> None:
        if place == REMOTE:
            read_all(self, task, place, size, ended)
        else:
            self._places.begin(place - REMOTE, size * 100, ended)

    monkeypatch.setattr(SharedReads, "read", alone)
    with pytest.raises(AssertionError):
        test_tasks_of_a_host_share_its_disk()


def second_failure() -> dict[str, Any]:
    """The host of task 2 dies 190 ms after the tasks have begun to read 300 kB each, and is back after 200 ms."""
    raw = job(events={"first": dies(1, 2700), "second": dies(2, 3200, repair=200)}, duration="8 s")
    raw["operators"]["sum"]["state"]["bytes"] = "300 kB"
    return raw


def test_what_a_dead_task_reads_takes_no_share() -> None:
    # When the failure is noticed all is rolled back, and nothing is complete. The next restore has the store to itself.
    rows = column(run(second_failure()), "recoveries", "operator", "key_group", "started_ns", "restored_ns")
    first, last = min(row[2] for row in rows), max(row[2] for row in rows)
    assert first < 3200 < last < first + 1200
    read = {int(group): there - up for operator, group, up, there in rows if operator == 1 and up == last}
    assert read == {1: 901, 2: 901, 0: 1201, 3: 1201}


def test_sources_go_on_before_what_reads() -> None:
    found = run(job())
    rows = found.tables["recoveries"]
    source = rows["operator"] == 0
    assert (rows["restored_ns"][source] == rows["started_ns"][source]).all()


# -- random jobs


def shared(draw: Random, **more: Any) -> dict[str, Any]:
    raw = with_barriers(draw, **more)
    raw["fault_tolerance"]["restores"] = "shared"
    copies = draw.choice([None, {}, {"disk": "200 kB/s"}, {"disk": "5 MB/s"}])
    raw["fault_tolerance"] |= {} if copies is None else {"local_recovery": copies}
    return raw


def test_guarantees_hold_whatever_crashes() -> None:
    assert sum(check(Random(f"shared {seed}"), "exactly-once", shared) for seed in range(8)) >= 4


def test_both_planes_give_equal_rows() -> None:
    for seed in range(10):
        made = unchecked(shared(Random(f"shared {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


# -- mutants


def test_reads_that_go_on_after_their_task_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedReads, "died", lambda self, task: None)
    with pytest.raises(AssertionError):
        test_what_a_dead_task_reads_takes_no_share()


def test_key_groups_that_share_on_their_own_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(self: Any, task: int, place: int, size: int, ended: Any) -> None:
        del task, place
        self._places.begin(
            0, size * 1000, lambda: self._clock.at(self._clock.now_ns() + self._latency_ns, 0, lambda _: ended())
        )

    monkeypatch.setattr(SharedReads, "read", alone)
    with pytest.raises(AssertionError):
        test_tasks_share_the_store_evenly_and_each_goes_on_with_all_of_its_state()


def test_shares_that_are_not_even_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Restores.__init__
    monkeypatch.setattr(Restores, "__init__", lambda self, clock, threads: init(self, clock, [100 for _ in threads]))
    with pytest.raises(AssertionError):
        test_tasks_share_the_store_evenly_and_each_goes_on_with_all_of_its_state()


# -- bad input


def test_it_needs_checkpoints_of_the_job() -> None:
    raw = job()
    del raw["fault_tolerance"]["barriers"]
    assert "fault_tolerance.restores" in {fault.path for fault in faults(unchecked(raw))}
    assert faults(unchecked(job())) == []
