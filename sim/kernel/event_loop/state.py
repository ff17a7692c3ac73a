"""What the compiled plane knows, as arrays of records; numbers of records take the place of references.

A pool (visits, nodes, chunks of the log) is one array and a list of free
places in it; when it runs low the kernel stops between two events and Python gives it a larger one.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.task_records import CORES, EVENT, HOST, LANE, OWN_EVENT, PARCEL, SERVICE_SHARE, TASK, VISIT
from sim.kernel.tools.draws import OPERATOR_DRAWS
from sim.kernel.tools.memory_layout import in_lines

NONE = -1
NEVER = 2**63 - 2  # after all instants of a run
RING = 256  # places in the rings of arrivals, a power of two
NODES = 4  # kept outputs in one piece of memory: they are read in order, and far apart in time
CHUNK = 32  # applied tuples in one chunk of a log

_i8, _i4, _u8, _f8, _b = "i8", "i4", "u8", "f8", "u1"

# One record: counters, heads of free lists, and what the kernel wants from Python.
RUN = np.dtype(
    [
        ("now", _i8),
        ("serial", _i8),  # events and sendings so far: equal ranks act in this order
        ("latency", _i8),
        ("drops", _b),  # duplicates are recognised and dropped
        ("replays", _b),  # outputs are kept for replay
        ("logs", _b),  # ids of applied tuples are kept: a host may fail
        ("clean", _b),  # no host has died yet: no tuple can come twice
        ("full_kind", _b),  # checkpoints are always full
        ("remote_store", _b),
        ("free_visit", _i4),
        ("free_node", _i4),
        ("free_chunk", _i4),
        ("free_transfer", _i4),
        ("visits_left", _i8),
        ("nodes_left", _i8),
        ("chunks_left", _i8),
        ("transfers_left", _i8),
        ("pairs_used", _i8),
        ("positions_used", _i8),
        ("keys_used", _i8),
        ("events", _i8),
        ("tasks", _i8),
        ("visit_rows", _i8),
        ("delivery_rows", _i8),
        ("visit_room", _i8),
        ("delivery_room", _i8),
        ("columns", _b),  # rows are written into the columns of the recording
        ("interval_length", _i8),  # of the recording; and how many there are
        ("intervals", _i8),
        ("passing", _i8),  # where what takes no time is counted just now
        ("passing_until", _i8),
        ("dropped_rows", _i8),
        ("checkpoint_rows", _i8),
        ("message_rows", _i8),
        ("second", _i8),  # begin of the second that `messages` counts
        ("messages", _i8, (6, 2)),  # by kind: number, bytes
        ("remote_free", _i8),
        ("remote_rate", _f8),
        ("fan_out", _i8),  # most tuples that one service can send
        ("need", _i8),  # sendings that the event at the head of the heap may need
        ("dispatch", _i4),  # task whose end of work was told: its cores are still to be dispatched
        ("token", _i8),
        ("notices", _i8),
        ("mark", _i8),
        ("round_begin", _i8),
        ("round_next", _i8),
        ("interval", _i8),
        ("asked", _i4),  # partition whose checkpoint host Python is to choose
        ("answer", _i4),
        ("refill", _i4),  # source whose arrivals have run out
        ("clock_number", _i8),  # number of the next control event
        ("budget", _i8),  # so many events have room for what they may need
        ("rows_full", _b),  # of all that an event needs room for only rows of tuples have none left
        ("near_first", _i8),
        ("near_count", _i8),
        ("vacant", _i8),  # place in `own` whose event was removed and that has no other, or NONE
        ("task_bits", _i8),  # of a number in `tournament` so many say the task, and the rest the instant,
        ("horizon", _i8),  # which is before this one
        ("far_first", _i8),
        ("far_count", _i8),
        ("drawn", _i8),  # of the arrivals in `far` so many, from the first on, have their service time
        ("warmup", _i8),
        ("paced", _b),  # some host has services whose pace changes: `services` has a place for each visit
        ("bounded", _b),  # a queue has a bound
        ("threads", _i8),  # of all tasks
        ("fair", _b),  # links are shared evenly
        ("free_parcel", _i4),
        ("parcels_left", _i8),
        ("lanes_used", _i8),
        ("spread", _i8),  # most windows that one tuple is in; 0: there are none
        ("mark_fan", _i8),  # most operators that a task sends watermarks to
        ("burst", _i8),  # sendings beyond `need` that the event at the head of the heap may need
        ("cells_left", _i8),
        ("panes_left", _i8),
        ("free_cell", _i4),
        ("free_pane", _i4),
        ("noted", _b),  # operators keep single tuples: joins, states of the last time, windows where a host may fail
        ("free_note", _i4),
        ("notes_left", _i8),
        ("special", _b),  # bounded queues, fair links, or partitions that are muted or have further instances
        ("free_rule", _i4),
        ("further", _i8),  # instances of key groups beside the planned ones: the last partitions
        ("duplicate", _i8),  # time that dropping a duplicate takes
        ("counts_load", _b),  # what each partition does is counted
        ("forgets", _b),  # ids that nobody can ask for again are forgotten
        ("oldest", _i8),  # no tuple that was created before is anywhere; ids that were are forgotten
        ("overdue", _i8),  # tuples that came all the same: there must be none
        ("acting", _i4),  # timed action that comes next at this instant, once what came up has been told
    ],
    align=True,
)

PARTITION = in_lines(
    [
        # what every tuple needs, in one line
        ("task", _i4),
        ("operator", _i4),
        ("live", _b),
        ("is_sink", _b),
        ("retired", _b),
        ("muted", _b),
        ("routed", _b),  # outputs for the group may go elsewhere than to this record
        ("saving", _b),
        ("index", _i4),
        ("first_key", _i4),  # where its keys begin in the table of keys
        ("applied", _i8),
        ("keys", _i8),
        ("touched", _i8),
        ("epoch", _i8),  # counts snapshots: a key of an older one is not touched
        ("base", _i8),  # of the applied tuples so many are forgotten: the log begins with the next
        # and the rest
        ("trimmed", _i8),
        ("at_snapshot", _i8),
        ("new_kept_bytes", _i8),
        ("kept_rows", _i8),
        ("held_n", _i8),
        ("stored_count", _i8),
        ("stored_bytes", _i8),  # state and kept outputs
        ("replay_pending", _i8),
        ("replayed_at", _i8),
        ("incarnation", _i8),
        ("replay_task", _i4),
        ("held_head", _i4),
        ("held_tail", _i4),
        ("planned", _i4),
        ("stored_checkpoint_host", _i4),
        ("log_first", _i4),
        ("log_last", _i4),
        ("out_pair", _i4),
        ("in_pair", _i4),
        ("stored", _b),
        ("is_source", _b),
        ("newest", _i8),  # event time
        ("newest_pending", _i8),  # the same of the checkpoint that is under way
        ("newest_stored", _i8),  # and of the stored one
        ("ticks", _i8),  # instants of the timer whose outputs were made
        ("ticks_due", _i8),  # instants that have come
        ("ticks_pending", _i8),
        ("ticks_stored", _i8),
        ("event", _i8),  # event time: the least of its channels
        ("event_pending", _i8),
        ("event_stored", _i8),
        ("behind", _i8),  # channels that are no further
        ("first_channel", _i8),
        ("channels", _i8),
        ("assigned_at", _i8),  # sendings before it was assigned to its task
        ("live_at", _i8),  # and live there
        ("freed_at", _i8),  # the same of when what had been held for it went in front
        ("owned_at", _i8),  # and the owner of its group
        ("past_first", _i4),  # nodes of the tuples in windows that had not ended at the stored checkpoint
        ("past_last", _i4),
        ("panes", _i4),
        ("recent_first", _i4),  # nodes of the tuples that a state with a window may keep
        ("recent_last", _i4),
        ("group", _i4),  # record that stands for all instances of the group
        ("owner", _i4),  # of the group: the instance that owns it
        ("routes", _i4),  # targets (`partition`) of outputs of a task (`origin`), as rules
        ("adopted_from", _i4),  # the partition whose first so many applied tuples it began with, or NONE
        ("adopted_count", _i8),
        ("announced", _b),  # the listener is told when the next checkpoint is stored
        ("saved", _b),  # it has stored a checkpoint of its own
        ("measured", _b),  # tuples are timed that arrive from an instant on; CALM: up to the first that does not wait
        ("measured_from", _i8),
        ("longest", _i8),
        ("came", _i8),  # for its statistic: tuples that came from upstream,
        ("served", _i8),  # services of tuples that ended,
        ("cpu", _i8),  # work of these and of writing snapshots,
        ("received", _i8),  # bytes from other hosts,
        ("sent", _i8),  # and to them
        ("instances", _i4),  # of the group that are not over, when ids were forgotten last
        ("lent", _b),  # it has handed its state down, when ids were forgotten last
        ("stored_from", _i4),  # the partition that has handed its state down: the stored checkpoint is its log, and the
        # pending outputs of its pairs; or NONE
    ]
)

# Outputs that one partition keeps for another, numbered as they come: those of the last stored checkpoint, of the one
# that is under way, and the live ones are three ranges of the same numbers.
PAIR = np.dtype(
    [
        ("first_seq", _i8),  # of the oldest node there is
        ("live_seq", _i8),
        ("end_seq", _i8),
        ("stored_begin", _i8),
        ("stored_end", _i8),
        ("pending_begin", _i8),
        ("pending_end", _i8),
        ("first", _i4),
        ("live", _i4),
        ("last", _i4),
        ("sender", _i4),
        ("receiver", _i4),
        ("next_out", _i4),
        ("next_in", _i4),
    ],
    align=True,
)

# `next` is that of the last one in a piece, or of the first in a free piece. `pos` is where the receiver has applied
# it, as long as no host has died; after that `positions` says so.
NODE = np.dtype([("id", _u8), ("created", _i8), ("key", _i8), ("pos", _i4), ("next", _i4)], align=True)

POSITION = np.dtype([("id", _u8), ("pos", _i8), ("partition", _i4)], align=True)  # partition NONE: empty place
KEY = np.dtype([("key", _i8), ("since", _i8), ("epoch", _i8), ("partition", _i4)], align=True)

# A checkpoint on its way to its host, or the note to upstream that follows.
TRANSFER = np.dtype(
    [
        ("incarnation", _i8),
        ("departure", _i8),
        ("bytes", _i8),
        ("count", _i8),
        ("stored_bytes", _i8),
        ("life", _i8),
        ("row", _i8),
        ("partition", _i4),
        ("origin", _i4),
        ("checkpoint_host", _i4),
        ("next", _i4),
    ],
    align=True,
)

SOURCE = np.dtype(
    [
        ("code", _u8),
        ("base", _i8),  # sequence number of the first arrival in the buffer
        ("have", _i8),  # sequence number after the last in the buffer
        ("offset", _i8),  # where the buffer begins
        ("room", _i8),
        ("arrived", _i8),  # sequence number of the next arrival event
        ("emitted", _i8),
        ("partition", _i4),
        ("more", _b),  # whether arrivals come after those in the buffer
        ("watermark", _i8),  # time between two
    ],
    align=True,
)

EDGE = np.dtype(
    [
        ("code", _u8),
        ("takes_code", _u8),
        ("copy_code", _u8),
        ("takes", _f8),
        ("partitions", _i8),
        ("first_partition", _i8),
        ("table", _i8),  # offset of the group of each key
        ("kind", _i4),
        ("down", _i4),
    ],
    align=True,
)

OPERATOR = np.dtype(
    [
        ("code", _u8),
        ("bytes", _i8),
        ("threads", _i8),
        ("state_entry", _f8),
        ("applied", _i8),  # tuples
        ("sum", _u8),  # of their ids: a fingerprint where no log is kept
        ("serialise", _f8),  # bytes per second, 0: costs nothing
        ("state_model", _i4),
        ("first_edge", _i4),
        ("edges", _i4),
        ("has_service", _b),
        ("is_source", _b),
        ("is_sink", _b),
        ("priority", _i8),
        ("buffer", _i8),  # places of a task, 0: no bound
        ("timed", _b),  # watermarks come to it, or from it
        ("windowed", _b),
        ("reckoned", _b),  # no operator upstream has a window
        ("window_code", _u8),
        ("length", _i8),
        ("slide", _i8),
        ("state_length", _i8),
        ("first_task", _i8),
        ("tasks", _i8),
        ("first_partition", _i8),
        ("partitions", _i8),
        ("joins", _i8),  # the first of the two operators whose tuples it brings together, or NONE
        ("timer", _i8),  # time between two outputs of its timer
        ("timer_code", _u8),
    ],
    align=True,
)

# Event time: what came from a partition that sends to a partition, now and in its checkpoints; a tuple that is kept,
# with the input of a join that it came over; a window of a partition; a key in a window, with the tuples of both inputs
# of a join.
CHANNEL = np.dtype([("sender", _i8), ("event", _i8), ("pending", _i8), ("stored", _i8)], align=True)
NOTE = np.dtype([("id", _u8), ("created", _i8), ("key", _i8), ("pos", _i8), ("side", _i4), ("next", _i4)], align=True)
PANE = np.dtype([("window", _i8), ("cells", _i8), ("first", _i4), ("last", _i4), ("next", _i4)], align=True)
CELL = np.dtype(
    [
        ("key", _i8),
        ("newest", _i8),
        ("joined", _i8, (2,)),
        ("pane", _i4),
        ("next", _i4),
        ("first", _i4, (2,)),
        ("last", _i4, (2,)),
    ],
    align=True,
)

VISIT_ROW = np.dtype([("operator", _i8), ("task", _i8), ("arrival", _i8), ("start", _i8), ("end", _i8)])
DELIVERY_ROW = np.dtype([("operator", _i8), ("created", _i8), ("delivered", _i8)])
SOURCE_ARRIVAL = np.dtype([("time", _i8), ("key", _i8)], align=True)
DROPPED = np.dtype(
    [("operator", _i8), ("task", _i8), ("arrival", _i8), ("start", _i8), ("at", _i8), ("reason", _i8)], align=True
)
CHECKPOINT = np.dtype(
    [
        ("operator", _i8),
        ("partition", _i8),
        ("owner", _i8),
        ("checkpoint_host", _i8),
        ("taken", _i8),
        ("stored", _i8),
        ("bytes", _i8),
        ("full", _i8),
    ],
    align=True,
)
# NONE: all; of a table entry `since` is how much was sent before it began.
RULE = np.dtype([("since", _i8), ("partition", _i4), ("origin", _i4), ("next", _i4)], align=True)
TIMED = np.dtype([("time", _i8), ("verb", _i8), ("last", _i8), ("of", _i8, (7,))], align=True)
MESSAGE_ROW = np.dtype([("second", _i8), ("kind", _i8), ("count", _i8), ("bytes", _i8)], align=True)

# Kinds of events, edges, states, messages, visits.
ARRIVE, END, CREATE, REPLAY, ROUND, AT_REMOTE, STORED, TRIM = range(8)
DUE, STALE = 8, 9
CREDIT, GO_ON, DEPART = 10, 11, 12
TICK, MARKED, TIMER, PASSED = 13, 14, 15, 16
COME, UNPAUSE, ACT = 17, 18, 19  # of actions: no others come after them
BROADCAST, FORWARD, SHUFFLE, GROUPED, KEYED = range(5)
NO_STATE, PER_KEY, PER_TUPLE, FIXED, RECENT = range(5)
DATA, LOCAL, REPLAYED, CHECKPOINTED, TRIMMED, SENT = range(6)
MESSAGE_KINDS = ("data", "local", "replay", "checkpoint", "trim", "protocol")
TUPLE, SNAPSHOT, CONTROL, MARK, CHORE, MAIL, BUNDLE = range(7)
CALM = 2  # in place of 1 in `measured`
REFUSED = 2  # in place of 1 in `arrived`: a duplicate that is being dropped
CRASHED, DUPLICATE, MOVED = range(3)
REASONS = ("crash", "duplicate", "moved")
TOLD_STORED = 1 << 32  # and a partition, among the notices

# Why the kernel returns.
LIMIT, TOLD, ASKED, WORKED, GROW, REFILL = range(6)


ARRAYS: dict[str, np.dtype] = {
    "run": RUN,
    "heap": EVENT,
    "own": OWN_EVENT,
    "tournament": np.dtype("i8"),
    "near": EVENT,
    "far": EVENT,
    "ahead_ids": np.dtype("u8"),  # of tuples whose service times are drawn together, with the stream of the draw
    "ahead_mean": np.dtype("f8"),  # of the law [ns], 0: it is another law
    "ahead_ns": np.dtype("i8"),  # what was drawn
    "visits": VISIT,
    "tasks": TASK,
    "cores": CORES,
    "hosts": HOST,
    "partitions": PARTITION,
    "operators": OPERATOR,
    "draws": OPERATOR_DRAWS,
    "edges": EDGE,
    "key_tables": np.dtype("i4"),
    "cumulative": np.dtype("f8"),
    "pairs": PAIR,
    "pair_index": np.dtype("i4"),
    "nodes": NODE,
    "positions": POSITION,
    "keys": KEY,
    "log": np.dtype("u8"),
    "log_next": np.dtype("i4"),
    "log_newest": np.dtype("i8"),
    "transfers": TRANSFER,
    "sources": SOURCE,
    "arrivals": SOURCE_ARRIVAL,
    "round_partitions": np.dtype("i8"),
    "round_offsets": np.dtype("i8"),
    "visit_rows": VISIT_ROW,
    "delivery_rows": DELIVERY_ROW,
    "passed": np.dtype("i8"),  # by operator, interval, and whether the warm-up is over
    "visit_operator": np.dtype("i4"),
    "visit_task": np.dtype("i4"),
    "visit_arrival": np.dtype("i8"),
    "visit_start": np.dtype("i8"),
    "visit_end": np.dtype("i8"),
    "delivery_operator": np.dtype("i4"),
    "delivery_created": np.dtype("i8"),
    "delivery_at": np.dtype("i8"),
    "dropped_rows": DROPPED,
    "checkpoint_rows": CHECKPOINT,
    "message_rows": MESSAGE_ROW,
    "notices": np.dtype("i8"),
    "services": SERVICE_SHARE,
    "parcels": PARCEL,
    "lanes": LANE,
    "lane_index": np.dtype("i4"),
    "notes": NOTE,
    "channels": CHANNEL,
    "cells": CELL,
    "cell_index": np.dtype("i4"),
    "panes": PANE,
    "rules": RULE,
    "timed": TIMED,
}
