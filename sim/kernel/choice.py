"""Which kernel a run gets: the scan where every task is a server of its own, the event loop for all else.

Both have a run in turns if only failures of hosts are against the scan (`takes_turns`).

The tables below are the one place that says what a run needs beyond the scan. A row names the interface whose verbs the
run needs (`sim.data_plane`), and finds the words for it in the plan. The first row that finds any is why a run gets the
event loop; a run for which no row finds any gets the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from models.records.tables import BOTH, EVENT_LOOP, SCAN, Kernel
from models.scenario.cluster import HostGroup
from models.scenario.events import HostFailure, Rebalance
from models.scenario.job import PerKeyState, WindowState
from models.steady_state.estimate import detail_and_steps
from models.units import to_ns
from sim.clock import Clock
from sim.control.assembly import PlaneFactory
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import (
    AckerPlane,
    ActionPlane,
    CountingPlane,
    DataPlane,
    InstancePlane,
    Listener,
    Plane,
    SharedCpuPlane,
    TrimmingPlane,
)
from sim.kernel.hand_over.spells import spells
from sim.kernel.scan.saving import keys_of
from sim.operator_plan import OperatorPlan

T = TypeVar("T")

_FUNCTIONS = {
    "scan": 113,
    "saving scan": 140,
    "plain": 183,
    "extended": 312,
    "both": 300,
}  # that are compiled until a run has begun, about
WORTH = 2e7  # steps that two kernels are worth their compilation
_LARGER = 1.5  # the exponent of what is compiled, for the time that it takes
_KINDS = ("source", "map", "filter", "aggregate", "sink")


def plane_of(kernel: Kernel, factor: float = 1.0) -> PlaneFactory:
    """Return the factory of a kernel's data plane.

    Where both have the run in turns, `factor` makes the time longer for which the event loop has it before a failure.
    """
    if kernel.name == BOTH:
        from sim.kernel.hand_over.plane import in_turns  # noqa: PLC0415

        return in_turns(factor)
    if kernel.name == SCAN:
        from sim.kernel.scan.plane import ScanPlane  # noqa: PLC0415 - only one of the two is loaded

        return ScanPlane
    from sim.kernel.event_loop.plane import CompiledPlane  # noqa: PLC0415

    full: Callable[[RunPlan, Cluster, Clock, Listener], DataPlane] = CompiledPlane
    return full


@contextmanager
def compilation(plan: RunPlan, told: Callable[[float], None]) -> Iterator[None]:
    """While code is compiled `told` gets the share of the time that it will take; nothing if all was kept."""
    from sim.kernel.tools.cache import watched  # noqa: PLC0415 - Numba is loaded when a run begins

    expected, done = _FUNCTIONS[code_for(plan)], 0

    def one_more() -> None:
        nonlocal done
        done += 1
        told(time_share(done, expected))

    with watched(one_more):
        yield


def code_for(plan: RunPlan) -> str:
    """Return the name of the code that a run needs most of: each kernel is compiled in two forms."""
    return code_of(kernel_for(plan), plan)


def code_of(kernel: Kernel, plan: RunPlan) -> str:
    """Return the same of a run whose kernel has been chosen."""
    from sim.kernel.event_loop.setup import needs_more  # noqa: PLC0415

    if kernel.name == BOTH:
        return "both"
    if kernel.name == SCAN:
        return "saving scan" if plan.scenario.fault_tolerance.takes_checkpoints else "scan"
    return "extended" if needs_more(plan) else "plain"


def time_share(done: int, expected: int) -> float:
    """Return the share of the time that compiling so many of the functions takes: the later ones are larger.

    As measured of the scan: half of its 112 functions take a third of the time.
    """
    return min(1.0, (done / expected) ** _LARGER)


def kernel_for(plan: RunPlan) -> Kernel:
    """Return the name of the kernel, and the first reason for it."""
    need = next(needs_of(plan), None)
    if need is None:
        return Kernel(SCAN, "every task and every link is a first-in-first-out server of its own")
    if need.at_times and takes_turns(plan):
        return Kernel(BOTH, f"{need.why}, at instants that are known before")
    return Kernel(EVENT_LOOP, need.why)


def takes_turns(plan: RunPlan) -> bool:
    """Return whether the scan has the run but for spells around failures and rebalances.

    The scan could do the run if nothing happened. What the event loop needs to know then follows from checkpoints that
    it has seen; without checkpoints no host may fail. A run of less than `WORTH` steps is over before the code of both
    kernels is compiled.
    """
    scenario, tolerance = plan.scenario, plan.scenario.fault_tolerance
    if tolerance.method == "none" and scenario.may_fail:
        return False
    # The ledger of a part does not know what was there twice before it.
    if tolerance.method != "none" and tolerance.guarantee != "exactly-once":
        return False
    if not plan.keeps_ids or tolerance.method not in ("checkpoint", "none"):
        return False
    if scenario.has_replicas or scenario.failures is not None or scenario.waves.interval_s is not None:
        return False
    if scenario.detector.errs or not all(isinstance(one, (HostFailure, Rebalance)) for one in scenario.events.values()):
        return False
    threads = (one.description.threads for one in plan.operators if one.description.service is not None)
    if max(threads, default=1) > 1:
        return False  # a pool applies tuples in another order than that in which they come
    if not all(need.at_times for need in needs_of(plan)):
        return False
    if any(group.cpu == "processor-sharing" for group in plan.host_groups):
        return False
    if detail_and_steps(scenario, plan.inputs)[1] < WORTH * scenario.replications:
        return False
    found = spells(plan)
    return 2 * sum(spell.end - spell.begin for spell in found) < to_ns(scenario.duration_s)


def check_plane(plan: RunPlan, plane: Plane) -> None:
    """Raises ValueError if the run needs managers, and with them verbs that the plane does not have.

    Whether it processes tuples as the run asks is not checked here: tests look at the scan where it is not chosen.
    """
    if isinstance(plane, DataPlane):
        return
    for need in needs_of(plan):
        if need.interfaces != (Plane,):
            names = " and ".join(interface.__name__ for interface in need.interfaces)
            raise ValueError(f"{need.why}: the run needs a data plane with {names}, not {type(plane).__name__}")


class Need(NamedTuple):
    """Something that the scan cannot do for a run, in words, and the interfaces whose verbs that needs.

    `Plane` alone: the verbs of the scan would be enough, but not its way to process tuples. `at_times`: it is needed
    around some instants only.
    """

    why: str
    interfaces: tuple[type, ...]
    at_times: bool


def needs_of(plan: RunPlan) -> Iterator[Need]:
    """Yield all that the run needs beyond the scan: of the run, then of each operator, host, link and checkpoint."""
    run, operators, tolerance = _Run(plan), plan.operators, plan.scenario.fault_tolerance
    yield from _found(run, OF_RUN, [plan])
    yield from _found(run, OF_OPERATOR, operators)
    links = [host for host in run.hosts if host.group.network_bytes_per_s is not None]
    yield from _found(run, OF_HOST, run.hosts)
    yield from _found(run, OF_LINK, links)
    if tolerance.takes_checkpoints or plan.keeps_ids:  # states are saved, or sent elsewhere: their sizes are needed
        yield from _found(run, OF_STATE, [operator for operator in operators if not operator.is_source])
    if tolerance.takes_checkpoints:
        yield from _found(run, OF_CHECKPOINT_LINK, links)


def _found(run: _Run, rows: Sequence[Row[T]], subjects: Sequence[T]) -> Iterator[Need]:
    for subject in subjects:
        for row in rows:
            why = row.why(run, subject)
            if why is not None:
                yield Need(why, row.interfaces, row.at_times)


@dataclass(frozen=True)
class Row(Generic[T]):
    """The needs of one kind of subject: `why` gives the words, or None for a subject that does not need it."""

    why: Callable[[_Run, T], str | None]
    interfaces: tuple[type, ...] = (Plane,)
    at_times: bool = False


class _Host(NamedTuple):
    number: int
    name: str
    group: HostGroup
    tasks: list[int]  # at the start


class _Run:
    """A plan, and where its tasks are at the start."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(self.plan)

    @cached_property
    def hosts(self) -> list[_Host]:
        plan, tasks = self.plan, self.cluster.host_tasks
        return [_Host(*one) for one in zip(range(len(tasks)), plan.host_names, plan.host_groups, tasks, strict=True)]

    def operators_on(self, host: _Host) -> list[OperatorPlan]:
        """Return the operator of each task on the host."""
        return [self.plan.operators[self.cluster.task_operator[task]] for task in host.tasks]

    @cached_property
    def link_users(self) -> list[list[int]]:
        """Return the operators that send over the link of each host."""
        return self.cluster.link_users()


