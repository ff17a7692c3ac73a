"""Placements of units while hosts fail and come back, and only recoveries move units: a Markov chain on counts.

Units (key groups, or tasks without keys) of a host that fails are recovered one after the other on the live host with
the fewest. A host that comes back is empty; if none is up, all units wait for the first that comes back. Hosts are
alike, so the next state depends only on the multiset of units by host and on the number of hosts down. The chain is
exact for any shares of the load, since placement does not look at them.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray
from models.reliability.chains import stationary

MOST_PLACEMENTS = 1500
Counts = tuple[int, ...]  # units of each host that is up, falling


@dataclass(frozen=True)
class Failure:
    """One of `hosts` hosts with `units` units fails, and state `then` is next."""

    hosts: int
    units: int
    then: int


@dataclass(frozen=True)
class Placements:
    """All states that are reached from an even start, which is state 0.

    `failures[k]` are those that state k may meet, `repaired[k]` the state after a repair (None: none is down).
    """

    counts: tuple[Counts, ...]
    down: tuple[int, ...]
    failures: tuple[tuple[Failure, ...], ...]
    repaired: tuple[int | None, ...]

    @property
    def home(self) -> int:
        """Return a state that all others reach: one host has failed and is back. The start may never recur."""
        found = self.repaired[self.failures[0][0].then]
        assert found is not None
        return found

    def repair_rate(self, state: int, crews: int, mttr_s: float) -> float:
        """Return the rate of repairs in a state [1/s]."""
        return min(self.down[state], crews) / mttr_s

    def law(self, mttf_s: float, mttr_s: float, crews: int) -> FloatArray:
        """Return P(state) in the long run, (states,)."""
        rates: dict[tuple[int, int], float] = {}
        for state, failures in enumerate(self.failures):
            for one in failures:
                rates[state, one.then] = rates.get((state, one.then), 0.0) + one.hosts / mttf_s
            back = self.repaired[state]
            if back is not None:
                rates[state, back] = rates.get((state, back), 0.0) + self.repair_rate(state, crews, mttr_s)
        return law_from(self.home, len(self.counts), rates)


def law_from(home: int, n_states: int, rates: dict[tuple[int, int], float]) -> FloatArray:
    """Return `stationary` of a chain in which `home` is the state that is reached from all others."""
    # `stationary` asks for a state 0 that all others reach: swap the numbers, and swap them back.
    other = {0: home, home: 0}
    swapped = {(other.get(a, a), other.get(b, b)): rate for (a, b), rate in rates.items() if a != b}
    found = stationary(n_states, swapped)
    found[[0, home]] = found[[home, 0]]
    return found


def after_failure(counts: Counts, units: int) -> Counts:
    """Return the counts after the failure of a host with so many units."""
    left = list(counts)
    left.remove(units)
    if not left:
        return ()
    for _ in range(units):
        left[left.index(min(left))] += 1
    return tuple(sorted(left, reverse=True))


def placements(hosts: int, units: int, most: int = MOST_PLACEMENTS) -> Placements | None:
    """Return all states of so many hosts and units, breadth-first; None if there are more than `most`."""
    even = tuple(units // hosts + (host < units % hosts) for host in range(hosts))
    place = {(even, 0): 0}
    todo = deque(place)
    failures: list[tuple[Failure, ...]] = []
    repaired: list[int | None] = []

    def number(counts: Counts, down: int) -> int:
        if (counts, down) not in place:
            place[counts, down] = len(place)
            todo.append((counts, down))
        return place[counts, down]

    while todo:
        counts, down = todo.popleft()
        failures.append(
            tuple(
                Failure(times, own, number(after_failure(counts, own), down + 1))
                for own, times in sorted(Counter(counts).items(), reverse=True)
            )
        )
        # A host that is back is empty; if it is the only one, all units that waited come to it.
        repaired.append(number((*counts, 0) if counts else (units,), down - 1) if down else None)
        if len(place) > most:
            return None
    states = list(place)
    return Placements(tuple(c for c, _ in states), tuple(d for _, d in states), tuple(failures), tuple(repaired))


@dataclass(frozen=True, eq=False)
class Shares:
    """Least and largest share of the load that k units can have, for k = 0 .. all: (units + 1,) each."""

    least: FloatArray
    most: FloatArray

    @classmethod
    def of(cls, shares: FloatArray) -> Shares:
        """Return the bounds for these shares of single units, in any order."""
        falling = np.sort(shares)[::-1] / shares.sum()
        most = np.concatenate([[0.0], np.cumsum(falling)])
        least = np.concatenate([[0.0], np.cumsum(falling[::-1])])
        return cls(least, np.minimum(most, 1.0))
