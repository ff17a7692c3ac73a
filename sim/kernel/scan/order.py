"""Putting the tuples of a span in order: by instant, then by rank, and otherwise as they stand.

Arrivals at an operator, or at the links, in the span, in order.

The order is that of the event loop: by instant, then by the task that sent it, then in the order of sending, which is
that of the box for one sender.

A row for each service and each delivery of a span, in the order in which services ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

_FEW = 24  # what is so short is sorted by insertion alone
_LEAST_BITS, _MOST_BITS = 4, 11
_MOST_MOVES = 16  # per tuple
_MOST_CELL_BITS = 15
_WORD = 62  # bits of a key


@kernel
def bits_of(n: int) -> int:
    """Return how many bits the numbers below n have."""
    bits = 0
    while n - 1 >> bits > 0:
        bits += 1
    return bits


@kernel
def fits(span: int, ranks: int, n: int) -> bool:
    """Return whether an instant in the span, a rank and a number below n are one number: a key to sort by."""
    return bits_of(span) + bits_of(ranks) + bits_of(n) <= _WORD


@kernel
def cells_for(state: State, n: int, bits: int) -> int:
    """Bits of a cell, of which `counts` holds about as many as there are keys of so many bits; all are empty."""
    cells = min(_MOST_CELL_BITS, bits, max(_LEAST_BITS, bits_of(n)))
    for k in range((1 << cells) + 1):
        state.counts[k] = 0
    return cells


@kernel
def order_by_keys(state: State, n: int, shift: int, cells: int, number_bits: int) -> None:
    """Make `state.order` the last bits, their numbers, of the n keys `state.times` in order.

    One pass of a radix sort: `counts` holds how many keys are in each cell of `cells_for`, the key without `shift`
    bits. Insertion, or a merge sort where many are crowded into one cell, does the rest.
    """
    below = 0
    for k in range(1 << cells):
        there = state.counts[k]
        state.counts[k] = below
        below += there
    for k in range(n):
        key = state.times[k]
        place = state.counts[key >> shift]
        state.counts[key >> shift] = place + 1
        state.spare[place] = key
    if not _keys_by_insertion(state, n, _MOST_MOVES * n):
        _keys_by_merging(state, n)
    mask = (1 << number_bits) - 1
    for k in range(n):
        state.order[k] = state.spare[k] & mask


@kernel
def _keys_by_insertion(state: State, n: int, moves: int) -> bool:
    """Sort `state.spare`; False if that takes more moves, and is not done."""
    most = state.spare[0] if n > 0 else 0
    for k in range(1, n):
        key = state.spare[k]
        if key >= most:  # nearly all: nothing is written, and nothing that was
            most = key
            continue
        place = k - 1
        while place >= 0 and state.spare[place] > key:
            state.spare[place + 1] = state.spare[place]
            place -= 1
        state.spare[place + 1] = key
        moves -= k - 1 - place
        if moves < 0:
            return False
    return True


@kernel
def _keys_by_merging(state: State, n: int) -> None:
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            one, other = begin, middle
            for k in range(begin, end):
                if other >= end or (one < middle and state.spare[one] < state.spare[other]):
                    state.times[k] = state.spare[one]
                    one += 1
                else:
                    state.times[k] = state.spare[other]
                    other += 1
        for k in range(n):
            state.spare[k] = state.times[k]
        width *= 2


@kernel
def put_in_order(state: State, n: int, low: int, high: int) -> None:
    """Make `state.order` the numbers below n by (`state.times`, `state.ranks`, number); all times are in [low, high).

    Two passes of a radix sort over cells of the span, about as many as the square of n, leave hardly two tuples in
    one cell; insertion puts those in order. Where that would take long, because many are crowded into one cell of a
    long span, a merge sort goes on.
    """
    if n < _FEW:
        for k in range(n):
            state.order[k] = k
        _by_insertion(state, n, n * n)
        return
    bits = _LEAST_BITS
    while bits < _MOST_BITS and (1 << bits) < n:
        bits += 1
    shift = 0
    while (high - low - 1) >> shift >= 1 << (2 * bits):
        shift += 1
    size = 1 << bits
    mask = size - 1
    for k in range(2 * size):
        state.counts[k] = 0
    for k in range(n):
        cell = (state.times[k] - low) >> shift
        state.counts[cell & mask] += 1
        state.counts[size + (cell >> bits)] += 1
    below_one = 0
    below_two = 0
    for k in range(size):
        one, two = state.counts[k], state.counts[size + k]
        state.counts[k] = below_one
        state.counts[size + k] = below_two
        below_one += one
        below_two += two
    for k in range(n):
        cell = (state.times[k] - low) >> shift
        place = state.counts[cell & mask]
        state.counts[cell & mask] = place + 1
        state.spare[place] = ((cell >> bits) << 32) | k
    for k in range(n):
        both = state.spare[k]
        place = state.counts[size + (both >> 32)]
        state.counts[size + (both >> 32)] = place + 1
        state.order[place] = both & 0xFFFFFFFF
    if not _by_insertion(state, n, _MOST_MOVES * n):
        _by_merging(state, n)


@kernel
def _after(state: State, one: int, other: int) -> bool:
    """Return whether a tuple comes after another, numbers aside."""
    at, than = state.times[one], state.times[other]
    return at > than or (at == than and state.ranks[one] > state.ranks[other])


@kernel
def _by_insertion(state: State, n: int, moves: int) -> bool:
    """Sort; False if that takes more moves, and is not done."""
    for k in range(1, n):
        one = state.order[k]
        place = k - 1
        if not _after(state, state.order[place], one):
            continue
        while place >= 0 and _after(state, state.order[place], one):
            state.order[place + 1] = state.order[place]
            place -= 1
        state.order[place + 1] = one
        moves -= k - place
        if moves < 0:
            return False
    return True


@kernel
def _by_merging(state: State, n: int) -> None:
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            one, other = begin, middle
            for k in range(begin, end):
                if other >= end or (one < middle and not _after(state, state.order[one], state.order[other])):
                    state.spare[k] = state.order[one]
                    one += 1
                else:
                    state.spare[k] = state.order[other]
                    other += 1
        for k in range(n):
            state.order[k] = state.spare[k]
        width *= 2


@kernel
def gather(state: State, place: int) -> None:
    """Make `order` the places in the box of what arrives in the span, and `kept` those of the rest."""
    b = state.boxes[place]
    if fits(state.span.end - state.span.begin, state.options.tasks, b.n):
        _gather_by_keys(state, place, bits_of(state.options.tasks), bits_of(b.n))
        return
    due, kept = 0, 0
    for k in range(b.n):
        e = state.box[b.first + k]
        if e.at < state.span.end:
            state.times[due] = e.at
            state.ranks[due] = state.partition_task[e.origin] if state.saves else e.origin
            state.refs[due] = k
            due += 1
        else:
            state.kept[kept] = k
            kept += 1
    state.progress.due = due
    put_in_order(state, due, state.span.begin, state.span.end)
    for k in range(due):
        state.order[k] = state.refs[state.order[k]]


@kernel
def _gather_by_keys(state: State, place: int, ranks: int, numbers: int) -> None:
    """`gather` where instant, rank and place fit into one number."""
    b = state.boxes[place]
    first, n, begin, end = b.first, b.n, state.span.begin, state.span.end
    bits = bits_of(end - begin) + ranks + numbers
    cells = cells_for(state, n, bits)
    shift, all_cells = bits - cells, 1 << cells
    due, kept = 0, 0
    for k in range(n):
        e = state.box[first + k]
        rank = state.partition_task[e.origin] if state.saves else e.origin
        key = ((((e.at - begin) << ranks) | rank) << numbers) | k
        state.times[due] = key
        state.kept[kept] = k
        late = e.at >= end
        kept += late
        due += 1 - late
        state.counts[all_cells if late else key >> shift] += 1
    state.progress.due = due
    order_by_keys(state, due, shift, cells, numbers)


ROWS = np.dtype([("visits", "i8"), ("sorted", "i8"), ("deliveries", "i8")])  # of the span; of the run, in order


# A service that ended in the span.
SPAN_ROW = np.dtype(
    [
        ("arrival", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("created", "i8"),
        ("task", "i4"),
        ("operator", "i2"),
        ("at_once", "u1"),  # it takes no time
        ("sink", "u1"),
    ],
    align=True,
)

# Columns of the rows in order, and arrays of histograms, flat: those of `sim.recording`.
VISIT_COLUMNS = ("row_operator", "row_task", "row_arrival", "row_start", "row_end")

DELIVERY_COLUMNS = ("delivered_operator", "delivered_created", "delivered_at")

ROW_COLUMNS = {
    name: np.dtype("i4" if name.endswith(("operator", "task")) else "i8") for name in VISIT_COLUMNS + DELIVERY_COLUMNS
}


@kernel
def add_arrivals(state: State, operator: int, task: Any, first: int, n: int) -> None:
    """Rows of n arrivals from this place on; there must be room for them."""
    rows = state.rows.visits
    for k in range(n):
        row, at = state.visit_rows[rows + k], state.arrivals[first + k].time
        row.arrival = at
        row.start = at
        row.end = at
        row.task = task
        row.operator = operator
        row.at_once = 0
        row.sink = 0
    state.rows.visits = rows + n


@kernel
def add_done(state: State, operator: int, n: int) -> None:
    """Rows of what is done; there must be room for them."""
    op = state.operators[operator]
    rows = state.rows.visits
    at_once = not op.has_service
    for k in range(n):
        e, row = state.done[k], state.visit_rows[rows + k]
        row.arrival = e.at
        row.start = e.start
        row.end = e.end
        row.created = e.created
        row.task = e.origin
        row.operator = operator
        row.at_once = at_once
        row.sink = op.is_sink
    state.rows.visits = rows + n


@kernel
def sort_rows(state: State) -> bool:
    """Put the rows of the span behind those of earlier ones; False if there is no room for them."""
    n = state.rows.visits
    if (
        state.times.shape[0] < n
        or state.rows.sorted + n > state.row_end.shape[0]
        or state.rows.deliveries + n >= state.delivered_at.shape[0]
    ):
        state.requests.need = 1
        return False
    _order_rows(state, n)
    first, delivered = state.rows.sorted, state.rows.deliveries
    for k in range(n):
        row = state.visit_rows[state.order[k]]
        state.row_operator[first + k] = row.operator
        state.row_task[first + k] = row.task
        state.row_arrival[first + k] = row.arrival
        state.row_start[first + k] = row.start
        state.row_end[first + k] = row.end
        state.delivered_operator[delivered] = row.operator
        state.delivered_created[delivered] = row.created
        state.delivered_at[delivered] = row.end
        delivered += row.sink  # else the next one is written there
    state.rows.sorted = first + n
    state.rows.deliveries = delivered
    state.rows.visits = 0
    return True


@kernel
def _order_rows(state: State, n: int) -> None:
    """Make `order` the numbers of the rows by end and task.

    What takes no time is done by the arrival, after all services that end then.
    """
    if fits(state.span.end - state.span.begin, 2 * state.options.tasks, n):
        numbers, ranks = bits_of(n), bits_of(2 * state.options.tasks)
        bits = bits_of(state.span.end - state.span.begin) + ranks + numbers
        cells = cells_for(state, n, bits)
        begin, tasks, shift = state.span.begin, state.options.tasks, bits - cells
        for k in range(n):
            row = state.visit_rows[k]
            key = ((((row.end - begin) << ranks) | (row.task + row.at_once * tasks)) << numbers) | k
            state.times[k] = key
            state.counts[key >> shift] += 1
        order_by_keys(state, n, shift, cells, numbers)
        return
    for k in range(n):
        row = state.visit_rows[k]
        state.times[k] = row.end
        state.ranks[k] = row.task + row.at_once * state.options.tasks
    put_in_order(state, n, state.span.begin, state.span.end)
