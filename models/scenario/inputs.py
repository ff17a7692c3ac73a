"""Inputs of a run besides its scenario: recorded rates, and which host holds which checkpoint.

`compare` is for the maintenance of checkpoint allocations: the statistics of a run, a fresh plan from them, and the
moves that pay. The score of an allocation is the sum of its costs, c[j, n] for checkpoint j on node n. Maintenance
compares the score of the allocation as it is with that of a fresh one; while the difference is more than theta times
the fresh score (its magnitude: scores can be negative), the checkpoints move whose moves improve the score most.
Source: "Comparison" in docs/explanation/maintenance.md.

Which engine does the steps of the tuples (`Engine`) is an input, too; rows do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.errors import InputError
from models.validation_messages import similar


@dataclass(frozen=True, eq=False)
class LoadHistory:
    """The load that the control plane has seen so far; nothing of the future. Arrays are read-only.

    With G key groups and N nodes: `names`: (operator, key group) of each key group. `tuples` (G, windows): that came
    for each in each period. `work_s` (G,): mean work for one tuple at speed 1 [s]. `window_s`: length of a period.
    `host` (G,): node of each key group. `capacity` (N,): cores times speed of each node. `outside` (N,): share of it
    that others and all that is no key group took. `takes` (N,): whether the node may hold checkpoints.
    """

    names: tuple[tuple[str, int], ...]
    tuples: IntArray
    work_s: FloatArray
    window_s: float
    host: IntArray
    capacity: FloatArray
    outside: FloatArray
    takes: BoolArray

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def load(self) -> FloatArray:
        """Return the mean load of each key group in each period, (G, windows) [cores of speed 1]."""
        found: FloatArray = self.tuples * (self.work_s / self.window_s)[:, None]
        return found


@dataclass(frozen=True, eq=False)
class FreshAllocation:
    """A plan from a history: node of each checkpoint (G,), and the cost of each pair (G, N)."""

    assignment: IntArray
    cost: FloatArray


Planner = Callable[[LoadHistory], FreshAllocation | None]
"""Plans afresh; None where there is no plan. A pure function, and one that another process can be given."""


@dataclass(frozen=True)
class Relocation:
    """A move of a checkpoint from one node to another, which improves the score by `gain`; indices into the costs."""

    checkpoint: int
    origin: int
    target: int
    gain: float


@dataclass(frozen=True)
class Comparison:
    """Scores of the present and of a fresh allocation, and the moves that bring them close.

    `difference`: by how much the present score is worse. `left`: the difference after the moves. `moves`: largest gain
    first.
    """

    current: float
    fresh: float
    difference: float
    left: float
    moves: tuple[Relocation, ...]


def compare(cost: FloatArray, current: IntArray, fresh: IntArray, theta: float) -> Comparison:
    """Return the fewest moves after which the score exceeds the fresh one by at most theta times its magnitude.

    `cost` (J, N): cost of checkpoint j on node n. `current`, `fresh` (J,): nodes. `theta`: at least 0. The largest
    gains go first, ties by the first checkpoint. Once all positive gains have been taken, the score is not worse than
    the fresh one.

    >>> cost = np.array([[0.0, 4.0], [1.0, 0.0], [0.0, 1.0]])
    >>> found = compare(cost, current=np.array([1, 0, 1]), fresh=np.array([0, 1, 0]), theta=0.0)
    >>> found.difference, [(move.checkpoint, move.target, move.gain) for move in found.moves]
    (6.0, [(0, 0, 4.0), (1, 1, 1.0), (2, 0, 1.0)])
    """
    rows = np.arange(len(current))
    now, then = cost[rows, current], cost[rows, fresh]
    gain = now - then
    order = np.argsort(-gain, kind="stable")
    ordered = gain[order].tolist()
    score = math.fsum(then.tolist())
    count = _enough(ordered, theta * abs(score))
    moves = tuple(Relocation(int(j), int(current[j]), int(fresh[j]), float(gain[j])) for j in order[:count].tolist())
    return Comparison(math.fsum(now.tolist()), score, math.fsum(ordered), math.fsum(ordered[count:]), moves)


def _enough(gains: list[float], limit: float) -> int:
    """Return the fewest leading gains to take, so that the sum of the others is at most the limit.

    `gains` falls; without its positive entries the sum is not above zero, so there is an answer.
    """
    # Bisection: the sum of the others falls with the count as long as gains are positive. fsum, so that ties do not
    # depend on the order of summation.
    low, high = 0, sum(gain > 0 for gain in gains)
    while low < high:
        middle = (low + high) // 2
        if math.fsum(gains[middle:]) <= limit:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True)
class RateSeries:
    """A rate that is constant within bins, and how likely each key is in each bin.

    `edges_s` (bins + 1,) rises from 0 [s]; bin b is [edges_s[b], edges_s[b + 1]). `rate_per_s` (bins,). `key_weights`
    (keys, bins), or None where the workload draws its keys from a distribution. After the last edge the rate is zero.

    Raises ValueError if the edges do not rise, or their number does not fit. Arrays are made read-only.
    """

    edges_s: np.ndarray
    rate_per_s: np.ndarray
    key_weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.edges_s.size != self.rate_per_s.size + 1 or not np.all(np.diff(self.edges_s) > 0):
            raise ValueError("edges_s must rise and have one entry more than rate_per_s")
        for array in (self.edges_s, self.rate_per_s, self.key_weights):
            if array is not None:
                array.setflags(write=False)


class Configuration(NamedTuple):
    """From a time on, key groups have these tasks, all others those of before: a line of a migration file.

    `owners`: pairs of a key group and a task of its operator, both from 0; `time_ns` counts from the start of the run.
    """

    time_ns: int
    owners: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class RunInputs:
    """All that a run needs besides its scenario, read from the files that the scenario names; empty by default.

    `rates`: source -> recorded rate. `shares`: stream of a profile -> share of its tuples. `checkpoint_hosts`:
    (operator, key group) -> host that holds its checkpoint at the start. `planner` plans afresh in the run, where
    `fault_tolerance.maintenance` asks for it. `steps`: event `reconfigure` with the strategy `optimised` -> step of
    each of its moves (`models.planning.reconfiguration`). `configurations`: event `reconfigure` with a file -> its
    lines.
    """

    rates: Mapping[str, RateSeries] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    checkpoint_hosts: Mapping[tuple[str, int], str] = field(default_factory=dict)
    planner: Planner | None = None
    steps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    configurations: Mapping[str, tuple[Configuration, ...]] = field(default_factory=dict)


Engine = Literal["auto", "compiled", "plain"]
"""`compiled`: the fastest that can do what the scenario asks for. `plain`: one event at a time, to be read. `auto`: as
`compiled`, but a short run that nothing is compiled for yet is made by the plain one."""

ENGINES: tuple[str, ...] = get_args(Engine)


def engine_of(name: str, path: str = "engine") -> Engine:
    """Return the engine of that name; raises InputError, under the path, for a name that there is not."""
    if name not in ENGINES:
        raise InputError.at(path, name, "must be one of " + ", ".join(ENGINES), similar(str(name), ENGINES))
    return cast(Engine, name)
