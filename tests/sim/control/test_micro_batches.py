"""Micro-batches: what a batch holds, when it begins and is visible, and what is repeated after a failure.

Oracles: instants by hand, both planes, guarantees in random jobs.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from small_jobs import random_job
from test_planes import differences
from test_recovery import check

from analysis.runs.checkpoints import checkpoints
from analysis.runs.tables import batch_checkpoints_said
from models.records.tables import RunRecords
from sim.control.micro_batches import MicroBatches, shared
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.checkpoint import CheckpointCoordinator
from sim.plain.plane import PlainPlane
from sim.recovery.micro_batch import MicroBatch

MS = 1_000_000


def fixed(value: str) -> dict[str, str]:
    return {"distribution": "deterministic", "value": value}


def job(**changes: Any) -> dict[str, Any]:
    """A tuple each 100 ms from 100 ms on, counted by key on two executors; batches of 1 s; all instants are known."""
    return {
        "duration": "20 s",
        "workload": {
            "in": {"rate": "10 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 9}}
        },
        "operators": {
            "in": {"kind": "source"},
            "clean": {"kind": "map", "inputs": {"in": "forward"}, "service": fixed("2 ms")},
            "count": {
                "kind": "aggregate",
                "inputs": {"clean": "key"},
                "key_groups": 2,
                "service": fixed("5 ms"),
                "state": {"model": "fixed", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"count": "forward"}},
        },
        "hosts": {"w": {"count": 2}},
        "placement": {"tasks": {"in-0": "w-0", "clean-0": "w-0", "count-0": "w-1", "out-0": "w-1"}},
        "network": {"latency": "0 s"},
        "detector": {"connection": "0 s"},
        "recovery": {"restart": fixed("3 s")},
        "fault_tolerance": {
            "method": "micro-batch",
            "interval": "1 s",
            "store": "remote",
            "kind": "full",
            "remote": "1 MB/s",
            "micro_batches": {"plan": fixed("100 ms"), "commit": fixed("20 ms"), "cold": fixed("1 s")},
        },
    } | changes


def ran(raw: dict[str, Any]) -> RunRecords:
    """The rows, which both planes make."""
    made = unchecked(raw)
    found = [simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane)]
    assert differences(*found) == []
    return found[1]


def batches(found: RunRecords) -> list[tuple[float, list[float]]]:
    """When outputs are visible [ms], and when their tuples were created."""
    at, created = (found.tables["deliveries"][name] / MS for name in ("delivered_ns", "created_ns"))
    return [(float(one), sorted(created[at == one].tolist())) for one in np.unique(at)]


def driver_dies(at_ms: int) -> dict[str, Any]:
    return {"events": {"kill": {"kind": "driver-failure", "at": f"{at_ms} ms"}}}


def arrivals(first_ms: int, end_ms: int) -> list[float]:
    """The arrivals from an instant on and before another [ms]."""
    return [float(at) for at in range(first_ms, end_ms, 100)]


def test_a_batch_has_what_arrived_before_its_trigger_and_is_visible_once_it_is_stored() -> None:
    found = batches(ran(job()))
    created = [sorted(one) for _, one in found]
    steps = {round(b - a, 6) for one in created for a, b in pairwise(one)}
    assert steps == {100.0}
    assert [len(one) for one in created[1:]] == [10] * 18
    # Ten tuples in the first stage, then ten in the second, then two states of 1 kB.
    for k, (at, _) in enumerate(found[1:], 2):
        stored_ms = 2 * 1000 / 1e3  # at 1 MB/s
        assert at == pytest.approx(1000 * k + 100 + 10 * 2 + 10 * 5 + stored_ms, abs=0.01)


def test_nothing_of_the_second_stage_begins_before_the_first_has_ended() -> None:
    visits = ran(job()).tables["visits"]
    for k in range(2, 19):
        inside = (visits["end_ns"] > 1000 * k * MS) & (visits["end_ns"] <= 1000 * (k + 1) * MS)
        first, second = (inside & (visits["operator"] == operator) for operator in (1, 2))
        assert visits["start_ns"][second].min() >= visits["end_ns"][first].max()


def test_a_batch_that_takes_longer_than_the_interval_is_followed_at_once() -> None:
    raw = job()
    raw["fault_tolerance"]["micro_batches"] = {"plan": fixed("1300 ms")}
    at = [one for one, _ in batches(ran(raw))]
    assert np.diff(at) == pytest.approx([1300 + 13 * 7 + 3.3] * (len(at) - 1), abs=30)


def test_a_checkpoint_of_a_batch_that_takes_longer_than_the_interval_is_not_late() -> None:
    raw = job()
    raw["fault_tolerance"] |= {"micro_batches": {"plan": fixed("1300 ms")}, "remote": "1 kB/s"}
    made = unchecked(raw)
    found = checkpoints(made, [simulate(made, plane=PlainPlane)])
    assert found is not None
    assert found.begun == found.completed == 15
    assert (found.late, found.skipped) == (0, 0)
    assert batch_checkpoints_said(found).startswith(
        "Each batch ends with a version of each state: 15 stored. A trigger comes every 1 s; "
    )


def test_the_interrupted_batch_runs_again_with_its_range_and_then_the_backlog_in_one() -> None:
    found = ran(job(**driver_dies(8130)))
    seen = batches(found)
    before = [one for at, one in seen if at < 8130]
    again, backlog = [(at, one) for at, one in seen if at > 8130][:2]
    # The batch of 8 s was begun. The query is started at 11.13 s, plans for 1.1 s, and repeats the ten tuples.
    assert again[1] == sorted({created for _, one in seen for created in one if before[-1][-1] < created < 8000})
    assert len(again[1]) == 10
    assert again[0] == pytest.approx(8130 + 3000 + 1100 + 10 * 7, abs=5)
    # The next one begins at once, as the first one overran: all that arrived since 8 s, in one batch.
    assert backlog[1][0] == pytest.approx(again[1][-1] + 100)
    assert backlog[1][-1] == pytest.approx(again[0] + 20, abs=100)
    assert found.tables["ledger"]["lost"].tolist() == found.tables["ledger"]["duplicated"].tolist() == [0, 0, 0]


def test_between_two_batches_there_is_nothing_to_repeat() -> None:
    found = ran(job(**driver_dies(8500)))
    after = [(at, one) for at, one in batches(found) if at > 8500]
    # The first batch has what has arrived until it begins: at 8.5 s + 3 s + 1.1 s.
    assert len(after[0][1]) == 46
    assert after[0][0] == pytest.approx(8500 + 3000 + 1100 + 46 * 7, abs=10)
    assert found.tables["failures"]["cause"].tolist() == ["driver"]
    assert (found.tables["failures"]["caught_up_ns"] > after[0][0] * MS).all()


@pytest.mark.parametrize("at_ms", [8050, 8110, 8140, 8171, 8180, 8600])
def test_an_executor_that_dies_repeats_only_its_tasks(at_ms: int) -> None:
    raw = job(events={"kill": {"kind": "host-failure", "host": "w-1", "at": f"{at_ms} ms"}})
    found = ran(raw)
    seen, calm = batches(found), batches(ran(job()))
    assert [one for _, one in seen] == [one for _, one in calm]  # no batch is repeated, and none is larger
    assert sum(abs(a - b) > 1 for (a, _), (b, _) in zip(seen, calm, strict=True)) <= 1
    assert {int(one) for one in found.tables["recoveries"]["operator"]} == {2, 3}
    assert found.tables["ledger"]["lost"].tolist() == [0, 0, 0]


def test_a_batch_is_not_done_without_what_a_dead_executor_had_not_sent() -> None:
    raw = job(network={"sharing": "fair", "latency": "0 s"})
    raw["hosts"] = {"w": {"count": 3, "network": "1 kB/s"}}
    raw["placement"]["tasks"]["out-0"] = "w-2"
    raw["operators"]["count"]["state"] = {"model": "fixed", "bytes": "1 B"}
    # The last tuple of the first batch is counted at 2007, states are stored at 2011, its output is sent until 2109.
    raw |= {"events": {"dies": {"kind": "host-failure", "host": "w-1", "at": "2050 ms", "silent": True}}}
    raw["detector"] |= {"heartbeat": "1 s", "timeout": "4 s"}
    found = ran(raw)
    assert found.tables["failures"]["detected_ns"].tolist() == [6000 * MS]
    assert [created for _, created in batches(found)][:2] == [arrivals(100, 900), [900.0]]
    assert found.tables["ledger"]["lost"].tolist() == [0, 0, 0]


def test_the_host_of_the_driver_takes_the_query_with_it() -> None:
    killed = ran(job(events={"kill": {"kind": "host-failure", "host": "w-0", "at": "8130 ms"}}))
    assert len(killed.tables["recoveries"]["operator"]) == 5
    again = [one for at, one in batches(killed) if at > 8130]
    assert len(again[0]) == 10


def test_the_driver_waits_for_a_host() -> None:
    raw = job(events={"kill": {"kind": "host-failure", "host": "w-0", "at": "8130 ms", "repair": "5 s"}})
    raw["hosts"] = {"w": {"count": 1}}
    raw["placement"] = {}
    raw["detector"] = {"connection": "10 ms"}
    found = ran(raw)
    assert found.tables["recoveries"]["allocated_ns"].min() == 13_130 * MS
    first = next(at for at, _ in batches(found) if at > 8130)
    assert first == pytest.approx(8130 + 5000 + 3000 + 1100 + 10 * 7, abs=5)


@pytest.mark.parametrize("at_ms", [8130, 9000, 11_000])
@pytest.mark.parametrize("silent", [False, True])
def test_a_driver_gets_no_executor_on_a_host_that_died_while_it_was_down(at_ms: int, silent: bool) -> None:
    dies = {"kind": "host-failure", "host": "w-1", "at": f"{at_ms} ms", "silent": silent}
    found = ran(job(events=driver_dies(8130)["events"] | {"too": dies}))  # silence is noticed after 5 s
    assert {*found.tables["recoveries"]["host"].tolist()} == {0}
    assert len(found.tables["recoveries"]["operator"]) == 5  # all once: nothing was started in vain
    again = next(at for at, _ in batches(found) if at > 8130)
    assert again == pytest.approx(8130 + 3000 + 1100 + 10 * 7, abs=5)


@pytest.mark.parametrize(("repair", "detected_ms"), [(None, 11_130), ("30 s", 11_130), ("4 s", 9500), ("1 s", 6500)])
def test_a_driver_notices_the_executors_that_died_before_it(repair: str | None, detected_ms: int) -> None:
    dies = {"kind": "host-failure", "host": "w-1", "at": "5500 ms", "silent": True}
    raw = job(events=driver_dies(8130)["events"] | {"dies": dies | ({"repair": repair} if repair else {})})
    raw["detector"] |= {"heartbeat": "2 s", "timeout": "1 min"}
    found = ran(raw)
    failures, recoveries = found.tables["failures"], found.tables["recoveries"]
    assert dict(zip(failures["cause"].tolist(), (failures["detected_ns"] // MS).tolist(), strict=True)) == {
        "driver": 8130,
        "crash": detected_ms,
    }
    again = next(at for at, _ in batches(found) if at > 8130)
    assert again == pytest.approx(8130 + 3000 + 1100 + 10 * 7, abs=5)  # as without a dead executor
    if detected_ms == 11_130:
        assert {*recoveries["target"].tolist()} == {0}
        assert {*recoveries["allocated_ns"].tolist()} == {8130 * MS, 11_130 * MS}
    assert [created for _, one in batches(found) for created in one] == arrivals(100, 19_000)
    assert found.tables["ledger"]["lost"].tolist() == [0, 0, 0]


def test_what_is_being_restored_when_the_driver_dies_comes_back_with_it() -> None:
    raw = job(events={"dies": {"kind": "host-failure", "host": "w-1", "at": "5500 ms"}} | driver_dies(6000)["events"])
    raw["operators"]["count"]["deserialise"] = "1 kB/s"  # each of two states in a second
    found = ran(raw)
    assert [at for at, _ in batches(found)][-1] > 12_000
    assert [created for _, one in batches(found) for created in one] == arrivals(100, 19_000)
    assert found.tables["ledger"]["lost"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("silent", "detected_ms"), [(False, 8130), (True, 60_000)])
def test_a_silent_executor_is_removed_at_a_look_and_a_connection_that_breaks_at_once(
    silent: bool, detected_ms: int
) -> None:
    kill = {"kind": "host-failure", "host": "w-1", "at": "8130 ms", "silent": silent}
    raw = job(duration="70 s", events={"kill": kill})
    raw["detector"] = {"connection": "0 s", "heartbeat": "2 s", "timeout": "20 s", "check": "60 s"}
    assert ran(raw).tables["failures"]["detected_ns"].tolist() == [detected_ms * MS]


def test_a_driver_that_is_down_cannot_die() -> None:
    raw = job(events={f"k{at}": {"kind": "driver-failure", "at": f"{at} ms"} for at in (8130, 9000)})
    found = ran(raw)
    assert found.tables["failures"]["failed_ns"].tolist() == [8130 * MS]
    assert "it is already down" in found.tables["decisions"]["reason"].tolist()


def with_batches(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job in micro-batches, whose driver and executors die."""
    return batched(draw, random_job(draw, **more))


