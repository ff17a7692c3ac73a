"""What the report of a study shows beside that of its run: methods of allocation, their reasons, and assumptions."""

from __future__ import annotations

from analysis.report.content import AllocationRow, Correlation, Reason
from models.correlation import pearson
from models.workload import ProfileRate
from optimizer.reasons import reasons
from scenarios.group_loads import GroupLoads
from scenarios.planning import PlannedAllocation
from scenarios.study import Study, profiled_source

_SHOWN_REASONS = 6


def correlation(loads: GroupLoads) -> Correlation:
    """How the loads of key groups move together while plans are made."""
    blocks: dict[str, int] = {}
    for operator in loads.operators:
        blocks[operator] = blocks.get(operator, 0) + 1
    return Correlation(pearson(loads.load[:, : loads.training]), tuple(blocks.items()))


def allocation_row(one: PlannedAllocation, study: Study) -> AllocationRow:
    """What a method reached, in its plan and in its run."""
    assert one.plan.assignment is not None
    return AllocationRow(
        one.method,
        str(one.plan.status),
        one.plan.objective,
        one.plan.bound,
        one.plan.gap,
        one.useable.useable_share,
        one.useable.assisted_share,
        float(one.problem.node_loads(one.plan.assignment).max()),
        study.caught_up_s(one.method),
        study.runs[one.method].summary["latency_s"]["p99"],
        used=one.method == study.method,
    )


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
    weight = rate.mean_per_s * rate.span_s / study.profile.counts[0].sum()
    return (
        "One copy of the recorded volume: the year of flights is mapped onto the run, and each flight stands for "
        f"{weight:.2f} tuples.",
        "A tuple is late, or has been in the air, with the probability measured over the whole year; in the load "
        "statistics that plans are made of, each hour and key group has its own counts.",
        f"Correlations and loads come from the first {loads.training} of {loads.load.shape[1]} windows of "
        f"{loads.window_s:.3g} s; useable and assisted shares are judged on the rest, from the same placement in "
        f"every window, with a threshold of {scenario.elasticity.high:g}.",
        "A checkpoint is useable if its key group is on an overloaded host and would fit on the checkpoint's host. "
        "Key groups are not moved during the run: only the crash moves them.",
        "Operator 4 reads samples at a constant rate, whatever the load of the flights.",
    )
