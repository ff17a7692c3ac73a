"""The tuples of a source in blocks are those that are drawn at once, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_jobs import NS, queue

from models.scenario.inputs import RateSeries
from models.scenario.scenario import Scenario
from models.scenario.workload import ProfileKeys
from sim.arrival_stream import ArrivalStream
from sim.arrival_stream import _renewal_points as in_parts
from sim.arrivals import RateCurve, draw_arrivals
from sim.arrivals import _renewal_points as at_once
from sim.kernel.event_loop.entities import SOURCE_ARRIVAL
from sim.kernel.tools.arrivals import arrival_times, keys_by_segment, segments_of, uniform_keys

LAW = {"distribution": "exponential", "mean": "1 ms"}
ARRIVALS: list[Any] = [
    "poisson",
    "deterministic",
    {"distribution": "deterministic"},
    {"distribution": "exponential"},
    {"distribution": "erlang", "shape": 3},
    {"distribution": "gamma", "shape": 0.4},
    {"distribution": "gamma", "shape": 0.001},
    {"distribution": "lognormal", "cv": 1.7},
    {"distribution": "lognormal", "cv": 30.0},
    {"distribution": "uniform", "spread": 1.0},
]
BATCHES: list[Any] = [
    1,
    3,
    40,
    {"distribution": "geometric", "mean": 1.0},
    {"distribution": "geometric", "mean": 2.5},
    {"distribution": "geometric", "mean": 60.0},
]
KEYS: list[Any] = [
    {"distribution": "uniform", "count": 1},
    {"distribution": "uniform", "count": 37},
    {"distribution": "zipf", "count": 100, "exponent": 1.3},
]
RATES: list[Any] = [
    "0 /s",
    "400 /s",
    {"steps": [{"at": "0 s", "rate": "0 /s"}, {"at": "1 s", "rate": "90 /s"}, {"at": "2 s", "rate": "0 /s"}]},
    {"steps": [{"at": "0 s", "rate": "700 /s"}, {"at": "500 ms", "rate": "0 /s"}, {"at": "3 s", "rate": "50 /s"}]},
    {"ramp": {"start": "0 /s", "end": "300 /s", "over": "2 s"}},
    {"ramp": {"start": "300 /s", "end": "0 /s", "over": "1500 ms"}},
]
SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 1000)
EXAMPLES = settings(max_examples=150, deadline=None)


def source(tasks: int = 1, duration: str = "4 s", seed: int = 7, **workload: Any) -> Scenario:
    """A scenario whose source has this workload."""
    operators = {
        "src": {"kind": "source", "parallelism": tasks},
        "q": {"kind": "map", "inputs": {"src": "shuffle"}, "service": LAW},
        "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
    }
    return queue(LAW, seed=seed, duration=duration, workload={"src": workload}, operators=operators)


def profiled(made: Scenario) -> Scenario:
    """With keys of a profile, whose series is given by hand: a file would need a profile directory."""
    workload = made.workload["src"].model_copy(update={"keys": ProfileKeys()})
    return made.model_copy(update={"workload": {"src": workload}})


def check(made: Scenario, task: int, size: int, series: RateSeries | None = None, replication: int = 0) -> int:
    """Compare both ways and the lengths of the blocks; returns how many tuples there are."""
    times, keys = draw_arrivals(made, "src", task, replication, series)
    blocks = list(ArrivalStream(made, "src", task, replication, series, size))
    assert all(0 < one.size == other.size <= size for one, other in blocks)
    assert all(array.dtype == np.int64 for block in blocks for array in block)
    for column, expected in enumerate((times, keys)):
        found = np.concatenate([np.zeros(0, np.int64), *(block[column] for block in blocks)])
        assert np.array_equal(found, expected)
    filled = list(records_of(ArrivalStream(made, "src", task, replication, series, size)))
    assert all(0 < part.size <= size for part in filled)
    for name, expected in (("time", times), ("key", keys)):
        found = np.concatenate([np.zeros(0, np.int64), *(part[name] for part in filled)])
        assert np.array_equal(found, expected)
    return int(times.size)


def records_of(stream: ArrivalStream) -> Iterator[np.ndarray]:
    """What the stream writes into records, call by call, with nothing behind it."""
    while True:
        room = np.full(stream.block + 3, -1, np.int64).repeat(2).view(SOURCE_ARRIVAL)
        n = stream.fill(room)
        assert (room["key"][n:] == -1).all()
        if n == 0:
            return
        yield room[:n]


@EXAMPLES
@given(
    law=st.sampled_from(ARRIVALS),
    batch=st.sampled_from(BATCHES),
    keys=st.sampled_from(KEYS),
    rate=st.sampled_from(RATES),
    tasks=st.integers(1, 3),
    seed=SEEDS,
    size=SIZES,
)
def test_blocks_are_the_arrivals_of_every_law(
    law: Any, batch: Any, keys: Any, rate: Any, tasks: int, seed: int, size: int
) -> None:
    made = source(tasks, seed=seed, rate=rate, arrivals=law, batch=batch, keys=keys)
    for task in range(tasks):
        check(made, task, size, replication=seed % 3)


@st.composite
def profiles(draw: st.DrawFn) -> RateSeries:
    """A rate for each bin, some zero, and weights of the keys; a bin without a rate may have no keys."""
    bins, keys = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    rates = draw(st.lists(st.sampled_from([0.0, 0.0, 3.0, 60.0, 411.7]), min_size=bins, max_size=bins))
    column = st.lists(st.sampled_from([0.0, 0.0, 1.0, 7.5]), min_size=keys, max_size=keys)
    weights = np.array([draw(column) for _ in range(bins)], dtype=float).T
    weights[0, (weights.sum(axis=0) == 0) & (np.array(rates) > 0)] = 1.0
    widths = draw(st.lists(st.sampled_from([0.3, 1.0, 1.7]), min_size=bins, max_size=bins))
    return RateSeries(np.concatenate(([0.0], np.cumsum(widths))), np.array(rates), weights)


@EXAMPLES
@given(
    series=profiles(),
    law=st.sampled_from(ARRIVALS),
    batch=st.sampled_from(BATCHES),
    tasks=st.integers(1, 2),
    seed=SEEDS,
    size=SIZES,
)
def test_blocks_have_the_keys_of_a_profile_by_bin(
    series: RateSeries, law: Any, batch: Any, tasks: int, seed: int, size: int
) -> None:
    made = profiled(source(tasks, seed=seed, rate="1 /s", arrivals=law, batch=batch))
    for task in range(tasks):
        check(made, task, size, series)


def test_gaps_too_small_for_a_number_are_no_arrivals_where_the_rate_is_zero() -> None:
    # Half of the gaps of this shape are drawn as exactly zero.
    law = {"distribution": "gamma", "shape": 0.001}
    late = {"steps": [{"at": "0 s", "rate": "0 /s"}, {"at": "1 s", "rate": "90 /s"}]}
    total = 0
    for seed in range(30):
        assert check(source(seed=seed, rate="0 /s", arrivals=law), 0, 9) == 0
        made = source(seed=seed, rate=late, arrivals=law)
        total += check(made, 0, 9)
        assert (draw_arrivals(made, "src", 0, 0, None)[0] >= NS).all()
    assert total > 0
    # A bin of a profile without a rate needs no keys.
    series = RateSeries(np.arange(3.0), np.array([0, 40.0]), np.array([[0, 1.0], [0, 0]]))
    made = profiled(source(duration="2 s", rate="1 /s", arrivals=law))
    assert sum(check(made, 0, 9, series, replication=k) for k in range(30)) > 0


def test_a_block_that_lies_outside_the_run_is_passed_over() -> None:
    # The twentieth tuple is created at the end of the run.
    series = RateSeries(np.arange(4.0), np.array([10.0, 0, 10]), np.array([[1.0, 0, 0], [0, 0, 3]]))
    made = profiled(source(duration="3 s", rate="1 /s", arrivals="deterministic"))
    assert check(made, 0, 1, series) == 19


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_a_second_draw_of_gaps_is_summed_as_at_once(batch: Any) -> None:
    # Gaps of this variance often end short of the run, after which more are drawn; so do the blocks with one task.
    made = source(3, rate="90 /s", arrivals={"distribution": "lognormal", "cv": 30.0}, batch=batch)
    assert sum(check(made, task, 7, replication=k) for task in range(3) for k in range(10)) > 0


@pytest.mark.parametrize("size", [1, 7, 64, 10**6])
@pytest.mark.parametrize("scale", [1.0, 0.3], ids=["one draw", "several draws"])
def test_points_are_equal_before_they_are_rounded_to_time(scale: float, size: int) -> None:
    # Whole nanoseconds would hide another order of additions. Gaps that are too short need several draws.
    def gaps() -> Callable[[int], np.ndarray]:
        rng = np.random.default_rng(3)
        return lambda count: scale * rng.standard_exponential(count)

    expected = at_once(gaps(), 2000.0)
    found = np.concatenate(list(in_parts(gaps(), 2000.0, size)))
    assert np.array_equal(found[found <= 2000.0], expected)
    drawn = int(2000 + 6 * 2000**0.5) + 16
    assert found.size == drawn * (1 if scale == 1 else 3)


def test_a_long_run_is_equal_at_the_default_block_size() -> None:
    made = source(2, duration="500 s", rate="1000 /s", keys=KEYS[2])
    assert check(made, 1, 2**16) > 3 * 2**16


@pytest.mark.parametrize("count", [1, 2, 3, 7, 5000, 6000, 10**9, 2**31 - 1])
def test_uniform_keys_are_right_next_to_every_edge(count: int) -> None:
    keys = np.unique(np.linspace(0, count - 1, 2000).astype(np.int64))
    edges = np.concatenate([keys / count, (keys + 1) / count])
    draws = np.concatenate(
        [edges, np.nextafter(edges, 0), np.nextafter(edges, 1), np.random.default_rng(3).random(9999)]
    )
    draws = draws[(draws >= 0) & (draws < 1)]
    for some in (draws, draws[-9999:]):  # the second has none that is near
        found = uniform_keys(some, count)
        assert ((found == 0) | (found / count <= some)).all()
        assert ((found == count - 1) | ((found + 1) / count > some)).all()


def test_arrivals_at_a_constant_rate_are_those_of_the_curve() -> None:
    counts = np.cumsum(np.random.default_rng(4).standard_exponential(20_000))
    for rate in (1e-3, 0.1, 1 / 3, 7.0, 8000.0, 1e9 / 7):
        curve = RateCurve(np.array([0.0, counts[-1] / rate]), np.array([rate]), np.array([rate]))
        level = np.array([rate])
        found = arrival_times(counts, curve.edges_s, np.array([0.0, counts[-1]]), level, np.zeros(1))
        root = np.sqrt(level * level + 0.0)
        assert np.array_equal(found, np.maximum(np.rint(2 * counts / (level + root) * 1e9).astype(np.int64), 1))


@pytest.mark.parametrize("count", [1, 2, 3, 31, 64, 65, 66, 100, 129, 1000])
def test_keys_of_a_profile_are_those_of_a_search_in_numpy_also_at_every_share(count: int) -> None:
    random = np.random.default_rng(count)
    weights = random.integers(0, 50, (count, 40))
    weights[random.integers(0, count, 40), np.arange(40)] += 1  # none is without any
    segments = np.sort(random.integers(0, 40, 5000))
    draws, expected = random.random(5000), np.zeros(5000, np.int64)
    for segment in range(40):
        sums = np.cumsum(weights[:, segment], dtype=float)
        mine, shares = np.flatnonzero(segments == segment), sums / sums[-1]
        edges = random.choice(shares[shares < 1], mine[::3].size) if (shares < 1).any() else 0.0
        draws[mine[::3]] = edges
        expected[mine] = np.minimum(np.searchsorted(shares, draws[mine], side="right"), count - 1)
    assert np.array_equal(keys_by_segment(weights, segments, draws), expected)


def test_segments_of_a_curve_are_those_of_a_search_in_numpy_also_at_every_edge() -> None:
    rates = np.array([0.0, 3.0, 0.0, 0.0, 2.5, 1.0])
    curve = RateCurve(np.arange(7.0), rates, rates)
    edges = curve.cumulative()
    counts = np.concatenate([edges, np.nextafter(edges[1:], 0), np.nextafter(edges, 9), np.linspace(0, edges[-1], 99)])
    counts = np.sort(np.minimum(counts, edges[-1]))
    assert np.array_equal(segments_of(counts, edges), curve.segments(counts))


def test_streams_of_one_task_do_not_disturb_each_other() -> None:
    made = source(rate="400 /s")
    one, other = (ArrivalStream(made, "src", 0, 0, None, 100) for _ in range(2))
    for (times, keys), (again, keys_again) in zip(one, other, strict=True):
        assert np.array_equal(times, again)
        assert np.array_equal(keys, keys_again)


def test_a_stream_refuses_an_empty_block_and_a_profile_without_a_series() -> None:
    made = source(rate="1 /s")
    with pytest.raises(ValueError, match="block = 0"):
        ArrivalStream(made, "src", 0, 0, None, 0)
    with pytest.raises(ValueError, match="series"):
        ArrivalStream(profiled(made), "src", 0, 0, None)
