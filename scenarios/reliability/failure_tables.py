"""Tables of `holdfast failures`: the terminal shows their brief form, pages the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.failure_logs.lifetimes import Fit
from models import display
from models.reliability.failure_log import FailureLog
from models.table import Column, Table, rows_of

_VERDICTS = {True: "rejected", False: "not rejected", None: display.NONE}


def laws_table(name: str, title: str, laws: Sequence[Fit]) -> Table:
    """Return the laws that were fitted, by rising AIC, the first one marked.

    The distance is the greatest of |F - Kaplan-Meier|; p is how likely one as great is if the law is true.
    """
    columns = (
        Column("law", of="law", number=False, whole=True),
        Column("parameters", _parameters, "parameters", number=False),
        Column("mean", display.duration, "mean_s"),
        Column("AIC", lambda aic: display.number(aic, 6), "aic"),
        Column("distance", display.share, "distance"),
        Column("p", lambda p: display.number(p, 2), "p"),
        Column("at 5 %", lambda rejected: _VERDICTS[rejected], "rejected", number=False),
    )
    return Table(title, columns, rows_of(laws, columns), name, marked=0)


def _parameters(given: Mapping[str, float]) -> str:
    return ", ".join(
        f"{name.removesuffix('_s')} {(display.duration if name.endswith('_s') else display.number)(value)}"
        for name, value in given.items()
    )


def hosts_table(log: FailureLog) -> Table:
    """Return failures and times of all hosts, those that were down longest first."""
    order = sorted(range(len(log.hosts)), key=lambda host: (-log.down_s_of[host], log.hosts[host]))
    columns = (
        Column("host", number=False),
        Column("failures", display.count),
        Column("down", display.duration),
        Column("up", display.duration),
    )
    rows = tuple(
        (log.hosts[host], int(log.failures_of[host]), float(log.down_s_of[host]), float(log.up_s_of[host]))
        for host in order
    )
    facets = tuple("failed" if failures else "never failed" for _, failures, _, _ in rows)
    title = "Hosts, those that were down longest first"
    return Table(title, columns, rows, "hosts-down", facet="host", facets=facets)
