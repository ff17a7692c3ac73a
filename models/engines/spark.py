"""Apache Spark Structured Streaming as a scenario has it: micro-batches with a processing-time trigger.

Sources are named by option or class. *Measured* values are those of six kills of Spark 4.3 on a lightly loaded machine,
as `tests/data/engine` records them: medians of the batches before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from models.engines.behaviours import Behaviour, EngineDefault, Milestone, Status

Version = Literal["3.5", "4.0", "4.1", "4.2", "4.3"]
LATEST: Version = "4.3"
TITLE = "Apache Spark"
SHORT = "Spark"

_MEASURED = "measured, Spark 4.3"


def defaults(version: str) -> Iterator[EngineDefault]:
    """Yield what a scenario says of a version where its file says nothing; the table of behaviours has each path."""
    configuration = f"Spark {version}, configuration"
    yield EngineDefault("hosts.*.cores", 1, "spark.executor.cores", configuration)
    yield EngineDefault("hosts.*.cpu", "shared", "spark.task.cpus: 1", configuration)
    yield EngineDefault("detector.heartbeat", "10 s", "spark.executor.heartbeatInterval", configuration)
    yield EngineDefault("detector.timeout", "2 min", "spark.network.timeout", configuration)
    yield EngineDefault("detector.check", "1 min", "spark.network.timeoutInterval", configuration)
    disconnected = "an executor whose connection closes is removed at once"
    yield EngineDefault("detector.connection", "0 s", disconnected, "CoarseGrainedSchedulerBackend")
    yield EngineDefault("fault_tolerance.method", "micro-batch", "a query runs batch by batch", "MicroBatchExecution")
    yield EngineDefault("fault_tolerance.micro_batches.plan", _fixed("116 ms"), "", _MEASURED)
    yield EngineDefault("fault_tolerance.micro_batches.commit", _fixed("38 ms"), "", _MEASURED)
    yield EngineDefault("fault_tolerance.store", "remote", "checkpointLocation", "DataStreamWriter")
    at_once = "each task commits its state store by itself"
    yield EngineDefault("fault_tolerance.uploads", "shared", at_once, "StateStoreRDD")
    provider = "spark.sql.streaming.stateStore.providerClass: HDFS-backed"
    yield EngineDefault("fault_tolerance.kind", "incremental", provider, configuration)
    commits = "a task ends with the commit of its state store"
    yield EngineDefault("fault_tolerance.snapshots.mode", "synchronous", commits, "StateStoreRDD")


def _fixed(value: str) -> dict[str, Any]:
    return {"distribution": "deterministic", "value": value}


BEHAVIOURS = (
    Behaviour(
        "Triggers",
        Status.MODELLED,
        "A batch begins at a multiple of `fault_tolerance.interval`, at once after one that took longer or after a "
        "start, and not without data. A trigger of 0 s is a short interval, as of 1 ms.",
        ("fault_tolerance.method",),
    ),
    Behaviour(
        "Batches",
        Status.SIMPLIFIED,
        "A batch has what has arrived at its trigger, runs stage by stage, and is visible once all states are stored. "
        "Its fixed costs are one time of planning and one of the commit.",
        ("fault_tolerance.micro_batches.plan", "fault_tolerance.micro_batches.commit"),
    ),
    Behaviour(
        "Limits of a batch",
        Status.SIMPLIFIED,
        "`max_offsets` is maxOffsetsPerTrigger of each Kafka source, whose partitions are its tasks: they share it in "
        "proportion to what waits, and what is left waits for the next trigger. There is no minOffsetsPerTrigger, and "
        "no limit of files or bytes.",
        ("fault_tolerance.micro_batches.max_offsets",),
    ),
    Behaviour(
        "Executors and cores",
        Status.SIMPLIFIED,
        "A host is an executor, whose tasks wait for its cores tuple by tuple, and not task by task. There are as many "
        "as the scenario says: no dynamic allocation, no speculative execution, and no waiting for locality. "
        "Hosts on which tasks have started again are as fast as before unless `warm_up` says otherwise.",
        ("hosts.*.cores", "hosts.*.cpu", "recovery.warm_up"),
    ),
    Behaviour(
        "State stores",
        Status.SIMPLIFIED,
        "Each batch ends with a version of each state, which has what changed. There are no snapshots beside deltas, "
        "no maintenance, no compaction, and no difference between providers but their rates. All tasks write theirs at "
        "once, with equal shares of the store; what is loaded meanwhile takes nothing from them.",
        (
            "fault_tolerance.store",
            "fault_tolerance.kind",
            "fault_tolerance.snapshots.mode",
            "fault_tolerance.uploads",
        ),
    ),
    Behaviour(
        "Detection of executors",
        Status.SIMPLIFIED,
        "Broken connections at once, else the time-out, which is looked at each minute: a silent executor is removed "
        "110 to 180 s after its death. Looks are at multiples of a minute, whenever the driver "
        "was started. spark.task.maxFailures is absent.",
        ("detector.heartbeat", "detector.timeout", "detector.check", "detector.connection", "detector.returns"),
    ),
    Behaviour(
        "Loss of an executor",
        Status.MODELLED,
        "Its tasks run again elsewhere inside the batch, with their state, and others are not repeated. An executor "
        "that comes back is used for what is lost later.",
    ),
    Behaviour(
        "Loss of the driver",
        Status.MODELLED,
        "All executors end. Whoever supervises the driver needs `allocate` until there is a container; process, "
        "session and query start in `restart`. The driver is on the host of the first task, and gets executors on all "
        "hosts that live then: one that had died before, and that nobody has missed, is noticed then.",
        ("recovery.allocate", "recovery.restart"),
    ),
    Behaviour(
        "Interrupted batch",
        Status.SIMPLIFIED,
        "What was not committed runs again first, with exactly its range, and then the backlog in one batch, or in as "
        "many as `max_offsets` makes of it. The range counts as logged at the trigger, and not some 50 ms later.",
    ),
    Behaviour(
        "First batch after a start",
        Status.SIMPLIFIED,
        "All states are loaded inside it, after planning, and `cold` is added to its planning.",
        ("fault_tolerance.micro_batches.cold",),
    ),
    Behaviour(
        "Windows",
        Status.SIMPLIFIED,
        "A window emits once (append mode), with the batch after the one whose watermark has passed its end; for the "
        "last ones there is a batch without data. The watermark of a batch is the trigger of the last one with data, "
        "and not the newest event time: no record is late, and there is no delay of withWatermark. One window on the "
        "way to a sink, and none beside `max_offsets`. No update or complete mode, and no session windows.",
        ("operators.*.window",),
    ),
    Behaviour(
        "Joins and timers",
        Status.ABSENT,
        "Joins of two streams in windows, and timers (transformWithState), are refused.",
    ),
    Behaviour("Other modes", Status.ABSENT, "No real-time or continuous mode, and no asynchronous progress tracking."),
    Behaviour("Rescaling", Status.ABSENT, "The number of state partitions is that of the checkpoint."),
    Behaviour("Partitions", Status.SIMPLIFIED, "Keys are spread evenly, and not by Spark's hash."),
)

# Spark has no states of a query: these instants are seen in its progress reports.
MILESTONES = (
    Milestone("restart", "planned", "first batch planned", "process, session and query are up, and its plan is made"),
    Milestone("catch_up", "caught_up", "caught up", "the end of the batch with which the backlog is worked off"),
)
