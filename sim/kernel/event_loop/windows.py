"""Windows of event time: what a partition knows of the keys in windows that have not ended, and their end.

A *pane* is one window of one partition, in the list of its partition by number; a *cell* is one key in it, in the list
of its pane by first tuple, and found by (pane, key) in `cell_index`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.births import emits_from
from sim.kernel.event_loop.channels import emit
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.event_loop.heard import event_of
from sim.kernel.event_loop.unfinished import oldest
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import child_id, output_count, output_key
from sim.kernel.tools.pointer import State

# Set-up writes this once.
EVENT_TIME = np.dtype(
    [
        ("most_windows", "i8"),  # that one tuple is in; 0: there are no windows
        ("mark_fan", "i8"),  # most operators that a task sends watermarks to
        ("keeps_tuples", "u1"),  # single ones: joins, states of the last time, windows where a host may fail
    ],
    align=True,
)


# A tuple that is kept, with the input of a join that it came over; a window of a partition; a key in a window, with the
# tuples of both inputs of a join.
NOTE = np.dtype(
    [("id", "u8"), ("created", "i8"), ("key", "i8"), ("pos", "i8"), ("side", "i4"), ("next", "i4")], align=True
)

PANE = np.dtype([("window", "i8"), ("cells", "i8"), ("first", "i4"), ("last", "i4"), ("next", "i4")], align=True)

CELL = np.dtype(
    [
        ("key", "i8"),
        ("newest", "i8"),
        ("joined", "i8", (2,)),
        ("pane", "i4"),
        ("next", "i4"),
        ("first", "i4", (2,)),
        ("last", "i4", (2,)),
    ],
    align=True,
)


NEVER_ENDS = 2**62


@kernel
def new_note(state: State) -> int:
    """Return a place for a tuple that is kept."""
    n = state.note_pool.free
    state.note_pool.free = state.notes[n].next
    state.note_pool.left -= 1
    return n


@kernel
def free_note(state: State, note: int) -> None:
    """Nobody needs the tuple any more."""
    state.notes[note].next = state.note_pool.free
    state.note_pool.free = note
    state.note_pool.left += 1


@kernel
def first_open(op: Any, event: int) -> int:
    """Return the first window that ends after an event time."""
    return max(0, (event - op.length) // op.slide + 1)


@kernel
def window_id(window_code: Any, partition: Any, key: Any, window: Any) -> Any:
    """Return the id of a key in a window of a partition."""
    return child_id(child_id(window_code, partition, key), window_code, window)


@kernel
def pane_of(state: State, partition: int, window: int, before: int) -> int:
    """Return the pane of a window of the partition, made if it is new; `before` is a pane in front of it, or NONE."""
    u = state.partitions[partition]
    found = u.panes if before == NONE else state.panes[before].next
    while found != NONE and state.panes[found].window < window:
        before, found = found, state.panes[found].next
    if found != NONE and state.panes[found].window == window:
        return found
    made = state.pane_pool.free
    state.pane_pool.free = state.panes[made].next
    state.pane_pool.left -= 1
    p = state.panes[made]
    p.window = window
    p.cells = 0
    p.first = p.last = NONE
    p.next = found
    if before == NONE:
        u.panes = made
    else:
        state.panes[before].next = made
    return made


@kernel
def _place(state: State, pane: int, key: int) -> int:
    """Return where the cell stands in the index, or would."""
    size = state.cell_index.shape[0]
    k = slot_of(key, pane, size)
    while state.cell_index[k] != NONE:
        c = state.cells[state.cell_index[k]]
        if c.pane == pane and c.key == key:
            return k
        k = (k + 1) & (size - 1)
    return k


@kernel
def cell_of(state: State, task: int, pane: int, key: int, end: int) -> int:
    """Return the cell of a key in a pane that ends then, made if it is new."""
    p, t = state.panes[pane], state.tasks[task]
    place = _place(state, pane, key)
    made = state.cell_index[place]
    if made != NONE:
        return made
    made = state.cell_pool.free
    state.cell_pool.free = state.cells[made].next
    state.cell_pool.left -= 1
    state.cell_index[place] = made
    c = state.cells[made]
    c.pane = pane
    c.key = key
    c.newest = 0
    c.next = NONE
    for side in range(2):
        c.joined[side] = 0
        c.first[side] = NONE
        c.last[side] = NONE
    if p.last == NONE:
        p.first = made
    else:
        state.cells[p.last].next = made
    p.last = made
    p.cells += 1
    t.next_end = min(t.next_end, end)
    return made


@kernel
def enter(state: State, partition: int, created: int, key: int) -> None:
    """The tuple is in all windows around its event time; of each key a window knows the newest."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    pane = NONE
    first = first_open(op, max(created, event_of(state, partition)))
    for window in range(first, created // op.slide + 1):
        pane = pane_of(state, partition, window, pane)
        c = state.cells[cell_of(state, u.task, pane, key, window * op.slide + op.length)]
        c.newest = max(c.newest, created)


@kernel
def enter_one(state: State, partition: int, window: int, newest: int, key: int) -> None:
    """Enter a key into one window with the newest of its tuples there, unless the window has ended."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    end = window * op.slide + op.length
    if end > event_of(state, partition):
        c = state.cells[cell_of(state, u.task, pane_of(state, partition, window, NONE), key, end)]
        c.newest = max(c.newest, newest)


@kernel
def matches(state: State, visit: int) -> int:
    """Return how many tuples of the other input a tuple of a join meets."""
    e = state.visits[visit]
    op = state.operators[state.partitions[e.partition].operator]
    pane = state.partitions[e.partition].panes
    window = e.created // op.slide
    while pane != NONE and state.panes[pane].window < window:
        pane = state.panes[pane].next
    if pane == NONE or state.panes[pane].window > window:
        return 0
    found = state.cell_index[_place(state, pane, e.key)]
    return 0 if found == NONE else state.cells[found].joined[1 - side_of(state, op, e.origin)]


@kernel
def side_of(state: State, op: Any, origin: int) -> int:
    return 0 if state.tasks[origin].operator == op.joins else 1


@kernel
def pair_id(join_code: Any, one: Any, other: Any) -> Any:
    """Return the id of two tuples that a join brings together, in either order."""
    return child_id(child_id(min(one, other), join_code, 0), max(one, other), 0)


@kernel
def join(state: State, visit: int) -> None:
    """The tuple meets those of the other input that are in its window already, in the order in which they came."""
    e = state.visits[visit]
    partition, own, created, key = e.partition, e.id, e.created, e.key
    u = state.partitions[partition]
    op, draws = state.operators[u.operator], state.draws[u.operator]
    side = side_of(state, op, e.origin)
    window = created // op.slide
    if window * op.slide + op.length <= event_of(state, partition):
        return
    pane = pane_of(state, partition, window, NONE)
    c = state.cells[cell_of(state, u.task, pane, key, window * op.slide + op.length)]
    if state.options.births:
        emits_from(state, state.births[visit])
    n = c.first[1 - side]
    while n != NONE:
        other = state.notes[n]
        result = pair_id(op.window_code, own, other.id)
        newest = max(created, other.created)
        following = other.next
        for index in range(output_count(draws, result)):
            child = child_id(result, op.code, index)
            emit(state, partition, child, newest, output_key(draws, state.cumulative, child, key))
        n = following
    if state.options.births:
        emits_from(state, 0)
    keep_side(state, partition, own, created, key, side)


@kernel
def keep_side(state: State, partition: int, tuple_id: int, created: int, key: int, side: int) -> None:
    """Have a tuple of a join wait for others of its window, unless the window has ended."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    window = created // op.slide
    end = window * op.slide + op.length
    if end <= event_of(state, partition):
        return
    cell = cell_of(state, u.task, pane_of(state, partition, window, NONE), key, end)
    wait_for_others(state, cell, tuple_id, created, side)


@kernel
def wait_for_others(state: State, cell: int, tuple_id: int, created: int, side: int) -> None:
    """Have a tuple that came to a join over that input wait in the cell of its key, behind those that do."""
    c = state.cells[cell]
    made = new_note(state)
    node = state.notes[made]
    node.id = tuple_id
    node.created = created
    node.next = NONE
    if c.first[side] == NONE:
        c.first[side] = made
    else:
        state.notes[c.last[side]].next = made
    c.last[side] = made
    c.joined[side] += 1


@kernel
def _remove(state: State, pane: int, key: int) -> None:
    """Take a cell off the index."""
    size = state.cell_index.shape[0]
    hole = _place(state, pane, key)
    k = (hole + 1) & (size - 1)
    while state.cell_index[k] != NONE:
        c = state.cells[state.cell_index[k]]
        home = slot_of(c.key, c.pane, size)
        if ((k - home) & (size - 1)) >= ((k - hole) & (size - 1)):
            state.cell_index[hole] = state.cell_index[k]
            hole = k
        k = (k + 1) & (size - 1)
    state.cell_index[hole] = NONE


@kernel
def rehash_cells(cells: np.ndarray, index: np.ndarray, old: np.ndarray) -> None:
    """Fill a larger, empty index with what stands in the old one."""
    size = index.shape[0]
    for i in range(old.shape[0]):
        if old[i] != NONE:
            k = slot_of(cells[old[i]].key, cells[old[i]].pane, size)
            while index[k] != NONE:
                k = (k + 1) & (size - 1)
            index[k] = old[i]


@kernel
def due(state: State, task: int, event: int) -> int:
    """Return how many cells are in windows of the task that end with this watermark."""
    t = state.tasks[task]
    op = state.operators[t.operator]
    total = 0
    partition = t.first_here if t.next_end <= event else NONE
    while partition != NONE:
        pane = state.partitions[partition].panes
        while pane != NONE and state.panes[pane].window * op.slide + op.length <= event:
            total += state.panes[pane].cells
            pane = state.panes[pane].next
        partition = state.partitions[partition].next_here
    return total


@kernel
def _is_over(state: State, partition: int) -> bool:
    """Return whether the first window of the partition ends with its event time."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    return u.panes != NONE and state.panes[u.panes].window * op.slide + op.length <= event_of(state, partition)


@kernel
def end_windows(state: State, task: int) -> None:
    """Emit for all that ends with the event time of the partitions: by window, key group, and first tuple of a key."""
    t = state.tasks[task]
    op = state.operators[t.operator]
    while True:
        window = NONE
        partition = t.first_here
        while partition != NONE:
            u = state.partitions[partition]
            if u.live and _is_over(state, partition):
                first = state.panes[u.panes].window
                if window == NONE or first < window:
                    window = first
            partition = u.next_here
        if window == NONE:
            break
        partition = t.first_here
        while partition != NONE:
            u = state.partitions[partition]
            if u.live and _is_over(state, partition):
                pane = u.panes
                if state.panes[pane].window == window:
                    u.panes = state.panes[pane].next
                    _end(state, partition, pane)
            partition = u.next_here
    t.next_end = NEVER_ENDS
    partition = t.first_here
    while partition != NONE:
        u = state.partitions[partition]
        if u.panes != NONE:
            t.next_end = min(t.next_end, state.panes[u.panes].window * op.slide + op.length)
        partition = u.next_here


@kernel
def forget_windows(state: State, partition: int) -> None:
    """All that the partition knows of windows is gone, without an output."""
    u = state.partitions[partition]
    while u.panes != NONE:
        pane = u.panes
        u.panes = state.panes[pane].next
        _free_pane(state, pane)


@kernel
def _end(state: State, partition: int, pane: int) -> None:
    """Emit for each key of the pane, where it is not of a join, and forget it."""
    u, p = state.partitions[partition], state.panes[pane]
    op, draws = state.operators[u.operator], state.draws[u.operator]
    number = p.first
    if state.options.births:
        emits_from(state, state.clock.now)
    while number != NONE and op.joins == NONE:
        c = state.cells[number]
        key, newest, number = c.key, c.newest, c.next
        result = window_id(op.window_code, u.index, key, p.window)
        for index in range(output_count(draws, result)):
            child = child_id(result, op.code, index)
            emit(state, partition, child, newest, output_key(draws, state.cumulative, child, key))
    if state.options.births:
        emits_from(state, 0)
    _free_pane(state, pane)


@kernel
def _free_pane(state: State, pane: int) -> None:
    p = state.panes[pane]
    number = p.first
    while number != NONE:
        following = state.cells[number].next
        _forget(state, number)
        _remove(state, pane, state.cells[number].key)
        state.cells[number].next = state.cell_pool.free
        state.cell_pool.free = number
        state.cell_pool.left += 1
        number = following
    p.next = state.pane_pool.free
    state.pane_pool.free = pane
    state.pane_pool.left += 1


@kernel
def _forget(state: State, cell: int) -> None:
    """The tuples that a join kept for the window meet no more."""
    c = state.cells[cell]
    for side in range(2):
        n = c.first[side]
        while n != NONE:
            following = state.notes[n].next
            free_note(state, n)
            n = following


@kernel
def remember(state: State, partition: int, created: int) -> None:
    """Keep the tuple in the state until one comes that is newer by its length, and longer where checkpoints need it."""
    u = state.partitions[partition]
    u.newest = max(u.newest, created)
    after = u.newest
    if state.options.logs_ids and u.stored:
        after = u.newest_stored
    elif state.options.logs_ids and u.saving:
        after = state.unfinished[oldest(state, partition)].newest
    after -= state.operators[u.operator].state_length
    while u.recent_first != NONE and state.notes[u.recent_first].created <= after:
        gone = u.recent_first
        u.recent_first = state.notes[gone].next
        free_note(state, gone)
    n = new_note(state)
    node = state.notes[n]
    node.created = created
    node.pos = u.applied
    node.next = NONE
    if u.recent_first == NONE:
        u.recent_first = n
    else:
        state.notes[u.recent_last].next = n
    u.recent_last = n


@kernel
def recent(state: State, partition: int, first: int) -> int:
    """Return how many tuples the state keeps, of those applied from number `first` on."""
    u = state.partitions[partition]
    after = u.newest - state.operators[u.operator].state_length
    total = 0
    n = u.recent_first
    while n != NONE:
        if state.notes[n].created > after and state.notes[n].pos >= first:
            total += 1
        n = state.notes[n].next
    return total
