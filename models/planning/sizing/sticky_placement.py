"""Sticky placement: upper and lower bounds of the unavailability of a system whose units stay where they are.

State of the chain: the placement of the units (`placements`), and the backlog B [hosts x s]. The load of a host with c
units lies between that of the c lightest and that of the c heaviest units, rho <= load * most(c). When a host with c
units fails

    B rises by rho (L + D), L = T / 2 + C rolled back and D not worked on, and by (u - rho_max) (D + S), which pass
    B falls by u - rho_max a second, rho_max the bound of the fullest host: the whole backlog may be there
    B rises by the sum of rho - u over hosts that are too full (rho >= u), until a failure moves units again

with S until the queues of all hosts have been empty once, u = 1 - pause / T. A host with a backlog works at full speed,
so that a failure then rolls back up to u L. The system serves if B = 0 and no host is fuller than `utilisation`. B has
discrete levels; a jump between two of them is divided so that its mean is kept, and drains take their mean time. This
is an upper bound: loads are the heaviest possible, and hosts that catch up in parallel count one after the other.

The lower bound: each failure of a host with units takes D, and then all hosts with units together catch up with the
backlog of the c lightest units; a later failure restarts that. If even the mean load of these hosts is too large, the
backlog never shrinks.

The first half of the module are the placements (`placements`), a Markov chain on counts in which only recoveries move
units. Units (key groups, or tasks without keys) of a host that fails are recovered one after the other on the live host
with the fewest. A host that comes back is empty; if none is up, all units wait for the first that comes back. Hosts are
alike, so the next state depends only on the multiset of units by host and on the number of hosts down. The chain is
exact for any shares of the load, since placement does not look at them.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.sizing.problem import SizingProblem, SystemPlan
from models.reliability.repair import stationary

MOST_PLACEMENTS = 1500
Counts = tuple[int, ...]  # units of each host that is up, falling


@dataclass(frozen=True)
class Failure:
    """One of `hosts` hosts with `units` units fails, and state `then` is next; each such host fails at 1 / MTTF."""

    hosts: int
    units: int
    then: int


@dataclass(frozen=True)
class Placements:
    """All states that are reached from an even start, which is state 0.

    `counts[k]`: units of each host that is up in state k, falling. `down[k]`: hosts that are down. `failures[k]`: those
    that state k may meet. `repaired[k]`: the state after a repair (None: none is down).
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
        """Return the rate of repairs in a state [1/s]: hosts that are down, at most the crews, over MTTR."""
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
    """Return the stationary law (n_states,) of a chain in which `home` is the state that is reached from all others.

    `rates`: (from, to) -> rate [1/s].
    """
    # `stationary` asks for a state 0 that all others reach: swap the numbers, and swap them back.
    other = {0: home, home: 0}
    swapped = {(other.get(a, a), other.get(b, b)): rate for (a, b), rate in rates.items() if a != b}
    found = stationary(n_states, swapped)
    found[[0, home]] = found[[home, 0]]
    return found


def after_failure(counts: Counts, units: int) -> Counts:
    """Return the counts after the failure of a host with so many units.

    >>> after_failure((3, 3, 2), 3)  # each of its units goes to the host with the fewest
    (4, 4)
    """
    left = list(counts)
    left.remove(units)
    if not left:
        return ()
    # One by one to the host with the fewest: the order of equal hosts does not matter, counts are sorted.
    for _ in range(units):
        left[left.index(min(left))] += 1
    return tuple(sorted(left, reverse=True))


def placements(hosts: int, units: int, most: int = MOST_PLACEMENTS) -> Placements | None:
    """Return all states of so many hosts and units, breadth-first; None if there are more than `most`.

    The chain has one state for each multiset of counts with a number of hosts down that can come about; their number
    grows fast with hosts and units.
    """
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

    # Ends: states are finite, and each is numbered once; too many of them end it early.
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
    """Least and largest share of the load that k units can have, for k = 0 .. all: (units + 1,) each.

    >>> bounds = Shares.of(np.array([1.0, 2.0, 1.0]))
    >>> bounds.least.tolist(), bounds.most.tolist()
    ([0.0, 0.25, 0.5, 1.0], [0.0, 0.5, 0.75, 1.0])
    """

    least: FloatArray
    most: FloatArray

    @classmethod
    def of(cls, shares: FloatArray) -> Shares:
        """Return the bounds for these shares of single units, in any order."""
        falling = np.sort(shares)[::-1] / shares.sum()
        most = np.concatenate([[0.0], np.cumsum(falling)])
        least = np.concatenate([[0.0], np.cumsum(falling[::-1])])
        # Cumulative sums of shares may exceed 1 by rounding.
        return cls(least, np.minimum(most, 1.0))


