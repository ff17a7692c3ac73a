"""The checkpoint interval against Lambert's W, decimals of 60 digits, and a fine grid."""

from __future__ import annotations

import decimal
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from models.errors import InputError
from models.planning.checkpoint_interval import (
    CheckpointInterval,
    allowed_intervals,
    daly_first,
    daly_higher,
    exact,
    quickest_recovery_interval_s,
    slowdown,
    worst_recovery_s,
    young,
)
from models.planning.solution import Status
from optimizer.checkpoint_interval import solve
from optimizer.verify.plans import verify_plan


def exact_in_decimals(checkpoint_s: float, mtbf_s: float) -> float:
    """Root of t - 1 + exp(-t) = delta / M by bisection with 60 digits, as useful time."""
    with decimal.localcontext() as context:
        context.prec = 60
        wanted = decimal.Decimal(checkpoint_s) / decimal.Decimal(mtbf_s)
        low, high = wanted, wanted + 2 * wanted.sqrt() + 1
        for _ in range(150):
            t = (low + high) / 2
            low, high = (low, t) if t - 1 + (-t).exp() > wanted else (t, high)
        return float((1 - (-low).exp()) * decimal.Decimal(mtbf_s))


@pytest.mark.parametrize("checkpoint_s", [1e-9, 1e-3, 1.0, 600.0, 1e5])
@pytest.mark.parametrize("mtbf_s", [1e-2, 3600.0, 1e7])
def test_the_exact_optimum_has_all_digits(checkpoint_s, mtbf_s):
    assert exact(checkpoint_s, mtbf_s) == pytest.approx(exact_in_decimals(checkpoint_s, mtbf_s), rel=1e-14)


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0, 3.0])
def test_the_exact_optimum_is_that_of_lambert(share):
    assert exact(share * 50, 50.0) == pytest.approx(50 * (1 + lambertw(-math.exp(-1 - share)).real), rel=1e-12)


def test_the_formulas_of_young_and_daly():
    assert young(5.0, 3600.0) == pytest.approx(189.7366596)
    assert daly_first(5.0, 3600.0, 400.0) == 195.0
    assert daly_higher(5.0, 3600.0) == pytest.approx(exact(5.0, 3600.0), rel=1e-6)
    assert (daly_higher(100.0, 50.0), daly_first(100.0, 50.0)) == (50.0, 0.0)


TIMES = st.floats(1e-3, 1e4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(TIMES, TIMES, st.floats(0.0, 0.95), st.floats(0.0, 100.0), st.floats(1.0, 1e4), st.floats(1.0, 4.0))
def test_no_interval_of_a_grid_that_meets_the_target_is_better(pause, mtbf, rho, restart, target, longer):
    if max(pause, restart) > 400 * mtbf:
        return
    problem = CheckpointInterval(
        checkpoint_s=pause,
        mtbf_s=mtbf,
        restart_s=restart,
        utilisation=rho,
        recovery_target_s=target,
        complete_s=pause * longer,
    )
    plan = solve(problem)
    grid = np.geomspace(pause * longer, 1e9 * pause, 4001).tolist()
    meets = [t for t in grid if worst_recovery_s(problem, t) <= target]
    verdict = verify_plan(problem, plan, gap=plan.gap)
    assert (verdict.violations, verdict.not_checked) == ((), ())
    if plan.status is Status.INFEASIBLE:
        assert verdict.checked[0].startswith("the infeasibility: the shortest recovery is")
        # a target of just the restart is missed by what float64 cannot add to it
        assert not any(worst_recovery_s(problem, t) <= target * (1 - 1e-12) for t in grid)
        assert plan.worst_recovery_s <= min(worst_recovery_s(problem, t) for t in grid) * (1 + 1e-12)
        return
    if plan.status is Status.UNKNOWN:  # no float64 holds it
        assert slowdown(exact(pause, mtbf), pause, mtbf, restart) == math.inf or plan.interval_s is None
        return
    assert plan.status is Status.OPTIMAL
    assert plan.interval_s >= pause * longer * (1 - 1e-12)
    assert plan.worst_recovery_s <= target * (1 + 1e-9)
    costs = [slowdown(t - pause, pause, mtbf, restart) for t in meets if t > pause]
    assert plan.bound <= min(costs, default=math.inf)
    assert plan.objective <= min(costs, default=math.inf) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"objective": 1.001}, "says objective 1.001"),
        ({"bound": 2.0}, "which the recomputed objective"),
        ({"interval_s": 1e-3}, "a checkpoint must be complete"),
        ({"interval_s": 5000.0, "useful_s": 4999.0}, "a failure may take"),
        ({"useful_s": 7.0}, "says useful_s 7.0"),
        ({"status": Status.INFEASIBLE}, "says infeasible"),
    ],
)
def test_false_claims_about_an_interval_are_found(changes, text):
    problem = CheckpointInterval(
        checkpoint_s=1.0, mtbf_s=86_400.0, restart_s=30.0, utilisation=0.6, recovery_target_s=180.0
    )
    plan = solve(problem)
    assert plan.note == "the recovery target decides"
    assert verify_plan(problem, plan).not_checked == ()
    assert text in " ".join(map(str, verify_plan(problem, replace(plan, **changes)).violations))
    higher = verify_plan(problem, replace(plan, status=Status.FEASIBLE, bound=plan.bound + 1e-7))
    assert higher.not_checked or not higher.ok


