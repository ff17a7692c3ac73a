"""Checking selections, steps, placements and intervals without a solver: values recomputed, false claims listed.

All comparisons are of exact sums. A bound is proven here where the plan carries its proof, where a price does it, or
where a problem is small enough that all that is better can be tried; where none of them does, that is said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from models.checked_arrays import LARGEST, BoolArray, FloatArray, IntArray
from models.checkpoint_interval import (
    CheckpointInterval,
    IntervalPlan,
    allowed_intervals,
    exact,
    mean_recovery_s,
    quickest_recovery_interval_s,
    slowdown,
    worst_recovery_s,
)
from models.migration_steps import MigrationSteps, StepsPlan
from models.placement import Placement, PlacementPlan
from models.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan, fits
from models.solution import OPTIMAL_GAP, Solution, Status
from optimizer.edge_colouring import busiest
from optimizer.enumeration import MOST_ORDERED, better_levels, better_queries, colourable, first_of_all_orders
from optimizer.verify import VALUE_TOLERANCE, Verdict, Violation, gap_claims
from optimizer.verify_placement import verify_placement

_MOST_LISTED = 20
_TRIED = 200  # operators, or queries, of which all may be tried
_IN_FRACTIONS = 20_000  # operators up to which a price is proven in fractions
_ROUNDING = 1e-12  # relative: more than float64 adds to a sum of products, or to a slowdown

Problem = OperatorSelection | QuerySelection | MigrationSteps | Placement | CheckpointInterval


@dataclass(frozen=True)
class _Looked:
    """What was found: broken rules, the recomputed objective, a bound proven here and how; `no_answer` is a proof that
    there is none. `sign` is 1 where more is better and -1 where less is."""

    found: list[Violation]
    objective: float | None
    sign: int
    proof: float | None = None
    how: str = ""
    no_answer: str = ""


def verify_plan(problem: Problem, plan: Solution, *, gap: float | None = None) -> Verdict:
    """The verdict on a plan of the problem's kind; `gap` is what a file claims beside objective and bound."""
    if isinstance(problem, OperatorSelection):
        assert isinstance(plan, SelectionPlan)
        return _verdict(plan, gap, _selection(problem, plan))
    if isinstance(problem, QuerySelection):
        assert isinstance(plan, QueryPlan)
        return _verdict(plan, gap, _queries(problem, plan))
    if isinstance(problem, Placement):
        assert isinstance(plan, PlacementPlan)
        return verify_placement(problem, plan, gap=gap)
    if isinstance(problem, CheckpointInterval):
        assert isinstance(plan, IntervalPlan)
        return _verdict(plan, gap, _interval(problem, plan))
    assert isinstance(plan, StepsPlan)
    return _verdict(plan, gap, _steps(problem, plan))


def _verdict(plan: Solution, gap: float | None, looked: _Looked) -> Verdict:
    broken = bool(looked.found)
    if plan.status is Status.INFEASIBLE and looked.no_answer:
        return Verdict(None, tuple(looked.found), (f"the infeasibility: {looked.no_answer}",))
    claims = _claims(plan, looked, gap, broken=broken)
    proof = looked.proof
    proof = proof if proof is None or math.isfinite(proof) else None  # what is infinite proves nothing
    proven = plan.bound is not None and proof is not None and looked.sign * (plan.bound - proof) >= -_slack(proof)
    answered = looked.objective is not None
    checked = ["every constraint", "the objective"] if answered else []
    checked += ["the gap"] if answered and gap is not None else []
    checked += [f"the bound, which {looked.how} prove"] if proven else []
    so = ', and so "optimal"' if plan.status is Status.OPTIMAL else ""
    less = f": {looked.how} prove {proof:.12g}" if proof is not None and math.isfinite(proof) else ""
    left = [] if proven or plan.bound is None else [f"the bound{so}, which takes a solver{less}"]
    texts = [Violation("claim", text) for text in claims]
    return Verdict(looked.objective, tuple(looked.found + texts), tuple(checked), tuple(left))


def _slack(value: float) -> float:
    return VALUE_TOLERANCE * abs(value)


def _claims(plan: Solution, looked: _Looked, gap: float | None, *, broken: bool) -> list[str]:
    found = []
    objective, sign = looked.objective, looked.sign
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
    return found + gap_claims(plan, gap)


