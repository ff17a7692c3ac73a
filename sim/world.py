"""The cluster in a run: hosts, tasks, units, and the channels between tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from models import layout
from models.inputs import RunInputs
from models.records import NEVER
from models.scenario import Scenario
from models.units import to_ns
from sim.arrivals import births
from sim.clock import ARRIVAL, MESSAGE, Clock, channel
from sim.host import Host, Link
from sim.operator_plan import OperatorPlan, plan_operators
from sim.recorder import Recorder
from sim.source import Source
from sim.task import Task
from sim.unit import Row, Unit, Visit

if TYPE_CHECKING:
    from sim.recovery import Recovery

REMOTE = -1  # in place of a host index: the remote checkpoint store


class World:
    """Everything that lives in one replication, and the sending of tuples.

    Routing is by unit: `unit.task` is where its tuples are sent. One FIFO channel joins each pair of tasks;
    tuples between hosts hold the sender's link for their bytes, tuples inside a host arrive at once. `wire`
    holds every tuple that is under way, with the task it goes to.
    """

    recovery: Recovery  # set by the engine: it needs a world to work on

    def __init__(self, scenario: Scenario, inputs: RunInputs, replication: int) -> None:
        self.scenario, self.replication = scenario, replication
        self.clock, self.recorder = Clock(), Recorder()
        self.latency_ns = to_ns(scenario.network.latency_s)
        tolerance = scenario.fault_tolerance
        checkpointed = tolerance.method == "checkpoint"
        self.drops_duplicates = checkpointed and tolerance.guarantee == "exactly-once"
        self.replays = checkpointed and tolerance.guarantee != "at-most-once"
        self.remote = Link(tolerance.remote_bytes_per_s, self.latency_ns)
        self.operators = plan_operators(scenario, replication, inputs.shares)
        self.hosts = [
            Host(index, name, group, self.latency_ns)
            for index, (name, group) in enumerate(layout.hosts(scenario).items())
        ]
        self.tasks: list[Task] = []
        self.units = [[Unit(plan, k) for k in range(plan.description.groups)] for plan in self.operators]
        self.wire: dict[Visit, Task] = {}
        self._place(layout.placement(scenario))
        self._plan_holders(inputs)
        self.sources = [source for plan in self.operators if plan.is_source for source in self._sources(plan, inputs)]

    def _place(self, placement: dict[str, str]) -> None:
        by_name = {host.name: host for host in self.hosts}
        for plan in self.operators:
            parallelism = plan.description.parallelism
            placed = [
                self.new_task(plan, by_name[placement[layout.task_name(plan.name, k)]]) for k in range(parallelism)
            ]
            for unit in self.units[plan.index]:
                unit.task = placed[layout.task_of_group(unit.index, parallelism)]
                unit.live = True

    def _plan_holders(self, inputs: RunInputs) -> None:
        by_name = {host.name: host.index for host in self.hosts}
        for plan in self.operators:
            for unit in self.units[plan.index]:
                name = inputs.holders.get((plan.name, unit.index))
                unit.planned_holder = None if name is None else by_name[name]

    def _sources(self, plan: OperatorPlan, inputs: RunInputs) -> Iterator[Source]:
        for unit in self.units[plan.index]:
            times, keys = births(self.scenario, plan.name, unit.index, self.replication, inputs.rates.get(plan.name))
            yield Source(self, unit, times.tolist(), keys.tolist())

    def all_units(self) -> Iterator[Unit]:
        """Every unit, by operator and index."""
        for units in self.units:
            yield from units

    def new_task(self, plan: OperatorPlan, host: Host) -> Task:
        """A task of the operator on that host."""
        task = Task(self, plan, len(self.tasks), host, host.cores_for(plan.description.threads))
        host.tasks.append(task)
        self.tasks.append(task)
        return task

    def task_on(self, plan: OperatorPlan, host: Host) -> Task:
        """The operator's task on that host; a new one where there is none."""
        return next((task for task in host.tasks if task.operator is plan), None) or self.new_task(plan, host)

    # -- tuples

    def emit(self, unit: Unit, tuple_id: int, birth_ns: int, key: int) -> None:
        """An output of `unit`: kept until its receivers have saved it, and sent to them."""
        size = unit.operator.output_bytes
        row = Row(tuple_id, birth_ns, key, size)
        for edge in unit.operator.edges:
            receivers = self.units[edge.down.index]
            for index in edge.targets(tuple_id, key, unit.index):
                receiver = receivers[index]
                sent = row if edge.copy_code is None else row._replace(id=edge.id_for(tuple_id, index))
                if self.replays:
                    unit.keep(receiver, sent)
                self._send(unit, receiver, sent)

    def _send(self, sender: Unit, receiver: Unit, row: Row) -> None:
        origin, task = sender.task, receiver.task
        assert origin is not None and task is not None
        now = self.clock.now_ns()
        if origin.host is task.host:
            arrival, kind = now, "local"
        else:
            arrival, kind = origin.host.link.arrival_ns(now, row.bytes), "data"
        self.recorder.message(now, kind, 1, row.bytes)
        visit = Visit(row, receiver, origin, arrival, replayed=False)
        self.wire[visit] = task
        self.clock.at(arrival, channel(ARRIVAL, task.index, origin.index), lambda _: self._arrive(visit, task))

    def _arrive(self, visit: Visit, task: Task) -> None:
        if self.wire.pop(visit, None) is None:
            return  # its sender died before it had left
        if not task.alive:
            self.drop(visit, task, "crash")
            return
        visit.ticket, visit.arrived = task.host.ticket(), True
        task.arrive(visit)

    def replay(self, sender: Unit, receiver: Unit) -> tuple[int, int]:
        """Send all that `sender` keeps for `receiver` again, as one message; returns (tuples, bytes)."""
        rows = tuple(sender.kept.get(receiver, ()))
        origin, task = sender.task, receiver.task
        assert origin is not None and task is not None
        if not rows:
            return 0, 0
        now, size = self.clock.now_ns(), sum(row.bytes for row in rows)
        local = origin.host is task.host
        arrival = now if local else origin.host.link.arrival_ns(now, size)
        self.recorder.message(now, "replay", 1, size)
        visits = [Visit(row, receiver, origin, arrival, replayed=True) for row in rows]
        self.wire.update(dict.fromkeys(visits, task))
        rank = channel(MESSAGE, task.index, origin.index)
        self.clock.at(arrival, rank, lambda _: self._replay_arrives(visits, task))
        return len(rows), size

    def _replay_arrives(self, visits: list[Visit], task: Task) -> None:
        arrived = [visit for visit in visits if self.wire.pop(visit, None) is not None]
        if not task.alive:
            for visit in arrived:
                self.drop(visit, task, "crash")
            return
        for visit in arrived:
            visit.ticket, visit.arrived = task.host.ticket(), True
        task.put_in_front(arrived)

    def cut_links(self, dead: Host) -> None:
        """What a dead host had not sent yet is gone."""
        for visit, task in list(self.wire.items()):
            if visit.origin.host is dead and visit.origin.died_by(visit.arrival_ns - self.latency_ns):
                del self.wire[visit]
                self.drop(visit, task, "crash")

    def drop(self, visit: Visit, task: Task, reason: str) -> None:
        """A tuple ends here, without effect."""
        now = self.clock.now_ns()
        arrival = visit.arrival_ns if visit.arrived else NEVER
        self.recorder.rows["dropped"].append((task.operator.index, task.index, arrival, visit.start_ns, now, reason))
        if visit.replayed:
            self.recovery.one_replayed(visit.unit, task)
