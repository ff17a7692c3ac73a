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
from sim.kernel.scan.entities import BOX, PARCEL, QUEUED, SLOT, STAGE
from sim.kernel.scan.heap import AGENDA, HAPPENING
from sim.kernel.scan.histograms import BINNING, HISTOGRAM_COUNTS, HISTOGRAM_PAGES
from sim.kernel.scan.kept import ARRIVAL, LOG_POOL, SAVED, SAVING, SERVED
from sim.kernel.scan.links import LINK
from sim.kernel.scan.queues import CHUNK_POOL, QUEUE
from sim.kernel.scan.rows import ROW_COLUMNS, ROWS, SPAN_ROW
from sim.kernel.scan.send import MESSAGES, SENT
from sim.kernel.scan.servers import SERVER
from sim.kernel.scan.span import PROGRESS, REQUESTS, SPAN
from sim.kernel.scan.straight import SHUFFLING
from sim.kernel.tools.draws import OPERATOR_DRAWS
from sim.kernel.tools.pointer import Room, State, arrays_of, records_of

_i8, _i4 = np.dtype("i8"), np.dtype("i4")

ROOMS = (
    # An operator is done by all of these in turn, each of which says how far it has come and what it lacks.
    Room(
        ("span", "send", "links", "gather", "rows", "histograms"),
        {"span": SPAN, "progress": PROGRESS, "requests": REQUESTS},
    ),
    Room(("send", "straight"), {"sent": SENT}, {"messages": MESSAGES, "message_rows": MESSAGES}),
    Room(("queues", "span"), {"chunk_pool": CHUNK_POOL}, {"queues": QUEUE, "chunks": QUEUED, "chunk_next": _i4}),
    Room(
        ("rows",),
        {"rows": ROWS},
        {"visit_rows": SPAN_ROW, **ROW_COLUMNS},
    ),
    Room(
        ("histograms",),
        {"binning": BINNING},
        {**dict.fromkeys(HISTOGRAM_COUNTS, _i8), **dict.fromkeys(HISTOGRAM_PAGES, _i4)},
    ),
    Room(
        ("checkpoints",),
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
    Room(("heap",), {"agenda": AGENDA}, {"happenings": HAPPENING}),
    # Counts of tuples are written as they are done, and read and cut at checkpoints.
    Room(
        ("kept", "checkpoints"),
        {"log_pool": LOG_POOL},
        {"saved": SAVED, "key_epochs": _i4, "log": ARRIVAL, "log_served": SERVED, "log_next": _i4},
    ),
    Room(("links",), {}, {"links": LINK}),
    Room(
        ("servers", "span", "checkpoints"),
        {},
        {"servers": SERVER, "slots": SLOT, "frees": _i8},
    ),
    # What is on its way to an operator; behind the last operator, what is in front of the links.
    Room(("send", "straight", "span", "links"), {}, {"boxes": BOX, "box": PARCEL}),
    # A batch of tuples, which goes from one loop to the next.
    Room(
        ("span", "straight", "draws", "histograms", "send"),
        {},
        {
            "done": SLOT,  # `origin` is the task
            "outputs": PARCEL,  # `partition` and `origin` are those that send
            "ids": np.dtype("u8"),  # those that are served, or those of its outputs
            "keys": _i8,  # of its outputs; before there are any, sojourns
            "drawn": _i8,  # service times, then waits, then the partitions that get its outputs
        },
    ),
    # Where tuples, or rows, are put in order.
    Room(
        ("order", "gather", "rows", "histograms", "send"),
        {},
        {"times": _i8, "ranks": _i4, "refs": _i4, "kept": _i4, "order": _i8, "spare": _i8, "counts": _i4},
    ),
    Room(("send",), {}, {"sources": SOURCE, "operators": OPERATOR}),
)
# What the plan fixes: nobody writes it.
FIXED: dict[str, np.dtype] = {
    "stages": STAGE,
    "topological": _i8,
    "draws": OPERATOR_DRAWS,
    "edges": EDGE,
    "fan": _i8,  # most tuples that one service sends over an edge
    "shuffles": SHUFFLING,
    "key_tables": _i4,
    "cumulative": np.dtype("f8"),
    "arrivals": SOURCE_ARRIVAL,
    "partitions": PARTITION,
    "partition_task": _i4,
    "partition_index": _i4,
    "partition_operator": _i4,
    "partition_host": _i4,  # partitions do not move
    "task_host": _i4,
    "saving": SAVING,
}
OPTIONS = np.dtype(
    [
        ("latency", "i8"),
        ("operators", "i8"),
        ("tasks", "i8"),
        ("block", "i8"),  # arrivals that a source has at hand at the most
        ("keeps_histograms", "u1"),  # else a row of each service is kept, in the order in which they end
        ("keeps_outputs", "u1"),  # until receivers have saved them
        ("always_full", "u1"),  # checkpoints hold the whole state
        ("pools", "u1"),  # some tasks that outputs are kept for have several threads
    ],
    align=True,
)

RECORDS = records_of(ROOMS) | {"options": OPTIONS}
SCAN_ARRAYS = FIXED | arrays_of(ROOMS)


class ScanState(State, arrays=SCAN_ARRAYS, records=RECORDS, type_name="holdfast.ScanState", saves=False):
    """The state of the scan; in compiled code `saves` is a constant: whether checkpoints are taken."""

    saves = False

    def __init__(self, **found: np.ndarray) -> None:
        """The same before the first span: no queue has a piece."""
        super().__init__(**found)
        self.chunk_pool["free"] = self.log_pool["free"] = self.round["written_at"] = NONE

    def save(self) -> None:
        """Checkpoints are taken."""
        self.saves = True
        self.numba_type = _SAVING


_SAVING = ScanState.numba_type.variant("holdfast.SavingScanState", saves=True)
