"""Good plans of replicas within a budget: covers by exact gain for their load, then better hosts, then exchanges.

A *cover* is a host of a query with all operators that the query has there: a replica of one of two gains nothing until
the other has one too, so covers, not operators, are bought. Gains are exact differences. Whatever starts it, the search
only ever makes a plan better; no draw decides anything, and the clock can only end it early.

`State` holds the placement: the room of each host, and the exact chance that each query is broken, kept up to date.
The steps follow in the order in which `task` uses them: `start_with`, `fill`, `move`, `exchange`, `trim`.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.replicas import Instances, ReplicaProblem
from models.reliability.cuts import minimal
from models.reliability.exact import Engine
from optimizer.replicas.placing import Placed
from optimizer.verify.replica_bounds import Cover


class State:
    """Instances of all operators, the primary first, with what hosts have left and how likely queries are broken.

    `free` (H,) is the room for CPU, `net` (H,) that of the network or None, `broken` (n_queries,) the exact chances.
    After `add` and `drop` the chances are old until `refresh` is called for the queries concerned: gains are measured
    with `after`, which keeps nothing, so that what does not pay can be undone without another evaluation.
    """

    def __init__(self, problem: ReplicaProblem, instances: Sequence[Sequence[int]], deadline: float = math.inf) -> None:
        self.problem, self._deadline = problem, deadline
        self.hosts = [list(one) for one in instances]
        # Hosts of an operator as bits of one number: sets of hosts are then keys of a dictionary.
        self._masks = [sum(1 << h for h in one) for one in self.hosts]
        # Plans are made for the first setting alone, with hosts that fail independently: one row, and no shocks.
        self._engine = Engine(replace(problem.failures, down=problem.down[:1], shocks=None))
        self._known: dict[frozenset[int], float] = {}
        self._users: list[list[int]] = [[] for _ in self.hosts]
        for q, needed in enumerate(problem.operators):
            for o in dict.fromkeys(needed):
                self._users[o].append(q)
        self.around = _around(problem)
        self.load = problem.load.tolist()
        self.free = problem.host_cpu.copy() + problem.slack
        self.net = None if problem.host_network is None else problem.host_network * (1 + 1e-12)
        for o, one in enumerate(self.hosts):
            for h in one:
                self._take(o, h, 1.0)
        self.cost = problem.cost(self.hosts)
        self.running = problem.running or ((),) * problem.n_operators
        self.moves = problem.moves(self.hosts)
        self.count = problem.replicas(self.hosts)
        self.broken = np.array([self._chance(q) for q in range(problem.n_queries)])

    @property
    def late(self) -> bool:
        """Return whether the deadline, one of time.monotonic, is over: a search then ends with what it has."""
        return time.monotonic() >= self._deadline

    @property
    def value(self) -> float:
        """Return the value that is minimised."""
        return float(self.problem.value(self.broken))

    @property
    def placed(self) -> Placed:
        """Return the instances as they are."""
        return Placed([list(one) for one in self.hosts], 0)

    @property
    def instances(self) -> Instances:
        """Return the hosts of the instances of each operator."""
        return tuple(map(tuple, self.hosts))

    def level(self, o: int) -> int:
        """Return how many replicas an operator has."""
        return len(self.hosts[o]) - 1

    def users(self, operators: Iterable[int]) -> list[int]:
        """Return the queries that need one of these operators."""
        return list(dict.fromkeys(q for o in operators for q in self._users[o]))

    def room_for(self, o: int, *, primary: bool = False) -> np.ndarray:
        """Return which hosts may take one more replica of an operator, or its primary, (H,)."""
        allowed = self.problem.primary_hosts if primary else self.problem.replica_hosts
        assert allowed is not None
        found = allowed & (self.free >= self.load[o])
        if self.net is not None and self.problem.network is not None:
            found &= self.net >= self.problem.network[o]
        found[self.hosts[o]] = False
        return np.asarray(found)

    def add(self, o: int, host: int) -> None:
        """Add a replica on a host with room (`room_for`); the chances of its queries are old until `refresh`."""
        self.hosts[o].append(host)
        self._masks[o] |= 1 << host
        self._take(o, host, 1.0)
        self.cost += self.load[o]
        self.count += 1
        # A replica back on its old host undoes a move.
        self.moves -= host in self.running[o]

    def drop(self, o: int, host: int) -> None:
        """Take a replica away, and give its room back; the chances of its queries are old until `refresh`."""
        self.hosts[o].remove(host)
        self._masks[o] &= ~(1 << host)
        self._take(o, host, -1.0)
        self.cost -= self.load[o]
        self.count -= 1
        self.moves += host in self.running[o]

    def may_leave(self, o: int, host: int) -> bool:
        """Return whether an instance may leave its host: it did not run there before, or one more move is allowed."""
        most = self.problem.max_moves
        return most is None or host not in self.running[o] or self.moves < most

    def refresh(self, queries: Iterable[int]) -> None:
        """Update the chances of these queries after their operators have changed."""
        for q in queries:
            self.broken[q] = self._chance(q)

    def after(self, queries: Sequence[int]) -> FloatArray:
        """Return the chances of these queries as they are now, without keeping them."""
        return np.array([self._chance(q) for q in queries])

    def _take(self, o: int, host: int, sign: float) -> None:
        self.free[host] -= sign * self.load[o]
        if self.net is not None and self.problem.network is not None:
            self.net[host] -= sign * self.problem.network[o]

    def _chance(self, q: int) -> float:
        """Return P(query is broken) with the hosts that its operators have now."""
        # Queries on the same sets of hosts have the same chance, whatever their operators are: computed once.
        key = frozenset(self._masks[o] for o in self.problem.operators[q])
        if key not in self._known:
            self._known[key] = float(self._engine.broken(minimal(key))[1][0])
        return self._known[key]


def _around(problem: ReplicaProblem) -> list[list[int]]:
    """Return the operators that each operator exchanges tuples with, ascending."""
    found: list[set[int]] = [set() for _ in range(problem.n_operators)]
    for a, b in problem.edges.tolist():
        if a != b:
            found[a].add(b)
            found[b].add(a)
    return [sorted(one) for one in found]


def gain(problem: ReplicaProblem, before: FloatArray, after: FloatArray, queries: Sequence[int]) -> float:
    """Return by how much the mean share of broken queries falls (by weight).

    `before` and `after` are the chances of these queries only, (len(queries),).
    """
    return math.fsum((problem.shares[queries] * (before - after)).tolist()) if len(queries) else 0.0


_CANDIDATES = 3  # hosts that are tried for a replica
_EXCHANGES = 12  # replicas that are given up for others
_TARGETS = 8  # hosts that are tried for a move
_HEAVY = 0.1  # of a host: loads above it are placed first
_ROUNDS = 4  # of moving replicas to better hosts
_LEAST = 1e-15
_POWER = 8  # for the worst query: the power mean that stands for the maximum


def start_with(state: State, covers: Sequence[Iterable[int]], budget: float) -> None:
    """Add replicas of the operators of covers: heavy ones first so that they find room, then cover by cover.

    What does not fit is left out.
    """
    chosen = list(dict.fromkeys(o for cover in covers for o in sorted(cover)))
    # Heavy ones first: a light one always finds room later, a heavy one does not.
    heavy = _HEAVY * float(state.problem.host_cpu.max())
    first = sorted((o for o in chosen if state.load[o] > heavy), key=lambda o: (-state.load[o], o))
    for o in [*first, *(o for o in chosen if state.load[o] <= heavy)]:
        if not state.late and state.level(o) < 1 and fits(state, o, budget):
            host = _host(state, o)
            if host is not None:
                state.add(o, host)
    state.refresh(range(state.problem.n_queries))


def fill(state: State, covers: Sequence[Cover], budget: float) -> None:
    """Add covers, and single operators, by exact gain per load until nothing that gains fits any more.

    Gains change while others are bought: the best of a stale list is measured again until it stays the best.
    """
    items = [*map(sorted, covers), *([o] for o in range(state.problem.n_operators))]
    # Minus infinity: every item is measured once before any is bought.
    heap = [(-math.inf, k) for k in range(len(items))]
    # Ends: an item leaves, is bought (within a budget and levels), or waits with a rate that was just measured.
    while heap and not state.late:
        key, k = heapq.heappop(heap)
        rate, replicas = _rate(state, _lowest(state, items[k]), budget)
        if not replicas:
            continue
        # The rate is stale where other purchases changed it. Unless it is still the best, it waits with its new rate.
        if heap and -rate > heap[0][0] + _LEAST and key != -rate:
            heapq.heappush(heap, (-rate, k))
            continue
        for o, host in replicas:
            state.add(o, host)
        state.refresh(state.users(o for o, _ in replicas))
        # It may be bought again, for a second replica.
        heapq.heappush(heap, (-math.inf, k))


def _lowest(state: State, cover: Sequence[int]) -> list[int]:
    """Return the operators of a cover with the fewest replicas: one more makes them equal to the others."""
    least = min(state.level(o) for o in cover)
    return [o for o in cover if state.level(o) == least] if least < state.problem.max_level else []


def fits(state: State, o: int, budget: float) -> bool:
    """Return whether one more replica is within the budget, and within the number of replicas."""
    most = state.problem.max_replicas
    return (most is None or state.count < most) and bool(state.cost + state.load[o] <= budget + state.problem.slack)


def _rate(state: State, operators: Sequence[int], budget: float) -> tuple[float, list[tuple[int, int]]]:
    """Return the gain per load of one more replica of each, and their hosts; nothing where they do not fit or gain."""
    users = state.users(operators)
    before = state.broken[users]
    replicas: list[tuple[int, int]] = []
    for o in operators:
        host = _host(state, o) if fits(state, o, budget) else None
        if host is None:
            break
        state.add(o, host)
        replicas.append((o, host))
    # Half a cover gains nothing: all of its replicas or none.
    after = state.after(users) if len(replicas) == len(operators) else before
    # In reverse, so that the lists of hosts are in their old order again.
    for o, host in reversed(replicas):
        state.drop(o, host)
    worth = _worth(state, before, after, users)
    if worth <= _LEAST:
        return 0.0, []
    return worth / _price(state, operators, budget), replicas


def _price(state: State, operators: Sequence[int], budget: float) -> float:
    """Return the load of one more replica of each; with a limit of their number the larger share of both limits."""
    load, most = sum(state.load[o] for o in operators), state.problem.max_replicas
    if most is None:
        return float(max(load, 1e-9))
    # The scarcer limit sets the price; the floor keeps loads of zero from an infinite rate.
    return float(max(load / max(budget, 1e-9), len(operators) / max(most, 1), 1e-9))


def _worth(state: State, before: np.ndarray, after: np.ndarray, users: Sequence[int]) -> float:
    """Return the gain of a change; for the worst query, those that are nearly as bad count too, others hardly."""
    if state.problem.goal == "mean":
        return gain(state.problem, before, after, users)
    top = float(state.broken.max())
    if top <= 0:
        return 0.0
    # A power mean: the maximum alone is flat almost everywhere and would guide no step.
    return math.fsum(((before / top) ** _POWER - (after / top) ** _POWER).tolist())


def _host(state: State, o: int) -> int | None:
    """Return the host for one more replica: the best of those with most neighbours, of those with room."""
    room = state.room_for(o)
    if not room.any():
        return None
    factor = np.zeros(state.problem.n_hosts)
    for other in state.around[o]:
        factor[state.hosts[other]] += 1
    factor[~room] = -1
    order = np.argsort(-factor, kind="stable")[:_CANDIDATES]
    candidates = [int(h) for h in order if factor[h] > 0] or [int(order[0])]
    # Old hosts of running replicas come first: going back costs no move.
    candidates = list(dict.fromkeys([*(h for h in state.running[o] if room[h]), *candidates]))
    if len(candidates) == 1:
        return candidates[0]
    users = state.users([o])
    return min(candidates, key=lambda host: (_with(state, o, host, users), candidates.index(host)))


def _with(state: State, o: int, host: int, users: Sequence[int]) -> float:
    state.add(o, host)
    value = _weighted(state, users)
    state.drop(o, host)
    return value


def move(state: State) -> None:
    """Move replicas, and primaries that do not run yet, to hosts where fewer queries break; the worst queries first.

    Each instance goes to the best of a few hosts, judged by exact chances; rounds end when nothing moves. Cost and
    number of replicas stay.
    """
    for _ in range(_ROUNDS):
        moved = False
        weight = [sum(float(state.problem.shares[q] * state.broken[q]) for q in state.users([o])) for o in _all(state)]
        for o in sorted(_all(state), key=lambda o: (-weight[o], o)):
            # A primary that already runs must not move; its replicas may.
            free = state.problem.primaries[o] < 0
            for host in list(state.hosts[o][0 if free else 1 :]) if not state.late else ():
                moved |= _moved(state, o, host)
        if not moved:
            return


def _all(state: State) -> range:
    return range(state.problem.n_operators)


def _moved(state: State, o: int, host: int) -> bool:
    """Move one instance to the host where fewest queries break; return whether that is another than its own."""
    if not state.may_leave(o, host):
        return False
    users = state.users([o])
    best, chances = _weighted(state, users), state.broken[users].copy()
    place, target = state.hosts[o].index(host), host
    state.drop(o, host)
    for other in _near(state, o, users, primary=place == 0):
        state.add(o, other)
        value = _weighted(state, users)
        state.drop(o, other)
        if value < best * (1 - 1e-12):
            best, target = value, other
    state.add(o, target)
    # Back to its place in the list: the first one is the primary.
    state.hosts[o].insert(place, state.hosts[o].pop())
    # Keep the old numbers where nothing moved: computed anew they could differ in the last bit.
    if target == host:
        state.broken[users] = chances
    else:
        state.refresh(users)
    return target != host


def _weighted(state: State, users: Sequence[int]) -> float:
    """Return what these queries add to the value; for goal "worst" how bad they are."""
    now = state.after(users)
    if state.problem.goal == "mean":
        return float(np.asarray(state.problem.shares)[users] @ now)
    return math.fsum((now**_POWER).tolist())


def _near(state: State, o: int, users: Sequence[int], *, primary: bool) -> list[int]:
    """Return hosts with room that have most replicas of these queries' operators, or for a primary most instances."""
    count: dict[int, int] = {}
    for q in users:
        for other in state.problem.operators[q]:
            for host in state.hosts[other][0 if primary else 1 :]:
                count[host] = count.get(host, 0) + 1
    room = state.room_for(o, primary=primary)
    return sorted((h for h in count if room[h]), key=lambda h: (-count[h], h))[:_TARGETS]


