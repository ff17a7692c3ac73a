"""The plan of an operator that gets another number of tasks, and the verbs of its protocol (`protocols/oap.py`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal

from sim.clock import MESSAGE, channel
from sim.control.catch_up import CatchUps
from sim.control.instances import CheckpointHosts, Instances
from sim.control.recoveries import Recoveries
from sim.control.run_state import RunState
from sim.migration.protocol import WHOLE, Carrier, Context, Message, Plan, Protocol, ProtocolRun, Request, Territory
from sim.plane_values import NO_HOST, REMOTE

_NS = 1_000_000_000


class Adjusted(Enum):
    """The facts of an adjustment."""

    RESUMED = "resumed"  # every task of the operator goes on
    GONE = "gone"  # the instances whose key groups have gone elsewhere have ended


@dataclass(frozen=True)
class Part:
    """A key group that changes its task: its part of the state goes from one instance to another.

    `group` is its planned partition; `old` and `new` are the instances at the tasks `source` and `target`.
    """

    group: int
    old: int
    new: int
    source: int
    target: int


@dataclass(frozen=True)
class Adjustment(Plan):
    """An operator goes from some tasks to others; `parts` are the key groups whose task changes.

    `before` and `after` are the tasks that own its key groups, `upstream` and `downstream` those that send to it and
    get its outputs, when the run begins.
    """

    operator: int
    parts: tuple[Part, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    upstream: tuple[int, ...]
    downstream: tuple[int, ...]
    checkpoint: Literal["last", "new"]
    reading: Literal["safe", "literal"]

    @property
    def members(self) -> tuple[int, ...]:
        """Return the tasks of the operator, before and after."""
        return tuple(dict.fromkeys((*self.before, *self.after)))

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return all of them, and those upstream and downstream."""
        return *self.members, *self.upstream, *self.downstream

    @property
    def territory(self) -> Territory:
        """Return the operator."""
        return ((self.operator, WHOLE),)

    @property
    def targets(self) -> tuple[int, ...]:
        """Return the tasks that get a part."""
        return tuple(dict.fromkeys(part.target for part in self.parts))

    def given(self, source: int, target: int | None = None) -> tuple[Part, ...]:
        """Return the parts that a task gives away, or those that go to one target."""
        return tuple(part for part in self.parts if part.source == source and target in (None, part.target))

    def taken(self, target: int) -> tuple[Part, ...]:
        """Return the parts that a task gets."""
        return tuple(part for part in self.parts if part.target == target)

    def sources_of(self, target: int) -> set[int]:
        """Return the tasks that give a task its parts."""
        return {part.source for part in self.taken(target)}


@dataclass(frozen=True)
class AdjustmentRequest(Request):
    """Somebody wants an operator to have tasks on these hosts; key group k belongs to task k modulo their number."""

    operator: int
    hosts: tuple[int, ...]


class AdjustmentProtocol(Protocol[Adjustment]):
    """A protocol that gives an operator other tasks."""

    complete: ClassVar[frozenset[Enum]] = frozenset(Adjusted)

    @abstractmethod
    def start(self, ctx: AdjustmentContext) -> None:
        """Begin, at the coordinator."""


@dataclass
class AdjustmentRun(ProtocolRun[Adjustment]):
    """One execution of a protocol that adjusts an operator."""

    frozen: bool = False  # no checkpoints of the old instances are taken
    is_committed: bool = False  # the new instances own their groups: from then on there is no way back
    asked: AdjustmentRequest | None = None
    over_ns: int | None = None  # since when the operator has its new tasks, also after a crash
    resent: bool = False


class AdjustmentServices:
    """The managers that the verbs need."""

    def __init__(
        self,
        state: RunState,
        instances: Instances,
        catch_ups: CatchUps,
        recoveries: Recoveries,
        checkpoint_hosts: CheckpointHosts,
    ) -> None:
        self.state, self.instances, self.catch_ups, self.recoveries = state, instances, catch_ups, recoveries
        self.checkpoint_hosts = checkpoint_hosts

    def has_failed_upstream(self, part: Part) -> bool:
        """Return whether a task without a state that sends to the group has been recovered."""
        plan, its = self.state.plan, self.state.cluster.partition_operator
        operators = [plan.operators[one] for one in plan.dataflow.predecessors(its[part.group])]
        above = {one.index for one in operators if not (one.is_source or one.description.stateful)}
        return any(its[recovery.partition] in above for recovery in self.recoveries.all)

    def let_go(self, part: Part) -> None:
        """End the old instance, whose state and outputs the new one has."""
        if not self.state.cluster.retired(part.old):
            self.instances.retire(part.old)
            self.catch_ups.moved(part.source, part.target)


