"""Event time while key groups move: nothing is late, windows have the same contents, actions beside windows.

Oracles: the same job without moves and crashes; the plain plane by equality of all rows; planes and protocols that are
broken on purpose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from moves_beside import moving_beside
from moving_jobs import MS, Crash, Outcome, crashes, run
from scripts import MOVES
from test_actions import on_both
from test_event_time_recovery import timers, windows
from test_planes import METHODS
from uneven_clock import UnevenClock

from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.migration.move import MoveContext
from sim.migration.protocols import PROTOCOLS
from sim.plain.partition import EventTime, Partition, TaskView, Watermark
from sim.plain.plane import PlainPlane
from sim.plain.watermarks import Watermarks

MORE_NS = 8_000 * MS  # until all windows have ended and all is delivered
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def ran(made: Scenario, crash: Crash | None, uneven: int | None) -> Outcome:
    """A run on the plain plane, until after the last arrival; with a seed on a clock that orders channels alone."""
    clock = None if uneven is None else UnevenClock(uneven, made.operators["in"].parallelism)
    return run(made, PlainPlane, crash, clock=clock, more_ns=MORE_NS)


def delivered(outcome: Outcome, made: Scenario) -> Counter[int]:
    """How often the sink got each tuple that was created within the duration: timers go on after it."""
    end, plane = to_ns(made.duration_s), outcome.control.plane
    assert isinstance(plane, PlainPlane)
    return Counter(
        tuple_id
        for partition in plane.all_partitions()
        if partition.operator.is_sink
        for tuple_id, created in zip(partition.applied, partition.applied_created_ns, strict=True)
        if created < end
    )


def wrong(protocol: str, seed: int, count: int, uneven: bool, what: str = "windows") -> list[object]:
    """The runs of a job in which something is lost, late, done twice, or other than without moves."""
    made, clock = moving_beside(what, seed, protocol), seed if uneven else None
    still = made.model_copy(update={"events": {}})
    expected = delivered(ran(still, None, clock), made)
    assert expected
    calm = ran(made, None, clock)
    runs = [(None, calm), *((crash, ran(made, crash, clock)) for crash in crashes(seed, calm.moments, count))]
    found: list[object] = []
    for crash, outcome in runs:
        assert isinstance(outcome.control.plane, PlainPlane)
        late = outcome.control.plane.watermarks.late
        if outcome.faults or late or delivered(outcome, made) != expected:
            found.append((seed, crash, outcome.faults, len(late)))
    return found


@every_protocol
@pytest.mark.parametrize("uneven", [False, True], ids=["timed", "uneven"])
def test_windows_have_the_same_contents_wherever_they_are(protocol: str, uneven: bool) -> None:
    for seed in range(1):
        assert wrong(protocol, seed, 1, uneven) == []


@pytest.mark.slow
@every_protocol
@pytest.mark.parametrize("uneven", [False, True], ids=["timed", "uneven"])
def test_windows_have_the_same_contents_in_many_jobs(protocol: str, uneven: bool) -> None:
    for seed in (1, 2, 3, *range(100, 160)):
        assert wrong(protocol, seed, 4, uneven) == []


# -- random scripts


def script_differs(seed: int) -> list[str]:
    """Differences between the planes for a job with windows or timers under a script of actions."""
    raw = (timers if seed % 4 == 3 else windows)(Random(seed), fault_tolerance=METHODS[seed // 4 % 4])
    last = {"at": "9999 s", "kind": "host-failure", "host": "h-0"}
    verbs = ("hold", "unhold", "mute", "send", "work", "speed") + (2 * MOVES if seed % 2 else ())
    return on_both(raw | {"events": raw["events"] | {"last": last}}, seed, verbs)


def test_both_planes_give_equal_rows_under_actions_beside_windows() -> None:
    for seed in (*range(8), 1477):  # the last adopts an instance that is over, which holds no event time back
        assert script_differs(seed) == [], seed


@pytest.mark.slow
def test_both_planes_give_equal_rows_under_many_actions_beside_windows() -> None:
    for seed in (*range(8, 40), *range(1000, 1600)):
        assert script_differs(seed) == [], seed


# -- broken on purpose

Broken = tuple[str, int]  # the protocol by which it is noticed, and the first seed that is tried


def hear_what_others_were_sent(patch: pytest.MonkeyPatch) -> Broken:
    """A watermark says something to every instance at the task where it comes."""
    patch.setattr(Watermarks, "_is_meant", lambda self, partition, mark: True)
    return "cpal", 7


def hear_what_was_made_before_the_redirect(patch: pytest.MonkeyPatch) -> Broken:
    """A watermark says something to an instance whose tuples went elsewhere when it was made."""

    def is_meant(self: Watermarks, partition: Partition, mark: Watermark) -> bool:
        routes = partition.group.routes.get(mark.origin.index, (partition.group.owner,))
        return partition in routes

    patch.setattr(Watermarks, "_is_meant", is_meant)
    return "cpa", 7


def hear_of_all_instances(patch: pytest.MonkeyPatch) -> Broken:
    """A watermark speaks for an instance that is silent, too."""

    def speaks(self: Watermarks, sender: Partition, mark: Watermark, task: TaskView) -> bool:
        return sender.task is mark.origin and sender.live

    patch.setattr(Watermarks, "_speaks", speaks)
    return "cpal", 47


def hear_of_the_planned_instance_alone(patch: pytest.MonkeyPatch) -> Broken:
    """Where a group has moved to is not known: event time stands still."""
    patch.setattr(PlainPlane, "instances_of", lambda self, group: [group])
    return "cpa", 0


def begin_without_windows(patch: pytest.MonkeyPatch) -> Broken:
    """The new instance does not take over the windows that had not ended."""
    right = EventTime.restored

    def restored(self: EventTime, saved: EventTime | None, ticks: int, replays: bool) -> EventTime:
        made = right(self, saved, ticks, replays)
        made.windows, made.sides = {}, {}
        return made

    patch.setattr(EventTime, "restored", restored)
    return "cpa", 0


def answer_without_sending_again(patch: pytest.MonkeyPatch) -> Broken:
    """At the switch the new instance does not send what ended in silence."""
    patch.setattr(MoveContext, "_has_event_time", False)
    return "cpal", 17


ERRORS = [
    hear_what_others_were_sent,
    hear_what_was_made_before_the_redirect,
    hear_of_all_instances,
    hear_of_the_planned_instance_alone,
    begin_without_windows,
    answer_without_sending_again,
]


@pytest.mark.parametrize("error", ERRORS, ids=[error.__name__ for error in ERRORS])
def test_a_broken_rule_of_event_time_is_noticed(
    error: Callable[[pytest.MonkeyPatch], Broken], monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol, first = error(monkeypatch)

    def noticed(seed: int) -> Any:
        return wrong(protocol, seed, 1, uneven=seed % 2 == 1)

    assert any(map(noticed, range(first, first + 40)))
