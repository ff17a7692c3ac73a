"""Recovery of the whole job from its checkpoints, as systems with global snapshots or micro-batches do it."""

from __future__ import annotations

from collections.abc import Sequence

from models.scenario.events import Rescale
from models.units import to_ns
from sim.control.cluster import LostPartition
from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane
from sim.recovery.checkpoint import RestoreFromCheckpoint


class SynchronousCheckpoints(RestoreFromCheckpoint):
    """Roll the whole job back: kill every task, and restore all states from their newest checkpoints.

    Lost: every partition, also those whose hosts live. Taken by: the host on which the partition was, where that lives;
    else, with all key groups of its task, the one that holds the checkpoint of the first, or the one with the fewest
    key groups. State: the checkpoint. Replayed: what checkpoints and sources keep. Dropped downstream: outputs that
    come a second time.

    A job that was rescaled after its last round of checkpoints goes back to the tasks that it had then, and is rescaled
    again: it is started twice. Simplified: its key groups come back where they are after the rescaling.
    """

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        self._restarted: dict[int, int] = {}  # task that is gone -> host on which its key groups go on

    def rolled_back(self, losses: Sequence[LostPartition]) -> Sequence[int]:
        """Return all tasks that are alive."""
        return [task for task, alive in enumerate(self.cluster.task_alive) if alive]

    def restarts(self, failed_ns: int) -> int:
        """Return 2 if the job was rescaled between the last round of checkpoints and the failure, else 1."""
        plan = self.state.plan
        scenario = plan.scenario
        round_ns = failed_ns - failed_ns % to_ns(scenario.fault_tolerance.interval_s)
        tasks = {name: operator.parallelism for name, operator in scenario.operators.items()}
        named = scenario.events.items()
        events = [(plan.instant_ns(name), event) for name, event in named if isinstance(event, Rescale)]
        for at_ns, event in sorted(events, key=lambda one: one[0]):
            if round_ns <= at_ns <= failed_ns and event.parallelism != tasks[event.operator]:
                return 2
            tasks[event.operator] = event.parallelism
        return 1

    def host_for(self, partition: int) -> Choice:
        """Leave a partition where it was, if that host has not failed; else keep the key groups of a task together."""
        own, task = self.where_it_was(partition), self.cluster.partition_task[partition]
        if own is not None:
            return own
        beside = self._restarted.get(task)
        if beside is not None and self.can_take(beside, partition):
            return Choice(beside, "its task goes on there")
        choice = super().host_for(partition)
        if choice.host is not None:
            self._restarted[task] = choice.host
        return choice
