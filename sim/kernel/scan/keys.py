"""The keys that an operator gets: the scan has a place for each of them where the state is per key."""

from __future__ import annotations

from dataclasses import dataclass

from sim.control.cluster import RunPlan
from sim.operator_plan import OperatorPlan

_MOST = 2**24


@dataclass(frozen=True)
class Keys:
    """How many keys there are, 0 to `count` - 1, and whether each of them comes to one partition only."""

    count: int
    parted: bool


def keys_of(plan: RunPlan, operator: OperatorPlan) -> Keys | None:
    """Return the keys of an operator; None if a place for each of them in each partition would take too much memory."""
    edges = [edge for other in plan.operators for edge in other.edges if edge.down is operator]
    partitions = operator.description.groups
    if all(edge.partitioning == "key" and edge.grouped for edge in edges):
        return Keys(partitions, True)
    if any(edge.grouped for edge in edges):
        return None
    count = max(edge.key_count for edge in edges)
    if all(edge.partitioning == "key" and edge.key_count == count for edge in edges):
        return Keys(count, True)
    return None if count * partitions > _MOST else Keys(count, False)
