"""What a report shows of a run or a study: results turned into the plain values of `analysis.report`."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from analysis.comparison import mean_over
from analysis.report import text
from analysis.report.content import (
    AllocationRow,
    Correlation,
    Decision,
    Edge,
    Fact,
    Guarantee,
    KeyGroupLoad,
    Migration,
    OperatorBox,
    OperatorRow,
    Reason,
    Recovery,
    ReportContent,
    TargetRow,
    Topology,
)
from models import layout
from models.correlation import pearson
from models.events import HostFailure, Migrate, Rescale
from models.fault_tolerance import Detector
from models.flow import copies, flows
from models.inputs import RunInputs
from models.records import RunRecords
from models.scenario import Scenario
from models.workload import ProfileRate
from optimizer.reasons import reasons
from scenarios import report_lines
from scenarios.group_loads import GroupLoads
from scenarios.planning import PlannedAllocation
from scenarios.runs import RunResult
from scenarios.study import Study, profiled_source
from scenarios.study_findings import P99, RECOVERY, replications_of

_LIBRARIES = ("numpy", "simpy", "scipy", "ortools", "pyspark", "pyarrow", "pydantic")
_SHOWN_REASONS = 6


def run_content(result: RunResult, inputs: RunInputs, *, command: str = "") -> ReportContent:
    """The page of one run: what was asked, topology, latency, recoveries, guarantee, operators."""
    scenario, summary, records = result.scenario, result.summary, result.records
    return ReportContent(
        title=scenario.name or "A run",
        question=_question(scenario),
        facts=_facts(scenario),
        headline=_headline(summary),
        topology=_topology(scenario, inputs),
        latency=report_lines.latency(records[0]),
        throughput=report_lines.processed(records[0]),
        queue=report_lines.waiting(records[0]),
        lag=report_lines.lag(records[0]),
        filled=report_lines.filled(scenario, records[0]),
        blocked=report_lines.blocked(scenario, records[0]),
        hosts=report_lines.hosts(scenario, records[0]),
        migrations=_migrations(summary),
        decisions=_decisions(records) if scenario.migrates else (),
        recoveries=_recoveries(summary),
        guarantee=_guarantee(scenario, summary),
        targets=_targets(summary),
        operators=_operators(summary),
        assumptions=_engine_assumptions(scenario) + _recording_assumptions(records),
        versions=_versions(),
        seed=scenario.seed,
        command=command,
    )


def study_content(study: Study, inputs: RunInputs, *, command: str = "") -> ReportContent:
    """The page of the study: that of the scenario's own method, with the profile and all methods beside it."""
    chosen = next((one for one in study.planned if one.method == study.method), study.planned[-1])
    page = run_content(study.run, inputs, command=command)
    profile = study.profile
    return replace(
        page,
        question=(
            f"{_question(study.scenario)} Who should hold the checkpoints so that the key groups of a host in trouble "
            "have somewhere to go?"
        ),
        loads=tuple(
            KeyGroupLoad(stream, profile.rebinned(24).counts[k], profile.bin_s * 24, profile.start)
            for k, stream in enumerate(profile.streams)
        ),
        correlation=_correlation(study.loads),
        allocation=tuple(_allocation_row(one, study) for one in study.planned),
        reasons=_reasons(chosen, study.loads),
        assumptions=_study_assumptions(study) + page.assumptions,
    )


def _engine_assumptions(scenario: Scenario) -> tuple[str, ...]:
    """What the engine takes for granted, of what this scenario has."""
    served, alone = list(scenario.operators.values()), "Tuples are served first come first served and"
    kinds = {group.cpu for group in scenario.hosts.values()}
    found = [
        (kinds == {"dedicated"}, f"{alone} without interruption."),
        (
            "shared" in kinds,
            f"{alone} without interruption; on shared cores by priority, then in the order of arrival at the host.",
        ),
        ("processor-sharing" in kinds, "With processor sharing all services of a host go on at once, at equal pace."),
        (
            scenario.fault_tolerance.method == "checkpoint",
            "A snapshot is taken at one instant; where `serialise` is given, writing it keeps the task busy for that "
            "time.",
        ),
        (
            scenario.may_fail,
            "A key group of a dead host resumes on the host that holds its checkpoint, else on the live host with the "
            "fewest key groups and tasks; nothing moves back afterwards.",
        ),
        (
            scenario.may_fail,
            "Sources read a durable log: tuples that are born while their host is down wait, and are not lost.",
        ),
        (
            any(operator.buffer for operator in served),
            "A task waits with all its services while an output of it finds no place; what is born then waits at the "
            "source. That a place is free is known at once, without a message.",
        ),
        (
            any(operator.window for operator in served),
            "The event time of a tuple is its birth, and no tuple is late: sources send a watermark at regular "
            "instants. What a window emits has the birth of its newest tuple of that key, from which latency counts.",
        ),
    ]
    return tuple(said for holds, said in found if holds)


