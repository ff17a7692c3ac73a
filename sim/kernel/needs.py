"""What a run needs that the scan has not: verbs, or a way to process tuples.

The tables below are the one place that says it. A row names the interface whose verbs the run needs (`sim.data_plane`),
and finds the words for it in the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from models.scenario.cluster import HostGroup
from models.scenario.job import PerKeyState, WindowState
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import (
    AckerPlane,
    ActionPlane,
    CheckpointPlane,
    CountingPlane,
    InstancePlane,
    Plane,
    SharedCpuPlane,
    TrimmingPlane,
)
from sim.kernel.scan.saving import keys_of
from sim.operator_plan import OperatorPlan

T = TypeVar("T")

_KINDS = ("source", "map", "filter", "aggregate", "join", "sink")


class Need(NamedTuple):
    """Something that the scan cannot do for a run, in words, and the interfaces whose verbs that needs.

    `Plane` alone: the verbs of the scan would be enough, but not its way to process tuples. `at_times`: it is needed
    around some instants only.
    """

    why: str
    interfaces: tuple[type, ...]
    at_times: bool


def passes_watermarks(plan: RunPlan) -> bool:
    """Return whether an operator has a window or a timer."""
    return any(one.windows is not None or one.timer_ns for one in plan.operators)


def needs_of(plan: RunPlan) -> Iterator[Need]:
    """Yield all that the run needs beyond the scan: of the run, then of each operator, host, link and checkpoint."""
    run, operators, tolerance = _Run(plan), plan.operators, plan.scenario.fault_tolerance
    yield from _found(run, OF_RUN, [plan])
    yield from _found(run, OF_OPERATOR, operators)
    links = [host for host in run.hosts if host.group.network_bytes_per_s is not None]
    yield from _found(run, OF_HOST, run.hosts)
    yield from _found(run, OF_LINK, links)
    # States are saved, or sent elsewhere: their sizes are needed.
    if tolerance.takes_checkpoints or plan.keeps_ids or plan.scenario.events:
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


def _is_aligned(plan: RunPlan) -> bool:
    """Return whether barriers that line up take the checkpoints: windows are handed over around these."""
    tolerance = plan.scenario.fault_tolerance
    return tolerance.job_checkpoints is not None and not tolerance.unaligned


def _has_barriers(_: _Run, plan: RunPlan) -> str | None:
    return _when(plan.scenario.fault_tolerance.job_checkpoints is not None, "barriers take checkpoints of the job")


def _may_come_out_of_order(_: _Run, plan: RunPlan) -> str | None:
    """With barriers the scan knows what is kept, and what comes twice, where all goes back to one checkpoint."""
    tolerance = plan.scenario.fault_tolerance
    together = tolerance.method == "region-restart" and plan.drops_duplicates
    return _when(tolerance.job_checkpoints is not None and not together, "not all goes back to a checkpoint of the job")


def _several_at_a_time(_: _Run, plan: RunPlan) -> str | None:
    barriers = plan.scenario.fault_tolerance.job_checkpoints
    return _when(barriers is not None and barriers.concurrent > 1, "several checkpoints of the job may be under way")


def _pause_tasks(_: _Run, plan: RunPlan) -> str | None:
    tolerance = plan.scenario.fault_tolerance
    return _when(tolerance.snapshots.cost and tolerance.job_checkpoints is None, "checkpoints pause tasks")


def _pause_tasks_at_barriers(_: _Run, plan: RunPlan) -> str | None:
    tolerance = plan.scenario.fault_tolerance
    return _when(tolerance.snapshots.cost and tolerance.job_checkpoints is not None, "checkpoints pause tasks")


def _share_the_store(_: _Run, plan: RunPlan) -> str | None:
    tolerance = plan.scenario.fault_tolerance
    return _when(tolerance.shares_uploads and tolerance.job_checkpoints is None, "all who upload share the store")


def _has_an_acker(_: _Run, plan: RunPlan) -> str | None:
    method = plan.scenario.fault_tolerance.method
    return _when(method == "acker", f"fault_tolerance.method is {method}")


def _hosts_may_fail(_: _Run, plan: RunPlan) -> str | None:
    if not plan.keeps_ids:
        return None
    return "there are active replicas" if plan.scenario.has_replicas else "hosts may fail"


def _is_cold_after_restarts(_: _Run, plan: RunPlan) -> str | None:
    return _when(plan.scenario.recovery.warm_up is not None, "hosts are slower after restarts")


def _has_events(_: _Run, plan: RunPlan) -> str | None:
    first = next(iter(plan.scenario.events), None)
    return None if first is None else f"there are events: {first}"


def _has_no_service(_: _Run, operator: OperatorPlan) -> str | None:
    inner = not (operator.is_source or operator.is_sink)
    return _when(inner and operator.description.service is None, f"{operator.name} has no service")


def _applies_out_of_order(run: _Run, operator: OperatorPlan) -> str | None:
    """A pool of threads applies tuples in another order than that in which they come, which ids follow."""
    pool = operator.description.threads > 1 and operator.description.service is not None
    words = f"{operator.name} has several threads, and tuples may come twice"
    return _when(pool and run.plan.keeps_ids, words)


def _gets_several_sizes(run: _Run, operator: OperatorPlan) -> str | None:
    """In-flight data has a size, and the scan does not know who has sent what waits."""
    inputs = operator.description.inputs
    sizes = {one.output_bytes for one in run.plan.operators if one.name in inputs}
    several = run.plan.scenario.fault_tolerance.unaligned and len(sizes) > 1
    return _when(several, f"barriers overtake, and {operator.name} gets tuples of several sizes")


def _is_source_with_service(_: _Run, operator: OperatorPlan) -> str | None:
    serves = operator.description.service is not None
    return _when(operator.is_source and serves, f"the source {operator.name} has a service")


def _has_event_time_beside_others(run: _Run, operator: OperatorPlan) -> str | None:
    """The scan knows windows and timers where nothing else happens, and between barriers."""
    if _is_aligned(run.plan):
        return None
    saved = run.plan.scenario.fault_tolerance.takes_checkpoints
    others = saved or run.plan.scenario.events or run.plan.keeps_ids
    if not others or (operator.windows is None and not operator.timer_ns):
        return None
    what = "is a join" if operator.joins is not None else "has a window" if operator.windows else "has a timer"
    # Events and hosts that may fail are named before; where this is the first reason, checkpoints are all there is.
    return f"{operator.name} {what}" + (", and checkpoints are taken" if saved else "")


def _passes_in_a_pool(_: _Run, operator: OperatorPlan) -> str | None:
    """A watermark passes when all services before it have ended, which is not when the next one begins."""
    pool = operator.timed and operator.description.threads > 1
    return _when(pool, f"watermarks pass {operator.name}, which has several threads")


def _hears_apart(run: _Run, operator: OperatorPlan) -> str | None:
    """The key groups of a task may have different event times: over `forward` each hears one task."""
    forward = "forward" in operator.description.inputs.values()
    several = operator.description.groups > operator.description.parallelism
    return _when(operator.timed and forward and several, f"key groups of {operator.name} hear different tasks")


def _passes_back(_: _Run, operator: OperatorPlan) -> str | None:
    """What a watermark causes reaches an operator with a lower number after all else of the instant."""
    before = [edge.down.name for edge in operator.edges if edge.down.index < operator.index]
    passes = operator.timed and not operator.is_source and bool(before)
    return _when(passes, f"watermarks pass {operator.name}, which stands behind {before[0] if before else ''}")


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


def _has_watermarks(run: _Run, host: _Host) -> str | None:
    """On a link the order of what is sent at one instant counts: these leave after all services have ended."""
    if any(operator.timed for operator in run.operators_on(host)):
        return f"watermarks go over the link of {host.name}"
    timers = any(operator.timer_ns for operator in run.operators_on(host))
    return _when(timers, f"outputs of a timer go over the link of {host.name}")


def _saves_on_a_thread(run: _Run, operator: OperatorPlan) -> str | None:
    described = operator.description
    pool = described.threads > 1 and described.serialise_bytes_per_s is not None
    words = f"{operator.name} writes snapshots on one of several threads, and the network has no latency"
    return _when(pool and not run.plan.latency_ns, words)


def _is_of_the_last_time(run: _Run, operator: OperatorPlan) -> str | None:
    """The scan counts what such a state has where it has watermarks; where it takes checkpoints itself it has none."""
    counted = _is_aligned(run.plan) and passes_watermarks(run.plan)
    words = f"the state of {operator.name} is a window"
    return _when(isinstance(operator.description.state, WindowState) and not counted, words)


def _has_too_many_keys(run: _Run, operator: OperatorPlan) -> str | None:
    per_key = isinstance(operator.description.state, PerKeyState)
    words = f"{operator.name} has too many keys to have a place for each"
    return _when(per_key and keys_of(run.plan, operator) is None, words)


def _sends_checkpoints(run: _Run, host: _Host) -> str | None:
    """Checkpoints share the link with tuples."""
    sends = any(not operator.is_sink for operator in run.operators_on(host))
    return _when(sends, f"checkpoints are taken, and the link of {host.name} has a bandwidth")


def _reads_committed(_: _Run, plan: RunPlan) -> str | None:
    rules = plan.scenario.fault_tolerance.changelogs
    return _when(rules is not None and rules.visible == "committed", "sinks wait for commits")


# -- the tables

OF_RUN: tuple[Row[RunPlan], ...] = (
    Row(_has_barriers, (CheckpointPlane, ActionPlane), at_times=True),
    Row(_may_come_out_of_order, (CheckpointPlane, ActionPlane)),
    Row(_several_at_a_time, (CheckpointPlane, ActionPlane)),
    Row(_pause_tasks),
    Row(_pause_tasks_at_barriers, at_times=True),
    Row(_share_the_store),
    Row(lambda _, plan: _when(plan.trimming is not None, "acks trim outputs"), (TrimmingPlane,)),
    Row(lambda _, plan: _when(plan.history is not None, "outputs are kept for a time"), (TrimmingPlane,)),
    Row(_has_an_acker, (AckerPlane,)),
    Row(
        lambda _, plan: _when(plan.scenario.fault_tolerance.batches is not None, "it runs in micro-batches"),
        (InstancePlane, ActionPlane),
    ),
    Row(_reads_committed, (InstancePlane, ActionPlane)),
    # Events are failures of hosts, moves of key groups, and rescalings, which are moves.
    Row(_has_events, (InstancePlane, ActionPlane), at_times=True),
    Row(_hosts_may_fail, (InstancePlane, ActionPlane), at_times=True),
    Row(_is_cold_after_restarts, (SharedCpuPlane,)),
    Row(lambda _, plan: _when(plan.counts_load, "the load of each key group is counted"), (CountingPlane,)),
)
OF_OPERATOR: tuple[Row[OperatorPlan], ...] = (
    Row(_applies_out_of_order),
    Row(_gets_several_sizes),
    Row(lambda _, one: _when(one.description.kind not in _KINDS, f"{one.name} is a {one.description.kind}")),
    Row(_has_event_time_beside_others),
    Row(_passes_in_a_pool),
    Row(_hears_apart),
    Row(_passes_back),
    Row(lambda _, one: _when(one.description.postpone is not None, f"{one.name} postpones its outputs")),
    Row(lambda _, one: _when(one.description.scan_s is not None, f"{one.name} scans its key groups"), (ActionPlane,)),
    Row(lambda _, one: _when(one.counts is not None, f"{one.name} has a selectivity for each input")),
    Row(lambda _, one: _when(one.entries is not None, f"the state of {one.name} has sizes for each input")),
    Row(lambda _, one: _when(one.thread is not None, f"{one.name} is chained")),
    Row(lambda _, one: _when(one.description.buffer is not None, f"the queues of {one.name} are bounded")),
    Row(_has_no_service),
    Row(_is_source_with_service),
    Row(lambda _, one: _when(one.is_read, f"{one.name} does not read each record at once")),
    Row(lambda _, one: _when(one.poll > 0, f"{one.name} polls")),
)
OF_HOST: tuple[Row[_Host], ...] = (
    Row(_is_shared_with_others, (SharedCpuPlane,)),
    Row(_waits_for_cores),
)
OF_LINK: tuple[Row[_Host], ...] = (
    Row(lambda run, host: _when(run.plan.fair, f"the link of {host.name} is shared evenly")),
    Row(_shares_its_link),
    Row(_has_watermarks),
)
OF_STATE: tuple[Row[OperatorPlan], ...] = (
    Row(_saves_on_a_thread),
    Row(_is_of_the_last_time),
    Row(_has_too_many_keys),
)
OF_CHECKPOINT_LINK: tuple[Row[_Host], ...] = (Row(_sends_checkpoints),)
