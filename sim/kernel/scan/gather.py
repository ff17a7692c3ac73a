"""Arrivals at an operator, or at the links, in the span, in order.

The order is that of the event loop: by instant, then by the task that sent it, then in the order of sending, which is
that of the box for one sender.
"""

from __future__ import annotations

from sim.kernel.scan.order import bits_of, cells_for, fits, order_by_keys, put_in_order
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


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
