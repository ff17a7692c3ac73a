"""Sources that read their logs file by file, or poll by poll.

A file has the records of a time, and can be read from its end on; a poll returns what is there, up to a number. Either
takes its time, and then its records are emitted at one instant. A task reads one after the other, and goes on only when
nothing that it has read is left to send. Which of several files comes next is what their order says.

A checkpoint of the job has the position of each source: what it had emitted when the barrier passed. A source that goes
back reads again whatever it has emitted since, together with what has come meanwhile: these are files like others, in
the same order.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from models.scenario.job import Reading
from models.units import to_ns
from sim.clock import Process
from sim.control.recoveries import Recoveries
from sim.control.run_state import RunState
from sim.draws import code_of, delay_ns, uniform


class _Piece(NamedTuple):
    """A file, or what a poll returns: arrivals `first` to `end - 1`; the least rank is read first."""

    rank: float
    first: int
    end: int


@dataclass(eq=False)
class _Reader:
    """Hold what the task of a source partition has read, and what it can read."""

    partition: int
    reading: Reading
    cost_code: int
    rank_code: int
    files: list[_Piece] = field(default_factory=list)  # that wait, in falling order of rank
    found: int = 0  # arrivals in files that are complete, or returned by polls
    polls: int = 0
    current: _Piece | None = None  # being read
    emitted: list[_Piece] = field(default_factory=list)  # since the last complete checkpoint, in this order
    passed: dict[int, int] = field(default_factory=dict)  # token -> how many of these the barrier has behind it
    is_behind: bool = False  # since it went back, until nothing is left to read
    wakes_ns: int = -1  # when it looks for the next record


class SourceReading:
    """Reads for all sources with `reading`, and goes back with them."""

    def __init__(self, state: RunState, recoveries: Recoveries) -> None:
        self.state, self.cluster, self.clock = state, state.cluster, state.clock
        self._catch_ups = recoveries.catch_ups
        self._goes_back = state.plan.scenario.fault_tolerance.job_checkpoints is not None
        self._readers: dict[int, _Reader] = {}  # by partition
        scenario, replication = state.plan.scenario, state.plan.replication
        for partition, index in enumerate(self.cluster.partition_operator):
            operator = state.plan.operators[index]
            reading = operator.description.reading
            if reading is not None:
                names = scenario.seed, replication, "reading", operator.name, self.cluster.partition_index[partition]
                self._readers[partition] = _Reader(
                    partition, reading, code_of(*names, "cost"), code_of(*names, "order")
                )
        recoveries.is_taking.append(self._is_behind)

    def start(self) -> None:
        """Begin to read: files as they are complete, polls as soon as there is something."""
        self._watch()
        of_file: dict[int, list[_Reader]] = {}
        for reader in self._readers.values():
            if reader.reading.file_s is not None:
                of_file.setdefault(to_ns(reader.reading.file_s), []).append(reader)
            else:
                self._go(reader)
        for file_ns, readers in of_file.items():
            self.clock.process(self._complete_files(file_ns, readers))

    # -- files and polls

    def _complete_files(self, file_ns: int, readers: Sequence[_Reader]) -> Process:
        """Find the file that is complete at each multiple of its time, also while the source is down."""
        number = 0
        while True:
            number += 1
            yield self.clock.sleep(number * file_ns)
            for reader in readers:
                end = self.state.plane.arrived(reader.partition, self.clock.now_ns())
                if end > reader.found:
                    self._enter(reader, reader.found, end)
                    reader.found = end
                    self._go(reader)

    def _enter(self, reader: _Reader, first: int, end: int) -> None:
        """Put a file among those that wait; its rank follows from its first record, and is the same each time."""
        ranks = {"written": first, "newest-first": -first, "shuffled": uniform(first, reader.rank_code)}
        insort(reader.files, _Piece(ranks[reader.reading.order], first, end), key=lambda one: (-one.rank, -one.first))

    def _next(self, reader: _Reader) -> _Piece | None:
        """Return what is to be read now; None if nothing is there."""
        if reader.reading.poll is None:
            return reader.files.pop() if reader.files else None
        there = self.state.plane.arrived(reader.partition, self.clock.now_ns() + 1)
        if there <= reader.found:
            return None
        first, reader.found = reader.found, min(there, reader.found + reader.reading.poll)
        reader.polls += 1
        return _Piece(first, first, reader.found)

    def _cost_ns(self, reader: _Reader, piece: _Piece) -> int:
        """Return how long reading takes [ns]: of a file the same each time that it is read."""
        law = reader.reading.cost
        number = piece.first if reader.reading.poll is None else reader.polls
        return 0 if law is None else delay_ns(law, number, reader.cost_code)

    # -- reading

    def _go(self, reader: _Reader) -> None:
        """Read what is there, unless the task is down, reads already, or has something left to send."""
        task = self.cluster.partition_task[reader.partition]
        while reader.current is None and self._runs(reader, task) and self.state.plane.empty(task):
            piece = self._next(reader)
            if piece is None:
                self._has_nothing(reader, task)
                return
            reader.current = piece
            cost_ns = self._cost_ns(reader, piece)
            if cost_ns:
                self.clock.process(self._read(reader, task, piece, self.clock.now_ns() + cost_ns))
                return
            self._emit(reader, piece)

    def _read(self, reader: _Reader, task: int, piece: _Piece, until_ns: int) -> Process:
        yield self.clock.sleep(until_ns)
        # The same piece is another object when it is read again.
        if reader.current is piece and self._runs(reader, task):
            self._emit(reader, piece)
            self._go(reader)

    def _emit(self, reader: _Reader, piece: _Piece) -> None:
        if self._goes_back:
            reader.emitted.append(piece)
        self.state.plane.read(reader.partition, piece.first, piece.end)
        reader.current = None

    def _has_nothing(self, reader: _Reader, task: int) -> None:
        """Wait for the next file or record: the source has caught up."""
        if reader.is_behind:
            reader.is_behind = False
            self._catch_ups.has_taken(task)
        if reader.reading.poll is not None:
            at_ns = self.state.plane.arrival_ns(reader.partition, reader.found)
            if at_ns is not None and at_ns != reader.wakes_ns:
                reader.wakes_ns = at_ns
                self.clock.process(self._wake(reader, at_ns))

    def _wake(self, reader: _Reader, at_ns: int) -> Process:
        yield self.clock.sleep(at_ns)
        self._go(reader)

    def _runs(self, reader: _Reader, task: int) -> bool:
        """Return whether the source is live, at that task."""
        is_there = self.cluster.partition_task[reader.partition] == task and self.cluster.task_alive[task]
        return is_there and self.cluster.partition_live[reader.partition]

    def idle(self, task: int) -> None:
        """Go on where all that was read has been sent."""
        if self.state.plan.operators[self.cluster.task_operator[task]].is_read:
            for reader in self._readers.values():
                if self.cluster.partition_task[reader.partition] == task:
                    self._go(reader)

    def _watch(self) -> None:
        """Be told when a source has nothing left to send."""
        self._catch_ups.watch_besides([self.cluster.partition_task[one] for one in self._readers])

    def _is_behind(self, task: int) -> bool:
        readers = self._readers.values()
        return any(one.is_behind and self.cluster.partition_task[one.partition] == task for one in readers)

    # -- checkpoints, and going back to one

    def passed_barrier(self, token: int, task: int) -> None:
        """Note the positions of the sources at a task, which a barrier leaves."""
        for reader in self._readers.values():
            if self.cluster.partition_task[reader.partition] == task:
                reader.passed[token] = len(reader.emitted)

    def completed(self, token: int) -> None:
        """Forget what a complete checkpoint has; earlier ones do not count any more."""
        for reader in self._readers.values():
            covered = reader.passed.get(token, 0)
            del reader.emitted[:covered]
            reader.passed = {one: n - covered for one, n in reader.passed.items() if one > token}

    def begin_again(self, partition: int) -> None:
        """Go back to the last complete checkpoint with a source that is live again."""
        reader = self._readers.get(partition)
        if reader is None:
            return
        again = [*reader.emitted, *([] if reader.current is None else [reader.current])]
        self.state.plane.read_again(partition, [(one.first, one.end) for one in reader.emitted])
        if reader.reading.poll is None:
            for one in again:
                self._enter(reader, one.first, one.end)
        else:
            reader.found = min((one.first for one in again), default=reader.found)
        reader.emitted, reader.passed, reader.current, reader.is_behind = [], {}, None, True
        self._watch()

    def go_on(self, partition: int) -> None:
        """Read on with a source that may emit."""
        if partition in self._readers:
            self._go(self._readers[partition])
