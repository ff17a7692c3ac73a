"""One replication, start to end: a scenario and its inputs in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np

from models.records.tables import BOTH, EVENT_LOOP, PLAIN, TABLES, Kernel, RunRecords
from models.scenario.inputs import ENGINES, Engine, RunInputs
from models.scenario.scenario import Scenario
from models.topology.layout import task_name
from models.units import to_ns
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import Cluster, RunPlan
from sim.kernel.tools.directory import is_whole, note_whole
from sim.plane_values import NotCovered


def simulate(
    scenario: Scenario,
    inputs: RunInputs | None = None,
    replication: int = 0,
    on_progress: Callable[[float], None] | None = None,
    plane: PlaneFactory | None = None,
    on_compile: Callable[[float], None] | None = None,
    engine: Engine = "auto",
) -> RunRecords:
    """Return the rows of one replication: a pure function of its first three arguments.

    Everything strictly before `duration` happens. `on_progress` is called now and then with the share of the
    simulated time that is done; `on_compile`, where code for this machine is not kept yet, with the share of it that
    is compiled. `engine` chooses the data plane: the plain one (`sim.plain`), which needs no compiled code, or else the
    fastest that can do what the scenario asks for (`sim.kernel.choice`); both give equal rows. `plane` makes another
    one: it is refused where it lacks verbs that the run needs (ValueError); that it keeps every rule of the scenario is
    the caller's business.
    """
    duration_ns = max(1, to_ns(scenario.duration_s))
    plan = RunPlan.of(scenario, inputs or RunInputs(), replication)
    with _compilation(plan, on_compile if engine != PLAIN else None):
        found = _finished(plan, plane, engine, on_progress, duration_ns)
    if plane is None and engine != PLAIN and found.kernel is not None:
        from sim.kernel.choice import code_of  # noqa: PLC0415 - it is loaded by now

        note_whole(code_of(found.kernel, plan))
    return found


def _finished(
    plan: RunPlan,
    plane: PlaneFactory | None,
    engine: Engine,
    on_progress: Callable[[float], None] | None,
    duration_ns: int,
) -> RunRecords:
    """Return the rows of a run; where the kernels take turns it may have to be made again, with longer spells."""
    for factor in _FACTORS:
        control = _control(plan, plane, engine, factor)
        if on_progress:
            # A control process: it only reads, and control comes first within an instant, so it changes no row.
            control.clock.process(_progress(control, duration_ns, on_progress))
        try:
            control.run(duration_ns)
            return records(control, duration_ns)
        except NotCovered:
            if plane is not None:
                raise
        finally:
            if plane is None:
                _let_go(control)
    raise AssertionError("the event loop alone needs nothing of the scan")


def _let_go(control: Control) -> None:
    """Free the arrays of a run that is over: it refers to itself, so that the collector would do it some time later."""
    vars(control.plane).clear()


def is_compiled(scenario: Scenario, inputs: RunInputs) -> bool:
    """Return whether a run has come to its end, with the code that this one needs, on this machine."""
    from sim.kernel.choice import code_for  # noqa: PLC0415 - it takes longer than all the rest

    return is_whole(code_for(RunPlan.of(scenario, inputs, 0)))


def stand_in(scenario: Scenario, inputs: RunInputs, records: RunRecords) -> RunRecords:
    """Return the records of the plain engine as those of the engine for which it stands in.

    The rows are equal. What a file says must not depend on what has run on a machine before.
    """
    from sim.kernel.choice import kernel_for  # noqa: PLC0415 - it takes longer than all the rest

    return replace(records, kernel=kernel_for(RunPlan.of(scenario, inputs, records.replication)))


def prepare(scenario: Scenario, inputs: RunInputs | None, on_compile: Callable[[float], None] | None = None) -> None:
    """Compile the code that a run needs at its beginning and cache it for other processes."""
    plan = RunPlan.of(scenario, inputs or RunInputs(), 0)
    with _compilation(plan, on_compile):
        _control(plan, None).run(1)


def _compilation(plan: RunPlan, on_compile: Callable[[float], None] | None) -> AbstractContextManager[None]:
    if on_compile is None:
        return nullcontext()
    from sim.kernel.choice import compilation  # noqa: PLC0415 - it takes longer than all the rest

    return compilation(plan, on_compile)


def build(
    scenario: Scenario,
    inputs: RunInputs | None = None,
    replication: int = 0,
    plane: PlaneFactory | None = None,
) -> Control:
    """Return the control plane of a run, with its data plane, before the first instant.

    Where the kernels take turns the run may end with NotCovered; `simulate` makes it again.
    """
    return _control(RunPlan.of(scenario, inputs or RunInputs(), replication), plane)


_FACTORS = (1.0, 3.0, None)  # of the spells in which the event loop has a run; None: it has the whole


def _control(plan: RunPlan, plane: PlaneFactory | None, engine: Engine = "auto", factor: float | None = 1.0) -> Control:
    if plane is not None:
        from sim.kernel.choice import check_plane  # noqa: PLC0415 - it takes longer than all the rest

        control = Control(plan, plane)
        check_plane(plan, control.plane)
    else:
        factory, kernel = _chosen(plan, engine, factor)
        control = Control(plan, factory)
        control.kernel = kernel
    control.start()
    return control


def _chosen(plan: RunPlan, engine: Engine, factor: float | None) -> tuple[PlaneFactory, Kernel]:
    if engine == PLAIN:
        from sim.plain.plane import PlainPlane  # noqa: PLC0415 - only one engine is loaded

        return PlainPlane, Kernel(PLAIN, "it was asked for")
    from sim.kernel.choice import kernel_for, plane_of  # noqa: PLC0415 - it takes longer than all the rest

    if engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}: there are {', '.join(ENGINES)}")
    kernel = kernel_for(plan)
    if kernel.name == BOTH and factor is None:
        saved = plan.scenario.fault_tolerance.takes_checkpoints
        why = "checkpoints take too long to go on without the ids of tuples" if saved else "tuples wait in two lists"
        kernel = replace(kernel, name=EVENT_LOOP, why=why)
    return plane_of(kernel, factor or 1.0), kernel


def _progress(control: Control, duration_ns: int, on_progress: Callable[[float], None]) -> Process:
    for percent in range(1, 100):
        yield control.clock.sleep(duration_ns * percent // 100)
        on_progress(percent / 100)


def records(control: Control, duration_ns: int) -> RunRecords:
    """Return the rows of a run that has come to `duration_ns`."""
    plan, cluster, recorder, plane = control.plan, control.cluster, control.recorder, control.plane
    # The ledger audits the whole run, so it is taken before tables are made of the rows.
    recorder.rows["ledger"] = [*plane.ledger()]
    recorder.sample("links", duration_ns, plane.links())
    kernel = control.kernel
    if kernel is not None and kernel.name == BOTH:
        kernel = replace(kernel, why=f"{kernel.why}: {100 * plane.scan_share():.1f} % of the steps in the scan")  # type: ignore[attr-defined]
    tables = dict(plane.tables())
    control.note_rows(tables, duration_ns)
    return RunRecords(
        replication=plan.replication,
        warmup_ns=to_ns(plan.scenario.warmup_s),
        duration_ns=duration_ns,
        operators=tuple(operator.name for operator in plan.operators),
        tasks=_task_names(cluster),
        task_operator=tuple(cluster.task_operator),
        hosts=plan.host_names,
        servers=_servers(cluster),
        tables=_of_job(recorder.tables(tables, plane.messages()), plan),
        kernel=kernel,
        resolution=plan.resolution,
    )


def _of_job(tables: Mapping[str, Mapping[str, np.ndarray]], plan: RunPlan) -> Mapping[str, Mapping[str, np.ndarray]]:
    """Return the tables with numbers of tuples of the job, in place of simulated ones, which stand for several.

    Rows of single tuples, and histograms of them, stay as they are.
    """
    w = plan.resolution
    if w == 1:
        return tables
    made = {name: dict(columns) for name, columns in tables.items()}
    for name, columns in TABLES.items():
        for column in columns:
            if column.counts:
                made[name][column.name] = _frozen(made[name][column.name] * w)
    messages = made["messages"]
    # A message of these has one tuple. A replay has all that are kept for a receiver, and acks that trim are of slices.
    each = np.isin(messages["kind"], ("data", "local", *(["ack"] if plan.acker is not None else [])))
    messages["count"] = _frozen(np.where(each, messages["count"] * w, messages["count"]))
    return made


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _servers(cluster: Cluster) -> tuple[int, ...]:
    """Return, by operator, how many services can go on at full pace on the hosts of its first tasks."""
    found, task = [], 0
    for each in cluster.plan.operators:
        servers, threads = 0, each.description.threads
        for host in cluster.task_host[task : task + each.description.parallelism]:
            group = cluster.plan.host_groups[host]
            servers += min(threads, group.cores) if group.cpu == "processor-sharing" else threads
        found.append(servers)
        task += each.description.parallelism
    return tuple(found)


def _task_names(cluster: Cluster) -> tuple[str, ...]:
    """Return names of tasks: task k of an operator is OPERATOR-k, in the order in which they were started."""
    seen: dict[int, int] = {}
    names = []
    for operator in cluster.task_operator:
        number = seen.get(operator, 0)
        seen[operator] = number + 1
        names.append(task_name(cluster.plan.operators[operator].name, number))
    return tuple(names)