def exchange(state: State, covers: Sequence[Cover], budget: float) -> None:
    """Give up what gains least for its load, and fill again; kept where that is better.

    A bounded number of replicas is tried, those first that lose least for their load. Worse results are undone, so the
    value never rises.
    """
    if state.late or all(state.level(o) == state.problem.max_level for o in _all(state)):
        return
    losses = sorted((_loss(state, o), o) for o in _all(state) if state.level(o) and state.load[o] > 0)
    for _, o in losses[:_EXCHANGES]:
        if state.late:
            return
        leaving = next((h for h in reversed(state.hosts[o][1:]) if state.may_leave(o, h)), None)
        if leaving is None:
            continue
        before, hosts, broken = state.value, [list(one) for one in state.hosts], state.broken.copy()
        state.drop(o, leaving)
        state.refresh(state.users([o]))
        fill(state, covers, budget)
        # Worse or equal: restored, so that the search never loses and never goes in circles.
        if state.value >= before * (1 - 1e-12):
            _restore(state, hosts, broken)


def _loss(state: State, o: int) -> float:
    """Return the gain per load of the replicas that an operator has now."""
    host, users = state.hosts[o][-1], state.users([o])
    now = _weighted(state, users)
    state.drop(o, host)
    without = _weighted(state, users)
    state.add(o, host)
    return float((without - now) / state.load[o])


