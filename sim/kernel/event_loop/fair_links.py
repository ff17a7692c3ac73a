"""Links that are shared evenly: each of the n channels with something to send advances at 1/n of the rate.

What is left of the first message of a channel is a whole number of ns of the whole link. Whenever a channel begins or
a message leaves, it is reduced by the time since the last such change / n, rounded down: by the same for all, so that
one count for each host (`done`) stands for what is taken off all of them, and their order never changes.
"""

from __future__ import annotations

import numpy as np

from sim.clock import ARRIVAL, LINK, MESSAGE, RECEIVER
from sim.kernel.event_loop.events import push
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.event_loop.link_use import count_tuples, leaves_alone
from sim.kernel.event_loop.state import ARRIVE, AT_REMOTE, BUNDLE, COME, DEPART, MARKED, NONE, REPLAY, STORED
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

_NS = 1e9


@kernel
def fair_room(s: State, need: int) -> bool:
    """Whether there is room for so many messages."""
    run = s.run[0]
    return not run.fair or (run.parcels_left >= need and run.lanes_used + need <= s.lanes.shape[0])


@kernel
def rehash_lanes(lanes: np.ndarray, used: int, index: np.ndarray) -> None:
    """Enter all channels into an empty index."""
    size = index.shape[0]
    for n in range(used):
        k = slot_of(lanes[n].origin, lanes[n].receiver, size)
        while index[k] != NONE:
            k = (k + 1) & (size - 1)
        index[k] = n


@kernel
def _lane_of(s: State, host: int, origin: int, receiver: int) -> int:
    """The number of a channel, which is made if there is none yet."""
    index, size = s.lane_index, s.lane_index.shape[0]
    k = slot_of(origin, receiver, size)
    while index[k] != NONE:
        n = index[k]
        if s.lanes[n].origin == origin and s.lanes[n].receiver == receiver:
            return n
        k = (k + 1) & (size - 1)
    n = s.run[0].lanes_used
    s.run[0].lanes_used = n + 1
    index[k] = n
    lane = s.lanes[n]
    lane.origin = origin
    lane.receiver = receiver
    lane.host = host
    lane.first = lane.last = NONE
    return n


@kernel
def _work_off(s: State, host: int) -> None:
    h, now = s.hosts[host], s.run[0].now
    if h.active > 0:
        h.link_done += (now - h.link_changed) // h.active
    h.link_changed = now


@kernel
def _set_departure(s: State, host: int) -> None:
    """Say when the next message leaves; an event that is set for an earlier instant looks again then."""
    h, run = s.hosts[host], s.run[0]
    if h.active == 0:
        return
    h.due = run.now + (s.lanes[h.first_lane].finish - h.link_done) * h.active
    if h.alarm == NONE or h.due < h.alarm:
        h.alarm = h.due
        push(s, h.due, LINK + host, run.serial, DEPART, host)
        run.serial += 1


@kernel
def _put_in_order(s: State, host: int, n: int) -> None:
    """The first message of the channel is new: find its place among those that leave."""
    h, lane = s.hosts[host], s.lanes[n]
    parcel = s.parcels[lane.first]
    lane.finish = h.link_done + parcel.work
    lane.serial = parcel.serial
    before = h.last_lane
    while before != NONE:
        other = s.lanes[before]
        if other.finish < lane.finish or (other.finish == lane.finish and other.serial < lane.serial):
            break
        before = other.before
    lane.before = before
    if before == NONE:
        lane.next = h.first_lane
        h.first_lane = n
    else:
        lane.next = s.lanes[before].next
        s.lanes[before].next = n
    if lane.next == NONE:
        h.last_lane = n
    else:
        s.lanes[lane.next].before = n


@kernel
def post(s: State, host: int, origin: int, receiver: int, size: int, kind: int, ref: int, tuples: int) -> None:
    """Send a message of so many tuples over the link; what happens when it arrives is an event of that kind."""
    run = s.run[0]
    p = run.free_parcel
    parcel = s.parcels[p]
    run.free_parcel = parcel.next
    run.parcels_left -= 1
    parcel.work = np.int64(np.rint(size * _NS / s.hosts[host].rate))
    parcel.serial = run.serial
    run.serial += 1
    parcel.kind = kind
    parcel.ref = ref
    parcel.next = NONE
    parcel.tuples = tuples
    parcel.posted = run.now
    if _is_upload(kind):
        s.hosts[host].uploads += 1
    else:
        parcel.alone = leaves_alone(s, host, parcel.work)
    n = _lane_of(s, host, origin, receiver)
    lane = s.lanes[n]
    if lane.first != NONE:
        s.parcels[lane.last].next = p
        lane.last = p
        return
    lane.first = lane.last = p
    _work_off(s, host)
    _put_in_order(s, host, n)
    s.hosts[host].active += 1
    _set_departure(s, host)


@kernel
def _is_upload(kind: int) -> bool:
    return kind in (STORED, AT_REMOTE)


