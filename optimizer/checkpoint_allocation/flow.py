"""Exact answers when every checkpoint weighs the same: a transportation problem, by minimum-cost flow.

When all loads on node n are w[n], the capacities count: at most floor(u[n] / w[n]) and at least ceil(v[n] /
w[n]) checkpoints. The flow works on integer costs; its answer is then proved in float64 without it: node
potentials p from shortest paths in the residual graph give the bound

    sum_j min_n (c[j,n] + p[n]) - sum_n (max(p[n], 0) most[n] - max(-p[n], 0) least[n])

which equals the objective at an optimal flow and is a bound for every p.

`count_flow` uses all pairs. Where these are too many, `core_flow` makes the flow on few pairs and proves it on all: an
optimal flow is known by its potentials, for every checkpoint is on a node with the smallest c[j,n] + p[n], and only
full nodes have p[n] > 0. So the flow may be made on a core of pairs:

1. prices of a smoothed problem rank the pairs; a checkpoint whose second best is dearer by more than a margin is put on
   its best node, the others keep the pairs within the margin;
2. a minimum-cost flow on these pairs and the room that is left; without one the margin grows;
3. shortest paths in the residual graph of the core give p, and one pass over all pairs gives the bound above;
4. pairs that are cheaper at p than the checkpoint's own enter the core, and it starts again, until there are none.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation.candidates import Candidates, candidates, scale_of
from optimizer.checkpoint_allocation.lagrangian.bound import first_prices, smoothed_dual_prices
from optimizer.checkpoint_allocation.params import DEFAULT, FlowParameters, Parameters
from optimizer.common.solvers import minimum_cost_flow
from optimizer.verify.checkpoint_bounds import Counts, chunks, counts, potential_bound

_EPS = float(np.finfo(np.float64).eps)
_SPARE_BITS = (0, 8, 16, 24)  # of integer costs, one flow after the other until one has room


def enough_room(problem: CheckpointAllocation, limit: Counts) -> bool:
    """Return whether the counts alone leave an allocation; False is a proof of infeasibility.

    It compares sums and single nodes alone: forbidden pairs may still leave no allocation.
    """
    j = problem.n_checkpoints
    return bool((limit.least <= limit.most).all() and limit.least.sum() <= j <= limit.most.sum())


def integer_costs(cost: FloatArray, allowed: BoolArray, nodes: int) -> IntArray:
    """Return the costs (J, N) minus their row minima as integers, rounded down to multiples of 1/scale.

    scale is a power of two (so multiplying is exact) with scale * largest * nodes < 2**61: the solver
    multiplies costs by the number of graph nodes. Rounding down keeps an optimum of the integers a lower
    bound; the answer is evaluated again in float64 all the same.
    """
    cost = cost.astype(np.float64, copy=False)
    # Relative to the row minimum: each checkpoint takes exactly one arc, so a constant per row changes no answer.
    rows = np.where(allowed, cost, np.inf).min(axis=1, keepdims=True)
    shifted = np.where(allowed, cost - rows, 0.0)
    largest = float(shifted.max(initial=0.0))
    if largest <= 0:
        return np.zeros(cost.shape, dtype=np.int64)
    # The exponent of the largest cost plus that of the number of nodes stays at 61: sums cannot leave int64.
    scale = 61 - math.frexp(largest)[1] - math.ceil(math.log2(nodes + 1))
    return np.floor(np.ldexp(shifted, scale)).astype(np.int64)


def capped(problem: CheckpointAllocation, assignment: IntArray, smaller: float) -> CheckpointAllocation | None:
    """Return the problem with costs cut off at their row minimum plus twice the excess of an assignment (J,).

    An answer that uses such a pair costs more than the assignment, before and after, and no cost rises: the best
    answers stay, and a bound for the result is a bound for the problem. None where the largest cost would not fall
    below a share (`smaller`) of its value.
    """
    least, largest = np.empty(problem.n_checkpoints), np.empty(problem.n_checkpoints)
    for rows in chunks(problem):
        least[rows] = np.where(problem.allowed[rows], problem.cost[rows], np.inf).min(axis=1)
        largest[rows] = np.where(problem.allowed[rows], problem.cost[rows], -np.inf).max(axis=1)
    own = problem.cost[np.arange(problem.n_checkpoints), assignment].astype(np.float64)
    # Twice the excess of a known answer: no optimal answer pays that much above its minimum, rounding included.
    most = 2 * math.fsum((own - least).tolist())
    # Without a large reduction the scale would gain no useful digits, and the flow would be the same again.
    if not 0 < most < smaller * float((largest - least).max()):
        return None
    ceiling = (least + most).astype(problem.cost.dtype)
    return replace(problem, cost=np.minimum(problem.cost, ceiling[:, None]))


def count_flow(
    problem: CheckpointAllocation, parameters: FlowParameters = DEFAULT.flow
) -> tuple[IntArray | None, float | None, FloatArray | None]:
    """Return the optimal assignment (J,), its bound and the potentials (N,) that prove it; None without a flow.

    Raises ArithmeticError when the solver's range does not hold the costs.
    """
    limit = counts(problem)
    if not enough_room(problem, limit):
        return None, None, None
    # Fewer bits per cost lose precision, not correctness: the answer is proven in float64 afterwards.
    for spare in _SPARE_BITS:
        status, assignment, code = _cheapest_flow(problem, limit, spare)
        if status is Status.INFEASIBLE:
            return None, None, None
        if assignment is not None:
            break
    else:
        raise ArithmeticError(f"minimum-cost flow ended with status {code}")
    # The integer solver is not trusted: potentials of its answer prove the bound in float64.
    potentials = _potentials(problem, limit, assignment, parameters.potential_rounds)
    bound, rounding = potential_bound(problem, limit, potentials)
    return assignment, bound - rounding, potentials


def _cheapest_flow(problem: CheckpointAllocation, limit: Counts, spare: int) -> tuple[Status, IntArray | None, str]:
    """Return the status, the assignment (J,) if it is optimal, and the solver's code; costs leave `spare` bits free.

    On sparse graphs distances are sums of many costs, and may leave the range of the solver.
    """
    j, n = problem.cost.shape
    # Arcs exist only for allowed pairs, so forbidden ones cost nothing to keep out.
    rows, columns = np.nonzero(problem.allowed)
    sink = j + n
    costs = integer_costs(problem.cost, problem.allowed, (j + n + 1) << spare)
    # Each node keeps `least` units as its own demand; its arc to the sink carries the rest, up to `most`.
    arcs = (
        np.concatenate([rows, np.arange(j, sink)]),
        np.concatenate([columns + j, np.full(n, sink)]),
        np.concatenate([np.ones(len(rows), dtype=np.int64), limit.most - limit.least]),
        np.concatenate([costs[rows, columns], np.zeros(n, dtype=np.int64)]),
    )
    supplies = np.concatenate([np.ones(j, dtype=np.int64), -limit.least, [int(limit.least.sum()) - j]])
    status, flows, code = minimum_cost_flow(arcs, supplies)
    if flows is None:
        return status, None, code
    # The solver reports flow per arc; supply 1 and integer arcs make it 0 or 1.
    used = flows[: len(rows)] > 0
    assignment = np.full(j, -1, dtype=np.int64)
    assignment[rows[used]] = columns[used]
    return status, assignment, code


def as_prices(problem: CheckpointAllocation, potentials: FloatArray | None) -> FloatArray | None:
    """Return potentials, which are per checkpoint, as prices per load (N,); below 0 where a minimum decides.

    A plan carries them as its certificate: `lagrangian_bound` of them proves the bound or a little less. Zeros where
    the load is 0, or so small that the quotient overflows.
    """
    if potentials is None:
        return None
    weight = problem.weights[0]
    # Weight zero: no capacity is felt, so the price does not matter.
    with np.errstate(over="ignore"):  # of a load that weighs next to nothing
        found: FloatArray = np.where(weight > 0, potentials / np.where(weight > 0, weight, 1.0), 0.0)
    return np.where(np.isfinite(found), found, 0.0)


def _potentials(problem: CheckpointAllocation, limit: Counts, assignment: IntArray, rounds: int) -> FloatArray:
    """Return shortest distances in the residual graph of nodes and sink, relative to the sink, (N,)."""
    n = problem.n_nodes
    length = np.full((n + 1, n + 1), np.inf)  # length[u, v]: p[v] <= p[u] + length[u, v]
    here = problem.cost[np.arange(problem.n_checkpoints), assignment].astype(np.float64)
    # length[u, n]: the cheapest checkpoint on u that could go to n instead says how far their potentials may differ.
    extra = np.where(problem.allowed, problem.cost - here[:, None], np.inf)
    # `reduceat` needs the rows of each node side by side; empty nodes have no residual arcs out.
    order = np.argsort(assignment, kind="stable")
    used, starts = np.unique(assignment[order], return_index=True)
    length[:n, used] = np.minimum.reduceat(extra[order], starts, axis=0).T
    held = np.bincount(assignment, minlength=n)
    return shortest(length, held, limit, rounds)


def shortest(length: FloatArray, held: IntArray, limit: Counts, rounds: int) -> FloatArray:
    """Return distances from the sink, (N,), where `length` (N + 1, N + 1) has those between nodes.

    The last row and column, the sink's, are filled in here: it may take from a node with more than its least, and give
    to one with room.
    """
    n = len(held)
    length[n, :n] = np.where(held < limit.most, 0.0, np.inf)
    length[:n, n] = np.where(held > limit.least, 0.0, np.inf)
    p = np.zeros(n + 1)
    # Bellman-Ford: an optimal flow has no negative cycle, so n + 1 rounds are enough; fewer only weaken the bound.
    for _ in range(min(n + 1, rounds)):
        shorter = np.minimum(p, (p[:, None] + length).min(axis=0))
        if (shorter == p).all():
            break
        p = shorter
    # Potentials count from the sink: only differences matter, and the sink has none.
    potentials: FloatArray = p[:n] - p[n]
    return potentials


def core_flow(
    problem: CheckpointAllocation, limit: Counts, parameters: Parameters = DEFAULT
) -> tuple[IntArray | None, float | None, FloatArray | None]:
    """Return the optimal assignment (J,), its proven bound and the potentials (N,); None for each that is not found.

    The answer is optimal only if bound and objective meet: the search for better pairs ends after `core_rounds`. None
    for the assignment where no core within `most_arcs` pairs has a flow, which proves nothing.
    """
    # A checkpoint without any node: no core can help, and the minima below would be infinite.
    if not problem.allowed.any(axis=1).all():
        return None, None, None
    scale, own = scale_of(problem), parameters.flow
    prices = first_prices(problem, scale, parameters.lagrangian)
    found = candidates(problem, prices, own.kept)
    # Falling temperatures: a smooth problem is easy to climb, a cold one is near to the true prices.
    for temperature in own.temperatures:
        prices = smoothed_dual_prices(
            problem, found, prices, temperature * scale, steps=own.steps, parameters=parameters.lagrangian
        )
    p = prices * problem.weights[0]
    core = _Core(problem, limit, found, p, own.margin * scale * float(problem.weights[0].mean()), own)
    best: IntArray | None = None
    bound, proof = -math.inf, None
    # Ends: the core grows at every round that does not return, and there are finitely many pairs.
    for _ in range(own.core_rounds):
        assignment = core.flow(p)
        if assignment is None:
            # No flow on the core says nothing about the whole: a wider margin lets more pairs in.
            if not core.widen():
                break
            continue
        best = assignment  # of a larger core: never worse
        p = core.potentials(assignment)
        value, rounding = potential_bound(problem, limit, p)
        # Equal up to rounding over all pairs: the flow of the core is optimal for the whole problem.
        objective = problem.objective(assignment)
        if abs(objective - value) <= rounding:
            return assignment, value - rounding, p
        if value - rounding > bound:
            bound, proof = value - rounding, p
        # No pair is cheaper at p, and still a gap: more rounds would repeat this one.
        if not core.enter(_cheaper(problem, p, assignment, own.enter)):
            break
    return best, bound if math.isfinite(bound) else None, proof


class _Core:
    """The pairs that the flow may use, as sorted keys j * N + n; it only grows."""

    def __init__(
        self,
        problem: CheckpointAllocation,
        limit: Counts,
        found: Candidates,
        p: FloatArray,
        margin: float,
        parameters: FlowParameters,
    ) -> None:
        self.parameters = parameters
        self.problem, self.limit, self.found, self.p, self.margin = problem, limit, found, p, margin
        self.keys = self._within()

    def _within(self) -> IntArray:
        priced = self.found.cost + self.p[self.found.nodes]
        near = (priced <= priced.min(axis=1, keepdims=True) + self.margin) & np.isfinite(priced)
        rows, at = np.nonzero(near)
        return np.sort(rows * self.problem.n_nodes + self.found.nodes[rows, at])

    def widen(self) -> bool:
        """Return whether the core has grown: by a larger margin, then by more nodes for each checkpoint."""
        # The margin comes first, for its pairs are known already; more nodes per checkpoint need a new ranking.
        if math.isinf(self.margin):
            kept = self.found.nodes.shape[1]
            n = self.problem.n_nodes
            if kept == n or 4 * kept * self.problem.n_checkpoints > self.parameters.most_arcs:
                return False
            self.found = candidates(self.problem, self.p, min(4 * kept, n))
        # Past the largest price a larger margin adds little: infinite takes all kept pairs, then nodes are added.
        self.margin = self.margin * 8 if self.margin < self.p.max(initial=0.0) + 1e-300 else math.inf
        return self.enter(self._within()) or not math.isinf(self.margin) or self.widen()

    def enter(self, keys: IntArray) -> bool:
        """Return whether there were new pairs among the keys."""
        before = len(self.keys)
        self.keys = np.union1d(self.keys, keys)
        return len(self.keys) > before

    def pairs(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return checkpoint, node and cost of the pairs, (P,) each."""
        j, n = np.divmod(self.keys, self.problem.n_nodes)
        return j, n, self.problem.cost[j, n].astype(np.float64)

    def flow(self, p: FloatArray) -> IntArray | None:
        """Return the cheapest assignment (J,) on the pairs, with costs relative to p; None without one."""
        j, n, cost = self.pairs()
        count = np.bincount(j, minlength=self.problem.n_checkpoints)
        # Checkpoints with one pair are decided: taking them out of the graph leaves a far smaller flow.
        only = count[j] == 1
        assignment = np.full(self.problem.n_checkpoints, -1, dtype=np.int64)
        assignment[j[only]] = n[only]
        held = np.bincount(n[only], minlength=self.problem.n_nodes)
        # The fixed ones may already exceed a node, or leave too few for the minima: then the core has no flow.
        most, least = self.limit.most - held, np.maximum(self.limit.least - held, 0)
        free, row = np.unique(j[~only], return_inverse=True)
        if (most < 0).any() or least.sum() > len(free):
            return None
        if len(free):
            to = _flow(row, n[~only], cost[~only] + p[n[~only]], p, most, least, len(free))
            if to is None:
                return None
            assignment[free] = to
        return assignment

    def potentials(self, assignment: IntArray) -> FloatArray:
        """Return shortest distances in the residual graph of the pairs, (N,)."""
        j, n, cost = self.pairs()
        width = self.problem.n_nodes
        own = self.problem.cost[np.arange(len(assignment)), assignment].astype(np.float64)
        length = np.full((width + 1, width + 1), np.inf)
        # The reduced cost of moving j from its own node is the length of that residual arc.
        np.minimum.at(length, (n, assignment[j]), cost - own[j])  # own + p[own] <= cost + p[n]
        return shortest(length, np.bincount(assignment, minlength=width), self.limit, self.parameters.potential_rounds)


