"""The scan: a span of the run, operator after operator, where every task is a first-in-first-out server of its own.

The n-th tuple of a task ends at D[n] = max(A[n], D[n-1]) + S[n] (Lindley 1952, in departures); with c threads the
earliest of c takes the place of D[n-1] (Kiefer and Wolfowitz 1955). So no event is needed: what an operator sends in a
span [begin, end) follows from what reaches it before its end, and operators are done in the order of the dataflow.
A service starts in the span only if it starts before its end; a tuple whose turn comes later stays in the queue, and
what is in service at the end, or on its way, is done in a later span.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.scan.checkpoints import checkpoints_fit, next_cut, process_checkpoints, take_turns
from sim.kernel.scan.draws import draw_times
from sim.kernel.scan.entities import BATCH, CHECKPOINTS_FULL, CHUNK, DONE, FLUSH, GROW, REFILL
from sim.kernel.scan.gather import gather
from sim.kernel.scan.kept import log_fits, note_arrival, note_start
from sim.kernel.scan.links import LINK_OLD, lacks, send_over_links
from sim.kernel.scan.queues import append, has_chunk, remove_first
from sim.kernel.scan.rows import sort_rows
from sim.kernel.scan.send import absorb, complete, count_second, room, send_arrivals, sum_up_messages
from sim.kernel.scan.servers import earliest, occupy
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

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
    ],
    align=True,
)

REQUESTS = np.dtype(
    [
        ("need", "i8"),  # completed services that there must be room for
        ("refill", "i8"),  # source whose arrivals have run out
    ],
    align=True,
)


_KEPT = 8  # of a block of arrivals at most such a part is copied, because the next comes before it is used up
_SECOND = 1_000_000_000
_LONGEST = 998 * _SECOND  # seconds of a span are counted one by one
_OLD, _SORT, _NEW = range(3)  # phases of an operator, before those of its links


@kernel
def _plan_span(s: State, until: int) -> bool:
    """Say where the next span ends; False if arrivals are missing for it."""
    end = min(until, s.span.begin + s.span.length)
    if s.span.length <= _SECOND:
        end = min(end, (s.span.begin // _SECOND + 1) * _SECOND)  # messages are counted by the second
    if s.saves:
        end = min(end, s.span.begin + s.round.interval)  # so no partition has two checkpoints in a span
        end = min(end, next_cut(s))
    for source in range(s.sources.shape[0]):
        b = s.sources[source]
        if not b.more:
            continue
        last = s.arrivals[b.offset + b.have - 1 - b.base].time if b.have > b.base else -1
        if last < end:
            if b.have - b.emitted < s.options.block // _KEPT or last <= s.span.begin:
                s.requests.refill = source
                return False
            end = last
    s.span.end = end
    return True


@kernel
def _choose_length(s: State) -> None:
    """Make the next span longer or shorter, so that about `aim` tuples come to an operator in it."""
    if s.span.most > 2 * s.span.aim and s.span.end - s.span.begin <= s.span.length:
        s.span.length = max(s.span.shortest, s.span.length // 2)
    elif 2 * s.span.most < s.span.aim and s.span.end - s.span.begin >= s.span.length:
        s.span.length = min(_LONGEST, 2 * s.span.length)


@kernel
def advance(s: State, until: int) -> int:
    """Do everything before an instant; returns why it stopped."""
    while s.span.begin < until:
        if s.span.end == s.span.begin:
            if s.sent.rows + s.messages.shape[0] > s.message_rows.shape[0]:
                return FLUSH
            if s.saves:
                if not checkpoints_fit(s):
                    return CHECKPOINTS_FULL
                take_turns(s)
            if not _plan_span(s, until):
                return REFILL
            s.progress.place = 0
            s.progress.phase = 0
            s.progress.next = 0
            s.span.most = 0
        while s.progress.place < s.options.operators:
            operator = s.topological[s.progress.place]
            why = _source(s, operator) if s.operators[operator].is_source else _operator(s, operator)
            if not s.saves and why == DONE and s.stages[operator].limited:
                why = send_over_links(s, operator)
            if why != DONE:
                return why
            count_second(s, operator, s.span.end)
            s.progress.place += 1
            s.progress.phase = 0
            s.progress.next = 0
        if not s.options.keeps_histograms and not sort_rows(s):
            return GROW
        sum_up_messages(s)
        if s.saves:
            process_checkpoints(s)
        _choose_length(s)
        s.span.begin = s.span.end
    return DONE


@kernel
def _source(s: State, operator: int) -> int:
    """Emit what arrives in the span."""
    stage = s.stages[operator]
    if s.progress.phase > _NEW:
        return DONE
    while s.progress.next < stage.sources:
        source = stage.first_source + s.progress.next
        b = s.sources[source]
        place = b.offset - b.base
        while True:
            upto, most = b.emitted, min(b.have, b.emitted + BATCH)
            while upto < most:  # between them is the first that does not arrive in the span
                middle = (upto + most) >> 1
                if s.arrivals[place + middle].time < s.span.end:
                    upto = middle + 1
                else:
                    most = middle
            if upto == b.emitted:
                break
            if room(s, operator) < upto - b.emitted:
                return lacks(s, upto - b.emitted)
            s.span.most += upto - b.emitted
            send_arrivals(s, operator, source, upto)
        s.progress.next += 1
    s.progress.phase = LINK_OLD
    s.progress.next = 0
    return DONE


@kernel
def _begin(s: State, task: Any, e: Any, start: int, ns: int) -> None:
    """A service begins; it is done if it ends in the span."""
    t = s.servers[task]
    end = start + ns
    occupy(s, task, end)
    if s.saves and t.threads > 1:
        note_start(s, e.partition, end)
    if end < s.span.end:
        slot = s.done[s.progress.done]
        s.progress.done += 1
        t.busy += ns
    else:
        slot = s.slots[t.first_thread + t.serving]
        t.serving += 1
    _serve(slot, e, task, start, end)


@kernel
def _serve(slot: Any, e: Any, task: Any, start: int, end: int) -> None:
    """Write down a service."""
    slot.at = e.at
    slot.id = e.id
    slot.created = e.created
    slot.key = e.key
    slot.partition = e.partition
    slot.origin = task
    slot.start = start
    slot.end = end


@kernel
def _operator(s: State, operator: int) -> int:
    """Services of an operator in the span: those under way, the queues, then what arrives."""
    op = s.operators[operator]
    if s.options.keeps_histograms and not s.saves and op.is_sink and not op.has_service:
        return DONE if absorb(s, operator) else GROW
    if s.progress.phase == _OLD:
        why = _go_on(s, operator)
        if why != DONE:
            return why
        s.progress.phase = _SORT
    if s.progress.phase == _SORT:
        if s.times.shape[0] < s.boxes[operator].n:
            return lacks(s, 1)
        gather(s, operator)
        if s.saves and not log_fits(s, operator, s.progress.due):
            return CHECKPOINTS_FULL
        s.progress.phase = _NEW
        s.progress.next = 0
        s.span.most = max(s.span.most, s.progress.due)
    if s.progress.phase == _NEW:
        why = _take_in(s, operator) if s.operators[operator].has_service else _pass_on(s, operator)
        if why != DONE:
            return why
        _keep_the_rest(s, operator)
        s.progress.phase = LINK_OLD
        s.progress.next = 0
    return DONE


@kernel
def _go_on(s: State, operator: int) -> int:
    """What was in service before the span, in the order of the starts; then the queues."""
    stage = s.stages[operator]
    while True:
        if s.progress.done == s.done.shape[0] and not complete(s, operator):
            return GROW
        if s.progress.next == stage.tasks:
            break
        task = np.int64(stage.first_task + s.progress.next)
        t, q = s.servers[task], s.queues[task]
        kept = 0
        for k in range(t.first_thread, t.first_thread + t.serving):
            if s.slots[k].end < s.span.end and s.progress.done < s.done.shape[0]:
                s.done[s.progress.done] = s.slots[k]
                s.progress.done += 1
                t.busy += s.slots[k].end - s.slots[k].start
            else:
                if kept < k - t.first_thread:
                    s.slots[t.first_thread + kept] = s.slots[k]
                kept += 1
        t.serving = kept
        if s.progress.done == s.done.shape[0]:
            continue
        if q.n > 0 and t.threads == 1 and not s.saves:
            _empty_queue(s, task)
        while q.n > 0 and s.progress.done < s.done.shape[0]:
            start = earliest(s, task)
            if start >= s.span.end:
                break
            e = s.chunks[q.head * CHUNK + q.head_place]
            _begin(s, task, e, max(start, e.at), e.ns)
            remove_first(s, task)
        if s.progress.done < s.done.shape[0]:
            s.progress.next += 1
    return DONE


@kernel
def _empty_queue(s: State, task: Any) -> None:
    """Services of one thread from its queue, piece by piece, as long as they end in the span and `done` has room."""
    t, q = s.servers[task], s.queues[task]
    free, until, busy = t.free, s.span.end, 0
    while q.n > 0:
        first = q.head * CHUNK + q.head_place
        n = min(q.n, CHUNK - q.head_place, s.done.shape[0] - s.progress.done)
        made = s.progress.done
        for k in range(first, first + n):
            e = s.chunks[k]
            start = max(free, e.at)
            end = start + e.ns
            if end >= until:
                break
            _serve(s.done[made], e, task, start, end)
            busy += end - start
            free = end
            made += 1
        ended = made - s.progress.done
        s.progress.done = made
        if ended == 0:
            break
        q.n -= ended - 1
        q.head_place += ended - 1
        remove_first(s, task)
        if ended < n:
            break
    t.free = free
    t.busy += busy


@kernel
def _fetch(s: State, operator: int, first: int, n: int) -> None:
    """Make `done` n of those that arrive, from number `first` on, so that the box is read out of order only here."""
    place = s.boxes[operator].first
    for k in range(n):
        e, done = s.box[place + s.order[first + k]], s.done[k]
        done.at = e.at
        done.id = e.id
        done.created = e.created
        done.key = e.key
        done.partition = e.partition
        done.origin = s.partition_task[e.partition]
        s.ids[k] = e.id


@kernel
def _draw(s: State, operator: int, n: int) -> None:
    """The service times of the first n of `done`."""
    draw_times(s, operator, n)
    if s.stages[operator].scaled:
        for k in range(n):
            speed = s.servers[s.done[k].origin].speed
            if speed != 1.0:
                s.drawn[k] = max(1, np.int64(np.rint(s.drawn[k] / speed)))


@kernel
def _take_in(s: State, operator: int) -> int:
    """What arrives in the span: its service times, then its turns, then what it sets off."""
    while True:
        if s.progress.done > 0 and not complete(s, operator):
            return GROW
        if s.progress.next == s.progress.due:
            return DONE
        n = min(s.done.shape[0], s.progress.due - s.progress.next)
        _fetch(s, operator, s.progress.next, n)
        _draw(s, operator, n)
        if not _take_turns(s, operator, n):
            return lacks(s, 1)


@kernel
def _take_turns(s: State, operator: int, n: int) -> bool:
    """The turns of the first n of `done`; those that end in the span stay there. False if the queues lack room."""
    place = s.boxes[operator].first
    first, until = s.progress.next, s.span.end
    made = 0
    for k in range(n):
        e = s.done[k]
        task = np.int64(e.origin)
        t = s.servers[task]
        start = earliest(s, task)
        if start >= until and not has_chunk(s, task):
            s.progress.done = made
            s.progress.next = first + k
            return False
        if s.saves:
            note_arrival(s, e.partition, s.box[place + s.order[first + k]].origin, e.at)
        if start >= until:
            append(s, task, e, s.drawn[k])
            continue
        start = max(start, e.at)
        end = start + s.drawn[k]
        occupy(s, task, end)
        if s.saves and t.threads > 1:
            note_start(s, e.partition, end)
        e.start = start
        e.end = end
        if end < until:
            t.busy += end - start
            if made < k:
                s.done[made] = e
            made += 1
        else:
            s.slots[t.first_thread + t.serving] = e
            t.serving += 1
    s.progress.done = made
    s.progress.next = first + n
    return True


@kernel
def _pass_on(s: State, operator: int) -> int:
    """What arrives in the span at an operator without a service is done at once."""
    place = s.boxes[operator].first
    while True:
        if s.progress.done > 0 and not complete(s, operator):
            return GROW
        if s.progress.next == s.progress.due:
            return DONE
        first, n = s.progress.next, min(s.done.shape[0], s.progress.due - s.progress.next)
        _fetch(s, operator, first, n)
        for k in range(n):
            done = s.done[k]
            done.start = done.at
            done.end = done.at
            if s.saves:
                note_arrival(s, done.partition, s.box[place + s.order[first + k]].origin, done.at)
        s.progress.done = n
        s.progress.next = first + n


@kernel
def _keep_the_rest(s: State, place: int) -> None:
    """What arrives later stays in the box, in order."""
    b = s.boxes[place]
    rest = b.n - s.progress.due
    for k in range(rest):
        if s.kept[k] != k:
            s.box[b.first + k] = s.box[b.first + s.kept[k]]
    b.n = rest
