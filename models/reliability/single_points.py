"""Single points of failure, and the fewest failures that break a query: by structure, whatever the probabilities.

Elements that can fail are hosts and groups of hosts, numbered as in `Failures`: hosts first, then groups. A
query is broken when all hosts of one of its operators are down, so its smallest cut is that of one operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from models.reliability.cuts import minimal
from models.reliability.queries import Queries

_MOST_CUTS = 512  # of some hosts of an operator in several groups, up to which the smallest is looked for
_LEAST_OPEN = 2  # the least that the smallest cut of one that was not looked for can have

Groups = Sequence[Sequence[int]]


def single_points(queries: Queries, groups: Groups = ()) -> list[tuple[int, ...]]:
    """Return for each query the elements that break it alone, ascending.

    >>> queries = Queries(3, instances=((0, 1), (2,)), operators=((0,), (0, 1)))
    >>> single_points(queries, groups=[(0, 1)])
    [(3,), (2, 3)]
    """
    elements = _elements(queries, groups)
    alone = [set.intersection(*(elements[host] for host in hosts)) for hosts in queries.instances]
    return [tuple(sorted(set[int]().union(*(alone[op] for op in needed)))) for needed in queries.operators]


def fewest_down(queries: Queries, groups: Groups = ()) -> list[int | None]:
    """Return for each query how many elements must be down at least that it is broken.

    None where hosts are in several groups and there are too many ways to tell.
    """
    elements = _elements(queries, groups)
    of_operator = [_smallest_cut([elements[host] for host in hosts], queries.n_hosts) for hosts in queries.instances]
    found: list[int | None] = []
    for needed in queries.operators:
        known = [size for op in needed if (size := of_operator[op]) is not None]
        least = min(known, default=math.inf)
        found.append(int(least) if len(known) == len(needed) or least <= _LEAST_OPEN else None)
    return found


def _elements(queries: Queries, groups: Groups) -> list[set[int]]:
    """Return the elements whose failure takes each host down: the host itself, and its groups."""
    found = [{host} for host in range(queries.n_hosts)]
    for index, group in enumerate(groups):
        for host in group:
            found[host].add(queries.n_hosts + index)
    return found


def _smallest_cut(elements: Sequence[set[int]], n_hosts: int) -> int | None:
    """Return how many elements take down all these hosts; a group of a host takes down no less than the host itself."""
    if set.intersection(*elements):
        return 1
    of_hosts = (own if len(own) == 1 else {one for one in own if one >= n_hosts} for own in elements)
    cuts: Sequence[int] = (0,)
    for part in dict.fromkeys(map(frozenset, of_hosts)):
        cuts = minimal(cut | 1 << one for cut in cuts for one in part)
        if len(cuts) > _MOST_CUTS:
            return None
    return cuts[0].bit_count()
