"""The plan of an operator whose key groups change their tasks in steps, and the verbs of `protocols/megaphone.py`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from models import display
from models.planning.reconfiguration import Step, steps_of
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.scenario.events import Reconfigure
from models.units import to_ns
from sim.clock import Process
from sim.control.memory import Memory
from sim.control.placing import senders_to
from sim.control.run_state import RunState
from sim.migration.coordinator import RunCoordinator
from sim.migration.protocol import WHOLE, Context, Message, Plan, PlanKind, Protocol, ProtocolRun, Request, Territory
from sim.plane_values import Parcel

_NS = 1_000_000_000


class Reconfigured(Enum):
    """The fact of a reconfiguration."""

    INSTALLED = "installed"  # all key groups are live at their new tasks


@dataclass(frozen=True)
class Carry:
    """The key groups that go from one task to another in one step: their states travel together."""

    partitions: tuple[int, ...]
    source: int
    target: int


@dataclass(frozen=True)
class Reconfiguration(Plan):
    """Key groups of an operator go from task to task in steps, of which one begins when that before is over.

    `members` are all tasks of the operator, `senders` those that send to it. No step begins before its time in
    `not_before_ns` (steps,). With `drain` the queues of the members have been empty before the next step begins. The
    time of the next step lies when it may begin (`now`), or when the one before began (`lag`). Updates of the
    configuration come `late_ns` after their time.
    """

    operator: int
    steps: tuple[tuple[Carry, ...], ...]
    members: tuple[int, ...]
    senders: tuple[int, ...]
    scope: Literal["operator", "bin"]
    not_before_ns: tuple[int, ...]
    copies: tuple[float, float]
    """Copies of a state that its old and its new task hold until the step is over."""
    gap_ns: int = 0
    drain: bool = False
    next: Literal["now", "lag"] = "now"
    late_ns: int = 0
    restart_ns: int = 0
    """Time for which the tasks are down, where the whole job stops."""
    stops: tuple[int, ...] = ()
    """Operators that stop besides."""

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return all tasks that are asked for something."""
        return *self.members, *self.senders

    @property
    def territory(self) -> Territory:
        """Return the operator, and those that stop."""
        return tuple((one, WHOLE) for one in dict.fromkeys((self.operator, *self.stops)))

    def announced(self, step: int) -> bool:
        """Return whether the time of a step lies where the one before begins.

        A key group has one next task at a time: a step with one that the step before moves, too, waits for its end.
        """
        if self.next == "now" or not 0 < step < len(self.steps):
            return False
        own, before = ({one for carry in self.steps[k] for one in carry.partitions} for k in (step, step - 1))
        return own.isdisjoint(before)

    def concerned(self, step: int) -> tuple[int, ...]:
        """Return the tasks that hear when the time of a step has passed."""
        if self.scope == "operator":
            return self.members
        return tuple(sorted({carry.source for carry in self.steps[step]}))


class ReconfigurationProtocol(Protocol[Reconfiguration]):
    """A protocol that moves key groups of one operator in steps."""

    complete: ClassVar[frozenset[Enum]] = frozenset(Reconfigured)

    @abstractmethod
    def start(self, ctx: Any) -> None:
        """Begin, at the coordinator."""


@dataclass
class StepTimes:
    """What happened in a step: instants [ns], NEVER where one did not come, and bytes of states."""

    from_ns: int = NEVER
    passed_ns: int = NEVER
    installed_ns: int = NEVER
    bytes: int = 0
    groups: int = 0  # that are installed


@dataclass
class ReconfigurationRun(ProtocolRun[Reconfiguration]):
    """One reconfiguration; `times` has an entry for each step.

    `owners` (n_groups,) are the tasks of the key groups when the step that has begun is over: what configures it.
    """

    memory: Memory = field(kw_only=True)
    strategy: str = ""
    owners: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    times: list[StepTimes] = field(default_factory=list)


@dataclass(frozen=True)
class ReconfigurationRequest(Request):
    """An event of the scenario wants key groups to change their tasks."""

    event: str
    operator: int


