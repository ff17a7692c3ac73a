"""The moves of an answer chosen again by a small exact program: those it makes, and the cheapest others.

With few moves few pairs matter: those whose change of cost at the prices, less the toll of a move, is least (`Moves`).
CP-SAT chooses among them at once, on all nodes, where the search goes from one chain to the next. Loads that come are
rounded up, those that go and the room down, so what fits in integers fits; the answer is checked in float64 and proves
nothing.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.params import DEFAULT
from optimizer.checkpoint_allocation.reoptimise.move_prices import EvaluatedPrices, Moves

_UNITS = 10_000_000  # integers that the largest load, or change of cost, is made of


def chosen_again(
    problem: CheckpointAllocation,
    moves: Moves,
    evaluated: EvaluatedPrices,
    answer: IntArray,
    effort: tuple[int, float] = DEFAULT.reoptimise.again,
) -> IntArray:
    """A cheaper assignment (J,), or `answer` where none was found; both keep all that couples checkpoints."""
    made = answer[moves.row] == moves.node
    if made.sum() != problem.moves(answer) or not len(made):
        return answer  # one of its moves is no candidate
    others = np.argsort(evaluated.change, kind="stable")[: effort[0]]
    at = np.union1d(others, np.flatnonzero(made))
    chosen = _program(problem, moves, at, made[at], effort[1])
    if chosen is None:
        return answer
    assert problem.current is not None
    better = problem.current.copy()
    better[moves.row[at[chosen]]] = moves.node[at[chosen]]
    loads = problem.node_loads(better)
    fits = (loads <= problem.upper).all() and (loads >= problem.lower).all()
    few = problem.moves(better) <= moves.most
    return better if fits and few and problem.objective(better) < problem.objective(answer) else answer


def _program(
    problem: CheckpointAllocation, moves: Moves, at: IntArray, made: BoolArray, work: float
) -> BoolArray | None:
    """Which of the moves `at` to make; None without an answer."""
    from ortools.sat.python import cp_model  # noqa: PLC0415

    model = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(len(at))]
    row = moves.row[at]
    for part in np.split(np.arange(len(at)), np.flatnonzero(np.diff(row)) + 1):
        one = [x[k] for k in part.tolist()]
        if moves.must[row[part[0]]]:
            model.add_exactly_one(one)
        elif len(one) > 1:
            model.add_at_most_one(one)
    brought, taken = moves.brought[at], moves.taken[at]
    unit = _unit(np.concatenate([brought, taken]))
    most_load = 2 * float(brought.sum() + taken.sum()) + 1 / unit  # more is never filled nor freed
    room = np.clip(moves.room, -most_load, most_load)
    high = (np.ceil(brought * unit), np.floor(taken * unit), np.floor(room * unit))
    slack = np.clip(problem.lower - (problem.upper - moves.room), -most_load, most_load)
    low = (np.floor(brought * unit), np.ceil(taken * unit), np.ceil(slack * unit))
    for node in range(problem.n_nodes):
        come, go = np.flatnonzero(moves.node[at] == node), np.flatnonzero(moves.source[at] == node)
        both = [x[k] for k in (*come.tolist(), *go.tolist())]
        if len(come) or moves.room[node] < 0:
            most = np.concatenate([high[0][come], -high[1][go]]).astype(np.int64)
            model.add(cp_model.LinearExpr.weighted_sum(both, most) <= int(high[2][node]))
        if problem.lower[node] > 0:
            least = np.concatenate([low[0][come], -low[1][go]]).astype(np.int64)
            model.add(cp_model.LinearExpr.weighted_sum(both, least) >= int(low[2][node]))
    model.add(cp_model.LinearExpr.sum(x) <= moves.most)
    change = moves.change[at]
    cost = np.rint(change * _unit(np.abs(change))).astype(np.int64)
    model.minimize(cp_model.LinearExpr.weighted_sum(x, cost))
    for k, now in enumerate(made.tolist()):
        model.add_hint(x[k], bool(now))
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would leave the signal to the system afterwards
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = work
    solver.parameters.random_seed = 0
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return np.array([solver.boolean_value(one) for one in x], dtype=np.bool_)


def _unit(values: FloatArray) -> float:
    """What values are multiplied by to be whole: 1 where they are."""
    if (values == np.rint(values)).all() and (np.abs(values) < _UNITS).all():
        return 1.0
    return _UNITS / max(float(values.max(initial=0.0)), 1e-300)
