"""The scan: a span of the run, operator after operator, where every task is a first-in-first-out server of its own.

The n-th tuple of a task ends at D[n] = max(A[n], D[n-1]) + S[n] (Lindley 1952, in departures); with c threads the
earliest of c takes the place of D[n-1] (Kiefer and Wolfowitz 1955). So no event is needed: what an operator sends in a
span [begin, end) follows from what reaches it before its end, and operators are done in the order of the dataflow.
A service starts in the span only if it starts before its end; a tuple whose turn comes later stays in the queue, and
what is in service at the end, or on its way, is done in a later span.

The order of the dataflow is what makes this exact: when an operator's turn comes, all that reaches it before the end of
the span is in its box, since whatever sends to it was done for the whole span before. Every step writes down how far it
is (`progress`). So the scan may stop at any of them for want of room, and goes on there once Python has made it.

Draws are made for a batch of tuples at once, in short loops without calls, which the compiler makes several at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.scan.checkpoints import checkpoints_fit, next_cut, process_checkpoints, take_turns
from sim.kernel.scan.entities import BATCH, CHECKPOINTS_FULL, CHUNK, DONE, FLUSH, GROW, MARK, REFILL, earliest, occupy
from sim.kernel.scan.event_time import emit_timers, finish, mark_sides, send_ticks
from sim.kernel.scan.kept import log_fits, note_arrival, note_start
from sim.kernel.scan.links import LINK_OLD, append, has_chunk, lacks, remove_first, send_over_links
from sim.kernel.scan.order import gather
from sim.kernel.scan.placing import is_held, task_for
from sim.kernel.scan.rows import sort_rows
from sim.kernel.scan.send import absorb, complete, count_second, room, send_arrivals, sum_up_messages
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import EXPONENTIAL, UNSURE, exponential_ns, time_ns, uniform
from sim.kernel.tools.pointer import State
from sim.kernel.tools.quantiles import quantile_ns

_NS = 1e9


@kernel
def draw_times(state: State, operator: int, n: int) -> None:
    """Make the first n of `drawn` the service times of the first `ids` on a host of speed 1."""
    draws = state.draws[operator]
    law, a, b, stream = draws.law, draws.a, draws.b, draws.stream
    fixed_ns, inverse = draws.fixed_ns, draws.inverse
    unsure = n
    if law == EXPONENTIAL:
        unsure = 0
        for k in range(n):
            ns = exponential_ns(a * _NS, uniform(state.ids[k], stream))
            state.drawn[k] = ns
            unsure += ns == UNSURE
    elif draws.quantiles >= 0:
        unsure, first, scale_ns = 0, draws.quantiles, draws.scale_ns
        for k in range(n):
            ns = quantile_ns(state, first, scale_ns, uniform(state.ids[k], stream))
            state.drawn[k] = ns
            unsure += ns == UNSURE
    else:
        for k in range(n):
            state.drawn[k] = UNSURE
    if unsure > 0:
        for k in range(n):
            if state.drawn[k] == UNSURE:
                state.drawn[k] = time_ns(law, a, b, stream, fixed_ns, inverse, state.ids[k])


# The span that is being done, and how long the next one is.
SPAN = np.dtype(
    [
        ("begin", "i8"),  # everything before has been done
        ("end", "i8"),  # of the span that is being done; `begin` if none is
        ("length", "i8"),  # of the next span, if nothing cuts it
        ("shortest", "i8"),
        ("aim", "i8"),  # tuples of one operator in a span
        ("most", "i8"),  # tuples of one operator in this span so far
    ],
    align=True,
)

# How far the span is: all is kept between two calls, so that the scan can stop anywhere for want of room.
PROGRESS = np.dtype(
    [
        ("place", "i8"),  # in the order of operators
        ("phase", "i8"),  # of that operator
        ("next", "i8"),  # what the phase comes to next
        ("due", "i8"),  # what arrives at the operator, or comes to its links, in the span
        ("done", "i8"),  # services that are completed but for their effects
        ("apart", "i8"),  # watermarks, and what enters windows, of those whose effects are done
        ("turn", "i8"),  # of these
    ],
    align=True,
)

REQUESTS = np.dtype(
    [
        ("need", "i8"),  # completed services that there must be room for
        ("refill", "i8"),  # source whose arrivals have run out
        ("results", "i8"),  # of windows or joins, or watermarks: that there must be room for
    ],
    align=True,
)


_KEPT = 8  # of a block of arrivals at most such a part is copied, because the next comes before it is used up
_SECOND = 1_000_000_000
_LONGEST = 998 * _SECOND  # seconds of a span are counted one by one
_OLD, _SORT, _NEW = range(3)  # phases of an operator, before those of its links


@kernel
def _plan_span(state: State, until: int) -> bool:
    """Say where the next span ends; False if arrivals are missing for it."""
    end = min(until, state.span.begin + state.span.length)
    if state.span.length <= _SECOND:
        end = min(end, (state.span.begin // _SECOND + 1) * _SECOND)  # messages are counted by the second
    # A span ends before whatever would have to be known in its middle: a second turn of a partition in the round of
    # checkpoints, a snapshot that takes time, or an arrival that is not drawn yet.
    if state.saves:
        end = min(end, state.span.begin + state.round.interval)  # so no partition has two checkpoints in a span
        end = min(end, next_cut(state))
    for source in range(state.sources.shape[0]):
        b = state.sources[source]
        if not b.more:
            continue
        last = state.arrivals[b.offset + b.have - 1 - b.base].time if b.have > b.base else -1
        if last < end:
            if b.have - b.emitted < state.options.block // _KEPT or last <= state.span.begin:
                state.requests.refill = source
                return False
            end = last
    state.span.end = end
    return True


@kernel
def _choose_length(state: State) -> None:
    """Make the next span longer or shorter, so that about `aim` tuples come to an operator in it."""
    if state.span.most > 2 * state.span.aim and state.span.end - state.span.begin <= state.span.length:
        state.span.length = max(state.span.shortest, state.span.length // 2)
    elif 2 * state.span.most < state.span.aim and state.span.end - state.span.begin >= state.span.length:
        state.span.length = min(_LONGEST, 2 * state.span.length)


@kernel
def advance(state: State, until: int) -> int:
    """Do everything before an instant; returns why it stopped."""
    while state.span.begin < until:
        if state.span.end == state.span.begin:
            if state.sent.rows + state.messages.shape[0] > state.message_rows.shape[0]:
                return FLUSH
            if state.saves:
                if not checkpoints_fit(state):
                    return CHECKPOINTS_FULL
                take_turns(state)
            if not _plan_span(state, until):
                return REFILL
            state.progress.place = 0
            state.progress.phase = 0
            state.progress.next = 0
            state.span.most = 0
        # Upstream before downstream: so the box of an operator is complete when its turn comes.
        while state.progress.place < state.options.operators:
            operator = state.topological[state.progress.place]
            why = _source(state, operator) if state.operators[operator].is_source else _operator(state, operator)
            if not state.saves and why == DONE and state.stages[operator].limited:
                why = send_over_links(state, operator)
            if why != DONE:
                return why
            count_second(state, operator, state.span.end)
            state.progress.place += 1
            state.progress.phase = 0
            state.progress.next = 0
        if not state.options.keeps_histograms and not sort_rows(state):
            return GROW
        sum_up_messages(state)
        # Checkpoints come last: they hold up no tuple, and read what was done around their instants.
        if state.saves:
            process_checkpoints(state)
        _choose_length(state)
        state.span.begin = state.span.end
    return DONE


@kernel
def _source(state: State, operator: int) -> int:
    """Emit what arrives in the span."""
    stage = state.stages[operator]
    if state.progress.phase > _NEW:
        return DONE
    while state.progress.next < stage.sources:
        source = stage.first_source + state.progress.next
        b = state.sources[source]
        place = b.offset - b.base
        while True:
            upto, most = b.emitted, min(b.have, b.emitted + BATCH)
            while upto < most:  # between them is the first that does not arrive in the span
                middle = (upto + most) >> 1
                if state.arrivals[place + middle].time < state.span.end:
                    upto = middle + 1
                else:
                    most = middle
            if upto == b.emitted:
                break
            if room(state, operator) < upto - b.emitted:
                return lacks(state, upto - b.emitted)
            state.span.most += upto - b.emitted
            send_arrivals(state, operator, source, upto)
        if state.watermarks and not send_ticks(state, operator, source):
            return GROW
        state.progress.next += 1
    state.progress.phase = LINK_OLD
    state.progress.next = 0
    return DONE


@kernel
def _begin(state: State, task: Any, item: Any, start: int, ns: int) -> None:
    """A service begins; it is done if it ends in the span."""
    t = state.servers[task]
    end = start + ns
    occupy(state, task, end)
    if state.saves and t.threads > 1:
        note_start(state, item.partition, end)
    # A service that ends in the span waits in the batch for its effects; a later one stays with its thread.
    if end < state.span.end:
        slot = state.done[state.progress.done]
        state.progress.done += 1
        t.busy += ns
    else:
        slot = state.slots[t.first_thread + t.serving]
        t.serving += 1
    _serve(slot, item, task, start, end)


@kernel
def _serve(slot: Any, item: Any, task: Any, start: int, end: int) -> None:
    """Write down a service."""
    slot.at = item.at
    slot.id = item.id
    slot.created = item.created
    slot.key = item.key
    slot.partition = item.partition
    slot.origin = task
    slot.start = start
    slot.end = end


@kernel
def _operator(state: State, operator: int) -> int:
    """Services of an operator in the span: those under way, the queues, then what arrives."""
    op = state.operators[operator]
    # Three phases, in the order of the starts: services and queues from before the span, sorting, and new arrivals. A
    # task is first in, first out, so nothing that arrives now can start before what has waited.
    if state.options.keeps_histograms and not state.saves and op.is_sink and not op.has_service:
        return DONE if absorb(state, operator) else GROW
    if state.progress.phase == _OLD:
        why = _go_on(state, operator)
        if why != DONE:
            return why
        state.progress.phase = _SORT
    if state.progress.phase == _SORT:
        if state.times.shape[0] < state.boxes[operator].n:
            return lacks(state, 1)
        gather(state, operator)
        if state.saves and not log_fits(state, operator, state.progress.due):
            return CHECKPOINTS_FULL
        state.progress.phase = _NEW
        state.progress.next = 0
        state.span.most = max(state.span.most, state.progress.due)
    if state.progress.phase == _NEW:
        why = _take_in(state, operator) if state.operators[operator].has_service else _pass_on(state, operator)
        if why != DONE:
            return why
        if state.watermarks and op.timer > 0 and not emit_timers(state, operator):
            return GROW
        _keep_the_rest(state, operator)
        state.progress.phase = LINK_OLD
        state.progress.next = 0
    return DONE


@kernel
def _go_on(state: State, operator: int) -> int:  # noqa: PLR0912 - stops anywhere for want of room
    """Go on with what was in service before the span, in the order of the starts; then with the queues."""
    stage = state.stages[operator]
    while True:
        if state.progress.done == state.done.shape[0] and not _complete(state, operator):
            return GROW
        if state.progress.next == stage.tasks:
            break
        task = state.stage_tasks[stage.first_task + state.progress.next]
        t, q = state.servers[task], state.queues[task]
        kept = 0
        for k in range(t.first_thread, t.first_thread + t.serving):
            if state.slots[k].end < state.span.end and state.progress.done < state.done.shape[0]:
                state.done[state.progress.done] = state.slots[k]
                state.progress.done += 1
                t.busy += state.slots[k].end - state.slots[k].start
            else:
                if kept < k - t.first_thread:
                    state.slots[t.first_thread + kept] = state.slots[k]
                kept += 1
        t.serving = kept
        if state.progress.done == state.done.shape[0]:
            continue
        placed = state.options.placed
        if q.n > 0 and t.threads == 1 and not state.saves and not placed:  # the fast path, piece by piece in registers
            _empty_queue(state, task)
        while q.n > 0 and state.progress.done < state.done.shape[0]:
            start = earliest(state, task)
            if start >= state.span.end:
                break
            e = state.chunks[q.head * CHUNK + q.head_place]
            if is_held(state, e):
                if not has_chunk(state, state.options.aside):
                    return lacks(state, 1)
                append(state, state.options.aside, e, e.ns)
            else:
                _begin(state, task, e, max(start, e.at), e.ns)
            remove_first(state, task)
        if state.progress.done < state.done.shape[0]:
            state.progress.next += 1
    return DONE


@kernel
def _empty_queue(state: State, task: Any) -> None:
    """Services of one thread from its queue, piece by piece, as long as they end in the span and `done` has room."""
    t, q = state.servers[task], state.queues[task]
    free, until, busy = t.free, state.span.end, 0
    while q.n > 0:
        first = q.head * CHUNK + q.head_place
        n = min(q.n, CHUNK - q.head_place, state.done.shape[0] - state.progress.done)
        made = state.progress.done
        for k in range(first, first + n):
            e = state.chunks[k]
            start = max(free, e.at)
            end = start + e.ns
            if end >= until:
                break
            _serve(state.done[made], e, task, start, end)
            busy += end - start
            free = end
            made += 1
        ended = made - state.progress.done
        state.progress.done = made
        if ended == 0:
            break
        q.n -= ended - 1
        q.gone += ended - 1
        q.head_place += ended - 1
        remove_first(state, task)
        if ended < n:
            break
    t.free = free
    t.busy += busy


@kernel
def _fetch(state: State, operator: int, first: int, n: int) -> None:
    """Make `done` n of those that arrive, from number `first` on, so that the box is read out of order only here."""
    place = state.boxes[operator].first
    for k in range(n):
        e, done = state.box[place + state.order[first + k]], state.done[k]
        done.at = e.at
        done.id = e.id
        done.created = e.created
        done.key = e.key
        done.partition = e.partition
        done.origin = state.partition_task[e.partition]
        state.ids[k] = e.id
    if state.options.placed:
        for k in range(n):
            done = state.done[k]
            done.origin = task_for(state, done.partition, done.created)


@kernel
def _draw(state: State, operator: int, n: int) -> None:
    """The service times of the first n of `done`."""
    draw_times(state, operator, n)
    if state.stages[operator].scaled:
        for k in range(n):
            speed = state.servers[state.done[k].origin].speed
            if speed != 1.0:
                state.drawn[k] = max(1, np.int64(np.rint(state.drawn[k] / speed)))


@kernel
def _complete(state: State, operator: int) -> bool:
    """Effects of all that is done; False if there is no room for them yet."""
    if state.watermarks:
        return finish(state, operator)
    return complete(state, operator)


@kernel
def _take_no_time(state: State, operator: int, first: int, n: int) -> None:
    """Of the first n of `done` watermarks take no time."""
    for k in range(n):
        if state.done[k].key == MARK:
            state.drawn[k] = 0
    if state.operators[operator].joins != NONE:
        mark_sides(state, operator, first, n)


@kernel
def _take_in(state: State, operator: int) -> int:
    """Serve the arrivals of the span, a batch at a time: draw service times, take turns, then complete."""
    while True:
        if not _complete(state, operator):
            return GROW
        if state.progress.next == state.progress.due:
            return DONE
        n = min(state.done.shape[0], state.progress.due - state.progress.next)
        _fetch(state, operator, state.progress.next, n)
        _draw(state, operator, n)
        if state.watermarks:
            _take_no_time(state, operator, state.progress.next, n)
        if not _take_turns(state, operator, n):
            return lacks(state, 1)


@kernel
def _take_turns(state: State, operator: int, n: int) -> bool:
    """Take the turns of the first n of `done`; those that end in the span stay there. False if the queues lack room."""
    place = state.boxes[operator].first
    first, until = state.progress.next, state.span.end
    made = 0
    for k in range(n):
        e = state.done[k]
        task = np.int64(e.origin)
        t = state.servers[task]
        # The thread that is free first takes the tuple. If none is free in the span it waits, and so does all that
        # comes to the task after it; the next span begins with the queue. Where its turn has come and its key group has
        # not, it waits aside.
        start = earliest(state, task)
        waits_at = task if start >= until else state.options.aside if is_held(state, e) else NONE
        if waits_at != NONE and not has_chunk(state, waits_at):
            state.progress.done = made
            state.progress.next = first + k
            return False
        if state.saves:
            note_arrival(state, e.partition, state.box[place + state.order[first + k]].origin, e.at)
        if waits_at != NONE:
            append(state, waits_at, e, state.drawn[k])
            continue
        start = max(start, e.at)
        end = start + state.drawn[k]
        occupy(state, task, end)
        if state.saves and t.threads > 1:
            note_start(state, e.partition, end)
        e.start = start
        e.end = end
        if end < until:
            t.busy += end - start
            if made < k:  # close the gap that those that wait or go on have left
                state.done[made] = e
            made += 1
        else:
            state.slots[t.first_thread + t.serving] = e
            t.serving += 1
    state.progress.done = made
    state.progress.next = first + n
    return True


@kernel
def _pass_on(state: State, operator: int) -> int:
    """Complete the arrivals of the span at an operator without a service at once."""
    place = state.boxes[operator].first
    while True:
        if not _complete(state, operator):
            return GROW
        if state.progress.next == state.progress.due:
            return DONE
        first, n = state.progress.next, min(state.done.shape[0], state.progress.due - state.progress.next)
        _fetch(state, operator, first, n)
        for k in range(n):
            done = state.done[k]
            done.start = done.at
            done.end = done.at
            if state.saves:
                note_arrival(state, done.partition, state.box[place + state.order[first + k]].origin, done.at)
        state.progress.done = n
        state.progress.next = first + n


@kernel
def _keep_the_rest(state: State, place: int) -> None:
    """Keep what arrives after the span in the box, in order."""
    b = state.boxes[place]
    rest = b.n - state.progress.due
    for k in range(rest):
        if state.kept[k] != k:
            state.box[b.first + k] = state.box[b.first + state.kept[k]]
    b.n = rest
