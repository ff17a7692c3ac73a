"""What arrives at an operator, or comes to the links, in the span, in order."""

from __future__ import annotations

from sim.kernel.scan.order import bits_of, cells_for, fits, order_by_keys, put_in_order
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


@kernel
def gather(s: State, place: int) -> None:
    """Make `order` the places in the box of what arrives in the span, and `kept` those of the rest."""
    b = s.boxes[place]
    if fits(s.span.end - s.span.begin, s.options.tasks, b.n):
        _gather_by_keys(s, place, bits_of(s.options.tasks), bits_of(b.n))
        return
    due, kept = 0, 0
    for k in range(b.n):
        e = s.box[b.first + k]
        if e.at < s.span.end:
            s.times[due] = e.at
            s.ranks[due] = s.partition_task[e.origin] if s.saves else e.origin
            s.refs[due] = k
            due += 1
        else:
            s.kept[kept] = k
            kept += 1
    s.progress.due = due
    put_in_order(s, due, s.span.begin, s.span.end)
    for k in range(due):
        s.order[k] = s.refs[s.order[k]]


@kernel
def _gather_by_keys(s: State, place: int, ranks: int, numbers: int) -> None:
    """`gather` where instant, rank and place fit into one number."""
    b = s.boxes[place]
    first, n, begin, end = b.first, b.n, s.span.begin, s.span.end
    bits = bits_of(end - begin) + ranks + numbers
    cells = cells_for(s, n, bits)
    shift, all_cells = bits - cells, 1 << cells
    due, kept = 0, 0
    for k in range(n):
        e = s.box[first + k]
        rank = s.partition_task[e.origin] if s.saves else e.origin
        key = ((((e.at - begin) << ranks) | rank) << numbers) | k
        s.times[due] = key
        s.kept[kept] = k
        late = e.at >= end
        kept += late
        due += 1 - late
        s.counts[all_cells if late else key >> shift] += 1
    s.progress.due = due
    order_by_keys(s, due, shift, cells, numbers)
