"""Lower bounds of what replicas within a budget can reach: of the mean and of the largest chance of a broken query.

The mean is at least that of `optimizer.verify.replica_bounds`, less the most that covers within the budget are worth: a
set-union knapsack, whose bound the selection of queries proves.

The largest chance follows from a covering program. For a target u every query may leave uncovered hosts of at most
t = -log(1 - u) together:

    minimise   sum load[o] y[o]
    subject to sum over covers k of q: t[q, k] (1 - z[q, k]) <= -log(1 - u)   for each query q whose base is below u
               z[q, k] <= y[o]                                                for each operator o of cover k
               sum over o: y[o] <= max_replicas

A target whose least load is above the budget cannot be reached. The targets that can make a difference are those at
which a query may leave one more set of its covers; bisection finds the first that is not excluded.

`proven` takes bounds from the program of the whole problem (`optimizer.verify.replica_program`), by HiGHS. Multipliers
of the linear program prove the value that `Program.bound` computes of them, whatever solver they are from. With whole
columns the program is stronger; there only the dual bound of the solver counts, less an allowance.

`primaries_of` makes a plan from such a whole solution, for the search to start from: instances that share a host in the
solution share one in the plan, if there is room.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray, frozen
from models.planning.replicas import ROUNDING, ReplicaProblem
from models.planning.selection import QuerySelection
from models.planning.solution import Status
from optimizer.common.solvers import left_s, linear_program, mixed_integer_program, sparse_matrix
from optimizer.replicas.placing import Placed
from optimizer.selection.queries import select_by_lagrangian
from optimizer.verify.replica_bounds import DOWN, Bounds, Cover
from optimizer.verify.replica_program import Program

_MOST_COVERS = 12  # of a query, for which all sets of open covers are listed
_NODES = 2_000
_ALLOWANCE = 1e-6  # of the bound of a solver that computes in floating point
_SLACK = 1e-9


def mean_bound(bounds: Bounds, budget: float) -> tuple[float, list[Cover]]:
    """Return a lower bound of the mean share of broken queries within the budget, and covers that are good for it.

    The budget is in CPUs. A set-union knapsack of covers gives the most that replicas can gain (`selection.queries`).
    With a limit on the number of replicas the better of two bounds counts: by load and by number.
    """
    problem = bounds.problem
    if not bounds.covers or (budget <= 0 and not (problem.load == 0).any()):
        # DOWN rounds every bound to the safe side of the floating-point sums behind it.
        return bounds.bare * DOWN, []
    found, most = _best_covers(bounds, problem.load, max(0.0, budget) * (1 + 1e-12))
    # Both limits, of the budget and of the number, bound the worth of covers: the smaller of the two holds.
    if problem.max_replicas is not None:
        by_count, fewer = _best_covers(bounds, np.ones(problem.n_operators), float(problem.max_replicas))
        found, most = (by_count, fewer) if fewer < most else (found, most)
    return max(bounds.base, bounds.bare - most) * DOWN, found


def _best_covers(bounds: Bounds, weight: FloatArray, capacity: float) -> tuple[list[Cover], float]:
    """Return good covers of operators that weigh no more than the capacity, and the most that any are worth."""
    pairs = np.array([(k, o) for k, cover in enumerate(bounds.covers) for o in sorted(cover)], dtype=np.int64)
    chosen, most = select_by_lagrangian(QuerySelection(bounds.worths, weight, pairs, capacity))
    return [bounds.covers[k] for k in np.flatnonzero(chosen).tolist()], most


def worst_bound(bounds: Bounds, budget: float, deadline: float = math.inf) -> tuple[float, list[Cover]]:
    """Return a lower bound of the largest chance within the budget, and covers that reach it if all find room.

    The budget is in CPUs. Each target that bisection asks for takes one covering program (see the module). After the
    deadline, one of time.monotonic [s], the bound is the highest that was proven until then.
    """
    targets = _targets(bounds)
    low, high = 0, len(targets) - 1
    covers: list[Cover] = []
    # Bisection over the targets: excluding one excludes all below it, so the deadline leaves a valid, lower bound.
    while low < high and time.monotonic() < deadline:
        middle = (low + high) // 2
        cost, found = _least_load(bounds, targets[middle], deadline)
        if cost > budget + bounds.problem.slack:
            low = middle + 1
        else:
            high, covers = middle, found
    # Rounded down: the target itself was computed in floating point.
    return targets[low] * (1 - 1e-12), covers


def _targets(bounds: Bounds) -> list[float]:
    """Return the values that the bound of the worst query can have, ascending."""
    floor = max(one.base for one in bounds.queries)
    found = {floor}
    for one in bounds.queries:
        # All sets of open covers are 2^n values; beyond that only "all open" stays, which makes the bound lower, not
        # wrong.
        sizes = range(len(one.times) + 1) if len(one.times) <= _MOST_COVERS else (len(one.times),)
        for size in sizes:
            for chosen in combinations(one.times, size):
                found.add(max(floor, -math.expm1(-math.fsum(chosen))))
    return sorted(found)


def _least_load(bounds: Bounds, target: float, deadline: float) -> tuple[float, list[Cover]]:
    """Return a lower bound of the load that this target takes, and covers for it; infinite where none do."""
    problem = bounds.problem
    number = {cover: k for k, cover in enumerate(bounds.covers)}
    n, m = problem.n_operators, len(bounds.covers)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    upper: list[float] = []
    # Rounded up: a query at exactly the target must not be excluded by the rounding of the logarithm.
    allowed = -math.log1p(-min(target, 1 - 1e-12)) * (1 + _SLACK) + 1e-15
    for one in bounds.queries:
        # Covers that no replica can close stay open whatever is bought.
        fixed = math.fsum(t for t, cover in zip(one.times, one.covers, strict=True) if cover not in number)
        if fixed > allowed:
            return math.inf, []
        row = len(upper)
        mine = [(t, number[cover]) for t, cover in zip(one.times, one.covers, strict=True) if cover in number]
        for t, k in mine:
            rows.append(row)
            columns.append(n + k)
            values.append(-t)
        upper.append(allowed - fixed - math.fsum(t for t, _ in mine))
    for k, cover in enumerate(bounds.covers):
        for o in sorted(cover):
            rows += [len(upper)] * 2
            columns += [n + k, o]
            values += [1.0, -1.0]
            upper.append(0.0)
    if problem.max_replicas is not None:
        rows += [len(upper)] * n
        columns += range(n)
        values += [1.0] * n
        upper.append(float(problem.max_replicas))
    matrix = sparse_matrix(values, rows, columns, (len(upper), n + m))
    found = mixed_integer_program(
        np.concatenate([problem.load, np.zeros(m)]),
        [(matrix, -np.inf, np.array(upper))],
        # Only the replicas are whole: covers follow from them, and whole ones would only slow the solver.
        whole=np.arange(n + m) < n,
        nodes=_NODES,
        limit_s=left_s(deadline),
    )
    if found.status is Status.INFEASIBLE:
        return math.inf, []
    covers = [] if found.x is None else _covers(problem, bounds.covers, found.x[:n] > 0.5)
    # Without a bound from the solver nothing is excluded.
    if found.bound is None:
        return 0.0, covers
    return found.bound - _ALLOWANCE * max(1.0, abs(found.bound)), covers


def _covers(problem: ReplicaProblem, covers: Sequence[Cover], chosen: np.ndarray) -> list[Cover]:
    return [cover for cover in covers if all(chosen[o] for o in cover)]


_MOST_TERMS = 400_000  # beyond that there is no certificate
_MOST_WHOLE = 60_000  # and beyond that nothing with whole y
_PROGRAM_NODES = 60
_PROGRAM_ALLOWANCE = 1e-5  # of all costs together: the solver computes in floating point


@dataclass(frozen=True)
class Proof:
    """A lower bound of the objective, multipliers that prove it or less, and the best whole solution, if any.

    `multipliers` (rows,) are a certificate that `Program.bound` evaluates; `columns` are a start for the search and may
    break rules that the program does not know.
    """

    bound: float = 0.0
    multipliers: FloatArray | None = None
    columns: FloatArray | None = None


def proven(program: Program, deadline: float = math.inf) -> Proof:
    """Return what the solver proves until the deadline, one of time.monotonic.

    A program that is too large, or a deadline that is over, leaves the bound 0, which holds for any share.
    """
    # Too large for a certificate: the verifier would have to read all of it again.
    if not program.right or len(program.values) > _MOST_TERMS or time.monotonic() >= deadline:
        return Proof()
    found = multipliers(program, deadline)
    least = 0.0 if found is None else program.bound(found)
    if len(program.values) > _MOST_WHOLE or time.monotonic() >= deadline:
        return Proof(least, found)
    whole, columns = _with_whole(program, deadline)
    return Proof(max(least, whole), found, columns)


def multipliers(program: Program, deadline: float = math.inf) -> FloatArray | None:
    """Return multipliers of the rows (rows,), none below zero; None where the solver has none."""
    scale = _scale(program)
    found = linear_program(
        np.array(program.costs) / scale,
        at_most=(-_matrix(program), -np.array(program.right)),
        bounds=(0.0, 1.0),
        limit_s=left_s(deadline),
    )
    # Negative multipliers prove nothing; clipping keeps the rest valid.
    return frozen(scale * np.maximum(0.0, -found.dual_at_most)) if found.is_optimal else None


def _with_whole(program: Program, deadline: float) -> tuple[float, FloatArray | None]:
    """Return a lower bound of the program with whole columns, and the columns of its best solution."""
    scale = _scale(program)
    found = mixed_integer_program(
        np.array(program.costs) / scale,
        [(_matrix(program), np.array(program.right), np.inf)],
        nodes=_PROGRAM_NODES,
        limit_s=left_s(deadline),
    )
    columns = None if found.x is None else frozen(found.x)
    if found.bound is None:
        return 0.0, columns
    # The solver's bound is floating point: the allowance is relative to all costs, for costs of both signs cancel.
    allowance = _PROGRAM_ALLOWANCE * (abs(program.constant) + math.fsum(map(abs, program.costs)))
    return max(0.0, program.constant + scale * found.bound - allowance), columns


def _scale(program: Program) -> float:
    return max(map(abs, program.costs), default=0.0) or 1.0


def _matrix(program: Program) -> Any:
    shape = (len(program.right), len(program.costs))
    return sparse_matrix(program.values, program.rows, program.columns, shape)


_HALF = 0.5


def chosen(problem: ReplicaProblem, columns: FloatArray) -> frozenset[int]:
    """Return the operators that have a replica in the solution."""
    return frozenset(np.flatnonzero(columns[: problem.n_operators] > _HALF).tolist())


def primaries_of(problem: ReplicaProblem, program: Program, columns: FloatArray) -> Placed | None:
    """Return hosts for the primaries, group by group, the heaviest group first; None where one finds no room.

    Primaries that run stay where they are. Replicas are not placed here.
    """
    rooms = _Rooms(problem)
    hosts = problem.primaries.tolist()
    for o, host in enumerate(hosts):
        if host >= 0:
            rooms.put(o, host)
    for group in _groups(problem, program, columns):
        new = [o for o in group if hosts[o] < 0]
        # Together on one host if it has room; otherwise each takes the first with room, heaviest first.
        together = rooms.host_for(new)
        for o in sorted(new, key=lambda o: (-problem.load[o], o)):
            host = rooms.host_for([o]) if together is None else together
            if host is None:
                return None
            hosts[o] = host
            rooms.put(o, host)
    return Placed([[host] for host in hosts], 0)


def _groups(problem: ReplicaProblem, program: Program, columns: FloatArray) -> list[list[int]]:
    """Return the operators by the host that they share, the heaviest group first."""
    leader, replicated = list(range(problem.n_operators)), chosen(problem, columns)

    def root(o: int) -> int:
        while leader[o] != o:
            o = leader[o]
        return o

    together = [pair for pair, column in program.pairs.items() if columns[column] > _HALF]
    for q, column in program.spread.items():
        if columns[column] <= _HALF:
            # A query that the solution does not spread has all its single instances on one host.
            together += pairwise(o for o in problem.operators[q] if o not in replicated)
    for one, other in together:
        # The smaller index leads: the groups do not depend on the order of the pairs.
        leader[max(root(one), root(other))] = min(root(one), root(other))
    found: dict[int, list[int]] = {}
    for o in range(problem.n_operators):
        found.setdefault(root(o), []).append(o)
    return sorted(found.values(), key=lambda group: (-float(problem.load[group].sum()), group))


class _Rooms:
    """The free capacity of the hosts for primaries."""

    def __init__(self, problem: ReplicaProblem) -> None:
        assert problem.primary_hosts is not None
        self._open = problem.primary_hosts
        slack = 1 + ROUNDING
        self._kinds = [(problem.load, problem.host_cpu * slack)]
        if problem.network is not None and problem.host_network is not None:
            self._kinds.append((problem.network, problem.host_network * slack))

    def put(self, o: int, host: int) -> None:
        """Take the room of an operator."""
        for load, room in self._kinds:
            room[host] -= load[o]

    def host_for(self, operators: Sequence[int]) -> int | None:
        """Return the first host with room for all of them."""
        fits = self._open.copy()
        for load, room in self._kinds:
            fits &= room >= float(load[list(operators)].sum())
        return int(fits.argmax()) if fits.any() else None
