"""Reasons why no allocation can keep all constraints, where sums prove it: the smallest such reason, in words.

The search looks, in this order, for a checkpoint that no node may store; copies that find too few nodes; nodes that
cannot hold what only they may store, or cannot reach their minimum (`hall_violator`), in load or in numbers of
checkpoints.

A Hall violator is a set of nodes that cannot hold what may go nowhere else, not even in parts. For a set T of nodes,
S(T) are the checkpoints that only nodes of T may store, R(T) those that some node of T may store. Where the load of a
checkpoint is the same on all nodes and there is no anti-affinity,

    load(S(T)) <= capacity(T)    and    capacity_min(T) <= load(R(T))    for all T

are needed, and enough for an allocation that may divide checkpoints (Hall 1935; Hoffman 1960 with minima). A minimum
cut finds a T that breaks one. Nodes are taken out of it as long as that is so, then the lightest checkpoints: of what
is left every part is needed. Sums decide, not the cut, which works on rounded numbers.

The same theorem gives, of copies that need different nodes, those that have too few between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np

from models import display
from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.common.solvers import FlowNetwork
from optimizer.verify.checkpoint_bounds import cliques, counts, fitting, is_clique, is_count_problem

SURE = 1 + 1e-12  # sums are compared with room for their rounding
_BITS = 52
_PAIRED_NODES = 300  # up to which all pairs of nodes are looked at
_MOST_PAIRS = 200_000_000  # J * N above which nothing is looked at: a byte for each


@dataclass(frozen=True)
class HallViolator:
    """Checkpoints and nodes that do not go together: more load than room, or `least`: a minimum beyond the load."""

    checkpoints: IntArray
    nodes: IntArray
    load: float
    room: float
    least: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Return how many nodes and checkpoints it names: what is smaller says more."""
        return len(self.nodes), len(self.checkpoints)


@dataclass(frozen=True)
class _Rows:
    """Checkpoints that the same nodes may store, as one: where (G, N), load (G,) in all."""

    where: BoolArray
    load: FloatArray


def hall_violator(problem: CheckpointAllocation, *, most_arcs: int | None = None) -> HallViolator | None:
    """Return the smallest set found that breaks a condition, by nodes and then checkpoints; None without any.

    Loads must be the same on all nodes; anti-affinity pairs and moves are not looked at, so None guarantees nothing
    then. With `most_arcs` only networks of so many arcs are looked at.
    """
    if problem.load.ndim != 1 or problem.cost.size > _MOST_PAIRS:
        return None
    fits = fitting(problem)
    rows = _rows(problem, fits)
    if most_arcs is not None and rows.where.size > most_arcs:
        return None
    sets: list[HallViolator] = []
    for least in (False, True):
        limit = problem.lower if least else problem.upper
        if (limit > 0).any() if least else problem.capacity is not None:
            found = _smallest_nodes(rows, limit, least=least)
            if found is not None:
                sets.append(_few_checkpoints(problem, fits, found, least=least))
    return min(sets, key=lambda one: one.size, default=None)


def _rows(problem: CheckpointAllocation, fits: BoolArray) -> _Rows:
    _, first, group = np.unique(np.packbits(fits, axis=1), axis=0, return_index=True, return_inverse=True)
    return _Rows(fits[first], np.bincount(group.reshape(-1), weights=problem.load).astype(np.float64))


def _smallest_nodes(rows: _Rows, limit: FloatArray, *, least: bool) -> BoolArray | None:
    """Return the nodes (N,) of the smallest set found: one or two nodes, else what a cut leaves; None without any."""
    n = len(limit)
    for size in (1, 2) if n <= _PAIRED_NODES else (1,):
        best = _of_size(rows, limit, size, least=least)
        if best is not None:
            return best
    cut = _cut(rows, limit, least=least)
    if cut is None or not _broken(rows, limit, cut, least=least):
        return None
    orders = (np.argsort(limit, kind="stable"), np.argsort(-limit, kind="stable"), np.arange(n))
    # What is left depends on the order of the filter; three orders cost little, and the smallest set says most.
    filtered = [_without(rows, limit, cut, order, least=least) for order in orders]
    return min(filtered, key=lambda one: int(one.sum()))


def _of_size(rows: _Rows, limit: FloatArray, size: int, *, least: bool) -> BoolArray | None:
    """Return the first set of one or two nodes that breaks the condition."""
    n = len(limit)
    count = rows.where.sum(axis=1)
    if size == 1 or n == 1:
        asked = [[a] for a in range(n)]
    elif least:
        asked = [[a, b] for a in range(n) for b in range(a + 1, n)]
    else:  # only pairs that are all some checkpoints have
        asked = np.unique(np.nonzero(rows.where[count == 2])[1].reshape(-1, 2), axis=0).tolist()
    for nodes in asked:
        chosen = np.zeros(n, dtype=np.bool_)
        chosen[nodes] = True
        if _broken(rows, limit, chosen, least=least):
            return chosen
    return None


