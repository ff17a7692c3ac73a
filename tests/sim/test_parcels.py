"""Verbs for whole dataflows: the compiled plane against its specification, under random scripts of them and all others.

Oracle: `sim.plain`, by equality of all columns and of all that the listener is told; no tolerance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

import pytest
from lattices import lattice_job
from scripts import DATAFLOWS, MOVES, MS, VERBS, run_script, unchecked
from small_jobs import random_job, random_joins, random_windows, storm, with_buffers, with_fair_links, with_timers
from test_planes import METHODS, differences

import sim.plain.audit
from models.scenario.inputs import RunInputs
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.kernel.event_loop import forgetting
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.channels import Source
from sim.plain.host import Processor
from sim.plain.parcels import Parcels
from sim.plain.partition import Checkpoint, Contents, Partition, Visit, Work
from sim.plain.plane import PlainPlane
from sim.plain.task import Cores, Task
from sim.plane_values import Parcel

Patch = pytest.MonkeyPatch
MAKES: tuple[Callable[..., dict[str, Any]], ...] = (random_job, lattice_job, random_windows, random_joins, storm)


def job(seed: int) -> dict[str, Any]:
    """A random job of any kind in which a host may fail."""
    draw = Random(f"parcels {seed}")
    raw = MAKES[seed % len(MAKES)](draw, fault_tolerance=dict(METHODS[seed // 2 % 4]))
    for change in (with_buffers, with_fair_links, with_timers):
        if draw.random() < 0.35 and (change is not with_timers or seed % len(MAKES) in (0, 1, 4)):
            raw = change(draw, raw)
    cores = {"cpu": draw.choice(["dedicated", "shared", "shared", "processor-sharing"]), "cores": draw.choice([1, 2])}
    raw["hosts"]["h"] = raw["hosts"]["h"] | (cores if draw.random() < 0.7 else {})
    raw["hosts"]["late"] = {"count": 1}
    raw["placement"] = {"operators": dict.fromkeys(raw["operators"], "h")}
    late = {"late": {"at": "1000 s", "kind": "host-failure", "host": "late-0"}}
    return raw | {"events": (raw["events"] if draw.random() < 0.5 else {}) | late}


def verbs_of(raw: dict[str, Any], seed: int) -> tuple[str, ...]:
    """The verbs of a script: those for whole dataflows alone, or beside all others."""
    beside: list[tuple[str, ...]] = [("hold", "pause"), (*VERBS, "speed")]
    if not any("timer" in operator for operator in raw["operators"].values()):  # whose groups have one instance
        beside.append((*DATAFLOWS, *VERBS, *MOVES))
    return (*DATAFLOWS, "hold", *beside[seed % len(beside)])


def name(what: object) -> str:
    """What the listener was told of, or the script has noted."""
    if isinstance(what, Parcel):
        return "a parcel with tuples" if what.tuples else "a parcel with states" if what.partitions else "a parcel"
    return str(what)


def on_both(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """Differences between the planes for the job and the script of that seed."""
    raw = job(seed)
    verbs = verbs_of(raw, seed)
    (plain, told), (compiled, told_too) = (
        run_script(raw, plane, seed, 80, verbs) for plane in (PlainPlane, CompiledPlane)
    )
    if seen is not None:
        seen.update(f"dropped: {reason}" for reason in plain.tables["dropped"]["reason"].tolist())
        seen.update(name(what) for _, what, *_ in told)
    return differences(plain, compiled) + ["told"] * (told != told_too)


@pytest.mark.parametrize(
    "seeds",
    [[*range(20), 36], pytest.param(range(20, 90), marks=pytest.mark.slow)],
    ids=["few", "more"],  # 36 is the first in which a parcel is dropped
)
def test_both_planes_give_equal_rows(seeds: Iterable[int]) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        assert on_both(seed, seen) == [], seed
    assert seen.keys() >= {"dropped: kill", "dropped: parcel", "put", "refused", "missing", "message"}
    assert seen.keys() >= {"a parcel with states", "a parcel with tuples"}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(1000 * part, 1000 * part + 1000):
        assert on_both(seed) == [], seed


# -- ids that are forgotten

KEPT_IDS = ("kill", "start", "bring", "bring", "snapshot", "snapshot", "capture", "put", "discard", "pause")


def forgetful_job(seed: int) -> dict[str, Any]:
    """A job with so many tuples, and without event time, that the compiled plane forgets ids."""
    raw = job(5 * seed + seed % 2)
    raw["fault_tolerance"] |= {"method": "checkpoint", "guarantee": "exactly-once"}
    raw["workload"]["src"]["rate"] = "300 /s"
    for operator in raw["operators"].values():
        operator.pop("timer", None)
        if operator.get("state", {}).get("model") == "window":
            operator["state"] = {"model": "per-key", "bytes": "10 B"}
    return raw


def forgetful(seed: int) -> tuple[list[str], bool]:
    """Differences between the planes for that job under a script, and whether ids were forgotten."""
    raw, planes = forgetful_job(seed), []

    class Noted(CompiledPlane):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            planes.append(self)

    (plain, told), (compiled, told_too) = (run_script(raw, plane, seed, 80, KEPT_IDS) for plane in (PlainPlane, Noted))
    found = differences(plain, compiled) + ["told"] * (told != told_too)
    return found, planes[0].state.ids["oldest"] > 0


def test_ids_that_come_out_of_parcels_are_not_forgotten() -> None:
    found = [forgetful(seed) for seed in range(12)]
    assert not any(differences for differences, _ in found)
    assert sum(forgot for _, forgot in found) > 6


def test_a_plane_that_forgets_what_parcels_have_is_noticed(monkeypatch: Patch) -> None:
    monkeypatch.setattr(CompiledPlane, "_pin", lambda _: None)
    with pytest.raises(RuntimeError, match="ids had been forgotten"):
        forgetful(226)


def test_a_tuple_whose_id_may_be_forgotten_is_not_emitted_again() -> None:
    service = {"distribution": "deterministic", "value": "1 ms"}
    raw = {
        "duration": "5 s",
        "workload": {"src": {"rate": "50 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "p": {"kind": "map", "inputs": {"src": "key"}, "service": service},
            "out": {"kind": "sink", "inputs": {"p": "shuffle"}},
        },
        "hosts": {"h": {"count": 3}},
        "fault_tolerance": {"method": "checkpoint", "interval": "300 ms"},
        "events": {"late": {"at": "1000 s", "kind": "host-failure", "host": "h-2"}},
    }
    control = Control(RunPlan.of(unchecked(raw), RunInputs(), 0), CompiledPlane)
    plane = control.plane
    assert isinstance(plane, CompiledPlane)
    source = int(plane.state.sources["partition"][0])
    control.start()
    control.run(500 * MS)
    kept = plane.snapshot(())
    plane.emit_again(source, [0])
    control.run(4000 * MS)
    forgetting.forget(plane.state)
    assert plane.state.ids["oldest"] <= 500 * MS
    plane.discard(kept.number)
    forgetting.forget(plane.state)
    assert plane.state.ids["oldest"] > 500 * MS
    with pytest.raises(ValueError, match="all have saved"):
        plane.emit_again(source, [0])


# -- broken planes
#
# Each fault is one that an engine on arrays could have.


def puts_in_reverse_order(patch: Patch) -> None:
    """Captured tuples come out of their parcel the last one first."""
    new = Parcels._new_parcel

    def reversed_parcel(plane: Parcels, contents: Contents) -> Parcel:
        contents.tuples = contents.tuples[::-1]
        return new(plane, contents)

    patch.setattr(Parcels, "_new_parcel", reversed_parcel)


def puts_behind_the_queue(patch: Patch) -> None:
    """Tuples of a parcel queue behind the others."""
    put = Parcels.put

    def behind(plane: Parcels, parcel: int, task: int) -> None:
        goal = plane.tasks[task]
        before = len(goal.front)
        put(plane, parcel, task)
        while len(goal.front) > before:
            item = goal.front.pop()
            assert isinstance(item, Visit)
            goal.queue.append(item)

    patch.setattr(Parcels, "put", behind)


def puts_what_arrived_long_ago(patch: Patch) -> None:
    """A tuple out of a parcel keeps the instant at which it arrived first."""
    front = Task.put_in_front

    def arrived(task: Task, items: list[Visit] | list[Work]) -> None:
        for item in items:
            if isinstance(item, Visit) and item.arrival_ns == task.plane.clock.now_ns() and not item.replayed:
                item.arrival_ns = item.row.created_ns
        front(task, items)

    patch.setattr(Task, "put_in_front", arrived)


def a_kill_that_keeps_the_core(patch: Patch) -> None:
    """A core that served a killed task serves nobody any more."""
    kill = Task.kill

    def keep(task: Task) -> list[Visit]:
        free = task.cores.free
        gone = kill(task)
        task.cores.free = free
        return gone

    patch.setattr(Task, "kill", keep)


def a_kill_after_which_nothing_begins(patch: Patch) -> None:
    """Other tasks on the core of a killed one wait for the next arrival."""
    kill = Parcels.kill

    def silent(plane: Parcels, task: int) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Cores, "dispatch", lambda _cores: None)
            kill(plane, task)

    patch.setattr(Parcels, "kill", silent)


def a_kill_that_cuts_the_link(patch: Patch) -> None:
    """What a killed task had sent, and what had not left its host yet, never arrives."""
    kill = Task.kill

    def cut(task: Task) -> list[Visit]:
        task.died_ns = task.plane.clock.now_ns()
        return kill(task)

    patch.setattr(Task, "kill", cut)


def a_kill_that_is_a_crash(patch: Patch) -> None:
    """Tuples at a killed task are dropped as if its host had crashed."""
    patch.setattr(Task, "death", "crash")


def a_kill_that_a_processor_misses(patch: Patch) -> None:
    """Services of a killed task go on to take their share of a processor."""
    patch.setattr(Processor, "forget", lambda _processor, _task: None)


def again_and_kept_again(patch: Patch) -> None:
    """What a source emits again it keeps once more."""
    emit = PlainPlane.emit

    def keep(
        plane: PlainPlane, partition: Partition, one: int, created_ns: int, key: int, *_: Any, **_more: Any
    ) -> None:
        emit(plane, partition, one, created_ns, key)

    patch.setattr(PlainPlane, "emit", keep)


def again_behind_what_waits(patch: Patch) -> None:
    """Tuples that are emitted again come behind those that wait at the source."""
    one = Source.emit_one

    def new_first(source: Source) -> None:
        again = source.again
        if source.emitted < source.arrived:
            source.again = type(again)()
        one(source)
        source.again = again

    patch.setattr(Source, "emit_one", new_first)


def again_in_spite_of_a_kill(patch: Patch) -> None:
    """What a source was to emit again is emitted by its next task."""
    lose = PlainPlane.lose_memory

    def remember(plane: PlainPlane, partition: Partition) -> None:
        waiting = {source: list(source.again) for source in plane.sources}
        lose(plane, partition)
        for source, again in waiting.items():
            source.again.clear()
            source.again.extend(again)

    patch.setattr(PlainPlane, "lose_memory", remember)


def a_snapshot_that_counts(patch: Patch) -> None:
    """The next checkpoint has only what was changed since the parcel was filled."""
    snapshot = Partition.independent_snapshot

    def counted(partition: Partition) -> Checkpoint:
        partition.touched.clear()
        partition.applied_at_snapshot, partition.new_kept_bytes = len(partition.applied), 0
        return snapshot(partition)

    patch.setattr(Partition, "independent_snapshot", counted)


def a_snapshot_without_kept_outputs(patch: Patch) -> None:
    """Outputs that nobody has saved are not in a parcel."""
    snapshot = Partition.independent_snapshot
    patch.setattr(Partition, "independent_snapshot", lambda partition: replace(snapshot(partition), kept=()))


def captured_tuples_stay_replayed(patch: Patch) -> None:
    """Replayed tuples that are captured are still awaited."""
    capture = Parcels.capture

    def silently(plane: Parcels, task: int) -> Parcel:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PlainPlane, "one_replayed", lambda *_: None)
            return capture(plane, task)

    patch.setattr(Parcels, "capture", silently)


def captured_tuples_of_nobody(patch: Patch) -> None:
    """The ledger takes tuples in parcels for lost."""
    patch.setattr(sim.plain.audit, "_in_parcels", lambda _plane, _coming: None)


def saved_states_of_nobody(patch: Patch) -> None:
    """The ledger does not see that a partition that is down has its state in a parcel."""
    patch.setattr(sim.plain.audit, "_saved", lambda _plane: {})


def put_over_a_newer_checkpoint(patch: Patch) -> None:
    """A state is put although upstream may have forgotten what came after it."""
    check = Parcels._check_fits

    def unchecked(plane: Parcels, contents: Contents, task: Task) -> None:
        stored = {partition: partition.checkpoint for partition, _ in contents.states}
        for partition in stored:
            partition.checkpoint = None
        try:
            check(plane, contents, task)
        finally:
            for partition, checkpoint in stored.items():
                partition.checkpoint = checkpoint

    patch.setattr(Parcels, "_check_fits", unchecked)


FAULTS: dict[Callable[[Patch], None], int] = {
    puts_in_reverse_order: 11,
    puts_behind_the_queue: 11,
    puts_what_arrived_long_ago: 11,
    a_kill_that_keeps_the_core: 1,
    a_kill_after_which_nothing_begins: 61,
    a_kill_that_cuts_the_link: 81,
    a_kill_that_is_a_crash: 0,
    a_kill_that_a_processor_misses: 1,
    again_and_kept_again: 1,
    again_behind_what_waits: 1,
    again_in_spite_of_a_kill: 9,
    a_snapshot_that_counts: 9,
    a_snapshot_without_kept_outputs: 0,
    captured_tuples_stay_replayed: 1,
    captured_tuples_of_nobody: 1,
    saved_states_of_nobody: 89,
    put_over_a_newer_checkpoint: 66,
}
"""Faults, and the first seed that shows each, which is tried before all others."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_makes_rows_differ(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    assert any(differs(seed) for seed in chain([FAULTS[fault]], range(200)))


def differs(seed: int) -> bool:
    """Whether the planes differ, or the broken one fails."""
    try:
        return bool(on_both(seed))
    except (AssertionError, LookupError):
        return True
