"""Values that pages show of designs, load checks, placement, cost and claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from analysis.runs.undone_moves import UndoneMoves
from analysis.statistics import Mean


@dataclass(frozen=True)
class Curve:
    """A complementary distribution function: the `share` (n,) of tuples that took at least `at_s` (n,), both sorted.

    `points` says that these few points are all that is known.
    """

    name: str
    at_s: np.ndarray
    share: np.ndarray
    points: bool = False


@dataclass(frozen=True)
class Change:
    """The difference of a design to the first one in a measure, with its 95 % interval.

    `difference` is in the unit of the measure. `relative` is the same as text: in per cent of the first mean, or in the
    unit if that mean is zero. `shown` is lower, higher, equal or unclear.
    """

    difference: Mean
    relative: str
    shown: str


@dataclass(frozen=True)
class Design:
    """One design of a study or sweep: what its runs came to, by the name of a measure.

    `failed` runs have no values; `undone_moves` says in how many of the others moves were not done. `latency_ccdf` is
    the curve of its latency. `changes` say by measure how it differs from the first design.
    """

    label: str
    allocation: str
    protocol: str
    runs: int
    values: Mapping[str, Mean] = field(default_factory=dict)
    failed: int = 0
    latency_ccdf: Curve | None = None
    unfinished_recoveries: int = 0
    undone_moves: UndoneMoves = field(default_factory=UndoneMoves)
    changes: Mapping[str, Change] = field(default_factory=dict)

    def of(self, measure: str) -> Mean:
        """Return the value of a measure, empty where nothing was seen."""
        return self.values.get(measure, Mean())


@dataclass(frozen=True)
class LoadChecks:
    """Checks of the load by the adaptation manager (n,), each the sum of `together` ones.

    at_risk: key groups on overloaded hosts; usable: of them, those that fit where their checkpoint is; assisted,
    direct, drained: moves that were asked for.
    """

    at_s: np.ndarray
    at_risk: np.ndarray
    usable: np.ndarray
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
    """A host before and after; loads are shares of its CPU, None where nobody checked."""

    name: str
    before: tuple[PlacedGroup, ...]
    after: tuple[PlacedGroup, ...]
    load_before: float | None = None
    load_after: float | None = None


@dataclass(frozen=True)
class PlacementChange:
    """Key groups by host at the start and at the end of one replication; loads are means over `span_s`.

    `operators` gives the order of colours; `moved` counts key groups whose host at the end is another.
    """

    hosts: tuple[PlacedHost, ...]
    operators: tuple[str, ...]
    moved: int
    span_s: float | None = None
    replication: int = 0


@dataclass(frozen=True)
class CostRow:
    """The cost of hosts of one description; `used_s` is the sum over them of the time in use.

    `hosts` is the name of the description in the scenario, `count` how many hosts it stands for; prices and costs are
    in USD.
    """

    hosts: str
    count: int
    used_s: float
    price_per_h: float | None
    cost: float | None


@dataclass(frozen=True)
class Cost:
    """The cost of a run, the mean over replications; `per_million` is for as many tuples at the sinks."""

    rows: tuple[CostRow, ...]
    total: float | None
    per_hour: float | None
    per_million: float | None
    currency: str = "USD"


@dataclass(frozen=True)
class Chart:
    """Curves over one number: `values` (n_names, n) over `x` (n,), NaN where there is nothing.

    `marks` (n_names, n): the same by another way, drawn as marks beside the lines; `marked` says what they are.
    `caption` says what to see. `x_unit`: unit of x, where it is another one than that of the values; empty for a count.
    `digits`: decimals of the values. `from_zero`: whether the axis of the values begins at zero. `log`: whether both
    axes are logarithmic, `log_values`: that of the values; then values are times [s].
    """

    name: str
    title: str
    x_axis: str
    y_axis: str
    unit: str
    x: np.ndarray
    names: tuple[str, ...]
    values: np.ndarray
    caption: str = ""
    marks: np.ndarray | None = None
    marked: str = ""
    x_unit: str | None = None
    digits: int = 2
    from_zero: bool = False
    log: bool = False
    log_values: bool = False


@dataclass(frozen=True)
class ClaimRow:
    """A claim of a paper beside our value, and whether it holds; None where nobody tried.

    The fields have order and names of an entry of the document that `holdfast reproduce --json` prints.
    """

    study: str
    claim: str
    text: str
    role: str
    paper: str
    ours: str | None
    tolerance: str
    holds: bool | None
    cause: str = ""
