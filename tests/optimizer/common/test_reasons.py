"""Reasons compare the chosen node with the two cheapest others."""

import numpy as np

from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.common.reasons import reasons


def why(problem, assignment, method="exact"):
    plan = CheckpointPlan(status=Status.FEASIBLE, assignment=np.array(assignment), method=method)
    return [[(other.node, other.why_not) for other in row.alternatives] for row in reasons(problem, plan)]


def test_cost_capacity_and_forbidden_are_told():
    problem = CheckpointAllocation(
        cost=[[1.0, 2.0, 3.0], [1.0, 1.5, 4.0]], load=[1, 1], capacity=[1, 1, 1], forbidden=[[0, 0]]
    )
    assert why(problem, [1, 0]) == [
        [(0, "forbidden"), (2, "costs more by 1")],
        [(1, "would overload: 2 of capacity 1"), (2, "costs more by 3")],
    ]


def test_anti_affinity_minimum_and_moves_are_told():
    problem = CheckpointAllocation(
        cost=[[1.0, 2.0], [1.0, 2.0]], load=[1, 1], anti_affinity=[[0, 1]], current=[0, 1], max_moves=0
    )
    assert why(problem, [0, 1])[0] == [(1, "anti-affinity with checkpoint 1, which is there")]
    stuck = CheckpointAllocation(cost=[[2.0, 1.0]], load=[1], current=[0], max_moves=0)
    assert why(stuck, [0]) == [[(1, "all 0 moves are used")]]
    low = CheckpointAllocation(cost=[[2.0, 1.0]], load=[1], capacity_min=[1, 0])
    assert why(low, [0]) == [[(1, "node 0 would fall to 0, below its minimum 1")]]


def test_ties_chance_and_a_method_that_missed_something_are_told():
    problem = CheckpointAllocation(cost=[[1.0, 1.0, 0.5]], load=[1])
    assert why(problem, [0], "sensitive-first") == [
        [(2, "cheaper by 0.5, not found by sensitive-first"), (1, "costs the same")]
    ]
    assert why(problem, [0], "even") == [[(2, "chosen by chance"), (1, "chosen by chance")]]


def test_there_is_one_row_per_checkpoint_and_none_without_an_assignment():
    problem = CheckpointAllocation(cost=np.arange(12.0).reshape(4, 3), load=np.ones(4))
    rows = reasons(problem, solve(problem))
    assert [row.checkpoint for row in rows] == [0, 1, 2, 3]
    assert [[other.costs_more for other in row.alternatives] for row in rows] == [[1, 2]] * 4
    assert reasons(problem, CheckpointPlan(status=Status.UNKNOWN)) == []
