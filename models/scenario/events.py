"""Events of a run, its targets and limits, the limits of elasticity, and how much is kept of single tuples."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from models.distributions import TimeDistribution, longest_s, shortest_s, survival
from models.schema_types import (
    Count,
    Description,
    FilePath,
    PositiveBytes,
    PositiveSeconds,
    ReadOnlyMap,
    Seconds,
    Share,
)

WITHOUT_CHECKPOINTS = "pause_drain_resume"  # the protocol of key groups whose state no checkpoint has
PROTOCOLS = (
    "direct",
    "cpa",
    "cpal",
    "cpal_caught_up",
    "lazy_move",
    "replication",
    WITHOUT_CHECKPOINTS,
)  # of key groups, simulated
ADJUSTMENT = "oap"  # the protocol of a whole operator


class Timed(Description):
    """Something that happens at a time of the run."""

    kind: str
    at_s: Seconds | TimeDistribution = Field(alias="at")
    """When: a time from the start of the run, or a distribution of it, from which each replication draws its own, so
    that it happens at other phases of heartbeats and checkpoints."""

    @property
    def mean_s(self) -> float:
        """Return when it happens on average [s]."""
        return self.fixed_s + sum(law.mean_s for law in self.laws)

    @property
    def earliest_s(self) -> float:
        """Return before when it never happens [s]."""
        return self.fixed_s + sum(shortest_s(law) for law in self.laws)

    @property
    def latest_s(self) -> float:
        """Return after when it never happens [s]; infinite if it can happen at any time."""
        return self.fixed_s + sum(longest_s(law) for law in self.laws)

    def share_after(self, end_s: float) -> float:
        """Return the probability that it does not happen before `end_s`; nothing, or one law, is drawn."""
        if not self.laws:
            return float(self.fixed_s >= end_s)
        (law,) = self.laws  # two are refused
        return survival(law, end_s - self.fixed_s)

    def at(self, at_s: float) -> Self:
        """Return the same event at a time [s], of which nothing is drawn."""
        return self.model_copy(update={"at_s": at_s} | ({"delay": None} if hasattr(self, "delay") else {}))

    @property
    def fixed_s(self) -> float:
        """Return the part of its time that is not drawn [s]."""
        return self.at_s if isinstance(self.at_s, (int, float)) else 0.0

    @property
    def laws(self) -> tuple[TimeDistribution, ...]:
        """Return the laws of the part that is drawn: of `at`, or of `delay`."""
        laws = (self.at_s, getattr(self, "delay", None))
        return tuple(law for law in laws if law is not None and not isinstance(law, (int, float)))


class HostFailure(Timed):
    """A host dies; it comes back empty after `repair`, or never."""

    kind: Literal["host-failure"] = "host-failure"
    host: str
    """Host that dies."""
    delay: TimeDistribution | None = None
    """Time after `at` at which it dies, drawn for each replication, so that failures fall at other phases of heartbeats
    and checkpoints; without it none."""
    repair_s: PositiveSeconds | None = Field(default=None, alias="repair")
    """Time until the host is back, empty; without it never."""
    silent: bool = Field(default=False, strict=True)
    """Whether it dies without a sign, as in a power failure or behind a cut cable: no connection breaks, and no
    heartbeat is refused."""


class DriverFailure(Timed):
    """The driver dies, and with it all executors; their hosts live. For the method `micro-batch`."""

    kind: Literal["driver-failure"] = "driver-failure"
    delay: TimeDistribution | None = None
    """Time after `at` at which it dies, drawn for each replication, so that failures fall at other phases of batches;
    without it none."""


class WorkerFailure(Timed):
    """The worker processes of a host die; the host lives, and its supervisor starts them again, as in Storm.

    Needs `workers.together`.
    """

    kind: Literal["worker-failure"] = "worker-failure"
    host: str
    """Host whose workers die."""
    delay: TimeDistribution | None = None
    """Time after `at` at which they die, drawn for each replication; without it none."""


class HostRestart(Timed):
    """Hosts stop on purpose, one after the other, and come back: a rolling restart. For the method `changelog`.

    What a host has is committed as it stops: nothing of it comes twice, and nothing has to be repeated.
    """

    kind: Literal["host-restart"] = "host-restart"
    hosts: tuple[str, ...] = Field(min_length=1)
    """Hosts that stop, in this order."""
    delay: TimeDistribution | None = None
    """Time after `at` at which the first one stops, drawn for each replication; without it none."""
    down_s: PositiveSeconds | None = Field(default=None, alias="down")
    """Time until a host is back; without it never."""
    pause_s: Seconds = Field(default=0.0, alias="pause")
    """Time from when a host is back until the next one stops."""
    leaves: bool = Field(default=False, strict=True)
    """Have a host that stops say so, and leave its group; else the detector has to notice it."""
    disk: Literal["kept", "lost"] = "kept"
    """Keep or lose the states on its disk. `kept`: it has them again when it is back; `lost`: it is empty then."""


class HostJoin(Timed):
    """A spare host is used from now on. For the method `changelog`."""

    kind: Literal["host-join"] = "host-join"
    host: str
    """Spare host."""


class FailureReplay(Description):
    """Hosts die and come back as a failure log says, beside what `events` and host groups say."""

    log: FilePath
    """A file of `holdfast failures --out`, relative to the scenario file."""
    begin: str | None = None
    """Instant of the log at which the run begins, in ISO 8601; without it the begin of the log's window."""
    end: str | None = None
    """Failures of the log from this instant on are left out."""
    speed: float = Field(default=1.0, gt=0, le=1e9, strict=True)
    """Seconds of the log in a second of the run."""
    hosts: ReadOnlyMap[str] = Field(default_factory=dict, validate_default=True)
    """Host = host of the log; without it hosts of the same name."""