_RATIO = 1.5  # between levels of the backlog
_LONG = 12  # mean times to failure for which a backlog may grow
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class StickyPlacement:
    """A plan with units: its placements, their chances, and the loads of hosts in each.

    `states`: the placements. `law` (states,): P(placement) in the long run. `shares`: bounds of the load of k units.
    Loads are in hosts, a backlog is in hosts x seconds: with one host free it takes as many seconds.
    """

    problem: SizingProblem
    plan: SystemPlan
    states: Placements
    law: FloatArray
    shares: Shares

    @classmethod
    def of(cls, problem: SizingProblem, plan: SystemPlan) -> StickyPlacement | None:
        """Return the plan's placements; None where there are too many to look at."""
        units = problem.description.units
        assert units is not None
        states = placements(plan.hosts, units.number)
        # Undecided rather than approximate: the caller calls the plan open.
        if states is None:
            return None
        law = states.law(problem.mttf_s, problem.mttr_s, plan.crews or plan.hosts)
        return cls(problem, plan, states, law, Shares.of(np.array(units.values)))

    @property
    def load(self) -> float:
        """Return the hosts that all work keeps busy."""
        return self.problem.load(self.plan)

    def fullest(self, state: int) -> float:
        """Return rho_max, the largest load of the fullest host; infinite if no host is up."""
        counts = self.states.counts[state]
        return self.load * float(self.shares.most[counts[0]]) if counts else math.inf

    def used_hosts(self, state: int) -> int:
        """Return the hosts that have units."""
        return sum(own > 0 for own in self.states.counts[state])

    def too_full(self, state: int) -> bool:
        """Return whether some host may be fuller than it may be."""
        return self.fullest(state) > self.problem.description.work.utilisation * _ROUNDING

    def drain(self, state: int, left: float) -> float:
        """Return how fast the backlog drains [hosts], below zero if it grows; `left` is the share u."""
        counts, load = self.states.counts[state], self.load
        if not counts:
            return -load
        # At the pace of the fullest host: other queues are shorter, so the bound is on the safe side.
        free = left - self.fullest(state)
        if free > 0:
            return free
        # Too full: the k fullest hosts together get more work than they can do, for the worst k.
        together = np.cumsum(counts)
        over = load * self.shares.most[together] - left * np.arange(1, len(counts) + 1)
        # Never 0: the backlog of a plan that is too full has to grow, or the chain would have no law.
        return -max(float(over.max()), 1e-12)

    def settle_s(self, state: int, left: float) -> float:
        """Return S, the mean time until each queue was empty once, by operator; a lower bound if u > rho_max."""
        units, service_s = self.problem.description.units, self.problem.description.work.service_s
        assert units is not None
        if service_s is None or self.drain(state, left) <= 0:
            return 0.0
        busy = self.load * self.shares.most[list(self.states.counts[state])]
        return units.steps * service_s * float((busy / (left - busy) ** 2).sum())

    @property
    def down_s(self) -> float:
        """Return D, the time from a failure until work goes on [s]; units and engines exclude each other."""
        return self.problem.down_s(self.plan.hosts)

    def left(self, interval_s: float) -> float:
        """Return u, the share of the time that checkpoints every `interval_s` leave for work."""
        return 1 - self.problem.description.checkpoints.pause_s / interval_s

    def behind_after(self, one: Failure, interval_s: float, *, late: bool = False) -> float:
        """Return the mean backlog that a failure causes [hosts x s]; `late`: a failure during an earlier backlog."""
        problem, units = self.problem, self.problem.description.units
        assert units is not None
        down, back = self.down_s, interval_s / 2 + problem.complete_s
        left, own = self.left(interval_s), self.load * float(self.shares.most[one.units])
        waits = self.load if units.steps > 1 else own  # operators downstream of the units have nothing to do
        passes = max(0.0, self.drain(one.then, left)) * (down + self.settle_s(one.then, left))
        # During an earlier backlog hosts work at full speed, so that more is rolled back than the load alone.
        return (max(own, left) if late else own) * back + waits * down + passes

    def strikes(self) -> Iterator[tuple[Failure, float]]:
        """Yield (failure of a host with units while all are up, how often beside others)."""
        for state, down in enumerate(self.states.down):
            for one in self.states.failures[state] if down == 0 else ():
                if one.units:
                    yield one, float(self.law[state]) * one.hosts

    def in_time(self, interval_s: float, target_s: float) -> float:
        """Return the share of failures in a whole system that are surely caught up within `target_s`: a lower bound."""
        total = good = 0.0
        for one, weight in self.strikes():
            total += weight
            good += weight * self._part_in_time(one, interval_s, target_s)
        return good / total if total else 1.0

    def _part_in_time(self, one: Failure, interval_s: float, target_s: float) -> float:
        """Return the share of instants within a checkpoint interval at which the failure is caught up in time."""
        problem, left = self.problem, self.left(interval_s)
        drain = self.drain(one.then, left)
        steps = problem.description.units.steps if problem.description.units else 1
        own = self.load * float(self.shares.most[one.units])
        waits = self.load if steps > 1 else own
        free = (target_s - self.down_s - self.settle_s(one.then, left)) * drain - waits * self.down_s
        if drain <= 0 or free < own * problem.complete_s:
            return 0.0
        # The rolled-back part is uniform in the interval: this is the share of instants that end in time.
        return min(1.0, (free / own - problem.complete_s) / interval_s) if own else 1.0

    def at_best_in_time(self, shortest_s: float, longest_s: float, target_s: float) -> float:
        """Return the most of the failures that may be caught up within the target, at any interval between two [s]."""
        # The most favourable figures of the whole cell: a bound on all its intervals.
        total = good = 0.0
        for one, weight in self.strikes():
            total += weight
            free = self._free_hosts(one.then, self.left(longest_s))
            own = self.load * float(self.shares.least[one.units])
            if free > 0 and own:
                back = (target_s - self.down_s) * free / own - self.down_s - self.problem.complete_s
                good += weight * min(1.0, max(0.0, back / shortest_s))
            else:
                good += weight * (free > 0 and target_s >= self.down_s)
        return good / total if total else 1.0

    def mean_recovery_s(self, interval_s: float) -> float:
        """Return the mean of failures in a whole system, at most [s]; infinite if one is never caught up."""
        total = time = 0.0
        left = self.left(interval_s)
        for one, weight in self.strikes():
            drain = self.drain(one.then, left)
            total += weight
            time += weight * self.behind_after(one, interval_s) / drain if drain > 0 else math.inf
        return time / total if total else 0.0

    def uses_per_s(self) -> float:
        """Return how often a host with units fails [1/s]."""
        pairs = zip(self.law, self.states.failures, strict=True)
        return sum(float(p) * one.hosts for p, ones in pairs for one in ones if one.units) / self.problem.mttf_s

    def _free_hosts(self, state: int, left: float) -> float:
        """Return how many hosts the hosts with units have to spare; below 0 if the work does not fit on them."""
        return self.used_hosts(state) * left - self.load

    def at_least(self, shortest_s: float, longest_s: float) -> float:
        """Return a lower bound of P(not there) for all intervals between these two [s]."""
        return float(self.at_least_by_state(shortest_s, longest_s).sum())

    def at_least_by_state(self, shortest_s: float, longest_s: float) -> FloatArray:
        """Return the same for each placement, (states,)."""
        left = self.left(longest_s)
        # Half of the shortest interval is rolled back, the longest leaves most time: no interval of the cell does
        # better.
        back = shortest_s / 2 + self.problem.complete_s + self.down_s
        frees = [self._free_hosts(state, left) for state in range(len(self.states.counts))]
        # The lightest failure that leads to a state: a lower bound must not assume a heavier one.
        fewest: dict[int, int] = {}
        for failures in self.states.failures:
            for one in failures:
                if one.units:
                    fewest[one.then] = min(one.units, fewest.get(one.then, one.units))
        own = [self.load * float(self.shares.least[fewest.get(state, 1)]) for state in range(len(frees))]
        recovery = np.array(
            [self.down_s + one * back / free if free > 0 else math.inf for one, free in zip(own, frees, strict=True)]
        )
        # A recovery of zero time would be an infinite rate.
        return self._recovering(np.maximum(recovery, 1e-9))

    def _recovering(self, recovery_s: FloatArray) -> FloatArray:
        """Return P(state and not there): each failure restarts a recovery with the mean of the state after it."""
        states, crews = self.states, self.plan.crews or self.plan.hosts
        rates: dict[tuple[int, int], float] = {}

        def add(start: int, end: int, rate: float) -> None:
            rates[start, end] = rates.get((start, end), 0.0) + rate

        for state, failures in enumerate(states.failures):
            # Two copies of each state: not in a recovery, and in one.
            for doing in (0, 1):
                for one in failures:
                    add(2 * state + doing, 2 * one.then + (1 if one.units else doing), one.hosts / self.problem.mttf_s)
                back = states.repaired[state]
                if back is not None:
                    add(2 * state + doing, 2 * back + doing, states.repair_rate(state, crews, self.problem.mttr_s))
            # An infinite recovery has no end: only another state can make it finite.
            if math.isfinite(recovery_s[state]):
                add(2 * state + 1, 2 * state, 1 / float(recovery_s[state]))
        law = law_from(2 * states.home + 1, 2 * len(states.counts), rates)
        stands = self.problem.description.work.utilisation * _ROUNDING
        mean = [self.load / max(self.used_hosts(state), 1e-9) for state in range(len(states.counts))]
        return np.array([law[2 * s + 1] + (law[2 * s] if mean[s] > stands else 0.0) for s in range(len(mean))])


