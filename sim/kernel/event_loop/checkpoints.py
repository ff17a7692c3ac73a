"""The life of a checkpoint: snapshot, writing, the way to its host, and that upstream forgets."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.clock import HOST_RECEIVER, MESSAGE, RECEIVER
from sim.kernel.event_loop.buffers import expect_no_more, forget_handed, forget_stored, save_kept, store_kept, trim
from sim.kernel.event_loop.channels import count_message, empty_remote_link, remote_departure, upload_departure
from sim.kernel.event_loop.codes import (
    AT_REMOTE,
    CHECKPOINTED,
    FIXED,
    NONE,
    OPEN,
    PER_KEY,
    PER_TUPLE,
    RECENT,
    ROUND,
    SNAPSHOT,
    STORED,
    TRIM,
    TRIMMED,
    WRITTEN,
)
from sim.kernel.event_loop.events import next_control_number, next_mark, next_serial, push
from sim.kernel.event_loop.fair_links import close_link, post
from sim.kernel.event_loop.free_lists import free_transfer, leave_batch, new_transfer, new_visit
from sim.kernel.event_loop.notices import TOLD_STORED, notify
from sim.kernel.event_loop.restoring import save_time, store_time
from sim.kernel.event_loop.tasks import dispatch, put_in_front, ticket
from sim.kernel.event_loop.unfinished import forget, has_begun, place_of
from sim.kernel.event_loop.windows import recent
from sim.kernel.tools.cache import kernel
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
def state_bytes(state: State, partition: int) -> int:
    """Return the size of the whole state, with outputs of a later time."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    later = u.post_dated * op.bytes
    if op.state_model == PER_KEY:
        return later + _rounded(u.keys, op.state_entry)
    if op.state_model == PER_TUPLE:
        return later + _rounded(u.applied, op.state_entry)
    if op.state_model == FIXED:
        return later + _rounded(1, op.state_entry)
    if state.extended and op.state_model == OPEN:
        return later + _rounded(u.open_tuples, op.state_entry)
    if state.extended and op.state_model == RECENT:
        return later + _rounded(recent(state, partition, 0), op.state_entry)
    return later


