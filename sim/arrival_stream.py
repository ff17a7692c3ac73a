"""The tuples of a source task, block by block in the memory of a block: the bits of `sim.arrivals.draw_arrivals`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from models.distributions import BatchSize, DeterministicGaps
from models.scenario.inputs import RateSeries
from models.scenario.scenario import Scenario
from models.scenario.workload import NexmarkKeys, ProfileKeys, SourceWorkload, UniformKeys
from sim.arrivals import RateCurve, gap_sampler, rate_curve
from sim.draws import cumulative_weights, generator
from sim.kernel.tools.arrivals import (
    arrival_times,
    guide_of,
    is_constant,
    keys_by_segment,
    keys_of,
    segments_of,
    uniform_keys,
    write_arrivals,
)
from sim.nexmark_keys import events_at, nexmark_keys

_NS = 1e9
BLOCK = 2**16
_NONE = np.zeros(0, np.int64)

Block = tuple[np.ndarray, np.ndarray]
Draw = Callable[[int], np.ndarray]


class ArrivalStream:
    """An iterator over blocks (arrival times [ns], keys) of one source task, both (n,) int64 with 0 < n <= `block`.

    One after the other they are what `draw_arrivals` returns for the same arguments. Memory is that of a block plus the
    largest batch: about 120 bytes for each tuple of the block while one is made, 30 between two. Arrivals outside the
    run are left out, so that the last blocks may be shorter.

    Geometric batches are drawn by the generator of the gaps, after all gaps: then the gaps are drawn twice, once to
    bring the generator to the first batch.
    """

    def __init__(
        self,
        scenario: Scenario,
        source: str,
        task: int,
        replication: int,
        series: RateSeries | None,
        block: int = BLOCK,
    ) -> None:
        if block < 1:
            raise ValueError(f"block = {block}: must be at least 1")
        self._workload = scenario.workload[source]
        self._tasks, self._task, self._block = scenario.operators[source].parallelism, task, block
        self._seed = scenario.seed, replication, source, task
        self._end_ns = round(scenario.duration_s * _NS)
        self._curve = rate_curve(self._workload, scenario.duration_s, series)
        cumulative = self._curve.cumulative()
        slope = (self._curve.end_per_s - self._curve.begin_per_s) / np.diff(self._curve.edges_s)
        self._inverse = self._curve.edges_s, cumulative, self._curve.begin_per_s, slope
        self._most = cumulative[-1]
        batch = self._workload.batch
        self._mean_batch = batch.mean if isinstance(batch, BatchSize) else float(batch)
        self._total = float(self._most) / self._mean_batch
        self._key_of = _key_function(self._workload, series)
        self._place_of = _place_function(self._workload, self._curve)
        self._key_rng = generator(*self._seed, "keys")
        self._parts = _in_blocks(self._counts(), block)
        self._drawn: Iterator[tuple[np.ndarray, np.ndarray]] | None = None
        simple = self._workload.batch == 1 and not self._even and self._place_of is None
        if simple and is_constant(self._curve.begin_per_s, slope):
            self._drawn = _drawn_gaps(self._gaps(), self._total / self._tasks, block)

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        while True:
            block = self._block_at(next(self._parts))
            if block[0].size:
                return block

    def fill(self, arrivals: np.ndarray) -> int:
        """Write the next arrivals into the first records (n,), n at least `block`; return how many, 0 after the last.

        Use this or the iterator for a stream, not both: they share its state.
        """
        if self._drawn is None:
            times_ns, keys = next(self, (_NONE, _NONE))
            arrivals["time"][: times_ns.size], arrivals["key"][: keys.size] = times_ns, keys
            return int(times_ns.size)
        for gaps, sums in self._drawn:
            n, more = write_arrivals(
                gaps,
                sums,
                float(self._tasks),
                self._total / self._tasks,
                self._mean_batch,
                float(self._most),
                self._end_ns,
                float(self._curve.edges_s[0]),
                float(self._curve.begin_per_s[0]),
                arrivals,
            )
            if not more:
                self._drawn = iter(())
            if n > 0:
                arrivals["key"][:n] = self._key_of(_NONE, self._key_rng.random(n))
                return n
        return 0

    @property
    def block(self) -> int:
        """Return the largest number of arrivals in a block."""
        return self._block

    def _block_at(self, counts: np.ndarray) -> Block:
        """Return the tuples that arrive when the cumulative rate reaches `counts`."""
        times_ns = arrival_times(counts, *self._inverse)
        inside = int(np.searchsorted(times_ns, self._end_ns))  # they never fall
        times_ns = times_ns[:inside]
        # Not computed from the rounded times: a rounded arrival may be at the edge of a bin that has no keys.
        places = times_ns if self._place_of is None else self._place_of(counts[:inside])
        return times_ns, self._key_of(places, self._key_rng.random(times_ns.size))

    def _counts(self) -> Iterator[np.ndarray]:
        """Yield the cumulative rate at the arrival of each tuple."""
        size = max(1, int(self._block / self._mean_batch))
        batches = self._batches(size)
        for points in self._points(size):
            counts = np.minimum(points * self._mean_batch, self._most)
            yield counts if self._workload.batch == 1 else np.repeat(counts, batches(points.size))

    def _points(self, size: int) -> Iterator[np.ndarray]:
        """Yield points at rate 1 for all tasks together, `size` at a time."""
        if self._even:
            # Task k of p takes every p-th tuple: all tasks together are evenly spaced.
            yield from _even_points(self._task + 1, self._total * (1 + 1e-12) + 1e-9, self._tasks, size)
            return
        until = self._total / self._tasks
        for points in _renewal_points(self._gaps(), until, size):
            first, inside = np.searchsorted(points, (0.0, until), side="right").tolist()
            yield self._tasks * points[first:inside]
            if inside < points.size:
                return

    @property
    def _even(self) -> bool:
        law = self._workload.arrivals
        return law == "deterministic" or isinstance(law, DeterministicGaps)

    def _gaps(self) -> Draw:
        return gap_sampler(self._workload, generator(*self._seed, "arrivals"))

    def _batches(self, size: int) -> Callable[[int], np.ndarray | int]:
        """Return a function that returns how many tuples arrive at each of the next n points."""
        batch = self._workload.batch
        if not isinstance(batch, BatchSize):
            return lambda _: batch
        rng = generator(*self._seed, "arrivals")
        if not self._even:
            for _ in _renewal_points(gap_sampler(self._workload, rng), self._total / self._tasks, size):
                pass  # advance the generator to the first batch
        return lambda count: rng.geometric(1 / batch.mean, count)


def _even_points(first: int, stop: float, step: int, size: int) -> Iterator[np.ndarray]:
    """Yield `np.arange(first, stop, step)` in parts: whole numbers, so no part rounds."""
    count = math.ceil((stop - first) / step)
    for begin in range(0, count, size):
        yield first + step * np.arange(begin, min(begin + size, count), dtype=float)


def _renewal_points(gaps: Draw, until: float, size: int) -> Iterator[np.ndarray]:
    """Yield points of a renewal process from 0 to beyond `until`: the draws and sums of `draw_arrivals`.

    It sums the gaps of one draw, and adds the last point to the sums of the next draw.
    """
    drawn = int(until + 6 * until**0.5) + 16
    last = 0.0
    while last <= until:
        base, carry = last, 0.0
        for begin in range(0, drawn, size):
            points = gaps(min(size, drawn - begin))
            # Sums of floats depend on their order: carry the running sum into the next block, as one cumsum would.
            points[0] += carry
            np.cumsum(points, out=points)
            carry = float(points[-1])
            points += base
            last = float(points[-1])
            yield points


def _drawn_gaps(gaps: Draw, until: float, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the gaps of `_renewal_points` before they are summed, and sums (2,) that the caller keeps.

    These are the last point of the draw before, and the sum of the gaps of this draw so far.
    """
    drawn = int(until + 6 * until**0.5) + 16
    sums, last = np.zeros(2), 0.0
    while last <= until:
        sums[:] = last, 0.0
        for begin in range(0, drawn, size):
            yield gaps(min(size, drawn - begin)), sums
        last = float(sums[0] + sums[1])


