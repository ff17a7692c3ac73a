"""Trying all placements of a small problem without a solver, in whole numbers: is there one within given limits?

The search is depth first: fixed instances, then large ones, or for goal "value" those worth most for what they take.
Hosts that are alike in all that still matters are the same to what comes next, so one of them is tried, and states that
were met before are not tried again. The search ends after a number of steps, undecided then.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.planning.placement import Placement
from optimizer.common.enumeration import MOST_STEPS, Tried, exact_integers

_MOST_PAIRS = 2_000  # instances times hosts
_MOST_INSTANCES = 200
_PAIRS_OF_A_STEP = 100  # of instance and host, that take as long to look at as the rest of a step


def placement_within(
    problem: Placement,
    *,
    most_colours: int | None = None,
    most_hosts: int | None = None,
    more_than: float | None = None,
    most: int = MOST_STEPS,
) -> Tried:
    """Return hosts (n,) that keep every rule, with at most so many colours on a host and so many hosts in use.

    With `more_than`, instances may be left out (-1), and those placed must be worth more than it. `most` limits the
    steps. Without a placement, `decided` of the result says whether that is a proof.
    """
    n = problem.n_instances
    if n > _MOST_INSTANCES or n * problem.n_hosts > _MOST_PAIRS:
        return Tried(None, False)
    limits = [limit for limit in (most_colours, problem.max_colours) if limit is not None]
    search = _Search(problem, min(limits, default=n), problem.n_hosts if most_hosts is None else most_hosts, more_than)
    search.left = most * _PAIRS_OF_A_STEP
    try:
        found = search.place(0, 0, 0)
    except _TooManyStepsError:
        return Tried(None, False)
    return Tried(np.array(search.host, dtype=np.int64) if found else None, True)


class _TooManyStepsError(Exception):
    """All could not be tried."""


class _Search:
    """The state of the search: what is placed, and what is left of each host."""

    def __init__(self, problem: Placement, most_colours: int, most_hosts: int, more_than: float | None) -> None:
        n, hosts = problem.n_instances, range(problem.n_hosts)
        self._most_colours, self._most_hosts = most_colours, most_hosts
        self._may_leave_out = more_than is not None
        self._values, (self._goal,) = exact_integers(problem.values.tolist(), [more_than or 0.0])
        self._loads: list[tuple[int, ...]] = [tuple(row) for row in problem.loads.tolist()]
        self._operators, self._colours = problem.operators.tolist(), problem.colours.tolist()
        self._fixed, self._zones = problem.fixed_hosts.tolist(), problem.zones.tolist()
        self._current = [-1] * n if problem.current is None else problem.current.tolist()
        self._most_moves = n if problem.max_moves is None else problem.max_moves
        self._free = [list(row) for row in problem.rooms.tolist()]
        self._with_colour: list[dict[int, int]] = [{} for _ in hosts]
        self._in_zone: set[tuple[int, int]] = set()  # operator, zone
        self._count = [0 for _ in hosts]
        self.host = [-1] * n
        self.left = 0
        self._order = self._ordered(problem)
        self._by_density = [self._densest(r) for r in range(len(problem.resources))]
        self._place_of = {i: at for at, i in enumerate(self._order)}
        named = set() if problem.max_moves is None else set(self._current)
        one_domain = problem.anti_affinity == "host"
        self._names = [(h if h in named else -1, -1 if one_domain else self._zones[h]) for h in hosts]
        rest = [self._order[at:] for at in range(n + 1)]
        self._later_colours = [{self._colours[i] for i in each} for each in rest]
        self._later_operators = [{self._operators[i] for i in each} for each in rest]
        self._met: dict[tuple[object, ...], int] = {}

    def _ordered(self, problem: Placement) -> list[int]:
        """Return the instances in the order in which they are placed."""
        room = [max(1, int(each)) for each in problem.rooms.sum(axis=0)]
        size = [sum(load / r for load, r in zip(self._loads[i], room, strict=True)) for i in range(len(self.host))]

        def key(i: int) -> tuple[float, ...]:
            value = float(problem.values[i]) / max(size[i], 1e-9) if self._may_leave_out else size[i]
            return (self._fixed[i] < 0, -value)

        return sorted(range(len(self.host)), key=key)

    def _densest(self, resource: int) -> list[int]:
        """Return the instances by falling value per load."""
        return sorted(
            range(len(self.host)), key=lambda i: -((self._values[i] << 64) // max(1, self._loads[i][resource]))
        )

    def place(self, at: int, moves: int, value: int) -> bool:
        """Return whether the instances from a place of the order on can be placed; `host` has them then."""
        self.left -= _PAIRS_OF_A_STEP + len(self.host) * len(self._free)
        if self.left < 0:
            raise _TooManyStepsError
        if at == len(self._order):
            return not self._may_leave_out or value > self._goal
        if not self._may_reach(at, value) or self._is_known(at, moves, value):
            return False
        i = self._order[at]
        for h in self._choices(at):
            moved = moves + (self._current[i] not in (-1, h))
            if moved <= self._most_moves:
                self._put(i, h)
                if self.place(at + 1, moved, value + self._values[i]):
                    return True
                self._take(i, h)
        moved = moves + (self._current[i] >= 0)
        without = self._may_leave_out and self._fixed[i] < 0 and moved <= self._most_moves
        return without and self.place(at + 1, moved, value)

    def _choices(self, at: int) -> Iterator[int]:
        """Generate the hosts that may take the next instance, one of those that are alike; those in use come first."""
        i = self._order[at]
        hosts = range(len(self._free)) if self._fixed[i] < 0 else [self._fixed[i]]
        tried = set()
        in_use = sum(count > 0 for count in self._count)
        for h in sorted(hosts, key=lambda h: (self._current[i] != h, not self._count[h], sum(self._free[h]))):
            name = self._state_of(h, at)
            if name not in tried and self._may_take(h, i, in_use):
                tried.add(name)
                yield h

    def _may_take(self, h: int, i: int, in_use: int) -> bool:
        colour = self._colours[i]
        new_colour = colour >= 0 and colour not in self._with_colour[h]
        return (
            all(load <= free for load, free in zip(self._loads[i], self._free[h], strict=True))
            and (self._operators[i], self._zones[h]) not in self._in_zone
            and not (new_colour and len(self._with_colour[h]) >= self._most_colours)
            and (self._count[h] > 0 or in_use < self._most_hosts)
        )

    def _put(self, i: int, h: int) -> None:
        self.host[i] = h
        self._count[h] += 1
        self._free[h] = [free - load for free, load in zip(self._free[h], self._loads[i], strict=True)]
        self._in_zone.add((self._operators[i], self._zones[h]))
        if self._colours[i] >= 0:
            self._with_colour[h][self._colours[i]] = self._with_colour[h].get(self._colours[i], 0) + 1

    def _take(self, i: int, h: int) -> None:
        self.host[i] = -1
        self._count[h] -= 1
        self._free[h] = [free + load for free, load in zip(self._free[h], self._loads[i], strict=True)]
        self._in_zone.remove((self._operators[i], self._zones[h]))
        if self._colours[i] >= 0:
            self._with_colour[h][self._colours[i]] -= 1
            if not self._with_colour[h][self._colours[i]]:
                del self._with_colour[h][self._colours[i]]

    def _may_reach(self, at: int, value: int) -> bool:
        """Return whether the room that is left, in parts, is enough for all that must be placed, or for the value."""
        used = [free for free, count in zip(self._free, self._count, strict=True) if count]
        unused = [free for free, count in zip(self._free, self._count, strict=True) if not count]
        for r, densest in enumerate(self._by_density):
            most = sorted((free[r] for free in unused), reverse=True)[: max(0, self._most_hosts - len(used))]
            room = sum(free[r] for free in used) + sum(most)
            if not self._may_leave_out:
                if sum(self._loads[i][r] for i in self._order[at:]) > room:
                    return False
            elif value + self._most_value(at, r, densest, room) <= self._goal:
                return False
        return True

    def _most_value(self, at: int, r: int, densest: list[int], room: int) -> int:
        """Return what instances from a place on are worth at most that may be divided, rounded up."""
        total = 0
        for i in densest:
            if self._place_of[i] < at:
                continue
            load = self._loads[i][r]
            if load > room:
                return total - (-self._values[i] * room // load)
            total, room = total + self._values[i], room - load
        return total

    def _is_known(self, at: int, moves: int, value: int) -> bool:
        """Return whether the same was met before, with as few moves and as much value; keep it."""
        hosts = sorted(self._state_of(h, at) for h in range(len(self._free)))
        key = (at, moves, *hosts)
        if self._met.get(key, -1) >= value:
            return True
        self._met[key] = value
        return False

    def _state_of(self, h: int, at: int) -> tuple[object, ...]:
        """Return all of a host that matters for the instances from a place on."""
        colours, zone = self._with_colour[h], self._zones[h]
        there = sorted(each for each in colours if each in self._later_colours[at])
        operators = sorted(each for each in self._later_operators[at] if (each, zone) in self._in_zone)
        return (self._names[h], self._count[h] > 0, len(colours), *self._free[h], *there, -1, *operators)
