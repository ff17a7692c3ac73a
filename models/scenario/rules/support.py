"""Rules against combinations of keys that no engine executes yet.

Such a scenario is valid: it describes something that exists. It is refused when a run is asked for, not when the file
is read, and the hint says which combination is simulated.
"""

from __future__ import annotations

import networkx as nx

from models import units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import (
    ADJUSTMENT,
    PROTOCOLS,
    WITHOUT_CHECKPOINTS,
    Migrate,
    Rebalance,
    Reconfigure,
    Rescale,
    WorkerFailure,
)
from models.scenario.job import Operator, WindowState
from models.scenario.scenario import Scenario
from models.topology import layout
from models.topology.chains import chains_of
from models.validation_messages import path_text

RULE = "not simulated yet"
_EVENT_TIME = "without windows, joins and timers"


def not_simulated(scenario: Scenario) -> list[InputFault]:
    """Return one fault for each thing that a run of this scenario would have to leave out; empty when it can run.

    >>> from holdfast import not_simulated, read_scenario, scenario_with
    >>> scenario = read_scenario("examples/two-hosts.toml").scenario
    >>> not_simulated(scenario)
    []
    >>> [fault.path for fault in not_simulated(scenario_with(scenario, {"fault_tolerance.copies": 2}))]
    ['fault_tolerance.copies']
    """
    found: list[tuple[str, object, str]] = []
    for name, operator in scenario.operators.items():
        here = path_text(("operators", name))
        if operator.kind == "join" and not _is_simple(operator):
            found.append((f"{here}.kind", "join", "one of two inputs by key with a window without slide is"))
    if scenario.placement.plan is not None:
        found.append(("placement.plan", scenario.placement.plan, "placement.tasks is"))
    found += _of_postponements(scenario)
    found += _of_scans(scenario)
    found += _of_fault_tolerance(scenario)
    found += _of_readings(scenario)
    if scenario.elasticity.policy == "operators":
        found += _of_operator_policy(scenario)
    elif scenario.elasticity.policy != "none":
        found += _of_protocol("elasticity.protocol", scenario.elasticity.protocol)
        found += _beside_moves(scenario, "elasticity.policy", scenario.elasticity.policy)
        if scenario.elasticity.protocol == WITHOUT_CHECKPOINTS:
            found.append(("elasticity.protocol", WITHOUT_CHECKPOINTS, "with checkpoints direct and others are"))
    for name, event in scenario.events.items():
        if isinstance(event, Rescale) and scenario.rescales_job:
            continue
        if isinstance(event, Reconfigure) and not event.moves_each:
            found += _of_reconfiguration(scenario, name, event)
        elif isinstance(event, (Migrate, Rescale, Reconfigure)):
            found += _of_migration(scenario, name, event)
        if isinstance(event, Rescale) or (isinstance(event, Reconfigure) and event.moves_each):
            found += _of_rescaling(scenario, name, event)
        if isinstance(event, Rebalance):
            found += _of_rebalance(scenario, name, event)
    found += _of_waves(scenario)
    found = list(dict.fromkeys(found))  # several events have the same to say of the rest of the scenario
    return [InputFault(path, value, RULE, hint) for path, value, hint in found]


