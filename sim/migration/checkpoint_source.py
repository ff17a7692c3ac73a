"""Periodic waves that save the states of a dataflow, and bring back those of tasks that have lost them.

As the checkpoint spout of Storm 1.0.3, it knows of no rebalance and of no crash: it sees that a wave has failed. A
subtask that is up and not initialised fails its PREPARE at once. A wave that meets a task that is down is lost, which
is noticed at its time-out, as for a root. In both cases ROLLBACK and INIT follow.

DCR and CCR send waves of their own: they wait for the end of one that is under way, and none begins before their end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from models.units import to_ns
from sim.control.acker import RootTimeouts
from sim.control.run_state import RunState
from sim.draws import code_of, delay_ns
from sim.migration.coordinator import RunCoordinator
from sim.migration.protocol import Message, PlanKind, ProtocolRun, Request, Restart, Territory
from sim.migration.waves import (
    COMMIT,
    INIT,
    PREPARE,
    ROLLBACK,
    Address,
    Flow,
    Wave,
    WaveContext,
    WavePlan,
    WaveProtocol,
)
from sim.migration.waves import work_ns as work_of
from sim.plane_values import Parcel


@dataclass(frozen=True)
class PeriodicWaves(WavePlan):
    """All subtasks, and when waves begin. It claims nothing: every other run goes on beside it."""

    first_ns: int
    interval_ns: int

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return nobody: it is never cancelled."""
        return ()

    @property
    def territory(self) -> Territory:
        """Return nothing."""
        return ()


class Snapshot(NamedTuple):
    """The state of a subtask as it was at a PREPARE, in the memory of its task."""

    task: int
    number: int  # of the PREPARE
    parcel: Parcel


@dataclass
class PeriodicRun(ProtocolRun[PeriodicWaves]):
    """The one run of periodic waves, as long as the simulation."""

    kind: CheckpointSource
    open: bool = False  # from PREPARE until COMMIT or INIT has come back
    steps: int = 0  # drawn so far
    snapshots: dict[int, Snapshot] = field(default_factory=dict)  # subtask -> the one that is not stored yet
    sent: list[tuple[int, Wave]] = field(default_factory=list)  # (instant [ns], wave), in order


class PeriodicContext(WaveContext):
    """The verbs of one task, or of the source of checkpoints, in periodic waves."""

    _run: PeriodicRun

    # -- the source of checkpoints

    def begin_wave(self) -> bool:
        """Return whether a wave begins now: none is open, and no rebalance that sends its own."""
        begins = not self._run.open and not self._run.kind.held_back()
        self._run.open |= begins
        return begins

    def end_wave(self) -> None:
        """Let begin what has waited for the end of the wave."""
        self._run.open = False
        self._run.kind.coordinator.begin_what_can()

    def note_sent(self, wave: Wave) -> None:
        """Note that a wave is sent."""
        self._run.sent.append((self._state.clock.now_ns(), wave))

    def after_step(self, then: str, note: object) -> None:
        """Send itself a message after the time between two steps."""
        law, scenario, run = self._state.plan.scenario.waves.step, self._state.plan.scenario, self._run
        run.steps += 1
        if law is None:
            self._runtime.deliver(Message(run.number, then, self.me, self.me, note))
            return
        stream = code_of(scenario.seed, self._state.plan.replication, "waves", "step")
        self.timer(delay_ns(law, run.steps, stream), then, note)

    def at_timeout(self, then: str, note: object) -> None:
        """Send itself a message when a root that was emitted now would fail."""
        now, acker = self._state.clock.now_ns(), self._state.plan.acker
        assert acker is not None
        self.timer(acker.expires_ns(now) - now, then, note)

    # -- a task

    def is_live(self, subtask: int) -> bool:
        """Return whether the subtask has its state."""
        return all(self._cluster.partition_live[one] for one in self._flow.partitions[subtask])

    def take_snapshot(self, subtask: int, number: int) -> None:
        """Take a snapshot, in place of an earlier one."""
        self.drop_snapshot(subtask)
        self._run.snapshots[subtask] = Snapshot(self.me, number, self.snapshot())

    def has_snapshot(self, subtask: int, number: int) -> bool:
        """Return whether the task has a snapshot for this PREPARE."""
        found = self._run.snapshots.get(subtask)
        return found is not None and (found.task, found.number) == (self.me, number)

    def give_snapshot(self, subtask: int) -> Parcel:
        """Return the snapshot, to be stored; it is not kept here any more."""
        return self._run.snapshots.pop(subtask).parcel

    def drop_snapshot(self, subtask: int) -> None:
        """Forget the snapshot, if there is one: that of a task that has died, too."""
        found = self._run.snapshots.pop(subtask, None)
        if found is not None:
            self._run.parcels.discard(found.parcel.number)
            self._plane.discard(found.parcel.number)

    def prepare_acks(self) -> None:
        """Mark the acks that wait here: a snapshot has what they are for."""
        self._plane.prepare_acks(self.me)

    def commit_acks(self) -> None:
        """Send the marked acks: the snapshot is stored."""
        self._plane.commit_acks(self.me)

    def roll_back_acks(self) -> None:
        """Let the roots fail whose acks wait here."""
        self._run.kind.timeouts.roll_back(self.me)

    def note_initialised(self, subtask: int) -> None:
        """Tell those who wait for it that a subtask has its state."""
        self._run.kind.note_initialised(subtask, self.me)


