"""Availability of queries where failures are rare: by importance sampling, and by stratification.

`weighted` draws failures too often and weights runs back. A run with elements D down, drawn with chances r in place of
q, weighs prod over D of q / r times prod over the others of (1 - q) / (1 - r): the likelihood ratio. The mean over all
runs of the weights of those that break a query is an unbiased estimate of the probability that it is broken.

`stratified` takes the number of elements that are down as strata. Stratum 0 breaks nothing, and stratum 1 is solved
exactly; the others are sampled given that k elements are down, and weighted by the probability of that. Intervals of
strata are combined by their distances from the estimates, root of the sum of squares (MOVER: Zou and Donner, Statistics
in Medicine 2008), so that a stratum without an event adds its 3 / n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.errors import InputError
from models.reliability.cuts import Cuts, elements, joint_cuts, query_cuts
from models.reliability.queries import Failures, Queries
from models.reliability.times import Interval, at_most, effective, wilson
from sim.sampling.plain import BLOCK, Estimate, Sampled, arrays_of, check, in_parts, mean_and_interval, seed_of
from sim.sampling.states import count_given, count_weighted

_FAILURES_A_RUN = 2.0


def weighted(
    queries: Queries,
    failures: Failures,
    *,
    setting: int = 0,
    runs: int,
    seed: int = 1,
    workers: int = 1,
    tilt: float | None = None,
) -> Sampled:
    """Return the estimate of one setting by importance sampling: elements fail with `tilt` times their odds.

    Without a tilt it makes about two failures a run. `effective_runs` is (sum of w)^2 / sum of w^2 over the runs that
    broke something. Raises InputError.

    `tilt`: factor on the odds q / (1 - q) of each failure, at least 1; a larger one sees more failures with smaller
    weights. The other arguments are those of `plain.sampled`; `runs` is not rounded.
    """
    check(failures, setting, runs, workers)
    arrays, chances = arrays_of(query_cuts(queries, failures)), failures.chances[setting]
    tilted = tilted_chances(chances, tilt)
    base, change = log_weights(chances, tilted)
    parts = range(-(-runs // BLOCK))

    def count(block: int) -> tuple[FloatArray, FloatArray]:
        each, totals = np.zeros((2, queries.n_queries)), np.zeros(4)
        start, size = np.uint64(seed_of("weighted", seed, block)), min(BLOCK, runs - block * BLOCK)
        count_weighted(start, size, tilted, base, change, *arrays.all, queries.shares, each[0], each[1], totals)
        return each, totals

    # Results come in the order of the blocks: sums of floats would depend on any other.
    found = in_parts(count, parts, workers)
    sums, squares = np.sum([one for one, _ in found], axis=0)
    some, some_squares, mean, mean_squares = np.sum([one for _, one in found], axis=0)
    heaviest = _heaviest(base, change, certain=bool((chances == 1).any()))
    estimates = [_estimate(a, b, runs, heaviest) for a, b in zip(sums, squares, strict=True)]
    worth = float(some**2 / some_squares) if some_squares else 0.0
    return Sampled(
        "importance-sampling",
        runs,
        tuple(estimates),
        _estimate(mean, mean_squares, runs, heaviest),
        _estimate(some, some_squares, runs, heaviest),
        None,
        worth,
    )


def tilted_chances(chances: FloatArray, tilt: float | None) -> FloatArray:
    """Return the chances at `tilt` times the odds; without one, those that give two failures, or more by themselves.

    `chances` (n,): probabilities of failure, 0 to 1. Raises InputError for a tilt below 1 or infinite.
    """
    if tilt is None:
        expected = float(chances.sum())
        tilt = max(1.0, _FAILURES_A_RUN / expected) if expected > 0 else 1.0
    if not 1 <= tilt < math.inf:
        raise InputError.at("tilt", tilt, "must be at least 1")
    # Odds and not chances are scaled, so that no chance reaches 1; certain failures stay certain.
    free = (chances > 0) & (chances < 1)
    odds = np.where(free, chances, 0) / np.where(free, 1 - chances, 1)
    return np.where(free, tilt * odds / (1 + tilt * odds), chances)


def log_weights(chances: FloatArray, tilted: FloatArray) -> tuple[float, FloatArray]:
    """Return the log weight of a run without failures (but certain ones), and the change by each failure.

    The log weight of a run is the first plus the sum of the second, (n,), over the elements that are down. Elements
    that fail never or certainly add nothing.
    """
    free = (chances > 0) & (chances < 1)
    change = np.zeros(len(chances))
    up = np.log1p(-chances[free]) - np.log1p(-tilted[free])
    change[free] = np.log(chances[free]) - np.log(tilted[free]) - up
    return float(up.sum()), change


def _heaviest(base: float, change: FloatArray, *, certain: bool) -> float:
    """Return the largest weight of a run that may break something: one failure, since none raises a weight."""
    return math.exp(base if certain else base + float(change.max(initial=-math.inf)))


def _estimate(total: float, squares: float, runs: int, heaviest: float) -> Estimate:
    """Return the estimate; where nothing was broken, at most 3 / runs at the drawn chances times the largest weight."""
    # No run broke anything: the variance is 0 and says nothing. Bound the number of such runs, and their weight.
    if total <= 0:
        return Estimate(0.0, (0.0, min(1.0, at_most(runs) * heaviest)))
    value = float(total) / runs
    variance = max(0.0, float(squares) / runs - value * value) / max(1, runs - 1)
    return Estimate(value, wilson(*effective(value, variance, runs)))


_FEWEST = 1000  # runs of a stratum
_NEGLIGIBLE = 1e-12  # share of the probability of two failures and more that is left to the upper bounds


class _Stratum(NamedTuple):
    """Sampled runs with one number of failures."""

    weight: float  # probability of so many failures
    runs: int
    broken: IntArray  # runs that broke each query
    number: int  # sums over runs of the number of broken queries, and of its square
    square: int
    some: int  # runs that broke any


def stratified(
    queries: Queries, failures: Failures, *, setting: int = 0, runs: int, seed: int = 1, workers: int = 1
) -> Sampled:
    """Return the estimate of one setting by strata of the number of failures.

    Every stratum gets a thousand runs at least, so the total may exceed `runs`; the others follow the probability of a
    stratum times its number of failures. Arguments are those of `plain.sampled`. Raises InputError.
    """
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
    """Return P(j of the elements i, i + 1, .. are down), (n + 1, n + 1) by i and j.

    `chances` (n,). The Poisson-binomial law of each tail, by the recursion over elements; O(n^2). Row 0 is the law of
    the number of failures.

    >>> exactly_down(np.array([0.5, 0.5]))[0].tolist()
    [0.25, 0.5, 0.25]
    """
    n = len(chances)
    found = np.zeros((n + 1, n + 1))
    found[n, 0] = 1.0
    for i in range(n - 1, -1, -1):
        found[i] = found[i + 1] * (1 - chances[i])
        found[i, 1:] += found[i + 1, :-1] * chances[i]
    return found


def one_failure(cuts: Cuts, chances: FloatArray) -> float:
    """Return P(broken and exactly one element is down)."""
    # With one element down only cuts of one element are complete.
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
    # Added to the upper bound (`_together`): strata that are too unlikely to sample count as broken.
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
    """Return the share of runs with an event, with its interval."""
    return weight, events / runs, wilson(events, runs)


def _mean_of(queries: Queries, stratum: _Stratum) -> _Part:
    """Return the mean share of broken queries in a stratum, with its interval."""
    number, square = stratum.number / stratum.runs, stratum.square / stratum.runs
    variance = max(0.0, square - number * number) / queries.n_queries**2
    return stratum.weight, *mean_and_interval(queries, stratum.broken / stratum.runs, variance, stratum.runs)


def _together(known: float, left: float, parts: Sequence[_Part]) -> Estimate:
    """Return the sum over strata; `left` is the probability of strata without samples, where all may be broken.

    `known`: probability that was computed. The interval is that of MOVER (see the module): distances from the estimates
    are combined as the root of the sum of squares.
    """
    value = known + math.fsum(weight * estimate for weight, estimate, _ in parts)
    below = math.sqrt(math.fsum((weight * (estimate - low)) ** 2 for weight, estimate, (low, _) in parts))
    above = math.sqrt(math.fsum((weight * (high - estimate)) ** 2 for weight, estimate, (_, high) in parts))
    return Estimate(value, (max(known, value - below), min(1.0, value + above + left)))
