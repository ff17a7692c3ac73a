"""Jobs that get other numbers of tasks: with a savepoint, in place, and as slots come and go.

Oracles: instants and numbers of tasks by hand, both planes, the guarantees of random jobs, and mutants that the
guarantees must catch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from decided import said
from scripts import unchecked
from seeds import parts
from test_barriers import with_barriers
from test_cluster_view import MS, column, dies
from test_planes import differences
from test_recovery import check
from test_region_restart import NOTICED, run, tasks

from models.records.tables import RunRecords
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.recovery.region_restart import RegionRestart

SLOW = {"restart": {"distribution": "deterministic", "value": "1 s"}}


def job(*events: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Two tasks of each operator in the two slots of h-0; there are two other hosts. States are read in 100 ms each."""
    service = {"distribution": "deterministic", "value": "4 ms"}
    return {
        "duration": "12 s",
        "workload": {
            "in": {
                "rate": "100 /s",
                "arrivals": "deterministic",
                "keys": {"distribution": "uniform", "count": 400},
            }
        },
        "operators": {
            "in": {"kind": "source", "parallelism": 2},
            "sum": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "parallelism": 2,
                "key_groups": 8,
                "service": service,
                "state": {"model": "fixed", "bytes": "100 kB"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "key"}, "parallelism": 2},
        },
        "hosts": {"h": {"count": 3, "slots": 2}},
        "placement": {
            "slot_sharing": True,
            "tasks": {f"{name}-{k}": "h-0" for name in ("in", "sum", "out") for k in range(2)},
        },
        "network": {"latency": "1 ms"},
        "fault_tolerance": {
            "method": "region-restart",
            "interval": "1010 ms",
            "store": "remote",
            "remote": "1 MB/s",
            "kind": "full",
            "barriers": {},
        },
        "detector": {"heartbeat": "500 ms", "timeout": "500 ms"},
        "recovery": SLOW,
        "events": {f"e{number}": event for number, event in enumerate(events)},
    } | changes


def rescale(at_ms: int, parallelism: int, **more: Any) -> dict[str, Any]:
    return {"kind": "rescale", "at": f"{at_ms} ms", "operator": "sum", "parallelism": parallelism} | more


def rescales(found: RunRecords) -> list[tuple[float, ...]]:
    """Return (asked [ms], before, after, completed [ms]) of each change."""
    table = found.tables["rescales"]
    at, done = (table[name] / MS for name in ("at_ns", "completed_ns"))
    return [*zip(at.tolist(), table["before"].tolist(), table["after"].tolist(), done.tolist(), strict=True)]


def stops(found: RunRecords) -> list[tuple[float, ...]]:
    """Return (begun, ended) of each stop on purpose [ms]."""
    rows, cause = column(found, "failures", "failed_ns", "detected_ns"), found.tables["failures"]["cause"].tolist()
    return [row for row, why in zip(rows, cause, strict=True) if why == "rescale"]


def refused(found: RunRecords) -> list[tuple[float, str]]:
    return [(at / MS, why) for at, what, why in said(found) if what == "sum is not rescaled"]


def emitted(found: RunRecords, from_ms: float, to_ms: float) -> int:
    """Return how many tuples sources emitted between two instants."""
    visits = found.tables["visits"]
    at = visits["end_ns"][visits["operator"] == 0] / MS
    return int(((at > from_ms) & (at < to_ms)).sum())


def whole(found: RunRecords) -> bool:
    ledger = found.tables["ledger"]
    return not ledger["lost"].any() and not ledger["duplicated"].any()


# -- with a savepoint


def test_a_job_stops_with_a_savepoint_and_is_submitted_again() -> None:
    found, control = run(job(rescale(5200, 6, submit="500 ms")))
    # Barriers are at the sources at 5201, at the sum at 5202 or behind a tuple, and its 8 snapshots take 800 ms. Tasks
    # have heard a latency later that the savepoint is complete. 500 ms and 1 s later they are up, and read the states.
    assert stops(found) == [(5200, pytest.approx(6004, abs=2))]
    ((_, ended),) = stops(found)
    assert {at - ended for (at,) in column(found, "recoveries", "allocated_ns")} == {500}
    assert {at - ended for (at,) in column(found, "recoveries", "started_ns")} == {1500}
    assert rescales(found) == [(5200, 2, 6, pytest.approx(ended + 1500 + 801))]
    assert tasks(control) == Counter({(0, 0): 2, (1, 0): 2, (1, 1): 2, (1, 2): 2, (2, 0): 2})
    at = np.array(control.cluster.partition_task)[2:10]
    assert len({*at.tolist()}) == 6
    assert (at[0], at[1]) == (at[6], at[7])
    assert whole(found)


