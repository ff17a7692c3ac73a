"""Hosts, tasks and partitions of a run as numbers: the truth (`Cluster`), and what control knows of it (`ClusterView`).

A host is trusted, with all it had, until its failure is detected. Managers read liveness from the view when they
choose, and from the cluster when they act on the plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import networkx as nx

from models.scenario.cluster import HostGroup
from models.scenario.inputs import RunInputs
from models.scenario.recovery_methods import Acker, History, Trimming
from models.scenario.resolution import simulated
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import link_sharing
from models.topology import layout
from models.units import to_ns
from sim.draws import event_ns
from sim.operator_plan import OperatorPlan, plan_operators

_NS = 1_000_000_000


@dataclass(frozen=True)
class RunPlan:
    """Everything that does not change during a replication."""

    scenario: Scenario
    inputs: RunInputs
    replication: int
    resolution: int  # records of the job that one of the scenario stands for
    operators: tuple[OperatorPlan, ...]
    host_names: tuple[str, ...]
    host_group_names: tuple[str, ...]
    host_groups: tuple[HostGroup, ...]
    latency_ns: int
    drops_duplicates: bool
    replays: bool
    duplicate_ns: int
    keeps_ids: bool  # a tuple can come twice, or be lost
    acker: Acker | None  # what follows the roots, if anything does
    trimming: Trimming | None  # how outputs are trimmed by acks, if they are
    history: History | None  # for how long they are kept, if time alone trims them
    sources_replay: bool  # whether sources alone keep that history
    first_partition: tuple[int, ...]  # per operator: number of its partition 0; one entry more than operators
    chained: bool  # tasks share a thread
    bounded: bool  # whether a queue has a bound
    counts_load: bool  # whether the load of each key group is counted
    fair: bool  # whether links are shared evenly

    def check_ids(self) -> None:
        """Raise ValueError if the run keeps no ids, by which states and tuples that come back are known."""
        if not self.keeps_ids:
            raise ValueError("the run keeps no ids: no host may fail in it, and no key group has two instances")

    @cached_property
    def dataflow(self) -> nx.DiGraph[int]:
        """Return the graph of the operators by number."""
        number = {name: index for index, name in enumerate(self.scenario.operators)}
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(number.values())
        graph.add_edges_from((number[one], number[other]) for one, other in layout.dataflow(self.scenario).edges)
        return graph

    @cached_property
    def hops_to_end(self) -> tuple[int, ...]:
        """Return for each operator how many hops the longest path from it has; 0 at the end of the dataflow."""
        found: dict[int, int] = {}
        for operator in reversed([*nx.topological_sort(self.dataflow)]):
            found[operator] = max((1 + found[down] for down in self.dataflow.successors(operator)), default=0)
        return tuple(found[operator] for operator in range(len(self.operators)))

    def instant_ns(self, event: str) -> int:
        """Return when the event of this name happens in the replication."""
        return event_ns(self.scenario, self.replication, event)

    def transfer_ns(self, holder: int, host: int, size: int) -> int:
        """Return the time in which so many bytes come from host to host; they delay nothing else there."""
        limits = [self.host_groups[one].network_bytes_per_s for one in (holder, host)]
        rate = min((limit for limit in limits if limit is not None), default=None)
        return self.latency_ns + (0 if rate is None else round(size * _NS / rate))

    @classmethod
    def of(cls, scenario: Scenario, inputs: RunInputs, replication: int) -> RunPlan:
        """Return the plan of one replication of a scenario.

        The scenario and the inputs of the plan are about simulated records: here alone they take the place of those of
        the job.
        """
        resolution = scenario.resolution
        scenario, inputs = simulated(scenario, inputs)
        tolerance = scenario.fault_tolerance
        operators = plan_operators(scenario, replication, inputs.shares)
        hosts = layout.hosts(scenario)
        first = [0]
        for plan in operators:
            first.append(first[-1] + plan.description.groups)
        return cls(
            scenario=scenario,
            inputs=inputs,
            replication=replication,
            resolution=resolution,
            operators=operators,
            host_names=tuple(hosts),
            host_group_names=tuple(layout.host_group_names(scenario).values()),
            host_groups=tuple(hosts.values()),
            latency_ns=to_ns(scenario.network.latency_s),
            drops_duplicates=tolerance.keeps_outputs and tolerance.guarantee == "exactly-once",
            duplicate_ns=to_ns(tolerance.duplicate_s),
            replays=tolerance.keeps_outputs and tolerance.guarantee != "at-most-once",
            keeps_ids=scenario.keeps_ids,
            acker=tolerance.acking,
            trimming=tolerance.acked_slices,
            history=tolerance.kept_history,
            sources_replay=tolerance.sources_replay,
            first_partition=tuple(first),
            fair=link_sharing(scenario).sharing == "fair",
            counts_load=scenario.counts_load,
            chained=any(operator.thread is not None for operator in operators),
            bounded=any(operator.buffer is not None for operator in scenario.operators.values()),
        )


NOWHERE = -1  # in place of the task of an instance that is over


class Cluster:
    """Hosts, tasks and partitions as they are now.

    Task t of the run is an operator's place on a host; tasks are numbered as they are started and never come back once
    their host died. Partition p is what has state and is recovered as one: a key group, or a whole task where nothing
    is keyed; partitions are numbered by operator and index, and behind them further instances of key groups as they are
    made. `partition_task` is where tuples of a partition are sent.
    """

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        spare = set(layout.spare_hosts(plan.scenario))
        self.spare = [host for host, name in enumerate(plan.host_names) if name in spare]  # not in use; rising
        self.leaving: set[int] = set()  # hosts in use that are to be empty soon
        self.host_alive = [name not in spare for name in plan.host_names]
        self.trusted = [*self.host_alive]  # in use, and not suspected by control
        self.host_tasks: list[list[int]] = [[] for _ in plan.host_names]
        self.task_operator: list[int] = []
        self.task_host: list[int] = []
        self.task_alive: list[bool] = []
        self.task_thread: list[int] = []  # the task whose thread serves it: its own, or the first of its chain
        self.task_place: list[int | None] = []  # place in the parallelism of its operator, where it was given
        self._first_of_chain: dict[tuple[int, int], int] = {}  # (chain, index of its tasks) -> the first one
        self.partition_operator = [o for o, op in enumerate(plan.operators) for _ in range(op.description.groups)]
        self.partition_index = [k for op in plan.operators for k in range(op.description.groups)]
        self.partition_task = [-1] * len(self.partition_operator)
        self._last_task: dict[int, int] = {}  # of instances that are over
        self.partition_live = [True] * len(self.partition_operator)  # changed by the methods below alone
        self.down_owners: set[int] = set()  # owners of their groups that are not live, nor on their way
        self.on_the_way: dict[int, int] = {}  # key group that is live nowhere -> the task to which its state travels
        self.moved: dict[int, int] = {}  # key group -> place of its task, where a reconfiguration has moved it for good
        self._group = list(range(len(self.partition_operator)))  # planned partition of each instance
        self._owner: dict[int, int] = {}  # group -> the owner, where it is not the planned partition
        self.planned_checkpoint_host: list[int | None] = self._checkpoint_hosts(plan.inputs.checkpoint_hosts)
        self._place(layout.placement(plan.scenario))

    def _checkpoint_hosts(self, checkpoint_hosts: Mapping[tuple[str, int], str]) -> list[int | None]:
        number = {name: index for index, name in enumerate(self.plan.host_names)}
        names = [
            checkpoint_hosts.get((self.plan.operators[operator].name, index))
            for operator, index in zip(self.partition_operator, self.partition_index, strict=True)
        ]
        return [None if name is None else number[name] for name in names]

    def _place(self, placement: Mapping[str, str]) -> None:
        number = {name: index for index, name in enumerate(self.plan.host_names)}
        for index, plan in enumerate(self.plan.operators):
            described = plan.description
            placed = [
                self.new_task(index, number[placement[layout.task_name(plan.name, k)]], k)
                for k in range(described.parallelism)
            ]
            for k in range(described.groups):
                self.partition_task[self.plan.first_partition[index] + k] = placed[described.task_of(k)]

    def new_task(self, operator: int, host: int, index: int | None = None) -> int:
        """Start a task of the operator on that host, and return its number.

        `index`: its place in the parallelism, where the operator may be chained.
        """
        task = len(self.task_operator)
        self.task_thread.append(self._thread_of(task, operator, host, index))
        self.task_operator.append(operator)
        self.task_host.append(host)
        self.task_alive.append(True)
        self.task_place.append(index)
        self.host_tasks[host].append(task)
        return task

    def _thread_of(self, task: int, operator: int, host: int, index: int | None) -> int:
        """Return the task whose thread serves a new one: the first of its chain that is alive there, or its own."""
        chain = self.plan.operators[operator].thread
        if chain is None or index is None:
            return task
        first = self._first_of_chain.get((chain, index))
        if first is None or not self.task_alive[first]:
            self._first_of_chain[chain, index] = first = task
        elif self.task_host[first] != host:
            raise ValueError("the tasks of a chain are on one host")
        return first

    def new_instance(self, partition: int, task: int) -> int:
        """Return the number of one more instance of the partition's group, at that task and not live.

        It has the planned checkpoint host of the owner: that of an instance that is over may be out of date.
        """
        self.partition_operator.append(self.partition_operator[partition])
        self.partition_index.append(self.partition_index[partition])
        self.partition_task.append(task)
        self.partition_live.append(False)
        self._group.append(partition)
        self.planned_checkpoint_host.append(self.planned_checkpoint_host[self.owner_of(self._group[partition])])
        return len(self.partition_task) - 1

    def task_on(self, operator: int, host: int) -> int | None:
        """Return the operator's task on that host, or None."""
        return next((task for task in self.host_tasks[host] if self.task_operator[task] == operator), None)

    def owner_of(self, group: int) -> int:
        """Return the instance that owns the group."""
        return self._owner.get(group, group)

    def own(self, instance: int) -> None:
        """Make the instance the owner of its group."""
        group = self._group[instance]
        self.down_owners.discard(self.owner_of(group))
        self._owner[group] = instance
        self._note_liveness(instance)

    def set_live(self, instance: int, live: bool) -> None:
        """Note whether the instance has a state and processes what comes."""
        self.on_the_way.pop(instance, None)
        self.partition_live[instance] = live
        self._note_liveness(instance)

    def take(self, group: int, task: int) -> None:
        """Note that the state of a key group travels to a task: it is live nowhere, and not lost."""
        self.partition_live[group] = False
        self.on_the_way[group] = task

    def _note_liveness(self, instance: int) -> None:
        if self.partition_live[instance]:
            self.down_owners.discard(instance)
        elif self.is_owner(instance):
            self.down_owners.add(instance)

    def retire(self, instance: int) -> None:
        """End the instance."""
        if not self.retired(instance):
            self._last_task[instance] = self.partition_task[instance]
        self.partition_task[instance] = NOWHERE
        self.set_live(instance, False)

    def retired(self, instance: int) -> bool:
        """Return True if the instance has ended."""
        return self.partition_task[instance] == NOWHERE

    def host_of(self, instance: int) -> int:
        """Return the host of the instance; of one that is over, its last."""
        return self.task_host[self._last_task.get(instance, self.partition_task[instance])]

    def instances_of(self, group: int) -> list[int]:
        """Return all instances that the group has had."""
        return [instance for instance, own in enumerate(self._group) if own == group]

    def group_of(self, instance: int) -> int:
        """Return the planned partition of the group."""
        return self._group[instance]

    def is_owner(self, instance: int) -> bool:
        """Return True if the instance is the owner of its group."""
        return self.owner_of(self._group[instance]) == instance

    def successor_of(self, instance: int) -> int:
        """Return the instance, or the owner of its group if the instance has ended."""
        return self.owner_of(self._group[instance]) if self.retired(instance) else instance

    def accepts_work(self, host: int) -> bool:
        """Return True if control may place work there: the host is in use, trusted, and not about to be left."""
        return self.trusted[host] and host not in self.leaving

    def place_of(self, partition: int, parallelism: int) -> int:
        """Return the place, among so many tasks, of the task that a partition starts at."""
        described = self.plan.operators[self.partition_operator[partition]].description
        return self.moved.get(partition, described.task_of(self.partition_index[partition], parallelism))

    def partitions_at(self, task: int) -> list[int]:
        """Return the partitions of that task, rising, with all instances of key groups."""
        return [partition for partition, at in enumerate(self.partition_task) if at == task]

    def partitions_on(self, host: int) -> list[int]:
        """Return the partitions whose task is on that host, rising, with all instances of key groups."""
        tasks = set(self.host_tasks[host])
        return [partition for partition, task in enumerate(self.partition_task) if task in tasks]

    def lose_tasks(self, host: int) -> None:
        """End the tasks of a host that died; its partitions are not live any more."""
        self._end_tasks(self.host_tasks[host])
        self.host_tasks[host] = []

    def lose_task(self, task: int) -> None:
        """End a task that was killed while its host goes on; its partitions are not live any more."""
        self._end_tasks([task])
        self.host_tasks[self.task_host[task]].remove(task)

    def _end_tasks(self, tasks: list[int]) -> None:
        for partition, at in enumerate(self.partition_task):
            if at in tasks:
                self.set_live(partition, False)
        for task in tasks:
            self.task_alive[task] = False

    def link_users(self) -> list[list[int]]:
        """Return for each host the operators, rising, whose live tasks there send tuples to other hosts."""
        plans, hosts_of = self.plan.operators, [set[int]() for _ in self.plan.operators]
        for operator, host, alive in zip(self.task_operator, self.task_host, self.task_alive, strict=True):
            if alive:
                hosts_of[operator].add(host)
        found: list[list[int]] = [[] for _ in self.host_tasks]
        for plan in plans:
            goals = {host for edge in plan.edges for host in hosts_of[edge.down.index]}
            emits = plan.is_source or plan.description.most_selective > 0
            for host in hosts_of[plan.index] if emits else ():
                if goals - {host}:
                    found[host].append(plan.index)
        return found

    def partition_name(self, partition: int) -> str:
        """Return OPERATOR[index], the name of the partition in decisions."""
        return f"{self.plan.operators[self.partition_operator[partition]].name}[{self.partition_index[partition]}]"


