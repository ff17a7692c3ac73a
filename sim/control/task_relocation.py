"""Tasks that are killed and started elsewhere, as a rebalance does; their content comes back from parcels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from models.records.decisions import Action
from sim.clock import Process
from sim.control.crash import CrashCoordinator
from sim.control.host_choice import HostChoice
from sim.control.instances import CheckpointHosts, Instances
from sim.control.recoveries import Recoveries
from sim.control.recovery import Recovery
from sim.control.run_state import StateOn
from sim.data_plane import ParcelPlane
from sim.migration.protocol import Restart
from sim.plane_values import NO_HOST, Parcel

_SECOND = 1_000_000_000


class TaskRelocation:
    """Kills tasks and starts them on a host; what a host's crash does to them is left to its detection."""

    def __init__(
        self,
        state: StateOn[ParcelPlane],
        instances: Instances,
        hosts: HostChoice,
        recoveries: Recoveries,
        recovery: Recovery,
        crash: CrashCoordinator,
        checkpoint_hosts: CheckpointHosts,
    ) -> None:
        self.state, self.cluster, self.plane = state, state.cluster, state.plane
        self.instances, self.hosts, self.checkpoint_hosts = instances, hosts, checkpoint_hosts
        self.recoveries, self.recovery, self.crash = recoveries, recovery, crash

    def restart(self, restart: Restart) -> None:
        """Kill a task now, and start its successor after a time.

        Until then what is sent to its partitions is lost; from then on the successor holds it, until `bring_back`. A
        task that is dead is not restarted: its host has crashed, which is for control to detect.
        """
        if not self.cluster.task_alive[restart.task]:
            return
        partitions = self.cluster.partitions_at(restart.task)
        # As in a crash: recoveries end with the counts of the plane, and outages begin for what was live.
        for partition in partitions:
            self.recoveries.lost_again(partition)
        self.recovery.outages.lost(partitions)
        self.plane.kill(restart.task)
        self.cluster.lose_task(restart.task)
        if restart.start_ns:
            self.state.clock.process(self._later(restart, partitions))
        else:
            self._start(restart, partitions)

    def start_elsewhere(self, restart: Restart, partitions: Sequence[int]) -> bool:
        """Start the successor of a task that has died with its host, on another one; return whether there is one.

        Where the workers of a host start together it is where its worker starts.
        """
        if self.crash.together:
            host, why = self.recovery.method.host_for(partitions[0])
        else:
            host, why = self.hosts.for_task(), "its host died before it had its state back"
        if host is None:
            return False
        self._say(partitions, host, why)
        self._start(replace(restart, host=host), partitions)
        return True

    def _say(self, partitions: Sequence[int], host: int, why: str) -> None:
        name, target = self.cluster.partition_name, self.state.plan.host_names[host]
        for partition in partitions:
            self.state.decide(Action.RESTORE, name(partition), why, target=target)

    def _later(self, restart: Restart, partitions: Sequence[int]) -> Process:
        yield self.state.clock.sleep(self.state.clock.now_ns() + restart.start_ns)
        self._start(restart, partitions)

    def _start(self, restart: Restart, partitions: Sequence[int]) -> None:
        cluster, host = self.cluster, restart.host
        if not cluster.accepts_work(host) or not self.hosts.slots.has_free(host):
            # Not in use, about to be left, or suspected: whatever starts there then would not be detected to be dead.
            # Or others have taken its slots since the request.
            other = self.hosts.for_task()
            if other is None:  # no host can take it: look again
                self.state.clock.process(self._later(replace(restart, start_ns=_SECOND), partitions))
                return
            host = other
            why = "the host that was asked for is suspected, not in use, about to be left, or has no free slot"
            self._say(partitions, host, why)
        new = self.instances.new_task(cluster.task_operator[restart.task], host)
        self.recovery.method.replaced(restart.task, new)
        for partition in partitions:
            cluster.partition_task[partition] = new
            self.plane.assign(partition, new)
        self.recoveries.catch_ups.redirect([(restart.task, new)])
        if not cluster.host_alive[host]:
            self.crash.lose_once_more(host)
            return
        if restart.crashed():
            # Somebody upstream may have been recovered, and have sent while nobody was here. It comes before all that
            # is sent from now on.
            for partition in partitions:
                self.recovery.ask_upstream(partition)
        if restart.gate_ns is not None:
            self.plane.pause(new, None)
            self.state.clock.process(self._gate(new, restart.gate_ns))
        restart.started(new)

    def _gate(self, task: int, every_ns: int) -> Process:
        while self.cluster.task_alive[task] and not self._receivers_are_there(task):
            yield self.state.clock.sleep(self.state.clock.now_ns() + every_ns)
        self.plane.unpause(task)

    def _receivers_are_there(self, task: int) -> bool:
        cluster, flow = self.cluster, self.state.plan.dataflow
        below = set(flow.successors(cluster.task_operator[task]))
        return all(
            cluster.task_alive[at]
            for partition, at in enumerate(cluster.partition_task)
            if cluster.partition_operator[partition] in below and not cluster.retired(partition)
        )

    def bring_back(self, task: int, parcels: Sequence[Parcel], partitions: Sequence[int] | None, resend: bool) -> None:
        """Give partitions of a started task the states in parcels, and let them go on.

        These are all at the task, or the named ones, that are not live and no recovery is bringing back. With `resend`
        they send the outputs that they keep once more. A partition without a state in the parcels gets its stored
        checkpoint, or an empty state, and sends what it keeps in any case. Captured tuples go before those that the
        task has held since it started. Where there is no such partition, nothing happens: all of it was lost again.
        """
        here = [one for one in self._to_bring_back(task) if partitions is None or one in partitions]
        if not here:
            return
        saved = self._install(here, parcels)
        for partition in here:
            self.recovery.open(partition, resend or partition not in saved)
        # Only now: tuples for a partition that is not live would be held behind those that have come meanwhile.
        for parcel in parcels:
            if not parcel.partitions:
                self.plane.put(parcel.number, task)
        for partition in here:
            self.recoveries.came_back(partition)
            self.recovery.go_on(partition)
            self._save_elsewhere(partition)

    def _save_elsewhere(self, partition: int) -> None:
        """Have a checkpoint taken for another host where the host that got the partition holds its stored one."""
        own = self.cluster.task_host[self.cluster.partition_task[partition]]
        if self.plane.checkpoint_host(partition) == own:
            other = self.checkpoint_hosts.choose(partition)
            if other != NO_HOST:
                self.plane.plan_checkpoint_host(partition, other)
                self.plane.checkpoint(partition, other)

    def _to_bring_back(self, task: int) -> list[int]:
        cluster, recoveries = self.cluster, self.recoveries
        here = cluster.partitions_at(task)
        return [one for one in here if not cluster.partition_live[one] and not recoveries.is_recovering(one)]

    def _install(self, partitions: list[int], parcels: Sequence[Parcel]) -> set[int]:
        saved = {partition for parcel in parcels for partition in parcel.partitions}
        for partition in partitions:
            if partition not in saved:
                self.recovery.install(partition)
        for parcel in parcels:
            if parcel.partitions:
                self.plane.put(parcel.number, self.cluster.partition_task[parcel.partitions[0]])
        return saved
