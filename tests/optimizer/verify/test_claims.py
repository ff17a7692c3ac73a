"""The one checker of claims: each false claim is named, for problems to be minimised and to be maximised."""

import math
from typing import Any

import pytest

from models.planning.solution import Solution, Status
from optimizer.verify.claims import GAP, Better, Evidence, Outcome, Recomputed, false_claims, verdict_of


def claims(
    objective: float | None, *, recomputed: float | None = 10.0, sign: int = -1, gap: float | None = None, **fields: Any
) -> list[str]:
    plan = Solution(**({"status": Status.FEASIBLE, "objective": objective} | fields))
    return false_claims(plan, gap, Recomputed([], recomputed, sign))


def test_a_plan_that_is_right_claims_nothing_false():
    assert claims(10.0, status=Status.OPTIMAL, bound=10.0, gap=0.0) == []
    assert claims(10.0, bound=8.0, gap=0.25) == []
    assert claims(10.0, bound=12.0, sign=1) == []


def test_a_hair_is_no_difference():
    assert claims(10.0 * (1 + 1e-10), bound=10.0 * (1 + 1e-10)) == []


@pytest.mark.parametrize("value", [9.0, 11.0, -10.0])
def test_an_objective_must_be_the_recomputed_one(value):
    assert claims(value) == [f"says objective {value!r}, recomputed 10.0"]


@pytest.mark.parametrize(("sign", "bound"), [(-1, 11.0), (1, 9.0)])
def test_a_bound_may_not_be_passed_by_the_own_objective(sign, bound):
    assert claims(10.0, bound=bound, sign=sign) == [f"says bound {bound!r}, which the recomputed objective 10.0 passes"]


def test_without_an_answer_there_is_no_objective_to_compare_with():
    assert claims(10.0, recomputed=None, bound=99.0) == ["says feasible without an answer"]


def test_an_answer_without_an_objective_is_named():
    assert claims(None) == ["says feasible without an objective"]


def test_optimal_is_a_claim_about_the_gap():
    assert claims(10.0, status=Status.OPTIMAL, bound=9.0)[0].startswith("says optimal with gap 0.111")


def test_feasible_is_true_of_an_optimal_answer_as_well():
    """A weaker claim is not a false one: who reads the plan may still see from its gap that nothing is better."""
    assert claims(10.0, status=Status.FEASIBLE, bound=10.0, gap=0.0) == []


def test_a_gap_must_be_that_of_objective_and_bound():
    assert claims(10.0, bound=8.0, gap=0.1) == ["says gap 0.1, of its objective and bound it is 0.25"]
    assert claims(10.0, gap=0.1) == ["says gap 0.1 without an objective or a bound"]
    assert claims(10.0, bound=8.0, gap=math.inf)


def test_a_better_answer_refutes_a_bound_and_is_the_counterexample():
    known = Recomputed([], 10.0, -1, Evidence(7.0, "sums prove", Better(7.5, (1.0, 2.0))))
    verdict = verdict_of(Solution(status=Status.FEASIBLE, objective=10.0, bound=9.0), None, known)
    assert not verdict.ok
    assert verdict.counterexample == (1.0, 2.0)
    assert "says bound 9.0, but an answer that keeps every rule reaches 7.5" in verdict.violations[0].text


def test_a_bound_that_evidence_does_not_reach_is_left_open():
    known = Recomputed([], 10.0, -1, Evidence(7.0, "sums prove"))
    verdict = verdict_of(Solution(status=Status.FEASIBLE, objective=10.0, bound=9.0), None, known)
    assert (verdict.ok, verdict.holds) == (True, None)
    assert verdict.not_checked == ("the bound, which takes a solver: sums prove 7",)
    lower = verdict_of(Solution(status=Status.FEASIBLE, objective=10.0, bound=6.0), None, known)
    assert lower.holds


def test_a_verifier_that_judged_the_bound_itself_has_its_outcome_in_the_verdict():
    outcome = Outcome(("a",), ("b",)).proves("c").leaves("d")
    known = Recomputed([], 10.0, -1, outcome=outcome, recomputed=("the cost", GAP))
    plan = Solution(status=Status.FEASIBLE, objective=10.0, bound=8.0)
    assert verdict_of(plan, None, known).checked == ("the cost", "a", "c")
    verdict = verdict_of(plan, 0.25, known)
    assert (verdict.checked, verdict.not_checked) == (("the cost", "the gap", "a", "c"), ("b", "d"))


def test_of_an_answer_of_the_wrong_shape_no_claim_is_judged():
    known = Recomputed([], None, -1, outcome=Outcome(), judged=False)
    assert verdict_of(Solution(status=Status.OPTIMAL), 0.5, known).ok
