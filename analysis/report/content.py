"""What a report says, as plain values: a section that is None or empty is left out of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from analysis.report.parts import Chart, ClaimRow, Cost, Curve, Design, Grid, LoadChecks, Moved, MoveKind


@dataclass(frozen=True)
class Fact:
    """A label and its value as the reader shall see it; `good` marks it (None: neither good nor bad).

    `note` stands below, beside the mark if there is one, as in "target met".
    """

    label: str
    value: str
    good: bool | None = None
    note: str = ""


@dataclass(frozen=True)
class OperatorBox:
    """One operator of the topology picture."""

    name: str
    kind: str
    parallelism: int
    key_groups: int | None = None


@dataclass(frozen=True)
class Edge:
    """A stream between two operators; `rate_per_s` is the expected one."""

    source: str
    target: str
    partitioning: str
    rate_per_s: float | None = None


@dataclass(frozen=True)
class Topology:
    """The dataflow, and which tasks start on which host."""

    operators: tuple[OperatorBox, ...]
    edges: tuple[Edge, ...]
    placement: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyGroupLoad:
    """Load of one stream: `counts` (n_groups, n_bins) tuples; bin k begins at k `bin_s`, counted from
    `start`.
    """

    stream: str
    counts: np.ndarray
    bin_s: float
    start: str = ""


@dataclass(frozen=True)
class Correlation:
    """Correlation of load series: `values` (n, n) in [-1, 1]; `blocks` are names and sizes in order of
    rows.
    """

    values: np.ndarray
    blocks: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class AllocationRow:
    """What one method of checkpoint allocation reached; shares are in [0, 1].

    `max_node_load` is in cores. `recovery_s` and `latency_p99_s` are those of a run with its plan.
    """

    method: str
    status: str
    objective: float | None
    bound: float | None
    gap: float | None
    usable: float | None = None
    assisted: float | None = None
    max_node_load: float | None = None
    recovery_s: float | None = None
    latency_p99_s: float | None = None
    used: bool = False


@dataclass(frozen=True)
class Reason:
    """A choice, what was chosen, and why not something else."""

    what: str
    chosen: str
    why: str


@dataclass(frozen=True)
class Latency:
    """Latency per interval [s] by time of delivery [s] in one replication; NaN where nothing was."""

    at_s: np.ndarray
    p50_s: np.ndarray
    p99_s: np.ndarray
    max_s: np.ndarray
    interval_s: float = 1.0
    replication: int = 0


@dataclass(frozen=True)
class Lines:
    """One line for each name: `values` (n_names, n) over `at_s` (n,), in one replication."""

    at_s: np.ndarray
    names: tuple[str, ...]
    values: np.ndarray
    replication: int = 0


@dataclass(frozen=True)
class CheckpointCounts:
    """Counts of the checkpoints of an operator or host; the time is None where it is not known."""

    name: str
    begun: int
    completed: int
    late: int
    skipped: int
    longest_s: float | None = None


@dataclass(frozen=True)
class RecordDelay:
    """Records that left the link of a host, and by how much those were late that uploads delayed [s]."""

    host: str
    carried: int
    records: int
    mean_s: float
    max_s: float


@dataclass(frozen=True)
class Uploads:
    """Late and skipped checkpoints, and what they cost; ages [s] are those of checkpoints that recoveries used.

    `over_time` is the mean delay [ms] by host, without `left_out` hosts; `bounded` says whether a link has a bandwidth.
    """

    interval_s: float
    longest_between_s: float | None
    age_mean_s: float | None
    age_max_s: float | None
    operators: tuple[CheckpointCounts, ...]
    hosts: tuple[CheckpointCounts, ...]
    delayed: tuple[RecordDelay, ...]
    over_time: Lines | None
    sharing: str
    bounded: bool
    left_out: int = 0


@dataclass(frozen=True)
class Migration:
    """What became of the move of a key group; lengths [s] are None for what did not end."""

    key_group: str
    protocol: str
    origin: str
    target: str
    requested_s: float
    pause_s: float | None
    completion_s: float | None
    worst_s: float | None
    replayed: int
    replication: int = 0
    cause: str = "event"
    kind: str = ""  # assisted or direct


@dataclass(frozen=True)
class Decision:
    """What control decided, when [s] and why; `about` is the kind of thing that it is about."""

    at_s: float
    what: str
    why: str
    replication: int = 0
    about: str = ""
    action: str = ""


@dataclass(frozen=True)
class ReplicaRow:
    """One active replica: in step with its owner from an instant to another [s], and the pause [s] if it took over."""

    of: str
    host: str
    from_s: float | None
    until_s: float | None
    end: str
    pause_s: float | None
    replication: int = 0


@dataclass(frozen=True)
class Recovery:
    """The phases of one recovery [s]; None for what did not end."""

    host: str
    failed_s: float
    detect_s: float | None
    restore_s: float | None
    replay_s: float | None
    catch_up_s: float | None
    total_s: float | None
    replication: int = 0
    suspected: bool = False  # it lived, and was fenced

    def ends(self) -> tuple[tuple[str, float, float], ...]:
        """(phase, begin, end) [s] of the phases that ended."""
        begin, found = self.failed_s, []
        for phase in ("detect", "restore", "replay", "catch_up"):
            length = getattr(self, f"{phase}_s")
            if length is None:
                break
            found.append((phase, begin, begin + length))
            begin += length
        return tuple(found)


@dataclass(frozen=True)
class Guarantee:
    """The delivery guarantee, and how many tuples were lost or duplicated at sinks and in state."""

    guarantee: str
    lost: int | None
    duplicated: int | None
    state_lost: int | None
    state_duplicated: int | None


@dataclass(frozen=True)
class TargetRow:
    """A target as the reader shall see it: its highest value, what came out, and whether it is met (None: unknown)."""

    name: str
    limit: str
    value: str
    met: bool | None


@dataclass(frozen=True)
class OperatorRow:
    """One line of the summary; times in seconds."""

    name: str
    processed: int | None
    wait_mean_s: float | None
    wait_p99_s: float | None
    sojourn_mean_s: float | None
    sojourn_p99_s: float | None
    queue_mean: float | None
    utilisation: float | None


@dataclass(frozen=True)
class ReportContent:
    """All that a page shows.

    `question` is one sentence, and `answer` sentences that answer it; `facts` say what was asked, `headline` what came
    out.
    """

    title: str
    question: str
    answer: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    headline: tuple[Fact, ...] = ()
    topology: Topology | None = None
    loads: tuple[KeyGroupLoad, ...] = ()
    correlation: Correlation | None = None
    allocation: tuple[AllocationRow, ...] = ()
    reasons: tuple[Reason, ...] = ()
    latency: Latency | None = None
    throughput: Lines | None = None
    queue: Lines | None = None
    lag: Lines | None = None
    filled: Lines | None = None  # [%] of the places of the fullest bounded queue
    blocked: Lines | None = None  # [%] of the time
    hosts: Lines | None = None  # [%] of the CPU of each host that is used
    migrations: tuple[Migration, ...] = ()
    move_kinds: tuple[MoveKind, ...] = ()
    load_checks: LoadChecks | None = None
    moved: Moved | None = None
    designs: tuple[Design, ...] = ()
    latency_ccdfs: tuple[Curve, ...] = ()
    cost: Cost | None = None
    hosts_used: Lines | None = None  # how many hosts are in use
    decisions: tuple[Decision, ...] = ()
    uploads: Uploads | None = None
    recoveries: tuple[Recovery, ...] = ()
    replicas: tuple[ReplicaRow, ...] = ()
    replicas_said: str = ""
    guarantee: Guarantee | None = None
    targets: tuple[TargetRow, ...] = ()
    operators: tuple[OperatorRow, ...] = ()
    claims: tuple[ClaimRow, ...] = ()
    charts: tuple[Chart, ...] = ()
    grids: tuple[Grid, ...] = ()
    assumptions: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    command: str = ""

    @property
    def operator_order(self) -> tuple[str, ...]:
        """The operators in the order of the file, which gives each its colour."""
        boxes = self.topology.operators if self.topology is not None else ()
        drawn = self.throughput.names if self.throughput is not None else ()
        return tuple(dict.fromkeys((*(box.name for box in boxes), *drawn)))

    @property
    def host_order(self) -> tuple[str, ...]:
        """The hosts in the order of the file, by group."""
        return tuple(self.topology.placement) if self.topology is not None else ()
