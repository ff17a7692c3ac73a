"""Tables of `holdfast fleet`: queries, longest outages, decisions, refusals, overloads, what hosts cost."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.fleet.fleet_summary import FleetSummary
from analysis.report import text
from analysis.report.gantt import NS_PER_S
from analysis.report.tables import cut_table, text_table
from models import display
from models.fleet.records import FleetRecords
from models.fleet.system import System
from models.table import Table

_MOST = 60


def queries(summary: FleetSummary) -> Table:
    """Return for each query its objective (SLO), its exact P(broken), and its outages."""
    heads: tuple[str, ...] = ("query", "SLO", "P(broken), mean", "P(broken), worst", "broken, simulated")
    heads += ("95 % interval", "down", "breaks", "longest", "of what is allowed")
    rows, facets = [], []
    for one in summary.queries:
        used = one.budget_used
        rows.append(
            (
                text.plain(one.query),
                percent(one.slo),
                _chance(one.exact),
                _chance(one.exact_worst),
                _chance(one.broken_share),
                _interval(one.ci95 if one.breaks else None),  # of zeros alone there is none
                display.duration(one.broken_s),
                f"{one.breaks:,}",
                display.duration(one.longest_s),
                text.share(used),
            )
        )
        facets.append("no SLO" if one.slo is None else "above it" if (used or 0) > 1 else "within it")
    times = summary.replications
    title = "Queries, worst first" + (f"; down, breaks and longest of all {times} replications" if times > 1 else "")
    return cut_table("by-query", title, heads, rows, words=1, facet="time allowed", facets=facets)


def outages(system: System, records: Sequence[FleetRecords]) -> Table | None:
    """Return the longest times in which queries were broken, and which of their hosts were down as they began."""
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
        row[1]
        for row in one.rows["instances"]
        if needed & {row[0], row[0].rpartition("/")[0]} and row[4] <= at_ns <= row[5]
    }
    names = dict.fromkeys(host for host, down, up in one.rows["host_downtimes"] if host in there and down <= at_ns < up)
    shown = [text.plain(name) for name in names]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "") if shown else text.NONE


def decisions(one: FleetRecords) -> Table | None:
    """Return the decisions of the manager in one replication, by time; what was begun is listed where it ends."""
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
    """Return the refusals, each with its query and the P(broken) that this would have had."""
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


def percent(share: float | None) -> str:
    """Return an availability in percent, with all the nines that were written."""
    return display.share(share, 10)


def _chance(value: float | None) -> str:
    return display.share(value)


def _interval(ends: Sequence[float] | None) -> str:
    return text.NONE if ends is None else display.between(max(0.0, ends[0]), ends[1], display.share)


def _at(when_ns: int) -> str:
    """Return an instant as days, hours and minutes, so that rows can be told apart and found in the figures."""
    seconds = when_ns / NS_PER_S
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    return f"{int(days)} d {int(hours):02}:{int(minutes):02}:{int(left):02}"
