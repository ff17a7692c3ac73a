"""Checking plans of replicas without any solver: every constraint, the cost, and the exact availability once more.

Availability is recomputed by conditioning on the hosts of each query one after the other, which shares no step with the
engine that planned (`models.reliability`) but the definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from models import display
from models.planning.replicas import Instances, ReplicaPlan, ReplicaProblem
from models.planning.selection import QuerySelection
from models.planning.solution import Status
from optimizer.common.enumeration import better_queries
from optimizer.verify.claims import VALUE_TOLERANCE, Outcome, Recomputed, Verdict, and_so, verdict_of
from optimizer.verify.constraints import MOST_LISTED, Violation
from optimizer.verify.replica_bounds import Bounds, bounds_of, most_cost, most_levels
from optimizer.verify.replica_enumeration import ExactPoint, exact_front
from optimizer.verify.replica_program import cost_program_of, program_of

_MOST_STATES = 200_000
_MOST_SUBSETS = 12  # operators of which all sets are tried
_ROUNDING = 1e-12  # relative: more than float64 adds to a bound
_UNREACHED = "that no plan reaches the target"
_EVERY = "against every plan"
_COVERS = "against all hosts that replicas can cover"
_CERTIFIED = 1e-9  # relative: what multipliers of a solver in floating point may prove less


def verify_replicas(problem: ReplicaProblem, plan: ReplicaPlan, *, gap: float | None = None) -> Verdict:
    """Return the verdict on a plan; `gap` is what a file claims beside objective and bound.

    The bound is proven by all plans of a small problem (`exact_front`), by the plan's certificate, or by all sets of
    hosts that replicas can cover, in this order. Hosts fail independently, as in `models.reliability`.
    """
    if plan.instances is None:
        return verdict_of(plan, gap, Recomputed([], None, -1, outcome=_without_an_answer(problem, plan), judged=False))
    found = [Violation("instances", text) for text in problem.violations(plan.instances)[:MOST_LISTED]]
    outside = any(not hosts or max(hosts) >= problem.n_hosts or min(hosts) < 0 for hosts in plan.instances)
    if outside or (found and len(plan.instances) != problem.n_operators):
        return verdict_of(plan, gap, Recomputed(found, None, -1, outcome=Outcome(), judged=False))
    return verdict_of(plan, gap, _recomputed(problem, plan, plan.instances, found))


def _recomputed(problem: ReplicaProblem, plan: ReplicaPlan, instances: Instances, found: list[Violation]) -> Recomputed:
    """Return the recomputed cost and availability, and what became of the bound, or of a target out of reach."""
    objective, exact = _objective(problem, instances)
    if plan.target is not None and exact and plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        if objective > (1 - plan.target) * (1 + VALUE_TOLERANCE):
            found.append(Violation("target", f"{1 - objective!r} of the queries run, the target is {plan.target!r}"))
        objective = problem.cost(instances)
    names = ["every constraint", "the cost", *(["the moves"] if problem.running else [])]
    names += ["the availability"] if exact else []
    outcome = _outcome(problem, plan)
    return Recomputed(
        found,
        objective if exact else None,
        -1,
        outcome=outcome if exact else outcome.leaves("the availability"),
        answered=True,
        compared=True,
        before=_false_figures(problem, plan, instances),
        recomputed=tuple(names),
        passed="which the recomputed objective {} is below",
    )


def _outcome(problem: ReplicaProblem, plan: ReplicaPlan) -> Outcome:
    """Return what became of the bound, or of the claim that no plan reaches the target."""
    unreached = plan.status is Status.INFEASIBLE and plan.target is not None
    every = exact_front(problem, allowed=_allowed(plan.target)) if plan.bound is not None or unreached else None
    # Where all plans could be tried, the front decides. Otherwise other proofs are tried.
    if not every:
        return _unreached(problem, plan) if unreached else _bound(problem, plan)
    refuted = tuple(Violation("bound", text) for text in _refuted(plan, every))
    return Outcome(refuted=refuted) if refuted else Outcome((f"{_UNREACHED if unreached else 'the bound'}, {_EVERY}",))


def _without_an_answer(problem: ReplicaProblem, plan: ReplicaPlan) -> Outcome:
    """Return the outcome of a plan without instances: that there is none is proven, refuted, or not checked."""
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        return Outcome(refuted=(Violation("claim", f"says {plan.status} without an answer"),))
    if plan.status is not Status.INFEASIBLE:
        return Outcome()
    every = exact_front(problem, allowed=_allowed(plan.target))
    if every is None:
        return Outcome(left=("that there is no plan, which takes a solver",))
    reaching = [one for one in every if plan.target is None or one.value <= _allowed(plan.target)]
    if reaching:
        text = f"says infeasible, but a plan that keeps every rule costs {reaching[0].cost!r}"
        return Outcome(refuted=(Violation("claim", text),))
    return Outcome((f"that there is no plan, {_EVERY}",))


def _allowed(target: float | None) -> float:
    """Return the value that is good enough: that of a target, without one only the best."""
    return 0.0 if target is None else (1 - target) * (1 + VALUE_TOLERANCE)


def _unreached(problem: ReplicaProblem, plan: ReplicaPlan) -> Outcome:
    """Return the outcome of the claim that no plan reaches the target: proven by covers, or left open."""
    assert plan.target is not None
    if _is_covered(problem, most_cost(problem), math.nextafter(_allowed(plan.target), 1.0)):
        return Outcome((f"{_UNREACHED}, {_COVERS}",))
    return Outcome(left=(f"{_UNREACHED}, which takes a solver",))


def _is_covered(problem: ReplicaProblem, budget: float, least: float) -> bool:
    """Return whether at least so large a share of queries is broken under every plan that takes no more than a budget.

    No replicas that fit cover so many hosts of queries that less can be broken (`replica_bounds`): all are tried.
    """
    bounds = bounds_of(problem)
    if problem.n_operators <= _MOST_SUBSETS:
        return least_of_subsets(bounds, budget) >= least
    if problem.goal != "mean" or least > bounds.bare:
        return False
    if not bounds.covers:
        return True
    pairs = [(k, o) for k, cover in enumerate(bounds.covers) for o in sorted(cover)]
    covers = QuerySelection(bounds.worths, problem.load, np.array(pairs), max(0.0, budget) * (1 + _ROUNDING))
    tried = better_queries(covers, (bounds.bare - least) * (1 - _ROUNDING))
    return tried.decided and tried.best is None


def least_of_subsets(bounds: Bounds, budget: float) -> float:
    """Return the least bound of the objective over all sets of operators with replicas that fit the budget.

    All 2^n sets of the n operators are looked at, so callers limit n. Rounding only makes the bound lower.
    """
    problem = bounds.problem
    n = problem.n_operators
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    possible = most_levels(problem) > 0
    room = max(0.0, budget) * (1 + _ROUNDING)
    # Rounded up: a set that just fits must not be lost, for the bound would be too high.
    subsets = subsets[(subsets @ problem.load <= room * (1 + _ROUNDING)) & ~subsets[:, ~possible].any(axis=1)]
    if problem.max_replicas is not None:
        subsets = subsets[subsets.sum(axis=1) <= problem.max_replicas]
    each = []
    for query in bounds.queries:
        is_open = np.array([~subsets[:, sorted(cover)].all(axis=1) for cover in query.covers])
        line = query.base + is_open.T @ np.array(query.worths)
        each.append(np.maximum(line, -np.expm1(-(is_open.T @ np.array(query.times)))))
    total = np.max(each, axis=0) if problem.goal == "worst" else problem.shares @ np.array(each)
    return float(total.min()) * (1 - _ROUNDING)


def _refuted(plan: ReplicaPlan, every: Sequence[ExactPoint]) -> Iterator[str]:
    """Generate what some plan of a small problem refutes: a bound, or that none reaches the target."""
    if plan.target is None:
        least = every[-1].value
    else:
        least = next((one.cost for one in every if one.value <= _allowed(plan.target)), math.inf)
    if plan.status is Status.INFEASIBLE and least < math.inf and plan.target is not None:
        yield f"says that no plan reaches the target, but there is one with cost {least!r}"
    if plan.bound is not None and plan.bound > least * (1 + VALUE_TOLERANCE):
        yield f"says that nothing is below {plan.bound!r}, but there is a plan with {least!r}"


def _bound(problem: ReplicaProblem, plan: ReplicaPlan) -> Outcome:
    """Return what became of the bound: proven by its certificate, else by all that replicas can cover, or left open."""
    if plan.bound is None:
        return Outcome()
    outcome = _certified(problem, plan, plan.bound)
    if outcome.left and _covers_prove(problem, plan, plan.bound * (1 - _CERTIFIED)):
        return Outcome((f"the bound, {_COVERS}",))
    return outcome


def _covers_prove(problem: ReplicaProblem, plan: ReplicaPlan, bound: float) -> bool:
    if plan.target is None:
        return _is_covered(problem, most_cost(problem), bound)
    return _is_covered(problem, bound, math.nextafter(_allowed(plan.target), 1.0))


def _certified(problem: ReplicaProblem, plan: ReplicaPlan, bound: float) -> Outcome:
    """Return what multipliers of the rows of the program prove of the bound, and what they leave open."""
    left = f"the bound{and_so(plan)}, which takes a solver: "
    if plan.certificate is None:
        who = "the worst query" if problem.goal == "worst" else "the plan"
        return Outcome(left=(f"{left}{who} has no certificate",))
    if plan.target is None:
        program = program_of(problem, most_cost(problem))
    else:
        program = cost_program_of(problem, (1 - plan.target) * (1 + 1e-12))
    rows = len(program.right)
    if rows != len(plan.certificate):
        return Outcome(left=(f"{left}its certificate has {len(plan.certificate)} rows, the problem {rows}",))
    least = program.bound(plan.certificate)
    if least >= bound * (1 - _CERTIFIED):
        return Outcome(("the bound, from its certificate",))
    if least <= 0:
        return Outcome(left=(f"{left}its certificate proves nothing",))
    proven, claimed = display.number(least, 6), display.number(bound, 6)
    return Outcome((f"that nothing is below {proven}",), (f"that nothing is below {claimed}, which takes a solver",))


def _false_figures(problem: ReplicaProblem, plan: ReplicaPlan, instances: Instances) -> list[str]:
    """Return the false claims of cost, moves and infeasibility, in words."""
    found = ["says infeasible, with an answer"] if plan.status is Status.INFEASIBLE and plan.target is None else []
    cost, moves = problem.cost(instances), problem.moves(instances)
    if plan.cost is not None and abs(plan.cost - cost) > VALUE_TOLERANCE * max(1.0, abs(cost)):
        found.append(f"says cost {plan.cost!r}, recomputed {cost!r}")
    if plan.moves is not None and plan.moves != moves:
        found.append(f"says {plan.moves} running replicas leave their hosts, recomputed {moves}")
    return found


def _objective(problem: ReplicaProblem, instances: Sequence[Sequence[int]]) -> tuple[float, bool]:
    """Return the objective of the first setting, and whether every query could be recomputed."""
    chances = problem.down[0].tolist()
    broken = []
    for needed in problem.operators:
        value = _broken(frozenset(frozenset(instances[o]) for o in needed), chances)
        if value is None:
            return math.nan, False
        broken.append(value)
    if problem.goal == "worst":
        return max(broken), True
    return math.fsum(share * one for share, one in zip(problem.shares.tolist(), broken, strict=True)), True


def _broken(clauses: frozenset[frozenset[int]], chances: list[float]) -> float | None:
    """Return P(all hosts of some clause are down) by conditioning on one host after another.

    None if that takes too long.
    """
    states = 0

    @cache
    def of(left: frozenset[frozenset[int]]) -> float:
        nonlocal states
        states += 1
        if states > _MOST_STATES:
            raise OverflowError
        if not left:
            return 0.0
        if frozenset() in left:
            return 1.0
        host = min(min(clause) for clause in left)
        down = frozenset(clause - {host} for clause in left)
        up = frozenset(clause for clause in left if host not in clause)
        return chances[host] * of(down) + (1 - chances[host]) * of(up)

    try:
        return of(clauses)
    except (OverflowError, RecursionError):
        return None
