"""The life of a checkpoint: snapshot, writing, the way to its host, and that upstream forgets."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.clock import HOST_RECEIVER, MESSAGE, RECEIVER
from sim.kernel.event_loop.buffers import forget_handed, forget_stored, save_kept, store_kept, trim
from sim.kernel.event_loop.channels import count_message, remote_departure, upload_departure
from sim.kernel.event_loop.codes import (
    AT_REMOTE,
    CHECKPOINTED,
    FIXED,
    NONE,
    PER_KEY,
    PER_TUPLE,
    RECENT,
    ROUND,
    SNAPSHOT,
    STORED,
    TRIM,
    TRIMMED,
)
from sim.kernel.event_loop.events import next_control_number, next_mark, next_serial, push
from sim.kernel.event_loop.fair_links import post
from sim.kernel.event_loop.free_lists import free_transfer, new_transfer, new_visit
from sim.kernel.event_loop.notices import TOLD_STORED, notify
from sim.kernel.event_loop.restoring import save_time, store_time
from sim.kernel.event_loop.tasks import dispatch, put_in_front, ticket
from sim.kernel.event_loop.windows import recent
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

# The round of checkpoints: whose turn is next.
CHECKPOINTING = np.dtype(
    [
        ("interval", "i8"),
        ("round_begin", "i8"),
        ("round_next", "i8"),  # in `round_partitions`
        ("rows", "i8"),
        ("asked", "i4"),  # partition whose checkpoint host Python is to choose, or NONE
        ("answer", "i4"),  # that host, NO_HOST or REMOTE
    ],
    align=True,
)


_NS = 1e9
_REMOTE = -1
_ASK = -3


@kernel
def _rounded(number: int, each: float) -> Any:
    return np.int64(np.rint(number * each))


@kernel
def state_bytes(s: State, partition: int) -> int:
    """Size of the whole state."""
    u = s.partitions[partition]
    op = s.operators[u.operator]
    if op.state_model == PER_KEY:
        return _rounded(u.keys, op.state_entry)
    if op.state_model == PER_TUPLE:
        return _rounded(u.applied, op.state_entry)
    if op.state_model == FIXED:
        return _rounded(1, op.state_entry)
    if s.extended and op.state_model == RECENT:
        return _rounded(recent(s, partition, 0), op.state_entry)
    return 0


@kernel
def changed_bytes(s: State, partition: int) -> int:
    """Size of what changed since the last snapshot."""
    u = s.partitions[partition]
    op = s.operators[u.operator]
    if op.state_model == PER_KEY:
        return _rounded(u.touched, op.state_entry)
    if op.state_model == PER_TUPLE:
        return _rounded(u.applied - u.at_snapshot, op.state_entry)
    if op.state_model == FIXED:
        return _rounded(1, op.state_entry)
    if s.extended and op.state_model == RECENT:
        return _rounded(recent(s, partition, u.at_snapshot), op.state_entry)
    return 0


@kernel
def life(s: State, checkpoint_host: int) -> int:
    """How often the checkpoint host has died."""
    return 0 if checkpoint_host == _REMOTE else s.hosts[checkpoint_host].life


@kernel
def round_goes_on(s: State, ask: bool) -> bool:
    """Take the checkpoints that are due now and set the next; False if Python must choose a checkpoint host first.

    `ask` is False when Python has just answered for the partition whose turn it is.
    """
    if not ask:
        s.checkpointing.asked = NONE
    n = s.round_partitions.shape[0]
    while s.checkpointing.round_begin + s.round_offsets[s.checkpointing.round_next] <= s.clock.now:
        partition = s.partitions[s.round_partitions[s.checkpointing.round_next]].owner
        if s.partitions[partition].live and not s.partitions[partition].saving:
            if s.partitions[partition].is_sink:
                trim_later(s, partition, s.partitions[partition].applied)
            else:
                checkpoint_host = s.checkpointing.answer if not ask else _checkpoint_host(s, partition)
                if checkpoint_host == _ASK:
                    s.checkpointing.asked = partition
                    return False
                if checkpoint_host >= _REMOTE:
                    take(s, partition, checkpoint_host)
        ask = True
        s.checkpointing.round_next += 1
        if s.checkpointing.round_next == n:
            s.checkpointing.round_next = 0
            s.checkpointing.round_begin += s.checkpointing.interval
    due = s.checkpointing.round_begin + s.round_offsets[s.checkpointing.round_next]
    push(s, due, 1, next_control_number(s), ROUND, 0)
    return True


@kernel
def _checkpoint_host(s: State, partition: int) -> int:
    """The planned checkpoint host, or where that cannot the one of the last checkpoint, or Python has to choose."""
    if s.options.remote_store:
        return _REMOTE
    u = s.partitions[partition]
    owner = s.tasks[u.task].host
    current = u.stored_checkpoint_host if u.stored else u.planned
    if u.planned >= 0 and u.planned != owner and s.hosts[u.planned].trusted:
        return u.planned
    if current >= 0 and current != owner and s.hosts[current].trusted:
        return current
    return _ASK


@kernel
def take(s: State, partition: int, checkpoint_host: int) -> None:
    """A snapshot of the partition now, for that checkpoint host."""
    u = s.partitions[partition]
    op = s.operators[u.operator]
    kept = u.kept_rows * op.bytes
    full = s.options.always_full or not u.stored or u.stored_checkpoint_host != checkpoint_host
    whole = state_bytes(s, partition)
    size = whole + kept if full else changed_bytes(s, partition) + u.new_kept_bytes
    u.touched = 0
    u.epoch += 1
    u.at_snapshot = u.applied
    u.new_kept_bytes = 0
    u.saving = 1
    save_kept(s, partition)
    if s.extended:
        save_time(s, partition)
    host = s.tasks[u.task].host
    number = s.checkpointing.rows
    s.checkpointing.rows = number + 1
    row = s.checkpoint_rows[number]
    row.operator = u.operator
    row.partition = u.index
    row.owner = host
    row.checkpoint_host = checkpoint_host
    row.taken = s.clock.now
    row.stored = NONE
    row.bytes = size
    row.full = full
    made = new_transfer(s)
    t = s.transfers[made]
    t.incarnation = u.incarnation
    t.bytes = size
    t.count = u.applied
    t.stored_bytes = whole + kept
    t.life = life(s, checkpoint_host)
    t.row = number
    t.partition = partition
    t.origin = u.task
    t.checkpoint_host = checkpoint_host
    if op.serialise <= 0:
        ship(s, made)
        return
    v = new_visit(s)
    e = s.visits[v]
    e.kind = SNAPSHOT
    e.id = made
    e.created = max(1, np.int64(np.rint(size * _NS / op.serialise)))
    e.ticket = ticket(s, host)
    e.wire = 0
    e.replayed = 0
    put_in_front(s, v, u.task)
    dispatch(s, s.tasks[u.task].cores)


@kernel
def ship(s: State, transfer: int) -> None:
    """What was written goes over the link of the owner."""
    t = s.transfers[transfer]
    count_message(s, CHECKPOINTED, 1, t.bytes)
    kind = AT_REMOTE if t.checkpoint_host == _REMOTE else STORED
    host = s.tasks[t.origin].host
    if s.extended and s.hosts[host].fair:
        post(s, host, t.origin, HOST_RECEIVER + t.checkpoint_host + 1, t.bytes, kind, transfer, 0)
        return
    t.departure = upload_departure(s, host, t.bytes)
    push(s, t.departure + s.options.latency, _rank(s, transfer), next_serial(s), kind, transfer)


@kernel
def _rank(s: State, transfer: int) -> int:
    t = s.transfers[transfer]
    return MESSAGE + (HOST_RECEIVER + t.checkpoint_host + 1) * RECEIVER + t.origin


@kernel
def never_left(s: State, transfer: int) -> bool:
    """Whether its owner died before it had left."""
    t = s.transfers[transfer]
    origin = s.tasks[t.origin]
    return not origin.alive and origin.died <= t.departure


@kernel
def at_remote(s: State, transfer: int) -> None:
    """The remote store writes one checkpoint after the other, in order of arrival."""
    if never_left(s, transfer):
        free_transfer(s, transfer)
        return
    written = remote_departure(s, s.transfers[transfer].bytes)
    push(s, written, _rank(s, transfer), next_serial(s), STORED, transfer)


@kernel
def stored(s: State, transfer: int) -> None:
    """The checkpoint has come to its host."""
    t = s.transfers[transfer]
    partition = t.partition
    u = s.partitions[partition]
    if never_left(s, transfer) or t.incarnation != u.incarnation:
        free_transfer(s, transfer)  # of an incarnation that is over: it would trim what the new state does not have
        return
    u.saving = 0
    host = t.checkpoint_host
    if t.life == life(s, host) and (host == _REMOTE or s.hosts[host].alive):  # else it died meanwhile
        u.stored = 1
        u.stored_checkpoint_host = t.checkpoint_host
        u.stored_count = t.count
        u.stored_bytes = t.stored_bytes
        store_kept(s, partition)
        u.saved = 1
        if s.extended:
            store_time(s, partition)
        if s.extended and u.stored_from != NONE:
            forget_stored(s, u.stored_from)
            forget_handed(s, partition)
        s.checkpoint_rows[t.row].stored = s.clock.now
        trim_later(s, partition, t.count)
        if s.extended and u.announced:
            u.announced = 0
            notify(s, TOLD_STORED + partition)
    free_transfer(s, transfer)


@kernel
def trim_later(s: State, partition: int, count: int) -> None:
    """Tell every upstream task to forget what the stored checkpoint covers."""
    u = s.partitions[partition]
    mark = next_mark(s)
    tasks = 0
    pair = u.in_pair
    while pair != NONE:
        p = s.pairs[pair]
        if p.live != NONE:
            task = s.tasks[s.partitions[p.sender].task]
            if task.mark != mark:
                task.mark = mark
                tasks += 1
        pair = p.next_in
    if tasks == 0:
        return
    count_message(s, TRIMMED, tasks, 0)
    made = new_transfer(s)
    t = s.transfers[made]
    t.partition = partition
    t.count = count
    t.incarnation = u.incarnation
    push(s, s.clock.now + s.options.latency, MESSAGE + u.task * RECEIVER + u.task, next_serial(s), TRIM, made)


@kernel
def trim_now(s: State, transfer: int) -> None:
    """Upstream forgets, in order, what is among the tuples of the checkpoint."""
    t = s.transfers[transfer]
    if t.incarnation == s.partitions[t.partition].incarnation:
        trim_for(s, t.partition, t.count)
    free_transfer(s, transfer)


@kernel
def trim_for(s: State, partition: int, count: int) -> None:
    """Upstream forgets, in order, what is among the first `count` tuples that the partition applied."""
    u = s.partitions[partition]
    pair = u.in_pair
    while pair != NONE:
        if s.pairs[pair].live != NONE:
            u.trimmed = max(u.trimmed, count)
            trim(s, pair, count)
        pair = s.pairs[pair].next_in
