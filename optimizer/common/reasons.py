"""Reasons of a plan, from the problem and the answer alone.

- checkpoints: the chosen node against the two cheapest others;
- placements: what each other host lacks for an instance;
- selections: the value of an operator or a query against what its capacity is worth at the price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models import display
from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.placement import Placement, PlacementPlan
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan
from optimizer.common.first_fit import Hosts

_BY_CHANCE = ("baseline", "even")
_OTHER_HOSTS = 2  # that are named for each instance


@dataclass(frozen=True)
class Alternative:
    """A node that was not chosen: its cost, how much more that is than the chosen node's, and why not."""

    node: int
    cost: float
    costs_more: float
    why_not: str


@dataclass(frozen=True)
class Reason:
    """One checkpoint's choice: node, cost, and the cheapest other nodes with why not, at most two."""

    checkpoint: int
    node: int
    cost: float
    alternatives: tuple[Alternative, ...]


def reasons(problem: CheckpointAllocation, plan: CheckpointPlan, *, others: int = 2) -> list[Reason]:
    """Return one row per placed checkpoint, in checkpoint order; empty without an assignment.

    Each row compares the chosen node with the `others` cheapest ones. The reasons compare single moves: what would
    happen if this checkpoint alone went to the other node. Costs are in the unit of the problem.
    """
    if plan.assignment is None:
        return []
    assignment = plan.assignment
    loads = problem.node_loads(assignment)
    rows = []
    for j in np.flatnonzero(assignment >= 0).tolist():
        node, cost = int(assignment[j]), float(problem.cost[j, assignment[j]])
        cheapest = [n for n in np.argsort(problem.cost[j], kind="stable")[: others + 1].tolist() if n != node]
        found = tuple(
            Alternative(
                n,
                float(problem.cost[j, n]),
                float(problem.cost[j, n]) - cost,
                _why_not(problem, plan, loads, j, n),
            )
            for n in cheapest[:others]
        )
        rows.append(Reason(j, node, cost, found))
    return rows


def _why_not(problem: CheckpointAllocation, plan: CheckpointPlan, loads: FloatArray, j: int, n: int) -> str:
    assert plan.assignment is not None
    impossible = _rule_against(problem, plan.assignment, loads, j, n)
    if impossible:
        return impossible
    if plan.method in _BY_CHANCE:
        return "chosen by chance"
    more = float(problem.cost[j, n]) - float(problem.cost[j, plan.assignment[j]])
    if more > 0:
        return f"costs more by {display.number(more, 6)}"
    if more == 0:
        return "costs the same"
    return f"cheaper by {display.number(-more, 6)}, not found by {plan.method or 'the method'}"


def _rule_against(problem: CheckpointAllocation, assignment: IntArray, loads: FloatArray, j: int, n: int) -> str:
    here = int(assignment[j])
    if not problem.allowed[j, n]:
        return "forbidden"
    for other in problem.neighbours.get(j, ()):
        if assignment[other] == n:
            return f"anti-affinity with checkpoint {other}, which is there"
    with_it = float(loads[n] + problem.weights[j, n])
    if problem.capacity is not None and with_it > problem.upper[n]:
        return f"would overload: {display.number(with_it, 6)} of capacity {display.number(problem.capacity[n], 6)}"
    left = float(loads[here] - problem.weights[j, here])
    if problem.capacity_min is not None and left < problem.lower[here]:
        least = display.number(problem.capacity_min[here], 6)
        return f"node {here} would fall to {display.number(left, 6)}, below its minimum {least}"
    stays = problem.current is not None and here == problem.current[j]
    if stays and problem.max_moves is not None and problem.moves(assignment) >= problem.max_moves:
        return f"all {problem.max_moves} moves are used"
    return ""


@dataclass(frozen=True)
class Elsewhere:
    """Another host, and why the instance is not on it."""

    host: int
    why_not: str


@dataclass(frozen=True)
class PlacementReason:
    """Of one instance: its host (-1: left out), why, and the other hosts that lack least for it."""

    instance: int
    host: int
    why: str
    elsewhere: tuple[Elsewhere, ...]


def placement_reasons(problem: Placement, plan: PlacementPlan) -> list[PlacementReason]:
    """Return a reason for each instance; of the other hosts those that lack least of a resource, the lowest first."""
    if plan.host is None:
        return []
    hosts = Hosts(problem, problem.max_colours, None, plan.host)
    most = plan.colours if problem.goal == "colours" and plan.colours is not None else problem.max_colours
    counts = problem.colours_of_hosts(plan.host)
    used = np.bincount(plan.host[plan.host >= 0], minlength=problem.n_hosts)
    scale = np.maximum(problem.rooms.mean(axis=0), 1.0)
    rows = []
    for i in range(problem.n_instances):
        lacks = np.maximum((problem.loads[i] - hosts.free) / scale, 0.0).sum(axis=1)
        order = np.lexsort((np.arange(problem.n_hosts), lacks, used == 0))
        others = [int(h) for h in order[: _OTHER_HOSTS + 1] if h != plan.host[i]][:_OTHER_HOSTS]
        why = tuple(Elsewhere(h, _why_not_on_host(problem, hosts, plan.host, i, h, most, counts)) for h in others)
        rows.append(PlacementReason(i, int(plan.host[i]), _why_on_host(problem, plan.host, i), why))
    return rows


