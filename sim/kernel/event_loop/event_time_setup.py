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
    """Return the pools and tables before anything is in them."""
    return {
        "notes": np.zeros(0, NOTE),
        "channels": np.zeros(0, CHANNEL),
        "cells": np.zeros(0, CELL),
        "cell_index": np.full(2, NONE, np.int32),
        "panes": np.zeros(0, PANE),
    }


def operator_fields(operators: np.ndarray, plan: RunPlan) -> None:
    """Write the event time, windows and timer of each operator."""
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


def start(state: State, plan: RunPlan, cluster: Cluster) -> None:
    """Join the tasks by channels, and set the first watermarks of the sources; nothing without a window."""
    state.cell_pool["free"] = state.pane_pool["free"] = NONE
    state.event_time["keeps_tuples"] = (
        np.any(state.operators["joins"] != NONE)
        or np.any(state.operators["state_model"] == RECENT)
        or (plan.may_fail and np.any(state.operators["windowed"]))
    )
    state.event_time["most_windows"] = max(
        (operator.windows.most for operator in plan.operators if operator.windows), default=0
    )
    for name in ("panes", "recent_first", "recent_last", "past_first", "past_last"):
        state.partitions[name] = NONE
    state.channels = _channels(state, plan)
    state.event_time["mark_fan"] = max(
        (sum(edge.down.timed for edge in plan.edges) for plan in plan.operators), default=0
    )
    for partition, operator in enumerate(cluster.partition_operator):
        timer_ns = plan.operators[operator].timer_ns
        if timer_ns:
            _set(state, timer_ns, TIMERS + cluster.partition_task[partition], TIMER, partition)
    for source in range(state.sources.shape[0]):
        partition = int(state.sources["partition"][source])
        planned = plan.operators[cluster.partition_operator[partition]]
        if planned.timed:
            state.sources["watermark"][source] = planned.watermark_ns
            _set(state, planned.watermark_ns, TICKS + cluster.partition_task[partition], TICK, source)


def _set(state: State, at_ns: int, rank: int, kind: int, ref: int) -> None:
    """Set an event of the start of the run."""
    if int(state.queue["in_heap"]) + 1 > state.heap.shape[0]:
        state.heap = longer(state.heap, 0)
    push(state, at_ns, rank, int(state.clock["serial"]), kind, ref)
    state.clock["serial"] += 1


def _channels(state: State, plan: RunPlan) -> np.ndarray:
    """Return the channels of all partitions, one behind the other: each hears of those that send to it."""
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
                        index = state.partitions["index"]
                        own = index[partitions] % down.description.groups == index[partition]
                        senders.append(partitions[own] if edge.partitioning == "forward" else partitions)
            found.append(np.concatenate(senders))
            state.partitions["first_channel"][partition] = first
            state.partitions["channels"][partition] = state.partitions["behind"][partition] = found[-1].size
            first += found[-1].size
    made = np.zeros(first, CHANNEL)
    made["sender"] = np.concatenate(found)
    return made


def with_channels(state: State, instance: int, group: int) -> None:
    """A further instance has to hear of all that its group has to hear of."""
    first, count = int(state.partitions["first_channel"][group]), int(state.partitions["channels"][group])
    made = np.zeros(count, CHANNEL)
    made["sender"] = state.channels["sender"][first : first + count]
    state.partitions["first_channel"][instance] = state.channels.shape[0]
    state.partitions["channels"][instance] = state.partitions["behind"][instance] = count
    state.channels = np.concatenate([state.channels, made])


def grown(state: State, tuples: int = 1) -> None:
    """Make room for so many more tuples in all their windows."""
    spread = tuples * int(state.event_time["most_windows"])
    for name in ("cell", "pane"):
        more_places(state, name, spread)
    if 2 * state.cells.shape[0] > state.cell_index.shape[0]:
        index = np.full(power(2 * state.cells.shape[0]), NONE, np.int32)
        rehash_cells(state.cells, index, state.cell_index)
        state.cell_index = index
