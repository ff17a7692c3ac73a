"""Sets of queries that fit: filled by value per marginal weight, and improved by taking some out and filling again.

The marginal weight of a query is that of its operators that no chosen query uses yet. Sums are exact, so the same
queries are chosen whatever order their weights are added in.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

import numpy as np

from models.checked_arrays import BoolArray, IntArray
from models.planning.selection import QuerySelection
from optimizer.common.enumeration import exact_integers

_LARGEST_RATE = 1e300
_ROUGH = 1e-9  # of all weight: what rounding may make of a marginal weight
_ROUND = 150  # what a round takes beside the marginal weights it changes, in their unit
_LOOKED = 48  # queries that a round fills with
_NOISE = 0.3
_MOST_TRIED = 64  # queries taken out at once, at most


class Filling:
    """A set of queries within the capacity that changes; value and weight are exact, in units of their own.

    Invariant: the marginal weight of each query is that of its operators which no query of the set uses. `put` and
    `drop` keep it up to date, and return the queries whose marginal weight they changed.
    """

    def __init__(self, problem: QuerySelection, possible: BoolArray) -> None:
        (self._value,) = exact_integers(problem.value.tolist())
        self._real_value, self._real_weight = problem.value.tolist(), problem.weight.tolist()
        self._weight, (self._room,) = exact_integers(problem.weight.tolist(), [problem.limit])
        self._possible = [q for q in np.flatnonzero(possible).tolist() if self._value[q] > 0]
        self._operators = [problem.operators_of(q).tolist() for q in range(problem.n_queries)]
        self._queries: list[list[int]] = [[] for _ in range(problem.n_operators)]
        for q in self._possible:
            for o in self._operators[q]:
                self._queries[o].append(q)
        self._who = [np.array(queries, dtype=np.int64) for queries in self._queries]
        self._rough_value = problem.value.astype(np.float64)
        self._scale = 1 << max(0, max([self._room, *self._weight]).bit_length() - 900)  # so that no float overflows
        self._rough_weight = [weight / self._scale for weight in self._weight]
        alone = [math.fsum(self._rough_weight[o] for o in operators) for operators in self._operators]
        self._alone = np.array(alone, dtype=np.float64)
        self._allowance = _ROUGH * max(math.fsum(self._rough_weight), self._room / self._scale)
        self.touched = 0  # marginal weights that were changed, since it was made
        self.reset([])

    def reset(self, queries: Iterable[int]) -> None:
        """Start again from a set of queries that fits, without those that are worth nothing."""
        self._users = [0] * len(self._queries)
        self._marginal = [sum(self._weight[o] for o in operators) for operators in self._operators]
        self._chosen: set[int] = set()
        # Two counts: exact marginal weights decide, rough ones in float64 only say what is worth a look.
        self._rough = self._alone.copy()  # marginal weights up to rounding: they say what is worth a look
        self._is_in = np.zeros(len(self._operators), dtype=np.bool_)
        self.value = self.weight = 0
        for q in queries:
            if self._value[q] > 0:
                self.put(q)

    def put(self, query: int) -> list[int]:
        """Take a query in; the queries that cost less to take in now."""
        self._chosen.add(query)
        self._is_in[query] = True
        self.value += self._value[query]
        self.weight += self._marginal[query]
        cheaper = []
        for o in self._operators[query]:
            self._users[o] += 1
            # Only the first user of an operator pays for it: for all other queries it is free from now on.
            if self._users[o] == 1:
                self._rough[self._who[o]] -= self._rough_weight[o]
                for other in self._queries[o]:
                    self._marginal[other] -= self._weight[o]
                cheaper += self._queries[o]
        self.touched += len(cheaper)
        return cheaper

    def drop(self, query: int) -> list[int]:
        """Take a query out; the queries that cost more to take in now."""
        self._chosen.discard(query)
        self._is_in[query] = False
        self.value -= self._value[query]
        dearer = []
        for o in self._operators[query]:
            self._users[o] -= 1
            # The last user frees the operator: it costs again for all queries that need it.
            if not self._users[o]:
                self.weight -= self._weight[o]
                self._rough[self._who[o]] += self._rough_weight[o]
                for other in self._queries[o]:
                    self._marginal[other] += self._weight[o]
                dearer += self._queries[o]
        self.touched += len(dearer)
        return dearer

    def fill(self, among: Iterable[int] | None = None, noise: dict[int, float] | None = None) -> list[int]:
        """Take in queries by value per marginal weight until none fits; the queries taken, in order."""
        heap: list[tuple[float, int]] = []
        for q in self._possible if among is None else among:
            self._push(heap, q, noise)
        taken = []
        while heap:
            rate, q = heapq.heappop(heap)
            # A stale entry: the query was pushed again with a better rate, or no longer fits.
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
        """Return the queries of the set, in ascending order."""
        return sorted(self._chosen)

    def improve(self, work: float, draw: np.random.Generator, undecided: list[int]) -> None:
        """Take a few undecided queries out, fill with noise, and keep what is not worse; again and again.

        Each marginal weight that is changed is one of work, and each round takes some more.
        """
        free, among = set(undecided), np.array(undecided, dtype=np.int64)
        most = self.touched + work
        while self.touched < most:
            self.touched += _ROUND
            inside = among[self._is_in[among]]
            if not len(inside):
                return
            before = self.value
            out = self._neighbours(int(inside[draw.integers(len(inside))]), free, int(draw.integers(1, 9)))
            for q in out:
                self.drop(q)
            noise = self._near(among, draw)
            taken = self.fill(noise, noise)
            # Worse: taken back in full. Equal is kept, for it leads to other sets.
            if self.value < before:
                for q in taken:
                    self.drop(q)
                for q in out:
                    self.put(q)

    def _near(self, among: IntArray, draw: np.random.Generator) -> dict[int, float]:
        """Return the best queries outside that may fit, each with its noise: by rates up to rounding."""
        room = (self._room - self.weight) / self._scale + self._allowance
        outside = among[(self._rough[among] <= room) & ~self._is_in[among]]
        noise = np.exp(draw.normal(0.0, _NOISE, len(outside)))
        rate = self._rough_value[outside] * noise / np.maximum(self._rough[outside], self._allowance)
        if len(outside) > _LOOKED:
            best = np.sort(np.argpartition(-rate, _LOOKED - 1)[:_LOOKED])
            outside, noise = outside[best], noise[best]
        return dict(zip(outside.tolist(), noise.tolist(), strict=True))

    def _neighbours(self, query: int, free: set[int], most: int) -> list[int]:
        """Return the query and chosen ones that share operators with it."""
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