class Migrate(Timed):
    """A key group moves to another host by a migration protocol."""

    kind: Literal["migrate"] = "migrate"
    operator: str
    """Operator whose key group moves."""
    key_group: int = Field(strict=True, ge=0)
    """Key group that moves."""
    host: str
    """Host it moves to."""
    protocol: str | None = None
    """Migration protocol; without it the one that goes with the method of recovery: `direct` with checkpoints,
    `pause_drain_resume` with methods that take none."""


class Rescale(Timed):
    """An operator gets another number of tasks."""

    kind: Literal["rescale"] = "rescale"
    operator: str
    """Operator that is rescaled."""
    parallelism: Count
    """New number of tasks, each on a host of its own; with `region-restart` in slots."""
    submit_s: Seconds = Field(default=0.0, alias="submit")
    """Time from the end of the job, which stops with a savepoint, until it is submitted again: with `region-restart`
    and the default scheduler."""
    protocol: str | None = None
    """Migration protocol of each key group whose task changes; or `oap`, which adjusts the operator as a whole. Without
    it the one that goes with the method of recovery: `oap` with `elastic-upstream-backup`, else as for `migrate`."""


class Rebalance(Timed):
    """All tasks of the dataflow, but those that stay, are killed and start on other hosts with their state."""

    kind: Literal["rebalance"] = "rebalance"
    hosts: tuple[str, ...] = Field(min_length=1)
    """Host groups that the tasks go to: round robin over the free slots of their hosts."""
    protocol: Literal["dsm", "dcr", "ccr"] = "ccr"
    """Protocol for whole dataflows."""
    command_s: Seconds = Field(default=0.0, alias="command")
    """Time that the rebalance command takes; tasks are killed at its end."""
    wait_s: Seconds | None = Field(default=None, alias="wait")
    """Time before the command for which sources emit nothing, so that what is under way ends, with `dsm`; they go on
    when tasks are killed. Without it none; `storm rebalance -w`."""


