"""Importance of an element or of one more replica: exact differences without subtracting nearly equal numbers.

The difference of two availabilities is the probability of the states between them: all elements of a cut are down, and
no other cut is. Summed over the cuts in their order, so that nothing counts twice, all terms are positive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray
from models.errors import InputError
from models.reliability.cuts import Cuts, elements, failed, instance_cuts, minimal, query_cuts, support
from models.reliability.exact import Engine
from models.reliability.queries import Failures, Queries


@dataclass(frozen=True, eq=False)
class Gain:
    """Bounds of a difference of availability; equal bounds are exact."""

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
        for element in elements(support(cuts)):
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
        least, most = _only(before, [*others, *after], failures.chances, engine)
        low += share * least
        high += share * most
    return Gain(low, high)


def _only(new: Cuts, others: Iterable[int], chances: FloatArray, engine: Engine) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of P(some cut of `new` is down, none of `others`), (n_p,) each."""
    known = list(others)
    low, high = np.zeros(len(chances)), np.zeros(len(chances))
    for cut in new:
        at = chances[:, list(elements(cut))].prod(axis=1)
        least, most = engine.broken(failed(minimal(known), cut))
        low += at * (1 - most)
        high += at * (1 - least)
        known.append(cut)
    return low, high