@kernel
def _count_use(s: State, host: int, p: int) -> None:
    """A message leaves the link: count its tuples, and what checkpoints that were there with it cost them."""
    h, parcel = s.hosts[host], s.parcels[p]
    if _is_upload(parcel.kind):
        h.uploads -= 1
        h.upload_left = s.run[0].now
        return
    met = h.uploads > 0 or h.upload_left > parcel.posted
    count_tuples(s, host, parcel.tuples, s.run[0].now - parcel.alone if met else 0)


@kernel
def _free_parcel(s: State, p: int) -> None:
    run = s.run[0]
    s.parcels[p].next = run.free_parcel
    run.free_parcel = p
    run.parcels_left += 1


@kernel
def depart(s: State, host: int) -> None:
    """A message leaves the link, if one is due."""
    h, run = s.hosts[host], s.run[0]
    if h.alarm == run.now:
        h.alarm = NONE
    if h.active == 0:
        return
    if h.due != run.now:
        _set_alarm(s, host)
        return
    _work_off(s, host)
    n = h.first_lane
    lane = s.lanes[n]
    h.first_lane = lane.next
    if lane.next == NONE:
        h.last_lane = NONE
    else:
        s.lanes[lane.next].before = NONE
    p = lane.first
    lane.first = s.parcels[p].next
    if lane.first == NONE:
        lane.last = NONE
        h.active -= 1
    else:
        _put_in_order(s, host, n)
    _set_departure(s, host)
    _count_use(s, host, p)
    kind, ref = s.parcels[p].kind, s.parcels[p].ref
    _free_parcel(s, p)
    _left(s, kind, ref, lane.origin, lane.receiver)


@kernel
def _set_alarm(s: State, host: int) -> None:
    h, run = s.hosts[host], s.run[0]
    if h.alarm == NONE:
        h.alarm = h.due
        push(s, h.due, LINK + host, run.serial, DEPART, host)
        run.serial += 1


@kernel
def _left(s: State, kind: int, ref: int, origin: int, receiver: int) -> None:
    """The message has left: set the event of its arrival."""
    run = s.run[0]
    arrival = run.now + run.latency
    rank = MESSAGE
    if kind == MARKED:
        rank = ARRIVAL
    elif kind == ARRIVE:
        rank = ARRIVAL
        s.visits[ref].arrival = arrival
    elif kind == COME:
        rank = ARRIVAL
        if s.visits[ref].kind == BUNDLE:
            _note_arrival(s, s.visits[ref].created, arrival)
        else:
            s.visits[ref].key = run.now
    elif kind == REPLAY:
        _note_arrival(s, ref, arrival)
    else:
        s.transfers[ref].departure = run.now
    push(s, arrival, rank + receiver * RECEIVER + origin, run.serial, kind, ref)
    run.serial += 1


@kernel
def _note_arrival(s: State, v: int, arrival: int) -> None:
    """The tuples of a chain arrive then."""
    while v != NONE:
        s.visits[v].arrival = arrival
        v = s.visits[v].next


@kernel
def close_link(s: State, host: int) -> None:
    """The host died: nothing leaves any more. Visits that were on the link are left to those who drop them."""
    h, run = s.hosts[host], s.run[0]
    n = h.first_lane
    while n != NONE:
        lane = s.lanes[n]
        p = lane.first
        while p != NONE:
            following = s.parcels[p].next
            if _is_upload(s.parcels[p].kind):
                ref = s.parcels[p].ref
                s.transfers[ref].next = run.free_transfer
                run.free_transfer = ref
                run.transfers_left += 1
            elif s.parcels[p].kind == COME or s.parcels[p].kind == MARKED:
                ref = s.parcels[p].ref
                s.visits[ref].next = run.free_visit
                run.free_visit = ref
                run.visits_left += 1
            _free_parcel(s, p)
            p = following
        lane.first = lane.last = NONE
        n = lane.next
    h.first_lane = h.last_lane = NONE
    h.active = 0


@kernel
def _has_tuples(s: State, p: int) -> bool:
    """Whether the message is of tuples, not a watermark or one of a protocol."""
    kind = s.parcels[p].kind
    return kind != MARKED and (kind != COME or s.visits[s.parcels[p].ref].kind == BUNDLE)


@kernel
def least_arrival(s: State, task: int, operators: np.ndarray, before: int) -> int:
    """When the last tuple that was sent to the task before that number, and is on a shared link, arrives at least.

    Or NONE. `operators` (n_operators,) marks the operators that count.
    """
    run, last = s.run[0], NONE
    for n in range(run.lanes_used):
        lane = s.lanes[n]
        if lane.receiver != task or lane.first == NONE or not operators[s.tasks[lane.origin].operator]:
            continue
        h = s.hosts[lane.host]
        left = lane.finish - h.link_done - (run.now - h.link_changed) // h.active
        p = lane.first
        while p != NONE and s.parcels[p].serial < before:
            if _has_tuples(s, p):
                last = max(last, run.now + left + run.latency)
            p = s.parcels[p].next
            if p != NONE:
                left += s.parcels[p].work
    return last
