"""Reads of states that end at steps, in any order, in place of instants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sim.clock import Clock, Process
from sim.control.restores import Restore, Restores, _Threads


class SteppedRestores(Restores):
    """Restores whose ends are steps: any of those that a host is at may be the next."""

    def __init__(self, clock: Clock, threads: Sequence[int], begins: Callable[[], None]) -> None:
        super().__init__(clock, threads)
        self._begins = begins

    def begin(self, host: int, work_ns: int, ended: Callable[[], None], copy: bool = False) -> Restore:
        """Begin to read; the end is a step."""
        self._begins()
        restore = super().begin(host, work_ns, ended, copy)
        self._clock.process(self._ends(restore, self._threads[host]))
        return restore

    def _ends(self, restore: Restore, threads: _Threads) -> Process:
        clock: Any = self._clock
        while restore in threads.restores and self._threads.get(restore.host) is threads:
            yield clock.when(lambda: restore not in threads.restores or restore in threads.at_work)
            if restore in threads.at_work and self._threads.get(restore.host) is threads:
                restore.left_ns = 0
                threads.restores.remove(restore)
                restore.ended()

    def _count(self, threads: _Threads) -> None:
        """Count nothing: time is steps."""

    def _plan(self, host: int, threads: _Threads) -> None:
        """Plan nothing."""
