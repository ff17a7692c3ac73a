"""Which key groups or tasks have an active replica, and where: what `fault_tolerance.replicas` says, one by one."""

from __future__ import annotations

from dataclasses import dataclass

from models.scenario.description import ScenarioDescription
from models.scenario.fault_tolerance import ActiveReplica
from models.topology import layout


@dataclass(frozen=True)
class PlannedReplica:
    """The replica of one key group, or of one task where the operator is not keyed.

    `name`: entry of `fault_tolerance.replicas` that it is from. `group`: number of the key group or task. `host`: where
    the replica is; `primary`: host of what it replicates. `spares`: hosts for a new replica, in order. `renew`: whether
    there is a new one after a take-over or a loss.
    """

    name: str  # of the entry that it is from
    operator: str
    group: int
    host: str
    primary: str  # the host of what it replicates
    spares: tuple[str, ...]
    renew: bool


def groups_of(scenario: ScenarioDescription, replica: ActiveReplica) -> tuple[int, ...]:
    """Return the key groups, or tasks, that an entry is about, rising; those that do not exist are left out.

    An entry names key groups, or tasks and thereby all key groups of these, or neither and thereby all of the operator.
    """
    operator = scenario.operators[replica.operator]
    if replica.key_groups is not None:
        return tuple(sorted({group for group in replica.key_groups if 0 <= group < operator.groups}))
    if replica.tasks is None:
        return tuple(range(operator.groups))
    named = {k for k in range(operator.parallelism) if layout.task_name(replica.operator, k) in replica.tasks}
    return tuple(k for k in range(operator.groups) if layout.task_of_group(k, operator.parallelism) in named)


def replicated_groups(scenario: ScenarioDescription) -> dict[str, int]:
    """Return operator -> how many of its key groups or tasks have a replica, for those that have any."""
    found: dict[str, set[int]] = {}
    for replica in scenario.fault_tolerance.replicas.values():
        found.setdefault(replica.operator, set()).update(groups_of(scenario, replica))
    return {operator: len(groups) for operator, groups in found.items() if groups}


def planned_replicas(scenario: ScenarioDescription) -> list[PlannedReplica]:
    """Return all replicas at the start of a run of a valid scenario, by operator and key group."""
    placed, made = layout.placement(scenario), list[PlannedReplica]()
    for name, replica in scenario.fault_tolerance.replicas.items():
        parallelism = scenario.operators[replica.operator].parallelism
        for group in groups_of(scenario, replica):
            task = layout.task_name(replica.operator, layout.task_of_group(group, parallelism))
            where = (replica.host, placed[task], replica.spares)
            made.append(PlannedReplica(name, replica.operator, group, *where, replica.renew))
    order = {name: index for index, name in enumerate(scenario.operators)}
    return sorted(made, key=lambda one: (order[one.operator], one.group))
