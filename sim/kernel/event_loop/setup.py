"""The arrays of a run before its first instant, from its plan.

Arrays of event time are made here, too, and get more room in a run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.scenario.job import FixedState, PerKeyState, PerTupleState, WindowState
from models.scenario.key_groups import groups_of_keys
from models.units import to_ns
from sim.clock import TICKS, TIMERS
from sim.control.cluster import Cluster, RunPlan
from sim.control.placing import notes_births
from sim.draws import POLL, POSTPONE, code_of
from sim.kernel.event_loop import heard
from sim.kernel.event_loop.anchors import PENDING
from sim.kernel.event_loop.codes import (
    BROADCAST,
    FIXED,
    FORWARD,
    GROUPED,
    KEYED,
    NO_STATE,
    NONE,
    OPEN,
    PER_KEY,
    PER_TUPLE,
    RECENT,
    SHUFFLE,
    TICK,
    TIMER,
)
from sim.kernel.event_loop.entities import CORES, EDGE, HOST, OPERATOR, PARTITION, SOURCE, TASK
from sim.kernel.event_loop.hash_tables import FIRST_KEYS, SPREAD
from sim.kernel.event_loop.heard import CHANNEL, SPEAKER, VOICE
from sim.kernel.event_loop.pools import longer, more_places, power, push
from sim.kernel.event_loop.unfinished import UNFINISHED
from sim.kernel.event_loop.windows import CELL, NOTE, PANE, rehash_cells
from sim.kernel.tools.draws import OPERATOR_DRAWS, pack_draws, pack_time, write_count
from sim.kernel.tools.pointer import State, records
from sim.kernel.tools.quantiles import PIECES, has_quantiles, quantiles_of
from sim.operator_plan import OperatorPlan
from sim.pace import FAR_NS, FULL


def empty_event_time() -> dict[str, np.ndarray]:
    """Return the pools and tables of event time before anything is in them."""
    return {
        "notes": np.zeros(0, NOTE),
        "channels": np.zeros(0, CHANNEL),
        "channel_marks": np.zeros(0, np.int64),
        "senders": np.zeros(0, np.int32),
        "speakers": np.zeros(0, SPEAKER),
        "voices": np.zeros(0, VOICE),
        "exceptions": np.zeros(0, np.int64),
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
        record["postpones"] = operator.postpone_ns is not None
        record["poll"] = operator.poll
        record["counts"] = NONE
        state = operator.description.state
        if isinstance(state, WindowState):
            record["state_length"] = to_ns(state.length_s)


def start(state: State, plan: RunPlan, cluster: Cluster) -> None:
    """Join the tasks by channels, and set the first watermarks of the sources; nothing without a window."""
    state.cell_pool["free"] = state.pane_pool["free"] = NONE
    state.event_time["keeps_tuples"] = (
        np.any(state.operators["joins"] != NONE)
        or np.any(state.operators["state_model"] == RECENT)
        or (plan.keeps_ids and np.any(state.operators["windowed"]))
    )
    state.event_time["most_windows"] = max(
        (operator.windows.most for operator in plan.operators if operator.windows), default=0
    )
    for name in ("panes", "recent_first", "recent_last", "past_first", "past_last"):
        state.partitions[name] = NONE
    _with_channels(state, plan)
    state.event_time["mark_fan"] = max(
        (sum(edge.down.timed for edge in plan.edges) for plan in plan.operators), default=0
    )
    if state.event_time["mark_fan"]:
        for task in range(len(cluster.task_operator)):
            with_listener(state, task)
        for task in np.flatnonzero(state.operators["timed"][cluster.task_operator]).tolist():
            heard.begin_to_follow(state, task)
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


def _with_channels(state: State, plan: RunPlan) -> None:
    """Note of which groups each partition hears, and make room for what it hears where that is kept for it alone.

    All partitions of an operator hear of the same groups, unless it has a forward input.
    """
    lists, begin, channel = [np.zeros(0, np.int32)], 0, 0
    for down in plan.operators:
        inputs = _inputs(state, plan, down)
        common = not any(forward for _, forward in inputs)
        first, end = plan.first_partition[down.index], plan.first_partition[down.index + 1]
        for partition in range(first, first + 1 if common else end):
            begin += lists[-1].size
            lists.append(_senders(inputs, partition - first, end - first))
            own = state.partitions[partition : end if common else partition + 1]
            own["first_sender"], own["channels"], own["behind"] = begin, lists[-1].size, lists[-1].size
            own["first_channel"] = channel + lists[-1].size * np.arange(own.size)
            channel += lists[-1].size * own.size
        record = state.operators[down.index]
        record["common"], record["first_sender"] = common and bool(inputs), begin
        record["senders"] = lists[-1].size if record["common"] else 0
    # Zeros that nobody writes take no memory: channels are written as partitions part from their tasks, or are saved.
    # Further instances find room, since a copy of the array would write them all.
    state.channels = np.zeros(channel + channel // 2, CHANNEL)
    state.channel_marks = np.zeros(state.channels.size * int(state.options["slots"]), np.int64)
    state.hearing["channels"] = channel
    state.senders = np.concatenate(lists)
    state.hearing["most_senders"] = state.operators["senders"].max(initial=0)
    state.speakers = np.zeros(plan.first_partition[-1], SPEAKER)
    state.speakers["task"] = state.partitions["task"]
    state.speakers["instance"] = np.arange(state.speakers.size)


def _senders(inputs: list[tuple[np.ndarray, bool]], index: int, partitions: int) -> np.ndarray:
    """Return the groups that send to a partition of that index, of so many of its operator."""
    empty = [np.zeros(0, np.int32)]
    return np.concatenate(
        [*empty, *(groups[index::partitions] if forward else groups for groups, forward in inputs)], dtype=np.int32
    )


def _inputs(state: State, plan: RunPlan, down: OperatorPlan) -> list[tuple[np.ndarray, bool]]:
    """Return for each input from which watermarks come the groups that send over it, and whether it is a forward one.

    Each edge notes where its groups begin in the list of all of them.
    """
    found, begin, number = [], 0, 0
    for upstream in plan.operators:
        for edge in upstream.edges:
            if edge.down is down and down.timed:
                groups = np.arange(plan.first_partition[upstream.index], plan.first_partition[upstream.index + 1])
                found.append((groups.astype(np.int32), edge.partitioning == "forward"))
                state.edges["first_sender"][number] = begin
                begin += groups.size
            number += 1
    return found


def with_listener(state: State, task: int) -> None:
    """A task that hears and sends watermarks, if its operator does."""
    if not state.operators["timed"][state.tasks["operator"][task]]:
        return
    slot, room = int(heard.free_slot(state)), int(state.hearing["room"])
    if slot >= room:
        larger = max(4, 2 * room)
        voices = np.zeros((larger, larger), VOICE)
        voices[:room, :room] = state.voices.reshape(room, room)
        state.voices, state.hearing["room"] = voices.reshape(-1), larger
        exceptions = np.zeros(larger * int(state.hearing["most_senders"]), np.int64)
        exceptions[: state.exceptions.size] = state.exceptions
        state.exceptions = exceptions
    heard.begin_to_hear(state, task, slot)


def with_channels(state: State, instance: int, group: int) -> None:
    """A further instance has to hear of all that its group has to hear of."""
    first, count = int(state.hearing["channels"]), int(state.partitions["channels"][group])
    if first + count > state.channels.size:
        channels = np.zeros(first + max(count, state.channels.size // 4), CHANNEL)
        channels[:first] = state.channels[:first]
        marks, slots = state.channel_marks, int(state.options["slots"])
        state.channels, state.channel_marks = channels, np.zeros(channels.size * slots, np.int64)
        state.channel_marks[: first * slots] = marks[: first * slots]
    state.hearing["channels"] = first + count
    u = state.partitions[instance]
    u["first_channel"], u["first_sender"] = first, state.partitions["first_sender"][group]
    u["channels"] = u["behind"] = count


def grown(state: State, tuples: int = 1) -> None:
    """Make room for so many more tuples in all their windows."""
    spread = tuples * int(state.event_time["most_windows"])
    for name in ("cell", "pane"):
        more_places(state, name, spread)
    if 2 * state.cells.shape[0] > state.cell_index.shape[0]:
        index = np.full(power(2 * state.cells.shape[0]), NONE, np.int32)
        rehash_cells(state.cells, index, state.cell_index)
        state.cell_index = index


# What the plan fixes. The kernel only reads it; Python raises `paced`, `special`, `placed` and
# `withholds` when a verb asks for more.
OPTIONS = np.dtype(
    [
        ("latency", "i8"),
        ("fan_out", "i8"),  # most tuples that one service can send
        ("warmup", "i8"),
        ("duplicate_ns", "i8"),  # time that dropping a duplicate takes
        ("pause", "i8"),  # of a task, by each checkpoint
        ("copy", "f8"),  # bytes of its state per second in that pause, 0: costs nothing
        ("beside", "u1"),  # snapshots are written beside their tasks
        ("drops_duplicates", "u1"),
        ("keeps_outputs", "u1"),  # for replay
        ("logs_ids", "u1"),  # of applied tuples: a host may fail
        ("aborts", "u1"),  # checkpoints under way end with a failure
        ("sources_keep", "u1"),  # with barriers: nobody else keeps outputs for replay
        ("barriers", "u1"),  # checkpoints count once control says that they are complete
        ("slots", "i8"),  # how many of the job may be under way
        ("compacts", "u1"),  # files of increments are merged now and then, and read one by one before
        ("unaligned", "u1"),  # barriers may overtake, and sources have positions
        ("rolls_back", "u1"),  # all goes back to one checkpoint: only what sinks have got can come twice
        ("reads", "u1"),  # control says what sources read: what comes again may come behind a barrier
        ("forgets_ids", "u1"),  # that nobody can ask for again
        ("per_key", "u1"),  # some state is kept by key
        ("closes_keys", "u1"),  # and some tuples as long as their keys are open
        ("marks_twice", "u1"),  # a tuple that is processed once more has `buffers.TWICE` for its id in the log
        ("always_full", "u1"),  # checkpoints hold the whole state
        ("remote_store", "u1"),
        ("paced", "u1"),  # some host has services whose pace changes: `services` has a place for each visit
        ("bounded", "u1"),  # a queue has a bound
        ("chained", "u1"),  # tasks share a thread
        ("fair", "u1"),  # links are shared evenly,
        ("fair_hosts", "u1"),  # also those of hosts
        ("shares_uploads", "u1"),  # the link of the remote store is one of them: that of the last host, which is none
        # Bounded queues, chains, fair links, outputs that are withheld, or partitions that are muted or have further
        # instances.
        ("special", "u1"),
        ("placed", "u1"),  # some task has been told to which tasks it sends
        ("withholds", "u1"),  # some task withholds outputs, or has done so
        ("births", "u1"),  # frontiers ask when what windows made was born: `births` has a place for each visit
        ("counts_load", "u1"),  # what each partition does is counted
        ("acks", "u1"),  # there is an acker
        ("history", "i8"),  # outputs are kept for that time; 0: that is not what trims them
        ("sources_replay", "u1"),  # sources alone keep that history
        ("trims", "u1"),  # rounds of acks trim outputs,
        ("literal", "u1"),  # and checkpoints hold none
    ],
    align=True,
)


def options(plan: RunPlan, operators: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return what the plan fixes (1,)."""
    tolerance = plan.scenario.fault_tolerance
    made = np.zeros(1, OPTIONS)
    made["latency"], made["warmup"] = plan.latency_ns, to_ns(plan.scenario.warmup_s)
    made["drops_duplicates"], made["keeps_outputs"], made["logs_ids"] = (
        plan.drops_duplicates,
        plan.replays,
        plan.keeps_ids,
    )
    made["duplicate_ns"] = plan.duplicate_ns
    costs = tolerance.snapshots
    made["pause"], made["copy"], made["beside"] = (
        to_ns(costs.pause_s),
        costs.copy_bytes_per_s or 0.0,
        costs.mode == "asynchronous",
    )
    made["aborts"], made["barriers"] = tolerance.aborts_checkpoints, tolerance.completes_checkpoints
    made["slots"] = tolerance.job_checkpoints.concurrent if tolerance.job_checkpoints else 1
    made["compacts"] = tolerance.compacts
    made["sources_keep"], made["unaligned"] = tolerance.job_checkpoints is not None, tolerance.unaligned
    made["reads"] = any(operator.is_read for operator in plan.operators)
    made["rolls_back"] = tolerance.rolls_back_together and plan.drops_duplicates
    made["births"] = notes_births(plan)
    made["per_key"] = np.any(operators["state_model"] == PER_KEY)
    made["closes_keys"] = np.any(operators["state_model"] == OPEN)
    made["forgets_ids"] = plan.keeps_ids
    made["marks_twice"] = plan.acker is not None or (plan.replays and not plan.drops_duplicates)
    made["always_full"], made["remote_store"] = tolerance.kind == "full", tolerance.store == "remote"
    made["paced"] = any(group.cpu == "processor-sharing" for group in plan.host_groups)
    made["bounded"], made["chained"] = plan.bounded, plan.chained
    made["fair_hosts"], made["shares_uploads"] = plan.fair, tolerance.shares_uploads
    made["fair"] = plan.fair or tolerance.shares_uploads
    made["special"] = plan.bounded or plan.fair or plan.chained
    made["counts_load"], made["acks"] = plan.counts_load, plan.acker is not None
    made["history"] = to_ns(plan.history.length_s) if plan.history else 0
    made["sources_replay"] = plan.sources_replay
    if plan.trimming:
        made["trims"], made["literal"] = True, plan.trimming.reading == "literal"
    most = 1
    for index, operator in enumerate(operators):
        own = edges[operator["first_edge"] : operator["first_edge"] + operator["edges"]]
        targets = int(np.where(own["kind"] == BROADCAST, own["partitions"], 1).sum())
        outputs = 1 if operator["is_source"] else int(np.ceil(plan.operators[index].description.most_selective))
        most = max(most, targets * outputs)
    made["fan_out"] = most + (plan.acker is not None)  # one more event: a root is done
    return made