def _when(condition: bool, words: str) -> str | None:
    return words if condition else None


# -- words that need more than a line


def _has_an_acker(_: _Run, plan: RunPlan) -> str | None:
    method = plan.scenario.fault_tolerance.method
    return _when(method == "acker", f"fault_tolerance.method is {method}")


def _hosts_may_fail(_: _Run, plan: RunPlan) -> str | None:
    if not plan.keeps_ids:
        return None
    return "there are active replicas" if plan.scenario.has_replicas else "hosts may fail"


def _has_events(_: _Run, plan: RunPlan) -> str | None:
    first = next(iter(plan.scenario.events), None)
    return None if first is None else f"there are events: {first}"


def _has_no_service(_: _Run, operator: OperatorPlan) -> str | None:
    inner = not (operator.is_source or operator.is_sink)
    return _when(inner and operator.description.service is None, f"{operator.name} has no service")


def _is_source_with_service(_: _Run, operator: OperatorPlan) -> str | None:
    serves = operator.description.service is not None
    return _when(operator.is_source and serves, f"the source {operator.name} has a service")


def _is_shared_with_others(_: _Run, host: _Host) -> str | None:
    return _when(host.group.load is not None, f"others take a part of the CPU of {host.name}")


def _waits_for_cores(run: _Run, host: _Host) -> str | None:
    """A task may have to wait for a core, or goes on more slowly."""
    described = [operator.description for operator in run.operators_on(host)]
    threads, cpu = sum(one.threads for one in described if one.service is not None), host.group.cpu
    own_core = cpu == "dedicated" or (cpu == "shared" and threads <= host.group.cores)
    return _when(threads > 0 and not own_core, f"tasks share the cores of {host.name}")


