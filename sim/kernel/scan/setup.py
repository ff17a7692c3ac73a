"""The arrays of the scan before its first instant, and more room in them."""

from __future__ import annotations

import numpy as np

from models.topology.layout import topological
from sim.control.cluster import Cluster, RunPlan
from sim.kernel.event_loop import pools, setup
from sim.kernel.event_loop.codes import BROADCAST, NONE
from sim.kernel.scan import recording as scan_recording
from sim.kernel.scan import saving, timed
from sim.kernel.scan.entities import BATCH, BOX, CHUNK, PARCEL, QUEUED, SERVER, SLOT, STAGE
from sim.kernel.scan.links import LINK, QUEUE
from sim.kernel.scan.send import MESSAGES
from sim.kernel.scan.state import ScanState
from sim.kernel.scan.straight import SHUFFLING, reciprocal

_ROOM = 4096
_SECONDS = 1000  # most of them in a span
_SECOND = 1_000_000_000
_AIM = 2048
_PIECES = 64, 4096, 2**16  # of queues: at first, then at the least, and up to which there are four times as many next
_SCRATCH = ("times", "ranks", "refs", "kept", "order", "spare")


def state(
    plan: RunPlan, cluster: Cluster, block: int, recording: scan_recording.Kept, counts_states: bool = False
) -> ScanState:
    """Return the state at instant 0; `block` arrivals at a source are drawn at a time.

    With `counts_states` the sizes of states are known, too.
    """
    operators = setup.operator_records(plan)
    edges, key_tables = setup.edge_records(plan)
    draws = setup.draw_records(plan)
    sources = setup.source_records(plan, cluster, 2 * block)
    servers = _servers(plan, cluster)
    queues = np.zeros(len(servers) + len(plan.host_groups) + 1, QUEUE)
    for name in ("head", "tail"):
        queues[name] = NONE
    names = tuple(plan.scenario.operators)
    links = np.zeros(len(plan.host_groups), LINK)
    links["rate"] = [group.network_bytes_per_s or 0.0 for group in plan.host_groups]
    boxes = np.zeros(len(operators) + 1, BOX)
    boxes["room"] = _ROOM
    boxes["first"] = np.arange(len(boxes)) * _ROOM
    threads = int(servers["threads"].sum())
    tolerance = plan.scenario.fault_tolerance
    saves = tolerance.takes_checkpoints and tolerance.job_checkpoints is None  # else the event loop takes them
    hears = operators["windowed"].any() or operators["timer"].any()
    made = ScanState(
        stages=_stages(cluster, operators, servers),
        stage_tasks=stage_tasks(cluster),
        topological=np.array([names.index(name) for name in topological(plan.scenario)], np.int64),
        operators=operators,
        draws=draws.records,
        edges=edges,
        fan=_fan(plan, operators, edges),
        shuffles=np.array([reciprocal(max(1, partitions)) for partitions in edges["partitions"].tolist()], SHUFFLING),
        key_tables=key_tables,
        cumulative=draws.cumulative,
        quantiles=draws.quantiles,
        sources=sources,
        arrivals=pools.arrivals(max(1, sources.shape[0]) * 2 * block),
        partitions=setup.partition_records(plan, cluster),
        partition_task=np.array(cluster.partition_task, np.int32),
        partition_index=np.array(cluster.partition_index, np.int32),
        partition_operator=np.array(cluster.partition_operator, np.int32),
        partition_host=np.array([cluster.task_host[task] for task in cluster.partition_task], np.int32),
        held_from=np.full(len(cluster.partition_task), saving.FAR_NS),
        goals=np.array(cluster.partition_task, np.int32),
        task_host=np.array(cluster.task_host, np.int32),
        servers=servers,
        slots=np.zeros(threads, SLOT),
        frees=np.zeros(threads, np.int64),
        ids=np.zeros(BATCH, np.uint64),
        keys=np.zeros(BATCH, np.int64),
        drawn=np.zeros(BATCH, np.int64),
        done=np.zeros(BATCH, SLOT),
        outputs=np.zeros(4 * BATCH, PARCEL),
        queues=queues,
        chunks=np.zeros(0, QUEUED),
        chunk_next=np.zeros(0, np.int32),
        links=links,
        boxes=boxes,
        box=np.zeros(len(boxes) * _ROOM, PARCEL),
        times=np.zeros(_ROOM, np.int64),
        ranks=np.zeros(_ROOM, np.int32),
        refs=np.zeros(_ROOM, np.int32),
        kept=np.zeros(_ROOM, np.int32),
        order=np.zeros(_ROOM, np.int64),
        spare=np.zeros(_ROOM, np.int64),
        counts=np.zeros(2**15 + 1, np.int32),
        **scan_recording.arrays(recording),
        messages=np.zeros(_SECONDS, MESSAGES),
        message_rows=np.zeros(4 * _SECONDS, MESSAGES),
        **(saving.arrays(plan, cluster) if saves or counts_states else saving.empty()),
        **(timed.arrays(plan, cluster) if hears else timed.empty()),
    )
    shortest = max(1, min(plan.latency_ns, (_SECONDS - 2) * _SECOND))
    made.span["shortest"], made.span["length"] = shortest, max(1_000_000, shortest)
    made.span["aim"] = max(_AIM, 2 * len(servers))
    made.options["latency"], made.options["block"] = plan.latency_ns, block
    made.options["operators"], made.options["tasks"] = len(operators), len(servers)
    made.options["ranks"] = len(servers)
    made.options["aside"] = queues.size - 1
    made.options["counts_states"] = counts_states and not saves
    made.options["keeps_histograms"] = recording.detail == "histograms"
    if saves:
        made.save()
        saving.begin(made, plan)
    if hears:
        made.pass_watermarks()
        timed.begin(made, plan, cluster)
    return made


