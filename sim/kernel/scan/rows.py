"""A row for each service and each delivery of a span, in the order in which services ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.scan.order import bits_of, cells_for, fits, order_by_keys, put_in_order
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

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
def add_arrivals(s: State, operator: int, task: Any, first: int, n: int) -> None:
    """Rows of n arrivals from this place on; there must be room for them."""
    rows = s.rows.visits
    for k in range(n):
        row, at = s.visit_rows[rows + k], s.arrivals[first + k].time
        row.arrival = at
        row.start = at
        row.end = at
        row.task = task
        row.operator = operator
        row.at_once = 0
        row.sink = 0
    s.rows.visits = rows + n


@kernel
def add_done(s: State, operator: int, n: int) -> None:
    """Rows of what is done; there must be room for them."""
    op = s.operators[operator]
    rows = s.rows.visits
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
    s.rows.visits = rows + n


@kernel
def sort_rows(s: State) -> bool:
    """Put the rows of the span behind those of earlier ones; False if there is no room for them."""
    n = s.rows.visits
    if (
        s.times.shape[0] < n
        or s.rows.sorted + n > s.row_end.shape[0]
        or s.rows.deliveries + n >= s.delivered_at.shape[0]
    ):
        s.requests.need = 1
        return False
    _order_rows(s, n)
    first, delivered = s.rows.sorted, s.rows.deliveries
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
    s.rows.sorted = first + n
    s.rows.deliveries = delivered
    s.rows.visits = 0
    return True


@kernel
def _order_rows(s: State, n: int) -> None:
    """Make `order` the numbers of the rows by end and task.

    What takes no time is done by the arrival, after all services that end then.
    """
    if fits(s.span.end - s.span.begin, 2 * s.options.tasks, n):
        numbers, ranks = bits_of(n), bits_of(2 * s.options.tasks)
        bits = bits_of(s.span.end - s.span.begin) + ranks + numbers
        cells = cells_for(s, n, bits)
        begin, tasks, shift = s.span.begin, s.options.tasks, bits - cells
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
        s.ranks[k] = row.task + row.at_once * s.options.tasks
    put_in_order(s, n, s.span.begin, s.span.end)
