"""Windows, joins, states of the last time and timers where key groups move in steps.

Oracles: the same job whose key groups stay, by equality of all that sinks get; the plain plane by equality of all rows;
rules that are broken on purpose. The plain plane itself raises AssertionError if a tuple comes behind its watermark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from seeds import parts
from test_megaphone import MS, Watched, faults, made, rows_of, watched
from test_planes import differences
from timed_steps import WHERE, crashing_timed_job, light_job, timed_job
from uneven_clock import UnevenClock

from models.records.tables import NEVER
from models.units import to_ns
from sim.clock import ARRIVAL, RECEIVER, SERVICE, Clock
from sim.control.assembly import Control
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.parcels import Parcels
from sim.plain.partition import Partition, Row
from sim.plain.plane import PlainPlane
from sim.plain.watermarks import Watermarks

UNTIL_MS = 3500  # timers go on; what is created until then is delivered before the end of a run


def got(control: Control) -> Counter[tuple[int, int]]:
    """The tuples that sinks have got, (id, creation time), but for those that were made at the end."""
    assert isinstance(control.plane, PlainPlane)
    return Counter(
        (tuple_id, created_ns)
        for partition in control.plane.instances()
        if partition.operator.is_sink
        for tuple_id, created_ns in zip(partition.applied, partition.applied_created_ns, strict=True)
        if created_ns < UNTIL_MS * MS
    )


def ran(raw: dict[str, Any]) -> Control:
    control = made(raw)
    control.start()
    control.run(to_ns(control.plan.scenario.duration_s))
    return control


def wrong(raw: dict[str, Any], patch: pytest.MonkeyPatch) -> tuple[list[str], Watched]:
    """What is wrong with a run, in words; and the run."""
    expected = got(ran({**raw, "events": {}}))
    assert expected
    run = watched(raw, patch)
    found = got(run.control)
    words = ["a sink lacks something"] * bool(expected - found) + ["a sink gets too much"] * bool(found - expected)
    if all(event.get("protocol", "megaphone") == "megaphone" for event in raw["events"].values()):
        words += faults(run)
    return words, run


@pytest.mark.parametrize("seeds", parts(5, 150))
def test_sinks_get_what_they_get_where_key_groups_stay(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = 0
    for seed in seeds:
        found, run = wrong(timed_job(seed, WHERE[seed % len(WHERE)]), monkeypatch)
        assert found == [], seed
        moved += sum(one.groups for _, times in run.plans for one in times)
    assert moved > len(seeds)


def test_an_output_of_a_timer_may_wait_for_a_state_while_older_tuples_go_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong(timed_job(30284, "timer"), monkeypatch)[0] == []


@pytest.mark.parametrize("seeds", parts(10, 400))
def test_both_planes_give_equal_rows(seeds: range) -> None:
    for seed in seeds:
        raw = timed_job(seed, WHERE[seed % len(WHERE)])
        plain, compiled = (rows_of(raw, plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        assert (plain.tables["reconfigurations"]["installed_ns"] > 0).all(), seed


SPEAKS = (33, 75, 107, 261)  # a task says more when a key group has left


@pytest.mark.parametrize("seed", SPEAKS)
def test_a_task_says_what_is_heard_once_who_had_not_heard_it_has_left(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = timed_job(seed, WHERE[seed % len(WHERE)])
    plain = rows_of(raw, PlainPlane)
    assert differences(plain, rows_of(raw, CompiledPlane)) == []
    monkeypatch.setattr(Watermarks, "speak_for_the_rest", lambda *_: None)
    assert differences(plain, rows_of(raw, PlainPlane)) != []


@pytest.mark.parametrize("seeds", parts(3, 120))
def test_windows_come_back_where_a_host_dies_in_a_step(seeds: range) -> None:
    cancelled = 0
    for seed in seeds:
        raw = crashing_timed_job(seed)
        plain, compiled = (rows_of(raw, plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        run = ran(raw)
        assert isinstance(run.plane, PlainPlane)
        assert run.plane.watermarks.late == [], seed  # type: ignore[attr-defined]
        assert got(run) == got(ran({**raw, "events": {}})), seed
        cancelled += sum(one.cancelled_ns != NEVER for one in run.reconfigurations.runs)
    assert cancelled >= len(seeds) // 10


# -- in any order


class InTime(UnevenClock):
    """An uneven clock on which control tells in time, as the protocols have it."""

    def at(self, time_ns: int, rank: int, call: Callable[[Any], None]) -> None:
        """Call `call` then if it comes from control, and about then else."""
        channel, from_control = rank - ARRIVAL, RECEIVER - 1
        if 0 <= channel < ARRIVAL - SERVICE and channel % RECEIVER == from_control:
            Clock.at(self, time_ns, rank, call)
        else:
            super().at(time_ns, rank, call)


def uneven(raw: dict[str, Any], seed: int) -> Control:
    clock = InTime(seed)
    kinds = [one["kind"] for one in raw["operators"].values() for _ in range(one.get("parallelism", 1))]
    clock.bears = lambda task: kinds[task] == "source"
    control = made(raw, clock=clock)
    control.start()
    control.run(to_ns(8))
    return control


@pytest.mark.parametrize("seeds", parts(3, 200))
def test_nothing_is_late_or_lost_in_whatever_order_channels_bring_it(seeds: range) -> None:
    for seed in seeds:
        raw = timed_job(seed, WHERE[seed % len(WHERE)])
        for event in raw["events"].values():
            event.pop("late", None)
            if event.get("gap") == "drain":  # whether a message has waited is a matter of time
                del event["gap"]
        run = uneven(raw, seed)
        assert all(one.completed_ns is not None for one in run.reconfigurations.runs), seed
        assert got(run) == got(uneven({**raw, "events": {}}, seed)), seed


# -- windows end when they should


def delays(where: str, seed: int) -> list[int]:
    """By how much windows of a light job end after their time, and after the states that they wait for [ns]."""
    raw, ended = light_job(where, seed), list[tuple[int, int]]()
    control = made(raw)
    plane = control.plane
    assert isinstance(plane, PlainPlane)
    emit = plane.emit

    def noting(partition: Partition, tuple_id: int, created_ns: int, *rest: Any, **more: Any) -> None:
        windows = partition.operator.windows
        if windows is not None and partition.operator.fires:
            ended.append((windows.end_ns(windows.last(created_ns)), plane.clock.now_ns()))
        emit(partition, tuple_id, created_ns, *rest, **more)

    plane.emit = noting  # type: ignore[method-assign]
    control.start()
    control.run(to_ns(control.plan.scenario.duration_s))
    steps = [one for run in control.reconfigurations.runs for one in run.times]
    assert steps
    assert all(one.installed_ns != NEVER for one in steps)
    begin, end = min(one.from_ns for one in steps), max(one.installed_ns for one in steps)
    return [at - (max(due, end) if begin <= due + 30 * MS and due <= end else due) for due, at in ended]


LIGHT = ("at", "below", "above", "both", "join")


@pytest.mark.parametrize("where", LIGHT)
def test_windows_end_with_the_watermark_or_when_their_state_has_come(where: str) -> None:
    for seed in range(6):
        found = delays(where, seed)
        assert len(found) > 50
        # A watermark each 20 ms, a latency of 1 ms each way, a state in 2 ms, and what is served meanwhile.
        assert max(found) < 45 * MS, seed


# -- broken on purpose

Broken = Callable[[pytest.MonkeyPatch], None]


def _after_taking(then: Callable[[Partition], object]) -> Broken:
    def broken(patch: pytest.MonkeyPatch) -> None:
        take = Parcels.take

        def taking(self: Parcels, partitions: Any) -> Any:
            made = take(self, partitions)
            for partition in partitions:
                then(self.instances()[partition])
            return made

        patch.setattr(Parcels, "take", taking)

    return broken


def windows_stay(partition: Partition) -> None:
    partition.time.windows = {}


def one_side_stays(partition: Partition) -> None:
    partition.time.sides = {at: rows for at, rows in partition.time.sides.items() if at[2]}


def overtaken(patch: pytest.MonkeyPatch) -> None:
    """Watermarks are heard before what has waited for the state is served."""

    def recall(self: Watermarks, task: Any) -> list[Any]:
        for partition in self._partitions(task):
            if partition.live and task.operator.timed:
                partition.freed_at = 0
                for one in self.passed.get(task, {}).values():
                    self._hear(partition, one, one.begun)
        return []

    patch.setattr(Watermarks, "recall", recall)


def heard_at_the_old_task(patch: pytest.MonkeyPatch) -> None:
    """A key group hears of what is sent to its next task where it is."""
    hear = Watermarks._hear

    def all_of_it(self: Watermarks, partition: Partition, *what: Any) -> None:
        goal, partition.goal = partition.goal, None
        hear(self, partition, *what)
        partition.goal = goal

    patch.setattr(Watermarks, "_hear", all_of_it)


def told_before(patch: pytest.MonkeyPatch) -> None:
    """What a task has said before it got a key group counts for it, too."""
    put = Parcels.put

    def putting(self: Parcels, parcel: int, task: int) -> None:
        taken = self.parcels[parcel].taken
        put(self, parcel, task)
        for one in taken:
            one.live_at = 0

    patch.setattr(Parcels, "put", putting)


def ended_twice(patch: pytest.MonkeyPatch) -> None:
    """The old task of a key group has a copy of its windows, which end there, too."""
    take, turn = Parcels.take, Watermarks.turn
    copies: list[tuple[Any, Partition, dict[int, dict[int, int]]]] = []

    def taking(self: Parcels, partitions: Any) -> Any:
        moved = [self.instances()[partition] for partition in partitions]
        copies.extend(
            (one.task, one, {number: dict(keys) for number, keys in one.time.windows.items()}) for one in moved
        )
        return take(self, partitions)

    def turning(self: Watermarks, watermark: Any, task: Any) -> None:
        for at, partition, windows in copies:
            over = [n for n in windows if at is task and partition.operator.windows.end_ns(n) <= watermark.event_ns]
            for number in over:
                for key, newest_ns in windows.pop(number).items():
                    for child, child_key in partition.operator.results(partition.index, key, number):
                        self.plane.emit(partition, child, newest_ns, child_key)
        turn(self, watermark, task)

    patch.setattr(Parcels, "take", taking)
    patch.setattr(Watermarks, "turn", turning)


def by_the_newest_tuple(patch: pytest.MonkeyPatch) -> None:
    """What a window makes is as old as the newest tuple in it."""
    patch.setattr(Row, "born_ns", property(lambda row: row.created_ns))


def unparted(patch: pytest.MonkeyPatch) -> None:
    """The watermarks of the new task count while outputs of the old one are on their way."""
    patch.setattr(Watermarks, "take_leave", lambda *_: None)


def often(raw: dict[str, Any]) -> dict[str, Any]:
    """The job with many watermarks, which are on their way for longer than a move takes."""
    for workload in raw["workload"].values():
        workload["watermark"] = "2 ms"
    raw["network"]["latency"] = "5 ms"
    return raw


def crowded(raw: dict[str, Any]) -> dict[str, Any]:
    """The same with links that large outputs keep busy, which small states overtake."""
    raw["network"]["sharing"], raw["hosts"]["h"]["network"] = "fair", "200 kB/s"
    raw["operators"]["op"] |= {"output": {"tuple": "2 kB"}, "state": {"model": "fixed", "bytes": "100 B"}}
    return often(raw)


@pytest.mark.parametrize("changed", [often, crowded])
def test_nothing_is_late_where_watermarks_could_overtake(changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for seed, where in ((0, "at"), (0, "below"), (5, "below"), (5, "join")):
        run = ran(changed(timed_job(seed, where)))
        assert all(one.completed_ns is not None for one in run.reconfigurations.runs)


NOTICED: dict[str, tuple[Broken, str, int, str]] = {
    "windows stay behind": (_after_taking(windows_stay), "at", 2, "a sink lacks"),
    "one input of a join stays behind": (_after_taking(one_side_stays), "join", 0, "a sink lacks"),
    "watermarks overtake what has waited": (overtaken, "at", 0, "behind its watermark"),
    "watermarks are heard at the old task": (heard_at_the_old_task, "at", 2, "behind its watermark"),
    "windows end twice": (ended_twice, "at", 2, "a sink gets too much"),
    "outputs of windows are as old as what is in them": (by_the_newest_tuple, "above", 24, "has been served"),
}
"""Mutant -> kind of jobs, the first seed that is tried, and what is said of it."""


@pytest.mark.parametrize("title", NOTICED)
def test_what_is_broken_is_noticed(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, where, first, words = NOTICED[title]
    broken(monkeypatch)
    seen: list[str] = []
    for seed in range(first, first + 20):
        try:
            seen += wrong(timed_job(seed, where), monkeypatch)[0]
        except (AssertionError, ValueError) as error:
            seen.append(str(error))
        if any(words in one for one in seen):
            return
    raise AssertionError(f"nothing of it was noticed: {seen}")


def speaking_farewells(patch: pytest.MonkeyPatch) -> None:
    """A farewell repeats the last watermark, also for who has come since that was made."""
    turn = Watermarks.turn

    def turning(self: Watermarks, watermark: Any, task: Any) -> None:
        if watermark.again and watermark.origin is not task:
            watermark.event_ns = self.sent_ns.get(watermark.origin, 0)
            self.passed.setdefault(task, {})[watermark.origin] = watermark
        turn(self, watermark, task)

    patch.setattr(Watermarks, "turn", turning)


def test_farewells_that_speak_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    speaking_farewells(monkeypatch)
    with pytest.raises(AssertionError, match="behind its watermark"):
        ran(timed_job(539, "timer"))


def test_farewells_say_nothing_for_who_has_come_since() -> None:
    ran(timed_job(539, "timer"))


@pytest.mark.parametrize(("broken", "changed"), [(told_before, often), (unparted, crowded)])
def test_what_overtakes_is_noticed(
    broken: Broken, changed: Callable[[dict[str, Any]], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError, match="behind its watermark"):
        for seed in (0, 5):
            ran(changed(timed_job(seed, "below")))


def unheard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermarks, "recall", lambda *_: [])


def unspoken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermarks, "begin_to_speak", lambda *_: None)


@pytest.mark.parametrize(("broken", "where"), [(unheard, "above"), (unspoken, "both")])
def test_what_lets_windows_end_late_is_noticed(broken: Broken, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    assert any(max(delays(where, seed)) > 100 * MS for seed in range(12))
