"""Reads of states by all tasks that are restored at once: n of them that read one place get 1/n of its rate each.

A place is the remote store, or the disk of a host, which has copies (`sim.control.local_copies`).

No checkpoint is written meanwhile: a failure ends those under way, and none begins before all tasks run again. So the
plane's queue of the store, where one after the other is read or written, has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.clock import MESSAGE, channel
from sim.control.restores import Restore, Restores
from sim.control.run_state import StateOn
from sim.data_plane import Plane
from sim.plane_values import REMOTE

_NS = 1_000_000_000


@dataclass
class _Reads:
    """Hold what a task reads, by place; `there_ns` is when what it has read already is there."""

    at: dict[int, Restore] = field(default_factory=dict)
    ended: list[Callable[[], None]] = field(default_factory=list)
    there_ns: int = 0


class SharedReads:
    """Has each task read the states of its partitions, all of which are there at one instant."""

    def __init__(self, state: StateOn[Plane]) -> None:
        self._clock, self._latency_ns = state.clock, state.plan.latency_ns
        tolerance = state.plan.scenario.fault_tolerance
        self._store_rate, copies = tolerance.remote_bytes_per_s, tolerance.local_recovery
        self._disk_rate = copies.disk_bytes_per_s if copies else None
        self._places = Restores(state.clock, [1] * (len(state.plan.host_names) + 1))  # the first is the store
        self._reads: dict[int, _Reads] = {}  # by task

    def read(self, task: int, place: int, size: int, ended: Callable[[], None]) -> None:
        """Have a task read so many bytes more from REMOTE or the disk of a host.

        `ended` is called when it has read all that it reads anywhere, from the store a latency later, unless it dies.
        """
        rate = self._store_rate if place == REMOTE else self._disk_rate
        work_ns = 0 if rate is None else round(size * _NS / rate)
        reads = self._reads.setdefault(task, _Reads())
        reads.ended.append(ended)
        if place in reads.at:
            self._places.extend(reads.at[place], work_ns)
        else:
            reads.at[place] = self._places.begin(place - REMOTE, work_ns, lambda: self._done(task, place))

    def died(self, task: int) -> None:
        """End what a task reads, which is dead; others have its share."""
        reads = self._reads.pop(task, _Reads())
        for read in reads.at.values():
            self._places.call_off(read)

    def _done(self, task: int, place: int) -> None:
        reads, now = self._reads[task], self._clock.now_ns()
        del reads.at[place]
        reads.there_ns = max(reads.there_ns, now + (self._latency_ns if place == REMOTE else 0))
        if reads.at:
            return
        del self._reads[task]

        def arrived(_: object) -> None:
            for ended in reads.ended:
                ended()

        self._clock.at(reads.there_ns, channel(MESSAGE, task, task), arrived)
