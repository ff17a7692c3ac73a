"""The plan of a key group that moves, and the verbs that its protocols have (`sim/migration/protocols/`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from models.records.tables import NEVER
from models.scenario.job import Operator
from sim.clock import MESSAGE, channel
from sim.control.catch_up import CatchUps
from sim.control.instances import Instances
from sim.control.replicas import Replicas
from sim.control.run_state import RunState
from sim.migration.protocol import Carrier, Context, Message, Plan, Protocol, ProtocolRun, Request, Territory
from sim.plane_values import REMOTE

_NS = 1_000_000_000


class Fact(Enum):
    """Facts that come true at tasks; a move is complete when all of them have."""

    OWNS = "owns"  # the target has processed the tuples that waited for the move
    HOLDS = "holds"  # the state of the source is the checkpoint of the target


@dataclass(frozen=True)
class Move(Plan):
    """A key group goes from one task to another.

    `group` is its planned partition and `operator` its operator, `old` and `new` are the instances at `source` and
    `target`; `upstream` are the tasks that sent to it when the move began.
    """

    operator: int
    group: int
    old: int
    new: int
    source: int
    target: int
    upstream: tuple[int, ...]

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return both owners, and everyone upstream."""
        return self.source, self.target, *self.upstream

    @property
    def territory(self) -> Territory:
        """Return the group."""
        return ((self.operator, self.group),)


@dataclass(frozen=True)
class MoveRequest(Request):
    """Somebody wants a key group to be elsewhere."""

    group: int  # planned partition
    host: int


class MoveProtocol(Protocol[Move]):
    """A protocol that moves a key group."""

    complete: ClassVar[frozenset[Enum]] = frozenset(Fact)
    needs_checkpoint: ClassVar[bool] = True
    """Whether the newest checkpoint must be with the target."""

    @property
    def move(self) -> Move:
        """Return the plan."""
        return self.plan

    @abstractmethod
    def start(self, ctx: MoveContext) -> None:
        """Begin, at the coordinator."""


@dataclass
class MigrationRun(ProtocolRun[Move]):
    """One execution of a protocol that moves a key group."""

    resent: bool = False  # the host of the old owner died, and the new one has sent its outputs again
    frozen: bool = False  # no checkpoint of the old instance is taken
    directed: bool = False  # the periodic checkpoints of the old instance go to the target
    planned_before: int | None = None  # where they went before that
    handing_down: bool = False  # the old instance hands down its state as soon as the new one is live
    drained: bool = False  # the state of the old instance is on its way, without a checkpoint
    resend: bool = False  # downstream lost outputs of the old instance while the new one was silent
    loading: bool = False  # the target is fetching the checkpoint from the remote store
    loaded: bool = False  # the checkpoint is in the memory of the target
    deferred: list[Message] = field(default_factory=list)  # messages of the target to itself until it is loaded
    worst_ns: int | None = None  # once it is final
    cancelled_ns: int = NEVER
    replayed: int = 0
    bytes: int = 0

    @property
    def move(self) -> Move:
        """Return the plan."""
        return self.plan


class MoveServices:
    """The managers that the verbs of a moving group need, and how a stored checkpoint is read."""

    def __init__(self, state: RunState, instances: Instances, replicas: Replicas, catch_ups: CatchUps) -> None:
        self.state, self.instances, self.replicas, self.catch_ups = state, instances, replicas, catch_ups

    def load(self, run: MigrationRun, then: Callable[[], None]) -> None:
        """Have the target read the stored checkpoint, which comes from the remote store if it is there; then go on."""
        state, move, plane = self.state, run.move, self.state.plane
        size = plane.checkpoint_bytes(move.old)
        if plane.checkpoint_host(move.old) != REMOTE:
            self._read(run, size, then)
            return
        state.recorder.restore(state.clock.now_ns(), size)
        rank = channel(MESSAGE, move.target, move.target)
        state.clock.at(plane.fetch_ns(size), rank, lambda _: self._read(run, size, then))

    def _read(self, run: MigrationRun, size: int, then: Callable[[], None]) -> None:
        """Occupy the target, unless it is dead or the run is over, for as long as it takes."""
        state, target = self.state, run.move.target
        rate = state.plan.operators[state.cluster.task_operator[target]].description.deserialise_bytes_per_s
        if run.over or not state.cluster.task_alive[target]:
            return
        if rate is None:
            self._loaded(run, then)
        else:
            state.work(target, max(1, round(size * _NS / rate)), lambda: self._loaded(run, then))

    def _loaded(self, run: MigrationRun, then: Callable[[], None]) -> None:
        if not run.over:
            run.loaded = True
            then()


