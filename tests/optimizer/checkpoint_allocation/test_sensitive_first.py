"""The heuristic with a heap equals the paper's Algorithm 3 with literal re-sorting."""

import math

import numpy as np
import pytest

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.checkpoint_allocation.sensitive import sensitive_first


def literal(problem):
    """Algorithm 3 line by line: a list that is sorted again after every failure."""
    nodes = range(problem.n_nodes)
    capacity = problem.upper
    assign, load = {}, [0.0] * problem.n_nodes

    def values(c):
        return sorted({problem.cost[c, n] for n in nodes if problem.allowed[c, n]})

    def gap(c, index):
        v = values(c)
        if index >= len(v):
            return -math.inf
        return v[index + 1] - v[index] if index + 1 < len(v) else math.inf

    def satisfies_1(c, n):
        return problem.allowed[c, n] and all(assign.get(k) != n for k in problem.neighbours.get(c, ()))

    cps = [[gap(c, 0), c, 0] for c in range(problem.n_checkpoints)]
    cps.sort(key=lambda cp: (-cp[0], cp[1]))  # 7.
    while cps:  # 8.
        _, c, index = cps[0]  # 9.
        if index >= len(values(c)):  # 11.
            safe = [n for n in nodes if satisfies_1(c, n)]
            if safe:
                n = min(safe, key=lambda n: (problem.cost[c, n], load[n], n))  # 12. 13.
                assign[c] = n
                load[n] += problem.weights[c, n]
            cps.pop(0)
            continue
        level = [n for n in nodes if satisfies_1(c, n) and problem.cost[c, n] == values(c)[index]]  # 10.
        for n in sorted(level, key=lambda n: (load[n], n)):  # 21.
            if load[n] + problem.weights[c, n] <= capacity[n]:  # 22.
                assign[c] = n
                load[n] += problem.weights[c, n]
                cps.pop(0)
                break
        else:
            cps[0] = [gap(c, index + 1), c, index + 1]  # 27.
            cps.sort(key=lambda cp: (-cp[0], cp[1]))  # 28.
    return [assign.get(c, -1) for c in range(problem.n_checkpoints)]


@pytest.mark.parametrize("seed", range(120))
def test_the_heap_equals_the_literal_algorithm(seed):
    random = np.random.default_rng(seed)
    j, n = int(random.integers(1, 25)), int(random.integers(1, 7))
    cost = random.integers(-3, 4, (j, n)) / 4 if seed % 2 else random.normal(size=(j, n))
    load = random.integers(1, 6, j) * 1.0
    problem = CheckpointAllocation(
        cost=cost,
        load=load,
        capacity=None if seed % 5 == 0 else np.full(n, random.choice([0.6, 1.0, 1.3]) * load.sum() / n),
        forbidden=np.argwhere(random.random((j, n)) < 0.2),
        anti_affinity=[(a, b) for a in range(j) for b in range(a) if random.random() < 0.1],
    )
    assert sensitive_first(problem).tolist() == literal(problem)


def test_ties_go_to_the_node_with_the_lowest_checkpoint_load():
    problem = CheckpointAllocation(cost=np.zeros((4, 2)), load=[3.0, 1.0, 1.0, 1.0])
    assert sensitive_first(problem).tolist() == [0, 1, 1, 1]


def test_without_capacity_the_heuristic_is_optimal():
    random = np.random.default_rng(4)
    problem = CheckpointAllocation(cost=random.normal(size=(50, 9)), load=np.ones(50))
    heuristic = solve(problem, method="sensitive-first")
    assert heuristic.status is Status.OPTIMAL
    assert heuristic.objective == solve(problem).objective


def test_the_fall_back_overloads_and_the_plan_says_so():
    problem = CheckpointAllocation(cost=[[0.0, 9.0], [0.0, 5.0], [0.0, 1.0]], load=[2, 2, 3], capacity=[4, 4])
    plan = solve(problem, method="sensitive-first")
    assert (plan.status, plan.assignment.tolist()) == (Status.FEASIBLE, [0, 0, 1])  # the last moves on
    tight = CheckpointAllocation(cost=[[0.0, 9.0], [0.0, 5.0], [1.0, 0.0]], load=[3, 2, 3], capacity=[4, 4])
    broken = solve(tight, method="sensitive-first")
    assert broken.status is Status.UNKNOWN
    assert broken.objective == tight.objective(broken.assignment)
    assert "breaks capacity" in broken.note
    assert len(broken.violations) == 1
