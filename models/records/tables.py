"""Tables that the simulator emits: rows with units, no statistic. The schema of every table is here.

`TABLES` are the tables of every run; `HISTOGRAM_TABLES` take the place of `visits` and `deliveries` where single tuples
are not recorded. Each column has a numpy dtype, a unit and a meaning, of which docs/reference/records.md is made.
Instants are whole nanoseconds from the begin of the run, NEVER (-1) where one did not come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.records.decisions import Action, Verdict
from models.scenario.events import Detail

NEVER = -1  # an instant that did not come before the end of the run
THE_JOB = -1  # in place of a host that died: the job failed, or was stopped, and no host did


@dataclass(frozen=True)
class Column:
    """One column of a table.

    `dtype`: name of a numpy type, "str" for text. `unit`: "" for plain numbers and text. `meaning`: for people, as the
    reference shows it; it follows the name of the column.
    """

    name: str
    dtype: str
    unit: str
    meaning: str

    @property
    def counts(self) -> bool:
        """Return whether it is a number of tuples, or a sum over them."""
        return self.unit == "tuples" or self.name == "delay_ns"


def _time(name: str, meaning: str) -> Column:
    """Return the column of an instant or a time [ns]."""
    return Column(name, "int64", "ns", meaning)


def _index(name: str, meaning: str) -> Column:
    """Return the column of an index from 0."""
    return Column(name, "int32", "", meaning)


_OPERATOR = _index("operator", "index into `operators`")
_TASK = _index("task", "index into `tasks`")
_HOST = _index("host", "index into `hosts`")
_FAILED = _index("host", "index into `hosts`, -1 for a failure or a stop of the job, where no host died")
_GROUP = _index("key_group", "key group, or task index where the operator is not keyed")

TABLES: dict[str, tuple[Column, ...]] = {
    "visits": (
        _OPERATOR,
        _TASK,
        _time("arrival_ns", "entered the queue of the task"),
        _time("start_ns", "service began"),
        _time("end_ns", "service ended, -1 if it had not at the end of the run"),
    ),
    "waiting": (
        _OPERATOR,
        _TASK,
        _time("arrival_ns", "entered the queue, or was held back, and was still there at the end of the run"),
    ),
    "deliveries": (
        _OPERATOR,
        _time("created_ns", "the source tuple was created"),
        _time("delivered_ns", "accepted by the sink"),
    ),
    "dropped": (
        _OPERATOR,
        _TASK,
        _time("arrival_ns", "entered the queue of the task, -1 if it never did"),
        _time("start_ns", "service began, -1 if it never did"),
        _time("at_ns", "when it was dropped"),
        Column(
            "reason",
            "str",
            "",
            "crash (queue, service or wire of a dead host) | duplicate | moved (its copy was given up) | "
            "kill (of its task alone) | parcel (captured, and never put back)",
        ),
    ),
    "samples": (
        _time("at_ns", "when it was sampled, before the events of that instant"),
        _TASK,
        _HOST,
        Column("queue", "int64", "tuples", "in the queue or held back, without those in service"),
        Column(
            "busy_ns",
            "int64",
            "ns",
            "CPU time of all services that have ended: tuples, snapshots and installs",
        ),
        Column(
            "buffered", "int64", "tuples", "kept in the output buffers for replay, or withheld for a late configuration"
        ),
    ),
    "memory": (
        _time("at_ns", "when it was sampled or, of a task whose state moves in a step, when it changed"),
        _TASK,
        _HOST,
        Column("state_bytes", "int64", "B", "of live states: those of the last sample, with what moved since"),
        Column("queue_bytes", "int64", "B", "of tuples that waited at the last sample, as large as the largest"),
        Column("kept_bytes", "int64", "B", "of outputs that were kept for replay, or withheld, at the last sample"),
        Column("sent_bytes", "int64", "B", "of copies of states that left in a step that is not over"),
        Column("received_bytes", "int64", "B", "of copies of states that came in a step that is not over"),
    ),
    "lag": (
        _time("at_ns", "when it was sampled"),
        _OPERATOR,
        Column("lag", "int64", "tuples", "arrived at the source and not yet emitted"),
    ),
    "replays": (
        _time("at_ns", "when roots had failed, and their source was to emit them again"),
        _OPERATOR,
        Column("count", "int64", "tuples", "roots of the source that had failed"),
        Column("cause", "str", "", "timeout | rollback (a task with state went back to what was saved)"),
    ),
    "buffers": (
        _time("at_ns", "when it was sampled; no rows where no operator has a buffer and no acks trim outputs"),
        _TASK,
        Column("taken", "int64", "tuples", "in the queue and under way to it, 0 where the task has no buffer"),
        Column(
            "unsent", "int64", "tuples", "outputs of the task that wait for room at their receivers, or are withheld"
        ),
        _time("blocked_ns", "for how long outputs have waited so far"),
        Column("kept_bytes", "int64", "B", "outputs that are kept for replay: the output slice table"),
        Column(
            "unconfirmed",
            "int64",
            "tuples",
            "processed and not acknowledged at the highest level: the input slice table",
        ),
        Column("slices", "int64", "", "that have ended and are not acknowledged at the highest level"),
    ),
    "links": (
        _time("at_ns", "when it was sampled, and the end of the run; rows of hosts where a tuple was delayed so far"),
        _HOST,
        Column("carried", "int64", "tuples", "that left the link of the host so far, replayed ones included"),
        Column("delayed", "int64", "tuples", "of these, left later than without the checkpoints on the link"),
        _time("delay_ns", "by how much later, in total"),
        _time("longest_ns", "the greatest of these delays"),
    ),
    "checkpoints": (
        _OPERATOR,
        _GROUP,
        Column("owner", "int32", "", "host index of the owner"),
        Column("checkpoint_host", "int32", "", "host index of the checkpoint host, -1 for the remote store"),
        _time("taken_ns", "snapshot"),
        _time("stored_ns", "stored at the checkpoint host, -1 if it never was"),
        Column("bytes", "int64", "B", "sent to the checkpoint host"),
        Column("full", "bool", "", "full, or what changed since the one before"),
        Column("job", "int32", "", "number of the checkpoint of the job that it is part of, -1 if barriers take none"),
    ),
    "job_checkpoints": (
        _index("number", "of the checkpoint in the run, from 0"),
        _time("triggered_ns", "barriers were sent to the sources"),
        _time("aligned_ns", "barriers had come over all channels of all tasks, -1 if they never had"),
        _time("completed_ns", "the coordinator heard that all are stored, -1 if it was given up"),
        Column("bytes", "int64", "B", "sent to the store: snapshots and in-flight data"),
        Column("in_flight_bytes", "int64", "B", "of that in-flight data, which barriers have overtaken"),
        Column(
            "outcome",
            "str",
            "",
            "completed | aborted (by a failure, or for a savepoint) | expired"
            " | subsumed (a later one was complete first) | open (at the end of the run)",
        ),
    ),
    "pre_commits": (
        _index("number", "of the checkpoint of the job"),
        _OPERATOR,
        _TASK,
        _time("at_ns", "the task, of a sink that commits at checkpoints, ended its transaction: the barrier had come"),
        Column("deliveries", "int64", "", "rows of `deliveries` by then, 0 where histograms are recorded"),
    ),
    "failures": (
        _FAILED,
        _time("failed_ns", "the host died"),
        _time("detected_ns", "the detector suspected it, -1 if not"),
        _time("repaired_ns", "the host was back, -1 if not"),
        Column("lost_partitions", "int64", "", "key groups and tasks that were on it"),
        _time("caught_up_ns", "every task from the recovered ones down to the sinks has caught up, -1 if not"),
        Column(
            "cause",
            "str",
            "",
            "crash | suspicion (it lived, was silent for too long, and was fenced) | driver (it died, its host lives)"
            " | checkpoints (more expired in a row than are tolerated, and no host died)"
            " | rescale (the job was stopped to get another number of tasks, and no host died)"
            " | worker (its worker processes died, the host lives)"
            " | stop (it was stopped on purpose) | rebalance (it has handed key groups over to a host that has come)",
        ),
    ),
    "recoveries": (
        _FAILED,
        _OPERATOR,
        _GROUP,
        Column("target", "int32", "", "index into `hosts`: where the group resumed"),
        _time("failed_ns", "the host died"),
        _time("detected_ns", "the failure was noticed and recovery began"),
        _time("allocated_ns", "a host was chosen where it is to resume, or its replica took over"),
        _time("started_ns", "its task was up there"),
        _time("restored_ns", "state installed"),
        _time("replayed_ns", "last replayed tuple processed or recognised as a duplicate"),
        _time("caught_up_ns", "its task has caught up: nothing to do, and nothing of the outage on its way to it"),
        Column("replayed", "int64", "tuples", "sent again by upstream tasks"),
        Column("bytes", "int64", "B", "restored state and replayed tuples"),
    ),
    "first_outputs": (
        _time("born_ns", "a failure whose recovery is under way; no rows where `deliveries` has single tuples"),
        _time("since_ns", "a state was restored"),
        _time("at_ns", "the first delivery from then on of a tuple that was born at the failure or later"),
    ),
    "outages": (
        _OPERATOR,
        _GROUP,
        _time("from_ns", "its host died"),
        _time("until_ns", "it was restored, or taken over, by somebody who lived, -1 if not before the end of the run"),
    ),
    "migrations": (
        Column("protocol", "str", "", "name of the migration protocol"),
        _OPERATOR,
        _GROUP,
        Column("origin", "int32", "", "index into `hosts`: where the group was"),
        Column("target", "int32", "", "index into `hosts`: where it was to go"),
        _time("requested_ns", "it was asked for"),
        _time("paused_ns", "the group was not processed any more, -1 if it never came to that"),
        _time("resumed_ns", "what had waited for the move was processed, -1 if it never was"),
        _time("completed_ns", "the new owner goes on and the old one holds the checkpoint, -1 if not"),
        Column("replayed", "int64", "tuples", "sent again by upstream tasks"),
        Column("bytes", "int64", "B", "replayed tuples"),
        _time(
            "worst_ns",
            "longest time of a tuple of the group from its arrival at either host until it was answered, of those that "
            "arrived from the begin of the move until one did not wait any more, -1 if the move was not completed",
        ),
        Column("cause", "str", "", "event | rescale | balance (of an overloaded host) | drain (of a host to be left)"),
        _time("cancelled_ns", "the move was cancelled, after a crash, -1 if it was not"),
    ),
    "rebalances": (
        _index("number", "of the rebalance in the run, from 0"),
        Column("protocol", "str", "", "name of the protocol for whole dataflows"),
        _time("requested_ns", "it was asked for"),
        _time("begun_ns", "earlier ones were over, and its protocol began"),
        _time("paused_ns", "all sources paused, -1 if that never was, as below"),
        _time("prepared_ns", "the last subtask answered PREPARE: the dataflow is drained, or captured"),
        _time("committed_ns", "the last subtask answered COMMIT"),
        _time("killed_ns", "the command ended, and the tasks were killed"),
        _time("up_ns", "the last of their successors was started, not counting its gate"),
        _time("first_init_ns", "the first subtask was initialised"),
        _time("last_init_ns", "the last subtask was initialised"),
        _time("resumed_ns", "the last source went on"),
        _time("over_ns", "the rebalance was over, or called off"),
        Column("subtasks", "int64", "", "that it kills, or was to kill"),
        Column("captured", "int64", "tuples", "that were saved with the states"),
        Column("outcome", "str", "", "done | called off (before the kill) | open (at the end of the run)"),
    ),
    "reconfigurations": (
        _index("number", "of the reconfiguration; a row is one of its steps, or the row of one that never begins"),
        _OPERATOR,
        Column("strategy", "str", "", "all-at-once | fluid | batched | optimised, or the protocol if not megaphone"),
        _time("requested_ns", "it was asked for"),
        _index("step", "of the reconfiguration, from 0"),
        _time(
            "from_ns",
            "what is born from then on belongs to the new tasks (other protocols: it begins), -1 if that never came",
        ),
        _time(
            "passed_ns",
            "nothing older was at the operator or above it any more (other protocols: all that pauses was drained), -1 "
            "if that never was",
        ),
        _time("installed_ns", "the last state was at its new task, -1 if it never was"),
        Column("groups", "int64", "", "key groups that change their task in the step, 0 of an event that waits"),
        Column("bytes", "int64", "B", "of their states, as they left; with stop-and-restart of all states"),
        _time("cancelled_ns", "the reconfiguration was cancelled, after a crash, -1 if it was not"),
        Column("lost_groups", "int64", "", "key groups of the step that begin empty: a crash took them as they moved"),
        Column("lost_bytes", "int64", "B", "of the states that they had"),
    ),
    "replicas": (
        _OPERATOR,
        _GROUP,
        Column("host", "int32", "", "host index of the active replica"),
        Column("why", "str", "", "start | renewed | switchover (it was the owner)"),
        _time("requested_ns", "it was asked for"),
        _time("from_ns", "it was in step with the owner from then on, -1 if it never was"),
        _time("until_ns", "it took over, was lost or was called off, -1 if it was there at the end of the run"),
        Column("end", "str", "", "took over | lost (its host died) | called off (too early) | switchover, or empty"),
        _time("failed_ns", "the host of the owner (took over) or its own (lost) died, -1 if neither ended it"),
        Column("replayed", "int64", "tuples", "sent again by upstream tasks to make it"),
        Column("bytes", "int64", "B", "of these tuples"),
    ),
    "rescales": (
        _OPERATOR,
        _time("at_ns", "it was asked for, or slots came or went"),
        Column("before", "int64", "", "tasks before"),
        Column("after", "int64", "", "tasks from then on"),
        Column("moves", "int64", "", "key groups whose task changes"),
        _time("completed_ns", "the last of them had moved, or all had their states again, -1 if one never did"),
        _time("paused_ns", "the first task stopped to be adjusted, -1 if none did"),
        _time("resumed_ns", "the last of these went on, -1 if none did"),
    ),
    "statistics": (
        _time("at_ns", "end of the period"),
        _OPERATOR,
        _GROUP,
        _HOST,
        Column("tuples", "int64", "tuples", "that came for it, without those that were sent again"),
        _time("cpu_ns", "CPU time of services of its tuples, and of writing its snapshots, that ended"),
        Column("received_bytes", "int64", "B", "of these tuples, from other hosts"),
        Column("sent_bytes", "int64", "B", "tuples that it sent to other hosts, also those that it sent again"),
        Column("state_bytes", "int64", "B", "size of its state at the end of the period"),
    ),
    "adaptations": (
        _time("at_ns", "when the load was checked"),
        Column("overloaded", "int64", "", "hosts above the upper threshold"),
        Column("groups", "int64", "", "key groups on them"),
        Column("usable", "int64", "", "of these, how many fit on the host that holds their checkpoint"),
        Column("assisted", "int64", "", "moves to such a host that were asked for"),
        Column("direct", "int64", "", "moves to other hosts that were asked for, but for those of a drained host"),
        Column("drained", "int64", "", "moves off a host that is to be left"),
        Column("unplaced", "int64", "", "hosts that stayed overloaded because no more key group fits anywhere"),
    ),
    "maintenance": (
        _time("at_ns", "when the allocation of checkpoints was compared with a fresh one"),
        Column("groups", "int64", "", "key groups whose checkpoints were compared"),
        Column("windows", "int64", "", "periods of statistics that the fresh one was planned from"),
        Column("current", "float64", "", "score of the allocation as it was"),
        Column("fresh", "float64", "", "score of the fresh one"),
        Column("difference", "float64", "", "by how much the allocation as it was is worse"),
        Column("left", "float64", "", "the same after the moves"),
        Column("moved", "int64", "", "checkpoints that were to go to another host from then on"),
        Column("stored", "int64", "", "of these, how many came to be stored there"),
        Column("bytes", "int64", "B", "sent there for it: whole checkpoints, up to the first that was stored"),
    ),
    "hosts_in_use": (
        _HOST,
        _time("from_ns", "it was acquired, a rebalance to it was requested, or the run began"),
        _time("until_ns", "it was released, a rebalance killed its last task, or the run ended"),
    ),
    "messages": (
        _time("second_ns", "begin of the second in which it was sent"),
        Column(
            "kind",
            "str",
            "",
            "data (between hosts) | local (inside a host) | checkpoint | trim | restore | replay | protocol | ack",
        ),
        Column("count", "int64", "", "messages"),
        Column("bytes", "int64", "B", "bytes"),
    ),
    "cpu": (
        _TASK,
        _time("served_ns", "time from the warm-up on that its tuples were in service, those cut off included"),
        _time("used_ns", "CPU time that they used in it: less where the cores are shared evenly or others use them"),
    ),
    "decisions": (
        _time("at_ns", "when it was taken"),
        Column("action", "str", "", "what is decided on: " + " | ".join(Action)),
        Column("subject", "str", "", "key group or task (OPERATOR[index]), operator, or host; may be empty"),
        Column(
            "origin",
            "str",
            "",
            "host that it leaves (of moves that are done, and reallocate), number of tasks before (rescale), or empty",
        ),
        Column("target", "str", "", "host that it goes to, number of tasks from then on (rescale), or empty"),
        Column("verdict", "str", "", " | ".join(Verdict)),
        Column("reason", "str", "", "why"),
    ),
    "ledger": (
        _OPERATOR,
        Column("expected", "int64", "tuples", "inputs that follow from the source tuples"),
        Column("lost", "int64", "tuples", "expected and not in the final state, or not delivered"),
        Column("duplicated", "int64", "tuples", "in the final state, or delivered, more than once"),
    ),
}

_WHAT = Column("what", "str", "", "wait | sojourn | latency | waiting | busy")
_BEGIN = _time("at_ns", "begin of the interval")
_BIN = _index("bin", "0: no time; 1 + 128 e + m: from 2^e (1 + m/128) ns on, below the begin of the next")
_HIGH = Column("sum_high", "int64", "2^32 ns", "sum, without the part below 2^32 ns")
_LOW = Column("sum_low", "int64", "ns", "the part of the sum below 2^32 ns")

# In place of `visits` and `deliveries` where histograms are recorded. Which tuples count: wait, sojourn and latency as
# in the summary, after warm-up; waiting and busy are every visit's time in the queue and in service within the window
# [warm-up, duration); intervals (`bucket_ns`) cover the whole run.
HISTOGRAM_TABLES: dict[str, tuple[Column, ...]] = {
    "times": (
        _OPERATOR,
        _WHAT,
        Column("count", "int64", "tuples", "tuples that count; for waiting and busy all visits"),
        _HIGH,
        _LOW,
        _time("min_ns", "least, -1 if there is none"),
        _time("max_ns", "greatest, -1 if there is none"),
    ),
    "time_bins": (
        _OPERATOR,
        _WHAT,
        _BIN,
        Column("count", "int64", "tuples", "tuples whose time is in the bin"),
    ),
    "ended": (_BEGIN, _OPERATOR, Column("count", "int64", "tuples", "services that ended in the interval")),
    "delivered": (
        _BEGIN,
        _OPERATOR,
        Column("count", "int64", "tuples", "deliveries in the interval"),
        _HIGH,
        _LOW,
        _time("max_ns", "greatest latency of them"),
    ),
    "delivered_bins": (  # by far the largest of them, so its columns are narrow
        Column("interval", "int32", "", "number of the interval, from 0"),
        Column("operator", "int16", "", "index into `operators`"),
        Column("bin", "int16", "", "as in `time_bins`"),
        Column("count", "int32", "tuples", "deliveries in the interval with a latency in the bin"),
    ),
}
_MOST_BUCKETS = 3600
_SECOND = 1_000_000_000


def bucket_ns(duration_ns: int) -> int:
    """Return the length [ns] of an interval of the tables of histograms.

    It is a second, or so many whole seconds that at most 3600 intervals cover the run.

    `duration_ns`: duration of the run, without its warm-up taken off.

    >>> bucket_ns(3600 * 10**9), bucket_ns(3601 * 10**9)
    (1000000000, 2000000000)
    """
    return _SECOND * max(1, -(-duration_ns // (_MOST_BUCKETS * _SECOND)))


SCAN, EVENT_LOOP, BOTH, PLAIN = "scan", "event loop", "scan and event loop", "plain"


@dataclass(frozen=True)
class Kernel:
    """The engine that ran, and why it was chosen; rows do not depend on it.

    `name`: SCAN, EVENT_LOOP, PLAIN, or BOTH in turns. `why`: a sentence for people; with BOTH it has the share of each.
    """

    name: str
    why: str


@dataclass(frozen=True)
class RunRecords:
    """All rows of one replication; columns are numpy arrays of equal length, read-only.

    `replication`: its number, from 0. `warmup_ns`, `duration_ns`: of the scenario. `operators`, `tasks`, `hosts`: the
    names that indices refer to; `tasks` grows when recovery starts a task on a host that had none. `task_operator`
    (n_tasks,): each task's operator. `tables`: table -> column -> array; those of TABLES, and where histograms were
    recorded also of HISTOGRAM_TABLES, with `visits` and `deliveries` empty.

    `resolution`: tuples of the job that a simulated one stands for. Columns of TABLES that count tuples count those of
    the job. Rows of `visits`, `waiting`, `deliveries` and `dropped`, and the tables of histograms, are about simulated
    ones, each of which stands for so many.
    """

    replication: int
    warmup_ns: int
    duration_ns: int
    operators: tuple[str, ...]
    tasks: tuple[str, ...]
    task_operator: tuple[int, ...]
    hosts: tuple[str, ...]
    servers: tuple[int, ...]  # per operator: threads of all its tasks at the start, at most the cores shared evenly
    tables: Mapping[str, Mapping[str, np.ndarray]]
    kernel: Kernel | None = None  # None where the data plane was given
    resolution: int = 1

    @property
    def detail(self) -> Detail:
        """Return the level of detail about single tuples in the tables."""
        return "histograms" if HISTOGRAM_TABLES.keys() <= self.tables.keys() else "tuples"


def table(name: str, rows: list[tuple[object, ...]] | Mapping[str, object]) -> dict[str, np.ndarray]:
    """Return the rows as read-only columns of the table's schema.

    `rows`: tuples in the order of the columns, or columns by name. Raises KeyError for an unknown table, and ValueError
    for rows of another length.

    >>> made = table("lag", [(0, 1, 5), (1_000_000_000, 1, 7)])
    >>> made["lag"].tolist(), made["operator"].dtype
    ([5, 7], dtype('int32'))
    """
    columns = TABLES[name] if name in TABLES else HISTOGRAM_TABLES[name]
    if isinstance(rows, Mapping):
        given = [rows[column.name] for column in columns]
    else:
        given = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in columns]
    made = {}
    for column, values in zip(columns, given, strict=True):
        array = np.asarray(values, dtype=np.str_ if column.dtype == "str" else column.dtype)
        array.setflags(write=False)
        made[column.name] = array
    return made
