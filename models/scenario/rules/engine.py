"""Rules of an engine: what it does not have, and what it needs said."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from models import units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import (
    DriverFailure,
    Event,
    HostFailure,
    HostJoin,
    HostRestart,
    Rebalance,
    Rescale,
    WorkerFailure,
)
from models.scenario.job import Operator
from models.scenario.rules import cluster, storm
from models.scenario.rules.dataflow import whole
from models.scenario.runtime import AdaptiveScheduling, StateStore, Waves, Workers
from models.scenario.scenario import Scenario
from models.topology import layout
from models.validation_messages import path_text


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of a scenario that names an engine; `broken` as in `models.scenario.rules.faults`."""
    engine = scenario.engine
    if engine is None:
        return
    words = _WORDS[engine.name]
    for name, event in scenario.events.items():
        hint = _without(event, engine.name)
        if hint is not None:
            yield InputFault(
                path_text(("events", name, "kind")), event.kind, f"is not simulated with {engine.title}", hint
            )
    if scenario.elasticity.policy != "none":
        rule = f"is not simulated with {engine.title}"
        yield InputFault("elasticity.policy", scenario.elasticity.policy, rule, words.elasticity)
    if engine.name != "storm":
        yield from _without_storm(scenario, engine.short)
    if scenario.detector.errs:
        rule = f"is not simulated with {engine.short}, whose heartbeats are calls over TCP"
        yield InputFault("detector.loss", scenario.detector.loss, rule, "remove detector.loss and detector.delay")
    detector = scenario.detector
    if "detector" not in broken and detector.timeout_s < detector.heartbeat_s:
        rule = f"must be at least {words.heartbeat}, which is {units.show(detector.heartbeat_s, 's')}"
        shown = units.show(detector.timeout_s, "s")
        yield InputFault("detector.timeout", shown, rule, "set detector.heartbeat as well")
    yield from _of_keys(scenario, engine.name)
    yield from _of_readings(scenario, engine.name, engine.short)
    yield from _of_windows(scenario, engine.name, engine.short)
    if engine.name == "spark":
        yield from _without_slots(scenario, "an executor of Spark has cores", "spark.executor.cores")
        yield from _of_executors(scenario)
        yield from _without_restarts(scenario, "a query of Spark runs on the executors that there are")
    elif engine.name == "kafka-streams":
        yield from _without_slots(scenario, "an instance of Kafka Streams has threads", "num.stream.threads")
        yield from _of_members(scenario)
        yield from _without_restarts(scenario, "an application of Kafka Streams runs on the instances that there are")
        yield from _of_topics(scenario, broken)
    elif engine.name == "storm":
        instead = "a supervisor of Storm has ports, each for a worker with any number of executors"
        yield from _without_slots(scenario, instead, "supervisor.slots.ports", "workers.slots")
        yield from _without_restarts(scenario, "a topology of Storm runs as Nimbus has assigned it")
        yield from storm.of_topology(scenario, broken)
    if "fault_tolerance" not in broken:
        yield from _TOLERANCES[engine.name](scenario)


def _without_storm(scenario: Scenario, short: str) -> Iterator[InputFault]:
    """Yield tables and keys that only Storm has."""
    for key, table, default in (
        ("waves", scenario.waves, Waves()),
        ("workers", scenario.workers, Workers()),
        ("state_store", scenario.state_store, StateStore()),
    ):
        if table != default:
            yield InputFault(key, NO_VALUE, f"is of Storm, not of {short}", f"remove the table {key}")
    check_s = scenario.detector.check_s
    if check_s is not None and short != "Spark":
        rule = f"is of Spark and Storm, not of {short}: a time-out of its heartbeats is noticed at once"
        yield InputFault("detector.check", units.show(check_s, "s"), rule, "remove it")


_HASHES = {"flink": ("crc32", "flink-number", "flink-string"), "kafka-streams": ("crc32", "kafka-string")}


def _of_keys(scenario: Scenario, engine: str) -> Iterator[InputFault]:
    """Yield hashes and assignments of key groups that are of another engine."""
    allowed = _HASHES.get(engine, ("crc32",))
    for name, operator in scenario.operators.items():
        if operator.key_hash not in allowed:
            where, rule = path_text(("operators", name, "key_hash")), "is the hash of another engine"
            yield InputFault(where, operator.key_hash, rule, f"take one of {', '.join(allowed)}")
        if operator.key_group_assignment == "ranges" and engine != "flink":
            where = path_text(("operators", name, "key_group_assignment"))
            yield InputFault(where, operator.key_group_assignment, "is of Flink", "leave it out")