def needs_more(plan: RunPlan) -> bool:
    """Return whether the run has more than tuples that are served first come first served, and their checkpoints.

    Counting what each key group does is more, too, and so are an acker and outputs that acks trim.
    """
    sharing = any(group.cpu == "processor-sharing" or group.load is not None for group in plan.host_groups)
    tolerance = plan.scenario.fault_tolerance
    more = (
        tolerance.snapshots.cost
        or tolerance.shares_uploads
        or tolerance.completes_checkpoints
        or plan.counts_load
        or plan.bounded
        or plan.fair
        or plan.chained
        or plan.acker is not None
        or bool(plan.trimming or plan.history)
    )
    return (
        sharing
        or more
        or any(
            operator.has_event_time
            or operator.postpone_ns
            or operator.poll
            or operator.counts is not None
            or operator.entries is not None
            for operator in plan.operators
        )
    )


def operator_records(plan: RunPlan) -> np.ndarray:
    """Return the records of the operators (n_operators,)."""
    made = np.zeros(len(plan.operators), OPERATOR)
    edge = 0
    for record, operator in zip(made, plan.operators, strict=True):
        description = operator.description
        record["code"], record["bytes"], record["threads"] = operator.code, operator.output_bytes, description.threads
        record["first_edge"], record["edges"] = edge, len(operator.edges)
        edge += len(operator.edges)
        record["has_service"] = description.service is not None
        record["is_source"], record["is_sink"] = operator.is_source, operator.is_sink
        record["priority"], record["chained"] = operator.urgency, operator.thread is not None
        record["buffer"] = description.buffer or 0
        record["serialise"] = description.serialise_bytes_per_s or 0.0
        state = description.state
        record["state_model"] = NO_STATE
        if isinstance(state, PerKeyState):
            record["state_model"] = PER_KEY
            record["state_entry"] = 1.0 if operator.entries is not None else state.tuple_bytes
        elif isinstance(state, PerTupleState):
            record["state_model"], record["state_entry"] = OPEN if state.closes else PER_TUPLE, state.entry_bytes
        elif isinstance(state, FixedState):
            record["state_model"], record["state_entry"] = FIXED, state.group_bytes
            record["state_change"] = -1.0 if state.change_bytes is None else state.change_bytes
        elif isinstance(state, WindowState):
            record["state_model"], record["state_entry"] = RECENT, state.entry_bytes
    operator_fields(made, plan)
    made["entries"] = NONE
    for field, by_input in (
        ("counts", [operator.index for operator in plan.operators if operator.counts is not None]),
        ("entries", [operator.index for operator in plan.operators if operator.entries is not None]),
    ):
        made[field][by_input] = np.arange(len(by_input)) * len(plan.operators)
    return made


