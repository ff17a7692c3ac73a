"""All that the event loop knows: records and arrays, and which modules own them.

Numbers of records take the place of references. A module owns what it alone writes: its records, each of which there is
once, and its arrays. Things that pass through several modules (an item in a queue, a task, a partition, a host) have
their records in `entities`. Set-up (`setup`, `pools`) writes everything before the first
instant, and makes arrays larger between two calls of the kernel. A test reads the sources and compares.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.anchors import ACKING, ANCHOR, HELD_ACK, HELD_ACKS, PENDING, ROOT
from sim.kernel.event_loop.births import BIRTH
from sim.kernel.event_loop.buffers import IDS, NODE, UNPINNED
from sim.kernel.event_loop.channels import MESSAGES, REMOTE_LINK
from sim.kernel.event_loop.checkpoints import CHECKPOINTING
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.entities import (
    CHECKPOINT,
    CORES,
    EDGE,
    HOST,
    MESSAGE_ROW,
    OPERATOR,
    PARTITION,
    SOURCE,
    SOURCE_ARRIVAL,
    TASK,
    VISIT,
)
from sim.kernel.event_loop.events import CLOCK, EVENT, OWN_EVENT, QUEUE
from sim.kernel.event_loop.fair_links import FAIR_LINKS, LANE, PARCEL
from sim.kernel.event_loop.free_lists import CONFIRMATION, POOL, TRANSFER
from sim.kernel.event_loop.frontiers import FRONTIER
from sim.kernel.event_loop.hash_tables import KEY, PAIR, POSITION, TABLES
from sim.kernel.event_loop.heard import CHANNEL, HEARING, SPEAKER, VOICE
from sim.kernel.event_loop.loop import REQUESTS
from sim.kernel.event_loop.notices import TOLD
from sim.kernel.event_loop.open_keys import OPEN_KEY, OPEN_KEYS
from sim.kernel.event_loop.outbox import WITHHELD
from sim.kernel.event_loop.passages import OVERTAKING
from sim.kernel.event_loop.room import ROOM
from sim.kernel.event_loop.rows import DELIVERY_ROW, RECORDING, VISIT_ROW
from sim.kernel.event_loop.rules import RULE
from sim.kernel.event_loop.service_times import AHEAD
from sim.kernel.event_loop.setup import OPTIONS
from sim.kernel.event_loop.sharing import SERVICE_SHARE
from sim.kernel.event_loop.tasks import DROPPED, DROPS
from sim.kernel.event_loop.timed_actions import ACTIONS, TIMED
from sim.kernel.event_loop.trimming import ROUND_AT, SLICES, SLICING
from sim.kernel.event_loop.unfinished import UNFINISHED
from sim.kernel.event_loop.verbs import CLUSTER
from sim.kernel.event_loop.windows import CELL, EVENT_TIME, NOTE, PANE
from sim.kernel.tools.draws import OPERATOR_DRAWS
from sim.kernel.tools.pointer import Room, State, arrays_of, records_of

_i8, _i4, _u8, _f8 = np.dtype("i8"), np.dtype("i4"), np.dtype("u8"), np.dtype("f8")

# Records stand in memory in this order: first those that every tuple needs.
ROOMS = (
    Room(
        "events",
        {"clock": CLOCK, "queue": QUEUE},
        {"heap": EVENT, "own": OWN_EVENT, "tournament": _i8, "near": EVENT, "far": EVENT},
    ),
    Room("free_lists", {"visit_pool": POOL, "transfer_pool": POOL}),
    Room("room", {"room": ROOM}),
    Room("loop", {"requests": REQUESTS}),
    Room("notices", {"told": TOLD}, {"notices": _i8}),
    Room(
        "setup",
        {"options": OPTIONS},
        {
            "draws": OPERATOR_DRAWS,
            "postponements": OPERATOR_DRAWS,
            "polls": OPERATOR_DRAWS,
            "input_draws": OPERATOR_DRAWS,
            "edges": EDGE,
            "key_tables": _i4,
            "cumulative": _f8,
            "quantiles": _f8,
        },
    ),
    # Tuples whose service times are drawn together: ids with the stream of the draw, means of the law [ns] (0: it is
    # another law), and what was drawn.
    Room("service_times", {"ahead": AHEAD}, {"ahead_ids": _u8, "ahead_mean": _f8, "ahead_ns": _i8}),
    Room(
        "rows",
        {"recording": RECORDING},
        {
            "visit_rows": VISIT_ROW,
            "delivery_rows": DELIVERY_ROW,
            "passed": _i8,  # by operator, interval, and whether the warm-up is over
            "visit_operator": _i4,
            "visit_task": _i4,
            "visit_arrival": _i8,
            "visit_start": _i8,
            "visit_end": _i8,
            "delivery_operator": _i4,
            "delivery_created": _i8,
            "delivery_at": _i8,
        },
    ),
    Room(
        "channels", {"messages": MESSAGES, "remote_link": REMOTE_LINK}, {"visits": VISIT, "message_rows": MESSAGE_ROW}
    ),
    Room(
        "buffers",
        {"node_pool": POOL, "chunk_pool": POOL, "ids": IDS},
        {
            "nodes": NODE,
            "piece_next": _i4,
            "node_slices": _i4,
            "log": _u8,
            "log_next": _i4,
            "log_newest": _i8,
            "operators": OPERATOR,
        },
    ),
    Room(
        "hash_tables",
        {"tables": TABLES},
        {"pairs": PAIR, "pair_index": _i4, "positions": POSITION, "keys": KEY, "entry_bytes": _i8},
    ),
    Room("open_keys", {"open_keys": OPEN_KEYS}, {"open_table": OPEN_KEY, "closed_keys": np.dtype("u1")}),
    Room("tasks", {"drops": DROPS}, {"tasks": TASK, "cores": CORES, "dropped_rows": DROPPED}),
    Room(
        "checkpoints",
        {"checkpointing": CHECKPOINTING},
        {
            "transfers": TRANSFER,
            "checkpoint_rows": CHECKPOINT,
            "round_partitions": _i8,  # the round: whose turn is when
            "round_offsets": _i8,
        },
    ),
    Room("unfinished", arrays={"unfinished": UNFINISHED}),  # by partition and slot
    Room("restoring", arrays={"channel_marks": _i8}),  # by channel and slot: what of it is in these snapshots
    Room("verbs", {"cluster": CLUSTER}, {"hosts": HOST}),
    Room("instances", arrays={"partitions": PARTITION}),
    Room("outbox", arrays={"withheld": WITHHELD}),  # by task and operator, once it has withheld something
    Room("placing", arrays={"routing": _i4}),  # by partition, for each task that was told where groups are
    # That control waits for; and by operator, by operator: whether the second is the first or above it.
    Room("frontiers", arrays={"frontiers": FRONTIER, "above": np.dtype("u1")}),
    Room("sharing", arrays={"services": SERVICE_SHARE}),
    Room(
        "fair_links",
        {"parcel_pool": POOL, "fair_links": FAIR_LINKS},
        {"parcels": PARCEL, "lanes": LANE, "lane_index": _i4},
    ),
    Room(
        "windows",
        {"note_pool": POOL, "cell_pool": POOL, "pane_pool": POOL},
        {"notes": NOTE, "cells": CELL, "cell_index": _i4, "panes": PANE},
    ),
    Room("event_time", {"event_time": EVENT_TIME}),
    Room("births", {"birth": BIRTH}, {"births": _i8}),  # of the tuple in the same place of `visits`
    Room(
        "heard",
        {"hearing": HEARING},
        {
            "channels": CHANNEL,
            "senders": _i4,  # by operator or, where it has a forward input, by partition
            "speakers": SPEAKER,  # by group
            "voices": VOICE,  # by slot of the task that hears, by slot of the one that speaks
            "exceptions": _i8,  # by slot of the task that hears, by sender: what was heard, plus one; 0: see the voice
        },
    ),
    Room("rules", {"rule_pool": POOL}, {"rules": RULE}),
    Room("in_flight", {"overtaking": OVERTAKING}),
    Room("timed_actions", {"actions": ACTIONS}, {"timed": TIMED}),
    Room("roots", {"root_pool": POOL, "held_ack_pool": POOL, "acking": ACKING}, {"roots": ROOT, "pending": PENDING}),
    Room("anchors", arrays={"anchors": ANCHOR, "held_acks": HELD_ACK, "acks_at": HELD_ACKS}),
    Room(
        "trimming",
        {"confirmation_pool": POOL, "slicing": SLICING},
        {
            "confirmations": CONFIRMATION,
            "confirmed_counts": _i8,  # by confirmation, by level
            "slices": SLICES,
            "slice_marks": _i8,  # by partition, a ring: applied tuples at the end of a slice
            "confirmed": _i8,  # by partition, by level: so many of the first applied tuples
            "confirmed_to": _i8,  # and marks up to this number
            "acked": _i8,  # by pair, by level: outputs up to this number
            "acked_node": _i4,  # and the last of them, where it is not trimmed
            "rounds_at": ROUND_AT,  # by task
            "hops_to_end": _i8,  # by operator
        },
    ),
    Room("source_events", arrays={"sources": SOURCE}),
    Room("pools", arrays={"arrivals": SOURCE_ARRIVAL}),
)

# Which other modules write it, and why.
ALSO_WRITTEN_BY: dict[str, tuple[str, ...]] = {
    # The life of these leads through many modules. Who makes an item of a queue writes all of its record; after that
    # items are mostly chained (`next`). The fields of a task, a partition and a host stand in groups in `entities`.
    "visits": (
        "actions",
        "backpressure",
        "carrying",
        "checkpoints",
        "emitting",
        "event_time",
        "expiry",
        "fair_links",
        "free_lists",
        "in_flight",
        "loop",
        "outbox",
        "passages",
        "placing",
        "roots",
        "rules",
        "service_times",
        "sharing",
        "tasks",
        "timed_actions",
        "verbs",
        "watermarks",
    ),
    "tasks": (
        "actions",
        "backpressure",
        "carrying",
        "checkpoints",
        "event_time",
        "heard",
        "in_flight",
        "loop",
        "outbox",
        "passages",
        "placing",
        "rules",
        "sharing",
        "verbs",
        "windows",
    ),
    "partitions": (
        "actions",
        "buffers",
        "carrying",
        "channels",
        "checkpoints",
        "counting",
        "emitting",
        "event_time",
        "forgetting",
        "hash_tables",
        "heard",
        "in_flight",
        "loop",
        "open_keys",
        "passages",
        "placing",
        "restoring",
        "tasks",
        "trimming",
        "unfinished",
        "verbs",
        "windows",
    ),
    "unfinished": ("checkpoints", "restoring"),  # taken, stored, complete; event time
    "hosts": ("channels", "fair_links", "sharing", "tasks"),
    # A watermark, the end of a service, and a new task give one back; a chain holds its thread.
    "cores": ("event_time", "loop", "threads", "verbs"),
    "heap": ("sharing",),  # where the pace of a host changes for the first time the ends of its services are void
    "own": ("sharing",),
    "room": (
        "actions",
        "event_time",
        "loop",
        "tasks",
    ),  # windows say what they need; a drop takes room that was not counted
    "ids": ("forgetting",),  # what nobody can ask for again, and whether any is looked up
    "nodes": ("forgetting",),  # where receivers have applied what is kept, once nothing comes twice any more
    # Found by hashing, filled, copied where a state is handed down, and cut at the position of a source.
    "pairs": ("buffers", "in_flight", "instances", "trimming"),
    "cluster": ("instances",),  # one more instance
    "transfers": ("fair_links", "free_lists"),  # when it left a link that is shared evenly
    "channels": ("restoring",),  # checkpoints save event time
    "notes": ("restoring",),
    "rules": ("instances",),  # an instance that is over leaves the lists
    "sources": ("emitting", "reading"),  # what was emitted, and what control has read
    # A tuple that is sent belongs to the root of what it follows from.
    "acking": ("anchors",),
    "roots": ("anchors", "expiry"),
    "anchors": ("carrying", "expiry", "roots"),
    "held_acks": ("roots",),
    "acks_at": ("expiry", "roots"),
    "confirmation_pool": ("free_lists",),
    "confirmations": ("fair_links", "free_lists"),  # when it left a link that is shared evenly
}

RECORDS = records_of(ROOMS)
ARRAYS = arrays_of(ROOMS)

_HEADS = (
    *((name, "free") for name, dtype in RECORDS.items() if dtype is POOL),
    ("queue", "vacant"),
    ("requests", "dispatch"),
    ("requests", "refill"),
    ("checkpointing", "asked"),
    ("actions", "pending"),
    ("acking", "root"),
    ("overtaking", "token"),
)


class LoopState(State, arrays=ARRAYS, records=RECORDS, type_name="holdfast.LoopState", extended=False):
    """The state of the event loop.

    In compiled code `extended` is a constant: whether there may be more than tuples, first come first served, and
    checkpoints, that is, actions of protocols, event time, bounded queues, and links and cores that are shared evenly.
    """

    extended = False

    def __init__(self, **found: np.ndarray) -> None:
        """The same where nothing has happened yet: lists without a head, and no request."""
        super().__init__(**found)
        for name, field in _HEADS:
            getattr(self, name)[field] = NONE
        self.ids["clean"] = 1
        self.ids["pinned"] = self.ids["saved"] = UNPINNED

    def extend(self) -> None:
        """From now on there may be all that the kernel can do."""
        if not self.extended:
            self.extended = True
            self.layout = _EXTENDED

    def narrow(self) -> None:
        """Go back to what is not extended: all that was more is over."""
        self.extended = False
        self.layout = type(self).layout


_EXTENDED = LoopState.layout.variant("holdfast.ExtendedLoopState", extended=True)
