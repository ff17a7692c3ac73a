"""Tables of the summary of a run; the terminal shows their brief form, pages the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.runs.migration_kinds import ClassifiedMigration
from analysis.runs.run_summary import (
    Guarantee,
    HostCheckpoints,
    Migration,
    OperatorCheckpoints,
    OperatorSummary,
    Recovery,
    Replica,
    UploadDelay,
    Verdict,
)
from models import display
from models.table import Column, Table

_VERDICTS = {True: "met", False: "missed", None: "nothing seen"}


def operators_table(operators: Mapping[str, OperatorSummary]) -> Table:
    """Return a row for each operator: tuples, wait, time in the operator, queue, utilisation."""
    columns = (
        Column("operator", number=False, brief="operator"),
        Column("processed", display.count, brief="tuples"),
        Column("wait, mean", display.duration, brief="wait mean"),
        Column("wait, p99", display.duration, brief="wait p99"),
        Column("sojourn, mean", display.duration),
        Column("sojourn, p99", display.duration, brief="sojourn p99"),
        Column("queue, mean", display.number, brief="queue"),
        Column("utilisation", display.share, brief="busy"),
    )
    rows = tuple(
        (
            name,
            one.processed,
            one.wait_s.mean,
            one.wait_s.p99,
            one.sojourn_s.mean,
            one.sojourn_s.p99,
            one.queue_mean,
            one.utilisation,
        )
        for name, one in operators.items()
    )
    return Table("What each operator did", columns, rows, "operators", brief_title="Operators")


def recoveries_table(recoveries: Sequence[Recovery], suspected: str = " (suspected)") -> Table:
    """Return the phases of each recovery; `suspected` marks a host that lived and was fenced."""
    columns = (
        Column("host", number=False, brief="host"),
        Column("replication", brief="run"),
        Column("failed at", display.instant, brief="failed at"),
        Column("detection", display.duration, brief="detect"),
        Column("restoring", display.duration, brief="restore"),
        Column("replay", display.duration, brief="replay"),
        Column("catching up", display.duration, brief="catch up"),
        Column("total", display.duration, brief="total"),
    )
    rows = tuple(
        (
            one.host + (suspected if one.suspected else ""),
            one.replication,
            one.failed_s,
            one.detect_s,
            one.restore_s,
            one.replay_s,
            one.catch_up_s,
            one.total_s,
        )
        for one in recoveries
    )
    brief = "Recoveries"
    if any(one.suspected for one in recoveries):
        brief += f" ({suspected.strip()} lived, was silent for too long and was fenced)"
    return Table("The phases of each recovery", columns, rows, "recoveries", brief_title=brief)


def migrations_table(migrations: Sequence[Migration]) -> Table:
    """Return what each migration of a key group took, and who asked for it where that was not always an event."""
    by_themselves = any(one.cause != "event" for one in migrations)
    columns = (
        Column("key group", number=False, brief="key group"),
        Column("kind", number=False),
        Column("protocol", number=False, brief="protocol"),
        Column("from", number=False),
        Column("to", number=False, brief="to"),
        Column("cause", number=False, brief="cause" if by_themselves else None),
        Column("replication"),
        Column("asked for at", display.instant),
        Column("pause", display.duration, brief="pause"),
        Column("completion", display.duration, brief="complete"),
        Column("worst", display.duration, brief="worst"),
        Column("replayed tuples", _whole, brief=None if by_themselves else "replayed"),
    )
    rows = tuple(
        (
            one.partition,
            (one.kind if isinstance(one, ClassifiedMigration) else "") or display.NONE,
            one.protocol,
            one.origin,
            one.target,
            one.cause,
            one.replication,
            one.requested_s,
            one.pause_s,
            one.completion_s,
            one.worst_s,
            one.replayed,
        )
        for one in migrations
    )
    facets = tuple(one.protocol for one in migrations)
    title = "What each move took"
    return Table(title, columns, rows, "moves", facet="protocol", facets=facets, brief_title="Migrations")


def replicas_table(replicas: Sequence[Replica]) -> Table:
    """Return a row for each active replica."""
    columns = (
        Column("key group", number=False),
        Column("host", number=False),
        Column("end", number=False),
        Column("replication"),
        Column("in step from", display.instant),
        Column("until", display.instant),
        Column("pause", display.duration),
    )
    rows = tuple(
        (
            f"{one.operator}[{one.key_group}]",
            one.host,
            one.end or "in step at the end",
            one.replication,
            one.from_s,
            one.until_s,
            one.pause_s,
        )
        for one in replicas
    )
    return Table("Active replicas", columns, rows, "replicas")


def checkpoints_of_operators(operators: Mapping[str, OperatorCheckpoints]) -> Table:
    """Return counts of the checkpoints of each operator."""
    columns = (Column("operator", number=False), *_COUNTS, Column("longest without", display.duration))
    rows = tuple(
        (name, one.begun, one.completed, one.late, one.skipped, one.longest_between_s)
        for name, one in operators.items()
    )
    return Table("Checkpoints by operator", columns, rows, "checkpoints-operator")


def checkpoints_of_hosts(hosts: Sequence[HostCheckpoints]) -> Table:
    """Return counts of the checkpoints that each host sent."""
    rows = tuple((one.host, one.begun, one.completed, one.late, one.skipped) for one in hosts)
    return Table("Checkpoints by host", (Column("host", number=False), *_COUNTS), rows, "checkpoints-host")


def record_delays(delay: UploadDelay) -> Table:
    """Return how many records of each host uploads delayed, and by how much."""
    columns = (
        Column("host", number=False),
        Column("records sent", _whole),
        Column("delayed", _whole),
        Column("delay, mean", display.duration),
        Column("delay, longest", display.duration),
    )
    rows = tuple((one.host, one.carried, one.records, one.mean_s, one.max_s) for one in delay.hosts)
    return Table("Records that uploads delayed", columns, rows, "record-delays")


def targets_table(targets: Mapping[str, Verdict]) -> Table:
    """Return what was to be reached and what came out."""
    heads = ("target", "at most", "reached", "verdict")
    columns = tuple(Column(head, number=k > 0, brief=head) for k, head in enumerate(heads))
    rows = tuple(
        (
            name.removesuffix("_s").replace("_", " "),
            target(name, one.limit),
            target(name, one.value),
            _VERDICTS[one.met],
        )
        for name, one in targets.items()
    )
    return Table("What was to be reached", columns, rows, "targets", brief_title="Targets")


def target(name: str, value: float | None) -> str:
    """Return a target, or the value that it is held against, in its unit."""
    if name.endswith("_s"):
        return display.duration(value)
    return display.share(value) if name == "utilisation" else display.count(value)


def guarantee_table(counts: Guarantee) -> Table:
    """Return the tuples lost and duplicated at the sinks and in state."""
    columns = (Column("where", number=False), Column("lost", display.number), Column("duplicated", display.number))
    rows = (
        ("at the sinks", counts.lost, counts.duplicated),
        ("in state", counts.state_lost, counts.state_duplicated),
    )
    return Table("Tuples lost and duplicated", columns, rows, "guarantee")


def _whole(value: int) -> str:
    return f"{value:,}"


_COUNTS = tuple(Column(head, _whole) for head in ("begun", "completed", "late", "skipped"))
