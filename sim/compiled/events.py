"""Events by instant, rank within the instant, and order of setting: a heap, and two rings of arrivals.

Most arrivals are set in the order in which they happen: those inside a host for now (`near`), those over links that are
equally long for later (`far`). What comes after the last one of its ring joins that; any other event, and what a full
ring has no place for, goes to the heap.
"""

from __future__ import annotations

from sim.compiled.compiling import kernel
from sim.compiled.pointer import State
from sim.compiled.state import ARRIVE, NONE, RING

HEAP, NEAR, FAR = range(3)


@kernel
def push(s: State, time: int, rank: int, seq: int, kind: int, ref: int) -> None:
    """Set an event."""
    heap = s.heap
    place = s.g[0].events
    s.g[0].events = place + 1
    while place > 0:
        above = (place - 1) >> 1
        e = heap[above]
        if e.time < time or (e.time == time and (e.rank < rank or (e.rank == rank and e.seq < seq))):
            break
        heap[place] = heap[above]
        place = above
    e = heap[place]
    e.time = time
    e.rank = rank
    e.seq = seq
    e.kind = kind
    e.ref = ref


@kernel
def pop(s: State) -> None:
    """Remove the first event."""
    heap = s.heap
    n = s.g[0].events - 1
    s.g[0].events = n
    if n == 0:
        return
    last = heap[n]
    time, rank, seq = last.time, last.rank, last.seq
    place = 0
    below = 1
    while below < n:
        e = heap[below]
        if below + 1 < n:
            other = heap[below + 1]
            if other.time < e.time or (
                other.time == e.time and (other.rank < e.rank or (other.rank == e.rank and other.seq < e.seq))
            ):
                below += 1
                e = other
        if time < e.time or (time == e.time and (rank < e.rank or (rank == e.rank and seq < e.seq))):
            break
        heap[place] = heap[below]
        place = below
        below = 2 * place + 1
    heap[place] = heap[n]


@kernel
def push_arrival(s: State, time: int, rank: int, seq: int, v: int) -> None:
    """Set the arrival of a tuple; `seq` is above that of all events that were set before."""
    g = s.g[0]
    if time == g.now:
        ring, first, count = s.near, g.near_first, g.near_count
    else:
        ring, first, count = s.far, g.far_first, g.far_count
    if count > 0:
        last = ring[(first + count - 1) & (RING - 1)]
        if count == RING or time < last.time or (time == last.time and rank < last.rank):
            push(s, time, rank, seq, ARRIVE, v)
            return
    e = ring[(first + count) & (RING - 1)]
    e.time = time
    e.rank = rank
    e.seq = seq
    e.kind = ARRIVE
    e.ref = v
    if time == g.now:
        g.near_count = count + 1
    else:
        g.far_count = count + 1


@kernel
def first_of(s: State) -> int:
    """Where the first event is, or NONE without any."""
    g = s.g[0]
    found = NONE
    time = rank = seq = 0
    if g.events > 0:
        e = s.heap[0]
        found, time, rank, seq = HEAP, e.time, e.rank, e.seq
    if g.near_count > 0:
        e = s.near[g.near_first]
        if found == NONE or e.time < time or (e.time == time and (e.rank < rank or (e.rank == rank and e.seq < seq))):
            found, time, rank, seq = NEAR, e.time, e.rank, e.seq
    if g.far_count > 0:
        e = s.far[g.far_first]
        if found == NONE or e.time < time or (e.time == time and (e.rank < rank or (e.rank == rank and e.seq < seq))):
            found = FAR
    return found


@kernel
def remove_first(s: State, place: int) -> None:
    """Remove the event that `first_of` found there."""
    g = s.g[0]
    if place == HEAP:
        pop(s)
    elif place == NEAR:
        g.near_first = (g.near_first + 1) & (RING - 1)
        g.near_count -= 1
    else:
        g.far_first = (g.far_first + 1) & (RING - 1)
        g.far_count -= 1