def _of_nodes(rows: _Rows, nodes: BoolArray, *, least: bool) -> BoolArray:
    """Return the groups that count for a set of nodes, (G,)."""
    touched: BoolArray = np.asarray(rows.where[:, nodes].any(axis=1))
    return touched if least else touched & ~rows.where[:, ~nodes].any(axis=1)


def _broken(rows: _Rows, limit: FloatArray, nodes: BoolArray, *, least: bool) -> bool:
    load = math.fsum(rows.load[_of_nodes(rows, nodes, least=least)].tolist())
    room = math.fsum(limit[nodes].tolist())
    return room > load * SURE if least else load > room * SURE


def _without(rows: _Rows, limit: FloatArray, cut: BoolArray, order: IntArray, *, least: bool) -> BoolArray:
    """Return the set without nodes that are not needed, taken out in this order."""
    nodes = cut.copy()
    for n in order[cut[order]].tolist():
        nodes[n] = False
        if not _broken(rows, limit, nodes, least=least):
            nodes[n] = True
    return nodes


def _cut(rows: _Rows, limit: FloatArray, *, least: bool) -> BoolArray | None:
    """Return the nodes of a minimum cut between loads and limits; None where all can flow."""
    total = math.fsum(rows.load.tolist())
    finite = np.minimum(limit, 2 * total)
    scale = _BITS - math.frexp(max(total, math.fsum(finite.tolist()), 1e-300))[1]
    load = np.floor(np.ldexp(rows.load, scale)).astype(np.int64)
    room = np.floor(np.ldexp(finite, scale)).astype(np.int64)
    g, n = rows.where.shape
    row, column = np.nonzero(rows.where)
    source, sink = g + n, g + n + 1
    tails = np.concatenate([np.full(g, source), row, g + np.arange(n)])
    heads = np.concatenate([np.arange(g), g + column, np.full(n, sink)])
    network = FlowNetwork(tails, heads, np.concatenate([load, np.full(len(row), 2**_BITS * 2), room]))
    if not network.solve(source, sink) or network.value >= int((room if least else load).sum()):
        return None
    side = network.sink_side() if least else network.source_side()
    nodes = np.zeros(n, dtype=np.bool_)
    nodes[side[(side >= g) & (side < source)] - g] = True
    return nodes


def _few_checkpoints(problem: CheckpointAllocation, fits: BoolArray, nodes: BoolArray, *, least: bool) -> HallViolator:
    """Return the set with its checkpoints: of more load than room only the heaviest that are needed."""
    if least:
        able = np.flatnonzero(fits[:, nodes].any(axis=1))
        load, asked = math.fsum(problem.load[able].tolist()), math.fsum(problem.lower[nodes].tolist())
        return HallViolator(able, np.flatnonzero(nodes), load, asked, least=True)
    while True:
        only = np.flatnonzero(fits[:, nodes].any(axis=1) & ~fits[:, ~nodes].any(axis=1))
        only = only[np.argsort(-problem.load[only], kind="stable")]
        room = math.fsum(problem.upper[nodes].tolist())
        enough = int(np.searchsorted(np.cumsum(problem.load[only]), room * SURE, side="right")) + 1
        while math.fsum(problem.load[only[:enough]].tolist()) <= room * SURE:
            enough += 1  # a running sum is rounded differently
        chosen = np.sort(only[:enough])
        reached = np.asarray(fits[chosen].any(axis=0))
        if (reached == nodes).all():
            return HallViolator(chosen, np.flatnonzero(nodes), math.fsum(problem.load[chosen].tolist()), room)
        nodes = reached


_FREE = "free"


def violating_rows(may: BoolArray) -> list[int]:
    """Return rows that have one choice less together than they are; none where each row can have one of its own.

    `may` (rows, choices). Rows are matched one after the other along shortest paths; the first that finds no way to a
    free choice is returned with all rows that it meets, ascending: the fewest of the rows so far, whatever matching was
    found. (`networkx.bipartite` has matchings as well. They recurse along paths, for which a thousand rows in a line
    are too many, and do not say which rows come first.)
    """
    rows = _few_choices(may)
    if not rows:
        return []
    graph: nx.DiGraph[int | str] = nx.DiGraph()
    graph.add_edges_from((-1 - row, choice) for row in rows for choice in np.flatnonzero(may[row]).tolist())
    graph.add_edges_from((choice, _FREE) for choice in np.flatnonzero(may[rows].any(axis=0)).tolist())
    graph.add_nodes_from([_FREE, *(-1 - row for row in rows)])
    for row in rows:
        try:
            path = nx.shortest_path(graph, -1 - row, _FREE)
        except nx.NetworkXNoPath:
            met = nx.descendants(graph, -1 - row) | {-1 - row}
            return [one for one in rows if -1 - one in met]
        graph.remove_edges_from(list(pairwise(path)))
        graph.add_edges_from((b, a) for a, b in pairwise(path[:-1]))
    return []


