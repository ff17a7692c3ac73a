"""Arrivals of a source task and their keys, drawn ahead of the run.

A point process of unit rate is bent by the inverse of the cumulative rate: the n-th tuple arrives when the
integral of the rate reaches the n-th point (Cinlar, Introduction to Stochastic Processes, 1975, section 4.7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.distributions import BatchSize, DeterministicGaps, ErlangGaps, GammaGaps, LogNormalGaps, UniformGaps
from models.scenario.inputs import RateSeries
from models.scenario.scenario import Scenario
from models.scenario.workload import ConstantRate, NexmarkKeys, ProfileKeys, RampRate, SourceWorkload, StepRate
from sim.draws import cumulative_weights, generator
from sim.nexmark_keys import events_at, nexmark_keys

_NS = 1e9


@dataclass(frozen=True)
class RateCurve:
    """A rate that is linear within n segments: edges [s] (n + 1,), rate at begin and end [1/s] (n,)."""

    edges_s: np.ndarray
    begin_per_s: np.ndarray
    end_per_s: np.ndarray

    def cumulative(self) -> np.ndarray:
        """Return the expected number of tuples up to each edge, (n + 1,)."""
        each = np.diff(self.edges_s) * (self.begin_per_s + self.end_per_s) / 2
        return np.concatenate(([0.0], np.cumsum(each)))

    def segments(self, counts: np.ndarray) -> np.ndarray:
        """Return the segment in which the cumulative rate reaches each of `counts`: the first of several."""
        segment = np.searchsorted(self.cumulative(), counts, side="left") - 1
        return np.asarray(np.clip(segment, 0, len(self.begin_per_s) - 1))

    def inverse(self, counts: np.ndarray) -> np.ndarray:
        """Return when the cumulative rate reaches each of `counts` [s]; none may be beyond the total."""
        segment = self.segments(counts)
        missing = counts - self.cumulative()[segment]
        begin = self.begin_per_s[segment]
        slope = (self.end_per_s[segment] - begin) / np.diff(self.edges_s)[segment]
        # Root of begin x + slope x^2 / 2 = missing, in the form that stays exact when the slope is zero.
        root = np.sqrt(np.maximum(begin**2 + 2 * slope * missing, 0.0))
        denominator = begin + root
        offset = np.divide(2 * missing, denominator, out=np.zeros_like(missing), where=denominator > 0)
        return np.asarray(self.edges_s[segment] + offset)


def rate_curve(workload: SourceWorkload, duration_s: float, series: RateSeries | None) -> RateCurve:
    """Return the rate of a source over [0, duration); `series` is that of a recorded series or a profile."""
    rate = workload.rate
    if series is not None:
        return _cut(series.edges_s, series.rate_per_s, series.rate_per_s, duration_s)
    if isinstance(rate, ConstantRate):
        level = np.array([rate.constant_per_s])
        return RateCurve(np.array([0.0, duration_s]), level, level)
    if isinstance(rate, StepRate):
        edges = np.array([step.at_s for step in rate.steps] + [max(duration_s, rate.steps[-1].at_s + 1)])
        levels = np.array([step.rate_per_s for step in rate.steps])
        return _cut(edges, levels, levels, duration_s)
    if isinstance(rate, RampRate):
        ramp = rate.ramp
        edges = np.array([0.0, ramp.over_s, max(duration_s, ramp.over_s) + 1])
        return _cut(
            edges,
            np.array([ramp.start_per_s, ramp.end_per_s]),
            np.array([ramp.end_per_s, ramp.end_per_s]),
            duration_s,
        )
    raise ValueError(f"the rate {rate!r} needs its recorded series")


def _cut(edges: np.ndarray, begin: np.ndarray, end: np.ndarray, duration_s: float) -> RateCurve:
    """Return the part of the curve before `duration_s`."""
    keep = edges[:-1] < duration_s
    starts, stops = edges[:-1][keep], edges[1:][keep]
    first, last = begin[keep], end[keep]
    inside = np.minimum(stops, duration_s)
    slope = (last - first) / (stops - starts)
    return RateCurve(np.append(starts, inside[-1]), first, first + slope * (inside - starts))


def draw_arrivals(
    scenario: Scenario, source: str, task: int, replication: int, series: RateSeries | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return arrival times [ns], never falling, and keys of the tuples of one source task, both (n,) int64."""
    workload = scenario.workload[source]
    parallelism = scenario.operators[source].parallelism
    # A generator for gaps and another for keys: a change of the law of one leaves the draws of the other.
    rng = generator(scenario.seed, replication, source, task, "arrivals")
    curve = rate_curve(workload, scenario.duration_s, series)
    mean_batch = workload.batch.mean if isinstance(workload.batch, BatchSize) else float(workload.batch)
    total = float(curve.cumulative()[-1]) / mean_batch
    if workload.arrivals == "deterministic" or isinstance(workload.arrivals, DeterministicGaps):
        # Task k of p takes every p-th tuple: all tasks together are evenly spaced.
        points = np.arange(task + 1, total * (1 + 1e-12) + 1e-9, parallelism)
    else:
        points = parallelism * _renewal_points(gap_sampler(workload, rng), total / parallelism)
    # Rounding may put the last point beyond the total, where the inverse is not defined.
    counts = np.minimum(points * mean_batch, curve.cumulative()[-1])
    if isinstance(workload.batch, BatchSize):
        counts = np.repeat(counts, rng.geometric(1 / workload.batch.mean, counts.size))
    elif workload.batch > 1:
        counts = np.repeat(counts, workload.batch)
    times_ns = np.maximum(np.rint(curve.inverse(counts) * _NS).astype(np.int64), 1)
    inside = times_ns < round(scenario.duration_s * _NS)
    # Not computed from the rounded times: a rounded arrival may be at the edge of a bin that has no keys.
    nexmark = isinstance(workload.keys, NexmarkKeys)
    bins = (events_at(counts) if nexmark else curve.segments(counts))[inside]
    keys = _keys(workload, bins, series, generator(scenario.seed, replication, source, task, "keys"))
    return times_ns[inside], keys


