"""Key groups that move in steps before, at and behind windows and joins, under the scheduler.

As in `reconfiguring` a step takes 1 ns, and a tuple is born at the step with which it arrives. That is its event time,
too. Watermarks leave sources at any step. The oracle knows nothing of moves: it puts the tuples that the sources have
emitted into the windows of their event time, and what these make into those behind them. Replay one with
`PYTHONPATH=tests python -m lab.windowed_plans --seed 17`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from lab.broken_windows import MUTANTS
from lab.job import Job
from lab.lineage import worked_out
from lab.planned_jobs import JOBS, Keys, drawn_plan
from lab.planned_jobs import job_of as unwindowed_job_of
from lab.reconfiguring import Reconfiguring
from lab.scheduler import Seeded
from lab.shapes import JOIN, KEYED, UNKEYED, WINDOW, WINDOWED
from sim.plain.partition import Partition, Row, Visit

SHAPES = [*WINDOWED, "windows_between", "join", "join_between"]
PROTOCOLS = ("megaphone", "megaphone", "megaphone", "pause-and-resume", "stop-and-restart")
Window = tuple[int, int, int]  # planned partition, number of the window, key


@cache
def job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw = Random(f"windowed plans {number}")
    job = replace(unwindowed_job_of(number), shape=SHAPES[number % len(SHAPES)], seed=number, postponed=())
    keyed = [name for name, node in job.dataflow.items() if node.kind in (KEYED, WINDOW, JOIN)]
    plans, moved = list[Keys](), set[str]()
    for _ in range(draw.choice([1, 1, 2, 3])):
        operator = draw.choice(keyed)
        back = operator in moved and draw.random() < 0.4
        plans.append(drawn_plan(draw, operator, job.tasks, job.groups, draw.choice(PROTOCOLS), back))
        moved.add(operator)
    return replace(job, plans=tuple(plans), window_ns=draw.choice([10, 30, 80, 200]), tuples=draw.choice([8, 12, 20]))


class WindowedPlans(Reconfiguring):
    """One laboratory in which key groups with windows, before and behind them move by plans."""

    @classmethod
    def drawn(cls, seed: int) -> WindowedPlans:
        """Return that of a seed."""
        draw = Random(f"windowed plans case {seed}")
        one = cls(job_of(draw.randrange(JOBS)), Seeded(seed), draw.random() < 0.5, draw.random() < 0.5)
        for _ in range(draw.choice([2, 4, 8, 16])):
            for source in one.plane.sources:
                one.lab.clock.add_fault("watermark", lambda its=source.partition: one._leaves_watermark(its))  # type: ignore[misc]
        return one

    def _leaves_watermark(self, partition: Partition) -> None:
        """Let a source send a watermark, as at a tick of the clock."""
        task = partition.task
        if partition.live and not task.paused_until_ns:
            here = [one for one in self.plane.sources if one.partition.task is task]
            self.met["watermark"] += 1
            self.watermarks._rise(task, min(one.promise_ns(0) for one in here))

    def _watch(self) -> None:
        super()._watch()
        watermarks: Any = self.plane.watermarks
        self.watermarks = watermarks
        self._entered: defaultdict[Window, Counter[int]] = defaultdict(Counter)
        self._ended: defaultdict[Window, list[int]] = defaultdict(list)  # event times of the newest tuple, each time
        enter, end = watermarks.enter, watermarks._end_windows

        def enters(partition: Partition, row: Row) -> None:
            for window in self._windows_of(partition, row.created_ns):
                at = partition.group.number, window, row.key
                self._entered[at][row.id] += 1
                if at in self._ended:
                    self.faults[f"{partition.name}: a tuple comes behind its window"] += 1
            enter(partition, row)

        def ends(task: Any, partitions: list[Partition]) -> None:
            windows = task.operator.windows
            for one in partitions:
                self.met["held"] += bool(one.held)
                for window, keys in one.time.windows.items():
                    if windows.end_ns(window) <= one.time.event_ns:
                        self.met["ends"] += 1
                        self.met["ends elsewhere"] += one.task.index != self._at_start[one.group.number]
                        for key, newest_ns in keys.items():
                            self._ended[one.group.number, window, key].append(newest_ns)
            if self._restarts(task.index):  # what is due ends as soon as a task has its states
                self._completing = task.index
            end(task, partitions)
            self._completing = None

        watermarks.enter, watermarks._end_windows = enters, ends

    def _restarts(self, task: int) -> bool:
        """Return whether a task waits for the restart of the job."""
        step = self._stopped.get(task)
        runs = self.reconfigurations.runs
        return step is not None and any(run.number == step[0] and run.name == "stop-and-restart" for run in runs)

    def _goes_ahead(self, visit: Visit) -> bool:
        """Return whether it follows from a window that has ended at a task with its states, before others have theirs.

        Sources wait until all have, so nothing else comes.
        """
        here = visit.partition
        return here.live and not here.operator.reckoned and self._restarts(here.task.index)

    @staticmethod
    def _windows_of(partition: Partition, event_ns: int) -> range:
        windows = partition.operator.windows
        assert windows is not None
        return range(windows.first(event_ns), windows.last(event_ns) + 1)

    # -- the end

    def _check_rest(self) -> None:
        self._check_event_times()
        for source in self.plane.sources:
            self._leaves_watermark(source.partition)
        while self.lab.clock.take():
            pass
        self.seen.lineage = worked_out(self.plane)  # by the times at which tuples were born
        super()._check_rest()
        self._check_windows()

    def _check_event_times(self) -> None:
        """Check that tasks have said what their key groups have heard, and that these have heard what was said."""
        plan = self.lab.plan
        for operator in plan.operators:
            tasks = {one.task for one in self.plane.instances() if one.operator is operator}
            for task in tasks if not operator.is_source else ():
                here = [one.time.event_ns for one in self.plane.instances() if one.task is task]
                windows, says = operator.windows, any(edge.down.timed for edge in operator.edges)
                held_ns = min(here) if windows is None or operator.joins is not None else windows.held_ns(min(here))
                if says and self.watermarks.sent_ns.get(task, 0) < held_ns:
                    self.faults[f"a task of {operator.name} has not said what its key groups have heard"] += 1
            above = [plan.operators[index] for index in plan.dataflow.predecessors(operator.index)]
            senders = {one.task for one in self.plane.instances() if one.operator in above}
            said_ns = min((self.watermarks.sent_ns.get(task, 0) for task in senders), default=0)
            for one in self.plane.instances():
                if one.operator is operator and operator.timed and one.time.event_ns < said_ns:
                    self.faults[f"{one.name} has not heard what its senders have said"] += 1
                self.met["heard"] += one.operator is operator and said_ns > 0

    def _check_windows(self) -> None:
        """Check that each window has ended once, with the tuples that it has where nothing moves."""
        expected: defaultdict[Window, dict[int, int]] = defaultdict(dict)
        named = {one.number: one for one in self.plane.all_partitions()}
        for (number, tuple_id), (event_ns, key) in self.seen.lineage.content.items():
            operator = named[number].operator
            if operator.windows is not None and operator.joins is None:
                for window in self._windows_of(named[number], event_ns):
                    expected[number, window, key][tuple_id] = event_ns
        for at in {*expected, *self._entered, *self._ended}:
            name, held = named[at[0]].name, expected.get(at, {})
            if self._entered[at] != Counter(dict.fromkeys(held, 1)):
                self.faults[f"{name}: a window has other tuples"] += 1
            if len(self._ended[at]) != 1:
                self.faults[f"{name}: a window does not end once"] += 1
            elif held and self._ended[at] != [max(held.values())]:
                self.faults[f"{name}: a window ends without its newest tuple"] += 1
        for partition in self.plane.instances():
            if partition.time.windows:
                self.faults[f"{partition.name}: a window does not end"] += 1


def kinds_moved(job: Job) -> Iterator[str]:
    """Yield where an operator that moves is: before, at or behind windows, or a join."""
    flow = job.dataflow
    names = [*flow]
    for keys in job.plans:
        name = dict(keys)["operator"]
        kind = flow[name].kind
        at = names.index(name)
        yield {WINDOW: "at windows", JOIN: "a join"}.get(kind, "")
        if kind not in (WINDOW, JOIN, UNKEYED):
            yield "before" if any(flow[other].kind in (WINDOW, JOIN) for other in names[at + 1 :]) else "behind"


def campaign(seeds: range) -> Counter[str]:
    """Run these seeds; return what they have met."""
    met = Counter[str]()
    for seed in seeds:
        one = WindowedPlans.drawn(seed)
        faults = one.run()
        assert faults == [], f"PYTHONPATH=tests python -m lab.windowed_plans --seed {seed}: {faults}"
        met.update(one.met)
        met.update(kinds_moved(one.job))
        met.update(run.strategy for run in one.reconfigurations.runs)
    return met


def noticed(title: str, seeds: Sequence[int]) -> int | None:
    """Return the first of these seeds with which a mutant is noticed, or None."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[title](patch)
        return next((seed for seed in seeds if WindowedPlans.drawn(seed).run()), None)


def main() -> int:
    """Return 1 if the schedule of a seed is at fault."""
    parser = argparse.ArgumentParser(prog="python -m lab.windowed_plans", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--mutant", help="break this on purpose", choices=[*MUTANTS])
    asked = parser.parse_args()
    with pytest.MonkeyPatch.context() as patch:
        if asked.mutant:
            MUTANTS[asked.mutant](patch)
        one = WindowedPlans.drawn(asked.seed)
        faults = one.run()
        print(f"{one.job}\n{one.lab.clock.now_ns()} steps: {'; '.join(faults) or 'nothing is wrong'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
