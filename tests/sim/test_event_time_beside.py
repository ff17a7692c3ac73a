"""Windows, joins and timers beside shared cores, evenly shared links and bounded queues, and what must hold then.

Oracles: the plain plane by equality of all columns; the windows of a drained run worked out from the arrivals at the
sources.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seeds import sample
from sharing_jobs import changes, share_cores, with_changes
from small_jobs import (
    build,
    plain_plane_of,
    random_joins,
    random_windows,
    scenario,
    simulate,
    with_buffers,
    with_fair_links,
)
from test_event_time import is_complete
from test_planes import differences, on_both

from models.scenario.scenario import Scenario
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

METHODS: list[dict[str, Any]] = [{}, {"guarantee": "at-most-once"}, {"method": "none"}]


def mixed(draw: Random, **fixed: Any) -> dict[str, Any]:
    """A random job with event time beside at least one of the features that tuples wait for."""
    raw = draw.choice([random_windows, random_joins])(draw, **fixed)
    others = draw.choice(["shared", "fair", "bounded", "fair bounded", "shared bounded", "shared fair bounded"])
    if "bounded" in others:
        raw = with_buffers(draw, raw)
    if "fair" in others:
        raw = with_fair_links(draw, raw)
    if "shared" in others:
        raw = share_cores(draw, raw)
    return raw


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_with_event_time_beside_other_features(seed: int, method: dict[str, Any]) -> None:
    assert on_both(mixed(Random(seed), fault_tolerance=method)) == []


@pytest.mark.slow
def test_a_long_campaign_of_equal_rows_with_event_time_beside_other_features() -> None:
    for seed in range(1000):
        assert on_both(mixed(Random(seed), fault_tolerance=METHODS[seed % 3])) == [], seed


@pytest.mark.parametrize("seed", sample(6, 20))
def test_both_planes_give_equal_rows_when_control_changes_paces_between_watermarks(seed: int) -> None:
    draw = Random(seed)
    raw = share_cores(draw, random_windows(draw))
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    script = changes(draw, made)
    assert differences(with_changes(made, script, PlainPlane), with_changes(made, script, CompiledPlane)) == []


@pytest.mark.parametrize(
    ("seeds", "more_than"),
    [(range(6), 2), pytest.param(range(6, 60), 30, marks=pytest.mark.slow)],
    ids=["few", "more"],
)
def test_every_window_emits_once_what_follows_from_the_sources_beside_other_features(
    monkeypatch: pytest.MonkeyPatch, seeds: range, more_than: int
) -> None:
    assert sum(is_complete(seed, monkeypatch, mixed) for seed in seeds) > more_than


# -- by hand


def job(**operators: Any) -> dict[str, Any]:
    """Arrivals each 10 ms -> `mid` -> count, windows of 100 ms -> sink; all but the source on host b."""
    count = {
        "kind": "aggregate",
        "inputs": {"mid": "key"},
        "service": {"distribution": "deterministic", "value": "1 ms"},
        "window": {"length": "100 ms"},
    }
    mid = {"kind": "map", "inputs": {"src": "shuffle"}, "service": {"distribution": "deterministic", "value": "1 ms"}}
    return {
        "duration": "2 s",
        "workload": {"src": {"rate": "100 /s", "arrivals": "deterministic", "watermark": "100 ms"}},
        "operators": {
            "src": {"kind": "source"},
            "mid": mid | operators.get("mid", {}),
            "count": count | operators.get("count", {}),
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"a": {"count": 1}, "b": {"count": 1}},
        "placement": {"tasks": {"src-0": "a-0", "mid-0": "b-0", "count-0": "b-0", "out-0": "b-0"}},
        "network": {"latency": "0 s"},
    }


def ends_ms(raw: dict[str, Any]) -> list[tuple[int, int]]:
    """(created, delivery) [ms] of what the windows emit."""
    assert on_both(raw) == []
    rows = simulate(scenario(raw)).tables["deliveries"]
    return [(b // 10**6, d // 10**6) for b, d in zip(rows["created_ns"], rows["delivered_ns"], strict=True)]


def test_arrivals_that_wait_for_room_hold_the_watermark_of_their_source_back() -> None:
    # A tuple takes 50 ms where one comes each 10 ms, so that most arrivals wait at the source.
    slow = {"buffer": 2, "service": {"distribution": "deterministic", "value": "50 ms"}}
    raw = job(mid=slow)
    arrivals = [created // 10**6 for created in plain_plane_of(build(scenario(raw))).sources[0].arrivals_ns]
    found = ends_ms(raw)
    assert [created for created, _ in found] == [max(b for b in arrivals if b < end) for end in (100, 200, 300, 400)]
    for newest, end in found:
        assert end == arrivals[0] + 50 * (arrivals.index(newest) + 1) + 1  # served by `mid`, then by `count`


def test_a_watermark_is_a_message_of_no_bytes_behind_the_tuples_of_its_channel() -> None:
    # 100 B over 10 kB/s take the link of `a` for 10 ms, so that it is busy all the time and no tuple waits long.
    raw = job()
    raw["hosts"]["a"]["network"] = "10 kB/s"
    raw["network"] |= {"sharing": "fair"}
    arrivals = [created for created, _ in ends_ms(raw)]
    assert len(arrivals) == 19
    assert all(created // 100 == n for n, created in enumerate(arrivals))


def test_a_watermark_takes_no_work_of_a_processor_that_others_use() -> None:
    # At half the pace a tuple of `mid` takes 2 ms, one of `count` 2 ms as well; the watermark none.
    raw = job()
    raw["hosts"]["b"] |= {"cpu": "processor-sharing", "cores": 4, "load": {"steps": [{"at": "0 s", "share": 0.5}]}}
    assert {end % 100 for _, end in ends_ms(raw)} <= {0, 2, 4}
