"""Bounded queues: places at the task that receives, the outbox of the task that sends, and who waits for whom."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from sim.clock import CREDIT, channel

if TYPE_CHECKING:
    from reference.mark import Mark
    from reference.partition import Message, Partition, Row
    from reference.task import Task
    from reference.world import World


class Passing(NamedTuple):
    """A watermark that goes out of its task behind the outputs that were made before; it needs no place."""

    mark: Mark
    task: Task


class Output(NamedTuple):
    """An output on its way out of its task. It counts as kept since the end of the service that made it."""

    sender: Partition
    receiver: Partition
    row: Row


class Letter(NamedTuple):
    """A message on its way out of its task, behind the outputs that were there before. It needs no place."""

    message: Message
    receiver: Task
    size_bytes: int


class Places:
    """Room at a task for the tuples in its queue and those under way to it; what is replayed takes none.

    `waiting` are the outboxes whose head finds no room, in the order in which they began to wait. A place that gets
    free is given to the first of them at once, as a step of its own. Without a bound there is always room, and so
    there is at a dead task.
    """

    def __init__(self, world: World, task: Task, count: int | None) -> None:
        self.world, self.task, self.count = world, task, count
        self.taken = 0
        self.waiting: deque[Outbox] = deque()
        self._giving = False

    @property
    def taken_now(self) -> int:
        """Tuples in the queue and under way of a task with a bound, 0 without one."""
        return 0 if self.count is None else self.taken

    @property
    def free(self) -> bool:
        """Whether there is a place for one more."""
        return self.count is None or self.taken < self.count or not self.task.alive

    def has_room(self) -> bool:
        """Whether somebody new can send: a place is free that nobody waits for, or the task is dead."""
        return self.free and (not self.waiting or not self.task.alive)

    def take(self) -> None:
        """A tuple was sent here."""
        self.taken += 1

    def leave(self) -> None:
        """A tuple has left the queue, or will never come."""
        self.taken -= 1
        self.give()

    def give(self) -> None:
        """Let the first that waits go on, if there is room for it."""
        if self.waiting and self.free and not self._giving:
            self._giving = True
            clock = self.world.clock
            clock.at(clock.now_ns(), channel(CREDIT, 1, self.task.index), lambda _: self._given())

    def _given(self) -> None:
        self._giving = False
        if self.waiting and self.free:
            self.waiting.popleft().granted(self.task)
            self.give()
            self.world.tell()


class Outbox:
    """Outputs of a task that are made and not sent, and messages, in order; the head waits for room at its receiver.

    As long as there are any the task starts nothing.
    """

    def __init__(self, world: World, task: Task) -> None:
        self.world, self.task = world, task
        self.items: deque[Output | Letter | Passing] = deque()
        self._waits_at: Places | None = None
        self._loose = False  # its head was taken away, and the event is set at which it goes on
        self._blocked_ns, self._since_ns = 0, 0

    def __bool__(self) -> bool:
        """Whether something is left to send."""
        return bool(self.items)

    @property
    def unsent(self) -> list[Output]:
        """The outputs among what is left to send."""
        return [item for item in self.items if isinstance(item, Output)]

    def blocked_ns(self) -> int:
        """For how long something was left to send, up to now."""
        return self._blocked_ns + (self.world.clock.now_ns() - self._since_ns if self.items else 0)

    def offer(self, output: Output) -> None:
        """Send an output at once if nothing is before it and there is room; otherwise it waits."""
        if self.items:
            self.items.append(output)
        elif output.receiver.task.places.has_room():
            self.world.send_tuple(*output)
        else:
            self.items.append(output)
            self._since_ns = self.world.clock.now_ns()
            self._wait()

    def pass_on(self, passing: Passing) -> None:
        """Send a watermark behind all outputs that are left to send."""
        if self.items:
            self.items.append(passing)
        else:
            self.world.watermarks.send(*passing)

    def post(self, letter: Letter) -> None:
        """Send a message behind all outputs that are left to send."""
        if self.items:
            self.items.append(letter)
        else:
            self.world.send_message(*letter)

    def granted(self, task: Task) -> None:
        """There is a place for the head at the task that it waited for, or the task is dead."""
        self._waits_at = None
        if task.alive:
            self._send_head()
        self._go_on()

    def forget(self, sender: Partition, receiver: Partition) -> None:
        """A replay takes along what waits here from one partition for another."""
        left = deque(item for item in self.items if not (isinstance(item, Output) and item[:2] == (sender, receiver)))
        if len(left) == len(self.items):
            return
        same_head = bool(left) and left[0] is self.items[0]
        self.items = left
        if not left:
            self._blocked_ns += self.world.clock.now_ns() - self._since_ns
        if not same_head:
            self._stop_waiting()
            self._go_on_later()

    def lose(self) -> list[Output]:
        """The host died: returns the outputs that are gone with it."""
        lost, self.items = self.unsent, deque()
        self._stop_waiting()
        return lost

    def _lacks(self) -> Places | None:
        """Where the head finds no room."""
        head = self.items[0]
        if not isinstance(head, Output) or head.receiver.task.places.has_room():
            return None
        return head.receiver.task.places

    def _wait(self) -> None:
        self._waits_at = self._lacks()
        assert self._waits_at is not None
        self._waits_at.waiting.append(self)

    def _stop_waiting(self) -> None:
        if self._waits_at:
            self._waits_at.waiting.remove(self)
            self._waits_at = None

    def _go_on_later(self) -> None:
        """After what control does at this instant."""
        if not self._loose:
            self._loose = True
            clock = self.world.clock
            clock.at(clock.now_ns(), channel(CREDIT, 0, self.task.index), lambda _: self._goes_on())

    def _goes_on(self) -> None:
        self._loose = False
        if self.task.alive and self._waits_at is None:
            self._go_on()
            self.world.tell()

    def _go_on(self) -> None:
        """Send from the head as long as there is room; with nothing left the task goes on."""
        while self.items:
            if self._lacks():
                self._wait()
                return
            self._send_head()
        self.world.emit_waiting(self.task)
        self.task.cores.dispatch()
        self.world.notice(self.task)

    def _send_head(self) -> None:
        head = self.items.popleft()
        if isinstance(head, Output):
            self.world.send_tuple(*head)
        elif isinstance(head, Letter):
            self.world.send_message(*head)
        else:
            self.world.watermarks.send(*head)
        if not self.items:
            self._blocked_ns += self.world.clock.now_ns() - self._since_ns
