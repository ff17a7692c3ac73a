"""All schedules of a tiny job: every order of its steps, but for orders of steps that do not touch each other.

Stateless exploration with sleep sets (Godefroid, Partial-Order Methods for the Verification of Concurrent Systems,
1996, chapter 5): of the orders that differ only by swapping neighbours which are independent just one is run to its
end. A step touches one task, or everything: what control, a checkpoint, a trim and a verb that names several tasks do.
In a move what comes to a sink is done at once: it sends nothing, and is judged by what it has, in whatever order. In a
rebalance sinks are restarted, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lab.coverage import Coverage
from lab.job import Job
from lab.laboratory import Laboratory
from lab.schedule import Ask, Runner, Schedule, Tamper
from lab.scheduler import Chooser, Listed, Place, Step, in_order
from lab.shapes import CHAIN
from models.scenario.events import WITHOUT_CHECKPOINTS
from sim.clock import HOST_RECEIVER

EVERYTHING = -1  # in place of the one task that a step touches
NOTHING = -2
ASKED_FOR = ("save", "move", "rebalance", "wave", "tick")
WIDE = (
    "own",
    "retire",
    "adopt",
    "hand_down",
    "open",
    "freeze",
    "trim",
    "checkpoint",
    "plan_checkpoint_host",
    "announce",
)


WIDE_IN_REBALANCES = ("kill", "assign", "install", "replay", "emit_again")
"""What control does when it starts tasks, and after a crash."""
AT_TASK = ("unpause", "put")
"""Verbs of a task, which control uses as well, such as a gate; their last argument is the task."""


class Redundant(BaseException):  # not a finding
    """Everything that could come next was run at an equal place before."""


@dataclass
class Node:
    """A choice: what was taken, what it touched, and what need not be taken."""

    current: Place
    left: list[Place]
    asleep: dict[Place, int]  # with what each touches
    tried: dict[Place, int] = field(default_factory=dict)
    touched: int = EVERYTHING


class Exploring(Chooser):
    """Takes the first way at each new choice, and on the ways before what it has been told."""

    wide: Sequence[str] = WIDE

    def __init__(self, prune: bool, deviations: int | None) -> None:
        self.prune, self.deviations = prune, deviations
        self.path: list[Node] = []
        self.lab: Laboratory | None = None
        self.warm = 0  # arrivals at each source that come before all else
        self._begin()

    def _begin(self) -> None:
        self._depth, self._warming, self._wide, self._last = 0, True, False, EVERYTHING
        self._arrived: dict[Place, int] = {}

    def enter(self, lab: Laboratory) -> None:
        """Another run from the beginning."""
        self.lab = lab
        self._begin()
        for name in self.wide:
            self._watch(lab.plane, name)

    def _watch(self, plane: Any, name: str) -> None:
        verb = getattr(plane, name)

        def noted(*arguments: Any) -> Any:
            self._wide = True
            return verb(*arguments)

        setattr(plane, name, noted)

    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        if self._warming:
            place = self._warm_up(lanes)
            if place is not None:
                return place
            self._warming = False
        else:
            self._note()
        for place in lanes:
            if self._at_sink(place):
                self._last = NOTHING
                return place
        return self._next(in_order(lanes))

    def _note(self) -> None:
        """Note what the step of the last choice has touched."""
        if self._last != NOTHING and self._depth:
            self.path[self._depth - 1].touched = EVERYTHING if self._wide else self._last

    def _next(self, enabled: list[Place]) -> Place:
        if self._depth == len(self.path):
            self.path.append(self._node(enabled))
        node = self.path[self._depth]
        self._depth += 1
        self._last, self._wide = self._touches(node.current), False
        return node.current

    def _node(self, enabled: list[Place]) -> Node:
        asleep: dict[Place, int] = {}
        if self.prune and self.path:
            above = self.path[-1]
            asleep = {
                place: touched
                for place, touched in (above.asleep | above.tried).items()
                if place in enabled and EVERYTHING not in (touched, above.touched) and touched != above.touched
            }
        ways = [place for place in enabled if place not in asleep]
        if self.deviations is not None:
            used = sum(bool(node.tried) for node in self.path)
            ways = ways if used < self.deviations else ways[:1]
        if not ways:
            raise Redundant
        return Node(ways[0], ways[1:], asleep)

    def _touches(self, place: Place) -> int:
        kind, where, _ = place
        return where if kind == "task" or (kind == "channel" and where < HOST_RECEIVER) else EVERYTHING

    def _at_sink(self, place: Place) -> bool:
        assert self.lab
        kind, where, _ = place
        if kind != "channel" or where >= HOST_RECEIVER:
            return False
        return self.lab.plan.operators[self.lab.cluster.task_operator[where]].is_sink

    def _warm_up(self, lanes: dict[Place, deque[Step]]) -> Place | None:
        """First some tuples go through, then there is a checkpoint."""
        assert self.lab
        places = in_order(lanes)
        sources = {("task", source.partition.task.index, 0) for source in self.lab.plane.sources}
        for place in places:
            if place in sources:
                if self._arrived.get(place, 0) < self.warm:
                    self._arrived[place] = self._arrived.get(place, 0) + 1
                    return place
            elif place[0] not in ASKED_FOR:
                return place
        return next((place for place in places if place[0] == "save"), None)

    def history(self) -> str:
        """Return what tells orders apart beside their end."""
        return ""

    def back(self) -> bool:
        """Go to the last choice that has another way; False if there is none."""
        self._note()
        while self.path:
            node = self.path[-1]
            node.tried[node.current] = node.touched
            if node.left:
                node.current = node.left.pop(0)
                return True
            self.path.pop()
        return False


class ExploringWaves(Exploring):
    """The same for rebalances without checkpoints: sinks are subtasks, and answers commute.

    A step of control that only hears of an answer touches nothing of another step: whatever the order, all that have
    answered are known, and the last answer sends. A step of the store gives one task its answer. No run is called off.
    """

    wide = WIDE_IN_REBALANCES

    def __init__(self, prune: bool = True, deviations: int | None = None) -> None:
        super().__init__(prune, deviations)
        self._history: dict[int, list[tuple[Any, ...]]] = {}

    def enter(self, lab: Laboratory) -> None:
        super().enter(lab)
        self._history = {}
        for name in AT_TASK:
            self._watch_control(lab.plane, name)
        self._watch(lab.coordinator.runtime, "done")
        self._watch(lab, "_rings")

    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        place = super().choose(lanes)
        if place[0] in ("channel", "task", "trim"):
            self._history.setdefault(place[1], []).append(place)
        return place

    def history(self) -> str:
        """Return what came to each task, in order: orders that differ in nothing else are one."""
        return repr(sorted(self._history.items()))

    def _watch_control(self, plane: Any, name: str) -> None:
        verb = getattr(plane, name)

        def noted(*arguments: int) -> Any:
            if self._last < NOTHING:
                self._last = arguments[-1]
            self._history.setdefault(arguments[-1], []).append((name,))
            return verb(*arguments)

        setattr(plane, name, noted)

    def _touches(self, place: Place) -> int:
        kind, where, _ = place
        if kind == "timer":
            return NOTHING - 1 - where
        return where if kind == "trim" else super()._touches(place)

    def _at_sink(self, place: Place) -> bool:
        return False


class ExploringAcks(Exploring):
    """The same with acks, which say of a sink what it has."""

    def _begin(self) -> None:
        super()._begin()
        self._warming = False

    def _at_sink(self, place: Place) -> bool:
        return False


@dataclass
class Explored:
    """The result of an exploration."""

    schedules: int = 0  # run to their end
    cut: int = 0  # begun, and found to be like others
    complete: bool = False
    faults: list[str] = field(default_factory=list)
    ends: set[str] = field(default_factory=set)  # all states in the end


def tiny(protocol: str, sources: int, tuples: int, meanwhile: bool = False, shape: str = CHAIN) -> Schedule:
    """Return a schedule in which the last key group that can move does, to its checkpoint host if that is needed.

    With `meanwhile` a checkpoint is due during the move.
    """
    job = Job(seed=1, sources=sources, stages=1, groups=1, tuples=tuples, hosts=4, shape=shape)
    if protocol == WITHOUT_CHECKPOINTS:
        job = replace(job, method="upstream-backup", store="remote")
    group, to_checkpoint_host = (
        len(job.movable) - 1,
        protocol not in ("direct", "lazy_move", "replication", WITHOUT_CHECKPOINTS),
    )
    host = 3 if shape == CHAIN else _away_from(job, group)
    target = Ask(group=group, host=host, to_checkpoint_host=to_checkpoint_host, after=1)
    return Schedule(protocol, 0, job, (target,), (), (0, 1) if meanwhile else (0,))


def _away_from(job: Job, group: int) -> int:
    """Return the host behind that of a key group that can move."""
    lab = Laboratory(job, Listed(()))
    return (lab.cluster.host_of(lab.movable[group]) + 1) % job.hosts


class Explorable(Protocol):
    """A laboratory with all that is to happen in it, before the first step."""

    lab: Laboratory

    def run(self) -> Sequence[str]:
        """Take all steps; return what is wrong."""


class Scheduled:
    """A laboratory in which a schedule is run."""

    def __init__(self, schedule: Schedule, chooser: Chooser, tamper: Tamper | None) -> None:
        self.lab = Laboratory(schedule.job, chooser, stepped_links=False)
        self._runner = lambda: Runner(schedule, self.lab, tamper, Coverage())

    def run(self) -> Sequence[str]:
        """Return its faults."""
        return self._runner().run().faults


def explore(
    schedule: Schedule,
    warm: int = 0,
    most: int = 10**6,
    prune: bool = True,
    deviations: int | None = None,
    tamper: Tamper | None = None,
) -> Explored:
    """Run all schedules of a job, or those with so many `deviations` from the order of age; `most` at most."""
    chooser = Exploring(prune, deviations)
    chooser.warm = warm
    return explored(chooser, lambda: Scheduled(schedule, chooser, tamper), most)


def explored(chooser: Exploring, begin: Callable[[], Explorable], most: int = 10**6) -> Explored:
    """Run what `begin` returns in all ways of the chooser, `most` at most; the first fault ends it."""
    found = Explored()
    while found.schedules + found.cut < most:
        one = begin()
        chooser.enter(one.lab)
        try:
            faults = one.run()
        except Redundant:
            found.cut += 1
        else:
            found.schedules += 1
            found.ends.add(_end(one.lab) + chooser.history())
            if faults:
                found.faults = [*faults]
                return found
        if not chooser.back():
            found.complete = True
            return found
    return found


def _end(lab: Laboratory) -> str:
    """The state in the end, as text."""
    partitions = [
        (partition.number, partition.live, partition.retired, partition.applied) for partition in lab.plane.instances()
    ]
    at_sinks = [partition for partition in lab.plane.all_partitions() if partition.operator.is_sink]
    sinks = [sorted(partition.applied) for partition in at_sinks]
    return repr((partitions, sinks))
