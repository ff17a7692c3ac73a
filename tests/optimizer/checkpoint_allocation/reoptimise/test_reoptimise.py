"""A running plan improved after one host changed, and prices as the certificate of a bound."""

import dataclasses

import numpy as np
import pytest
from work_limits import as_much_work_as_in

from models.errors import InputError
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.checkpoints import verify_checkpoints


@pytest.fixture(name="running", scope="module")
def _running():
    random = np.random.default_rng(2)
    load = random.lognormal(0, 0.5, 600)
    cost = (random.uniform(-1, 1, (600, 20)) + 0.3 * random.normal(size=20)) * load[:, None]
    problem = CheckpointAllocation(cost=cost, load=load, capacity=np.full(20, 1.1 * load.sum() / 20))
    return problem, solved(problem)


def solved(problem, seconds=0.5):
    """Solve with the work of so many seconds: no clock decides when the search ends."""
    with as_much_work_as_in(seconds) as limit_s:
        return solve(problem, time_limit_s=limit_s)


def changed(problem, plan, host, share, max_moves):
    capacity = problem.capacity.copy()
    capacity[host] *= share
    return dataclasses.replace(problem, capacity=capacity, current=plan.assignment, max_moves=max_moves)


@pytest.mark.parametrize(
    ("host", "share"), [(3, 0.7), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((11, 1.3), (0, 0.9)))]
)
def test_a_changed_host_is_answered_with_few_moves_and_a_bound_that_counts_them(running, host, share):
    problem, plan = running
    after = changed(problem, plan, host, share, 30)
    again = solve(after, hint=plan)
    assert again.note == "the running plan improved with few moves"
    assert after.moves(again.assignment) <= 30
    verdict = verify_checkpoints(after, again)
    assert verdict.ok
    assert verdict.checked[-1].startswith("the bound, which the dual prices of the plan")
    fresh = solved(dataclasses.replace(after, current=None, max_moves=None), 0.05)
    without = lagrangian_bound(after, again.prices)  # for any number of moves
    assert without <= fresh.objective
    assert without <= again.bound <= again.objective
    assert again.gap < 0.01


def test_the_same_change_is_answered_the_same_again(running):
    problem, plan = running
    after = changed(problem, plan, 11, 1.3, 30)
    again, repeated = (solve(after, hint=plan) for _ in range(2))
    assert (repeated.objective, repeated.assignment.tobytes()) == (again.objective, again.assignment.tobytes())


def test_without_moves_a_plan_that_still_fits_stays_and_one_that_does_not_is_not_called_feasible(running):
    problem, plan = running
    stays = solve(changed(problem, plan, 4, 1.5, 0), hint=plan)
    assert stays.assignment.tolist() == plan.assignment.tolist()
    full = int(np.argmax(problem.node_loads(plan.assignment)))
    with as_much_work_as_in(0.5) as seconds:
        broken = solve(changed(problem, plan, full, 0.5, 0), hint=plan, time_limit_s=seconds)
    assert broken.status in (Status.INFEASIBLE, Status.UNKNOWN)


def test_prices_prove_the_bound_of_a_plan_and_no_higher_one(running):
    problem, plan = running
    assert verify_checkpoints(problem, plan).not_checked == ()
    value = lagrangian_bound(problem, plan.prices)
    assert plan.bound == pytest.approx(value, rel=1e-12)
    higher = dataclasses.replace(plan, bound=(plan.bound + plan.objective) / 2)
    proved = f"the bound, which takes a solver: the dual prices of the plan prove {value:.12g}"
    assert verify_checkpoints(problem, higher).not_checked == (proved,)
    for prices in (-plan.prices, plan.prices[:-1], np.full(20, np.nan), np.zeros(20)):
        claimed = dataclasses.replace(plan, prices=prices)
        (left,) = verify_checkpoints(problem, claimed).not_checked
        assert left.startswith("the bound, which takes a solver: the cheapest allowed nodes prove")


def test_prices_of_a_hint_are_checked(running):
    problem, plan = running
    with pytest.raises(InputError, match=r"hint\.prices"):
        solve(problem, hint=dataclasses.replace(plan, prices=plan.prices[:-1]))
