"""The page of claims: what papers say beside what came out, the curves, and what hangs on assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from analysis.report.claims_sections import charts_section, claims_section, grids_section
from analysis.report.page import Fact, Page
from analysis.report.parts import Chart, ClaimRow
from models import display
from models.queries.description import Templates
from models.table import Table, columns_of
from scenarios.pages.run import versions
from scenarios.studies.reproduce.query_workloads import CHANCES, RUNS
from scenarios.studies.reproduce.selective_replication import FIGURE_4, Results, curves, figure_5, verdicts

_SHOWN = ("qodlu", "random", "qod", "lu", "full-half", "share")


def claims_page(rows: Sequence[Mapping[str, Any]], replication: Results | None, command: str) -> Page:
    """Return the page of these claims, and of the workloads of selective replication where they were tried."""
    tried = [row for row in rows if row["holds"] is not None]
    held = sum(row["holds"] for row in tried)
    return Page(
        "Claims of papers",
        "What papers report, tried again: each claim beside what came out here.",
        facts=(Fact("claims tried", f"{len(tried)} of {len(rows)}"), Fact("hold", str(held))),
        sections=[
            claims_section([_row(row) for row in tried]),
            None if replication is None else charts_section(charts(replication)),
            grids_section([sensitivity(replication)]) if replication is not None and replication.variants else None,
        ],
        assumptions=() if replication is None else assumptions(replication),
        versions=versions(),
        command=command,
    )


def _row(row: Mapping[str, Any]) -> ClaimRow:
    return ClaimRow(
        row["study"], row["claim"], row["text"], row["paper"], row["ours"], row["tolerance"], row["holds"], row["cause"]
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
    heads = ("assumption", "QOD*LU", "random", "QOD", "LU", "all - half", "replicated", "hosts a query", "workloads")
    return Table("The claims under other assumptions", columns_of(heads, texts=1), tuple(rows), "sensitivity", note)


def _grid_row(name: str, tried: Sequence[Any]) -> tuple[str, ...]:
    made = verdicts(tried)
    values = [made[claim].ours.split(" ")[0] + ("" if made[claim].holds else " *") for claim in _SHOWN]
    return (name, *values, f"{fmean(one.hosts_per_query for one in tried):.2f}", str(len(tried)))


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
