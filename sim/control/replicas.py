"""Active replicas: a second instance of a key group that gets every tuple, sends nothing, and takes over.

Upstream sends each tuple to both instances and keeps it for both; the replica applies it, and keeps its outputs instead
of sending them. It takes checkpoints of its own, half an interval after those of the owner. These trim upstream for the
replica, and restore it if its host dies after it has taken over. Outputs of both have the same ids: outputs that
downstream has saved are trimmed at the replica as well, and receivers drop those that they had already when it takes
over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.topology.layout import PlannedReplica, planned_replicas
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import NOWHERE, LostPartition
from sim.control.instances import CheckpointHosts, Instances
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane
from sim.plane_values import NO_HOST, REMOTE

REPLICATE = "replicate"
START, RENEWED = "start", "renewed"
TOOK_OVER, LOST, CALLED_OFF = "took over", "lost", "called off"
SWITCHOVER = "switchover"


@dataclass
class Replica:
    """One replica, from the request on; it is in step with the owner from `from_ns` to `until_ns`."""

    group: int
    partition: int
    host: int
    why: str
    requested_ns: int
    from_ns: int = NEVER
    until_ns: int = NEVER
    end: str = ""
    failed_ns: int = NEVER  # when the host of the owner died if it took over; when its own did if it was lost
    replayed: int = 0
    bytes: int = 0


class Replicas:
    """Keeps the replicas that the scenario asks for: makes them, lets them take over, and makes them anew."""

    def __init__(self, state: StateOn[InstancePlane], instances: Instances, checkpoint_hosts: CheckpointHosts) -> None:
        self.state, self.cluster, self.instances, self._checkpoint_hosts = (
            state,
            state.cluster,
            instances,
            checkpoint_hosts,
        )
        plan = state.plan
        number = {name: host for host, name in enumerate(plan.host_names)}
        first = {op.name: partition for op, partition in zip(plan.operators, plan.first_partition, strict=False)}
        self._replicates_all = plan.scenario.fault_tolerance.replicates_all
        self._planned: dict[int, PlannedReplica] = {}
        self._hosts: dict[int, list[int]] = {}  # group -> where a replica may be, best first
        for one in planned_replicas(plan.scenario) if plan.scenario.has_replicas else []:
            group = first[one.operator] + one.group
            self._planned[group] = one
            names = dict.fromkeys((*one.spares, one.host, one.primary))
            self._hosts[group] = [number[name] for name in names]
        self._first_host = [self.cluster.task_host[task] for task in self.cluster.partition_task]
        self._standing: dict[int, Replica] = {}  # group -> its replica that is in step
        self.all: list[Replica] = []
        instances.task_added.append(self.task_added)

    # -- from the start

    def start(self) -> None:
        """Make the replicas of the start, which have the state of their owners: none."""
        number = {name: host for host, name in enumerate(self.state.plan.host_names)}
        for group, one in self._planned.items():
            self._begin(group, number[one.host])
        if self._planned and self.state.plan.scenario.fault_tolerance.takes_checkpoints:
            self.state.clock.process(self._save())

    def _begin(self, group: int, host: int) -> None:
        partition = self.instances.add(group, self.instances.task_on(self.cluster.partition_operator[group], host))
        # Muted before it is open, or it would answer what arrives first.
        self.state.plane.mute(partition, True)
        made = Replica(group, partition, host, START, 0, from_ns=0)
        self.all.append(made)
        self._standing[group] = made
        for sender in self._tasks_above(group):
            self._send_to_both(sender, group)
        self.instances.open(partition)

    def _tasks_above(self, group: int) -> list[int]:
        above = self.instances.upstream(group)
        return [task for task, its in enumerate(self.cluster.task_operator) if its in above]

    def _send_to_both(self, task: int, group: int) -> None:
        self.instances.route(task, group, self.targets(group))

    def task_added(self, task: int) -> None:
        """Have a new task send to replicas, too."""
        operator = self.cluster.task_operator[task]
        for group in self._standing:
            if operator in self.instances.upstream(group):
                self._send_to_both(task, group)

    # -- what others ask

    def of_group(self, group: int) -> tuple[int, ...]:
        """Return the replica in step of a key group, if there is one."""
        replica = self._standing.get(group)
        return () if replica is None else (replica.partition,)

    def targets(self, group: int) -> tuple[int, ...]:
        """Return the instances to which outputs for the group go when nothing moves; none: to the owner alone."""
        replica = self.of_group(group)
        return (self.cluster.owner_of(group), *replica) if replica else ()

    def silent(self, partition: int) -> bool:
        """Return True if the partition is a replica that is in step: its owner sends what it keeps."""
        replica = self._standing.get(self.cluster.group_of(partition))
        return replica is not None and replica.partition == partition

    def homes(self, partition: int) -> list[int]:
        """Return the hosts that the group was given: its own at the start, then those of replicas."""
        group = self.cluster.group_of(partition)
        return [*dict.fromkeys((self._first_host[group], *self._hosts.get(group, ())))]

    def beside(self, partition: int) -> int | None:
        """Return the replica in step of the partition, if the partition is the owner of its group."""
        replica = self._standing.get(self.cluster.group_of(partition))
        return replica.partition if replica is not None and self.cluster.is_owner(partition) else None

    # -- crashes

    def fail_over(self, losses: Sequence[LostPartition]) -> list[tuple[LostPartition, int]]:
        """Let replicas of lost partitions take over, and return (loss, replica) of each that does."""
        # Lost replicas first: one that died in the same crash as its owner must not take over.
        for loss in losses:
            replica = self._standing.get(self.cluster.group_of(loss.partition))
            if replica is not None and replica.partition == loss.partition:
                self._end(replica, LOST, loss.failed_ns)
                self._give_up(replica.group, replica.partition)
                self._decide(replica, Action.LOSE_REPLICA, "the host of the replica died")
        taken = []
        for loss in losses:
            replica = self._standing.get(self.cluster.group_of(loss.partition))
            if (
                replica is not None
                and self.cluster.is_owner(loss.partition)
                and not self.cluster.partition_live[loss.partition]
            ):
                taken.append((loss, replica.partition))
        for loss, _ in taken:
            self._take_over(self._standing[self.cluster.group_of(loss.partition)], loss)
        return taken

    def _take_over(self, replica: Replica, loss: LostPartition) -> None:
        """Make the replica the owner. It sends the outputs that it has kept; receivers drop duplicates.

        If its own host is dead, too, and nobody knows yet, its row says that it was lost. It owns the group all the
        same, and is recovered as any owner when that failure is detected.
        """
        if self.cluster.partition_live[replica.partition]:
            self._end(replica, TOOK_OVER, loss.failed_ns)
        else:
            self._end(replica, LOST, self._died_ns(replica.host))
        # Owner first: when the routes to both instances are removed, upstream sends to the owner.
        self.instances.own(replica.partition)
        self._give_up(replica.group, loss.partition)
        self.state.plane.mute(replica.partition, False)
        if self.cluster.partition_live[replica.partition]:
            self.instances.resend(replica.partition)
        self._decide(replica, Action.TAKE_OVER, "the host of the owner died")

    def switch_over(self, group: int) -> None:
        """Make the replica of a group the owner, and the owner the replica, while both live."""
        replica, owner, now = self._standing[group], self.cluster.owner_of(group), self.state.clock.now_ns()
        self._end(replica, SWITCHOVER, NEVER)
        made = Replica(group, owner, self.cluster.host_of(owner), SWITCHOVER, now, from_ns=now)
        self.all.append(made)
        self._standing[group] = made
        self.instances.own(replica.partition)
        for task in self._tasks_above(group):
            self._send_to_both(task, group)
        self.state.plane.mute(owner, True)
        self.state.plane.mute(replica.partition, False)
        # The owner may not have come as far: outputs that it would have sent are kept here.
        self.instances.resend(replica.partition)
        self._decide(replica, Action.TAKE_OVER, "the group is to move there")

    def _end(self, replica: Replica, end: str, failed_ns: int) -> None:
        del self._standing[replica.group]
        replica.failed_ns = failed_ns
        replica.until_ns, replica.end = self.state.clock.now_ns(), end

    def _died_ns(self, host: int) -> int:
        """Return when the host, which is dead, died."""
        return max(int(row[1]) for row in self.state.recorder.rows["failures"] if row[0] == host)

    def _give_up(self, group: int, partition: int) -> None:
        """Have upstream send to the others alone, and end the instance."""
        self.instances.unroute(group, partition)
        self.instances.retire(partition)

    def _decide(self, replica: Replica, action: Action, why: str, verdict: Verdict = Verdict.DONE) -> None:
        target = self.state.plan.host_names[replica.host]
        self.state.decide(action, self.cluster.partition_name(replica.group), why, target=target, verdict=verdict)

    # -- checkpoints

    def _save(self) -> Process:
        """Checkpoint each replica half an interval after the owners, all at once or one by one."""
        clock, tolerance = self.state.clock, self.state.plan.scenario.fault_tolerance
        interval_ns = max(1, to_ns(tolerance.interval_s))
        begin, count = interval_ns + interval_ns // 2, len(self._planned)
        while True:
            for k, group in enumerate(self._planned):
                at = begin + (k * interval_ns // count if tolerance.staggered else 0)
                if at > clock.now_ns():
                    yield clock.sleep(at)
                replica = self._standing.get(group)
                checkpoint_host = self._checkpoint_host(replica) if replica else NO_HOST
                if replica and checkpoint_host != NO_HOST:
                    self.state.plane.checkpoint(replica.partition, checkpoint_host)
            begin += interval_ns

    def _checkpoint_host(self, replica: Replica) -> int:
        """Return the planned checkpoint host; another one where that is a host of the two instances, or suspected."""
        if self.state.plan.scenario.fault_tolerance.store == "remote":
            return REMOTE
        cluster, partition = self.cluster, replica.partition
        owner = cluster.task_host[cluster.partition_task[cluster.owner_of(replica.group)]]
        planned = cluster.planned_checkpoint_host[partition]
        if planned is None or planned in (replica.host, owner) or not self.state.view.host_alive(planned):
            planned = self._checkpoint_hosts.choose(partition, owner)
        if planned != NO_HOST:
            self.state.plane.plan_checkpoint_host(partition, planned)
        return planned

    # -- anew

    def wanted(self, group: int) -> int | None:
        """Return the best host for a replica of a group that has none, or None if there is no host for it now."""
        if group in self._standing or not self._planned[group].renew:
            return None
        owner = self.cluster.partition_task[self.cluster.owner_of(group)]
        own = self.cluster.task_host[owner]
        can = [host for host in self._hosts[group] if host != own and self.state.view.host_alive(host)]
        if self._replicates_all:  # no host comes first: the one with the fewest instances does
            can.sort(key=lambda host: (self._instances_on(host), host))
        return can[0] if can else None

    def _instances_on(self, host: int) -> int:
        return sum(task != NOWHERE and self.cluster.task_host[task] == host for task in self.cluster.partition_task)

    def missing(self, bound_for: Collection[int]) -> Iterator[tuple[int, int]]:
        """Yield (group, host) of the groups that have no replica, could have one, and are not in `bound_for`."""
        for group in self._planned:
            host = self.wanted(group)
            if host is not None and group not in bound_for:
                yield group, host

    def begun(self, group: int, partition: int, host: int, requested_ns: int) -> None:
        """Note that a replica is being made: this instance, on that host."""
        self.all.append(Replica(group, partition, host, RENEWED, requested_ns))

    def made(self, partition: int, completed_ns: int, cost: tuple[int, int], asked: Collection[int]) -> None:
        """Note that the replica is in step: it cost (tuples, bytes), and the tasks that were asked send to it."""
        replica = self._of(partition)
        replica.from_ns = completed_ns
        replica.replayed, replica.bytes = cost
        self._standing[replica.group] = replica
        for task in self._tasks_above(replica.group):
            if task not in asked:
                self._send_to_both(task, replica.group)
        self._decide(replica, Action.ADD_REPLICA, "it is in step")

    def called_off(self, partition: int, cost: tuple[int, int], takes_over: bool) -> None:
        """Note that a crash came before the replica was in step, and whether it takes over all the same."""
        replica = self._of(partition)
        replica.until_ns, replica.end = self.state.clock.now_ns(), TOOK_OVER if takes_over else CALLED_OFF
        replica.replayed, replica.bytes = cost
        why = "a host that has a part in making it died"
        if takes_over:
            self._decide(replica, Action.FINISH_EARLY, why)
        else:
            self._decide(replica, Action.ADD_REPLICA, why, Verdict.REFUSED)

    def unfinished(self, instead: Sequence[tuple[LostPartition, int]]) -> None:
        """Note when the owners failed for which unfinished replicas take over."""
        failed_ns = {partition: loss.failed_ns for loss, partition in instead}
        for one in self.all:
            if one.partition in failed_ns and one.end == TOOK_OVER:
                one.failed_ns = failed_ns[one.partition]

    def _of(self, partition: int) -> Replica:
        return next(one for one in reversed(self.all) if one.partition == partition)

    # -- records

    def rows(self) -> list[tuple[object, ...]]:
        """Return one row for each replica, in the order of their begin."""
        cluster = self.cluster
        return [
            (
                cluster.partition_operator[one.group],
                cluster.partition_index[one.group],
                one.host,
                one.why,
                one.requested_ns,
                one.from_ns,
                one.until_ns,
                one.end,
                one.failed_ns,
                one.replayed,
                one.bytes,
            )
            for one in self.all
        ]
