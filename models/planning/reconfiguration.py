"""Which key groups of an operator change their tasks by events `reconfigure`, and in which steps.

Nothing else moves them, so that the tasks of all key groups are known before the run begins, unless a host fails while
they move: then the next event begins with the tasks that they have by then.
Source of the strategies and of the plan `half`: Hoffmann et al., *Megaphone*, VLDB 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from models.scenario.events import Reconfigure
from models.scenario.inputs import Configuration, RunInputs
from models.scenario.job import Operator
from models.scenario.scenario import Scenario


class BinMove(NamedTuple):
    """A key group that goes from one task of its operator to another; tasks by their index in the operator."""

    key_group: int
    source: int
    target: int


class Step(NamedTuple):
    """The moves of one step, each of another key group; it does not begin before a time of the run [ns]."""

    moves: tuple[BinMove, ...]
    not_before_ns: int = 0


Files = Mapping[str, tuple[Configuration, ...]]
"""Event with a migration file -> the lines of it."""


def moves_of(scenario: Scenario, name: str, files: Files, owners: Sequence[int] | None = None) -> tuple[BinMove, ...]:
    """Return the moves of the event of this name, by key group, given the tasks of all key groups before it.

    Without these, if the events of its operator before it are over.

    >>> from holdfast import read_scenario
    >>> len(moves_of(read_scenario("scenarios/library/bin-migration.toml").scenario, "all_at_once", {}))
    64
    """
    event = scenario.events[name]
    assert isinstance(event, Reconfigure)
    owners = owners_before(scenario, name, files) if owners is None else owners
    goals = owners_after(scenario.operators[event.operator], event, owners, files.get(name, ()))
    return _differences(enumerate(goals), owners)


def _differences(goals: Iterator[tuple[int, int]], owners: Sequence[int]) -> tuple[BinMove, ...]:
    """Return the moves to these tasks, pairs of a key group and a task, of those that are elsewhere."""
    return tuple(BinMove(k, owners[k], goal) for k, goal in goals if owners[k] != goal)


def owners_before(scenario: Scenario, name: str, files: Files) -> list[int]:
    """Return the task of each key group when the event of this name begins: all events before it are over."""
    event = scenario.events[name]
    assert isinstance(event, Reconfigure)
    operator = scenario.operators[event.operator]
    owners = [operator.task_of(k) for k in range(operator.groups)]
    for other, before in in_order(scenario, event.operator):
        if other == name:
            break
        owners = owners_after(operator, before, owners, files.get(other, ()))
    return owners


def in_order(scenario: Scenario, operator: str) -> list[tuple[str, Reconfigure]]:
    """Return the reconfigurations of an operator in the order in which they are asked for."""
    found = [
        (name, event)
        for name, event in scenario.events.items()
        if isinstance(event, Reconfigure) and event.operator == operator
    ]
    return sorted(found, key=lambda one: one[1].earliest_s)  # stable: at one instant, as in the file


def owners_after(
    operator: Operator, event: Reconfigure, owners: Sequence[int], lines: Sequence[Configuration] = ()
) -> list[int]:
    """Return the task of each key group after the event, given those before, and the lines of its file if it has one.

    Raises ValueError if these are missing.
    """
    if event.file is not None:
        if not lines:
            raise ValueError("a reconfiguration by a file needs the lines of the file")
        return list((dict(enumerate(owners)) | {k: task for line in lines for k, task in line.owners}).values())
    if event.owners:
        return list(event.owners)
    if event.plan == "back" or event.tasks is not None:
        return [operator.task_of(k, event.tasks) for k in range(operator.groups)]
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


def steps_of(scenario: Scenario, name: str, inputs: RunInputs, owners: Sequence[int] | None = None) -> tuple[Step, ...]:
    """Return the steps of the event of this name, given the tasks of all key groups before it.

    Without these, if the events of its operator before it are over. Steps that are `optimised` are known for that case
    alone: in another one each move is in the first step in which no task sends or gets another key group.

    Lines of a file that move nothing are no steps. Raises ValueError if the inputs lack the steps of an event with the
    strategy `optimised`, or the lines of one with a file.
    """
    event = scenario.events[name]
    assert isinstance(event, Reconfigure)
    before = owners_before(scenario, name, inputs.configurations)
    owners = before if owners is None else [*owners]
    if event.file is not None:
        return _steps_of_lines(owners, inputs.configurations[name])
    moves = moves_of(scenario, name, inputs.configurations, owners)
    # The optimiser saw other owners: in its steps a task might now send two key groups, or get two.
    if event.strategy == "optimised" and owners != before:
        return _first_steps(moves)
    if event.strategy == "optimised":
        order = inputs.steps.get(name, ())
        if len(order) != len(moves):
            raise ValueError("an optimised reconfiguration needs the step of each of its moves")
        at = [list[BinMove]() for _ in range(max(order, default=-1) + 1)]
        for move, step in zip(moves, order, strict=True):
            at[step].append(move)
        return tuple(Step(tuple(own)) for own in at)
    # The baselines move all key groups at once, whatever the strategy.
    if event.protocol != "megaphone":
        return (Step(moves),) if moves else ()
    size = {"all-at-once": max(1, len(moves)), "fluid": 1, "batched": event.size or 1}[event.strategy]
    return tuple(Step(tuple(moves[k : k + size])) for k in range(0, len(moves), size))


def _first_steps(moves: Sequence[BinMove]) -> tuple[Step, ...]:
    """Return steps in which no task sends two key groups or gets two: each move is in the first that it can be in."""
    steps: list[list[BinMove]] = []
    for move in moves:
        free = (one for one in steps if all(move.source != k.source and move.target != k.target for k in one))
        step = next(free, None)
        if step is None:
            steps.append([move])
        else:
            step.append(move)
    return tuple(Step(tuple(step)) for step in steps)


def _steps_of_lines(owners: Sequence[int], lines: Sequence[Configuration]) -> tuple[Step, ...]:
    """Return a step for each line that moves something, given the tasks of the key groups before the first."""
    now, steps = list(owners), []
    for line in lines:
        moves = _differences(iter(line.owners), now)
        for move in moves:
            now[move.key_group] = move.target
        if moves:
            steps.append(Step(moves, line.time_ns))
    return tuple(steps)