def _servers(plan: RunPlan, cluster: Cluster) -> np.ndarray:
    """Return the tasks (n_tasks,), idle."""
    made = np.zeros(len(cluster.task_operator), SERVER)
    made["operator"], made["host"] = cluster.task_operator, cluster.task_host
    groups = [plan.host_groups[host] for host in cluster.task_host]
    made["speed"] = [group.speed for group in groups]
    made["limited"] = [bool(group.network_bytes_per_s) for group in groups]
    made["threads"] = [plan.operators[operator].description.threads for operator in cluster.task_operator]
    made["first_thread"] = np.cumsum(made["threads"]) - made["threads"]
    return made


def stage_tasks(cluster: Cluster) -> np.ndarray:
    """Return the live tasks, operator by operator; those that a recovery has started have the highest numbers."""
    live = np.flatnonzero(cluster.task_alive)
    return live[np.argsort(np.array(cluster.task_operator)[live], kind="stable")]


def _stages(cluster: Cluster, operators: np.ndarray, servers: np.ndarray) -> np.ndarray:
    """Return the tasks, sources and edges of each operator (n_operators,)."""
    made = np.zeros(len(operators), STAGE)
    of_live = np.array(cluster.task_operator)[cluster.task_alive]
    made["tasks"] = np.bincount(of_live, minlength=len(operators))
    made["first_task"] = np.cumsum(made["tasks"]) - made["tasks"]
    of_partitions = np.bincount(cluster.partition_operator, minlength=len(operators))
    made["sources"] = np.where(operators["is_source"], of_partitions, 0)
    made["first_source"] = np.cumsum(made["sources"]) - made["sources"]
    made["first_edge"], made["edges"] = operators["first_edge"], operators["edges"]
    for index, stage in enumerate(made):
        stage["scaled"] = (servers["speed"][servers["operator"] == index] != 1.0).any()
        stage["limited"] = operators[index]["edges"] and servers["limited"][servers["operator"] == index].any()
    return made


def _fan(plan: RunPlan, operators: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Most tuples that one service sends over each edge (n_edges,)."""
    made = np.where(edges["kind"] == BROADCAST, edges["partitions"], 1)
    for operator, record in zip(plan.operators, operators, strict=True):
        outputs = 1 if operator.is_source else int(np.ceil(operator.description.most_selective))
        made[record["first_edge"] : record["first_edge"] + record["edges"]] *= outputs
        if operator.timed:  # watermarks need room, too
            own = made[record["first_edge"] : record["first_edge"] + record["edges"]]
            own[:] = np.maximum(own, 1)
    return made.astype(np.int64)


def grow(state: ScanState, recording: scan_recording.Kept) -> None:
    """Give the kernel more room where it may have stopped for want of it."""
    need = max(1, int(state.requests["need"]))
    scan_recording.grow(state, recording, need)
    if state.watermarks:
        timed.grow(state)
        need = max(need, int(state.requests["results"]))
        state.requests["results"] = 0
    operator = int(state.topological[min(int(state.progress["place"]), int(state.options["operators"]) - 1)])
    stage = state.stages[operator]
    edges = range(int(stage["first_edge"]), int(stage["first_edge"] + stage["edges"]))
    wanted = {int(state.edges["down"][k]): int(state.fan[k]) for k in edges}
    if stage["limited"]:
        wanted[int(state.options["operators"])] = sum(wanted.values())
    more_boxes(state, wanted, need)
    if state.chunk_pool["free"] == NONE:
        more_chunks(state)
    room = max(int(state.boxes["room"].max()), state.visit_rows.shape[0])
    if state.times.shape[0] < room:
        for name in _SCRATCH:
            setattr(state, name, _longer(getattr(state, name), room))


def _longer(array: np.ndarray, room: int) -> np.ndarray:
    made = np.zeros(room, array.dtype)
    made[: array.shape[0]] = array
    return made


def more_boxes(state: ScanState, wanted: dict[int, int], need: int) -> None:
    """Room for what `need` services send, and then some: `wanted` is what one of them sends at the most.

    In few large steps: room takes memory when it is used, what is copied takes it twice.
    """
    rooms = state.boxes["room"].copy()
    for place, fan in wanted.items():
        least = int(state.boxes["n"][place]) + max(need, 1024 // max(1, fan)) * fan + 1024
        if rooms[place] < least:
            rooms[place] = max(least, 4 * rooms[place])
    if np.array_equal(rooms, state.boxes["room"]):
        return
    box = np.zeros(int(rooms.sum()), PARCEL)
    first = np.cumsum(rooms) - rooms
    for b, begin in zip(state.boxes, first.tolist(), strict=True):
        box[begin : begin + int(b["n"])] = state.box[int(b["first"]) : int(b["first"] + b["n"])]
    # A kernel that stopped within an operator goes on with the tuples of its own box: all of them were moved.
    state.box = box
    state.boxes["first"], state.boxes["room"] = first, rooms


def more_chunks(state: ScanState) -> None:
    """Room for the backlog, in few large steps as well."""
    old = state.chunk_next.shape[0]
    new = _PIECES[0] if old == 0 else max(_PIECES[1], (4 if old < _PIECES[2] else 2) * old)
    links = _longer(state.chunk_next, new)
    links[old:-1] = np.arange(old + 1, new)
    links[-1] = state.chunk_pool["free"]
    state.chunks, state.chunk_next = _longer(state.chunks, new * CHUNK), links
    state.chunk_pool["free"] = old
