"""Rules about fault tolerance: guarantees that the method can give, and hosts for the copies.

`barriers` has those of checkpoints of the whole job, `replicas` those of active replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import networkx as nx

from models import display, units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import DriverFailure, Rebalance, WorkerFailure
from models.scenario.fault_tolerance import FaultTolerance
from models.scenario.recovery_methods import History, Trimming
from models.scenario.rules import barriers, cluster, replicas
from models.scenario.rules.dataflow import whole
from models.scenario.scenario import Scenario
from models.topology import layout
from models.validation_messages import path_text

_LOOKS = 2  # at the load, at least, for a correlation


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of detector, method, copies and replicas; `broken` as in `models.scenario.rules.faults`."""
    if "detector" not in broken:
        yield from _of_detector(scenario)
    if "fault_tolerance" not in broken:
        yield from _of_tolerance(scenario, broken)
        if scenario.engine is None or scenario.engine.name != "storm":  # whose rules say that it has none
            yield from replicas.faults(scenario, broken)


def _hint(scenario: Scenario, method: str, otherwise: str) -> str:
    return otherwise if scenario.engine is None else scenario.engine.hint(method, otherwise)


def _of_tolerance(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield guarantees and copies that the method cannot give."""
    tolerance = scenario.fault_tolerance
    guaranteed = "guarantee" in tolerance.model_fields_set and tolerance.guarantee != "at-most-once"
    if tolerance.method == "none" and guaranteed:
        yield InputFault(
            "fault_tolerance.guarantee",
            tolerance.guarantee,
            "cannot be kept by the method none",
            'write method = "checkpoint"',
        )
    yield from _of_acker(scenario, broken)
    yield from _of_trimming(scenario, broken)
    if tolerance.history is not None and (tolerance.kept_history is None or tolerance.replicates_all):
        rule = f"needs the method upstream-backup or source-backup; fault_tolerance.method is {tolerance.method}"
        hint = _hint(scenario, "upstream-backup", 'write method = "upstream-backup"')
        yield InputFault("fault_tolerance.history", NO_VALUE, rule, hint)
    elif tolerance.history is not None:
        yield from _of_repetition(scenario, "fault_tolerance.history", tolerance.history, "every")
    if "waves" not in broken:
        yield from _of_waves(scenario)
    if "workers" not in broken:
        yield from _of_workers(scenario)
    yield from _of_micro_batches(scenario)
    yield from _of_changelog(scenario)
    yield from _of_maintenance(scenario, broken)
    yield from barriers.faults(scenario)
    if tolerance.takes_checkpoints:
        yield from _of_pauses(scenario, broken)
    if tolerance.restart == "own-hosts" and (not tolerance.takes_checkpoints or tolerance.store != "remote"):
        rule = "needs checkpoints that can be read from everywhere"
        hint = 'write method = "checkpoint" and store = "remote"'
        yield InputFault("fault_tolerance.restart", tolerance.restart, rule, hint)
    hosts = sum(group.used for group in scenario.hosts.values())
    if not tolerance.takes_checkpoints or tolerance.store != "nodes" or not whole("hosts", broken) or not hosts:
        return
    if tolerance.copies >= hosts:
        yield InputFault(
            "fault_tolerance.copies",
            tolerance.copies,
            f"needs {tolerance.copies + 1} hosts or more, there are {hosts}",
            "a copy on the host that fails is lost with it",
        )


_ACKER = 'write method = "acker" and guarantee = "at-least-once" in fault_tolerance'


def _of_acker(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield faults of the acker: its table without the method, another guarantee, a time-out that is too short."""
    tolerance, acker = scenario.fault_tolerance, scenario.fault_tolerance.acking
    if acker is None:
        if tolerance.acker is not None:
            rule = f"needs the method acker; fault_tolerance.method is {tolerance.method}"
            yield InputFault("fault_tolerance.acker", NO_VALUE, rule, _hint(scenario, "acker", _ACKER))
        return
    if tolerance.guarantee != "at-least-once":
        rule = "cannot be kept by the method acker: what is emitted again may be processed twice"
        hint = 'write guarantee = "at-least-once"'
        yield InputFault("fault_tolerance.guarantee", tolerance.guarantee, rule, hint)
    if all(whole(section, broken) for section in ("hosts", "operators", "placement")) and (
        next(cluster.faults(scenario, broken), None) is None and layout.has_order(scenario)
    ):
        least_s = _longest_path_s(scenario)
        if acker.timeout_s < least_s:
            shown = display.duration(least_s, 3)
            rule = f"is shorter than the services and links of the longest path, {shown} on average"
            hint = "roots would fail although nothing is wrong; take several times as long"
            yield InputFault("fault_tolerance.acker.timeout", _shown(acker.timeout_s), rule, hint)


def _of_pauses(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield a pause that leaves a task no time for tuples: each of its key groups has one in each interval."""
    tolerance = scenario.fault_tolerance
    pause_s, every_s, where = tolerance.snapshots.pause_s, tolerance.interval_s, "fault_tolerance.snapshots.pause"
    rule = f"must be no longer than the time between two checkpoints, {_shown(every_s)}"
    if pause_s > every_s:
        yield InputFault(where, _shown(pause_s), rule, "a task would do nothing but pause")
        return
    for name, operator in scenario.operators.items() if whole("operators", broken) else ():
        groups = -(-operator.groups // operator.parallelism)
        if tolerance.saves(operator) and operator.service is not None and groups * pause_s > every_s:
            rule = f"must be no longer than {_shown(every_s)} for all {groups} key groups of a task of {name} together"
            yield InputFault(where, _shown(pause_s), rule, "each of them has a pause; the task would do nothing else")
            return


_SHORTEST_TRIGGER_S = 0.001
_BATCHES = 'write method = "micro-batch" in fault_tolerance'


def _of_micro_batches(scenario: Scenario) -> Iterator[InputFault]:
    """Yield batches and drivers without the method, and what batches need that is not there."""
    tolerance = scenario.fault_tolerance
    if tolerance.batches is None:
        rule = f"needs the method micro-batch; fault_tolerance.method is {tolerance.method}"
        by_engine = scenario.engine is not None and scenario.engine.name in ("spark", "kafka-streams", "storm")
        if tolerance.micro_batches is not None and not by_engine:
            hint = _hint(scenario, "micro-batch", _BATCHES)
            yield InputFault("fault_tolerance.micro_batches", NO_VALUE, rule, hint)
        for name, event in scenario.events.items() if scenario.engine is None else ():
            if isinstance(event, DriverFailure):
                where = path_text(("events", name, "kind"))
                yield InputFault(where, event.kind, rule, "or write host-failure: there is no driver")
        return
    if tolerance.interval_s < _SHORTEST_TRIGGER_S:
        rule = f"must be at least {_shown(_SHORTEST_TRIGGER_S)} with micro-batches"
        hint = "batches follow each other at once where they take longer, and Spark asks for data each 10 ms"
        yield InputFault("fault_tolerance.interval", _shown(tolerance.interval_s), rule, hint)
    if tolerance.store != "remote":
        rule = "is no place for the states of batches, which go to a checkpoint location"
        yield InputFault("fault_tolerance.store", tolerance.store, rule, 'write store = "remote"')
    strategy = scenario.recovery.strategy
    if strategy is not None and scenario.engine is None:
        rule, hint = "has no part in micro-batches: who supervises the driver starts it", "write recovery.allocate"
        yield InputFault("recovery.strategy", strategy.kind, rule, hint)
    if tolerance.guarantee == "at-most-once":
        rule = "cannot be had with micro-batches: one that was interrupted runs again"
        hint = "exactly-once and at-least-once can"
        yield InputFault("fault_tolerance.guarantee", tolerance.guarantee, rule, hint)


_CHANGELOG = 'write method = "changelog" in fault_tolerance'


def _of_changelog(scenario: Scenario) -> Iterator[InputFault]:
    """Yield changelogs without the method, other places for them, and what is no guarantee of commits."""
    tolerance, rules = scenario.fault_tolerance, scenario.fault_tolerance.changelogs
    if rules is None:
        by_storm = scenario.engine is not None and scenario.engine.name == "storm"  # whose rules say so
        if tolerance.changelog is not None and not by_storm:
            rule = f"needs the method changelog; fault_tolerance.method is {tolerance.method}"
            yield InputFault("fault_tolerance.changelog", NO_VALUE, rule, _hint(scenario, "changelog", _CHANGELOG))
        return
    if tolerance.store != "remote":
        rule = "is no place for changelogs, which are topics"
        yield InputFault("fault_tolerance.store", tolerance.store, rule, 'write store = "remote"')
    if tolerance.guarantee == "at-most-once":
        rule = "cannot be had with changelogs: what came since the last commit is read again"
        yield InputFault("fault_tolerance.guarantee", tolerance.guarantee, rule, "exactly-once and at-least-once can")


_LEVELS = 2  # of acks, with which upstream waits for checkpoints
_TRIMMING = 'write method = "elastic-upstream-backup" in fault_tolerance'


def _of_trimming(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield faults of trimming by acks: its table without the method, rounds beyond the run, levels without a task."""
    tolerance, trimming = scenario.fault_tolerance, scenario.fault_tolerance.acked_slices
    here = "fault_tolerance.trimming"
    if trimming is None and tolerance.adjustment is not None:
        rule = f"needs the method elastic-upstream-backup; fault_tolerance.method is {tolerance.method}"
        hint = _hint(scenario, "elastic-upstream-backup", _TRIMMING)
        yield InputFault("fault_tolerance.adjustment", NO_VALUE, rule, hint)
    if trimming is None:
        if tolerance.trimming is not None:
            rule = f"needs the method elastic-upstream-backup; fault_tolerance.method is {tolerance.method}"
            yield InputFault(here, NO_VALUE, rule, _hint(scenario, "elastic-upstream-backup", _TRIMMING))
        return
    if tolerance.trimming is not None:
        yield from _of_repetition(scenario, here, tolerance.trimming, "slice", "every")
    yield from _of_repetition(scenario, "fault_tolerance", tolerance, "interval", never="no checkpoint would be taken")
    if trimming.hop_s > trimming.every_s:
        rule = f"must be no longer than the time between two rounds, {_shown(trimming.every_s)}"
        yield InputFault(
            f"{here}.step", _shown(trimming.hop_s), rule, "acks of a round would never meet the next level"
        )
    yield from _of_ack_work(scenario, trimming, broken)
    if trimming.levels < _LEVELS and "events" not in broken and scenario.adjusts:
        rule = f"must be at least {_LEVELS} where operators are adjusted by oap"
        hint = "with L0-ACKs alone upstream lets go what the checkpoints lack that are split"
        yield InputFault(f"{here}.levels", trimming.levels, rule, hint)
    if whole("operators", broken):
        yield from _of_dataflow(scenario, trimming)


def _of_repetition(
    scenario: Scenario,
    here: str,
    table: FaultTolerance | Trimming | History,
    *keys: str,
    never: str = "nothing would ever be trimmed",
) -> Iterator[InputFault]:
    """Yield times, written in a table, that are no shorter than the run; nobody wrote the default of a short run."""
    for key in keys:
        time_s = getattr(table, f"{key}_s")
        if f"{key}_s" in table.model_fields_set and time_s >= scenario.duration_s:
            rule = f"is not shorter than the run of {_shown(scenario.duration_s)}"
            yield InputFault(f"{here}.{key}", _shown(time_s), rule, never)


def _of_ack_work(scenario: Scenario, trimming: Trimming, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield acks that leave a task no time for tuples."""
    where, shown = "fault_tolerance.trimming.work", _shown(trimming.work_s)
    if trimming.work_s > trimming.every_s:
        rule = f"must be no longer than the time between two rounds, {_shown(trimming.every_s)}"
        yield InputFault(where, shown, rule, "a task would do nothing but acknowledge")
        return
    if not whole("operators", broken) or not layout.has_order(scenario):
        return
    for name, operator in scenario.operators.items():
        acks = layout.acks_of_task(scenario, name)
        if operator.service is not None and acks * trimming.work_s > trimming.every_s:
            rule = f"must be no longer than {_shown(trimming.every_s)} for all {acks} acks of a task of {name} together"
            yield InputFault(where, shown, rule, "it sends and gets as many in a round, and would do nothing else")
            return


def _of_dataflow(scenario: Scenario, trimming: Trimming) -> Iterator[InputFault]:
    """Yield windows shorter than a slice, and levels for which the job is not deep enough."""
    here = "fault_tolerance.trimming"
    for name, operator in scenario.operators.items():
        if operator.window is not None and operator.window.length_s < trimming.slice_s:
            rule = f"is shorter than a slice of {_shown(trimming.slice_s)}"
            where = path_text(("operators", name, "window", "length"))
            yield InputFault(where, _shown(operator.window.length_s), rule, f"take a shorter {here}.slice")
    if layout.has_order(scenario):
        depth = nx.dag_longest_path_length(layout.dataflow(scenario))
        if trimming.levels > depth:
            rule = f"is above the depth of the job: its longest path has {depth} hops"
            yield InputFault(f"{here}.levels", trimming.levels, rule, f"at most {depth}")


def _of_waves(scenario: Scenario) -> Iterator[InputFault]:
    """Yield periodic waves without an acker, and rebalances whose states nobody brings back."""
    waves, acked = scenario.waves, scenario.fault_tolerance.acking is not None
    if waves.interval_s is not None and not acked:
        rule = "needs an acker, by which a wave that is lost is noticed"
        yield InputFault("waves.interval", _shown(waves.interval_s), rule, _ACKER)
    for name, event in scenario.events.items():
        empty = (
            scenario.workers.together
            and not scenario.may_fail
            and not any(operator.state is not None for operator in scenario.operators.values())
        )
        brought_back = waves.interval_s is not None or empty
        if isinstance(event, Rebalance) and event.protocol == "dsm" and not (brought_back and acked):
            rule = "needs an acker, which has tuples sent again, and periodic waves, which bring states back"
            needed = [] if acked else ['fault_tolerance.method = "acker", fault_tolerance.guarantee = "at-least-once"']
            needed += [] if waves.interval_s is not None else ['waves.interval = "30 s"']
            hint = f"write {', '.join(needed)}, or take dcr or ccr"
            yield InputFault(path_text(("events", name, "protocol")), event.protocol, rule, hint)
        if isinstance(event, Rebalance) and event.wait_s is not None and event.protocol != "dsm":
            rule = f"is not of {event.protocol}, which has sources pause until the states are back"
            yield InputFault(path_text(("events", name, "wait")), _shown(event.wait_s), rule, "remove it")


_TOGETHER = "write workers.together = true"


def _of_workers(scenario: Scenario) -> Iterator[InputFault]:
    """Yield workers that start together beside another method or slots, and what there is only with them."""
    workers, method = scenario.workers, scenario.fault_tolerance.method
    if workers.together and method not in ("acker", "none"):
        if scenario.engine is None:  # whose rules say so
            rule = f"needs the method acker or none; fault_tolerance.method is {method}"
            yield InputFault("workers.together", "true", rule, _ACKER)
        return
    if workers.together:
        for name, group in scenario.hosts.items() if scenario.engine is None else ():
            if group.slots is not None:
                rule = "cannot be combined with workers.together: a worker has any number of tasks"
                yield InputFault(path_text(("hosts", name, "slots")), group.slots, rule, "write workers.slots")
        return
    for key, value in (("slots", workers.slots), ("check", workers.check_s)):
        if value is not None and scenario.engine is None:
            shown = value if key == "slots" else _shown(value)
            yield InputFault(f"workers.{key}", shown, "needs workers.together", _TOGETHER)
    for name, event in scenario.events.items():
        if isinstance(event, WorkerFailure) and scenario.engine is None:
            rule = "needs workers.together: who else starts a worker is not described"
            yield InputFault(path_text(("events", name, "kind")), event.kind, rule, _TOGETHER)


def _longest_path_s(scenario: Scenario) -> float:
    """Return the mean time in service and on links of the longest path from a source, without any wait [s].

    Each service counts as on the fastest of its hosts, and the latency where two operators share no host. An ack that
    travels over links takes as long as its way back to a source.
    """
    hosts, placed = layout.hosts(scenario), layout.placement(scenario)
    places = {
        name: {placed[layout.task_name(name, index)] for index in range(operator.parallelism)}
        for name, operator in scenario.operators.items()
    }
    found: dict[str, float] = {}
    for name in layout.topological(scenario):
        operator = scenario.operators[name]
        comes = [
            found[upstream] + (0.0 if places[upstream] & places[name] else scenario.network.latency_s)
            for upstream in operator.inputs
            if upstream in found
        ]
        service_s = operator.service.mean_s / max(hosts[host].speed for host in places[name]) if operator.service else 0
        found[name] = max(comes, default=0.0) + service_s
    sources = {host for name in found if scenario.operators[name].kind == "source" for host in places[name]}
    back = {name: 0.0 if places[name] & sources else _ack_s(scenario, places[name]) for name in found}
    return max((found[name] + back[name] for name in found), default=0.0)


def _ack_s(scenario: Scenario, places: Collection[str]) -> float:
    """Return the time of an ack from the fastest of these hosts to another one; 0 where acks do not travel on links."""
    acker, hosts = scenario.fault_tolerance.acking, layout.hosts(scenario)
    if acker is None or acker.transport != "links":
        return 0.0
    takes_s = min(
        acker.ack_bytes / rate if (rate := hosts[place].network_bytes_per_s) is not None else 0.0 for place in places
    )
    return scenario.network.latency_s + takes_s


def _of_maintenance(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield faults of maintenance: no checkpoints of key groups on hosts, or no second period to compare."""
    tolerance = scenario.fault_tolerance
    if tolerance.maintenance is None:
        return
    here, window_s = "fault_tolerance.maintenance", tolerance.maintenance.window_s
    if not tolerance.takes_checkpoints:
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
    if detector.errs and detector.check_s is not None and scenario.engine is None:
        rule = "cannot be combined with heartbeats that are lost or late: those are looked at all the time"
        yield InputFault("detector.check", _shown(detector.check_s), rule, "remove detector.loss and detector.delay")
    if not detector.errs or scenario.engine is not None:  # whose rules refuse it
        return
    connection = None if detector.connection_s is None else _shown(detector.connection_s)
    for key, value in (("failed_calls", detector.failed_calls), ("connection", connection)):
        if value is not None:
            rule = "cannot be combined with heartbeats that are lost or late: a host that is fenced lives"
            yield InputFault(f"detector.{key}", value, rule, "remove detector.loss and detector.delay")
    late_s = detector.delay.mean_s if detector.delay else 0.0
    if detector.timeout_s <= detector.heartbeat_s:
        rule = (
            f"must be longer than the heartbeat of {units.show(detector.heartbeat_s, 's')} where some are lost or late"
        )
        yield InputFault("detector.timeout", units.show(detector.timeout_s, "s"), rule)
    elif late_s >= detector.timeout_s:
        rule = f"must be shorter on average than the timeout of {units.show(detector.timeout_s, 's')}"
        yield InputFault("detector.delay", units.show(late_s, "s"), rule)
