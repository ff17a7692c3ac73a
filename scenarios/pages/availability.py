"""The page of `holdfast availability`: how often each query is broken, in each setting, and what hosts are worth."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report import text
from analysis.report.figure import Figure as Drawing
from analysis.report.figure import Section, Spec, share_ticks
from analysis.report.page import Fact, Page
from analysis.report.tables import text_table
from analysis.report.text import style
from models import display
from models.reliability.times import downtime_s
from models.table import Table
from scenarios.pages.run import versions
from scenarios.reliability.availability import Answer, Figure, Line, weakest
from scenarios.reliability.importance import Importance

_MOST_DRAWN, _MOST_SETTINGS, _MOST_FOUND, _MOST = 30, 5, 1000, 60
_MOST_NAMED = 8  # queries that a single point of failure breaks
_ASSUMPTIONS = (
    "A query runs when each of its operators has an instance on a host that is up; it is broken else.",
    "Hosts fail independently of each other but for what the file says they share.",
    "A month has 30.44 days.",
)


def availability_page(found: Answer, importance: Sequence[Importance] = (), *, command: str = "") -> Page:
    """Return the page; figures of queries are those of the last settings."""
    description, last = found.description, found.lines[-1]
    sections = [_queries(found), _settings(found), _alone(found), *_importance(importance)]
    sampled = any(one.estimate is not None for line in found.lines for one in (*line.queries, line.mean))
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
            *(("What is sampled has an interval that holds with 95 %.",) if sampled else ()),
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
        Fact("mean query is broken", chance(last.mean), note=f"{month(last.mean)} a month, {last.label}"),
        Fact("worst query", chance(last.queries[worst]), note=f"{text.clip(names[worst], 24)}, {last.label}"),
    ]
    if last.some is not None:
        facts.append(Fact("at least one is broken", chance(last.some), note=f"{last.some.method}, {last.label}"))
    if found.target is not None:
        missed, of = len(found.missed), len(names)
        note = f"of {of} have {display.share(found.target, 10)}{every_setting(found)}"
        facts.append(Fact("target", f"{of - missed}", good=not missed, note=note))
    return tuple(facts)


def every_setting(found: Answer) -> str:
    """Return to which settings the verdict on a target applies, where there are several."""
    return " in every setting" if len(found.lines) > 1 else ""


def _queries(found: Answer) -> Section:
    words = "Worst first, by the last setting."
    return Section("queries", "Queries", "Queries", words, figures=tuple(_drawing(found)), tables=(_by_query(found),))


def _order(found: Answer) -> list[int]:
    last = found.lines[-1]
    return sorted(range(len(last.queries)), key=lambda query: (-last.queries[query].high, query))


def _drawing(found: Answer) -> list[Drawing]:
    """Return a mark for each query and setting at its unavailability, with what is known of it as a line."""
    order, names = _order(found)[:_MOST_DRAWN], list(found.description.queries)
    lines = found.lines[-_MOST_SETTINGS:]
    ends = [end for line in lines for k in order for end in (line.queries[k].low, line.queries[k].high) if end > 0]
    if not ends:
        return []
    shown = [text.label(names[k], 24) for k in order]
    data = [_marks(line, number, order, names) for number, line in enumerate(lines)]
    if found.target is not None and found.target < 1:
        ends.append(1 - found.target)
        data.append(_target(1 - found.target, len(order)))
    least, most = min(ends), max(ends)
    layout: Spec = {
        "xaxis": {"title": {"text": "share of time broken (log scale)"}, "type": "log", **share_ticks(least, most)},
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


def _by_query(found: Answer) -> Table:
    """Return the unavailability of each query in the last settings, worst first."""
    lines, names = found.lines[-_MOST_SETTINGS:], list(found.description.queries)
    order = _order(found)
    missed = set(found.missed)
    rows = [
        (
            text.plain(names[k]),
            *(chance(line.queries[k]) for line in lines),
            month(lines[-1].queries[k]),
            lines[-1].queries[k].method,
        )
        for k in order
    ]
    heads = ("query", *(line.label for line in lines), f"a month, {lines[-1].label}", "method")
    met, short = f"has it{every_setting(found)}", "misses it" + " in some setting" * (len(found.lines) > 1)
    facets = [short if names[k] in missed else met if found.target else "" for k in order]
    title = "Share of time broken, by query"
    numbers = (False, *(True,) * (len(lines) + 1), False)
    note = _left(len(rows), _MOST_FOUND)
    return text_table(
        "queries", title, heads, tuple(rows[:_MOST_FOUND]), numbers, note=note, facet="target", facets=tuple(facets)
    )


def _settings(found: Answer) -> Section:
    """Return the section of all queries together, a row for each setting."""
    rows = tuple(
        (line.label, chance(line.mean), span(line.mean), month(line.mean), *_some(line), line.mean.method)
        for line in found.lines[:_MOST]
    )
    heads = ("setting", "mean query", "known to be in", "a month", "at least one broken", "known to be in", "method")
    numbers = (False, *(True,) * 5, False)
    made = [
        text_table("settings", "All queries, by setting", heads, rows, numbers, note=_left(len(found.lines), _MOST))
    ]
    lines = [line for line in found.lines if line.short][:_MOST]
    if lines:
        shares = list(lines[0].short)
        fewer = tuple((line.label, *(f"{chance(one)}{_open(one)}" for one in line.short.values())) for line in lines)
        said = ("setting", *(f"fewer than {display.share(share, 6)} run" for share in shares))
        made.append(text_table("fewer", "How likely it is that fewer queries run", said, fewer, (False, *(True,) * 3)))
    return Section("settings", "All queries together", "Settings", tables=tuple(made))


def _some(line: Line) -> tuple[str, str]:
    return (text.NONE, text.NONE) if line.some is None else (chance(line.some), span(line.some))


def _open(figure: Figure) -> str:
    return "" if figure.low == figure.high else f" ({span(figure)})"


def _alone(found: Answer) -> Section:
    """Return the section of single points of failure, which follow from the structure alone."""
    alone, fewest = weakest(found.description)
    rows = tuple(
        (text.plain(one.name), one.kind, f"{len(one.queries):,}", text.plain(_few(one.queries)))
        for one in alone[:_MOST_FOUND]
    )
    one, two = (sum(least == size for least in fewest.values()) for size in (1, 2))
    words = (
        f"One failure is enough to break {one:,} of {len(fewest):,} queries, and two are needed for {two:,}. "
        "A domain is one failure. How likely failures are is not looked at."
    )
    heads = ("host or domain", "kind", "breaks", "queries")
    note = _left(len(alone), _MOST_FOUND)
    made = text_table("alone", "Single points of failure", heads, rows, (False, False, True, False), note=note)
    return Section("alone", "What one failure breaks", "One failure", words, tables=(made,) if rows else ())


def _importance(found: Sequence[Importance]) -> list[Section]:
    """Return the section of importance in the last setting; empty if it was not asked for."""
    if not found:
        return []
    last = found[-1]
    elements = tuple((text.plain(one.name), between(one.low, one.high)) for one in last.elements[:_MOST_FOUND])
    replicas = tuple(
        (text.plain(one.operator), text.plain(one.host), between(one.low, one.high))
        for one in last.replicas[:_MOST_FOUND]
    )
    note = f"{last.left_out} operators were not tried. " * bool(last.left_out) + _left(len(last.replicas), _MOST_FOUND)
    tables = (
        text_table("elements", f"Importance (Birnbaum), {last.label}", ("host or domain", "decides with"), elements,
              (False, True), note=_left(len(last.elements), _MOST_FOUND), facet="host", facets=("",) * len(elements)),
        text_table("replicas", f"One more replica, {last.label}", ("operator", "on host", "mean share gains"), replicas,
              (False, False, True), note=note.strip(), facet="operator", facets=tuple(row[0] for row in replicas)),
    )  # fmt: skip
    words = (
        "An element decides for the mean query when it is broken if the element is down and runs if it is up. "
        "A replica gains what the mean share of running queries would rise by with it alone."
    )
    return [Section("importance", "What hosts and replicas are worth", "Importance", words, tables=tables)]


# -- cells


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def chance(figure: Figure) -> str:
    """Return a share of the time; `≤` where only the upper end is known."""
    value = None if figure.estimate == 0 else figure.value
    return display.at_most(figure.high, display.share) if value is None else display.share(value)


def span(figure: Figure) -> str:
    """Return both ends of what is known, `exact` where they are one."""
    return "exact" if figure.low == figure.high else between(figure.low, figure.high)


def between(low: float, high: float) -> str:
    """Return both ends, rounded so that they hold."""
    return display.between(low, high, display.share)


def month(figure: Figure) -> str:
    """Time broken in a month; the upper end where there are only bounds, or nothing was seen."""
    value = None if figure.estimate == 0 else figure.value
    return display.at_most(downtime_s(figure.high)) if value is None else display.duration(downtime_s(value))


def _left(rows: int, most: int) -> str:
    return f"The first {most:,} of {rows:,} rows." if rows > most else ""
