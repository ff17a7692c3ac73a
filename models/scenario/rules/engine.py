"""Rules of an engine: what it does not have, and what it needs said."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models import units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import DriverFailure, Event, HostFailure, Rescale
from models.scenario.runtime import AdaptiveScheduling, StateStore, Waves, Workers
from models.scenario.scenario import Scenario
from models.validation_messages import path_text


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of a scenario that names an engine; `broken` as in `models.scenario.rules.faults`."""
    engine = scenario.engine
    if engine is None:
        return
    short, is_spark = engine.name.capitalize(), engine.name == "spark"
    for name, event in scenario.events.items():
        hint = _without(event, is_spark)
        if hint is not None:
            yield InputFault(
                path_text(("events", name, "kind")), event.kind, f"is not simulated with {engine.title}", hint
            )
    if scenario.elasticity.policy != "none":
        hint = "dynamic allocation is not" if is_spark else "the autoscaler is not; events rescale a job"
        rule = f"is not simulated with {engine.title}"
        yield InputFault("elasticity.policy", scenario.elasticity.policy, rule, hint)
    for key, table, default in (
        ("waves", scenario.waves, Waves()),
        ("workers", scenario.workers, Workers()),
        ("state_store", scenario.state_store, StateStore()),
    ):
        if table != default:
            yield InputFault(key, NO_VALUE, f"is of Storm, not of {short}", f"remove the table {key}")
    if scenario.detector.errs:
        rule = f"is not simulated with {short}, whose heartbeats are calls over TCP"
        yield InputFault("detector.loss", scenario.detector.loss, rule, "remove detector.loss and detector.delay")
    detector = scenario.detector
    if "detector" not in broken and detector.timeout_s < detector.heartbeat_s:
        option = "spark.executor.heartbeatInterval" if is_spark else "heartbeat.interval"
        rule = f"must be at least {option}, which is {units.show(detector.heartbeat_s, 's')}"
        shown = units.show(detector.timeout_s, "s")
        yield InputFault("detector.timeout", shown, rule, "set detector.heartbeat as well")
    if is_spark:
        yield from _of_executors(scenario)
    if "fault_tolerance" not in broken:
        yield from _of_batches(scenario) if is_spark else _of_checkpoints(scenario)


def _without(event: Event, is_spark: bool) -> str | None:
    """Return a hint for an event that the engine does not have; None for one that it has."""
    if isinstance(event, HostFailure) or (is_spark and isinstance(event, DriverFailure)):
        return None
    if is_spark:
        return "the state partitions of a query stay as they are: leave `engine` out to move key groups"
    if isinstance(event, Rescale):
        return None
    if isinstance(event, DriverFailure):
        return "Flink has a JobManager, whose failure is not simulated"
    return "Flink moves no key group by itself: `rescale` stops the job and starts it with other tasks"


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
    """Yield slots, which executors have not, and restart strategies, which nothing in Spark has."""
    for name, group in scenario.hosts.items():
        if group.slots is not None:
            where, rule = path_text(("hosts", name, "slots")), "is of Flink: an executor of Spark has cores"
            yield InputFault(where, group.slots, rule, f"write cores = {group.slots} (spark.executor.cores)")
    if scenario.placement.slot_sharing:
        yield InputFault("placement.slot_sharing", "true", "is of Flink: an executor of Spark has cores", "remove it")
    strategy, detector = scenario.recovery.strategy, scenario.detector
    if strategy is not None:
        rule = "is of Flink: nothing in Spark starts a query again, but who supervises its driver"
        hint = "recovery.allocate is the time until that has a container"
        yield InputFault("recovery.strategy", strategy.kind, rule, hint)
    if scenario.recovery.scheduler != "default":
        rule = "is of Flink: a query of Spark runs on the executors that there are"
        yield InputFault("recovery.scheduler", scenario.recovery.scheduler, rule, "remove it")
    if scenario.recovery.adaptive != AdaptiveScheduling():
        yield InputFault("recovery.adaptive", NO_VALUE, "is of Flink: the adaptive scheduler's times", "remove it")
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
