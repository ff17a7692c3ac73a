"""The audit at the end of a run, as in the ledger of the specification: expected, lost and duplicated inputs.

The expected inputs of every partition follow from the sources' tuples by the same pure functions that the run uses. A
tuple that is not in the final state but on its way, or will be sent again, is neither lost nor expected yet; nor is
anything that would follow from it. Operators downstream of a window are not audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sim.arrival_stream import ArrivalStream
from sim.kernel.event_loop.buffers import CHUNK, NODES, next_node
from sim.kernel.event_loop.codes import BROADCAST, FORWARD, GROUPED, KEYED, NONE, SHUFFLE, TUPLE
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.event_loop.instances import stored_at
from sim.kernel.event_loop.windows import window_id
from sim.kernel.tools.audit_sums import by_sum
from sim.kernel.tools.compiling import allocating, kernel
from sim.kernel.tools.draws import child_id, output_count, output_key, shuffle_target, source_id, takes
from sim.kernel.tools.pointer import State

ENTRY = np.dtype([("id", "u8"), ("partition", "i4"), ("flags", "i4")], align=True)  # partition NONE: empty
_THERE, _COMING = 1, 2
_SPARSE = 8  # slots of a sieve for each entry, at least


@kernel
def _entry(table: np.ndarray, partition: Any, tuple_id: int) -> int:
    size = table.shape[0]
    k = slot_of(tuple_id, partition, size)
    while table[k].partition != NONE and not (table[k].partition == partition and table[k].id == tuple_id):
        k = (k + 1) & (size - 1)
    return k


@kernel
def _mark(table: np.ndarray, partition: int, tuple_id: int, flag: int) -> bool:
    """Set a flag; whether it was not set before."""
    e = table[_entry(table, partition, tuple_id)]
    if e.partition == NONE:
        e.partition = partition
        e.id = tuple_id
        e.flags = 0
    new = e.flags & flag == 0
    e.flags |= flag
    return new


def settle(s: State, streams: Callable[[], Sequence[ArrivalStream]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Expected, lost and duplicated inputs, each (n_operators,); `streams()` repeat the arrivals at each source.

    Where a host may fail every id is looked for. Where none can, only number and sum of the ids are known of each
    operator, and that they are what follows from the sources is checked; raises RuntimeError if they are not, which
    would be an error of the engine.
    """
    if s.ids["overdue"]:
        raise RuntimeError(f"{s.ids['overdue']} tuples were sent again whose ids had been forgotten")
    if s.options["logs_ids"]:
        return _by_id(s, streams())
    return by_sum(s)


