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
from sim.kernel.event_loop.codes import ARRIVE, NEVER, NONE
from sim.kernel.tools.cache import inlined, kernel
from sim.kernel.tools.pointer import State

# The instant, and counters that only grow.
CLOCK = np.dtype(
    [
        ("now", "i8"),  # instant of the event that is being handled [ns]
        ("serial", "i8"),  # events and sendings so far: of equal instants and ranks the lower number acts first
        ("mark", "i8"),  # passes over the tasks so far: a task whose own `mark` is this one was met in the present pass
        ("control_number", "i8"),  # number of the next event that stands in the order of control's own
    ],
    align=True,
)

# Where the events wait.
QUEUE = np.dtype(
    [
        ("in_heap", "i8"),
        ("near_first", "i8"),
        ("near_count", "i8"),
        ("far_first", "i8"),
        ("far_count", "i8"),
        ("vacant", "i8"),  # place in `own` whose event was removed and whose matches are not replayed yet, or NONE
        ("task_bits", "i8"),  # of a number in `tournament` so many say the task, and the rest the instant,
        ("horizon", "i8"),  # which is before this one
    ],
    align=True,
)


EVENT = np.dtype([("time", "i8"), ("rank", "i8"), ("seq", "i8"), ("kind", "i4"), ("ref", "i4")], align=True)

# The next event of each task of its own rank.
OWN_EVENT = np.dtype([("seq", "i8"), ("kind", "i4"), ("ref", "i4")], align=True)

RING = 256  # places in the rings of arrivals, a power of two


HEAP, NEAR, FAR, OWN = range(4)


@inlined
def next_serial(state: State) -> int:
    """Return the number of the next event or sending."""
    serial = state.clock.serial
    state.clock.serial = serial + 1
    return serial


@kernel
def next_mark(state: State) -> int:
    """Begin a pass that marks tasks, and return its number."""
    state.clock.mark += 1
    return state.clock.mark


@kernel
def next_control_number(state: State) -> int:
    """Return the number of the next event in the order of control's own."""
    number = state.clock.control_number
    state.clock.control_number = number + 1
    return number


@kernel
def push(state: State, time: int, rank: int, seq: int, kind: int, ref: int) -> None:
    """Set an event."""
    heap = state.heap
    # From the new leaf up: parents that come later move down, so that the event is written once.
    place = state.queue.in_heap
    state.queue.in_heap = place + 1
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
def pop(state: State) -> None:
    """Remove the first event of the heap."""
    heap = state.heap
    n = state.queue.in_heap - 1
    state.queue.in_heap = n
    if n == 0:
        heap[0].time = NEVER
        return
    # The last leaf looks for its place from the root down; of two children the one that comes first moves up.
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
def push_arrival(state: State, time: int, rank: int, seq: int, visit: int) -> bool:
    """Set the arrival of a tuple; `seq` is above that of all events that were set before. Whether it is in `far`."""
    if time == state.clock.now:
        ring, first, count = state.near, state.queue.near_first, state.queue.near_count
    else:
        ring, first, count = state.far, state.queue.far_first, state.queue.far_count
    # A ring is in order as long as nothing comes before its last event: then reading its first one is enough. With
    # equal latencies that is nearly always so; the rest goes to the heap.
    if count > 0:
        last = ring[(first + count - 1) & (RING - 1)]
        if count == RING or time < last.time or (time == last.time and rank < last.rank):
            push(state, time, rank, seq, ARRIVE, visit)
            return False
    e = ring[(first + count) & (RING - 1)]
    e.time = time
    e.rank = rank
    e.seq = seq
    e.kind = ARRIVE
    e.ref = visit
    if time == state.clock.now:
        state.queue.near_count = count + 1
        return False
    state.queue.far_count = count + 1
    return True


@inlined
def push_own(state: State, time: int, task: int, kind: int, ref: int) -> None:
    """Set an event of the rank of the task: a service ends, or a source tuple arrives."""
    seq = next_serial(state)
    place = state.tasks[task].place
    leaf = (state.tournament.shape[0] >> 1) + place
    # A place holds one event. What finds it taken, as where a task has several threads, goes to the heap.
    if state.tournament[leaf] != NEVER or time >= state.queue.horizon:
        push(state, time, SERVICE + task, seq, kind, ref)
        return
    e = state.own[place]
    e.seq = seq
    e.kind = kind
    e.ref = ref
    _replay_path(state.tournament, leaf, (time << state.queue.task_bits) + task)
    if state.queue.vacant == place:
        state.queue.vacant = NONE


@inlined
def _replay_path(tournament: np.ndarray, leaf: int, number: int) -> None:
    """Put a number at a leaf and replay its matches up to the root; the winner of each goes on."""
    # Matches are of four: `^` with 1 to 3 gives the other three. `min` compiles to no branch, and which of them wins is
    # as good as random.
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
def replay_vacant(state: State) -> None:
    """Replay the tournament for the place whose event was just removed; needed before the root is read."""
    if state.queue.vacant != NONE:
        _replay_path(state.tournament, (state.tournament.shape[0] >> 1) + state.queue.vacant, NEVER)
        state.queue.vacant = NONE


@inlined
def task_of(state: State, number: int) -> int:
    """Return the task of an own event."""
    return number & (state.own.shape[0] - 1)


@kernel
def first_of(state: State) -> int:
    """Return where the first event is, or NONE without any; of equal instants by rank, then in the order of setting."""
    found, time, rank, seq = NONE, NEVER, 0, 0
    for place in range(4):
        other, its_rank, its_seq, _, _ = event_at(state, place)
        if other < time or (
            other == time and found != NONE and (its_rank < rank or (its_rank == rank and its_seq < seq))
        ):
            found, time, rank, seq = place, other, its_rank, its_seq
    return found


@kernel
def event_at(state: State, place: int) -> tuple[int, int, int, int, int]:
    """Instant, rank, order of setting, kind and subject of the first event there; the instant is NEVER without one."""
    if place == OWN:
        first = state.tournament[1]
        if first == NEVER:
            return NEVER, 0, 0, 0, 0
        task = task_of(state, first)
        own = state.own[state.tasks[task].place]
        return first >> state.queue.task_bits, SERVICE + task, own.seq, own.kind, own.ref
    e = (
        state.heap[0]
        if place == HEAP
        else state.near[state.queue.near_first]
        if place == NEAR
        else state.far[state.queue.far_first]
    )
    return e.time, e.rank, e.seq, e.kind, e.ref


@inlined
def remove_first(state: State, place: int, time: int) -> None:
    """Remove the first event there, whose instant is the present from now on.

    An empty heap or ring has NEVER where the instant of its first would be: the loop reads it without asking.
    """
    state.clock.now = time
    if place == OWN:
        state.queue.vacant = state.tasks[task_of(state, state.tournament[1])].place
        # Not replayed yet: mostly the next event comes at once, and does that.
        state.tournament[(state.tournament.shape[0] >> 1) + state.queue.vacant] = NEVER
    elif place == FAR:
        state.queue.far_first = (state.queue.far_first + 1) & (RING - 1)
        state.queue.far_count -= 1
        if state.queue.far_count == 0:
            state.far[state.queue.far_first].time = NEVER
    elif place == NEAR:
        state.queue.near_first = (state.queue.near_first + 1) & (RING - 1)
        state.queue.near_count -= 1
        if state.queue.near_count == 0:
            state.near[state.queue.near_first].time = NEVER
    else:
        pop(state)
