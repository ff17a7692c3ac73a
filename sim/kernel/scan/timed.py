"""The arrays for event time in the scan, before its first instant, and more room in them."""

from __future__ import annotations

import numpy as np

from sim.control.cluster import Cluster, RunPlan
from sim.kernel.event_loop.codes import NONE
from sim.kernel.scan.entities import BATCH, SLOT
from sim.kernel.scan.event_time import LISTENER
from sim.kernel.scan.recent import RECENT_TUPLE, RECENTS_OF
from sim.kernel.scan.windows import CELL, NEVER, NOTE, PANE, PANES_OF, SIZES
from sim.kernel.tools.pointer import State
from sim.operator_plan import OperatorPlan

_ROOM = 1024
_POOLS = {"panes": "pane_pool", "notes": "note_pool"}


def empty() -> dict[str, np.ndarray]:
    """Return the arrays where no operator has a window or a timer."""
    return {
        "apart": np.zeros(0, SLOT),
        "listeners": np.zeros(0, LISTENER),
        "voices": np.zeros(0, np.int64),
        "targets": np.zeros(0, np.int32),
        "partitions_here": np.zeros(0, np.int32),
        "next_ticks": np.zeros(0, np.int64),
        "timer_ticks": np.zeros(0, np.int64),
        "recents": np.zeros(0, RECENT_TUPLE),
        "recents_of": np.zeros(0, RECENTS_OF),
        "panes": np.zeros(0, PANE),
        "panes_of": np.zeros(0, PANES_OF),
        "notes": np.zeros(0, NOTE),
        "cells": np.zeros(0, CELL),
        "places": np.zeros(0, np.int32),
        "free_blocks": np.full(SIZES, NONE, np.int64),
    }


def arrays(plan: RunPlan, cluster: Cluster) -> dict[str, np.ndarray]:
    """Return the arrays where one has: nobody has heard or said anything."""
    made = empty()
    made["apart"] = np.zeros(BATCH, SLOT)
    made["panes_of"] = np.zeros(len(cluster.partition_task), PANES_OF)
    made["panes_of"]["first"] = NONE
    made["recents_of"] = np.zeros(len(cluster.partition_task), RECENTS_OF)
    made["recents_of"]["first"] = NONE
    made["timer_ticks"] = np.zeros(len(cluster.partition_task), np.int64)
    listeners = made["listeners"] = np.zeros(len(cluster.task_operator), LISTENER)
    listeners["next_end"] = NEVER
    here = _partitions_here(cluster)
    listeners["here"] = [len(own) for own in here]
    listeners["first_here"] = np.cumsum(listeners["here"]) - listeners["here"]
    made["partitions_here"] = np.concatenate(here)
    targets, voices = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    senders: dict[int, set[int]] = {}
    for operator in plan.operators:
        _add_targets(plan, cluster, operator, here, listeners, targets)
    made["targets"] = np.concatenate(targets)
    for task, listener in enumerate(listeners):
        first = int(listener["first_target"])
        for partition in made["targets"][first : first + int(listener["targets"])].tolist():
            senders.setdefault(cluster.partition_task[partition], set()).add(task)
    count = 0
    for task, heard in senders.items():
        own = np.full(max(heard) - min(heard) + 1, NEVER)
        own[[sender - min(heard) for sender in heard]] = 0
        listener = listeners[task]
        listener["first_voice"], listener["voices"], listener["first_sender"] = count, own.size, min(heard)
        listener["behind"] = len(heard)
        voices.append(own)
        count += own.size
    made["voices"] = np.concatenate(voices)
    return made


def _partitions_here(cluster: Cluster) -> list[np.ndarray]:
    """Return the partitions of each task, by number."""
    order = np.argsort(cluster.partition_task, kind="stable").astype(np.int32)
    ends = np.searchsorted(np.array(cluster.partition_task)[order], np.arange(1, len(cluster.task_operator)))
    return np.split(order, ends)


def _add_targets(
    plan: RunPlan,
    cluster: Cluster,
    operator: OperatorPlan,
    here: list[np.ndarray],
    listeners: np.ndarray,
    targets: list[np.ndarray],
) -> None:
    """Add a partition of each task that the watermarks of the operator's tasks go to.

    A task that has no partition sends nothing, and gets nothing. Over a `forward` edge each has receivers of its own.
    """
    edges = [edge for edge in operator.edges if edge.down.timed]
    tasks = [task for task in np.flatnonzero(np.array(cluster.task_operator) == operator.index) if here[task].size]
    count = sum(one.size for one in targets)
    own = None
    for task in tasks if edges else []:
        if own is None or any(edge.partitioning == "forward" for edge in edges):
            found: dict[int, int] = {}  # task -> its first partition
            for edge in edges:
                first, partitions = plan.first_partition[edge.down.index], edge.down.description.groups
                indices = np.array([cluster.partition_index[one] for one in here[task]]) % partitions
                for index in np.unique(indices) if edge.partitioning == "forward" else range(partitions):
                    found.setdefault(cluster.partition_task[first + index], first + int(index))
            own = np.array(list(found.values()), np.int32)
            targets.append(own)
            listeners["first_target"][task] = count
            count += own.size
        else:
            listeners["first_target"][task] = count - own.size
        listeners["targets"][task] = own.size


def begin(state: State, plan: RunPlan, cluster: Cluster) -> None:
    """Write what the plan says of event time, and set the first watermarks."""
    for pool in (*_POOLS.values(), "recent_pool"):
        getattr(state, pool)["free"] = NONE
    planned = [plan.operators[cluster.partition_operator[one]] for one in state.sources["partition"].tolist()]
    state.sources["watermark"] = [one.watermark_ns if one.timed else 0 for one in planned]
    state.next_ticks = state.sources["watermark"].copy()


def grow(state: State) -> None:
    """Make room for more windows, and keys and tuples in them, where none is left."""
    for name, pool in _POOLS.items():
        if getattr(state, pool)["left"] == 0:
            lengthen(state, name, getattr(state, pool), 1)
    missing = int(state.recent_pool["need"] - state.recent_pool["left"])
    if missing > 0:
        lengthen(state, "recents", state.recent_pool, missing)
    state.recent_pool["need"] = 0
    more_cells(state, int(state.cell_pool["need"]))
    state.cell_pool["need"] = 0


def more_cells(state: State, more: int) -> None:
    """Make room for so many cells in blocks that there have never been."""
    need = int(state.cell_pool["begun"]) + more
    if need > state.cells.shape[0]:
        room = max(_ROOM, need, 2 * state.cells.shape[0])
        state.lengthen("cells", room)
        state.lengthen("places", 2 * room)


def lengthen(state: State, name: str, pool: np.ndarray, missing: int) -> None:
    """Put more places behind those of an array, at least so many."""
    old = getattr(state, name).size
    state.lengthen(name, max(_ROOM, 2 * old, old + missing))
    array = getattr(state, name)
    array["next"][old:-1] = np.arange(old + 1, array.size)
    array["next"][-1] = pool["free"]
    pool["free"] = old
    pool["left"] += array.size - old
