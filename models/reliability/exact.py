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

**Inclusion-exclusion** (`breaking_sets`, `at_equal_chance`): how many failure sets of each size break something, over
unions of cuts, in whole numbers. With c[j] = sum over sets of cuts whose union has j elements of (-1)^(cuts + 1),
inclusion-exclusion says P(broken) = sum_j c[j] q^j. These terms cancel. Written as

    P(broken) = sum_k N[k] q^k (1 - q)^(n - k),    N[k] = sum_j c[j] C(n - j, k - j),

where N[k] of the sets of k elements break it, nothing is negative: every digit is kept for any q, and one N serves
a whole curve over q.

**Elimination** (`eliminated`): one element after the other is summed out of tables, in the order of least fill. A table
says P(something that was summed out is broken) for each state of the elements it still depends on. Joining two tables
a, b gives a + (1 - a) b; summing out an element gives up b(up) + down b(down). Nothing is subtracted from 1 but what is
near 0 or 0 exactly, so small probabilities keep their digits. The cost grows with 2^width, and not with the number of
cuts: made for "some of all queries is broken". (Dechter, *Bucket elimination*, Artificial Intelligence 1999.)

**Factoring** (`Factoring`, `factored`): condition on one element after the other until the rest is simple.

broken(cuts) = down[e] broken(cuts with e down) + up[e] broken(cuts with e up); parts that share no element are
independent of each other, a cut of one element is its own part (unit propagation), and equal remainders are computed
once. Sums and products of what is not negative keep every digit. (Satyanarayana and Chang, *Network reliability and
the factoring theorem*, Networks 1983.)

