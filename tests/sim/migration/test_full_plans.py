"""Random jobs with all keys that go together with `reconfigure`: planes give equal rows, and no rule breaks.

Oracle: `sim.plain`, by equality of all columns; what is applied where, against the configuration at the time of each
tuple; the ledger. Where the scan can have the run it lends tuples to the event loop. No tolerance. The jobs of
`test_megaphone` are small and meet what matters to one rule; here several operators get new plans by all protocols, at
any time, from each kind of source, over each kind of link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from lab.broken_reconfigurations import MUTANTS
from seeds import SEED, fresh
from test_borrowing import LENGTHS_NS, PLANES, lending
from test_planes import differences

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import Configuration, RunInputs
from models.scenario.reading import scenario_from
from models.scenario.rules.support import not_simulated
from models.units import to_ns
from scenarios.planning.reconfiguration import optimised_steps
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel import choice
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.partition import Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task
from sim.plane_values import NotCovered

MS = 1_000_000
FRESH = 300
Files = dict[str, tuple[Configuration, ...]]
Row = tuple[int, int, int, int]  # when a tuple was applied, when it was born [ns], at which partition and task
Applied = dict[int, list[Row]]  # by operator


def _service(draw: Random) -> dict[str, Any]:
    mean = draw.choice([0.2, 1.0, 2.0, 4.0])
    laws: list[dict[str, Any]] = [
        {"distribution": "deterministic", "value": f"{mean} ms"},
        {"distribution": "exponential", "mean": f"{mean} ms"},
        {"distribution": "uniform", "low": "0 s", "high": f"{2 * mean} ms"},
        {"distribution": "gamma", "mean": f"{mean} ms", "shape": 0.5},
        {"distribution": "lognormal", "mean": f"{mean} ms", "cv": 2.0},
    ]
    return draw.choice(laws)


def _source(draw: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """A source and its workload."""
    rates: list[Any] = [
        "100 /s",
        "300 /s",
        "600 /s",
        {"steps": [{"at": "0 s", "rate": "50 /s"}, {"at": "120 ms", "rate": "800 /s"}]},
        {"ramp": {"start": "0 /s", "end": "500 /s", "over": "200 ms"}},
    ]
    keys: list[dict[str, Any]] = [
        {"distribution": "uniform", "count": draw.choice([1, 7, 100])},
        {"distribution": "zipf", "count": 30, "exponent": 1.2},
    ]
    workload = {"rate": draw.choice(rates), "keys": draw.choice(keys), "tuple": draw.choice(["50 B", "1 kB", "20 kB"])}
    workload["arrivals"] = draw.choice(["poisson", "deterministic", {"distribution": "gamma", "shape": 0.5}])
    workload["batch"] = draw.choice([1, 1, 2, {"distribution": "geometric", "mean": 3.0}])
    return {"kind": "source", "parallelism": draw.choice([1, 2, 3])}, workload


def _keyed(draw: Random, inputs: Iterable[str], simple: bool) -> dict[str, Any]:
    tasks = draw.choice([2, 2, 3, 4])
    states: list[dict[str, Any]] = [
        {"model": "fixed", "bytes": draw.choice(["0 B", "20 kB", "200 kB"])},
        {"model": "per-key", "bytes": "5 kB"},
        {"model": "per-tuple", "bytes": "300 B"},
    ]
    made = {
        "kind": "aggregate",
        "inputs": dict.fromkeys(inputs, "key"),
        "parallelism": tasks,
        "key_groups": draw.choice([4, 8, 16, 64]),
        "key_group_assignment": draw.choice(["round-robin", "ranges"]),
        "service": _service(draw),
        "state": draw.choice(states),
        "serialise": draw.choice(["2 MB/s", "50 MB/s"]),
        "selectivity": draw.choice([1.0, 1.0, 0.0, 1.7]),
    }
    if draw.random() < 0.5:
        made["deserialise"] = draw.choice(["4 MB/s", "1 GB/s"])
    if not simple and draw.random() < 0.3:
        laws = [{"distribution": "exponential", "mean": "60 ms"}, {"distribution": "deterministic", "value": "10 ms"}]
        made["postpone"] = draw.choice(laws)
    elif not simple and draw.random() < 0.15:
        made["scan"] = draw.choice(["50 us", "500 us"])
    return made


def _lines(draw: Random, at_ns: int, tasks: int, groups: int) -> tuple[Configuration, ...]:
    """The lines of a migration file."""
    made = []
    for _ in range(draw.choice([1, 2, 5])):
        chosen = draw.sample(range(groups), draw.choice([1, 2, groups]))
        made.append(Configuration(at_ns, tuple((group, draw.randrange(tasks)) for group in sorted(chosen))))
        at_ns += draw.choice([0, 1, MS, 40 * MS])
    return tuple(made)


def _event(
    draw: Random, at_ms: int, operator: str, described: dict[str, Any], simple: bool, alone: bool
) -> dict[str, Any]:
    tasks, groups = described["parallelism"], described["key_groups"]
    event: dict[str, Any] = {"kind": "reconfigure", "at": f"{at_ms} ms", "operator": operator}
    baselines = [] if simple else ["pause-and-resume", "stop-and-restart"]
    protocol = draw.choice(["megaphone"] * 5 + baselines)
    if protocol != "megaphone":
        event |= {"protocol": protocol} | ({"restart": "5 ms"} if protocol == "stop-and-restart" else {})
    else:
        event |= {"scope": draw.choice(["operator", "bin"]), "overlap": draw.choice(["none", "pipelined"])}
        event |= draw.choice([{}, {"gap": "drain"}, {"gap": "7 ms"}, {"gap": "1 ns"}, {"next": "lag"}])
        event |= {"late": draw.choice(["1 ns", "3 ms"])} if alone and not simple and draw.random() < 0.5 else {}
        if draw.random() < 0.3:
            return event | {"file": "lines.txt"}
        event |= {"strategy": draw.choice(["all-at-once", "fluid", "batched", "optimised"])}
        event |= {"size": draw.choice([1, 3, 100])} if event["strategy"] == "batched" else {}
    plans = [{}, {"plan": "back"}, {"tasks": draw.randint(1, tasks)}]
    plans.append({"owners": [draw.randrange(tasks) for _ in range(groups)]})
    return event | draw.choice(plans)


def full_job(seed: int) -> tuple[dict[str, Any], Files]:
    """A random job, and the lines of its files. Some are such that the scan could have the run."""
    draw, simple = Random(f"full plans {seed}"), seed % 3 == 0
    duration_ms = draw.choice([300, 600, 1000])
    operators, workload = dict[str, Any](), dict[str, Any]()
    for name in ("s0", "s1")[: draw.choice([1, 1, 2])]:
        operators[name], workload[name] = _source(draw)
    before = [*operators]
    if draw.random() < 0.5:
        kind = {"kind": "map", "selectivity": 1.5} if draw.random() < 0.5 else {"kind": "filter", "selectivity": 0.6}
        how = draw.choice(["shuffle", "broadcast"] if len(before) == 1 else ["shuffle"])
        operators["m"] = {**kind, "inputs": dict.fromkeys(before, how), "parallelism": 2, "service": _service(draw)}
        before = draw.choice([["m"], ["m", *before]])
    operators["a"] = _keyed(draw, before, simple)
    keyed = ["a"]
    if draw.random() < 0.5:
        operators["b"] = _keyed(draw, draw.choice([["a"], before, ["a", *before]]), simple)
        keyed.append("b")
    ends = [
        one for one in keyed if all(one not in other["inputs"] for other in operators.values() if "inputs" in other)
    ]
    operators["out"] = {"kind": "sink", "inputs": dict.fromkeys(ends, "shuffle")}
    host: dict[str, Any] = {"count": draw.choice([1, 2, 4]), "network": draw.choice(["1 MB/s", "10 MB/s", "1 GB/s"])}
    raw: dict[str, Any] = {
        "duration": f"{duration_ms} ms",
        "seed": seed,
        "workload": workload,
        "operators": operators,
        "hosts": {"h": host, "left": {"count": 2}, "right": {"count": 2}},
        "network": {"latency": draw.choice(["0 s", "37 us", "1 ms", "5 ms"])},
        "state_store": {"bandwidth": draw.choice(["5 MB/s", "100 MB/s"])},
        "fault_tolerance": {"method": "none"},
        "events": {},
    }
    if simple or draw.random() < 0.5:
        sides = {name: "h" if name in keyed else draw.choice(["left", "right"]) for name in operators}
        raw["placement"] = {"operators": sides}
    if not simple:
        raw["network"] |= draw.choice([{}, {"sharing": "fair"}])
        host |= draw.choice([{}, {"cores": 2, "cpu": draw.choice(["shared", "processor-sharing"])}])
        host |= draw.choice([{}, {"memory": "100 kB"}])
        raw["recording"] = {"memory": draw.random() < 0.5}
    files: Files = {}
    operator = draw.choice(keyed)
    alone = draw.random() < 0.5  # one operator has all plans
    for k in range(draw.choice([1, 2, 3, 5])):
        operator = operator if alone else draw.choice(keyed)
        at_ms = draw.choice([0, 50, 100, 100, 101, duration_ms // 2, duration_ms - 30, duration_ms - 1])
        event = raw["events"][f"e{k}"] = _event(draw, at_ms, operator, operators[operator], simple, alone)
        if "file" in event:
            described = operators[operator]
            files[f"e{k}"] = _lines(draw, at_ms * MS, described["parallelism"], described["key_groups"])
    return raw, files


def plan_of(seed: int) -> RunPlan | None:
    """The plan of a job; None if not all of its keys go together."""
    raw, files = full_job(seed)
    scenario = scenario_from(raw)
    if not_simulated(scenario):
        return None
    return RunPlan.of(scenario, RunInputs(steps=optimised_steps(scenario, files), configurations=files), 0)


def run(plan: RunPlan, plane: PlaneFactory) -> tuple[Control, RunRecords]:
    control, until = Control(plan, plane), to_ns(plan.scenario.duration_s)
    control.start()
    control.run(until)
    return control, records(control, until)


def watched(plan: RunPlan) -> tuple[Control, RunRecords, Applied]:
    """A run on the plain plane, and what was applied."""
    applied: Applied = {one.index: [] for one in plan.operators}
    right = Task._complete

    def complete(self: Task, visit: Visit, now: int) -> None:
        applied[self.operator.index].append((now, visit.row.created_ns, visit.partition.number, self.index))
        right(self, visit, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "_complete", complete)
        return *run(plan, PlainPlane), applied


def faults(control: Control, found: RunRecords, applied: Applied) -> list[str]:
    """All that is wrong with a run, in words."""
    ledger, seen = found.tables["ledger"], []
    if ledger["lost"].sum() or ledger["duplicated"].sum():
        seen.append("the ledger says lost, or twice")
    for operator in {one.plan.operator for one in control.reconfigurations.runs}:
        runs = [one for one in control.reconfigurations.runs if one.plan.operator == operator]
        seen += _of_operator(control, operator, runs, applied[operator])
    return seen


def _of_operator(control: Control, operator: int, runs: list[Any], applied: list[Row]) -> list[str]:
    seen, plan = [], control.plan
    first = control.cluster.task_operator.index(operator)
    first_partition, described = plan.first_partition[operator], plan.operators[operator].description
    # From which birth on a key group is at a task. Baselines do not go by births: with them any task is right.
    at: dict[int, list[tuple[int, int | None]]] = {
        first_partition + group: [(0, first + described.task_of(group))] for group in range(described.groups)
    }
    for one in runs:
        for k, (carries, times) in enumerate(zip(one.plan.steps, one.times, strict=True)):
            for partition, target in ((partition, carry.target) for carry in carries for partition in carry.partitions):
                if one.name != "megaphone":
                    at[partition].append((0, None))
                elif times.from_ns != NEVER:
                    at[partition].append((times.from_ns, target))
            if one.name == "megaphone" and times.passed_ns != NEVER:
                if any(born < times.from_ns and when > times.passed_ns for when, born, _, _ in applied):
                    seen.append("something older is applied after the time of a step has passed")
                if times.from_ns < one.plan.not_before_ns[k]:
                    seen.append("a step has a time before that of its line")
                if k and one.times[k - 1].installed_ns > times.passed_ns:
                    seen.append("a step begins before the one before is over")
    for _, born, partition, task in applied:
        known = [target for from_ns, target in at[partition] if from_ns <= born]
        if None not in known and known[-1] != task:
            seen.append("a tuple is applied elsewhere than at the configuration of its time")
            break
    return seen


def compared(seed: int, met: Counter[str]) -> list[str]:
    """What is wrong with the job of a seed: rules that break, and columns that differ between planes."""
    plan = plan_of(seed)
    if plan is None:
        met["refused"] += 1
        return []
    control, plain, applied = watched(plan)
    found, loop = faults(control, plain, applied), run(plan, CompiledPlane)[1]
    found += differences(plain, loop)
    for one in control.reconfigurations.runs:
        met[one.strategy] += 1
        met["steps"] += sum(times.installed_ns != NEVER for times in one.times)
        met["ended within"] += one.completed_ns is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "_WORTH_OF_STEPS", 0)
        if choice.lends(plan):
            try:
                found += differences(loop, run(plan, lending(Random(f"length {seed}").choice(LENGTHS_NS)))[1])
                met["loans"] += PLANES[0].loans
            except NotCovered:
                met["made again"] += 1
    return found


def campaign(seeds: Iterable[int]) -> Counter[str]:
    met = Counter[str]()
    for seed in seeds:
        try:
            found = compared(seed, met)
        except Exception as error:
            found = [f"raises {type(error).__name__}: {error}"]
        repeat = f"{SEED}={seed} pytest -m nightly tests/sim/migration/test_full_plans.py"
        assert found == [], f"job {seed}; to repeat it: {repeat}"
    return met


def test_planes_agree_and_no_rule_breaks() -> None:
    met = campaign(range(26))
    least = {"steps": 80, "loans": 20, "ended within": 5} | dict.fromkeys(
        ("file", "all-at-once", "fluid", "batched", "optimised", "pause-and-resume", "stop-and-restart"), 1
    )
    assert {what: met[what] for what, count in least.items() if met[what] < count} == {}
    assert met["refused"] < 13


@pytest.mark.parametrize(
    "title",
    [
        "a step begins before its time has passed",
        "who sends goes by the newest configuration",
        "a step begins when the first state of the one before is there",
        "what has waited for a state is left behind",
    ],
)
def test_what_is_broken_is_noticed(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[title](monkeypatch)
    with pytest.raises(AssertionError, match="to repeat it"):
        campaign(range(40))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign(part: int) -> None:
    assert campaign(range(40 + part * 500, 540 + part * 500))["steps"] > 1000


@pytest.mark.nightly
def test_planes_agree_in_plans_that_nobody_has_tried(capsys: pytest.CaptureFixture[str]) -> None:
    first = fresh()
    with capsys.disabled():
        print(f"\n{SEED}={first}: {FRESH} jobs with plans")
    assert campaign(range(first, first + FRESH))["steps"] > 100
