"""A run: a scenario and what it refers to in, records and a summary out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.documents import to_document
from analysis.runs.metrics import Metrics, metrics_of
from analysis.runs.run_summary import RunSummary
from analysis.runs.summary import summarise
from models.records.tables import RunRecords
from models.scenario.inputs import Engine, RunInputs, engine_of
from models.scenario.scenario import Scenario
from models.units import to_ns
from scenarios.runs import first_run
from scenarios.runs.execute import Job, Progress, execute
from scenarios.runs.inputs import checked
from sim.draws import event_ns
from sim.engine import stand_in


@dataclass(frozen=True)
class RunResult:
    """The rows of all replications, and their summary.

    The scenario has the failures of a log that it names as events, and the replicas of a plan as entries.

    >>> from holdfast import read_scenario, run
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> result = run(loaded.scenario, folder=loaded.folder)
    >>> [(one["host"], one["cause"], one["detect_s"]) for one in result.summary["recoveries"]]
    [('worker-0', 'crash', 4.0)]
    >>> result.records[0].tables["failures"]["failed_ns"].tolist()  # rows of the first replication
    [20000000000]
    """

    scenario: Scenario
    typed_summary: RunSummary
    records: tuple[RunRecords, ...]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary as the document that `run --json` prints."""
        document: dict[str, Any] = to_document(self.typed_summary)
        return document

    @property
    def metrics(self) -> dict[int, Metrics]:
        """Replication -> one number for each metric."""
        return {one.replication: metrics_of(summarise(self.scenario, [one])) for one in self.records}

    @property
    def absent(self) -> dict[str, int]:
        """Event -> in how many replications it did not happen, as its drawn time was after the end; without zeros."""
        end_ns, found = to_ns(self.scenario.duration_s), dict[str, int]()
        for name, event in self.scenario.events.items():
            if event.latest_s >= self.scenario.duration_s:
                times = (event_ns(self.scenario, one.replication, name) for one in self.records)
                found[name] = sum(at_ns >= end_ns for at_ns in times)
        return {name: count for name, count in found.items() if count}

    @property
    def missed(self) -> tuple[str, ...]:
        """Names of the targets that were missed, or could not be judged because nothing was seen."""
        return tuple(name for name, verdict in (self.typed_summary.targets or {}).items() if not verdict.met)


def run(
    scenario: Scenario,
    *,
    folder: Path | str = ".",
    workers: int = 1,
    on_progress: Progress | None = None,
    on_compile: Progress | None = None,
    engine: Engine = "auto",
    on_checked: Callable[[Scenario, RunInputs], None] | None = None,
    on_first_run: Callable[[first_run.Beside], None] | None = None,
) -> RunResult:
    """Return the result of all replications; files that the scenario names are read relative to `folder`.

    The same scenario and files give the same records for any number of workers, and for each engine: "compiled", the
    fastest that can do what the scenario asks for; "plain", which does one event at a time and is some fifty times
    slower; or "auto", the compiled one, for which the plain one stands in on a first run that is short
    (`scenarios.runs.first_run`). `on_checked` is called with what is going to be simulated, before that begins, and
    `on_first_run`, if the plain engine stands in, with what became of the compiler. Raises InputError for an engine
    that there is not, and for a scenario that cannot be run (`scenarios.runs.inputs.checked`).

    >>> from holdfast import read_scenario, run
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> result = run(loaded.scenario, folder=loaded.folder)
    >>> result.summary["guarantee"]["lost"], result.summary["guarantee"]["duplicated"]
    (0, 0)
    """
    engine = engine_of(engine)
    scenario, inputs = checked(scenario, Path(folder), engine)
    if on_checked:
        # After the checks and before the work, so that a caller can announce what a long run is about.
        on_checked(scenario, inputs)
    first = first_run.stands_in(scenario, inputs, engine)
    if first:
        beside = first_run.compile_beside(scenario, inputs)
        if on_first_run:
            on_first_run(beside)
    chosen: Engine = "plain" if first else engine
    jobs = [Job(scenario, inputs, replication, chosen) for replication in range(scenario.replications)]
    records = tuple(execute(jobs, workers=workers, on_progress=on_progress, on_compile=on_compile))
    if first:
        records = tuple(stand_in(scenario, inputs, one) for one in records)
    return RunResult(scenario, summarise(scenario, records), records)
