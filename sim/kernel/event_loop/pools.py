"""Room in the arrays of the compiled plane: made at the start, and more of it when the kernel asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from models.units import to_ns
from sim.clock import SERVICE
from sim.kernel.event_loop import (
    buffers,
    checkpoints,
    events,
    expiry,
    fair_links,
    forgetting,
    hash_tables,
    open_keys,
    roots,
)
from sim.kernel.event_loop.anchors import ANCHOR, HELD_ACK, HELD_ACKS, ROOT
from sim.kernel.event_loop.buffers import CHUNK, NODE, NODES
from sim.kernel.event_loop.codes import NEVER, NONE
from sim.kernel.event_loop.entities import CORES, SOURCE_ARRIVAL, VISIT
from sim.kernel.event_loop.events import EVENT, OWN_EVENT, RING
from sim.kernel.event_loop.fair_links import LANE, PARCEL
from sim.kernel.event_loop.free_lists import CONFIRMATION, TRANSFER
from sim.kernel.event_loop.hash_tables import KEY, PAIR, POSITION
from sim.kernel.event_loop.open_keys import OPEN_KEY
from sim.kernel.event_loop.service_times import TOGETHER
from sim.kernel.event_loop.sharing import SERVICE_SHARE
from sim.kernel.event_loop.trimming import ROUND_AT, SLICES
from sim.kernel.event_loop.unfinished import UNFINISHED
from sim.kernel.tools.pointer import State, extended, records

if TYPE_CHECKING:
    from models.scenario.recovery_methods import Trimming
    from sim.arrival_stream import ArrivalStream

_START = 256
_LARGE = 2**22  # bytes: larger arrays are not copied when they get more places, and so need not get many
_PART = 4
_COUNTS = ("confirmed_counts", "slice_marks", "confirmed", "confirmed_to", "acked", "hops_to_end")
_RING = 16  # marks of a partition for which there is room at first
_ROOTS = 4096  # that are emitted at least between two looks for those that are done

push = events.push


def empty() -> dict[str, np.ndarray]:
    """Return the pools and tables before anything is in them."""
    return {
        "heap": _without_events(_START),
        "own": np.zeros(0, OWN_EVENT),
        "tournament": np.zeros(0, np.int64),
        "near": _without_events(RING),
        "far": _without_events(RING),
        "ahead_ids": np.zeros(TOGETHER, np.uint64),
        "ahead_mean": np.zeros(TOGETHER),
        "ahead_ns": np.zeros(TOGETHER, np.int64),
        "visits": np.zeros(1, VISIT)[:0],  # services look at the first one before there is any, and forget it
        "nodes": np.zeros(0, NODE),
        "piece_next": np.zeros(0, np.int32),
        "pairs": np.zeros(_START, PAIR),
        "pair_index": np.full(2 * _START, NONE, np.int32),
        "positions": _vacant(records(2 * _START, POSITION)),
        "keys": _vacant(records(2 * _START, KEY)),
        "open_table": _vacant(records(2 * _START, OPEN_KEY)),
        "log": np.zeros(0, np.uint64),
        "log_next": np.zeros(0, np.int32),
        "log_newest": np.zeros(0, np.int64),
        "transfers": np.zeros(0, TRANSFER),
        "services": np.zeros(0, SERVICE_SHARE),
        "parcels": np.zeros(0, PARCEL),
        "lanes": np.zeros(0, LANE),
        "lane_index": np.full(2, NONE, np.int32),
        "roots": np.zeros(0, ROOT),
        "anchors": np.zeros(0, ANCHOR),
        "births": np.zeros(0, np.int64),
        "held_acks": np.zeros(0, HELD_ACK),
        "acks_at": np.zeros(0, HELD_ACKS),
        "confirmations": np.zeros(0, CONFIRMATION),
        "slices": np.zeros(0, SLICES),
        "rounds_at": np.zeros(0, ROUND_AT),
        "acked_node": np.zeros(0, np.int32),
        "node_slices": np.zeros(0, np.int32),
        **{name: np.zeros(0, np.int64) for name in _COUNTS},
    }


def _without_events(room: int) -> np.ndarray:
    made = records(room, EVENT)
    made["time"][0] = NEVER
    return made


def arrivals(room: int) -> np.ndarray:
    """Return an empty buffer of arrivals."""
    return records(room, SOURCE_ARRIVAL)


def _vacant(table: np.ndarray) -> np.ndarray:
    table["partition"] = NONE
    return table


def longer(array: np.ndarray, room: int) -> np.ndarray:
    """Return the same with at least so many places, and at least twice as many as before."""
    made = records(max(room, 2 * array.shape[0], _START), array.dtype)
    made[: array.shape[0]] = array
    return made


def lengthen(state: State, name: str, room: int, used: int | None = None) -> None:
    """Give an array of the state at least so many places, and at least an eighth more, or twice as many if it is small.

    Of places that are not in use (`used`) nothing is copied: zeros that nobody writes take no memory.
    """
    array = getattr(state, name)
    ahead = array.shape[0] // 8 if array.nbytes >= _LARGE else array.shape[0]
    state.lengthen(name, max(room, array.shape[0] + ahead, _START), used)


def chained(links: np.ndarray, old: int, free: int) -> None:
    """Put the places from `old` on into the list of free ones, whose head was `free`."""
    links[old:-1] = np.arange(old + 1, links.shape[0])
    links[-1] = free


def more_places(state: State, name: str, need: int) -> None:
    """Make room for so many items of a pool of that name."""
    pool, before = getattr(state, f"{name}_pool"), getattr(state, f"{name}s").shape[0]
    missing = need - int(pool["left"])
    if missing > 0:
        lengthen(state, f"{name}s", before + missing)
        made = getattr(state, f"{name}s")
        chained(made["next"], before, int(pool["free"]))
        pool["free"] = before
        pool["left"] += made.shape[0] - before


def grown(state: State, need: int, applied: int, burst: int = 0) -> None:
    """Make room for `need` tuples and events, of which so many are `applied`, and rows of control.

    `burst` is how many more are sent, and not processed, at the end of windows.
    """
    sent = need + burst
    more_places(state, "visit", sent)
    if state.event_time["keeps_tuples"] or state.event_time["most_windows"]:
        more_places(state, "note", sent)
    if state.options["acks"]:
        _more_roots(state, sent)
    if state.options["births"] and state.births.shape[0] < state.visits.shape[0]:
        state.births = longer(state.births, state.visits.shape[0])
    if state.options["keeps_outputs"]:
        _more_nodes(state, sent)
        _more_pairs(state, sent)
    if state.options["trims"]:
        _more_slices(state)
    if state.options["paced"] and state.services.shape[0] < state.visits.shape[0]:
        state.services = longer(state.services, state.visits.shape[0])
    _more_chunks(state, _chunks(state, applied))
    in_heap = int(state.queue["in_heap"])
    if in_heap + sent > state.heap.shape[0]:
        lengthen(state, "heap", in_heap + sent, max(1, in_heap))  # an empty heap shows NEVER in its first place
    if not state.ids["clean"]:
        more_positions(state, applied)
    if state.options["per_key"] and 2 * (int(state.tables["keys"]) + need) > state.keys.shape[0]:
        made = _vacant(records(power(4 * (int(state.tables["keys"]) + need)), KEY))
        hash_tables.rehash_keys(state, made)
        state.keys = made
    if state.options["closes_keys"] and 2 * (int(state.open_keys["count"]) + need) > state.open_table.shape[0]:
        wider = _vacant(records(power(2 * (int(state.open_keys["count"]) + need) + 1), OPEN_KEY))
        open_keys.rehash(state.open_table, wider)
        state.open_table = wider
    if state.options["fair"]:
        _more_lanes(state, sent if state.options["fair_hosts"] else 1)
    _more_rows(state, need)


def _more_nodes(state: State, need: int) -> None:
    missing = need - int(state.node_pool["left"])
    if missing > 0:
        before = state.nodes.shape[0] // NODES
        lengthen(state, "nodes", NODES * (before + missing))
        pieces = state.nodes.shape[0] // NODES
        state.lengthen("piece_next", pieces)
        chained(state.piece_next, before, int(state.node_pool["free"]))
        state.node_pool["free"] = before
        state.node_pool["left"] += pieces - before


def _more_pairs(state: State, need: int) -> None:
    need = min(need, state.partitions.shape[0] ** 2 - int(state.tables["pairs"]))  # of each two partitions one
    if int(state.tables["pairs"]) + need > state.pairs.shape[0]:
        pairs = longer(state.pairs, int(state.tables["pairs"]) + need)
        index = np.full(power(2 * pairs.shape[0]), NONE, np.int32)
        hash_tables.rehash_pairs(pairs, int(state.tables["pairs"]), index)
        state.pairs, state.pair_index = pairs, index


def _more_slices(state: State) -> None:
    """Make room for the confirmations of a round, and for what is known of the pairs and outputs that there are."""
    levels = int(state.slicing["levels"])
    more_places(state, "confirmation", int(state.room["confirmations"]))
    for name, items in (("confirmed_counts", state.confirmations), ("acked", state.pairs), ("acked_node", state.pairs)):
        if getattr(state, name).shape[0] < levels * items.shape[0]:
            setattr(state, name, longer(getattr(state, name), levels * items.shape[0]))
    before = ring = int(state.slicing["ring"])
    while ring <= state.slicing["most_open"]:
        ring *= 2
    if ring > before:
        _widen(state, before, ring)
    if state.node_slices.shape[0] < state.nodes.shape[0]:
        state.node_slices = longer(state.node_slices, state.nodes.shape[0])


def _widen(state: State, before: int, ring: int) -> None:
    """Give each ring of marks more places; a mark stands at its number modulo that of the places."""
    partitions, slice_marks = state.partitions.shape[0], state.slice_marks.reshape(-1, before)
    wider = np.zeros((partitions, ring), np.int64)
    for partition in range(partitions):
        numbers = np.arange(int(state.slices["first"][partition]), int(state.slices["end"][partition]))
        wider[partition, numbers % ring] = slice_marks[partition, numbers % before]
    state.slice_marks = wider.reshape(-1)
    state.slicing["ring"] = ring


def with_slices(state: State, description: Trimming, stateful: np.ndarray, hops_to_end: np.ndarray) -> None:
    """Begin to trim by acks.

    `stateful` (n_partitions,) says which partitions have a state, `hops_to_end` (n_operators,) when acks are sent.
    """
    state.hops_to_end = hops_to_end
    slicing, partitions = state.slicing, state.partitions.shape[0]
    slicing["levels"], slicing["bytes"] = description.levels, round(description.ack_bytes)
    slicing["ring"], slicing["work"] = _RING, to_ns(description.work_s)
    state.slices = np.zeros(partitions, SLICES)
    state.slices["stateful"] = stateful
    state.slice_marks = np.zeros(partitions * _RING, np.int64)
    state.confirmed, state.confirmed_to = (np.zeros(partitions * description.levels, np.int64) for _ in range(2))


def _more_roots(state: State, need: int) -> None:
    if roots.roots_for(state) < need:
        expiry.sweep(state)
        # After a sweep there is room for many roots, so that the next one is far off.
        pending = state.roots.shape[0] - int(state.root_pool["left"])
        more_places(state, "root", max(-(-need // int(state.options["fan_out"])), _ROOTS, pending // 2))
    if state.acking["covered"]:
        more_places(state, "held_ack", need)
    if state.anchors.shape[0] < state.visits.shape[0]:
        state.anchors = longer(state.anchors, state.visits.shape[0])


def forget_ids(state: State, need: int, pin: Callable[[], None]) -> None:
    """Forget ids that nobody can ask for, where those of `need` more tuples find no room; `pin` notes what is saved.

    That takes as long as all that is kept or waits is large. So there is room afterwards for a part of that.
    """
    chunks = _chunks(state, need)
    if not state.options["forgets_ids"] or (
        state.chunk_pool["left"] >= chunks
        and (state.ids["clean"] or 2 * (state.tables["positions"] + need) <= len(state.positions))
    ):
        return
    pin()
    forgetting.forget(state)
    looked_at = forgetting.looked_at(state) // _PART
    _more_chunks(state, chunks + max(state.log_next.shape[0] // 2, looked_at // CHUNK))
    if not state.ids["clean"]:
        more_positions(state, need + max(state.positions.shape[0] // 8, looked_at))


def _chunks(state: State, need: int) -> int:
    """Return how many chunks have room for so many applied tuples for certain (`buffers.room_in_logs`)."""
    return min(need, -(-need // CHUNK) + int(state.partitions.shape[0]))


def _more_chunks(state: State, need: int) -> None:
    missing = need - int(state.chunk_pool["left"])
    if missing > 0:
        before = state.log_next.shape[0]
        lengthen(state, "log", max(before + missing, _START) * CHUNK)
        chunks = state.log.shape[0] // CHUNK
        for name in ("log_next", "log_newest"):
            state.lengthen(name, chunks)
        chained(state.log_next, before, int(state.chunk_pool["free"]))
        state.chunk_pool["free"] = before
        state.chunk_pool["left"] += chunks - before


def more_positions(state: State, need: int, grows: bool = True) -> None:
    """Make room for the positions of `need` more tuples, and for others behind them if their number `grows`."""
    used = int(state.tables["positions"]) + need
    if 2 * used > state.positions.shape[0]:
        made = _vacant(records(power((3 if grows else 2) * used), POSITION))
        hash_tables.rehash_positions(state.positions, made)
        state.positions = made


def look_ids_up(state: State, now_ns: int) -> None:
    """See that tuples are found by their ids: one that was created until now may come twice."""
    state.ids["since"] = now_ns
    if state.ids["clean"]:
        more_positions(state, int(buffers.positions_missing(state) + state.room["need"]))
        buffers.note_positions(state)
        state.room["budget"] = 0  # it was counted with an empty table
        # Noting them takes as long as so many sendings take longer by it.
        noted = forgetting.looked_at(state) + state.log.shape[0]
        state.ids["settles"] = state.clock["serial"] + noted // _PART


def expect_again(state: State, partition: int) -> None:
    """Have a sink whose region was rolled back look up what it may get again."""
    more_positions(state, int(buffers.may_get_again(state, partition)), grows=False)
    buffers.expect_again(state, partition)


def settle(state: State) -> None:
    """Now and then look whether no tuple can come twice any more; then none is looked up."""
    if state.ids["clean"] or state.options["acks"] or state.clock["serial"] < state.ids["settles"]:
        return
    if state.options["keeps_outputs"] and state.options["logs_ids"] and not forgetting.settle(state):
        state.ids["settles"] = state.clock["serial"] + _PART * forgetting.looked_at_first(state)


def more_log(state: State, logged: int, need: int) -> None:
    """Make room for so many tuples in one log, beside `need` in any."""
    _more_chunks(state, logged // CHUNK + 1 + _chunks(state, need))
    more_positions(state, logged + need)


def _more_lanes(state: State, need: int) -> None:
    more_places(state, "parcel", need)
    used = int(state.fair_links["lanes"])
    if used + need > state.lanes.shape[0]:
        lanes = longer(state.lanes, used + need)
        index = np.full(power(2 * lanes.shape[0]), NONE, np.int32)
        fair_links.rehash_lanes(lanes, used, index)
        state.lanes, state.lane_index = lanes, index


def _more_rows(state: State, need: int) -> None:
    with_checkpoints(state, int(checkpoints.most_checkpoints(state, need)))
    if int(state.messages["rows"]) + 16 > state.message_rows.shape[0]:
        state.message_rows = longer(state.message_rows, 0)
    visits, dropped, told = state.visits.shape[0], int(state.drops["rows"]), int(state.told["count"])
    if dropped + visits > state.dropped_rows.shape[0]:
        lengthen(state, "dropped_rows", dropped + visits, dropped)
    notices = told + visits + state.frontiers.shape[0]
    if notices > state.notices.shape[0]:
        lengthen(state, "notices", notices, told)


def with_checkpoints(state: State, many: int) -> None:
    """Make room for so many checkpoints and notes to upstream that are begun at once."""
    more_places(state, "transfer", many)
    if int(state.checkpointing["rows"]) + many > state.checkpoint_rows.shape[0]:
        state.checkpoint_rows = longer(state.checkpoint_rows, int(state.checkpointing["rows"]) + many)


def power(least: int) -> int:
    """Return the smallest power of two that is not less."""
    return 1 << max(1, (least - 1).bit_length())


def with_rule(state: State) -> None:
    """Make room for one more rule of a task."""
    if int(state.rule_pool["free"]) == NONE:
        old = state.rules.shape[0]
        made = longer(state.rules, old + 1)
        chained(made["next"], old, NONE)
        state.rule_pool["free"], state.rules = old, made


def with_partition(state: State, partition: int) -> None:
    """Make room for a partition with this number."""
    if partition >= state.partitions.shape[0]:
        state.partitions = extended(state.partitions, partition + 1)
        before = state.unfinished
        state.unfinished = np.zeros(state.partitions.shape[0] * int(state.options["slots"]), UNFINISHED)
        state.unfinished["arrived"] = NONE
        state.unfinished[: before.size] = before
    if state.options["trims"] and partition >= state.slices.shape[0]:
        room, levels = int(state.partitions.shape[0]), int(state.slicing["levels"])
        state.slices = np.concatenate([state.slices, np.zeros(room - state.slices.shape[0], SLICES)])
        for name, size in (
            ("slice_marks", int(state.slicing["ring"])),
            ("confirmed", levels),
            ("confirmed_to", levels),
        ):
            own = getattr(state, name)
            setattr(state, name, np.concatenate([own, np.zeros(room * size - own.shape[0], np.int64)]))


def with_actions(state: State, timed: np.ndarray) -> int:
    """Put timed actions behind those there are; the number of the first."""
    first = state.timed.shape[0]
    state.timed = np.concatenate([state.timed, timed])
    return first


def with_task(state: State, task: int) -> None:
    """Make room for a task with this number."""
    if task >= state.tasks.shape[0]:
        state.tasks = longer(state.tasks, task + 1)
    if task >= state.acks_at.shape[0]:
        before = state.acks_at.shape[0]
        state.acks_at = longer(state.acks_at, task + 1)
        state.acks_at["first"][before:] = state.acks_at["last"][before:] = NONE
    if state.options["trims"] and task >= state.rounds_at.shape[0]:
        state.rounds_at = longer(state.rounds_at, task + 1)
    if task >= state.own.shape[0]:
        _more_own(state, task + 1)


def _more_own(state: State, tasks: int) -> None:
    """Room for the own events of so many tasks; an instant that is too far away now goes to the heap."""
    old, leaves = state.own.shape[0], power(tasks)
    bits = leaves.bit_length() - 1
    if bits % 2:  # a power of four
        bits, leaves = bits + 1, 2 * leaves
    before, held = int(state.queue["task_bits"]), state.tournament[old:]
    places = np.flatnonzero(held != NEVER)
    times, whose = held[places] >> before, held[places] & (old - 1)
    horizon = 1 << (62 - bits)
    far = times >= horizon
    if int(state.queue["in_heap"]) + int(far.sum()) > state.heap.shape[0]:
        state.heap = longer(state.heap, int(state.queue["in_heap"]) + int(far.sum()))
    for place, time, task in zip(places[far].tolist(), times[far].tolist(), whose[far].tolist(), strict=True):
        e = state.own[place]
        push(state, time, SERVICE + task, int(e["seq"]), int(e["kind"]), int(e["ref"]))
    own, tournament = records(leaves, OWN_EVENT), np.full(2 * leaves, NEVER)
    own[:old] = state.own
    tournament[leaves + places[~far]] = (times[~far] << bits) + whose[~far]
    events.build_tournament(tournament)
    state.own, state.tournament = own, tournament
    state.queue["task_bits"], state.queue["horizon"] = bits, horizon


def with_cores(state: State, count: int) -> int:
    """Return the number of so many more cores that nobody shares yet."""
    number = state.cores.shape[0]
    made = np.zeros(number + 1, CORES)
    made[:number] = state.cores
    made[number] = (count, NONE, NONE)
    state.cores = made
    return number


def refilled(state: State, source: int, stream: ArrivalStream) -> None:
    """The next block of arrivals behind those that are not emitted yet."""
    b = state.sources[source]
    begin, room, first = int(b["offset"]), int(b["room"]), int(b["emitted"])
    place = begin - int(b["base"])
    kept = state.arrivals[place + first : place + int(b["have"])].copy()
    if kept.shape[0] + stream.block > room:
        begin, room = state.arrivals.shape[0], 2 * (kept.shape[0] + stream.block)
        arrivals_ = records(begin + room, SOURCE_ARRIVAL)
        arrivals_[:begin] = state.arrivals
        state.arrivals = arrivals_
        b["offset"], b["room"] = begin, room
    end = begin + kept.shape[0]
    state.arrivals[begin:end] = kept
    found = stream.fill(state.arrivals[end : begin + room])
    b["base"], b["have"], b["more"] = first, first + kept.shape[0] + found, found > 0