class AdjustmentContext(Context):
    """The verbs of one task in the adjustment of an operator."""

    _run: AdjustmentRun

    def __init__(self, runtime: Carrier, run: Any, me: int) -> None:
        super().__init__(runtime, run, me)
        self._services: AdjustmentServices = run.kind.services
        self._instances: Instances = self._services.instances

    # -- checkpoints, at the coordinator

    def has_enough(self, part: Part) -> bool:
        """Return whether the old instance has a stored checkpoint, and upstream keeps all that came after it.

        A task without a state that has failed does not: it lost what it had kept, and what it made that of may have
        been trimmed. That the old instance has it makes up for it only as long as it goes on.
        """
        holder = self._plane.checkpoint_host(part.old)
        # With the target a failure would take the state and its only checkpoint.
        apart = holder is not None and holder != self._cluster.task_host[part.target]
        return apart and not self._services.has_failed_upstream(part)

    def take_checkpoint(self, part: Part) -> None:
        """Have a checkpoint of the old instance taken now; then `on_stored`, with the instance as note.

        Where one is under way already that one is announced in its place, and where no host can hold it the next.
        """
        self._runtime.announce(self._run, part.old)
        host = self._host_of_next_checkpoint(part.old, self._cluster.task_host[part.target])
        if host != NO_HOST:
            self._plane.checkpoint(part.old, host)

    def _host_of_next_checkpoint(self, partition: int, target: int) -> int:
        """Return the planned host, or that of the newest one, or another; not the target where there is another."""
        if self._state.plan.scenario.fault_tolerance.store == "remote":
            return REMOTE
        cluster = self._cluster
        own = cluster.host_of(partition)
        for host in (cluster.planned_checkpoint_host[partition], self._plane.checkpoint_host(partition)):
            if host is not None and host not in (own, target, REMOTE) and cluster.trusted[host]:
                return host
        chosen = self._services.checkpoint_hosts.choose(partition, target)
        if chosen != NO_HOST:
            self._state.plan_checkpoint_host(partition, chosen)  # tells the plane, too
        return chosen

    def freeze_checkpoint(self, part: Part) -> None:
        """Keep the newest stored checkpoint of the old instance as it is: it is the one that is split."""
        self._plane.freeze(part.old, True)
        self._run.frozen = True

    # -- upstream

    def split(self, part: Part) -> None:
        """Keep for the new instance what is kept here for the old one; send what that lacks, as Scale_Up_FIN says.

        Each sender sends it as one message.
        """
        for sender in self._plane.senders(part.old):
            if self._cluster.partition_task[sender] == self.me:
                self._plane.copy_kept(sender, part.old, part.new)
                self._plane.replay(sender, part.new, missing=True)

    def route(self, part: Part, *instances: int) -> None:
        """Send outputs for the group that depart from now on to these instances."""
        self._instances.route(self.me, part.group, instances)

    # -- the operator

    def load(self, parts: Sequence[Part], then: str, note: object) -> None:
        """Fetch and read the checkpoints of these parts; then send itself a message.

        The run is called off if a checkpoint is not there any more.
        """
        state, message = self._state, Message(self._run.number, then, self.me, self.me, note)
        if not self._are_there(parts):
            self._runtime.call_off(self._run)
            return
        at_ns = max(self._fetched_ns(part) for part in parts)
        operator = state.plan.operators[self._run.plan.operator]
        size, rate = sum(self._plane.checkpoint_bytes(part.old) for part in parts), operator.description
        # The task is paused: a work in its queue would never begin.
        reading = rate.deserialise_bytes_per_s
        if reading is not None and size and operator.service_ns is not None:
            at_ns += max(1, round(size * _NS / reading))
        if at_ns == state.clock.now_ns():
            self._runtime.deliver(message)
        else:
            state.clock.at(at_ns, channel(MESSAGE, self.me, self.me), lambda _: self._loaded(parts, message))

    def _fetched_ns(self, part: Part) -> int:
        state, now, own = self._state, self._state.clock.now_ns(), self._cluster.task_host[self.me]
        holder, size = self._plane.checkpoint_host(part.old), self._plane.checkpoint_bytes(part.old)
        if holder is None or holder == own:
            return now
        state.recorder.restore(now, size)
        if holder == REMOTE:
            return self._plane.fetch_ns(size)
        return now + state.plan.transfer_ns(holder, own, size)

    def _are_there(self, parts: Sequence[Part]) -> bool:
        # Upstream may have trimmed what a checkpoint had that was lost since.
        return all(self._plane.checkpoint_host(part.old) is not None for part in parts)

    def _loaded(self, parts: Sequence[Part], message: Message) -> None:
        if self._run.over or not self._cluster.task_alive[self.me]:
            return
        if self._are_there(parts):
            self._runtime.deliver(message)
        else:
            self._runtime.call_off(self._run)

    def install(self, part: Part) -> None:
        """Make the stored checkpoint of the old instance that of the new one, and its state."""
        cluster, plane = self._cluster, self._plane
        plane.adopt(part.new, part.old)
        self._instances.open(part.new)
        for receiver in plane.receivers(part.new):
            if cluster.retired(receiver):  # its outputs are kept for its successor by now
                plane.retire(receiver)

    def commit(self) -> None:
        """Make the new instances owners of their groups."""
        self._run.is_committed = True
        for part in self._run.plan.parts:
            self._instances.own(part.new)

    def let_go(self, part: Part) -> None:
        """End the old instance; everyone upstream sends to the new one by now."""
        self._services.let_go(part)

    def go_on(self) -> None:
        """Go on after the pause; new instances first send what their checkpoints keep, where event time matters.

        What an old instance had sent may still be on its way when watermarks from here say that all was sent.
        """
        for part in self._run.plan.taken(self.me):
            if self._instances.has_event_time(part.group):
                self._instances.resend(part.new)
        self.resume()


AdjustmentProtocol.context = AdjustmentContext
