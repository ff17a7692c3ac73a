"""Values that pass between control and a data plane: rows, messages, counts, and what stands in place of a host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

REMOTE = -1  # in place of a host: the remote checkpoint store
NO_HOST = -2  # no host can hold a checkpoint now
CONTROL = -1  # in place of a task: the control plane as the sender of a message

Key = tuple[int, int, int]  # (instant [ns], rank, number of the event): what is done at `Key` comes after all below it
Row = tuple[object, ...]
Rows = Sequence[Row] | np.ndarray  # an array of whole numbers (n, columns) is kept as it is

Failed = list[tuple[int, int]]  # (operator of the source, roots of it that have failed), rising, none of them zero


class NotCovered(RuntimeError):
    """A failure needs what a kernel did not keep: the run has to be made again, and keep it from earlier on."""


class Timed(NamedTuple):
    """One action that the plane does by itself at its instant, as control: the name of a verb, and its arguments.

    `verb` is pause, unpause, mute, send or unalign with the arguments of `DataPlane`, all by position, or chore
    with (task, ns): work of which nobody is told (none, where the task has no service).
    """

    at_ns: int
    verb: str
    arguments: tuple[Any, ...]


class Mail(NamedTuple):
    """One message of many that are sent at once, with the arguments of `ActionPlane.send`."""

    sender: int
    receiver: int
    token: int
    turn: bool = False
    size_bytes: int = 0
    work_ns: int = 0
    channels: int = 0


class Statistic(NamedTuple):
    """Counts of a partition since the start of the run, at all its tasks, and its size now (0 if not live)."""

    partition: int
    tuples: int  # that came for it from upstream, without those that were sent again
    served: int  # services of tuples that ended
    cpu_ns: int  # work of these, and of writing snapshots
    received_bytes: int  # of tuples that came from other hosts
    sent_bytes: int  # to other hosts, also what was sent again
    state_bytes: int

    def since(self, before: Statistic) -> Statistic:
        """Return the counts since then; the size of the state is that of now."""
        return Statistic(
            self.partition,
            self.tuples - before.tuples,
            self.served - before.served,
            self.cpu_ns - before.cpu_ns,
            self.received_bytes - before.received_bytes,
            self.sent_bytes - before.sent_bytes,
            self.state_bytes,
        )


def sizes_of_states(statistics: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the partitions of rows of `Statistic` and the sizes of their states [B], each (n,)."""
    rows = np.asarray(statistics, np.int64).reshape(-1, len(Statistic._fields))
    return rows[:, 0], rows[:, -1]


class Parcel(NamedTuple):
    """State and tuples outside of all tasks, as control sees them: a number to name them by, and how much they are."""

    number: int
    tuples: int  # captured
    bytes: int  # of states with their kept outputs, and of captured tuples
    partitions: tuple[int, ...] = ()  # whose states are in it; a parcel with captured tuples has none
