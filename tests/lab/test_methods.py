"""Methods of recovery under every order of steps and crashes that a scheduler finds.

`state-management` beside moves, as `checkpoint` in `test_schedules.py`; the others without moves, with a store that
outlives every host, and hosts that die at any step. A history is longer than any schedule, so that nothing may be lost;
with `active-replication` one host dies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from lab.campaigns import drawn, drawn_shaped
from lab.laboratory import Laboratory
from lab.schedule import Schedule, run
from sim.control.crash import CrashCoordinator
from sim.control.replicas import Replicas
from sim.recovery.source_backup import SourceBackup

HISTORIES = ("upstream-backup", "source-backup")
REPLICAS = "active-replication"
METHODS = ("state-management", "synchronous-checkpoints", *HISTORIES, REPLICAS)
SEEDS = 40  # of each method
MORE = range(SEEDS, 5_000)


def schedule(method: str, seed: int) -> Schedule:
    """The schedule of a seed: chains and other shapes by turns."""
    found = (drawn if seed % 2 else drawn_shaped)("cpa", seed)
    if method == "state-management":
        return replace(found, job=replace(found.job, method=method))
    # Nothing moves, so a crash that waits for a step of a move comes when the job is at rest: there is more to lose.
    rests = seed % 3 if method in (*HISTORIES, REPLICAS) else 0
    crashes = tuple(replace(crash, role="any", after=rests) for crash in found.crashes)
    crashes = crashes[:1] if method == REPLICAS else crashes
    job = replace(found.job, method=method, store="remote")
    return replace(found, job=job, moves=(), crashes=crashes, saves=(0, *found.saves) if rests else found.saves)


def campaign(method: str, seeds: Iterable[int]) -> None:
    """Run these schedules: no one may be at fault."""
    for seed in seeds:
        assert run(schedule(method, seed)).faults == [], seed


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_lost_or_done_twice_whatever_comes_next(method: str) -> None:
    campaign(method, range(SEEDS))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_lost_or_done_twice_in_many_schedules(method: str) -> None:
    campaign(method, MORE)


@pytest.mark.parametrize("method", ["synchronous-checkpoints", "source-backup"])
def test_tasks_that_are_killed_and_not_recovered_are_missed(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    roll_back = CrashCoordinator._roll_back
    monkeypatch.setattr(CrashCoordinator, "_roll_back", lambda self, losses: [*roll_back(self, losses)][:0])
    assert any(run(schedule(method, seed)).faults for seed in range(20))


def test_tasks_on_the_way_from_a_source_that_live_on_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would drop the history as duplicates, and what is lost would get none of it."""
    monkeypatch.setattr(SourceBackup, "rolled_back", lambda self, losses: [])
    assert any(run(schedule("source-backup", seed)).faults for seed in range(20))


def test_replicas_that_do_not_take_over_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replicas, "fail_over", lambda self, losses: [])
    assert any(run(schedule(REPLICAS, seed)).faults for seed in range(20))


def test_the_whole_job_is_rolled_back() -> None:
    found = schedule("synchronous-checkpoints", 9)
    assert found.crashes
    labs: list[Laboratory] = []
    run(found, tamper=labs.append)
    (lab,) = labs
    restored = {recovery.partition for recovery in lab.recoveries.all}
    assert restored == set(range(len(lab.cluster.partition_task)))