_READINGS = {
    "spark": "a batch takes what has arrived; micro_batches.max_offsets (maxOffsetsPerTrigger) limits it",
    "storm": "a spout emits tuple by tuple; acker.pending (topology.max.spout.pending) limits it",
}


def _of_readings(scenario: Scenario, engine: str, short: str) -> Iterator[InputFault]:
    """Yield files and polls of sources that have none."""
    for name, operator in scenario.operators.items():
        if operator.reading is not None and operator.kind == "source" and engine in _READINGS:
            where = path_text(("operators", name, "reading"))
            yield InputFault(where, NO_VALUE, f"is not of {short}", _READINGS[engine])
        if engine == "kafka-streams" and operator.reading is not None and operator.reading.file_s is not None:
            where, shown = path_text(("operators", name, "reading", "file")), units.show(operator.reading.file_s, "s")
            hint = "write reading = { poll = 1000, cost = ... } (max.poll.records)"
            yield InputFault(where, shown, f"is not of {short}: topics have no files", hint)


_SLIDES = {"spark": "slideDuration of window()", "kafka-streams": "advanceBy() of TimeWindows"}


def _of_windows(scenario: Scenario, engine: str, short: str) -> Iterator[InputFault]:
    """Yield windows with gaps between them, which these engines refuse."""
    for name, operator in scenario.operators.items():
        window = operator.window
        if engine in _SLIDES and window is not None and window.step_s > window.length_s:
            where, shown = path_text(("operators", name, "window", "slide")), units.show(window.step_s, "s")
            rule = f"must be at most the length of the window with {short}, {units.show(window.length_s, 's')}"
            yield InputFault(where, shown, rule, _SLIDES[engine])


class _Words(NamedTuple):
    """Words of an engine: for its heartbeats, and for what is not simulated of elasticity and moves of key groups."""

    heartbeat: str
    elasticity: str
    moves: str


_WORDS = {
    "flink": _Words(
        "heartbeat.interval",
        "the autoscaler is not; events rescale a job",
        "Flink moves no key group by itself: `rescale` stops the job and starts it with other tasks",
    ),
    "spark": _Words(
        "spark.executor.heartbeatInterval",
        "dynamic allocation is not",
        "the state partitions of a query stay as they are: leave `engine` out to move key groups",
    ),
    "kafka-streams": _Words(
        "heartbeat.interval.ms",
        "who starts and stops instances by their load is not: events of kind host-join and host-restart do",
        "key groups move when an instance joins (host-join): leave `engine` out to move them one by one",
    ),
    "storm": _Words(
        "worker.heartbeat.frequency.secs",
        "a topology has other executors when somebody rebalances it",
        "tasks of Storm stay with their executor: `rebalance` moves all of them",
    ),
}


def _without(event: Event, engine: str) -> str | None:
    """Return a hint for an event that the engine does not have; None for one that it has."""
    own = {
        "flink": (HostFailure, Rescale),
        "spark": (HostFailure, DriverFailure),
        "storm": (HostFailure, WorkerFailure, Rebalance),
        "kafka-streams": (HostFailure, HostRestart, HostJoin),
    }
    if isinstance(event, own[engine]):
        return None
    if isinstance(event, WorkerFailure):
        return "is of Storm, whose supervisors start workers: write host-failure"
    if isinstance(event, (HostRestart, HostJoin)):
        what = {"flink": "a TaskManager", "spark": "an executor", "storm": "a supervisor"}[engine]
        return f"{what} that stops fails its tasks: write host-failure, with repair"
    if not isinstance(event, DriverFailure):
        return _WORDS[engine].moves
    return {
        "flink": "Flink has a JobManager, whose failure is not simulated",
        "kafka-streams": "Kafka Streams has no driver: write host-failure",
        "storm": "Storm has Nimbus, whose failure is not simulated",
    }[engine]


def _without_slots(scenario: Scenario, instead: str, option: str, key: str = "cores") -> Iterator[InputFault]:
    """Yield slots, which only Flink has; a `key` is the `option` of the engine."""
    for name, group in scenario.hosts.items():
        if group.slots is not None:
            where, rule = path_text(("hosts", name, "slots")), f"is of Flink: {instead}"
            yield InputFault(where, group.slots, rule, f"write {key} = {group.slots} ({option})")
    if scenario.placement.slot_sharing:
        yield InputFault("placement.slot_sharing", "true", f"is of Flink: {instead}", "remove it")