def test_sources_stop_at_the_barrier_and_nothing_comes_again() -> None:
    found, _ = run(job(rescale(5200, 6)))
    ((_, ended),) = stops(found)
    assert emitted(found, 5202, ended + 999) == 0
    assert emitted(found, ended + 999, ended + 1010) > 50
    assert not found.tables["recoveries"]["replayed"].any()
    assert not found.tables["dropped"]["operator"].size


def test_a_savepoint_aborts_the_checkpoint_that_is_under_way_and_a_new_job_begins_as_one() -> None:
    raw = job(rescale(5200, 6))
    raw["fault_tolerance"]["barriers"] = {"restarted": "at-once"}
    found, _ = run(raw)
    begun = [at for (at,) in column(found, "job_checkpoints", "triggered_ns")]
    assert found.tables["job_checkpoints"]["outcome"].tolist()[:7] == [
        *["completed"] * 4,
        "aborted",
        *["completed"] * 2,
    ]
    assert begun[4:6] == [5050, 5200]
    # The first one of a new job begins after an interval, although one after a failure would at once.
    assert begun[6] == pytest.approx(max(at for (at,) in column(found, "recoveries", "restored_ns")) + 1010)


def test_a_savepoint_that_is_not_complete_in_time_lets_the_job_go_on() -> None:
    raw = job(rescale(5200, 6))
    raw["fault_tolerance"]["barriers"] = {"timeout": "500 ms"}
    found, control = run(raw)
    assert refused(found) == [(5700, "the savepoint has failed; the job goes on")]
    assert (stops(found), rescales(found)) == ([], [])
    assert emitted(found, 5202, 5700) == 0
    assert emitted(found, 5700 - 0.001, 5701) == 50  # which have waited
    assert emitted(found, 5702, 11_000) > 500
    assert tasks(control)[1, 0] == 2


def test_a_failure_ends_a_savepoint_and_the_job_restarts_with_as_many_tasks_as_before() -> None:
    found, control = run(job(rescale(5200, 6), dies(0, 5300), detector=NOTICED))
    assert refused(found) == [(5310, "the savepoint has failed; the job goes on")]
    assert (stops(found), rescales(found)) == ([], [])
    assert tasks(control) == Counter({(operator, 1): 2 for operator in range(3)})
    assert whole(found)


def test_a_failure_that_is_detected_before_tasks_have_heard_of_the_savepoint_ends_it_too() -> None:
    # It is complete 100 ms before that. In the other region a source is stopped, and goes on.
    raw = job(rescale(5200, 6), dies(0, 6140), detector=NOTICED)
    raw["network"]["latency"] = "100 ms"
    raw["workload"]["else"] = raw["workload"]["in"]
    raw["operators"] |= {"else": {"kind": "source"}, "end": {"kind": "sink", "inputs": {"else": "forward"}}}
    raw["placement"]["tasks"] |= {"else-0": "h-1", "end-0": "h-1"}
    found, _ = run(raw)
    assert found.tables["job_checkpoints"]["outcome"].tolist()[5] == "completed"
    assert refused(found) == [(6150, "the savepoint has failed; the job goes on")]
    visits = found.tables["visits"]
    at = visits["end_ns"][visits["operator"] == 3] / MS
    assert not ((at > 5301) & (at < 6150)).any()
    assert ((at > 6151) & (at < 11_000)).sum() > 400
    assert whole(found)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([rescale(5200, 6), rescale(5300, 4)], "a savepoint is under way"),
        ([dies(0, 4000), rescale(4700, 4)], "not all tasks of the job are running, so it takes no savepoint"),
        ([dies(0, 4000), rescale(5800, 4)], "not all tasks of the job are running, so it takes no savepoint"),
    ],
    ids=["twice", "down", "restoring"],
)
def test_a_job_that_does_not_run_takes_no_savepoint(events: list[dict[str, Any]], why: str) -> None:
    found, _ = run(job(*events))
    assert [said for _, said in refused(found)] == [why]
    assert whole(found)


