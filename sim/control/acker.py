"""Time-outs of roots, and rows about roots that have failed."""

from __future__ import annotations

from models.scenario.recovery_methods import Acker
from sim.clock import Process
from sim.control.run_state import StateOn
from sim.data_plane import AckerPlane
from sim.plane_values import Failed


class RootTimeouts:
    """Lets roots fail that are not done in time, and writes a row of `replays` for each source whose roots have failed.

    Rotating: roots are in two buckets, and each tick empties the older one. So at tick k those fail that were emitted
    before tick k - 1. Exact: a root fails one time-out after it was emitted.
    """

    def __init__(self, state: StateOn[AckerPlane]) -> None:
        self._state = state

    def start(self) -> None:
        """Start the process that watches the time-outs, in a run with an acker."""
        acker = self._state.plan.acker
        if acker is not None:
            self._state.clock.process(self._rotate(acker) if acker.expiry == "rotating" else self._watch(acker))

    def roll_back(self, task: int) -> None:
        """Let the roots fail at once whose acks wait at a task that goes back to an older snapshot."""
        self._note(self._state.plane.fail_acks(task), "rollback")

    def _rotate(self, acker: Acker) -> Process:
        every_ns, clock = acker.timeout_ns, self._state.clock
        while True:
            yield clock.sleep(clock.now_ns() + every_ns)
            self._expire(clock.now_ns() - every_ns)

    def _watch(self, acker: Acker) -> Process:
        """Wake when the root that waits longest has waited for the time-out; without one no root can fail before."""
        timeout_ns, clock = acker.timeout_ns, self._state.clock
        while True:
            oldest_ns = self._state.plane.oldest_root_ns()
            yield clock.sleep((clock.now_ns() if oldest_ns is None else oldest_ns) + timeout_ns)
            # Those that were emitted at the same instant fail with it.
            self._expire(clock.now_ns() - timeout_ns + 1)

    def _expire(self, before_ns: int) -> None:
        self._note(self._state.plane.expire(before_ns), "timeout")

    def _note(self, failed: Failed, cause: str) -> None:
        now = self._state.clock.now_ns()
        self._state.recorder.rows["replays"] += [(now, operator, count, cause) for operator, count in failed]