The same code serves three kinds of numbers: arrays of probabilities, fractions in tests, and whole numbers that hold
a count for each size of failure set (`counts_by_size`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray, frozen
from models.reliability.cuts import (
    Cuts,
    components,
    elements,
    failed,
    joint_cuts,
    minimal,
    one_of,
    product_of,
    query_cuts,
    sandwich,
    support,
    survived,
)
from models.reliability.queries import Failures, Queries

MOST_CUTS = 16
MOST_ELEMENTS = 62
_FEW_CUTS = 6  # up to here plain Python is faster than arrays

Counts = tuple[int, ...]


def breaking_sets(cuts: Cuts) -> Counts:
    """Return N[k] for k = 0 .. n: of the sets of k of the n elements in the cuts, how many contain a cut.

    Raises ValueError for more than 16 cuts or 62 elements: the work doubles with each cut.

    >>> breaking_sets((0b011, 0b110))  # two pairs that share an element
    (0, 0, 2, 1)
    """
    n = support(cuts).bit_count()
    if len(cuts) > MOST_CUTS or n > MOST_ELEMENTS:
        raise ValueError(f"{len(cuts)} cuts of {n} elements: at most {MOST_CUTS} of {MOST_ELEMENTS}")
    c = _by_union_plain(cuts, n) if len(cuts) <= _FEW_CUTS else _by_union(cuts, n)
    # c[j] is the signed number of unions of cuts with j elements; each union is in comb(n - j, k - j) sets of k.
    used = [(j, value) for j, value in enumerate(c) if value]
    return tuple(sum(value * comb(n - j, k - j) for j, value in used if j <= k) for k in range(n + 1))


def _by_union_plain(cuts: Cuts, n: int) -> list[int]:
    """Return c[j], j = 0 .. n, in whole numbers of Python."""
    # Inclusion-exclusion with whole numbers: exact however many terms cancel out. The empty union is left out.
    unions, signs, c = [0], [-1], [0] * (n + 1)
    for cut in cuts:
        # Each cut doubles the unions: 2^cuts terms, which MOST_CUTS keeps small.
        unions += [union | cut for union in unions]
        signs += [-sign for sign in signs]
    for union, sign in zip(unions[1:], signs[1:], strict=True):
        c[union.bit_count()] += sign
    return c


def _by_union(cuts: Cuts, n: int) -> list[int]:
    """Return the same by arrays, which is faster for more cuts."""
    # Elements are numbered from 0 within the cuts: 64 bits are then enough for any numbers of hosts.
    place = {element: index for index, element in enumerate(elements(support(cuts)))}
    unions, signs = np.zeros(1, dtype=np.uint64), np.array([-1], dtype=np.int64)
    for cut in cuts:
        local = np.uint64(sum(1 << place[element] for element in elements(cut)))
        unions = np.concatenate([unions, unions | local])
        signs = np.concatenate([signs, -signs])
    sizes = np.bitwise_count(unions[1:]).astype(np.int64)
    plus = np.bincount(sizes[signs[1:] > 0], minlength=n + 1)
    minus = np.bincount(sizes[signs[1:] < 0], minlength=n + 1)
    return [int(value) for value in plus - minus]


def at_equal_chance(counts: Counts, q: FloatArray) -> FloatArray:
    """Return P(broken) if every element is down with probability q, by value of q; relative error about 1e-15.

    `counts` (n + 1,) are those of `breaking_sets`; q is (n_p,), and so is the result.
    """
    # All terms are positive, so small probabilities keep their digits; inclusion-exclusion in floats would not.
    n, total = len(counts) - 1, np.zeros_like(q)
    for k, count in enumerate(counts):
        if count:
            total += float(count) * q**k * (1 - q) ** (n - k)
    return np.minimum(total, 1.0)


MOST_WIDTH = 18
_Table = tuple[tuple[int, ...], FloatArray]  # the elements, ascending, and an array (n_p or 1, 2, .., 2); 1 is down


def elimination_order(cuts: Cuts, most_width: int | None = None) -> tuple[list[int], int]:
    """Return the elements in the order of least fill, and the width: how many others a table has at most.

    Stops at an element of more than `most_width` others.
    """
    linked = _links(cuts)
    scores = {element: _fill(linked, element) for element in linked}
    order, width = [], 0
    while linked:
        # Least fill, then fewest neighbours, then the lowest number: the order must not depend on dictionaries.
        element = min(scores, key=lambda one: (scores[one], linked[one].bit_count(), one))
        around = linked.pop(element)
        del scores[element]
        order.append(element)
        width = max(width, around.bit_count())
        if most_width is not None and width > most_width:
            break
        # The neighbours of an element that is eliminated are in one table from now on: link them all.
        # Only neighbours, and those whose links changed, have another fill: all others keep their score.
        changed = around
        for other in elements(around):
            linked[other] = (linked[other] | around) & ~(1 << element | 1 << other)
            changed |= linked[other]
        for other in elements(changed):
            scores[other] = _fill(linked, other)
    return order, width


def _links(cuts: Cuts) -> dict[int, int]:
    """Return for each element the mask of those that share a cut with it."""
    linked: dict[int, int] = {}
    for cut in cuts:
        for element in elements(cut):
            linked[element] = linked.get(element, 0) | cut & ~(1 << element)
    return dict(sorted(linked.items()))


def _fill(linked: dict[int, int], element: int) -> int:
    """Return twice the pairs of neighbours that are not linked yet."""
    around = linked[element]
    return sum((around & ~linked[other]).bit_count() - 1 for other in elements(around))


def eliminated(cuts: Cuts, chances: FloatArray, most_width: int = MOST_WIDTH) -> FloatArray | None:
    """Return P(broken) for each row of `chances` (n_p, n_elements), (n_p,); None when the width is above the limit."""
    order, width = elimination_order(cuts, most_width)
    if width > most_width:
        return None
    waiting: list[_Table] = [_table_of(cut) for cut in cuts]
    # Every table with the element goes into one product; after it no table knows the element any more.
    for element in order:
        touched = [table for table in waiting if element in table[0]]
        waiting = [table for table in waiting if element not in table[0]]
        waiting.append(_summed_out(_product(touched), element, chances[:, element]))
    found = _product(waiting)[1]
    return np.minimum(np.broadcast_to(found, len(chances)), 1.0)


def _table_of(cut: int) -> _Table:
    """Return the table of one cut."""
    scope = tuple(elements(cut))
    table = np.zeros((1, *[2] * len(scope)))
    # Broken only where all elements of the cut are down.
    table[(0, *[1] * len(scope))] = 1.0
    return scope, table


def _product(tables: list[_Table]) -> _Table:
    """Return the table of "one of these is broken", over the elements of all."""
    scope = tuple(sorted({element for one, _ in tables for element in one}))
    # OR of the tables: broken by one of them, 1 - (1 - a) (1 - b), without subtracting nearly equal numbers.
    found = np.zeros((1, *[1] * len(scope)))
    for own, table in tables:
        shape = (len(table), *[2 if element in own else 1 for element in scope])
        found = found + (1 - found) * table.reshape(shape)
    return scope, found


def _summed_out(table: _Table, element: int, down: FloatArray) -> _Table:
    """Return the table without an element, which is down with chance `down` (n_p,)."""
    scope, values = table
    axis = scope.index(element) + 1
    q = down.reshape(-1, *[1] * (len(scope) - 1))
    up, failed = values.take(0, axis=axis), values.take(1, axis=axis)
    return tuple(one for one in scope if one != element), (1 - q) * up + q * failed


MOST_NODES = 4_000
_DEEPEST = 300  # of the recursion


class TooManyNodes(Exception):
    """The budget of nodes is spent."""


class Factoring:
    """Factoring on elements, for any commutative weights: probabilities, or polynomials that count.

    `down`, `up`: weights of an element that is down or up. `total(n)` is the weight of `n` elements that do not matter:
    1 for probabilities. `nodes` counts the nodes so far; results of equal remainders are kept for all later calls.
    """

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
        # The order of these two tests matters: no cut is "never", an empty cut is "always".
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
        # A single cut is a product: the end of most branches.
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
            # found / weight is P(broken) so far; written without division, so that whole numbers work as well.
            found = found * own + (weight - found) * inner
            weight = weight * own
        return found

    def _branched(self, cuts: Cuts, depth: int) -> Any:
        """Return the broken weight by conditioning on the most frequent element."""
        element = most_frequent(cuts)
        rest = support(cuts).bit_count() - 1
        found: Any = 0
        for weight, after in (
            (self._down[element], failed(cuts, 1 << element)),
            (self._up[element], survived(cuts, element)),
        ):
            # Elements that left the cuts may be up or down: both count, with their whole weight.
            free = rest - support(after).bit_count()  # elements that do not matter any more in this branch
            found = found + weight * self._total(free) * self.broken(after, depth + 1)
        return found


def most_frequent(cuts: Cuts) -> int:
    """Return the element in most cuts, the lowest of equals: conditioning on it simplifies most.

    The tie rule keeps the order of conditioning, and with it the last digits, the same on every run.
    """
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
    """Return `breaking_sets` for any number of cuts; raises TooManyNodes.

    A whole number holds all counts, one for every `width` bits: then a product of numbers is one of polynomials, and a
    failed element shifts by one place.

    >>> counts_by_size((0b011, 0b110))
    (0, 0, 2, 1)
    """
    cuts = minimal(cuts)
    n = support(cuts).bit_count()
    # A count is at most 2^n, so n + 1 bits for each keep neighbours apart in the packed number.
    width = n + 1
    x = 1 << width
    ones = dict.fromkeys(elements(support(cuts)), 1)
    packed = Factoring(dict.fromkeys(ones, x), ones, lambda free: (1 + x) ** free, most_nodes).broken(cuts)
    return tuple(packed >> width * k & (x - 1) for k in range(n + 1))


def bracketed(cuts: Cuts, chances: FloatArray, most_nodes: int = MOST_NODES) -> tuple[FloatArray, FloatArray]:
    """Return the bounds (low, high) of P(broken), each (n_p,): factoring while nodes last, `sandwich` below."""
    reduced = minimal(cuts)
    low, high = sandwich(reduced, chances)
    found = _bracket(reduced, chances, most_nodes, 0)[0]
    # Both bounds hold, so the tighter of each side does; factoring may stop before it is better.
    return np.maximum(found[0], low), np.minimum(found[1], high)


def _bracket(cuts: Cuts, chances: FloatArray, budget: int, depth: int) -> tuple[FloatArray, int]:
    """Return the bounds, (2, n_p), and the nodes spent; of two branches the first may take half of the budget."""
    if not cuts or not cuts[0]:
        return np.full((2, len(chances)), 1.0 if cuts else 0.0), 0
    # No budget for two branches: the cheap bounds end this one.
    if len(cuts) == 1 or budget < 3 or depth > _DEEPEST:
        return np.stack(sandwich(cuts, chances)), 1
    parts = components(cuts)
    spent, found = 1, np.zeros((2, len(chances)))
    if len(parts) > 1:
        for index, part in enumerate(parts):
            # What one part does not use goes to the next: the share is of the budget that is left.
            inner, used = _bracket(part, chances, (budget - spent) // (len(parts) - index), depth + 1)
            found = found + (1 - found) * inner
            spent += used
        return found, spent
    element = most_frequent(cuts)
    q = chances[:, element]
    # "Up" first with half of the budget, "down" with the rest: the cuts get shorter there, and end sooner.
    for share, weight, after in ((2, 1 - q, survived(cuts, element)), (1, q, failed(cuts, 1 << element))):
        inner, used = _bracket(after, chances, (budget - spent) // share, depth + 1)
        found = found + weight * inner
        spent += used
    return found, spent


METHODS = ("product", "inclusion-exclusion", "factoring", "elimination", "bounds")
BOUNDS = "bounds"
_MOST_BRANCHED = 64  # cuts of a part; with more, elimination is tried first


@dataclass(frozen=True, eq=False)
class Unavailability:
    """Bounds of P(query is broken), and the method of each query; equal bounds are exact.

    `low`, `high` (n_p, n_queries): a row for each setting. `methods`: one of METHODS for each query.
    """

    low: FloatArray
    high: FloatArray
    methods: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Return whether every figure is exact up to rounding."""
        return BOUNDS not in self.methods


class Engine:
    """Finds P(broken) of sets of cuts, each part once: queries share operators, and with them parts.

    `most_nodes` limits factoring for each part. An engine may be asked again and again (`broken`): parts are kept.
    """

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
        # Arrays only now: all parts of all queries have been solved, each once.
        low, high = np.zeros(shape), np.zeros(shape)
        methods = []
        lows = np.array(self._low or [np.zeros(shape[0])])
        highs = np.array(self._high or [np.zeros(shape[0])])
        for query, parts in enumerate(members):
            low[:, query] = _of_parts(lows, parts)
            worst = max((self._methods[part] for part in parts), default=0)
            # The method of a query is that of its weakest part; only then low and high differ.
            high[:, query] = low[:, query] if METHODS[worst] != BOUNDS else _of_parts(highs, parts)
            methods.append(METHODS[worst])
        return Unavailability(frozen(low), frozen(high), tuple(methods))

    def broken(self, cuts: Cuts) -> tuple[FloatArray, FloatArray]:
        """Return the bounds (low, high) of P(broken) of one set of minimal cuts, (n_p,) each."""
        found = self.of([cuts])
        return found.low[:, 0], found.high[:, 0]

    def _indices(self, cuts: Cuts) -> list[int]:
        """Return the numbers of the independent parts of a query."""
        if len(cuts) == 1:
            return [self._index(cuts)]
        return [self._index(part) for part in components(cuts)]

    def _index(self, part: Cuts) -> int:
        """Return the number of a part, which is solved when it is new."""
        # The order of cuts within a part means nothing: a set is the key.
        key = frozenset(part)
        if key not in self._parts:
            low, high, method = self._solved(part)
            self._parts[key] = len(self._low)
            self._low.append(low)
            self._high.append(high)
            self._methods.append(METHODS.index(method))
        return self._parts[key]

    def _solved(self, part: Cuts) -> tuple[FloatArray, FloatArray, str]:
        """Return (low, high, method) of one part by the first method that can solve it."""
        if len(part) == 1:
            found = self._product(part[0])
            return found, found, "product"
        # Only with equal chances one polynomial serves all values of p.
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
        """Return P(all elements of one cut are down), (n_p,)."""
        if self._equal is not None:
            size = cut.bit_count()
            return self._curve((0,) * size + (1,))
        found: FloatArray = self._chances[:, list(elements(cut))].prod(axis=1)
        return found

    def _curve(self, counts: Counts) -> FloatArray:
        """Return P(broken) of counts of breaking sets at equal chances; parts with equal counts share it."""
        assert self._equal is not None
        if counts not in self._curves:
            self._curves[counts] = at_equal_chance(counts, self._equal)
        return self._curves[counts]

    def _by(self, method: str, part: Cuts) -> FloatArray | None:
        """Return P(broken) of a part by a method; None if its budget does not suffice."""
        if method == "elimination":
            return eliminated(part, self._chances)
        try:
            return factored(part, self._chances, self._most_nodes)
        except TooManyNodes:
            return None


def _of_parts(chances: FloatArray, parts: list[int]) -> FloatArray | float:
    """Return P(one of these independent parts is broken), (n_p,), or 0 without any."""
    if not parts:
        return 0.0
    return chances[parts[0]] if len(parts) == 1 else one_of(chances[parts])


def unavailability(queries: Queries, failures: Failures, *, most_nodes: int = MOST_NODES) -> Unavailability:
    """Return P(broken) of every query in every setting; exact but where the methods say `bounds`.

    `most_nodes` limits factoring for each part. A query whose method is `bounds` has low < high.
    """
    return Engine(failures, most_nodes).of(query_cuts(queries, failures))


def some_broken(queries: Queries, failures: Failures, *, most_nodes: int = MOST_NODES) -> Unavailability:
    """Return P(at least one query is broken) as that of a single query, (n_p, 1)."""
    return Engine(failures, most_nodes).of([joint_cuts(query_cuts(queries, failures))])


def mean_broken(queries: Queries, found: Unavailability) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the expected share of queries, by weight, that are broken, (n_p,) each.

    Both are weighted sums of the bounds of single queries, so they hold whatever the queries share.
    """
    return found.low @ queries.shares, found.high @ queries.shares
