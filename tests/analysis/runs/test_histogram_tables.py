"""Statistics of a run recorded as histograms against those of the same rows: exact, or within 0.4 % for quantiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from summaries import document_of as summarise

from analysis.runs.histograms import times_of
from analysis.runs.summary import operator_times
from analysis.runs.timelines import fitting_interval, latency_bin_parts, latency_timeline, queues, throughput
from analysis.statistics import described
from models.records.histogram import histogram
from models.records.tables import table

S = 10**9
QUANTILES = {"p50", "p90", "p95", "p99", "p999"}


NOT_BINNED = ("recording",)


def busy_records(make, seed, replication=0, n=3000):
    """Records of n visits and deliveries with times from nanoseconds to seconds, some not ended, and small tables."""
    draw = np.random.default_rng(seed)
    operator = draw.integers(0, 3, n)
    arrival = np.sort(draw.integers(0, 10 * S, n))
    start = arrival + np.exp(draw.uniform(0, np.log(2 * S), n)).astype(np.int64)
    end = np.where(draw.random(n) < 0.02, -1, start + draw.exponential(4e6, n).astype(np.int64))
    created = draw.integers(0, 10 * S, n)
    latency = np.exp(draw.normal(17, 1.5, n)).astype(np.int64)
    one = make.random(seed, replication)
    visits = {"operator": operator, "task": operator, "arrival_ns": arrival, "start_ns": start, "end_ns": end}
    late = {
        "operator": draw.integers(1, 3, n),
        "created_ns": created,
        "delivered_ns": np.minimum(created + latency, 10 * S),
    }
    return replace(
        one, tables={**one.tables, "visits": table("visits", visits), "deliveries": table("deliveries", late)}
    )


def compared(exact, read, path=""):
    """Every leaf is equal but for quantiles, which are within 1/256; returns how many quantiles were compared."""
    if isinstance(exact, dict):
        assert exact.keys() == read.keys(), path
        return sum(compared(exact[key], read[key], f"{path}.{key}") for key in exact if key not in NOT_BINNED)
    if isinstance(exact, list):
        assert len(exact) == len(read), path
        return sum(compared(a, b, f"{path}[{k}]") for k, (a, b) in enumerate(zip(exact, read, strict=True)))
    if path.rpartition(".")[2] not in QUANTILES or exact is None:
        assert exact == read, path
        return 0
    assert abs(exact - read) <= exact / 256 * (1 + 1e-9), path
    return 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("replications", [1, 3])
def test_a_summary_from_histograms_is_that_of_the_rows_but_for_quantiles(make, seed, replications):
    records = [busy_records(make, 10 * seed + k, k) for k in range(replications)]
    exact = summarise(make.scenario(), records)
    read = summarise(make.scenario(), [make.binned(one) for one in records])
    assert compared(exact, read) >= 3 * 2 * 4 + 5
    assert exact["recording"] == {"detail": "tuples", "quantile_error": 0.0}
    assert read["recording"] == {"detail": "histograms", "quantile_error": 1 / 256}


@pytest.mark.parametrize("seed", range(8))
def test_rows_at_the_edges_of_the_window_count_the_same(make, seed):
    one = make.random(seed)
    compared(summarise(make.scenario(), [one]), summarise(make.scenario(), [make.binned(one)]))


def test_targets_are_judged_from_histograms_too(make):
    scenario = make.scenario(targets={"latency_p99_s": 100.0, "latency_mean_s": 1e-6})
    verdicts = summarise(scenario, [make.binned(busy_records(make, 3))])["targets"]
    assert {name: verdict["met"] for name, verdict in verdicts.items()} == {
        "latency_mean_s": False,
        "latency_p99_s": True,
    }


@pytest.mark.parametrize("seed", range(3))
def test_an_operators_times_are_the_histograms_of_its_values(make, seed):
    one = busy_records(make, seed)
    other = make.binned(one)
    for index in range(3):
        exact, read = operator_times(one, index), operator_times(other, index)
        for values, found in ((exact.waits, read.waits), (exact.sojourns, read.sojourns)):
            expected = histogram(values)
            assert np.array_equal(found.counts, expected.counts)
            assert (found.sum_ns, found.min_ns, found.max_ns) == (expected.sum_ns, expected.min_ns, expected.max_ns)
        assert (exact.waiting_ns, exact.busy_ns, exact.seen) == (read.waiting_ns, read.busy_ns, read.seen)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("interval", [S, 3 * S, 20 * S])
def test_lines_over_time_are_those_of_the_rows_but_for_quantiles(make, seed, interval):
    one = busy_records(make, seed)
    other = make.binned(one)
    exact, read = latency_timeline(one, interval), latency_timeline(other, interval)
    for name in ("at_ns", "count", "mean_ns", "max_ns"):
        assert np.array_equal(getattr(exact, name), getattr(read, name)), name
    for name in ("p50_ns", "p99_ns"):
        off = np.abs(getattr(exact, name) - getattr(read, name))
        assert np.all(off <= np.abs(getattr(exact, name)) / 256 * (1 + 1e-9)), name
    for name in ("at_ns", "bin", "count"):
        (bins,), parts = latency_bin_parts(one, interval), list(latency_bin_parts(other, interval))
        assert np.array_equal(getattr(bins, name), np.concatenate([getattr(part, name) for part in parts]))
    assert np.array_equal(throughput(one, interval).values, throughput(other, interval).values)
    assert np.array_equal(queues(one).values, queues(other).values)


def test_an_interval_without_a_delivery_has_no_latency(make):
    line = latency_timeline(make.binned(make.records(deliveries=[(2, 3 * S, 4 * S)])))
    assert line.p99_ns.tolist() == [-1, -1, -1, -1, S, -1, -1, -1, -1, -1]
    assert line.mean_ns.tolist() == line.max_ns.tolist() == line.p50_ns.tolist() == line.p99_ns.tolist()


def test_a_run_in_which_nothing_happened_has_none_and_no_error(make):
    summary = summarise(make.scenario(), [make.binned(make.records())])
    assert summary["latency_s"]["mean"] is summary["latency_s"]["p99"] is None
    assert summary["latency_s"]["count"] == 0
    assert summary["operators"]["in"]["queue_mean"] is None
    assert summary["operators"]["count"]["utilisation"] == 0.0
    line = latency_timeline(make.binned(make.records()))
    assert line.count.tolist() == [0] * 10
    assert line.p50_ns.tolist() == line.max_ns.tolist() == [-1] * 10
    assert times_of(make.binned(make.records()), "wait", 1).count == 0


def test_an_interval_that_the_records_do_not_have_is_refused_and_the_next_one_fits(make):
    one = make.binned(make.random(1))
    with pytest.raises(ValueError, match="multiples of 1000000000 ns, not 1500000000"):
        latency_timeline(one, 3 * S // 2)
    assert fitting_interval(one, 3 * S // 2) == 2 * S
    assert fitting_interval(make.random(1), 3 * S // 2) == 3 * S // 2
    long = replace(one, duration_ns=10_000 * S)
    assert fitting_interval(long, S) == 3 * S  # at most 3600 intervals


def test_rows_of_one_replication_and_histograms_of_another_are_pooled():
    values = np.arange(1000, 2000)
    pooled = described([values, histogram(values + 10)], [0.5])
    exact = described([values, values + 10], [0.5])
    assert (pooled.mean, pooled.max, pooled.ci95) == (exact.mean, exact.max, exact.ci95)
    assert pooled.quantiles == pytest.approx(exact.quantiles, rel=1 / 256)
