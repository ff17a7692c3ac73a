"""Check the arguments of verbs by which key groups move without a second instance, for both full planes."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

import networkx as nx
import numpy as np

from models.scenario.events import Reconfigure
from sim.control.cluster import Cluster, RunPlan


def check_moving(plan: RunPlan) -> None:
    """Raise ValueError if key groups cannot be taken out of their tasks in the run."""
    kept = plan.keeps_ids and not (plan.scenario.fault_tolerance.goes_back_once or plan.scenario.loses_states)
    found = (
        "tuples have ids, and states that a crash takes are neither lost for good nor all those of one checkpoint"
        if kept
        else None,
        "queues are bounded" if plan.bounded else None,
        "acks or time trim outputs" if plan.trimming or plan.history else None,
    )
    why = next((one for one in found if one), None)
    if why is not None:
        raise ValueError(f"key groups move without a second instance only elsewhere: {why}")


def check_placement(
    cluster: Cluster, operator: int, senders: Iterable[int], owners: Iterable[int]
) -> tuple[int, list[int], np.ndarray]:
    """Return the arguments as whole numbers, the owners as an array.

    A task whose host is dead, which nobody has detected, may be an owner: what is sent to it is lost. One that is known
    to be dead may be that of key groups that are down there. Raises ValueError if these senders cannot be told that
    these tasks (n_groups,) own the operator's key groups, and TypeError for what is no whole number.
    """
    operator, senders, tasks = index(operator), [*map(index, senders)], _whole_numbers(owners)
    plans = cluster.plan.operators
    if not 0 <= operator < len(plans) or plans[operator].is_source or plans[operator].is_sink:
        raise ValueError("only key groups with a state are placed: not of a source or sink")
    groups = plans[operator].description.groups
    if tasks.size != groups:
        raise ValueError(f"{plans[operator].name} has {groups} key groups, not {tasks.size}")
    its = cluster.task_operator
    for task in _each(tasks, len(its)):
        is_known = 0 <= task < len(its) and its[task] == operator
        if not is_known or not (_is_trusted(cluster, task) or _are_down(cluster, operator, tasks == task, task)):
            raise ValueError(f"task {task} is no live task of {plans[operator].name}")
    upstream = _upstream(cluster, operator)
    for task in senders:
        if not _is_live(cluster, task) or cluster.task_operator[task] not in upstream:
            raise ValueError(f"task {task} is no live task that sends to {plans[operator].name}")
    return operator, senders, tasks


def _each(tasks: np.ndarray, count: int) -> list[int]:
    """Return each task once; by counting, unless one is none of so many: sorting takes many times as long."""
    if tasks.min() < 0 or tasks.max() >= count:
        return [int(tasks.min()), int(tasks.max())]
    return np.flatnonzero(np.bincount(tasks)).tolist()


def _whole_numbers(given: Iterable[int]) -> np.ndarray:
    """Return the numbers as an array, at once if they are one; raises TypeError for what is no whole number."""
    if isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind in "iu":
        return given.astype(np.int64)
    return np.array([*map(index, given)], np.int64)


def check_withholding(
    plan: RunPlan, cluster: Cluster, task: int, operator: int, from_ns: int = 0
) -> tuple[int, int, int]:
    """Return the arguments as whole numbers.

    Raises ValueError if the task is no live one that sends to the operator, or if births are not noted in the run, and
    TypeError for what is no whole number.
    """
    check_moving(plan)
    task, operator, from_ns = index(task), index(operator), index(from_ns)
    if not 0 <= operator < len(plan.operators) or plan.operators[operator].is_source:
        raise ValueError("outputs are withheld for an operator, or a sink")
    if not _is_live(cluster, task) or cluster.task_operator[task] not in _upstream(cluster, operator):
        raise ValueError(f"task {task} is no live task that sends to {plan.operators[operator].name}")
    return task, operator, check_times(plan, operator, from_ns)


def check_frontier(plan: RunPlan, now_ns: int, operator: int, time_ns: int) -> tuple[int, int]:
    """Return the arguments as whole numbers.

    Raises ValueError if control cannot be told when nothing born before that time is at the operator or above it, and
    TypeError for what is no whole number.
    """
    check_moving(plan)
    operator, time_ns = index(operator), index(time_ns)
    if not 0 <= operator < len(plan.operators) or plan.operators[operator].is_source:
        raise ValueError("a frontier is that of an operator, or of a sink")
    check_times(plan, operator, time_ns)
    if time_ns > now_ns:
        raise ValueError("the frontier of a time that has not come is asked for when it has")
    return operator, time_ns


def check_times(plan: RunPlan, operator: int, time_ns: int) -> int:
    """Return the time; raises ValueError if what windows above make has births that are not noted in the run."""
    name = _fires_above(plan, operator) if time_ns else None
    if name is not None and not notes_births(plan):
        raise ValueError(f"when an output of {name} is born is noted for megaphone only")
    return time_ns


def notes_births(plan: RunPlan) -> bool:
    """Return whether it is noted when what windows make is born: where key groups behind them move at times."""
    moved = {
        one.operator
        for one in plan.scenario.events.values()
        if isinstance(one, Reconfigure) and one.protocol == "megaphone"
    }
    return any(one.name in moved and _fires_above(plan, one.index) for one in plan.operators)


def _fires_above(plan: RunPlan, operator: int) -> str | None:
    """Return the name of an operator above that makes outputs when its windows end, or None."""
    above = sorted(nx.ancestors(plan.dataflow, operator))
    return next((plan.operators[one].name for one in above if plan.operators[one].fires), None)


def operators_above(plan: RunPlan) -> np.ndarray:
    """Return (n_operators, n_operators): whether the second operator is the first, or sends to it, over others too."""
    found = np.zeros((len(plan.operators), len(plan.operators)), np.uint8)
    for one in plan.operators:
        found[one.index, [one.index, *nx.ancestors(plan.dataflow, one.index)]] = 1
    return found


def _is_live(cluster: Cluster, task: int) -> bool:
    return 0 <= task < len(cluster.task_alive) and cluster.task_alive[task]


def _is_trusted(cluster: Cluster, task: int) -> bool:
    """Return whether a task is alive, or has died with a host that control trusts."""
    if not 0 <= task < len(cluster.task_alive):
        return False
    host = cluster.task_host[task]
    return cluster.task_alive[task] or (cluster.trusted[host] and not cluster.host_alive[host])


def _are_down(cluster: Cluster, operator: int, chosen: np.ndarray, task: int) -> bool:
    """Return whether the chosen key groups (n_groups,) of an operator are down at the task that they have."""
    first = cluster.plan.first_partition[operator]
    groups = (first + np.flatnonzero(chosen)).tolist()
    return all(cluster.partition_task[one] == task and not cluster.partition_live[one] for one in groups)


def check_stay(plan: RunPlan, cluster: Cluster, partitions: Iterable[int]) -> list[int]:
    """Return the partitions as whole numbers; raises errors as `check_taken`, and as `check_moving`."""
    check_moving(plan)
    return check_taken(cluster, partitions)


def _upstream(cluster: Cluster, operator: int) -> set[int]:
    """Return the operators that send to an operator."""
    return {one.index for one in cluster.plan.operators if any(edge.down.index == operator for edge in one.edges)}


def senders_to(cluster: Cluster, operator: int) -> set[int]:
    """Return the live tasks that send to an operator."""
    above = _upstream(cluster, operator)
    return {task for task, one in enumerate(cluster.task_operator) if one in above and cluster.task_alive[task]}


def check_taken(cluster: Cluster, partitions: Iterable[int]) -> list[int]:
    """Return the partitions as whole numbers.

    Raises ValueError if they do not have states, and TypeError for what is no whole number.
    """
    partitions, plans = [*map(index, partitions)], cluster.plan.operators
    if not partitions or len({*partitions}) < len(partitions):
        raise ValueError("a parcel has at least one key group, and each of them once")
    for partition in partitions:
        if not 0 <= partition < cluster.plan.first_partition[-1]:
            raise ValueError(f"there is no partition {partition}")
        operator = plans[cluster.partition_operator[partition]]
        if operator.is_source or operator.is_sink:
            raise ValueError(f"{operator.name} is a source or sink, and has no state to be taken")
    return partitions
