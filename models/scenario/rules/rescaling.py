"""Rules about jobs that stop and start again with other numbers of tasks, and about the adaptive scheduler."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from models import units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import Rescale
from models.scenario.rules.dataflow import whole
from models.scenario.runtime import AdaptiveScheduling
from models.scenario.scenario import Scenario
from models.topology import layout
from models.validation_messages import path_text

_JOB = 'write method = "region-restart" and barriers = {} in fault_tolerance'
_SUBMITTED = "is the time until a job is submitted again that has stopped with a savepoint"


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of such rescalings and schedulers; `broken` as in `models.scenario.rules.faults`."""
    if "fault_tolerance" in broken or "recovery" in broken or (scenario.engine and scenario.engine.name != "flink"):
        return  # other engines have neither, which their rules say
    by_barriers = scenario.fault_tolerance.method == "region-restart" and scenario.fault_tolerance.barriers is not None
    if scenario.recovery.adapts:
        yield from _of_scheduler(scenario, by_barriers, broken)
    elif scenario.engine is None and scenario.recovery.adaptive != AdaptiveScheduling():
        rule = "is of the adaptive scheduler; recovery.scheduler is default"
        yield InputFault("recovery.adaptive", NO_VALUE, rule, 'write scheduler = "adaptive"')
    for name, event in scenario.events.items():
        if isinstance(event, Rescale):
            yield from _of_event(scenario, name, event, by_barriers, broken)


def _of_scheduler(scenario: Scenario, by_barriers: bool, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield what the adaptive scheduler needs and is not there: checkpoints of the job, slots that are counted."""
    where, given = "recovery.scheduler", scenario.recovery.scheduler
    if not by_barriers:
        yield InputFault(where, given, "needs checkpoints of the whole job, by barriers", _JOB)
    if not scenario.placement.slot_sharing:
        rule = "needs slots that hold a task of each operator: as many as the job has are its parallelism"
        yield InputFault(where, given, rule, "write slot_sharing = true in placement")
    for name, group in scenario.hosts.items() if whole("hosts", broken) else ():
        if group.slots is None:
            rule = f"needs hosts whose slots are counted: {name} has no bound"
            yield InputFault(where, given, rule, f"write {path_text(('hosts', name, 'slots'))}")
            return


def _of_event(
    scenario: Scenario, name: str, event: Rescale, by_barriers: bool, broken: Collection[str]
) -> Iterator[InputFault]:
    """Yield what is wrong with one event `rescale`."""
    where, submit = ("events", name, "submit"), units.show(event.submit_s, "s")
    if not by_barriers:
        if event.submit_s:
            yield InputFault(path_text(where), submit, f"{_SUBMITTED}, which this one does not", _JOB)
        return
    if event.protocol is not None:
        rule = "has no part in it: all tasks of the job end, and start again from a checkpoint"
        yield InputFault(path_text(("events", name, "protocol")), event.protocol, rule, "remove it")
    if scenario.recovery.scheduler == "reactive":
        rule = "cannot change the parallelism of a job in reactive mode, which takes all slots that there are"
        yield InputFault(path_text(("events", name, "kind")), event.kind, rule, 'write scheduler = "adaptive"')
    if scenario.recovery.adapts:
        if event.submit_s:
            rule = f"{_SUBMITTED}: the adaptive scheduler rescales it in place"
            yield InputFault(path_text(where), submit, rule, "remove it")
        return  # with fewer slots than it is asked for it takes those that there are
    if not all(whole(section, broken) for section in ("hosts", "operators", "placement")):
        return
    slots, needed = layout.free_slots(scenario, scenario.hosts), event.parallelism
    if not scenario.placement.slot_sharing:
        others = (one.parallelism for other, one in scenario.operators.items() if other != event.operator)
        needed += sum(others)
    if not math.isinf(slots) and needed > slots:
        tasks = "" if scenario.placement.slot_sharing else f", and all operators together have {needed} tasks"
        rule = f"needs as many slots, and the hosts have {int(slots)} (taskmanager.numberOfTaskSlots in Flink){tasks}"
        hint = "give hosts.GROUP more hosts or slots: the job would stop, and wait for slots for ever"
        yield InputFault(path_text(("events", name, "parallelism")), event.parallelism, rule, hint)