def test_a_job_waits_for_the_slots_that_it_has_lost_while_it_was_submitted() -> None:
    found, _ = run(job(rescale(5200, 6, submit="1 s"), dies(2, 6100, repair=3000)))
    assert {at for (at,) in column(found, "recoveries", "allocated_ns")} == {9100}
    assert whole(found)


def test_earlier_failures_do_not_count_for_a_new_job() -> None:
    strategy = {"kind": "exponential-delay", "initial": "1 s", "multiplier": 2.0, "jitter": 0.0, "reset": "1 h"}
    raw = job(dies(0, 1500), rescale(5200, 1), dies(1, 9000), detector=NOTICED, recovery={"strategy": strategy})
    found, _ = run(raw)
    failures = [row for row in column(found, "failures", "failed_ns", "detected_ns") if row[0] in (1500, 9000)]
    running = [
        min(at for failed, at in column(found, "recoveries", "failed_ns", "allocated_ns") if failed == one)
        for one, _ in failures
    ]
    assert [at - detected for at, (_, detected) in zip(running, failures, strict=True)] == [1000, 1000]


# -- in place


AT_ONCE = {"cooldown": "0 s"}


def adaptive(*events: dict[str, Any], scheduler: str = "adaptive", **times: Any) -> dict[str, Any]:
    recovery = SLOW | {"scheduler": scheduler, "adaptive": AT_ONCE | times}
    return job(*events, recovery=recovery, detector=NOTICED)


def test_the_adaptive_scheduler_waits_for_a_checkpoint_and_goes_back_to_it() -> None:
    found, control = run(adaptive(rescale(5200, 6)))
    (begun, *_, completed), *_ = [
        row for row in column(found, "job_checkpoints", "triggered_ns", "completed_ns") if row[0] == 5050
    ]
    ((stopped, ended),) = stops(found)
    assert stopped == ended == pytest.approx(completed + 1, abs=0.01)
    assert rescales(found) == [(5200, 2, 6, pytest.approx(ended + 1000 + 801, abs=1))]
    assert sum(count for (count,) in column(found, "recoveries", "replayed")) == pytest.approx(
        (ended - begun) / 10, abs=2
    )
    assert len({*control.cluster.partition_task[2:10]}) == 6
    assert whole(found)


@pytest.mark.parametrize(
    ("times", "stopped", "why"),
    [
        ({"at_checkpoint": False}, 5200, "its slots are there"),
        ({"cooldown": "9 s"}, None, "a checkpoint is complete"),
        ({"cooldown": "5500 ms"}, None, "a checkpoint is complete"),
    ],
    ids=["at once", "long cooldown", "cooldown"],
)
def test_when_a_job_is_rescaled_in_place(times: dict[str, Any], stopped: float | None, why: str) -> None:
    found, _ = run(adaptive(rescale(5200, 6), **times))
    completed = [at for (at,) in column(found, "job_checkpoints", "completed_ns")]
    ((begun, _),) = stops(found)
    cooled = {"9 s": 9000, "5500 ms": 5500}.get(times.get("cooldown", ""), 0)
    assert begun == (stopped or pytest.approx(min(at for at in completed if at > cooled) + 1, abs=0.01))
    assert {reason for _, what, reason in said(found) if what == "sum goes from 2 to 6 tasks"} == {why}


def test_checkpoints_that_fail_do_not_hold_a_rescaling_back() -> None:
    raw = adaptive(rescale(5200, 6), gathering="20 s")
    raw["fault_tolerance"]["barriers"] = {"timeout": "500 ms"}
    found, _ = run(raw)
    # Those of 5050 and 6060 expire.
    assert stops(found) == [(6560, 6560)]
    # All comes again.
    assert sum(count for (count,) in column(found, "recoveries", "replayed")) == pytest.approx(656, abs=5)
    raw = adaptive(rescale(5200, 6), gathering="500 ms", delay="100 ms")
    raw["fault_tolerance"]["barriers"] = {"min_pause": "1 s"}
    raw["fault_tolerance"]["interval"] = "4 s"
    found, _ = run(raw)
    assert stops(found) == [(5800, 5800)]
    assert "no checkpoint was complete for too long" in {why for *_, why in said(found)}


