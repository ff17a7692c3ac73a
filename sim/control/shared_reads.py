"""Reads of the remote store by all tasks that are restored at once: n of them get 1/n of its rate each.

No checkpoint is written meanwhile: a failure ends those under way, and none begins before all tasks run again. So the
plane's queue of the store, where one after the other is read or written, has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.clock import MESSAGE, channel
from sim.control.restores import Restore, Restores
from sim.control.run_state import StateOn
from sim.data_plane import Plane

_NS = 1_000_000_000
_STORE = 0


class SharedReads:
    """Has each task read the states of its partitions, all of which are there at one instant."""

    def __init__(self, state: StateOn[Plane]) -> None:
        self._clock, self._latency_ns = state.clock, state.plan.latency_ns
        self._rate = state.plan.scenario.fault_tolerance.remote_bytes_per_s
        self._store = Restores(state.clock, [1])
        self._reads: dict[int, Restore] = {}  # task -> what it reads
        self._ended: dict[int, list[Callable[[], None]]] = {}  # task -> calls when it has read that

    def read(self, task: int, size: int, ended: Callable[[], None]) -> None:
        """Have a task read so many bytes more; `ended` is called a latency after it has read all, unless it dies."""
        work_ns = round(size * _NS / self._rate)
        if task in self._reads:
            self._store.extend(self._reads[task], work_ns)
        else:
            self._ended[task] = []
            self._reads[task] = self._store.begin(_STORE, work_ns, lambda: self._done(task))
        self._ended[task].append(ended)

    def died(self, task: int) -> None:
        """End what a task reads, which is dead; others have its share."""
        self._ended.pop(task, None)
        read = self._reads.pop(task, None)
        if read is not None:
            self._store.call_off(read)

    def _done(self, task: int) -> None:
        del self._reads[task]
        calls = self._ended.pop(task)

        def arrived(_: object) -> None:
            for ended in calls:
                ended()

        self._clock.at(self._clock.now_ns() + self._latency_ns, channel(MESSAGE, task, task), arrived)