class CheckpointWaves(WaveProtocol[PeriodicWaves]):
    """PREPARE at regular instants, then COMMIT; where one of them fails, ROLLBACK and INIT. All along the dataflow.

    While a wave is open no other begins. Each step follows the one before after a random time; what is lost is sent
    again at its time-out.
    """

    complete: ClassVar[frozenset[Enum]] = frozenset()

    def __init__(self, plan: PeriodicWaves) -> None:
        super().__init__(plan)
        self.wave: Wave | None = None  # that is under way
        self.number = 0  # of the newest

    def start(self, ctx: PeriodicContext) -> None:
        """Wait for the first wave."""
        ctx.timer(self.plan.first_ns, "due")

    # at the source of checkpoints

    def on_due(self, ctx: PeriodicContext, message: Message) -> None:
        """Begin a wave, if one can begin."""
        ctx.timer(self.plan.interval_ns, "due")
        if ctx.begin_wave():
            self.on_step(ctx, message._replace(note=PREPARE))

    def on_step(self, ctx: PeriodicContext, message: Message) -> None:
        """Send the next kind of wave. COMMIT has the number of its PREPARE, and all others one of their own."""
        kind = message.note
        assert isinstance(kind, str)
        if kind != COMMIT:
            self.number += 1
        self.wave = Wave(kind, self.number)
        ctx.note_sent(self.wave)
        self.forget_answers(self.number)
        self.send_along(ctx, self.wave)
        ctx.at_timeout("timeout", self.wave)

    def on_ack(self, ctx: PeriodicContext, message: Message) -> None:
        """Count an answer to the wave that is under way, and to no other."""
        assert isinstance(message.note, tuple)
        if message.note[0] == self.wave:
            super().on_ack(ctx, message)

    def after_prepare(self, ctx: PeriodicContext) -> None:
        """Have the snapshots stored."""
        self.follow(ctx, COMMIT)

    def after_commit(self, ctx: PeriodicContext) -> None:
        """Wait for the next wave."""
        self.wave = None
        ctx.end_wave()

    def after_rollback(self, ctx: PeriodicContext) -> None:
        """Bring back the states that are lost."""
        self.follow(ctx, INIT)

    def after_init(self, ctx: PeriodicContext) -> None:
        """Wait for the next wave."""
        self.wave = None
        ctx.end_wave()

    def on_refused(self, ctx: PeriodicContext, message: Message) -> None:
        """Give the wave up: a subtask has no state, or no snapshot."""
        if message.note == self.wave:
            self.follow(ctx, ROLLBACK)

    def on_timeout(self, ctx: PeriodicContext, message: Message) -> None:
        """Give the wave up, or send it again."""
        if message.note == self.wave and self.wave is not None:
            if self.wave.kind in (PREPARE, COMMIT):
                self.follow(ctx, ROLLBACK)
            else:
                self.on_step(ctx, message._replace(note=self.wave.kind))

    def follow(self, ctx: PeriodicContext, kind: str) -> None:
        """End the wave that is under way, and send another kind after a step."""
        self.wave = None
        ctx.after_step("step", kind)

    # at a task

    def forget_answers(self, number: int) -> None:
        """Forget what has come of earlier waves: they are over."""
        self._answers = {wave: heard for wave, heard in self._answers.items() if wave[-1] >= number}  # type: ignore[index]

    def is_last(self, message: Message) -> bool:
        """Note a message of a wave, and that earlier ones are over; return as for all waves."""
        self.forget_answers(Address.of(message).number)
        return super().is_last(message)

    def act(self, ctx: PeriodicContext, kind: str, to: Address) -> None:
        """Refuse at once what cannot be done, without work; do the rest."""
        can = {PREPARE: ctx.is_live(to.subtask), COMMIT: ctx.has_snapshot(to.subtask, to.number)}
        if can.get(kind, True):
            super().act(ctx, kind, to)
        else:
            ctx.tell("refused", Wave(kind, to.number))

    def prepare(self, ctx: PeriodicContext, to: Address) -> None:
        """Take a snapshot."""
        ctx.take_snapshot(to.subtask, to.number)
        ctx.prepare_acks()
        self.finish(ctx, PREPARE, to)

    def saved(self, ctx: PeriodicContext, to: Address) -> list[Parcel]:
        """Return the snapshot."""
        return [ctx.give_snapshot(to.subtask)]

    def on_persisted(self, ctx: PeriodicContext, message: Message) -> None:
        """Send the acks that have waited for it, and go on."""
        ctx.commit_acks()
        super().on_persisted(ctx, message)

    def rollback(self, ctx: PeriodicContext, to: Address) -> None:
        """Forget the snapshot; the state stays as it is, and roots fail whose acks wait here."""
        ctx.drop_snapshot(to.subtask)
        ctx.roll_back_acks()
        self.finish(ctx, ROLLBACK, to)

    def is_initialised(self, ctx: PeriodicContext, subtask: int) -> bool:
        """Return whether a subtask has its state; at the begin all have."""
        return ctx.is_live(subtask)

    def is_first(self, to: Address) -> bool:
        """Note an INIT; the newest is answered."""
        first = to.subtask not in self.asked
        self.asked[to.subtask] = to
        return first


