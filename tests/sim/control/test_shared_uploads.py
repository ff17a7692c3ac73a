"""Uploads to the remote store that all tasks make at once, with equal shares of its rate.

Oracles: instants by hand, both planes, guarantees in random jobs, and mutants that these tests must catch.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from scripts import unchecked
from test_barriers import full_job, run, with_barriers
from test_changelogs import job as with_commits
from test_changelogs import with_changelogs
from test_cluster_view import column
from test_local_recovery import job as with_copies
from test_micro_batches import job as in_batches
from test_micro_batches import with_batches
from test_planes import differences
from test_recovery import check
from test_unaligned import with_unaligned

from models.scenario.fault_tolerance import FaultTolerance
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.choice import EVENT_LOOP, SCAN, kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.link import FairLink
from sim.plain.plane import PlainPlane


def job(**changes: Any) -> dict[str, Any]:
    """Three tasks of a sum with four key groups of 100 kB: 100 ms of the store each; key groups 0 and 3 are at task 0.

    h-1 dies at 2.7 s.
    """
    raw = with_copies(**changes)
    del raw["fault_tolerance"]["local_recovery"]
    raw["fault_tolerance"] |= {"uploads": "shared", "restores": "shared"}
    raw["operators"]["sum"]["key_groups"] = 4
    return raw


def uploads(found: Any) -> dict[int, int]:
    """Return key group -> time from the snapshot until the store has it [ms], of the first checkpoint."""
    rows = column(found, "checkpoints", "operator", "key_group", "taken_ns", "stored_ns")
    return {int(group): int(stored - taken) for operator, group, taken, stored in reversed(rows) if operator == 1}


PLANES = (PlainPlane, CompiledPlane)


@pytest.mark.parametrize("plane", PLANES)
def test_tasks_share_the_store_evenly_and_send_one_key_group_after_the_other(plane: Any) -> None:
    # Task 0 is beside the source, and begins 1 ms before the others: it has a third of 99 ms, then the rest alone.
    assert uploads(simulate(unchecked(job(events={})), plane=plane)) == {0: 299, 1: 301, 2: 301, 3: 401}


@pytest.mark.parametrize("plane", PLANES)
def test_without_it_one_snapshot_after_the_other_is_written(plane: Any) -> None:
    raw = job(events={})
    raw["fault_tolerance"]["uploads"] = "in-turn"
    assert uploads(simulate(unchecked(raw), plane=plane)) == {0: 101, 3: 201, 1: 300, 2: 400}


def too_slow() -> dict[str, Any]:
    """Each checkpoint of the job expires after 350 ms, when all but one key group are in the store."""
    raw = job(events={})
    raw["fault_tolerance"] |= {"interval": "360 ms", "barriers": {"timeout": "350 ms"}}
    return raw


@pytest.mark.parametrize("plane", PLANES)
def test_what_was_given_up_takes_no_share(plane: Any) -> None:
    found = simulate(unchecked(too_slow()), plane=plane)
    rows = column(found, "checkpoints", "operator", "key_group", "taken_ns", "stored_ns")
    whole = [row for row in rows if row[0] == 1 and row[2] < 4600]
    assert len(whole) == 12 * 4
    for _, group, taken, stored in whole:
        assert stored == (-1 if group == 3 else taken + {0: 299, 1: 301, 2: 301}[group])


def batches_of_two_tasks(uploads: str) -> dict[str, Any]:
    """A query whose two tasks commit a state of 1 kB each at the end of a batch, at 1 MB/s."""
    raw = in_batches()
    raw["operators"]["count"]["parallelism"] = 2
    raw["placement"]["tasks"]["count-1"] = "w-0"
    raw["fault_tolerance"] |= {"uploads": uploads}
    return raw


def took_us(raw: dict[str, Any], plane: Any) -> list[list[int]]:
    """How long each state of `count`, in the order of the key groups, took until it was stored [us], by instant."""
    found = simulate(unchecked(raw), plane=plane).tables["checkpoints"]
    rows = zip(found["taken_ns"], found["key_group"], found["operator"], found["stored_ns"], strict=True)
    by_instant = dict[int, list[int]]()
    for taken, _, operator, stored in sorted(map(tuple, rows)):
        if stored > 0 and operator == [*raw["operators"]].index("count"):
            by_instant.setdefault(taken, []).append(round((stored - taken) / 1e3))
    return list(by_instant.values())


@pytest.mark.parametrize("plane", PLANES)
def test_tasks_of_a_batch_commit_their_states_at_once_and_the_batch_ends_as_early(plane: Any) -> None:
    assert took_us(batches_of_two_tasks("shared"), plane) == [[2000, 2000]] * 19
    assert took_us(batches_of_two_tasks("in-turn"), plane) == [[1000, 2000]] * 19
    ends = [
        simulate(unchecked(batches_of_two_tasks(one)), plane=plane).tables["deliveries"]["delivered_ns"].tolist()
        for one in ("shared", "in-turn")
    ]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("plane", PLANES)
def test_threads_send_to_their_changelogs_at_once_and_one_key_group_after_the_other(plane: Any) -> None:
    # The first commit has the whole state: 10 MB of each of six key groups, at 100 MB/s; a thread has j and j + 3.
    raw = with_commits(events={}, fault_tolerance={"uploads": "shared"})
    found = [round(one / 1e5) for one in took_us(raw, plane)[0]]
    assert found == [3, 3, 3, 6, 6, 6]
    found = [round(one / 1e5) for one in took_us(with_commits(events={}), plane)[0]]
    assert found == [1, 3, 5, 2, 4, 6]


def test_the_scan_has_no_store_that_is_shared() -> None:
    raw = with_commits(events={}, fault_tolerance={"uploads": "shared"})
    raw["operators"]["count"]["service"] = {"distribution": "deterministic", "value": "1 ms"}
    kernel = kernel_for(RunPlan.of(unchecked(raw), RunInputs(), 0))
    assert (kernel.name, kernel.why) == (EVENT_LOOP, "all who upload share the store")
    raw["fault_tolerance"]["uploads"] = "in-turn"
    assert kernel_for(RunPlan.of(unchecked(raw), RunInputs(), 0)).name == SCAN


# -- random jobs


def shared(draw: Random, **more: Any) -> dict[str, Any]:
    raw = with_barriers(draw, **more)
    raw["fault_tolerance"] |= {"uploads": "shared", "remote": draw.choice(["20 kB/s", "100 kB/s", "1 MB/s"])}
    return raw


def test_guarantees_hold_whatever_crashes() -> None:
    assert sum(check(Random(f"uploads {seed}"), "exactly-once", shared) for seed in range(8)) >= 4


def test_both_planes_give_equal_rows() -> None:
    for seed in range(10):
        made = unchecked(shared(Random(f"uploads {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in PLANES)) == [], seed


def of_engine(make: Any, draw: Random, **more: Any) -> dict[str, Any]:
    raw = make(draw, **more)
    raw["fault_tolerance"] |= {"uploads": "shared", "remote": draw.choice(["20 kB/s", "100 kB/s", "1 MB/s"])}
    return raw  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [with_batches, with_changelogs])
def test_guarantees_hold_with_batches_and_commits(make: Any) -> None:
    seeds = range(6)
    held = [check(Random(f"uploads {seed}"), "exactly-once", partial(of_engine, make)) for seed in seeds]
    assert sum(held) >= 3


@pytest.mark.parametrize("make", [with_batches, with_changelogs])
def test_both_planes_give_equal_rows_with_batches_and_commits(make: Any) -> None:
    for seed in range(8):
        made = unchecked(of_engine(make, Random(f"uploads {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in PLANES)) == [], seed


@pytest.mark.parametrize(("kind", "seed"), [("moving", 18), ("replicated", 5)])
def test_both_planes_give_equal_rows_with_all_features(kind: str, seed: int) -> None:
    raw = full_job(kind, seed)
    raw["fault_tolerance"]["uploads"] = "shared"
    run(raw)


def test_both_planes_give_equal_rows_with_in_flight_data() -> None:
    for seed in range(6):
        raw = with_unaligned(Random(f"uploads {seed}"))
        raw["fault_tolerance"]["uploads"] = "shared"
        run(raw)


def test_both_planes_give_equal_rows_with_several_checkpoints_at_a_time() -> None:
    for seed in range(6):
        raw = shared(Random(f"uploads {seed}"))
        raw["fault_tolerance"] |= {"interval": "50 ms", "barriers": {"concurrent": 3, "timeout": "150 ms"}}
        run(raw)


# -- mutants


def test_uploads_that_go_on_after_their_checkpoint_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FairLink, "empty", lambda self: None)
    with pytest.raises(AssertionError):
        test_what_was_given_up_takes_no_share(PlainPlane)


def test_key_groups_that_share_on_their_own_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    send = FairLink.send

    def alone(self: FairLink, now_ns: int, size: int, ends: Any, number: int, leave: Any, tuples: int = 0) -> None:
        send(self, now_ns, size, (number, ends[1]), number, leave, tuples)

    monkeypatch.setattr(FairLink, "send", alone)
    with pytest.raises(AssertionError):
        test_tasks_share_the_store_evenly_and_send_one_key_group_after_the_other(PlainPlane)


def test_a_store_that_writes_in_turn_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultTolerance, "shares_uploads", property(lambda self: False))
    for caught in (
        test_tasks_share_the_store_evenly_and_send_one_key_group_after_the_other,
        test_tasks_of_a_batch_commit_their_states_at_once_and_the_batch_ends_as_early,
        test_threads_send_to_their_changelogs_at_once_and_one_key_group_after_the_other,
    ):
        with pytest.raises(AssertionError):
            caught(PlainPlane)


# -- bad input


def test_uploads_are_shared_where_all_send_at_once() -> None:
    raw = job()
    del raw["fault_tolerance"]["barriers"], raw["fault_tolerance"]["restores"]
    (fault,) = faults(unchecked(raw))
    rule = "needs fault_tolerance.barriers: all tasks write their part of a checkpoint of the job at once"
    assert (fault.path, fault.rule) == ("fault_tolerance.uploads", rule)
