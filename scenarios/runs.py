"""A run: a scenario and what it refers to in, records and a summary out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.metrics import Metrics, metrics_of
from analysis.summary import summarise
from models.errors import raise_if_any
from models.estimate import check_limits, estimate
from models.inputs import RunInputs
from models.profile import Profile
from models.records import RunRecords
from models.rules import faults, not_simulated
from models.scenario import Scenario
from scenarios.execute import Job, Progress, execute
from scenarios.maintenance import planner_of
from scenarios.planning import Holders, holders_of
from scenarios.recorded import check_key_groups, profiles_of, rates_of, shares_of
from scenarios.replica_plan import filled


@dataclass(frozen=True)
class RunResult:
    """What came out of all replications: rows of each, and the summary in the agreed form.

    The scenario has the failures of a log that it names as events, and the replicas of a plan as entries.
    """

    scenario: Scenario
    summary: Mapping[str, Any]
    records: tuple[RunRecords, ...]

    @property
    def metrics(self) -> dict[int, Metrics]:
        """Replication -> one number for each metric."""
        return {one.replication: metrics_of(summarise(self.scenario, [one])) for one in self.records}

    @property
    def missed(self) -> tuple[str, ...]:
        """Names of the targets that were missed, or could not be judged because nothing was seen."""
        verdicts = self.summary.get("targets") or {}
        return tuple(name for name, verdict in verdicts.items() if not verdict["met"])


def run(
    scenario: Scenario,
    *,
    folder: Path | str = ".",
    workers: int = 1,
    on_progress: Progress | None = None,
    on_compile: Progress | None = None,
) -> RunResult:
    """The result of all replications; files that the scenario names are read relative to `folder`.

    The same scenario and files give the same records for any number of workers. Raises InputError for a scenario
    that cannot be run: names that do not fit, what is not simulated yet, or more work than `limits` allow.
    """
    raise_if_any(faults(scenario))
    raise_if_any(not_simulated(scenario))
    scenario = filled(scenario, Path(folder))
    inputs = inputs_of(scenario, Path(folder))
    check_limits(scenario, estimate(scenario, inputs.rates, inputs.shares))
    jobs = [Job(scenario, inputs, replication) for replication in range(scenario.replications)]
    records = tuple(execute(jobs, workers=workers, on_progress=on_progress, on_compile=on_compile))
    return RunResult(scenario, summarise(scenario, records), records)


def inputs_of(
    scenario: Scenario,
    folder: Path,
    *,
    profiles: Mapping[str, Profile] | None = None,
    holders: Holders | None = None,
) -> RunInputs:
    """What the run needs besides the scenario; profiles and holders that are given are not read or planned again."""
    known = profiles_of(scenario, folder) if profiles is None else profiles
    check_key_groups(scenario, known)
    return RunInputs(
        rates=rates_of(scenario, folder, known),
        shares=shares_of(scenario, known),
        holders=holders_of(scenario, folder, known) if holders is None else holders,
        planner=planner_of(scenario),
    )
