"""The page of a run: its question, the facts asked and found, its sections, and the assumptions that matter for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from analysis.report import content as values
from analysis.report import lines_of_records as lines
from analysis.report import text
from analysis.report.checkpoint_sections import uploads_section
from analysis.report.figure import Section
from analysis.report.migration_sections import (
    cost_section,
    decisions_section,
    load_checks_section,
    migrations_section,
    placement_section,
    reconfigurations_section,
)
from analysis.report.page import Fact, Page
from analysis.report.rebalance_sections import rebalances_section
from analysis.report.sections import (
    Flow,
    ccdf_section,
    flow_section,
    guarantee_section,
    latency_section,
    memory_section,
    operators_section,
    recovery_section,
    replicas_section,
    targets_section,
    topology_section,
)
from analysis.runs.migration_kinds import classified
from analysis.runs.recovery_summary import PLANNED, RecoveryMean
from analysis.runs.run_summary import Guarantee, RunSummary
from models import display
from models.records.tables import RunRecords
from models.scenario.engine import Engine
from models.scenario.events import (
    ADJUSTMENT,
    Death,
    DriverFailure,
    HostJoin,
    HostRestart,
    Migrate,
    Rebalance,
    Reconfigure,
    Rescale,
    Timed,
    WorkerFailure,
)
from models.scenario.fault_tolerance import Detector
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import link_sharing
from models.topology import layout


def engine_assumptions(scenario: Scenario) -> tuple[str, ...]:
    """Return the assumptions of the simulator about what this scenario has, and those about the engine that it names.

    Each is one sentence of plain text, in which backticks mark keys of the scenario file. Assumptions about features
    that the scenario does not use are left out.
    """
    served, alone = list(scenario.operators.values()), "Tuples are served first come first served and"
    kinds, tolerance = {group.cpu for group in scenario.hosts.values()}, scenario.fault_tolerance
    warms_up = tolerance.changelogs is not None and tolerance.changelogs.warmups > 0
    # Each assumption with the condition under which it matters: a page names no model that the run does not use.
    found = [
        (kinds == {"dedicated"}, f"{alone} without interruption."),
        (
            "shared" in kinds,
            f"{alone} without interruption; on shared cores by priority, then in the order of arrival at the host.",
        ),
        ("processor-sharing" in kinds, "With processor sharing all services of a host go on at once, at equal pace."),
        (
            tolerance.takes_checkpoints and tolerance.snapshots.mode == "synchronous",
            "A snapshot is taken at one instant; where `serialise` is given, writing it keeps the task busy for that "
            "time.",
        ),
        (
            tolerance.takes_checkpoints and tolerance.snapshots.mode == "asynchronous",
            "A snapshot is taken at one instant, and written beside its task at the speed `serialise`.",
        ),
        (
            tolerance.trims_by_acks,
            "Upstream trims its outputs by acks alone. Tasks without state take no checkpoint, and begin again with "
            "what is not trimmed.",
        ),
        (
            tolerance.sources_replay,
            "No checkpoint is taken. A lost task and all tasks between it and the sources start empty, and sources "
            "send the history once more; what is older is lost.",
        ),
        (
            tolerance.replicates_all,
            "Everything between sources and sinks is processed on a second host as well, which answers as soon as a "
            "failure is detected. No checkpoint is taken; what has lost both instances starts empty.",
        ),
        (
            tolerance.kept_history is not None and not (tolerance.sources_replay or tolerance.replicates_all),
            "No checkpoint is taken. A lost task starts empty, and gets the history once more; what is older is lost.",
        ),
        (
            tolerance.method == "synchronous-checkpoints",
            "A failure rolls the whole job back; each key group or task comes back with its own newest checkpoint.",
        ),
        (
            tolerance.method == "region-restart",
            (
                "A failure rolls back all tasks of the job, and as many start again as are asked for, or have a slot; "
                if scenario.recovery.adapts
                else "A failure rolls back all tasks that are connected to a lost one, and as many start again once "
                "all have a slot; "
            )
            + (
                "they go back to the last checkpoint that all tasks have completed."
                if tolerance.job_checkpoints
                else "each key group or task comes back with its own newest checkpoint."
            ),
        ),
        (
            scenario.rescales_job,
            "Where the job gets other tasks all of them end, and start again from a checkpoint; operators without key "
            "groups never have more than at the start.",
        ),
        (
            tolerance.batches is not None,
            "Sources emit at a trigger what has arrived, and a batch is visible once all of it is stored. Tasks of an "
            "executor that dies are repeated inside the batch; with the driver the whole query starts again.",
        ),
        (
            scenario.workers.together,
            "The tasks of a host are one worker process, which starts again as a whole: where it was if its host "
            "lives, else on the host with the fewest workers. What is sent to it until then is lost, and the source "
            "emits it again where an acker misses it.",
        ),
        (
            tolerance.changelogs is not None,
            "Each key group commits on its own. What a dead host had goes on where a standby has it, else where its "
            "changelog is read, beside the tasks of the host that takes it.",
        ),
        (
            scenario.may_fail and tolerance.divides_groups and not tolerance.replicates_all,
            "Key groups of a dead host are divided among the live hosts, the one with the fewest key groups and tasks "
            f"first{'' if warms_up else '; nothing moves back afterwards'}.",
        ),
        (
            warms_up,
            "A host that joins, or is back as another member, gets key groups of others once it lacks little of their "
            "state; until then they stay where they are.",
        ),
        (
            scenario.may_fail
            and not scenario.workers.together
            and not (tolerance.divides_groups or tolerance.method in ("region-restart", "micro-batch")),
            "A key group of a dead host resumes on the host that holds its checkpoint, else on the live host with the "
            "fewest key groups and tasks; nothing moves back afterwards.",
        ),
        (
            scenario.may_fail,
            "Sources read a durable log: tuples that arrive while their host is down wait, and are not lost.",
        ),
        (
            any(operator.buffer for operator in served),
            "A task waits with all its services while an output of it finds no place; what arrives then waits at the "
            "source. That a place is free is known at once, without a message.",
        ),
        (
            scenario.rebalances,
            "A rebalance kills all tasks at one instant, but for sources and what is fixed; each worker has a time of "
            "its own until it is up. Shuffled tuples go to random tasks, not round robin.",
        ),
        (
            tolerance.acking is not None,
            "An ack arrives one latency after its tuple was processed. What windows and timers emit has no root, and "
            "is not emitted again.",
        ),
        (
            any(operator.window for operator in served),
            "The event time of a tuple is its creation time, and no tuple is late: sources send a watermark at regular "
            "instants. What a window emits is as old as its newest tuple of that key, from which latency counts.",
        ),
    ]
    return (*(said for holds, said in found if holds), *_of_engine(scenario.engine))


def _of_engine(engine: Engine | None) -> Iterator[str]:
    """Yield what of the engine that the scenario names is modelled, simplified or absent."""
    if engine is not None:
        for one in engine.behaviours:
            yield f"{engine.title}, {one.name.lower()}: {one.status.value}. {one.text}"


def recording_assumptions(records: Sequence[RunRecords]) -> tuple[str, ...]:
    """Return which numbers are not exact.

    A run that records histograms in place of rows reads quantiles from bins that are 0.8 % wide
    (`models.records.histogram`); all other figures are exact either way.
    """
    if all(one.detail == "tuples" for one in records):
        return ()
    return (
        "No row was kept for single tuples: quantiles are read from histograms and off by at most 0.4 %; counts, "
        "means, greatest values, queues and utilisation are exact.",
    )


_MOST_CRASHES = 5  # that the question names, and as many rebalances among the facts


def run_page(scenario: Scenario, inputs: RunInputs, summary: RunSummary, records: Sequence[RunRecords]) -> Page:
    """Return the page of a run, without versions and command.

    A pure function: it reads no file and no clock, so equal arguments give an equal page. `records` has one entry for
    each replication, in order; `summary` is that of all of them.
    """
    return Page(
        title=scenario.name or "A run",
        question=question(scenario),
        sections=run_sections(scenario, inputs, summary, records),
        facts=_facts(scenario),
        headline=_headline(summary, _promised(scenario)),
        assumptions=engine_assumptions(scenario) + recording_assumptions(records),
        seed=scenario.seed,
    )


def run_sections(
    scenario: Scenario, inputs: RunInputs, summary: RunSummary, records: Sequence[RunRecords]
) -> list[Section | None]:
    """Return the sections in the order of the page, of which the topology is the first; None for what is not there.

    Lines over time are those of the first replication.
    """
    first, recoveries = records[0], summary.recoveries
    decisions, migrations = values.decisions(records), classified(summary.migrations, records)
    operators, hosts = tuple(scenario.operators), tuple(layout.hosts(scenario))
    over_time = None if summary.memory is None else lines.memory(first)
    flow = Flow(
        lines.processed(first),
        lines.waiting(first),
        lines.lag(first),
        lines.filled(scenario, first),
        lines.blocked(scenario, first),
        lines.kept(scenario, first),
    )
    return [
        topology_section(values.topology(scenario, inputs)),
        latency_section(
            lines.latency(first), recoveries, migrations, decisions, summary.visible, summary.reconfigurations
        ),
        ccdf_section(lines.latency_ccdfs(records)),
        flow_section(flow, recoveries, operators),
        rebalances_section(summary.rebalances, lines.around_rebalances(scenario, first, summary.rebalances)),
        reconfigurations_section(summary.reconfigurations),
        memory_section(summary.memory, over_time, layout.host_group_names(scenario), recoveries),
        migrations_section(migrations, lines.hosts(scenario, first), recoveries, decisions, hosts),
        load_checks_section(values.load_checks(first)),
        placement_section(values.placement_change(scenario, first), operators),
        replicas_section(summary.replicas, summary.broken),
        uploads_section(
            summary.checkpoints,
            summary.network,
            bounded=any(group.network_bytes_per_s is not None for group in scenario.hosts.values()),
            over_time=lines.upload_delays(first),
            recoveries=recoveries,
            host_order=hosts,
        ),
        recovery_section(recoveries, summary.recovery_means, summary.engine, _planned(summary)),
        guarantee_section(_promised(scenario), summary.guarantee),
        targets_section(summary.targets),
        operators_section(summary.operators),
        decisions_section(decisions),
        cost_section(values.cost(scenario, summary, len(records)), values.hosts_used(first), recoveries),
    ]


def _promised(scenario: Scenario) -> str:
    """Return the guarantee of delivery, `none` without fault tolerance."""
    tolerance = scenario.fault_tolerance
    return tolerance.guarantee if tolerance.method != "none" else "none"


def _planned(summary: RunSummary) -> dict[str, Sequence[RecoveryMean]]:
    """Return the means of what has ended tasks on purpose, by kind."""
    return {"rescaling": summary.rescaling_means, "restart": summary.restart_means}


def question(scenario: Scenario) -> str:
    """Return the question that the page of a run answers.

    The most specific question wins: failures, then moves and elasticity, then the load alone.
    """
    crashes = [event for event in scenario.events.values() if isinstance(event, Death)]
    plans = [event for event in scenario.events.values() if isinstance(event, Reconfigure)]
    migrations = [
        event
        for event in scenario.events.values()
        if isinstance(event, (Migrate, Rescale)) or (isinstance(event, Reconfigure) and event.moves_each)
    ]
    if not crashes and scenario.migrates:
        protocols = dict.fromkeys(scenario.protocol_of(event) for event in migrations)
        if scenario.elasticity.policy == "operators":
            return "When do operators get more tasks, or fewer, and what does it cost?"
        if scenario.elasticity.policy != "none":
            return "What do key groups that move by themselves do about changing load, and what does it cost?"
        if scenario.rescales_job:
            return "How long is a job away that gets other tasks, and what is that made of?"
        if [*protocols] == [ADJUSTMENT]:
            return f"What does it cost to give an operator other tasks by {ADJUSTMENT}?"
        return f"What does it cost to move a key group by {', '.join(protocols)}?"
    strategies = dict.fromkeys(event.name_of_strategy for event in plans)
    if not crashes and strategies:
        return f"How long do tuples wait while key groups move in steps, {', '.join(strategies)}?"
    protocols = dict.fromkeys(event.protocol for event in scenario.events.values() if isinstance(event, Rebalance))
    stops = [event for event in scenario.events.values() if isinstance(event, HostRestart)]
    if not crashes and stops:
        return "How long are tasks away whose hosts stop on purpose, and what is that made of?"
    if not crashes and any(isinstance(event, HostJoin) for event in scenario.events.values()):
        return "When do key groups move to a host that joins, and what does it cost?"
    if not crashes and protocols:
        return f"How long is a dataflow away that is moved as a whole by {', '.join(protocols)}, and what is lost?"
    if not crashes:
        return "How long do tuples take, and how busy is each operator?"
    if len(crashes) > _MOST_CRASHES:
        return f"What happens if hosts die ({len(crashes):,} failures)?"
    dying = ", ".join(f"{_who(event)} {_when(event)}" for event in crashes)
    who = "the driver" if all(isinstance(event, DriverFailure) for event in crashes) else "a host"
    return f"What happens if {who} dies ({dying})?"


def _when(event: Timed) -> str:
    """Return when an event happens, in words."""
    if not event.laws:
        return f"at {display.instant(event.fixed_s, 6)}"
    if math.isinf(event.latest_s):
        after = f"after {display.instant(event.earliest_s, 6)}"
        return after if event.earliest_s else f"at {display.instant(event.mean_s, 6)} on average"
    first, last = display.instant(event.earliest_s, 6), display.instant(event.latest_s, 6)
    return f"at {first}" if first == last else f"between {first} and {last}"


def _who(event: Death) -> str:
    """Return who dies."""
    if isinstance(event, DriverFailure):
        return "the driver"
    return f"the workers of {event.host}" if isinstance(event, WorkerFailure) else event.host


def _resolution(scenario: Scenario) -> tuple[Fact, ...]:
    """Return for how many records a simulated one stands, where it is not one."""
    w = scenario.resolution
    return (Fact("resolution", f"one simulated record stands for {display.count(w)}"),) if w > 1 else ()


def _facts(scenario: Scenario) -> tuple[Fact, ...]:
    """Return the facts of the scenario that matter for reading the results."""
    tolerance, warmup = scenario.fault_tolerance, scenario.warmup_s
    hosts = layout.hosts(scenario)
    facts = [] if scenario.engine is None else [Fact("engine", scenario.engine.title)]
    facts += [
        Fact(
            "simulated time",
            display.duration(scenario.duration_s, 6) + (f", warm-up {display.duration(warmup, 6)}" if warmup else ""),
        ),
        Fact("replications", str(scenario.replications)),
        *_resolution(scenario),
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
    if tolerance.takes_checkpoints:
        facts.append(
            Fact(
                "checkpoints",
                f"{tolerance.kind}, every {display.duration(tolerance.interval_s, 6)}, {tolerance.guarantee}",
            )
        )
        trimming = tolerance.acked_slices
        if trimming is not None:
            text = f"every {display.duration(trimming.every_s, 6)}, {trimming.levels} levels, {trimming.reading}"
            facts.append(Fact("rounds of acks", text))
        kept = tolerance.maintenance
        if kept is not None:
            times = f"from {display.instant(kept.begin_s)} on every {display.duration(kept.every_s)}"
            text = f"{kept.method}, {times}, theta {display.exact(kept.theta)}"
            facts.append(Fact("maintenance of the allocation", text))
    elif tolerance.replicates_all:
        facts.append(Fact("fault tolerance", "a replica of every task"))
    elif tolerance.kept_history is not None:
        length = display.duration(tolerance.kept_history.length_s, 6)
        name = "source backup" if tolerance.sources_replay else "upstream backup"
        facts.append(Fact(name, f"the outputs of {length}, {tolerance.guarantee}"))
    elif tolerance.acking is not None:
        acker = tolerance.acking
        limit = f", at most {acker.pending:,} pending" if acker.pending else ""
        timeout = f"{acker.expiry} time-out of {display.duration(acker.timeout_s, 6)}"
        facts.append(Fact("acker", f"{timeout}, {acker.acks} acks{limit}"))
    else:
        facts.append(Fact("fault tolerance", tolerance.method))
    facts += [
        Fact("rebalance", f"{_when(one).removeprefix('at ')}, by {one.protocol}, to {', '.join(one.hosts)}")
        for one in scenario.events.values()
        if isinstance(one, Rebalance)
    ][:_MOST_CRASHES]
    if any(group.price_per_s for group in hosts.values()):
        per_hour = sum((group.price_per_s or 0.0) * 3600 for group in hosts.values())
        facts.append(Fact("price of the cluster", f"{display.money(per_hour)} USD/h"))
    return tuple(facts)


def _headline(summary: RunSummary, promised: str) -> tuple[Fact, ...]:
    """Return the results at the top: latency, the slowest recovery, the longest pause, cost, what was lost."""
    latency, guarantee = summary.latency_s, summary.guarantee
    facts = [
        Fact("median latency", _seconds(latency.p50)),
        Fact("99 % of tuples within", _seconds(latency.p99)),
    ]
    if summary.visible is not None:
        facts.append(Fact("99 % of tuples visible within", _seconds(summary.visible.latency_s.p99)))
    # The slowest that ended; if none did, the page says so in place of a number.
    for what in ("failure", *PLANNED.values()):
        found = [one.total_s for one in summary.recoveries if one.kind == what]
        totals = [total for total in found if total is not None]
        if totals:
            facts.append(Fact(f"{what} to caught up", _seconds(max(totals))))
        elif found:
            facts.append(Fact(f"{what} to caught up", "not within the run", good=False))
    pauses = [one.pause_s for one in summary.migrations if one.pause_s is not None]
    if pauses:
        facts.append(Fact(f"longest pause of {len(pauses):,} moves", _seconds(max(pauses))))
    restored = [one.restore_s for one in summary.rebalances if one.restore_s is not None]
    if restored:
        facts.append(Fact("rebalance to first output", _seconds(max(restored))))
    if summary.hosts.cost_usd is not None:
        per_hour = summary.hosts.cost_usd / summary.duration_s * 3600
        facts.append(Fact("cost", f"{text.number(per_hour)} USD/h"))
    if guarantee.lost is not None:
        facts.append(_lost_or_duplicated(guarantee, promised))
    return tuple(facts)


def _lost_or_duplicated(counts: Guarantee, promised: str) -> Fact:
    """Return how many tuples were lost or duplicated, and whether the guarantee allows it."""
    lost, twice = (
        sum(value or 0 for value in (here, there)) for here, there in (counts.counts[::2], counts.counts[1::2])
    )
    wrong = {"at-least-once": lost, "at-most-once": twice}.get(promised, lost + twice)
    note = f"{promised}: {'duplicates' if twice else 'losses'} may be" if lost + twice and not wrong else ""
    return Fact("tuples lost or duplicated", f"{lost + twice:,}", note=note, good=wrong == 0)


def _detector(detector: Detector) -> str:
    lost = f", {display.share(detector.loss)} of heartbeats lost" if detector.loss else ""
    late = f", {_seconds(detector.delay.mean_s)} late on average" if detector.delay else ""
    calls = detector.failed_calls
    refused = f" or {display.count(calls, 'heartbeat')} refused" if calls else ""
    noticed = detector.connection_s
    broken = f"; connections break after {_seconds(noticed)}" if noticed is not None else ""
    looks = "" if detector.check_s is None else f", looked at every {_seconds(detector.check_s)}"
    return f"silent for {display.duration(detector.timeout_s, 6)}{looks}{refused}{lost}{late}{broken}"


def _seconds(value: float | None) -> str:
    return "none" if value is None else text.seconds(value)
