"""The audit at the end of a run, as in the ledger of the specification: expected, lost and duplicated inputs.

The expected inputs of every partition follow from the sources' tuples by the same pure functions that the run uses. A
tuple that is not in the final state but on its way, or will be sent again, is neither lost nor expected yet; nor is
anything that would follow from it. Operators downstream of a window are not audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sim.arrival_stream import Block
from sim.kernel.event_loop.audit_by_sum import Since, by_sum_of_states, in_motion, is_there
from sim.kernel.event_loop.audit_table import (
    AGAIN,
    COMING,
    ELSEWHERE,
    ENTRY,
    THERE,
    entry,
    mark,
    may_be_there,
    sieve_of,
)
from sim.kernel.event_loop.buffers import CHUNK, NODES, is_twice, next_node
from sim.kernel.event_loop.channels import sent_to
from sim.kernel.event_loop.codes import BROADCAST, NONE
from sim.kernel.event_loop.emitting import SAVED_OUTPUT, number_of_outputs, waits
from sim.kernel.event_loop.instances import stored_at
from sim.kernel.event_loop.trimming import restorable
from sim.kernel.event_loop.windows import window_id
from sim.kernel.tools.audit_sums import Ranges, by_sum
from sim.kernel.tools.cache import allocating, kernel
from sim.kernel.tools.draws import child_id, output_key, service_ns, source_id
from sim.kernel.tools.pointer import State

_NONE_POST_DATED = np.zeros(0, SAVED_OUTPUT)


class Carried(NamedTuple):
    """Tuples that are on their way in parcels: their partitions and ids, both (n,)."""

    partitions: np.ndarray
    ids: np.ndarray


class Saved(NamedTuple):
    """The newest state in a parcel of a partition that is down: the ids in it (n,), and how many were forgotten.

    `twice` of the latter were there already.
    """

    partition: int
    ids: np.ndarray
    forgotten: int
    twice: int


def settle(
    state: State,
    streams: Callable[[], Sequence[Iterable[Block]]],
    carried: Sequence[Carried] = (),
    saved: Sequence[Saved] = (),
    unfinished: Sequence[np.ndarray] | None = None,
    since: Since | None = None,
    read: Mapping[int, Ranges] | None = None,
    post_dated: np.ndarray = _NONE_POST_DATED,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Expected, lost and duplicated inputs, each (n_operators,); `streams()` repeat the arrivals at each source.

    With `since` only what came in a part of the run is expected, which `streams()` begin with. What was applied before
    it and is lost in it counts as lost.

    `unfinished` has by source the numbers of the roots that are not done, where there is an acker: what is missing of
    them will come again.

    `read` has by source what was emitted of those of which control says what they read, and `post_dated` (n,) the
    post-dated outputs in stored checkpoints of the job.

    Where a host may fail, ids are looked for one by one unless their sums show that all were applied once
    (`audit_by_sum`). Where none can, sums are all that is known; raises RuntimeError if they are not what follows from
    the sources, which would be an error of the engine.
    """
    if state.ids["overdue"]:
        raise RuntimeError(f"{state.ids['overdue']} tuples were sent again whose ids had been forgotten")
    if not state.options["logs_ids"]:
        return by_sum(state, read)
    if not (carried or saved or unfinished is not None or state.options["marks_twice"]):
        found = by_sum_of_states(state, since, read)
        if found is not None:
            return found
    return _by_id(state, streams(), carried, saved, unfinished, since, read, post_dated)


