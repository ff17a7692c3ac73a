"""The estimate counts the ids that are remembered at a time: of some intervals, or of a whole run that is shorter."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import small_scenario

from models.steady_state.estimate import BYTES_PER_LOGGED_STEP, Estimate, estimate


def sized(duration_s: float, guarantee: str, crash_s: float = 3.0) -> Estimate:
    tolerance: dict[str, Any] = {"method": "checkpoint", "interval_s": 1.0, "guarantee": guarantee}
    workload = {"in": {"rate": "10000 /s", "keys": {"distribution": "uniform", "count": 4}}}
    scenario = small_scenario(
        duration_s=duration_s,
        workload=workload,
        fault_tolerance=tolerance,
        events={"crash": {"at_s": crash_s, "kind": "host-failure", "host": "worker-0"}},
        recording={"detail": "histograms"},
    )
    quick = {name: one.model_copy(update={"service": None}) for name, one in scenario.operators.items()}
    return estimate(scenario.model_copy(update={"operators": quick}))  # so that nothing waits


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "at-most-once"])
def test_memory_of_ids_does_not_grow_with_the_run(guarantee: str) -> None:
    short, long = sized(100.0, guarantee), sized(400.0, guarantee)
    assert long.memory_bytes - short.memory_bytes < 0.05 * (long.steps - short.steps) * BYTES_PER_LOGGED_STEP


def test_a_run_that_is_shorter_than_what_is_remembered_counts_all_its_ids() -> None:
    made = sized(5.0, "exactly-once", crash_s=0.0)
    assert made.memory_bytes > made.steps * BYTES_PER_LOGGED_STEP


@pytest.mark.parametrize(("crash_s", "looked_for_s"), [(3.0, 2.0), (4.9, 0.1), (9.0, 0.0)])
def test_until_something_happens_an_id_counts_a_tenth(crash_s: float, looked_for_s: float) -> None:
    always, made = sized(5.0, "exactly-once", crash_s=0.0), sized(5.0, "exactly-once", crash_s=crash_s)
    counted = (looked_for_s + 0.1 * (5.0 - looked_for_s)) / 5.0
    left_out = always.memory_bytes - made.memory_bytes
    assert left_out == pytest.approx((1 - counted) * made.steps * BYTES_PER_LOGGED_STEP)
