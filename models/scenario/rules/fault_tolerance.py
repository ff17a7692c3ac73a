"""Rules about fault tolerance: guarantees that the method can give, and hosts for the copies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models import units
from models.errors import NO_VALUE, InputFault
from models.scenario.rules.dataflow import whole
from models.scenario.scenario import Scenario

_LOOKS = 2  # at the load, at least, for a correlation


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of detector, guarantee, method and copies; `broken` as in `models.scenario.rules.faults`."""
    if "detector" not in broken:
        yield from _of_detector(scenario)
    if "fault_tolerance" in broken:
        return
    tolerance = scenario.fault_tolerance
    guaranteed = "guarantee" in tolerance.model_fields_set and tolerance.guarantee != "at-most-once"
    if tolerance.method == "none" and guaranteed:
        yield InputFault(
            "fault_tolerance.guarantee",
            tolerance.guarantee,
            "cannot be kept by the method none",
            'write method = "checkpoint"',
        )
    yield from _of_maintenance(scenario, broken)
    if tolerance.restart == "own-hosts" and (tolerance.method != "checkpoint" or tolerance.store != "remote"):
        rule = "needs checkpoints that can be read from everywhere"
        hint = 'write method = "checkpoint" and store = "remote"'
        yield InputFault("fault_tolerance.restart", tolerance.restart, rule, hint)
    hosts = sum(group.used for group in scenario.hosts.values())
    if tolerance.method != "checkpoint" or tolerance.store != "nodes" or not whole("hosts", broken) or not hosts:
        return
    if tolerance.copies >= hosts:
        yield InputFault(
            "fault_tolerance.copies",
            tolerance.copies,
            f"needs {tolerance.copies + 1} hosts or more, there are {hosts}",
            "a copy on the host that fails is lost with it",
        )


def _of_maintenance(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield faults of maintenance: no checkpoints of key groups on hosts, or no second period to compare."""
    tolerance = scenario.fault_tolerance
    if tolerance.maintenance is None:
        return
    here, window_s = "fault_tolerance.maintenance", tolerance.maintenance.window_s
    if tolerance.method != "checkpoint":
        rule = f"needs checkpoints; fault_tolerance.method is {tolerance.method}"
        yield InputFault(here, NO_VALUE, rule, 'write method = "checkpoint"')
    elif tolerance.store != "nodes":
        rule = f"needs checkpoints that hosts hold; fault_tolerance.store is {tolerance.store}"
        yield InputFault(here, NO_VALUE, rule, 'write store = "nodes"')
    if whole("operators", broken) and not any(
        operator.keyed and operator.kind != "sink" for operator in scenario.operators.values()
    ):
        yield InputFault(here, NO_VALUE, "needs key groups, and no operator has any")
    if "elasticity" not in broken and window_s is not None and window_s < _LOOKS * scenario.elasticity.period_s:
        rule = f"must be as long as two checks of the load: elasticity.period is {_shown(scenario.elasticity.period_s)}"
        yield InputFault(f"{here}.window", _shown(window_s), rule)


def _shown(time_s: float) -> str:
    """Return a time with its unit."""
    return units.show(time_s, "s")


def _of_detector(scenario: Scenario) -> Iterator[InputFault]:
    """Yield the fault of a detector that suspects every live host again and again: lost or late heartbeats."""
    detector = scenario.detector
    if not detector.errs:
        return
    late_s = detector.delay.mean_s if detector.delay else 0.0
    if detector.timeout_s <= detector.heartbeat_s:
        rule = (
            f"must be longer than the heartbeat of {units.show(detector.heartbeat_s, 's')} where some are lost or late"
        )
        yield InputFault("detector.timeout", units.show(detector.timeout_s, "s"), rule)
    elif late_s >= detector.timeout_s:
        rule = f"must be shorter on average than the timeout of {units.show(detector.timeout_s, 's')}"
        yield InputFault("detector.delay", units.show(late_s, "s"), rule)
