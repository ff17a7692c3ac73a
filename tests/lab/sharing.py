"""What tasks write to the store, and read from it or from disks, at once: any of them may be done next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.laboratory import SteppedLink
from lab.stepped_restores import SteppedRestores
from sim.control.shared_reads import SharedReads


class SteppedUploads(SteppedLink):
    """The link of the store: of each task the first of what it writes may be stored next."""

    def empty(self) -> None:
        """Write nothing of what was sent."""
        for place in [place for place in self.clock.lanes if place[:2] == ("link", self.host)]:
            del self.clock.lanes[place]


class Sharing:
    """Has a laboratory share its store and disks; `faults` tells of tasks that go on without all of their state."""

    def __init__(self, lab: Any, note: Callable[[str], None]) -> None:
        self.faults: list[str] = []
        self._lab = lab
        plane, reads = lab.plane, lab.recovery.reads
        if plane.uploads is not None:
            plane.uploads = SteppedUploads(lab.clock, len(lab.plan.host_names), stepped=True, fair=True)
        if reads is not None:
            self._watch(reads, note)

    def _watch(self, reads: SharedReads, note: Callable[[str], None]) -> None:
        """Note when each state of a task is there: all at one instant, when all that it reads is."""
        clock, read, died = self._lab.clock, reads.read, reads.died
        places = range(len(self._lab.plan.host_names) + 1)
        reads._places = SteppedRestores(clock, [1 for _ in places], lambda: note("reads"))
        left: dict[int, int] = {}  # task -> states that are still to come
        since: dict[int, int] = {}  # task -> when the first of them came

        def begins(task: int, place: int, size: int, ended: Callable[[], None]) -> None:
            def ends() -> None:
                now = clock.now_ns()
                if task in left:  # else it has died since
                    if since.setdefault(task, now) != now:
                        self.faults.append("states of a task are there at different instants")
                    left[task] -= 1
                    if not left[task]:
                        del left[task], since[task]
                ended()

            left[task] = left.get(task, 0) + 1
            read(task, place, size, ends)

        def dies(task: int) -> None:
            if left.pop(task, None):
                since.pop(task, None)
                note("a reader dies")
            died(task)

        reads.read, reads.died = begins, dies  # type: ignore[method-assign]