def _few_choices(may: BoolArray) -> list[int]:
    """Return the rows that have fewer choices than there are rows: others find one whatever the rest take."""
    counts = may.sum(axis=1)
    order = np.argsort(counts, kind="stable")
    few = len(order)
    while few and counts[order[few - 1]] >= few:
        few -= 1
    return sorted(order[:few].tolist())


MOST_NAMED = 8  # checkpoints or nodes that a sentence names
_QUICK_PAIRS, _QUICK_ARCS = 2_000_000, 20_000  # looked at before any solver: milliseconds

# ("store", checkpoint), ("capacity", node), ("minimum", node), ("anti_affinity", set), ("moves", 0)
Part = tuple[str, int]


@dataclass(frozen=True)
class Reason:
    """A reason why there is no allocation: in words, and the parts that cannot hold together, if several may be."""

    text: str
    parts: tuple[Part, ...] = ()


def why_infeasible(problem: CheckpointAllocation) -> Reason | None:
    """Return the reason why no assignment keeps all constraints; None when none of the cheap ones applies.

    Without a reason the problem may still be infeasible: only sums and matchings are looked at. Reasons are tried from
    the simplest to the most involved.
    """
    fits = fitting(problem)
    for reason in (_nowhere, _too_few_nodes, _too_much, _too_little, _too_many_moves):
        found = reason(problem, fits)
        if found is not None:
            return found
    return None if fits.all() else _narrow(problem)  # sums say all where any node may store anything


