"""What a report says of designs, moves, placement and money, as plain values; see `content` for the whole page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval; None where nothing was seen, or where one value has no interval."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Curve:
    """Which share of all tuples took at least each time: `share` (n,) falls from 1 as `at_s` (n,) rises.

    `points` says that these few points are all that is known.
    """

    name: str
    at_s: np.ndarray
    share: np.ndarray
    points: bool = False


@dataclass(frozen=True)
class Design:
    """One design of a study or sweep: what its runs came to, by name of `MEASURES`.

    `failed` runs have no values. `tail` is the curve of its latency.
    """

    label: str
    allocation: str
    protocol: str
    runs: int
    values: Mapping[str, Interval] = field(default_factory=dict)
    failed: int = 0
    tail: Curve | None = None

    def of(self, measure: str) -> Interval:
        """The value of a measure, empty where nothing was seen."""
        return self.values.get(measure, Interval())


MEASURES = {
    "latency_mean_s": "latency, mean",
    "latency_p99_s": "latency, p99",
    "pause_s": "pause of a move, mean",
    "moves": "moves",
    "assisted_share": "assisted",
    "useable_share": "useable",
    "overhead_bytes_per_s": "overhead",
    "overhead_share": "overhead, share of network",
    "recovery_s": "recovery",
    "cost_usd": "cost",
}


@dataclass(frozen=True)
class MoveKind:
    """All moves of one kind, protocol and cause; `pause` is the mean over moves, with the interval over replications.

    Lengths [s] are None where no move has one. `unfinished` moves did not end before the run did.
    """

    kind: str
    protocol: str
    cause: str
    moves: int
    unfinished: int
    pause: Interval
    pause_p50_s: float | None
    pause_max_s: float | None
    completion_p50_s: float | None
    replayed: int


@dataclass(frozen=True)
class Looks:
    """What the adaptation manager found each time it looked (n,), or the sums over `together` looks in one.

    at_risk: key groups on overloaded hosts; useable: of them, those that fit where their checkpoint is; assisted,
    direct, drained: moves that were asked for.
    """

    at_s: np.ndarray
    at_risk: np.ndarray
    useable: np.ndarray
    assisted: np.ndarray
    direct: np.ndarray
    drained: np.ndarray
    together: int = 1
    replication: int = 0


@dataclass(frozen=True)
class PlacedGroup:
    """A key group on a host; `other` is the host it went to or came from, empty where it stayed."""

    operator: str
    key_group: int
    other: str = ""


@dataclass(frozen=True)
class PlacedHost:
    """A host before and after; loads are shares of its CPU, None where nobody looked."""

    name: str
    before: tuple[PlacedGroup, ...]
    after: tuple[PlacedGroup, ...]
    load_before: float | None = None
    load_after: float | None = None


@dataclass(frozen=True)
class Moved:
    """Where key groups were at the start and at the end of one replication; `span_s` is what loads are means over."""

    hosts: tuple[PlacedHost, ...]
    operators: tuple[str, ...]
    moved: int
    span_s: float | None = None
    replication: int = 0


@dataclass(frozen=True)
class CostRow:
    """What hosts of one description cost; `used_s` is the sum over them of the time in use."""

    hosts: str
    count: int
    used_s: float
    price_per_h: float | None
    cost: float | None


@dataclass(frozen=True)
class Cost:
    """What a run cost: the mean over replications. `per_million` is for as many tuples at the sinks."""

    rows: tuple[CostRow, ...]
    total: float | None
    per_hour: float | None
    per_million: float | None
    currency: str = "USD"
