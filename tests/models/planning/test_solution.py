"""Status and gap of a solution."""

import math

from models.planning.solution import Solution, Status, is_proven


def test_the_gap_is_relative_to_the_bound():
    assert Solution(status=Status.FEASIBLE, objective=11.0, bound=10.0).gap == 0.1
    assert Solution(status=Status.FEASIBLE, objective=-9.0, bound=-10.0).gap == 0.1


def test_there_is_no_gap_without_a_bound_or_an_objective():
    assert Solution(status=Status.FEASIBLE, objective=1.0).gap is None
    assert Solution(status=Status.UNKNOWN, bound=1.0).gap is None


def test_the_denominator_of_the_gap_is_never_zero():
    assert Solution(status=Status.FEASIBLE, objective=1e-9, bound=0.0).gap == 1.0


def test_a_proof_needs_agreement_relative_to_the_bound_itself():
    assert is_proven(1.0 + 1e-10, 1.0)
    assert not is_proven(2e-12, 1e-12)
    assert is_proven(0.0, 0.0)
    assert not is_proven(1e90, -math.inf)
    assert not is_proven(1.0, math.inf)
