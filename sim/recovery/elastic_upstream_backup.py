"""Recovery from outputs that upstream keeps until acks of several levels trim them, with checkpoints of states."""

from __future__ import annotations

from collections.abc import Iterable

from sim.control.adjacent_tasks import AdjacentTasks
from sim.control.host_choice import Choice, HostChoice
from sim.control.instances import CheckpointHosts
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane
from sim.plane_values import NO_HOST
from sim.recovery.state_management import StateManagement


class ElasticUpstreamBackup(StateManagement):
    """Restore states from their newest checkpoint, begin all else anew; upstream replays what is not trimmed.

    Lost: the partitions of the host. Taken by: the host with the fewest key groups, one after the other, so that key
    groups of one task replay side by side (parallel recovery). A host is the last choice if its next failure would take
    more tasks one behind the other than the levels of acks survive, or a state with its only checkpoint. State: the
    checkpoint of a partition with state, with the outputs that are not trimmed where `fault_tolerance.trimming.reading`
    is safe; of any other nothing. States whose checkpoint was on the dead host are saved elsewhere at once. Replayed:
    by all live partitions upstream, what acks have not trimmed. Dropped downstream: outputs that come a second time, by
    their ids.
    """

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        self._adjacent, self._checkpoint_hosts = AdjacentTasks(state), CheckpointHosts(state)

    def host_for(self, partition: int) -> Choice:
        """Return the least used host, if it can be one whose next failure loses nothing."""
        holder = self.state.plane.checkpoint_host(partition)
        alone = {} if holder is None else {holder: "its next failure would take the state with its only checkpoint"}
        return self.hosts.for_partition(
            partition, avoided=alone | self._adjacent.too_many(self.cluster.partition_operator[partition])
        )

    def checkpoints_lost(self, partitions: Iterable[int]) -> None:
        """Save states whose only checkpoint is gone: the next failure may take their hosts."""
        for partition in partitions:
            lives = self.cluster.is_owner(partition) and self.cluster.partition_live[partition]
            if lives and self.state.plane.checkpoint_host(partition) is None:
                host = self._checkpoint_hosts.choose(partition)
                if host != NO_HOST:
                    self.state.plan_checkpoint_host(partition, host)
                    self.state.plane.checkpoint(partition, host)