@kernel
def changed_bytes(state: State, partition: int) -> int:
    """Return the size of what changed since the last snapshot, with outputs of a later time that are made since."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    later = u.new_post_dated * op.bytes
    if op.state_model == PER_KEY:
        return later + _rounded(u.touched, op.state_entry)
    if op.state_model == PER_TUPLE:
        return later + _rounded(u.applied - u.at_snapshot, op.state_entry)
    if op.state_model == FIXED and op.state_change >= 0.0:
        return later + min(_rounded(1, op.state_entry), _rounded(u.applied - u.at_snapshot, op.state_change))
    if op.state_model == FIXED:
        return later + _rounded(1, op.state_entry)
    if state.extended and op.state_model == RECENT:
        return later + _rounded(recent(state, partition, u.at_snapshot), op.state_entry)
    if state.extended and op.state_model == OPEN:
        return later + _rounded(u.new_open_tuples, op.state_entry)
    return later


@kernel
def life(state: State, checkpoint_host: int) -> int:
    """Return how often the checkpoint host has died."""
    return 0 if checkpoint_host == _REMOTE else state.hosts[checkpoint_host].life


@kernel
def most_checkpoints(state: State, need: int) -> int:
    """Return how many checkpoints and trims an event with so many sendings can begin: a round one of each for all."""
    return min(need, 2 * state.round_partitions.shape[0] + state.options.fan_out + 2)


@kernel
def room_for_checkpoints(state: State, need: int) -> int:
    """Return for how many such events there is room in the transfers and in the rows of checkpoints."""
    left = min(state.transfer_pool.left, state.checkpoint_rows.shape[0] - state.checkpointing.rows)
    return left // most_checkpoints(state, need)


@kernel
def round_goes_on(state: State, ask: bool) -> bool:
    """Take the checkpoints that are due now and set the next; False if Python must choose a checkpoint host first.

    `ask` is False when Python has just answered for the partition whose turn it is.
    """
    if not ask:
        state.checkpointing.asked = NONE
    n = state.round_partitions.shape[0]
    while state.checkpointing.round_begin + state.round_offsets[state.checkpointing.round_next] <= state.clock.now:
        partition = state.partitions[state.round_partitions[state.checkpointing.round_next]].owner
        if state.partitions[partition].live and not state.partitions[partition].saving:
            if state.partitions[partition].is_sink:
                trim_later(state, partition, state.partitions[partition].applied)
            else:
                checkpoint_host = state.checkpointing.answer if not ask else _checkpoint_host(state, partition)
                if checkpoint_host == _ASK:
                    state.checkpointing.asked = partition
                    return False
                if checkpoint_host >= _REMOTE:
                    take(state, partition, checkpoint_host, NONE, 0, 0)
        ask = True
        state.checkpointing.round_next += 1
        if state.checkpointing.round_next == n:
            state.checkpointing.round_next = 0
            state.checkpointing.round_begin += state.checkpointing.interval
    due = state.checkpointing.round_begin + state.round_offsets[state.checkpointing.round_next]
    push(state, due, 1, next_control_number(state), ROUND, 0)
    return True


@kernel
def _checkpoint_host(state: State, partition: int) -> int:
    """Return the planned checkpoint host, else that of the last checkpoint, or _ASK: Python has to choose."""
    if state.options.remote_store:
        return _REMOTE
    u = state.partitions[partition]
    owner = state.tasks[u.task].host
    current = u.stored_checkpoint_host if u.stored else u.planned
    if u.planned >= 0 and u.planned != owner and state.hosts[u.planned].trusted:
        return u.planned
    if current >= 0 and current != owner and state.hosts[current].trusted:
        return current
    return _ASK


@kernel
def can_be_saved(state: State, partition: int, slot: int) -> bool:
    """Return whether control may have a checkpoint of the partition taken."""
    u = state.partitions[partition]
    waits = state.unfinished[place_of(state, partition, slot)].begun or (u.saving and not has_begun(state, partition))
    return not (not u.live or waits or u.is_source or (u.is_sink and not state.options.barriers))


@kernel
def take_each(state: State, partitions: np.ndarray, checkpoint_host: int, slot: int, more: int) -> int:
    """Take a batch of checkpoints, of those of these partitions (n,) that can be saved; return how many."""
    own, batch, taken = NONE, NONE, 0
    for k in range(partitions.shape[0]):
        partition = partitions[k]
        if not can_be_saved(state, partition, slot):
            continue
        if own == NONE:
            # The batch has a member of its own, so that it is not over before all of its checkpoints are begun.
            own, batch = new_transfer(state), new_transfer(state)
            b = state.transfers[batch]
            b.partition = partition
            b.life = 0
            b.count = 1
            t = state.transfers[own]
            t.partition = partition
            t.batch = batch
            t.slot = slot
        state.transfers[batch].count += 1
        taken += 1
        if state.partitions[partition].is_sink:
            note_delivered(state, partition, batch, slot)
        else:
            take(state, partition, checkpoint_host, batch, slot, more)
    if own != NONE:
        _tell_stored(state, own)
        free_transfer(state, own)
    return taken


@kernel
def _tell_stored(state: State, transfer: int) -> None:
    """Tell that a checkpoint is stored, or with the last one of its batch that all are."""
    t = state.transfers[transfer]
    partition = t.partition
    if t.batch != NONE:
        partition = leave_batch(state, transfer)
    if partition != NONE:
        notify(state, TOLD_STORED * (1 + t.slot) + partition)


@kernel
def take(state: State, partition: int, checkpoint_host: int, batch: int, slot: int, more: int) -> None:
    """Take a snapshot of the partition now, for that checkpoint host, in a batch or (NONE) by itself.

    An increment has so many bytes of the state `more` than what changed, if it has so many.
    """
    u, made = state.partitions[partition], new_transfer(state)
    t = state.transfers[made]
    t.incarnation = u.incarnation
    t.count = u.applied
    t.epoch = u.epoch
    t.slot = slot
    t.life = life(state, checkpoint_host)
    t.partition = partition
    t.origin = u.task
    t.checkpoint_host = checkpoint_host
    t.batch = batch
    # The content is that of this instant in any case. The size is fixed before the counters begin anew: what comes from
    # now on belongs to the next checkpoint.
    whole = state_bytes(state, partition)
    full = _set_size(state, made, whole, more)
    _begin_anew(state, made)
    t.row = _new_row(state, made, full)
    _write(state, made, whole)


@kernel
def _holds_outputs(state: State) -> bool:
    """Return whether snapshots hold outputs; with barriers all that was sent before is in those of the receivers."""
    return not (state.extended and (state.options.literal or state.options.barriers))


@kernel
def _set_size(state: State, transfer: int, whole: Any, more: int) -> bool:
    """Set the size of a snapshot of a partition whose state has `whole` bytes; return whether it is full."""
    t = state.transfers[transfer]
    u = state.partitions[t.partition]
    outputs = _holds_outputs(state)
    kept = u.kept_rows * state.operators[u.operator].bytes if outputs else 0
    full = bool(state.options.always_full or not u.stored or u.stored_checkpoint_host != t.checkpoint_host)
    full = full or (whole > 0 and whole <= more)
    if full:
        t.bytes = whole + kept
    else:
        changed = changed_bytes(state, t.partition)
        if more > 0:
            changed = min(whole, changed + more)
        t.bytes = changed + (u.new_kept_bytes if outputs else 0)
    t.stored_bytes = whole + kept
    if state.extended and state.options.compacts:
        s = state.unfinished[place_of(state, t.partition, t.slot)]
        s.unmerged = 0 if full or more > 0 else u.unmerged + t.bytes
        t.stored_bytes += s.unmerged
    return full


@kernel
def _begin_anew(state: State, transfer: int) -> None:
    """Count what changes from now on; with barriers for the next increment only once this snapshot is complete."""
    t = state.transfers[transfer]
    u = state.partitions[t.partition]
    if state.extended and state.options.barriers:
        s = state.unfinished[place_of(state, t.partition, t.slot)]
        s.begun = 1
        s.arrived = NONE
        s.epoch = u.epoch
        s.touched = 0
    else:
        u.touched = 0
        u.at_snapshot = u.applied
    u.epoch += 1
    u.new_kept_bytes = 0
    u.saving = 1
    save_kept(state, t.partition, _holds_outputs(state))
    if state.extended:
        save_time(state, t.partition, t.slot)


@kernel
def _new_row(state: State, transfer: int, full: bool) -> int:
    """Return the number of the row of a snapshot that was just taken."""
    t, number = state.transfers[transfer], state.checkpointing.rows
    u = state.partitions[t.partition]
    state.checkpointing.rows = number + 1
    row = state.checkpoint_rows[number]
    row.operator = u.operator
    row.partition = u.index
    row.owner = state.tasks[u.task].host
    row.checkpoint_host = t.checkpoint_host
    row.taken = state.clock.now
    row.stored = NONE
    row.bytes = t.bytes
    row.full = full
    return number


@kernel
def _write(state: State, transfer: int, whole: int) -> None:
    """Pause the task, whose state has `whole` bytes, and have the snapshot written, by the task or beside it."""
    t = state.transfers[transfer]
    serialise = state.operators[state.partitions[t.partition].operator].serialise
    t.beside = 0
    occupied = max(1, _rounded(1, t.bytes * _NS / serialise)) if serialise > 0 else 0
    if state.extended:
        if state.options.beside:
            t.beside = occupied
            occupied = 0
        occupied += state.options.pause
        if state.options.copy > 0:
            occupied += _rounded(1, whole * _NS / state.options.copy)
    if occupied > 0:
        _occupy(state, transfer, occupied)
    else:
        written(state, transfer)


@kernel
def _occupy(state: State, transfer: int, ns: Any) -> None:
    """Occupy the task with a snapshot for so long, ahead of its queue."""
    task = state.transfers[transfer].origin
    visit = new_visit(state)
    e = state.visits[visit]
    e.kind = SNAPSHOT
    e.id = transfer
    e.created = ns
    e.ticket = ticket(state, state.tasks[task].host)
    e.wire = 0
    e.replayed = 0
    put_in_front(state, visit, task)
    dispatch(state, state.tasks[task].cores)


@kernel
def written(state: State, transfer: int) -> None:
    """The task goes on: send the snapshot, or let it be written beside the task."""
    t = state.transfers[transfer]
    if state.extended and t.beside > 0:
        rank = MESSAGE + t.origin * RECEIVER + t.origin
        push(state, state.clock.now + t.beside, rank, next_serial(state), WRITTEN, transfer)
    else:
        ship(state, transfer)


@kernel
def written_beside(state: State, transfer: int) -> None:
    """Send a snapshot that was written beside its task, unless that has died."""
    if state.tasks[state.transfers[transfer].origin].alive:
        ship(state, transfer)
    else:
        free_transfer(state, transfer)


@kernel
def ship(state: State, transfer: int) -> None:
    """Send a snapshot that was written over the link of its owner."""
    t = state.transfers[transfer]
    count_message(state, CHECKPOINTED, 1, t.bytes)
    kind = AT_REMOTE if t.checkpoint_host == _REMOTE else STORED
    host = state.tasks[t.origin].host
    if state.extended and state.hosts[host].fair:
        post(state, host, t.origin, HOST_RECEIVER + t.checkpoint_host + 1, t.bytes, kind, transfer, 0)
        return
    t.departure = upload_departure(state, host, t.bytes)
    push(state, t.departure + state.options.latency, _rank(state, transfer), next_serial(state), kind, transfer)


@kernel
def _rank(state: State, transfer: int) -> int:
    t = state.transfers[transfer]
    return MESSAGE + (HOST_RECEIVER + t.checkpoint_host + 1) * RECEIVER + t.origin


@kernel
def abort(state: State, partitions: np.ndarray, slot: int) -> None:
    """Forget the checkpoints of these partitions (n,) that do not count yet, or those in a slot.

    Without others the link is free.
    """
    for k in range(partitions.shape[0]):
        partition = partitions[k]
        u = state.partitions[partition]
        if slot == NONE:
            u.incarnation += 1
            u.saving = 0
            for one in range(state.options.slots):
                forget(state, place_of(state, partition, one))
        elif forget(state, place_of(state, partition, slot)) and not u.is_sink:
            u.saving = has_begun(state, partition)
    for partition in range(state.partitions.shape[0]):
        if state.partitions[partition].saving:
            return
    empty_remote_link(state)
    if state.options.shares_uploads:
        close_link(state, state.hosts.shape[0] - 1)


@kernel
def never_left(state: State, transfer: int) -> bool:
    """Return whether its owner died before it had left."""
    t = state.transfers[transfer]
    origin = state.tasks[t.origin]
    return not origin.alive and origin.died <= t.departure


@kernel
def _is_void(state: State, transfer: int) -> bool:
    """Return whether it is of an incarnation that is over, or of a checkpoint of the job that was given up."""
    t = state.transfers[transfer]
    if t.incarnation != state.partitions[t.partition].incarnation:
        return True
    if not (state.extended and state.options.barriers) or t.row == NONE:
        return False
    s = state.unfinished[place_of(state, t.partition, t.slot)]
    return not s.begun or s.epoch != t.epoch


@kernel
def at_remote(state: State, transfer: int) -> None:
    """The remote store writes one checkpoint after the other, or those of all tasks with equal shares."""
    aborted = state.options.aborts and _is_void(state, transfer)
    if aborted or never_left(state, transfer):
        free_transfer(state, transfer)
        return
    t = state.transfers[transfer]
    if state.extended and state.options.shares_uploads:
        store = state.hosts.shape[0] - 1
        post(state, store, t.origin, HOST_RECEIVER + store + 1, t.bytes, STORED, transfer, 0)
        return
    written = remote_departure(state, t.bytes)
    push(state, written, _rank(state, transfer), next_serial(state), STORED, transfer)


@kernel
def stored(state: State, transfer: int) -> None:
    """The checkpoint has come to its host."""
    t = state.transfers[transfer]
    partition = t.partition
    u = state.partitions[partition]
    if never_left(state, transfer) or _is_void(state, transfer):
        free_transfer(state, transfer)  # of an incarnation that is over it would trim what the new state does not have
        return
    if state.extended and state.options.barriers and t.row == NONE:  # in-flight data
        free_transfer(state, transfer)
        notify(state, TOLD_STORED + partition)
        return
    if state.extended and state.options.barriers:
        state.unfinished[place_of(state, partition, t.slot)].arrived = transfer
        state.checkpoint_rows[t.row].stored = state.clock.now
        _tell_stored(state, transfer)
        return
    # Stored or lost, it is not under way any more, and the next turn of the round takes another.
    u.saving = 0
    host = t.checkpoint_host
    if t.life == life(state, host) and (host == _REMOTE or state.hosts[host].alive):  # else it died meanwhile
        _counts(state, transfer)
        if state.extended and u.stored_from != NONE:
            forget_stored(state, u.stored_from)
            forget_handed(state, partition)
        state.checkpoint_rows[t.row].stored = state.clock.now
        if not (state.extended and state.options.trims):  # else the next round of acks says what is saved
            trim_later(state, partition, t.count)
        if state.extended and u.announced:
            u.announced = 0
            notify(state, TOLD_STORED + partition)
    free_transfer(state, transfer)


@kernel
def _counts(state: State, transfer: int) -> None:
    """The checkpoint is the one to which its partition goes back."""
    t = state.transfers[transfer]
    u = state.partitions[t.partition]
    u.stored = 1
    u.stored_checkpoint_host = t.checkpoint_host
    u.stored_count = t.count
    u.stored_bytes = t.stored_bytes
    u.stored_incarnation = t.incarnation
    store_kept(state, t.partition)
    u.saved = 1
    if state.extended:
        store_time(state, t.partition, t.slot)


@kernel
def note_delivered(state: State, partition: int, batch: int, slot: int) -> None:
    """With barriers: the checkpoint of a sink, which has nothing to store, is what it has delivered."""
    u = state.partitions[partition]
    made = new_transfer(state)
    t = state.transfers[made]
    t.partition = partition
    t.incarnation = u.incarnation
    t.count = u.applied
    t.row = NONE
    t.batch = batch
    t.slot = slot
    s = state.unfinished[place_of(state, partition, slot)]
    s.begun = 1
    s.arrived = made
    s.epoch = u.epoch
    u.epoch += 1
    expect_no_more(state, partition)
    _tell_stored(state, made)


@kernel
def store_in_flight(state: State, partition: int) -> int:
    """Send the in-flight data that was recorded at the partition's task to the store; return its size."""
    u = state.partitions[partition]
    size = state.tasks[u.task].overtaken
    state.tasks[u.task].overtaken = 0
    if size > 0:
        made = new_transfer(state)
        t = state.transfers[made]
        t.incarnation = u.incarnation
        t.bytes = size
        t.life = 0
        t.row = t.batch = NONE
        t.partition = partition
        t.origin = u.task
        t.checkpoint_host = _REMOTE
        ship(state, made)
    return size


