"""Designs that can be compared: a stored run, a design point of a sweep, or a scenario that is simulated now."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.comparison import Difference, Replications, common_metrics, compare
from analysis.runs.undone_moves import UndoneMoves, undone_moves
from models import display
from models.errors import NO_VALUE, InputError
from models.steady_state.scaled_down import resolution_said
from models.validation_messages import nearest
from scenarios.files.scenario import read_scenario, resolve
from scenarios.runs.execute import Progress
from scenarios.runs.run import run
from scenarios.runs.store import SUMMARY, read_run
from scenarios.sweeps.plan import SweepPlan
from scenarios.sweeps.store import PLAN
from scenarios.sweeps.summary import MAIN_METRICS, difference_entry
from scenarios.sweeps.sweep import read_sweep

_POINT = re.compile(r"(.+):([0-9]+)", re.DOTALL)
_MOST_DIGITS = 9
_CLEARLY = 1.05  # times as narrow: less is not worth a sentence


@dataclass(frozen=True)
class Design:
    """One side of a comparison."""

    title: str
    seed: int
    replications: Replications
    resolution: int = 1  # records that a simulated one stands for

    @property
    def undone(self) -> UndoneMoves:
        """Return in how many replications moves were not done."""
        return undone_moves(self.replications.values())


@dataclass(frozen=True)
class Comparison:
    """Two designs, and their difference in each metric that was asked for."""

    designs: tuple[Design, Design]
    differences: tuple[Difference, ...]

    @property
    def same_numbers(self) -> bool:
        """Return whether both had the same random numbers."""
        return self.designs[0].seed == self.designs[1].seed

    def sentence(self) -> str:
        """Return how the intervals were made."""
        counts = [len(design.replications) for design in self.designs]
        if min(counts) < 2:
            return "An interval needs two replications or more of each design: nothing is shown."
        if not self.same_numbers:
            return f"Runs of different seeds ({counts[0]} and {counts[1]}): intervals by Welch."
        pairs = sorted({one.counts[0] for one in self.differences if one.paired}) or [0]
        shown = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
        text = f"Same seed, so differences and means are taken replication by replication ({shown} pairs)"
        gain = next((one.narrower for one in self.differences if one.narrower is not None), math.nan)
        if not _CLEARLY < gain < math.inf:
            return text + "."
        return (
            f"{text}: the interval of the first metric that varies is {display.number(gain, 2)} times as narrow for it."
        )

    def resolution(self) -> str:
        """Return for how many records a simulated one stands, and whether it differs; "" where each is one."""
        first, second = (one.resolution for one in self.designs)
        if first == second:
            return resolution_said(first)
        each = f"{display.count(first)} in A and {display.count(second)} in B"
        return f"One simulated record stands for {each}: a part of a difference is what that changes."

    def unfinished(self) -> str:
        """Return in how many runs of which design a move did not end, or was cancelled; "" where all are done."""
        found = {
            words: [
                f"{count} of {len(one.replications)} runs of {name}"
                for name, one in zip("AB", self.designs, strict=True)
                if (count := getattr(one.undone, kind))
            ]
            for kind, words in (("unfinished", "did not end"), ("cancelled", "was cancelled"))
        }
        said = " and ".join(f"{words} in {' and in '.join(runs)}" for words, runs in found.items() if runs)
        return f"A move {said}: latencies are those of a part of it." if said else ""

    def document(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            "designs": [
                {
                    "title": one.title,
                    "seed": one.seed,
                    "resolution": one.resolution,
                    "replications": len(one.replications),
                    **asdict(one.undone),
                }
                for one in self.designs
            ],
            "metrics": {
                one.metric: {
                    "a": {"mean": one.first.mean, "ci95": one.first.ci95},
                    "b": {"mean": one.second.mean, "ci95": one.second.ci95},
                    "difference": difference_entry(one),
                }
                for one in self.differences
            },
        }


def read_design(
    text: str,
    *,
    replications: int | None = None,
    workers: int = 1,
    on_progress: Progress | None = None,
    on_compile: Progress | None = None,
) -> Design:
    """Return the design that a text names: DIRECTORY of a run, DIRECTORY:POINT of a sweep, or a scenario.

    >>> from holdfast import read_design
    >>> design = read_design("examples/two-hosts.toml")  # a scenario file is simulated
    >>> design.title, len(design.replications)
    ('examples/two-hosts.toml (two hosts, one crash)', 1)
    """
    point = _POINT.fullmatch(text)
    # A colon may be part of a file name: it counts only where the part before it is a sweep.
    if point and (Path(point[1]) / PLAN).is_file():
        return _of_sweep(point[1], point[2])
    folder = Path(text)
    if (folder / PLAN).is_file():
        raise InputError.at(text, NO_VALUE, "is a sweep", f"say which design, as in {text}:0")
    if (folder / SUMMARY).is_file():
        return _of_run(folder)
    changes = [] if replications is None else [f"replications={replications}"]
    loaded = read_scenario(resolve(text), changes)
    result = run(loaded.scenario, folder=loaded.folder, workers=workers, on_progress=on_progress, on_compile=on_compile)
    made = loaded.scenario
    return Design(f"{text} ({made.name})", made.seed, result.metrics, made.resolution)


def _of_run(folder: Path) -> Design:
    """Return the design of a stored run; raises InputError for a broken directory."""
    stored = read_run(folder)
    table = stored.tables["metrics"]
    found: dict[int, dict[str, float | None]] = {}
    for replication, name, value in zip(table["replication"], table["metric"], table["value"], strict=True):
        found.setdefault(int(str(replication)), {})[str(name)] = float(str(value))
    summary = stored.summary  # of a run of an earlier version: each record was simulated
    return Design(f"{folder} ({summary['scenario']})", summary["seed"], found, summary.get("resolution", 1))


def _of_sweep(directory: str, digits: str) -> Design:
    """Return a design point of a sweep.

    Raises InputError where it is not there, not finished, or all of its runs failed.
    """
    result = read_sweep(directory)
    points = result.plan.points
    # Python refuses to convert thousands of digits: such a number is out of range in any case.
    number = int(digits) if len(digits) <= _MOST_DIGITS else len(points)
    if number >= len(points):
        raise InputError.at(directory, digits, "has no such design", f"0 to {len(points) - 1} are")
    made, all_runs = sum(row.point == number for row in result.rows), result.plan.scenario.replications
    # An interval of the runs that happen to be done would be biased: those that end first are the short ones.
    if made < all_runs:
        rule = f"is not finished: {made} of {all_runs} runs are there"
        raise InputError.at(f"{directory}:{number}", NO_VALUE, rule, "give the command of the sweep again")
    if not result.replications(number):
        raise InputError.at(f"{directory}:{number}", NO_VALUE, f"failed in all of its {all_runs} runs")
    title = f"{directory}:{number} ({settings_text(result.plan, number)})"
    of_point = result.plan.points[number].of(result.plan.scenario)
    return Design(title, of_point.seed, result.replications(number), of_point.resolution)


def settings_text(plan: SweepPlan, number: int) -> str:
    """Return the settings of a design point in words."""
    return ", ".join(f"{path} = {text}" for path, text in plan.short_settings(number).items()) or "no settings"


def compare_designs(
    first: Design, second: Design, *, metrics: Sequence[str] | None = None, everything: bool = False
) -> Comparison:
    """Return the differences in the metrics asked for, or the main ones, or all that both have.

    Raises InputError for a metric that one of them does not have.

    >>> from holdfast import compare_designs, read_design
    >>> design = read_design("examples/two-hosts.toml", replications=2)
    >>> (latency,) = compare_designs(design, design, metrics=["latency_s.mean"]).differences
    >>> latency.difference.mean, latency.shown
    (0.0, 'equal')
    """
    known = common_metrics(first.replications, second.replications)
    for name in metrics or ():
        if name not in known:
            raise InputError.at("--metric", name, "is no metric that both have", nearest(name, known))
    names = list(metrics) if metrics else known if everything else [name for name in MAIN_METRICS if name in known]
    found = compare(first.replications, second.replications, same_numbers=first.seed == second.seed, metrics=names)
    return Comparison((first, second), tuple(found))