def _selection(problem: OperatorSelection, plan: SelectionPlan) -> _Looked:
    proof, how = _proof_of_levels(problem, plan)
    level = plan.level
    if level is None:
        return _Looked([], None, 1, proof, how)
    if level.shape != (problem.n_operators,) or ((level < 0) | (level > problem.n_levels)).any():
        rule = f"must have a level 0 .. {problem.n_levels} for each of {problem.n_operators} operators"
        return _Looked([Violation("level", rule)], None, 1, proof, how)
    wrong = np.flatnonzero(~problem.allowed[np.arange(len(level)), level])[:_MOST_LISTED].tolist()
    found = [Violation("level", f"operator {o} may not have level {level[o]}") for o in wrong]
    if not problem.fits(level):
        found.append(Violation("capacity", f"takes {problem.used(level)!r}, the capacity is {problem.capacity!r}"))
    found += _used(plan.used, problem.used(level))
    return _Looked(found, problem.objective(level), 1, proof, how)


def _used(said: float | None, used: float) -> list[Violation]:
    if said is None or abs(said - used) <= _slack(used):
        return []
    return [Violation("used", f"says that {said!r} is used, recomputed {used!r}")]


def _proof_of_levels(problem: OperatorSelection, plan: SelectionPlan) -> tuple[float | None, str]:
    """The bound of the plan's price, and where that is not enough and all can be tried, what that proves."""
    priced = None if plan.price is None else dantzig_bound(problem, plan.price)
    enough = priced is not None and plan.bound is not None and plan.bound >= priced - _slack(priced)
    if plan.bound is not None and not enough and problem.n_operators <= _TRIED:
        tried = better_levels(problem, plan.bound)
        if tried.decided:
            return max(plan.bound, _value(problem, tried.best)), "all levels that may be worth more"
    return priced, "the price of capacity"


def _value(problem: OperatorSelection | QuerySelection, best: Any) -> float:
    return -math.inf if best is None else problem.objective(best)


def dantzig_bound(problem: OperatorSelection, price: float) -> float:
    """The bound of a price of weight: price * limit + what every operator gains at it, rounded up.

    Of many operators in float64, with an allowance for rounding; of fewer in fractions.
    """
    price = max(price, 0.0)
    if problem.n_operators > _IN_FRACTIONS:
        paid = price * problem.level_weights
        gain = np.where(problem.allowed, problem.level_values - paid, 0.0)
        terms = [price * problem.limit, *np.maximum(gain.max(axis=1), 0.0).tolist()]
        size = math.fsum((problem.level_values + paid)[gain > 0].tolist()) + terms[0]
        return float(math.fsum(terms) + _ROUNDING * size)
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
    return _rounded_up(exact)


def _queries(problem: QuerySelection, plan: QueryPlan) -> _Looked:
    proof, how = _proof_of_queries(problem, plan)
    queries, operators = plan.queries, plan.operators
    if queries is None or operators is None:
        return _Looked([], None, 1, proof, how)
    if queries.shape != (problem.n_queries,) or operators.shape != (problem.n_operators,):
        rule = f"must have an entry for each of {problem.n_queries} queries and {problem.n_operators} operators"
        return _Looked([Violation("shape", rule)], None, 1, proof, how)
    wrong = np.flatnonzero(queries & ~problem.whole(operators))[:_MOST_LISTED].tolist()
    found = [Violation("query", f"query {q} is chosen without all its operators") for q in wrong]
    used = math.fsum(problem.weight[operators].tolist())
    found += _used(plan.used, used)
    if not problem.fits(operators):
        found.append(Violation("capacity", f"takes {used!r}, the capacity is {problem.capacity!r}"))
    single = 0.0 if problem.operator_value is None else math.fsum(problem.operator_value[operators].tolist())
    alone = operators & ~problem.union(queries)  # what was taken alone may also have completed a query
    least = 0.0 if problem.operator_value is None else math.fsum(problem.operator_value[alone].tolist())
    if plan.single_value > single + _slack(single):
        text = f"says {plan.single_value!r} of single operators, all that are chosen are worth {single!r}"
        found.append(Violation("single", text))
    elif plan.single_value < least - _slack(least):
        text = f"says {plan.single_value!r} of single operators, those that no query needs are worth {least!r}"
        found.append(Violation("single", text))
    found += _single_bound(problem, plan, queries)
    if plan.split is not None and len(plan.split) != len(problem.uses):
        found.append(Violation("split", f"says {len(plan.split)} shares, {len(problem.uses)} pairs have one"))
    return _Looked(found, problem.objective(queries), 1, proof, how)


