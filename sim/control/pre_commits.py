"""The first phase of two-phase commits: a sink ends its transaction when the barrier of a checkpoint has come.

The transaction is committed, and what is in it visible, when the checkpoint is complete (`analysis.runs.visibility`).
One of a checkpoint that is given up is committed with the next: its tuples are delivered once.
"""

from __future__ import annotations

from sim.control.run_state import RunState


class PreCommits:
    """Notes what each task of a sink that commits at checkpoints had delivered when a barrier came."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        operators = state.plan.operators
        self._sinks = {one.index for one in operators if one.description.commit == "at-checkpoint"}
        self.rows: list[tuple[int, int, int, int, int]] = []

    def note(self, checkpoint: int, task: int) -> None:
        """Note that the barrier of a checkpoint has come to a task, which takes its part of it now."""
        operator = self.state.cluster.task_operator[task]
        if operator in self._sinks:
            plane, now = self.state.plane, self.state.clock.now_ns()
            self.rows.append((checkpoint, operator, task, now, plane.deliveries()))
