"""What a migration protocol may say and do.

A protocol is a class of handlers (`sim/migration/protocols/`), written once. It acts on the data plane by the verbs of
its `Context`, each for the task at which the handler runs, at the instant of the message that is handled. Tuples it
never sees. Tasks of a host that died never come back under their number, so that a message for the dead reaches nobody.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from sim.control.catch_up import CatchUps
from sim.control.instances import Instances
from sim.control.replicas import Replicas
from sim.control.run_state import RunState
from sim.data_plane import REMOTE


class Fact(Enum):
    """What has come true at a task; a move is complete when all of them are."""

    OWNS = "owns"  # the target has processed what waited for the move
    HOLDS = "holds"  # the state of the source is the checkpoint of the target


COMPLETE = frozenset(Fact)


@dataclass(frozen=True)
class Move:
    """A key group goes from one task to another.

    `group` is its planned partition, `old` and `new` are the instances at `source` and `target`; `upstream` are the
    tasks that sent to it when the move began.
    """

    group: int
    old: int
    new: int
    source: int
    target: int
    upstream: tuple[int, ...]


class Message(NamedTuple):
    """What one task says to another, or control to a task, in one run of a protocol."""

    run: int
    kind: str
    sender: int
    to: int
    note: object = None


class Protocol(ABC):
    """The handlers of one run at one task, called `on_KIND`; attributes are what the task remembers of the run.

    `start` is called for the coordinator, and there `on_stored` when an announced checkpoint is stored.
    """

    needs_checkpoint = True  # the newest checkpoint must be with the target

    def __init__(self, move: Move) -> None:
        self.move = move
        self._heard: dict[str, set[int]] = {}

    @abstractmethod
    def start(self, ctx: Context) -> None:
        """Begin, at the coordinator."""

    def all_in(self, kind: str, sender: int, expected: Iterable[int]) -> bool:
        """Note that `kind` came from `sender`; whether it has now come from all that are expected."""
        heard = self._heard.setdefault(kind, set())
        heard.add(sender)
        return heard >= set(expected)

    def first(self, kind: str) -> bool:
        """Whether nobody was heard of with this kind so far."""
        return kind not in self._heard


@dataclass
class MigrationRun:
    """One execution of a protocol, and what became of it."""

    number: int
    name: str  # of the protocol
    protocol: type[Protocol]
    move: Move
    requested_ns: int
    over: bool = False
    resent: bool = False  # the host of the old owner died, and the new one has sent again what that had sent
    frozen: bool = False  # no checkpoint of the old instance is taken
    directed: bool = False  # the periodic checkpoints of the old instance go to the target
    planned_before: int | None = None  # where they went before that
    handing_down: bool = False  # the old instance is to hand down its state as soon as the new one is live
    resend: bool = False  # downstream has lost what the old instance sent while the new one was silent
    stored: bool = False  # a checkpoint that was announced is stored
    loading: bool = False  # the target is fetching the checkpoint from the remote store
    loaded: bool = False  # the checkpoint is in the memory of the target
    deferred: list[Message] = field(default_factory=list)  # what the target says to itself meanwhile
    local: dict[int, Protocol] = field(default_factory=dict)  # by task
    paused_ns: int | None = None
    resumed_ns: int | None = None
    completed_ns: int | None = None
    worst_ns: int | None = None  # once it is final
    replayed: int = 0
    bytes: int = 0
    facts: set[Fact] = field(default_factory=set)  # that are true
    told: set[Fact] = field(default_factory=set)  # of which the coordinator has heard
    cause: str = "event"  # who asked for it

    def at(self, task: int) -> Protocol:
        """What the task remembers of the run."""
        if task not in self.local:
            self.local[task] = self.protocol(self.move)
        return self.local[task]


class Carrier(typing.Protocol):
    """What a context asks of whoever carries the messages of its run (`sim.migration.runtime`)."""

    state: RunState
    instances: Instances
    replicas: Replicas
    catch_ups: CatchUps

    def send(self, message: Message, turn: bool) -> None:
        """Hand a message to the data plane."""

    def after_backlog(self, message: Message) -> None:
        """Carry a message of a task to itself, in front of its queue."""

    def timer(self, message: Message, delay_ns: int) -> None:
        """Carry a message of a task, or of the coordinator, to itself after a time."""

    def tell(self, message: Message) -> None:
        """Carry a message to the coordinator, which takes the latency alone."""

    def load(self, run: MigrationRun, then: Callable[[], None]) -> None:
        """Have the target read the stored checkpoint; then go on."""

    def fact(self, run: MigrationRun, what: Fact) -> None:
        """Note that something is true at a task."""


class Context:
    """The verbs of one task in one run."""

    def __init__(self, runtime: Carrier, run: MigrationRun, me: int) -> None:
        self._runtime, self._run, self.me = runtime, run, me
        self._state, self._instances = runtime.state, runtime.instances
        self._plane, self._cluster = runtime.state.plane, runtime.state.cluster

    # -- messages

    def send(self, to: int, kind: str, turn: bool = False, note: object = None) -> None:
        """A message behind all that left this task for the other; with `turn` it waits its turn in the queue."""
        self._runtime.send(Message(self._run.number, kind, self.me, to, note), turn)

    def after_backlog(self, kind: str, note: object = None) -> None:
        """A message to itself behind all that is in front of its queue now, or is held for a state that is fetched."""
        message = Message(self._run.number, kind, self.me, self.me, note)
        if self._run.loading:
            self._run.deferred.append(message)
        else:
            self._runtime.after_backlog(message)

    def timer(self, delay_ns: int, kind: str, note: object = None) -> None:
        """A message to itself after a time, at once on arrival; gone with the task or with the run."""
        self._runtime.timer(Message(self._run.number, kind, self.me, self.me, note), delay_ns)

    # -- the sending side

    def replay(self, turn: bool = False) -> None:
        """Send what is kept here for the old instance to the new one; from now on it is kept for that, too."""
        move = self._run.move
        for sender in self._own_senders(move.old):
            self._plane.copy_kept(sender, move.old, move.new)
            if self._runtime.replicas.silent(sender):
                continue
            rows, size = self._plane.replay(sender, move.new, turn)
            self._run.replayed += rows
            self._run.bytes += size

    def _own_senders(self, partition: int) -> list[int]:
        return [sender for sender in self._plane.senders(partition) if self._cluster.partition_task[sender] == self.me]

    def route(self, *instances: int) -> None:
        """Outputs for the group that depart from now on go to these instances."""
        self._instances.route(self.me, self._run.move.group, instances)

    # -- the receiving side

    def has_state(self) -> bool:
        """Whether the new instance is live."""
        return self._cluster.partition_live[self._run.move.new]

    def install(self, muted: bool = False) -> None:
        """The newest checkpoint becomes the state of the new instance; `muted`: which goes on silently.

        Where it is in the remote store, it does when it has been fetched and read; until then what comes is held.
        """
        run = self._run
        if run.loading:
            return
        if self._plane.checkpoint_host(run.move.old) == REMOTE and not run.loaded:
            run.loading = True
            self._runtime.load(run, lambda: self._install(muted))
        else:
            self._install(muted)

    def _install(self, muted: bool) -> None:
        move = self._run.move
        self._plane.adopt(move.new, move.old)
        self._plane.mute(move.new, muted)
        self._instances.open(move.new)
        if not muted and self._has_event_time:
            self._instances.resend(move.new)
        self._run.loading = False
        while self._run.deferred:
            self._runtime.after_backlog(self._run.deferred.pop(0))
        if self._run.handing_down:
            self._hand_down()

    def unmute(self) -> None:
        """The new instance answers from now on.

        It sends what it keeps once more where somebody downstream was recovered meanwhile, and where event time counts:
        a window may have ended here and not at the old instance, and what that has sent may still be on its way when
        watermarks from here say that all was sent.
        """
        new = self._run.move.new
        self._plane.mute(new, False)
        if self._run.resend or self._has_event_time:
            self._instances.resend(new)

    def hold(self, origin: int) -> None:
        """Tuples of the group that come from this task wait aside, from their turn on."""
        self._plane.hold(self.me, self._run.move.new, origin)

    def release(self) -> None:
        """What waits aside goes in front of the queue."""
        self._plane.unhold(self.me, self._run.move.new)

    # -- the side that lets go

    def to_checkpoint(self) -> None:
        """The state of the old instance becomes the stored checkpoint of the new one, which is the owner from now on.

        Everyone upstream must send to the new one by now. If that has no state yet it is done when it has: until then
        what the old one keeps for downstream is kept nowhere else. Then the fact `holds` is told. With a remote store
        nothing is handed down: the checkpoint from which the new one began is there, and stays until its next one.
        """
        if self.has_state():
            self._hand_down()
        else:
            self._run.handing_down = True

    def _hand_down(self) -> None:
        move = self._run.move
        self._instances.own(move.new)
        if not self._is_remote:
            self._plane.hand_down(move.old, move.new)
        self._instances.retire(move.old)
        self._runtime.catch_ups.moved(move.source, move.target)
        self.done(Fact.HOLDS)

    # -- checkpoints, at the coordinator

    def checkpoint_to_target(self) -> None:
        """Have a checkpoint of the old instance taken for the target now; then `on_stored`.

        The periodic ones go there as well: one may be taken while the news of this one is under way.
        """
        move, host = self._run.move, self._cluster.task_host[self._run.move.target]
        self.direct_checkpoints_to_target()
        # one that is under way is announced in its place
        self._plane.checkpoint(move.old, REMOTE if self._is_remote else host)

    def direct_checkpoints_to_target(self) -> None:
        """The periodic checkpoints of the old instance go to the target's host from now on; then `on_stored`.

        Those that go to the remote store do so all the same.
        """
        move = self._run.move
        self._plane.announce(move.old)
        if self._is_remote:
            return
        if not self._run.directed:
            self._run.directed, self._run.planned_before = True, self._cluster.planned_checkpoint_host[move.old]
        self._state.plan_checkpoint_host(move.old, self._cluster.task_host[move.target])

    def freeze_checkpoints(self) -> None:
        """The newest stored checkpoint of the old instance stays that.

        A newer one may go elsewhere, and would have upstream forget what the one at the target does not have.
        """
        self._run.frozen = True
        self._plane.freeze(self._run.move.old, True)

    def target_has_checkpoint(self) -> bool:
        """Whether the newest checkpoint is with the target, or is in the remote store and newer than the move."""
        move = self._run.move
        if self._is_remote:
            return self._run.stored
        return self._plane.checkpoint_host(move.old) == self._cluster.task_host[move.target]

    def load_at_target(self, kind: str) -> None:
        """The target reads what has come, or is in the remote store, into memory; then this message comes back here."""
        message = Message(self._run.number, kind, self._run.move.target, self.me)
        self._runtime.load(self._run, lambda: self._runtime.tell(message))

    @property
    def _has_event_time(self) -> bool:
        return self._instances.has_event_time(self._run.move.group)

    @property
    def _is_remote(self) -> bool:
        return self._state.plan.scenario.fault_tolerance.store == "remote"

    # -- facts

    def pauses(self) -> None:
        """From now on the group is not processed; only the first time counts."""
        if self._run.paused_ns is None:
            self._run.paused_ns = self._state.clock.now_ns()

    def goes_on(self) -> None:
        """What had waited for the move has been processed; the last time counts."""
        self._run.resumed_ns = self._state.clock.now_ns()

    def done(self, what: Fact) -> None:
        """A fact for the coordinator, which hears of it a latency later."""
        self._runtime.fact(self._run, what)