def _restore(state: State, hosts: Sequence[Sequence[int]], broken: np.ndarray) -> None:
    """Restore replicas as they were, and the chances with them."""
    for o, wanted in enumerate(hosts):
        # Drop everywhere before anything is added: a host may have no room before.
        for host in [h for h in state.hosts[o] if h not in wanted]:
            state.drop(o, host)
    for o, wanted in enumerate(hosts):
        for host in [h for h in wanted if h not in state.hosts[o]]:
            state.add(o, host)
        state.hosts[o] = list(wanted)
    state.broken[:] = broken


def trim(state: State, allowed: float) -> None:
    """Take replicas away, the dearest first, while the value stays within what is allowed.

    It never gives up more running replicas than may leave. The value may rise, up to `allowed`.
    """
    # Dearest first: each replica that goes saves most.
    for o in sorted(_all(state), key=lambda o: (-state.load[o], o)):
        for host in list(state.hosts[o][1:]):
            if state.late or not state.may_leave(o, host):
                continue
            users = state.users([o])
            chances = state.broken[users].copy()
            place = state.hosts[o].index(host)
            state.drop(o, host)
            state.refresh(users)
            if state.value > allowed:
                state.add(o, host)
                state.hosts[o].insert(place, state.hosts[o].pop())
                state.broken[users] = chances


