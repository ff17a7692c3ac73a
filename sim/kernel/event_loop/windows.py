"""Windows of event time: what a partition knows of the keys in windows that have not ended, and their end.

A *pane* is one window of one partition, in the list of its partition by number; a *cell* is one key in it, in the list
of its pane by first tuple, and found by (pane, key) in `cell_index`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.channels import emit
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.tools.compiling import kernel
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


# Event time: what came from a partition that sends to a partition, now and in its checkpoints; a tuple that is kept,
# with the input of a join that it came over; a window of a partition; a key in a window, with the tuples of both inputs
# of a join.
CHANNEL = np.dtype([("sender", "i8"), ("event", "i8"), ("pending", "i8"), ("stored", "i8")], align=True)

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
def new_note(s: State) -> int:
    """A place for a tuple that is kept."""
    n = s.note_pool.free
    s.note_pool.free = s.notes[n].next
    s.note_pool.left -= 1
    return n


@kernel
def free_note(s: State, n: int) -> None:
    """Nobody needs the tuple any more."""
    s.notes[n].next = s.note_pool.free
    s.note_pool.free = n
    s.note_pool.left += 1


@kernel
def first_open(op: Any, event: int) -> int:
    """The first window that ends after an event time."""
    return max(0, (event - op.length) // op.slide + 1)


@kernel
def window_id(window_code: Any, partition: Any, key: Any, window: Any) -> Any:
    """Id of a key in a window of a partition."""
    return child_id(child_id(window_code, partition, key), window_code, window)


@kernel
def _pane(s: State, partition: int, window: int, before: int) -> int:
    """The pane of a window of the partition, made if it is new; `before` is one in front of its place, or NONE."""
    u = s.partitions[partition]
    found = u.panes if before == NONE else s.panes[before].next
    while found != NONE and s.panes[found].window < window:
        before, found = found, s.panes[found].next
    if found != NONE and s.panes[found].window == window:
        return found
    made = s.pane_pool.free
    s.pane_pool.free = s.panes[made].next
    s.pane_pool.left -= 1
    p = s.panes[made]
    p.window = window
    p.cells = 0
    p.first = p.last = NONE
    p.next = found
    if before == NONE:
        u.panes = made
    else:
        s.panes[before].next = made
    return made


@kernel
def _place(s: State, pane: int, key: int) -> int:
    """Where the cell stands in the index, or would."""
    size = s.cell_index.shape[0]
    k = slot_of(key, pane, size)
    while s.cell_index[k] != NONE:
        c = s.cells[s.cell_index[k]]
        if c.pane == pane and c.key == key:
            return k
        k = (k + 1) & (size - 1)
    return k


@kernel
def _cell(s: State, task: int, pane: int, key: int, end: int) -> int:
    """The cell of a key in a pane that ends then, made if it is new."""
    p, t = s.panes[pane], s.tasks[task]
    place = _place(s, pane, key)
    made = s.cell_index[place]
    if made != NONE:
        return made
    made = s.cell_pool.free
    s.cell_pool.free = s.cells[made].next
    s.cell_pool.left -= 1
    s.cell_index[place] = made
    c = s.cells[made]
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
        s.cells[p.last].next = made
    p.last = made
    p.cells += 1
    t.next_end = min(t.next_end, end)
    return made


@kernel
def enter(s: State, partition: int, created: int, key: int) -> None:
    """The tuple is in all windows around its event time; of each key a window knows the newest."""
    u = s.partitions[partition]
    op = s.operators[u.operator]
    pane = NONE
    for window in range(max(first_open(op, created), first_open(op, u.event)), created // op.slide + 1):
        pane = _pane(s, partition, window, pane)
        c = s.cells[_cell(s, u.task, pane, key, window * op.slide + op.length)]
        c.newest = max(c.newest, created)


@kernel
def matches(s: State, v: int) -> int:
    """How many tuples of the other input a tuple of a join meets."""
    e = s.visits[v]
    op = s.operators[s.partitions[e.partition].operator]
    pane = s.partitions[e.partition].panes
    window = e.created // op.slide
    while pane != NONE and s.panes[pane].window < window:
        pane = s.panes[pane].next
    if pane == NONE or s.panes[pane].window > window:
        return 0
    found = s.cell_index[_place(s, pane, e.key)]
    return 0 if found == NONE else s.cells[found].joined[1 - side_of(s, op, e.origin)]


@kernel
def side_of(s: State, op: Any, origin: int) -> int:
    return 0 if s.tasks[origin].operator == op.joins else 1


@kernel
def pair_id(join_code: Any, one: Any, other: Any) -> Any:
    """Id of two tuples that a join brings together, in either order."""
    return child_id(child_id(min(one, other), join_code, 0), max(one, other), 0)


@kernel
def join(s: State, v: int) -> None:
    """The tuple meets those of the other input that are in its window already, in the order in which they came."""
    e = s.visits[v]
    partition, own, created, key = e.partition, e.id, e.created, e.key
    u = s.partitions[partition]
    op, draws = s.operators[u.operator], s.draws[u.operator]
    side = side_of(s, op, e.origin)
    window = created // op.slide
    if window * op.slide + op.length <= u.event:
        return
    pane = _pane(s, partition, window, NONE)
    c = s.cells[_cell(s, u.task, pane, key, window * op.slide + op.length)]
    n = c.first[1 - side]
    while n != NONE:
        other = s.notes[n]
        result = pair_id(op.window_code, own, other.id)
        newest = max(created, other.created)
        following = other.next
        for index in range(output_count(draws, result)):
            child = child_id(result, op.code, index)
            emit(s, partition, child, newest, output_key(draws, s.cumulative, child, key))
        n = following
    keep_side(s, partition, own, created, key, side)


@kernel
def keep_side(s: State, partition: int, tuple_id: int, created: int, key: int, side: int) -> None:
    """A tuple of a join waits for others of its window, unless that has ended."""
    u = s.partitions[partition]
    op = s.operators[u.operator]
    window = created // op.slide
    end = window * op.slide + op.length
    if end <= u.event:
        return
    c = s.cells[_cell(s, u.task, _pane(s, partition, window, NONE), key, end)]
    made = new_note(s)
    node = s.notes[made]
    node.id = tuple_id
    node.created = created
    node.next = NONE
    if c.first[side] == NONE:
        c.first[side] = made
    else:
        s.notes[c.last[side]].next = made
    c.last[side] = made
    c.joined[side] += 1


@kernel
def _remove(s: State, pane: int, key: int) -> None:
    """Take a cell off the index."""
    size = s.cell_index.shape[0]
    hole = _place(s, pane, key)
    k = (hole + 1) & (size - 1)
    while s.cell_index[k] != NONE:
        c = s.cells[s.cell_index[k]]
        home = slot_of(c.key, c.pane, size)
        if ((k - home) & (size - 1)) >= ((k - hole) & (size - 1)):
            s.cell_index[hole] = s.cell_index[k]
            hole = k
        k = (k + 1) & (size - 1)
    s.cell_index[hole] = NONE


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
def nth_partition(s: State, op: Any, k: int) -> int:
    """Of the partitions that may be of the operator the k-th: the planned ones, then further instances of any."""
    return (
        op.first_partition + k
        if k < op.partitions
        else s.partitions.shape[0] - s.cluster.extra_instances + k - op.partitions
    )


@kernel
def is_there(s: State, partition: int, task: int) -> bool:
    """Whether the partition is at the task, and not over."""
    return s.partitions[partition].task == task and not s.partitions[partition].retired


@kernel
def due(s: State, task: int, event: int) -> int:
    """How many cells are in windows of the task that end with this watermark."""
    t = s.tasks[task]
    op = s.operators[t.operator]
    total = 0
    if t.next_end <= event:
        for k in range(op.partitions + s.cluster.extra_instances):
            partition = nth_partition(s, op, k)
            if is_there(s, partition, task):
                pane = s.partitions[partition].panes
                while pane != NONE and s.panes[pane].window * op.slide + op.length <= event:
                    total += s.panes[pane].cells
                    pane = s.panes[pane].next
    return total


@kernel
def _is_over(s: State, partition: int) -> bool:
    """Whether the first window of the partition ends with its event time."""
    u = s.partitions[partition]
    op = s.operators[u.operator]
    return u.panes != NONE and s.panes[u.panes].window * op.slide + op.length <= u.event


@kernel
def end_windows(s: State, task: int) -> None:
    """Emit for all that ends with the event time of the partitions: by window, key group, and first tuple of a key."""
    t = s.tasks[task]
    op = s.operators[t.operator]
    while True:
        window = NONE
        for k in range(op.partitions + s.cluster.extra_instances):
            partition = nth_partition(s, op, k)
            u = s.partitions[partition]
            if is_there(s, partition, task) and u.live and _is_over(s, partition):
                first = s.panes[u.panes].window
                if window == NONE or first < window:
                    window = first
        if window == NONE:
            break
        for k in range(op.partitions + s.cluster.extra_instances):
            partition = nth_partition(s, op, k)
            u = s.partitions[partition]
            if is_there(s, partition, task) and u.live and _is_over(s, partition):
                pane = u.panes
                if s.panes[pane].window == window:
                    u.panes = s.panes[pane].next
                    _end(s, partition, pane)
    t.next_end = NEVER_ENDS
    for k in range(op.partitions + s.cluster.extra_instances):
        partition = nth_partition(s, op, k)
        u = s.partitions[partition]
        if is_there(s, partition, task) and u.panes != NONE:
            t.next_end = min(t.next_end, s.panes[u.panes].window * op.slide + op.length)


@kernel
def forget_windows(s: State, partition: int) -> None:
    """All that the partition knows of windows is gone, without an output."""
    u = s.partitions[partition]
    while u.panes != NONE:
        pane = u.panes
        u.panes = s.panes[pane].next
        _free_pane(s, pane)


@kernel
def _end(s: State, partition: int, pane: int) -> None:
    """Emit for each key of the pane, where it is not of a join, and forget it."""
    u, p = s.partitions[partition], s.panes[pane]
    op, draws = s.operators[u.operator], s.draws[u.operator]
    number = p.first
    while number != NONE and op.joins == NONE:
        c = s.cells[number]
        key, newest, number = c.key, c.newest, c.next
        result = window_id(op.window_code, u.index, key, p.window)
        for index in range(output_count(draws, result)):
            child = child_id(result, op.code, index)
            emit(s, partition, child, newest, output_key(draws, s.cumulative, child, key))
    _free_pane(s, pane)


@kernel
def _free_pane(s: State, pane: int) -> None:
    p = s.panes[pane]
    number = p.first
    while number != NONE:
        following = s.cells[number].next
        _forget(s, number)
        _remove(s, pane, s.cells[number].key)
        s.cells[number].next = s.cell_pool.free
        s.cell_pool.free = number
        s.cell_pool.left += 1
        number = following
    p.next = s.pane_pool.free
    s.pane_pool.free = pane
    s.pane_pool.left += 1


@kernel
def _forget(s: State, cell: int) -> None:
    """The tuples that a join kept for the window meet no more."""
    c = s.cells[cell]
    for side in range(2):
        n = c.first[side]
        while n != NONE:
            following = s.notes[n].next
            free_note(s, n)
            n = following


@kernel
def remember(s: State, partition: int, created: int) -> None:
    """The state keeps the tuple until one comes that is newer by its length, and what checkpoints need longer."""
    u = s.partitions[partition]
    u.newest = max(u.newest, created)
    after = u.newest
    if s.options.logs_ids and u.stored:
        after = u.newest_stored
    elif s.options.logs_ids and u.saving:
        after = u.newest_pending
    after -= s.operators[u.operator].state_length
    while u.recent_first != NONE and s.notes[u.recent_first].created <= after:
        gone = u.recent_first
        u.recent_first = s.notes[gone].next
        free_note(s, gone)
    n = new_note(s)
    node = s.notes[n]
    node.created = created
    node.pos = u.applied
    node.next = NONE
    if u.recent_first == NONE:
        u.recent_first = n
    else:
        s.notes[u.recent_last].next = n
    u.recent_last = n


@kernel
def recent(s: State, partition: int, first: int) -> int:
    """How many tuples the state keeps, of those applied from number `first` on."""
    u = s.partitions[partition]
    after = u.newest - s.operators[u.operator].state_length
    total = 0
    n = u.recent_first
    while n != NONE:
        if s.notes[n].created > after and s.notes[n].pos >= first:
            total += 1
        n = s.notes[n].next
    return total
