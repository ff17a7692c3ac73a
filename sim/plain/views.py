"""Interfaces by which parts of the plane reach the plane around them, `plane.PlainPlane`, and its watermarks.

The module also collects the rows of the plain data plane; nothing is computed from them here.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from models.records.tables import NEVER, TABLES, table
from sim.clock import Clock
from sim.control.cluster import RunPlan
from sim.operator_plan import OperatorPlan
from sim.plain.partition import (
    Bundle,
    Checkpoint,
    Message,
    Partition,
    PostDated,
    Row,
    TaskView,
    Tree,
    Visit,
    Watermark,
)

_SECOND = 1_000_000_000


class Recorder:
    """One list of rows per table; the two large tables are plain arrays of 64-bit numbers."""

    def __init__(self) -> None:
        self._visits = array("q")
        self._deliveries = array("q")
        self.messages: dict[tuple[int, str], list[int]] = {}
        self.rows: dict[str, list[tuple[Any, ...]]] = {"dropped": [], "checkpoints": []}

    def visit(self, task: TaskView, arrival_ns: int, start_ns: int, end_ns: int) -> None:
        """Record that a tuple was processed by a task."""
        self._visits.extend((task.operator.index, task.index, arrival_ns, start_ns, end_ns))

    def delivery(self, operator: int, created_ns: int, delivered_ns: int) -> None:
        """Record that a sink accepted a tuple."""
        self._deliveries.extend((operator, created_ns, delivered_ns))

    @property
    def delivered(self) -> int:
        """Return how many tuples sinks have accepted."""
        return len(self._deliveries) // len(TABLES["deliveries"])

    def message(self, now_ns: int, kind: str, count: int, size_bytes: int) -> None:
        """Record that `count` messages of a kind were sent."""
        total = self.messages.setdefault((now_ns - now_ns % _SECOND, kind), [0, 0])
        total[0] += count
        total[1] += size_bytes

    def tables(
        self, serving: list[tuple[int, int, int, int]], waiting: list[tuple[int, int, int]]
    ) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the tables, with services (operator, task, arrival, start) that run and tuples that wait."""
        left = array("q", [number for row in serving for number in (*row, NEVER)])
        return {
            "visits": _columns("visits", self._visits + left),
            "waiting": table("waiting", [*waiting]),
            "deliveries": _columns("deliveries", self._deliveries),
            "dropped": table("dropped", self.rows["dropped"]),
            "checkpoints": table("checkpoints", self.rows["checkpoints"]),
        }


def _columns(name: str, flat: array[int]) -> dict[str, np.ndarray]:
    columns = TABLES[name]
    matrix = np.array(flat, dtype=np.int64).reshape(-1, len(columns))
    return table(name, {column.name: matrix[:, k] for k, column in enumerate(columns)})


class WatermarksView(Protocol):
    """Event time: `watermarks.Watermarks`."""

    def send(self, watermark: Watermark, task: TaskView) -> None:
        """Send a watermark to a task."""

    def turn(self, watermark: Watermark, task: TaskView) -> None:
        """Raise the event time of the partitions at a task."""

    def take_leave(self, taken: Sequence[Partition]) -> None:
        """Send a farewell from the task of these partitions, which are taken out of it."""

    def speak_for_the_rest(self, task: TaskView) -> None:
        """Send what the partitions at a task have heard that others are taken out of."""

    def take_last_leave(self, task: TaskView) -> None:
        """Let a last farewell come from a task whose host has died."""

    def begin_to_speak(self, task: TaskView) -> None:
        """Let the watermarks of a task count for partitions that it has got, too."""

    def recall(self, task: TaskView) -> list[Watermark]:
        """Return what has the partitions of a task hear the last watermarks again, at its turn, if any."""

    def raise_event_time(self, task: TaskView, event_ns: int) -> None:
        """Raise it on the word of control."""

    def enter(self, partition: Partition, row: Row) -> None:
        """Put a tuple into its windows."""

    def join(self, partition: Partition, row: Row, origin: OperatorPlan) -> None:
        """Join a tuple with those of the other input."""


class AckerView(Protocol):
    """The trees of all roots: `acker.Acker`."""

    def is_full(self, source: Partition) -> bool:
        """Return whether the source may emit nothing."""

    def begin(self, source: Partition, sequence: int) -> Tree:
        """Begin an attempt of a root."""

    def emitted(self, tree: Tree) -> None:
        """Note that the root of an attempt is emitted."""

    def processed(self, tree: Tree, task: TaskView) -> None:
        """Note that a task has processed a tuple of the tree."""

    def lose(self, task: TaskView) -> None:
        """Forget the acks that wait at a task that died."""


class TrimmingView(Protocol):
    """The queue trimming protocol: `trimming.TrimmingProtocol`."""

    safe: bool

    def state_to_restore(self, partition: Partition) -> Checkpoint | None:
        """Return the state from which a partition is restored."""

    def begin_again(self, partition: Partition) -> None:
        """Begin the slices of a partition that was restored."""

    def forget_acks_of(self, receiver: Partition) -> None:
        """Forget the acks of an incarnation that is over."""

    def split_slices(self, sender: Partition, receiver: Partition, other: Partition, before: int) -> None:
        """Have slices wait for another receiver, too."""

    def tables_of(self, partition: Partition) -> tuple[int, int, int]:
        """Return the sizes of the slice tables of a partition."""


class PlaneView(Protocol):
    """The plane, as tasks, outboxes, processors and sources see it."""

    plan: RunPlan
    clock: Clock
    recorder: Recorder
    watermarks: WatermarksView
    warmup_ns: int
    drops_duplicates: bool
    overtaking: int

    @property
    def acker(self) -> AckerView | None:
        """Return what follows the roots, if anything does."""

    def next_number(self) -> int:
        """Return the next number in the order of sending."""

    # -- tuples

    def emit(
        self,
        partition: Partition,
        tuple_id: int,
        created_ns: int,
        key: int,
        again: bool = False,
        tree: Tree | None = None,
        since_ns: int = 0,
    ) -> None:
        """Send an output of a partition to its receivers."""

    def postpone(self, partition: Partition, output: PostDated) -> None:
        """Emit an output at the time of its birth, or now if that is over."""

    def emit_waiting(self, task: TaskView) -> None:
        """Let the sources of a task emit tuples that wait."""

    def send_tuple(self, origin: TaskView, sender: Partition, receiver: Partition, row: Row) -> None:
        """Send a tuple from a task over its channel."""

    def send_message(self, message: Message, task: TaskView, size_bytes: int) -> None:
        """Send a message over its channel."""

    def hand_over(self, item: Visit | Message | Watermark, task: TaskView) -> None:
        """Give a task what has come over its channel."""

    def overtakes(self, token: int) -> bool:
        """Return whether barriers of the token overtake."""

    def open_bundle(self, bundle: Bundle, task: TaskView) -> None:
        """Put the tuples of a bundle in front of the queue."""

    def lost(self, bundle: Bundle) -> list[Visit]:
        """Return the tuples of a bundle, which are on their way no longer."""

    def one_replayed(self, partition: Partition, task: TaskView) -> None:
        """Count a replayed tuple as done."""

    def drop(self, visit: Visit, task: TaskView, reason: str) -> None:
        """End a tuple without effect."""

    # -- calls to the listener

    def notice(self, task: TaskView) -> None:
        """Note that something ended at a task."""

    def note_message(self, task: TaskView, message: Message) -> None:
        """Note that a task has a message in hand."""

    def tell(self) -> None:
        """Make the calls to the listener that were noted."""
