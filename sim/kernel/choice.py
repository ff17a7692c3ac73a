"""Which kernel a run gets: the scan where every task is a server of its own, the event loop for all else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from models.records.tables import EVENT_LOOP, SCAN, Kernel
from models.scenario.job import PerKeyState, WindowState
from sim.control.assembly import PlaneFactory
from sim.control.cluster import Cluster, RunPlan
from sim.kernel.scan.keys import keys_of

_FUNCTIONS = {
    "scan": 110,
    "saving scan": 137,
    "plain": 160,
    "extended": 288,
}  # that are compiled until a run has begun, about
_LARGER = 1.5  # the exponent of what is compiled, for the time that it takes
_KINDS = ("source", "map", "filter", "aggregate", "sink")


def plane_of(kernel: Kernel) -> PlaneFactory:
    """What makes the data plane of a kernel."""
    if kernel.name == SCAN:
        from sim.kernel.scan.plane import ScanPlane  # noqa: PLC0415 - only one of the two is loaded

        return ScanPlane
    from sim.kernel.event_loop.plane import CompiledPlane  # noqa: PLC0415

    return CompiledPlane


@contextmanager
def compilation(plan: RunPlan, told: Callable[[float], None]) -> Iterator[None]:
    """While code is compiled `told` gets the share of the time that it will take; nothing if all was kept."""
    from sim.kernel.event_loop.setup import needs_more  # noqa: PLC0415
    from sim.kernel.tools.compiling import watched  # noqa: PLC0415 - Numba is loaded when a run begins

    if kernel_for(plan).name == SCAN:
        saves = plan.scenario.fault_tolerance.method == "checkpoint"
        expected = _FUNCTIONS["saving scan" if saves else "scan"]
    else:
        expected = _FUNCTIONS["extended" if needs_more(plan) else "plain"]
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        told(time_share(done, expected))

    with watched(one_more):
        yield


def time_share(done: int, expected: int) -> float:
    """Return the share of the time that compiling so many of the functions takes: the later ones are larger.

    As measured of the scan: half of its 112 functions take a third of the time.
    """
    return min(1.0, (done / expected) ** _LARGER)


def kernel_for(plan: RunPlan) -> Kernel:
    """The name of the kernel, and the first reason for it."""
    reason = next(_against_the_scan(plan), None)
    if reason is None:
        return Kernel(SCAN, "every task and every link is a first-in-first-out server of its own")
    return Kernel(EVENT_LOOP, reason)


def _against_the_scan(plan: RunPlan) -> Iterator[str]:
    """What the scan cannot do; whatever it does not know of is for the event loop."""
    scenario = plan.scenario
    if scenario.fault_tolerance.method not in ("none", "checkpoint"):
        yield f"fault_tolerance.method is {scenario.fault_tolerance.method}"
    if scenario.events:
        yield f"there are events: {next(iter(scenario.events))}"
    if plan.may_fail:
        yield "there are active replicas" if scenario.has_replicas else "hosts may fail"
    if plan.counts_load:
        yield "the load of each key group is counted"
    for operator in plan.operators:
        described = operator.description
        if described.kind not in _KINDS:
            yield f"{operator.name} is a {described.kind}"
        if described.window is not None:
            yield f"{operator.name} has a window"
        if described.timer is not None:
            yield f"{operator.name} has a timer"
        if described.buffer is not None:
            yield f"the queues of {operator.name} are bounded"
        if described.service is None and not (operator.is_source or operator.is_sink):
            yield f"{operator.name} has no service"
        if described.service is not None and operator.is_source:
            yield f"the source {operator.name} has a service"
    cluster = Cluster(plan)
    yield from _of_cores(plan, cluster)
    yield from _of_links(plan, cluster)
    if scenario.fault_tolerance.method == "checkpoint":
        yield from _of_checkpoints(plan, cluster)


def _of_cores(plan: RunPlan, cluster: Cluster) -> Iterator[str]:
    """Hosts on which a task may have to wait for a core."""
    for name, group, tasks in zip(plan.host_names, plan.host_groups, cluster.host_tasks, strict=True):
        served = [plan.operators[cluster.task_operator[task]].description for task in tasks]
        threads = sum(operator.threads for operator in served if operator.service is not None)
        if group.load is not None:
            yield f"others take a part of the CPU of {name}"
        if threads and group.cpu != "dedicated" and not (group.cpu == "shared" and threads <= group.cores):
            yield f"tasks share the cores of {name}"


def _of_links(plan: RunPlan, cluster: Cluster) -> Iterator[str]:
    """Links with a bandwidth that several operators send over: what waits there comes from both."""
    hosts_of = [set[int]() for _ in plan.operators]
    for task, operator in enumerate(cluster.task_operator):
        hosts_of[operator].add(cluster.task_host[task])
    for host, (name, group) in enumerate(zip(plan.host_names, plan.host_groups, strict=True)):
        if group.network_bytes_per_s is None:
            continue
        if plan.fair:
            yield f"the link of {name} is shared evenly"
        senders = [
            operator.name
            for operator in plan.operators
            if host in hosts_of[operator.index] and any(hosts_of[edge.down.index] - {host} for edge in operator.edges)
        ]
        if len(senders) > 1:
            yield f"{' and '.join(senders[:2])} share the link of {name}"


def _of_checkpoints(plan: RunPlan, cluster: Cluster) -> Iterator[str]:
    """Checkpoints that share a link with tuples, and states whose size the scan does not know."""
    for operator in plan.operators:
        described = operator.description
        if operator.is_source:
            continue
        if described.threads > 1 and described.serialise_bytes_per_s is not None and not plan.latency_ns:
            yield f"{operator.name} writes snapshots on one of several threads, and the network has no latency"
        if isinstance(described.state, WindowState):
            yield f"the state of {operator.name} is a window"
        if isinstance(described.state, PerKeyState) and keys_of(plan, operator) is None:
            yield f"{operator.name} has too many keys to have a place for each"
    for host, (name, group) in enumerate(zip(plan.host_names, plan.host_groups, strict=True)):
        sends = any(not plan.operators[cluster.task_operator[task]].is_sink for task in cluster.host_tasks[host])
        if group.network_bytes_per_s is not None and sends:
            yield f"checkpoints are taken, and the link of {name} has a bandwidth"
