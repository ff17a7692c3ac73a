"""Checking an answer without any solver: objective recomputed, broken constraints listed.

That no answer costs less than a bound, or that there is none, is checked where the plan or the problem prove it
(`proof_of_bound`). Where they do not, that takes a solver: such a claim is refuted where a
cheap assignment does, and else named among what was not checked.

Proofs come from what a plan carries and from the problem alone. Each value is at most what any assignment that keeps
the constraints costs:

- the cheapest nodes that may store each checkpoint and have room for it alone;
- with a limit on moves, staying and the moves that save most, also at the prices of the plan;
- of copies with anti-affinity, as many different nodes as there are copies, each at its cheapest;
- prices of the nodes (`lagrangian_bound`), of either sign; where capacities only count, in numbers of checkpoints
  (`potential_bound`);
- multipliers of the checkpoints, with one knapsack problem per node (`multiplier_bound`);
- for small problems, that nothing is found below the bound when all is tried (`better_assignment`).

All is summed over all pairs, some rows at a time in float64, less what rounding may add.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from models import display
from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status
from optimizer.common.enumeration import closed_by_granularity
from optimizer.verify.better_assignment import (
    allowed_costs,
    better_assignment,
    cheap_assignments,
    good_prices,
    improved,
)
from optimizer.verify.checkpoint_bounds import (
    cliques,
    counts,
    fits_in,
    fits_somewhere,
    is_clique,
    is_count_problem,
    lagrangian_bound,
    move_bound,
    multiplier_bound,
    potential_bound,
    reduced_minima,
)
from optimizer.verify.claims import (
    VALUE_TOLERANCE,
    Evidence,
    Outcome,
    Recomputed,
    Verdict,
    proof_of,
    slack,
    unproven,
    verdict_of,
)
from optimizer.verify.constraints import MOST_LISTED, Violation, constraint_violations, is_outside
from optimizer.verify.infeasibility import why_infeasible

BY_RULE = ("baseline", "even", "sensitive-first")  # methods that search nothing: no multipliers prove their bounds
METHODS = (*BY_RULE, "exact", "expected-usable")
_TRIED_PAIRS = 2_000
_ROUNDING = 1e-9  # of what the cheapest nodes cost
_LARGEST_PRICED = 1e290  # so that no sum of prices times loads overflows


@dataclass(frozen=True)
class Proof:
    """A value that no assignment that keeps the constraints is below, what proves it, and whether it is the bound.

    `how` is a clause with its verb. `example` is an assignment that is below the bound, where trying all found one.
    """

    value: float
    how: str
    enough: bool = False
    example: IntArray | None = None

    @property
    def evidence(self) -> Evidence:
        """Return the value, and what proves it, as evidence on a bound."""
        return Evidence(self.value, self.how)


def proof_of_bound(problem: CheckpointAllocation, plan: CheckpointPlan, tolerance: float) -> Proof | None:
    """Return the first proof of the plan's bound; else the best proof of less; None without a bound, or any proof.

    The tolerance is a share of the bound; less than a unit of all costs is no difference either.
    """
    if plan.bound is None or not math.isfinite(plan.bound) or not fits_somewhere(problem):
        return None
    minima, _ = reduced_minima(problem, np.zeros(problem.n_nodes))
    slack = tolerance * abs(plan.bound)
    best: Proof | None = None
    # Cheap proofs first: the generator computes the next one only where the last was not enough.
    for proof in _proofs(problem, plan, minima):
        if plan.bound <= proof.value + slack or _is_rounding(problem, proof.value, plan.bound, minima):
            return replace(proof, enough=True)
        best = proof if best is None or proof.value > best.value else best
    # Trying all is exact whatever the numbers are, but only small problems allow it.
    if problem.cost.size <= _TRIED_PAIRS:
        tried = better_assignment(problem, plan.bound - slack, prices=good_prices(problem, plan.bound))
        if tried.decided and tried.best is None:
            return Proof(plan.bound, "all assignments that may cost less prove", enough=True)
        best = replace(best or Proof(-math.inf, ""), example=tried.best)
    return best


def _is_rounding(problem: CheckpointAllocation, proven: float, bound: float, minima: FloatArray) -> bool:
    """Return whether a bound is above what is proven by a hair that no assignment can be in."""
    hair = _ROUNDING * math.fsum(np.abs(minima).tolist())
    return bound - proven <= hair and closed_by_granularity(problem, proven, bound)


def _proofs(problem: CheckpointAllocation, plan: CheckpointPlan, minima: FloatArray) -> Iterator[Proof]:
    yield Proof(math.fsum(minima.tolist()), "the cheapest allowed nodes prove")
    if problem.max_moves is not None:
        yield Proof(move_bound(problem, np.zeros(problem.n_nodes)), "the moves that save most prove")
    if problem.neighbours:
        yield Proof(_different_nodes(problem, minima), "different nodes for copies prove")
    packed = multiplier_bound(problem, plan.multipliers)
    if packed is not None:
        yield Proof(packed, "the multipliers of the plan prove")
    prices = plan.prices
    if prices is not None and prices.shape == (problem.n_nodes,) and _computable(problem, prices):
        yield Proof(lagrangian_bound(problem, prices), "the dual prices of the plan prove")
        if problem.max_moves is not None:
            yield Proof(move_bound(problem, prices), "the dual prices of the plan, and the moves that save most prove")
        yield from _counted(problem, prices)


def _computable(problem: CheckpointAllocation, prices: FloatArray) -> bool:
    """Return whether loads and capacities at these prices stay below what float64 holds: else a cost seems infinite."""
    amounts = [problem.load] if problem.capacity is None else [problem.load, problem.upper]
    dearest = float(np.abs(prices).max())
    return all(dearest * float(amount.max()) <= _LARGEST_PRICED for amount in amounts)


def _counted(problem: CheckpointAllocation, prices: FloatArray) -> Iterator[Proof]:
    """Yield the bound of prices for numbers of checkpoints, where all weigh the same on a node."""
    if is_count_problem(problem):
        value, rounding = potential_bound(problem, counts(problem), prices * problem.weights[0])
        yield Proof(value - rounding, "the dual prices of the plan prove")


def _different_nodes(problem: CheckpointAllocation, minima: FloatArray) -> float:
    """Return the cost of the cheapest nodes; for copies with pairwise anti-affinity, of that many different ones."""
    terms = minima.copy()
    for members in cliques(problem):
        if is_clique(problem, members) and len(members) <= problem.n_nodes:
            costs = np.where(fits_in(problem, members), problem.cost[members], np.inf).min(axis=0)
            different = np.sort(costs)[: len(members)]
            if different.sum() > minima[members].sum():
                terms[members] = different
    return math.fsum(terms.tolist())


def why_no_assignment(problem: CheckpointAllocation) -> str:
    """Return why nothing keeps the constraints, where sums, or trying all, prove it; else ""."""
    reason = why_infeasible(problem)
    if reason is not None or problem.cost.size > _TRIED_PAIRS:
        return "" if reason is None else reason.text
    tried = better_assignment(problem, math.inf)
    return "all assignments break something" if tried.decided and tried.best is None else ""


_REPAIRED_PAIRS = 5_000_000  # J * N up to which cheap assignments are looked for


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
    """Return the verdict on a plan: assignment against every constraint, status and bound against the objective.

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
    own = plan.assignment if objective is not None and not found else None
    outcome = _outcome(problem, plan, own)
    # Figures that the plan states wrongly, before what is better than it says.
    wrong = _false_method(problem, plan) + _length_violations(problem, plan)
    if objective is not None and plan.assignment is not None and node_loads is not None:
        wrong += _node_load_violations(problem.node_loads(plan.assignment), node_loads)
    known = Recomputed(
        found,
        objective,
        -1,
        outcome=replace(outcome, refuted=(*wrong, *outcome.refuted)),
        answered=plan.assignment is not None,
        before=_false_figures(plan, broken=bool(found)),
        answer="an assignment",
        passed="above the recomputed objective {}",
    )
    return verdict_of(plan, gap, known)


