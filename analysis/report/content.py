"""Values that pages show and no summary has: topology, loads, allocations, lines over time, decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


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
    """The result of one method of checkpoint allocation; shares are in [0, 1].

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
class Decision:
    """A decision of control with its time [s] and reason; `about` is the kind of thing that it is about."""

    at_s: float
    what: str
    why: str
    replication: int = 0
    about: str = ""
    action: str = ""
