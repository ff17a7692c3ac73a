"""A row for each service and each delivery of a span, in the order in which services ended."""

from __future__ import annotations

from typing import Any

from sim.kernel.scan.order import bits_of, cells_for, fits, order_by_keys, put_in_order
from sim.kernel.scan.state import ScanState
from sim.kernel.tools.compiling import kernel


@kernel
def add_arrivals(s: ScanState, operator: int, task: Any, first: int, n: int) -> None:
    """Rows of n arrivals from this place on; there must be room for them."""
    run = s.run[0]
    rows = run.visit_rows
    for k in range(n):
        row, at = s.visit_rows[rows + k], s.arrivals[first + k].time
        row.arrival = at
        row.start = at
        row.end = at
        row.task = task
        row.operator = operator
        row.at_once = 0
        row.sink = 0
    run.visit_rows = rows + n


@kernel
def add_done(s: ScanState, operator: int, n: int) -> None:
    """Rows of what is done; there must be room for them."""
    run, op = s.run[0], s.operators[operator]
    rows = run.visit_rows
    at_once = not op.has_service
    for k in range(n):
        e, row = s.done[k], s.visit_rows[rows + k]
        row.arrival = e.at
        row.start = e.start
        row.end = e.end
        row.created = e.created
        row.task = e.origin
        row.operator = operator
        row.at_once = at_once
        row.sink = op.is_sink
    run.visit_rows = rows + n


@kernel
def sort_rows(s: ScanState) -> bool:
    """Put the rows of the span behind those of earlier ones; False if there is no room for them."""
    run = s.run[0]
    n = run.visit_rows
    if (
        s.times.shape[0] < n
        or run.sorted_rows + n > s.row_end.shape[0]
        or run.delivery_rows + n >= s.delivered_at.shape[0]
    ):
        run.need = 1
        return False
    _order_rows(s, n)
    first, delivered = run.sorted_rows, run.delivery_rows
    for k in range(n):
        row = s.visit_rows[s.order[k]]
        s.row_operator[first + k] = row.operator
        s.row_task[first + k] = row.task
        s.row_arrival[first + k] = row.arrival
        s.row_start[first + k] = row.start
        s.row_end[first + k] = row.end
        s.delivered_operator[delivered] = row.operator
        s.delivered_created[delivered] = row.created
        s.delivered_at[delivered] = row.end
        delivered += row.sink  # else the next one is written there
    run.sorted_rows = first + n
    run.delivery_rows = delivered
    run.visit_rows = 0
    return True


@kernel
def _order_rows(s: ScanState, n: int) -> None:
    """Make `order` the numbers of the rows by end and task.

    What takes no time is done by the arrival, after all services that end then.
    """
    run = s.run[0]
    if fits(run.end - run.begin, 2 * run.tasks, n):
        numbers, ranks = bits_of(n), bits_of(2 * run.tasks)
        bits = bits_of(run.end - run.begin) + ranks + numbers
        cells = cells_for(s, n, bits)
        begin, tasks, shift = run.begin, run.tasks, bits - cells
        for k in range(n):
            row = s.visit_rows[k]
            key = ((((row.end - begin) << ranks) | (row.task + row.at_once * tasks)) << numbers) | k
            s.times[k] = key
            s.counts[key >> shift] += 1
        order_by_keys(s, n, shift, cells, numbers)
        return
    for k in range(n):
        row = s.visit_rows[k]
        s.times[k] = row.end
        s.ranks[k] = row.task + row.at_once * run.tasks
    put_in_order(s, n, run.begin, run.end)
