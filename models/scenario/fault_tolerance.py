"""Fault tolerance: how state survives a failure, and how a failure is detected."""

from __future__ import annotations

from math import floor, inf
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from models.distributions import TimeDistribution
from models.engines.patience import patience_s
from models.scenario.job import Operator
from models.scenario.recovery_methods import (
    UNTIL_PROCESSED,
    Acker,
    Adjusting,
    Barriers,
    Changelog,
    Compaction,
    History,
    LocalRecovery,
    MicroBatches,
    Snapshots,
    Trimming,
)
from models.schema_types import (
    BytesPerSecond,
    Count,
    Description,
    FilePath,
    PositiveSeconds,
    ReadOnlyMap,
    Seconds,
)


class PlanFile(Description):
    """An allocation read from a plan file."""

    plan: FilePath
    """Plan file, relative to the scenario file."""


Allocation = Literal["baseline", "even", "sensitive-first", "exact", "expected-usable"] | PlanFile


def _as_file(value: object) -> object:
    """Return the name of a plan file as its table."""
    return {"plan": value} if isinstance(value, str) and value.endswith(".json") else value


class Maintenance(Description):
    """Now and then the allocation is planned afresh from what statistics have seen, and checkpoints move if it pays."""

    every_s: PositiveSeconds = Field(default=60.0, alias="every")
    """Time between two comparisons with a fresh allocation."""
    first_s: PositiveSeconds | None = Field(default=None, alias="first")
    """When the first one is; without it after `every`."""
    theta: float = Field(default=0.1, ge=0, strict=True)
    """Checkpoints move while the score is worse than the fresh one by more than this share of the fresh one."""
    window_s: PositiveSeconds | None = Field(default=None, alias="window")
    """Statistics of so long before count; without it all since the start of the run."""
    method: Literal["even", "sensitive-first", "exact", "tie-band", "expected-usable"] = "exact"
    """How a fresh allocation is planned: by a method that statistics are enough for."""
    zero_below: float = Field(default=0.0, ge=0, le=1, strict=True)
    """Correlations below this count as none: short statistics have some by chance."""

    @property
    def begin_s(self) -> float:
        """Return when the first comparison is."""
        return self.every_s if self.first_s is None else self.first_s


class ActiveReplica(Description):
    """Key groups or tasks of an operator that are processed on a second host, too, in silence.

    When their own host dies the replica answers, as soon as that is detected, and keeps its place from then on.
    """

    operator: str
    """Operator that is replicated."""
    host: str
    """Host of the replica, another than that of what it replicates."""
    tasks: tuple[str, ...] | None = None
    """Tasks of the operator, with all their key groups; without it and `key_groups` all."""
    key_groups: tuple[int, ...] | None = None
    """Key groups of the operator, or numbers of tasks where it has no input by key."""
    spares: tuple[str, ...] = ()
    """Hosts on which a replica is made anew when one has taken over or is lost, the first that can; if none of them
    can, where a replica or what it replicates was at the start, once that host is back."""
    renew: bool = Field(default=True, strict=True)
    """Whether replicas are made anew."""


class ReplicaPlanFile(Description):
    """Active replicas as a file of `plan replicas --out` has them, in place of entries one by one.

    Tasks of its operators that `placement` says nothing about start on the host of the plan's primary.
    """

    plan: FilePath
    """Plan file, relative to the scenario file."""
    operators: ReadOnlyMap[str] = Field(default_factory=dict, validate_default=True)
    """Operator of the plan = operator of the scenario; without an entry the one of the same name, with underscores for
    dots.
    """
    hosts: tuple[str, ...] | None = None
    """Hosts that the plan counts from 0, by name; without it all that are in use, in the order of the file."""
    without: tuple[str, ...] = ()
    """Operators of the plan that get no replica, or that the scenario does not have."""
    spares: tuple[str, ...] = ()
    """Spares of each replica."""
    renew: bool = Field(default=True, strict=True)
    """Whether replicas are made anew."""


