"""Event time in checkpoints: what of a partition is saved beside its log, and how it is rebuilt from that."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE, RECENT
from sim.kernel.event_loop.heard import event_of, heard_of, least_event_of, part
from sim.kernel.event_loop.unfinished import place_of
from sim.kernel.event_loop.windows import enter, enter_one, forget_windows, free_note, keep_side, new_note
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

# In place of an input: the note is not a tuple, but a key in the window whose number is in place of the id, where
# another kernel has had the run. `created` is that of its newest tuple there.
A_CELL = 2


@kernel
def save_time(state: State, partition: int, slot: int) -> None:
    """A snapshot is taken, which is under way from now on."""
    u, s = state.partitions[partition], state.unfinished[place_of(state, partition, slot)]
    s.newest = u.newest
    s.ticks = u.ticks
    s.event = event_of(state, partition)
    for number in range(u.channels):
        mark = place_of(state, u.first_channel + number, slot)
        state.channel_marks[mark] = heard_of(state, partition, number)


@kernel
def store_time(state: State, partition: int, slot: int) -> None:
    """The checkpoint that was under way is stored."""
    u, s = state.partitions[partition], state.unfinished[place_of(state, partition, slot)]
    u.newest_stored = s.newest
    u.ticks_stored = s.ticks
    u.event_stored = s.event
    for k in range(u.first_channel, u.first_channel + u.channels):
        state.channels[k].stored = state.channel_marks[place_of(state, k, slot)]


@kernel
def restore_time(state: State, partition: int, count: int) -> None:
    """Go back to the stored checkpoint, which has `count` applied tuples, or begin anew."""
    part(state, partition)
    u = state.partitions[partition]
    if state.options.keeps_outputs:  # else what a timer or a window has emitted is never emitted again
        u.ticks = u.ticks_stored  # also if the checkpoint is lost: upstream does not repeat either what it had let go
        u.event = u.event_stored if u.stored else 0
        u.behind = 0
        for k in range(u.first_channel, u.first_channel + u.channels):
            c = state.channels[k]
            c.event = c.stored if u.stored else 0
            if c.event == u.event:
                u.behind += 1
    if state.operators[u.operator].state_model == RECENT:
        u.newest = u.newest_stored if u.stored else 0
        u.recent_first, u.recent_last = _cut(state, u.recent_first, count)
    if state.operators[u.operator].windowed:
        u.past_first, u.past_last = _cut(state, u.past_first, count)
        forget_windows(state, partition)
        _enter_again(state, partition)


@kernel
def notes_of(state: State, partition: int) -> int:
    """Return how many tuples of the partition are kept one by one."""
    u = state.partitions[partition]
    return notes_from(state, u.past_first) + notes_from(state, u.recent_first)


@kernel
def copy_time(state: State, source: int, handed: bool, count: int, partition: int) -> None:
    """Event time of the stored checkpoint of a partition, or with `handed` of what it handed down, is that of another.

    The checkpoint has `count` applied tuples.
    """
    part(state, partition)
    u, o = state.partitions[partition], state.partitions[source]
    s = state.unfinished[place_of(state, source, 0)]
    u.newest = s.newest if handed else o.newest_stored
    u.event = s.event if handed else o.event_stored
    u.behind = 0
    for k in range(u.channels):
        c, other = state.channels[u.first_channel + k], o.first_channel + k
        c.event = state.channel_marks[place_of(state, other, 0)] if handed else state.channels[other].stored
        if c.event == u.event:
            u.behind += 1
    _cut(state, u.recent_first, 0)
    _cut(state, u.past_first, 0)
    u.recent_first, u.recent_last = _copied(state, o.recent_first, count)
    u.past_first, u.past_last = _copied(state, o.past_first, count)
    if state.operators[u.operator].windowed:
        forget_windows(state, partition)
        _enter_again(state, partition)


@kernel
def notes_from(state: State, first: int) -> int:
    """Return how many tuples are in a list of notes."""
    total, n = 0, first
    while n != NONE:
        total += 1
        n = state.notes[n].next
    return total


@kernel
def copy_notes(state: State, first: int, notes: np.ndarray) -> None:
    """Copy a list of notes into an array of that length."""
    n = first
    for k in range(notes.shape[0]):
        notes[k] = state.notes[n]
        n = state.notes[n].next


@kernel
def _noted_again(state: State, notes: np.ndarray) -> tuple[int, int]:
    """Return a list of notes that were copied; its first and last one."""
    head, last = NONE, NONE
    for k in range(notes.shape[0]):
        made = new_note(state)
        state.notes[made] = notes[k]
        state.notes[made].next = NONE
        if head == NONE:
            head = made
        else:
            state.notes[last].next = made
        last = made
    return head, last


@kernel
def replace_time(
    state: State,
    partition: int,
    newest: int,
    event: int,
    ticks: int,
    channels: np.ndarray,
    recent: np.ndarray,
    past: np.ndarray,
) -> None:
    """Event time that was copied from the partition, of which its stored checkpoint is not newer, is its event time.

    The notes are enough for that checkpoint, too: they were kept for it, or for one before it. `channels` (n,) are the
    event times of its channels.
    """
    part(state, partition)
    u = state.partitions[partition]
    if state.options.keeps_outputs:  # as in `restore_time`
        u.ticks = ticks
        u.event = event
        u.behind = 0
        for k in range(channels.shape[0]):
            state.channels[u.first_channel + k].event = channels[k]
            if channels[k] == event:
                u.behind += 1
    if state.operators[u.operator].state_model == RECENT:
        u.newest = newest
        _cut(state, u.recent_first, 0)
        u.recent_first, u.recent_last = _noted_again(state, recent)
    if state.operators[u.operator].windowed:
        _cut(state, u.past_first, 0)
        u.past_first, u.past_last = _noted_again(state, past)
        forget_windows(state, partition)
        _enter_again(state, partition)


@kernel
def _copied(state: State, first: int, count: int) -> tuple[int, int]:
    """Return a copy of a list of notes with those of the first `count` applied tuples; its first and last one."""
    head, last, n = NONE, NONE, first
    while n != NONE and state.notes[n].pos < count:
        made = new_note(state)
        node, old = state.notes[made], state.notes[n]
        node.id = old.id
        node.created = old.created
        node.key = old.key
        node.pos = old.pos
        node.side = old.side
        node.next = NONE
        if head == NONE:
            head = made
        else:
            state.notes[last].next = made
        last = made
        n = state.notes[n].next
    return head, last


@kernel
def _cut(state: State, first: int, count: int) -> tuple[int, int]:
    """Of a list of notes only those of the first `count` applied tuples remain; its first and last one."""
    last, n = NONE, first
    while n != NONE and state.notes[n].pos < count:
        last = n
        n = state.notes[n].next
    if last == NONE:
        first = NONE
    else:
        state.notes[last].next = NONE
    while n != NONE:
        following = state.notes[n].next
        free_note(state, n)
        n = following
    return first, last


@kernel
def past(state: State, partition: int) -> int:
    """Return how many tuples the partition keeps from which its windows can be rebuilt."""
    total, n = 0, state.partitions[partition].past_first
    while state.extended and n != NONE:
        total += 1
        n = state.notes[n].next
    return total


@kernel
def note_past(state: State, partition: int, tuple_id: int, created: int, key: int, side: int) -> None:
    """Keep a tuple that was just applied while it is in a window that had not ended at the stored checkpoint."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    floor = least_event_of(state, partition)
    while u.past_first != NONE:
        gone = u.past_first
        if state.notes[gone].created // op.slide * op.slide + op.length > floor:
            break
        u.past_first = state.notes[gone].next
        free_note(state, gone)
    n = new_note(state)
    node = state.notes[n]
    node.id = tuple_id
    node.created = created
    node.key = key
    node.pos = u.applied - 1
    node.side = side
    node.next = NONE
    if u.past_first == NONE:
        u.past_first = n
    else:
        state.notes[u.past_last].next = n
    u.past_last = n


@kernel
def _enter_again(state: State, partition: int) -> None:
    """The windows that had not ended are what the tuples that are left make of them."""
    u = state.partitions[partition]
    joins = state.operators[u.operator].joins != NONE
    n = u.past_first
    while n != NONE:
        node = state.notes[n]
        if node.side == A_CELL:
            window: Any = np.int64(node.id)
            enter_one(state, partition, window, node.created, node.key)
        elif joins:
            keep_side(state, partition, node.id, node.created, node.key, node.side)
        else:
            enter(state, partition, node.created, node.key)
        n = node.next
