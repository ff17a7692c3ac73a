"""What checkpoints need to know of single tuples in the scan: counts around an instant, and a log of arrivals.

Nothing that a checkpoint does holds up a tuple here (`sim.kernel.choice`). So an operator is done for a whole span as
if there were none, and `sim.kernel.scan.checkpoints` follows with the checkpoints of the span. What it asks is how much
a partition had applied and sent before the instant of its checkpoint. No span has two of them for one partition, so two
counters answer: of all, and of what ended at that instant or later.

Upstream forgets what the receiver has saved, tuple by tuple in the order in which they came: each partition has a log
of who sent them, and when they arrived; of a pool of threads also, when their services end.
"""

from __future__ import annotations

from typing import Any

from sim.kernel.event_loop.state import NONE
from sim.kernel.scan.state import LOG_CHUNK, ScanState
from sim.kernel.tools.compiling import kernel

FAR = 1 << 62  # no such instant comes


@kernel
def count_applied(s: ScanState, partition: Any, key: int, end: int) -> None:
    """The partition applies a tuple at the end of its service; those of a partition come in that order."""
    u = s.saved[partition]
    u.applied += 1
    if u.first_key == NONE:
        u.applied_after += end >= u.instant
        return
    place = u.first_key + key
    seen = s.key_epochs[place]
    if seen == 0:
        u.keys += 1
        u.keys_after += end >= u.instant
    if end < u.instant:
        u.touched += seen < u.low
        s.key_epochs[place] = u.epoch
    else:
        u.applied_after += 1
        u.touched_more += seen < u.low
        u.touched_after += seen <= u.epoch
        s.key_epochs[place] = u.epoch + 1


@kernel
def count_sent(s: ScanState, partition: Any, at: int) -> None:
    """The partition keeps an output from now on."""
    u = s.saved[partition]
    u.sent += 1
    u.sent_after += at >= u.instant


@kernel
def log_fits(s: ScanState, operator: int, n: int) -> bool:
    """Whether so many more arrivals at an operator fit into the logs; asks for more where not."""
    b = s.checkpointing[0]
    need = n // LOG_CHUNK + min(n, s.saving[operator].partitions) + 1
    b.log_need = max(b.log_need, need)
    return b.log_left >= need


@kernel
def note_arrival(s: ScanState, partition: Any, sender: Any, at: int) -> None:
    """A tuple has come to the partition; there must be room in its log."""
    b, u = s.checkpointing[0], s.saved[partition]
    if not b.keeps:
        return
    n = u.arrived
    u.arrived = n + 1
    if n % LOG_CHUNK == 0:
        piece = b.free_log
        b.free_log = s.log_next[piece]
        b.log_left -= 1
        s.log_next[piece] = NONE
        if u.log_first == NONE:
            u.log_first = piece
            u.log_number = n // LOG_CHUNK
        else:
            s.log_next[u.log_last] = piece
        u.log_last = piece
    place = u.log_last * LOG_CHUNK + n % LOG_CHUNK
    e = s.log[place]
    e.at = at
    e.sender = sender
    if u.pool:
        s.log_served[place].end = FAR
        s.log_served[place].forgotten = FAR


@kernel
def note_start(s: ScanState, partition: Any, end: int) -> None:
    """A pool serves the next of those that came until then."""
    u = s.saved[partition]
    if not u.pool:
        return
    n = u.started
    u.started = n + 1
    if n % LOG_CHUNK == 0:  # the piece before may be free again
        u.start_piece = u.log_first if u.log_number * LOG_CHUNK == n else s.log_next[u.start_piece]
    s.log_served[u.start_piece * LOG_CHUNK + n % LOG_CHUNK].end = end


@kernel
def log_piece(s: ScanState, partition: Any, n: int) -> Any:
    """The piece of the log in which the n-th arrival of the partition is; NONE if it has not come."""
    u = s.saved[partition]
    piece = u.log_first
    if n >= u.arrived:
        return NONE
    for _ in range(n // LOG_CHUNK - u.log_number):
        piece = s.log_next[piece]
    return piece


@kernel
def free_log(s: ScanState, partition: Any, n: int) -> None:
    """Nobody asks for the first n arrivals of the partition any more."""
    b, u = s.checkpointing[0], s.saved[partition]
    while u.log_first != NONE and (u.log_number + 1) * LOG_CHUNK <= n:
        piece = u.log_first
        u.log_first = s.log_next[piece]
        u.log_number += 1
        s.log_next[piece] = b.free_log
        b.free_log = piece
        b.log_left += 1
