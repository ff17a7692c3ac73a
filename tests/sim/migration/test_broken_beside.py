"""The comparison of planes has teeth where actions meet shared cores, bounded queues and shared links.

Each error is put into the plain plane; then its rows must differ from those of the compiled one in some small run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_actions import job, on_both
from test_actions_beside import beside
from test_broken_actions import lattice_job

from models.records.tables import NEVER
from sim.clock import PAUSES, SERVICE, TIMERS, Clock
from sim.plain.instances import Actions
from sim.plain.outbox import Outbox, Places
from sim.plain.partition import Letter, Message, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

Broken = tuple[str, tuple[str, ...]]  # beside what it is noticed, under which verbs


def noticed(what: str, verbs: tuple[str, ...], seeds: range = range(80)) -> bool:
    for seed in seeds:
        raw = lattice_job(seed) if seed % 2 else job(seed)
        if on_both(beside(what, seed, raw), seed, verbs):
            return True
    return False


def end_pauses_as_they_were_set(patch: pytest.MonkeyPatch) -> Broken:
    """A pause is over before a service of its task that began after it was set."""
    right = Clock.at

    def at(self: Clock, time_ns: int, rank: int, call: Callable[[Any], None]) -> None:
        right(self, time_ns, rank - PAUSES + SERVICE if PAUSES <= rank < TIMERS else rank, call)

    patch.setattr(Clock, "at", at)
    return "cores", ("pause", "speed")


def work_for_messages_at_full_pace(patch: pytest.MonkeyPatch) -> Broken:
    """The work of a message does not go through the processor of the host."""
    right = Task._serve

    def serve(self: Task, item: Any, ns: int, now: int) -> None:
        if not isinstance(item, Message) or self.host.processor is None:
            right(self, item, ns, now)
            return
        self.cores.free -= 1
        self.idle_threads -= 1
        self.serving[item] = (ns, now + ns)
        self.plane.clock.at(now + ns, SERVICE + self.index, lambda _: self.alive and self.end(item, ns))

    patch.setattr(Task, "_serve", serve)
    return "cores", ("send", "speed")


def stop_the_outbox(patch: pytest.MonkeyPatch) -> Broken:
    """A paused task sends nothing."""
    right, unpause = Outbox._go_on, Actions._unpause

    def go_on(self: Outbox) -> None:
        if not self.task.paused_until_ns:
            right(self)

    def end(self: Actions, task: Task) -> None:
        unpause(self, task)
        if task.outbox and task.outbox._waits_at is None:
            right(task.outbox)

    patch.setattr(Outbox, "_go_on", go_on)
    patch.setattr(Actions, "_unpause", end)
    return "buffers", ("pause",)


def emit_what_waits_while_paused(patch: pytest.MonkeyPatch) -> Broken:
    """A paused source goes on when its outbox gets empty."""
    right = PlainPlane.emit_waiting

    def emit_waiting(self: PlainPlane, task: Task) -> None:
        until, task.paused_until_ns = task.paused_until_ns, 0
        right(self, task)
        task.paused_until_ns = until

    patch.setattr(PlainPlane, "emit_waiting", emit_waiting)
    return "buffers", ("pause",)


def keep_the_place_of_what_a_rule_holds(patch: pytest.MonkeyPatch) -> Broken:
    """What is held takes its place as long as the task lives."""
    right = Task.holds

    def holds(self: Task, visit: Visit) -> bool:
        found = right(self, visit)
        if found and visit.arrival_ns != NEVER and visit not in self.side:
            self.places.taken += 1
        return found

    patch.setattr(Task, "holds", holds)
    return "buffers", ("hold", "unhold")


def keep_the_place_behind_a_barrier(patch: pytest.MonkeyPatch) -> Broken:
    """What is held back takes its place all the time."""
    arrive, let_through = Task.arrive, Task._let_through

    def come(self: Task, *items: Any) -> None:
        for item in items:
            arrive(self, item)
            self.places.taken += isinstance(item, Visit) and item in self.back

    def through(self: Task, token: int) -> list[Any]:
        self.places.taken -= sum(isinstance(item, Visit) for item in self.back)
        return let_through(self, token)

    patch.setattr(Task, "arrive", come)
    patch.setattr(Task, "_let_through", through)
    return "buffers", ("barrier", "unalign")


def let_through_without_places(patch: pytest.MonkeyPatch) -> Broken:
    """What was held back takes no place in the queue."""
    right = Task._let_through

    def let_through(self: Task, token: int) -> list[Any]:
        again = right(self, token)
        self.places.taken -= sum(isinstance(item, Visit) for item in again)
        return again

    patch.setattr(Task, "_let_through", let_through)
    return "buffers", ("barrier", "unalign")


def overtake_what_is_unsent(patch: pytest.MonkeyPatch) -> Broken:
    """A message leaves at once."""
    patch.setattr(Outbox, "post", lambda self, letter: self.plane.send_message(*letter))
    return "buffers", ("send", "barrier")


def wait_for_room_with_messages(patch: pytest.MonkeyPatch) -> Broken:
    """A message, too, is sent only where there is room."""

    def lacks(self: Outbox) -> Places | None:
        head = self.items[0]
        places = head.receiver.places if isinstance(head, Letter) else head.receiver.task.places
        return None if places.has_room() else places

    patch.setattr(Outbox, "_lacks", lacks)
    return "buffers", ("send", "barrier", "pause")


def give_messages_a_channel_of_their_own(patch: pytest.MonkeyPatch) -> Broken:
    """A message on a shared link does not wait for the tuples of its channel."""
    right = PlainPlane.transmit

    def transmit(self: PlainPlane, origin: Task, task: Task, size: int, comes: Any, tuples: bool = True) -> None:
        if tuples or origin.host is task.host:
            right(self, origin, task, size, comes, tuples)
            return
        ends, latency = (origin.index, -1 - task.index), self.plan.latency_ns
        origin.host.link.send(self.clock.now_ns(), size, ends, self.next_number(), lambda at: comes(at + latency))

    patch.setattr(PlainPlane, "transmit", transmit)
    return "links", ("send",)


ERRORS = [
    end_pauses_as_they_were_set,
    work_for_messages_at_full_pace,
    stop_the_outbox,
    emit_what_waits_while_paused,
    keep_the_place_of_what_a_rule_holds,
    keep_the_place_behind_a_barrier,
    let_through_without_places,
    overtake_what_is_unsent,
    wait_for_room_with_messages,
    give_messages_a_channel_of_their_own,
]


@pytest.mark.parametrize("error", ERRORS, ids=[error.__name__ for error in ERRORS])
def test_a_broken_plane_is_noticed(
    error: Callable[[pytest.MonkeyPatch], Broken], monkeypatch: pytest.MonkeyPatch
) -> None:
    what, verbs = error(monkeypatch)
    assert noticed(what, verbs)


@pytest.mark.parametrize("what", ["cores", "buffers", "links"])
def test_planes_agree_on_the_same_runs(what: str) -> None:
    assert not noticed(what, ("pause", "speed", "hold", "unhold", "send", "barrier", "unalign"), range(6))
