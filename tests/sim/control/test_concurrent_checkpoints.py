"""Several checkpoints of the job under way at a time: their order, those that are subsumed, and what an increment has.

Oracles: instants and sizes by hand, both planes, the guarantees of random jobs, and mutants that these must catch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scripts import unchecked
from seeds import parts
from test_barriers import checkpoints, full_job, job, outcomes, run, with_barriers
from test_cluster_view import dies
from test_planes import differences
from test_recovery import check
from test_region_restart import NOTICED

from analysis.runs.summary import summarise
from analysis.runs.tables import job_checkpoints_said
from models.records.tables import NEVER, RunRecords
from models.scenario.rules import faults
from models.scenario.rules.support import not_simulated
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.checkpoint import CheckpointCoordinator
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane


def busy(concurrent: int, **barriers: Any) -> dict[str, Any]:
    """A job whose store needs 200 ms for a checkpoint, of which one is due every 150 ms."""
    raw = job({"concurrent": concurrent, **barriers})
    raw["fault_tolerance"]["interval"] = "150 ms"
    return raw


def most_open(found: RunRecords) -> int:
    """Return how many checkpoints were under way at a time, of those that were not given up."""
    table = found.tables["job_checkpoints"]
    kept = np.isin(table["outcome"], ["completed", "open"])
    begins, ends = table["triggered_ns"][kept], table["completed_ns"][kept]
    ends = np.where(ends == NEVER, found.duration_ns, ends)
    return int(max((((begins <= at) & (ends > at)).sum() for at in begins), default=0))


# -- instants


def test_the_next_one_begins_before_the_end_of_the_one_before() -> None:
    found = checkpoints(run(busy(3)))
    # Barriers take 41 ms each time, since `late` is in service; the store writes one snapshot after the other.
    assert [row[:3] for row in found[:4]] == [(150, 191, 393), (300, 341, 593), (450, 491, 793), (600, 641, 993)]


@pytest.mark.parametrize("concurrent", [1, 2, 3])
def test_no_more_are_under_way_than_may_be(concurrent: int) -> None:
    found = run(busy(concurrent))
    assert most_open(found) == concurrent
    # One that is late begins as soon as another has ended.
    ends = {row[2] for row in checkpoints(found)}
    assert all(later[0] in {row[0] + 150} | ends for row, later in pairwise(checkpoints(found)))


def test_each_has_its_own_time_out() -> None:
    found = checkpoints(run(busy(3, timeout="600 ms")))
    # The sixth is aligned at 941 and would be complete at 1393; the queue in front of the store only grows up to there.
    assert [row[3] for row in found[:6]] == ["completed"] * 6
    found = checkpoints(run(busy(3, timeout="440 ms")))
    assert {row[3] for row in found} >= {"completed", "expired"}
    for row in found:
        assert row[2] is None or row[2] - row[0] < 440


def test_a_later_checkpoint_that_is_complete_first_ends_those_before() -> None:
    found = run(overtaken())
    # The state is large up to 1 s, and its writing takes more than a second; at 1.5 s it is small.
    assert [(row[0], row[3]) for row in checkpoints(found)][:4] == [
        (500, "subsumed"),
        (1000, "subsumed"),
        (1500, "completed"),
        (2000, "completed"),
    ]
    made = unchecked(overtaken())
    assert "2 subsumed by later ones" in job_checkpoints_said(summarise(made, [found]).checkpoints.job, 0.5)


def overtaken(**changes: Any) -> dict[str, Any]:
    """A job whose state is what came in the last 300 ms: much up to 1 s, then little."""
    raw = job({"concurrent": 4}, **changes)
    raw["fault_tolerance"] |= {"interval": "500 ms", "snapshots": {"mode": "asynchronous"}, "remote": "100 MB/s"}
    raw["workload"]["fast"]["rate"] = {"steps": [{"at": "0 s", "rate": "400 /s"}, {"at": "1 s", "rate": "20 /s"}]}
    raw["operators"]["sum"] |= {
        "serialise": "50 kB/s",
        "state": {"model": "window", "bytes": "1 kB", "length": "300 ms"},
    }
    return raw


def test_a_failure_ends_all_that_are_under_way() -> None:
    raw = busy(3)
    found = run(raw | {"events": {"dies": dies(0, 1500)}, "detector": NOTICED})
    assert outcomes(found).count("aborted") == 3
    assert not found.tables["ledger"]["lost"].any()
    assert not found.tables["ledger"]["duplicated"].any()


# -- increments


def with_increments(concurrent: int, **barriers: Any) -> dict[str, Any]:
    """`busy`, where each tuple changes 1 kB of a state of 100 kB."""
    raw = busy(concurrent, **barriers)
    raw["fault_tolerance"] |= {"kind": "incremental", "remote": "200 kB/s"}
    raw["operators"]["sum"]["state"]["change"] = "1 kB"
    return raw


def increments(found: RunRecords) -> list[tuple[int, int, int, int]]:
    """Return (checkpoint, the last complete one before, bytes, tuples since that) of each increment of the sum.

    A snapshot is taken between two tuples.
    """
    table, ended = found.tables["checkpoints"], found.tables["job_checkpoints"]["completed_ns"]
    of_sum, taken = table["operator"] == 4, np.zeros(ended.size, np.int64)
    taken[table["job"][of_sum]] = table["taken_ns"][of_sum]
    sizes = np.bincount(table["job"], weights=table["bytes"] * of_sum, minlength=ended.size)
    visits = found.tables["visits"]
    served = visits["end_ns"][(visits["operator"] == 4) & (visits["end_ns"] != NEVER)]
    rows = []
    for number in np.unique(table["job"][of_sum & ~table["full"]]).tolist():
        before = int(np.flatnonzero((ended != NEVER) & (ended < taken[number])).max())
        tuples = int(((served > taken[before]) & (served <= taken[number])).sum())
        rows.append((number, before, int(sizes[number]), tuples))
    return rows


def test_an_increment_has_what_changed_since_the_last_complete_one() -> None:
    found = increments(run(with_increments(4)))
    assert all(size == 1000 * tuples for _, _, size, tuples in found)
    assert sum(number > before + 1 for number, before, *_ in found) >= 3  # others were under way


def test_what_an_expired_one_had_is_in_the_next_one() -> None:
    raw = job({"timeout": "300 ms"})
    raw["fault_tolerance"] |= {"kind": "incremental", "interval": "500 ms"}
    steps = [{"at": "0 s", "rate": "20 /s"}, {"at": "600 ms", "rate": "400 /s"}, {"at": "900 ms", "rate": "20 /s"}]
    raw["workload"]["fast"]["rate"] = {"steps": steps}
    raw["operators"]["sum"]["state"] = {"model": "per-tuple", "bytes": "5 kB"}
    found = run(raw)
    # 120 tuples come within 300 ms: the store needs 600 ms for them, however often it is tried.
    assert outcomes(found)[:4] == ["completed", "expired", "expired", "expired"]
    rows = increments(found)
    assert all(size == 5000 * tuples for _, _, size, tuples in rows)
    assert [before for _, before, *_ in rows[:3]] == [0, 0, 0]
    sizes = [size for _, _, size, _ in rows]
    assert sizes == sorted(sizes)
    assert sizes[0] > 600_000


# -- random jobs


def concurrent_job(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job whose store is slow, so that several checkpoints are mostly under way."""
    raw = with_barriers(draw, **more)
    raw["fault_tolerance"] |= {
        "interval": draw.choice(["60 ms", "150 ms"]),
        "remote": draw.choice(["20 kB/s", "5 kB/s"]),
        "snapshots": draw.choice([{}, {"mode": "asynchronous", "pause": "1 ms"}]),
    }
    raw["fault_tolerance"]["barriers"] |= {"concurrent": draw.choice([2, 3, 5])}
    return raw


