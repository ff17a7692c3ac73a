"""Keep what a task has made and not sent, for want of a place at the receiver or of a configuration that is late.

This is backpressure by credits. A tuple needs a place at its receiver before it is sent, so a queue never exceeds its
bound; a task with an unsent output starts nothing, so that a full queue stops the tasks upstream one after the other.

What a task withholds for an operator, because control has not told it yet where that goes, stops nothing.
"""

from __future__ import annotations

from collections import deque

from sim.clock import CREDIT, channel
from sim.plain.partition import Letter, Output, Partition, Passing, PlacesView, TaskView
from sim.plain.views import PlaneView


class Places:
    """Room at a task for the tuples in its queue and under way to it; replayed tuples take none.

    `waiting` are the outboxes whose head finds no room, in the order in which they began to wait. A place that gets
    free is given to the first of them at once, as a step of its own. Without a bound there is always room, and so
    there is at a dead task.
    """

    def __init__(self, plane: PlaneView, task: TaskView, count: int | None) -> None:
        self.plane, self.task, self.count = plane, task, count
        self.taken = 0
        self.waiting: deque[Outbox] = deque()
        self._giving = False

    @property
    def taken_now(self) -> int:
        """Return the tuples in the queue and under way of a task with a bound, 0 without one."""
        return 0 if self.count is None else self.taken

    @property
    def free(self) -> bool:
        """Return whether there is a place for one more."""
        return self.count is None or self.taken < self.count or not self.task.alive

    def has_room(self) -> bool:
        """Return whether somebody new can send: a place is free that nobody waits for, or the task is dead."""
        return self.free and (not self.waiting or not self.task.alive)

    def take(self) -> None:
        """Count a tuple that was sent here."""
        self.taken += 1

    def leave(self) -> None:
        """Give a place back: its tuple has left the queue, or will never come."""
        self.taken -= 1
        self.give()

    def give(self) -> None:
        """Let the first that waits go on, if there is room for it."""
        # An event of its own, after the services of this instant and before its arrivals, so that places that get free
        # together are given one by one, each to the outbox that has waited longest.
        if self.waiting and self.free and not self._giving:
            self._giving = True
            clock = self.plane.clock
            clock.at(clock.now_ns(), channel(CREDIT, 1, self.task.index), lambda _: self._given())

    def _given(self) -> None:
        self._giving = False
        if self.waiting and self.free:
            self.waiting.popleft().granted(self.task)
            self.give()
            self.plane.tell()


class Withheld:
    """Hold what a task withholds for one operator: outputs born from a time on, in the order in which it made them.

    A watermark waits with them if one of them is older than it says, or if an earlier watermark waits. A farewell is a
    watermark that says nothing, and waits behind any of them.
    """

    def __init__(self) -> None:
        self.from_ns: int | None = None  # None: nothing is withheld
        self.items: deque[Output | Passing] = deque()

    @property
    def outputs(self) -> list[Output]:
        """Return the outputs that wait."""
        return [item for item in self.items if isinstance(item, Output)]

    def has_to_wait(self, item: Output | Passing) -> bool:
        """Return whether an output or a watermark waits here."""
        if isinstance(item, Output):
            return self.from_ns is not None and item.row.born_ns >= self.from_ns
        said = item.watermark
        older = (one for one in self.outputs if said.again or one.row.created_ns < said.event_ns)
        return next(older, None) is not None or any(isinstance(one, Passing) for one in self.items)


