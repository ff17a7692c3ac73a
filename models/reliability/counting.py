"""How many failure sets of each size break something: inclusion-exclusion over unions of cuts, in whole numbers.

With c[j] = sum over sets of cuts whose union has j elements of (-1)^(cuts + 1), inclusion-exclusion says
P(broken) = sum_j c[j] q^j. These terms cancel. Written as

    P(broken) = sum_k N[k] q^k (1 - q)^(n - k),    N[k] = sum_j c[j] C(n - j, k - j),

where N[k] of the sets of k elements break it, nothing is negative: every digit is kept for any q, and one N serves
a whole curve over q.
"""

from __future__ import annotations

from math import comb

import numpy as np

from models.checked_arrays import FloatArray
from models.reliability.cuts import Cuts, elements, support

MOST_CUTS = 16
MOST_ELEMENTS = 62
_FEW_CUTS = 6  # up to here plain Python is faster than arrays

Counts = tuple[int, ...]


def breaking_sets(cuts: Cuts) -> Counts:
    """Return N[k] for k = 0 .. n: of the sets of k of the n elements in the cuts, how many contain a cut.

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
    # Inclusion-exclusion with whole numbers: exact however many terms cancel out. The empty union is left out.
    unions, signs, c = [0], [-1], [0] * (n + 1)
    for cut in cuts:
        unions += [union | cut for union in unions]
        signs += [-sign for sign in signs]
    for union, sign in zip(unions[1:], signs[1:], strict=True):
        c[union.bit_count()] += sign
    return c


def _by_union(cuts: Cuts, n: int) -> list[int]:
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
    """Return P(broken) if every element is down with probability q, by value of q; relative error about 1e-15."""
    # All terms are positive, so small probabilities keep their digits; inclusion-exclusion in floats would not.
    n, total = len(counts) - 1, np.zeros_like(q)
    for k, count in enumerate(counts):
        if count:
            total += float(count) * q**k * (1 - q) ** (n - k)
    return np.minimum(total, 1.0)
