"""The page of a sweep: its designs beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.report.figure import Section
from analysis.report.page import Fact, Page, render_page
from analysis.report.recovery_methods import recovery_methods_section
from analysis.report.sections import best_section, designs_section
from models.errors import InputError
from models.scenario.events import Rescale
from models.scenario.scenario import Scenario
from models.table import Table
from scenarios.files.write_once import write_text
from scenarios.pages.designs import DesignRuns, designs, methods_of
from scenarios.pages.run import versions
from scenarios.sweeps.side_by_side import metrics_of_moves, sentences, side_by_side
from scenarios.sweeps.summary import resolutions_said, sweep_answer
from scenarios.sweeps.sweep import SweepResult

REPORT = "report.html"
METHOD = "fault_tolerance.method"


def sweep_page(result: SweepResult, *, command: str = "", best: Sequence[Table] = (), said: Sequence[str] = ()) -> Page:
    """Return the page of a sweep: every design with the intervals over its replications.

    `best` are the tables of what is best for which settings, and `said` what they say: the answer, if it is given.
    """
    plan = result.plan
    given = runs_of_designs(result)
    facts = [
        Fact("designs", str(len(plan.points))),
        Fact("replications of each", str(plan.scenario.replications)),
        Fact("varied", ", ".join(plan.scenario.sweep) or "nothing"),
    ]
    coarse = resolutions_said(result)
    if coarse:
        facts.append(Fact("resolution", coarse))
    headline = []
    if result.failed:
        headline = [Fact("runs that failed", f"{len(result.failed)} of {len(result.rows)}", False, "see the table")]
    return Page(
        answer=tuple(said) or sweep_answer(given),
        title=plan.scenario.name or "A sweep",
        question=f"Which of {len(plan.points)} designs does best, and what does it cost?",
        facts=tuple(facts),
        headline=tuple(headline),
        sections=[
            one
            for one in (
                best_section(best),
                _moves_section(result),
                _methods_section(result, given),
                designs_section(designs(given)),
            )
            if one
        ],
        versions=versions(),
        seed=plan.scenario.seed,
        command=command,
    )


def _moves_section(result: SweepResult) -> Section | None:
    """Return what moves of state took in each design; None where nothing moves."""
    metrics = metrics_of_moves(result)
    if not metrics:
        return None
    words = (
        "Pause: the longest time for which something stood still. Done: from the request until the last move is over."
    )
    words = " ".join([words, *sentences(result)])
    return Section("moves", "Moves of each design", "Moves", words, tables=(side_by_side(result, metrics),))


def _methods_section(result: SweepResult, given: Sequence[DesignRuns]) -> Section | None:
    """Return the methods of recovery side by side; None where the sweep does not vary them."""
    if METHOD not in result.plan.scenario.sweep:
        return None
    named = [_method(result, number) for number in range(len(result.plan.points))]
    return recovery_methods_section(methods_of([*zip(named, given, strict=True)]))


def _method(result: SweepResult, number: int) -> str:
    """Return the method of a design, and how many tasks events of the sweep give an operator."""
    settings, events = result.plan.points[number].settings, result.plan.scenario.events
    words = [str(settings.get(METHOD, ""))]
    for name, event in events.items():
        tasks = settings.get(f"events.{name}.parallelism")
        if isinstance(event, Rescale) and tasks is not None:
            words.append(f"{tasks} tasks")
    return ", ".join(words)


def write_page(result: SweepResult, *, command: str, best: Sequence[Table] = (), said: Sequence[str] = ()) -> Path:
    """Return the page beside the runs of the sweep; one of an earlier attempt is replaced.

    It is `report.html` in the directory of the sweep. `command` is shown as the one that makes the page again.
    """
    page = result.directory / REPORT
    text = render_page(sweep_page(result, command=command, best=best, said=said))
    write_text(page, text, force=True)
    return page


def runs_of_designs(result: SweepResult) -> list[DesignRuns]:
    """Return the runs of each design, by number.

    Failed runs have no metrics, and are counted in `failed`.
    """
    return [_runs(result, number) for number in range(len(result.plan.points))]


def _runs(result: SweepResult, number: int) -> DesignRuns:
    """Return the runs of a design point; without a valid scenario only its label and failures."""
    point = result.plan.points[number]
    scenario = _scenario(result, number)
    metrics = result.replications(number)
    failed = sum(row.point == number for row in result.failed)
    return DesignRuns(
        ", ".join(f"{_short(path, point.settings)} {text}" for path, text in result.plan.short_settings(number).items())
        or "as it is",
        str(scenario.fault_tolerance.allocation) if scenario else "",
        scenario.elasticity.protocol if scenario and scenario.elasticity.policy != "none" else "",
        tuple(metrics[replication] for replication in sorted(metrics)),
        scenario.duration_s - scenario.warmup_s if scenario else 0.0,
        failed,
        tuple((scenario.seed if scenario else 0, replication) for replication in sorted(metrics)),
    )


def _scenario(result: SweepResult, number: int) -> Scenario | None:
    """Return the scenario of a design; None where its values do not fit together, so that its runs failed."""
    try:
        # Each value is valid by itself; together they may not be, and then all runs of the design failed.
        return result.plan.points[number].of(result.plan.scenario)
    except InputError:
        return None


def _short(path: str, settings: Mapping[str, object]) -> str:
    """Return the last word of a path, or the whole where another setting ends with the same word."""
    last = path.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in settings) == 1 else path
