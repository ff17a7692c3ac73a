"""One workload of the selective-replication study: queries from templates, replicas by each importance, how many run.

100 hosts of capacity 1 and queries of load 100. Primaries go, in the order in which they came, to the host with most
neighbours among those with room; replicas only to further hosts, as many as the spare capacity and some slack for
packing. Source: Adaptive selective replication (VLDB PhD workshop 2013), section 3.4; what it leaves open is an
assumption here, and a `Variant` is another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.errors import InputError
from models.planning.replicas import ReplicaPlan, ReplicaProblem
from models.queries.description import Costs, Templates
from optimizer.replicas import plan
from optimizer.replicas.placing import Placed, place_primaries
from scenarios.queries.replicas import noise_of
from scenarios.queries.templates import Workload, workload
from sim.draws import code_of
from sim.sampling.plain import shares_running

CHANCES = (0.0025, 0.005, 0.01, 0.02, 0.03)
LOAD, RUNS = 100.0, 1000
SPARES = (0, 1, 10, 25, 50, 75, 90, 100)  # [%] of what all operators load
HALF, ALL = 50, 100
POLICIES = ("random", "degree", "utilisation", "product", "gain")
DRAWS = 4  # random selections of a workload, whose mean is its figure; ONCE is the first of them alone
ONCE = "random once"
_ALIKE = ("product", "utilisation")  # whose choices are set side by side
_MOST_HOSTS = 220  # for primaries; how many are used is what first fit needs


@dataclass(frozen=True)
class Variant:
    """One set of assumptions; the first is what the study is about, others show what hangs on which.

    slack: further spare hosts, as a share of them. reading: replicas on `spare` hosts, or each host has the spare
    capacity in equal parts ("shared"). primaries: by neighbours, or on any host with room ("scattered").
    """

    name: str = "base"
    slack: float = 0.04
    reading: Literal["spare", "shared"] = "spare"
    primaries: Literal["neighbours", "scattered"] = "neighbours"
    placement: str = "first-fit"
    selection: str = "stepwise"
    weights: tuple[float, ...] | None = None
    popularity: float | None = None
    spread: tuple[float, float] | None = None
    largest: float | None = None
    streams: int | None = None
    dear_s: float | None = None  # CPU time of a tuple in aggregations and joins, in place of 800 us

    def templates(self) -> Templates:
        """Return the templates with what is other here."""
        changes: dict[str, Any] = {"load": LOAD}
        for name in ("weights", "popularity", "spread", "largest", "streams"):
            if getattr(self, name) is not None:
                changes[name] = getattr(self, name)
        if self.dear_s is not None:
            changes["cost_s"] = Costs(aggregation=self.dear_s, join=self.dear_s)
        return Templates(**changes)


@dataclass(frozen=True)
class Point:
    """The outcome of one policy and spare capacity: shares of queries that run for each of CHANCES.

    exact, and the mean of RUNS runs; the share of operators with a replica; replicas that found no host.
    """

    exact: tuple[float, ...]
    runs: tuple[float, ...]
    replicated: float
    left_out: int


@dataclass(frozen=True)
class Tried:
    """One workload: its size, hosts for primaries, hosts that a query is on, and a point by policy and spare.

    alike: of the operators that the product replicates with half of the capacity, the share that low utilisation does.
    """

    queries: int
    operators: int
    hosts: int
    hosts_per_query: float
    alike: float
    points: Mapping[tuple[str, int], Point]


@dataclass(frozen=True)
class Part:
    """Some points of a workload; `replicated`: the operators with a replica by the policies of `alike`, HALF each."""

    queries: int
    operators: int
    hosts: int
    hosts_per_query: float
    points: Mapping[tuple[str, int], Point]
    replicated: Mapping[str, tuple[int, ...]]


def asked_for(*, whole: bool) -> list[tuple[str, int]]:
    """Return (policy, spare [%]): those of figures 4 and 5, or only those of the claims."""
    spares = SPARES if whole else (0, HALF, ALL)
    others = [name for name in POLICIES if name != "product" and (whole or name != "gain")]
    return [("product", spare) for spare in spares] + [(name, HALF) for name in others]


def try_workload(variant: Variant, seed: int, *, whole: bool) -> Tried:
    """Return the workload of that seed under all policies; raises InputError where primaries find no host."""
    return joined([try_points(variant, seed, asked_for(whole=whole))])


def try_points(variant: Variant, seed: int, asked: Sequence[tuple[str, int]]) -> Part:
    """Return what the workload of that seed comes to at some points; each is the same with any others.

    Raises InputError where primaries find no host.
    """
    made = workload(variant.templates(), seed)
    start = _primaries(made, variant, seed)
    if not start.whole:
        raise InputError.at("workload", seed, f"leaves {start.left_out} primaries without a host")
    # First fit fills hosts from 0: the highest number in use is their count.
    used = 1 + max(hosts[0] for hosts in start.instances)
    per_query = np.mean([len({start.instances[o][0] for o in needed}) for needed in made.table.operators])
    points: dict[tuple[str, int], Point] = {}
    replicated: dict[str, tuple[int, ...]] = {}
    for policy, spare in asked:
        problem = _problem(made, variant, used, spare, start)
        # All policies but the random one are deterministic.
        drawn = [_plan(problem, policy, variant, seed, draw) for draw in range(DRAWS if policy == "random" else 1)]
        each = [_point(problem, found, seed) for found in drawn]
        points[policy, spare] = _mean(each)
        if policy in _ALIKE and spare == HALF:
            replicated[policy] = tuple(np.flatnonzero(_replicated(drawn[0])).tolist())
        if policy == "random":
            points[ONCE, spare] = each[0]
    return Part(len(made.queries), made.table.n_operators, used, float(per_query), points, replicated)


def joined(parts: Sequence[Part]) -> Tried:
    """Return all points of a workload."""
    one = parts[0]
    points = {key: point for part in parts for key, point in part.points.items()}
    chosen = {policy: set(operators) for part in parts for policy, operators in part.replicated.items()}
    product, low = (chosen[policy] for policy in _ALIKE)
    alike = len(product & low) / max(1, len(product))
    return Tried(one.queries, one.operators, one.hosts, one.hosts_per_query, alike, points)


def _primaries(made: Workload, variant: Variant, seed: int) -> Placed:
    """Return the hosts of the primaries, as the variant places them."""
    if variant.primaries == "scattered":
        return _scattered(made.load, seed)
    room = np.ones(_MOST_HOSTS)
    return place_primaries(_plain(made, room, np.full((1, _MOST_HOSTS), 0.01)))


def _scattered(load: FloatArray, seed: int) -> Placed:
    """Return a host for each primary, the largest first: drawn from those with room, or else a new one."""
    # A stream of its own: the variant changes no draw of the workload.
    rng = np.random.default_rng(code_of("scattered primaries", seed))
    free = np.ones(math.ceil(1.04 * LOAD))
    host = np.full(len(load), -1, dtype=np.int64)
    for o in np.argsort(-load, kind="stable").tolist():
        # The tolerance keeps a load that fits exactly from opening one more host by rounding.
        open_hosts = np.flatnonzero(free >= load[o] - 1e-12)
        if not len(open_hosts):
            open_hosts, free = np.array([len(free)]), np.append(free, 1.0)
        host[o] = rng.choice(open_hosts)
        free[host[o]] -= load[o]
    return Placed([[int(h)] for h in host], 0)


def _plain(made: Workload, room: FloatArray, down: FloatArray, **more: Any) -> ReplicaProblem:
    table = made.table
    return ReplicaProblem(made.load, table.operators, room, down, table.edges, table.weights, **more)


def _problem(made: Workload, variant: Variant, used: int, spare: int, start: Placed) -> ReplicaProblem:
    """Return primaries where they are, and room for replicas as the variant reads the paper."""
    primary: IntArray = np.array([hosts[0] for hosts in start.instances], dtype=np.int64)
    budget = LOAD * spare / 100
    if variant.reading == "shared":
        room, replica_hosts = np.full(used, 1.0 + budget / used), None
    else:
        extra = math.ceil(budget * (1 + variant.slack))
        room, replica_hosts = np.ones(used + extra), np.arange(used + extra) >= used
    down = np.repeat(np.array(CHANCES)[:, None], len(room), axis=1)
    return _plain(made, room, down, primary=primary, replica_hosts=replica_hosts, budget=budget)


def _mean(drawn: Sequence[Point]) -> Point:
    """Return the mean of several draws; of the replicas that found no host the most."""
    if len(drawn) == 1:
        return drawn[0]
    exact, runs = (np.mean([getattr(one, name) for one in drawn], axis=0).tolist() for name in ("exact", "runs"))
    replicated = float(np.mean([one.replicated for one in drawn]))
    return Point(tuple(exact), tuple(runs), replicated, max(one.left_out for one in drawn))


def _plan(problem: ReplicaProblem, policy: str, variant: Variant, seed: int, draw: int) -> ReplicaPlan:
    noise = noise_of(problem.n_operators, DRAWS * seed + draw)
    return plan(problem, by=policy, selection=variant.selection, placement=variant.placement, noise=noise)


def _replicated(found: ReplicaPlan) -> BoolArray:
    assert found.levels is not None
    return np.asarray(found.levels > 0)


def _point(problem: ReplicaProblem, found: ReplicaPlan, seed: int) -> Point:
    """Return the exact and the sampled shares of running queries for each of CHANCES."""
    assert found.instances is not None
    assert found.broken is not None
    sampled = shares_running(problem.queries(found.instances), np.array(CHANCES), RUNS, seed)
    exact = 1 - problem.value(found.broken)
    share = float(_replicated(found).mean())
    return Point(tuple(exact.tolist()), tuple(sampled.mean(axis=1).tolist()), share, found.left_out)
