"""What migration protocols do to the plain data plane: pauses, messages, holds, barriers, timed actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from models.records.tables import NEVER
from reference.outbox import Letter
from reference.partition import Message, Partition, Visit
from reference.task import Task, Work
from sim.clock import ARRIVAL, PAUSES, Process, channel
from sim.data_plane import CONTROL, Timed

if TYPE_CHECKING:
    from reference.host import Host
    from reference.source import Source

_LAST = (1 << 24) - 1  # as a sender, control comes after all tasks


class Actions:
    """The verbs of `sim.data_plane` for migrations; a part of `reference.world.World`."""

    plan: Any
    clock: Any
    cluster: Any
    listener: Any
    recorder: Any
    emit_ticks: Any
    note_freed: Any
    transmit: Any
    tasks: list[Task]
    hosts: list[Host]
    sources: list[Source]
    _numbered: list[Partition]
    _sendings: int

    def __init__(self) -> None:
        self._told: list[tuple[Task | Partition, Message | None]] = []  # None: the task is idle
        self._telling = False

    # -- telling

    def notice(self, task: Task) -> None:
        """Something ended at the task: the listener is told if it has nothing to do now."""
        if task.index in self._watched and task.empty:  # type: ignore[attr-defined]
            self._told.append((task, None))

    def note_message(self, task: Task, message: Message) -> None:
        """The listener is told of a message that the task has in hand."""
        self._told.append((task, message))

    def note_stored(self, partition: Partition) -> None:
        """The listener is told that a checkpoint of the partition is stored."""
        self._told.append((partition, None))

    def tell(self) -> None:
        """The event or the verb is over: tell the listener what came up, one after the other.

        What comes up meanwhile is told after that.
        """
        if self._telling:
            return
        self._telling = True
        while self._told:
            task, message = self._told.pop(0)
            if isinstance(task, Partition):
                self.listener.stored(task.number)
            elif message is None:
                self.listener.idle(task.index)
            elif message in task.in_hand:
                if message.channels:
                    self.listener.aligned(message.token, task.index)
                else:
                    self.listener.message(message.token, task.index)
                if task.alive:
                    task.in_hand.remove(message)
                    task.go_on()
                    self.notice(task)
        self._telling = False

    # -- pauses

    def pause(self, task: int, until_ns: int | None) -> None:
        """The task starts nothing before that instant, or before `unpause`."""
        paused, until = self.tasks[task], NEVER if until_ns is None else until_ns
        before = paused.paused_until_ns
        if not paused.alive or before == NEVER or (until != NEVER and until <= max(before, self.clock.now_ns())):
            return  # a pause never shortens another
        paused.paused_until_ns = until
        if until != NEVER:
            self.clock.at(until, PAUSES + task, lambda _: self._pause_ends(paused))

    def _pause_ends(self, task: Task) -> None:
        if task.alive and task.paused_until_ns == self.clock.now_ns():
            self._unpause(task)
            self.tell()

    def unpause(self, task: int) -> None:
        """The pause is over."""
        if self.tasks[task].alive and self.tasks[task].paused_until_ns:
            self._unpause(self.tasks[task])
            self.tell()

    def _unpause(self, task: Task) -> None:
        task.paused_until_ns = 0
        for source in self.sources:
            if source.partition.task is task and source.partition.live:
                source.catch_up()
        for partition in self._numbered if task.operator.timer_ns else ():
            if partition.task is task and partition.live:
                self.emit_ticks(partition, partition.due)
        task.go_on()
        self.notice(task)

    # -- rules that are asked at a tuple's turn

    def hold(self, task: int, partition: int | None, origin: int | None) -> None:
        """Tuples for the partition from that task (None: all) go to a side list."""
        if self.tasks[task].alive:
            self.tasks[task].rules.append((partition, origin))

    def unhold(self, task: int, partition: int | None) -> None:
        """No more rules for the partition (None: none at all); what none holds any more goes in front."""
        holder = self.tasks[task]
        if not holder.alive:
            return
        holder.rules = [rule for rule in holder.rules if partition is not None and rule[0] != partition]
        free = [
            visit for visit in holder.side if partition in (None, visit.partition.number) and not holder.holds(visit)
        ]
        holder.side = [visit for visit in holder.side if visit not in free]
        self.note_freed(free)
        holder.put_in_front(free)
        self.notice(holder)
        self.tell()

    def mute(self, partition: int, muted: bool) -> None:
        """The partition applies what comes, but emits nothing."""
        self._numbered[partition].muted = muted
        if not muted:
            self._numbered[partition].live_at = self._sendings

    # -- messages

    def send(
        self,
        sender: int,
        receiver: int,
        token: int,
        turn: bool = False,
        size_bytes: int = 0,
        work_ns: int = 0,
        channels: int = 0,
    ) -> None:
        """A message from task to task, behind all that went before on the same channel."""
        task, origin = self.tasks[receiver], None if sender == CONTROL else self.tasks[sender]
        message = Message(token, origin, turn or channels > 0, work_ns, channels)
        if origin is None:
            self.send_message(message, task, size_bytes)
        elif origin.alive:
            origin.outbox.post(Letter(message, task, size_bytes))

    def send_message(self, message: Message, task: Task, size_bytes: int) -> None:
        """The message leaves its task, or control: nothing is before it that is not sent."""
        now, origin = self.clock.now_ns(), message.origin
        self.recorder.message(now, "protocol", 1, size_bytes)

        def comes(arrival_ns: int) -> None:
            message.departure_ns = arrival_ns - self.plan.latency_ns
            rank = channel(ARRIVAL, task.index, origin.index if origin else _LAST)
            self.clock.at(arrival_ns, rank, lambda _: self._message_arrives(message, task))

        if origin is None:
            comes(now + self.plan.latency_ns)
        else:
            self.transmit(origin, task, size_bytes, comes)

    def _message_arrives(self, message: Message, task: Task) -> None:
        if not task.alive or (message.origin and message.origin.died_by(message.departure_ns)):
            return
        task.arrive(message)
        self.tell()

    def unalign(self, task: int) -> None:
        """Give the alignment up: its barriers are forgotten, and what they held back arrives now."""
        stuck = self.tasks[task]
        if stuck.alive:
            stuck.give_up_alignment()
            self.notice(stuck)
            self.tell()

    # -- timed actions

    def start_actions(self, actions: Iterable[Timed]) -> None:
        """Do these in order, each at its instant."""
        todo = list(actions)
        assert todo == sorted(todo, key=lambda action: action.at_ns)
        assert not todo or todo[0].at_ns > self.clock.now_ns()
        self.clock.process(self._act(todo))

    def _act(self, actions: list[Timed]) -> Process:
        for action in actions:
            if action.at_ns > self.clock.now_ns():
                yield self.clock.sleep(action.at_ns)
            self._verb(action.verb)(*action.arguments)
            self.tell()

    def _verb(self, name: str) -> Callable[..., None]:
        if name == "chore":
            return self._chore
        made: Callable[..., None] = getattr(self, name)
        return made

    def _chore(self, task: int, ns: int) -> None:
        """Work of which nobody is told."""
        busy = self.tasks[task]
        if busy.alive and busy.operator.service_ns is not None:
            busy.put_in_front([Work(ns, busy.host.ticket(), lambda: None)])


def side_lists(task: Task) -> list[Visit]:
    """Tuples that a rule or a barrier keeps from the lanes of a task."""
    return [*(item for item in task.back if isinstance(item, Visit)), *task.side]
