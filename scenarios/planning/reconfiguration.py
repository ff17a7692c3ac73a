"""The steps of reconfigurations that are to be optimised."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.planning.migration_steps import MigrationSteps
from models.planning.reconfiguration import Files, moves_of
from models.scenario.events import Reconfigure
from models.scenario.scenario import Scenario


def optimised_steps(scenario: Scenario, files: Files) -> Mapping[str, tuple[int, ...]]:
    """Return event -> step of each of its moves, so that no task sends two key groups in a step, or gets two.

    The fewest steps that there are: tasks that send and tasks that get are the two sides of a bipartite multigraph.
    `files`: lines of the migration files, which events before may have.
    """
    found = {}
    for name, event in scenario.events.items():
        if isinstance(event, Reconfigure) and event.strategy == "optimised" and event.file is None:
            moves = moves_of(scenario, name, files)
            found[name] = _steps([(move.source, move.target) for move in moves]) if moves else ()
    return found


def _steps(pairs: list[tuple[int, int]]) -> tuple[int, ...]:
    from optimizer.migration_steps import solve  # noqa: PLC0415 - loads solvers

    plan = solve(MigrationSteps(np.array(pairs), duplex=True))
    assert plan.step is not None
    return tuple(plan.step.tolist())
