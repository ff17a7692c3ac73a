"""The inputs of a run, and the checks that `validate` and `run` share; nothing is simulated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from models.engine import Engine
from models.errors import raise_if_any
from models.records.profile import Profile
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults, not_simulated
from models.scenario.scenario import Scenario
from models.steady_state.estimate import check_limits, estimate
from scenarios.queries.replica_plan import filled
from scenarios.runs.input_files import check_key_groups, profiles_of, rates_of, shares_of

if TYPE_CHECKING:
    from scenarios.planning.checkpoints import CheckpointHosts


def checked(scenario: Scenario, folder: Path, engine: Engine = "auto") -> tuple[Scenario, RunInputs]:
    """Return the scenario with what its files say in place, and all inputs of its run.

    Files are read relative to `folder`. Raises InputError for a scenario that cannot be run: names that do not fit,
    what is not simulated yet, files that cannot be used, what the engine cannot do, or more work than `limits` allow.
    """
    raise_if_any(faults(scenario))
    raise_if_any(not_simulated(scenario))
    scenario = filled(scenario, folder)
    inputs = inputs_of(scenario, folder)
    if engine == "plain":
        from sim.plain.support import not_supported  # noqa: PLC0415 - only where that engine is asked for

        raise_if_any(not_supported(scenario, inputs))
    check_limits(scenario, estimate(scenario, inputs.rates, inputs.shares, engine))
    return scenario, inputs


def inputs_of(
    scenario: Scenario,
    folder: Path,
    *,
    profiles: Mapping[str, Profile] | None = None,
    checkpoint_hosts: CheckpointHosts | None = None,
) -> RunInputs:
    """Return the inputs of the run besides the scenario; given profiles and checkpoint hosts are not made again."""
    known = profiles_of(scenario, folder) if profiles is None else profiles
    check_key_groups(scenario, known)
    rates, shares = rates_of(scenario, folder, known), shares_of(scenario, known)
    if scenario.fault_tolerance.method != "checkpoint":
        return RunInputs(rates=rates, shares=shares, checkpoint_hosts=checkpoint_hosts or {})
    from scenarios.planning.checkpoints import checkpoint_hosts_of  # noqa: PLC0415
    from scenarios.runs.maintenance import planner_of  # noqa: PLC0415 - solvers, only where checkpoints are held

    planned = checkpoint_hosts_of(scenario, folder, known) if checkpoint_hosts is None else checkpoint_hosts
    return RunInputs(rates=rates, shares=shares, checkpoint_hosts=planned, planner=planner_of(scenario))
