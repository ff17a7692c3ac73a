"""Sources of which control says what is read: they emit some of their arrivals at once, and may do so once more.

Their arrivals are in the memory of Python, from the first on, and the kernel gets those that are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sim.kernel.event_loop.buffers import forget_live
from sim.kernel.event_loop.channels import emit
from sim.kernel.event_loop.entities import SOURCE_ARRIVAL
from sim.kernel.event_loop.rows import record_visit
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import source_id
from sim.kernel.tools.pointer import State

if TYPE_CHECKING:
    from sim.arrival_stream import ArrivalStream
    from sim.control.cluster import Cluster, RunPlan

_NEVER = np.iinfo(np.int64).max


@kernel
def emit_read(state: State, source: int, first: int, arrivals: np.ndarray) -> None:
    """Emit arrivals (n,) that were read, of which the first has this number, whether or not others are unsent."""
    b = state.sources[source]
    operator, task = state.partitions[b.partition].operator, state.partitions[b.partition].task
    for k in range(arrivals.shape[0]):
        arrival = arrivals[k]
        record_visit(state, operator, task, arrival.time, state.clock.now, state.clock.now)
        emit(state, b.partition, source_id(b.code, first + k), arrival.time, arrival.key)


class NumberSet:
    """A set of whole numbers, as ranges (first, end) in order, none of which touch."""

    def __init__(self) -> None:
        self._firsts, self._ends = list[int](), list[int]()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._ends, strict=True)

    def __len__(self) -> int:
        return sum(self._ends) - sum(self._firsts)

    def add(self, first: int, end: int) -> None:
        """Add the numbers first .. end - 1."""
        begin, stop = bisect_left(self._ends, first), bisect_right(self._firsts, end)
        if begin < stop:
            first, end = min(first, self._firsts[begin]), max(end, self._ends[stop - 1])
        self._firsts[begin:stop], self._ends[begin:stop] = [first], [end]

    def remove(self, first: int, end: int) -> None:
        """Take the numbers first .. end - 1 out."""
        begin, stop = bisect_right(self._ends, first), bisect_left(self._firsts, end)
        left = list[tuple[int, int]]()
        if begin < stop:
            left = [(self._firsts[begin], first), (end, self._ends[stop - 1])]
        left = [one for one in left if one[0] < one[1]]
        self._firsts[begin:stop], self._ends[begin:stop] = [one[0] for one in left], [one[1] for one in left]

    def first_missing(self) -> int:
        """Return the least number from 0 on that is not in it."""
        return self._ends[0] if self._firsts and self._firsts[0] == 0 else 0


class Log:
    """The arrivals at a source from the first on, as far as they were asked for."""

    def __init__(self, stream: ArrivalStream) -> None:
        self._stream, self._room, self._have = stream, np.zeros(0, SOURCE_ARRIVAL), 0
        self.read = NumberSet()

    @property
    def arrivals(self) -> np.ndarray:
        """Return those that are known (n,)."""
        return self._room[: self._have]

    def has(self, number: int) -> bool:
        """Return whether there are more than so many arrivals."""
        while self._have <= number and self._draw():
            pass
        return self._have > number

    def before(self, instant_ns: int) -> int:
        """Return how many there are before an instant."""
        while (not self._have or self._room["time"][self._have - 1] < instant_ns) and self._draw():
            pass
        return int(np.searchsorted(self.arrivals["time"], instant_ns))

    def _draw(self) -> bool:
        times_ns, keys = next(self._stream, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
        upto = self._have + times_ns.size
        if upto > self._room.size:
            room = np.zeros(2 * upto, SOURCE_ARRIVAL)
            room[: self._have] = self.arrivals
            self._room = room
        self._room["time"][self._have : upto], self._room["key"][self._have : upto] = times_ns, keys
        self._have = upto
        return bool(times_ns.size)


class Reading(ABC):
    """The verbs of `sim.data_plane.ReadingPlane`."""

    state: State
    _plan: RunPlan
    _cluster: Cluster

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._logs: dict[int, Log] = {}  # by source, of those that control reads

    @abstractmethod
    def _room(self, need: int) -> None:
        """Make room for so many sendings."""

    @abstractmethod
    def _tell(self) -> None:
        """Tell the listener what came up."""

    @abstractmethod
    def _arrival_streams(self) -> list[ArrivalStream]:
        """Return the arrivals at each source from the first on."""

    def _open_logs(self) -> None:
        """Have control read what it asks to read: these sources have no arrivals of their own."""
        operators = self.state.partitions["operator"][self.state.sources["partition"]]
        read = [k for k, operator in enumerate(operators.tolist()) if self._plan.operators[operator].is_read]
        if read:
            streams = self._arrival_streams()
            self._logs = {source: Log(streams[source]) for source in read}
        for source in read:
            self.state.sources["more"][source] = 0
            self._note_unread(source)

    def _source(self, partition: int) -> int:
        return int(np.flatnonzero(self.state.sources["partition"] == partition)[0])

    def _note_unread(self, source: int) -> None:
        log = self._logs[source]
        number = log.read.first_missing()
        self.state.sources["unread"][source] = log.arrivals["time"][number] if log.has(number) else _NEVER

    def arrived(self, partition: int, before_ns: int) -> int:
        """Return how many tuples arrive at a source before an instant."""
        return self._logs[self._source(partition)].before(before_ns)

    def arrival_ns(self, partition: int, number: int) -> int | None:
        """Return when a tuple arrives at a source; None if there are not so many."""
        log = self._logs[self._source(partition)]
        return int(log.arrivals["time"][number]) if log.has(number) else None

    def read(self, partition: int, first: int, end: int) -> None:
        """Have a source emit these arrivals now."""
        source = self._source(partition)
        log = self._logs[source]
        self._room((int(self.state.options["fan_out"]) + 2) * (end - first + 2))
        emit_read(self.state, source, first, log.arrivals[first:end])
        log.read.add(first, end)
        self._note_unread(source)
        self._tell()

    def read_again(self, partition: int, ranges: Sequence[tuple[int, int]]) -> None:
        """Forget what a source keeps, and that it has emitted these arrivals."""
        source = self._source(partition)
        forget_live(self.state, partition)
        for first, end in ranges:
            self._logs[source].read.remove(first, end)
        self._note_unread(source)
