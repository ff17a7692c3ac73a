"""Whole dataflows that are killed and come back on other hosts: plan, verbs, and the effect of a crash.

A *subtask* is a place in the parallelism of an operator: the partitions that one task has. It is named by the first of
them, since a restart gives it a task with another number. A message for a subtask goes to the task that has the
partition when it is sent, as a worker of Storm finds it in the routes of the topology: one that is killed and not
started yet loses it. Sources are subtasks that stay where they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, NamedTuple

from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.topology import layout
from sim.clock import Clock
from sim.control.run_state import RunState
from sim.data_plane import Parcel
from sim.migration.coordinator import RunCoordinator
from sim.migration.protocol import (
    WHOLE,
    Context,
    Message,
    Plan,
    PlanKind,
    Protocol,
    ProtocolRun,
    Request,
    Restart,
    Territory,
)


class Phase(Enum):
    """Facts of a rebalance, in their order."""

    KILLED = "killed"  # from here on it cannot be called off
    RESUMED = "resumed"  # all subtasks are initialised, and the sources go on


@dataclass(frozen=True)
class Rebalance(Plan):
    """Subtasks that are killed, and where they go."""

    operators: int
    tasks_at_begin: tuple[int, ...]  # of sources and subtasks
    sources: tuple[int, ...]  # subtasks that stay
    hosts: Mapping[int, int]  # subtask that is killed -> host
    partitions: Mapping[int, tuple[int, ...]]  # of these
    above: Mapping[int, int]  # subtask -> how many send to it
    below: Mapping[int, tuple[int, ...]]  # operator -> subtasks that it sends to
    start_ns: Mapping[int, int]  # subtask -> time from the kill until its successor is there
    command_ns: int  # between the last answer to COMMIT and the kill
    resend_ns: int  # between two INITs
    gate_ns: int | None  # between two looks of a started task whether all that it sends to are there; None: no gate
    timeout_ns: int | None
    """Time until a run that has not killed anything is called off, and until the store is asked again. None: never."""

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return all tasks as they are at the begin."""
        return self.tasks_at_begin

    @property
    def territory(self) -> Territory:
        """Return the whole dataflow."""
        return _whole(self.operators)


def _whole(operators: int) -> Territory:
    return tuple((operator, WHOLE) for operator in range(operators))


SOURCES_ANSWER = frozenset({"pause", "resume"})
"""Waves to which sources answer, and no other subtask."""
_MARKS = ("begun", "paused", "prepared", "committed", "commanded", "up", "first_init", "last_init", "resumed", "over")
_MARK_OF = {"pause": "paused", "prepare": "prepared", "commit": "committed", "resume": "resumed"}


@dataclass
class RebalanceRun(ProtocolRun[Rebalance]):
    """One execution of a protocol for whole dataflows."""

    marks: dict[str, int] = field(default_factory=dict)
    """When what happened [ns]; names that are not there did not happen. In the order of a whole run: begun; paused,
    prepared, committed (the last of all who take part); commanded (tasks are killed); first_init; up (the last task has
    started, not counting its gate); last_init; resumed (the last source); over."""
    captured: int = 0  # tuples
    captured_at: dict[int, int] = field(default_factory=dict)  # task -> parcel with what it has captured
    initialised: set[int] = field(default_factory=set)  # subtasks that have gone on
    crashed: bool = False  # a host died; what it lost may have to be sent again
    reason: str = "a host died before tasks were killed"  # for which it is called off
    _done: dict[str, set[int]] = field(default_factory=dict)  # wave -> subtasks that are done with it

    def note_answer(self, wave: str, subtask: int, now_ns: int) -> None:
        """Note that a subtask is done with a wave; the last of them marks its end."""
        done, mark = self._done.setdefault(wave, set()), _MARK_OF.get(wave)
        done.add(subtask)
        everyone = self.plan.sources if wave in SOURCES_ANSWER else self.plan.hosts
        if mark is not None and done.issuperset(everyone):
            self.marks.setdefault(mark, now_ns)


class Address(NamedTuple):
    """The note of a message of a wave."""

    subtask: int  # that is meant: its task may have others, too
    wave: int = 0
    origin: int = -1  # subtask that sends it; -1: the coordinator

    @classmethod
    def of(cls, message: Message) -> Address:
        """Return that of a message."""
        assert isinstance(message.note, Address)
        return message.note