class ReconfigurationContext(Context):
    """The verbs of one task in a reconfiguration."""

    _run: ReconfigurationRun

    def configure(self, step: int) -> int:
        """Return the time from which the new tasks have the key groups of a step [ns], and note it.

        It is after what control sends now has come: so who sends knows of it before anything is born that it is for.
        """
        run, first = self._run, self._state.plan.first_partition[self._run.plan.operator]
        if not step:
            run.owners = np.array(self._cluster.partition_task[first : first + run.owners.size])
        # From those of the step before, not of the cluster: key groups of it may still be on their way.
        run.owners = run.owners.copy()
        for carry in run.plan.steps[step]:
            run.owners[np.array(carry.partitions) - first] = carry.target
        now_ns = self._state.clock.now_ns()
        from_ns = max(now_ns + self._state.plan.latency_ns + 1, run.plan.not_before_ns[step])
        run.times[step].from_ns = from_ns
        return from_ns

    def when_passed(self, step: int, kind: str, then: str) -> None:
        """Send messages when the operator has nothing older any more than the time of a step, a latency after that.

        The first `kind` goes to the tasks concerned, the other one, `then`, to itself. All steps before are over.
        """
        run, runtime, clock = self._run, self._runtime, self._state.clock

        def told() -> None:
            run.times[step].passed_ns = clock.now_ns() - self._state.plan.latency_ns
            for task in run.plan.concerned(step):
                runtime.deliver(Message(run.number, kind, self.me, task, step))
            runtime.deliver(Message(run.number, then, self.me, self.me, step))

        runtime.when_passed(run.plan.operator, run.times[step].from_ns, told)

    def when_heard(self, kind: str, note: object) -> None:
        """Send itself a message when all have what it has sent to them until now."""
        self.timer(self._state.plan.latency_ns + 1, kind, note)

    def broadcast(self, tasks: Iterable[int], kind: str, note: object) -> None:
        """Send a message to each of these tasks that takes the latency alone, as all that is said of frontiers."""
        self._runtime.tell_each([Message(self._run.number, kind, self.me, task, note) for task in tasks])

    def place(self, from_ns: int) -> None:
        """Send what is born from that time on for the key groups of the step to their new tasks."""
        self._plane.place(self._run.plan.operator, (self.me,), self._run.owners, from_ns)

    def give(self, step: int, kind: str) -> None:
        """Take the states that leave out of the task, write each parcel, and send it; the note says which of the step.

        A task is one thread: it writes one parcel after the other, and serves nothing meanwhile.
        """
        rate = self._operator.serialise_bytes_per_s
        for number, carry in enumerate(self._run.plan.steps[step]):
            if carry.source == self.me:
                parcel = self._taken(step, carry)
                message = Message(self._run.number, kind, self.me, carry.target, (step, number), (parcel,))
                self._occupy(rate, parcel.bytes, partial(self._runtime.send, message, turn=False))

    def _taken(self, step: int, carry: Carry) -> Parcel:
        """Take the states of these key groups out of the task."""
        parcel = self._plane.take(carry.partitions)
        for partition in carry.partitions:
            self._cluster.set_live(partition, False)
        self._run.times[step].bytes += parcel.bytes
        self._run.memory.leaves(self.me, parcel.bytes, self._run.plan.copies[0])
        return parcel

    def read(self, parcel: Parcel, kind: str, note: object) -> None:
        """Read the states of a parcel, and send itself a message when that is done."""
        self._run.memory.comes(self.me, parcel.bytes, self._run.plan.copies[1])
        message = Message(self._run.number, kind, self.me, self.me, note, (parcel,))
        rate = self._operator.deserialise_bytes_per_s
        self._occupy(rate, parcel.bytes, lambda: self._runtime.deliver(message))

    def install(self, parcel: Parcel, step: int) -> None:
        """Let the key groups in a parcel be live at this task, which processes what has waited for them."""
        for partition in parcel.partitions:
            self._cluster.partition_task[partition] = self.me
            self._cluster.set_live(partition, True)
        self._plane.put(parcel.number, self.me)
        run, did, carries = self._run, self._run.times[step], self._run.plan.steps[step]
        did.installed_ns = self._state.clock.now_ns()
        did.groups += len(parcel.partitions)
        run.memory.installed(self.me, parcel.bytes)
        if did.groups == sum(len(carry.partitions) for carry in carries):
            run.memory.forgotten(sorted({task for carry in carries for task in (carry.source, carry.target)}))

    def line_up(self, kind: str, note: object) -> None:
        """Send itself a message that comes when all that has come to the task was served.

        A task that scans all the time always has something in front: a scan, and what came meanwhile. While it has
        more than that, each message waits for a shorter time than the one before it.
        """
        message = Message(self._run.number, kind, self.me, self.me, note)
        self._runtime.line_up(message, while_shorter=self._operator.scan_s is not None)

    @property
    def _operator(self) -> Any:
        return self._state.plan.operators[self._run.plan.operator].description

    def _occupy(self, bytes_per_s: float | None, size: int, then: Callable[[], None]) -> None:
        """Occupy the task for as long as so many bytes take at a speed; then go on."""
        if bytes_per_s is None or not size or self._operator.service is None:
            then()
        else:
            self._state.work(self.me, max(1, round(size * _NS / bytes_per_s)), then)