def entry_bytes(plan: RunPlan) -> np.ndarray:
    """Return the state of a key by operator, of those that have one for each input, and by operator upstream."""
    return np.array([size for operator in plan.operators for size in operator.entries or ()], np.int64)


def closed_keys(plan: RunPlan, operators: np.ndarray) -> np.ndarray:
    """Return a bit for each key of an operator whose keys close: none has. Write where those of each begin."""
    bits = 0
    for record, operator in zip(operators, plan.operators, strict=True):
        if operator.closes_keys:
            record["first_closed"] = bits
            inputs = [edge.key_count for upstream in plan.operators for edge in upstream.edges if edge.down is operator]
            bits += max([operator.description.groups, *inputs])
    return np.zeros(bits // 8 + 1, np.uint8)


def edge_records(plan: RunPlan) -> tuple[np.ndarray, np.ndarray]:
    """Return the records of the edges (n_edges,), and the key groups of keys that they refer to."""
    kinds = {"broadcast": BROADCAST, "forward": FORWARD, "shuffle": SHUFFLE}
    rows, tables, offset = [], [], 0
    for operator in plan.operators:
        for edge in operator.edges:
            made = np.zeros((), EDGE)
            down = edge.down
            made["partitions"], made["first_partition"] = down.description.groups, plan.first_partition[down.index]
            made["down"] = down.index
            made["code"], made["takes"], made["takes_code"] = edge.shuffle_code, edge.share, edge.takes_code
            made["copy_code"] = edge.copy_code or 0
            if edge.partitioning != "key":
                made["kind"] = kinds[edge.partitioning]
            elif edge.grouped:
                made["kind"] = GROUPED
            else:
                made["kind"], made["table"] = KEYED, offset
                keyed = down.description
                table = groups_of_keys(edge.key_count, keyed.groups, keyed.key_hash).astype(np.int32)
                tables.append(table)
                offset += table.size
            rows.append(made)
    edges = np.array(rows, EDGE) if rows else np.zeros(0, EDGE)
    return edges, np.concatenate(tables) if tables else np.zeros(1, np.int32)


class Draws(NamedTuple):
    """The laws of each operator's draws (n_operators,), and the cumulative weights and quantiles they refer to.

    `postponements` (n_operators,) has the laws by which outputs are post-dated, `polls` those of what a poll takes; of
    their fields only those of a time.
    `by_input` has the selectivities of operators whose inputs have each their own; of their fields only those of it.
    """

    records: np.ndarray
    postponements: np.ndarray
    polls: np.ndarray
    by_input: np.ndarray
    cumulative: np.ndarray
    quantiles: np.ndarray


def draw_records(plan: RunPlan) -> Draws:
    """Return the laws of the draws of all operators."""
    records, postponements, polls = (np.zeros(len(plan.operators), OPERATOR_DRAWS) for _ in range(3))
    scenario = plan.scenario
    polling = {name: reading.cost for name, reading in scenario.polling.items()}
    cumulative, offset, pieces = [np.ones(1)], 1, [np.zeros(0)]
    for index, operator in enumerate(plan.operators):
        records[index], weights = pack_draws(
            operator.description, scenario.seed, plan.replication, operator.name, offset
        )
        postponements[index] = pack_time(
            operator.description.postpone, scenario.seed, plan.replication, operator.name, POSTPONE
        )
        polls[index] = pack_time(polling.get(operator.name), scenario.seed, plan.replication, operator.name, POLL)
        cumulative.append(weights)
        offset += weights.size
        if has_quantiles(int(records["law"][index])):
            records["quantiles"][index] = (len(pieces) - 1) * PIECES
            pieces.append(quantiles_of(records[index]))
    by_input = _draws_by_input(plan, records)
    return Draws(records, postponements, polls, by_input, np.concatenate(cumulative), np.concatenate(pieces))


def _draws_by_input(plan: RunPlan, records: np.ndarray) -> np.ndarray:
    """Return the selectivities by operator, of those that have one for each input, and by operator upstream."""
    made = []
    for index, operator in enumerate(plan.operators):
        own = np.zeros(len(plan.operators) if operator.counts is not None else 0, OPERATOR_DRAWS)
        for upstream in operator.counts or ():
            own[upstream] = records[index]
            write_count(own[upstream], operator.description.selectivity_of(plan.operators[upstream].name))
        made.append(own)
    return np.concatenate(made)


def host_records(plan: RunPlan) -> tuple[np.ndarray, np.ndarray]:
    """Return the hosts (n_hosts,), and the cores that the tasks of a host share.

    One more stands for the remote store if all write to it with equal shares.
    """
    tolerance = plan.scenario.fault_tolerance
    hosts = records(len(plan.host_groups) + tolerance.shares_uploads, HOST)
    cores = np.zeros(max(1, len(plan.host_groups)), CORES)
    cores["first"] = cores["last"] = NONE
    for index, group in enumerate(plan.host_groups):
        record = hosts[index]
        record["rate"], record["speed"] = group.network_bytes_per_s or 0.0, group.speed
        record["alive"], record["trusted"], record["shared"] = 1, 1, group.cpu == "shared"
        record["cores"], record["core_count"] = index, group.cores
        cores[index]["free"] = group.cores
        record["even"] = record["paced"] = group.cpu == "processor-sharing"
        record["pace"], record["root"], record["next_time"] = FULL, NONE, FAR_NS
        record["fair"] = plan.fair and group.network_bytes_per_s is not None
        record["alarm"] = record["first_lane"] = record["last_lane"] = NONE
    for record in hosts[len(plan.host_groups) :]:
        record["rate"], record["store"] = tolerance.remote_bytes_per_s, 1
        record["root"], record["next_time"] = NONE, FAR_NS
        record["alarm"] = record["first_lane"] = record["last_lane"] = NONE
    return hosts, cores


def partition_records(plan: RunPlan, cluster: Cluster) -> np.ndarray:
    """Return the partitions (n_partitions,), live and empty."""
    partitions = records(len(cluster.partition_task), PARTITION)
    for name in ("held_head", "held_tail", "log_first", "log_last", "out_pair", "in_pair", "replay_task"):
        partitions[name] = NONE
    partitions["overdue_head"] = partitions["overdue_tail"] = NONE
    partitions["operator"], partitions["index"], partitions["task"] = (
        cluster.partition_operator,
        cluster.partition_index,
        cluster.partition_task,
    )
    partitions["planned"] = [NONE if host is None else host for host in cluster.planned_checkpoint_host]
    partitions["live"] = 1
    partitions["first_key"] = _first_keys(plan, cluster)
    partitions["group"] = partitions["owner"] = np.arange(len(partitions))
    partitions["goal"] = partitions["left"] = NONE
    partitions["overtaken_head"] = partitions["overtaken_tail"] = partitions["in_flight_head"] = NONE
    partitions["routes"] = partitions["stored_from"] = partitions["adopted_from"] = NONE
    partitions["replayed_at"] = NONE
    partitions["epoch"] = 1
    partitions["is_source"] = [plan.operators[operator].is_source for operator in cluster.partition_operator]
    partitions["is_sink"] = [plan.operators[operator].is_sink for operator in cluster.partition_operator]
    return partitions


def unfinished_records(places: int) -> np.ndarray:
    """Return so many places for snapshots that are under way, in which there is none."""
    made = np.zeros(places, UNFINISHED)
    made["arrived"] = NONE
    return made


def _first_keys(plan: RunPlan, cluster: Cluster) -> list[int]:
    """Return where the keys of each partition begin in a table of keys.

    Of an operator that gets its tuples by key each key has one partition, so that all its partitions have one range
    together. Else each partition has a range somewhere.
    """
    found, first = [], 0
    for operator in plan.operators:
        inputs = [edge for upstream in plan.operators for edge in upstream.edges if edge.down is operator]
        by_key = all(edge.partitioning == "key" for edge in inputs)
        found.append(first if by_key else NONE)
        if by_key and isinstance(operator.description.state, PerKeyState):
            first += max([operator.description.groups, *(edge.key_count for edge in inputs)])
    return [
        (found[operator] if found[operator] != NONE else partition * SPREAD) & FIRST_KEYS
        for partition, operator in enumerate(cluster.partition_operator)
    ]


def pending_records(sources: int) -> np.ndarray:
    """Return for each source that it has no root (n_sources,)."""
    made = np.zeros(sources, PENDING)
    made["first"] = made["last"] = NONE
    return made


def task_records(room: int) -> np.ndarray:
    """Return room for tasks."""
    return records(room, TASK)


def source_records(plan: RunPlan, cluster: Cluster, room: int) -> np.ndarray:
    """Return one record for each source partition, with an empty buffer of `room` arrivals."""
    own = [
        partition for partition, operator in enumerate(cluster.partition_operator) if plan.operators[operator].is_source
    ]
    made = np.zeros(len(own), SOURCE)
    made["again_head"] = made["again_tail"] = NONE
    made["unread"] = np.iinfo(np.int64).max
    for k, partition in enumerate(own):
        name = plan.operators[cluster.partition_operator[partition]].name
        made[k]["code"] = code_of("source", name, cluster.partition_index[partition])
        made[k]["partition"], made[k]["offset"], made[k]["room"], made[k]["more"] = partition, k * room, room, 1
    return made
