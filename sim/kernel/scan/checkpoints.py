"""Checkpoints in the scan: a span is done as if there were none, then come those of the span, in order of time.

The same life as in `sim.kernel.event_loop.checkpoints`: a snapshot at its instant, stored at its host one latency
later or when the remote store has written it, and one more latency later upstream forgets what it covers. All that
changes is what is kept, and so the size of snapshots. Where writing a snapshot takes time that must be known at its
instant: a span ends there, and the next begins with the snapshot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.clock import HOST_RECEIVER, MESSAGE, RECEIVER, SERVICE
from sim.kernel.event_loop.codes import (
    AT_REMOTE,
    CHECKPOINTED,
    END,
    FIXED,
    NONE,
    PER_KEY,
    PER_TUPLE,
    STORED,
    TRIM,
    TRIMMED,
)
from sim.kernel.scan.entities import LOG_CHUNK, earliest, occupy
from sim.kernel.scan.heap import put, remove_first
from sim.kernel.scan.kept import FAR, free_log, log_piece
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

# The round of checkpoints.
ROUND = np.dtype(
    [
        ("interval", "i8"),
        ("begin", "i8"),
        ("next", "i8"),  # whose turn is next, in `round_partitions`
        ("mark", "i8"),  # passes over partitions or tasks so far: what was met in this one has it in its own mark
        ("written_at", "i8"),  # the last snapshot that took time
        ("written_by", "i8"),
        ("cuts", "u1"),  # some snapshots take time
    ],
    align=True,
)

REMOTE_LINK = np.dtype([("rate", "f8"), ("free", "i8")])  # of the remote store; bytes per second, 0: no bound

SAVED_ROWS = np.dtype([("checkpoints", "i8"), ("messages", "i8")])


_NS = 1e9
_REMOTE, _NO_HOST = -1, -2  # as checkpoint hosts
_SECOND = 1_000_000_000


@kernel
def checkpoints_fit(state: State) -> bool:
    """Return whether there is room for all checkpoints of a span: one of each partition at the most."""
    partitions = state.saved.shape[0]
    if (
        state.happenings.shape[0] - state.agenda.count < partitions + 2
        or state.checkpoint_rows.shape[0] - state.saved_rows.checkpoints < partitions
    ):
        return False
    return state.count_rows.shape[0] - state.saved_rows.messages >= 4 * state.messages.shape[0] + 8


@kernel
def process_checkpoints(state: State) -> None:
    """Take the checkpoints of the span, and store and forget what is due before its end."""
    n = state.round_partitions.shape[0]
    while True:
        due = state.agenda.count > 0 and state.happenings[0].time < state.span.end
        now = state.happenings[0].time if due else state.span.end
        if n > 0:
            at = state.round.begin + state.round_offsets[state.round.next]
            if at < state.span.end and at <= now:  # control comes before messages
                _next_turn(state, at)
                continue
        if not due:
            return
        kind = state.happenings[0].kind
        if kind == TRIM:
            _forget(state)
        elif kind == STORED:
            _stored(state)
        elif kind == AT_REMOTE:
            _at_remote(state)
        else:
            _written(state)


@kernel
def take_turns(state: State) -> None:
    """Where snapshots take time: those that are due at the begin of a span."""
    if state.round.cuts:
        while state.round.begin + state.round_offsets[state.round.next] == state.span.begin:
            _next_turn(state, state.span.begin)


@kernel
def next_cut(state: State) -> int:
    """Return when the next snapshot that takes time is due."""
    n = state.round_partitions.shape[0]
    if state.round.cuts:
        for k in range(state.round.next, state.round.next + n):
            partition = state.round_partitions[k if k < n else k - n]
            if (
                state.operators[state.partition_operator[partition]].serialise > 0
                and not state.saved[partition].is_sink
            ):
                return state.round.begin + (
                    state.round_offsets[k] if k < n else state.round_offsets[k - n] + state.round.interval
                )
    return FAR


@kernel
def _next_turn(state: State, at: int) -> None:
    """The partition whose turn it is in the round, and then that of the next."""
    _turn_of(state, state.round_partitions[state.round.next], at)
    state.round.next += 1
    if state.round.next == state.round_partitions.shape[0]:
        state.round.next = 0
        state.round.begin += state.round.interval


@kernel
def _turn_of(state: State, partition: int, at: int) -> None:
    """It is the partition's turn in the round; what it did from then on counts for the next one."""
    u = state.saved[partition]
    count = u.applied - u.applied_after
    if u.is_sink:
        _tell_upstream(state, partition, at if u.pool else count, at)
    elif not u.on_its_way and u.checkpoint_host != _NO_HOST:
        _take(state, partition, count, at)
        u.touched = u.touched_after
        u.low = u.epoch + 1
        u.applied_then = count
        u.sent_then = u.sent - u.sent_after
    else:
        u.touched += u.touched_more
    u.applied_after = 0
    u.sent_after = 0
    u.keys_after = 0
    u.touched_more = 0
    u.touched_after = 0
    u.epoch += 1
    u.instant += state.round.interval


