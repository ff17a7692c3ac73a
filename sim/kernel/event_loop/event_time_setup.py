"""The arrays of event time before the first instant, and more room in them."""

from __future__ import annotations

import numpy as np

from models.scenario.job import WindowState
from models.units import to_ns
from sim.clock import TICKS, TIMERS
from sim.control.cluster import Cluster, RunPlan
from sim.kernel.event_loop.codes import NONE, RECENT, TICK, TIMER
from sim.kernel.event_loop.pools import longer, more_places, power, push
from sim.kernel.event_loop.windows import CELL, CHANNEL, NOTE, PANE, rehash_cells
from sim.kernel.tools.pointer import State


def empty() -> dict[str, np.ndarray]:
    """The pools and tables before anything is in them."""
    return {
        "notes": np.zeros(0, NOTE),
        "channels": np.zeros(0, CHANNEL),
        "cells": np.zeros(0, CELL),
        "cell_index": np.full(2, NONE, np.int32),
        "panes": np.zeros(0, PANE),
    }


def operator_fields(operators: np.ndarray, plan: RunPlan) -> None:
    """What each operator is in event time."""
    first_task = 0
    for record, operator in zip(operators, plan.operators, strict=True):
        record["timed"], record["reckoned"] = operator.timed, operator.reckoned
        record["first_task"], record["tasks"] = first_task, operator.description.parallelism
        first_task += operator.description.parallelism
        record["first_partition"], record["partitions"] = (
            plan.first_partition[operator.index],
            operator.description.groups,
        )
        record["slide"] = 1
        if operator.windows is not None:
            record["windowed"], record["window_code"] = True, operator.window_code
            record["length"], record["slide"] = operator.windows.length_ns, operator.windows.slide_ns
        record["joins"] = NONE if operator.joins is None else operator.joins
        record["timer"], record["timer_code"] = operator.timer_ns, operator.timer_code
        state = operator.description.state
        if isinstance(state, WindowState):
            record["state_length"] = to_ns(state.length_s)


def start(s: State, plan: RunPlan, cluster: Cluster) -> None:
    """Join the tasks by channels, and set the first watermarks of the sources; nothing without a window."""
    s.cell_pool["free"] = s.pane_pool["free"] = NONE
    s.event_time["keeps_tuples"] = (
        np.any(s.operators["joins"] != NONE)
        or np.any(s.operators["state_model"] == RECENT)
        or (plan.may_fail and np.any(s.operators["windowed"]))
    )
    s.event_time["most_windows"] = max(
        (operator.windows.most for operator in plan.operators if operator.windows), default=0
    )
    for name in ("panes", "recent_first", "recent_last", "past_first", "past_last"):
        s.partitions[name] = NONE
    s.channels = _channels(s, plan)
    s.event_time["mark_fan"] = max((sum(edge.down.timed for edge in plan.edges) for plan in plan.operators), default=0)
    for partition, operator in enumerate(cluster.partition_operator):
        timer_ns = plan.operators[operator].timer_ns
        if timer_ns:
            _set(s, timer_ns, TIMERS + cluster.partition_task[partition], TIMER, partition)
    for source in range(s.sources.shape[0]):
        partition = int(s.sources["partition"][source])
        planned = plan.operators[cluster.partition_operator[partition]]
        if planned.timed:
            s.sources["watermark"][source] = planned.watermark_ns
            _set(s, planned.watermark_ns, TICKS + cluster.partition_task[partition], TICK, source)


def _set(s: State, at_ns: int, rank: int, kind: int, ref: int) -> None:
    """Set an event of the start of the run."""
    if int(s.queue["in_heap"]) + 1 > s.heap.shape[0]:
        s.heap = longer(s.heap, 0)
    push(s, at_ns, rank, int(s.clock["serial"]), kind, ref)
    s.clock["serial"] += 1


def _channels(s: State, plan: RunPlan) -> np.ndarray:
    """What each partition has to hear of, the partitions that send to it, one behind the other."""
    found: list[np.ndarray] = [np.zeros(0, np.int64)]
    first = 0
    for down in plan.operators:
        for partition in range(plan.first_partition[down.index], plan.first_partition[down.index + 1]):
            senders = [found[0]]
            for upstream in plan.operators if down.timed else ():
                for edge in upstream.edges:
                    if edge.down is down:
                        partitions = np.arange(
                            plan.first_partition[upstream.index], plan.first_partition[upstream.index + 1]
                        )
                        index = s.partitions["index"]
                        own = index[partitions] % down.description.groups == index[partition]
                        senders.append(partitions[own] if edge.partitioning == "forward" else partitions)
            found.append(np.concatenate(senders))
            s.partitions["first_channel"][partition] = first
            s.partitions["channels"][partition] = s.partitions["behind"][partition] = found[-1].size
            first += found[-1].size
    made = np.zeros(first, CHANNEL)
    made["sender"] = np.concatenate(found)
    return made


def with_channels(s: State, instance: int, group: int) -> None:
    """A further instance has to hear of all that its group has to hear of."""
    first, count = int(s.partitions["first_channel"][group]), int(s.partitions["channels"][group])
    made = np.zeros(count, CHANNEL)
    made["sender"] = s.channels["sender"][first : first + count]
    s.partitions["first_channel"][instance] = s.channels.shape[0]
    s.partitions["channels"][instance] = s.partitions["behind"][instance] = count
    s.channels = np.concatenate([s.channels, made])


def grown(s: State, tuples: int = 1) -> None:
    """Make room for so many more tuples in all their windows."""
    spread = tuples * int(s.event_time["most_windows"])
    for name in ("cell", "pane"):
        more_places(s, name, spread)
    if 2 * s.cells.shape[0] > s.cell_index.shape[0]:
        index = np.full(power(2 * s.cells.shape[0]), NONE, np.int32)
        rehash_cells(s.cells, index, s.cell_index)
        s.cell_index = index