def _recording_assumptions(records: Sequence[RunRecords]) -> tuple[str, ...]:
    if all(one.detail == "tuples" for one in records):
        return ()
    return (
        "No row was kept for single tuples: quantiles are read from histograms and off by at most 0.4 %; counts, "
        "means, greatest values, queues and utilisation are exact.",
    )


def _question(scenario: Scenario) -> str:
    crashes = [event for event in scenario.events.values() if isinstance(event, HostFailure)]
    moves = [event for event in scenario.events.values() if isinstance(event, (Migrate, Rescale))]
    if not crashes and scenario.migrates:
        protocols = dict.fromkeys(event.protocol for event in moves)
        if scenario.elasticity.policy != "none":
            return "What do key groups that move by themselves do about changing load, and what does it cost?"
        return f"What does it cost to move a key group by {', '.join(protocols)}?"
    if not crashes:
        return "How long do tuples take, and how busy is each operator?"
    hosts = ", ".join(f"{event.host} at {event.at_s:g} s" for event in crashes)
    return f"What happens if a host dies ({hosts})?"


def _facts(scenario: Scenario) -> tuple[Fact, ...]:
    tolerance, warmup = scenario.fault_tolerance, scenario.warmup_s
    hosts = layout.hosts(scenario)
    facts = [
        Fact("simulated time", f"{scenario.duration_s:g} s" + (f", warm-up {warmup:g} s" if warmup else "")),
        Fact("replications", str(scenario.replications)),
        Fact("hosts", ", ".join(f"{group.count} {name}" for name, group in scenario.hosts.items())),
        Fact("operators", str(len(scenario.operators))),
    ]
    if scenario.may_fail:
        facts.append(Fact("detector", _detector(scenario.detector)))
    bounds = [f"{name} {operator.buffer}" for name, operator in scenario.operators.items() if operator.buffer]
    if bounds:
        facts.append(Fact("places per queue", ", ".join(bounds)))
    if tolerance.method == "checkpoint":
        facts.append(Fact("checkpoints", f"{tolerance.kind}, every {tolerance.interval_s:g} s, {tolerance.guarantee}"))
    else:
        facts.append(Fact("fault tolerance", tolerance.method))
    if any(group.price_per_s for group in hosts.values()):
        per_hour = sum((group.price_per_s or 0.0) * 3600 for group in hosts.values())
        facts.append(Fact("price of the cluster", f"{per_hour:.2f} USD/h"))
    return tuple(facts)


def _headline(summary: Mapping[str, Any]) -> tuple[Fact, ...]:
    latency, guarantee = summary["latency_s"], summary["guarantee"]
    facts = [
        Fact("median latency", _seconds(latency["p50"])),
        Fact("99 % of tuples within", _seconds(latency["p99"])),
    ]
    totals = [one["total_s"] for one in summary["recoveries"] if one["total_s"] is not None]
    if totals:
        facts.append(Fact("failure to caught up", _seconds(max(totals))))
    if summary["recoveries"] and not totals:
        facts.append(Fact("failure to caught up", "not within the run", good=False))
    if guarantee["lost"] is not None:
        wrong = sum(value or 0 for value in guarantee.values())
        facts.append(Fact("tuples lost or duplicated", f"{wrong:,}", good=wrong == 0))
    return tuple(facts)


def _topology(scenario: Scenario, inputs: RunInputs) -> Topology:
    rates = flows(scenario, inputs)
    boxes = tuple(
        OperatorBox(name, operator.kind, operator.parallelism, operator.groups if operator.keyed else None)
        for name, operator in scenario.operators.items()
    )
    edges = tuple(
        Edge(
            upstream,
            name,
            partitioning,
            rates[upstream].rate_out.mean_per_s * copies(scenario, upstream, name, inputs),
        )
        for name, operator in scenario.operators.items()
        for upstream, partitioning in operator.inputs.items()
    )
    placed: dict[str, tuple[str, ...]] = dict.fromkeys(layout.hosts(scenario), ())
    for task, host in layout.placement(scenario).items():
        placed[host] += (task,)
    return Topology(boxes, edges, placed)


def _detector(detector: Detector) -> str:
    lost = f", {100 * detector.loss:.3g} % of heartbeats lost" if detector.loss else ""
    late = f", {_seconds(detector.delay.mean_s)} late on average" if detector.delay else ""
    return f"silent for {detector.timeout_s:g} s{lost}{late}"


def _migrations(summary: Mapping[str, Any]) -> tuple[Migration, ...]:
    keys = ("protocol", "requested_s", "pause_s", "completion_s", "worst_s", "replayed", "replication", "cause")
    return tuple(
        Migration(
            key_group=f"{one['operator']}[{one['key_group']}]",
            origin=one["from"],
            target=one["to"],
            **{key: one[key] for key in keys},
        )
        for one in summary["migrations"]
    )


