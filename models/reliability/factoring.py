"""Factoring: condition on one element after the other until the rest is simple.

broken(cuts) = down[e] broken(cuts with e down) + up[e] broken(cuts with e up); parts that share no element are
independent of each other, a cut of one element is its own part (unit propagation), and equal remainders are computed
once. Sums and products of what is not negative keep every digit. (Satyanarayana and Chang, *Network reliability and
the factoring theorem*, Networks 1983.)

The same code serves three kinds of numbers: arrays of probabilities, fractions in tests, and whole numbers that hold
a count for each size of failure set (`counts_by_size`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray
from models.reliability.cuts import Cuts, components, elements, failed, minimal, support, survived
from models.reliability.limits import product_of, sandwich

MOST_NODES = 4_000
_DEEPEST = 300  # of the recursion


class TooManyNodes(Exception):
    """The budget of nodes is spent."""


class Factoring:
    """Factoring on elements, for any commutative weights: probabilities, or polynomials that count.

    `total(n)` is the weight of `n` elements that do not matter: 1 for probabilities."""

    def __init__(
        self,
        down: Sequence[Any] | Mapping[int, Any],
        up: Sequence[Any] | Mapping[int, Any],
        total: Callable[[int], Any] = lambda n: 1,
        most_nodes: int = MOST_NODES,
    ) -> None:
        self.nodes = 0
        self._down, self._up, self._total, self._most = down, up, total, most_nodes
        self._known: dict[Cuts, Any] = {}

    def broken(self, cuts: Cuts, depth: int = 0) -> Any:
        """Return the weight of all failure sets that contain one of the minimal cuts; raises TooManyNodes."""
        if not cuts:
            return 0
        if not cuts[0]:
            return self._total(0)
        # Different branches lead to the same rest: without the cache the tree would be exponential far more often.
        key = tuple(sorted(cuts))
        if key in self._known:
            return self._known[key]
        self.nodes += 1
        if self.nodes > self._most or depth > _DEEPEST:
            raise TooManyNodes
        # Independent parts first: branching on one of them must not copy the others.
        parts = components(cuts)
        if len(parts) > 1:
            found = self._in_series(parts, depth)
        elif len(cuts) == 1:
            found = product_of(self._down[element] for element in elements(cuts[0]))
        else:
            found = self._branched(cuts, depth)
        self._known[key] = found
        return found

    def _in_series(self, parts: list[Cuts], depth: int) -> Any:
        """Return the broken weight of independent parts in series: b + (w - b) b', w the weight so far."""
        found: Any = 0
        weight: Any = self._total(0)
        for part in parts:
            inner, own = self.broken(part, depth + 1), self._total(support(part).bit_count())
            found = found * own + (weight - found) * inner
            weight = weight * own
        return found

    def _branched(self, cuts: Cuts, depth: int) -> Any:
        element = most_frequent(cuts)
        rest = support(cuts).bit_count() - 1
        found: Any = 0
        for weight, after in (
            (self._down[element], failed(cuts, 1 << element)),
            (self._up[element], survived(cuts, element)),
        ):
            free = rest - support(after).bit_count()  # elements that do not matter any more in this branch
            found = found + weight * self._total(free) * self.broken(after, depth + 1)
        return found


def most_frequent(cuts: Cuts) -> int:
    """Return the element in most cuts, the lowest of equals: conditioning on it simplifies most."""
    times: dict[int, int] = {}
    for cut in cuts:
        for element in elements(cut):
            times[element] = times.get(element, 0) + 1
    return min(times, key=lambda element: (-times[element], element))


def factored(cuts: Cuts, chances: FloatArray, most_nodes: int = MOST_NODES) -> FloatArray:
    """Return P(broken) for each row of `chances` (n_p, n_elements), (n_p,); raises TooManyNodes."""
    columns = {element: chances[:, element] for element in elements(support(cuts))}
    ups = {element: 1 - column for element, column in columns.items()}
    found = Factoring(columns, ups, most_nodes=most_nodes).broken(cuts)
    return np.minimum(np.broadcast_to(np.asarray(found, dtype=np.float64), len(chances)), 1.0)


def counts_by_size(cuts: Cuts, most_nodes: int = MOST_NODES) -> tuple[int, ...]:
    """Return `counting.breaking_sets` for any number of cuts; raises TooManyNodes.

    A whole number holds all counts, one for every `width` bits: then a product of numbers is one of polynomials, and a
    failed element shifts by one place.
    """
    cuts = minimal(cuts)
    n = support(cuts).bit_count()
    width = n + 1  # no count is above 2^n
    x = 1 << width
    ones = dict.fromkeys(elements(support(cuts)), 1)
    packed = Factoring(dict.fromkeys(ones, x), ones, lambda free: (1 + x) ** free, most_nodes).broken(cuts)
    return tuple(packed >> width * k & (x - 1) for k in range(n + 1))


def bracketed(cuts: Cuts, chances: FloatArray, most_nodes: int = MOST_NODES) -> tuple[FloatArray, FloatArray]:
    """Return the bounds (low, high) of P(broken), each (n_p,): factoring while nodes last, `sandwich` below."""
    reduced = minimal(cuts)
    low, high = sandwich(reduced, chances)
    found = _bracket(reduced, chances, most_nodes, 0)[0]
    return np.maximum(found[0], low), np.minimum(found[1], high)


def _bracket(cuts: Cuts, chances: FloatArray, budget: int, depth: int) -> tuple[FloatArray, int]:
    """Return the bounds, (2, n_p), and the nodes spent; of two branches the first may take half of the budget."""
    if not cuts or not cuts[0]:
        return np.full((2, len(chances)), 1.0 if cuts else 0.0), 0
    if len(cuts) == 1 or budget < 3 or depth > _DEEPEST:
        return np.stack(sandwich(cuts, chances)), 1
    parts = components(cuts)
    spent, found = 1, np.zeros((2, len(chances)))
    if len(parts) > 1:
        for index, part in enumerate(parts):
            inner, used = _bracket(part, chances, (budget - spent) // (len(parts) - index), depth + 1)
            found = found + (1 - found) * inner
            spent += used
        return found, spent
    element = most_frequent(cuts)
    q = chances[:, element]
    for share, weight, after in ((2, 1 - q, survived(cuts, element)), (1, q, failed(cuts, 1 << element))):
        inner, used = _bracket(after, chances, (budget - spent) // share, depth + 1)
        found = found + weight * inner
        spent += used
    return found, spent
