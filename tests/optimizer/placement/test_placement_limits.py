"""What the clock may stop, and the quick look before hosts are matched."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from small_placements import placements
from work_limits import clock_that_strikes_after

from models.planning.placement import Placement
from models.planning.solution import Status
from optimizer.placement import best_fit, solve
from optimizer.placement.search import start
from optimizer.verify import placement_bounds as bounds
from optimizer.verify.placement_bounds import impossible
from optimizer.verify.plans import verify_plan


@settings(max_examples=150, deadline=None, derandomize=True)
@given(placements(most=8, hosts=4))
def test_a_look_at_the_roomiest_hosts_changes_no_reason(problem):
    quick = impossible(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_ROOMIEST", 0)
        plain = impossible(problem)
    assert (quick is None) == (plain is None)
    if quick is not None and plain is not None:
        assert (quick.value, quick.reason, quick.instances.tolist()) == (
            plain.value,
            plain.reason,
            plain.instances.tolist(),
        )


def drawn() -> Placement:
    draw = np.random.default_rng(0)
    n = 600
    return Placement(
        draw.integers(1, 20, n), np.full(80, 100), operator=np.arange(n) // 2, colour=draw.integers(0, 9, n)
    )


def test_after_the_deadline_nothing_more_is_placed():
    problem = drawn()
    assert (best_fit(problem, deadline=0.0) == -1).all()
    assert (best_fit(problem, deadline=time.monotonic() + 600) == best_fit(problem)).all()
    everywhere = np.ones(80, dtype=np.bool_)
    assert start(problem, 9, everywhere, None, 0.0) is None
    assert start(problem, 9, everywhere, None) is not None


@pytest.mark.parametrize("readings", [0, 3, 12])
@pytest.mark.parametrize("goal", ["colours", "hosts"])
def test_a_clock_that_strikes_soon_leaves_a_true_answer_that_says_so(goal, readings):
    base = drawn()
    problem = Placement(base.cpu, base.host_cpu, operator=base.operator, colour=base.colour, goal=goal)
    with clock_that_strikes_after(readings):
        plan = solve(problem)
    assert plan.status in (Status.UNKNOWN, Status.FEASIBLE)
    assert "time limit struck" in plan.note
    assert verify_plan(problem, plan).ok
