"""Return why no allocation can keep all constraints, where sums prove it: the smallest such reason, in words.

Looked for are, in this order: a checkpoint that no node may store; copies that find too few nodes; nodes that cannot
hold what only they may store, or cannot reach their minimum (`hall_violator`), in load or in numbers of checkpoints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models import display
from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.common.hall_violators import violating_rows
from optimizer.verify.checkpoint_bounds import cliques, counts, fitting, is_clique, is_count_problem
from optimizer.verify.hall_violator import SURE, HallViolator, hall_violator

MOST_NAMED = 8  # checkpoints or nodes that a sentence names
_QUICK_PAIRS, _QUICK_ARCS = 2_000_000, 20_000  # looked at before any solver: milliseconds

# ("store", checkpoint), ("capacity", node), ("minimum", node), ("anti_affinity", set), ("moves", 0)
Part = tuple[str, int]


@dataclass(frozen=True)
class Reason:
    """A reason why there is no allocation: in words, and the parts that cannot hold together, if several may be."""

    text: str
    parts: tuple[Part, ...] = ()


def why_infeasible(problem: CheckpointAllocation) -> Reason | None:
    """Return the reason; None when none of the cheap ones applies (it may still be infeasible)."""
    fits = fitting(problem)
    for reason in (_nowhere, _too_few_nodes, _too_much, _too_little, _too_many_moves):
        found = reason(problem, fits)
        if found is not None:
            return found
    return None if fits.all() else _narrow(problem)  # sums say all where any node may store anything


def _nowhere(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    closed = np.flatnonzero(~problem.allowed.any(axis=1))
    if len(closed):
        return Reason(f"checkpoint {closed[0]} has no allowed node")
    stuck = np.flatnonzero(~fits.any(axis=1))
    if len(stuck):
        return Reason(f"the load of checkpoint {stuck[0]} exceeds the capacity of every node that may store it")
    return None


def _too_much(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    if problem.capacity is None:
        return None
    least = math.fsum(_lightest(problem, fits).tolist())
    total = math.fsum(problem.upper.tolist())
    if least <= total * SURE:
        return None
    text = f"the total load {display.number(least, 6)} exceeds the total capacity {display.number(total, 6)}"
    return hall_reason(problem) or Reason(text, (*_all("capacity", problem.n_nodes), *_all("store", len(fits))))


def _too_little(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    if problem.capacity_min is None:
        return None
    weights = np.where(fits, problem.weights, 0.0)
    most = weights.sum(axis=0)
    short = np.flatnonzero(most * SURE < problem.lower)
    if len(short):
        n = int(short[0])
        required = problem.capacity_min[n]
        return Reason(
            f"node {n} asks for at least {display.number(required, 6)}, "
            f"all that may go there is {display.number(most[n], 6)}"
        )
    largest = math.fsum(weights.max(axis=1).tolist())
    required = math.fsum(problem.lower.tolist())
    if largest * SURE >= required:
        return None
    text = f"the minimum loads sum to {display.number(required, 6)}, the total load is {display.number(largest, 6)}"
    return hall_reason(problem) or Reason(text, _all("minimum", problem.n_nodes))


def _too_few_nodes(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    """Return the fewest copies with pairwise anti-affinity that find fewer nodes than they are (Hall 1935)."""
    for members in cliques(problem):
        few = violating_rows(fits[members]) if is_clique(problem, members) else []
        if few:
            chosen = members[few]
            nodes = len(few) - 1
            verb = "node" if nodes == 1 else "nodes"
            named = chosen.tolist()[:MOST_NAMED]
            return Reason(f"checkpoints {named} must be on different nodes, only {nodes} {verb} may store them")
    return None


def _too_many_moves(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    if problem.max_moves is None or problem.current is None:
        return None
    must = int((~fits[np.arange(problem.n_checkpoints), problem.current]).sum())
    if must <= problem.max_moves:
        return None
    return Reason(f"{must} checkpoints cannot stay, only {problem.max_moves} may move")


def _narrow(problem: CheckpointAllocation) -> Reason | None:
    """Return what a few nodes cannot hold, where that is quick to see: few checkpoints with nodes of their own."""
    if problem.capacity is None or problem.cost.size > _QUICK_PAIRS:
        return None
    found = hall_violator(problem, most_arcs=_QUICK_ARCS)
    return None if found is None else Reason(_of_loads(problem, found), parts_of(found))


def hall_reason(problem: CheckpointAllocation) -> Reason | None:
    """Return a set of nodes that cannot hold or reach its load, or its number of checkpoints."""
    found = hall_violator(problem)
    if found is not None:
        return Reason(_of_loads(problem, found), parts_of(found))
    if not is_count_problem(problem) or problem.cost.size == 0:
        return None
    limit = counts(problem)
    counted = CheckpointAllocation(
        cost=problem.cost,
        load=np.ones(problem.n_checkpoints),
        capacity=np.maximum(limit.most, limit.least).astype(np.float64),
        capacity_min=limit.least.astype(np.float64),
        forbidden=problem.forbidden,
    )
    narrow = np.flatnonzero(limit.least > limit.most)
    if len(narrow):
        n = int(narrow[0])
        return Reason(f"node {n} asks for at least {limit.least[n]} checkpoints and has room for {limit.most[n]}")
    found = hall_violator(counted)
    return None if found is None else Reason(_of_counts(found), parts_of(found))


def parts_of(found: HallViolator) -> tuple[Part, ...]:
    limits: list[Part] = [("minimum" if found.least else "capacity", n) for n in found.nodes.tolist()]
    return (*limits, *(() if found.least else (("store", j) for j in found.checkpoints.tolist())))


def _of_loads(problem: CheckpointAllocation, found: HallViolator) -> str:
    if len(found.nodes) == problem.n_nodes and not (found.least and problem.n_nodes == 1):
        if found.least:
            required, load = display.apart(found.room, found.load, form=display.number)
            return f"the minimum loads sum to {required}, the total load is {load}"
        total = math.fsum(problem.load.tolist())
        return f"the total load {display.number(total, 6)} exceeds the total capacity {display.number(found.room, 6)}"
    nodes, single = named("node", found.nodes), len(found.nodes) == 1
    if found.least:
        verb = "asks" if single else "ask"
        required, load = display.apart(found.room, found.load, form=display.number)
        return f"{nodes} {verb} for at least {required}, all that may go there is {load}"
    who = named("checkpoint", found.checkpoints)
    which = f"{nodes}, which can hold" if single else f"{nodes}, which together can hold"
    return f"{who} with load {display.number(found.load, 6)} may only go to {which} {display.number(found.room, 6)}"


def _of_counts(found: HallViolator) -> str:
    nodes, single = named("node", found.nodes), len(found.nodes) == 1
    room = round(found.room)
    if found.least:
        verb = "asks" if single else "ask"
        return f"{nodes} {verb} for at least {room} checkpoints, {len(found.checkpoints)} may go there"
    who = named("checkpoint", found.checkpoints)
    return (
        f"{who} may only go to {nodes}, with room for {room} whole checkpoint{'' if room == 1 else 's'} of their load"
    )


def _all(kind: str, count: int) -> tuple[Part, ...]:
    return tuple((kind, index) for index in range(count))


def _lightest(problem: CheckpointAllocation, fits: BoolArray) -> FloatArray:
    if problem.load.ndim == 1:
        return problem.load
    lightest: FloatArray = np.where(fits, problem.weights, np.inf).min(axis=1)
    return lightest


def named(noun: str, indices: IntArray) -> str:
    shown = ", ".join(map(str, indices[:MOST_NAMED].tolist()))
    more = f" and {len(indices) - MOST_NAMED} more" if len(indices) > MOST_NAMED else ""
    return f"{noun}{'' if len(indices) == 1 else 's'} {shown}{more}"


def amounts(values: FloatArray) -> str:
    if len(values) > 1 and (values == values[0]).all():
        return f"{display.number(values[0], 6)} each"
    shown = ", ".join(display.number(value, 6) for value in values[:MOST_NAMED].tolist())
    return (
        shown
        if len(values) <= MOST_NAMED
        else f"{shown}, .. ({display.number(math.fsum(values.tolist()), 6)} together)"
    )
