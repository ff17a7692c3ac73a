"""The summary of a run as values; `analysis.documents.to_document` makes of them what `run --json` prints.

Order and names of fields are those of the document. Times are in seconds, intervals are (low, high) with 95 %. None
stands for what was not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated

from analysis.runs.checkpoint_summary import Checkpoints
from analysis.runs.recovery_summary import Interval, Outages, Recovery, RecoveryMean, Replicas
from models import display
from models.scenario.engine import Engine
from models.steady_state.checkpoint_traffic import LinkSharing

REBALANCE_PHASES = ("wait", "drain", "command", "start", "initialise", "settle")


@dataclass(frozen=True)
class Durations:
    """Mean, quantiles and greatest of durations [s]; the interval is that of the mean over replications.

    Quantiles are of all replications pooled: p99 is the smallest of the values that at least 99 % of all do not exceed.
    """

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None
    ci95: Interval | None


@dataclass(frozen=True)
class ReplicationLatency:
    """Latency [s] of the `count` tuples of one replication that were created after the warm-up."""

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None
    count: int


@dataclass(frozen=True)
class Latency(ReplicationLatency):
    """Latency [s] of all replications, with the interval of the mean."""

    ci95: Interval | None

    def without_interval(self) -> ReplicationLatency:
        """Return the same without the interval, which one replication does not have."""
        return ReplicationLatency(*(getattr(self, one.name) for one in fields(ReplicationLatency)))


@dataclass(frozen=True)
class Visible:
    """Times of tuples until sinks that commit at checkpoints have committed them, from source and from sink [s].

    Tuples are those of the latency. `hidden` ones were not visible before the end of the run.
    """

    latency_s: Latency
    delay_s: Durations
    hidden: int


@dataclass(frozen=True)
class OperatorSummary:
    """The work of one operator; `queue_mean` is in tuples, `utilisation` a share of its servers.

    `wait_s` is the time in the queue, `sojourn_s` that and the service. `queue_mean` is the time average of waiting
    tuples, without those in service.
    """

    processed: int | None
    wait_s: Durations
    sojourn_s: Durations
    queue_mean: float | None
    queue_mean_ci95: Interval | None
    utilisation: float | None
    utilisation_ci95: Interval | None


@dataclass(frozen=True)
class Recording:
    """The detail of the records, tuples or histograms, and the relative error of their quantiles."""

    detail: str
    quantile_error: float


@dataclass(frozen=True)
class KernelUsed:
    """The kernel that executes the tuples of such a run, and why that one.

    On the first run on a machine the plain engine may stand in for it, with the same rows.
    """

    name: str
    why: str


@dataclass(frozen=True)
class Migration:
    """The migration of a key group; `pause_s` is the time for which it was not processed.

    `worst_s` is the longest time from the arrival of a tuple of the group until it was answered.

    `completion_s` is the time from the request until the new owner goes on and the old one holds the checkpoint.
    `cause` is `event` for a move of the scenario, else what the manager moved it for. Times are None where the move did
    not end within the run, or was cancelled, as a crash took a task.
    """

    replication: int
    protocol: str
    operator: str
    key_group: int
    origin: Annotated[str, "from"]
    target: Annotated[str, "to"]
    requested_s: float
    pause_s: float | None
    completion_s: float | None
    worst_s: float | None
    replayed: int
    bytes: int
    cause: str
    cancelled_s: float | None = None

    @property
    def partition(self) -> str:
        """The key group with its operator, as text."""
        return f"{self.operator}[{self.key_group}]"


@dataclass(frozen=True)
class Rebalance:
    """A dataflow that was killed and started elsewhere: its phases [s], and what it cost in tuples.

    `requested_s` is an instant, `drain_s` and `command_s` are lengths: of PREPARE and COMMIT together (a drain or a
    capture), and from then to the kill. All others count from the request; `analysis.runs.rebalances` says what each
    means. They are None where it did not come to that, or where the records cannot tell. `outcome` is done, called off
    or open.

    `subtasks` are those that it kills. `captured` tuples were saved with states, `lost` ones dropped by the kill.
    `replayed` ones were emitted again until the next rebalance, `failed` of them before their time-out, after a
    ROLLBACK; both are None without an acker.
    """

    replication: int
    number: int
    protocol: str
    outcome: str
    requested_s: float
    begun_s: float | None
    prepared_s: float | None
    drain_s: float | None
    command_s: float | None
    killed_s: float | None
    up_s: float | None
    first_init_s: float | None
    restore_s: float | None
    last_init_s: float | None
    unpause_s: float | None
    over_s: float | None
    caught_up_s: float | None
    recovered_s: float | None
    stable_bins_s: float | None
    stable_mean_s: float | None
    subtasks: int
    captured: int
    lost: int
    failed: int | None
    replayed: int | None

    def ends(self) -> tuple[tuple[str, float, float], ...]:
        """Return (phase, begin, end) [s from the request] of `REBALANCE_PHASES` that ended; their ends rise."""
        drained = None if self.drain_s is None or self.begun_s is None else self.begun_s + self.drain_s
        if drained is None and self.killed_s is not None:
            drained = self.begun_s  # nothing was saved
        ends = (self.begun_s, drained, self.killed_s, self.first_init_s, self.last_init_s, self.stable_mean_s)
        begin, found = 0.0, []
        for phase, end in zip(REBALANCE_PHASES, ends, strict=True):
            if end is None:
                break
            found.append((phase, begin, max(begin, end)))
            begin = max(begin, end)
        return tuple(found)


@dataclass(frozen=True)
class Rescale:
    """A change of an operator's number of tasks, and how many key groups it moved.

    `before` and `after` are numbers of tasks; `completion_s` is None where the last move did not end. `pause_s` is the
    time from the first task that stopped to be adjusted to the last that went on, None where key groups move alone.
    """

    replication: int
    operator: str
    requested_s: float
    before: int
    after: int
    moves: int
    completion_s: float | None
    pause_s: float | None


@dataclass(frozen=True)
class Reconfiguration:
    """Key groups of an operator that changed their tasks in steps, while it ran.

    It began with its first step, maybe later than it was requested, or (`begun_s` None) not within the run.
    `duration_s` is from then until the last state was at its new task; the latencies are those of tuples that were born
    meanwhile, each alone, and until the output frontier passed its epoch of a millisecond
    (`analysis.runs.reconfigurations`). `extra_bytes` is the most by which a host held more memory than before and
    after; None where the table `memory` is not kept, or it did not end. Times are None where it did not end, or nothing
    was seen. One that was cancelled, as a crash took a task, has `steps_over` and no others; `lost_groups` of its key
    groups begin empty, as the crash took their states when they moved.
    """

    replication: int
    operator: str
    strategy: str
    requested_s: float
    begun_s: float | None
    steps: int
    groups: int
    bytes: int
    duration_s: float | None
    longest_step_s: float | None
    latency_max_s: float | None
    latency_p99_s: float | None
    frontier_latency_max_s: float | None
    frontier_latency_p99_s: float | None
    extra_bytes: int | None
    steps_over: int
    lost_groups: int
    lost_bytes: int
    cancelled_s: float | None

    @property
    def over_of_all(self) -> str:
        """Return how many of its steps were over, in words."""
        return f"{self.steps_over} of {self.steps}"

    @property
    def begin_empty(self) -> str:
        """Return how many key groups have lost their states, and how large these were, in words."""
        return f"{display.count(self.lost_groups)} ({display.size(self.lost_bytes)})" if self.lost_groups else ""


@dataclass(frozen=True)
class Elasticity:
    """Counts of the adaptation manager, all replications together.

    `groups` counts key groups on overloaded hosts at each check, `usable` those of them whose checkpoint's host had
    room.
    """

    checks: int
    overloaded: int
    groups: int
    usable: int
    assisted: int
    direct: int
    drained: int
    unplaced: int
    usable_share: float | None
    assisted_share: float | None


@dataclass(frozen=True)
class MaintenanceRound:
    """A comparison of the allocation of checkpoints with a fresh one that moved some."""

    replication: int
    at_s: float
    current: float
    fresh: float
    left: float
    moved: int
    stored: int
    bytes: int


@dataclass(frozen=True)
class Maintenance:
    """All comparisons of the allocation of checkpoints with a fresh one."""

    comparisons: int
    moved: int
    stored: int
    bytes: int
    rounds: tuple[MaintenanceRound, ...]


@dataclass(frozen=True)
class HostsInUse:
    """Seconds for which each host was in use, the mean of the replications; no cost without prices."""

    seconds: Mapping[str, float]
    total_s: float
    cost_usd: float | None


@dataclass(frozen=True)
class Resources:
    """Resources of all tasks together after the warm-up, at the instants of samples; None without samples.

    `busy_cores`: cores that serve tuples, write snapshots or read states, on average. `kept_bytes`: outputs that are
    kept to be sent again, mean over the samples; `kept_bytes_max`: the most at any sample.
    """

    busy_cores: float | None
    kept_bytes: float | None
    kept_bytes_max: float | None


@dataclass(frozen=True)
class HostMemory:
    """The most that the tasks of a host held, and when: states, queues, kept outputs, and copies of moving states.

    `above_s` is the time for which it was more than the memory of the host, the mean of the replications. None where
    nothing was seen, or the host has no `memory`.
    """

    peak_bytes: int | None
    at_s: float | None
    limit_bytes: float | None
    above_s: float | None


@dataclass(frozen=True)
class Memory:
    """Memory of each host, and the most that one of them held."""

    peak_bytes: int | None
    hosts: Mapping[str, HostMemory]


@dataclass(frozen=True)
class Messages:
    """Messages of one kind between hosts after the warm-up."""

    count: int
    bytes: int


@dataclass(frozen=True)
class Guarantee:
    """Tuples lost and duplicated at the sinks, and in the state of operators that have a `state`.

    None if not counted.

    Lost: expected and missing. Duplicated: there more than once. Sinks behind windows and timers cannot be checked, and
    leave None.
    """

    lost: int | None
    duplicated: int | None
    state_lost: int | None
    state_duplicated: int | None

    @property
    def counts(self) -> tuple[int | None, ...]:
        """All four."""
        return self.lost, self.duplicated, self.state_lost, self.state_duplicated


@dataclass(frozen=True)
class Replication:
    """Latency and guarantee of one replication."""

    replication: int
    latency_s: ReplicationLatency
    guarantee: Guarantee


@dataclass(frozen=True)
class Verdict:
    """A target's limit, the value that is held against it, and whether it is met (None: nothing was seen).

    `limit` and `value` are in the unit of the target, whose name ends with it (`latency_p99_s`).
    """

    limit: float
    value: float | None
    met: bool | None


@dataclass(frozen=True)
class EngineBehaviour:
    """A behaviour of the engine that the scenario names: modelled, simplified or absent, and how."""

    name: str
    status: str
    text: str


@dataclass(frozen=True)
class EngineMilestone:
    """An instant of a recovery for which the engine has a word: the end of a phase, and the name of its metric."""

    phase: str
    key: str
    word: str
    text: str


@dataclass(frozen=True)
class EngineUsed:
    """The engine that the scenario names, what of it a run has, and its words for instants of a recovery."""

    name: str
    version: str
    behaviours: tuple[EngineBehaviour, ...]
    milestones: tuple[EngineMilestone, ...]
    rescaling_milestones: tuple[EngineMilestone, ...]

    @property
    def title(self) -> str:
        """Return the name that people know, with the version."""
        return Engine.model_validate({"name": self.name, "version": self.version}).title


@dataclass(frozen=True)
class RunSummary:
    """All replications of a run; a section is None where the scenario has nothing of that.

    Sections that a scenario cannot have (such as `checkpoints` without checkpointing) are None, while empty tuples mean
    that nothing of the kind happened. `resolution` is the number of tuples that a simulated one stands for; all numbers
    of tuples are those of the job. `metrics_of` turns a summary into one number for each name, `to_document` into
    JSON.
    """

    scenario: str
    seed: int
    duration_s: float
    warmup_s: float
    resolution: int
    operators: Mapping[str, OperatorSummary]
    latency_s: Latency
    visible: Visible | None
    recording: Recording | None
    engine: EngineUsed | None
    kernel: KernelUsed | None
    network: LinkSharing
    checkpoints: Checkpoints | None
    migrations: tuple[Migration, ...]
    rebalances: tuple[Rebalance, ...]
    rescales: tuple[Rescale, ...]
    reconfigurations: tuple[Reconfiguration, ...]
    elasticity: Elasticity | None
    maintenance: Maintenance | None
    hosts: HostsInUse
    resources: Resources
    memory: Memory | None
    recoveries: tuple[Recovery, ...]
    recovery_means: tuple[RecoveryMean, ...]
    rescaling_means: tuple[RecoveryMean, ...]
    restart_means: tuple[RecoveryMean, ...]
    replicas: Replicas | None
    broken: Outages | None
    messages: Mapping[str, Messages]
    guarantee: Guarantee
    replications: tuple[Replication, ...]
    targets: Mapping[str, Verdict] | None
