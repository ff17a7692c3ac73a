"""Hosts of several kinds that wait for the same repair crews.

Hosts with the same times are one class. A failed host gets min(1, crews / K) of a crew where K are failed: crews go
round among them. Then the numbers (k_1, .., k_m) of failed hosts by class are a Markov chain, and given them all sets
of k_i of each class are as likely, so that

    P(broken) = sum_k P(k) P(broken | k),   P(broken | k) = sum_j N_j prod_i C(n_i - s_i, k_i - j_i) / C(n_i, k_i)

with s_i hosts of class i that matter to the query, and N_j the number of sets of j_1, .., j_m of these that break it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from models.checked_arrays import FloatArray
from models.errors import NO_VALUE, InputError
from models.reliability.chains import stationary
from models.reliability.cuts import Cuts, elements, support
from models.reliability.factoring import TooManyNodes

MOST_STATES = 2500
MOST_HOSTS = 16  # that matter to one query: all sets of them are gone through


def class_law(sizes: Sequence[int], mttf_s: Sequence[float], mttr_s: Sequence[float], crews: int) -> FloatArray:
    """Return P(k_1, .., k_m of each class are down), (n_1 + 1, .., n_m + 1); raises InputError beyond limits."""
    shape = tuple(size + 1 for size in sizes)
    if math.prod(shape) > MOST_STATES:
        rule = f"make {math.prod(shape)} states of hosts with times of their own, {MOST_STATES} at most"
        raise InputError.at("times.crews", NO_VALUE, rule, "fewer kinds of hosts, or fewer hosts")
    # Few failures first: the frequent states have low numbers, as `stationary` asks.
    states = sorted(itertools.product(*map(range, shape)), key=lambda state: (sum(state), state))
    place = {state: index for index, state in enumerate(states)}
    rates: dict[tuple[int, int], float] = {}
    for state in states:
        failed = sum(state)
        for kind, (size, down) in enumerate(zip(sizes, state, strict=True)):
            above = (*state[:kind], down + 1, *state[kind + 1 :])
            if down < size:
                rates[place[state], place[above]] = (size - down) / mttf_s[kind]
                # Crews go round among all failed hosts, so a class gets them in proportion to its failed hosts.
                repairing = min(failed + 1, crews) * (down + 1) / (failed + 1)
                rates[place[above], place[state]] = repairing / mttr_s[kind]
    chances = stationary(len(states), rates)
    found = np.zeros(shape)
    for state, index in place.items():
        found[state] = chances[index]
    return found


def broken_given_classes(cuts: Cuts, classes: Sequence[Sequence[int]]) -> FloatArray:
    """Return P(broken | k_1, .., k_m down), shaped as the law; raises TooManyNodes if queries have too many hosts."""
    of_query = list(elements(support(cuts)))
    if len(of_query) > MOST_HOSTS:
        raise TooManyNodes
    kind_of = {host: kind for kind, hosts in enumerate(classes) for host in hosts}
    # All sets of the hosts that matter, as bits; the other hosts enter by `_spread` alone.
    sets = np.arange(1 << len(of_query))
    broken = np.zeros(sets.size, dtype=bool)
    for cut in cuts:
        own = sum(1 << bit for bit, host in enumerate(of_query) if cut >> host & 1)
        broken |= (sets & own) == own
    used = [sum(kind_of[host] == kind for host in of_query) for kind in range(len(classes))]
    counts = np.zeros(tuple(size + 1 for size in used))
    numbers = [
        sum((sets[broken] >> bit & 1) for bit, host in enumerate(of_query) if kind_of[host] == kind) + 0 * sets[broken]
        for kind in range(len(classes))
    ]
    np.add.at(counts, tuple(numbers), 1.0)
    for kind, hosts in enumerate(classes):
        counts = np.moveaxis(np.tensordot(counts, _spread(len(hosts), used[kind]), axes=(kind, 0)), -1, kind)
    return counts


def _spread(size: int, used: int) -> FloatArray:
    """Return (used + 1, size + 1): of k failed hosts of `size`, the chance of one set of j among those that matter."""
    return np.array(
        [
            [math.comb(size - used, k - j) / math.comb(size, k) if k >= j else 0.0 for k in range(size + 1)]
            for j in range(used + 1)
        ]
    )
