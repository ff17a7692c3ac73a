"""Rules about fault tolerance: promises that the method can keep, and hosts for the copies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models.errors import InputFault
from models.rules.names import whole
from models.scenario import Scenario


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Faults of guarantee and copies."""
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
