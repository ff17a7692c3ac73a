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
from optimizer.checkpoint_allocation.reoptimise import Former, few_moves
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
    """Return the best assignment with a proven bound; the note names the method.

    `hint` (J,) and `former` are starts: they may shorten the search and never make the answer worse.
    """
    sizes = parameters.sizes
    tiny = problem.cost.size <= sizes.tiny
    # The order is that of cost: each test below is cheaper than the method it saves.
    if separable.is_separable(problem):
        answer = separable.separable(problem)
        if answer is None:
            return Outcome(None, None, infeasible=True)
        note, rounding = "separable: each checkpoint's cheapest node", separable.rounding(problem)
        # Savings by moves are differences of floats, so the sum may be off by `rounding`: the bound gives it away.
        found = Outcome(answer, problem.objective(answer) - rounding, note=note)
        return _all_tried(problem, found, budget, sizes) if rounding and tiny else found
    cheapest = separable.cheapest(problem)
    # The minima bound the optimum from below with no constraint at all; feasible minima are therefore optimal.
    if not constraint_violations(problem, cheapest):
        return Outcome(cheapest, problem.objective(cheapest), note="the cheapest nodes keep every constraint")
    other = _by_count(problem, parameters) if is_count_problem(problem) else None
    if other is None:
        other = _coupled(problem, budget, parameters, hint, former)
    # Tiny problems end with enumeration: it closes gaps that tolerances of solvers leave open.
    return _all_tried(problem, other, budget, sizes) if tiny else other


def _all_tried(problem: CheckpointAllocation, found: Outcome, budget: Budget, sizes: SizeParameters) -> Outcome:
    """Return the outcome after the enumeration of all that costs less, where that ends soon."""
    value = math.inf if found.assignment is None else problem.objective(found.assignment)
    if found.infeasible:
        return found
    proven = found.bound is not None and is_proven(value, found.bound)  # up to rounding
    # A proven answer is searched again only with the small budget: it can gain no more than a rounding error.
    most = min(sizes.enumerated_most, sizes.enumerated_first + int(sizes.enumerated_per_s * budget.seconds))
    # Only assignments that cost less than `value` are visited, so the known answer prunes the enumeration.
    tried = better_assignment(problem, value, sizes.enumerated_first if proven else most)
    answer = found.assignment if tried.best is None else np.asarray(tried.best, dtype=np.int64)
    # Undecided means that the limit struck: the better answer counts, the old bound stays valid.
    if not tried.decided:
        return replace(found, assignment=answer)
    if answer is None:
        return Outcome(None, None, infeasible=True, note="no assignment keeps every constraint: all were tried")
    note = found.note if proven else "all that costs less was tried"
    return replace(found, assignment=answer, bound=problem.objective(answer), note=note)


def _by_count(problem: CheckpointAllocation, parameters: Parameters) -> Outcome | None:
    """Return the optimal flow; None when a core of the pairs has none, or the solver fails.

    Beside costs that mean "never" a flow in 61 bits cannot tell the others apart: it is then solved without them.
    """
    found = _flow(problem, parameters)
    # Each round lowers the cost ceiling, which lets the integer scale of the flow resolve finer differences.
    for _ in range(parameters.flow.rounds):
        if found is None or found.assignment is None or found.bound is None:
            return found
        if is_proven(problem.objective(found.assignment), found.bound):
            return found
        # Costs of "never" use up the 61 bits; capping them keeps the optimum and frees digits for the others.
        capped = flow.capped(problem, found.assignment, parameters.flow.smaller)
        again = None if capped is None else _flow(capped, parameters)
        # A failed repetition takes nothing away: the answer and bound found before are still proven.
        if again is None or again.assignment is None or again.bound is None:
            return found
        answer, bound, prices = again.assignment, again.bound, again.prices
        # Answer and bound are independent claims: keep the better of each.
        if problem.objective(answer) >= problem.objective(found.assignment):
            answer = found.assignment
        if bound < found.bound:
            bound, prices = found.bound, found.prices
        found = replace(again, assignment=answer, bound=bound, prices=prices)
    return found


