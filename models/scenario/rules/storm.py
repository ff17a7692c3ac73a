"""Rules of Storm: what it does not have, and what it needs said."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models import units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import Rebalance
from models.scenario.scenario import Scenario
from models.validation_messages import path_text


def of_topology(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield what the workers of a topology, or those who watch them, do not do, and times that nothing says.

    `broken` as in `models.scenario.rules.faults`.
    """
    workers, detector, recovery = scenario.workers, scenario.detector, scenario.recovery
    if not workers.together:
        rule = "is not what Storm does: the executors of a worker start together again"
        yield InputFault("workers.together", "false", rule, "remove it")
    if recovery.strategy is not None:
        rule = "is of Flink: a supervisor starts a worker that has died, and Nimbus reassigns it, as often as it takes"
        yield InputFault("recovery.strategy", recovery.strategy.kind, rule, "remove it")
    connection = None if detector.connection_s is None else units.show(detector.connection_s, "s")
    for key, value in (("failed_calls", detector.failed_calls), ("connection", connection)):
        if value is not None:
            rule = "is not of Storm: Nimbus reassigns executors that were silent for nimbus.task.timeout.secs"
            yield InputFault(f"detector.{key}", value, rule, "remove it, and set detector.timeout")
    if detector.returns != "noticed":
        rule = "is not what Storm does: a supervisor that is back starts the workers that are assigned to it"
        yield InputFault("detector.returns", detector.returns, rule, "remove it")
    if scenario.may_fail and recovery.restart is None and "recovery" not in broken:
        rule = "is missing: nothing says how long a worker takes to start (download, JVM, connections)"
        hint = 'measure it in the log of a supervisor: restart = { distribution = "deterministic", value = "10 s" }'
        yield InputFault("recovery.restart", NO_VALUE, rule, hint)
    for name, event in scenario.events.items():
        if isinstance(event, Rebalance):
            yield from _of_rebalance(name, event)


def _of_rebalance(name: str, event: Rebalance) -> Iterator[InputFault]:
    """Yield protocols that Storm does not have, and a wait that nothing says."""
    if event.protocol != "dsm":
        rule = "is no protocol of Storm, whose rebalance kills all workers when its wait is over"
        where = path_text(("events", name, "protocol"))
        yield InputFault(where, event.protocol, rule, 'write protocol = "dsm", or leave engine out')
    elif event.wait_s is None:
        rule = "is missing: storm rebalance deactivates spouts for topology.message.timeout.secs, or what -w says"
        yield InputFault(path_text(("events", name, "wait")), NO_VALUE, rule, 'as in wait = "30 s"')


def of_acking(scenario: Scenario) -> Iterator[InputFault]:
    """Yield other methods of fault tolerance, and tables that belong to them."""
    tolerance = scenario.fault_tolerance
    if tolerance.method not in ("acker", "none"):
        rule = "is no method of Storm, whose acker has lost tuples emitted again"
        hint = 'write method = "acker", or "none" (topology.acker.executors: 0)'
        yield InputFault("fault_tolerance.method", tolerance.method, rule, hint)
        return
    for key, value, instead in (
        ("barriers", tolerance.barriers, "its checkpoint spout sends waves: waves.interval"),
        ("micro_batches", tolerance.micro_batches, "Trident is not simulated"),
        ("changelog", tolerance.changelog, "states of stateful bolts go to the state store in waves"),
        ("replicas", tolerance.replicas or tolerance.replica_plan, "no bolt has a replica"),
    ):
        if value:
            yield InputFault(f"fault_tolerance.{key}", NO_VALUE, f"is not of Storm: {instead}", "remove it")
    if "interval_s" in tolerance.model_fields_set:
        rule = "is not of Storm: topology.state.checkpoint.interval.ms is waves.interval"
        shown = units.show(tolerance.interval_s, "s")
        yield InputFault("fault_tolerance.interval", shown, rule, f'write waves.interval = "{shown}"')
