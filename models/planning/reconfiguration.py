"""Which key groups of an operator change their tasks by events `reconfigure`, and in which steps.

No host fails in such a run and nothing else moves, so that the tasks of all key groups are known before it begins.
Source of the strategies and of the plan `half`: Hoffmann et al., *Megaphone*, VLDB 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from models.scenario.events import Reconfigure
from models.scenario.job import Operator
from models.scenario.scenario import Scenario


class BinMove(NamedTuple):
    """A key group that goes from one task of its operator to another; tasks by their index in the operator."""

    key_group: int
    source: int
    target: int


def moves_of(scenario: Scenario, name: str) -> tuple[BinMove, ...]:
    """Return the moves of the event of this name, by key group, if the events of its operator before it are over.

    >>> from holdfast import read_scenario
    >>> len(moves_of(read_scenario("scenarios/library/bin-migration.toml").scenario, "all_at_once"))
    64
    """
    event = scenario.events[name]
    assert isinstance(event, Reconfigure)
    operator = scenario.operators[event.operator]
    owners = [operator.task_of(k) for k in range(operator.groups)]
    for other, before in _in_order(scenario, event.operator):
        goals = owners_after(operator, before, owners)
        if other == name:
            return tuple(
                BinMove(k, *pair) for k, pair in enumerate(zip(owners, goals, strict=True)) if len({*pair}) > 1
            )
        owners = goals
    raise AssertionError("an event is among those of its operator")


def _in_order(scenario: Scenario, operator: str) -> list[tuple[str, Reconfigure]]:
    """Return the reconfigurations of an operator in the order in which they are asked for."""
    found = [
        (name, event)
        for name, event in scenario.events.items()
        if isinstance(event, Reconfigure) and event.operator == operator
    ]
    return sorted(found, key=lambda one: one[1].at_s)  # stable: at one instant, as in the file


def owners_after(operator: Operator, event: Reconfigure, owners: Sequence[int]) -> list[int]:
    """Return the task of each key group after the event, given those before."""
    if event.owners:
        return list(event.owners)
    if event.plan == "back":
        return [operator.task_of(k) for k in range(operator.groups)]
    return half(operator.parallelism, owners)


def half(tasks: int, owners: Sequence[int]) -> list[int]:
    """Return the owners after the first half of the key groups of each odd task has gone to an even one.

    The even task is that half way round from its own neighbour, so that each gets those of one task. With 4,096 key
    groups round robin on 16 tasks this is the published plan.

    >>> half(4, [0, 1, 2, 3, 0, 1, 2, 3])
    [0, 2, 2, 0, 0, 1, 2, 3]
    """
    made, even = list(owners), (tasks + 1) // 2
    for odd in range(1, tasks, 2):
        own = [k for k, owner in enumerate(owners) if owner == odd]
        for k in own[: (len(own) + 1) // 2]:
            made[k] = 2 * ((odd // 2 + even // 2) % even)
    return made


def steps_of(
    moves: Sequence[BinMove], event: Reconfigure, steps: Sequence[int] = ()
) -> tuple[tuple[BinMove, ...], ...]:
    """Return the moves of each step; `steps`: the step of each move, for the strategy `optimised`.

    Raises ValueError if these are missing.
    """
    if event.strategy == "optimised":
        if len(steps) != len(moves):
            raise ValueError("an optimised reconfiguration needs the step of each of its moves")
        return tuple(
            tuple(move for move, at in zip(moves, steps, strict=True) if at == step)
            for step in range(max(steps, default=-1) + 1)
        )
    size = {"all-at-once": max(1, len(moves)), "fluid": 1, "batched": event.size or 1}[event.strategy]
    return tuple(tuple(moves[k : k + size]) for k in range(0, len(moves), size))
