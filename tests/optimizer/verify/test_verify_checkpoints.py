"""The verifier catches plans broken on purpose, one kind of break each; oracle for bounds: brute force."""

import dataclasses
import itertools

import numpy as np
import pytest

from analysis.usable import EXPECTED
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status
from optimizer.checkpoint_allocation import METHODS, solve
from optimizer.verify import checkpoints
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.constraints import constraint_violations


@pytest.fixture(name="problem")
def _problem():
    return CheckpointAllocation(
        cost=[[1.0, 2.0, 3.0], [2.0, 1.0, 5.0], [4.0, 4.0, 1.0]], load=[1, 2, 1.5], capacity=[2, 2, 3],
        capacity_min=[0, 0.5, 0], forbidden=[[0, 0]], anti_affinity=[[1, 2]], current=[1, 0, 2], max_moves=1,
    )  # fmt: skip


def test_a_good_plan_passes_for_every_method(problem):
    for method in ("exact", "sensitive-first", "even"):
        plan = solve(problem, method=method)
        verdict = verify_checkpoints(problem, plan)
        assert verdict.ok == (not plan.violations)
        assert verdict.objective == plan.objective


def test_the_methods_are_those_of_the_solver_and_of_the_command():
    assert set(checkpoints.METHODS) == {*METHODS, EXPECTED}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"method": "best"}, "says method 'best', which is none of baseline, even, sensitive-first, exact, "),
        ({"method": "even", "prices": np.zeros(2)}, "says method 'even', which has no prices"),
        ({"method": "baseline", "multipliers": np.zeros(2)}, "says method 'baseline', which has no multipliers"),
        ({"method": "baseline", "bound": 3.0}, "says method 'baseline', which proves 2.0 here, and bound 3.0"),
    ],
)
def test_a_method_that_cannot_claim_what_the_plan_claims_is_told(changes, text):
    apart = CheckpointAllocation(cost=[[1.0, 2.0], [1.0, 3.0]], load=[1, 1], anti_affinity=[[0, 1]])
    plan = CheckpointPlan(status=Status.FEASIBLE, objective=3.0, bound=2.0, assignment=np.array([1, 0]))
    assert verify_checkpoints(apart, dataclasses.replace(plan, method="baseline")).ok
    verdict = verify_checkpoints(apart, dataclasses.replace(plan, **changes))
    assert [one.text.startswith(text) for one in verdict.violations] == [True]


@pytest.mark.parametrize(
    ("assignment", "kind"),
    [
        ([1, -1, 2], "unassigned"), ([1, 3, 2], "range"), ([1, -7, 2], "range"), ([0, 1, 2], "forbidden"),
        ([1, 2, 2], "anti_affinity"), ([1, 1, 2], "capacity"), ([2, 0, 2], "capacity_min"), ([2, 1, 0], "max_moves"),
        ([1, 0], "shape"),
    ],
)  # fmt: skip
def test_each_kind_of_broken_assignment_is_caught(problem, assignment, kind):
    plan = CheckpointPlan(status=Status.UNKNOWN, assignment=np.array(assignment))
    assert kind in [violation.kind for violation in verify_checkpoints(problem, plan).violations]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": 4.5}, "says objective 4.5, recomputed 5.0"),
        ({"objective": None}, "without an objective"),
        ({"objective": float("nan")}, "objective is nan"),
        ({"bound": 5.5}, "above the recomputed objective"),
        ({"bound": 4.0}, "says optimal with gap 0.25"),
        ({"bound": None}, "says optimal with gap None"),
        ({"status": Status.INFEASIBLE}, "says infeasible with an assignment that breaks nothing"),
        ({"assignment": None}, "says optimal without an assignment"),
    ],
)
def test_each_kind_of_false_claim_is_caught(problem, changes, words):
    plan = solve(problem)
    assert (plan.status, plan.objective) == (Status.OPTIMAL, 5.0)
    violations = verify_checkpoints(problem, dataclasses.replace(plan, **changes)).violations
    assert any(violation.kind == "claim" and words in violation.text for violation in violations), violations


def brute_force(problem):
    """The least cost of all assignments that keep every constraint; None without any."""
    every = map(np.array, itertools.product(range(problem.n_nodes), repeat=problem.n_checkpoints))
    return min((problem.objective(one) for one in every if not constraint_violations(problem, one)), default=None)


def claims(problem, plan, **more):
    return [one.text for one in verify_checkpoints(problem, plan, **more).violations if one.kind == "claim"]


@pytest.mark.parametrize("gap", [0.5, 1e-5, -1.0, float("inf"), float("nan")])
def test_a_gap_that_is_not_that_of_objective_and_bound_is_caught(problem, gap):
    assert any("says gap" in text for text in claims(problem, solve(problem), gap=gap))


