"""The heap of events: by instant, rank within the instant, and order of setting."""

from __future__ import annotations

from sim.compiled.cache import kernel
from sim.compiled.pointer import State


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
