"""Availability by importance sampling: failures are drawn too often, and runs are weighted back.

A run with elements D down, drawn with chances r in place of q, weighs prod over D of q / r times prod over the others
of (1 - q) / (1 - r): the likelihood ratio. The mean over all runs of the weights of those that break a query is an
unbiased estimate of the probability that it is broken.
"""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import FloatArray
from models.errors import InputError
from models.reliability.cuts import query_cuts
from models.reliability.queries import Failures, Queries
from models.reliability.times import at_most, effective, wilson
from sim.sampling.plain import BLOCK, Estimate, Sampled, arrays_of, check, in_parts, seed_of
from sim.sampling.states import count_weighted

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
    """Return the chances at `tilt` times the odds; without one, those that give two failures, or more by themselves."""
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
    """Return the log weight of a run without failures (but certain ones), and the change by each failure."""
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
