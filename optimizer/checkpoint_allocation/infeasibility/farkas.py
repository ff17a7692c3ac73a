"""Multipliers that refute parts of a problem, even where checkpoints may be divided (Farkas).

For lambda, mu, nu, kappa >= 0, on capacities, minima, anti-affinity sets and moves, every allocation has

    0 >= sum lambda (load - capacity) + sum mu (minimum - load) + sum nu (stored - 1) + kappa (moves - most)

and the right side is at least what each checkpoint adds to it on its best node (Farkas 1902). A linear program finds
the multipliers: it allows all rows the same shortage t, so their sum is 1, and few of them are above 0 (the extreme
rays of the multipliers are irreducible; Gleeson and Ryan 1990). Where that shortage is too small for the solver, each
row has one of its own. Its answer is not trusted: in float64 with a bound on the rounding, else in fractions, the sum
decides. Checkpoints that add least are left out while it stays above 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.common.solvers import linear_program, sparse_matrix

_EPS = float(np.finfo(np.float64).eps)
_LEAST = 1e-12  # multipliers below it count for nothing
_ASKING = 60  # what making a program costs, in iterations


@dataclass(frozen=True)
class Some:
    """Parts as arrays: checkpoints stored (J,), capacities and minima kept (N,), anti-affinity sets, and moves."""

    stored: BoolArray
    capacity: BoolArray
    minimum: BoolArray
    anti_affinity: tuple[int, ...]
    moves: bool


@dataclass(frozen=True)
class Multipliers:
    """On capacities and minima (N,) per load, on moves, and on anti-affinity sets: set, node and value of each.

    All are at least 0. `anti_affinity` has (number of the set, node, multiplier), only where it is above 0.
    """

    capacity: FloatArray
    minimum: FloatArray
    moves: float
    anti_affinity: tuple[tuple[int, int, float], ...]


@dataclass
class _Rows:
    """Rows a x <= b in the making: what stands in them, and what each is divided by."""

    row: list[IntArray]
    column: list[IntArray]
    value: list[FloatArray]
    limit: list[float]

    def add(self, columns: IntArray, values: FloatArray, limit: float) -> None:
        self.row.append(np.full(len(columns), len(self.limit), dtype=np.int64))
        self.column.append(columns)
        self.value.append(values)
        self.limit.append(limit)


class Farkas:
    """Multipliers for parts of one problem; `anti_affinity`: the members of each anti-affinity set.

    `program` finds multipliers by a linear program in floating point, `proven` decides in exact arithmetic whether they
    refute the parts, and which of these they need.
    """

    def __init__(self, problem: CheckpointAllocation, fits: BoolArray, anti_affinity: list[IntArray]) -> None:
        self.problem, self.fits, self.anti_affinity = problem, fits, anti_affinity
        here = np.arange(problem.n_nodes)
        self.away: BoolArray = np.zeros(fits.shape, dtype=np.bool_)
        if problem.current is not None:
            self.away = problem.current[:, None] != here
        # Units make all rows about 1: multipliers of different kinds are then comparable in the sum.
        at_most = np.where(fits, problem.weights, 0.0).max(axis=0)
        self.upper_unit = np.maximum(
            np.maximum(np.where(np.isfinite(problem.upper), problem.upper, 0), at_most), 1e-300
        )
        self.lower_unit = np.maximum(np.maximum(problem.lower, at_most), 1e-300)

    def program(
        self, some: Some, *, each: bool, most_work: float, time_limit_s: float
    ) -> tuple[Multipliers | None, int, bool]:
        """Return multipliers that refute the parts, or None; the work of the linear program; whether a limit struck.

        `each` row may have a shortage of its own. The work is in iterations times entries.
        """
        # A minimum counts what anybody brings, so with one all checkpoints take part, stored or not.
        used = some.stored | bool(some.minimum.any())
        j, n = np.nonzero(self.fits & used[:, None])
        rows, sets = self._rows(some, j, n)
        stored = np.flatnonzero(some.stored)
        count, width = len(rows.limit) + len(stored), len(j)
        if not count or not width:
            return None, 0, False
        place = np.full(self.problem.n_checkpoints, -1)
        place[stored] = len(rows.limit) + np.arange(len(stored))
        asked = np.flatnonzero(place[j] >= 0)
        once_row = np.unique(j, return_inverse=True)[1].reshape(-1)
        short = np.arange(count)
        row = np.concatenate([*rows.row, place[j[asked]], short, count + once_row])
        # One column of shortage for all rows, or one for each (`each`).
        column = np.concatenate([*rows.column, asked, width + (short if each else 0 * short), np.arange(width)])
        value = np.concatenate([*rows.value, -np.ones(len(asked)), -np.ones(count), np.ones(width)])
        n_once = int(once_row.max()) + 1
        n_short = count if each else 1
        matrix = sparse_matrix(value, row, column, (count + n_once, width + n_short))
        limit = np.concatenate([rows.limit, -np.ones(len(stored)), np.ones(n_once)])
        answer = linear_program(
            np.concatenate([np.zeros(width), np.ones(n_short)]),
            at_most=(matrix, limit),
            method="highs-ds",
            limit_s=None if math.isinf(time_limit_s) else max(time_limit_s, 1e-3),
            iterations=None if math.isinf(most_work) else int(max(1, most_work // len(value) - _ASKING)),
        )
        work = (_ASKING + answer.iterations) * len(value)
        # Shortage 0: these parts have a divided solution, so there are no multipliers.
        if not answer.is_optimal or answer.objective <= 0:
            return None, work, not answer.is_optimal
        # Duals of the rows are the multipliers; those of "at most once" are not needed: each takes its best node.
        paid = np.maximum(-answer.dual_at_most[:count], 0.0)
        # Multipliers within the tolerance of the solver would only name parts that do not matter.
        return self._named(some, sets, np.where(paid > _LEAST, paid, 0.0)), work, False

    def _rows(self, some: Some, j: IntArray, n: IntArray) -> tuple[_Rows, list[tuple[int, int]]]:
        """Return rows of capacities, minima, moves and anti-affinity sets, scaled; set and node of the last."""
        p = self.problem
        rows, sets = _Rows([], [], [], []), []
        order = np.argsort(n, kind="stable")
        at = np.searchsorted(n[order], np.arange(p.n_nodes + 1))
        by_node = [order[at[k] : at[k + 1]] for k in range(p.n_nodes)]
        # In the order in which `_named` reads them: capacities, minima, moves, sets.
        for k in np.flatnonzero(some.capacity).tolist():
            unit = self.upper_unit[k]
            rows.add(by_node[k], p.weights[j[by_node[k]], k] / unit, float(p.upper[k] / unit))
        for k in np.flatnonzero(some.minimum).tolist():
            unit = self.lower_unit[k]
            rows.add(by_node[k], -p.weights[j[by_node[k]], k] / unit, -float(p.lower[k] / unit))
        if some.moves and p.max_moves is not None:
            away = np.flatnonzero(self.away[j, n])
            rows.add(away, np.ones(len(away)), float(p.max_moves))
        pair = np.full(self.fits.shape, -1, dtype=np.int64) if some.anti_affinity else None
        if pair is not None:
            pair[j, n] = np.arange(len(j))
            for k in some.anti_affinity:
                for node, together in enumerate(pair[self.anti_affinity[k]].T):
                    here = together[together >= 0]
                    # A single copy on a node breaks nothing.
                    if len(here) > 1:
                        rows.add(here, np.ones(len(here)), 1.0)
                        sets.append((k, node))
        return rows, sets

    def _named(self, some: Some, sets: list[tuple[int, int]], paid: FloatArray) -> Multipliers:
        """Return the multipliers of rows as those of loads, moves and sets."""
        capacity, minimum = np.zeros(self.problem.n_nodes), np.zeros(self.problem.n_nodes)
        first = int(some.capacity.sum())
        second = first + int(some.minimum.sum())
        capacity[some.capacity] = paid[:first] / self.upper_unit[some.capacity]
        minimum[some.minimum] = paid[first:second] / self.lower_unit[some.minimum]
        third = second + int(some.moves)
        values = paid[third : third + len(sets)].tolist()
        anti_affinity = tuple((k, node, value) for (k, node), value in zip(sets, values, strict=True) if value > 0)
        return Multipliers(capacity, minimum, float(paid[second]) if some.moves else 0.0, anti_affinity)

    def proven(self, some: Some, paid: Multipliers) -> Some | None:
        """Return a subset of the parts that these multipliers refute; None where they do not even refute all."""
        fixed, (added, wrong) = self._fixed(paid), self._added(paid)
        # The multipliers come from floating point: the sum of the proof is computed anew.
        if not self._above(some.stored, paid, fixed, added, wrong):
            return None
        needed = some.stored & (added > 0)
        order = np.flatnonzero(needed)
        order = order[np.argsort(added[order], kind="stable")]  # those that add least go first
        # A part less weakens the proof by what it adds; the smallest go while the sum certainly stays above 0.
        rest = float(fixed) + math.fsum(np.minimum(added, 0.0).tolist())
        # Twice the error: once for the sum that is left, once for what was subtracted.
        spare = math.fsum([rest, *added[order].tolist()]) - 2 * math.fsum(wrong.tolist()) - np.cumsum(added[order])
        needed[order[: int((spare > 0).sum())]] = False
        # The quick subtraction was too optimistic: all checkpoints stay, which was proven above.
        if not self._above(needed, paid, fixed, added, wrong):
            needed = some.stored
        sets = tuple(sorted({k for k, _, _ in paid.anti_affinity}))
        capacity, minimum = some.capacity & (paid.capacity > 0), some.minimum & (paid.minimum > 0)
        return Some(needed, capacity, minimum, sets, paid.moves > 0)

    def _above(
        self, stored: BoolArray, paid: Multipliers, fixed: Fraction, added: FloatArray, wrong: FloatArray
    ) -> bool:
        """Return whether the right side is above 0: in float64 where that is sure, else in fractions."""
        total = math.fsum([float(fixed), *np.where(stored, added, np.minimum(added, 0.0)).tolist()])
        error = math.fsum([8 * _EPS * abs(float(fixed)), 8 * _EPS * abs(total), *wrong.tolist()])
        # Only near zero the slow exact arithmetic decides.
        return total > 0 if abs(total) > error else self._exact(stored, paid, fixed) > 0

    def _fixed(self, paid: Multipliers) -> Fraction:
        """Return the terms that do not depend on where checkpoints are."""
        p, whole = self.problem, Fraction(0)
        # Fractions: these terms are few and large, and cancel.
        for n in np.flatnonzero(paid.capacity).tolist():
            whole -= Fraction(float(paid.capacity[n])) * Fraction(float(p.upper[n]))
        for n in np.flatnonzero(paid.minimum).tolist():
            whole += Fraction(float(paid.minimum[n])) * Fraction(float(p.lower[n]))
        for _, _, value in paid.anti_affinity:
            whole -= Fraction(value)
        return whole - Fraction(paid.moves) * (p.max_moves or 0)

    def _added(self, paid: Multipliers) -> tuple[FloatArray, FloatArray]:
        """Return the least that each checkpoint adds, (J,), in float64, and the error of that."""
        weights = self.problem.weights
        terms = np.full(self.fits.shape, 8.0)
        beside: FloatArray = np.where(self.away, paid.moves, 0.0)
        for k, node, value in paid.anti_affinity:
            beside[self.anti_affinity[k], node] += value
            terms[self.anti_affinity[k], node] += 1
        added = (paid.capacity - paid.minimum) * weights + beside
        # Relative rounding for each term of the sum, and a hair for numbers below the normal range.
        error: FloatArray = terms * _EPS * ((paid.capacity + paid.minimum) * weights + beside) + 1e-300
        least: FloatArray = np.where(self.fits, added, np.inf).min(axis=1)
        return np.where(np.isfinite(least), least, 0.0), np.where(self.fits, error, 0.0).max(axis=1)

    def _exact(self, stored: BoolArray, paid: Multipliers, fixed: Fraction) -> Fraction:
        """Return the right side of the inequality above, not rounded."""
        there: dict[tuple[int, int], Fraction] = {}
        for k, node, value in paid.anti_affinity:
            for j in self.anti_affinity[k].tolist():
                there[j, node] = there.get((j, node), Fraction(0)) + Fraction(value)
        price = [
            Fraction(more) - Fraction(less)
            for more, less in zip(paid.capacity.tolist(), paid.minimum.tolist(), strict=True)
        ]
        weights, total = self.problem.weights, fixed
        for j, here in enumerate(self.fits):
            added = [
                price[n] * Fraction(float(weights[j, n]))
                + there.get((j, n), Fraction(0))
                + (Fraction(paid.moves) if self.away[j, n] else Fraction(0))
                for n in np.flatnonzero(here).tolist()
            ]
            # A checkpoint that need not be stored may also add nothing.
            total += min(added, default=Fraction(0)) if stored[j] else min([*added, Fraction(0)])
        return total
