"""The record of tuples: rows in the columns of the recording, or rows that are soon added to histograms.

A tuple that takes no time, at its source or at a sink without a service, is no row where histograms are kept: those of
an operator in an interval are a number.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.tools.cache import inlined, kernel
from sim.kernel.tools.pointer import State
from sim.recording import HistogramRecording, TupleRecording

RECORDING = np.dtype(
    [
        ("visit_rows", "i8"),
        ("delivery_rows", "i8"),
        ("visit_room", "i8"),
        ("delivery_room", "i8"),
        ("by_column", "u1"),  # rows are written into the columns of the recording
        ("interval_length", "i8"),  # [ns]
        ("intervals", "i8"),
        ("passing", "i8"),  # where in `passed` a tuple that takes no time is counted
        ("passing_until", "i8"),  # this instant
    ],
    align=True,
)


VISIT_ROW = np.dtype([("operator", "i8"), ("task", "i8"), ("arrival", "i8"), ("start", "i8"), ("end", "i8")])

DELIVERY_ROW = np.dtype([("operator", "i8"), ("created", "i8"), ("delivered", "i8")])


VISIT_COLUMNS = ("visit_operator", "visit_task", "visit_arrival", "visit_start", "visit_end")
DELIVERY_COLUMNS = ("delivery_operator", "delivery_created", "delivery_at")
# Rows are added to histograms soon after they were written: so many of them stay in the processor's caches.
_ROWS = 2**13
_MOST = 8 * _ROWS  # more of them, which one event has left, do not keep their memory

Kept = TupleRecording | HistogramRecording


@inlined
def record_visit(state: State, operator: int, task: int, arrival: int, start: int, end: int) -> None:
    """A service that ends now."""
    n = state.recording.visit_rows
    if state.recording.by_column:
        state.recording.visit_rows = n + 1
        state.visit_operator[n] = operator
        state.visit_task[n] = task
        state.visit_arrival[n] = arrival
        state.visit_start[n] = start
        state.visit_end[n] = end
    elif arrival == end:
        _pass(state, operator, end)
    else:
        state.recording.visit_rows = n + 1
        row = state.visit_rows[n]
        row.operator = operator
        row.task = task
        row.arrival = arrival
        row.start = start
        row.end = end


@inlined
def _pass(state: State, operator: int, now: int) -> None:
    if now >= state.recording.passing_until:
        _next_interval(state, now)
    state.passed[state.recording.passing + 2 * state.recording.intervals * operator] += 1


@kernel
def _next_interval(state: State, now: int) -> None:
    """Find the interval of an instant; what is before the end of the warm-up and behind it is counted apart."""
    begin = now - now % state.recording.interval_length
    state.recording.passing = 2 * (now // state.recording.interval_length)
    state.recording.passing_until = begin + state.recording.interval_length
    if now >= state.options.warmup:
        state.recording.passing += 1
    else:
        state.recording.passing_until = min(state.recording.passing_until, state.options.warmup)


@inlined
def record_delivery(state: State, operator: int, created: int, now: int) -> None:
    """A sink accepts a tuple."""
    n = state.recording.delivery_rows
    state.recording.delivery_rows = n + 1
    if state.recording.by_column:
        state.delivery_operator[n] = operator
        state.delivery_created[n] = created
        state.delivery_at[n] = now
    else:
        row = state.delivery_rows[n]
        row.operator = operator
        row.created = created
        row.delivered = now


def arrays(recording: Kept, operators: int) -> dict[str, np.ndarray]:
    """Return the arrays of the state that say what is recorded, and the record of how full they are."""
    record = np.zeros(1, RECORDING)
    made = {"passed": np.zeros(0, np.int64)}
    made |= {name: np.zeros(0, np.int64) for name in (*VISIT_COLUMNS, *DELIVERY_COLUMNS)}
    made |= {name: np.zeros(0, np.int32) for name in ("visit_operator", "visit_task", "delivery_operator")}
    if isinstance(recording, TupleRecording):
        made |= _columns(recording)
        record["by_column"] = 1
        record["visit_room"], record["delivery_room"] = made["visit_end"].size, made["delivery_at"].size
        rows = 0
    else:
        _, duration, length = recording.window
        record["interval_length"], record["intervals"] = length, max(1, -(-duration // length))
        made["passed"] = np.zeros(2 * operators * int(record["intervals"][0]), np.int64)
        record["visit_room"] = record["delivery_room"] = rows = _ROWS
    made |= {"visit_rows": np.zeros(rows, VISIT_ROW), "delivery_rows": np.zeros(rows, DELIVERY_ROW)}
    return made | {"recording": record}


def _columns(recording: TupleRecording) -> dict[str, np.ndarray]:
    visits, deliveries = recording.shared()
    return dict(zip(VISIT_COLUMNS, visits, strict=True)) | dict(zip(DELIVERY_COLUMNS, deliveries, strict=True))


def make_room(state: State, recording: Kept, need: int) -> None:
    """Let there be room for what `need` more services leave."""
    if (
        max(
            state.recording["visit_rows"] - state.recording["visit_room"],
            state.recording["delivery_rows"] - state.recording["delivery_room"],
        )
        + need
        <= 0
    ):
        return
    many = int(state.recording["visit_rows"])
    hand_over(state, recording)
    if isinstance(recording, TupleRecording):
        recording.make_room(need)
        share(state, recording)
        return
    room = need + _ROWS
    if room > state.visit_rows.size or many > _MOST:  # of new zeros those take no memory that nobody writes
        rows = max(2 * room, state.visit_rows.size)
        state.visit_rows, state.delivery_rows = np.zeros(rows, VISIT_ROW), np.zeros(rows, DELIVERY_ROW)
    state.recording["visit_room"] = state.recording["delivery_room"] = room


def share(state: State, recording: TupleRecording) -> None:
    """Write rows into the columns that the recording has now."""
    for name, column in _columns(recording).items():
        setattr(state, name, column)
    state.recording["visit_room"], state.recording["delivery_room"] = state.visit_end.size, state.delivery_at.size


def hand_over(state: State, recording: Kept) -> None:
    """Tell the recording of all rows."""
    visits, deliveries = int(state.recording["visit_rows"]), int(state.recording["delivery_rows"])
    if isinstance(recording, TupleRecording):
        recording.take(visits, deliveries)
        return
    recording.add_visits(_plain(state.visit_rows[:visits]))
    recording.add_deliveries(_plain(state.delivery_rows[:deliveries]))
    state.recording["visit_rows"] = state.recording["delivery_rows"] = 0


def hand_over_passed(state: State, recording: Kept) -> None:
    """Tell the recording of what took no time."""
    if isinstance(recording, HistogramRecording):
        recording.add_passed(state.passed.reshape(-1, int(state.recording["intervals"]), 2))
        state.passed[:] = 0


def _plain(rows: np.ndarray) -> np.ndarray:
    """Records of 64-bit integers as a matrix with a column for each field."""
    return rows.view(np.int64).reshape(-1, len(rows.dtype.names or ()))
