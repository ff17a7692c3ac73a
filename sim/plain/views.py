"""Interfaces by which parts of the plane reach the plane around them, `plane.PlainPlane`, and its watermarks."""

from __future__ import annotations

from typing import Protocol

from sim.clock import Clock
from sim.control.cluster import RunPlan
from sim.operator_plan import OperatorPlan
from sim.plain.partition import (
    Bundle,
    Message,
    Partition,
    Row,
    TaskView,
    Visit,
    Watermark,
)
from sim.plain.recorder import Recorder


class WatermarksView(Protocol):
    """Event time: `watermarks.Watermarks`."""

    def send(self, watermark: Watermark, task: TaskView) -> None:
        """Send a watermark to a task."""

    def turn(self, watermark: Watermark, task: TaskView) -> None:
        """Raise the event time of the partitions at a task."""

    def enter(self, partition: Partition, row: Row) -> None:
        """Put a tuple into its windows."""

    def join(self, partition: Partition, row: Row, origin: OperatorPlan) -> None:
        """Join a tuple with those of the other input."""


class PlaneView(Protocol):
    """The plane, as tasks, outboxes, processors and sources see it."""

    plan: RunPlan
    clock: Clock
    recorder: Recorder
    watermarks: WatermarksView
    warmup_ns: int
    drops_duplicates: bool

    def next_number(self) -> int:
        """Return the next number in the order of sending."""

    # -- tuples

    def emit(self, partition: Partition, tuple_id: int, created_ns: int, key: int) -> None:
        """Send an output of a partition to its receivers."""

    def emit_waiting(self, task: TaskView) -> None:
        """Let the sources of a task emit tuples that wait."""

    def send_tuple(self, sender: Partition, receiver: Partition, row: Row) -> None:
        """Send a tuple over its channel."""

    def send_message(self, message: Message, task: TaskView, size_bytes: int) -> None:
        """Send a message over its channel."""

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
