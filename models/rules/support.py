"""What a scenario can say and the simulator does not do yet."""

from __future__ import annotations

from models.errors import InputFault
from models.events import PROTOCOLS, Migrate
from models.job import Operator, WindowState
from models.scenario import Scenario
from models.words import path_text

RULE = "not simulated yet"


def not_simulated(scenario: Scenario) -> list[InputFault]:
    """One fault for each thing that a run of this scenario would have to leave out; empty when it can run."""
    found: list[tuple[str, object, str]] = []
    may_fail = scenario.may_fail or scenario.migrates
    for name, operator in scenario.operators.items():
        here = path_text(("operators", name))
        if operator.kind == "join" and not _is_simple(operator):
            found.append((f"{here}.kind", "join", "one of two inputs by key with a window without slide is"))
        if may_fail and operator.timer is not None:
            found.append((f"{here}.timer", "given", "timers where a host may fail are not"))
        if may_fail and operator.window is not None:
            found.append((f"{here}.window", "given", "windows where a host may fail are not"))
        if may_fail and isinstance(operator.state, WindowState):
            found.append((f"{here}.state.model", "window", "where a host may fail per-key, fixed and per-tuple are"))
    if any(operator.window is not None or operator.timer is not None for operator in scenario.operators.values()):
        found += _beside_event_time(scenario)
    if scenario.placement.plan is not None:
        found.append(("placement.plan", scenario.placement.plan, "placement.tasks is"))
    found += _of_fault_tolerance(scenario)
    if scenario.elasticity.policy != "none":
        found.append(("elasticity.policy", scenario.elasticity.policy, ""))
    for name, event in scenario.events.items():
        if isinstance(event, Migrate):
            found += _of_migration(scenario, name, event)
        elif event.kind != "host-failure":
            found.append((f"{path_text(('events', name))}.kind", event.kind, "host-failure and migrate are"))
    return [InputFault(path, value, RULE, hint) for path, value, hint in found]


def _beside_event_time(scenario: Scenario) -> list[tuple[str, object, str]]:
    """What windows and timers do not go together with: watermarks would overtake tuples, or take work."""
    hint = "leave it out, or the windows and timers"
    found: list[tuple[str, object, str]] = [
        (f"{path_text(('operators', name))}.buffer", operator.buffer, hint)
        for name, operator in scenario.operators.items()
        if operator.buffer is not None
    ]
    for name, group in scenario.hosts.items():
        if group.cpu == "processor-sharing":
            found.append((f"{path_text(('hosts', name))}.cpu", group.cpu, hint))
        if group.load is not None:
            found.append((f"{path_text(('hosts', name))}.load", "given", hint))
    if scenario.network.sharing == "fair":
        found.append(("network.sharing", "fair", hint))
    return found


def _of_migration(scenario: Scenario, name: str, event: Migrate) -> list[tuple[str, object, str]]:
    """A protocol moves what upstream keeps and what a checkpoint has."""
    here, tolerance = path_text(("events", name)), scenario.fault_tolerance
    found: list[tuple[str, object, str]] = []
    if event.protocol not in PROTOCOLS:
        found.append((f"{here}.protocol", event.protocol, f"{', '.join(PROTOCOLS)} are"))
    if tolerance.method != "checkpoint" or tolerance.guarantee == "at-most-once":
        hint = "with fault_tolerance.method = checkpoint, at least once, it is: upstream keeps what is sent again"
        found.append((f"{here}.kind", "migrate", hint))
    elif tolerance.store != "nodes":
        found.append((f"{here}.kind", "migrate", "with fault_tolerance.store = nodes it is"))
    hint = "beside migrations it is not: leave it out"
    for other, one in scenario.operators.items():
        given = {"buffer": one.buffer, "window": one.window and "given", "timer": one.timer and "given"}
        given["state.model"] = "window" if isinstance(one.state, WindowState) else None
        found += [
            (f"{path_text(('operators', other))}.{key}", value, hint)
            for key, value in given.items()
            if value is not None
        ]
    if scenario.network.sharing == "fair":
        found.append(("network.sharing", "fair", hint))
    operator = scenario.operators.get(event.operator)
    if operator is not None and operator.kind != "aggregate":
        found.append((f"{here}.operator", event.operator, f"key groups of an aggregate move, not of a {operator.kind}"))
    return found


def _is_simple(join: Operator) -> bool:
    """Whether a join is one that the simulator knows."""
    window = join.window
    return (
        len(join.inputs) == 2
        and set(join.inputs.values()) == {"key"}
        and window is not None
        and window.step_s == window.length_s
    )


def _of_fault_tolerance(scenario: Scenario) -> list[tuple[str, object, str]]:
    tolerance = scenario.fault_tolerance
    found: list[tuple[str, object, str]] = []
    if tolerance.method not in ("none", "checkpoint"):
        found.append(("fault_tolerance.method", tolerance.method, "none and checkpoint are"))
    if tolerance.method == "checkpoint" and tolerance.store == "upstream":
        found.append(("fault_tolerance.store", tolerance.store, "nodes and remote are"))
    if tolerance.method == "checkpoint" and tolerance.copies > 1:
        found.append(("fault_tolerance.copies", tolerance.copies, "one copy is"))
    return found
