"""Actions of protocols: the compiled plane against its specification, under random scripts of actions.

Oracle: `sim.plain`, by equality of all columns and of all that the listener is told; no tolerance.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scripts import MOVES, VERBS, run_script
from small_jobs import random_job, storm
from test_planes import METHODS, differences
from test_planes import on_both as differences_of

from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane


def on_both(raw: dict[str, Any], seed: int, verbs: tuple[str, ...] = VERBS) -> list[str]:
    """Differences between the planes for the keys of a scenario under a script."""
    (plain, told), (compiled, told_too) = (
        run_script(raw, plane, seed, verbs=verbs) for plane in (PlainPlane, CompiledPlane)
    )
    return differences(plain, compiled) + ["told"] * (told != told_too)


def job(seed: int, stormy: bool = False, **fixed: Any) -> dict[str, Any]:
    return (storm if stormy else random_job)(Random(seed), **fixed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), stormy=st.booleans(), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_under_random_actions(seed: int, stormy: bool, method: dict[str, Any]) -> None:
    assert on_both(job(seed, stormy, fault_tolerance=method), seed) == []


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 6), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("verb", VERBS)
def test_both_planes_agree_on_each_action_alone(verb: str, seeds: range) -> None:
    verbs = {"unpause": ("pause", "unpause"), "unhold": ("hold", "unhold"), "unalign": ("barrier", "unalign")}
    for seed in seeds:
        assert on_both(job(seed, seed % 3 == 0), seed, verbs.get(verb, (verb,))) == [], seed


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 60), marks=pytest.mark.slow)], ids=str)
def test_both_planes_agree_on_tasks_that_line_up(seeds: range) -> None:
    for seed in seeds:
        assert on_both(job(seed, seed % 3 == 0), seed, ("line_up", "line_up", *VERBS)) == [], seed


def movable(seed: int, **fixed: Any) -> dict[str, Any]:
    """A job in which a host may fail: only there are the ids kept that instances need."""
    raw = job(seed, seed % 3 == 0, **fixed)
    last = {"at": "9999 s", "kind": "host-failure", "host": "h-0"}
    return raw | {"events": raw["events"] | {"last": last}}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), others=st.booleans(), method=st.sampled_from(METHODS))
@example(seed=251743164, others=False, method={})  # adopts a checkpoint of less than was trimmed before
@example(seed=230, others=True, method={})  # ends with an instance that is down, and owns nothing, but has a checkpoint
def test_both_planes_give_equal_rows_with_groups_at_two_tasks(seed: int, others: bool, method: dict[str, Any]) -> None:
    verbs = 2 * MOVES + VERBS if others else MOVES
    assert on_both(movable(seed, fault_tolerance=method), seed, verbs) == []


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), cost=st.sampled_from(["1 ns", "5 ms", "40 ms"]))
def test_both_planes_give_equal_rows_where_dropping_a_duplicate_takes_time(seed: int, cost: str) -> None:
    assert differences_of(storm(Random(seed), fault_tolerance={"duplicate": cost})) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_actions(part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        assert on_both(job(seed, seed % 3 == 0, fault_tolerance=METHODS[seed % 4]), seed) == [], seed
