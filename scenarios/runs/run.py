"""A run: a scenario and what it refers to in, records and a summary out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.runs.metrics import Metrics, metrics_of
from analysis.runs.summary import summarise
from models.engine import Engine, engine_of
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from scenarios.runs.execute import Job, Progress, execute
from scenarios.runs.inputs import checked


@dataclass(frozen=True)
class RunResult:
    """The result of all replications: rows of each, and the summary in the agreed form.

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
    engine: Engine = "auto",
    on_checked: Callable[[Scenario, RunInputs], None] | None = None,
) -> RunResult:
    """Return the result of all replications; files that the scenario names are read relative to `folder`.

    The same scenario and files give the same records for any number of workers, and for each engine: "auto", the
    fastest that can do what the scenario asks for, or "plain", which does one event at a time and is some fifty times
    slower. `on_checked` is called with what is going to be simulated, before that begins. Raises InputError for an
    engine that there is not, and for a scenario that cannot be run (`scenarios.runs.inputs.checked`).
    """
    engine = engine_of(engine)
    scenario, inputs = checked(scenario, Path(folder), engine)
    if on_checked:
        on_checked(scenario, inputs)
    jobs = [Job(scenario, inputs, replication, engine) for replication in range(scenario.replications)]
    records = tuple(execute(jobs, workers=workers, on_progress=on_progress, on_compile=on_compile))
    return RunResult(scenario, summarise(scenario, records), records)
