"""Repairing a placement by exchanges, until no host has more than it can take: a tabu search.

Every instance is on some open host, and what a host has too much of is its penalty: of each resource the share of a
mean host, and for each colour above C what a colour weighs. A step takes a host with a penalty, and of all exchanges of
what it has (an instance, or all instances of a colour) with what others have (an instance, all of a colour, or
nothing) the one that lowers the sum of penalties most, or raises it least. What was exchanged stays for some steps.
Hosts that stay bad weigh more with time. Two instances of an operator never come together, and no instance that is
fixed moves, nor more than `max_moves`.

Only whole numbers decide whether a placement is right: the penalty is computed in float64 and merely leads there.

`start` makes the placement that a search begins with: every instance on a host, with anti-affinity, though hosts may
have too much.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.placement import Placement
from optimizer.common.first_fit import best_fit, largest_shares

_SAMPLED = 160  # hosts that are looked at in a step: of more, some drawn at random
_TABU = (2, 8)  # steps for which an instance stays after an exchange
_COLOUR = 1.0  # what a colour too much weighs against a whole host's load too much
_STEP = 2_000  # what a step costs besides, in exchanges looked at
_TRIED = 64  # exchanges that are tried, the best first, until one keeps anti-affinity
_PATIENCE = 30  # steps for each instance without a new minimum after which a search gives up
_HEAVIER = 0.1  # by how much a host that stays bad gains weight


@dataclass(frozen=True)
class Pieces:
    """Pieces that can be exchanged, one per row: an instance, all of one colour on a host, or nothing."""

    load: FloatArray  # (m, R)
    host: IntArray  # (m,)
    colour: IntArray  # (m,): the last number stands for none
    last: BoolArray  # (m,): whether the host loses the colour with it
    single: IntArray  # the instances, which come first
    lead: IntArray  # then one instance of each colour of which a host has several


class Search:
    """One placement under repair; `host` (n,) must have a host for every instance that keeps anti-affinity.

    `over` (H, R) is load less room in shares of a mean host, `count` (H,) the colours of each host. The seed decides
    which hosts are drawn; `work` counts exchanges that were looked at.
    """

    def __init__(
        self, problem: Placement, host: IntArray, most_colours: int, is_open: BoolArray, seed: list[int]
    ) -> None:
        self.problem, self.most_colours = problem, most_colours
        self.draw = np.random.default_rng(seed)
        scale = np.maximum(problem.rooms.mean(axis=0), 1.0)
        self.load, self.room = problem.loads / scale, problem.rooms / scale
        self.colour = _numbered(problem.colours)
        self.n_colours = int(self.colour.max(initial=-1)) + 1
        self.colour = np.where(problem.colours < 0, self.n_colours, self.colour)
        self.free = problem.fixed_hosts < 0
        self.is_open = is_open
        self.hosts_open = np.flatnonzero(is_open)
        self.tabu = np.zeros(problem.n_instances, dtype=np.int64)
        self.weight = np.ones(problem.n_hosts)
        self.steps = 0
        self.work = 0  # exchanges that were looked at, and what a step costs besides
        self._of_colour = _members(self.colour, self.n_colours + 1)
        self._settle(host.copy())

    def _settle(self, host: IntArray) -> None:
        """Take over a placement: everything that is kept beside it."""
        problem = self.problem
        self.host = host
        self.on = [set(here) for here in _members(host, problem.n_hosts)]
        self.over = np.zeros_like(self.room)
        np.add.at(self.over, host, self.load)
        self.over -= self.room
        self.count = np.zeros(problem.n_hosts, dtype=np.int64)
        self.last = np.zeros(problem.n_instances, dtype=np.bool_)
        for h in range(problem.n_hosts):
            self._recount(h)
        self._n_zones = int(problem.zones.max()) + 1
        self._taken = set((problem.operators * self._n_zones + problem.zones[host]).tolist())
        self.moved = problem.moves(host)

    def _recount(self, h: int) -> None:
        """Count the colours of a host again."""
        here = [i for i in self.on[h] if self.colour[i] < self.n_colours]
        _, inverse, counts = np.unique(self.colour[here], return_inverse=True, return_counts=True)
        self.count[h] = len(counts)
        self.last[here] = counts[inverse] == 1

    def penalties(self) -> FloatArray:
        """Return the excess of each host, (H,), without its weight."""
        return _penalty(self.over, self.count - self.most_colours)

    def run(self, most_work: int, deadline: float) -> bool:
        """Return whether all penalties are gone within so much work; `host` is then a placement.

        It gives up as well when the sum of penalties has found no new minimum for long.
        """
        penalty = self.penalties()
        least, since = np.inf, self.steps
        while True:
            bad = np.flatnonzero(penalty > 1e-11)
            if not len(bad):
                return True
            total = float(penalty[bad].sum())
            if total < least - 1e-9:
                least, since = total, self.steps
            patient = self.steps - since <= _PATIENCE * (len(self.host) + 10)
            # Work is counted in exchanges, so the same seed ends at the same step on any machine; the clock comes last.
            if not patient or self.work >= most_work or time.monotonic() > deadline:
                return False
            self.steps += 1
            self.work += _STEP
            for h in self._step(int(self.draw.choice(bad)), penalty, bad):
                penalty[h] = _penalty(self.over[h], self.count[h] - self.most_colours)

    def _step(self, a: int, penalty: FloatArray, bad: IntArray) -> tuple[int, ...]:
        """Make the best exchange of a piece of host a, and return the hosts that changed, if any."""
        mine, others = self._pieces_of(np.array([a]), nothing=False), self._pieces_of(self._sampled(a), nothing=True)
        if not len(mine.host) or not len(others.host):
            return ()
        change = self._changes(a, mine, others, penalty)
        self.work += change.size
        for cell in _least_first(change.ravel()):
            row, column = divmod(cell, change.shape[1])
            out, back, b = self._members(mine, row), self._members(others, column), int(others.host[column])
            # Anti-affinity is no penalty: an exchange that breaks it is not made at all.
            if self._keeps_anti_affinity(out, back, a, b):
                # At a local minimum: make what is bad now weigh more, so that the search leaves it.
                if change[row, column] >= 0:
                    self.weight[bad] += _HEAVIER
                self._exchange(out, back, a, b)
                return a, b
        return ()

    def _sampled(self, a: int) -> IntArray:
        """Return the other hosts that a step looks at."""
        hosts: IntArray = self.hosts_open[self.hosts_open != a]
        if len(hosts) <= _SAMPLED:
            return hosts
        return np.sort(self.draw.choice(hosts, _SAMPLED, replace=False))

    def _pieces_of(self, hosts: IntArray, *, nothing: bool) -> Pieces:
        """Return the pieces that hosts can exchange; with `nothing` they can also take without giving."""
        chosen = np.zeros(self.problem.n_hosts, dtype=np.bool_)
        chosen[hosts] = True
        here = np.array(sorted(self.on[hosts[0]])) if len(hosts) == 1 else np.flatnonzero(chosen[self.host])
        here = here.astype(np.int64)
        single = here[self.free[here] & (self.tabu[here] <= self.steps)]
        blocks, lead = self._blocks(here)
        rest = hosts if nothing else hosts[:0]
        none = np.zeros(len(rest))
        return Pieces(
            np.concatenate([self.load[single], blocks, np.zeros((len(rest), self.load.shape[1]))]),
            np.concatenate([self.host[single], self.host[lead], rest]),
            np.concatenate([self.colour[single], self.colour[lead], none.astype(np.int64) + self.n_colours]),
            np.concatenate([self.last[single], np.ones(len(lead), dtype=np.bool_), none > 0]),
            single,
            lead,
        )

    def _members(self, pieces: Pieces, row: int) -> tuple[int, ...]:
        """Return the instances of a row."""
        if row < len(pieces.single):
            return (int(pieces.single[row]),)
        row -= len(pieces.single)
        if row >= len(pieces.lead):
            return ()
        first = int(pieces.lead[row])
        return tuple(sorted(i for i in self.on[int(self.host[first])] if self.colour[i] == self.colour[first]))

    def _blocks(self, here: IntArray) -> tuple[FloatArray, IntArray]:
        """Return the loads of all instances of a colour on a host (several, none fixed), and one instance of each."""
        shared = here[~self.last[here] & (self.colour[here] < self.n_colours)]
        if not len(shared) or self.problem.max_moves is not None:
            return np.zeros((0, self.load.shape[1])), shared[:0]
        key = self.host[shared] * (self.n_colours + 1) + self.colour[shared]
        order = np.argsort(key, kind="stable")
        shared, key = shared[order], key[order]
        starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
        movable = np.logical_and.reduceat(self.free[shared] & (self.tabu[shared] <= self.steps), starts)
        loads = np.add.reduceat(self.load[shared], starts, axis=0)[movable]
        return loads, shared[starts[movable]]

    def _changes(self, a: int, mine: Pieces, others: Pieces, penalty: FloatArray) -> FloatArray:
        """Return by how much each exchange of host a raises the weighted sum of penalties, (mine, others)."""
        b = others.host
        has = np.zeros((len(mine.host), self.problem.n_hosts), dtype=np.bool_)
        for row, colour in enumerate(mine.colour.tolist()):
            has[row, self.host[self._of_colour[colour]] if colour < self.n_colours else slice(None)] = True
        own = np.zeros(self.n_colours + 1, dtype=np.bool_)
        own[[self.n_colours, *self.colour[list(self.on[a])].tolist()]] = True
        same = mine.colour[:, None] == others.colour[None]
        gained_a = np.where(same, 0.0, ~own[others.colour][None] - mine.last[:, None].astype(np.float64))
        gained_b = np.where(same, 0.0, ~has[:, b] - others.last[None].astype(np.float64))
        excess = (self.count - self.most_colours).astype(np.float64)
        after_a = _COLOUR * np.maximum(excess[a] + gained_a, 0.0)
        after_b = _COLOUR * np.maximum(excess[b][None] + gained_b, 0.0)
        for r in range(self.load.shape[1]):  # one resource at a time: a sum over so short an axis is slow
            more = others.load[:, r][None] - mine.load[:, r][:, None]
            after_a += np.maximum(self.over[a, r] + more, 0.0)
            after_b += np.maximum(self.over[b, r][None] - more, 0.0)
        change = self.weight[a] * (after_a - penalty[a]) + self.weight[b][None] * (after_b - penalty[b][None])
        # Ties are drawn, or the search would go round in circles among hosts that are alike.
        change += 1e-9 * self.draw.random(change.shape[1])
        return self._within_moves(a, mine, others, change)

    def _within_moves(self, a: int, mine: Pieces, others: Pieces, change: FloatArray) -> FloatArray:
        """Return the changes, infinite where too many instances would leave the running placement."""
        current, most = self.problem.current, self.problem.max_moves
        if current is None or most is None:
            return change
        out, nothing = mine.single, np.full(len(others.host) - len(others.single), -1)
        back = np.concatenate([others.single, nothing])  # there are no blocks where moves are counted
        runs, runs_back = current[out][:, None], np.where(back >= 0, current[back], -1)[None]
        more = (runs == a).astype(np.int64) - (runs == others.host[None])
        more = more + (runs_back == others.host[None]) - (runs_back == a)
        change[self.moved + more > most] = np.inf
        return change

    def _keeps_anti_affinity(self, out: tuple[int, ...], back: tuple[int, ...], a: int, b: int) -> bool:
        """Return whether no operator comes twice into a zone by the exchange."""
        zones, operators = self.problem.zones, self.problem.operators
        to, home = int(zones[b]), int(zones[a])
        if to == home:
            return True
        going, coming = {int(operators[i]) for i in out}, {int(operators[j]) for j in back}
        return not any(o * self._n_zones + to in self._taken for o in going - coming) and not any(
            o * self._n_zones + home in self._taken for o in coming - going
        )

    def _exchange(self, out: tuple[int, ...], back: tuple[int, ...], a: int, b: int) -> None:
        """Make an exchange of two pieces between hosts a and b; loads, colours and moves follow."""
        zones, operators, current = self.problem.zones, self.problem.operators, self.problem.current
        for group, source, target in ((out, a, b), (back, b, a)):
            for i in group:
                self._taken.discard(int(operators[i]) * self._n_zones + int(zones[source]))
                self.on[source].discard(i)
                self.on[target].add(i)
                self.host[i] = target
                self.over[source] -= self.load[i]
                self.over[target] += self.load[i]
                self.tabu[i] = self.steps + self.draw.integers(*_TABU)
                if current is not None and current[i] >= 0:
                    self.moved += int(current[i] == source) - int(current[i] == target)
        # Only now: both groups may hold the same operator, and the first loop would discard what the second just took.
        for group, target in ((out, b), (back, a)):
            self._taken.update(int(operators[i]) * self._n_zones + int(zones[target]) for i in group)
        self._recount(a)
        self._recount(b)


def _least_first(cells: FloatArray) -> Iterator[int]:
    """Yield the least of the cells, then some next ones in order; none that is infinite."""
    least = int(cells.argmin())
    if cells[least] == np.inf:
        return
    yield least
    tried = min(_TRIED, len(cells))
    best = np.argpartition(cells, tried - 1)[:tried]
    for cell in best[np.argsort(cells[best], kind="stable")].tolist():
        if cells[cell] == np.inf:
            return
        yield cell


def _penalty(over: FloatArray, excess: IntArray) -> FloatArray:
    return np.asarray(np.maximum(over, 0.0).sum(axis=-1) + _COLOUR * np.maximum(excess, 0), dtype=np.float64)


def _numbered(ids: IntArray) -> IntArray:
    """Return ids as numbers from 0 without gaps; ids below 0 stay below 0, and nobody counts them."""
    return np.searchsorted(np.unique(ids[ids >= 0]), ids).astype(np.int64)


def _members(numbers: IntArray, size: int) -> list[list[int]]:
    """Return which instances have each number 0 .. size - 1."""
    lists: list[list[int]] = [[] for _ in range(size)]
    for i, number in enumerate(numbers.tolist()):
        lists[number].append(i)
    return lists


def start(
    problem: Placement, most_colours: int, is_open: BoolArray, running: IntArray | None, deadline: float = math.inf
) -> IntArray | None:
    """Return a host for every instance (n,): `running` where it may stay, else best fit, else where least is too much.

    None when an operator finds no zone, or more than `max_moves` instances would move, or after the `deadline`.
    """
    if running is None:
        host = best_fit(problem, max_colours=most_colours, open_hosts=is_open, deadline=deadline)
    else:
        host = staying(problem, is_open, running)
    complete = _completed(problem, host, is_open, deadline)
    if complete is None or (problem.max_moves is not None and problem.moves(complete) > problem.max_moves):
        return None
    return complete


def staying(problem: Placement, is_open: BoolArray, running: IntArray) -> IntArray:
    """Return the running placement on open hosts, fixed instances in place; of two with anti-affinity the first."""
    host = np.where((running >= 0) & is_open[running], running, -1)
    host = np.where(problem.fixed_hosts >= 0, problem.fixed_hosts, host)
    placed = np.flatnonzero(host >= 0)
    placed = placed[np.argsort(problem.fixed_hosts[placed] < 0, kind="stable")]
    pairs = np.stack([problem.operators[placed], problem.zones[host[placed]]], axis=1)
    first = np.unique(pairs, axis=0, return_index=True)[1]
    kept = np.full(len(host), -1, dtype=np.int64)
    kept[placed[first]] = host[placed[first]]
    return kept


def _completed(problem: Placement, host: IntArray, is_open: BoolArray, deadline: float) -> IntArray | None:
    """Return hosts where each free instance is on the open host that is left with most, or has least excess."""
    host = host.copy()
    scale = np.maximum(problem.rooms.mean(axis=0), 1.0)
    free = (problem.rooms - problem.used(host)) / scale
    zones_of: dict[int, list[int]] = {}
    for i in np.flatnonzero(host >= 0).tolist():
        zones_of.setdefault(int(problem.operators[i]), []).append(int(problem.zones[host[i]]))
    left = np.flatnonzero(host < 0)
    for i in left[np.argsort(-largest_shares(problem)[left], kind="stable")].tolist():
        taken = zones_of.setdefault(int(problem.operators[i]), [])
        allowed = is_open if not taken else is_open & ~np.isin(problem.zones, taken)
        if not allowed.any() or time.monotonic() > deadline:
            return None
        after = (free - problem.loads[i] / scale).min(axis=1)
        h = int(np.where(allowed, after, -np.inf).argmax())
        host[i] = h
        free[h] -= problem.loads[i] / scale
        taken.append(int(problem.zones[h]))
    return host


def sent_home(problem: Placement, host: IntArray, most_colours: int, deadline: float) -> IntArray:
    """Return the placement (n,) with each instance back where it runs, if that breaks no rule and opens no host."""
    assert problem.current is not None
    host = host.copy()
    for i in np.flatnonzero((problem.current >= 0) & (host != problem.current) & (problem.fixed_hosts < 0)).tolist():
        if time.monotonic() > deadline:
            break
        home, zones = int(problem.current[i]), problem.zones
        there = np.flatnonzero(host == home)
        same = np.flatnonzero((problem.operators == problem.operators[i]) & (host >= 0))
        separate = all(zones[host[j]] != zones[home] for j in same.tolist() if j != i)
        has_room = (problem.loads[there].sum(axis=0) + problem.loads[i] <= problem.rooms[home]).all()
        colours = set(problem.colours[there].tolist()) | {int(problem.colours[i])}
        if len(there) and separate and has_room and len(colours - {-1}) <= most_colours:
            host[i] = home
    return host
