"""The law of the number of queries that are broken at once: exact for few elements, else from small failure sets.

A row of bits says which queries a failure set breaks; it is the union of the rows of its subsets and of the cuts that
it equals. Up to 16 elements all sets are enumerated. With more, all sets of up to three elements are; the probability
that more elements fail is left, and brackets every figure. The sets are enumerated once for all settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.checked_arrays import FloatArray
from models.errors import InputError
from models.reliability.cuts import Cuts, elements, failed, query_cuts, support
from models.reliability.queries import Failures, Queries

MOST_ELEMENTS = 16
LARGEST_SET = 3
_MOST_WORDS = 30_000_000  # of 64 bits, for all sets of three, some at a time
_MOST_PAIRS = 8_000_000  # of 64 bits, for all pairs, which are kept
_HOLDS = 1e-12  # rounding of a sum that should reach a level

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class BrokenLaw:
    """P(exactly m queries are broken) as far as enumerated, and the probability that is left.

    `mass` (n_p, n_queries + 1): by setting and m. `open` (n_p,): probability of the sets that were not enumerated.
    `sets`: the largest size of the failure sets that were, None for all.
    """

    mass: FloatArray
    open: FloatArray
    sets: int | None

    @property
    def n_queries(self) -> int:
        """Return the number of queries."""
        return int(self.mass.shape[1]) - 1

    def short_of(self, share: float) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of P(less than this share of the queries runs), (n_p,) each."""
        if not 0 <= share <= 1:
            raise InputError.at("share", share, "must be between 0 and 1")
        # A hair more: share * n may be a whole number that floating point puts just below itself.
        allowed = math.floor(self.n_queries * (1 - share) + 1e-9)
        found = self.mass[:, allowed + 1 :].sum(axis=1)
        return found, found + (self.open if allowed < self.n_queries else 0.0)

    def running_with(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of the largest share of queries that runs with at least this probability, (n_p,) each."""
        if not 0 <= level <= 1:
            raise InputError.at("level", level, "must be between 0 and 1")
        below = np.cumsum(self.mass, axis=1)
        # The upper bound counts all that is left open as sets that break nothing more.
        reached = [below + _HOLDS >= level, below + self.open[:, None] + _HOLDS >= level]
        low, high = (np.where(found.any(axis=1), 1 - found.argmax(axis=1) / self.n_queries, 0.0) for found in reached)
        return low, high


def broken_law(queries: Queries, failures: Failures) -> BrokenLaw:
    """Return the law of the number of broken queries in every setting.

    With more than 16 elements only small failure sets are enumerated: `open` is then the probability of all others.
    """
    of_queries = query_cuts(queries, failures)
    mass = np.zeros((failures.n_settings, queries.n_queries + 1))
    left, sets = np.zeros(failures.n_settings), []
    # Elements that are certainly down are put into the cuts first: odds of 1 : 0 cannot be computed with.
    for certain, rows in _certain(failures.chances).items():
        remaining = [failed(cuts, certain) for cuts in of_queries]
        chances = failures.chances[rows]
        touched = list(elements(support(mask for cuts in remaining for mask in cuts)))
        found, most = _law_of(remaining, chances, touched)
        mass[rows] = found
        # Larger sets were not enumerated: their probability brackets every figure.
        left[rows] = 0.0 if most is None else _more_than(chances[:, touched], most)
        sets.append(most)
    known = [most for most in sets if most is not None]
    return BrokenLaw(mass, left, min(known) if known else None)


def _certain(chances: FloatArray) -> dict[int, list[int]]:
    """Return the rows of settings by the mask of the elements that are down for certain."""
    found: dict[int, list[int]] = {}
    for row, values in enumerate(chances):
        found.setdefault(sum(1 << int(element) for element in np.flatnonzero(values == 1)), []).append(row)
    return found


def _law_of(of_queries: list[Cuts], chances: FloatArray, touched: list[int]) -> tuple[FloatArray, int | None]:
    """Return the mass, and the largest size of sets that memory allows to enumerate; None for all.

    `touched`: elements in some cut; the others break nothing.
    """
    place = {element: index for index, element in enumerate(touched)}
    local = [[sum(1 << place[element] for element in elements(cut)) for cut in cuts] for cuts in of_queries]
    if len(touched) <= MOST_ELEMENTS:
        return _by_all_sets(local, chances[:, touched]), None
    n, words = len(touched), (len(of_queries) + 63) // 64
    # Memory decides the largest size: triples are many, pairs are kept.
    most = LARGEST_SET if math.comb(n, 3) * words <= _MOST_WORDS else 2
    most = most if n * n * words <= _MOST_PAIRS else 1
    return _by_small_sets(local, chances[:, touched], most), most


def _by_all_sets(of_queries: list[list[int]], chances: FloatArray) -> FloatArray:
    """Return the mass, (n_p, n_queries + 1), by all 2^n sets of elements."""
    n = chances.shape[1]
    rows = _own_bits(of_queries)
    bits = np.zeros((1 << n, (len(of_queries) + 63) // 64), dtype=np.uint64)
    for mask, row in rows.items():
        bits[mask] = row
    weight = np.ones((len(chances), 1))
    # Sum over subsets (zeta transform): element by element, each set takes over the bits of the set without it. The
    # weights of all sets grow along with it, in the same order.
    for element in range(n):
        view = bits.reshape(1 << (n - 1 - element), 2, 1 << element, -1)
        view[:, 1] |= view[:, 0]
        q = chances[:, element : element + 1]
        weight = np.concatenate([weight * (1 - q), weight * q], axis=1)
    broken = _count(bits)
    return np.array([np.bincount(broken, weights=one, minlength=len(of_queries) + 1) for one in weight])


def _own_bits(of_queries: list[list[int]]) -> dict[int, Words]:
    """Return the queries that a set breaks and none of its subsets does, as rows of bits."""
    found: dict[int, Words] = {}
    for query, cuts in enumerate(of_queries):
        for cut in cuts:
            row = found.setdefault(cut, np.zeros((len(of_queries) + 63) // 64, dtype=np.uint64))
            row[query // 64] |= np.uint64(1 << query % 64)
    return found


def _by_small_sets(of_queries: list[list[int]], chances: FloatArray, most: int) -> FloatArray:
    """Return the mass of all sets of up to `most` elements; if all chances are equal, sets are only counted."""
    # P(exactly this set is down) = P(none is down) x product of the odds of its members.
    odds = chances / (1 - chances)
    alike = (chances == chances[:, :1]).all()
    none = np.exp(np.log1p(-chances).sum(axis=1))
    mass = np.zeros((len(chances), len(of_queries) + 1))
    for members, broken in _small_sets(of_queries, chances.shape[1], most):
        if alike:
            counts = np.bincount(broken, minlength=mass.shape[1])
            mass += (none * odds[:, 0] ** len(members))[:, None] * counts
            continue
        for row, own in enumerate(odds):
            weights = np.full(len(broken), none[row])
            for member in members:
                weights = weights * own[member]
            mass[row] += np.bincount(broken, weights=weights, minlength=mass.shape[1])
    return mass


def _small_sets(
    of_queries: list[list[int]], n: int, most: int
) -> Iterator[tuple[tuple[npt.NDArray[np.int64], ...], npt.NDArray[np.int64]]]:
    """Yield (members by place, how many queries they break) of all sets of up to `most` elements, many at a time."""
    own = _own_bits(of_queries)
    empty = own.get(0, np.zeros((len(of_queries) + 63) // 64, dtype=np.uint64))
    yield (), _count(empty[None, :])
    # What the empty set breaks is broken in every set.
    single: Words = np.stack([own.get(1 << i, empty) | empty for i in range(n)])
    yield (np.arange(n),), _count(single)
    if most < 2:
        return
    # Bits of a set are the union over its subsets: pairs of two singles, triples of three pairs.
    pairs: Words = single[:, None, :] | single[None, :, :]
    triples: dict[int, list[tuple[int, int, Words]]] = {}
    for mask, row in own.items():
        members = list(elements(mask))
        if len(members) == 2:
            for one, other in (members, members[::-1]):
                pairs[one, other] |= row
        elif len(members) == 3:
            triples.setdefault(members[0], []).append((members[1], members[2], row))
    first, second = np.triu_indices(n, 1)
    yield (first, second), _count(pairs[first, second])
    for i in range(n if most > 2 else 0):
        # Members in ascending order, so that every set of three appears once.
        later = first > i
        j, k = first[later], second[later]
        bits = pairs[i, j] | pairs[i, k] | pairs[j, k]
        for one, other, row in triples.get(i, ()):
            bits[(j == one) & (k == other)] |= row
        yield (np.full(len(j), i), j, k), _count(bits)


def _count(bits: Words) -> npt.NDArray[np.int64]:
    """Return how many queries each set breaks, from its row of bits."""
    found: npt.NDArray[np.int64] = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return found


def _more_than(chances: FloatArray, most: int) -> FloatArray:
    """Return P(more than `most` elements are down), (n_p,); sums of positive terms."""
    exactly = np.zeros((most + 2, len(chances)))
    exactly[0] = 1.0
    for q in chances.T:
        # In place, the highest count last: the old values are needed for `more` before they change.
        more = exactly[:-1] * q
        exactly[:-1] *= 1 - q
        exactly[1:] += more
    found: FloatArray = exactly[-1]
    return found
