"""Protocols of the control plane, for any plan: messages, handlers and verbs.

A protocol is a class of handlers, written once. It acts on the data plane by the verbs of its `Context`, each for the
task at which the handler runs, at the instant of the message that is handled. It never sees tuples. Tasks of a host
that died never come back under their number, so that a message for the dead reaches nobody.

A *plan* says which tasks and operators take part in one run of a protocol: `sim.migration.move.Move` is one. Its
`PlanKind` defines how runs of such plans begin, end and are cancelled; `sim.migration.coordinator` serves all kinds.

At the end of the module is the transport of messages to handlers; it drops messages of runs that are over.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from sim.clock import Process
from sim.control.run_state import RunState
from sim.data_plane import CONTROL

WHOLE = None  # in place of a key group: all of an operator

Territory = tuple[tuple[int, int | None], ...]
"""Pairs of an operator and a key group, or `WHOLE`, that a run changes and no other run may change meanwhile."""


class Plan(ABC):
    """Which tasks and operators take part in a run of a protocol; a frozen value."""

    @property
    @abstractmethod
    def tasks(self) -> tuple[int, ...]:
        """Return every task that is asked for something: a run that loses one of them is cancelled."""

    @property
    @abstractmethod
    def territory(self) -> Territory:
        """Return the territory that the run changes."""


class Message(NamedTuple):
    """A message from a task to another, or from control to a task, in one run of a protocol."""

    run: int
    kind: str
    sender: int
    to: int
    note: object = None


P = TypeVar("P", bound=Plan)


class Protocol(ABC, Generic[P]):
    """The handlers of one run at one task, called `on_KIND`; attributes are the memory of the task.

    `start` is called for the coordinator, and there `on_stored` when an announced checkpoint is stored.
    """

    complete: ClassVar[frozenset[Enum]]
    """The facts that make a run complete, once the coordinator has heard of all of them."""
    context: ClassVar[type[Context]]
    """The verbs that the handlers are given."""

    def __init__(self, plan: P) -> None:
        self.plan = plan
        self._heard: dict[str, set[int]] = {}

    @abstractmethod
    def start(self, ctx: Any) -> None:
        """Begin, at the coordinator."""

    def all_in(self, kind: str, sender: int, expected: Iterable[int]) -> bool:
        """Note that `kind` came from `sender`; return whether it has now come from all that are expected."""
        heard = self._heard.setdefault(kind, set())
        heard.add(sender)
        return heard >= set(expected)

    def first(self, kind: str) -> bool:
        """Return whether no message of this kind has come so far."""
        return kind not in self._heard


@dataclass
class ProtocolRun(Generic[P]):
    """One execution of a protocol, and its outcome."""

    name: str  # of the protocol
    protocol: type[Protocol[P]]
    plan: P
    kind: PlanKind[Any]
    requested_ns: int
    cause: str = "event"  # who asked for it
    number: int = -1  # given when it starts
    stored: bool = False  # a checkpoint that it awaits is stored
    over: bool = False
    local: dict[int, Protocol[P]] = field(default_factory=dict)  # by task
    paused_ns: int | None = None
    resumed_ns: int | None = None
    completed_ns: int | None = None
    facts: set[Enum] = field(default_factory=set)  # that are true
    told: set[Enum] = field(default_factory=set)  # facts that the coordinator has heard of

    def at(self, task: int) -> Protocol[P]:
        """Return the handlers of the task, with its memory of the run."""
        if task not in self.local:
            self.local[task] = self.protocol(self.plan)
        return self.local[task]


@dataclass(frozen=True)
class Request:
    """A request for a run of a protocol; each kind of plan adds fields."""

    territory: Territory
    protocol: str
    requested_ns: int
    cause: str


Q = TypeVar("Q", bound=Request)


class PlanKind(ABC, Generic[Q]):
    """How runs of one kind of plan begin, end and are cancelled: the questions of the coordinator."""

    def up_to_date(self, request: Q) -> Q | None:
        """Return the request as it is wanted by now, or None if it is not wanted any more."""
        return request

    def may_change(self, request: Q) -> bool:
        """Return whether `up_to_date` may say something else later on."""
        return False

    @abstractmethod
    def waits(self, request: Q) -> bool:
        """Return whether somebody that has to take part is known to be down, or does not answer."""

    @abstractmethod
    def begin(self, request: Q) -> ProtocolRun[Any] | None:
        """Return the run, ready to start; None where the request is refused, which a decision says."""

    def started(self, run: Any) -> None:
        """Note that the run has started."""

    def completed(self, run: Any) -> None:
        """Note that all facts of the run are true; the coordinator has not heard of all of them yet."""

    @abstractmethod
    def ended(self, run: Any) -> None:
        """Finish: the coordinator has heard of all facts, the run is over."""

    def lost(self, run: Any, operators: set[int]) -> None:
        """Note that partitions of these operators are lost, which is detected now; the run may go on or not."""

    def can_be_cancelled(self, run: Any) -> bool:
        """Return whether a run that has lost a task is cancelled; one that is complete need not be."""
        return run.completed_ns is None

    @abstractmethod
    def cancelled(self, run: Any) -> None:
        """Undo or finish the run, so that no state is lost: a host that takes part died, which is detected."""


class Carrier(typing.Protocol):
    """Carries the messages of a run for its contexts; `sim.migration.protocol` does."""

    state: RunState

    def send(self, message: Message, turn: bool) -> None:
        """Hand a message to the data plane."""

    def after_backlog(self, message: Message) -> None:
        """Carry a message of a task to itself, in front of its queue."""

    def timer(self, message: Message, delay_ns: int) -> None:
        """Carry a message of a task, or of the coordinator, to itself after a time."""

    def tell(self, message: Message) -> None:
        """Carry a message to the coordinator, which takes the latency alone."""

    def announce(self, run: ProtocolRun[Any], partition: int) -> None:
        """Have the run told `stored` when the next checkpoint of the partition is."""

    def fact(self, run: ProtocolRun[Any], what: Enum) -> None:
        """Note that something is true at a task."""


class Context:
    """The verbs of one task in one run, whatever its plan."""

    def __init__(self, runtime: Carrier, run: Any, me: int) -> None:
        self._runtime, self._run, self.me = runtime, run, me
        self._state, self._plane, self._cluster = runtime.state, runtime.state.plane, runtime.state.cluster

    def send(self, to: int, kind: str, turn: bool = False, note: object = None) -> None:
        """Send a message behind all that left this task for the other; with `turn` it waits its turn in the queue."""
        self._runtime.send(Message(self._run.number, kind, self.me, to, note), turn)

    def tell(self, kind: str, note: object = None) -> None:
        """Send a message to the protocol at the coordinator, which takes the latency alone."""
        self._runtime.tell(Message(self._run.number, kind, self.me, CONTROL, note))

    def after_backlog(self, kind: str, note: object = None) -> None:
        """Send a message to itself behind all that is in front of its queue now."""
        self._runtime.after_backlog(Message(self._run.number, kind, self.me, self.me, note))

    def timer(self, delay_ns: int, kind: str, note: object = None) -> None:
        """Send a message to itself after a time, at once on arrival; it is gone with the task or with the run."""
        self._runtime.timer(Message(self._run.number, kind, self.me, self.me, note), delay_ns)

    def pauses(self) -> None:
        """Note that from now on tuples for the subject of the plan wait; only the first call counts."""
        if self._run.paused_ns is None:
            self._run.paused_ns = self._state.clock.now_ns()

    def goes_on(self) -> None:
        """Note that tuples that waited for the run have been processed; the last call counts."""
        self._run.resumed_ns = self._state.clock.now_ns()

    def done(self, what: Enum) -> None:
        """State a fact for the coordinator, which hears of it a latency later."""
        self._runtime.fact(self._run, what)


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
