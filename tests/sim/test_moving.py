"""Key groups that move without a second instance: the compiled plane against its specification, and what is refused.

Oracle: `sim.plain`, by equality of all columns and of all that the listener is told; no tolerance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from lattices import lattice_job
from scripts import FRONTIERS, MOVES_ALONE, VERBS, WITHHOLDING, run_script, unchecked
from seeds import parts
from small_jobs import random_job, with_fair_links, without_crashes
from test_event_time_recovery import on_a_lattice, timers, windows
from test_planes import METHODS, differences, noticed

from models.scenario.inputs import RunInputs
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.data_plane import DataPlane
from sim.engine import records, simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.plain.task import Task
from sim.plane_values import Parcel


def job(seed: int) -> dict[str, Any]:
    """A random job in which no host may fail."""
    draw = Random(f"moving {seed}")
    make = lattice_job if seed % 2 else random_job
    raw = without_crashes(make(draw, fault_tolerance=dict(METHODS[seed // 2 % 4])))
    for operator in raw["operators"].values():
        operator.pop("buffer", None)
    if draw.random() < 0.3:
        raw = with_fair_links(draw, raw)
    return raw


def on_both(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """Differences between the planes for the job and the script of that seed."""
    raw = job(seed)
    verbs = (*MOVES_ALONE, *([], ["pause", "hold"], VERBS)[seed % 3])
    (plain, told), (compiled, told_too) = (
        run_script(raw, plane, seed, 60, verbs) for plane in (PlainPlane, CompiledPlane)
    )
    if seen is not None:
        seen.update("a parcel" if isinstance(what, Parcel) else str(what) for _, what, *_ in told)
        seen["lost"] += int(plain.tables["ledger"]["lost"].sum()) + int(plain.tables["ledger"]["duplicated"].sum())
    return differences(plain, compiled) + ["told"] * (told != told_too)


def with_frontiers(seed: int, seen: Counter[str], plane: PlaneFactory = CompiledPlane) -> list[str]:
    """Differences between a plane and its specification where groups have their next task from a time on."""
    raw, verbs = job(seed), (*FRONTIERS, *([], ["pause"], ["relocate", "hold", "unhold", "unpause"])[seed % 3])
    (plain, told), (other, told_too) = (run_script(raw, one, seed, 60, verbs) for one in (PlainPlane, plane))
    seen.update(str(what) for _, what, *_ in told if not isinstance(what, Parcel))
    return differences(plain, other) + ["told"] * (told != told_too)


def beside_event_time(seed: int, seen: Counter[str], plane: PlaneFactory = CompiledPlane) -> list[str]:
    """Differences between a plane and its specification for a job with windows, joins or timers."""
    draw = Random(f"moving timed {seed}")
    raw = without_crashes((timers, windows, on_a_lattice)[seed % 3](draw, fault_tolerance={"method": "none"}))
    for operator in raw["operators"].values():
        operator.pop("buffer", None)
    both = (*FRONTIERS, *MOVES_ALONE)
    verbs = (*both, *([], ["pause", "unpause"], ["pause", "unpause", "hold", "unhold"], VERBS)[seed // 3 % 4])
    (plain, told), (other, told_too) = (run_script(raw, one, seed, 60, verbs) for one in (PlainPlane, plane))
    seen.update("a parcel" if isinstance(what, Parcel) else str(what) for _, what, *_ in told)
    return differences(plain, other) + ["told"] * (told != told_too)


@pytest.mark.parametrize("seeds", parts(12, 600))
def test_event_time_and_windows_come_along_in_both_planes(seeds: range) -> None:
    seen = Counter[str]()
    for seed in seeds:
        assert beside_event_time(seed, seen) == [], seed
    assert seen["put"] > len(seeds)
    assert seen["passed"] > len(seeds)


def withholding(seed: int, seen: Counter[str], plane: PlaneFactory = CompiledPlane) -> list[str]:
    """Differences between a plane and its specification where tasks withhold outputs, and key groups leave them."""
    draw = Random(f"withholding {seed}")
    raw = job(seed)
    if draw.random() < 0.6:
        raw = without_crashes(draw.choice([timers, windows, on_a_lattice])(draw, fault_tolerance={"method": "none"}))
    for operator in raw["operators"].values():
        operator.pop("buffer", None)
    verbs = (*FRONTIERS, *MOVES_ALONE, *WITHHOLDING, *WITHHOLDING, *draw.choice([[], ["pause", "unpause"], VERBS]))
    (plain, told), (other, told_too) = (run_script(raw, one, seed, 60, verbs) for one in (PlainPlane, plane))
    seen.update("a parcel" if isinstance(what, Parcel) else str(what) for _, what, *_ in told)
    seen["lost"] += int(plain.tables["ledger"]["lost"].sum()) + int(plain.tables["ledger"]["duplicated"].sum())
    return differences(plain, other) + ["told"] * (told != told_too)


@pytest.mark.parametrize("seeds", parts(12, 600))
def test_both_planes_withhold_the_same(seeds: range) -> None:
    seen = Counter[str]()
    for seed in seeds:
        assert withholding(seed, seen) == [], seed
    assert seen["withholds"] > 3 * len(seeds)
    assert min(seen["put"], seen["passed"]) > len(seeds) // 2
    assert seen["lost"] == 0


def told_of_what_a_timer_owes(plane: PlaneFactory) -> list[bool]:
    """Whether a frontier has passed while a task with a timer is paused, and when it has gone on."""
    raw = job_with_counts()
    raw["workload"]["src"]["rate"] = "1 /s"  # the first tuples come after 1 s
    service = {"distribution": "deterministic", "value": "0.1 ms"}
    raw["operators"]["ticks"] = {"kind": "map", "inputs": {"src": "shuffle"}, "service": service}
    raw["operators"]["ticks"]["timer"] = {"every": "10 ms"}
    raw["operators"]["op"]["inputs"] = {"ticks": "key"}
    control = Control(RunPlan.of(unchecked(raw), RunInputs(), 0), plane)
    told: list[int] = []
    control.passed = told.append  # type: ignore[method-assign]
    control.start()
    task = control.cluster.task_operator.index(3)
    found = []
    for until_ms, act in (
        (15, lambda: control.plane.pause(task, None)),
        (41, lambda: control.plane.passed(1, 35_000_000, 7)),
        (60, lambda: control.plane.unpause(task)),
        (80, lambda: None),
    ):
        control.run(until_ms * 1_000_000)
        found.append(bool(told))
        act()
    return found


@pytest.mark.parametrize("plane", [PlainPlane, CompiledPlane])
def test_a_frontier_waits_for_what_a_timer_owes(plane: PlaneFactory) -> None:
    assert told_of_what_a_timer_owes(plane) == [False, False, False, True]


def test_a_frontier_that_forgets_what_a_timer_owes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainPlane, "_owes_ticks", lambda *_: False)
    assert told_of_what_a_timer_owes(PlainPlane) != [False, False, False, True]


@pytest.mark.parametrize("seeds", parts(15, 30))
def test_both_planes_tell_of_frontiers_at_the_same_instants(seeds: range) -> None:
    seen = Counter[str]()
    for seed in seeds:
        assert with_frontiers(seed, seen) == [], seed
    assert seen["passed"] > 100
    assert seen["put"] > 20


def test_both_planes_give_equal_rows() -> None:
    seen = Counter[str]()
    for seed in range(15):
        assert on_both(seed, seen) == [], seed
    assert seen["put"] > 20
    assert seen["refused"] > 25
    assert seen["lost"] == 0


def job_with_counts() -> dict[str, Any]:
    """Two sources that count into six key groups at two tasks, 4,000 tuples per second."""
    return {
        "duration": "1 s",
        "workload": {
            "src": {"rate": "4000 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 24}}
        },
        "operators": {
            "src": {"kind": "source", "parallelism": 2},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": 2,
                "key_groups": 6,
                "service": {"distribution": "deterministic", "value": "0.1 ms"},
                "state": {"model": "fixed", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": 5}},
        "network": {"latency": "5 ms"},
        "fault_tolerance": {"method": "none"},
    }


@pytest.fixture(params=[PlainPlane, CompiledPlane])
def control(request: pytest.FixtureRequest) -> Control:
    made = Control(RunPlan.of(unchecked(job_with_counts()), RunInputs(), 0), request.param)
    made.start()
    made.run(20_500_000)
    return made


# Tasks 0 and 1 are those of the source, 2 and 3 those of the operator, 4 is the sink. Partitions 2 to 7 are key groups.
GROUPS_OF_2 = [2, 4, 6]
ALL_TO_3 = [3] * 6


def test_nothing_is_changed_by_what_is_refused(control: Control) -> None:
    plane = control.plane
    refused: list[tuple[str, Any]] = [
        ("key groups", lambda: plane.place(1, [0, 1], [3] * 5)),
        ("no live task", lambda: plane.place(1, [0, 1], [3, 3, 3, 3, 3, 4])),
        ("no live task", lambda: plane.place(1, [0, 4], ALL_TO_3)),
        ("not of a source or sink", lambda: plane.place(0, [0], [0, 0])),
        ("not of a source or sink", lambda: plane.place(2, [2, 3], [4])),
        ("not of a source or sink", lambda: plane.place(7, [2, 3], [4])),
        ("one next task", lambda: plane.take(GROUPS_OF_2)),
        ("each of them once", lambda: plane.take([2, 2])),
        ("at least one", lambda: plane.take([])),
        ("source or sink", lambda: plane.take([0])),
        ("no partition 99", lambda: plane.take([99])),
        ("there is no parcel", lambda: plane.put(0, 3)),
        ("for an operator, or a sink", lambda: plane.withhold(0, 0, 0)),
        ("for an operator, or a sink", lambda: plane.withhold(0, 7, 0)),
        ("no live task that sends to op", lambda: plane.withhold(4, 1, 0)),
        ("no live task that sends to op", lambda: plane.let_out(9, 1)),
    ]
    for words, act in refused:
        with pytest.raises(ValueError, match=words):
            act()
    control.run(1_000_000_000)
    found = records(control, 1_000_000_000)
    untouched = simulate(unchecked(job_with_counts()), plane=type(plane))
    assert differences(untouched, found) == []


def test_a_task_withholds_for_an_operator_once_at_a_time(control: Control) -> None:
    plane = control.plane
    plane.let_out(0, 1)  # nothing is withheld
    plane.withhold(0, 1, 30_000_000)
    with pytest.raises(ValueError, match="already"):
        plane.withhold(0, 1, 40_000_000)
    control.run(60_000_000)
    plane.let_out(0, 1)
    plane.withhold(0, 1, 90_000_000)
    plane.let_out(0, 1)
    control.run(1_000_000_000)
    found = records(control, 1_000_000_000).tables["visits"]
    untouched = simulate(unchecked(job_with_counts()), plane=type(plane)).tables["visits"]
    assert len(found["task"]) == len(untouched["task"])


def test_a_state_is_taken_when_all_senders_know_and_all_is_served(control: Control) -> None:
    plane = control.plane
    plane.place(1, [0], ALL_TO_3)
    control.run(40_000_000)
    with pytest.raises(ValueError, match="not all tasks upstream"):
        plane.take(GROUPS_OF_2)
    plane.place(1, [1], ALL_TO_3)
    with pytest.raises(ValueError, match="has been served"):
        plane.take(GROUPS_OF_2)  # what was sent before is on its way
    control.run(50_000_000)
    parcel = plane.take(GROUPS_OF_2)
    assert parcel.bytes == 3000
    assert parcel.partitions == (2, 4, 6)
    with pytest.raises(ValueError, match="live nowhere"):
        plane.take(GROUPS_OF_2)
    with pytest.raises(ValueError, match="was taken"):
        plane.place(1, [0], [2, 3, 3, 3, 3, 3])
    with pytest.raises(ValueError, match="have to be put"):
        plane.discard(parcel.number)
    with pytest.raises(ValueError, match="at their next task"):
        plane.put(parcel.number, 2)
    for number, task in ((0.0, 3), (0, 3.0), (0, [3]), (0, np.array([3, 3]))):
        with pytest.raises(TypeError):
            plane.put(number, task)
    control.run(60_000_000)
    waiting = {row[0]: row[2] for row in plane.samples()}
    assert waiting[2] == 0
    assert waiting[3] > 40  # what has come since the first sender was told
    for partition in parcel.partitions:
        control.cluster.partition_task[partition] = 3
    plane.put(parcel.number, 3)
    with pytest.raises(ValueError, match="there is no parcel"):
        plane.put(parcel.number, 3)
    control.run(1_000_000_000)
    found = records(control, 1_000_000_000)
    assert found.tables["ledger"]["lost"].sum() == found.tables["ledger"]["duplicated"].sum() == 0
    visits = found.tables["visits"]
    assert not ((visits["task"] == 2) & (visits["start_ns"] > 50_000_000)).any()
    applied = visits["operator"][visits["end_ns"] >= 0]
    assert (applied == 1).sum() > 3950


def taken_to_3(control: Control) -> Parcel:
    """The key groups of task 2, on their way to task 3."""
    control.plane.place(1, [0, 1], ALL_TO_3)
    control.run(60_000_000)
    return control.plane.take(GROUPS_OF_2)


def test_a_task_that_starts_while_a_group_is_on_its_way_sends_to_its_next_task(control: Control) -> None:
    parcel = taken_to_3(control)
    new = control.cluster.new_task(0, 4)
    control.plane.add_task(new)
    control.plane.place(1, [new], ALL_TO_3)
    with pytest.raises(ValueError, match="was taken"):
        control.plane.place(1, [new], [2, 3, 3, 3, 3, 3])
    for partition in parcel.partitions:
        control.cluster.partition_task[partition] = 3
    control.run(100_000_000)
    control.plane.put(parcel.number, 3)
    control.run(1_000_000_000)
    found = records(control, 1_000_000_000)
    visits = found.tables["visits"]
    assert not ((visits["task"] == 2) & (visits["arrival_ns"] > 60_000_000)).any()
    assert found.tables["ledger"]["lost"].sum() == 0


@pytest.mark.parametrize("whole", [np.int64, np.int32, int])
def test_whole_numbers_of_any_type_are_taken(control: Control, whole: Callable[[int], Any]) -> None:
    control.plane.place(whole(1), (whole(task) for task in (0, 1)), np.array(ALL_TO_3))
    control.run(60_000_000)
    parcel = control.plane.take(np.array(GROUPS_OF_2))
    assert parcel.partitions == (2, 4, 6)
    assert [type(partition) for partition in parcel.partitions] == [int] * 3
    control.plane.put(whole(parcel.number), whole(3))


def test_what_is_no_whole_number_changes_nothing(control: Control) -> None:
    plane = control.plane
    for act in (
        lambda: plane.place(1.0, [0, 1], ALL_TO_3),
        lambda: plane.place(1, [0.0, 1], ALL_TO_3),
        lambda: plane.place(1, [0, 1], [*ALL_TO_3[1:], 3.0]),
        lambda: plane.take([2.0]),
        lambda: plane.withhold(0, 1, 0.0),
        lambda: plane.let_out(0, 1.0),
    ):
        with pytest.raises(TypeError):
            act()
    control.run(1_000_000_000)
    untouched = simulate(unchecked(job_with_counts()), plane=type(plane))
    assert differences(untouched, records(control, 1_000_000_000)) == []


NEED_IDS: dict[str, Callable[[DataPlane], object]] = {
    "assign": lambda plane: plane.assign(2, 2),
    "install": lambda plane: plane.install(2),
    "open": lambda plane: plane.open(2),
    "release": lambda plane: plane.release(2),
    "add_instance": lambda plane: plane.add_instance(9, 2, 3),
    "route": lambda plane: plane.route(0, 2, [2]),
    "own": lambda plane: plane.own(2),
    "mute": lambda plane: plane.mute(2, True),
    "copy_kept": lambda plane: plane.copy_kept(0, 2, 3),
    "adopt": lambda plane: plane.adopt(2, 3),
    "hand_down": lambda plane: plane.hand_down(2, 3),
    "retire": lambda plane: plane.retire(2),
}


@pytest.mark.parametrize("verb", NEED_IDS)
def test_no_verb_that_needs_ids_is_for_a_group_on_its_way(control: Control, verb: str) -> None:
    taken_to_3(control)
    with pytest.raises(ValueError, match="keeps no ids"):
        NEED_IDS[verb](control.plane)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a host may fail": (
        {
            "events": {"e": {"kind": "host-failure", "at": "900 ms", "host": "h-4"}},
            "fault_tolerance": {"method": "checkpoint"},
        },
        "tuples have ids",
    ),
    "bounded queues": ({"buffer": 5}, "bounded"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("plane", [PlainPlane, CompiledPlane])
def test_runs_in_which_no_group_is_taken(what: str, plane: PlaneFactory) -> None:
    changes, words = REFUSED[what]
    raw = job_with_counts()
    if what == "a host may fail":
        raw |= changes
    else:
        raw["operators"]["op"] |= changes
    control = Control(RunPlan.of(unchecked(raw), RunInputs(), 0), plane)
    control.start()
    control.run(10_000_000)
    with pytest.raises(ValueError, match=words):
        control.plane.place(1, [0, 1], ALL_TO_3)
    with pytest.raises(ValueError, match=words):
        control.plane.take(GROUPS_OF_2)


# -- planes that are broken on purpose


def without(where: type, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(where, name, lambda *_: None)


def unheld(patch: pytest.MonkeyPatch) -> None:
    """What comes to the next task of a group is served there at once."""
    place = PlainPlane.place

    def broken(plane: PlainPlane, operator: int, senders: Collection[int], owners: Sequence[int]) -> None:
        place(plane, operator, senders, owners)
        for partition in plane.partitions[operator]:
            partition.goal = None if not partition.placed else partition.goal
            for one in partition.placed.values():
                partition.goal = plane.tasks[0] if one is partition.goal else partition.goal

    patch.setattr(PlainPlane, "place", broken)


def behind(patch: pytest.MonkeyPatch) -> None:
    """What has waited goes behind what waits in the queue."""
    patch.setattr(Task, "put_in_front", lambda task, items: task.arrive(*items))


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a group is taken before all is served": without(PlainPlane, "_check_served"),
    "what waits for a group is served before it comes": unheld,
    "what has waited goes behind the queue": behind,
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_broken_plane_is_caught(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[what](monkeypatch)
    assert noticed(on_both, range(60))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        assert on_both(seed) == [], seed