class FaultTolerance(Description):
    """Checkpoints with upstream backup, acks that trim it, an acker, or another method that the schema knows."""

    method: Literal[
        "none",
        "checkpoint",
        "synchronous-checkpoints",
        "region-restart",
        "micro-batch",
        "changelog",
        "state-management",
        "elastic-upstream-backup",
        "acker",
        "active-replication",
        "upstream-backup",
        "source-backup",
    ] = "none"
    """How state survives a failure. `checkpoint`: each lost key group or task is restored where its checkpoint is;
    `state-management`: lost key groups are divided among the hosts; `synchronous-checkpoints`: the whole job is rolled
    back; `region-restart`: as in Flink, all tasks that are connected to a lost one are, and as many start again;
    `micro-batch`: as in Spark, what has arrived is processed as a batch, and each batch ends with a checkpoint;
    `changelog`: as in Kafka Streams, lost key groups go where a copy of their state is, or are divided among the hosts,
    which read their changelogs; `elastic-upstream-backup`: as `state-management`, with acks that trim;
    `upstream-backup`: without checkpoints, upstream sends the last time again; `source-backup`: the sources do, and all
    in between is started anew; `active-replication`: without checkpoints, all between sources and sinks is processed on
    a second host, too; `acker`: sources emit again what was not processed."""
    acker: Acker | None = None
    """How roots are followed and fail, with the method `acker`; without it as in the defaults."""
    micro_batches: MicroBatches | None = None
    """How batches run, with the method `micro-batch`; without it as in the defaults."""
    changelog: Changelog | None = None
    """How states are kept, and where, with the method `changelog`; without it as in the defaults."""
    history: History | None = None
    """History that the methods `upstream-backup` and `source-backup` keep; without it as in the defaults."""
    snapshots: Snapshots = Snapshots()
    """Who writes snapshots, and for how long they keep their tasks from tuples."""
    adjustment: Adjusting | None = None
    """How operators get other tasks by the protocol `oap`; without it as in the defaults."""
    trimming: Trimming | None = None
    """How outputs are trimmed, with the method `elastic-upstream-backup`; without it as in the defaults."""
    interval_s: PositiveSeconds = Field(default=5.0, alias="interval")
    """Time between two checkpoints; with the method `micro-batch` between two triggers of batches."""
    barriers: Barriers | None = None
    """How barriers make the checkpoints of tasks one of the job, with the method `region-restart`; without it each task
    takes its own at the same instant, and goes back to its own newest one. Where the guarantee is at-least-once nothing
    is held back behind a barrier until the others have come."""
    local_recovery: LocalRecovery | None = None
    """Copies of snapshots on the disks of hosts, beside `barriers`; without it all states are read from the store."""
    restores: Literal["in-turn", "shared"] = "in-turn"
    """How states are read from the store after a failure: one key group or task after the other, each of which goes on
    with its own; or, beside `barriers`, by all tasks at once with equal shares, each of which goes on with all of its
    state."""
    uploads: Literal["in-turn", "shared"] = "in-turn"
    """How the store takes what is sent to it: one snapshot after the other, first in, first out; or, beside `barriers`
    and with the methods `micro-batch` and `changelog`, from all tasks at once with equal shares."""
    kind: Literal["full", "incremental"] = "incremental"
    """Content of a checkpoint: the whole state, or changes since the one before."""
    compaction: Compaction | None = None
    """How the files of incremental checkpoints are merged, beside `barriers`; without it an increment has no more than
    what changed, and a restore reads no more than the state."""
    store: Literal["nodes", "remote", "upstream"] = "nodes"
    """Where checkpoints are kept: on other hosts, in a remote store, or on the host of an upstream task."""
    guarantee: Literal["exactly-once", "at-least-once", "at-most-once"] = "exactly-once"
    """Guarantee that holds after a recovery."""
    duplicate_s: Seconds = Field(default=0.0, alias="duplicate")
    """Time that a task needs to drop a duplicate, where the guarantee is exactly-once."""
    allocation: Annotated[Allocation, BeforeValidator(_as_file, json_schema_input_type=Allocation | str)] = "even"
    """Which host holds which checkpoint: a method, or a table with the `plan` file."""
    maintenance: Maintenance | None = None
    """How the allocation follows the load in the run; without it the allocation of the start stays."""
    copies: Count = 1
    """Copies of each checkpoint."""
    staggered: bool = Field(default=False, strict=True)
    """Whether key groups are checkpointed one after the other instead of all at once."""
    replicas: ReadOnlyMap[ActiveReplica] = Field(default_factory=dict, validate_default=True)
    """Active replicas, under names of their own: they take over without a restore."""
    replica_plan: ReplicaPlanFile | None = None
    """Active replicas that a plan has chosen."""
    restart: Literal["anywhere", "own-hosts"] = "anywhere"
    """Where what is lost and has no replica goes on: on any live host, or only on hosts that are its own (at the start,
    or of its replica and the spares of that), once one of them is back. `own-hosts` needs a remote store.
    """
    remote_bytes_per_s: BytesPerSecond = Field(default=100e6, alias="remote")
    """Bandwidth of the remote store."""

    @property
    def takes_checkpoints(self) -> bool:
        """Return whether tasks take periodic checkpoints."""
        own = ("checkpoint", "synchronous-checkpoints", "region-restart", "micro-batch", "changelog")
        return self.method in (*own, "state-management") or self.trims_by_acks

    @property
    def rolls_back(self) -> bool:
        """Return whether the whole job, or a failover region of it, goes back to its checkpoints after a failure."""
        return self.method in ("synchronous-checkpoints", "region-restart")

    @property
    def job_checkpoints(self) -> Barriers | None:
        """Return how barriers take checkpoints of the whole job, or None where tasks take their own, or none are."""
        return self.barriers if self.takes_checkpoints else None

    @property
    def unaligned(self) -> bool:
        """Return whether barriers may overtake records, so that checkpoints have in-flight data."""
        return self.job_checkpoints is not None and self.job_checkpoints.unaligned

    @property
    def batches(self) -> MicroBatches | None:
        """Return how batches run, or None with another method."""
        return (self.micro_batches or MicroBatches()) if self.method == "micro-batch" else None

    @property
    def changelogs(self) -> Changelog | None:
        """Return what is kept of states, and where, or None with another method."""
        return (self.changelog or Changelog()) if self.method == "changelog" else None

    @property
    def completes_checkpoints(self) -> bool:
        """Return whether checkpoints count once all of a round are stored: with barriers, or at the end of a batch."""
        return self.job_checkpoints is not None or self.batches is not None

    @property
    def compacts(self) -> bool:
        """Return whether files of increments are merged now and then, and read one by one until then."""
        return self.job_checkpoints is not None and self.kind == "incremental" and self.compaction is not None

    @property
    def shares_restores(self) -> bool:
        """Return whether all tasks read the store at once, and each goes on once it has all of its state."""
        return self.job_checkpoints is not None and self.restores == "shared"

    @property
    def shares_uploads(self) -> bool:
        """Return whether all tasks that send snapshots to the store have equal shares of its rate."""
        at_once = self.completes_checkpoints or self.changelogs is not None
        return at_once and self.uploads == "shared"

    @property
    def aborts_checkpoints(self) -> bool:
        """Return whether checkpoints that are under way end with a failure."""
        return self.method == "region-restart"

    @property
    def rolls_back_together(self) -> bool:
        """Return whether all tasks that are connected go back to one checkpoint, which has no tuple under way."""
        return self.method == "region-restart" and self.job_checkpoints is not None and not self.unaligned

    @property
    def goes_back_once(self) -> bool:
        """Return whether they do, and each tuple counts once: key groups may then move without a second instance."""
        return self.rolls_back_together and self.guarantee == "exactly-once"

    @property
    def keeps_outputs(self) -> bool:
        """Return whether tasks keep their outputs until downstream has made sure of them, and can send them again."""
        return self.takes_checkpoints or self.kept_history is not None

    @property
    def divides_groups(self) -> bool:
        """Return whether lost key groups are divided among the live hosts, whoever holds their checkpoints."""
        dividing = ("state-management", "elastic-upstream-backup", "changelog")
        return self.method in dividing or self.kept_history is not None

    @property
    def kept_history(self) -> History | None:
        """Return for how long outputs are kept, or None with another method."""
        if self.replicates_all:
            return UNTIL_PROCESSED
        return (self.history or History()) if self.method in ("upstream-backup", "source-backup") else None

    @property
    def replicates_all(self) -> bool:
        """Return whether everything between sources and sinks has an active replica, without checkpoints."""
        return self.method == "active-replication"

    @property
    def sources_replay(self) -> bool:
        """Return whether sources alone keep the history; others keep what their receivers have not processed yet."""
        return self.method == "source-backup"

    @property
    def trims_by_acks(self) -> bool:
        """Return whether outputs are trimmed by rounds of acks, and only tasks with state take checkpoints."""
        return self.method == "elastic-upstream-backup"

    @property
    def acked_slices(self) -> Trimming | None:
        """Return how outputs are trimmed by acks, or None with another method."""
        return (self.trimming or Trimming()) if self.trims_by_acks else None

    @property
    def adjusting(self) -> Adjusting:
        """Return how operators get other tasks."""
        return self.adjustment or Adjusting()

    def saves(self, operator: Operator) -> bool:
        """Return whether the tasks of an operator send checkpoints somewhere."""
        inner = operator.kind not in ("source", "sink")
        return self.takes_checkpoints and inner and (operator.stateful or not self.trims_by_acks)

    def due(self, operator: Operator) -> bool:
        """Return whether the tasks of an operator have a turn in each round of checkpoints.

        Sinks have one, in which they acknowledge; where acks trim they do that at other times.
        """
        return self.saves(operator) or (operator.kind == "sink" and self.takes_checkpoints and not self.trims_by_acks)

    @property
    def acking(self) -> Acker | None:
        """Return how roots are followed, or None with another method."""
        return (self.acker or Acker()) if self.method == "acker" else None


