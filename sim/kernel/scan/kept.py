"""Counts around an instant, and a log of arrivals: all that checkpoints of the scan need to know of single tuples.

Nothing that a checkpoint does holds up a tuple here (`sim.kernel.choice`). So an operator is done for a whole span as
if there were none, and `sim.kernel.scan.checkpoints` follows with the checkpoints of the span. What it asks is how much
a partition had applied and sent before the instant of its checkpoint. No span has two of them for one partition, so two
counters answer: of all, and of what ended at that instant or later.

Upstream forgets what the receiver has saved, tuple by tuple in the order in which they came: each partition has a log
of who sent them, and when they arrived; of a pool of threads also, when their services end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.scan.entities import LOG_CHUNK
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

LOG_POOL = np.dtype([("free", "i8"), ("left", "i8"), ("need", "i8")])  # pieces of the logs, the first free one or NONE


# A partition. Of what is counted twice, "after" is what ended at `instant` or later. What each tuple needs comes first.
SAVED = np.dtype(
    [
        ("instant", "i8"),  # of its next turn
        ("sent", "i8"),
        ("sent_after", "i8"),
        ("applied", "i8"),
        ("applied_after", "i8"),
        ("first_key", "i8"),  # where its key 0 would be in `key_epochs`, or NONE
        ("arrived", "i8"),  # in the log of arrivals
        ("log_first", "i4"),
        ("log_last", "i4"),
        ("epoch", "i8"),  # of its turn; a key that was touched since the last snapshot is of `low` or later
        ("low", "i8"),
        ("keys", "i8"),
        ("keys_after", "i8"),
        ("touched", "i8"),  # keys, since the last snapshot and before `instant`
        ("touched_after", "i8"),
        ("touched_more", "i8"),  # of these those that had not been touched since the last snapshot
        ("pool", "u1"),  # its tuples are not applied in the order in which they came
        ("is_sink", "u1"),
        ("on_its_way", "u1"),
        ("stored", "u1"),
        ("checkpoint_host", "i4"),
        ("forgotten", "i8"),  # outputs that receivers have saved
        ("applied_then", "i8"),  # at the last snapshot
        ("sent_then", "i8"),
        ("trimmed", "i8"),  # of the arrivals upstream was told to forget
        ("notes", "i8"),  # to upstream that are under way
        ("log_number", "i8"),  # of the first piece, all counted that there ever were
        ("start_piece", "i4"),
        ("started", "i8"),  # of a pool: services
    ],
    align=True,
)

SAVING = np.dtype(
    [("partitions", "i8"), ("senders", "i8")]
)  # an operator: its partitions, and the tasks that send to them

ARRIVAL = np.dtype([("at", "i8"), ("sender", "i4")], align=True)

SERVED = np.dtype(
    [("end", "i8"), ("forgotten", "i8")]
)  # an arrival at a pool: when its service ends, and upstream forgot


FAR = 1 << 62  # no such instant comes


@kernel
def count_applied(state: State, partition: Any, key: int, end: int) -> None:
    """The partition applies a tuple at the end of its service; those of a partition come in that order."""
    u = state.saved[partition]
    u.applied += 1
    if u.first_key == NONE:
        u.applied_after += end >= u.instant
        return
    place = u.first_key + key
    seen = state.key_epochs[place]
    if seen == 0:
        u.keys += 1
        u.keys_after += end >= u.instant
    if end < u.instant:
        u.touched += seen < u.low
        state.key_epochs[place] = u.epoch
    else:
        u.applied_after += 1
        u.touched_more += seen < u.low
        u.touched_after += seen <= u.epoch
        state.key_epochs[place] = u.epoch + 1


@kernel
def count_sent(state: State, partition: Any, at: int) -> None:
    """The partition keeps an output from now on."""
    u = state.saved[partition]
    u.sent += 1
    u.sent_after += at >= u.instant


@kernel
def log_fits(state: State, operator: int, n: int) -> bool:
    """Return whether so many more arrivals at an operator fit into the logs; asks for more where not."""
    need = n // LOG_CHUNK + min(n, state.saving[operator].partitions) + 1
    state.log_pool.need = max(state.log_pool.need, need)
    return state.log_pool.left >= need


@kernel
def note_arrival(state: State, partition: Any, sender: Any, at: int) -> None:
    """A tuple has come to the partition; there must be room in its log."""
    u = state.saved[partition]
    if not state.options.keeps_outputs:
        return
    n = u.arrived
    u.arrived = n + 1
    if n % LOG_CHUNK == 0:
        piece = state.log_pool.free
        state.log_pool.free = state.log_next[piece]
        state.log_pool.left -= 1
        state.log_next[piece] = NONE
        if u.log_first == NONE:
            u.log_first = piece
            u.log_number = n // LOG_CHUNK
        else:
            state.log_next[u.log_last] = piece
        u.log_last = piece
    place = u.log_last * LOG_CHUNK + n % LOG_CHUNK
    e = state.log[place]
    e.at = at
    e.sender = sender
    if u.pool:
        state.log_served[place].end = FAR
        state.log_served[place].forgotten = FAR


@kernel
def note_start(state: State, partition: Any, end: int) -> None:
    """A pool serves the next of those that came until then."""
    u = state.saved[partition]
    if not u.pool:
        return
    n = u.started
    u.started = n + 1
    if n % LOG_CHUNK == 0:  # the piece before may be free again
        u.start_piece = u.log_first if u.log_number * LOG_CHUNK == n else state.log_next[u.start_piece]
    state.log_served[u.start_piece * LOG_CHUNK + n % LOG_CHUNK].end = end


@kernel
def log_piece(state: State, partition: Any, n: int) -> Any:
    """Return the piece of the log in which the n-th arrival of the partition is; NONE if it has not come."""
    u = state.saved[partition]
    piece = u.log_first
    if n >= u.arrived:
        return NONE
    for _ in range(n // LOG_CHUNK - u.log_number):
        piece = state.log_next[piece]
    return piece


@kernel
def free_log(state: State, partition: Any, n: int) -> None:
    """Nobody asks for the first n arrivals of the partition any more."""
    u = state.saved[partition]
    while u.log_first != NONE and (u.log_number + 1) * LOG_CHUNK <= n:
        piece = u.log_first
        u.log_first = state.log_next[piece]
        u.log_number += 1
        state.log_next[piece] = state.log_pool.free
        state.log_pool.free = piece
        state.log_pool.left += 1
