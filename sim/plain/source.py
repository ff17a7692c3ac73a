"""A source task: emits what arrives, or keeps it waiting while its host is down or its outputs find no room."""

from __future__ import annotations

from bisect import bisect_right

from sim.clock import SERVICE
from sim.draws import code_of, source_id
from sim.plain.partition import Partition
from sim.plain.views import PlaneView


class Source:
    """Tuples drawn ahead of the run; the log they come from survives a crash of the task's host."""

    def __init__(self, plane: PlaneView, partition: Partition, arrivals_ns: list[int], keys: list[int]) -> None:
        self.plane, self.partition, self.arrivals_ns, self.keys = plane, partition, arrivals_ns, keys
        self.code = code_of("source", partition.operator.name, partition.index)
        self.arrived = 0  # arrivals whose instant has come
        self.emitted = 0
        self._wait_for(0)

    def lag(self, now_ns: int) -> int:
        """Return how many tuples arrived before now and are not emitted."""
        return bisect_right(self.arrivals_ns, now_ns - 1) - self.emitted

    def _wait_for(self, index: int) -> None:
        if index < len(self.arrivals_ns):
            self.plane.clock.at(
                self.arrivals_ns[index], SERVICE + self.partition.task.index, lambda _: self._arrive(index)
            )

    def _arrive(self, index: int) -> None:
        """Let all tuples of one instant arrive."""
        # One event for all arrivals of an instant; those that find no room wait here, and count as lag.
        upto = bisect_right(self.arrivals_ns, self.arrivals_ns[index], lo=index)
        self.arrived = upto
        if self.partition.live:
            self._emit(upto)
        self._wait_for(upto)

    def resume(self) -> None:
        """Emit what arrived while the task was down."""
        # Only arrivals before now: those of this instant have an event of their own, which is still to come.
        self._emit(bisect_right(self.arrivals_ns, self.plane.clock.now_ns() - 1))

    def catch_up(self) -> None:
        """Emit what arrived while the task was paused."""
        self._emit(self.arrived)

    def promise_ns(self, now_ns: int) -> int:
        """Return its watermark: the creation time of the first tuple that waits, or now."""
        return self.arrivals_ns[self.emitted] if self.emitted < self.arrived else now_ns

    def waiting_since(self) -> int | None:
        """Return when the first tuple that could be emitted now was created, or None without one."""
        return self.arrivals_ns[self.emitted] if self.partition.live and self.emitted < self.arrived else None

    def emit_one(self) -> None:
        """Emit the first tuple that waits."""
        task, now, index = self.partition.task, self.plane.clock.now_ns(), self.emitted
        created = self.arrivals_ns[index]
        self.emitted += 1
        self.plane.recorder.visit(task, created, now, now)
        self.plane.emit(self.partition, source_id(self.code, index), created, self.keys[index])

    def _emit(self, upto: int) -> None:
        """Emit in order, as long as nothing is left to send and the task is not paused."""
        while self.emitted < upto and not self.partition.task.outbox and not self.partition.task.paused_until_ns:
            self.emit_one()
