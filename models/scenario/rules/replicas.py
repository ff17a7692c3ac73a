"""Rules about active replicas: each is of something that exists, on another host, and nothing has more than one."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models import display
from models.errors import NO_VALUE, InputFault
from models.scenario.fault_tolerance import ActiveReplica
from models.scenario.rules import cluster
from models.scenario.rules.dataflow import unknown_name, whole
from models.scenario.scenario import Scenario
from models.topology import layout
from models.validation_messages import Step, path_text

_SECTIONS = ("hosts", "operators", "placement", "fault_tolerance")


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of `fault_tolerance.replicas`; `broken` as in `models.scenario.rules.faults`."""
    if not scenario.has_replicas or not all(whole(section, broken) for section in _SECTIONS):
        return
    if scenario.fault_tolerance.replicates_all:
        hosts = sum(group.used for group in scenario.hosts.values())
        if hosts < 2:
            rule = f"needs 2 hosts or more in use, there is {hosts}"
            hint = "a replica on the host of what it replicates would die with it"
            yield InputFault("fault_tolerance.method", scenario.fault_tolerance.method, rule, hint)
    yield from _of_replica_method(scenario)
    found = [fault for name in scenario.fault_tolerance.replicas for fault in _of_replica(scenario, name)]
    yield from found
    # Where tasks are is known only if placement names what there is.
    if not found and scenario.fault_tolerance.replicas and next(cluster.faults(scenario, broken), None) is None:
        yield from _of_replicas_together(scenario)


def _at_replica(name: str, *steps: Step) -> tuple[Step, ...]:
    """Return the path of a key of one entry of the replicas."""
    return ("fault_tolerance", "replicas", name, *steps)


def _of_replica_method(scenario: Scenario) -> Iterator[InputFault]:
    """Yield faults of the method: both instances need every tuple, upstream that keeps it, and no duplicates."""
    tolerance = scenario.fault_tolerance
    here = "fault_tolerance.replicas" if tolerance.replica_plan is None else "fault_tolerance.replica_plan"
    if tolerance.replicas and tolerance.replica_plan is not None:
        rule = "stands in place of fault_tolerance.replicas, which is there, too"
        yield InputFault(here, tolerance.replica_plan.plan, rule, "leave one of them out")
    if tolerance.replicates_all and not tolerance.replicas and tolerance.replica_plan is None:
        return
    if tolerance.method != "checkpoint":
        rule = f"needs what upstream keeps; fault_tolerance.method is {tolerance.method}"
        yield InputFault(here, NO_VALUE, rule, 'write method = "checkpoint"')
    elif tolerance.guarantee != "exactly-once":
        rule = f"needs receivers that drop duplicates; fault_tolerance.guarantee is {tolerance.guarantee}"
        yield InputFault(here, NO_VALUE, rule, 'write guarantee = "exactly-once"')


def _of_replica(scenario: Scenario, name: str) -> Iterator[InputFault]:
    """Yield faults of one entry: its operator, groups or tasks, and hosts."""
    replica = scenario.fault_tolerance.replicas[name]
    operator = scenario.operators.get(replica.operator)
    if operator is None:
        yield unknown_name(_at_replica(name, "operator"), replica.operator, "operator", scenario.operators)
    elif operator.kind in ("source", "sink"):
        rule = f"a {operator.kind} has no replica"
        yield InputFault(path_text(_at_replica(name, "operator")), replica.operator, rule, "what is in between has")
    else:
        yield from _of_replicated(scenario, name, replica)
    yield from _of_replica_hosts(scenario, name, replica)


def _of_replicated(scenario: Scenario, name: str, replica: ActiveReplica) -> Iterator[InputFault]:
    """Yield faults of the key groups or tasks of an entry."""
    operator = scenario.operators[replica.operator]
    if replica.tasks is not None and replica.key_groups is not None:
        yield InputFault(path_text(_at_replica(name, "tasks")), NO_VALUE, "either tasks or key_groups, not both")
    known = dict.fromkeys(layout.task_name(replica.operator, k) for k in range(operator.parallelism))
    for index, task in enumerate(replica.tasks or ()):
        if task not in known:
            yield unknown_name(_at_replica(name, "tasks", index), task, f"task of {replica.operator}", known)
    for index, group in enumerate(replica.key_groups or ()):
        if not 0 <= group < operator.groups:
            rule = f"must be from 0 to {display.count(operator.groups - 1)}"
            yield InputFault(path_text(_at_replica(name, "key_groups", index)), group, rule)
    for key, given in (("tasks", replica.tasks), ("key_groups", replica.key_groups)):
        if given is not None and not given:
            yield InputFault(path_text(_at_replica(name, key)), NO_VALUE, "is empty: nothing would be replicated")


def _of_replica_hosts(scenario: Scenario, name: str, replica: ActiveReplica) -> Iterator[InputFault]:
    """Yield faults of the hosts of an entry: unknown, spare, or named twice."""
    hosts, spare = layout.hosts(scenario), set(layout.spare_hosts(scenario))
    asked: list[tuple[tuple[Step, ...], str]] = [(("host",), replica.host)]
    asked += [(("spares", index), host) for index, host in enumerate(replica.spares)]
    for steps, host in asked:
        if host not in hosts:
            yield unknown_name(_at_replica(name, *steps), host, "host", hosts)
        elif host in spare:
            rule = "is a spare host of its group: it is not in use"
            yield InputFault(
                path_text(_at_replica(name, *steps)), host, rule, "a host on which nothing is placed will do"
            )
    for index, host in enumerate(replica.spares):
        if host in replica.spares[:index]:
            yield InputFault(path_text(_at_replica(name, "spares", index)), host, "is named twice")


def _of_replicas_together(scenario: Scenario) -> Iterator[InputFault]:
    """Yield faults of entries that are right one by one: replicas on the host of their owner, or given twice."""
    seen: dict[tuple[str, int], str] = {}
    for name, replica in scenario.fault_tolerance.replicas.items():
        for group in layout.groups_of(scenario, replica):
            other = seen.setdefault((replica.operator, group), name)
            if other != name:
                rule = f"key group or task {group} of {replica.operator} has a replica by {other} already"
                yield InputFault(path_text(_at_replica(name)), NO_VALUE, rule, "one replica of each is simulated")
                break
    beside: dict[str, list[int]] = {}
    for one in layout.planned_replicas(scenario):
        if one.host == one.primary:
            beside.setdefault(one.name, []).append(one.group)
    for name, groups in beside.items():
        replica = scenario.fault_tolerance.replicas[name]
        shown = ", ".join(map(str, groups[:5])) + (f" and {len(groups) - 5} more" if len(groups) > 5 else "")
        rule = f"is the host of what is replicated: key group or task {shown} of {replica.operator}"
        yield InputFault(
            path_text(_at_replica(name, "host")), replica.host, rule, "it would die with it; name another host"
        )