class Outbox:
    """Outputs of a task that are made and not sent, and messages, in order; the head waits for room at its receiver.

    As long as it is not empty the task starts nothing. Invariant: the head waits at exactly one task (`_waits_at`), or
    an event is set at which it goes on (`_loose`). What is `withheld`, by operator, stands beside that.
    """

    def __init__(self, plane: PlaneView, task: TaskView) -> None:
        self.plane, self.task = plane, task
        self.items: deque[Output | Letter | Passing] = deque()
        self.withheld: dict[int, Withheld] = {}
        self._waits_at: PlacesView | None = None
        self._loose = False  # the head was removed, and an event is set at which the next one goes on
        self._blocked_ns, self._since_ns = 0, 0

    def __bool__(self) -> bool:
        """Return whether something is left to send."""
        return bool(self.items)

    @property
    def unsent(self) -> list[Output]:
        """Return the outputs that are left to send, without messages and watermarks."""
        withheld = (one for each in self.withheld.values() for one in each.outputs)
        return [*(item for item in self.items if isinstance(item, Output)), *withheld]

    @property
    def is_withholding(self) -> bool:
        """Return whether something is withheld."""
        return any(each.items for each in self.withheld.values())

    def blocked_ns(self) -> int:
        """Return for how long something was left to send, up to now."""
        return self._blocked_ns + (self.plane.clock.now_ns() - self._since_ns if self.items else 0)

    def offer(self, output: Output) -> None:
        """Send an output at once if nothing is before it and there is room; otherwise it waits."""
        if self._is_withheld(output, output.receiver.operator.index):
            return
        if self.items:
            self.items.append(output)
        elif output.receiver.task.places.has_room():
            self.plane.send_tuple(self.task, *output)
        else:
            self.items.append(output)
            self._since_ns = self.plane.clock.now_ns()
            self.task.cores.hold()
            self._wait()

    def pass_on(self, passing: Passing) -> None:
        """Send a watermark behind all outputs that are left to send."""
        if self._is_withheld(passing, passing.task.operator.index):
            return
        if self.items:
            self.items.append(passing)
        else:
            self.plane.watermarks.send(*passing)

    def _is_withheld(self, item: Output | Passing, operator: int) -> bool:
        """Return whether an item for an operator is withheld; then it waits from now on."""
        each = self.withheld.get(operator)
        if each is None or not each.has_to_wait(item):
            return False
        each.items.append(item)
        return True

    def withhold(self, operator: int, from_ns: int) -> None:
        """Withhold outputs for an operator that are born from then on."""
        self.withheld.setdefault(operator, Withheld()).from_ns = from_ns

    def let_out(self, operator: int) -> None:
        """Send what is withheld for an operator, in order: from here, also if key groups have left the task since."""
        each = self.withheld[operator]
        items, each.items, each.from_ns = each.items, deque(), None
        for item in items:
            if isinstance(item, Output):
                self.plane.send_tuple(self.task, *item)
            else:
                self.plane.watermarks.send(*item)

    def post(self, letter: Letter) -> None:
        """Send a message behind all outputs that are left to send."""
        if self.items:
            self.items.append(letter)
        else:
            self.plane.send_message(*letter)

    def granted(self, task: TaskView) -> None:
        """Send the head to the task that it waited for, which has a place now, or is dead."""
        self._waits_at = None
        if task.alive:
            self._send_head()
        self._go_on()

    def forget(self, sender: Partition, receiver: Partition) -> None:
        """Drop the outputs of one partition for another that wait here: a replay sends them."""
        left = deque(item for item in self.items if not (isinstance(item, Output) and item[:2] == (sender, receiver)))
        if len(left) == len(self.items):
            return
        same_head = bool(left) and left[0] is self.items[0]
        self.items = left
        if not left:
            self._emptied()
        if not same_head:
            self._stop_waiting()
            self._go_on_later()

    def take_letters(self, token: int) -> list[tuple[Letter, list[Output]]]:
        """Take out the barriers with this token; return each with the outputs before it for the same task."""
        found: list[tuple[Letter, list[Output]]] = []
        left, outputs = deque[Output | Letter | Passing](), list[Output]()
        for item in self.items:
            # The head is left alone: it goes on at this instant anyway, if it is no output.
            if left and isinstance(item, Letter) and item.message.channels and item.message.token == token:
                found.append((item, [one for one in outputs if one.receiver.task is item.receiver]))
                continue
            left.append(item)
            if isinstance(item, Output):
                outputs.append(item)
        self.items = left
        return found

    def lose(self) -> list[Output]:
        """Empty the outbox of a dead task; return the outputs that are gone with it."""
        lost, self.items, self.withheld = self.unsent, deque(), {}
        self._stop_waiting()
        return lost

    def _lacks(self) -> PlacesView | None:
        """Return the places that have no room for the head, or None."""
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
        """Go on at this instant, after all that control does."""
        if not self._loose:
            self._loose = True
            clock = self.plane.clock
            clock.at(clock.now_ns(), channel(CREDIT, 0, self.task.index), lambda _: self._goes_on())

    def _goes_on(self) -> None:
        self._loose = False
        if self.task.alive and self._waits_at is None:
            self._go_on()
            self.plane.tell()

    def _go_on(self) -> None:
        """Send from the head as long as there is room; with nothing left the task goes on."""
        while self.items:
            if self._lacks():
                self._wait()
                return
            self._send_head()
        self.plane.emit_waiting(self.task)
        self.task.cores.dispatch()
        self.plane.notice(self.task)

    def _send_head(self) -> None:
        head = self.items.popleft()
        if isinstance(head, Output):
            self.plane.send_tuple(self.task, *head)
        elif isinstance(head, Letter):
            self.plane.send_message(*head)
        else:
            self.plane.watermarks.send(*head)
        if not self.items:
            self._emptied()

    def _emptied(self) -> None:
        """Note that nothing is left to send."""
        self._blocked_ns += self.plane.clock.now_ns() - self._since_ns
        self.task.cores.let_go()
