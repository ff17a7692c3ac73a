"""The estimate counts the ids that are remembered at a time: of some intervals, or of a whole run that is shorter."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import small_scenario

from models.steady_state.estimate import BYTES_PER_LOGGED_STEP, Estimate, estimate

CRASH = {"crash": {"at_s": 3.0, "kind": "host-failure", "host": "worker-0"}}


def sized(duration_s: float, guarantee: str) -> Estimate:
    tolerance: dict[str, Any] = {"method": "checkpoint", "interval_s": 1.0, "guarantee": guarantee}
    workload = {"in": {"rate": "10000 /s", "keys": {"distribution": "uniform", "count": 4}}}
    scenario = small_scenario(
        duration_s=duration_s,
        workload=workload,
        fault_tolerance=tolerance,
        events=CRASH,
        recording={"detail": "histograms"},
    )
    quick = {name: one.model_copy(update={"service": None}) for name, one in scenario.operators.items()}
    return estimate(scenario.model_copy(update={"operators": quick}))  # so that nothing waits


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "at-most-once"])
def test_memory_of_ids_does_not_grow_with_the_run(guarantee: str) -> None:
    short, long = sized(100.0, guarantee), sized(400.0, guarantee)
    assert long.memory_bytes - short.memory_bytes < 0.05 * (long.steps - short.steps) * BYTES_PER_LOGGED_STEP


def test_a_run_that_is_shorter_than_what_is_remembered_counts_all_its_ids() -> None:
    made = sized(5.0, "exactly-once")
    assert made.memory_bytes > made.steps * BYTES_PER_LOGGED_STEP
