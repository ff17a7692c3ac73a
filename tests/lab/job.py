"""Tiny jobs for schedules: a few tuples of one or two sources on their way through a few operators to a sink."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from lab.engines import Rules
from lab.shapes import CHAIN, JOIN, KEYED, MOVABLE, SINK, SOURCE, WINDOW, Dataflow, Node, dataflow
from models.planning.reconfiguration import Files
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.topology import layout
from scenarios.planning.migration_files import migration_files_of
from scenarios.planning.reconfiguration import optimised_steps
from sim.control.cluster import RunPlan

KEYS = 6
NEVER_HAPPENS = {"kind": "host-failure", "at": "1 s", "host": "h-0"}  # in a run with a failure ids are kept
TURNS = 4  # in which the small jobs of rebalances stay the same


@dataclass(frozen=True)
class Job:
    """The dataflow, its tuples, and the number of hosts."""

    seed: int = 0
    sources: int = 1  # tasks of each source
    stages: int = 1  # operators of a chain
    groups: int = 1
    tasks: int = 2  # of each keyed operator, if there are as many groups
    tuples: int = 2  # of each source task
    hosts: int = 4
    writes: bool = False  # a snapshot and a restore take a service of their own
    shape: str = CHAIN
    replicated: bool = False  # all that has a state may have an active replica; nothing moves
    works: bool = False  # waves take work of a task
    together: bool = False  # tasks of a host are one worker, which starts as a whole; beside `acks`
    acks: str = ""  # roots are followed: "literal" or "covered"; with periodic waves, and without checkpoints
    saved: bool = True  # checkpoints are taken, and outputs kept for replay
    levels: int = 0  # of acks that trim outputs, in place of checkpoints
    reading: str = "safe"  # what a checkpoint holds then
    adjustment: tuple[str, str] = ("last", "safe")  # which checkpoint is split, and the reading, where operators are
    buffer: int | None = None  # places in the queue of each task between sources and sinks
    stateless: tuple[str, ...] = ()  # operators that are maps then, with a task for each group
    method: str = "checkpoint"  # of recovery, where they are
    store: str = "nodes"  # of the checkpoints
    rules: Rules | None = None  # of an engine
    plans: tuple[tuple[tuple[str, Any], ...], ...] = ()  # events by which key groups move without ids, with their keys
    lines: tuple[str, ...] = ()  # the migration file of each plan that has one: `plan0.txt` and so on
    postponed: tuple[str, ...] = ()  # operators whose outputs are post-dated
    window_ns: int = 0  # length of windows in steps, where tuples are born at a step

    @property
    def dataflow(self) -> Dataflow:
        """Return the operators by name."""
        return dataflow(self.shape, self.stages)

    @property
    def stateful(self) -> list[str]:
        """Return the operators that have a state: all between sources and sinks."""
        return [name for name, node in self.dataflow.items() if node.kind not in (SOURCE, SINK)]

    @property
    def movable(self) -> list[str]:
        """Return the operators whose key groups can move."""
        return [name for name, node in self.dataflow.items() if node.kind in MOVABLE]


def random_job(seed: int, sources: int, stages: int, groups: int, tuples: Iterable[int] = (6, 10, 16)) -> Job:
    """Return one of the small jobs, a chain."""
    draw = Random(seed)
    return Job(
        seed=seed,
        sources=sources,
        stages=stages,
        groups=groups,
        tuples=draw.choice([*tuples]),
        hosts=draw.choice([4, 5, 6]),
        writes=draw.random() < 0.4,
    )


def small_job(seed: int, shapes: Sequence[str]) -> Job:
    """Return a job for a rebalance: of the shapes by turns, and the same in so many turns, which set it up once."""
    turn, shape = divmod(seed, len(shapes))
    draw = Random(f"small {turn // TURNS} {shape}")
    job = random_job(draw.randrange(24), draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 2]), (2, 4, 6))
    return replace(job, shape=shapes[shape], works=draw.random() < 0.3)


def scenario_of(job: Job) -> Scenario:
    """Return the job as a scenario; when tuples arrive is up to the scheduler."""
    operators = {name: _operator(job, name, node) for name, node in job.dataflow.items()}
    workload = {"rate": "1 /s", "keys": {"distribution": "uniform", "count": KEYS}}
    raw: dict[str, Any] = {
        "format": 1,
        "seed": job.seed,
        "duration": "2 s",
        "workload": {name: workload for name, node in job.dataflow.items() if node.kind == SOURCE},
        "operators": operators,
        "hosts": {"h": {"count": job.hosts, "cpu": "dedicated"}},
        "fault_tolerance": {"method": job.method, "interval": "1 s", "store": job.store},
        "waves": dict.fromkeys(("prepare", "commit", "init"), "1 ms") if job.works else {},
    }
    _complete(job, raw)
    return _read(raw)


def _complete(job: Job, raw: dict[str, Any]) -> None:
    """Add to a scenario how the job is saved, and what may happen to it."""
    if job.rules is not None:
        _obey(job, job.rules, raw)
    elif job.plans:
        raw["fault_tolerance"] = {"method": "none"}
        raw["network"] = {"latency": "20 ns"}  # steps: in so many control has told all who send
        raw["events"] = _events_of_plans(job)
    elif job.acks:
        acker = {"acks": job.acks, "timeout": "1000 s"}
        raw["fault_tolerance"] = {"method": "acker", "guarantee": "at-least-once", "acker": acker}
        raw["waves"] |= {"interval": "1 s"}
        raw["workers"] = {"together": job.together}
    elif job.levels:
        raw["fault_tolerance"] = {
            "method": "elastic-upstream-backup",
            "interval": "1 s",
            "store": job.store,
            "trimming": {"levels": job.levels, "reading": job.reading},
            "adjustment": dict(zip(("checkpoint", "reading"), job.adjustment, strict=True)),
        }
        raw["events"] = {"failure": NEVER_HAPPENS}
    elif not job.saved:
        raw["fault_tolerance"] = {"method": "none"}
        raw["events"] = {"failure": NEVER_HAPPENS}
    elif job.replicated:
        raw["fault_tolerance"]["replicas"] = _replicas(job, _read(raw))
    else:  # one move, never made: in such a run ids are kept
        first = {"operator": job.movable[0], "key_group": 0}
        raw["events"] = {"move": {"kind": "migrate", "at": "1 s", **first, "host": "h-0"}}


def _events_of_plans(job: Job) -> dict[str, Any]:
    return {f"plan{k}": {"kind": "reconfigure", "at": "1 s", **dict(one)} for k, one in enumerate(job.plans)}


def _obey(job: Job, rules: Rules, raw: dict[str, Any]) -> None:
    """Add the rules of an engine."""
    raw |= rules.keys() | {"events": {"failure": NEVER_HAPPENS} | _events_of_plans(job)}
    if job.plans:
        raw["network"] = {"latency": "20 ns"}
    if rules.slots is not None:
        raw["hosts"]["h"]["slots"] = rules.slots
        raw["placement"] = {"slot_sharing": True}
    for name, keys in raw["operators"].items():
        if rules.commits and job.dataflow[name].kind == SINK:
            keys["commit"] = "at-checkpoint"
        if job.dataflow[name].kind == SOURCE:
            keys.update(rules.reading_keys())


def _read(raw: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def _replicas(job: Job, plain: Scenario) -> dict[str, Any]:
    """Return a replica of each key group, or task, on the host behind its own, or else on any other."""
    placed, hosts, made = layout.placement(plain), [*layout.hosts(plain)], dict[str, Any]()
    for name in job.stateful:
        operator = plain.operators[name]
        for group in range(operator.groups):
            task = layout.task_name(name, operator.task_of(group))
            own = hosts.index(placed[task])
            host, *spares = [*hosts[own + 1 :], *hosts[:own]]
            which: dict[str, Any] = {"key_groups": [group]} if operator.keyed else {"tasks": [task]}
            made[f"{name}-{group}"] = {"operator": name, **which, "host": host, "spares": spares}
    return made


def _operator(job: Job, name: str, node: Node) -> dict[str, Any]:
    """Return the keys of one operator."""
    if node.kind == SOURCE:
        return {"kind": "source", "parallelism": job.sources}
    if node.kind == SINK:
        lanes = {"parallelism": job.sources} if node.forward else {}
        return {"kind": "sink", "inputs": _inputs(node), **lanes}
    bound: dict[str, Any] = {} if job.buffer is None else {"buffer": job.buffer}
    if name in job.stateless:
        return {
            **bound,
            "kind": "map",
            "inputs": dict.fromkeys(node.inputs, "shuffle"),
            "parallelism": job.groups,
            "service": {"distribution": "deterministic", "value": "1 ms"},
            "output": {"keys": {"distribution": "uniform", "count": KEYS}},
        }
    if name in job.postponed:
        bound["postpone"] = {"distribution": "exponential", "mean": "80 ns"}
    common: dict[str, Any] = {
        **bound,
        "parallelism": min(job.tasks, job.groups),
        "service": {"distribution": "deterministic", "value": "1 ms"},
        "state": {"model": "per-key", "bytes": "1 kB"},
    }
    if job.writes:
        common |= {"serialise": "1 MB/s", "deserialise": "1 MB/s"}
    if node.kind not in (*MOVABLE, WINDOW):
        lanes = {"parallelism": job.sources} if node.forward else {}
        return common | {"kind": "map", "inputs": _inputs(node)} | lanes
    common |= {"inputs": dict.fromkeys(node.inputs, "key"), "key_groups": job.groups}
    common |= {"output": {"keys": {"distribution": "uniform", "count": KEYS}}}
    if node.kind == JOIN:
        # Without steps all tuples are in one window: a watermark would need a clock.
        length = f"{job.window_ns} ns" if job.window_ns else "1 s"
        return common | {"kind": "join", "window": {"length": length}}
    if node.kind == WINDOW and job.window_ns:
        slide = {"slide": f"{job.window_ns // 2} ns"} if job.seed % 2 else {}
        return common | {"kind": "aggregate", "window": {"length": f"{job.window_ns} ns", **slide}}
    if node.kind == WINDOW:
        # The event time of the first tuple of a source is 1 ns, of the next one 2 ns.
        return common | {"kind": "aggregate", "window": {"length": "3 ns", "slide": f"{1 + job.seed % 3} ns"}}
    assert node.kind == KEYED
    if name in job.postponed:
        common["state"] = {"model": "per-tuple", "bytes": "1 kB", "until": "output"}
    return common | {"kind": "aggregate"}


def _inputs(node: Node) -> dict[str, str]:
    return dict.fromkeys(node.inputs, "forward" if node.forward else "shuffle")


@lru_cache(maxsize=1024)
def plan_of(job: Job) -> RunPlan:
    """Return everything about the job that no schedule changes; what a tuple makes is worked out once."""
    scenario = scenario_of(job)
    files = _files_of(job, scenario)
    plan = RunPlan.of(scenario, RunInputs(steps=optimised_steps(scenario, files), configurations=files), 0)
    if job.rules is not None:  # when what was sent has arrived is not known before: as on links that are shared
        plan = replace(plan, fair=True)
    for operator in plan.operators:
        operator.outputs = cache(operator.outputs)  # type: ignore[method-assign]
        for edge in operator.edges:
            edge.targets = cache(edge.targets)
    return plan


def _files_of(job: Job, scenario: Scenario) -> Files:
    """Return the lines of the migration files of the plans, as they are read."""
    with TemporaryDirectory() as folder:
        for number, text in enumerate(job.lines):
            (Path(folder) / f"plan{number}.txt").write_text(text)
        return migration_files_of(scenario, Path(folder))


@lru_cache(maxsize=1024)
def keys_of(job: Job, source: str) -> list[list[int]]:
    """Return the keys of the tuples of each task of a source."""
    first = next(iter(job.dataflow))
    draw = Random(f"keys {job.seed}" if source == first else f"keys {job.seed} {source}")
    return [[draw.randrange(KEYS) for _ in range(job.tuples)] for _ in range(job.sources)]
