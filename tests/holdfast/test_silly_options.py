"""Numbers that an option cannot mean are refused before anything is read or computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.commands.plan_selection import bytes_of
from models.errors import InputError
from models.placement import Placement
from scenarios.query_files import read_queries
from scenarios.replication import Asked, front_of, problem_of
from scenarios.running_plans import placement_from

QUERIES = Path(__file__).parents[2] / "examples" / "queries.toml"


@pytest.mark.parametrize("memory", ["0 GB", "-2 GB", "0", "nan", "1e400 GB", "x"])
def test_memory_that_is_none_is_refused_by_its_name(memory: str) -> None:
    with pytest.raises(InputError) as raised:
        bytes_of(memory)
    assert str(raised.value).startswith(f"memory = {memory}: must be")


@pytest.mark.parametrize("moves", [-1, 2**53])
def test_moves_of_a_placement_that_are_no_number_of_moves_are_refused_as_such(moves: int) -> None:
    problem = Placement(cpu=[1.0], host_cpu=[2.0])
    with pytest.raises(InputError, match="at least 0 and below"):
        placement_from(problem, None, moves)


@pytest.mark.parametrize("points", [-1, 0, 1, 10_001, 10**11])
def test_points_of_a_front_are_neither_few_nor_endless(points: int) -> None:
    problem = problem_of(read_queries(QUERIES), Asked())
    with pytest.raises(InputError, match="must be at least 2, and at most 10000"):
        front_of(problem, points)
