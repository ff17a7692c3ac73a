"""Minimal cuts of queries: the smallest sets of elements whose failure breaks a query; as bit masks.

A query is a monotone formula: it is broken when all elements of one of its cuts are down. Equal cuts collapse, and a
cut that contains another says nothing new (absorption). Forgetting that, as a product over operators does, counts a
host once for each operator that it carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from models.reliability.queries import Failures, Queries

Cuts = tuple[int, ...]  # masks, none contains another; (0,) is always broken, () never
BROKEN: Cuts = (0,)


def minimal(masks: Iterable[int]) -> Cuts:
    """Return the masks that contain no other one, shortest first.

    >>> minimal([0b011, 0b001, 0b110, 0b110])
    (1, 6)
    """
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
    if found[0] == 0:
        return BROKEN
    kept: list[int] = []
    beginning_with: dict[int, list[int]] = {}
    for mask in found:
        if any(one & mask == one for element in elements(mask) for one in beginning_with.get(element, ())):
            continue
        kept.append(mask)
        beginning_with.setdefault(next(elements(mask)), []).append(mask)
    return tuple(kept)


def support(cuts: Iterable[int]) -> int:
    """Return the mask of all elements in the cuts."""
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
    """Return the cuts once all elements of `mask` are known to be down."""
    # Only cuts that got shorter can be contained in others, so the rest need not be compared with each other.
    shorter = minimal(cut & ~mask for cut in cuts if cut & mask)
    rest = [cut for cut in cuts if not cut & mask]
    return (*shorter, *(cut for cut in rest if not any(one & cut == one for one in shorter)))


def survived(cuts: Cuts, element: int) -> Cuts:
    """Return the cuts once an element is known to be up."""
    return tuple(cut for cut in cuts if not cut >> element & 1)


def components(cuts: Cuts) -> list[Cuts]:
    """Return the cuts in parts that share no element, in the order of their last cuts."""
    parts: list[tuple[int, list[int]]] = []
    for cut in cuts:
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
    """Return the minimal cuts of each query."""
    if len(failures.parts) != queries.n_hosts:
        raise ValueError(f"chances of {failures.n_hosts} hosts for queries on {queries.n_hosts}")
    if not failures.groups and failures.late is None:  # a host is one element: no products to expand
        single = [sum(1 << host for host in hosts) for hosts in queries.instances]
        return [minimal(single[op] for op in operators) for operators in queries.operators]
    of_operator = [instance_cuts(hosts, failures) for hosts in queries.instances]
    return [minimal(cut for op in operators for cut in of_operator[op]) for operators in queries.operators]


def joint_cuts(of_queries: Iterable[Cuts]) -> Cuts:
    """Return the cuts of "some query is broken"."""
    return minimal(cut for cuts in of_queries for cut in cuts)