def _nowhere(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    closed = np.flatnonzero(~problem.allowed.any(axis=1))
    if len(closed):
        return Reason(f"checkpoint {closed[0]} has no allowed node")
    stuck = np.flatnonzero(~fits.any(axis=1))
    if len(stuck):
        return Reason(f"the load of checkpoint {stuck[0]} exceeds the capacity of every node that may store it")
    return None


def _too_much(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    if problem.capacity is None:
        return None
    least = math.fsum(_lightest(problem, fits).tolist())
    total = math.fsum(problem.upper.tolist())
    if least <= total * SURE:
        return None
    text = f"the total load {display.number(least, 6)} exceeds the total capacity {display.number(total, 6)}"
    return hall_reason(problem) or Reason(text, (*_all("capacity", problem.n_nodes), *_all("store", len(fits))))


def _too_little(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    if problem.capacity_min is None:
        return None
    weights = np.where(fits, problem.weights, 0.0)
    most = weights.sum(axis=0)
    short = np.flatnonzero(most * SURE < problem.lower)
    if len(short):
        n = int(short[0])
        required = problem.capacity_min[n]
        return Reason(
            f"node {n} asks for at least {display.number(required, 6)}, "
            f"all that may go there is {display.number(most[n], 6)}"
        )
    largest = math.fsum(weights.max(axis=1).tolist())
    required = math.fsum(problem.lower.tolist())
    if largest * SURE >= required:
        return None
    text = f"the minimum loads sum to {display.number(required, 6)}, the total load is {display.number(largest, 6)}"
    return hall_reason(problem) or Reason(text, _all("minimum", problem.n_nodes))


def _too_few_nodes(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    """Return the fewest copies with pairwise anti-affinity that find fewer nodes than they are (Hall 1935)."""
    for members in cliques(problem):
        few = violating_rows(fits[members]) if is_clique(problem, members) else []
        if few:
            chosen = members[few]
            nodes = len(few) - 1
            verb = "node" if nodes == 1 else "nodes"
            named = chosen.tolist()[:MOST_NAMED]
            return Reason(f"checkpoints {named} must be on different nodes, only {nodes} {verb} may store them")
    return None


def _too_many_moves(problem: CheckpointAllocation, fits: BoolArray) -> Reason | None:
    if problem.max_moves is None or problem.current is None:
        return None
    must = int((~fits[np.arange(problem.n_checkpoints), problem.current]).sum())
    if must <= problem.max_moves:
        return None
    return Reason(f"{must} checkpoints cannot stay, only {problem.max_moves} may move")


def _narrow(problem: CheckpointAllocation) -> Reason | None:
    """Return what a few nodes cannot hold, where that is quick to see: few checkpoints with nodes of their own."""
    if problem.capacity is None or problem.cost.size > _QUICK_PAIRS:
        return None
    found = hall_violator(problem, most_arcs=_QUICK_ARCS)
    return None if found is None else Reason(_of_loads(problem, found), parts_of(found))


def hall_reason(problem: CheckpointAllocation) -> Reason | None:
    """Return a set of nodes that cannot hold or reach its load, or its number of checkpoints; None proves nothing.

    Hall's condition (1935) for capacities, Hoffman's (1960) where nodes have minimum loads too.
    """
    found = hall_violator(problem)
    if found is not None:
        return Reason(_of_loads(problem, found), parts_of(found))
    if not is_count_problem(problem) or problem.cost.size == 0:
        return None
    limit = counts(problem)
    counted = CheckpointAllocation(
        cost=problem.cost,
        load=np.ones(problem.n_checkpoints),
        capacity=np.maximum(limit.most, limit.least).astype(np.float64),
        capacity_min=limit.least.astype(np.float64),
        forbidden=problem.forbidden,
    )
    narrow = np.flatnonzero(limit.least > limit.most)
    if len(narrow):
        n = int(narrow[0])
        return Reason(f"node {n} asks for at least {limit.least[n]} checkpoints and has room for {limit.most[n]}")
    found = hall_violator(counted)
    return None if found is None else Reason(_of_counts(found), parts_of(found))


def parts_of(found: HallViolator) -> tuple[Part, ...]:
    """Return the parts of the problem that a Hall violator needs: rules of its checkpoints, and limits of its nodes."""
    limits: list[Part] = [("minimum" if found.least else "capacity", n) for n in found.nodes.tolist()]
    return (*limits, *(() if found.least else (("store", j) for j in found.checkpoints.tolist())))


def _of_loads(problem: CheckpointAllocation, found: HallViolator) -> str:
    if len(found.nodes) == problem.n_nodes and not (found.least and problem.n_nodes == 1):
        if found.least:
            required, load = display.apart(found.room, found.load, form=display.number)
            return f"the minimum loads sum to {required}, the total load is {load}"
        total = math.fsum(problem.load.tolist())
        return f"the total load {display.number(total, 6)} exceeds the total capacity {display.number(found.room, 6)}"
    nodes, single = named("node", found.nodes), len(found.nodes) == 1
    if found.least:
        verb = "asks" if single else "ask"
        required, load = display.apart(found.room, found.load, form=display.number)
        return f"{nodes} {verb} for at least {required}, all that may go there is {load}"
    who = named("checkpoint", found.checkpoints)
    which = f"{nodes}, which can hold" if single else f"{nodes}, which together can hold"
    return f"{who} with load {display.number(found.load, 6)} may only go to {which} {display.number(found.room, 6)}"


def _of_counts(found: HallViolator) -> str:
    nodes, single = named("node", found.nodes), len(found.nodes) == 1
    room = round(found.room)
    if found.least:
        verb = "asks" if single else "ask"
        return f"{nodes} {verb} for at least {room} checkpoints, {len(found.checkpoints)} may go there"
    who = named("checkpoint", found.checkpoints)
    return (
        f"{who} may only go to {nodes}, with room for {room} whole checkpoint{'' if room == 1 else 's'} of their load"
    )


def _all(kind: str, count: int) -> tuple[Part, ...]:
    return tuple((kind, index) for index in range(count))


def _lightest(problem: CheckpointAllocation, fits: BoolArray) -> FloatArray:
    if problem.load.ndim == 1:
        return problem.load
    lightest: FloatArray = np.where(fits, problem.weights, np.inf).min(axis=1)
    return lightest


def named(noun: str, indices: IntArray) -> str:
    """Return a noun with indices in words: "node 3", "nodes 3, 5"; of many only the first ones are named."""
    shown = ", ".join(map(str, indices[:MOST_NAMED].tolist()))
    more = f" and {len(indices) - MOST_NAMED} more" if len(indices) > MOST_NAMED else ""
    return f"{noun}{'' if len(indices) == 1 else 's'} {shown}{more}"


def amounts(values: FloatArray) -> str:
    if len(values) > 1 and (values == values[0]).all():
        return f"{display.number(values[0], 6)} each"
    shown = ", ".join(display.number(value, 6) for value in values[:MOST_NAMED].tolist())
    return (
        shown
        if len(values) <= MOST_NAMED
        else f"{shown}, .. ({display.number(math.fsum(values.tolist()), 6)} together)"
    )
