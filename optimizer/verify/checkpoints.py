"""Checking an answer without any solver: objective recomputed, broken constraints listed.

That no answer costs less than a bound, or that there is none, is checked where the plan or the problem prove it
(`optimizer.verify.bounds.proof_of_bound`). Where they do not, that takes a solver: such a claim is refuted where a
cheap assignment does, and else named among what was not checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models import display
from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import OPTIMAL_GAP, Solution, Status
from optimizer.verify.better_assignment import better_assignment
from optimizer.verify.bounds import Proof, proof_of_bound, why_no_assignment
from optimizer.verify.cheap_assignments import allowed_costs, cheap_assignments, improved
from optimizer.verify.constraints import MOST_LISTED, Violation, constraint_violations, is_outside

VALUE_TOLERANCE = 1e-9  # relative to the recomputed value: how far a claimed objective may be off
_GAP_TOLERANCE = 1e-6  # relative: how far a claimed gap may be from that of the claimed objective and bound
_GAP_ROUNDING = 1e-15  # absolute: what rounding makes of a gap of 0
_REPAIRED_PAIRS = 5_000_000  # J * N up to which cheap assignments are looked for


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
        """True when nothing is violated."""
        return not self.violations

    @property
    def holds(self) -> bool | None:
        """Return whether the plan holds: None where nothing is violated, but not all that it claims is proven."""
        return None if self.ok and (not self.checked or self.not_checked) else self.ok


@dataclass(frozen=True)
class _Example:
    """An assignment that keeps every constraint, and how it was made."""

    how: str
    assignment: IntArray
    objective: float


def verify_checkpoints(
    problem: CheckpointAllocation,
    plan: CheckpointPlan,
    *,
    gap: float | None = None,
    node_loads: FloatArray | None = None,
) -> Verdict:
    """The verdict on a plan: assignment against every constraint, status and bound against the objective.

    `gap` and `node_loads` (N,) are what a file claims beside objective and bound; None claims nothing.

    >>> from holdfast import plan_checkpoints, read_problem, verify_checkpoints
    >>> problem = read_problem("examples/checkpoints.json")
    >>> verdict = verify_checkpoints(problem, plan_checkpoints(problem))
    >>> verdict.ok, verdict.checked[0]
    (True, 'every constraint')
    """
    found: list[Violation] = []
    objective = None
    if plan.assignment is not None:
        found += constraint_violations(problem, plan.assignment)
        if plan.assignment.shape == (problem.n_checkpoints,) and not is_outside(problem, plan.assignment).any():
            objective = problem.objective(plan.assignment)
    broken = bool(found)
    found += _claim_violations(problem, plan, objective, broken=broken)
    found += [Violation("claim", text) for text in gap_claims(plan, gap)]
    found += _length_violations(problem, plan)
    if objective is not None and plan.assignment is not None and node_loads is not None:
        found += _node_load_violations(problem.node_loads(plan.assignment), node_loads)
    proof = proof_of_bound(problem, plan, VALUE_TOLERANCE)
    proven = proof is not None and proof.enough
    reason = why_no_assignment(problem) if plan.status is Status.INFEASIBLE and plan.assignment is None else ""
    own = plan.assignment if objective is not None and not broken else None
    claims = (plan.status is Status.INFEASIBLE and not reason) or (plan.bound is not None and not proven)
    tried = None if proof is None else proof.example
    if plan.bound is None and claims:
        tried = better_assignment(problem, math.inf).best
    example = _example(problem, own, tried) if claims else None
    refuted = [] if example is None else _refuted(problem, plan, example)
    checked = [] if plan.assignment is None else _checked(plan, gap, proof.how if proof and proven else "")
    return Verdict(
        objective,
        tuple(found + refuted),
        tuple(checked) if not reason else (f"the infeasibility: {reason}",),
        () if refuted or reason else tuple(_not_checked(plan, proof, proven=proven)),
        tuple(example.assignment.tolist()) if example is not None and refuted else None,
    )


def _claim_violations(
    problem: CheckpointAllocation, plan: CheckpointPlan, objective: float | None, *, broken: bool
) -> list[Violation]:
    found: list[str] = []
    slack = VALUE_TOLERANCE * abs(objective or 0.0)
    claims_an_answer = plan.status in (Status.OPTIMAL, Status.FEASIBLE)
    if claims_an_answer and plan.assignment is None:
        found.append(f"says {plan.status} without an assignment")
    if plan.status is Status.INFEASIBLE and plan.assignment is not None and not broken:
        found.append("says infeasible with an assignment that breaks nothing")
    if claims_an_answer and plan.objective is None:
        found.append(f"says {plan.status} without an objective")
    for name, value in (("objective", plan.objective), ("bound", plan.bound)):
        if value is not None and not math.isfinite(value):
            found.append(f"{name} is {value}")
    if plan.objective is not None and objective is not None and not abs(plan.objective - objective) <= slack:
        found.append(f"says objective {plan.objective!r}, recomputed {objective!r}")
    if not broken and objective is not None and plan.bound is not None and not plan.bound <= objective + slack:
        found.append(f"says bound {plan.bound!r}, above the recomputed objective {objective!r}")
    if plan.status is Status.OPTIMAL and (plan.gap is None or not plan.gap <= OPTIMAL_GAP):
        found.append(f"says optimal with gap {plan.gap}, at most {display.number(OPTIMAL_GAP, 6)} is a proof")
    return [Violation("claim", text) for text in found]


def and_so(plan: Solution) -> str:
    """Return what else is not proven where a bound is not: that the plan is optimal, if it says so."""
    return ', and so "optimal"' if plan.status is Status.OPTIMAL else ""


def gap_claims(plan: Solution, gap: float | None) -> list[str]:
    """What is wrong with the gap that a file claims beside objective and bound, in words; None claims nothing."""
    if gap is None:
        return []
    if plan.gap is None:
        return [f"says gap {gap!r} without an objective or a bound"]
    near = abs(gap - plan.gap) <= max(_GAP_TOLERANCE * max(abs(gap), plan.gap), _GAP_ROUNDING)
    if not (math.isfinite(gap) and near):
        return [f"says gap {gap!r}, of its objective and bound it is {plan.gap!r}"]
    return []


def _length_violations(problem: CheckpointAllocation, plan: CheckpointPlan) -> list[Violation]:
    return [
        Violation("claim", f"says {name} of {len(said)} {each}, there are {count}")
        for name, said, each, count in (
            ("prices", plan.prices, "nodes", problem.n_nodes),
            ("multipliers", plan.multipliers, "checkpoints", problem.n_checkpoints),
        )
        if said is not None and len(said) != count
    ]


def _node_load_violations(loads: FloatArray, said: FloatArray) -> list[Violation]:
    if said.shape != loads.shape:
        return [Violation("claim", f"says loads of {len(said)} nodes, there are {len(loads)}")]
    wrong = np.flatnonzero(~(np.abs(said - loads) <= VALUE_TOLERANCE * loads))[:MOST_LISTED]
    return [
        Violation(
            "claim", f"says node {n} stores {display.number(said[n], 12)}, recomputed {display.number(loads[n], 12)}"
        )
        for n in wrong
    ]


def _example(problem: CheckpointAllocation, own: IntArray | None, all_tried: IntArray | None) -> _Example | None:
    """Return the cheapest assignment at hand that keeps every constraint; None where none does.

    `all_tried` is what trying all found. Of a large problem only the plan's own is looked at.
    """
    if problem.cost.size > _REPAIRED_PAIRS:
        return None if own is None else _Example("the plan's own", own, problem.objective(own))
    costs = allowed_costs(problem)
    tried = list(cheap_assignments(problem, costs))
    if own is not None:
        tried.append(("the plan's own", own))
    if all_tried is not None:
        tried.append(("all were tried", all_tried))
    best = None
    for how, assignment in tried:
        if constraint_violations(problem, assignment):
            continue
        for said, one in ((how, assignment), (f"{how}, then single moves", improved(problem, costs, assignment))):
            objective = problem.objective(one)
            if (best is None or objective < best.objective) and not constraint_violations(problem, one):
                best = _Example(said, one, objective)
    return best


def _refuted(problem: CheckpointAllocation, plan: CheckpointPlan, example: _Example) -> list[Violation]:
    found = []
    costs = f"an assignment that keeps every constraint costs {example.objective!r} ({example.how})"
    if plan.status is Status.INFEASIBLE and plan.assignment is None:
        found.append(f"says infeasible, but {costs}")
    slack = VALUE_TOLERANCE * abs(example.objective)
    if plan.bound is not None and math.isfinite(plan.bound) and plan.bound > example.objective + slack:
        found.append(f"says bound {plan.bound!r}, but {costs}")
    return [Violation("claim", text) for text in found]


def _checked(plan: CheckpointPlan, gap: float | None, how: str) -> list[str]:
    checked = ["every constraint", "the objective"]
    checked += [] if gap is None else ["the gap"]
    if how:
        return [*checked, f"the bound, which {how} prove"]
    return checked if plan.bound is None else [*checked, "the bound against cheap assignments"]


def _not_checked(plan: CheckpointPlan, proof: Proof | None, *, proven: bool) -> list[str]:
    if plan.assignment is None and plan.status is Status.INFEASIBLE:
        return ["the infeasibility, which takes a solver"]
    if plan.bound is None or proven:
        return []
    less = "" if proof is None or not proof.how else f": {proof.how} prove {display.number(proof.value, 12)}"
    return [f"the bound{and_so(plan)}, which takes a solver{less}"]
