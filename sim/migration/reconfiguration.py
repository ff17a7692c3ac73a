"""The plan of an operator whose key groups change their tasks in steps, and the verbs of `protocols/megaphone.py`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from models.records.tables import NEVER
from sim.control.instances import Outages
from sim.control.memory import Memory
from sim.migration.protocol import WHOLE, Context, Message, Plan, Protocol, ProtocolRun, Territory
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


class TakenOut(NamedTuple):
    """Hold what of a reconfiguration is lost, which is detected now: tasks, and the carries (step, number) that end."""

    tasks: tuple[int, ...]
    carries: tuple[tuple[int, int], ...]


class ReconfigurationProtocol(Protocol[Reconfiguration]):
    """A protocol that moves key groups of one operator in steps."""

    complete: ClassVar[frozenset[Enum]] = frozenset(Reconfigured)
    by_time: ClassVar[bool] = True
    """Whether tuples that were born before the time of a step go to the task where a key group is."""

    @abstractmethod
    def start(self, ctx: Any) -> None:
        """Begin, at the coordinator."""


@dataclass
class StepTimes:
    """Hold what happened in a step: instants [ns], NEVER where one did not come, and bytes of states."""

    from_ns: int = NEVER
    passed_ns: int = NEVER
    installed_ns: int = NEVER
    bytes: int = 0
    groups: int = 0  # that are installed
    lost_groups: int = 0  # that a crash took before they were installed
    lost_bytes: int = 0  # of their states


class Travel(NamedTuple):
    """A parcel that was taken, and is not installed yet."""

    step: int
    number: int  # of the carry in the step
    parcel: Parcel
    has_come: bool = False  # to its new task, which reads it


@dataclass
class ReconfigurationRun(ProtocolRun[Reconfiguration]):
    """One reconfiguration; `times` has an entry for each step.

    `owners` (n_groups,) are the tasks of the key groups when the step that has begun is over: what configures it.
    """

    memory: Memory = field(kw_only=True)
    outages: Outages = field(kw_only=True)
    leaves: Callable[[int], None] = field(kw_only=True)
    """Called with a key group before its state is taken out of its task."""
    cancelled_ns: int = NEVER
    strategy: str = ""
    owners: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    times: list[StepTimes] = field(default_factory=list)
    travelling: dict[int, Travel] = field(default_factory=dict)
    """By number of the parcel."""
    left: set[tuple[int, int]] = field(default_factory=set)
    """The carries, by step and number, whose states have left their task."""
    configured: int = 0
    """Steps whose configuration was issued."""
    known_over: int = 0
    """Steps of which the coordinator has heard that they are over."""
    is_cut_short: bool = False
    """A task that takes part is lost: what is under way ends as far as it can, and no further step is configured."""
    struck: set[tuple[int, int]] = field(default_factory=set)
    """The carries, by step and number, that a crash has ended: of one of their tasks."""

    gone: set[int] = field(default_factory=set)
    """Tasks that take part and are known to be lost."""

    @property
    def steps_installed(self) -> int:
        """Return how many steps are over, with all states at their new tasks."""
        carried = zip(self.plan.steps, self.times, strict=True)
        return sum(one.groups == sum(len(carry.partitions) for carry in carries) for carries, one in carried)

    @property
    def by_time(self) -> bool:
        """Return whether what is older than the time of a step goes to the old tasks."""
        assert issubclass(self.protocol, ReconfigurationProtocol)
        return self.protocol.by_time

    @property
    def at_rest(self) -> bool:
        """Return whether nothing is under way, as far as the coordinator knows."""
        return self.known_over == self.configured

    def under_way(self) -> Iterator[tuple[int, int, Carry]]:
        """Yield (step, number, carry) of what is configured, not struck, and not installed."""
        travel = {(one.step, one.number) for one in self.travelling.values()}
        for step in range(self.known_over, self.configured):
            for number, carry in enumerate(self.plan.steps[step]):
                is_installed = (step, number) in self.left and (step, number) not in travel
                if not is_installed and (step, number) not in self.struck:
                    yield step, number, carry

    def owners_to_be(self, partition_task: Sequence[int], first: int) -> np.ndarray:
        """Return the tasks of the key groups (n_groups,) when all is over that is under way.

        Given are those of all partitions now, and the first partition of the operator.
        """
        owners = np.array(partition_task[first : first + self.owners.size])
        for _, _, carry in self.under_way():
            owners[np.array(carry.partitions) - first] = carry.target
        return owners


class ReconfigurationContext(Context):
    """The verbs of one task in a reconfiguration."""

    _run: ReconfigurationRun

    def configure(self, step: int) -> int:
        """Return the time from which the new tasks have the key groups of a step [ns], and note it.

        It is after what control sends now has come: so who sends knows of it before anything is born that it is for.
        Where tuples do not go by the time of their birth, it is when that comes, as the states may leave at once.
        """
        run, first = self._run, self._state.plan.first_partition[self._run.plan.operator]
        if not step:
            run.owners = np.array(self._cluster.partition_task[first : first + run.owners.size])
        # From those of the step before, not of the cluster: key groups of it may still be on their way.
        run.owners = run.owners.copy()
        for carry in run.plan.steps[step]:
            run.owners[np.array(carry.partitions) - first] = carry.target
        run.configured = step + 1
        now_ns = self._state.clock.now_ns()
        from_ns = max(now_ns + self._state.plan.latency_ns + run.by_time, run.plan.not_before_ns[step])
        run.times[step].from_ns = from_ns
        return from_ns

    def when_passed(self, step: int, kind: str, then: str) -> None:
        """Send messages when the operator has nothing older any more than the time of a step, a latency after that.

        The first `kind` goes to the tasks concerned, the other one, `then`, to itself. All steps before are over.
        """
        run, runtime, clock = self._run, self._runtime, self._state.clock

        def told() -> None:
            if run.over or step < run.known_over:
                return
            run.times[step].passed_ns = clock.now_ns() - self._state.plan.latency_ns
            for task in run.plan.concerned(step):
                runtime.reach(Message(run.number, kind, self.me, task, step))
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
        run = self._run
        owners = run.owners
        if run.is_cut_short:
            owners = run.owners_to_be(self._cluster.partition_task, self._state.plan.first_partition[run.plan.operator])
        self._plane.place(run.plan.operator, (self.me,), owners, from_ns)

    def withhold(self, from_ns: int) -> None:
        """Withhold what is born from that time on for the operator, until `let_out`."""
        self._plane.withhold(self.me, self._run.plan.operator, from_ns)

    def let_out(self) -> None:
        """Send what is withheld, by the configuration that is known by now."""
        self._plane.let_out(self.me, self._run.plan.operator)

    def when_due(self, step: int, kind: str, note: object) -> None:
        """Send itself a message in time for what it sends then to come by so much after the time of a step."""
        run, sent_ns = self._run, self._state.clock.now_ns() + self._state.plan.latency_ns + self._run.by_time
        self.timer(run.times[step].from_ns - sent_ns + run.plan.late_ns, kind, note)

    def give(self, step: int, kind: str) -> None:
        """Take the states that leave out of the task, write each parcel, and send it; the note says which of the step.

        A task is one thread: it writes one parcel after the other, and serves nothing meanwhile.
        """
        rate = self._operator.serialise_bytes_per_s
        for number, carry in enumerate(self._run.plan.steps[step]):
            if carry.source == self.me and (step, number) not in self._run.struck:
                parcel = self._taken(step, number)
                message = Message(self._run.number, kind, self.me, carry.target, (step, number), (parcel,))
                self._occupy(rate, parcel.bytes, partial(self._runtime.send, message, turn=False))

    def _taken(self, step: int, number: int) -> Parcel:
        """Take the states of one carry of a step out of the task."""
        carry = self._run.plan.steps[step][number]
        parcel = self._plane.take(carry.partitions)
        for partition in carry.partitions:
            self._run.leaves(partition)
            self._cluster.take(partition, carry.target)
        self._run.travelling[parcel.number] = Travel(step, number, parcel)
        self._run.left.add((step, number))
        self._run.times[step].bytes += parcel.bytes
        self._run.memory.leaves(self.me, parcel.bytes, self._run.plan.copies[0])
        return parcel

    def read(self, parcel: Parcel, kind: str, note: object) -> None:
        """Read the states of a parcel, and send itself a message when that is done.

        One that comes from a dead task after that was detected has been given up.
        """
        if parcel.number not in self._run.travelling:
            return
        self._run.travelling[parcel.number] = self._run.travelling[parcel.number]._replace(has_come=True)
        self._run.memory.comes(self.me, parcel.bytes, self._run.plan.copies[1])
        message = Message(self._run.number, kind, self.me, self.me, note, (parcel,))
        rate = self._operator.deserialise_bytes_per_s
        self._occupy(rate, parcel.bytes, lambda: self._runtime.deliver(message))

    def install(self, parcel: Parcel, step: int) -> None:
        """Let the key groups in a parcel be live at this task, which processes what has waited for them."""
        for partition in parcel.partitions:
            # It had left its task: that may have died since, and nobody has detected it.
            self._state.view.has_left(partition, self._cluster.host_of(partition))
            self._cluster.partition_task[partition] = self.me
            self._cluster.set_live(partition, True)
        self._run.outages.check(parcel.partitions)
        self._plane.put(parcel.number, self.me)
        del self._run.travelling[parcel.number]
        run, did, carries = self._run, self._run.times[step], self._run.plan.steps[step]
        did.installed_ns = self._state.clock.now_ns()
        did.groups += len(parcel.partitions)
        run.memory.installed(self.me, parcel.bytes)
        if did.groups == sum(len(carry.partitions) for carry in carries):
            for carry in carries:
                place = self._cluster.task_place[carry.target]
                assert place is not None
                self._cluster.moved |= dict.fromkeys(carry.partitions, place)
            run.memory.forgotten(sorted({task for carry in carries for task in (carry.source, carry.target)}))

    @property
    def goes_further(self) -> bool:
        """Return whether further steps are configured: no task that takes part is lost."""
        return not self._run.is_cut_short

    def over(self, step: int) -> bool:
        """Note that a step is over; return whether another one follows.

        The reconfiguration is complete with its last step, if no crash has ended a part of it. Once a task is lost that
        takes part it is cancelled, when all is over that was under way.
        """
        run = self._run
        run.known_over = step + 1
        is_last = run.known_over == len(run.plan.steps)
        if is_last and not run.struck:
            self.done(Reconfigured.INSTALLED)
        elif run.is_cut_short and run.at_rest:
            self._runtime.call_off(run)
        return not (is_last or run.over)

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
