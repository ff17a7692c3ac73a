"""Tiny planning problems that are made to mislead a solver, and what is true of them, by trying everything.

Ties, zeros, duplicates, equal ratios, nothing at all, numbers of 1e15 and 1e-12 beside each other, sums that meet a
capacity to the last bit. All values are compared as exact fractions.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.migration_steps import MigrationSteps
from models.planning.selection import OperatorSelection, QuerySelection

_POOLS: tuple[tuple[float, ...], ...] = (
    (0.0,),
    (1.0,),
    (0.0, 1.0),
    (0.0, 1.0, 2.0, 3.0),
    (0.1, 0.2, 0.3, 0.7),
    (1e15, 1e15 + 1, 1e15 - 1, 2e15),
    (1e-12, 2e-12, 3e-12, 1.0),
    (1e15, 1e-12, 1.0, 0.0),
    (1.0, 1.0 + 2**-52, 1.0 - 2**-53),
    (1 / 3, 2 / 3, 1.0, 4 / 3),
    (7.0, 11.0, 13.0, 17.0),
    (1e-300, 1e-200, 1e90),
    (5e-324, 1e-308, 1.0),
)


def numbers(draw: np.random.Generator, *shape: int, signed: bool = False) -> np.ndarray:
    """Numbers of one of the pools, or drawn ones, some with a sign."""
    kind = int(draw.integers(0, len(_POOLS) + 3))
    if kind < len(_POOLS):
        found = draw.choice(np.array(_POOLS[kind]), size=shape)
    elif kind == len(_POOLS):
        found = draw.integers(0, 20, shape).astype(float)
    elif kind == len(_POOLS) + 1:
        found = draw.random(shape)
    else:
        found = 10.0 ** draw.uniform(-12, 15, shape)
    return found * draw.choice([-1.0, 1.0], size=shape) if signed and draw.random() < 0.5 else found


def room(draw: np.random.Generator, weights: np.ndarray, total: float) -> float:
    """A capacity: a share of all, the sum of some to the last bit, or a hair beside it."""
    kind = int(draw.integers(0, 5))
    if kind == 0:
        return float(draw.choice([0.0, 0.25, 0.5, 0.75, 1.0, 2.0])) * total
    some = float(weights.ravel()[draw.random(weights.size) < 0.5].sum())
    beside = (some, float(np.nextafter(some, np.inf)), max(0.0, float(np.nextafter(some, -1.0))), some * (1 - 1e-9))
    return beside[kind - 1]


def allocation(seed: int) -> CheckpointAllocation:
    """A checkpoint allocation of at most 1,024 assignments."""
    draw = np.random.default_rng([seed, 1])
    j, n = int(draw.integers(1, 6)), int(draw.integers(1, 5))
    cost = numbers(draw, j, n, signed=True)
    if draw.random() < 0.2:
        cost[:] = cost[0]
    if draw.random() < 0.15:
        cost = np.clip(cost, -1e30, 1e30).astype(np.float32)
    load = numbers(draw, j, n) if draw.random() < 0.3 else numbers(draw, j)
    if draw.random() < 0.25:
        load = np.full(j, load.ravel()[0])
    total = float(load.sum() if load.ndim == 1 else load.mean(axis=1).sum())
    fields: dict[str, Any] = {}
    if draw.random() < 0.75:
        fields["capacity"] = np.array([room(draw, load, total) for _ in range(n)])
        if draw.random() < 0.5:
            fields["capacity"] = np.full(n, (1 + draw.choice([0.0, 0.1, 0.5, 1.0])) * total / n)
    if draw.random() < 0.25:
        least = np.array([room(draw, load, total) for _ in range(n)]) * draw.choice([0.3, 0.7, 1.0])
        fields["capacity_min"] = np.minimum(least, fields.get("capacity", np.full(n, np.inf)))
    fields["forbidden"] = np.argwhere(draw.random((j, n)) < draw.choice([0.0, 0.15, 0.4]))
    share = draw.choice([0.0, 0.0, 0.2, 0.5, 1.0])
    fields["anti_affinity"] = [(a, b) for a in range(j) for b in range(a) if draw.random() < share]
    if draw.random() < 0.25:
        fields |= {"current": draw.integers(0, n, j), "max_moves": int(draw.integers(0, j + 1))}
    return CheckpointAllocation(cost=cost, load=load, **fields)


def selection(seed: int) -> OperatorSelection:
    """An operator selection, with one level or up to three."""
    draw = np.random.default_rng([seed, 2])
    levels = int(draw.choice([1, 1, 2, 3]))
    n = int(draw.integers(1, 9 if levels == 1 else 5))
    value, weight = numbers(draw, n, levels), numbers(draw, n, levels)
    if draw.random() < 0.3:  # equal ratios
        value = weight * float(draw.choice([1.0, 2.0, 0.1, 1e-12]))
    if draw.random() < 0.2:
        value = weight + float(draw.choice([1.0, 10.0, 1e-12]))
    capacity = room(draw, weight, float(weight.max(axis=1).sum()))
    highest = draw.integers(0, levels + 1, n) if draw.random() < 0.2 else None
    if levels == 1:
        value, weight = value[:, 0], weight[:, 0]
    return OperatorSelection(value, weight, capacity, max_level=highest)


def queries(seed: int) -> QuerySelection:
    """A query selection with at most 256 sets of queries."""
    draw = np.random.default_rng([seed, 3])
    m, n = int(draw.integers(1, 9)), int(draw.integers(1, 9))
    uses = np.argwhere(draw.random((m, n)) < draw.choice([0.0, 0.2, 0.5, 1.0]))
    if draw.random() < 0.3:
        uses = np.repeat(uses, 2, axis=0)
    weight = numbers(draw, n)
    single = numbers(draw, n) if draw.random() < 0.4 else None
    return QuerySelection(
        numbers(draw, m), weight, uses, room(draw, weight, float(weight.sum())), operator_value=single
    )


def steps(seed: int) -> MigrationSteps:
    """Moves among few hosts; with sizes at most five."""
    draw = np.random.default_rng([seed, 4])
    sized = bool(draw.random() < 0.5)
    hosts = int(draw.integers(2, 6))
    source = draw.integers(0, hosts, int(draw.integers(0, 6 if sized else 9)))
    moves = np.c_[source, (source + draw.integers(1, hosts, len(source))) % hosts]
    duplex = bool(draw.random() < 0.4)
    if not sized:
        return MigrationSteps(moves, duplex=duplex)
    links = np.maximum(numbers(draw, hosts), 1e-9)
    return MigrationSteps(moves, np.minimum(numbers(draw, len(moves)), 1e20), links, duplex=duplex)


@dataclass(frozen=True)
class Truth:
    """The best value of a problem as an exact fraction, None where nothing keeps the rules."""

    best: Fraction | None


def true_allocation(problem: CheckpointAllocation) -> Truth:
    """The least cost of all assignments; loads are added up in float64 in the order of the problem's own sums."""
    j, n = problem.n_checkpoints, problem.n_nodes
    every = np.array(list(itertools.product(range(n), repeat=j)), dtype=np.int64)
    good = problem.allowed[np.arange(j), every].all(axis=1)
    for a, b in problem.anti_affinity.tolist():
        good &= every[:, a] != every[:, b]
    loads = np.zeros((len(every), n))
    for k in range(j):
        loads[np.arange(len(every)), every[:, k]] += problem.weights[k, every[:, k]]
    good &= ((loads <= problem.upper) & (loads >= problem.lower)).all(axis=1)
    if problem.max_moves is not None:
        good &= (every != problem.current).sum(axis=1) <= problem.max_moves
    costs = [[Fraction(float(c)) for c in row] for row in problem.cost]
    kept = every[good].tolist()
    return Truth(min((sum((costs[k][at] for k, at in enumerate(one)), Fraction(0)) for one in kept), default=None))