class Reconfigure(Timed):
    """Key groups of an operator change their tasks while the job runs: in steps by `megaphone`, or by a baseline."""

    kind: Literal["reconfigure"] = "reconfigure"
    operator: str
    """Operator whose key groups (bins) change their tasks."""
    protocol: Literal[
        "megaphone",
        "stop-and-restart",
        "pause-and-resume",
        "direct",
        "cpa",
        "cpal",
        "cpal_caught_up",
        "lazy_move",
        "replication",
        "pause_drain_resume",
    ] = "megaphone"
    """How they change. `stop-and-restart`: the whole job drains, saves its states in `state_store`, and restarts;
    `pause-and-resume`: the tasks that give or get key groups pause. `direct` and those after it are the protocols of an
    event `migrate`: each key group moves by itself. All but `megaphone` move all key groups at once."""
    restart_s: Seconds = Field(default=0.0, alias="restart")
    """Time from when all states are saved until the tasks have started again, with `stop-and-restart`."""
    strategy: Literal["all-at-once", "fluid", "batched", "optimised"] = "batched"
    """Which key groups move in which step: all in one, one in each, `size` in each, or as many in each as can move with
    no task that sends two or gets two."""
    size: Count | None = None
    """Key groups in a step, in their order; for the strategy `batched`."""
    plan: Literal["half", "back"] = "half"
    """Which key groups go where. `half`: the first half of those of every second task goes to the tasks between them,
    half way round; `back`: all go to the tasks that have them at the start."""
    owners: tuple[Annotated[int, Field(strict=True, ge=0)], ...] = Field(default=(), min_length=1)
    """Number of the task of each key group from then on, in place of `plan`."""
    tasks: Count | None = None
    """Number of tasks that have the key groups from then on, in place of `plan`: each is where an operator of so many
    tasks has it, as after a rescaling. The other tasks stay, and have none."""
    file: FilePath | None = None
    """A migration file of Megaphone, relative to the scenario file, in place of strategy and plan: each line is a step,
    and none begins before the time of its line, which counts from the start of the run."""
    scope: Literal["operator", "bin"] = "operator"
    """Let all key groups of the operator wait while a step is in flight, or (`bin`) only those that move."""
    gap_s: Seconds | Literal["drain"] = Field(default=0.0, alias="gap")
    """Time from the end of a step until the next begins; `drain`: until the queue of each task of the operator has been
    empty, or as short as the rounds of a `scan` leave it."""
    next: Literal["now", "lag"] = "now"
    """When the time of the next step lies: when a step is over (`now`), or when it begins (`lag`), so that what comes
    during a step waits for the next one too, as behind a source that releases its tuples together with the commands. A
    step that moves a key group of the one before again has its time when that is over in any case."""
    late_s: Seconds = Field(default=0.0, alias="late")
    """Time by which a configuration update comes after its own time, at which the control frontier stops meanwhile:
    each task that sends to the operator withholds what is born from that time on until the update is there."""
    overlap: Literal["none", "pipelined"] = "none"
    """`pipelined`: key groups travel while others are written and read; `none`: all that go from one task to another in
    a step are written, sent and read as a whole."""
    sent_copies: float = Field(default=2.0, ge=1, le=10, strict=True)
    """Copies of a state that its task holds from when it leaves to the end of the step, for the table `memory`."""
    received_copies: float = Field(default=3.0, ge=1, le=10, strict=True)
    """Copies of a state that its new task holds from when it comes to the end of the step; one of them is the state."""

    @property
    def name_of_strategy(self) -> str:
        """Return the strategy, or `file` where a file has the steps; that of another protocol than megaphone is it."""
        if self.protocol != "megaphone":
            return self.protocol
        return self.strategy if self.file is None else "file"

    @property
    def moves_each(self) -> bool:
        """Return whether each key group moves by itself, as by an event `migrate`."""
        return self.protocol in PROTOCOLS


Death = HostFailure | DriverFailure | WorkerFailure
"""Events that end tasks against all wishes."""
Event = Annotated[
    Death | HostRestart | HostJoin | Migrate | Rescale | Rebalance | Reconfigure, Field(discriminator="kind")
]


