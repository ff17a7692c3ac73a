"""Tables of the summary of a fleet: the terminal shows their brief form, pages the whole."""

from __future__ import annotations

from analysis.fleet.fleet_summary import FleetSummary, QuerySummary
from models import display
from models.table import Column, Table, rows_of

_VERDICTS = ("begun", "done", "refused", "aborted")


def queries_table(summary: FleetSummary) -> Table:
    """Return a row for each query, worst first: share of time broken, exact P(broken), outages, objective (SLO).

    `exact` is the unavailability of each placement in the long run, averaged over the time that it was there; `exact,
    worst` is the greatest of them. The budget is the time for which the objective allows the query to be broken.
    """
    bounded = any(one.slo is not None for one in summary.queries)
    columns = (
        Column("query", of="query", number=False),
        Column("SLO", availability_text, "slo", wide=True),
        Column("broken", display.share, "broken_share"),
        Column("95 % interval", _interval, "ci95", wide=True),
        Column("exact", display.share, "exact"),
        Column("exact, worst", display.share, "exact_worst", wide=True),
        Column("down", display.duration, "broken_s"),
        Column("breaks", display.count, "breaks"),
        Column("longest", display.duration, "longest_s"),
        Column("budget used", display.share, "budget_used", wide=not bounded),
    )
    times = summary.replications
    title = "By query, worst first" + (f"; down, breaks and longest of all {times} replications" if times > 1 else "")
    facets = tuple(map(_kept, summary.queries))
    rows = rows_of(summary.queries, columns)
    return Table(title, columns, rows, "by-query", facet="time allowed", facets=facets)


def availability_text(share: float | None) -> str:
    """Return an availability in percent, with all the nines that were written."""
    return display.share(share, 10)


def _interval(ends: tuple[float, float] | None) -> str:
    # Student's interval of zeros alone is no interval: nothing was seen.
    if ends is None or not any(ends):
        return display.NONE
    return display.between(max(0.0, ends[0]), ends[1], display.share)


def _kept(one: QuerySummary) -> str:
    """Return whether a query was broken for longer than its objective allows."""
    return "no SLO" if one.slo is None else "above it" if (one.budget_used or 0) > 1 else "within it"


def decisions_table(summary: FleetSummary) -> Table:
    """Return how many decisions there were of each action, by verdict."""
    count = {(one.action, one.verdict): one.count for one in summary.decisions}
    columns = (Column("action", number=False), *(Column(verdict, display.count) for verdict in _VERDICTS))
    actions = dict.fromkeys(action for action, _ in count)
    rows = tuple((action, *(count.get((action, verdict), 0) for verdict in _VERDICTS)) for action in actions)
    return Table("Decisions of all replications", columns, rows, "counts", brief_title="Decisions")
