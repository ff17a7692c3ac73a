"""Which value of one swept key is best, for each setting of the others: which protocol, at which rate.

The best value has the lowest mean of a metric. Others are as good if the interval of their difference to it does not
exclude zero (`analysis.comparison`), or if they are equal. One replication gives no interval: the lowest is best alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from analysis.comparison import Difference, Replications, compare, mean_over
from analysis.runs.metrics import quantity
from analysis.runs.undone_moves import UndoneMoves, undone_moves
from models import display
from models.errors import InputError
from models.scenario.scenario import Scenario
from models.table import Column, Table
from models.validation_messages import nearest
from scenarios.sweeps.plan import short_names, short_values
from scenarios.sweeps.summary import difference_entry
from scenarios.sweeps.sweep import SweepResult

_MOST_CHARACTERS, _MOST_VALUES = 40, 4  # of names, whose means a terminal of 80 characters has room for
_MOST_ON_PAGES = 12


@dataclass(frozen=True)
class Choice:
    """The values of the key at one setting of the others.

    `means` of the metric, one for each value, over the replications in which all values have it that have it in any;
    None for the others. `best` are the positions of the lowest mean and of those that cannot be told from it, in the
    order of the means; `following` is the lowest of all others and `lead` its difference to the best, None without
    others. `intervals` is false where a difference has no interval, as of one replication. `undone` has the positions
    of values with which moves were not done in a run: none of them is best, whatever its mean.
    """

    settings: Mapping[str, object]
    means: tuple[float | None, ...]
    best: tuple[int, ...]
    following: int | None
    lead: Difference | None
    intervals: bool = True
    undone: Mapping[int, UndoneMoves] = field(default_factory=dict)


def check_best(scenario: Scenario, key: str | None) -> None:
    """Raise InputError for a key that the sweep does not vary."""
    if key is not None and key not in scenario.sweep:
        raise InputError.at("--best", key, "is no key of [sweep]", nearest(key, scenario.sweep))


def choices(result: SweepResult, key: str, metric: str) -> list[Choice]:
    """Return the choice at each setting of the other keys, in the order of the design points."""
    groups: dict[tuple[object, ...], dict[object, int]] = {}
    for number, point in enumerate(result.plan.points):
        others = tuple(value for name, value in point.settings.items() if name != key)
        groups.setdefault(others, {})[point.settings[key]] = number
    names = [name for name in result.plan.scenario.sweep if name != key]
    values = result.plan.scenario.sweep[key]
    return [
        _choice(
            result, dict(zip(names, others, strict=True)), [points[value] for value in values], metric, key != "seed"
        )
        for others, points in groups.items()
    ]


def _choice(
    result: SweepResult, settings: Mapping[str, object], points: Sequence[int], metric: str, same_numbers: bool
) -> Choice:
    given = [result.replications(number) for number in points]
    undone = {place: found for place, one in enumerate(given) if (found := undone_moves(one.values()))}
    runs = [_with(one, metric) for one in given]
    some = [one for one in runs if one]
    if same_numbers and some:
        common = set.intersection(*(set(one) for one in some))
        runs = [{number: one[number] for number in one if number in common} for one in runs]
    means = tuple(mean_over(one, metric).mean for one in runs)
    # Ties go to the value that comes first in the file.
    known = [(mean, place) for place, mean in enumerate(means) if mean is not None and place not in undone]
    order = [place for _, place in sorted(known)]
    against = {
        place: compare(runs[order[0]], runs[place], same_numbers=same_numbers, metrics=[metric])[0]
        for place in order[1:]
    }
    best = (*order[:1], *(place for place, found in against.items() if _as_good(found)))
    following = next((place for place in against if place not in best), None)
    lead = None if following is None else against[following]
    intervals = all(one.difference.ci95 for one in against.values())
    return Choice(settings, means, best, following, lead, intervals, undone)


def _as_good(found: Difference) -> bool:
    """Return whether a value is equal to the best, or cannot be told from it by an interval."""
    return found.difference.mean == 0 or (found.difference.ci95 is not None and found.shown != "higher")


def _with(replications: Replications, metric: str) -> Replications:
    """Return the replications that have the metric."""
    return {number: metrics for number, metrics in replications.items() if metrics.get(metric) is not None}


def best_table(result: SweepResult, key: str, metric: str) -> Table:
    """Return a row for each setting of the other keys: the mean at each value of the key, and which is lowest."""
    values = short_values(result.plan.scenario.sweep[key])
    shown = values if len(values) <= _MOST_ON_PAGES else []
    wide = len(values) > _MOST_VALUES or sum(map(len, values)) > _MOST_CHARACTERS
    others = [name for name in result.plan.scenario.sweep if name != key]
    texts = {name: _texts(result, name) for name in others}
    form = partial(quantity, metric)
    columns = (
        *(Column(name, number=False) for name in short_names(others)),
        *(Column(value, form, wide=wide) for value in shown),
        Column("best", number=False),
        Column("next"),
    )
    rows = [
        (
            *(texts[name][value] for name, value in one.settings.items()),
            *(one.means if shown else ()),
            ", ".join(values[place] for place in one.best),
            _lead(one, metric),
        )
        for one in choices(result, key, metric)
    ]
    name = f"best-{metric.replace('.', '-')}"
    return Table(f"Best {short_names([key])[0]} by {metric}", columns, tuple(rows), name)


def _texts(result: SweepResult, key: str) -> dict[object, str]:
    values = result.plan.scenario.sweep[key]
    return dict(zip(values, short_values(values), strict=True))


def _lead(one: Choice, metric: str) -> str:
    """Return by how much the next value is higher than the best."""
    if one.lead is None:
        return ""
    relative = one.lead.relative
    return f"+{quantity(metric, one.lead.difference.mean)}" if relative is None else display.change(relative)


def best_sentence(result: SweepResult, key: str, metric: str) -> str:
    """Return how often which value is best, or as good."""
    everything = choices(result, key, metric)
    found = [one for one in everything if one.best]
    values = short_values(result.plan.scenario.sweep[key])
    counts = Counter(values[place] for one in found for place in one.best)
    ends = {"did not end": "unfinished", "were cancelled": "cancelled"}
    left_out = " and ".join(
        f"{words} with {named}" for words, kind in ends.items() if (named := _undone(everything, values, kind))
    )
    left_out = f" Moves {left_out}: not best there." if left_out else ""
    if not counts:
        some = any(mean is not None for one in everything for mean in one.means)
        return f"No value of {key} {'is best by' if some else 'has'} {metric}.{left_out}"
    said = ", ".join(f"{value} in {count}" for value, count in counts.most_common())
    settings, alone = display.count(len(found), "setting"), sum(not one.intervals for one in found)
    if alone == len(found):
        words = "One replication gives no interval: the lowest alone counts as best, which may be chance."
        return f"Lowest {metric} in {settings}: {said}. {words}{left_out}"
    more = f" In {alone} of them values have one replication, which gives no interval: there the lowest counts alone."
    return f"Lowest {metric}, or not told from it, in {settings}: {said}.{more if alone else ''}{left_out}"


def _undone(given: Sequence[Choice], values: Sequence[str], kind: str) -> str:
    """Return in how many settings moves were unfinished or cancelled, as `kind` says, with which value."""
    counts = Counter(values[place] for one in given for place, undone in one.undone.items() if getattr(undone, kind))
    return ", ".join(f"{value} in {count}" for value, count in counts.most_common())


def best_summary(result: SweepResult, key: str, metrics: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return for JSON the choices by metric: the means, the best values, and the next one with its difference."""
    values = result.plan.scenario.sweep[key]
    return {
        metric: [
            {
                "settings": dict(one.settings),
                "means": [{"value": value, "mean": mean} for value, mean in zip(values, one.means, strict=True)],
                "best": [values[place] for place in one.best],
                "unfinished": [values[place] for place, undone in one.undone.items() if undone.unfinished],
                "cancelled": [values[place] for place, undone in one.undone.items() if undone.cancelled],
                "next": _next(one, values),
            }
            for one in choices(result, key, metric)
        ]
        for metric in metrics
    }


def _next(one: Choice, values: Sequence[object]) -> dict[str, Any] | None:
    if one.following is None or one.lead is None:
        return None
    return {"value": values[one.following], "difference": difference_entry(one.lead)}
