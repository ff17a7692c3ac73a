"""The interface of all methods of recovery: what differs between them, as answers to questions of `Recovery`.

The manager `sim.control.recovery.Recovery` has what every method needs: which partitions are lost, wait for a host or
are recovering, the phases of each recovery, and the steps in their order. What becomes of tuples that come twice is up
to the data plane: receivers drop them by their ids where `RunPlan.drops_duplicates`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sim.control.cluster import LostPartition
from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.restores import Restores
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane


class SavedState(NamedTuple):
    """A state from which a partition is restored."""

    holder: int | None  # host, or REMOTE; None: the partition has it already, or begins with an empty one
    bytes: int


class RecoveryMethod(ABC):
    """Says what is lost, who takes it, where its state comes from, and who replays what."""

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        self.state, self.cluster, self.hosts, self.replicas = state, state.cluster, hosts, replicas
        self.restores: Restores | None = None  # beside tasks; without it tasks restore their states themselves

    def start(self) -> None:  # noqa: B027 - what most need not do, as those below
        """Begin with the run."""

    def host_died(self, host: int) -> None:  # noqa: B027
        """End what goes on at a host that is dead, which nobody knows."""

    def resumed(self, host: int, partitions: Iterable[int]) -> None:  # noqa: B027
        """Have a host that is back before it was missed take these partitions again, which it had."""

    def came(self, host: int) -> None:  # noqa: B027
        """Note that a host is there, or there again."""

    def prepare(self, partition: int) -> bool:
        """Give a partition that was just assigned a state that is there already; return whether there was one."""
        return False

    def lacks(self, partition: int, receiver: int) -> bool:
        """Return whether a receiver may lack outputs that a partition with such a state has made before."""
        return True

    def opened(self, partition: int) -> None:  # noqa: B027
        """Note that a partition is live, after what it had to send was sent."""

    def host_lost(self, host: int) -> None:  # noqa: B027
        """Forget what a host had whose failure is detected, before anything is assigned."""

    def replaced(self, lost: int, task: int) -> None:  # noqa: B027
        """Note that a task was started in place of another one by somebody else, such as a protocol."""

    def settled(self) -> None:  # noqa: B027
        """Go on after all that is lost has got a host, or a host is back."""

    def rolled_back(self, losses: Sequence[LostPartition]) -> Sequence[int]:
        """Return the live tasks that are killed, and whose partitions are lost as well, when these are."""
        return []

    def has_lost_empty_tasks(self) -> bool:
        """Return whether tasks without partitions are lost, which is detected now, and others roll back with them."""
        return False

    def checkpoints_lost(self, partitions: Iterable[int]) -> None:  # noqa: B027 - a question that most need not answer
        """Note that the newest checkpoints of these partitions were on a host whose failure is detected now."""

    def restarts(self, failed_ns: int) -> int:
        """Return how many times what is lost with a host that failed then is started before it is restored."""
        return 1

    def host_for(self, partition: int) -> Choice:
        """Return the host that takes a lost partition, and why."""
        return self.hosts.for_partition(partition)

    def task_for(self, partition: int, host: int) -> int:
        """Return the task on that host which gets a lost partition: the one of its operator, or a new one."""
        return self.replicas.instances.task_on(self.cluster.partition_operator[partition], host)

    def where_it_was(self, partition: int) -> Choice | None:
        """Return the host of a partition that was rolled back, if that is alive and has room."""
        host = self.cluster.task_host[self.cluster.partition_task[partition]]
        if self.can_take(host, partition):
            return Choice(host, "it was there before the job was rolled back")
        return None

    def can_take(self, host: int, partition: int) -> bool:
        """Return whether a host is alive, as far as control knows, and has room for a partition."""
        operator = self.cluster.partition_operator[partition]
        return self.state.view.host_alive(host) and self.hosts.slots.has_room(operator, host)

    @abstractmethod
    def saved_state(self, partition: int) -> SavedState:
        """Return the state from which a lost partition is restored; asked when a host has taken it."""

    @abstractmethod
    def replayers(self, partition: int) -> list[int]:
        """Return the live partitions that send a lost partition again what they keep for it, rising."""
