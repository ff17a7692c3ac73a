"""Answers of the compiled plane at samples and at the end of a run: rows and tables.

The backlog: items that wait at the tasks, in the order of their queues.

A long queue is a list through all of memory, and the next item is known only when one is there. So all lists are
followed side by side: what one waits for the others have asked for.

Statistics of each partition so far, for the control plane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from models.records.tables import NEVER, table
from sim.control.statistics import check_counts
from sim.kernel.event_loop import audit, channels, verbs
from sim.kernel.event_loop.checkpoints import state_bytes
from sim.kernel.event_loop.codes import MESSAGE_KINDS, NONE, REASONS, TUPLE
from sim.kernel.tools.cache import allocating, kernel
from sim.kernel.tools.pointer import State, prefetch
from sim.plane_values import Row, Statistic

if TYPE_CHECKING:
    from sim.arrival_stream import ArrivalStream
    from sim.clock import Clock
    from sim.control.cluster import Cluster, RunPlan
    from sim.kernel.event_loop.reading import Log
    from sim.kernel.event_loop.saved_outputs import SavedOutputs
    from sim.recording import Recording


@allocating
def waiting(state: State) -> np.ndarray:
    """Return rows (operator, task, arrival) of the tuples that wait at the tasks, by task, held ones first (n, 3)."""
    lists, tasks = _lists(state)
    room = state.visits.shape[0] - state.visit_pool.left
    found, arrivals = np.empty(room, np.int32), np.empty(room, np.int64)
    counts, left, n = np.zeros(lists.shape[0] + 1, np.int64), np.arange(lists.shape[0]), 0
    many = lists.shape[0]
    while many > 0:
        still = 0
        for k in range(many):
            one = left[k]
            e = state.visits[lists[one]]
            if e.kind == TUPLE:
                found[n] = one
                arrivals[n] = e.arrival
                counts[one + 1] += 1
                n += 1
            if e.next != NONE:
                lists[one] = e.next
                prefetch(state.visits, e.next)
                left[still] = one
                still += 1
        many = still
    places, rows = np.cumsum(counts), np.empty((n, 3), np.int64)
    for k in range(n):
        one = found[k]
        row = rows[places[one]]
        row[0], row[1], row[2] = state.tasks[tasks[one]].operator, tasks[one], arrivals[k]
        places[one] += 1
    return rows


@allocating
def _lists(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Return the first item of each list that is not empty, and its task."""
    holding, many = np.empty(state.partitions.shape[0], np.int64), 0
    for partition in range(state.partitions.shape[0]):
        if state.partitions[partition].held_n > 0:
            holding[many] = partition
            many += 1
    most, n = many + 4 * state.cluster.tasks, 0
    heads, tasks = np.empty(most, np.int64), np.empty(most, np.int64)
    for task in range(state.cluster.tasks):
        for k in range(many):
            u = state.partitions[holding[k]]
            if (u.task if u.goal == NONE else u.goal) == task:
                heads[n], tasks[n] = u.held_head, task
                n += 1
        t = state.tasks[task]
        for head in (t.front_head, t.queue_head, t.back_head, t.side_head):
            if head != NONE:
                heads[n], tasks[n] = head, task
                n += 1
    return heads[:n], tasks[:n]


@kernel
def counted(state: State, partitions: int, rows: np.ndarray) -> int:
    """Write rows (partition, tuples, served, cpu, received, sent, state), sources left out, and return how many."""
    n = 0
    for partition in range(partitions):
        u = state.partitions[partition]
        if not u.is_source:
            rows[n, 0] = partition
            rows[n, 1] = u.came
            rows[n, 2] = u.served
            rows[n, 3] = u.cpu
            rows[n, 4] = u.received
            rows[n, 5] = u.sent
            rows[n, 6] = state_bytes(state, partition) if u.live else 0
            n += 1
    return n


_USE_OF_LINKS = ("carried", "delayed", "delay", "delay_most")


