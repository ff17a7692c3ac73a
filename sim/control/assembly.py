"""The control plane of one replication: what decides, and drives the data plane from one decision to the next."""

from __future__ import annotations

from collections.abc import Callable

from models.records.tables import Kernel
from models.steady_state.checkpoint_traffic import due_every_ns, due_offsets_ns
from models.units import to_ns
from sim.background_load import start_outside_load
from sim.clock import Clock, Process
from sim.control.checkpoint_hosts import CheckpointHosts
from sim.control.cluster import Cluster, RunPlan
from sim.control.cluster_view import ClusterView
from sim.control.failures import Failures
from sim.control.maintenance import Maintenance
from sim.control.outages import Outages
from sim.control.recorder import Recorder
from sim.control.recovery import Recovery
from sim.control.replicas import Replicas
from sim.data_plane import NO_HOST, DataPlane, Listener
from sim.migration.coordinator import Migrations
from sim.scaling.elasticity import Elasticity
from sim.scaling.rescaling import Rescaling

PlaneFactory = Callable[[RunPlan, Cluster, Clock, Listener], DataPlane]

_SAMPLES = 1000  # at most, per run
_SECOND = 1_000_000_000


class Control:
    """Clock, records and decisions of a run, and the listener of its data plane.

    Hosts, operators, tasks and partitions are numbers here; of tuples only the plane knows.
    """

    def __init__(self, plan: RunPlan, plane: PlaneFactory, clock: Clock | None = None) -> None:
        self.plan, self.clock, self.recorder, self.cluster = plan, clock or Clock(), Recorder(), Cluster(plan)
        self.view = ClusterView(self.cluster)
        self._checkpoint_hosts = CheckpointHosts(self.clock, self.recorder, self.cluster)
        self._works: dict[int, Callable[[], None]] = {}  # token -> what is to be done after the work
        self._tokens = 0
        self.plane = plane(plan, self.cluster, self.clock, self)
        self.kernel: Kernel | None = None
        self.recovery, self.failures, self.outages = Recovery(self), Failures(self), Outages(self)
        self.migrations = Migrations(self)
        self.replicas = Replicas(self)
        self.rescaling, self.elasticity = Rescaling(self), Elasticity(self)
        self.maintenance = Maintenance(self)

    def start(self) -> None:
        """Start the processes in the order in which they act where they meet at one instant.

        Events and failures, then what others take of the CPUs, then checkpoints, then samples, then checks of the load,
        then maintenance of the allocation of checkpoints. Replicas are there before all of it.
        """
        self.replicas.start()
        self.failures.start()
        self.migrations.start()
        self.rescaling.start()
        start_outside_load(self)
        if self.plan.scenario.fault_tolerance.method == "checkpoint":
            self._start_checkpoints()
        self.clock.process(self._sample(max(_SECOND, to_ns(self.plan.scenario.duration_s) // _SAMPLES)))
        self.elasticity.start()
        self.maintenance.start()

    def run(self, until_ns: int) -> None:
        """Everything strictly before an instant, which then is the current one."""
        clock, end = self.clock, (until_ns, -1, 0)
        while True:
            head = clock.head()
            limit = end if head is None or head[0] >= until_ns else head
            if self.plane.advance(limit):
                continue  # what the listener was told may have changed the head
            if limit is end:
                break
            clock.step()
        clock.move_to(until_ns)

    def work(self, task: int, ns: int, done: Callable[[], None]) -> None:
        """Occupy the task for a time, ahead of its queue; then call `done`, unless its host dies before."""
        token = self.new_token()
        self._works[token] = done
        self.plane.work(task, ns, token)

    def new_token(self) -> int:
        """A number for a message or a piece of work."""
        self._tokens += 1
        return self._tokens - 1

    # -- the listener

    def work_done(self, token: int) -> None:
        self._works.pop(token)()

    def idle(self, task: int) -> None:
        self.recovery.notice_empty(task)

    def message(self, token: int, task: int) -> None:
        self.migrations.runtime.heard(token)

    def aligned(self, token: int, task: int) -> None:
        """Nobody sends barriers yet."""

    def stored(self, partition: int) -> None:
        self.migrations.runtime.stored(partition)

    def checkpoint_host(self, partition: int) -> int:
        return self._checkpoint_hosts.choose(partition)

    def plan_checkpoint_host(self, partition: int, host: int | None) -> None:
        """Plan where periodic checkpoints of the partition go from now on; None: wherever the next one finds a host."""
        self.cluster.planned_checkpoint_host[partition] = host
        self.plane.plan_checkpoint_host(partition, NO_HOST if host is None else host)

    def choose_checkpoint_host(self, partition: int, besides: int) -> int:
        """The same, but not that host where there is another one."""
        return self._checkpoint_hosts.choose(partition, besides)

    # -- processes

    def _start_checkpoints(self) -> None:
        operators = self.plan.operators
        partitions = [
            partition
            for partition, index in enumerate(self.cluster.partition_operator)
            if not operators[index].is_source and self.cluster.is_owner(partition)
        ]
        scenario = self.plan.scenario
        self.plane.start_checkpoints(partitions, due_offsets_ns(scenario, len(partitions)), due_every_ns(scenario))

    def _sample(self, every_ns: int) -> Process:
        """Queue lengths, work done, buffers and source lag at regular instants; reads only."""
        clock, plane, sample, bounded = self.clock, self.plane, self.recorder.sample, self.plan.bounded
        saves = self.plan.scenario.fault_tolerance.method == "checkpoint"
        while True:
            yield clock.timeout(every_ns)
            now = clock.now_ns()
            sample("samples", now, plane.samples())
            sample("lag", now, plane.lag())
            if bounded:
                sample("buffers", now, plane.buffers())
            if saves:
                sample("links", now, plane.links())
