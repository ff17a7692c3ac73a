"""Exact answers at small sizes: the whole program as a mixed-integer program (HiGHS through SciPy).

How the answer stays a proof although HiGHS works with tolerances:
- costs are taken relative to their row minima and scaled, to exact integers where they are integers in
  some unit; HiGHS may miss answers that are better by its absolute tolerance: its bound is lowered by that;
- load rows are relative to the capacity and a hair wider than the true ones; an answer that the true
  capacities refuse is cut off by a cover inequality with coefficients 0 and 1, and all is solved again;
- pairs are left out only when prices prove that every answer using them costs more than a known answer.

Two searches make programs on fewer pairs, which prove nothing: `column_generation.meet_in_the_middle` on the pairs of a
few nodes that can pay, and `local_search.exchange` on those of all nodes that are nearest to the cheapest. They share
`rules_of_pairs`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.params import DEFAULT, ProgramParameters
from optimizer.common.solvers import Rows, WholeAnswer, mixed_integer_program, sparse_matrix
from optimizer.verify.checkpoint_bounds import cliques, fitting, is_clique, lagrangian_bound, reduced_minima

_WIDER = 1e-5  # relative: load rows are relaxations; the true capacities are kept by the cuts
_MISSED = 4e-6  # objective units of HiGHS: its feasibility and absolute gap tolerances (1e-6 each), twice
_LARGEST_COST = 2.0**20
_ALL_OF_IT = 0.95  # of the time limit: HiGHS ends a little before its own
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Known:
    """Knowledge before a program: an answer with its objective (or None), prices, and a proven bound.

    `pairs` (J, N) is False where no better answer uses the pair; None leaves nothing out.
    """

    assignment: IntArray | None
    objective: float
    prices: FloatArray
    bound: float
    pairs: BoolArray | None = None


@dataclass(frozen=True)
class Outcome:
    """An assignment or None, a proven bound or None, whether infeasibility is proven, and what struck.

    `prices` (N,), or `multipliers` (J,) of the checkpoints, prove the bound where they are given.
    """

    assignment: IntArray | None
    bound: float | None
    infeasible: bool = False
    note: str = ""
    prices: FloatArray | None = None
    multipliers: FloatArray | None = None


@dataclass
class _Rows:
    """Linear rows low <= a x <= high in the making."""

    n_columns: int
    index: list[IntArray] = field(default_factory=list)
    value: list[FloatArray] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, columns: IntArray, values: FloatArray, low: float, high: float) -> None:
        self.index.append(columns)
        self.value.append(values)
        self.low.append(low)
        self.high.append(high)

    def ones(self, columns: IntArray, low: float, high: float) -> None:
        self.add(columns, np.ones(len(columns)), low, high)

    def constraint(self) -> Rows:
        """Return the rows as a sparse matrix with their limits."""
        row = np.repeat(np.arange(len(self.index)), [len(columns) for columns in self.index])
        columns = np.concatenate(self.index)
        matrix = sparse_matrix(np.concatenate(self.value), row, columns, (len(self.index), self.n_columns))
        return matrix, np.array(self.low), np.array(self.high)


def branch_and_bound(
    problem: CheckpointAllocation,
    known: Known,
    budget: Budget,
    parameters: ProgramParameters = DEFAULT.program,
    *,
    spread: IntArray | None = None,
    most_nodes: int | None = None,
    most_programs: float = math.inf,
) -> Outcome:
    """Return the best assignment found, with a bound. `spread` (n_groups,) caps each operator's count per node.

    `most_nodes` of branch and bound are allowed at most; None follows from the work of the budget. An answer that true
    capacities refuse leads to another program, up to `most_programs`.
    """
    j, n = pairs_left(problem, known)
    # Every pair of some checkpoint was excluded: no answer is better than the known one, or there is none.
    if len(np.unique(j)) < problem.n_checkpoints:
        return _nothing_left(known)
    # Minima over all allowed pairs: shifted costs are never negative, whatever was left out.
    row_minimum = np.where(problem.allowed, problem.cost, np.inf).min(axis=1)
    row_minimum = row_minimum.astype(np.float64, copy=False)
    largest = float(np.abs(problem.cost[j, n]).max()) + float(np.abs(row_minimum).max())
    unit = scaled_costs(problem.cost[j, n].astype(np.float64) - row_minimum[j], largest)
    rows = _program(problem, j, n)
    if spread is not None:
        _add_spread(rows, problem, j, n, spread)
    base, bound = math.fsum(row_minimum.tolist()), -math.inf
    # Branch-and-bound nodes are counted, not seconds, so that the answer is the same on every machine.
    nodes = most_nodes
    if nodes is None:
        nodes = int(parameters.nodes_per_s * budget.limit) + parameters.nodes_least
    programs = 0
    # Ends: each cover cuts off the answer that caused it, and assignments are finite.
    while True:
        programs += 1
        if programs > most_programs:
            return Outcome(None, _outer(bound, known), note="limit on programs struck")
        if budget.late:
            return Outcome(None, _outer(bound, known), note="time limit struck")
        answer = mixed_integer_program(unit.cost, [rows.constraint()], nodes=nodes, limit_s=budget.left_s)
        if answer.status is Status.INFEASIBLE:
            return _nothing_left(known)
        # Each program is a relaxation of the true one, so its dual bound holds, and the best of all counts.
        if answer.bound is not None:
            bound = max(bound, unit.proven(answer.bound, base, problem.n_checkpoints))
        if answer.x is None:
            return Outcome(None, _outer(bound, known), note=_struck(answer, budget))
        assignment = np.full(problem.n_checkpoints, -1, dtype=np.int64)
        # HiGHS returns 0 and 1 within a tolerance: half is far from both.
        chosen = answer.x > 0.5
        assignment[j[chosen]] = n[chosen]
        # Load rows are wider than the truth; an answer that only the wide row takes is cut off, and all is solved
        # again.
        if not _cut_off(rows, problem, assignment, j, n):
            note = "" if answer.status is Status.OPTIMAL else _struck(answer, budget)
            return Outcome(assignment, _outer(bound, known), note=note)


@dataclass(frozen=True)
class ScaledCosts:
    """Costs in units of 1/scale; `rounding`: how far any is from an integer, None when they are none.

    A sum of J costs is therefore off by at most J `rounding`, which `proven` takes from the bound.
    """

    cost: FloatArray
    scale: float
    rounding: float | None

    def proven(self, dual_bound: float, base: float, terms: int) -> float:
        """Return the bound in the problem's units: rounded up where costs are integers, else less the tolerance."""
        if self.rounding is None:
            return base + (dual_bound - _MISSED) / self.scale
        # Integer costs: no value lies between two integers, so the bound may be rounded up before rounding is deducted.
        return base + (math.ceil(dual_bound - 1e-3) - terms * self.rounding) / self.scale


