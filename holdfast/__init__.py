"""holdfast: what-if answers and best plans for stateful stream-processing clusters.

>>> import holdfast
>>> scenario = holdfast.scenario_from({
...     "duration": "1 min", "workload": {"a": {"rate": "5 /s"}}, "hosts": {"worker": {}},
...     "operators": {"a": {"kind": "source"}, "b": {"kind": "sink", "inputs": {"a": "shuffle"}}}})
>>> holdfast.estimate(scenario).tuples
300.0

Names are imported when they are first used, so that `import holdfast` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast._version import __version__

if TYPE_CHECKING:
    from analysis.spark.ingest import ingest
    from models.errors import InputError, InputFault, MissingTool
    from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
    from models.planning.solution import Status
    from models.records.profile import Profile
    from models.scenario.reading import scenario_from, scenario_with
    from models.scenario.rules import not_simulated, warnings
    from models.scenario.scenario import Scenario
    from models.steady_state.estimate import estimate
    from models.steady_state.load import expected_load
    from optimizer.checkpoint_allocation import solve as plan_checkpoints
    from optimizer.verify.checkpoints import verify_checkpoints
    from scenarios.files.profiles import read_profile, write_profile
    from scenarios.files.scenario import LoadedScenario, read_scenario, scenario_text, write_scenario
    from scenarios.planning.files import read_problem
    from scenarios.reliability.availability import answer as availability
    from scenarios.reliability.availability import read_availability
    from scenarios.runs.run import RunResult, run
    from scenarios.sweeps.designs import compare_designs, read_design
    from scenarios.sweeps.sweep import SweepResult, read_sweep, sweep

_HOMES = {
    "CheckpointAllocation": "models.planning.checkpoint_allocation",
    "CheckpointPlan": "models.planning.checkpoint_allocation",
    "InputError": "models.errors",
    "InputFault": "models.errors",
    "LoadedScenario": "scenarios.files.scenario",
    "MissingTool": "models.errors",
    "Profile": "models.records.profile",
    "RunResult": "scenarios.runs.run",
    "Scenario": "models.scenario.scenario",
    "Status": "models.planning.solution",
    "SweepResult": "scenarios.sweeps.sweep",
    "availability": "scenarios.reliability.availability:answer",
    "compare_designs": "scenarios.sweeps.designs",
    "estimate": "models.steady_state.estimate",
    "expected_load": "models.steady_state.load",
    "ingest": "analysis.spark.ingest",
    "not_simulated": "models.scenario.rules",
    "plan_checkpoints": "optimizer.checkpoint_allocation:solve",
    "read_availability": "scenarios.reliability.availability",
    "read_design": "scenarios.sweeps.designs",
    "read_problem": "scenarios.planning.files",
    "read_profile": "scenarios.files.profiles",
    "read_scenario": "scenarios.files.scenario",
    "read_sweep": "scenarios.sweeps.sweep",
    "run": "scenarios.runs.run",
    "scenario_from": "models.scenario.reading",
    "scenario_text": "scenarios.files.scenario",
    "scenario_with": "models.scenario.reading",
    "sweep": "scenarios.sweeps.sweep",
    "verify_checkpoints": "optimizer.verify.checkpoints",
    "warnings": "models.scenario.rules",
    "write_profile": "scenarios.files.profiles",
    "write_scenario": "scenarios.files.scenario",
}

# Written out, not derived from `_HOMES`: type checkers and editors read it without running anything.
__all__ = [
    "CheckpointAllocation",
    "CheckpointPlan",
    "InputError",
    "InputFault",
    "LoadedScenario",
    "MissingTool",
    "Profile",
    "RunResult",
    "Scenario",
    "Status",
    "SweepResult",
    "__version__",
    "availability",
    "compare_designs",
    "estimate",
    "expected_load",
    "ingest",
    "not_simulated",
    "plan_checkpoints",
    "read_availability",
    "read_design",
    "read_problem",
    "read_profile",
    "read_scenario",
    "read_sweep",
    "run",
    "scenario_from",
    "scenario_text",
    "scenario_with",
    "sweep",
    "verify_checkpoints",
    "warnings",
    "write_profile",
    "write_scenario",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    # "module:name" where the public name is another than that in the module.
    module, _, attribute = _HOMES[name].partition(":")
    found = getattr(importlib.import_module(module), attribute or name)
    globals()[name] = found  # the next look-up finds it here
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
