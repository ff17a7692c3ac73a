"""Active replicas of a plan, as `plan replicas` has chosen them, for the operators of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.errors import NO_VALUE, InputError, InputFault, named, raise_if_any
from models.planning.replicas import KIND, checked_instances
from models.scenario.fault_tolerance import ActiveReplica, ReplicaPlanFile
from models.scenario.rules import faults, not_simulated
from models.scenario.scenario import Scenario
from models.schema_types import FrozenMap
from models.topology import layout
from models.validation_messages import Step, nearest, nearest_if_shown, path_text
from scenarios.planning.plan_files import plan_fields
from scenarios.reliability.failure_replay import replayed

_HERE = ("fault_tolerance", "replica_plan")


@dataclass(frozen=True)
class _Chosen:
    """Operators of a plan, with the numbers of the host of the primary and of those of its replicas."""

    hosts: Mapping[str, tuple[int, ...]]

    @property
    def used(self) -> int:
        """How many hosts the plan counts, as far as it uses them."""
        return 1 + max(host for placed in self.hosts.values() for host in placed)


def filled(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario with the failures of its log and the replicas of its plan as entries. Raises InputError."""
    return with_planned_replicas(replayed(scenario, folder), folder)


def with_planned_replicas(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario with the replicas and places of its plan as entries of its own; itself where it names none.

    Raises InputError for a plan that cannot be read, or does not fit the scenario.
    """
    replica_plan = scenario.fault_tolerance.replica_plan
    if replica_plan is None:
        return scenario
    with named(_at("plan")):
        chosen = _read(folder / replica_plan.plan)
    names = [*layout.hosts(scenario)] if replica_plan.hosts is None else [*replica_plan.hosts]
    if replica_plan.hosts is None:
        spare = set(layout.spare_hosts(scenario))
        names = [name for name in names if name not in spare]
    raise_if_any(
        [
            *_faults_of_hosts(scenario, replica_plan, chosen, names),
            *_faults_of_operators(scenario, replica_plan, chosen),
        ]
    )
    # The entries are checked as if the user had written them; faults then name the plan (`_by_plan`).
    made = _with_entries(scenario, replica_plan, chosen, names)
    raise_if_any(_by_plan(fault, replica_plan) for fault in (*faults(made), *not_simulated(made)))
    return made


def _at(*steps: Step) -> str:
    return path_text((*_HERE, *steps))


def _read(path: Path) -> _Chosen:
    """Return the choice of a plan file; raises InputError for no plan, or one of another kind."""
    fields = plan_fields(path)
    kind = fields.get("kind")
    if kind != KIND:
        hint = "one plan is wanted: holdfast plan replicas without --front" if kind == "front" else ""
        raise InputError.at("kind", kind if "kind" in fields else NO_VALUE, f"must be {KIND}", hint or _MAKE)
    names, instances = fields.get("operators"), fields.get("instances")
    if instances is None:
        status = fields.get("status")
        raise InputError.at("instances", NO_VALUE, f"is missing: the plan has no answer, its status is {status}")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
        raise InputError.at("operators", names, "must be a list of names", _MAKE)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError.at("operators", twice, "is named twice")
    return _Chosen(_placed(names, instances))


_MAKE = "holdfast plan replicas FILE --out PLAN.json writes one"


def _placed(names: list[str], instances: Any) -> dict[str, tuple[int, ...]]:
    """Return operator -> hosts, the primary first; raises InputError with the fault of each list."""
    placed = checked_instances(instances)
    if len(placed) != len(names):
        raise InputError.at("instances", len(placed), f"must be as many lists as operators: {len(names)}")
    found = []
    for index, (name, hosts) in enumerate(zip(names, placed, strict=True)):
        path = f"instances[{index}]"
        if not hosts or min(hosts) < 0:
            found.append(InputFault(path, [*hosts], f"must be the hosts of {name}, the primary first, counted from 0"))
        elif len(set(hosts)) < len(hosts):
            found.append(InputFault(path, [*hosts], f"puts two instances of {name} on one host", "they die together"))
    raise_if_any(found)
    return {name: tuple(hosts) for name, hosts in zip(names, placed, strict=True)}


def _faults_of_hosts(
    scenario: Scenario, replica_plan: ReplicaPlanFile, chosen: _Chosen, names: list[str]
) -> Iterator[InputFault]:
    """Yield faults of the named hosts and spares, and of too few hosts for the plan."""
    known = layout.hosts(scenario)
    spare = set(layout.spare_hosts(scenario))
    for key, given in (("hosts", replica_plan.hosts or ()), ("spares", replica_plan.spares)):
        for index, host in enumerate(given):
            if host not in known:
                yield InputFault(_at(key, index), host, "there is no host of this name", nearest_if_shown(host, known))
            elif host in given[:index]:
                yield InputFault(_at(key, index), host, "is named twice")
            elif host in spare:
                hint = "a host on which nothing is placed will do"
                yield InputFault(_at(key, index), host, "is a spare host of its group: it is not in use", hint)
    if chosen.used > len(names):
        rule = f"are too few: the plan has operators on {chosen.used} hosts"
        hint = (
            "name a host of the scenario for each, as in hosts = [" + ", ".join(f'"{n}"' for n in names[:2]) + ", ...]"
        )
        yield InputFault(_at("hosts"), f"{len(names)} hosts", rule, hint)


def _target(replica_plan: ReplicaPlanFile, name: str) -> str:
    """Return the operator of the scenario that an operator of the plan stands for, by name."""
    return replica_plan.operators.get(name, name.replace(".", "_"))


def _faults_of_operators(scenario: Scenario, replica_plan: ReplicaPlanFile, chosen: _Chosen) -> Iterator[InputFault]:
    """Yield faults of the plan's operators: unknown, of the same name, or with replicas that are not simulated."""
    for key, names in (("operators", [*replica_plan.operators]), ("without", [*replica_plan.without])):
        for index, name in enumerate(names):
            if name not in chosen.hosts:
                path = _at(key, name) if key == "operators" else _at(key, index)
                yield InputFault(path, name, "is not an operator of the plan", nearest_if_shown(name, chosen.hosts))
    taken: dict[str, str] = {}
    for name, hosts in chosen.hosts.items():
        target, path = _target(replica_plan, name), _at("operators", name)
        operator = scenario.operators.get(target)
        if operator is None:
            if name in replica_plan.operators or name not in replica_plan.without:
                rule = "there is no operator of this name in the scenario"
                yield InputFault(path, target, rule, nearest(target, scenario.operators) or _LEAVE_OUT)
        elif taken.setdefault(target, name) != name:
            yield InputFault(path, target, f"stands for {taken[target]} of the plan already")
        elif name not in replica_plan.without and len(hosts) > 1:
            yield from _of_replicated(path, target, operator.kind, len(hosts) - 1)


_LEAVE_OUT = f"or name the plan's operator in {path_text(_HERE)}.without"


def _of_replicated(path: str, target: str, kind: str, replicas: int) -> Iterator[InputFault]:
    """Yield faults of an operator whose replicas cannot be simulated."""
    if kind in ("source", "sink"):
        yield InputFault(path, target, f"a {kind} has no replica, and the plan has one of it", _LEAVE_OUT)
    elif replicas > 1:
        hint = "holdfast plan replicas --level 1 makes a plan of one each"
        yield InputFault(path, target, f"has {replicas} replicas in the plan, and one of each is simulated", hint)


def _with_entries(scenario: Scenario, replica_plan: ReplicaPlanFile, chosen: _Chosen, names: list[str]) -> Scenario:
    """Return the scenario with replicas under the names of the plan's operators, and tasks where primaries are."""
    tasks, replicas = dict(scenario.placement.tasks), dict[str, ActiveReplica]()
    for name, hosts in chosen.hosts.items():
        target = _target(replica_plan, name)
        if target not in scenario.operators:
            continue
        if target not in scenario.placement.operators:
            for k in range(scenario.operators[target].parallelism):
                # A place that the scenario gives goes before that of the plan.
                tasks.setdefault(layout.task_name(target, k), names[hosts[0]])
        if len(hosts) > 1 and name not in replica_plan.without:
            replicas[name] = ActiveReplica(
                operator=target, host=names[hosts[1]], spares=replica_plan.spares, renew=replica_plan.renew
            )
    if not replicas:
        raise InputError.at(_at("plan"), replica_plan.plan, "has no replicas, or none that is not in without")
    placement = scenario.placement.model_copy(update={"tasks": FrozenMap(tasks)})
    of_plan = {"replicas": FrozenMap(replicas), "replica_plan": None}
    tolerance = scenario.fault_tolerance.model_copy(update=of_plan)
    return scenario.model_copy(update={"placement": placement, "fault_tolerance": tolerance})


def _by_plan(fault: InputFault, replica_plan: ReplicaPlanFile) -> InputFault:
    """Return a fault of an entry that the plan became, with the plan before its path."""
    return replace(fault, path=f"{_at('plan')}: {replica_plan.plan}: {fault.path}")
