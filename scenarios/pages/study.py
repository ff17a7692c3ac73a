"""The page of a study: that of its run, with methods of allocation, their reasons and designs beside it."""

from __future__ import annotations

from dataclasses import replace

from analysis.comparison import mean_over
from analysis.report import text
from analysis.report.content import AllocationRow, Correlation, KeyGroupLoad, Reason
from analysis.report.page import Fact, Page
from analysis.report.run_page import question
from analysis.report.sections import allocation_section, designs_section, load_section
from models import display
from models.correlation import pearson
from models.scenario.inputs import RunInputs
from models.scenario.workload import ProfileRate
from optimizer.common.reasons import reasons
from scenarios.pages.designs import DesignRuns, design_runs, designs
from scenarios.pages.run import run_page
from scenarios.planning.checkpoints import PlannedAllocation
from scenarios.planning.group_loads import GroupLoads
from scenarios.studies.findings import ASSISTED, P99, PAUSE, RECOVERY, USABLE, differences, replications_of
from scenarios.studies.study import Study, profiled_source

_SHOWN_REASONS = 6
_HEADLINE = (  # measure, what it is called, how it is written, whether more of it is better
    (USABLE, "usable checkpoints", text.share, True),
    (ASSISTED, "assisted moves", text.share, True),
    (PAUSE, "mean pause of a move", text.seconds, False),
    (P99, "99 % of tuples within", text.seconds, False),
)


def study_page(study: Study, inputs: RunInputs, *, command: str = "") -> Page:
    """Return the page of the study: that of the run in full, with profile, methods and designs beside it.

    `inputs` are those of the run in full, from which the topology and the rates come.
    """
    chosen = next((one for one in study.planned if one.method == study.method), study.planned[-1])
    page = run_page(study.run, inputs, command=command)
    profile = study.profile
    beside = headline(study)
    loads = [
        KeyGroupLoad(stream, profile.rebinned(24).counts[k], profile.bin_s * 24, profile.start)
        for k, stream in enumerate(profile.streams)
    ]
    compared_sections = (
        load_section(loads, correlation(study.loads)),
        allocation_section([allocation_row(one, study) for one in study.planned], chosen_reasons(chosen, study.loads)),
        designs_section(designs(compared(study))),
    )
    topology, *others = page.sections
    return replace(
        page,
        facts=(*facts(study), *(fact for fact in page.facts if fact.label != "replications")),
        headline=beside + (page.headline[-1:] if beside else page.headline),
        question=(
            f"{question(study.scenario)} Who should hold the checkpoints so that the key groups of a host in trouble "
            "have somewhere to go?"
        ),
        sections=[topology, *compared_sections, *others],
        assumptions=study_assumptions(study) + page.assumptions,
    )


def correlation(loads: GroupLoads) -> Correlation:
    """Return the correlation of the loads of key groups in the windows that plans are made from.

    Pearson's coefficient of the loads of each pair of key groups, over the windows of training; blocks are the
    operators.
    """
    blocks: dict[str, int] = {}
    for operator in loads.operators:
        blocks[operator] = blocks.get(operator, 0) + 1
    return Correlation(pearson(loads.load[:, : loads.training]), tuple(blocks.items()))


def allocation_row(one: PlannedAllocation, study: Study) -> AllocationRow:
    """Return what a method reached in its plan, and in the runs of its design if it has one.

    The shares of the plan are those on the profile alone; recovery and p99 latency are means over the runs, and None
    for a method without a design.
    """
    assert one.plan.assignment is not None
    design = study.design_of(one.method)
    worth = {} if design is None else replications_of(design)
    return AllocationRow(
        one.method,
        str(one.plan.status),
        one.plan.objective,
        one.plan.bound,
        one.plan.gap,
        one.usable.usable_share,
        one.usable.assisted_share,
        float(one.problem.node_loads(one.plan.assignment).max()),
        mean_over(worth, RECOVERY).mean,
        mean_over(worth, P99).mean,
        used=one.method == study.method,
    )


