"""Tables of the summary of a run; the terminal shows their brief form, pages the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.runs.checkpoint_summary import (
    Checkpoints,
    HostCheckpoints,
    JobCheckpoints,
    OperatorCheckpoints,
    UploadDelay,
)
from analysis.runs.migration_kinds import ClassifiedMigration, MigrationGroup
from analysis.runs.recovery_summary import PHASES, Recovery, RecoveryMean, Replica, shown_phases
from analysis.runs.run_summary import (
    EngineUsed,
    Guarantee,
    HostMemory,
    Memory,
    Migration,
    OperatorSummary,
    Rebalance,
    Reconfiguration,
    Verdict,
)
from analysis.statistics import Mean
from models import display
from models.scenario.engine import ENGINE_TABLES
from models.table import Column, Table, rows_of

_VERDICTS = {True: "met", False: "missed", None: "nothing seen"}


def operators_table(operators: Mapping[str, OperatorSummary]) -> Table:
    """Return a row for each operator: tuples, wait, time in the operator, queue, utilisation.

    Waits and sojourns are in s, the queue in tuples without those in service, and utilisation is a share of the
    servers.
    """
    columns = (
        Column("processed", display.count, "processed"),
        Column("wait mean", display.duration, "wait_s.mean"),
        Column("wait p99", display.duration, "wait_s.p99"),
        Column("sojourn mean", display.duration, "sojourn_s.mean", wide=True),
        Column("sojourn p99", display.duration, "sojourn_s.p99"),
        Column("queue mean", display.number, "queue_mean"),
        Column("utilisation", display.share, "utilisation"),
    )
    named = (Column("operator", number=False), *columns)
    rows = zip(operators, rows_of(operators.values(), columns), strict=True)
    cells = tuple((name, *row) for name, row in rows)
    return Table("What each operator did", named, cells, "operators", brief_title="Operators")


_SHOWN = 1e-3  # share of a mean below which half of its interval is not shown
_FEW_PHASES = 4  # that fit a terminal beside the instant of the failure; of more, not all are shown there


def recoveries_table(recoveries: Sequence[Recovery], suspected: str = " (suspected)") -> Table:
    """Return the phases of each recovery, by what failed; `suspected` marks a host that lived and was fenced.

    Marked are hosts on which nothing was when they died, those that died within an outage and are recovered with what
    failed before, and recoveries that a later failure has cut off.
    """
    shown = shown_phases({phase: one.length_s(phase) for phase in PHASES} for one in recoveries)
    many = len(shown) > _FEW_PHASES
    columns = (
        Column("host" if all(one.failed == one.host for one in recoveries) else "what", number=False),
        Column("run", of="replication"),
        Column("failed at", display.instant, "failed_s", wide=many),
        *(
            Column(phase.replace("_", " "), display.duration, f"{phase}_s", wide=many and phase == "replay")
            for phase in shown
        ),
        Column("total", display.duration, "total_s"),
    )
    marks = [_mark(one) for one in recoveries]
    names = (
        one.failed + suspected * one.suspected + (f" ({mark})" if mark else "")
        for one, mark in zip(recoveries, marks, strict=True)
    )
    rows = tuple((name, *row) for name, row in zip(names, rows_of(recoveries, columns[1:]), strict=True))
    brief = "Recoveries"
    if any(one.suspected for one in recoveries):
        brief += f" ({suspected.strip()} lived, was silent for too long and was fenced)"
    for mark, words in _MARKS.items():
        if mark in marks:
            brief += f" ({mark}: {words})"
    if any(one.cause == "checkpoints" for one in recoveries):
        brief += " (the job: too many checkpoints expired in a row)"
    for cause, words in _ON_PURPOSE.items():
        if any(one.cause == cause for one in recoveries):
            brief += f" ({words})"
    return Table("The phases of each recovery", columns, rows, "recoveries", brief_title=brief)


_MARKS = {"empty": "no task was there", "while down": "with the failure before", "cut off": "by a later failure"}


def _mark(one: Recovery) -> str:
    """Return what is to be known of a recovery to read its phases; empty for most."""
    if one.within_s is not None:
        return "while down"
    if one.kind == "failure" and not one.key_groups:
        return "empty"
    return "cut off" if one.cut_off else ""


_ON_PURPOSE = {
    "rescale": "the job: stopped to be rescaled",
    "stop": "some hosts: stopped on purpose",
    "rebalance": "some hosts: key groups went to one that has come",
}
_OF_STOPS = {"detect": "stop", "restart": "deploy"}  # phases of a job that is stopped, which nobody has to detect


def recovery_means_table(means: Sequence[RecoveryMean], engine: EngineUsed | None, kind: str = "failure") -> Table:
    """Return the mean of each phase with its 95 % interval, and the engine's word for its end where one is named.

    `kind`: what these are (`Recovery.kind`).
    """
    lengths = {one.phase: one.mean_s for one in means}
    shown = [*shown_phases([{phase: lengths[phase] for phase in PHASES}]), "total", "first_output", "first_visible"]
    shown.append("last_replay")
    milestones = () if engine is None else engine.milestones if kind == "failure" else engine.rescaling_milestones
    ends = {one.phase: f"{one.word}: {one.text}" for one in milestones}
    texts = {
        "first_output": f"a tuple from after the {_SINCE[kind]} is at a sink",
        "first_visible": "such a tuple is committed",
        "last_replay": "the last root has failed of which something was lost, and is emitted again",
    }
    names = _OF_STOPS if kind == "rescaling" else {}
    unknown = {
        "first_output": f"no tuple from after the {_SINCE[kind]} came to a sink",
        "first_visible": "none was committed, or recording.detail is histograms",
        "last_replay": "no root has failed, or the run ends too early to know",
    }
    columns = (
        Column("phase", lambda phase: names.get(phase, phase).replace("_", " "), number=False),
        Column("mean", _phase_mean),
        Column(
            "until" if engine is None else f"until, in the words of {ENGINE_TABLES[engine.name].SHORT}",
            number=False,
            prose=True,
        ),
    )
    rows = tuple(
        (one.phase, one, ends.get(one.phase) or (unknown if one.mean_s is None else texts).get(one.phase, ""))
        for one in means
        if one.phase in shown
    )
    title, name = ("Recoveries", "recovery-means") if kind == "failure" else (f"{kind.capitalize()}s", f"{kind}-means")
    return Table(f"{title} on average", columns, rows, name)


_SINCE = {"failure": "failure", "rescaling": "request", "restart": "stop"}


def _phase_mean(one: RecoveryMean) -> str:
    """Return the mean with half of its interval, unless that does not show in three digits."""
    half = Mean(one.mean_s, one.ci95).half
    known = half is None or one.mean_s is None or half < _SHOWN * one.mean_s
    return display.plus_minus(one.mean_s, None if known else half, display.duration)


def migrations_table(migrations: Sequence[Migration]) -> Table:
    """Return what each migration of a key group took, and who asked for it where that was not always an event."""
    by_themselves = any(one.cause != "event" for one in migrations)
    cancelled = any(one.cancelled_s is not None for one in migrations)
    columns: tuple[Column, ...] = (
        Column("key group", of="partition", number=False),
        Column("kind", kind_text, "kind", number=False, wide=True),
        Column("protocol", of="protocol", number=False),
        Column("from", of="origin", number=False, wide=True),
        Column("to", of="target", number=False),
        Column("cause", of="cause", number=False, wide=not by_themselves),
        Column("replication", of="replication", wide=True),
        Column("asked for at", display.instant, "requested_s", wide=True),
        *((Column("cancelled", display.instant, "cancelled_s", wide=True),) if cancelled else ()),
        Column("pause", display.duration, "pause_s"),
        Column("completion", display.duration, "completion_s"),
        Column("worst", display.duration, "worst_s"),
        Column("replayed", display.count, "replayed", wide=by_themselves),
    )
    if not all(isinstance(one, ClassifiedMigration) for one in migrations):
        columns = tuple(column for column in columns if column.of != "kind")
    facets = tuple(one.protocol for one in migrations)
    return Table(
        "What each move took",
        columns,
        rows_of(migrations, columns),
        "moves",
        facet="protocol",
        facets=facets,
        brief_title="Migrations",
    )


def reconfigurations_table(given: Sequence[Reconfiguration]) -> Table:
    """Return what each reconfiguration took, and the latency of what was born meanwhile."""
    known = any(one.extra_bytes is not None for one in given)
    ended = any(one.cancelled_s is not None for one in given)
    undone = any(one.duration_s is None for one in given)
    loses = any(one.lost_groups for one in given)
    columns: tuple[Column, ...] = (
        Column("operator", of="operator", number=False),
        Column("strategy", of="strategy", number=False, whole=True),
        Column("replication", of="replication", wide=True),
        Column("at", display.instant, "begun_s"),
        Column("key groups", display.count, "groups", wide=True),
        Column("steps over", of="over_of_all") if undone else Column("steps", display.count, "steps"),
        *((Column("cancelled", display.instant, "cancelled_s", wide=True),) if ended else ()),
        *((Column("begin empty", of="begin_empty"),) if loses else ()),
        Column("duration", display.duration, "duration_s"),
        Column("longest step", display.duration, "longest_step_s", wide=True),
        Column("99 % within", display.duration, "latency_p99_s", wide=True),
        Column("max latency", display.duration, "latency_max_s"),
        Column("frontier 99 % within", display.duration, "frontier_latency_p99_s", wide=True),
        Column("frontier max", display.duration, "frontier_latency_max_s", wide=True),
        Column("states", display.size, "bytes", wide=known),
        *((Column("extra memory", display.size, "extra_bytes"),) if known else ()),
    )
    brief_title = "Reconfigurations (latency: of single tuples that were born meanwhile)"
    title = "What each reconfiguration took"
    return Table(title, columns, rows_of(given, columns), "reconfigurations", brief_title=brief_title)


def memory_table(given: Memory, groups: Mapping[str, str]) -> Table:
    """Return the memory of the host of each group that held most; `groups` has the group of each host."""
    fullest: dict[str, tuple[str, HostMemory]] = {}
    for name, one in given.hosts.items():
        held = fullest.setdefault(groups[name], (name, one))[1]
        if (one.above_s or 0.0, one.peak_bytes or 0) > (held.above_s or 0.0, held.peak_bytes or 0):
            fullest[groups[name]] = (name, one)
    fullest = {group: held for group, held in fullest.items() if held[1].peak_bytes != 0}
    bounded = any(one.limit_bytes is not None for _, one in fullest.values())
    of_memory = (Column("memory", display.size, "limit_bytes"), Column("above it for", display.duration, "above_s"))
    columns = (
        Column("holds at the most", display.size, "peak_bytes"),
        Column("at", display.instant, "at_s"),
        *(of_memory if bounded else ()),
    )
    named = (Column("fullest host", number=False), *columns)
    cells = zip(fullest.values(), rows_of([one for _, one in fullest.values()], columns), strict=True)
    rows = tuple((name, *row) for (name, _), row in cells)
    return Table("The fullest host of each group", named, rows, "memory", brief_title="Memory")


def rebalances_table(rebalances: Sequence[Rebalance]) -> Table:
    """Return what each rebalance of a dataflow took: lengths of its drain and its command, else times from the request.

    Tuples that were emitted again have a column where there is an acker, outcomes where not all are done. Columns that
    would be empty are left out.
    """
    optional = ("drain_s", "recovered_s", "replayed")
    empty = {name for name in optional if all(getattr(one, name) is None for one in rebalances)}
    empty |= {"begun_s"} if all(one.begun_s == 0 for one in rebalances) else set()
    all_done = all(one.outcome == "done" for one in rebalances)
    columns: tuple[Column, ...] = (
        Column("protocol", of="protocol", number=False),
        Column("outcome", of="outcome", number=False, wide=all_done),
        Column("replication", of="replication", wide=True),
        Column("at", display.instant, "requested_s"),
        Column("begun", display.duration, "begun_s", wide=True),
        Column("drain", display.duration, "drain_s"),
        Column("command", display.duration, "command_s", wide=True),
        Column("all up", display.duration, "up_s", wide=True),
        Column("first INIT", display.duration, "first_init_s", wide=True),
        Column("restore", display.duration, "restore_s"),
        Column("last INIT", display.duration, "last_init_s"),
        Column("unpause", display.duration, "unpause_s", wide=True),
        Column("caught up", display.duration, "caught_up_s"),
        Column("recovered", display.duration, "recovered_s", wide=True),
        Column("stable", display.duration, "stable_mean_s"),
        Column("stable bins", display.duration, "stable_bins_s", wide=True),
        Column("captured", display.count, "captured", wide=True),
        Column("lost", display.count, "lost"),
        Column("replayed", display.count, "replayed"),
    )
    columns = tuple(column for column in columns if column.of not in empty)
    rows = rows_of(rebalances, columns)
    brief_title = "Rebalances (drain: its length; else times from request)"
    return Table("What each rebalance took", columns, rows, "rebalances", brief_title=brief_title)


def groups_table(groups: Sequence[MigrationGroup]) -> Table:
    """Return migrations by kind, protocol and cause.

    Means have 95 % intervals over replications; medians and maxima are over all moves of a row.
    """
    cancelled = any(one.cancelled for one in groups)
    columns = (
        Column("kind", kind_text, "kind", number=False),
        Column("protocol", of="protocol", number=False),
        Column("cause", of="cause", number=False),
        Column("moves", display.count, "count"),
        Column("not ended", display.count, "unfinished"),
        *((Column("cancelled", display.count, "cancelled"),) if cancelled else ()),
        Column("pause mean", mean_with_interval, "pause"),
        Column("pause median", display.duration, "pause_p50_s"),
        Column("pause max", display.duration, "pause_max_s"),
        Column("completion median", display.duration, "completion_p50_s"),
        Column("replayed", display.count, "replayed"),
    )
    return Table("Moves by kind", columns, rows_of(groups, columns), "kinds")


def kind_text(kind: str) -> str:
    """Return the kind of a migration, a dash where it is not known."""
    return kind or display.NONE


def mean_with_interval(value: Mean) -> str:
    """Return a mean time with half the width of its interval."""
    return display.plus_minus(value.mean, value.half, display.duration)


def replicas_table(replicas: Sequence[Replica]) -> Table:
    """Return a row for each active replica."""
    columns = (
        Column("key group", of="partition", number=False),
        Column("host", of="host", number=False),
        Column("end", lambda end: end or "in step at the end", "end", number=False),
        Column("replication", of="replication"),
        Column("in step from", display.instant, "from_s"),
        Column("until", display.instant, "until_s"),
        Column("pause", display.duration, "pause_s"),
    )
    return Table("Active replicas", columns, rows_of(replicas, columns), "replicas")


def job_checkpoints_said(job: JobCheckpoints, interval_s: float) -> str:
    """Return what to say of checkpoints of the whole job."""
    ended = [f"{job.completed:,} completed"]
    ended += [f"{job.aborted:,} aborted"] if job.aborted else []
    failed = f", which failed the job {display.count(job.failed_job, 'time')}" if job.failed_job else ""
    ended += [f"{job.expired:,} expired{failed}"] if job.expired else []
    ended += [f"{job.subsumed:,} subsumed by later ones"] if job.subsumed else []
    between = display.duration(job.longest_between_s)
    said = (
        f"Checkpoints of the job every {display.duration(interval_s)}: {job.begun:,} begun, {', '.join(ended)}; "
        f"at most {between} without a completed one."
    )
    if not job.completed:
        return said
    (mean, most), (barriers, slowest) = (
        (display.duration(one.mean), display.duration(one.max)) for one in (job.duration_s, job.barriers_s)
    )
    in_flight = job.in_flight_bytes
    of_that = f", of that in-flight data {display.size(in_flight.mean)}, {display.size(in_flight.max)} at most"
    return (
        f"{said} A completed one took {mean} on average, {most} at most, of that barriers {barriers} and {slowest}, "
        f"and stored {display.size(job.bytes.mean)}{of_that if in_flight.max else ''}."
    )


def batch_checkpoints_said(given: Checkpoints) -> str:
    """Return what to say of checkpoints with which micro-batches end."""
    left = f", {given.begun - given.completed:,} more begun" if given.begun > given.completed else ""
    return (
        f"Each batch ends with a version of each state: {given.completed:,} stored{left}. A trigger comes every "
        f"{display.duration(given.interval_s)}; at most {display.duration(given.longest_between_s)} without a version."
    )


def checkpoints_of_operators(operators: Mapping[str, OperatorCheckpoints]) -> Table:
    """Return counts of the checkpoints of each operator.

    A checkpoint is late if it completed after the next one was due, and skipped if the one before was still under way.
    `longest without` is the longest time of one key group or task without a completed one.
    """
    columns = (*_COUNTS, Column("longest without", display.duration, "longest_between_s"))
    rows = zip(operators, rows_of(operators.values(), columns), strict=True)
    named = (Column("operator", number=False), *columns)
    return Table("Checkpoints by operator", named, tuple((name, *row) for name, row in rows), "checkpoints-operator")


def checkpoints_of_hosts(hosts: Sequence[HostCheckpoints]) -> Table:
    """Return counts of the checkpoints that each host sent."""
    columns = (Column("host", of="host", number=False), *_COUNTS)
    return Table("Checkpoints by host", columns, rows_of(hosts, columns), "checkpoints-host")


def record_delays(delay: UploadDelay) -> Table:
    """Return how many records of each host uploads delayed, and by how much."""
    columns = (
        Column("host", of="host", number=False),
        Column("records sent", display.count, "carried"),
        Column("delayed", display.count, "records"),
        Column("delay mean", display.duration, "mean_s"),
        Column("delay max", display.duration, "max_s"),
    )
    return Table("Records that uploads delayed", columns, rows_of(delay.hosts, columns), "record-delays")


def targets_table(targets: Mapping[str, Verdict]) -> Table:
    """Return what was to be reached and what came out."""
    heads = ("target", "at most", "reached", "verdict")
    columns = tuple(Column(head, number=k > 0) for k, head in enumerate(heads))
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
    """Return a target, or the value that it is held against, in its unit.

    >>> target("latency_p99_s", 0.25), target("utilisation", 0.8), target("lost", 3.0)
    ('250 ms', '80 %', '3')
    """
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


_COUNTS = tuple(Column(head, display.count, head) for head in ("begun", "completed", "late", "skipped"))
