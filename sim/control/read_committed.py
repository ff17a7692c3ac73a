"""Readers of committed outputs: sinks take what tasks have sent only once these have committed."""

from __future__ import annotations

from models.steady_state.checkpoint_traffic import due_every_ns
from sim.clock import Process
from sim.control.instances import Instances
from sim.control.run_state import StateOn
from sim.data_plane import ParcelPlane


class ReadCommitted:
    """Opens sinks for an instant each time when all live partitions have stored the checkpoints of a round.

    Sinks are paused in between. What was sent after those checkpoints is visible with them, and so are outputs of a
    task that dies before it commits: the next round opens the sinks for what is there. All commit at the same instants,
    so this makes outputs visible earlier by an interval at most, where a transaction of each thread would not.
    """

    def __init__(self, state: StateOn[ParcelPlane], instances: Instances) -> None:
        self.state, self.cluster = state, state.cluster
        tolerance, operators = state.plan.scenario.fault_tolerance, state.plan.operators
        rules = tolerance.changelogs
        self._is_asked = rules is not None and rules.visible == "committed"
        self._operators = operators
        self._commit = [
            one
            for one, its in enumerate(self.cluster.partition_operator)
            if self._is_asked and tolerance.saves(operators[its].description)
        ]
        self._due: set[int] = set()  # partitions that have not committed in this round
        if self._is_asked:
            instances.task_added.append(self._close)

    def start(self) -> None:
        """Close the sinks, if they are to wait for commits."""
        if not self._is_asked:
            return
        for task in range(len(self.cluster.task_operator)):
            self._close(task)
        for partition in self._commit:
            self.state.plane.announce(partition)
        self.state.clock.process(self._rounds())

    def stored(self, partition: int) -> None:
        """Note that the checkpoint of a partition is stored."""
        if self._is_asked:
            self.state.plane.announce(partition)
            if partition in self._due:
                self._due.remove(partition)
                self._open_if_all()

    def _rounds(self) -> Process:
        clock, every_ns = self.state.clock, due_every_ns(self.state.plan.scenario)
        while True:
            yield clock.timeout(every_ns)
            self._due = {one for one in self._commit if self.cluster.partition_live[one]}
            self._open_if_all()

    def _open_if_all(self) -> None:
        """Let sinks take what is there, if nobody has to commit any more."""
        for task, alive in enumerate(self.cluster.task_alive) if not self._due else ():
            if alive and self._is_sink(task):
                self.state.plane.unpause(task)
                self._close(task)

    def _close(self, task: int) -> None:
        if self._is_sink(task):
            self.state.plane.pause(task, None)

    def _is_sink(self, task: int) -> bool:
        return self._operators[self.cluster.task_operator[task]].is_sink
