"""Availability by sampling for rare failures: by the number of elements that are down, one stratum after the other.

Stratum 0 breaks nothing, and stratum 1 is solved exactly; the others are sampled given that k elements are down, and
weighted by the probability of that. Intervals of strata are combined by their distances from the estimates, root of the
sum of squares (MOVER: Zou and Donner, Statistics in Medicine 2008), so that a stratum without an event adds its 3 / n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.reliability.cuts import Cuts, elements, joint_cuts, query_cuts
from models.reliability.queries import Failures, Queries
from models.reliability.times import Interval, wilson
from sim.sampling.plain import BLOCK, Estimate, Sampled, arrays_of, check, in_parts, mean_and_interval, seed_of
from sim.sampling.states import count_given

_FEWEST = 1000  # runs of a stratum
_NEGLIGIBLE = 1e-12  # share of the probability of two failures and more that is left to the upper bounds


class _Stratum(NamedTuple):
    weight: float  # probability of so many failures
    runs: int
    broken: IntArray  # runs that broke each query
    number: int  # sums over runs of the number of broken queries, and of its square
    square: int
    some: int  # runs that broke any


def stratified(
    queries: Queries, failures: Failures, *, setting: int = 0, runs: int, seed: int = 1, workers: int = 1
) -> Sampled:
    """Return the estimate of one setting; every stratum gets a thousand runs at least. Raises InputError."""
    check(failures, setting, runs, workers)
    of_queries, chances = query_cuts(queries, failures), failures.chances[setting]
    exactly = exactly_down(chances)
    strata, left = _sampled_strata(of_queries, chances, exactly, runs, seed, workers)
    single = np.array([one_failure(cuts, chances) for cuts in of_queries])
    each = tuple(
        _together(float(single[query]), left, [_of_events(s.weight, int(s.broken[query]), s.runs) for s in strata])
        for query in range(queries.n_queries)
    )
    known = one_failure(joint_cuts(of_queries), chances)
    some = _together(known, left, [_of_events(s.weight, s.some, s.runs) for s in strata])
    means = [_mean_of(queries, stratum) for stratum in strata]
    mean = _together(float(queries.shares @ single), left, means)
    total = sum(stratum.runs for stratum in strata)
    return Sampled("stratified", total, each, mean, some, None, float(total))


def exactly_down(chances: FloatArray) -> FloatArray:
    """Return P(j of the elements i, i + 1, .. are down), (n + 1, n + 1) by i and j."""
    n = len(chances)
    found = np.zeros((n + 1, n + 1))
    found[n, 0] = 1.0
    for i in range(n - 1, -1, -1):
        found[i] = found[i + 1] * (1 - chances[i])
        found[i, 1:] += found[i + 1, :-1] * chances[i]
    return found


def one_failure(cuts: Cuts, chances: FloatArray) -> float:
    """Return P(broken and exactly one element is down)."""
    lone = [element for cut in cuts if cut.bit_count() == 1 for element in elements(cut)]
    return math.fsum(float(chances[element] * np.delete(1 - chances, element).prod()) for element in lone)


def _sampled_strata(
    of_queries: Sequence[Cuts], chances: FloatArray, exactly: FloatArray, runs: int, seed: int, workers: int
) -> tuple[list[_Stratum], float]:
    """Return the strata of two failures and more, and the probability of those that are left out."""
    weights = exactly[0].copy()
    weights[:2] = 0
    after = np.cumsum(weights[::-1])[::-1]  # P(so many or more)
    taken = [k for k in range(2, len(weights)) if weights[k] > 0 and after[k] > _NEGLIGIBLE * weights.sum()]
    left = float(weights.sum() - weights[taken].sum()) if len(taken) < len(weights) else 0.0
    # More runs for more failures than the weight alone would give: these states break queries far more often.
    wanted = weights * np.arange(len(weights))
    sizes = {k: max(min(_FEWEST, runs), math.ceil(runs * wanted[k] / wanted.sum())) for k in taken}
    parts = [(k, block) for k in taken for block in range(-(-sizes[k] // BLOCK))]
    if not parts:
        return [], max(0.0, left)
    arrays = arrays_of(of_queries)

    def count(part: tuple[int, int]) -> tuple[int, IntArray, IntArray]:
        k, block = part
        broken, totals = np.zeros(len(of_queries), dtype=np.int64), np.zeros(3, dtype=np.int64)
        size = min(BLOCK, sizes[k] - block * BLOCK)
        start = np.uint64(seed_of("stratum", seed, k, block))
        count_given(start, size, k, chances, exactly, *arrays.all, broken, totals)
        return k, broken, totals

    found = in_parts(count, parts, workers)
    strata = []
    for k in taken:
        broken: IntArray = np.sum([one for other, one, _ in found if other == k], axis=0)
        totals = np.sum([one for other, _, one in found if other == k], axis=0).tolist()
        strata.append(_Stratum(float(weights[k]), sizes[k], broken, *totals))
    return strata, max(0.0, left)


_Part = tuple[float, float, Interval]  # weight, estimate, its interval


def _of_events(weight: float, events: int, runs: int) -> _Part:
    return weight, events / runs, wilson(events, runs)


def _mean_of(queries: Queries, stratum: _Stratum) -> _Part:
    number, square = stratum.number / stratum.runs, stratum.square / stratum.runs
    variance = max(0.0, square - number * number) / queries.n_queries**2
    return stratum.weight, *mean_and_interval(queries, stratum.broken / stratum.runs, variance, stratum.runs)


def _together(known: float, left: float, parts: Sequence[_Part]) -> Estimate:
    """Return the sum over strata; `left` is the probability of strata without samples, where all may be broken."""
    value = known + math.fsum(weight * estimate for weight, estimate, _ in parts)
    below = math.sqrt(math.fsum((weight * (estimate - low)) ** 2 for weight, estimate, (low, _) in parts))
    above = math.sqrt(math.fsum((weight * (high - estimate)) ** 2 for weight, estimate, (_, high) in parts))
    return Estimate(value, (max(known, value - below), min(1.0, value + above + left)))
