"""Links that are shared evenly: each of the n channels with something to send advances at 1/n of the rate.

What is left of the first message of a channel is a whole number of ns of the whole link. Whenever a channel begins or
a message leaves, it is reduced by the time since the last such change / n, rounded down: by the same for all, so that
one count for each host (`done`) stands for what is taken off all of them, and their order never changes.
"""

from __future__ import annotations

import numpy as np

from sim.clock import ARRIVAL, LINK, MESSAGE, RECEIVER
from sim.kernel.event_loop.codes import ARRIVE, AT_REMOTE, BUNDLE, COME, DEPART, MARKED, NONE, REPLAY, STORED
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.free_lists import free_transfer, free_visit
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.event_loop.link_use import count_tuples, leaves_alone
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

FAIR_LINKS = np.dtype([("lanes", "i8")])  # in use


# A message on a link that is shared evenly: `ref` is a visit, the first of a replay, or a transfer, as `kind` says.
# `tuples` is how many tuples it has, `posted` when it was sent, `alone` when it would have left without checkpoints.
PARCEL = np.dtype(
    [
        ("work", "i8"),
        ("serial", "i8"),
        ("posted", "i8"),
        ("alone", "i8"),
        ("kind", "i4"),
        ("ref", "i4"),
        ("next", "i4"),
        ("tuples", "i4"),
    ],
    align=True,
)

# A channel over such a link. Those with something to send are a list at the host in the order in which their first
# messages leave: when `done` of the host has come to `finish`, of equals the one that was sent first.
LANE = np.dtype(
    [
        ("finish", "i8"),
        ("serial", "i8"),  # of the first message
        ("origin", "i4"),
        ("receiver", "i4"),
        ("host", "i4"),
        ("first", "i4"),
        ("last", "i4"),
        ("before", "i4"),
        ("next", "i4"),
    ],
    align=True,
)


_NS = 1e9


@kernel
def fair_room(s: State, need: int) -> bool:
    """Whether there is room for so many messages."""
    return not s.options.fair or (s.parcel_pool.left >= need and s.fair_links.lanes + need <= s.lanes.shape[0])


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
    n = s.fair_links.lanes
    s.fair_links.lanes = n + 1
    index[k] = n
    lane = s.lanes[n]
    lane.origin = origin
    lane.receiver = receiver
    lane.host = host
    lane.first = lane.last = NONE
    return n


@kernel
def _work_off(s: State, host: int) -> None:
    h, now = s.hosts[host], s.clock.now
    if h.active > 0:
        h.link_done += (now - h.link_changed) // h.active
    h.link_changed = now


@kernel
def _set_departure(s: State, host: int) -> None:
    """Say when the next message leaves; an event that is set for an earlier instant looks again then."""
    h = s.hosts[host]
    if h.active == 0:
        return
    h.due = s.clock.now + (s.lanes[h.first_lane].finish - h.link_done) * h.active
    if h.alarm == NONE or h.due < h.alarm:
        h.alarm = h.due
        push(s, h.due, LINK + host, next_serial(s), DEPART, host)


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
    p = s.parcel_pool.free
    parcel = s.parcels[p]
    s.parcel_pool.free = parcel.next
    s.parcel_pool.left -= 1
    parcel.work = np.int64(np.rint(size * _NS / s.hosts[host].rate))
    parcel.serial = next_serial(s)
    parcel.kind = kind
    parcel.ref = ref
    parcel.next = NONE
    parcel.tuples = tuples
    parcel.posted = s.clock.now
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
        h.upload_left = s.clock.now
        return
    met = h.uploads > 0 or h.upload_left > parcel.posted
    count_tuples(s, host, parcel.tuples, s.clock.now - parcel.alone if met else 0)


@kernel
def _free_parcel(s: State, p: int) -> None:
    s.parcels[p].next = s.parcel_pool.free
    s.parcel_pool.free = p
    s.parcel_pool.left += 1


@kernel
def depart(s: State, host: int) -> None:
    """A message leaves the link, if one is due."""
    h = s.hosts[host]
    if h.alarm == s.clock.now:
        h.alarm = NONE
    if h.active == 0:
        return
    if h.due != s.clock.now:
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
    h = s.hosts[host]
    if h.alarm == NONE:
        h.alarm = h.due
        push(s, h.due, LINK + host, next_serial(s), DEPART, host)


@kernel
def _left(s: State, kind: int, ref: int, origin: int, receiver: int) -> None:
    """The message has left: set the event of its arrival."""
    arrival = s.clock.now + s.options.latency
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
            s.visits[ref].key = s.clock.now
    elif kind == REPLAY:
        _note_arrival(s, ref, arrival)
    else:
        s.transfers[ref].departure = s.clock.now
    push(s, arrival, rank + receiver * RECEIVER + origin, next_serial(s), kind, ref)


@kernel
def _note_arrival(s: State, v: int, arrival: int) -> None:
    """The tuples of a chain arrive then."""
    while v != NONE:
        s.visits[v].arrival = arrival
        v = s.visits[v].next


@kernel
def close_link(s: State, host: int) -> None:
    """The host died: nothing leaves any more. Visits that were on the link are left to those who drop them."""
    h = s.hosts[host]
    n = h.first_lane
    while n != NONE:
        lane = s.lanes[n]
        p = lane.first
        while p != NONE:
            following = s.parcels[p].next
            if _is_upload(s.parcels[p].kind):
                ref = s.parcels[p].ref
                free_transfer(s, ref)
            elif s.parcels[p].kind == COME or s.parcels[p].kind == MARKED:
                ref = s.parcels[p].ref
                free_visit(s, ref)
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
    last = NONE
    for n in range(s.fair_links.lanes):
        lane = s.lanes[n]
        if lane.receiver != task or lane.first == NONE or not operators[s.tasks[lane.origin].operator]:
            continue
        h = s.hosts[lane.host]
        left = lane.finish - h.link_done - (s.clock.now - h.link_changed) // h.active
        p = lane.first
        while p != NONE and s.parcels[p].serial < before:
            if _has_tuples(s, p):
                last = max(last, s.clock.now + left + s.options.latency)
            p = s.parcels[p].next
            if p != NONE:
                left += s.parcels[p].work
    return last
