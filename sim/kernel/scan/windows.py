"""Windows of event time in the scan: what each partition knows of the keys in those that have not ended, and their end.

A *pane* is one window of one partition, in the list of its partition by number. It has a *block* of cells, one for each
key in the order of their first tuples, and a table of twice as many places by which a cell is found. Blocks have powers
of two of cells; a pane that needs more gets the next larger one. A window that ends gives everything back at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.event_loop.windows import pair_id, window_id
from sim.kernel.scan.entities import SIDE
from sim.kernel.scan.send import count_second, send_over
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import child_id, output_count, output_key
from sim.kernel.tools.pointer import State

_SECOND = 1_000_000_000
NEVER = 1 << 62  # no window ends then
SMALLEST = 2  # blocks have 2^2 cells at least
SIZES = 40

POOL = np.dtype([("free", "i8"), ("left", "i8")])  # the first free one, or NONE

# Cells that no block has had yet begin at `begun`; `need` more are asked for.
CELL_POOL = np.dtype([("begun", "i8"), ("need", "i8")])

PANE = np.dtype([("window", "i8"), ("block", "i8"), ("keys", "i8"), ("size", "i4"), ("next", "i4")], align=True)

# Of a partition: its first pane or NONE, and the size of the block that the last pane to end had.
PANES_OF = np.dtype([("first", "i4"), ("size", "i4")])

# A key in a pane. Of a join: how many tuples of one side wait, and the last of them, which leads to the first.
CELL = np.dtype([("key", "i8"), ("newest", "i8"), ("waiting", "i4"), ("last", "i4")], align=True)

NOTE = np.dtype([("id", "u8"), ("created", "i8"), ("next", "i4")], align=True)  # a tuple that waits at a join


@kernel
def most_windows(op: Any) -> Any:
    """Return how many windows one tuple may be in."""
    return (op.length + op.slide - 1) // op.slide


@kernel
def _block(state: State, size: int) -> int:
    """Return where a block of 2^size cells begins, or NONE if there must be room for it first."""
    found = state.free_blocks[size]
    if found != NONE:
        state.free_blocks[size] = state.cells[found].key
        return found
    found = state.cell_pool.begun
    if found + (1 << size) > state.cells.shape[0]:
        state.cell_pool.need = 1 << size
        return NONE
    state.cell_pool.begun += 1 << size
    return found


@kernel
def _give_back(state: State, block: int, size: int) -> None:
    """A block is free; no place of its table is in use."""
    for k in range(2 * block, 2 * (block + (1 << size))):
        state.places[k] = 0
    state.cells[block].key = state.free_blocks[size]
    state.free_blocks[size] = block


@kernel
def pane_of(state: State, task: int, partition: int, window: int, before: int) -> int:
    """Return the pane of a window of the partition, made if it is new; NONE if there must be room for it first.

    `before` is a pane in front of it, or NONE.
    """
    found = state.panes_of[partition].first if before == NONE else state.panes[before].next
    while found != NONE and state.panes[found].window < window:
        before, found = found, state.panes[found].next
    if found != NONE and state.panes[found].window == window:
        return found
    if state.pane_pool.left == 0:
        return NONE
    size = max(SMALLEST, state.panes_of[partition].size)
    block = _block(state, size)
    if block == NONE:
        return NONE
    made = state.pane_pool.free
    p = state.panes[made]
    state.pane_pool.free = p.next
    state.pane_pool.left -= 1
    p.window = window
    p.block = block
    p.keys = 0
    p.size = size
    p.next = found
    if before == NONE:
        state.panes_of[partition].first = made
    else:
        state.panes[before].next = made
    op, listener = state.operators[state.servers[task].operator], state.listeners[task]
    listener.next_end = min(listener.next_end, window * op.slide + op.length)
    return made


@kernel
def place_of(state: State, pane: int, key: int) -> int:
    """Return which place of the table has the cell of a key, or would."""
    p = state.panes[pane]
    first, mask = 2 * p.block, (2 << p.size) - 1
    k = slot_of(key, 0, mask + 1)
    while True:
        number = state.places[first + k]
        if number == 0 or state.cells[p.block + number - 1].key == key:
            return first + k
        k = (k + 1) & mask


@kernel
def cell_of(state: State, pane: int, key: int) -> int:
    """Return where the cell of a key stands, made if it is new; NONE if there must be room for it first."""
    p = state.panes[pane]
    place = place_of(state, pane, key)
    number = np.int64(state.places[place])
    if number != 0:
        return p.block + number - 1
    if p.keys == 1 << p.size:
        if not _enlarge(state, pane):
            return NONE
        place = place_of(state, pane, key)
    made = p.block + p.keys
    p.keys += 1
    state.places[place] = p.keys
    c = state.cells[made]
    c.key = key
    c.newest = 0
    c.waiting = 0
    c.last = NONE
    return made


@kernel
def _enlarge(state: State, pane: int) -> bool:
    """Give a pane a block of twice the size; False if there must be room for it first."""
    p = state.panes[pane]
    former, size = p.block, p.size
    block = _block(state, size + 1)
    if block == NONE:
        return False
    p.block = block
    p.size = size + 1
    for k in range(p.keys):
        state.cells[block + k] = state.cells[former + k]
        state.places[place_of(state, pane, state.cells[block + k].key)] = k + 1
    _give_back(state, former, size)
    return True


@kernel
def enter(state: State, operator: int, most: int, item: Any) -> bool:
    """The tuple is in all windows around its event time; of each key a window knows the newest.

    Without failures none is late: all these windows are open. False if there must be room first; then it enters again.
    """
    op = state.operators[operator]
    created, key = item.created, item.key
    last = created // op.slide
    first = last - most + 1
    if created >= first * op.slide + op.length:
        first += 1
    pane = NONE
    for window in range(max(0, first), last + 1):
        pane = pane_of(state, item.origin, item.partition, window, pane)
        place = NONE if pane == NONE else cell_of(state, pane, key)
        if place == NONE:
            return False
        c = state.cells[place]
        c.newest = max(c.newest, created)
    return True


@kernel
def join(state: State, operator: int, item: Any) -> bool:
    """The tuple meets those of the other input that are there, in the order in which they came, and then waits.

    False if there must be room first: then nothing has been sent.
    """
    op = state.operators[operator]
    key, side = item.key & ((1 << SIDE) - 1), item.key >> SIDE
    pane = pane_of(state, item.origin, item.partition, item.created // op.slide, NONE)
    if pane == NONE or state.note_pool.left == 0:
        return False
    place = place_of(state, pane, 2 * key + 1 - side)
    number = np.int64(state.places[place])  # of the cell, wherever the block is
    waiting = 0 if number == 0 else state.cells[state.panes[pane].block + number - 1].waiting
    own = NONE
    if outputs_fit(state, operator, waiting):
        own = cell_of(state, pane, 2 * key + side)
    if own == NONE:
        return False
    made = 0
    n = NONE if waiting == 0 else state.notes[state.cells[state.panes[pane].block + number - 1].last].next
    for _ in range(waiting):
        other = state.notes[n]
        result = pair_id(op.window_code, item.id, other.id)
        newest = max(item.created, other.created)
        made = _make_outputs(state, operator, item.origin, item.partition, item.end, result, newest, key, made, 0)
        n = other.next
    _send(state, operator, item.end, made, 0)
    wait_for_others(state, own, item.id, item.created)
    return True


@kernel
def wait_for_others(state: State, cell: int, tuple_id: int, created: int) -> None:
    """Have a tuple of a join wait in the cell of its key and input, behind others; there must be room for it."""
    new = state.note_pool.free
    note, c = state.notes[new], state.cells[cell]
    state.note_pool.free = note.next
    state.note_pool.left -= 1
    note.id = tuple_id
    note.created = created
    if c.last == NONE:
        note.next = new
    else:
        note.next = state.notes[c.last].next
        state.notes[c.last].next = new
    c.last = new
    c.waiting += 1


@kernel
def _make_outputs(
    state: State,
    operator: int,
    task: int,
    partition: int,
    at: int,
    tuple_id: int,
    created: int,
    key: int,
    made: int,
    late: int,
) -> int:
    """Make the outputs of what has this id, behind so many; return how many there are now."""
    op, draws = state.operators[operator], state.draws[operator]
    for index in range(output_count(draws, tuple_id)):
        if made == state.outputs.shape[0]:  # of one result, too, there may be more than fit
            _send(state, operator, at, made, late)
            made = 0
        child = child_id(tuple_id, op.code, index)
        out = state.outputs[made]
        made += 1
        out.at = at
        out.id = child
        out.created = created
        out.key = output_key(draws, state.cumulative, child, key)
        out.partition = partition
        out.origin = task
    return made


@kernel
def _send(state: State, operator: int, at: int, n: int, late: int) -> None:
    """Send the first n of `outputs`, all at one instant, over each edge; where they are late with that rank."""
    if n == 0:
        return
    note_second(state, operator, at)
    stage = state.stages[operator]
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        down = state.edges[k].down
        before = state.boxes[down].n
        send_over(state, k, n)
        if late > 0:
            _rank_late(state, down, before, at, late)


@kernel
def _rank_late(state: State, down: int, first: int, at: int, late: int) -> None:
    """Give what has been sent to an operator, from a place in its box on, the rank of what is late, where it is."""
    b = state.boxes[down]
    for k in range(b.first + first, b.first + b.n):
        e = state.box[k]
        if e.at == at and state.partition_task[e.partition] < late // state.options.tasks - 1:
            e.origin += late


@kernel
def note_second(state: State, operator: int, at: int) -> None:
    """What is sent next is counted for the second of this instant."""
    if at < state.sent.second or at >= state.sent.second + _SECOND:
        count_second(state, operator, at)


@kernel
def outputs_fit(state: State, operator: int, n: int) -> bool:
    """Return whether there is room for the outputs of n results; asks for it where not."""
    stage = state.stages[operator]
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        b = state.boxes[state.edges[k].down]
        if b.room - b.n < n * state.fan[k]:
            state.requests.results = n
            return False
    return True


@kernel
def end_windows(state: State, operator: int, task: int, at: int, late: int) -> bool:
    """Emit for all that the event time of the task has passed; False if there is no room for the rest yet.

    By window, key group, and first tuple of a key. A join has emitted before: it forgets.
    """
    op, listener = state.operators[operator], state.listeners[task]
    first, end = listener.first_here, listener.first_here + listener.here
    while listener.next_end <= listener.event:
        window = (listener.next_end - op.length) // op.slide
        least = NEVER
        for k in range(first, end):
            partition = state.partitions_here[k]
            own = state.panes_of[partition]
            if own.first != NONE and state.panes[own.first].window == window:
                if op.joins == NONE:
                    if not outputs_fit(state, operator, state.panes[own.first].keys):
                        return False
                    _emit_results(state, operator, task, partition, at, late)
                else:
                    _forget_tuples(state, partition)
                _forget_first(state, partition)
            if own.first != NONE:
                least = min(least, state.panes[own.first].window * op.slide + op.length)
        listener.next_end = least
    return True


@kernel
def _emit_results(state: State, operator: int, task: int, partition: int, at: int, late: int) -> None:
    """Emit for each key of the first pane of the partition."""
    code, index = state.operators[operator].window_code, state.partition_index[partition]
    p = state.panes[state.panes_of[partition].first]
    made = 0
    for k in range(p.block, p.block + p.keys):
        c = state.cells[k]
        result = window_id(code, index, c.key, p.window)
        made = _make_outputs(state, operator, task, partition, at, result, c.newest, c.key, made, late)
    _send(state, operator, at, made, late)


@kernel
def _forget_tuples(state: State, partition: int) -> None:
    """Nobody will meet the tuples any more that wait in the first pane of the partition."""
    p = state.panes[state.panes_of[partition].first]
    for k in range(p.block, p.block + p.keys):
        c = state.cells[k]
        if c.waiting > 0:
            first = state.notes[c.last].next
            state.notes[c.last].next = state.note_pool.free
            state.note_pool.free = first
            state.note_pool.left += c.waiting


@kernel
def _forget_first(state: State, partition: int) -> None:
    """The first pane of the partition is over."""
    own = state.panes_of[partition]
    pane = own.first
    p = state.panes[pane]
    own.first = p.next
    own.size = p.size
    if p.size > SMALLEST and 4 * p.keys < 1 << p.size:
        own.size = p.size - 1  # the next one may need less
    _give_back(state, p.block, p.size)
    p.next = state.pane_pool.free
    state.pane_pool.free = pane
    state.pane_pool.left += 1