def scaled_costs(shifted: FloatArray, given: float) -> ScaledCosts:
    """Return non-negative costs scaled to at most 2**20, and to integers if some unit makes them that.

    `given` is the largest magnitude they were computed from: their rounding is relative to it.
    """
    largest = float(shifted.max(initial=0.0))
    if largest <= 0:
        return ScaledCosts(shifted, 1.0, 0.0)
    # Decimal units come first, since costs are mostly written in decimals; then powers of two.
    for scale in (*(10.0**k for k in range(-3, 7)), *(2.0**k for k in range(1, 21))):
        if largest * scale <= _LARGEST_COST:
            rounding = float(np.abs(shifted * scale - np.rint(shifted * scale)).max())
            # Below 0.5 every cost would round to 0 and pass the test: such a scale is no unit.
            if rounding <= 8 * _EPS * given * scale and largest * scale >= 0.5:
                return ScaledCosts(np.rint(shifted * scale), scale, rounding)
    scale = math.ldexp(1.0, min(20 - math.frexp(largest)[1], 1000))
    return ScaledCosts(shifted * scale, scale, None)


def pairs_left(problem: CheckpointAllocation, known: Known) -> tuple[IntArray, IntArray]:
    """Return the pairs (checkpoint, node), (P,) each, that an answer better than the known one may use.

    A pair is left out when a Lagrangian bound with the pair used exceeds the known objective: bound + reduced cost >
    objective, at the known prices or at zero. Both arrays are empty when nothing better exists.
    """
    fits = fitting(problem)
    if known.assignment is not None:
        # Both bounds exclude: zero prices are sharper where a capacity does not bind.
        for prices in (known.prices, np.zeros(problem.n_nodes)):
            bound = lagrangian_bound(problem, prices, fits)
            minima, _ = reduced_minima(problem, prices, fits)
            # An infinite bound: some checkpoint has no pair left, so there is no better answer.
            if not math.isfinite(bound):
                return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
            extra = problem.cost + prices * problem.weights - minima[:, None]
            # The slack is on the side of keeping: a pair that ties with the known answer may still be needed.
            slack = 1e-9 * (abs(known.objective) + math.fsum(np.abs(minima).tolist()))
            fits = fits & (bound + extra <= known.objective + slack)
        fits = fits if known.pairs is None else fits & known.pairs
    j, n = np.nonzero(fits)
    return j.astype(np.int64), n.astype(np.int64)


