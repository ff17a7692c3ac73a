"""The allocation problem checks everything it is given and reports all faults together."""

import numpy as np
import pytest

from models.errors import InputError
from models.planning.checkpoint_allocation import CheckpointAllocation

COST = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def faults(**fields):
    with pytest.raises(InputError) as caught:
        CheckpointAllocation(**{"cost": COST, "load": [1, 2], **fields})
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cost": [[1, 2], [3]]}, "cost: must be rows of equal length"),
        ({"forbidden": [[1], [1, 2]]}, "forbidden: must be rows of equal length"),
        ({"cost": np.array([[1, 2]], dtype=np.longdouble) * np.longdouble("1e4000")}, "cost[0][0] = inf: must be a"),
        ({"cost": [1, 2]}, "cost: must have shape (n, n), has (2,)"),
        ({"cost": []}, "cost: must have shape (n, n), has (0,)"),
        ({"cost": [[], []]}, "cost = (2, 0): must have at least one checkpoint and one node"),
        ({"cost": [[1, "2", 3], [4, 5, 6]]}, "cost[0][1] = 2: must be a number"),
        ({"cost": [[1, True, 3], [4, 5, 6]]}, "cost[0][1] = true: must be a number"),
        ({"cost": [[1, None, 3], [4, 5, 6]]}, "cost[0][1] = None: must be a number"),
        ({"cost": [[1, float("nan"), 3], [4, 5, 6]]}, "cost[0][1] = nan: must be a finite number"),
        ({"cost": [[1, float("inf"), 3], [4, 5, -1e200]]}, "cost[0][1] = inf: must be a finite number"),
        ({"cost": [[1, 10**30, 3], [4, 5, 6]]}, "cost[0][1] = 1000000000000000000000000000000: must be"),
        ({"cost": "dear"}, "cost: must hold numbers"),
        ({"load": [1, -2]}, "load[1] = -2.0: must be at least 0"),
        ({"load": [1, 2, 3]}, "load: must have shape (2,) or (2, 3), has (3,)"),
        ({"load": 1}, "load: must have shape (2,) or (2, 3), has ()"),
        ({"capacity": [1, 2]}, "capacity: must have shape (3,), has (2,)"),
        ({"capacity": [1, float("inf"), 2]}, "capacity[1] = inf: must be a finite number"),
        (
            {"capacity": [1, 1, 1], "capacity_min": [0, 2, 0]},
            "capacity_min[1] = 2.0: must not exceed capacity[1]",
        ),
        ({"forbidden": [[0, 3]]}, "forbidden[0] = [0, 3]: entry 1 must be between 0 and 2"),
        ({"forbidden": [[0, 0], [-1, 0]]}, "forbidden[1] = [-1, 0]: entry 0 must be between 0 and 1"),
        ({"forbidden": [[0, 0.5]]}, "forbidden[0][1] = 0.5: must be a whole number"),
        ({"forbidden": [0, 1]}, "forbidden: must have shape (n, 2), has (2,)"),
        ({"anti_affinity": [[1, 1]]}, "anti_affinity[0] = [1, 1]: must name two different checkpoints"),
        ({"anti_affinity": [[0, 2]]}, "anti_affinity[0] = [0, 2]: entry 1 must be between 0 and 1"),
        ({"group": ["a"]}, "group = 1: must have one entry per checkpoint, that is 2"),
        ({"group": ["a", 1.5]}, "group[1] = 1.5: must be an operator's name or number"),
        ({"group": 7}, "group = 7: must be a list"),
        ({"current": [0, 3]}, "current[1] = 3: must be between 0 and 2"),
        ({"current": []}, "current: must have shape (2,), is empty"),
        ({"current": [0, 1], "max_moves": -1}, "max_moves = -1: must be at least 0"),
        ({"current": [0, 1], "max_moves": 1.5}, "max_moves = 1.5: must be a whole number or null"),
        ({"max_moves": 1}, "max_moves = 1: needs the current assignment"),
    ],
)
def test_each_fault_is_named_with_its_place_and_rule(fields, message):
    assert any(message in fault for fault in faults(**fields)), faults(**fields)


def test_all_faults_come_together():
    found = faults(load=[-1, 2], capacity=[1], forbidden=[[9, 9]], anti_affinity=[[0, 0]], max_moves=2)
    assert [fault.split(":")[0].split(" ")[0].split("[")[0] for fault in found] == [
        "load", "capacity", "forbidden", "anti_affinity", "max_moves",
    ]  # fmt: skip


def test_arrays_are_read_only_copies_of_what_was_given():
    cost = np.array(COST)
    problem = CheckpointAllocation(cost=cost, load=[1, 2])
    cost[0, 0] = 99
    assert problem.cost[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        problem.cost[0, 0] = 5
    with pytest.raises(ValueError, match="read-only"):
        problem.allowed[0, 0] = False


def test_objective_loads_overload_and_moves_of_an_assignment():
    problem = CheckpointAllocation(
        cost=COST, load=[[1, 2, 3], [4, 5, 6]], capacity=[1, 5, 5], current=[0, 0], max_moves=2
    )
    assignment = np.array([1, 1])
    assert problem.objective(assignment) == 7
    assert problem.node_loads(assignment).tolist() == [0, 7, 0]
    assert [(over.node, over.load, over.capacity) for over in problem.overloads(assignment)] == [(1, 7, 5)]
    assert problem.moves(assignment) == 2
    assert problem.node_loads(np.array([-1, 2])).tolist() == [0, 0, 6]