def _of_migration(
    scenario: Scenario, name: str, event: Migrate | Rescale | Reconfigure
) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of an event that moves key groups in a way that is not simulated."""
    here, protocol = path_text(("events", name)), scenario.protocol_of(event)
    history = scenario.fault_tolerance.kept_history is not None
    if isinstance(event, Rescale) and protocol == ADJUSTMENT:
        found = _beside_adjustments(scenario, f"{here}.protocol", protocol)
    elif protocol not in PROTOCOLS:
        # One fault for one name: whether it goes together with the method nobody can say.
        found = _of_protocol(f"{here}.protocol", protocol, ADJUSTMENT if isinstance(event, Rescale) else "")
    elif history and protocol != WITHOUT_CHECKPOINTS:
        found = [(f"{here}.protocol", protocol, f"where no checkpoints are taken {WITHOUT_CHECKPOINTS} is")]
    elif history:
        found = []
    else:
        found = _beside_moves(scenario, f"{here}.kind", event.kind)
        if protocol == WITHOUT_CHECKPOINTS:
            found.append((f"{here}.protocol", protocol, "with checkpoints direct and others are"))
    operator = scenario.operators.get(event.operator)
    if operator is not None and operator.kind not in ("aggregate", "join"):
        hint = f"key groups of an aggregate or a join move, not of a {operator.kind}"
        found.append((f"{here}.operator", event.operator, hint))
    return found


def _of_rebalance(scenario: Scenario, name: str, event: Rebalance) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of a rebalance that is not simulated."""
    here, found = path_text(("events", name)), list[tuple[str, object, str]]()
    if scenario.has_replicas:
        found.append((f"{here}.kind", event.kind, "without active replicas, which take over on their own, it is"))
    if scenario.workers.together and event.protocol != "dsm" and scenario.may_fail:
        hint = "beside workers.together dsm is, or a run in which no host may fail"
        found.append((f"{here}.protocol", event.protocol, hint))
    for operator, described in scenario.operators.items():
        if described.threads > 1:
            # A snapshot would lack the tuples that other threads still serve.
            where = path_text(("operators", operator, "threads"))
            found.append((where, described.threads, "beside a rebalance one thread is; take a higher parallelism"))
    return found


def _of_reconfiguration(scenario: Scenario, name: str, event: Reconfigure) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of a reconfiguration that is not simulated: its tuples have no ids."""
    here, found = path_text(("events", name)), list[tuple[str, object, str]]()
    if event.protocol == "stop-and-restart":
        found += _beside_stops(scenario)
    operator = scenario.operators.get(event.operator)
    if operator is not None and operator.keyed and operator.kind not in ("aggregate", "join"):
        hint = f"key groups of an aggregate or a join are reconfigured, not of a {operator.kind}"
        found.append((f"{here}.operator", event.operator, hint))
    if scenario.fault_tolerance.goes_back_once:
        found += [(f"{here}.kind", event.kind, f"{hint} it is") for hint in _not_beside_restarts(scenario)]
        if any(event.operator in chain for chain in chains_of(scenario)):
            found.append((f"{here}.operator", event.operator, f"with operators.{event.operator}.chain = false it is"))
        stops = event.protocol == "stop-and-restart" and scenario.may_fail
        if stops and not nx.is_weakly_connected(layout.dataflow(scenario)):
            # A crash takes back what is connected; the rest would stand still for ever.
            found.append((f"{here}.protocol", event.protocol, "where all operators are connected it is"))
    elif _loses(scenario) and event.protocol in _IN_STEPS:
        found += [(f"{here}.kind", event.kind, f"{hint} it is") for hint in _not_beside_losses(scenario)]
    else:
        found += [(f"{here}.kind", event.kind, f"{hint} it is") for hint in _not_without_ids(scenario, event.protocol)]
    return found


def _of_postponements(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of post-dated outputs beside what does not keep them."""
    names = [name for name, operator in scenario.operators.items() if operator.postpone is not None]
    found: list[tuple[str, object, str]] = [
        (path_text(("operators", name, "postpone")), NO_VALUE, f"{hint} it is")
        for name in names
        for hint in _not_beside_postponements(scenario)
    ]
    for name, event in scenario.events.items() if names else ():
        if isinstance(event, Reconfigure) and event.protocol == "stop-and-restart":
            hint = "beside post-dated outputs, which do not drain, megaphone and pause-and-resume are"
            found.append((path_text(("events", name, "protocol")), event.protocol, hint))
    return found


def _not_beside_postponements(scenario: Scenario) -> list[str]:
    """Return what has to go before outputs can be post-dated."""
    if _loses(scenario):
        return _not_beside_losses(scenario) + _not_beside_event_time(scenario)
    if scenario.fault_tolerance.goes_back_once:
        return _not_beside_steps(scenario) + _not_beside_event_time(scenario)
    return _not_without_ids(scenario, _IN_STEPS[0]) + _not_beside_event_time(scenario)


