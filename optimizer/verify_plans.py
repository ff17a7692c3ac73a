"""Checking selections, migration steps and placements without any solver: what is broken, and false claims.

All comparisons are of exact sums. A bound is proven here where the plan carries its proof, or where a price does it.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from models.migration_steps import MigrationSteps, StepsPlan
from models.placement import Placement, PlacementPlan
from models.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan, fits
from models.solution import OPTIMAL_GAP, Solution, Status
from optimizer.edge_colouring import busiest
from optimizer.verify import GAP_TOLERANCE, VALUE_TOLERANCE, Verdict, Violation
from optimizer.verify_placement import verify_placement

_MOST_LISTED = 20


def verify_plan(
    problem: OperatorSelection | QuerySelection | MigrationSteps | Placement,
    plan: Solution,
    *,
    gap: float | None = None,
) -> Verdict:
    """The verdict on a plan of the problem's kind; `gap` is what a file claims beside objective and bound."""
    if isinstance(problem, OperatorSelection):
        assert isinstance(plan, SelectionPlan)
        return _verdict(plan, gap, *_selection(problem, plan))
    if isinstance(problem, QuerySelection):
        assert isinstance(plan, QueryPlan)
        return _verdict(plan, gap, *_queries(problem, plan))
    if isinstance(problem, Placement):
        assert isinstance(plan, PlacementPlan)
        return verify_placement(problem, plan, gap=gap)
    assert isinstance(plan, StepsPlan)
    return _verdict(plan, gap, *_steps(problem, plan))


def _verdict(
    plan: Solution, gap: float | None, found: list[Violation], objective: float | None, proof: float | None, sign: int
) -> Verdict:
    """The verdict from broken rules, the recomputed objective, and a bound proven here (None: not).

    `sign` is 1 where more is better and -1 where less is.
    """
    broken = bool(found)
    claims = _claims(plan, objective, gap, broken=broken, sign=sign)
    proven = plan.bound is not None and proof is not None and sign * (plan.bound - proof) >= -_slack(proof)
    answered = objective is not None
    checked = ["every constraint", "the objective"] if answered else []
    checked += ["the gap"] if answered and gap is not None else []
    checked += ["the bound, which prices or the busiest host prove"] if proven else []
    left = [] if proven or plan.bound is None else ["the bound, which takes a solver"]
    return Verdict(objective, tuple(found + [Violation("claim", text) for text in claims]), tuple(checked), tuple(left))


def _slack(value: float) -> float:
    return VALUE_TOLERANCE * abs(value)


def _claims(plan: Solution, objective: float | None, gap: float | None, *, broken: bool, sign: int) -> list[str]:
    found = []
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        if objective is None:
            found.append(f"says {plan.status} without an answer")
        if plan.objective is None:
            found.append(f"says {plan.status} without an objective")
    elif plan.status is Status.INFEASIBLE:
        found.append("says infeasible, but to choose or to do nothing at once always keeps the rules")
    if plan.objective is not None and objective is not None and abs(plan.objective - objective) > _slack(objective):
        found.append(f"says objective {plan.objective!r}, recomputed {objective!r}")
    passed = plan.bound is not None and objective is not None and sign * (plan.bound - objective) < -_slack(objective)
    if passed and not broken:
        found.append(f"says bound {plan.bound!r}, which the recomputed objective {objective!r} passes")
    if plan.status is Status.OPTIMAL and (plan.gap is None or not plan.gap <= OPTIMAL_GAP):
        found.append(f"says optimal with gap {plan.gap}, at most {OPTIMAL_GAP:g} is a proof")
    if gap is not None and (plan.gap is None or abs(gap - plan.gap) > max(GAP_TOLERANCE * plan.gap, 1e-12)):
        found.append(f"says gap {gap!r}, of its objective and bound it is {plan.gap!r}")
    return found


def _selection(
    problem: OperatorSelection, plan: SelectionPlan
) -> tuple[list[Violation], float | None, float | None, int]:
    proof = None if plan.price is None else dantzig_bound(problem, plan.price)
    level = plan.level
    if level is None:
        return [], None, proof, 1
    if level.shape != (problem.n_operators,) or ((level < 0) | (level > problem.n_levels)).any():
        rule = f"must have a level 0 .. {problem.n_levels} for each of {problem.n_operators} operators"
        return [Violation("level", rule)], None, proof, 1
    wrong = np.flatnonzero(~problem.allowed[np.arange(len(level)), level])[:_MOST_LISTED].tolist()
    found = [Violation("level", f"operator {o} may not have level {level[o]}") for o in wrong]
    if not problem.fits(level):
        found.append(Violation("capacity", f"takes {problem.used(level)!r}, the capacity is {problem.capacity!r}"))
    return found, problem.objective(level), proof, 1


