"""One replication, start to end: a scenario and its inputs in, rows out."""

from __future__ import annotations

from collections.abc import Callable

from models.inputs import RunInputs
from models.records import NEVER, RunRecords
from models.scenario import Scenario
from models.units import to_ns
from sim.checkpoint import CheckpointCoordinator
from sim.clock import Process
from sim.failures import Failures
from sim.ledger import ledger
from sim.recovery import Recovery
from sim.task import Task
from sim.unit import Visit
from sim.world import World

_SAMPLES = 1000  # at most, per run
_SECOND = 1_000_000_000


def simulate(
    scenario: Scenario,
    inputs: RunInputs | None = None,
    replication: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> RunRecords:
    """The rows of one replication: a pure function of its first three arguments.

    Everything strictly before `duration` happens. `on_progress` is called now and then with the share of the
    simulated time that is done.
    """
    duration_ns = max(1, to_ns(scenario.duration_s))
    world = build(scenario, inputs, replication)
    if on_progress:
        world.clock.process(_progress(world, duration_ns, on_progress))
    world.clock.run(until=duration_ns)
    return records(world, duration_ns)


def build(scenario: Scenario, inputs: RunInputs | None = None, replication: int = 0) -> World:
    """The world before its first instant.

    Control processes start in the order in which they act where they meet at one instant: events and
    failures, checkpoints, samples.
    """
    world = World(scenario, inputs or RunInputs(), replication)
    world.recovery = Recovery(world)
    Failures(world).start()
    if scenario.fault_tolerance.method == "checkpoint":
        world.clock.process(CheckpointCoordinator(world).run())
    world.clock.process(_sample(world, max(_SECOND, to_ns(scenario.duration_s) // _SAMPLES)))
    return world


def _sample(world: World, every_ns: int) -> Process:
    """Queue lengths, work done, buffers and source lag at regular instants; reads only."""
    clock, rows = world.clock, world.recorder.rows
    while True:
        yield clock.sleep(clock.now_ns() + every_ns)
        now = clock.now_ns()
        buffered, held = dict.fromkeys(world.tasks, 0), dict.fromkeys(world.tasks, 0)
        for unit in world.all_units():
            if unit.task is not None:
                buffered[unit.task] += unit.kept_rows()
                held[unit.task] += len(unit.held)
        for task in world.tasks:
            if task.alive:
                waiting = held[task] + task.waiting()
                rows["samples"].append((now, task.index, task.host.index, waiting, task.busy_ns, buffered[task]))
        for source in world.sources:
            rows["lag"].append((now, source.unit.operator.index, source.lag(now)))


def _progress(world: World, duration_ns: int, on_progress: Callable[[float], None]) -> Process:
    for percent in range(1, 100):
        yield world.clock.sleep(duration_ns * percent // 100)
        on_progress(percent / 100)


def records(world: World, duration_ns: int) -> RunRecords:
    """The rows of a world that has run up to `duration_ns`."""
    _record_unfinished(world)
    world.recorder.rows["ledger"] += ledger(world)
    world.recovery.write()
    return RunRecords(
        replication=world.replication,
        warmup_ns=to_ns(world.scenario.warmup_s),
        duration_ns=duration_ns,
        operators=tuple(plan.name for plan in world.operators),
        tasks=_task_names(world),
        task_operator=tuple(task.operator.index for task in world.tasks),
        hosts=tuple(host.name for host in world.hosts),
        servers=tuple(plan.description.parallelism * plan.description.threads for plan in world.operators),
        tables=world.recorder.tables(),
    )


def _record_unfinished(world: World) -> None:
    """What is still in service, in a queue, or held for a unit that is not live yet."""
    rows = world.recorder.rows
    held: dict[Task, list[Visit]] = {task: [] for task in world.tasks}
    for unit in world.all_units():
        if unit.task is not None:
            held[unit.task] += unit.held
    for task in world.tasks:
        for item in task.serving:
            if isinstance(item, Visit):
                world.recorder.visit(task, item.arrival_ns, item.start_ns, NEVER)
        rows["waiting"] += [
            (task.operator.index, task.index, item.arrival_ns)
            for item in (*held[task], *task.front, *task.queue)
            if isinstance(item, Visit)
        ]


def _task_names(world: World) -> tuple[str, ...]:
    """Task k of an operator is OPERATOR-k, in the order in which they were started."""
    seen: dict[str, int] = {}
    names = []
    for task in world.tasks:
        number = seen.get(task.operator.name, 0)
        seen[task.operator.name] = number + 1
        names.append(f"{task.operator.name}-{number}")
    return tuple(names)
