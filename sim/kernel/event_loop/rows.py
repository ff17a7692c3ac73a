"""What the event loop keeps of tuples: rows in the columns of the recording, or what is to be folded into histograms.

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
DELIVERY_COLUMNS = ("delivery_operator", "delivery_birth", "delivery_at")
# Rows are folded soon after they were written: so many of them stay in the processor's caches.
_ROWS = 2**13

Kept = TupleRecording | HistogramRecording


@inlined
def record_visit(s: State, operator: int, task: int, arrival: int, start: int, end: int) -> None:
    """A service that ends now."""
    g = s.g[0]
    n = g.visit_rows
    if g.columns:
        g.visit_rows = n + 1
        s.visit_operator[n] = operator
        s.visit_task[n] = task
        s.visit_arrival[n] = arrival
        s.visit_start[n] = start
        s.visit_end[n] = end
    elif arrival == end:
        _pass(s, operator, end)
    else:
        g.visit_rows = n + 1
        row = s.visit_rows[n]
        row.operator = operator
        row.task = task
        row.arrival = arrival
        row.start = start
        row.end = end


@inlined
def _pass(s: State, operator: int, now: int) -> None:
    g = s.g[0]
    if now >= g.passing_until:
        _next_interval(s, now)
    s.passed[g.passing + 2 * g.intervals * operator] += 1


@kernel
def _next_interval(s: State, now: int) -> None:
    """Find the interval of an instant; what is before the end of the warm-up and behind it is counted apart."""
    g = s.g[0]
    begin = now - now % g.interval_length
    g.passing = 2 * (now // g.interval_length)
    g.passing_until = begin + g.interval_length
    if now >= g.warmup:
        g.passing += 1
    else:
        g.passing_until = min(g.passing_until, g.warmup)


@inlined
def record_delivery(s: State, operator: int, birth: int, now: int) -> None:
    """A sink accepts a tuple."""
    g = s.g[0]
    n = g.delivery_rows
    g.delivery_rows = n + 1
    if g.columns:
        s.delivery_operator[n] = operator
        s.delivery_birth[n] = birth
        s.delivery_at[n] = now
    else:
        row = s.delivery_rows[n]
        row.operator = operator
        row.birth = birth
        row.delivered = now


def arrays(recording: Kept, operators: int, g: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of the state that say what is recorded; `g` is told of them."""
    made = {"passed": np.zeros(0, np.int64)}
    made |= {name: np.zeros(0, np.int64) for name in (*VISIT_COLUMNS, *DELIVERY_COLUMNS)}
    made |= {name: np.zeros(0, np.int32) for name in ("visit_operator", "visit_task", "delivery_operator")}
    if isinstance(recording, TupleRecording):
        made |= _columns(recording)
        g["columns"] = 1
        g["visit_room"], g["delivery_room"] = made["visit_end"].size, made["delivery_at"].size
        rows = 0
    else:
        _, duration, length = recording.window
        g["interval_length"], g["intervals"] = length, max(1, -(-duration // length))
        made["passed"] = np.zeros(2 * operators * int(g["intervals"][0]), np.int64)
        g["visit_room"] = g["delivery_room"] = rows = _ROWS
    return made | {"visit_rows": np.zeros(rows, VISIT_ROW), "delivery_rows": np.zeros(rows, DELIVERY_ROW)}


def _columns(recording: TupleRecording) -> dict[str, np.ndarray]:
    visits, deliveries = recording.shared()
    return dict(zip(VISIT_COLUMNS, visits, strict=True)) | dict(zip(DELIVERY_COLUMNS, deliveries, strict=True))


def make_room(s: State, recording: Kept, need: int) -> None:
    """Let there be room for what `need` more services leave."""
    g = s.g
    if max(g["visit_rows"][0] - g["visit_room"][0], g["delivery_rows"][0] - g["delivery_room"][0]) + need <= 0:
        return
    hand_over(s, recording)
    if isinstance(recording, TupleRecording):
        recording.make_room(need)
        for name, column in _columns(recording).items():
            setattr(s, name, column)
        g["visit_room"], g["delivery_room"] = s.visit_end.size, s.delivery_at.size
    elif need > g["visit_room"][0]:
        rows = 2 * need
        s.visit_rows, s.delivery_rows = np.zeros(rows, VISIT_ROW), np.zeros(rows, DELIVERY_ROW)
        g["visit_room"] = g["delivery_room"] = rows


def hand_over(s: State, recording: Kept) -> None:
    """Tell the recording of all rows."""
    g = s.g
    visits, deliveries = int(g["visit_rows"][0]), int(g["delivery_rows"][0])
    if isinstance(recording, TupleRecording):
        recording.take(visits, deliveries)
        return
    recording.add_visits(_plain(s.visit_rows[:visits]))
    recording.add_deliveries(_plain(s.delivery_rows[:deliveries]))
    g["visit_rows"] = g["delivery_rows"] = 0


def hand_over_passed(s: State, recording: Kept) -> None:
    """Tell the recording of what took no time."""
    if isinstance(recording, HistogramRecording):
        recording.add_passed(s.passed.reshape(-1, int(s.g["intervals"][0]), 2))
        s.passed[:] = 0


def _plain(rows: np.ndarray) -> np.ndarray:
    """Records of 64-bit integers as a matrix with a column for each field."""
    return rows.view(np.int64).reshape(-1, len(rows.dtype.names or ()))