@pytest.mark.parametrize("seeds", parts(4, 10))
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_whatever_crashes(guarantee: str, seeds: range) -> None:
    assert sum(check(Random(f"concurrent {seed}"), guarantee, concurrent_job) for seed in seeds) >= len(seeds) / 2


def test_both_planes_give_equal_rows() -> None:
    most = []
    for seed in range(12):
        made = unchecked(concurrent_job(Random(f"concurrent {seed}")))
        plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        most.append(most_open(compiled))
    assert sum(one > 1 for one in most) >= 6


def full_concurrent(kind: str, seed: int) -> dict[str, Any]:
    """A job with all features, of which checkpoints overlap."""
    raw = full_job(kind, seed)
    raw["fault_tolerance"] |= {"interval": "100 ms"}
    raw["fault_tolerance"]["barriers"] |= {"concurrent": 3, "min_pause": "0 s", "timeout": "10 s"}
    return raw


@pytest.mark.parametrize(("kind", "seed"), [("moving", 7), ("replicated", 5)])
def test_both_planes_give_equal_rows_with_all_features(kind: str, seed: int) -> None:
    found = run(full_concurrent(kind, seed))
    assert most_open(found) == 3
    assert not found.tables["ledger"]["lost"].any()


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_in_many_random_jobs(guarantee: str) -> None:
    assert sum(check(Random(f"many concurrent {seed}"), guarantee, concurrent_job) for seed in range(200)) >= 100


