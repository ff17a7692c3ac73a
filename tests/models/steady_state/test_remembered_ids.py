"""The estimate counts the ids that are remembered at a time: of some intervals, or of the whole run."""

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


@pytest.mark.parametrize(("guarantee", "grows"), [("exactly-once", False), ("at-least-once", True)])
def test_memory_of_ids_grows_with_the_run_only_where_all_are_kept(guarantee: str, grows: bool) -> None:
    short, long = sized(100.0, guarantee), sized(400.0, guarantee)
    more = long.memory_bytes - short.memory_bytes
    assert (more >= (long.steps - short.steps) * BYTES_PER_LOGGED_STEP) is grows
    assert grows or more < 0.05 * (long.steps - short.steps) * BYTES_PER_LOGGED_STEP


def test_a_run_that_is_shorter_than_what_is_remembered_counts_all_its_ids() -> None:
    made = sized(5.0, "exactly-once")
    assert made.memory_bytes == sized(5.0, "at-least-once").memory_bytes
    assert made.memory_bytes > made.steps * BYTES_PER_LOGGED_STEP