def _nothing_left(known: Known) -> Outcome:
    if known.assignment is None:
        return Outcome(None, None, infeasible=True)
    return Outcome(None, known.objective)  # every better pair was excluded: the known answer is optimal


def _outer(bound: float, known: Known) -> float | None:
    """Return the bound for the whole problem: pairs left out cost at least the known objective; None if infinite."""
    # Pairs that were left out cost at least the known objective: beyond it the program proves nothing.
    value = max(known.bound, min(bound, known.objective))
    return value if math.isfinite(value) else None


def _program(problem: CheckpointAllocation, j: IntArray, n: IntArray) -> _Rows:
    """Return the rows of the program on some pairs: stored once, loads, anti-affinity, moves."""
    rows = _Rows(len(j))
    starts = np.searchsorted(j, np.arange(problem.n_checkpoints + 1))
    for k in range(problem.n_checkpoints):
        rows.ones(np.arange(starts[k], starts[k + 1]), 1, 1)
    at = [np.flatnonzero(n == node) for node in range(problem.n_nodes)]
    for node, columns in enumerate(at):
        load = problem.weights[j[columns], node]
        # A node that holds everything at once needs no row.
        if problem.capacity is not None and load.sum() > problem.upper[node]:
            # Shares of the capacity make all coefficients about 1, whatever the unit of loads.
            rows.add(columns, load / problem.upper[node], -np.inf, 1 + _WIDER)
        if problem.lower[node] > 0:  # min(load / least, 1): the same rule for 0-1 variables, without huge numbers
            share = np.minimum(load, problem.lower[node]) / problem.lower[node]
            # Sums over many columns lose digits: the row is widened by their number so that no true answer is cut off.
            rows.add(columns, share, 1 - _WIDER - 1e-9 * len(columns), np.inf)
    _add_anti_affinity(rows, problem, j, n)
    if problem.max_moves is not None and problem.current is not None:
        rows.ones(np.flatnonzero(problem.current[j] != n), -np.inf, problem.max_moves)
    return rows


