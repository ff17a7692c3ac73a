"""What the scan knows, as arrays of records. Tasks, partitions, operators and hosts have the cluster's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sim.kernel.event_loop.state import CHECKPOINT, EDGE, MESSAGE_ROW, OPERATOR, PARTITION, SOURCE, SOURCE_ARRIVAL
from sim.kernel.tools.draws import OPERATOR_DRAWS
from sim.kernel.tools.pointer import State

CHUNK = 64  # tuples in one piece of a queue
DONE, GROW, REFILL, FLUSH, CHECKPOINTS_FULL = range(5)  # why the scan stops
LOG_CHUNK = 64  # arrivals in one piece of a log

_i8, _i4, _u8, _f8, _b = "i8", "i4", "u8", "f8", "u1"

# One record: where the scan is, and what it wants from Python.
SCAN = np.dtype(
    [
        ("begin", _i8),  # everything before has been done
        ("end", _i8),  # of the span that is being done; `begin` if none is
        ("length", _i8),  # of the next span, if nothing cuts it
        ("shortest", _i8),  # of a span
        ("aim", _i8),  # tuples of one operator in a span
        ("latency", _i8),
        ("operators", _i8),
        ("tasks", _i8),
        ("keeps_histograms", _b),  # histograms are kept; else a row of each service, in the order in which they end
        ("place", _i8),  # in the order of operators
        ("phase", _i8),
        ("next", _i8),  # what the phase comes to next
        ("due", _i8),
        ("done", _i8),  # services that are completed but for their effects
        ("most", _i8),  # tuples of one operator in this span so far
        ("need", _i8),  # completed services that there must be room for
        ("refill", _i8),
        ("block", _i8),  # arrivals that a source has at hand at the most
        ("visit_rows", _i8),  # of the span
        ("sorted_rows", _i8),
        ("delivery_rows", _i8),
        ("message_rows", _i8),
        ("free_chunk", _i4),
        ("local", _i8),  # messages of the current operator and second
        ("data", _i8),
        ("second", _i8),  # that they are counted for
    ],
    align=True,
)

# A tuple for a partition; `at` is when it arrives, or when it was handed to the link. `origin` is the task that sent
# it, or where checkpoints are taken the partition.
_PARCEL = [("at", _i8), ("id", _u8), ("created", _i8), ("key", _i8), ("partition", _i4), ("origin", _i4)]
PARCEL = np.dtype(_PARCEL, align=True)
QUEUED = np.dtype([*_PARCEL, ("ns", _i8)], align=True)  # that waits for a task, and how long its service takes

# A tuple in service, or done with it.
SLOT = np.dtype([*_PARCEL, ("start", _i8), ("end", _i8)], align=True)
BATCH = (
    1024  # tuples that are done together: one short loop after the other overlaps what waits for memory and logarithms
)

# A service that ended in the span.
SPAN_ROW = np.dtype(
    [
        ("arrival", _i8),
        ("start", _i8),
        ("end", _i8),
        ("created", _i8),
        ("task", _i4),
        ("operator", "i2"),
        ("at_once", _b),  # it takes no time
        ("sink", _b),
    ],
    align=True,
)

# What the histograms are about: instants from the warm-up on, intervals of a length.
BINNING = np.dtype([("warmup", _i8), ("length", _i8), ("intervals", _i8)])

SERVER = np.dtype(
    [
        ("free", _i8),  # when the one thread is free
        ("busy", _i8),
        ("speed", _f8),
        ("operator", _i4),
        ("host", _i4),
        ("threads", _i4),
        ("serving", _i4),
        ("first_thread", _i4),  # in `slots` and `frees`
        ("limited", _b),  # the link of the host has a bandwidth
    ],
    align=True,
)

QUEUE = np.dtype([("n", _i8), ("head", _i4), ("head_place", _i4), ("tail", _i4), ("tail_place", _i4)], align=True)

LINK = np.dtype([("free", _i8), ("rate", _f8)], align=True)

# What is on its way to an operator; that behind the last operator is in front of the links.
BOX = np.dtype([("first", _i8), ("room", _i8), ("n", _i8), ("sent", _i8), ("sum", _u8)], align=True)

STAGE = np.dtype(
    [
        ("first_task", _i4),
        ("tasks", _i4),
        ("first_source", _i4),
        ("sources", _i4),
        ("first_edge", _i4),
        ("edges", _i4),
        ("limited", _b),  # a task sends over a link with a bandwidth
        ("scaled", _b),  # a task is on a host of another speed than 1
    ],
    align=True,
)

SHUFFLING = np.dtype([("factor", _u8), ("shift", _i8)])  # of an edge: how to divide by its partitions

MESSAGES = np.dtype([("second", _i8), ("local", _i8), ("data", _i8), ("local_bytes", _i8), ("data_bytes", _i8)])

# Where checkpoints are taken. One record:
CHECKPOINTING = np.dtype(
    [
        ("interval", _i8),
        ("round_begin", _i8),
        ("round_next", _i8),  # whose turn is next, in `round_partitions`
        ("keeps", _b),  # outputs are kept until receivers have saved them
        ("full_kind", _b),
        ("cuts", _b),  # some snapshots take time
        ("pools", _b),  # some tasks that outputs are kept for have several threads
        ("remote_rate", _f8),
        ("remote_free", _i8),
        ("written_at", _i8),  # the last snapshot that took time
        ("written_by", _i8),
        ("happenings", _i8),
        ("serial", _i8),
        ("checkpoint_rows", _i8),
        ("count_rows", _i8),
        ("mark", _i8),
        ("free_log", _i8),
        ("log_left", _i8),
        ("log_need", _i8),
    ],
    align=True,
)

# A partition. Of what is counted twice, "after" is what ended at `instant` or later. What each tuple needs comes first.
SAVED = np.dtype(
    [
        ("instant", _i8),  # of its next turn
        ("sent", _i8),
        ("sent_after", _i8),
        ("applied", _i8),
        ("applied_after", _i8),
        ("first_key", _i8),  # where its key 0 would be in `key_epochs`, or NONE
        ("arrived", _i8),  # in the log of arrivals
        ("log_first", _i4),
        ("log_last", _i4),
        ("epoch", _i8),  # of its turn; a key that was touched since the last snapshot is of `low` or later
        ("low", _i8),
        ("keys", _i8),
        ("keys_after", _i8),
        ("touched", _i8),  # keys, since the last snapshot and before `instant`
        ("touched_after", _i8),
        ("touched_more", _i8),  # of these those that had not been touched since the last snapshot
        ("pool", _b),  # its tuples are not applied in the order in which they came
        ("is_sink", _b),
        ("on_its_way", _b),
        ("stored", _b),
        ("checkpoint_host", _i4),
        ("forgotten", _i8),  # outputs that receivers have saved
        ("applied_then", _i8),  # at the last snapshot
        ("sent_then", _i8),
        ("stored_bytes", _i8),
        ("trimmed", _i8),  # of the arrivals upstream was told to forget
        ("notes", _i8),  # to upstream that are under way
        ("log_number", _i8),  # of the first piece, all counted that there ever were
        ("start_piece", _i4),
        ("started", _i8),  # of a pool: services
    ],
    align=True,
)

SAVING = np.dtype(
    [("partitions", _i8), ("senders", _i8)]
)  # an operator: its partitions, and the tasks that send to them
ARRIVAL = np.dtype([("at", _i8), ("sender", _i4)], align=True)
SERVED = np.dtype(
    [("end", _i8), ("forgotten", _i8)]
)  # an arrival at a pool: when its service ends, and upstream forgot
HAPPENING = np.dtype(
    [
        ("time", _i8),
        ("rank", _i8),
        ("serial", _i8),
        ("count", _i8),  # applied tuples that the checkpoint covers; of a pool its instant
        ("bytes", _i8),  # to restore; of a note the first arrival that upstream had not been told to forget
        ("row", _i8),  # of a note the first task of which it does not count what it sent at that very instant
        ("partition", _i4),
        ("kind", _i4),
    ],
    align=True,
)

# Columns of the rows in order, and arrays of histograms, flat: those of `sim.recording`.
VISIT_COLUMNS = ("row_operator", "row_task", "row_arrival", "row_start", "row_end")
DELIVERY_COLUMNS = ("delivered_operator", "delivered_created", "delivered_at")
ROW_COLUMNS = {
    name: np.dtype("i4" if name.endswith(("operator", "task")) else "i8") for name in VISIT_COLUMNS + DELIVERY_COLUMNS
}
HISTOGRAM_PAGES = ("directory", "pages")
HISTOGRAM_COUNTS = (
    "sums",
    "extremes",
    "waits",
    "sojourns",
    "ended",
    "sink_of",
    "latency_sums",
    "latency_extremes",
    "latencies",
    "intervals",
    "used",
)

SCAN_ARRAYS: dict[str, np.dtype] = {
    "run": SCAN,
    "stages": STAGE,
    "topological": np.dtype("i8"),
    "operators": OPERATOR,
    "draws": OPERATOR_DRAWS,
    "edges": EDGE,
    "fan": np.dtype("i8"),  # most tuples that one service sends over an edge
    "shuffles": SHUFFLING,
    "key_tables": np.dtype("i4"),
    "cumulative": np.dtype("f8"),
    "sources": SOURCE,
    "arrivals": SOURCE_ARRIVAL,
    "partitions": PARTITION,
    "partition_task": np.dtype("i4"),
    "partition_index": np.dtype("i4"),
    "partition_operator": np.dtype("i4"),
    "partition_host": np.dtype("i4"),  # partitions do not move
    "task_host": np.dtype("i4"),
    "servers": SERVER,
    "slots": SLOT,
    "frees": np.dtype("i8"),
    "ids": np.dtype("u8"),  # of a batch: those that are served, or those of its outputs
    "keys": np.dtype("i8"),  # of its outputs; before there are any, sojourns
    "drawn": np.dtype("i8"),  # of a batch: service times, then waits, then the partitions that get its outputs
    "done": SLOT,  # `origin` is the task
    "outputs": PARCEL,  # of a batch; `partition` and `origin` are those that send
    "queues": QUEUE,  # of tasks, then of links
    "chunks": QUEUED,  # of all queues, in pieces
    "chunk_next": np.dtype("i4"),
    "links": LINK,
    "boxes": BOX,
    "box": PARCEL,
    "times": np.dtype("i8"),
    "ranks": np.dtype("i4"),
    "refs": np.dtype("i4"),
    "kept": np.dtype("i4"),
    "order": np.dtype("i8"),
    "spare": np.dtype("i8"),
    "counts": np.dtype("i4"),
    "visit_rows": SPAN_ROW,
    **ROW_COLUMNS,
    "binning": BINNING,
    **dict.fromkeys(HISTOGRAM_COUNTS, np.dtype("i8")),
    **dict.fromkeys(HISTOGRAM_PAGES, np.dtype("i4")),
    "messages": MESSAGES,  # of each second of the span
    "message_rows": MESSAGES,
    "checkpointing": CHECKPOINTING,
    "saved": SAVED,
    "saving": SAVING,
    "key_epochs": np.dtype("i4"),
    "log": ARRIVAL,
    "log_served": SERVED,
    "log_next": np.dtype("i4"),
    "round_partitions": np.dtype("i8"),
    "round_offsets": np.dtype("i8"),
    "happenings": HAPPENING,
    "task_marks": np.dtype("i8"),
    "partition_marks": np.dtype("i8"),
    "checkpoint_rows": CHECKPOINT,
    "count_rows": MESSAGE_ROW,
}


class ScanState(State, arrays=SCAN_ARRAYS, type_name="holdfast.ScanState", saves=False):
    """All arrays of the scan by name; in compiled code `s.saves` is a constant: whether checkpoints are taken."""

    saves = False

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def save(self) -> None:
        """Checkpoints are taken."""
        self.saves = True
        self.numba_type = _SAVING


_SAVING = type(ScanState.numba_type)("holdfast.SavingScanState", SCAN_ARRAYS, saves=True)