def test_with_fewer_slots_than_it_is_asked_for_a_job_takes_those_that_there_are() -> None:
    found, control = run(adaptive(rescale(2000, 8), gathering="3 s"))
    ((begun, _),) = stops(found)
    completed = [at for (at,) in column(found, "job_checkpoints", "completed_ns")]
    assert begun == pytest.approx(min(at for at in completed if at > 5000) + 1, abs=0.01)
    assert [row[1:3] for row in rescales(found)] == [(2, 6)]
    assert len({*control.cluster.partition_task[2:10]}) == 6


def test_a_wish_that_is_taken_back_changes_nothing() -> None:
    found, _ = run(adaptive(rescale(5200, 6), rescale(5300, 2)))
    assert (stops(found), rescales(found)) == ([], [])


# -- slots that come and go


def four(*events: dict[str, Any], scheduler: str = "adaptive", **times: Any) -> dict[str, Any]:
    """The job with four tasks of each operator in the slots of two hosts, and no spare ones."""
    raw = adaptive(*events, scheduler=scheduler, **times)
    raw["hosts"]["h"]["count"] = 2
    raw["placement"].pop("tasks")
    for operator in raw["operators"].values():
        operator["parallelism"] = 4
    return raw


def test_a_job_that_has_lost_slots_runs_with_fewer_tasks_and_with_all_once_they_are_back() -> None:
    found, control = run(four(dies(1, 2700, repair=4000), stabilisation="700 ms"))
    # Noticed at 2710, it counts until 3000, when the second heartbeat is refused. It waits 700 ms for the other slots.
    first = [at for failed, at in column(found, "recoveries", "failed_ns", "allocated_ns") if failed == 2700]
    assert {*first} == {3700}
    changes = rescales(found)
    assert [row[:3] for row in changes[:3]] == [(3700, 4, 2)] * 3
    visits = found.tables["visits"]
    for operator in range(3):
        during = (visits["start_ns"] > 5600 * MS) & (visits["start_ns"] < 6700 * MS)
        assert len({*visits["task"][during & (visits["operator"] == operator)].tolist()}) == 2
    # It is back at 6700, and the job is rescaled with the next checkpoint.
    ((begun, _),) = stops(found)
    completed = [at for (at,) in column(found, "job_checkpoints", "completed_ns")]
    assert begun == pytest.approx(min(at for at in completed if at > 6700) + 1, abs=0.01)
    assert [row[:3] for row in changes[3:]] == [(6700, 2, 4)] * 3
    assert tasks(control) == Counter({(operator, host): 2 for operator in range(3) for host in range(2)})
    assert whole(found)


def test_slots_that_are_back_in_time_are_waited_for() -> None:
    found, control = run(four(dies(1, 2700, repair=900), stabilisation="700 ms"))
    assert {at for (at,) in column(found, "recoveries", "allocated_ns")} == {3600}
    assert rescales(found) == []
    assert tasks(control)[1, 1] == 2


def test_reactive_mode_waits_for_nothing() -> None:
    found, control = run(four(dies(1, 2700), scheduler="reactive"))
    assert {at for (at,) in column(found, "recoveries", "allocated_ns")} == {3000}
    assert tasks(control) == Counter({(operator, 0): 2 for operator in range(3)})
    assert whole(found)


def test_a_job_without_a_slot_waits_and_then_fails() -> None:
    dead = dies(0, 2700, repair=2900), dies(1, 2700, repair=6000)
    found, _ = run(four(*dead, stabilisation="100 ms", wait="2900 ms"))
    assert min(at for (at,) in column(found, "recoveries", "allocated_ns")) == 5700
    found, control = run(four(*dead, stabilisation="100 ms", wait="2 s"))
    assert found.tables["recoveries"]["host"].size == 0
    assert not any(control.cluster.task_alive)
    assert "there was no slot for 2 s" in {why for _, what, why in said(found) if what == "the job is not restarted"}


def test_all_of_a_job_restarts_with_the_adaptive_scheduler() -> None:
    raw = four(dies(1, 2700), scheduler="reactive")
    raw["operators"]["sum"] = {"kind": "map", "inputs": {"in": "forward"}, "parallelism": 4}
    raw["operators"]["out"]["inputs"] = {"sum": "forward"}
    found, control = run(raw)
    assert len(found.tables["recoveries"]["host"]) == 12
    assert tasks(control) == Counter({(operator, 0): 2 for operator in range(3)})
    assert "completed" in found.tables["job_checkpoints"]["outcome"].tolist()[-2:]
    assert whole(found)


