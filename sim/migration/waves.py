"""Waves of control messages over a dataflow, PREPARE, COMMIT, ROLLBACK and INIT, as the checkpoints of Storm use them.

A wave goes *along* the dataflow, or is *broadcast*. Along it, each source sends it behind all that it has emitted; a
subtask acts once it has come from every subtask upstream, and passes it on when it is done. A broadcast goes to each
subtask at once, and is not passed on. Each subtask tells the coordinator when it is done; answers count for the wave
and number that they name.

A *subtask* is a place in the parallelism of an operator: the partitions that one task has. It is named by the first of
them, since a restart gives it a task with another number. A message for a subtask goes to the task that has the
partition when it is sent, as a worker of Storm finds it in the routes of the topology: one that is killed and not
started yet loses it.

When a wave begins, what is saved, and what follows is left to who uses waves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

from models.scenario.runtime import Waves
from models.units import to_ns
from sim.control.cluster import Cluster
from sim.migration.protocol import Context, Message, Plan, Protocol
from sim.plane_values import Parcel

PREPARE, COMMIT, ROLLBACK, INIT = "prepare", "commit", "rollback", "init"
COORDINATOR = -1  # in place of the subtask that sends a wave


class Wave(NamedTuple):
    """A wave, as answers name it."""

    kind: str
    number: int = 0


class Address(NamedTuple):
    """The note of a message of a wave."""

    subtask: int  # that is meant: its task may have others, too
    number: int = 0  # of the wave
    origin: int = COORDINATOR  # subtask that sends it

    @classmethod
    def of(cls, message: Message) -> Address:
        """Return that of a message."""
        assert isinstance(message.note, Address)
        return message.note


def work_ns(waves: Waves) -> Mapping[str, int]:
    """Return the work of a task for each kind of wave [ns]."""
    work = {PREPARE: to_ns(waves.prepare_s), COMMIT: to_ns(waves.commit_s), INIT: to_ns(waves.init_s)}
    return MappingProxyType(work)


@dataclass(frozen=True)
class Flow:
    """The way of waves over a dataflow."""

    sources: tuple[int, ...]  # subtasks at which waves begin
    partitions: Mapping[int, tuple[int, ...]]  # of each subtask that waves come to
    above: Mapping[int, int]  # subtask -> how many send to it
    below: Mapping[int, tuple[int, ...]]  # operator -> subtasks that it sends waves to

    @classmethod
    def of(cls, cluster: Cluster, without: Collection[int] = ()) -> Flow:
        """Return that over all subtasks that there are, without those of some operators that send to nobody."""
        operators, flow, subtasks = cluster.plan.operators, cluster.plan.dataflow, _subtasks(cluster)
        operator_of = {one: at for one in subtasks if (at := cluster.partition_operator[one]) not in without}
        receivers = [one for one, at in operator_of.items() if not operators[at].is_source]
        return cls(
            sources=tuple(one for one, at in operator_of.items() if operators[at].is_source),
            partitions={one: subtasks[one] for one in receivers},
            above={one: sum(flow.has_edge(up, operator_of[one]) for up in operator_of.values()) for one in receivers},
            below={
                operator: tuple(one for one in receivers if flow.has_edge(operator, operator_of[one]))
                for operator in range(len(operators))
            },
        )


def _subtasks(cluster: Cluster) -> dict[int, tuple[int, ...]]:
    """Return the partitions of each subtask, by the first of them."""
    found: dict[int, list[int]] = {}
    for partition, task in enumerate(cluster.partition_task):
        if not cluster.retired(partition):
            found.setdefault(task, []).append(partition)
    return {here[0]: tuple(here) for here in found.values()}


@dataclass(frozen=True)
class WavePlan(Plan):
    """The part of a plan that waves need."""

    flow: Flow
    work_ns: Mapping[str, int]  # of a task, by kind of wave
    timeout_ns: int | None
    """Time until the store is asked again. None: never."""


class WaveContext(Context):
    """The verbs of one task, or of the coordinator, in waves."""

    @property
    def _flow(self) -> Flow:
        flow: Flow = self._run.plan.flow
        return flow

    def send_to(self, subtask: int, kind: str, turn: bool = False, number: int = 0, origin: int = COORDINATOR) -> None:
        """Send a message to the task that the subtask has now; its note is an `Address`."""
        self.send(self._cluster.partition_task[subtask], kind, turn, Address(subtask, number, origin))

    def send_to_each(self, subtasks: Iterable[int], wave: Wave, turn: bool, origin: int = COORDINATOR) -> None:
        """Send a wave to the tasks that the subtasks have now, in order."""
        where, number = self._cluster.partition_task, wave.number
        self.send_each([(where[one], Address(one, number, origin)) for one in subtasks], wave.kind, turn)

    def pass_on(self, wave: Wave, origin: int, turn: bool = True) -> None:
        """Send a wave from a subtask here to all downstream; with `turn` it comes behind all tuples before it."""
        self.send_to_each(self._flow.below[self._cluster.task_operator[self.me]], wave, turn, origin)

    def acknowledge(self, wave: Wave, subtask: int) -> None:
        """Tell the coordinator that a subtask is done with a wave."""
        self.tell("ack", note=(wave, subtask))

    def work(self, ns: int, then: str, note: object, paused: bool = False) -> None:
        """Occupy the task for a time, ahead of its queue; then send itself a message.

        A task without a service, or without work, takes no time. One that is `paused` takes it, and nothing of the CPU:
        a pause begins no work.
        """
        message = Message(self._run.number, then, self.me, self.me, note)
        if not ns or self._state.plan.operators[self._cluster.task_operator[self.me]].service_ns is None:
            self._runtime.deliver(message)
        elif paused:
            self._runtime.timer(message, ns)
        else:
            self._state.work(self.me, ns, lambda: self._runtime.deliver(message))

    def go_on(self, to: Address, parcels: Sequence[Parcel]) -> None:
        """Give the subtask its state and what was captured; then `on_initialised`."""
        self.put(parcels, "initialised", to, self._flow.partitions[to.subtask], self._sends_again)

    def _sends_again(self) -> bool:
        """Return whether a subtask that is back has to send what it keeps once more."""
        return False

    def note_initialised(self, subtask: int) -> None:
        """Note that a subtask goes on; should it be lost from now on it is recovered as any other."""


W = TypeVar("W", bound=WavePlan)


class WaveProtocol(Protocol[W]):
    """The handlers that carry waves, save a subtask at COMMIT, and bring it back at INIT."""

    fast: ClassVar[frozenset[str]] = frozenset()
    """Kinds of waves that overtake tuples: they find their task paused, and nothing in its queue."""

    def __init__(self, plan: W) -> None:
        super().__init__(plan)
        self.asked: dict[int, Address] = {}  # subtasks here for which the store was asked -> the INIT that is answered
        self.ready: set[int] = set()  # and those that are initialised

    # at the coordinator

    def send_along(self, ctx: Any, wave: Wave) -> None:
        """Send a wave along the dataflow."""
        ctx.send_to_each(self.plan.flow.sources, wave, turn=False)

    def broadcast(self, ctx: Any, wave: Wave, subtasks: Iterable[int]) -> None:
        """Send a wave to the end of the queues of these subtasks."""
        ctx.send_to_each(subtasks, wave, turn=True)

    def on_ack(self, ctx: Any, message: Message) -> None:
        """Count an answer; the last one of a wave ends it."""
        assert isinstance(message.note, tuple)
        wave, subtask = message.note
        if self.last_of(wave, subtask, self.who_answers(wave)):
            getattr(self, f"after_{wave.kind}")(ctx)

    def who_answers(self, wave: Wave) -> Collection[int]:
        """Return the subtasks that answer to a wave."""
        return self.plan.flow.partitions.keys()

    # at a task

    def on_prepare(self, ctx: Any, message: Message) -> None:
        """Make ready to be saved."""
        self.comes(ctx, message)

    def on_commit(self, ctx: Any, message: Message) -> None:
        """Save the subtask."""
        self.comes(ctx, message)

    def on_rollback(self, ctx: Any, message: Message) -> None:
        """Forget what was made ready."""
        self.comes(ctx, message)

    def on_init(self, ctx: Any, message: Message) -> None:
        """Restore the state."""
        self.comes(ctx, message)

    def comes(self, ctx: Any, message: Message) -> None:
        """Act once the wave is here as a whole; a source only passes it on."""
        to = Address.of(message)
        if to.origin != COORDINATOR and not self.is_last(message):
            return
        if to.subtask in self.plan.flow.partitions:
            self.act(ctx, message.kind, to)
        else:
            ctx.pass_on(Wave(message.kind, to.number), to.subtask, message.kind not in self.fast)

    def is_last(self, message: Message) -> bool:
        """Note a message of a wave; return True once, when it has come from all that send to the subtask."""
        to = Address.of(message)
        heard = self._answers.setdefault((message.kind, to.subtask, to.number), set())
        before = len(heard)
        heard.add(to.origin)
        return before < len(heard) == self.plan.flow.above[to.subtask]

    def act(self, ctx: Any, kind: str, to: Address) -> None:
        """Work for the wave, then do what it asks; an INIT that comes again asks for nothing but an answer."""
        if kind == INIT and self.is_initialised(ctx, to.subtask):
            self.finish(ctx, INIT, to)
            return
        if kind != INIT or self.is_first(to):
            ctx.work(self.plan.work_ns.get(kind, 0), "worked", (kind, to), paused=kind in self.fast)

    def is_first(self, to: Address) -> bool:
        """Note an INIT; return whether the store is not yet asked because of another one."""
        return self.asked.setdefault(to.subtask, to) is to

    def on_worked(self, ctx: Any, message: Message) -> None:
        """Do what the wave asks."""
        assert isinstance(message.note, tuple)
        kind, to = message.note
        getattr(self, kind)(ctx, to)

    def finish(self, ctx: Any, kind: str, to: Address) -> None:
        """Pass the wave on, unless it was broadcast, and answer."""
        wave = Wave(kind, to.number)
        if to.origin != COORDINATOR:
            ctx.pass_on(wave, to.subtask, kind not in self.fast)
        ctx.acknowledge(self.answer_to(kind, to), to.subtask)

    def answer_to(self, kind: str, to: Address) -> Wave:
        """Return the wave that an answer is for."""
        return Wave(kind, to.number)

    @abstractmethod
    def prepare(self, ctx: Any, to: Address) -> None:
        """Make the subtask ready to be saved."""

    def commit(self, ctx: Any, to: Address) -> None:
        """Write the subtask to the state store."""
        ctx.persist(to.subtask, self.saved(ctx, to), "persisted", to)

    @abstractmethod
    def saved(self, ctx: Any, to: Address) -> list[Parcel]:
        """Return what is saved of a subtask."""

    def on_persisted(self, ctx: Any, message: Message) -> None:
        """Go on with COMMIT when the store has answered."""
        self.finish(ctx, COMMIT, Address.of(message))

    def rollback(self, ctx: Any, to: Address) -> None:
        """Forget what was made ready; where nothing was, only answer."""
        self.finish(ctx, ROLLBACK, to)

    def is_initialised(self, ctx: Any, subtask: int) -> bool:
        """Return whether a subtask has its state."""
        return subtask in self.ready

    def init(self, ctx: Any, to: Address) -> None:
        """Fetch what is saved; again only after the time-out: each request holds the link of the store."""
        ctx.fetch(to.subtask, "fetched", to)
        if self.plan.timeout_ns is not None:
            ctx.timer(self.plan.timeout_ns, "unanswered", to)

    def on_unanswered(self, ctx: Any, message: Message) -> None:
        """Ask the store again if it has not answered."""
        to = Address.of(message)
        if to.subtask not in self.ready:
            self.init(ctx, to)

    def on_fetched(self, ctx: Any, message: Message) -> None:
        """Go on: first with the state, then with what was captured, then with what has come since the start."""
        ctx.go_on(Address.of(message), message.parcels)

    def on_initialised(self, ctx: Any, message: Message) -> None:
        """Answer the INIT."""
        to = Address.of(message)
        self.ready.add(to.subtask)
        ctx.note_initialised(to.subtask)
        self.finish(ctx, INIT, self.asked[to.subtask])


WaveProtocol.context = WaveContext