def _single_bound(problem: QuerySelection, plan: QueryPlan, queries: BoolArray) -> list[Violation]:
    """A bound of single operators that they pass, in the plan or, of a small problem, at best."""
    bound, most, what = plan.single_bound, plan.single_value, "it has itself"
    if problem.operator_value is not None and problem.n_operators <= _TRIED:
        taken = problem.union(queries)
        left = max(0.0, math.fsum([problem.capacity, *(-problem.weight[taken]).tolist()]))
        worth, weight = (np.where(taken, 0.0, each) for each in (problem.operator_value, problem.weight))
        rest = OperatorSelection(worth, weight, left, (~taken).astype(int))
        best = better_levels(rest, max(bound, most)).best
        if best is not None and problem.fits(taken | (best > 0)):
            most, what = rest.objective(best), "others have"
    if bound >= most - _slack(most):
        return []
    return [Violation("single", f"says bound {bound!r} of single operators, {what} {most!r}")]


def _proof_of_queries(problem: QuerySelection, plan: QueryPlan) -> tuple[float | None, str]:
    """The bound of the plan's shares, and where that is not enough and all can be tried, what that proves."""
    shared = None if plan.split is None or len(plan.split) != len(problem.uses) else split_bound(problem, plan)
    enough = shared is not None and plan.bound is not None and plan.bound >= shared - _slack(shared)
    if plan.bound is not None and not enough and problem.n_queries <= _TRIED:
        tried = better_queries(problem, plan.bound)
        if tried.decided:
            return max(plan.bound, _value(problem, tried.best)), "all sets that may be worth more"
    return shared, "the shares of queries and the price of capacity"


def _rounded_up(exact: Fraction) -> float:
    """The next float64 above a fraction; infinite where float64 does not reach."""
    try:
        return math.nextafter(float(exact), math.inf)
    except OverflowError:
        return math.inf


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
    return _rounded_up(exact)


def _steps(problem: MigrationSteps, plan: StepsPlan) -> _Looked:
    durations = problem.durations_s
    weights = np.ones(problem.n_moves) if durations is None else durations
    proof, how = _proof_of_steps(problem, plan, weights)
    at = plan.step if durations is None else plan.start_s
    if at is None:
        return _Looked([], None, -1, proof, how)
    if at.shape != (problem.n_moves,) or (at < 0).any():
        what = "step" if durations is None else "instant"
        rule = f"must have a {what}, at least 0, for each of {problem.n_moves} moves"
        return _Looked([Violation("shape", rule)], None, -1, proof, how)
    found: list[Violation] = []
    ends = at + weights
    for moves in _moves_of_hosts(problem):
        here = moves[np.lexsort((ends[moves], at[moves]))]  # what takes no time may begin with another
        slack = 1e-9 * float(ends[here].max(initial=0.0))
        for first, second in zip(here[:-1].tolist(), here[1:].tolist(), strict=True):
            if ends[first] > at[second] + slack and len(found) < _MOST_LISTED:
                found.append(Violation("host", f"moves {first} and {second} share a host and overlap"))
    return _Looked(found, float(ends.max(initial=0.0)), -1, proof, how)


