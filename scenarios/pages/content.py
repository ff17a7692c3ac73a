"""What a report shows of a run or a study: results turned into the plain values of `analysis.report`."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import replace

from analysis.report import text
from analysis.report.content import Edge, Fact, KeyGroupLoad, OperatorBox, ReportContent, Topology
from analysis.runs.run_summary import RunSummary
from models import display
from models.scenario.events import HostFailure, Migrate, Rescale
from models.scenario.fault_tolerance import Detector
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import link_sharing
from models.steady_state.flow import copies, flows
from models.topology import layout
from scenarios.pages import cost, lines, rows, uploads
from scenarios.pages import moves as moves_page
from scenarios.pages import study as study_page
from scenarios.pages.assumptions import engine_assumptions, recording_assumptions
from scenarios.pages.designs import designs
from scenarios.runs.run import RunResult
from scenarios.studies.study import Study

_MOST_CRASHES = 5  # that the question names
_LIBRARIES = ("numpy", "simpy", "scipy", "ortools", "pyspark", "pyarrow", "pydantic")


def run_content(result: RunResult, inputs: RunInputs, *, command: str = "") -> ReportContent:
    """The page of one run: what was asked, topology, latency, recoveries, guarantee, operators."""
    scenario, summary, records = result.scenario, result.typed_summary, result.records
    first = records[0]
    moves = rows.migrations(summary, records)
    return ReportContent(
        title=scenario.name or "A run",
        question=_question(scenario),
        facts=_facts(scenario),
        headline=_headline(summary),
        topology=_topology(scenario, inputs),
        latency=lines.latency(first),
        latency_ccdfs=lines.latency_ccdfs(records),
        throughput=lines.processed(first),
        queue=lines.waiting(first),
        lag=lines.lag(first),
        filled=lines.filled(scenario, first),
        blocked=lines.blocked(scenario, first),
        hosts=lines.hosts(scenario, first),
        migrations=moves,
        move_kinds=moves_page.move_kinds(moves),
        load_checks=moves_page.load_checks(first),
        moved=moves_page.moved(scenario, first),
        decisions=rows.decisions(records),
        cost=cost.cost(scenario, summary, len(records)),
        hosts_used=cost.hosts_used(first),
        uploads=uploads.uploads(scenario, summary, first),
        recoveries=rows.recoveries(summary),
        replicas=rows.replicas(summary),
        replicas_said=rows.replicas_said(summary),
        guarantee=rows.guarantee(scenario, summary),
        targets=rows.targets(summary),
        operators=rows.operators(summary),
        assumptions=engine_assumptions(scenario) + recording_assumptions(records),
        versions=versions(),
        seed=scenario.seed,
        command=command,
    )


def study_content(study: Study, inputs: RunInputs, *, command: str = "") -> ReportContent:
    """The page of the study: that of the scenario's own method, with the profile, all methods and designs beside it."""
    chosen = next((one for one in study.planned if one.method == study.method), study.planned[-1])
    page = run_content(study.run, inputs, command=command)
    profile = study.profile
    compared = study_page.headline(study)
    return replace(
        page,
        facts=(*study_page.facts(study), *(fact for fact in page.facts if fact.label != "replications")),
        headline=compared + (page.headline[-1:] if compared else page.headline),
        question=(
            f"{_question(study.scenario)} Who should hold the checkpoints so that the key groups of a host in trouble "
            "have somewhere to go?"
        ),
        loads=tuple(
            KeyGroupLoad(stream, profile.rebinned(24).counts[k], profile.bin_s * 24, profile.start)
            for k, stream in enumerate(profile.streams)
        ),
        correlation=study_page.correlation(study.loads),
        allocation=tuple(study_page.allocation_row(one, study) for one in study.planned),
        reasons=study_page.chosen_reasons(chosen, study.loads),
        designs=designs(study_page.compared(study)),
        assumptions=study_page.study_assumptions(study) + page.assumptions,
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
    if len(crashes) > _MOST_CRASHES:
        return f"What happens if hosts die ({len(crashes):,} failures)?"
    hosts = ", ".join(f"{event.host} at {display.instant(event.at_s, 6)}" for event in crashes)
    return f"What happens if a host dies ({hosts})?"


def _facts(scenario: Scenario) -> tuple[Fact, ...]:
    tolerance, warmup = scenario.fault_tolerance, scenario.warmup_s
    hosts = layout.hosts(scenario)
    facts = [
        Fact(
            "simulated time",
            display.duration(scenario.duration_s, 6) + (f", warm-up {display.duration(warmup, 6)}" if warmup else ""),
        ),
        Fact("replications", str(scenario.replications)),
        Fact("hosts", ", ".join(f"{group.count} {name}" for name, group in scenario.hosts.items())),
        Fact("operators", str(len(scenario.operators))),
    ]
    if any(group.network_bytes_per_s is not None for group in hosts.values()):
        facts.append(Fact("links", str(link_sharing(scenario))))
    if scenario.may_fail:
        facts.append(Fact("detector", _detector(scenario.detector)))
    bounds = [f"{name} {operator.buffer}" for name, operator in scenario.operators.items() if operator.buffer]
    if bounds:
        facts.append(Fact("places per queue", ", ".join(bounds)))
    if tolerance.method == "checkpoint":
        facts.append(
            Fact(
                "checkpoints",
                f"{tolerance.kind}, every {display.duration(tolerance.interval_s, 6)}, {tolerance.guarantee}",
            )
        )
        kept = tolerance.maintenance
        if kept is not None:
            times = f"from {display.instant(kept.begin_s)} on every {display.duration(kept.every_s)}"
            text = f"{kept.method}, {times}, theta {display.exact(kept.theta)}"
            facts.append(Fact("maintenance of the allocation", text))
    else:
        facts.append(Fact("fault tolerance", tolerance.method))
    if any(group.price_per_s for group in hosts.values()):
        per_hour = sum((group.price_per_s or 0.0) * 3600 for group in hosts.values())
        facts.append(Fact("price of the cluster", f"{display.money(per_hour)} USD/h"))
    return tuple(facts)


def _headline(summary: RunSummary) -> tuple[Fact, ...]:
    latency, guarantee = summary.latency_s, summary.guarantee
    facts = [
        Fact("median latency", _seconds(latency.p50)),
        Fact("99 % of tuples within", _seconds(latency.p99)),
    ]
    totals = [one.total_s for one in summary.recoveries if one.total_s is not None]
    if totals:
        facts.append(Fact("failure to caught up", _seconds(max(totals))))
    if summary.recoveries and not totals:
        facts.append(Fact("failure to caught up", "not within the run", good=False))
    pauses = [one.pause_s for one in summary.migrations if one.pause_s is not None]
    if pauses:
        facts.append(Fact(f"longest pause of {len(pauses):,} moves", _seconds(max(pauses))))
    if summary.hosts.cost_usd is not None:
        per_hour = summary.hosts.cost_usd / summary.duration_s * 3600
        facts.append(Fact("cost", f"{text.number(per_hour)} USD/h"))
    if guarantee.lost is not None:
        wrong = sum(value or 0 for value in guarantee.counts)
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
    lost = f", {display.share(detector.loss)} of heartbeats lost" if detector.loss else ""
    late = f", {_seconds(detector.delay.mean_s)} late on average" if detector.delay else ""
    return f"silent for {display.duration(detector.timeout_s, 6)}{lost}{late}"


def _seconds(value: float | None) -> str:
    return "none" if value is None else text.seconds(value)


def versions() -> dict[str, str]:
    """What the page was made with."""
    found = {"python": platform.python_version(), "holdfast": importlib.metadata.version("holdfast")}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
