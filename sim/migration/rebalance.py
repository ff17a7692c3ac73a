"""Whole dataflows that are killed and come back on other hosts: plan, verbs, and the effect of a crash.

What is killed and comes back are subtasks (`sim.migration.waves`). Sources are subtasks that stay where they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar

from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.topology import layout
from sim.clock import Clock
from sim.control.cluster import NOWHERE
from sim.control.run_state import RunState
from sim.migration.coordinator import RunCoordinator
from sim.migration.protocol import (
    WHOLE,
    Context,
    Message,
    PlanKind,
    Protocol,
    ProtocolRun,
    Request,
    Restart,
    Territory,
)
from sim.migration.waves import COMMIT, INIT, PREPARE, Address, Flow, Wave, WaveContext, WavePlan, WaveProtocol, work_ns
from sim.plane_values import Parcel


class Phase(Enum):
    """Facts of a rebalance, in their order."""

    KILLED = "killed"  # from here on it cannot be called off
    RESUMED = "resumed"  # all subtasks are initialised, and the sources go on


@dataclass(frozen=True)
class Rebalance(WavePlan):
    """Subtasks that are killed, and where they go.

    The time-out is also that after which a run that has not killed anything is called off.
    """

    operators: int
    tasks_at_begin: tuple[int, ...]  # of sources and subtasks
    hosts: Mapping[int, int]  # subtask that is killed -> host
    left: frozenset[int]  # hosts that have no task afterwards
    joined: frozenset[int]  # hosts that have none before
    start_ns: Mapping[int, int]  # subtask -> time from the kill until its successor is there
    command_ns: int  # between the last answer to COMMIT and the kill
    resend_ns: int  # between two INITs
    gate_ns: int | None  # between two looks of a started task whether all that it sends to are there; None: no gate
    wait_ns: int | None = None  # before the command, for which sources are paused; None: they are not

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


PAUSE, RESUME = "pause", "resume"  # waves to which sources answer, and no other subtask
_MARKS = ("begun", "paused", "prepared", "committed", "commanded", "up", "first_init", "last_init", "resumed", "over")
_MARK_OF = {PAUSE: "paused", PREPARE: "prepared", COMMIT: "committed", RESUME: "resumed"}


@dataclass
class RebalanceRun(ProtocolRun[Rebalance]):
    """One execution of a protocol for whole dataflows."""

    kind: Rebalances
    marks: dict[str, int] = field(default_factory=dict)
    """When what happened [ns]; names that are not there did not happen. In the order of a whole run: begun; paused,
    prepared, committed (the last of all who take part); commanded (tasks are killed); first_init; up (the last task has
    started, not counting its gate); last_init; resumed (the last source); over."""
    captured: int = 0  # tuples
    captured_at: dict[int, int] = field(default_factory=dict)  # task -> parcel with what it has captured
    initialised: set[int] = field(default_factory=set)  # subtasks that have gone on
    crashed: bool = False  # a host died; what it lost may have to be sent again
    reason: str = "a host died before tasks were killed"  # for which it is called off
    _done: dict[str, set[int]] = field(default_factory=dict)  # kind of wave -> subtasks that are done with it

    @property
    def saves(self) -> bool:
        """Return whether it has the states of what it kills."""
        assert issubclass(self.protocol, RebalanceProtocol)
        return self.protocol.saves

    def note_answer(self, kind: str, subtask: int, now_ns: int) -> None:
        """Note that a subtask is done with a wave; the last of them marks its end."""
        done, mark = self._done.setdefault(kind, set()), _MARK_OF.get(kind)
        done.add(subtask)
        if mark is not None and done.issuperset(who_answers(self.plan, kind)):
            self.marks.setdefault(mark, now_ns)


def who_answers(plan: Rebalance, kind: str) -> Collection[int]:
    """Return the subtasks that answer to a wave."""
    return plan.flow.sources if kind in (PAUSE, RESUME) else plan.hosts.keys()


def restart_of(run: RebalanceRun, clock: Clock, task: int, host: int, start_ns: int) -> Restart:
    """Return how a task of the run is killed and started again."""

    def started(new: int) -> None:
        run.marks.update(up=clock.now_ns())
        run.kind.began(run, new)

    return Restart(task, host, start_ns, run.plan.gate_ns, started, crashed=lambda: run.crashed)


class RebalanceContext(WaveContext):
    """The verbs of one task, or of the coordinator, in a rebalance."""

    _run: RebalanceRun

    def acknowledge(self, wave: Wave, subtask: int) -> None:
        """Tell the coordinator that a subtask is done with a wave."""
        self._run.note_answer(wave.kind, subtask, self._state.clock.now_ns())
        super().acknowledge(wave, subtask)

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
            self._runtime.relocation.restart(restart if gated else replace(restart, gate_ns=None))

    def _sends_again(self) -> bool:
        """Return whether a host has died since: its partitions may lack what was sent."""
        return self._run.crashed

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
    """A protocol that kills a whole dataflow."""

    complete: ClassVar[frozenset[Enum]] = frozenset(Phase)
    saves: ClassVar[bool]
    """Whether a run saves what it kills; else periodic waves do, and bring it back."""

    def on_pause(self, ctx: RebalanceContext, message: Message) -> None:
        """Emit nothing any more: at a source."""
        ctx.pause()
        ctx.acknowledge(Wave(PAUSE), Address.of(message).subtask)

    def on_resume(self, ctx: RebalanceContext, message: Message) -> None:
        """Emit what has waited, and go on: at a source."""
        ctx.resume()
        ctx.acknowledge(Wave(RESUME), Address.of(message).subtask)


RebalanceProtocol.context = RebalanceContext


class SavingProtocol(WaveProtocol[Rebalance], RebalanceProtocol):
    """The parts that DCR and CCR share: sources pause, PREPARE, COMMIT, restart, INIT, sources go on."""

    context: ClassVar[type[Context]] = RebalanceContext
    saves: ClassVar[bool] = True

    def __init__(self, plan: Rebalance) -> None:
        super().__init__(plan)
        self.round = 0  # of INITs; at the coordinator

    def start(self, ctx: RebalanceContext) -> None:
        """Pause the sources."""
        if self.plan.timeout_ns is not None:
            ctx.timer(self.plan.timeout_ns, "too_late")
        for source in self.plan.flow.sources:
            ctx.send_to(source, PAUSE)

    # at the coordinator: each wave begins when all have acknowledged the one before

    def who_answers(self, wave: Wave) -> Collection[int]:
        """Return the subtasks that answer to a wave."""
        return who_answers(self.plan, wave.kind)

    @abstractmethod
    def after_pause(self, ctx: RebalanceContext) -> None:
        """Send PREPARE."""

    def after_prepare(self, ctx: RebalanceContext) -> None:
        """Send COMMIT along the dataflow: it is the last item in every channel."""
        self.send_along(ctx, Wave(COMMIT))

    def after_commit(self, ctx: RebalanceContext) -> None:
        """Issue the command; the tasks are killed when it ends."""
        ctx.timer(self.plan.command_ns, "commanded")

    def on_commanded(self, ctx: RebalanceContext, message: Message) -> None:
        """Kill and start all subtasks, then send INIT."""
        ctx.done(Phase.KILLED)
        ctx.restart_all()
        self.on_again(ctx, message)

    def on_too_late(self, ctx: RebalanceContext, message: Message) -> None:
        """Give up before the kill, if somebody, such as the store, does not answer."""
        # Once all have answered to COMMIT only the command is awaited, which takes as long as it takes.
        if self.plan.hosts.keys() - self.answered(Wave(COMMIT)):
            ctx.call_off("not all have answered in time")

    def on_again(self, ctx: RebalanceContext, message: Message) -> None:
        """Send to those that have not answered, until all have: they may not be there yet, or their host has died."""
        late = self.plan.hosts.keys() - self.answered(Wave(INIT))
        if late:
            self.round += 1
            self.send_init(ctx, Wave(INIT, self.round), sorted(late))
        else:
            for source in sorted({*self.plan.flow.sources} - self.answered(Wave(RESUME))):
                ctx.send_to(source, RESUME)
        ctx.timer(self.plan.resend_ns, "again")

    @abstractmethod
    def send_init(self, ctx: RebalanceContext, wave: Wave, late: list[int]) -> None:
        """Send INIT to these subtasks."""

    def after_init(self, ctx: RebalanceContext) -> None:
        """Have the sources go on; what they had to emit meanwhile comes at once."""
        for source in self.plan.flow.sources:
            ctx.send_to(source, RESUME)

    def after_resume(self, ctx: RebalanceContext) -> None:
        """End the run. Not before: messages of a run that is over reach nobody."""
        ctx.done(Phase.RESUMED)

    # at a subtask

    def answer_to(self, kind: str, to: Address) -> Wave:
        """Return the wave that an answer is for: an INIT that is sent again is the same one."""
        return Wave(kind)


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
    wait_ns: int | None


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
        self.wave_is_open: Callable[[], bool] = lambda: False  # a periodic one

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
        wait_ns: int | None = None,
    ) -> None:
        """Restart all subtasks, each on a host by its first partition, as soon as earlier runs are over.

        One that is not named stays on its host, and starts at once. Nothing happens where all are on their hosts
        already, unless they are to be restarted `in_place`. Raises ValueError for an unknown protocol, where no
        host may fail (then the ids are not kept that parcels need), and where nobody would bring the states back.
        """
        if protocol not in self.protocols:
            raise ValueError(f"{protocol} is no protocol for whole dataflows")
        self.state.plan.check_ids()
        if self._begins_empty(protocol) and not self.state.plan.scenario.workers.together:
            raise ValueError("the run has no periodic waves, which bring states back")
        territory, now = _whole(len(self.state.plan.operators)), self.state.clock.now_ns()
        times = command_ns, resend_ns, gate_ns, timeout_ns, in_place, wait_ns
        request = RebalanceRequest(territory, protocol, now, "event", dict(hosts), dict(start_ns), *times)
        if self.coordinator.open:
            self._postpone(request, "another rebalance, or a move, is not over")
        self.coordinator.request(self, request)

    def _begins_empty(self, protocol: str) -> bool:
        """Return whether nobody brings back the states of what the protocol kills."""
        return not self.protocols[protocol].saves and self.state.plan.scenario.waves.interval_s is None

    def began(self, run: RebalanceRun, task: int) -> None:
        """Have a task that has started go on at once with empty states, where nobody brings any back."""
        if self._begins_empty(run.name):
            subtask = self.cluster.partitions_at(task)[0]
            self.coordinator.runtime.relocation.bring_back(task, (), None, resend=False)
            self.initialised(subtask, task)

    def holds_back_waves(self) -> bool:
        """Return whether a run that sends its own waves is under way."""
        return any(isinstance(run, RebalanceRun) and run.saves for run in self.coordinator.open.values())

    def waits(self, request: RebalanceRequest) -> bool:
        """Return whether a partition is known to be down, or a periodic wave would meet those of the run."""
        if self.protocols[request.protocol].saves and self.wave_is_open():
            self._postpone(request, "a periodic wave is under way")
            return True
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
        staying = layout.staying(plan.scenario)
        fixed = [one for one, its in enumerate(plan.operators) if its.name in staying and not its.is_source]
        flow = Flow.of(cluster, without=fixed)
        hosts = {one: request.hosts.get(one, cluster.host_of(one)) for one in flow.partitions}
        if not request.in_place and all(cluster.host_of(one) == host for one, host in hosts.items()):
            why = "every task is there already"
            self.state.decide(Action.REBALANCE, request.protocol, why, verdict=Verdict.REFUSED)
            return None
        why = f"{len(hosts)} tasks are to be killed"
        self.state.decide(Action.REBALANCE, request.protocol, why)
        tasks = tuple(dict.fromkeys(at for at in cluster.partition_task if at != NOWHERE))
        before = Counter(cluster.task_host[task] for task in tasks)
        stay = before - Counter(map(cluster.host_of, hosts))  # other tasks
        made = Rebalance(
            flow=flow,
            work_ns=work_ns(plan.scenario.waves),
            timeout_ns=request.timeout_ns,
            operators=len(plan.operators),
            tasks_at_begin=tasks,
            hosts=hosts,
            left=frozenset(before.keys() - stay.keys() - set(hosts.values())),
            joined=frozenset(set(hosts.values()) - before.keys()),
            start_ns={one: request.start_ns.get(one, 0) for one in hosts},
            command_ns=request.command_ns,
            resend_ns=request.resend_ns,
            gate_ns=request.gate_ns,
            wait_ns=request.wait_ns,
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

    def initialised(self, subtask: int, task: int) -> None:
        """Tell the runs that wait for periodic waves that one has brought a subtask back."""
        runtime = self.coordinator.runtime
        for run in self.coordinator.open.values():
            if isinstance(run, RebalanceRun) and not run.saves and Phase.KILLED in run.facts:
                context = RebalanceContext(runtime, run, task)
                context.note_initialised(subtask)
                context.acknowledge(Wave(INIT), subtask)

    def lost(self, run: RebalanceRun, operators: set[int]) -> None:
        """Note the crash: partitions that come back from now on send what they keep, which others may have lost."""
        run.crashed = True

    def takes_back(self, run: RebalanceRun, partitions: Collection[int]) -> set[int]:
        """Start subtasks again that were killed and not initialised yet: their states are in the state store."""
        relocation, at, taken = self.coordinator.runtime.relocation, self.cluster.partition_task, set[int]()
        if Phase.KILLED not in run.facts or not run.saves:
            return taken
        for subtask in sorted(run.plan.flow.partitions.keys() - run.initialised):
            # Partitions of a subtask share their task until it is initialised: they are lost together.
            lost = [one for one in run.plan.flow.partitions[subtask] if one in partitions]
            restart = restart_of(run, self.state.clock, at[subtask], run.plan.hosts[subtask], 0)
            if lost and relocation.start_elsewhere(restart, lost):
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
