"""Judging the claims of a plan (status, objective, bound, gap) by what was recomputed and proven of its problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from models import display
from models.planning.solution import OPTIMAL_GAP, Solution, Status
from optimizer.verify.checkpoints import VALUE_TOLERANCE, Verdict, and_so, gap_claims
from optimizer.verify.constraints import Violation

_SHOWN = 20  # entries of a counterexample that are spelled out


@dataclass(frozen=True)
class Better:
    """An answer that keeps every rule, with its objective."""

    objective: float
    answer: tuple[float, ...]

    def __str__(self) -> str:
        shown = ", ".join(display.number(each, 6) for each in self.answer[:_SHOWN])
        return f"[{shown}{', ...' if len(self.answer) > _SHOWN else ''}]"


@dataclass(frozen=True)
class Evidence:
    """A bound that is proven without a solver, how, and an answer that may refute the bound of the plan."""

    bound: float | None = None
    how: str = ""
    better: Better | None = None


@dataclass(frozen=True)
class Recomputed:
    """Broken rules, the recomputed objective, and evidence for or against the bound.

    `no_answer` is a proof that nothing keeps the rules, `unproven` names other claims that nothing proves. `sign` is 1
    where more is better and -1 where less is.
    """

    found: list[Violation]
    objective: float | None
    sign: int
    evidence: Evidence = field(default_factory=Evidence)
    no_answer: str = ""
    unproven: tuple[str, ...] = ()


def slack(value: float) -> float:
    """Return by how much a number may differ from one that is recomputed."""
    return VALUE_TOLERANCE * abs(value)


def verdict_of(plan: Solution, gap: float | None, known: Recomputed) -> Verdict:
    """Return the verdict: each claim is proven, refuted (a violation), or named among what is not checked."""
    if plan.status is Status.INFEASIBLE and known.no_answer:
        return Verdict(None, tuple(known.found), (f"the infeasibility: {known.no_answer}",))
    refuted = _refuted(plan, known)
    claims = _claims(plan, known, gap) + refuted
    answered = known.objective is not None
    checked = ["every constraint", "the objective"] if answered else []
    checked += ["the gap"] if answered and gap is not None else []
    left = list(known.unproven)
    if plan.bound is not None and not refuted:
        proven = _is_proven(plan.bound, known)
        (checked if proven else left).append(_proof(known.evidence) if proven else unproven(plan, known.evidence))
    violations = (*known.found, *(Violation("claim", text) for text in claims))
    example = known.evidence.better.answer if refuted and known.evidence.better is not None else None
    return Verdict(known.objective, violations, tuple(checked), tuple(left), example)


def _is_proven(bound: float, known: Recomputed) -> bool:
    proof = known.evidence.bound
    return proof is not None and math.isfinite(proof) and known.sign * (bound - proof) >= -slack(proof)


def _proof(evidence: Evidence) -> str:
    return f"the bound, which {evidence.how} prove"


def unproven(plan: Solution, evidence: Evidence) -> str:
    """Return which claim is not proven, and what is."""
    known = evidence.bound is not None and math.isfinite(evidence.bound)
    return f"the bound{and_so(plan)}, which takes a solver" + (
        f": {evidence.how} prove {display.number(evidence.bound, 12)}" if known else ""
    )


def _refuted(plan: Solution, known: Recomputed) -> list[str]:
    """Say which answer is better than the bound, or is there where the plan says that none is."""
    better = known.evidence.better
    if better is None:
        return []
    if plan.status is Status.INFEASIBLE:
        return [f"says infeasible, but an answer that keeps every rule reaches {better.objective!r}: {better}"]
    if plan.bound is None or known.sign * (better.objective - plan.bound) <= slack(better.objective):
        return []
    return [f"says bound {plan.bound!r}, but an answer that keeps every rule reaches {better.objective!r}: {better}"]


def _claims(plan: Solution, known: Recomputed, gap: float | None) -> list[str]:
    found = []
    objective, sign = known.objective, known.sign
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        if objective is None:
            found.append(f"says {plan.status} without an answer")
        if plan.objective is None:
            found.append(f"says {plan.status} without an objective")
    elif plan.status is Status.INFEASIBLE and known.evidence.better is None:
        found.append("says infeasible, but to choose or to do nothing at once always keeps the rules")
    if plan.objective is not None and objective is not None and abs(plan.objective - objective) > slack(objective):
        found.append(f"says objective {plan.objective!r}, recomputed {objective!r}")
    passed = plan.bound is not None and objective is not None and sign * (plan.bound - objective) < -slack(objective)
    if passed and not known.found:
        found.append(f"says bound {plan.bound!r}, which the recomputed objective {objective!r} passes")
    if plan.status is Status.OPTIMAL and (plan.gap is None or not plan.gap <= OPTIMAL_GAP):
        found.append(f"says optimal with gap {plan.gap}, at most {display.number(OPTIMAL_GAP, 6)} is a proof")
    return found + gap_claims(plan, gap)


def as_answer(values: Any) -> tuple[float, ...]:
    """Return an array as the answer of a counterexample."""
    return tuple(values.tolist())
