"""A row for each service and each delivery of a span, in the order in which services ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.scan.order import bits_of, cells_for, fits, order_by_keys, put_in_order
from sim.kernel.tools.cache import kernel
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
