"""Rows of a report's tables, from the summary and the records of a run."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report import text
from analysis.report.content import Decision, Guarantee, Migration, OperatorRow, Recovery, ReplicaRow, TargetRow
from analysis.runs.move_kinds import move_kinds
from analysis.runs.run_summary import RunSummary
from models import display
from models.records.decisions import Action, sentence
from models.records.decisions import decisions as made_decisions
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario

_ABOUT: dict[str, str] = {
    Action.RESTORE: "recovery",
    Action.LOSE_STATE: "recovery",
    Action.FAIL: "recovery",
    Action.FENCE: "recovery",
    Action.MOVE: "moves",
    Action.USE_DIRECT: "moves",
    Action.RESCALE: "parallelism",
    Action.STORE: "checkpoint hosts",
    Action.REALLOCATE: "checkpoint hosts",
    Action.COMPARE: "checkpoint hosts",
    Action.ADD_REPLICA: "replicas",
    Action.LOSE_REPLICA: "replicas",
    Action.TAKE_OVER: "replicas",
    Action.FINISH_EARLY: "replicas",
    Action.ACQUIRE: "hosts",
    Action.DRAIN: "hosts",
    Action.RELEASE: "hosts",
    Action.BALANCE: "hosts",
}


def migrations(summary: RunSummary, records: Sequence[RunRecords]) -> tuple[Migration, ...]:
    """What became of each move, and of what kind it was."""
    keys = ("protocol", "requested_s", "pause_s", "completion_s", "worst_s", "replayed", "replication", "cause")
    kinds = [kind for one in records for kind in move_kinds(one)]
    return tuple(
        Migration(
            key_group=f"{one.operator}[{one.key_group}]",
            origin=one.origin,
            target=one.target,
            kind=kind,
            **{key: getattr(one, key) for key in keys},
        )
        for one, kind in zip(summary.migrations, kinds, strict=True)
    )


def decisions(records: Sequence[RunRecords]) -> tuple[Decision, ...]:
    """What was decided and why; who is to hold a checkpoint comes last, because there is most of it."""
    found = [
        Decision(at_ns / 1e9, sentence(made), made.reason, one.replication, _ABOUT[made.action], made.action)
        for one in records
        for at_ns, made in made_decisions(one.tables["decisions"])
    ]
    return tuple(sorted(found, key=lambda one: one.action == Action.STORE))


def recoveries(summary: RunSummary) -> tuple[Recovery, ...]:
    """What became of the failures."""
    keys = ("host", "failed_s", "detect_s", "restore_s", "replay_s", "catch_up_s", "total_s")
    return tuple(
        Recovery(
            **{key: getattr(one, key) for key in keys},
            replication=one.replication,
            suspected=one.cause == "suspicion",
        )
        for one in summary.recoveries
    )


def replicas(summary: RunSummary) -> tuple[ReplicaRow, ...]:
    """What became of each active replica."""
    found = summary.replicas.each if summary.replicas else ()
    return tuple(
        ReplicaRow(
            f"{one.operator}[{one.key_group}]",
            one.host,
            one.from_s,
            one.until_s,
            one.end or "in step at the end",
            one.pause_s,
            one.replication,
        )
        for one in found
    )


def replicas_said(summary: RunSummary) -> str:
    """What replicas were good for, in words."""
    one = summary.replicas
    if one is None:
        return ""
    times = {0: "No replica took over", 1: "One replica took over"}
    said = times.get(one.took_over, f"{one.took_over:,} replicas took over")
    if one.took_over:
        said += f"; at most {text.seconds(one.pause_max_s)} passed from a failure until the replica answered"
    said += f". A replica was in step {text.share(one.protected_share)} of the time."
    broken = summary.broken
    return said + (f" Some key group or task had no live owner {text.share(broken.share)} of it." if broken else "")


def guarantee(scenario: Scenario, summary: RunSummary) -> Guarantee:
    """The delivery guarantee, and what was lost or duplicated."""
    tolerance = scenario.fault_tolerance
    guarantee = tolerance.guarantee if tolerance.method == "checkpoint" else "none"
    counts = summary.guarantee
    return Guarantee(guarantee, *counts.counts)


def targets(summary: RunSummary) -> tuple[TargetRow, ...]:
    """What was to be reached."""

    def said(name: str, value: float | None) -> str:
        if value is None:
            return display.NONE
        if name.endswith("_s"):
            return text.seconds(value)
        return display.share(value) if name == "utilisation" else display.count(value)

    return tuple(
        TargetRow(name.removesuffix("_s").replace("_", " "), said(name, one.limit), said(name, one.value), one.met)
        for name, one in (summary.targets or {}).items()
    )


def operators(summary: RunSummary) -> tuple[OperatorRow, ...]:
    """What each operator did."""
    return tuple(
        OperatorRow(
            name,
            one.processed,
            one.wait_s.mean,
            one.wait_s.p99,
            one.sojourn_s.mean,
            one.sojourn_s.p99,
            one.queue_mean,
            one.utilisation,
        )
        for name, one in summary.operators.items()
    )