def _by_id(s: State, streams: Sequence[ArrivalStream]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    expected, lost, duplicated = (np.zeros(s.operators.shape[0], np.int64) for _ in range(3))
    size = 2
    while size < 2 * entries(s):
        size *= 2
    table = np.zeros(size, ENTRY)
    table["partition"] = NONE
    stack = _stack(s)
    enter_final_state(s, table, duplicated, stack)
    gone = forgotten(s)
    sieve = sieve_of(table)
    for source, first, arrivals, keys in _emitted(s, streams):
        enter(s, table, sieve, gone, source, first, arrivals, keys, expected, lost, stack)
    for partition in np.flatnonzero(s.partitions["ticks"]).tolist():
        enter_ticks(s, table, sieve, gone, partition, expected, lost, stack)
    np.subtract.at(lost, s.partitions["operator"], np.maximum(gone, 0))
    return expected, lost, duplicated


def _stack(s: State) -> np.ndarray:
    """Room for all that one source tuple can have open at a time."""
    return np.zeros((int(s.options["fan_out"]) * (s.operators.shape[0] + 1) + 1, 3), np.uint64)


def _emitted(s: State, streams: Sequence[ArrivalStream]) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """(source, sequence number of the first, arrivals, keys) of all that was emitted."""
    for source, stream in enumerate(streams):
        first, emitted = 0, int(s.sources["emitted"][source])
        for arrivals, keys in stream:
            if first >= emitted:
                break
            yield source, first, arrivals, keys[: emitted - first]
            first += keys.size


@kernel
def entries(s: State) -> int:
    """An upper bound of the entries of the table."""
    total = s.visits.shape[0] - s.visit_pool.left + 2 * (s.nodes.shape[0] - NODES * s.node_pool.left)
    for partition in range(s.partitions.shape[0]):
        total += (
            s.partitions[partition].applied
            - s.partitions[partition].base
            + s.options.fan_out * s.partitions[partition].ticks
        )
    return total


@kernel
def enter_final_state(s: State, table: np.ndarray, duplicated: np.ndarray, stack: np.ndarray) -> None:
    """Note what is in the final state of each partition, and what is on its way; `duplicated` by operator."""
    for partition in range(s.partitions.shape[0]):
        u = s.partitions[partition]
        is_owner = s.partitions[u.group].owner == partition
        if not is_owner and u.retired:
            continue
        log, final = _final(s, partition)
        chunk, pos = s.partitions[log].log_first, s.partitions[log].base
        while chunk != NONE and pos < final:
            for k in range(min(CHUNK, final - pos)):
                if not is_owner:  # a place that the group is on its way to
                    _mark(table, u.group, s.log[chunk * CHUNK + k], _COMING)
                elif not _mark(table, u.group, s.log[chunk * CHUNK + k], _THERE):
                    duplicated[u.operator] += 1
            pos += CHUNK
            chunk = s.log_next[chunk]
        _mark_chain(s, table, u.held_head)
        if is_owner and not u.live and s.options.keeps_outputs:
            _mark_replay(s, table, partition)
            for number in range(u.ticks_stored if u.stored else 0, u.ticks):
                depth = _push_tick(s, stack, partition, number + 1)
                for k in range(depth):
                    _mark_coming(s, table, s.partitions[np.int64(stack[k, 0])].owner, stack[k, 1])
    for v in range(s.visits.shape[0]):
        e = s.visits[v]
        if e.wire and s.tasks[e.task].alive:
            _mark_coming(s, table, e.partition, e.id)
    for task in range(s.cluster.tasks):
        t = s.tasks[task]
        _mark_chain(s, table, t.front_head)
        _mark_chain(s, table, t.queue_head)
        _mark_chain(s, table, t.serving_head)
        _mark_chain(s, table, t.unsent_head)
        _mark_chain(s, table, t.back_head)
        _mark_chain(s, table, t.side_head)


@kernel
def _final(s: State, partition: int) -> tuple[int, int]:
    """The partition in whose log the final state of this one is, and how many applied tuples are in it."""
    u = s.partitions[partition]
    if u.live or u.is_sink:
        return partition, u.applied
    if s.partitions[u.group].owner == partition and u.stored:
        return stored_at(s, partition), u.stored_count
    return partition, 0


@allocating
def forgotten(s: State) -> np.ndarray:
    """How many tuples in the final state of each partition are forgotten (n_partitions,).

    -1 where they are in another instance of the group and the owner has lost its state.
    """
    found = np.zeros(s.partitions.shape[0], np.int64)
    for partition in range(s.partitions.shape[0]):
        if s.partitions[s.partitions[partition].group].owner == partition:
            log, final = _final(s, partition)
            found[s.partitions[partition].group] = min(s.partitions[log].base, final)
    for partition in range(s.partitions.shape[0]):
        u = s.partitions[partition]
        if s.partitions[u.group].owner != partition and not u.retired and u.live and u.base > 0 and found[u.group] == 0:
            found[u.group] = -1
    return found


@kernel
def _mark_coming(s: State, table: np.ndarray, partition: int, tuple_id: int) -> None:
    """On its way to an instance of a group, which is not over or is the owner all the same."""
    group = s.partitions[partition].group
    if not s.partitions[partition].retired or s.partitions[group].owner == partition:
        _mark(table, group, tuple_id, _COMING)


@kernel
def _mark_chain(s: State, table: np.ndarray, head: int) -> None:
    while head != NONE:
        e = s.visits[head]
        if e.kind == TUPLE:
            _mark_coming(s, table, e.partition, e.id)
        head = e.next


@kernel
def _mark_replay(s: State, table: np.ndarray, partition: int) -> None:
    """What a partition that is down will be sent once more, and what it will send once more itself."""
    u = s.partitions[partition]
    pair = u.in_pair
    while pair != NONE:
        p = s.pairs[pair]
        n = p.live
        while n != NONE:
            _mark_coming(s, table, partition, s.nodes[n].id)
            n = NONE if n == p.last else next_node(s, n)
        pair = p.next_in
    pair = s.partitions[stored_at(s, partition)].out_pair
    while pair != NONE:
        p = s.pairs[pair]
        if u.is_source:
            n, left = p.live, p.end_seq - p.live_seq if p.live != NONE else 0
        else:
            handed = u.stored_from != NONE
            begin = p.pending_begin if handed else p.stored_begin
            n, left = p.first, (p.pending_end if handed else p.stored_end) - begin if u.stored else 0
            skip = begin - p.first_seq
            while left > 0 and skip > 0:
                n = next_node(s, n)
                skip -= 1
        while left > 0:
            _mark(table, s.partitions[p.receiver].group, s.nodes[n].id, _COMING)  # what is over has an successor
            left -= 1
            if left > 0:
                n = next_node(s, n)
        pair = p.next_out


@kernel
def _sent_to(s: State, edge_number: int, tuple_id: int, key: int, index: int, k: int) -> int:
    """The k-th partition that an output goes to over an edge, or NONE after the last."""
    edge = s.edges[edge_number]
    if k > 0 and edge.kind != BROADCAST:
        return NONE
    if edge.takes < 1.0 and not takes(tuple_id, edge.takes_code, edge.takes):
        return NONE
    if edge.kind == KEYED:
        return edge.first_partition + s.key_tables[edge.table + key]
    if edge.kind == SHUFFLE:
        return edge.first_partition + shuffle_target(tuple_id, edge.code, edge.partitions)
    if edge.kind == GROUPED:
        return edge.first_partition + key
    if edge.kind == FORWARD:
        return edge.first_partition + index % edge.partitions
    return edge.first_partition + k if k < edge.partitions else NONE


@allocating
def sieve_of(table: np.ndarray) -> np.ndarray:
    """A bit for each of many slots, set if an entry falls into it: of most tuples that are not there it says so."""
    used = 0
    for k in range(table.shape[0]):
        used += table[k].partition != NONE
    bits = 64
    while bits < _SPARSE * used:
        bits *= 2
    found = np.zeros(bits // 64, np.uint64)
    for k in range(table.shape[0]):
        if table[k].partition != NONE:
            slot = slot_of(table[k].id, table[k].partition, bits)
            found[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
    return found


@kernel
def _may_be_there(sieve: np.ndarray, partition: Any, tuple_id: int) -> bool:
    slot = slot_of(tuple_id, partition, sieve.shape[0] * 64)
    return (sieve[slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1) != 0


@kernel
def enter(
    s: State,
    table: np.ndarray,
    sieve: np.ndarray,
    gone: np.ndarray,
    source: int,
    first: int,
    arrivals: np.ndarray,
    keys: np.ndarray,
    expected: np.ndarray,
    lost: np.ndarray,
    stack: np.ndarray,
) -> None:
    """Follow the tuples `first` .. of a source through the job; `expected` and `lost` by operator.

    `arrivals` and `keys` (n,) are theirs. What is forgotten is among the lost here.

    `stack` (depth, 3) has room for all that one source tuple can have open at a time.
    """
    b = s.sources[source]
    for sequence in range(keys.shape[0]):
        depth = _push_outputs(s, stack, 0, b.partition, source_id(b.code, first + sequence), keys[sequence])
        closed = arrivals[sequence] < s.ids.oldest
        _follow(s, table, sieve, gone, closed, depth, expected, lost, stack)


@kernel
def enter_ticks(
    s: State,
    table: np.ndarray,
    sieve: np.ndarray,
    gone: np.ndarray,
    partition: int,
    expected: np.ndarray,
    lost: np.ndarray,
    stack: np.ndarray,
) -> None:
    """The same for what a timer has emitted."""
    for number in range(s.partitions[partition].ticks):
        depth = _push_tick(s, stack, partition, number + 1)
        _follow(s, table, sieve, gone, False, depth, expected, lost, stack)


@kernel
def _follow(
    s: State,
    table: np.ndarray,
    sieve: np.ndarray,
    gone: np.ndarray,
    closed: bool,
    depth: int,
    expected: np.ndarray,
    lost: np.ndarray,
    stack: np.ndarray,
) -> None:
    beyond = NONE  # what stands higher on the stack follows from what is on its way
    while depth > 0:
        if depth <= beyond:
            beyond = NONE
        depth -= 1
        partition, tuple_id, key = np.int64(stack[depth, 0]), stack[depth, 1], np.int64(stack[depth, 2])
        known = there = False
        if _may_be_there(sieve, partition, tuple_id):
            k = _entry(table, partition, tuple_id)
            known = table[k].partition != NONE
            there = known and table[k].flags & _THERE != 0
        operator = s.partitions[partition].operator
        if beyond != NONE:
            lost[operator] += not there and gone[partition] > 0  # it is forgotten: as such it is taken off again
        elif closed:  # it is not on its way; who is known to have it is not the owner, which may have forgotten it
            if there or gone[partition] > 0 or (gone[partition] == 0 and not known):
                expected[operator] += 1
                lost[operator] += not there
            else:
                beyond = depth
        elif known and not there:
            continue
        else:
            expected[operator] += 1
            lost[operator] += not there
        op = s.operators[operator]
        if op.edges > 0 and not op.windowed:
            draws = s.draws[operator]
            for index in range(output_count(draws, tuple_id)):
                child = child_id(tuple_id, op.code, index)
                depth = _push_outputs(s, stack, depth, partition, child, output_key(draws, s.cumulative, child, key))


@kernel
def _push_tick(s: State, stack: np.ndarray, partition: int, number: int) -> int:
    """What the timer of a partition emits at an instant, as the only thing on the stack."""
    u = s.partitions[partition]
    draws = s.draws[u.operator]
    made = window_id(s.operators[u.operator].timer_code, u.index, 0, number)
    return _push_outputs(s, stack, 0, partition, made, output_key(draws, s.cumulative, made, 0))


@kernel
def _push_outputs(s: State, stack: np.ndarray, depth: int, partition: Any, tuple_id: int, key: int) -> int:
    u = s.partitions[partition]
    op = s.operators[u.operator]
    for edge in range(op.first_edge, op.first_edge + op.edges):
        k = 0
        while True:
            target = _sent_to(s, edge, tuple_id, key, u.index, k)
            if target == NONE:
                break
            sent = tuple_id
            if s.edges[edge].kind == BROADCAST:
                sent = child_id(tuple_id, s.edges[edge].copy_code, k)
            stack[depth, 0] = target
            stack[depth, 1] = sent
            stack[depth, 2] = key
            depth += 1
            k += 1
    return depth