def facts(study: Study) -> tuple[Fact, ...]:
    """Return how much is compared, and which design the rest of the page is about."""
    other, runs = study.design_of(study.method), study.sweep.plan.scenario.replications
    shown = () if other is None else (Fact("shown in full", f"{other.label}, first run"),)
    return (Fact("compared", f"{len(study.designs)} designs, {runs} run{'s' if runs > 1 else ''} each"), *shown)


def headline(study: Study) -> tuple[Fact, ...]:
    """Return the results of the design of the run in full beside the first one; nothing where they are one."""
    first, other = study.designs[0], study.design_of(study.method)
    if other is None or other is first:
        return ()
    facts = []
    found = differences(study, first, other)
    for measure, label, written, more_is_better in _HEADLINE:
        one = found[measure]
        if one.first.mean is None or one.second.mean is None:
            continue
        # None for an unclear difference: it is marked neither good nor bad.
        better = {"higher": more_is_better, "lower": not more_is_better}.get(one.shown)
        unclear = " (may be chance)" if better is None and one.shown != "equal" else ""
        facts.append(
            Fact(label, written(one.second.mean), better, f"{first.label}: {written(one.first.mean)}{unclear}")
        )
    return tuple(facts)


def compared(study: Study) -> list[DesignRuns]:
    """Return the designs of the study, to be set beside each other."""
    failed = [row.point for row in study.sweep.failed]
    return [
        design_runs(
            one.label, one.allocation, one.protocol, [run.summary for run in one.runs], failed=failed.count(one.point)
        )
        for one in study.designs
    ]


def chosen_reasons(chosen: PlannedAllocation, loads: GroupLoads) -> tuple[Reason, ...]:
    """Return the choices with the most at stake: where the next best host would have cost most."""
    rows = [row for row in reasons(chosen.problem, chosen.plan) if row.alternatives]
    # The choices that matter most; equal ones by number, so that the page has the same bytes every time.
    rows.sort(key=lambda row: (-row.alternatives[0].costs_more, row.checkpoint))
    found = []
    for row in rows[:_SHOWN_REASONS]:
        operator, group = loads.names[row.checkpoint]
        why = "; ".join(f"{loads.hosts[other.node]}: {other.why_not}" for other in row.alternatives)
        found.append(Reason(f"{operator}[{group}]", loads.hosts[row.node], why))
    return tuple(found)


def study_assumptions(study: Study) -> tuple[str, ...]:
    """Return how the study maps the records onto a run."""
    scenario, loads = study.scenario, study.loads
    rate = scenario.workload[profiled_source(scenario)].rate
    assert isinstance(rate, ProfileRate)
    weight, copies = rate.mean_per_s * rate.span_s / study.profile.counts[0].sum(), study.profile.copies
    volume = "One copy" if copies == 1 else f"{copies} copies, each with key groups of its own,"
    known = f"the first {loads.training} of {loads.load.shape[1]} windows"
    if rate.begin_s:
        known = f"the {loads.training} windows before the run"
    return (
        f"{volume} of the recorded volume: the year of flights is mapped onto {display.duration(rate.span_s)}, and "
        f"each flight stands for {display.number(weight)} tuples. The run begins at {display.instant(rate.begin_s)} "
        f"and takes {display.duration(scenario.duration_s)}.",
        "A tuple is late, or has been in the air, with the probability measured over the whole year; in the load "
        "statistics that plans are made of, each hour and key group has its own counts.",
        f"Correlations and loads come from {known}, of {display.duration(loads.window_s)} each; usable and assisted "
        f"shares of a "
        "plan are judged on the rest, from the same placement in every window, with a threshold of "
        f"{display.number(scenario.elasticity.high, 6)}.",
        "A checkpoint is usable if its key group is on an overloaded host and would fit on the checkpoint's host."
        + ("" if scenario.migrates else " Key groups are not moved during the run: only a crash moves them."),
        "Operator 4 reads samples at a constant rate, whatever the load of the flights.",
    )
