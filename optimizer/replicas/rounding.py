"""A plan from a whole solution of the program: instances that share a host in it share one here, if there is room."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.replicas import ROUNDING, ReplicaProblem
from optimizer.replicas.placing import Placed
from optimizer.verify.replica_program import Program

_HALF = 0.5


def chosen(problem: ReplicaProblem, columns: FloatArray) -> frozenset[int]:
    """Return the operators that have a replica in the solution."""
    return frozenset(np.flatnonzero(columns[: problem.n_operators] > _HALF).tolist())


def primaries_of(problem: ReplicaProblem, program: Program, columns: FloatArray) -> Placed | None:
    """Return hosts for the primaries, group by group, the heaviest group first; None where one finds no room."""
    rooms = _Rooms(problem)
    hosts = problem.primaries.tolist()
    for o, host in enumerate(hosts):
        if host >= 0:
            rooms.put(o, host)
    for group in _groups(problem, program, columns):
        new = [o for o in group if hosts[o] < 0]
        together = rooms.host_for(new)
        for o in sorted(new, key=lambda o: (-problem.load[o], o)):
            host = rooms.host_for([o]) if together is None else together
            if host is None:
                return None
            hosts[o] = host
            rooms.put(o, host)
    return Placed([[host] for host in hosts], 0)


def _groups(problem: ReplicaProblem, program: Program, columns: FloatArray) -> list[list[int]]:
    """Return the operators by the host that they share, the heaviest group first."""
    leader, replicated = list(range(problem.n_operators)), chosen(problem, columns)

    def root(o: int) -> int:
        while leader[o] != o:
            o = leader[o]
        return o

    together = [pair for pair, column in program.pairs.items() if columns[column] > _HALF]
    for q, column in program.spread.items():
        if columns[column] <= _HALF:
            together += pairwise(o for o in problem.operators[q] if o not in replicated)
    for one, other in together:
        leader[max(root(one), root(other))] = min(root(one), root(other))
    found: dict[int, list[int]] = {}
    for o in range(problem.n_operators):
        found.setdefault(root(o), []).append(o)
    return sorted(found.values(), key=lambda group: (-float(problem.load[group].sum()), group))


class _Rooms:
    """The free capacity of the hosts for primaries."""

    def __init__(self, problem: ReplicaProblem) -> None:
        assert problem.primary_hosts is not None
        self._open = problem.primary_hosts
        slack = 1 + ROUNDING
        self._kinds = [(problem.load, problem.host_cpu * slack)]
        if problem.network is not None and problem.host_network is not None:
            self._kinds.append((problem.network, problem.host_network * slack))

    def put(self, o: int, host: int) -> None:
        """Take the room of an operator."""
        for load, room in self._kinds:
            room[host] -= load[o]

    def host_for(self, operators: Sequence[int]) -> int | None:
        """Return the first host with room for all of them."""
        fits = self._open.copy()
        for load, room in self._kinds:
            fits &= room >= float(load[list(operators)].sum())
        return int(fits.argmax()) if fits.any() else None
