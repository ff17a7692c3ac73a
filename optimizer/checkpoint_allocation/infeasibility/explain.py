"""Why no allocation can keep all constraints: the smallest reason that is found, in words.

Looked for are, in this order: a checkpoint that no node may store; copies that find too few nodes; nodes that cannot
hold what only they may store, or cannot reach their minimum (`hall_violator`), in load or in numbers of heavy
checkpoints; parts that not even divided checkpoints can keep, then parts that whole ones cannot (`irreducible_set`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from models import display
from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.flow import counts
from optimizer.checkpoint_allocation.infeasibility.deletion_filter import Part
from optimizer.checkpoint_allocation.infeasibility.hall_violator import SURE, HallViolator, hall_violator
from optimizer.checkpoint_allocation.infeasibility.irreducible_set import (
    InfeasibleSet,
    Parts,
    lp_infeasible_set,
    mip_infeasible_set,
    smaller_infeasible_set,
)
from optimizer.checkpoint_allocation.lagrangian.bound import fits_in, fitting
from optimizer.checkpoint_allocation.lagrangian.separable import cliques, is_clique, is_count_problem
from optimizer.checkpoint_allocation.params import DEFAULT, InfeasibilityParameters, Parameters
from optimizer.common.hall_violators import violating_rows

_MOST_NAMED = 8


@dataclass(frozen=True)
class Reason:
    """Why there is no allocation: in words, and the parts that cannot hold together, where more than one may be."""

    text: str
    parts: tuple[Part, ...] = ()


def why_infeasible(
    problem: CheckpointAllocation, parameters: InfeasibilityParameters = DEFAULT.infeasibility
) -> Reason | None:
    """The reason; None when none of the cheap ones applies (it may still be infeasible)."""
    fits = fitting(problem)
    for reason in (_nowhere, _too_few_nodes, _too_much, _too_little, _too_many_moves):
        found = reason(problem, fits)
        if found is not None:
            return found
    return None if fits.all() else _narrow(problem, parameters)  # sums say all where any node may store anything


def explained(
    problem: CheckpointAllocation,
    parameters: Parameters = DEFAULT,
    *,
    proven: bool,
    time_limit_s: float,
    known: Reason | None = None,
) -> str:
    """The smallest reason found for a problem without an answer; "" where none was found.

    A reason is a proof. Only where it is `proven` that there is no allocation at all, whole checkpoints are looked at,
    by mixed-integer programs. For a reason that is smaller there is time until `time_limit_s`. `known`: a cheap reason.
    """
    began = time.perf_counter()
    found = known or _hall_reason(problem) or _heavy_reason(problem, parameters.infeasibility)
    if found is not None:
        several = len(found.parts) > 1
        less = smaller_infeasible_set(problem, found.parts, parameters, time_limit_s=time_limit_s) if several else None
        same = less is None or len(less.parts) == len(found.parts)
        return found.text if same or less is None else _infeasible_set_text(problem, less)
    iis = lp_infeasible_set(problem, parameters, time_limit_s=time_limit_s)
    left = max(time_limit_s - (time.perf_counter() - began), 0.0)
    if iis is not None:
        less = smaller_infeasible_set(problem, iis.parts, parameters, time_limit_s=left) if iis.irreducible else None
        return _infeasible_set_text(problem, iis if less is None or len(less.parts) == len(iis.parts) else less)
    whole = mip_infeasible_set(problem, parameters, time_limit_s=left) if proven else None
    return "" if whole is None else _infeasible_set_text(problem, whole)


def _hall_reason(problem: CheckpointAllocation) -> Reason | None:
    """Return a set of nodes that cannot hold or reach enough, in load or in numbers of checkpoints."""
    found = hall_violator(problem)
    if found is not None:
        return Reason(_of_loads(problem, found), _parts_of(found))
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
    return None if found is None else Reason(_of_counts(found), _parts_of(found))


def _parts_of(found: HallViolator) -> tuple[Part, ...]:
    limits: list[Part] = [("minimum" if found.least else "capacity", n) for n in found.nodes.tolist()]
    return (*limits, *(() if found.least else (("store", j) for j in found.checkpoints.tolist())))


def _heavy_reason(problem: CheckpointAllocation, parameters: InfeasibilityParameters) -> Reason | None:
    """Return nodes that cannot hold their heavy checkpoints, counted: of load t and more, floor(capacity / t) each."""
    if problem.load.ndim != 1 or problem.capacity is None:
        return None
    loads = np.unique(problem.load)
    best: tuple[HallViolator, float] | None = None
    for share in range(2, parameters.heavy_shares + 1):
        at = int(np.searchsorted(loads, float(problem.upper.max()) / share, side="right"))
        if at == len(loads):
            continue
        least = float(loads[at])
        heavy = np.flatnonzero(problem.load >= least)
        if len(heavy) * problem.n_nodes > parameters.heavy_pairs:
            break
        found = hall_violator(_counted(problem, heavy, np.floor(problem.upper / least)))
        if found is not None and (best is None or found.size < best[0].size):
            best = replace(found, checkpoints=heavy[found.checkpoints]), least
    if best is None:
        return None
    few, least = best
    who, nodes = _named("checkpoint", few.checkpoints), _named("node", few.nodes)
    those = f"{who} of load {display.number(least, 6)} or more"
    text = f"{those} may only go to {nodes}, with room for {round(few.room)} of them"
    return Reason(text, _parts_of(few))


def _counted(problem: CheckpointAllocation, rows: IntArray, most: FloatArray) -> CheckpointAllocation:
    """Some checkpoints as one each, with capacities in numbers; a pair that has no room alone stays forbidden."""
    allowed = fits_in(problem, rows)
    return CheckpointAllocation(
        cost=np.zeros(allowed.shape), load=np.ones(len(rows)), capacity=most, forbidden=np.argwhere(~allowed)
    )


def _of_loads(problem: CheckpointAllocation, found: HallViolator) -> str:
    if len(found.nodes) == problem.n_nodes and not (found.least and problem.n_nodes == 1):
        if found.least:
            required, load = display.apart(found.room, found.load, form=display.number)
            return f"the minimum loads sum to {required}, the total load is {load}"
        total = math.fsum(problem.load.tolist())
        return f"the total load {display.number(total, 6)} exceeds the total capacity {display.number(found.room, 6)}"
    nodes, single = _named("node", found.nodes), len(found.nodes) == 1
    if found.least:
        verb = "asks" if single else "ask"
        required, load = display.apart(found.room, found.load, form=display.number)
        return f"{nodes} {verb} for at least {required}, all that may go there is {load}"
    who = _named("checkpoint", found.checkpoints)
    which = f"{nodes}, which can hold" if single else f"{nodes}, which together can hold"
    return f"{who} with load {display.number(found.load, 6)} may only go to {which} {display.number(found.room, 6)}"


def _of_counts(found: HallViolator) -> str:
    nodes, single = _named("node", found.nodes), len(found.nodes) == 1
    room = round(found.room)
    if found.least:
        verb = "asks" if single else "ask"
        return f"{nodes} {verb} for at least {room} checkpoints, {len(found.checkpoints)} may go there"
    who = _named("checkpoint", found.checkpoints)
    return (
        f"{who} may only go to {nodes}, with room for {room} whole checkpoint{'' if room == 1 else 's'} of their load"
    )


def _infeasible_set_text(problem: CheckpointAllocation, iis: InfeasibleSet) -> str:
    """The infeasible set as a sentence."""
    parts = Parts(problem)
    stored, capacity, minimum = iis.of("store"), iis.of("capacity"), iis.of("minimum")
    said = []
    if len(stored):
        where = np.flatnonzero(parts.fits[stored].any(axis=0))
        load = f" with load {_amounts(problem.load[stored])}" if problem.load.ndim == 1 and len(capacity) else ""
        only = f" (only on {_named('node', where)})" if len(where) < problem.n_nodes or len(where) == 1 else ""
        said.append(f"{_named('checkpoint', stored)}{load} must be stored{only}")
    if len(capacity):
        said.append(f"{_named('node', capacity)} can hold {_amounts(problem.upper[capacity])}")
    if len(minimum):
        verb = "asks" if len(minimum) == 1 else "ask"
        said.append(f"{_named('node', minimum)} {verb} for at least {_amounts(problem.lower[minimum])}")
    said += [
        f"{_named('checkpoint', parts.anti_affinity[k])} must be on different nodes"
        for k in iis.of("anti_affinity").tolist()[:_MOST_NAMED]
    ]
    if len(iis.of("moves")):
        said.append(f"only {problem.max_moves} may move")
    text = "these cannot all hold: " + "; ".join(said)
    if iis.whole:
        text += ". Parts of checkpoints could be stored so, whole ones cannot"
    if iis.irreducible:
        return text
    return f"{text} (may be more than needed: {'time limit struck' if iis.struck else 'the search was cut short'})"


def _named(noun: str, indices: IntArray) -> str:
    shown = ", ".join(map(str, indices[:_MOST_NAMED].tolist()))
    more = f" and {len(indices) - _MOST_NAMED} more" if len(indices) > _MOST_NAMED else ""
    return f"{noun}{'' if len(indices) == 1 else 's'} {shown}{more}"


def _amounts(values: FloatArray) -> str:
    if len(values) > 1 and (values == values[0]).all():
        return f"{display.number(values[0], 6)} each"
    shown = ", ".join(display.number(value, 6) for value in values[:_MOST_NAMED].tolist())
    return (
        shown
        if len(values) <= _MOST_NAMED
        else f"{shown}, .. ({display.number(math.fsum(values.tolist()), 6)} together)"
    )


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
    return _hall_reason(problem) or Reason(text, (*_all("capacity", problem.n_nodes), *_all("store", len(fits))))


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
    return _hall_reason(problem) or Reason(text, _all("minimum", problem.n_nodes))


def _too_few_nodes(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    """Copies with pairwise anti-affinity that find fewer nodes than they are: the fewest of them (Hall 1935)."""
    for members in cliques(problem):
        few = violating_rows(fits[members]) if is_clique(problem, members) else []
        if few:
            chosen = members[few]
            nodes = len(few) - 1
            verb = "node" if nodes == 1 else "nodes"
            named = chosen.tolist()[:_MOST_NAMED]
            return Reason(f"checkpoints {named} must be on different nodes, only {nodes} {verb} may store them")
    return None


def _too_many_moves(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    if problem.max_moves is None or problem.current is None:
        return None
    must = int((~fits[np.arange(problem.n_checkpoints), problem.current]).sum())
    if must <= problem.max_moves:
        return None
    return Reason(f"{must} checkpoints cannot stay, only {problem.max_moves} may move")


def _narrow(problem: CheckpointAllocation, parameters: InfeasibilityParameters) -> Reason | None:
    """Return a few nodes that cannot hold the checkpoints that only they may store, where that is quick to see."""
    if problem.capacity is None or problem.cost.size > parameters.quick_pairs:
        return None
    found = hall_violator(problem, most_arcs=parameters.quick_arcs)
    return None if found is None else Reason(_of_loads(problem, found), _parts_of(found))


def _all(kind: str, count: int) -> tuple[Part, ...]:
    return tuple((kind, index) for index in range(count))


def _lightest(problem: CheckpointAllocation, fits: BoolArray) -> FloatArray:
    if problem.load.ndim == 1:
        return problem.load
    lightest: FloatArray = np.where(fits, problem.weights, np.inf).min(axis=1)
    return lightest
