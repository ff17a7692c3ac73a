"""Event time where hosts die: equal on both planes, and nothing lost or emitted twice.

Oracles: the plain plane by equality of all columns; the same scenario without crashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seeds import parts, sample
from sharing_jobs import share_cores
from small_jobs import (
    NS,
    Run,
    applied,
    drain,
    idle,
    random_job,
    random_joins,
    random_windows,
    scenario,
    simulate,
    state_losses,
    storm,
    with_buffers,
    with_fair_links,
    with_timers,
    without_crashes,
)
from test_event_time import deliveries, windowed
from test_planes import METHODS, on_both
from test_recovery import (
    GUARANTEES,
    audit_equals_the_run_without_crashes,
    conserved,
    every_partition_has_one_owner,
    losses_are_legitimate,
    the_guarantee_holds,
    trimmed_rows_are_covered,
)

from sim.plain.partition import EventTime, Partition, Watermark
from sim.plain.plane import PlainPlane
from sim.plain.task import Task
from sim.plain.watermarks import Watermarks


def beside(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """The same job, half the time with something that tuples wait for."""
    others = draw.choice(["", "", "", "shared", "fair", "bounded", "fair bounded", "shared fair bounded"])
    if "bounded" in others:
        raw = with_buffers(draw, raw)
    if "fair" in others:
        raw = with_fair_links(draw, raw)
    if "shared" in others:
        raw = share_cores(draw, raw)
    return raw


def timers(draw: Random, **fixed: Any) -> dict[str, Any]:
    """A random job with crashes, timers and states of the tuples of the last time."""
    make = storm if draw.random() < 0.4 else random_job
    return beside(draw, with_timers(draw, make(draw, **fixed)))


def windows(draw: Random, **fixed: Any) -> dict[str, Any]:
    """A random job with windows, joins and crashes."""
    raw = draw.choice([random_windows, random_joins])(draw, **fixed)
    crashes = storm(draw) if draw.random() < 0.4 else random_job(draw)
    hosts = crashes["hosts"]["h"]["count"]
    raw["hosts"]["h"]["count"] = hosts
    return beside(draw, raw | {"events": crashes["events"], "detector": crashes["detector"]})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_with_windows_and_crashes(seed: int, method: dict[str, Any]) -> None:
    assert on_both(windows(Random(seed), fault_tolerance=method)) == []


@pytest.mark.slow
def test_a_long_campaign_of_equal_rows_with_windows_and_crashes() -> None:
    for seed in range(1000):
        assert on_both(windows(Random(seed), fault_tolerance=METHODS[seed % 4])) == [], seed


def on_a_lattice(draw: Random, **fixed: Any) -> dict[str, Any]:
    """The same where arrivals, ends of services, watermarks, timers, checkpoints and crashes meet at 50 ms."""
    raw = windows(draw, **fixed)
    for operator in raw["operators"].values():
        if "service" in operator:
            operator["service"] = {"distribution": "deterministic", "value": draw.choice(["10 ms", "25 ms", "50 ms"])}
        if "timer" in operator:
            operator["timer"] = {"every": "100 ms"}
    raw["workload"]["src"] |= {"rate": "20 /s", "arrivals": "deterministic", "batch": 1, "watermark": "50 ms"}
    raw["network"]["latency"] = draw.choice(["0 s", "50 ms", "100 ms"])
    raw["fault_tolerance"] |= {"interval": "100 ms"} if raw["fault_tolerance"]["method"] == "checkpoint" else {}
    for event in raw["events"].values():
        event["at"] = f"{draw.randint(0, 60) * 50} ms"
        if "repair" in event:
            event["repair"] = draw.choice(["50 ms", "200 ms", "1 s"])
    return raw


@pytest.mark.parametrize("seed", sample(8, 40))
def test_both_planes_give_equal_rows_where_all_meets_at_the_same_instants(seed: int) -> None:
    assert on_both(on_a_lattice(Random(seed), fault_tolerance=METHODS[seed % 4])) == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_with_timers_and_crashes(seed: int, method: dict[str, Any]) -> None:
    assert on_both(timers(Random(seed), fault_tolerance=method)) == []


@pytest.mark.slow
def test_a_long_campaign_of_equal_rows_with_timers_and_crashes() -> None:
    for seed in range(1000):
        assert on_both(timers(Random(seed), fault_tolerance=METHODS[seed % 4])) == [], seed


# -- what must hold


@contextmanager
def timers_until_the_last_arrival(raw: dict[str, Any], patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, timers fall silent with the sources, so that a run comes to rest."""
    last, emit = int(raw["duration"].split()[0]) * NS - 1, PlainPlane.emit_ticks

    def emit_some(self: PlainPlane, partition: Partition, upto: int) -> None:
        emit(self, partition, min(upto, last // partition.operator.timer_ns))

    with patch.context() as silent:
        silent.setattr(PlainPlane, "emit_ticks", emit_some)
        yield


def job(make: Callable[..., dict[str, Any]], seed: int, guarantee: str) -> dict[str, Any]:
    method = {"method": "none"} if guarantee == "none" else {"guarantee": guarantee}
    return make(Random(seed), fault_tolerance=method)


def check_timers(seed: int, guarantee: str, patch: pytest.MonkeyPatch) -> bool:
    """One random job with crashes and timers; False where overload hid its end."""
    raw = job(timers, seed, guarantee)
    with timers_until_the_last_arrival(raw, patch):
        run, clean = drain(raw), drain(without_crashes(raw))
    conserved(run)
    trimmed_rows_are_covered(run.plane)
    every_partition_has_one_owner(run)
    losses_are_legitimate(run)
    if not (run.drained and clean.drained):
        return False
    audit_equals_the_run_without_crashes(run.plane, applied(clean.plane))
    the_guarantee_holds(run, guarantee)
    return True


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seeds", [range(4, 6), pytest.param(range(6, 10), marks=pytest.mark.slow)])
def test_what_a_timer_emits_is_counted_like_the_tuples_of_a_source(
    guarantee: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(check_timers(seed, guarantee, monkeypatch) for seed in seeds) >= len(seeds) / 2


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_long_campaign_of_timers_that_are_counted(guarantee: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(check_timers(seed, guarantee, monkeypatch) for seed in (*range(4), *range(7, 400))) > 230


def come_to_rest(raw: dict[str, Any]) -> Run:
    """A run until nothing is left to do but watermarks, and these have ended all windows."""
    run = drain(raw)
    for _ in range(20):
        if not run.drained:
            break
        run.control.run(run.control.clock.now_ns() + 5 * NS)
        if idle(run.plane) and not any(partition.time.windows for partition in run.plane.all_partitions()):
            return run
    run.drained = False
    return run


Content = dict[str, Counter[tuple[int, int]]]


def contents(plane: PlainPlane) -> Content:
    """Partition -> how often each (id, created) was applied."""
    return {
        partition.name: Counter(zip(partition.applied, partition.applied_created_ns, strict=True))
        for partition in plane.all_partitions()
        if not partition.operator.is_source
    }


def check_windows(seed: int, guarantee: str, patch: pytest.MonkeyPatch) -> bool:
    """One random job with crashes and windows; False where overload hid its end."""
    raw = job(windows, seed, guarantee)
    with timers_until_the_last_arrival(raw, patch):
        run, clean = come_to_rest(raw), come_to_rest(without_crashes(raw))
    conserved(run)
    trimmed_rows_are_covered(run.plane)
    every_partition_has_one_owner(run)
    losses_are_legitimate(run)
    if not (run.drained and clean.drained):
        return not any(run.control.cluster.host_alive)  # a dead cluster stands still
    found, expected, complete = contents(run.plane), contents(clean.plane), not state_losses(run)
    if guarantee == "exactly-once" and complete:
        assert found == expected
        assert run.plane.watermarks.late == []
    for partition, rows in found.items():
        if guarantee == "at-least-once" and complete:
            assert rows.keys() == expected[partition].keys(), partition
        if guarantee != "at-least-once":
            assert rows.total() == len({tuple_id for tuple_id, _ in rows}), f"{partition}: something twice"
    return True


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seeds", parts(2, 6))
def test_what_windows_and_joins_emit_is_that_of_the_run_without_crashes(
    guarantee: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(check_windows(seed, guarantee, monkeypatch) for seed in seeds) >= len(seeds) / 2


def pools(draw: Random, **fixed: Any) -> dict[str, Any]:
    """Windows and crashes where maps are pools of threads, and a restored state is installed slowly on one of them."""
    raw = on_a_lattice(draw, **fixed) if draw.random() < 0.6 else windows(draw, **fixed)
    for operator in raw["operators"].values():
        if operator["kind"] == "map" and "key" not in operator["inputs"].values():
            operator["threads"] = draw.choice([2, 3])
        if operator["kind"] not in ("source", "sink"):
            operator["deserialise"] = draw.choice(["1 kB/s", "10 kB/s"])
    return raw


def pools_are_right(seed: int, patch: pytest.MonkeyPatch) -> bool:
    """What was held for a restored partition is applied before watermarks that wait for its installation."""
    raw = pools(Random(seed), fault_tolerance={"guarantee": "exactly-once"})
    with timers_until_the_last_arrival(raw, patch):
        run, clean = come_to_rest(raw), come_to_rest(without_crashes(raw))
    if not (run.drained and clean.drained) or state_losses(run):
        return False
    assert run.plane.watermarks.late == [], seed
    assert contents(run.plane) == contents(clean.plane), seed
    return True


def test_no_watermark_overtakes_what_a_pool_of_threads_had_held(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = (10, 33, 45)
    assert all(pools_are_right(seed, monkeypatch) for seed in seeds)
    for seed in seeds:
        assert on_both(pools(Random(seed))) == [], seed

    monkeypatch.setattr(PlainPlane, "note_freed", lambda *_: None)
    with pytest.raises(AssertionError):
        pools_are_right(45, monkeypatch)


@pytest.mark.slow
def test_a_long_campaign_of_pools_of_threads_beside_windows_and_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(pools_are_right(seed, monkeypatch) for seed in (18, 49, *range(50, 350))) > 200
    for seed in (18, 49, *range(50, 350)):
        assert on_both(pools(Random(seed), fault_tolerance=METHODS[seed % 4])) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_long_campaign_of_windows_where_hosts_die(guarantee: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(check_windows(seed, guarantee, monkeypatch) for seed in range(3, 300)) > 150


# -- engines broken on purpose


def hears_what_was_sent_before_it_came(patch: pytest.MonkeyPatch) -> None:
    hear = Watermarks._hear

    def broken(self: Watermarks, partition: Partition, mark: Watermark, begun: int) -> None:
        with patch.context() as other:
            other.setattr(partition, "assigned_at", 0)
            hear(self, partition, mark, begun)

    patch.setattr(Watermarks, "_hear", broken)


def speaks_for_who_came_later(patch: pytest.MonkeyPatch) -> None:
    opened = PlainPlane.open

    def broken(self: PlainPlane, partition: int) -> None:
        opened(self, partition)
        self._numbered[partition].live_at = 0

    patch.setattr(PlainPlane, "open", broken)


def is_as_far_as_before(patch: pytest.MonkeyPatch) -> None:
    restored = EventTime.restored

    def broken(self: EventTime, saved: EventTime | None, ticks: int, replays: bool) -> EventTime:
        made = restored(self, saved, ticks, replays)
        made.of_sender, made.event_ns = self.of_sender, self.event_ns
        return made

    patch.setattr(EventTime, "restored", broken)


def begins_with_empty_windows(patch: pytest.MonkeyPatch) -> None:
    restored = EventTime.restored

    def broken(self: EventTime, saved: EventTime | None, ticks: int, replays: bool) -> EventTime:
        made = restored(self, saved, ticks, replays)
        made.windows, made.sides = {}, {}
        return made

    patch.setattr(EventTime, "restored", broken)


def promises_for_all_what_one_has_reached(patch: pytest.MonkeyPatch) -> None:
    rise = Watermarks._rise

    def broken(self: Watermarks, origin: Task, event_ns: int) -> None:
        windows = origin.operator.windows if origin.operator.joins is None else None
        partitions = [
            partition for partition in self._partitions(origin) if partition.live and not partition.operator.is_source
        ]
        there = [
            windows.held_ns(partition.time.event_ns) if windows else partition.time.event_ns for partition in partitions
        ]
        rise(self, origin, max([event_ns, *there]))

    patch.setattr(Watermarks, "_rise", broken)


@pytest.mark.parametrize(
    ("mutant", "seeds"),
    [
        (hears_what_was_sent_before_it_came, (76, 112)),
        (speaks_for_who_came_later, (65, 109)),
        (is_as_far_as_before, (10, 19)),
        (begins_with_empty_windows, (0, 27)),
        (promises_for_all_what_one_has_reached, (151,)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_recovery_that_promises_too_much_is_caught(
    mutant: Any, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in seeds:
            check_windows(seed, "exactly-once", monkeypatch)


# -- by hand


def test_a_window_that_ended_after_the_last_checkpoint_ends_once_more_with_the_same_contents() -> None:
    # Checkpoints at 250, 500 and 750 ms; windows end at 200, 400, 600 and 800 ms. The host of `count` dies at 850 ms.
    raw = windowed("200 ms") | {
        "hosts": {"h": {"count": 3}},
        "placement": {"tasks": {"src-0": "h-0", "count-0": "h-1", "out-0": "h-0"}},
        "network": {"latency": "0 s"},
        "fault_tolerance": {"method": "checkpoint", "interval": "250 ms"},
        "detector": {"heartbeat": "100 ms", "timeout": "150 ms"},
    }
    crash = {"at": "850 ms", "kind": "host-failure", "host": "h-1"}
    without, found = deliveries(raw), deliveries(raw | {"events": {"crash": crash}})
    assert [created for created, _ in found] == [created for created, _ in without]
    # It is detected at 950 ms; the watermark of 1 s is the first that is made after the partition was assigned.
    assert [end for _, end in found] == [end for _, end in without]
    dropped = simulate(scenario(raw | {"events": {"crash": crash}})).tables["dropped"]
    # The window that ended at 800 ms, and the one before, which the checkpoint at 750 ms kept: it is sent again.
    assert dropped["reason"].tolist().count("duplicate") == 2


def test_a_source_that_is_down_holds_windows_back_and_makes_up_for_it() -> None:
    raw = windowed("200 ms") | {
        "hosts": {"h": {"count": 3}},
        "placement": {"tasks": {"src-0": "h-1", "count-0": "h-0", "out-0": "h-0"}},
        "network": {"latency": "0 s"},
        "fault_tolerance": {"method": "checkpoint", "interval": "300 ms"},
        "detector": {"heartbeat": "100 ms", "timeout": "500 ms"},
        "events": {"crash": {"at": "550 ms", "kind": "host-failure", "host": "h-1"}},
    }
    without, found = deliveries(raw | {"events": {}}), deliveries(raw)
    assert [created for created, _ in found] == [created for created, _ in without]
    # Down from 550 ms to 1 s (500 ms after the last heartbeat); five arrivals are served before the watermark.
    assert found[:6] == [(100, 201), (300, 401), (500, 1005), (700, 1005), (900, 1005), (1100, 1201)]
