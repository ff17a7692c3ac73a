"""Migration steps: the fewest steps, or the shortest schedule, in which no host takes part in two moves at once.

Hosts are nodes and moves are edges of a multigraph, steps are colours:

    minimise   number of colours    subject to   edges with a common end have different colours

Of a bipartite multigraph (hosts only send or only receive, or do both at once: `duplex`) it is the largest degree, by
the theorem of Koenig (1916), found by swapping colours along paths. Of others it may be more; it is at least the
largest degree, and the number of edges among 2k + 1 hosts over k. With times it is a schedule of an open shop, or of
jobs on two machines each: the time of the busiest host is the bound.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.errors import raise_if_any
from models.planning.migration_steps import MigrationSteps, StepsPlan
from models.planning.solution import Status, is_proven
from optimizer.common.edge_colouring import busiest, coloured, is_bipartite
from optimizer.common.enumeration import MOST_ORDERED, first_of_all_orders
from optimizer.common.solvers import checked_limits, left_s, solve_cp
from optimizer.verify.plans import reason_of_bound, verify_plan

_PROGRAM_SIZE = 20_000  # moves times colours up to which CP-SAT is asked for a colouring
_DETERMINISTIC_S = 5.0
_SCHEDULED = 200_000  # moves times schedules that are tried
_MOST_SCHEDULES = 200


def solve(
    problem: MigrationSteps, *, time_limit_s: float = 60.0, seed: int = 0, hint: StepsPlan | None = None
) -> StepsPlan:
    """Return the steps, or with sizes the schedule, with its bound; never worse than a `hint`, a plan of this problem.

    Without sizes `step` (moves,) are numbers from 0 and the objective is their count; with sizes `start_s` (moves,) [s]
    are instants and the objective is the end [s]. `seed` decides the orders that schedules are tried with. The time
    limit [s] is a last resort; the note says when it struck. Raises InputError for a bad argument.
    """
    raise_if_any(checked_limits(time_limit_s, seed).faults)
    deadline = time.monotonic() + time_limit_s
    began = time.perf_counter()
    find = _steps if problem.durations_s is None else _schedule
    found = find(problem, deadline, seed, began)
    return found if hint is None or found.status is Status.OPTIMAL else _better(problem, found, hint)


def _better(problem: MigrationSteps, found: StepsPlan, hint: StepsPlan) -> StepsPlan:
    """Return the hint with the bound that was found, if it keeps the rules and ends earlier; else what was found."""
    objective = verify_plan(problem, replace(hint, bound=None)).objective
    # The hint's own claims do not matter: its bound is replaced, its rules are checked.
    wrong = [one for one in verify_plan(problem, hint).violations if one.kind != "claim"]
    if wrong or objective is None or found.objective is None or found.bound is None or objective >= found.objective:
        return found
    status = Status.OPTIMAL if is_proven(objective, found.bound) else Status.FEASIBLE
    return replace(found, status=status, objective=objective, step=hint.step, start_s=hint.start_s)


def _steps(problem: MigrationSteps, deadline: float, seed: int, began: float) -> StepsPlan:
    """Return the plan in steps: a colouring of the moves, with the bound of the busiest hosts.

    Optimal without a search where hosts only send or only receive, or links are duplex: a bipartite multigraph has a
    colouring of as many colours as its largest degree (Koenig 1916).
    """
    least, nodes = busiest(problem.ends, np.ones(problem.n_moves))
    bound = math.ceil(least)  # sums of ones are exact; over k they are rounded by less than the next whole number
    step, count = coloured(problem.ends, bound)
    note = ""
    # Only a multigraph with odd cycles can need more than its bound: else swapping colours reaches it.
    if count > bound and not is_bipartite(problem.ends):
        step, count, bound, note = _fewer(problem.ends, step, count, bound, deadline)
    return StepsPlan(
        status=Status.OPTIMAL if count == bound else Status.FEASIBLE,
        objective=float(count),
        bound=float(bound),
        wall_s=time.perf_counter() - began,
        note=note,
        step=step,
        reason=reason_of_bound(problem, bound, nodes),
    )


def _fewer(ends: IntArray, step: IntArray, count: int, bound: int, deadline: float) -> tuple[IntArray, int, int, str]:
    """Return the colouring and bound after CP-SAT has tried all numbers of colours from the bound up."""
    # From the bound up: the first number that has a colouring is the least, and each refusal raises the bound.
    while bound < count:
        if len(ends) * count > _PROGRAM_SIZE:
            return step, count, bound, "too many moves for an exact search"
        found, decided = _coloured_exactly(ends, bound, deadline)
        if found is not None:
            return found, bound, bound, ""
        if not decided:
            late = time.monotonic() >= deadline
            return step, count, bound, "the time limit struck" if late else "the exact search ended undecided"
        bound += 1
    return step, count, bound, ""


def _coloured_exactly(ends: IntArray, n_colours: int, deadline: float) -> tuple[IntArray | None, bool]:
    """Return a colouring (E,) of edges (E, 2) with that many colours, or None; and whether that is decided.

    x[e, k] = 1 when edge e has colour k: one colour for each edge, and for each node and colour at most one edge.
    """
    from ortools.sat.python import cp_model  # noqa: PLC0415 - slow to load

    model = cp_model.CpModel()
    colour = [[model.new_bool_var("") for _ in range(n_colours)] for _ in range(len(ends))]
    at: dict[int, list[int]] = {}
    for edge, pair in enumerate(ends.tolist()):
        model.add_exactly_one(colour[edge])
        for node in pair:
            at.setdefault(node, []).append(edge)
    # In the order of nodes: the same model on every run, so the same answer.
    for node in sorted(at):
        for k in range(n_colours):
            model.add_at_most_one(colour[edge][k] for edge in at[node])
    busiest_node = max(at, key=lambda node: len(at[node]))
    for k, edge in enumerate(at[busiest_node]):  # colours are alike: those of one host can be given
        model.add(colour[edge][k] == 1)
    answer = solve_cp(model, deterministic_s=_DETERMINISTIC_S, limit_s=left_s(deadline))
    if not answer.found:
        return None, answer.status is Status.INFEASIBLE
    return np.array([answer.values(row) for row in colour]).argmax(axis=1), True


def _schedule(problem: MigrationSteps, deadline: float, seed: int, began: float) -> StepsPlan:
    """Return the plan with times [s]: the best of many list schedules, of few moves the best of all orders."""
    durations = problem.durations_s
    assert durations is not None
    bound, nodes = busiest(problem.ends, durations)
    orders = _orders(problem, np.random.default_rng(seed))
    start, end, note = np.zeros(problem.n_moves), math.inf, ""
    # At least the three fixed orders, and no more than keep the work bounded.
    tries = max(3, min(_MOST_SCHEDULES, _SCHEDULED // max(1, problem.n_moves)))
    for priority in (next(orders) for _ in range(tries)):
        # List schedules of any priority are feasible, so the best of many is one.
        tried = _listed(problem.ends, durations, priority)
        until = float((tried + durations).max(initial=0.0))
        if until < end:
            start, end = tried, until
        if is_proven(end, bound):
            break
        if time.monotonic() > deadline:
            note = "the time limit struck"
            break
    if not is_proven(end, bound) and problem.n_moves <= MOST_ORDERED:
        start, end = first_of_all_orders(problem.ends, durations)
        # All orders were tried: the best of them is its own bound.
        bound = end
    proven = is_proven(end, bound)
    return StepsPlan(
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        objective=end,
        # A bound above the end can only be rounding.
        bound=min(bound, end),
        wall_s=time.perf_counter() - began,
        note="" if proven else note,
        start_s=start,
        reason=reason_of_bound(problem, min(bound, end), nodes),
    )


def _orders(problem: MigrationSteps, draw: np.random.Generator) -> Iterator[Callable[[int, FloatArray], float]]:
    """Yield priorities of a move, given the work [s] (N,) of its ends: three fixed ones, then noisy ones."""
    durations = problem.durations_s
    assert durations is not None
    ends = problem.ends
    yield lambda move, left: float(left[ends[move]].max())
    yield lambda move, left: float(left[ends[move]].sum())
    yield lambda move, left: float(left[ends[move]].max() + durations[move])
    while True:
        noise = draw.uniform(0.0, 0.3, problem.n_moves) * float(durations.max())
        yield lambda move, left, noise=noise: float(left[ends[move]].max() + noise[move])  # type: ignore[misc]


def _listed(ends: IntArray, durations: FloatArray, priority: Callable[[int, FloatArray], float]) -> FloatArray:
    """Return when each move begins if the waiting move of highest priority begins whenever ends become free."""
    pairs = ends.tolist()
    start = np.full(len(pairs), -1.0)
    n_nodes = int(ends.max()) + 1 if len(ends) else 0
    left = np.zeros(n_nodes)
    np.add.at(left, ends.ravel(), np.repeat(durations, 2))
    waiting: list[set[int]] = [set() for _ in range(n_nodes)]
    for move, (a, b) in enumerate(pairs):
        waiting[a].add(move)
        waiting[b].add(move)
    free = [True] * n_nodes
    running: list[tuple[float, int]] = []
    now, freed = 0.0, set(range(n_nodes))
    # Ends: every turn starts moves or frees hosts, and each move starts once.
    while True:
        # Only moves at nodes that have just become free can begin now.
        ready = {m for node in freed if free[node] for m in waiting[node] if free[pairs[m][0]] and free[pairs[m][1]]}
        for move in sorted(ready, key=lambda m: (-priority(m, left), m)):
            a, b = pairs[move]
            # A move before it in this round may have taken an end.
            if free[a] and free[b]:
                free[a] = free[b] = False
                start[move] = now
                left[[a, b]] -= durations[move]
                waiting[a].discard(move)
                waiting[b].discard(move)
                heapq.heappush(running, (now + durations[move], move))
        if not running:
            return start
        now = running[0][0]
        freed = set()
        while running and running[0][0] <= now:
            freed.update(pairs[heapq.heappop(running)[1]])
        for node in freed:
            free[node] = True
