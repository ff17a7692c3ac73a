"""Bounds of placements that counting proves: the least colours, the least hosts, and that there is no placement.

With n_k the hosts that colour k needs at least (by load, by its large instances, by its operators' instances), a host
has at most C of the sum of n_k pairs (host, colour), so C H >= sum n_k, and of hosts in use h, C h >= sum n_k.

Hosts in use must have room for all load; at least as many as an operator has instances; and in each resource what
Martello and Toth count (1990, "Knapsack Problems", section 8.3.2), with the room of the largest host: for each size a
up to half a room, what is larger than half shares no host, and what is left beside it takes no more than the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, IntArray
from models.planning.placement import Placement
from optimizer.verify.infeasibility import violating_rows

_ROOMIEST = 64  # hosts with most room that are looked at first
_MOST_MATCHED = 500  # instances of an operator up to which they are matched with hosts


@dataclass(frozen=True)
class Bound:
    """A lower bound and what proves it, with the instances that it is about."""

    value: int
    reason: str
    instances: IntArray


def colour_bound(problem: Placement) -> Bound:
    """Return the least number of colours that some host has in every placement, with the reason.

    The larger of two counts: all pairs (host, colour) divided by the hosts, rounded up, and the colours that are fixed
    on one host.
    """
    needed, who = hosts_of_colours(problem)
    total, on_fixed = int(needed.sum()), _fixed_colours(problem)
    counted = np.flatnonzero(problem.colours >= 0)
    # Rounded up in whole numbers: float64 could round a bound one too high.
    shared = -(-total // problem.n_hosts)
    reason = f"{len(who)} colours need {total} pairs of host and colour on {problem.n_hosts} hosts"
    bound = Bound(shared, reason, counted)
    return on_fixed if on_fixed is not None and on_fixed.value > shared else bound


def hosts_of_colours(problem: Placement) -> tuple[IntArray, IntArray]:
    """Return the least number of hosts of each colour that is there, (C,), and these colours, (C,) ascending."""
    counted = problem.colours >= 0
    who, colour = np.unique(problem.colours[counted], return_inverse=True)
    loads = np.zeros((len(who), problem.loads.shape[1]), dtype=np.int64)
    np.add.at(loads, colour, problem.loads[counted])
    needed = np.ones(len(who), dtype=np.int64)
    for r in range(loads.shape[1]):
        rooms = np.cumsum(np.sort(problem.rooms[:, r])[::-1])
        needed = np.maximum(needed, np.searchsorted(rooms, loads[:, r], side="left") + 1)
        large = 2 * problem.loads[counted, r] > problem.rooms[:, r].max()
        needed = np.maximum(needed, np.bincount(colour[large], minlength=len(who)))
    pairs, times = np.unique(np.stack([colour, problem.operators[counted]], axis=1), axis=0, return_counts=True)
    np.maximum.at(needed, pairs[:, 0], times)
    return needed, who


def _fixed_colours(problem: Placement) -> Bound | None:
    """Return the colours of what is fixed on one host."""
    counts = problem.colours_of_hosts(problem.fixed_hosts)
    h = int(counts.argmax())
    if not counts[h]:
        return None
    here = np.flatnonzero((problem.fixed_hosts == h) & (problem.colours >= 0))
    one_each = here[np.unique(problem.colours[here], return_index=True)[1]]
    return Bound(int(counts[h]), f"{counts[h]} colours are fixed on host {h}", np.sort(one_each))


def host_bound(problem: Placement, most_colours: int | None) -> Bound:
    """Return the least number of hosts in use in a placement of at most so many colours on a host (None: any number).

    The largest of several counts: load divided by room for each resource; instances of one operator, which must be
    apart; pairs (host, colour) divided by `most_colours`; and L2 of Martello and Toth (1990, section 8.3.2).
    """
    found = [_by_load(problem, r) for r in range(len(problem.resources))]
    found += [_by_size(problem, r) for r in range(len(problem.resources))]
    found.append(_by_operator(problem))
    if most_colours is not None and (problem.colours >= 0).any():
        needed, who = hosts_of_colours(problem)
        total, counted = int(needed.sum()), np.flatnonzero(problem.colours >= 0)
        least = -(-total // most_colours) if most_colours else problem.n_hosts + 1
        reason = f"{len(who)} colours need {total} pairs of host and colour, at most {most_colours} on a host"
        found.append(Bound(least, reason, counted))
    return max(found, key=lambda bound: bound.value)  # of equal ones the first


def _by_load(problem: Placement, r: int) -> Bound:
    """Return the hosts that have room for the whole load of a resource, those with fixed instances among them."""
    name, load = problem.resources[r], int(problem.loads[:, r].sum())
    forced = np.unique(problem.fixed_hosts[problem.fixed_hosts >= 0])
    others = np.sort(np.delete(problem.rooms[:, r], forced))[::-1]
    rooms = int(problem.rooms[forced, r].sum()) + np.concatenate([[0], np.cumsum(others)])
    more = int(np.searchsorted(rooms, load, side="left"))
    least = max(len(forced) + more, min(problem.n_instances, 1))
    order = np.argsort(-problem.loads[:, r], kind="stable")
    enough = int(np.searchsorted(np.cumsum(problem.loads[order, r]), rooms[-1], side="right")) + 1
    reason = f"{name} of all instances takes {least} hosts"
    if more > len(others):
        reason = f"{name} of the instances is more than all {problem.n_hosts} hosts have"
    return Bound(least, reason, np.sort(order[:enough]))


def _by_size(problem: Placement, r: int) -> Bound:
    """Return the bound L2 of Martello and Toth in one resource, with the room of the largest host."""
    room, name = int(problem.rooms[:, r].max()), problem.resources[r]
    order = np.argsort(problem.loads[:, r], kind="stable")
    sizes = problem.loads[order, r]
    sums = np.concatenate([[0], np.cumsum(sizes)])
    half = int(np.searchsorted(sizes, room // 2, side="right"))  # from here on larger than half: 2 s > room
    starts = np.unique(np.r_[0, np.searchsorted(sizes, sizes[:half], side="left"), half])
    alphas = np.where(
        starts < half, sizes[np.minimum(starts, max(len(sizes) - 1, 0))] if len(sizes) else 0, room // 2 + 1
    )
    alone = np.maximum(np.searchsorted(sizes, room - alphas, side="right"), half)
    beside = (alone - half) * room - (sums[alone] - sums[half])
    rest = np.maximum(sums[half] - sums[starts] - beside, 0)
    least = (len(sizes) - half) + -(-rest // max(room, 1))
    best = int(least.argmax())
    reason = f"{len(sizes) - starts[best]} instances of {name} at least {alphas[best]} of {room} units"
    return Bound(int(least[best]), f"{reason} take {least[best]} hosts", np.sort(order[starts[best] :]))


def _by_operator(problem: Placement) -> Bound:
    """Return the instances of one operator are on as many hosts."""
    operators, counts = np.unique(problem.operators, return_counts=True)
    if not len(counts):
        return Bound(0, "there is nothing to place", np.zeros(0, dtype=np.int64))
    at = int(counts.argmax())
    here = np.flatnonzero(problem.operators == operators[at])
    return Bound(int(counts[at]), f"operator {operators[at]} has {counts[at]} instances, on a host each", here)


def impossible(problem: Placement) -> Bound | None:
    """Return why there is no placement, if counting shows it; the value is the number of hosts needed, or 0.

    Of several reasons the one about the fewest instances. For goal "value" only what is fixed counts.
    """
    found = _faults_of_fixed(problem)
    if problem.goal != "value":
        found += _faults_of_free(problem)
    return min(found, key=lambda bound: len(bound.instances)) if found else None


def _faults_of_fixed(problem: Placement) -> list[Bound]:
    fixed = problem.fixed_hosts
    found = []
    over = problem.used(fixed) > problem.rooms
    for h, r in zip(*np.nonzero(over), strict=True):
        here = np.flatnonzero(fixed == h)
        here = here[np.argsort(-problem.loads[here, r], kind="stable")]
        enough = int(np.searchsorted(np.cumsum(problem.loads[here, r]), problem.rooms[h, r], side="right")) + 1
        name = problem.resources[r]
        found.append(Bound(0, f"what is fixed on host {h} takes more {name} than it has", np.sort(here[:enough])))
    first: dict[tuple[int, int], int] = {}
    for i in np.flatnonzero(fixed >= 0).tolist():
        key = (int(problem.operators[i]), int(problem.zones[fixed[i]]))
        if key in first:
            where = "host" if problem.anti_affinity == "host" else "failure domain"
            text = f"instances {first[key]} and {i} of operator {key[0]} are fixed in one {where}"
            found.append(Bound(0, text, np.array([first[key], i])))
        first.setdefault(key, i)
    colours = _fixed_colours(problem)
    if problem.max_colours is not None and colours is not None and colours.value > problem.max_colours:
        some = colours.instances[: problem.max_colours + 1]
        found.append(Bound(0, f"{colours.reason}, at most {problem.max_colours} may be", some))
    if problem.max_moves is not None and problem.current is not None:
        away = np.flatnonzero((fixed >= 0) & (problem.current >= 0) & (fixed != problem.current))
        if len(away) > problem.max_moves:
            text = f"{len(away)} instances are fixed elsewhere than they run, at most {problem.max_moves} may move"
            found.append(Bound(0, text, away[: problem.max_moves + 1]))
    return found


def _faults_of_free(problem: Placement) -> list[Bound]:
    found = _without_a_host(problem)[:1]
    found += _operators_without_zones(problem)[:1]
    found += _too_many_moves(problem)
    bound = host_bound(problem, problem.max_colours)
    if bound.value > problem.n_hosts:
        found.append(Bound(bound.value, f"{bound.reason}; there are {problem.n_hosts}", bound.instances))
    return found


class Possible:
    """Which hosts an instance could have if nothing but what is fixed were there."""

    def __init__(self, problem: Placement) -> None:
        fixed = problem.fixed_hosts
        self.problem = problem
        self.free = problem.rooms - problem.used(fixed)
        self.taken: dict[int, list[int]] = {}
        for i in np.flatnonzero(fixed >= 0).tolist():
            self.taken.setdefault(int(problem.operators[i]), []).append(int(problem.zones[fixed[i]]))
        self.full = np.zeros(problem.n_hosts, dtype=np.bool_)
        if problem.max_colours is not None:
            self.full = problem.colours_of_hosts(fixed) >= problem.max_colours
        self.without_colours = not self.full.any()

    def on_roomiest(self, loads: IntArray, operators: IntArray, zones: IntArray | int) -> BoolArray:
        """Return which loads (k, R) fit into each of so many zones (k,), by a look at the hosts with most room.

        True is a proof; False says nothing. Operators (k,) of which some instance is fixed are not looked at.
        """
        scale = np.maximum(self.problem.rooms.mean(axis=0), 1.0)
        free = np.flatnonzero(~self.full)
        hosts = free[np.argsort(-(self.free[free] / scale).min(axis=1), kind="stable")]
        hosts = hosts[np.unique(self.problem.zones[hosts], return_index=True)[1]]
        hosts = hosts[np.argsort(-(self.free[hosts] / scale).min(axis=1), kind="stable")][:_ROOMIEST]
        found = np.zeros(len(loads), dtype=np.int64)
        for h in hosts.tolist():
            found += (loads <= self.free[h]).all(axis=1)
        fixed = np.isin(operators, list(self.taken))
        return np.asarray((found >= zones) & ~fixed, dtype=np.bool_)

    def hosts(self, i: int) -> BoolArray:
        """Return the possible hosts of instance i, (H,)."""
        problem = self.problem
        if problem.fixed_hosts[i] >= 0:
            return np.asarray(np.arange(problem.n_hosts) == problem.fixed_hosts[i], dtype=np.bool_)
        possible: BoolArray = (problem.loads[i] <= self.free).all(axis=1)
        taken = self.taken.get(int(problem.operators[i]))
        if taken:
            possible &= ~np.isin(problem.zones, taken)
        if not self.without_colours and problem.colours[i] >= 0:
            there = problem.fixed_hosts[(problem.colours == problem.colours[i]) & (problem.fixed_hosts >= 0)]
            possible &= ~self.full | np.isin(np.arange(problem.n_hosts), there)
        return possible


def _without_a_host(problem: Placement) -> list[Bound]:
    possible = Possible(problem)
    for i in np.flatnonzero(~possible.on_roomiest(problem.loads, problem.operators, 1)).tolist():
        if not possible.hosts(i).any():
            return [Bound(0, f"instance {i} fits on no host", np.array([i]))]
    return []


def _operators_without_zones(problem: Placement) -> list[Bound]:
    """Return operators whose instances have too few zones between them (Hall 1935)."""
    found = []
    possible, n_zones = Possible(problem), int(problem.zones.max()) + 1
    where = "hosts" if problem.anti_affinity == "host" else "failure domains"
    operators, codes, counts = np.unique(problem.operators, return_inverse=True, return_counts=True)
    largest = np.zeros((len(operators), problem.loads.shape[1]), dtype=np.int64)
    np.maximum.at(largest, codes, problem.loads)
    open_question = ~possible.on_roomiest(largest, operators, counts)
    for at in np.flatnonzero((counts > 1) & open_question).tolist():
        operator, count = int(operators[at]), int(counts[at])
        here = np.flatnonzero(codes == at).tolist()
        if count > n_zones:
            text = f"operator {operator} has {count} instances, there are {n_zones} {where}"
            found.append(Bound(count, text, np.array(here[: n_zones + 1])))
            continue
        if count >= _MOST_MATCHED:
            continue
        zones = np.zeros((count, n_zones), dtype=np.bool_)
        for row, i in enumerate(here):
            zones[row, problem.zones[possible.hosts(i)]] = True
        stuck = [here[row] for row in violating_rows(zones)]
        if stuck:
            text = f"{len(stuck)} instances of operator {operator} have {len(stuck) - 1} {where} between them"
            found.append(Bound(0, text, np.array(stuck)))
    return found


def _too_many_moves(problem: Placement) -> list[Bound]:
    """Return the instances that must leave hosts that have too much now, the largest first."""
    current, most = problem.current, problem.max_moves
    if current is None or most is None:
        return []
    must, who = 0, []
    for h in np.unique(current[current >= 0]).tolist():
        here = np.flatnonzero(current == h)
        leaving = 0
        for r in range(problem.loads.shape[1]):
            sizes = np.sort(problem.loads[here, r])[::-1]
            excess = int(sizes.sum() - problem.rooms[h, r])
            if excess > 0:
                leaving = max(leaving, int(np.searchsorted(np.cumsum(sizes), excess, side="left")) + 1)
        must += leaving
        who += here.tolist() if leaving else []
    if must <= most:
        return []
    return [
        Bound(0, f"{must} instances must leave hosts that have too much, at most {most} may", np.array(sorted(who)))
    ]