class MoveContext(Context):
    """The verbs of one task in the move of a key group."""

    _run: MigrationRun

    def __init__(self, runtime: Carrier, run: Any, me: int) -> None:
        super().__init__(runtime, run, me)
        self._services: MoveServices = run.kind.services
        self._instances: Instances = self._services.instances

    def after_backlog(self, kind: str, note: object = None) -> None:
        """Send a message to itself behind all that is in front of its queue now, or is held for a state on its way."""
        if self._run.loading:
            self._run.deferred.append(Message(self._run.number, kind, self.me, self.me, note))
        else:
            super().after_backlog(kind, note)

    # -- the sending side

    def replay(self, turn: bool = False) -> None:
        """Replay the outputs kept here for the old instance to the new one, and keep them for that as well."""
        move = self._run.move
        for sender in self._own_senders(move.old):
            # First, since the replay sends the outputs kept for the new instance. A silent replica keeps them, too: it
            # has to send to both if it takes over.
            self._plane.copy_kept(sender, move.old, move.new)
            if self._services.replicas.silent(sender):
                continue
            rows, size = self._plane.replay(sender, move.new, turn)
            self._run.replayed += rows
            self._run.bytes += size

    def _own_senders(self, partition: int) -> list[int]:
        return [sender for sender in self._plane.senders(partition) if self._cluster.partition_task[sender] == self.me]

    def route(self, *instances: int) -> None:
        """Send outputs for the group that depart from now on to these instances, and to a replica of the group."""
        replica = self._services.replicas.of_group(self._run.move.group)
        self._instances.route(self.me, self._run.move.group, (*instances, *replica))

    def keep_too(self) -> None:
        """Keep for the new instance all that is kept here for the old one."""
        move = self._run.move
        for sender in self._own_senders(move.old):
            self._plane.copy_kept(sender, move.old, move.new)

    # -- the receiving side

    def has_state(self) -> bool:
        """Return whether the new instance is live."""
        return self._cluster.partition_live[self._run.move.new]

    def install(self, muted: bool = False) -> None:
        """Make the newest checkpoint the state of the new instance, which goes on silently if `muted`.

        A checkpoint in the remote store is fetched and read first; until then arriving tuples are held.
        """
        run = self._run
        if run.loading:
            return
        if self._plane.checkpoint_host(run.move.old) == REMOTE and not run.loaded:
            run.loading = True
            self._services.load(run, lambda: self._install(muted))
        else:
            self._install(muted)

    def _install(self, muted: bool) -> None:
        move = self._run.move
        self._plane.adopt(move.new, move.old)
        # Mute it before it is open: opening processes held tuples at once, and both instances would answer.
        self._plane.mute(move.new, muted)
        self._instances.open(move.new)
        if not muted and self._has_event_time:
            self._instances.resend(move.new)
        # Only now: messages to itself have to stay behind the tuples that were held while the state was loading.
        self._run.loading = False
        while self._run.deferred:
            self._runtime.after_backlog(self._run.deferred.pop(0))
        if self._run.handing_down:
            self._hand_down()

    def read_state(self, then: str) -> None:
        """Read the state that `send_state` has sent, and send itself a message.

        If the host that sent it is dead by then, no message comes: the run is called off when that is detected.
        """
        run, message = self._run, Message(self._run.number, then, self.me, self.me)

        def read() -> None:
            if self._plane.checkpoint_host(run.move.new) is not None:
                self._runtime.deliver(message)

        self._occupy(self._operator.deserialise_bytes_per_s, read)

    def take_over(self) -> None:
        """Make the new instance the owner, and end the old one, whose state and outputs it has."""
        move = self._run.move
        self._instances.own(move.new)
        self._instances.retire(move.old)
        self._services.catch_ups.moved(move.source, move.target)
        self.done(Fact.HOLDS)

    def unmute(self) -> None:
        """Let the new instance answer from now on.

        It sends its kept outputs again if a receiver was recovered during the move, and if event time matters: a window
        may have ended here and not at the old instance, and outputs of the old one may still be on their way when
        watermarks from here say that all was sent.
        """
        new = self._run.move.new
        self._plane.mute(new, False)
        if self._run.resend or self._has_event_time:
            self._instances.resend(new)

    def hold(self, origin: int | None = None, partition: int | None = None) -> None:
        """Put tuples that come from this task, for the new instance if no other is named, aside at their turn."""
        super().hold(origin, self._run.move.new if partition is None else partition)

    def release(self, partition: int | None = None) -> None:
        """Put the tuples that were held, for the new instance if no other is named, in front of the queue."""
        super().release(self._run.move.new if partition is None else partition)

    # -- the side that lets go

    def send_state(self, kind: str, last: bool = True) -> None:
        """Write the state of the old instance, to which nothing comes, and send it to the target with a message.

        If this is the `last` that it does, it answers no more: it gets watermarks until it ends, but what windows emit
        from now on is up to the new one.
        """
        run, move = self._run, self._run.move
        run.drained = True
        if last:
            self._plane.mute(move.old, True)
        self._plane.hand_down(move.old, move.new)
        message = Message(run.number, kind, self.me, move.target, bytes=self._plane.checkpoint_bytes(move.new))
        rate = self._operator.serialise_bytes_per_s
        self._occupy(rate, lambda: None if run.over else self._runtime.send(message, turn=False))

    @property
    def _operator(self) -> Operator:
        return self._state.plan.operators[self._run.move.operator].description

    def _occupy(self, bytes_per_s: float | None, then: Callable[[], None]) -> None:
        """Occupy the task for as long as the state that is handed down takes at a speed; then go on."""
        size = self._plane.checkpoint_bytes(self._run.move.new)
        if bytes_per_s is None or not size or self._operator.service is None:
            then()
        else:
            self._state.work(self.me, max(1, round(size * _NS / bytes_per_s)), then)

    def to_checkpoint(self) -> None:
        """Make the state of the old instance the stored checkpoint of the new one, which becomes the owner.

        Everyone upstream must send to the new instance by now. If it has no state yet, this waits until it has: only
        the old instance keeps its outputs for downstream until then. At the end the fact `HOLDS` is told. With a remote
        store nothing is handed down: the checkpoint from which the new one began stays there until its next one.
        """
        if self.has_state():
            self._hand_down()
        else:
            self._run.handing_down = True

    def _hand_down(self) -> None:
        move = self._run.move
        # The old instance ends last: the group has an owner at any time, and `hand_down` reads its state and outputs.
        self._instances.own(move.new)
        if not self._is_remote:
            self._plane.hand_down(move.old, move.new)
        self._instances.retire(move.old)
        self._services.catch_ups.moved(move.source, move.target)
        self.done(Fact.HOLDS)

    # -- checkpoints, at the coordinator

    def checkpoint_to_target(self) -> None:
        """Have a checkpoint of the old instance taken for the target now; then `on_stored`.

        Periodic checkpoints go there as well: one may be taken before the message about this one arrives.
        """
        move, host = self._run.move, self._cluster.task_host[self._run.move.target]
        self.direct_checkpoints_to_target()
        # If a checkpoint is under way already the plane takes no other one, and announces that one in its place.
        self._plane.checkpoint(move.old, REMOTE if self._is_remote else host)

    def direct_checkpoints_to_target(self) -> None:
        """Send the periodic checkpoints of the old instance to the target's host from now on; then `on_stored`.

        With a remote store they go there as before.
        """
        move = self._run.move
        self._runtime.announce(self._run, move.old)
        if self._is_remote:
            return
        if not self._run.directed:
            self._run.directed, self._run.planned_before = True, self._cluster.planned_checkpoint_host[move.old]
        self._state.plan_checkpoint_host(move.old, self._cluster.task_host[move.target])

    def freeze_checkpoints(self) -> None:
        """Keep the newest stored checkpoint of the old instance as it is.

        A newer one may go elsewhere, and would let upstream forget tuples that the one at the target lacks.
        """
        self._run.frozen = True
        self._plane.freeze(self._run.move.old, True)

    def target_has_checkpoint(self) -> bool:
        """Return whether the newest checkpoint is with the target, or in the remote store and newer than the move."""
        move = self._run.move
        if self._is_remote:
            return self._run.stored
        return self._plane.checkpoint_host(move.old) == self._cluster.task_host[move.target]

    def load_at_target(self, kind: str) -> None:
        """Have the target read the checkpoint, sent or from the remote store, into memory; then send this message."""
        message = Message(self._run.number, kind, self._run.move.target, self.me)
        self._services.load(self._run, lambda: self._runtime.tell(message))

    @property
    def _has_event_time(self) -> bool:
        return self._instances.has_event_time(self._run.move.group)

    @property
    def _is_remote(self) -> bool:
        return self._state.plan.scenario.fault_tolerance.store == "remote"


MoveProtocol.context = MoveContext