class Detector(Description):
    """Hosts say that they live every `heartbeat`; one that was silent for `timeout` counts as dead.

    The processes of a host that fails are killed: their connections break, and heartbeats that ask for them are
    refused. Both can tell of the failure earlier (`connection`, `failed_calls`). A host that fails in silence, as its
    event says, tells nobody.

    Where heartbeats can be lost or late a host that lives can be silent for that long, too. It is then fenced: its
    tasks are stopped as if it had died, and it is back, empty, with its next heartbeat that arrives.
    """

    heartbeat_s: PositiveSeconds = Field(default=1.0, alias="heartbeat")
    """Time between two signs of life."""
    timeout_s: PositiveSeconds = Field(default=5.0, alias="timeout")
    """Silence after which a host counts as dead."""
    check_s: PositiveSeconds | None = Field(default=None, alias="check")
    """Time between two looks at who is silent: a host counts as dead at the first of them after its time-out. They are
    at multiples of it; without it there is no such wait."""
    loss: float = Field(default=0.0, ge=0, le=0.99, strict=True)
    """Probability that a heartbeat is lost."""
    delay: TimeDistribution | None = None
    """By how much a heartbeat is late; without it not at all."""
    failed_calls: Annotated[int, Field(strict=True, ge=0, le=10**9)] | None = None
    """Heartbeats in a row that are refused, after which a host counts as dead; without it, or with 0, only silence
    counts."""
    connection_s: Seconds | None = Field(default=None, alias="connection")
    """Time after which tasks notice broken connections: then the failure is detected, and what is lost with it ends.
    The host still counts until its time-out or `failed_calls`. Without it the failure is not detected before that."""

    returns: Literal["noticed", "unnoticed", "resumed"] = "noticed"
    """Effect of a return before the detection of a failure. `noticed`: the failure, at once;
    `unnoticed`: nothing, as it is a new member of its group, which waits until the old one counts as dead; `resumed`:
    nothing, as it is the same member, and goes on with what it had (static membership, with the method `changelog`)."""

    def patience_s(self, silent: bool) -> float:
        """Return the time from the last heartbeat of a host to when it counts as dead [s]."""
        return patience_s(self.heartbeat_s, self.timeout_s, self.failed_calls, silent)

    def notices_s(self, silent: bool) -> float:
        """Return the time after which broken connections tell of a failure [s]; infinite where they do not."""
        return inf if silent or self.connection_s is None else self.connection_s

    @property
    def errs(self) -> bool:
        """Return whether a host that lives can be silent for longer than between two heartbeats."""
        return self.loss > 0 or self.delay is not None

    @property
    def suspicions_per_s(self) -> float:
        """Return how often a host that lives is silent for too long, where heartbeats are lost and never late.

        A heartbeat that arrives is followed by k = floor(timeout / heartbeat) lost ones with probability loss^k.
        """
        if self.delay is not None or not self.loss:
            return 0.0
        k, q = floor(self.timeout_s / self.heartbeat_s * (1 + 1e-12)), self.loss
        return (1 - q) * q**k / self.heartbeat_s