def _decisions(records: Sequence[RunRecords]) -> tuple[Decision, ...]:
    """What was decided about moves and hosts; not who holds a checkpoint."""
    return tuple(
        Decision(at / 1e9, what, why, one.replication)
        for one in records
        for at, what, why in zip(
            *(one.tables["decisions"][name].tolist() for name in ("at_ns", "what", "why")), strict=True
        )
        if not what.startswith("checkpoints of ")
    )


def _recoveries(summary: Mapping[str, Any]) -> tuple[Recovery, ...]:
    keys = ("host", "failed_s", "detect_s", "restore_s", "replay_s", "catch_up_s", "total_s")
    return tuple(
        Recovery(
            **{key: one[key] for key in keys},
            replication=one["replication"],
            suspected=one["cause"] == "suspicion",
        )
        for one in summary["recoveries"]
    )


def _guarantee(scenario: Scenario, summary: Mapping[str, Any]) -> Guarantee:
    tolerance = scenario.fault_tolerance
    promise = tolerance.guarantee if tolerance.method == "checkpoint" else "none"
    counts = summary["guarantee"]
    return Guarantee(promise, *(counts[key] for key in ("lost", "duplicated", "state_lost", "state_duplicated")))


def _targets(summary: Mapping[str, Any]) -> tuple[TargetRow, ...]:
    def said(name: str, value: float | None) -> str:
        if value is None:
            return "–"
        if name.endswith("_s"):
            return _seconds(value)
        return f"{100 * value:.3g} %" if name == "utilisation" else f"{value:g}"

    return tuple(
        TargetRow(
            name.removesuffix("_s").replace("_", " "), said(name, one["limit"]), said(name, one["value"]), one["met"]
        )
        for name, one in (summary["targets"] or {}).items()
    )


def _operators(summary: Mapping[str, Any]) -> tuple[OperatorRow, ...]:
    return tuple(
        OperatorRow(
            name,
            one["processed"],
            one["wait_s"]["mean"],
            one["wait_s"]["p99"],
            one["sojourn_s"]["mean"],
            one["sojourn_s"]["p99"],
            one["queue_mean"],
            one["utilisation"],
        )
        for name, one in summary["operators"].items()
    )


def _correlation(loads: GroupLoads) -> Correlation:
    blocks: dict[str, int] = {}
    for operator in loads.operators:
        blocks[operator] = blocks.get(operator, 0) + 1
    return Correlation(pearson(loads.load[:, : loads.training]), tuple(blocks.items()))


def _allocation_row(one: PlannedAllocation, study: Study) -> AllocationRow:
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


def _reasons(chosen: PlannedAllocation, loads: GroupLoads) -> tuple[Reason, ...]:
    """The choices with the most at stake: where the next best host would have cost most."""
    rows = [row for row in reasons(chosen.problem, chosen.plan) if row.alternatives]
    rows.sort(key=lambda row: (-row.alternatives[0].costs_more, row.checkpoint))
    found = []
    for row in rows[:_SHOWN_REASONS]:
        operator, group = loads.names[row.checkpoint]
        why = "; ".join(f"{loads.hosts[other.node]}: {other.why_not}" for other in row.alternatives)
        found.append(Reason(f"{operator}[{group}]", loads.hosts[row.node], why))
    return tuple(found)


def _study_assumptions(study: Study) -> tuple[str, ...]:
    scenario, loads = study.scenario, study.loads
    rate = scenario.workload[profiled_source(scenario)].rate
    assert isinstance(rate, ProfileRate)
    weight, copies = rate.mean_per_s * rate.span_s / study.profile.counts[0].sum(), study.profile.copies
    volume = "One copy" if copies == 1 else f"{copies} copies, each with other key groups,"
    known = f"the first {loads.training} of {loads.load.shape[1]} windows"
    if rate.begin_s:
        known = f"the {loads.training} windows before the run"
    return (
        f"{volume} of the recorded volume: the year of flights is mapped onto {rate.span_s:g} s, and each flight "
        f"stands for {weight:.2f} tuples. The run begins at {rate.begin_s:g} s and takes {scenario.duration_s:g} s.",
        "A tuple is late, or has been in the air, with the probability measured over the whole year; in the load "
        "statistics that plans are made of, each hour and key group has its own counts.",
        f"Correlations and loads come from {known}, of {loads.window_s:.3g} s each; useable and assisted shares of a "
        "plan are judged on the rest, from the same placement in every window, with a threshold of "
        f"{scenario.elasticity.high:g}.",
        "A checkpoint is useable if its key group is on an overloaded host and would fit on the checkpoint's host."
        + ("" if scenario.migrates else " Key groups are not moved during the run: only a crash moves them."),
        "Operator 4 reads samples at a constant rate, whatever the load of the flights.",
    )


def _seconds(value: float | None) -> str:
    return "none" if value is None else text.seconds(value)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "holdfast": importlib.metadata.version("holdfast")}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