@dataclass(frozen=True)
class NotThereAtMost:
    """P(not there) from above: hosts too full, and the rest."""

    too_full: float
    recovering: float

    @property
    def total(self) -> float:
        """Return the sum of both."""
        return self.too_full + self.recovering


def at_most(sticky: StickyPlacement, interval_s: float) -> NotThereAtMost:
    """Return P(not there) at an interval [s], from above.

    The chain has a state for each placement and level of the backlog, and its law is that of a sparse linear system.
    """
    left = sticky.left(interval_s)
    drains = [sticky.drain(state, left) for state in range(len(sticky.law))]
    if not any(drain > 0 and chance > 0 for drain, chance in zip(drains, sticky.law, strict=True)):
        # Without any state in which a backlog shrinks the chain would grow without limit: not there at all.
        return NotThereAtMost(1.0, 0.0)  # a backlog never shrinks
    chances = _level_law(sticky, interval_s, drains, _levels(sticky, interval_s, drains))
    full = [drains[state] <= 0 or sticky.too_full(state) for state in range(len(drains))]
    behind = chances[:, 1:].sum(axis=1)
    too_full = sum(
        float(chances[s].sum()) if sticky.too_full(s) else float(behind[s]) for s in range(len(full)) if full[s]
    )
    return NotThereAtMost(too_full, sum(float(behind[s]) for s in range(len(full)) if not full[s]))


