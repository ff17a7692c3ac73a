"""Small planning problems of every kind with ordinary numbers: what is best, and random answers that keep the rules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import degenerate_instances as degenerate
import numpy as np
from replica_cases import every_plan

from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.checkpoint_interval import CheckpointInterval, IntervalPlan, allowed_intervals, slowdown
from models.planning.migration_steps import MigrationSteps, StepsPlan
from models.planning.placement import Placement, PlacementPlan
from models.planning.replicas import ReplicaPlan, ReplicaProblem
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan
from models.planning.solution import Solution

_ANSWERS = 12


@dataclass(frozen=True)
class Answer:
    """An answer that keeps the rules: its objective, and the fields by which a plan holds it."""

    objective: float
    fields: dict[str, Any]


def selection(seed: int, n: int | None = None) -> OperatorSelection:
    """Operators with up to three levels; whole numbers or not, some with values near their weights."""
    draw = np.random.default_rng([seed, 11])
    n, levels = n or int(draw.integers(2, 9)), int(draw.integers(1, 4))
    weight, value = _amounts(draw, n, levels), _amounts(draw, n, levels)
    value = value + weight * float(draw.choice([0.0, 1.0]))
    if levels > 1:
        weight, value = np.sort(weight, axis=1), np.sort(value, axis=1)
    return OperatorSelection(value, weight, float(weight[:, -1].sum() * draw.choice([0.1, 0.3, 0.5, 0.8])))


def _amounts(draw: np.random.Generator, *shape: int) -> np.ndarray:
    return draw.integers(1, 100, shape).astype(float) if draw.random() < 0.5 else 10 * draw.random(shape)


def best_selection(problem: OperatorSelection) -> float:
    return float(degenerate.true_selection(problem).best or 0)


def selections(problem: OperatorSelection, draw: np.random.Generator) -> Iterator[Answer]:
    for share in draw.random(_ANSWERS):
        level = np.where(draw.random(problem.n_operators) < share, problem.n_levels, 0)
        if problem.fits(level) and problem.allowed[np.arange(len(level)), level].all():
            yield Answer(problem.objective(level), {"level": level})


def queries(seed: int, m: int | None = None) -> QuerySelection:
    """Queries of up to four operators that they share."""
    draw = np.random.default_rng([seed, 12])
    m = m or int(draw.integers(2, 9))
    n = int(draw.integers(m // 2 + 1, 2 * m + 1))
    uses = [(q, o) for q in range(m) for o in draw.choice(n, size=min(n, int(draw.integers(1, 5))), replace=False)]
    weight, share = _amounts(draw, n), float(draw.choice([0.1, 0.3, 0.5, 0.8]))
    single = draw.random(n) if draw.random() < 0.3 else None
    return QuerySelection(_amounts(draw, m), weight, np.array(uses), float(weight.sum() * share), single)


def best_queries(problem: QuerySelection) -> float:
    return float(degenerate.true_queries(problem).best or 0)


def query_sets(problem: QuerySelection, draw: np.random.Generator) -> Iterator[Answer]:
    for share in draw.random(_ANSWERS):
        chosen = draw.random(problem.n_queries) < share
        operators = problem.union(chosen)
        if problem.fits(operators):
            yield Answer(problem.objective(chosen), {"queries": chosen, "operators": operators})


def steps(seed: int, most: int | None = None) -> MigrationSteps:
    """Moves among few hosts, half of the problems with sizes."""
    draw = np.random.default_rng([seed, 13])
    sized = bool(draw.integers(2))
    n = int(draw.integers(1, 6 if sized else 9)) if most is None else most
    hosts = int(draw.integers(2, n // 2 + 4))
    source = draw.integers(0, hosts, n)
    moves = np.c_[source, (source + draw.integers(1, hosts, n)) % hosts]
    sizes = draw.integers(1, 20, n).astype(float) if sized else None
    links = draw.choice([1.0, 2.0, 4.0], hosts) if sized else None
    return MigrationSteps(moves, sizes, links, duplex=bool(draw.random() < 0.3))


def best_steps(problem: MigrationSteps) -> float:
    return float(degenerate.true_steps(problem).best or 0)


def schedules(problem: MigrationSteps, draw: np.random.Generator) -> Iterator[Answer]:
    """Moves in random order, each after all that share a host with it, the last ones later than they must."""
    durations = np.ones(problem.n_moves) if problem.durations_s is None else problem.durations_s
    name = "step" if problem.durations_s is None else "start_s"
    for wait in range(_ANSWERS):
        at, free = np.zeros(problem.n_moves), np.zeros(int(problem.ends.max()) + 1)
        for move in draw.permutation(problem.n_moves).tolist():
            at[move] = free[problem.ends[move]].max()
            free[problem.ends[move]] = at[move] + durations[move]
        at[at == at.max()] += wait % 3
        yield Answer(float((at + durations).max()), {name: at if name == "start_s" else at.astype(int)})


def allocation(seed: int, j: int | None = None, n: int | None = None) -> CheckpointAllocation:
    """Checkpoints with capacities, some with minima, moves, and copies with anti-affinity."""
    draw = np.random.default_rng([seed, 14])
    j, n = j or int(draw.integers(2, 7)), n or int(draw.integers(2, 4))
    load = draw.integers(1, 5, j).astype(float)
    fields: dict[str, Any] = {}
    if draw.random() < 0.8:
        fields["capacity"] = np.full(n, math.ceil(load.sum() / n * draw.choice([1.05, 1.2, 1.5])))
    if draw.random() < 0.2:
        fields["capacity_min"] = np.full(n, math.floor(load.sum() / n * 0.5))
    if draw.random() < 0.3:
        fields |= {"current": draw.integers(0, n, j), "max_moves": int(draw.integers(0, j + 1))}
    if draw.random() < 0.3:
        fields["anti_affinity"] = [(a, b) for a in range(j) for b in range(a) if draw.random() < 0.1]
    return CheckpointAllocation(cost=_amounts(draw, j, n), load=load, **fields)


def best_allocation(problem: CheckpointAllocation) -> float | None:
    best = degenerate.true_allocation(problem).best
    return None if best is None else float(best)


def allocations(problem: CheckpointAllocation, draw: np.random.Generator) -> Iterator[Answer]:
    for _ in range(20 * _ANSWERS):
        node = draw.integers(0, problem.n_nodes, problem.n_checkpoints)
        loads = problem.node_loads(node)
        fits = (loads <= problem.upper).all() and (loads >= problem.lower).all()
        separate = (node[problem.anti_affinity[:, 0]] != node[problem.anti_affinity[:, 1]]).all()
        if fits and separate and (problem.max_moves is None or problem.moves(node) <= problem.max_moves):
            yield Answer(problem.objective(node), {"assignment": node})


def placement(seed: int, n: int | None = None) -> Placement:
    """Instances for each of the three goals, with operators, colours, networks and moves in some of the problems."""
    draw = np.random.default_rng([seed, 15])
    n = n or int(draw.integers(2, 7))
    hosts = int(draw.integers(2, n // 2 + 3)) if n > 6 else int(draw.integers(2, 4))
    cpu = draw.integers(1, 6, n).astype(float)
    fields: dict[str, Any] = {"goal": str(draw.choice(["colours", "hosts", "value"]))}
    fields["value"] = draw.integers(1, 20, n).astype(float)
    for name in ("operator", "colour"):
        if draw.random() < 0.5:
            fields[name] = draw.integers(0, n // 2 + 1, n)
    if draw.random() < 0.3:
        fields |= {"network": draw.integers(1, 6, n).astype(float), "host_network": np.full(hosts, 4.0 * n / hosts)}
    if draw.random() < 0.3:
        fields |= {"current": draw.integers(-1, hosts, n), "max_moves": int(draw.integers(0, n + 1))}
    if draw.random() < 0.2:
        fields["max_colours"] = int(draw.integers(1, 4))
    room = math.ceil(cpu.sum() / hosts * draw.choice([0.8, 1.05, 1.2, 1.5]))
    return Placement(cpu, np.full(hosts, float(room)), **fields)


def _keeps_rules(problem: Placement, host: np.ndarray) -> bool:
    if (problem.used(host) > problem.rooms).any() or (problem.goal != "value" and (host < 0).any()):
        return False
    if problem.max_colours is not None and problem.most_colours(host) > problem.max_colours:
        return False
    if problem.max_moves is not None and problem.moves(host) > problem.max_moves:
        return False
    placed = [(int(problem.operators[i]), int(host[i])) for i in np.flatnonzero(host >= 0)]
    return len(set(placed)) == len(placed)


def best_placement(problem: Placement) -> float | None:
    hosts = range(-1 if problem.goal == "value" else 0, problem.n_hosts)
    every = (np.array(each) for each in itertools.product(hosts, repeat=problem.n_instances))
    found = [problem.objective(host) for host in every if _keeps_rules(problem, host)]
    return (max if problem.goal == "value" else min)(found, default=None)


def placements(problem: Placement, draw: np.random.Generator) -> Iterator[Answer]:
    for _ in range(20 * _ANSWERS):
        host = draw.integers(-1 if problem.goal == "value" else 0, problem.n_hosts, problem.n_instances)
        if _keeps_rules(problem, host):
            used = problem.hosts_used(host) if problem.goal == "colours" else None
            yield Answer(problem.objective(host), {"host": host, "hosts_bound": used})


def interval(seed: int) -> CheckpointInterval:
    """Checkpoints of a stream, in some of the problems with a target for recoveries."""
    draw = np.random.default_rng([seed, 16])
    fields: dict[str, Any] = {}
    if draw.random() < 0.6:
        fields["utilisation"] = float(draw.uniform(0.1, 0.9))
        if draw.random() < 0.7:
            fields["recovery_target_s"] = float(10 ** draw.uniform(0.5, 4))
    return CheckpointInterval(
        checkpoint_s=float(10 ** draw.uniform(-2, 2)),
        mtbf_s=float(10 ** draw.uniform(2, 7)),
        restart_s=float(10 ** draw.uniform(0, 2.5)),
        **fields,
    )


def _intervals(problem: CheckpointInterval) -> np.ndarray:
    """Intervals between the limits, close to each other."""
    allowed = allowed_intervals(problem)
    if allowed is None:
        return np.zeros(0)
    least = max(allowed[0], problem.checkpoint_s / (1 - (problem.utilisation or 0.0)))
    least = max(least, problem.checkpoint_s) * (1 + 1e-9)
    most = min(allowed[1], 20 * problem.mtbf_s)
    return np.geomspace(least, most, 2_000) if most > least else np.zeros(0)


def _slowdown(problem: CheckpointInterval, interval_s: float) -> float:
    return slowdown(interval_s - problem.checkpoint_s, problem.checkpoint_s, problem.mtbf_s, problem.restart_s)


def best_interval(problem: CheckpointInterval) -> float | None:
    return min((_slowdown(problem, each) for each in _intervals(problem).tolist()), default=None)


def intervals(problem: CheckpointInterval, draw: np.random.Generator) -> Iterator[Answer]:
    every = _intervals(problem).tolist()
    for at in draw.integers(0, len(every), _ANSWERS).tolist() if every else ():
        yield Answer(_slowdown(problem, every[at]), {"interval_s": every[at]})


def replicas(seed: int) -> ReplicaProblem:
    """Three operators on three or four hosts."""
    draw = np.random.default_rng([seed, 17])
    hosts, load = int(draw.integers(3, 5)), draw.choice([0.1, 0.2, 0.3], 3)
    sets = [tuple(sorted(set(draw.integers(0, 3, int(draw.integers(1, 4))).tolist()))) for _ in range(3)]
    down = np.full((1, hosts), 0.02) if draw.random() < 0.5 else draw.choice([0.02, 0.1, 0.3], (1, hosts))
    return ReplicaProblem(
        load=load,
        operators=tuple(sets),
        host_cpu=np.full(hosts, float(draw.choice([0.6, 1.0]))),
        down=down,
        edges=np.empty((0, 2), dtype=np.int64),
        budget=float(draw.choice([0.0, 0.2, 0.35, 0.5])),
        goal=str(draw.choice(["mean", "worst"])),
    )


def _broken(problem: ReplicaProblem, made: Any) -> float:
    return float(problem.value(problem.broken(made))[0])


def best_replicas(problem: ReplicaProblem) -> float | None:
    return min((_broken(problem, made) for made in every_plan(problem)), default=None)


def replica_plans(problem: ReplicaProblem, draw: np.random.Generator) -> Iterator[Answer]:
    every = list(every_plan(problem))
    for at in draw.integers(0, len(every), _ANSWERS).tolist() if every else ():
        yield Answer(_broken(problem, every[at]), {"instances": every[at]})


PLANS: dict[str, type[Solution]] = {
    "selection": SelectionPlan,
    "queries": QueryPlan,
    "steps": StepsPlan,
    "allocation": CheckpointPlan,
    "placement": PlacementPlan,
    "interval": IntervalPlan,
    "replicas": ReplicaPlan,
}
