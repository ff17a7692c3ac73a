"""Key groups that move in steps by `megaphone`: what must hold in each run, equal planes, and rules that are broken.

Oracle: what is applied where, as the plain plane does it, against the configuration at the time of each tuple; rows of
the compiled plane against those of the plain one; times against closed forms. No tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from lab.broken_reconfigurations import MUTANTS
from test_planes import differences

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import Configuration, RunInputs
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.units import to_ns
from scenarios.planning.reconfiguration import optimised_steps
from sim.clock import Clock
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.reconfiguration import Reconfiguration, StepTimes
from sim.plain.partition import Row, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

MS = 1_000_000
STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "all-at-once"},
    {"strategy": "fluid"},
    {"strategy": "batched", "size": 3},
    {"strategy": "optimised"},
]


def options(draw: Random) -> dict[str, Any]:
    """Whether steps lie closer together, or further apart, and whether key groups travel one by one."""
    of_steps = draw.choice([{}, {"gap": "drain"}, {"next": "lag", "gap": "0 s"}])
    return of_steps | {"overlap": draw.choice(["none", "pipelined"])}


def vary(draw: Random, raw: dict[str, Any], behind_map: float) -> None:
    """Put a map in front of the operator, with this probability, and links, cores and the work of a move."""
    if draw.random() < behind_map:  # what is older may be on its way when who sends to the operator hears
        slow = {"distribution": "exponential", "mean": draw.choice(["2 ms", "4 ms"])}
        raw["operators"]["map"] = {"kind": "map", "inputs": {"src": "shuffle"}, "parallelism": 2, "service": slow}
        raw["operators"]["op"]["inputs"] = {"map": "key"}
    if draw.random() < 0.7:
        raw["hosts"]["h"]["network"] = draw.choice(["1 MB/s", "10 MB/s"])
        if draw.random() < 0.3:
            raw["network"]["sharing"] = "fair"
    if draw.random() < 0.4:
        raw["hosts"]["h"] |= {"cores": 2, "cpu": draw.choice(["shared", "processor-sharing"])}
    if draw.random() < 0.7:
        raw["operators"]["op"] |= {"serialise": "2 MB/s", "deserialise": "4 MB/s"}


def job(seed: int) -> dict[str, Any]:
    """A random job with an operator that is reconfigured once or more, a map before it or not."""
    draw = Random(f"megaphone {seed}")
    tasks = draw.choice([2, 3, 4])
    groups = {2: 2, 3: 4, 4: 4}[tasks] * draw.choice([1, 2, 4])  # a power of two
    service = {"distribution": draw.choice(["exponential", "deterministic"])}
    service["mean" if service["distribution"] == "exponential" else "value"] = draw.choice(["1 ms", "3 ms"])
    raw: dict[str, Any] = {
        "duration": "2.5 s",
        "seed": seed,
        "workload": {
            "src": {
                "rate": f"{draw.choice([60, 200])} /s",
                "arrivals": draw.choice(["poisson", "deterministic"]),
                "keys": {"distribution": "uniform", "count": 40},
                "tuple": "200 B",
            }
        },
        "operators": {
            "src": {"kind": "source", "parallelism": draw.choice([1, 2])},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": tasks,
                "key_groups": groups,
                "service": service,
                "state": draw.choice([{"model": "fixed", "bytes": "20 kB"}, {"model": "per-key", "bytes": "5 kB"}]),
            },
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": draw.choice([2, 4])}},
        "network": {"latency": draw.choice(["0 s", "1 ms", "5 ms"])},
        "fault_tolerance": {"method": "none"},
        "events": {},
    }
    vary(draw, raw, behind_map=0.5)
    for k in range(draw.choice([1, 1, 2])):
        event = {"kind": "reconfigure", "at": f"{draw.choice([100, 200, 201])} ms", "operator": "op"}
        event |= draw.choice(STRATEGIES) | {"scope": draw.choice(["operator", "bin"])}
        event["gap"] = draw.choice(["0 s", "0 s", "7 ms"])
        event |= options(Random(f"options {seed} {k}"))
        if draw.random() < 0.5:
            event["owners"] = [draw.randrange(tasks) for _ in range(groups)]
        elif draw.random() < 0.2:
            event["tasks"] = draw.randint(1, tasks)
        elif k:
            event["plan"] = "back"
        raw["events"][f"move{k}"] = event
    if draw.random() < 0.3:
        raw["recording"] = {"memory": True}
    return raw


Lines = tuple[Configuration, ...]


def made(
    raw: dict[str, Any], plane: PlaneFactory = PlainPlane, lines: Lines = (), clock: Clock | None = None
) -> Control:
    """The run of a job, before its start; `lines`: of the file of its event `move`."""
    scenario = scenario_from(raw)
    files = {"move": lines} if lines else {}
    inputs = RunInputs(steps=optimised_steps(scenario, files), configurations=files)
    return Control(RunPlan.of(scenario, inputs, 0), plane, clock)


def rows_of(raw: dict[str, Any], plane: PlaneFactory, lines: Lines = ()) -> RunRecords:
    control = made(raw, plane, lines)
    control.start()
    until = to_ns(control.plan.scenario.duration_s)
    control.run(until)
    return records(control, until)


@dataclass
class Applied:
    """A tuple that was applied: when, by which key group at which task, when its service began.

    `origin` is the task that has sent it, `number` its place among all that was sent.
    """

    at_ns: int
    start_ns: int
    partition: int
    task: int
    row: Row
    origin: int
    number: int


@dataclass
class Watched:
    """A run on the plain plane, with all that an operator has applied, which is reconfigured."""

    control: Control
    name: str = "op"
    arrived: dict[Any, int] = field(default_factory=dict)  # id of a tuple -> when it came [ns]
    applied: list[Applied] = field(default_factory=list)

    @property
    def plans(self) -> Iterator[tuple[Reconfiguration, list[StepTimes]]]:
        for run in self.control.reconfigurations.runs:
            if run.plan.operator == self.operator:
                yield run.plan, run.times

    def configuration(self, partition: int, time_ns: int) -> int:
        """The task that has a key group at a time, by the steps that have begun."""
        task = self.control.plan.scenario.operators[self.name].task_of(self.control.cluster.partition_index[partition])
        first = next(t for t, o in enumerate(self.control.cluster.task_operator) if o == self.operator)
        task += first
        for plan, times in self.plans:
            for carries, one in zip(plan.steps, times, strict=True):
                if one.from_ns != NEVER and one.from_ns <= time_ns:
                    task = next((carry.target for carry in carries if partition in carry.partitions), task)
        return task

    @property
    def operator(self) -> int:
        return next(one.index for one in self.control.plan.operators if one.name == self.name)


def watched(raw: dict[str, Any], patch: pytest.MonkeyPatch, lines: Lines = (), name: str = "op") -> Watched:
    """The run of a job on the plain plane, and what the operator of that name has applied."""
    found = Watched(made(raw, lines=lines), name)
    right, arrive = Task._complete, Task.arrive

    def arrives(self: Task, *items: Any) -> None:
        if self.operator.name == name:
            now = self.plane.clock.now_ns()
            found.arrived |= {one.row.id: now for one in items if isinstance(one, Visit)}
        arrive(self, *items)

    def complete(self: Task, visit: Visit, now: int) -> None:
        if self.operator.name == name:
            place = visit.partition.number, self.index
            sent = visit.origin.index, visit.number
            found.applied.append(Applied(now, visit.start_ns, *place, visit.row, *sent))
        right(self, visit, now)

    with patch.context() as inner:
        inner.setattr(Task, "_complete", complete)
        inner.setattr(Task, "arrive", arrives)
        found.control.start()
        found.control.run(to_ns(found.control.plan.scenario.duration_s))
    return found


def faults(run: Watched) -> list[str]:
    """All that a run of the protocol must not do, in words; empty if it is right."""
    found = []
    ids = {one.row.id for one in run.applied}
    if len(ids) < len(run.applied):
        found.append("a tuple is applied twice")
    late_ns = to_ns(run.control.plan.scenario.duration_s) - 1_000_000_000
    if any(came < late_ns for id, came in run.arrived.items() if id not in ids):
        found.append("a tuple is left behind")
    # Migration: each update of a key at a time is done by the task that the configuration has for both.
    if any(one.task != run.configuration(one.partition, one.row.born_ns) for one in run.applied):
        found.append("a tuple is applied elsewhere than at the configuration of its time")
    for plan, times in run.plans:
        for k in range(len(plan.steps)):
            found += _of_step(run, plan, times, k)
    if any(one.completed_ns is None for one in run.control.reconfigurations.runs):
        found.append("it never ends")
    return found + _disorder(run)


def _of_step(run: Watched, plan: Reconfiguration, times: list[StepTimes], k: int) -> Iterator[str]:
    scenario, heard = run.control.plan.scenario, run.control.plan.latency_ns
    step = times[k]
    if NEVER in (step.passed_ns, step.installed_ns):
        return
    if any(one.at_ns > step.passed_ns for one in run.applied if one.row.born_ns < step.from_ns):
        yield "something older is applied after the time of a step has passed"
    for carry in plan.steps[k]:
        # A state is written, sent and read; nothing is applied before.
        least = step.passed_ns + heard + _least_ns(scenario, run.name, len(carry.partitions))
        new = [one for one in run.applied if one.partition in carry.partitions and one.row.born_ns >= step.from_ns]
        if any(one.at_ns < least for one in new):
            yield "a tuple is applied before the state of its key group has come"
    # A service in progress goes on when its task hears that it has to hold what it has.
    begin, end = step.passed_ns + heard, step.installed_ns
    if plan.scope == "operator" and any(begin < one.start_ns < end for one in run.applied):
        yield "the service of a tuple begins while a step is in flight"
    if k and times[k - 1].installed_ns > step.passed_ns:
        yield "a step begins before the one before is over"


def _least_ns(scenario: Scenario, name: str, groups: int) -> int:
    """The least time that the states of key groups of a fixed size take from one host to another, or on one."""
    operator = scenario.operators[name]
    size = groups * 20_000 if operator.state is not None and operator.state.model == "fixed" else 0
    rates = (operator.serialise_bytes_per_s, operator.deserialise_bytes_per_s)
    return sum(int(size * 1e9 / rate) for rate in rates if rate)


def _disorder(run: Watched) -> list[str]:
    """Tuples of a key from one task come in the order in which it has sent them; from a source, in that of time.

    One that is born earlier may go ahead: its task has the key group until a time that the other is born after.
    """
    before: dict[tuple[int, int], list[tuple[int, int]]] = {}
    operators, of_task = run.control.plan.operators, run.control.cluster.task_operator
    for one in run.applied:
        others, born_ns = before.setdefault((one.row.key, one.origin), []), one.row.born_ns
        of_source = operators[of_task[one.origin]].is_source
        if any((number > one.number and born >= born_ns) or (of_source and born > born_ns) for number, born in others):
            return ["tuples of a key are applied in another order than that of their channel"]
        others.append((one.number, born_ns))
    return []


def test_each_tuple_is_applied_once_at_the_configuration_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, lost = 0, 0
    for seed in range(24):
        run = watched(job(seed), monkeypatch)
        assert faults(run) == [], seed
        steps += sum(len(plan.steps) for plan, _ in run.plans)
        ledger = records(run.control, to_ns(2.5)).tables["ledger"]
        lost += int(ledger["lost"].sum() + ledger["duplicated"].sum())
    assert steps > 60
    assert lost == 0


@pytest.mark.parametrize("next_time", ["now", "lag"])
def test_steps_of_a_file_move_a_key_group_more_than_once(next_time: str, monkeypatch: pytest.MonkeyPatch) -> None:
    again = 0
    for seed in range(6):
        draw = Random(f"lines {seed}")
        raw = job(seed)
        raw["operators"]["op"]["key_groups"] = groups = 8
        tasks = raw["operators"]["op"]["parallelism"]
        raw["events"] = {"move": {"kind": "reconfigure", "at": "0.1 s", "operator": "op", "file": "moves.txt"}}
        raw["events"]["move"] |= {"scope": draw.choice(["operator", "bin"]), "gap": draw.choice(["0 s", "drain"])}
        if next_time == "lag":
            raw["events"]["move"] |= {"next": "lag", "gap": "0 s"}
        lines = tuple(
            Configuration(at * MS, tuple((k, draw.randrange(tasks)) for k in draw.sample(range(groups), 2)))
            for at in (100, 100, 101, 300, 300, 450)
        )
        run = watched(raw, monkeypatch, lines)
        assert faults(run) == [], seed
        ((plan, times),) = run.plans
        again += sum(not plan.announced(step) for step in range(1, len(plan.steps)))
        assert [one.from_ns >= at for one, at in zip(times, plan.not_before_ns, strict=True)] == [True] * len(times)
        plain, compiled = (rows_of(raw, plane, lines) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
    assert again > 5


def test_both_planes_give_equal_rows() -> None:
    steps = 0
    for seed in range(16):
        plain, compiled = (rows_of(job(seed), plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        assert (plain.tables["reconfigurations"]["installed_ns"] > 0).all()
        steps += plain.tables["reconfigurations"]["step"].size
    assert steps > 40


# -- rules that are broken in the laboratory, on the clock

CAUGHT = {
    "a step begins before its time has passed": "passed",
    "a step begins before its time has passed, and the plane looks": "refused: not all that is older",
    "a frontier does not count what is still above the operator": "passed",
    "who sends goes by the newest configuration": "never ends",  # a record waits where its time has not come
    "one of those who send does not hear of the configuration": "refused",
    "a tuple is applied where it comes, also before its state": "before the state",
    "key groups go on at their new tasks before their states come": "before the state",
    "a step begins when the first state of the one before is there": "before the one before is over",
    "what has waited for a state is left behind": "left behind",
    "with the scope of the operator its tasks go on with other key groups": "in flight",
    "a task goes on when the first state of a step is there": "in flight",
    "tasks hear over the links that a state is there": "never ends",  # if they hear it after the end of the run
}
"""Mutant -> what is said of it."""


@pytest.mark.parametrize("title", CAUGHT)
def test_what_is_broken_is_noticed(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[title](monkeypatch)
    seen: list[str] = []
    for seed in range(24):
        try:
            seen += faults(watched(job(seed), monkeypatch))
        except (ValueError, AssertionError) as error:
            seen.append(f"refused: {error}")
        if any(CAUGHT[title] in one for one in seen):
            return
    raise AssertionError(f"nothing of it was noticed: {seen}")
