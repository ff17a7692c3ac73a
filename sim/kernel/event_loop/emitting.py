"""Emission of the arrivals of a source, of the outputs of a timer, and of post-dated outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.clock import TIMERS
from sim.kernel.event_loop.channels import emit, send_again, send_output
from sim.kernel.event_loop.codes import BORN, GONE, NONE, OPEN, POST_DATED, TUPLE
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.free_lists import free_visit, new_visit
from sim.kernel.event_loop.frontiers import note_gone
from sim.kernel.event_loop.open_keys import begin_to_wait, end_to_wait, lose_keys
from sim.kernel.event_loop.roots import begin_attempt, end_attempt, is_full, new_root
from sim.kernel.event_loop.rows import record_visit
from sim.kernel.event_loop.rules import holds_from
from sim.kernel.event_loop.windows import window_id
from sim.kernel.tools.cache import allocating, inlined, kernel, noinline
from sim.kernel.tools.draws import output_count, output_key, source_id
from sim.kernel.tools.pointer import State


@inlined
def emit_one(state: State, source: int, sequence: int) -> None:
    """Emit the tuple of this sequence number, which is created now, and all before it have been emitted."""
    b = state.sources[source]
    arrival = state.arrivals[b.offset + sequence - b.base]
    b.emitted = sequence + 1
    record_visit(
        state,
        state.partitions[b.partition].operator,
        state.partitions[b.partition].task,
        arrival.time,
        arrival.time,
        arrival.time,
    )
    send_output(state, b.partition, source_id(b.code, sequence), arrival.time, arrival.key)


@noinline
def emit_arrivals(state: State, source: int, upto: int) -> None:
    """Emit what arrived up to this sequence number and waits, until the task is paused or an output finds no room.

    Or until too many roots are not done. Tuples that are emitted again go first.
    """
    b = state.sources[source]
    partition = b.partition
    task, operator = state.partitions[partition].task, state.partitions[partition].operator
    if state.extended and state.tasks[task].paused_until != 0:
        return
    if state.extended:
        while b.again_head != NONE and state.tasks[task].unsent_head == NONE and not is_full(state, source):
            emit_first_again(state, source)
    for k in range(b.emitted, upto):
        if state.extended and (state.tasks[task].unsent_head != NONE or is_full(state, source)):
            return
        arrival = state.arrivals[b.offset + k - b.base]
        b.emitted = k + 1
        record_visit(state, operator, task, arrival.time, state.clock.now, state.clock.now)
        tuple_id = source_id(b.code, k)
        if state.extended and state.options.acks:
            begin_attempt(state, new_root(state, source, tuple_id, k, arrival.time, arrival.key))
        emit(state, partition, tuple_id, arrival.time, arrival.key)
        if state.extended and state.options.acks:
            end_attempt(state)


@kernel
def number_of_outputs(state: State, operator: int, upstream: Any, tuple_id: int) -> int:
    """Return how many outputs an operator makes of a tuple of the upstream operator."""
    counts = state.operators[operator].counts
    if counts == NONE:
        return output_count(state.draws[operator], tuple_id)
    return output_count(state.input_draws[counts + upstream], tuple_id)


@kernel
def emit_ticks(state: State, partition: int, upto: int) -> None:
    """Emit what a timer owes up to this instant, each created at its own instant, unless the task is paused."""
    u = state.partitions[partition]
    if state.tasks[u.task].paused_until != 0:
        return
    op, draws = state.operators[u.operator], state.draws[u.operator]
    while u.ticks < upto:
        u.ticks += 1
        made = window_id(op.timer_code, u.index, 0, u.ticks)
        if state.frontiers.shape[0] > 0:
            note_gone(state, u.operator, u.ticks * op.timer)
        emit(state, partition, made, u.ticks * op.timer, output_key(draws, state.cumulative, made, 0))


# -- post-dated outputs
#
# Each is a visit with an event of its own, which names no task: where its partition is by then, it leaves. What is due
# while the partition is on its way, or its task stops it, waits in a list of the partition.

# One in a snapshot: made of a tuple with a key, which was the one at `place` among the applied tuples.
SAVED_OUTPUT = np.dtype(
    [("id", "u8"), ("born", "i8"), ("key", "i8"), ("made_of", "i8"), ("place", "i8"), ("partition", "i8")], align=True
)


@noinline
def postpone(state: State, partition: int, tuple_id: int, born: int, key: int, made_of: int) -> None:
    """Emit an output of a tuple with the key `made_of` at the time of its birth, or now if that is over."""
    if born <= state.clock.now:
        emit(state, partition, tuple_id, born, key)
        return
    visit = _post_dated(state, partition, tuple_id, born, key, made_of, state.partitions[partition].applied - 1)
    if _closes_keys(state, partition):
        begin_to_wait(state, partition, made_of)
    push(state, born, TIMERS + partition, state.visits[visit].serial, BORN, visit)


@kernel
def _post_dated(state: State, partition: int, tuple_id: int, born: int, key: int, made_of: int, place: int) -> int:
    """Put an output into the state of a partition; return its visit, which has no event yet."""
    visit = new_visit(state)
    e = state.visits[visit]
    e.kind = POST_DATED
    e.id = tuple_id
    e.created = born
    e.key = key
    e.partition = partition
    e.next = NONE
    e.wire = 0
    e.replayed = 0
    e.ticket = made_of
    e.arrival = place
    e.start = state.partitions[partition].losses
    e.serial = next_serial(state)
    state.partitions[partition].post_dated += 1
    return visit


@kernel
def post_date_again(state: State, partition: int, outputs: np.ndarray) -> None:
    """Put the outputs (n,) of a restored state into it: those that are over, by time, and then the others, as made."""
    for k in range(outputs.shape[0]):
        one = outputs[k]
        visit = _post_dated(state, partition, one.id, one.born, one.key, one.made_of, one.place)
        if one.born <= state.clock.now:
            _note_due(state, visit)
        else:
            push(state, one.born, TIMERS + partition, state.visits[visit].serial, BORN, visit)


@kernel
def _closes_keys(state: State, partition: int) -> bool:
    """Return whether the tuples of a key leave the state with the last post-dated output of the key."""
    return bool(state.operators[state.partitions[partition].operator].state_model == OPEN)


@kernel
def is_due(state: State, visit: int) -> None:
    """Emit an output at its time, unless it is lost, its partition is on its way, or its task stops it."""
    partition = state.visits[visit].partition
    if not waits(state, visit):
        state.visits[visit].kind = GONE
        free_visit(state, visit)
        return
    _note_due(state, visit)
    emit_overdue(state, partition)


@kernel
def waits(state: State, visit: int) -> bool:
    """Return whether a visit is a post-dated output that is in the state of its partition, which was not lost since."""
    e = state.visits[visit]
    return bool(e.kind == POST_DATED and e.start == state.partitions[e.partition].losses)


@allocating
def waiting_of(state: State, wanted: np.ndarray) -> np.ndarray:
    """Return the visits (n,) that are post-dated outputs in the states of the `wanted` partitions (n_partitions,)."""
    many = 0
    for partition in range(state.partitions.shape[0]):
        many += state.partitions[partition].post_dated if wanted[partition] else 0
    found, n = np.empty(many, np.int64), 0
    for visit in range(state.visits.shape[0] if many > 0 else 0):
        if waits(state, visit) and wanted[state.visits[visit].partition]:
            found[n] = visit
            n += 1
    return found[:n]


@kernel
def _note_due(state: State, visit: int) -> None:
    """Put an output behind those of its partition that are due."""
    u = state.partitions[state.visits[visit].partition]
    if u.overdue_head == NONE:
        u.overdue_head = visit
    else:
        state.visits[u.overdue_tail].next = visit
    u.overdue_tail = visit


@kernel
def _is_stopped(state: State, partition: int) -> bool:
    """Return whether the task of the partition is paused, or a rule there holds all that comes for it."""
    task = state.partitions[partition].task
    return state.tasks[task].paused_until != 0 or holds_from(state, partition, task, NONE)


@kernel
def emit_all_overdue(state: State, task: int) -> None:
    """Emit the outputs of a task whose time has come in the meantime, by partition."""
    if state.operators[state.tasks[task].operator].postpones:
        for partition in range(state.partitions.shape[0]):
            if state.partitions[partition].task == task:
                emit_overdue(state, partition)


@kernel
def emit_overdue(state: State, partition: int) -> None:
    """Emit what is due, in order of time, if the partition is live and its task does not stop it."""
    u = state.partitions[partition]
    while u.overdue_head != NONE and u.live and not _is_stopped(state, partition):
        visit = u.overdue_head
        e = state.visits[visit]
        tuple_id, born, key = e.id, e.created, e.key
        u.overdue_head = e.next
        u.post_dated -= 1
        if _closes_keys(state, partition):
            end_to_wait(state, partition, e.ticket)
        e.kind = GONE  # no list and no event has it
        free_visit(state, visit)
        if state.frontiers.shape[0] > 0:
            note_gone(state, u.operator, born)
        emit(state, partition, tuple_id, born, key)


@kernel
def forget_post_dated(state: State, partition: int) -> None:
    """Forget the outputs of a later time of a partition, whose state is lost; their events find them gone."""
    u = state.partitions[partition]
    u.losses += 1
    while u.overdue_head != NONE:
        visit = u.overdue_head
        u.overdue_head = state.visits[visit].next
        state.visits[visit].kind = GONE
        if state.frontiers.shape[0] > 0:
            note_gone(state, u.operator, state.visits[visit].created)
        free_visit(state, visit)
    u.overdue_tail = NONE
    u.post_dated = 0


@kernel
def lose_what_waits(state: State, partition: int) -> None:
    """Forget the post-dated outputs of a partition whose state is lost, and the tuples of its open keys."""
    if state.partitions[partition].post_dated > 0:
        forget_post_dated(state, partition)
    # Where all goes back to a checkpoint, its keys take the place of these, and the table is not searched for each.
    if _closes_keys(state, partition) and not state.options.keeps_outputs:
        lose_keys(state, partition)


@kernel
def overdue(state: State, partition: int) -> int:
    """Return how many outputs of a partition are due and have not left."""
    found, visit = 0, state.partitions[partition].overdue_head
    while visit != NONE:
        found += 1
        visit = state.visits[visit].next
    return found


# -- tuples that a source emits again
#
# They wait in a list of visits at their source, which is empty unless the task is paused or has unsent outputs: so
# `emit_one`, for an arrival at a source with nothing to wait for, need not look at it.


@kernel
def emit_again(state: State, source: int, sequences: np.ndarray, arrivals: np.ndarray) -> None:
    """Emit tuples once more that were emitted at these instants, as soon as the source can; each array is (n,)."""
    b = state.sources[source]
    for k in range(sequences.shape[0]):
        visit = new_visit(state)
        e = state.visits[visit]
        e.kind = TUPLE
        e.id = source_id(b.code, sequences[k])
        e.created = arrivals[k].time
        e.key = arrivals[k].key
        e.wire = 0
        e.replayed = 0
        put_again(state, source, visit)
    emit_arrivals(state, source, b.arrived)


@kernel
def put_again(state: State, source: int, visit: int) -> None:
    """Put a tuple behind those that wait to be emitted again."""
    b = state.sources[source]
    state.visits[visit].next = NONE
    if b.again_tail == NONE:
        b.again_head = visit
    else:
        state.visits[b.again_tail].next = visit
    b.again_tail = visit
    b.again_n += 1


@kernel
def _take_again(state: State, source: int) -> int:
    """Take the first of the tuples that wait to be emitted again off their list."""
    b = state.sources[source]
    visit = b.again_head
    b.again_head = state.visits[visit].next
    b.again_n -= 1
    if b.again_head == NONE:
        b.again_tail = NONE
    return visit


@noinline
def emit_first_again(state: State, source: int) -> None:
    """Emit the first tuple that waits to be emitted again: it is not kept again, and no visit."""
    visit = _take_again(state, source)
    e = state.visits[visit]
    tuple_id, created, key = e.id, e.created, e.key
    free_visit(state, visit)
    if state.options.acks:
        begin_attempt(state, state.anchors[visit].root)
    send_again(state, state.sources[source].partition, tuple_id, created, key)
    if state.options.acks:
        end_attempt(state)


@kernel
def forget_again(state: State, partition: int) -> None:
    """The task of a source died: what it was to emit again is gone."""
    for source in range(state.sources.shape[0]):
        while state.sources[source].partition == partition and state.sources[source].again_head != NONE:
            free_visit(state, _take_again(state, source))
