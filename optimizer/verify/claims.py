"""Judge the claims of a plan: its status, objective, bound and gap, by what was recomputed and proven of its problem.

Every verifier of a problem recomputes the objective, lists broken constraints, and gathers evidence on the bound: a
`Recomputed`. `verdict_of` makes the verdict of all of them; `false_claims` compares the plan with what was recomputed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from models import display
from models.planning.solution import OPTIMAL_GAP, Solution, Status
from optimizer.verify.constraints import Violation

VALUE_TOLERANCE = 1e-9  # relative to the recomputed value: how far a claimed objective may be off
_GAP_TOLERANCE = 1e-6  # relative: how far a claimed gap may be from that of the claimed objective and bound
_GAP_ROUNDING = 1e-15  # absolute: what rounding makes of a gap of 0
GAP = "the gap"  # among what is recomputed: named only where a gap is claimed
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
    """A bound that is proven without a solver, how, and an answer that may refute the bound of the plan.

    `how` is a clause with its verb: "the busiest hosts prove".
    """

    bound: float | None = None
    how: str = ""
    better: Better | None = None


@dataclass(frozen=True)
class Outcome:
    """Claims on bound and infeasibility that are proven, left open, refuted, or assumed.

    `example` is the answer that refutes one, as numbers.
    """

    proven: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    refuted: tuple[Violation, ...] = ()
    example: tuple[float, ...] | None = None
    assumed: tuple[str, ...] = ()

    def proves(self, text: str) -> Outcome:
        """Return this outcome with one more proven claim."""
        return replace(self, proven=(*self.proven, text))

    def leaves(self, text: str) -> Outcome:
        """Return this outcome with one more claim that is left open."""
        return replace(self, left=(*self.left, text))


@dataclass(frozen=True)
class Recomputed:
    """All that a verifier knows of a plan: broken rules, the recomputed objective, and what became of its bound.

    `sign` is 1 where more is better and -1 where less is. A verifier judges the bound itself (`outcome`), or leaves
    that to `verdict_of`: then `evidence` is for or against the bound, `no_answer` a proof that nothing keeps the
    rules, and `unproven` names other claims that nothing proves.

    `answered`: the plan has an answer; without a value, that there is an objective. `judged`: False where the answer
    has the wrong shape, so that nothing else may be concluded. `needs_objective`: a plan that says feasible must state
    an objective. `compared`: the bound is compared with the recomputed objective; without a value, where no rule is
    broken. `before` and `after` are false claims of figures that only this problem has, before the objective and after
    the bound. `recomputed`, `answer` and `passed` are its words.
    """

    found: Sequence[Violation]
    objective: float | None
    sign: int
    evidence: Evidence = field(default_factory=Evidence)
    no_answer: str = ""
    unproven: tuple[str, ...] = ()
    outcome: Outcome | None = None
    answered: bool | None = None
    judged: bool = True
    needs_objective: bool = True
    compared: bool | None = None
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    recomputed: tuple[str, ...] = ("every constraint", "the objective", GAP)
    answer: str = "an answer"
    passed: str = "which the recomputed objective {} passes"

    @property
    def has_answer(self) -> bool:
        """Return whether the plan has an answer to judge."""
        return self.objective is not None if self.answered is None else self.answered


def slack(value: float) -> float:
    """Return by how much a number may differ from one that is recomputed."""
    return VALUE_TOLERANCE * abs(value)


def verdict_of(plan: Solution, gap: float | None, known: Recomputed) -> Verdict:
    """Return the verdict: each claim is proven, refuted (a violation), or named among what is not checked.

    `gap` is what a file claims beside objective and bound. Every kind of plan gets its verdict here.
    """
    known = known if known.outcome is not None else _by_evidence(plan, known)
    outcome = known.outcome or Outcome()
    claims = false_claims(plan, gap, known) if known.judged else []
    recomputed = known.recomputed if known.has_answer else ()
    return Verdict(
        known.objective,
        (*known.found, *(Violation("claim", text) for text in claims), *outcome.refuted),
        (*(name for name in recomputed if name != GAP or gap is not None), *outcome.proven),
        outcome.left,
        outcome.example,
        outcome.assumed,
    )


def _by_evidence(plan: Solution, known: Recomputed) -> Recomputed:
    """Return what became of the bound by the evidence, and of an infeasibility by a proof or a counterexample."""
    better, infeasible = known.evidence.better, plan.status is Status.INFEASIBLE
    # A proof that there is no answer leaves nothing else to judge.
    if infeasible and known.no_answer:
        return replace(known, judged=False, outcome=Outcome((f"the infeasibility: {known.no_answer}",)))
    refuted = tuple(Violation("claim", text) for text in _refuted(plan, known))
    proven: tuple[str, ...] = ()
    left = known.unproven
    # A refuted bound is already among the violations: it is neither proven nor left open.
    if plan.bound is not None and not refuted:
        if _is_proven(plan.bound, known):
            proven = (proof_of(known.evidence),)
        else:
            left = (*left, unproven(plan, known.evidence))
    example = better.answer if refuted and better is not None else None
    always = "says infeasible, but to choose or to do nothing at once always keeps the rules"
    before = [always] if infeasible and better is None else []
    return replace(known, before=before, outcome=Outcome(proven, left, refuted, example))


def _is_proven(bound: float, known: Recomputed) -> bool:
    proof = known.evidence.bound
    return proof is not None and math.isfinite(proof) and known.sign * (bound - proof) >= -slack(proof)


def proof_of(evidence: Evidence) -> str:
    """Return in words that the bound is proven, and how."""
    return f"the bound, which {evidence.how}"


def unproven(plan: Solution, evidence: Evidence) -> str:
    """Return which claim is not proven, and what is."""
    known = evidence.bound is not None and math.isfinite(evidence.bound)
    return f"the bound{and_so(plan)}, which takes a solver" + (
        f": {evidence.how} {display.number(evidence.bound, 12)}" if known else ""
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


def false_claims(plan: Solution, gap: float | None, known: Recomputed) -> list[str]:
    """Return the false claims of a plan, in words: status, `before`, objective, bound, `after`, optimality, gap.

    A gap of None claims nothing. The bound is not compared with an objective of an answer that breaks a constraint. A
    plan may claim less than it proves: "feasible" is true of an optimal answer as well, and so is a weaker bound.
    """
    found = []
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        found += [] if known.has_answer else [f"says {plan.status} without {known.answer}"]
        missed = known.needs_objective and plan.objective is None
        found += [f"says {plan.status} without an objective"] if missed else []
    found += known.before
    if known.objective is not None:
        hair, bound, objective = slack(known.objective), plan.bound, known.objective
        compared = not known.found if known.compared is None else known.compared
        if plan.objective is not None and not abs(plan.objective - objective) <= hair:
            found.append(f"says objective {plan.objective!r}, recomputed {objective!r}")
        if compared and bound is not None and not known.sign * (bound - objective) >= -hair:
            found.append(f"says bound {bound!r}, {known.passed.format(repr(objective))}")
    found += known.after
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
