"""Large-neighbourhood search: a few nodes at a time are packed again by a small mixed-integer program.

A neighbourhood is a node that loses much (checkpoints on it that would be cheaper elsewhere, or priced room that is
empty) and the nodes that its checkpoints are nearly indifferent to. Only the checkpoints on these nodes move, only
among them, and only along pairs that are within a margin of their cheapest at the prices. What the program answers
is taken when it keeps the true capacities and costs less: it proves nothing. The limits are numbers of programs and
their deterministic time, so that the same problem gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.local_search.exchange import Exchange

_LEAST = 0.02  # work that a program counts for at least: making it takes time as well
_UNITS = 10_000_000  # integers that a capacity, or the largest cost, is made of


@dataclass(frozen=True)
class Effort:
    """How much a search may do: nodes, pairs beside the present ones, and work of one program; work of all of them.

    Work is the deterministic time of CP-SAT, some seconds each; a program counts for at least _LEAST.
    """

    nodes: int
    pairs: int
    work: float
    total: float


def search(state: Exchange, effort: Effort, budget: Budget, *, target: float, seed: int = 0) -> bool:
    """Improve the state; False when the clock struck before the limits did.

    Stops when the answer is within `target` of the bound that the state's prices prove.
    """
    random = np.random.default_rng(seed)
    tired = np.zeros(state.problem.n_nodes)
    done = 0.0
    while done < effort.total:
        if budget.late:
            return False
        loss = state.losses()
        if loss.sum() <= target:
            return True
        first = int(np.argmax(loss * 0.5**tired * random.uniform(0.7, 1.3, len(loss))))
        members = _neighbours(state, first, effort.nodes, random)
        better, work = _pack(state, members, effort)
        done += max(work, _LEAST)
        tired[members] += 0.25
        tired[first] += 0.75
        if better:
            tired[members] = 0
    return True


def _neighbours(state: Exchange, first: int, count: int, random: np.random.Generator) -> IntArray:
    """The node and those that most of the checkpoints on it, or of those that want it, are nearly indifferent to."""
    n = state.problem.n_nodes
    here = state.assignment
    extra = state.priced - state.priced[state.rows, state.at][:, None]
    scale = max(float(np.median(np.abs(extra[np.isfinite(extra)]))), 1e-300)
    leaving = np.flatnonzero(here == first)
    score = np.zeros(n)
    np.add.at(score, state.found.nodes[leaving], _closeness(extra[leaving], scale))
    rows, at = np.nonzero(state.found.nodes == first)
    np.add.at(score, here[rows], _closeness(extra[rows, at], scale))
    score *= random.uniform(0.5, 1.5, n)
    score[first] = np.inf
    return np.sort(np.argsort(-score, kind="stable")[:count])


def _closeness(extra: FloatArray, scale: float) -> FloatArray:
    return np.exp(-np.clip(extra, 0.0, 50 * scale) / scale * 20)


def _pack(state: Exchange, members: IntArray, effort: Effort) -> tuple[bool, float]:
    """Whether the checkpoints on the members were packed cheaper, and the work it took."""
    problem = state.problem
    here = state.assignment
    rows = np.flatnonzero(np.isin(here, members))
    inside = np.isin(state.found.nodes[rows], members) & np.isfinite(state.priced[rows])
    extra = np.where(inside, state.priced[rows] - state.priced[rows, state.at[rows]][:, None], np.inf)
    extra[np.arange(len(rows)), state.at[rows]] = -np.inf  # where it is always stays possible, and is not counted
    limit = np.inf
    others = extra[np.isfinite(extra)]
    if len(others) > effort.pairs:
        limit = float(np.partition(others, effort.pairs - 1)[effort.pairs - 1])
    j, k = np.nonzero(inside & (extra <= limit))
    fixed = np.bincount(j, minlength=len(rows))[j] == 1
    nodes = np.searchsorted(members, state.found.nodes[rows[j], k])
    load = state.found.load[rows[j], k]
    held = np.bincount(nodes[fixed], weights=load[fixed], minlength=len(members))
    upper, lower = problem.upper[members] - held, problem.lower[members] - held
    free = ~fixed
    if not free.any():
        return False, 0.0
    j, k, nodes, load = j[free], k[free], nodes[free], load[free]
    present = state.at[rows[j]] == k
    chosen, work = _program(state.found.cost[rows[j], k], j, nodes, load, upper, lower, present, effort.work)
    return chosen is not None and state.accept(rows[j[chosen]], k[chosen]), work


def _program(
    cost: FloatArray,
    j: IntArray,
    n: IntArray,
    load: FloatArray,
    upper: FloatArray,
    lower: FloatArray,
    present: BoolArray,
    effort: float,
) -> tuple[IntArray | None, float]:
    """Positions of the chosen pairs, cheaper than the `present` ones (None without an answer), and the work.

    Loads are rounded up and capacities down (the other way round for minima), so that what fits in integers fits.
    """
    from ortools.sat.python import cp_model  # noqa: PLC0415

    model = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(len(j))]
    for row in np.split(np.arange(len(j)), np.flatnonzero(np.diff(j)) + 1):
        model.add_exactly_one([x[at] for at in row.tolist()])
    whole = bool((load == np.rint(load)).all())
    for node in range(len(upper)):
        at = np.flatnonzero(n == node)
        if not len(at):
            continue
        unit = 1.0 if whole else _UNITS / max(float(upper[node]), float(load[at].max()), 1e-300)
        if load[at].sum() > upper[node]:
            high = np.ceil(load[at] * unit).astype(np.int64)
            model.add(cp_model.LinearExpr.weighted_sum([x[k] for k in at.tolist()], high) <= int(upper[node] * unit))
        if lower[node] > 0:
            low = np.floor(load[at] * unit).astype(np.int64)
            model.add(
                cp_model.LinearExpr.weighted_sum([x[k] for k in at.tolist()], low) >= int(np.ceil(lower[node] * unit))
            )
    scale = 1.0 if (cost == np.rint(cost)).all() else _UNITS / max(float(np.abs(cost).max()), 1e-300)
    prices = np.rint(cost * scale).astype(np.int64)
    total = cp_model.LinearExpr.weighted_sum(x, prices)
    model.minimize(total)
    model.add(total < int(prices[present].sum()))
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would leave the signal to the system afterwards
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = effort
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    work = float(solver.response_proto.deterministic_time)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, work
    return np.flatnonzero([solver.boolean_value(one) for one in x]), work
