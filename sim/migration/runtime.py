"""Transport of messages to the handlers of protocols; messages of runs that are over are dropped."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from sim.clock import Process
from sim.control.run_state import RunState
from sim.data_plane import CONTROL
from sim.migration.protocol import Message, ProtocolRun


class ProtocolRuntime:
    """Carries messages to the handlers of their run, and drops those of runs that are over.

    Messages to the coordinator take the latency, and occupy no link.
    """

    def __init__(self, state: RunState, done: Callable[[ProtocolRun[Any], Enum], None]) -> None:
        self.state, self.done = state, done
        self.runs: list[ProtocolRun[Any]] = []
        self._sent: dict[int, Message] = {}
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
        """Carry a message to the coordinator, which takes the latency alone."""
        self._later(lambda: self.deliver(message))

    def _later(self, call: Callable[[], None]) -> None:
        """Call when a message to the coordinator has come."""
        self.state.clock.process(self._arrives(call))

    def _arrives(self, call: Callable[[], None]) -> Process:
        clock = self.state.clock
        yield clock.sleep(clock.now_ns() + self.state.plan.latency_ns)
        call()

    def send(self, message: Message, turn: bool) -> None:
        """Hand a message to the data plane."""
        token = self.state.new_token()
        self._sent[token] = message
        self.state.plane.send(message.sender, message.to, token, turn)

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
        if message.to == CONTROL or self.state.cluster.task_alive[message.to]:
            self.deliver(message)

    def heard(self, token: int) -> None:
        """Deliver a message: it has come, or its turn has."""
        self.deliver(self._sent.pop(token))

    def deliver(self, message: Message) -> None:
        """Call the handler, unless the run is over."""
        run = self.runs[message.run]
        if not run.over:
            handler = getattr(run.at(message.to), f"on_{message.kind}")
            handler(run.protocol.context(self, run, message.to), message)

    def announce(self, run: ProtocolRun[Any], partition: int) -> None:
        """Have the run told `stored` when the next checkpoint of the partition is."""
        self._announced[partition] = run
        self.state.plane.announce(partition)

    def stored(self, partition: int) -> None:
        """Tell the run, after a latency, that the checkpoint of the partition that it awaits is stored."""
        run = self._announced.get(partition)
        if run is not None and not run.over:
            self._later(lambda: self._stored(run))

    def _stored(self, run: ProtocolRun[Any]) -> None:
        run.stored = True
        self.deliver(Message(run.number, "stored", CONTROL, CONTROL))
