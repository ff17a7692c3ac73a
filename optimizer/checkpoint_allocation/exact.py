"""The exact method: look at the structure, take the cheapest method that proves its answer.

| structure | method |
|---|---|
| nothing couples the checkpoints | their minima, a small assignment per set of copies |
| the minima happen to keep everything | they are the answer |
| capacities only count | minimum-cost flow, proved by its potentials |
| load capacities alone | Lagrangian heuristic, column generation and a program in turn (`solve_capacitated`) |
| J * N up to `SizeParameters.program` | mixed-integer program |
| larger | Lagrangian heuristic: a feasible answer with a proven bound |
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import is_proven
from optimizer.checkpoint_allocation import flow
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.capacitated import solve_capacitated
from optimizer.checkpoint_allocation.flow import core_flow
from optimizer.checkpoint_allocation.infeasibility.irreducible_set import lp_is_feasible
from optimizer.checkpoint_allocation.lagrangian import separable
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_allocation.local_search.search import Search
from optimizer.checkpoint_allocation.mixed_integer import Known, Outcome, branch_and_bound
from optimizer.checkpoint_allocation.params import DEFAULT, Parameters, SizeParameters
from optimizer.checkpoint_allocation.reoptimise.search import Former, few_moves
from optimizer.checkpoint_allocation.sensitive import sensitive_first
from optimizer.verify.better_assignment import better_assignment
from optimizer.verify.checkpoint_bounds import counts, is_count_problem, lagrangian_bound, move_bound, reduced_minima
from optimizer.verify.constraints import constraint_violations


def exact(
    problem: CheckpointAllocation,
    budget: Budget,
    parameters: Parameters = DEFAULT,
    *,
    hint: IntArray | None = None,
    former: Former | None = None,
) -> Outcome:
    """The best assignment with a proven bound; the note names the method. A hint, or a former plan, only help."""
    sizes = parameters.sizes
    tiny = problem.cost.size <= sizes.tiny
    if separable.is_separable(problem):
        answer = separable.separable(problem)
        if answer is None:
            return Outcome(None, None, infeasible=True)
        note, rounding = "separable: each checkpoint's cheapest node", separable.rounding(problem)
        found = Outcome(answer, problem.objective(answer) - rounding, note=note)
        return _all_tried(problem, found, budget, sizes) if rounding and tiny else found
    cheapest = separable.cheapest(problem)
    if not constraint_violations(problem, cheapest):
        return Outcome(cheapest, problem.objective(cheapest), note="the cheapest nodes keep every constraint")
    other = _by_count(problem, parameters) if is_count_problem(problem) else None
    if other is None:
        other = _coupled(problem, budget, parameters, hint, former)
    return _all_tried(problem, other, budget, sizes) if tiny else other


def _all_tried(problem: CheckpointAllocation, found: Outcome, budget: Budget, sizes: SizeParameters) -> Outcome:
    """The outcome after all that costs less was tried, where it was no proof and that ends soon."""
    value = math.inf if found.assignment is None else problem.objective(found.assignment)
    if found.infeasible:
        return found
    proven = found.bound is not None and is_proven(value, found.bound)  # up to rounding
    most = min(sizes.enumerated_most, sizes.enumerated_first + int(sizes.enumerated_per_s * budget.seconds))
    tried = better_assignment(problem, value, sizes.enumerated_first if proven else most)
    answer = found.assignment if tried.best is None else np.asarray(tried.best, dtype=np.int64)
    if not tried.decided:
        return replace(found, assignment=answer)
    if answer is None:
        return Outcome(None, None, infeasible=True, note="no assignment keeps every constraint: all were tried")
    note = found.note if proven else "all that costs less was tried"
    return replace(found, assignment=answer, bound=problem.objective(answer), note=note)


def _by_count(problem: CheckpointAllocation, parameters: Parameters) -> Outcome | None:
    """The optimal flow; None when a core of the pairs has none.

    Beside costs that mean "never" a flow in 61 bits cannot tell the others apart: then again without them.
    """
    found = _flow(problem, parameters)
    for _ in range(parameters.flow.rounds):
        if found is None or found.assignment is None or found.bound is None:
            return found
        if is_proven(problem.objective(found.assignment), found.bound):
            return found
        capped = flow.capped(problem, found.assignment, parameters.flow.smaller)
        again = None if capped is None else _flow(capped, parameters)
        if again is None or again.assignment is None or again.bound is None:
            return found
        answer, bound, prices = again.assignment, again.bound, again.prices
        if problem.objective(answer) >= problem.objective(found.assignment):
            answer = found.assignment
        if bound < found.bound:
            bound, prices = found.bound, found.prices
        found = replace(again, assignment=answer, bound=bound, prices=prices)
    return found


def _flow(problem: CheckpointAllocation, parameters: Parameters) -> Outcome | None:
    """The optimal flow, of all pairs or of a core of them; None when the core has none, or the solver fails."""
    if problem.cost.size <= parameters.sizes.flow:
        try:
            answer, bound, potentials = flow.count_flow(problem, parameters.flow)
        except ArithmeticError:
            return None
        prices = flow.as_prices(problem, potentials)
        return Outcome(answer, bound, infeasible=answer is None, note="minimum-cost flow", prices=prices)
    limit = counts(problem)
    if not flow.enough_room(problem, limit):
        return Outcome(None, None, infeasible=True, note="capacities hold fewer checkpoints than there are")
    answer, bound, potentials = core_flow(problem, limit, parameters)
    if answer is None:
        return None
    note = "minimum-cost flow on a core of the pairs"
    return Outcome(answer, bound, note=note, prices=flow.as_prices(problem, potentials))


def _coupled(
    problem: CheckpointAllocation,
    budget: Budget,
    parameters: Parameters,
    hint: IntArray | None,
    former: Former | None,
) -> Outcome:
    sizes = parameters.sizes
    if large_with_few_moves(problem, sizes):
        moved = few_moves(problem, former, parameters)
        if moved.assignment is not None and not constraint_violations(problem, moved.assignment):
            note = "the running plan improved with few moves"
            return Outcome(moved.assignment, moved.bound, note=note, prices=moved.prices)
    alone = not problem.neighbours and problem.max_moves is None and problem.capacity is not None
    if alone and problem.cost.size > sizes.tiny:
        answered = solve_capacitated(problem, budget, parameters, start=_start(problem, hint))
        if answered is not None:
            return answered
    price = dual_prices(problem, parameters.lagrangian)
    bound = max(lagrangian_bound(problem, price), lagrangian_bound(problem, np.zeros(problem.n_nodes)))
    bound = max(bound, _bound_of_moves(problem, price))
    best = _best_known(problem, price, hint, parameters)
    value = math.inf if best is None else problem.objective(best)
    if problem.max_moves is not None and best is not None and is_proven(value, bound):
        return Outcome(best, bound, note="Lagrangian bound and few moves", prices=price)
    small = problem.cost.size <= sizes.program
    if not small and (best is not None or problem.cost.size > sizes.fallback):
        struck = "; time limit struck" if budget.late else ""
        note = f"Lagrangian heuristic and local search, too large for a proof{struck}"
        return Outcome(best, bound, note=note, prices=price)
    if best is None and lp_is_feasible(problem, parameters, time_limit_s=budget.left_s) is False:
        return Outcome(None, None, infeasible=True, note="the linear relaxation has no solution")
    own_bound = lagrangian_bound(problem, price)
    for _ in range(
        parameters.program.rounds
    ):  # a better known answer leaves out more pairs, which makes the proof sharper
        found = branch_and_bound(problem, Known(best, value, price, own_bound), budget, parameters.program)
        if found.infeasible:
            return Outcome(None, None, infeasible=True, note="the mixed-integer program has no solution")
        if found.assignment is not None and problem.objective(found.assignment) < value:
            best, value = found.assignment, problem.objective(found.assignment)
        bound = bound if found.bound is None else max(bound, found.bound)
        if found.note or best is None or is_proven(value, bound):
            break
    return Outcome(best, bound, note="; ".join(filter(None, ["mixed-integer program", found.note])), prices=price)


def _bound_of_moves(problem: CheckpointAllocation, price: FloatArray) -> float:
    """Return the bound that a limit on moves proves, with prices and without."""
    if problem.current is None or problem.max_moves is None:
        return -math.inf
    return max(move_bound(problem, price), move_bound(problem, np.zeros(problem.n_nodes)))


def large_with_few_moves(problem: CheckpointAllocation, sizes: SizeParameters = DEFAULT.sizes) -> bool:
    """True when a running plan is to be improved that is too large for a whole program."""
    limited = problem.current is not None and problem.max_moves is not None
    large = problem.cost.size > sizes.program
    return limited and large and not problem.neighbours and problem.capacity is not None


def _start(problem: CheckpointAllocation, hint: IntArray | None) -> IntArray | None:
    """The feasible one of the hint and what is running, the cheaper of both."""
    given = [one for one in (hint, problem.current) if one is not None and not constraint_violations(problem, one)]
    return min(given, key=problem.objective) if given else None


def _best_known(
    problem: CheckpointAllocation, price: FloatArray, hint: IntArray | None, parameters: Parameters
) -> IntArray | None:
    """The best feasible answer of the cheap methods, the first of equals; None when all of them fail."""
    starts = [reduced_minima(problem, price)[1]]
    if problem.cost.size <= parameters.sizes.sensitive:
        starts.append(sensitive_first(problem))
    starts += [start for start in (problem.current, hint) if start is not None]
    found = [Search(problem, start, price, parameters.local_search).run() for start in starts]
    found += [start for start in (problem.current, hint) if start is not None]
    feasible = [one for one in found if one is not None and not constraint_violations(problem, one)]
    return min(feasible, key=problem.objective) if feasible else None