def _moves_of_hosts(problem: MigrationSteps) -> list[IntArray]:
    """The moves of each host that has any."""
    order = np.argsort(problem.ends.ravel(), kind="stable")
    _, first = np.unique(problem.ends.ravel()[order], return_index=True)
    return np.split(order // 2, first[1:]) if len(order) else []


def _proof_of_steps(problem: MigrationSteps, plan: StepsPlan, weights: FloatArray) -> tuple[float, str]:
    """What the busiest hosts need; of few moves, that there are no fewer steps, or no shorter order."""
    busy = busiest(problem.ends, weights)[0]
    if problem.durations_s is None:
        least = math.ceil(busy)
        while plan.bound is not None and least < plan.bound:
            if colourable(problem.ends, least) is not False:
                return float(least), "the busiest hosts"
            least += 1
        return float(least), "the busiest hosts" if least == math.ceil(busy) else "all ways with fewer steps"
    if plan.bound is not None and plan.bound > busy + _slack(busy) and problem.n_moves <= MOST_ORDERED:
        return first_of_all_orders(problem.ends, weights)[1], "all orders of the moves"
    return busy, "the busiest hosts"


def _interval(problem: CheckpointInterval, plan: IntervalPlan) -> _Looked:
    allowed = allowed_intervals(problem)
    delta, rho = problem.checkpoint_s, problem.utilisation
    if allowed is None:
        quickest = worst_recovery_s(problem, quickest_recovery_interval_s(problem))
        how = f"the shortest recovery is {quickest:.6g} s, {problem.recovery_target_s:.6g} s is asked"
        beyond = problem.recovery_target_s is not None and quickest > problem.recovery_target_s * (1 - 1e-9)
        found = _said("interval_s", plan.interval_s, quickest_recovery_interval_s(problem)) + _beside(problem, plan)
        return _Looked(found, None, -1, no_answer=how if beyond else "")
    shortest = max(allowed[0], delta / (1 - (rho or 0.0)))
    proof = slowdown_bound(problem, shortest - delta, allowed[1] - delta)
    interval = plan.interval_s
    if interval is None:
        return _Looked([], None, -1, proof, "tangents of the slowdown")
    found = []
    for least, what in (
        (problem.until_complete_s, "a checkpoint must be complete"),
        (shortest, "the work must keep up"),
    ):
        if not interval >= least * (1 - _ROUNDING):
            found.append(Violation("interval", f"is {interval!r} s, at least {least!r} s are needed: {what}"))
    recovery = worst_recovery_s(problem, interval) if rho is not None and interval > 0 else 0.0
    if problem.recovery_target_s is not None and not recovery <= problem.recovery_target_s * (1 + 1e-9):
        text = f"a failure may take {recovery:.12g} s to be worked off, {problem.recovery_target_s:.12g} s is asked"
        found.append(Violation("recovery", text))
    found += _beside(problem, plan)
    found += _said("most_interval_s", plan.most_interval_s, allowed[1])
    if plan.least_interval_s not in (allowed[0], shortest):  # of the target, or of the work that must keep up as well
        found += _said("least_interval_s", plan.least_interval_s, shortest)
    objective = slowdown(interval - delta, delta, problem.mtbf_s, problem.restart_s) if interval > delta else None
    return _Looked(found, objective, -1, proof, "tangents of the slowdown")


def _beside(problem: CheckpointInterval, plan: IntervalPlan) -> list[Violation]:
    """What a plan says of its interval that is not so."""
    interval = plan.interval_s
    if interval is None or not interval > 0:
        return []
    values = {"useful_s": interval - problem.checkpoint_s}
    if problem.utilisation is not None:
        values["worst_recovery_s"] = worst_recovery_s(problem, interval)
        values["mean_recovery_s"] = mean_recovery_s(problem, interval)
    if problem.rate_per_s is not None:
        values["mean_replay_records"] = problem.rate_per_s * (interval / 2 + problem.until_complete_s)
    return [one for name, value in values.items() for one in _said(name, getattr(plan, name), value, interval)]


def _said(name: str, said: float | None, value: float, size: float = 0.0) -> list[Violation]:
    """A violation where a number is not the one that comes out; `size` is what it was computed from."""
    if said is None or said == value or abs(said - value) <= min(_slack(max(abs(value), size)), LARGEST):
        return []
    return [Violation(name.removesuffix("_s"), f"says {name} {said!r}, recomputed {value!r}")]


def slowdown_bound(problem: CheckpointInterval, least_s: float, most_s: float) -> float:
    """What no useful time between two limits is below: the best of some tangents of the exponential.

    e^x >= e^y (1 + x - y), so slowdown(tau) >= e^(R/M) (e^y + B(y) / tau), B(y) = M (e^y (1 - y + delta / M) - 1): the
    right side is least at the upper limit where B > 0, else at the lower.
    """
    mean = problem.mtbf_s
    best = 1.0
    top = min(most_s, 700.0 * mean)
    middle = exact(problem.checkpoint_s, mean)
    within = min(max(middle, least_s), top)
    touched = [(useful + problem.checkpoint_s) / mean for useful in (least_s, within, top)]
    # a hair below the optimum B is above 0 whatever rounding does: then no lower limit is needed
    for y in (*touched, touched[1] - 1e-12 * (1 + touched[1])):
        if not 0 < y <= 700.0:
            continue
        # e^y (1 - y + d) - 1 without cancellation for small y: (e^y - 1)(1 - y + d) - (y - d)
        d = problem.checkpoint_s / mean
        slope = mean * (math.expm1(y) * (1 - y + d) - (y - d))
        at = most_s if slope > 0 else least_s
        if at > 0:
            best = max(best, math.exp(problem.restart_s / mean) * (math.exp(y) + slope / at))
    return best * (1 - _ROUNDING)
