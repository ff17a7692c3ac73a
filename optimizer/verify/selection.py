"""Checking selections of operators and of queries without a solver.

A bound is proven by the price or the shares of the plan, by a dynamic program over what a price leaves open, or by
trying all that could be better. An answer that is better than the bound refutes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from models.checked_arrays import BoolArray, IntArray
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan, fits
from optimizer.common.enumeration import Tried, better_levels, better_queries
from optimizer.verify.claims import VALUE_TOLERANCE, Better, Evidence, Recomputed, as_answer, slack
from optimizer.verify.constraints import MOST_LISTED, Violation
from optimizer.verify.knapsack_core import (
    better_by_core,
    filled_levels,
    lagrangian_bound,
    price_of_capacity,
    rounded_up,
)

_TRIED = 200  # levels, or queries, of which all may be tried
_MOST_FILLED = 50_000_000  # pairs of query and operator that filling looks at
_LEAST_WEIGHT = 1e-300
_SINGLE = "the bound of single operators, which takes a solver"


def recomputed_selection(problem: OperatorSelection, plan: SelectionPlan) -> Recomputed:
    """Return what is wrong with a selection of operators, its value, and the evidence on its bound.

    Weights are added exactly (`math.fsum`), and compared with the capacity as the problem does (`fits`).
    """
    evidence = evidence_of_levels(problem, plan.bound, plan.price)
    level = plan.level
    if level is None:
        return Recomputed([], None, 1, evidence)
    if level.shape != (problem.n_operators,) or ((level < 0) | (level > problem.n_levels)).any():
        rule = f"must have a level 0 .. {problem.n_levels} for each of {problem.n_operators} operators"
        return Recomputed([Violation("level", rule)], None, 1, evidence)
    wrong = np.flatnonzero(~problem.allowed[np.arange(len(level)), level])[:MOST_LISTED].tolist()
    found = [Violation("level", f"operator {o} may not have level {level[o]}") for o in wrong]
    if not problem.fits(level):
        found.append(Violation("capacity", f"takes {problem.used(level)!r}, the capacity is {problem.capacity!r}"))
    found += _used(plan.used, problem.used(level))
    found += _price_of_levels(problem, plan.price, problem.used(level))
    return Recomputed(found, problem.objective(level), 1, evidence)


def _used(said: float | None, used: float) -> list[Violation]:
    if said is None or abs(said - used) <= slack(used):
        return []
    return [Violation("used", f"says that {said!r} is used, recomputed {used!r}")]


def _price_of_levels(problem: OperatorSelection, said: float | None, used: float) -> list[Violation]:
    """Return a violation where no capacity between that used and that of the problem has this price.

    A capacity that no sum of weights reaches may be lowered to the next sum, so all capacities between are the same.
    """
    if said is None:
        return []
    own, most = price_of_capacity(problem), price_of_capacity(problem, used * (1 - VALUE_TOLERANCE))
    if own * (1 - VALUE_TOLERANCE) <= said <= most * (1 + VALUE_TOLERANCE):
        return []
    return _price(said, lagrangian_bound(problem, said), own, lagrangian_bound(problem, own))


def _price(said: float, bound: float, own: float, best: float) -> list[Violation]:
    """Return a violation where a price proves less than the price that is recomputed.

    Prices are compared by the bound that they prove, since a whole interval of prices may prove the best one.
    """
    if not math.isfinite(best) or bound <= best + slack(best):
        return []
    return [Violation("price", f"says price {said!r}, which proves {bound!r}; price {own!r} proves {best!r}")]


def evidence_of_levels(problem: OperatorSelection, bound: float | None, price: float | None) -> Evidence:
    """Return what is known about an upper bound of levels: a proof, or a better selection that refutes it.

    In turn: the Lagrangian bound of the plan's price; that of the best price; a greedy selection; a dynamic program
    over the core (`knapsack_core`); for small problems all levels. Later ones run only where earlier ones do not
    decide.
    """
    known = Evidence()
    if price is not None:
        known = Evidence(lagrangian_bound(problem, price), "the price of capacity proves")
    if bound is None or _is_enough(bound, known):
        return known
    # The plan has no price, or a poor one: the best price is quick to find without a solver.
    own = price_of_capacity(problem)
    priced = Evidence(lagrangian_bound(problem, own), "the price of capacity proves")
    known = priced if known.bound is None or (priced.bound or 0.0) < known.bound else known
    filled = filled_levels(problem, own)
    if _is_enough(bound, known) or problem.objective(filled) > bound + slack(bound):
        return Evidence(known.bound, known.how, Better(problem.objective(filled), as_answer(filled)))
    tried = better_by_core(problem, bound + slack(bound), own)
    if not tried.decided and problem.level_values.size <= _TRIED:
        tried = better_levels(problem, bound + slack(bound))
    return _tried(problem, bound, tried, known, "all levels that may be worth more prove")


def _is_enough(bound: float, known: Evidence) -> bool:
    return known.bound is not None and bound >= known.bound - slack(known.bound)


def _tried(
    problem: OperatorSelection | QuerySelection, bound: float, tried: Tried, known: Evidence, how: str
) -> Evidence:
    """Return the evidence after a search for what is better than the bound."""
    if tried.best is not None:
        return Evidence(known.bound, known.how, Better(problem.objective(tried.best), as_answer(tried.best)))
    return Evidence(bound, how) if tried.decided else known


@dataclass(frozen=True, eq=False)
class _Rest(OperatorSelection):
    """The selection of single operators for what queries leave: operators fit that fit beside those of the queries."""

    of: QuerySelection = field(kw_only=True)
    taken: BoolArray = field(kw_only=True)

    def fits(self, level: IntArray) -> bool:
        return self.of.fits(self.taken | (level > 0))


def recomputed_queries(problem: QuerySelection, plan: QueryPlan) -> Recomputed:
    """Return what is wrong with a selection of queries, its value, and the evidence on its bounds."""
    evidence = _evidence_of_queries(problem, plan)
    queries, operators = plan.queries, plan.operators
    if queries is None or operators is None:
        return Recomputed([], None, 1, evidence)
    if queries.shape != (problem.n_queries,) or operators.shape != (problem.n_operators,):
        rule = f"must have an entry for each of {problem.n_queries} queries and {problem.n_operators} operators"
        return Recomputed([Violation("shape", rule)], None, 1, evidence)
    wrong = np.flatnonzero(queries & ~problem.whole(operators))[:MOST_LISTED].tolist()
    found = [Violation("query", f"query {q} is chosen without all its operators") for q in wrong]
    used = math.fsum(problem.weight[operators].tolist())
    found += _used(plan.used, used)
    if not problem.fits(operators):
        found.append(Violation("capacity", f"takes {used!r}, the capacity is {problem.capacity!r}"))
    if plan.split is not None and len(plan.split) != len(problem.uses):
        found.append(Violation("split", f"says {len(plan.split)} shares, {len(problem.uses)} pairs have one"))
    if plan.price is not None and plan.split is not None and len(plan.split) == len(problem.uses):
        shared = _Shared.of(problem, plan)
        own = shared.price
        found += _price(plan.price, shared.bound(Fraction(plan.price)), rounded_up(own), shared.bound(own))
    found += _single_value(problem, plan.single_value, queries, operators)
    wrong_bound, left = _single_bound(problem, plan, queries)
    return Recomputed(found + wrong_bound, problem.objective(queries), 1, evidence, unproven=left)


def _single_value(
    problem: QuerySelection, said: float | None, queries: BoolArray, operators: BoolArray
) -> list[Violation]:
    """Return what is wrong with the value of single operators: it is that of some operators that the plan takes.

    What was taken alone may also have completed a query, so those that no query needs are the least there may be.
    """
    if said is None:
        return []
    if problem.operator_value is None:
        most = least = 0.0
    else:
        most = math.fsum(problem.operator_value[operators].tolist())
        least = math.fsum(problem.operator_value[operators & ~problem.union(queries)].tolist())
    if said > most + slack(most):
        text = f"says {said!r} of single operators, all that are chosen are worth {most!r}"
    elif said < least - slack(least):
        text = f"says {said!r} of single operators, those that no query needs are worth {least!r}"
    else:
        return []
    return [Violation("single", text)]


def _single_bound(
    problem: QuerySelection, plan: QueryPlan, queries: BoolArray
) -> tuple[list[Violation], tuple[str, ...]]:
    """Return a false bound of single operators, and what of it is not proven.

    It holds for what the queries of the plan leave of the capacity: a bit more, so that nothing is lost to rounding.
    """
    bound, value = plan.single_bound, plan.single_value
    if bound is None:
        return [], ()
    if value is not None and bound < value - slack(value):
        return [_false_single(bound, value, "it has itself")], ()
    taken = problem.union(queries)
    if problem.operator_value is None or not problem.fits(taken):
        return [], ()
    left = max(0.0, math.nextafter(math.fsum([problem.limit, *(-problem.weight[taken]).tolist()]), math.inf))
    worth, weight = (np.where(taken, 0.0, each) for each in (problem.operator_value, problem.weight))
    rest = _Rest(worth, weight, left, (~taken).astype(int), of=problem, taken=taken)
    known = evidence_of_levels(rest, bound, None)
    if known.better is not None and known.better.objective > bound + slack(bound):
        return [_false_single(bound, known.better.objective, "others have")], ()
    return [], () if _is_enough(bound, known) else (_SINGLE,)


def _false_single(bound: float, value: float, who: str) -> Violation:
    return Violation("single", f"says bound {bound!r} of single operators, {who} {value!r}")


def _evidence_of_queries(problem: QuerySelection, plan: QueryPlan) -> Evidence:
    """Return what is known about the bound: from the shares of the plan, and from all that could be better."""
    known, bound = Evidence(), plan.bound
    if plan.split is not None and len(plan.split) == len(problem.uses):
        known = Evidence(split_bound(problem, plan), "the shares of queries and the price of capacity prove")
    if bound is None or _is_enough(bound, known):
        return known
    filled = filled_queries(problem)
    if problem.objective(filled) > bound + slack(bound):
        return Evidence(known.bound, known.how, Better(problem.objective(filled), as_answer(filled.astype(int))))
    tried = Tried(None, False)
    if problem.n_queries <= _TRIED:
        tried = better_queries(problem, bound + slack(bound), split=plan.split)
    return _tried(problem, bound, tried, known, "all sets that may be worth more prove")


def filled_queries(problem: QuerySelection) -> BoolArray:
    """Return queries (m,) that fit together: one by one that of most value for the weight that it adds.

    The greedy rule for a set-union knapsack (Goldschmidt, Nehme and Yu 1994); queries that come with what others need
    are chosen as well.
    """
    chosen, taken = np.zeros(problem.n_queries, dtype=np.bool_), np.zeros(problem.n_operators, dtype=np.bool_)
    waiting = np.ones(problem.n_queries, dtype=np.bool_)
    who, what = problem.uses[:, 0], problem.uses[:, 1]
    for _ in range(min(problem.n_queries, _MOST_FILLED // max(1, len(problem.uses)) + 1)):
        more = np.bincount(who, np.where(taken[what], 0.0, problem.weight[what]), minlength=problem.n_queries)
        waiting &= more + problem.weight[taken].sum() <= problem.limit
        if not waiting.any():
            break
        with np.errstate(over="ignore"):
            rate = np.where(waiting, problem.value / np.maximum(more, _LEAST_WEIGHT), -1.0)
        best = int(rate.argmax())
        waiting[best] = False
        with_it = taken.copy()
        with_it[problem.operators_of(best)] = True
        if problem.fits(with_it):
            chosen[best], taken = True, with_it
    return chosen | problem.whole(taken)


def split_bound(problem: QuerySelection, plan: QueryPlan) -> float:
    """Return the upper bound that the shares (E,) of a plan prove with a price of capacity, rounded up.

    Weak duality of the linear program of `optimizer.selection.queries`: shares are multipliers of z <= y, so any of
    them give a bound. The price is the highest of what an operator carries for its weight; one without weight must
    carry nothing, or what it carries is paid as well.
    """
    shared = _Shared.of(problem, plan)
    return shared.bound(shared.price)


@dataclass(frozen=True)
class _Shared:
    """Shares of a plan, added up: the value left of the queries, and for each operator (value carried, weight)."""

    left: Fraction
    carried: list[tuple[Fraction, Fraction]]
    limit: Fraction

    @classmethod
    def of(cls, problem: QuerySelection, plan: QueryPlan) -> _Shared:
        assert plan.split is not None
        alone = [fits(problem.weight[problem.operators_of(q)], problem.limit) for q in range(problem.n_queries)]
        left = [Fraction(v) if may else Fraction(0) for v, may in zip(problem.value.tolist(), alone, strict=True)]
        carried = [Fraction(0)] * problem.n_operators
        for (q, o), share in zip(problem.uses.tolist(), plan.split.tolist(), strict=True):
            if share > 0:
                left[q] -= Fraction(share)
                carried[o] += Fraction(share)
        weights = map(Fraction, problem.weight.tolist())
        rest = sum((each for each in left if each > 0), Fraction(0))
        return cls(rest, list(zip(carried, weights, strict=True)), Fraction(problem.limit))

    @property
    def price(self) -> Fraction:
        """Return the least price that pays for all that operators with a weight carry."""
        return max((amount / weight for amount, weight in self.carried if weight > 0), default=Fraction(0))

    def bound(self, price: Fraction) -> float:
        """Return the bound at a price: price * capacity, and all that the price does not pay for, rounded up."""
        unpaid = (amount - price * weight for amount, weight in self.carried)
        return rounded_up(price * self.limit + self.left + sum((each for each in unpaid if each > 0), Fraction(0)))
