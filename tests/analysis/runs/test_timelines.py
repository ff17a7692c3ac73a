"""Tables over time: against plain loops over the same rows."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.runs.timelines import (
    _growth,
    fullest_queues,
    held_back,
    kept_bytes,
    lags,
    latency_bin_parts,
    latency_timeline,
    queues,
    throughput,
    traffic,
)
from models.records.histogram import bin_of, rank_of

S = 10**9


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("interval", [S, 3 * S, S // 3])
def test_latency_per_interval_equals_a_plain_loop(make, seed, interval):
    one = make.random(seed)
    line = latency_timeline(one, interval)
    rows = one.tables["deliveries"]
    last = line.at_ns.size - 1
    cells = [[] for _ in line.at_ns]
    for created, at in zip(rows["created_ns"].tolist(), rows["delivered_ns"].tolist(), strict=True):
        cells[min(at // interval, last)].append(at - created)
    for k, cell in enumerate(map(sorted, cells)):
        expected = (0, -1, -1, -1, -1)
        if cell:
            quantile = [cell[rank_of(q, len(cell)) - 1] for q in (0.5, 0.99)]
            expected = (len(cell), sum(cell) // len(cell), *quantile, cell[-1])
        assert (line.count[k], line.mean_ns[k], line.p50_ns[k], line.p99_ns[k], line.max_ns[k]) == expected


@pytest.mark.parametrize("seed", range(3))
def test_the_histogram_per_interval_holds_every_delivery_once(make, seed):
    one = make.random(seed)
    (cells,) = latency_bin_parts(one)
    rows = one.tables["deliveries"]
    expected = {}
    for created, at in zip(rows["created_ns"].tolist(), rows["delivered_ns"].tolist(), strict=True):
        key = (min(at // S, 9) * S, int(bin_of(at - created)))
        expected[key] = expected.get(key, 0) + 1
    assert list(zip(cells.at_ns, cells.bin, strict=True)) == sorted(expected)
    assert {(a, b): c for a, b, c in zip(cells.at_ns, cells.bin, cells.count, strict=True)} == expected


@pytest.mark.parametrize("seed", range(3))
def test_throughput_counts_services_that_ended(make, seed):
    one = make.random(seed)
    line = throughput(one)
    expected = np.zeros((3, 10), int)
    for operator, end in zip(one.tables["visits"]["operator"], one.tables["visits"]["end_ns"], strict=True):
        if end < one.duration_ns:
            expected[operator, end // S] += 1
    assert np.array_equal(line.values, expected)


def test_queues_are_summed_over_tasks(make):
    one = make.records(samples=[(S, 1, 0, 3, 0, 0), (S, 2, 1, 4, 0, 0), (2 * S, 1, 0, 5, 0, 0)])
    assert queues(one).values.tolist() == [[0, 0], [7, 5], [0, 0]]


def test_a_total_that_begins_again_after_a_crash_counts_from_zero():
    at, total, host = np.array([S, 2 * S, 3 * S]), np.array([S, S // 4, S // 2]), np.array([0, 0, 1])
    assert _growth(np.ones(3, int), host, at, total).tolist() == [S, S // 4, S // 2]
    assert _growth(np.ones(3, int), np.zeros(3, int), at, total).tolist() == [S, S // 4, S // 4]


def test_traffic_by_kind(make):
    one = make.records(messages=[(0, "trim", 1, 8), (0, "data", 2, 20), (9 * S, "data", 3, 30), (S, "data", 1, 1)])
    line = traffic(one, interval_ns=5 * S)
    assert (line.names, line.values.tolist()) == (("data", "trim"), [[21, 30], [8, 0]])
    assert traffic(one, "count", 10 * S).values.tolist() == [[6], [1]]


def test_empty_records_have_empty_lines(make):
    one = make.records()
    assert latency_timeline(one).count.tolist() == [0] * 10
    assert latency_timeline(one).p99_ns.tolist() == [-1] * 10
    assert [part.bin.size for part in latency_bin_parts(one)] == [0]
    assert queues(one).values.shape == (3, 0)
    assert traffic(one).names == ()
    assert throughput(one).values.sum() == 0


def test_an_interval_must_have_a_length(make):
    with pytest.raises(ValueError, match="too short"):
        latency_timeline(make.records(), 0)


def test_lags_are_those_of_the_sources(make):
    line = lags(make.records(lag=[(S, 0, 4), (2 * S, 0, 7)]))
    assert (line.names, line.at_ns.tolist(), line.values.tolist()) == (("in",), [S, 2 * S], [[4, 7]])


def unkept(*rows):
    """Rows of `buffers` of tasks that keep no outputs."""
    return [(*row, 0, 0, 0) for row in rows]


def test_the_fullest_queue_is_that_of_the_task_with_the_most_taken(make):
    one = make.records(buffers=unkept((S, 1, 3, 0, 0), (S, 2, 5, 0, 0), (S, 3, 9, 0, 0), (2 * S, 1, 10, 0, 0)))
    line = fullest_queues(one, [None, 10, None])
    assert (line.names, line.values.tolist()) == (("count",), [[0.5, 1.0]])


def test_what_is_held_back_is_the_growth_since_the_sample_before_and_the_mean_over_tasks(make):
    rows = [(S, 0, 0, 0, 0), (S, 1, 0, 1, S // 2), (S, 2, 0, 0, 0)]
    rows += [(3 * S, 0, 0, 0, 0), (3 * S, 1, 0, 1, S // 2 + S), (3 * S, 2, 0, 0, 0)]
    line = held_back(make.records(buffers=unkept(*rows)))
    assert (line.names, line.at_ns.tolist(), line.values.tolist()) == (("count",), [0, S], [[0.25, 0.25]])


def test_kept_outputs_are_summed_over_the_tasks_of_an_operator(make):
    rows = [
        (S, 0, 0, 0, 0, 100, 0, 0),
        (S, 1, 0, 0, 0, 20, 3, 1),
        (S, 2, 0, 0, 0, 30, 0, 0),
        (2 * S, 1, 0, 0, 0, 7, 0, 0),
    ]
    line = kept_bytes(make.records(buffers=rows))
    assert line.names == make.records().operators
    owners = make.records().task_operator[:3]
    goal = [[0, 0] for _ in line.names]
    for second, task, size in ((0, 0, 100), (0, 1, 20), (0, 2, 30), (1, 1, 7)):
        goal[owners[task]][second] += size
    assert (line.at_ns.tolist(), line.values.tolist()) == ([S, 2 * S], goal)


def test_without_bounded_queues_nothing_was_held_back(make):
    one = make.records()
    assert held_back(one).names == fullest_queues(one, [None] * 3).names == lags(one).names == ()
