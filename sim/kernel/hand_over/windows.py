"""Windows, tuples of joins and states of the last time in hand-overs: each kernel enters what the other has.

A window of the scan has its keys in one block, those of a join by input. In the event loop it has them in a list.

Where a host may fail the event loop keeps the tuples of open windows one by one, to open these again. Of a window that
it gets from the scan it keeps a *cell* for each key in place of its tuples, and the tuples of a join, which the scan
has as well. They count as applied before any checkpoint that the job may go back to. If it goes back to none any more,
one note for each window is enough: as long as it is there, no id is forgotten that a result of the window may have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop import pools, setup
from sim.kernel.event_loop.codes import NEVER, NONE, RECENT
from sim.kernel.event_loop.restoring import A_CELL
from sim.kernel.event_loop.windows import cell_of as cell_in_loop
from sim.kernel.event_loop.windows import new_note
from sim.kernel.event_loop.windows import pane_of as pane_in_loop
from sim.kernel.event_loop.windows import wait_for_others as wait_in_loop
from sim.kernel.scan import timed
from sim.kernel.scan.recent import remember
from sim.kernel.scan.state import ScanState
from sim.kernel.scan.windows import SMALLEST
from sim.kernel.scan.windows import cell_of as cell_in_scan
from sim.kernel.scan.windows import pane_of as pane_in_scan
from sim.kernel.scan.windows import wait_for_others as wait_in_scan
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

_PART = 4  # of what there is, so much more finds room before arrays have to be copied


def forget(loop: State) -> None:
    """Forget the windows of the event loop, and the tuples that it keeps for them."""
    fresh = setup.empty_event_time()
    for name in ("notes", "cells", "cell_index", "panes"):
        setattr(loop, name, fresh[name])
    for name in ("note", "cell", "pane"):
        pool = getattr(loop, f"{name}_pool")
        pool["left"], pool["free"] = 0, NONE
    for name in ("panes", "recent_first", "recent_last", "past_first", "past_last"):
        loop.partitions[name] = NONE


def ends_by(loop: State, instant: int) -> bool:
    """Return whether a window is open that ends at an instant of event time, or earlier; its results may come again."""
    u = loop.partitions[loop.partitions["panes"] != NONE]
    op = loop.operators[u["operator"]]  # the first window of a partition ends first
    return bool((loop.panes["window"][u["panes"]] * op["slide"] + op["length"] <= instant).any())


# -- to the event loop


def to_loop(scan: ScanState, loop: State, opens_again: bool) -> None:
    """Enter the windows of the scan into an event loop that has none; `opens_again`: the job may go back."""
    cells, panes = int(_keys(scan)), scan.panes.shape[0] - int(scan.pane_pool["left"])
    waiting = scan.notes.shape[0] - int(scan.note_pool["left"])
    recent = scan.recents.shape[0] - int(scan.recent_pool["left"])
    notes = recent + waiting + (cells + waiting if opens_again else panes)
    for name, count in (("cell", cells), ("pane", panes), ("note", notes)):
        pools.more_places(loop, name, count + count // _PART)
    setup.grown(loop, 0)
    _enter_loop(scan, loop, opens_again)


@kernel
def _keys(scan: State) -> int:
    """Return how many keys there are in all windows together."""
    total = 0
    for partition in range(scan.panes_of.shape[0]):
        pane = scan.panes_of[partition].first
        while pane != NONE:
            total += scan.panes[pane].keys
            pane = scan.panes[pane].next
    return total


@kernel
def _enter_loop(scan: State, loop: State, opens_again: bool) -> None:
    for partition in range(scan.panes_of.shape[0]):
        u = loop.partitions[partition]
        op = loop.operators[u.operator]
        pane, there = scan.panes_of[partition].first, NONE
        while pane != NONE:
            p = scan.panes[pane]
            there = pane_in_loop(loop, partition, p.window, there)
            number: Any = np.uint64(p.window)
            oldest = NEVER
            for k in range(p.block, p.block + p.keys):
                c = scan.cells[k]
                oldest = min(oldest, _oldest_in(scan, k, op.joins != NONE))
                if op.joins != NONE:
                    _enter_side(scan, loop, partition, there, k, p.window * op.slide + op.length, opens_again)
                    continue
                cell = cell_in_loop(loop, u.task, there, c.key, p.window * op.slide + op.length)
                loop.cells[cell].newest = c.newest
                if opens_again:
                    _keep(loop, partition, number, c.newest, c.key, A_CELL)
            if not opens_again:
                _keep(loop, partition, number, oldest, 0, A_CELL)
            pane = p.next
        if op.state_model == RECENT:
            u.newest = scan.recents_of[partition].newest
            n = scan.recents_of[partition].first
            while n != NONE:
                _keep_recent(loop, partition, scan.recents[n].created, scan.recents[n].number)
                n = scan.recents[n].next


@kernel
def _oldest_in(scan: State, cell: int, joins: bool) -> int:
    """Return the earliest creation time that what a window emits of one of its keys may have."""
    c = scan.cells[cell]
    if not joins:
        return int(c.newest)
    oldest, n = NEVER, c.last
    for _ in range(c.waiting):
        oldest = min(oldest, scan.notes[n].created)
        n = scan.notes[n].next
    return int(oldest)


@kernel
def _enter_side(scan: State, loop: State, partition: int, pane: int, k: int, end: int, opens_again: bool) -> None:
    """Have the tuples of a key of a join that have come over one input wait in the event loop."""
    c = scan.cells[k]
    key, side = c.key >> 1, c.key & 1
    cell = cell_in_loop(loop, loop.partitions[partition].task, pane, key, end)
    n = scan.notes[c.last].next
    for _ in range(c.waiting):
        one = scan.notes[n]
        wait_in_loop(loop, cell, one.id, one.created, side)
        if opens_again:
            _keep(loop, partition, one.id, one.created, key, side)
        n = one.next


@kernel
def _keep(loop: State, partition: int, tuple_id: int, created: int, key: int, side: int) -> None:
    """Keep in the event loop what its windows are opened again with."""
    u = loop.partitions[partition]
    n = new_note(loop)
    node = loop.notes[n]
    node.id = tuple_id
    node.created = created
    node.key = key
    node.pos = 0
    node.side = side
    node.next = NONE
    if u.past_first == NONE:
        u.past_first = n
    else:
        loop.notes[u.past_last].next = n
    u.past_last = n


@kernel
def _keep_recent(loop: State, partition: int, created: int, number: int) -> None:
    u = loop.partitions[partition]
    n = new_note(loop)
    node = loop.notes[n]
    node.created = created
    node.pos = number
    node.next = NONE
    if u.recent_first == NONE:
        u.recent_first = n
    else:
        loop.notes[u.recent_last].next = n
    u.recent_last = n


# -- to the scan


def to_scan(scan: ScanState, loop: State) -> None:
    """Enter the windows of the event loop into a scan that has none."""
    panes, cells, waiting, recent = _sizes(loop, scan.panes_of.shape[0])
    for name, pool, count in (
        ("panes", scan.pane_pool, panes),
        ("notes", scan.note_pool, waiting),
        ("recents", scan.recent_pool, recent),
    ):
        if count:
            timed.lengthen(scan, name, pool, count + count // _PART)
    timed.more_cells(scan, cells)
    _enter_scan(scan, loop)


@kernel
def _size_of(loop: State, pane: int) -> int:
    """Return which block the keys of a window need, where those of a join stand by input."""
    keys, cell = 0, loop.panes[pane].first
    while cell != NONE:
        c = loop.cells[cell]
        keys += max(1, (c.joined[0] > 0) + (c.joined[1] > 0))
        cell = c.next
    size = SMALLEST
    while 1 << size < keys:
        size += 1
    return size


@kernel
def _sizes(loop: State, partitions: int) -> tuple[int, int, int, int]:
    """Return how many windows there are, cells in their blocks, tuples that wait in them, and tuples of states."""
    panes, cells, waiting, recent = 0, 0, 0, 0
    for partition in range(partitions):
        pane = loop.partitions[partition].panes
        while pane != NONE:
            panes += 1
            cells += 1 << _size_of(loop, pane)
            cell = loop.panes[pane].first
            while cell != NONE:
                waiting += loop.cells[cell].joined[0] + loop.cells[cell].joined[1]
                cell = loop.cells[cell].next
            pane = loop.panes[pane].next
        n = loop.partitions[partition].recent_first
        while n != NONE:
            recent += 1
            n = loop.notes[n].next
    return panes, cells, waiting, recent


@kernel
def _enter_scan(scan: State, loop: State) -> None:
    for partition in range(scan.panes_of.shape[0]):
        u = loop.partitions[partition]
        op = loop.operators[u.operator]
        pane, there = u.panes, NONE
        while pane != NONE:
            scan.panes_of[partition].size = _size_of(loop, pane)
            there = pane_in_scan(scan, u.task, partition, loop.panes[pane].window, there)
            cell = loop.panes[pane].first
            while cell != NONE:
                c = loop.cells[cell]
                if op.joins == NONE:
                    scan.cells[cell_in_scan(scan, there, c.key)].newest = c.newest
                else:
                    for side in range(2):
                        _enter_side_in_scan(scan, loop, there, cell, side)
                cell = c.next
            pane = loop.panes[pane].next
        if op.state_model == RECENT:
            scan.recents_of[partition].newest = u.newest
            n = u.recent_first
            while n != NONE:
                remember(scan, partition, loop.notes[n].created, loop.notes[n].pos, op.state_length)
                n = loop.notes[n].next


@kernel
def _enter_side_in_scan(scan: State, loop: State, pane: int, cell: int, side: int) -> None:
    """Have the tuples of a key of a join that have come over one input wait in the scan."""
    c = loop.cells[cell]
    if c.joined[side] == 0:
        return
    there = cell_in_scan(scan, pane, 2 * c.key + side)
    n = c.first[side]
    while n != NONE:
        wait_in_scan(scan, there, loop.notes[n].id, loop.notes[n].created)
        n = loop.notes[n].next
