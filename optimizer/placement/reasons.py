"""Why an instance is where it is, and why not elsewhere: what each other host lacks for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models import display
from models.checked_arrays import IntArray
from models.planning.placement import Placement, PlacementPlan
from optimizer.placement.first_fit import Hosts

_OTHERS = 2  # other hosts that are named for each instance


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
    """A reason for each instance; of the other hosts those that lack least of a resource, the lowest first."""
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
        others = [int(h) for h in order[: _OTHERS + 1] if h != plan.host[i]][:_OTHERS]
        why = tuple(Elsewhere(h, _why_not(problem, hosts, plan.host, i, h, most, counts)) for h in others)
        rows.append(PlacementReason(i, int(plan.host[i]), _why(problem, plan.host, i), why))
    return rows


def _why(problem: Placement, host: IntArray, i: int) -> str:
    if problem.fixed_hosts[i] >= 0:
        return "fixed"
    if host[i] < 0:
        return "left out"
    mates = np.flatnonzero((host == host[i]) & (problem.colours == problem.colours[i]))
    if problem.current is not None and problem.current[i] == host[i]:
        return "runs there"
    return f"with {len(mates) - 1} more of its colour" if problem.colours[i] >= 0 and len(mates) > 1 else "fits"


def _why_not(
    problem: Placement, hosts: Hosts, host: IntArray, i: int, h: int, most: int | None, counts: IntArray
) -> str:
    """What keeps instance i from host h, all else staying as it is."""
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
