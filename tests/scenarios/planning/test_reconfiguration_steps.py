"""The plan that Megaphone was measured with, and its steps by each strategy.

Oracle: the published plan (4,096 bins, 16 workers), written down by hand; for random tables, that no task sends two key
groups in a step or gets two, and that no fewer steps do (the busiest task sends or gets one in each).
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from models.planning.reconfiguration import BinMove, half, moves_of, steps_of
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.planning.reconfiguration import optimised_steps

PUBLISHED = {1: 8, 3: 10, 5: 12, 7: 14, 9: 0, 11: 2, 13: 4, 15: 6}


def scenario(tasks: int, groups: int, /, **event: Any) -> Scenario:
    return scenario_from(
        {
            "duration": "1 min",
            "workload": {"src": {"rate": "1 /s"}},
            "operators": {
                "src": {"kind": "source"},
                "op": {
                    "kind": "aggregate",
                    "inputs": {"src": "key"},
                    "parallelism": tasks,
                    "key_groups": groups,
                    "service": {"distribution": "deterministic", "value": "1 ms"},
                },
                "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
            },
            "hosts": {"h": {}},
            "fault_tolerance": {"method": "none"},
            "events": {"move": {"kind": "reconfigure", "at": "1 s", "operator": "op"} | event},
        }
    )


def steps(one: Scenario) -> tuple[tuple[BinMove, ...], ...]:
    return tuple(step.moves for step in steps_of(one, "move", RunInputs(steps=optimised_steps(one, {}))))


def test_the_plan_half_is_the_published_one() -> None:
    moves = moves_of(scenario(16, 4096, strategy="fluid"), "move", {})
    assert [move.key_group for move in moves] == [k for k in range(2048) if k % 2]
    assert {(move.source, move.target) for move in moves} == {*PUBLISHED.items()}
    assert Counter(move.source for move in moves) == dict.fromkeys(PUBLISHED, 128)


def test_strategies_take_the_published_numbers_of_steps() -> None:
    assert [len(step) for step in steps(scenario(16, 4096, strategy="all-at-once"))] == [1024]
    assert len(steps(scenario(16, 4096, strategy="fluid"))) == 1024
    assert [len(step) for step in steps(scenario(16, 4096, strategy="batched", size=8))] == [8] * 128
    optimised = steps(scenario(16, 4096, strategy="optimised"))
    assert [len(step) for step in optimised] == [8] * 128
    assert all(len({move.source for move in step}) == 8 for step in optimised)


def test_optimised_steps_are_matchings_and_as_few_as_can_be() -> None:
    for seed in range(20):
        draw = Random(seed)
        tasks, groups = draw.randint(2, 6), draw.choice([8, 16, 32, 64])
        one = scenario(tasks, groups, strategy="optimised", owners=[draw.randrange(tasks) for _ in range(groups)])
        moves, found = moves_of(one, "move", {}), steps(one)
        assert sorted(move for step in found for move in step) == sorted(moves)
        for step in found:
            assert max(Counter(move.source for move in step).values()) == 1
            assert max(Counter(move.target for move in step).values()) == 1
        busiest = max(
            [*Counter(move.source for move in moves).values(), *Counter(move.target for move in moves).values()]
        )
        assert len(found) == busiest


def test_few_and_odd_tasks_have_a_half_too() -> None:
    assert half(2, [0, 1, 0, 1]) == [0, 0, 0, 1]
    assert half(3, [0, 1, 2, 0, 1, 2]) == [0, 2, 2, 0, 1, 2]
    assert half(2, [0, 1]) == [0, 0]  # of one key group the half is rounded up


def test_a_rescaling_moves_key_groups_to_where_so_many_tasks_have_them() -> None:
    fewer = moves_of(scenario(4, 8, strategy="fluid", tasks=2), "move", {})
    assert fewer == ((2, 2, 0), (3, 3, 1), (6, 2, 0), (7, 3, 1))
    both = scenario(4, 8, strategy="fluid", tasks=2, at="2 s")
    more = both.events["move"].model_copy(update={"tasks": 4, "at_s": 3.0})
    back = moves_of(both.model_copy(update={"events": {**both.events, "more": more}}), "more", {})
    assert back == tuple((group, target, source) for group, source, target in fewer)
