"""A watermark as an item on its way and in a queue, and how far event time has come at a partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference.partition import Partition, Row
    from reference.task import Task


class Mark:
    """A watermark on its way from the task `origin`, then in the queue of another; `number` as of a sending.

    `begun` is such a number, too: of its turn.
    """

    __slots__ = ("begun", "event_ns", "number", "origin", "served", "ticket")

    def __init__(self, event_ns: int, origin: Task, number: int) -> None:
        self.event_ns, self.origin, self.number = event_ns, origin, number
        self.ticket, self.served, self.begun = 0, False, 0


@dataclass
class EventTime:
    """What a partition knows of event time, which is a part of its checkpoints."""

    ticks: int = 0  # instants of its timer whose outputs were made
    of_sender: dict[Partition, int] = field(default_factory=dict)  # all that it sent before was applied
    event_ns: int = 0  # the least of these
    windows: dict[int, dict[int, int]] = field(default_factory=dict)  # not ended -> key -> newest event time
    sides: dict[tuple[int, int, int], list[Row]] = field(default_factory=dict)  # (window, key, input) -> to be joined

    def copy(self) -> EventTime:
        """The same, of which nothing changes any more."""
        windows = {window: dict(newest) for window, newest in self.windows.items()}
        sides = {at: list(rows) for at, rows in self.sides.items()}
        return EventTime(self.ticks, dict(self.of_sender), self.event_ns, windows, sides)

    def restored(self, saved: EventTime | None, replays: bool) -> EventTime:
        """After a crash, from what was saved.

        Without replay what was emitted is not emitted again: event time does not go back, and what it had passed is
        over.
        """
        if saved is None:
            saved = EventTime(0, dict.fromkeys(self.of_sender, 0))
        made = saved.copy()
        if not replays:
            made.ticks, made.of_sender, made.event_ns = self.ticks, self.of_sender, self.event_ns
        return made
