"""Answers of the compiled plane at samples and at the end of a run: rows and tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from models.records.tables import NEVER, table
from sim.control.statistics import check_counts
from sim.data_plane import Row, Statistic
from sim.kernel.event_loop import audit, backlog, channels, statistics, verbs
from sim.kernel.event_loop.codes import MESSAGE_KINDS, NONE, REASONS, TUPLE
from sim.kernel.tools.pointer import State

if TYPE_CHECKING:
    from sim.arrival_stream import ArrivalStream
    from sim.control.cluster import Cluster, RunPlan
    from sim.recording import Recording


_USE_OF_LINKS = ("carried", "delayed", "delay", "delay_most")


class Answers(ABC):
    """The questions of `sim.data_plane` about all tasks, and the records of the run."""

    state: State
    recording: Recording
    _plan: RunPlan
    _cluster: Cluster

    @abstractmethod
    def _now(self) -> None:
        """Move to the instant of the clock: questions are about it."""

    @abstractmethod
    def _flush(self) -> None:
        """Hand the rows of tuples over."""

    @abstractmethod
    def _arrival_streams(self) -> list[ArrivalStream]:
        """Return the arrivals at each source from the first on."""

    def samples(self) -> np.ndarray:
        """Return a row for each live task."""
        rows = np.zeros((int(self.state.cluster["tasks"]), 5), np.int64)
        return rows[: verbs.sample(self.state, rows)]

    def buffers(self) -> np.ndarray:
        """(task, taken, unsent, blocked_ns) of each live task."""
        self._now()
        rows = np.zeros((int(self.state.cluster["tasks"]), 4), np.int64)
        return rows[: verbs.sample_buffers(self.state, rows)]

    def links(self) -> np.ndarray:
        """(host, carried, delayed, delay_ns, longest_ns) of each host on whose link a tuple was delayed."""
        hosts = self.state.hosts
        rows = np.column_stack([np.arange(len(hosts)), *(hosts[name] for name in _USE_OF_LINKS)])
        return rows[hosts["delayed"] > 0]

    def lag(self) -> np.ndarray:
        """(operator, tuples that arrived and are not emitted) for each source partition."""
        sources = self.state.sources
        return np.column_stack(
            (self.state.partitions["operator"][sources["partition"]], sources["arrived"] - sources["emitted"])
        )

    def statistics(self) -> list[Statistic]:
        """Return the work so far of each partition but those of sources."""
        check_counts(self._plan)
        partitions = len(self._cluster.partition_task)
        rows = np.zeros((partitions, len(Statistic._fields)), np.int64)
        return [Statistic(*row) for row in rows[: statistics.counted(self.state, partitions, rows)].tolist()]

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
        operators = self._plan.operators
        expected, lost, duplicated = audit.settle(self.state, self._arrival_streams)
        return [
            (index, int(expected[index]), int(lost[index]), int(duplicated[index]))
            for index, plan in enumerate(operators)
            if not plan.is_source and plan.reckoned
        ]

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the tables of tuples and checkpoints."""
        unfinished = self._in_service()
        self._flush()
        if unfinished:
            self.recording.add_visits(np.array(unfinished, np.int64))
        dropped = self.state.dropped_rows[: int(self.state.drops["rows"])]
        checkpoints = self.state.checkpoint_rows[: int(self.state.checkpointing["rows"])]
        made = dict(self.recording.tables())
        made["cpu"] = table("cpu", self._cpu())
        made["waiting"] = self._waiting()
        made["dropped"] = table(
            "dropped",
            {
                "operator": dropped["operator"],
                "task": dropped["task"],
                "arrival_ns": dropped["arrival"],
                "start_ns": dropped["start"],
                "at_ns": dropped["at"],
                "reason": np.array(REASONS)[dropped["reason"]],
            },
        )
        made["checkpoints"] = table(
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
            },
        )
        return made

    def _cpu(self) -> list[Row]:
        """Return rows of the tasks on hosts whose pace changes."""
        self._now()
        rows = np.zeros((int(self.state.cluster["tasks"]), 3), np.int64)
        count = verbs.cpu(self.state, rows)
        return [tuple(row) for row in rows[:count].tolist()]

    def _waiting(self) -> dict[str, np.ndarray]:
        """Return the table of what is in a queue, held or set aside."""
        rows = backlog.waiting(self.state)
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
