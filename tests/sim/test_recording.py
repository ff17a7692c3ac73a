"""Recording as histograms against plain Python over the same rows, by equality; recording of tuples as it was."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_jobs import scenario
from small_runs import small_scenario

from models.records.histogram import bin_of
from models.records.tables import HISTOGRAM_TABLES, TABLES, bucket_ns, table
from models.scenario.inputs import RunInputs
from sim.engine import build, simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.tools.histograms import bin_of_one
from sim.recording import HistogramRecording, TupleRecording, recording_of

S = 10**9
NEVER = -1
OPERATORS, SINKS = 4, (1, 3)
FIXED = settings(derandomize=True, deadline=None, max_examples=120)
MOST = 2**63 - 1


def plain_tables(visits, deliveries, warmup, duration):
    """The tables of `HISTOGRAM_TABLES`: dicts and Python integers, one row at a time."""
    length = bucket_ns(duration)
    values, totals, ended = defaultdict(list), defaultdict(lambda: [0, 0]), Counter()
    for operator, _, arrival, start, end in visits:
        if warmup <= arrival < duration:
            values[operator, "wait"].append(start - arrival)
            if end != NEVER:
                values[operator, "sojourn"].append(end - arrival)
        until = duration if end == NEVER else end
        for what, begin, finish in (("waiting", arrival, start), ("busy", start, until)):
            totals[operator, what][0] += 1
            totals[operator, what][1] += max(0, min(finish, duration) - max(begin, warmup))
        if end != NEVER and end < duration:
            ended[end // length * length, operator] += 1
    cells = defaultdict(list)
    for operator, created, at in deliveries:
        if warmup <= created < duration:
            values[operator, "latency"].append(at - created)
        cells[min(at, duration - 1) // length * length, operator].append(at - created)
    times, bins = [], []
    for operator in range(OPERATORS):
        for what in ("wait", "sojourn", "waiting", "busy", *(("latency",) if operator in SINKS else ())):
            own = values[operator, what]
            count, total = totals[operator, what] if what in ("waiting", "busy") else (len(own), sum(own))
            times.append((operator, what, count, *divmod(total, 2**32), min(own, default=-1), max(own, default=-1)))
        for what in ("wait", "sojourn", "latency"):
            found = Counter(bin_of(values[operator, what]).tolist())
            bins += [(operator, what, *pair) for pair in sorted(found.items())]
    return {
        "times": times,
        "time_bins": bins,
        "ended": [(*key, count) for key, count in sorted(ended.items())],
        "delivered": [(*key, len(own), *divmod(sum(own), 2**32), max(own)) for key, own in sorted(cells.items())],
        "delivered_bins": [
            (at // length, operator, *pair)
            for (at, operator), own in sorted(cells.items())
            for pair in sorted(Counter(bin_of(own).tolist()).items())
        ],
    }


def binned(visits, deliveries, warmup, duration, *, block=10**9):
    recording = HistogramRecording(OPERATORS, SINKS, warmup, duration)
    for rows, columns, add in ((visits, 5, recording.add_visits), (deliveries, 3, recording.add_deliveries)):
        matrix = np.array(rows, dtype=np.int64).reshape(-1, columns)
        for first in range(0, len(matrix), block):
            add(matrix[first : first + block])
    return recording.tables()


def same(found, rows):
    assert found.keys() == {"visits", "deliveries", "first_outputs", *rows}
    for name, own in rows.items():
        expected = table(name, own)
        for column in HISTOGRAM_TABLES[name]:
            assert found[name][column.name].dtype.kind == expected[column.name].dtype.kind, (name, column.name)
            assert found[name][column.name].tolist() == expected[column.name].tolist(), (name, column.name)


def random_rows(seed, warmup, duration, n=400):
    """Rows around the edges of the window, on a lattice of seconds half of the time, some of them not ended."""
    draw = np.random.default_rng(seed)

    def times(high):
        lattice = draw.integers(0, max(2, high // S), n) * S
        edges = draw.choice([0, warmup - 1, warmup, warmup + 1, duration - 1, duration, 2**32, S], n)
        any_time = (draw.random(n) ** 4 * high).astype(np.int64)
        return np.maximum(0, np.choose(draw.integers(0, 3, n), [lattice, edges, any_time]))

    arrival, wait, service = times(duration), times(duration // 4), times(duration // 4)
    end = np.where(draw.random(n) < 0.1, NEVER, arrival + wait + service)
    operator = draw.integers(0, OPERATORS, n)
    visits = np.stack([operator, operator, arrival, arrival + wait, end], axis=1)
    created = times(duration)
    deliveries = np.stack([draw.choice(SINKS, n), created, created + times(duration // 3)], axis=1)
    return visits.tolist(), deliveries.tolist()


def test_first_outputs_are_watched_from_their_instant_on():
    recording = HistogramRecording(OPERATORS, SINKS, 0, 10 * S)
    sink = SINKS[0]

    def deliver(*rows):
        recording.add_deliveries(np.array([(sink, born, at) for born, at in rows], np.int64))

    recording.watch(3, 4)
    deliver((1, 4), (2, 5))
    deliver((4, 5))
    recording.watch(4, 5)  # delivered in this instant already
    recording.watch(5, 5)
    assert recording.watches
    deliver((4, 6), (5, 7), (6, 8))
    assert not recording.watches
    recording.watch(9, 8)
    found = recording.tables()["first_outputs"]
    rows = list(zip(*(column.tolist() for column in found.values()), strict=True))
    assert rows == [(3, 4, 5), (4, 5, 5), (5, 5, 7)]  # nothing born at 9 has come


def test_key_groups_that_are_restored_in_one_instant_are_watched_for_once():
    recording = HistogramRecording(OPERATORS, SINKS, 0, 10 * S)
    looks = []
    recording._look = looks.append
    for _ in range(4096):
        recording.watch(3, 4)
    assert recording._watches == {3: {4: None}}
    assert not looks  # nothing has been delivered in this instant


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("warmup", "duration"), [(2 * S, 10 * S), (0, S // 3), (7 * S, 7 * S), (S, 20_000 * S)])
def test_the_histograms_equal_plain_python_on_random_rows(seed, warmup, duration):
    visits, deliveries = random_rows(seed, warmup, duration)
    same(binned(visits, deliveries, warmup, duration), plain_tables(visits, deliveries, warmup, duration))


EDGES = [0, 1, 2 * S - 1, 2 * S, 2 * S + 1, 3 * S, 10 * S - 1, 10 * S, 10 * S + 1, 2**53, 2**62]
LENGTHS = st.one_of(st.sampled_from([0, 1, S - 1, S, 2**32 - 1, 2**32, 2**53 + 1, 2**60]), st.integers(0, 9 * S))
VISITS = st.lists(
    st.tuples(st.integers(0, OPERATORS - 1), st.sampled_from(EDGES), LENGTHS, st.one_of(st.none(), LENGTHS)),
    max_size=30,
).map(
    lambda drawn: [
        (who, 0, at, at + wait, NEVER if service is None else at + wait + service) for who, at, wait, service in drawn
    ]
)
DELIVERIES = st.lists(
    st.tuples(st.sampled_from(SINKS), st.sampled_from(EDGES), LENGTHS).map(
        lambda row: (row[0], row[1], row[1] + row[2])
    ),
    max_size=30,
)


@FIXED
@given(VISITS, DELIVERIES, st.integers(1, 7), st.sampled_from([0, 2 * S]))
def test_the_histograms_equal_plain_python_at_the_edges_for_any_blocks(visits, deliveries, block, warmup):
    found = binned(visits, deliveries, warmup, 10 * S, block=block)
    same(found, plain_tables(visits, deliveries, warmup, 10 * S))


def test_order_does_not_matter():
    visits, deliveries = random_rows(1, 2 * S, 10 * S)
    one = binned(visits, deliveries, 2 * S, 10 * S)
    other = binned(visits[::-1], sorted(deliveries), 2 * S, 10 * S, block=17)
    for name, columns in one.items():
        assert all(np.array_equal(column, other[name][key]) for key, column in columns.items()), name


def test_sums_of_very_long_times_do_not_overflow():
    duration = 2**61
    visits = [(0, 0, 0, 2**60, 2**61)] * 50
    deliveries = [(3, 0, 2**61)] * 50
    same(binned(visits, deliveries, 0, duration), plain_tables(visits, deliveries, 0, duration))


def test_more_histograms_by_second_than_there_is_room_for_at_first(monkeypatch):
    monkeypatch.setattr("sim.recording._FIRST_PAGES", 64)
    monkeypatch.setattr("sim.recording._PAGES_EACH", 0)
    deliveries = [(3, second * S, second * S + 2**power) for second in range(300) for power in range(0, 40, 3)]
    same(binned([], deliveries, 0, 2000 * S), plain_tables([], deliveries, 0, 2000 * S))


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.one_of(st.integers(0, MOST), st.integers(0, 62).flatmap(lambda k: st.integers(max(0, 2**k - 2), 2**k + 2))))
def test_the_compiled_bin_equals_that_of_the_histogram(value):
    assert bin_of_one(value) == bin_of(value)


def test_the_compiled_bin_equals_that_of_the_histogram_next_to_every_edge():
    powers = 2 ** np.arange(63)
    edges = np.concatenate([powers + (powers * m >> 7) for m in range(128)])
    values = np.unique(np.concatenate([edges - 1, edges, edges + 1, [0, MOST]]))
    assert [bin_of_one(value) for value in values.tolist()] == bin_of(values).tolist()


@pytest.mark.parametrize(
    "row", [(4, 0, 1, 1, 1), (-1, 0, 1, 1, 1), (0, 0, 2, 1, 3), (0, 0, 1, 3, 2), (0, 0, -1, 3, 4), (0, 0, 1, 3, -2)]
)
def test_a_visit_that_cannot_be_is_refused_with_its_numbers(row):
    recording = HistogramRecording(OPERATORS, SINKS, 0, 10 * S)
    with pytest.raises(ValueError, match=rf"visit cannot be \[{', '.join(map(str, row))}\]"):
        recording.add_visits(np.array([(0, 0, 1, 1, 1), row], dtype=np.int64))


@pytest.mark.parametrize("row", [(0, 1, 2), (4, 1, 2), (-1, 1, 2), (1, 3, 2), (1, -1, 2)])
def test_a_delivery_that_cannot_be_is_refused_with_its_numbers(row):
    recording = HistogramRecording(OPERATORS, SINKS, 0, 10 * S)
    with pytest.raises(ValueError, match=rf"delivery cannot be \[{', '.join(map(str, row))}\]"):
        recording.add_deliveries(np.array([(1, 1, 1), row], dtype=np.int64))


@pytest.mark.parametrize("recording", [TupleRecording(), HistogramRecording(1, [], 0, S)])
@pytest.mark.parametrize("block", [np.zeros((2, 4), np.int64), np.zeros((2, 5)), np.zeros(5, np.int64)])
def test_a_block_of_another_shape_is_refused(recording, block):
    with pytest.raises(ValueError, match=r"a block is int64 \(n, 5\)"):
        recording.add_visits(block)


def test_tuples_come_back_as_they_were_given_though_the_block_is_used_again():
    visits, deliveries = (np.array(rows, dtype=np.int64) for rows in random_rows(3, 2 * S, 10 * S))
    recording = TupleRecording()
    for rows, add in ((visits, recording.add_visits), (deliveries, recording.add_deliveries)):
        buffer = np.empty((64, rows.shape[1]), np.int64)
        for first in range(0, len(rows), 64):
            part = buffer[: len(rows[first : first + 64])]
            part[:] = rows[first : first + 64]
            add(part)
            buffer[:] = -7
    found = recording.tables()
    for name, rows in (("visits", visits), ("deliveries", deliveries)):
        expected = table(name, {column.name: rows[:, k] for k, column in enumerate(TABLES[name])})
        for key, column in expected.items():
            assert found[name][key].dtype == column.dtype
            assert found[name][key].tobytes() == column.tobytes()
            assert not found[name][key].flags.writeable


def test_nothing_happened_is_empty_tables_either_way():
    for recording in (TupleRecording(), HistogramRecording(OPERATORS, SINKS, 0, S)):
        tables = recording.tables()
        for columns in tables.values():
            assert len({column.size for column in columns.values()}) == 1
        assert tables["visits"]["end_ns"].size == tables["deliveries"]["created_ns"].size == 0


def test_the_scenario_chooses_the_recording():
    small, forced = small_scenario(), small_scenario(recording={"detail": "histograms"})
    assert isinstance(recording_of(small, RunInputs()), TupleRecording)
    recording = recording_of(forced, RunInputs())
    assert recording.detail == "histograms"
    recording.add_deliveries(np.array([(2, 3 * S, 4 * S)]))
    with pytest.raises(ValueError, match="delivery cannot be"):
        recording.add_deliveries(np.array([(1, 3 * S, 4 * S)]))  # only the sink delivers
    times = recording.tables()["times"]
    assert times["count"][times["what"] == "latency"].tolist() == [1]
    large = small_scenario(workload={"in": {"rate": "800000 /s", "keys": {"distribution": "uniform", "count": 4}}})
    assert recording_of(large, RunInputs()).detail == "histograms"


FAILING = {
    "duration": "4 s",
    "warmup": "1.3 s",
    "workload": {"in": {"rate": "400 /s", "batch": 2, "keys": {"distribution": "uniform", "count": 40}}},
    "operators": {
        "in": {"kind": "source", "parallelism": 2},
        "count": {
            "kind": "aggregate",
            "inputs": {"in": "key"},
            "parallelism": 2,
            "key_groups": 4,
            "service": {"distribution": "exponential", "mean": "1 ms"},
            "state": {"model": "per-key", "bytes": "1 kB"},
        },
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"h": {"count": 3, "cpu": "shared"}},
    "network": {"latency": "1 ms"},
    "fault_tolerance": {"method": "checkpoint", "interval": "300 ms"},
    "detector": {"heartbeat": "100 ms", "timeout": "200 ms"},
    "events": {"crash": {"at": "2.2 s", "kind": "host-failure", "host": "h-0", "repair": "500 ms"}},
}


def test_histograms_of_the_event_loop_are_its_rows_binned():
    """With a warm-up that ends within an interval, and a host that dies: its sources emit late what arrived before."""
    rows, found = (
        simulate(scenario(FAILING | {"recording": {"detail": detail}}), plane=CompiledPlane)
        for detail in ("tuples", "histograms")
    )
    binned = HistogramRecording(3, [2], rows.warmup_ns, rows.duration_ns)
    for name, add in (("visits", binned.add_visits), ("deliveries", binned.add_deliveries)):
        add(np.stack([rows.tables[name][column.name].astype(np.int64) for column in TABLES[name]], axis=1))
    assert rows.tables["recoveries"]["host"].size
    at_source = rows.tables["visits"]["operator"] == 0
    late = rows.tables["visits"]["start_ns"][at_source] - rows.tables["visits"]["arrival_ns"][at_source]
    assert 0 < np.count_nonzero(late) < late.size > 1000
    for name in HISTOGRAM_TABLES:
        for key, column in binned.tables()[name].items():
            assert found.tables[name][key].tobytes() == column.tobytes(), (name, key)


@pytest.mark.parametrize("cpu", ["shared", "dedicated"])
def test_histograms_end_with_the_run(cpu):
    """Of the event loop and of the scan: behind the run there is no interval to count in."""
    operators = {
        "in": {"kind": "source"},
        "mid": {"kind": "map", "inputs": {"in": "key"}, "service": {"distribution": "deterministic", "value": "11 ms"}},
        "out": {"kind": "sink", "inputs": {"mid": "shuffle"}},
    }
    raw = {
        "duration": "1 s",
        "workload": {"in": {"rate": "100 /s", "arrivals": "deterministic"}},
        "operators": operators,
        "hosts": {"h": {"cpu": cpu, "load": {"steps": [{"at": "0 s", "share": 0.5}]}} if cpu == "shared" else {}},
    }
    rows = build(scenario(raw | {"recording": {"detail": "tuples"}}))
    rows.run(2 * S)
    assert rows.plane.tables()["visits"]["end_ns"].max() > S
    control = build(scenario(raw | {"recording": {"detail": "histograms"}}))
    assert control.kernel.name == {"shared": "event loop", "dedicated": "scan"}[cpu]
    control.run(S)
    with pytest.raises(ValueError, match="histograms are of a run of 1000000000 ns, which cannot go on to 1000000001"):
        control.run(S + 1)
    assert control.plane.tables()["ended"]["count"].sum() > 0
