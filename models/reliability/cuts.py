"""Minimal cuts of queries, as bit masks, and bounds from them.

A cut is a set of elements whose failure breaks a query; a minimal one contains no other.

A query is a monotone formula: it is broken when all elements of one of its cuts are down. Equal cuts collapse, and a
cut that contains another says nothing new (absorption). Forgetting that, as a product over operators does, counts a
host once for each operator that it carries.

`sandwich` bounds the probability that something is broken from its minimal cuts alone: cheap for any number of cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray
from models.reliability.queries import Failures, Queries

Cuts = tuple[int, ...]  # masks, none contains another; (0,) is always broken, () never
BROKEN: Cuts = (0,)


def minimal(masks: Iterable[int]) -> Cuts:
    """Return the masks that contain no other one, shortest first.

    >>> minimal([0b011, 0b001, 0b110, 0b110])
    (1, 6)
    """
    # Shortest first: a mask can only contain one that is no longer, so each is compared with those kept so far.
    found = sorted(set(masks), key=lambda mask: (mask.bit_count(), mask))
    if len(found) > _MANY:
        return _minimal_of_many(found)
    kept: list[int] = []
    for mask in found:
        if not any(one & mask == one for one in kept):
            kept.append(mask)
    return tuple(kept)


_MANY = 64  # masks for which an index pays


def _minimal_of_many(found: list[int]) -> Cuts:
    """Return `minimal` of distinct masks, shortest first: a subset of a mask begins with one of its elements."""
    # The empty mask is contained in all others: broken whatever happens.
    if found[0] == 0:
        return BROKEN
    kept: list[int] = []
    beginning_with: dict[int, list[int]] = {}
    for mask in found:
        # A kept mask that is contained in this one begins with an element of it: only those need a look.
        if any(one & mask == one for element in elements(mask) for one in beginning_with.get(element, ())):
            continue
        kept.append(mask)
        beginning_with.setdefault(next(elements(mask)), []).append(mask)
    return tuple(kept)


def support(cuts: Iterable[int]) -> int:
    """Return the mask of all elements in the cuts.

    Its number of bits is the number of elements that can break anything.
    """
    union = 0
    for mask in cuts:
        union |= mask
    return union


def elements(mask: int) -> Iterator[int]:
    """Yield the elements of a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def failed(cuts: Cuts, mask: int) -> Cuts:
    """Return the cuts once all elements of `mask` are known to be down; minimal again.

    >>> failed((0b011, 0b110), 0b001)  # only the second element of the first cut is left
    (2,)
    """
    # Only cuts that got shorter can be contained in others, so the rest need not be compared with each other.
    shorter = minimal(cut & ~mask for cut in cuts if cut & mask)
    rest = [cut for cut in cuts if not cut & mask]
    return (*shorter, *(cut for cut in rest if not any(one & cut == one for one in shorter)))


def survived(cuts: Cuts, element: int) -> Cuts:
    """Return the cuts once an element is known to be up.

    Cuts with the element are gone; none of the others becomes shorter, so the rest is minimal.
    """
    return tuple(cut for cut in cuts if not cut >> element & 1)


def components(cuts: Cuts) -> list[Cuts]:
    """Return the cuts in parts that share no element, in the order of their last cuts.

    Parts fail independently of each other, since elements do.

    >>> components((0b0011, 0b0110, 0b1000))
    [(3, 6), (8,)]
    """
    parts: list[tuple[int, list[int]]] = []
    for cut in cuts:
        # A cut joins all parts it touches: the result does not depend on the order, only the order of parts does.
        joined, members = cut, []
        disjoint = []
        for mask, inside in parts:
            if mask & cut:
                joined |= mask
                members += inside
            else:
                disjoint.append((mask, inside))
        parts = [*disjoint, (joined, [*members, cut])]
    return [tuple(inside) for _, inside in parts]


def instance_cuts(hosts: Iterable[int], failures: Failures) -> Cuts:
    """Return the cuts of one operator with instances on these hosts, the primary first.

    Each host is down by one of its elements. Where take-overs may be late, the late failure of the primary is a
    cut by itself.
    """
    placed = tuple(hosts)
    found: Iterable[int] = (0,)
    for host in placed:
        found = [mask | 1 << part for mask in found for part in failures.parts[host]]
        # After each host and not at the end: shared groups make many equal masks, and products grow fast.
        if len(found) > 1:
            found = minimal(found)
    if failures.late is not None and placed:
        found = [*found, 1 << failures.late_element(placed[0])]
    return minimal(found)


