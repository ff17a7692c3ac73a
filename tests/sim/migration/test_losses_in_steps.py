"""Hosts that die while key groups move in steps and nothing is kept: the move is cut short, and what is lost is told.

Oracle: what becomes of each tuple and each state, as `lab.following` has seen it; numbers of one job by hand; rows of
the compiled plane against those of the plain one. No tolerance. Rules that are broken on purpose are noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from lab.broken_losses import (
    MUTANTS,
    dead_senders_are_not_waited_for,
    outputs_of_a_lost_state_leave,
    senders_go_on_sending_to_a_dead_task,
    what_waits_for_a_lost_state_is_forgotten,
)
from losing_steps import job, ran
from seeds import sample
from test_crashes_in_steps import GROUP_BYTES, dies, phases, said
from test_crashes_in_steps import steps as with_checkpoints
from test_megaphone import MS, rows_of
from test_planes import differences

from analysis.runs.reconfigurations import reconfigurations
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER, RunRecords
from models.scenario.reading import scenario_from
from models.scenario.rules import faults as wrong
from models.scenario.rules import not_simulated
from sim.control.assembly import Control
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.lost_steps import LostSteps
from sim.plain.plane import PlainPlane

PLANES = (PlainPlane, CompiledPlane)


def steps(scope: str = "operator", **changes: Any) -> dict[str, Any]:
    """Four key groups go from a task to another, in steps of two; each task is on a host of its own, the sink too."""
    return with_checkpoints(scope, **changes) | {"fault_tolerance": {"method": "none"}}


def paused() -> dict[str, Any]:
    """The same, all at once by a protocol that pauses tasks."""
    raw = steps()
    event = {"kind": "reconfigure", "at": "750 ms", "operator": "op", "protocol": "pause-and-resume"}
    return raw | {"events": {"move": event | {"owners": [1] * 8}}}


def at(raw: dict[str, Any], phase: str) -> int:
    """The instant of a phase, if nothing dies [ns]."""
    return next(at_ns for name, at_ns in phases(raw) if name == phase)


def test_what_it_moves_beside_hosts_that_die_is_accepted() -> None:
    for seed in range(20):
        scenario = scenario_from(job(seed))
        assert [*wrong(scenario), *not_simulated(scenario)] == []


@pytest.mark.parametrize("part", range(4))
def test_each_tuple_and_each_state_is_there_or_lost_with_a_reason(part: int) -> None:
    ends: Counter[str] = Counter()
    for seed in range(part, 32, 4):
        control, _, faults = ran(job(seed, crashes=1 + seed % 3))
        assert faults == [], seed
        for run in control.reconfigurations.runs:
            ends["cut short" if run.cancelled_ns != NEVER else "done"] += 1
    assert min(ends["done"], 4 * ends["cut short"]) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_jobs(part: int) -> None:
    for seed in range(100 + part, 3_000, 4):
        assert ran(job(seed, crashes=1 + seed % 3))[-1] == [], seed


@pytest.mark.parametrize(("scope", "next_time"), [("operator", "now"), ("bin", "now"), ("bin", "lag")])
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_host_may_die_in_each_phase_of_a_step(scope: str, next_time: str, every: int) -> None:
    """Each host in each phase, or every third of these pairs: each phase and each host is among them."""
    raw = steps(scope)
    raw["events"]["move"]["next"] = next_time
    ends = Counter[bool]()
    for k, (name, at_ns) in enumerate(phases(raw)):
        for host in range(-k % every, 4, every):
            control, _, faults = ran(dies(raw, at_ns, host))
            assert faults == [], (name, host)
            ends[control.reconfigurations.runs[0].cancelled_ns != NEVER] += 1
    assert ends[True] > 20 // every


@pytest.mark.parametrize("host", range(4))
def test_a_host_may_die_while_tasks_pause(host: int) -> None:
    raw = paused()
    control, _, _ = ran(raw)
    (one,) = control.reconfigurations.runs[0].times
    for at_ns in range(750 * MS, one.installed_ns + 20 * MS, 13 * MS):
        assert ran(dies(raw, at_ns, host))[-1] == [], at_ns


def test_both_planes_have_equal_rows_in_each_phase() -> None:
    raw = steps()
    for k, (name, at_ns) in enumerate(phases(raw)):
        crashing = dies(raw, at_ns, (k + 1) % 4)
        assert differences(*(rows_of(crashing, plane) for plane in PLANES)) == [], name


@pytest.mark.parametrize("seed", sample(12, 200))
def test_both_planes_have_equal_rows_whatever_dies(seed: int) -> None:
    raw = job(seed, crashes=1 + seed % 3)
    assert differences(*(rows_of(raw, plane) for plane in PLANES)) == []


# -- what is told, by hand


def told(raw: dict[str, Any], phase: str, host: int) -> tuple[Control, RunRecords]:
    control, found, faults = ran(dies(raw, at(raw, phase), host))
    assert faults == []
    return control, found


def lost(found: RunRecords) -> list[tuple[int, int]]:
    """(key groups, bytes) that were lost, by step."""
    table = found.tables["reconfigurations"]
    return [*zip(table["lost_groups"].tolist(), table["lost_bytes"].tolist(), strict=True)]


@pytest.mark.parametrize(
    ("phase", "host", "by_step", "partitions"),
    [
        # of the source, and of the sink: nothing that moves
        ("on the way 0", 0, [(0, 0), (0, 0)], 1),
        ("on the way 0", 3, [(0, 0), (0, 0)], 1),
        # of the old task: its two that move, and its two others, which move later
        ("announced 0", 1, [(2, 2 * GROUP_BYTES), (0, 0)], 4),
        ("on the way 0", 1, [(2, 2 * GROUP_BYTES), (0, 0)], 4),
        # nobody knows yet: what has come begins to be read, and the next step begins
        ("read 0", 1, [(0, 0), (2, 2 * GROUP_BYTES)], 2),
        # of the new task: its own four, and those that are on their way to it
        ("announced 0", 2, [(0, 0), (0, 0)], 4),
        ("on the way 0", 2, [(2, 2 * GROUP_BYTES), (0, 0)], 6),
        ("on the way 1", 2, [(0, 0), (2, 2 * GROUP_BYTES)], 8),
    ],
)
def test_key_groups_that_are_lost_are_counted(
    phase: str, host: int, by_step: Sequence[tuple[int, int]], partitions: int
) -> None:
    _, found = told(steps(), phase, host)
    assert lost(found) == by_step
    failures = found.tables["failures"]
    assert failures["lost_partitions"].tolist() == [partitions]
    assert len(found.tables["recoveries"]["host"]) == partitions
    assert (failures["caught_up_ns"] != NEVER).all()


def test_a_decision_says_how_far_it_came_and_what_is_lost() -> None:
    control, found = told(steps(), "on the way 1", 2)
    (run,) = control.reconfigurations.runs
    assert [step.installed_ns != NEVER for step in run.times] == [True, False]
    assert said(found, Action.RECONFIGURE)[1:] == [
        (
            Verdict.REFUSED,
            "a task that takes part was lost when 1 of 2 steps were over; what is under way ends, the others are not "
            "done; 2 key groups with 40 kB of state begin empty",
        )
    ]
    (one,) = reconfigurations([found])
    assert (one.steps_over, one.duration_s, one.cancelled_s) == (1, None, run.cancelled_ns / 1e9)
    assert (one.lost_groups, one.lost_bytes) == (2, 2 * GROUP_BYTES)


def test_a_key_group_that_was_to_come_begins_where_its_tuples_wait() -> None:
    control, found = told(steps(), "on the way 0", 1)
    reasons = [reason for _, reason in said(found, Action.RESTORE)]
    assert reasons.count("it was to come to its task there") == 2
    (run,) = control.reconfigurations.runs
    (carry,) = run.plan.steps[0]
    assert {control.cluster.partition_task[one] for one in carry.partitions} == {carry.target}


def test_what_goes_on_between_tasks_that_live_ends() -> None:
    # Two pairs of tasks: of one a host dies, the state of the other arrives.
    raw = steps(hosts={"h": {"count": 6, "network": "1 MB/s"}})
    raw["operators"]["op"]["parallelism"] = 4
    raw["placement"] = {"tasks": {f"op-{k}": f"h-{1 + k}" for k in range(4)} | {"src-0": "h-0", "out-0": "h-5"}}
    raw["events"]["move"] |= {"strategy": "all-at-once", "owners": [1, 1, 3, 3, 1, 1, 3, 3]}
    del raw["events"]["move"]["size"]
    control, found = told(raw, "on the way 0", 2)
    (run,) = control.reconfigurations.runs
    assert lost(found) == [(2, 2 * GROUP_BYTES)]
    assert run.times[0].groups == 2
    first = control.plan.first_partition[1]
    assert [control.cluster.partition_task[first + k] for k in (2, 6)] == [run.plan.members[3]] * 2


def test_a_loss_that_takes_nothing_of_the_last_step_cancels_nothing() -> None:
    control, found = told(steps(), "on the way 1", 0)
    (run,) = control.reconfigurations.runs
    assert run.completed_ns is not None
    assert found.tables["reconfigurations"]["cancelled_ns"].tolist() == [NEVER, NEVER]
    assert [verdict for verdict, _ in said(found, Action.RECONFIGURE)] == [Verdict.DONE]


@pytest.mark.parametrize(
    ("at_ns", "host", "repair", "started_on"),
    [
        # By the recovery, where the fewest key groups are.
        (788 * MS, 1, "100 ms", 0),
        (788 * MS, 2, "100 ms", 0),
        # By the move, of a task without key groups: on its own host, if that is back.
        (950 * MS, 1, "100 ms", 1),
        (950 * MS, 1, None, 0),
    ],
)
def test_later_moves_go_to_tasks_that_are_started_again(
    at_ns: int, host: int, repair: str | None, started_on: int
) -> None:
    again = {"kind": "reconfigure", "at": "1.4 s", "operator": "op", "strategy": "all-at-once"}
    again["owners"] = [1, 1, 1, 1, 0, 0, 0, 0]
    crashing = dies(steps(), at_ns, host)
    crashing["events"]["again"] = again
    if repair is None:
        del crashing["events"]["dies"]["repair"]
    control, _, faults = ran(crashing)
    assert faults == []
    first, later = control.reconfigurations.runs
    assert (first.cancelled_ns != NEVER, later.completed_ns is not None) == (at_ns < 900 * MS, True)
    cluster, groups = control.cluster, control.plan.first_partition[1]
    places = [cluster.task_place[cluster.partition_task[groups + k]] for k in range(8)]
    assert places == [1, 1, 1, 1, 0, 0, 0, 0]
    started = next(task for task in later.plan.members if task not in first.plan.members)
    assert cluster.task_host[started] == started_on


def test_post_dated_outputs_of_a_state_that_is_lost_are_lost_and_counted() -> None:
    raw = steps()
    raw["operators"]["op"]["postpone"] = {"distribution": "deterministic", "value": "300 ms"}
    crashing = dies(raw, 900 * MS, 2)
    control, found, faults = ran(crashing)
    assert faults == []
    ledger = found.tables["ledger"]
    # The sink lacks what the task had applied in the last 300 ms, and what it was sent until it was missed.
    at_sink = int(ledger["lost"][ledger["operator"] == 2][0])
    dropped = len(found.tables["dropped"]["at_ns"])
    in_state = sum(900 * MS - 300 * MS < born <= 900 * MS for born in _applied_by(control, raw, crashing))
    assert at_sink == dropped + in_state
    assert differences(*(rows_of(crashing, plane) for plane in PLANES)) == []


def _applied_by(control: Control, raw: dict[str, Any], crashing: dict[str, Any]) -> Iterator[int]:
    """Yield when the tuples were born that the host had applied which died: those of its key groups by then."""
    undisturbed, _, _ = ran(raw)
    dead = next(task for task, host in enumerate(control.cluster.task_host) if host == 2)
    for partition in undisturbed.plane.all_partitions():  # type: ignore[attr-defined]
        if partition.task.index == dead:
            yield from (born for born in partition.applied_created_ns if born < 900 * MS)


# -- rules that are broken

Break = Callable[[pytest.MonkeyPatch], None]
BROKEN: dict[str, Break] = {title: made for title, (kind, made) in MUTANTS.items() if kind == "losing"}
BROKEN["a sender that is dead, which nobody knows, is none"] = dead_senders_are_not_waited_for


def _hard() -> Iterator[dict[str, Any]]:
    """Jobs in which rules matter: first some that break one of them each."""
    yield from (job(seed, crashes=1 + seed % 3) for seed in (6, 236, 269))
    raw = steps()
    for name, at_ns in phases(raw):
        yield from (dies(raw, at_ns, host) for host in ((1, 2) if not name.startswith("over") else (0,)))
    slow = paused()
    yield from (dies(slow, at_ns * MS, host) for at_ns in (751, 760, 790) for host in range(3))
    yield from (job(seed, crashes=1 + seed % 3) for seed in range(100))


@pytest.mark.parametrize("title", BROKEN)
def test_what_is_broken_is_noticed(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [*_hard()]
    BROKEN[title](monkeypatch)
    for raw in jobs:
        try:
            if ran(raw)[-1]:
                return
        except (ValueError, AssertionError, KeyError):
            return  # a plane, or a manager, refuses it
    raise AssertionError("nothing of it was noticed")


def losses_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LostSteps, "_note", lambda *_: None)


def bytes_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LostSteps, "_bytes_of", lambda *_: 0)


@pytest.mark.parametrize(
    ("broken", "phase", "host"),
    [(losses_are_not_counted, "on the way 0", 2), (bytes_are_not_counted, "announced 0", 1)],
)
def test_what_is_told_is_not_what_was_lost_then(
    broken: Break, phase: str, host: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashing = dies(steps(), at(steps(), phase), host)
    _, right, _ = ran(crashing)
    broken(monkeypatch)
    _, found, _ = ran(crashing)
    told = [lost(one) + one.tables["failures"]["lost_partitions"].tolist() for one in (right, found)]
    assert told[0] != told[1]


@pytest.mark.parametrize(
    "broken",
    [senders_go_on_sending_to_a_dead_task, what_waits_for_a_lost_state_is_forgotten, outputs_of_a_lost_state_leave],
    ids=lambda one: one.__name__,
)
def test_rows_of_a_plane_that_is_broken_differ(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = steps("bin")
    raw["operators"]["op"]["postpone"] = {"distribution": "deterministic", "value": "100 ms"}
    jobs = [dies(raw, at(raw, "announced 1"), 2), dies(raw, at(raw, "on the way 0"), 1)]
    broken(monkeypatch)
    assert any(map(_differs, jobs))


def _differs(raw: dict[str, Any]) -> bool:
    try:
        return differences(*(rows_of(raw, plane) for plane in PLANES)) != []
    except (ValueError, KeyError):
        return True  # the broken plane refuses what control asks for
