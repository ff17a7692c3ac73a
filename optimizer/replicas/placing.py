"""Hosts for primaries that have none and for replicas: first fit, and coloured packing with first fit as fall-back.

    first-fit   primaries in the order of the graph, replicas by falling importance; hosts by the neighbour factor
    coloured    an operator is a colour; the fewest colours on a host for which everything that first fit places finds
                room, else first fit

Source: Adaptive selective replication (VLDB PhD workshop 2013), section 3.3. Primaries that run stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.placement import Placement
from models.planning.replicas import Instances, ReplicaProblem
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
    for step in range(int(wanted.max(initial=0)) if level is not None else 1):
        todo = [o for o in order.tolist() if (wanted[o] > step if level is not None else instances[o][0] < 0)]
        new += [len(operator) + k for k in range(len(todo))]
        operator += todo
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
        tried = next((host for host in _tries(made, order, middle) if int((host >= 0).sum()) >= target), None)
        if tried is None:
            low = middle + 1
        else:
            best, most = tried, min(middle, made.most_colours(tried))
    return best


def _tries(made: Placement, order: IntArray, colours: int) -> list[IntArray]:
    return [first_fit(made, order, max_colours=colours), best_fit(made, max_colours=colours)]


PLACEMENTS: dict[str, Pack] = {"first-fit": first_fit, "coloured": coloured}
