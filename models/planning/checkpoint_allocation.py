"""Which node stores which checkpoint: the problem and its answer.

Checkpoint j (0 .. J-1) goes to one node n (0 .. N-1) at cost c[j, n] and puts load l[j, n] there:

    minimise   sum c[j, n] x[j, n]
    subject to sum_n x[j, n] = 1;  x[j, n] = 0 for forbidden pairs;  x[a, n] + x[b, n] <= 1 for anti-affinity pairs
               capacity_min[n] <= sum_j l[j, n] x[j, n] <= capacity[n]
               at most max_moves checkpoints leave their current node

Source: Madsen and Zhou, CIKM 2015, section on checkpoint allocation (docs/explanation/checkpoint-allocation.md).
Several copies of one checkpoint are several rows, pairwise in `anti_affinity`.

Costs may come from the correlation of key-group loads:

c[j, n] = l[j] * mean over the key groups h on node n of r(g(j), h): a checkpoint is cheap on a node whose
key groups have spare capacity when its own key group needs it. [Madsen and Zhou, CIKM 2015] leave open how pairs
are combined: here it is by their mean. An empty node and a constant series have correlation 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from models import display
from models.checked_arrays import BoolArray, CheckedArrays, FloatArray, IntArray, freeze_fields, frozen
from models.errors import raise_if_any
from models.planning.solution import Solution

LOAD_TOLERANCE = 1e-9  # relative: a node load counts as within its capacity up to capacity * (1 + LOAD_TOLERANCE)


def _no_pairs() -> IntArray:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CheckpointAllocation:
    """One allocation problem, checked on construction; arrays are read-only.

    `cost` (J, N). `load` (J,) or (J, N), not negative. `capacity`, `capacity_min` (N,) or None. `forbidden` (F, 2):
    pairs [checkpoint, node]. `anti_affinity` (A, 2): pairs of checkpoints that are never on one node. `group` (J,): the
    operator of each checkpoint (for `even`), or None. `current` (J,): node of each checkpoint now, or None.
    `max_moves`: how many may leave it, or None.

    A float32 `cost` is kept as it is (all else is float64): its entries are exact, sums and differences of them are
    taken in float64.

    Raises InputError with every fault found.

    >>> from holdfast import CheckpointAllocation
    >>> problem = CheckpointAllocation(cost=[[1, 2], [1, 3]], load=[2, 2], capacity=[3, 3])  # one checkpoint on a node
    >>> problem.n_checkpoints, problem.n_nodes
    (2, 2)
    """

    cost: FloatArray
    load: FloatArray
    capacity: FloatArray | None = None
    capacity_min: FloatArray | None = None
    forbidden: IntArray = field(default_factory=_no_pairs)
    anti_affinity: IntArray = field(default_factory=_no_pairs)
    group: tuple[str | int, ...] | None = None
    current: IntArray | None = None
    max_moves: int | None = None

    def __post_init__(self) -> None:
        check = CheckedArrays()
        # float32 stays: half the memory of the largest array, and its entries are exact numbers.
        cost = check.floats("cost", self.cost, (None, None), single=True)
        if cost is not None and 0 in cost.shape:
            check.add("cost", cost.shape, "must have at least one checkpoint and one node")
        shape = (None, None) if cost is None else cost.shape
        check.store(self, {"cost": cost, **self._checked_fields(check, *shape)})

    def _checked_fields(self, check: CheckedArrays, j: int | None, n: int | None) -> dict[str, Any]:
        """Return all fields but the cost by name, of sizes `j` and `n`, or of any where these are None."""
        found: dict[str, Any] = {"load": check.floats("load", self.load, (j,), (j, n), low=0.0)}
        for name in ("capacity", "capacity_min"):
            value = getattr(self, name)
            found[name] = None if value is None else check.floats(name, value, (n,), low=0.0)
        low, high = found["capacity_min"], found["capacity"]
        if low is not None and high is not None and low.shape == high.shape and (low > high).any():
            at = int(np.argmax(low > high))
            check.add(
                f"capacity_min[{at}]", float(low[at]), f"must not exceed capacity[{at}] = {display.number(high[at], 6)}"
            )
        found["forbidden"] = check.indices("forbidden", self.forbidden, (None, 2), (j, n))
        found["anti_affinity"] = check.indices("anti_affinity", self.anti_affinity, (None, 2), (j, j))
        if found["anti_affinity"] is not None and (found["anti_affinity"][:, 0] == found["anti_affinity"][:, 1]).any():
            at = int(np.argmax(found["anti_affinity"][:, 0] == found["anti_affinity"][:, 1]))
            check.add(
                f"anti_affinity[{at}]", found["anti_affinity"][at].tolist(), "must name two different checkpoints"
            )
        found["group"] = _labels(check, self.group, j)
        found["current"] = None if self.current is None else check.indices("current", self.current, (j,), (n,))
        found["max_moves"] = self._checked_moves(check)
        return found

    def _checked_moves(self, check: CheckedArrays) -> int | None:
        """Return the limit on moves as a Python integer; it needs the current assignment."""
        moves = self.max_moves
        if moves is None:
            return None
        if isinstance(moves, bool) or not isinstance(moves, (int, np.integer)):
            check.add("max_moves", moves, "must be a whole number or null")
            return None
        # Up to 2^53 a whole number passes through JSON and float64 unchanged.
        if not 0 <= moves < 2**53:
            check.add("max_moves", int(moves), "must be at least 0, and below 2^53")
        if self.current is None:
            check.add("max_moves", int(moves), "needs the current assignment", "give `current` as well")
        return int(moves)

    @property
    def n_checkpoints(self) -> int:
        """Return J, the number of checkpoints (each copy counts)."""
        return int(self.cost.shape[0])

    @property
    def n_nodes(self) -> int:
        """Return N, the number of nodes."""
        return int(self.cost.shape[1])

    @cached_property
    def weights(self) -> FloatArray:
        """Return the load of checkpoint j on node n, (J, N); a view when loads do not depend on the node."""
        # A view: a matrix of equal columns would take as much memory as the costs.
        return self.load if self.load.ndim == 2 else np.broadcast_to(self.load[:, None], self.cost.shape)

    @cached_property
    def allowed(self) -> BoolArray:
        """Return True where the pair (checkpoint, node) is not forbidden, (J, N)."""
        allowed = np.ones(self.cost.shape, dtype=np.bool_)
        allowed[self.forbidden[:, 0], self.forbidden[:, 1]] = False
        allowed.setflags(write=False)
        return allowed

    @cached_property
    def load_fits_everywhere(self) -> bool:
        """Return True when no single load exceeds any capacity."""
        return self.capacity is None or float(self.load.max()) <= float(self.upper.min())

    @cached_property
    def upper(self) -> FloatArray:
        """Return the largest node loads that count as within capacity, (N,); infinite without a capacity."""
        if self.capacity is None:
            return np.full(self.n_nodes, np.inf)
        # The tolerance is part of the problem, so that solvers and verifiers mean the same by "fits".
        return self.capacity * (1 + LOAD_TOLERANCE)

    @cached_property
    def lower(self) -> FloatArray:
        """Return the smallest node loads that count as at least capacity_min, (N,); zero without one."""
        if self.capacity_min is None:
            return np.zeros(self.n_nodes)
        return self.capacity_min * (1 - LOAD_TOLERANCE)

    @cached_property
    def neighbours(self) -> dict[int, tuple[int, ...]]:
        """Return, for each checkpoint with an anti-affinity pair, those it must not share a node with."""
        found: dict[int, set[int]] = {}
        for a, b in self.anti_affinity.tolist():
            found.setdefault(a, set()).add(b)
            found.setdefault(b, set()).add(a)
        return {j: tuple(sorted(found[j])) for j in sorted(found)}

    @cached_property
    def group_codes(self) -> IntArray:
        """Return the operator of each checkpoint as 0, 1, .. by first appearance, (J,); zeros without groups."""
        if self.group is None:
            return np.zeros(self.n_checkpoints, dtype=np.int64)
        codes: dict[str | int, int] = {}
        return frozen(np.array([codes.setdefault(label, len(codes)) for label in self.group], dtype=np.int64))

    def objective(self, assignment: IntArray) -> float:
        """Return the total cost of an assignment (J,), correctly rounded; unassigned (-1) adds nothing."""
        # math.fsum: solver and verifier get the same value, in whatever order they place checkpoints.
        placed = np.flatnonzero(assignment >= 0)
        return math.fsum(self.cost[placed, assignment[placed]].tolist())

    def node_loads(self, assignment: IntArray) -> FloatArray:
        """Return the load that an assignment (J,) puts on each node, (N,)."""
        placed = np.flatnonzero(assignment >= 0)
        at = assignment[placed]
        return np.bincount(at, weights=self.weights[placed, at], minlength=self.n_nodes).astype(np.float64)

    def overloads(self, assignment: IntArray) -> tuple[Overload, ...]:
        """Return the nodes whose load exceeds their capacity, in node order."""
        loads = self.node_loads(assignment)
        if self.capacity is None:
            return ()
        return tuple(
            Overload(int(n), float(loads[n]), float(self.capacity[n])) for n in np.flatnonzero(loads > self.upper)
        )

    def moves(self, assignment: IntArray) -> int:
        """Return how many checkpoints an assignment takes away from their current node; 0 without a current one."""
        return 0 if self.current is None else int((assignment != self.current).sum())


@dataclass(frozen=True)
class Overload:
    """One node whose load exceeds its capacity."""

    node: int
    load: float
    capacity: float


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckpointPlan(Solution):
    """An answer: node of each checkpoint (J,), -1 = nowhere; None when there is no answer.

    `method`: which solver made it. `violations` lists in words the constraints it breaks: a plan that breaks one is
    never called feasible. `prices` (N,) or `multipliers` (J,) certify the bound: `optimizer.verify` computes it from
    them and the problem.

    >>> from holdfast import CheckpointAllocation, plan_checkpoints
    >>> plan = plan_checkpoints(CheckpointAllocation(cost=[[1, 2], [1, 3]], load=[2, 2], capacity=[3, 3]))
    >>> plan.assignment.tolist(), plan.objective, plan.bound, plan.gap
    ([1, 0], 3.0, 3.0, 0.0)
    """

    assignment: IntArray | None = None
    method: str = ""
    violations: tuple[str, ...] = ()
    prices: FloatArray | None = None  # (N,), that prove the bound or a lower one; a later plan may start from them
    multipliers: FloatArray | None = None  # (J,), that prove the bound where prices do not

    def __post_init__(self) -> None:
        freeze_fields(self, np.int64, "assignment")


def _labels(check: CheckedArrays, group: Any, j: int | None) -> tuple[str | int, ...] | None:
    """Return the operator of each checkpoint as a tuple; None without groups, or with a fault."""
    if group is None:
        return None
    labels = group.tolist() if isinstance(group, np.ndarray) else group
    if not isinstance(labels, (list, tuple)):
        check.add("group", group, "must be a list with one operator per checkpoint, or null")
        return None
    for index, label in enumerate(labels):
        if isinstance(label, bool) or not isinstance(label, (str, int)):
            check.add(f"group[{index}]", label, "must be an operator's name or number")
            return None
    if j is not None and len(labels) != j:
        check.add("group", len(labels), f"must have one entry per checkpoint, that is {j}")
    return tuple(labels)


def node_correlation(
    correlation: FloatArray,
    host: Any,
    n_nodes: int,
    *,
    zero_below: float = 0.0,
    tie_band: float = 0.0,
) -> FloatArray:
    """Return the mean correlation of each key group with the key groups on each node, (G, N).

    `correlation` (G, G): of the load series, symmetric. `host` (G,): node of each key group, 0 .. n_nodes - 1. Pairs
    with |r| < `zero_below` count as 0 (noise). With `tie_band` > 0 every node within best + tie_band counts as exactly
    the best, so that the tie rule "lowest checkpoint load" acts; best = the smallest value away from home. Raises
    InputError.

    >>> r = np.array([[1.0, -0.5, 0.2], [-0.5, 1.0, 0.0], [0.2, 0.0, 1.0]])
    >>> node_correlation(r, host=[0, 1, 1], n_nodes=2).tolist()
    [[1.0, -0.15], [-0.5, 0.5], [0.2, 0.5]]
    """
    check = CheckedArrays()
    r = check.floats("correlation", correlation, (None, None))
    groups = None if r is None else len(r)
    at = check.indices("host", host, (groups,), (n_nodes,))
    if r is not None and r.shape[0] != r.shape[1]:
        check.add("correlation", r.shape, "must be square: one row and one column per key group")
    if r is not None and (np.abs(r) > 1 + 1e-9).any():
        check.add("correlation", float(r.flat[int(np.argmax(np.abs(r)))]), "must lie between -1 and 1")
    for name, value in (("zero_below", zero_below), ("tie_band", tie_band)):
        if not 0 <= value < math.inf:
            check.add(name, value, "must be at least 0")
    raise_if_any(check.faults)
    assert r is not None and at is not None
    # Noise counts as none: small correlations of short series would decide by chance.
    r = np.where(np.abs(r) < zero_below, 0.0, r)
    counts = np.bincount(at, minlength=n_nodes)
    # Sums by node over the key groups there; a node without any has correlation 0 with everything.
    sums = np.zeros((n_nodes, len(r)))
    np.add.at(sums, at, r.T)
    rho: FloatArray = (sums / np.maximum(counts, 1)[:, None]).T
    return _tied(rho, at, tie_band) if tie_band > 0 and n_nodes > 1 else rho


def allocation_from_correlation(
    correlation: FloatArray,
    load: FloatArray,
    host: Any,
    n_nodes: int,
    *,
    copies: int = 1,
    kappa: float = math.inf,
    group: Any = None,
    zero_below: float = 0.0,
    tie_band: float = 0.0,
) -> CheckpointAllocation:
    """Return the allocation problem of all key groups' checkpoints, home nodes forbidden.

    `correlation` (G, G), `host` (G,), `n_nodes`, `zero_below` and `tie_band` as for `node_correlation`. `load` (G,):
    mean load of the key groups. `copies`: checkpoints per key group, on different nodes; those of key group g are the
    rows g * copies .. g * copies + copies - 1. With a finite `kappa` every node may store at most (1 + kappa) * copies
    * sum(load) / N (constraint 2). `group` (G,): the operator of each key group, for `even`. Raises InputError.
    """
    check = CheckedArrays()
    loads = check.floats("load", load, (len(correlation),), low=0.0)
    if isinstance(copies, bool) or not isinstance(copies, int) or copies < 1:
        check.add("copies", copies, "must be a whole number, at least 1")
    if not kappa >= 0:
        check.add("kappa", kappa, "must be at least 0")
    raise_if_any(check.faults)
    assert loads is not None
    rho = node_correlation(correlation, host, n_nodes, zero_below=zero_below, tie_band=tie_band)
    # One row for each copy: copies of a key group have equal costs, and must be on different nodes.
    row = np.repeat(np.arange(len(rho)), copies)
    homes = np.asarray(host, dtype=np.int64)[row]
    # (1 + kappa) times the mean load of a node, over all copies.
    capacity = np.full(n_nodes, (1 + kappa) * copies * math.fsum(loads.tolist()) / n_nodes)
    return CheckpointAllocation(
        cost=(rho * loads[:, None])[row],
        load=loads[row],
        capacity=capacity if math.isfinite(kappa) else None,
        forbidden=np.column_stack([np.arange(len(row)), homes]),
        anti_affinity=_pairs_of_copies(len(rho), copies),
        group=None if group is None else tuple(np.asarray(group)[row].tolist()),
    )


def _tied(rho: FloatArray, home: Any, band: float) -> FloatArray:
    """Return the correlations (G, N) with all nodes near the best one as good as it."""
    # The home node is forbidden for the checkpoint, so it must not be the best one.
    away = rho.copy()
    away[np.arange(len(rho)), home] = np.inf
    best = away.min(axis=1, keepdims=True)
    return np.where(away <= best + band, best, rho)


def _pairs_of_copies(groups: int, copies: int) -> Any:
    """Return the pairs of rows, (pairs, 2), that are copies of one checkpoint."""
    a, b = np.triu_indices(copies, k=1)
    first = np.arange(groups)[:, None] * copies
    return np.stack([(first + a).ravel(), (first + b).ravel()], axis=1)