class LostPartition(NamedTuple):
    """A partition that was on a host when it failed."""

    partition: int
    host: int
    failed_ns: int
    failure: int  # row in the table of failures
    detected_ns: int | None = None  # None: just now
    allocated_ns: int | None = None  # None: just now
    counts_until_ns: int = 0  # the slots of the dead host: what is started before gets one, and fails

    def noticed(self, now_ns: int) -> LostPartition:
        """Return the loss as one that was detected now, if not before."""
        return self if self.detected_ns is not None else self._replace(detected_ns=now_ns)


@dataclass
class UndetectedFailure:
    """The contents of a host that is dead while control does not know it yet."""

    tasks: set[int] = field(default_factory=set)
    live: set[int] = field(default_factory=set)  # partitions that were live there
    lost: list[int] = field(default_factory=list)  # all partitions that were there, or were sent there since
    held: dict[int, int] = field(default_factory=dict)  # partition -> host, of the checkpoints that it held


class ClusterView:
    """Hosts, tasks, partitions and checkpoint hosts as control sees them; the truth is in `sim.control.cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._undetected: dict[int, UndetectedFailure] = {}  # by host
        self.returning: set[int] = set()  # hosts whose failure is detected because they come back

    def died(self, host: int, held: dict[int, int]) -> list[int]:
        """Note what the host, about to be lost, has: tasks, partitions, and the checkpoints that it held.

        Returns its partitions, among which are from now on those that are sent there although it is dead.
        """
        cluster = self._cluster
        gone = self._undetected.setdefault(host, UndetectedFailure())
        partitions = cluster.partitions_on(host)
        gone.tasks.update(cluster.host_tasks[host])
        gone.live.update(partition for partition in partitions if cluster.partition_live[partition])
        gone.lost += partitions
        gone.held |= held
        return gone.lost

    def has_left(self, partition: int, host: int) -> None:
        """Note that the state of a partition had left a host before that died, if it has."""
        gone = self._undetected.get(host)
        if gone is not None and partition in gone.lost:
            gone.lost.remove(partition)
            gone.live.discard(partition)

    def detected(self, host: int) -> list[int]:
        """Suspect the host: control knows of its failure; return the partitions whose checkpoint it held, rising."""
        self._cluster.trusted[host] = False
        gone = self._undetected.pop(host, None)
        return sorted(gone.held) if gone else []

    def back(self, host: int) -> None:
        """Trust the host: control knows that it is there."""
        self.returning.discard(host)
        self._cluster.trusted[host] = True

    def host_alive(self, host: int) -> bool:
        """Return whether the host is trusted: in use, and not suspected."""
        return self._cluster.trusted[host]

    def task_alive(self, task: int) -> bool:
        """Return whether the task is alive, as far as control knows."""
        return self._cluster.task_alive[task] or any(task in gone.tasks for gone in self._undetected.values())

    def tasks_on(self, host: int) -> list[int]:
        """Return the tasks on the host as far as control knows, rising."""
        gone = self._undetected.get(host)
        return sorted({*self._cluster.host_tasks[host], *(gone.tasks if gone else ())})

    def partitions_on(self, host: int) -> list[int]:
        """Return the partitions on the host as far as control knows, rising."""
        gone = self._undetected.get(host)
        return sorted({*self._cluster.partitions_on(host), *(gone.lost if gone else ())})

    def partition_live(self, partition: int) -> bool:
        """Return whether the partition is live, as far as control knows."""
        return self._cluster.partition_live[partition] or any(
            partition in gone.live for gone in self._undetected.values()
        )

    def checkpoint_host(self, partition: int, truth: int | None) -> int | None:
        """Return who holds the newest checkpoint of the partition, as far as control knows."""
        if truth is not None:
            return truth
        return next((gone.held[partition] for gone in self._undetected.values() if partition in gone.held), None)
