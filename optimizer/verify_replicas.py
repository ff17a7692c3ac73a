"""Checking plans of replicas without any solver: every constraint, the cost, and the exact availability once more.

Availability is recomputed by conditioning on the hosts of each query one after the other, which shares no step with the
engine that planned (`models.availability`) but the definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

from models.replication.problem import Replication, ReplicationPlan
from models.solution import OPTIMAL_GAP, Status
from optimizer.replication.bounds import most_cost
from optimizer.replication.exhaustive import ExactPoint, exact_front
from optimizer.replication.program import cost_program_of, program_of
from optimizer.verify import VALUE_TOLERANCE, Verdict, Violation, gap_claims

_MOST_STATES = 200_000
_CERTIFIED = 1e-9  # relative: what multipliers of a solver in floating point may prove less


def verify_replicas(problem: Replication, plan: ReplicationPlan, *, gap: float | None = None) -> Verdict:
    """The verdict on a plan; `gap` is what a file claims beside objective and bound."""
    if plan.instances is None:
        claims = [f"says {plan.status} without an answer"] if plan.status in (Status.OPTIMAL, Status.FEASIBLE) else []
        return Verdict(None, tuple(Violation("claim", text) for text in claims), (), ())
    found = [Violation("instances", text) for text in problem.violations(plan.instances)[:20]]
    if found and len(plan.instances) != problem.n_operators:
        return Verdict(None, tuple(found), (), ())
    if any(not hosts or max(hosts) >= problem.n_hosts or min(hosts) < 0 for hosts in plan.instances):
        return Verdict(None, tuple(found), (), ())
    objective, exact = _objective(problem, plan.instances)
    if plan.target is not None and exact and plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        if objective > (1 - plan.target) * (1 + VALUE_TOLERANCE):
            found.append(Violation("target", f"{1 - objective!r} of the queries run, the target is {plan.target!r}"))
        objective = problem.cost(plan.instances)
    found += [Violation("claim", text) for text in _claims(problem, plan, objective if exact else None, gap)]
    checked = [
        "every constraint",
        "the cost",
        *(["the moves"] if problem.running else []),
        *(["the availability"] if exact else []),
    ]
    every = exact_front(problem, allowed=_allowed(plan)) if plan.bound is not None else None
    if every:
        found += [Violation("bound", text) for text in _refuted(plan, every)]
        sure, unsure = ["the bound, against every plan"], list[str]()
    else:
        sure, unsure = _bound(problem, plan)
    checked += sure
    left = [*unsure, *([] if exact else ["the availability"])]
    return Verdict(objective if exact else None, tuple(found), tuple(checked), tuple(left))


def _allowed(plan: ReplicationPlan) -> float:
    """Return the value that is good enough: any for the best plan, that of the target for the cheapest."""
    return 0.0 if plan.target is None else (1 - plan.target) * (1 + VALUE_TOLERANCE)


def _refuted(plan: ReplicationPlan, every: Sequence[ExactPoint]) -> Iterator[str]:
    """A bound that some plan of a small problem is below."""
    assert plan.bound is not None
    if plan.target is None:
        least = every[-1].value
    else:
        least = next((one.cost for one in every if one.value <= _allowed(plan)), math.inf)
    if plan.bound > least * (1 + VALUE_TOLERANCE):
        yield f"says that nothing is below {plan.bound!r}, but there is a plan with {least!r}"


def _bound(problem: Replication, plan: ReplicationPlan) -> tuple[list[str], list[str]]:
    """(what of the bound is proven again, what is not), in words: multipliers of rows prove it without a solver."""
    if plan.bound is None:
        return [], []
    if plan.certificate is None:
        why = "the worst query has no certificate" if problem.goal == "worst" else "the plan has no certificate"
        return [], [f"the bound, which takes a solver: {why}"]
    if plan.target is None:
        program = program_of(problem, most_cost(problem))
    else:
        program = cost_program_of(problem, (1 - plan.target) * (1 + 1e-12))
    if len(program.right) != len(plan.certificate):
        return [], [f"the bound: its certificate has {len(plan.certificate)} rows, the problem {len(program.right)}"]
    least = program.bound(plan.certificate)
    if least >= plan.bound * (1 - _CERTIFIED):
        return ["the bound, from its certificate"], []
    if least <= 0:
        return [], ["the bound, which takes a solver: its certificate proves nothing"]
    return [f"that nothing is below {least:.6g}"], [f"that nothing is below {plan.bound:.6g}, which takes a solver"]


def _claims(problem: Replication, plan: ReplicationPlan, objective: float | None, gap: float | None) -> list[str]:
    assert plan.instances is not None
    found = []
    if plan.status is Status.INFEASIBLE and plan.target is None:
        found.append("says infeasible, with an answer")
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE) and plan.objective is None:
        found.append(f"says {plan.status} without an objective")
    cost = problem.cost(plan.instances)
    if plan.cost is not None and abs(plan.cost - cost) > VALUE_TOLERANCE * max(1.0, abs(cost)):
        found.append(f"says cost {plan.cost!r}, recomputed {cost!r}")
    moves = problem.moves(plan.instances)
    if plan.moves is not None and plan.moves != moves:
        found.append(f"says {plan.moves} running replicas leave their hosts, recomputed {moves}")
    if objective is not None and plan.objective is not None and not _near(plan.objective, objective):
        found.append(f"says objective {plan.objective!r}, recomputed {objective!r}")
    if plan.bound is not None and objective is not None and plan.bound > objective * (1 + VALUE_TOLERANCE):
        found.append(f"says bound {plan.bound!r}, which the recomputed objective {objective!r} is below")
    if plan.status is Status.OPTIMAL and (plan.gap is None or not plan.gap <= OPTIMAL_GAP):
        found.append(f"says optimal with gap {plan.gap}, at most {OPTIMAL_GAP:g} is a proof")
    return found + gap_claims(plan, gap)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= VALUE_TOLERANCE * max(abs(one), abs(other), 1e-300)


def _objective(problem: Replication, instances: Sequence[Sequence[int]]) -> tuple[float, bool]:
    """The objective of the first setting, and whether every query could be recomputed."""
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
    """P(all hosts of some clause are down), by conditioning on one host after another; None if that takes too long."""
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
