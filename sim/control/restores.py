"""Restores beside tasks: threads of a host turn bytes into state, and share what is to be done evenly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sim.clock import HOST_RECEIVER, MESSAGE, Clock, channel


@dataclass(eq=False)
class Restore:
    """Hold the reads of a host: the work that is left of each on a thread of its own [ns]."""

    host: int
    work_ns: int
    copy: bool  # of a state that is elsewhere: it waits while one that is lost is restored
    ended: Callable[[], None]
    left_ns: int


@dataclass
class _Threads:
    """The threads of one host, since it was there last."""

    count: int
    restores: list[Restore] = field(default_factory=list)
    since_ns: int = 0  # until when what is left is counted
    turn: int = 0  # grows with each change, so that an end that was planned before it is none

    @property
    def at_work(self) -> list[Restore]:
        """Return what is read now: copies only where nothing else is."""
        return [one for one in self.restores if not one.copy] or self.restores


class Restores:
    """Threads for restores, so many of each host; n restores each get min(1, threads / n) of one."""

    def __init__(self, clock: Clock, threads: Sequence[int]) -> None:
        self._clock, self._counts = clock, threads
        self._threads: dict[int, _Threads] = {}

    def begin(self, host: int, work_ns: int, ended: Callable[[], None], copy: bool = False) -> Restore:
        """Begin to read on a host; `ended` is called when it is done, unless the host dies or it is called off."""
        threads = self._threads.setdefault(host, _Threads(self._counts[host]))
        self._count(threads)
        restore = Restore(host, work_ns, copy, ended, work_ns)
        threads.restores.append(restore)
        self._plan(host, threads)
        return restore

    def extend(self, restore: Restore, work_ns: int) -> None:
        """Have more to read in a restore that is not done."""
        threads = self._threads[restore.host]
        self._count(threads)
        restore.work_ns += work_ns
        restore.left_ns += work_ns
        self._plan(restore.host, threads)

    def call_off(self, restore: Restore) -> None:
        """End a restore that is not done, which has counted what is left of it."""
        threads = self._threads.get(restore.host)
        if threads is not None and restore in threads.restores:
            self._count(threads)
            threads.restores.remove(restore)
            self._plan(restore.host, threads)

    def count(self, host: int) -> None:
        """Count what is left now of all that is read on a host."""
        if host in self._threads:
            self._count(self._threads[host])

    def host_died(self, host: int) -> None:
        """End all that is read on a host, which is dead."""
        self._threads.pop(host, None)

    def _count(self, threads: _Threads) -> None:
        """Count what was done since the last change; rounded down, so that nothing ends too early."""
        now, at_work = self._clock.now_ns(), threads.at_work
        for one in at_work:
            one.left_ns -= (now - threads.since_ns) * min(threads.count, len(at_work)) // len(at_work)
            one.left_ns = max(0, one.left_ns)
        threads.since_ns = now

    def _plan(self, host: int, threads: _Threads) -> None:
        """Have what is done first end at its instant."""
        threads.turn += 1
        at_work, turn = threads.at_work, threads.turn
        if at_work:
            least, share = min(one.left_ns for one in at_work), min(threads.count, len(at_work))
            at_ns = self._clock.now_ns() - (-least * len(at_work) // share)
            rank = channel(MESSAGE, HOST_RECEIVER + host, 0)
            self._clock.at(at_ns, rank, lambda _: self._end(host, threads, turn))

    def _end(self, host: int, threads: _Threads, turn: int) -> None:
        if self._threads.get(host) is not threads or threads.turn != turn:
            return
        self._count(threads)
        done = [one for one in threads.at_work if one.left_ns == 0]
        threads.restores = [one for one in threads.restores if one not in done]
        self._plan(host, threads)
        for one in done:
            one.ended()