def test_a_gap_is_compared_to_one_in_a_million():
    problem = CheckpointAllocation(cost=[[3.0]], load=[1])
    plan = CheckpointPlan(status=Status.FEASIBLE, objective=3.0, bound=2.0, assignment=np.array([0]))
    assert claims(problem, plan, gap=0.5 * (1 + 1e-7)) == []
    assert len(claims(problem, plan, gap=0.5 * (1 + 1e-5))) == 1
    assert len(claims(problem, dataclasses.replace(plan, bound=None), gap=0.5)) == 1


def test_a_bound_above_the_cheapest_nodes_together_is_refuted():
    problem = CheckpointAllocation(cost=[[1, 2], [2, 1]], load=[1, 1])
    dear = CheckpointPlan(status=Status.OPTIMAL, objective=4.0, bound=4.0, assignment=np.array([1, 0]))
    verdict = verify_checkpoints(problem, dear, gap=0.0)
    assert not verdict.holds
    assert "costs 2.0 (each checkpoint on its cheapest allowed node)" in verdict.violations[0].text
    assert verdict.counterexample == (0, 1)
    assert verdict.not_checked == ()


def test_a_bound_is_refuted_by_a_repair_where_the_cheapest_nodes_overflow():
    problem = CheckpointAllocation(cost=[[0, 9, 9], [0, 1, 9], [0, 2, 3]], load=[1, 1, 1], capacity=[1, 1, 1])
    dear = CheckpointPlan(status=Status.OPTIMAL, objective=12.0, bound=12.0, assignment=np.array([1, 0, 2]))
    verdict = verify_checkpoints(problem, dear)
    assert (verdict.counterexample, brute_force(problem)) == ((0, 1, 2), 4.0)


def test_a_bound_is_refuted_by_one_move_from_the_plan_itself():
    problem = CheckpointAllocation(cost=[[0, 5], [0, 5]], load=[1, 1], capacity_min=[1, 1], current=[1, 1], max_moves=1)
    dear = CheckpointPlan(status=Status.OPTIMAL, objective=5.0, bound=5.0, assignment=np.array([0, 1]))
    assert verify_checkpoints(problem, dear).ok
    free = CheckpointAllocation(cost=[[0, 5], [0, 5]], load=[1, 1], capacity_min=[1, 0])
    assert verify_checkpoints(free, dear).counterexample == (0, 0)


def test_infeasible_is_refuted_by_an_assignment_that_keeps_everything(problem):
    said = CheckpointPlan(status=Status.INFEASIBLE)
    verdict = verify_checkpoints(problem, said)
    assert verdict.holds is False
    assert constraint_violations(problem, np.array(verdict.counterexample)) == []


def test_without_an_assignment_nothing_holds_and_nothing_is_violated():
    tight = CheckpointAllocation(cost=[[1.0], [1.0]], load=[1, 1], capacity=[1])
    verdict = verify_checkpoints(tight, CheckpointPlan(status=Status.UNKNOWN))
    assert (verdict.ok, verdict.holds, verdict.checked, verdict.not_checked) == (True, None, (), ())


def test_an_infeasibility_that_sums_prove_is_checked():
    tight = CheckpointAllocation(cost=[[1.0], [1.0]], load=[1, 1], capacity=[1])
    verdict = verify_checkpoints(tight, CheckpointPlan(status=Status.INFEASIBLE))
    assert (verdict.holds, verdict.not_checked) == (True, ())
    assert verdict.checked == ("the infeasibility: the total load 2 exceeds the total capacity 1",)


def test_an_infeasibility_of_whole_checkpoints_is_checked_where_all_can_be_tried():
    separate = CheckpointAllocation(cost=np.zeros((3, 2)), load=[2, 2.1, 2], capacity=[3.5, 3.5])
    verdict = verify_checkpoints(separate, CheckpointPlan(status=Status.INFEASIBLE))
    assert verdict.checked == ("the infeasibility: all assignments break something",)


def test_an_infeasibility_that_only_a_solver_could_prove_is_not_checked():
    load = 1 + np.arange(31) / 100
    heavy = CheckpointAllocation(cost=np.zeros((31, 10)), load=load, capacity=[4] * 10)
    verdict = verify_checkpoints(heavy, CheckpointPlan(status=Status.INFEASIBLE))
    assert (verdict.holds, verdict.not_checked) == (None, ("the infeasibility, which takes a solver",))


def test_the_bound_of_a_small_plan_is_checked_by_trying_all(problem):
    verdict = verify_checkpoints(problem, solve(problem), gap=0.0)
    assert (verdict.holds, verdict.not_checked) == (True, ())
    assert verdict.checked[-1].startswith("the bound, which ")


