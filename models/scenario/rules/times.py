"""Rules about times: rates over time, warm-up, when events happen.

Times are shown with their units, and each fault has the path of the key that comes too late or is out of order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import pairwise

from models import display, units
from models.distributions import Deterministic, Uniform
from models.engines.restart_strategies import ExponentialDelay, FailureRate, FixedDelay
from models.errors import NO_VALUE, InputFault
from models.scenario.events import Event, HostFailure, Reconfigure
from models.scenario.scenario import Scenario
from models.scenario.workload import (
    NexmarkKeys,
    ProfileKeys,
    ProfileRate,
    SellerKeys,
    SeriesRate,
    SourceWorkload,
    StepRate,
)
from models.topology.layout import laws_of_keys
from models.validation_messages import path_text

MOST_REPLICATIONS = 100_000
MOST_KEYS = 10_000_000
_SHORTEST_S = 0.001


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of times, rates, distributions and keys; `broken` as in `models.scenario.rules.faults`."""
    yield from _of_run(scenario, broken)
    yield from _of_rates(scenario)
    yield from _of_loads(scenario)
    yield from _of_keys(scenario)
    for name, operator in scenario.operators.items():
        service = operator.service
        if isinstance(service, Uniform) and not service.low_s < service.high_s:
            where = path_text(("operators", name, "service", "low"))
            yield InputFault(where, units.show(service.low_s, "s"), "must be shorter than high")
    laws = {
        "detector.delay": scenario.detector.delay,
        "recovery.allocate": scenario.recovery.allocate,
        "recovery.restart": scenario.recovery.restart,
        "workers.start": scenario.workers.start,
        "waves.step": scenario.waves.step,
    }
    batches = scenario.fault_tolerance.batches
    if batches is not None:
        laws |= {f"fault_tolerance.micro_batches.{key}": getattr(batches, key) for key in ("plan", "commit", "cold")}
    readings = ((name, one.reading) for name, one in scenario.operators.items() if one.reading is not None)
    laws |= {path_text(("operators", name, "reading", "cost")): reading.cost for name, reading in readings}
    postponed = {name: one.postpone for name, one in scenario.operators.items() if one.postpone is not None}
    laws |= {path_text(("operators", name, "postpone")): law for name, law in postponed.items()}
    laws |= {
        path_text(("events", name, key)): law
        for name, event in scenario.events.items()
        for law in event.laws
        for key in ("at" if law is event.at_s else "delay",)
    }
    for path, law in laws.items():
        if isinstance(law, Uniform) and not law.low_s < law.high_s:
            yield InputFault(f"{path}.low", units.show(law.low_s, "s"), "must be shorter than high")
    yield from _of_restarts(scenario)
    yield from _of_waves(scenario)
    if "elasticity" not in broken and not scenario.elasticity.low < scenario.elasticity.high:
        rule = f"must be less than elasticity.high = {display.number(scenario.elasticity.high, 6)}"
        yield InputFault("elasticity.low", scenario.elasticity.low, rule)


def detected_s(scenario: Scenario, failure: HostFailure) -> float:
    """Return when a failure is detected: by broken connections, by silence after a heartbeat, or at the repair."""
    heartbeat_s = scenario.detector.heartbeat_s
    at_s = failure.mean_s
    last = max(0.0, math.ceil(at_s / heartbeat_s) - 1) * heartbeat_s
    detected = max(at_s, last + scenario.detector.patience_s(failure.silent))
    if scenario.detector.check_s is not None:
        detected = math.ceil(detected / scenario.detector.check_s) * scenario.detector.check_s
    detected = min(detected, at_s + scenario.detector.notices_s(failure.silent))
    returns = failure.repair_s is not None and scenario.detector.returns != "unnoticed"
    return min(detected, at_s + failure.repair_s) if returns and failure.repair_s is not None else detected