def test_without_pause_the_target_gives_the_formula_of_the_streams():
    rho, restart, target = 0.6, 30.0, 180.0
    pause = 1e-9
    problem = CheckpointInterval(
        checkpoint_s=pause, mtbf_s=1e6, restart_s=restart, utilisation=rho, recovery_target_s=target
    )
    assert allowed_intervals(problem)[1] == pytest.approx((target - restart) * (1 - rho) / rho - restart)


def test_an_impossible_target_gives_the_best_that_is_possible():
    problem = CheckpointInterval(checkpoint_s=1, mtbf_s=1e5, restart_s=30, utilisation=0.6, recovery_target_s=75.5)
    plan = solve(problem)
    assert plan.status is Status.INFEASIBLE
    assert plan.interval_s == quickest_recovery_interval_s(problem)
    around = [worst_recovery_s(problem, plan.interval_s * factor) for factor in (0.99, 1.01)]
    assert 75.5 < plan.worst_recovery_s < min(around)
    assert f"{plan.worst_recovery_s:.6g} s" in plan.note


def test_checkpoints_that_leave_too_little_time_for_a_stream_are_not_called_optimal():
    plan = solve(CheckpointInterval(checkpoint_s=100, mtbf_s=100, utilisation=0.9))
    assert plan.status is Status.FEASIBLE
    assert plan.interval_s > 1000
    assert plan.bound < plan.objective


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"checkpoint_s": 0.0}, "checkpoint_s = 0.0: must be a number above 0"),
        ({"mtbf_s": math.nan}, "mtbf_s = nan"),
        ({"restart_s": -1.0}, "restart_s = -1.0"),
        ({"utilisation": 1.0}, "utilisation = 1.0: must be at least 0 and below 1"),
        ({"recovery_target_s": 10.0}, "utilisation: is missing"),
        ({"complete_s": 0.5}, "complete_s = 0.5: must be at least the pause"),
        ({"restart_s": 1e9}, "must be at most 500 times the mtbf"),
    ],
)
def test_faults_are_named(fields, message):
    with pytest.raises(InputError) as raised:
        CheckpointInterval(**({"checkpoint_s": 1.0, "mtbf_s": 3600.0} | fields))
    assert message in str(raised.value)


@pytest.mark.parametrize("name", ["worst_recovery_s", "mean_recovery_s"])
def test_a_false_recovery_is_found(name):
    problem = CheckpointInterval(
        checkpoint_s=1.0, mtbf_s=86_400.0, restart_s=30.0, utilisation=0.6, recovery_target_s=180.0
    )
    plan = solve(problem)
    assert verify_plan(problem, plan).ok
    found = verify_plan(problem, replace(plan, **{name: 1.0})).violations
    assert [one.text.split(",")[0] for one in found] == [f"says {name} 1.0"]


def test_an_interval_whose_slowdown_no_float64_holds_has_no_bound():
    """At a utilisation of 0.99 the work keeps up from 59 s on, with a failure every 2 ms."""
    plan = solve(CheckpointInterval(checkpoint_s=0.59, mtbf_s=0.0019, utilisation=0.99))
    assert (plan.status, plan.objective, plan.bound) == (Status.UNKNOWN, None, None)
    assert "no float64 holds" in plan.note


@pytest.mark.parametrize("target_s", [30.0, 180.0])
@pytest.mark.parametrize(
    "name",
    ["useful_s", "worst_recovery_s", "mean_recovery_s", "least_interval_s", "most_interval_s", "mean_replay_records"],
)
def test_whatever_a_plan_says_of_its_interval_is_checked(name, target_s):
    problem = CheckpointInterval(
        checkpoint_s=1.0, mtbf_s=3600.0, restart_s=10.0, utilisation=0.5, recovery_target_s=target_s, rate_per_s=50.0
    )
    plan = solve(problem)
    assert (plan.status is Status.INFEASIBLE) == (target_s == 30.0)
    assert verify_plan(problem, plan).ok
    said = getattr(plan, name)
    if said is not None:
        assert not verify_plan(problem, replace(plan, **{name: said + 1.0})).ok


def test_an_interval_of_nothing_is_a_violation():
    problem = CheckpointInterval(checkpoint_s=1.0, mtbf_s=3600.0, utilisation=0.5)
    for interval_s in (0.0, -5.0):
        assert not verify_plan(problem, replace(solve(problem), interval_s=interval_s)).ok
