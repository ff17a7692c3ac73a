"""The page of a run of `holdfast fleet`: objectives met, queries broken, hosts and decisions over time, and cost.

Two kinds of figures stand beside each other: simulated shares of time, which have luck in them, and exact
unavailabilities of placements, which have not (`models.fleet.system.ExactUnavailability`).
"""

from __future__ import annotations

from analysis.fleet.fleet_summary import QuerySummary
from analysis.fleet.tables import decisions_table, queries_table
from analysis.report import fleet_figures, text
from analysis.report.figure import Section
from analysis.report.page import Fact, Page
from analysis.report.tables import cut
from models import display
from models.fleet.system import keeps
from scenarios.fleet.runs import FleetResult
from scenarios.pages.run import versions

_ASSUMPTIONS = (
    "P(broken) is exact and of the long run, for the placement that there was, whatever hosts were down at the moment; "
    "the simulated share is of the time that the query was there.",
    "An SLO is about that P(broken): bad luck may break a query for longer than it allows, and no reconfiguration "
    "may make it likelier.",
    "A host is in use from when it is acquired until it is empty again, up or down.",
    "Hosts are either up or down. Overload breaks nothing; its duration is reported.",
    "Moves take `manager.move`, and an instance counts where it was until it is live; pauses of moves are left out.",
)


def fleet_page(result: FleetResult, *, command: str = "") -> Page:
    """Return the page; figures over time are those of the first replication.

    Tables count all replications. Sections about decisions and cost are there only where a manager acts, or hosts have
    a price.
    """
    system, summary, fleet = result.system, result.found, result.system.fleet
    sections = (_slos(result), _queries(result), _hosts(result), _decisions(result), _cost(result))
    managed = fleet.manager is not None
    return Page(
        title=fleet.name or "Queries on hosts that fail",
        question=f"Who is broken for how long{', and what is done about it' if managed else ''}?",
        facts=(
            Fact("replications", f"{summary.replications} of {display.duration(summary.duration_s)}"),
            Fact("hosts", f"{len(system.hosts):,}"),
            Fact("operators", f"{len(system.operators):,}"),
            Fact("queries", f"{len(system.queries):,}"),
            *((Fact("counted from", display.duration(summary.warmup_s)),) if summary.warmup_s else ()),
            *((Fact("spare room is for", fleet.manager.spare),) if fleet.manager is not None else ()),
        ),
        headline=_headline(result),
        assumptions=(*_ASSUMPTIONS, *_inexact(result)),
        versions=versions(),
        seed=fleet.seed,
        command=command,
        sections=sections,
    )


def _inexact(result: FleetResult) -> tuple[str, ...]:
    why = result.found.exact_refused
    return (f"No exact figures stand beside the simulated ones: {why}.",) if why else ()


def _headline(result: FleetResult) -> tuple[Fact, ...]:
    """Return the facts: running queries, objectives kept, the worst query, moves, and hosts in use."""
    summary = result.found
    found = [_running(result)]
    slos = [one for one in summary.queries if one.slo is not None]
    if slos:
        # By the exact figure of the worst placement: the simulated share has bad and good luck in it.
        kept = sum(one.exact_worst is None or keeps(one.slo, one.exact_worst) for one in slos)
        whole = kept == len(slos)
        found.append(Fact("SLOs", f"{kept} of {len(slos)}", good=whole, note="kept by every placement"))
    worst = summary.queries[0]
    longest = f"{text.clip(worst.query, 24)}, at most {display.duration(worst.longest_s)}"
    found.append(Fact("worst query, broken", text.share(worst.broken_share), note=longest))
    refused = sum(one.count for one in summary.refused_for)
    moves = sum(one.count for one in summary.decisions if (one.action, one.verdict) == ("move", "done"))
    if result.system.fleet.manager is not None:
        found.append(Fact("moves", f"{moves:,}", note=f"{display.count(refused, 'change')} refused"))
        found.append(Fact("overloaded", display.duration(summary.overloaded_host_s), note="hosts, all replications"))
    used = summary.hosts_in_use
    cost = "" if used.cost_usd is None else f", {display.money(used.cost_usd)} USD"
    found.append(Fact("hosts in use", text.number(used.mean), note=f"on average{cost}"))
    return tuple(found)


def _running(result: FleetResult) -> Fact:
    """Return the share of queries that run, with as many digits as it takes to see what is missing."""
    mean = result.found.running.time_average
    if mean.mean is None:
        return Fact("queries that run", text.NONE)
    ends = mean.ci95
    note = "" if ends is None else f"95 %: {display.between(ends[0], ends[1], display.share, 4)}"
    return Fact("queries that run", display.share(mean.mean, 4), note=note)


def _order(result: FleetResult) -> list[str]:
    """Return queries by how near they come to their objectives, then by how often they are broken."""

    def used(one: QuerySummary) -> tuple[float, float]:
        slo, worst = one.slo, one.exact_worst or 0.0
        return (-worst / (1 - slo) if slo is not None and slo < 1 else 0.0, -worst)

    return [one.query for one in sorted(result.found.queries, key=used)]


def _slos(result: FleetResult) -> Section:
    drawn = fleet_figures.slo_figure(result.system, result.records[0], _order(result))
    words = (
        "The simulated share of time broken beside the exact P(broken) of placements, mean and worst. The budget used "
        "is the time broken by the time that the objective allows in as long a run."
    )
    return Section(
        "slo",
        "Availability objectives",
        "SLOs",
        words,
        figures=() if drawn is None else (drawn,),
        tables=(cut(queries_table(result.found)),),
    )


def _queries(result: FleetResult) -> Section:
    listed = fleet_figures.outages(result.system, result.records)
    return Section(
        "broken",
        "Who was there, and broken",
        "Broken",
        _of_first(result),
        figures=(fleet_figures.comings(result.records[0], result.system.queries),),
        tables=() if listed is None else (listed,),
    )


def _hosts(result: FleetResult) -> Section:
    """Return the section of hosts and instances over time, with overloads."""
    first = result.records[0]
    drawn = [fleet_figures.hosts(result.system, first)]
    if first.rows["instances"]:
        drawn.append(fleet_figures.numbers(result.system, first))
    listed = fleet_figures.overloads(result.records)
    return Section(
        "hosts",
        "Hosts and instances",
        "Hosts",
        _of_first(result),
        figures=tuple(drawn),
        tables=() if listed is None else (listed,),
    )


def _of_first(result: FleetResult) -> str:
    number = len(result.records)
    return f"Figures are of the first of {number} replications, tables of all." if number > 1 else ""


def _decisions(result: FleetResult) -> Section | None:
    """Return the section of decisions and refusals; None without any."""
    found = (
        decisions_table(result.found) if result.found.decisions else None,
        fleet_figures.refusals(result.records),
        fleet_figures.decisions(result.records[0]),
    )
    listed = tuple(one for one in found if one is not None)
    if not listed:
        return None
    words = "What was begun is done, refused or aborted later; some things are done at once."
    return Section("decisions", "What was decided, and refused", "Decisions", words, tables=listed)


def _cost(result: FleetResult) -> Section | None:
    """Return the section of cost; None for unpriced hosts that are all in use all the time."""
    priced = result.found.hosts_in_use.cost_usd is not None
    if not priced and result.system.fleet.manager is None:
        return None  # all hosts for all of the time
    words = "" if priced else "The file gives hosts no price: what they are in use for is counted instead."
    return Section("cost", "What it costs", "Cost", words, tables=(fleet_figures.cost(result.found),))
