"""Key groups that move in steps by `megaphone`, or by the protocols that pause tasks, under the scheduler.

Here time matters: a tuple belongs to the configuration of the time at which it is born. So a step takes 1 ns, a tuple
is born at the step with which it arrives, an output that is post-dated leaves at its time, and nobody asks for a
frontier before its time. What control tells those who send takes no longer than the latency says, as the protocol has
it; all else is in any order. Replay one with `PYTHONPATH=tests python -m lab.reconfiguring --seed 17`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from lab.broken_reconfigurations import MUTANTS, OF_FILES, OF_LATE
from lab.frontiers import Punctual, Queues, SteppedMegaphone
from lab.invariants import NothingWaits, Seen
from lab.job import Job
from lab.laboratory import Laboratory
from lab.planned_jobs import JOBS, filed_job_of, job_of, late_job_of
from lab.scheduler import Chooser, Listed, Place, Seeded, Step
from models.planning.reconfiguration import moves_of
from models.scenario.events import Reconfigure
from sim.migration.protocol import Message
from sim.plain.audit import ledger
from sim.plain.partition import Partition, Row, TaskView, Visit

MOST_STEPS = 20_000


class Reconfiguring:
    """One laboratory in which key groups move by plans."""

    def __init__(self, job: Job, chooser: Chooser, stepped_links: bool = False, fair_links: bool = False) -> None:
        self.punctual = Punctual(chooser)
        self.lab = Laboratory(job, self.punctual, stepped_links, fair_links=fair_links)
        self.job, self.plane, self.cluster = job, self.lab.plane, self.lab.cluster
        self.seen = Seen(self.lab, crashes=0)
        self.faults, self.met = Counter[str](), Counter[str]()
        self.reconfigurations: Any = self.lab.reconfigurations
        self.reconfigurations.protocols = {**self.reconfigurations.protocols, "megaphone": SteppedMegaphone}
        self._at_start = [*self.cluster.partition_task]
        self._sent = Counter[tuple[int, int]]()  # (partition, id) -> times
        self._at: defaultdict[int, int] = defaultdict(int)  # partition -> parcels that it has travelled in
        self._way: dict[int, tuple[int, int]] = {}  # parcels on their way -> (run, step)
        self._left: dict[tuple[int, int], int] = {}  # (run, step) -> key groups that are not installed
        self._stopped: dict[int, tuple[int, int]] = {}  # task -> the step for which it waits
        self._asked = 0
        self._completing: int | None = None  # the task that makes outputs of a tuple now
        self._watch()
        for _ in job.plans:
            self.lab.clock.add_fault("plan", self._ask)

    @classmethod
    def drawn(cls, seed: int) -> Reconfiguring:
        """Return that of a seed."""
        return cls._of("plans", job_of, seed)

    @classmethod
    def filed(cls, seed: int) -> Reconfiguring:
        """Return that of a seed, of those whose plans come from migration files."""
        return cls._of("files", filed_job_of, seed)

    @classmethod
    def late(cls, seed: int) -> Reconfiguring:
        """Return that of a seed, of those whose configurations are late."""
        return cls._of("late", late_job_of, seed)

    @classmethod
    def _of(cls, kind: str, job_of: Callable[[int], Job], seed: int) -> Reconfiguring:
        draw = Random(f"{kind} case {seed}")
        return cls(job_of(draw.randrange(JOBS)), Seeded(seed), draw.random() < 0.5, draw.random() < 0.5)

    @classmethod
    def tiny(cls, chooser: Chooser, plan: Mapping[str, Any], postponed: bool = False) -> Reconfiguring:
        """Return that of a source of two tuples, two tasks with two key groups each, of which two move, and a sink."""
        keys = {"operator": "stage0", "owners": (1, 1, 0, 1)} | plan
        names = ("stage0",) if postponed else ()
        job = Job(seed=1, groups=4, tuples=2, hosts=2, plans=(tuple(keys.items()),), postponed=names)
        return cls(job, chooser)

    def _ask(self) -> None:
        """Have the next plan wanted: plans are made for the order in which their events stand."""
        name = f"plan{self._asked}"
        self._asked += 1
        event = self.lab.plan.scenario.events[name]
        assert isinstance(event, Reconfigure)
        process = self.reconfigurations._event(name, event)
        next(process)
        next(process, None)

    # -- what is watched

    def _watch(self) -> None:
        plane, runtime, clock = self.plane, self.lab.coordinator.runtime, self.lab.clock
        self.queues = Queues(self.lab, self.faults)
        self.punctual.follow(self.lab)
        # Tasks hear one after the other, so that others act in between.
        runtime.tell_each = lambda messages: [*map(runtime.tell, messages)]  # type: ignore[assignment]
        deliver, take, put, ships = runtime.deliver, plane.take, plane.put, plane.send_tuple

        def delivers(message: Message) -> None:
            self.met[message.kind] += 1
            if message.kind == "configure":
                self.met["withheld"] += len(plane.tasks[message.to].outbox.unsent)
            if self.punctual.is_late(message):
                self.faults["control tells too late"] += 1
            deliver(message)
            self._has_heard(message)

        def takes(partitions: Sequence[int]) -> Any:
            parcel = take(partitions)
            self._leaves(parcel.number, partitions)
            return parcel

        def puts(parcel: int, task: int) -> None:
            self._comes(parcel)
            put(parcel, task)

        def sends_tuple(origin: TaskView, sender: Partition, receiver: Partition, row: Row) -> None:
            self._sent[receiver.number, row.id] += 1
            if row.created_ns > clock.now_ns():
                self.faults["an output leaves before its time"] += 1
            if not sender.live:
                self.faults["an output leaves while its key group is live nowhere"] += 1
            if sender.task.index in self._stopped and self._completing != sender.task.index:
                self.faults["a post-dated output leaves a task that waits for a step"] += 1
            ships(origin, sender, receiver, row)

        runtime.deliver = delivers  # type: ignore[method-assign]
        plane.take, plane.put, plane.send_tuple = takes, puts, sends_tuple  # type: ignore[method-assign]
        for task in plane.tasks:
            self._watch_task(task)

    def _watch_task(self, task: Any) -> None:
        serve, complete = task._serve, task._complete

        def serves(item: Any, ns: int, now: int) -> None:
            if isinstance(item, Visit) and task.index in self._stopped and not self._goes_ahead(item):
                self.faults[f"a service begins at {task.operator.name} while a step is in flight"] += 1
            serve(item, ns, now)

        def completes(visit: Visit, now: int) -> None:
            expected = self._configured(visit.partition.number, visit.row.born_ns)
            if expected is not None and task.index != expected:
                self.faults[f"{visit.partition.name} is applied elsewhere than at the configuration of its time"] += 1
            self._completing = task.index
            complete(visit, now)
            self._completing = None

        task._serve, task._complete = serves, completes

    def _goes_ahead(self, visit: Visit) -> bool:
        """Return whether a tuple may be served although its task waits for a step."""
        return False

    def _configured(self, partition: int, time_ns: int) -> int | None:
        """Return the task that has a key group at a time; None if it moves by a protocol that pauses tasks."""
        at = self._at_start[partition]
        for run in self.reconfigurations.runs:
            for carries, times in zip(run.plan.steps, run.times, strict=True):
                target = next((one.target for one in carries if partition in one.partitions), None)
                if target is not None:
                    if run.name != "megaphone":
                        return None
                    if 0 <= times.from_ns <= time_ns:
                        at = target
        return at

    def _run(self, message: Message) -> Any:
        run = self.lab.coordinator.runtime.runs[message.run]
        return run if run in self.reconfigurations.runs else None

    def _has_heard(self, message: Message) -> None:
        """Note from when on a task serves nothing until the states of a step are there."""
        run, task = self._run(message), message.to
        if run is None or run.over:
            return
        step, heard = (run.number, 0), run.at(task)
        if message.kind == "passed":
            assert isinstance(message.note, int)
            if run.plan.scope == "operator":
                self._stops(task, (run.number, message.note))
        elif message.kind == "pause" and heard.answered("pause") >= set(run.plan.senders):
            self._stops(task, step)
        elif message.kind == "stop":
            upstream = run.protocol.context(self.lab.coordinator.runtime, run, task).upstream
            if heard.answered("stop") >= set(upstream):
                self._stops(task, step)

    def _groups(self, step: tuple[int, int]) -> int:
        run = next(one for one in self.reconfigurations.runs if one.number == step[0])
        return sum(len(carry.partitions) for carry in run.plan.steps[step[1]])

    def _stops(self, task: int, step: tuple[int, int]) -> None:
        if self._left.setdefault(step, self._groups(step)):
            self._stopped[task] = step

    def _leaves(self, parcel: int, partitions: Sequence[int]) -> None:
        """Key groups leave their task: of which step is it, and is all over that was before?"""
        step = next(
            (run.number, number)
            for run in self.reconfigurations.runs
            for number, carries in enumerate(run.plan.steps)
            for carry in carries
            if set(carry.partitions) == set(partitions) and not run.over and run.completed_ns is None
            if self._left.get((run.number, number), 1)
        )
        self._way[parcel] = step
        self._left.setdefault(step, self._groups(step))
        self.met["taken"] += 1
        if any(left for other, left in self._left.items() if other[0] == step[0] and other[1] < step[1]):
            self.faults["a step begins before the one before is over"] += 1
        run = next(one for one in self.reconfigurations.runs if one.number == step[0])
        from_ns = run.times[step[1]].from_ns
        if from_ns < run.plan.not_before_ns[step[1]]:
            self.faults["a step has a time before that of its line"] += 1
        for partition in partitions:
            here = self.plane.instances()[partition]
            self.met["post-dated"] += len(here.post_dated)
            told = run.name == "megaphone" and here.operator.reckoned  # behind windows tuples are born when these end
            later = [at for at in here.applied_created_ns if at >= from_ns] if told else []
            if later:
                self.faults["a state leaves that has tuples of its next task"] += 1

    def _comes(self, parcel: int) -> None:
        """A parcel is put at its task."""
        step = self._way.pop(parcel)
        partitions = self.plane.parcels[parcel].taken
        self.met["waited"] += sum(len(one.held) for one in partitions)
        self._left[step] -= len(partitions)
        if not self._left[step]:
            self._stopped = {task: its for task, its in self._stopped.items() if its != step}
            self.queues.over(step[0])

    # -- the run

    def run(self) -> list[str]:
        """Take all steps; return what is wrong."""
        clock = self.lab.clock
        try:
            clock.settle()
            while clock.take():
                self.queues.look()
                if clock.now_ns() > MOST_STEPS:
                    raise RuntimeError("does not come to rest")
        except Exception as error:  # a verb that refuses, or fails, is a fault
            self.faults[f"raises {type(error).__name__}: {error}"] += 1
            return [*self.faults]
        self._check_rest()
        return [*self.faults]

    def _check_rest(self) -> None:
        self.faults.update(NothingWaits().check(self.seen))
        for partition in (*self.seen.owners(), *self.seen.sinks):
            if self.seen.lacks(partition):
                self.faults[f"{partition.name} lacks something"] += 1
            if len(partition.applied) != len(partition.position):
                self.faults[f"{partition.name} has applied something twice"] += 1
            if partition.post_dated or partition.overdue:
                self.faults[f"{partition.name} keeps outputs for ever"] += 1
            if partition.open_keys.keys or (partition.operator.closes_keys and partition.state_bytes()):
                self.faults[f"{partition.name} keeps tuples of closed keys"] += 1
            self.met["closed keys"] += len(partition.open_keys.closed)
            if not partition.live:
                self.faults[f"{partition.name} is live nowhere"] += 1
        if any(lost or twice for _, _, lost, twice in ledger(self.plane)):
            self.faults["the ledger says lost, or twice"] += 1
        if any(count > 1 for count in self._sent.values()):
            self.faults["something is sent twice"] += 1
        if self.lab.moving or any(run.completed_ns is None for run in self.reconfigurations.runs):
            self.faults["a plan does not end"] += 1
        for task in self.plane.tasks:
            if task.side or task.rules or task.paused_until_ns or task.outbox.unsent:
                self.faults[f"{task.operator.name} still waits"] += 1
        self._check_places()
        self._check_order()

    def _check_places(self) -> None:
        """Check that each key group is where the last plan has it."""
        owners = [*self._at_start]
        scenario, plan = self.lab.plan.scenario, self.lab.plan
        for number, keys in enumerate(self.job.plans):
            operator = next(one for one in plan.operators if one.name == dict(keys)["operator"])
            first = plan.first_partition[operator.index]
            members = [task for task, its in enumerate(self.cluster.task_operator) if its == operator.index]
            for move in moves_of(scenario, f"plan{number}", plan.inputs.configurations):
                owners[first + move.key_group] = members[move.target]
        if [*self.cluster.partition_task] != owners:
            self.faults["a key group is not where it is to be"] += 1
        if [one.task.index for one in self.plane.instances()] != owners:
            self.faults["a key group is not where control thinks"] += 1

    def _check_order(self) -> None:
        """Check that what came the same way is applied in order: not behind what has moved, or is post-dated."""
        operators, path = self.lab.plan.operators, self.seen.lineage.path
        moved = {dict(keys)["operator"] for keys in self.job.plans}
        behind = {one.index for one in operators if one.name in moved or one.name in self.job.postponed}
        for partition in (*self.seen.owners(), *self.seen.sinks):
            last: dict[tuple[int, ...], int] = {}
            for tuple_id in partition.applied:
                if (partition.number, tuple_id) not in path:
                    continue  # an output of a window, or of a pair
                way, sequence = path[partition.number, tuple_id]
                if behind.isdisjoint(self.cluster.partition_operator[one] for one in way):
                    if sequence < last.get(way, -1):
                        self.faults[f"{partition.name} applies tuples out of order"] += 1
                        break
                    last[way] = sequence


MADE: Mapping[str, Callable[[int], Reconfiguring]] = {
    "": Reconfiguring.drawn,
    "files": Reconfiguring.filed,
    "late": Reconfiguring.late,
}
"""Draws of a job from a seed, by option."""


def made_for(title: str) -> Callable[[int], Reconfiguring]:
    """Return what is run of a seed to notice a mutant."""
    return MADE["files" if title in OF_FILES else "late" if title in OF_LATE else ""]


def campaign(seeds: range, option: str = "") -> Counter[str]:
    """Run these seeds, with plans from files, with configurations that are late, or without; return what they met."""
    met = Counter[str]()
    for seed in seeds:
        one = MADE[option](seed)
        faults = one.run()
        command = f"PYTHONPATH=tests python -m lab.reconfiguring --seed {seed} {option and '--' + option}"
        assert faults == [], f"{command}: {faults}"
        met.update(one.met)
        met.update(run.strategy for run in one.reconfigurations.runs)
        for run in one.reconfigurations.runs:
            steps = range(1, len(run.plan.steps))
            met["moves again"] += run.plan.next == "lag" and sum(not run.plan.announced(step) for step in steps)
            met["at a time"] += sum(times.from_ns in run.plan.not_before_ns for times in run.times)
    return met


class Branching(Listed):
    """A list of choices that notes among how many places each is."""

    def __init__(self, choices: Sequence[int]) -> None:
        super().__init__(choices)
        self.widths: list[int] = []

    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        if len(lanes) > 1:
            self.widths.append(len(lanes))
        return super().choose(lanes)


def explored(made: Callable[[Chooser], Reconfiguring], deviations: int) -> int:
    """Run all orders with so many deviations from that of age; return how many."""
    count, todo = 0, list[tuple[tuple[int, ...], int]]([((), deviations)])
    while todo:
        listed, left = todo.pop()
        chooser = Branching(listed)
        faults = made(chooser).run()
        assert faults == [], f"{listed}: {faults}"
        count += 1
        for at in range(len(listed), len(chooser.widths)) if left else ():
            same = (*listed, *(0,) * (at - len(listed)))
            todo += [((*same, other), left - 1) for other in range(1, chooser.widths[at])]
    return count


def noticed(title: str, seeds: Sequence[int]) -> int | None:
    """Return the first of these seeds with which a mutant is noticed, or None."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[title](patch)
        made = made_for(title)
        return next((seed for seed in seeds if made(seed).run()), None)


def main() -> int:
    """Return 1 if the schedule of a seed is at fault."""
    parser = argparse.ArgumentParser(prog="python -m lab.reconfiguring", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--mutant", help="break this on purpose", choices=[*MUTANTS])
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--files", help="one whose plans come from migration files", action="store_true")
    kind.add_argument("--late", help="one whose configurations are late", action="store_true")
    asked = parser.parse_args()
    with pytest.MonkeyPatch.context() as patch:
        if asked.mutant:
            MUTANTS[asked.mutant](patch)
        one = MADE["files" if asked.files else "late" if asked.late else ""](asked.seed)
        faults = one.run()
        print(f"{one.job}\n{one.lab.clock.now_ns()} steps: {'; '.join(faults) or 'nothing is wrong'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