@kernel
def _rounded(number: int, each: float) -> Any:
    return np.int64(np.rint(number * each))


@kernel
def _state_bytes(state: State, partition: int, keys: int, tuples: int) -> int:
    """Return the size of a state of so many keys, or tuples."""
    op = state.operators[state.partition_operator[partition]]
    if op.state_model == PER_KEY:
        return _rounded(keys, op.state_entry)
    if op.state_model == PER_TUPLE:
        return _rounded(tuples, op.state_entry)
    if op.state_model == FIXED:
        return _rounded(1, op.state_entry)
    return 0


@kernel
def _changed_bytes(state: State, partition: int, touched: int, tuples: int) -> int:
    """Return the size of what so many keys, or tuples, have changed."""
    whole = _state_bytes(state, partition, touched, tuples)
    op = state.operators[state.partition_operator[partition]]
    if op.state_model == FIXED and op.state_change >= 0.0:
        return min(whole, _rounded(tuples, op.state_change))
    return whole


@kernel
def _take(state: State, partition: int, count: int, at: int) -> None:
    """A snapshot of the partition, which is work at its task if writing it takes time."""
    u = state.saved[partition]
    size = state.operators[state.partition_operator[partition]].bytes if state.options.keeps_outputs else 0
    sent = u.sent - u.sent_after
    full = state.options.always_full or not u.stored
    whole = _state_bytes(state, partition, u.keys - u.keys_after, count) + (sent - u.forgotten) * size
    changed = _changed_bytes(state, partition, u.touched, count - u.applied_then) + (sent - u.sent_then) * size
    u.on_its_way = 1
    task = state.partition_task[partition]
    row = state.checkpoint_rows[state.saved_rows.checkpoints]
    row.operator = state.partition_operator[partition]
    row.partition = state.partition_index[partition]
    row.owner = state.task_host[task]
    row.checkpoint_host = u.checkpoint_host
    row.taken = at
    row.stored = NONE
    row.bytes = whole if full else changed
    row.full = full
    number = state.saved_rows.checkpoints
    state.saved_rows.checkpoints = number + 1
    rate = state.operators[row.operator].serialise
    if u.pool:
        count = at
    if rate > 0:
        end = max(at, earliest(state, task)) + _writing_ns(row.bytes, rate)
        occupy(state, task, end)
        put(state, end, SERVICE + task, END, partition, count, whole, number)
    else:
        _ship(state, at, partition, count, whole, number)


@kernel
def _writing_ns(size: int, rate: float) -> Any:
    """Return how long it takes to write a snapshot."""
    return max(1, np.int64(np.rint(size * _NS / rate)))