def query_cuts(queries: Queries, failures: Failures) -> list[Cuts]:
    """Return the minimal cuts of each query.

    Raises ValueError if the chances are of another number of hosts. Cuts are masks of elements as `Failures` numbers
    them.
    """
    if len(failures.parts) != queries.n_hosts:
        raise ValueError(f"chances of {failures.n_hosts} hosts for queries on {queries.n_hosts}")
    # The fast case of most problems: no groups, so that no cut is longer than its operator has hosts.
    if not failures.groups and failures.late is None:  # a host is one element: no products to expand
        single = [sum(1 << host for host in hosts) for hosts in queries.instances]
        return [minimal(single[op] for op in operators) for operators in queries.operators]
    of_operator = [instance_cuts(hosts, failures) for hosts in queries.instances]
    return [minimal(cut for op in operators for cut in of_operator[op]) for operators in queries.operators]


def joint_cuts(of_queries: Iterable[Cuts]) -> Cuts:
    """Return the cuts of "some query is broken"."""
    return minimal(cut for cuts in of_queries for cut in cuts)


def product_of(values: Iterable[Any]) -> Any:
    """Return the product, in the order given."""
    found: Any = 1
    for value in values:
        found = found * value
    return found


def cut_chances(cuts: Cuts, chances: FloatArray) -> FloatArray:
    """Return P(all elements of a cut are down), (n_cuts, n_p).

    `chances` (n_p, n_elements): elements fail independently, so the chance of a cut is a product.
    """
    found = [chances[:, list(elements(cut))].prod(axis=1) for cut in cuts]
    return np.array(found).reshape(len(cuts), len(chances))


def one_of(chances: FloatArray, axis: int = 0) -> FloatArray:
    """Return P(at least one of independent events), 1 - prod(1 - p), without losing digits of small ones.

    >>> f"{one_of(np.array([1e-20, 2e-20])):.15g}"
    '3e-20'
    """
    with np.errstate(divide="ignore"):
        found: FloatArray = -np.expm1(np.log1p(-chances).sum(axis=axis))
    return found


def sandwich(cuts: Cuts, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (low, high) for P(broken), each (n_p,).

    High: cuts are positively associated, so P(none fails) >= prod(1 - P(cut)) (Esary and Proschan, 1970), which is
    below the sum over cuts. Low: cuts that share no element, taken in the order of the list, are
    independent of each other; and the sum of all minus that of pairs (Bonferroni). Equal where all are disjoint.
    """
    # P(cut) is a product, since elements are independent; cuts are not, since they share elements.
    single = cut_chances(cuts, chances)
    high = one_of(single)
    # Greedy, likely cuts first: the bound is best if the disjoint ones have most of the probability.
    used, disjoint = 0, []
    for index in np.argsort(-single.max(axis=1), kind="stable").tolist():
        if not cuts[index] & used:
            used |= cuts[index]
            disjoint.append(index)
    low = one_of(single[sorted(disjoint)])
    if len(disjoint) < len(cuts):
        paired = _bonferroni(cuts, single, chances)
        low = low if paired is None else np.maximum(low, paired)
    # Rounding may put the two a hair the wrong way round where they are equal.
    return np.minimum(low, high), high


_MOST_PAIRS = 20_000


def _bonferroni(cuts: Cuts, single: FloatArray, chances: FloatArray) -> FloatArray | None:
    """Return sum P(cut) - sum P(both of a pair), (n_p,); None if too many pairs share an element.

    Pairs without a common element are independent of each other: they are summed together.
    """
    of_element: dict[int, list[int]] = {}
    pairs: set[tuple[int, int]] = set()
    for index, cut in enumerate(cuts):
        for element in elements(cut):
            others = of_element.setdefault(element, [])
            pairs.update((other, index) for other in others)
            others.append(index)
        # Pairs grow with the square of the cuts: the disjoint bound alone stays cheap.
        if len(pairs) > _MOST_PAIRS:
            return None  # the other bound has to do
    first, second = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    both = cut_chances(tuple(cuts[i] | cuts[j] for i, j in zip(first.tolist(), second.tolist(), strict=True)), chances)
    # All pairs by the square of the sum, less those with a common element, which are in `both`.
    disjoint = (single.sum(axis=0) ** 2 - (single**2).sum(axis=0)) / 2 - (single[first] * single[second]).sum(axis=0)
    found: FloatArray = single.sum(axis=0) - both.sum(axis=0) - disjoint
    return found
