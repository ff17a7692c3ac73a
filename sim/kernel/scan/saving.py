"""The arrays for checkpoints in the scan, and what is read from them.

The keys that an operator gets: the scan has a place for each of them where the state is per key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.records.tables import table
from models.scenario.job import PerKeyState
from sim.control.cluster import Cluster, RunPlan
from sim.kernel.event_loop.codes import MESSAGE_KINDS, NONE, TRIMMED
from sim.kernel.event_loop.entities import CHECKPOINT, MESSAGE_ROW
from sim.kernel.scan.checkpoints import notes_under_way
from sim.kernel.scan.entities import LOG_CHUNK
from sim.kernel.scan.heap import HAPPENING
from sim.kernel.scan.kept import ARRIVAL, SAVED, SAVING, SERVED
from sim.kernel.tools.pointer import State
from sim.operator_plan import OperatorPlan
from sim.plane_values import NO_HOST, REMOTE

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


FAR_NS = 2**62  # no such instant comes
_ROWS = 1024


def empty() -> dict[str, np.ndarray]:
    """Return the arrays where no checkpoints are taken."""
    return {
        "saved": np.zeros(0, SAVED),
        "saving": np.zeros(0, SAVING),
        "key_epochs": np.zeros(0, np.int32),
        "log": np.zeros(0, ARRIVAL),
        "log_served": np.zeros(0, SERVED),
        "log_next": np.zeros(0, np.int32),
        "round_partitions": np.zeros(0, np.int64),
        "round_offsets": np.zeros(0, np.int64),
        "happenings": np.zeros(0, HAPPENING),
        "task_marks": np.zeros(0, np.int64),
        "partition_marks": np.zeros(0, np.int64),
        "checkpoint_rows": np.zeros(0, CHECKPOINT),
        "count_rows": np.zeros(0, MESSAGE_ROW),
    }


def arrays(plan: RunPlan, cluster: Cluster) -> dict[str, np.ndarray]:
    """Return the arrays where they are, before the first instant."""
    made = empty()
    made["saved"], keys = _partitions(plan, cluster)
    made["key_epochs"] = np.zeros(keys, np.int32)
    made["saving"] = np.zeros(len(plan.operators), SAVING)
    for operator in plan.operators:
        made["saving"]["partitions"][operator.index] = operator.description.groups
        for down in {edge.down.index for edge in operator.edges}:
            made["saving"]["senders"][down] += np.sum(
                np.array(cluster.task_operator)[cluster.task_alive] == operator.index
            )
    made["partition_marks"] = np.zeros(len(cluster.partition_operator), np.int64)
    made["task_marks"] = np.zeros(len(cluster.task_host), np.int64)
    made["count_rows"] = np.zeros(_ROWS, MESSAGE_ROW)
    return made


def begin(state: State, plan: RunPlan) -> None:
    """Write what the plan says of checkpoints."""
    tolerance = plan.scenario.fault_tolerance
    state.round["interval"] = FAR_NS
    state.options["keeps_outputs"], state.options["always_full"] = plan.replays, tolerance.kind == "full"
    state.options["pools"] = state.saved["pool"].any()
    state.remote_link["rate"] = tolerance.remote_bytes_per_s


def _partitions(plan: RunPlan, cluster: Cluster) -> tuple[np.ndarray, int]:
    """Return the partitions (n_partitions,), and how many places for keys they have together."""
    made = np.zeros(len(cluster.partition_operator), SAVED)
    made["instant"], made["epoch"], made["low"] = FAR_NS, 1, 1
    made["log_first"] = made["log_last"] = made["first_key"] = NONE
    remote = plan.scenario.fault_tolerance.store == "remote"
    made["checkpoint_host"] = REMOTE if remote else NO_HOST
    places = 0
    for operator in plan.operators:
        first, partitions = plan.first_partition[operator.index], operator.description.groups
        own = made[first : first + partitions]
        own["is_sink"] = operator.is_sink
        own["pool"] = plan.replays and operator.description.service is not None and operator.description.threads > 1
        if isinstance(operator.description.state, PerKeyState) and not (operator.is_sink or operator.is_source):
            keys = keys_of(plan, operator)
            assert keys is not None, "the scan was chosen for more keys than it has room for"
            own["first_key"] = places + np.arange(partitions) * (0 if keys.parted else keys.count)
            places += keys.count * (1 if keys.parted else partitions)
    return made, places


def start(state: State, partitions: Sequence[int], offsets_ns: Sequence[int], interval_ns: int) -> None:
    """Take checkpoints of these partitions each interval."""
    state.round_partitions, state.round_offsets = np.array(partitions, np.int64), np.array(offsets_ns, np.int64)
    state.round["interval"] = state.round["begin"] = interval_ns
    state.round["cuts"] = (state.operators["serialise"][state.partition_operator[state.round_partitions]] > 0).any()
    state.saved["instant"][state.round_partitions] = interval_ns + state.round_offsets


def grow(state: State) -> None:
    """Make room for the checkpoints of a span, and for what arrives in it."""
    partitions = state.saved.shape[0]
    if state.happenings.shape[0] < int(state.agenda["count"]) + partitions + 2:
        state.happenings = _longer(state.happenings, 2 * (int(state.agenda["count"]) + partitions + 2))
    if state.checkpoint_rows.shape[0] < int(state.saved_rows["checkpoints"]) + partitions:
        state.checkpoint_rows = _longer(state.checkpoint_rows, 2 * (int(state.saved_rows["checkpoints"]) + partitions))
    least = int(state.saved_rows["messages"]) + 4 * state.messages.shape[0] + 8
    if state.count_rows.shape[0] < least:
        state.count_rows = _longer(state.count_rows, 2 * least)
    missing = int(state.log_pool["need"]) - int(state.log_pool["left"])
    if missing > 0:
        before = state.log_next.shape[0]
        after = max(2 * before, before + missing)
        links = _longer(state.log_next, after)
        links[before:-1] = np.arange(before + 1, after)
        links[-1] = state.log_pool["free"]
        state.log, state.log_next = _longer(state.log, after * LOG_CHUNK), links
        if state.options["pools"]:
            state.log_served = _longer(state.log_served, after * LOG_CHUNK)
        state.log_pool["free"], state.log_pool["left"] = before, int(state.log_pool["left"]) + after - before


def _longer(array: np.ndarray, room: int) -> np.ndarray:
    made = np.zeros(room, array.dtype)
    made[: array.shape[0]] = array
    return made


def kept(state: State, tasks: int) -> np.ndarray:
    """Return how many outputs the partitions of each task keep (n_tasks,)."""
    made = np.zeros(tasks, np.int64)
    if state.options["keeps_outputs"]:
        np.add.at(made, state.partition_task, state.saved["sent"] - state.saved["forgotten"])
    return made


def messages(state: State) -> dict[tuple[int, str], list[int]]:
    """Return (begin of the second, kind) -> (messages, bytes) of checkpoints, and notes to upstream."""
    rows = state.count_rows[: int(state.saved_rows["messages"])].tolist()
    under_way = np.zeros((int(state.agenda["count"]), 2), np.int64)
    for instant, tasks in under_way[: notes_under_way(state, under_way)].tolist():
        rows.append((instant - instant % 1_000_000_000, TRIMMED, tasks, 0))
    found: dict[tuple[int, str], list[int]] = {}
    for second, kind, count, size in rows:
        both = found.setdefault((second, MESSAGE_KINDS[kind]), [0, 0])
        both[0] += count
        both[1] += size
    return found


def checkpoints(state: State) -> dict[str, np.ndarray]:
    """Return the table of checkpoints."""
    rows = state.checkpoint_rows[: int(state.saved_rows["checkpoints"])]
    columns = {name: rows[name] for name in ("operator", "owner", "checkpoint_host", "bytes")}
    renamed = {"key_group": rows["partition"], "taken_ns": rows["taken"], "stored_ns": rows["stored"]}
    return table("checkpoints", columns | renamed | {"full": rows["full"] != 0, "job": np.full(rows.size, -1)})
