"""The control plane of one replication: it assembles the managers and drives the data plane between decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from models.records.tables import Kernel, table
from models.steady_state.checkpoint_traffic import due_every_ns, due_offsets_ns, flush_ns
from models.units import to_ns
from sim.clock import Clock, Process
from sim.control.acker import RootTimeouts
from sim.control.barriers import BarrierCheckpoints
from sim.control.catch_up import CatchUps
from sim.control.cluster import Cluster, RunPlan
from sim.control.crash import CrashCoordinator
from sim.control.failures import Failures
from sim.control.group_membership import GroupMembership
from sim.control.host_choice import HostChoice
from sim.control.instances import CheckpointHosts, Instances, Outages
from sim.control.job_scaling import JobScaling
from sim.control.maintenance import Maintenance
from sim.control.memory import Memory
from sim.control.paces import Paces
from sim.control.read_committed import ReadCommitted
from sim.control.recoveries import Recoveries
from sim.control.recovery import Recovery
from sim.control.replicas import Replicas
from sim.control.run_state import RunState
from sim.control.scans import Scans
from sim.control.slots import Slots
from sim.control.source_reading import SourceReading
from sim.control.statistics import Statistics
from sim.control.task_relocation import TaskRelocation
from sim.data_plane import DataPlane, Listener, Plane, TrimmingPlane
from sim.migration.adjustment import AdjustmentServices
from sim.migration.adjustments import Adjustments
from sim.migration.checkpoint_source import CheckpointSource
from sim.migration.coordinator import RunCoordinator
from sim.migration.moves import Migrations
from sim.migration.protocols import REBALANCE_PROTOCOLS, RECONFIGURATION_PROTOCOLS
from sim.migration.rebalance import Rebalances
from sim.migration.reconfigurations import Reconfigurations
from sim.recovery.changelog import RestoreFromChangelog
from sim.recovery.region_restart import RegionRestart
from sim.scaling.elasticity import Elasticity
from sim.scaling.operator_scaling import OperatorScaling
from sim.scaling.rebalancing import Rebalancing
from sim.scaling.spare_hosts import Rescaling, SpareHosts, in_use

PlaneFactory = Callable[[RunPlan, Cluster, Clock, Listener], Plane]

_SAMPLES = 1000  # at most, per run
_SECOND = 1_000_000_000


class Control:
    """Assembles the managers of a run, starts them, and passes on what the data plane reports.

    Managers need a plane that can do everything. On any other there are none: nothing fails or moves, nobody takes a
    part of a CPU, and no load is counted (`sim.kernel.choice` sees to that).
    """

    state: RunState
    plane: Plane
    # Managers, set only if `managed`:
    outages: Outages
    catch_ups: CatchUps
    statistics: Statistics
    memory: Memory
    instances: Instances
    replicas: Replicas
    slots: Slots
    coordinator: RunCoordinator
    migrations: Migrations
    recoveries: Recoveries
    recovery: Recovery
    crash: CrashCoordinator
    failures: Failures
    rebalances: Rebalances
    adjustments: Adjustments
    reconfigurations: Reconfigurations
    rescaling: Rescaling
    elasticity: Elasticity
    maintenance: Maintenance
    membership: GroupMembership | None
    timeouts: RootTimeouts
    checkpoint_source: CheckpointSource
    barriers: BarrierCheckpoints
    paces: Paces
    job_scaling: JobScaling | None
    readers: ReadCommitted
    scans: Scans
    source_reading: SourceReading | None

    def __init__(self, plan: RunPlan, plane: PlaneFactory, clock: Clock | None = None) -> None:
        self.state = state = RunState(plan, clock or Clock())
        self.plan, self.clock, self.recorder, self.cluster = plan, state.clock, state.recorder, state.cluster
        self.checkpoint_hosts = CheckpointHosts(state)
        self.plane = plane(plan, state.cluster, state.clock, self)
        self.kernel: Kernel | None = None
        self.managed = False
        if isinstance(self.plane, DataPlane):  # once: it looks at every method
            self.managed, state.plane = True, self.plane
            self._assemble(state)

    def _assemble(self, state: RunState) -> None:
        """Make the managers, in a run whose plane can do what they ask."""
        # Each manager is given those below it, and none knows one above it.
        self.outages, self.catch_ups, self.statistics = Outages(state), CatchUps(state), Statistics(state)
        self.memory, self.scans = Memory(state), Scans(state)
        self.instances = Instances(state, self.outages)
        self.instances.task_added.append(self.scans.begin)
        self.replicas = Replicas(state, self.instances, self.checkpoint_hosts)
        self.coordinator = RunCoordinator(state)
        self.slots = Slots(state, self.replicas)
        self.migrations = Migrations(state, self.instances, self.replicas, self.catch_ups, self.coordinator, self.slots)
        self.recoveries = Recoveries(state, self.catch_ups, self.migrations)
        hosts = HostChoice(state, self.replicas, self.slots)
        self.recovery = Recovery(state, self.outages, self.replicas, self.migrations, self.recoveries, hosts)
        self.crash = CrashCoordinator(
            state, self.outages, self.catch_ups, self.replicas, self.migrations, self.recoveries, self.recovery
        )
        self.failures = Failures(state, self.crash)
        self.paces = Paces(state)
        self.recovery.opened.append(self.paces.restarted)
        self.barriers = BarrierCheckpoints(state)
        if self.barriers.rules is not None:
            self.crash.checkpoints_end = self.barriers.failed
            self.recovery.opened.append(lambda _: self.barriers.opened())
            self.barriers.fail_job = self.failures.fail_job
            self.barriers.copies = self.recovery.copies
        self.job_scaling, method = None, self.recovery.method
        if self.barriers.rules is not None and isinstance(method, RegionRestart):
            self.job_scaling = JobScaling(state, method, self.crash, self.failures, self.barriers, self.recoveries)
        self.readers = ReadCommitted(state, self.instances)
        self._read_sources(state)
        self.coordinator.runtime.relocation = TaskRelocation(
            state,
            self.instances,
            hosts,
            self.recoveries,
            self.recovery,
            self.crash,
            self.checkpoint_hosts,
        )
        self.slots.freed = self.crash.recover_orphans
        self.rebalances = Rebalances(state, self.coordinator, REBALANCE_PROTOCOLS)
        self.rebalancing = Rebalancing(state, self.rebalances)
        services = AdjustmentServices(state, self.instances, self.catch_ups, self.recoveries, self.checkpoint_hosts)
        self.adjustments = Adjustments(services, self.coordinator, self.slots)
        self.crash.host_died.append(self.adjustments.host_died)
        self.recoveries.is_taking.append(self.adjustments.is_taking)
        self._reconfigure(state, hosts)
        self.rescaling = Rescaling(state, self.migrations, self.adjustments, self.slots)
        spares = SpareHosts(state, self.migrations, self.recoveries, self.failures)
        operators = OperatorScaling(state, self.statistics, self.adjustments, self.rescaling)
        self.elasticity = Elasticity(
            state, self.statistics, self.checkpoint_hosts, self.migrations, spares, self.slots, operators
        )
        self.maintenance = Maintenance(state, self.statistics, self.migrations)
        self.membership = None
        if isinstance(method, RestoreFromChangelog):
            self.membership = GroupMembership(
                state, method, self.recovery, self.recoveries, self.crash, self.failures, spares
            )
            self.crash.host_back = self.membership.came
        self.timeouts = RootTimeouts(state)
        self.checkpoint_source = CheckpointSource(state, self.coordinator, self.timeouts)
        self.checkpoint_source.initialised = self.rebalances.initialised
        self.checkpoint_source.held_back = self.rebalances.holds_back_waves
        self.rebalances.wave_is_open = self.checkpoint_source.is_open

    def _reconfigure(self, state: RunState, hosts: HostChoice) -> None:
        """Have key groups move in steps, and have a crash end what it ends of that where nothing is kept."""
        self.reconfigurations = Reconfigurations(
            state,
            self.coordinator,
            RECONFIGURATION_PROTOCOLS,
            self.memory,
            self.outages,
            self.recoveries.leaves,
            self.barriers,
            partial(self._start_task, hosts),
        )
        if self.reconfigurations.loses:
            lost_steps = self.reconfigurations.lost_steps
            self.crash.dies, self.crash.in_steps = lost_steps.host_dies, lost_steps.settle
            self.recovery.next_task, self.recovery.begins_again = lost_steps.next_task, lost_steps.begins_again
            self.instances.task_added.append(lost_steps.task_added)

    def _start_task(self, hosts: HostChoice, operator: int, place: int) -> int | None:
        """Start a task in place of one that is dead: on its host, or where the fewest key groups are."""
        before = next(
            task
            for task, its in reversed([*enumerate(self.cluster.task_operator)])
            if its == operator and self.cluster.task_place[task] == place
        )
        host: int | None = self.cluster.task_host[before]
        if host is None or not self.cluster.accepts_work(host) or not self.slots.has_room(operator, host):
            host = hosts.least_used(lambda one: self.slots.has_room(operator, one))
        if host is None:
            return None
        task = self.instances.new_task(operator, host, place)
        if not self.cluster.host_alive[host]:  # which nobody has detected
            self.crash.lose_once_more(host)
        return task

    def _read_sources(self, state: RunState) -> None:
        """Have sources read their logs that have files or polls."""
        self.source_reading = None
        polls = state.plan.scenario.fault_tolerance.changelogs is not None  # tasks do, and not their sources
        if not polls and any(operator.description.reading is not None for operator in state.plan.operators):
            self.source_reading = made = SourceReading(state, self.recoveries)
            self.barriers.left_source, self.barriers.completed = made.passed_barrier, made.completed
            self.recovery.reads_again, self.recovery.reads_on = made.begin_again, made.go_on

    def start(self) -> None:
        """Start the processes in the order in which they act where they meet at one instant.

        Events and failures, then what others take of the CPUs, then checkpoints, then ends of slices, then rounds of
        acks, then samples, then checks of the load, then maintenance of the allocation of checkpoints, then time-outs
        of roots, then waves. Replicas are there before all of it.
        """
        if self.managed:
            self.replicas.start()
            self.recovery.method.start()
            self.failures.start()
            if self.membership is not None:
                self.membership.start()
            self.migrations.start()
            (self.job_scaling or self.rescaling).start()
            self.rebalancing.start()
            self.paces.start()
            self.reconfigurations.start()
            self.readers.start()
            self.scans.start()
            self.memory.sample()
            if self.source_reading is not None:
                self.source_reading.start()
        tolerance = self.plan.scenario.fault_tolerance
        if tolerance.job_checkpoints is not None:
            self.barriers.start()
        elif self.managed and self.crash.batches is not None:
            self.crash.batches.start()
        elif tolerance.takes_checkpoints:
            self._start_checkpoints()
        if self.plan.history and isinstance(self.plane, TrimmingPlane):
            self.plane.start_trimming(to_ns(self.plan.history.every_s))
        self.clock.process(self._sample(max(_SECOND, to_ns(self.plan.scenario.duration_s) // _SAMPLES)))
        if self.managed:
            self.elasticity.start()
            self.maintenance.start()
            self.timeouts.start()
            self.checkpoint_source.start()

    def run(self, until_ns: int) -> None:
        """Simulate everything strictly before an instant, and make that instant the current one."""
        clock, end = self.clock, (until_ns, -1, 0)
        while True:
            head = clock.head()
            limit = end if head is None or head[0] >= until_ns else head
            # The plane does all that comes before the next event of control. It stops earlier if it has called the
            # listener, which may have set an earlier event.
            if self.plane.advance(limit):
                continue
            if limit is end:
                break
            clock.step()
        clock.move_to(until_ns)

    def note_rows(self, tables: dict[str, Mapping[str, np.ndarray]], end_ns: int) -> None:
        """Write the rows that are known at the end only; `tables` are those of the data plane, to which some belong."""
        rows = self.recorder.rows
        if not self.managed:
            rows["hosts_in_use"] = [(host, 0, end_ns) for host in in_use(self.cluster)]
            return
        rows["recoveries"] = [*self.recoveries.rows()]
        rows["outages"] = [*self.outages.rows()]
        rows["migrations"] = [*self.migrations.rows()]
        rows["rebalances"] = [*self.rebalances.rows()]
        rows["reconfigurations"] = [*self.reconfigurations.rows()]
        rows["replicas"] = [*self.replicas.rows()]
        rows["rescales"] = [*(self.job_scaling or self.rescaling).rows()]
        rows["maintenance"] = [*self.maintenance.rows(tables["checkpoints"])]
        if self.plan.scenario.fault_tolerance.job_checkpoints is not None:
            tables["checkpoints"] = table("checkpoints", {**tables["checkpoints"], "job": self.barriers.snapshots()})
            rows["job_checkpoints"] = [*self.barriers.rows(tables["checkpoints"])]
        rows["pre_commits"] = self.barriers.commits.rows
        rows["hosts_in_use"] = self.rebalancing.hosts_in_use(self.elasticity.spares.rows(end_ns), end_ns)

    # -- the listener

    def work_done(self, token: int) -> None:
        self.state.work_done(token)

    def idle(self, task: int) -> None:
        self.catch_ups.notice_empty(task)
        if self.source_reading is not None:
            self.source_reading.idle(task)

    def message(self, token: int, task: int) -> None:
        if not (self.barriers.comes(token, task) or self.scans.comes(token, task)):
            self.coordinator.runtime.heard(token)

    def aligned(self, token: int, task: int) -> None:
        if not self.barriers.aligned(token, task):
            self.coordinator.runtime.aligned(token)

    def stored(self, partition: int, slot: int) -> None:
        self.coordinator.runtime.stored(partition)
        self.barriers.stored(partition, slot)
        self.readers.stored(partition)
        if self.crash.batches is not None:
            self.crash.batches.stored(partition)

    def passed(self, token: int) -> None:
        self.coordinator.runtime.passed(token)

    def checkpoint_host(self, partition: int) -> int:
        return self.checkpoint_hosts.choose(partition)

    # -- processes

    def _start_checkpoints(self) -> None:
        operators = self.plan.operators
        trimming, scenario = self.plan.trimming, self.plan.scenario
        partitions = [
            partition
            for partition, index in enumerate(self.cluster.partition_operator)
            if scenario.fault_tolerance.due(operators[index].description) and self.cluster.is_owner(partition)
        ]
        every_ns, offsets_ns = due_every_ns(scenario), due_offsets_ns(scenario, len(partitions))
        if scenario.fault_tolerance.changelogs is not None:
            sinks = [operators[self.cluster.partition_operator[one]].is_sink for one in partitions]
            flushed_ns = every_ns - flush_ns(scenario)
            offsets_ns = [flushed_ns if sink else one for one, sink in zip(offsets_ns, sinks, strict=True)]
        rounds = sorted(zip(offsets_ns, partitions, strict=True))  # planes take them in the order in which they are due
        self.plane.start_checkpoints([one for _, one in rounds], [due_ns for due_ns, _ in rounds], every_ns)
        if trimming and isinstance(self.plane, TrimmingPlane):
            self.plane.start_slices(to_ns(trimming.slice_s))
            self.plane.start_trimming(to_ns(trimming.every_s))

    def _sample(self, every_ns: int) -> Process:
        """Sample queue lengths, work done, buffers and source lag at regular instants, without changing anything."""
        clock, plane, sample = self.clock, self.plane, self.recorder.sample
        bounded = self.plan.bounded or bool(self.plan.trimming or self.plan.history)
        saves = self.plan.scenario.fault_tolerance.takes_checkpoints
        while True:
            yield clock.timeout(every_ns)
            now = clock.now_ns()
            sample("samples", now, plane.samples())
            sample("lag", now, plane.lag())
            if self.managed:
                self.memory.sample()
            if bounded:
                sample("buffers", now, plane.buffers())
            if saves:
                sample("links", now, plane.links())
