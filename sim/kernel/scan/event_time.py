"""Event time in the scan: watermarks are items in the streams of tuples, and take no time at their turn.

A watermark stands in boxes and queues among the tuples of its channel: `key` is MARK, `created` its event time, `id`
the task that has sent it, and `partition` one of the task that it is for. It is ordered as a tuple is. Its task passes
it when all tuples before it are done; then windows end and the next watermark leaves, at the same instant.

Why that is the order of the event loop: within an instant, all services end before timers emit, and these before
anything arrives. A watermark that finds its task idle passes during the arrivals of the instant, and so does what it
sends on within a host. Arrivals go by the number of the receiving task, and operators downstream have higher numbers
(`needs` sees to that). So all that comes to a task at an instant has been sent when the first of it arrives, and it is
in the order of the senders.

Tasks that a recovery has started have the highest numbers, whatever their operator. Then a watermark may go *back*: to
a task whose turn in the arrivals of the instant is over. What it causes there is *late*. It comes after all else of the
instant, in the order of the highest number that it has passed, and then of the senders. That is its rank, which stands
in place of the sender: `tasks * (highest + 1) + sender`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.windows import first_open, window_id
from sim.kernel.scan.entities import MARK, SIDE
from sim.kernel.scan.send import complete, emit, post, room, states_fit
from sim.kernel.scan.windows import (
    NEVER,
    end_windows,
    enter,
    join,
    most_windows,
    note_second,
    outputs_fit,
)
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import output_key
from sim.kernel.tools.pointer import State

# A task that hears watermarks, or sends them.
LISTENER = np.dtype(
    [
        ("event", "i8"),  # the least watermark of all tasks that send to it
        ("sent", "i8"),  # the last watermark that it has sent
        ("next_end", "i8"),  # of a window that it knows
        ("behind", "i8"),  # tasks whose watermark is no later than `event`
        ("first_voice", "i8"),  # in `voices`, which has the last watermark of each task that sends to it
        ("voices", "i8"),
        ("first_sender", "i8"),  # the task of the first of these; NEVER stands for one in between that sends nothing
        ("first_target", "i8"),  # in `targets`: a partition of each task that its watermarks go to
        ("targets", "i8"),
        ("first_here", "i8"),  # in `partitions_here`, by number
        ("here", "i8"),
    ],
    align=True,
)


@kernel
def send_ticks(state: State, operator: int, source: int) -> bool:
    """Send the watermarks of a source in the span, each behind the tuples up to its instant; False without room."""
    b = state.sources[source]
    while b.watermark > 0 and state.next_ticks[source] < state.span.end:
        at = state.next_ticks[source]
        if not _rise(state, operator, state.partition_task[b.partition], at, at, 0):
            return False
        state.next_ticks[source] = at + b.watermark
    return True


@kernel
def emit_timers(state: State, operator: int) -> bool:
    """Emit what the timers of an operator owe in the span; False if there is no room for the rest yet."""
    op = state.operators[operator]
    for partition in range(op.first_partition, op.first_partition + op.partitions):
        if not _emit_timer(state, operator, partition, state.span.end):
            return False
    return True


@kernel
def _emit_timer(state: State, operator: int, partition: int, until: int) -> bool:
    """Emit what a timer owes before an instant, each created at its own; False if there is no room for it yet."""
    op, draws = state.operators[operator], state.draws[operator]
    number = state.timer_ticks[partition] + 1
    while number * op.timer < until:
        if not outputs_fit(state, operator, 1):
            return False
        at = number * op.timer
        note_second(state, operator, at)
        made = window_id(op.timer_code, state.partition_index[partition], 0, number)
        key, task = output_key(draws, state.cumulative, made, 0), state.partition_task[partition]
        emit(state, operator, task, partition, at, made, at, key)
        state.timer_ticks[partition] = number
        number += 1
    return True


@kernel
def _rise(state: State, operator: int, task: int, event: int, at: int, late: int) -> bool:
    """Send a watermark over all channels on the way to a window, if it is a later one; False if there is no room."""
    listener = state.listeners[task]
    if event <= listener.sent:
        return True
    if not outputs_fit(state, operator, listener.targets):
        return False
    listener.sent = event
    for k in range(listener.first_target, listener.first_target + listener.targets):
        partition = state.targets[k]
        same = state.partition_host[partition] == state.task_host[task]
        arrival = at if same else at + state.options.latency
        rank: Any = np.int64(task)
        if late > 0 and arrival == at and state.partition_task[partition] < late // state.options.tasks - 1:
            rank += late
        sender: Any = np.uint64(rank)  # in place of an id
        post(state, state.partition_operator[partition], arrival, sender, event, MARK, partition, rank)
    return True


@kernel
def mark_sides(state: State, operator: int, first: int, n: int) -> None:
    """Write into the keys of n tuples at a join over which input they came."""
    op, place = state.operators[operator], state.boxes[operator].first
    for k in range(n):
        e = state.done[k]
        if e.key != MARK:
            sender = state.box[place + state.order[first + k]].origin
            if sender >= state.options.tasks:
                sender %= state.options.tasks
            side = 0 if state.servers[sender].operator == op.joins else 1
            e.key = e.key | (side << SIDE)


@kernel
def finish(state: State, operator: int) -> bool:
    """Effects of all that is done, watermarks among it; False if there is no room for them yet."""
    if not state.operators[operator].timed:
        return complete(state, operator)
    if state.progress.apart > 0 and not _take_turns(state, operator):
        return False
    n = state.progress.done
    if n == 0:
        return True
    if room(state, operator) < n:
        state.requests.need = n
        return False
    if not states_fit(state, operator, n):
        return False
    _set_apart(state, operator, n)
    # Outputs of tuples first: in the boxes they stand in front of the watermarks of the same instant.
    return complete(state, operator) and _take_turns(state, operator)


@kernel
def _set_apart(state: State, operator: int, n: int) -> None:
    """Take the watermarks out of what is done, and copy what enters windows: `apart` is in the order of the turns."""
    windowed = state.operators[operator].windowed
    kept, apart = 0, 0
    for k in range(n):
        e = state.done[k]
        if e.key == MARK or windowed:
            state.apart[apart] = e
            apart += 1
        if e.key != MARK:
            if kept < k:
                state.done[kept] = e
            kept += 1
    state.progress.done = kept
    state.progress.apart = apart
    state.progress.turn = 0


@kernel
def _take_turns(state: State, operator: int) -> bool:
    """Let tuples enter windows and watermarks pass; False where there is no room: then it goes on there later."""
    op = state.operators[operator]
    joins, most = op.joins != NONE, most_windows(op)
    while state.progress.turn < state.progress.apart:
        e = state.apart[state.progress.turn]
        if e.key == MARK:
            # The timer has its turn behind services that end at the instant, and in front of what arrives.
            if op.timer > 0 and not _emit_timer(state, operator, e.partition, e.start + (e.at == e.start)):
                return False
            rank: Any = np.int64(e.id)
            sender: Any = rank
            late: Any = np.int64(0)
            if state.options.goes_back:
                sender = rank % state.options.tasks
                if e.at == e.start:  # it passes during the arrivals
                    late = state.options.tasks * max(e.origin + 1, rank // state.options.tasks)
            if not _pass(state, operator, e.origin, sender, e.created, e.start, late):
                return False
        elif not (join(state, operator, e) if joins else enter(state, operator, most, e)):
            return False
        state.progress.turn += 1
    state.progress.apart = 0
    return True


@kernel
def _pass(state: State, operator: int, task: int, origin: int, event: int, at: int, late: int) -> bool:
    """Event time rises at the task; what it passes ends, before the watermark goes on. Asked again, it goes on."""
    op, listener = state.operators[operator], state.listeners[task]
    _hear(state, task, origin, event)
    if op.windowed and listener.next_end <= listener.event and not end_windows(state, operator, task, at, late):
        return False
    least = listener.event
    if op.windowed and op.joins == NONE:
        least = min(least, first_open(op, least) * op.slide)  # its next results are no older
    return _rise(state, operator, task, least, at, late)


@kernel
def _hear(state: State, task: int, origin: int, event: int) -> None:
    """The task hears a watermark from another: its event time is the least of all."""
    listener = state.listeners[task]
    place = listener.first_voice + origin - listener.first_sender
    before = state.voices[place]
    if event <= before:  # heard
        return
    state.voices[place] = event
    if before > listener.event:
        return
    listener.behind -= 1
    if listener.behind > 0:
        return
    least, behind = NEVER, 0
    for k in range(listener.first_voice, listener.first_voice + listener.voices):
        one = state.voices[k]
        if one <= least:
            behind = behind + 1 if one == least else 1
            least = one
    listener.event = least
    listener.behind = behind
