"""The planner of a run: a fresh allocation of checkpoints from the statistics so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from analysis.usable import EXPECTED, expected_allocation
from models.correlation import pearson
from models.planning.checkpoint_allocation import CheckpointAllocation, allocation_from_correlation
from models.scenario.fault_tolerance import Maintenance
from models.scenario.inputs import FreshAllocation, LoadHistory
from models.scenario.scenario import Scenario
from scenarios.planning.checkpoints import solve_by

TIE_BAND = 0.1  # nodes whose correlation is so close to the best count as equally good
_BANDED = "tie-band"


@dataclass(frozen=True)
class HistoryPlanner:
    """Plans as `maintenance` says; a value, so that each process that runs a replication has its own.

    No method has a limit of time here: with nothing that couples the checkpoints each is planned by itself, and what is
    drawn at random follows from the seed.
    """

    maintenance: Maintenance
    theta: float  # utilisation above which a host is overloaded
    seed: int

    def __call__(self, history: LoadHistory) -> FreshAllocation | None:
        """Return the plan and its costs; None where a checkpoint has no node that may hold it."""
        problem, method = self._problem(history), self.maintenance.method
        # Asked first, as solvers would only say "infeasible"; the run then keeps the allocation that it has.
        if not problem.allowed.any(axis=1).all():
            return None
        plan = solve_by("exact" if method == _BANDED else method, problem, seed=self.seed)
        if plan.assignment is None:
            return None
        from optimizer.checkpoint_allocation.ties import level_ties  # noqa: PLC0415 - where a run plans anew

        assignment = level_ties(problem, plan.assignment) if method == _BANDED else plan.assignment
        return FreshAllocation(assignment, problem.cost)

    def _problem(self, history: LoadHistory) -> CheckpointAllocation:
        """Return the allocation problem of the statistics so far, with the costs of the method."""
        operators = tuple(operator for operator, _ in history.names)
        if self.maintenance.method == EXPECTED:
            made = expected_allocation(
                history.load,
                history.host,
                speed=history.capacity,
                outside=history.outside,
                theta=self.theta,
                seed=self.seed,
                group=operators,
            )
        else:
            made = allocation_from_correlation(
                pearson(history.tuples),  # whole numbers: the same bits on every machine
                history.load.mean(axis=1),
                history.host,
                len(history.capacity),
                group=operators,
                zero_below=self.maintenance.zero_below,
                tie_band=TIE_BAND if self.maintenance.method == _BANDED else 0.0,
            )
        return replace(made, forbidden=_forbidden(history))


def _forbidden(history: LoadHistory) -> np.ndarray:
    """Return pairs [checkpoint, node]: its own host, and all that may not hold any."""
    may = np.broadcast_to(history.takes, (len(history.host), len(history.takes))).copy()
    # A checkpoint on the host of its own key group would be lost together with it.
    may[np.arange(len(history.host)), history.host] = False
    return np.argwhere(~may)


def planner_of(scenario: Scenario) -> HistoryPlanner | None:
    """Return the planner that the run of the scenario needs, or None."""
    maintenance = scenario.fault_tolerance.maintenance
    if maintenance is None:
        return None
    return HistoryPlanner(maintenance, scenario.elasticity.high, scenario.seed)