def _flow(problem: CheckpointAllocation, parameters: Parameters) -> Outcome | None:
    """Return the optimal flow on all pairs or on a core; None when the core has none, or the solver fails."""
    # A dense flow holds all J * N arcs in memory; above this size only a core of them fits.
    if problem.cost.size <= parameters.sizes.flow:
        try:
            answer, bound, potentials = flow.count_flow(problem, parameters.flow)
        except ArithmeticError:
            return None
        prices = flow.as_prices(problem, potentials)
        return Outcome(answer, bound, infeasible=answer is None, note="minimum-cost flow", prices=prices)
    limit = counts(problem)
    # Checked before the core: a core without a flow proves nothing about the whole problem.
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
    """Return the answer where checkpoints compete for room, moves or nodes.

    In turn: few moves of a large running plan, load capacities alone, the heuristics, and the mixed-integer program up
    to `SizeParameters.program`. The bound is the best of all that were proven on the way.
    """
    sizes = parameters.sizes
    # Too large for a program, but few moves are a small problem: the search is among moves, not assignments.
    if large_with_few_moves(problem, sizes):
        moved = few_moves(problem, former, parameters, budget)
        if moved.assignment is not None and not constraint_violations(problem, moved.assignment):
            note = "the running plan improved with few moves" + ("; time limit struck" if moved.struck else "")
            return Outcome(moved.assignment, moved.bound, note=note, prices=moved.prices)
    # Column generation knows neither copies kept apart nor a limit on moves: only capacities may couple.
    alone = not problem.neighbours and problem.max_moves is None and problem.capacity is not None
    if alone and problem.cost.size > sizes.tiny:
        answered = solve_capacitated(problem, budget, parameters, start=_start(problem, hint))
        if answered is not None:
            return answered
    price = dual_prices(problem, parameters.lagrangian)
    # Any prices give a bound, so the maximum over price vectors is one too.
    bound = max(lagrangian_bound(problem, price), lagrangian_bound(problem, np.zeros(problem.n_nodes)))
    bound = max(bound, _bound_of_moves(problem, price))
    best = _best_known(problem, price, hint, budget, parameters)
    value = math.inf if best is None else problem.objective(best)
    if problem.max_moves is not None and best is not None and is_proven(value, bound):
        return Outcome(best, bound, note="Lagrangian bound and few moves", prices=price)
    small = problem.cost.size <= sizes.program
    # Without any feasible answer the program is worth trying at a larger size: it may be the only way to one.
    if not small and (best is not None or problem.cost.size > sizes.fallback):
        struck = "; time limit struck" if budget.late else ""
        note = f"Lagrangian heuristic and local search, too large for a proof{struck}"
        return Outcome(best, bound, note=note, prices=price)
    # The linear relaxation is a proof of infeasibility at a price far below that of the program.
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
        # The program only sees pairs that `Known` left in, and raises the bound for these; never below the old one.
        bound = bound if found.bound is None else max(bound, found.bound)
        # A note means that a limit struck: the same program would strike it again.
        if found.note or best is None or is_proven(value, bound):
            break
    return Outcome(best, bound, note="; ".join(filter(None, ["mixed-integer program", found.note])), prices=price)


def _bound_of_moves(problem: CheckpointAllocation, price: FloatArray) -> float:
    """Return the bound that a limit on moves proves, with prices and without."""
    if problem.current is None or problem.max_moves is None:
        return -math.inf
    return max(move_bound(problem, price), move_bound(problem, np.zeros(problem.n_nodes)))


def large_with_few_moves(problem: CheckpointAllocation, sizes: SizeParameters = DEFAULT.sizes) -> bool:
    """Return whether a running plan with a limit on moves is too large for one mixed-integer program.

    True leads to `reoptimise.few_moves`. It asks for a capacity and no anti-affinity pairs.
    """
    limited = problem.current is not None and problem.max_moves is not None
    large = problem.cost.size > sizes.program
    return limited and large and not problem.neighbours and problem.capacity is not None


def _start(problem: CheckpointAllocation, hint: IntArray | None) -> IntArray | None:
    """Return the cheaper feasible one of the hint and the running plan, (J,); None when both break a constraint."""
    given = [one for one in (hint, problem.current) if one is not None and not constraint_violations(problem, one)]
    return min(given, key=problem.objective) if given else None


def _best_known(
    problem: CheckpointAllocation, price: FloatArray, hint: IntArray | None, budget: Budget, parameters: Parameters
) -> IntArray | None:
    """Return the best feasible answer of the cheap methods, the first of equals; None when all fail."""
    starts = [reduced_minima(problem, price)[1]]
    if problem.cost.size <= parameters.sizes.sensitive and not budget.late:
        starts.append(sensitive_first(problem))
    # The running plan is a start even where it breaks a rule: the search repairs it, often with few changes.
    starts += [start for start in (problem.current, hint) if start is not None]
    found = [Search(problem, start, price, parameters.local_search, budget).run() for start in starts]
    # Unimproved starts stay in the running, since repair may fail on one that is feasible as it is.
    found += [start for start in (problem.current, hint) if start is not None]
    feasible = [one for one in found if one is not None and not constraint_violations(problem, one)]
    return min(feasible, key=problem.objective) if feasible else None