class Elasticity(Description):
    """When key groups move by themselves, and when hosts come and go: a policy, its thresholds, the protocol."""

    policy: Literal["none", "threshold", "operators"] = "none"
    """Policy that moves or scales without an event. `threshold`: key groups move when their host is overloaded, or is
    to be left; `operators`: operators get more tasks, or fewer, by the protocol `oap`, when reports of their CPU say
    so."""
    high: float = Field(default=0.85, gt=0, le=1, strict=True)
    """Utilisation above which a host is overloaded, and which no move may bring a host above; or the upper threshold of
    the CPU of an operator's tasks."""
    low: float = Field(default=0.3, ge=0, lt=1, strict=True)
    """Utilisation below which a host may be left; or the lower threshold of the CPU of an operator's tasks."""
    operators: tuple[str, ...] = ()
    """Operators that get other tasks with the policy `operators`; without it all whose key groups can move."""
    reports: Count = 2
    """Reports in a row, one each `period`, that have to be above `high`, or below `low`, before an operator changes."""
    grow: float = Field(default=2.0, gt=1, le=1e3, strict=True)
    """Tasks of an operator that is scaled up, as a multiple of those before; rounded up."""
    shrink: float = Field(default=0.5, gt=0, lt=1, strict=True)
    """Tasks of an operator that is scaled down, as a multiple of those before; rounded down, and one at least."""
    period_s: PositiveSeconds = Field(default=8.0, alias="period")
    """Time between two checks of the load since the last one."""
    begin_s: Seconds = Field(default=0.0, alias="begin")
    """No decision is taken before; checks are from the start on."""
    rest_s: Seconds = Field(default=16.0, alias="rest")
    """A key group that was moved is left alone for so long, and a host that was acquired is kept."""
    moves: Count = 4
    """Key groups that may leave one host at one check."""
    prefer: Literal["sufficient", "quarter", "usable"] = "sufficient"
    """Which key groups are tried first for one that fits where its checkpoint is, and so can move with its help:
    the first one alone, the first quarter of those of the host, or all.
    """
    protocol: str = "direct"
    """Migration protocol of moves to the host with the newest checkpoint; all others are `direct`."""
    hosts: tuple[str, ...] = ()
    """Host groups that key groups are moved from and to; without it all."""
    scale_out: bool = Field(default=False, strict=True)
    """Whether spare hosts are acquired when a key group fits nowhere."""
    acquisition_s: Seconds = Field(default=30.0, alias="acquisition")
    """Time until a host that is acquired can be used."""
    scale_in: bool = Field(default=False, strict=True)
    """Whether hosts below `low` are drained and released."""


class Targets(Description):
    """Targets of the run; a missed one makes exit code 4."""

    latency_mean_s: PositiveSeconds | None = Field(default=None, alias="latency_mean")
    """Mean latency, source to sink."""
    latency_p50_s: PositiveSeconds | None = Field(default=None, alias="latency_p50")
    """Median latency."""
    latency_p95_s: PositiveSeconds | None = Field(default=None, alias="latency_p95")
    """95th percentile of the latency."""
    latency_p99_s: PositiveSeconds | None = Field(default=None, alias="latency_p99")
    """99th percentile of the latency."""
    latency_p999_s: PositiveSeconds | None = Field(default=None, alias="latency_p999")
    """99.9th percentile of the latency."""
    latency_max_s: PositiveSeconds | None = Field(default=None, alias="latency_max")
    """Largest latency."""
    recovery_s: PositiveSeconds | None = Field(default=None, alias="recovery")
    """Longest recovery, failure to caught up."""
    lost: int | None = Field(default=None, strict=True, ge=0)
    """Tuples lost at the sinks, or in state if these are more."""
    utilisation: Share | None = None
    """Highest utilisation of an operator."""


class Limits(Description):
    """A scenario whose estimate is above one of these is refused before it starts."""

    steps: Count = 1_000_000_000
    """Tuples times operators they pass, over all replications."""
    memory_bytes: PositiveBytes = Field(default=4e9, alias="memory")
    """Memory for the records."""
    time_s: PositiveSeconds = Field(default=1800.0, alias="time")
    """Time of the computation."""


Detail = Literal["tuples", "histograms"]

MOST_TUPLE_STEPS = 6_000_000  # a row for each of them takes less than 1 GB with everything made from it


class Recording(Description):
    """A row for each tuple and operator, or histograms: their quantiles are off by at most 0.4 %, all else is exact."""

    detail: Literal["auto", "tuples", "histograms"] = "auto"
    """`auto`: tuples for up to 6 million steps that fit into `limits.memory`, histograms above."""
    statistics: bool = Field(default=False, strict=True)
    """Whether the load of each key group is kept, for each `elasticity.period`; where key groups move by themselves
    it is.
    """
    memory: bool = Field(default=False, strict=True)
    """Keep the table `memory`: what each task holds over time, and copies of states that move in steps.
    Standby replicas of Kafka Streams are not counted."""

    def chosen(self, steps: float, tuples_fit: bool) -> Detail:
        """Return the level of detail for a run of so many steps, all replications together."""
        if self.detail != "auto":
            return self.detail
        return "tuples" if tuples_fit and steps <= MOST_TUPLE_STEPS else "histograms"
