"""Importance of an element or of one more replica: exact differences without subtracting nearly equal numbers.

The difference of two availabilities is the probability of the states between them: all elements of a cut are down, and
no other cut is. Summed over the cuts in their order, so that nothing counts twice, all terms are positive.

`single_points` and `fewest_down` look at the structure alone, whatever the probabilities. Elements that can fail are
hosts and groups of hosts, numbered as in `Failures`: hosts first, then groups. A query is broken when all hosts of one
of its operators are down, so its smallest cut is that of one operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray
from models.errors import InputError
from models.reliability.cuts import Cuts, elements, failed, instance_cuts, minimal, query_cuts, support
from models.reliability.exact import Engine
from models.reliability.queries import Failures, Queries


@dataclass(frozen=True, eq=False)
class Gain:
    """Bounds of a difference of availability, of equal shape; equal bounds are exact."""

    low: FloatArray
    high: FloatArray


def birnbaum(queries: Queries, failures: Failures) -> Gain:
    """Return d(mean share of broken queries) / d(chance of an element), (n_p, n_elements): Birnbaum's importance.

    It is the probability that the element decides: the query is broken if it is down and runs if it is up. (Birnbaum,
    *On the importance of different components in a multicomponent system*, 1969.)
    """
    engine, shape = Engine(failures), failures.chances.shape
    low, high = np.zeros(shape), np.zeros(shape)
    for cuts, share in zip(query_cuts(queries, failures), queries.shares, strict=True):
        # Only elements in some cut of the query can decide; all others gain nothing.
        for element in elements(support(cuts)):
            # The element decides where a cut with it is otherwise down, and no cut without it is.
            shorter = [cut & ~(1 << element) for cut in cuts if cut >> element & 1]
            others = [cut for cut in cuts if not cut >> element & 1]
            least, most = _only(minimal(shorter), others, failures.chances, engine)
            low[:, element] += share * least
            high[:, element] += share * most
    return Gain(low, high)


def replica_gain(queries: Queries, failures: Failures, operator: int, host: int) -> Gain:
    """Return the gain in the mean share of running queries from an instance on one more host, (n_p,).

    Nothing where a query's other operators fail together with this one anyway: replicating one operator of a host
    that carries two unreplicated ones gains nothing until both are. Raises InputError for an operator or host
    that there is not, and for a host that has the operator already.
    """
    if not 0 <= operator < len(queries.instances):
        raise InputError.at("operator", operator, f"is not an operator: there are {len(queries.instances)}")
    hosts = queries.instances[operator]
    if not 0 <= host < queries.n_hosts or host in hosts:
        raise InputError.at("host", host, "must be a host without an instance of the operator")
    before, after = instance_cuts(hosts, failures), instance_cuts((*hosts, host), failures)
    engine = Engine(failures)
    low, high = np.zeros(failures.n_settings), np.zeros(failures.n_settings)
    for needed, share in zip(queries.operators, queries.shares, strict=True):
        if operator not in needed:
            continue
        others = [cut for op in needed if op != operator for cut in instance_cuts(queries.instances[op], failures)]
        # Before, the operator's own cuts break the query; after, only those with the new host: their difference is the
        # gain.
        least, most = _only(before, [*others, *after], failures.chances, engine)
        low += share * least
        high += share * most
    return Gain(low, high)


def _only(new: Cuts, others: Iterable[int], chances: FloatArray, engine: Engine) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of P(some cut of `new` is down, none of `others`), (n_p,) each."""
    known = list(others)
    low, high = np.zeros(len(chances)), np.zeros(len(chances))
    for cut in new:
        # States in which this cut is down and none of those before it: disjoint terms, so their sum counts nothing
        # twice.
        at = chances[:, list(elements(cut))].prod(axis=1)
        least, most = engine.broken(failed(minimal(known), cut))
        # Low with high: the factor is 1 - P(other cut), so its upper bound makes the lower one.
        low += at * (1 - most)
        high += at * (1 - least)
        known.append(cut)
    return low, high


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
        # Unknown cuts have at least two elements; with a known cut that small they cannot matter.
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
    # A group takes down the host and more, so it replaces the host in a smallest cut.
    of_hosts = (own if len(own) == 1 else {one for one in own if one >= n_hosts} for own in elements)
    cuts: Sequence[int] = (0,)
    # Hosts with the same elements are one condition: repeated, they would only make products larger.
    for part in dict.fromkeys(map(frozenset, of_hosts)):
        cuts = minimal(cut | 1 << one for cut in cuts for one in part)
        if len(cuts) > _MOST_CUTS:
            return None
    return cuts[0].bit_count()