def _levels(sticky: StickyPlacement, interval_s: float, drains: list[float]) -> FloatArray:
    """Return the levels of the backlog [hosts x s]: 0, and then rising by a constant ratio."""
    jumps = [
        sticky.behind_after(one, interval_s, late=late)
        for failures in sticky.states.failures
        for one in failures
        if one.units
        for late in (False, True)
    ]
    # Levels rise in proportion: small backlogs are told apart finely, long ones coarsely.
    least = max(min(jumps, default=1.0), 1e-9)
    grows = -min(*drains, 0.0) * sticky.problem.mttf_s * _LONG
    # The highest level must hold long growth; beyond it jumps are cut, which the length makes rare.
    highest = max(32 * max(jumps, default=1.0), grows, least * 4)
    count = 2 + math.ceil(math.log(highest / least) / math.log(_RATIO))
    return np.concatenate([[0.0], least * _RATIO ** np.arange(count)])


def _level_law(sticky: StickyPlacement, interval_s: float, drains: list[float], levels: FloatArray) -> FloatArray:
    """Return P(state, level), (states, levels).

    `drains` (states,): how fast the backlog falls in each placement [hosts]. `levels`: of the backlog [hosts x s].
    """
    n, m = len(drains), len(levels)
    at = np.arange(m)
    starts: list[IntArray] = []
    ends: list[IntArray] = []
    rates: list[FloatArray] = []

    def add(state: int, then: int, start: IntArray, end: IntArray, rate: FloatArray | float) -> None:
        starts.append(state * m + start)
        ends.append(then * m + end)
        rates.append(np.broadcast_to(rate, start.shape))

    for state in range(n):
        step = np.diff(levels)
        # Drains take their mean time from level to level, in both directions.
        if drains[state] > 0:
            add(state, state, at[1:], at[:-1], drains[state] / step)
        else:
            add(state, state, at[:-1], at[1:], -drains[state] / step)
        back = sticky.states.repaired[state]
        if back is not None:
            crews = sticky.plan.crews or sticky.plan.hosts
            add(state, back, at, at, sticky.states.repair_rate(state, crews, sticky.problem.mttr_s))
        for one in sticky.states.failures[state]:
            for start, end, part in _jumps(sticky, one, interval_s, levels):
                add(state, one.then, start, end, part * one.hosts / sticky.problem.mttf_s)
    home = sticky.states.home * m
    return _sparse_law(home, n * m, np.concatenate(starts), np.concatenate(ends), np.concatenate(rates)).reshape(n, m)


