"""The page of claims: what papers say beside what came out, the curves, and what hangs on assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from analysis.report.claims_sections import charts_section, claims_section, grids_section, methods_section
from analysis.report.page import Fact, Page
from analysis.report.parts import Chart, ClaimRow
from models import display
from models.queries.description import Templates
from models.table import Column, Table
from scenarios.pages.elastic_claims import elastic_assumptions, elastic_charts, elastic_tables
from scenarios.pages.migration_claims import (
    migration_charts,
    queries_table,
    query_resolutions_table,
    resolutions_table,
)
from scenarios.pages.run import versions
from scenarios.studies.reproduce.claims import Finding
from scenarios.studies.reproduce.elastic_upstream_backup import Results as ElasticResults
from scenarios.studies.reproduce.live_migration import Made
from scenarios.studies.reproduce.query_workloads import CHANCES, RUNS, Tried
from scenarios.studies.reproduce.selective_replication import FIGURE_4, Results, curves, figure_5, verdicts

_SHOWN = {  # claim -> column, and decimals of its figure
    "qodlu": ("QOD*LU", 2),
    "random": ("random", 2),
    "qod": ("QOD", 2),
    "lu": ("LU", 2),
    "full-half": ("all - half", 2),
    "share": ("replicated", 3),
}


def claims_page(
    rows: Sequence[ClaimRow],
    replication: Results | None,
    command: str,
    elastic: ElasticResults | None = None,
    migration: Made | None = None,
) -> Page:
    """Return the page of these claims, and of the studies that have curves where they were tried.

    `replication` has the workloads of the study of selective replication, `elastic` the runs of that of elastic
    upstream backup, `migration` the moves of that of Megaphone; without them there are no curves, no further tables and
    no assumptions.
    """
    tried = [row for row in rows if row.holds is not None]
    held = sum(bool(row.holds) for row in tried)
    curves = () if replication is None else charts(replication)
    tables, assumed = [], () if replication is None else assumptions(replication)
    if replication is not None and replication.variants:
        tables.append(sensitivity(replication))
    if elastic is not None:
        curves, assumed = (*curves, *elastic_charts(elastic)), (*assumed, *elastic_assumptions(elastic))
    if migration is not None:
        curves = (*curves, *migration_charts(migration))
        tables += [queries_table(migration), resolutions_table(migration), query_resolutions_table(migration)]
    return Page(
        "Claims of papers",
        "What papers report, tried again: each claim beside what came out here.",
        facts=(Fact("claims tried", f"{len(tried)} of {len(rows)}"), Fact("hold", str(held))),
        sections=[
            claims_section(tried),
            methods_section(elastic_tables(elastic)) if elastic is not None else None,
            charts_section(curves),
            grids_section(tables),
        ],
        assumptions=assumed,
        versions=versions(),
        command=command,
    )


def charts(found: Results) -> tuple[Chart, ...]:
    """Return figures 4 and 5 of the paper, as means over the workloads, with what 1,000 runs of each say as marks."""
    at = np.array([0.0, *(100 * p for p in CHANCES)])
    made = []
    for name, title, chosen in (
        ("figure-4", "Which operators get replicas (the paper's figure 4)", FIGURE_4),
        ("figure-5", "How much capacity is spare, QOD*LU (figure 5)", figure_5()),
    ):
        names, exact, runs = curves(found, chosen)
        off = float(np.abs(exact - runs).max())
        caption = (
            f"Means over {len(found.base)} workloads. Lines are exact; rings are means of {RUNS:,} runs of each "
            f"workload, at most {off:.2f} points away."
        )
        made.append(
            Chart(name, title, "host is down", "queries that run", "%", at, names, exact, caption, runs, "by runs")
        )
    return tuple(made)


def sensitivity(found: Results) -> Table:
    """Return the claims' values under other assumptions."""
    rows = [_grid_row("as described", found.base)]
    rows += [_grid_row(name, tried) for name, tried in found.variants.items()]
    note = "At p = 0.02 and 50 % spare capacity, 'all - half' at p = 0.03; * where the claim does not hold."
    columns = (
        Column("assumption", number=False),
        *(Column(head, partial(_figure, digits=digits)) for head, digits in _SHOWN.values()),
        Column("hosts a query", "{:.2f}".format),
        Column("workloads"),
    )
    return Table("The claims under other assumptions", columns, tuple(rows), "sensitivity", note)


def _grid_row(name: str, tried: Sequence[Tried]) -> tuple[Any, ...]:
    made = verdicts(tried)
    return (name, *(made[claim] for claim in _SHOWN), fmean(one.hosts_per_query for one in tried), len(tried))


def _figure(found: Finding, digits: int) -> str:
    """Return the figure of a claim with so many decimals, and a mark where the claim does not hold."""
    return f"{found.value:.{digits}f}" + ("" if found.holds else " *")


def assumptions(found: Results) -> tuple[str, ...]:
    """Return the assumptions about what the paper leaves open."""
    made = Templates()
    hosts = fmean(one.hosts for one in found.base)
    weights = ", ".join(display.number(weight, 6) for weight in made.weights)
    return (
        "The paper gives neither its templates nor its costs: six templates with the likelihoods " + weights + ".",
        f"Queries are added until operators load 100 CPUs, {fmean(one.queries for one in found.base):.0f} of them "
        f"with {fmean(one.operators for one in found.base):.0f} operators; first fit needs {hosts:.1f} hosts for that.",
        "The paper has 100 hosts of capacity 1, a load of 100, and 0 to 100 of spare capacity. Here replicas go on "
        "further hosts, as many as the spare capacity, with 4 % more for packing.",
        "Primaries go where most neighbours are, in the order in which queries came; replicas by falling importance.",
        "A host that failed stays down for the day, so shares are those at its end.",
    )
