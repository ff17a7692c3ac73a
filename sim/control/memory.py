"""Memory of each task over time: its state, its queue, outputs that it keeps, and copies of moving states.

States, queues and kept outputs are known at samples, of which the first is at the start. While states move in steps
(`sim/migration/reconfiguration.py`) there is a row at each change in between, too. Its state is that of the last sample
with what has come and gone since.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from models.topology.layout import output_bytes
from sim.control.run_state import StateOn
from sim.data_plane import CountingPlane
from sim.plane_values import sizes_of_states

_STORED, _QUEUED, _KEPT, _SENT, _RECEIVED = range(5)  # in the order of the columns of the table


class Memory:
    """Writes the rows of the table `memory`; does nothing in a run that does not ask for it."""

    def __init__(self, state: StateOn[CountingPlane]) -> None:
        self.state, self.cluster = state, state.cluster
        self.wanted = state.plan.scenario.recording.memory
        self._held = np.zeros((5, 0), np.int64)  # [B], by task
        self._input_bytes, self._output_bytes = self._sizes()

    def _sizes(self) -> tuple[list[int], list[int]]:
        """Return the size of tuples that come to each operator, of the largest input, and of those that it makes."""
        operators, size = self.state.plan.operators, output_bytes(self.state.plan.scenario)
        made = [round(size.get(one.name, 0.0)) for one in operators]
        come = [0] * len(operators)
        for one in operators:
            for edge in one.edges:
                come[edge.down.index] = max(come[edge.down.index], made[one.index])
        return come, made

    def sample(self) -> None:
        """Write a row for each live task: what it holds now. Copies that it holds are not forgotten."""
        if not self.wanted:
            return
        before, tasks = self._held, len(self.cluster.task_operator)
        self._held = np.zeros((5, tasks), np.int64)
        self._held[_SENT:, : before.shape[1]] = before[_SENT:]
        partitions, sizes = sizes_of_states(self.state.plane.statistics())
        np.add.at(self._held[_STORED], np.array(self.cluster.partition_task)[partitions], sizes)
        live = []
        for task, _, queue, _, buffered in np.asarray(self.state.plane.samples()).tolist():
            operator = self.cluster.task_operator[task]
            self._held[_QUEUED, task] = queue * self._input_bytes[operator]
            self._held[_KEPT, task] = buffered * self._output_bytes[operator]
            live.append(task)
        self._write(live)

    def _know(self, task: int) -> None:
        """Have room for a task that has started since the last sample."""
        missing = task + 1 - self._held.shape[1]
        if missing > 0:
            self._held = np.pad(self._held, ((0, 0), (0, missing)))

    def leaves(self, task: int, size: int, copies: float) -> None:
        """Note that a state has left a task, which holds so many copies of it until it has been installed."""
        if self.wanted:
            self._know(task)
            # A state may have grown since the last sample: a task that gives all of it away has none.
            self._held[_STORED, task] = max(0, self._held[_STORED, task] - size)
            self._held[_SENT, task] += round(copies * size)
            self._write((task,))

    def comes(self, task: int, size: int, copies: float) -> None:
        """Note that a state has come to a task, which holds so many copies of it until it is installed."""
        if self.wanted:
            self._know(task)
            self._held[_RECEIVED, task] += round(copies * size)
            self._write((task,))

    def installed(self, task: int, size: int) -> None:
        """Note that a state is live at a task: one of its copies is the state from now on."""
        if self.wanted:
            self._held[_STORED, task] += size
            self._held[_RECEIVED, task] -= size
            self._write((task,))

    def forgotten(self, tasks: Collection[int]) -> None:
        """Note that tasks have given up all copies."""
        if self.wanted and tasks:
            self._know(max(tasks))
            self._held[_SENT:, [*tasks]] = 0
            self._write(tasks)

    def lost(self, tasks: Collection[int]) -> None:
        """Note that tasks are gone, with all copies."""
        known = [task for task in tasks if task < self._held.shape[1]]
        self._held[:, known] = 0

    def _write(self, tasks: Collection[int]) -> None:
        now, rows = self.state.clock.now_ns(), self.state.recorder.rows["memory"]
        for task in tasks:
            rows.append((now, task, self.cluster.task_host[task], *self._held[:, task].tolist()))