def _outcome(problem: CheckpointAllocation, plan: CheckpointPlan, own: IntArray | None) -> Outcome:
    """Return what became of bound or infeasibility; `own` is the plan's assignment if it keeps every constraint."""
    without = plan.assignment is None
    reason = why_no_assignment(problem) if plan.status is Status.INFEASIBLE and without else ""
    proof = proof_of_bound(problem, plan, VALUE_TOLERANCE)
    proven = proof is not None and proof.enough
    # Only what is not proven may be refuted, so cheap assignments are made for those claims alone.
    claims = (plan.status is Status.INFEASIBLE and not reason) or (plan.bound is not None and not proven)
    tried = None if proof is None else proof.example
    if plan.bound is None and claims:
        tried = better_assignment(problem, math.inf).best
    example = _example(problem, own, tried) if claims else None
    refuted = () if example is None else _refuted(problem, plan, example)
    checked: tuple[str, ...] = (f"the infeasibility: {reason}",) if reason else ()
    if not without and plan.bound is not None:
        enough = proof_of(proof.evidence) if proof is not None and proven else "the bound against cheap assignments"
        checked = (enough,)
    return Outcome(
        checked,
        () if refuted or reason else _not_checked(plan, proof, proven=proven),
        refuted,
        tuple(example.assignment.tolist()) if example is not None and refuted else None,
    )


