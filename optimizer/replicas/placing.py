"""Hosts for primaries that have none and for replicas, and the running replicas that stay where they are.

    first-fit   primaries in the order of the graph, replicas by falling importance; hosts by the neighbour factor
    coloured    an operator is a colour; the fewest colours on a host for which everything that first fit places finds
                room, else first fit

Source: Adaptive selective replication (VLDB PhD workshop 2013), section 3.3. Primaries that run stay where they are.

`start_of` keeps running replicas on their hosts, unless these or the budget have no room for them. A replica that
leaves its host counts as a move, whether it starts on another host or is given up: both undo what runs. Where loads
have grown or the budget has shrunk some have to leave. Of one host the heaviest, as few as will do, then the heaviest
of all: no set of fewer frees as much, since any other can be exchanged for one with these in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.placement import Placement
from models.planning.replicas import ROUNDING, Instances, ReplicaProblem
from optimizer.placement import best_fit, first_fit


@dataclass(frozen=True)
class Placed:
    """The hosts of the instances of each operator, the primary first, -1 for one without; what was left out.

    colours: the most different operators on a host that has a replica; None where they were not limited.
    """

    instances: list[list[int]]
    left_out: int
    colours: int | None = None

    @property
    def whole(self) -> bool:
        """Return whether every operator has a primary."""
        return all(hosts[0] >= 0 for hosts in self.instances)

    @property
    def frozen(self) -> Instances:
        """Return the instances as a plan has them."""
        return tuple(map(tuple, self.instances))


Pack = Callable[[Placement, IntArray], IntArray]


def place_primaries(
    problem: ReplicaProblem, method: str = "first-fit", replicas: Sequence[Sequence[int]] | None = None
) -> Placed:
    """Place primaries that have no host yet, in the order of the graph; `method` is one of PLACEMENTS.

    `replicas`: those of each operator that are there already, and stay.
    """
    order = np.arange(problem.n_operators)
    beside = replicas or [()] * problem.n_operators
    instances = [[int(h), *own] for h, own in zip(problem.primaries, beside, strict=True)]
    return _placed(problem, instances, order, None, PLACEMENTS[method])


def place_replicas(
    problem: ReplicaProblem, instances: Sequence[Sequence[int]], level: IntArray, importance: FloatArray, method: str
) -> Placed:
    """Place `level` more replicas (n,) beside the instances that have hosts; `method` is one of PLACEMENTS."""
    order = np.argsort(-importance, kind="stable")
    return _placed(problem, [list(hosts) for hosts in instances], order, level, PLACEMENTS[method])


def _placed(
    problem: ReplicaProblem, instances: list[list[int]], order: IntArray, level: IntArray | None, pack: Pack
) -> Placed:
    """Return what `pack` makes of all instances: those that have a host are fixed, the others are new."""
    wanted = np.zeros(problem.n_operators, np.int64) if level is None else level
    mask = problem.primary_hosts if level is None else problem.replica_hosts
    assert mask is not None
    operator, fixed, new = [], [], []
    for o, hosts in enumerate(instances):
        there = [h for h in hosts if h >= 0 and mask[h]]
        operator += [o] * len(there)
        fixed += there
    # Level by level: every operator gets its next replica before any gets the one after it.
    for step in range(int(wanted.max(initial=0)) if level is not None else 1):
        todo = [o for o in order.tolist() if (wanted[o] > step if level is not None else instances[o][0] < 0)]
        new += [len(operator) + k for k in range(len(todo))]
        operator += todo
        # -1 marks instances without a host: the packing fixes the others.
        fixed += [-1] * len(todo)
    if not new or not mask.any():
        return Placed(instances, len(new))
    made = _problem(problem, mask, np.array(operator), np.array(fixed))
    found = pack(made, np.array(new))
    hosts_of = np.flatnonzero(mask)
    left_out = 0
    for index in new:
        if found[index] < 0:
            left_out += 1
        elif level is None:
            instances[operator[index]][0] = int(hosts_of[found[index]])
        else:
            instances[operator[index]].append(int(hosts_of[found[index]]))
    return Placed(instances, left_out, made.most_colours(found) if pack is coloured else None)


def _problem(problem: ReplicaProblem, mask: BoolArray, operator: IntArray, fixed: IntArray) -> Placement:
    """Return the packing of instances on the hosts of the mask, which are counted from 0."""
    # Hosts outside the mask do not exist for the packing: the others are numbered anew.
    number = np.cumsum(mask) - 1
    limited = problem.network is not None and problem.host_network is not None
    return Placement(
        cpu=problem.load[operator],
        host_cpu=problem.host_cpu[mask],
        network=problem.network[operator] if limited and problem.network is not None else None,
        host_network=problem.host_network[mask] if limited and problem.host_network is not None else None,
        operator=operator,
        neighbours=problem.edges,
        fixed=np.where(fixed >= 0, number[fixed], -1),
    )


def coloured(made: Placement, order: IntArray) -> IntArray:
    """Return a packing of the fewest colours that places as much as first fit; of equal ones the first.

    Bisection: with more colours allowed a heuristic may fail where it did not with fewer, so the number that is found
    is one that does, not proven to be the least (`optimizer.placement` proves).
    """
    simple = first_fit(made, order)
    target = int((simple >= 0).sum())
    best, most = simple, made.most_colours(simple)
    low = 1
    while low < most:
        middle = (low + most) // 2
        # Fewer colours count only when as much is placed as by first fit.
        tried = next((host for host in _tries(made, order, middle) if int((host >= 0).sum()) >= target), None)
        if tried is None:
            low = middle + 1
        else:
            # The packing found may use fewer colours than were allowed: the search goes on from there.
            best, most = tried, min(middle, made.most_colours(tried))
    return best


def _tries(made: Placement, order: IntArray, colours: int) -> list[IntArray]:
    return [first_fit(made, order, max_colours=colours), best_fit(made, max_colours=colours)]


PLACEMENTS: dict[str, Pack] = {"first-fit": first_fit, "coloured": coloured}


Kept = list[list[int]]


def start_of(problem: ReplicaProblem, method: str = "first-fit", budget: float | None = None) -> Placed:
    """Return primaries with their hosts, and the running replicas as far as budget and room allow.

    Primaries without a host find one beside these replicas, or else these make room.
    """
    if not problem.running:
        return place_primaries(problem, method)
    most = problem.capacity if budget is None else min(budget, problem.capacity)
    kept = keep(problem, problem.primaries.tolist(), most)
    # Primaries come after the running replicas; if one finds no host, replicas make room in the second try.
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
    """Return whether every operator has a primary and no more replicas have left than may.

    The limit on moves counts replicas that left their hosts, also those that were given up.
    """
    most = problem.max_moves
    return start.whole and (most is None or problem.moves(start.instances) <= most)


def keep(problem: ReplicaProblem, primaries: list[int], budget: float) -> Kept:
    """Return the replicas that run and can stay where they are, beside primaries on these hosts, -1 for none.

    Replicas leave where their host has too much of a resource, or where they exceed the budget or their number: the
    heaviest first.
    """
    kept = [list(hosts) for hosts in problem.running]
    # Each resource removes on its own: after the last one no host has too much of either.
    for load, room in _kinds(problem):
        _fit(load, room, primaries, kept)
    _within(problem, kept, budget)
    return kept


def least_moves(problem: ReplicaProblem) -> int:
    """Return the least number of running replicas that leave their hosts in any plan: by CPU, budget and network.

    It is a lower bound: each resource is looked at by itself.
    """
    found = 0
    for load, room in _kinds(problem):
        kept = [list(hosts) for hosts in problem.running]
        _fit(load, room, problem.primaries.tolist(), kept)
        if load is problem.load:
            _within(problem, kept, problem.capacity)
        # Each resource alone gives a lower bound, so the largest of them is one.
        found = max(found, sum(map(len, problem.running)) - sum(map(len, kept)))
    return found


def least_cost(problem: ReplicaProblem) -> float:
    """Return the least load of running replicas in any plan: of all but the heaviest that may leave."""
    loads = sorted(load for load, hosts in zip(problem.load.tolist(), problem.running, strict=False) for _ in hosts)
    # The heaviest may leave: what must stay costs at least the lightest rest. Rounded down, as a bound.
    leaving = len(loads) if problem.max_moves is None else problem.max_moves
    return float(sum(loads[: max(0, len(loads) - leaving)])) * (1 - 1e-12)


def _fit(load: FloatArray, room: FloatArray, primaries: list[int], kept: Kept) -> None:
    """Give up the heaviest of each host until it has room."""
    for host, over in enumerate(_over(load, room, primaries, kept)):
        left = over
        # Heaviest first frees a host with the fewest departures.
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
