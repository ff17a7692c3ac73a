"""The transport of messages to the handlers of their run; it drops those of runs that are over."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import Any

from sim.clock import Process
from sim.control.run_state import RunState
from sim.control.state_store import StateStore
from sim.migration.protocol import Message, ProtocolRun, Relocation
from sim.plane_values import CONTROL, Mail


def _alike(message: Message) -> tuple[Hashable, ...]:
    """Return what messages that wait for each other have in common."""
    return message.run, message.kind, message.to, message.note  # such a note is hashable


class ProtocolRuntime:
    """Carries messages to the handlers of their run, and drops those of runs that are over.

    Messages to the coordinator take the latency, and occupy no link.
    """

    relocation: Relocation
    """Set by who makes the managers above."""

    def __init__(
        self,
        state: RunState,
        done: Callable[[ProtocolRun[Any], Enum], None],
        call_off: Callable[[ProtocolRun[Any]], None],
    ) -> None:
        self.state, self.done, self.call_off = state, done, call_off
        self.runs: list[ProtocolRun[Any]] = []
        self.store = StateStore(state)
        self._sent: dict[int, Message] = {}
        self._aligning: dict[tuple[Hashable, ...], int] = {}  # token of the messages that wait for each other
        self._frontiers: dict[int, Callable[[], None]] = {}  # token -> what is done a latency after it has passed
        self._announced: dict[int, ProtocolRun[Any]] = {}  # partition -> who awaits its next stored checkpoint

    def start(self, run: ProtocolRun[Any]) -> None:
        """Begin the protocol, at the coordinator of the run."""
        run.number = len(self.runs)
        self.runs.append(run)
        run.at(CONTROL).start(run.protocol.context(self, run, CONTROL))

    def fact(self, run: ProtocolRun[Any], what: Enum) -> None:
        """Note that something is true at a task; with the last of the facts the run is complete."""
        run.facts.add(what)
        if run.facts >= run.protocol.complete and run.completed_ns is None:
            run.completed_ns = self.state.clock.now_ns()
            run.kind.completed(run)
        self._later(lambda: self.done(run, what))

    def tell(self, message: Message) -> None:
        """Carry a message to the coordinator, or to a task, which takes the latency alone."""
        self._later(lambda: self.reach(message))

    def reach(self, message: Message) -> None:
        """Deliver a message that comes over no channel, unless it is for a task that is dead."""
        if message.to == CONTROL or self.state.cluster.task_alive[message.to]:
            self.deliver(message)

    def tell_each(self, messages: Sequence[Message]) -> None:
        """Carry messages that take the latency alone, at once; nothing comes between them."""

        def come() -> None:
            for message in messages:
                self.reach(message)

        self._later(come)

    def _later(self, call: Callable[[], None]) -> None:
        """Call when a message to the coordinator has come."""
        self.state.clock.after(self.state.plan.latency_ns, call)

    def send(self, message: Message, turn: bool, channels: int = 0) -> None:
        """Hand a message to the data plane; those that wait for each other get the same token."""
        if channels:
            self.send_each([message], turn, channels)
        else:
            self.state.plane.send(*self._mail(message, turn, channels))

    def send_each(self, messages: Sequence[Message], turn: bool, channels: int = 0) -> None:
        """Hand messages to the data plane at once, in order."""
        self.state.plane.send_each([self._mail(message, turn, channels) for message in messages])

    def line_up(self, message: Message, while_shorter: bool) -> None:
        """Carry a message of a task to itself, as the data plane has it."""
        token = self.state.new_token()
        self._sent[token] = message
        self.state.plane.line_up(message.to, token, while_shorter)

    def _mail(self, message: Message, turn: bool, channels: int) -> Mail:
        token = self._aligning.get(_alike(message)) if channels else None
        if token is None:
            token = self.state.new_token()
            if channels:
                self._aligning[_alike(message)] = token
        self._sent[token] = message
        size = message.bytes + sum(parcel.bytes for parcel in message.parcels)
        return Mail(message.sender, message.to, token, turn, size, 0, channels)

    def after_backlog(self, message: Message) -> None:
        """Carry a message of a task to itself, in front of its queue."""
        if self.state.plan.operators[self.state.cluster.task_operator[message.to]].service_ns is None:
            self.deliver(message)  # whatever was in front is done already
        else:
            self.state.work(message.to, 0, lambda: self.deliver(message))

    def timer(self, message: Message, delay_ns: int) -> None:
        """Carry a message of a task, or of the coordinator, to itself after a time."""
        self.state.clock.process(self._rings(message, self.state.clock.now_ns() + delay_ns))

    def _rings(self, message: Message, at_ns: int) -> Process:
        yield self.state.clock.sleep(at_ns)
        self.reach(message)

    def heard(self, token: int) -> None:
        """Deliver a message: it has come, or its turn has."""
        self.deliver(self._sent.pop(token))

    def aligned(self, token: int) -> None:
        """Deliver a message that has come over all its channels; the next of its kind begins a new alignment."""
        message = self._sent.pop(token)
        del self._aligning[_alike(message)]
        self.deliver(message)

    def deliver(self, message: Message) -> None:
        """Call the handler, unless the run is over."""
        run = self.runs[message.run]
        if not run.over:
            handler = getattr(run.at(message.to), f"on_{message.kind}")
            handler(run.protocol.context(self, run, message.to), message)

    def when_passed(self, operator: int, time_ns: int, told: Callable[[], None]) -> None:
        """Call a latency after the frontier of an operator has passed a time."""
        self.state.clock.process(self._asks(operator, time_ns, told))

    def _asks(self, operator: int, time_ns: int, told: Callable[[], None]) -> Process:
        yield self.state.clock.sleep(max(time_ns, self.state.clock.now_ns()))
        token = self.state.new_token()
        self._frontiers[token] = told
        self.state.plane.passed(operator, time_ns, token)

    def passed(self, token: int) -> None:
        """Tell who waits for a frontier, after a latency."""
        self._later(self._frontiers.pop(token))

    def announce(self, run: ProtocolRun[Any], partition: int) -> None:
        """Have the run told `stored` when the next checkpoint of the partition is."""
        self._announced[partition] = run
        self.state.plane.announce(partition)

    def over(self, run: ProtocolRun[Any]) -> None:
        """Discard the parcels of a run that is over, also those in the state store."""
        for name in run.saved:
            self.store.forget(name)
        for number in sorted(run.parcels):
            self.state.plane.discard(number)

    def stored(self, partition: int) -> None:
        """Tell the run, after a latency, that the checkpoint of the partition that it awaits is stored."""
        run = self._announced.get(partition)
        if run is not None and not run.over:
            self._later(lambda: self._stored(run, partition))

    def _stored(self, run: ProtocolRun[Any], partition: int) -> None:
        run.stored = True
        self.deliver(Message(run.number, "stored", CONTROL, CONTROL, partition))
