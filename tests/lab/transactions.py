"""Two-phase commits of sinks, tuple by tuple: what is visible at each checkpoint, and what the rows of a run say."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

Tuple = tuple[int, int]  # partition of a sink, id


class Transactions:
    """Each task of a sink has a transaction; a barrier prepares it, and the end of a checkpoint commits it.

    A task that is restarted aborts what no complete checkpoint has. Whatever is delivered again is a part of the
    transaction that is open then.

    The rows may say it too `early`: a barrier that overtakes what comes again leaves it to the next transaction.
    """

    def __init__(self, lab: Any, early: bool) -> None:
        self._early = early
        self._lab, self._sinks = lab, [one for one in lab.plane.all_partitions() if one.operator.is_sink]
        self.visible = Counter[Tuple]()
        self.faults: list[str] = []
        self._open: defaultdict[int, list[Tuple]] = defaultdict(list)  # by task
        self._prepared: defaultdict[int, dict[int, list[Tuple]]] = defaultdict(dict)  # checkpoint -> task -> tuples
        self._delivered: list[tuple[int, Tuple]] = []  # (task, tuple), in order
        self._known = dict.fromkeys(self._sinks, 0)
        recorder, plane, barriers = lab.plane.recorder, lab.plane, lab.barriers
        delivery, drop, note, end = recorder.delivery, plane.drop, barriers.commits.note, barriers._keep_copies
        failed = lab.crash.checkpoints_end

        def delivers(*its: Any) -> None:
            delivery(*its)
            (sink,) = [one for one in self._sinks if len(one.applied) > self._known[one]]
            self._known[sink] += 1
            self._comes(sink, sink.applied[-1])
            self._delivered.append((sink.task.index, (sink.number, sink.applied[-1])))

        def drops(visit: Any, task: Any, reason: str) -> None:
            if reason == "duplicate" and visit.partition in self._known:
                self._comes(visit.partition, visit.row.id)
            drop(visit, task, reason)

        def notes(checkpoint: int, task: int) -> None:
            self._prepared[checkpoint][task] = self._open.pop(task, [])
            note(checkpoint, task)

        def completes(checkpoint: Any) -> None:
            end(checkpoint)
            self._commit(checkpoint.number)

        def fails() -> None:
            failed()
            self._abort()

        recorder.delivery, plane.drop, barriers.commits.note = delivers, drops, notes
        barriers._keep_copies, lab.crash.checkpoints_end = completes, fails

    def _comes(self, sink: Any, tuple_id: int) -> None:
        self._open[sink.task.index].append((sink.number, tuple_id))

    def _abort(self) -> None:
        alive = self._lab.cluster.task_alive
        for of_task in (self._open, *self._prepared.values()):
            for task in [task for task in of_task if not alive[task]]:
                del of_task[task]

    def _commit(self, number: int) -> None:
        for earlier in sorted(one for one in self._prepared if one <= number):
            for tuples in self._prepared.pop(earlier).values():
                self.visible.update(tuples)
        said = self._said(number)
        if self.visible.keys() - said or (said - self.visible.keys() and not self._early):
            self.faults.append("the rows say that something else is visible")
        if len(self.visible) != self.visible.total():
            self.faults.append("something is visible twice")

    def _said(self, number: int) -> set[Tuple]:
        """Return what is visible with a checkpoint as `analysis.runs.visibility` reads the rows."""
        operator_of = {one.number: one.operator.index for one in self._sinks}
        counts = {task: (its, count) for k, its, task, _, count in self._lab.barriers.commits.rows if k == number}
        found = set[Tuple]()
        for place, (task, delivered) in enumerate(self._delivered):
            of_sink = [count for its, count in counts.values() if its == operator_of[delivered[0]]]
            if place < (counts[task][1] if task in counts else min(of_sink, default=0)):
                found.add(delivered)
        return found
