"""A watermark as an item on its way and in a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference.task import Task


class Mark:
    """A watermark on its way from the task `origin`, then in the queue of another."""

    __slots__ = ("event_ns", "origin", "served", "ticket")

    def __init__(self, event_ns: int, origin: Task) -> None:
        self.event_ns, self.origin = event_ns, origin
        self.ticket, self.served = 0, False
