"""Running replicas stay on their hosts, unless these or the budget have no room for them.

A replica that leaves its host counts as a move, whether it starts on another host or is given up: both undo what runs.
Where loads have grown or the budget has shrunk some have to leave. Of one host the heaviest, as few as will do, then
the heaviest of all: no set of fewer frees as much, since any other can be exchanged for one with these in it.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.replicas import ROUNDING, ReplicaProblem
from optimizer.replicas.placing import Placed, place_primaries

Kept = list[list[int]]


def start_of(problem: ReplicaProblem, method: str = "first-fit", budget: float | None = None) -> Placed:
    """Return primaries with their hosts, and the running replicas as far as budget and room allow.

    Primaries without a host find one beside these replicas, or else these make room.
    """
    if not problem.running:
        return place_primaries(problem, method)
    most = problem.capacity if budget is None else min(budget, problem.capacity)
    kept = keep(problem, problem.primaries.tolist(), most)
    found = place_primaries(problem, method, kept)
    if found.whole:
        return found
    bare = place_primaries(problem, method)
    if not bare.whole:
        return bare
    firsts = [hosts[0] for hosts in bare.instances]
    kept = keep(problem, firsts, most)
    return Placed([[first, *hosts] for first, hosts in zip(firsts, kept, strict=True)], 0)


def usable(problem: ReplicaProblem, start: Placed) -> bool:
    """Return whether every operator has a primary and no more replicas have left than may."""
    most = problem.max_moves
    return start.whole and (most is None or problem.moves(start.instances) <= most)


def keep(problem: ReplicaProblem, primaries: list[int], budget: float) -> Kept:
    """Return the replicas that run and can stay where they are, beside primaries on these hosts, -1 for none."""
    kept = [list(hosts) for hosts in problem.running]
    for load, room in _kinds(problem):
        _fit(load, room, primaries, kept)
    _within(problem, kept, budget)
    return kept


def least_moves(problem: ReplicaProblem) -> int:
    """Return the least number of running replicas that leave their hosts in any plan: by CPU, budget and network."""
    found = 0
    for load, room in _kinds(problem):
        kept = [list(hosts) for hosts in problem.running]
        _fit(load, room, problem.primaries.tolist(), kept)
        if load is problem.load:
            _within(problem, kept, problem.capacity)
        found = max(found, sum(map(len, problem.running)) - sum(map(len, kept)))
    return found


def least_cost(problem: ReplicaProblem) -> float:
    """Return the least load of running replicas in any plan: of all but the heaviest that may leave."""
    loads = sorted(load for load, hosts in zip(problem.load.tolist(), problem.running, strict=False) for _ in hosts)
    leaving = len(loads) if problem.max_moves is None else problem.max_moves
    return float(sum(loads[: max(0, len(loads) - leaving)])) * (1 - 1e-12)


def _fit(load: FloatArray, room: FloatArray, primaries: list[int], kept: Kept) -> None:
    """Give up the heaviest of each host until it has room."""
    for host, over in enumerate(_over(load, room, primaries, kept)):
        left = over
        for o in sorted((o for o, hosts in enumerate(kept) if host in hosts), key=lambda o: (-load[o], o)):
            if left > ROUNDING * float(room.max()):
                kept[o].remove(host)
                left -= float(load[o])


def _within(problem: ReplicaProblem, kept: Kept, budget: float) -> None:
    """Give up the heaviest until the budget has room, and no more are left than there may be."""
    slack = problem.slack * max(1.0, problem.n_hosts)
    cost, count = problem.cost([[-1, *hosts] for hosts in kept]), sum(map(len, kept))
    most = count if problem.max_replicas is None else problem.max_replicas
    for o in sorted(range(len(kept)), key=lambda o: (-problem.load[o], o)):
        while kept[o] and (cost > budget + slack or count > most):
            kept[o].pop()
            cost, count = cost - float(problem.load[o]), count - 1


def _kinds(problem: ReplicaProblem) -> list[tuple[FloatArray, FloatArray]]:
    """Return (loads of operators, capacities of hosts) of CPU, and of the network where it is limited."""
    found = [(problem.load, problem.host_cpu)]
    if problem.network is not None and problem.host_network is not None:
        found.append((problem.network, problem.host_network))
    return found


def _over(load: FloatArray, room: FloatArray, primaries: list[int], kept: Kept) -> list[float]:
    """Return by how much each host has too much to do."""
    used = np.zeros(len(room))
    for o, hosts in enumerate(kept):
        for host in [primaries[o], *hosts] if primaries[o] >= 0 else hosts:
            used[host] += load[o]
    return [float(one) for one in used - room]
