"""Kafka Streams as a scenario has it: tasks that commit on their own, changelogs, standbys, and the classic protocol.

Sources are named by class or option. Nothing of it was compared with recordings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from models.engines.behaviours import Behaviour, EngineDefault, Milestone, Status

Version = Literal["3.9", "4.0", "4.1", "4.2", "4.3"]
LATEST: Version = "4.3"
TITLE = "Kafka Streams"
SHORT = "Kafka Streams"

_GUARANTEE = "fault_tolerance.guarantee"


def defaults(version: str) -> Iterator[EngineDefault]:
    """Yield what a scenario says of a version where its file says nothing; the table of behaviours has each path."""
    streams, consumer = f"Kafka {version}, StreamsConfig", f"Kafka {version}, ConsumerConfig"
    yield EngineDefault("hosts.*.cores", 1, "num.stream.threads", streams)
    yield EngineDefault("hosts.*.cpu", "shared", "a thread runs its tasks in turn", "StreamThread")
    yield EngineDefault("detector.heartbeat", "3 s", "heartbeat.interval.ms", consumer)
    yield EngineDefault("detector.timeout", "45 s", "session.timeout.ms", consumer)
    member = "a process that starts again is a new member, for which the group waits as for the old one"
    yield EngineDefault("detector.returns", "unnoticed", member, "group coordinator, dynamic membership")
    heard = "members hear of a rebalance with the answer to a heartbeat"
    yield EngineDefault("recovery.allocate", _up_to("3 s"), heard, "AbstractCoordinator")
    yield EngineDefault("recovery.restart", _up_to("0.1 s"), "poll.ms: and join at their next poll", streams)
    most, reading = "max.poll.records, of a poll of a stream thread", "operators.*.reading"
    yield EngineDefault(f"{reading}.poll", 1000, most, streams, where=reading)
    yield EngineDefault("fault_tolerance.method", "changelog", "changelog topics", "ProcessorStateManager")
    yield EngineDefault("fault_tolerance.store", "remote", "brokers have the changelogs", "ProcessorStateManager")
    yield EngineDefault("fault_tolerance.kind", "incremental", "a changelog gets what changes", "RecordCollector")
    yield EngineDefault(_GUARANTEE, "at-least-once", "processing.guarantee", streams)
    at_least, exactly = (_GUARANTEE, "at-least-once"), (_GUARANTEE, "exactly-once")
    interval, visible = "fault_tolerance.interval", "fault_tolerance.changelog.visible"
    yield EngineDefault(interval, "30 s", "commit.interval.ms", streams, when=at_least)
    yield EngineDefault(interval, "0.1 s", "commit.interval.ms", streams, when=exactly)
    yield EngineDefault(visible, "delivered", "no transactions", "RecordCollector", when=at_least)
    committed = "isolation.level: read_committed, of who reads the output"
    yield EngineDefault(visible, "committed", committed, "exactly_once_v2", when=exactly)
    yield EngineDefault("fault_tolerance.uploads", "shared", "each thread has a producer", "KafkaProducer")
    yield EngineDefault("fault_tolerance.snapshots.mode", "asynchronous", "the producer has a thread", "KafkaProducer")
    yield EngineDefault("fault_tolerance.changelog.standbys", 0, "num.standby.replicas", streams)
    warmups = "max.warmup.replicas, of the assignor HighAvailabilityTaskAssignor"
    yield EngineDefault("fault_tolerance.changelog.warmups", 2, warmups, streams)
    yield EngineDefault("fault_tolerance.changelog.probing", "10 min", "probing.rebalance.interval.ms", streams)
    yield EngineDefault("fault_tolerance.changelog.acceptable_lag", 10_000, "acceptable.recovery.lag", streams)
    ratio = "min.cleanable.dirty.ratio: 0.5, so as much again as the state at most, and half of that on average"
    yield EngineDefault("fault_tolerance.changelog.uncompacted", 0.5, ratio, f"Kafka {version}, TopicConfig")


def _up_to(high: str) -> dict[str, Any]:
    return {"distribution": "uniform", "low": "0 s", "high": high}


BEHAVIOURS = (
    Behaviour(
        "Instances and threads",
        Status.SIMPLIFIED,
        "A host is an instance, its cores are threads. An operator has at most as many tasks of ours as there are "
        "threads; what Kafka Streams calls a task is one of its key groups, which are the partitions of its input "
        "topic. Records wait for any thread of their instance, and not for that of their task. "
        "Instances on which tasks have started again are as fast as before unless `warm_up` says otherwise.",
        ("hosts.*.cores", "hosts.*.cpu", "recovery.warm_up"),
    ),
    Behaviour(
        "Topics",
        Status.SIMPLIFIED,
        "Sources and sinks are topics, on hosts of their own, the brokers, which do not fail; replication is latency. "
        "A topic between two operators is a channel: what a lost task had in it comes again once the task is restored.",
    ),
    Behaviour(
        "Polls",
        Status.SIMPLIFIED,
        "With `reading` of a topic its stream threads poll: a poll returns what waits at a task of ours, up to "
        "max.poll.records, takes its time of the thread, and the next one begins behind the last record of it. Without "
        "`cost` polls change nothing, since one returns as soon as there is a record. Nothing is fetched ahead, and "
        "tasks of one instance poll on their own. A member joins a rebalance at its next poll: with "
        "long polls set `recovery.restart`, by default up to poll.ms.",
        ("operators.*.reading.poll",),
    ),
    Behaviour(
        "Detection",
        Status.MODELLED,
        "The session time-out alone, 42 to 45 s after the death: a closed connection tells nobody. An instance that is "
        "back before that is a new member, and waits until then. All members have the same phase of heartbeats.",
        ("detector.heartbeat", "detector.timeout", "detector.returns"),
    ),
    Behaviour(
        "Cooperative rebalance",
        Status.MODELLED,
        "Tasks of other instances go on while lost ones are assigned and restored.",
    ),
    Behaviour(
        "Classic protocol",
        Status.SIMPLIFIED,
        "The group waits for its slowest member, with one time drawn for all: up to a heartbeat interval (set "
        "`recovery.allocate` with another one) and a poll. Joining takes no more time. A member that comes is not "
        "assigned anything before all that count are there.",
        ("recovery.allocate", "recovery.restart"),
    ),
    Behaviour(
        "Protocol streams",
        Status.SIMPLIFIED,
        "KIP-1071, general since 4.2, and chosen by group.protocol: classic is the default of all versions. The broker "
        "assigns tasks, and each member takes its own with its next heartbeat; nobody waits for the slowest. A failure "
        "is the same with the times of the group: `detector.heartbeat` and `recovery.allocate` up to 5 s "
        "(streams.heartbeat.interval.ms), but for one time drawn for all members. An instance that joins gets its "
        "tasks without warm-ups there, which is absent.",
    ),
    Behaviour(
        "Static members",
        Status.MODELLED,
        '`detector.returns = "resumed"` is group.instance.id: an instance that is back within the session time-out '
        "has its tasks again, and nobody rebalances. After a failure it comes back empty.",
        ("detector.returns",),
    ),
    Behaviour(
        "Stop and leave",
        Status.SIMPLIFIED,
        "An instance that closes (`host-restart`) has committed and closed its stores, at no cost; the record in work "
        "is done again. It leaves the group only if it says so (`leaves`: CloseOptions.leaveGroup, else "
        "internal.leave.group.on.close is false); else its session has to end.",
    ),
    Behaviour(
        "Assignment",
        Status.SIMPLIFIED,
        "A lost task goes to the standby that misses least, else to the instance with the fewest tasks. When an "
        "instance comes, tasks of each operator move until there are as many for each thread. Standbys stay where "
        "they are.",
    ),
    Behaviour(
        "Warm-ups and probing rebalances",
        Status.SIMPLIFIED,
        "A task moves when the new instance lacks no more than the acceptable lag; the rest gets warm-ups, a few at a "
        "time, and probing rebalances look for those that are complete. A task that moves is closed, and opened in "
        "the rebalance that follows. The lag is that of the last commit, counted in changes. A disk keeps states for "
        "as long as its instance is away (state.cleanup.delay.ms has no part).",
        (
            "fault_tolerance.changelog.warmups",
            "fault_tolerance.changelog.probing",
            "fault_tolerance.changelog.acceptable_lag",
        ),
    ),
    Behaviour(
        "Commits",
        Status.SIMPLIFIED,
        "At each interval all tasks commit at the same instant. What has changed is sent to the changelog then, as if "
        "the record cache held all of it, and with the first commit the whole state. A commit also has the outputs "
        "that another operator has not committed. All threads send at once, with equal shares of the rate `remote` of "
        "the brokers; what is restored meanwhile takes nothing from them.",
        (
            "fault_tolerance.method",
            "fault_tolerance.store",
            "fault_tolerance.kind",
            "fault_tolerance.interval",
            "fault_tolerance.uploads",
            "fault_tolerance.snapshots.mode",
        ),
    ),
    Behaviour(
        "Guarantees",
        Status.SIMPLIFIED,
        "At least once repeats what came since the last commit, outputs included; the state goes back to the commit, "
        "where that of Kafka Streams keeps changes since then. With exactly once (exactly_once_v2) nothing comes "
        "twice. Transactions cost nothing; an open one is aborted long before the session ends.",
        (_GUARANTEE,),
    ),
    Behaviour(
        "Restore",
        Status.SIMPLIFIED,
        "A changelog is fetched from its begin, one after the other at the rate `remote` of the brokers, and then "
        "turned into state beside the tasks, by as many threads as the instance has, which share it evenly: "
        "`deserialise` is records per second times their size. The store of an instance that has failed is not used "
        "again: so it is after an unclean end with exactly once, but not at least once where a disk is left.",
        ("fault_tolerance.changelog.uncompacted",),
    ),
    Behaviour(
        "Standby replicas",
        Status.SIMPLIFIED,
        "A standby has all that is committed, without lag, traffic or work. One that is lost, or has become the task, "
        "is made anew elsewhere from the changelog, and waits there while a task is restored.",
        ("fault_tolerance.changelog.standbys",),
    ),
    Behaviour(
        "Read committed",
        Status.SIMPLIFIED,
        "With exactly once sinks take outputs when all tasks have committed, and not thread by thread; open "
        "transactions of a lost task are visible then, too, and not dropped. Tasks that read the output of others do "
        "not wait for its commit.",
        ("fault_tolerance.changelog.visible",),
    ),
    Behaviour(
        "Windows",
        Status.SIMPLIFIED,
        "A window emits once, at its end, by watermarks of the topics, as with suppress or EmitStrategy.onWindowClose. "
        "Kafka Streams emits at each change unless told so; its time is that of the records of a task (stream time), "
        "which stands where none come; there is no grace. Its changelogs keep windows for a day more than they are "
        "retained. Punctuators are a `timer`.",
        ("operators.*.window", "operators.*.timer"),
    ),
    Behaviour(
        "Threads that fail",
        Status.ABSENT,
        "No thread is stuck until the group removes it (max.poll.interval.ms), and none dies alone "
        "(StreamsUncaughtExceptionHandler): instances fail as a whole.",
    ),
    Behaviour(
        "Rescaling",
        Status.MODELLED,
        "Instances come (`host-join`) and go (`host-restart` without `down`). Threads of an instance are as many as at "
        "the start.",
    ),
    Behaviour(
        "Partitioner",
        Status.MODELLED,
        "Keys find their partition by Kafka's hash of a string where `key_hash` says so, else by another one that is "
        "as even. Keys of other types are serialised to other bytes, which are not modelled.",
        ("operators.*.key_hash",),
    ),
)

# As the log of a broker and of the client have them.
MILESTONES = (
    Milestone("detect", "removed", "removing it from the group", "the session of the instance has ended"),
    Milestone("restart", "stabilized", "Stabilized group", "all members have joined again, and tasks have an owner"),
    Milestone("restore", "restored", "Restored and ready to run", "each task has its state"),
    Milestone("catch_up", "caught_up", "caught up", "the lag of all tasks is worked off"),
)

# The same from the stop of an instance on.
RESCALING_MILESTONES = (
    Milestone("detect", "noticed", "LeaveGroup", "the group knows: it has left, its session has ended, or it is back"),
    Milestone("restart", "stabilized", "Stabilized group", "all members have joined again, unless it is back in time"),
    Milestone("restore", "restored", "Restored and ready to run", "each task has its state"),
    Milestone("catch_up", "caught_up", "caught up", "the lag of all tasks is worked off"),
)