def failures_of_dead_hosts(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the name of each failure whose host is down for sure when it would happen, and of the failure before."""
    failures = {name: event for name, event in scenario.events.items() if isinstance(event, HostFailure)}
    for name, event in failures.items():
        for before, other in failures.items():
            back_s = math.inf if other.repair_s is None else other.earliest_s + other.repair_s
            if other.host == event.host and other.latest_s < event.earliest_s and event.latest_s < back_s:
                yield name, before
                break


def _of_restarts(scenario: Scenario) -> Iterator[InputFault]:
    """Yield faults of the restart strategy, and a time of starts in vain where there are none."""
    strategy, attempt_s = scenario.recovery.strategy, scenario.recovery.attempt_s
    if isinstance(strategy, ExponentialDelay) and strategy.initial_s > strategy.maximum_s:
        rule = f"must be at most recovery.strategy.maximum = {units.show(strategy.maximum_s, 's')}"
        yield InputFault("recovery.strategy.initial", units.show(strategy.initial_s, "s"), rule)
    if strategy is None and attempt_s:
        rule = "needs recovery.strategy: without it nothing is started before the host counts as dead"
        yield InputFault("recovery.attempt", units.show(attempt_s, "s"), rule)
    elif isinstance(strategy, (FixedDelay, FailureRate)) and not strategy.delay_s and attempt_s < _SHORTEST_S:
        rule = f"must be at least {units.show(_SHORTEST_S, 's')} where recovery.strategy.delay is 0 s"
        yield InputFault("recovery.attempt", units.show(attempt_s, "s"), rule, "restarts would follow without a pause")


def _of_waves(scenario: Scenario) -> Iterator[InputFault]:
    """Yield a step of a wave that takes longer than the time between two waves, and all that is repeated too often."""
    waves = scenario.waves
    # An interval that is refused below is no measure for a step.
    if waves.step is not None and waves.interval_s is not None and waves.step.mean_s >= waves.interval_s >= _SHORTEST_S:
        rule = f"must be shorter on average than waves.interval = {units.show(waves.interval_s, 's')}"
        key = "waves.step.value" if isinstance(waves.step, Deterministic) else "waves.step"
        hint = "the steps of a wave end before the next begins"
        yield InputFault(key, units.show(waves.step.mean_s, "s"), rule, hint)
    trimming, history = scenario.fault_tolerance.acked_slices, scenario.fault_tolerance.kept_history
    # Each repetition is an event; that of a wave or a gate is in no estimate of the run.
    repeated = {
        "fault_tolerance.trimming.slice": trimming.slice_s if trimming else None,
        "fault_tolerance.trimming.every": trimming.every_s if trimming else None,
        "fault_tolerance.history.every": history.every_s if history else None,
        "waves.resend": waves.resend_s,
        "waves.interval": waves.interval_s,
        "workers.gate": scenario.workers.gate_s,
    }
    for path, every_s in repeated.items():
        if every_s is not None and every_s < _SHORTEST_S:
            yield InputFault(path, units.show(every_s, "s"), f"must be at least {units.show(_SHORTEST_S, 's')}")


def _of_run(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield faults of replications, warm-up, and events after the end."""
    if scenario.replications > MOST_REPLICATIONS:
        yield InputFault("replications", scenario.replications, f"must be at most {display.count(MOST_REPLICATIONS)}")
    if "duration" in broken:
        return
    duration = units.show(scenario.duration_s, "s")
    if scenario.warmup_s >= scenario.duration_s:
        rule = f"must be shorter than the duration of {duration}"
        yield InputFault("warmup", units.show(scenario.warmup_s, "s"), rule)
    for name, event in scenario.events.items():
        yield from _of_event(name, event, scenario.duration_s)
    yield from _of_orders(scenario)


def _of_event(name: str, event: Event, duration_s: float) -> Iterator[InputFault]:
    """Yield an event after the end of the run, and a distribution of its time beside what needs a time."""
    where, law = path_text(("events", name, "at")), event.at_s
    rule = f"must be before the end of the run at {units.show(duration_s, 's')}"
    if isinstance(law, (int, float)):
        if law >= duration_s:
            yield InputFault(where, units.show(law, "s"), rule)
        return
    if isinstance(law, Deterministic) and law.value_s >= duration_s:
        yield InputFault(f"{where}.value", units.show(law.value_s, "s"), rule)
    elif isinstance(law, Uniform) and law.high_s > duration_s:
        rule = f"must be at most the duration of {units.show(duration_s, 's')}"
        yield InputFault(f"{where}.high", units.show(law.high_s, "s"), rule, "else it does not happen in some runs")
    elif not isinstance(law, (Deterministic, Uniform)) and law.mean_s >= duration_s:
        yield InputFault(f"{where}.mean", units.show(law.mean_s, "s"), rule)
    if len(event.laws) > 1:
        hint = "give the distribution to one of them: delay comes on top of a time"
        yield InputFault(path_text(("events", name, "delay")), NO_VALUE, "at is a distribution already", hint)
    if isinstance(event, Reconfigure) and event.file is not None:
        rule = "must be a time beside file, whose lines have times of their own"
        yield InputFault(where, law.distribution, rule, "give it strategy and plan in place of file")


def _of_orders(scenario: Scenario) -> Iterator[InputFault]:
    """Yield reconfigurations of one operator whose order is drawn: each moves what is elsewhere after those before."""
    by_operator = defaultdict[str, list[tuple[str, Reconfigure]]](list)
    for name, event in scenario.events.items():
        if isinstance(event, Reconfigure):
            by_operator[event.operator].append((name, event))
    for found in by_operator.values():
        for (before, one), (name, other) in pairwise(sorted(found, key=lambda pair: pair[1].earliest_s)):
            if (one.laws or other.laws) and one.latest_s >= other.earliest_s:
                where, at = path_text(("events", name, "at")), units.show(other.earliest_s, "s")
                at = f"from {at} on" if other.laws else at
                last = "at any time" if math.isinf(one.latest_s) else f"until {units.show(one.latest_s, 's')}"
                first = path_text(("events", before))
                rule = f"can come before {first}, which happens {last}, and what moves depends on the order"
                yield InputFault(where, at, rule, "let one end before the other begins")


def _of_rates(scenario: Scenario) -> Iterator[InputFault]:
    """Yield faults of steps that are not in order, and of profiles that begin behind their span."""
    for name, workload in scenario.workload.items():
        if isinstance(workload.rate, ProfileRate) and workload.rate.begin_s >= workload.rate.span_s:
            rule = f"must be before the end of the span of {units.show(workload.rate.span_s, 's')}"
            where = path_text(("workload", name, "rate", "begin"))
            yield InputFault(where, units.show(workload.rate.begin_s, "s"), rule)
        if not isinstance(workload.rate, StepRate):
            continue
        here = ("workload", name, "rate", "steps")
        steps = workload.rate.steps
        if steps[0].at_s != 0:
            yield InputFault(
                path_text((*here, 0, "at")), units.show(steps[0].at_s, "s"), "must be 0 s at the first step"
            )
        for index in range(1, len(steps)):
            if not steps[index].at_s > steps[index - 1].at_s:
                where = path_text((*here, index, "at"))
                yield InputFault(where, units.show(steps[index].at_s, "s"), "must be later than the step before")


def _of_loads(scenario: Scenario) -> Iterator[InputFault]:
    """Yield faults of load steps that are not in order."""
    for name, group in scenario.hosts.items():
        steps = group.load.steps if group.load else ()
        for index in range(1, len(steps)):
            if not steps[index].at_s > steps[index - 1].at_s:
                where = path_text(("hosts", name, "load", "steps", index, "at"))
                yield InputFault(where, units.show(steps[index].at_s, "s"), "must be later than the step before")


def _of_keys(scenario: Scenario) -> Iterator[InputFault]:
    """Yield faults of key distributions."""
    for name, workload in scenario.workload.items():
        here = ("workload", name, "keys")
        if isinstance(workload.keys, ProfileKeys):
            if not isinstance(workload.rate, ProfileRate):
                yield InputFault(
                    path_text((*here, "distribution")),
                    "profile",
                    "needs a rate from a profile",
                    "or choose uniform or zipf",
                )
        elif isinstance(workload.keys, NexmarkKeys):
            yield from _of_nexmark(name, workload, scenario)
        elif workload.keys.count > MOST_KEYS:
            yield InputFault(
                path_text((*here, "count")), workload.keys.count, f"must be at most {display.count(MOST_KEYS)}"
            )
    for name, operator in scenario.operators.items():
        keys = operator.output.keys if operator.output else None
        if isinstance(keys, SellerKeys):
            if not _has_auctions(scenario, name):
                where = path_text(("operators", name, "output", "keys", "field"))
                rule = "needs inputs whose keys are auctions of NEXMark"
                yield InputFault(where, keys.field, rule, "auction.id or bid.auction, as their sources give them")
        elif keys is not None and keys.count > MOST_KEYS:
            where = path_text(("operators", name, "output", "keys", "count"))
            yield InputFault(where, keys.count, f"must be at most {display.count(MOST_KEYS)}")
        if operator.key_hash != "crc32" and _has_groups_of_profile(scenario, name):
            where = path_text(("operators", name, "key_hash"))
            rule = "its keys come from a profile, which has hashed them"
            yield InputFault(where, operator.key_hash, rule, "leave the key out, or give keys of the workload a law")


def _of_nexmark(name: str, workload: SourceWorkload, scenario: Scenario) -> Iterator[InputFault]:
    """Yield why events cannot be numbered as NEXMark numbers them."""
    where, keys = path_text(("workload", name, "keys", "distribution")), workload.keys
    if isinstance(workload.rate, (SeriesRate, ProfileRate)):
        rule = "needs a rate that is constant, in steps or a ramp"
        yield InputFault(where, "nexmark", rule, "or choose uniform or zipf")
        return
    if workload.batch != 1:
        yield InputFault(where, "nexmark", "numbers events one by one", f"remove workload.{name}.batch")
    if isinstance(keys, NexmarkKeys) and keys.field != "bid.auction" and "in_flight" in keys.model_fields_set:
        rule = f"is of bid.auction, and the field is {keys.field}"
        yield InputFault(path_text(("workload", name, "keys", "in_flight")), keys.in_flight, rule, "remove it")
    most = workload.most_keys(scenario.duration_s)
    if most is not None and most > MOST_KEYS * scenario.resolution:
        rule = f"the run would have up to {display.count(most)} ids; at most {display.count(MOST_KEYS)} are possible"
        yield InputFault(where, "nexmark", rule, "make the run shorter, the rate lower, or the resolution greater")


def _has_groups_of_profile(scenario: Scenario, name: str) -> bool:
    """Return whether keys of a profile come to an operator, which names key groups and not keys."""
    return any(isinstance(keys, ProfileKeys) for keys in laws_of_keys(scenario, name))


def _has_auctions(scenario: Scenario, name: str) -> bool:
    """Return whether all keys that come to an operator are auctions."""
    laws = [*laws_of_keys(scenario, name)]
    return all(isinstance(keys, NexmarkKeys) and keys.field in ("auction.id", "bid.auction") for keys in laws)
