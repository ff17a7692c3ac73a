"""Apache Flink as a scenario has it: the values that its version sets, and what of it is modelled.

Sources are named by option or class. *Measured* values are those of 32 kills of TaskManagers of Flink 2.3 on one
machine, as `tests/data/engine` records them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from models.engines.behaviours import Behaviour, EngineDefault, Milestone, Status
from models.engines.restart_strategies import UNLIMITED

Version = Literal["1.18", "1.19", "1.20", "2.0", "2.1", "2.2", "2.3"]
LATEST: Version = "2.3"
TITLE = "Apache Flink"
SHORT = "Flink"

_MEASURED = "measured, Flink 2.3"


def defaults(version: str) -> Iterator[EngineDefault]:
    """Yield what a scenario says of a version where its file says nothing; the table of behaviours has each path."""
    configuration = f"Flink {version}, configuration"
    yield EngineDefault("hosts.*.slots", 1, "taskmanager.numberOfTaskSlots", configuration)
    yield EngineDefault("placement.slot_sharing", True, "slot sharing groups: one for the job", "Flink, Task Slots")
    yield EngineDefault("placement.chaining", True, "pipeline.operator-chaining.enabled", configuration)
    ranges = "key-group ranges", "KeyGroupRangeAssignment"
    yield EngineDefault("operators.*.key_group_assignment", "ranges", *ranges)
    yield EngineDefault("detector.heartbeat", "10 s", "heartbeat.interval", configuration)
    yield EngineDefault("detector.timeout", "50 s", "heartbeat.timeout", configuration)
    yield EngineDefault("detector.failed_calls", 2, "heartbeat.rpc-failure-threshold", configuration)
    yield EngineDefault("detector.connection", "88 ms", "", _MEASURED)
    yield EngineDefault("recovery.strategy", _strategy(version), "restart-strategy.type", "release notes 1.19")
    yield EngineDefault("recovery.attempt", "46 ms", "", _MEASURED)
    yield EngineDefault("recovery.slot_timeout", "5 min", "slot.request.timeout", configuration)
    yield EngineDefault("recovery.scheduler", "default", "jobmanager.scheduler", configuration)
    adaptive = "jobmanager.adaptive-scheduler"
    for key, value, option in (
        ("cooldown", "30 s", "executing.cooldown-after-rescaling"),
        ("gathering", "1 min", "executing.resource-stabilization-timeout"),
        ("failed_checkpoints", 2, "rescale-trigger.max-checkpoint-failures"),
    ):
        yield EngineDefault(f"recovery.adaptive.{key}", value, f"{adaptive}.{option}", f"Flink {LATEST}, configuration")
    waits = version not in ("1.18", "1.19", "1.20")
    trigger = "rescaling follows a checkpoint" if waits else "rescaling does not wait for a checkpoint"
    yield EngineDefault("recovery.adaptive.at_checkpoint", waits, trigger, "FLIP-461, 2.0")
    region = "jobmanager.execution.failover-strategy: region"
    yield EngineDefault("fault_tolerance.method", "region-restart", region, configuration)
    yield EngineDefault("fault_tolerance.store", "remote", "execution.checkpointing.dir", configuration)
    beside = "each task restores in a thread of its own, and runs once it has its state"
    yield EngineDefault("fault_tolerance.restores", "shared", beside, "StreamTask")
    at_once = "each task uploads its snapshot in a thread of its own"
    yield EngineDefault("fault_tolerance.uploads", "shared", at_once, "AsyncCheckpointRunnable")
    yield EngineDefault("fault_tolerance.kind", "full", "execution.checkpointing.incremental: false", configuration)
    coordinator = "CheckpointCoordinator"
    first = "delay of the first checkpoint: random, minimum pause to interval"
    yield EngineDefault("fault_tolerance.barriers.first", "random", first, coordinator)
    again = "delay after a restart: the minimum pause" if version == LATEST else "delay after a restart: random"
    restarted = "at-once" if version == LATEST else "random"
    yield EngineDefault("fault_tolerance.barriers.restarted", restarted, again, coordinator)
    yield EngineDefault("fault_tolerance.barriers.min_pause", "0 s", "execution.checkpointing.min-pause", configuration)
    yield EngineDefault("fault_tolerance.barriers.timeout", "10 min", "execution.checkpointing.timeout", configuration)
    tolerated = "execution.checkpointing.tolerable-failed-checkpoints"
    yield EngineDefault("fault_tolerance.barriers.tolerated_failures", 0, tolerated, configuration)
    concurrent = "execution.checkpointing.max-concurrent-checkpoints"
    yield EngineDefault("fault_tolerance.barriers.concurrent", 1, concurrent, configuration)
    enabled = "execution.checkpointing.unaligned.enabled"
    yield EngineDefault("fault_tolerance.barriers.unaligned", False, enabled, configuration)
    aligned = "execution.checkpointing.aligned-checkpoint-timeout"
    yield EngineDefault("fault_tolerance.barriers.alignment_timeout", "0 s", aligned, configuration)
    written = "a thread beside the task writes"
    yield EngineDefault("fault_tolerance.snapshots.mode", "asynchronous", written, "AsyncCheckpointRunnable")


def default_max_parallelism(parallelism: int) -> int:
    """Return the key groups of an operator that does not say how many; `KeyGroupRangeAssignment`.

    >>> default_max_parallelism(24), default_max_parallelism(86), default_max_parallelism(21845)
    (128, 256, 32768)
    """
    return min(max(1 << (parallelism + parallelism // 2 - 1).bit_length(), 128), 32768)


def _strategy(version: str) -> dict[str, Any]:
    """Return the restart strategy of a job with checkpoints that sets none: another one since 1.19 (FLINK-33736)."""
    if version == "1.18":
        return {"kind": "fixed-delay", "attempts": UNLIMITED}  # after 1 s
    return {"kind": "exponential-delay"}


BEHAVIOURS = (
    Behaviour(
        "Operator chains",
        Status.SIMPLIFIED,
        "On, as in Flink: forward edges of equal parallelism, with one input, in the same slots. One thread takes a "
        "record all the way down, barriers pass at once, and each operator has its own snapshot. disableChaining and "
        "startNewChain are `chain = false`. What a source has read waits in front of its chain, and not in the source: "
        "a `buffer` there bounds it. Barriers that overtake do so between chained operators, too. Not chained: what "
        "reads an operator with more key groups than tasks, tasks that share cores by priority, and all of a job that "
        "is rescaled or has replicas.",
        ("placement.chaining", "operators.*.chain"),
    ),
    Behaviour(
        "Cores",
        Status.SIMPLIFIED,
        "A task has a core of its own, or hosts share theirs. With `warm_up` a host is slower for a time after tasks "
        "have started there: code that is not compiled, cold caches. Without it, as in the comparison with recordings, "
        "it is not: there the fit is no better with it.",
        ("hosts.*.cpu", "recovery.warm_up"),
    ),
    Behaviour(
        "Sources",
        Status.SIMPLIFIED,
        "A source reads a durable log in the order in which it was written, and what it reads costs nothing, unless "
        "`reading` says otherwise.",
    ),
    Behaviour(
        "Files and polls",
        Status.SIMPLIFIED,
        "With `reading` a source reads file by file, or poll by poll, each with its own cost. Files that wait are read "
        "as they were written, the newest one first, or at random; after a restart the order holds for what is read "
        "again and for what has come meanwhile, as if listed anew. A file is read as a whole between two barriers, and "
        "reading takes no core from its host.",
        ("operators.*.reading",),
    ),
    Behaviour(
        "Splits",
        Status.ABSENT,
        "Each task of a source reads its own log. No enumerator hands out splits to the task that asks first, no task "
        "reads several partitions in turns, and event time does not go with files.",
    ),
    Behaviour(
        "Failover regions",
        Status.MODELLED,
        "All tasks that are connected to a lost one restart, as many as before, with the default scheduler; all tasks "
        "of the job with the adaptive one. A job whose strategy gives up has failed.",
        ("fault_tolerance.method", "recovery.scheduler"),
    ),
    Behaviour(
        "Detection",
        Status.MODELLED,
        "Broken connections, refused heartbeats and the heartbeat time-out, whichever is first. All hosts have the "
        "same phase of heartbeats, and a TaskManager that comes back counts as registered at once.",
        ("detector.heartbeat", "detector.timeout", "detector.failed_calls", "detector.connection", "detector.returns"),
    ),
    Behaviour(
        "Restart strategies",
        Status.MODELLED,
        "Fixed delay, exponential delay and failure rate, with restarts in vain while the dead TaskManager counts. "
        "Each region that fails counts, unless the exponential delay plans a restart already. That delay is the one of "
        "1.19 and later.",
        ("recovery.strategy", "recovery.attempt"),
    ),
    Behaviour(
        "Slots",
        Status.SIMPLIFIED,
        "One slot-sharing group. A region waits until all of its tasks have a slot, and fails again after the time-out "
        "of slot requests; a standalone cluster fails at once after its start-up period, which is not modelled. A "
        "replacement TaskManager is a host that comes back.",
        ("hosts.*.slots", "placement.slot_sharing", "recovery.slot_timeout"),
    ),
    Behaviour(
        "Checkpoints",
        Status.SIMPLIFIED,
        "Barriers travel among the tuples, and a failure ends the checkpoints under way. With several at a time the "
        "barriers of a later one come behind on every channel, and one that is complete first subsumes those before. "
        "Queues have no bound unless `buffer` gives one: then a backlog is in front of the barriers, and not in the "
        "source. All tasks send their snapshots to the store at once, with equal shares of its rate, each one key "
        "group after the other. What belongs to a checkpoint that was given up is sent all the same while another one "
        "goes on.",
        (
            "fault_tolerance.store",
            "fault_tolerance.uploads",
            "fault_tolerance.kind",
            "fault_tolerance.snapshots.mode",
        ),
    ),
    Behaviour(
        "Begin of checkpoints",
        Status.MODELLED,
        "The first one, and one after a restart, begin at random or after the minimum pause, by version; the next one "
        "an interval after the begin of the one before, and not before its end and the minimum pause. In which release "
        "the time after a restart became the minimum pause is not known: 2.3 has it.",
        ("fault_tolerance.barriers.first", "fault_tolerance.barriers.restarted", "fault_tolerance.barriers.min_pause"),
    ),
    Behaviour(
        "Restore",
        Status.MODELLED,
        "A region goes back to the last checkpoint that all tasks have completed, and sources send again what came "
        "after its barriers. Cancelling the tasks takes no time. All tasks read the store at once, with equal shares "
        "of its rate, and each runs once it has all of its state.",
        ("fault_tolerance.restores",),
    ),
    Behaviour(
        "Large and warm state",
        Status.SIMPLIFIED,
        "A fixed state has its full size from the start, and `change` says what tuples change in it. Increments have "
        "what changed since the last complete checkpoint. With `compaction` they are files that RocksDB merges: after "
        "some of them one has level 1 of the task as well, and a restore reads the state and the files that are not "
        "merged. Deeper levels count as merged, and what they write again is not modelled; nor is that the first "
        "increments after a rescaling in place share no files. Otherwise state backends differ in their rates only.",
        ("fault_tolerance.compaction",),
    ),
    Behaviour(
        "Unaligned checkpoints",
        Status.SIMPLIFIED,
        "The first barrier waits for the record in work, and overtakes what waits at the task and what that has not "
        "sent. In-flight data is stored, restored before new input, and processed once. From the alignment time-out "
        "on, counted from the trigger, aligned barriers begin to overtake. Barriers overtake on pointwise and "
        "broadcast connections, too, where Flink aligns them, but not what is on a link. In-flight data is read by "
        "the task that receives it, and watermarks are no part of it.",
        ("fault_tolerance.barriers.unaligned", "fault_tolerance.barriers.alignment_timeout"),
    ),
    Behaviour(
        "Limits of checkpoints",
        Status.SIMPLIFIED,
        "One that is not complete within the time-out has expired. One more in a row than is tolerated fails the job: "
        "all of it is restarted. No other checkpoint fails here: none is declined, and the store never refuses one. "
        "While as many are under way as may be the next one waits; triggers do not queue up behind it.",
        (
            "fault_tolerance.barriers.timeout",
            "fault_tolerance.barriers.tolerated_failures",
            "fault_tolerance.barriers.concurrent",
        ),
    ),
    Behaviour(
        "Local recovery",
        Status.SIMPLIFIED,
        "Off unless it is set, as in Flink (execution.checkpointing.local-backup.enabled and "
        "execution.state-recovery.from-local). Tasks that start again on their TaskManager read the copy of the last "
        "complete checkpoint on its disk, and those of a lost one the store. Writing the copies takes no time and no "
        "space, and tasks of a TaskManager read its disk with equal shares.",
        ("fault_tolerance.local_recovery",),
    ),
    Behaviour(
        "Transactional sinks",
        Status.SIMPLIFIED,
        "What a sink with commit = at-checkpoint delivers is visible when the checkpoint is complete that covers it; "
        "what was not committed is delivered again after a restart. Commits take no time, also at a sink that is down "
        "then, for which Flink commits when it restores it, and transactions have no time-out. With unaligned barriers "
        "what is delivered again may be visible one checkpoint later than the rows say. The times are known where "
        "single tuples are recorded. Outputs of other sinks are visible as soon as they are delivered.",
        ("operators.*.commit",),
    ),
    Behaviour(
        "Savepoints",
        Status.SIMPLIFIED,
        "A job that is rescaled stops with a savepoint: sources stop at its barrier, and once it is complete all tasks "
        "end at one instant. The job is submitted again after `submit`, and takes a first checkpoint as a new one. A "
        "savepoint has whole states, and so has the first checkpoint after it, also beside increments. It is written "
        "as fast as a checkpoint. There are no others, claim modes make no difference, and the maximum parallelism "
        "cannot change. Sources are not drained (--drain): no last watermark ends the windows, whose content is in the "
        "savepoint.",
    ),
    Behaviour(
        "Rescaling",
        Status.SIMPLIFIED,
        "The adaptive scheduler cancels all tasks, goes back to the last checkpoint, and starts with as many tasks as "
        "are asked for, or as there are slots: after a failure, when slots come back, and when an event asks for it. "
        "Cancelling takes no time. Operators without key groups never have more tasks than at the start, and neither "
        "does a job in reactive mode. Before 2.0 the cooldown, which came with 1.19, is that of 2.3. No autoscaler.",
        (
            "recovery.adaptive.wait",
            "recovery.adaptive.stabilisation",
            "recovery.adaptive.cooldown",
            "recovery.adaptive.gathering",
            "recovery.adaptive.at_checkpoint",
            "recovery.adaptive.failed_checkpoints",
            "recovery.adaptive.delay",
        ),
    ),
    Behaviour(
        "Key groups",
        Status.MODELLED,
        "Each task has a range of them. Keys find theirs by the hash of a number or a string where `key_hash` says so, "
        "else by another one that is as even. SQL keys have a hash of their own, which is not modelled.",
        ("operators.*.key_hash", "operators.*.key_group_assignment"),
    ),
)

# Of job and tasks as the REST interface shows them: `timestamps` of the job, states of subtasks.
MILESTONES = (
    Milestone("detect", "restarting", "RESTARTING", "the failure is noticed; cancelling takes no time here"),
    Milestone("allocate", "running", "RUNNING", "the last restart; each task has a slot"),
    Milestone("restart", "initializing", "INITIALIZING", "tasks are deployed"),
    Milestone("restore", "restored", "RUNNING, tasks", "each task has its state"),
    Milestone("catch_up", "caught_up", "caught up", "the backlog is worked off"),
)

# The same from the request on, where the job gets other tasks: it is another job, or its tasks are cancelled.
RESCALING_MILESTONES = (
    Milestone("detect", "ended", "FINISHED, or CANCELED", "the savepoint is complete; in place: tasks are cancelled"),
    Milestone("allocate", "running", "RUNNING", "the job is submitted again, and each task has a slot"),
    Milestone("restart", "initializing", "INITIALIZING", "tasks are deployed"),
    Milestone("restore", "restored", "RUNNING, tasks", "each task has the states of its key groups"),
    Milestone("catch_up", "caught_up", "caught up", "the backlog is worked off"),
)
