"""The acker: which roots are done, which have failed, and acks that wait until the state of their task is saved.

A source tuple is the root of a tree: all that follows from it until nothing more does. In Storm every task sends the
acker one number for each tuple that it has processed: the ids of that tuple and of the tuples it made of it, combined
by XOR. A root is done when the XOR of its numbers is zero: when what has come speaks of each tuple twice, as made and
as processed. Then all of the tree has been acknowledged, so it is enough to count the tuples whose acks have not come.
Where all acks take one latency, and none is lost alone, the last one comes one latency after the last tuple was
processed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from models.scenario.recovery_methods import Acker as Description
from sim.clock import MESSAGE, channel
from sim.plain.channels import Channels
from sim.plain.partition import Partition, TaskView, Tree
from sim.plane_values import Failed


@dataclass
class WaitingAck:
    """An ack that waits at a task until its state is saved; it is `prepared` once a snapshot has what it is for."""

    tree: Tree
    prepared: bool = False


class Acker:
    """Follows the trees of all roots.

    `pending` has the last attempt of each root that is not done, by source in the order of emission. It outlives tasks,
    as the log does from which the source reads.

    The first attempt of a source is the one that fails next: an attempt enters at the end, whatever its root.
    """

    def __init__(self, plane: Channels, description: Description) -> None:
        self.plane, self.description = plane, description
        # In a plain dict, to find the first entry takes as long as entries before it have been deleted.
        self.pending: dict[Partition, OrderedDict[int, Tree]] = {}
        self.waiting: dict[TaskView, list[WaitingAck]] = {}

    def is_full(self, source: Partition) -> bool:
        """Return whether the source may emit nothing, as too many of its roots are not done."""
        most = self.description.pending
        return most is not None and len(self.pending.get(source, ())) >= most

    def begin(self, source: Partition, sequence: int) -> Tree:
        """Begin an attempt of the root that the source emits now."""
        tree = Tree(source, sequence, self.plane.clock.now_ns())
        self.pending.setdefault(source, OrderedDict())[sequence] = tree
        return tree

    def emitted(self, tree: Tree) -> None:
        """Note that the root is emitted, and its tree begun."""
        self._count()
        if not tree.left:  # nobody takes it
            self._complete(tree)

    def processed(self, tree: Tree, task: TaskView) -> None:
        """Note that a task has processed a tuple of the tree and made all that follows from it."""
        described = task.operator.description
        if self.description.acks == "covered" and described.state is not None and not task.operator.is_sink:
            self.waiting.setdefault(task, []).append(WaitingAck(tree))
        else:
            self._ack(tree, task)

    def prepare(self, task: TaskView) -> None:
        """Mark the acks that wait at the task."""
        for one in self.waiting.get(task, ()):
            one.prepared = True

    def commit(self, task: TaskView) -> None:
        """Send the marked acks of the task."""
        here = self.waiting.pop(task, [])
        self.waiting[task] = [one for one in here if not one.prepared]
        for one in here:
            if one.prepared:
                self._ack(one.tree, task)

    def fail_waiting(self, task: TaskView) -> Failed:
        """Let the roots fail whose acks wait at the task."""
        here = self.waiting.pop(task, [])
        for _ in here:
            self._count()
        return self._fail(one.tree for one in here)

    def lose(self, task: TaskView) -> None:
        """Forget the acks that wait at a task that died."""
        self.waiting.pop(task, None)

    def expire(self, before_ns: int) -> Failed:
        """Let the roots fail that were emitted last before that instant."""
        late = [
            tree
            for source in self.plane.sources
            for tree in takewhile(
                lambda tree: tree.emitted_ns < before_ns, self.pending.get(source.partition, OrderedDict()).values()
            )
        ]
        return self._fail(late)

    def oldest_ns(self) -> int | None:
        """Return when the root was emitted last that waits longest, or None without one."""
        return min((next(iter(own.values())).emitted_ns for own in self.pending.values() if own), default=None)

    def _count(self) -> None:
        size = round(self.description.ack_bytes)
        self.plane.recorder.message(self.plane.clock.now_ns(), "ack", 1, size)

    @property
    def _travels(self) -> bool:
        """Return whether acks are sent over the links."""
        return self.description.transport == "links"

    def _ack(self, tree: Tree, task: TaskView) -> None:
        self._count()
        if self._travels:
            self._send(tree, task)
            return
        tree.left -= 1
        if not tree.left and self._is_last(tree):
            self._complete(tree)

    def _send(self, tree: Tree, task: TaskView) -> None:
        """Send an ack to where the source of the root is now: each task of a source has its acker beside it."""
        goal, latency_ns = tree.source.task, self.plane.plan.latency_ns
        rank = channel(MESSAGE, goal.index, task.index)

        def comes(arrival_ns: int) -> None:
            # The event cannot be cancelled: an ack is void if its sender died before the last byte had left.
            self.plane.clock.at(
                arrival_ns,
                rank,
                lambda _: None if task.died_by(arrival_ns - latency_ns) else self._comes(tree, goal),
            )

        self.plane.transmit(task, goal, round(self.description.ack_bytes), comes)

    def _comes(self, tree: Tree, goal: TaskView) -> None:
        """Take in an ack, unless the task beside it has died: then its root fails in time."""
        if goal.alive:
            tree.left -= 1
            if not tree.left:
                self._done(tree)

    def _is_last(self, tree: Tree) -> bool:
        """Return whether it is the last attempt of a root that is not done."""
        return self.pending[tree.source].get(tree.sequence) is tree

    def _complete(self, tree: Tree) -> None:
        """Have the root done when the last ack has come, unless it fails before."""
        clock, task = self.plane.clock, tree.source.task.index
        at_ns = clock.now_ns() + (0 if self._travels else self.plane.plan.latency_ns)
        clock.at(at_ns, channel(MESSAGE, task, task), lambda _: self._done(tree))

    def _done(self, tree: Tree) -> None:
        if self._is_last(tree):
            del self.pending[tree.source][tree.sequence]
            if self.description.pending is not None:
                self._let_emit()
                self.plane.tell()

    def _fail(self, trees: Iterable[Tree]) -> Failed:
        """Give the roots of these attempts back to their sources, which emit them as soon as they can."""
        again = {source.partition: source.again for source in self.plane.sources}
        failed: dict[int, int] = {}
        for tree in trees:
            if self._is_last(tree):
                del self.pending[tree.source][tree.sequence]
                again[tree.source].append(tree.sequence)
                operator = tree.source.operator.index
                failed[operator] = failed.get(operator, 0) + 1
        # All have failed before one is emitted again: that begins a new attempt.
        self._let_emit()
        return sorted(failed.items())

    def _let_emit(self) -> None:
        for source in self.plane.sources:
            if source.partition.live:
                source.catch_up()


class Acks(Channels):
    """The verbs of `sim.data_plane.AckerPlane`."""

    def expire(self, before_ns: int) -> Failed:
        """Let roots fail that were emitted before that instant."""
        failed = self._acker().expire(before_ns)
        self.tell()
        return failed

    def oldest_root_ns(self) -> int | None:
        """Return when the root was emitted that waits longest."""
        return self._acker().oldest_ns()

    def prepare_acks(self, task: int) -> None:
        """Mark the acks that wait at the task."""
        self._acker().prepare(self.tasks[task])

    def commit_acks(self, task: int) -> None:
        """Send the marked acks."""
        self._acker().commit(self.tasks[task])

    def fail_acks(self, task: int) -> Failed:
        """Let the roots fail whose acks wait at the task."""
        failed = self._acker().fail_waiting(self.tasks[task])
        self.tell()
        return failed

    def _acker(self) -> Acker:
        if not isinstance(self.acker, Acker):
            raise ValueError("the run has no acker")
        return self.acker
