"""The page of `holdfast availability`: how often each query is broken, in each setting, and what hosts are worth.

All figures are unavailabilities, the share of time in which a query is broken, on log scales: availabilities such as
99.99 % and 99.999 % would lie on each other. Tables are those of `scenarios.reliability.tables`, which the terminal
draws as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.report import text
from analysis.report.figure import Figure as Drawing
from analysis.report.figure import Section, Spec, share_ticks
from analysis.report.page import Fact, Page
from analysis.report.tables import cut
from analysis.report.text import style
from models import display
from scenarios.pages.run import versions
from scenarios.reliability.availability import Answer, Figure, Line, weakest
from scenarios.reliability.importance import Importance
from scenarios.reliability.tables import (
    MOST_SETTINGS,
    every_setting,
    fewer_table,
    gains_table,
    importance_table,
    known_table,
    month_text,
    queries_table,
    reading_notes,
    settings_table,
    single_points_table,
    worst_first,
)

_MOST_DRAWN, _MOST_FOUND = 30, 1000
_MARGIN = 0.12  # decades
_ASSUMPTIONS = (
    "A query runs when each of its operators has an instance on a host that is up; it is broken else.",
    "Hosts fail independently of each other but for what the file says they share.",
    "A month has 30.44 days.",
)


def availability_page(found: Answer, importance: Sequence[Importance] = (), *, command: str = "") -> Page:
    """Return the page; figures of queries are those of the last settings.

    The headline, the order of queries and the importance are those of the last setting; the verdict on a target is
    about all of them. `importance` is empty where nobody asked for it.
    """
    description, last = found.description, found.lines[-1]
    sections = [_queries(found), _settings(found), _alone(found), *_importance(importance)]
    return Page(
        title=description.name or "Availability",
        question="How often is each query broken because hosts are down?",
        facts=(
            Fact("hosts", f"{len(description.host_names):,}"),
            Fact("operators", f"{len(description.operators):,}"),
            Fact("queries", f"{len(description.queries):,}"),
            Fact("settings", ", ".join(line.label for line in found.lines[:6]) + (" ..." * (len(found.lines) > 6))),
        ),
        headline=_headline(found, last),
        assumptions=(
            *_ASSUMPTIONS,
            *reading_notes(found),
        ),
        versions=versions(),
        command=command,
        sections=sections,
    )


def _headline(found: Answer, last: Line) -> tuple[Fact, ...]:
    """Return the facts of the last setting: mean and worst query, any query broken, and the target."""
    names = list(found.description.queries)
    worst = max(range(len(names)), key=lambda k: (last.queries[k].high, -k))
    facts = [
        Fact("mean query is broken", chance(last.mean), note=f"{month_text(last.mean)} a month, {last.label}"),
        Fact("worst query", chance(last.queries[worst]), note=f"{text.clip(names[worst], 24)}, {last.label}"),
    ]
    if last.some is not None:
        facts.append(Fact("at least one is broken", chance(last.some), note=f"{last.some.method}, {last.label}"))
    if found.target is not None:
        missed, of = len(found.missed), len(names)
        note = f"of {of} have {display.share(found.target, 10)}{every_setting(found)}"
        facts.append(Fact("target", f"{of - missed}", good=not missed, note=note))
    return tuple(facts)


def _queries(found: Answer) -> Section:
    words = "Worst first, by the last setting."
    return Section(
        "queries", "Queries", "Queries", words, figures=tuple(_drawing(found)), tables=(cut(queries_table(found)),)
    )


def _drawing(found: Answer) -> list[Drawing]:
    """Return a mark for each query and setting at its unavailability, with what is known of it as a line.

    At most 30 queries and five settings. A query that is never broken in a setting has no mark there, since zero has no
    place on a log scale; the caption counts them.
    """
    order, names = worst_first(found)[:_MOST_DRAWN], list(found.description.queries)
    lines = found.lines[-MOST_SETTINGS:]
    ends = [end for line in lines for k in order for end in (line.queries[k].low, line.queries[k].high) if end > 0]
    if not ends:
        return []
    shown = [text.label(names[k], 24) for k in order]
    data = [_marks(line, number, order, names) for number, line in enumerate(lines)]
    if found.target is not None and found.target < 1:
        ends.append(1 - found.target)
        data.append(_target(1 - found.target, len(order)))
    least, most = min(ends), max(ends)
    # A lower end of zero has no place on the axis, and plotly would stretch it by decades: such a line leaves the plot.
    extent = [math.log10(least) - _MARGIN, math.log10(most) + _MARGIN]
    layout: Spec = {
        "xaxis": {
            "title": {"text": "share of time broken (log scale)"},
            "type": "log",
            "range": extent,
            **share_ticks(least, most),
        },
        "yaxis": {"tickvals": list(range(len(order))), "ticktext": shown, "range": [len(order) - 0.4, -0.6]},
        "hovermode": "closest",
        "showlegend": True,
    }
    caption = "Further left is better."
    if any(line.queries[k].low < line.queries[k].high for line in lines for k in order):
        caption += " A line spans what is not known exactly: bounds, or the interval of a sample."
    zero = sum(not line.queries[k].high for line in lines for k in order)
    caption += f" {zero} that are never broken have no mark." if zero else ""
    caption += f" The {len(order)} worst of {len(names)} queries." if len(order) < len(names) else ""
    title = "How often queries are broken"
    return [Drawing("unavailability", title, caption, data, layout, 130 + 26 * len(order))]


def _marks(line: Line, number: int, order: Sequence[int], names: Sequence[str]) -> Spec:
    """Return the marks of one setting; bounds and intervals are error bars."""
    known = [(place, line.queries[k]) for place, k in enumerate(order) if line.queries[k].high > 0]
    at = [one.value or one.high for _, one in known]
    spec: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": text.label(line.label, 24),
        "x": [float(f"{value:.6g}") for value in at],
        "y": [place for place, _ in known],
        "marker": {"size": 10, "symbol": style(number).symbol, "color": style(number).colour},
        "text": [text.label(names[order[place]], 24) for place, _ in known],
        "hovertemplate": "%{text}: broken %{x:.3~p} of the time",
    }
    if any(one.low < one.high for _, one in known):
        spec["error_x"] = {
            "type": "data",
            "symmetric": False,
            "array": [float(f"{one.high - value:.4g}") for value, (_, one) in zip(at, known, strict=True)],
            "arrayminus": [float(f"{value - one.low:.4g}") for value, (_, one) in zip(at, known, strict=True)],
            "thickness": 1.5,
            "color": style(number).colour,
        }
    return spec


def _target(allowed: float, rows: int) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "target",
        "x": [float(f"{allowed:.6g}")] * 2,
        "y": [-0.6, rows - 0.4],
        "line": {"color": "var:--ink", "width": 1.5, "dash": "dash"},
        "hovertemplate": "%{x:.3~p} of the time",
    }


def _settings(found: Answer) -> Section:
    """Return the section of all queries together, a row for each setting."""
    made = (settings_table(found), known_table(found), fewer_table(found))
    tables = tuple(cut(one) for one in made if one is not None)
    return Section("settings", "All queries together", "Settings", tables=tables)


def _alone(found: Answer) -> Section:
    """Return the section of single points of failure, which follow from the structure alone."""
    _, fewest = weakest(found.description)
    made = single_points_table(found)
    one, two = (sum(least == size for least in fewest.values()) for size in (1, 2))
    words = (
        f"One failure is enough to break {one:,} of {len(fewest):,} queries, and two are needed for {two:,}. "
        "A domain is one failure. How likely failures are is not looked at."
    )
    tables = () if made is None else (made.cut(_MOST_FOUND),)
    return Section("alone", "What one failure breaks", "One failure", words, tables=tables)


def _importance(found: Sequence[Importance]) -> list[Section]:
    """Return the section of importance in the last setting; empty if it was not asked for."""
    if not found:
        return []
    words = (
        "An element decides for the mean query when it is broken if the element is down and runs if it is up. "
        "A replica gains what the mean share of running queries would rise by with it alone."
    )
    tables = (cut(importance_table(found[-1])), cut(gains_table(found[-1])))
    return [Section("importance", "What hosts and replicas are worth", "Importance", words, tables=tables)]


# -- cells


def chance(figure: Figure) -> str:
    """Return a share of the time; `≤` where only the upper end is known.

    Unlike in tables, an upper end alone stands where only bounds are known: a fact has little room.
    """
    value = None if figure.estimate == 0 else figure.value
    return display.at_most(figure.high, display.share) if value is None else display.share(value)