def restart_of(run: RebalanceRun, clock: Clock, task: int, host: int, start_ns: int) -> Restart:
    """Return how a task of the run is killed and started again."""
    started = lambda _: run.marks.update(up=clock.now_ns())  # noqa: E731
    return Restart(task, host, start_ns, run.plan.gate_ns, started, crashed=lambda: run.crashed)


class RebalanceContext(Context):
    """The verbs of one task, or of the coordinator, in a rebalance."""

    _run: RebalanceRun

    def send_to(self, subtask: int, kind: str, turn: bool = False, wave: int = 0, origin: int = -1) -> None:
        """Send a message to the task that the subtask has now; its note is an `Address`."""
        self.send(self._cluster.partition_task[subtask], kind, turn, Address(subtask, wave, origin))

    def send_along(self, origin: int, kind: str, turn: bool = True, wave: int = 0) -> None:
        """Send a message from a subtask here to all downstream; with `turn` it comes behind all tuples before it."""
        for subtask in self._run.plan.below[self._cluster.task_operator[self.me]]:
            self.send_to(subtask, kind, turn, wave, origin)

    def acknowledge(self, wave: str, subtask: int) -> None:
        """Tell the coordinator that a subtask is done with a wave."""
        self._run.note_answer(wave, subtask, self._state.clock.now_ns())
        self.tell("ack", note=(wave, subtask))

    def capture(self) -> Parcel:
        """Return the tuples that rules hold, in order; should the run be called off they go on here."""
        parcel = super().capture()
        self._run.captured_at[self.me] = parcel.number
        self._run.captured += parcel.tuples
        return parcel

    def restart_all(self, gated: bool = True) -> None:
        """Kill every subtask but the sources, and start it where the plan says.

        If `gated`, it does nothing before all that it sends to are there.
        """
        run, plan, at, clock = self._run, self._run.plan, self._cluster.partition_task, self._state.clock
        run.marks["commanded"] = clock.now_ns()
        for subtask, host in plan.hosts.items():
            restart = restart_of(run, clock, at[subtask], host, plan.start_ns[subtask])
            self._runtime.restarts.restart(restart if gated else replace(restart, gate_ns=None))

    def go_on(self, to: Address, parcels: Sequence[Parcel]) -> None:
        """Give the subtask its state and what was captured; then `on_initialised`."""
        self.put(parcels, "initialised", to, self._run.plan.partitions[to.subtask], resend=lambda: self._run.crashed)

    def note_initialised(self, subtask: int) -> None:
        """Note that a subtask goes on; should it be lost from now on it is recovered as any other."""
        now = self._state.clock.now_ns()
        self._run.initialised.add(subtask)
        self._run.marks.setdefault("first_init", now)
        self._run.marks["last_init"] = now

    def call_off(self, why: str) -> None:
        """End the run, if it has killed nothing yet."""
        self._run.reason = why
        self._runtime.call_off(self._run)


