"""What the event loop keeps of tuples: rows in the columns of the recording, or what is to be added to histograms.

A tuple that takes no time, at its source or at a sink without a service, is no row where histograms are kept: those of
an operator in an interval are a number.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.state import DELIVERY_ROW, VISIT_ROW
from sim.kernel.tools.compiling import inlined, kernel
from sim.kernel.tools.pointer import State
from sim.recording import HistogramRecording, TupleRecording

VISIT_COLUMNS = ("visit_operator", "visit_task", "visit_arrival", "visit_start", "visit_end")
DELIVERY_COLUMNS = ("delivery_operator", "delivery_created", "delivery_at")
# Rows are added to histograms soon after they were written: so many of them stay in the processor's caches.
_ROWS = 2**13

Kept = TupleRecording | HistogramRecording


@inlined
def record_visit(s: State, operator: int, task: int, arrival: int, start: int, end: int) -> None:
    """A service that ends now."""
    run = s.run[0]
    n = run.visit_rows
    if run.columns:
        run.visit_rows = n + 1
        s.visit_operator[n] = operator
        s.visit_task[n] = task
        s.visit_arrival[n] = arrival
        s.visit_start[n] = start
        s.visit_end[n] = end
    elif arrival == end:
        _pass(s, operator, end)
    else:
        run.visit_rows = n + 1
        row = s.visit_rows[n]
        row.operator = operator
        row.task = task
        row.arrival = arrival
        row.start = start
        row.end = end


@inlined
def _pass(s: State, operator: int, now: int) -> None:
    run = s.run[0]
    if now >= run.passing_until:
        _next_interval(s, now)
    s.passed[run.passing + 2 * run.intervals * operator] += 1


@kernel
def _next_interval(s: State, now: int) -> None:
    """Find the interval of an instant; what is before the end of the warm-up and behind it is counted apart."""
    run = s.run[0]
    begin = now - now % run.interval_length
    run.passing = 2 * (now // run.interval_length)
    run.passing_until = begin + run.interval_length
    if now >= run.warmup:
        run.passing += 1
    else:
        run.passing_until = min(run.passing_until, run.warmup)


@inlined
def record_delivery(s: State, operator: int, created: int, now: int) -> None:
    """A sink accepts a tuple."""
    run = s.run[0]
    n = run.delivery_rows
    run.delivery_rows = n + 1
    if run.columns:
        s.delivery_operator[n] = operator
        s.delivery_created[n] = created
        s.delivery_at[n] = now
    else:
        row = s.delivery_rows[n]
        row.operator = operator
        row.created = created
        row.delivered = now


def arrays(recording: Kept, operators: int, run: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of the state that say what is recorded; `run` is told of them."""
    made = {"passed": np.zeros(0, np.int64)}
    made |= {name: np.zeros(0, np.int64) for name in (*VISIT_COLUMNS, *DELIVERY_COLUMNS)}
    made |= {name: np.zeros(0, np.int32) for name in ("visit_operator", "visit_task", "delivery_operator")}
    if isinstance(recording, TupleRecording):
        made |= _columns(recording)
        run["columns"] = 1
        run["visit_room"], run["delivery_room"] = made["visit_end"].size, made["delivery_at"].size
        rows = 0
    else:
        _, duration, length = recording.window
        run["interval_length"], run["intervals"] = length, max(1, -(-duration // length))
        made["passed"] = np.zeros(2 * operators * int(run["intervals"][0]), np.int64)
        run["visit_room"] = run["delivery_room"] = rows = _ROWS
    return made | {"visit_rows": np.zeros(rows, VISIT_ROW), "delivery_rows": np.zeros(rows, DELIVERY_ROW)}


def _columns(recording: TupleRecording) -> dict[str, np.ndarray]:
    visits, deliveries = recording.shared()
    return dict(zip(VISIT_COLUMNS, visits, strict=True)) | dict(zip(DELIVERY_COLUMNS, deliveries, strict=True))


def make_room(s: State, recording: Kept, need: int) -> None:
    """Let there be room for what `need` more services leave."""
    run = s.run
    if max(run["visit_rows"][0] - run["visit_room"][0], run["delivery_rows"][0] - run["delivery_room"][0]) + need <= 0:
        return
    hand_over(s, recording)
    if isinstance(recording, TupleRecording):
        recording.make_room(need)
        for name, column in _columns(recording).items():
            setattr(s, name, column)
        run["visit_room"], run["delivery_room"] = s.visit_end.size, s.delivery_at.size
    elif need > run["visit_room"][0]:
        rows = 2 * need
        s.visit_rows, s.delivery_rows = np.zeros(rows, VISIT_ROW), np.zeros(rows, DELIVERY_ROW)
        run["visit_room"] = run["delivery_room"] = rows


def hand_over(s: State, recording: Kept) -> None:
    """Tell the recording of all rows."""
    run = s.run
    visits, deliveries = int(run["visit_rows"][0]), int(run["delivery_rows"][0])
    if isinstance(recording, TupleRecording):
        recording.take(visits, deliveries)
        return
    recording.add_visits(_plain(s.visit_rows[:visits]))
    recording.add_deliveries(_plain(s.delivery_rows[:deliveries]))
    run["visit_rows"] = run["delivery_rows"] = 0


def hand_over_passed(s: State, recording: Kept) -> None:
    """Tell the recording of what took no time."""
    if isinstance(recording, HistogramRecording):
        recording.add_passed(s.passed.reshape(-1, int(s.run["intervals"][0]), 2))
        s.passed[:] = 0


def _plain(rows: np.ndarray) -> np.ndarray:
    """Records of 64-bit integers as a matrix with a column for each field."""
    return rows.view(np.int64).reshape(-1, len(rows.dtype.names or ()))