def _jumps(
    sticky: StickyPlacement, one: Failure, interval_s: float, levels: FloatArray
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield (levels, levels then, parts of the rate) for one failure."""
    at = np.arange(len(levels))
    if not one.units:
        yield at, at, np.ones(len(levels))
        return
    first, later = (sticky.behind_after(one, interval_s, late=late) for late in (False, True))
    # Beyond the last level nothing is told apart.
    target = np.minimum(levels + np.where(at == 0, first, later), levels[-1])
    above = np.clip(np.searchsorted(levels, target), 1, len(levels) - 1)
    # Divided between the two levels around the target, so that the mean jump is exact.
    part = (target - levels[above - 1]) / (levels[above] - levels[above - 1])
    yield at, above, part
    yield at, above - 1, 1 - part


def _sparse_law(home: int, n: int, starts: IntArray, ends: IntArray, rates: FloatArray) -> FloatArray:
    """Return the stationary law of a chain of which state `home` is reached from all others.

    `starts`, `ends`, `rates`: of each transition [1/s]; those of equal ends add up. Solves pi Q = 0 with sum 1, Q the
    generator of the chain, by a sparse LU decomposition (SuperLU).
    """
    from scipy.sparse import coo_array, linalg  # noqa: PLC0415 - slow to load, and only plans with units need it

    # A rate from a state to itself does nothing, and would only spoil the diagonal.
    kept = (starts != ends) & (rates > 0)
    starts, ends, rates = starts[kept], ends[kept], rates[kept]
    out = np.bincount(starts, rates, minlength=n)
    every = np.arange(n)
    flows = coo_array(
        (np.concatenate([rates, -out]), (np.concatenate([ends, every]), np.concatenate([starts, every]))), (n, n)
    ).tocsc()
    found = np.empty(n)
    # One state is fixed at 1: the equations of a chain are dependent, so one of them has to go.
    rest = np.delete(every, home)
    found[home] = 1.0
    found[rest] = linalg.splu(flows[rest][:, rest].tocsc()).solve(-flows[rest][:, [home]].toarray()[:, 0])
    # The sparse solution may be a hair below 0.
    found = np.maximum(found, 0.0)
    result: FloatArray = found / found.sum()
    return result