def batched(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """The job in micro-batches, with a driver that dies now and then."""
    raw["fault_tolerance"] |= {"method": "micro-batch", "store": "remote", "staggered": False}
    if raw["fault_tolerance"]["interval"] == "20 s":
        raw["fault_tolerance"]["interval"] = "1 ms"
    law = {"distribution": "exponential", "mean": draw.choice(["3 ms", "100 ms"])}
    if draw.random() < 0.7:
        raw["fault_tolerance"]["micro_batches"] = {"plan": law, "commit": law, "cold": law}
    for k in range(draw.randint(0, 3)):
        raw["events"][f"driver{k}"] = {"kind": "driver-failure", "at": f"{draw.randint(0, 7000)} ms"}
    if draw.random() < 0.6:
        raw["recovery"] = {"allocate": law, "restart": law}
    if draw.random() < 0.6:
        raw["detector"] |= {"connection": draw.choice(["0 s", "10 ms"])}
    elif draw.random() < 0.5:  # live executors are fenced, too
        raw["detector"] = {"heartbeat": "200 ms", "timeout": "600 ms", "loss": 0.2}
    return raw


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_whatever_dies(guarantee: str) -> None:
    assert sum(check(Random(f"batches {seed}"), guarantee, with_batches) for seed in range(6)) >= 3


def test_both_planes_give_equal_rows() -> None:
    for seed in range(15):
        made = unchecked(with_batches(Random(f"batches {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


# -- batches with a limit


def limited(offsets: int, **changes: Any) -> dict[str, Any]:
    raw = job(**changes)
    raw["fault_tolerance"]["micro_batches"] |= {"max_offsets": offsets}
    return raw


def test_a_limit_that_is_not_met_changes_nothing() -> None:
    for changes in ({}, driver_dies(8130), driver_dies(8500)):
        assert differences(ran(limited(1000, **changes)), ran(job(**changes))) == []


def test_what_a_batch_leaves_waits_for_the_next_trigger() -> None:
    found = batches(ran(limited(8)))
    # The first one has them all at 1000; of eight each second, two more are left each time.
    assert [created for _, created in found][:3] == [arrivals(100, 900), arrivals(900, 1700), arrivals(1700, 2500)]
    assert all(at == pytest.approx(1000 * k + 100 + 8 * 7 + 3, abs=3) for k, (at, _) in enumerate(found, 1))


def test_a_backlog_comes_in_batches_of_the_limit() -> None:
    found = batches(ran(limited(15, **driver_dies(8500))))
    after = [(at, created) for at, created in found if at > 8500]
    # The query begins at 11.5 s, with what has come from 8 s on, and the third trigger is that of 13 s.
    expected = [arrivals(first, min(first + 1500, 14_000)) for first in (8000, 9500, 11_000, 12_500)]
    assert [created for _, created in after][:4] == expected
    assert after[0][0] == pytest.approx(8500 + 3000 + 1100 + 15 * 7, abs=5)
    # Each of them is as short as one with fifteen tuples; without a limit the first has 46.
    alone = [(at, len(created)) for at, created in batches(ran(job(**driver_dies(8500)))) if at > 8500]
    assert alone[0][1] == 46
    assert after[0][0] < alone[0][0]


def test_an_outage_is_caught_up_with_when_a_batch_leaves_nothing() -> None:
    found = ran(limited(15, **driver_dies(8500)))
    over = int(found.tables["failures"]["caught_up_ns"][0])
    first = next(at for at, created in batches(found) if created[-1] >= 13_900)
    # That batch is visible, and committed 20 ms later.
    assert over == pytest.approx((first + 20) * MS, abs=MS)


def test_an_interrupted_batch_runs_again_with_the_same_offsets_and_then_the_limit_counts() -> None:
    found = batches(ran(limited(8, **driver_dies(8130))))
    before = [created for at, created in found if at < 8130]
    after = [created for at, created in found if at > 8130]
    taken = [at for created in before for at in created]
    assert after[0] == arrivals(int(taken[-1]) + 100, int(taken[-1]) + 900)
    assert [len(created) for created in after[:3]] == [8, 8, 8]
    assert sorted(at for created in (*before, *after) for at in created) == arrivals(100, int(after[-1][-1]) + 1)


@pytest.mark.parametrize(
    ("limit", "waiting", "taken"),
    [
        (9, [30, 10], [6, 2]),
        (100, [3, 0, 4], [3, 0, 4]),
        (7, [3, 4], [3, 4]),
        (2, [100, 1, 0, 1], [1, 1, 0, 1]),  # no partition starves, so that a batch may have more
    ],
)
def test_tasks_of_a_source_share_the_limit_in_proportion(limit: int, waiting: list[int], taken: list[int]) -> None:
    assert shared(limit, waiting) == taken


def test_each_source_has_a_limit_of_its_own() -> None:
    raw = limited(6)
    raw["operators"]["in"]["parallelism"] = raw["operators"]["clean"]["parallelism"] = 2
    raw["operators"]["more"] = {"kind": "source"}
    raw["operators"]["count"]["inputs"] |= {"more": "key"}
    raw["workload"]["more"] = raw["workload"]["in"]
    raw["placement"] = {}
    visits = ran(raw).tables["visits"]
    for operator, least in ((0, 5), (4, 6)):  # two tasks, of whose shares one or both are rounded down, and one
        at, count = np.unique(visits["end_ns"][visits["operator"] == operator], return_counts=True)
        assert at.tolist() == [1000 * k * MS for k in range(1, 20)]
        assert (count.min(), count.max()) == (least, 6)


def with_limits(draw: Random, **more: Any) -> dict[str, Any]:
    raw = with_batches(draw, **more)
    raw["fault_tolerance"].setdefault("micro_batches", {})
    raw["fault_tolerance"]["micro_batches"] |= {"max_offsets": draw.choice([1, 3, 10, 50])}
    return raw


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_with_a_limit(guarantee: str) -> None:
    assert sum(check(Random(f"limits {seed}"), guarantee, with_limits) for seed in range(6)) >= 2


def test_both_planes_give_equal_rows_with_a_limit() -> None:
    for seed in range(15):
        made = unchecked(with_limits(Random(f"limits {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


# -- mutants


def test_a_limit_that_is_forgotten_in_a_backlog_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = MicroBatches._take
    monkeypatch.setattr(MicroBatches, "_take", lambda self, limit: take(self, 10**9 if self._behind else limit))
    with pytest.raises(AssertionError):
        test_a_backlog_comes_in_batches_of_the_limit()


def test_an_outage_that_is_over_with_the_first_short_batch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = MicroBatches._take

    def broken(self: MicroBatches, limit: int) -> None:
        take(self, limit)
        self._leaves = False

    monkeypatch.setattr(MicroBatches, "_take", broken)
    with pytest.raises(AssertionError):
        test_an_outage_is_caught_up_with_when_a_batch_leaves_nothing()


def versions_count_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    stored = CheckpointCoordinator._stored

    def broken(self: CheckpointCoordinator, transfer: Any) -> None:
        stored(self, transfer)
        one = transfer.partition.unfinished.get(transfer.slot)
        if one is not None and one.stored:
            self.complete(transfer.partition)

    patch.setattr(CheckpointCoordinator, "_stored", broken)


def test_the_guarantee_catches_versions_that_count_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    versions_count_before_the_commit(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(60):
            check(Random(f"batches {seed}"), "exactly-once", with_batches)


def test_a_batch_that_runs_again_with_another_range_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MicroBatches, "_keeps_a_range", lambda self: False)
    with pytest.raises(AssertionError):
        test_the_interrupted_batch_runs_again_with_its_range_and_then_the_backlog_in_one()


def test_a_batch_that_ends_without_what_an_executor_had_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = MicroBatches.recover

    def broken(self: MicroBatches, losses: Any) -> None:
        recover(self, losses)
        self._disturbed = False

    monkeypatch.setattr(MicroBatches, "recover", broken)
    with pytest.raises(AssertionError):
        for at_ms in (8050, 8110, 8140, 8171, 8180, 8600):
            test_an_executor_that_dies_repeats_only_its_tasks(at_ms)


def test_executors_that_outlive_their_driver_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MicroBatch, "rolled_back", lambda self, losses: [])
    with pytest.raises(AssertionError):
        test_the_host_of_the_driver_takes_the_query_with_it()


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_in_many_random_jobs(guarantee: str) -> None:
    assert sum(check(Random(f"many batches {seed}"), guarantee, with_batches) for seed in range(300)) >= 150