def _add_anti_affinity(rows: _Rows, problem: CheckpointAllocation, j: IntArray, n: IntArray) -> None:
    """Add a row for each node and each clique of copies, or pair of copies, that could meet there."""
    if not problem.neighbours:
        return
    column = np.full(problem.cost.shape, -1, dtype=np.int64)
    column[j, n] = np.arange(len(j))
    for members in cliques(problem):
        # A clique is one row; anything else needs its pairs one by one, for a row over all would forbid too
        # much.
        sets = (
            [members]
            if is_clique(problem, members)
            else [np.array([a, b]) for a in members.tolist() for b in problem.neighbours[a] if a < b]
        )
        found = [column[some] for some in sets]
        for node in range(problem.n_nodes):
            for some in found:
                together = some[:, node][some[:, node] >= 0]
                if len(together) > 1:
                    rows.ones(together, -np.inf, 1)


def _add_spread(rows: _Rows, problem: CheckpointAllocation, j: IntArray, n: IntArray, room: IntArray) -> None:
    """Add a row for each node and operator (code) that could have more checkpoints there than `room` (n_groups,)."""
    code = problem.group_codes[j]
    for group in range(len(room)):
        for node in range(problem.n_nodes):
            columns = np.flatnonzero((code == group) & (n == node))
            if len(columns) > room[group]:
                # At most one of a pair on each node, written once for each node where both may be.
                rows.ones(columns, -np.inf, int(room[group]))


def _cut_off(rows: _Rows, problem: CheckpointAllocation, assignment: IntArray, j: IntArray, n: IntArray) -> bool:
    """Add a cover inequality for each node whose true capacity the answer breaks; False without any."""
    loads, before = problem.node_loads(assignment), len(rows.index)
    for node in np.flatnonzero(loads > problem.upper).tolist():
        # The smallest cover gives the strongest cut: it excludes every answer that contains these members.
        cover = _smallest_cover(problem, np.flatnonzero(assignment == node), node)
        rows.ones(np.flatnonzero((n == node) & np.isin(j, cover)), -np.inf, len(cover) - 1)
    for node in np.flatnonzero(loads < problem.lower).tolist():
        # Too little load: something that is not on the node now must go there.
        rows.ones(np.flatnonzero((n == node) & ~np.isin(j, np.flatnonzero(assignment == node))), 1, np.inf)
    return len(rows.index) > before


def _smallest_cover(problem: CheckpointAllocation, members: IntArray, node: int) -> IntArray:
    """Return members that overload the node together, without those that are not needed for it."""
    load = problem.weights[members, node]
    # Heaviest first: the fewest members that overload the node.
    order = np.argsort(-load, kind="stable")
    needed = int(np.argmax(np.cumsum(load[order]) > problem.upper[node] * (1 + 1e-15))) + 1
    cover = members[order[:needed]]
    # The sum in another order may round to no overload: then all members are the cover, as they certainly break it.
    return cover if float(problem.weights[cover, node].sum()) > problem.upper[node] else members


def _struck(answer: WholeAnswer, budget: Budget) -> str:
    """Return in words which limit ended HiGHS."""
    if answer.at_limit:
        # HiGHS stops a little before its limit, so the last part of it counts as the time limit.
        late = budget.spent_s >= _ALL_OF_IT * budget.seconds
        return "time limit struck" if late else "limit on branch-and-bound nodes struck"
    return f"HiGHS stopped with status {answer.code}"


def rules_of_pairs(
    j: IntArray, n: IntArray, share: FloatArray, most: FloatArray, least: FloatArray | float = -np.inf
) -> list[Rows]:
    """Return the rules that each checkpoint is stored once, and nodes keep their limits (N,).

    `j`, `n`, `share` (P,): checkpoint and node of each pair, and its load in the unit of the limits.
    """
    columns, row = np.arange(len(j)), np.unique(j, return_inverse=True)[1]
    once = sparse_matrix(np.ones(len(j)), row, columns, (int(row.max()) + 1, len(j)))
    loads = sparse_matrix(share, n, columns, (len(most), len(j)))
    return [(once, 1, 1), (loads, least, most)]


def at_most(chosen: BoolArray, most: int) -> Rows:
    """Return the rule that at most so many of some pairs (P,) are chosen."""
    return chosen[None].astype(np.float64), -np.inf, most