CheckpointWaves.context = PeriodicContext


class CheckpointSource(PlanKind[Request]):
    """Sends periodic waves, in a scenario that has them; subtasks whose host dies come back by their INIT."""

    def __init__(self, state: RunState, coordinator: RunCoordinator, timeouts: RootTimeouts) -> None:
        self.state, self.coordinator, self.timeouts = state, coordinator, timeouts
        self.protocol: type[CheckpointWaves] = CheckpointWaves
        self.run: PeriodicRun | None = None
        self.initialised: Callable[[int, int], None] = lambda subtask, task: None
        self.held_back: Callable[[], bool] = lambda: False

    def is_open(self) -> bool:
        """Return whether a wave is under way."""
        return self.run is not None and self.run.open

    def start(self) -> None:
        """Start the waves."""
        if self.state.plan.scenario.waves.interval_s is not None:
            self.run = self.begin(Request((), "waves", self.state.clock.now_ns(), "waves"))
            self.coordinator.accompany(self.run)

    def begin(self, request: Request) -> PeriodicRun:
        """Return the run."""
        waves = self.state.plan.scenario.waves
        assert waves.interval_s is not None
        plan = PeriodicWaves(
            flow=Flow.of(self.state.cluster),
            work_ns=work_of(waves),
            timeout_ns=to_ns(waves.timeout_s),
            first_ns=to_ns(waves.phase_s) + to_ns(waves.interval_s),
            interval_ns=to_ns(waves.interval_s),
        )
        return PeriodicRun(request.protocol, self.protocol, plan, self, request.requested_ns)

    def note_initialised(self, subtask: int, task: int) -> None:
        """Tell a rebalance that a subtask has its state; another one may have waited for that to begin."""
        self.initialised(subtask, task)
        self.coordinator.begin_what_can()

    def waits(self, request: Request) -> bool:
        """Return that it never waits."""
        return False

    def takes_back(self, run: Any, partitions: Collection[int]) -> set[int]:
        """Start lost subtasks elsewhere: they hold their input until an INIT has brought their states back."""
        relocation, at, taken = self.coordinator.runtime.relocation, self.state.cluster.partition_task, set[int]()
        workers = self.state.plan.scenario.workers
        gate_ns = None if workers.gate_s is None else to_ns(workers.gate_s)
        for subtask, own in run.plan.flow.partitions.items():
            lost = [one for one in own if one in partitions]
            task = at[subtask]
            restart = Restart(task, self.state.cluster.task_host[task], gate_ns=gate_ns)
            if lost and relocation.start_elsewhere(restart, lost):
                taken.update(lost)
        return taken

    def can_be_cancelled(self, run: Any) -> bool:
        """Return that nothing ends it."""
        return False

    def ended(self, run: Any) -> None:
        """It never ends."""

    def cancelled(self, run: Any) -> None:
        """It is never cancelled."""