def _without_restarts(scenario: Scenario, instead: str) -> Iterator[InputFault]:
    """Yield what belongs to the restart of a job, or to its checkpoints, which only Flink has."""
    times, tolerance = scenario.recovery, scenario.fault_tolerance
    if times.scheduler != "default":
        yield InputFault("recovery.scheduler", times.scheduler, f"is of Flink: {instead}", "remove it")
    if times.adaptive != AdaptiveScheduling():
        yield InputFault("recovery.adaptive", NO_VALUE, "is of Flink: the adaptive scheduler's times", "remove it")
    if times.slot_timeout_s is not None:
        shown = units.show(times.slot_timeout_s, "s")
        yield InputFault("recovery.slot_timeout", shown, "is of Flink: slot.request.timeout", "remove it")
    if tolerance.local_recovery is not None:
        rule = "is of Flink: execution.state-recovery.from-local"
        yield InputFault("fault_tolerance.local_recovery", NO_VALUE, rule, "remove it")
    if tolerance.restores == "shared":
        rule = "is of Flink: tasks that restore their states beside each other"
        yield InputFault("fault_tolerance.restores", tolerance.restores, rule, "remove it")
    if tolerance.uploads == "shared" and scenario.engine is not None and scenario.engine.name == "storm":
        rule = "is not of Storm, whose bolts write their states with the times of state_store"
        yield InputFault("fault_tolerance.uploads", tolerance.uploads, rule, "remove it")
    if tolerance.compaction is not None:
        rule = "is of Flink: state.backend.type rocksdb, with execution.checkpointing.incremental"
        yield InputFault("fault_tolerance.compaction", NO_VALUE, rule, "remove it")
    for name, operator in scenario.operators.items():
        if operator.commit != "at-once":
            rule = "is of Flink: a sink that commits when a checkpoint of the job is complete"
            yield InputFault(path_text(("operators", name, "commit")), operator.commit, rule, "remove it")


# -- Flink


def _of_checkpoints(scenario: Scenario) -> Iterator[InputFault]:
    tolerance = scenario.fault_tolerance
    if tolerance.method not in ("region-restart", "none"):
        rule = "is no method of Flink, which restarts failover regions"
        yield InputFault("fault_tolerance.method", tolerance.method, rule, 'write method = "region-restart", or "none"')
        return
    if tolerance.method == "none":
        if scenario.may_fail:
            rule = "leaves a Flink job down for good: without checkpoints it has no restart strategy"
            yield InputFault("fault_tolerance.method", "none", rule, 'write interval = "10 s" in its place')
        return
    if "interval_s" not in tolerance.model_fields_set:
        rule = "is missing: Flink takes no checkpoint unless execution.checkpointing.interval says how often"
        yield InputFault("fault_tolerance.interval", NO_VALUE, rule, 'as in interval = "10 s", or method = "none"')
    if tolerance.store != "remote":
        rule = "is no place for checkpoints of Flink, which go to execution.checkpointing.dir"
        yield InputFault("fault_tolerance.store", tolerance.store, rule, 'write store = "remote"')
    if tolerance.guarantee == "at-most-once":
        rule = "is no mode of Flink's checkpoints (execution.checkpointing.mode)"
        yield InputFault("fault_tolerance.guarantee", tolerance.guarantee, rule, "exactly-once and at-least-once are")


# -- Spark


def _of_executors(scenario: Scenario) -> Iterator[InputFault]:
    """Yield restart strategies, which nothing in Spark has, and refused heartbeats."""
    strategy, detector = scenario.recovery.strategy, scenario.detector
    if strategy is not None:
        rule = "is of Flink: nothing in Spark starts a query again, but who supervises its driver"
        hint = "recovery.allocate is the time until that has a container"
        yield InputFault("recovery.strategy", strategy.kind, rule, hint)
    if detector.failed_calls is not None:
        rule = "is of Flink: Spark removes an executor whose connection closes, or after spark.network.timeout"
        yield InputFault("detector.failed_calls", detector.failed_calls, rule, "remove it")


def _of_batches(scenario: Scenario) -> Iterator[InputFault]:
    tolerance = scenario.fault_tolerance
    if tolerance.method != "micro-batch":
        rule = "is no method of Spark, which stores its state with each micro-batch"
        yield InputFault("fault_tolerance.method", tolerance.method, rule, 'write method = "micro-batch"')
        return
    if "interval_s" not in tolerance.model_fields_set:
        rule = "is missing: Spark runs batches back to back unless a processing-time trigger says how often"
        yield InputFault("fault_tolerance.interval", NO_VALUE, rule, 'as in interval = "1 s"')
    if tolerance.snapshots.mode != "synchronous":
        rule = "is not what Spark does: a task commits its state store before it ends"
        hint = 'write mode = "synchronous"'
        yield InputFault("fault_tolerance.snapshots.mode", tolerance.snapshots.mode, rule, hint)