class Answers(ABC):
    """The questions of `sim.data_plane` about all tasks, and the records of the run."""

    state: State
    recording: Recording
    _plan: RunPlan
    _cluster: Cluster
    _clock: Clock
    _logs: dict[int, Log]
    _saved_outputs: SavedOutputs

    @abstractmethod
    def _now(self) -> None:
        """Move to the instant of the clock: questions are about it."""

    @abstractmethod
    def _flush(self) -> None:
        """Hand the rows of tuples over."""

    @abstractmethod
    def _carried(self) -> list[audit.Carried]:
        """Return the tuples in parcels."""

    @abstractmethod
    def _saved(self) -> list[audit.Saved]:
        """Return the newest state in a parcel of each partition that is down."""

    @abstractmethod
    def _unfinished(self, source: int) -> np.ndarray:
        """Return the numbers of the tuples of a source that are not done."""

    @abstractmethod
    def _arrival_streams(self) -> list[ArrivalStream]:
        """Return the arrivals at each source from the first on."""

    def samples(self) -> np.ndarray:
        """Return a row for each live task."""
        rows = np.zeros((int(self.state.cluster["tasks"]), 5), np.int64)
        return rows[: verbs.sample(self.state, rows)]

    def buffers(self) -> np.ndarray:
        """(task, taken, unsent, blocked_ns, kept_bytes, unconfirmed, slices) of each live task."""
        self._now()
        rows = np.zeros((int(self.state.cluster["tasks"]), 7), np.int64)
        return rows[: verbs.sample_buffers(self.state, rows)]

    def links(self) -> np.ndarray:
        """(host, carried, delayed, delay_ns, longest_ns) of each host on whose link a tuple was delayed."""
        hosts = self.state.hosts
        used = np.flatnonzero(hosts["delayed"])
        rows = np.zeros((used.size, 1 + len(_USE_OF_LINKS)), np.int64)
        rows[:, 0] = used
        for column, name in enumerate(_USE_OF_LINKS if used.size else (), start=1):
            rows[:, column] = hosts[name][used]
        return rows

    def lag(self) -> np.ndarray:
        """(operator, tuples that arrived and are not emitted) for each source partition."""
        sources = self.state.sources
        rows = np.zeros((sources.size, 2), np.int64)
        rows[:, 0] = self.state.partitions["operator"][sources["partition"]]
        rows[:, 1] = sources["arrived"] - sources["emitted"]
        for source, log in self._logs.items():
            rows[source, 1] = max(0, log.before(self._clock.now_ns()) - len(log.read))
        return rows

    def statistics(self) -> np.ndarray:
        """Return the work so far of each partition but those of sources."""
        check_counts(self._plan)
        partitions = len(self._cluster.partition_task)
        rows = np.zeros((partitions, len(Statistic._fields)), np.int64)
        return rows[: counted(self.state, partitions, rows)]

    def messages(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """Return (begin of the second, kind) -> (messages, bytes)."""
        channels.flush_messages(self.state)
        found: dict[tuple[int, str], list[int]] = {}
        for row in self.state.message_rows[: int(self.state.messages["rows"])].tolist():
            second, kind, count, size = row
            both = found.setdefault((second, MESSAGE_KINDS[kind]), [0, 0])  # a second is several rows if asked within
            both[0] += count
            both[1] += size
        return found

    def ledger(self) -> list[tuple[int, int, int, int]]:
        """Return rows (operator, expected, lost, duplicated)."""
        sources = range(self.state.sources.shape[0])
        unfinished = [self._unfinished(source) for source in sources] if self._plan.acker else None
        expected, lost, duplicated = audit.settle(
            self.state,
            self._arrival_streams,
            self._carried(),
            self._saved(),
            unfinished,
            read=self._read_numbers(),
            post_dated=self._saved_outputs.all_stored(),
        )
        return self._ledger_rows(expected, lost, duplicated)

    def _read_numbers(self) -> dict[int, list[tuple[int, int]]]:
        """Return the ranges that were emitted of sources that control reads."""
        return {source: [*log.read] for source, log in self._logs.items()}

    def _ledger_rows(
        self, expected: np.ndarray, lost: np.ndarray, duplicated: np.ndarray
    ) -> list[tuple[int, int, int, int]]:
        return [
            (index, int(expected[index]), int(lost[index]), int(duplicated[index]))
            for index, plan in enumerate(self._plan.operators)
            if not plan.is_source and plan.reckoned
        ]

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the tables of tuples and checkpoints."""
        unfinished = self._in_service()
        self._flush()
        if unfinished:
            self.recording.add_visits(np.array(unfinished, np.int64))
        made = dict(self.recording.tables())
        made["cpu"] = table("cpu", self._cpu())
        made["waiting"] = self._waiting()
        made["dropped"] = self._dropped()
        made["checkpoints"] = self._checkpoints_taken()
        return made

    def _checkpoints_taken(self) -> dict[str, np.ndarray]:
        """Return the table of checkpoints."""
        checkpoints = self.state.checkpoint_rows[: int(self.state.checkpointing["rows"])]
        return table(
            "checkpoints",
            {
                "operator": checkpoints["operator"],
                "key_group": checkpoints["partition"],
                "owner": checkpoints["owner"],
                "checkpoint_host": checkpoints["checkpoint_host"],
                "taken_ns": checkpoints["taken"],
                "stored_ns": checkpoints["stored"],
                "bytes": checkpoints["bytes"],
                "full": checkpoints["full"] != 0,
                "job": np.full(checkpoints.size, NONE),
            },
        )

    def _dropped(self) -> dict[str, np.ndarray]:
        """Return the table of tuples that ended without effect."""
        dropped = self.state.dropped_rows[: int(self.state.drops["rows"])]
        columns = {name: dropped[name] for name in ("operator", "task")}
        columns |= {f"{name}_ns": dropped[name] for name in ("arrival", "start", "at")}
        return table("dropped", columns | {"reason": np.array(REASONS)[dropped["reason"]]})

    def _cpu(self) -> list[Row]:
        """Return rows of the tasks on hosts whose pace changes."""
        self._now()
        rows = np.zeros((int(self.state.cluster["tasks"]), 3), np.int64)
        count = verbs.cpu(self.state, rows)
        return [tuple(row) for row in rows[:count].tolist()]

    def _waiting(self) -> dict[str, np.ndarray]:
        """Return the table of what is in a queue, held or set aside."""
        rows = waiting(self.state)
        return table("waiting", {"operator": rows[:, 0], "task": rows[:, 1], "arrival_ns": rows[:, 2]})

    def _in_service(self) -> list[Row]:
        """Return rows of what is in service."""
        return [
            (operator, task, int(self.state.visits["arrival"][visit]), int(self.state.visits["start"][visit]), NEVER)
            for task, operator in enumerate(self._cluster.task_operator)
            for visit in self._chain(int(self.state.tasks["serving_head"][task]))
        ]

    def _chain(self, head: int) -> list[int]:
        """Return the tuples of a list, without work."""
        found = []
        while head != NONE:
            if self.state.visits["kind"][head] == TUPLE:
                found.append(head)
            head = int(self.state.visits["next"][head])
        return found
