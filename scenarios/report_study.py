"""What the report of a study shows beside that of its run: methods of allocation, their reasons, and assumptions."""

from __future__ import annotations

from analysis.comparison import mean_over
from analysis.report.content import AllocationRow, Correlation, Reason
from models.correlation import pearson
from models.workload import ProfileRate
from optimizer.reasons import reasons
from scenarios.group_loads import GroupLoads
from scenarios.planning import PlannedAllocation
from scenarios.report_designs import DesignRuns, design_runs
from scenarios.study import Study, profiled_source
from scenarios.study_findings import P99, RECOVERY, replications_of

_SHOWN_REASONS = 6


def correlation(loads: GroupLoads) -> Correlation:
    """How the loads of key groups move together while plans are made."""
    blocks: dict[str, int] = {}
    for operator in loads.operators:
        blocks[operator] = blocks.get(operator, 0) + 1
    return Correlation(pearson(loads.load[:, : loads.training]), tuple(blocks.items()))


def allocation_row(one: PlannedAllocation, study: Study) -> AllocationRow:
    """What a method reached, in its plan and in the runs of its design, where it has one."""
    assert one.plan.assignment is not None
    design = study.design_of(one.method)
    worth = {} if design is None else replications_of(design)
    return AllocationRow(
        one.method,
        str(one.plan.status),
        one.plan.objective,
        one.plan.bound,
        one.plan.gap,
        one.useable.useable_share,
        one.useable.assisted_share,
        float(one.problem.node_loads(one.plan.assignment).max()),
        mean_over(worth, RECOVERY).mean,
        mean_over(worth, P99).mean,
        used=one.method == study.method,
    )


def compared(study: Study) -> list[DesignRuns]:
    """The designs of the study, to be set beside each other."""
    failed = [row.point for row in study.sweep.failed]
    return [
        design_runs(
            one.label, one.allocation, one.protocol, [run.summary for run in one.runs], failed=failed.count(one.point)
        )
        for one in study.designs
    ]


def chosen_reasons(chosen: PlannedAllocation, loads: GroupLoads) -> tuple[Reason, ...]:
    """The choices with the most at stake: where the next best host would have cost most."""
    rows = [row for row in reasons(chosen.problem, chosen.plan) if row.alternatives]
    rows.sort(key=lambda row: (-row.alternatives[0].costs_more, row.checkpoint))
    found = []
    for row in rows[:_SHOWN_REASONS]:
        operator, group = loads.names[row.checkpoint]
        why = "; ".join(f"{loads.hosts[other.node]}: {other.why_not}" for other in row.alternatives)
        found.append(Reason(f"{operator}[{group}]", loads.hosts[row.node], why))
    return tuple(found)


def study_assumptions(study: Study) -> tuple[str, ...]:
    """How the study maps the records onto a run."""
    scenario, loads = study.scenario, study.loads
    rate = scenario.workload[profiled_source(scenario)].rate
    assert isinstance(rate, ProfileRate)
    weight, copies = rate.mean_per_s * rate.span_s / study.profile.counts[0].sum(), study.profile.copies
    volume = "One copy" if copies == 1 else f"{copies} copies, each with key groups of its own,"
    known = f"the first {loads.training} of {loads.load.shape[1]} windows"
    if rate.begin_s:
        known = f"the {loads.training} windows before the run"
    return (
        f"{volume} of the recorded volume: the year of flights is mapped onto {rate.span_s:g} s, and each flight "
        f"stands for {weight:.3g} tuples. The run begins at {rate.begin_s:g} s and takes {scenario.duration_s:g} s.",
        "A tuple is late, or has been in the air, with the probability measured over the whole year; in the load "
        "statistics that plans are made of, each hour and key group has its own counts.",
        f"Correlations and loads come from {known}, of {loads.window_s:.3g} s each; useable and assisted shares of a "
        "plan are judged on the rest, from the same placement in every window, with a threshold of "
        f"{scenario.elasticity.high:g}.",
        "A checkpoint is useable if its key group is on an overloaded host and would fit on the checkpoint's host."
        + ("" if scenario.migrates else " Key groups are not moved during the run: only a crash moves them."),
        "Operator 4 reads samples at a constant rate, whatever the load of the flights.",
    )
