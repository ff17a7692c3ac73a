"""Prices of selections: those of the solver are accepted, others are told."""

from dataclasses import replace

import numpy as np
import pytest

from models.planning.selection import OperatorSelection, QuerySelection
from optimizer.selection import solve
from optimizer.verify.plans import verify_plan


def kinds_of(problem, plan):
    return [one.kind for one in verify_plan(problem, plan).violations]


@pytest.mark.parametrize("seed", range(12))
def test_the_price_of_the_solver_is_accepted_and_others_that_prove_less_are_told(seed):
    draw = np.random.default_rng(seed)
    n = int(draw.integers(5, 30))
    value, weight = draw.random(n), draw.integers(1, 9, n) * (1e44 if seed % 3 == 0 else 0.7)
    uses = [[q, o] for q in range(4) for o in range(n) if o % 4 == q or draw.random() < 0.2]
    capacity = float(weight.sum() * 0.4)
    for problem in (OperatorSelection(value, weight, capacity), QuerySelection(value[:4], weight, uses, capacity)):
        plan = solve(problem)
        assert kinds_of(problem, plan) == []
        assert "price" in kinds_of(problem, replace(plan, price=3 * plan.price + 1 / capacity))


def test_any_price_between_two_sums_of_weights_is_as_good():
    """A capacity of 7.5 is one of 7 where all weights are whole, so that the solver may lower it."""
    problem = OperatorSelection([6.0, 5.0, 4.0], [3.0, 4.0, 4.0], 7.5)
    plan = solve(problem)
    assert plan.used == 7.0
    assert [kinds_of(problem, replace(plan, price=price)) for price in (0.9, 1.0, 1.25, 1.3)] == [
        ["price"], [], [], ["price"],
    ]  # fmt: skip


def test_the_price_of_capacity_proves_a_bound_in_proper_english():
    problem = OperatorSelection([6.0, 5.0], [3.0, 4.0], 3.0)
    assert verify_plan(problem, solve(problem)).checked[-1] == "the bound, which the price of capacity proves"
