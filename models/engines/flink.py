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
    ranges = "key-group ranges", "KeyGroupRangeAssignment"
    yield EngineDefault("operators.*.key_group_assignment", "ranges", *ranges)
    yield EngineDefault("detector.heartbeat", "10 s", "heartbeat.interval", configuration)
    yield EngineDefault("detector.timeout", "50 s", "heartbeat.timeout", configuration)
    yield EngineDefault("detector.failed_calls", 2, "heartbeat.rpc-failure-threshold", configuration)
    yield EngineDefault("detector.connection", "88 ms", "", _MEASURED)
    yield EngineDefault("recovery.strategy", _strategy(version), "restart-strategy.type", "release notes 1.19")
    yield EngineDefault("recovery.attempt", "46 ms", "", _MEASURED)
    region = "jobmanager.execution.failover-strategy: region"
    yield EngineDefault("fault_tolerance.method", "region-restart", region, configuration)
    yield EngineDefault("fault_tolerance.store", "remote", "execution.checkpointing.dir", configuration)
    yield EngineDefault("fault_tolerance.kind", "full", "execution.checkpointing.incremental: false", configuration)
    coordinator = "CheckpointCoordinator"
    first = "delay of the first checkpoint: random, minimum pause to interval"
    yield EngineDefault("fault_tolerance.barriers.first", "random", first, coordinator)
    again = "delay after a restart: the minimum pause" if version == LATEST else "delay after a restart: random"
    restarted = "at-once" if version == LATEST else "random"
    yield EngineDefault("fault_tolerance.barriers.restarted", restarted, again, coordinator)
    yield EngineDefault("fault_tolerance.barriers.min_pause", "0 s", "execution.checkpointing.min-pause", configuration)
    yield EngineDefault("fault_tolerance.barriers.timeout", "10 min", "execution.checkpointing.timeout", configuration)
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
        "Failover regions",
        Status.MODELLED,
        "All tasks that are connected to a lost one restart, as many as before, with the default scheduler. A job "
        "whose strategy gives up has failed.",
        ("fault_tolerance.method",),
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
        "Fixed delay, exponential delay and failure rate, with restarts in vain while the dead TaskManager counts. The "
        "exponential delay is that of 1.19 and later.",
        ("recovery.strategy", "recovery.attempt"),
    ),
    Behaviour(
        "Slots",
        Status.SIMPLIFIED,
        "One slot-sharing group. A region waits until all of its tasks have a slot, for as long as it takes: "
        "slot.request.timeout is not modelled. A replacement TaskManager is a host that comes back.",
        ("hosts.*.slots", "placement.slot_sharing"),
    ),
    Behaviour(
        "Checkpoints",
        Status.SIMPLIFIED,
        "Aligned barriers travel among the tuples, one checkpoint at a time, and a failure ends the one under way. "
        "Queues have no bound unless `buffer` gives one: then a backlog is in front of the barriers, and not in the "
        "source. The store's link is first in, first out: the last snapshot is there as early as if all shared it.",
        ("fault_tolerance.store", "fault_tolerance.kind", "fault_tolerance.snapshots.mode"),
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
        "after its barriers. Cancelling the tasks takes no time.",
    ),
    Behaviour(
        "Large and warm state",
        Status.SIMPLIFIED,
        "A fixed state has its full size from the start, and `change` says what tuples change in it. Increments are "
        "not compacted, state backends differ in their rates only, and there is no local recovery.",
    ),
    Behaviour("Unaligned checkpoints", Status.ABSENT, "No in-flight data in checkpoints, and no alignment time-out."),
    Behaviour(
        "Limits of checkpoints",
        Status.SIMPLIFIED,
        "One that is not complete within the time-out is given up, and the job goes on: "
        "execution.checkpointing.tolerable-failed-checkpoints is not modelled, nor are concurrent checkpoints.",
        ("fault_tolerance.barriers.timeout",),
    ),
    Behaviour("Transactional sinks", Status.ABSENT, "Outputs are visible as soon as they are delivered."),
    Behaviour("Rescaling", Status.ABSENT, "No savepoints, adaptive scheduler, reactive mode or autoscaler."),
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