@pytest.mark.parametrize("floored", [False, True])
def test_the_bound_of_a_flow_is_proven_by_its_prices(floored):
    random = np.random.default_rng(2)
    problem = CheckpointAllocation(
        cost=random.random((400, 10)) + np.arange(10) * 0.2, load=np.full(400, 0.1), capacity=np.full(10, 4.25),
        capacity_min=np.full(10, 3.75) if floored else None,
    )  # fmt: skip
    plan = solve(problem)
    assert (plan.status, (plan.prices < 0).any()) == (Status.OPTIMAL, floored)
    verdict = verify_checkpoints(problem, plan)
    assert (verdict.not_checked, verdict.checked[-1]) == ((), "the bound, which the dual prices of the plan prove")
    higher = dataclasses.replace(plan, bound=plan.bound + 1e-3, status=Status.FEASIBLE, objective=plan.objective)
    assert not verify_checkpoints(problem, higher).ok
    without = dataclasses.replace(plan, prices=None)
    assert verify_checkpoints(problem, without).not_checked[0].startswith('the bound, and so "optimal", which takes')


def test_the_bounds_of_few_moves_and_of_anti_affinity_are_proven_without_prices():
    random = np.random.default_rng(7)
    moving = CheckpointAllocation(
        cost=random.random((500, 8)), load=np.ones(500), current=random.integers(0, 8, 500), max_moves=40
    )
    copies = np.repeat(random.random((200, 12)), 3, axis=0)
    pairs = [(3 * k + a, 3 * k + b) for k in range(200) for a, b in ((0, 1), (0, 2), (1, 2))]
    copied = CheckpointAllocation(cost=copies, load=np.ones(600), anti_affinity=pairs)
    for problem, how in ((moving, "the moves that save most"), (copied, "different nodes for copies")):
        verdict = verify_checkpoints(problem, solve(problem))
        assert (verdict.not_checked, verdict.checked[-1]) == ((), f"the bound, which {how} prove")


def test_a_bound_that_the_cheapest_nodes_prove_is_checked():
    problem = CheckpointAllocation(cost=[[1, 2], [2, 1]], load=[1, 1])
    verdict = verify_checkpoints(problem, solve(problem))
    assert verdict.not_checked == ()
    assert verdict.checked[-1] == "the bound, which the cheapest allowed nodes prove"


def random_problem(random):
    j, n = int(random.integers(1, 6)), int(random.integers(1, 4))
    fields = {}
    load = random.integers(1, 5, j)
    if random.random() < 0.7:
        fields["capacity"] = np.full(n, np.ceil(load.sum() / n * random.choice([1.0, 1.3, 2.0])))
    if random.random() < 0.3:
        fields["capacity_min"] = np.full(n, np.floor(load.sum() / n * 0.5))
    if random.random() < 0.4:
        fields |= {"current": random.integers(0, n, j), "max_moves": int(random.integers(0, j + 1))}
    if random.random() < 0.4:
        fields["anti_affinity"] = [(a, b) for a in range(j) for b in range(a) if random.random() < 0.2]
    forbidden = np.argwhere(random.random((j, n)) < 0.15)
    return CheckpointAllocation(cost=random.integers(-5, 20, (j, n)), load=load, forbidden=forbidden, **fields)


def test_only_false_bounds_and_false_infeasibility_are_refuted():
    """Brute force says which claims are false: true ones are never refuted, and most false ones are."""
    random = np.random.default_rng(5)
    false = refuted = 0
    for _ in range(300):
        problem = random_problem(random)
        best = brute_force(problem)
        infeasible = verify_checkpoints(problem, CheckpointPlan(status=Status.INFEASIBLE))
        assert infeasible.ok or best is not None
        if best is None:
            continue
        bounded = CheckpointPlan(status=Status.UNKNOWN, bound=best)
        assert verify_checkpoints(problem, bounded).ok
        verdict = verify_checkpoints(problem, dataclasses.replace(bounded, bound=best + 3))
        false, refuted = false + 2, refuted + (not verdict.ok) + (not infeasible.ok)
        for one in (verdict, infeasible):
            if one.counterexample is not None:
                assert constraint_violations(problem, np.array(one.counterexample)) == []
    assert false > 300
    assert refuted == false  # all are tried


def test_a_value_beside_costs_that_cancel_is_checked_to_its_last_digits():
    cost = np.array([[1e15, 1e15], [-1e15, -1e15], [2.0, 3.0], [2.0, 3.0]])
    problem = CheckpointAllocation(cost=cost, load=[0, 0, 1, 1], capacity=[1, 1])
    plan = solve(problem)
    assert (plan.status, plan.objective, plan.bound) == (Status.OPTIMAL, 5.0, 5.0)
    assert verify_checkpoints(problem, plan).holds
    for false in ({"objective": 5.5}, {"bound": 5.5, "objective": 5.5}, {"bound": 6.0}):
        assert not verify_checkpoints(problem, dataclasses.replace(plan, **false)).ok, false


def test_false_loads_of_nodes_are_found(problem):
    plan = solve(problem)
    loads = problem.node_loads(plan.assignment)
    assert verify_checkpoints(problem, plan, node_loads=loads).ok
    assert not verify_checkpoints(problem, plan, node_loads=loads + np.array([0.0, 0.1, 0.0])).ok
    assert not verify_checkpoints(problem, plan, node_loads=loads[:2]).ok
