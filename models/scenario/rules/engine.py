"""Rules of an engine: what it does not have, and what it needs said."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models import units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import HostFailure
from models.scenario.runtime import StateStore, Waves, Workers
from models.scenario.scenario import Scenario
from models.validation_messages import path_text


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of a scenario that names an engine; `broken` as in `models.scenario.rules.faults`."""
    if scenario.engine is None:
        return
    for name, event in scenario.events.items():
        if not isinstance(event, HostFailure):
            rule = f"is not simulated with {scenario.engine.title}"
            hint = "Flink stops with a savepoint and starts again; leave `engine` out to move key groups"
            yield InputFault(path_text(("events", name, "kind")), event.kind, rule, hint)
    if scenario.elasticity.policy != "none":
        rule, hint = (
            f"is not simulated with {scenario.engine.title}",
            "the adaptive scheduler and the autoscaler are not",
        )
        yield InputFault("elasticity.policy", scenario.elasticity.policy, rule, hint)
    for key, table, default in (
        ("waves", scenario.waves, Waves()),
        ("workers", scenario.workers, Workers()),
        ("state_store", scenario.state_store, StateStore()),
    ):
        if table != default:
            yield InputFault(key, NO_VALUE, "is of Storm, not of Flink", f"remove the table {key}")
    if scenario.detector.errs:
        rule = "is not simulated with Flink, whose heartbeats are calls over TCP"
        yield InputFault("detector.loss", scenario.detector.loss, rule, "remove detector.loss and detector.delay")
    detector = scenario.detector
    if "detector" not in broken and detector.timeout_s < detector.heartbeat_s:
        rule = f"must be at least heartbeat.interval, which is {units.show(detector.heartbeat_s, 's')}"
        shown = units.show(detector.timeout_s, "s")
        yield InputFault("detector.timeout", shown, rule, "set detector.heartbeat as well")
    if "fault_tolerance" not in broken:
        yield from _of_tolerance(scenario)


def _of_tolerance(scenario: Scenario) -> Iterator[InputFault]:
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