# -- random jobs


def with_rescales(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job that is rescaled now and then, with a savepoint or by the adaptive scheduler, while hosts die."""
    raw = with_barriers(draw, **more)
    keyed = [name for name, one in raw["operators"].items() if "key" in one.get("inputs", {}).values()]
    for number in range(draw.randint(1, 4) if keyed else 0):
        name = draw.choice(keyed)
        operator = raw["operators"][name]
        groups = operator.get("key_groups") or operator["parallelism"]
        at = draw.choice([300, 1010, 2000, draw.randint(0, 9000)])
        event = rescale(at, draw.randint(1, groups)) | {"operator": name}
        raw["events"][f"r{number}"] = event | draw.choice([{}, {"submit": "300 ms"}])
    if draw.random() < 0.6:
        recovery = raw.setdefault("recovery", {})
        recovery["scheduler"] = draw.choice(["adaptive", "reactive"])
        recovery["adaptive"] = {
            "stabilisation": draw.choice(["0 s", "150 ms"]),
            "cooldown": draw.choice(["0 s", "200 ms"]),
            "gathering": draw.choice(["100 ms", "1 s"]),
            "at_checkpoint": draw.random() < 0.7,
            "delay": draw.choice(["0 s", "500 ms"]),
        }
        most = max(one.get("parallelism", 1) for one in raw["operators"].values())
        raw["placement"] = raw.get("placement", {}) | {"slot_sharing": True}
        raw["placement"].pop("tasks", None)
        raw["placement"].pop("operators", None)
        raw["hosts"]["h"]["slots"] = draw.choice([1, 1, 2, most])
        raw["hosts"]["h"]["slots"] = max(raw["hosts"]["h"]["slots"], -(-most // raw["hosts"]["h"]["count"]))
    return raw


@pytest.mark.parametrize("seeds", parts(5, 12))
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_whatever_crashes(guarantee: str, seeds: range) -> None:
    assert sum(check(Random(f"rescales {seed}"), guarantee, with_rescales) for seed in seeds) >= 0.8 * len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_in_many_random_jobs(guarantee: str) -> None:
    assert sum(check(Random(f"rescales {seed}"), guarantee, with_rescales) for seed in range(12, 200)) >= 155


def test_both_planes_give_equal_rows() -> None:
    stopped = changed = 0
    for seed in range(40):
        made = unchecked(with_rescales(Random(f"rescales {seed}")))
        plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        stopped += plain.tables["failures"]["cause"].tolist().count("rescale")
        changed += len(plain.tables["rescales"]["before"])
    assert stopped >= 15
    assert changed >= 20


# -- mutants


def barriers_go_where_tasks_were(patch: pytest.MonkeyPatch) -> None:
    """Subtasks stay as they were before the rescaling, each at the task that its first partition has now."""
    opened = BarrierCheckpoints.opened

    def broken(self: BarrierCheckpoints) -> None:
        before = self._subtasks
        opened(self)
        where = self.cluster.partition_task
        self._subtasks = [one._replace(task=where[one.partitions[0]]) for one in before]

    patch.setattr(BarrierCheckpoints, "opened", broken)


def regions_restart_alone(patch: pytest.MonkeyPatch) -> None:
    """The adaptive scheduler gives a region other tasks while others run."""
    made = RegionRestart.__init__

    def broken(self: RegionRestart, *given: Any) -> None:
        made(self, *given)
        self._regions = [*range(len(self._regions))]

    patch.setattr(RegionRestart, "__init__", broken)


def savepoints_count_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    """A job that stops goes back to what is not complete, and sources forget it."""

    def look(self: BarrierCheckpoints, checkpoint: JobCheckpoint) -> None:
        self.clock.process(self._acknowledged(checkpoint))

    patch.setattr(BarrierCheckpoints, "_look", look)


@pytest.mark.parametrize(
    "mutant", [barriers_go_where_tasks_were, regions_restart_alone, savepoints_count_before_they_are_stored]
)
def test_the_guarantee_catches_a_wrong_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(60):
            check(Random(f"rescales {seed}"), "exactly-once", with_rescales)