def _flow(
    row: IntArray, node: IntArray, priced: FloatArray, p: FloatArray, most: IntArray, least: IntArray, count: int
) -> IntArray | None:
    """Return the node of each of `count` rows; the arc from node n to the sink gives p[n] back. None without a flow."""
    width = len(most)
    sink = count + width
    least_priced = np.full(count, np.inf)
    np.minimum.at(least_priced, row, priced)
    # The arc to the sink pays -p[n]: together with c + p the total is the true cost again.
    # Relative to the row minimum, for the same reason as in `integer_costs`: more digits for the differences.
    costs = np.concatenate([priced - least_priced[row], -p])
    largest = float(np.abs(costs).max(initial=0.0))
    # 60 bits, one less than above: costs of the sink arcs may be negative, so the range is twice as wide.
    bits = 0 if largest <= 0 else 60 - math.frexp(largest)[1] - math.ceil(math.log2(sink + 1))
    units = np.floor(np.ldexp(costs, bits)).astype(np.int64)
    tails, heads = np.concatenate([row, np.arange(count, sink)]), np.concatenate([node + count, np.full(width, sink)])
    capacity = np.concatenate([np.ones(len(row), dtype=np.int64), most - least])
    supplies = np.concatenate([np.ones(count, dtype=np.int64), -least, [int(least.sum()) - count]])
    # Only the flow matters here: a failure of any kind means a wider core.
    _, flows, _ = minimum_cost_flow((tails, heads, capacity, units), supplies)
    if flows is None:
        return None
    used = flows[: len(row)] > 0
    to = np.full(count, -1, dtype=np.int64)
    to[row[used]] = node[used]
    return to


def _cheaper(problem: CheckpointAllocation, p: FloatArray, assignment: IntArray, most: int) -> IntArray:
    """Return keys of the cheapest pairs at p that are cheaper than the checkpoint's own, at most `most` for each."""
    found = []
    # Rows are taken some at a time: the priced matrix of all pairs would not fit into memory.
    for rows in chunks(problem):
        at = np.arange(rows.start, rows.stop)
        priced = np.where(problem.allowed[rows], problem.cost[rows] + p, np.inf)
        own = priced[at - rows.start, assignment[rows]]
        late = np.flatnonzero(priced.min(axis=1) < own)
        some = priced[late]
        best = np.argpartition(some, min(most, some.shape[1]) - 1, axis=1)[:, :most]
        # `argpartition` may return pairs that are not cheaper where a row has fewer than `most` of them.
        cheaper = np.take_along_axis(some, best, axis=1) < own[late, None]
        found.append((at[late, None] * problem.n_nodes + best)[cheaper])
    return np.concatenate(found)