def _in_blocks(parts: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Yield the same numbers in arrays of `size`, the last one shorter."""
    held: list[np.ndarray] = []
    missing = size
    for part in parts:
        rest = part
        while rest.size >= missing:
            yield np.concatenate([*held, rest[:missing]]) if held else rest[:missing]
            rest, held, missing = rest[missing:], [], size
        if rest.size:
            held.append(rest)
            missing -= rest.size
    if held:
        yield np.concatenate(held)


def _place_function(workload: SourceWorkload, curve: RateCurve) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function from cumulative numbers of arrivals to what keys depend on; None where they do not."""
    if isinstance(workload.keys, NexmarkKeys):
        return events_at
    if not isinstance(workload.keys, ProfileKeys):
        return None
    cumulative = curve.cumulative()
    return lambda counts: segments_of(counts, cumulative)


def _key_function(
    workload: SourceWorkload, series: RateSeries | None
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function from places, never falling, and uniform numbers of tuples to their keys.

    A place is a bin of a profile, or the number of an event of NEXMark.
    """
    if isinstance(workload.keys, NexmarkKeys):
        return partial(nexmark_keys, workload.keys)
    if not isinstance(workload.keys, ProfileKeys):
        if isinstance(workload.keys, UniformKeys):
            count = workload.keys.count
            return lambda _, draws: uniform_keys(draws, count)
        table = cumulative_weights(workload.keys)
        guide = guide_of(table)
        return lambda _, draws: keys_of(draws, table, guide)
    if series is None or series.key_weights is None:
        raise ValueError("keys from a profile need the profile's series")
    weights = series.key_weights
    return lambda bins, draws: keys_by_segment(weights, bins, draws)
