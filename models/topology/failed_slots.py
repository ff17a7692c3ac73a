"""Failures of hosts after which the tasks of a job that is restarted as a whole have too few slots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from models.scenario.events import HostFailure, Rescale
from models.scenario.scenario import Scenario
from models.topology import layout


@dataclass(frozen=True)
class WaitsForSlots:
    """A failure after which tasks wait for slots.

    `event`: its name. `begins_s`: when the host dies, on average [s]. `ends_s`: when enough hosts are
    back, which is the end of the run where they never are [s]. `needs`: slots that the tasks need, `has`: those of the
    hosts that are up.
    """

    event: str
    begins_s: float
    ends_s: float
    needs: int
    has: int


def waits_for_slots(scenario: Scenario) -> Iterator[WaitsForSlots]:
    """Yield the failures after which a job with the method `region-restart` has too few slots, in file order.

    The adaptive scheduler takes the slots that there are. Failures that are drawn from `hosts.X.failures` do not count,
    nor do regions that go on with the slots that are left.
    """
    tolerance, limited = scenario.fault_tolerance, all(group.slots is not None for group in scenario.hosts.values())
    if tolerance.method != "region-restart" or scenario.recovery.adapts or not limited:
        return
    slots = {host: group.slots or 0 for host, group in layout.hosts(scenario).items()}
    failures = {name: one for name, one in scenario.events.items() if isinstance(one, HostFailure)}
    downs = [(one.host, *_down_s(one)) for one in failures.values()]
    instants = sorted({at_s for _, *both in downs for at_s in both if at_s < scenario.duration_s})
    has = {
        at_s: sum(slots.values()) - sum(slots[host] for host in {host for host, *span in downs if _within(at_s, *span)})
        for at_s in instants
    }
    for name, one in failures.items():
        begins_s, _ = _down_s(one)
        needs = _needed(scenario, begins_s)
        if has.get(begins_s, math.inf) < needs:
            enough = (at_s for at_s in instants if at_s > begins_s and has[at_s] >= needs)
            yield WaitsForSlots(name, begins_s, next(enough, scenario.duration_s), needs, has[begins_s])


def _within(at_s: float, since_s: float, until_s: float) -> bool:
    return since_s <= at_s < until_s


def _down_s(failure: HostFailure) -> tuple[float, float]:
    """Return since when a host is down, and until when [s]."""
    return failure.mean_s, math.inf if failure.repair_s is None else failure.mean_s + failure.repair_s


def _needed(scenario: Scenario, at_s: float) -> int:
    """Return how many slots the tasks need that there are at an instant."""
    tasks = {name: operator.parallelism for name, operator in scenario.operators.items()}
    rescalings = [one for one in scenario.events.values() if isinstance(one, Rescale) and one.mean_s <= at_s]
    tasks |= {one.operator: one.parallelism for one in sorted(rescalings, key=lambda one: one.mean_s)}
    return (max if scenario.placement.slot_sharing else sum)(tasks.values())
