"""The plain data plane and the control plane under a scheduler: anything that needs a clock is left out or a step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Any

from lab.job import Job, keys_of, plan_of
from lab.scheduler import Chooser, Scheduler
from lab.stops import Stops
from models.records.tables import NEVER
from sim.clock import LINK, Process
from sim.control.assembly import Control
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import Listener
from sim.migration.protocol import Message
from sim.plain.channels import Source
from sim.plain.partition import Message as Letter
from sim.plain.plane import PlainPlane
from sim.plain.trimming import HistoryProtocol
from sim.plane_values import CONTROL, NO_HOST

_RECEIVERS = 1 << 32  # more than there are
AFTER_ALL = 10**9  # an event time


class SteppedLink:
    """The link of a host: what is sent leaves in order, each a step; what has not left dies with the host.

    A `fair` one keeps the order only of each channel.
    """

    bytes_per_s = None

    def __init__(self, clock: Scheduler, host: int, stepped: bool, fair: bool) -> None:
        self.clock, self.host, self.stepped, self.fair, self.closed = clock, host, stepped, fair, False

    def send(self, now_ns: int, size: int, ends: Any, number: int, leave: Callable[[int], None], *_: Any) -> None:
        """Send a message; `leave` is called when it has left."""
        if self.stepped and self.fair:
            self.clock.add(("link", self.host, 1 + ends[0] * _RECEIVERS + ends[1]), lambda _: self._leaves(leave))
        elif self.stepped:
            self.clock.at(now_ns, LINK + self.host, lambda _: self._leaves(leave))
        else:
            leave(now_ns)

    def _leaves(self, leave: Callable[[int], None]) -> None:
        if not self.closed:
            leave(self.clock.now_ns())

    def close(self) -> None:
        """Let nothing leave any more: the host died."""
        self.closed = True


class StepSource(Source):
    """A source whose arrivals are steps: it knows them by their count, not by the time."""

    def resume(self) -> None:
        """Emit the arrivals of the time when the task was down."""
        self.catch_up()

    def lag(self, now_ns: int) -> int:
        """Return how many tuples have arrived and are not emitted."""
        return self.arrived - self.emitted

    def promise_ns(self, now_ns: int) -> int:
        """Return its watermark: the creation time of the next tuple that it emits, or a time after all of them.

        The latter grows from one to the next, as time does: who has missed one hears the next.
        """
        if self.emitted < len(self.arrivals_ns):
            return self.arrivals_ns[self.emitted]
        return AFTER_ALL + self.plane.clock.now_ns()


class BornSource(StepSource):
    """A source whose tuples are born at the step with which they arrive, so that their times are those of control."""

    def __init__(self, plane: Any, partition: Any, arrivals_ns: list[int], keys: list[int]) -> None:
        super().__init__(plane, partition, [AFTER_ALL + number for number in arrivals_ns], keys)

    def _arrive(self, index: int) -> None:
        self.arrivals_ns[index] = self.plane.clock.now_ns()
        super()._arrive(index)

    def promise_ns(self, now_ns: int) -> int:
        """Return its watermark: what has not arrived yet is born later than now."""
        later = self.emitted < len(self.arrivals_ns) and self.emitted >= self.arrived
        return self.plane.clock.now_ns() if later else super().promise_ns(now_ns)


class ReadSource(StepSource):
    """A source whose log is read by control: arrivals are steps here, too, and nothing is emitted at them."""

    def __init__(self, *its: Any) -> None:
        super().__init__(*its)
        self.there = 0  # `arrived` are those that it emits without being asked
        self._wait_for(0)

    def _arrive(self, index: int) -> None:
        self.there = index + 1
        self._wait_for(self.there)

    def resume(self) -> None:
        """Do nothing: it emits what is read."""

    def arrived_before(self, instant_ns: int) -> int:
        """Return how many tuples have arrived."""
        return self.there

    def lag(self, now_ns: int) -> int:
        """Return how many tuples have arrived and are not emitted."""
        return self.there - self.emitted


class LabWorld(PlainPlane):
    """The plain plane, whose links and arrivals are steps; checkpoints are taken when asked for."""

    def __init__(
        self,
        plan: RunPlan,
        cluster: Cluster,
        clock: Scheduler,
        listener: Listener,
        job: Job,
        stepped: bool,
        fair: bool,
    ) -> None:
        self.job = job
        self.letters: dict[int, Letter] = {}  # by token, of messages that have left their task
        super().__init__(plan, cluster, clock, listener)
        for host in self.hosts:
            host._new_link = lambda index=host.index: SteppedLink(clock, index, stepped, fair)  # type: ignore[misc]
            host.link = host._new_link()

    def _sources(self, operator: int) -> Iterator[Source]:
        keys_by_task = keys_of(self.job, self.plan.operators[operator].name)
        for partition, keys in zip(self.partitions[operator], keys_by_task, strict=True):
            kind = BornSource if self.job.plans else ReadSource if partition.operator.is_read else StepSource
            yield kind(self, partition, list(range(1, len(keys) + 1)), keys)

    def start_checkpoints(self, *_: Any) -> None:
        """Periodic checkpoints are faults of the schedule."""

    def last_arrival_ns(self, task: int, operators: Collection[int], before: int | None = None) -> int | None:
        """Return that it is yet to come, if a tuple is under way to the task; None if there is none."""
        found = self.tasks[task]
        limit = self._sendings if before is None else before
        under_way = (visit for visit, goal in self.wire.items() if goal is found and visit.number < limit)
        return self.clock.now_ns() + 1 if any(one.origin.operator.index in operators for one in under_way) else None

    def stored(self, partition: int) -> int:
        """Return how many checkpoints of the group were stored."""
        operator, index = self.cluster.partition_operator[partition], self.cluster.partition_index[partition]
        rows = self.recorder.rows["checkpoints"]
        return sum(row[0] == operator and row[1] == index and row[5] != NEVER for row in rows)

    def save(self, partition: int) -> None:
        """Take the periodic checkpoint of a group, if it has no other one under way."""
        owner = self._numbered[partition].owner
        if owner.live and not owner.saving:
            self.saver.take(owner)
            self.tell()

    def send_message(self, message: Letter, task: Any, size_bytes: int) -> None:
        self.letters[message.token] = message
        super().send_message(message, task, size_bytes)


TIMEOUTS = ("again", "unanswered", "timeout", "too_late")
"""Messages of a timer by which waves ask again, as often as time passes, or give up."""


class Laboratory(Control):
    """A job under a scheduler, before the first step.

    Each time-out comes so often as `early` says while an answer may still come; else only when nothing else can come.
    """

    clock: Scheduler
    plane: LabWorld

    def __init__(
        self, job: Job, chooser: Chooser, stepped_links: bool = True, early: int = 0, fair_links: bool = False
    ) -> None:
        self.job, self.early = job, dict.fromkeys(TIMEOUTS, early)
        self.early["too_late"] = early // 2  # else hardly any run with a time-out would come to its INIT
        super().__init__(
            plan_of(job),
            lambda plan, cluster, clock, listener: LabWorld(
                plan, cluster, clock, listener, job, stepped_links, fair_links
            ),
            Scheduler(chooser),
        )
        # When tasks have caught up after an outage is a matter of time, and decides nothing.
        self.recoveries.watch = lambda begun: None  # type: ignore[method-assign]
        if self.plan.scenario.fault_tolerance.replicates_all:
            self.replicas.start()
        self.stops = Stops(self.state, self.coordinator)
        runtime = self.coordinator.runtime
        timer = runtime.timer

        def starts(message: Message, delay_ns: int) -> None:
            if message.kind in TIMEOUTS:
                self._wait(message)
            else:
                timer(message, delay_ns)

        runtime.timer = starts  # type: ignore[method-assign]
        runtime.relocation._gate = self._gate  # type: ignore[attr-defined]

    def _gate(self, task: int, every_ns: int) -> Process:
        """Look at the gate of a started task."""
        alive = self.cluster.task_alive
        there: Callable[[int], bool] = self.coordinator.runtime.relocation._receivers_are_there  # type: ignore[attr-defined]
        while alive[task] and not there(task):
            yield self.clock.when(lambda: not alive[task] or there(task))
        self.plane.unpause(task)

    def be_patient(self) -> None:
        """Let time-outs come only when nothing else can come any more."""
        self.early = dict.fromkeys(TIMEOUTS, 0)

    def _wait(self, message: Message) -> None:
        self.clock.add_timer(lambda _: self._rings(message), late=not self.early[message.kind])

    def _rings(self, message: Message) -> None:
        """Deliver a time-out, or wait once more; a wave that is over needs none."""
        if self._is_over(message):
            return
        if self.clock.lanes:
            if not self.early[message.kind]:
                self._wait(message)
                return
            self.early[message.kind] -= 1
        if message.to == CONTROL or self.cluster.task_alive[message.to]:
            self.coordinator.runtime.deliver(message)

    def _is_over(self, message: Message) -> bool:
        run = self.coordinator.runtime.runs[message.run]
        periodic = run.protocol is self.checkpoint_source.protocol and message.kind == "timeout"
        return run.over or (periodic and message.note != run.at(CONTROL).wave)

    @cached_property
    def groups(self) -> range:
        """The planned partitions with a state: key groups, and whole tasks of operators without keys."""
        operators, first = self.plan.operators, self.plan.first_partition
        sources = sum(operator.is_source for operator in operators)
        sinks = sum(operator.is_sink for operator in operators)
        return range(first[sources], first[len(operators) - sinks])

    @cached_property
    def movable(self) -> list[int]:
        """Those of them that can move."""
        operators, operator_of = self.plan.operators, self.cluster.partition_operator
        return [group for group in self.groups if operators[operator_of[group]].description.movable]

    @property
    def saved_partitions(self) -> range:
        """The planned partitions that take periodic checkpoints: those with a state, and sinks, which acknowledge."""
        return range(self.groups.start, self.plan.first_partition[-1])

    def next_hosts(self) -> dict[int, int]:
        """Return, by partition, the host behind its own."""
        partitions = range(len(self.cluster.partition_task))
        return {one: (self.cluster.host_of(one) + 1) % self.job.hosts for one in partitions}

    def save(self, group: int) -> None:
        """Take the periodic checkpoint of a group, and of its replica; without checkpoints look for what is old."""
        if isinstance(self.plane.trimming, HistoryProtocol):
            self.plane.trimming.round()
            return
        self.plane.save(group)
        replica = self.replicas._standing.get(group)
        if replica is not None:
            host = self.replicas._checkpoint_host(replica)
            if host != NO_HOST:
                self.plane.checkpoint(replica.partition, host)

    def replica_of(self, group: int) -> int | None:
        """Return the replica of the group that is in step, if there is one."""
        return self.replicas.beside(self.cluster.owner_of(group))

    @property
    def moving(self) -> bool:
        """Return whether a run of a protocol is open or waits."""
        return bool(self.coordinator.open or self.coordinator.waiting)