@kernel
def _written(state: State) -> None:
    """A snapshot was written, which took its task a while."""
    e = state.happenings[0]
    row = state.checkpoint_rows[e.row]
    state.servers[state.partition_task[e.partition]].busy += _writing_ns(
        row.bytes, state.operators[row.operator].serialise
    )
    at, partition, count, whole, number = e.time, e.partition, e.count, e.bytes, e.row
    state.round.written_at = at
    state.round.written_by = state.partition_task[partition]
    remove_first(state)
    _ship(state, at, partition, count, whole, number)


@kernel
def _ship(state: State, at: int, partition: Any, count: int, whole: int, number: int) -> None:
    """A checkpoint goes on its way."""
    _count(state, CHECKPOINTED, at, 1, state.checkpoint_rows[number].bytes)
    checkpoint_host = state.saved[partition].checkpoint_host
    kind = AT_REMOTE if checkpoint_host == _REMOTE else STORED
    rank = MESSAGE + (HOST_RECEIVER + checkpoint_host + 1) * RECEIVER + state.partition_task[partition]
    put(state, at + state.options.latency, rank, kind, partition, count, whole, number)


@kernel
def _at_remote(state: State) -> None:
    """The remote store writes one checkpoint after the other, in order of arrival."""
    e = state.happenings[0]
    begin = max(e.time, state.remote_link.free)
    if state.remote_link.rate > 0:
        begin += np.int64(np.rint(state.checkpoint_rows[e.row].bytes * _NS / state.remote_link.rate))
    state.remote_link.free = begin
    rank, partition, count, whole, row = e.rank, e.partition, e.count, e.bytes, e.row
    remove_first(state)
    put(state, begin, rank, STORED, partition, count, whole, row)


@kernel
def _stored(state: State) -> None:
    """A checkpoint has come to its host."""
    e = state.happenings[0]
    u = state.saved[e.partition]
    u.on_its_way = 0
    u.stored = 1
    state.checkpoint_rows[e.row].stored = e.time
    at, partition, count = e.time, e.partition, e.count
    remove_first(state)
    _tell_upstream(state, partition, count, at)


@kernel
def _tell_upstream(state: State, partition: Any, count: int, at: int) -> None:
    """Every upstream task that keeps something for the partition is told to forget what the checkpoint covers.

    Who that is shows when the message arrives: then all has come to the partition that was sent before it was.
    """
    task = state.partition_task[partition]
    if state.options.keeps_outputs:
        # Without a latency it may be stored at the instant at which it was written: after services of earlier tasks.
        sent_too = state.round.written_by if state.round.written_at == at else 0
        put(
            state,
            at + state.options.latency,
            MESSAGE + task * RECEIVER + task,
            TRIM,
            partition,
            count,
            state.saved[partition].trimmed,
            sent_too,
        )
        state.saved[partition].notes += 1


@kernel
def _forget(state: State) -> None:
    """Upstream forgets what a checkpoint covers."""
    e = state.happenings[0]
    u = state.saved[e.partition]
    u.notes -= 1
    sent = e.time - state.options.latency
    tasks = 0 if e.counted else _keepers(state, e.partition, e.bytes, sent, e.row)
    if tasks > 0:
        _count(state, TRIMMED, sent, tasks, 0)
    if u.pool:
        _forget_one_by_one(state, e.partition, e.count, e.time)
    else:
        _forget_first(state, e.partition, e.count)
    free_log(state, e.partition, u.trimmed if u.notes == 0 else e.bytes)
    remove_first(state)


@kernel
def _forget_first(state: State, partition: Any, count: int) -> None:
    """Upstream forgets what the partition applied first: what came first."""
    u = state.saved[partition]
    n = u.trimmed
    piece = log_piece(state, partition, n)
    while n < count:
        state.saved[state.log[piece * LOG_CHUNK + n % LOG_CHUNK].sender].forgotten += 1
        n += 1
        if n % LOG_CHUNK == 0:
            piece = state.log_next[piece]
    u.trimmed = n