def _by_id(
    state: State,
    streams: Sequence[Iterable[Block]],
    carried: Sequence[Carried],
    saved: Sequence[Saved],
    unfinished: Sequence[np.ndarray] | None,
    since: Since | None,
    read: Mapping[int, Ranges] | None,
    post_dated: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    expected, lost, duplicated = (np.zeros(state.operators.shape[0], np.int64) for _ in range(3))
    size, further = 2, sum(one.ids.size for one in carried) + sum(one.ids.size for one in saved)
    while size < 2 * (entries(state) + further + int(state.options["fan_out"]) * post_dated.size):
        size *= 2
    table = np.zeros(size, ENTRY)
    table["partition"] = NONE
    stack = _stack(state)
    in_parcel = np.zeros(state.partitions.shape[0], np.bool_)
    in_parcel[[one.partition for one in saved]] = True
    enter_final_state(state, table, in_parcel, duplicated, stack)
    enter_carried(state, table, *in_motion(state)[:2])
    enter_post_dated(state, table, stack)
    if state.options["sources_keep"]:
        enter_since_checkpoint(state, table, stack, post_dated)
    gone = forgotten(state)
    for one in saved:
        twice = one.twice + int(enter_saved(state, table, one.partition, one.ids))
        duplicated[state.partitions["operator"][one.partition]] += twice
        gone[state.partitions["group"][one.partition]] = one.forgotten - one.twice
    for parcel in carried:
        enter_carried(state, table, parcel.partitions, parcel.ids)
    sieve = sieve_of(table)
    before = np.zeros(state.sources.shape[0], np.int64)
    if since is not None:
        before = since.emitted
        np.add.at(lost, state.partitions["operator"], np.maximum(since.base - gone, 0))
        gone = np.maximum(gone - since.base, 0)
        enter_coming(state, table, sieve, gone, since.coming, expected, lost, stack)
    for source, first, arrivals, keys in _emitted(state, streams, before, read or {}):
        again = done = np.zeros(keys.size, np.bool_)
        if unfinished is not None:
            again = np.isin(np.arange(first, first + keys.size), unfinished[source])
            done = ~again
        enter(state, table, sieve, gone, source, first, arrivals, keys, again, done, expected, lost, stack)
    for partition in np.flatnonzero(state.partitions["ticks"]).tolist():
        made = 0 if since is None else int(since.ticks[partition])
        enter_ticks(state, table, sieve, gone, partition, made, expected, lost, stack)
    np.subtract.at(lost, state.partitions["operator"], np.maximum(gone, 0))
    return expected, lost, duplicated


def _stack(state: State) -> np.ndarray:
    """Return room for all that one source tuple can have open at a time."""
    return np.zeros((int(state.options["fan_out"]) * (state.operators.shape[0] + 1) + 1, 5), np.uint64)


def _emitted(
    state: State, streams: Sequence[Iterable[Block]], before: np.ndarray, read: Mapping[int, Ranges]
) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """(source, sequence number of the first, arrivals, keys) of all that was emitted behind the first so many."""
    for source, stream in enumerate(streams):
        first, emitted = int(before[source]), int(state.sources["emitted"][source])
        if source in read:
            yield from _in_ranges(source, stream, read[source])
        blocks = iter(stream)
        while first < emitted:
            arrivals, keys = next(blocks)
            yield source, first, arrivals, keys[: emitted - first]
            first += keys.size


def _in_ranges(
    source: int, stream: Iterable[Block], ranges: Ranges
) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """Yield the same of what is in rising ranges of numbers."""
    first = 0
    for arrivals, keys in stream:
        upto = first + keys.size
        for begin, end in ranges:
            one, other = max(begin, first), min(end, upto)
            if one < other:
                yield source, one, arrivals[one - first : other - first], keys[one - first : other - first]
        first = upto


@kernel
def entries(state: State) -> int:
    """Return an upper bound of the entries of the table."""
    total = state.visits.shape[0] - state.visit_pool.left + 2 * (state.nodes.shape[0] - NODES * state.node_pool.left)
    for partition in range(state.partitions.shape[0]):
        total += (
            state.partitions[partition].applied
            - state.partitions[partition].base
            + state.options.fan_out * (state.partitions[partition].ticks + state.partitions[partition].post_dated)
        )
    return total


@kernel
def enter_final_state(
    state: State, table: np.ndarray, in_parcel: np.ndarray, duplicated: np.ndarray, stack: np.ndarray
) -> None:
    """Note what is in the final state of each partition, and what one that is down will get.

    `duplicated` is by operator. But for partitions (n_partitions,) whose final state is in a parcel.
    """
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        is_owner = state.partitions[u.group].owner == partition
        if not is_owner and u.retired:
            continue
        if not in_parcel[partition]:
            duplicated[u.operator] += _enter_log(state, table, partition)
        if is_owner and not (u.live or u.taken) and state.options.keeps_outputs:
            _mark_replay(state, table, partition)
            for number in range(u.ticks_stored, u.ticks):
                depth = _push_tick(state, stack, partition, number + 1)
                for k in range(depth):
                    _mark_coming(state, table, state.partitions[np.int64(stack[k, 0])].owner, stack[k, 1])


@kernel
def _enter_log(state: State, table: np.ndarray, partition: int) -> int:
    """Note what is in the final state of a partition, and return how much of it is there more than once."""
    u, twice = state.partitions[partition], 0
    is_owner = state.partitions[u.group].owner == partition
    if not (is_owner or u.live or u.is_sink):
        return 0  # nobody brings back an instance that is down and owns nothing, whatever checkpoint it has
    log, final = _final(state, partition)
    chunk, pos = state.partitions[log].log_first, state.partitions[log].base
    if is_owner and final > 0:
        twice += state.partitions[log].twice
    while chunk != NONE and pos < final:
        for k in range(min(CHUNK, final - pos)):
            tuple_id = state.log[chunk * CHUNK + k]
            if is_twice(state, tuple_id):
                twice += is_owner
            elif not is_owner:  # a place that the group is on its way to
                mark(table, u.group, tuple_id, ELSEWHERE)
            elif not mark(table, u.group, tuple_id, THERE):
                twice += 1
        pos += CHUNK
        chunk = state.log_next[chunk]
    return twice


@kernel
def enter_saved(state: State, table: np.ndarray, partition: int, ids: np.ndarray) -> int:
    """Note what is in the final state of a partition, and return how much of it is there more than once."""
    twice, group = 0, state.partitions[partition].group
    for k in range(ids.shape[0]):
        twice += is_twice(state, ids[k]) or not mark(table, group, ids[k], THERE)
    return twice


@kernel
def enter_carried(state: State, table: np.ndarray, partitions: np.ndarray, ids: np.ndarray) -> None:
    """Note tuples that are on their way, to partitions (n,)."""
    for k in range(ids.shape[0]):
        mark(table, state.partitions[partitions[k]].group, ids[k], COMING)


@kernel
def enter_post_dated(state: State, table: np.ndarray, stack: np.ndarray) -> None:
    """Note outputs whose time has not come, or which wait for their partition."""
    for visit in range(state.visits.shape[0]):
        e = state.visits[visit]
        if waits(state, visit):
            for k in range(_push_outputs(state, stack, 0, e.partition, e.id, e.key, 0)):
                mark(table, np.int64(stack[k, 0]), stack[k, 1], COMING)


@kernel
def enter_since_checkpoint(state: State, table: np.ndarray, stack: np.ndarray, post_dated: np.ndarray) -> None:
    """Note what comes again where the job goes back to a checkpoint of all: if anything is down.

    Sources and timers send it, or it is in-flight data, or was post-dated at the checkpoint. In between nobody keeps
    outputs. What a live operator has sent to the dead is made anew once all have gone back.
    """
    down = False
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        down |= not (u.live or u.taken) and state.partitions[u.group].owner == partition
    for partition in range(state.partitions.shape[0] if down else 0):
        u = state.partitions[partition]
        pair = u.out_pair if u.is_source else NONE
        while pair != NONE:
            p = state.pairs[pair]
            n, left = p.live, p.end_seq - p.live_seq if p.live != NONE else 0
            while left > 0:
                mark(table, state.partitions[p.receiver].group, state.nodes[n].id, AGAIN)
                left -= 1
                if left > 0:
                    n = next_node(state, n)
            pair = p.next_out
        for number in range(u.ticks_stored, u.ticks):
            for k in range(_push_tick(state, stack, partition, number + 1)):
                mark(table, np.int64(stack[k, 0]), stack[k, 1], AGAIN)
        visit = u.in_flight_head
        while visit != NONE:
            mark(table, u.group, state.visits[visit].id, AGAIN)
            visit = state.visits[visit].next
    for one in range(post_dated.shape[0] if down else 0):
        e = post_dated[one]
        for k in range(_push_outputs(state, stack, 0, e.partition, e.id, e.key, 0)):
            mark(table, np.int64(stack[k, 0]), stack[k, 1], AGAIN)


@kernel
def _comes_again(table: np.ndarray, sieve: np.ndarray, stack: np.ndarray, depth: int) -> bool:
    """Return whether something on the stack was made since the checkpoint to which the job goes back."""
    for k in range(depth):
        partition, tuple_id = np.int64(stack[k, 0]), stack[k, 1]
        if may_be_there(sieve, partition, tuple_id):
            e = table[entry(table, partition, tuple_id)]
            if e.partition != NONE and e.flags & AGAIN:
                return True
    return False


@kernel
def _final(state: State, partition: int) -> tuple[int, int]:
    """Return the partition in whose log the final state of this one is, and how many applied tuples are in it."""
    u = state.partitions[partition]
    if u.live or u.taken or u.is_sink:
        return partition, u.applied
    if state.partitions[u.group].owner == partition and u.stored:
        return stored_at(state, partition), u.stored_count
    return partition, restorable(state, partition)


@allocating
def forgotten(state: State) -> np.ndarray:
    """Return how many tuples in the final state of each partition are forgotten (n_partitions,).

    -1 where they are in another instance of the group and the owner has lost its state.
    """
    found = np.zeros(state.partitions.shape[0], np.int64)
    for partition in range(state.partitions.shape[0]):
        if state.partitions[state.partitions[partition].group].owner == partition:
            log, final = _final(state, partition)
            base, twice = state.partitions[log].base, state.partitions[log].twice
            found[state.partitions[partition].group] = min(base, final) - (twice if final > 0 else 0)
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        if (
            state.partitions[u.group].owner != partition
            and not u.retired
            and u.live
            and u.base > 0
            and found[u.group] == 0
        ):
            found[u.group] = -1
    return found


@kernel
def _mark_coming(state: State, table: np.ndarray, partition: int, tuple_id: int) -> None:
    if is_there(state, partition):
        mark(table, state.partitions[partition].group, tuple_id, COMING)


@kernel
def _mark_replay(state: State, table: np.ndarray, partition: int) -> None:
    """Mark what a partition that is down will be sent once more, and will itself send once more."""
    u = state.partitions[partition]
    visit = u.in_flight_head
    while visit != NONE:
        _mark_coming(state, table, partition, state.visits[visit].id)
        visit = state.visits[visit].next
    pair = u.in_pair
    while pair != NONE:
        p = state.pairs[pair]
        n = p.live
        while n != NONE:
            _mark_coming(state, table, partition, state.nodes[n].id)
            n = NONE if n == p.last else next_node(state, n)
        pair = p.next_in
    pair = state.partitions[stored_at(state, partition)].out_pair
    while pair != NONE:
        p = state.pairs[pair]
        if u.is_source:
            n, left = p.live, p.end_seq - p.live_seq if p.live != NONE else 0
        else:
            handed = u.stored_from != NONE
            begin = p.pending_begin if handed else p.stored_begin
            n, left = p.first, (p.pending_end if handed else p.stored_end) - begin if u.stored else 0
            skip = begin - p.first_seq
            while left > 0 and skip > 0:
                n = next_node(state, n)
                skip -= 1
        while left > 0:
            mark(table, state.partitions[p.receiver].group, state.nodes[n].id, COMING)  # what is over has an successor
            left -= 1
            if left > 0:
                n = next_node(state, n)
        pair = p.next_out


@kernel
def enter(
    state: State,
    table: np.ndarray,
    sieve: np.ndarray,
    gone: np.ndarray,
    source: int,
    first: int,
    arrivals: np.ndarray,
    keys: np.ndarray,
    again: np.ndarray,
    done: np.ndarray,
    expected: np.ndarray,
    lost: np.ndarray,
    stack: np.ndarray,
) -> None:
    """Follow the tuples `first` .. of a source through the job; `expected` and `lost` by operator.

    `arrivals` and `keys` (n,) are theirs, `again` (n,) says whether what is missing of them will come again, and `done`
    (n,) whether all that follows from them was processed once. What is forgotten is among the lost here.

    `stack` (depth, 5) has room for all that one source tuple can have open at a time.
    """
    b, floor = state.sources[source], max(state.ids.oldest, state.ids.closed)
    for sequence in range(keys.shape[0]):
        emitted = source_id(b.code, first + sequence)
        depth = _push_outputs(state, stack, 0, b.partition, emitted, keys[sequence], arrivals[sequence])
        comes = again[sequence] or _comes_again(table, sieve, stack, depth)
        _follow(state, table, sieve, gone, floor, comes, done[sequence], depth, expected, lost, stack)


@kernel
def enter_coming(
    state: State,
    table: np.ndarray,
    sieve: np.ndarray,
    gone: np.ndarray,
    coming: np.ndarray,
    expected: np.ndarray,
    lost: np.ndarray,
    stack: np.ndarray,
) -> None:
    """The same for tuples that were under way when this part of the run began."""
    for k in range(coming.shape[0]):
        e = coming[k]
        stack[0, 0] = e.partition
        stack[0, 1] = e.id
        stack[0, 2] = e.key
        stack[0, 3] = state.tasks[max(0, e.origin)].operator
        stack[0, 4] = e.created
        floor = max(state.ids.oldest, state.ids.closed)
        _follow(state, table, sieve, gone, floor, False, False, 1, expected, lost, stack)


@kernel
def enter_ticks(
    state: State,
    table: np.ndarray,
    sieve: np.ndarray,
    gone: np.ndarray,
    partition: int,
    done: int,
    expected: np.ndarray,
    lost: np.ndarray,
    stack: np.ndarray,
) -> None:
    """Do the same for what a timer has emitted behind its first `done` outputs."""
    for number in range(done + 1, state.partitions[partition].ticks + 1):
        depth = _push_tick(state, stack, partition, number)
        again = _comes_again(table, sieve, stack, depth)
        _follow(state, table, sieve, gone, state.ids.oldest, again, False, depth, expected, lost, stack)


@kernel
def _follow(
    state: State,
    table: np.ndarray,
    sieve: np.ndarray,
    gone: np.ndarray,
    floor: int,
    again: bool,
    done: bool,
    depth: int,
    expected: np.ndarray,
    lost: np.ndarray,
    stack: np.ndarray,
) -> None:
    """Follow what is on the stack; ids of tuples that were created before `floor` may be forgotten."""
    beyond = NONE  # what stands higher on the stack follows from what is on its way
    anew = NONE  # what stands higher on the stack follows from what comes again
    while depth > 0:
        if depth <= beyond:
            beyond = NONE
        if depth <= anew:
            anew = NONE
        depth -= 1
        partition, tuple_id, key = np.int64(stack[depth, 0]), stack[depth, 1], np.int64(stack[depth, 2])
        upstream, created = np.int64(stack[depth, 3]), np.int64(stack[depth, 4])
        closed = created < floor
        flags = 0
        if may_be_there(sieve, partition, tuple_id):
            k = entry(table, partition, tuple_id)
            if table[k].partition != NONE:
                flags = table[k].flags
        there = flags & THERE != 0
        comes = again or anew != NONE
        if anew == NONE and flags & AGAIN:
            anew = depth
        operator = state.partitions[partition].operator
        if beyond != NONE:
            # What is forgotten is taken off again as such.
            lost[operator] += closed and not there and gone[partition] > 0
        elif not _is_in_flight(flags, closed, comes, done, gone[partition]):
            expected[operator] += 1
            lost[operator] += not there
        elif closed and not done:
            beyond = depth
        elif not done:
            continue
        op = state.operators[operator]
        if op.edges > 0 and not op.windowed:
            draws = state.draws[operator]
            for index in range(number_of_outputs(state, operator, upstream, tuple_id)):
                child = child_id(tuple_id, op.code, index)
                child_key = output_key(draws, state.cumulative, child, key)
                born = _born(state, operator, created, child)
                depth = _push_outputs(state, stack, depth, partition, child, child_key, born)


@kernel
def _born(state: State, operator: int, created: Any, output: int) -> Any:
    """Return when an output is created of a tuple that was `created` at an instant."""
    if state.operators[operator].postpones:
        return created + service_ns(state.postponements[operator], output)
    return created


@kernel
def _is_in_flight(flags: int, closed: Any, again: bool, done: bool, gone: int) -> bool:
    """Return whether a tuple is on its way to the final state of its group, of which so many are forgotten.

    Of what is `closed` nothing is on its way, but another instance of the group may have it. Then the owner has
    forgotten it, if it has forgotten any. With an acker a tuple may be on its way again although its root is done.
    """
    if flags & THERE:
        return False
    if again:
        return True
    if closed and not (done and flags & COMING):
        return gone < 0 or (gone == 0 and flags != 0)
    return flags != 0


@kernel
def _push_tick(state: State, stack: np.ndarray, partition: int, number: int) -> int:
    """Make the output of a partition's timer at an instant the only item on the stack."""
    u = state.partitions[partition]
    draws = state.draws[u.operator]
    op = state.operators[u.operator]
    made = window_id(op.timer_code, u.index, 0, number)
    key = output_key(draws, state.cumulative, made, 0)
    return _push_outputs(state, stack, 0, partition, made, key, number * op.timer)


@kernel
def _push_outputs(
    state: State, stack: np.ndarray, depth: int, partition: Any, tuple_id: int, key: int, created: int
) -> int:
    u = state.partitions[partition]
    op = state.operators[u.operator]
    for edge in range(op.first_edge, op.first_edge + op.edges):
        k = 0
        while True:
            target = sent_to(state, edge, tuple_id, key, u.index, k)
            if target == NONE:
                break
            sent = tuple_id
            if state.edges[edge].kind == BROADCAST:
                sent = child_id(tuple_id, state.edges[edge].copy_code, k)
            stack[depth, 0] = target
            stack[depth, 1] = sent
            stack[depth, 2] = key
            stack[depth, 3] = u.operator
            stack[depth, 4] = created
            depth += 1
            k += 1
    return depth
