"""Tasks that look at all key groups of their operator in each round, which costs time (`operators.X.scan`).

A round is a message that a task sends itself through its queue: at its turn the task is occupied for the scan, and then
sends the next one, which goes behind what came meanwhile. So a tuple waits for the scan that is under way as it comes,
and is served after it. A task that has nothing else to do scans all the time. It is idle between the end of a round and
the message for the next one, which comes at the same instant: so it catches up with an outage.
"""

from __future__ import annotations

from models.units import to_ns
from sim.control.run_state import StateOn
from sim.data_plane import ActionPlane


class Scans:
    """Sends each task its rounds, from the begin of the run on, or from its own."""

    def __init__(self, state: StateOn[ActionPlane]) -> None:
        self.state = state
        self._scan_ns: dict[int, int] = {}  # by token: each task has one, for all of its rounds

    def start(self) -> None:
        """Begin the first round of each task."""
        for task in range(len(self.state.cluster.task_operator)):
            self.begin(task)

    def begin(self, task: int) -> None:
        """Begin the first round of a task, if it scans."""
        described = self.state.plan.operators[self.state.cluster.task_operator[task]].description
        if described.scan_s is not None:
            token = self.state.new_token()
            self._scan_ns[token] = max(1, to_ns(described.scan_s * described.groups))
            self._next(token, task)

    def comes(self, token: int, task: int) -> bool:
        """Begin the next round if the message is of one, which is over; return whether it is."""
        if token not in self._scan_ns:
            return False
        self._next(token, task)
        return True

    def _next(self, token: int, task: int) -> None:
        self.state.plane.send(task, task, token, turn=True, work_ns=self._scan_ns[token])
