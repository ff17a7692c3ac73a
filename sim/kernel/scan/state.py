"""All that the scan knows: records and arrays, and which modules own them.

Tasks, partitions, operators and hosts have the cluster's numbers. A module owns what it alone writes; set-up (`setup`,
`saving`, `recording`) writes everything before the first instant, and makes arrays larger between two calls of the
kernel. A test reads the sources and compares.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.entities import (
    CHECKPOINT,
    EDGE,
    MESSAGE_ROW,
    OPERATOR,
    PARTITION,
    SOURCE,
    SOURCE_ARRIVAL,
)
from sim.kernel.scan.checkpoints import REMOTE_LINK, ROUND, SAVED_ROWS
from sim.kernel.scan.entities import BOX, PARCEL, QUEUED, SERVER, SLOT, STAGE
from sim.kernel.scan.event_time import LISTENER
from sim.kernel.scan.heap import AGENDA, HAPPENING
from sim.kernel.scan.histograms import BINNING, HISTOGRAM_COUNTS, HISTOGRAM_PAGES
from sim.kernel.scan.kept import ARRIVAL, LOG_POOL, SAVED, SAVING, SERVED
from sim.kernel.scan.links import CHUNK_POOL, LINK, QUEUE
from sim.kernel.scan.recent import RECENT_POOL, RECENT_TUPLE, RECENTS_OF
from sim.kernel.scan.rows import ROW_COLUMNS, ROWS, SPAN_ROW
from sim.kernel.scan.send import MESSAGES, SENT
from sim.kernel.scan.span import PROGRESS, REQUESTS, SPAN
from sim.kernel.scan.straight import SHUFFLING
from sim.kernel.scan.windows import CELL, CELL_POOL, NOTE, PANE, PANES_OF, POOL
from sim.kernel.tools.draws import OPERATOR_DRAWS
from sim.kernel.tools.pointer import Room, State, arrays_of, records_of

_i8, _i4 = np.dtype("i8"), np.dtype("i4")

# What the plan fixes. It stands here, as `setup` is above this module.
OPTIONS = np.dtype(
    [
        ("latency", "i8"),
        ("operators", "i8"),
        ("tasks", "i8"),
        ("ranks", "i8"),  # by which arrivals of an instant are put in order: tasks that send, or late items as well
        ("block", "i8"),  # arrivals that a source has at hand at the most
        ("keeps_histograms", "u1"),  # else a row of each service is kept, in the order in which they end
        ("keeps_outputs", "u1"),  # until receivers have saved them
        ("always_full", "u1"),  # checkpoints hold the whole state
        ("counts_states", "u1"),  # the sizes of states are known, although no checkpoints are taken
        ("placed", "u1"),  # key groups have next tasks
        ("goes_back", "u1"),  # a watermark may reach tasks with lower numbers at once (`event_time`)
        ("aside", "i8"),  # the queue of what waits for them there
        ("pools", "u1"),  # some tasks that outputs are kept for have several threads
    ],
    align=True,
)

ROOMS = (
    Room("span", {"span": SPAN, "progress": PROGRESS, "requests": REQUESTS}, {"slots": SLOT}),
    Room(
        "send",
        {"sent": SENT},
        {
            "messages": MESSAGES,  # of each second of the span
            "message_rows": MESSAGES,
            "sources": SOURCE,
            "operators": OPERATOR,
            "boxes": BOX,
            "box": PARCEL,
            "outputs": PARCEL,  # of a batch; `partition` and `origin` are those that send
        },
    ),
    Room(
        "straight",
        arrays={
            "done": SLOT,  # a batch of services; `origin` is the task
            "ids": np.dtype("u8"),  # of a batch: those that are served, or those of its outputs
            "keys": _i8,  # of its outputs; before there are any, sojourns
            "drawn": _i8,  # of a batch: service times, then waits, then the partitions that get its outputs
        },
    ),
    Room("links", {"chunk_pool": CHUNK_POOL}, {"queues": QUEUE, "chunks": QUEUED, "chunk_next": _i4, "links": LINK}),
    Room("entities", arrays={"servers": SERVER, "frees": _i8}),
    Room(
        "order",
        arrays={"ranks": _i4, "refs": _i4, "kept": _i4, "times": _i8, "order": _i8, "spare": _i8, "counts": _i4},
    ),
    Room("rows", {"rows": ROWS}, {"visit_rows": SPAN_ROW, **ROW_COLUMNS}),
    Room(
        "histograms",
        {"binning": BINNING},
        {**dict.fromkeys(HISTOGRAM_COUNTS, _i8), **dict.fromkeys(HISTOGRAM_PAGES, _i4)},
    ),
    Room(
        "checkpoints",
        {"round": ROUND, "remote_link": REMOTE_LINK, "saved_rows": SAVED_ROWS},
        {
            "round_partitions": _i8,
            "round_offsets": _i8,
            "task_marks": _i8,
            "partition_marks": _i8,
            "checkpoint_rows": CHECKPOINT,
            "count_rows": MESSAGE_ROW,
        },
    ),
    Room("heap", {"agenda": AGENDA}, {"happenings": HAPPENING}),
    Room(
        "kept",
        {"log_pool": LOG_POOL},
        {"saved": SAVED, "key_epochs": _i4, "log": ARRIVAL, "log_served": SERVED, "log_next": _i4},
    ),
    Room(
        "event_time",
        arrays={
            "apart": SLOT,  # of a batch: watermarks, and what enters windows, in order
            "listeners": LISTENER,
            "voices": _i8,
            "next_ticks": _i8,  # of each source
            "timer_ticks": _i8,  # of each partition: outputs of its timer
        },
    ),
    Room("recent", {"recent_pool": RECENT_POOL}, {"recents": RECENT_TUPLE, "recents_of": RECENTS_OF}),
    Room(
        "windows",
        {"pane_pool": POOL, "note_pool": POOL, "cell_pool": CELL_POOL},
        {
            "panes": PANE,
            "panes_of": PANES_OF,
            "notes": NOTE,
            "cells": CELL,
            "places": _i4,  # two for each cell: one more than the number of a cell in its block, or 0
            "free_blocks": _i8,  # by size; the key of their first cell leads to the next one
        },
    ),
    Room(
        "setup",
        {"options": OPTIONS},
        {
            "stages": STAGE,
            "stage_tasks": _i8,  # live tasks, operator by operator
            "topological": _i8,
            "draws": OPERATOR_DRAWS,
            "edges": EDGE,
            "fan": _i8,  # most tuples that one service sends over an edge
            "shuffles": SHUFFLING,
            "key_tables": _i4,
            "cumulative": np.dtype("f8"),
            "quantiles": np.dtype("f8"),
            "arrivals": SOURCE_ARRIVAL,
            "partitions": PARTITION,
            "partition_task": _i4,
            "partition_index": _i4,
            "partition_operator": _i4,
            "partition_host": _i4,
            "held_from": _i8,  # of the next task of each partition: since when what is born is for it
            "goals": _i4,  # and the task
            "task_host": _i4,
            "saving": SAVING,
            "targets": _i4,
            "partitions_here": _i4,
        },
    ),
)

# Which other modules write it, and why.
ALSO_WRITTEN_BY: dict[str, tuple[str, ...]] = {
    # An operator is done by several modules in turn, each of which says how far it has come and what it lacks.
    "span": ("send",),
    "progress": ("event_time", "links", "order", "send"),
    "requests": ("event_time", "links", "rows", "send", "windows"),
    # A batch of tuples goes from one loop to the next.
    "done": ("event_time", "span"),
    "ids": ("span",),
    "keys": ("histograms",),
    "drawn": ("histograms", "span"),
    "box": ("span", "straight", "windows"),
    "boxes": ("links", "span", "straight"),
    "sent": ("straight",),
    # What is put in order is written by who wants it in order.
    "times": ("histograms", "rows", "send"),
    "ranks": ("rows",),
    "counts": ("rows",),
    "spare": ("send",),
    "queues": ("span",),  # it takes a piece off a queue at once
    "servers": ("checkpoints", "span"),  # writing a snapshot occupies a task, as a service does
    "saved": ("checkpoints",),  # counts grow with tuples, and are cut at checkpoints
    "log_served": ("checkpoints",),
    "listeners": ("windows",),  # when the next window ends
    "outputs": ("windows",),
}

RECORDS = records_of(ROOMS)
SCAN_ARRAYS = arrays_of(ROOMS)


class ScanState(
    State, arrays=SCAN_ARRAYS, records=RECORDS, type_name="holdfast.ScanState", saves=False, watermarks=False
):
    """The state of the scan.

    In compiled code `saves` and `watermarks` are constants: whether checkpoints are taken, and whether watermarks are
    sent or timers emit. Not both are.
    """

    saves = False
    watermarks = False

    def __init__(self, **found: np.ndarray) -> None:
        """The same before the first span: no queue has a piece."""
        super().__init__(**found)
        self.chunk_pool["free"] = self.log_pool["free"] = self.round["written_at"] = NONE

    def save(self) -> None:
        """Checkpoints are taken."""
        self.saves = True
        self.layout = _SAVING

    def pass_watermarks(self) -> None:
        """An operator has a window or a timer."""
        self.watermarks = True
        self.layout = _TIMED


_SAVING = ScanState.layout.variant("holdfast.SavingScanState", saves=True, watermarks=False)
_TIMED = ScanState.layout.variant("holdfast.TimedScanState", saves=False, watermarks=True)
