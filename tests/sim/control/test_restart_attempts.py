"""When a job starts again after a failure: broken connections, refused heartbeats, and restarts in vain.

Oracle: the closed form of `models.engines.flink_restart`, to a nanosecond of rounding; and instants by hand.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from decided import said
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts import unchecked
from small_jobs import random_job, scenario
from test_cluster_view import MS, column, dies, job
from test_planes import differences
from test_recovery import check
from test_recovery_times import rows

from models.engines.flink_restart import Heartbeats, TaskManagerDeath
from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

HEARTBEAT_S, TIMEOUT_S = 2.0, 8.0
DETECTOR = {"heartbeat": "2 s", "timeout": "8 s", "failed_calls": 2, "connection": "100 ms"}
ONE_S = {"kind": "fixed-delay", "delay": "1 s", "attempts": 100}
STRATEGIES: dict[str, dict[str, Any]] = {
    "fixed delay": ONE_S,
    "exponential delay": {
        "kind": "exponential-delay", "initial": "250 ms", "multiplier": 2.0, "maximum": "3 s", "jitter": 0.0
    },
    "failure rate": {"kind": "failure-rate", "failures": 50, "delay": "700 ms"},
}  # fmt: skip


def flink(events: dict[str, Any], strategy: dict[str, Any] | None = None) -> dict[str, Any]:
    """A job that is rolled back as a whole, at ten tuples per second for 30 s."""
    raw = job(events, method="synchronous-checkpoints", store="remote")
    raw["workload"]["in"]["rate"] = "10 /s"
    recovery = {"strategy": ONE_S if strategy is None else strategy, "attempt": "46 ms"}
    return raw | {"duration": "30 s", "detector": DETECTOR, "recovery": recovery}


def in_vain(found: RunRecords) -> list[float]:
    """The instants at which the job was not restarted [ms]."""
    return [at / MS for at, what, _ in said(found) if what == "the job is not restarted"]


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=12, deadline=None)
@given(at_ms=st.integers(2001, 10_000).filter(lambda at_ms: at_ms % 2000), silent=st.booleans())
def test_the_last_restart_is_that_of_the_closed_form(name: str, at_ms: int, silent: bool) -> None:
    made = scenario(flink({"dies": dies(1, at_ms) | {"silent": silent}}, STRATEGIES[name]))
    assert made.recovery.strategy is not None
    law = TaskManagerDeath(
        heartbeats=Heartbeats(interval_s=HEARTBEAT_S, timeout_s=TIMEOUT_S),
        strategy=made.recovery.strategy,
        silent=silent,
        noticed_s=0.1,
        overhead_s=0.046,
    ).at_phase(HEARTBEAT_S - at_ms / 1000 % HEARTBEAT_S)
    found = simulate(made, plane=CompiledPlane)
    ((detected,),) = column(found, "failures", "detected_ns")
    assert detected == pytest.approx(at_ms + 1000 * law.attempts[0].restarting_s, abs=1e-5)
    running = at_ms + 1000 * law.running_s
    assert column(found, "recoveries", "allocated_ns") == [(pytest.approx(running, abs=1e-5),)] * 4
    assert in_vain(found) == pytest.approx([at_ms + 1000 * one.running_s for one in law.attempts[:-1]], abs=1e-5)


def test_both_planes_restart_at_the_same_instants_and_lose_nothing() -> None:
    # h-1 dies at 2.5 s. Its second heartbeat is refused at 6 s: the restarts of 3.6, 4.646 and 5.692 s are in vain.
    found = rows(flink({"dies": dies(1, 2500)}))
    assert column(found, "failures", "detected_ns") == [(2600,)]
    assert in_vain(found) == [3600, 4646, 5692]
    assert column(found, "recoveries", "allocated_ns") == [(6738,)] * 4
    why = [why for _, what, why in said(found) if what == "the job is not restarted"]
    assert set(why) == {"it got a slot of h-1, which counts until 6 s"}
    assert found.tables["ledger"]["lost"].tolist() == found.tables["ledger"]["duplicated"].tolist() == [0, 0]


def test_a_host_that_comes_back_does_not_count_as_the_dead_one_any_more() -> None:
    found = rows(flink({"dies": dies(1, 2500, repair=1000)}))
    assert in_vain(found) == []
    assert column(found, "recoveries", "allocated_ns") == [(3600,)] * 4


def test_without_a_strategy_the_restart_follows_as_soon_as_the_host_counts_as_dead() -> None:
    raw = flink({"dies": dies(1, 2500)})
    del raw["recovery"]
    found = rows(raw)
    assert column(found, "failures", "detected_ns") == [(2600,)]
    assert column(found, "recoveries", "allocated_ns") == [(6000,)] * 4


def test_single_tasks_restart_by_the_strategy_as_well() -> None:
    raw = flink({"dies": dies(1, 2500)}) | {"fault_tolerance": {"method": "checkpoint", "interval": "300 ms"}}
    found = rows(raw)
    assert column(found, "recoveries", "allocated_ns") == [(6738,)]
    assert [what for _, what, _ in said(found) if "not restarted" in what] == ["what was on h-1 is not restarted"] * 3


def test_a_job_that_is_given_up_stays_down() -> None:
    found = rows(flink({"dies": dies(1, 2500)}, {"kind": "fixed-delay", "delay": "1 s", "attempts": 2}))
    assert in_vain(found) == [3600, 4646, 4692]
    assert [why for _, what, why in said(found) if "not restarted" in what][
        -1
    ] == "the strategy gives up after 2 restarts"
    assert found.tables["recoveries"]["host"].size == 0
    assert found.tables["failures"]["caught_up_ns"].tolist() == [NEVER]
    assert found.tables["outages"]["until_ns"].tolist() == [NEVER] * 4


@pytest.mark.parametrize("at_ms", [2500, 2517, 2733, 2999, 3141])
def test_restarts_follow_each_other_without_a_time_between_them(at_ms: int) -> None:
    # A failure at the very instant of a restart is a failure of that restart, whatever floating point makes of it.
    raw = flink({"dies": dies(1, at_ms)}, {"kind": "exponential-delay", "initial": "300 ms", "jitter": 0.0})
    raw["recovery"]["attempt"] = "0 s"
    assert 3 <= len(in_vain(rows(raw))) <= 8


def test_a_second_failure_goes_on_with_longer_delays() -> None:
    longer = {"kind": "exponential-delay", "initial": "1 s", "multiplier": 2.0, "jitter": 0.0}
    found = rows(flink({"dies": dies(1, 2500), "too": dies(2, 16_500)}, longer))
    # Attempts at 3.6 s and 5.646 s are in vain, that at 9.692 s is not; the next delay is 8 s, and not 1 s.
    assert column(found, "failures", "detected_ns") == [(2600,), (16_600,)]
    assert in_vain(found) == [3600, 5646]
    assert {at for (at,) in column(found, "recoveries", "allocated_ns")} == {9692, 24_600}


def test_jitter_follows_from_the_seed() -> None:
    jittered = {"kind": "exponential-delay", "initial": "1 s", "jitter": 0.5}
    seen = {seed: in_vain(rows(flink({"dies": dies(1, 2500)}, jittered) | {"seed": seed})) for seed in (1, 1, 2)}
    assert seen[1] != seen[2]
    assert in_vain(rows(flink({"dies": dies(1, 2500)}, jittered) | {"seed": 1})) == seen[1]
    assert all(3600 <= first <= 4100 for first, *_ in seen.values())


def test_a_failure_falls_at_another_phase_in_each_replication() -> None:
    raw = flink({"dies": dies(1, 2500) | {"delay": {"distribution": "uniform", "low": "0 s", "high": "2 s"}}})
    plans = [RunPlan.of(scenario(raw), RunInputs(), replication) for replication in range(20)]
    instants = [plan.instant_ns("dies") for plan in plans]
    assert len({*instants}) == 20
    assert 2500 * MS <= min(instants) < 2800 * MS
    assert 4100 * MS < max(instants) < 4500 * MS
    for plan, at_ns in zip(plans[:3], instants, strict=False):
        control = Control(plan, CompiledPlane)
        control.start()
        control.run(30_000 * MS)
        assert [row[1] for row in control.recorder.rows["failures"]] == [at_ns]


# -- random jobs


def with_restarts(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job whose failures are noticed early, and whose restarts may be in vain."""
    raw = random_job(draw, **more)
    detector = {"heartbeat": "200 ms", "timeout": "1 s", "failed_calls": draw.choice([1, 2, 3])}
    if draw.random() < 0.8:
        detector["connection"] = draw.choice(["1 ms", "50 ms", "300 ms"])
    raw["detector"] = detector
    for event in raw.get("events", {}).values():
        if event["kind"] == "host-failure":
            event["silent"] = draw.random() < 0.3
    short = {"kind": "fixed-delay", "delay": "70 ms", "attempts": 1000}
    grows = {"kind": "exponential-delay", "initial": "30 ms", "maximum": "500 ms"}
    recovery: dict[str, Any] = {"strategy": draw.choice([short, grows]), "attempt": "5 ms"}
    if draw.random() < 0.5:
        recovery["restart"] = {"distribution": "uniform", "low": "1 ms", "high": "300 ms"}
    return raw | {"recovery": recovery}


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "at-most-once"])
def test_guarantees_hold_whatever_crashes_meanwhile(guarantee: str) -> None:
    assert sum(check(Random(f"restarts {seed}"), guarantee, with_restarts) for seed in range(8)) >= 6


def test_both_planes_give_equal_rows() -> None:
    for seed in range(15):
        made = unchecked(with_restarts(Random(f"restarts {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


# -- bad input

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a first delay above the maximum": (
        {"recovery": {"strategy": {"kind": "exponential-delay", "initial": "2 min"}}},
        "recovery.strategy.initial = 2 min: must be at most recovery.strategy.maximum = 1 min",
    ),
    "restarts without a pause": (
        {"recovery": {"strategy": {"kind": "fixed-delay", "delay": "0 s"}}},
        "recovery.attempt = 0 s: must be at least 1 ms where recovery.strategy.delay is 0 s",
    ),
    "a time of starts in vain without a strategy": (
        {"recovery": {"attempt": "1 s"}},
        "recovery.attempt = 1 s: needs recovery.strategy",
    ),
    "refused heartbeats among lost ones": (
        {"detector": DETECTOR | {"loss": 0.1}},
        "detector.failed_calls = 2: cannot be combined with heartbeats that are lost or late",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused(what: str) -> None:
    changes, words = REFUSED[what]
    found = [str(fault) for fault in faults(unchecked(flink({"dies": dies(1, 2500)}) | changes))]
    assert any(one.startswith(words) for one in found), found