def gap_sampler(workload: SourceWorkload, rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """Return a function that draws n gaps with mean 1."""
    law = workload.arrivals
    if isinstance(law, (GammaGaps, ErlangGaps)):
        shape = law.shape
        return lambda n: rng.gamma(shape, 1 / shape, n)
    if isinstance(law, LogNormalGaps):
        sigma2 = float(np.log1p(law.cv**2))
        return lambda n: rng.lognormal(-sigma2 / 2, sigma2**0.5, n)
    if isinstance(law, UniformGaps):
        spread = law.spread
        return lambda n: rng.uniform(1 - spread, 1 + spread, n)
    return rng.standard_exponential


def _renewal_points(gaps: Callable[[int], np.ndarray], until: float) -> np.ndarray:
    """Return points of a renewal process in (0, until]: a first gap that is too small for a number gives none."""
    block = int(until + 6 * until**0.5) + 16
    # One draw of six standard deviations above the mean is nearly always enough. Its size is a part of the result:
    # another one would use other random numbers.
    points = np.cumsum(gaps(block))
    while points[-1] <= until:
        points = np.append(points, points[-1] + np.cumsum(gaps(block)))
    return np.asarray(points[(points > 0) & (points <= until)])


def _keys(
    workload: SourceWorkload, bins: np.ndarray, series: RateSeries | None, rng: np.random.Generator
) -> np.ndarray:
    """Return a key for each tuple; `bins` (n,), never falling, is the bin of a profile in which each arrives.

    For keys of NEXMark it is the number of each event.
    """
    draws = rng.random(bins.size)
    if isinstance(workload.keys, NexmarkKeys):
        return nexmark_keys(workload.keys, bins, draws)
    if not isinstance(workload.keys, ProfileKeys):
        cumulative = cumulative_weights(workload.keys)
        found = np.searchsorted(cumulative, draws, side="right")
        return np.asarray(np.minimum(found, workload.keys.count - 1).astype(np.int64))
    if series is None or series.key_weights is None:
        raise ValueError("keys from a profile need the profile's series")
    keys = np.zeros(bins.size, np.int64)
    starts = np.searchsorted(bins, np.arange(series.rate_per_s.size + 1), side="left")
    for b in np.unique(bins):
        inside = slice(starts[b], starts[b + 1])
        cumulative = np.cumsum(series.key_weights[:, b], dtype=float)
        keys[inside] = np.searchsorted(cumulative / cumulative[-1], draws[inside], side="right")
    return np.asarray(np.minimum(keys, series.key_weights.shape[0] - 1))
