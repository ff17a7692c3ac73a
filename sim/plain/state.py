"""The state of a run that all verbs of the plain engine share, and the pending calls of the listener."""

from __future__ import annotations

from collections.abc import Iterator

from models.units import to_ns
from sim.clock import Clock
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import Listener
from sim.plain.host import Host
from sim.plain.link import Link
from sim.plain.partition import Message, Partition, TaskView, Visit
from sim.plain.recorder import Recorder
from sim.plain.source import Source
from sim.plain.task import Task
from sim.plain.views import WatermarksView


class PlaneState:
    """Everything that lives in one replication: hosts, tasks, partitions, and tuples on their way between tasks.

    Hosts, tasks and partitions are found by their numbers, which are those of the cluster. `wire` holds every tuple
    that is under way, with the task it goes to, in the order of sending.
    """

    sources: list[Source]
    watermarks: WatermarksView

    def __init__(self, plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener) -> None:
        self.plan, self.cluster, self.clock, self.listener = plan, cluster, clock, listener
        self.recorder = Recorder()
        self.drops_duplicates = plan.drops_duplicates
        self.warmup_ns = to_ns(plan.scenario.warmup_s)
        self.remote = Link(plan.scenario.fault_tolerance.remote_bytes_per_s, plan.latency_ns)
        self.hosts = [
            Host(clock, index, name, group, plan.latency_ns, plan.fair)
            for index, (name, group) in enumerate(zip(plan.host_names, plan.host_groups, strict=True))
        ]
        self.tasks: list[Task] = []
        self.partitions: list[list[Partition]] = [[] for _ in plan.operators]
        self.wire: dict[Visit, TaskView] = {}
        self.never_sent = 0  # outputs that were lost in the outbox of a dead task
        self._numbered: list[Partition] = []  # by number: those of the plan, then further instances
        self._planned = 0  # how many are of the plan
        self._sendings = 0
        self._watched: frozenset[int] = frozenset()
        self._told: list[tuple[TaskView | Partition, Message | None]] = []  # None: the task is idle
        self._telling = False

    # -- look-ups

    def all_partitions(self) -> Iterator[Partition]:
        """Yield every partition of the plan, by operator and index."""
        for partitions in self.partitions:
            yield from partitions

    def instances(self) -> list[Partition]:
        """Return every partition, with the further instances of key groups."""
        return self._numbered

    def instances_of(self, group: Partition) -> list[Partition]:
        """Return the instances of a key group."""
        return [group, *(partition for partition in self._numbered[self._planned :] if partition.group is group)]

    def next_number(self) -> int:
        """Return the number of what is sent now."""
        self._sendings += 1
        return self._sendings - 1

    # -- telling

    def notice(self, task: TaskView) -> None:
        """Note that something ended at the task; the listener hears of it if the task is watched and now idle."""
        if task.index in self._watched and task.empty:
            self._told.append((task, None))

    def note_message(self, task: TaskView, message: Message) -> None:
        """Note a message that the task has in hand, for the listener."""
        self._told.append((task, message))

    def note_stored(self, partition: Partition) -> None:
        """Note that a checkpoint of the partition is stored, for the listener."""
        self._told.append((partition, None))

    def tell(self) -> None:
        """Make the calls to the listener that the event or verb has caused, one after the other.

        Calls that these cause in turn are made after them: the listener never runs inside itself.
        """
        if self._telling:
            return
        self._telling = True
        while self._told:
            task, message = self._told.pop(0)
            if isinstance(task, Partition):
                self.listener.stored(task.number)
            elif message is None:
                self.listener.idle(task.index)
            # A message that is in hand no longer was lost with its host while others were handled.
            elif message in task.in_hand:
                if message.channels:
                    self.listener.aligned(message.token, task.index)
                else:
                    self.listener.message(message.token, task.index)
                # The task starts nothing while the message is handled; the handler may have killed it.
                if task.alive:
                    task.in_hand.remove(message)
                    task.go_on()
                    self.notice(task)
        self._telling = False
