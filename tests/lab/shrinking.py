"""A smaller schedule that is still at fault: fewer faults, a smaller job, more choices that are the oldest step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lab.schedule import Result, Schedule, Tamper, run
from lab.shapes import CHAIN, smaller_shapes

MOST_RUNS = 500


class Shrinking:
    """A search that tries smaller schedules and keeps those with any fault."""

    def __init__(self, schedule: Schedule, tamper: Tamper | None) -> None:
        self.tamper, self.runs = tamper, 0
        first = run(schedule, tamper, note=True)
        self.best, self.result = replace(schedule, choices=_trimmed(first.choices)), first
        assert first.faults, "there is nothing to shrink"

    def accept(self, smaller: Schedule) -> bool:
        """Return whether it is at fault as well; then it is the best one so far."""
        if self.runs >= MOST_RUNS or smaller == self.best:
            return False
        self.runs += 1
        result = run(smaller, self.tamper, note=True)
        if not result.faults:
            return False
        self.best, self.result = replace(smaller, choices=_trimmed(result.choices)), result
        return True

    def simplify(self) -> bool:
        """Drop a fault or make the job smaller; return whether that succeeded."""
        return any(self.accept(smaller) for smaller in _simpler(self.best))

    def zero(self) -> bool:
        """Cut the choices short, then make spans of them the oldest step; return whether something succeeded."""
        changed = False
        assert self.best.choices is not None
        cut = len(self.best.choices) // 2
        while cut:
            choices = self.best.choices or ()
            if len(choices) > cut and self.accept(replace(self.best, choices=choices[:-cut])):
                changed = True
            else:
                cut //= 2
        span = max(1, len(self.best.choices or ()) // 2)
        while span:
            begin = 0
            while begin < len(self.best.choices or ()):
                choices = list(self.best.choices or ())
                here = choices[begin : begin + span]
                choices[begin : begin + span] = [0] * len(here)
                changed = (any(here) and self.accept(replace(self.best, choices=_trimmed(choices)))) or changed
                begin += span
            span //= 2
        return changed


def shrunk(schedule: Schedule, tamper: Tamper | None) -> tuple[Schedule, Result]:
    """Return a smaller schedule with a list of choices that is at fault, and its result."""
    shrinking = Shrinking(schedule, tamper)
    while shrinking.simplify() or shrinking.zero():
        pass
    return shrinking.best, shrinking.result


def size(schedule: Schedule) -> tuple[int, ...]:
    """Return the numbers that shrinking makes less, most important first."""
    choices = schedule.choices or ()
    job = schedule.job
    faults = len(schedule.moves) + len(schedule.crashes)
    parts = len(job.dataflow)
    tuples, others = (job.sources, job.groups, job.tuples), (len(schedule.saves), schedule.early)
    return faults, parts, *tuples, *others, sum(map(bool, choices))


def _simpler(schedule: Schedule) -> Iterator[Schedule]:
    for k in range(len(schedule.crashes)):
        yield replace(schedule, crashes=schedule.crashes[:k] + schedule.crashes[k + 1 :])
    for k in range(len(schedule.moves)):
        if len(schedule.moves) > 1:
            yield replace(schedule, moves=schedule.moves[:k] + schedule.moves[k + 1 :])
    job = schedule.job
    if job.shape != CHAIN:
        yield replace(schedule, job=replace(job, shape=CHAIN))
        yield from (replace(schedule, job=replace(job, shape=one)) for one in smaller_shapes(job.shape))
    for name, less in (("stages", 1), ("sources", 1), ("groups", 1), ("tuples", max(1, job.tuples // 2))):
        if less < getattr(job, name):
            yield replace(schedule, job=replace(job, **{name: less}))
    if job.tuples > 1:
        yield replace(schedule, job=replace(job, tuples=job.tuples - 1))
    if job.writes:
        yield replace(schedule, job=replace(job, writes=False))
    if schedule.early:
        yield replace(schedule, early=schedule.early - 1)
    for k in range(1, len(schedule.saves)):
        yield replace(schedule, saves=schedule.saves[:k] + schedule.saves[k + 1 :])


def _trimmed(choices: list[int] | tuple[int, ...]) -> tuple[int, ...]:
    """Return the choices without the zeros at the end, which a list that is over stands for."""
    end = len(choices)
    while end and not choices[end - 1]:
        end -= 1
    return tuple(choices[:end])
