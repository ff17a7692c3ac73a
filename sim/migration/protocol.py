"""Protocols of the control plane, for any plan: messages, handlers and verbs.

A protocol is a class of handlers, written once. It acts on the data plane by the verbs of its `Context`, each for the
task at which the handler runs, at the instant of the message that is handled. It never sees tuples. Tasks of a host
that died never come back under their number, so that a message for the dead reaches nobody.

A *plan* says which tasks and operators take part in one run of a protocol: `sim.migration.move.Move` is one. Its
`PlanKind` defines how runs of such plans begin, end and are cancelled; `sim.migration.coordinator` serves all kinds.

`sim.migration.transport` carries messages to handlers, and drops those of runs that are over.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from sim.control.run_state import RunState
from sim.control.state_store import StateStore
from sim.plane_values import CONTROL, Parcel

_NS = 1_000_000_000
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
    parcels: tuple[Parcel, ...] = ()  # that come with it
    bytes: int = 0  # of a state that comes with it


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
        self._answers: dict[Hashable, set[int]] = {}  # by wave

    @abstractmethod
    def start(self, ctx: Any) -> None:
        """Begin, at the coordinator."""

    def all_in(self, kind: str, sender: int, expected: Iterable[int]) -> bool:
        """Note that `kind` came from `sender`; return whether it has now come from all that are expected."""
        heard = self._heard.setdefault(kind, set())
        heard.add(sender)
        return heard >= set(expected)

    def last_of(self, wave: Hashable, sender: int, expected: Iterable[int]) -> bool:
        """Note an answer to a wave; return True once, when the last of the expected answers has come.

        Answers that come again, or after the last, return False. A wave is any value that names it, such as a kind and
        a number: answers to a wave that was given up must not count for the one that repeats it.
        """
        heard = self._answers.setdefault(wave, set())
        if isinstance(expected, range) and len(heard) + 1 < len(expected):  # more than one is missing
            heard.add(sender)
            return False
        missing = set(expected) - heard
        heard.add(sender)
        return missing == {sender}

    def answered(self, wave: Hashable) -> frozenset[int]:
        """Return who has answered to the wave so far."""
        return frozenset(self._answers.get(wave, ()))

    def heard(self, kind: str) -> frozenset[int]:
        """Return from whom messages of this kind have been noted so far."""
        return frozenset(self._heard.get(kind, ()))

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
    parcels: set[int] = field(default_factory=set)  # that it has made; they are discarded when it is over
    saved: set[Hashable] = field(default_factory=set)  # names in the state store
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

    def takes_back(self, run: Any, partitions: Collection[int]) -> set[int]:
        """Return those of the lost partitions that the run brings back itself, from its own copies, and do it."""
        return set()

    def can_be_cancelled(self, run: Any) -> bool:
        """Return whether a run that has lost a task is cancelled; one that is complete need not be."""
        return run.completed_ns is None

    @abstractmethod
    def cancelled(self, run: Any) -> None:
        """Undo or finish the run, so that no state is lost: a host that takes part died, which is detected."""


@dataclass(frozen=True)
class Restart:
    """A task that is killed, and its successor."""

    task: int
    host: int
    start_ns: int = 0  # from the kill until the successor is there
    gate_ns: int | None = None
    """The successor does nothing before all tasks that it sends to are there: it checks at its start, and each time
    this long after it. Otherwise its outputs could be lost. None: it does not wait."""
    started: Callable[[int], None] = lambda _: None  # is told the number of the successor
    crashed: Callable[[], bool] = lambda: False
    """Whether a host has died, so that upstream has to send once more what it keeps for the successor."""


class Relocation(typing.Protocol):
    """Kills and starts tasks: `sim.control.task_relocation`, which knows managers that know this module."""

    def start_elsewhere(self, restart: Restart, partitions: Sequence[int]) -> bool:
        """Start the successor of a task that has died with its host, on another one; return whether there is one."""

    def restart(self, restart: Restart) -> None:
        """Kill a task now, and start its successor after a time."""

    def bring_back(self, task: int, parcels: Sequence[Parcel], partitions: Sequence[int] | None, resend: bool) -> None:
        """Give a started task the content of parcels, and let its partitions go on."""


class Carrier(typing.Protocol):
    """Carries the messages of a run for its contexts; `sim.migration.transport` does."""

    state: RunState
    store: StateStore
    relocation: Relocation

    def send(self, message: Message, turn: bool, channels: int = 0) -> None:
        """Hand a message to the data plane."""

    def send_each(self, messages: Sequence[Message], turn: bool, channels: int = 0) -> None:
        """Hand messages to the data plane at once, in order."""

    def deliver(self, message: Message) -> None:
        """Call the handler of a message, unless the run is over."""

    def line_up(self, message: Message, while_shorter: bool) -> None:
        """Carry a message of a task to itself, as the data plane has it."""

    def reach(self, message: Message) -> None:
        """Deliver a message that comes over no channel, unless it is for a task that is dead."""

    def after_backlog(self, message: Message) -> None:
        """Carry a message of a task to itself, in front of its queue."""

    def timer(self, message: Message, delay_ns: int) -> None:
        """Carry a message of a task, or of the coordinator, to itself after a time."""

    def tell(self, message: Message) -> None:
        """Carry a message to the coordinator, which takes the latency alone."""

    def tell_each(self, messages: Sequence[Message]) -> None:
        """Carry messages that take the latency alone, at once; nothing comes between them."""

    def when_passed(self, operator: int, time_ns: int, told: Callable[[], None]) -> None:
        """Call a latency after the frontier of an operator has passed a time."""

    def announce(self, run: ProtocolRun[Any], partition: int) -> None:
        """Have the run told `stored` when the next checkpoint of the partition is."""

    def fact(self, run: ProtocolRun[Any], what: Enum) -> None:
        """Note that something is true at a task."""

    def call_off(self, run: ProtocolRun[Any]) -> None:
        """Cancel a run that can be cancelled."""


class Context:
    """The verbs of one task in one run, whatever its plan."""

    def __init__(self, runtime: Carrier, run: Any, me: int) -> None:
        self._runtime, self._run, self.me = runtime, run, me
        self._state, self._plane, self._cluster = runtime.state, runtime.state.plane, runtime.state.cluster

    def send(
        self,
        to: int,
        kind: str,
        turn: bool = False,
        note: object = None,
        aligned: int = 0,
        parcels: Sequence[Parcel] = (),
    ) -> None:
        """Send a message behind all that left this task for the other; with `turn` it waits its turn in the queue.

        With `aligned` it waits for its like over so many channels: what comes behind it on a channel is held back until
        messages of the same kind and note have come over that many, and then the handler is called once, at the turn of
        the last. Such a note is hashable. Parcels add their bytes to the message.
        """
        self._runtime.send(Message(self._run.number, kind, self.me, to, note, tuple(parcels)), turn, aligned)

    def send_each(self, to: Iterable[tuple[int, object]], kind: str, turn: bool = False, aligned: int = 0) -> None:
        """Send a message with a note to each of these tasks, as `send` does one, in order; a barrier is one call."""
        messages = [Message(self._run.number, kind, self.me, task, note) for task, note in to]
        self._runtime.send_each(messages, turn, aligned)

    def tell(self, kind: str, note: object = None) -> None:
        """Send a message to the protocol at the coordinator, which takes the latency alone."""
        self._runtime.tell(Message(self._run.number, kind, self.me, CONTROL, note))

    def after_backlog(self, kind: str, note: object = None) -> None:
        """Send a message to itself behind all that is in front of its queue now."""
        self._runtime.after_backlog(Message(self._run.number, kind, self.me, self.me, note))

    def timer(self, delay_ns: int, kind: str, note: object = None) -> None:
        """Send a message to itself after a time, at once on arrival; it is gone with the task or with the run."""
        self._runtime.timer(Message(self._run.number, kind, self.me, self.me, note), delay_ns)

    # -- the task

    def pause(self) -> None:
        """Start nothing, and emit nothing, until `resume`."""
        self._plane.pause(self.me, None)

    def resume(self) -> None:
        """Go on; sources emit what arrived meanwhile."""
        self._plane.unpause(self.me)

    def hold(self, origin: int | None = None, partition: int | None = None) -> None:
        """Put tuples that come from this task, for this partition (None: any), aside at their turn."""
        self._plane.hold(self.me, partition, origin)

    def release(self, partition: int | None = None) -> None:
        """Put the tuples that were held for this partition (None: any) in front of the queue, and hold no more."""
        self._plane.unhold(self.me, partition)

    # -- parcels

    def snapshot(self) -> Parcel:
        """Return the states of all live partitions at the task, as they are now."""
        operators, cluster = self._state.plan.operators, self._cluster
        operator = operators[cluster.task_operator[self.me]]
        if operator.is_source or operator.is_sink:
            return self._keep(self._plane.snapshot(()))
        here = cluster.partitions_at(self.me)
        return self._keep(self._plane.snapshot([one for one in here if cluster.partition_live[one]]))

    def capture(self) -> Parcel:
        """Return the tuples that rules hold, in order; the rules stay, and hold what comes from now on."""
        return self._keep(self._plane.capture(self.me))

    def _keep(self, parcel: Parcel) -> Parcel:
        self._run.parcels.add(parcel.number)
        return parcel

    def persist(self, name: Hashable, parcels: Sequence[Parcel], then: str, note: object = None) -> None:
        """Write parcels to the state store under a name of this run, in place of what is there.

        Then send itself a message. The store may never answer: then none comes. When the run is over it forgets the
        parcels.
        """
        run, message = self._run, Message(self._run.number, then, self.me, self.me, note)
        own = run.number, name
        run.saved.add(own)
        wanted, answered = lambda: not run.over, lambda: self._runtime.deliver(message)
        self._runtime.store.persist(own, tuple(parcels), self.me, wanted, answered)

    def fetch(self, name: Hashable, then: str, note: object = None) -> None:
        """Read what the run has in the state store under a name; then send itself a message with the parcels, if any.

        The store may never answer: then no message comes.
        """
        message = Message(self._run.number, then, self.me, self.me, note)
        deliver = self._runtime.deliver
        self._runtime.store.fetch(
            (self._run.number, name), self.me, lambda parcels: deliver(message._replace(parcels=parcels))
        )

    def put(
        self,
        parcels: Sequence[Parcel],
        then: str,
        note: object = None,
        partitions: Sequence[int] | None = None,
        resend: Callable[[], bool] = lambda: False,
    ) -> None:
        """Give partitions of this task, which was started anew, the content of parcels; then send itself a message.

        These are all that are not live, or those of the named that are not, and are not being recovered after a crash.

        Reading the states occupies it, as a restore does. States come first, then captured tuples, then what it has
        held since it started. With `resend` its partitions send what they keep once more: outputs may have been lost.
        """
        message = Message(self._run.number, then, self.me, self.me, note)
        operator = self._state.plan.operators[self._cluster.task_operator[self.me]]
        rate, size = operator.description.deserialise_bytes_per_s, sum(p.bytes for p in parcels if p.partitions)

        def read() -> None:
            self._runtime.relocation.bring_back(self.me, parcels, partitions, resend())
            self._runtime.deliver(message)

        if rate is None or not size or operator.service_ns is None:
            read()
        else:
            self._state.work(self.me, max(1, round(size * _NS / rate)), read)

    # -- the coordinator

    def restart(self, task: int, host: int, then: str, start_ns: int = 0) -> None:
        """Kill a task and start its successor on a host after a time; then send the coordinator a message.

        The message comes a latency later from the old task, with the number of the new one as its note. None comes for
        a task that is dead already, or from a host that is dead: control hears of those by detecting the crash.
        """
        number, runtime = self._run.number, self._runtime
        started = lambda new: runtime.tell(Message(number, then, task, CONTROL, new))  # noqa: E731
        runtime.relocation.restart(Restart(task, host, start_ns, started=started))

    # -- facts

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
