"""The estimate counts how often the allocation of checkpoints is compared with a fresh one."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import small_scenario

from models.errors import InputError
from models.scenario.scenario import Scenario
from models.steady_state.estimate import SECONDS_PER_EVENT, SECONDS_PER_PLANNED, Estimate, check_limits, estimate


def kept_up(**rules: Any) -> Scenario:
    tolerance: dict[str, Any] = {"method": "checkpoint", "interval_s": 1.0}
    if rules:
        tolerance["maintenance"] = rules
    return small_scenario(duration_s=10.0, fault_tolerance=tolerance)


def more(**rules: Any) -> tuple[Estimate, Estimate, int]:
    scenario = kept_up(**rules)
    groups = sum(one.groups for one in scenario.operators.values() if one.keyed)
    return estimate(kept_up(every_s=1.0, first_s=20.0)), estimate(scenario), groups


@pytest.mark.parametrize(("rules", "rounds"), [({"every_s": 2.0}, 5), ({"every_s": 2.0, "first_s": 4.0}, 4)])
def test_each_comparison_counts(rules: dict[str, float], rounds: int) -> None:
    without, with_them, groups = more(**rules)
    assert groups > 0
    assert with_them.events - without.events == pytest.approx(rounds)
    seconds = rounds * (groups * SECONDS_PER_PLANNED + SECONDS_PER_EVENT)
    assert with_them.time_s - without.time_s == pytest.approx(seconds)


def test_comparisons_that_would_never_end_are_refused() -> None:
    endless = kept_up(every_s=1e-7)
    with pytest.raises(InputError, match=r"limits\.time = .*the run needs about"):
        check_limits(endless, estimate(endless))
