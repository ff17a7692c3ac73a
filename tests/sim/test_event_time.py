"""Watermarks and windows: equal on both planes, complete, in time, and what follows from the sources alone.

Oracles: the plain plane by equality of all columns; the windows of a drained run worked out from the arrivals at the
sources; deterministic arrivals worked out by hand; the number of keys in a window of Poisson arrivals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from seeds import parts
from small_jobs import NS, build, idle, plain_plane_of, random_joins, random_windows, scenario, simulate
from summaries import document_of as summarise
from test_planes import on_both

from models.scenario.scenario import Scenario
from sim.draws import source_id
from sim.kernel.event_loop.plane import CompiledPlane
from sim.operator_plan import OperatorPlan
from sim.plain.partition import Partition, Watermark
from sim.plain.plane import PlainPlane
from sim.plain.task import Task
from sim.plain.watermarks import Watermarks
from sim.windowing import Windows

METHODS: list[dict[str, str]] = [{}, {"guarantee": "at-most-once"}, {"method": "none"}]
Result = tuple[int, int, int]  # (number of the partition, id, created)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_with_windows(seed: int, method: dict[str, str]) -> None:
    assert on_both(random_windows(Random(seed), fault_tolerance=method)) == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_with_joins_and_timers(seed: int, method: dict[str, str]) -> None:
    assert on_both(random_joins(Random(seed), fault_tolerance=method)) == []


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_windows, random_joins])
def test_a_long_campaign_of_equal_rows_with_windows(make: Callable[..., dict[str, Any]]) -> None:
    for seed in range(1000):
        assert on_both(make(Random(seed), fault_tolerance=METHODS[seed % 3])) == [], seed


# -- complete: what a window emits follows from the arrivals at the sources


def run_out(raw: dict[str, Any], patch: pytest.MonkeyPatch) -> tuple[PlainPlane, Counter[Result]]:
    """A run until nothing is under way but watermarks, and what operators with a window emitted."""
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    control = build(made)
    plane = plain_plane_of(control)
    emitted: Counter[Result] = Counter()
    emit = plane.emit

    def noted(partition: Partition, tuple_id: int, created_ns: int, key: int, *rest: Any, **more: Any) -> None:
        if partition.operator.windows:
            emitted[partition.number, tuple_id, created_ns] += 1
        emit(partition, tuple_id, created_ns, key, *rest, **more)

    patch.setattr(plane, "emit", noted)
    until = 10 * NS
    while not idle(plane) and until < 100 * NS:
        control.run(until)
        until += 10 * NS
    control.run(until + 10 * NS)
    return plane, emitted


Arrived = list[tuple[Partition, int, int, int, int]]  # (partition, id, created, key, operator upstream)
Made = Iterator[tuple[Partition, int, int, int]]  # (partition, id, created, key)


def worked_out(plane: PlainPlane) -> Counter[Result]:
    """What operators with a window must emit, from the tuples of the sources, operator by operator."""
    arrived: dict[int, Arrived] = {plan.index: [] for plan in plane.plan.operators}

    def send(partition: Partition, tuple_id: int, created: int, key: int) -> None:
        for edge in partition.operator.edges:
            for target in edge.targets(tuple_id, key, partition.index):
                receiver = plane.partitions[edge.down.index][target]
                row = (receiver, edge.id_for(tuple_id, target), created, key, partition.operator.index)
                arrived[edge.down.index].append(row)

    for source in plane.sources:
        for sequence, (created, key) in enumerate(zip(source.arrivals_ns, source.keys, strict=True)):
            send(source.partition, source_id(source.code, sequence), created, key)
    found: Counter[Result] = Counter()
    for plan in plane.plan.operators:  # file order is topological here
        makes = of_windows if plan.joins is None else of_pairs
        for partition, child, created, key in (makes if plan.windows else of_tuples)(plan, arrived[plan.index]):
            send(partition, child, created, key)
            if plan.windows:
                found[partition.number, child, created] += 1
    return found


def of_tuples(plan: OperatorPlan, arrived: Arrived) -> Made:
    for partition, tuple_id, created, key, _ in arrived:
        for child, child_key in plan.outputs(tuple_id, key) if plan.edges else ():
            yield partition, child, created, child_key


def of_windows(plan: OperatorPlan, arrived: Arrived) -> Made:
    newest: dict[tuple[Partition, int, int], int] = {}
    for partition, _, created, key, _ in arrived:
        for window in windows_around(plan.windows, created):
            newest[partition, key, window] = max(newest.get((partition, key, window), 0), created)
    for (partition, key, window), created in newest.items():
        for child, child_key in plan.results(partition.index, key, window):
            yield partition, child, created, child_key


def of_pairs(plan: OperatorPlan, arrived: Arrived) -> Made:
    length = plan.windows.length_ns if plan.windows else 0
    left = [row for row in arrived if row[4] == plan.joins]
    right = [row for row in arrived if row[4] != plan.joins]
    for (partition, one, created, key, _), (same_partition, other, later, same_key, _) in product(left, right):
        if key == same_key and created // length == later // length:
            assert partition is same_partition
            for child, child_key in plan.pairs(one, other, key):
                yield partition, child, max(created, later), child_key


def windows_around(windows: Windows | None, event_ns: int) -> Iterator[int]:
    """By trying all windows that begin before."""
    assert windows is not None
    for window in range(event_ns // windows.slide_ns + 1):
        if window * windows.slide_ns <= event_ns < window * windows.slide_ns + windows.length_ns:
            yield window


def without_timers(raw: dict[str, Any]) -> dict[str, Any]:
    """The same job; with timers it would never come to rest."""
    for operator in raw["operators"].values():
        operator.pop("timer", None)
    return raw


def is_complete(seed: int, patch: pytest.MonkeyPatch, make: Callable[..., dict[str, Any]] = random_windows) -> bool:
    """Whether each window of a random job emitted just what it must; False where it never came to rest."""
    plane, emitted = run_out(without_timers(make(Random(seed), fault_tolerance={"method": "none"})), patch)
    if not idle(plane):
        return False
    assert emitted == worked_out(plane)
    return True


@pytest.mark.parametrize("seeds", parts(6, 12))
def test_every_window_emits_once_what_follows_from_the_sources(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(is_complete(seed, monkeypatch) for seed in seeds) > 0.75 * len(seeds)


@pytest.mark.slow
def test_every_window_of_many_jobs_emits_once_what_follows_from_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(is_complete(seed, monkeypatch) for seed in range(12, 60)) > 39


@pytest.mark.parametrize(
    ("seeds", "least"), [(range(6), 5), pytest.param(range(6, 30), 20, marks=pytest.mark.slow)], ids=["few", "more"]
)
def test_a_join_emits_once_for_each_pair_with_equal_keys_in_a_window(
    monkeypatch: pytest.MonkeyPatch, seeds: range, least: int
) -> None:
    complete = 0
    for seed in seeds:
        raw = random_joins(Random(seed))
        fast = {"distribution": "deterministic", "value": "10 us"}
        for operator in raw["operators"].values():
            if "service" in operator:
                operator["service"] = fast
        complete += is_complete(seed, monkeypatch, lambda *_, raw=raw, **__: raw | {"fault_tolerance": {}})
    assert complete >= least


def largest_of_the_channels(patch: pytest.MonkeyPatch) -> None:
    hear = Watermarks._hear

    def broken(self: Watermarks, partition: Partition, mark: Watermark, begun: int) -> None:
        hear(self, partition, mark, begun)
        partition.time.event_ns = max(partition.time.of_sender.values())

    patch.setattr(Watermarks, "_hear", broken)


def overtakes_on_the_link(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Watermarks, mark: Watermark, task: Task) -> None:
        self._arrive(mark, task, None)

    patch.setattr(Watermarks, "send", broken)


def overtakes_other_threads(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Task) -> None:
        for item in [item for item in self.serving if getattr(item, "served", False)]:
            del self.serving[item]
            self.plane.watermarks.turn(item, self)  # type: ignore[arg-type]

    patch.setattr(Task, "_let_watermarks_pass", broken)


def promises_what_a_window_still_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Windows, "held_ns", lambda self, watermark_ns: watermark_ns)


@pytest.mark.parametrize(
    ("mutant", "first"),
    [
        (largest_of_the_channels, 0),
        (overtakes_on_the_link, 0),
        (overtakes_other_threads, 75),
        (promises_what_a_window_still_holds, 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_watermark_that_promises_too_much_is_caught(mutant: Any, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(first, first + 200):
            is_complete(seed, monkeypatch)


# -- by hand


def windowed(length: str, **changes: Any) -> dict[str, Any]:
    """Arrivals at 50, 150, 250, ... ms -> count with a window -> sink, all on one host; `changes` are of `count`."""
    count = {
        "kind": "aggregate",
        "inputs": {"src": "key"},
        "service": {"distribution": "deterministic", "value": "1 ms"},
        "window": {"length": length},
    }
    return {
        "duration": "3 s",
        "workload": {"src": {"rate": "10 /s", "arrivals": "deterministic", "watermark": "100 ms"}},
        "operators": {
            "src": {"kind": "source"},
            "count": count | changes,
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"h": {"count": 1}},
    }


def deliveries(raw: dict[str, Any]) -> list[tuple[int, int]]:
    """(created, delivery) [ms] at the sinks."""
    assert on_both(raw) == []
    rows = simulate(scenario(raw)).tables["deliveries"]
    return [(b // 10**6, d // 10**6) for b, d in zip(rows["created_ns"], rows["delivered_ns"], strict=True)]


def arrivals_ms(raw: dict[str, Any]) -> list[int]:
    plane = plain_plane_of(build(scenario(raw)))
    return [created // 10**6 for created in plane.sources[0].arrivals_ns]


@pytest.mark.parametrize("length", [300, 500, 1000])
def test_a_tumbling_window_emits_at_its_end_with_the_creation_time_of_its_newest(length: int) -> None:
    raw = windowed(f"{length} ms")
    arrivals = arrivals_ms(raw)
    expected = []
    for end in range(length, 3000, length):
        inside = [created for created in arrivals if end - length <= created < end]
        late = end in arrivals  # a tuple that arrives with the watermark is served first
        expected += [(inside[-1], end + late)] if inside else []
    assert deliveries(raw) == expected


def test_windows_overlap_by_their_slide() -> None:
    raw = windowed("500 ms", window={"length": "500 ms", "slide": "200 ms"})
    arrivals = arrivals_ms(raw)
    expected = []
    for begin in range(0, 2500, 200):
        inside = [created for created in arrivals if begin <= created < begin + 500]
        late = begin + 500 in arrivals
        expected += [(inside[-1], begin + 500 + late)] if inside and begin + 500 < 3000 else []
    assert deliveries(raw) == expected


def test_a_window_waits_for_the_next_watermark() -> None:
    raw = windowed("250 ms")
    ends = [delivery for _, delivery in deliveries(raw)]
    assert ends[:3] == [
        300 + (300 in arrivals_ms(raw)),
        500 + (500 in arrivals_ms(raw)),
        800 + (800 in arrivals_ms(raw)),
    ]


def test_what_comes_late_over_a_slow_path_is_in_its_window() -> None:
    raw = windowed("500 ms", inputs={"src": "key", "slow": "key"})
    raw["operators"]["slow"] = {
        "kind": "map",
        "inputs": {"src": "shuffle"},
        "service": {"distribution": "deterministic", "value": "70 ms"},
    }
    found = deliveries(raw)
    # The watermark of 500 ms is in the queue behind the tuples of `slow` that were created before it.
    arrivals = arrivals_ms(raw)
    newest = max(created for created in arrivals if created < 500)
    assert found[0][0] == newest
    assert found[0][1] >= newest + 70
    assert len(found) == len({created // 500 for created in arrivals if created < 2500})


def test_a_source_without_tuples_holds_nothing_back() -> None:
    raw = windowed("500 ms", inputs={"src": "key", "silent": "key"})
    raw["operators"]["silent"] = {"kind": "source"}
    raw["workload"]["silent"] = {"rate": "0 /s"}
    with_200_ms = deliveries(raw)
    raw["workload"]["silent"]["watermark"] = "100 ms"
    assert [created for created, _ in deliveries(raw)] == [created for created, _ in with_200_ms]
    assert len(with_200_ms) == 5


def test_a_timer_emits_at_its_instants_whatever_comes_in() -> None:
    raw = windowed("1 s")
    raw["operators"]["count"] = {
        "kind": "map",
        "inputs": {"src": "shuffle"},
        "service": {"distribution": "deterministic", "value": "300 ms"},  # more than there is time for
        "selectivity": 0.0,
        "timer": {"every": "200 ms"},
    }
    expected = [(instant, instant) for instant in range(200, 3000, 200)]
    assert deliveries(raw) == expected


def test_pairs_have_equal_keys_in_one_window_and_come_with_the_later_one() -> None:
    raw = windowed("300 ms", inputs={"src": "key", "other": "key"}, kind="join")
    raw["operators"]["other"] = {"kind": "source"}
    raw["workload"]["other"] = {"rate": "5 /s", "arrivals": "deterministic"}
    plane = plain_plane_of(build(scenario(raw)))
    left, right = ([created // 10**6 for created in source.arrivals_ns] for source in plane.sources)
    expected = sorted(max(a, b) for a in left for b in right if a // 300 == b // 300 and max(a, b) < 2990)
    assert [created for created, _ in deliveries(raw)] == expected


# -- closed forms


def poisson(rate: int, keys: int, seconds: int, parallelism: int = 2) -> dict[str, Any]:
    raw = windowed("1 s", parallelism=parallelism, service={"distribution": "deterministic", "value": "1 us"})
    uniform = {"distribution": "uniform", "count": keys}
    raw["workload"]["src"] = {"rate": f"{rate} /s", "keys": uniform, "watermark": "100 ms"}
    return raw | {"duration": f"{seconds + 1} s"}


def in_interval(values: np.ndarray, exact: float, width: float) -> None:
    """The mean is the expected one at 99.9 %, and says something."""
    half = stats.t.ppf(0.9995, values.size - 1) * values.std(ddof=1) / values.size**0.5
    assert abs(values.mean() - exact) <= half <= width * exact, (values.mean(), exact, half)


def test_each_key_that_came_in_a_window_is_emitted_once() -> None:
    # Poisson arrivals split into keys are independent: a key is missing with probability exp(-rate * length / keys).
    rate, keys, seconds = 5000, 3000, 200
    rows = simulate(scenario(poisson(rate, keys, seconds)), plane=CompiledPlane).tables["deliveries"]
    counts = np.bincount(rows["created_ns"] // NS, minlength=seconds + 1)[:seconds].astype(float)
    in_interval(counts, keys * (1 - math.exp(-rate / keys)), 0.01)


def test_the_newest_tuple_of_a_window_is_as_old_as_the_gap_to_its_end() -> None:
    # An exponential gap that is shorter than the window; services are too short to matter.
    rate, seconds = 4, 40_000
    raw = poisson(rate, 1, seconds, 1)
    rows = simulate(scenario(raw), plane=CompiledPlane).tables["deliveries"]
    ages = (rows["delivered_ns"] - rows["created_ns"]) / NS
    missed = math.exp(-rate)
    in_interval(ages, 1 / rate - missed / (1 - missed), 0.03)


def test_the_mean_number_of_pairs_is_that_of_independent_poisson_arrivals() -> None:
    rate, keys, seconds = 100, 20, 1000
    raw = poisson(rate, keys, seconds)
    raw["operators"]["count"] |= {"kind": "join", "inputs": {"src": "key", "other": "key"}}
    raw["operators"]["other"] = {"kind": "source"}
    raw["workload"]["other"] = dict(raw["workload"]["src"])
    rows = simulate(scenario(raw), plane=CompiledPlane).tables["deliveries"]
    counts = np.bincount(rows["created_ns"] // NS, minlength=seconds + 1)[:seconds].astype(float)
    in_interval(counts, rate * rate / keys, 0.05)


# -- the audit


def test_operators_downstream_of_a_window_are_not_audited() -> None:
    made = scenario(windowed("500 ms"))
    for plane in (PlainPlane, CompiledPlane):
        records = simulate(made, plane=plane)
        assert records.tables["ledger"]["operator"].tolist() == [1]
        guarantee = summarise(made, [records])["guarantee"]
        assert (guarantee["lost"], guarantee["state_lost"]) == (None, 0)