def dantzig_bound(problem: OperatorSelection, price: float) -> float:
    """The bound of a price of weight: price * limit + what every operator gains at it, rounded up."""
    price = max(price, 0.0)
    reduced = [
        max(
            (Fraction(v) - Fraction(price) * Fraction(w) for v, w, may in zip(vs, ws, ok, strict=True) if may),
            default=Fraction(0),
        )
        for vs, ws, ok in zip(
            problem.level_values.tolist(), problem.level_weights.tolist(), problem.allowed.tolist(), strict=True
        )
    ]
    exact = Fraction(price) * Fraction(problem.limit) + sum(reduced, Fraction(0))
    return math.nextafter(float(exact), math.inf)


def _queries(problem: QuerySelection, plan: QueryPlan) -> tuple[list[Violation], float | None, float | None, int]:
    proof = None if plan.split is None or len(plan.split) != len(problem.uses) else split_bound(problem, plan)
    queries, operators = plan.queries, plan.operators
    if queries is None or operators is None:
        return [], None, proof, 1
    if queries.shape != (problem.n_queries,) or operators.shape != (problem.n_operators,):
        rule = f"must have an entry for each of {problem.n_queries} queries and {problem.n_operators} operators"
        return [Violation("shape", rule)], None, proof, 1
    wrong = np.flatnonzero(queries & ~problem.whole(operators))[:_MOST_LISTED].tolist()
    found = [Violation("query", f"query {q} is chosen without all its operators") for q in wrong]
    if not problem.fits(operators):
        used = math.fsum(problem.weight[operators].tolist())
        found.append(Violation("capacity", f"takes {used!r}, the capacity is {problem.capacity!r}"))
    return found, problem.objective(queries), proof, 1


def split_bound(problem: QuerySelection, plan: QueryPlan) -> float:
    """The bound that the shares of a plan prove, rounded up: for each query what is not shared, and a price.

    The price is the highest of what an operator carries for its weight; one without weight must carry nothing, or what
    it carries is paid as well.
    """
    assert plan.split is not None
    alone = [fits(problem.weight[problem.operators_of(q)], problem.limit) for q in range(problem.n_queries)]
    left = [Fraction(v) if may else Fraction(0) for v, may in zip(problem.value.tolist(), alone, strict=True)]
    carried = [Fraction(0)] * problem.n_operators
    for (q, o), share in zip(problem.uses.tolist(), plan.split.tolist(), strict=True):
        if share > 0:
            left[q] -= Fraction(share)
            carried[o] += Fraction(share)
    price, extra = Fraction(0), Fraction(0)
    for amount, weight in zip(carried, problem.weight.tolist(), strict=True):
        if weight > 0:
            price = max(price, amount / Fraction(weight))
        else:
            extra += amount
    exact = price * Fraction(problem.limit) + sum((each for each in left if each > 0), extra)
    return math.nextafter(float(exact), math.inf)


def _steps(problem: MigrationSteps, plan: StepsPlan) -> tuple[list[Violation], float | None, float | None, int]:
    durations = problem.durations_s
    weights = np.ones(problem.n_moves) if durations is None else durations
    proof = busiest(problem.ends, weights)[0]
    proof = float(math.ceil(proof)) if durations is None else proof
    at = plan.step if durations is None else plan.start_s
    if at is None:
        return [], None, proof, -1
    if at.shape != (problem.n_moves,) or (at < 0).any():
        what = "step" if durations is None else "instant"
        return (
            [Violation("shape", f"must have a {what}, at least 0, for each of {problem.n_moves} moves")],
            None,
            proof,
            -1,
        )
    found: list[Violation] = []
    ends = at + weights
    for node in range(len(problem.degrees)):
        here = np.flatnonzero((problem.ends == node).any(axis=1))
        here = here[np.argsort(at[here], kind="stable")]
        slack = 1e-9 * float(ends[here].max(initial=0.0))
        for first, second in zip(here[:-1].tolist(), here[1:].tolist(), strict=True):
            if ends[first] > at[second] + slack and len(found) < _MOST_LISTED:
                found.append(Violation("host", f"moves {first} and {second} share a host and overlap"))
    return found, float(ends.max(initial=0.0)), proof, -1
