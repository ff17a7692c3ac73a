"""P(query is broken) for every query and every setting of failure probabilities, with the method that found it.

Cuts are minimal (`cuts`), and parts of a query that share no element are independent of each other. Each part is found
by the first method that can: `product` for a single cut, `inclusion-exclusion` for up to 16 cuts where all hosts are
equal, `factoring` under a budget of nodes, `elimination` up to a width, else `bounds`. A query is named by the last of
these that a part of it took.

>>> from models.reliability.queries import Queries, equal_hosts
>>> queries = Queries(3, instances=((0, 1), (1, 2)), operators=((0,), (0, 1)))
>>> found = unavailability(queries, equal_hosts([0.1, 1e-5], 3))
>>> found.methods, found.low[1].round(14).tolist()
(('product', 'inclusion-exclusion'), [1e-10, 2e-10])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, frozen
from models.reliability.counting import MOST_CUTS, MOST_ELEMENTS, Counts, at_equal_chance, breaking_sets
from models.reliability.cuts import Cuts, components, elements, joint_cuts, query_cuts, support
from models.reliability.elimination import eliminated
from models.reliability.factoring import MOST_NODES, TooManyNodes, bracketed, factored
from models.reliability.limits import one_of
from models.reliability.queries import Failures, Queries

METHODS = ("product", "inclusion-exclusion", "factoring", "elimination", "bounds")
BOUNDS = "bounds"
_MOST_BRANCHED = 64  # cuts of a part; with more, elimination is tried first


@dataclass(frozen=True, eq=False)
class Unavailability:
    """Bounds of P(query is broken), (n_p, n_queries) each, and the method of each query; equal bounds are exact."""

    low: FloatArray
    high: FloatArray
    methods: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Return whether every figure is exact up to rounding."""
        return BOUNDS not in self.methods


class Engine:
    """Finds P(broken) of sets of cuts, each part once: queries share operators, and with them parts."""

    def __init__(self, failures: Failures, most_nodes: int = MOST_NODES) -> None:
        self._chances = failures.chances
        self._equal = failures.equal
        self._most_nodes = most_nodes
        self._parts: dict[frozenset[int], int] = {}
        self._curves: dict[Counts, FloatArray] = {}
        self._low: list[FloatArray] = []
        self._high: list[FloatArray] = []
        self._methods: list[int] = []

    def of(self, of_queries: Sequence[Cuts]) -> Unavailability:
        """Return P(broken) of each set of minimal cuts."""
        members = [self._indices(cuts) for cuts in of_queries]
        shape = (len(self._chances), len(members))
        low, high = np.zeros(shape), np.zeros(shape)
        methods = []
        lows = np.array(self._low or [np.zeros(shape[0])])
        highs = np.array(self._high or [np.zeros(shape[0])])
        for query, parts in enumerate(members):
            low[:, query] = _of_parts(lows, parts)
            worst = max((self._methods[part] for part in parts), default=0)
            high[:, query] = low[:, query] if METHODS[worst] != BOUNDS else _of_parts(highs, parts)
            methods.append(METHODS[worst])
        return Unavailability(frozen(low), frozen(high), tuple(methods))

    def broken(self, cuts: Cuts) -> tuple[FloatArray, FloatArray]:
        """Return the bounds (low, high) of P(broken) of one set of minimal cuts, (n_p,) each."""
        found = self.of([cuts])
        return found.low[:, 0], found.high[:, 0]

    def _indices(self, cuts: Cuts) -> list[int]:
        if len(cuts) == 1:
            return [self._index(cuts)]
        return [self._index(part) for part in components(cuts)]

    def _index(self, part: Cuts) -> int:
        key = frozenset(part)
        if key not in self._parts:
            low, high, method = self._solved(part)
            self._parts[key] = len(self._low)
            self._low.append(low)
            self._high.append(high)
            self._methods.append(METHODS.index(method))
        return self._parts[key]

    def _solved(self, part: Cuts) -> tuple[FloatArray, FloatArray, str]:
        if len(part) == 1:
            found = self._product(part[0])
            return found, found, "product"
        if self._equal is not None and len(part) <= MOST_CUTS and support(part).bit_count() <= MOST_ELEMENTS:
            found = self._curve(breaking_sets(part))
            return found, found, "inclusion-exclusion"
        # Both are exact; the one that is quicker as a rule goes first, the other is tried if it gives up.
        order = ("factoring", "elimination") if len(part) <= _MOST_BRANCHED else ("elimination", "factoring")
        for method in order:
            answer = self._by(method, part)
            if answer is not None:
                return answer, answer, method
        # Last resort: bounds that hold, from as much factoring as the budget allows.
        return *bracketed(part, self._chances, self._most_nodes), BOUNDS

    def _product(self, cut: int) -> FloatArray:
        if self._equal is not None:
            size = cut.bit_count()
            return self._curve((0,) * size + (1,))
        found: FloatArray = self._chances[:, list(elements(cut))].prod(axis=1)
        return found

    def _curve(self, counts: Counts) -> FloatArray:
        assert self._equal is not None
        if counts not in self._curves:
            self._curves[counts] = at_equal_chance(counts, self._equal)
        return self._curves[counts]

    def _by(self, method: str, part: Cuts) -> FloatArray | None:
        if method == "elimination":
            return eliminated(part, self._chances)
        try:
            return factored(part, self._chances, self._most_nodes)
        except TooManyNodes:
            return None


def _of_parts(chances: FloatArray, parts: list[int]) -> FloatArray | float:
    if not parts:
        return 0.0
    return chances[parts[0]] if len(parts) == 1 else one_of(chances[parts])


def unavailability(queries: Queries, failures: Failures, *, most_nodes: int = MOST_NODES) -> Unavailability:
    """Return P(broken) of every query in every setting; exact but where the methods say `bounds`."""
    return Engine(failures, most_nodes).of(query_cuts(queries, failures))


def some_broken(queries: Queries, failures: Failures, *, most_nodes: int = MOST_NODES) -> Unavailability:
    """Return P(at least one query is broken) as that of a single query, (n_p, 1)."""
    return Engine(failures, most_nodes).of([joint_cuts(query_cuts(queries, failures))])


def mean_broken(queries: Queries, found: Unavailability) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the expected share of queries, by weight, that are broken, (n_p,) each."""
    return found.low @ queries.shares, found.high @ queries.shares