@kernel
def _forget_one_by_one(state: State, partition: Any, before: int, now: int) -> None:
    """Each sender to a pool forgets, in order, what was applied before an instant, up to the first that was not."""
    u = state.saved[partition]
    state.round.mark += 1
    n, first = u.trimmed, u.trimmed
    piece = log_piece(state, partition, n)
    while n < u.started:
        place = piece * LOG_CHUNK + n % LOG_CHUNK
        e, served = state.log[place], state.log_served[place]
        if e.at >= before:
            break
        if served.forgotten == FAR:
            if served.end < before and state.partition_marks[e.sender] != state.round.mark:
                served.forgotten = now
                state.saved[e.sender].forgotten += 1
            else:
                state.partition_marks[e.sender] = state.round.mark
        if first == n and served.forgotten != FAR:
            first = n + 1
        n += 1
        if n % LOG_CHUNK == 0:
            piece = state.log_next[piece]
    u.trimmed = first


@kernel
def _keepers(state: State, partition: Any, first: int, before: int, too: int) -> int:
    """Return how many tasks had sent, before an instant, a tuple that the partition got as number `first` or later.

    All of these have arrived. Tasks below `too` also at that instant.
    """
    u = state.saved[partition]
    most = state.saving[state.partition_operator[partition]].senders
    state.round.mark += 1
    found = 0
    n = first
    piece = log_piece(state, partition, n)
    while n < u.arrived and found < most:
        place = piece * LOG_CHUNK + n % LOG_CHUNK
        e = state.log[place]
        if e.at >= before + state.options.latency + (too > 0):
            break
        if not (u.pool and state.log_served[place].forgotten < before):
            found += _is_new(state, partition, e.sender, e.at, before, too)
        n += 1
        if n % LOG_CHUNK == 0:
            piece = state.log_next[piece]
    return found


@kernel
def _is_new(state: State, partition: Any, sender: Any, at: int, before: int, too: int) -> Any:
    """Mark the task of a tuple sent before an instant, or at it by a task below `too`; 1 if it was not marked yet."""
    task = state.partition_task[sender]
    local = state.task_host[task] == state.task_host[state.partition_task[partition]]
    sent = at - (0 if local else state.options.latency)
    if state.task_marks[task] == state.round.mark or sent >= before + (task < too):
        return 0
    state.task_marks[task] = state.round.mark
    return 1


@kernel
def notes_under_way(state: State, rows: np.ndarray) -> int:
    """Return rows (instant, tasks) of the notes to upstream that were sent and have not arrived; how many.

    As in `_forget`, but what was sent may be under way, too.
    """
    n = 0
    for k in range(state.agenda.count):
        e = state.happenings[k]
        if e.kind != TRIM or e.counted:
            continue
        sent = e.time - state.options.latency
        tasks = _keepers(state, e.partition, e.bytes, sent, e.row)
        box = state.boxes[state.partition_operator[e.partition]]
        for place in range(box.first, box.first + box.n):
            coming = state.box[place]
            if coming.partition == e.partition:
                tasks += _is_new(state, e.partition, coming.origin, coming.at, sent, e.row)
        if tasks > 0:
            rows[n, 0] = sent
            rows[n, 1] = tasks
            n += 1
    return n


@kernel
def _count(state: State, kind: int, at: int, number: int, size: int) -> None:
    """So many messages of a kind were sent at an instant; those of a kind come in order of time."""
    second = at - at % _SECOND
    n = state.saved_rows.messages
    for k in range(max(0, n - 2), n):  # the last rows may be of one kind each
        row = state.count_rows[k]
        if row.kind == kind and row.second == second:
            row.count += number
            row.bytes += size
            return
    row = state.count_rows[n]
    row.second = second
    row.kind = kind
    row.count = number
    row.bytes = size
    state.saved_rows.messages = n + 1
