"""The smallest part of a problem that cannot hold, where more than sums is in the way.

The parts are: a checkpoint is stored; a node keeps its capacity; a node reaches its minimum; copies are apart; few
move. A set of parts is irreducible when it cannot hold and each part less can. It is found by taking parts out, many
at a time at first, and asking again (deletion filter; Chinneck and Dravnieks 1991).

Asked is first the linear program, which may divide checkpoints. Its multipliers prove that it has no solution: for
lambda, mu, nu, kappa >= 0, on capacities, minima, apart sets and moves, every allocation has

    0 >= sum lambda (load - capacity) + sum mu (minimum - load) + sum nu (stored - 1) + kappa (moves - most)

and the right side is at least what each checkpoint adds to it on its best node. That is computed in fractions. Where
the linear program holds, the mixed-integer one is asked: then only that checkpoints are whole is in the way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.mixed_integer import Known, branch_and_bound
from optimizer.checkpoint_allocation.prices import fitting
from optimizer.checkpoint_allocation.separable import cliques, is_clique
from optimizer.quiet import quiet_stdout

_PAIRS = 30_000  # J * N up to which a linear program is asked
_WHOLE_PAIRS = 5_000  # and a mixed-integer one
_MOST_ASKED = 400
_ONE_PROGRAM_S = 5.0

Part = tuple[str, int]  # ("store", checkpoint), ("capacity", node), ("minimum", node), ("apart", set), ("moves", 0)


@dataclass(frozen=True)
class Conflict:
    """Parts that cannot hold together; `whole` when parts of checkpoints could; `smallest` when each is needed."""

    parts: tuple[Part, ...]
    whole: bool
    smallest: bool

    def of(self, kind: str) -> IntArray:
        """The indices of the parts of a kind, in ascending order."""
        return np.array(sorted(index for name, index in self.parts if name == kind), dtype=np.int64)


class Parts:
    """The parts of a problem, and programs of some of them."""

    def __init__(self, problem: CheckpointAllocation) -> None:
        self.problem = problem
        self.fits: BoolArray = fitting(problem)
        self.apart = [
            np.array(members)
            for found in cliques(problem)
            for members in ([found.tolist()] if is_clique(problem, found) else _pairs(problem, found))
        ]

    @cached_property
    def every(self) -> tuple[Part, ...]:
        """All parts: those that are seldom needed come first, and go first."""
        p = self.problem
        found: list[Part] = [("moves", 0)] if p.max_moves is not None else []
        found += [("minimum", int(n)) for n in np.flatnonzero(p.lower > 0)]
        found += [("apart", k) for k in range(len(self.apart))]
        found += [("store", int(j)) for j in np.argsort(p.weights.max(axis=1), kind="stable")]
        if p.capacity is not None:
            found += [("capacity", int(n)) for n in np.argsort(-p.upper, kind="stable")]
        return tuple(found)

    def multipliers(self, parts: tuple[Part, ...]) -> dict[tuple[str, int, int], float] | None:
        """What proves that no division of checkpoints keeps these parts; None where one does, or on failure."""
        from scipy.optimize import linprog  # noqa: PLC0415 - slow to load

        j, n = np.nonzero(self.fits)
        rows, names = self._rows(parts, j, n)
        if not rows:
            return None
        matrix, limit = _matrix(rows, len(j) + len(rows), np.arange(len(rows)) + len(j))
        once = _once(j, len(j) + len(rows), self.problem.n_checkpoints)
        cost = np.concatenate([np.zeros(len(j)), np.ones(len(rows))])
        with quiet_stdout():
            answer: Any = linprog(
                cost, A_ub=_stacked(matrix, once), b_ub=np.concatenate([limit, np.ones(once.shape[0])]), method="highs"
            )
        if answer.status != 0 or answer.fun <= 0:
            return None
        paid = np.maximum(-np.asarray(answer.ineqlin.marginals)[: len(rows)], 0.0)
        return {name: float(value) for name, value in zip(names, paid, strict=True) if value > 1e-12}

    def _rows(
        self, parts: tuple[Part, ...], j: IntArray, n: IntArray
    ) -> tuple[list[tuple[IntArray, FloatArray, float]], list[tuple[str, int, int]]]:
        """Rows a x <= b of the parts, scaled to a largest b or a of about 1, and the name of each."""
        p = self.problem
        rows: list[tuple[IntArray, FloatArray, float]] = []
        names: list[tuple[str, int, int]] = []
        at_row = np.searchsorted(j, np.arange(p.n_checkpoints + 1))
        by_node = [np.flatnonzero(n == node) for node in range(p.n_nodes)]
        for kind, index in parts:
            if kind == "store":
                columns = np.arange(at_row[index], at_row[index + 1])
                rows.append((columns, -np.ones(len(columns)), -1.0))
                names.append((kind, index, 0))
            elif kind in ("capacity", "minimum"):
                columns = by_node[index]
                unit, sign = (p.upper[index], 1.0) if kind == "capacity" else (p.lower[index], -1.0)
                unit = max(float(unit), float(p.weights[j[columns], index].max(initial=0.0)), 1e-300)
                limit = float((p.upper if kind == "capacity" else p.lower)[index]) / unit
                rows.append((columns, sign * p.weights[j[columns], index] / unit, sign * limit))
                names.append((kind, index, 0))
            elif kind == "apart":
                for node, columns in enumerate(by_node):
                    together = columns[np.isin(j[columns], self.apart[index])]
                    if len(together) > 1:
                        rows.append((together, np.ones(len(together)), 1.0))
                        names.append((kind, index, node))
            elif p.current is not None and p.max_moves is not None:
                away = np.flatnonzero(p.current[j] != n)
                rows.append((away, np.ones(len(away)), float(p.max_moves)))
                names.append((kind, 0, 0))
        return rows, names

    def refutes(self, parts: tuple[Part, ...], paid: dict[tuple[str, int, int], float]) -> bool:
        """Whether multipliers prove that the parts cannot hold, in exact fractions."""
        p = self.problem
        node_price = [Fraction(0)] * p.n_nodes
        fixed = Fraction(0)
        beside: dict[tuple[int, int], Fraction] = {}
        moving = Fraction(0)
        for (kind, index, node), value in paid.items():
            if kind in ("capacity", "minimum"):
                limit = float((p.upper if kind == "capacity" else p.lower)[index])
                unit = max(limit, float(p.weights[self.fits[:, index], index].max(initial=0.0)), 1e-300)
                price = (1 if kind == "capacity" else -1) * Fraction(value) / Fraction(unit)
                node_price[index] += price
                fixed -= price * Fraction(limit)
            elif kind == "apart":
                fixed -= Fraction(value)
                for j in self.apart[index].tolist():
                    beside[j, node] = beside.get((j, node), Fraction(0)) + Fraction(value)
            elif kind == "moves" and p.max_moves is not None:
                moving += Fraction(value)
                fixed -= Fraction(value) * p.max_moves
        stored = {index for kind, index in parts if kind == "store"}
        if not self.fits[sorted(stored)].any(axis=1).all():
            return True  # one that no node may store
        return fixed + sum((self._least(j, node_price, beside, moving, stored) for j in self._all()), Fraction(0)) > 0

    def _all(self) -> range:
        return range(self.problem.n_checkpoints)

    def _least(
        self,
        j: int,
        node_price: list[Fraction],
        beside: dict[tuple[int, int], Fraction],
        moving: Fraction,
        stored: set[int],
    ) -> Fraction:
        """The least that a checkpoint adds to the right side; nothing where it need not be stored."""
        p = self.problem
        here = None if p.current is None else int(p.current[j])
        added = [
            node_price[n] * Fraction(float(p.weights[j, n]))
            + beside.get((j, n), Fraction(0))
            + (moving if here is not None and n != here else Fraction(0))
            for n in np.flatnonzero(self.fits[j]).tolist()
        ]
        return min(added, default=Fraction(0)) if j in stored else min([*added, Fraction(0)])

    def holds_whole(self, parts: tuple[Part, ...], time_limit_s: float) -> bool | None:
        """Whether whole checkpoints can keep the parts, by branch and bound; None where that is not decided."""
        problem = self._reduced(parts)
        if problem is None:
            return True
        nothing = Known(None, math.inf, np.zeros(problem.n_nodes), -math.inf)
        found = branch_and_bound(problem, nothing, time_limit_s=time_limit_s)
        return False if found.infeasible else True if found.assignment is not None else None

    def _reduced(self, parts: tuple[Part, ...]) -> CheckpointAllocation | None:
        """A problem of these parts alone; who need not be stored may go to further nodes, which hold all.

        There are as many of them as it takes to be apart there, too. That few move says that all others are stored.
        """
        p = self.problem
        kept = set(parts)
        stored = np.array([("store", j) in kept or ("moves", 0) in kept for j in self._all()])
        least = np.zeros(p.n_nodes) if p.capacity_min is None else p.capacity_min
        minima = np.array([least[n] if ("minimum", n) in kept else 0.0 for n in range(p.n_nodes)])
        rows = np.flatnonzero(stored | bool(minima.any()))
        if not len(rows):
            return None
        place = {j: k for k, j in enumerate(rows.tolist())}
        together = [
            (place[a], place[b])
            for k, members in enumerate(self.apart)
            if ("apart", k) in kept
            for a in members.tolist()
            for b in members.tolist()
            if a < b and a in place and b in place
        ]
        further = 1 + int(np.bincount(np.array(together, dtype=np.int64).ravel(), minlength=1).max())
        free = np.full(p.n_nodes + further, math.fsum(p.weights.max(axis=1).tolist()) * 2 + 1)
        for n in range(p.n_nodes):
            if ("capacity", n) in kept and p.capacity is not None:
                free[n] = p.capacity[n]
        allowed = np.column_stack([self.fits[rows], np.repeat(~stored[rows, None], further, axis=1)])
        moves: dict[str, Any] = {}
        if ("moves", 0) in kept and p.current is not None and p.max_moves is not None:
            moves = {"current": p.current[rows], "max_moves": p.max_moves}
        return CheckpointAllocation(
            cost=np.zeros(allowed.shape),
            load=np.column_stack([p.weights[rows], np.zeros((len(rows), further))]),
            capacity=free,
            capacity_min=np.minimum(np.append(minima, np.zeros(further)), free),
            forbidden=np.argwhere(~allowed),
            apart=np.array(together, dtype=np.int64).reshape(-1, 2),
            **moves,
        )


def divided(problem: CheckpointAllocation, *, time_limit_s: float) -> Conflict | None:
    """The parts that not even divided checkpoints can keep; None where these can, or the problem is too large.

    All parts are looked at in any case; for fewer there is time until the limit.
    """
    if problem.cost.size > _PAIRS:
        return None
    parts, until = Parts(problem), time.perf_counter() + time_limit_s
    paid = parts.multipliers(parts.every)
    if paid is None or not parts.refutes(parts.every, paid):
        return None
    used = {(kind, index) for kind, index, _ in paid}
    start = tuple(part for part in parts.every if part in used)

    def refuted(some: tuple[Part, ...]) -> bool:
        found = parts.multipliers(some) if time.perf_counter() < until else None
        return found is not None and parts.refutes(some, found)

    kept, smallest = filtered(start if refuted(start) else parts.every, refuted)
    return Conflict(kept, False, smallest and time.perf_counter() < until)


def undivided(problem: CheckpointAllocation, *, time_limit_s: float) -> Conflict | None:
    """The parts that whole checkpoints cannot keep; None for a problem that is too large, or not decided."""
    if problem.cost.size > _WHOLE_PAIRS:
        return None
    parts, until = Parts(problem), time.perf_counter() + time_limit_s

    def refuted(some: tuple[Part, ...]) -> bool:
        left = until - time.perf_counter()
        return left > 0 and parts.holds_whole(some, min(left, _ONE_PROGRAM_S)) is False

    if not refuted(parts.every):
        return None
    kept, smallest = filtered(parts.every, refuted)
    return Conflict(kept, True, smallest and time.perf_counter() < until)


def filtered(
    parts: tuple[Part, ...], refuted: Callable[[tuple[Part, ...]], bool], most: int = _MOST_ASKED
) -> tuple[tuple[Part, ...], bool]:
    """The parts without those that are not needed to be refuted, and whether each that is left was tried."""
    kept, asked = parts, 0
    step = max(1, len(parts) // 2)
    while True:
        at = 0
        while at < len(kept):
            if asked >= most:
                return kept, False
            rest = kept[:at] + kept[at + step :]
            asked += 1
            if len(rest) < len(kept) and refuted(rest):
                kept = rest
            else:
                at += step
        if step == 1:
            return kept, True
        step = max(1, min(step // 2, len(kept) // 2))


def _pairs(problem: CheckpointAllocation, members: IntArray) -> list[list[int]]:
    return [[a, b] for a in members.tolist() for b in problem.neighbours[a] if a < b]


def _matrix(rows: list[tuple[IntArray, FloatArray, float]], width: int, elastic: IntArray) -> tuple[Any, FloatArray]:
    """Rows a x - s <= b with a variable s for what each is short of, and the b."""
    from scipy import sparse  # noqa: PLC0415

    index = [np.append(columns, elastic[k]) for k, (columns, _, _) in enumerate(rows)]
    value = [np.append(values, -1.0) for _, values, _ in rows]
    pointer = np.concatenate([[0], np.cumsum([len(one) for one in index])])
    matrix = sparse.csr_array((np.concatenate(value), np.concatenate(index), pointer), shape=(len(rows), width))
    return matrix, np.array([limit for _, _, limit in rows])


def _once(j: IntArray, width: int, n_checkpoints: int) -> Any:
    """Each checkpoint is stored at most once."""
    from scipy import sparse  # noqa: PLC0415

    return sparse.csr_array((np.ones(len(j)), (j, np.arange(len(j)))), shape=(n_checkpoints, width))


def _stacked(first: Any, second: Any) -> Any:
    from scipy import sparse  # noqa: PLC0415

    return sparse.vstack([first, second]).tocsr()