@kernel
def complete(state: State, partitions: np.ndarray, slot: int) -> None:
    """The checkpoints of these partitions (n,) that have come to the store count; those in other slots are newer."""
    for k in range(partitions.shape[0]):
        u = state.partitions[partitions[k]]
        place = place_of(state, partitions[k], slot)
        s = state.unfinished[place]
        if not s.begun or s.arrived == NONE:
            continue
        count, has_row = state.transfers[s.arrived].count, state.transfers[s.arrived].row != NONE
        if has_row:
            u.touched = s.touched
            u.based = s.epoch
            u.at_snapshot = count
            u.unmerged = s.unmerged
            _counts(state, s.arrived)
        else:
            u.stored_count = count  # delivered for good, though not stored
        forget(state, place)
        if has_row:
            u.saving = has_begun(state, partitions[k])
        if not state.options.unaligned:  # else sources know their positions
            trim_later(state, partitions[k], count)


@kernel
def trim_later(state: State, partition: int, count: int) -> None:
    """Tell every upstream task to forget what the stored checkpoint covers."""
    u = state.partitions[partition]
    mark = next_mark(state)
    tasks = 0
    pair = u.in_pair
    while pair != NONE:
        p = state.pairs[pair]
        if p.live != NONE:
            task = state.tasks[state.partitions[p.sender].task]
            if task.mark != mark:
                task.mark = mark
                tasks += 1
        pair = p.next_in
    if tasks == 0:
        return
    count_message(state, TRIMMED, tasks, 0)
    made = new_transfer(state)
    t = state.transfers[made]
    t.partition = partition
    t.count = count
    t.incarnation = u.incarnation
    push(
        state,
        state.clock.now + state.options.latency,
        MESSAGE + u.task * RECEIVER + u.task,
        next_serial(state),
        TRIM,
        made,
    )


@kernel
def trim_now(state: State, transfer: int) -> None:
    """Upstream forgets, in order, what is among the tuples of the checkpoint."""
    t = state.transfers[transfer]
    if t.incarnation == state.partitions[t.partition].incarnation:
        trim_for(state, t.partition, t.count)
    free_transfer(state, transfer)


@kernel
def trim_for(state: State, partition: int, count: int) -> None:
    """Upstream forgets, in order, what is among the first `count` tuples that the partition applied."""
    u = state.partitions[partition]
    pair = u.in_pair
    while pair != NONE:
        if state.pairs[pair].live != NONE:
            u.trimmed = max(u.trimmed, count)
            trim(state, pair, count)
        pair = state.pairs[pair].next_in
