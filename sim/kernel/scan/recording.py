"""Arrays that the scan and the recording of a run share: the columns of rows, or the arrays of histograms."""

from __future__ import annotations

import numpy as np

from sim.kernel.scan.histograms import BINNING, HISTOGRAM_COUNTS, HISTOGRAM_PAGES
from sim.kernel.scan.rows import DELIVERY_COLUMNS, ROW_COLUMNS, SPAN_ROW, VISIT_COLUMNS
from sim.kernel.tools.pointer import State
from sim.recording import HistogramRecording, TupleRecording

_ROWS = 2**13

Kept = TupleRecording | HistogramRecording


def arrays(recording: Kept) -> dict[str, np.ndarray]:
    """Return the arrays of the state that say what is recorded."""
    binning = np.zeros(1, BINNING)
    made = dict.fromkeys(HISTOGRAM_COUNTS, np.zeros(0, np.int64)) | dict.fromkeys(
        HISTOGRAM_PAGES, np.zeros(0, np.int32)
    )
    made |= {name: np.zeros(0, kind) for name, kind in ROW_COLUMNS.items()}
    if isinstance(recording, TupleRecording):
        made |= _columns(recording)
    else:
        made |= recording.shared()
        warmup, duration, length = recording.window
        binning["warmup"], binning["length"], binning["intervals"] = warmup, length, max(1, -(-duration // length))
    return made | {"binning": binning, "visit_rows": np.zeros(_ROWS, SPAN_ROW)}


def _columns(recording: TupleRecording) -> dict[str, np.ndarray]:
    visits, deliveries = recording.shared()
    return dict(zip(VISIT_COLUMNS, visits, strict=True)) | dict(zip(DELIVERY_COLUMNS, deliveries, strict=True))


def grow(state: State, recording: Kept, need: int) -> None:
    """Make room for what `need` more services leave."""
    if isinstance(recording, HistogramRecording):
        recording.make_room(need)
        state.pages = recording.shared()["pages"]
        return
    hand_over(state, recording)
    rows, room = int(state.rows["visits"]), state.visit_rows.shape[0]
    if room - rows < max(need, room // 8):
        longer = np.zeros(2 * room + need, SPAN_ROW)
        longer[:rows] = state.visit_rows[:rows]
        state.visit_rows = longer
    recording.make_room(state.visit_rows.shape[0] + 1)
    share(state, recording)


def share(state: State, recording: TupleRecording) -> None:
    """Write rows into the columns that the recording has now."""
    for name, column in _columns(recording).items():
        setattr(state, name, column)


def hand_over(state: State, recording: Kept) -> None:
    """Tell the recording how many rows it has now."""
    if isinstance(recording, TupleRecording):
        recording.take(int(state.rows["sorted"]), int(state.rows["deliveries"]))
