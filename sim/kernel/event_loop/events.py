"""Events by instant, rank within the instant, and order of setting: where the first one is, and its removal.

Most events never see the heap. Arrivals are mostly set in the order in which they happen: those inside a host for now
(`near`), those over links that are equally long for later (`far`). What comes after the last one of its ring joins
that. Of what a task is to do itself, ends of services and arrivals, one event has a place in `own`, and a tournament
tree (`tournament`) says which is first: node k is the least of nodes 4k to 4k + 3. A node is an instant and a task in
one number, so that of equal instants the lower task comes first, as ranks have it. Tasks that share one core have a
place together: of their services one ends at a time. Any other event, what finds its place taken, and an instant that
is too far away for such a number, goes to the heap.
"""

from __future__ import annotations

import numpy as np

from sim.clock import SERVICE
from sim.kernel.event_loop.state import ARRIVE, NEVER, NONE, RING
from sim.kernel.tools.compiling import inlined, kernel
from sim.kernel.tools.pointer import State

HEAP, NEAR, FAR, OWN = range(4)


@kernel
def push(s: State, time: int, rank: int, seq: int, kind: int, ref: int) -> None:
    """Set an event."""
    heap = s.heap
    place = s.run[0].events
    s.run[0].events = place + 1
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
    """Remove the first event of the heap."""
    heap = s.heap
    n = s.run[0].events - 1
    s.run[0].events = n
    if n == 0:
        heap[0].time = NEVER
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


@inlined
def push_arrival(s: State, time: int, rank: int, seq: int, v: int) -> bool:
    """Set the arrival of a tuple; `seq` is above that of all events that were set before. Whether it is in `far`."""
    run = s.run[0]
    if time == run.now:
        ring, first, count = s.near, run.near_first, run.near_count
    else:
        ring, first, count = s.far, run.far_first, run.far_count
    if count > 0:
        last = ring[(first + count - 1) & (RING - 1)]
        if count == RING or time < last.time or (time == last.time and rank < last.rank):
            push(s, time, rank, seq, ARRIVE, v)
            return False
    e = ring[(first + count) & (RING - 1)]
    e.time = time
    e.rank = rank
    e.seq = seq
    e.kind = ARRIVE
    e.ref = v
    if time == run.now:
        run.near_count = count + 1
        return False
    run.far_count = count + 1
    return True


@inlined
def push_own(s: State, time: int, task: int, kind: int, ref: int) -> None:
    """Set an event of the rank of the task: a service ends, or a source tuple arrives."""
    run = s.run[0]
    seq = run.serial
    run.serial = seq + 1
    place = s.tasks[task].place
    leaf = (s.tournament.shape[0] >> 1) + place
    if s.tournament[leaf] != NEVER or time >= run.horizon:
        push(s, time, SERVICE + task, seq, kind, ref)
        return
    e = s.own[place]
    e.seq = seq
    e.kind = kind
    e.ref = ref
    _replay_path(s.tournament, leaf, (time << run.task_bits) + task)
    if run.vacant == place:
        run.vacant = NONE


@inlined
def _replay_path(tournament: np.ndarray, leaf: int, number: int) -> None:
    """Put a number at a leaf and replay its matches up to the root; the winner of each goes on."""
    place = leaf
    tournament[place] = number
    while place > 1:
        number = min(tournament[place ^ 3], tournament[place ^ 2], tournament[place ^ 1], number)
        place >>= 2
        tournament[place] = number


@kernel
def build_tournament(tournament: np.ndarray) -> None:
    """Play all matches between the leaves."""
    level = tournament.shape[0] >> 1
    while level > 1:
        level >>= 2
        for place in range(level, 2 * level):
            below = 4 * place
            tournament[place] = min(
                tournament[below], tournament[below + 1], tournament[below + 2], tournament[below + 3]
            )


@inlined
def replay_vacant(s: State) -> None:
    """Replay the tournament for the place whose event was just removed; needed before the root is read."""
    run = s.run[0]
    if run.vacant != NONE:
        _replay_path(s.tournament, (s.tournament.shape[0] >> 1) + run.vacant, NEVER)
        run.vacant = NONE


@inlined
def task_of(s: State, number: int) -> int:
    """The task of an own event."""
    return number & (s.own.shape[0] - 1)


@kernel
def first_of(s: State) -> int:
    """Where the first event is, or NONE without any; of equal instants by rank, then in the order of setting."""
    found, time, rank, seq = NONE, NEVER, 0, 0
    for place in range(4):
        other, its_rank, its_seq, _, _ = event_at(s, place)
        if other < time or (
            other == time and found != NONE and (its_rank < rank or (its_rank == rank and its_seq < seq))
        ):
            found, time, rank, seq = place, other, its_rank, its_seq
    return found


@kernel
def event_at(s: State, place: int) -> tuple[int, int, int, int, int]:
    """Instant, rank, order of setting, kind and subject of the first event there; the instant is NEVER without one."""
    run = s.run[0]
    if place == OWN:
        first = s.tournament[1]
        if first == NEVER:
            return NEVER, 0, 0, 0, 0
        task = task_of(s, first)
        own = s.own[s.tasks[task].place]
        return first >> run.task_bits, SERVICE + task, own.seq, own.kind, own.ref
    e = s.heap[0] if place == HEAP else s.near[run.near_first] if place == NEAR else s.far[run.far_first]
    return e.time, e.rank, e.seq, e.kind, e.ref


@inlined
def remove_first(s: State, place: int) -> None:
    """Remove the first event there; an empty heap or ring has NEVER where the instant of its first would be."""
    run = s.run[0]
    if place == OWN:
        run.vacant = s.tasks[task_of(s, s.tournament[1])].place
        # Not replayed yet: mostly the next event comes at once, and does that.
        s.tournament[(s.tournament.shape[0] >> 1) + run.vacant] = NEVER
    elif place == FAR:
        run.far_first = (run.far_first + 1) & (RING - 1)
        run.far_count -= 1
        if run.far_count == 0:
            s.far[run.far_first].time = NEVER
    elif place == NEAR:
        run.near_first = (run.near_first + 1) & (RING - 1)
        run.near_count -= 1
        if run.near_count == 0:
            s.near[run.near_first].time = NEVER
    else:
        pop(s)
