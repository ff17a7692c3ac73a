"""Numbers of replicas of the operators: the two simple procedures, the knapsack, and whole queries.

    stepwise   by importance each operator once, then the levels of all are raised step by step (procedure 1)
    direct     by importance each operator at its highest level that fits, then the next (procedure 2)
    knapsack   most importance in total; a further replica counts p times the one before
    queries    most importance of queries whose operators are all replicated, then single operators (set-union knapsack)

Source: Adaptive selective replication (VLDB PhD workshop 2013), sections 3.1.3 and 3.2. What does not fit is skipped.
The knapsacks know the capacity alone: of more replicas than there may be the least important are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.replicas import ReplicaProblem, of_queries
from models.planning.selection import OperatorSelection, QuerySelection
from optimizer.selection import select_queries, solve

_TIME_LIMIT_S = 60.0


def stepwise(
    problem: ReplicaProblem, importance: FloatArray, order: IntArray, most: IntArray, time_limit_s: float = math.inf
) -> IntArray:
    """Return levels (n,): every operator gets one replica before any gets a second."""
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
    """Return levels (n,) of most importance: a knapsack, with several levels a multiple-choice one."""
    if problem.max_level < 1:
        return np.zeros(problem.n_operators, dtype=np.int64)
    p = float(problem.down[0].mean())
    steps = np.arange(1, problem.max_level + 1)
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