# -- Kafka Streams


def _of_members(scenario: Scenario) -> Iterator[InputFault]:
    """Yield restart strategies, and signs of a failure that a group does not see."""
    strategy, detector = scenario.recovery.strategy, scenario.detector
    if strategy is not None:
        rule = "is of Flink: nothing in Kafka Streams starts an instance again, but who supervises it"
        yield InputFault("recovery.strategy", strategy.kind, rule, "events.X.repair is when it is back")
    connection = None if detector.connection_s is None else units.show(detector.connection_s, "s")
    for key, value in (("failed_calls", detector.failed_calls), ("connection", connection)):
        if value is not None:
            rule = "is not of Kafka Streams: a group removes a member after session.timeout.ms, and not before"
            yield InputFault(f"detector.{key}", value, rule, "remove it, and set detector.timeout")


def _of_commits(scenario: Scenario) -> Iterator[InputFault]:
    tolerance = scenario.fault_tolerance
    if tolerance.method != "changelog":
        rule = "is no method of Kafka Streams, which keeps its state in changelog topics"
        yield InputFault("fault_tolerance.method", tolerance.method, rule, 'write method = "changelog"')
    for key, value, instead in (
        ("barriers", tolerance.barriers, "its tasks commit on their own"),
        ("micro_batches", tolerance.micro_batches, "it processes record by record"),
        ("replicas", tolerance.replicas or tolerance.replica_plan, "its standbys process nothing: changelog.standbys"),
    ):
        if value:
            yield InputFault(f"fault_tolerance.{key}", NO_VALUE, f"is not of Kafka Streams: {instead}", "remove it")
    if tolerance.snapshots.mode != "asynchronous":
        rule = "is not what Kafka Streams does: its producer writes the changelog beside the thread"
        yield InputFault(
            "fault_tolerance.snapshots.mode", tolerance.snapshots.mode, rule, 'write mode = "asynchronous"'
        )


def _of_topics(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield topics beside tasks, brokers that fail, and more tasks of an operator than there are threads."""
    read = all(whole(section, broken) for section in ("hosts", "operators", "placement", "events"))
    if not read or next(cluster.faults(scenario, broken), None) is not None:
        return
    placed = layout.placement(scenario)
    at = {name: [placed[task] for task in _tasks(name, one)] for name, one in scenario.operators.items()}
    topics = [name for name, operator in scenario.operators.items() if operator.kind in ("source", "sink")]
    working = {host for name, hosts in at.items() if name not in topics for host in hosts}
    for name in topics:
        beside = sorted(working & {*at[name]})
        if beside:
            rule = f"is on {beside[0]}, beside tasks: it is a topic, which is on brokers"
            hint = f'as in hosts.broker = {{}} and placement.operators.{name} = "broker", others on placement.hosts'
            yield InputFault(path_text(("operators", name)), NO_VALUE, rule, hint)
    brokers = {host for name in topics for host in at[name]} - working
    for name, event in scenario.events.items():
        if isinstance(event, HostFailure) and event.host in brokers:
            where = path_text(("events", name, "host"))
            yield InputFault(where, event.host, "is a broker, which does not fail here", "let an instance fail")
        for index, host in enumerate(event.hosts) if isinstance(event, HostRestart) else ():
            if host in brokers:
                where = path_text(("events", name, "hosts", index))
                yield InputFault(where, host, "is a broker, which is not restarted here", "restart instances")
    groups = layout.host_group_names(scenario)
    for group in dict.fromkeys(groups[host] for host in sorted(brokers)):
        if scenario.hosts[group].failures is not None:
            where = path_text(("hosts", group, "failures"))
            yield InputFault(where, NO_VALUE, "is of brokers, which do not fail here", "remove it")
    if any(group.slots is not None for group in scenario.hosts.values()):
        return  # in place of threads, which is told: how many there are nobody has said
    cores = {host: group.cores for host, group in layout.hosts(scenario).items()}
    threads = sum(cores[host] for host in cores if host not in brokers)
    for name, operator in scenario.operators.items():
        if name not in topics and operator.parallelism > threads:
            where = path_text(("operators", name, "parallelism"))
            rule = f"is more than the threads of all instances, {threads}"
            hint = "tasks of Kafka Streams are key_groups, the partitions of the input topic; threads are hosts.X.cores"
            yield InputFault(where, operator.parallelism, rule, hint)


def _tasks(name: str, operator: Operator) -> Iterator[str]:
    return (layout.task_name(name, index) for index in range(operator.parallelism))


_TOLERANCES = {"flink": _of_checkpoints, "spark": _of_batches, "kafka-streams": _of_commits, "storm": storm.of_acking}
