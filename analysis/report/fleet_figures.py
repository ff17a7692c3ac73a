"""Figures and tables of `holdfast fleet`.

Figures: unavailability of queries beside their objectives, broken queries, hosts, instances. Tables: longest outages,
decisions, refusals, overloads, cost of hosts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from analysis.fleet.fleet_summary import FleetSummary
from analysis.fleet.summary import used_hosts
from analysis.report import text
from analysis.report.figure import SHARE, Figure, Spec, header, share_ticks
from analysis.report.gantt import NS_PER_S, Layer, Stretch, counted, gantt, unit_of_time
from analysis.report.tables import cut_table, text_table
from analysis.report.text import style
from models import display
from models.fleet.records import FleetRecords, Row
from models.fleet.system import System
from models.table import Table

_MOST_LINES = 6
_MOST_STEPS = 400
_MOST_NUMBERS = 240


def slo_figure(system: System, one: FleetRecords, order: Sequence[str]) -> Figure | None:
    """Draw P(broken) of each query as placed, over time, beside what its SLO allows; None where nothing is exact.

    Drawn are the first queries of `order` that have a figure.
    """
    of = _by_name(one.rows["standing"])
    shown = [name for name in order if any(row[3] > 0 for row in of.get(name, ()))][:_MOST_LINES]
    if not shown:
        return None
    unit, size = unit_of_time(one.end_ns / NS_PER_S)
    slos = dict(zip(system.queries, system.slos, strict=True))
    end = one.end_ns / NS_PER_S / size
    data: list[Spec] = []
    for k, name in enumerate(shown):
        data.append(_has(name, k, of[name], one.end_ns, size))
        slo = slos[name]
        if slo is None and any(one is not None for one in system.slos):
            data[-1]["name"] += " (no SLO)"
        if slo is not None and slo < 1:
            data.append(_allowed(name, k, 1 - slo, end))
    values = [value for line in data for value in line["y"] if value]
    layout: Spec = {
        "xaxis": {
            "title": {"text": f"time [{unit}]"},
            "range": [0, float(f"{end:.6g}")],
            "unifiedhovertitle": header(unit),
        },
        "yaxis": {"title": {"text": "P(broken), log scale"}, "type": "log", **share_ticks(min(values), max(values))},
        "hovermode": "x unified",
        "showlegend": True,
    }
    rows = tuple(
        (text.plain(name), _when(row[1]), _when(row[2]), text.share(row[3]))
        for name in shown
        for row in of[name][: _MOST_NUMBERS // len(shown)]
    )
    heads = ("query", "from", "to", "P(broken)")
    title = "Unavailability of queries, and their objectives"
    return Figure("slo", title, _slos_caption(system, one, shown, of), data, layout, 420, heads, rows)


def _slos_caption(system: System, one: FleetRecords, shown: Sequence[str], of: dict[str, list[Row]]) -> str:
    caption = "Lower is better: the exact P(broken) in the long run of each placement there was. "
    slos = dict(zip(system.queries, system.slos, strict=True))
    used = [
        (max(row[3] for row in of[name]) / (1 - slo), name)
        for name in shown
        if (slo := slos[name]) is not None and slo < 1
    ]
    if used:
        most, name = max(used)
        caption += f"Thin lines are what SLOs allow; {text.plain(name)} comes closest, with {text.share(most)} of it. "
    if any(len(of[name]) > _MOST_STEPS for name in shown):
        caption += f"Where placements change often, the worst of each {_part(one.end_ns)} is drawn. "
    left = len(of) - len(shown)
    return (caption + (f"{left} more queries are in the table." if left > 0 else "")).strip()


def _part(end_ns: int) -> str:
    return display.duration(end_ns / NS_PER_S / _MOST_STEPS)


def _has(name: str, k: int, rows: Sequence[Row], end_ns: int, size: float) -> Spec:
    x: list[float | None] = []
    y: list[float | None] = []
    last = -1
    for begin, end, broken in worst_steps([row[1:4] for row in rows], end_ns):
        if last >= 0 and begin != last:
            x, y = [*x, None], [*y, None]
        value = float(f"{broken:.6g}") if broken > 0 else None
        x += [_number(begin, size), _number(end, size)]
        y += [value, value]
        last = end
    return {
        "type": "scatter",
        "mode": "lines",
        "name": text.label(name, 24),
        "legendgroup": str(k),
        "x": x,
        "y": y,
        "connectgaps": False,
        "line": {"color": style(k).colour, "width": 2},
        "hovertemplate": f"broken {SHARE} of the time",
    }


def _allowed(name: str, k: int, allowed: float, end: float) -> Spec:
    at = np.linspace(0, end, 25)  # so that the hover finds it
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{text.label(name, 24)} is allowed",
        "legendgroup": str(k),
        "showlegend": False,
        "x": [float(f"{value:.6g}") for value in at.tolist()],
        "y": [float(f"{allowed:.6g}")] * at.size,
        "line": {"color": style(k).colour, "width": 1.2, "dash": "dot"},
        "hovertemplate": SHARE,
    }


def worst_steps(rows: Sequence[Row], end_ns: int) -> list[tuple[int, int, float]]:
    """Return (from, to, P(broken)) by time; of many steps the worst in each of equal parts of the run; gaps stay.

    `rows` are (from, to, P(broken)) with instants in ns. Up to 400 steps are returned as they are.
    """
    rows = sorted(rows)
    if len(rows) <= _MOST_STEPS:
        return [(begin, end, broken) for begin, end, broken in rows if begin < end]
    width = max(1, math.ceil(end_ns / _MOST_STEPS))
    worst: dict[int, float] = {}
    for begin, end, broken in rows:
        if begin >= end:
            continue
        for part in range(begin // width, (end - 1) // width + 1):
            worst[part] = max(worst.get(part, 0.0), broken)
    return [(part * width, min((part + 1) * width, end_ns), worst[part]) for part in sorted(worst)]


def comings(one: FleetRecords, order: Sequence[str]) -> Figure:
    """Return a row for each query: when it was there, and when it was broken.

    `order` gives the names of all rows, from the top. Marks are drawn as wide as it takes to be seen, so widths of very
    short outages overstate them.
    """
    there, broken = _stretches(one.rows["presence"]), _stretches(one.rows["outages"])
    layers = (
        Layer("there", "var:--c1", 12, there, 0.45),
        Layer("broken", "var:--bad", 16, broken),
    )
    times, lasted = sum(map(len, broken.values())), sum(end - begin for row in broken.values() for begin, end in row)
    lasted_text = display.duration(lasted / NS_PER_S)
    caption = f"{display.count(times, 'outage')}, {lasted_text} together." if times else "None was broken."
    caption += " A mark is as wide as it has to be to be seen." if times else ""
    return gantt("queries", "Queries that come and go, and break", caption, order, layers, one.end_ns)


def hosts(system: System, one: FleetRecords) -> Figure:
    """Return a row for each host: when it was in use, down, overloaded.

    A host is in use from when it is acquired until it is empty again, also while it is down. Hosts that were neither in
    use nor down have no row.
    """
    used = used_hosts(system, one)
    down, over = _stretches(one.rows["host_downtimes"]), _stretches(one.rows["overloads"])
    layers = (
        Layer("in use", "var:--c3", 12, used, 0.45),
        Layer("overloaded", "var:--c2", 14, over),
        Layer("down", "var:--bad", 16, down),
    )
    rows = [name for name in system.hosts if used[name] or down.get(name)]
    idle = len(system.hosts) - len(rows)
    caption = (
        f"{sum(map(len, down.values())):,} times a host was down, {sum(map(len, over.values())):,} times overloaded."
    )
    caption += f" {idle} more hosts were never in use." if idle else ""
    return gantt("hosts", "Hosts in use, overloaded, and down", caption, rows, layers, one.end_ns)


def numbers(system: System, one: FleetRecords) -> Figure:
    """Return the number of hosts in use, of primaries and of replicas over time.

    With many changes, a step shows the greatest number within its part of the run.
    """
    unit, size = unit_of_time(one.end_ns / NS_PER_S)
    roles: dict[str, list[Stretch]] = {"primary": [], "replica": []}
    for _, _, role, _, begin, end in one.rows["instances"]:
        roles[role].append((begin, end))
    used = [stretch for intervals in used_hosts(system, one).values() for stretch in intervals]
    series = (
        ("hosts in use", used, "var:--c3", "solid"),
        ("primaries", roles["primary"], "var:--c1", "dash"),
        ("replicas", roles["replica"], "var:--c2", "solid"),
    )
    data, rows = [], []
    for name, stretches, colour, dash in series:
        at, count = counted(stretches, one.end_ns)
        data.append(_count(name, [*at.tolist(), one.end_ns], [*count.tolist(), int(count[-1])], size, (colour, dash)))
        step = max(1, at.size // (_MOST_NUMBERS // len(series)))
        rows += [(name, _when(when), display.count(n)) for when, n in zip(at[::step], count[::step], strict=True)]
    layout: Spec = {
        "xaxis": {
            "title": {"text": f"time [{unit}]"},
            "range": [0, _number(one.end_ns, size)],
            "unifiedhovertitle": header(unit),
        },
        "yaxis": {"title": {"text": "how many"}, "rangemode": "tozero"},
        "hovermode": "x unified",
        "showlegend": True,
    }
    caption = "Of operators that are split each part is an instance."
    heads = ("what", "from", "how many")
    return Figure("numbers", "How many hosts and instances there are", caption, data, layout, 340, heads, tuple(rows))


def _count(name: str, at: Sequence[int], count: Sequence[int], size: float, style: tuple[str, str]) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [_number(when, size) for when in at],
        "y": list(count),
        "line": {"color": style[0], "width": 2, "dash": style[1], "shape": "hv"},
        "hovertemplate": "%{y:,}\u00a0" + name.removesuffix(" in use"),
    }


def _by_name(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return found


def _stretches(rows: Iterable[Row]) -> dict[str, list[Stretch]]:
    return {name: [(row[1], row[2]) for row in found] for name, found in _by_name(rows).items()}


def _number(when_ns: float, size: float) -> float:
    return float(f"{when_ns / NS_PER_S / size:.7g}")


def _when(at_ns: float) -> str:
    return text.together(display.duration(float(at_ns) / NS_PER_S, 5))


_MOST = 60


def outages(system: System, records: Sequence[FleetRecords]) -> Table | None:
    """Return the longest times in which queries were broken, and which of their hosts were down as they began.

    At most 60 of all replications, the longest first. The hosts are those with an instance of an operator that the
    query needs, at the instant in which the outage began.
    """
    found = [(end - begin, one, name, begin, end) for one in records for name, begin, end in one.rows["outages"]]
    if not found:
        return None
    found.sort(key=lambda row: (-row[0], row[1].replication, row[3], row[2]))
    rows = [
        (
            text.plain(name),
            str(one.replication),
            _at(begin),
            display.duration(length / NS_PER_S),
            _down(system, one, name, begin),
        )
        for length, one, name, begin, _ in found[:_MOST]
    ]
    note = f"The longest {_MOST:,} of {len(found):,}." if len(found) > _MOST else ""
    heads = ("query", "replication", "from", "lasted", "hosts of it that were down")
    return text_table(
        "outages", "Longest times broken", heads, tuple(rows), (False, True, True, True, False), note=note, prose=(4,)
    )


def _down(system: System, one: FleetRecords, query: str, at_ns: int) -> str:
    needed = {system.operators[op] for op in system.needs[system.queries.index(query)]}
    there = {
        row[1] for row in one.rows["instances"] if one.split.get(row[0], row[0]) in needed and row[4] <= at_ns <= row[5]
    }
    names = dict.fromkeys(host for host, down, up in one.rows["host_downtimes"] if host in there and down <= at_ns < up)
    shown = [text.plain(name) for name in names]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "") if shown else text.NONE


def decisions(one: FleetRecords) -> Table | None:
    """Return the decisions of the manager in one replication, by time; what was begun is listed where it ends.

    Columns: instant, action, verdict, query, part or host, the hosts it leaves and goes to, and the reason in words.
    """
    found = [row for row in one.rows["decisions"] if row[5] != "begun"]
    if not found:
        return None
    rows = [
        (_at(at), action, verdict, text.plain(subject), _way(origin, target), text.plain(reason))
        for at, action, subject, origin, target, verdict, reason in found
    ]
    heads = ("at", "action", "verdict", "of", "hosts", "why")
    title = f"What was decided in replication {one.replication}"
    return cut_table(
        "decisions", title, heads, rows, words=6, facet="action", facets=[row[1] for row in found], prose=5
    )


def _way(origin: str, target: str) -> str:
    origin, target = text.plain(origin), text.plain(target)
    if origin and target:
        return f"{origin} to {target}"
    return f"from {origin}" if origin else f"to {target}" if target else text.NONE


def refusals(records: Sequence[FleetRecords]) -> Table | None:
    """Return the refusals, each with its query and the P(broken) that this would have had.

    P(broken) is the exact unavailability in the long run: as placed before, after the refused change, and the most that
    the objective allows.
    """
    found = [(one.replication, row) for one in records for row in one.rows["refusals"]]
    if not found:
        return None
    rows = [
        (_at(at), str(number), action, text.plain(subject), text.plain(query), _before(action, before), *ends)
        for number, (at, action, subject, query, before, after, allowed) in found
        for ends in [(_chance(after), _chance(allowed))]
    ]
    heads = ("at", "replication", "action", "of", "for the query", "P(broken) as it was", "after it", "allowed")
    facets = [row[1] for _, row in found]
    return cut_table("refusals", "Refused because of an SLO", heads, rows, words=5, facet="action", facets=facets)


def _before(action: str, before: float) -> str:
    return text.NONE if action == "admit" else _chance(before)  # it was not there


def overloads(records: Sequence[FleetRecords]) -> Table | None:
    """Return how often and how long each host was overloaded."""
    lengths: dict[str, list[int]] = {}
    for one in records:
        for host, begin, end in one.rows["overloads"]:
            lengths.setdefault(host, []).append(end - begin)
    if not lengths:
        return None
    order = sorted(lengths, key=lambda host: (-sum(lengths[host]), host))
    rows = [
        (text.plain(host), f"{len(intervals):,}", *(display.duration(f(intervals) / NS_PER_S) for f in (sum, max)))
        for host in order
        for intervals in [lengths[host]]
    ]
    heads = ("host", "times", "together", "longest")
    return cut_table("overloads", "Hosts that were overloaded, all replications", heads, rows, words=1)


def cost(summary: FleetSummary) -> Table:
    """Return how long hosts were in use, and what that cost; means over replications."""
    used = summary.hosts_in_use
    length_s = summary.duration_s - summary.warmup_s
    priced = used.cost_usd is not None
    heads = ("host", "in use", "of the time", *(("cost [USD]",) if priced else ()))
    rows = [
        (
            text.plain(one.host),
            display.duration(one.used_s),
            text.share(one.used_s / length_s),
            *((display.money(one.cost_usd),) if priced else ()),
        )
        for one in used.by_host
    ]
    total = ("together", display.duration(used.used_s), text.share(used.mean / max(1, len(rows))))
    rows = [(*total, *((display.money(used.cost_usd),) if priced else ())), *rows]
    return cut_table("cost", "Hosts in use, mean of the replications", heads, rows, words=1, marked=0)


# -- cells


def _chance(value: float | None) -> str:
    return display.share(value)


def _at(when_ns: int) -> str:
    """Return an instant as days, hours and minutes, so that rows can be told apart and found in the figures."""
    seconds = when_ns / NS_PER_S
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    return f"{int(days)} d {int(hours):02}:{int(minutes):02}:{int(left):02}"
