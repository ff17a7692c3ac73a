"""The arrays for checkpoints in the scan, and what is read from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.records.tables import table
from models.scenario.job import PerKeyState
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import NO_HOST, REMOTE
from sim.kernel.event_loop.codes import MESSAGE_KINDS, NONE, TRIMMED
from sim.kernel.event_loop.entities import CHECKPOINT, MESSAGE_ROW
from sim.kernel.scan.checkpoints import notes_under_way
from sim.kernel.scan.entities import LOG_CHUNK
from sim.kernel.scan.heap import HAPPENING
from sim.kernel.scan.kept import ARRIVAL, SAVED, SAVING, SERVED
from sim.kernel.scan.keys import keys_of
from sim.kernel.tools.pointer import State

FAR_NS = 2**62  # no such instant comes
_ROWS = 1024


def empty() -> dict[str, np.ndarray]:
    """The arrays where no checkpoints are taken."""
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
    """The arrays where they are, before the first instant."""
    made = empty()
    made["saved"], keys = _partitions(plan, cluster)
    made["key_epochs"] = np.zeros(keys, np.int32)
    made["saving"] = np.zeros(len(plan.operators), SAVING)
    for operator in plan.operators:
        made["saving"]["partitions"][operator.index] = operator.description.groups
        for down in {edge.down.index for edge in operator.edges}:
            made["saving"]["senders"][down] += operator.description.parallelism
    made["partition_marks"] = np.zeros(len(cluster.partition_operator), np.int64)
    made["task_marks"] = np.zeros(len(cluster.task_host), np.int64)
    made["count_rows"] = np.zeros(_ROWS, MESSAGE_ROW)
    return made


def begin(s: State, plan: RunPlan) -> None:
    """Write what the plan says of checkpoints."""
    tolerance = plan.scenario.fault_tolerance
    s.round["interval"] = FAR_NS
    s.options["keeps_outputs"], s.options["always_full"] = plan.replays, tolerance.kind == "full"
    s.options["pools"] = s.saved["pool"].any()
    s.remote_link["rate"] = tolerance.remote_bytes_per_s


def _partitions(plan: RunPlan, cluster: Cluster) -> tuple[np.ndarray, int]:
    """The partitions (n_partitions,), and how many places for keys they have together."""
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


def start(s: State, partitions: Sequence[int], offsets_ns: Sequence[int], interval_ns: int) -> None:
    """Take checkpoints of these partitions each interval."""
    s.round_partitions, s.round_offsets = np.array(partitions, np.int64), np.array(offsets_ns, np.int64)
    s.round["interval"] = s.round["begin"] = interval_ns
    s.round["cuts"] = (s.operators["serialise"][s.partition_operator[s.round_partitions]] > 0).any()
    s.saved["instant"][s.round_partitions] = interval_ns + s.round_offsets


def grow(s: State) -> None:
    """Make room for the checkpoints of a span, and for what arrives in it."""
    partitions = s.saved.shape[0]
    if s.happenings.shape[0] < int(s.agenda["count"]) + partitions + 2:
        s.happenings = _longer(s.happenings, 2 * (int(s.agenda["count"]) + partitions + 2))
    if s.checkpoint_rows.shape[0] < int(s.saved_rows["checkpoints"]) + partitions:
        s.checkpoint_rows = _longer(s.checkpoint_rows, 2 * (int(s.saved_rows["checkpoints"]) + partitions))
    least = int(s.saved_rows["messages"]) + 4 * s.messages.shape[0] + 8
    if s.count_rows.shape[0] < least:
        s.count_rows = _longer(s.count_rows, 2 * least)
    missing = int(s.log_pool["need"]) - int(s.log_pool["left"])
    if missing > 0:
        before = s.log_next.shape[0]
        after = max(2 * before, before + missing)
        links = _longer(s.log_next, after)
        links[before:-1] = np.arange(before + 1, after)
        links[-1] = s.log_pool["free"]
        s.log, s.log_next = _longer(s.log, after * LOG_CHUNK), links
        if s.options["pools"]:
            s.log_served = _longer(s.log_served, after * LOG_CHUNK)
        s.log_pool["free"], s.log_pool["left"] = before, int(s.log_pool["left"]) + after - before


def _longer(array: np.ndarray, room: int) -> np.ndarray:
    made = np.zeros(room, array.dtype)
    made[: array.shape[0]] = array
    return made


def kept(s: State, tasks: int) -> np.ndarray:
    """How many outputs the partitions of each task keep (n_tasks,)."""
    made = np.zeros(tasks, np.int64)
    if s.options["keeps_outputs"]:
        np.add.at(made, s.partition_task, s.saved["sent"] - s.saved["forgotten"])
    return made


def messages(s: State) -> dict[tuple[int, str], list[int]]:
    """(begin of the second, kind) -> (messages, bytes) of checkpoints, and notes to upstream."""
    rows = s.count_rows[: int(s.saved_rows["messages"])].tolist()
    under_way = np.zeros((int(s.agenda["count"]), 2), np.int64)
    for instant, tasks in under_way[: notes_under_way(s, under_way)].tolist():
        rows.append((instant - instant % 1_000_000_000, TRIMMED, tasks, 0))
    found: dict[tuple[int, str], list[int]] = {}
    for second, kind, count, size in rows:
        both = found.setdefault((second, MESSAGE_KINDS[kind]), [0, 0])
        both[0] += count
        both[1] += size
    return found


def checkpoints(s: State) -> dict[str, np.ndarray]:
    """The table of checkpoints."""
    rows = s.checkpoint_rows[: int(s.saved_rows["checkpoints"])]
    columns = {name: rows[name] for name in ("operator", "owner", "checkpoint_host", "bytes")}
    renamed = {"key_group": rows["partition"], "taken_ns": rows["taken"], "stored_ns": rows["stored"]}
    return table("checkpoints", columns | renamed | {"full": rows["full"] != 0})
