"""Sets of queries that fit: filled by value per marginal weight, and improved by taking some out and filling again."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

import numpy as np

from models.checked_arrays import BoolArray
from models.selection import QuerySelection
from optimizer.selection.scaling import exact_integers

_LARGEST_RATE = 1e300
_MOST_TRIED = 64  # queries taken out at once, at most


class Filling:
    """A set of queries within the capacity that changes; value and weight are exact, in units of their own."""

    def __init__(self, problem: QuerySelection, possible: BoolArray) -> None:
        self._value, _ = exact_integers(problem.value)
        self._real_value, self._real_weight = problem.value.tolist(), problem.weight.tolist()
        self._weight, (self._room,) = exact_integers(problem.weight, problem.limit)
        self._possible = [q for q in np.flatnonzero(possible).tolist() if self._value[q] > 0]
        self._operators = [problem.operators_of(q).tolist() for q in range(problem.n_queries)]
        self._queries: list[list[int]] = [[] for _ in range(problem.n_operators)]
        for q in self._possible:
            for o in self._operators[q]:
                self._queries[o].append(q)
        self.reset([])

    def reset(self, queries: Iterable[int]) -> None:
        """Start again from a set of queries that fits."""
        self._users = [0] * len(self._queries)
        self._marginal = [sum(self._weight[o] for o in operators) for operators in self._operators]
        self._chosen: set[int] = set()
        self.value = self.weight = 0
        for q in queries:
            self.put(q)

    def put(self, query: int) -> list[int]:
        """Take a query in; the queries that cost less to take in now."""
        self._chosen.add(query)
        self.value += self._value[query]
        self.weight += self._marginal[query]
        cheaper = []
        for o in self._operators[query]:
            self._users[o] += 1
            if self._users[o] == 1:
                for other in self._queries[o]:
                    self._marginal[other] -= self._weight[o]
                cheaper += self._queries[o]
        return cheaper

    def drop(self, query: int) -> list[int]:
        """Take a query out; the queries that cost more to take in now."""
        self._chosen.discard(query)
        self.value -= self._value[query]
        dearer = []
        for o in self._operators[query]:
            self._users[o] -= 1
            if not self._users[o]:
                self.weight -= self._weight[o]
                for other in self._queries[o]:
                    self._marginal[other] += self._weight[o]
                dearer += self._queries[o]
        return dearer

    def fill(self, among: Iterable[int] | None = None, noise: dict[int, float] | None = None) -> list[int]:
        """Take in queries by value per marginal weight until none fits; the queries taken, in order."""
        heap: list[tuple[float, int]] = []
        for q in self._possible if among is None else among:
            self._push(heap, q, noise)
        taken = []
        while heap:
            rate, q = heapq.heappop(heap)
            if q in self._chosen or rate != self._key(q, noise) or self.weight + self._marginal[q] > self._room:
                continue
            taken.append(q)
            for other in self.put(q):
                self._push(heap, other, noise)
        return taken

    def _push(self, heap: list[tuple[float, int]], q: int, noise: dict[int, float] | None) -> None:
        if q not in self._chosen and self.weight + self._marginal[q] <= self._room:
            heapq.heappush(heap, (self._key(q, noise), q))

    def _key(self, q: int, noise: dict[int, float] | None) -> float:
        return -_rate(self._value[q], self._marginal[q]) * (noise.get(q, 1.0) if noise else 1.0)

    def lighten(self, queries: Iterable[int], *, shared: bool = False) -> None:
        """Start from a set that may be too heavy: queries that are worth least for what they free go first.

        `shared`: for their part of the weight of their operators, which all who use them bear alike.
        """
        self.reset(queries)
        heap = [(self._kept_rate(q, shared), q) for q in self._chosen]
        heapq.heapify(heap)
        while self.weight > self._room and heap:
            rate, q = heapq.heappop(heap)
            now = self._kept_rate(q, shared)
            if now != rate:  # others went, so that now it frees more than it did
                heapq.heappush(heap, (now, q))
                continue
            self.drop(q)

    def _kept_rate(self, q: int, shared: bool) -> float:
        if shared:
            borne = math.fsum(self._real_weight[o] / self._users[o] for o in self._operators[q])
            return self._real_value[q] / borne if borne > self._real_value[q] / _LARGEST_RATE else math.inf
        return _rate(self._value[q], sum(self._weight[o] for o in self._operators[q] if self._users[o] == 1))

    @property
    def chosen(self) -> list[int]:
        """The queries of the set, in ascending order."""
        return sorted(self._chosen)

    def improve(self, rounds: int, draw: np.random.Generator, undecided: list[int]) -> None:
        """Take a few undecided queries out, fill with noise, and keep what is not worse; that many times."""
        free = set(undecided)
        for _ in range(rounds):
            inside = [q for q in undecided if q in self._chosen]
            if not inside:
                return
            before = self.value
            out = self._neighbours(inside[int(draw.integers(len(inside)))], free, int(draw.integers(1, 9)))
            for q in out:
                self.drop(q)
            noise = dict(zip(undecided, np.exp(draw.normal(0.0, 0.3, len(undecided))).tolist(), strict=True))
            taken = self.fill(undecided, noise)
            if self.value < before:
                for q in taken:
                    self.drop(q)
                for q in out:
                    self.put(q)

    def _neighbours(self, query: int, free: set[int], most: int) -> list[int]:
        """The query and chosen ones that share operators with it."""
        found = {query: None}
        for o in self._operators[query]:
            for other in self._queries[o][:_MOST_TRIED]:
                if len(found) >= most:
                    return list(found)
                if other in self._chosen and other in free:
                    found[other] = None
        return list(found)


def _rate(value: int, weight: int) -> float:
    try:
        return value / weight if weight else math.inf
    except OverflowError:
        return math.inf