@pytest.mark.slow
def test_both_planes_give_equal_rows_in_many_random_jobs() -> None:
    for seed in range(60):
        made = unchecked(concurrent_job(Random(f"many concurrent {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed
    for kind in ("moving", "replicated"):
        for seed in range(15):
            run(full_concurrent(kind, seed))


# -- mutants


def earlier_ones_go_on(patch: pytest.MonkeyPatch) -> None:
    """What is complete after a later one is what the job goes back to."""
    give_up = BarrierCheckpoints._give_up

    def broken(self: BarrierCheckpoints, checkpoint: JobCheckpoint, outcome: str) -> None:
        if outcome != "subsumed":
            give_up(self, checkpoint, outcome)

    patch.setattr(BarrierCheckpoints, "_give_up", broken)


def test_a_subsumed_checkpoint_that_would_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = overtaken(events={"dies": dies(0, 2150)}, detector=NOTICED)
    assert not run(raw).tables["ledger"]["lost"].any()
    earlier_ones_go_on(monkeypatch)
    assert simulate(unchecked(raw), plane=PlainPlane).tables["ledger"]["lost"].any()


def the_newest_snapshot_counts(patch: pytest.MonkeyPatch) -> None:
    """A key group goes back to its newest snapshot, of whatever checkpoint."""
    complete = CheckpointCoordinator.complete

    def broken(self: CheckpointCoordinator, partition: Partition, slot: int = 0) -> None:
        if slot in partition.unfinished:
            newest = max(partition.unfinished.values(), key=lambda one: one.checkpoint.count)
            partition.unfinished[slot].checkpoint = newest.checkpoint
        complete(self, partition, slot)

    patch.setattr(CheckpointCoordinator, "complete", broken)


@pytest.mark.parametrize("mutant", [the_newest_snapshot_counts])
def test_the_guarantee_catches_a_wrong_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in (13, *range(40)):  # the first that shows it
            check(Random(f"concurrent {seed}"), "exactly-once", concurrent_job)


# -- bad input


def test_they_are_aligned_and_have_no_pause_between_them() -> None:
    assert faults(unchecked(busy(3))) == []
    assert not_simulated(unchecked(busy(3))) == []
    for barriers, word in (({"min_pause": "100 ms"}, "min-pause"), ({"unaligned": True}, "unaligned.enabled")):
        (fault,) = faults(unchecked(busy(3, **barriers)))
        assert fault.path == "fault_tolerance.barriers.concurrent"
        assert "max-concurrent-checkpoints" in fault.hint
        assert word in fault.hint


@pytest.mark.parametrize("value", [0, 65, 1.5, "two"])
def test_how_many_is_a_small_whole_number(value: object) -> None:
    with pytest.raises(ValidationError, match="concurrent"):
        unchecked(job({"concurrent": value}))
