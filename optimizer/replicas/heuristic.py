"""The paper's three steps: the importance of operators, the choice of replicas, and their placement.

`plan` makes the three steps and evaluates the result exactly. Before it stand the ways to choose the number of replicas
of each operator (SELECTIONS):

    stepwise   by importance each operator once, then the levels of all are raised step by step (procedure 1)
    direct     by importance each operator at its highest level that fits, then the next (procedure 2)
    knapsack   most importance in total; a further replica counts p times the one before
    queries    most importance of queries whose operators are all replicated, then single operators (set-union knapsack)

Source: Adaptive selective replication (VLDB PhD workshop 2013), sections 3.1.3 and 3.2. What does not fit is skipped.
The knapsacks know the capacity alone: of more replicas than there may be the least important are left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from models import display
from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.errors import InputError
from models.planning.replicas import IMPORTANCE, ROUNDING, ReplicaPlan, ReplicaProblem, importance, of_queries
from models.planning.selection import OperatorSelection, QuerySelection
from models.planning.solution import Status
from models.validation_messages import similar
from optimizer.replicas.placing import PLACEMENTS, Placed, least_moves, place_replicas, start_of, usable
from optimizer.selection import select_queries, solve
from optimizer.verify.replica_bounds import most_levels

_TIME_LIMIT_S = 60.0


def stepwise(
    problem: ReplicaProblem, importance: FloatArray, order: IntArray, most: IntArray, time_limit_s: float = math.inf
) -> IntArray:
    """Return levels (n,): every operator gets one replica before any gets a second.

    All selections take `importance` (n,), `order` (n,) of falling importance, the `most` (n,) levels that hosts allow,
    and a time limit [s] for those that ask a solver.
    """
    return _raised(problem, np.zeros(problem.n_operators, dtype=np.int64), order, most)


def direct(
    problem: ReplicaProblem, importance: FloatArray, order: IntArray, most: IntArray, time_limit_s: float = math.inf
) -> IntArray:
    """Return levels (n,): each operator gets as many replicas as it may have before the next gets one."""
    level, purse = np.zeros(problem.n_operators, dtype=np.int64), _Purse(problem)
    for o in order.tolist():
        while level[o] < min(problem.max_level, most[o]) and purse.pays(o):
            level[o] += 1
    return level


def knapsack(
    problem: ReplicaProblem, importance: FloatArray, order: IntArray, most: IntArray, time_limit_s: float = math.inf
) -> IntArray:
    """Return levels (n,) of most importance: a knapsack, with several levels a multiple-choice one.

    The weight of a level is the load of its replicas, its value their importance; a further replica counts p times the
    one before (section 3.2). The solver gets the time limit [s], and no more than `_TIME_LIMIT_S`.
    """
    if problem.max_level < 1:
        return np.zeros(problem.n_operators, dtype=np.int64)
    p = float(problem.down[0].mean())
    steps = np.arange(1, problem.max_level + 1)
    # A further replica helps only if those before it are down, each with probability p.
    worth = np.cumsum(p ** (steps - 1.0)) if p > 0 else np.ones(len(steps))
    found = solve(
        OperatorSelection(
            importance[:, None] * worth,
            problem.load[:, None] * steps,
            problem.capacity,
            np.minimum(most, problem.max_level),
        ),
        time_limit_s=min(time_limit_s, _TIME_LIMIT_S),
    )
    assert found.level is not None  # to choose nothing always fits
    return _few(problem, found.level.copy(), order)


def queries(
    problem: ReplicaProblem, importance: FloatArray, order: IntArray, most: IntArray, time_limit_s: float = math.inf
) -> IntArray:
    """Return levels (n,): first whole queries, then single operators for the rest; then further levels stepwise."""
    if problem.max_level < 1:
        return np.zeros(problem.n_operators, dtype=np.int64)
    uses = [(q, o) for q, needed in enumerate(problem.operators) for o in needed]
    # A query is worth something only when all of its operators are replicated: `uses` says which these are.
    found = select_queries(
        QuerySelection(
            of_queries(problem, importance),
            problem.load,
            np.array(uses, dtype=np.int64),
            problem.capacity,
            importance,
        ),
        time_limit_s=min(time_limit_s, _TIME_LIMIT_S),
        clock_s=time_limit_s,  # without a limit the work alone decides
    )
    assert found.operators is not None
    level = _few(problem, np.where(found.operators & (most > 0), 1, 0).astype(np.int64), order)
    return _raised(problem, level, order, most, first=2)


def _raised(problem: ReplicaProblem, level: IntArray, order: IntArray, most: IntArray, first: int = 1) -> IntArray:
    """Return the levels (n,) after steps to level `first`, `first` + 1 ..., each by falling importance."""
    purse = _Purse(problem, level)
    for step in range(first, problem.max_level + 1):
        for o in order.tolist():
            if level[o] == step - 1 and step <= most[o] and purse.pays(o):
                level[o] = step
    return level


def _few(problem: ReplicaProblem, level: IntArray, order: IntArray) -> IntArray:
    """Return the levels (n,) without the least important replicas, where there are more than there may be."""
    most = problem.max_replicas
    # The knapsacks know the budget alone: the least important replicas go until the number is kept.
    over = 0 if most is None else int(level.sum()) - most
    for o in reversed(order.tolist()):
        fewer = min(max(over, 0), int(level[o]))
        level[o] -= fewer
        over -= fewer
    return level


class _Purse:
    """The rest of the capacity for replicas, and of their number."""

    def __init__(self, problem: ReplicaProblem, level: IntArray | None = None) -> None:
        self._load = problem.load.tolist()
        spent = 0.0 if level is None else math.fsum((problem.load * level).tolist())
        self._left = problem.capacity + problem.slack - spent
        most = math.inf if problem.max_replicas is None else problem.max_replicas
        self._count = most - (0 if level is None else int(level.sum()))

    def pays(self, operator: int) -> bool:
        """Return whether one more replica fits; then it is paid."""
        if self._load[operator] > self._left or self._count < 1:
            return False
        self._left -= self._load[operator]
        self._count -= 1
        return True


Select = Callable[[ReplicaProblem, FloatArray, IntArray, IntArray, float], IntArray]
SELECTIONS: dict[str, Select] = {"stepwise": stepwise, "direct": direct, "knapsack": knapsack, "queries": queries}


__all__ = ["SELECTIONS", "evaluated", "plan", "without_room"]


def plan(
    problem: ReplicaProblem,
    *,
    by: str = "product",
    selection: str = "stepwise",
    placement: str = "first-fit",
    noise: FloatArray | None = None,
    primaries: Placed | None = None,
    time_limit_s: float = math.inf,
) -> ReplicaPlan:
    """Return the plan of the three steps; `noise` (n,) between 0 and 1 decides ties, and what `random` means.

    Without noise ties go to the first operator. `primaries`: those of `start_of`, where they are known; replicas that
    these have stay. Where primaries find no host the status is unknown: another packing may. Raises InputError for an
    unknown name. The time limit [s] is that of the solvers that some selections use.
    """
    for name, given, known in (
        ("importance", by, IMPORTANCE),
        ("selection", selection, tuple(SELECTIONS)),
        ("placement", placement, tuple(PLACEMENTS)),
    ):
        if given not in known:
            raise InputError.at(name, given, "must be one of " + ", ".join(known), similar(given, known))
    # Randomness comes from the caller's seed, never from here.
    if by == "random" and noise is None:
        raise InputError.at("importance", by, "needs random numbers")
    began = time.perf_counter()
    start = primaries or start_of(problem, placement)
    if not usable(problem, start):
        # Without a place for every primary there is nothing to replicate.
        return without_room(problem, start, time.perf_counter() - began)
    drawn = np.zeros(problem.n_operators) if noise is None else noise
    worth = importance(by, problem, start.instances, drawn)
    # `lexsort` sorts by its last key first: importance falls, noise breaks ties.
    order = np.lexsort((drawn, -worth)).astype(np.int64)
    left, most = _left(problem, start)
    level = SELECTIONS[selection](left, worth, order, most, time_limit_s)
    # Ranks, not importance: placement needs the order alone, with ties already broken.
    ranked = np.empty(problem.n_operators)
    ranked[order] = np.arange(problem.n_operators, 0, -1)
    placed = place_replicas(problem, start.instances, level, ranked, placement)
    return evaluated(problem, placed, (by, selection, placement), time.perf_counter() - began)


def _left(problem: ReplicaProblem, start: Placed) -> tuple[ReplicaProblem, IntArray]:
    """Return the problem that is left beside the replicas that are there, and how many more each operator may have.

    An operator that may have no more loads nothing: a query that needs it too has it already.
    """
    there = np.array([len(hosts) - 1 for hosts in start.instances], dtype=np.int64)
    if not there.any():
        return problem, most_levels(problem)
    most = np.minimum(most_levels(problem), problem.max_level) - there
    budget = max(0.0, problem.capacity - problem.cost(start.instances))
    # Load 0: such an operator fits in any budget, and queries that need it are not charged for it twice.
    load = np.where((there > 0) & (most <= 0), 0.0, problem.load)
    replicas = problem.max_replicas
    fewer = None if replicas is None else max(0, replicas - int(there.sum()))
    return replace(problem, budget=budget, load=load, max_replicas=fewer), np.maximum(most, 0)


def evaluated(
    problem: ReplicaProblem,
    placed: Placed,
    methods: Sequence[str],
    wall_s: float,
    bound: float | None = None,
    note: str = "",
) -> ReplicaPlan:
    """Return the plan with its exact figures; optimal only where the bound proves it.

    `bound` is a lower bound of the objective or None. Availability is computed anew from the hosts, whatever the search
    believed.
    """
    broken = problem.broken(placed.instances)
    objective = float(problem.value(broken)[0])
    # Proven only relative to the bound's own size: float sums differ in the last digits.
    proven = bound is not None and objective - bound <= 1e-9 * abs(bound)
    return ReplicaPlan(
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        objective=objective,
        bound=bound,
        wall_s=wall_s,
        note=note,
        instances=placed.frozen,
        broken=broken,
        cost=problem.cost(placed.instances),
        left_out=placed.left_out,
        colours=placed.colours,
        methods=tuple(methods),
        moves=problem.moves(placed.instances) if problem.running else None,
    )


def without_room(problem: ReplicaProblem, start: Placed, wall_s: float) -> ReplicaPlan:
    """Return the plan where primaries find no host, or running replicas no room; infeasible if that is proven."""
    if start.whole:
        return _too_many(problem, start, wall_s)
    why = _no_packing(problem.load, problem.host_cpu, problem.primary_hosts, "CPUs")
    if not why and problem.network is not None and problem.host_network is not None:
        why = _no_packing(problem.network, problem.host_network, problem.primary_hosts, "B/s of network")
    status = Status.INFEASIBLE if why else Status.UNKNOWN
    note = f"the packing found no host for {start.left_out} of {problem.n_operators} primaries; more hosts would help"
    return ReplicaPlan(status=status, wall_s=wall_s, note=why or note, left_out=start.left_out)


def _too_many(problem: ReplicaProblem, start: Placed, wall_s: float) -> ReplicaPlan:
    """Return the plan where more running replicas have to leave their hosts than may."""
    least, most = least_moves(problem), problem.max_moves
    proven = most is not None and least > most
    said = (
        f"{least} running replicas at least have" if proven else f"{problem.moves(start.instances)} were found to have"
    )
    note = f"{said} to leave their hosts, for the budget or the room of hosts; at most {most} may"
    return ReplicaPlan(status=Status.INFEASIBLE if proven else Status.UNKNOWN, wall_s=wall_s, note=note)


def _no_packing(load: FloatArray, room: FloatArray, open_hosts: BoolArray | None, what: str) -> str:
    """Return why no packing exists, from the sum and from the largest load; "" where these leave it open."""
    rooms = room if open_hosts is None else room[open_hosts]
    # Slack for all hosts together: a proof of infeasibility must not rest on rounding.
    slack = ROUNDING * float(room.max()) * len(room)
    if float(load.sum()) > float(rooms.sum()) + slack:
        needed, there = display.apart(float(load.sum()), float(rooms.sum()), form=display.number)
        return f"operators take {needed} {what}, the hosts for primaries have {there}"
    largest = float(rooms.max(initial=0.0))
    if float(load.max()) > largest + slack:
        heaviest = int(load.argmax())
        needed, there = display.apart(float(load[heaviest]), largest, form=display.number)
        return f"operator {heaviest} takes {needed} {what}, the largest host has {there}"
    return ""