def _false_figures(plan: CheckpointPlan, *, broken: bool) -> list[str]:
    """Return what is wrong with status, objective and bound by themselves, in words."""
    found = []
    if plan.status is Status.INFEASIBLE and plan.assignment is not None and not broken:
        found.append("says infeasible with an assignment that breaks nothing")
    for name, value in (("objective", plan.objective), ("bound", plan.bound)):
        if value is not None and not math.isfinite(value):
            found.append(f"{name} is {value}")
    return found


def _false_method(problem: CheckpointAllocation, plan: CheckpointPlan) -> list[Violation]:
    """Return violations of a method that does not exist, or that cannot prove what the plan claims; "" names none.

    A method that searches nothing has the Lagrangian bound of a few prices, which the plan does not carry. Without
    capacities that is the sum of the cheapest nodes.
    """
    found = []
    if plan.method and plan.method not in METHODS:
        found.append(f"says method {plan.method!r}, which is none of {', '.join(METHODS)}")
    if plan.method in BY_RULE:
        names = [name for name in ("prices", "multipliers") if getattr(plan, name) is not None]
        found += [f"says method {plan.method!r}, which has no {name}" for name in names]
        if plan.bound is not None and problem.capacity is None and fits_somewhere(problem):
            minima, _ = reduced_minima(problem, np.zeros(problem.n_nodes))
            most = math.fsum(minima.tolist())
            if plan.bound > most + VALUE_TOLERANCE * math.fsum(np.abs(minima).tolist()):
                found.append(f"says method {plan.method!r}, which proves {most!r} here, and bound {plan.bound!r}")
    return [Violation("claim", text) for text in found]


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
        # The assignment itself counts as well: single moves keep loads up to rounding only.
        for said, one in ((how, assignment), (f"{how}, then single moves", improved(problem, costs, assignment))):
            objective = problem.objective(one)
            if (best is None or objective < best.objective) and not constraint_violations(problem, one):
                best = _Example(said, one, objective)
    return best


def _refuted(problem: CheckpointAllocation, plan: CheckpointPlan, example: _Example) -> tuple[Violation, ...]:
    found = []
    costs = f"an assignment that keeps every constraint costs {example.objective!r} ({example.how})"
    if plan.status is Status.INFEASIBLE and plan.assignment is None:
        found.append(f"says infeasible, but {costs}")
    above = example.objective + slack(example.objective)
    if plan.bound is not None and math.isfinite(plan.bound) and plan.bound > above:
        found.append(f"says bound {plan.bound!r}, but {costs}")
    return tuple(Violation("claim", text) for text in found)


def _not_checked(plan: CheckpointPlan, proof: Proof | None, *, proven: bool) -> tuple[str, ...]:
    if plan.assignment is None and plan.status is Status.INFEASIBLE:
        return ("the infeasibility, which takes a solver",)
    if plan.bound is None or proven:
        return ()
    return (unproven(plan, Evidence() if proof is None else proof.evidence),)