class RebalanceProtocol(Protocol[Rebalance]):
    """The parts that DCR and CCR share: sources pause, PREPARE, COMMIT, restart, INIT, sources go on."""

    complete: ClassVar[frozenset[Enum]] = frozenset(Phase)
    commit_waits: ClassVar[bool] = True
    """Whether COMMIT goes through the queues, behind tuples."""

    def __init__(self, plan: Rebalance) -> None:
        super().__init__(plan)
        self.round = 0  # of INITs; at the coordinator
        self.asked: set[int] = set()  # subtasks here for which the store was asked
        self.ready: set[int] = set()  # and those that are initialised

    def start(self, ctx: RebalanceContext) -> None:
        """Pause the sources."""
        if self.plan.timeout_ns is not None:
            ctx.timer(self.plan.timeout_ns, "too_late")
        for source in self.plan.sources:
            ctx.send_to(source, "pause")

    def from_all(self, message: Message) -> bool:
        """Note a message of a wave; return True once, when it has come from all tasks that send to the subtask."""
        to = Address.of(message)
        heard = self._answers.setdefault((message.kind, to.subtask, to.wave), set())
        before = len(heard)
        heard.add(to.origin)
        return before < len(heard) == self.plan.above[to.subtask]

    # at the coordinator: each wave begins when all have acknowledged the one before

    def on_ack(self, ctx: RebalanceContext, message: Message) -> None:
        """Count an answer; the last one of a wave begins the next."""
        assert isinstance(message.note, tuple)
        wave, subtask = message.note
        if self.last_of(wave, subtask, self.plan.sources if wave in SOURCES_ANSWER else self.plan.hosts):
            getattr(self, f"after_{wave}")(ctx)

    @abstractmethod
    def after_pause(self, ctx: RebalanceContext) -> None:
        """Send PREPARE."""

    def after_prepare(self, ctx: RebalanceContext) -> None:
        """Send COMMIT along the dataflow: it is the last item in every channel."""
        for source in self.plan.sources:
            ctx.send_to(source, "sweep_commit")

    def after_commit(self, ctx: RebalanceContext) -> None:
        """Issue the command; the tasks are killed when it ends."""
        ctx.timer(self.plan.command_ns, "commanded")

    def on_commanded(self, ctx: RebalanceContext, message: Message) -> None:
        """Kill and start all subtasks, then send INIT."""
        ctx.done(Phase.KILLED)
        ctx.restart_all()
        self.on_again(ctx, message)

    def on_too_late(self, ctx: RebalanceContext, message: Message) -> None:
        """Give up before the kill: somebody, such as the store, does not answer."""
        ctx.call_off("not all have answered in time")

    def on_again(self, ctx: RebalanceContext, message: Message) -> None:
        """Send to those that have not answered, until all have: they may not be there yet, or their host has died."""
        late = self.plan.hosts.keys() - self.answered("init")
        if late:
            self.round += 1
            self.send_init(ctx, sorted(late))
        else:
            for source in sorted({*self.plan.sources} - self.answered("resume")):
                ctx.send_to(source, "resume")
        ctx.timer(self.plan.resend_ns, "again")

    @abstractmethod
    def send_init(self, ctx: RebalanceContext, late: list[int]) -> None:
        """Send INIT to these subtasks."""

    def after_init(self, ctx: RebalanceContext) -> None:
        """Have the sources go on; what they had to emit meanwhile comes at once."""
        for source in self.plan.sources:
            ctx.send_to(source, "resume")

    def after_resume(self, ctx: RebalanceContext) -> None:
        """End the run. Not before: messages of a run that is over reach nobody."""
        ctx.done(Phase.RESUMED)

    # at a source

    def on_pause(self, ctx: RebalanceContext, message: Message) -> None:
        """Emit nothing any more."""
        ctx.pause()
        ctx.acknowledge("pause", Address.of(message).subtask)

    def on_sweep_commit(self, ctx: RebalanceContext, message: Message) -> None:
        """Send COMMIT behind all that was emitted."""
        ctx.send_along(Address.of(message).subtask, "commit", self.commit_waits)

    def on_resume(self, ctx: RebalanceContext, message: Message) -> None:
        """Emit what has waited, and go on."""
        ctx.resume()
        ctx.acknowledge("resume", Address.of(message).subtask)

    # at a subtask

    @abstractmethod
    def on_prepare(self, ctx: RebalanceContext, message: Message) -> None:
        """Make ready to be saved."""

    def on_commit(self, ctx: RebalanceContext, message: Message) -> None:
        """Save the subtask once COMMIT has come from all upstream: nothing is behind it."""
        if self.from_all(message):
            subtask = Address.of(message).subtask
            ctx.persist(subtask, self.saved(ctx, subtask), "persisted", Address(subtask))

    @abstractmethod
    def saved(self, ctx: RebalanceContext, subtask: int) -> list[Parcel]:
        """Return what is saved of a subtask."""

    def on_persisted(self, ctx: RebalanceContext, message: Message) -> None:
        """Pass COMMIT on when the store has answered."""
        ctx.send_along(Address.of(message).subtask, "commit", self.commit_waits)
        ctx.acknowledge("commit", Address.of(message).subtask)

    def on_init(self, ctx: RebalanceContext, message: Message) -> None:
        """Restore the state; if that is done, only answer."""
        to = Address.of(message)
        if to.subtask in self.ready:
            self.initialised(ctx, to)
        elif to.subtask not in self.asked:
            self.ask_store(ctx, to)

    def ask_store(self, ctx: RebalanceContext, to: Address) -> None:
        """Fetch what is saved; again only after the time-out: each request holds the link of the store."""
        self.asked.add(to.subtask)
        ctx.fetch(to.subtask, "fetched", to)
        if self.plan.timeout_ns is not None:
            ctx.timer(self.plan.timeout_ns, "unanswered", to)

    def on_unanswered(self, ctx: RebalanceContext, message: Message) -> None:
        """Ask the store again if it has not answered."""
        to = Address.of(message)
        if to.subtask not in self.ready:
            self.ask_store(ctx, to)

    def on_fetched(self, ctx: RebalanceContext, message: Message) -> None:
        """Go on: first with the state, then with what was captured, then with what has come since the start."""
        ctx.go_on(Address.of(message), message.parcels)

    def on_initialised(self, ctx: RebalanceContext, message: Message) -> None:
        """Answer the INIT."""
        to = Address.of(message)
        self.ready.add(to.subtask)
        ctx.note_initialised(to.subtask)
        self.initialised(ctx, to)

    def initialised(self, ctx: RebalanceContext, to: Address) -> None:
        """Say that the subtask is initialised."""
        ctx.acknowledge("init", to.subtask)


