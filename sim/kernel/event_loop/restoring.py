"""Event time in checkpoints: what of a partition is saved beside its log, and how it is rebuilt from that."""

from __future__ import annotations

from sim.kernel.event_loop.codes import NONE, RECENT
from sim.kernel.event_loop.windows import enter, forget_windows, free_note, keep_side, new_note
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


@kernel
def save_time(s: State, partition: int) -> None:
    """A snapshot is taken, which is under way from now on."""
    u = s.partitions[partition]
    u.newest_pending = u.newest
    u.ticks_pending = u.ticks
    u.event_pending = u.event
    for k in range(u.first_channel, u.first_channel + u.channels):
        s.channels[k].pending = s.channels[k].event


@kernel
def store_time(s: State, partition: int) -> None:
    """The checkpoint that was under way is stored."""
    u = s.partitions[partition]
    u.newest_stored = u.newest_pending
    u.ticks_stored = u.ticks_pending
    u.event_stored = u.event_pending
    for k in range(u.first_channel, u.first_channel + u.channels):
        s.channels[k].stored = s.channels[k].pending


@kernel
def restore_time(s: State, partition: int, count: int) -> None:
    """Go back to the stored checkpoint, which has `count` applied tuples, or begin anew."""
    u = s.partitions[partition]
    if s.options.keeps_outputs:  # else what a timer or a window has emitted is never emitted again
        u.ticks = u.ticks_stored if u.stored else 0
        u.event = u.event_stored if u.stored else 0
        u.behind = 0
        for k in range(u.first_channel, u.first_channel + u.channels):
            c = s.channels[k]
            c.event = c.stored if u.stored else 0
            if c.event == u.event:
                u.behind += 1
    if s.operators[u.operator].state_model == RECENT:
        u.newest = u.newest_stored if u.stored else 0
        u.recent_first, u.recent_last = _cut(s, u.recent_first, count)
    if s.operators[u.operator].windowed:
        u.past_first, u.past_last = _cut(s, u.past_first, count)
        forget_windows(s, partition)
        _enter_again(s, partition)


@kernel
def notes_of(s: State, partition: int) -> int:
    """How many tuples of the partition are kept one by one."""
    total = 0
    for first in (s.partitions[partition].past_first, s.partitions[partition].recent_first):
        n = first
        while n != NONE:
            total += 1
            n = s.notes[n].next
    return total


@kernel
def copy_time(s: State, source: int, handed: bool, count: int, partition: int) -> None:
    """Event time of the stored checkpoint of a partition, or with `handed` of what it handed down, is that of another.

    The checkpoint has `count` applied tuples.
    """
    u, o = s.partitions[partition], s.partitions[source]
    u.newest = o.newest_pending if handed else o.newest_stored
    u.event = o.event_pending if handed else o.event_stored
    u.behind = 0
    for k in range(u.channels):
        c, other = s.channels[u.first_channel + k], s.channels[o.first_channel + k]
        c.event = other.pending if handed else other.stored
        if c.event == u.event:
            u.behind += 1
    _cut(s, u.recent_first, 0)
    _cut(s, u.past_first, 0)
    u.recent_first, u.recent_last = _copied(s, o.recent_first, count)
    u.past_first, u.past_last = _copied(s, o.past_first, count)
    if s.operators[u.operator].windowed:
        forget_windows(s, partition)
        _enter_again(s, partition)


@kernel
def _copied(s: State, first: int, count: int) -> tuple[int, int]:
    """A copy of a list of notes with those of the first `count` applied tuples; its first and last one."""
    head, last, n = NONE, NONE, first
    while n != NONE and s.notes[n].pos < count:
        made = new_note(s)
        node, old = s.notes[made], s.notes[n]
        node.id = old.id
        node.created = old.created
        node.key = old.key
        node.pos = old.pos
        node.side = old.side
        node.next = NONE
        if head == NONE:
            head = made
        else:
            s.notes[last].next = made
        last = made
        n = s.notes[n].next
    return head, last


@kernel
def _cut(s: State, first: int, count: int) -> tuple[int, int]:
    """Of a list of notes only those of the first `count` applied tuples remain; its first and last one."""
    last, n = NONE, first
    while n != NONE and s.notes[n].pos < count:
        last = n
        n = s.notes[n].next
    if last == NONE:
        first = NONE
    else:
        s.notes[last].next = NONE
    while n != NONE:
        following = s.notes[n].next
        free_note(s, n)
        n = following
    return first, last


@kernel
def past(s: State, partition: int) -> int:
    """How many tuples the partition keeps from which its windows can be rebuilt."""
    total, n = 0, s.partitions[partition].past_first
    while s.extended and n != NONE:
        total += 1
        n = s.notes[n].next
    return total


@kernel
def note_past(s: State, partition: int, tuple_id: int, created: int, key: int, side: int) -> None:
    """Keep a tuple that was just applied while it is in a window that had not ended at the stored checkpoint."""
    u = s.partitions[partition]
    op = s.operators[u.operator]
    floor = u.event_stored if u.stored else (u.event_pending if u.saving else u.event)
    while u.past_first != NONE:
        gone = u.past_first
        if s.notes[gone].created // op.slide * op.slide + op.length > floor:
            break
        u.past_first = s.notes[gone].next
        free_note(s, gone)
    n = new_note(s)
    node = s.notes[n]
    node.id = tuple_id
    node.created = created
    node.key = key
    node.pos = u.applied - 1
    node.side = side
    node.next = NONE
    if u.past_first == NONE:
        u.past_first = n
    else:
        s.notes[u.past_last].next = n
    u.past_last = n


@kernel
def _enter_again(s: State, partition: int) -> None:
    """The windows that had not ended are what the tuples that are left make of them."""
    u = s.partitions[partition]
    joins = s.operators[u.operator].joins != NONE
    n = u.past_first
    while n != NONE:
        node = s.notes[n]
        if joins:
            keep_side(s, partition, node.id, node.created, node.key, node.side)
        else:
            enter(s, partition, node.created, node.key)
        n = node.next
