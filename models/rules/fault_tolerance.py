"""Rules about fault tolerance: promises that the method can keep, and hosts for the copies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models import units
from models.errors import InputFault
from models.rules.names import whole
from models.scenario import Scenario


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Faults of detector, guarantee and copies."""
    if "detector" not in broken:
        yield from _of_detector(scenario)
    if "fault_tolerance" in broken:
        return
    tolerance = scenario.fault_tolerance
    promised = "guarantee" in tolerance.model_fields_set and tolerance.guarantee != "at-most-once"
    if tolerance.method == "none" and promised:
        yield InputFault(
            "fault_tolerance.guarantee",
            tolerance.guarantee,
            "cannot be kept by the method none",
            'write method = "checkpoint"',
        )
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


def _of_detector(scenario: Scenario) -> Iterator[InputFault]:
    """Where heartbeats can be lost or late every host would be silent for too long, again and again."""
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