def loosen(state: State) -> None:
    """Give up as many running replicas as may leave, those first that gain least for their load."""
    here = [o for o in _all(state) if state.load[o] > 0 and set(state.running[o]) & set(state.hosts[o][1:])]
    for _, o in sorted((_loss(state, o), o) for o in here):
        for host in [h for h in state.running[o] if h in state.hosts[o]]:
            if state.may_leave(o, host):
                state.drop(o, host)
    state.refresh(range(state.problem.n_queries))


def put_back(state: State, budget: float | None = None) -> None:
    """Put replicas back to where they ran, wherever no more queries break; those given up too, within a budget."""
    for o in _all(state):
        _swap_back(state, o)
        for old in state.running[o] if budget is not None else ():
            wanted = state.level(o) < state.problem.max_level and state.room_for(o)[old]
            # Returning is free of moves: it only has to fit, and can only help queries.
            if wanted and budget is not None and fits(state, o, budget):
                state.add(o, old)
                state.refresh(state.users([o]))


def _swap_back(state: State, o: int) -> None:
    """Exchange new hosts of an operator's replicas for those where they ran, where no more queries break."""
    if state.running[o]:
        users = state.users([o])
        for old in [h for h in state.running[o] if h not in state.hosts[o]]:
            for new in [h for h in state.hosts[o][1:] if h not in state.running[o]]:
                if not state.room_for(o)[old]:
                    break
                before, place = _weighted(state, users), state.hosts[o].index(new)
                state.drop(o, new)
                state.add(o, old)
                # Equal is good enough here: a move is undone for nothing.
                if _weighted(state, users) <= before * (1 + 1e-12):
                    state.refresh(users)
                    break
                state.drop(o, old)
                state.add(o, new)
                state.hosts[o].insert(place, state.hosts[o].pop())
