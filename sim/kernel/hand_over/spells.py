"""When the event loop is to have a run: from before a failure or a rebalance, and when a host comes back.

That is known before the run: failures of hosts follow from their own generators, and not from tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from models.scenario.cluster import ExponentialFailures, ScheduledFailures
from models.scenario.events import HostFailure, Rebalance
from models.steady_state.checkpoint_traffic import due_every_ns
from models.units import to_ns
from sim.control.cluster import RunPlan
from sim.draws import at_least_one_ns, generator

_INTERVALS = 2.5  # until kept outputs of before are saved by their receivers, and those by their senders
_LATENCIES = 8


class Spell(NamedTuple):
    """The event loop has the run from `begin` on, and until something after `end` [ns]."""

    begin: int
    end: int


class Failure(NamedTuple):
    """A host dies, and is back, or never."""

    at_ns: int
    back_ns: int | None


def failures(plan: RunPlan) -> list[Failure]:
    """Return all failures in the run, by time; some find the host dead already."""
    duration_ns = to_ns(plan.scenario.duration_s)
    found = (one for one in _failures(plan, duration_ns) if one.at_ns < duration_ns)
    return sorted(found, key=lambda one: one.at_ns)


def _failures(plan: RunPlan, duration_ns: int) -> Iterator[Failure]:
    for name, event in plan.scenario.events.items():
        if isinstance(event, HostFailure):
            at_ns = plan.instant_ns(name)
            yield Failure(at_ns, None if event.repair_s is None else at_ns + to_ns(event.repair_s))
    for name, group in zip(plan.host_names, plan.host_groups, strict=True):
        law = group.failures
        if isinstance(law, ScheduledFailures):
            for at_s in law.at_s:
                yield Failure(to_ns(at_s), to_ns(at_s) + to_ns(law.repair_s))
        elif isinstance(law, ExponentialFailures):
            rng = generator(plan.scenario.seed, plan.replication, name, "failures")
            back_ns = 0
            while back_ns < duration_ns:
                at_ns = back_ns + at_least_one_ns(float(rng.exponential(law.mtbf_s)))
                back_ns = at_ns + to_ns(law.repair_s)
                yield Failure(at_ns, back_ns)


def horizon_ns(plan: RunPlan, factor: float = 1.0) -> int:
    """Return how long before a failure or a rebalance the event loop takes over: until it knows all that is kept."""
    tolerance = plan.scenario.fault_tolerance
    if not tolerance.takes_checkpoints:
        return 0
    if (
        tolerance.job_checkpoints is not None
    ):  # what sources keep is known; `barriers` sees that a checkpoint is complete
        return _LATENCIES * plan.latency_ns + 1
    return int(factor * (_INTERVALS * due_every_ns(plan.scenario) + _LATENCIES * plan.latency_ns)) + 1


def spells(plan: RunPlan, factor: float = 1.0) -> list[Spell]:
    """Return when the event loop is to have the run, in order, with more than a horizon between two."""
    horizon, found = horizon_ns(plan, factor), list[Spell]()
    for failure in failures(plan):
        found.append(Spell(max(0, failure.at_ns - horizon), failure.at_ns))
        if failure.back_ns is not None:
            # Before the instant: a checkpoint of that instant may come before the host is back, or behind that.
            found.append(Spell(max(0, failure.back_ns - 1), failure.back_ns))
    for name, event in plan.scenario.events.items():
        if isinstance(event, Rebalance):
            at_ns = plan.instant_ns(name)
            found.append(Spell(max(0, at_ns - horizon), at_ns))
    merged: list[Spell] = []
    for spell in sorted(found):
        if merged and spell.begin - merged[-1].end <= horizon:
            merged[-1] = Spell(merged[-1].begin, max(merged[-1].end, spell.end))
        else:
            merged.append(spell)
    return merged
