"""The verbs by which roots fail or are acknowledged: a part of the compiled plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from sim.clock import Clock
from sim.kernel.event_loop import expiry, roots
from sim.kernel.event_loop.codes import NONE
from sim.kernel.tools.pointer import State
from sim.plane_values import Failed

if TYPE_CHECKING:
    from sim.control.cluster import RunPlan


class Acks(ABC):
    """The verbs of `sim.data_plane.AckerPlane`."""

    state: State
    _plan: RunPlan
    _clock: Clock

    @abstractmethod
    def _now(self) -> None:
        """Verbs act at the instant of the clock."""

    @abstractmethod
    def _room(self, need: int) -> None:
        """Make room for so many sendings."""

    @abstractmethod
    def _tell(self) -> None:
        """Tell the listener what came up."""

    def expire(self, before_ns: int) -> Failed:
        """Roots that were emitted before that instant fail."""
        self._check_acker()
        self._room_to_fail(int(expiry.late(self.state, before_ns)))
        failed = np.zeros(self.state.operators.shape[0], np.int64)
        expiry.expire(self.state, before_ns, failed)
        self._tell()
        return _rows(failed)

    def oldest_root_ns(self) -> int | None:
        """Return when the root was emitted that waits longest."""
        self._check_acker()
        found = int(expiry.oldest(self.state))
        return None if found == NONE else found

    def prepare_acks(self, task: int) -> None:
        """Mark the acks that wait at the task."""
        self._check_acker()
        roots.prepare(self.state, task)

    def commit_acks(self, task: int) -> None:
        """Send the marked acks."""
        self._check_acker()
        self._room(int(self.state.acks_at["prepared"][task]) + 2)
        roots.commit(self.state, task)

    def fail_acks(self, task: int) -> Failed:
        """The roots fail whose acks wait at the task."""
        self._check_acker()
        self._room_to_fail(int(self.state.acks_at["count"][task]))
        failed = np.zeros(self.state.operators.shape[0], np.int64)
        expiry.fail_acks(self.state, task, failed)
        self._tell()
        return _rows(failed)

    def _room_to_fail(self, most: int) -> None:
        """Make room for so many roots that are emitted again at once."""
        self._room((int(self.state.options["fan_out"]) + 3) * (most + 2))

    def _unfinished(self, source: int) -> np.ndarray:
        """Return the numbers of the tuples of a source that are not done (n,)."""
        self._now()
        most = int(self.state.pending["count"][source] + self.state.sources["again_n"][source])
        found = np.zeros(most, np.int64)
        return found[: int(expiry.unfinished(self.state, source, found))]

    def _check_acker(self) -> None:
        if self._plan.acker is None:
            raise ValueError("the run has no acker")
        self._now()


def _rows(failed: np.ndarray) -> Failed:
    found: list[tuple[int, int]] = [(operator, count) for operator, count in enumerate(failed.tolist()) if count]
    return found
