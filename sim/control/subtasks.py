"""The subtasks of a job and the channels between them, over which barriers go."""

from __future__ import annotations

from collections import Counter
from itertools import product
from operator import itemgetter
from typing import NamedTuple

from models.topology import layout
from sim.control.cluster import Cluster, RunPlan


class Subtask(NamedTuple):
    """A place in the parallelism of an operator; a restart gives it another task."""

    task: int  # where it is since the last restart
    partitions: tuple[int, ...]  # none where all its key groups have moved away
    below: tuple[int, ...]  # subtasks to which it sends barriers
    channels: int  # over which barriers come


def subtasks_of(plan: RunPlan, cluster: Cluster) -> list[Subtask]:
    """Return the subtasks of the job, by operator and first partition, with the channels between them.

    Over a forward edge partition k sends to partition k, modulo their number. Where key groups have moved, what they
    had sent before may still be on its way: each task of their operator may have sent to each reader, also one that has
    no key groups any more.
    """
    first, operators, at = plan.first_partition, plan.scenario.operators, cluster.partition_task
    number: dict[int, int] = {}
    partitions: list[list[int]] = []
    for partition, task in enumerate(at[: first[-1]]):
        if task not in number:
            number[task] = len(partitions)
            partitions.append([])
        partitions[number[task]].append(partition)
    own = {
        operator.name: [number[task] for task in at[first[operator.index] : first[operator.index + 1]]]
        for operator in plan.operators
    }
    moved = {plan.operators[cluster.partition_operator[one]].name for one in cluster.moved}
    for task, its in enumerate(cluster.task_operator):
        name = plan.operators[its].name
        if name in moved and cluster.task_alive[task] and task not in number:
            number[task] = len(partitions)
            partitions.append([])
            own[name].append(number[task])
    channels: dict[tuple[int, int], None] = {}  # in the order in which barriers go over them
    for name, operator in operators.items():
        for upstream, partitioning in operator.inputs.items():
            senders, readers = own[upstream], own[name]
            if layout.is_pairwise(partitioning) and upstream not in moved:
                pairs = ((sender, readers[k % len(readers)]) for k, sender in enumerate(senders))
                channels |= dict.fromkeys(sorted(pairs, key=itemgetter(1)))
            else:
                channels |= dict.fromkeys(product(dict.fromkeys(senders), dict.fromkeys(readers)))
    below: list[list[int]] = [[] for _ in partitions]
    for sender, reader in channels:
        below[sender].append(reader)
    count = Counter(reader for _, reader in channels)
    tasks = [*number]
    return [Subtask(tasks[k], tuple(partitions[k]), tuple(below[k]), count[k]) for k in range(len(partitions))]
