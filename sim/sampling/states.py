"""Broken queries in many random states of a cluster; 64 states in a word, or one state at a time.

`cut_start`, `cut_elements`: the elements of each cut, one after the other. `query_start`: the cuts of each query. A
query is broken when all elements of one of its cuts are down.

Words are uint64: bit r of word w is run 64 w + r. So one AND or OR decides about 64 runs at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sim.kernel.tools.cache import allocating, nogil

_ONE, _ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_ODD, _PAIRS, _NIBBLES = (np.uint64(x) for x in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
_BYTES = np.uint64(0x0101010101010101)
_U1, _U2, _U4, _U6, _U56, _U63 = (np.uint64(x) for x in (1, 2, 4, 6, 56, 63))
_UNIT = 2.0**-53
_BELOW_ONE = 1 - _UNIT  # the largest of the hashes would round to 1


@allocating
def uniform(state: Any) -> Any:
    """Return a number strictly between 0 and 1, and move the state on.

    `state` (1,) uint64. The top 53 bits of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) are the number, plus a half.
    """
    state[0] += _GOLDEN
    x = state[0]
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    x = x ^ (x >> _31)
    return min((np.float64(x >> _11) + 0.5) * _UNIT, _BELOW_ONE)


@allocating
def ones(x: Any) -> Any:
    """Return the number of bits of a word that are set, by sums over pairs, nibbles and bytes (no branch, no table)."""
    x = x - ((x >> _U1) & _ODD)
    x = (x & _PAIRS) + ((x >> _U2) & _PAIRS)
    x = (x + (x >> _U4)) & _NIBBLES
    return np.int64((x * _BYTES) >> _U56)


@allocating
def draw_words(state: Any, down: Any, chances: Any) -> None:
    """Set the bits of the runs in which each element is down.

    `down` (n_elements, n_words) is overwritten; `chances` (n_elements,). The gap from one such run to the next is
    geometric: floor(log(u) / log(1 - q)) + 1 with u uniform (Devroye, Non-Uniform Random Variate Generation, 1986,
    section X.2).
    """
    n = np.float64(down.shape[1] * 64)
    for element in range(down.shape[0]):
        row, chance = down[element], chances[element]
        row[:] = _ALL if chance >= 1 else np.uint64(0)
        if chance <= 0 or chance >= 1:
            continue
        # Gaps between failures are geometric: for rare failures few numbers are drawn for thousands of runs.
        rate = -math.log1p(-chance)
        place = -1.0
        while True:
            place += np.floor(-math.log(uniform(state)) / rate) + 1  # a float: it may be infinite
            if place >= n:
                break
            bit = np.uint64(place)
            row[np.int64(bit >> _U6)] |= _ONE << (bit & _U63)


@allocating
def break_words(
    broken: Any, down: Any, scratch: Any, query: Any, cut_start: Any, cut_elements: Any, query_start: Any
) -> None:
    """Find the runs in which a query is broken: OR over its cuts of AND over the elements of each.

    `broken`, `scratch` (n_words,) are overwritten; `down` (n_elements, n_words).
    """
    broken[:] = np.uint64(0)
    for cut in range(query_start[query], query_start[query + 1]):
        first = cut_start[cut]
        scratch[:] = down[cut_elements[first]]
        for place in range(first + 1, cut_start[cut + 1]):
            row = down[cut_elements[place]]
            for w in range(len(scratch)):
                scratch[w] &= row[w]
        for w in range(len(scratch)):
            broken[w] |= scratch[w]


@allocating
def add_bits(planes: Any, broken: Any) -> None:
    """Count up the runs of `broken`; uses up `broken`.

    `planes` (n_planes, n_words): plane b holds bit b of every run's number of broken queries, a bit-sliced counter. The
    caller provides enough planes for the largest number.
    """
    for plane in range(planes.shape[0]):
        row = planes[plane]
        for w in range(len(broken)):
            # A ripple-carry adder for 64 counters at once: bit i of all planes together is the number of run i.
            carry = row[w] & broken[w]
            row[w] ^= broken[w]
            broken[w] = carry


@allocating
def tell_numbers(planes: Any, law: Any) -> None:
    """Add every run's number of broken queries to the law, (n_queries + 1,); `planes` as `add_bits` leaves them."""
    for w in range(planes.shape[1]):
        some = np.uint64(0)
        for plane in range(planes.shape[0]):
            some |= planes[plane, w]
        law[0] += 64 - ones(some)
        while some:
            # The lowest bit that is set: runs without a broken query, the most, are counted by `ones` above.
            low = some & (~some + _ONE)
            some ^= low
            number = 0
            for plane in range(planes.shape[0]):
                if planes[plane, w] & low:
                    number += 1 << plane
            law[number] += 1