class Reconfigurations(PlanKind[ReconfigurationRequest]):
    """Begins the reconfigurations of a scenario, one after the other where they meet. Nobody fails meanwhile."""

    def __init__(
        self,
        state: RunState,
        coordinator: RunCoordinator,
        protocols: Mapping[str, type[ReconfigurationProtocol]],
        memory: Memory,
    ) -> None:
        self.state, self.coordinator, self.protocols, self.memory = state, coordinator, protocols, memory
        self.runs: list[ReconfigurationRun] = []

    def start(self) -> None:
        """Start the events of the scenario."""
        for name, event in self.state.plan.scenario.events.items():
            if isinstance(event, Reconfigure) and not event.moves_each:
                self.state.clock.process(self._event(name, event))

    def _event(self, name: str, event: Reconfigure) -> Process:
        yield self.state.clock.sleep(self.state.plan.instant_ns(name))
        operator = next(one.index for one in self.state.plan.operators if one.name == event.operator)
        territory = tuple((one, WHOLE) for one in dict.fromkeys((operator, *self._stops(event))))
        now = self.state.clock.now_ns()
        request = ReconfigurationRequest(territory, event.protocol, now, "event", name, operator)
        self.coordinator.request(self, request)
        if any(waiting is request for _, waiting in self.coordinator.waiting):
            subject = f"the reconfiguration of {event.operator} ({name})"
            self.state.decide(Action.POSTPONE, subject, "one that meets it is not over")

    def _stops(self, event: Reconfigure) -> tuple[int, ...]:
        """Return the operators that stop for an event besides its own."""
        return tuple(range(len(self.state.plan.operators))) if event.protocol == "stop-and-restart" else ()

    def waits(self, request: ReconfigurationRequest) -> bool:
        """Return False: nobody is ever down."""
        return False

    def begin(self, request: ReconfigurationRequest) -> ReconfigurationRun | None:
        """Return the run, with its steps."""
        plan = self.state.plan
        event, name = plan.scenario.events[request.event], plan.operators[request.operator].name
        assert isinstance(event, Reconfigure)
        steps = steps_of(plan.scenario, request.event, plan.inputs)
        if not steps:
            why = "each key group is at the task where it is to be"
            self.state.decide(Action.RECONFIGURE, name, why, verdict=Verdict.REFUSED)
            return None
        made = self._plan(request.operator, event, steps)
        count = sum(len(step.moves) for step in steps)
        moved, taken = display.count(count, "key group"), display.count(len(steps), "step")
        reason = f"{moved} to other tasks, {event.name_of_strategy}, in {taken}"
        self.state.decide(Action.RECONFIGURE, name, reason)
        run = ReconfigurationRun(
            request.protocol,
            self.protocols[request.protocol],
            made,
            self,
            request.requested_ns,
            memory=self.memory,
            strategy=event.name_of_strategy,
            owners=np.zeros(plan.operators[request.operator].description.groups, np.int64),
            times=[StepTimes() for _ in steps],
        )
        self.runs.append(run)
        return run

    def _plan(self, operator: int, event: Reconfigure, steps: Sequence[Step]) -> Reconfiguration:
        """Return the plan of these steps, with tasks and partitions by their numbers."""
        cluster, first = self.state.cluster, self.state.plan.first_partition[operator]
        members = tuple(task for task, its in enumerate(cluster.task_operator) if its == operator)
        owners = {one.key_group: one.source for step in reversed(steps) for one in step.moves}
        assert all(cluster.partition_task[first + group] == members[task] for group, task in owners.items())
        moves = [
            [(first + one.key_group, members[one.source], members[one.target]) for one in step.moves] for step in steps
        ]
        return Reconfiguration(
            operator=operator,
            steps=tuple(_carries(one, together=event.overlap == "none") for one in moves),
            members=members,
            senders=tuple(sorted(senders_to(cluster, operator))),
            scope=event.scope,
            not_before_ns=tuple(step.not_before_ns for step in steps),
            copies=(event.sent_copies, event.received_copies),
            gap_ns=0 if event.gap_s == "drain" else to_ns(event.gap_s),
            drain=event.gap_s == "drain",
            next=event.next,
            late_ns=to_ns(event.late_s),
            restart_ns=to_ns(event.restart_s),
            stops=self._stops(event),
        )

    def ended(self, run: ReconfigurationRun) -> None:
        """Nothing is left to do."""

    def can_be_cancelled(self, run: ReconfigurationRun) -> bool:
        """Return False: no host fails in such a run."""
        return False

    def cancelled(self, run: ReconfigurationRun) -> None:
        """Raise AssertionError: it cannot be."""
        raise AssertionError("a reconfiguration is not cancelled")

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows of the table `reconfigurations`."""
        for number, run in enumerate(self.runs):
            for step, (carries, one) in enumerate(zip(run.plan.steps, run.times, strict=True)):
                groups = sum(len(carry.partitions) for carry in carries)
                # The last state of a step that has not ended may be still to come; where the job stops, one that stays.
                whole = run.completed_ns is not None or (one.groups == groups and not run.plan.stops)
                installed = one.installed_ns if whole else NEVER
                yield (
                    number,
                    run.plan.operator,
                    run.strategy,
                    run.requested_ns,
                    step,
                    one.from_ns,
                    one.passed_ns,
                    installed,
                    groups,
                    one.bytes,
                )


def _carries(moves: Sequence[tuple[int, int, int]], together: bool) -> tuple[Carry, ...]:
    """Return the moves (partition, source, target) of a step by pair of tasks, in order of their first partition.

    Unless they go `together` each is one of its own, so that states travel while others are written and read.
    """
    if not together:
        return tuple(Carry((partition,), source, target) for partition, source, target in moves)
    pairs: dict[tuple[int, int], list[int]] = {}
    for partition, source, target in moves:
        pairs.setdefault((source, target), []).append(partition)
    return tuple(Carry(tuple(partitions), *pair) for pair, partitions in pairs.items())