RebalanceProtocol.context = RebalanceContext


@dataclass(frozen=True)
class RebalanceRequest(Request):
    """Somebody wants the dataflow to be elsewhere."""

    hosts: Mapping[int, int]  # by partition: each subtask goes to the host of its first
    start_ns: Mapping[int, int]  # by partition
    command_ns: int
    resend_ns: int
    gate_ns: int | None
    timeout_ns: int | None
    in_place: bool


class Rebalances(PlanKind[RebalanceRequest]):
    """Restarts whole dataflows.

    Until tasks are killed a run that loses a host is called off: sources go on, and so does every task with what it has
    held or captured. After that it goes on: partitions of hosts that die come back as after any crash, and INIT goes to
    whoever has them (`docs/decisions/0018-crashes-in-a-rebalance.md`).
    """

    def __init__(
        self, state: RunState, coordinator: RunCoordinator, protocols: Mapping[str, type[RebalanceProtocol]]
    ) -> None:
        self.state, self.cluster, self.coordinator = state, state.cluster, coordinator
        self.protocols = dict(protocols)
        self.runs: list[RebalanceRun] = []
        self._postponed: list[RebalanceRequest] = []

    def request(
        self,
        protocol: str,
        hosts: Mapping[int, int],
        start_ns: Mapping[int, int],
        command_ns: int = 0,
        resend_ns: int = 1_000_000_000,
        gate_ns: int | None = 1_000_000_000,
        timeout_ns: int | None = 60_000_000_000,
        in_place: bool = True,
    ) -> None:
        """Restart all subtasks, each on a host by its first partition, as soon as earlier runs are over.

        One that is not named stays on its host, and starts at once. Nothing happens where all are on their hosts
        already, unless they are to be restarted `in_place`. Raises ValueError for an unknown protocol, and
        where no host may fail: then the ids are not kept that parcels need.
        """
        if protocol not in self.protocols:
            raise ValueError(f"{protocol} is no protocol for whole dataflows")
        if not self.state.plan.may_fail:
            raise ValueError("the run keeps no ids: no host may fail in it")
        territory, now = _whole(len(self.state.plan.operators)), self.state.clock.now_ns()
        times = command_ns, resend_ns, gate_ns, timeout_ns, in_place
        request = RebalanceRequest(territory, protocol, now, "event", dict(hosts), dict(start_ns), *times)
        if self.coordinator.open:
            self._postpone(request, "another rebalance, or a move, is not over")
        self.coordinator.request(self, request)

    def waits(self, request: RebalanceRequest) -> bool:
        """Return whether a partition is known to be down."""
        if all(map(self.state.view.partition_live, self.cluster.down_owners)):
            return False
        self._postpone(request, "a partition is down")
        return True

    def _postpone(self, request: RebalanceRequest, why: str) -> None:
        """Write down, once, that a request waits."""
        if request not in self._postponed:
            self._postponed.append(request)
            self.state.decide(Action.POSTPONE, f"the rebalance by {request.protocol}", why)

    def begin(self, request: RebalanceRequest) -> RebalanceRun | None:
        """Return the run, over all subtasks that there are, as far as control knows; None where it is refused."""
        cluster, plan = self.cluster, self.state.plan
        why = self._against()
        if why:
            self.state.decide(Action.REBALANCE, request.protocol, why, verdict=Verdict.REFUSED)
            return None
        subtasks = self._subtasks()
        operator_of = {one: cluster.partition_operator[one] for one in subtasks}
        sources = tuple(one for one, its in operator_of.items() if plan.operators[its].is_source)
        staying = layout.staying(plan.scenario)
        killed = [one for one in subtasks if plan.operators[operator_of[one]].name not in staying]
        hosts = {one: request.hosts.get(one, cluster.host_of(one)) for one in killed}
        if not request.in_place and all(cluster.host_of(one) == host for one, host in hosts.items()):
            why = "every task is there already"
            self.state.decide(Action.REBALANCE, request.protocol, why, verdict=Verdict.REFUSED)
            return None
        why = f"{len(killed)} tasks are to be killed"
        self.state.decide(Action.REBALANCE, request.protocol, why)
        flow = plan.dataflow
        made = Rebalance(
            operators=len(plan.operators),
            tasks_at_begin=tuple(cluster.partition_task[one] for one in subtasks),
            sources=sources,
            hosts=hosts,
            partitions={one: subtasks[one] for one in killed},
            above={one: sum(flow.has_edge(up, operator_of[one]) for up in operator_of.values()) for one in killed},
            below={
                operator: tuple(one for one in killed if flow.has_edge(operator, operator_of[one]))
                for operator in range(len(plan.operators))
            },
            start_ns={one: request.start_ns.get(one, 0) for one in killed},
            command_ns=request.command_ns,
            resend_ns=request.resend_ns,
            gate_ns=request.gate_ns,
            timeout_ns=request.timeout_ns,
        )
        run = RebalanceRun(request.protocol, self.protocols[request.protocol], made, self, request.requested_ns)
        self.runs.append(run)
        return run

    def _against(self) -> str:
        """Return why the dataflow cannot be rebalanced, or nothing."""
        if self.state.plan.scenario.has_replicas:
            return "it has active replicas, which take over on their own"
        if any(operator.description.threads > 1 for operator in self.state.plan.operators):
            return "a task has several threads: its state would lack tuples that others still serve"
        return ""

    def _subtasks(self) -> dict[int, tuple[int, ...]]:
        """Return the partitions of each subtask, by the first of them."""
        found: dict[int, list[int]] = {}
        for partition, task in enumerate(self.cluster.partition_task):
            if not self.cluster.retired(partition):
                found.setdefault(task, []).append(partition)
        return {here[0]: tuple(here) for here in found.values()}

    def rows(self) -> list[tuple[object, ...]]:
        """Return the rows of the table `rebalances`, in the order in which they began."""
        return [self._row(number, run) for number, run in enumerate(self.runs)]

    def _row(self, number: int, run: RebalanceRun) -> tuple[object, ...]:
        marks = run.marks if run.initialised >= run.plan.hosts.keys() else {**run.marks, "last_init": NEVER}
        outcome = "done" if run.completed_ns is not None else "called off" if run.over else "open"
        instants = (marks.get(name, NEVER) for name in _MARKS)
        counts = len(run.plan.hosts), run.captured
        return number, run.name, run.requested_ns, *instants, *counts, outcome

    def started(self, run: RebalanceRun) -> None:
        """Mark the begin."""
        run.marks["begun"] = self.state.clock.now_ns()

    def ended(self, run: RebalanceRun) -> None:
        """Mark the end; nothing is left to do."""
        run.marks["over"] = self.state.clock.now_ns()

    def lost(self, run: RebalanceRun, operators: set[int]) -> None:
        """Note the crash: partitions that come back from now on send what they keep, which others may have lost."""
        run.crashed = True

    def takes_back(self, run: RebalanceRun, partitions: Collection[int]) -> set[int]:
        """Start subtasks again that were killed and not initialised yet: their states are in the state store."""
        restarts, at, taken = self.coordinator.runtime.restarts, self.cluster.partition_task, set[int]()
        if Phase.KILLED not in run.facts:
            return taken
        for subtask in sorted(run.plan.partitions.keys() - run.initialised):
            # Partitions of a subtask share their task until it is initialised: they are lost together.
            lost = [one for one in run.plan.partitions[subtask] if one in partitions]
            restart = restart_of(run, self.state.clock, at[subtask], run.plan.hosts[subtask], 0)
            if lost and restarts.start_elsewhere(restart, lost):
                taken.update(lost)
        return taken

    def can_be_cancelled(self, run: RebalanceRun) -> bool:
        """Return whether its tasks still are where they were."""
        return Phase.KILLED not in run.facts

    def cancelled(self, run: RebalanceRun) -> None:
        """Have everybody who lives go on from where it is."""
        plane, alive = self.state.plane, self.cluster.task_alive
        self.ended(run)
        self.state.decide(Action.REBALANCE, run.name, run.reason, verdict=Verdict.REFUSED)
        for task in run.plan.tasks_at_begin:
            if not alive[task]:
                continue
            # Rules end first: tuples that are put would be held once more.
            plane.unhold(task, None)
            if task in run.captured_at:
                plane.put(run.captured_at[task], task)
            plane.unpause(task)
