"""The summary of a sweep as tables and JSON, and its answer in sentences.

`sweep_summary` gives each design point's means with intervals and its difference to the first one. `sweep_answer` says
which design has the best latency, recovery and pauses, and whether that may be chance. The verdicts are those of
`analysis.comparison`. The best of many designs is chosen by many comparisons: the answer says if its difference is not
significant with Bonferroni's correction for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.comparison import Difference, common_metrics, compare, mean_over
from analysis.report import text
from analysis.report.designs import counted, left_open, listed
from analysis.report.parts import Design
from analysis.runs.metrics import FREE_SECTIONS, Metrics, possible_metrics
from models.errors import InputError
from models.steady_state.scaled_down import resolution_said
from models.validation_messages import nearest
from scenarios.pages.designs import DesignRuns, designs, difference
from scenarios.sweeps.sweep import SweepResult

MAIN_METRICS: tuple[str, ...] = (
    "latency_s.mean",
    "latency_s.p99",
    "recoveries.total_s.mean",
    "recoveries.unfinished",
    "migrations.pause_s.max",
    "migrations.completion_s.max",
    "rebalances.restore_s.mean",
    "rebalances.stable_mean_s.mean",
    "guarantee.lost",
    "guarantee.state_lost",
    "targets.missed",
)
"""Metrics that people look at first; those that were not seen, or are the same everywhere, are left out."""


def check_metrics(result: SweepResult, requested: Sequence[str]) -> None:
    """Raise InputError for a metric that no run has, and none can have that is still to be made."""
    for name in requested:
        if name in _seen(result) or (len(result.rows) < result.plan.runs and name.startswith(FREE_SECTIONS)):
            continue
        known = _seen(result)
        # Costly, point by point: stopped at the first point that can have the metric.
        for names in _possible(result):
            known |= names
            if name in names:
                break
        else:
            raise InputError.at("--metric", name, "is no metric of this sweep", nearest(name, known))


def _seen(result: SweepResult) -> dict[str, None]:
    """Return the metrics of the runs that there are, as the keys of a dict in their order."""
    return dict.fromkeys(name for row in result.rows for name in row.metrics)


def _possible(result: SweepResult) -> Iterator[dict[str, None]]:
    """Yield the metrics that runs of a design point can have, for each point, where some are still to be made."""
    plan = result.plan
    if len(result.rows) < plan.runs:
        for point in plan.points:
            yield dict.fromkeys(possible_metrics(point.of(plan.scenario)))


def chosen_metrics(result: SweepResult, requested: Sequence[str] | None) -> list[str]:
    """Return the metrics for a table: those asked for, or the main ones; raises InputError for one that no run has."""
    check_metrics(result, requested or ())
    known = _seen(result)
    if requested:
        return [name for name in dict.fromkeys(requested) if name in known]
    main = MAIN_METRICS
    ways = {_moves_key_groups(row.metrics) for row in result.rows if row.metrics.get("moves.pause_s") is not None}
    if len(ways) > 1:  # what only some designs have compares nothing
        others = ("migrations.", "rebalances.")
        main = (*(name for name in main if not name.startswith(others)), "moves.pause_s", "moves.completion_s")
    found = [name for name in main if name in known]
    # A column of equal values tells nothing; latency stays, as a reader looks for it first.
    return [name for name in found if name.startswith("latency") or _varies(result, name)]


def _moves_key_groups(metrics: Metrics) -> bool:
    """Return whether a run moves single key groups, and not only steps of them, or the dataflow."""
    return metrics.get("migrations.pause_s.max") is not None


def differences(result: SweepResult, point: int, metrics: Sequence[str]) -> list[Difference]:
    """Return a design point beside the first one."""
    return compare(
        result.replications(0),
        result.replications(point),
        same_numbers=_seed(result, 0) == _seed(result, point),
        metrics=metrics,
    )


def sweep_summary(result: SweepResult) -> dict[str, Any]:
    """Return the sweep as one JSON document: all metrics of all design points."""
    return {
        "scenario": result.plan.scenario.name,
        "directory": str(result.directory),
        "digest": result.digest,
        "runs": len(result.rows),
        "failed": [
            {
                "point": row.point,
                "replication": row.replication,
                "status": row.status,
                "stage": row.stage,
                "message": row.message,
            }
            for row in result.failed
        ],
        "points": [_point(result, number) for number in range(len(result.plan.points))],
    }


def _point(result: SweepResult, number: int) -> dict[str, Any]:
    own = result.replications(number)
    names = common_metrics(own) if own else []
    return {
        "point": number,
        "settings": dict(result.plan.points[number].settings),
        "resolution": resolution_of(result, number),
        "runs": len(own),
        "metrics": {
            one.metric: {
                "runs": one.counts[1],
                "mean": one.second.mean,
                "ci95": one.second.ci95,
                # Point 0 is the baseline: it has no difference to itself.
                "difference": difference_entry(one) if number else None,
            }
            for one in differences(result, number, names)
        },
    }


def resolution_of(result: SweepResult, number: int) -> int:
    """Return how many records one stands for in a design point."""
    scenario, settings = result.plan.scenario, result.plan.points[number].settings
    of_design = scenario.designs.get(str(settings.get("design")), {}).get("resolution", scenario.resolution)
    found = settings.get("resolution", of_design)
    assert isinstance(found, int)
    return found


def resolutions_said(result: SweepResult) -> str:
    """Return the sentence that says how many records one stands for; "" where each is one in all design points."""
    return resolution_said(*(resolution_of(result, number) for number in range(len(result.plan.points))))


def difference_entry(one: Difference) -> dict[str, Any]:
    """Return a difference for JSON."""
    return {
        "mean": one.difference.mean,
        "ci95": one.difference.ci95,
        "relative": one.relative,
        "paired": one.paired,
        "pairs": one.counts[0] if one.paired else None,
        "shown": one.shown,
    }


def _varies(result: SweepResult, metric: str) -> bool:
    """Return whether the design points do not all have the same mean, or it is not zero everywhere."""
    means = {mean_over(result.replications(number), metric).mean for number in range(len(result.plan.points))}
    return len(means) > 1 or means not in ({0.0}, {None})


def _seed(result: SweepResult, point: int) -> object:
    return result.plan.points[point].settings.get("seed", result.plan.scenario.seed)


_MEASURES = {
    "latency_p99_s": "p99 latency",
    "recovery_s": "mean recovery time",
    "pause_s": "mean pause of a move",
}
_OF_ANY_MOVE = {"longest_pause_s": "maximum pause"}  # of a key group, a step, or the dataflow
_MOST_NAMED = 4


def sweep_answer(given: Sequence[DesignRuns]) -> tuple[str, ...]:
    """Return one or more sentences for each time that two designs or more have."""
    made = designs(given)
    pauses = [one.of("pause_s").mean for one in made if one.of("longest_pause_s").mean is not None]
    measures = dict(_MEASURES)
    if None in pauses:  # not all move single key groups
        measures = {name: words for name, words in measures.items() if name != "pause_s"} | _OF_ANY_MOVE
    found = (_answer(given, made, measure, words) for measure, words in measures.items())
    return tuple(one for one in (*found, left_open(dict(enumerate(made)))) if one)


def _answer(given: Sequence[DesignRuns], made: Sequence[Design], measure: str, words: str) -> str:
    """Return the sentences about one time; empty where fewer than two designs have it."""
    over = {k: one for k, one in enumerate(made) if not one.undone_moves}
    means = {k: mean for k, one in over.items() if (mean := one.of(measure).mean) is not None}
    if len(means) < 2:
        return ""
    least = min(means.values())
    # By their numbers, so that the sentence is the same every time.
    lowest, *others = sorted(k for k, mean in means.items() if mean == least)
    who = f"{_named(made, lowest)} and {listed(others)} have" if others else f"{_named(made, lowest)} has"
    said = f"{who} the lowest {words}: {text.seconds(least)}"
    if 0 not in over:
        return f"{said}. Nothing is compared: moves of design 0, the baseline, {made[0].undone_moves.words}."
    if 0 not in means:
        return f"{said}. Nothing is compared: design 0, the baseline, has none."
    changes = {k: found for k in means if k and (found := difference(given[0], given[k], measure)) is not None}
    if all(one.shown == "equal" for one in changes.values()):
        return f"All designs have the same {words}: {text.seconds(means[0])}."
    if all(one.difference.ci95 is None for one in changes.values()):
        return f"{said}. This may be chance: an interval takes two runs or more of each design."
    verdict = _best(given, made, measure, words, changes)
    return f"{verdict}{_unfinished(made) if measure == 'recovery_s' else ''}"


def _best(
    given: Sequence[DesignRuns], made: Sequence[Design], measure: str, words: str, changes: Mapping[int, Difference]
) -> str:
    """Name the design with the lowest mean of those that are significantly lower than design 0."""
    lower = [k for k, one in changes.items() if one.shown == "lower"]
    if not lower:
        return _none_lower(made, measure, words, changes)
    best = min(lower, key=lambda k: (made[k].of(measure).mean or 0.0, k))
    mean = made[best].of(measure).mean
    # Designs with a lower mean whose difference is not significant: without them the sentence would claim too much.
    rivals = [k for k in changes if k != best and (made[k].of(measure).mean or 0.0) < (mean or 0.0)]
    among = "of those that differ significantly from design 0 " if rivals else ""
    said = f"{_named(made, best)} has {among}the lowest {words}: {text.seconds(mean)}, {_below(changes[best])}."
    if not changes[best].significant_among(len(changes)):
        said += f" With {len(changes)} comparisons this may be chance: Bonferroni's correction includes zero."
    near = [k for k in changes if k != best and _near(given[best], given[k], measure)]
    return f"{said}{_not_told_apart(near)}"


def _none_lower(made: Sequence[Design], measure: str, words: str, changes: Mapping[int, Difference]) -> str:
    """Say that no design is significantly lower than design 0, and whether some are higher."""
    first, mean = _named(made, 0), made[0].of(measure).mean
    verdicts = [one.shown for one in changes.values()]
    if "higher" not in verdicts:
        return f"No design differs significantly from {_small(first)} in {words}: {text.seconds(mean)}."
    against = f"{text.seconds(mean)}. Against it: {counted(verdicts)}."
    if "unclear" in verdicts:
        return f"No design has a significantly lower {words} than {_small(first)}, {against}"
    return f"{first} has the lowest {words}: {against}"


def _below(one: Difference) -> str:
    """Say how far a design is below design 0, as a share where that has one."""
    relative = one.relative_to_first
    mean, interval, write = relative.mean, relative.ci95, text.share
    if mean is None:
        mean, interval, write = one.difference.mean, one.difference.ci95, text.seconds
    assert mean is not None and interval is not None
    return f"{write(-mean)} below design 0, the baseline (95 % interval {write(-interval[1])} to {write(-interval[0])})"


def _near(best: DesignRuns, other: DesignRuns, measure: str) -> bool:
    found = difference(best, other, measure)
    return found is not None and found.shown in ("equal", "unclear")


def _not_told_apart(near: Sequence[int]) -> str:
    """Return a sentence with the designs that are not significantly different from the best; empty for none."""
    if not near:
        return ""
    return f" Not significantly different from it: {listed(near)}."


def _unfinished(made: Sequence[Design]) -> str:
    """Return a sentence about recoveries without an end, whose times no mean includes; empty for none."""
    open_ended = [
        f"{one.unfinished_recoveries} of design {k}" for k, one in enumerate(made) if one.unfinished_recoveries
    ]
    if not open_ended:
        return ""
    more = f" and of {len(open_ended) - _MOST_NAMED} more designs" if len(open_ended) > _MOST_NAMED else ""
    return f" Recoveries that did not end within the run are left out: {', '.join(open_ended[:_MOST_NAMED])}{more}."


def _named(made: Sequence[Design], number: int) -> str:
    return f"Design {number} ({text.plain(made[number].label)})"


def _small(name: str) -> str:
    return name[0].lower() + name[1:]