@nogil
def count_words(
    seeds: Any, n_words: Any, chances: Any, cut_start: Any, cut_elements: Any, query_start: Any, broken: Any, law: Any
) -> None:
    """Add 64 n_words runs for each seed: how often each query was broken, how often how many were.

    `seeds` (n_blocks,) uint64: the state at the begin of each block. `chances` (n_elements,). Results are added to
    `broken` (n_queries,) and `law` (n_queries + 1,), both int64.
    """
    n_queries = len(query_start) - 1
    state = np.zeros(1, dtype=np.uint64)
    down = np.zeros((len(chances), n_words), dtype=np.uint64)
    own, scratch = np.zeros(n_words, dtype=np.uint64), np.zeros(n_words, dtype=np.uint64)
    n_planes = 1
    while (1 << n_planes) <= n_queries:
        n_planes += 1
    planes = np.zeros((n_planes, n_words), dtype=np.uint64)
    for seed in seeds:
        state[0] = seed
        draw_words(state, down, chances)
        planes[:] = np.uint64(0)
        for query in range(n_queries):
            break_words(own, down, scratch, query, cut_start, cut_elements, query_start)
            found = 0
            for w in range(n_words):
                found += ones(own[w])
            if found:
                broken[query] += found
                add_bits(planes, own)
        tell_numbers(planes, law)


@allocating
def is_broken(query: Any, down: Any, cut_start: Any, cut_elements: Any, query_start: Any) -> Any:
    """Return True if a query is broken in one state, (n_elements,) bool."""
    for cut in range(query_start[query], query_start[query + 1]):
        whole = True
        for place in range(cut_start[cut], cut_start[cut + 1]):
            if not down[cut_elements[place]]:
                whole = False
                break
        if whole:
            return True
    return False


@nogil
def count_given(
    seed: Any,
    runs: Any,
    k: Any,
    chances: Any,
    exactly: Any,
    cut_start: Any,
    cut_elements: Any,
    query_start: Any,
    broken: Any,
    totals: Any,
) -> None:
    """Add runs in which exactly k elements are down: how often each query was broken; sums of their number.

    `exactly[i, j]`: P(j of the elements i, i + 1, .. are down). `totals`: sum and sum of squares of the number of
    broken queries, and the runs in which any was.

    Elements are drawn one by one, each given the number of failures that is left for it and those after it; so every
    run has exactly k, with the right probability. `exactly` comes from `importance_sampling.exactly_down`.
    """
    state = np.zeros(1, dtype=np.uint64)
    state[0] = seed
    down = np.zeros(len(chances), dtype=np.bool_)
    for _ in range(runs):
        left = k
        for element in range(len(chances)):
            down[element] = False
            # P(element down | `left` of it and those after it are down), without a division.
            if left and uniform(state) * exactly[element, left] < chances[element] * exactly[element + 1, left - 1]:
                down[element] = True
                left -= 1
        number = 0
        for query in range(len(query_start) - 1):
            if is_broken(query, down, cut_start, cut_elements, query_start):
                broken[query] += 1
                number += 1
        totals[0] += number
        totals[1] += number * number
        totals[2] += 1 if number else 0


@nogil
def count_weighted(
    seed: Any,
    runs: Any,
    tilted: Any,
    base: Any,
    change: Any,
    cut_start: Any,
    cut_elements: Any,
    query_start: Any,
    shares: Any,
    sums: Any,
    squares: Any,
    totals: Any,
) -> None:
    """Add runs drawn with chances `tilted`, each with its likelihood ratio as weight.

    log weight = base + sum of `change` over the elements that are down. `sums`, `squares`: of the weights of the runs
    that broke each query. `totals`: the same of the runs that broke any, and of weight times share of broken queries.
    """
    state = np.zeros(1, dtype=np.uint64)
    state[0] = seed
    down = np.zeros(len(tilted), dtype=np.bool_)
    for _ in range(runs):
        # Logarithms: the product of thousands of ratios would underflow.
        log_weight = base
        for element in range(len(tilted)):
            down[element] = uniform(state) < tilted[element]
            if down[element]:
                log_weight += change[element]
        weight = math.exp(log_weight)
        share = 0.0
        for query in range(len(query_start) - 1):
            if is_broken(query, down, cut_start, cut_elements, query_start):
                sums[query] += weight
                squares[query] += weight * weight
                share += shares[query]
        if share:
            totals[0] += weight
            totals[1] += weight * weight
            totals[2] += weight * share
            totals[3] += (weight * share) ** 2