def _why_on_host(problem: Placement, host: IntArray, i: int) -> str:
    if problem.fixed_hosts[i] >= 0:
        return "fixed"
    if host[i] < 0:
        return "left out"
    mates = np.flatnonzero((host == host[i]) & (problem.colours == problem.colours[i]))
    if problem.current is not None and problem.current[i] == host[i]:
        return "runs there"
    return f"with {len(mates) - 1} more of its colour" if problem.colours[i] >= 0 and len(mates) > 1 else "fits"


def _why_not_on_host(
    problem: Placement, hosts: Hosts, host: IntArray, i: int, h: int, most: int | None, counts: IntArray
) -> str:
    """Return the rule, or the lack of room, that keeps instance i from host h while all else stays as it is."""
    if problem.fixed_hosts[i] >= 0:
        return "it is fixed"
    same = np.flatnonzero((problem.operators == problem.operators[i]) & (host >= 0))
    near = [int(j) for j in same if j != i and problem.zones[host[j]] == problem.zones[h]]
    if near:
        where = "host" if problem.anti_affinity == "host" else "failure domain"
        return f"instance {near[0]} of its operator is on that {where}"
    for r, name in enumerate(problem.resources):
        if problem.loads[i, r] > hosts.free[h, r]:
            share = (problem.loads[i, r] - hosts.free[h, r]) / max(int(problem.rooms[h, r]), 1)
            return f"{name}: {display.share(float(share))} of the host more than is free"
    new = problem.colours[i] >= 0 and not hosts.having_colour(i)[h]
    if most is not None and new and counts[h] >= most:
        return f"it would have {counts[h] + 1} colours"
    current = problem.current
    stays = current is not None and current[i] == host[i]
    if stays and problem.max_moves is not None and problem.moves(host) >= problem.max_moves:
        return f"{problem.max_moves} moves are used up"
    if not (host == h).any():
        return "it would take one more host"
    return "nothing is gained" if host[i] >= 0 else "possible, but worth less than what is placed"


@dataclass(frozen=True)
class SelectionReason:
    """One operator or query: its level (queries: 0 or 1), value, weight (queries: what it adds), and why."""

    index: int
    level: int
    value: float
    weight: float
    why: str


def selection_reasons(problem: OperatorSelection, plan: SelectionPlan) -> list[SelectionReason]:
    """Return one row per operator, in order; empty without an answer.

    An operator without a level is shown with its best level at the price.
    """
    if plan.level is None:
        return []
    price = plan.price or 0.0
    room = math.fsum([problem.capacity, *(-problem.chosen_weights(plan.level)).tolist()])
    gains = np.where(problem.allowed, problem.level_values - price * problem.level_weights, -math.inf)
    # Level 0 is no replica. A row shows the best of the others.
    gains[:, 0] = -math.inf
    rows = []
    for o, level in enumerate(plan.level.tolist()):
        shown = level or int(np.argmax(gains[o])) or 1
        value, weight = float(problem.level_values[o, shown]), float(problem.level_weights[o, shown])
        if level:
            why = _worth(value, weight, price)
        elif not problem.allowed[o, 1:].any():
            why = "no level is allowed within the capacity"
        elif weight > room:
            why = f"{_worth(value, weight, price)}; {display.number(room, 6)} is left"
        else:
            why = (
                "worth nothing"
                if value == 0
                else f"fits alone, not found with all others: {_worth(value, weight, price)}"
            )
        rows.append(SelectionReason(o, level, value, weight, why))
    return rows


def query_reasons(problem: QuerySelection, plan: QueryPlan) -> list[SelectionReason]:
    """Return one row per query, in order; empty without an answer.

    The weight of a chosen query is that of operators which no other chosen query uses; of another one that of operators
    which the plan does not have: what the query adds to the capacity that is used.
    """
    if plan.queries is None or plan.operators is None:
        return []
    price = plan.price or 0.0
    users = np.bincount(problem.uses[plan.queries[problem.uses[:, 0]], 1], minlength=problem.n_operators)
    room = math.fsum([problem.capacity, *(-problem.weight[plan.operators]).tolist()])
    rows = []
    for q, chosen in enumerate(plan.queries.tolist()):
        operators = problem.operators_of(q)
        own = operators[users[operators] == 1] if chosen else operators[~plan.operators[operators]]
        weight, value = math.fsum(problem.weight[own].tolist()), float(problem.value[q])
        why = _worth(value, weight, price) + ("" if chosen else f"; {display.number(room, 6)} is left")
        rows.append(SelectionReason(q, int(chosen), value, weight, why))
    return rows


def _worth(value: float, weight: float, price: float) -> str:
    paid = price * weight
    if paid == 0:
        return f"is worth {display.number(value, 6)} and its capacity nothing"
    return f"is worth {display.number(value, 6)}, its capacity {display.number(paid, 6)} at the price"