def true_selection(problem: OperatorSelection) -> Truth:
    """The most value of all levels within the limit."""
    values = [[Fraction(v) for v in row] for row in problem.level_values.tolist()]
    weights = [[Fraction(w) for w in row] for row in problem.level_weights.tolist()]
    reached = {(Fraction(0), Fraction(0))}
    limit = Fraction(problem.limit)
    for o, may in enumerate(problem.allowed):
        choices = [(weights[o][k], values[o][k]) for k in np.flatnonzero(may).tolist()]
        reached = {(w + dw, v + dv) for w, v in reached for dw, dv in choices if w + dw <= limit}
    return Truth(max(v for _, v in reached))


def true_queries(problem: QuerySelection) -> Truth:
    """The most value of all sets of queries whose operators are within the limit."""
    values = [Fraction(v) for v in problem.value.tolist()]
    weights = [Fraction(w) for w in problem.weight.tolist()]
    best = Fraction(0)
    for chosen in itertools.product([False, True], repeat=problem.n_queries):
        union = np.flatnonzero(problem.union(np.array(chosen))).tolist()
        if sum((weights[o] for o in union), Fraction(0)) <= Fraction(problem.limit):
            best = max(best, sum((v for v, taken in zip(values, chosen, strict=True) if taken), Fraction(0)))
    return Truth(best)


def true_steps(problem: MigrationSteps) -> Truth:
    """The fewest steps of all colourings; with sizes the shortest of all orders of moves, in exact fractions."""
    ends = problem.ends.tolist()
    if problem.durations_s is not None:
        return Truth(_shortest(ends, [Fraction(d) for d in problem.durations_s.tolist()]))
    return Truth(Fraction(next(k for k in range(len(ends) + 1) if _colourable(ends, [], k))))


def _shortest(ends: list[list[int]], durations: list[Fraction]) -> Fraction:
    best: Fraction | None = None
    for order in itertools.permutations(range(len(ends))):
        free: dict[int, Fraction] = {}
        for move in order:
            a, b = ends[move]
            free[a] = free[b] = max(free.get(a, Fraction(0)), free.get(b, Fraction(0))) + durations[move]
        end = max(free.values(), default=Fraction(0))
        best = end if best is None or end < best else best
    return best if best is not None else Fraction(0)


def _colourable(ends: list[list[int]], colours: list[int], most: int) -> bool:
    edge = len(colours)
    if edge == len(ends):
        return True
    for colour in range(min(most, max(colours, default=-1) + 2)):
        clash = any(c == colour and set(ends[e]) & set(ends[edge]) for e, c in enumerate(colours))
        if not clash and _colourable(ends, [*colours, colour], most):
            return True
    return False