def _shares_its_link(run: _Run, host: _Host) -> str | None:
    """Several operators send over the link: what waits there comes from both."""
    senders = [run.plan.operators[operator].name for operator in run.link_users[host.number]]
    return _when(len(senders) > 1, f"{' and '.join(senders[:2])} share the link of {host.name}")


def _saves_on_a_thread(run: _Run, operator: OperatorPlan) -> str | None:
    described = operator.description
    pool = described.threads > 1 and described.serialise_bytes_per_s is not None
    words = f"{operator.name} writes snapshots on one of several threads, and the network has no latency"
    return _when(pool and not run.plan.latency_ns, words)


def _has_too_many_keys(run: _Run, operator: OperatorPlan) -> str | None:
    per_key = isinstance(operator.description.state, PerKeyState)
    words = f"{operator.name} has too many keys to have a place for each"
    return _when(per_key and keys_of(run.plan, operator) is None, words)


def _sends_checkpoints(run: _Run, host: _Host) -> str | None:
    """Checkpoints share the link with tuples."""
    sends = any(not operator.is_sink for operator in run.operators_on(host))
    return _when(sends, f"checkpoints are taken, and the link of {host.name} has a bandwidth")


# -- the tables

OF_RUN: tuple[Row[RunPlan], ...] = (
    Row(lambda _, plan: _when(plan.scenario.fault_tolerance.snapshots.cost, "checkpoints pause tasks")),
    Row(lambda _, plan: _when(plan.trimming is not None, "acks trim outputs"), (TrimmingPlane,)),
    Row(lambda _, plan: _when(plan.history is not None, "outputs are kept for a time"), (TrimmingPlane,)),
    Row(_has_an_acker, (AckerPlane,)),
    # Events are failures of hosts, moves of key groups, and rescalings, which are moves.
    Row(_has_events, (InstancePlane, ActionPlane), at_times=True),
    Row(_hosts_may_fail, (InstancePlane, ActionPlane), at_times=True),
    Row(lambda _, plan: _when(plan.counts_load, "the load of each key group is counted"), (CountingPlane,)),
)
OF_OPERATOR: tuple[Row[OperatorPlan], ...] = (
    Row(lambda _, one: _when(one.description.kind not in _KINDS, f"{one.name} is a {one.description.kind}")),
    Row(lambda _, one: _when(one.description.window is not None, f"{one.name} has a window")),
    Row(lambda _, one: _when(one.description.timer is not None, f"{one.name} has a timer")),
    Row(lambda _, one: _when(one.description.buffer is not None, f"the queues of {one.name} are bounded")),
    Row(_has_no_service),
    Row(_is_source_with_service),
)
OF_HOST: tuple[Row[_Host], ...] = (
    Row(_is_shared_with_others, (SharedCpuPlane,)),
    Row(_waits_for_cores),
)
OF_LINK: tuple[Row[_Host], ...] = (
    Row(lambda run, host: _when(run.plan.fair, f"the link of {host.name} is shared evenly")),
    Row(_shares_its_link),
)
OF_STATE: tuple[Row[OperatorPlan], ...] = (
    Row(_saves_on_a_thread),
    Row(lambda _, one: _when(isinstance(one.description.state, WindowState), f"the state of {one.name} is a window")),
    Row(_has_too_many_keys),
)
OF_CHECKPOINT_LINK: tuple[Row[_Host], ...] = (Row(_sends_checkpoints),)
