"""Judge the claims of a plan: its status, objective, bound and gap, by what was recomputed and proven of its problem.

Every verifier of a problem recomputes the objective, lists broken constraints, and gathers evidence on the bound.
`false_claims` compares the plan with that, for all problems alike. `verdict_of` makes the verdict of those whose
evidence is a bound and a counterexample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from models import display
from models.planning.solution import OPTIMAL_GAP, Solution, Status
from optimizer.verify.constraints import Violation

VALUE_TOLERANCE = 1e-9  # relative to the recomputed value: how far a claimed objective may be off
_GAP_TOLERANCE = 1e-6  # relative: how far a claimed gap may be from that of the claimed objective and bound
_GAP_ROUNDING = 1e-15  # absolute: what rounding makes of a gap of 0
_SHOWN = 20  # entries of a counterexample that are spelled out


@dataclass(frozen=True)
class Verdict:
    """The recomputed objective (None without a whole assignment) and every violation found.

    `checked` and `not_checked` say in words which claims of the plan were proven, and which were neither proven nor
    refuted. `assumed` says what was taken as given, and claims nothing of the answer. `counterexample` is the answer
    that refutes a bound or an infeasibility, None where nothing did.
    """

    objective: float | None
    violations: tuple[Violation, ...]
    checked: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    counterexample: tuple[float, ...] | None = None
    assumed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return True when nothing is violated."""
        return not self.violations

    @property
    def holds(self) -> bool | None:
        """Return whether the plan holds: None where nothing is violated, but not all that it claims is proven."""
        return None if self.ok and (not self.checked or self.not_checked) else self.ok


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
    # A proof that there is no answer leaves nothing else to judge.
    if plan.status is Status.INFEASIBLE and known.no_answer:
        return Verdict(None, tuple(known.found), (f"the infeasibility: {known.no_answer}",))
    refuted = _refuted(plan, known)
    claims = _claims(plan, known, gap) + refuted
    answered = known.objective is not None
    checked = ["every constraint", "the objective"] if answered else []
    checked += ["the gap"] if answered and gap is not None else []
    left = list(known.unproven)
    # A refuted bound is already among the violations: it is neither proven nor left open.
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
    always = plan.status is Status.INFEASIBLE and known.evidence.better is None
    return false_claims(
        plan,
        known.objective,
        gap,
        sign=known.sign,
        has_answer=known.objective is not None,
        broken=bool(known.found),
        before=["says infeasible, but to choose or to do nothing at once always keeps the rules"] if always else [],
    )


def false_claims(
    plan: Solution,
    objective: float | None,
    gap: float | None,
    *,
    sign: int,
    has_answer: bool,
    broken: bool,
    answer: str = "an answer",
    passed: str = "which the recomputed objective {} passes",
    before: Iterable[str] = (),
    after: Iterable[str] = (),
) -> list[str]:
    """Return the false claims of a plan, in words: status, `before`, objective, bound, `after`, optimality, gap.

    `objective` is the recomputed one, None without a whole answer; `gap` is what a file claims beside objective and
    bound. `sign` is 1 where more is better and -1 where less is. The bound is not compared with an objective of an
    answer that breaks a constraint. `answer` and `passed` are the words of the problem, `before` and `after` false
    claims of figures that only it has.
    """
    found = []
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        found += [] if has_answer else [f"says {plan.status} without {answer}"]
        found += [f"says {plan.status} without an objective"] if plan.objective is None else []
    found += before
    if objective is not None:
        hair, bound = slack(objective), plan.bound
        if plan.objective is not None and not abs(plan.objective - objective) <= hair:
            found.append(f"says objective {plan.objective!r}, recomputed {objective!r}")
        if not broken and bound is not None and not sign * (bound - objective) >= -hair:
            found.append(f"says bound {bound!r}, {passed.format(repr(objective))}")
    found += after
    if plan.status is Status.OPTIMAL and (plan.gap is None or not plan.gap <= OPTIMAL_GAP):
        found.append(f"says optimal with gap {plan.gap}, at most {display.number(OPTIMAL_GAP, 6)} is a proof")
    return found + _false_gap(plan, gap)


def _false_gap(plan: Solution, gap: float | None) -> list[str]:
    """Return what is wrong with a gap that is claimed; None claims nothing."""
    if gap is None:
        return []
    if plan.gap is None:
        return [f"says gap {gap!r} without an objective or a bound"]
    near = abs(gap - plan.gap) <= max(_GAP_TOLERANCE * max(abs(gap), plan.gap), _GAP_ROUNDING)
    if not (math.isfinite(gap) and near):
        return [f"says gap {gap!r}, of its objective and bound it is {plan.gap!r}"]
    return []


def and_so(plan: Solution) -> str:
    """Return what else is not proven where a bound is not: that the plan is optimal, if it says so."""
    return ', and so "optimal"' if plan.status is Status.OPTIMAL else ""


def as_answer(values: Any) -> tuple[float, ...]:
    """Return an array as the answer of a counterexample."""
    return tuple(values.tolist())
