"""Carries the messages of protocols to the handlers of their runs, and fences what is out of date."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.clock import MESSAGE, Process, channel
from sim.data_plane import CONTROL, REMOTE
from sim.migration.context import COMPLETE, Context, Fact, Message, MigrationRun, Move, Protocol

if TYPE_CHECKING:
    from sim.control.assembly import Control

_NS = 1_000_000_000


class ProtocolRuntime:
    """Carries messages to the handlers of their run, and fences what is out of date.

    What is said to the coordinator takes the latency, and holds no link.
    """

    def __init__(self, control: Control, done: Callable[[MigrationRun, Fact], None]) -> None:
        self.control, self.done = control, done
        self.runs: list[MigrationRun] = []
        self._sent: dict[int, Message] = {}
        self._routes: dict[tuple[int, int], tuple[int, ...]] = {}  # (task, group) -> instances

    def start(self, name: str, protocol: type[Protocol], move: Move, requested_ns: int) -> MigrationRun:
        """A new run, at whose coordinator the protocol begins."""
        run = MigrationRun(len(self.runs), name, protocol, move, requested_ns)
        for before in self.runs:
            if before.move.new == move.old and before.worst_ns is None:
                before.worst_ns = self.worst_ns(before)
        for instance in (move.old, move.new):
            self.control.plane.measure(instance, self.control.clock.now_ns())
        self.runs.append(run)
        run.at(CONTROL).start(Context(self, run, CONTROL))
        return run

    def worst_ns(self, run: MigrationRun) -> int:
        """The longest time of a tuple of the group from its arrival at either instance until it was answered.

        Of those that arrive from the begin of the run on, until after its completion one does not wait.
        """
        if run.worst_ns is not None:
            return run.worst_ns
        return max(self.control.plane.longest_ns(instance) for instance in (run.move.old, run.move.new))

    def fact(self, run: MigrationRun, what: Fact) -> None:
        """Something is true at a task; with the last of the facts the run is complete."""
        run.facts.add(what)
        if run.facts >= COMPLETE and run.completed_ns is None:
            run.completed_ns = self.control.clock.now_ns()
            self.control.plane.measure_until_calm(run.move.new)
        self._later(lambda: self.done(run, what))

    def tell(self, message: Message) -> None:
        """A message to the coordinator, which takes the latency alone."""
        self._later(lambda: self.deliver(message))

    def _later(self, call: Callable[[], None]) -> None:
        """Call when a message to the coordinator has come."""
        self.control.clock.process(self._arrives(call))

    def _arrives(self, call: Callable[[], None]) -> Process:
        clock = self.control.clock
        yield clock.sleep(clock.now_ns() + self.control.plan.latency_ns)
        call()

    def send(self, message: Message, turn: bool) -> None:
        """Hand a message to the data plane."""
        token = self.control.new_token()
        self._sent[token] = message
        self.control.plane.send(message.sender, message.to, token, turn)

    def after_backlog(self, message: Message) -> None:
        """A message of a task to itself, in front of its queue."""
        if self.control.plan.operators[self.control.cluster.task_operator[message.to]].service_ns is None:
            self.deliver(message)  # whatever was in front is done already
        else:
            self.control.work(message.to, 0, lambda: self.deliver(message))

    def timer(self, message: Message, delay_ns: int) -> None:
        """A message of a task, or of the coordinator, to itself after a time."""
        self.control.clock.process(self._rings(message, self.control.clock.now_ns() + delay_ns))

    def _rings(self, message: Message, at_ns: int) -> Process:
        yield self.control.clock.sleep(at_ns)
        if message.to == CONTROL or self.control.cluster.task_alive[message.to]:
            self.deliver(message)

    def load(self, run: MigrationRun, then: Callable[[], None]) -> None:
        """Have the target read the stored checkpoint, which comes from the remote store if it is there; then go on."""
        control, move, plane = self.control, run.move, self.control.plane
        size = plane.checkpoint_bytes(move.old)
        if plane.checkpoint_host(move.old) != REMOTE:
            self._read(run, size, then)
            return
        control.recorder.restore(control.clock.now_ns(), size)
        rank = channel(MESSAGE, move.target, move.target)
        control.clock.at(plane.fetch_ns(size), rank, lambda _: self._read(run, size, then))

    def _read(self, run: MigrationRun, size: int, then: Callable[[], None]) -> None:
        """Occupy the target, unless it is dead or the run is over, for as long as it takes."""
        control, target = self.control, run.move.target
        rate = control.plan.operators[control.cluster.task_operator[target]].description.deserialise_bytes_per_s
        if run.over or not control.cluster.task_alive[target]:
            return
        if rate is None:
            self._loaded(run, then)
        else:
            control.work(target, max(1, round(size * _NS / rate)), lambda: self._loaded(run, then))

    def _loaded(self, run: MigrationRun, then: Callable[[], None]) -> None:
        if not run.over:
            run.loaded = True
            then()

    def heard(self, token: int) -> None:
        """The plane says that a message has come, or its turn."""
        self.deliver(self._sent.pop(token))

    def deliver(self, message: Message) -> None:
        """Call the handler, unless the run is over."""
        run = self.runs[message.run]
        if not run.over:
            getattr(run.at(message.to), f"on_{message.kind}")(Context(self, run, message.to), message)

    def stored(self, partition: int) -> None:
        """Tell the coordinator that an announced checkpoint of the partition is stored, after a latency."""
        for run in self.runs:
            if not run.over and run.move.old == partition:
                self._later(lambda run=run: self._stored(run))  # type: ignore[misc]

    def _stored(self, run: MigrationRun) -> None:
        run.stored = True
        self.deliver(Message(run.number, "stored", CONTROL, CONTROL))

    def route(self, task: int, group: int, instances: tuple[int, ...]) -> None:
        """Outputs of the task for the group go to these instances from now on, or to the owner."""
        self._routes[task, group] = instances
        self.control.plane.route(task, group, instances)

    def unroute(self, group: int) -> None:
        """Outputs for the group go to its owner alone."""
        for task, its in list(self._routes):
            if its == group and self._routes[task, its]:
                self.route(task, group, ())

    def open(self, instance: int) -> None:
        """Mark the instance as live; it goes on from its state.

        What its checkpoint keeps for a key group that has moved since, or has got a replica, it keeps for the new
        instance, too. It sends none of that: the old instance has sent it, and whoever goes on when that dies sends it
        again (`host_died`, `Migrations._call_off`, `Replicas._take_over`).
        """
        cluster, plane = self.control.cluster, self.control.plane
        cluster.partition_live[instance] = True
        self.control.outages.check()
        plane.open(instance)
        plane.release(instance)
        for receiver in plane.receivers(instance):
            group = cluster.group_of(receiver)
            targets = self._routes.get((cluster.partition_task[instance], group)) or (cluster.owner_of(group),)
            for target in targets:
                if target != receiver and not cluster.retired(target):
                    plane.copy_kept(instance, receiver, target)

    def has_event_time(self, group: int) -> bool:
        """Whether watermarks come to the group, or go from it."""
        return self.control.plan.operators[self.control.cluster.partition_operator[group]].timed

    def resend(self, partition: int) -> None:
        """Downstream gets once more what the partition keeps; who has it drops it."""
        cluster, plane = self.control.cluster, self.control.plane
        for receiver in plane.receivers(partition):
            if not cluster.retired(receiver) and self.control.view.task_alive(cluster.partition_task[receiver]):
                plane.replay(partition, receiver)

    def own(self, instance: int) -> None:
        """The instance is the owner of its group."""
        self.control.cluster.own(instance)
        self.control.outages.check()
        self.control.plane.own(instance)

    def retire(self, instance: int) -> None:
        """The instance is over."""
        self.control.cluster.retire(instance)
        self.control.plane.retire(instance)