def _of_scans(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of tasks that scan their key groups beside what ends or stops them."""
    found: list[tuple[str, object, str]] = []
    for name, operator in scenario.operators.items():
        if operator.scan_s is not None:
            hints = _not_beside_losses(scenario) if _loses(scenario) else _not_without_ids(scenario)
            hints += _not_beside_event_time(scenario)
            hints += ["beside megaphone and pause-and-resume"] * any(
                isinstance(event, Reconfigure) and event.protocol == "stop-and-restart"
                for event in scenario.events.values()
            )
            where, shown = path_text(("operators", name, "scan")), units.show(operator.scan_s, "s")
            found += [(where, shown, f"{hint} it is") for hint in hints]
    return found


def _not_without_ids(scenario: Scenario, protocol: str = "") -> list[str]:
    """Return what has to go before key groups can move, or outputs be post-dated, where tuples have no ids.

    `protocol`: that by which key groups move; with outputs that are post-dated the same goes as with steps.
    """
    keeps = scenario.fault_tolerance.method != "none" or scenario.has_replicas
    restarts = ', or with fault_tolerance.method = "region-restart" and aligned barriers, exactly once,' * bool(
        protocol
    )
    fails = scenario.may_fail and protocol not in _IN_STEPS and not (keeps and protocol)
    without = (
        (fails, f"where no host may fail{restarts}"),
        (keeps, f'with fault_tolerance.method = "none"{restarts}'),
    )
    return [hint for there, hint in without if there] + _not_beside_steps(scenario)


_IN_STEPS = ("megaphone", "pause-and-resume")  # protocols beside which hosts may fail and take states for good


def _loses(scenario: Scenario) -> bool:
    """Return whether hosts may fail, and nothing brings states back."""
    return scenario.may_fail and scenario.fault_tolerance.method == "none"


def _not_beside_losses(scenario: Scenario) -> list[str]:
    """Return what has to go before key groups move, or outputs are post-dated, where crashes take states for good."""
    fails = any(isinstance(event, WorkerFailure) for event in scenario.events.values())
    return ["without worker failures"] * fails + _not_beside_steps(scenario)


def _not_beside_restarts(scenario: Scenario) -> list[str]:
    """Return what has to go before key groups can move where the job goes back to a checkpoint of all."""
    without = (
        (scenario.has_replicas, "without active replicas"),
        (scenario.recovery.adapts, "without the adaptive scheduler"),
        (scenario.rescales_job, "without rescalings of the job"),
    )
    return [hint for there, hint in without if there] + _not_beside_steps(scenario)


def _not_beside_steps(scenario: Scenario) -> list[str]:
    """Return what has to go in any case before key groups can move in steps, or outputs be post-dated."""
    described = scenario.operators.values()
    moves = scenario.migrates and not scenario.rescales_job
    without = (
        (
            moves or scenario.rebalances,
            "without other events than reconfigure, or a policy, that move state",
        ),
        (any(one.buffer is not None for one in described), "without bounded queues"),
    )
    return [hint for there, hint in without if there]


def _not_beside_event_time(scenario: Scenario) -> list[str]:
    """Return what has to go before outputs can be post-dated, or key groups be scanned, if anything."""
    there = any(map(_has_event_time, scenario.operators.values()))
    return [_EVENT_TIME] if there else []


def _beside_stops(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return the faults of operators that may serve, or make, something when a message has its turn."""
    hint = "beside stop-and-restart one thread is; take a higher parallelism"
    found: list[tuple[str, object, str]] = [
        (path_text(("operators", name, "threads")), operator.threads, hint)
        for name, operator in scenario.operators.items()
        if operator.threads > 1
    ]
    for name, operator in scenario.operators.items():
        if operator.timer is not None:
            hint = "beside timers, which do not drain, megaphone and pause-and-resume are"
            found.append((path_text(("operators", name, "timer")), NO_VALUE, hint))
    return found


def _has_event_time(operator: Operator) -> bool:
    """Return whether event time, or an own clock, matters at an operator."""
    recent = isinstance(operator.state, WindowState)
    return recent or operator.kind == "join" or operator.window is not None or operator.timer is not None


def _of_waves(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of what meets periodic waves: they bring back each task as a whole."""
    if scenario.waves.interval_s is None:
        return []
    where, value = "waves.interval", units.show(scenario.waves.interval_s, "s")
    found = list[tuple[str, object, str]]()
    protocols = {event.protocol for event in scenario.events.values() if isinstance(event, Rebalance)}
    if scenario.migrates:
        found.append((where, value, "without moves of key groups it is: a wave saves and restores a task as a whole"))
    if protocols - {"dsm"} and scenario.may_fail:
        found.append((where, value, "beside rebalances by dcr or ccr it is where no host may fail"))
    for name, operator in scenario.operators.items():
        if operator.threads > 1:
            # A snapshot would lack the tuples that other threads still serve.
            path = path_text(("operators", name, "threads"))
            found.append((path, operator.threads, "beside periodic waves one thread is; take a higher parallelism"))
    return found


def _of_protocol(path: str, protocol: str, beside: str = "") -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of a migration protocol that is not implemented; `beside`: another one that is."""
    known = filter(None, (*PROTOCOLS, beside))
    return [] if protocol in PROTOCOLS else [(path, protocol, f"{', '.join(known)} are")]


def _beside_adjustments(scenario: Scenario, path: str, what: str) -> list[tuple[str, object, str]]:
    """Return the faults beside adjustments: the protocol sends again what acks have not trimmed."""
    if scenario.fault_tolerance.trims_by_acks:
        return []
    return [(path, what, "with fault_tolerance.method = elastic-upstream-backup it is; direct and others move groups")]


def _of_operator_policy(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return the faults of the policy that gives operators other tasks."""
    elasticity, placed = scenario.elasticity, layout.placement(scenario)
    found = _beside_adjustments(scenario, "elasticity.policy", elasticity.policy)
    for key, asked in (("scale_out", elasticity.scale_out), ("scale_in", elasticity.scale_in)):
        if asked:
            found.append((f"elasticity.{key}", "true", 'with elasticity.policy = "threshold" it is'))
    for name, operator in scenario.operators.items():
        if operator.movable and (not elasticity.operators or name in elasticity.operators):
            own = [placed[layout.task_name(name, k)] for k in range(operator.parallelism)]
            if len(set(own)) < len(own):
                hint = f"with each task of {name} on a host of its own it is"
                found.append(("elasticity.policy", elasticity.policy, hint))
    return found


def _of_rescaling(scenario: Scenario, name: str, event: Rescale | Reconfigure) -> list[tuple[str, object, str]]:
    """Return the faults of rescaling: a key group moves from host to host, not between tasks of one host."""
    operator, placed = scenario.operators.get(event.operator), layout.placement(scenario)
    if operator is None:
        return []
    here, found = path_text(("events", name)), list[tuple[str, object, str]]()
    hosts = sum(group.used for group in scenario.hosts.values())
    if isinstance(event, Rescale) and event.parallelism > hosts:
        hint = f"one task on a host is, and {hosts} are in use at the start"
        found.append((f"{here}.parallelism", event.parallelism, hint))
    own = [placed[layout.task_name(event.operator, k)] for k in range(operator.parallelism)]
    if len(set(own)) < len(own):
        found.append((f"{here}.operator", event.operator, "with each of its tasks on a host of its own it is"))
    return found


def _beside_moves(scenario: Scenario, path: str, what: str) -> list[tuple[str, object, str]]:
    """Return the faults beside moves: a protocol moves only what upstream keeps and what a checkpoint has."""
    found, tolerance = list[tuple[str, object, str]](), scenario.fault_tolerance
    methods = ("checkpoint", "state-management", "synchronous-checkpoints")
    if tolerance.method not in methods or tolerance.guarantee == "at-most-once":
        hint = "with fault_tolerance.method = checkpoint, at least once, it is: upstream keeps what is sent again"
        if tolerance.method == "region-restart":
            hint = "with fault_tolerance.barriers a rescaling of the job is, which goes back to a checkpoint of it"
        found.append((path, what, hint))
    return found


def _of_readings(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of what meets sources that read files or polls, and is not simulated.

    Whatever reads them goes back as a whole, in the order in which they read now; event time would have to wait for the
    oldest file.
    """
    tolerance = scenario.fault_tolerance
    read = [path_text(("operators", name, "reading")) for name, one in scenario.operators.items() if one.reading]
    if not read:
        return []
    if tolerance.changelogs is not None:
        return _of_polls(scenario, read)
    restarts = tolerance.method == "region-restart" and tolerance.job_checkpoints is not None
    fails = scenario.may_fail or scenario.checkpoints_may_fail_it
    moved = scenario.migrates or scenario.rebalances or scenario.adjusts or scenario.waves.interval_s is not None
    moved = moved or any(isinstance(event, Reconfigure) for event in scenario.events.values())
    timed = any(_has_event_time(one) for one in scenario.operators.values())
    without = (
        (not restarts and fails, 'with fault_tolerance.method = "region-restart" and barriers it is'),
        (
            not restarts and tolerance.method not in ("none", "checkpoint", "region-restart"),
            'with fault_tolerance.method = "region-restart" and barriers it is, or "none"',
        ),
        (scenario.rescales_job, "without rescalings of the job it is"),
        (not scenario.rescales_job and (moved or scenario.has_replicas), "without moves and replicas of tasks it is"),
        (timed, "without windows, joins and timers it is: event time would wait for the oldest file"),
    )
    return [(where, NO_VALUE, hint) for where in read for there, hint in without if there]


def _of_polls(scenario: Scenario, read: list[str]) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of files beside changelogs, and of polls that no task makes, or in several ways."""
    found, polling = list[tuple[str, object, str]](), scenario.polling
    for name, operator in scenario.operators.items():
        reading = operator.reading
        if reading is None:
            continue
        here = path_text(("operators", name, "reading"))
        if reading.file_s is not None and scenario.engine is None:
            found.append((f"{here}.file", units.show(reading.file_s, "s"), "with the method changelog a poll is"))
        readers = [one for one, other in scenario.operators.items() if name in other.inputs]
        if not any(one in polling for one in readers):
            hint = "where an operator with a service reads the source it is: polls occupy its tasks"
            found.append((here, NO_VALUE, hint))
        for one in readers:
            if one in polling and polling[one] != reading:
                hint = f"with the same reading of all sources of {one} it is: its tasks poll them together"
                found.append((here, NO_VALUE, hint))
    return found


def _is_simple(join: Operator) -> bool:
    """Return whether a join is one that the simulator knows."""
    window = join.window
    return (
        len(join.inputs) == 2
        and set(join.inputs.values()) == {"key"}
        and window is not None
        and window.step_s == window.length_s
    )


def _of_fault_tolerance(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of what meets a method of recovery, and of copies, that is not simulated."""
    tolerance = scenario.fault_tolerance
    found: list[tuple[str, object, str]] = []
    if tolerance.trims_by_acks or tolerance.kept_history:
        found += _beside_trimming(scenario)
    if tolerance.method == "acker":
        found += _beside_acker(scenario)
    if tolerance.method in ("region-restart", "micro-batch", "changelog"):
        found += _beside_restarts_of_tasks(scenario)
    if tolerance.batches is not None:
        found += _beside_micro_batches(scenario)
    if tolerance.takes_checkpoints and tolerance.copies > 1:
        found.append(("fault_tolerance.copies", tolerance.copies, "one copy is"))
    return found + _of_replicas(scenario)


def _beside_trimming(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of what meets trimming by acks or by age: what is kept is for one task."""
    hint, found = 'with fault_tolerance.method = "checkpoint" it is', list[tuple[str, object, str]]()
    for name, event in scenario.events.items():
        if isinstance(event, Rebalance):
            found.append((path_text(("events", name, "kind")), event.kind, hint))
    if scenario.fault_tolerance.maintenance is not None:
        found.append(("fault_tolerance.maintenance", NO_VALUE, hint))
    if scenario.fault_tolerance.guarantee != "exactly-once":
        # Without ids that receivers drop, what is sent again after an ack would count twice.
        found.append(("fault_tolerance.guarantee", scenario.fault_tolerance.guarantee, hint))
    return found


def _beside_acker(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of bounded queues beside an acker, and of acks that nobody would ever send."""
    acker, found = scenario.fault_tolerance.acking, list[tuple[str, object, str]]()
    if acker is not None and acker.acks == "covered" and scenario.waves.interval_s is None:
        hint = "with waves.interval it is: acks wait for the COMMIT of a wave"
        found.append(("fault_tolerance.acker.acks", acker.acks, hint))
    protocols = {event.protocol for event in scenario.events.values() if isinstance(event, Rebalance)}
    if acker is not None and acker.acks == "covered" and protocols - {"dsm"}:
        hint = "without rebalances by dcr or ccr it is: acks that wait at a task would die with it"
        found.append(("fault_tolerance.acker.acks", acker.acks, hint))
    for name, operator in scenario.operators.items():
        if operator.buffer is not None:
            found.append((path_text(("operators", name, "buffer")), operator.buffer, "without an acker it is"))
    return found


def _beside_micro_batches(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of what does not wait for batches: event time, timers, and queues that are full."""
    found = list[tuple[str, object, str]]()
    for name, operator in scenario.operators.items():
        here = path_text(("operators", name))
        if operator.window is not None and scenario.limits_batches:
            hint = "without micro_batches.max_offsets it is: what a batch leaves would be too late for its window"
            found.append((f"{here}.window", NO_VALUE, hint))
        elif operator.window is not None and _is_behind_a_window(scenario, name):
            hint = "without micro-batches it is: in batches one window on the way to a sink is"
            found.append((f"{here}.window", NO_VALUE, hint))
        elif operator.kind == "join":
            found.append(
                (f"{here}.window", NO_VALUE, "without micro-batches it is: in batches those of aggregates are")
            )
        if operator.timer is not None:
            found.append((f"{here}.timer", NO_VALUE, "without micro-batches it is"))
        if operator.buffer is not None:
            found.append((f"{here}.buffer", operator.buffer, "without micro-batches it is: a batch waits as a whole"))
    if scenario.fault_tolerance.staggered:
        found.append(("fault_tolerance.staggered", "true", "all states of a batch are stored at its end"))
    return found


def _is_behind_a_window(scenario: Scenario, name: str) -> bool:
    """Return whether an operator upstream of this one has a window."""
    for upstream in scenario.operators[name].inputs:
        operator = scenario.operators.get(upstream)
        if operator is not None and (operator.window is not None or _is_behind_a_window(scenario, upstream)):
            return True
    return False


def _beside_restarts_of_tasks(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return (path, value, hint) of what meets restarts of as many tasks: rebalances, replicas, hosts of one's own."""
    found, tolerance = list[tuple[str, object, str]](), scenario.fault_tolerance
    for name, event in scenario.events.items():
        if isinstance(event, Rebalance):
            hint = 'with fault_tolerance.method = "checkpoint" it is'
            found.append((path_text(("events", name, "kind")), event.kind, hint))
    if scenario.has_replicas:
        found.append(("fault_tolerance.replicas", NO_VALUE, 'with fault_tolerance.method = "checkpoint" it is'))
    if tolerance.restart != "anywhere":
        found.append(
            ("fault_tolerance.restart", tolerance.restart, "anywhere is: tasks stay where they were if they can")
        )
    return found


def _of_replicas(scenario: Scenario) -> list[tuple[str, object, str]]:
    """Return the faults of replicas: moves of replicated groups, and timers, which would go off at both instances."""
    found: list[tuple[str, object, str]] = []
    if not scenario.has_replicas:
        return found
    if scenario.elasticity.policy != "none":
        found.append(("elasticity.policy", scenario.elasticity.policy, "without active replicas it is"))
    if scenario.fault_tolerance.maintenance is not None:
        found.append(("fault_tolerance.maintenance", NO_VALUE, "without active replicas it is"))
    for name, event in scenario.events.items():
        moves = isinstance(event, (Migrate, Rescale)) or (isinstance(event, Reconfigure) and event.moves_each)
        if moves and not scenario.fault_tolerance.replicates_all:
            found.append((path_text(("events", name, "kind")), event.kind, "without active replicas it is"))
    for name, replica in scenario.fault_tolerance.replicas.items():
        operator = scenario.operators.get(replica.operator)
        if operator is not None and operator.timer is not None:
            where = path_text(("fault_tolerance", "replicas", name, "operator"))
            found.append((where, replica.operator, "a replica of an operator without a timer is"))
    for name, operator in scenario.operators.items() if scenario.fault_tolerance.replicates_all else ():
        if operator.timer is not None:
            hint = "without active-replication it is: both instances would emit at its instants"
            found.append((path_text(("operators", name, "timer")), NO_VALUE, hint))
    return found
