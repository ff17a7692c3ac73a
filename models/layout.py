"""Names and places that follow from a scenario: its tasks, its hosts, and which task starts on which host.

Task k of operator `count` is `count-k`; host k of group `worker` is `worker-k`.
"""

from __future__ import annotations

from collections.abc import Iterator

from models.cluster import HostGroup
from models.scenario import Scenario
from models.workload import ProfileKeys


def task_name(operator: str, index: int) -> str:
    """The name of one task."""
    return f"{operator}-{index}"


def host_name(group: str, index: int) -> str:
    """The name of one host."""
    return f"{group}-{index}"


def hosts(scenario: Scenario) -> dict[str, HostGroup]:
    """Every host by name with its group's description, in file order."""
    return {host_name(name, index): group for name, group in scenario.hosts.items() for index in range(group.count)}


def spare_hosts(scenario: Scenario) -> tuple[str, ...]:
    """Hosts that are not in use at the start, in file order: the last ones of their groups."""
    return tuple(
        host_name(name, index) for name, group in scenario.hosts.items() for index in range(group.used, group.count)
    )


def tasks(scenario: Scenario) -> Iterator[tuple[str, int]]:
    """Every (operator, task index), in file order."""
    for name, operator in scenario.operators.items():
        for index in range(operator.parallelism):
            yield name, index


def placement(scenario: Scenario) -> dict[str, str]:
    """Task name -> host name at the start of a run.

    Round robin over the hosts of the operator's host group where `placement.operators` names one, else in file
    order over all hosts with one counter; spare hosts get none. `placement.tasks` overrules single tasks.
    """
    spare = set(spare_hosts(scenario))
    all_hosts = tuple(host for host in hosts(scenario) if host not in spare)
    turn = 0
    placed = {}
    for operator, index in tasks(scenario):
        group = scenario.placement.operators.get(operator)
        if group is not None:
            # An operator with a host group of its own starts at that group's first host: task j on host j mod n.
            host = host_name(group, index % scenario.hosts[group].used)
        else:
            host = all_hosts[turn % len(all_hosts)]
            turn += 1
        name = task_name(operator, index)
        placed[name] = scenario.placement.tasks.get(name, host)
    return placed


def task_of_group(key_group: int, parallelism: int) -> int:
    """The task that owns a key group at the start: group j is on task j mod parallelism."""
    return key_group % parallelism


def downstream(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """Operator -> operators that read its output, in file order."""
    readers: dict[str, list[str]] = {name: [] for name in scenario.operators}
    for name, operator in scenario.operators.items():
        for upstream in operator.inputs:
            if upstream in readers:
                readers[upstream].append(name)
    return {name: tuple(found) for name, found in readers.items()}


def topological(scenario: Scenario) -> tuple[str, ...]:
    """Operators so that inputs come before those that read them; raises ValueError on a cycle."""
    operators, readers = scenario.operators, downstream(scenario)
    place = {name: index for index, name in enumerate(operators)}
    waiting = {name: sum(up in operators for up in operator.inputs) for name, operator in operators.items()}
    ready = [name for name, inputs in waiting.items() if not inputs]
    order: list[str] = []
    while ready:  # one round for each step away from the sources, in file order
        order += ready
        following = []
        for reader in (reader for name in ready for reader in readers[name]):
            waiting[reader] -= 1
            if not waiting[reader]:
                following.append(reader)
        ready = sorted(following, key=place.__getitem__)
    if len(order) < len(operators):
        left = [name for name in operators if waiting[name]]
        raise ValueError(f"the dataflow has a cycle through {', '.join(left)}")
    return tuple(order)


def output_bytes(scenario: Scenario) -> dict[str, float]:
    """Operator -> bytes of one tuple that leaves it.

    A source's tuples are as its workload says, an operator's as its `output` says; without `output` they are as
    large as the largest that comes in.
    """
    size: dict[str, float] = {}
    for name in topological(scenario):
        operator = scenario.operators[name]
        if operator.kind == "source":
            size[name] = scenario.workload[name].tuple_bytes
        elif operator.output is not None:
            size[name] = operator.output.tuple_bytes
        else:
            size[name] = max(size[upstream] for upstream in operator.inputs)
    return size


def keys_seen(scenario: Scenario, name: str) -> float:
    """How many keys can reach an operator: those of the largest law, since all laws number keys alike."""
    largest = 0
    waiting = list(scenario.operators[name].inputs)
    seen = set(waiting)
    while waiting:
        upstream = scenario.operators[waiting[-1]]
        source = waiting.pop()
        if upstream.kind == "source":
            keys = scenario.workload[source].keys
            groups = scenario.operators[name].groups
            largest = max(largest, groups if isinstance(keys, ProfileKeys) else keys.count)
        elif upstream.output is not None and upstream.output.keys is not None:
            largest = max(largest, upstream.output.keys.count)
        else:
            waiting += [up for up in upstream.inputs if up not in seen]
            seen.update(upstream.inputs)
    return float(largest)
